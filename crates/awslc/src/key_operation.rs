//! The private-key operation of a handshake, as a value.
//!
//! libssl does not hold a server's key, nor that of a client whose key is elsewhere. Its callbacks
//! record the operation, and the handshake returns [`crate::HandshakeStatus::Pending`]. The driver
//! of the connection takes the [`KeyOperation`], has it computed wherever that is best, by
//! [`PrivateKey::perform`] or by other means, returns the result and continues the handshake, on
//! any thread.

use std::ffi::c_int;
use std::fmt;
use std::ptr;

use aws_lc_sys as sys;

use crate::PrivateKey;
use crate::connection::Connection;
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::secret::Secret;

/// One private-key operation of a handshake.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyOperation {
    /// A signature over `input` (CertificateVerify of RFC 8446 section 4.4.3 and, by clients, RFC
    /// 5246 section 7.4.8; ServerKeyExchange of RFC 8422 section 5.4).
    Sign {
        /// The scheme's IANA number; 0xff01 is libssl's for MD5 with SHA-1 (TLS 1.1 and below).
        scheme: u16,
        /// The message, not hashed yet.
        input: Vec<u8>,
    },
    /// RSA's private operation without padding, for the RSA key exchange of TLS 1.2 and below
    /// (RFC 5246 section 7.4.7.1). libssl removes the padding in constant time.
    Decrypt {
        /// The encrypted premaster secret.
        input: Vec<u8>,
    },
}

impl KeyOperation {
    /// The hash of the message that is signed, for devices that take a hash. `None`: nothing is
    /// hashed before the operation (decryption, Ed25519), or the scheme is unknown.
    ///
    /// # Errors
    ///
    /// When libcrypto fails.
    pub fn hashed(&self) -> Result<Option<Vec<u8>>, Error> {
        let Self::Sign { scheme, input } = self else {
            return Ok(None);
        };
        // SAFETY: returns null or a static for any number.
        let digest = unsafe { sys::SSL_get_signature_algorithm_digest(*scheme) };
        if digest.is_null() {
            return Ok(None);
        }
        Ok(Some(Hash::of(input, digest)?.bytes().to_vec()))
    }
}

impl fmt::Debug for KeyOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sign { scheme, .. } => write!(f, "Sign({scheme:#06x})"),
            Self::Decrypt { .. } => f.write_str("Decrypt"),
        }
    }
}

/// The progress of a connection's operation.
pub(crate) enum KeyProgress {
    /// libssl has asked.
    Asked(KeyOperation),
    /// The operation was taken; its result is awaited.
    Taken,
    /// For libssl to collect; `None` ends the handshake.
    Answered(Option<Secret>),
}

impl Connection {
    /// The operation that the handshake is waiting for, once, after
    /// [`crate::HandshakeStatus::Pending`].
    pub fn take_key_operation(&mut self) -> Option<KeyOperation> {
        let progress = self.key.as_deref_mut()?;
        match std::mem::replace(progress, KeyProgress::Taken) {
            KeyProgress::Asked(operation) => Some(operation),
            other => {
                *progress = other;
                None
            }
        }
    }

    /// Whether the result that libssl collects next is a failure.
    pub(crate) fn has_failed_key_operation(&self) -> bool {
        matches!(self.key.as_deref(), Some(KeyProgress::Answered(None)))
    }

    /// Provides the result of the operation taken; call [`do_handshake`](Self::do_handshake) next.
    /// `None` means that it failed: the handshake then ends with the alert `internal_error`.
    pub fn complete_key_operation(&mut self, result: Option<Secret>) {
        if let Some(progress) = self.key.as_deref_mut() {
            *progress = KeyProgress::Answered(result);
        }
    }
}

impl PrivateKey {
    /// Performs the operation as libssl would with the key.
    ///
    /// # Errors
    ///
    /// When the operation does not fit the key, or the library fails.
    pub fn perform(&self, operation: &KeyOperation) -> Result<Secret, Error> {
        error::clear_queue();
        match operation {
            KeyOperation::Sign { scheme, input } => self.sign(*scheme, input),
            KeyOperation::Decrypt { input } => self.rsa_raw(input).map(Secret::new),
        }
    }

