//! New private keys, and the form in which they are kept.

use std::ffi::c_int;
use std::ptr;

use aws_lc_sys as sys;

use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::key::PrivateKey;
use crate::secret::Secret;

/// What can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKey {
    /// ECDSA on P-256.
    EcP256,
    /// ECDSA on P-384.
    EcP384,
    /// ECDSA on P-521.
    EcP521,
    /// RSA with a modulus of so many bits.
    Rsa(u16),
}

/// Frees a context when it is left.
struct Context(*mut sys::EVP_PKEY_CTX);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is owned, and freed once.
        unsafe { sys::EVP_PKEY_CTX_free(self.0) };
    }
}

/// Frees a `BIO` when it is left.
struct Memory(*mut sys::BIO);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is owned, and freed once.
        unsafe { sys::BIO_free(self.0) };
    }
}

/// Frees a public key when it is left.
struct Encoded(*mut sys::X509_PUBKEY);

impl Drop for Encoded {
    fn drop(&mut self) {
        // SAFETY: it is owned, and freed once.
        unsafe { sys::X509_PUBKEY_free(self.0) };
    }
}

impl PrivateKey {
    /// Generates a key. With RSA this takes up to seconds.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot, or has no memory.
    pub fn generate(what: NewKey) -> Result<Self, Error> {
        error::clear_queue();
        let (kind, curve) = match what {
            NewKey::EcP256 => (sys::EVP_PKEY_EC, sys::NID_X9_62_prime256v1),
            NewKey::EcP384 => (sys::EVP_PKEY_EC, sys::NID_secp384r1),
            NewKey::EcP521 => (sys::EVP_PKEY_EC, sys::NID_secp521r1),
            NewKey::Rsa(_) => (sys::EVP_PKEY_RSA, 0),
        };
        // SAFETY: there is no engine.
        let context = unsafe { sys::EVP_PKEY_CTX_new_id(kind as c_int, ptr::null_mut()) };
        let context = Context(check_ptr("EVP_PKEY_CTX_new_id", context)?);
        let mut key = ptr::null_mut();
        // SAFETY: the context is valid, and a new key is written to `key`.
        unsafe {
            check("EVP_PKEY_keygen_init", sys::EVP_PKEY_keygen_init(context.0))?;
            match what {
                NewKey::Rsa(bits) => check(
                    "EVP_PKEY_CTX_set_rsa_keygen_bits",
                    sys::EVP_PKEY_CTX_set_rsa_keygen_bits(context.0, c_int::from(bits)),
                )?,
                _ => check(
                    "EVP_PKEY_CTX_set_ec_paramgen_curve_nid",
                    sys::EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context.0, curve as c_int),
                )?,
            }
            check("EVP_PKEY_keygen", sys::EVP_PKEY_keygen(context.0, &mut key))?;
        }
        Self::owned(key, "EVP_PKEY_keygen")
    }

    /// As PEM text: PKCS #8, not encrypted.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode a key of this kind, or has no memory.
    pub fn to_pem(&self) -> Result<Secret, Error> {
        error::clear_queue();
        // SAFETY: a new memory BIO. The library wipes what it frees.
        let memory = Memory(check_ptr("BIO_new", unsafe {
            sys::BIO_new(sys::BIO_s_mem())
        })?);
        let (mut bytes, mut length) = (ptr::null(), 0);
        // SAFETY: key and BIO are valid; without a cipher no password is asked for. What the BIO
        // has is valid until it is freed, and copied before.
        unsafe {
            let written = sys::PEM_write_bio_PKCS8PrivateKey(
                memory.0,
                self.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                0,
                None,
                ptr::null_mut(),
            );
            check("PEM_write_bio_PKCS8PrivateKey", written)?;
            let read = sys::BIO_mem_contents(memory.0, &mut bytes, &mut length);
            check("BIO_mem_contents", read)?;
            let text = std::slice::from_raw_parts(bytes, length);
            Ok(Secret::new(text.to_vec()))
        }
    }

    /// The `subjectPublicKey` of its public part (RFC 5280 section 4.1): a point, or an
    /// `RSAPublicKey`.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode a key of this kind, or has no memory.
    pub fn public_key_bits(&self) -> Result<Vec<u8>, Error> {
        error::clear_queue();
        let mut encoded = ptr::null_mut();
        // SAFETY: the key is valid; a new encoding is written to `encoded`.
        let set = unsafe { sys::X509_PUBKEY_set(&mut encoded, self.as_ptr()) };
        check("X509_PUBKEY_set", set)?;
        let encoded = Encoded(encoded);
        let (mut bytes, mut length) = (ptr::null(), 0);
        // SAFETY: the encoding is valid, its bytes as long as it is, and they are copied before.
        unsafe {
            let got = sys::X509_PUBKEY_get0_param(
                ptr::null_mut(),
                &mut bytes,
                &mut length,
                ptr::null_mut(),
                encoded.0,
            );
            check("X509_PUBKEY_get0_param", got)?;
            let length = usize::try_from(length).unwrap_or(0);
            Ok(std::slice::from_raw_parts(bytes, length).to_vec())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyKind, KeyOperation, PublicKey};

    #[test]
    fn what_is_generated_is_kept_and_signs() {
        for (what, kind, bits, scheme) in [
            (NewKey::EcP256, KeyKind::EcP256, 256, 0x0403),
            (NewKey::EcP384, KeyKind::EcP384, 384, 0x0503),
            (NewKey::EcP521, KeyKind::EcP521, 521, 0x0603),
            (NewKey::Rsa(2048), KeyKind::Rsa, 2048, 0x0401),
        ] {
            let key = PrivateKey::generate(what).expect("it is supported");
            assert_eq!((key.kind(), key.bits()), (kind, bits));
            let pem = key.to_pem().expect("it is encoded");
            assert!(pem.expose().starts_with(b"-----BEGIN PRIVATE KEY-----\n"));
            let again = PrivateKey::from_pem(pem.expose(), &[]).expect("it is PEM");
            let spki = key.public_key_der().expect("it is encoded");
            assert_eq!(again.public_key_der().as_ref(), Ok(&spki));
            assert!(spki.ends_with(&key.public_key_bits().expect("it is encoded")));
            let operation = KeyOperation::Sign {
                scheme,
                input: b"a request".to_vec(),
            };
            let signature = again.perform(&operation).expect("it signs");
            let public = PublicKey::from_spki_der(&spki).expect("it is one");
            let verified = public.verify(scheme, b"a request", signature.expose());
            assert_eq!(verified, Ok(()));
            let other = PrivateKey::generate(what).expect("it is supported");
            assert_ne!(other.public_key_der(), Ok(spki));
        }
    }
}
