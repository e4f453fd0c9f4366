//! Authenticated ciphers: AES-256-GCM-SIV for session tickets, and the three of
//! TLS records (RFC 8446 section 5.2, RFC 5288, RFC 7905).

use std::fmt;
use std::ptr::NonNull;

use aws_lc_sys as sys;

use crate::error::Error;
use crate::ffi::check_ptr;
use crate::transmit::RecordCipher;

/// An authenticated cipher under one key.
pub struct Aead(NonNull<sys::EVP_AEAD_CTX>);

// SAFETY: the library documents an EVP_AEAD_CTX as usable by several threads at
// once; sealing and opening take it as const.
unsafe impl Send for Aead {}
// SAFETY: as above.
unsafe impl Sync for Aead {}

impl Aead {
    /// Length of the key of [`Aead::new`] in bytes.
    pub const KEY_BYTES: usize = 32;
    /// Length of the nonce in bytes, the same for every cipher here.
    pub const NONCE_BYTES: usize = 12;
    /// Length of the authentication tag in bytes, the same for every cipher here.
    pub const TAG_BYTES: usize = 16;

    /// Prepares `key` for AES-256-GCM-SIV (RFC 8452).
    ///
    /// The SIV mode is chosen because ticket keys shared by many nodes see far more random nonces
    /// than plain GCM tolerates. With SIV a repeated nonce reveals only whether two plaintexts were
    /// equal.
    ///
    /// # Errors
    ///
    /// When libcrypto has no memory.
    pub fn new(key: &[u8; Self::KEY_BYTES]) -> Result<Self, Error> {
        // SAFETY: returns a pointer to a static.
        Self::prepare(unsafe { sys::EVP_aead_aes_256_gcm_siv() }, key)
    }

    /// Prepares `key` for a record cipher. The caller must never seal twice under one nonce; TLS
    /// derives the nonce from the record's sequence number.
    ///
    /// # Errors
    ///
    /// When the key does not have [`RecordCipher::key_bytes`].
    pub fn for_records(cipher: RecordCipher, key: &[u8]) -> Result<Self, Error> {
        // SAFETY: each returns a pointer to a static.
        let algorithm = unsafe {
            match cipher {
                RecordCipher::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                RecordCipher::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                RecordCipher::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            }
        };
        Self::prepare(algorithm, key)
    }

    /// `algorithm` is one of the library's static descriptions.
    fn prepare(algorithm: *const sys::EVP_AEAD, key: &[u8]) -> Result<Self, Error> {
        // SAFETY: the key is valid for its length; the algorithm is a static.
        let pointer = check_ptr("EVP_AEAD_CTX_new", unsafe {
            sys::EVP_AEAD_CTX_new(algorithm, key.as_ptr(), key.len(), Self::TAG_BYTES)
        })?;
        NonNull::new(pointer)
            .map(Self)
            .ok_or_else(|| Error::local("EVP_AEAD_CTX_new", "out of memory"))
    }

    /// Writes ciphertext and tag to `target`; returns their length, or `None` if `target` is too
    /// short for the plaintext and a tag.
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

    /// Writes the plaintext to `target`; returns its length, or `None` if the ciphertext was not
    /// sealed under this key, nonce and associated data.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    /// (cipher, key, nonce, associated data, plaintext, ciphertext and tag)
    type Vector = (
        RecordCipher,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    );

    /// The GCM specification's test cases 4 and 16, and RFC 8439 section 2.8.2.
    const VECTORS: [Vector; 3] = [
        (
            RecordCipher::Aes128Gcm,
            "feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
        ),
        (
            RecordCipher::Aes256Gcm,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
        ),
        (
            RecordCipher::ChaCha20Poly1305,
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            "070000004041424344454647",
            "50515253c0c1c2c3c4c5c6c7",
            "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c642062652069742e",
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
        ),
    ];

    #[test]
    fn record_ciphers_give_the_published_results() {
        for (cipher, key, nonce, associated, plain, sealed) in VECTORS {
            let aead = Aead::for_records(cipher, &bytes(key)).unwrap();
            let nonce: [u8; 12] = bytes(nonce).try_into().unwrap();
            let (associated, plain, sealed) = (bytes(associated), bytes(plain), bytes(sealed));
            let mut target = vec![0; plain.len() + Aead::TAG_BYTES];
            let length = aead.seal(&nonce, &associated, &plain, &mut target);
            assert_eq!(length, Some(sealed.len()), "{cipher:?}");
            assert_eq!(target, sealed, "{cipher:?}");
            let length = aead.open(&nonce, &associated, &sealed, &mut target);
            assert_eq!(&target[..length.unwrap()], plain, "{cipher:?}");
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_does_not_open() {
        for (cipher, key, nonce, associated, _, sealed) in VECTORS {
            let aead = Aead::for_records(cipher, &bytes(key)).unwrap();
            let nonce: [u8; 12] = bytes(nonce).try_into().unwrap();
            let (associated, sealed) = (bytes(associated), bytes(sealed));
            let mut target = vec![0; sealed.len()];
            for at in 0..sealed.len() {
                let mut wrong = sealed.clone();
                wrong[at] ^= 0x10;
                assert_eq!(aead.open(&nonce, &associated, &wrong, &mut target), None);
            }
            let mut wrong_nonce = nonce;
            wrong_nonce[11] ^= 1;
            let opened = aead.open(&wrong_nonce, &associated, &sealed, &mut target);
            assert_eq!(opened, None);
            let opened = aead.open(&nonce, &associated[1..], &sealed, &mut target);
            assert_eq!(opened, None);
        }
    }

    #[test]
    fn keys_of_another_length_are_refused() {
        for cipher in [
            RecordCipher::Aes128Gcm,
            RecordCipher::Aes256Gcm,
            RecordCipher::ChaCha20Poly1305,
        ] {
            assert!(Aead::for_records(cipher, &[7; 32][..cipher.key_bytes()]).is_ok());
            assert!(Aead::for_records(cipher, &[7; 24]).is_err(), "{cipher:?}");
            assert!(Aead::for_records(cipher, &[]).is_err(), "{cipher:?}");
        }
    }
}
