//! WebDAV operations on files and directories. Everything here blocks.

use super::{DavError, directory_access};
use crate::open_file_cache::Errno;
use crate::temp_file;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Failures that are kept for the log; a tree may have millions of files.
const MAX_NOTED: usize = 32;

/// Names of a directory that are kept at a time; a larger directory stays open meanwhile.
const MAX_LISTED: usize = 10_000;

/// Temporary names that are tried.
const MAX_COLLISIONS: u32 = 1000;

/// A COPY or MOVE, ready to be done.
pub(super) struct CopyOrMove {
    pub(super) is_move: bool,
    /// The URI of the source ends with a slash.
    pub(super) from_collection: bool,
    /// The URI of the destination ended with a slash, which its path no longer has.
    pub(super) to_collection: bool,
    pub(super) overwrite: bool,
    /// `dav_access`, for missing parent directories.
    pub(super) access: u32,
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
}

/// What was copied or moved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    File,
    Tree,
}

/// Why nothing was copied or moved.
#[derive(Debug)]
pub(super) enum CopyRefusal {
    /// The destination is a directory, and the URI lacks the slash.
    ToDirectory,
    /// It exists and must not be overwritten.
    Exists(PathBuf),
    /// The source is a directory, and the URI lacks the slash.
    IsCollection,
    /// One is inside the other.
    SamePlace,
    /// The source is a link to a directory.
    Link,
    /// It failed before anything was done.
    Failed(DavError),
    /// It failed midway; the partial copy has been removed.
    Incomplete(DavError),
}

/// The metadata of a path; of a link itself, not of what it leads to.
///
/// # Errors
/// What `lstat()` has failed with.
pub(super) fn look(path: &Path) -> Result<Metadata, DavError> {
    fs::symlink_metadata(path).map_err(|error| failure("lstat()", path, &error))
}

/// Makes a directory.
///
/// # Errors
/// What `mkdir()` has failed with.
pub(super) fn make_directory(path: &Path, access: u32) -> Result<(), DavError> {
    let made = DirBuilder::new().mode(access).create(path);
    made.map_err(|error| failure("mkdir()", path, &error))
}

/// Removes a file, or a directory with everything in it; links, not what they lead to.
/// The first value lists what could not be removed below it.
///
/// # Errors
/// The second value: the path is still there.
pub(super) fn delete(path: &Path, is_directory: bool) -> (Vec<DavError>, Result<(), DavError>) {
    let mut noted = Vec::new();
    if !is_directory {
        let deleted = fs::remove_file(path).map_err(|error| failure("unlink()", path, &error));
        return (noted, deleted);
    }
    let deleted = match look(path) {
        // The URI's slash has led through it.
        Ok(facts) if facts.is_symlink() => {
            let errno = Errno(libc::EPERM);
            let (call, path) = ("rmdir()", path.to_owned());
            Err(DavError { call, path, errno })
        }
        Ok(_) => delete_tree(path, &mut noted),
        Err(failure) => Err(failure),
    };
    (noted, deleted)
}

/// Removes the contents of a directory, then the directory. Failures inside are noted; they show
/// again as the directory is not empty.
fn delete_tree(path: &Path, noted: &mut Vec<DavError>) -> Result<(), DavError> {
    let mut walk = Walk::new(path)?;
    loop {
        let done = match walk.step() {
            Visit::Directory(inner) => walk.enter(inner),
            Visit::Failed(failure) => Err(failure),
            Visit::File(inner) => {
                fs::remove_file(&inner).map_err(|error| failure("unlink()", &inner, &error))
            }
            Visit::Left(_) if walk.is_over() => {
                return fs::remove_dir(path).map_err(|error| failure("rmdir()", path, &error));
            }
            Visit::Left(inner) => {
                fs::remove_dir(&inner).map_err(|error| failure("rmdir()", &inner, &error))
            }
        };
        if let Err(failure) = done
            && noted.len() < MAX_NOTED
        {
            noted.push(failure);
        }
    }
}

/// Walks a tree without recursion: clients may make trees as deep as paths can name.
struct Walk {
    /// The directory at hand.
    path: PathBuf,
    /// What is left to be visited of it, after the rest of its parents.
    levels: Vec<Listing>,
}

