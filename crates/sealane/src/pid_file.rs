//! The pid file.

use sealane_server::log::OsError;
use sealane_sys::guard::{Guard, Open};
use sealane_sys::process::Pid;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Longest pid file that is read: a number and a line end.
const MAX_PID_FILE_BYTES: u64 = 32;

/// The pid file of this process. It stays until [`PidFile::remove`], because a
/// forked worker that ends must not take it away.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// It stands beside the new binary's, as `.oldbin`.
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
        let mut file = open(path, guard).map_err(|error| open_failed(path, &error))?;
        // Emptied only now that it is known to be the file meant; a FIFO has no size.
        let _ = file.set_len(0);
        writeln!(file, "{pid}").map_err(|error| {
            format!(
                "write() to \"{}\" failed ({})",
                path.display(),
                OsError(&error)
            )
        })?;
        Ok(PidFile {
            path: path.to_owned(),
            aside: false,
        })
    }

    /// The same where another process has the file with this name.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn create_aside(path: &Path, pid: Pid, guard: &Guard) -> Result<PidFile, String> {
        PidFile::create(&aside(path), pid, guard)?;
        Ok(PidFile {
            path: path.to_owned(),
            aside: true,
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
    pub(crate) fn set_aside(&mut self) -> Result<(), String> {
        rename(&self.path, &aside(&self.path))?;
        self.aside = true;
        Ok(())
    }

    /// Puts it in its place again.
    ///
    /// # Errors
    /// Which call failed.
    pub(crate) fn put_back(&mut self) -> Result<(), String> {
        if self.aside {
            rename(&aside(&self.path), &self.path)?;
            self.aside = false;
        }
        Ok(())
    }

    /// Whether the file with the name of this one names that process.
    pub(crate) fn names(&self, pid: Pid) -> bool {
        read(&self.path) == Ok(pid)
    }

    /// Removes what the old binary's process, which was killed, has left behind.
    pub(crate) fn remove_aside_of(&self, killed: Pid) {
        let left = aside(&self.path);
        if read(&left) == Ok(killed) {
            let _ = fs::remove_file(left); // another one overwrites it
        }
    }

    /// Checks that the file could be written, for `-t`; leaves no file behind
    /// that was not there.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn check(path: &Path, guard: &Guard) -> Result<(), String> {
        let existed = path.exists();
        open(path, guard).map_err(|error| open_failed(path, &error))?;
        if !existed {
            let _ = fs::remove_file(path); // a race with another process at worst
        }
        Ok(())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// nginx's message.
    pub(crate) fn remove(&self) -> Result<(), String> {
        let path = if self.aside {
            aside(&self.path)
        } else {
            self.path.clone()
        };
        fs::remove_file(&path).map_err(|error| {
            format!(
                "unlink() \"{}\" failed ({})",
                path.display(),
                OsError(&error)
            )
        })
    }
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ASIDE_SUFFIX);
    name.into()
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| {
        let (from, to) = (from.display(), to.display());
        format!(
            "rename() \"{from}\" to \"{to}\" failed ({})",
            OsError(&error)
        )
    })
}

/// Opens the file for writing, or makes it.
fn open(path: &Path, guard: &Guard) -> io::Result<fs::File> {
    guard.open(path, Open::Write(0o644))
}

/// Reads the pid of a running master.
///
/// # Errors
/// nginx's message: the file cannot be read, or holds no number.
pub(crate) fn read(path: &Path) -> Result<Pid, String> {
    // Whatever is there, nobody waits for it.
    let file = Guard::default().open(path, Open::Read);
    let file = file.map_err(|error| open_failed(path, &error))?;
    let mut text = Vec::new();
    file.take(MAX_PID_FILE_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| format!("read() \"{}\" failed ({})", path.display(), OsError(&error)))?;
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

fn open_failed(path: &Path, error: &io::Error) -> String {
    format!("open() \"{}\" failed ({})", path.display(), OsError(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sealane-pid-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_is_written_is_read_and_removed() {
        let path = temporary("round");
        let file = PidFile::create(&path, 4321, &Guard::default()).expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "4321\n");
        assert_eq!(read(&path), Ok(4321));
        file.remove().expect("there");
        assert!(
            read(&path)
                .expect_err("gone")
                .contains("failed (2: No such file or directory)")
        );
    }

    #[test]
    fn the_file_makes_room_and_comes_back() {
        let path = temporary("aside");
        let mut file = PidFile::create(&path, 7, &Guard::default()).expect("writable");
        file.set_aside().expect("renamed");
        assert!(!path.exists() && !file.names(7));
        let new = PidFile::create(&path, 8, &Guard::default()).expect("writable");
        assert!(file.names(8));
        assert_eq!(read(&aside(&path)), Ok(7));
        new.remove().expect("there");
        file.put_back().expect("renamed");
        assert_eq!(read(&path), Ok(7));
        file.set_aside().expect("renamed");
        file.remove_aside_of(8);
        assert!(aside(&path).exists(), "it is another one's");
        file.remove().expect("there");
        assert!(!aside(&path).exists());
        let mut gone = PidFile::create(&path, 7, &Guard::default()).expect("writable");
        fs::remove_file(&path).expect("there");
        assert!(gone.set_aside().expect_err("gone").contains("rename() \""));
    }

    #[test]
    fn what_is_no_pid_is_refused() {
        let path = temporary("bad");
        for text in ["", "\n", "abc", "-1", "0", "12 34", "99999999999999999999"] {
            fs::write(&path, text).expect("writable");
            let message = read(&path).expect_err(text);
            assert!(message.starts_with("invalid PID number \""), "{message}");
        }
        fs::remove_file(&path).expect("there");
    }

    #[test]
    fn checking_leaves_nothing_behind_and_keeps_what_is_there() {
        let path = temporary("check");
        PidFile::check(&path, &Guard::default()).expect("writable");
        assert!(!path.exists());
        fs::write(&path, "7\n").expect("writable");
        PidFile::check(&path, &Guard::default()).expect("writable");
        assert_eq!(read(&path), Ok(7));
        fs::remove_file(&path).expect("there");
        assert!(PidFile::check(Path::new("/nonexistent/x.pid"), &Guard::default()).is_err());
    }
}
