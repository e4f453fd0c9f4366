//! The outcome of a pick.

use super::failures::{Clock, Failure};
use super::peer_set::PeerRef;
use super::times::Stopwatch;
use std::fmt;
use std::time::Instant;

/// A peer with one request counted on it, until this is dropped or told the outcome. Long-lived
/// requests, such as WebSockets, keep it for as long as they live.
#[must_use = "dropping it ends the count of the request on its peer"]
pub struct Picked {
    peer: PeerRef,
    /// It is the only peer of its group, so failures are not recorded.
    single: bool,
    clock: Clock,
    /// For `least_time`.
    stopwatch: Option<Stopwatch>,
}

impl Picked {
    pub(super) fn new(
        peer: PeerRef,
        single: bool,
        clock: Clock,
        stopwatch: Option<Stopwatch>,
    ) -> Picked {
        Picked {
            peer,
            single,
            clock,
            stopwatch,
        }
    }

    /// The peer.
    pub fn peer(&self) -> &PeerRef {
        &self.peer
    }

    /// The response head is there.
    pub fn note_header(&mut self, now: Instant) {
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.note_header(&self.peer.times, self.clock.ms(now));
        }
    }

    /// A connection to the peer stands: for sessions of layer 4, which may last, that is enough to
    /// use it like any other after failures.
    pub fn note_connected(&self) {
        self.peer.succeed();
    }

    /// The request is done and the peer worked properly. That includes responses that are passed to
    /// another peer because of their status (`proxy_next_upstream http_404` and `http_403`).
    pub fn succeeded(mut self, now: Instant) {
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.note_success(&self.peer.times, self.clock.ms(now));
        }
        if self.single {
            self.peer.forgive();
        } else {
            self.peer.succeed();
        }
    }

    /// The peer failed, in the sense of `proxy_next_upstream`. The caller logs the effect on the
    /// peer.
    pub fn failed(self, now: Instant) -> Failure {
        if self.single {
            self.peer.counts().failures.add(1);
            self.peer.forgive();
            return Failure {
                disabled: false,
                fails: 0,
            };
        }
        self.peer.fail(self.clock.ms(now))
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        if let Some(stopwatch) = self.stopwatch.as_mut().filter(|watch| watch.is_running()) {
            let now_ms = self.clock.ms(Instant::now());
            stopwatch.stop(&self.peer.times, now_ms);
        }
        self.peer.leave();
    }
}

impl fmt::Debug for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Picked").field(&self.peer.name()).finish()
    }
}

/// No peer can be picked: all are down, disabled after failures, full or already tried. The
/// response is 502; the text is what nginx logs, with the group's name as upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPeer;

impl fmt::Display for NoPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no live upstreams while connecting to upstream")
    }
}

impl std::error::Error for NoPeer {}
