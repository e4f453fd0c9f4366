//! Walks through the index for what was purged: nginx's cache purger.

use super::rules::{Age, Subject, Tags};
use super::sync_directory;
use crate::file::CacheHeader;
use crate::key::Hash;
use crate::zone::Zone;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Places of the index that are looked at while its lock is held.
const PLACES_AT_A_TIME: usize = 64;

/// Directories that files were removed from, until they are written to the disk.
const MAX_CHANGED_DIRECTORIES: usize = 1024;

/// The first bytes of a file: mostly header, key and head.
const FIRST_BYTES: u64 = 4 << 10;

/// The shortest time between two looks for responses that are older than a rule.
const MIN_PAUSE_S: i64 = 10;

/// Finds responses that are older than the rules. With `purger=on`, or if rules become many, it
/// reads and judges their files, and removes those that were purged; otherwise it waits until they
/// are gone. Then it forgets the rules. All of it blocks.
#[derive(Debug)]
pub struct Purger<F> {
    zone: Arc<Zone<F>>,
    tags_of: fn(&[u8]) -> Tags,
    round: Option<Round>,
    changed: BTreeSet<PathBuf>,
    /// When to look again, in seconds since 1970.
    next_s: i64,
}

/// A walk from the first place of the index to the last.
#[derive(Debug)]
struct Round {
    /// Purges since then are not of interest.
    until: u64,
    /// Files are read.
    reads: bool,
    shard: usize,
    place: usize,
    /// What was found and not judged yet.
    found: Vec<Found>,
    /// The lowest generation of what stays without having been judged.
    oldest: u64,
}

/// A response that is older than a rule.
#[derive(Debug, Clone, Copy)]
struct Found {
    hash: Hash,
    generation: u64,
    body_start: u16,
}

/// What is in a file.
enum Contents {
    Response {
        subject: Subject,
        date_s: i64,
    },
    /// It cannot be used.
    Nothing,
}

impl<F> Purger<F> {
    /// For this zone. `tags_of` finds the tags in a head, as it is kept.
    pub fn new(zone: Arc<Zone<F>>, tags_of: fn(&[u8]) -> Tags) -> Purger<F> {
        Purger {
            zone,
            tags_of,
            round: None,
            changed: BTreeSet::new(),
            next_s: 0,
        }
    }

    /// Goes on. Returns how long to wait for the next step; `None` if there is nothing to do.
    /// `failed` is told of files that cannot be read, removed or written; `now_s` is in seconds
    /// since 1970.
    pub fn step(
        &mut self,
        now_s: i64,
        mut failed: impl FnMut(&Path, &io::Error),
    ) -> Option<Duration> {
        let mut round = self.round.take().or_else(|| self.begin(now_s))?;
        let pace = self.zone.purger_pace();
        let until = Instant::now() + pace.threshold;
        let mut files = pace.files.max(1);
        loop {
            let Some(found) = round.found.pop() else {
                if !round.advance(&self.zone) {
                    self.end(&round, now_s, &mut failed);
                    return None;
                }
                if Instant::now() >= until {
                    break;
                }
                continue;
            };
            self.judge(found, &mut failed);
            files -= 1;
            if files == 0 || Instant::now() >= until {
                break;
            }
        }
        self.round = Some(round);
        Some(pace.sleep)
    }

    fn begin(&self, now_s: i64) -> Option<Round> {
        let zone = &self.zone;
        // While a directory is being read, the index does not have everything.
        if zone.is_cold() {
            return None;
        }
        let oldest_s = zone.purges.oldest_s()?;
        let reads = zone.purges_files() || zone.purges.are_many();
        // Whatever nobody has asked for since is gone by then.
        let gone_s = oldest_s.saturating_add(zone.inactive_s());
        if !reads && now_s < gone_s.max(self.next_s) {
            return None;
        }
        let until = zone.purge_generation();
        Some(Round {
            until,
            reads,
            shard: 0,
            place: 0,
            found: Vec::new(),
            oldest: until,
        })
    }

    /// All of the index was seen.
    fn end(&mut self, round: &Round, now_s: i64, failed: &mut dyn FnMut(&Path, &io::Error)) {
        self.next_s = now_s + (self.zone.inactive_s() / 8).max(MIN_PAUSE_S);
        if !self.sync(failed) {
            return;
        }
        if let Err(failure) = self.zone.purges.forget(round.oldest) {
            failed(&failure.path, &failure.error);
        }
    }

    /// Waits until what was removed is gone from the disk for good.
    fn sync(&mut self, failed: &mut dyn FnMut(&Path, &io::Error)) -> bool {
        let mut is_done = true;
        for directory in std::mem::take(&mut self.changed) {
            if let Err(failure) = sync_directory(&directory) {
                // It may have been removed itself.
                if failure.error.kind() != io::ErrorKind::NotFound {
                    failed(&failure.path, &failure.error);
                    is_done = false;
                }
            }
        }
        is_done
    }

