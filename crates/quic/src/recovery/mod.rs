//! Loss recovery and congestion control, RFC 9002.
//!
//! A connection has one [`Received`] for each packet number space, one [`Recovery`] for what it
//! sent in all of them, and one [`Path`] for each address of the peer that is in use. Only one path
//! is the current one, and it is handed to each call.
//!
//! To send, in this order: what [`Recovery::probes`] asks for, ACKs that [`Received::ack_needed`]
//! asks for, and then as many bytes as [`Recovery::allowance`] says, an MTU probe if
//! [`Path::mtu_probe`] has one among them. Before the peer's address is validated, every datagram
//! is within [`Path::amplification_credit`]. Each packet takes its number from
//! [`Recovery::packet_number`] and is told to [`Recovery::on_sent`] before the next one is made;
//! each datagram is told to [`Path::on_datagram_sent`].
//!
//! What arrives: the datagram goes to [`Path::on_datagram_received`], each packet of it to
//! [`Received::on_packet`] unless it is a duplicate, each ACK frame to [`Recovery::on_ack`], and
//! each [`Item::Ack`] that is told as acked to [`Received::on_ack_acked`]. Afterwards, and after
//! sending, [`Recovery::next_timeout`] and [`Received::ack_deadline`] say when to wake up.

mod ack;
mod congestion;
mod ecn;
mod item;
mod loss;
mod mtu;
mod pacing;
mod path;
mod pto;
mod received;
mod rtt;
mod sent;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use ack::AckInfo;
pub use congestion::Algorithm;
pub use ecn::Codepoint;
pub(crate) use item::{Fate, Item};
pub(crate) use mtu::BASE_DATAGRAM;
pub(crate) use pacing::Allowance;
pub(crate) use path::Path;
pub(crate) use received::{AckPolicy, Received};
pub(crate) use rtt::Rtt;
pub(crate) use sent::Packet;

use crate::frame::EcnCounts;
use crate::trace::{Metrics, TracedLoss};
use crate::{Space, Time};
use loss::Thresholds;
use pto::Pto;
use sent::SentPackets;

/// Tag of packets that went along another path than the current one.
pub(crate) const OFF_PATH: u8 = u8::MAX;

/// How paths behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The congestion control algorithm.
    pub(crate) algorithm: Algorithm,
    /// Most bytes that may leave in one burst, at least ten datagrams.
    pub(crate) max_burst: u32,
    /// Round-trip time that is assumed before one was measured, RFC 9002 section 6.2.2.
    pub(crate) initial_rtt: Duration,
    /// Whether packets are marked with ECT(0) where the path allows it.
    pub(crate) ecn: bool,
    /// Whether larger datagrams than [`BASE_DATAGRAM`] are tried.
    pub(crate) mtu_discovery: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Cubic,
            max_burst: 65_536,
            initial_rtt: rtt::INITIAL_RTT,
            ecn: true,
            mtu_discovery: true,
        }
    }
}

/// What a connection sent, in all its packet number spaces.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// `None` once the keys of the space are gone.
    initial: Option<Box<SentPackets>>,
    handshake: Option<Box<SentPackets>>,
    data: SentPackets,
    thresholds: Thresholds,
    pto: Pto,
}

impl Recovery {
    /// The state of a new connection. `is_client`: whether this end is the client.
    pub(crate) fn new(is_client: bool) -> Self {
        Self {
            initial: Some(Box::default()),
            handshake: Some(Box::default()),
            data: SentPackets::for_data(),
            thresholds: Thresholds::default(),
            pto: Pto::new(is_client),
        }
    }

    /// The number of the next packet of a space. `random` is asked now and then for a number that
    /// the peer cannot guess: some numbers of the space for data are not used, so that a peer
    /// which acknowledges what it did not receive is found, RFC 9000 section 21.4.
    ///
    /// The same number is returned until [`Recovery::on_sent`] is told that it was used.
    pub(crate) fn packet_number(&mut self, space: Space, random: impl FnOnce() -> u64) -> u64 {
        self.space_mut(space)
            .map_or(0, |sent| sent.next_number(random))
    }

    /// The largest number that the peer acknowledged: what numbers are encoded relative to.
    pub(crate) fn largest_acked(&self, space: Space) -> Option<u64> {
        self.space(space)?.largest_acked()
    }

    /// A packet was sent on the current path. `items` are what it carried.
    pub(crate) fn on_sent(
        &mut self,
        path: &mut Path,
        space: Space,
        packet: &Packet,
        items: &[Item],
    ) {
        if packet.ecn {
            path.ecn.on_sent();
        }
        let snapshot = if packet.in_flight {
            path.on_sent(packet)
        } else {
            None
        };
        let Some(sent) = self.space_mut(space) else {
            return;
        };
        sent.push(packet, path.tag(), snapshot, items);
        self.pto.on_sent(space, packet);
    }

