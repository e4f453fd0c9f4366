//! The connections of one worker thread: which are idle, which must close, and which have timed
//! out.
//!
//! Idle connections are told to close at shutdown and when `worker_connections` runs short.
//! Time-outs are kept here too, as numbers in one array that a sweep scans twice a second. Moving a
//! time-out, which every request does, is then a single store, and an idle connection carries no
//! timer.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// How often time-outs are checked. They fire at most this much late.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// All connections of a worker thread.
#[derive(Default)]
pub struct Registry {
    slots: Mutex<Slots>,
    /// What new connections are asked to do.
    asked: AtomicU8,
    /// The oldest configuration that may still be used.
    oldest: AtomicU64,
    /// Notified when a connection enters an empty table.
    occupied: Notify,
}

#[derive(Default)]
struct Slots {
    /// The deadline of each slot, in milliseconds of the monotonic clock; `u64::MAX` means never.
    /// Kept apart from the handles, so that a sweep over many thousands touches only a few cache
    /// lines.
    deadlines_ms: Vec<u64>,
    handles: Vec<Option<Arc<ConnectionHandle>>>,
    free: Vec<u32>,
}

/// The part of a connection that others can see and make requests of.
#[derive(Default)]
pub struct ConnectionHandle {
    phase: AtomicU8,
    asked: AtomicU8,
    expired: AtomicBool,
    /// The oldest configuration that may still be used.
    oldest: AtomicU64,
    /// Sequence number of the idle period, to find the longest idle connection.
    idle_since: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionPhase {
    /// The TLS handshake or the first request is not complete yet.
    Opening = 0,
    /// Kept alive; no byte of another request has arrived.
    Idle = 1,
    /// Working on a request.
    Busy = 2,
}

/// What a connection has been asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Asked {
    /// Nothing.
    Nothing = 0,
    /// Move to another process when idle, otherwise finish.
    Move = 1,
    /// Close when idle; finish what is in progress first.
    Finish = 2,
    /// Close now.
    Abort = 3,
}

impl From<u8> for Asked {
    fn from(number: u8) -> Asked {
        match number {
            0 => Asked::Nothing,
            1 => Asked::Move,
            2 => Asked::Finish,
            _ => Asked::Abort,
        }
    }
}

/// A connection's entry in the registry. Dropping it removes the entry.
pub struct Entry {
    registry: Arc<Registry>,
    slot: u32,
    handle: Arc<ConnectionHandle>,
}

