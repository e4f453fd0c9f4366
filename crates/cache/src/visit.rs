//! What a request does with a key: it looks, it may wait for another request, and it may store.

use crate::key::{CacheKey, Hash};
use crate::purge::{Age, Subject, Tags};
use crate::shard::{Entry, Receiving, Shard};
use crate::zone::Zone;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A request that is concerned with a key. While there is one, the key stays in the index.
/// Dropping it gives back whatever it holds.
pub struct Visit<F> {
    zone: Arc<Zone<F>>,
    hash: Hash,
    /// The key is cached at its first request, so it need not be remembered without a file.
    caches_at_once: bool,
    /// This request is the one that asks the origin; others may take that over then.
    updating: Option<Instant>,
    /// The response of this request, which others may read.
    fill: Option<Arc<F>>,
    /// Its number among those of the key, and whether it is becoming the file.
    fill_number: u32,
    is_storing: bool,
    /// What a purge can name of that response, once it is known.
    subject: Option<Arc<Subject>>,
    /// Purges so far when this request came.
    generation: u64,
    /// The generation of what was found: younger rules have not been looked at yet.
    found_generation: u64,
}

/// What the index knows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// There is a file.
    File {
        /// Where the body begins in it: as much has to be read.
        body_start: u16,
        /// Requests for the key so far, this one included, as far as they matter.
        uses: u16,
        /// This process has written it, or called [`Visit::note_proven`] for it.
        is_proven: bool,
    },
    /// There is none, and the response may be cached.
    Nothing {
        /// The key was not known: while the zone is cold there may be a file all the same.
        is_new: bool,
    },
    /// There is none, and it is too early to cache a response (`min_uses`).
    Scarce {
        /// As above.
        is_new: bool,
    },
    /// This status stands for a response.
    Failure(u16),
}

/// A complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// Room that it takes, in sectors of 512 bytes.
    pub sectors: u32,
    /// Where the body begins.
    pub body_start: u16,
}

/// There are as many keys as fit, and all of them are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneFull;

impl StoredFile {
    /// The facts about an open file.
    pub fn new(metadata: &std::fs::Metadata, body_start: u16) -> StoredFile {
        StoredFile {
            sectors: u32::try_from(metadata.blocks()).unwrap_or(u32::MAX),
            body_start,
        }
    }

    /// A file of this length.
    pub fn of_bytes(bytes: u64, body_start: u16) -> StoredFile {
        StoredFile {
            sectors: u32::try_from(bytes.div_ceil(4096) * 8).unwrap_or(u32::MAX),
            body_start,
        }
    }
}

impl<F> Visit<F> {
    /// Looks for a key, counts the request, and makes the key the newest. `now_s` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// [`ZoneFull`].
    pub fn begin(
        zone: &Arc<Zone<F>>,
        hash: Hash,
        min_uses: u32,
        now_s: i64,
    ) -> Result<(Visit<F>, Found), ZoneFull> {
        let generation = zone.purge_generation();
        let mut shard = zone.shard(&hash);
        let known = shard.find(&hash);
        let at = match known {
            Some(at) => {
                shard.touch(at);
                at
            }
            None => {
                drop(shard);
                zone.make_room()?;
                shard = zone.shard(&hash);
                // Another thread may have been faster.
                shard.find(&hash).unwrap_or_else(|| {
                    zone.keys.fetch_add(1, Ordering::Relaxed);
                    shard.insert(hash)
                })
            }
        };
        let entry = shard.at(at);
        entry.uses = entry.uses.saturating_add(1);
        entry.expires_s = zone.expires_s(now_s);
        entry.active().visits += 1;
        let found_generation = match entry.exists || entry.failure != 0 {
            true => entry.generation,
            false => 0,
        };
        let has_failed = entry.failure != 0;
        let failure_holds = i64::from(entry.failure_until_s) >= now_s;
        let is_new = known.is_none() || (has_failed && !failure_holds);
        if has_failed && !failure_holds {
            // It is as if the key had never been there.
            entry.forget_file(zone);
            entry.failure = 0;
        }
        let enough = u32::from(entry.uses) >= min_uses;
        let found = match entry.failure {
            0 if entry.exists => Found::File {
                body_start: entry.body_start,
                uses: entry.uses,
                is_proven: entry.is_proven,
            },
            0 if enough => Found::Nothing { is_new },
            0 => Found::Scarce { is_new },
            status => Found::Failure(status),
        };
        drop(shard);
        let visit = Visit {
            zone: Arc::clone(zone),
            hash,
            caches_at_once: min_uses <= 1,
            updating: None,
            fill: None,
            fill_number: 0,
            is_storing: false,
            subject: None,
            generation,
            found_generation,
        };
        Ok((visit, found))
    }

