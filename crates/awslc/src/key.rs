//! Private keys.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::fmt;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::callbacks::{PasswordRequest, pem_password};
use crate::error::{self, Error};
use crate::ffi::check_ptr;
use crate::secret::Secret;

/// The kind of a key, which decides the suites and signatures it can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// RSA, PKCS #1 or PSS signatures.
    Rsa,
    /// ECDSA on P-256.
    EcP256,
    /// ECDSA on P-384.
    EcP384,
    /// ECDSA on P-521.
    EcP521,
    /// Ed25519.
    Ed25519,
    /// A kind that TLS servers do not use here.
    Other,
}

impl KeyKind {
    /// # Safety
    ///
    /// `key` is a valid key.
    pub(crate) unsafe fn of(key: *const sys::EVP_PKEY) -> Self {
        // SAFETY: by the caller's promise; the EC key of an EC key is not null.
        unsafe {
            match sys::EVP_PKEY_id(key) {
                sys::EVP_PKEY_RSA => Self::Rsa,
                sys::EVP_PKEY_ED25519 => Self::Ed25519,
                sys::EVP_PKEY_EC => {
                    let ec = sys::EVP_PKEY_get0_EC_KEY(key);
                    match sys::EC_GROUP_get_curve_name(sys::EC_KEY_get0_group(ec)) {
                        sys::NID_X9_62_prime256v1 => Self::EcP256,
                        sys::NID_secp384r1 => Self::EcP384,
                        sys::NID_secp521r1 => Self::EcP521,
                        _ => Self::Other,
                    }
                }
                _ => Self::Other,
            }
        }
    }
}

/// Why a private key could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It is encrypted and there was no password to try.
    PasswordNeeded(Error),
    /// It is encrypted and none of the passwords decrypts it.
    WrongPassword(Error),
    /// It is not a private key that the library can read.
    Unreadable(Error),
}

impl KeyError {
    /// The library's error.
    pub fn cause(&self) -> &Error {
        match self {
            Self::PasswordNeeded(error) | Self::WrongPassword(error) | Self::Unreadable(error) => {
                error
            }
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause().fmt(f)
    }
}

impl std::error::Error for KeyError {}

/// A private key in memory. Cloning shares it.
pub struct PrivateKey(NonNull<sys::EVP_PKEY>);

// SAFETY: keys are counted atomically and not changed after they were read;
// signing takes them as const.
unsafe impl Send for PrivateKey {}
// SAFETY: as above.
unsafe impl Sync for PrivateKey {}

impl PrivateKey {
    /// Reads the first private key in PEM text: PKCS #8 (plain or encrypted) or the traditional RSA
    /// and EC formats. Each of `passwords` is tried in turn on an encrypted key, as nginx does with
    /// `ssl_password_file`.
    ///
    /// # Errors
    ///
    /// The text holds no private key, the key cannot be parsed or used for TLS, or no password
    /// decrypts it.
    pub fn from_pem(pem: &[u8], passwords: &[Secret]) -> Result<Self, KeyError> {
        let mut last = None;
        for password in passwords {
            match read_pem(pem, Some(password.expose())) {
                Ok(key) => return Ok(key),
                // If no password was asked for, reading failed for another reason, and the next
                // password cannot help.
                Err((error, asked)) if !asked => return Err(KeyError::Unreadable(error)),
                Err((error, _)) => last = Some(error),
            }
        }
        if let Some(error) = last {
            return Err(KeyError::WrongPassword(error));
        }
        match read_pem(pem, None) {
            Ok(key) => Ok(key),
            Err((error, true)) => Err(KeyError::PasswordNeeded(error)),
            Err((error, false)) => Err(KeyError::Unreadable(error)),
        }
    }

    /// Reads a DER private key: PKCS #8, or the traditional RSA and EC forms.
    ///
    /// # Errors
    ///
    /// The bytes hold no private key, or one that cannot be used for TLS.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        error::clear_queue();
        let mut at = der.as_ptr();
        let length = c_long::try_from(der.len()).unwrap_or(c_long::MAX);
        // SAFETY: `at` has `length` readable bytes.
        let key = unsafe { sys::d2i_AutoPrivateKey(ptr::null_mut(), &mut at, length) };
        let key = check_ptr("d2i_AutoPrivateKey", key).map_err(KeyError::Unreadable)?;
        Self::owned(key, "d2i_AutoPrivateKey").map_err(KeyError::Unreadable)
    }

    /// Its DER encoding in the traditional format of its kind: the same bytes whatever format the
    /// key was read from.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode a key of this kind, or has no memory.
    pub fn to_der(&self) -> Result<Secret, Error> {
        let mut bytes: *mut u8 = ptr::null_mut();
        // SAFETY: the key is valid; the library allocates when it is given null.
        let length = unsafe { sys::i2d_PrivateKey(self.as_ptr(), &mut bytes) };
        let Ok(length @ 1..) = usize::try_from(length) else {
            return Err(Error::drain("i2d_PrivateKey"));
        };
        // SAFETY: on success there are `length` readable bytes, which are copied
        // and given back (the library wipes what it frees).
        unsafe {
            let copy = std::slice::from_raw_parts(bytes, length).to_vec();
            sys::OPENSSL_free(bytes.cast());
            Ok(Secret::new(copy))
        }
    }

