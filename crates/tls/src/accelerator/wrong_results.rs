//! Counts wrong results of the vectors, reports them to the operator, and stops using the vectors
//! after too many.
//!
//! The processor computed a wrong value. That is a fault of the machine, not of one key, so the
//! count is kept per process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After this many wrong results, vectors are not used again until the process restarts. Each wrong
/// result costs nine operations instead of one, and a machine that fails so often fails elsewhere
/// too.
pub const MAX_WRONG_RESULTS: u64 = 16;

/// The operator is told at most once in this interval; the number says what happened since.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Counts wrong results.
#[derive(Debug, Default)]
pub struct WrongResults {
    count: AtomicU64,
    reported_at: Mutex<Option<Instant>>,
}

impl WrongResults {
    /// How many there were.
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether [`MAX_WRONG_RESULTS`] has been reached, so that vectors must no longer be used.
    pub fn are_too_many(&self) -> bool {
        self.get() >= MAX_WRONG_RESULTS
    }

    /// Counts `n` more, found at `now`. Returns the report for the operator, if one is due.
    #[must_use]
    pub fn add(&self, n: u64, now: Instant) -> Option<String> {
        let before = self.count.fetch_add(n, Ordering::Relaxed);
        let count = before + n;
        if count < MAX_WRONG_RESULTS {
            return self.is_report_due(now).then(|| told(count));
        }
        // Exactly one thread reaches the limit. Threads that were computing at the time have
        // nothing to add.
        (before < MAX_WRONG_RESULTS).then(|| told_at_last(count))
    }

    fn is_report_due(&self, now: Instant) -> bool {
        let mut reported_at = self
            .reported_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due =
            reported_at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if is_due {
            *reported_at = Some(now);
        }
        is_due
    }
}

fn told(count: u64) -> String {
    format!(
        "ssl_accelerator batch: wrong results of the processor's vector instructions, {count} so far; \
         each was detected before use and computed again without them, so no client was affected. \
         The processor or the memory of this machine is probably faulty: look for machine check \
         errors in the kernel log, test the machine, and set \"ssl_accelerator cpu;\" until then"
    )
}

fn told_at_last(count: u64) -> String {
    format!(
        "ssl_accelerator batch: {count} wrong results of the processor's vector instructions; the vectors \
         are disabled until the next start. Private-key operations continue one at a time, as with \
         \"ssl_accelerator cpu;\", and no wrong result was used. The processor or the memory of \
         this machine is probably faulty: take it out of service and test it"
    )
}
