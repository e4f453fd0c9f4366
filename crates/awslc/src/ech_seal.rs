//! Sealing inner hellos (RFC 9849 section 6.1), for clients that send what libssl's own never
//! would: fuzzers and tests.

use std::fmt;
use std::ptr::NonNull;

use aws_lc_sys as sys;

use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};

/// Where in a configuration the length of its public key is: behind version, length, id and KEM.
const KEY_AT: usize = 7;

/// What the context of every seal begins with.
const LABEL: &[u8] = b"tls ech\0";

/// The length of an X25519 public key, in bytes.
const KEY_BYTES: usize = 32;

/// How much longer than what is inside a seal is, in bytes: the tag of AES-128-GCM.
pub const ECH_TAG_BYTES: usize = 16;

/// Seals the inner hello of one connection, with HKDF-SHA256 and AES-128-GCM.
pub struct EchSealer {
    context: NonNull<sys::EVP_HPKE_CTX>,
    enc: [u8; KEY_BYTES],
}

impl EchSealer {
    /// Seals for the key of the first configuration of a list, as it is published.
    ///
    /// # Errors
    ///
    /// When there is none for an X25519 key, or libssl has no memory.
    pub fn new(config_list: &[u8]) -> Result<Self, Error> {
        error::clear_queue();
        let unusable = || Error::local("EchSealer", "no configuration with an X25519 key");
        let config = config_list.get(2..).and_then(|configs| {
            let length: [u8; 2] = configs.get(2..4)?.try_into().ok()?;
            configs.get(..4 + usize::from(u16::from_be_bytes(length)))
        });
        let config = config.ok_or_else(unusable)?;
        let key = config.get(KEY_AT..KEY_AT + 2 + KEY_BYTES);
        let key = key.and_then(|key| key.strip_prefix(&[0, KEY_BYTES as u8]));
        let key = key.ok_or_else(unusable)?;
        let info = [LABEL, config].concat();
        // SAFETY: allocates.
        let context = check_ptr("EVP_HPKE_CTX_new", unsafe { sys::EVP_HPKE_CTX_new() })?;
        let context = NonNull::new(context)
            .ok_or_else(|| Error::local("EVP_HPKE_CTX_new", "out of memory"))?;
        let mut sealer = Self {
            context,
            enc: [0; KEY_BYTES],
        };
        let mut length = 0;
        // SAFETY: all pointers have the lengths beside them; the algorithms are static.
        check("EVP_HPKE_CTX_setup_sender", unsafe {
            sys::EVP_HPKE_CTX_setup_sender(
                sealer.context.as_ptr(),
                sealer.enc.as_mut_ptr(),
                &mut length,
                KEY_BYTES,
                sys::EVP_hpke_x25519_hkdf_sha256(),
                sys::EVP_hpke_hkdf_sha256(),
                sys::EVP_hpke_aes_128_gcm(),
                key.as_ptr(),
                key.len(),
                info.as_ptr(),
                info.len(),
            )
        })?;
        Ok(sealer)
    }

    /// The encapsulated key, which stands beside the seal.
    pub fn enc(&self) -> &[u8] {
        &self.enc
    }

    /// Seals an encoded inner hello. `outer` is the outer one with zeros in the place of the seal.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn seal(&mut self, outer: &[u8], inner: &[u8]) -> Result<Vec<u8>, Error> {
        error::clear_queue();
        let mut sealed = vec![0; inner.len() + ECH_TAG_BYTES];
        let mut length = 0;
        // SAFETY: the context is valid and not used elsewhere; all others have the lengths beside
        // them.
        check("EVP_HPKE_CTX_seal", unsafe {
            sys::EVP_HPKE_CTX_seal(
                self.context.as_ptr(),
                sealed.as_mut_ptr(),
                &mut length,
                sealed.len(),
                inner.as_ptr(),
                inner.len(),
                outer.as_ptr(),
                outer.len(),
            )
        })?;
        sealed.truncate(length);
        Ok(sealed)
    }
}

impl Drop for EchSealer {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; the library wipes it.
        unsafe { sys::EVP_HPKE_CTX_free(self.context.as_ptr()) }
    }
}

impl fmt::Debug for EchSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EchSealer")
    }
}
