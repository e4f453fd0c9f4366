//! A server connection that continues in another process.
//!
//! [`Connection::into_bytes`] ends a connection here and serialises all of it;
//! [`Connection::from_bytes`] continues it there. Both sides must have the same version of the
//! library: compare [`crate::library_version`] first. What the library does not write (AWS-LC 1.x
//! calls `SSL_to_bytes` experimental) is written here:
//!
//! ```text
//! version 1 | guard (1) | signature scheme (2) | suites (2 + n) | SSL_to_bytes
//! ```
//!
//! Numbers are big-endian. `from_bytes` sets BIO, callbacks and the guard again. Everything else
//! that an established connection uses belongs to the context or is in the bytes: keys, sequence
//! numbers, the session, the server name, the application protocol, and TLS 1.3 tickets not sent
//! yet. The library's own limit on consecutive KeyUpdates starts over.

use std::fmt;
use std::ptr;

use aws_lc_sys as sys;

use crate::connection::Connection;
use crate::context::Context;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::secret::Secret;
use crate::transmit::Guard;

/// Version of the bytes; changes with every change of the format above.
const VERSION: u8 = 1;
/// Version, guard, scheme, length of the suites.
const HEADER_BYTES: usize = 6;

/// Why a connection cannot continue in another process, at least not now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMovable {
    /// The handshake is not done, or no longer this connection's to finish.
    Handshake,
    /// Early data is still being read (RFC 8446 section 2.3).
    EarlyData,
    /// The library moves TLS 1.2 and 1.3 only.
    Protocol(&'static str),
    /// One side has closed, or the connection has failed.
    Closed,
    /// The peer's request for a KeyUpdate has not been answered yet: write first.
    KeyUpdate,
    /// An alert has not been sent yet.
    Unsent,
    /// Bytes from the peer that have not been read yet, decrypted or not: part of a record, or of a
    /// message in several records.
    Unread,
    /// The library refused.
    Library(Error),
}

impl NotMovable {
    /// One word for counters and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::EarlyData => "early_data",
            Self::Protocol(_) => "protocol",
            Self::Closed => "closed",
            Self::KeyUpdate => "key_update",
            Self::Unsent => "unsent",
            Self::Unread => "unread",
            Self::Library(_) => "library",
        }
    }
}

impl fmt::Display for NotMovable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake => f.write_str("its handshake is not over"),
            Self::EarlyData => f.write_str("it reads early data"),
            Self::Protocol(name) => write!(f, "its protocol is {name}"),
            Self::Closed => f.write_str("it was closed"),
            Self::KeyUpdate => f.write_str("a KeyUpdate is not answered yet"),
            Self::Unsent => f.write_str("an alert is not sent yet"),
            Self::Unread => f.write_str("part of a record or message was received"),
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotMovable {}

impl Connection {
    /// Whether [`into_bytes`](Self::into_bytes) would succeed now, as far as can be known.
    ///
    /// # Errors
    ///
    /// What keeps the connection here.
    pub fn check_movable(&self) -> Result<(), NotMovable> {
        let ssl = self.as_ptr();
        if self.is_early_data() {
            return Err(NotMovable::EarlyData);
        }
        if self.is_handshaking() {
            return Err(NotMovable::Handshake);
        }
        if !self.is_movable_version() {
            return Err(NotMovable::Protocol(self.protocol()));
        }
        // SAFETY: the SSL is valid.
        let (shutdown, has_unread, has_unfinished) = unsafe {
            (
                sys::SSL_get_shutdown(ssl),
                sys::SSL_has_pending(ssl) != 0,
                tls_has_unprocessed_handshake_data(ssl),
            )
        };
        if shutdown != 0 {
            return Err(NotMovable::Closed);
        }
        if self.is_key_update_due() {
            return Err(NotMovable::KeyUpdate);
        }
        if self.guard.as_ref().is_some_and(Guard::has_alert) {
            return Err(NotMovable::Unsent);
        }
        if has_unread || has_unfinished {
            return Err(NotMovable::Unread);
        }
        Ok(())
    }

