//! Congestion control: how much may be in flight, RFC 9002 section 7.

mod bbr;
mod cubic;
mod hystart;
mod newreno;

use std::time::Duration;

use crate::Time;

use super::Rtt;
use bbr::Bbr;
pub(super) use bbr::Snapshot;
use cubic::Cubic;
use newreno::NewReno;

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CUBIC, RFC 9438, with HyStart++, RFC 9406.
    #[default]
    Cubic,
    /// BBR version 3, draft-ietf-ccwg-bbr.
    Bbr,
    /// NewReno, RFC 9002 section 7.
    NewReno,
}

/// The window never falls below so many datagrams, RFC 9002 section 7.2.
const MIN_DATAGRAMS: u64 = 2;

/// Nor grows above this: 40 Gbit/s at 13 ms, or 4 Gbit/s at 130 ms, and well below what
/// [`super::sent::MAX_SENT_PACKETS`] holds in full datagrams.
const MAX_WINDOW: u64 = 64 << 20;

/// How much faster than the window a round trip the loss-based algorithms send, RFC 9002 section
/// 7.7: 5/4.
const PACING_GAIN_QUARTERS: u64 = 5;

/// kInitialWindow of RFC 9002 section 7.2.
fn initial_window(datagram: u16) -> u64 {
    let datagram = u64::from(datagram);
    (10 * datagram).min(14_720.max(2 * datagram))
}

/// What one ACK frame acknowledged on the current path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    pub(super) now: Time,
    /// All bytes that were in flight.
    pub(super) bytes: u64,
    /// Those that may open the window: they were sent after the last congestion event.
    pub(super) growth_bytes: u64,
    /// When the newest of the packets was sent.
    pub(super) newest_sent: Time,
    /// Bytes in flight before.
    pub(super) in_flight: u64,
    /// Whether there is a new measurement of the round-trip time.
    pub(super) has_rtt: bool,
    /// Whether the window was what limited sending.
    pub(super) window_used: bool,
}

/// The state of an algorithm.
#[derive(Debug)]
enum Variant {
    NewReno(NewReno),
    Cubic(Box<Cubic>),
    Bbr(Box<Bbr>),
}

/// The congestion controller of a path.
#[derive(Debug)]
pub(super) struct Controller {
    /// When the last congestion event began: packets sent before belong to it.
    event_start: Option<Time>,
    variant: Variant,
}

impl Controller {
    pub(super) fn new(algorithm: Algorithm, datagram: u16, now: Time) -> Self {
        let variant = match algorithm {
            Algorithm::NewReno => Variant::NewReno(NewReno::new(datagram)),
            Algorithm::Cubic => Variant::Cubic(Box::new(Cubic::new(datagram))),
            Algorithm::Bbr => Variant::Bbr(Box::new(Bbr::new(datagram, now))),
        };
        Self {
            event_start: None,
            variant,
        }
    }