impl Registry {
    /// Connections in the table.
    pub fn len(&self) -> usize {
        let slots = self.lock();
        slots.handles.len() - slots.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn asked(&self) -> Asked {
        Asked::from(self.asked.load(Ordering::Relaxed))
    }

    /// Whether [`Registry::shut_down`] was called.
    pub fn is_shutting_down(&self) -> bool {
        self.asked() != Asked::Nothing
    }

    /// Asks every connection to finish. New ones learn of it when they register.
    pub fn shut_down(&self, asked: Asked) {
        self.asked.fetch_max(asked as u8, Ordering::Relaxed);
        for handle in self.lock().handles.iter().flatten() {
            handle.ask(asked);
        }
    }

    /// Ends what still uses a configuration older than this one: each connection looks for itself
    /// whether it does.
    pub fn retire_before(&self, generation: u64) {
        // One that was accepted before may register after this.
        self.oldest.fetch_max(generation, Ordering::Relaxed);
        for handle in self.lock().handles.iter().flatten() {
            handle.oldest.fetch_max(generation, Ordering::Relaxed);
            handle.wake();
        }
    }

    /// Asks up to `count` idle connections to close, longest idle first, to make room for new ones.
    /// Returns how many were asked.
    pub fn drain_idle(&self, count: usize) -> usize {
        let mut idle: Vec<_> = self
            .lock()
            .handles
            .iter()
            .flatten()
            .filter(|handle| {
                handle.phase() == ConnectionPhase::Idle && handle.asked() == Asked::Nothing
            })
            .map(|handle| (handle.idle_since.load(Ordering::Relaxed), handle.clone()))
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

    /// Wakes idle connections, so that they check for a newer configuration.
    pub fn wake_idle(&self) {
        let slots = self.lock();
        let handles = slots.handles.iter().flatten();
        for handle in handles.filter(|handle| handle.phase() == ConnectionPhase::Idle) {
            handle.wake();
        }
    }

    /// Ready when there is a connection. Without connections there are no time-outs to check, and
    /// the thread need not wake up for them.
    pub async fn occupied(&self) {
        while self.is_empty() {
            self.occupied.notified().await;
        }
    }

    /// Wakes the connections whose deadline has passed.
    pub fn expire(&self, now_ms: u64) {
        let mut slots = self.lock();
        let Slots {
            deadlines_ms,
            handles,
            ..
        } = &mut *slots;
        for (slot, deadline_ms) in deadlines_ms.iter_mut().enumerate() {
            if *deadline_ms <= now_ms {
                *deadline_ms = u64::MAX;
                if let Some(handle) = &handles[slot] {
                    handle.expired.store(true, Ordering::Relaxed);
                    handle.wake();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // A panic elsewhere cannot leave the slots half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Enters a connection into its worker's registry.
    pub fn new(registry: Arc<Registry>) -> Entry {
        let handle = Arc::new(ConnectionHandle {
            oldest: AtomicU64::new(registry.oldest.load(Ordering::Relaxed)),
            ..ConnectionHandle::default()
        });
        match registry.asked() {
            Asked::Nothing => {}
            asked => handle.ask(asked.min(Asked::Finish)),
        }
        let (slot, first) = {
            let mut slots = registry.lock();
            let slot = slots.insert(handle.clone());
            (slot, slots.handles.len() - slots.free.len() == 1)
        };
        if first {
            registry.occupied.notify_one();
        }
        Entry {
            registry,
            slot,
            handle,
        }
    }

    /// What the connection was asked to do.
    pub fn asked(&self) -> Asked {
        self.handle.asked()
    }

    /// The same for one that uses the configuration with this number: if that is too old by now, it
    /// is to close at once.
    pub fn asked_with(&self, configuration: u64) -> Asked {
        match configuration < self.oldest_configuration() {
            true => Asked::Abort,
            false => self.asked(),
        }
    }

    /// The number of the oldest configuration that the connection may still use.
    pub fn oldest_configuration(&self) -> u64 {
        self.handle.oldest.load(Ordering::Relaxed)
    }

    /// The connection asks itself to close when idle.
    pub fn ask_to_finish(&self) {
        self.handle.ask(Asked::Finish);
    }

    /// Records what the connection is doing now. `tick` orders idle periods.
    pub fn set_phase(&self, phase: ConnectionPhase, tick: u64) {
        if phase == ConnectionPhase::Idle {
            self.handle.idle_since.store(tick, Ordering::Relaxed);
        }
        self.handle.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Remembers the waker of the connection's task. A task's waker never changes, so once is
    /// enough.
    pub fn set_waker(&self, waker: &Waker) {
        *self.handle.lock_waker() = Some(waker.clone());
    }

    /// Wakes the connection at `at_ms`, or up to [`SWEEP_INTERVAL`] later. Replaces the previous
    /// deadline.
    pub fn set_deadline(&self, at_ms: u64) {
        self.handle.expired.store(false, Ordering::Relaxed);
        self.registry.lock().deadlines_ms[self.slot as usize] = at_ms;
    }

    /// Whether the last deadline set has passed.
    pub fn has_expired(&self) -> bool {
        self.handle.expired.load(Ordering::Relaxed)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.lock().remove(self.slot);
    }
}

impl Slots {
    fn insert(&mut self, handle: Arc<ConnectionHandle>) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.handles[slot as usize] = Some(handle);
            return slot;
        }
        self.handles.push(Some(handle));
        self.deadlines_ms.push(u64::MAX);
        u32::try_from(self.handles.len() - 1).expect("descriptors run out long before")
    }

    fn remove(&mut self, slot: u32) {
        self.handles[slot as usize] = None;
        self.deadlines_ms[slot as usize] = u64::MAX;
        self.free.push(slot);
    }
}

impl ConnectionHandle {
    /// What the connection does now.
    pub fn phase(&self) -> ConnectionPhase {
        match self.phase.load(Ordering::Relaxed) {
            0 => ConnectionPhase::Opening,
            1 => ConnectionPhase::Idle,
            _ => ConnectionPhase::Busy,
        }
    }

    /// What the connection was asked to do.
    pub fn asked(&self) -> Asked {
        Asked::from(self.asked.load(Ordering::Acquire))
    }

    fn ask(&self, asked: Asked) {
        self.asked.fetch_max(asked as u8, Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &*self.lock_waker() {
            waker.wake_by_ref();
        }
    }

    fn lock_waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct CountWakes(AtomicUsize);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn register(registry: &Registry) -> (u32, Arc<ConnectionHandle>, Arc<CountWakes>) {
        let wakes = Arc::new(CountWakes::default());
        let handle = Arc::new(ConnectionHandle::default());
        *handle.lock_waker() = Some(Waker::from(wakes.clone()));
        let slot = registry.lock().insert(handle.clone());
        (slot, handle, wakes)
    }

    #[test]
    fn longest_idle_goes_first() {
        let registry = Registry::default();
        let all: Vec<_> = (0..10).map(|_| register(&registry)).collect();
        for (tick, (_, handle, _)) in all.iter().enumerate() {
            let phase = if tick == 0 {
                ConnectionPhase::Busy
            } else {
                ConnectionPhase::Idle
            };
            handle.phase.store(phase as u8, Ordering::Relaxed);
            handle.idle_since.store(tick as u64, Ordering::Relaxed);
        }
        assert_eq!(registry.drain_idle(3), 3);
        let asked: Vec<_> = all
            .iter()
            .map(|(_, h, _)| h.asked() == Asked::Finish)
            .collect();
        assert_eq!(asked[..5], [false, true, true, true, false]);
        assert!(!asked[5..].contains(&true));
        assert_eq!(
            all[1].2.0.load(Ordering::Relaxed),
            1,
            "the asked one is woken"
        );
    }

    #[test]
    fn deadlines_fire_once_and_can_be_moved() {
        let registry = Registry::default();
        let (early, early_handle, wakes) = register(&registry);
        let (late, late_handle, _) = register(&registry);
        registry.lock().deadlines_ms[early as usize] = 100;
        registry.lock().deadlines_ms[late as usize] = 200;
        registry.expire(99);
        assert!(!early_handle.expired.load(Ordering::Relaxed));
        registry.expire(100);
        assert!(early_handle.expired.load(Ordering::Relaxed));
        assert!(!late_handle.expired.load(Ordering::Relaxed));
        registry.expire(150);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_uses_an_old_configuration_is_told_which_is_the_oldest() {
        let registry = Arc::new(Registry::default());
        let entry = Entry::new(registry.clone());
        let wakes = Arc::new(CountWakes::default());
        entry.set_waker(&Waker::from(wakes.clone()));
        assert_eq!(entry.oldest_configuration(), 0);
        registry.retire_before(2);
        registry.retire_before(1);
        assert_eq!(
            entry.oldest_configuration(),
            2,
            "it never grows older again"
        );
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert_eq!(entry.asked(), Asked::Nothing);
        assert_eq!(Entry::new(registry).oldest_configuration(), 2);
    }

    #[test]
    fn slots_are_used_again() {
        let registry = Registry::default();
        let (first, _, _) = register(&registry);
        let (_second, _, _) = register(&registry);
        registry.lock().remove(first);
        assert_eq!(registry.len(), 1);
        assert_eq!(register(&registry).0, first);
        assert_eq!(registry.len(), 2);
    }
}
