//! Passes bytes to another process through memory, so that they never reach a disk.

use crate::CheckReturn;
use crate::file;
use crate::memfd;
use crate::process::{self, Pid};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Anonymous memory with a descriptor (memfd_create(2)), for secrets.
///
/// A process that is given the descriptor can read it but cannot change its content or size. Only
/// the creator can write, and it wipes the memory when this value is dropped. The pages are not in
/// core dumps of this process, are not inherited by its children and, if the limits allow it, are
/// not swapped out.
#[derive(Debug)]
pub struct SealedMemory {
    fd: OwnedFd,
    start: NonNull<u8>,
    len: usize,
    /// The creator; its children do not have the mapping.
    owner: Pid,
}

impl SealedMemory {
    /// Creates memory of `len` bytes, at least one, which `fill` writes.
    ///
    /// # Errors
    /// When the kernel has no room, or no such memory (Linux before 5.1).
    pub fn new(len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<SealedMemory> {
        if len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = memfd::create(c"sealane")?;
        let size = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // Allocated at once, so that a lack of memory is an error here and not a signal later.
        // SAFETY: no memory is involved.
        unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, size) }.check()?;
        let mut memory = SealedMemory::map(fd, len)?;
        fill(memory.bytes_mut());
        memory.seal()?;
        Ok(memory)
    }

    fn map(fd: OwnedFd, len: usize) -> io::Result<SealedMemory> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let owner = process::pid();
        let memory = SealedMemory {
            fd,
            start,
            len,
            owner,
        };
        for advice in [libc::MADV_DONTDUMP, libc::MADV_DONTFORK] {
            // SAFETY: the range is the mapping just made; the advice does not change its content.
            unsafe { libc::madvise(memory.start.as_ptr().cast(), len, advice) }.check()?;
        }
        // Best effort: the administrator decides who may lock how much.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { libc::mlock(memory.start.as_ptr().cast(), len) };
        Ok(memory)
    }

    /// From here on only the mapping of this value can write.
    fn seal(&self) -> io::Result<()> {
        let seals =
            libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        // SAFETY: the command takes an integer and no pointer.
        unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }.check()?;
        Ok(())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes, lives as long as `self`, can be written and, as
        // the descriptor is not given away mutably and no other mapping is made here, nobody
        // else writes it; zeroed pages are initialised bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SealedMemory {
    fn drop(&mut self) {
        if self.owner != process::pid() {
            return;
        }
        for at in 0..self.len {
            // SAFETY: `at` is within the mapping. Volatile, as nobody here reads it again.
            unsafe { self.start.add(at).write_volatile(0) };
        }
        // SAFETY: the range is the mapping of this value, which ends here.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl AsFd for SealedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What nobody can do with a sealed file.
const FILE_SEALS: i32 =
    libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// An anonymous file in memory with these bytes, which nobody can change any more: for secrets that
/// another process is given now, and perhaps one after it. No process has it mapped, so it is in no
/// core dump; it is gone with its last descriptor.
///
/// # Errors
/// When the kernel has no room, or no such files (Linux before 3.17).
pub fn sealed_file(pieces: &[&[u8]]) -> io::Result<OwnedFd> {
    let file = filled(pieces)?;
    seal(&file)?;
    Ok(file.into())
}

/// The same, with the first `count` bytes of another file behind `pieces`. The kernel copies those:
/// they are never in the memory of this process. May block on the other file's disk.
///
/// # Errors
/// As [`sealed_file`], and `UnexpectedEof` when the other file is shorter.
pub fn sealed_file_with(
    pieces: &[&[u8]],
    other: BorrowedFd<'_>,
    count: usize,
) -> io::Result<OwnedFd> {
    let sealed = filled(pieces)?;
    let mut copied = 0;
    while copied < count {
        match file::sendfile(sealed.as_fd(), other, copied as u64, count - copied)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => copied += more,
        }
    }
    seal(&sealed)?;
    Ok(sealed.into())
}

/// Whether a descriptor is that of a [`sealed_file`]: reading it never blocks, and yields the same
/// bytes each time.
pub fn is_sealed_file(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: the command takes no argument.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) }.check();
    seals.is_ok_and(|seals| seals & FILE_SEALS == FILE_SEALS)
}

fn filled(pieces: &[&[u8]]) -> io::Result<File> {
    let mut file = File::from(memfd::create(c"sealane")?);
    for piece in pieces {
        file.write_all(piece)?;
    }
    Ok(file)
}

fn seal(file: &File) -> io::Result<()> {
    // SAFETY: the command takes an integer and no pointer.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, FILE_SEALS) }.check()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn content(fd: BorrowedFd<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        file::read_at(fd, &mut bytes, 100, 0).expect("readable");
        bytes
    }

    #[test]
    fn others_read_what_was_filled_in_and_can_change_nothing() {
        let memory = SealedMemory::new(6, |bytes| bytes.copy_from_slice(b"secret")).expect("room");
        let given = memory.as_fd().try_clone_to_owned().expect("a descriptor");
        assert_eq!(content(given.as_fd()), b"secret");
        let mut file = File::from(given);
        assert!(file.write(b"x").is_err());
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(3).is_err() && file.set_len(100).is_err());
        assert_eq!(content(file.as_fd()), b"secret");
    }

    #[test]
    fn what_is_dropped_is_wiped_for_whoever_still_has_it() {
        let memory = SealedMemory::new(6, |bytes| bytes.copy_from_slice(b"secret")).expect("room");
        let given = memory.as_fd().try_clone_to_owned().expect("a descriptor");
        drop(memory);
        assert_eq!(content(given.as_fd()), [0; 6]);
    }

    #[test]
    fn a_file_is_mapped_nowhere_and_stays_as_it_was_written() {
        let fd = sealed_file(&[b"sec", b"", b"ret"]).expect("room");
        assert_eq!(content(fd.as_fd()), b"secret");
        let mut file = File::from(fd);
        assert!(file.write(b"x").is_err() && file.write_at(b"x", 0).is_err());
        assert!(file.set_len(3).is_err() && file.set_len(100).is_err());
        assert_eq!(content(file.as_fd()), b"secret");
        assert!(is_sealed_file(file.as_fd()));
    }

    #[test]
    fn a_file_may_end_with_what_another_one_has() {
        let path = std::env::temp_dir().join(format!("sealane-sealed-{}", process::pid()));
        std::fs::write(&path, b"a key").expect("writable");
        let other = File::open(&path).expect("just written");
        std::fs::remove_file(&path).expect("just written");
        assert!(!is_sealed_file(other.as_fd()));
        let fd = sealed_file_with(&[b"head: "], other.as_fd(), 3).expect("room");
        assert_eq!(content(fd.as_fd()), b"head: a k");
        assert!(is_sealed_file(fd.as_fd()));
        let error = sealed_file_with(&[], other.as_fd(), 6).expect_err("it is shorter");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_mapping_is_left_out_of_dumps_and_children() {
        let memory = SealedMemory::new(5000, |bytes| bytes.fill(7)).expect("room");
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("/proc is mounted");
        let start = format!("{:x}-", memory.start.as_ptr() as usize);
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
        let flags = lines
            .find(|line| line.starts_with("VmFlags:"))
            .expect("flags");
        assert!(flags.contains(" dd") && flags.contains(" dc"), "{flags}");
    }

    #[test]
    fn nothing_cannot_be_handed_over() {
        assert!(SealedMemory::new(0, |_| ()).is_err());
    }
}
