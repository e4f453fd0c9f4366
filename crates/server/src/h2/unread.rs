//! Request bodies that are no longer read, as their streams were answered while the client
//! still sends.

use crate::multiplexed::{TurnTime, ms};
use sealane_http::h2::StreamRef;
use std::time::Duration;

/// How long a client has to stop sending a body once its stream was answered. Then the
/// stream is reset (RFC 9113 section 8.1); not at once, as there are clients that lose
/// the answer when the reset comes with it.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Streams with such a body, and when they were answered.
#[derive(Default)]
pub(super) struct UnreadBodies(Vec<(StreamRef, u64)>);

impl UnreadBodies {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A stream has been answered.
    pub(super) fn add(&mut self, stream: StreamRef, time: TurnTime) {
        self.0.push((stream, time.now_ms));
    }

    /// The client has ended the stream or lost it.
    pub(super) fn forget(&mut self, stream: StreamRef) {
        self.0.retain(|&(unread, _)| unread != stream);
    }

    /// Gives the streams that have lasted too long to `reset`. Returns the time until the next one
    /// is due.
    pub(super) fn reset_late(&mut self, time: TurnTime, mut reset: impl FnMut(StreamRef)) -> u64 {
        let mut next_ms = u64::MAX;
        self.0.retain(|&(stream, since_ms)| {
            if let Some(left_ms) = time.left_ms(since_ms, ms(GRACE)) {
                next_ms = next_ms.min(left_ms);
                return true;
            }
            reset(stream);
            false
        });
        next_ms
    }

    /// Gives memory back while there are none.
    pub(super) fn trim(&mut self) {
        self.0 = Vec::new();
    }
}
