//! What was received in a packet number space, and when an ACK for it is due: RFC 9000 section
//! 13.2.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Space, Time};

use super::{Codepoint, EcnCounts};

/// Most ranges of packet numbers that are remembered; the oldest go. An ACK frame of so many has
/// some 200 bytes.
pub(crate) const MAX_ACK_RANGES: usize = 64;

/// Memory for so many ranges is kept when there are few.
const KEPT_RANGES: usize = 4;

/// Every second packet that elicits an ACK gets one at once, RFC 9000 section 13.2.2.
const ELICITING_BEFORE_ACK: u8 = 2;

/// When ACKs are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckPolicy {
    /// The transport parameter max_ack_delay of this end.
    pub(crate) max_ack_delay: Duration,
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self {
            max_ack_delay: Duration::from_millis(25),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
}

/// The packets that were received in one space.
#[derive(Debug)]
pub(crate) struct Received {
    /// Ascending, with a gap between each two. The newest is last.
    ranges: Vec<Range>,
    /// All numbers below count as received.
    floor: u64,
    /// When the largest number arrived.
    largest_time: Time,
    /// Largest number of a packet that elicits an ACK.
    largest_eliciting: Option<u64>,
    ecn: EcnCounts,
    /// When an ACK is due because of a packet that elicits one.
    deadline: Option<Time>,
    /// Packets since the last ACK that elicit one.
    eliciting: u8,
    /// Whether there is anything that no ACK has told.
    news: bool,
    /// Whether every packet that elicits an ACK gets one at once: Initial and Handshake.
    at_once: bool,
    now_due: bool,
}

impl Received {
    /// Nothing received yet.
    pub(crate) fn new(space: Space) -> Self {
        Self {
            ranges: Vec::new(),
            floor: 0,
            largest_time: Time::ZERO,
            largest_eliciting: None,
            ecn: EcnCounts::default(),
            deadline: None,
            eliciting: 0,
            news: false,
            at_once: space != Space::Data,
            now_due: false,
        }
    }

    /// Whether a packet of this number was received before, or is too old to tell. Ask when the
    /// packet is authentic and before its frames are looked at, RFC 9000 section 12.3.
    pub(crate) fn is_duplicate(&self, number: u64) -> bool {
        if number < self.floor {
            return true;
        }
        let after = self.ranges.partition_point(|range| range.last < number);
        self.ranges
            .get(after)
            .is_some_and(|range| range.first <= number)
    }

    /// The largest number, which truncated numbers are relative to.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.last)
    }

    /// Takes a packet that is authentic and no duplicate.
    pub(crate) fn on_packet(
        &mut self,
        number: u64,
        ack_eliciting: bool,
        mark: Codepoint,
        policy: &AckPolicy,
        now: Time,
    ) {
        if self.largest().is_none_or(|largest| number > largest) {
            self.largest_time = now;
        }
        self.insert(number);
        self.news = true;
        match mark {
            Codepoint::NotEct => {}
            Codepoint::Ect0 => self.ecn.ect0 += 1,
            Codepoint::Ect1 => self.ecn.ect1 += 1,
            Codepoint::Ce => self.ecn.ce += 1,
        }
        if !ack_eliciting {
            return;
        }
        self.eliciting = self.eliciting.saturating_add(1);
        self.now_due |= self.at_once
            || mark == Codepoint::Ce
            || self.eliciting >= ELICITING_BEFORE_ACK
            || self.is_out_of_order(number);
        self.largest_eliciting = self.largest_eliciting.max(Some(number));
        self.deadline.get_or_insert(now + policy.max_ack_delay);
    }

    /// RFC 9000 section 13.2.1: a smaller number than that of a packet before that elicits an ACK,
    /// or a larger one with a gap between them.
    fn is_out_of_order(&self, number: u64) -> bool {
        let Some(before) = self.largest_eliciting else {
            // Of packets before the first, none may be missing.
            return self
                .ranges
                .last()
                .is_some_and(|range| range.first > self.floor);
        };
        number < before
            || self
                .ranges
                .last()
                .is_some_and(|range| range.first > before + 1)
    }

    fn insert(&mut self, number: u64) {
        if number < self.floor {
            return;
        }
        let place = match self.ranges.last() {
            // Nearly always.
            Some(last) if number > last.last => self.ranges.len(),
            _ => self.ranges.partition_point(|range| range.last < number),
        };
        if let Some(next) = self.ranges.get(place)
            && next.first <= number
        {
            return;
        }
        let joins_before = place > 0 && self.ranges[place - 1].last + 1 == number;
        let joins_after = self
            .ranges
            .get(place)
            .is_some_and(|range| range.first == number + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.ranges[place - 1].last = self.ranges[place].last;
                self.ranges.remove(place);
            }
            (true, false) => self.ranges[place - 1].last = number,
            (false, true) => self.ranges[place].first = number,
            (false, false) => self.insert_range(place, number),
        }
    }

    fn insert_range(&mut self, place: usize, number: u64) {
        let range = Range {
            first: number,
            last: number,
        };
        if self.ranges.len() < MAX_ACK_RANGES {
            self.ranges.insert(place, range);
        } else if let Some(before) = place.checked_sub(1) {
            self.floor = self.ranges[0].last + 1;
            self.ranges.remove(0);
            self.ranges.insert(before, range);
        } else {
            self.floor = number + 1;
        }
    }

    /// Whether an ACK should be sent, even if there is nothing else to send.
    pub(crate) fn ack_needed(&self, now: Time) -> bool {
        self.now_due || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// When [`Received::ack_needed`] becomes true.
    pub(crate) fn ack_deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Whether an ACK has news: it should go with whatever else is sent.
    pub(crate) fn has_news(&self) -> bool {
        self.news
    }

    /// The ranges for an ACK frame, descending.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u64>> + Clone {
        self.ranges
            .iter()
            .rev()
            .map(|range| range.first..=range.last)
    }

    /// How long the packet with the largest number has waited: the ACK Delay of an ACK frame.
    pub(crate) fn ack_delay(&self, now: Time) -> Duration {
        now.since(self.largest_time)
    }

    /// The counts for an ACK frame, or `None` if no packet had a mark.
    pub(crate) fn ecn(&self) -> Option<&EcnCounts> {
        (self.ecn != EcnCounts::default()).then_some(&self.ecn)
    }

    /// An ACK frame was sent.
    pub(crate) fn on_ack_sent(&mut self) {
        self.eliciting = 0;
        self.deadline = None;
        self.now_due = false;
        self.news = false;
    }

    /// The peer has an ACK frame that went up to `largest`, see [`super::Item::Ack`]: ranges that
    /// end below it need not be told again, RFC 9000 section 13.2.4.
    pub(crate) fn on_ack_acked(&mut self, largest: u64) {
        let old = self.ranges.partition_point(|range| range.last < largest);
        // The newest range stays: every ACK has one.
        let old = old.min(self.ranges.len().saturating_sub(1));
        if old > 0 {
            self.floor = self.ranges[old - 1].last + 1;
            self.ranges.drain(..old);
            if self.ranges.len() <= KEPT_RANGES {
                self.ranges.shrink_to(KEPT_RANGES);
            }
        }
    }
}
