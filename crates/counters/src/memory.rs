//! The memory that processes share, and what is where in it.
//!
//! ```text
//! word 0                how many words are taken
//! words 1 .. 1 + 2*D    the directory: hash of a name, number of its first word
//! the rest              counters, those of each name on cache lines of their own
//! ```
//!
//! The directory is a hash table with open addressing. An entry is taken by one atomic exchange of
//! its hash, so processes need no lock that one of them could take to its grave. Nothing is ever
//! removed: a name that is configured again finds its old numbers.

use sealane_sys::shared_memory::{self, SharedMemory};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// The memory of this server.
static MEMORY: OnceLock<Memory> = OnceLock::new();

/// Words on a pair of cache lines, which processors fetch together: what different threads count
/// is never on the same.
const LINE_WORDS: usize = 16;
const WORD_BYTES: usize = size_of::<AtomicU64>();
/// One name for so many words of memory; the shortest entry takes a line.
const WORDS_PER_NAME: usize = 64;
/// How often another process is given time to finish an entry that it has begun: storing one
/// number. One that died just then has spoilt the entry.
const PATIENCE: u32 = 10_000;

/// Creates the memory that this process and those it forks share. What was placed before stays
/// private. Further calls have no effect.
///
/// # Errors
/// When the kernel has no room for it.
pub fn share(bytes: usize) -> io::Result<()> {
    if MEMORY.get().is_none() {
        let words = (bytes / WORD_BYTES).max(4 * LINE_WORDS);
        let memory = Memory::new(SharedMemory::new(words)?.leak());
        let _ = MEMORY.set(memory);
    }
    Ok(())
}

/// How much of the memory is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that counters take, the directory included.
    pub used_bytes: u64,
    /// Bytes there are.
    pub total_bytes: u64,
}

/// How much of the memory is taken; nothing before [`share`].
pub fn usage() -> Usage {
    MEMORY.get().map_or_else(Usage::default, Memory::usage)
}

/// Counters at a place of their own: in the memory that processes share, or, where that has no room
/// or there is none, private to this process.
pub enum Placed<T: 'static> {
    /// Shared with the other processes of the server.
    Shared(&'static T),
    /// Of this process.
    Private(Box<T>),
}

impl<T: FromBytes + IntoBytes + Sync + Default> Placed<T> {
    /// The counters of this name and type: the same ones each time, in every process.
    pub fn named(name: &str) -> Placed<T> {
        let shared = MEMORY.get().and_then(|memory| memory.place(name));
        shared.map_or_else(Placed::private, Placed::Shared)
    }
}

impl<T: Default> Placed<T> {
    /// Counters of this process alone.
    pub fn private() -> Placed<T> {
        Placed::Private(Box::default())
    }
}

impl<T: Default> Default for Placed<T> {
    fn default() -> Placed<T> {
        Placed::private()
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Placed::Shared(counters) => counters,
            Placed::Private(counters) => counters,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Placed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Words, and the directory of them.
struct Memory {
    words: &'static [AtomicU64],
    names: usize,
}

impl Memory {
    fn new(words: &'static [AtomicU64]) -> Memory {
        let names = (words.len() / WORDS_PER_NAME).max(1);
        let first = (1 + 2 * names).next_multiple_of(LINE_WORDS);
        // Nobody else has it yet.
        words[0].store(first as u64, Ordering::Relaxed);
        Memory { words, names }
    }

    fn usage(&self) -> Usage {
        let bytes = |words: usize| (words * WORD_BYTES) as u64;
        let taken = usize::try_from(self.words[0].load(Ordering::Relaxed));
        Usage {
            used_bytes: bytes(taken.map_or(self.words.len(), |taken| taken.min(self.words.len()))),
            total_bytes: bytes(self.words.len()),
        }
    }

    /// The counters of a name; `None` if there is no room.
    fn place<T: FromBytes + IntoBytes + Sync>(&self, name: &str) -> Option<&'static T> {
        let size = size_of::<T>().div_ceil(WORD_BYTES);
        let mut hasher = DefaultHasher::new();
        (name, std::any::type_name::<T>(), size).hash(&mut hasher);
        let hash = hasher.finish().max(1); // 0 is an entry that is free
        let start = self.entry(hash, size)?;
        let end = start.checked_add(size)?;
        shared_memory::as_counters(self.words.get(start..end)?)
    }

    /// Finds the entry with this hash, or makes one for so many words: the number of its first.
    fn entry(&self, hash: u64, size: usize) -> Option<usize> {
        for probe in 0..self.names {
            let slot = (hash as usize).wrapping_add(probe) % self.names;
            let [known, start] = self.words.get(1 + 2 * slot..3 + 2 * slot)? else {
                return None;
            };
            match known.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return self.fill(start, size),
                Err(other) if other == hash => return await_start(start),
                Err(_) => {}
            }
        }
        None
    }

