//! Hellos of more than 16 KiB.
//!
//! libssl accepts a message of more than 16 KiB only from peers that may send a certificate chain.
//! So once a client has begun such a hello, its connection claims that it may, until libssl has the
//! hello and before it decides whether to ask for a certificate: [`crate::callbacks::message`] sees
//! every ClientHello as soon as it is read. After a HelloRetryRequest the same is done for the
//! second hello.

use aws_lc_sys as sys;

use crate::connection::Connection;

/// Permission for a connection to send a large hello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeHello {
    max_bytes: usize,
    /// The normal limit for what the client sends.
    usual_bytes: usize,
    asks_for_certificate: bool,
}

impl Connection {
    /// Lets libssl accept a ClientHello of up to `max_bytes`. Call it before the handshake, on a
    /// server whose context watches messages
    /// ([`watch_messages`](crate::ContextBuilder::watch_messages)).
    pub fn allow_large_hello(&mut self, max_bytes: usize) {
        // SAFETY: the SSL is valid and in its handshake.
        unsafe {
            let large = LargeHello {
                max_bytes,
                usual_bytes: sys::SSL_get_max_cert_list(self.as_ptr()),
                asks_for_certificate: sys::SSL_get_verify_mode(self.as_ptr())
                    != sys::SSL_VERIFY_NONE,
            };
            large.expect(self.as_ptr());
            self.large_hello = Some(large);
        }
    }
}

impl LargeHello {
    /// Raises the limit, because a hello comes next.
    ///
    /// # Safety
    ///
    /// `ssl` is valid and in its handshake.
    pub(crate) unsafe fn expect(self, ssl: *mut sys::SSL) {
        // SAFETY: by the caller's promise.
        unsafe {
            sys::SSL_set_max_cert_list(ssl, self.max_bytes);
            if !self.asks_for_certificate {
                sys::SSL_set_custom_verify(ssl, sys::SSL_VERIFY_PEER, None);
            }
        }
    }

    /// Restores the limit, because the hello has arrived.
    ///
    /// # Safety
    ///
    /// As [`expect`](Self::expect).
    pub(crate) unsafe fn received(self, ssl: *mut sys::SSL) {
        // SAFETY: by the caller's promise.
        unsafe {
            sys::SSL_set_max_cert_list(ssl, self.usual_bytes);
            if !self.asks_for_certificate {
                sys::SSL_set_custom_verify(ssl, sys::SSL_VERIFY_NONE, None);
            }
        }
    }
}
