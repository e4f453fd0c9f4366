//! One cache: a hash table over entries that are linked by last use.

use super::Lookup;
use bytes::Bytes;
use hashbrown::HashTable;
use sealane_conf::model::OpenFileCache as Settings;
use sealane_io::open_file::{Errno, OpenFile, Opened, Read};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// Inactive entries dropped per use, as nginx does: the work of forgetting is
/// spread over the requests.
const EXPIRED_PER_USE: u32 = 2;

/// Entries from the least recently used end whose contents may be dropped to
/// make room for one more; past it the newcomer is not kept.
const CONTENT_EVICTIONS: u32 = 16;

/// No entry: end of the list, or a free slot's successor.
const NIL: u32 = u32::MAX;

pub(super) struct Table {
    /// Indexes into `entries`, by hash of the path.
    index: HashTable<u32>,
    entries: Vec<Entry>,
    /// Head of the list of unused slots, linked by `older`.
    free: u32,
    newest: u32,
    oldest: u32,
    /// Bytes of all contents held.
    content_bytes: u64,
    hasher: RandomState,
}

struct Entry {
    path: Box<[u8]>,
    hash: u64,
    /// Towards the most recently used.
    newer: u32,
    /// Towards the least recently used.
    older: u32,
    uses: u32,
    created: Instant,
    accessed: Instant,
    state: EntryState,
}

/// What an entry knows.
enum EntryState {
    /// The path is not used often enough to keep its descriptor (`min_uses`), or
    /// it is something that is never kept.
    Counted,
    File(Arc<OpenFile>, Content),
    Directory,
    Failed(Errno),
}

