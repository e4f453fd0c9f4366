//! What libssl calls with the secrets of connections, in debug builds.

use std::ffi::{CStr, c_char};
use std::panic::catch_unwind;

use aws_lc_sys as sys;

/// Appends a line to the key log.
pub(crate) unsafe extern "C" fn key_log(_ssl: *const sys::SSL, line: *const c_char) {
    // SAFETY: libssl passes text that ends with a zero byte, and keeps it during the call.
    let line = unsafe { CStr::from_ptr(line) };
    // Without this line the log has a gap; libssl need not hear of it.
    let _ = catch_unwind(|| crate::key_log::append(line.to_bytes()));
}
