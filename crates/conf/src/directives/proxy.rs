//! ngx_http_proxy_module.

use super::proxying::{
    self, Scheme, answer_rows, bind, buffering_rows, ignore_headers, joined, limit_rate,
    next_upstream, reaching_rows, send_lowat_row, set_header, temp_path, upstream,
};
use super::proxying_cache::{cache_rows, predicates};
use super::proxying_store::store_rows;
use super::proxying_tls::{certificate, certificate_cache, file, ktls, protocols, tls, tls_rows};
use super::{
    Arity, Check, HSL, HTTP, LIMIT_EXCEPT, LOCATION, LOCATION_IF, Module, ONE, Row, STREAM_LEVELS,
    proxy_rewrites,
};
use crate::model::ProxyHttpVersion;
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "Passing requests to HTTP servers",
    doc: "A location with `proxy_pass` passes requests to upstream servers. All `proxy_*` \
          directives except `proxy_pass` are inherited. Directives that may be given several \
          times are inherited only if the current level has none of that name.",
    rows: joined!(
        OWN,
        proxy_rewrites::ROWS,
        REACHING,
        ANSWERS,
        BUFFERING,
        TLS,
        CACHING,
        STORING
    ),
};

const REACHING: &[Row] = reaching_rows!(
    "proxy",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, \
     `http_504`, `http_403`, `http_404`, `http_429`",
    also STREAM_LEVELS
);
const ANSWERS: &[Row] = answer_rows!("proxy", STREAM_LEVELS);
const BUFFERING: &[Row] = buffering_rows!("proxy");
const TLS: &[Row] = tls_rows!("proxy", STREAM_LEVELS);
const CACHING: &[Row] = cache_rows!(
    "proxy",
    "$scheme$proxy_host$request_uri",
    "`error`, `timeout`, `invalid_header`, `non_idempotent`, `http_500`, `http_502`, `http_503`, \
     `http_504`, `http_403`, `http_404`, `http_429`"
);
const STORING: &[Row] = store_rows!("proxy");

const SCHEMES: &[Scheme] = &[
    Scheme {
        prefix: "http://",
        tls: false,
        port: 80,
    },
    Scheme {
        prefix: "https://",
        tls: true,
        port: 443,
    },
];

const OWN: &[Row] = &[
    Row::new(
        "proxy_pass",
        LOCATION | LOCATION_IF | LIMIT_EXCEPT,
        ONE,
        "",
        "Protocol and address of the upstream server: `http://` or `https://`, then a host with an \
         optional port, the name of an `upstream`, or `unix:PATH`, then an optional URI (after a \
         second colon for a socket). The URI replaces the location's prefix in the request URI. \
         May contain variables.",
        |b, c| proxying::pass(b, c, SCHEMES, true),
    ),
    Row::new(
        "proxy_http_version",
        HSL,
        ONE,
        "1.1",
        "HTTP version for requests to the server: `1.0`, `1.1` or `2`.",
        |b, c| {
            use ProxyHttpVersion::{Http2, Http10, Http11};
            c.choice(
                &mut b.location().passing.proxy.http_version,
                &[("1.0", Http10), ("1.1", Http11), ("2", Http2)],
            )
        },
    ),
    Row::new(
        "proxy_method",
        HSL,
        ONE,
        "",
        "Method that replaces the client's in requests to the server. May contain variables.",
        |b, c| {
            c.once(&b.location().passing.proxy.method)?;
            let method = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
            b.location().passing.proxy.method = Some(method);
            Ok(())
        },
    ),
    Row::new(
        "proxy_set_header",
        HSL,
        Arity::Between(2, 2),
        "Host $proxy_host",
        "Sets a header field in requests to the server and replaces the client's. A field with an \
         empty value is not sent. Inherited only if the current level has no `proxy_set_header`. \
         By default, `Host` is `$proxy_host`, and Connection, Keep-Alive, Proxy-Connection, TE, \
         Expect and Upgrade of the client are not sent. May contain variables.",
        set_header,
    ),
    Row::new(
        "proxy_set_body",
        HSL,
        ONE,
        "",
        "Body that replaces the client's in requests to the server. May contain variables.",
        |b, c| {
            c.once(&b.location().passing.proxy.body)?;
            let body = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
            b.location().passing.proxy.body = Some(body);
            Ok(())
        },
    ),
    Row::new(
        "proxy_pass_trailers",
        HSL,
        ONE,
        "off",
        "Whether trailers are passed, from responses to clients and from requests to servers.",
        |b, c| c.flag(&mut b.location().passing.proxy.pass_trailers),
    ),
    Row::new(
        "proxy_cache_convert_head",
        HSL,
        ONE,
        "on",
        "Whether a HEAD request becomes GET on its way to a server, so that the response can be \
         cached. Without it, `proxy_cache_key` should contain `$request_method`.",
        |b, c| c.flag(&mut upstream(b, c).cache.convert_head),
    ),
    Row::meaningless(
        "proxy_headers_hash_bucket_size",
        HSL,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "proxy_headers_hash_max_size",
        HSL,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    send_lowat_row!("proxy_send_lowat"),
];
