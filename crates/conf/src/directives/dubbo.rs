//! Tengine's ngx_http_dubbo_module.

use super::proxying::{
    self, answer_rows, bind, ignore_headers, joined, next_upstream, own, reaching_rows, upstream,
};
use super::{Arity, HSL, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{DubboEntry, DubboMethod};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "Passing requests to Dubbo providers",
    doc: "A location with `dubbo_pass` answers with what a method of a Dubbo service returns, as \
          in Tengine. The method takes a map and returns a map: \
          `Map<String, Object> method(Map<String, Object>)`. It gets the request body as `body` \
          (`byte[]`, if there is one), header fields and what `dubbo_pass_set` adds as strings. \
          It returns `status` (a string or a number), `body` (`byte[]` or a string) and header \
          fields. Requests share connections: see `multi` in `upstream`, and \
          [dubbo.md](dubbo.md).",
    rows: &ROWS,
};

const ALL: &[Row] = joined!(OWN, REACHING, ANSWERS);
const ROWS: [Row; ALL.len()] = own(ALL);

const REACHING: &[Row] = reaching_rows!(
    "dubbo",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, \
     `http_504`, `http_403`, `http_404`, `http_429`"
);
const ANSWERS: &[Row] = answer_rows!("dubbo");

const OWN: &[Row] = &[
    Row::new(
        "dubbo_pass",
        LOCATION | LOCATION_IF,
        Arity::Between(4, 4),
        "",
        "Service, version (`0.0.0` for none) and method that are called, and where: the name of \
         an `upstream`, or host and port. All but the last may contain variables.",
        pass,
    ),
    Row::new(
        "dubbo_pass_set",
        LOCATION | LOCATION_IF,
        Arity::Between(2, 2),
        "",
        "Name and value of an entry of the map that the method is called with. Both may contain \
         variables. It replaces a header field of the same name, and is inherited if a level has \
         none of its own.",
        pass_set,
    ),
    Row::new(
        "dubbo_pass_all_headers",
        LOCATION | LOCATION_IF,
        ONE,
        "on",
        "Whether the method gets all header fields of the request, with their names in lower \
         case. (Tengine's documentation has `off` as the default, Tengine itself `on`.)",
        |b, c| c.flag(&mut b.location().passing.dubbo.all_headers),
    ),
    Row::new(
        "dubbo_pass_body",
        LOCATION | LOCATION_IF,
        ONE,
        "on",
        "Whether the method gets the request body.",
        |b, c| c.flag(&mut upstream(b, c).pass_request_body),
    ),
    Row::new(
        "dubbo_heartbeat_interval",
        HSL,
        ONE,
        "60s",
        "Time without a request after which a heartbeat is sent on a connection. A provider that \
         has sent nothing for three times as long is taken for dead.",
        |b, c| c.time(&mut b.location().passing.dubbo.heartbeat_interval),
    ),
    Row::new(
        "dubbo_max_response_size",
        HSL,
        ONE,
        "8m",
        "Maximum size of a response. It is received as a whole before any of it is sent to the \
         client; a larger one is answered with 502.",
        |b, c| c.size(&mut b.location().passing.dubbo.max_response_size),
    ),
];

fn pass(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut part = |index| template::compile(&mut b.names, c.arg(index), index, &c.origin);
    let method = DubboMethod {
        service: part(1)?,
        version: part(2)?,
        name: part(3)?,
    };
    proxying::pass_to_group(b, c, 4)?;
    b.location().passing.dubbo.method = Some(method);
    Ok(())
}

fn pass_set(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let entry = DubboEntry {
        key: template::compile(&mut b.names, c.arg(1), 1, &c.origin)?,
        value: template::compile(&mut b.names, c.arg(2), 2, &c.origin)?,
    };
    let entries = &mut b.location().passing.dubbo.entries;
    entries.get_or_insert_default().push(entry);
    Ok(())
}
