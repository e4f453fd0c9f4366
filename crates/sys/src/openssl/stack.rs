//! The stacks of jobs.
//!
//! OpenSSL gives a job a stack of 32 KiB from its heap: what needs more overwrites somebody else's
//! memory, and some drivers are not modest. Newer versions let a program provide the stacks
//! (`ASYNC_set_mem_functions`); older ones allocate them like everything else, where they are known
//! by the source file that asks. Here a stack has [`STACK_BYTES`], of which only what is used takes
//! memory, and below it something that ends the process instead.
//!
//! Everything else stays with malloc(3). The program's own allocator would keep it out of core
//! dumps, but providers give what they got from OpenSSL to free(3): tpm2-openssl does.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::functions::Functions;

/// The stack of one job.
const STACK_BYTES: usize = 256 * 1024;
/// What may not be touched below it: more than a page, since a large frame may skip one.
const GUARD_BYTES: usize = 64 * 1024;
/// What older versions ask for (`STACKSIZE`), in a file whose name ends so.
const OLD_STACK_BYTES: usize = 32768;
const OLD_STACK_FILE: &[u8] = b"async/arch/async_posix.c";

/// Stacks that older versions got. Their addresses are those of their upper ends, of which the
/// library knows: the rest is below.
static OLD_STACKS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Has the library ask for all memory here, so that stacks are noticed. To be called before it has
/// allocated anything.
pub(super) fn notice_stacks(functions: &Functions) {
    // Refused if it has: then stacks are as the library makes them.
    // SAFETY: the functions keep to the contracts of malloc, realloc and free, and fit each other.
    unsafe { (functions.CRYPTO_set_mem_functions)(allocate, reallocate, release) };
}

/// Has all jobs that are made from now on use stacks of ours, if the library asks.
pub(super) fn provide_stacks(functions: &Functions) {
    if let Some(set) = functions.set_stack_functions {
        // Refused if there are jobs already: these and later ones then have the library's stacks.
        // SAFETY: both functions have the types that are wanted, and fit each other.
        unsafe { set(allocate_stack, release_stack) };
    }
}

unsafe extern "C" fn allocate(bytes: usize, file: *const c_char, _line: c_int) -> *mut c_void {
    // SAFETY: the file is null or a string that ends with NUL.
    if bytes == OLD_STACK_BYTES && unsafe { is_stack(file) } {
        return allocate_old_stack();
    }
    // SAFETY: takes any size.
    unsafe { libc::malloc(bytes) }
}

unsafe extern "C" fn reallocate(
    block: *mut c_void,
    bytes: usize,
    _file: *const c_char,
    _line: c_int,
) -> *mut c_void {
    // SAFETY: the block is null or one of `allocate`; stacks never change their sizes.
    unsafe { libc::realloc(block, bytes) }
}

unsafe extern "C" fn release(block: *mut c_void, file: *const c_char, _line: c_int) {
    if block.is_null() {
        return;
    }
    // Only the library's code for jobs frees stacks. Whatever else it frees is not looked for.
    // SAFETY: the file is null or a string that ends with NUL.
    let is_about_jobs = unsafe { contains(file, b"async") };
    if is_about_jobs && old_stacks().remove(&block.addr()) {
        let start = STACK_BYTES - OLD_STACK_BYTES;
        // SAFETY: made by `allocate_old_stack`, and not in use any more.
        return unsafe { release_stack(block.byte_sub(start)) };
    }
    // SAFETY: a block of `allocate` or `reallocate`.
    unsafe { libc::free(block) }
}

/// # Safety
///
/// `file` is null or a string that ends with NUL.
unsafe fn is_stack(file: *const c_char) -> bool {
    // SAFETY: not null, and ends with NUL by the caller's promise.
    !file.is_null()
        && unsafe { CStr::from_ptr(file) }
            .to_bytes()
            .ends_with(OLD_STACK_FILE)
}

