//! Removes what somebody wants to be gone: a key, all keys with a prefix, all responses with a tag.
//!
//! How long that takes does not depend on how much is cached. A key's file is removed. For the rest
//! a *rule* is kept: what is gone, and since when. A response is judged by the rules when it is
//! asked for, or when the purger walks through the index ([`Purger`]); then its file goes. A rule
//! is forgotten once nothing is left in the index that is older.
//!
//! Purges are counted: the count is the *generation*. A request notes it before it asks the origin,
//! so what was asked for before a purge is known to be purged, however late it comes. Rules are on
//! the disk before anybody is told of a purge. What an earlier process has stored is judged by the
//! second in which it was received.

mod book;
mod prefixes;
mod rules;
mod walk;

pub use book::FileFailure;
pub use rules::{Age, Subject, Tags};
pub use walk::Purger;

use crate::file::CacheHeader;
use crate::key::{CacheKey, Hash};
use crate::zone::Zone;
use book::{Book, sync_directory};
use rules::{Mark, PurgeRules, Rule};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Purges of single keys are noted for responses that are on their way, by a part of the key's
/// hash: other keys with the same part are then not stored either.
const KEY_PLACES: usize = 4096;

/// Rules that are taken out while nobody can look: a few microseconds.
const TAKEN_AT_A_TIME: usize = 64;

/// What is to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// A key, with all of its variants.
    Key(CacheKey),
    /// Every key that begins so.
    Prefix(Box<[u8]>),
    /// Every response with one of these tags.
    Tags(Vec<Box<[u8]>>),
}

/// What has become of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Purged {
    /// It is gone.
    Gone,
    /// There was no response of the key.
    Unknown,
}

/// Why something could not be purged.
#[derive(Debug)]
pub enum PurgeFailure {
    /// There are as many rules as the zone may have.
    Full {
        /// How many that is.
        limit: usize,
    },
    /// Another process looks after the directory.
    Retired,
    /// It is purged for this process, but may come back with the next one.
    File(FileFailure),
}

/// What reading the file of purges has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum LoadedPurges {
    /// Everything in it is known.
    Whole,
    /// Purges may be lost, so everything counts as purged.
    Damaged,
}

/// What a zone knows of purges.
#[derive(Debug)]
pub(crate) struct Purges {
    /// Purges so far.
    generation: AtomicU64,
    /// The generation of the newest rule that there ever was.
    newest: AtomicU64,
    /// The generation of the newest rule that was forgotten: what is older than that and turns up
    /// all the same cannot be judged any more.
    forgotten: AtomicU64,
    /// The last purge of a key by a part of its hash.
    keys: Box<[AtomicU64]>,
    /// The newest date of a response, in case the clock is set back.
    latest_s: AtomicI64,
    max_rules: AtomicUsize,
    /// There are files that the index does not have: a later process finds them, and needs the
    /// rules.
    keeps_rules: AtomicBool,
    /// Written by those who purge, while they hold `book`.
    rules: RwLock<PurgeRules>,
    /// Held while the disk is waited for.
    book: Mutex<Book>,
}

impl Purges {
    pub(crate) fn new(directory: &Path) -> Purges {
        Purges {
            // 0 stands for what nobody knows.
            generation: AtomicU64::new(1),
            newest: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            keys: (0..KEY_PLACES).map(|_| AtomicU64::new(0)).collect(),
            latest_s: AtomicI64::new(0),
            max_rules: AtomicUsize::new(usize::MAX),
            keeps_rules: AtomicBool::new(false),
            rules: RwLock::default(),
            book: Mutex::new(Book::new(directory)),
        }
    }

    /// `purger_rules`.
    pub(crate) fn set_max_rules(&self, rules: usize) {
        self.max_rules.store(rules, Ordering::Relaxed);
    }

