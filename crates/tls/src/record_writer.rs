//! Records sealed by our own code, where it is faster than libssl's: so far
//! ChaCha20-Poly1305 on processors with AVX-512 (`sealane_vector`;
//! docs/performance.md has the figures).
//!
//! The writer takes the write direction from libssl the way the kernel does
//! (`ktls/take_over.rs`): libssl goes on behind its guard, and what it wants to
//! say leaves as records of their own type, sealed here.

use std::fmt;
use std::sync::OnceLock;

use sealane_awslc as awslc;
use sealane_awslc::{RecordCipher, TransmitKeys};
use sealane_vector::ChaCha20Poly1305;

use crate::error::Error;
use crate::ktls::{ALERT, HANDSHAKE, KEY_UPDATE};

/// The smallest piece of plaintext for which the write direction is taken from
/// libssl. Exporting the keys costs about as much as sealing some KiB.
const MIN_WRITE_BYTES: usize = 16 << 10;

const APPLICATION_DATA: u8 = 23;
const RECORD_HEADER_BYTES: usize = 5;

/// The write direction of a connection in user space, without libssl.
pub(crate) struct RecordWriter {
    /// Where the next record stands: its sequence number is counted on here.
    keys: TransmitKeys,
    aead: ChaCha20Poly1305,
}

impl RecordWriter {
    /// Whether it pays to take the write direction for so many bytes.
    pub(crate) fn pays(tls: &awslc::Connection, bytes: usize) -> bool {
        bytes >= MIN_WRITE_BYTES
            && is_available()
            && tls.record_cipher() == Some(RecordCipher::ChaCha20Poly1305)
    }

    /// Takes the write direction, if there is faster code for this connection's
    /// cipher. An empty write came just before.
    pub(crate) fn take(tls: &mut awslc::Connection) -> Option<RecordWriter> {
        let keys = tls.transmit_keys().ok()?;
        let writer = RecordWriter {
            aead: aead(&keys)?,
            keys,
        };
        // The writer has the key: libssl must not use it again.
        tls.release_transmit();
        Some(writer)
    }

    /// Keys and position of the next record, for whoever seals from now on.
    pub(crate) fn keys(&self) -> &TransmitKeys {
        &self.keys
    }

    /// Seals what libssl wants to say: alerts, and with `data_follows` the answer
    /// to a KeyUpdate, under which the key is turned.
    ///
    /// # Errors
    ///
    /// When the key cannot be turned.
    pub(crate) fn control(
        &mut self,
        tls: &mut awslc::Connection,
        data_follows: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let Some(alert) = tls.take_alert() {
            self.seal(ALERT, &alert, output);
        }
        if data_follows && tls.is_key_update_due() {
            self.seal(HANDSHAKE, &KEY_UPDATE, output);
            self.keys = tls.next_transmit_keys()?;
            self.aead = aead(&self.keys).ok_or(Error::NotEstablished)?;
        }
        Ok(())
    }

    /// Seals `plain` in records of at most `record_bytes`.
    pub(crate) fn write(&mut self, plain: &[u8], record_bytes: usize, output: &mut Vec<u8>) {
        for record in plain.chunks(record_bytes.max(1)) {
            self.seal(APPLICATION_DATA, record, output);
        }
    }

    /// One record (RFC 8446 section 5.2; RFC 5246 section 6.2.3.3 with RFC 7905).
    fn seal(&mut self, record_type: u8, plain: &[u8], output: &mut Vec<u8>) {
        let number = self.keys.sequence.to_be_bytes();
        let mut nonce = [0; sealane_vector::NONCE_BYTES];
        nonce.copy_from_slice(self.keys.iv());
        for (byte, digit) in nonce[4..].iter_mut().zip(number) {
            *byte ^= digit;
        }
        // Not more than 16 KiB by TLS' own limit, so lengths fit 16 bits.
        let (outer_type, tail): (u8, &[u8]) = if self.keys.tls13 {
            (APPLICATION_DATA, &[record_type])
        } else {
            (record_type, &[])
        };
        let body_bytes = plain.len() + tail.len() + sealane_vector::TAG_BYTES;
        let [high, low] = (body_bytes as u16).to_be_bytes();
        let header: [u8; RECORD_HEADER_BYTES] = [outer_type, 3, 3, high, low];
        output.extend_from_slice(&header);
        let sealed = if self.keys.tls13 {
            self.aead.seal(&nonce, &header, plain, tail, output)
        } else {
            let [high, low] = (plain.len() as u16).to_be_bytes();
            let mut associated = [0; 13];
            associated[..8].copy_from_slice(&number);
            associated[8..].copy_from_slice(&[record_type, 3, 3, high, low]);
            self.aead.seal(&nonce, &associated, plain, tail, output)
        };
        sealed.expect("a record is far shorter than what may be sealed under one nonce");
        // 2^64 records cannot be sent in the life of a machine.
        self.keys.sequence += 1;
    }
}

/// Whether this processor has what the faster code needs.
fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| ChaCha20Poly1305::new(&[0; sealane_vector::KEY_BYTES]).is_some())
}

fn aead(keys: &TransmitKeys) -> Option<ChaCha20Poly1305> {
    ChaCha20Poly1305::new(keys.key().try_into().ok()?)
}

impl fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordWriter({:?})", self.keys)
    }
}
