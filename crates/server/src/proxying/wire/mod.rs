//! The protocols spoken with peers, sans-IO: framing requests and parsing responses.
//!
//! One [`Wire`] serves one request on one connection. Requests are framed into an
//! output chain; responses come out as [`WireEvent`]s. What every protocol has is a method of
//! [`Wire`]; what only streams of HTTP/2 have is one of [`Http2`], reached through
//! [`Wire::stream`].

mod dubbo;
mod fastcgi;
mod gateway;
mod http1;
pub(crate) mod http2;
mod memcached;

use bytes::Bytes;
pub(crate) use dubbo::Dubbo;
pub(crate) use fastcgi::FastCgi;
pub(crate) use gateway::Gateway;
pub(crate) use http1::Http1;
pub(crate) use http2::Http2;
pub(crate) use memcached::Memcached;
use sealane_http::h1::{ReceivedResponse, ResponseBodyDecoder, ResponseError};
use sealane_http::headers::HeaderList;
use sealane_http::{Method, StatusCode};
use sealane_io::buffers;
use sealane_io::chain::{OutputChain, Segment};
use std::sync::Arc;

/// One request in one of the protocols.
pub(crate) enum Wire {
    /// HTTP/1.0 or 1.1.
    Http1(Http1),
    /// FastCGI.
    FastCgi(Box<FastCgi>),
    /// SCGI or uwsgi.
    Gateway(Gateway),
    /// HTTP/2.
    Http2(Box<Http2>),
    /// memcached.
    Memcached(Box<Memcached>),
    /// A connection that is to become a tunnel: the head that says that it stands.
    Tunnel(Option<Arc<UpstreamHead>>),
    /// Dubbo.
    Dubbo(Box<Dubbo>),
    /// Whatever both sides send (after 101).
    Raw,
}

/// An event from a peer.
pub(crate) enum WireEvent {
    /// A response head. Unless it is an interim one, its body follows.
    Head(Arc<UpstreamHead>),
    /// Part of the body.
    Data(Bytes),
    /// The response is complete.
    End(ResponseEnd),
}

/// A response head.
pub(crate) struct UpstreamHead {
    /// The bytes that positions in `parsed` point into.
    pub(crate) buffer: Vec<u8>,
    /// Status and headers.
    pub(crate) parsed: ReceivedResponse,
}

#[cfg(test)]
impl UpstreamHead {
    /// The head that a text of HTTP/1.1 is.
    #[track_caller]
    pub(crate) fn of_text(text: String) -> UpstreamHead {
        use sealane_http::h1::{ParsedResponse, ResponseLimits, ResponseState, parse_response};
        let limits = ResponseLimits::of_head(4096);
        let parsed = parse_response(text.as_bytes(), &mut ResponseState::default(), &limits);
        let Ok(ParsedResponse::Complete(parsed)) = parsed else {
            panic!("{text:?}");
        };
        UpstreamHead {
            buffer: text.into_bytes(),
            parsed,
        }
    }
}

impl Drop for UpstreamHead {
    fn drop(&mut self) {
        buffers::give_back(std::mem::take(&mut self.buffer));
    }
}

/// The end of a response.
#[derive(Default)]
pub(crate) struct ResponseEnd {
    /// The connection can take another request.
    pub(crate) reusable: bool,
    /// Trailers.
    pub(crate) trailers: HeaderList,
    /// A warning to log: surplus bytes, and the like.
    pub(crate) complaint: Option<&'static str>,
}

/// A response that cannot be understood, in nginx's words.
#[derive(Debug, Clone)]
pub(crate) enum WireError {
    /// The head or the framing of the body is malformed.
    Invalid(String),
    /// The peer did not process the request, which may therefore be sent again.
    Unprocessed(String),
    /// The peer closed the connection before the end.
    ClosedEarly,
}

impl Wire {
    /// The method that was sent: it decides whether the response has a body.
    pub(crate) fn method(&self) -> Method {
        match self {
            Wire::Http1(wire) => wire.method,
            Wire::FastCgi(wire) => wire.method,
            Wire::Gateway(wire) => wire.method,
            Wire::Http2(wire) => wire.method(),
            Wire::Tunnel(_) => Method::Connect,
            Wire::Dubbo(wire) => wire.method,
            Wire::Memcached(_) | Wire::Raw => Method::Get,
        }
    }

    /// Frames a piece of the request body.
    pub(crate) fn frame_body(&mut self, piece: Segment, out: &mut OutputChain) {
        match self {
            Wire::Http1(wire) => wire.frame_body(piece, out),
            Wire::FastCgi(wire) => wire.frame_body(piece, out),
            Wire::Http2(wire) => wire.frame_body(piece),
            Wire::Dubbo(wire) => wire.frame_body(piece, out),
            Wire::Gateway(_) | Wire::Memcached(_) | Wire::Tunnel(_) | Wire::Raw => out.push(piece),
        }
    }

    /// Frames the end of the request body.
    pub(crate) fn end_body(&mut self, out: &mut OutputChain) {
        match self {
            Wire::Http1(wire) => wire.end_body(out),
            Wire::FastCgi(wire) => wire.end_body(out),
            Wire::Http2(wire) => wire.end_body(),
            Wire::Dubbo(wire) => wire.end_body(out),
            Wire::Gateway(_) | Wire::Memcached(_) | Wire::Tunnel(_) | Wire::Raw => {}
        }
    }

