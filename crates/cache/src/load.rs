//! Reads a directory into the index: nginx's cache loader.

use crate::file::FIXED_BYTES;
use crate::key::Hash;
use crate::path::hash_of;
use crate::sweep::Pace;
use crate::visit::StoredFile;
use crate::zone::Zone;
use std::fs::{self, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// A response that was being written when its process ended leaves a file with such a name, which
/// is removed at this age: nobody writes for so long.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// Digits behind the dot in the name of a file that is being written.
const TEMPORARY_DIGITS: usize = 10;

/// Reads the directory of one zone, a part at a time. All of it blocks.
#[derive(Debug)]
pub struct Loader<F> {
    zone: Arc<Zone<F>>,
    /// Directories that are being read, each within the one before.
    open: Vec<ReadDir>,
    has_begun: bool,
}

/// What a file in the directory is.
enum Kind {
    Response(Hash),
    /// Of a process that may be writing it still.
    Temporary,
    Stranger,
}

impl<F> Loader<F> {
    /// For this zone.
    pub fn new(zone: Arc<Zone<F>>) -> Loader<F> {
        Loader {
            zone,
            open: Vec::new(),
            has_begun: false,
        }
    }

    /// Reads on. Returns how long to wait before the next part; `None` when all is read, and the
    /// zone is not cold any more. As in nginx, files that do not belong there are removed.
    /// `failed` is told of what cannot be read or removed.
    pub fn step(
        &mut self,
        pace: Pace,
        now_s: i64,
        mut failed: impl FnMut(&Path, &io::Error),
    ) -> Option<Duration> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.open_directory(self.zone.directory().to_owned(), &mut failed);
        }
        let until = Instant::now() + pace.threshold;
        let mut files = pace.files.max(1);
        while let Some(directory) = self.open.last_mut() {
            let entry = match directory.next() {
                None => {
                    self.open.pop();
                    continue;
                }
                Some(Err(error)) => {
                    failed(self.zone.directory(), &error);
                    self.open.pop();
                    continue;
                }
                Some(Ok(entry)) => entry,
            };
            let path = entry.path();
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) => {
                    failed(&path, &error);
                    continue;
                }
            };
            if kind.is_dir() {
                // nginx's own place for temporary files, in older versions.
                if self.open.len() <= 3 && entry.file_name() != "temp" {
                    self.open_directory(path, &mut failed);
                }
                continue;
            }
            if kind.is_file() {
                self.add(&path, now_s, &mut failed);
            }
            files -= 1;
            if files == 0 || Instant::now() >= until {
                return Some(pace.sleep);
            }
        }
        self.zone.set_warm();
        None
    }

    fn open_directory(&mut self, path: PathBuf, failed: &mut dyn FnMut(&Path, &io::Error)) {
        match fs::read_dir(&path) {
            Ok(directory) => self.open.push(directory),
            Err(error) => failed(&path, &error),
        }
    }

    fn add(&self, path: &Path, now_s: i64, failed: &mut dyn FnMut(&Path, &io::Error)) {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // It went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return failed(path, &error),
        };
        // In case the clock is set back.
        self.zone.purges.note_date(metadata.mtime());
        let is_kept = match kind_of(path) {
            Kind::Response(hash) => {
                metadata.len() >= FIXED_BYTES as u64
                    && self.zone.file_path(&hash) == path
                    && self.zone.add(hash, StoredFile::new(&metadata, 0), now_s)
            }
            Kind::Temporary => {
                let age = metadata.modified().ok();
                let age = age.and_then(|time| SystemTime::now().duration_since(time).ok());
                age.is_none_or(|age| age < LEFT_BEHIND)
            }
            Kind::Stranger => false,
        };
        if !is_kept && let Err(error) = fs::remove_file(path) {
            failed(path, &error);
        }
    }
}

fn kind_of(path: &Path) -> Kind {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Kind::Stranger;
    };
    if let Some(hash) = hash_of(name) {
        return Kind::Response(hash);
    }
    match name.rsplit_once('.') {
        Some((stem, digits))
            if digits.len() == TEMPORARY_DIGITS
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && hash_of(stem).is_some() =>
        {
            Kind::Temporary
        }
        _ => Kind::Stranger,
    }
}

impl<F> Zone<F> {
    /// A file was found in the directory. Returns whether there is room for its key.
    fn add(&self, hash: Hash, file: StoredFile, now_s: i64) -> bool {
        let expires_s = self.expires_s(now_s);
        let mut shard = self.shard(&hash);
        let at = match shard.find(&hash) {
            Some(at) => at,
            None if self.keys() >= self.max_keys() => {
                let mark = self.max_keys() - self.max_keys() / 8;
                self.watermark.fetch_min(mark, Ordering::Relaxed);
                return false;
            }
            None => {
                self.keys.fetch_add(1, Ordering::Relaxed);
                shard.insert(hash)
            }
        };
        shard.touch(at);
        let entry = shard.at(at);
        entry.expires_s = expires_s;
        if !entry.exists && !entry.is_visited() {
            entry.uses = entry.uses.max(1);
            entry.set_file(self, file, 0, false);
        }
        true
    }
}
