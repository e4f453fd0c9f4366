//! Opening files by name for a process with more rights than somebody who may have put the name
//! there.
//!
//! A server's master is root and opens logs again long after the worker has begun to listen to
//! the network. Where the worker's user may write to the log's directory, or to one above it,
//! whoever has taken the worker over can put a symbolic link there, a hard link, a FIFO, a
//! device. So every directory on the way is looked at:
//!
//! - where that user cannot write, names are the administrator's, and everything is as usual:
//!   links are followed, devices and FIFOs opened;
//! - a symbolic link which it could have made is followed **with its rights**, as is every name
//!   that leads to something other than a file with one name, or a FIFO. What it could not open by
//!   itself, nobody opens for it.
//!
//! Links to the standard streams and to `/dev/null` lead nowhere new and are always followed.
//! Everything is opened, made, renamed and removed relative to directories that are held open, so
//! that nothing changes between a look and its use.
//!
//! What is left to a guest is to move a directory of somebody else's about within one of its own.
//! So what is renamed or removed is known by its [`FileId`] as well, and the owner is changed only
//! of directories that nobody can have moved.

mod names;
mod rights;
mod walk;

#[cfg(test)]
mod tests;

pub use names::FileId;
pub use rights::Guest;

use crate::CheckReturn;
use crate::file::openat;
use std::ffi::{CString, OsStr};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Whose files names are not to be trusted with. The default trusts everybody, which is right for
/// a process that has no other rights than they.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    guests: Vec<Guest>,
}

impl Guard {
    /// Trusts everybody but these. Only root can have a guard: others have nobody's rights
    /// but their own.
    pub fn against(guests: impl IntoIterator<Item = Guest>) -> Guard {
        let mut all: Vec<Guest> = Vec::new();
        for guest in guests.into_iter().filter(|guest| guest.uid != 0) {
            if !all.contains(&guest) {
                all.push(guest);
            }
        }
        Guard { guests: all }
    }

    /// This one, and against all that `other` is against.
    #[must_use]
    pub fn and(&self, other: &Guard) -> Guard {
        Guard::against(self.guests.iter().chain(&other.guests).cloned())
    }

    /// Whether files of this owner are somebody's whom it is against.
    pub fn is_against(&self, owner: u32) -> bool {
        self.guests.iter().any(|guest| guest.is(owner))
    }

    /// Finds the directory of a name. A symbolic link of that name is followed.
    ///
    /// # Errors
    /// Of a directory on the way.
    pub fn find(&self, path: &Path) -> io::Result<GuardedName<'_>> {
        walk::find(&self.guests, path, true)
    }

    /// The same for a name that is to be made or replaced.
    ///
    /// # Errors
    /// Of a directory on the way.
    pub fn find_name(&self, path: &Path) -> io::Result<GuardedName<'_>> {
        walk::find(&self.guests, path, false)
    }

    /// Does what is done by path and not by descriptor (bind(2), connect(2)): with lesser
    /// rights if somebody who has them could change a directory on the way or, if
    /// `name_matters`, what is at its end.
    ///
    /// # Errors
    /// Of a directory on the way, and those of `call`.
    pub fn act<T>(
        &self,
        path: &Path,
        name_matters: bool,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let place = self.find_name(path)?;
        let guest = match (place.way, &place.trust) {
            (Some(guest), _) => Some(guest),
            (None, Trust::Name(guest)) if name_matters => Some(*guest),
            (None, _) => None,
        };
        match guest {
            Some(guest) => place.as_guest(guest, path, call),
            None => call(),
        }
    }

    /// Opens a file that may be there, or makes it.
    ///
    /// # Errors
    /// As open(2); one that comes from lesser rights says so.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.find(path)?.open(how)
    }
}

/// How a file is opened. Never blocks on a FIFO, never becomes the controlling terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading.
    Read,
    /// For appending; made with this mode if it is not there.
    Append(u32),
    /// For appending and, as FIFOs need it that nobody reads, reading.
    AppendAndRead(u32),
    /// For writing, at its beginning and with what it has; made with this mode if it is not there.
    Write(u32),
}

impl Open {
    fn flags(self) -> (i32, u32) {
        let (flags, mode) = match self {
            Open::Read => (libc::O_RDONLY, 0),
            Open::Append(mode) => (libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT, mode),
            Open::AppendAndRead(mode) => (libc::O_RDWR | libc::O_APPEND | libc::O_CREAT, mode),
            Open::Write(mode) => (libc::O_WRONLY | libc::O_CREAT, mode),
        };
        (
            flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY,
            mode,
        )
    }
}

/// A name in a directory that is held open.
#[derive(Debug)]
pub struct GuardedName<'a> {
    directory: OwnedFd,
    name: CString,
    /// The last name may be a link: it leads into another file system, or only as far as
    /// the guest's rights go.
    follow: bool,
    trust: Trust<'a>,
    /// Who could put something else in the place of a directory on the way.
    way: Option<&'a Guest>,
}

