//! ngx_http_fastcgi_module.

use super::proxying::{
    self, answer_rows, bind, buffering_rows, ignore_headers, joined, limit_rate, next_upstream,
    param, reaching_rows, send_lowat_row, temp_path, upstream,
};
use super::proxying_cache::{cache_rows, predicates};
use super::proxying_store::store_rows;
use super::{Arity, HSL, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::call::Fault;

pub(super) const MODULE: Module = Module {
    title: "Passing requests to FastCGI servers",
    doc: "A location with `fastcgi_pass` passes requests to FastCGI servers, such as PHP-FPM.",
    rows: joined!(OWN, REACHING, ANSWERS, BUFFERING, CACHING, STORING),
};

const REACHING: &[Row] = reaching_rows!(
    "fastcgi",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, `http_403`, \
     `http_404`, `http_429`"
);
const ANSWERS: &[Row] = answer_rows!("fastcgi");
const BUFFERING: &[Row] = buffering_rows!("fastcgi");
const CACHING: &[Row] = cache_rows!(
    "fastcgi",
    "",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, \
     `http_403`, `http_404`, `http_429`"
);
const STORING: &[Row] = store_rows!("fastcgi");

/// Groups of a `fastcgi_split_path_info`, without the whole match.
const SPLIT_GROUPS: usize = 2;

const OWN: &[Row] = &[
    Row::new(
        "fastcgi_pass",
        LOCATION | LOCATION_IF,
        ONE,
        "",
        "Address of the FastCGI server: host and port, the name of an `upstream`, or `unix:PATH`. \
         May contain variables.",
        |b, c| proxying::pass(b, c, &[], false),
    ),
    Row::new(
        "fastcgi_param",
        HSL,
        Arity::Between(2, 3),
        "",
        "Parameter that is passed to the server, and its value. With `if_not_empty`, it is passed \
         only if the value is not empty. Inherited only if the current level has no \
         `fastcgi_param`. A parameter that begins with `HTTP_` replaces the client's header \
         field. May contain variables.",
        param,
    ),
    Row::new(
        "fastcgi_index",
        HSL,
        ONE,
        "",
        "File name that is appended in `$fastcgi_script_name` to a URI that ends with a slash.",
        |b, c| {
            c.once(&b.location().passing.fastcgi.index)?;
            b.location().passing.fastcgi.index = Some(c.arg(1).into());
            Ok(())
        },
    ),
    Row::new(
        "fastcgi_split_path_info",
        HSL,
        ONE,
        "",
        "Regular expression with two captures of the URI: `$fastcgi_script_name` and \
         `$fastcgi_path_info`.",
        |b, c| {
            let regex = b.regex(c.text(1)?, false, 1)?;
            if regex.group_count() != SPLIT_GROUPS + 1 {
                let message = format!("pattern \"{}\" must have 2 captures", c.shown(1));
                return Err(Fault::at(1, message));
            }
            b.location().passing.fastcgi.split_path_info = Some(regex);
            Ok(())
        },
    ),
    Row::new(
        "fastcgi_keep_conn",
        HSL,
        ONE,
        "off",
        "Whether a server is asked to keep connections open.",
        |b, c| c.flag(&mut b.location().passing.fastcgi.keep_conn),
    ),
    Row::new(
        "fastcgi_catch_stderr",
        HSL,
        ONE,
        "",
        "String that makes a response invalid if the server's error stream contains it.",
        |b, c| {
            let texts = &mut b.location().passing.fastcgi.catch_stderr;
            texts.get_or_insert_default().push(c.arg(1).into());
            Ok(())
        },
    ),
    send_lowat_row!("fastcgi_send_lowat"),
];
