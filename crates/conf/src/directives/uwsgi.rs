//! ngx_http_uwsgi_module.

use super::proxying::{
    self, Scheme, answer_rows, bind, buffering_rows, ignore_headers, joined, limit_rate,
    next_upstream, param, reaching_rows, temp_path, upstream,
};
use super::proxying_cache::{cache_rows, predicates};
use super::proxying_store::store_rows;
use super::proxying_tls::{certificate, certificate_cache, file, ktls, protocols, tls, tls_rows};
use super::{Arity, HSL, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::call::{Call, Fault};
use crate::template;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Passing requests to uwsgi servers",
    doc: "A location with `uwsgi_pass` passes requests to uwsgi servers.",
    rows: joined!(OWN, REACHING, ANSWERS, BUFFERING, TLS, CACHING, STORING),
};

const REACHING: &[Row] = reaching_rows!(
    "uwsgi",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, `http_403`, \
     `http_404`, `http_429`"
);
const ANSWERS: &[Row] = answer_rows!("uwsgi");
const BUFFERING: &[Row] = buffering_rows!("uwsgi");
const TLS: &[Row] = tls_rows!("uwsgi");
const CACHING: &[Row] = cache_rows!(
    "uwsgi",
    "",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, \
     `http_403`, `http_404`, `http_429`"
);
const STORING: &[Row] = store_rows!("uwsgi");

const SCHEMES: &[Scheme] = &[
    Scheme {
        prefix: "uwsgi://",
        tls: false,
        port: 0,
    },
    Scheme {
        prefix: "suwsgi://",
        tls: true,
        port: 0,
    },
];

const OWN: &[Row] = &[
    Row::new(
        "uwsgi_pass",
        LOCATION | LOCATION_IF,
        ONE,
        "",
        "Address of the uwsgi server: optionally `uwsgi://`, or `suwsgi://` for TLS, then host and \
         port, the name of an `upstream`, or `unix:PATH`. May contain variables.",
        |b, c| proxying::pass(b, c, SCHEMES, false),
    ),
    Row::new(
        "uwsgi_param",
        HSL,
        Arity::Between(2, 3),
        "",
        "Parameter that is passed to the server, and its value, as in `fastcgi_param`.",
        param,
    ),
    Row::new(
        "uwsgi_modifier1",
        HSL,
        ONE,
        "0",
        "The `modifier1` field of requests, 0 to 255.",
        |b, c| modifier(c, &mut b.location().passing.uwsgi.modifier1),
    ),
    Row::new(
        "uwsgi_modifier2",
        HSL,
        ONE,
        "0",
        "The `modifier2` field of requests, 0 to 255.",
        |b, c| modifier(c, &mut b.location().passing.uwsgi.modifier2),
    ),
    Row::new(
        "uwsgi_string",
        HSL,
        ONE,
        "",
        "String that is appended to the parameters of a request.",
        |b, c| {
            c.once(&b.location().passing.uwsgi.string)?;
            b.location().passing.uwsgi.string = Some(c.arg(1).into());
            Ok(())
        },
    ),
];

fn modifier(c: &Call<'_>, slot: &mut Option<u8>) -> Result<(), Fault> {
    c.once(slot)?;
    let number = values::number(c.arg(1)).ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
    let modifier = u8::try_from(number);
    *slot = Some(modifier.map_err(|_| Fault::at(1, "value must be between 0 and 255"))?);
    Ok(())
}
