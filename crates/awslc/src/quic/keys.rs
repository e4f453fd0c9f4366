//! The ciphers of QUIC packets (RFC 9001 section 5) and the derivation of their keys.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use super::{QuicSuite, TrafficSecret};
use crate::psk;

/// Bytes of an IV and of a nonce (RFC 9001 section 5.3).
const NONCE_BYTES: usize = 12;

/// Bytes of the longest key.
const MAX_KEY_BYTES: usize = 32;

/// Seals and opens packets in place, with one key and its IV.
pub struct PacketCipher {
    aead: NonNull<sys::EVP_AEAD_CTX>,
    iv: Zeroizing<[u8; NONCE_BYTES]>,
}

// SAFETY: the library documents an EVP_AEAD_CTX as usable by several threads at once; sealing and
// opening take it as const.
unsafe impl Send for PacketCipher {}
// SAFETY: as above.
unsafe impl Sync for PacketCipher {}

impl PacketCipher {
    /// Bytes of the tag behind each packet.
    pub const TAG_BYTES: usize = 16;

    /// Takes a key and its IV.
    ///
    /// # Panics
    ///
    /// When the key does not have [`QuicSuite::key_bytes`], or there is no memory.
    pub fn new(suite: QuicSuite, key: &[u8], iv: &[u8; NONCE_BYTES]) -> Self {
        // SAFETY: the algorithms are statics; the key is valid for its length.
        let aead = unsafe {
            let algorithm = match suite {
                QuicSuite::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                QuicSuite::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                QuicSuite::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            };
            sys::EVP_AEAD_CTX_new(algorithm, key.as_ptr(), key.len(), Self::TAG_BYTES)
        };
        Self {
            aead: NonNull::new(aead).expect("fails only without memory or with another length"),
            iv: Zeroizing::new(*iv),
        }
    }

    /// Derives key and IV from a secret by these labels.
    ///
    /// # Panics
    ///
    /// When there is no memory.
    pub fn derive(secret: &TrafficSecret, key_label: &[u8], iv_label: &[u8]) -> Self {
        let suite = secret.suite();
        let mut key = Zeroizing::new([0; MAX_KEY_BYTES]);
        let mut iv = Zeroizing::new([0; NONCE_BYTES]);
        let key = &mut key[..suite.key_bytes()];
        expand_label(secret, key_label, key);
        expand_label(secret, iv_label, &mut iv[..]);
        Self::new(suite, key, &iv)
    }

    /// Seals what precedes the last [`TAG_BYTES`](Self::TAG_BYTES) of `packet` in place, and puts
    /// the tag there. A packet number must not be used twice.
    ///
    /// # Panics
    ///
    /// When there is no room for the tag.
    pub fn seal(&self, number: u64, header: &[u8], packet: &mut [u8]) {
        let payload_bytes = packet
            .len()
            .checked_sub(Self::TAG_BYTES)
            .expect("there is room for the tag");
        let (payload, tag) = packet.split_at_mut(payload_bytes);
        let nonce = self.nonce(number);
        let in_place = payload.as_mut_ptr();
        let mut tag_bytes = 0;
        // SAFETY: every pointer comes with the length of its slice. Ciphertext may replace
        // plaintext; the tag is apart from both.
        let code = unsafe {
            sys::EVP_AEAD_CTX_seal_scatter(
                self.aead.as_ptr(),
                in_place,
                tag.as_mut_ptr(),
                &mut tag_bytes,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                in_place,
                payload_bytes,
                std::ptr::null(),
                0,
                header.as_ptr(),
                header.len(),
            )
        };
        assert!(
            code == 1 && tag_bytes == Self::TAG_BYTES,
            "fails only with more data than a packet can have"
        );
    }

    /// Opens a packet with its tag in place. Returns the length of the payload at its start, or
    /// `None` if it was not sealed with this key, number and header; its contents are lost then.
    pub fn open(&self, number: u64, header: &[u8], packet: &mut [u8]) -> Option<usize> {
        let payload_bytes = packet.len().checked_sub(Self::TAG_BYTES)?;
        let (payload, tag) = packet.split_at_mut(payload_bytes);
        let nonce = self.nonce(number);
        let in_place = payload.as_mut_ptr();
        // SAFETY: as in `seal`.
        let code = unsafe {
            sys::EVP_AEAD_CTX_open_gather(
                self.aead.as_ptr(),
                in_place,
                nonce.as_ptr(),
                nonce.len(),
                in_place,
                payload_bytes,
                tag.as_ptr(),
                tag.len(),
                header.as_ptr(),
                header.len(),
            )
        };
        if code == 1 {
            return Some(payload_bytes);
        }
        crate::error::clear_queue();
        None
    }

    /// The packet number, as wide as the IV, XOR the IV (RFC 9001 section 5.3).
    fn nonce(&self, number: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = *self.iv;
        let low = &mut nonce[NONCE_BYTES - 8..];
        for (byte, number) in low.iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }
}

impl Drop for PacketCipher {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; the library wipes it.
        unsafe { sys::EVP_AEAD_CTX_free(self.aead.as_ptr()) }
    }
}

impl fmt::Debug for PacketCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketCipher(redacted)")
    }
}

