//! Timers, RFC 9002 section 6.2.

use std::time::Duration;

use crate::{Space, Time};

use super::{Fate, Item, Packet, Path, Recovery};

/// The timeout is doubled at most so often.
const MAX_BACKOFF: u8 = 16;

/// The longest timeout: far above any idle timeout in use.
const MAX_TIMEOUT: Duration = Duration::from_secs(120);

/// Transport parameters with more are not valid, RFC 9000 section 18.2.
const MAX_ACK_DELAY: Duration = Duration::from_millis(1 << 14);

/// Probes for one timeout, RFC 9002 section 6.2.4: two, so that one may be lost.
const PROBES: u8 = 2;

/// After so many timeouts in a row, large or marked datagrams may be what does not arrive, RFC
/// 8899 section 4.3 and RFC 9000 appendix A.4.
const TIMEOUTS_BEFORE_FALLBACK: u8 = 3;

/// Probe timeouts of a connection.
#[derive(Debug)]
pub(super) struct Pto {
    max_ack_delay: Duration,
    /// When a packet that elicits an ACK was last sent in each space.
    last_eliciting: [Time; 3],
    /// When the last timeout was, or anything else that starts the wait anew.
    base: Time,
    probes: [u8; 3],
    /// Timeouts in a row.
    count: u8,
    /// Whether the peer has validated this end's address: a client cannot know at first.
    peer_validated: bool,
    has_handshake_keys: bool,
    pub(super) confirmed: bool,
}

impl Pto {
    pub(super) fn new(is_client: bool) -> Self {
        Self {
            max_ack_delay: Duration::from_millis(25),
            last_eliciting: [Time::ZERO; 3],
            base: Time::ZERO,
            probes: [0; 3],
            count: 0,
            peer_validated: !is_client,
            has_handshake_keys: false,
            confirmed: false,
        }
    }

    pub(super) fn on_sent(&mut self, space: Space, packet: &Packet) {
        if packet.ack_eliciting {
            self.last_eliciting[space.index()] = packet.time;
            let probes = &mut self.probes[space.index()];
            *probes = probes.saturating_sub(1);
        }
    }

    /// Something new was acknowledged in a space.
    pub(super) fn on_acked(&mut self, space: Space, now: Time) {
        if space != Space::Initial {
            self.peer_validated = true;
        }
        // RFC 9002 section 6.2.1: a client goes on backing off until the server has validated it.
        if self.peer_validated {
            self.reset_backoff();
        }
        self.base = now;
    }

    pub(super) fn on_discarded(&mut self, space: Space) {
        self.probes[space.index()] = 0;
        self.reset_backoff();
    }

    /// Timeouts in a row.
    pub(super) fn count(&self) -> u8 {
        self.count
    }

    pub(super) fn reset_backoff(&mut self) {
        self.count = 0;
    }

    /// How long to wait in a space.
    pub(super) fn timeout(&self, path: &Path, space: Space) -> Duration {
        let delay = if space == Space::Data {
            self.max_ack_delay
        } else {
            Duration::ZERO
        };
        let timeout = path.rtt.pto() + delay;
        timeout
            .saturating_mul(1 << self.count.min(MAX_BACKOFF))
            .min(MAX_TIMEOUT)
    }

    /// The longest that the peer says it waits before it acknowledges.
    pub(super) fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }
}

/// Longest probe timeout that other times are counted in. A peer that acknowledges late could make
/// it as long as it likes, and with it the time for which a connection is remembered.
const MAX_PTO: Duration = Duration::from_secs(10);

impl Recovery {
    /// The transport parameter max_ack_delay of the peer. 25 ms before it is known.
    pub(crate) fn set_peer_max_ack_delay(&mut self, delay: Duration) {
        self.pto.max_ack_delay = delay.min(MAX_ACK_DELAY);
    }

    /// Keys for Handshake packets are there: a client probes with them.
    pub(crate) fn on_handshake_keys(&mut self) {
        self.pto.has_handshake_keys = true;
    }

    /// The handshake is confirmed, RFC 9001 section 4.1.2.
    pub(crate) fn on_handshake_confirmed(&mut self) {
        self.pto.confirmed = true;
        self.pto.peer_validated = true;
    }