enum Visit {
    /// To be entered, or passed over.
    Directory(PathBuf),
    /// Anything else.
    File(PathBuf),
    /// All of its contents have been visited.
    Left(PathBuf),
    /// The rest of a directory cannot be read.
    Failed(DavError),
}

impl Walk {
    fn new(path: &Path) -> Result<Walk, DavError> {
        Ok(Walk {
            path: path.to_owned(),
            levels: vec![Listing::of(path)?],
        })
    }

    /// The next entry. Not to be called after the end.
    fn step(&mut self) -> Visit {
        let next = match self.levels.last_mut() {
            Some(listing) => listing.next(&self.path),
            None => Ok(None),
        };
        match next {
            Ok(Some((name, true))) => Visit::Directory(self.path.join(name)),
            Ok(Some((name, false))) => Visit::File(self.path.join(name)),
            Ok(None) => {
                self.levels.pop();
                let left = self.path.clone();
                self.path.pop();
                Visit::Left(left)
            }
            Err(failure) => Visit::Failed(failure),
        }
    }

    /// Visits the contents of a directory before the rest of its parent.
    fn enter(&mut self, inner: PathBuf) -> Result<(), DavError> {
        self.levels.push(Listing::of(&inner)?);
        self.path = inner;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.levels.is_empty()
    }
}

impl CopyOrMove {
    /// Copies or moves. The first value lists failures without consequences.
    ///
    /// # Errors
    /// See [`CopyRefusal`].
    pub(super) fn run(&self) -> (Vec<DavError>, Result<Done, CopyRefusal>) {
        let mut noted = Vec::new();
        let done = self.run_noting(&mut noted);
        (noted, done)
    }

    fn run_noting(&self, noted: &mut Vec<DavError>) -> Result<Done, CopyRefusal> {
        let there = match look(&self.to) {
            Ok(facts) => Some(facts),
            Err(failure) if failure.errno == Errno(libc::ENOENT) => None,
            Err(failure) => return Err(CopyRefusal::Failed(failure)),
        };
        if let Some(facts) = &there {
            if facts.is_dir() && !self.to_collection {
                return Err(CopyRefusal::ToDirectory);
            }
            if !self.overwrite {
                return Err(CopyRefusal::Exists(self.to.clone()));
            }
        }
        let source = look(&self.from).map_err(CopyRefusal::Failed)?;
        if source.is_dir() && !self.from_collection {
            return Err(CopyRefusal::IsCollection);
        }
        if !source.is_dir() {
            return self.file(&source).map(|()| Done::File);
        }
        let from = super::without_slash(self.from.clone());
        if look(&from).map_err(CopyRefusal::Failed)?.is_symlink() {
            return Err(CopyRefusal::Link);
        }
        if are_nested(&from, &self.to) {
            return Err(CopyRefusal::SamePlace);
        }
        self.directory(&from, &source, there.as_ref(), noted)
            .map(|()| Done::Tree)
    }

    fn file(&self, source: &Metadata) -> Result<(), CopyRefusal> {
        let moved = match self.is_move {
            true if self.from == self.to => return Err(CopyRefusal::SamePlace),
            true => move_file(&self.from, &self.to, self.access),
            false if is_same_file(&self.from, &self.to) => return Err(CopyRefusal::SamePlace),
            false => copy_file(&self.from, &self.to, Facts::of(source)),
        };
        moved.map_err(CopyRefusal::Incomplete)
    }

    /// An existing destination is removed only when the tree can take its place: if the disk is
    /// full, both stay as they were.
    fn directory(
        &self,
        from: &Path,
        source: &Metadata,
        there: Option<&Metadata>,
        noted: &mut Vec<DavError>,
    ) -> Result<(), CopyRefusal> {
        if self.is_move && self.take_place(from, there, noted).is_ok() {
            return Ok(());
        }
        // On another file system, or a copy.
        let copy = make_beside(&self.to, source.mode() & 0o777).map_err(CopyRefusal::Failed)?;
        if let Err(failure) = copy_tree(from, &copy) {
            let _ = delete_tree(&copy, noted);
            return Err(CopyRefusal::Incomplete(failure));
        }
        if let Err(failure) = self.take_place(&copy, there, noted) {
            let _ = delete_tree(&copy, noted);
            return Err(CopyRefusal::Incomplete(failure));
        }
        match self.is_move {
            true => delete_tree(from, noted).map_err(CopyRefusal::Failed),
            false => Ok(()),
        }
    }

