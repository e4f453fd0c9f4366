//! Files: opening, checking, reading and sending, with and without blocking.
//!
//! The functions named `cached` answer only from memory. If the disk would be needed, they return
//! [`io::ErrorKind::WouldBlock`], and the caller repeats the request with the plain function on a
//! thread that may block.

use crate::retry;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Sends up to `count` bytes of `file` from `offset` to `out` with sendfile(2);
/// returns the bytes sent, 0 at the end of the file. The kernel sends at most
/// 0x7ffff000 bytes per call.
///
/// Reading the file may block on the disk even when `out` is non-blocking.
///
/// # Errors
///
/// The errno of `sendfile`; `WouldBlock` when the socket has no room.
pub fn sendfile(
    out: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut position = file_offset(offset)?;
    // SAFETY: both descriptors are borrowed, hence open; `position` outlives the call.
    let sent = retry(|| unsafe {
        libc::sendfile(out.as_raw_fd(), file.as_raw_fd(), &raw mut position, count)
    })?;
    Ok(sent as usize)
}

/// Appends up to `max` bytes of `file` from `offset` to `buf`, but only bytes
/// that are in the page cache (preadv2(2) with `RWF_NOWAIT`) or in a file system in memory.
///
/// Returns at least one byte for `max > 0`. Everything else is [`io::ErrorKind::WouldBlock`]: bytes
/// that are not cached, a file system or kernel without `RWF_NOWAIT`, and also the end of the file,
/// because Linux 5.9 and 5.10 may return 0 for bytes that are not cached. [`read_at`] then tells
/// them apart.
///
/// # Errors
///
/// `WouldBlock` as described, otherwise the errno of `preadv2`.
pub fn read_cached_at(
    file: BorrowedFd<'_>,
    buf: &mut Vec<u8>,
    max: usize,
    offset: u64,
) -> io::Result<usize> {
    let position = file_offset(offset)?;
    let result = append(buf, max, |start, len| {
        let iov = libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        };
        // SAFETY: `iov` describes spare capacity of `buf`, which `append` keeps
        // borrowed; the descriptor is borrowed, hence open.
        unsafe {
            libc::preadv2(
                file.as_raw_fd(),
                &raw const iov,
                1,
                position,
                libc::RWF_NOWAIT,
            )
        }
    });
    match result {
        Ok(0) if max > 0 => Err(io::ErrorKind::WouldBlock.into()),
        // There is no disk that could be waited for, at most memory that was swapped out.
        Err(error) if lacks_feature(&error) && is_in_memory(file) => {
            match read_at(file, buf, max, offset) {
                Ok(0) if max > 0 => Err(io::ErrorKind::WouldBlock.into()),
                result => result,
            }
        }
        Err(error) if lacks_feature(&error) => Err(io::ErrorKind::WouldBlock.into()),
        result => result,
    }
}

/// Whether a file is on a tmpfs, which takes no `RWF_NOWAIT` (Linux 6.18).
fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `facts` has room for the answer; the descriptor is borrowed, hence open.
    let code = unsafe { libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()) };
    if code != 0 {
        return false;
    }
    // SAFETY: the kernel has filled it in.
    let facts = unsafe { facts.assume_init() };
    // The types of both differ between C libraries.
    i128::from(facts.f_type) == i128::from(libc::TMPFS_MAGIC)
}

/// Appends up to `max` bytes of `file` from `offset` to `buf` (pread(2)); 0 is
/// the end of the file. Blocks while the disk is read.
///
/// # Errors
///
/// The errno of `pread`.
pub fn read_at(
    file: BorrowedFd<'_>,
    buf: &mut Vec<u8>,
    max: usize,
    offset: u64,
) -> io::Result<usize> {
    let position = file_offset(offset)?;
    append(buf, max, |start, len| {
        // SAFETY: `start..start + len` is spare capacity of `buf`, which `append`
        // keeps borrowed; the descriptor is borrowed, hence open.
        unsafe { libc::pread(file.as_raw_fd(), start.cast(), len, position) }
    })
}