    /// A response has this date.
    pub(crate) fn note_date(&self, date_s: i64) {
        self.latest_s.fetch_max(date_s, Ordering::Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether there was a rule after this generation.
    pub(crate) fn has_newer_rule(&self, generation: u64) -> bool {
        generation < self.newest.load(Ordering::Acquire)
    }

    /// Whether a rule concerns a stored response.
    fn concern(&self, subject: &Subject, age: Age) -> bool {
        let is_lost = match age {
            Age::Since(generation) => generation < self.forgotten.load(Ordering::Acquire),
            Age::Dated(_) => false,
        };
        is_lost || self.rules().concern(subject, age)
    }

    /// The same for a response that is on its way, or was taken out of the cache, since it was
    /// asked for at this generation.
    fn concern_since(&self, subject: &Subject, generation: u64) -> bool {
        if self.generation() == generation {
            return false;
        }
        let place = &self.keys[place(&subject.key.hash())];
        place.load(Ordering::Acquire) > generation
            || self.has_newer_rule(generation) && self.concern(subject, Age::Since(generation))
    }

    fn rules(&self) -> RwLockReadGuard<'_, PurgeRules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules_mut(&self) -> RwLockWriteGuard<'_, PurgeRules> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key is purged, for all that is on its way.
    fn count_key(&self, hash: &Hash) {
        // The lock is for the count.
        let rules = self.rules_mut();
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        self.keys[place(hash)].store(generation, Ordering::Release);
        self.generation.store(generation, Ordering::Release);
        drop(rules);
    }

    /// Puts rules into force: with the book, so that they come in the order of their numbers.
    fn enforce(&self, book: &mut Book, rules: impl IntoIterator<Item = (Rule, i64)>) {
        let mut outdated = None;
        for (rule, time_s) in rules {
            let is_everything = rule == Rule::Prefix(Box::default());
            let mut own = self.rules_mut();
            let generation = self.generation.load(Ordering::Relaxed) + 1;
            let mark = Mark { generation, time_s };
            if is_everything {
                // It takes the place of all the others.
                outdated = Some(std::mem::take(&mut *own));
            }
            own.insert(rule.clone(), mark);
            self.newest.store(generation, Ordering::Release);
            self.generation.store(generation, Ordering::Release);
            drop(own);
            if is_everything {
                book.take_until(u64::MAX);
            }
            book.note(rule, mark);
        }
        drop(outdated);
    }

    /// Purges may be lost.
    fn purge_everything(&self, book: &mut Book, now_s: i64) {
        let everything = Rule::Prefix(Box::default());
        self.enforce(book, [(everything, self.time_s(now_s))]);
    }

    /// The time that a purge gets: no response is younger.
    fn time_s(&self, now_s: i64) -> i64 {
        now_s.max(self.latest_s.load(Ordering::Relaxed))
    }

    /// Records rules: they are in force at once, and on the disk in the end.
    fn record(&self, rules: Vec<Rule>, now_s: i64) -> Result<(), PurgeFailure> {
        let mut book = self.book();
        let limit = self.max_rules.load(Ordering::Relaxed);
        let is_everything = rules.contains(&Rule::Prefix(Box::default()));
        if !is_everything && book.cost() + book.added_cost(&rules) > limit {
            return Err(PurgeFailure::Full { limit });
        }
        let time_s = self.time_s(now_s);
        self.enforce(&mut book, rules.iter().map(|rule| (rule.clone(), time_s)));
        let written = match is_everything {
            true => book.rewrite(),
            false => book.append(&rules, time_s),
        };
        written.map_err(PurgeFailure::File)
    }

    /// A file could not be removed, so no rule is forgotten any more.
    pub(crate) fn keep_rules(&self) {
        self.keeps_rules.store(true, Ordering::Relaxed);
    }

    /// Whether there are so many that it is time to do something about it.
    fn are_many(&self) -> bool {
        self.book().cost() > self.max_rules.load(Ordering::Relaxed) / 2
    }

    fn oldest_s(&self) -> Option<i64> {
        self.book().oldest_s()
    }

    /// Forgets the rules up to a generation: nothing is left that they concern.
    fn forget(&self, generation: u64) -> Result<(), FileFailure> {
        if self.keeps_rules.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut book = self.book();
        let taken = book.take_until(generation);
        let Some((newest, _)) = taken.last() else {
            return Ok(());
        };
        self.forgotten.fetch_max(*newest, Ordering::AcqRel);
        for some in taken.chunks(TAKEN_AT_A_TIME) {
            let mut rules = self.rules_mut();
            for (generation, rule) in some {
                rules.remove(rule, *generation);
            }
        }
        book.rewrite()
    }
}

fn place(hash: &Hash) -> usize {
    usize::from(u16::from_le_bytes([hash[0], hash[1]])) % KEY_PLACES
}

impl<F> Zone<F> {
    /// The number of purges so far. A response that was asked for at this generation, or was found
    /// good then, is good as long as it has not changed.
    pub fn purge_generation(&self) -> u64 {
        self.purges.generation()
    }

    /// Whether a response that was asked for at this generation was purged since. Its key may be
    /// mistaken for another one that was.
    pub fn is_purged_since(&self, subject: &Subject, generation: u64) -> bool {
        self.purges.concern_since(subject, generation)
    }

    /// Whether a stored response was purged.
    pub(crate) fn is_purged(&self, subject: &Subject, age: Age) -> bool {
        self.purges.concern(subject, age)
    }

    /// Purges. Requests that are reading a response go on; what was asked for before is not stored.
    /// `now_s` is in seconds since 1970. Blocks.
    ///
    /// # Errors
    /// [`PurgeFailure`].
    pub fn purge(&self, purge: &Purge, now_s: i64) -> Result<Purged, PurgeFailure> {
        if self.is_retired() {
            return Err(PurgeFailure::Retired);
        }
        let record = |rules| self.purges.record(rules, now_s).map(|()| Purged::Gone);
        let done = match purge {
            Purge::Key(key) => self.purge_key(key, now_s),
            Purge::Prefix(prefix) => record(vec![Rule::Prefix(prefix.clone())]),
            Purge::Tags(tags) => record(tags.iter().cloned().map(Rule::Tag).collect()),
        };
        self.note_work();
        done
    }

    /// Removes the response at a place, because it is out of date: clients can bring that about, so
    /// nothing is remembered of it. Its variants stay, unless they cannot be found without it.
    /// Blocks.
    ///
    /// # Errors
    /// [`FileFailure`].
    pub fn invalidate(&self, hash: &Hash) -> Result<(), FileFailure> {
        self.detach(hash);
        self.unlink(hash).map(drop)
    }

    /// The index forgets the file of a key, and what is being received does not become it. Returns
    /// whether there was something, and whether requests are concerned with the key.
    fn detach(&self, hash: &Hash) -> (bool, bool) {
        self.purges.count_key(hash);
        let mut was_there = false;
        let mut is_visited = false;
        let mut waiting = Vec::new();
        let mut shard = self.shard(hash);
        if let Some(entry) = shard.get_mut(hash) {
            was_there = entry.exists;
            entry.forget_file(self);
            entry.failure = 0;
            if let Some(active) = &mut entry.active {
                is_visited = true;
                was_there |= active.fill.is_some();
                waiting = active.detach_fill();
            }
        }
        drop(shard);
        for waker in waiting {
            waker.wake();
        }
        (was_there, is_visited)
    }

    /// Removes a file for good. Returns whether there was one.
    fn unlink(&self, hash: &Hash) -> Result<bool, FileFailure> {
        let path = self.file_path(hash);
        match fs::remove_file(&path) {
            Ok(()) => {
                sync_directory(path.parent().unwrap_or(self.directory()))?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => {
                self.purges.keep_rules();
                let call = "unlink()";
                Err(FileFailure { call, path, error })
            }
        }
    }

    /// Removes the file of a key. A rule is needed where that is not all of it.
    fn purge_key(&self, key: &CacheKey, now_s: i64) -> Result<Purged, PurgeFailure> {
        let hash = key.hash();
        let (was_there, is_visited) = self.detach(&hash);
        let path = self.file_path(&hash);
        // Variants have files that nobody knows; and a response that is becoming the file outlasts
        // a process that ends before it looks again.
        let recorded = match is_visited || has_variants(&path) {
            true => self.purges.record(vec![Rule::Key(hash)], now_s),
            false => Ok(()),
        };
        let had_file = self.unlink(&hash).map_err(PurgeFailure::File)?;
        recorded?;
        Ok(match was_there || had_file {
            true => Purged::Gone,
            false => Purged::Unknown,
        })
    }

    /// Reads what earlier processes have purged, before the first request. Blocks.
    ///
    /// # Errors
    /// [`FileFailure`]. Then, too, everything counts as purged.
    pub fn load_purges(&self, now_s: i64) -> Result<LoadedPurges, FileFailure> {
        let learnt = self.learn_purges(now_s);
        if learnt.is_err() {
            self.purges.purge_everything(&mut self.purges.book(), now_s);
        }
        learnt
    }

    /// Reads what the file has and this process does not know, as long as another one may still
    /// purge. Blocks.
    ///
    /// # Errors
    /// [`FileFailure`].
    pub fn learn_purges(&self, now_s: i64) -> Result<LoadedPurges, FileFailure> {
        let mut book = self.purges.book();
        let (news, is_damaged) = book.read_news()?;
        if is_damaged {
            self.purges.purge_everything(&mut book, now_s);
        }
        self.purges.enforce(&mut book, news);
        if book.wants_rewriting() {
            book.rewrite()?;
        }
        Ok(match is_damaged {
            true => LoadedPurges::Damaged,
            false => LoadedPurges::Whole,
        })
    }
}

/// Whether a key may have variants besides this file: that is what its `Vary` says. Without a file,
/// or with one that cannot be read, nobody knows.
fn has_variants(path: &Path) -> bool {
    let mut fixed = [0; crate::FIXED_BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut fixed));
    read.is_err() || CacheHeader::names_vary(&fixed)
}

#[cfg(test)]
mod tests;