    /// Gives a tree the destination's name; what had the name is deleted.
    fn take_place(
        &self,
        tree: &Path,
        there: Option<&Metadata>,
        noted: &mut Vec<DavError>,
    ) -> Result<(), DavError> {
        let renamed = |from: &Path, to: &Path| {
            fs::rename(from, to).map_err(|error| failure("rename()", to, &error))
        };
        let Some(there) = there else {
            return renamed(tree, &self.to);
        };
        // In its own directory its name is unique.
        let aside = make_beside(&self.to, 0o700)?;
        let inside = aside.join("replaced");
        let taken = renamed(&self.to, &inside).and_then(|()| {
            renamed(tree, &self.to).inspect_err(|_| {
                // Only a process with write permission to the directory can have made another one.
                let _ = fs::rename(&inside, &self.to);
            })
        });
        if taken.is_ok() {
            let (failures, deleted) = delete(&inside, there.is_dir());
            noted.extend(failures);
            noted.extend(deleted.err());
        }
        if let Err(error) = fs::remove_dir(&aside) {
            noted.push(failure("rmdir()", &aside, &error));
        }
        taken
    }
}

/// Whether one path is inside the other, through whatever links.
fn are_nested(from: &Path, to: &Path) -> bool {
    let Ok(from) = fs::canonicalize(from) else {
        return false;
    };
    let to = match (to.parent().map(fs::canonicalize), to.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        // It cannot be made there either.
        _ => to.to_owned(),
    };
    to.starts_with(&from) || from.starts_with(&to)
}

fn is_same_file(from: &Path, to: &Path) -> bool {
    match (fs::metadata(from), fs::metadata(to)) {
        (Ok(from), Ok(to)) => (from.dev(), from.ino()) == (to.dev(), to.ino()),
        _ => false,
    }
}

/// Copies the contents of a directory into another one: files, also through links, and directories.
/// Like nginx, it leaves out everything else, and links to directories.
fn copy_tree(from: &Path, to: &Path) -> Result<(), DavError> {
    let mut walk = Walk::new(from)?;
    // Of the directories that were entered.
    let mut times = Vec::new();
    let target = |inner: &Path| to.join(inner.strip_prefix(from).unwrap_or(inner));
    loop {
        match walk.step() {
            Visit::Directory(inner) => {
                // It may have been removed meanwhile.
                let Ok(facts) = fs::metadata(&inner) else {
                    continue;
                };
                make_directory(&target(&inner), facts.mode() & 0o777)?;
                times.push(Facts::of(&facts).mtime_s);
                walk.enter(inner)?;
            }
            Visit::File(inner) => match fs::metadata(&inner) {
                Ok(facts) if facts.is_file() => {
                    copy_file(&inner, &target(&inner), Facts::of(&facts))?;
                }
                // Something else, or a link to nothing or to a directory.
                _ => {}
            },
            Visit::Failed(failure) => return Err(failure),
            Visit::Left(inner) => match times.pop() {
                Some(mtime_s) => set_time(&target(&inner), mtime_s)?,
                None => return Ok(()),
            },
        }
    }
}

/// The metadata that a copy keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    access: u32,
    /// It gets exactly these permissions, whatever the process's umask is.
    is_ordered: bool,
    mtime_s: i64,
}

impl Facts {
    fn of(metadata: &Metadata) -> Facts {
        Facts {
            access: metadata.mode() & 0o777,
            is_ordered: false,
            mtime_s: metadata.mtime(),
        }
    }
}

