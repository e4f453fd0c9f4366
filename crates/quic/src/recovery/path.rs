//! What is known of one path to the peer.

use crate::Time;
use crate::trace::{Metrics, RttMetrics};

use super::congestion::{Acked, Controller, Snapshot};
use super::ecn::Ecn;
use super::loss::Found;
use super::mtu::{BASE_DATAGRAM, Mtu};
use super::pacing::{self, Pacer};
use super::sent::{Entry, Lost};
use super::{Allowance, Packet, Rtt, Settings};

/// Before the peer's address is validated, so many times what it sent may be sent to it, RFC 9000
/// section 8.1.
const AMPLIFICATION_FACTOR: u64 = 3;

/// Least credit for a datagram to an address that is not validated: a packet with a challenge and
/// an acknowledgement.
const MIN_DATAGRAM: u16 = 80;

/// A batch is at most this part of the window: so much of it is in use at least.
const BATCHES_IN_WINDOW: u64 = 8;

/// One path: a pair of addresses. A new path starts anew, RFC 9000 section 9.4.
#[derive(Debug)]
pub(crate) struct Path {
    tag: u8,
    /// Whether the last allowance was not used up.
    app_limited: bool,
    pub(super) ecn: Ecn,
    pub(super) mtu: Mtu,
    pub(super) rtt: Rtt,
    pub(super) congestion: Controller,
    pacer: Pacer,
    bytes_in_flight: u64,
    /// Congestion events so far.
    event: u32,
    /// Packets that were lost in the last one, and have not arrived after all.
    event_lost: u32,
    /// Bytes that may be sent before the address is validated. `u64::MAX` afterwards.
    credit: u64,
}

impl Path {
    /// A path. `tag` distinguishes it from all other paths with packets in flight. `validated`:
    /// whether the peer's address is known to be its own, which a client always assumes.
    pub(crate) fn new(tag: u8, settings: &Settings, validated: bool, now: Time) -> Self {
        let mtu = Mtu::new(settings.mtu_discovery);
        let congestion = Controller::new(settings.algorithm, mtu.current(), now);
        let first_burst = u32::try_from(congestion.window()).unwrap_or(u32::MAX);
        Self {
            tag,
            app_limited: false,
            ecn: Ecn::new(settings.ecn),
            mtu,
            rtt: Rtt::new(settings.initial_rtt),
            congestion,
            pacer: Pacer::new(first_burst, settings.max_burst, now),
            bytes_in_flight: 0,
            event: 0,
            event_lost: 0,
            credit: if validated { u64::MAX } else { 0 },
        }
    }

    /// What distinguishes it from other paths.
    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    /// The estimate of its round-trip time.
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes.
    pub(crate) fn window(&self) -> u64 {
        self.congestion.window()
    }

    /// Bytes of packets on it that are neither acknowledged nor lost.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// What is known of it.
    pub(super) fn metrics(&self) -> Metrics {
        let rtt = &self.rtt;
        Metrics {
            rtt: rtt.first_sample().map(|_| RttMetrics {
                min: rtt.min(),
                latest: rtt.latest(),
                smoothed: rtt.smoothed(),
                variance: rtt.variance(),
            }),
            window: self.window(),
            in_flight: self.bytes_in_flight,
            threshold: self.congestion.threshold(),
            pacing_rate: self.congestion.measured_rate(),
            pto_count: 0,
        }
    }

