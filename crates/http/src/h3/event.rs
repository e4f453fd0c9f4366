//! Events that a connection reports to its owner.

use super::error::StreamError;
use crate::h1::RequestError;
use crate::message::{Priority, Request, Response, Trailers};

/// The result of [`Connection::receive`](super::Connection::receive).
#[derive(Debug)]
pub struct Received<'i> {
    /// Bytes of the input that have been processed.
    pub consumed: usize,
    /// What happened. `None` once everything that can be read now has been read; if bytes are left
    /// then, the stream [waits for the peer's encoder](super::Connection::receive).
    pub event: Option<Event<'i>>,
}

/// Something that happened on the connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // moved once, into its owner; a box would cost more
pub enum Event<'i> {
    /// The peer's SETTINGS have arrived.
    Settings,
    /// Server: a request.
    Request {
        /// Its stream, for the response.
        id: u64,
        /// The head.
        request: Request,
        /// There is no body.
        end: bool,
    },
    /// Server: a request that must be answered with the status of `error` and not be processed. One
    /// that [is malformed](RequestError::is_malformed) has no body, and after its response the
    /// stream is reset with H3_MESSAGE_ERROR instead of being ended.
    Refused {
        /// Its stream, for the response.
        id: u64,
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
        id: u64,
        /// The head.
        response: Response,
    },
    /// Client: the response.
    Response {
        /// The stream of the request.
        id: u64,
        /// The head.
        response: Response,
        /// There is no body.
        end: bool,
    },
    /// A part of a body, as much as has arrived.
    Data {
        /// The stream.
        id: u64,
        /// The part; empty only with `end`.
        bytes: &'i [u8],
        /// The body is complete.
        end: bool,
    },
    /// Trailers; the body is complete.
    Trailers {
        /// The stream.
        id: u64,
        /// The fields.
        trailers: Trailers,
    },
    /// The stream is over because of what the peer sent on it: reset it, and stop the peer from
    /// sending, with the code of `error`. It is forgotten here. Comes without a request, too.
    Error {
        /// The stream.
        id: u64,
        /// Why.
        error: StreamError,
    },
    /// Server: a request that was given out turns out to be malformed. Stop the client from
    /// sending, with the code of `error`. A response may still be sent; then the stream is reset
    /// with that code (RFC 9114 section 4.1.2).
    Malformed {
        /// The stream.
        id: u64,
        /// Why.
        error: StreamError,
    },
    /// A unidirectional stream of a type that is not known: stop the peer from sending, with
    /// H3_STREAM_CREATION_ERROR (RFC 9114 section 6.2). What comes on it is ignored.
    UnknownStream {
        /// The stream.
        id: u64,
    },
    /// Server: the client has changed the priority of a response (RFC 9218 section 7.2).
    Priority {
        /// The stream, which was opened. All of its response may have been written.
        id: u64,
        /// The new one.
        priority: Priority,
    },
    /// The peer ends the connection. A client learns by `id` which requests are not processed:
    /// those on this stream and above may be sent again on another connection (RFC 9114 section
    /// 5.2). For a server, `id` is about pushes, and means nothing.
    GoAway {
        /// The first stream that is not processed.
        id: u64,
    },
}