/// Moves a file to another path, by copying it if necessary.
///
/// # Errors
/// The first call that has failed.
pub(super) fn move_file(from: &Path, to: &Path, access: u32) -> Result<(), DavError> {
    let fail = |call, error: &io::Error| failure(call, to, error);
    let mut renamed = fs::rename(from, to);
    if is(&renamed, libc::ENOENT) {
        make_path(to, directory_access(access))?;
        renamed = fs::rename(from, to);
    }
    if is(&renamed, libc::EXDEV) {
        let facts = fs::symlink_metadata(from).map_err(|error| fail("lstat()", &error))?;
        copy_file(from, to, Facts::of(&facts))?;
        return fs::remove_file(from).map_err(|error| failure("unlink()", from, &error));
    }
    renamed.map_err(|error| fail("rename()", &error))
}

/// A complete file with a temporary name, and where it belongs.
pub(super) struct Finished<'f> {
    pub(super) file: &'f File,
    pub(super) from: &'f Path,
    pub(super) to: &'f Path,
    /// `dav_access`.
    pub(super) access: u32,
    /// `Date` of the request.
    pub(super) mtime_s: Option<i64>,
    /// `create_full_put_path`.
    pub(super) create_path: bool,
}

/// How a file has got its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// There was no file.
    New,
    /// Something else had it.
    Replaced,
}

/// Why it has not.
#[derive(Debug)]
pub(crate) enum NotNamed {
    /// A directory has it.
    Directory,
    Failed(DavError),
}

impl Finished<'_> {
    /// Gives the file its name. The second value says whether the temporary file is gone; after
    /// a copy it is still there.
    ///
    /// # Errors
    /// See [`NotNamed`].
    pub(super) fn name(&self) -> Result<(Named, bool), NotNamed> {
        let named = match fs::metadata(self.to) {
            Ok(facts) if facts.is_dir() => return Err(NotNamed::Directory),
            Ok(_) => Named::Replaced,
            Err(_) => Named::New,
        };
        let has_moved = self.rename().map_err(NotNamed::Failed)?;
        Ok((named, has_moved))
    }

    fn rename(&self) -> Result<bool, DavError> {
        let permissions = Permissions::from_mode(self.access);
        let changed = self.file.set_permissions(permissions);
        changed.map_err(|error| failure("chmod()", self.from, &error))?;
        if let Some(mtime_s) = self.mtime_s {
            set_time_of(self.file, mtime_s)
                .map_err(|error| failure("utimes()", self.from, &error))?;
        }
        let mut renamed = fs::rename(self.from, self.to);
        if self.create_path && is(&renamed, libc::ENOENT) {
            make_path(self.to, directory_access(self.access))?;
            renamed = fs::rename(self.from, self.to);
        }
        if is(&renamed, libc::EXDEV) {
            let facts = self.file.metadata();
            let facts = facts.map_err(|error| failure("fstat()", self.from, &error))?;
            let facts = Facts {
                is_ordered: true,
                ..Facts::of(&facts)
            };
            return copy_file(self.from, self.to, facts).map(|()| false);
        }
        renamed.map(|()| true).map_err(|error| {
            let paths = format!("{}\" to \"{}", self.from.display(), self.to.display());
            failure("rename()", Path::new(&paths), &error)
        })
    }
}

fn is(result: &io::Result<()>, errno: i32) -> bool {
    matches!(result, Err(error) if error.raw_os_error() == Some(errno))
}

