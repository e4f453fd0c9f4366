//! `return`.

use super::{Outcome, set_content_type};
use crate::exchange::Exchange;
use crate::template;
use bytes::Bytes;
use sealane_conf::model::Return;
use sealane_http::StatusCode;
use sealane_http::uri::{EscapeKind, escape_into};

/// Answers with a code and a text or, for the redirecting codes, a target.
///
/// A code from 400 on without a text is an error like any other.
pub(crate) fn answer(exchange: &mut Exchange, returns: &Return) -> Outcome {
    let status = StatusCode(returns.code);
    let has_text = returns.text.as_ref().is_some_and(|text| !text.is_empty());
    if status >= StatusCode::BAD_REQUEST && !has_text {
        return Outcome::Status(status);
    }
    // The text may ask for it.
    exchange.response.status = status;
    exchange.phases.has_status = true;
    let text = match &returns.text {
        Some(text) => template::evaluate(text, exchange).into_owned(),
        None => Vec::new(),
    };
    if matches!(status.0, 301 | 302 | 303 | 307 | 308) {
        exchange.response.location = Some(text);
        return Outcome::Status(status);
    }
    set_content_type(exchange);
    let response = &mut exchange.response;
    response.content_length = Some(text.len() as u64);
    response.body.clear();
    response.body.push_bytes(Bytes::from(text));
    Outcome::Answered
}

/// Something is there for the URI with a slash behind it, a directory or a location with
/// `proxy_pass` and the like: 301 to that.
pub(crate) fn add_slash(exchange: &mut Exchange) -> Outcome {
    let request = &exchange.request;
    let mut location = Vec::with_capacity(request.uri.len() + request.args().len() + 8);
    escape_into(&mut location, &request.uri, EscapeKind::Uri);
    location.push(b'/');
    if !request.args().is_empty() {
        location.push(b'?');
        location.extend_from_slice(request.args());
    }
    exchange.response.location = Some(location);
    Outcome::Status(StatusCode::MOVED_PERMANENTLY)
}
