//! `open_file_cache`: open descriptors, file facts, lookup errors and, beyond
//! nginx, the bytes of small files.
//!
//! Every worker thread has its own caches, so a hit takes no lock that another
//! thread wants. Locations whose `open_file_cache` and `open_file_cache_content`
//! parameters are equal share one cache per thread (nginx shares by inheritance,
//! which comes to the same for one directive); `open_file_cache_valid`, `_min_uses`
//! and `_errors` belong to the location that asks.
//!
//! What holds (nginx's documentation, `ngx_open_file_cache.c`):
//! * `max`: past it the least recently used entry goes.
//! * `inactive`: an entry nobody asked for in that time goes.
//! * `valid`: an older answer is checked against the file system; another inode,
//!   size or modification time means another file.
//! * `min_uses`: until then only the count is kept, not the descriptor.
//! * `errors`: lookup failures are answers too.
//!
//! Contents (`open_file_cache_content`) live exactly as long as the descriptor of
//! their entry: whatever replaces or drops the one drops the other. They are copies
//! in memory, never maps, so a file that is truncated cannot fault the process, and
//! the length sent is always the length held. A file is examined again after it was
//! read, and one written a moment ago is read anew for each request, so that no mixture
//! of two states is kept as far as the file system tells them apart.

mod same_turn;
mod table;

pub use sealane_io::open_file::OpenFile;
pub(crate) use sealane_io::open_file::{Errno, Opened, open_blocking, open_now};

use same_turn::SameTurn;
use sealane_conf::model::OpenFileCache as Settings;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::Table;

/// The caches of one worker thread.
#[derive(Default)]
pub struct OpenFileCache {
    // Only its own thread takes this lock; it is there because a connection's
    // task must be `Send`.
    tables: Mutex<Vec<(Shape, Table)>>,
    same_turn: Mutex<SameTurn>,
}

/// The parameters that make a cache a cache of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    max: u32,
    inactive: Duration,
    content_bytes: u64,
    content_max_file_bytes: u64,
}

impl Shape {
    fn of(settings: &Settings) -> Shape {
        Shape {
            max: settings.max,
            inactive: settings.inactive,
            content_bytes: settings.content_bytes,
            content_max_file_bytes: settings.content_max_file_bytes,
        }
    }
}

/// What the cache knows of a path.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The answer, valid still.
    Answer(Result<Opened, Errno>),
    /// Nothing, or nothing that is valid: ask the file system and
    /// [store](OpenFileCache::store) what it says.
    Ask,
}

impl OpenFileCache {
    /// Empty caches.
    pub fn new() -> OpenFileCache {
        OpenFileCache::default()
    }

    /// Looks a path up and counts the use.
    pub(crate) fn lookup(&self, settings: &Settings, path: &[u8], now: Instant) -> Lookup {
        self.with_table(settings, |table| table.lookup(settings, path, now))
    }

    /// Remembers what the file system said of a path, and returns the answer to
    /// give: the entry's own when the file is still the same.
    pub(crate) fn store(
        &self,
        settings: &Settings,
        path: &[u8],
        now: Instant,
        result: Result<Opened, Errno>,
    ) -> Result<Opened, Errno> {
        self.with_table(settings, |table| table.store(settings, path, now, result))
    }

    /// The answer that another request of this turn of the event loop has got for a path that is
    /// not cached.
    pub(crate) fn lookup_uncached(&self, path: &[u8]) -> Option<Result<Opened, Errno>> {
        self.same_turn().lookup(path)
    }

    /// Remembers an answer for the other requests of this turn.
    pub(crate) fn store_uncached(&self, path: &[u8], answer: &Result<Opened, Errno>) {
        self.same_turn().store(path, answer);
    }

    /// The thread is about to wait: nothing is kept for others of this turn.
    pub(crate) fn end_turn(&self) {
        self.same_turn().clear();
    }

    fn same_turn(&self) -> MutexGuard<'_, SameTurn> {
        self.same_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes up to `count` descriptors of each cache, least recently used first:
    /// the process has run out of them, and a cache must not be why a request
    /// fails. Returns how many entries went.
    pub(crate) fn shed(&self, count: usize) -> usize {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.iter_mut().map(|(_, table)| table.shed(count)).sum()
    }

    fn with_table<R>(&self, settings: &Settings, work: impl FnOnce(&mut Table) -> R) -> R {
        let shape = Shape::of(settings);
        // A panic while the lock was held ended one connection; the table is
        // consistent between statements, at worst an entry is missing.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let at = tables
            .iter()
            .position(|(known, _)| *known == shape)
            .unwrap_or_else(|| {
                tables.push((shape, Table::new()));
                tables.len() - 1
            });
        work(&mut tables[at].1)
    }
}

#[cfg(test)]
mod tests;
