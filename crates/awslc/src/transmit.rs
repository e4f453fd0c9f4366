//! Takes the write direction of a connection away from libssl.
//!
//! Someone else (the kernel) can seal the records of an established connection, given the keys and
//! the sequence number. From then on libssl must not reach the wire: a nonce would be used twice if
//! both sealed a record. So the types fix the order: [`Connection::transmit_keys`] returns keys and
//! position, and [`Connection::release_transmit`] puts the *guard* in place. Behind the guard
//! libssl continues as if it were writing, but its bytes are dropped. What it meant to send is
//! available unencrypted: alerts from [`Connection::take_alert`], a due KeyUpdate from
//! [`Connection::is_key_update_due`].

use std::ffi::c_int;
use std::fmt;
use std::ptr;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::callbacks;
use crate::connection::Connection;
use crate::error::Error;
use crate::ffi::check;
use crate::psk;
use crate::record;

/// How records are sealed, if the cipher is one that others can take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCipher {
    /// AES-128-GCM (RFC 5288, RFC 8446).
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 7905, RFC 8446).
    ChaCha20Poly1305,
}

impl RecordCipher {
    /// Length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            RecordCipher::Aes128Gcm => 16,
            RecordCipher::Aes256Gcm | RecordCipher::ChaCha20Poly1305 => 32,
        }
    }
}

/// The parameters to seal the next record of a connection. Wiped when dropped; `Debug` shows no
/// key.
pub struct TransmitKeys {
    /// TLS 1.3, otherwise TLS 1.2.
    pub tls13: bool,
    /// The cipher.
    pub cipher: RecordCipher,
    /// Sequence number of the next record.
    pub sequence: u64,
    key: Zeroizing<[u8; MAX_KEY_BYTES]>,
    iv: Zeroizing<[u8; MAX_IV_BYTES]>,
    iv_bytes: usize,
}

const MAX_KEY_BYTES: usize = 32;
const MAX_IV_BYTES: usize = 12;
/// The fixed part of the nonce of GCM in TLS 1.2 (RFC 5288 section 3).
const GCM_TLS12_IV_BYTES: usize = 4;

impl TransmitKeys {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key[..self.cipher.key_bytes()]
    }

    /// The IV: 12 bytes, or the fixed 4 bytes of GCM in TLS 1.2, whose explicit
    /// part is the sequence number.
    pub fn iv(&self) -> &[u8] {
        &self.iv[..self.iv_bytes]
    }
}

impl fmt::Debug for TransmitKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.tls13 { "TLSv1.3" } else { "TLSv1.2" };
        write!(
            f,
            "TransmitKeys({version}, {:?}, next record {}, redacted)",
            self.cipher, self.sequence
        )
    }
}

/// What libssl wanted to send since it lost the write direction.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    alert: Option<[u8; 2]>,
}

impl Guard {
    pub(crate) fn note_alert(&mut self, alert: [u8; 2]) {
        self.alert = Some(alert);
    }

    pub(crate) fn has_alert(&self) -> bool {
        self.alert.is_some()
    }
}

