//! Meters of what peers may send without any use.

use std::time::Duration;

/// How many frames of a kind are accepted: `burst` at once, `per_second` in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// At once.
    pub burst: u32,
    /// How much of it is refilled each second.
    pub per_second: u32,
}

/// How much of an [`Allowance`] is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    used: u32,
    refilled: Duration,
}

impl Meter {
    pub(crate) fn new(now: Duration) -> Meter {
        Meter {
            used: 0,
            refilled: now,
        }
    }

    /// Takes `count`; `false` if less than that is left.
    #[must_use]
    pub(crate) fn charge(&mut self, count: u32, allowance: Allowance, now: Duration) -> bool {
        self.used = self.used.saturating_add(count);
        if self.used <= allowance.burst {
            return true;
        }
        // The refill is computed only here: hardly any connection gets this far.
        let elapsed_ms = now.saturating_sub(self.refilled).as_millis();
        let refill = elapsed_ms.saturating_mul(u128::from(allowance.per_second)) / 1000;
        if refill > 0 {
            self.refilled = now;
            self.credit(u32::try_from(refill).unwrap_or(u32::MAX));
        }
        self.used <= allowance.burst
    }

    /// Gives back `count`.
    pub(crate) fn credit(&mut self, count: u32) {
        self.used = self.used.saturating_sub(count);
    }
}
