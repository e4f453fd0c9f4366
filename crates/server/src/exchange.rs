//! One request and its response.
//!
//! The router, the handlers and the filters work on an [`Exchange`]. It owns the bytes of the
//! request head and the response that is being built. Everything configured is found through
//! indices into the [`Snapshot`] that it began with, so a reload never changes a request in
//! progress, and no reference count that threads share is touched.

use crate::body_source::PendingBody;
use crate::client_link::ClientLink;
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::features::Features;
use crate::pipeline::PhaseState;
use crate::proxying::UpstreamStates;
use crate::request_body::ReceivedBody;
use crate::snapshot::{ListenerId, LocationId, ServerId, ServerRuntime, Snapshot};
use crate::values::Values;
use crate::worker::Worker;
use sealane_conf::model::LocationConf;
use sealane_http::h1::RequestHead;
use sealane_http::headers::HeaderList;
use sealane_http::status::StatusCode;
use sealane_io::chain::OutputChain;
use sealane_io::open_file::FileVersion;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// One request and its response.
pub struct Exchange {
    /// The worker thread it runs on.
    pub worker: Arc<Worker>,
    /// All configured state, as it was when the request began.
    pub snapshot: Arc<Snapshot>,
    /// The client's connection.
    pub connection: Arc<ConnectionFacts>,
    /// The listener it came through.
    pub listener: ListenerId,
    /// Its end of the connection: the request body, interim responses.
    pub client: ClientLink,
    /// The request.
    pub request: Request,
    /// The server chosen by address and name.
    pub server: ServerId,
    /// The location chosen last; before that, the server's own settings.
    pub location: LocationId,
    /// The attempts at upstream servers, and their responses.
    pub(crate) upstream: Option<Box<UpstreamStates>>,
    /// The response.
    pub response: Response,
    /// What the connection measures of it.
    pub transfer: Transfer,
    /// Its progress through the pipeline.
    pub(crate) phases: PhaseState,
    /// What features keep with it.
    pub(crate) features: Features,
}

/// The request as received, and where internal redirects have led it.
pub struct Request {
    /// The head as received; positions in `head` point into it.
    pub buffer: Vec<u8>,
    /// The parsed head.
    pub head: RequestHead,
    /// Normalised path: decoded, dots resolved, slashes merged. Changed by internal redirects.
    pub uri: Vec<u8>,
    /// Arguments after `?`, as received, without the `?`. Changed by internal redirects. Arguments
    /// that the configuration has made empty differ from none: see [`Request::args`].
    pub args: Option<Vec<u8>>,
    /// Host name from the request line or `Host`: lower case, without port. Empty if there is none.
    pub host: Vec<u8>,
    /// The state of the body.
    pub body: RequestBody,
    /// The body, once it has been read to its end; empty if that has failed.
    pub received: Option<ReceivedBody>,
    /// Set by an internal redirect: `internal` locations may answer.
    pub internal: bool,
    /// `uri` and `args` are no longer those of the request line: an internal redirect
    /// has set others.
    pub uri_replaced: bool,
    /// It is a subrequest: access is not checked again, and nothing is mirrored.
    pub is_subrequest: bool,
    /// It arrived as early data (0-RTT), before the client's Finished: it may be a replay (RFC
    /// 8470).
    pub early_data: bool,
    /// Captures of the last regular expression that matched, and the variables that the
    /// configuration defines.
    pub values: Values,
}

/// The state of the request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// There is none.
    None,
    /// A handler reads it while it arrives.
    Taken,
    /// Not read yet. If it is not read through [`Exchange::client`], the connection discards it
    /// after the response.
    Unread,
}

/// The response being built by handlers and filters.
pub struct Response {
    /// Status code sent.
    pub status: StatusCode,
    /// `Content-Type` with charset; `None` leaves the header out.
    pub content_type: Option<ContentType>,
    /// `charset` has named a character set in `content_type`.
    pub charset_named: bool,
    /// `X-Accel-Charset`: the character set that the upstream server asks for.
    pub override_charset: Option<Box<[u8]>>,
    /// `Content-Length`, or `None` when unknown (then chunked, or closed at the end).
    pub content_length: Option<u64>,
    /// `Last-Modified` in seconds since 1970.
    pub last_modified_s: Option<i64>,
    /// `ETag` with its quotes.
    pub etag: Option<ETag>,
    /// Ranges may be served, and `Accept-Ranges: bytes` is sent.
    pub allow_ranges: bool,
    /// At most one range at a time, whatever `max_ranges` allows.
    pub single_range: bool,
    /// `Location`, as it will be sent.
    pub location: Option<Vec<u8>>,
    /// The server made `location` absolute itself: nginx then writes it before `Connection`.
    pub location_made_absolute: bool,
    /// Other clients may get another coding: `gzip_vary` adds `Vary: Accept-Encoding`.
    pub varies_by_encoding: bool,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'static str>,
    /// Further headers, in order.
    pub headers: HeaderList,
    /// Trailers, to follow the last chunk; `content_length` is `None` when there are any.
    pub trailers: HeaderList,
    /// `add_trailer` adds some at the end of the body.
    pub(crate) adds_trailers: bool,
    /// It comes from an upstream server, which has evaluated preconditions itself.
    pub from_upstream: bool,
    /// It is kept in a cache, or comes from one: conditions are evaluated here after all.
    pub is_cacheable: bool,
    /// What the upstream server says about itself and the time, to be passed on.
    pub passed: Option<Box<PassedHead>>,
    /// The body, or its beginning; empty for HEAD.
    pub body: OutputChain,
    /// Where the rest of the body comes from while it arrives.
    pub source: Option<PendingBody>,
    /// Close the connection without answering (`return 444`).
    pub drop_connection: bool,
    /// Its body is a tunnel: whatever both sides say.
    pub(crate) is_tunnel: bool,
    /// Set by a handler or by the protocol: no further request on this connection.
    pub close: bool,
}

