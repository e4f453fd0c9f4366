//! Counters of one worker thread.
//!
//! Only the owning thread writes (plain load and store, no locked instruction);
//! whoever scrapes sums over the threads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only its owner changes and others may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. Only the owning thread may call this.
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A level that only its owner changes and others may read.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// Raises or lowers the level. Only the owning thread may call this.
    pub fn add(&self, n: i64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The level.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one worker thread, as `stub_status` names them.
#[derive(Debug, Default)]
#[repr(align(128))] // its own cache lines: threads must not share one
pub struct Counters {
    /// Connections accepted.
    pub accepted: Count,
    /// Connections handled (not dropped for want of a slot).
    pub handled: Count,
    /// Requests.
    pub requests: Count,
    /// Open connections.
    pub active: Level,
    /// Connections whose request head is being read.
    pub reading: Level,
    /// Connections whose response is being made or sent.
    pub writing: Level,
    /// Idle keep-alive connections.
    pub waiting: Level,
    /// TLS handshakes completed.
    pub handshakes: Count,
    /// Of those, resumed.
    pub handshakes_resumed: Count,
    /// TLS handshakes failed.
    pub handshakes_failed: Count,
    /// Closed TLS connections whose records the kernel sealed in the end.
    pub ktls_on: Count,
    /// Closed TLS connections that could not have kernel TLS, or were not to.
    pub ktls_off: Count,
    /// Panics caught.
    pub panics: Count,
}