/// Makes the masks that protect headers (RFC 9001 section 5.4).
pub struct HeaderCipher(Kind);

enum Kind {
    /// Where it is it stays until it is wiped: moving it would leave copies.
    Aes(Box<sys::AES_KEY>),
    ChaCha20(Zeroizing<[u8; 32]>),
}

impl HeaderCipher {
    /// Bytes of a sample of the ciphertext.
    pub const SAMPLE_BYTES: usize = 16;
    /// Bytes of a mask.
    pub const MASK_BYTES: usize = 5;

    /// Takes a key.
    ///
    /// # Panics
    ///
    /// When the key does not have [`QuicSuite::key_bytes`].
    pub fn new(suite: QuicSuite, key: &[u8]) -> Self {
        assert_eq!(key.len(), suite.key_bytes(), "the length of the suite");
        if suite == QuicSuite::ChaCha20Poly1305 {
            let mut copy = Zeroizing::new([0; 32]);
            copy.copy_from_slice(key);
            return Self(Kind::ChaCha20(copy));
        }
        let mut schedule = Box::new(MaybeUninit::<sys::AES_KEY>::zeroed());
        // SAFETY: the key has 16 or 32 bytes, and `schedule` has room for what is made of it. All
        // zeros would be a valid schedule, too.
        let schedule = unsafe {
            let bits = key.len() as u32 * 8;
            let code = sys::AES_set_encrypt_key(key.as_ptr(), bits, schedule.as_mut_ptr());
            assert_eq!(code, 0, "fails only with another length");
            schedule.assume_init()
        };
        Self(Kind::Aes(schedule))
    }

    /// Derives the key from a secret by this label.
    pub fn derive(secret: &TrafficSecret, label: &[u8]) -> Self {
        let mut key = Zeroizing::new([0; MAX_KEY_BYTES]);
        let key = &mut key[..secret.suite().key_bytes()];
        expand_label(secret, label, key);
        Self::new(secret.suite(), key)
    }

    /// The mask for a packet with this sample.
    pub fn mask(&self, sample: &[u8; Self::SAMPLE_BYTES]) -> [u8; Self::MASK_BYTES] {
        match &self.0 {
            Kind::Aes(schedule) => {
                let mut block = [0; 16];
                // SAFETY: both blocks have 16 bytes, and the schedule is valid.
                unsafe {
                    sys::AES_encrypt(sample.as_ptr(), block.as_mut_ptr(), &raw const **schedule)
                };
                *block.first_chunk().expect("16 bytes")
            }
            Kind::ChaCha20(key) => {
                let (counter, nonce) = sample.split_first_chunk::<4>().expect("16 bytes");
                let mut mask = [0; Self::MASK_BYTES];
                let in_place = mask.as_mut_ptr();
                // SAFETY: key and nonce have 32 and 12 bytes; zeros are encrypted in place.
                unsafe {
                    sys::CRYPTO_chacha_20(
                        in_place,
                        in_place,
                        Self::MASK_BYTES,
                        key.as_ptr(),
                        nonce.as_ptr(),
                        u32::from_le_bytes(*counter),
                    );
                }
                mask
            }
        }
    }
}

impl Drop for HeaderCipher {
    fn drop(&mut self) {
        if let Kind::Aes(schedule) = &mut self.0 {
            // SAFETY: a plain structure of its own size, not used any more.
            unsafe {
                sys::OPENSSL_cleanse((&raw mut **schedule).cast(), size_of::<sys::AES_KEY>());
            }
        }
    }
}

impl fmt::Debug for HeaderCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderCipher(redacted)")
    }
}

/// HKDF-Expand-Label of RFC 8446 section 7.1, without a context. `label` includes `tls13 `.
///
/// # Panics
///
/// When there is no memory.
pub fn expand_label(secret: &TrafficSecret, label: &[u8], target: &mut [u8]) {
    // SAFETY: both return statics.
    let digest = unsafe {
        match secret.suite() {
            QuicSuite::Aes256Gcm => sys::EVP_sha384(),
            QuicSuite::Aes128Gcm | QuicSuite::ChaCha20Poly1305 => sys::EVP_sha256(),
        }
    };
    psk::expand_label(digest, secret.expose(), label, b"", target)
        .expect("fails only without memory or with a longer target");
}

/// HKDF-Extract with SHA-256 (RFC 5869 section 2.2): the secret from which those of Initial packets
/// are derived. It is public: connection ids are.
///
/// # Panics
///
/// When there is no memory.
pub fn extract(salt: &[u8], material: &[u8]) -> TrafficSecret {
    let mut secret = [0; 32];
    let mut length = 0;
    // SAFETY: every pointer comes with the length of its slice; SHA-256 fills 32 bytes.
    let code = unsafe {
        sys::HKDF_extract(
            secret.as_mut_ptr(),
            &mut length,
            sys::EVP_sha256(),
            material.as_ptr(),
            material.len(),
            salt.as_ptr(),
            salt.len(),
        )
    };
    assert_eq!((code, length), (1, 32), "fails only without memory");
    TrafficSecret::new(QuicSuite::Aes128Gcm, &secret).expect("32 bytes")
}