    /// The state that its congestion controller is in.
    pub(crate) fn congestion_state(&self) -> &'static str {
        self.congestion.state()
    }

    /// Size of the largest datagram that may be sent, MTU probes apart.
    pub(crate) fn datagram_size(&self) -> u16 {
        self.mtu.current()
    }

    /// The largest datagram that the peer (max_udp_payload_size) and the interface take. MTU
    /// probes up to it become due: set it when the handshake is confirmed.
    pub(crate) fn set_mtu_ceiling(&mut self, ceiling: u16) {
        self.mtu.set_ceiling(ceiling);
    }

    /// Size of the datagram of PING and PADDING that should be sent now to see whether the path
    /// carries it. Its packet has [`Packet::mtu_probe`] set and carries nothing that would have
    /// to be sent again. It needs an allowance like other packets.
    pub(crate) fn mtu_probe(&mut self, now: Time) -> Option<u16> {
        self.mtu.probe(now)
    }

    /// Whether packets that are sent now are marked with ECT(0).
    pub(crate) fn marks_ecn(&self) -> bool {
        self.ecn.marks()
    }

    /// Whether ECN has been found to work.
    #[cfg(test)]
    pub(crate) fn is_ecn_capable(&self) -> bool {
        self.ecn.is_capable()
    }

    /// There was less to send than was allowed: the window is not the limit, and does not grow,
    /// RFC 9002 section 7.8.
    pub(crate) fn set_app_limited(&mut self) {
        self.app_limited = true;
        self.congestion.on_app_limited(self.bytes_in_flight);
    }

    /// A datagram came from the peer's address, whatever was in it.
    pub(crate) fn on_datagram_received(&mut self, size: usize) {
        if !self.is_validated() {
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            let more = size.saturating_mul(AMPLIFICATION_FACTOR);
            // One below: the maximum stands for no limit.
            self.credit = self.credit.saturating_add(more).min(u64::MAX - 1);
        }
    }

    /// A datagram was sent to the peer's address.
    pub(crate) fn on_datagram_sent(&mut self, size: usize) {
        if !self.is_validated() {
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            self.credit = self.credit.saturating_sub(size);
        }
    }

    /// The peer's address is its own.
    pub(crate) fn set_validated(&mut self) {
        self.credit = u64::MAX;
    }

    /// Whether the peer's address is known to be its own.
    pub(crate) fn is_validated(&self) -> bool {
        self.credit == u64::MAX
    }

    /// How many bytes may be sent before the peer must send something. Every datagram counts.
    pub(crate) fn amplification_credit(&self) -> u64 {
        self.credit
    }

    /// Whether nothing may be sent before the peer has sent more. In a handshake, datagrams have
    /// their full size.
    pub(crate) fn is_held_back(&self, is_in_handshake: bool) -> bool {
        let least = match is_in_handshake {
            true => BASE_DATAGRAM,
            false => MIN_DATAGRAM,
        };
        self.credit < least.into()
    }

    pub(super) fn allowance(&mut self, now: Time) -> Allowance {
        let mtu = self.mtu.current();
        let window = self.window();
        let room = window.saturating_sub(self.bytes_in_flight);
        let rate = self.congestion.pacing_rate(&self.rtt);
        // Where there is much in flight, room for one batch is waited for: not every ACK is worth
        // a system call.
        let batch = pacing::batch(rate, mtu).min(window / BATCHES_IN_WINDOW);
        if room < batch.max(mtu.into()) {
            self.app_limited = false;
            return Allowance::Congested;
        }
        let allowance = self.pacer.allowance(now, rate, room, mtu);
        if matches!(allowance, Allowance::NotBefore(_)) {
            self.app_limited = false;
        }
        allowance
    }

    /// A packet that counts as in flight was sent. Returns what the congestion controller wants to
    /// know when it is acknowledged.
    pub(super) fn on_sent(&mut self, packet: &Packet) -> Option<Snapshot> {
        let snapshot = self
            .congestion
            .on_sent(packet.time, packet.size, self.bytes_in_flight);
        self.bytes_in_flight += u64::from(packet.size);
        self.pacer.on_sent(packet.size);
        if packet.mtu_probe {
            self.mtu.on_probe_sent();
        }
        snapshot
    }

    /// A packet is not in flight any more.
    pub(super) fn forget_in_flight(&mut self, bytes: u64) {
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(bytes);
    }

    pub(super) fn set_bytes_in_flight(&mut self, bytes: u64) {
        self.bytes_in_flight = bytes;
    }

    /// Whether the window was in use when `in_flight` bytes were.
    fn is_window_used(&self, in_flight: u64) -> bool {
        !self.app_limited || in_flight + u64::from(self.mtu.current()) > self.window()
    }

    /// A packet that was in flight is lost. Returns the congestion event that it belongs to.
    pub(super) fn on_packet_lost(
        &mut self,
        entry: &Entry,
        snapshot: Option<&Snapshot>,
        now: Time,
    ) -> u32 {
        self.forget_in_flight(entry.size.into());
        if entry.is_mtu_probe() {
            self.mtu.on_probe_lost(entry.size, now);
            return self.event;
        }
        if entry.is_marked() {
            self.ecn.on_lost();
        }
        if let Some(snapshot) = snapshot {
            self.congestion.on_packet_lost(entry.size, snapshot);
        }
        if self.congestion.starts_event(entry.time) {
            self.start_event(now);
        }
        self.event_lost = self.event_lost.saturating_add(1);
        self.event
    }

    /// All that was lost at once. `large_acked`: whether the ACK was for a packet above the base
    /// size.
    pub(super) fn on_losses(&mut self, lost: &Found, large_acked: bool, now: Time) {
        if lost.persistent {
            self.event_lost = 0;
            self.rtt.reset_min();
            self.congestion.collapse();
        }
        if self.mtu.on_losses(lost.large, large_acked, now) {
            self.update_datagram_size();
        }
    }

    fn start_event(&mut self, now: Time) {
        self.event = self.event.wrapping_add(1);
        self.event_lost = 0;
        self.congestion.start_event(now);
    }

    /// A packet arrived that was declared lost. When that is so of all of a congestion event, it
    /// was none.
    pub(super) fn on_spurious_loss(&mut self, lost: &Lost) {
        if lost.path == self.tag && lost.event == self.event && self.event_lost > 0 {
            self.event_lost -= 1;
            if self.event_lost == 0 {
                self.congestion.undo_event();
            }
        }
    }

    /// Packets met congestion: one of them was sent at `sent`.
    pub(super) fn on_congestion_experienced(&mut self, packets: u64, sent: Time, now: Time) {
        if self.congestion.starts_event(sent) {
            self.start_event(now);
        }
        // Marks do not turn out to be wrong.
        self.event_lost = u32::MAX;
        self.congestion.on_congestion_experienced(packets);
    }

    /// A packet that was in flight is acknowledged.
    pub(super) fn on_packet_acked(
        &mut self,
        entry: &Entry,
        snapshot: Option<&Snapshot>,
        acked: &mut Acked,
    ) {
        let size = u64::from(entry.size);
        self.forget_in_flight(size);
        acked.bytes += size;
        acked.newest_sent = acked.newest_sent.max(entry.time);
        if !self.congestion.is_in_event(entry.time) {
            acked.growth_bytes += size;
        }
        if let Some(snapshot) = snapshot {
            self.congestion
                .on_packet_acked(entry.size, entry.time, snapshot, acked.now);
        }
        if entry.is_mtu_probe() {
            self.mtu.on_probe_acked(entry.size, acked.now);
            self.update_datagram_size();
        }
    }

    /// What one ACK frame acknowledged.
    pub(super) fn on_acked(&mut self, acked: &mut Acked) {
        acked.window_used = self.is_window_used(acked.in_flight);
        self.congestion.on_acked(acked, &self.rtt);
    }

    /// The size of datagrams may have changed.
    pub(super) fn update_datagram_size(&mut self) {
        self.congestion.set_datagram_size(self.mtu.current());
    }

    /// Nothing arrives any more: neither size nor marks of datagrams may be the reason.
    pub(super) fn on_timeouts(&mut self, now: Time) {
        self.ecn.stop_testing();
        if self.mtu.fall_back(now) {
            self.update_datagram_size();
        }
    }
}
