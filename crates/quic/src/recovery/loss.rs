//! Which packets are lost, RFC 9002 sections 6.1 and 7.6.

use std::time::Duration;

use crate::{Space, Time};

use super::rtt::GRANULARITY;
use super::sent::{Entry, Lost, Status};
use super::{BASE_DATAGRAM, Fate, Item, Path, Recovery, Rtt};

/// kPacketThreshold: a packet is lost when one was acknowledged that was sent so many later.
const PACKET_THRESHOLD: u64 = 3;

/// The packet threshold does not grow above this on paths that change the order of packets. Each
/// packet below it is looked at for each ACK.
const MAX_PACKET_THRESHOLD: u64 = 300;

/// kTimeThreshold in eighths of a round trip.
const TIME_THRESHOLD_EIGHTHS: u32 = 9;

/// The time threshold does not grow above two round trips.
const MAX_TIME_THRESHOLD_EIGHTHS: u32 = 16;

/// kPersistentCongestionThreshold.
const PERSISTENT_CONGESTION_THRESHOLD: u32 = 3;

/// When packets count as lost. Both thresholds grow when packets arrive that were declared lost,
/// RFC 9002 section 6.1.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    packets: u64,
    time_eighths: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            packets: PACKET_THRESHOLD,
            time_eighths: TIME_THRESHOLD_EIGHTHS,
        }
    }
}

impl Thresholds {
    fn loss_delay(&self, rtt: &Rtt) -> Duration {
        let delay = rtt.latest().max(rtt.smoothed()) * self.time_eighths / 8;
        delay.max(GRANULARITY)
    }

    /// A packet arrived that was declared lost when `behind` later ones had been acknowledged.
    pub(super) fn on_spurious(&mut self, behind: u64) {
        if behind >= self.packets {
            self.packets = (behind + 1).min(MAX_PACKET_THRESHOLD);
        } else {
            self.time_eighths = (self.time_eighths + 1).min(MAX_TIME_THRESHOLD_EIGHTHS);
        }
    }
}

/// What one look for losses found on the current path.
#[derive(Default)]
pub(super) struct Found {
    /// Whether it is persistent congestion, RFC 9002 section 7.6.
    pub(super) persistent: bool,
    /// Whether a packet was above the base size.
    pub(super) large: bool,
    /// Since when all packets that elicit an ACK have been lost.
    run_start: Option<Time>,
}

impl Found {
    /// Takes a packet. An unbroken run of them that is longer than `long` is persistent congestion.
    fn add(&mut self, entry: &Entry, path: &Path, long: Duration) {
        self.large |= entry.size > BASE_DATAGRAM;
        let Some(first_sample) = path.rtt.first_sample() else {
            return;
        };
        if !entry.is_ack_eliciting() || entry.time <= first_sample {
            return;
        }
        let start = *self.run_start.get_or_insert(entry.time);
        self.persistent |= entry.time.since(start) > long;
    }
}

impl Recovery {
    /// Tells what is lost in a space. `large_acked`: whether the ACK that is looked at was for a
    /// packet above the base size.
    pub(super) fn detect_lost(
        &mut self,
        path: &mut Path,
        space: Space,
        large_acked: bool,
        now: Time,
        tell: &mut impl FnMut(Fate, Item),
    ) {
        let delay = self.thresholds.loss_delay(&path.rtt);
        let long = (path.rtt.pto() + self.pto.max_ack_delay()) * PERSISTENT_CONGESTION_THRESHOLD;
        let packets = self.thresholds.packets;
        let Some(sent) = self.space_mut(space) else {
            return;
        };
        let Some(largest_acked) = sent.largest_acked() else {
            return;
        };
        sent.loss_time = None;
        let mut found = Found::default();
        for place in sent.places(0, largest_acked) {
            let Some(entry) = sent.get(place).copied() else {
                break;
            };
            match entry.status {
                Status::Outstanding => {}
                Status::Skipped => continue,
                Status::Done => {
                    found.run_start = None;
                    continue;
                }
            }
            let lost_at = entry.time + delay;
            if sent.number_at(place) + packets > largest_acked && lost_at > now {
                if !entry.is_in_flight() {
                    continue;
                }
                // Those behind it were sent later.
                sent.loss_time = Some(lost_at);
                break;
            }
            sent.finish(place, Fate::Lost, tell);
            sent.note_loss(place, sent.number_at(place) + packets > largest_acked);
            if entry.path != path.tag() || !entry.is_in_flight() {
                continue;
            }
            let event = path.on_packet_lost(&entry, sent.snapshot(place), now);
            if entry.is_mtu_probe() {
                continue;
            }
            found.add(&entry, path, long);
            let number = sent.number_at(place);
            sent.remember_lost(Lost {
                number,
                declared: now,
                behind: largest_acked - number,
                event,
                path: entry.path,
            });
        }
        sent.settle();
        path.on_losses(&found, large_acked, now);
    }
}
