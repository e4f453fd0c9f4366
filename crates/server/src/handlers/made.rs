//! Responses that are made as a whole before they are sent: indices of MP4 files, directory
//! listings.
//!
//! They take megabytes when a file is large enough, and a client may read them as slowly as it
//! likes. Therefore both the work that is done at a time ([`WORK_BYTES`]) and the results that
//! wait for clients ([`WAITING_BYTES`]) are bounded for all worker threads together. Further
//! work waits; further results go to temporary files.

use crate::temp_file::{TempFile, TempFileError};
use bytes::Bytes;
use sealane_conf::model::TempPath;
use sealane_io::chain::Segment;
use sealane_sys::memory;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory for responses that are being made; one that needs more is made alone.
const WORK_BYTES: usize = 24 << 20;

/// Memory for complete responses until they are sent. Further ones go to temporary files.
const WAITING_BYTES: usize = 16 << 20;

/// The longest response that waits there.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Responses up to this length are not counted: a connection needs more than that anyway.
const SMALL_BYTES: usize = 64 << 10;

static WORK: Work = Work {
    used_bytes: Mutex::new(0),
    freed: Condvar::new(),
};

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Waits until there is room to make a response of this size. Blocks as long as others take to make
/// theirs; only for disk threads that then wait for nothing else.
pub(super) fn wait_for_room(bytes: usize) -> Room {
    WORK.wait_for_room(bytes)
}

/// Stores a response until its client reads it: in memory, or in a file below `temp_path`. Blocks.
///
/// # Errors
/// When there is no room in memory, and the file cannot be written.
pub(super) fn keep(temp_path: &TempPath, answer: Vec<u8>) -> Result<Segment, TempFileError> {
    if answer.len() <= SMALL_BYTES {
        return Ok(Segment::Memory(answer.into()));
    }
    match Waiting::of(answer) {
        Ok(waiting) => Ok(Segment::Memory(Bytes::from_owner(waiting))),
        Err(answer) => TempFile::written_blocking(temp_path, &answer),
    }
}

struct Work {
    used_bytes: Mutex<usize>,
    freed: Condvar,
}

impl Work {
    fn wait_for_room(&'static self, bytes: usize) -> Room {
        let bytes = bytes.min(WORK_BYTES);
        let has_no_room = |used: &mut usize| *used + bytes > WORK_BYTES;
        let used = self.freed.wait_while(self.used(), has_no_room);
        *used.unwrap_or_else(PoisonError::into_inner) += bytes;
        Room { work: self, bytes }
    }

    fn used(&self) -> MutexGuard<'_, usize> {
        // A number is whole whatever has panicked.
        let used = self.used_bytes.lock();
        used.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share of that memory, until it is dropped by the thread that has done the work.
pub(super) struct Room {
    work: &'static Work,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        // Another thread is likely to make the next one.
        memory::give_back();
        *self.work.used() -= self.bytes;
        self.work.freed.notify_all();
    }
}

/// A response in memory, counted until it is dropped.
struct Waiting(Box<[u8]>);

impl Waiting {
    /// Returns the response if there is no room.
    fn of(answer: Vec<u8>) -> Result<Waiting, Vec<u8>> {
        if answer.len() > MAX_WAITING_BYTES {
            return Err(answer);
        }
        let more = |used: usize| Some(used + answer.len()).filter(|used| *used <= WAITING_BYTES);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        match WAITING.fetch_update(success, failure, more) {
            Ok(_) => Ok(Waiting(answer.into_boxed_slice())),
            Err(_) => Err(answer),
        }
    }
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp_file::tests::TestDirectory;

    /// One test for everything, as the counts are those of the process.
    #[test]
    fn what_waits_beyond_the_limit_is_in_files() {
        let temp_path = TestDirectory::new([0; 3]);
        let answer = || vec![b'a'; MAX_WAITING_BYTES];
        let keep = |answer| super::keep(&temp_path.0, answer).expect("there is room");
        let is_file = |segment: &Segment| matches!(segment, Segment::File(_));
        let room_for = WAITING_BYTES / MAX_WAITING_BYTES;
        let first: Vec<_> = (0..room_for).map(|_| keep(answer())).collect();
        assert!(!first.iter().any(is_file));
        let more = keep(answer());
        assert!(is_file(&more));
        assert_eq!(more.len(), MAX_WAITING_BYTES as u64);
        assert!(!is_file(&keep(vec![b'a'; SMALL_BYTES])));
        drop(first);
        assert!(!is_file(&keep(answer())));
        assert!(is_file(&keep(vec![b'a'; MAX_WAITING_BYTES + 1])));
    }

    #[test]
    fn work_waits_for_room() {
        let room = wait_for_room(usize::MAX);
        let waiting = std::thread::spawn(|| drop(wait_for_room(1)));
        assert_eq!(*WORK.used(), WORK_BYTES);
        drop(room);
        waiting.join().expect("there is room again");
    }
}
