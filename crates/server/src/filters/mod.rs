//! The filters that every response passes before it is sent, in nginx's order: preconditions,
//! `more_set_headers`, `expires` and `add_header`, body filters, ranges. Last comes what method
//! and status do not allow.

mod body;
mod expires;
mod headers;
mod preconditions;
mod ranged_source;
mod ranges;
mod response_changes;
pub(crate) mod slice;
pub(crate) mod userid;

pub(crate) use body::{
    CharsetState, CompressState, Compressed, SsiState, TrimState, charset_to_be_named,
};
pub(crate) use headers::{AddHeaderState, add_trailers, without_line_breaks};
pub(crate) use slice::SliceState;
pub(crate) use userid::UseridState;

use crate::exchange::{Exchange, PassedHead, Response};
use crate::proxying;
use crate::request_log::log_request;
use sealane_http::h1::Version;
use sealane_http::headers::FieldValue;
use sealane_http::{Method, StatusCode};
use std::net::SocketAddr;

/// Makes the response final.
///
/// # Errors
/// A status that takes the response's place: 412 or 416.
pub(crate) fn apply(exchange: &mut Exchange) -> Result<(), StatusCode> {
    if let Some(status) = exchange.features.error_page.status_override {
        // The length that a 304 announces is that of a body that does not follow it.
        let response = &mut exchange.response;
        if response.from_upstream && response.status.is_bodiless() && !status.is_bodiless() {
            response.content_length = response.content_length.map(|_| 0);
        }
        exchange.response.status = status;
        if let Some(passed) = &mut exchange.response.passed {
            passed.reason = None;
        }
    }
    if exchange.request.is_subrequest {
        // Its head is not sent, so only changes of the body matter.
        body::apply(exchange);
        fit_to_status(&mut exchange.response);
        if exchange.request.head.method == Method::Head {
            exchange.response.body.clear();
        }
        return Ok(());
    }
    if exchange.response.from_upstream {
        slice::apply(exchange)?;
    }
    // An upstream server has evaluated them itself, as far as it wants to, unless it was not told
    // of them because the response is kept.
    if (!exchange.response.from_upstream || exchange.response.is_cacheable)
        && let Err(status) = preconditions::apply(exchange)
    {
        discard(&mut exchange.response);
        return Err(status);
    }
    proxying::add_sticky_cookies(exchange);
    response_changes::apply(exchange);
    headers::apply(exchange);
    if exchange.conf().userid.is_some() {
        userid::apply(exchange);
    }
    if exchange.response.is_tunnel {
        return Ok(()); // what it carries is nobody's business
    }
    body::apply(exchange);
    if let Err(status) = ranges::apply(exchange) {
        // Headers that were added stay, `Content-Range` among them; those of the file and of the
        // upstream server go.
        let mut headers = std::mem::take(&mut exchange.response.headers);
        let passed = exchange.response.passed.take();
        for name in [&b"ETag"[..], b"Last-Modified", b"Accept-Ranges"] {
            headers.remove(name);
        }
        discard(&mut exchange.response);
        exchange.response.headers = headers;
        exchange.response.passed = passed.map(|passed| {
            Box::new(PassedHead {
                last_modified: false,
                reason: None,
                ..*passed
            })
        });
        return Err(status);
    }
    finish_location(exchange);
    fit_to_status(&mut exchange.response);
    headers::announce_trailers(exchange);
    if exchange.request.head.method == Method::Head {
        exchange.response.body.clear();
    }
    Ok(())
}

/// Clears what a handler has set, except how the connection is to end and that caches must
/// distinguish clients.
fn discard(response: &mut Response) {
    let (close, varies_by_encoding) = (response.close, response.varies_by_encoding);
    *response = Response::new();
    response.close = close;
    response.varies_by_encoding = varies_by_encoding;
}

/// Removes headers that a status must not have.
fn fit_to_status(response: &mut Response) {
    if !matches!(response.status.0, 200 | 206 | 304) {
        // As in nginx, the upstream server's own field stays among its headers.
        response.last_modified_s = None;
    }
    if response.status == StatusCode::NO_CONTENT {
        if !response.from_upstream {
            response.content_type = None;
        }
        response.content_length = None;
    }
    if response.status.is_bodiless() {
        response.body.clear();
    }
}

/// `absolute_redirect`, `server_name_in_redirect`, `port_in_redirect`: completes a
/// `Location` that begins with a slash. One that cannot be sent goes.
fn finish_location(exchange: &mut Exchange) {
    let conf = exchange.conf();
    let Some(location) = exchange.response.location.as_deref() else {
        return;
    };
    if FieldValue::new(location).is_err() {
        // Better no target than a header that a client can forge.
        log_request!(
            exchange,
            Error,
            "line break or NUL in \"Location\" of the response, which is left out: a variable in \
             \"return\", \"rewrite\" or \"error_page\" holds decoded text ($uri, $1 and the \
             like); $request_uri holds it as it was sent"
        );
        exchange.response.location = None;
        return;
    }
    if !conf.absolute_redirect
        || !location.starts_with(b"/")
        || exchange.response.location_made_absolute
    {
        return;
    }
    let tls = exchange.is_tls();
    let local = exchange.connection.local();
    let mut absolute = Vec::with_capacity(location.len() + 64);
    absolute.extend_from_slice(if tls { b"https://" } else { b"http://" });
    if conf.server_name_in_redirect {
        absolute.extend_from_slice(exchange.server().conf.primary_name.as_bytes());
    } else if !exchange.request.host.is_empty() {
        absolute.extend_from_slice(&exchange.request.host);
    } else if let Some(address) = local {
        absolute.extend_from_slice(address.ip().to_string().as_bytes());
    }
    let usual_port = if tls { 443 } else { 80 };
    if let Some(port) = local.as_ref().map(SocketAddr::port)
        && conf.port_in_redirect
        && port != usual_port
    {
        absolute.extend_from_slice(format!(":{port}").as_bytes());
    }
    absolute.extend_from_slice(location);
    exchange.response.location = Some(absolute);
    exchange.response.location_made_absolute = true;
}

/// Whether the request's version has headers at all.
fn has_head(exchange: &Exchange) -> bool {
    exchange.request.head.version >= Version::Http10
}
