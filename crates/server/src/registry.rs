//! The connections of one worker thread, so that idle ones can be told to close:
//! at shutdown, and when `worker_connections` runs short.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// All connections of a worker thread.
#[derive(Default)]
pub struct Registry {
    connections: Mutex<HashMap<u64, Arc<Handle>>>,
    shutting_down: AtomicBool,
}

/// What others may know of a connection and ask of it.
#[derive(Default)]
pub struct Handle {
    phase: AtomicU8,
    asked: AtomicU8,
    /// Serial number of the idle period, so that the longest idle is found.
    idle_since: std::sync::atomic::AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// TLS handshake or first request not complete yet.
    Opening = 0,
    /// Kept alive, no byte of a further request has arrived.
    Idle = 1,
    /// Working on a request.
    Busy = 2,
}

/// What a connection was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Asked {
    /// Nothing.
    Nothing = 0,
    /// Close when idle; finish what is under way.
    Finish = 1,
    /// Close now.
    Abort = 2,
}

/// A connection's entry; leaving scope removes it.
pub struct Entry {
    worker: Arc<crate::worker::Worker>,
    number: u64,
    /// The shared part.
    pub handle: Arc<Handle>,
}

impl Registry {
    /// Connections in the table.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`Registry::shut_down`] was called.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Asks every connection to finish; new ones learn it when they register.
    pub fn shut_down(&self, asked: Asked) {
        self.shutting_down.store(true, Ordering::Relaxed);
        for handle in self.lock().values() {
            handle.ask(asked);
        }
    }

    /// Asks up to `count` idle connections to close, longest idle first, to make
    /// room for new ones. Returns how many were asked.
    pub fn drain_idle(&self, count: usize) -> usize {
        let mut idle: Vec<_> = self
            .lock()
            .values()
            .filter(|h| h.phase() == Phase::Idle && h.asked() == Asked::Nothing)
            .map(|h| (h.idle_since.load(Ordering::Relaxed), h.clone()))
            .collect();
        if idle.len() > count {
            idle.select_nth_unstable_by_key(count, |(since, _)| *since);
            idle.truncate(count);
        }
        for (_, handle) in &idle {
            handle.ask(Asked::Finish);
        }
        idle.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Handle>>> {
        // A panic elsewhere cannot leave the map half changed.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Enters a connection into its worker's registry.
    pub fn new(worker: Arc<crate::worker::Worker>, number: u64) -> Entry {
        let handle = Arc::new(Handle::default());
        if worker.registry.is_shutting_down() {
            handle.ask(Asked::Finish);
        }
        worker.registry.lock().insert(number, handle.clone());
        Entry { worker, number, handle }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.worker.registry.lock().remove(&self.number);
    }
}

impl Handle {
    /// Says what the connection does now. `tick` orders idle periods.
    pub fn set_phase(&self, phase: Phase, tick: u64) {
        if phase == Phase::Idle {
            self.idle_since.store(tick, Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// What the connection does now.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Opening,
            1 => Phase::Idle,
            _ => Phase::Busy,
        }
    }

    /// What the connection was asked to do.
    pub fn asked(&self) -> Asked {
        match self.asked.load(Ordering::Acquire) {
            0 => Asked::Nothing,
            1 => Asked::Finish,
            _ => Asked::Abort,
        }
    }

    /// Remembers the connection's task, so that [`Handle::ask`] can wake it. A
    /// task's waker never changes: once is enough.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    fn ask(&self, asked: Asked) {
        self.asked.fetch_max(asked as u8, Ordering::AcqRel);
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }
}