    /// The number that an RSA key raises to its private exponent for this operation: big-endian, as
    /// long as the modulus. The power is the operation's result.
    ///
    /// # Errors
    ///
    /// When the key is not an RSA key or too small for the scheme.
    pub fn rsa_encoded(&self, operation: &KeyOperation) -> Result<Vec<u8>, Error> {
        // SAFETY: the key is valid.
        unsafe { rsa_encoded(self.as_ptr(), operation) }
    }

    fn sign(&self, scheme: u16, input: &[u8]) -> Result<Secret, Error> {
        // SAFETY: answers for any number: null where the scheme hashes by itself.
        let digest = unsafe { sys::SSL_get_signature_algorithm_digest(scheme) };
        let run = Digesting::new()?;
        let mut key_run = ptr::null_mut();
        // SAFETY: all pointers are valid; `key_run` belongs to `run` and is used while it
        // lives; the target has the size that the library asks for.
        unsafe {
            check(
                "EVP_DigestSignInit",
                sys::EVP_DigestSignInit(
                    run.0,
                    &mut key_run,
                    digest,
                    ptr::null_mut(),
                    self.as_ptr(),
                ),
            )?;
            set_padding(key_run, scheme)?;
            let mut signature = vec![0; sys::EVP_PKEY_size(self.as_ptr()) as usize];
            let mut length = signature.len();
            check(
                "EVP_DigestSign",
                sys::EVP_DigestSign(
                    run.0,
                    signature.as_mut_ptr(),
                    &mut length,
                    input.as_ptr(),
                    input.len(),
                ),
            )?;
            signature.truncate(length);
            Ok(Secret::new(signature))
        }
    }
}

/// Verifies a signature as a client would.
///
/// # Safety
///
/// `key` is a valid key.
pub(crate) unsafe fn verify(
    key: *mut sys::EVP_PKEY,
    scheme: u16,
    input: &[u8],
    signature: &[u8],
) -> Result<(), Error> {
    error::clear_queue();
    // SAFETY: answers for any number: null where the scheme hashes by itself.
    let digest = unsafe { sys::SSL_get_signature_algorithm_digest(scheme) };
    if digest.is_null() && i32::from(scheme) != sys::SSL_SIGN_ED25519 {
        return Err(Error::local("verify", "the scheme does not fit the key"));
    }
    let run = Digesting::new()?;
    let mut key_run = ptr::null_mut();
    // SAFETY: all pointers are valid, and each slice comes with its length; `key_run` belongs to
    // `run` and is used while it lives.
    unsafe {
        check(
            "EVP_DigestVerifyInit",
            sys::EVP_DigestVerifyInit(run.0, &mut key_run, digest, ptr::null_mut(), key),
        )?;
        set_padding(key_run, scheme)?;
        check(
            "EVP_DigestVerify",
            sys::EVP_DigestVerify(
                run.0,
                signature.as_ptr(),
                signature.len(),
                input.as_ptr(),
                input.len(),
            ),
        )
    }
}

/// Sets the padding that the scheme asks for, where it is not PKCS #1's first one.
///
/// # Safety
///
/// `key_run` is valid.
unsafe fn set_padding(key_run: *mut sys::EVP_PKEY_CTX, scheme: u16) -> Result<(), Error> {
    if !is_rsa_pss(scheme) {
        return Ok(());
    }
    // SAFETY: by the caller's promise. A salt as long as the hash (-1) is what TLS asks for.
    unsafe {
        check(
            "EVP_PKEY_CTX_set_rsa_padding",
            sys::EVP_PKEY_CTX_set_rsa_padding(key_run, sys::RSA_PKCS1_PSS_PADDING),
        )?;
        check(
            "EVP_PKEY_CTX_set_rsa_pss_saltlen",
            sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(key_run, -1),
        )
    }
}