/// What is known of a name.
#[derive(Debug, Clone)]
enum Trust<'a> {
    /// No guest can have anything to do with it.
    Full,
    /// This one could have put it there.
    Name(&'a Guest),
    /// This one could have made a symbolic link on the way.
    Way(&'a Guest, PathBuf),
}

impl GuardedName<'_> {
    /// Opens what has this name, or makes it.
    ///
    /// # Errors
    /// As open(2); one that comes from lesser rights says so.
    pub fn open(&self, how: Open) -> io::Result<File> {
        match &self.trust {
            Trust::Full => self.open_as_it_is(how, self.follow),
            Trust::Name(guest) => match self.open_as_it_is(how, false) {
                Ok(file) if self.is_harmless(&file)? => Ok(file),
                Err(error) if error.raw_os_error() != Some(libc::ELOOP) => Err(error),
                _ => self.as_guest(guest, &self.shown(), || self.open_as_it_is(how, true)),
            },
            Trust::Way(guest, link) => self.as_guest(guest, link, || self.open_as_it_is(how, true)),
        }
    }

    fn open_as_it_is(&self, how: Open, follow: bool) -> io::Result<File> {
        let (flags, mode) = how.flags();
        let flags = flags | if follow { 0 } else { libc::O_NOFOLLOW };
        openat(Some(self.directory.as_fd()), &self.name, flags, mode).map(File::from)
    }

    /// A new file under this name with `suffix`; one that is there is removed. Its
    /// name is not followed.
    ///
    /// # Errors
    /// The system call that failed, by name.
    pub fn create_beside(
        &self,
        suffix: &str,
        mode: u32,
    ) -> Result<File, (&'static str, io::Error)> {
        let name = self.beside(suffix);
        self.with_rights(|| {
            let _ = names::unlink(self.directory.as_fd(), &name);
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            openat(Some(self.directory.as_fd()), &name, flags, mode).map(File::from)
        })
        .map_err(|error| ("open", error))
    }

    /// Waits until the directory's disk has what was put into it.
    ///
    /// # Errors
    /// As open(2) and fsync(2).
    pub fn sync_directory(&self) -> io::Result<()> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let directory = self
            .with_rights(|| openat(Some(self.directory.as_fd()), c".", flags, 0).map(File::from))?;
        directory.sync_all()
    }

    /// Makes a directory of this name if there is none, and opens it. `owner` is who it is to
    /// belong to: it is given to that user only if nobody else can have put it there.
    ///
    /// # Errors
    /// The system call that failed, by name.
    pub fn directory(
        &self,
        mode: u32,
        owner: Option<u32>,
    ) -> Result<File, (&'static str, io::Error)> {
        let guest = match &self.trust {
            Trust::Full => None,
            Trust::Name(guest) | Trust::Way(guest, _) => Some(*guest),
        };
        let Some(guest) = guest else {
            let (directory, is_new) = self.make_directory(mode, self.follow)?;
            // What is on a way that somebody can change may be another's directory.
            if is_new || self.way.is_none() {
                give_to(&directory, owner).map_err(|error| ("fchown", error))?;
            }
            return Ok(directory);
        };
        // Whatever is there, it is not made another's.
        guest
            .with_rights(|| self.make_directory(mode, true))
            .map_err(|error| ("setfsuid", error))?
            .map(|(directory, _)| directory)
    }

    /// Whether the directory is new is told as well.
    fn make_directory(
        &self,
        mode: u32,
        follow: bool,
    ) -> Result<(File, bool), (&'static str, io::Error)> {
        // SAFETY: the name ends with NUL and outlives the call; the directory is open.
        let made = unsafe { libc::mkdirat(self.directory.as_raw_fd(), self.name.as_ptr(), mode) };
        let is_new = match made.check() {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(("mkdir", error)),
        };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let flags = flags | if follow { 0 } else { libc::O_NOFOLLOW };
        openat(Some(self.directory.as_fd()), &self.name, flags, 0)
            .map(|directory| (directory.into(), is_new))
            .map_err(|error| ("open", error))
    }

    /// Whether opening it has given a guest nothing: a file with this one name, or a FIFO. Hard
    /// links may be to other people's files, and opening a device can set it going.
    fn is_harmless(&self, file: &File) -> io::Result<bool> {
        let facts = file.metadata()?;
        if !facts.file_type().is_file() {
            return Ok(facts.file_type().is_fifo());
        }
        // The one name has to be this one: a guest could have taken its link away again since.
        let named = match walk::stat_at(self.directory.as_fd(), &self.name) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_it = (named.st_dev, named.st_ino) == (facts.dev(), facts.ino());
        Ok(is_it && named.st_nlink <= 1)
    }

    /// With the rights that the way to the name allows.
    fn with_rights<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.trust {
            Trust::Full | Trust::Name(_) => call(),
            Trust::Way(guest, link) => self.as_guest(guest, link, call),
        }
    }

    fn as_guest<T>(
        &self,
        guest: &Guest,
        what: &Path,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        guest.with_rights(call)?.map_err(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return error;
            }
            let (uid, what) = (guest.uid, what.to_owned());
            io::Error::new(io::ErrorKind::PermissionDenied, LesserRights { uid, what })
        })
    }

    fn shown(&self) -> PathBuf {
        OsStr::from_bytes(self.name.as_bytes()).into()
    }
}

/// Why root was denied something.
#[derive(Debug)]
struct LesserRights {
    uid: u32,
    what: PathBuf,
}

impl fmt::Display for LesserRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uid, what) = (self.uid, self.what.display());
        write!(
            f,
            "13: Permission denied: user {uid}, whom worker processes run as, could have put \
             \"{what}\" there, so it is opened with that user's rights; let the configuration name \
             what is meant, or let the directory belong to root"
        )
    }
}

impl std::error::Error for LesserRights {}

fn give_to(directory: &File, owner: Option<u32>) -> io::Result<()> {
    let facts = directory.metadata()?;
    match owner {
        Some(uid) if facts.is_dir() && facts.uid() != uid => {
            std::os::unix::fs::fchown(directory, Some(uid), None)
        }
        _ => Ok(()),
    }
}
