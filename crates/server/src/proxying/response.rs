//! From a peer's response head to the client's.

use super::wire::Head;
use crate::exchange::{ContentType, Exchange, PassedHead};
use crate::request_log::log_request;
use sealane_conf::model::UpstreamSettings;
use sealane_http::date;
use sealane_http::h1::ResponseFraming;
use sealane_http::headers::KnownHeader;

/// Puts status and headers of a peer's response into the client's response.
/// `rewrite` is what `proxy_redirect` and `proxy_cookie_*` make of a value.
pub(crate) fn copy_head(
    exchange: &mut Exchange,
    head: &Head,
    framing: ResponseFraming,
    settings: &UpstreamSettings,
    mut rewrite: impl FnMut(&Exchange, KnownHeader, &[u8]) -> Option<Vec<u8>>,
) {
    let buffer = &head.buffer;
    let parsed = &head.parsed;
    let mut passed = PassedHead::default();
    exchange.response.from_upstream = true;
    exchange.response.status = parsed.status;
    exchange.response.content_length = match framing {
        ResponseFraming::Length(bytes) => Some(bytes),
        // HEAD and 304 say how long the body would have been.
        ResponseFraming::None => parsed.content_length,
        ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
    };
    let reason = parsed.status_line.of(buffer).get(4..);
    passed.reason = reason
        .filter(|text| *text != parsed.status.reason().as_bytes())
        .map(Into::into);
    for header in &parsed.headers {
        let name = header.name.of(buffer);
        let value = header.value.of(buffer);
        let Some(known) = header.known else {
            if !settings.hidden_headers.contains(name) {
                push(exchange, name, value);
            }
            continue;
        };
        if is_framing(known) || settings.hidden_headers.contains(name) {
            continue;
        }
        match known {
            KnownHeader::ContentType => {
                exchange.response.content_type = ContentType::new(value);
            }
            KnownHeader::Server => passed.server = Some(value.into()),
            KnownHeader::Date => passed.date = Some(value.into()),
            KnownHeader::LastModified => {
                exchange.response.last_modified_s = date::parse(value);
                passed.last_modified = Some(value.into());
            }
            KnownHeader::AcceptRanges if settings.force_ranges => {}
            KnownHeader::Location | KnownHeader::Refresh | KnownHeader::SetCookie => {
                match rewrite(exchange, known, value) {
                    Some(value) => push(exchange, name, &value),
                    None => push(exchange, name, value),
                }
            }
            _ => push(exchange, name, value),
        }
    }
    for line in &parsed.repeated {
        let line = line.of(buffer).escape_ascii();
        log_request!(
            exchange,
            Warn,
            "upstream sent duplicate header line: \"{line}\", ignored while reading response header from upstream"
        );
    }
    exchange.response.allow_ranges = settings.force_ranges
        && parsed.status == sealane_http::StatusCode::OK
        && exchange.response.content_length.is_some();
    exchange.response.passed = Some(Box::new(passed));
}

/// Headers about the connection to the peer and the framing on it.
fn is_framing(known: KnownHeader) -> bool {
    matches!(
        known,
        KnownHeader::ContentLength
            | KnownHeader::TransferEncoding
            | KnownHeader::Connection
            | KnownHeader::KeepAlive
            | KnownHeader::Status
    )
}

fn push(exchange: &mut Exchange, name: &[u8], value: &[u8]) {
    // The parser let no line break through; a rewriting rule that brings one in loses
    // the header rather than splitting the response.
    let pushed = exchange.response.headers.push(name, value);
    if let Err(error) = pushed {
        log_request!(
            exchange,
            Warn,
            "upstream header \"{}\" is left out: {error}",
            name.escape_ascii()
        );
    }
}
