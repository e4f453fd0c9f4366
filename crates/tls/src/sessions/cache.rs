//! Sessions in memory, by their id: `ssl_session_cache`.
//!
//! One cache per zone of `shared:NAME:SIZE`. All workers share it, because a client may come back
//! to any of them. It is split into shards, each with its own lock, so that handshakes rarely
//! contend, and no lock is held for longer than it takes to copy a session. The size bounds
//! everything that the cache allocates. When it is full, expired sessions go first, as far as they
//! are the oldest, then the least recently used ones.

mod following;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use hashbrown::HashTable;
use sealane_awslc::{Miss, Secret, SessionStore};
use smallvec::SmallVec;

pub use self::following::Follower;

/// Locks; a power of two.
const SHARDS: usize = 64;
/// The cost of an entry besides its session: its slot (72 bytes, plus a quarter for the spare room
/// of a growing list), its position in the table, the allocator's header and rounding.
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 124;
/// The minimum total size of a cache, so that each shard holds a few sessions.
pub(crate) const MIN_CACHE_BYTES: usize = SHARDS * 4096;
/// A session larger than this is not kept (nginx's limit is the same).
const MAX_SESSION_BYTES: usize = 4096;
/// Longest session id (RFC 5246 section 7.4.1.3).
pub(crate) const MAX_ID_BYTES: usize = 32;
/// The most expired sessions dropped with each insertion.
const EXPIRED_PER_INSERT: usize = 2;

/// A bounded store of sessions.
pub struct SessionCache {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: usize,
    /// Is told of every session while another process takes over from this one.
    follower: RwLock<Option<Follower>>,
    is_followed: AtomicBool,
}

/// Statistics of a cache, summed over its shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Sessions held.
    pub sessions: usize,
    /// Bytes held, overhead included.
    pub bytes: usize,
    /// Look-ups that found a session.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Look-ups that found an expired session.
    pub expired: u64,
    /// Unexpired sessions that made room for others.
    pub evicted: u64,
}

impl SessionCache {
    /// A cache of at most `bytes` in total, including overhead (at least 256 KiB).
    pub fn new(bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_bytes: bytes.max(MIN_CACHE_BYTES) / SHARDS,
            follower: RwLock::default(),
            is_followed: AtomicBool::new(false),
        }
    }

    /// Its statistics and its contents.
    pub fn counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        for shard in &self.shards {
            let shard = lock(shard);
            sum.sessions += shard.table.len();
            sum.bytes += shard.counts.bytes;
            sum.hits += shard.counts.hits;
            sum.misses += shard.counts.misses;
            sum.expired += shard.counts.expired;
            sum.evicted += shard.counts.evicted;
        }
        sum
    }

    /// Sessions held.
    pub fn len(&self) -> usize {
        self.counts().sessions
    }

    /// Whether no session is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, overhead included.
    pub fn bytes(&self) -> usize {
        self.counts().bytes
    }

    /// Keeps a session until `expires_s`, replacing any session with the same id.
    pub fn keep(&self, id: &[u8], session: &[u8], expires_s: u64, now_s: u64) {
        if session.len() > MAX_SESSION_BYTES || now_s >= expires_s {
            return;
        }
        let Some(key) = Id::new(id) else { return };
        let entry = Entry {
            id: key,
            expires_s: u32::try_from(expires_s).unwrap_or(u32::MAX),
            session: Session(session.into()),
            used: Links::default(),
            made: Links::default(),
        };
        let mut removed = Removed::new();
        self.shard(&entry.id)
            .insert(entry, self.shard_bytes, now_s, &mut removed);
        // The lock is released before they are wiped and freed.
        drop(removed);
        self.tell_follower(id, session, expires_s);
    }

    /// Appends the session with this id to `target`.
    ///
    /// # Errors
    ///
    /// Why there is none: it is unknown, or has expired.
    pub fn find(&self, id: &[u8], target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss> {
        let id = Id::new(id).ok_or(Miss::NotFound)?;
        self.shard(&id).find(&id, target, now_s)
    }

    fn shard(&self, id: &Id) -> MutexGuard<'_, Shard> {
        // Ids in the cache are random bytes chosen by our own servers.
        lock(&self.shards[usize::from(id.bytes[MAX_ID_BYTES - 1]) % SHARDS])
    }
}

impl SessionStore for SessionCache {
    fn insert(&self, id: &[u8], session: Secret, expires_s: u64, now_s: u64) {
        self.keep(id, session.expose(), expires_s, now_s);
    }

    fn get(&self, id: &[u8], target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss> {
        self.find(id, target, now_s)
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionCache({:?})", self.counts())
    }
}

/// A panic while a lock was held cannot have left a shard half changed: no step of a change can
/// panic except for lack of memory, which aborts.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An id, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id {
    bytes: [u8; MAX_ID_BYTES],
    length: u8,
}

impl Id {
    fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_ID_BYTES];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self {
            bytes,
            length: u8::try_from(id.len()).ok()?,
        })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Ids in the cache are random, so their first bytes serve as a hash.
    fn hash(&self) -> u64 {
        let first = self.bytes.first_chunk().expect("an id has 32 bytes");
        u64::from_le_bytes(*first)
    }
}

