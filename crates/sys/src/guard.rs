//! Opens files by name for a process with more rights than someone who may have put the name there.
//!
//! A server's master is root, and reopens logs long after the worker has begun to listen on the
//! network. If the worker's user may write to the log's directory or to a parent directory, an
//! attacker who has taken over the worker can put a symbolic link, a hard link, a FIFO or a device
//! there. So every directory on the path is checked:
//!
//! - where that user cannot write, names are the administrator's, and everything works as usual:
//!   links are followed, devices and FIFOs opened;
//! - a symbolic link that the user could have made is followed **with its rights**. So is every
//!   name that leads to something other than a FIFO or a file with a single name. Whatever the user
//!   could not open itself is not opened for it.
//!
//! Links to the standard streams and to `/dev/null` lead nowhere new and are always followed.
//! Everything is opened, created, renamed and removed relative to open directories, so that nothing
//! changes between check and use.
//!
//! A guest can still move another user's directory within one of its own. So files to be renamed or
//! removed are also identified by their [`FileId`], and the owner is changed only of directories
//! that no guest can have moved.

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

/// The users whose names are not trusted. The default trusts everybody, which is right for a
/// process that has no more rights than they.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    guests: Vec<Guest>,
}

impl Guard {
    /// Trusts everybody except these. Only root can have a guard: other processes have only their
    /// own rights.
    pub fn against(guests: impl IntoIterator<Item = Guest>) -> Guard {
        let mut all: Vec<Guest> = Vec::new();
        for guest in guests.into_iter().filter(|guest| guest.uid != 0) {
            if !all.contains(&guest) {
                all.push(guest);
            }
        }
        Guard { guests: all }
    }

    /// Combines this guard with `other`.
    #[must_use]
    pub fn and(&self, other: &Guard) -> Guard {
        Guard::against(self.guests.iter().chain(&other.guests).cloned())
    }

    /// Whether the owner is one of those it guards against.
    pub fn is_against(&self, owner: u32) -> bool {
        self.guests.iter().any(|guest| guest.is(owner))
    }

    /// Finds the directory of a name. If the name is a symbolic link, it is followed.
    ///
    /// # Errors
    /// Of a directory on the way.
    pub fn find(&self, path: &Path) -> io::Result<GuardedName<'_>> {
        walk::find(&self.guests, path, true)
    }

    /// The same for a name that is to be created or replaced.
    ///
    /// # Errors
    /// Of a directory on the way.
    pub fn find_name(&self, path: &Path) -> io::Result<GuardedName<'_>> {
        walk::find(&self.guests, path, false)
    }

    /// Runs an operation that works by path instead of descriptor (bind(2), connect(2)). It runs
    /// with a guest's rights if that guest could change a directory on the path or, if
    /// `name_matters`, the entry at its end.
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

    /// Checks a program before it is executed by its path: none of these users may have put it
    /// there, put another one in its place, or changed what it does.
    ///
    /// # Errors
    /// Of a directory on the way; `PermissionDenied`, which says who could, or when the file may
    /// not be executed.
    pub fn check_program(&self, path: &Path) -> io::Result<()> {
        let place = self.find(path)?;
        let guest = match &place.trust {
            Trust::Full => place.way,
            Trust::Name(guest) | Trust::Way(guest, _) => Some(*guest),
        };
        if let Some(guest) = guest {
            return Err(untrusted(guest));
        }
        let file = place.open(Open::Read)?;
        let facts = file.metadata()?;
        if !facts.is_file() || facts.mode() & 0o111 == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        for guest in &self.guests {
            if walk::may_change(guest, &file, &facts) {
                return Err(untrusted(guest));
            }
        }
        Ok(())
    }

    /// Opens a file, creating it if needed.
    ///
    /// # Errors
    /// As open(2); one that comes from lesser rights says so.
    pub fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        self.find(path)?.open(how)
    }
}

/// How to open a file. Never blocks on a FIFO, never acquires a controlling terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading.
    Read,
    /// For appending; created with this mode if it does not exist.
    Append(u32),
    /// For appending and reading, which FIFOs without a reader require.
    AppendAndRead(u32),
    /// For writing, at its beginning and without truncation; created with this mode if it does not
    /// exist.
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
    /// The last name may be a link, which leads into another file system or only as far as the
    /// guest's rights go.
    follow: bool,
    trust: Trust<'a>,
    /// The guest who could replace a directory on the path.
    way: Option<&'a Guest>,
}

/// How far a name is trusted.
#[derive(Debug, Clone)]
enum Trust<'a> {
    /// No guest can have influenced it.
    Full,
    /// This guest could have put it there.
    Name(&'a Guest),
    /// This guest could have made a symbolic link on the path.
    Way(&'a Guest, PathBuf),
}

impl GuardedName<'_> {
    /// Opens the file with this name, or creates it.
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

    /// Creates a new file under this name with `suffix`, removing an existing one. Its name is not
    /// followed if it is a link.
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

    /// Waits until the directory's changes are on disk.
    ///
    /// # Errors
    /// As open(2) and fsync(2).
    pub fn sync_directory(&self) -> io::Result<()> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let directory = self
            .with_rights(|| openat(Some(self.directory.as_fd()), c".", flags, 0).map(File::from))?;
        directory.sync_all()
    }

    /// Creates a directory with this name if there is none, and opens it. Gives it to the user
    /// `owner`, but only if no one else can have put it there.
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
            // On a path that a guest can change, it may be someone else's directory.
            if is_new || self.way.is_none() {
                give_to(&directory, owner).map_err(|error| ("fchown", error))?;
            }
            return Ok(directory);
        };
        // Whatever it is, its owner must not change.
        guest
            .with_rights(|| self.make_directory(mode, true))
            .map_err(|error| ("setfsuid", error))?
            .map(|(directory, _)| directory)
    }

    /// Also returns whether the directory is new.
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

    /// Whether opening it gave a guest nothing: a FIFO, or a file with only this name. Hard links
    /// may point to other users' files, and opening a device can have side effects.
    fn is_harmless(&self, file: &File) -> io::Result<bool> {
        let facts = file.metadata()?;
        if !facts.file_type().is_file() {
            return Ok(facts.file_type().is_fifo());
        }
        // The single name must be this one: a guest could have removed its own link again since.
        let named = match walk::stat_at(self.directory.as_fd(), &self.name) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_it = (named.st_dev, named.st_ino) == (facts.dev(), facts.ino());
        Ok(is_it && named.st_nlink <= 1)
    }

    /// Runs `call` with the rights that the path to the name allows.
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

fn untrusted(guest: &Guest) -> io::Error {
    let why = format!(
        "user {}, whom worker processes run as, could have put it there or changed it; make root \
         the owner of the file and of its directories, and let nobody else write to them",
        guest.uid
    );
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Why root was denied access.
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
             \"{what}\" there, so it is opened with that user's rights; configure the \
             intended path, or make root the owner of the directory"
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
