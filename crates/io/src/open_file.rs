//! A file on disk, opened, and the ways to open one.

use bytes::Bytes;
use sealane_sys::file::{self, Kind, Stat};
use sealane_sys::links::{self, Links};
use std::ffi::CStr;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

mod temp_descriptor;

pub use temp_descriptor::TempDescriptor;

/// An open regular file, with its metadata as of when it was opened.
pub struct OpenFile {
    handle: Handle,
    stat: Stat,
    path: Box<[u8]>,
    /// Computed on first use.
    version: OnceLock<FileVersion>,
}

/// The state of a file as a short text, `652e3c5a-1f4`: its modification time and size in
/// hexadecimal, as in nginx's entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    bytes: [u8; FileVersion::MAX_BYTES],
    len: u8,
}

/// Which file it is, and when it was changed last: as long as both are the same, so are the bytes,
/// as far as the file system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    dev: u64,
    inode: u64,
    size: u64,
    mtime_s: i64,
    mtime_ns: u32,
}

/// Which symbolic links a path may pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRule {
    /// Links within this many leading bytes of the path are followed.
    pub trusted_bytes: usize,
    /// Which links are followed after that.
    pub links: Links,
}

enum Handle {
    /// A file that is served.
    Served(OwnedFd),
    /// A file that the server created for itself and may write.
    Temporary(TempDescriptor),
}

/// What was found at a path.
#[derive(Debug, Clone)]
pub enum Opened {
    /// A regular file, together with its bytes if the cache holds them.
    File(Arc<OpenFile>, Option<Bytes>),
    /// A directory.
    Directory,
    /// A device, FIFO or socket: never served.
    Other,
}

/// The outcome of reading a file into memory.
pub enum Read {
    /// All its bytes, from a single state of the file as far as its metadata can tell.
    Done(Bytes),
    /// Some bytes would have to come from disk.
    NotCached,
    /// The file has changed since it was opened.
    Changed,
}

/// An error number of open(2), small enough to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl OpenFile {
    /// Size in bytes when it was opened. It may have changed since.
    pub fn size(&self) -> u64 {
        self.stat.size
    }

    /// Time of last modification, in seconds since 1970.
    pub fn mtime_s(&self) -> i64 {
        self.stat.mtime_s
    }

    /// Modification time and size as a text.
    pub fn version(&self) -> FileVersion {
        *self
            .version
            .get_or_init(|| FileVersion::new(self.mtime_s(), self.size()))
    }

    /// The path it was opened by, for messages.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// A temporary file, which is empty at first. Its metadata are those of an empty file.
    ///
    /// # Errors
    ///
    /// The errno of `fstat`.
    pub fn temporary(descriptor: TempDescriptor, path: &[u8]) -> io::Result<OpenFile> {
        Ok(OpenFile {
            stat: file::stat_fd(descriptor.as_fd())?,
            handle: Handle::Temporary(descriptor),
            path: path.into(),
            version: OnceLock::new(),
        })
    }

    /// Writes to a temporary file. Blocks.
    ///
    /// # Errors
    ///
    /// The errno of `pwrite`; `ENOSPC` when the disk is full.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.handle {
            Handle::Temporary(descriptor) => descriptor.write_all_at(bytes, offset),
            // Served files are opened read-only.
            Handle::Served(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Waits until everything that was written to a temporary file is on the disk. Blocks.
    ///
    /// # Errors
    ///
    /// The errno of `fdatasync`.
    pub fn sync(&self) -> io::Result<()> {
        match &self.handle {
            Handle::Temporary(descriptor) => descriptor.sync(),
            Handle::Served(_) => Ok(()),
        }
    }

    /// Notes that a temporary file was renamed, so that the old name is not removed with it.
    pub fn lost_its_name(&self) {
        if let Handle::Temporary(descriptor) = &self.handle {
            descriptor.lost_its_name();
        }
    }

    /// Which file it is, and in which state it was when it was opened.
    pub fn state(&self) -> FileState {
        FileState::of(&self.stat)
    }

    /// Whether both are the same file in the same state.
    pub fn is_unchanged(&self, other: &OpenFile) -> bool {
        self.state() == other.state()
    }

    /// Reads the whole file from the page cache.
    pub fn read_stable(&self) -> Read {
        self.read_whole(|bytes, room, position| {
            file::read_cached_at(self.as_fd(), bytes, room, position).is_ok()
        })
    }

    /// Reads the whole file, from the disk if need be. Blocks.
    pub fn read_stable_blocking(&self) -> Read {
        self.read_whole(|bytes, room, position| {
            file::read_at(self.as_fd(), bytes, room, position).is_ok_and(|read| read > 0)
        })
    }

    fn read_whole(&self, mut read: impl FnMut(&mut Vec<u8>, usize, u64) -> bool) -> Read {
        let Ok(size) = usize::try_from(self.stat.size) else {
            return Read::NotCached;
        };
        let mut bytes = Vec::with_capacity(size);
        let mut complete = true;
        while complete && bytes.len() < size {
            let (room, position) = (size - bytes.len(), bytes.len() as u64);
            complete = read(&mut bytes, room, position);
        }
        // Checked after reading, so that any write in the meantime shows.
        match file::stat_fd(self.as_fd()) {
            Ok(after) if FileState::of(&after) != self.state() => Read::Changed,
            Ok(_) if complete => Read::Done(bytes.into()),
            Ok(_) => Read::NotCached,
            Err(_) => Read::Changed,
        }
    }

    /// Whether the file was modified so recently that another write might leave its modification
    /// time unchanged, so that the change would go unnoticed.
    pub fn is_fresh(&self, unix_ms: i64) -> bool {
        is_fresh(self.stat.mtime_s, self.stat.mtime_ns, unix_ms)
    }
}

