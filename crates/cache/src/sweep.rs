//! Removes what nobody has asked for, and what is too much: nginx's cache manager.

use crate::key::Hash;
use crate::zone::Zone;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest pause, however little there is to do.
const IDLE: Duration = Duration::from_secs(10);

/// How much is done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Files in one go.
    pub files: u32,
    /// The longest time for one go.
    pub threshold: Duration,
    /// The pause after a go that has left something.
    pub sleep: Duration,
}

/// Removes the files of one zone. All of it blocks: it has a thread of its own.
#[derive(Debug)]
pub struct Sweeper<F> {
    zone: Arc<Zone<F>>,
}

/// What one go may still do.
struct Budget {
    files: u32,
    until: Instant,
}

impl Budget {
    fn spend(&mut self) -> bool {
        self.files = self.files.saturating_sub(1);
        self.files > 0 && Instant::now() < self.until
    }
}

impl<F> Sweeper<F> {
    /// For this zone.
    pub fn new(zone: Arc<Zone<F>>) -> Sweeper<F> {
        Sweeper { zone }
    }

    /// Removes files: those that requests have left, those that are inactive, and then the oldest
    /// until there is room. Returns how long to wait. `failed` is told of files that cannot be
    /// removed; `now_s` is in seconds since 1970.
    pub fn step(
        &mut self,
        pace: Pace,
        now_s: i64,
        mut failed: impl FnMut(&Path, &io::Error),
    ) -> Duration {
        let zone = &*self.zone;
        for hash in zone.take_doomed() {
            zone.remove_file(&hash, &mut failed);
        }
        let mut budget = Budget {
            files: pace.files.max(1),
            until: Instant::now() + pace.threshold,
        };
        let is_old = |expires_s| i64::from(expires_s) <= now_s;
        while let Some(hash) = zone.forget_oldest(is_old) {
            zone.remove_file(&hash, &mut failed);
            if !budget.spend() {
                return pace.sleep;
            }
        }
        while zone.is_too_large() {
            let Some(hash) = zone.forget_oldest(|_| true) else {
                // Everything is in use.
                return Duration::from_secs(1);
            };
            zone.remove_file(&hash, &mut failed);
            if !budget.spend() {
                return pace.sleep;
            }
        }
        let next = zone.next_expiry_s().map(|at| i64::from(at) - now_s);
        next.map_or(IDLE, |seconds| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)).min(IDLE)
        })
    }
}

impl<F> Zone<F> {
    fn is_too_large(&self) -> bool {
        let keys = self.keys();
        if self.bytes() >= self.max_bytes() || keys >= self.watermark.load(Ordering::Relaxed) {
            return keys > 0;
        }
        let min_free = self.min_free_bytes();
        min_free > 0
            && keys > 0
            && rustix::fs::statvfs(self.directory())
                .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < min_free)
    }

    /// Takes the oldest key that no request is concerned with out of the index, if its time says
    /// so. Its file is for the caller to remove.
    pub(crate) fn forget_oldest(&self, wanted: impl Fn(u32) -> bool) -> Option<Hash> {
        loop {
            let mut oldest: Option<(u32, Hash)> = None;
            for mut shard in self.each_shard() {
                // Long downloads keep a key that nobody else asks for: it is as if it had been
                // asked for now.
                let mut tries = 20;
                while let Some(at) = shard.oldest()
                    && shard.at(at).is_visited()
                    && tries > 0
                {
                    shard.touch(at);
                    tries -= 1;
                }
                let Some(at) = shard.oldest() else {
                    continue;
                };
                let entry = shard.at(at);
                let is_older = oldest.is_none_or(|(expires_s, _)| entry.expires_s < expires_s);
                if !entry.is_visited() && is_older && wanted(entry.expires_s) {
                    oldest = Some((entry.expires_s, entry.hash));
                }
            }
            let (_, hash) = oldest?;
            let mut shard = self.shard(&hash);
            let Some(at) = shard.find(&hash) else {
                continue;
            };
            let entry = shard.at(at);
            if entry.is_visited() {
                continue;
            }
            entry.forget_file(self);
            shard.remove(at);
            drop(shard);
            self.keys.fetch_sub(1, Ordering::Relaxed);
            return Some(hash);
        }
    }

    fn next_expiry_s(&self) -> Option<u32> {
        self.each_shard()
            .filter_map(|mut shard| {
                let at = shard.oldest()?;
                Some(shard.at(at).expires_s)
            })
            .min()
    }

    /// Removes a file. It may have been replaced by a newer one meanwhile: then that is fetched
    /// once more, no more than that. Blocks.
    pub(crate) fn remove_file(&self, hash: &Hash, failed: &mut dyn FnMut(&Path, &io::Error)) {
        let path = self.file_path(hash);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.purges.keep_rules();
                failed(&path, &error);
            }
        }
    }
}
