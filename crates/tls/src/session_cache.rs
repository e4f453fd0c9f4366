//! Sessions of TLS 1.2 and below, kept by their id.
//!
//! One cache per zone of `ssl_session_cache shared:...`, bounded in bytes. It is
//! shared by all workers, hence locked, and split into shards so that handshakes
//! rarely meet. The oldest sessions go first; libssl itself refuses expired ones.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealane_awslc::{Secret, SessionStore};

/// Locks; a power of two.
const SHARDS: usize = 16;
/// What an entry costs besides its id and its session.
const ENTRY_OVERHEAD_BYTES: usize = 128;
/// The least a cache may hold in all, so that each shard holds a few sessions.
const MIN_CACHE_BYTES: usize = SHARDS * 4096;
/// A session larger than this is not kept (nginx's limit is the same).
const MAX_SESSION_BYTES: usize = 4096;

/// A bounded store of sessions.
pub struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes: usize,
}

struct Shard {
    sessions: LruCache<Box<[u8]>, Secret>,
    bytes: usize,
}

impl SessionCache {
    /// A cache of about `bytes` in all, overhead included (at least 64 KiB).
    pub fn new(bytes: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    sessions: LruCache::unbounded(),
                    bytes: 0,
                })
            }),
            shard_bytes: bytes.max(MIN_CACHE_BYTES) / SHARDS,
        }
    }

    /// Sessions held.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(shard).sessions.len())
            .sum()
    }

    /// Whether no session is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, overhead included.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).bytes).sum()
    }

    fn shard(&self, id: &[u8]) -> MutexGuard<'_, Shard> {
        // Ids are random bytes that this server chose.
        let at = id.first().map_or(0, |byte| usize::from(*byte) % SHARDS);
        lock(&self.shards[at])
    }
}

/// A panic while a lock was held cannot have left a shard half changed: every
/// step leaves it consistent.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cost_bytes(id: &[u8], session: &[u8]) -> usize {
    id.len() + session.len() + ENTRY_OVERHEAD_BYTES
}

impl SessionStore for SessionCache {
    fn insert(&self, id: &[u8], session: Vec<u8>) {
        let session = Secret::new(session);
        if session.expose().len() > MAX_SESSION_BYTES {
            return;
        }
        let mut shard = self.shard(id);
        shard.bytes += cost_bytes(id, session.expose());
        if let Some((old_id, old)) = shard.sessions.push(id.into(), session) {
            shard.bytes -= cost_bytes(&old_id, old.expose());
        }
        while shard.bytes > self.shard_bytes {
            let Some((old_id, old)) = shard.sessions.pop_lru() else {
                break;
            };
            shard.bytes -= cost_bytes(&old_id, old.expose());
        }
    }

    fn get(&self, id: &[u8], target: &mut Vec<u8>) -> bool {
        let mut shard = self.shard(id);
        match shard.sessions.get(id) {
            Some(session) => {
                target.extend_from_slice(session.expose());
                true
            }
            None => false,
        }
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SessionCache({} sessions, {} bytes)",
            self.len(),
            self.bytes()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bytes_and_forgets_the_oldest() {
        let cache = SessionCache::new(MIN_CACHE_BYTES);
        for n in 0..10_000_u32 {
            let mut id = [0; 32];
            id[1..5].copy_from_slice(&n.to_be_bytes());
            cache.insert(&id, vec![1; 200]);
            assert!(cache.bytes() <= MIN_CACHE_BYTES);
        }
        let mut target = Vec::new();
        let mut id = [0; 32];
        assert!(!cache.get(&id, &mut target), "the first one is gone");
        id[1..5].copy_from_slice(&9_999_u32.to_be_bytes());
        assert!(cache.get(&id, &mut target));
        assert_eq!(target, [1; 200]);
        assert_eq!(
            cache.bytes(),
            cache.len() * (32 + 200 + ENTRY_OVERHEAD_BYTES)
        );
    }

    #[test]
    fn the_same_id_replaces_and_a_huge_session_is_refused() {
        let cache = SessionCache::new(0);
        cache.insert(b"id", vec![1; 10]);
        cache.insert(b"id", vec![2; 20]);
        assert_eq!(
            (cache.len(), cache.bytes()),
            (1, 2 + 20 + ENTRY_OVERHEAD_BYTES)
        );
        cache.insert(b"large", vec![0; MAX_SESSION_BYTES + 1]);
        assert_eq!(cache.len(), 1);
    }
}