    /// The origin was asked at this generation already, before the visit began.
    pub fn date_back(&mut self, generation: u64) {
        self.generation = self.generation.min(generation);
    }

    /// The number of purges so far when the visit began.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether there are rules about purges that the response in the index has not been judged by.
    /// If not, it is as good as when it was stored: that is one comparison.
    pub fn must_judge(&self) -> bool {
        self.zone.purges.has_newer_rule(self.found_generation)
    }

    /// Judges the response that was found, which its file dates. Returns whether it was purged:
    /// then it is forgotten, and its file is for the caller to remove if the second value says so.
    pub fn judge(&self, subject: &Subject, date_s: i64) -> (bool, bool) {
        let age = match self.found_generation {
            0 => Age::Dated(date_s),
            generation => Age::Since(generation),
        };
        self.zone.purges.note_date(date_s);
        if self.zone.is_purged(subject, age) {
            let is_ours = self.zone.forget_purged(&self.hash, self.found_generation);
            // What the index does not know yet is removed by whoever finds it.
            return (true, is_ours || self.zone.is_cold());
        }
        self.zone
            .note_judged(&self.hash, self.found_generation, self.generation);
        (false, false)
    }

    /// Whether the status that was found was purged: then it is forgotten. Nobody knows the tags of
    /// the response for which it stands, so every tag counts.
    pub fn forgets_failure(&self, key: &CacheKey) -> bool {
        if !self.must_judge() {
            return false;
        }
        let subject = Subject {
            key: key.clone(),
            tags: Tags::Unknown,
        };
        let age = Age::Since(self.found_generation);
        let is_purged = self.zone.is_purged(&subject, age);
        if is_purged {
            self.entry(|entry| {
                if entry.generation == self.found_generation {
                    entry.failure = 0;
                }
            });
        }
        is_purged
    }

    /// Whether the response that this request has asked for, or confirms, was purged meanwhile.
    pub fn is_purged(&self, subject: &Subject) -> bool {
        self.zone.is_purged_since(subject, self.generation)
    }

    fn own_is_purged(&self) -> bool {
        let subject = self.subject.as_deref();
        subject.is_some_and(|subject| self.is_purged(subject))
    }

    /// The zone.
    pub fn zone(&self) -> &Arc<Zone<F>> {
        &self.zone
    }

    /// The key's hash.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Which of the zone's files the key has now; `None` if it has none. A copy of the response
    /// in memory is good as long as [`Zone::hit`] says the same.
    pub fn file_number(&self) -> Option<u32> {
        self.entry(|entry| entry.exists.then_some(entry.file_number))
    }

    /// A response that another request is receiving, unless it was purged meanwhile.
    pub fn others_fill(&self) -> Option<Arc<F>> {
        let receiving = self.entry(|entry| entry.active().fill.clone())?;
        let Receiving {
            fill,
            subject,
            generation,
        } = receiving;
        if !self.zone.is_purged_since(&subject, generation) {
            return Some(fill);
        }
        let waiting = self.entry(|entry| match entry.is_receiving(&fill) {
            true => entry.active().detach_fill(),
            false => Vec::new(),
        });
        wake(waiting);
        None
    }

    /// Becomes the request that asks the origin, unless another one is and has been for less than
    /// its `age`. Returns whether this one is it.
    pub fn lock(&mut self, now: Instant, age: Duration) -> bool {
        self.lock_until(now + age, |held| held.is_none_or(|until| until <= now))
    }

    /// The same for a stale response: there others do not wait, so no age ends it.
    pub fn lock_stale(&mut self, now: Instant) -> bool {
        self.lock_until(now + Duration::from_secs(1 << 31), |held| held.is_none())
    }

    fn lock_until(&mut self, until: Instant, is_free: impl Fn(Option<Instant>) -> bool) -> bool {
        let has_it = self.entry(|entry| {
            let active = entry.active();
            let is_free = is_free(active.updating);
            if is_free {
                active.updating = Some(until);
            }
            is_free
        });
        if has_it {
            self.updating = Some(until);
        }
        has_it
    }

