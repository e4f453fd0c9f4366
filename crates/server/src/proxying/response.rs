//! Turns a peer's response head into the client's.

use super::failure::Doing;
use super::wire::UpstreamHead;
use crate::exchange::{ContentType, Exchange, PassedHead};
use crate::request_log::{Text, log_request};
use sealane_conf::model::UpstreamSettings;
use sealane_http::Method;
use sealane_http::date;
use sealane_http::h1::ResponseFraming;
use sealane_http::headers::{HeaderList, KnownHeader};

/// Room for what is added to a peer's header fields (`add_header`), made with theirs.
const SPARE_FIELDS: usize = 2;
const SPARE_BYTES: usize = 128;

/// Copies status and headers of a peer's response to the client's response. `rewrite` applies
/// `proxy_redirect` and `proxy_cookie_*` to a value.
pub(crate) fn copy_head(
    exchange: &mut Exchange,
    head: &UpstreamHead,
    framing: ResponseFraming,
    settings: &UpstreamSettings,
    mut rewrite: impl FnMut(&mut Exchange, KnownHeader, &[u8]) -> Option<Vec<u8>>,
) {
    let buffer = &head.buffer;
    let parsed = &head.parsed;
    let mut passed = PassedHead::default();
    exchange.response.from_upstream = true;
    exchange.response.status = parsed.status;
    exchange.response.content_length = match framing {
        ResponseFraming::Length(bytes) => Some(bytes),
        // `proxy_method HEAD`: the client asked for a body and must not wait for one.
        ResponseFraming::None
            if exchange.request.head.method != Method::Head && !parsed.status.is_bodiless() =>
        {
            Some(0)
        }
        // HEAD and 304 announce the length that the body would have.
        ResponseFraming::None => parsed.content_length,
        ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
    };
    passed.server = !settings.hidden_headers.contains(b"Server");
    passed.date = !settings.hidden_headers.contains(b"Date");
    passed.reason = reason(parsed.status_line.of(buffer))
        .filter(|text| *text != parsed.status.reason().as_bytes())
        .map(Into::into);
    let lines = &parsed.headers;
    let headers = &mut exchange.response.headers;
    headers.reserve(lines.len() + SPARE_FIELDS, parsed.head_bytes + SPARE_BYTES);
    for header in lines {
        let name = header.name.of(buffer);
        let value = header.value.of(buffer);
        if !may_pass(settings, header.known, name) {
            continue;
        }
        let Some(known) = header.known else {
            push(exchange, None, name, value);
            continue;
        };
        match known {
            KnownHeader::ContentType => {
                exchange.response.content_type = ContentType::new(value);
            }
            KnownHeader::LastModified => {
                exchange.response.last_modified_s = date::parse(value);
                passed.last_modified = true;
                push(exchange, header.known, name, value);
            }
            KnownHeader::AcceptRanges if settings.force_ranges => {}
            KnownHeader::Location | KnownHeader::Refresh | KnownHeader::SetCookie => {
                match rewrite(exchange, known, value) {
                    // As in nginx, a path is completed only if we have written it.
                    Some(value) if known == KnownHeader::Location && value.starts_with(b"/") => {
                        set_location(exchange, name, value);
                    }
                    Some(value) => push(exchange, header.known, name, &value),
                    None => push(exchange, header.known, name, value),
                }
            }
            _ => push(exchange, header.known, name, value),
        }
    }
    exchange.response.allow_ranges = settings.force_ranges
        && parsed.status == sealane_http::StatusCode::OK
        && exchange.response.content_length.is_some();
    exchange.response.passed = Some(Box::new(passed));
}

/// Warns of repeated fields that may occur only once.
pub(super) fn log_repeated(exchange: &Exchange, head: &UpstreamHead) {
    for line in &head.parsed.repeated {
        let line = line.of(&head.buffer);
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let mut headers = head.parsed.headers.iter();
        let first = headers.find(|header| header.name.of(&head.buffer).eq_ignore_ascii_case(name));
        let (name, first) = first.map_or((name, &b""[..]), |header| {
            (header.name.of(&head.buffer), header.value.of(&head.buffer))
        });
        log_request!(
            exchange,
            Warn,
            "upstream sent duplicate header line: \"{}\", previous value: \"{}: {}\", ignored {}",
            Text(line),
            Text(name),
            Text(first),
            Doing::ReadingHead
        );
    }
}

/// The reason phrase of a status line that begins with the code. An origin may leave it
/// out; a gateway may leave out the line.
pub(super) fn reason(status_line: &[u8]) -> Option<&[u8]> {
    match status_line {
        [] => None,
        line => Some(line.get(4..).unwrap_or_default()),
    }
}

/// A path as `Location`: `absolute_redirect` makes a URL of it.
fn set_location(exchange: &mut Exchange, name: &[u8], path: Vec<u8>) {
    match exchange.conf().absolute_redirect {
        true if memchr::memchr3(b'\r', b'\n', 0, &path).is_none() => {
            exchange.response.location = Some(path);
        }
        _ => push(exchange, Some(KnownHeader::Location), name, &path),
    }
}

/// Whether a field of a peer is passed on to the client: in a head, an interim one, or in trailers.
pub(super) fn may_pass(
    settings: &UpstreamSettings,
    known: Option<KnownHeader>,
    name: &[u8],
) -> bool {
    !known.is_some_and(is_framing) && !settings.hidden_headers.contains(name)
}

/// The trailers of a peer that are passed on. As in nginx, fields that are hidden in a head are
/// hidden here; variables still show them.
pub(super) fn pass_trailers(exchange: &mut Exchange, trailers: HeaderList) -> HeaderList {
    let mut passed = HeaderList::new();
    if trailers.is_empty() {
        return passed;
    }
    if let Some(pass) = &exchange.snapshot.location(exchange.location).pass {
        for (name, value) in trailers.iter() {
            if may_pass(pass.settings(), KnownHeader::from_name(name), name) {
                // Checked when they were received.
                let _ = passed.push(name, value);
            }
        }
    }
    if let Some(states) = exchange.upstream.as_deref_mut() {
        states.trailers = trailers;
    }
    passed
}

/// Headers about the connection to the peer and the framing on it.
fn is_framing(known: KnownHeader) -> bool {
    matches!(
        known,
        KnownHeader::ContentLength
            | KnownHeader::TransferEncoding
            | KnownHeader::Connection
            | KnownHeader::KeepAlive
    )
}

/// Adds a field of a peer to those for the client.
pub(super) fn push(exchange: &mut Exchange, known: Option<KnownHeader>, name: &[u8], value: &[u8]) {
    // The parser let no line break through; a rewriting rule that brings one in loses
    // the header rather than splitting the response.
    let pushed = exchange.response.headers.push_parsed(known, name, value);
    if let Err(error) = pushed {
        log_request!(
            exchange,
            Warn,
            "upstream header \"{}\" is left out: {error}",
            name.escape_ascii()
        );
    }
}