/// The number that is raised to the private exponent; only the modulus is needed for it.
///
/// # Safety
///
/// `key` is a valid key.
pub(crate) unsafe fn rsa_encoded(
    key: *mut sys::EVP_PKEY,
    operation: &KeyOperation,
) -> Result<Vec<u8>, Error> {
    error::clear_queue();
    // SAFETY: the key is valid, and null is checked.
    let rsa = check_ptr("EVP_PKEY_get0_RSA", unsafe { sys::EVP_PKEY_get0_RSA(key) })?;
    // SAFETY: the RSA key is valid.
    let bytes = unsafe { sys::RSA_size(rsa) } as usize;
    match operation {
        KeyOperation::Decrypt { input } if input.len() == bytes => Ok(input.clone()),
        KeyOperation::Decrypt { .. } => Err(Error::local("RSA", "data of another length")),
        KeyOperation::Sign { scheme, input } => {
            // SAFETY: returns null or a static for any number.
            let digest = check_ptr("SSL_get_signature_algorithm_digest", unsafe {
                sys::SSL_get_signature_algorithm_digest(*scheme).cast_mut()
            })?;
            let hash = Hash::of(input, digest)?;
            if is_rsa_pss(*scheme) {
                let mut encoded = vec![0; bytes];
                // SAFETY: `encoded` has the size of the modulus, the hash the digest's.
                // A salt as long as the hash (-1) is what TLS asks for.
                check("RSA_padding_add_PKCS1_PSS_mgf1", unsafe {
                    sys::RSA_padding_add_PKCS1_PSS_mgf1(
                        rsa,
                        encoded.as_mut_ptr(),
                        hash.bytes().as_ptr(),
                        digest,
                        digest,
                        -1,
                    )
                })?;
                return Ok(encoded);
            }
            pkcs1_encoded(&hash, digest, bytes)
        }
    }
}

/// Whether a scheme is RSA with PSS padding.
fn is_rsa_pss(scheme: u16) -> bool {
    // SAFETY: answers for any number.
    unsafe { sys::SSL_is_signature_algorithm_rsa_pss(scheme) == 1 }
}

/// EMSA-PKCS1-v1_5 (RFC 8017 section 9.2) of a hash.
fn pkcs1_encoded(hash: &Hash, digest: *const sys::EVP_MD, bytes: usize) -> Result<Vec<u8>, Error> {
    let (mut info, mut length, mut is_allocated) = (ptr::null_mut(), 0, 0);
    // SAFETY: the digest is a static, the hash has its size; `info` is copied, and freed
    // if the library says that it is ours.
    let info = unsafe {
        let code = sys::RSA_add_pkcs1_prefix(
            &mut info,
            &mut length,
            &mut is_allocated,
            sys::EVP_MD_type(digest),
            hash.bytes().as_ptr(),
            hash.bytes().len(),
        );
        check("RSA_add_pkcs1_prefix", code)?;
        let copy = std::slice::from_raw_parts(info, length).to_vec();
        if is_allocated != 0 {
            sys::OPENSSL_free(info.cast());
        }
        copy
    };
    // 00 01, at least eight times ff, 00.
    let Some(padding) = bytes.checked_sub(info.len() + 3).filter(|n| *n >= 8) else {
        return Err(Error::local("RSA", "the key is too small for the hash"));
    };
    let mut encoded = vec![0, 1];
    encoded.resize(2 + padding, 0xff);
    encoded.push(0);
    encoded.extend_from_slice(&info);
    Ok(encoded)
}

/// A hash of any kind that TLS signs.
struct Hash {
    bytes: [u8; sys::EVP_MAX_MD_SIZE as usize],
    length: usize,
}

impl Hash {
    fn of(input: &[u8], digest: *const sys::EVP_MD) -> Result<Self, Error> {
        let mut hash = Self {
            bytes: [0; sys::EVP_MAX_MD_SIZE as usize],
            length: 0,
        };
        let mut length = 0;
        // SAFETY: the target has room for any hash; the digest is a static.
        let code: c_int = unsafe {
            sys::EVP_Digest(
                input.as_ptr().cast(),
                input.len(),
                hash.bytes.as_mut_ptr(),
                &mut length,
                digest,
                ptr::null_mut(),
            )
        };
        check("EVP_Digest", code)?;
        hash.length = length as usize;
        Ok(hash)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// An `EVP_MD_CTX`.
struct Digesting(*mut sys::EVP_MD_CTX);

impl Digesting {
    fn new() -> Result<Self, Error> {
        // SAFETY: allocates.
        check_ptr("EVP_MD_CTX_new", unsafe { sys::EVP_MD_CTX_new() }).map(Self)
    }
}

impl Drop for Digesting {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::EVP_MD_CTX_free(self.0) }
    }
}

#[cfg(test)]
mod tests;