    /// Waits until nobody asks the origin any more, a response can be read while it arrives, or
    /// the request that asks has taken so long that another may. That is for the caller to look
    /// at again after the returned time.
    pub fn poll_change(&self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.entry(|entry| {
            let active = entry.active();
            let is_free = active.updating.is_none_or(|until| until <= now);
            if is_free || active.fill.is_some() {
                return Poll::Ready(());
            }
            active.wake_later(cx.waker());
            Poll::Pending
        })
    }

    /// Waits until no response is on its way into the file any more: it is there, or will not be.
    pub fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.entry(|entry| {
            let active = entry.active();
            if active.fill.is_none() {
                return Poll::Ready(());
            }
            active.wake_later(cx.waker());
            Poll::Pending
        })
    }

    /// The response is one that is not kept, and so would be those for others who wait.
    pub fn refuse(self) {
        self.entry(|entry| entry.active().refusals += 1);
    }

    /// How many responses were not kept because of what they are, since there are requests for the
    /// key without a pause.
    pub fn refusals(&self) -> u32 {
        self.entry(|entry| entry.active().refusals)
    }

    /// When the request that asks the origin has taken too long.
    pub fn locked_until(&self) -> Option<Instant> {
        self.entry(|entry| entry.active().updating)
    }

    /// The response of this request has begun: others may read it. `date_s` is when.
    pub fn begin_fill(&mut self, fill: Arc<F>, subject: Subject, date_s: i64) {
        let subject = Arc::new(subject);
        self.subject = Some(Arc::clone(&subject));
        self.zone.purges.note_date(date_s);
        let receiving = Receiving {
            fill: Arc::clone(&fill),
            subject,
            generation: self.generation,
        };
        let (waiting, number) = self.entry(|entry| {
            // No status stands for it any more.
            entry.failure = 0;
            let active = entry.active();
            active.fill = Some(receiving);
            active.fills += 1;
            (std::mem::take(&mut active.waiting), active.fills)
        });
        self.fill = Some(fill);
        self.fill_number = number;
        wake(waiting);
    }

    /// The file is to be rewritten with another head. That takes its turn like a response which
    /// begins now: see [`Visit::poll_store`] and [`Visit::stored`].
    pub fn begin_rewrite(&mut self, subject: Subject, date_s: i64) {
        self.subject = Some(Arc::new(subject));
        self.zone.purges.note_date(date_s);
        self.fill_number = self.entry(|entry| {
            let active = entry.active();
            active.fills += 1;
            active.fills
        });
    }

    /// A file was found although the key was not known.
    pub fn note_file(&self, file: StoredFile) {
        let zone = &self.zone;
        self.entry(|entry| {
            if !entry.exists {
                entry.uses = 1;
                entry.set_file(zone, file, self.generation, false);
            }
        });
    }

    /// The body in the file is that of its checksum.
    pub fn note_proven(&self) {
        self.entry(|entry| entry.is_proven = entry.exists);
    }

    /// The file that the index knows is not there, or is not good.
    pub fn note_no_file(&self) {
        let zone = &self.zone;
        self.entry(|entry| entry.forget_file(zone));
    }

    /// The response has its file. Whoever waited can have it now.
    ///
    /// If it was purged while the file got its name, the file goes again.
    pub fn stored(self, file: StoredFile) {
        let zone = &self.zone;
        let generation = zone.purge_generation();
        let is_purged = self.own_is_purged();
        self.entry(|entry| {
            let active = entry.active();
            // As it is dropped now, those who wait are woken.
            // Whoever asks since a purge is another one.
            if !is_purged || active.updating == self.updating {
                active.updating = None;
            }
            if !is_purged {
                active.newest_stored = self.fill_number;
                entry.failure = 0;
                entry.set_file(zone, file, generation, true);
            }
        });
        if is_purged {
            zone.doom(self.hash);
            return;
        }
        let counts = zone.counts();
        counts.written.add(1);
        counts.written_bytes.add(u64::from(file.sectors) * 512);
    }

    /// Waits for the right to make the response of this request the file. Responses of one key
    /// take turns, so that an older one never takes the place of a newer one. Ready with whether it
    /// may: not if that is there already, if it was purged since this request came, or if another
    /// process looks after the directory.
    pub fn poll_store(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.is_storing {
            return Poll::Ready(true);
        }
        // The next process has an index of its own already, and purges of its own.
        let is_late = self.zone.is_retired() || self.own_is_purged();
        let number = self.fill_number;
        let right = self.entry(|entry| {
            let active = entry.active();
            if active.newest_stored > number || is_late {
                return Poll::Ready(false);
            }
            if active.is_storing {
                active.wake_later(cx.waker());
                return Poll::Pending;
            }
            active.is_storing = true;
            Poll::Ready(true)
        });
        self.is_storing = right == Poll::Ready(true);
        right
    }

    /// A status stands for the response until then (seconds since 1970).
    pub fn set_failure(&self, status: u16, until_s: i64) {
        let had_file = self.entry(|entry| {
            let had_file = entry.exists;
            entry.forget_file(&self.zone);
            entry.failure = status;
            entry.generation = self.generation;
            entry.failure_until_s = u32::try_from(until_s).unwrap_or(u32::MAX);
            had_file
        });
        if had_file {
            // It would be forgotten with the status.
            self.zone.doom(self.hash);
        }
    }

    fn entry<R>(&self, work: impl FnOnce(&mut Entry<F>) -> R) -> R {
        let mut shard = self.zone.shard(&self.hash);
        let entry = shard.get_mut(&self.hash);
        work(entry.expect("a key that is visited stays"))
    }
}

