//! Temporary files: bodies that are too large for memory, in the directories that
//! `client_body_temp_path`, `proxy_temp_path` and their like name.
//!
//! A file is created, written and removed on disk threads. Usually it has lost its name
//! before the first byte is written, so that nothing is left behind however the
//! process ends; what holds it is its descriptor, in the chains that send it.

use crate::open_file_cache::OpenFile;
use bytes::Bytes;
use sealane_conf::model::TempPath;
use sealane_io::chain::{FileRange, Segment};
use sealane_io::disk;
use sealane_io::open_file::TempDescriptor;
use sealane_log::OsError;
use sealane_log::confinement;
use sealane_sys::file;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

/// Numbers that are tried for a new file before the directory counts as full of
/// files that somebody has left there.
const MAX_COLLISIONS: u32 = 1000;

/// A temporary file that is being written. Its bytes can be sent as soon as they are
/// written; clones of its segments keep it.
#[derive(Debug)]
pub(crate) struct TempFile {
    file: Arc<OpenFile>,
    /// Where the next bytes go.
    end: u64,
}

/// How long the file's name stays in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It goes before anything is written.
    Unnamed,
    /// As long as somebody holds the file (`client_body_in_file_only clean`).
    WhileUsed,
    /// For good (`client_body_in_file_only on`).
    Forever,
}

/// What a power failure may leave of a file with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Any part of it: the kernel writes it to the disk when it sees fit.
    Any,
    /// All of it: it is on the disk before it gets its name.
    Whole,
}

