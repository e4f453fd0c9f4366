//! BBR version 3.

use super::{Acked, Rtt, initial_window};
use crate::Time;
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::recovery) struct Snapshot {
    delivered: u64,
}
#[derive(Debug)]
pub(super) struct Bbr {
    datagram: u16,
}
impl Bbr {
    pub(super) fn new(datagram: u16, _now: Time) -> Self {
        Self { datagram }
    }
    pub(super) fn window(&self) -> u64 {
        initial_window(self.datagram)
    }
    pub(super) fn pacing_rate(&self) -> u64 {
        1_000_000
    }
    pub(super) fn save(&mut self) {}
    pub(super) fn undo(&mut self) {}
    pub(super) fn collapse(&mut self) {}
    pub(super) fn on_sent(&mut self, _now: Time, _size: u16, _in_flight: u64) -> Snapshot {
        Snapshot { delivered: 0 }
    }
    pub(super) fn on_packet_acked(&mut self, _size: u16, _sent: Time, s: &Snapshot, _now: Time) {
        let _ = s.delivered;
    }
    pub(super) fn on_packet_lost(&mut self, _size: u16, _snapshot: &Snapshot) {}
    pub(super) fn on_acked(&mut self, _acked: &Acked, _rtt: &Rtt) {}
    pub(super) fn on_congestion_experienced(&mut self, _packets: u64) {}
    pub(super) fn on_app_limited(&mut self, _in_flight: u64) {}
    pub(super) fn set_datagram_size(&mut self, datagram: u16) {
        self.datagram = datagram;
    }
}