/// What an upstream server says in our place. Its headers are in the list, in its order and byte
/// for byte; this tells which ones not to add.
#[derive(Debug, Clone, Default)]
pub struct PassedHead {
    /// The upstream server decides about `Server`.
    pub server: bool,
    /// And about `Date`.
    pub date: bool,
    /// It has sent a `Last-Modified`, whatever it contains.
    pub last_modified: bool,
    /// The reason phrase of the status line, where it is not the usual one.
    pub reason: Option<Box<[u8]>>,
}

/// A media type. Stored inline: all threads share the configured types and would contend for a
/// reference count that every response changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType(SmallVec<[u8; 64]>);

/// An entity tag of up to 47 bytes, kept inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag {
    bytes: [u8; 47],
    len: u8,
}

/// What the connection measures of a request, for logs, variables and limits.
pub struct Transfer {
    /// When the first byte of the request arrived.
    pub started: Instant,
    /// Bytes sent to the client, head included (before TLS).
    pub sent_bytes: u64,
    /// Size of the response head.
    pub head_bytes: u64,
    /// Bytes of the request received: line, head and body.
    pub request_bytes: u64,
    /// The response was sent to its end.
    pub completed: bool,
    /// The request was pipelined (`$pipe`).
    pub pipelined: bool,
}

impl Request {
    /// The arguments; empty if there are none.
    pub fn args(&self) -> &[u8] {
        self.args.as_deref().unwrap_or_default()
    }
}

impl Exchange {
    /// Settings of the location that holds now.
    pub fn conf(&self) -> &LocationConf {
        &self.snapshot.location(self.location).conf
    }

    /// The server that answers.
    pub fn server(&self) -> &ServerRuntime {
        self.snapshot.server(self.server)
    }

    /// The address of the client: of the connection, or as a trusted proxy tells it.
    pub fn client_address(&self) -> PeerAddress {
        let told = self.features.real_ip.client_address;
        told.unwrap_or(self.peer_address())
    }

    /// The address of the other side of the connection, when the request came.
    pub(crate) fn peer_address(&self) -> PeerAddress {
        let moved_to = self.features.real_ip.moved_to.as_deref();
        match moved_to {
            Some(moved_to) => PeerAddress::Inet(*moved_to),
            None => self.connection.client_address(),
        }
    }

    /// Whether the connection's listener speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.connection.is_secure()
    }
}

impl Transfer {
    /// A request whose first byte arrived at `started` and whose head took `request_bytes`.
    pub(crate) fn new(started: Instant, request_bytes: u64) -> Transfer {
        Transfer {
            started,
            sent_bytes: 0,
            head_bytes: 0,
            request_bytes,
            completed: false,
            pipelined: false,
        }
    }
}

impl Response {
    /// An empty 200.
    pub fn new() -> Response {
        Response {
            status: StatusCode::OK,
            content_type: None,
            charset_named: false,
            override_charset: None,
            content_length: None,
            last_modified_s: None,
            etag: None,
            allow_ranges: false,
            single_range: false,
            location: None,
            location_made_absolute: false,
            varies_by_encoding: false,
            content_encoding: None,
            headers: HeaderList::new(),
            trailers: HeaderList::new(),
            adds_trailers: false,
            from_upstream: false,
            is_cacheable: false,
            passed: None,
            body: OutputChain::new(),
            source: None,
            drop_connection: false,
            is_tunnel: false,
            close: false,
        }
    }
}

impl Default for Response {
    fn default() -> Self {
        Response::new()
    }
}

impl ContentType {
    /// A media type as sent; `None` for an empty one, which leaves the header out.
    pub fn new(text: &[u8]) -> Option<ContentType> {
        (!text.is_empty()).then(|| ContentType(SmallVec::from_slice(text)))
    }

    /// The type as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl ETag {
    /// Most bytes an entity tag can have here.
    pub const MAX_BYTES: usize = 47;

    /// A tag of these bytes (with quotes); `None` if it is too long.
    pub fn new(text: &[u8]) -> Option<ETag> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(ETag {
            bytes,
            len: text.len() as u8,
        })
    }

    /// nginx's tag of a file: modification time and size in hexadecimal.
    pub fn of_file(version: FileVersion) -> ETag {
        const { assert!(FileVersion::MAX_BYTES + 2 <= ETag::MAX_BYTES) }
        let text = version.as_bytes();
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[0] = b'"';
        bytes[1..=text.len()].copy_from_slice(text);
        bytes[text.len() + 1] = b'"';
        ETag {
            bytes,
            len: text.len() as u8 + 2,
        }
    }

    /// The tag as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
