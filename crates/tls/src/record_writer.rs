//! Seals records with our own code where it is faster than libssl's: so far ChaCha20-Poly1305 on
//! processors with AVX-512 (`sealane_vector`; docs/performance.md has the figures).
//!
//! The writer takes over the write direction from libssl the way the kernel does
//! (`ktls/take_over.rs`). libssl continues behind its guard, and what it wants to send is sealed
//! here as records of their own type.

use std::fmt;
use std::sync::OnceLock;

use sealane_awslc as awslc;
use sealane_awslc::{RecordCipher, TransmitKeys};
use sealane_vector::ChaCha20Poly1305;

use crate::control_records::{ALERT, HANDSHAKE, KEY_UPDATE};
use crate::error::Error;

/// The smallest piece of plaintext for which the write direction is taken over from libssl.
/// Exporting the keys costs about as much as sealing a few KiB.
const MIN_WRITE_BYTES: usize = 16 << 10;

/// `application_data` (RFC 8446 section 5.1).
const APPLICATION_DATA: u8 = 23;

/// The write direction of a connection in user space, without libssl.
pub(crate) struct RecordWriter {
    /// As taken from libssl; `records` continues their sequence number.
    keys: TransmitKeys,
    records: sealane_vector::RecordWriter,
}

impl RecordWriter {
    /// Whether taking over the write direction pays off for `bytes` bytes.
    pub(crate) fn pays(tls: &awslc::Connection, bytes: usize) -> bool {
        bytes >= MIN_WRITE_BYTES
            && is_available()
            && tls.record_cipher() == Some(RecordCipher::ChaCha20Poly1305)
    }

    /// Takes over the write direction, if there is faster code for this connection's cipher. There
    /// must have been an empty write just before.
    pub(crate) fn take(tls: &mut awslc::Connection) -> Option<RecordWriter> {
        let keys = tls.transmit_keys().ok()?;
        let writer = RecordWriter {
            records: records(&keys)?,
            keys,
        };
        // The writer has the key: libssl must not use it again.
        tls.release_transmit();
        Some(writer)
    }

    /// Continues with record number `sequence` for another process's writer.
    ///
    /// Its keys are those that libssl has: both update them at the same point
    /// ([`control`](Self::control)).
    ///
    /// `None` when this processor does not have the faster code.
    pub(crate) fn go_on(tls: &awslc::Connection, sequence: u64) -> Option<RecordWriter> {
        let mut keys = tls.transmit_keys().ok()?;
        if keys.cipher != RecordCipher::ChaCha20Poly1305 {
            return None;
        }
        keys.sequence = sequence;
        let records = records(&keys)?;
        Some(RecordWriter { keys, records })
    }

    /// Number of the next record; `None` when there is none under this key.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.records.sequence()
    }

    /// Keys and position of the next record, for whoever seals from now on.
    ///
    /// # Errors
    ///
    /// When there is no next record under these keys.
    pub(crate) fn keys(&mut self) -> Result<&TransmitKeys, Error> {
        self.keys.sequence = self.records.sequence().ok_or(Error::NotEstablished)?;
        Ok(&self.keys)
    }

    /// Seals what libssl has to send: alerts and, with `data_follows`, the answer to a KeyUpdate,
    /// which updates the key.
    ///
    /// # Errors
    ///
    /// When the key cannot be updated.
    pub(crate) fn control(
        &mut self,
        tls: &mut awslc::Connection,
        data_follows: bool,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let Some(alert) = tls.take_alert() {
            self.seal(ALERT, &alert, alert.len(), output)?;
        }
        if data_follows && tls.is_key_update_due() {
            self.seal(HANDSHAKE, &KEY_UPDATE, KEY_UPDATE.len(), output)?;
            self.keys = tls.next_transmit_keys()?;
            self.records = records(&self.keys).ok_or(Error::NotEstablished)?;
        }
        Ok(())
    }

    /// Seals `plain` in records of at most `record_bytes`.
    ///
    /// # Errors
    ///
    /// When the key has no record numbers left, which no connection lives long enough to see.
    pub(crate) fn write(
        &mut self,
        plain: &[u8],
        record_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.seal(APPLICATION_DATA, plain, record_bytes, output)
    }

    fn seal(
        &mut self,
        record_type: u8,
        plain: &[u8],
        record_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.records
            .write(record_type, plain, record_bytes, output)
            .map_err(|_exhausted| Error::NotEstablished)
    }
}

/// Whether this processor has what the faster code needs.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| ChaCha20Poly1305::new(&[0; sealane_vector::KEY_BYTES]).is_some())
}

fn records(keys: &TransmitKeys) -> Option<sealane_vector::RecordWriter> {
    let version = if keys.tls13 {
        sealane_vector::Version::Tls13
    } else {
        sealane_vector::Version::Tls12
    };
    let (key, iv) = (keys.key().try_into().ok()?, keys.iv().try_into().ok()?);
    sealane_vector::RecordWriter::new(version, key, iv, keys.sequence)
}

impl fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordWriter({:?})", self.keys)
    }
}
