//! Access logs with variables in their paths: the writer thread opens the files when a line comes,
//! and keeps them open according to `open_log_file_cache`.

use super::sink::{Losses, open_file};
use super::{OsError, frames};
use crate::confinement;
use sealane_conf::model::{LogFileCache, LogPaths};
use sealane_sys::file;
use sealane_sys::guard::Guard;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most bytes of lines for one file that are written together.
const BATCH_BYTES: usize = 64 << 10;

/// The files of one `access_log` with variables.
#[derive(Debug)]
pub(super) struct Paths {
    log: LogPaths,
    /// For a process with more rights than the users it serves; workers have no such rights.
    guard: Guard,
    files: Mutex<HashMap<Box<[u8]>, Known>>,
    /// All files must be reopened.
    close: AtomicBool,
    losses: Losses,
}

/// A file that was written to recently.
#[derive(Debug)]
struct Known {
    /// Open if it is used often enough.
    file: Option<OwnedFd>,
    /// Device and inode.
    identity: (u64, u64),
    /// Uses in a row, each within `inactive=` of the previous one.
    uses: u64,
    used: Instant,
    checked: Instant,
}

impl Paths {
    pub(super) fn new(log: LogPaths, guard: Guard) -> Paths {
        Paths {
            log,
            guard,
            files: Mutex::default(),
            close: AtomicBool::new(false),
            losses: Losses::default(),
        }
    }

    pub(super) fn written(&self) -> &Path {
        &self.log.written
    }

    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Appends a line for the file `path`, which is written if the directory `root` exists, or is
    /// empty.
    pub(super) fn push(path: &[u8], root: &[u8], line: &[u8], out: &mut Vec<u8>) {
        frames::push(out, [path, root], |out| out.extend_from_slice(line));
    }

    /// Writes the first of these frames and the following ones for the same file; returns their
    /// size in bytes. Lines that cannot be written are lost, since other files may well be
    /// writable.
    pub(super) fn write(&self, frames: &[u8]) -> usize {
        let Some(([path, root, line], mut taken)) = frames::first::<3>(frames) else {
            return frames.len(); // nothing that was ever pushed
        };
        let (mut text, mut lines) = (line.to_vec(), 1);
        while text.len() < BATCH_BYTES
            && let Some((fields, length)) = frames::first::<3>(&frames[taken..])
            && fields[..2] == [path, root]
        {
            text.extend_from_slice(fields[2]);
            taken += length;
            lines += 1;
        }
        if let Err(reason) = self.write_to(path, root, &text) {
            self.losses.add(lines, reason);
        }
        taken
    }

    fn write_to(&self, path: &[u8], root: &[u8], text: &[u8]) -> Result<(), String> {
        let now = Instant::now();
        let mut files = self.lock();
        self.tend_locked(&mut files, now);
        let mut known = files.remove(path).unwrap_or(Known {
            file: None,
            identity: (0, 0),
            uses: 0,
            used: now,
            checked: now,
        });
        known.uses += 1;
        known.used = now;
        let name = Path::new(OsStr::from_bytes(path));
        self.open(&mut known, name, root, now)?;
        let file = known.file.as_ref().expect("it was opened or an error");
        let written = write_all(file.as_fd(), text);
        if let Some(cache) = self.log.cache {
            if known.uses < cache.min_uses {
                known.file = None;
            }
            make_room(&mut files, cache.max as usize);
            files.insert(path.into(), known);
        }
        written.map_err(|error| {
            let name = name.display();
            format!("write() to \"{name}\" failed ({})", OsError(&error))
        })
    }

    /// Opens the file, unless it is open and still the one with that name.
    fn open(
        &self,
        known: &mut Known,
        path: &Path,
        root: &[u8],
        now: Instant,
    ) -> Result<(), String> {
        let valid = self.log.cache.map(|cache| cache.valid);
        let fresh = valid.is_some_and(|valid| now < known.checked + valid);
        if known.file.is_some() && fresh {
            return Ok(());
        }
        test_root(root)?;
        known.checked = now;
        let same = || {
            let name = CString::new(path.as_os_str().as_bytes()).ok()?;
            Some(identity_of(&name)? == known.identity)
        };
        if known.file.is_some() && same() == Some(true) {
            return Ok(());
        }
        known.file = None;
        let failed = |error: io::Error| {
            let (path, reason) = (path.display(), confinement::reason(error.raw_os_error()));
            format!("open() \"{path}\" failed ({}){reason}", OsError(&error))
        };
        let file = open_file(path, &self.guard).map_err(failed)?;
        let stat = file::stat_fd(file.as_fd()).map_err(failed)?;
        known.identity = (stat.dev, stat.inode);
        known.file = Some(file);
        Ok(())
    }

    /// Makes every file be reopened before the next line (USR1).
    pub(super) fn close_all(&self) {
        self.close.store(true, Ordering::Relaxed);
    }

    /// Closes files that have not been used for long.
    pub(super) fn tend(&self, now: Instant) {
        self.tend_locked(&mut self.lock(), now);
    }

    fn tend_locked(&self, files: &mut HashMap<Box<[u8]>, Known>, now: Instant) {
        if self.close.swap(false, Ordering::Relaxed) {
            files.clear();
        }
        if let Some(LogFileCache { inactive, .. }) = self.log.cache {
            files.retain(|_, known| now < known.used + inactive);
        }
    }

    /// When [`Paths::tend`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let inactive = self.log.cache?.inactive;
        let files = self.lock();
        let oldest = files.values().map(|known| known.used).min()?;
        Some(oldest + inactive)
    }

    /// A panic leaves at worst one file out.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room for one more file among `max`.
fn make_room(files: &mut HashMap<Box<[u8]>, Known>, max: usize) {
    while files.len() >= max {
        let Some(oldest) = files.iter().min_by_key(|(_, known)| known.used) else {
            return;
        };
        let path = oldest.0.clone();
        files.remove(&path);
    }
}

fn identity_of(path: &CStr) -> Option<(u64, u64)> {
    let stat = file::stat_path(path).ok()?;
    Some((stat.dev, stat.inode))
}

fn test_root(root: &[u8]) -> Result<(), String> {
    if root.is_empty() {
        return Ok(());
    }
    let path = Path::new(OsStr::from_bytes(root));
    let error = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => std::io::Error::from_raw_os_error(libc::ENOTDIR),
        Err(error) => error,
    };
    let path = path.display();
    Err(format!(
        "testing \"{path}\" existence failed ({})",
        OsError(&error)
    ))
}

fn write_all(file: BorrowedFd<'_>, mut text: &[u8]) -> std::io::Result<()> {
    while !text.is_empty() {
        match file::write(file, text)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => text = &text[count..],
        }
    }
    Ok(())
}
