//! The time of a turn.

use std::time::{Duration, Instant};

/// The time of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnTime {
    pub(crate) now: Instant,
    /// By the coarse clock.
    pub(crate) now_ms: u64,
}

impl TurnTime {
    /// The time now.
    pub(crate) fn now() -> TurnTime {
        TurnTime {
            now: Instant::now(),
            now_ms: sealane_sys::time::monotonic_coarse_ms(),
        }
    }

    /// What is left of a time-out that began then; `None` when it has passed.
    pub(crate) fn left_ms(self, since_ms: u64, limit_ms: u64) -> Option<u64> {
        let waited_ms = self.now_ms.saturating_sub(since_ms);
        limit_ms.checked_sub(waited_ms).filter(|&left| left > 0)
    }
}

/// A time in milliseconds.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