/// The bytes of a file.
enum Content {
    /// Not read yet: not asked for, too fresh, or not in the page cache.
    Absent,
    Held(Bytes),
    /// The file changed while it was read; not tried again with this descriptor.
    Unstable,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            index: HashTable::new(),
            entries: Vec::new(),
            free: NIL,
            newest: NIL,
            oldest: NIL,
            content_bytes: 0,
            hasher: RandomState::new(),
        }
    }

    pub(super) fn lookup(&mut self, settings: &Settings, path: &[u8], now: Instant) -> Lookup {
        self.expire(settings, now);
        let Some(at) = self.find(path) else {
            return Lookup::Ask;
        };
        let entry = &mut self.entries[at as usize];
        entry.uses = entry.uses.saturating_add(1);
        entry.accessed = now;
        self.make_newest(at);
        let entry = &self.entries[at as usize];
        if now.saturating_duration_since(entry.created) >= settings.valid {
            return Lookup::Ask;
        }
        match entry.state {
            EntryState::Counted => Lookup::Ask,
            EntryState::Directory => Lookup::Answer(Ok(Opened::Directory)),
            EntryState::Failed(errno) if settings.errors => Lookup::Answer(Err(errno)),
            EntryState::Failed(_) => Lookup::Ask,
            EntryState::File(..) => {
                self.load_content(settings, at);
                Lookup::Answer(Ok(self.opened(at)))
            }
        }
    }

    pub(super) fn store(
        &mut self,
        settings: &Settings,
        path: &[u8],
        now: Instant,
        result: Result<Opened, Errno>,
    ) -> Result<Opened, Errno> {
        let known = self.find(path);
        if result.is_err() && !settings.errors {
            if let Some(at) = known {
                self.remove(at);
            }
            return result;
        }
        let at = match known {
            Some(at) => at,
            None => self.insert(settings, path, now),
        };
        self.entries[at as usize].created = now;
        self.update(settings, at, &result);
        match (&self.entries[at as usize].state, &result) {
            (EntryState::File(..), Ok(Opened::File(..))) => {
                self.load_content(settings, at);
                Ok(self.opened(at))
            }
            _ => result,
        }
    }

    /// Removes up to `count` entries, least recently used first; returns how many.
    pub(super) fn shed(&mut self, count: usize) -> usize {
        for removed in 0..count {
            if self.oldest == NIL {
                return removed;
            }
            self.remove(self.oldest);
        }
        count
    }

    /// Makes the entry say what the file system said.
    fn update(&mut self, settings: &Settings, at: u32, result: &Result<Opened, Errno>) {
        let entry = &mut self.entries[at as usize];
        let kept = entry.uses >= settings.min_uses;
        let state = match (result, &entry.state) {
            // The same file in the same state: descriptor and contents stay.
            (Ok(Opened::File(new, _)), EntryState::File(old, _))
                if kept && old.is_unchanged(new) =>
            {
                return;
            }
            (Ok(Opened::File(file, _)), _) if kept => {
                EntryState::File(file.clone(), Content::Absent)
            }
            (Ok(Opened::File(..) | Opened::Other), _) => EntryState::Counted,
            (Ok(Opened::Directory), _) => EntryState::Directory,
            (Err(errno), _) => EntryState::Failed(*errno),
        };
        self.drop_content(at);
        self.entries[at as usize].state = state;
    }

    fn opened(&self, at: u32) -> Opened {
        match &self.entries[at as usize].state {
            EntryState::File(file, Content::Held(bytes)) => {
                Opened::File(file.clone(), Some(bytes.clone()))
            }
            EntryState::File(file, _) => Opened::File(file.clone(), None),
            EntryState::Directory => Opened::Directory,
            EntryState::Counted | EntryState::Failed(_) => Opened::Other,
        }
    }

    #[cfg(test)]
    pub(super) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    // Contents.

    /// Reads the file into memory if it may be kept and costs no disk access.
    fn load_content(&mut self, settings: &Settings, at: u32) {
        let EntryState::File(file, Content::Absent) = &self.entries[at as usize].state else {
            return;
        };
        let size = file.size();
        let wanted =
            size > 0 && size <= settings.content_max_file_bytes.min(settings.content_bytes);
        // A change that leaves the time as it is would go unnoticed until the next.
        if !wanted || file.is_fresh(sealane_sys::time::unix_ms()) {
            return;
        }
        let file = file.clone();
        if !self.make_content_room(settings, size, at) {
            return;
        }
        let content = match file.read_stable() {
            Read::Done(bytes) => Content::Held(bytes),
            Read::NotCached => return,
            Read::Changed => Content::Unstable,
        };
        if let Content::Held(bytes) = &content {
            self.content_bytes += bytes.len() as u64;
        }
        self.entries[at as usize].state = EntryState::File(file, content);
    }

    /// Drops contents from the least recently used end until `size` more bytes
    /// fit; says whether they do.
    fn make_content_room(&mut self, settings: &Settings, size: u64, keep: u32) -> bool {
        let mut candidate = self.oldest;
        for _ in 0..CONTENT_EVICTIONS {
            if self.content_bytes + size <= settings.content_bytes {
                return true;
            }
            if candidate == NIL {
                return false;
            }
            let next = self.entries[candidate as usize].newer;
            if candidate != keep {
                self.drop_content(candidate);
            }
            candidate = next;
        }
        self.content_bytes + size <= settings.content_bytes
    }

    fn drop_content(&mut self, at: u32) {
        if let EntryState::File(_, content) = &mut self.entries[at as usize].state
            && let Content::Held(bytes) = std::mem::replace(content, Content::Absent)
        {
            self.content_bytes -= bytes.len() as u64;
        }
    }

    // Entries.

    fn find(&self, path: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(path);
        let same = |at: &u32| *self.entries[*at as usize].path == *path;
        self.index.find(hash, same).copied()
    }

    fn insert(&mut self, settings: &Settings, path: &[u8], now: Instant) -> u32 {
        while self.index.len() >= settings.max.max(1) as usize {
            self.remove(self.oldest);
        }
        let hash = self.hasher.hash_one(path);
        let entry = Entry {
            path: path.into(),
            hash,
            newer: NIL,
            older: NIL,
            uses: 1,
            created: now,
            accessed: now,
            state: EntryState::Counted,
        };
        let at = if self.free == NIL {
            self.entries.push(entry);
            // `max` is a u32, so there are never more entries than that.
            (self.entries.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.entries[at as usize].older;
            self.entries[at as usize] = entry;
            at
        };
        let entries = &self.entries;
        self.index
            .insert_unique(hash, at, |at| entries[*at as usize].hash);
        self.link_newest(at);
        at
    }

    fn remove(&mut self, at: u32) {
        self.drop_content(at);
        self.unlink(at);
        let hash = self.entries[at as usize].hash;
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        let entry = &mut self.entries[at as usize];
        entry.state = EntryState::Counted;
        entry.path = Box::default();
        entry.older = self.free;
        self.free = at;
    }

    fn expire(&mut self, settings: &Settings, now: Instant) {
        for _ in 0..EXPIRED_PER_USE {
            let Some(oldest) = self.entries.get(self.oldest as usize) else {
                return;
            };
            if now.saturating_duration_since(oldest.accessed) <= settings.inactive {
                return;
            }
            self.remove(self.oldest);
        }
    }

    // The list by last use.

    fn make_newest(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    fn link_newest(&mut self, at: u32) {
        let second = self.newest;
        let entry = &mut self.entries[at as usize];
        entry.newer = NIL;
        entry.older = second;
        match self.entries.get_mut(second as usize) {
            Some(second) => second.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = {
            let entry = &self.entries[at as usize];
            (entry.newer, entry.older)
        };
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}
