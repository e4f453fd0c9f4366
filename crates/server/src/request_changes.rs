//! `more_set_input_headers` and `more_clear_input_headers`: header fields of a request, changed at
//! the end of the rewrite phase, as if the client had sent them so.

use crate::exchange::{Exchange, Request};
use crate::filters::without_line_breaks;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_conf::model::{FieldChange, RequestChange};
use sealane_http::h1::Version;
use sealane_http::headers::KnownHeader;
use sealane_http::uri;

/// Changes the fields as the location says.
pub(crate) fn apply(exchange: &mut Exchange) {
    if exchange.conf().request_changes.is_empty() || exchange.request.head.version < Version::Http10
    {
        return;
    }
    let commands = exchange.conf().request_changes.clone();
    for command in &commands {
        if !fits_type(command, &exchange.request) {
            continue;
        }
        for field in &command.fields {
            change(exchange, field, command.only_existing);
        }
    }
}

fn fits_type(command: &RequestChange, request: &Request) -> bool {
    if command.types.is_empty() {
        return true;
    }
    let sent = request.head.get(KnownHeader::ContentType);
    let sent = sent.map(|span| span.of(&request.buffer));
    command.types.iter().any(|wanted| sent == Some(wanted))
}

fn change(exchange: &mut Exchange, field: &FieldChange, only_existing: bool) {
    let name = field.name.as_bytes();
    let value = without_line_breaks(template::evaluate(&field.value, exchange)).into_owned();
    let known = KnownHeader::from_name(name).filter(|_| !field.is_prefix);
    let head = &exchange.request.head;
    if only_existing && head.get_by_name(&exchange.request.buffer, name).is_none() {
        return;
    }
    match known {
        Some(KnownHeader::Host) => {
            let Some(host) = host(&value) else {
                let value = Text(&value);
                log_request!(
                    exchange,
                    Error,
                    "invalid host \"{value}\" in \"more_set_input_headers\": the request keeps \
                     its own"
                );
                return;
            };
            exchange.request.host = host;
        }
        Some(KnownHeader::Connection) if says_close(&value) => {
            exchange.request.head.keep_alive = false;
        }
        _ => {}
    }
    let Request { buffer, head, .. } = &mut exchange.request;
    if value.is_empty() {
        head.remove_headers(buffer, |sent| field.is_about(sent) && !is_framing(sent));
    } else {
        head.set_header(buffer, name, &value);
    }
}

/// How the body that has arrived, or will, is framed.
fn is_framing(name: &[u8]) -> bool {
    matches!(
        KnownHeader::from_name(name),
        Some(KnownHeader::ContentLength | KnownHeader::TransferEncoding)
    )
}

/// The name of a host as `$host` has it; none for an empty value. `None` if it is not one.
fn host(value: &[u8]) -> Option<Vec<u8>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let authority = uri::parse_authority(value).ok()?;
    Some(authority.host.of(value).to_ascii_lowercase())
}

/// As the module has it: anywhere in the value.
fn says_close(value: &[u8]) -> bool {
    const CLOSE: &[u8] = b"close";
    value
        .windows(CLOSE.len())
        .any(|part| part.eq_ignore_ascii_case(CLOSE))
}