    /// A packet was sent along another path than the current one, to probe it. It is not sent
    /// again, nothing is measured with it, and it does not count as in flight.
    pub(crate) fn on_sent_off_path(&mut self, space: Space, packet: &Packet) {
        let packet = Packet {
            ack_eliciting: false,
            in_flight: false,
            ecn: false,
            ..*packet
        };
        if let Some(sent) = self.space_mut(space) {
            sent.push(&packet, OFF_PATH, None, &[]);
        }
    }

    /// How many bytes may be sent on `path` now. Probes, packets of nothing but ACK, and
    /// CONNECTION_CLOSE do not ask. Ask again after so many bytes, or later.
    ///
    /// Call [`Path::set_app_limited`] when there is less to send than this allows.
    pub(crate) fn allowance(&self, path: &mut Path, now: Time) -> Allowance {
        if self.data.is_full() {
            return Allowance::Congested;
        }
        path.allowance(now)
    }

    /// Whether the next packet that would be nothing but an ACK should get a PING too, so that
    /// the peer acknowledges it and old ranges can be dropped, RFC 9000 section 13.2.4.
    pub(crate) fn wants_ping(&self, space: Space) -> bool {
        self.space(space).is_some_and(SentPackets::wants_ping)
    }

    /// Whether the peer acknowledges nothing, however much it is asked to: what is remembered of
    /// packets would grow as long as it sends something.
    pub(crate) fn is_ignored(&self) -> bool {
        Space::ALL
            .into_iter()
            .any(|space| self.space(space).is_some_and(|sent| sent.is_ignored(space)))
    }

    /// The keys of a space are gone: nothing of it is acknowledged or lost any more, RFC 9002
    /// section 6.4. Nothing is told of its items.
    pub(crate) fn discard_space(&mut self, path: &mut Path, space: Space) {
        let slot = match space {
            Space::Initial => &mut self.initial,
            Space::Handshake => &mut self.handshake,
            Space::Data => return,
        };
        if let Some(sent) = slot.take() {
            path.forget_in_flight(sent.in_flight(path.tag()));
            self.pto.on_discarded(space);
        }
    }

    /// Everything in flight in a space counts as not sent, without a word to congestion control:
    /// the peer sent Retry, or rejected 0-RTT. All items are told as lost.
    pub(crate) fn restart_space(
        &mut self,
        path: &mut Path,
        space: Space,
        tell: &mut impl FnMut(Fate, Item),
    ) {
        let tag = path.tag();
        if let Some(sent) = self.space_mut(space) {
            path.forget_in_flight(sent.in_flight(tag));
            sent.restart(tell);
            self.pto.on_discarded(space);
        }
    }

    /// `path` becomes the current path. What is in flight on it is counted again.
    pub(crate) fn switch_path(&mut self, path: &mut Path) {
        let tag = path.tag();
        let in_flight = Space::ALL
            .iter()
            .filter_map(|&space| self.space(space))
            .map(|sent| sent.in_flight(tag))
            .sum();
        path.set_bytes_in_flight(in_flight);
        path.mtu.forget_probe();
        self.thresholds = Thresholds::default();
        self.pto.reset_backoff();
    }

    /// Tells of losses from now on ([`Recovery::take_losses`]), or no more.
    pub(crate) fn trace_losses(&mut self, on: bool) {
        for space in Space::ALL {
            if let Some(sent) = self.space_mut(space) {
                sent.trace_losses(on);
            }
        }
    }

    /// Packets of a space that were lost since the last call.
    pub(crate) fn take_losses(&mut self, space: Space) -> Vec<TracedLoss> {
        (self.space_mut(space)).map_or_else(Vec::new, SentPackets::take_losses)
    }

    /// What the connection goes by on this path.
    pub(crate) fn metrics(&self, path: &Path) -> Metrics {
        Metrics {
            pto_count: self.pto.count(),
            ..path.metrics()
        }
    }

    fn space(&self, space: Space) -> Option<&SentPackets> {
        match space {
            Space::Initial => self.initial.as_deref(),
            Space::Handshake => self.handshake.as_deref(),
            Space::Data => Some(&self.data),
        }
    }

    fn space_mut(&mut self, space: Space) -> Option<&mut SentPackets> {
        match space {
            Space::Initial => self.initial.as_deref_mut(),
            Space::Handshake => self.handshake.as_deref_mut(),
            Space::Data => Some(&mut self.data),
        }
    }
}