    /// Takes the next event from `input`; `None` when more bytes are needed. With `closed` no more
    /// will arrive.
    ///
    /// # Errors
    /// See [`WireError`]; the connection must be closed.
    pub(crate) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        match self {
            Wire::Http1(wire) => wire.next_event(input, closed),
            Wire::FastCgi(wire) => wire.next_event(input, closed),
            Wire::Gateway(wire) => wire.next_event(input, closed),
            Wire::Http2(wire) => wire.next_event(input, closed),
            Wire::Memcached(wire) => wire.next_event(input, closed),
            Wire::Tunnel(established) => Ok(established.take().map(WireEvent::Head)),
            Wire::Dubbo(wire) => wire.next_event(input, closed),
            Wire::Raw if !input.is_empty() => {
                Ok(Some(WireEvent::Data(Bytes::from(std::mem::take(input)))))
            }
            Wire::Raw if closed => Ok(Some(WireEvent::End(ResponseEnd::default()))),
            Wire::Raw => Ok(None),
        }
    }

    /// The stream, where the protocol has several on a connection: windows that bound its body,
    /// a session that outlives it, frames of its own. `None` where the connection is the
    /// request's alone and all that is framed can be sent.
    pub(crate) fn stream(&self) -> Option<&Http2> {
        match self {
            Wire::Http2(stream) => Some(stream),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut Http2> {
        match self {
            Wire::Http2(stream) => Some(stream),
            _ => None,
        }
    }

    /// The peer's messages to the operator.
    pub(crate) fn take_remarks(&mut self) -> Vec<String> {
        match self {
            Wire::FastCgi(wire) => wire.take_remarks(),
            Wire::Http2(wire) => wire.take_remark().into_iter().collect(),
            Wire::Http1(_)
            | Wire::Gateway(_)
            | Wire::Memcached(_)
            | Wire::Tunnel(_)
            | Wire::Dubbo(_)
            | Wire::Raw => Vec::new(),
        }
    }

    /// From now on the peer uses another protocol (101).
    pub(crate) fn upgrade(&mut self) {
        *self = Wire::Raw;
    }

    /// Whether a body of unknown length ends with the connection.
    pub(crate) fn may_end_with_connection(&self) -> bool {
        matches!(self, Wire::Http1(_) | Wire::Gateway(_))
    }

    /// Whether the response is complete, and only the end of the request is missing.
    pub(crate) fn has_all_output(&self) -> bool {
        matches!(self, Wire::FastCgi(wire) if wire.has_all_output())
    }

    /// Bytes of the body that are known to follow, to size the next read.
    pub(crate) fn known_left(&self) -> u64 {
        match self {
            Wire::Http1(wire) => wire.known_left(),
            Wire::FastCgi(wire) => wire.known_left(),
            Wire::Gateway(wire) => wire.known_left(),
            Wire::Http2(wire) => wire.known_left(),
            Wire::Memcached(wire) => wire.known_left(),
            Wire::Tunnel(_) | Wire::Dubbo(_) | Wire::Raw => 0,
        }
    }
}

impl WireError {
    /// A gateway program has only one response; a 1xx is invalid.
    fn interim(status: StatusCode) -> WireError {
        WireError::Invalid(format!("upstream sent invalid status \"{}\"", status.0))
    }

    /// A head that is refused, with the bytes at fault.
    fn head(error: &ResponseError, buffer: &[u8]) -> WireError {
        let quoted = match (error, error.excerpt()) {
            (_, None) => String::new(),
            (ResponseError::InvalidHeader { line }, _) => {
                format!(": \"{}\"", up_to_fault(line.of(buffer)))
            }
            (_, Some(span)) => format!(": \"{}\"", span.of(buffer).escape_ascii()),
        };
        WireError::Invalid(format!("{error}{quoted}"))
    }
}

/// A header line up to the invalid byte, as nginx shows it: `Bad\x20...`.
fn up_to_fault(line: &[u8]) -> String {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let is_fault = |&byte: &u8| byte <= b' ' || byte == 0x7f;
    // In a value, it is the byte that ended the search for the end of the line.
    let in_value = line.len().saturating_sub(1);
    let at = name.iter().position(is_fault).unwrap_or(in_value);
    let byte = line
        .get(at)
        .map_or_else(String::new, |byte| format!("\\x{byte:02x}"));
    format!("{}{byte}...", line[..at.min(line.len())].escape_ascii())
}

/// The next piece of a body in the input; `None` when more bytes are needed or the body is over.
/// With `closed` no more will arrive, which is the end of some bodies.
fn next_piece(
    body: &mut ResponseBodyDecoder,
    input: &mut Vec<u8>,
    closed: bool,
) -> Result<Option<Bytes>, WireError> {
    while !body.is_done() && !input.is_empty() {
        let decoded = body
            .decode(input)
            .map_err(|error| WireError::Invalid(error.to_string()))?;
        if decoded.data.is_empty() {
            input.drain(..decoded.consumed);
            continue;
        }
        if decoded.data == (0..input.len()) {
            return Ok(Some(buffers::shared(std::mem::take(input))));
        }
        let piece = Bytes::copy_from_slice(&input[decoded.data]);
        input.drain(..decoded.consumed);
        return Ok(Some(piece));
    }
    if closed && !body.is_done() {
        body.close().map_err(|_| WireError::ClosedEarly)?;
    }
    Ok(None)
}

/// Takes the head out of the input, which keeps what follows.
fn split_head(input: &mut Vec<u8>, head_bytes: usize) -> Vec<u8> {
    let mut rest = Vec::new();
    if input.len() > head_bytes {
        rest = buffers::for_bytes((input.len() - head_bytes) as u64);
        rest.extend_from_slice(&input[head_bytes..]);
    }
    std::mem::replace(input, rest)
}
