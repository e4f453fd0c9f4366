//! A worker thread: its runtime, its listeners, its connections.

use crate::counters::Counters;
use crate::open_file_cache::OpenFileCache;
use crate::registry::Registry;
use crate::snapshot::Snapshot;
use std::sync::Arc;

/// What the connections of one worker thread share. Nothing in it is touched by
/// another thread on the hot path; the locks inside are for the compiler's peace
/// and never contended.
pub struct Worker {
    /// Number of the thread, from 0.
    pub index: u32,
    /// All configured state.
    pub snapshot: Arc<Snapshot>,
    /// Open descriptors, file facts and small contents.
    pub open_files: OpenFileCache,
    /// Connections of this thread.
    pub registry: Registry,
    /// Counters of this thread; [`Worker::process`] sums them.
    pub counters: Counters,
    /// What all threads of the process know of each other.
    pub process: Arc<Process>,
}

/// What the threads of the worker process know of each other.
pub struct Process {
    /// All worker threads, set once they are built; for sums over counters.
    pub workers: std::sync::OnceLock<Vec<std::sync::Weak<Worker>>>,
}
