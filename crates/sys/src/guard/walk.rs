//! Walks to a name, directory by directory.

use super::{GuardedName, Guest, Trust};
use crate::file::{DIRECTORY, openat, read_link};
use crate::{CheckReturn, retry};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The same as the kernel's limit.
const MAX_LINKS: usize = 40;

/// Targets that links may have, whoever made them.
const HARMLESS_TARGETS: [&[u8]; 5] = [
    b"/dev/stdout",
    b"/dev/stderr",
    b"/dev/null",
    b"/proc/self/fd/1",
    b"/proc/self/fd/2",
];

pub(super) fn find<'a>(
    guests: &'a [Guest],
    path: &Path,
    follow: bool,
) -> io::Result<GuardedName<'a>> {
    let directory_only = path.as_os_str().as_bytes().ends_with(b"/");
    let (Some(last), false) = (path.file_name(), directory_only) else {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    };
    // A process other than root has only its own rights, and could not give them up.
    // SAFETY: the call takes no pointer and cannot fail.
    if guests.is_empty() || unsafe { libc::geteuid() } != 0 {
        return Ok(GuardedName {
            directory: open_parent(path)?,
            name: name(last)?,
            follow: true,
            trust: Trust::Full,
            way: None,
        });
    }
    let mut walk = Walk::begin(guests, path)?;
    loop {
        match walk.step(follow)? {
            WalkStep::On => {}
            WalkStep::There(place) => return Ok(place),
            WalkStep::Doubt(guest, link) => {
                let directory = guest.with_rights(|| open_parent(path))??;
                return Ok(GuardedName {
                    directory,
                    name: name(last)?,
                    follow: true,
                    trust: Trust::Way(guest, link),
                    way: Some(guest),
                });
            }
        }
    }
}

enum WalkStep<'a> {
    On,
    There(GuardedName<'a>),
    /// This guest could have made this link.
    Doubt(&'a Guest, PathBuf),
}

struct Walk<'a> {
    guests: &'a [Guest],
    directory: OwnedFd,
    /// The path so far, for display.
    way: PathBuf,
    left: VecDeque<CString>,
    links: usize,
    /// The guest who could change the path at any time, though none of its links are on it now.
    changed_by: Option<&'a Guest>,
}

