//! TLS records opened and sealed by the TLS library, as the reference for the kernel's records (RFC
//! 8446 section 5.2; RFC 5246 section 6.2.3.3 with RFC 5288 and RFC 7905).

use sealane_awslc::{Aead, RecordCipher, fill_random};
use sealane_sys::ktls::{Cipher, Keys, Version};

use super::unavailable::{Flaw, Unavailable};

/// Record types (RFC 8446 section 5.1).
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;

/// Type, version, length.
pub(super) const HEADER_BYTES: usize = 5;
/// The most plaintext in one record.
pub(super) const MAX_CONTENT_BYTES: usize = 16_384;
/// What GCM in TLS 1.2 puts in front of the ciphertext (RFC 5288 section 3).
const EXPLICIT_NONCE_BYTES: usize = 8;
/// The version in the header of every record.
const LEGACY_VERSION: [u8; 2] = [3, 3];

/// Sequence number of a sample's first record. Its last byte overflows during the sample, so that a
/// wrong carry shows.
const FIRST_SEQUENCE: u64 = 0x1_0000_00FB;

/// Keys of one direction, made up for one test.
#[derive(Clone)]
pub(super) struct RecordKeys {
    pub(super) version: Version,
    pub(super) cipher: Cipher,
    key: [u8; 32],
    iv: [u8; 12],
    /// Number of the next record.
    sequence: u64,
}

impl RecordKeys {
    pub(super) fn random(version: Version, cipher: Cipher) -> RecordKeys {
        let mut keys = RecordKeys {
            version,
            cipher,
            key: [0; 32],
            iv: [0; 12],
            sequence: FIRST_SEQUENCE,
        };
        fill_random(&mut keys.key);
        fill_random(&mut keys.iv);
        keys
    }

    /// Keys after a KeyUpdate: numbers start from 0 again.
    pub(super) fn after_update(cipher: Cipher) -> RecordKeys {
        RecordKeys {
            sequence: 0,
            ..RecordKeys::random(Version::Tls13, cipher)
        }
    }

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    pub(super) fn for_kernel(&self) -> Keys<'_> {
        Keys {
            version: self.version,
            cipher: self.cipher,
            key: &self.key[..self.cipher.key_bytes()],
            iv: &self.iv[..self.cipher.iv_bytes(self.version)],
            sequence: self.sequence,
        }
    }

    fn aead(&self) -> Result<Aead, Unavailable> {
        let cipher = match self.cipher {
            Cipher::Aes128Gcm => RecordCipher::Aes128Gcm,
            Cipher::Aes256Gcm => RecordCipher::Aes256Gcm,
            Cipher::ChaCha20Poly1305 => RecordCipher::ChaCha20Poly1305,
        };
        Aead::for_records(cipher, &self.key[..cipher.key_bytes()])
            .map_err(|error| Unavailable::SelfTest(format!("the TLS library: {error}")))
    }

    fn explicit_nonce_bytes(&self) -> usize {
        match (self.version, self.cipher) {
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => EXPLICIT_NONCE_BYTES,
            _ => 0,
        }
    }

    /// The overhead of a record besides its header and content, in bytes.
    pub(super) fn overhead_bytes(&self) -> usize {
        let inner_type = usize::from(self.version == Version::Tls13);
        self.explicit_nonce_bytes() + inner_type + Aead::TAG_BYTES
    }

    /// The nonce of the next record.
    fn nonce(&self) -> [u8; Aead::NONCE_BYTES] {
        let sequence = self.sequence.to_be_bytes();
        let mut nonce = self.iv;
        if self.explicit_nonce_bytes() > 0 {
            nonce[4..].copy_from_slice(&sequence);
        } else {
            for (byte, number) in nonce[4..].iter_mut().zip(sequence) {
                *byte ^= number;
            }
        }
        nonce
    }

    /// The associated data of a record whose payload has `payload_bytes`, of which `content_bytes`
    /// are content.
    fn associated(&self, kind: u8, payload_bytes: usize, content_bytes: usize) -> Vec<u8> {
        let length = |bytes: usize| (bytes as u16).to_be_bytes();
        match self.version {
            Version::Tls12 => [
                &self.sequence.to_be_bytes()[..],
                &[kind],
                &LEGACY_VERSION,
                &length(content_bytes),
            ]
            .concat(),
            Version::Tls13 => [&[DATA][..], &LEGACY_VERSION, &length(payload_bytes)].concat(),
        }
    }
}

/// Seals records as a client would, for the kernel to open.
pub(super) struct Sealer {
    keys: RecordKeys,
    aead: Aead,
}