/// A temporary file could not be created or written. nginx's words, level crit.
#[derive(Debug)]
pub(crate) struct TempFileError {
    /// What failed, as `pwrite()`.
    call: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl TempFile {
    /// Creates a file below `place`, and subdirectories that are missing there.
    ///
    /// # Errors
    /// When open(2) or mkdir(2) fails: no such directory, no permission, no descriptor.
    pub(crate) fn create(
        place: &Arc<TempPath>,
        keep: Keep,
    ) -> impl Future<Output = Result<TempFile, TempFileError>> + Send + use<> {
        let place = Arc::clone(place);
        disk::run(move || create_blocking(&place, keep, next_number))
    }

    /// Writes these bytes behind all that was written so far, once the future is polled.
    /// The future does not borrow the file: several may be under way.
    ///
    /// # Errors
    /// When pwrite(2) fails: no space, quota, disk errors. The file is of no use then.
    pub(crate) fn append(
        &mut self,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = Result<(), TempFileError>> + Send + use<> {
        let (file, begin) = (Arc::clone(&self.file), self.end);
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        self.end += bytes as u64;
        disk::run(move || {
            let mut offset = begin;
            for piece in &pieces {
                write_blocking(&file, piece, offset)?;
                offset += piece.len() as u64;
            }
            Ok(())
        })
    }

    /// Writes the first `len` bytes of another file behind all that was written so far.
    ///
    /// # Errors
    /// As [`TempFile::append`].
    pub(crate) fn append_from(
        &mut self,
        from: Arc<OpenFile>,
        len: u64,
    ) -> impl Future<Output = Result<(), TempFileError>> + Send + use<> {
        let (file, begin) = (Arc::clone(&self.file), self.end);
        self.end += len;
        disk::run(move || {
            copy_blocking(&from, &file, begin, len).map_err(|error| TempFileError {
                call: "pwrite()",
                path: path_of(file.path()),
                error,
            })
        })
    }

    /// A file below `place` with these bytes, for a chain. Blocks: for work that is on a disk
    /// thread already.
    ///
    /// # Errors
    /// As [`TempFile::create`] and [`TempFile::append`].
    pub(crate) fn written_blocking(
        place: &TempPath,
        bytes: &[u8],
    ) -> Result<Segment, TempFileError> {
        let file = create_blocking(place, Keep::Unnamed, next_number)?;
        write_blocking(&file.file, bytes, 0)?;
        Ok(file.segment(0, bytes.len() as u64))
    }

    /// The same as [`TempFile::create`], for work that is on a disk thread already.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn create_blocking(place: &TempPath, keep: Keep) -> Result<TempFile, TempFileError> {
        create_blocking(place, keep, next_number)
    }

    /// Creates a file that is to become `path`, beside it; directories that are missing there are
    /// made. Blocks. As in nginx, its name is that of the other with a dot and ten digits.
    ///
    /// # Errors
    /// As for [`TempFile::create`].
    pub(crate) fn create_beside_blocking(path: &Path) -> Result<TempFile, TempFileError> {
        let failed = |call, path: PathBuf, error| TempFileError { call, path, error };
        let mut has_directories = false;
        let mut collisions = 0;
        loop {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{:010}", next_number(collisions > 0)));
            let name = PathBuf::from(name);
            let error = match open_new(&name) {
                Ok(file) => return TempFile::new(file, &name, Keep::WhileUsed),
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::AlreadyExists if collisions < MAX_COLLISIONS => collisions += 1,
                io::ErrorKind::NotFound if !has_directories => {
                    let directory = path.parent().unwrap_or(path);
                    DirBuilder::new()
                        .mode(0o700)
                        .recursive(true)
                        .create(directory)
                        .map_err(|error| failed("mkdir()", directory.to_owned(), error))?;
                    has_directories = true;
                }
                _ => return Err(failed("open()", name, error)),
            }
        }
    }

    /// Writes these bytes at the beginning. Blocks.
    ///
    /// # Errors
    /// As for [`TempFile::append`].
    pub(crate) fn write_blocking(&self, bytes: &[u8]) -> Result<(), TempFileError> {
        write_blocking(&self.file, bytes, 0)
    }

    /// Gives the file its name; directories that are missing there are made. On another file
    /// system a copy gets the name once it is complete. Blocks.
    ///
    /// # Errors
    /// When rename(2), or what it needs, fails: the file keeps its name.
    pub(crate) fn rename_blocking(
        &self,
        to: &Path,
        durability: Durability,
    ) -> Result<(), TempFileError> {
        let from = path_of(self.path());
        let failed = |call, path: &Path, error| TempFileError {
            call,
            path: path.to_owned(),
            error,
        };
        if durability == Durability::Whole {
            let synced = self.file.sync();
            synced.map_err(|error| failed("fdatasync()", &from, error))?;
        }
        let mut renamed = fs::rename(&from, to);
        if matches!(&renamed, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            let directory = to.parent().unwrap_or(to);
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(directory)
                .map_err(|error| failed("mkdir()", directory, error))?;
            renamed = fs::rename(&from, to);
        }
        match renamed {
            Ok(()) => {
                // Another process may be using the temporary name already.
                self.file.lost_its_name();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let copy = TempFile::create_beside_blocking(to)?;
                copy_blocking(&self.file, &copy.file, 0, self.end)
                    .map_err(|error| failed("write()", &path_of(copy.path()), error))?;
                copy.rename_blocking(to, durability)
            }
            Err(error) => Err(failed("rename()", to, error)),
        }
    }

    /// Writes behind all that was written so far. Blocks.
    ///
    /// # Errors
    /// As for [`TempFile::append`].
    pub(crate) fn append_blocking(&mut self, bytes: &[u8]) -> Result<(), TempFileError> {
        write_blocking(&self.file, bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Replaces a part of what was written. Blocks.
    ///
    /// # Errors
    /// As for [`TempFile::append`].
    pub(crate) fn overwrite_blocking(
        &mut self,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), TempFileError> {
        write_blocking(&self.file, bytes, offset)
    }

    /// The file itself, for those who read what is written.
    pub(crate) fn shared(&self) -> Arc<OpenFile> {
        Arc::clone(&self.file)
    }

    /// Bytes written, and being written.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// The path it was created by.
    pub(crate) fn path(&self) -> &[u8] {
        self.file.path()
    }

    /// Part of it, for a chain. The part must have been written.
    pub(crate) fn segment(&self, offset: u64, len: u64) -> Segment {
        Segment::File(FileRange {
            file: Arc::clone(&self.file),
            offset,
            len,
        })
    }

    /// The file itself; nothing more is written.
    pub(crate) fn into_file(self) -> Arc<OpenFile> {
        self.file
    }

    fn new(file: File, path: &Path, keep: Keep) -> Result<TempFile, TempFileError> {
        let remove = (keep == Keep::WhileUsed).then(|| path.to_owned());
        let descriptor = TempDescriptor::new(file, remove);
        let file = OpenFile::temporary(descriptor, path.as_os_str().as_bytes());
        Ok(TempFile {
            file: Arc::new(file.map_err(|error| TempFileError {
                call: "fstat()",
                path: path.to_owned(),
                error,
            })?),
            end: 0,
        })
    }
}

fn write_blocking(file: &OpenFile, bytes: &[u8], offset: u64) -> Result<(), TempFileError> {
    let written = file.write_all_at(bytes, offset);
    written.map_err(|error| TempFileError {
        call: "pwrite()",
        path: path_of(file.path()),
        error,
    })
}

fn copy_blocking(from: &OpenFile, to: &OpenFile, begin: u64, len: u64) -> io::Result<()> {
    const PIECE_BYTES: u64 = 64 << 10;
    let mut copied = 0;
    let mut piece = Vec::new();
    while copied < len {
        piece.clear();
        // At most PIECE_BYTES, so it fits.
        let wanted = PIECE_BYTES.min(len - copied) as usize;
        if file::read_at(from.as_fd(), &mut piece, wanted, copied)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(&piece, begin + copied)?;
        copied += piece.len() as u64;
    }
    Ok(())
}

/// `next_number` is told whether the number before was taken.
fn create_blocking(
    place: &TempPath,
    keep: Keep,
    mut next_number: impl FnMut(bool) -> u32,
) -> Result<TempFile, TempFileError> {
    let failed = |call, path: PathBuf, error| TempFileError { call, path, error };
    let mut has_directories = place.levels[0] == 0;
    let mut path = hashed_path(place, next_number(false));
    let mut collisions = 0;
    loop {
        let error = match open_new(&path) {
            Ok(file) => {
                if keep == Keep::Unnamed {
                    // Whoever removed it first is welcome.
                    let _ = fs::remove_file(&path);
                }
                return TempFile::new(file, &path, keep);
            }
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::AlreadyExists if collisions < MAX_COLLISIONS => {
                collisions += 1;
                path = hashed_path(place, next_number(true));
                has_directories = place.levels[0] == 0;
            }
            io::ErrorKind::NotFound if !has_directories => {
                make_directories(place, &path)
                    .map_err(|(path, error)| failed("mkdir()", path, error))?;
                has_directories = true;
            }
            _ => return Err(failed("open()", path, error)),
        }
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// nginx's scheme: ten digits, the last of which name the subdirectories.
/// `[1, 2, 0]` puts file 0000123457 into `7/45/`.
fn hashed_path(place: &TempPath, number: u32) -> PathBuf {
    let name = format!("{number:010}");
    let mut path = place.path.clone();
    let mut end = name.len();
    for level in place.levels.iter().take_while(|level| **level > 0) {
        let begin = end.saturating_sub(usize::from(*level));
        path.push(&name[begin..end]);
        end = begin;
    }
    path.push(name);
    path
}

/// Makes the subdirectories that the path of a file goes through, below the directory
/// itself, which the master has made.
fn make_directories(place: &TempPath, path: &Path) -> Result<(), (PathBuf, io::Error)> {
    let below = path
        .parent()
        .and_then(|path| path.strip_prefix(&place.path).ok());
    let mut directory = place.path.clone();
    for level in below.into_iter().flatten() {
        directory.push(level);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {}
            // Another thread was here first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((directory, error)),
        }
    }
    Ok(())
}

/// The number of the next file. After a collision with a file that another process has
/// left or is using, numbers go on at some distance.
pub(crate) fn next_number(collided: bool) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static STRIDE: LazyLock<u32> = LazyLock::new(|| {
        let mut bytes = [0; 4];
        // Without the kernel's generator collisions are more likely, no more than that.
        let _ = getrandom::fill(&mut bytes);
        u32::from_ne_bytes(bytes) | 1
    });
    let step = if collided { *STRIDE } else { 1 };
    NEXT.fetch_add(step, Ordering::Relaxed).wrapping_add(step)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

impl fmt::Display for TempFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TempFileError { call, path, error } = self;
        write!(
            f,
            "{call} \"{}\" failed ({}){}",
            path.display(),
            OsError(error),
            confinement::reason(error.raw_os_error())
        )
    }
}

impl std::error::Error for TempFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
pub(crate) mod tests;
