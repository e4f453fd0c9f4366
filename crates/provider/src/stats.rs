//! What an engine has done, for metrics.

use sealane_counters::{Counter, Histogram, Level};

use crate::Failure;

/// Counters and levels of one engine. Every update is a relaxed atomic addition.
#[derive(Debug, Default)]
pub struct ProviderStats {
    /// Operations that have ended with a result that was verified.
    pub operations: Counter,
    failures: [Counter; Failure::ALL.len()],
    /// Operations whose connections were gone before they began.
    pub cancelled: Counter,
    /// How often a job was paused.
    pub pauses: Counter,
    /// How often a job was resumed because its device had taken no more before.
    pub retries: Counter,
    /// Operations that wait for their turn.
    pub queued: Level,
    /// Operations that have begun, without those that hang.
    pub in_flight: Level,
    /// Operations that have begun, have timed out and have not ended.
    pub hanging: Level,
    /// From the submission to the begin.
    pub queue_time: Histogram,
    /// From the begin to the end, verification included, also of those that failed.
    pub operation_time: Histogram,
    /// Nanoseconds that the threads have spent in the provider and with verifying.
    pub busy_ns: Counter,
}

impl ProviderStats {
    /// Operations that have failed for this reason.
    pub fn failures(&self, reason: Failure) -> u64 {
        self.failures[reason as usize].get()
    }

    pub(crate) fn count_failure(&self, reason: Failure) {
        self.failures[reason as usize].add(1);
    }
}