impl<F> Entry<F> {
    pub(crate) fn set_file(
        &mut self,
        zone: &Zone<F>,
        file: StoredFile,
        generation: u64,
        is_proven: bool,
    ) {
        zone.resize(self.sectors, file.sectors);
        self.exists = true;
        self.generation = generation;
        self.is_proven = is_proven;
        self.file_number = zone.next_file_number();
        self.sectors = file.sectors;
        self.body_start = file.body_start;
    }

    pub(crate) fn forget_file(&mut self, zone: &Zone<F>) {
        zone.resize(self.sectors, 0);
        self.exists = false;
        self.sectors = 0;
        self.body_start = 0;
    }

    fn is_receiving(&mut self, fill: &Arc<F>) -> bool {
        let own = self.active().fill.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(&own.fill, fill))
    }

    fn drop_fill(&mut self, fill: &Arc<F>) {
        if self.is_receiving(fill) {
            self.active().fill = None;
        }
    }
}

impl<F> Zone<F> {
    /// A request that may be answered from memory: the number of the key's file. The request is
    /// counted, and the key becomes the newest. `None` if there is no file, if a response for the
    /// key is under way, or if it may have been purged: then nothing is counted, and a [`Visit`]
    /// has to find out.
    pub fn hit(&self, hash: &Hash, now_s: i64) -> Option<u32> {
        let mut shard = self.shard(hash);
        let at = shard.find(hash)?;
        let entry = shard.at(at);
        let is_filled = entry.active.as_ref().is_some_and(|all| all.fill.is_some());
        let must_judge = self.purges.has_newer_rule(entry.generation);
        if !entry.exists || entry.failure != 0 || is_filled || must_judge {
            return None;
        }
        entry.uses = entry.uses.saturating_add(1);
        entry.expires_s = self.expires_s(now_s);
        let number = entry.file_number;
        shard.touch(at);
        Some(number)
    }

    /// Whether there is room for one more key; if need be, the oldest goes.
    ///
    /// # Errors
    /// [`ZoneFull`].
    fn make_room(&self) -> Result<(), ZoneFull> {
        if self.keys() < self.max_keys() {
            return Ok(());
        }
        // From now on the sweeper leaves some room, as in nginx.
        let mark = self.keys() - self.keys() / 8;
        self.watermark.fetch_min(mark, Ordering::Relaxed);
        match self.forget_oldest(|_| true) {
            Some(hash) => {
                self.doom(hash);
                Ok(())
            }
            None => Err(ZoneFull),
        }
    }
}

