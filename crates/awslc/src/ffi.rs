//! Return codes and C strings, converted once.

use std::ffi::{CStr, c_char, c_int};

use crate::error::Error;

/// A call that returns 1 on success: anything else becomes the error queue.
pub(crate) fn check(call: &'static str, code: c_int) -> Result<(), Error> {
    if code == 1 {
        Ok(())
    } else {
        Err(Error::drain(call))
    }
}

/// A call that returns an owned pointer, or null on failure.
pub(crate) fn check_ptr<T>(call: &'static str, pointer: *mut T) -> Result<*mut T, Error> {
    if pointer.is_null() {
        Err(Error::drain(call))
    } else {
        Ok(pointer)
    }
}

/// A static string of the library: `None` for null or for bytes outside UTF-8.
pub(crate) fn static_str(pointer: *const c_char) -> Option<&'static str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: callers pass only pointers that the library documents as static,
    // NUL-terminated strings.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// A length for an `int` parameter. Longer input is truncated, and every caller handles the rest
/// with the next call.
pub(crate) fn int_length(length: usize) -> c_int {
    c_int::try_from(length).unwrap_or(c_int::MAX)
}
