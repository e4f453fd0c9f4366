//! A part of the index, with its own lock: keys in a hash table, and in the order of their last
//! use.

use crate::key::Hash;
use crate::purge::Subject;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// What is known of a key.
pub(crate) struct Entry<F> {
    pub(crate) hash: Hash,
    /// When it may go, in seconds since 1970, if nobody asks for it before (`inactive`).
    pub(crate) expires_s: u32,
    /// Until when `failure` holds.
    pub(crate) failure_until_s: u32,
    /// Room that the file takes, in sectors of 512 bytes.
    pub(crate) sectors: u32,
    /// Which of the zone's files it is: every file that is stored or found gets a number.
    pub(crate) file_number: u32,
    newer: u32,
    older: u32,
    pub(crate) body_start: u16,
    /// A status that stands for a response (`cache_valid` with an intercepted error); 0 for none.
    pub(crate) failure: u16,
    /// Requests so far, as far as they matter.
    pub(crate) uses: u16,
    /// There is a file.
    pub(crate) exists: bool,
    /// This process has written it, or compared its body with its checksum.
    pub(crate) is_proven: bool,
    /// Purges until then do not concern the file, or the status; 0 if nobody knows.
    pub(crate) generation: u64,
    /// What requests that are under way need.
    pub(crate) active: Option<Box<Active<F>>>,
}

/// What requests for one key share while there are any.
pub(crate) struct Active<F> {
    /// How many there are.
    pub(crate) visits: u32,
    /// Somebody asks the origin, and until when others wait for that.
    pub(crate) updating: Option<Instant>,
    /// A response that is on its way.
    pub(crate) fill: Option<Receiving<F>>,
    /// Responses that were not kept because of what they are.
    pub(crate) refusals: u32,
    /// Responses that have begun, and which of them the file is.
    pub(crate) fills: u32,
    pub(crate) newest_stored: u32,
    /// One of them is becoming the file.
    pub(crate) is_storing: bool,
    /// Who waits for a change.
    pub(crate) waiting: Vec<Waker>,
}

/// A response that is on its way.
pub(crate) struct Receiving<F> {
    pub(crate) fill: Arc<F>,
    /// What a purge can name of it, and the generation at which it was asked for.
    pub(crate) subject: Arc<Subject>,
    pub(crate) generation: u64,
}

/// Entries, in a table and in a list from the newest to the oldest.
pub(crate) struct Shard<F> {
    seed: Seed,
    table: HashTable<u32>,
    entries: Vec<Entry<F>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

/// What the table's own hashes depend on besides the keys: a client can compute the MD5 sum of a
/// key, and must not be able to choose keys that all fall into the same place.
#[derive(Clone, Copy)]
struct Seed([u64; 2]);

impl Seed {
    fn new() -> Seed {
        let random = RandomState::new();
        Seed([random.hash_one(0u8), random.hash_one(1u8)])
    }

