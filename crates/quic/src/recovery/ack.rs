//! ACK frames of the peer, RFC 9002 appendix A.7.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Code, Error, Space, Time};

use super::congestion::Acked;
use super::sent::{SentPackets, Status};
use super::{BASE_DATAGRAM, EcnCounts, Fate, Item, Path, Recovery};

/// Lost packets may arrive so many probe timeouts later and count.
const SPURIOUS_WITHIN_PTOS: u32 = 2;

/// What an ACK frame says besides its ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// ACK Delay, with the peer's exponent applied.
    pub(crate) delay: Duration,
    /// Its counts, if it has them.
    pub(crate) ecn: Option<EcnCounts>,
}

/// What an ACK frame acknowledges for the first time.
#[derive(Default)]
struct Newly {
    any: bool,
    ack_eliciting: bool,
    /// Whether one was above the base size and no probe.
    large: bool,
    /// Marked packets of the current path.
    marked: u64,
    /// When the packet with the largest number of the frame was sent, if that is new and of the
    /// current path.
    largest_sent: Option<Time>,
    acked: Acked,
}

impl Recovery {
    /// Takes an ACK frame that came in `space`. `ranges` are descending. Items are told as acked,
    /// and what the frame shows to be missing as lost.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION if it acknowledges a packet that was not sent, RFC 9000 section 13.1. The
    /// connection has to end.
    pub(crate) fn on_ack(
        &mut self,
        path: &mut Path,
        space: Space,
        info: &AckInfo,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        now: Time,
        tell: &mut impl FnMut(Fate, Item),
    ) -> Result<(), Error> {
        let Self {
            initial,
            handshake,
            data,
            thresholds,
            ..
        } = self;
        let sent = match space {
            Space::Initial => initial.as_deref_mut(),
            Space::Handshake => handshake.as_deref_mut(),
            Space::Data => Some(data),
        };
        let Some(sent) = sent else {
            // The keys of the space are gone.
            return Ok(());
        };
        let mut newly = Newly::default();
        newly.acked.in_flight = path.bytes_in_flight();
        newly.acked.now = now;
        let mut raises = false;
        let mut below = u64::MAX;
        for (index, range) in ranges.enumerate() {
            let (smallest, largest) = (*range.start(), *range.end());
            if smallest > largest || largest >= below {
                return Err(violation("ranges of an ACK are not descending"));
            }
            if largest >= sent.end() || sent.covers_last_skip(smallest, largest) {
                return Err(not_sent());
            }
            below = smallest;
            if index == 0 {
                raises = sent.raise_largest_acked(largest);
            }
            sent.ack_range(path, smallest, largest, index == 0, &mut newly, tell)?;
            sent.take_lost(smallest, largest, |lost| {
                thresholds.on_spurious(lost.behind);
                path.on_spurious_loss(&lost);
            });
        }
        if newly.any {
            self.take_measurements(path, space, info, raises, &mut newly, now);
            self.detect_lost(path, space, newly.large, now, tell);
            if newly.acked.bytes > 0 {
                path.on_acked(&mut newly.acked);
            }
            self.pto.on_acked(space, now);
        }
        Ok(())
    }

    /// Round-trip time and ECN, from a frame that acknowledges something new.
    fn take_measurements(
        &mut self,
        path: &mut Path,
        space: Space,
        info: &AckInfo,
        raises: bool,
        newly: &mut Newly,
        now: Time,
    ) {
        if let Some(sent_at) = newly.largest_sent
            && newly.ack_eliciting
        {
            let delay = match space {
                // RFC 9002 section 5.3: a delay in Initial packets does not count, and the limit
                // of max_ack_delay holds once the handshake is confirmed.
                Space::Initial => Duration::ZERO,
                _ if self.pto.confirmed => info.delay.min(self.pto.max_ack_delay()),
                _ => info.delay,
            };
            path.rtt.sample(now.since(sent_at), delay, now);
            newly.acked.has_rtt = true;
        }
        let spurious_within = self.pto(path) * SPURIOUS_WITHIN_PTOS;
        let Some(sent) = self.space_mut(space) else {
            return;
        };
        sent.forget_lost(now - spurious_within);
        if !raises {
            // RFC 9000 section 13.4.2.1: counts of frames out of order are not compared.
            return;
        }
        let before = sent.ecn;
        let congested = path
            .ecn
            .on_ack(&before, info.ecn.as_ref(), newly.marked, sent.marked);
        if let Some(counts) = info.ecn {
            sent.ecn = counts;
        }
        if let (1.., Some(sent_at)) = (congested, newly.largest_sent) {
            path.on_congestion_experienced(congested, sent_at, now);
        }
    }
}

impl SentPackets {
    /// Takes one range of an ACK frame, which ends before [`SentPackets::end`].
    fn ack_range(
        &mut self,
        path: &mut Path,
        smallest: u64,
        largest: u64,
        is_first: bool,
        newly: &mut Newly,
        tell: &mut impl FnMut(Fate, Item),
    ) -> Result<(), Error> {
        let places = self.places(smallest, largest);
        let last = places.end;
        for place in places {
            match self.get(place).map(|entry| entry.status) {
                Some(Status::Outstanding) => {}
                Some(Status::Skipped) => return Err(not_sent()),
                Some(Status::Done) | None => continue,
            }
            let entry = self.finish(place, Fate::Acked, tell);
            newly.any = true;
            newly.ack_eliciting |= entry.is_ack_eliciting();
            if entry.path != path.tag() {
                continue;
            }
            if is_first && place + 1 == last {
                newly.largest_sent = Some(entry.time);
            }
            newly.marked += u64::from(entry.is_marked());
            if entry.is_in_flight() {
                let acked = &mut newly.acked;
                path.on_packet_acked(&entry, self.snapshot(place), acked);
                newly.large |= entry.size > BASE_DATAGRAM && !entry.is_mtu_probe();
            }
        }
        Ok(())
    }
}

fn violation(reason: &'static str) -> Error {
    Error::new(Code::PROTOCOL_VIOLATION, reason)
}

fn not_sent() -> Error {
    violation("a packet was acknowledged that was not sent")
}