    /// Bytes of the heap.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        match &self.variant {
            Variant::NewReno(_) => 0,
            Variant::Cubic(_) => size_of::<Cubic>(),
            Variant::Bbr(_) => size_of::<Bbr>(),
        }
    }

    /// How many bytes may be in flight.
    pub(super) fn window(&self) -> u64 {
        match &self.variant {
            Variant::NewReno(newreno) => newreno.window(),
            Variant::Cubic(cubic) => cubic.window(),
            Variant::Bbr(bbr) => bbr.window(),
        }
    }

    /// How fast to send, in bytes a second.
    pub(super) fn pacing_rate(&self, rtt: &Rtt) -> u64 {
        if let Variant::Bbr(bbr) = &self.variant {
            return bbr.pacing_rate();
        }
        let micros = rtt.smoothed().max(Duration::from_micros(1)).as_micros() as u64;
        self.window() * PACING_GAIN_QUARTERS * 250_000 / micros
    }

    /// Where slow start ends, if the algorithm has found that.
    pub(super) fn threshold(&self) -> Option<u64> {
        let threshold = match &self.variant {
            Variant::NewReno(newreno) => newreno.threshold(),
            Variant::Cubic(cubic) => cubic.threshold(),
            Variant::Bbr(_) => return None,
        };
        Some(threshold).filter(|&threshold| threshold < u64::MAX)
    }

    /// How fast to send, in bytes a second, if the algorithm measures what the path carries.
    pub(super) fn measured_rate(&self) -> Option<u64> {
        match &self.variant {
            Variant::Bbr(bbr) => Some(bbr.pacing_rate()),
            Variant::NewReno(_) | Variant::Cubic(_) => None,
        }
    }

    /// The name of its state.
    pub(super) fn state(&self) -> &'static str {
        let is_starting = match &self.variant {
            Variant::NewReno(newreno) => newreno.window() < newreno.threshold(),
            Variant::Cubic(cubic) => cubic.window() < cubic.threshold(),
            Variant::Bbr(bbr) => return bbr.state(),
        };
        match is_starting {
            true => "slow_start",
            false => "congestion_avoidance",
        }
    }

    /// Whether the loss or mark of a packet that was sent then begins a new congestion event.
    pub(super) fn starts_event(&self, sent: Time) -> bool {
        !self.is_in_event(sent)
    }

    /// Whether a packet that was sent then belongs to the last congestion event.
    pub(super) fn is_in_event(&self, sent: Time) -> bool {
        self.event_start.is_some_and(|start| sent <= start)
    }

    /// A congestion event: a packet was lost or marked that was sent after the last one.
    pub(super) fn start_event(&mut self, now: Time) {
        self.event_start = Some(now);
        match &mut self.variant {
            Variant::NewReno(newreno) => newreno.reduce(),
            Variant::Cubic(cubic) => cubic.reduce(),
            Variant::Bbr(bbr) => bbr.save(),
        }
    }

    /// The last congestion event was none: all of its packets have arrived. What else was sent
    /// before may still be lost, which is an event then.
    pub(super) fn undo_event(&mut self) {
        self.event_start = None;
        match &mut self.variant {
            Variant::NewReno(newreno) => newreno.undo(),
            Variant::Cubic(cubic) => cubic.undo(),
            Variant::Bbr(bbr) => bbr.undo(),
        }
    }

    /// A packet is sent while `in_flight` bytes are in flight.
    pub(super) fn on_sent(&mut self, now: Time, size: u16, in_flight: u64) -> Option<Snapshot> {
        match &mut self.variant {
            Variant::Bbr(bbr) => Some(bbr.on_sent(now, size, in_flight)),
            _ => None,
        }
    }

    /// One packet of an ACK frame.
    pub(super) fn on_packet_acked(
        &mut self,
        size: u16,
        sent: Time,
        snapshot: &Snapshot,
        now: Time,
    ) {
        if let Variant::Bbr(bbr) = &mut self.variant {
            bbr.on_packet_acked(size, sent, snapshot, now);
        }
    }

    /// One lost packet.
    pub(super) fn on_packet_lost(&mut self, size: u16, snapshot: &Snapshot) {
        if let Variant::Bbr(bbr) = &mut self.variant {
            bbr.on_packet_lost(size, snapshot);
        }
    }

    /// All of an ACK frame, after what it showed to be lost.
    pub(super) fn on_acked(&mut self, acked: &Acked, rtt: &Rtt) {
        match &mut self.variant {
            Variant::NewReno(newreno) => newreno.on_acked(acked),
            Variant::Cubic(cubic) => cubic.on_acked(acked, rtt),
            Variant::Bbr(bbr) => bbr.on_acked(acked, rtt),
        }
    }

    /// Persistent congestion, RFC 9002 section 7.6.
    pub(super) fn collapse(&mut self) {
        self.event_start = None;
        match &mut self.variant {
            Variant::NewReno(newreno) => newreno.collapse(),
            Variant::Cubic(cubic) => cubic.collapse(),
            Variant::Bbr(bbr) => bbr.collapse(),
        }
    }

    /// So many packets met congestion.
    pub(super) fn on_congestion_experienced(&mut self, packets: u64) {
        if let Variant::Bbr(bbr) = &mut self.variant {
            bbr.on_congestion_experienced(packets);
        }
    }

    /// There is nothing to send though it would be allowed.
    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        if let Variant::Bbr(bbr) = &mut self.variant {
            bbr.on_app_limited(in_flight);
        }
    }

    /// Datagrams have another size from now on.
    pub(super) fn set_datagram_size(&mut self, datagram: u16) {
        match &mut self.variant {
            Variant::NewReno(newreno) => newreno.set_datagram_size(datagram),
            Variant::Cubic(cubic) => cubic.set_datagram_size(datagram),
            Variant::Bbr(bbr) => bbr.set_datagram_size(datagram),
        }
    }
}
