//! The fields of messages that are sent: which of them, in which order.

use super::RequestTarget;
use super::class::is_about_connection;
use crate::h1::ResponseHead;
use crate::headers::{Field, FieldValue, KnownHeader};

/// A field section that is being encoded.
pub(crate) trait FieldWriter {
    /// Adds a well-known field.
    fn known(&mut self, name: KnownHeader, value: &[u8]);

    /// Adds a field with a name in any case.
    fn field(&mut self, name: &[u8], value: &[u8]);
}

/// Adds the pseudo-headers and the fields of a request. `host` is left out if there is an
/// authority.
pub(crate) fn push_request<'f>(
    block: &mut impl FieldWriter,
    target: &RequestTarget<'_>,
    fields: impl IntoIterator<Item = Field<'f>>,
) {
    let authority = target.authority.as_bytes();
    block.field(b":method", target.method.as_bytes());
    block.field(b":scheme", target.scheme.name().as_bytes());
    if !authority.is_empty() {
        block.field(b":authority", authority);
    }
    block.field(b":path", target.path.as_bytes());
    for field in fields {
        let is_host = field.name.as_bytes().eq_ignore_ascii_case(b"host");
        if !is_host || authority.is_empty() {
            push_field(block, field);
        }
    }
}

/// Adds fields, except those that HTTP/2 and HTTP/3 do not have.
pub(crate) fn push_fields<'f>(
    block: &mut impl FieldWriter,
    fields: impl IntoIterator<Item = Field<'f>>,
) {
    for field in fields {
        push_field(block, field);
    }
}

fn push_field(block: &mut impl FieldWriter, field: Field<'_>) {
    let name = field.name.as_bytes();
    let value = field.value.trimmed().as_bytes();
    match KnownHeader::from_name(name) {
        Some(known) if is_about_connection(known) => {}
        Some(KnownHeader::Te) => {
            if mentions_trailers(value) {
                block.known(KnownHeader::Te, b"trailers");
            }
        }
        Some(known) => block.known(known, value),
        None => block.field(name, value),
    }
}

fn mentions_trailers(value: &[u8]) -> bool {
    value
        .split(|&byte| byte == b',')
        .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// The fields that an HTTP/1 response derives from its head, in nginx's order.
pub(crate) fn push_response_fields<'a>(block: &mut impl FieldWriter, head: &ResponseHead<'a>) {
    let mut known = |name, value: &[u8]| block.known(name, value);
    let text = |value: FieldValue<'a>| value.trimmed().as_bytes();
    if let Some(server) = head.server {
        known(KnownHeader::Server, text(server));
    }
    if let Some(date) = head.date {
        known(KnownHeader::Date, text(date));
    }
    if let Some(content_type) = head.content_type {
        match head.charset {
            None => known(KnownHeader::ContentType, text(content_type)),
            Some(charset) => {
                let mut value = smallvec::SmallVec::<[u8; 128]>::from_slice(text(content_type));
                value.extend_from_slice(b"; charset=");
                value.extend_from_slice(text(charset));
                known(KnownHeader::ContentType, &value);
            }
        }
    }
    if let Some(length) = head.content_length {
        let mut digits = itoa::Buffer::new();
        known(KnownHeader::ContentLength, digits.format(length).as_bytes());
    }
    if let Some(last_modified) = head.last_modified {
        known(KnownHeader::LastModified, text(last_modified));
    }
    if let Some(location) = head.location {
        known(KnownHeader::Location, text(location));
    }
    if head.vary_accept_encoding {
        known(KnownHeader::Vary, b"Accept-Encoding");
    }
}
