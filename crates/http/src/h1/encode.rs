//! Encodes response heads and chunks.

use super::request::Version;
use crate::StatusCode;
use crate::decimal;
use crate::headers::{FieldValue, HeaderList};

/// The interim response that asks for the body (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The connection headers of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionHeader {
    /// `Connection: keep-alive`, with `Keep-Alive: timeout=` if `keepalive_timeout` has a
    /// second parameter.
    KeepAlive {
        /// Seconds for which the client may rely on the connection.
        timeout_s: Option<u64>,
    },
    /// `Connection: close`.
    Close,
    /// `Connection: upgrade`, with status 101.
    Upgrade,
}

/// A response head, to be written in nginx's order.
///
/// The struct's own fields are the headers that only the server sets. Headers added by handlers and
/// filters (`ETag`, `Accept-Ranges`, `Content-Range`, `add_header`) are in `headers` and follow
/// them. No value can break a line, whatever its source: values are checked when they are created.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The request's version. HTTP/0.9 gets no head; all others are answered as HTTP/1.1.
    pub version: Version,
    /// The status; nginx's own codes go out as 400.
    pub status: StatusCode,
    /// The reason phrase, instead of the usual one of the status.
    pub reason: Option<FieldValue<'a>>,
    /// `Server`.
    pub server: Option<FieldValue<'a>>,
    /// `Date`, formatted once per second by its owner.
    pub date: Option<FieldValue<'a>>,
    /// `Content-Type`.
    pub content_type: Option<FieldValue<'a>>,
    /// The charset to add to it.
    pub charset: Option<FieldValue<'a>>,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// `Last-Modified`, formatted.
    pub last_modified: Option<FieldValue<'a>>,
    /// `Location` of a redirect that the server itself made absolute.
    pub location: Option<FieldValue<'a>>,
    /// `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// `Connection`.
    pub connection: ConnectionHeader,
    /// `Vary: Accept-Encoding` (`gzip_vary`).
    pub vary_accept_encoding: bool,
    /// All other headers.
    pub headers: &'a HeaderList,
}

impl<'a> ResponseHead<'a> {
    /// A head with a status and other headers, to be filled in.
    pub fn new(version: Version, status: StatusCode, headers: &'a HeaderList) -> Self {
        ResponseHead {
            version,
            status,
            reason: None,
            server: None,
            date: None,
            content_type: None,
            charset: None,
            content_length: None,
            last_modified: None,
            location: None,
            chunked: false,
            connection: ConnectionHeader::Close,
            vary_accept_encoding: false,
            headers,
        }
    }
}

/// Room for the fixed part of a head; longer ones grow the buffer.
const TYPICAL_HEAD_BYTES: usize = 320;

/// Appends the response head with its final empty line.
pub fn encode_response_head(out: &mut Vec<u8>, head: &ResponseHead<'_>) {
    if head.version == Version::Http09 {
        return;
    }
    out.reserve(TYPICAL_HEAD_BYTES + head.headers.wire_bytes());
    push_status_line(out, head.status.on_wire(), head.reason);
    if let Some(server) = head.server {
        push_field(out, b"Server: ", server);
    }
    if let Some(date) = head.date {
        push_field(out, b"Date: ", date);
    }
    if let Some(content_type) = head.content_type {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(content_type.as_bytes());
        if let Some(charset) = head.charset {
            out.extend_from_slice(b"; charset=");
            out.extend_from_slice(charset.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    if let Some(length) = head.content_length {
        out.extend_from_slice(b"Content-Length: ");
        decimal::push(out, length);
        out.extend_from_slice(b"\r\n");
    }
    if let Some(last_modified) = head.last_modified {
        push_field(out, b"Last-Modified: ", last_modified);
    }
    if let Some(location) = head.location {
        push_field(out, b"Location: ", location);
    }
    if head.chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    push_connection(out, head.connection);
    if head.vary_accept_encoding {
        out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    push_fields(out, head.headers);
    out.extend_from_slice(b"\r\n");
}

/// Appends an interim response (1xx) with its headers; the final response follows it.
pub fn encode_interim_head(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderList) {
    push_status_line(out, status, None);
    push_fields(out, headers);
    out.extend_from_slice(b"\r\n");
}

/// Appends the lines of these fields, without the empty one: trailers, as they follow the last
/// chunk.
pub fn push_fields(out: &mut Vec<u8>, fields: &HeaderList) {
    for field in fields.fields() {
        out.extend_from_slice(field.name.as_bytes());
        push_field(out, b": ", field.value);
    }
}

/// Appends the line before a chunk of `data_bytes`, which must not be zero: that would end the
/// body. The data and CR LF follow it.
pub fn encode_chunk_header(out: &mut Vec<u8>, data_bytes: u64) {
    debug_assert_ne!(data_bytes, 0, "a chunk of zero bytes ends the body");
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digits = (64 - data_bytes.leading_zeros()).div_ceil(4).max(1);
    for position in (0..digits).rev() {
        let digit = (data_bytes >> (4 * position)) & 15;
        out.push(HEX[digit as usize]);
    }
    out.extend_from_slice(b"\r\n");
}

fn push_status_line(out: &mut Vec<u8>, status: StatusCode, reason: Option<FieldValue<'_>>) {
    if status == StatusCode::OK && reason.is_none() {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    let digit = |value: u16| b'0' + (value % 10) as u8;
    let code = status.0;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    let usual = status.reason().as_bytes();
    out.extend_from_slice(reason.map_or(usual, FieldValue::as_bytes));
    out.extend_from_slice(b"\r\n");
}

fn push_connection(out: &mut Vec<u8>, connection: ConnectionHeader) {
    match connection {
        ConnectionHeader::KeepAlive { timeout_s } => {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
            if let Some(timeout_s) = timeout_s {
                out.extend_from_slice(b"Keep-Alive: timeout=");
                decimal::push(out, timeout_s);
                out.extend_from_slice(b"\r\n");
            }
        }
        ConnectionHeader::Close => out.extend_from_slice(b"Connection: close\r\n"),
        ConnectionHeader::Upgrade => out.extend_from_slice(b"Connection: upgrade\r\n"),
    }
}

fn push_field(out: &mut Vec<u8>, name_and_colon: &[u8], value: FieldValue<'_>) {
    out.extend_from_slice(name_and_colon);
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}
