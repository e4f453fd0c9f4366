//! How soon a process that died is started again.

use std::time::Duration;

/// A worker that lived this long is started again at once.
const STEADY: Duration = Duration::from_secs(10);

/// The wait after the first early death in a row; doubled with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait where handshakes wait as well: they do for 10 s.
const LONGEST_SHORT_WAIT: Duration = Duration::from_secs(1);

/// Counts early deaths in a row.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    early_deaths: u32,
}

impl Restarts {
    /// How long to wait after a process, which lived for `lived`, that all others wait for.
    pub(crate) fn short_wait_after(&mut self, lived: Duration) -> Duration {
        self.wait_after(lived).min(LONGEST_SHORT_WAIT)
    }

    /// How long to wait after a worker that lived for `lived`.
    pub(crate) fn wait_after(&mut self, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.early_deaths = 0;
            return Duration::ZERO;
        }
        let factor = 1_u32.checked_shl(self.early_deaths).unwrap_or(u32::MAX);
        self.early_deaths = (self.early_deaths + 1).min(31);
        FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_deaths_wait_longer_and_longer_and_a_long_life_forgives() {
        let mut restarts = Restarts::default();
        let early = Duration::from_millis(5);
        assert_eq!(restarts.wait_after(early), FIRST_WAIT);
        assert_eq!(restarts.wait_after(early), FIRST_WAIT * 2);
        assert_eq!(restarts.wait_after(early), FIRST_WAIT * 4);
        for _ in 0..100 {
            restarts.wait_after(early);
        }
        assert_eq!(restarts.wait_after(early), LONGEST_WAIT);
        assert_eq!(restarts.short_wait_after(early), LONGEST_SHORT_WAIT);
        assert_eq!(restarts.wait_after(STEADY), Duration::ZERO);
        assert_eq!(restarts.wait_after(early), FIRST_WAIT);
    }
}
