//! The pid file.

use sealane_log::OsError;
use sealane_sys::guard::{FileId, Guard, Open};
use sealane_sys::process::Pid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest pid file that is read: a number and a line end.
const MAX_PID_FILE_BYTES: u64 = 32;

/// The pid file of this process. It stays until [`PidFile::remove`], because a
/// forked worker that ends must not take it away.
///
/// The file that was created is renamed and removed, whatever its path leads to by then.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// What the path named when the file had been made: a link, if it is one.
    id: FileId,
    /// It is next to the new binary's, as `.oldbin`.
    aside: bool,
}

/// What nginx adds to the name of the old binary's pid file.
const ASIDE_SUFFIX: &str = ".oldbin";

impl PidFile {
    /// Writes the id of this process.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn create(path: &Path, pid: Pid, guard: &Guard) -> Result<PidFile, String> {
        let opened = guard.open(path, Open::Write(0o644));
        let mut file = opened.map_err(|error| failed("open", path, &error))?;
        // Emptied only now that it is known to be the file meant; a FIFO has no size.
        let _ = file.set_len(0);
        writeln!(file, "{pid}").map_err(|error| {
            format!(
                "write() to \"{}\" failed ({})",
                path.display(),
                OsError(&error)
            )
        })?;
        let id = guard.find_name(path).and_then(|place| place.entry());
        let id = id.and_then(|id| id.ok_or_else(|| io::ErrorKind::NotFound.into()));
        Ok(PidFile {
            path: path.to_owned(),
            id: id.map_err(|error| failed("lstat", path, &error))?,
            aside: false,
        })
    }

    /// The same when another process has the file with this name.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn create_aside(path: &Path, pid: Pid, guard: &Guard) -> Result<PidFile, String> {
        let file = PidFile::create(&aside(path), pid, guard)?;
        Ok(PidFile {
            path: path.to_owned(),
            aside: true,
            ..file
        })
    }

    /// Its name in the configuration.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes room for the new binary's.
    ///
    /// # Errors
    /// Which call failed.
    pub(crate) fn set_aside(&mut self, guard: &Guard) -> Result<(), String> {
        let place = guard.find_name(&self.path);
        place
            .and_then(|place| place.put_aside(ASIDE_SUFFIX, self.id))
            .map_err(|error| rename_failed(&self.path, &aside(&self.path), &error))?;
        self.aside = true;
        Ok(())
    }

    /// Restores its name.
    ///
    /// # Errors
    /// Which call failed.
    pub(crate) fn put_back(&mut self, guard: &Guard) -> Result<(), String> {
        if self.aside {
            let place = guard.find_name(&self.path);
            place
                .and_then(|place| place.put_back(ASIDE_SUFFIX, self.id))
                .map_err(|error| rename_failed(&aside(&self.path), &self.path, &error))?;
            self.aside = false;
        }
        Ok(())
    }

    /// Whether the file with the name of this one names that process.
    pub(crate) fn names(&self, pid: Pid, guard: &Guard) -> bool {
        read(&self.path, guard) == Ok(pid)
    }

    /// Removes what the old binary's process, which was killed, has left behind.
    pub(crate) fn remove_aside_of(&self, killed: Pid, guard: &Guard) {
        let left = aside(&self.path);
        if let Ok((file, _)) = open(&left, guard)
            && let Ok(id) = FileId::of(&file)
            && number(&file, &left) == Ok(killed)
        {
            let place = guard.find_name(&left);
            let _ = place.and_then(|place| place.remove(id)); // another one overwrites it
        }
    }

    /// Checks that the file could be written, for `-t`; leaves no new file
    /// behind.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn check(path: &Path, guard: &Guard) -> Result<(), String> {
        let checked = guard.find(path).and_then(|place| {
            let made = match place.create_new(0o644) {
                Ok(made) => made,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return place.open(Open::Write(0o644)).map(drop);
                }
                Err(error) => return Err(error),
            };
            let _ = place.remove(FileId::of(&made)?); // it stays empty at worst
            Ok(())
        });
        checked.map_err(|error| failed("open", path, &error))
    }

    /// Removes the file.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn remove(&self, guard: &Guard) -> Result<(), String> {
        let path = if self.aside {
            aside(&self.path)
        } else {
            self.path.clone()
        };
        let place = guard.find_name(&path);
        place
            .and_then(|place| place.remove(self.id))
            .map_err(|error| failed("unlink", &path, &error))
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ASIDE_SUFFIX);
    name.into()
}

fn rename_failed(from: &Path, to: &Path, error: &io::Error) -> String {
    let (from, to) = (from.display(), to.display());
    format!(
        "rename() \"{from}\" to \"{to}\" failed ({})",
        OsError(error)
    )
}

/// Reads the pid of a running master.
///
/// # Errors
/// nginx's message: the file cannot be read, or holds no number. Also when it belongs to the user
/// that `guard` distrusts: that user's file is no reason to signal a process.
pub(crate) fn read(path: &Path, guard: &Guard) -> Result<Pid, String> {
    let (file, is_of_guest) = open(path, guard).map_err(|error| failed("open", path, &error))?;
    if is_of_guest {
        return Err(format!(
            "pid file \"{}\" belongs to the user of worker processes, who can write any number \
             into it: send the signal to the process ID of the master, and make root the owner of \
             the directory",
            path.display()
        ));
    }
    number(&file, path)
}

/// Whatever is there, nobody waits for it. Whether it belongs to a guest is told as well.
fn open(path: &Path, guard: &Guard) -> io::Result<(File, bool)> {
    let file = guard.open(path, Open::Read)?;
    let owner = file.metadata()?.uid();
    Ok((file, guard.is_against(owner)))
}

fn number(file: &File, path: &Path) -> Result<Pid, String> {
    let mut text = Vec::new();
    file.take(MAX_PID_FILE_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| failed("read", path, &error))?;
    let number = text.trim_ascii_end();
    let pid = std::str::from_utf8(number)
        .ok()
        .and_then(|text| text.parse().ok());
    // 0 and negative numbers would signal whole process groups.
    pid.filter(|&pid: &Pid| pid > 0).ok_or_else(|| {
        format!(
            "invalid PID number \"{}\" in \"{}\"",
            number.escape_ascii(),
            path.display()
        )
    })
}

fn failed(call: &str, path: &Path, error: &io::Error) -> String {
    format!(
        "{call}() \"{}\" failed ({})",
        path.display(),
        OsError(error)
    )
}

#[cfg(test)]
mod tests;