impl<'a> Walk<'a> {
    fn begin(guests: &'a [Guest], path: &Path) -> io::Result<Walk<'a>> {
        let (start, way) = if path.is_absolute() {
            (c"/", "/")
        } else {
            (c".", "")
        };
        let mut walk = Walk {
            guests,
            directory: open_at_start(start)?,
            way: way.into(),
            left: VecDeque::new(),
            links: 0,
            changed_by: None,
        };
        walk.queue(path.as_os_str().as_bytes())?;
        Ok(walk)
    }

    /// Puts the names of a path before those that remain.
    fn queue(&mut self, path: &[u8]) -> io::Result<()> {
        let names = path.split(|byte| *byte == b'/');
        for part in names.rev().filter(|part| !part.is_empty() && *part != b".") {
            self.left.push_front(name(OsStr::from_bytes(part))?);
        }
        Ok(())
    }

    fn step(&mut self, follow: bool) -> io::Result<WalkStep<'a>> {
        let Some(name) = self.left.pop_front() else {
            // A link led to "/" or similar.
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        };
        let is_last = self.left.is_empty();
        let facts = match stat_at(self.directory.as_fd(), &name) {
            Ok(facts) => Some(facts),
            Err(error) if is_last && error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let planter = self.planter(facts.as_ref())?;
        let is_link = facts.is_some_and(|facts| facts.st_mode & libc::S_IFMT == libc::S_IFLNK);
        // Links in procfs are more than their text.
        let is_magic = is_link && planter.is_none() && is_procfs(self.directory.as_fd())?;
        if is_link && !is_magic && (follow || !is_last) {
            return self.follow(&name, planter);
        }
        if is_last {
            return Ok(WalkStep::There(GuardedName {
                directory: self.directory.try_clone()?,
                name,
                follow: is_magic,
                trust: planter.map_or(Trust::Full, Trust::Name),
                way: self.changed_by,
            }));
        }
        self.changed_by = self.changed_by.or(planter);
        let flags = DIRECTORY | if is_magic { 0 } else { libc::O_NOFOLLOW };
        self.directory = openat(Some(self.directory.as_fd()), &name, flags, 0)?;
        self.way.push(OsStr::from_bytes(name.as_bytes()));
        Ok(WalkStep::On)
    }

    fn follow(&mut self, name: &CStr, planter: Option<&'a Guest>) -> io::Result<WalkStep<'a>> {
        let target = read_link(self.directory.as_fd(), name)?;
        if let Some(guest) = planter
            && !HARMLESS_TARGETS.contains(&&*target)
        {
            let link = self.way.join(OsStr::from_bytes(name.to_bytes()));
            return Ok(WalkStep::Doubt(guest, link));
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        if target.starts_with(b"/") {
            self.directory = open_at_start(c"/")?;
            self.way = "/".into();
        }
        self.queue(&target)?;
        Ok(WalkStep::On)
    }

    /// The guest who could have put a name into the directory; `entry` is what it refers to.
    fn planter(&self, entry: Option<&libc::stat>) -> io::Result<Option<&'a Guest>> {
        let directory = stat_at(self.directory.as_fd(), c"")?;
        for guest in self.guests {
            if !may_write(guest, self.directory.as_fd(), &directory)? {
                continue;
            }
            // In /tmp and similar directories, names belong to their creators.
            let sticky = directory.st_mode & libc::S_ISVTX != 0 && !guest.is(directory.st_uid);
            let others = entry.is_some_and(|entry| !guest.is(entry.st_uid));
            if !(sticky && others) {
                return Ok(Some(guest));
            }
        }
        Ok(None)
    }
}

/// Whether a user may change the names in a directory, or grant itself that right.
fn may_write(guest: &Guest, directory: BorrowedFd<'_>, facts: &libc::stat) -> io::Result<bool> {
    if guest.is(facts.st_uid) || facts.st_mode & libc::S_IWOTH != 0 {
        return Ok(true);
    }
    if facts.st_mode & libc::S_IWGRP == 0 {
        return Ok(false);
    }
    // With an access control list, these bits are the maximum for any named user or group.
    Ok(guest.is_in(facts.st_gid) || has_access_list(directory))
}

/// Whether a user may change an open file's contents, or grant itself that right.
pub(super) fn may_change(guest: &Guest, file: &File, facts: &Metadata) -> bool {
    let mode = facts.mode();
    if guest.is(facts.uid()) || mode & libc::S_IWOTH != 0 {
        return true;
    }
    mode & libc::S_IWGRP != 0 && (guest.is_in(facts.gid()) || has_list(file.as_fd()))
}

/// If in doubt, assumes that there is one.
fn has_access_list(directory: BorrowedFd<'_>) -> bool {
    let directory = openat(Some(directory), c".", libc::O_RDONLY | libc::O_CLOEXEC, 0);
    directory.map_or(true, |directory| has_list(directory.as_fd()))
}

fn has_list(file: BorrowedFd<'_>) -> bool {
    let name = c"system.posix_acl_access";
    // SAFETY: the name ends with NUL; with a length of 0 nothing is written.
    let length =
        unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), std::ptr::null_mut(), 0) };
    match length.check() {
        Ok(_) => true,
        Err(error) => !matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP)),
    }
}

fn is_procfs(directory: BorrowedFd<'_>) -> io::Result<bool> {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, `facts` has room for the structure.
    retry(|| unsafe { libc::fstatfs(directory.as_raw_fd(), facts.as_mut_ptr()) })?;
    // SAFETY: the call has filled the structure.
    let facts = unsafe { facts.assume_init() };
    // The types of both differ between C libraries.
    Ok(i128::from(facts.f_type) == i128::from(libc::PROC_SUPER_MAGIC))
}

/// The entry of a name, without following links; of the directory itself if the name is empty.
pub(super) fn stat_at(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<libc::stat> {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    // SAFETY: the name ends with NUL, `facts` has room for the structure.
    retry(|| unsafe {
        libc::fstatat(
            directory.as_raw_fd(),
            name.as_ptr(),
            facts.as_mut_ptr(),
            flags,
        )
    })?;
    // SAFETY: the call has filled the structure.
    Ok(unsafe { facts.assume_init() })
}

/// The directory that contains the last name of a path.
fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let parent = path.parent().unwrap_or(Path::new("/")).as_os_str();
    if parent.is_empty() {
        return open_at_start(c".");
    }
    open_at_start(&name(parent)?)
}

fn open_at_start(path: &CStr) -> io::Result<OwnedFd> {
    openat(None, path, DIRECTORY, 0)
}

fn name(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}