/// Creates missing parent directories of a file. As in nginx, failures are ignored here: the next
/// call shows them.
fn make_path(file: &Path, access: u32) -> Result<(), DavError> {
    let mut missing: Vec<&Path> = file.ancestors().skip(1).collect();
    missing.retain(|directory| !directory.as_os_str().is_empty());
    while let Some(directory) = missing.pop() {
        match make_directory(directory, access) {
            Ok(()) => {}
            Err(failure) if matches!(failure.errno.0, libc::EEXIST | libc::EACCES) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Copies a file, which gets its name when it is complete. A partial copy is never visible, and
/// nothing remains of a failed one.
fn copy_file(from: &Path, to: &Path, facts: Facts) -> Result<(), DavError> {
    let mut source = open_regular(from).map_err(|error| failure("open()", from, &error))?;
    let (path, mut target) = create_beside(to, facts.access)?;
    let copied = io::copy(&mut source, &mut target)
        .map_err(|error| failure("write()", to, &error))
        .and_then(|_| {
            set_time_of(&target, facts.mtime_s).map_err(|error| failure("utimes()", to, &error))
        })
        .and_then(|()| match facts.is_ordered {
            true => target
                .set_permissions(Permissions::from_mode(facts.access))
                .map_err(|error| failure("chmod()", to, &error)),
            false => Ok(()),
        })
        .and_then(|()| fs::rename(&path, to).map_err(|error| failure("rename()", to, &error)));
    if copied.is_err() {
        // It may have been removed with its directory.
        let _ = fs::remove_file(&path);
    }
    copied
}

/// Opens a file to read it. Does not block on something that is not a regular file.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// A new file in the directory of another, with a hidden name.
fn create_beside(to: &Path, access: u32) -> Result<(PathBuf, File), DavError> {
    beside(to, |path| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(access).open(path)
    })
    .map_err(|error| failure("open()", to, &error))
}

/// A new directory there.
fn make_beside(to: &Path, access: u32) -> Result<PathBuf, DavError> {
    beside(to, |path| DirBuilder::new().mode(access).create(path))
        .map(|(path, ())| path)
        .map_err(|error| failure("mkdir()", to, &error))
}

fn beside<T>(to: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let directory = to.parent().unwrap_or(Path::new("/"));
    let mut collisions = 0;
    loop {
        let number = temp_file::next_number(collisions > 0);
        let path = directory.join(format!(".{number:010}.part"));
        match make(&path) {
            Ok(made) => return Ok((path, made)),
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && collisions < MAX_COLLISIONS =>
            {
                collisions += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn set_time(directory: &Path, mtime_s: i64) -> Result<(), DavError> {
    let set = File::open(directory).and_then(|opened| set_time_of(&opened, mtime_s));
    set.map_err(|error| failure("utimes()", directory, &error))
}

fn set_time_of(file: &File, mtime_s: i64) -> io::Result<()> {
    let distance = Duration::from_secs(mtime_s.unsigned_abs());
    let time = match mtime_s {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    };
    // Times that the system cannot represent are not set.
    match time {
        Some(time) => file.set_times(FileTimes::new().set_modified(time).set_accessed(time)),
        None => Ok(()),
    }
}

/// The contents of a directory. Unless they are many, the directory is closed before anything is
/// done to it, so that deep trees need no more descriptors than flat ones.
struct Listing {
    /// Each name, and whether it is a directory itself, not a link to one.
    names: std::vec::IntoIter<(OsString, bool)>,
    /// There may be more.
    rest: Option<fs::ReadDir>,
}

impl Listing {
    fn of(directory: &Path) -> Result<Listing, DavError> {
        let opened = fs::read_dir(directory);
        let mut listing = Listing {
            names: Vec::new().into_iter(),
            rest: Some(opened.map_err(|error| failure("opendir()", directory, &error))?),
        };
        listing.read(directory)?;
        Ok(listing)
    }

    /// The next name. After an error there is none.
    fn next(&mut self, directory: &Path) -> Result<Option<(OsString, bool)>, DavError> {
        if self.names.len() == 0 {
            self.read(directory)?;
        }
        Ok(self.names.next())
    }

    fn read(&mut self, directory: &Path) -> Result<(), DavError> {
        let fail = |call, error: &io::Error| failure(call, directory, error);
        let Some(mut rest) = self.rest.take() else {
            return Ok(());
        };
        let mut names = Vec::new();
        for entry in rest.by_ref().take(MAX_LISTED) {
            let entry = entry.map_err(|error| fail("readdir()", &error))?;
            let kind = entry.file_type().map_err(|error| fail("lstat()", &error))?;
            names.push((entry.file_name(), kind.is_dir()));
        }
        if names.len() == MAX_LISTED {
            self.rest = Some(rest);
        }
        self.names = names.into_iter();
        Ok(())
    }
}

pub(super) fn failure(call: &'static str, path: &Path, error: &io::Error) -> DavError {
    DavError {
        call,
        path: path.to_owned(),
        errno: Errno::of(error),
    }
}

#[cfg(test)]
mod tests;
