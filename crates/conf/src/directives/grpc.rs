//! ngx_http_grpc_module.

use super::proxying::{
    self, Scheme, answer_rows, bind, ignore_headers, joined, next_upstream, reaching_rows,
    set_header, upstream,
};
use super::proxying_tls::{certificate, certificate_cache, file, ktls, protocols, tls, tls_rows};
use super::{Arity, HSL, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "Passing requests to gRPC servers",
    doc: "A location with `grpc_pass` passes requests to gRPC servers, over HTTP/2 and without \
          buffering. Trailers are passed in both directions.",
    rows: joined!(OWN, REACHING, ANSWERS, TLS),
};

const REACHING: &[Row] = reaching_rows!(
    "grpc",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, \
     `http_504`, `http_403`, `http_404`, `http_429`"
);
const ANSWERS: &[Row] = answer_rows!("grpc");
const TLS: &[Row] = tls_rows!("grpc");

const SCHEMES: &[Scheme] = &[
    Scheme {
        prefix: "grpc://",
        tls: false,
        port: 0,
    },
    Scheme {
        prefix: "grpcs://",
        tls: true,
        port: 0,
    },
];

const OWN: &[Row] = &[
    Row::new(
        "grpc_pass",
        LOCATION | LOCATION_IF,
        ONE,
        "",
        "Address of the gRPC server: optionally `grpc://`, or `grpcs://` for TLS, then host and \
         port, the name of an `upstream`, or `unix:PATH`. May contain variables.",
        |b, c| proxying::pass(b, c, SCHEMES, false),
    ),
    Row::new(
        "grpc_set_header",
        HSL,
        Arity::Between(2, 2),
        "Content-Length $content_length",
        "Sets a header field in requests to the server and replaces the client's, as \
         `proxy_set_header`.",
        set_header,
    ),
];
