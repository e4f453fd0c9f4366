//! Events that a connection reports to its owner.

use super::error::{ErrorCode, StreamFault};
use super::streams::StreamRef;
use crate::h1::RequestError;
use crate::message::{Request, Response, Trailers};

/// The result of [`Connection::receive`](super::Connection::receive).
#[derive(Debug)]
pub struct Received<'i> {
    /// Bytes of the input that have been processed. The bytes after them must be passed in again,
    /// with more appended.
    pub consumed: usize,
    /// What happened; `None` once everything readable has been read.
    pub event: Option<Event<'i>>,
}

/// Something that happened on the connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // moved once, into its owner; a box would cost more
pub enum Event<'i> {
    /// The peer's first SETTINGS have arrived. A client that opens streams earlier does not know
    /// how many it may open.
    Settings,
    /// Server: a request.
    Request {
        /// Its stream, for the response.
        stream: StreamRef,
        /// The head.
        request: Request,
        /// There is no body.
        end: bool,
    },
    /// Server: a request that must be answered with the status of `error` and not be processed. One
    /// that [is malformed](RequestError::is_malformed) has no body, and its response is followed by
    /// [`reset`](super::Connection::reset) with PROTOCOL_ERROR instead of END_STREAM.
    Refused {
        /// Its stream, for the response.
        stream: StreamRef,
        /// What is known of the head. Method and target may be missing.
        request: Request,
        /// Why; positions are in the request's text.
        error: RequestError,
        /// There is no body.
        end: bool,
    },
    /// Client: an interim response (1xx); another head follows.
    Interim {
        /// The stream of the request.
        stream: StreamRef,
        /// The head.
        response: Response,
    },
    /// Client: the response.
    Response {
        /// The stream of the request.
        stream: StreamRef,
        /// The head.
        response: Response,
        /// There is no body.
        end: bool,
    },
    /// A part of a body, as much as has arrived. Return its bytes with
    /// [`release`](super::Connection::release) once they are consumed.
    Data {
        /// The stream.
        stream: StreamRef,
        /// The part; empty only with `end`.
        bytes: &'i [u8],
        /// The body is complete.
        end: bool,
    },
    /// Trailers; the body is complete.
    Trailers {
        /// The stream.
        stream: StreamRef,
        /// The fields.
        trailers: Trailers,
    },
    /// The peer has reset a stream, or will not process it. The stream is gone.
    Reset {
        /// The stream.
        stream: StreamRef,
        /// Why.
        code: ErrorCode,
        /// The peer has not processed the request at all: it may be sent again on another
        /// connection, whatever its method (RFC 9113 section 8.7).
        unprocessed: bool,
    },
    /// Server: a request turned out to be malformed within its body, before a response was sent.
    /// Nothing more comes; a response, if any, is followed by [`reset`](super::Connection::reset)
    /// with the code of `fault` instead of END_STREAM.
    Malformed {
        /// The stream.
        stream: StreamRef,
        /// Why, for the log.
        fault: StreamFault,
    },
    /// This side reset a stream because of what the peer sent on it. The stream is gone.
    Fault {
        /// Its identifier.
        id: u32,
        /// The stream, if it was announced before.
        stream: Option<StreamRef>,
        /// Why, for the log.
        fault: StreamFault,
    },
    /// The peer ends the connection: no new streams. For a client, streams above `last_stream`
    /// follow as [`Event::Reset`] with `unprocessed`.
    GoAway {
        /// The last stream that the peer processes.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
        /// Debug data from the peer; to be escaped in a log.
        debug: &'i [u8],
    },
    /// The answer to [`ping`](super::Connection::ping).
    Pong,
}

/// Permission to send DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The stream whose turn it is.
    pub stream: StreamRef,
    /// The most that its next frame may carry; at least one.
    pub max_bytes: u32,
}

/// Why something could not be sent. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The stream is gone: reset by either side, or ended.
    Gone,
    /// Out of order: a second head, a body before the head, something after the end.
    Order,
    /// More DATA than the windows or the frame size allow.
    Window,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SendError::Gone => "the stream is closed",
            SendError::Order => "head, body and trailers are out of order",
            SendError::Window => "more data than the peer allows",
        })
    }
}

impl std::error::Error for SendError {}

/// Why a client could not open a stream. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The maximum number of streams that the peer (or the settings) allow is open; try again when
    /// one ends.
    Full,
    /// The connection is ending or has no identifiers left; open another one.
    Closing,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OpenError::Full => "as many streams are open as the peer allows",
            OpenError::Closing => "the connection takes no more streams",
        })
    }
}

impl std::error::Error for OpenError {}