    /// Takes words for an entry that is ours.
    fn fill(&self, start: &AtomicU64, size: usize) -> Option<usize> {
        let lines = size.next_multiple_of(LINE_WORDS) as u64;
        let room = self.words.len() as u64;
        let grown = |taken: u64| taken.checked_add(lines).filter(|end| *end <= room);
        let taken = self.words[0].fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        let first = taken.unwrap_or(NO_ROOM);
        start.store(first, Ordering::Release);
        usize::try_from(first).ok().filter(|_| first != NO_ROOM)
    }
}

/// The first word of an entry for which there was no room.
const NO_ROOM: u64 = u64::MAX;

/// The first word of an entry that another thread or process has made.
fn await_start(start: &AtomicU64) -> Option<usize> {
    for _ in 0..PATIENCE {
        match start.load(Ordering::Acquire) {
            0 => std::thread::yield_now(),
            NO_ROOM => return None,
            first => return usize::try_from(first).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Histogram};

    #[derive(Default, FromBytes, IntoBytes)]
    #[repr(C)]
    struct Sample {
        requests: Counter,
        time: Histogram,
    }

    fn memory(bytes: usize) -> Memory {
        let words = SharedMemory::new(bytes / WORD_BYTES).expect("room").leak();
        Memory::new(words)
    }

    #[test]
    fn a_name_leads_to_the_same_counters() {
        let memory = memory(1 << 16);
        let first: &Sample = memory.place("a").expect("room");
        first.requests.add(3);
        first.time.record(std::time::Duration::from_micros(7));
        let again: &Sample = memory.place("a").expect("there");
        assert_eq!((again.requests.get(), again.time.values().count()), (3, 1));
        let other: &Sample = memory.place("b").expect("room");
        assert_eq!(other.requests.get(), 0);
        let other_type: &Counter = memory.place("a").expect("room");
        assert_eq!(other_type.get(), 0);
    }

    #[test]
    fn names_do_not_share_cache_lines() {
        let memory = memory(1 << 16);
        let at = |name: &str| {
            let counter: &Counter = memory.place(name).expect("room");
            std::ptr::from_ref(counter).addr()
        };
        let mut places: Vec<usize> = (0..40).map(|n| at(&n.to_string()) / 128).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 40);
    }

    #[test]
    fn without_room_nothing_is_shared_and_nothing_is_lost() {
        let memory = memory(4096);
        let mut placed = 0;
        for name in 0..1000 {
            placed += usize::from(memory.place::<Sample>(&name.to_string()).is_some());
        }
        assert!((1..32).contains(&placed), "{placed}");
        // What has a place keeps it.
        assert!(memory.place::<Sample>("0").is_some());
        let Usage {
            used_bytes,
            total_bytes,
        } = memory.usage();
        assert!(used_bytes <= total_bytes && total_bytes == 4096);
    }

    #[test]
    fn threads_that_ask_at_once_get_the_same() {
        let memory = memory(1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for name in 0..100 {
                        let counter: &Counter = memory.place(&name.to_string()).expect("room");
                        counter.add(1);
                    }
                });
            }
        });
        for name in 0..100 {
            let counter: &Counter = memory.place(&name.to_string()).expect("there");
            assert_eq!(counter.get(), 4, "{name}");
        }
    }

    #[test]
    fn an_entry_that_its_maker_left_is_not_waited_for_long() {
        let memory = memory(1 << 16);
        memory.words[1..1 + 2 * memory.names]
            .iter()
            .step_by(2)
            .for_each(|word| word.store(7, Ordering::Relaxed));
        assert!(memory.entry(7, 1).is_none());
    }

    #[test]
    fn private_counters_work_without_memory() {
        let sample = Placed::<Sample>::private();
        sample.requests.add(1);
        assert_eq!(sample.requests.get(), 1);
    }
}
