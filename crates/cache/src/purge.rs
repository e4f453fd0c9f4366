//! Removes what somebody wants to be gone.

use crate::key::Hash;
use crate::zone::Zone;
use std::fs;
use std::io;
use std::path::PathBuf;

/// What has become of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Purged {
    /// Its response is gone.
    Gone,
    /// There was none.
    Unknown,
}

impl<F> Zone<F> {
    /// Removes the response of a key. Requests that are reading it go on; one that is still being
    /// received is not stored. Blocks.
    ///
    /// # Errors
    /// The path of the file, and why it cannot be removed.
    pub fn purge(&self, hash: &Hash) -> Result<Purged, (PathBuf, io::Error)> {
        let mut waiting = Vec::new();
        let mut was_there = false;
        let mut shard = self.shard(hash);
        if let Some(entry) = shard.get_mut(hash) {
            was_there = entry.exists;
            entry.forget_file(self);
            entry.failure = 0;
            if let Some(active) = &mut entry.active {
                was_there |= active.fill.take().is_some();
                active.purges = active.purges.wrapping_add(1);
                waiting = std::mem::take(&mut active.waiting);
            }
        }
        drop(shard);
        for waker in waiting {
            waker.wake();
        }
        let path = self.file_path(hash);
        match fs::remove_file(&path) {
            Ok(()) => Ok(Purged::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match was_there {
                true => Purged::Gone,
                false => Purged::Unknown,
            }),
            Err(error) => Err((path, error)),
        }
    }
}
