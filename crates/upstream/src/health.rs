//! What active health checks have found out about a peer.
//!
//! Several checks may ask the peers of a group different things. A peer gets requests while none of
//! them fails, and none that is mandatory is still to be passed for the first time. Whoever carries
//! out the checks counts failures and passes, and tells the [`Group`](super::Group) when a verdict
//! changes.

use super::peer::Peer;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Most checks of a group.
pub const MAX_CHECKS: usize = 32;

/// Weights are compared in parts of this size, so that even a peer of weight 1 can start slowly.
const WEIGHT_PARTS: u32 = 256;

/// A check of all peers of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSettings {
    /// What tells it from other checks of the group. A verdict stays while its check keeps its
    /// name.
    pub name: Box<str>,
    /// A peer gets no requests before it has passed.
    pub mandatory: bool,
}

/// The verdict about a peer as a number that another process can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No check has ended.
    Unknown,
    /// It gets requests.
    Healthy,
    /// It gets none.
    Unhealthy,
}

impl Verdict {
    pub(super) fn number(self) -> u64 {
        match self {
            Verdict::Unknown => 0,
            Verdict::Healthy => 1,
            Verdict::Unhealthy => 2,
        }
    }

    pub(super) fn of_number(number: u64) -> Verdict {
        match number {
            1 => Verdict::Healthy,
            2 => Verdict::Unhealthy,
            _ => Verdict::Unknown,
        }
    }
}

/// The verdicts about a peer, one bit for each check: those that fail in the lower half, those that
/// are still to be passed in the upper one. A pick costs one load.
#[derive(Debug)]
pub(super) struct Health {
    bits: AtomicU64,
    /// Results of each check in a row: passes, or failures as a negative number.
    streaks: Box<[AtomicI64]>,
}

impl Health {
    /// Of a peer of which `known` is known from another process.
    pub(super) fn new(checks: &[CheckSettings], known: Verdict) -> Health {
        Health {
            bits: AtomicU64::new(bits_of(checks, known)),
            streaks: checks.iter().map(|_| AtomicI64::new(0)).collect(),
        }
    }

    /// No check speaks against the peer.
    #[inline]
    pub(super) fn is_good(&self) -> bool {
        self.bits.load(Ordering::Relaxed) == 0
    }

    /// Some check fails.
    pub(super) fn is_failing(&self) -> bool {
        self.bits.load(Ordering::Relaxed) as u32 != 0
    }

    /// A check has passed, or failed as often as it may. Returns whether the peer was good before,
    /// and whether it is now.
    fn note(&self, check: usize, healthy: bool) -> (bool, bool) {
        let bits = |bits: u64| {
            let others = bits & !(failing(check) | pending(check));
            match healthy {
                true => others,
                false => others | failing(check),
            }
        };
        let before = self
            .bits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                Some(bits(before))
            })
            .unwrap_or_else(|before| before);
        (before == 0, bits(before) == 0)
    }

    /// The verdict of all checks together.
    pub(super) fn verdict(&self) -> Verdict {
        verdict_of(self.bits.load(Ordering::Relaxed))
    }

    /// The verdict of one check.
    fn of_check(&self, check: usize) -> Verdict {
        let bits = self.bits.load(Ordering::Relaxed);
        verdict_of(bits & (failing(check) | pending(check)))
    }

    /// Takes over the verdicts of those checks that there were `before`.
    pub(super) fn take_over(
        &self,
        checks: &[CheckSettings],
        before: &Health,
        before_checks: &[CheckSettings],
    ) {
        for (check, settings) in checks.iter().take(MAX_CHECKS).enumerate() {
            let mut known = before_checks.iter().take(MAX_CHECKS);
            if let Some(known) = known.position(|known| known.name == settings.name) {
                match before.of_check(known) {
                    Verdict::Unknown => {}
                    verdict => drop(self.note(check, verdict == Verdict::Healthy)),
                }
            }
        }
    }
}

fn verdict_of(bits: u64) -> Verdict {
    match bits {
        0 => Verdict::Healthy,
        _ if bits as u32 != 0 => Verdict::Unhealthy,
        _ => Verdict::Unknown,
    }
}

