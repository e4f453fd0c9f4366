//! Which node asks the servers of a part of a check: what follows from the answers of the store.
//! Without I/O and clock.
//!
//! ```text
//! Undecided ──> Following <──────────────┐
//!     │             │ no news for long   │ news
//!     │             v                    │
//!     └────────> Alone ── the lease ──> Holding
//! ```
//!
//! A lease is only a hint whose turn it is. What makes a node rely on others is a record that was
//! sealed a moment ago: whoever can only write to the store keeps nobody from asking.

use super::record::Record;
use std::time::{Duration, Instant};

/// The shortest and the longest time between two looks into the store.
const TICKS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(250)..=Duration::from_secs(5);
/// Looks that another node may miss before this one asks by itself.
const MISSED_TICKS: u32 = 3;
/// How long a node that begins waits for the store before it asks by itself.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How much the clocks of nodes may differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);
/// Servers of one record, about: a check of more has several.
const SLICE_PEERS: usize = 256;
/// Most parts of a check.
const MAX_SLICES: usize = 256;

/// How many parts a check of so many servers has. Nodes that agree about the servers agree about
/// this.
pub(super) fn slice_count(peers: usize) -> usize {
    peers
        .div_ceil(SLICE_PEERS)
        .next_power_of_two()
        .clamp(1, MAX_SLICES)
}

/// The times of a shared check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Between two looks into the store.
    pub(super) tick: Duration,
    /// How long a record is relied on.
    pub(super) max_age: Duration,
    /// How long records and leases stay in the store, in seconds.
    pub(super) lifetime_s: u32,
}

impl Times {
    /// Those of a check with this interval.
    pub(super) fn of(interval: Duration) -> Times {
        let tick = interval.clamp(*TICKS.start(), *TICKS.end());
        let max_age = tick * MISSED_TICKS;
        let seconds = max_age.as_millis().div_ceil(1000);
        Times {
            tick,
            max_age,
            lifetime_s: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }

    /// Whether a record of that time can be a new one.
    fn are_near(self, time_ms: u64, now_ms: u64) -> bool {
        let apart = Duration::from_millis(time_ms.abs_diff(now_ms));
        apart <= self.max_age + CLOCK_TOLERANCE
    }
}

/// Whether servers are to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// By this node.
    Ask,
    /// By another node.
    Leave,
    /// It is not known yet.
    Wait,
}

/// What to ask the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreQuestion {
    /// What other nodes have found out.
    Record,
    /// For the lease.
    Lease,
}

/// Why a record is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unused {
    /// It is known already, or older than what is known.
    Known,
    /// Its time is too far from this node's.
    Clock,
}

/// A part of the servers of a check.
#[derive(Debug)]
pub(super) struct CheckSlice {
    /// Until then a node that has heard nothing waits.
    decide_by: Instant,
    /// Another node has the lease, and is given time for its first record.
    has_waited: bool,
    /// Until then the lease is this node's.
    holds_until: Option<Instant>,
    /// The newest record: when it came, and its time.
    heard: Option<(Instant, u64)>,
    /// A verdict has changed since the last record.
    pub(super) has_news: bool,
    /// When this node last made a record.
    told: Option<Instant>,
}

impl CheckSlice {
    pub(super) fn new(now: Instant) -> CheckSlice {
        CheckSlice {
            decide_by: now + FIRST_ANSWER_WITHIN,
            has_waited: false,
            holds_until: None,
            heard: None,
            has_news: false,
            told: None,
        }
    }

    fn is_fresh(&self, now: Instant, times: Times) -> bool {
        self.heard
            .is_some_and(|(at, _)| now.saturating_duration_since(at) < times.max_age)
    }

    /// Whether the lease is this node's.
    pub(super) fn is_held(&self) -> bool {
        self.holds_until.is_some()
    }

    /// Whether it is not known yet who asks.
    pub(super) fn is_undecided(&self, now: Instant) -> bool {
        !self.is_held() && self.heard.is_none() && now < self.decide_by
    }

    /// Who asks.
    pub(super) fn turn(&self, now: Instant, times: Times) -> Turn {
        if self.is_held() {
            Turn::Ask
        } else if self.is_fresh(now, times) {
            Turn::Leave
        } else if self.is_undecided(now) {
            Turn::Wait
        } else {
            Turn::Ask
        }
    }

    /// What to ask first in a look.
    pub(super) fn question(&self) -> StoreQuestion {
        match self.is_held() {
            true => StoreQuestion::Lease,
            false => StoreQuestion::Record,
        }
    }

    /// Whether to ask for the lease once the store has given its record.
    pub(super) fn wants_lease(&self, now: Instant, times: Times) -> bool {
        !self.is_held() && !self.is_fresh(now, times)
    }

    /// A record that this node's key has opened has come. Whether it is news.
    ///
    /// # Errors
    /// Why it is not used.
    pub(super) fn hear(
        &mut self,
        record: &Record,
        now: Instant,
        now_ms: u64,
        times: Times,
    ) -> Result<(), Unused> {
        if let Some(known_ms) = self.known_ms(now_ms, times)
            && record.time_ms <= known_ms
        {
            return Err(Unused::Known);
        }
        if !times.are_near(record.time_ms, now_ms) {
            return Err(Unused::Clock);
        }
        self.heard = Some((now, record.time_ms));
        Ok(())
    }

    /// The time of the newest record. One from a clock that was wrong, of this node or another,
    /// counts no more.
    fn known_ms(&self, now_ms: u64, times: Times) -> Option<u64> {
        let known_ms = self.heard.map(|(_, known_ms)| known_ms);
        known_ms.filter(|known_ms| *known_ms <= now_ms || times.are_near(*known_ms, now_ms))
    }

    /// The answer to a question for the lease that was asked at `asked`; `None` if there is none.
    pub(super) fn note_lease(
        &mut self,
        answer: Option<bool>,
        asked: Instant,
        now: Instant,
        times: Times,
    ) {
        match answer {
            Some(true) => self.holds_until = Some(asked + times.max_age),
            Some(false) => {
                self.holds_until = None;
                if self.is_undecided(now) && !std::mem::replace(&mut self.has_waited, true) {
                    // Another node begins as well: its first record comes soon.
                    self.decide_by = self.decide_by.max(asked + times.max_age);
                }
            }
            None => self.holds_until = self.holds_until.filter(|until| now < *until),
        }
    }

    /// The time of the record that this node makes now.
    pub(super) fn tell(&mut self, now: Instant, now_ms: u64, times: Times) -> u64 {
        let known_ms = self.known_ms(now_ms, times);
        let time_ms = known_ms.map_or(now_ms, |known_ms| now_ms.max(known_ms + 1));
        self.heard = Some((now, time_ms));
        self.has_news = false;
        self.told = Some(now);
        time_ms
    }

    /// When there is something to tell before the next look, if this node tells the others.
    pub(super) fn tells_at(&self) -> Option<Instant> {
        /// Many servers that change at the same time are told together.
        const PAUSE: Duration = Duration::from_millis(100);
        let told = self.told.filter(|_| self.has_news && self.is_held())?;
        Some(told + PAUSE)
    }
}

#[cfg(test)]
mod tests;
