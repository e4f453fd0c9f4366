//! The newest snapshot, as one worker thread knows it.
//!
//! A reload replaces it. Requests in progress keep the snapshot that they began with. A
//! connection checks for a new one between two requests, which costs one load if nothing has
//! changed.

use crate::snapshot::Snapshot;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest snapshot and its number.
pub struct Current {
    generation: AtomicU64,
    // Locked by its thread after each reload, and by the thread that sets it.
    snapshot: Mutex<Arc<Snapshot>>,
}

impl Current {
    /// The snapshot that a process starts with is number 0.
    pub fn new(snapshot: Arc<Snapshot>) -> Current {
        Current {
            generation: AtomicU64::new(0),
            snapshot: Mutex::new(snapshot),
        }
    }

    /// Its number, which grows with every reload.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.numbered().1
    }

    /// The newest snapshot and its number.
    pub fn numbered(&self) -> (u64, Arc<Snapshot>) {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation(), snapshot.clone())
    }

    /// Replaces it; `generation` must be larger than the one before.
    pub(crate) fn set(&self, generation: u64, snapshot: Arc<Snapshot>) {
        let before = {
            let mut current = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            self.generation.store(generation, Ordering::Release);
            std::mem::replace(&mut *current, snapshot)
        };
        // The last owner frees a whole configuration: not while the lock is held.
        drop(before);
    }
}