    fn judge(&mut self, found: Found, failed: &mut dyn FnMut(&Path, &io::Error)) {
        let zone = &self.zone;
        let path = zone.file_path(&found.hash);
        let (contents, inode) = match self.read(&path, found.body_start) {
            Ok(read) => read,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    failed(&path, &error);
                }
                (Contents::Nothing, None)
            }
        };
        let is_purged = match contents {
            Contents::Response { subject, date_s } => {
                let age = match found.generation {
                    0 => Age::Dated(date_s),
                    generation => Age::Since(generation),
                };
                // Before it is judged: what is purged meanwhile is for the next round.
                let now = zone.purge_generation();
                let is_purged = zone.is_purged(&subject, age);
                if !is_purged {
                    zone.note_judged(&found.hash, found.generation, now);
                }
                is_purged
            }
            Contents::Nothing => true,
        };
        if is_purged && zone.forget_purged(&found.hash, found.generation) {
            if let Some(directory) = path.parent() {
                self.changed.insert(directory.to_owned());
            }
            if let Err(error) = remove_same(&path, inode) {
                zone.purges.keep_rules();
                failed(&path, &error);
            }
            if self.changed.len() > MAX_CHANGED_DIRECTORIES {
                self.sync(failed);
            }
        }
    }

    /// Reads a file up to its body, with the number of its inode.
    fn read(&self, path: &Path, body_start: u16) -> io::Result<(Contents, Option<u64>)> {
        let mut file = File::open(path)?;
        let inode = Some(file.metadata()?.ino());
        let mut bytes = Vec::new();
        let first = u64::from(body_start).max(FIRST_BYTES);
        Read::by_ref(&mut file)
            .take(first)
            .read_to_end(&mut bytes)?;
        let mut decoded = CacheHeader::decode_with_key(&bytes);
        if decoded.is_err() && bytes.len() as u64 == first {
            file.take(u64::from(u16::MAX)).read_to_end(&mut bytes)?;
            decoded = CacheHeader::decode_with_key(&bytes);
        }
        let contents = match decoded {
            Ok((header, key)) => {
                let head = usize::from(header.header_start)..usize::from(header.body_start);
                Contents::Response {
                    date_s: header.date_s,
                    subject: Subject {
                        key,
                        tags: (self.tags_of)(&bytes[head]),
                    },
                }
            }
            Err(_) => Contents::Nothing,
        };
        Ok((contents, inode))
    }
}

impl Round {
    /// Looks at more of the index. Returns whether there was any.
    fn advance<F>(&mut self, zone: &Zone<F>) -> bool {
        let Some(mut shard) = zone.nth_shard(self.shard) else {
            return false;
        };
        let end = shard.places().min(self.place + PLACES_AT_A_TIME);
        for place in self.place..end {
            let entry = shard.at(place as u32);
            if !entry.exists || entry.generation >= self.until {
                continue;
            }
            if self.reads {
                self.found.push(Found {
                    hash: entry.hash,
                    generation: entry.generation,
                    body_start: entry.body_start,
                });
            } else {
                self.oldest = self.oldest.min(entry.generation);
            }
        }
        self.place = end;
        if end == shard.places() {
            self.shard += 1;
            self.place = 0;
        }
        true
    }
}

/// Removes the file if it is still this one. It may be replaced in between: then the newer one is
/// fetched once more.
fn remove_same(path: &Path, inode: Option<u64>) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(now) if inode.is_some_and(|inode| inode != now.ino()) => return Ok(()),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl<F> Zone<F> {
    /// A stored response is older than a rule that concerns it. Returns whether the index has
    /// forgotten the file: not if it is another one by now.
    pub(crate) fn forget_purged(&self, hash: &Hash, generation: u64) -> bool {
        let mut shard = self.shard(hash);
        let Some(at) = shard.find(hash) else {
            return false;
        };
        let entry = shard.at(at);
        if !entry.exists || entry.generation != generation {
            return false;
        }
        entry.forget_file(self);
        if !entry.is_visited() && entry.failure == 0 {
            shard.remove(at);
            self.keys.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        }
        true
    }

    /// A stored response is none that was purged until now.
    pub(crate) fn note_judged(&self, hash: &Hash, generation: u64, now: u64) {
        if let Some(entry) = self.shard(hash).get_mut(hash)
            && entry.exists
            && entry.generation == generation
        {
            entry.generation = now;
        }
    }

    /// Removes a file that was purged, and was opened under this number. Blocks.
    ///
    /// # Errors
    /// Why it cannot be removed.
    pub fn remove_purged(&self, hash: &Hash, inode: u64) -> io::Result<()> {
        let removed = remove_same(&self.file_path(hash), Some(inode));
        if removed.is_err() {
            self.purges.keep_rules();
        }
        removed
    }
}
