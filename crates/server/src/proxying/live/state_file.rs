//! The file of `state`, which holds the servers of a group.
//!
//! It is replaced as a whole, and is on the disk before a change takes effect: whatever happens
//! meanwhile, the file has the servers from before the change or from after it.

use crate::temp_file::{Durability, TempFile, TempFileError};
use sealane_conf::model::UpstreamState;
use sealane_conf::upstream_state::StateText;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file of a group.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// CRC-32 sum of the content that is known; `None` if there is no file.
    known: Mutex<Option<u32>>,
}

/// Why a change cannot be written down.
#[derive(Debug)]
pub(crate) enum StateError {
    /// Somebody else has changed the file.
    Foreign(PathBuf),
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It cannot be written.
    Unwritten(TempFileError),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Foreign(path) => write!(
                f,
                "state file \"{}\" was changed by somebody else; reload to take it over",
                path.display()
            ),
            StateError::Unreadable(path, error) => {
                let (path, error) = (path.display(), sealane_log::OsError(error));
                write!(f, "state file \"{path}\" cannot be read ({error})")
            }
            StateError::Unwritten(error) => write!(f, "state file: {error}"),
        }
    }
}

impl StateFile {
    /// The file as the configuration has read it.
    pub(super) fn new(conf: &UpstreamState) -> StateFile {
        StateFile {
            path: conf.path.clone(),
            known: Mutex::new(conf.sum),
        }
    }

    /// Whether what a configuration has read is what is known here, or was until a change in the
    /// meantime.
    pub(crate) fn is_known(&self, conf: &UpstreamState) -> bool {
        if conf.path != self.path {
            return false;
        }
        let known = self.known();
        conf.sum == *known || sum_of(&self.path).is_ok_and(|found| found == *known)
    }

    /// Replaces the content of the file. Blocks.
    ///
    /// # Errors
    /// The file is as it was before, except that a change of its directory may not be on the disk
    /// yet.
    pub(crate) fn write(&self, lines: &[u8]) -> Result<(), StateError> {
        let mut known = self.known();
        // A file behind a link is replaced where it is.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        match sum_of(&path) {
            Ok(found) if found == *known => {}
            Ok(_) => return Err(StateError::Foreign(self.path.clone())),
            Err(error) => return Err(StateError::Unreadable(self.path.clone(), error)),
        }
        let content = StateText::written(lines);
        replace(&path, &content).map_err(StateError::Unwritten)?;
        *known = Some(crc32fast::hash(&content));
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Option<u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn replace(path: &Path, content: &[u8]) -> Result<(), TempFileError> {
    let file = TempFile::create_beside_blocking(path)?;
    file.write_blocking(content)?;
    file.rename_blocking(path, Durability::Whole)?;
    // The file has its name; whether that survives a power failure is up to the kernel otherwise.
    if let Some(directory) = path.parent()
        && let Ok(directory) = File::open(directory)
    {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// The sum of a file; `None` if there is none.
fn sum_of(path: &Path) -> io::Result<Option<u32>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(crc32fast::hash(&content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
