//! A directory of cache files with its index: `*_cache_path`.

use crate::key::Hash;
use crate::path::{Levels, file_path};
use crate::purge::Purges;
use crate::shard::Shard;
use crate::sweep::Pace;
use sealane_counters::{Counter, Placed};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Parts of the index: a lock is held for some hundred instructions, and rarely wanted by two.
const SHARDS: usize = 32;

/// What nginx needs for a key. We need less, and take the same number into a zone, so that a
/// configuration means the same.
const BYTES_PER_KEY: u64 = 128;

/// A directory of cache files, and what is known of them. `F` is a response on its way into a
/// file, which requests for the same key share.
///
/// It outlives configurations: what may change is set by [`Zone::configure`].
pub struct Zone<F> {
    name: Box<str>,
    directory: PathBuf,
    levels: Levels,
    shards: Box<[Mutex<Shard<F>>]>,
    pub(crate) keys: AtomicUsize,
    pub(crate) sectors: AtomicU64,
    files: AtomicU32,
    max_keys: AtomicUsize,
    inactive_s: AtomicU32,
    max_bytes: AtomicU64,
    min_free_bytes: AtomicU64,
    /// The number of keys from which on some are removed: below `max_keys` once that was not
    /// enough.
    pub(crate) watermark: AtomicUsize,
    /// What requests leave to the thread that looks after the directory.
    chores: Mutex<Chores>,
    pub(crate) purges: Purges,
    /// `purger`.
    purges_files: AtomicBool,
    has_work: Condvar,
    paces: Mutex<Paces>,
    /// A thread looks after the directory.
    is_tended: AtomicBool,
    /// Another process looks after the directory from now on.
    is_retired: AtomicBool,
    /// The directory has not been read to its end: what the index does not have may be there.
    cold: AtomicBool,
    counts: Placed<CacheCounts>,
}

/// Words of `$upstream_cache_status` in lower case, in the order in which [`CacheCounts`] has them.
pub const CACHE_STATUSES: [&str; 7] = [
    "miss",
    "bypass",
    "expired",
    "stale",
    "updating",
    "revalidated",
    "hit",
];

/// What is counted of a cache.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct CacheCounts {
    /// Responses by status, see [`CACHE_STATUSES`].
    pub responses: [Counter; CACHE_STATUSES.len()],
    /// Bytes of their bodies that were sent.
    pub sent: [Counter; CACHE_STATUSES.len()],
    /// Responses that were kept.
    pub written: Counter,
    /// Bytes that their files take.
    pub written_bytes: Counter,
}

/// How much is done on the disk at a time.
#[derive(Debug, Clone, Copy)]
struct Paces {
    loader: Pace,
    manager: Pace,
    purger: Pace,
}

/// What there is to do.
#[derive(Debug, Default)]
struct Chores {
    /// Files of keys that are forgotten already.
    doomed: Vec<Hash>,
    /// Something was purged.
    has_purge: bool,
}

/// What a reload can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLimits {
    /// `keys_zone`: memory for keys.
    pub keys_bytes: u64,
    /// `inactive`.
    pub inactive: Duration,
    /// `max_size`; `None` is no limit.
    pub max_bytes: Option<u64>,
    /// `min_free`.
    pub min_free_bytes: u64,
    /// `loader_*`.
    pub loader: Pace,
    /// `manager_*`.
    pub manager: Pace,
    /// `purger`: whether files are read to find those that were purged.
    pub purges_files: bool,
    /// `purger_*`.
    pub purger: Pace,
    /// `purger_rules`.
    pub max_purge_rules: u32,
}

impl<F> Zone<F> {
    /// The zone of a directory, without any key. It is cold: see [`Zone::is_cold`].
    pub fn new(name: &str, directory: &Path, levels: Levels, limits: ZoneLimits) -> Zone<F> {
        let zone = Zone {
            name: name.into(),
            directory: directory.to_owned(),
            levels,
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect(),
            keys: AtomicUsize::new(0),
            sectors: AtomicU64::new(0),
            files: AtomicU32::new(0),
            max_keys: AtomicUsize::new(0),
            inactive_s: AtomicU32::new(0),
            max_bytes: AtomicU64::new(0),
            min_free_bytes: AtomicU64::new(0),
            watermark: AtomicUsize::new(usize::MAX),
            chores: Mutex::default(),
            purges: Purges::new(directory),
            purges_files: AtomicBool::new(false),
            has_work: Condvar::new(),
            paces: Mutex::new(Paces {
                loader: limits.loader,
                manager: limits.manager,
                purger: limits.purger,
            }),
            is_tended: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            cold: AtomicBool::new(true),
            counts: Placed::named(&format!("cache {name}")),
        };
        zone.configure(limits);
        zone
    }

    /// Sets what a configuration says.
    pub fn configure(&self, limits: ZoneLimits) {
        let keys = usize::try_from(limits.keys_bytes / BYTES_PER_KEY).unwrap_or(usize::MAX);
        let keys = keys.clamp(1, u32::MAX as usize - 1);
        let inactive_s = u32::try_from(limits.inactive.as_secs()).unwrap_or(u32::MAX);
        let before = self.max_keys.swap(keys, Ordering::Relaxed);
        if before != keys {
            self.watermark.store(usize::MAX, Ordering::Relaxed);
        }
        self.inactive_s.store(inactive_s, Ordering::Relaxed);
        let max_bytes = limits.max_bytes.unwrap_or(u64::MAX);
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
        let min_free = limits.min_free_bytes;
        self.min_free_bytes.store(min_free, Ordering::Relaxed);
        *self.lock_paces() = Paces {
            loader: limits.loader,
            manager: limits.manager,
            purger: limits.purger,
        };
        self.purges_files
            .store(limits.purges_files, Ordering::Relaxed);
        let rules = usize::try_from(limits.max_purge_rules).unwrap_or(usize::MAX);
        self.purges.set_max_rules(rules);
    }

