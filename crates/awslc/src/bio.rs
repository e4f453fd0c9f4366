//! The `BIO` through which libssl sees the caller's buffers.
//!
//! A [`Transfer`] lives on the stack of one call. It is attached to the `BIO` for the duration of
//! that call and detached before the call returns. So the connection owns no buffer, and an idle
//! connection pays for none. Reading past the end of the input makes libssl retry later. Writing
//! always succeeds, so libssl never holds half-written records.

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use aws_lc_sys as sys;

use crate::callbacks;
use crate::error::Error;
use crate::ffi::{check, check_ptr};
use crate::key_operation::KeyProgress;
use crate::large_hello::LargeHello;
use crate::quic::QuicState;
use crate::session::{Offered, Prefetched, Session};
use crate::transmit::Guard;
use crate::verify::PeerCheck;

/// The caller's buffers, and what callbacks record during one call.
pub(crate) struct Transfer<'a> {
    /// Ciphertext from the peer that libssl has not taken yet.
    pub(crate) input: &'a [u8],
    /// Ciphertext for the peer.
    pub(crate) output: &'a mut Vec<u8>,
    /// If set, nothing reaches `output`, because someone else seals our records.
    pub(crate) guard: Option<&'a mut Guard>,
    /// The signature scheme this side used in its handshake signature.
    pub(crate) signature_scheme: u16,
    /// A server has sent its Finished in TLS 1.3: the client encrypts from now on.
    pub(crate) sent_finished: bool,
    /// KeyUpdates from the client since the last data in either direction.
    pub(crate) key_updates: u8,
    /// How large hellos are accepted.
    pub(crate) large_hello: Option<LargeHello>,
    /// A session that the client side received.
    pub(crate) new_session: Option<Session>,
    /// A session that was looked up before this call.
    pub(crate) prefetched: Option<&'a Prefetched>,
    /// The outcome of the session that the client offered.
    pub(crate) offered: Offered,
    /// The private-key operation that the handshake wants, or its result.
    pub(crate) key: &'a mut Option<Box<KeyProgress>>,
    /// The expected identity of the peer, and why it does not match.
    pub(crate) peer: Option<&'a mut PeerCheck>,
    /// Present on connections for QUIC.
    pub(crate) quic: Option<&'a mut QuicState>,
    /// A panic caught in a callback, to be resumed outside C.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(
        input: &'a [u8],
        output: &'a mut Vec<u8>,
        key: &'a mut Option<Box<KeyProgress>>,
    ) -> Self {
        Self {
            input,
            output,
            guard: None,
            signature_scheme: 0,
            sent_finished: false,
            key_updates: 0,
            large_hello: None,
            new_session: None,
            prefetched: None,
            offered: Offered::Nothing,
            key,
            peer: None,
            quic: None,
            panic: None,
        }
    }

    /// Moves up to `target.len()` bytes of input into `target`.
    pub(crate) fn take(&mut self, target: &mut [u8]) -> usize {
        let count = target.len().min(self.input.len());
        let (taken, rest) = self.input.split_at(count);
        target[..count].copy_from_slice(taken);
        self.input = rest;
        count
    }
}

/// Creates the `BIO` of one connection. The caller owns one reference.
pub(crate) fn new_bio() -> Result<NonNull<sys::BIO>, Error> {
    let method = method()?;
    // SAFETY: the method lives as long as the process.
    let bio = check_ptr("BIO_new", unsafe { sys::BIO_new(method.0.as_ptr()) })?;
    // SAFETY: `bio` is a fresh, valid BIO.
    unsafe {
        sys::BIO_set_data(bio, ptr::null_mut());
        sys::BIO_set_init(bio, 1);
    }
    NonNull::new(bio).ok_or_else(|| Error::local("BIO_new", "out of memory"))
}

struct Method(NonNull<sys::BIO_METHOD>);

// SAFETY: the method table is written once, before it is shared, and only read
// afterwards.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

fn method() -> Result<&'static Method, Error> {
    static METHOD: OnceLock<Option<Method>> = OnceLock::new();
    METHOD
        .get_or_init(|| new_method().ok())
        .as_ref()
        .ok_or_else(|| Error::local("BIO_meth_new", "no BIO method"))
}

fn new_method() -> Result<Method, Error> {
    // SAFETY: the name is a static NUL-terminated string; the callbacks have
    // the signatures that the library declares and live as long as the process.
    unsafe {
        let index = sys::BIO_get_new_index();
        let method = check_ptr(
            "BIO_meth_new",
            sys::BIO_meth_new(
                index | sys::BIO_TYPE_SOURCE_SINK,
                c"caller's buffers".as_ptr(),
            ),
        )?;
        check(
            "BIO_meth_set_read",
            sys::BIO_meth_set_read(method, Some(callbacks::bio_read)),
        )?;
        check(
            "BIO_meth_set_write",
            sys::BIO_meth_set_write(method, Some(callbacks::bio_write)),
        )?;
        check(
            "BIO_meth_set_ctrl",
            sys::BIO_meth_set_ctrl(method, Some(callbacks::bio_ctrl)),
        )?;
        NonNull::new(method)
            .map(Method)
            .ok_or_else(|| Error::local("BIO_meth_new", "out of memory"))
    }
}
