//! Idle connections to peers (`keepalive`).
//!
//! Each worker thread has a shelf with at most `keepalive` connections, the most recently used
//! first. A thread that needs a connection looks on its own shelf first and then on those of other
//! threads: opening a connection, especially with TLS, costs more than moving one to another event
//! loop. The peer counts its idle connections, so there is no search if there are none. Another
//! thread's shelf that is in use is skipped rather than waited for.
//!
//! The pool knows nothing of sockets: the caller defines what a connection is, and whether it is
//! alive. It never drops a connection that could still be closed properly, but returns it to the
//! caller to be closed.

use super::peer_set::PeerRef;
use super::settings::KeepaliveSettings;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// What a connection is for besides the peer: protocol, TLS settings and name and, with `local`,
/// the location. Anything that differs between two requests that must not share a connection
/// belongs in it.
pub type ConnectionKey = Arc<[u8]>;

/// The idle connections of a group.
pub struct IdlePool<C> {
    settings: KeepaliveSettings,
    /// One for each worker thread.
    shelves: Box<[Shelf<C>]>,
}

/// One thread's connections, kept apart from its neighbours' in memory.
#[repr(align(128))]
struct Shelf<C>(Mutex<VecDeque<Idle<C>>>);

/// A connection with its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// When it was opened.
    pub opened: Instant,
    /// Requests that used it.
    pub requests: u64,
}

struct Idle<C> {
    connection: C,
    peer: PeerRef,
    key: ConnectionKey,
    life: Life,
    since: Instant,
}

/// A connection that was idle.
#[derive(Debug)]
pub struct Taken<C> {
    /// The connection.
    pub connection: C,
    /// Its history.
    pub life: Life,
    /// The thread that it comes from. If that is another thread, the connection must be registered
    /// with the caller's event loop.
    pub thread: u32,
}

impl<C: Send> IdlePool<C> {
    /// An empty pool for `threads` worker threads.
    #[must_use]
    pub fn new(settings: KeepaliveSettings, threads: usize) -> IdlePool<C> {
        let shelf = |_| Shelf(Mutex::new(VecDeque::new()));
        IdlePool {
            settings,
            shelves: (0..threads.max(1)).map(shelf).collect(),
        }
    }

    /// Whether a pool with these settings would be the same.
    #[must_use]
    pub fn is_for(&self, settings: KeepaliveSettings, threads: usize) -> bool {
        self.settings == settings && self.shelves.len() == threads.max(1)
    }

    /// A connection to the peer with this key, the most recently used for which `is_alive` holds.
    /// `is_alive` is called without any lock; dead connections are dropped.
    pub fn take(
        &self,
        thread: u32,
        peer: &PeerRef,
        key: &ConnectionKey,
        now: Instant,
        mut is_alive: impl FnMut(&mut C) -> bool,
    ) -> Option<Taken<C>> {
        let count = self.shelves.len();
        let own = thread as usize % count;
        for distance in 0..count {
            let at = (own + distance) % count;
            while let Some(mut idle) = self.take_from(at, distance == 0, peer, key) {
                if self.may_stay(&idle, now) && is_alive(&mut idle.connection) {
                    return Some(Taken {
                        connection: idle.connection,
                        life: idle.life,
                        thread: at as u32, // there are fewer threads than that
                    });
                }
            }
        }
        None
    }

    fn take_from(
        &self,
        at: usize,
        wait: bool,
        peer: &PeerRef,
        key: &ConnectionKey,
    ) -> Option<Idle<C>> {
        if peer.idle() == 0 {
            return None;
        }
        let mut shelf = if wait {
            self.shelf(at)
        } else {
            match self.shelves[at].0.try_lock() {
                Ok(shelf) => shelf,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            }
        };
        let fits = |idle: &Idle<C>| idle.peer.id == peer.id && idle.has_key(key);
        let at = shelf.iter().position(fits)?;
        let idle = shelf.remove(at)?;
        peer.remove_idle();
        Some(idle)
    }

