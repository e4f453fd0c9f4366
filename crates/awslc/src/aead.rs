//! One authenticated cipher, for session tickets.

use std::fmt;
use std::ptr::NonNull;

use aws_lc_sys as sys;

use crate::error::Error;
use crate::ffi::check_ptr;

/// AES-256-GCM-SIV (RFC 8452) under one key.
///
/// The SIV mode is chosen because ticket keys shared by many nodes see far more
/// random nonces than plain GCM tolerates: a repeated nonce here reveals only
/// that two plaintexts were equal.
pub struct Aead(NonNull<sys::EVP_AEAD_CTX>);

// SAFETY: the library documents an EVP_AEAD_CTX as usable by several threads at
// once; sealing and opening take it as const.
unsafe impl Send for Aead {}
// SAFETY: as above.
unsafe impl Sync for Aead {}

impl Aead {
    /// Length of the key in bytes.
    pub const KEY_BYTES: usize = 32;
    /// Length of the nonce in bytes.
    pub const NONCE_BYTES: usize = 12;
    /// Length of the authentication tag in bytes.
    pub const TAG_BYTES: usize = 16;

    /// Prepares `key`.
    pub fn new(key: &[u8; Self::KEY_BYTES]) -> Result<Self, Error> {
        // SAFETY: the key is valid for its length; the algorithm is a static.
        let pointer = check_ptr("EVP_AEAD_CTX_new", unsafe {
            sys::EVP_AEAD_CTX_new(
                sys::EVP_aead_aes_256_gcm_siv(),
                key.as_ptr(),
                key.len(),
                Self::TAG_BYTES,
            )
        })?;
        NonNull::new(pointer)
            .map(Self)
            .ok_or_else(|| Error::local("EVP_AEAD_CTX_new", "out of memory"))
    }

    /// Writes ciphertext and tag to `target`; returns their length, or `None`
    /// when `target` is shorter than `plain` and a tag.
    pub fn seal(
        &self,
        nonce: &[u8; Self::NONCE_BYTES],
        associated: &[u8],
        plain: &[u8],
        target: &mut [u8],
    ) -> Option<usize> {
        let mut length = 0;
        // SAFETY: every pointer comes with the length of its slice, and `target`
        // cannot overlap `plain` as it is borrowed mutably.
        let code = unsafe {
            sys::EVP_AEAD_CTX_seal(
                self.0.as_ptr(),
                target.as_mut_ptr(),
                &mut length,
                target.len(),
                nonce.as_ptr(),
                nonce.len(),
                plain.as_ptr(),
                plain.len(),
                associated.as_ptr(),
                associated.len(),
            )
        };
        self.finish(code, length)
    }

    /// Writes the plaintext to `target`; returns its length, or `None` when the
    /// ciphertext was not sealed under this key, nonce and associated data.
    pub fn open(
        &self,
        nonce: &[u8; Self::NONCE_BYTES],
        associated: &[u8],
        sealed: &[u8],
        target: &mut [u8],
    ) -> Option<usize> {
        let mut length = 0;
        // SAFETY: as in `seal`.
        let code = unsafe {
            sys::EVP_AEAD_CTX_open(
                self.0.as_ptr(),
                target.as_mut_ptr(),
                &mut length,
                target.len(),
                nonce.as_ptr(),
                nonce.len(),
                sealed.as_ptr(),
                sealed.len(),
                associated.as_ptr(),
                associated.len(),
            )
        };
        self.finish(code, length)
    }

    fn finish(&self, code: i32, length: usize) -> Option<usize> {
        if code == 1 {
            return Some(length);
        }
        crate::error::clear_queue();
        None
    }
}

impl Drop for Aead {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aead(redacted)")
    }
}
