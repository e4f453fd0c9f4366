//! Single numbers.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// A number that only grows. Any thread of any process may add to it.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces it, where another process has counted so far.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A level that any thread of its process raises and lowers.
#[derive(Debug, Default)]
pub struct Level(AtomicI64);

impl Level {
    /// Raises it by `n`, or lowers it.
    #[inline]
    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Raises it by `n`.
    pub fn raise(&self, n: usize) {
        self.add(n as i64);
    }

    /// Lowers it by `n`.
    pub fn lower(&self, n: usize) {
        self.add(-(n as i64));
    }

    /// The level; 0 for one that is being changed and negative for a moment.
    pub fn get(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
