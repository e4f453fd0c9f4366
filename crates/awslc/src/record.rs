//! Application records sealed straight into the caller's output.
//!
//! `SSL_write` allocates a buffer for every record, seals into it and then copies it through the
//! BIO. For large bodies that costs about a tenth to a fifth of the throughput (measured with the
//! example `figures` of `sealane-tls`, once with each). So records are sealed by libssl's own
//! record function, with the spare capacity of the output `Vec` as its target. Keys, sequence
//! number and framing remain libssl's, so the nonce still has exactly one owner.
//!
//! The function is internal to libssl and linked by its C++ name, which contains the version of the
//! library: another version fails to link. Its contract, which `do_tls_write` in `ssl/s3_pkt.cc`
//! follows: the handshake is done, nothing is in the write buffer or in a pending flight, input and
//! output do not overlap, and the input fits in one record.

use std::ffi::{c_int, c_void};

use aws_lc_sys as sys;

use crate::error::Error;

/// The most plaintext in one record (RFC 8446 section 5.1).
pub(crate) const MAX_PLAIN_BYTES: usize = 16_384;

unsafe extern "C" {
    #[link_name = "_ZN4bssl13aws_lc_0_47_015tls_seal_recordEP6ssl_stPhPmmhPKhm"]
    fn tls_seal_record(
        ssl: *mut sys::SSL,
        out: *mut u8,
        out_length: *mut usize,
        max_out_length: usize,
        record_type: u8,
        input: *const u8,
        input_length: usize,
    ) -> bool;
}

/// Appends `plain` to `output` in records of at most `record_bytes`.
///
/// # Safety
///
/// `ssl` is valid, its handshake is finished and everything queued has just been
/// flushed with an empty `SSL_write`.
pub(crate) unsafe fn seal(
    ssl: *mut sys::SSL,
    plain: &[u8],
    record_bytes: usize,
    output: &mut Vec<u8>,
) -> Result<(), Error> {
    let record_bytes = record_bytes.clamp(1, MAX_PLAIN_BYTES);
    // SAFETY: `ssl` is valid.
    let overhead = unsafe { sys::SSL_max_seal_overhead(ssl) };
    let records = plain.len().div_ceil(record_bytes);
    output.reserve(plain.len() + records * overhead);
    for chunk in plain.chunks(record_bytes) {
        let spare = output.spare_capacity_mut();
        let mut written = 0;
        // SAFETY: `spare` is writable for its length (libssl writes it before it
        // reads it) and cannot overlap `chunk`; the state of `ssl` is as the
        // caller promises, and sealing keeps it so.
        let sealed = unsafe {
            tls_seal_record(
                ssl,
                spare.as_mut_ptr().cast(),
                &mut written,
                spare.len(),
                APPLICATION_DATA,
                chunk.as_ptr(),
                chunk.len(),
            )
        };
        if !sealed {
            return Err(Error::drain("SSL_write"));
        }
        // SAFETY: libssl initialised `written` bytes of the spare capacity.
        unsafe { output.set_len(output.len() + written) };
    }
    Ok(())
}

/// Flushes libssl's queue: tickets, an answer to a KeyUpdate.
///
/// # Safety
///
/// `ssl` is valid and its BIO has a transfer attached.
pub(crate) unsafe fn flush(ssl: *mut sys::SSL) -> c_int {
    // SAFETY: no bytes are read for a length of 0.
    unsafe { sys::SSL_write(ssl, std::ptr::null::<c_void>(), 0) }
}

/// `application_data` (RFC 8446 section 5.1).
const APPLICATION_DATA: u8 = 23;