    /// The probe timeout of the space for data, without backoff: RFC 9000 sections 8.2.4 and 10
    /// count in it.
    pub(crate) fn pto(&self, path: &Path) -> Duration {
        (path.rtt.pto() + self.pto.max_ack_delay).min(MAX_PTO)
    }

    /// When [`Recovery::on_timeout`] should be called. Ask again after every other call.
    pub(crate) fn next_timeout(&self, path: &Path) -> Option<Time> {
        self.loss_time()
            .map(|(time, _)| time)
            .or_else(|| self.pto_time(path).map(|(time, _)| time))
    }

    /// The time of [`Recovery::next_timeout`] has come: tells what is lost, or makes probes due.
    pub(crate) fn on_timeout(
        &mut self,
        path: &mut Path,
        now: Time,
        tell: &mut impl FnMut(Fate, Item),
    ) {
        while let Some((time, space)) = self.loss_time() {
            if time > now {
                return;
            }
            self.detect_lost(path, space, false, now, tell);
        }
        let Some((time, space)) = self.pto_time(path) else {
            return;
        };
        if time > now {
            return;
        }
        self.pto.base = now;
        self.pto.count = self.pto.count.saturating_add(1);
        if self.pto.count == TIMEOUTS_BEFORE_FALLBACK {
            path.on_timeouts(now);
        }
        if self.has_eliciting(space) {
            self.pto.probes[space.index()] = PROBES;
            self.probe_other_space(space);
        } else {
            // A client's probe against a deadlock, RFC 9002 section 6.2.2.1.
            self.pto.probes[space.index()] = 1;
        }
    }

    /// Probes of the two spaces of the handshake go in one datagram, RFC 9002 section 6.2.4.
    fn probe_other_space(&mut self, space: Space) {
        let other = match space {
            Space::Initial => Space::Handshake,
            Space::Handshake => Space::Initial,
            Space::Data => return,
        };
        if self.has_eliciting(other) {
            self.pto.probes[other.index()] = 1;
        }
    }

    /// How many packets that elicit an ACK should be sent in a space, whatever the window and the
    /// pacer say. A client's Initial goes in a datagram of 1,200 bytes.
    pub(crate) fn probes(&self, space: Space) -> u8 {
        self.pto.probes[space.index()]
    }

    /// Tells, as [`Fate::Probe`], the items that a probe should carry again: those of the oldest
    /// packet. Returns whether there is one; else a probe has new data, or PING.
    ///
    /// The items stay outstanding: they may be acknowledged or lost later.
    pub(crate) fn take_probe_items(
        &mut self,
        space: Space,
        tell: &mut impl FnMut(Fate, Item),
    ) -> bool {
        self.space_mut(space).is_some_and(|sent| sent.probe(tell))
    }

    fn has_eliciting(&self, space: Space) -> bool {
        self.space(space).is_some_and(|sent| sent.has_eliciting())
    }

    /// The earliest time at which a packet is lost, RFC 9002 section 6.1.2.
    fn loss_time(&self) -> Option<(Time, Space)> {
        Space::ALL
            .iter()
            .filter_map(|&space| Some((self.space(space)?.loss_time?, space)))
            .min()
    }

    /// When probes are due, and where: RFC 9002 appendix A.8.
    fn pto_time(&self, path: &Path) -> Option<(Time, Space)> {
        let is_in_handshake = self.initial.is_some() || self.handshake.is_some();
        if path.is_held_back(is_in_handshake) {
            // RFC 9002 section 6.2.2.1: nothing could be sent. What the peer sends next starts the
            // timer.
            return None;
        }
        let earliest = Space::ALL
            .into_iter()
            .filter(|&space| self.has_eliciting(space))
            // RFC 9002 section 6.2.1: not for data before the handshake is confirmed.
            .filter(|&space| space != Space::Data || self.pto.confirmed)
            .map(|space| {
                let since = self.pto.last_eliciting[space.index()].max(self.pto.base);
                (since + self.pto.timeout(path, space), space)
            })
            .min();
        if earliest.is_some() || self.pto.peer_validated {
            return earliest;
        }
        let space = if self.pto.has_handshake_keys {
            Space::Handshake
        } else {
            Space::Initial
        };
        self.space(space)?;
        let since = self
            .pto
            .last_eliciting
            .into_iter()
            .max()
            .max(Some(self.pto.base))?;
        Some((since + self.pto.timeout(path, space), space))
    }
}
