//! Resumable sessions, and what seals and stores them.

use std::ffi::c_int;
use std::fmt;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::context::Context;
use crate::error::Error;
use crate::ffi::{check, check_ptr};

/// A resumable TLS session: immutable, reference counted.
pub struct Session(NonNull<sys::SSL_SESSION>);

// SAFETY: established sessions are immutable and counted atomically; libssl
// shares them between threads itself.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Session {
    /// Takes over one reference.
    ///
    /// # Safety
    ///
    /// `pointer` is a valid session and the caller gives its reference away.
    pub(crate) unsafe fn from_owned(pointer: NonNull<sys::SSL_SESSION>) -> Self {
        Self(pointer)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::SSL_SESSION {
        self.0.as_ptr()
    }

    /// Gives the reference away.
    pub(crate) fn into_ptr(self) -> *mut sys::SSL_SESSION {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Serialised form, readable by the same version of the library anywhere.
    /// It contains the session's secret.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes: *mut u8 = ptr::null_mut();
        let mut length = 0;
        // SAFETY: the session is valid; both out pointers are writable.
        check("SSL_SESSION_to_bytes", unsafe {
            sys::SSL_SESSION_to_bytes(self.as_ptr(), &mut bytes, &mut length)
        })?;
        // SAFETY: on success the library hands out `length` readable bytes,
        // which are copied and then given back (it wipes what it frees).
        unsafe {
            let copy = std::slice::from_raw_parts(bytes, length).to_vec();
            sys::OPENSSL_free(bytes.cast());
            Ok(copy)
        }
    }

    /// Reads what [`Session::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8], context: &Context) -> Result<Self, Error> {
        // SAFETY: the slice and the context are valid for the call.
        unsafe { Self::from_bytes_raw(bytes, context.as_ptr()) }
    }

    /// # Safety
    ///
    /// `context` is a valid SSL_CTX.
    pub(crate) unsafe fn from_bytes_raw(
        bytes: &[u8],
        context: *const sys::SSL_CTX,
    ) -> Result<Self, Error> {
        // SAFETY: by the caller's promise, and the slice is valid.
        let pointer = check_ptr("SSL_SESSION_from_bytes", unsafe {
            sys::SSL_SESSION_from_bytes(bytes.as_ptr(), bytes.len(), context)
        })?;
        NonNull::new(pointer)
            .map(Self)
            .ok_or_else(|| Error::local("SSL_SESSION_from_bytes", "out of memory"))
    }

    /// The session id under which a stateful server finds the session.
    pub fn id(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the session is valid and immutable, so the bytes live as long
        // as `self`.
        unsafe {
            let id = sys::SSL_SESSION_get_id(self.as_ptr(), &mut length);
            std::slice::from_raw_parts(id, length as usize)
        }
    }

    /// Whether the session carries a ticket.
    pub fn has_ticket(&self) -> bool {
        // SAFETY: the session is valid.
        unsafe { sys::SSL_SESSION_has_ticket(self.as_ptr()) != 0 }
    }

    /// Lifetime in seconds, counted from when it was made.
    pub fn timeout_s(&self) -> u32 {
        // SAFETY: the session is valid.
        unsafe { sys::SSL_SESSION_get_timeout(self.as_ptr()) }
    }
}

impl Clone for Session {
    fn clone(&self) -> Self {
        // SAFETY: adds a reference to a valid session.
        let code: c_int = unsafe { sys::SSL_SESSION_up_ref(self.as_ptr()) };
        debug_assert_eq!(code, 1, "adding a reference cannot fail");
        Self(self.0)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::SSL_SESSION_free(self.as_ptr()) }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(redacted)")
    }
}

/// What opening a ticket gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketOpened {
    /// So many bytes of plaintext were written.
    Plain(usize),
    /// Not one of ours, damaged, or sealed under a key that is gone: the
    /// handshake goes on as a full one.
    Ignore,
}

/// Seals and opens session tickets. Called on whichever thread runs the
/// handshake, so it must not depend on thread-local state.
pub trait TicketCipher: Send + Sync {
    /// Bytes that sealing adds at most.
    fn overhead_bytes(&self) -> usize;
    /// Seals `plain` into `target`; `None` leaves the client without a ticket
    /// in TLS 1.2 and fails the handshake in TLS 1.3.
    fn seal(&self, plain: &[u8], target: &mut [u8]) -> Option<usize>;
    /// Opens `ticket` into `target`, which is as long as the ticket.
    fn open(&self, ticket: &[u8], target: &mut [u8]) -> TicketOpened;
}

/// Keeps sessions of TLS 1.2 and below by their id. Called on whichever thread
/// runs the handshake; must not block for long.
pub trait SessionStore: Send + Sync {
    /// Stores a serialised session.
    fn insert(&self, id: &[u8], session: Vec<u8>);
    /// Appends the serialised session to `target`, or returns `false`.
    fn get(&self, id: &[u8], target: &mut Vec<u8>) -> bool;
}