/// A serialised session, wiped when dropped.
struct Session(Box<[u8]>);

impl Drop for Session {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut *self.0);
    }
}

/// Sessions that made room for another.
type Removed = SmallVec<[Session; 4]>;

/// An index into the list of slots.
type Slot = u32;
const NONE: Slot = Slot::MAX;

struct Entry {
    id: Id,
    /// Seconds since the epoch; enough until 2106.
    expires_s: u32,
    session: Session,
    /// Neighbours in the order of use.
    used: Links,
    /// Neighbours in the order of insertion, which is also the order of expiry as long as all have
    /// the same lifetime.
    made: Links,
}

#[derive(Clone, Copy)]
struct Links {
    older: Slot,
    newer: Slot,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            older: NONE,
            newer: NONE,
        }
    }
}

/// The ends of a list through the slots.
struct Ends {
    oldest: Slot,
    newest: Slot,
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            oldest: NONE,
            newest: NONE,
        }
    }
}

#[derive(Default)]
struct Shard {
    table: HashTable<Slot>,
    slots: Vec<Option<Entry>>,
    free: Vec<Slot>,
    used: Ends,
    made: Ends,
    counts: CacheCounts,
}

/// The two lists, by the links they use.
type Order = (fn(&mut Shard) -> &mut Ends, fn(&mut Entry) -> &mut Links);
const BY_USE: Order = (|shard| &mut shard.used, |entry| &mut entry.used);
const BY_AGE: Order = (|shard| &mut shard.made, |entry| &mut entry.made);

impl Shard {
    fn find(&mut self, id: &Id, target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss> {
        let Some(slot) = self.slot(id) else {
            self.counts.misses += 1;
            return Err(Miss::NotFound);
        };
        if now_s >= u64::from(self.entry(slot).expires_s) {
            self.counts.expired += 1;
            drop(self.remove(slot));
            return Err(Miss::Expired);
        }
        self.counts.hits += 1;
        target.extend_from_slice(&self.entry(slot).session.0);
        if self.used.newest != slot {
            self.unlink(BY_USE, slot);
            self.link(BY_USE, slot);
        }
        Ok(())
    }

    fn insert(&mut self, entry: Entry, limit_bytes: usize, now_s: u64, removed: &mut Removed) {
        if let Some(slot) = self.slot(&entry.id) {
            removed.push(self.remove(slot));
        }
        for _ in 0..EXPIRED_PER_INSERT {
            removed.extend(self.remove_expired(now_s));
        }
        let cost = cost_bytes(&entry.session.0);
        while self.counts.bytes + cost > limit_bytes && self.used.oldest != NONE {
            let ended = self.remove_expired(now_s);
            removed.push(ended.unwrap_or_else(|| {
                self.counts.evicted += 1;
                self.remove(self.used.oldest)
            }));
        }
        if cost > limit_bytes {
            return;
        }
        self.counts.bytes += cost;
        let hash = entry.id.hash();
        let slot = self.place(entry);
        let slots = &self.slots;
        self.table
            .insert_unique(hash, slot, |slot| hash_of(slots, *slot));
        self.link(BY_USE, slot);
        self.link(BY_AGE, slot);
    }

    fn slot(&self, id: &Id) -> Option<Slot> {
        let is_it = |slot: &Slot| {
            let entry = self.slots[*slot as usize].as_ref();
            entry.is_some_and(|entry| entry.id == *id)
        };
        self.table.find(id.hash(), is_it).copied()
    }

    /// Puts an entry into a free slot, or into a new one.
    fn place(&mut self, entry: Entry) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(entry);
            return slot;
        }
        if self.slots.len() == self.slots.capacity() {
            // Less than the doubling of a Vec, because the bytes are counted.
            self.slots.reserve_exact(self.slots.len() / 4 + 16);
        }
        self.slots.push(Some(entry));
        Slot::try_from(self.slots.len() - 1).expect("a shard of fewer than 2^32 entries")
    }

    /// Takes the oldest entry out if it has ended.
    fn remove_expired(&mut self, now_s: u64) -> Option<Session> {
        let oldest = self.made.oldest;
        if oldest == NONE || now_s < u64::from(self.entry(oldest).expires_s) {
            return None;
        }
        Some(self.remove(oldest))
    }

    fn remove(&mut self, slot: Slot) -> Session {
        self.unlink(BY_USE, slot);
        self.unlink(BY_AGE, slot);
        let entry = self.slots[slot as usize]
            .take()
            .expect("a linked slot is filled");
        if let Ok(place) = self
            .table
            .find_entry(entry.id.hash(), |other| *other == slot)
        {
            place.remove();
        }
        self.counts.bytes -= cost_bytes(&entry.session.0);
        self.free.push(slot);
        entry.session
    }

    /// Makes `slot` the newest of a list.
    fn link(&mut self, order: Order, slot: Slot) {
        let (ends, links) = order;
        let previous = std::mem::replace(&mut ends(self).newest, slot);
        *links(self.entry_mut(slot)) = Links {
            older: previous,
            newer: NONE,
        };
        if previous == NONE {
            ends(self).oldest = slot;
        } else {
            links(self.entry_mut(previous)).newer = slot;
        }
    }

    fn unlink(&mut self, order: Order, slot: Slot) {
        let (ends, links) = order;
        let Links { older, newer } = *links(self.entry_mut(slot));
        match older {
            NONE => ends(self).oldest = newer,
            older => links(self.entry_mut(older)).newer = newer,
        }
        match newer {
            NONE => ends(self).newest = older,
            newer => links(self.entry_mut(newer)).older = older,
        }
    }

    fn entry(&self, slot: Slot) -> &Entry {
        self.slots[slot as usize]
            .as_ref()
            .expect("a linked slot is filled")
    }

    fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        self.slots[slot as usize]
            .as_mut()
            .expect("a linked slot is filled")
    }
}