    /// The table's own hash of a key.
    fn spread(self, hash: &Hash) -> u64 {
        let (first, second) = hash.split_at(8);
        let part = |bytes: &[u8], seed| {
            let bytes: [u8; 8] = bytes.try_into().expect("it has sixteen bytes");
            u64::from_ne_bytes(bytes) ^ seed
        };
        // A second product: one alone leaves keys that differ in a byte close to each other where
        // the other factor happens to have few bits set above that byte.
        let product = folded_product(part(first, self.0[0]), part(second, self.0[1]));
        folded_product(product, self.0[0] | 1)
    }
}

/// Both halves of a product in one word.
fn folded_product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

impl<F> Shard<F> {
    pub(crate) fn new() -> Shard<F> {
        Shard {
            seed: Seed::new(),
            table: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Where a key is.
    pub(crate) fn find(&self, hash: &Hash) -> Option<u32> {
        let entries = &self.entries;
        let is_it = |at: &u32| entries[*at as usize].hash == *hash;
        let place = self.seed.spread(hash);
        self.table.find(place, is_it).copied()
    }

    /// The entry of a key.
    pub(crate) fn get_mut(&mut self, hash: &Hash) -> Option<&mut Entry<F>> {
        let at = self.find(hash)?;
        Some(&mut self.entries[at as usize])
    }

    /// The entry at a place that was found.
    pub(crate) fn at(&mut self, at: u32) -> &mut Entry<F> {
        &mut self.entries[at as usize]
    }

    /// Adds a key, as the newest.
    pub(crate) fn insert(&mut self, hash: Hash) -> u32 {
        let entry = Entry {
            hash,
            expires_s: 0,
            failure_until_s: 0,
            sectors: 0,
            file_number: 0,
            newer: NONE,
            older: NONE,
            body_start: 0,
            failure: 0,
            uses: 0,
            exists: false,
            is_proven: false,
            generation: 0,
            active: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                // The capacity of a zone is far below.
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, seed) = (&self.entries, self.seed);
        let place_of = |at: &u32| seed.spread(&entries[*at as usize].hash);
        self.table.insert_unique(seed.spread(&hash), at, place_of);
        self.link(at);
        at
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, at: u32) {
        let hash = self.entries[at as usize].hash;
        let place = self.seed.spread(&hash);
        if let Ok(found) = self.table.find_entry(place, |known| *known == at) {
            found.remove();
        }
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        entry.active = None;
        self.free.push(at);
    }

    /// How many places there are, in use or not.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    /// Makes an entry the newest.
    pub(crate) fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    /// The one that was not used for the longest time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Every entry's hash, from the oldest on.
    #[cfg(test)]
    pub(crate) fn hashes(&self) -> impl Iterator<Item = Hash> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let entry = self.entries.get(next as usize)?;
            next = entry.newer;
            Some(entry.hash)
        })
    }

    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        let entry = &mut self.entries[at as usize];
        (entry.newer, entry.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = at,
            newest => self.entries[newest as usize].newer = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let entry = &self.entries[at as usize];
        let (newer, older) = (entry.newer, entry.older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

impl<F> Active<F> {
    /// Wakes this one, too, when something changes.
    pub(crate) fn wake_later(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// What is on its way was purged: nobody waits for it any more. Returns whom to wake.
    pub(crate) fn detach_fill(&mut self) -> Vec<Waker> {
        self.fill = None;
        self.updating = None;
        std::mem::take(&mut self.waiting)
    }
}

impl<F> Clone for Receiving<F> {
    fn clone(&self) -> Receiving<F> {
        Receiving {
            fill: Arc::clone(&self.fill),
            subject: Arc::clone(&self.subject),
            generation: self.generation,
        }
    }
}

impl<F> Entry<F> {
    /// The requests under way, of which there is one.
    pub(crate) fn active(&mut self) -> &mut Active<F> {
        self.active.get_or_insert_with(|| {
            Box::new(Active {
                visits: 0,
                updating: None,
                fill: None,
                refusals: 0,
                fills: 0,
                newest_stored: 0,
                is_storing: false,
                waiting: Vec::new(),
            })
        })
    }

    /// Whether a request is under way.
    pub(crate) fn is_visited(&self) -> bool {
        self.active.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> Hash {
        [number; 16]
    }

    #[test]
    fn entries_stay_small() {
        // With the table, under 80 bytes for a key; nginx's own takes 128.
        assert!(size_of::<Entry<u8>>() <= 64, "{}", size_of::<Entry<u8>>());
    }

    #[test]
    fn keys_that_are_alike_are_spread() {
        let seed = Seed::new();
        // Equal in all but one byte, which may be any.
        for at in 0..16 {
            let places = (0..=255u8).map(|byte| {
                let mut hash = [0x55; 16];
                hash[at] = byte;
                seed.spread(&hash) % 4096
            });
            let different = places.collect::<std::collections::HashSet<_>>().len();
            assert!(different > 128, "{at}: {different}");
        }
    }

    #[test]
    fn the_order_is_that_of_use() {
        let mut shard: Shard<()> = Shard::new();
        for number in 0..4 {
            shard.insert(hash(number));
        }
        let order = |shard: &Shard<()>| shard.hashes().map(|hash| hash[0]).collect::<Vec<_>>();
        assert_eq!(order(&shard), [0, 1, 2, 3]);
        let at = |shard: &Shard<()>, number| shard.find(&hash(number)).expect("it is there");
        shard.touch(at(&shard, 0));
        shard.touch(at(&shard, 2));
        shard.touch(at(&shard, 2));
        assert_eq!(order(&shard), [1, 3, 0, 2]);
        shard.remove(at(&shard, 3));
        shard.remove(at(&shard, 1));
        shard.remove(at(&shard, 2));
        assert_eq!(order(&shard), [0]);
        assert_eq!(shard.find(&hash(3)), None);
        // The room of those that are gone is used again.
        shard.insert(hash(9));
        shard.insert(hash(8));
        assert_eq!(order(&shard), [0, 9, 8]);
        assert!(shard.entries.len() <= 4);
        for number in [0, 9, 8] {
            shard.remove(at(&shard, number));
        }
        assert_eq!(shard.oldest(), None);
    }
}
