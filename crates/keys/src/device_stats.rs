//! What became of the operations that a worker process has sent to a key process.

use sealane_counters::{Counter, Histogram, HistogramValues};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Counters of one worker process. They only grow.
#[derive(Debug, Default)]
pub struct DeviceStats {
    time: Histogram,
    failed: Counter,
    /// Operations that were refused because an older one waited for too long.
    pub refused: Counter,
    /// Operations that went to another process, which has the same key.
    pub fallbacks: Counter,
    /// The last one that has ended has failed.
    is_failing: AtomicBool,
}

impl DeviceStats {
    /// How long operations took that were done, waiting included.
    pub fn times(&self) -> HistogramValues {
        self.time.values()
    }

    /// Operations that have failed.
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    pub(crate) fn record_done(&self, time: Duration) {
        self.time.record(time);
        self.is_failing.store(false, Ordering::Relaxed);
    }

    pub(crate) fn record_failed(&self) {
        self.failed.add(1);
        self.is_failing.store(true, Ordering::Relaxed);
    }
}
