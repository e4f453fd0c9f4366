//! Makes the library use the program's allocator.
//!
//! So its memory is where the program wants it (outside core dumps), and allocation is fast. As
//! with the library's own functions, every block is wiped before it is freed; its size is stored in
//! front of it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Precedes every block. Its alignment is the one that malloc(3) guarantees.
#[repr(C, align(16))]
struct Header {
    /// Bytes after the header.
    size: usize,
}

/// Makes the library use the program's allocator. To be called before anything else of this
/// library. Returns false if the library already has memory functions.
pub fn use_program_allocator() -> bool {
    // SAFETY: the three functions keep to the contracts of malloc, realloc and free. Nothing
    // was allocated before, as the caller promises; the library has no other way to be told.
    let code = unsafe {
        aws_lc_sys::CRYPTO_set_mem_functions(Some(allocate), Some(reallocate), Some(release))
    };
    code == 1
}

fn layout(size: usize) -> Option<Layout> {
    let whole = size.checked_add(size_of::<Header>())?;
    Layout::from_size_align(whole, align_of::<Header>()).ok()
}

unsafe extern "C" fn allocate(size: usize, _: *const c_char, _: c_int) -> *mut c_void {
    let Some(layout) = layout(size) else {
        return ptr::null_mut();
    };
    // SAFETY: the layout is never empty, as it has a header.
    let header = unsafe { alloc(layout) }.cast::<Header>();
    if header.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: there is room for the header, and behind it for `size` bytes.
    unsafe {
        header.write(Header { size });
        header.add(1).cast()
    }
}

unsafe extern "C" fn reallocate(
    old: *mut c_void,
    size: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    // SAFETY: the arguments are of no consequence.
    let new = unsafe { allocate(size, file, line) };
    if new.is_null() || old.is_null() {
        return new;
    }
    // SAFETY: `old` came from `allocate`, so its header says how much there is; both pieces have
    // the bytes that are copied, and are not the same.
    unsafe {
        let kept = (*old.cast::<Header>().sub(1)).size.min(size);
        ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast::<u8>(), kept);
        release(old, file, line);
    }
    new
}

unsafe extern "C" fn release(piece: *mut c_void, _: *const c_char, _: c_int) {
    if piece.is_null() {
        return;
    }
    // SAFETY: `piece` came from `allocate`, so in front of it stands its header, and behind that
    // as many bytes as it says.
    unsafe {
        let header = piece.cast::<Header>().sub(1);
        let size = (*header).size;
        aws_lc_sys::OPENSSL_cleanse(piece, size);
        match layout(size) {
            Some(layout) => dealloc(header.cast(), layout),
            // The header was overwritten: continuing would be worse.
            None => handle_alloc_error(Layout::new::<Header>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(size: usize) -> *mut u8 {
        // SAFETY: the other arguments are of no consequence.
        unsafe { allocate(size, ptr::null(), 0) }.cast()
    }

    #[test]
    fn pieces_are_aligned_keep_their_content_and_can_be_empty() {
        for size in [0, 1, 15, 16, 17, 4096, 1 << 20] {
            let piece = new(size);
            assert_eq!(piece.addr() % 16, 0);
            // SAFETY: the piece has `size` bytes; it is not used after it was reallocated, and
            // the new one not after its release.
            unsafe {
                ptr::write_bytes(piece, 7, size);
                let grown = reallocate(piece.cast(), size + 100, ptr::null(), 0).cast::<u8>();
                assert!((0..size).all(|at| *grown.add(at) == 7), "{size}");
                let shrunk = reallocate(grown.cast(), size / 2, ptr::null(), 0).cast::<u8>();
                assert!((0..size / 2).all(|at| *shrunk.add(at) == 7), "{size}");
                release(shrunk.cast(), ptr::null(), 0);
            }
        }
        // SAFETY: null is allowed in both.
        unsafe {
            release(ptr::null_mut(), ptr::null(), 0);
            release(
                reallocate(ptr::null_mut(), 5, ptr::null(), 0),
                ptr::null(),
                0,
            );
        }
    }

    #[test]
    fn a_size_that_cannot_be_is_refused() {
        assert!(new(usize::MAX).is_null());
        assert!(new(usize::MAX - 15).is_null());
        assert!(new(isize::MAX as usize).is_null());
    }
}
