//! `max_fails` and `fail_timeout`: when a peer is disabled, and when it is tried again.
//!
//! ```text
//!  ok ──fails >= max_fails──> left out ──fail_timeout is over──> one more chance at each pick
//!   ^                            ^                                   │           │
//!   └───────────────── success ──│───────────────────────────────────┘           │
//!                                └───────────────────── failure ─────────────────┘
//! ```
//!
//! Each failure also lowers the effective weight, by the weight divided by `max_fails`, and each
//! pick that considers the peer restores one. As in nginx, a success that began in a later window
//! than the last failure clears the failures. nginx's clock has a resolution of seconds, this one
//! of milliseconds.

use super::peer::Peer;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The effect of a failure on its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The peer is disabled for `fail_timeout`; nginx logs "upstream server temporarily disabled"
    /// as a warning.
    pub disabled: bool,
    /// The peer's current number of failures.
    pub fails: u32,
}

/// A clock in milliseconds that starts well after 0, so that a time of 0 means that a peer was
/// never tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
}

const CLOCK_STARTS_AT_MS: u64 = 1 << 40;

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            start: Instant::now(),
        }
    }

    pub(super) fn ms(self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start).as_millis();
        // An Instant does not reach 2^63 ms.
        CLOCK_STARTS_AT_MS + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }
}

impl Peer {
    /// Whether it may be picked.
    pub(super) fn is_available(&self, now_ms: u64) -> bool {
        !self.down && self.health.is_good() && !self.is_left_out(now_ms) && !self.is_full()
    }

    /// Whether it may be picked for a client that belongs to it: also while it is drained.
    pub(super) fn is_available_to_its_own(&self, now_ms: u64) -> bool {
        self.takes_clients_of_its_own() && !self.is_left_out(now_ms) && !self.is_full()
    }

    /// Whether clients that are connected to it may go on, whatever else it does.
    pub(super) fn takes_clients_of_its_own(&self) -> bool {
        (!self.down || self.drain) && self.health.is_good()
    }

    pub(super) fn is_left_out(&self, now_ms: u64) -> bool {
        let fails = self.fails.load(Ordering::Relaxed);
        if fails == 0 || self.max_fails == 0 || fails < self.max_fails {
            return false;
        }
        let checked_ms = self.checked_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(checked_ms) <= self.fail_timeout_ms
    }

    /// In what time it can be tried again, if it is left out for its failures alone.
    pub(super) fn next_chance(&self, now_ms: u64) -> Option<Duration> {
        if self.down || !self.health.is_good() || !self.is_left_out(now_ms) {
            return None;
        }
        let checked_ms = self.checked_ms.load(Ordering::Relaxed);
        let passed_ms = now_ms.saturating_sub(checked_ms);
        let left_ms = self.fail_timeout_ms.saturating_sub(passed_ms);
        Some(Duration::from_millis(left_ms.saturating_add(1)))
    }

    /// The peer was picked: starts a new window of `fail_timeout` if the last one is over.
    pub(super) fn begin_window(&self, now_ms: u64) {
        let checked_ms = self.checked_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(checked_ms) > self.fail_timeout_ms {
            self.checked_ms.store(now_ms, Ordering::Relaxed);
            if self.max_fails != 0 && self.fails.load(Ordering::Relaxed) >= self.max_fails {
                self.begin_slowly(now_ms);
            }
        }
    }

    pub(super) fn succeed(&self) {
        if self.fails.load(Ordering::Relaxed) == 0 {
            return;
        }
        let failed_ms = self.failed_ms.load(Ordering::Relaxed);
        if failed_ms < self.checked_ms.load(Ordering::Relaxed) {
            self.forgive();
        }
    }

    /// Forgets all failures.
    pub(super) fn forgive(&self) {
        if self.fails.load(Ordering::Relaxed) != 0 {
            self.fails.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn fail(&self, now_ms: u64) -> Failure {
        let fails = self.fails.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        self.counts().failures.add(1);
        if fails == self.max_fails {
            self.counts().unavailable.add(1);
        }
        self.failed_ms.store(now_ms, Ordering::Relaxed);
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        if let Some(less) = self.weight.checked_div(self.max_fails) {
            let lowered = |weight: i64| Some((weight - i64::from(less)).max(0));
            let _always =
                self.effective_weight
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered);
        }
        Failure {
            disabled: self.max_fails != 0 && fails >= self.max_fails,
            fails,
        }
    }

    /// The effective weight, in fine parts. Restores one if failures have lowered it.
    pub(super) fn turn_weight(&self, now_ms: u64) -> i64 {
        let weight = self.effective_weight.load(Ordering::Relaxed);
        if weight < i64::from(self.weight) {
            // If another thread has changed it, that thread has restored or lowered it.
            let _ = self.effective_weight.compare_exchange(
                weight,
                weight + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        let weight = self.present_weight(u64::try_from(weight).unwrap_or(0), now_ms);
        i64::try_from(weight).unwrap_or(i64::MAX)
    }
}
