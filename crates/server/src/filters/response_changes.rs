//! `more_set_headers` and `more_clear_headers`, in the headers-more module's place: after
//! preconditions, before `expires`, `add_header` and the filters of the body.
//!
//! Fields that are not in the list of headers, as the server makes them from what it knows, are
//! changed where they are known. So the filters that follow see the change.

use super::body;
use super::headers::without_line_breaks;
use crate::exchange::{ContentType, ETag, Exchange, PassedHead, Response};
use crate::template;
use sealane_conf::model::{FieldChange, ResponseChange};
use sealane_http::StatusCode;
use sealane_http::headers::KnownHeader;

/// Changes the headers, command by command. As in the module, a 416 that takes the place of a
/// response is changed again, with what was added to the response still there.
pub(super) fn apply(exchange: &mut Exchange) {
    if exchange.conf().response_changes.is_empty() {
        return;
    }
    let commands = exchange.conf().response_changes.clone();
    let status = exchange.response.status;
    for command in &commands {
        if !fits_status(command, status) || !fits_type(command, &exchange.response) {
            continue;
        }
        for field in &command.fields {
            change(exchange, field, command.appends);
        }
    }
}

fn fits_status(command: &ResponseChange, status: StatusCode) -> bool {
    command.statuses.is_empty() || command.statuses.contains(&status.0)
}

fn fits_type(command: &ResponseChange, response: &Response) -> bool {
    let media_type = body::media_type(response);
    let is = |wanted: &[u8]| media_type == Some(wanted);
    command.types.is_empty() || command.types.iter().any(|wanted| is(wanted))
}

fn change(exchange: &mut Exchange, field: &FieldChange, appends: bool) {
    if field.is_prefix {
        return clear_all(&mut exchange.response, field);
    }
    let value = without_line_breaks(template::evaluate(&field.value, exchange)).into_owned();
    let response = &mut exchange.response;
    let name = field.name.as_bytes();
    let known = KnownHeader::from_name(name);
    if appends {
        if !value.is_empty() {
            // The name was checked when the configuration was read, the value just now.
            let _ = response.headers.push(name, &value);
        }
        return;
    }
    match known {
        Some(KnownHeader::ContentType) => {
            response.content_type = ContentType::new(&value);
            response.charset_named = true;
            return;
        }
        // It can only be cleared: the body is framed in another way.
        Some(KnownHeader::ContentLength) => {
            response.content_length = None;
            return;
        }
        // Written last, whatever this module does.
        Some(KnownHeader::Connection | KnownHeader::TransferEncoding) => return,
        Some(KnownHeader::Etag) => response.etag = None,
        Some(KnownHeader::Location) => {
            response.location = None;
            response.location_made_absolute = false;
            if value.starts_with(b"/") {
                // It may yet become absolute.
                response.headers.remove(name);
                response.location = Some(value);
                return;
            }
        }
        Some(KnownHeader::ContentEncoding) => response.content_encoding = None,
        Some(KnownHeader::AcceptRanges) if value.is_empty() => response.allow_ranges = false,
        Some(KnownHeader::Server) => passed(response).server = true,
        Some(KnownHeader::Date) => passed(response).date = true,
        Some(KnownHeader::LastModified) => passed(response).last_modified = true,
        _ => {}
    }
    if value.is_empty() {
        response.headers.remove(name);
    } else if known == Some(KnownHeader::Etag) && value.len() <= ETag::MAX_BYTES {
        response.headers.remove(name);
        response.etag = ETag::new(&value);
    } else {
        let _ = response.headers.set(name, &value);
    }
}

/// Removes the fields that are in nginx's list by now: neither its type and length, nor what only
/// its last filter writes.
fn clear_all(response: &mut Response, field: &FieldChange) {
    response.headers.remove_chosen(|name| field.is_about(name));
    if field.is_about(b"ETag") {
        response.etag = None;
    }
    if field.is_about(b"Location") {
        response.location = None;
    }
    if field.is_about(b"Content-Encoding") {
        response.content_encoding = None;
    }
}

/// What is not the server's to say.
fn passed(response: &mut Response) -> &mut PassedHead {
    response.passed.get_or_insert_default()
}
