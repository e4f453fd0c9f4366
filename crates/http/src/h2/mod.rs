//! HTTP/2 without I/O or clock, both sides (RFC 9113, RFC 9218).
//!
//! # How a connection is driven
//!
//! The owner has the socket, the payloads and the time; [`Connection`] has the rules. One iteration
//! of a server's loop:
//!
//! ```
//! use sealane_http::h2::{Connection, Event, Fault};
//! # use sealane_http::{StatusCode, h1::{ResponseHead, Version}, headers::HeaderList};
//! # use std::time::Duration;
//! # fn turn(
//! #     connection: &mut Connection, input: &mut Vec<u8>, out: &mut Vec<u8>, now: Duration,
//! # ) -> Result<(), Fault> {
//! // 1. What has come. Replies to it are appended to `out`.
//! let mut at = 0;
//! loop {
//!     let received = connection.receive(&input[at..], now, out)?; // on a fault: send `out`, close
//!     at += received.consumed;
//!     match received.event {
//!         Some(Event::Request { stream, request, end: _ }) => {
//!             // 2. Answers, in whatever order they are ready.
//! #           let _ = request;
//! #           let headers = HeaderList::new();
//! #           let head = ResponseHead::new(Version::Http2, StatusCode::OK, &headers);
//!             connection.send_response(stream, &head, false, out).expect("it was just opened");
//!             connection.offer(stream); // its body has bytes to send
//!         }
//!         Some(_) => {} // the other events
//!         None => break,
//!     }
//! }
//! input.drain(..at);
//! // 3. Bodies, by priority, as far as the peer's windows go and one write should.
//! while out.len() < 64 * 1024
//!     && let Some(grant) = connection.next_data()
//! {
//!     let body = b"the next bytes of this stream"; // or a file range, put behind `out` in a chain
//!     let bytes = (body.len() as u32).min(grant.max_bytes);
//!     connection.data(grant.stream, bytes, true, out).expect("within the grant");
//!     out.extend_from_slice(&body[..bytes as usize]);
//! }
//! // 4. One write for everything in `out`. When it is out entirely: connection.flushed().
//! # Ok(())
//! # }
//! ```
//!
//! - Everything is appended to one `out` and must be sent in that order: header blocks change the
//!   peer's tables. File ranges may come between parts of it.
//! - Before dropping a connection because of a [`Fault`], send what is in `out`.
//! - Body bytes are returned with [`Connection::release`] when they are consumed. Until then they
//!   count against the windows, so that the peer can fill no more memory than those allow.
//! - A stream is gone when both sides have ended it or one has reset it. The owner hears of
//!   everything except its own actions; operations on streams that are gone do nothing.
//! - Time is a [`Duration`](std::time::Duration) since any fixed moment; only the meters of
//!   [`Limits`] and the round-trip measurement use it. Time-outs are up to the owner.
//!
//! | module | what it knows | RFC 9113 |
//! |---|---|---|
//! | `connection` | the state machine, its beginning and end | 3, 5.4, 6.8 |
//! | `receive`, `heads` | frames in, events out | 4, 5, 6, 8.1 |
//! | `send` | heads, grants, resets out | 5, 6, 8.1 |
//! | `frame` | frames on the wire | 4, 6 |
//! | `settings` | settings of both sides | 6.5 |
//! | `flow` | windows and their growth | 5.2, 6.9 |
//! | `streams` | where streams are kept | 5.1 |
//! | `schedule` | whose turn it is | RFC 9218 |
//! | `message` beside this module | what heads may hold, priorities | 8.2, 8.3 |
//! | `limits` | floods | 10.5 |
//! | [`hpack`] | header compression | RFC 7541 |

mod connection;
mod error;
mod event;
mod flow;
mod frame;
mod heads;
pub mod hpack;
mod limits;
mod receive;
mod schedule;
mod send;
mod settings;
mod streams;

#[cfg(test)]
mod tests;

pub use connection::{Connection, Role};
pub use error::{ErrorCode, Fault, Flood, StreamFault};
pub use event::{Event, Grant, OpenError, Received, SendError};
pub use frame::{DEFAULT_MAX_FRAME_BYTES, HEADER_BYTES, PREFACE};
pub use limits::{Counters, Limits};
pub use settings::Settings;
pub use streams::StreamRef;

pub use crate::message::{Priority, Request, RequestTarget, Response, Scheme, Trailers};
pub use crate::meter::Allowance;