fn hash_of(slots: &[Option<Entry>], slot: Slot) -> u64 {
    slots[slot as usize]
        .as_ref()
        .map_or(0, |entry| entry.id.hash())
}

fn cost_bytes(session: &[u8]) -> usize {
    session.len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> [u8; 32] {
        let mut id = sealane_awslc::sha256(&n.to_be_bytes());
        id[0] |= 1;
        id
    }

    fn found(cache: &SessionCache, n: u32, now_s: u64) -> Result<Vec<u8>, Miss> {
        let mut target = Vec::new();
        cache.find(&id(n), &mut target, now_s).map(|()| target)
    }

    #[test]
    fn stays_within_its_bytes_and_forgets_the_oldest() {
        let cache = SessionCache::new(0);
        for n in 0..20_000 {
            cache.keep(&id(n), &[1; 200], 1000, 0);
            assert!(cache.bytes() <= MIN_CACHE_BYTES);
        }
        assert_eq!(found(&cache, 0, 0), Err(Miss::NotFound));
        assert_eq!(found(&cache, 19_999, 0), Ok(vec![1; 200]));
        let counts = cache.counts();
        assert_eq!(counts.bytes, counts.sessions * (200 + ENTRY_OVERHEAD_BYTES));
        assert_eq!(counts.evicted + counts.sessions as u64, 20_000);
        assert_eq!((counts.hits, counts.misses), (1, 1));
    }

    #[test]
    fn a_session_in_use_outlives_those_that_are_not() {
        let cache = SessionCache::new(0);
        for n in 0..20_000 {
            cache.keep(&id(n), &[1; 200], 1000, 0);
            assert!(found(&cache, 0, 0).is_ok(), "looked up after {n} more");
        }
    }

    #[test]
    fn what_has_ended_is_not_found_and_goes_before_what_has_not() {
        let cache = SessionCache::new(0);
        cache.keep(&id(0), b"short", 10, 0);
        assert!(found(&cache, 0, 9).is_ok());
        assert_eq!(found(&cache, 0, 10), Err(Miss::Expired));
        assert_eq!(found(&cache, 0, 10), Err(Miss::NotFound), "it was dropped");
        let mut n = 1;
        while cache.counts().evicted == 0 {
            cache.keep(&id(n), &[1; 200], 100, 0);
            n += 1;
        }
        // Used last, so that the order of use alone would keep them.
        for old in 1..n {
            let _ = found(&cache, old, 1);
        }
        let more = n..n + n / 4; // few enough for every shard
        for new in more.clone() {
            cache.keep(&id(new), &[1; 200], 1000, 100);
        }
        assert_eq!(cache.counts().evicted, 1, "there was enough that had ended");
        assert!(more.clone().all(|new| found(&cache, new, 100).is_ok()));
    }

    #[test]
    fn the_same_id_replaces_and_what_cannot_be_kept_is_not() {
        let cache = SessionCache::new(0);
        cache.keep(b"id", &[1; 10], 9, 0);
        cache.keep(b"id", &[2; 20], 9, 0);
        assert_eq!((cache.len(), cache.bytes()), (1, 20 + ENTRY_OVERHEAD_BYTES));
        cache.keep(b"large", &[0; MAX_SESSION_BYTES + 1], 9, 0);
        cache.keep(b"ended", &[0; 10], 9, 9);
        cache.keep(&[1; MAX_ID_BYTES + 1], &[0; 10], 9, 0);
        assert_eq!(cache.len(), 1);
        let mut target = Vec::new();
        // Short ids are filled up with zeros, and are not the longer one.
        assert_eq!(cache.find(b"id\0", &mut target, 0), Err(Miss::NotFound));
    }

    #[test]
    fn threads_share_it() {
        let cache = SessionCache::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..5000 {
                        cache.keep(&id(n), &n.to_be_bytes(), 10, u64::from(thread));
                        let session = found(cache, n, 5);
                        assert!(session.is_err() || session == Ok(n.to_be_bytes().to_vec()));
                    }
                });
            }
        });
        let counts = cache.counts();
        assert_eq!(counts.bytes, counts.sessions * (4 + ENTRY_OVERHEAD_BYTES));
    }
}