/// Appends `count` bytes of `file` from `offset` to `buf`. Room for all of them is made first, and
/// `buf` is not moved from then on: where it is empty, no copy of a secret stays behind.
///
/// # Errors
///
/// `UnexpectedEof` when the file has fewer, or the errno of `pread`.
pub fn read_exact_at(
    file: BorrowedFd<'_>,
    buf: &mut Vec<u8>,
    count: usize,
    offset: u64,
) -> io::Result<()> {
    buf.reserve_exact(count);
    let mut read = 0;
    while read < count {
        match read_at(file, buf, count - read, offset + read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    Ok(())
}

/// Calls `read` with the start and length of spare room for `max` bytes, and adds the bytes read to
/// `buf`.
pub(crate) fn append(
    buf: &mut Vec<u8>,
    max: usize,
    mut read: impl FnMut(*mut u8, usize) -> isize,
) -> io::Result<usize> {
    buf.reserve(max);
    let room = &mut buf.spare_capacity_mut()[..max];
    let start = room.as_mut_ptr().cast::<u8>();
    let count = retry(|| read(start, max))? as usize;
    debug_assert!(count <= max);
    // SAFETY: the kernel initialised `count <= max` bytes after the old length,
    // and `reserve` made room for `max`.
    unsafe { buf.set_len(buf.len() + count) };
    Ok(count)
}

/// Opens `path` for reading if every directory entry on the path is cached (openat2(2) with
/// `RESOLVE_CACHED`), otherwise returns [`io::ErrorKind::WouldBlock`].
///
/// Never blocks on a FIFO (`O_NONBLOCK`). Kernels before 5.12, and sandboxes that refuse
/// openat2(2), give `WouldBlock` too; that is remembered.
///
/// # Errors
///
/// `WouldBlock` as described, otherwise the errno of `openat2`.
pub fn open_cached(path: &CStr) -> io::Result<OwnedFd> {
    openat2(None, path, OPEN_READ_FLAGS, libc::RESOLVE_CACHED)
}

/// openat2(2), relative to a directory or the current one. If this kernel or process has no such
/// call, returns [`io::ErrorKind::WouldBlock`] and remembers that.
pub(crate) fn openat2(
    directory: Option<BorrowedFd<'_>>,
    path: &CStr,
    flags: i32,
    resolve: u64,
) -> io::Result<OwnedFd> {
    static UNSUPPORTED: AtomicBool = AtomicBool::new(false);
    if UNSUPPORTED.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // SAFETY: `open_how` is plain old data; all-zero is its documented default.
    let mut how: libc::open_how = unsafe { MaybeUninit::zeroed().assume_init() };
    how.flags = flags as u64;
    how.resolve = resolve;
    // SAFETY: `path` is NUL-terminated, `how` has the size given; both outlive the call, and the
    // directory is borrowed, hence open.
    let result = retry(|| unsafe {
        libc::syscall(
            libc::SYS_openat2,
            directory.map_or(libc::AT_FDCWD, |directory| directory.as_raw_fd()),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    });
    match result {
        // SAFETY: the kernel just returned this descriptor; nobody else owns it.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        Err(error) if lacks_feature(&error) || error.raw_os_error() == Some(libc::EPERM) => {
            UNSUPPORTED.store(true, Ordering::Relaxed);
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error),
    }
}

/// The target of a symbolic link: `name` in a directory or, if that is empty, the open link itself.
pub(crate) fn read_link(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    let mut target = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the name ends with NUL; the kernel writes at most the length given.
    let length = retry(|| unsafe {
        libc::readlinkat(
            directory.as_raw_fd(),
            name.as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    })?;
    target.truncate(length as usize);
    Ok(target)
}

/// Opens `path` for reading. Blocks while directories are read from disk, but
/// not on a FIFO (`O_NONBLOCK`).
///
/// # Errors
///
/// The errno of `open`.
pub fn open_read(path: &CStr) -> io::Result<OwnedFd> {
    openat(None, path, OPEN_READ_FLAGS, 0)
}

/// openat(2), relative to a directory or the current one.
pub(crate) fn openat(
    directory: Option<BorrowedFd<'_>>,
    path: &CStr,
    flags: i32,
    mode: u32,
) -> io::Result<OwnedFd> {
    let directory = directory.map_or(libc::AT_FDCWD, |directory| directory.as_raw_fd());
    // SAFETY: `path` is NUL-terminated and outlives the call; the directory is borrowed, hence
    // open.
    let fd = retry(|| unsafe { libc::openat(directory, path.as_ptr(), flags, mode) })?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Flags for a directory on a path, from which nothing is read.
pub(crate) const DIRECTORY: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// A file in memory without a name in any directory (memfd_create(2)); `name`
/// shows in `/proc/PID/fd` only.
///
/// # Errors
///
/// The errno of `memfd_create`.
pub fn memory_file(name: &CStr) -> io::Result<std::fs::File> {
    // SAFETY: `name` is NUL-terminated and outlives the call.
    let fd = retry(|| unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

pub(crate) const OPEN_READ_FLAGS: i32 = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// Anything else: FIFO, device, socket.
    Other,
}

/// The fields of stat(2) that a server needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// File, directory or something else.
    pub kind: Kind,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the contents: seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds within that second.
    pub mtime_ns: u32,
    /// Device the file is on.
    pub dev: u64,
    /// Inode number; with `dev` it identifies the file as long as it exists.
    pub inode: u64,
    /// Permission bits and type, as in `st_mode`.
    pub mode: u32,
    /// Owner's user id.
    pub uid: u32,
}

/// fstat(2): never blocks on a local file system.
///
/// # Errors
///
/// The errno of `fstat`.
pub fn stat_fd(file: BorrowedFd<'_>) -> io::Result<Stat> {
    let mut raw = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open, `raw` has room for the structure.
    retry(|| unsafe { libc::fstat(file.as_raw_fd(), raw.as_mut_ptr()) })?;
    // SAFETY: fstat succeeded and filled the structure.
    Ok(Stat::from_raw(unsafe { raw.assume_init_ref() }))
}

/// stat(2): follows symbolic links; may block on directories that are not cached.
///
/// # Errors
///
/// The errno of `stat`.
pub fn stat_path(path: &CStr) -> io::Result<Stat> {
    let mut raw = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `path` is NUL-terminated, `raw` has room for the structure.
    retry(|| unsafe { libc::stat(path.as_ptr(), raw.as_mut_ptr()) })?;
    // SAFETY: stat succeeded and filled the structure.
    Ok(Stat::from_raw(unsafe { raw.assume_init_ref() }))
}

impl Stat {
    fn from_raw(raw: &libc::stat) -> Stat {
        Stat {
            kind: match raw.st_mode & libc::S_IFMT {
                libc::S_IFREG => Kind::File,
                libc::S_IFDIR => Kind::Dir,
                _ => Kind::Other,
            },
            size: raw.st_size as u64,
            mtime_s: raw.st_mtime,
            mtime_ns: raw.st_mtime_nsec as u32,
            dev: raw.st_dev,
            inode: raw.st_ino,
            mode: raw.st_mode,
            uid: raw.st_uid,
        }
    }
}

/// Appends `data` to a descriptor opened with `O_APPEND`; returns the bytes written.
///
/// # Errors
///
/// The errno of `write`; `ENOSPC` when the disk is full.
pub fn write(file: BorrowedFd<'_>, data: &[u8]) -> io::Result<usize> {
    // SAFETY: `data` is valid for its length; the descriptor is borrowed, hence open.
    let n = retry(|| unsafe { libc::write(file.as_raw_fd(), data.as_ptr().cast(), data.len()) })?;
    Ok(n as usize)
}

/// Makes `target` refer to the same file as `source` (dup2(2)); used to point the standard
/// descriptors of a daemon at `/dev/null` or its log.
///
/// # Errors
///
/// The errno of `dup2`.
pub fn replace_standard(source: BorrowedFd<'_>, target: Standard) -> io::Result<()> {
    let target = match target {
        Standard::Input => libc::STDIN_FILENO,
        Standard::Output => libc::STDOUT_FILENO,
        Standard::Error => libc::STDERR_FILENO,
    };
    // SAFETY: the standard descriptors are owned by nobody in Rust, so replacing
    // one invalidates no `OwnedFd`.
    retry(|| unsafe { libc::dup2(source.as_raw_fd(), target) })?;
    Ok(())
}

/// A standard descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Descriptor 0.
    Input,
    /// Descriptor 1.
    Output,
    /// Descriptor 2.
    Error,
}

/// Makes `target` refer to the same file as `source`, atomically (dup3(2) with `O_CLOEXEC`): from
/// then on the number of `target` refers to the new file. Both keep their owners.
///
/// # Errors
///
/// The errno of `dup3`.
pub fn replace(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open and stay owned as they were; only the
    // open file that `target` names changes.
    retry(|| unsafe { libc::dup3(source.as_raw_fd(), target.as_raw_fd(), libc::O_CLOEXEC) })?;
    Ok(())
}

fn file_offset(offset: u64) -> io::Result<i64> {
    i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn lacks_feature(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | libc::E2BIG)
    )
}

#[cfg(test)]
mod tests;
