//! Keeps the heap out of core dumps, and returns memory to the system.
//!
//! The heap holds private keys, keys of tickets and connections, passwords, and data from clients.
//! A core dump without it still has what is needed to find a fault: registers, the stacks of all
//! threads, and the program's variables.

use crate::CheckReturn;
use std::ffi::c_void;
use std::io;

/// Address space reserved for the heap. It costs only addresses.
const HEAP_BYTES: usize = 64 << 30;

/// If address space is limited (`ulimit -v`), reserving less than this is not worth it.
const LEAST_HEAP_BYTES: usize = 256 << 20;

/// Size of the pieces in which the allocator gets the memory: half of what it could take, with room
/// to spare for its tables.
const PIECE_BYTES: usize = 8 << 30;

/// From now on the heap of this process, and of processes forked from it, is not part of core
/// dumps: both the existing heap and a region of addresses in which the allocator grows from now
/// on. To be called first, while there is only one thread. Returns the size of that region in
/// bytes. Heap beyond it would be dumped.
///
/// # Errors
/// When the kernel has no such mark, or no addresses are to be had.
pub fn keep_heap_out_of_dumps() -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    for (start, len) in maps.lines().filter_map(heap_mapping) {
        exclude(start as *mut c_void, len)?;
    }
    let mut len = HEAP_BYTES;
    let start = loop {
        match reserve(len) {
            Ok(start) => break start,
            Err(error) if len / 2 < LEAST_HEAP_BYTES => return Err(error),
            Err(_) => len /= 2,
        }
    };
    exclude(start, len)?;
    hand_over(start, len)?;
    Ok(len)
}

/// Returns memory that this thread has freed to the system. Otherwise the thread would keep some of
/// it for its next work, which on one of many threads may come late.
pub fn give_back() {
    // SAFETY: no memory that is in use is touched.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

/// From now on no page of this process is written to swap space once it has been touched
/// (mlockall(2)).
///
/// # Errors
/// `ENOMEM` or `EPERM` when `RLIMIT_MEMLOCK` does not allow it; everything stays as it was.
pub fn keep_out_of_swap() -> io::Result<()> {
    // On fault: what is reserved and not used would be allocated otherwise.
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the content of memory does not change.
    unsafe { libc::mlockall(flags) }.check()?;
    Ok(())
}

/// Maps memory that costs nothing until it is written.
fn reserve(len: usize) -> io::Result<*mut c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping somewhere; no memory of ours is touched.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start)
}

fn exclude(start: *mut c_void, len: usize) -> io::Result<()> {
    // SAFETY: the mark changes nothing about the memory but whether it is dumped.
    unsafe { libc::madvise(start, len, libc::MADV_DONTDUMP) }.check()?;
    Ok(())
}

/// Gives the memory to the allocator, which uses it before asking the kernel.
fn hand_over(start: *mut c_void, len: usize) -> io::Result<()> {
    for offset in (0..len).step_by(PIECE_BYTES) {
        let piece = PIECE_BYTES.min(len - offset);
        // SAFETY: the piece is part of the mapping that `reserve` made: zeroed, used by nobody
        // else, and never unmapped. The allocator aligns it by itself.
        let taken = unsafe {
            libmimalloc_sys::mi_manage_os_memory_ex(
                start.byte_add(offset),
                piece,
                true,  // readable and writable
                false, // no huge pages that cannot be given back
                true,  // all zeros
                -1,    // any node
                false, // for all threads
                std::ptr::null_mut(),
            )
        };
        if !taken {
            return Err(io::Error::other("the allocator does not take the memory"));
        }
    }
    Ok(())
}

/// Address and length of a line of `/proc/PID/maps` that is heap: private, writable, and neither a
/// file mapping nor a stack.
fn heap_mapping(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let name = words.nth(3).unwrap_or_default();
    let anonymous = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    if !permissions.starts_with("rw") || !permissions.ends_with('p') || !anonymous {
        return None;
    }
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heap_among_mappings() {
        for (line, expected) in [
            (
                "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ",
                Some((0x7f00_0000_0000, 0x2000)),
            ),
            (
                "5600-5700 rw-p 00000000 00:00 0                  [heap]",
                Some((0x5600, 0x100)),
            ),
            (
                "5600-5700 rw-p 00000000 00:00 0   [anon:mimalloc]",
                Some((0x5600, 0x100)),
            ),
            ("5600-5700 rw-p 00000000 00:00 0  [stack]", None),
            ("5600-5700 r--p 00000000 00:00 0 ", None),
            ("5600-5700 rw-s 00000000 00:01 7  /dev/zero (deleted)", None),
            ("5600-5700 rw-p 00003000 08:01 42 /usr/lib/libc.so.6", None),
            ("rubbish", None),
            ("", None),
        ] {
            assert_eq!(heap_mapping(line), expected, "{line}");
        }
    }
}