impl Connection {
    /// The cipher of the connection's records, if it can be taken over: an AEAD in TLS 1.2 or 1.3.
    pub fn record_cipher(&self) -> Option<RecordCipher> {
        // SAFETY: the SSL is valid; suites are constants, null is none.
        let nid = unsafe {
            let suite = sys::SSL_get_current_cipher(self.as_ptr());
            if suite.is_null() || c_int::from(self.version_number()) < sys::TLS1_2_VERSION {
                return None;
            }
            sys::SSL_CIPHER_get_cipher_nid(suite)
        };
        match nid {
            sys::NID_aes_128_gcm => Some(RecordCipher::Aes128Gcm),
            sys::NID_aes_256_gcm => Some(RecordCipher::Aes256Gcm),
            sys::NID_chacha20_poly1305 => Some(RecordCipher::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// Keys and position of the write direction. Call it right after flushing the queue with an
    /// empty [`write`](Self::write), whose output must be sent before anything that is sealed with
    /// these keys.
    ///
    /// # Errors
    ///
    /// When the handshake is not finished, early data is still being read, or the
    /// cipher is none that can be taken over.
    pub fn transmit_keys(&self) -> Result<TransmitKeys, Error> {
        let cipher = self
            .record_cipher()
            .ok_or_else(|| Error::local("transmit_keys", "no AEAD of TLS 1.2 or 1.3"))?;
        // SAFETY: the SSL is valid.
        let (handshaking, sequence) = unsafe {
            (
                sys::SSL_in_init(self.as_ptr()) != 0 || sys::SSL_in_early_data(self.as_ptr()) != 0,
                sys::SSL_get_write_sequence(self.as_ptr()),
            )
        };
        if handshaking {
            return Err(Error::local(
                "transmit_keys",
                "the handshake is not finished",
            ));
        }
        let tls13 = c_int::from(self.version_number()) == sys::TLS1_3_VERSION;
        let mut keys = TransmitKeys {
            tls13,
            cipher,
            sequence,
            key: Zeroizing::default(),
            iv: Zeroizing::default(),
            iv_bytes: match (tls13, cipher) {
                (false, RecordCipher::Aes128Gcm | RecordCipher::Aes256Gcm) => GCM_TLS12_IV_BYTES,
                _ => MAX_IV_BYTES,
            },
        };
        if tls13 {
            self.expand_traffic_keys(&mut keys)?;
        } else {
            self.cut_key_block(&mut keys)?;
        }
        Ok(keys)
    }

    /// From now on nothing that libssl writes reaches an output. This cannot be undone.
    pub fn release_transmit(&mut self) {
        self.guard = Some(Guard::default());
        // SAFETY: the SSL is valid; the callback lives as long as the process.
        unsafe { sys::SSL_set_msg_callback(self.as_ptr(), Some(callbacks::message)) }
    }

    /// Whether libssl has lost the write direction.
    pub fn is_transmit_released(&self) -> bool {
        self.guard.is_some()
    }

    /// The last alert (level, description; RFC 8446 section 6) that libssl meant to send behind the
    /// guard, once.
    pub fn take_alert(&mut self) -> Option<[u8; 2]> {
        self.guard.as_mut().and_then(|guard| guard.alert.take())
    }

    /// Whether the peer has requested a KeyUpdate that has not been answered yet (RFC 8446 section
    /// 4.6.3). A single answer covers further requests.
    pub fn is_key_update_due(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_get_key_update_type(self.as_ptr()) != sys::SSL_KEY_UPDATE_NONE }
    }

    /// Updates the write key behind the guard (RFC 8446 section 7.2) and returns the new one.
    /// Whoever seals now sends the KeyUpdate message, under the old key.
    ///
    /// # Errors
    ///
    /// Without the guard, or before TLS 1.3.
    pub fn next_transmit_keys(&mut self) -> Result<TransmitKeys, Error> {
        if !self.is_transmit_released() {
            return Err(Error::local("next_transmit_keys", "libssl still writes"));
        }
        if !self.is_key_update_due() {
            // SAFETY: the SSL is valid.
            check("SSL_key_update", unsafe {
                sys::SSL_key_update(self.as_ptr(), sys::SSL_KEY_UPDATE_NOT_REQUESTED)
            })?;
        }
        let mut dropped = Vec::new();
        // SAFETY: the SSL is valid and its BIO attached.
        let code = self.call(&mut &[][..], &mut dropped, |ssl| unsafe {
            record::flush(ssl)
        });
        if code < 0 {
            return Err(Error::drain("SSL_write"));
        }
        // Whoever seals now updates its key when data follows.
        self.forget_key_updates();
        let keys = self.transmit_keys()?;
        if keys.sequence != 0 {
            return Err(Error::local("next_transmit_keys", "the key was not turned"));
        }
        Ok(keys)
    }

    fn version_number(&self) -> u16 {
        // SAFETY: the SSL is valid.
        let version = unsafe { sys::SSL_version(self.as_ptr()) };
        u16::try_from(version).unwrap_or(0)
    }

    /// TLS 1.3: key and IV from the traffic secret (RFC 8446 section 7.3).
    fn expand_traffic_keys(&self, keys: &mut TransmitKeys) -> Result<(), Error> {
        let (mut read, mut write) = (Span::EMPTY, Span::EMPTY);
        // SAFETY: the SSL is valid; both targets are writable spans.
        let known = unsafe { ssl_get_traffic_secrets(self.as_ptr(), &mut read, &mut write) };
        if !known || write.data.is_null() {
            return Err(Error::drain("SSL_get_traffic_secrets"));
        }
        // SAFETY: the span lies in the SSL, which is borrowed and not called
        // before the secret has been used.
        let secret = unsafe { std::slice::from_raw_parts(write.data, write.length) };
        // SAFETY: there is a current suite, `record_cipher` has seen it.
        let digest = unsafe {
            sys::SSL_CIPHER_get_handshake_digest(sys::SSL_get_current_cipher(self.as_ptr()))
        };
        let key_bytes = keys.cipher.key_bytes();
        let iv_bytes = keys.iv_bytes;
        let expand =
            |label, target: &mut [u8]| psk::expand_label(digest, secret, label, b"", target);
        expand(b"tls13 key", &mut keys.key[..key_bytes])
            .and_then(|()| expand(b"tls13 iv", &mut keys.iv[..iv_bytes]))
            .ok_or_else(|| Error::drain("HKDF_expand"))
    }

    /// TLS 1.2: our part of the key block (RFC 5246 section 6.3). AEADs
    /// have no MAC keys, so it is: client key, server key, client IV, server IV.
    fn cut_key_block(&self, keys: &mut TransmitKeys) -> Result<(), Error> {
        let (key_bytes, iv_bytes) = (keys.cipher.key_bytes(), keys.iv_bytes);
        let mut block = Zeroizing::new([0; 2 * (MAX_KEY_BYTES + MAX_IV_BYTES)]);
        // SAFETY: the SSL is valid.
        let length = unsafe { sys::SSL_get_key_block_len(self.as_ptr()) };
        if length != 2 * (key_bytes + iv_bytes) {
            return Err(Error::local("SSL_get_key_block_len", "unexpected length"));
        }
        // SAFETY: `block` is writable for `length` bytes.
        check("SSL_generate_key_block", unsafe {
            sys::SSL_generate_key_block(self.as_ptr(), block.as_mut_ptr(), length)
        })?;
        let ours = usize::from(self.is_server());
        let key_at = ours * key_bytes;
        let iv_at = 2 * key_bytes + ours * iv_bytes;
        keys.key[..key_bytes].copy_from_slice(&block[key_at..key_at + key_bytes]);
        keys.iv[..iv_bytes].copy_from_slice(&block[iv_at..iv_at + iv_bytes]);
        Ok(())
    }

    fn is_server(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_is_server(self.as_ptr()) != 0 }
    }
}

/// libssl's `bssl::Span<const uint8_t>`: a pointer and a length.
#[repr(C)]
struct Span {
    data: *const u8,
    length: usize,
}

impl Span {
    const EMPTY: Span = Span {
        data: ptr::null(),
        length: 0,
    };
}

unsafe extern "C" {
    /// Declared in libssl's public header, but in C++: linked by its mangled name, which contains
    /// the library's version, like the one in `record.rs`.
    #[link_name = "_ZN4bssl13aws_lc_0_47_023SSL_get_traffic_secretsEPK6ssl_stPNS0_4SpanIKhEES7_"]
    fn ssl_get_traffic_secrets(
        ssl: *const sys::SSL,
        read_secret: *mut Span,
        write_secret: *mut Span,
    ) -> bool;
}

#[cfg(test)]
pub(crate) mod tests;
