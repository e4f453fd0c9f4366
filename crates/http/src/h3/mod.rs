//! HTTP/3 without I/O or clock, both sides (RFC 9114, RFC 9204, RFC 9218, RFC 9220).
//!
//! # How a connection is driven
//!
//! The transport has streams with bytes; [`Connection`] has the rules. The owner passes in what
//! comes on streams, and writes what is appended to its buffers, each to its stream:
//!
//! ```
//! use sealane_http::h3::{Channel, Connection, ConnectionError, Event, Role, Settings};
//! use sealane_http::h3::{RequestTarget, Scheme};
//! use sealane_http::{StatusCode, headers::Field};
//! # use std::{sync::Arc, time::Duration};
//! # fn main() -> Result<(), ConnectionError> {
//! let now = Duration::ZERO; // since any fixed moment
//! let settings = Arc::new(Settings::default());
//! let mut client = Connection::new(Role::Client, Arc::clone(&settings), now);
//! let mut server = Connection::new(Role::Server, settings, now);
//!
//! // Each side has up to three streams of its own, which are opened when there is something to
//! // send on them. Here, the control stream of the client, on its first unidirectional stream.
//! let control = client.outgoing(Channel::Control).to_vec();
//! client.sent(Channel::Control, control.len());
//! server.opened(2, now)?;
//! let received = server.receive(2, &control, false, now)?;
//! assert!(matches!(received.event, Some(Event::Settings)));
//!
//! // A request, on the client's first bidirectional stream, which ends behind it.
//! let target = RequestTarget::new(b"GET", Scheme::Https, b"example.com", b"/").expect("valid");
//! let mut request = Vec::new();
//! client.send_request(0, &target, [], true, &mut request).expect("a new stream");
//!
//! // The server reads it, and answers.
//! let mut response = Vec::new();
//! server.opened(0, now)?;
//! let received = server.receive(0, &request, true, now)?;
//! let Some(Event::Request { id: 0, request, end: true }) = received.event else {
//!     panic!("a request without a body");
//! };
//! assert_eq!(request.head.path.of(&request.text), b"/");
//! let fields = [Field::from_static("server", "sealane")];
//! server.send_head(0, StatusCode::OK, fields, false, &mut response).expect("the first head");
//! server.data(0, 5, true, &mut response).expect("behind the head");
//! response.extend_from_slice(b"hello"); // or by another way, from a file
//!
//! // The head refers to fields that the server tells on another stream of its own.
//! let instructions = server.outgoing(Channel::Encoder).to_vec();
//! server.sent(Channel::Encoder, instructions.len());
//! client.opened(3, now)?;
//! assert!(client.receive(3, &instructions, false, now)?.event.is_none());
//!
//! // The client reads one event after the other.
//! let received = client.receive(0, &response, true, now)?;
//! assert!(matches!(received.event, Some(Event::Response { id: 0, .. })));
//! let received = client.receive(0, &response[received.consumed..], true, now)?;
//! assert!(matches!(received.event, Some(Event::Data { bytes: b"hello", end: true, .. })));
//! # Ok(())
//! # }
//! ```
//!
//! - Every stream of the peer is announced with [`Connection::opened`], before its bytes. Its end
//!   is told with the last bytes, its reset with [`Connection::stream_reset`].
//! - [`Connection::receive`] is called until there is no event. A section of fields may have to
//!   wait for entries that come on another stream: what follows it is not consumed until then.
//! - After each turn, what is [outgoing](Connection::outgoing) on the three channels is written. A
//!   head may refer to what is written on [`Channel::Encoder`], which should be sent first.
//! - A stream is gone when both sides have ended it or one has reset it. The owner hears of
//!   everything except its own actions; operations on streams that are gone do nothing.
//! - Only the meters of [`Limits`] use the time. Time-outs are up to the owner, and so is whose
//!   turn it is to send: the connection knows [priorities](Connection::priority).
//! - Neither pushes nor datagrams (RFC 9297) are sent or announced.
//!
//! | module | what it knows | RFC 9114 |
//! |---|---|---|
//! | `connection` | streams, their beginning and end, GOAWAY | 5, 6 |
//! | `receive` | frames of requests in, events out | 4.1, 6.2, 7 |
//! | `heads` | field sections in | 4.1 to 4.4 |
//! | `hq` | HTTP/0.9 in the place of all of it, for tests of interoperability | |
//! | `control` | control streams: SETTINGS, GOAWAY, PRIORITY_UPDATE | 6.2.1, 7.2 |
//! | `send` | heads, headers of DATA, trailers out | 4.1, 7.2 |
//! | `frame`, `varint` | frames on the wire | 7.1 |
//! | `streams` | where streams are kept | |
//! | `settings` | what is announced and allowed, floods | 7.2.4, 10.5 |
//! | `error` | codes | 8 |
//! | `message` beside this module | what heads may hold, priorities | 4.2, 4.3 |
//! | `qpack` | header compression | RFC 9204 |

mod connection;
mod control;
mod error;
mod event;
mod frame;
mod heads;
mod hq;
pub(crate) mod qpack;
mod receive;
mod send;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
mod varint;

pub use connection::{Channel, Connection, Role};
pub use error::{Code, ConnectionError, SendError, StreamError};
pub use event::{Event, Received};
pub use settings::{Limits, Settings};

pub use crate::message::{Priority, Request, RequestTarget, Response, Scheme, Trailers};
