//! What libssl calls while it only opens a hello.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use aws_lc_sys as sys;

/// The slot of an SSL with a pointer to the `Option<Vec<u8>>` that gets the inner hello. It is
/// libssl's slot for applications, which nothing else here uses.
pub(crate) const INNER_HELLO: c_int = 0;

/// The length of a message's header.
const HEADER_BYTES: usize = 4;

/// Keeps the hello that was opened, and ends the handshake.
pub(crate) unsafe extern "C" fn take_inner_hello(
    hello: *const sys::SSL_CLIENT_HELLO,
) -> sys::ssl_select_cert_result_t {
    // SAFETY: libssl passes a valid hello of an SSL whose slot is filled by `EchOpener::open`, with
    // a pointer that nobody else uses meanwhile.
    unsafe {
        let ssl = (*hello).ssl;
        let target = sys::SSL_get_ex_data(ssl, INNER_HELLO).cast::<Option<Vec<u8>>>();
        if sys::SSL_ech_accepted(ssl) == 1 && !target.is_null() {
            let body = slice::from_raw_parts((*hello).client_hello, (*hello).client_hello_len);
            let copied = catch_unwind(AssertUnwindSafe(|| {
                let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
                // A hello is shorter than 2^24 bytes, or libssl would not have taken it.
                let length = body.len() as u32 | u32::from(sys::SSL3_MT_CLIENT_HELLO as u8) << 24;
                message.extend_from_slice(&length.to_be_bytes());
                message.extend_from_slice(body);
                message
            }));
            *target = copied.ok();
        }
    }
    sys::ssl_select_cert_result_t_ssl_select_cert_error
}