fn bits_of(checks: &[CheckSettings], known: Verdict) -> u64 {
    let all = checks.iter().take(MAX_CHECKS).enumerate();
    let bits = all.map(|(check, settings)| match known {
        Verdict::Healthy => 0,
        Verdict::Unhealthy => failing(check),
        Verdict::Unknown if settings.mandatory => pending(check),
        Verdict::Unknown => 0,
    });
    bits.sum()
}

fn failing(check: usize) -> u64 {
    1 << (check % MAX_CHECKS)
}

fn pending(check: usize) -> u64 {
    failing(check) << MAX_CHECKS
}

/// What a verdict changes for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthChange {
    /// Nothing.
    None,
    /// The peer gets requests from now on.
    BecameHealthy,
    /// It gets no more requests.
    BecameUnhealthy,
}

impl Peer {
    /// Counts a check that has ended, given by its number in the settings of the group; `passed_s`
    /// is when it passed, in seconds since 1970.
    pub fn count_check(&self, check: usize, passed_s: Option<u64>) {
        let counts = self.counts();
        counts.checks.add(1);
        match passed_s {
            Some(now_s) => counts.checked_s.set(now_s),
            None => counts.checks_failed.add(1),
        }
        if let Some(streak) = self.health.streaks.get(check) {
            let before = streak.load(Ordering::Relaxed);
            let after = match passed_s {
                Some(_) => before.max(0).saturating_add(1),
                None => before.min(0).saturating_sub(1),
            };
            streak.store(after, Ordering::Relaxed);
        }
    }

    /// Takes over how many results in a row another node has counted.
    pub fn set_streak(&self, check: usize, results: i64) {
        if let Some(streak) = self.health.streaks.get(check) {
            streak.store(results, Ordering::Relaxed);
        }
    }

    /// Results of a check in a row: passes, or failures as a negative number.
    pub fn streak(&self, check: usize) -> i64 {
        let streak = self.health.streaks.get(check);
        streak.map_or(0, |streak| streak.load(Ordering::Relaxed))
    }

    /// The verdict of a check, given by its number in the settings of the group.
    pub fn verdict(&self, check: usize) -> Verdict {
        self.health.of_check(check)
    }

    /// Begins with what an earlier process has left in the memory that both share.
    pub(super) fn recall_verdict(&self) {
        let known = Verdict::of_number(self.counts().verdict.get());
        let bits = bits_of(&self.checks, known);
        self.health.bits.store(bits, Ordering::Relaxed);
    }

    pub(super) fn note_verdict(&self, check: usize, healthy: bool, now_ms: u64) -> HealthChange {
        let (before, after) = self.health.note(check, healthy);
        match self.health.verdict() {
            Verdict::Unknown => {}
            verdict => self.counts().verdict.set(verdict.number()),
        }
        match (before, after) {
            (false, true) => {
                // What requests have found out before is out of date.
                self.forgive();
                self.begin_slowly(now_ms);
                HealthChange::BecameHealthy
            }
            (true, false) => {
                self.counts().unhealthy.add(1);
                HealthChange::BecameUnhealthy
            }
            _ => HealthChange::None,
        }
    }

    /// It can be picked again: its weight grows from nothing during `slow_start`.
    pub(super) fn begin_slowly(&self, now_ms: u64) {
        if self.slow_start_ms > 0 {
            self.recovered_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Its configured weight in fine parts.
    pub(super) fn full_weight(&self) -> i64 {
        i64::from(self.weight) * i64::from(WEIGHT_PARTS)
    }

    /// Its weight in fine parts, less while it starts slowly; at least 1.
    #[inline]
    pub(super) fn present_weight(&self, weight: u64, now_ms: u64) -> u64 {
        let full = weight * u64::from(WEIGHT_PARTS);
        if self.slow_start_ms == 0 {
            return full;
        }
        let since_ms = now_ms.saturating_sub(self.recovered_ms.load(Ordering::Relaxed));
        if since_ms >= self.slow_start_ms {
            return full;
        }
        let grown = u128::from(full) * u128::from(since_ms) / u128::from(self.slow_start_ms);
        u64::try_from(grown).unwrap_or(full).max(1)
    }
}