    /// Keeps a connection after a request. Returns a connection to be closed: this one if it has
    /// carried enough requests, is too old or its peer is gone; or, if there is no room, this
    /// thread's least recently used one.
    #[must_use = "the connection that is handed back is to be closed"]
    pub fn put(
        &self,
        thread: u32,
        peer: &PeerRef,
        key: &ConnectionKey,
        connection: C,
        life: Life,
        now: Instant,
    ) -> Option<C> {
        let age = now.saturating_duration_since(life.opened);
        let settings = &self.settings;
        let refused = settings.connections == 0
            || life.requests >= settings.requests
            || age > settings.time
            || peer.is_gone();
        if refused {
            return Some(connection);
        }
        let idle = Idle {
            connection,
            peer: peer.clone(),
            key: Arc::clone(key),
            life,
            since: now,
        };
        let mut shelf = self.shelf(thread as usize % self.shelves.len());
        let oldest = if shelf.len() >= settings.connections {
            shelf.pop_back()
        } else {
            None
        };
        shelf.push_front(idle);
        drop(shelf);
        peer.add_idle();
        let oldest = oldest?;
        oldest.peer.remove_idle();
        Some(oldest.connection)
    }

    /// Removes the connections of a thread that must be closed: those idle for `keepalive_timeout`,
    /// those whose peer is gone, and dead ones. The thread should call it now and then. `is_alive`
    /// must not take long, as the thread's shelf is locked.
    #[must_use = "the connections are to be closed"]
    pub fn sweep(
        &self,
        thread: u32,
        now: Instant,
        mut is_alive: impl FnMut(&mut C) -> bool,
    ) -> Vec<C> {
        let mut shelf = self.shelf(thread as usize % self.shelves.len());
        let mut closing = Vec::new();
        let mut at = 0;
        while let Some(idle) = shelf.get_mut(at) {
            if self.may_stay(idle, now) && is_alive(&mut idle.connection) {
                at += 1;
            } else if let Some(idle) = shelf.remove(at) {
                idle.peer.remove_idle();
                closing.push(idle.connection);
            }
        }
        closing
    }

    /// Removes all connections of a thread, because the worker is shutting down.
    #[must_use = "the connections are to be closed"]
    pub fn drain(&self, thread: u32) -> Vec<C> {
        let idle = std::mem::take(&mut *self.shelf(thread as usize % self.shelves.len()));
        let close = |idle: Idle<C>| {
            idle.peer.remove_idle();
            idle.connection
        };
        idle.into_iter().map(close).collect()
    }

    /// Whether a thread has idle connections.
    pub fn has_any(&self, thread: u32) -> bool {
        !self.shelf(thread as usize % self.shelves.len()).is_empty()
    }

    /// Idle connections of all threads.
    pub fn len(&self) -> usize {
        (0..self.shelves.len()).map(|at| self.shelf(at).len()).sum()
    }

    /// Whether no connection is idle.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn may_stay(&self, idle: &Idle<C>, now: Instant) -> bool {
        let idle_for = now.saturating_duration_since(idle.since);
        idle_for < self.settings.timeout && !idle.peer.is_gone()
    }

    /// A panic cannot have left a shelf half changed: the only foreign code that runs while it is
    /// locked is `is_alive` of [`sweep`](IdlePool::sweep), between two changes.
    fn shelf(&self, at: usize) -> MutexGuard<'_, VecDeque<Idle<C>>> {
        let shelf = self.shelves[at].0.lock();
        shelf.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Idle<C> {
    fn has_key(&self, key: &ConnectionKey) -> bool {
        Arc::ptr_eq(&self.key, key) || self.key == *key
    }
}

/// Dropping the pool drops the connections.
impl<C> Drop for IdlePool<C> {
    fn drop(&mut self) {
        for shelf in &mut self.shelves {
            let shelf = shelf.0.get_mut().unwrap_or_else(PoisonError::into_inner);
            for idle in shelf {
                idle.peer.remove_idle();
            }
        }
    }
}

impl<C> fmt::Debug for IdlePool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("IdlePool");
        debug.field("settings", &self.settings);
        debug.finish_non_exhaustive()
    }
}
