//! `add_header` and `add_trailer`.

use super::{expires, has_head};
use crate::exchange::{ETag, Exchange};
use crate::template;
use sealane_conf::model::Expires;
use sealane_http::h1::Version;
use sealane_http::{Method, StatusCode, date};
use std::borrow::Cow;

/// What a request keeps for `add_header`.
#[derive(Default)]
pub(crate) struct AddHeaderState {
    /// `expires` and `add_header` have been applied.
    applied: bool,
}

/// Applies `expires` and `add_header`, once per exchange: a 416 replaces a response that has them
/// already (nginx then sends `always` ones twice).
pub(super) fn apply(exchange: &mut Exchange) {
    let conf = &exchange.snapshot.location(exchange.location).conf;
    let nothing = conf.add_headers.is_empty() && matches!(conf.expires, Expires::Off);
    if nothing || std::mem::replace(&mut exchange.features.add_header.applied, true) {
        return;
    }
    let usual = is_usual(exchange.response.status);
    if usual {
        expires::apply(exchange);
    }
    for index in 0.. {
        // The configuration is borrowed again each time, so that values see what was added before.
        let conf = &exchange.snapshot.location(exchange.location).conf;
        let Some(added) = conf.add_headers.get(index) else {
            return;
        };
        if !usual && !added.always {
            continue;
        }
        let value = without_line_breaks(template::evaluate(&added.value, exchange));
        let response = &mut exchange.response;
        if added.name.eq_ignore_ascii_case("ETag")
            && (value.is_empty() || value.len() <= ETag::MAX_BYTES)
        {
            // Replaces or removes the file's own, or the upstream server's.
            response.headers.remove(b"ETag");
            response.etag = if value.is_empty() {
                None
            } else {
                ETag::new(&value)
            };
        } else if added.name.eq_ignore_ascii_case("Last-Modified") {
            response.last_modified_s = date::parse(&value);
            if let Some(passed) = &mut response.passed {
                passed.last_modified = false;
                response.headers.remove(b"Last-Modified");
            }
        } else if !value.is_empty() {
            // The name was checked when the configuration was read.
            let _ = response.headers.push(added.name.as_bytes(), &value);
        }
    }
}

/// Prepares for trailers. If there may be any, the length is given up: they need chunks.
pub(super) fn announce_trailers(exchange: &mut Exchange) {
    let conf = exchange.conf();
    let status = exchange.response.status;
    let usual = is_usual(status);
    let possible = conf.add_trailers.iter().any(|added| usual || added.always)
        && has_head(exchange)
        && (exchange.request.head.version > Version::Http11
            || (exchange.request.head.version == Version::Http11
                && conf.chunked_transfer_encoding))
        && exchange.request.head.method != Method::Head
        && !status.is_bodiless();
    if possible {
        exchange.response.content_length = None;
        exchange.response.adds_trailers = true;
    }
}

/// Adds trailers, with the values that variables have at the end of the body.
pub(crate) fn add_trailers(exchange: &mut Exchange) {
    if !std::mem::take(&mut exchange.response.adds_trailers) {
        return;
    }
    let usual = is_usual(exchange.response.status);
    for index in 0.. {
        let conf = &exchange.snapshot.location(exchange.location).conf;
        let Some(added) = conf.add_trailers.get(index) else {
            return;
        };
        if !usual && !added.always {
            continue;
        }
        let value = without_line_breaks(template::evaluate(&added.value, exchange));
        if !value.is_empty() {
            let _ = exchange
                .response
                .trailers
                .push(added.name.as_bytes(), &value);
        }
    }
}

/// Statuses whose responses get headers without `always`.
fn is_usual(status: StatusCode) -> bool {
    matches!(
        status.0,
        200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308
    )
}

/// A client must not break a header line through a variable: line breaks and NUL
/// become spaces, as in nginx 1.29.
pub(crate) fn without_line_breaks(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memchr3(b'\r', b'\n', 0, &value).is_none() {
        return value;
    }
    let clean = |byte: &u8| {
        if matches!(byte, b'\r' | b'\n' | 0) {
            b' '
        } else {
            *byte
        }
    };
    Cow::Owned(value.iter().map(clean).collect())
}
