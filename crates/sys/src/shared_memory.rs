//! Numbers that several processes read and write at the same time.

use crate::CheckReturn;
use crate::memfd;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use zerocopy::{FromBytes, IntoBytes};

/// Size of one number in bytes.
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Anonymous memory (memfd_create(2)) of numbers, all zero at first.
///
/// It is shared with children and with every process that is given the descriptor. Its size is
/// sealed, so that no process can take pages away from the others. Any of them can change the
/// content at any time, so a reader must cope with any value. Pages are allocated when first
/// written. It must not hold secrets.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value and is reached through atomics only.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; atomics may be used by several threads.
unsafe impl Sync for SharedMemory {}

/// Its size cannot change, which cannot be undone.
const SEALS: i32 = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

impl SharedMemory {
    /// Creates memory for `words` numbers, at least one.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    pub fn new(words: usize) -> io::Result<SharedMemory> {
        let size = words.checked_mul(WORD_BYTES).filter(|size| *size > 0);
        let size = size.and_then(|size| i64::try_from(size).ok());
        let size = size.ok_or(io::ErrorKind::InvalidInput)?;
        let fd = memfd::create(c"sealane shared")?;
        // SAFETY: no memory is involved.
        unsafe { libc::ftruncate(fd.as_raw_fd(), size) }.check()?;
        // SAFETY: the command takes an integer and no pointer.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) }.check()?;
        SharedMemory::map(fd, words)
    }

    /// The memory that another process has created with [`SharedMemory::new`] and passed on.
    ///
    /// # Errors
    /// `InvalidData` when it is something else: memory whose size can change is a signal
    /// waiting to be sent.
    pub fn from_fd(fd: OwnedFd) -> io::Result<SharedMemory> {
        // SAFETY: the command has no argument.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) }.check();
        let is_sealed = seals.is_ok_and(|seals| seals & SEALS == SEALS);
        let file = std::fs::File::from(fd);
        let size = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        if !is_sealed || size == 0 || !size.is_multiple_of(WORD_BYTES) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        SharedMemory::map(OwnedFd::from(file), size / WORD_BYTES)
    }

    fn map(fd: OwnedFd, words: usize) -> io::Result<SharedMemory> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * WORD_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { fd, start, words })
    }

    /// The numbers, kept until the process ends.
    pub fn leak(self) -> &'static [AtomicU64] {
        let memory: &'static SharedMemory = Box::leak(Box::new(self));
        memory.words()
    }

    /// The numbers.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many numbers, is aligned to a page and lives as long as
        // `self`; its size cannot change; zeroed pages are initialised; all access, in every
        // process, is through atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

/// Numbers as a structure of atomics: of any type that all bit patterns are valid for, since other
/// processes may write any. `None` if they are too few, or not aligned for it.
pub fn as_counters<T: FromBytes + IntoBytes + Sync>(
    words: &'static [AtomicU64],
) -> Option<&'static T> {
    let start = words.as_ptr().cast::<T>();
    if size_of_val(words) < size_of::<T>() || !start.is_aligned() {
        return None;
    }
    // SAFETY: the memory is there for good, large enough and aligned. `T` has no padding and
    // no pointers, and every bit pattern is a value of it. What is reached through `&T` can be
    // changed through atomics only, as through `words`.
    Some(unsafe { &*start })
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping of this value, which ends here.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * WORD_BYTES) };
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn what_one_writes_the_other_reads() {
        let here = SharedMemory::new(1000).expect("room");
        assert!(here.words().iter().all(|word| word.load(SeqCst) == 0));
        let fd = here.as_fd().try_clone_to_owned().expect("a descriptor");
        let there = SharedMemory::from_fd(fd).expect("the same memory");
        assert_eq!(there.words().len(), 1000);
        here.words()[999].store(7, SeqCst);
        assert_eq!(there.words()[999].load(SeqCst), 7);
        drop(here);
        assert_eq!(there.words()[999].load(SeqCst), 7);
    }

    #[test]
    fn words_are_seen_as_a_structure() {
        #[derive(FromBytes, IntoBytes)]
        #[repr(C)]
        struct Two {
            first: AtomicU64,
            second: AtomicU64,
        }
        let words = SharedMemory::new(3).expect("room").leak();
        let two: &Two = as_counters(&words[1..]).expect("two words");
        words[2].store(9, SeqCst);
        two.first.store(8, SeqCst);
        assert_eq!((two.second.load(SeqCst), words[1].load(SeqCst)), (9, 8));
        assert!(as_counters::<Two>(&words[2..]).is_none());
    }

    #[test]
    fn nobody_can_take_pages_away() {
        let memory = SharedMemory::new(1000).expect("room");
        let fd = memory.as_fd().try_clone_to_owned().expect("a descriptor");
        let file = File::from(fd);
        assert!(file.set_len(8).is_err() && file.set_len(1 << 20).is_err());
    }

    #[test]
    fn what_is_not_sealed_is_not_used() {
        assert!(SharedMemory::new(0).is_err());
        assert!(SharedMemory::new(usize::MAX).is_err());
        for path in ["/dev/null", "/proc/self/exe"] {
            let file = File::open(path).expect("there");
            assert!(SharedMemory::from_fd(file.into()).is_err(), "{path}");
        }
    }
}
