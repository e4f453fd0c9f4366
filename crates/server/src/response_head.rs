//! Writes the head of a response, in nginx's order.

use crate::clock;
use crate::exchange::Exchange;
use crate::filters::without_line_breaks;
use crate::template;
use sealane_conf::model::ServerTokens;
use sealane_http::date::ImfDate;
use sealane_http::h1::{ConnectionHeader, ResponseHead, encode_response_head, push_fields};
use sealane_http::headers::{FieldValue, HeaderList, KnownHeader};
use std::borrow::Cow;
use std::cell::RefCell;

/// `Server` and the last line of built-in pages, with `server_tokens on`.
const NAME_AND_VERSION: &[u8] = concat!("sealane/", env!("CARGO_PKG_VERSION")).as_bytes();
/// The same with `server_tokens off`.
const NAME: &[u8] = b"sealane";

/// The server's name as `server_tokens` allows, without line breaks; empty if there is to be none.
pub(crate) fn server_name(exchange: &Exchange) -> Cow<'_, [u8]> {
    match &exchange.conf().server_tokens {
        ServerTokens::On | ServerTokens::Build => NAME_AND_VERSION.into(),
        ServerTokens::Off => NAME.into(),
        ServerTokens::Text(text) => without_line_breaks(template::evaluate(text, exchange)),
    }
}

thread_local! {
    /// Where headers are sorted; kept, so that a response needs no allocation.
    static ORDERED: RefCell<HeaderList> = RefCell::new(HeaderList::new());
}

/// Appends the head of a finished response: the status line and all headers.
///
/// The order is nginx's: first what every response has, then, in the order in which they were
/// added, the headers of the handler (`ETag`, `Content-Encoding`, `Location`), of `expires` and
/// `add_header`, and of ranges. HTTP/0.9 gets no head.
pub(crate) fn encode_head(
    exchange: &Exchange,
    out: &mut Vec<u8>,
    connection: ConnectionHeader,
    chunked: bool,
) {
    with_head(exchange, connection, chunked, |head| {
        encode_response_head(out, head);
    });
}

/// Prepares the head of a finished response for an encoder.
pub(crate) fn with_head<T>(
    exchange: &Exchange,
    connection: ConnectionHeader,
    chunked: bool,
    encode: impl FnOnce(&ResponseHead<'_>) -> T,
) -> T {
    ORDERED.with_borrow_mut(|ordered| {
        put_in_order(exchange, ordered);
        let response = &exchange.response;
        let date = clock::http_date();
        let passed = response.passed.as_deref();
        let last_modified = response
            .last_modified_s
            .filter(|_| !passed.is_some_and(|passed| passed.last_modified))
            .map(ImfDate::new);
        let location = response
            .location
            .as_deref()
            .filter(|_| response.location_made_absolute);
        let mut head = ResponseHead::new(exchange.request.head.version, response.status, ordered);
        let valid = |text| FieldValue::new(text).ok();
        let server = server_name(exchange);
        head.server = valid(&server).filter(|_| !server.is_empty());
        head.date = Some(date.as_value());
        let content_type = response.content_type.as_ref();
        head.content_type = content_type.and_then(|text| valid(text.as_bytes()));
        head.content_length = response.content_length;
        head.last_modified = last_modified.as_ref().map(ImfDate::as_value);
        if let Some(passed) = passed {
            head.server = head.server.filter(|_| !passed.server);
            head.date = head.date.filter(|_| !passed.date);
            head.reason = passed.reason.as_deref().and_then(valid);
        }
        head.location = location.and_then(valid);
        head.chunked = chunked;
        head.connection = connection;
        head.vary_accept_encoding = response.varies_by_encoding && exchange.conf().gzip_vary;
        encode(&head)
    })
}

fn put_in_order(exchange: &Exchange, ordered: &mut HeaderList) {
    let response = &exchange.response;
    ordered.clear();
    // The list refuses a value with a line break: better no header than a split response. The
    // filters have replaced line breaks already.
    let mut add = |name, value: &[u8]| {
        let _ = ordered.push_known(name, value);
    };
    // A password was asked for before `error_page` was applied.
    let challenge = match exchange.features.error_page.status_override {
        Some(_) => response.headers.get_known(KnownHeader::WwwAuthenticate),
        None => None,
    };
    if let Some(challenge) = challenge {
        add(KnownHeader::WwwAuthenticate, challenge);
    }
    if let Some(etag) = &response.etag {
        add(KnownHeader::Etag, etag.as_bytes());
    }
    if let Some(coding) = response.content_encoding {
        add(KnownHeader::ContentEncoding, coding.as_bytes());
    }
    if let Some(location) = response
        .location
        .as_deref()
        .filter(|_| !response.location_made_absolute)
    {
        add(KnownHeader::Location, location);
    }
    if challenge.is_none() {
        let _ = ordered.extend(&response.headers);
    } else {
        let is_challenge = |name: &[u8]| name.eq_ignore_ascii_case(b"WWW-Authenticate");
        let first = response
            .headers
            .iter()
            .position(|(name, _)| is_challenge(name));
        for (at, (name, value)) in response.headers.iter().enumerate() {
            if Some(at) != first {
                let _ = ordered.push(name, value);
            }
        }
    }
    if response.allow_ranges {
        let _ = ordered.push_known(KnownHeader::AcceptRanges, b"bytes");
    }
}

/// The trailers after the last chunk: complete lines, each with CRLF.
pub(crate) fn encode_trailers(exchange: &Exchange) -> Vec<u8> {
    let trailers = &exchange.response.trailers;
    let mut out = Vec::with_capacity(trailers.wire_bytes());
    push_fields(&mut out, trailers);
    out
}
