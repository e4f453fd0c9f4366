//! Resumable sessions, and the traits that seal and store them.

use std::ffi::c_int;
use std::fmt;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::context::Context;
use crate::error::Error;
use crate::ffi::{check, check_ptr};
use crate::secret::Secret;

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

    /// Gives up the reference.
    pub(crate) fn into_ptr(self) -> *mut sys::SSL_SESSION {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// Serialised form, readable by the same version of the library on any machine. It contains the
    /// session's secret.
    ///
    /// # Errors
    ///
    /// When the session cannot be resumed, or libssl has no memory.
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
    ///
    /// # Errors
    ///
    /// The bytes are not a session of this version of the library.
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

    /// Whether it should be offered only once, as tickets of TLS 1.3 should (RFC 8446 appendix
    /// C.4).
    pub fn is_for_one_use(&self) -> bool {
        // SAFETY: the session is valid.
        unsafe { sys::SSL_SESSION_should_be_single_use(self.as_ptr()) != 0 }
    }

    /// When it was made, in seconds since the epoch.
    pub fn made_s(&self) -> u64 {
        // SAFETY: the session is valid.
        unsafe { sys::SSL_SESSION_get_time(self.as_ptr()) }
    }

    /// Whether the server that issued it accepts early data with it.
    pub fn takes_early_data(&self) -> bool {
        // SAFETY: the session is valid.
        unsafe { sys::SSL_SESSION_early_data_capable(self.as_ptr()) != 0 }
    }

    /// A copy with another lifetime, counted from its creation: for a client that offers what a
    /// server may no longer accept.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn copy_with_timeout_s(
        &self,
        timeout_s: u32,
        context: &crate::ClientContext,
    ) -> Result<Self, Error> {
        let copy = Self::from_bytes(&self.to_bytes()?, context.context())?;
        // SAFETY: the session is valid, and nobody else has it yet.
        unsafe { sys::SSL_SESSION_set_timeout(copy.as_ptr(), timeout_s) };
        Ok(copy)
    }

    /// Lifetime in seconds, counted from its creation.
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

/// Why a session that a client offered could not be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Miss {
    /// None of our keys has the ticket's name: the ticket is foreign, or its key is gone.
    UnknownKey,
    /// The key is ours, but the ticket was altered or truncated.
    Damaged,
    /// Nothing is kept under this id, or no longer.
    NotFound,
    /// It has expired.
    Expired,
    /// It belongs to another server, another set of client CAs or another policy.
    OtherContext,
}

/// The result of opening a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketOpened {
    /// This many bytes of plaintext were written.
    Plain(usize),
    /// It cannot be used: the handshake continues as a full one.
    Miss(Miss),
}

/// Seals and opens session tickets. Called on whichever thread runs the
/// handshake, so it must not depend on thread-local state. `now_s` is the time
/// in seconds since the epoch.
pub trait TicketCipher: Send + Sync {
    /// The most bytes that sealing adds.
    fn overhead_bytes(&self) -> usize;
    /// Seals `plain` into `target`; `None` leaves the client without a ticket
    /// in TLS 1.2 and fails the handshake in TLS 1.3.
    fn seal(&self, plain: &[u8], target: &mut [u8], now_s: u64) -> Option<usize>;
    /// Opens `ticket` into `target`, which is as long as the ticket.
    fn open(&self, ticket: &[u8], target: &mut [u8], now_s: u64) -> TicketOpened;
}

/// Keeps sessions of TLS 1.2 and below by their id. Called on whichever thread
/// runs the handshake; must not block for long. Times are in seconds since the
/// epoch.
pub trait SessionStore: Send + Sync {
    /// Stores a serialised session, which is useless after `expires_s`.
    fn insert(&self, id: &[u8], session: Secret, expires_s: u64, now_s: u64);
    /// Appends the serialised session to `target`.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn get(&self, id: &[u8], target: &mut Vec<u8>, now_s: u64) -> Result<(), Miss>;
}

/// The result of a look-up made before libssl asks: for the ticket or the session id in `key`, the
/// serialised session or the reason why there is none.
pub struct Prefetched {
    key: Vec<u8>,
    found: Result<Secret, Miss>,
}

impl Prefetched {
    /// The result for exactly this ticket or id; libssl gets nothing for any other.
    pub fn new(key: Vec<u8>, found: Result<Secret, Miss>) -> Self {
        Self { key, found }
    }

    /// Whether there is no session, so that none will be resumed.
    pub fn is_miss(&self) -> bool {
        self.found.is_err()
    }

    pub(crate) fn find(&self, key: &[u8]) -> Result<&Secret, Miss> {
        if self.key != key {
            return Err(Miss::NotFound);
        }
        self.found.as_ref().map_err(|miss| *miss)
    }
}

impl fmt::Debug for Prefetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.found {
            Ok(_) => "Prefetched(found)",
            Err(_) => "Prefetched(none)",
        })
    }
}

/// The outcome of the session that a client offered, as far as callbacks know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offered {
    /// None was examined.
    #[default]
    Nothing,
    /// A ticket that opened to a matching session.
    Ticket,
    /// A session id of TLS 1.2 or below, found and fitting.
    SessionId,
    /// A ticket or an id that gave no session.
    Missed(Miss),
}
