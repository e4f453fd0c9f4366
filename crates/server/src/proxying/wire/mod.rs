//! The protocols spoken with peers, sans-IO: how a request is framed, and what the
//! bytes that come back mean.
//!
//! One [`Wire`] serves one request on one connection. Requests are framed into an
//! output chain; responses come out as [`Event`]s.

mod http1;

use crate::chain::{OutputChain, Segment};
use bytes::Bytes;
pub(crate) use http1::Http1;
use sealane_http::Method;
use sealane_http::h1::ReceivedResponse;
use sealane_http::headers::HeaderList;

/// One request's conversation in one of the protocols.
pub(crate) enum Wire {
    /// HTTP/1.0 or 1.1.
    Http1(Http1),
    /// Whatever both sides send (after 101).
    Raw,
}

/// What a peer said.
pub(crate) enum Event {
    /// A response head. Unless it is an interim one, its body follows.
    Head(Box<Head>),
    /// Part of the body.
    Data(Bytes),
    /// The response is complete.
    End(Ending),
}

/// A response head.
pub(crate) struct Head {
    /// The bytes that positions in `parsed` point into.
    pub(crate) buffer: Vec<u8>,
    /// Status and headers.
    pub(crate) parsed: ReceivedResponse,
}

/// The end of a response.
#[derive(Default)]
pub(crate) struct Ending {
    /// The connection can take another request.
    pub(crate) reusable: bool,
    /// Trailers.
    pub(crate) trailers: HeaderList,
    /// What to log, as a warning: bytes that belong to nothing, and the like.
    pub(crate) complaint: Option<&'static str>,
}

/// A response that cannot be understood, in nginx's words.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The head or the framing of the body is malformed.
    Invalid(String),
    /// The peer closed the connection before the end.
    ClosedEarly,
}

impl Wire {
    /// The method that was sent: it decides whether the response has a body.
    pub(crate) fn method(&self) -> Method {
        match self {
            Wire::Http1(wire) => wire.method,
            Wire::Raw => Method::Get,
        }
    }

    /// Frames a piece of the request body.
    pub(crate) fn frame_body(&mut self, piece: Segment, out: &mut OutputChain) {
        match self {
            Wire::Http1(wire) => wire.frame_body(piece, out),
            Wire::Raw => out.push(piece),
        }
    }

    /// Frames the end of the request body.
    pub(crate) fn end_body(&mut self, out: &mut OutputChain) {
        match self {
            Wire::Http1(wire) => wire.end_body(out),
            Wire::Raw => {}
        }
    }

    /// The next event in `input`, which gets shorter; `None` when more bytes are
    /// needed. With `closed` no more will come.
    ///
    /// # Errors
    /// See [`WireError`]; the connection must be closed.
    pub(crate) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<Event>, WireError> {
        match self {
            Wire::Http1(wire) => wire.next_event(input, closed),
            Wire::Raw if !input.is_empty() => {
                Ok(Some(Event::Data(Bytes::from(std::mem::take(input)))))
            }
            Wire::Raw if closed => Ok(Some(Event::End(Ending::default()))),
            Wire::Raw => Ok(None),
        }
    }

    /// What the peer sends from now on is another protocol (101).
    pub(crate) fn upgrade(&mut self) {
        *self = Wire::Raw;
    }

    /// Bytes of the body that are known to be missing, to size the next read.
    pub(crate) fn known_left(&self) -> u64 {
        match self {
            Wire::Http1(wire) => wire.known_left(),
            Wire::Raw => 0,
        }
    }
}
