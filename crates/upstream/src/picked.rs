//! The outcome of a pick.

use super::failures::{Clock, Failure};
use super::peer_set::PeerRef;
use std::fmt;
use std::time::Instant;

/// A peer with one request counted on it, until this is dropped or told how it went.
/// Requests that stay, such as those of WebSockets, keep it for as long.
#[must_use = "dropping it ends the count of the request on its peer"]
pub struct Picked {
    peer: PeerRef,
    /// The only peer of its group: failures are of no use to know.
    single: bool,
    clock: Clock,
}

impl Picked {
    pub(super) fn new(peer: PeerRef, single: bool, clock: Clock) -> Picked {
        Picked {
            peer,
            single,
            clock,
        }
    }

    /// The peer.
    pub fn peer(&self) -> &PeerRef {
        &self.peer
    }

    /// The request is done and the peer did what it should, which includes answers that
    /// are passed to another peer for what they say (`proxy_next_upstream http_404`
    /// and `http_403`).
    pub fn succeeded(self) {
        if self.single {
            self.peer.forgive();
        } else {
            self.peer.succeed();
        }
    }

    /// The peer failed, in the sense of `proxy_next_upstream`. The caller logs what it
    /// did to the peer.
    pub fn failed(self, now: Instant) -> Failure {
        if self.single {
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
        self.peer.leave();
    }
}

impl fmt::Debug for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Picked").field(&self.peer.name()).finish()
    }
}

/// No peer can be picked: all are down, left out after failures, full or tried already.
/// The answer is 502; the text is what nginx logs, with the group's name as upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPeer;

impl fmt::Display for NoPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no live upstreams while connecting to upstream")
    }
}

impl std::error::Error for NoPeer {}
