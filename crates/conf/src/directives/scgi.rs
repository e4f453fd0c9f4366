//! ngx_http_scgi_module.

use super::proxying::{
    self, answer_rows, bind, buffering_rows, ignore_headers, joined, limit_rate, next_upstream,
    param, reaching_rows, temp_path, upstream,
};
use super::proxying_cache::{cache_rows, predicates};
use super::proxying_store::store_rows;
use super::{Arity, HSL, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row};

pub(super) const MODULE: Module = Module {
    title: "Passing requests to SCGI servers",
    doc: "A location with `scgi_pass` passes requests to SCGI servers.",
    rows: joined!(OWN, REACHING, ANSWERS, BUFFERING, CACHING, STORING),
};

const REACHING: &[Row] = reaching_rows!(
    "scgi",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, `http_403`, \
     `http_404`, `http_429`"
);
const ANSWERS: &[Row] = answer_rows!("scgi");
const BUFFERING: &[Row] = buffering_rows!("scgi");
const CACHING: &[Row] = cache_rows!(
    "scgi",
    "",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_503`, \
     `http_403`, `http_404`, `http_429`"
);
const STORING: &[Row] = store_rows!("scgi");

const OWN: &[Row] = &[
    Row::new(
        "scgi_pass",
        LOCATION | LOCATION_IF,
        ONE,
        "",
        "Address of the SCGI server: host and port, the name of an `upstream`, or `unix:PATH`. \
         May contain variables.",
        |b, c| proxying::pass(b, c, &[], false),
    ),
    Row::new(
        "scgi_param",
        HSL,
        Arity::Between(2, 3),
        "",
        "Parameter that is passed to the server, and its value, as in `fastcgi_param`.",
        param,
    ),
];