impl<F> Drop for Visit<F> {
    fn drop(&mut self) {
        let mut shard: MutexGuard<'_, Shard<F>> = self.zone.shard(&self.hash);
        let Some(at) = shard.find(&self.hash) else {
            return;
        };
        let entry = shard.at(at);
        let had_fill = self.fill.is_some();
        if let Some(fill) = self.fill.take() {
            entry.drop_fill(&fill);
        }
        let active = entry.active();
        active.visits -= 1;
        let mut waiting = Vec::new();
        if let Some(until) = self.updating
            && active.updating == Some(until)
        {
            active.updating = None;
        }
        if self.is_storing {
            active.is_storing = false;
        }
        if active.updating.is_none() || had_fill || self.is_storing {
            waiting = std::mem::take(&mut active.waiting);
        }
        if active.visits == 0 {
            entry.active = None;
            if !entry.exists && entry.failure == 0 && self.caches_at_once {
                shard.remove(at);
                self.zone.keys.fetch_sub(1, Ordering::Relaxed);
            }
        }
        drop(shard);
        wake(waiting);
    }
}

fn wake(waiting: Vec<Waker>) {
    for waker in waiting {
        waker.wake();
    }
}

impl<F> fmt::Debug for Visit<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit")
            .field("hash", &crate::path::hex(&self.hash))
            .field("updating", &self.updating.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pace, ZoneLimits};

    const FILE: StoredFile = StoredFile {
        sectors: 8,
        body_start: 400,
    };

    fn zone() -> Arc<Zone<u8>> {
        let pace = Pace {
            files: 1,
            threshold: Duration::ZERO,
            sleep: Duration::ZERO,
        };
        let limits = ZoneLimits {
            keys_bytes: 1 << 20,
            inactive: Duration::from_secs(60),
            max_bytes: None,
            min_free_bytes: 0,
            loader: pace,
            manager: pace,
            purges_files: false,
            purger: pace,
            max_purge_rules: 10,
        };
        Arc::new(Zone::new(
            "z",
            std::path::Path::new("/nowhere"),
            [0; 3],
            limits,
        ))
    }

    fn subject() -> Subject {
        Subject {
            key: CacheKey::new(Vec::new()),
            tags: Tags::Unknown,
        }
    }

    /// A request for the only key.
    fn visit(zone: &Arc<Zone<u8>>) -> Visit<u8> {
        let begun = Visit::begin(zone, [1; 16], 1, 0);
        begun.expect("the zone has room").0
    }

    #[test]
    fn a_rewritten_file_takes_its_turn() {
        let zone = zone();
        let cx = &mut Context::from_waker(Waker::noop());
        // It keeps what is known of the key's responses.
        let _other = visit(&zone);
        let (mut older, mut rewriting) = (visit(&zone), visit(&zone));
        older.begin_fill(Arc::new(1), subject(), 0);
        rewriting.begin_rewrite(subject(), 0);
        assert_eq!(rewriting.poll_store(cx), Poll::Ready(true));
        assert_eq!(older.poll_store(cx), Poll::Pending);
        let number = rewriting.file_number();
        rewriting.stored(FILE);
        assert_eq!(older.poll_store(cx), Poll::Ready(false));
        assert!(older.file_number().is_some() && older.file_number() != number);
        // A newer response is stored first.
        let (mut rewriting, mut newer) = (visit(&zone), visit(&zone));
        rewriting.begin_rewrite(subject(), 0);
        newer.begin_fill(Arc::new(2), subject(), 0);
        assert_eq!(newer.poll_store(cx), Poll::Ready(true));
        newer.stored(FILE);
        assert_eq!(rewriting.poll_store(cx), Poll::Ready(false));
    }

    #[test]
    fn an_older_response_never_takes_the_place_of_a_newer_one() {
        let zone = zone();
        let begin = |number| {
            let mut visit = visit(&zone);
            visit.begin_fill(Arc::new(number), subject(), 0);
            visit
        };
        let cx = &mut Context::from_waker(Waker::noop());
        let file = FILE;
        let [mut first, mut second, mut third] = [begin(1), begin(2), begin(3)];
        assert_eq!(second.poll_store(cx), Poll::Ready(true));
        assert_eq!(second.poll_store(cx), Poll::Ready(true));
        // One at a time.
        assert_eq!(first.poll_store(cx), Poll::Pending);
        assert_eq!(third.poll_store(cx), Poll::Pending);
        second.stored(file);
        assert_eq!(first.poll_store(cx), Poll::Ready(false));
        assert_eq!(third.poll_store(cx), Poll::Ready(true));
        // It fails, and makes room.
        drop(third);
        let mut fourth = begin(4);
        assert_eq!(fourth.poll_store(cx), Poll::Ready(true));
        fourth.stored(file);
        assert_eq!(first.poll_store(cx), Poll::Ready(false));
    }
}
