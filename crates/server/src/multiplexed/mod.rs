//! Connections with many exchanges at a time: what HTTP/2 and HTTP/3 have in common.
//!
//! One task serves a connection and all of its streams. A stream is an exchange first, then its
//! response. What is written for it, and when, is up to the protocol: [`MultiplexedWire`].
//!
//! | file | what it holds |
//! |---|---|
//! | `exchanges` | what happens on streams: requests come in, responses begin and end |
//! | `stream` | one stream: its exchange, then its response |
//! | `table` | the streams, and which are to be looked at |
//! | `timeouts` | streams that have waited for too long |
//! | `wakers` | which streams were woken |
//! | `time` | the time of a turn |

mod exchanges;
mod stream;
mod table;
mod time;
mod timeouts;
mod wakers;

pub(crate) use exchanges::{Exchanges, Incoming};
pub(crate) use stream::{FollowUp, ResetReason, Stream, StreamResponse, StreamState};
pub(crate) use table::{StreamTable, WireName};
pub(crate) use time::{TurnTime, ms};
pub(crate) use timeouts::{TIMED_OUT, log_slow_reader};

use crate::exchange::Exchange;
use sealane_http::StatusCode;
use sealane_http::headers::HeaderList;

/// The stream is gone, or its head does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsendable;

/// How a protocol says what exchanges have for their clients. What is said about a stream that is
/// gone does nothing.
pub(crate) trait MultiplexedWire {
    /// What the protocol calls a stream.
    type Name: WireName;

    /// An interim response.
    fn send_interim(&mut self, stream: Self::Name, status: StatusCode, headers: &HeaderList);

    /// The head of the response, whose size is noted. `end`: nothing follows.
    ///
    /// # Errors
    /// [`Unsendable`]; nothing was written.
    fn send_head(
        &mut self,
        stream: Self::Name,
        exchange: &mut Exchange,
        end: bool,
    ) -> Result<(), Unsendable>;

    /// Trailers, which end the response.
    fn send_trailers(&mut self, stream: Self::Name, trailers: &HeaderList);

    /// The end of a body that has been sent.
    fn end_body(&mut self, stream: Self::Name);

    /// Gives the stream up in both directions.
    fn reset(&mut self, stream: Self::Name, reason: ResetReason);

    /// The stream has more of its body, or its end.
    fn offer(&mut self, stream: Self::Name);

    /// The request body is read from now on: its window may be wider.
    fn widen(&mut self, stream: Self::Name);

    /// So many bytes of the request body were read.
    fn release(&mut self, stream: Self::Name, bytes: usize);

    /// Since when the client has taken nothing of what the stream has to send, in milliseconds of
    /// the coarse clock. `None` if nothing waits for the client. `moved_ms`: when something was
    /// written last.
    fn blocked_since_ms(&self, stream: Self::Name, moved_ms: u64) -> Option<u64>;

    /// All of the response was written. Returns whether the client still sends its body.
    fn answered(&mut self, stream: Self::Name, time: TurnTime) -> bool;
}