impl Sealer {
    pub(super) fn new(keys: RecordKeys) -> Result<Sealer, Unavailable> {
        let aead = keys.aead()?;
        Ok(Sealer { keys, aead })
    }

    /// One record with up to [`MAX_CONTENT_BYTES`] of content.
    pub(super) fn seal(&mut self, kind: u8, content: &[u8]) -> Result<Vec<u8>, Unavailable> {
        let keys = &self.keys;
        let payload_bytes = content.len() + keys.overhead_bytes();
        let (outer, inner) = match keys.version {
            Version::Tls12 => (kind, content.to_vec()),
            Version::Tls13 => (DATA, [content, &[kind]].concat()),
        };
        let nonce = keys.nonce();
        let mut wire = vec![outer];
        wire.extend(LEGACY_VERSION);
        wire.extend((payload_bytes as u16).to_be_bytes());
        wire.extend(&nonce[Aead::NONCE_BYTES - keys.explicit_nonce_bytes()..]);
        let start = wire.len();
        wire.resize(HEADER_BYTES + payload_bytes, 0);
        let associated = keys.associated(kind, payload_bytes, content.len());
        self.aead
            .seal(&nonce, &associated, &inner, &mut wire[start..])
            .ok_or_else(|| Unavailable::SelfTest("the TLS library did not seal".into()))?;
        self.keys.sequence += 1;
        Ok(wire)
    }
}

/// Opens records as a client would.
pub(super) struct Opener {
    keys: RecordKeys,
    aead: Aead,
    /// Bytes that are not opened yet.
    wire: Vec<u8>,
    /// Records opened, under all keys.
    opened: u64,
}

/// A record's type and content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) content: Vec<u8>,
}

impl Opener {
    pub(super) fn new(keys: RecordKeys) -> Result<Opener, Unavailable> {
        let aead = keys.aead()?;
        Ok(Opener {
            keys,
            aead,
            wire: Vec::new(),
            opened: 0,
        })
    }

    /// From the next record on, these keys hold.
    pub(super) fn change(&mut self, keys: RecordKeys) -> Result<(), Unavailable> {
        self.aead = keys.aead()?;
        self.keys = keys;
        Ok(())
    }

    /// Takes bytes from the wire.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.wire.extend_from_slice(bytes);
    }

    /// Bytes taken that are not part of an opened record yet.
    pub(super) fn unopened_bytes(&self) -> usize {
        self.wire.len()
    }

    /// Number of the next record, from 1, for messages.
    pub(super) fn number(&self) -> u64 {
        self.opened + 1
    }

    /// The next record, or `None` when it is not there yet.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Flaw> {
        let record = self.number();
        let Some((header, rest)) = self.wire.split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        let (kind, version) = (header[0], &header[1..3]);
        let payload_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let overhead_bytes = self.keys.overhead_bytes();
        let sane = overhead_bytes..=overhead_bytes + MAX_CONTENT_BYTES;
        let type_fits = match self.keys.version {
            Version::Tls12 => (ALERT..=DATA).contains(&kind),
            Version::Tls13 => kind == DATA,
        };
        if version != LEGACY_VERSION || !type_fits || !sane.contains(&payload_bytes) {
            return Err(Flaw::Header { record });
        }
        let Some(payload) = rest.get(..payload_bytes) else {
            return Ok(None);
        };
        let nonce = self.keys.nonce();
        let explicit_bytes = self.keys.explicit_nonce_bytes();
        let (explicit, sealed) = payload.split_at(explicit_bytes);
        // A peer would accept any number here. But using a number twice reveals GCM's key.
        if explicit != &nonce[Aead::NONCE_BYTES - explicit_bytes..] {
            return Err(Flaw::Nonce { record });
        }
        let content_bytes = payload_bytes - overhead_bytes;
        let associated = self.keys.associated(kind, payload_bytes, content_bytes);
        let mut content = vec![0; sealed.len()];
        let length = self
            .aead
            .open(&nonce, &associated, sealed, &mut content)
            .ok_or(Flaw::Unopened { record })?;
        content.truncate(length);
        let kind = match self.keys.version {
            Version::Tls12 => kind,
            // The last byte that is not padding (RFC 8446 section 5.4).
            Version::Tls13 => loop {
                match content.pop() {
                    Some(0) => {}
                    Some(kind) => break kind,
                    None => return Err(Flaw::Header { record }),
                }
            },
        };
        self.wire.drain(..HEADER_BYTES + payload_bytes);
        self.keys.sequence += 1;
        self.opened += 1;
        Ok(Some(Record { kind, content }))
    }
}
