//! What libssl calls on connections for QUIC: everything is queued for after the call.

use std::ffi::c_int;
use std::slice;

use aws_lc_sys as sys;

use super::{guarded, transfer_of};
use crate::quic::{QuicEvent, QuicLevel, QuicState, QuicSuite, TrafficSecret};

/// The table for `SSL_set_quic_method`.
pub(crate) static METHOD: sys::SSL_QUIC_METHOD = sys::SSL_QUIC_METHOD {
    set_read_secret: Some(set_read_secret),
    set_write_secret: Some(set_write_secret),
    add_handshake_data: Some(add_handshake_data),
    flush_flight: Some(flush_flight),
    send_alert: Some(send_alert),
};

unsafe extern "C" fn set_read_secret(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    cipher: *const sys::SSL_CIPHER,
    secret: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: libssl passes a valid SSL and suite, and `length` readable bytes.
    unsafe {
        add_secret(
            ssl,
            level,
            cipher,
            slice::from_raw_parts(secret, length),
            |level, secret| QuicEvent::ReadSecret { level, secret },
        )
    }
}

unsafe extern "C" fn set_write_secret(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    cipher: *const sys::SSL_CIPHER,
    secret: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: as in `set_read_secret`.
    unsafe {
        add_secret(
            ssl,
            level,
            cipher,
            slice::from_raw_parts(secret, length),
            |level, secret| QuicEvent::WriteSecret { level, secret },
        )
    }
}

/// # Safety
///
/// `ssl` and `cipher` are valid, and the BIO is ours.
unsafe fn add_secret(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    cipher: *const sys::SSL_CIPHER,
    secret: &[u8],
    event: fn(QuicLevel, TrafficSecret) -> QuicEvent,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe {
        let suite = QuicSuite::from_wire(sys::SSL_CIPHER_get_protocol_id(cipher));
        let secret = suite.and_then(|suite| TrafficSecret::new(suite, secret));
        match (QuicLevel::from_library(level), secret) {
            (Some(level), Some(secret)) => {
                queue(ssl, |state| state.add_event(event(level, secret)))
            }
            _ => 0,
        }
    }
}

unsafe extern "C" fn add_handshake_data(
    ssl: *mut sys::SSL,
    level: sys::ssl_encryption_level_t,
    data: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: libssl passes a valid SSL and `length` readable bytes, at least one.
    unsafe {
        let data = slice::from_raw_parts(data, length);
        match QuicLevel::from_library(level) {
            Some(level) => queue(ssl, |state| state.add_data(level, data)),
            None => 0,
        }
    }
}

/// Whoever takes the events has all of a flight, as they are taken after the call.
unsafe extern "C" fn flush_flight(_ssl: *mut sys::SSL) -> c_int {
    1
}

unsafe extern "C" fn send_alert(
    ssl: *mut sys::SSL,
    _level: sys::ssl_encryption_level_t,
    alert: u8,
) -> c_int {
    // SAFETY: libssl passes a valid SSL.
    unsafe { queue(ssl, |state| state.note_alert(alert)) }
}

/// Changes the state of the connection. Returns 1, or 0 to end the handshake.
///
/// # Safety
///
/// `ssl` is valid and its BIO is ours.
unsafe fn queue(ssl: *mut sys::SSL, change: impl FnOnce(&mut QuicState)) -> c_int {
    // SAFETY: by the caller's promise. The transfer is not borrowed while a panic is kept.
    unsafe {
        let done = guarded(ssl, false, || {
            let transfer = transfer_of(sys::SSL_get_wbio(ssl));
            match transfer.and_then(|transfer| transfer.quic.as_deref_mut()) {
                Some(state) => {
                    change(state);
                    true
                }
                None => false,
            }
        });
        c_int::from(done)
    }
}