    /// Ends this connection and serialises it, so that another process can continue it. The bytes
    /// contain its keys. Nothing is sent to the peer.
    ///
    /// # Errors
    ///
    /// The connection as it was and why it cannot move.
    pub fn into_bytes(self) -> Result<Secret, Box<(Self, NotMovable)>> {
        match self.check_movable().and_then(|()| self.to_bytes()) {
            // The SSL is dropped with `self`, so nothing can be sealed with its keys here.
            Ok(bytes) => Ok(bytes),
            Err(reason) => Err(Box::new((self, reason))),
        }
    }

    /// The library no longer uses a connection that it has written.
    fn to_bytes(&self) -> Result<Secret, NotMovable> {
        error::clear_queue();
        let (mut data, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the SSL is valid, and both targets are writable.
        let code = unsafe { sys::SSL_to_bytes(self.as_ptr(), &mut data, &mut length) };
        check("SSL_to_bytes", code).map_err(NotMovable::Library)?;
        let written = Written { data, length };
        let suites = self.client_cipher_suites();
        let suites_length = u16::try_from(suites.len())
            .map_err(|_| NotMovable::Library(Error::local("SSL_to_bytes", "too many suites")))?;
        // Allocated at once, so that a growing vector leaves no secret behind.
        let mut bytes = Vec::with_capacity(HEADER_BYTES + suites.len() + length);
        bytes.push(VERSION);
        bytes.push(u8::from(self.is_transmit_released()));
        bytes.extend_from_slice(&self.signature_scheme().unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(&suites_length.to_be_bytes());
        bytes.extend_from_slice(suites);
        bytes.extend_from_slice(written.as_slice());
        Ok(Secret::new(bytes))
    }

    /// Continues a connection of another process, with the guard if it was set: see
    /// [`is_transmit_released`](Self::is_transmit_released).
    ///
    /// The bytes come from [`into_bytes`](Self::into_bytes) and must be used only once: two
    /// connections with the same keys and sequence numbers would reveal the keys.
    ///
    /// # Errors
    ///
    /// When they are not such bytes, or another version of the library wrote them.
    pub fn from_bytes(context: &Context, bytes: &[u8]) -> Result<Self, Error> {
        error::clear_queue();
        let malformed = || Error::local("SSL_from_bytes", "not a connection of this version");
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(malformed)?;
        let [version, guard, scheme @ .., high, low] = *header;
        if version != VERSION || guard > 1 {
            return Err(malformed());
        }
        let (suites, rest) = rest
            .split_at_checked(usize::from(u16::from_be_bytes([high, low])))
            .ok_or_else(malformed)?;
        // SAFETY: pointer and length describe `rest`; the context is valid, and the SSL
        // takes its own reference.
        let ssl = check_ptr("SSL_from_bytes", unsafe {
            sys::SSL_from_bytes(rest.as_ptr(), rest.len(), context.as_ptr())
        })?;
        // SAFETY: it is valid, and owned by nobody else.
        let mut connection = unsafe { Self::adopt(ssl)? };
        if !connection.is_movable_version() || connection.is_handshaking() {
            return Err(malformed());
        }
        connection.set_signature_scheme(u16::from_be_bytes(scheme));
        connection.set_client_cipher_suites(suites);
        if guard == 1 {
            connection.release_transmit();
        } else {
            // SAFETY: the SSL is valid. The context's callback is for handshakes.
            unsafe { sys::SSL_set_msg_callback(connection.as_ptr(), None) };
        }
        Ok(connection)
    }

    fn is_movable_version(&self) -> bool {
        // SAFETY: the SSL is valid.
        let version = unsafe { sys::SSL_version(self.as_ptr()) };
        (sys::TLS1_2_VERSION..=sys::TLS1_3_VERSION).contains(&version)
    }
}

/// Memory allocated by the library, which wipes what it frees.
struct Written {
    data: *mut u8,
    length: usize,
}

impl Written {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the library has written so many bytes there, and they are owned.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // SAFETY: allocated by the library, and freed once.
        unsafe { sys::OPENSSL_free(self.data.cast()) }
    }
}

unsafe extern "C" {
    /// Whether part of a handshake message waits for the rest. Internal to libssl, and linked by
    /// its C++ name like the function in `record.rs`. The library would write such a part but could
    /// not read it back.
    #[link_name = "_ZN4bssl13aws_lc_0_47_034tls_has_unprocessed_handshake_dataEPK6ssl_st"]
    fn tls_has_unprocessed_handshake_data(ssl: *const sys::SSL) -> bool;
}

#[cfg(test)]
mod tests;