/// # Safety
///
/// `file` is null or a string that ends with NUL.
unsafe fn contains(file: *const c_char, part: &[u8]) -> bool {
    // SAFETY: not null, and ends with NUL by the caller's promise.
    !file.is_null()
        && unsafe { CStr::from_ptr(file) }
            .to_bytes()
            .windows(part.len())
            .any(|window| window == part)
}

fn allocate_old_stack() -> *mut c_void {
    let mut bytes = 0;
    // SAFETY: the size is stored in a variable of ours.
    let stack = unsafe { allocate_stack(&mut bytes) };
    if stack.is_null() {
        return stack;
    }
    let upper = stack.wrapping_byte_add(STACK_BYTES - OLD_STACK_BYTES);
    old_stacks().insert(upper.addr());
    upper
}

fn old_stacks() -> std::sync::MutexGuard<'static, BTreeSet<usize>> {
    // A set of numbers is consistent between any two calls.
    OLD_STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ASYNC_stack_alloc_fn`: a stack, whose size is stored in `bytes`. Null if there is no memory.
unsafe extern "C" fn allocate_stack(bytes: *mut usize) -> *mut c_void {
    // SAFETY: a new mapping, of which a part is then protected. `bytes` is the library's variable.
    unsafe {
        let area = libc::mmap(
            ptr::null_mut(),
            GUARD_BYTES + STACK_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
            -1,
            0,
        );
        if area == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        // A stack may hold what is secret. Kernels without this mark dump it.
        libc::madvise(area, GUARD_BYTES + STACK_BYTES, libc::MADV_DONTDUMP);
        if libc::mprotect(area, GUARD_BYTES, libc::PROT_NONE) != 0 {
            libc::munmap(area, GUARD_BYTES + STACK_BYTES);
            return ptr::null_mut();
        }
        *bytes = STACK_BYTES;
        area.byte_add(GUARD_BYTES)
    }
}

/// `ASYNC_stack_free_fn`.
unsafe extern "C" fn release_stack(stack: *mut c_void) {
    if stack.is_null() {
        return;
    }
    // SAFETY: made by `allocate_stack`, and not in use any more.
    unsafe { libc::munmap(stack.byte_sub(GUARD_BYTES), GUARD_BYTES + STACK_BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_was_asked_for_like_memory_is_larger_and_guarded() {
        let file = c"../crypto/async/arch/async_posix.c".as_ptr();
        // SAFETY: the functions are called as the library does, and the stack is used within its
        // bounds.
        unsafe {
            let known = allocate(OLD_STACK_BYTES, file, 1);
            let upper: *mut u8 = known.cast();
            let lowest = upper.byte_sub(STACK_BYTES - OLD_STACK_BYTES);
            lowest.write(1);
            upper.byte_add(OLD_STACK_BYTES - 1).write(1);
            let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
            let guard = format!("-{:x} ---p", lowest.addr());
            assert!(maps.contains(&guard), "{guard} is not in:\n{maps}");
            release(known, c"crypto/async/async.c".as_ptr(), 1);
            let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
            assert!(!maps.contains(&guard), "{guard} is still in:\n{maps}");
        }
    }

    #[test]
    fn everything_else_is_memory_as_from_malloc() {
        // SAFETY: the functions are called as the library does.
        unsafe {
            for (bytes, file) in [
                (OLD_STACK_BYTES, c"crypto/mem.c".as_ptr()),
                (OLD_STACK_BYTES, ptr::null()),
                (16, c"crypto/async/arch/async_posix.c".as_ptr()),
            ] {
                let block = allocate(bytes, file, 1);
                assert!(libc::malloc_usable_size(block) < 2 * OLD_STACK_BYTES);
                let block = reallocate(block, 2 * bytes, file, 1);
                assert!(libc::malloc_usable_size(block) >= 2 * bytes);
                release(block, file, 1);
            }
            release(ptr::null_mut(), ptr::null(), 1);
        }
    }
}