    /// How fast the loader works.
    pub fn loader_pace(&self) -> Pace {
        self.lock_paces().loader
    }

    /// How fast the sweeper works.
    pub fn manager_pace(&self) -> Pace {
        self.lock_paces().manager
    }

    /// How fast the purger works.
    pub(crate) fn purger_pace(&self) -> Pace {
        self.lock_paces().purger
    }

    /// Whether the purger reads files.
    pub(crate) fn purges_files(&self) -> bool {
        self.purges_files.load(Ordering::Relaxed)
    }

    /// `inactive`.
    pub(crate) fn inactive_s(&self) -> i64 {
        i64::from(self.inactive_s.load(Ordering::Relaxed))
    }

    /// Whether the caller is the one who looks after the directory from now on: the first who
    /// asks is.
    pub fn claim_tending(&self) -> bool {
        !self.is_tended.swap(true, Ordering::Relaxed)
    }

    /// Nothing is removed any more: another process has an index of its own for the directory,
    /// and knows better what is in use.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.has_work.notify_all();
    }

    /// See [`Zone::retire`].
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    fn lock_paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `keys_zone`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the zone of this directory with these levels, so that a new configuration
    /// can go on with it.
    pub fn is_of(&self, name: &str, directory: &Path, levels: Levels) -> bool {
        *self.name == *name && self.directory == directory && self.levels == levels
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many digits name each level of subdirectories.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The path of a key's file.
    pub fn file_path(&self, hash: &Hash) -> PathBuf {
        file_path(&self.directory, self.levels, hash)
    }

    /// What is counted of it.
    pub fn counts(&self) -> &CacheCounts {
        &self.counts
    }

    /// `max_size`.
    pub fn size_limit(&self) -> Option<u64> {
        Some(self.max_bytes()).filter(|bytes| *bytes != u64::MAX)
    }

    /// Keys that are known.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Room that the files take on the disk.
    pub fn bytes(&self) -> u64 {
        self.sectors.load(Ordering::Relaxed) * 512
    }

    /// Whether the directory still has to be read: then a key that is not known may have a file.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Acquire)
    }

    pub(crate) fn set_warm(&self) {
        self.cold.store(false, Ordering::Release);
    }

    /// Keys that there may be (`keys_zone`).
    pub fn max_keys(&self) -> usize {
        self.max_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn min_free_bytes(&self) -> u64 {
        self.min_free_bytes.load(Ordering::Relaxed)
    }

    /// When a key that is asked for now may go.
    pub(crate) fn expires_s(&self, now_s: i64) -> u32 {
        let now_s = u32::try_from(now_s).unwrap_or(0);
        now_s.saturating_add(self.inactive_s.load(Ordering::Relaxed))
    }

    /// Leaves the removal of a file to the sweeper, which does not wait long with it.
    pub(crate) fn doom(&self, hash: Hash) {
        self.lock_chores().doomed.push(hash);
        self.has_work.notify_all();
    }

    pub(crate) fn take_doomed(&self) -> Vec<Hash> {
        std::mem::take(&mut self.lock_chores().doomed)
    }

    /// Something was purged, which may be for the purger.
    pub(crate) fn note_work(&self) {
        self.lock_chores().has_purge = true;
        self.has_work.notify_all();
    }

    /// Blocks for this long, or until there is something to do or the zone is retired.
    pub fn wait_for_work(&self, longest: Duration) {
        let mut chores = self.lock_chores();
        if chores.doomed.is_empty() && !chores.has_purge {
            let waited = self.has_work.wait_timeout(chores, longest);
            (chores, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        chores.has_purge = false;
    }

    fn lock_chores(&self) -> MutexGuard<'_, Chores> {
        self.chores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard of a key.
    pub(crate) fn shard(&self, hash: &Hash) -> MutexGuard<'_, Shard<F>> {
        // Another part of the sum than the table's.
        self.lock(usize::from(hash[HASH_SHARD_BYTE]) % SHARDS)
    }

    /// Every shard, one after the other.
    pub(crate) fn each_shard(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<F>>> {
        (0..SHARDS).map(|index| self.lock(index))
    }

    /// A shard by its number; `None` after the last.
    pub(crate) fn nth_shard(&self, index: usize) -> Option<MutexGuard<'_, Shard<F>>> {
        (index < SHARDS).then(|| self.lock(index))
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard<F>> {
        // A panic elsewhere leaves entries consistent: each change is a few assignments.
        let shard = self.shards[index].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next file.
    pub(crate) fn next_file_number(&self) -> u32 {
        self.files.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// The file of an entry takes another amount of room.
    pub(crate) fn resize(&self, before: u32, after: u32) {
        // Every addition has been made before it is taken back.
        self.sectors.fetch_add(u64::from(after), Ordering::Relaxed);
        self.sectors.fetch_sub(u64::from(before), Ordering::Relaxed);
    }
}

/// Which byte of a hash selects the shard.
const HASH_SHARD_BYTE: usize = 15;

impl<F> std::fmt::Debug for Zone<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zone")
            .field("name", &self.name)
            .field("directory", &self.directory)
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