    /// Its public part as a SubjectPublicKeyInfo in DER (RFC 5280 section 4.1.2.7).
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode a key of this kind, or has no memory.
    pub fn public_key_der(&self) -> Result<Vec<u8>, Error> {
        error::clear_queue();
        // SAFETY: the key is valid.
        unsafe { public_key_der(self.as_ptr()) }
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        // SAFETY: the key is valid.
        unsafe { KeyKind::of(self.as_ptr()) }
    }

    /// Size in bits: 2048 for RSA-2048, 256 for P-256.
    pub fn bits(&self) -> u32 {
        // SAFETY: the key is valid.
        u32::try_from(unsafe { sys::EVP_PKEY_bits(self.as_ptr()) }).unwrap_or(0)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::EVP_PKEY {
        self.0.as_ptr()
    }

    pub(crate) fn owned(key: *mut sys::EVP_PKEY, call: &'static str) -> Result<Self, Error> {
        NonNull::new(key)
            .map(Self)
            .ok_or_else(|| Error::local(call, "no key"))
    }
}

/// The public part of a key.
///
/// # Safety
///
/// `key` is a valid key.
pub(crate) unsafe fn public_key_der(key: *mut sys::EVP_PKEY) -> Result<Vec<u8>, Error> {
    let mut bytes: *mut u8 = ptr::null_mut();
    // SAFETY: by the caller's promise; the library allocates when it is given null.
    let length = unsafe { sys::i2d_PUBKEY(key, &mut bytes) };
    let Ok(length @ 1..) = usize::try_from(length) else {
        return Err(Error::drain("i2d_PUBKEY"));
    };
    // SAFETY: on success there are `length` readable bytes, which are copied and given back.
    unsafe {
        let der = std::slice::from_raw_parts(bytes, length).to_vec();
        sys::OPENSSL_free(bytes.cast());
        Ok(der)
    }
}

/// One attempt. On failure also returns whether a password was asked for.
fn read_pem(pem: &[u8], password: Option<&[u8]>) -> Result<PrivateKey, (Error, bool)> {
    error::clear_queue();
    let bio = MemoryBio::new(pem).map_err(|error| (error, false))?;
    let mut request = PasswordRequest {
        password,
        asked: false,
    };
    let argument: *mut c_void = (&raw mut request).cast();
    // SAFETY: the BIO reads from `pem`, which outlives it; the callback gets the
    // request that it expects.
    let mut key = unsafe {
        sys::PEM_read_bio_PrivateKey(bio.as_ptr(), ptr::null_mut(), Some(pem_password), argument)
    };
    if key.is_null() && !request.asked {
        key = read_pem_with_public_key(pem);
        if !key.is_null() {
            error::clear_queue();
        }
    }
    check_ptr("PEM_read_bio_PrivateKey", key)
        .and_then(|key| PrivateKey::owned(key, "PEM_read_bio_PrivateKey"))
        .map_err(|error| (error, request.asked))
}

/// The format of RFC 5958 that includes the public key, which several ACME clients write for
/// Ed25519 and the PEM reader above does not support. Null if it is not that either; the queue then
/// still holds the reader's errors.
fn read_pem_with_public_key(pem: &[u8]) -> *mut sys::EVP_PKEY {
    let Ok(bio) = MemoryBio::new(pem) else {
        return ptr::null_mut();
    };
    let (mut name, mut header, mut data) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let mut length: c_long = 0;
    // SAFETY: the BIO reads from `pem`; on success the three strings are ours
    // to free (`OPENSSL_free` wipes them). The CBS borrows `data` before that.
    unsafe {
        sys::ERR_set_mark();
        let read = sys::PEM_read_bio(bio.as_ptr(), &mut name, &mut header, &mut data, &mut length);
        let mut key = ptr::null_mut();
        if read == 1 {
            if CStr::from_ptr(name) == c"PRIVATE KEY" {
                let mut cbs = sys::CBS {
                    data,
                    len: usize::try_from(length).unwrap_or(0),
                };
                key = sys::EVP_parse_private_key(&mut cbs);
            }
            sys::OPENSSL_free(name.cast());
            sys::OPENSSL_free(header.cast());
            sys::OPENSSL_free(data.cast());
        }
        sys::ERR_pop_to_mark();
        key
    }
}

impl Clone for PrivateKey {
    fn clone(&self) -> Self {
        // SAFETY: adds a reference to a valid key.
        let code: c_int = unsafe { sys::EVP_PKEY_up_ref(self.as_ptr()) };
        debug_assert_eq!(code, 1, "adding a reference cannot fail");
        Self(self.0)
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns; the last one wipes
        // the key.
        unsafe { sys::EVP_PKEY_free(self.as_ptr()) }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, {} bits)", self.kind(), self.bits())
    }
}

/// A BIO that reads from borrowed memory.
pub(crate) struct MemoryBio<'a>(NonNull<sys::BIO>, std::marker::PhantomData<&'a [u8]>);

impl<'a> MemoryBio<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
        // SAFETY: the memory outlives the BIO by the lifetime of the result.
        let bio = unsafe { sys::BIO_new_mem_buf(bytes.as_ptr().cast(), length) };
        NonNull::new(bio)
            .map(|bio| Self(bio, std::marker::PhantomData))
            .ok_or_else(|| Error::drain("BIO_new_mem_buf"))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::BIO {
        self.0.as_ptr()
    }
}

impl Drop for MemoryBio<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once.
        unsafe { sys::BIO_free(self.0.as_ptr()) };
    }
}
