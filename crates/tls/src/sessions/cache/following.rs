//! Copies a cache to the process that takes over from this one: first its contents, then every
//! addition.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use zeroize::Zeroizing;

use super::{Entry, Id, NONE, SessionCache, Shard, Slot, lock};

/// Is called for every session that is kept, with its id, the session, and its expiry in seconds
/// since the epoch. Workers call it during a handshake, so it must not wait.
pub type Follower = Arc<dyn Fn(&[u8], &[u8], u64) + Send + Sync>;

/// Sessions copied while a lock is held.
const COPIED_AT_ONCE: usize = 32;

/// A session outside of the cache.
type Copied = (Id, Zeroizing<Vec<u8>>, u64);

impl SessionCache {
    /// Sets `follower` to be told of every session from now on; `None` stops that.
    pub fn set_follower(&self, follower: Option<Follower>) {
        let mut place = self
            .follower
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.is_followed
            .store(follower.is_some(), Ordering::Release);
        *place = follower;
    }

    /// Calls `each` for every unexpired session, in the order of use unless they are used in the
    /// meantime.
    pub fn copy(&self, now_s: u64, mut each: impl FnMut(&[u8], &[u8], u64)) {
        for shard in &self.shards {
            let order = lock(shard).slots_by_use();
            for slots in order.chunks(COPIED_AT_ONCE) {
                // The lock is released while the caller processes them.
                let copied = lock(shard).copy(slots, now_s);
                for (id, session, expires_s) in copied {
                    each(id.bytes(), &session, expires_s);
                }
            }
        }
    }

    /// Keeps a session from another process, unless the id is already present.
    pub fn keep_if_new(&self, id: &[u8], session: &[u8], expires_s: u64, now_s: u64) {
        if Id::new(id).is_some_and(|id| self.shard(&id).slot(&id).is_none()) {
            self.keep(id, session, expires_s, now_s);
        }
    }

    pub(super) fn tell_follower(&self, id: &[u8], session: &[u8], expires_s: u64) {
        if !self.is_followed.load(Ordering::Acquire) {
            return;
        }
        let follower = self.follower.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = &*follower {
            follower(id, session, expires_s);
        }
    }
}

impl Shard {
    fn slots_by_use(&self) -> Vec<Slot> {
        let mut order = Vec::with_capacity(self.table.len());
        let mut slot = self.used.oldest;
        while slot != NONE {
            order.push(slot);
            slot = self.entry(slot).used.newer;
        }
        order
    }

    /// The current contents of these slots.
    fn copy(&self, slots: &[Slot], now_s: u64) -> Vec<Copied> {
        let entries = slots.iter().filter_map(|slot| {
            let place = self.slots.get(*slot as usize)?;
            place
                .as_ref()
                .filter(|entry| now_s < u64::from(entry.expires_s))
        });
        let copied = |entry: &Entry| {
            let session = Zeroizing::new(entry.session.0.to_vec());
            (entry.id, session, u64::from(entry.expires_s))
        };
        entries.map(copied).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::cache::MIN_CACHE_BYTES;
    use std::sync::Mutex;

    fn id(n: u32) -> [u8; 32] {
        sealane_awslc::sha256(&n.to_be_bytes())
    }

    fn has(cache: &SessionCache, n: u32) -> bool {
        cache.find(&id(n), &mut Vec::new(), 0).is_ok()
    }

    #[test]
    fn a_copy_has_everything_and_keeps_the_order_of_use() {
        let ours = SessionCache::new(1 << 20);
        for n in 0..1000 {
            ours.keep(&id(n), &n.to_be_bytes().repeat(50), 100, 0);
        }
        ours.keep(b"ends soon", b"session", 10, 0);
        for n in 0..100 {
            assert!(has(&ours, n)); // the oldest are used last
        }
        // A fifth of the room, so that what was not used for longest has to go.
        let theirs = SessionCache::new(MIN_CACHE_BYTES);
        let mut copied = 0;
        ours.copy(50, |id, session, expires_s| {
            copied += 1;
            assert_eq!(expires_s, 100);
            theirs.keep_if_new(id, session, expires_s, 50);
        });
        assert_eq!(copied, 1000);
        let kept = |range: std::ops::Range<u32>| range.filter(|n| has(&theirs, *n)).count();
        assert!(theirs.len() < 1000);
        assert_eq!(kept(0..100), 100, "what was used last is there");
        let mut target = Vec::new();
        theirs.find(&id(7), &mut target, 60).expect("it is there");
        assert_eq!(target, 7_u32.to_be_bytes().repeat(50));
    }

    #[test]
    fn what_is_known_here_is_not_replaced() {
        let cache = SessionCache::new(0);
        cache.keep(b"id", b"newer", 100, 0);
        cache.keep_if_new(b"id", b"older", 100, 0);
        let mut target = Vec::new();
        cache.find(b"id", &mut target, 0).expect("it is there");
        assert_eq!(target, b"newer");
    }

    #[test]
    fn a_follower_hears_of_what_is_kept_until_it_is_taken_away() {
        let cache = SessionCache::new(0);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        cache.keep(b"before", b"session", 100, 0);
        cache.set_follower(Some(Arc::new(move |id, session, expires_s| {
            let mut heard = ear.lock().expect("no panic");
            heard.push((id.to_vec(), session.to_vec(), expires_s));
        })));
        cache.keep(b"first", b"session", 100, 0);
        cache.keep_if_new(b"second", b"session", 100, 0);
        cache.keep_if_new(b"first", b"session", 100, 0);
        cache.keep(b"has ended", b"session", 100, 200);
        cache.set_follower(None);
        cache.keep(b"after", b"session", 100, 0);
        let heard = heard.lock().expect("no panic");
        let ids: Vec<&[u8]> = heard.iter().map(|(id, ..)| &id[..]).collect();
        assert_eq!(ids, [&b"first"[..], b"second"]);
        assert_eq!(heard[0].1, b"session");
        assert_eq!(heard[0].2, 100);
    }
}
