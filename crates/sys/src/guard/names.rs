//! Creates, renames and removes names in an open directory.

use super::{Guard, GuardedName, openat, walk};
use crate::CheckReturn;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identifies a file as long as it exists, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The id of an open file.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn of(file: &File) -> io::Result<FileId> {
        let facts = file.metadata()?;
        Ok(FileId {
            device: facts.dev(),
            inode: facts.ino(),
        })
    }
}

impl From<&libc::stat> for FileId {
    fn from(facts: &libc::stat) -> FileId {
        FileId {
            device: facts.st_dev,
            inode: facts.st_ino,
        }
    }
}

impl Guard {
    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// Of the first one that cannot be made or reached.
    pub fn make_directories(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut missing = Vec::new();
        for directory in path.ancestors() {
            match self.find(directory) {
                Ok(place) if place.entry()?.is_some() => break,
                Ok(_) => missing.push(directory),
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(directory),
                // The root always exists.
                Err(error) if error.raw_os_error() == Some(libc::EISDIR) => break,
                Err(error) => return Err(error),
            }
        }
        for directory in missing.into_iter().rev() {
            let made = self.find(directory)?.directory(mode, None);
            made.map_err(|(_, error)| error)?;
        }
        Ok(())
    }
}

impl GuardedName<'_> {
    /// The entry with this name, if any; a link is not followed.
    ///
    /// # Errors
    /// As stat(2).
    pub fn entry(&self) -> io::Result<Option<FileId>> {
        self.entry_of(&self.name)
    }

    fn entry_of(&self, name: &CStr) -> io::Result<Option<FileId>> {
        match self.with_rights(|| walk::stat_at(self.directory.as_fd(), name)) {
            Ok(facts) => Ok(Some(FileId::from(&facts))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Holds the entry with this name open, without opening it for any access; a link is not
    /// followed.
    ///
    /// # Errors
    /// As open(2).
    pub fn hold(&self) -> io::Result<OwnedFd> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        self.with_rights(|| openat(Some(self.directory.as_fd()), &self.name, flags, 0))
    }

    /// Creates a file with this name, if the name is free.
    ///
    /// # Errors
    /// As open(2): `AlreadyExists` if something has.
    pub fn create_new(&self, mode: u32) -> io::Result<File> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let create = || openat(Some(self.directory.as_fd()), &self.name, flags, mode);
        self.with_rights(create).map(File::from)
    }

    /// Removes this name if it belongs to that file.
    ///
    /// # Errors
    /// As unlink(2): `NotFound` if it is not there, or another's by now.
    pub fn remove(&self, file: FileId) -> io::Result<()> {
        self.must_be(&self.name, file)?;
        self.with_rights(|| unlink(self.directory.as_fd(), &self.name))
    }

    /// Renames that file, which has this name, to the name with `suffix`.
    ///
    /// # Errors
    /// As rename(2): `NotFound` if the name is not there, or another's by now.
    pub fn put_aside(&self, suffix: &str, file: FileId) -> io::Result<()> {
        self.must_be(&self.name, file)?;
        self.rename(&self.name, &self.beside(suffix))
    }

    /// Renames that file back from the name with `suffix`.
    ///
    /// # Errors
    /// As [`GuardedName::put_aside`].
    pub fn put_back(&self, suffix: &str, file: FileId) -> io::Result<()> {
        let aside = self.beside(suffix);
        self.must_be(&aside, file)?;
        self.rename(&aside, &self.name)
    }

    /// Moves the file made by [`GuardedName::create_beside`] to the name itself.
    ///
    /// # Errors
    /// As rename(2).
    pub fn put_in_place(&self, suffix: &str) -> io::Result<()> {
        self.rename(&self.beside(suffix), &self.name)
    }

    /// Removes the file made by [`GuardedName::create_beside`].
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove_beside(&self, suffix: &str) -> io::Result<()> {
        let name = self.beside(suffix);
        self.with_rights(|| unlink(self.directory.as_fd(), &name))
    }

    /// Where a guest may exchange names in the directory, it can also do so after this check, but
    /// gains nothing: anything it could move there it could remove itself.
    fn must_be(&self, name: &CStr, file: FileId) -> io::Result<()> {
        match self.entry_of(name)? {
            Some(found) if found == file => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    pub(super) fn beside(&self, suffix: &str) -> CString {
        let name = [self.name.as_bytes(), suffix.as_bytes()].concat();
        CString::new(name).expect("a suffix has no NUL byte")
    }

    fn rename(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        let directory = self.directory.as_raw_fd();
        self.with_rights(|| {
            // SAFETY: both names end with NUL and outlive the call; the directory is open.
            unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) }.check()
        })?;
        Ok(())
    }
}

pub(super) fn unlink(directory: BorrowedFd<'_>, name: &CString) -> io::Result<()> {
    // SAFETY: the name ends with NUL and outlives the call; the directory is open.
    unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }.check()?;
    Ok(())
}