/// Kernels take file timestamps from a clock that ticks every 1 to 10 ms. File systems that keep
/// only whole seconds are recognised by zero nanoseconds.
fn is_fresh(mtime_s: i64, mtime_ns: u32, unix_ms: i64) -> bool {
    const TICKS_MS: u64 = 50;
    const SECONDS_MS: u64 = 2000;
    let written_ms = mtime_s
        .saturating_mul(1000)
        .saturating_add(i64::from(mtime_ns / 1_000_000));
    let window_ms = if mtime_ns == 0 { SECONDS_MS } else { TICKS_MS };
    written_ms.abs_diff(unix_ms) < window_ms
}

impl FileVersion {
    /// A hyphen and at most 16 digits on either side.
    pub const MAX_BYTES: usize = 33;

    /// The version of a file with this modification time and size.
    pub fn new(mtime_s: i64, size_bytes: u64) -> FileVersion {
        let mut bytes = [0; FileVersion::MAX_BYTES];
        let mut rest = &mut bytes[..];
        let written = write!(rest, "{:x}-{:x}", mtime_s as u64, size_bytes);
        debug_assert!(written.is_ok(), "it always fits");
        let len = (FileVersion::MAX_BYTES - rest.len()) as u8;
        FileVersion { bytes, len }
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            Handle::Served(fd) => fd.as_fd(),
            Handle::Temporary(descriptor) => descriptor.as_fd(),
        }
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("path", &self.path.escape_ascii().to_string())
            .field("size", &self.stat.size)
            .finish_non_exhaustive()
    }
}

impl Errno {
    /// The number in an error, or EIO if it has none.
    pub fn of(error: &io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// The process, or the system, has no descriptor left.
    pub fn is_out_of_descriptors(self) -> bool {
        matches!(self.0, libc::EMFILE | libc::ENFILE)
    }

    /// The path leads nowhere.
    pub fn is_not_found(self) -> bool {
        matches!(self.0, libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)
    }

    /// The process is not permitted to access the path. As in nginx, a loop of symbolic links
    /// counts as such.
    pub fn is_forbidden(self) -> bool {
        matches!(self.0, libc::EACCES | libc::ELOOP | libc::EMLINK)
    }
}

impl fmt::Display for Errno {
    /// Formatted like the end of nginx's messages: `2: No such file or directory`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let words = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{}: {words}", self.0)
    }
}

impl FileState {
    fn of(stat: &Stat) -> FileState {
        FileState {
            dev: stat.dev,
            inode: stat.inode,
            size: stat.size,
            mtime_s: stat.mtime_s,
            mtime_ns: stat.mtime_ns,
        }
    }
}

/// Opens a path (NUL-terminated bytes) if that takes no disk access; returns `None` otherwise. With
/// a rule for links, a path that contains a link counts as taking disk access.
pub fn open_now(path: &[u8], rule: Option<LinkRule>) -> Option<Result<Opened, Errno>> {
    let Ok(name) = CStr::from_bytes_with_nul(path) else {
        return Some(Err(Errno(libc::ENOENT)));
    };
    let opened = match rule {
        None => file::open_cached(name),
        Some(rule) => links::open_cached(name, rule.trusted_bytes),
    };
    match opened {
        Ok(fd) => Some(examine(fd, name)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => Some(Err(Errno::of(&error))),
    }
}

/// Opens a path (NUL-terminated bytes), waiting for the disk.
///
/// # Errors
///
/// The errno of opening the file or reading its metadata.
pub fn open_blocking(path: &[u8], rule: Option<LinkRule>) -> Result<Opened, Errno> {
    // A name with an inner NUL cannot exist.
    let name = CStr::from_bytes_with_nul(path).map_err(|_| Errno(libc::ENOENT))?;
    let opened = match rule {
        None => file::open_read(name),
        Some(LinkRule {
            trusted_bytes,
            links,
        }) => links::open_read(name, trusted_bytes, links),
    };
    examine(opened.map_err(|error| Errno::of(&error))?, name)
}

fn examine(fd: OwnedFd, path: &CStr) -> Result<Opened, Errno> {
    let stat = file::stat_fd(fd.as_fd()).map_err(|error| Errno::of(&error))?;
    Ok(match stat.kind {
        Kind::File => Opened::File(
            Arc::new(OpenFile {
                handle: Handle::Served(fd),
                stat,
                path: path.to_bytes().into(),
                version: OnceLock::new(),
            }),
            None,
        ),
        Kind::Dir => Opened::Directory,
        Kind::Other => Opened::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_depends_on_the_file_system_s_clock() {
        let at = |ns| move |unix_ms| is_fresh(1_000, ns, unix_ms);
        let fine = at(500_000_000);
        assert!(fine(1_000_500) && fine(1_000_549) && fine(1_000_451));
        assert!(!fine(1_000_550) && !fine(1_000_450) && !fine(0));
        let coarse = at(0);
        assert!(coarse(1_000_000) && coarse(1_001_999) && coarse(998_001));
        assert!(!coarse(1_002_000) && !coarse(998_000));
        assert!(!is_fresh(i64::MAX, 1, 0), "a time that is nonsense is old");
    }

    #[test]
    fn errors_read_as_in_nginx() {
        assert_eq!(Errno(2).to_string(), "2: No such file or directory");
        assert_eq!(Errno(13).to_string(), "13: Permission denied");
    }
}
