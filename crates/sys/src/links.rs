//! Opens files where other users may have put symbolic links.
//!
//! The path is walked name by name from a trusted directory, and no result depends on looking up a
//! name twice. A name found to be a link is followed by its own text; any other is opened in a way
//! that fails if it has become a link. So exchanging names meanwhile gains nothing.

use crate::file::{self, DIRECTORY, OPEN_READ_FLAGS, openat};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Links {
    /// None.
    Never,
    /// Those that have the same owner as their target.
    OfTheOwner,
}

/// Opens `path` for reading. After its first `trusted_bytes`, links are followed according to
/// `links`. Any other link gives `ELOOP` or, before the last name and if no links are followed,
/// `ENOTDIR`.
///
/// Blocks while directories are read from disk, but not on a FIFO.
///
/// # Errors
///
/// `ELOOP` or `ENOTDIR` for a link that is not followed, or another errno of `openat`.
pub fn open_read(path: &CStr, trusted_bytes: usize, links: Links) -> io::Result<OwnedFd> {
    let (start, rest) = split(path, trusted_bytes)?;
    let mut names = rest.split(|byte| *byte == b'/').filter(|n| !n.is_empty());
    let Some(mut name) = names.next() else {
        return file::open_read(path);
    };
    let mut directory = match start {
        Some(start) => Some(openat(None, &start, DIRECTORY, 0)?),
        None => None,
    };
    for next in names {
        directory = Some(open_name(
            directory.as_ref().map(AsFd::as_fd),
            name,
            DIRECTORY,
            links,
        )?);
        name = next;
    }
    let kind = if rest.ends_with(b"/") {
        libc::O_DIRECTORY
    } else {
        0
    };
    open_name(
        directory.as_ref().map(AsFd::as_fd),
        name,
        OPEN_READ_FLAGS | kind,
        links,
    )
}

/// Opens `path` for reading if there is no link after its first `trusted_bytes` and every directory
/// entry on the path is cached; otherwise returns [`io::ErrorKind::WouldBlock`].
///
/// # Errors
///
/// `WouldBlock` as described, otherwise the errno of `openat2`.
pub fn open_cached(path: &CStr, trusted_bytes: usize) -> io::Result<OwnedFd> {
    let would_block = |_| io::Error::from(io::ErrorKind::WouldBlock);
    let (start, rest) = split(path, trusted_bytes)?;
    // A path that begins with a slash would be looked up from the root.
    let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
    let rest = CString::new(&rest[slashes..])?;
    let start = match start {
        Some(start) => {
            let opened = file::openat2(None, &start, DIRECTORY, libc::RESOLVE_CACHED);
            Some(opened.map_err(would_block)?)
        }
        None => None,
    };
    let resolve = libc::RESOLVE_CACHED | libc::RESOLVE_NO_SYMLINKS;
    let opened = file::openat2(
        start.as_ref().map(AsFd::as_fd),
        &rest,
        OPEN_READ_FLAGS,
        resolve,
    );
    opened.map_err(would_block)
}

/// Splits a path into the trusted directory (the current one if the trusted part is empty) and the
/// rest.
fn split(path: &CStr, trusted_bytes: usize) -> io::Result<(Option<CString>, &[u8])> {
    let path = path.to_bytes();
    let rooted = usize::from(path.first() == Some(&b'/'));
    let (trusted, rest) = path.split_at(trusted_bytes.max(rooted).min(path.len()));
    let start = match trusted {
        [] => None,
        trusted => Some(CString::new(trusted)?),
    };
    Ok((start, rest))
}

fn open_name(
    directory: Option<BorrowedFd<'_>>,
    name: &[u8],
    flags: i32,
    links: Links,
) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    if links == Links::OfTheOwner {
        let entry = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let entry = openat(directory, &name, entry, 0)?;
        let facts = file::stat_fd(entry.as_fd())?;
        if facts.mode & libc::S_IFMT == libc::S_IFLNK {
            return follow(directory, &entry, facts.uid, flags);
        }
    }
    openat(directory, &name, flags | libc::O_NOFOLLOW, 0)
}

/// Opens the target of an open link, if it belongs to the link's owner.
fn follow(
    directory: Option<BorrowedFd<'_>>,
    link: &OwnedFd,
    owner: u32,
    flags: i32,
) -> io::Result<OwnedFd> {
    let target = CString::new(file::read_link(link.as_fd(), c"")?)?;
    let opened = openat(directory, &target, flags, 0)?;
    match file::stat_fd(opened.as_fd())?.uid == owner {
        true => Ok(opened),
        false => Err(io::Error::from_raw_os_error(libc::ELOOP)),
    }
}

#[cfg(test)]
mod tests;
