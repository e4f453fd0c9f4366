//! Public keys, for checking what others have computed with the private ones.

use std::fmt;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::key::public_key_der;
use crate::key_operation::{rsa_encoded, verify};
use crate::{KeyKind, KeyOperation};

/// A public key in memory.
pub struct PublicKey(NonNull<sys::EVP_PKEY>);

// SAFETY: keys are counted atomically and not changed after they were read; verifying takes them
// as const.
unsafe impl Send for PublicKey {}
// SAFETY: as above.
unsafe impl Sync for PublicKey {}

impl PublicKey {
    /// Reads a DER SubjectPublicKeyInfo (RFC 5280 section 4.1).
    ///
    /// # Errors
    ///
    /// The bytes hold no public key, something follows it, or the library does not know its kind.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, Error> {
        error::clear_queue();
        let mut rest = sys::CBS {
            data: der.as_ptr(),
            len: der.len(),
        };
        // SAFETY: `rest` spans `der`; the key copies what it keeps.
        let key = unsafe { sys::EVP_parse_public_key(&mut rest) };
        let key = Self::owned(check_ptr("EVP_parse_public_key", key)?)?;
        if rest.len != 0 {
            return Err(Error::local(
                "EVP_parse_public_key",
                "something follows the key",
            ));
        }
        Ok(key)
    }

    /// The public key of a DER certificate.
    ///
    /// # Errors
    ///
    /// The bytes hold no certificate, or its key cannot be read.
    pub fn from_certificate_der(der: &[u8]) -> Result<Self, Error> {
        error::clear_queue();
        let mut at = der.as_ptr();
        let length = std::ffi::c_long::try_from(der.len()).unwrap_or(std::ffi::c_long::MAX);
        // SAFETY: `at` has `length` readable bytes; the certificate is freed once, and the key is a
        // reference of its own.
        unsafe {
            let certificate =
                check_ptr("d2i_X509", sys::d2i_X509(ptr::null_mut(), &mut at, length))?;
            let key = sys::X509_get_pubkey(certificate);
            sys::X509_free(certificate);
            Self::owned(check_ptr("X509_get_pubkey", key)?)
        }
    }

    /// Its DER SubjectPublicKeyInfo.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode a key of this kind, or has no memory.
    pub fn to_spki_der(&self) -> Result<Vec<u8>, Error> {
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

    /// Verifies a signature over `message` as a client would. `scheme` is the number in
    /// [`KeyOperation::Sign`].
    ///
    /// # Errors
    ///
    /// The signature is wrong, or the scheme does not fit the key.
    pub fn verify(&self, scheme: u16, message: &[u8], signature: &[u8]) -> Result<(), Error> {
        // SAFETY: the key is valid.
        unsafe { verify(self.as_ptr(), scheme, message, signature) }
    }

    /// As [`PrivateKey::rsa_encoded`](crate::PrivateKey::rsa_encoded), which needs only the
    /// modulus.
    ///
    /// # Errors
    ///
    /// When the key is not an RSA key or too small for the scheme.
    pub fn rsa_encoded(&self, operation: &KeyOperation) -> Result<Vec<u8>, Error> {
        // SAFETY: the key is valid.
        unsafe { rsa_encoded(self.as_ptr(), operation) }
    }

    /// The modulus of an RSA key, big-endian and without leading zeros; `None` for other keys.
    pub fn rsa_modulus(&self) -> Option<Vec<u8>> {
        // SAFETY: the key is valid; the RSA key and its modulus live as long as it does, and null
        // is handled.
        unsafe {
            let rsa = sys::EVP_PKEY_get0_RSA(self.as_ptr());
            let modulus = match rsa.is_null() {
                true => ptr::null(),
                false => sys::RSA_get0_n(rsa),
            };
            crate::rsa::number(modulus).map(|modulus| modulus.to_vec())
        }
    }

    /// Verifies that `result` is what the private key makes of the operation: a valid signature, or
    /// for a decryption the number whose power is the input.
    ///
    /// # Errors
    ///
    /// It is not, or the operation does not fit the key.
    pub fn verify_result(&self, operation: &KeyOperation, result: &[u8]) -> Result<(), Error> {
        match operation {
            KeyOperation::Sign { scheme, input } => self.verify(*scheme, input, result),
            KeyOperation::Decrypt { input } => match self.rsa_raised(result)? == *input {
                true => Ok(()),
                false => Err(Error::local(
                    "RSA_verify_raw",
                    "the power is another number",
                )),
            },
        }
    }

    /// Raises a number to the public exponent, which undoes RSA's private operation: `input` and
    /// the result are numbers below the modulus, big-endian and as long as the modulus.
    ///
    /// # Errors
    ///
    /// The key is not an RSA key, or `input` is not below the modulus or has another length.
    pub fn rsa_raised(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        error::clear_queue();
        // SAFETY: the key is valid and a key of another kind gives null, which is checked; the
        // output has the size that the library asks for.
        unsafe {
            let rsa = check_ptr("EVP_PKEY_get0_RSA", sys::EVP_PKEY_get0_RSA(self.as_ptr()))?;
            let mut output = vec![0; sys::RSA_size(rsa) as usize];
            let mut output_bytes = 0;
            let code = sys::RSA_verify_raw(
                rsa,
                &mut output_bytes,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                sys::RSA_NO_PADDING,
            );
            check("RSA_verify_raw", code)?;
            output.truncate(output_bytes);
            Ok(output)
        }
    }

    fn as_ptr(&self) -> *mut sys::EVP_PKEY {
        self.0.as_ptr()
    }

    fn owned(key: *mut sys::EVP_PKEY) -> Result<Self, Error> {
        NonNull::new(key)
            .map(Self)
            .ok_or_else(|| Error::local("EVP_PKEY", "no key"))
    }
}

impl Drop for PublicKey {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::EVP_PKEY_free(self.as_ptr()) }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {} bits)", self.kind(), self.bits())
    }
}

#[cfg(test)]
mod tests;
