//! TLS records protected with ChaCha20-Poly1305, written into one buffer.

use std::error::Error;
use std::fmt;

use zeroize::Zeroizing;

use crate::{ChaCha20Poly1305, KEY_BYTES, NONCE_BYTES, TAG_BYTES};

/// The most plaintext in one record (RFC 8446 section 5.1, RFC 5246 section 6.2.1).
pub const MAX_RECORD_BYTES: usize = 16_384;

/// Type, version and length at the start of every record.
const HEADER_BYTES: usize = 5;

/// `application_data` (RFC 8446 section 5.1), which every TLS 1.3 record claims to be.
const APPLICATION_DATA: u8 = 23;

/// The version in the header, in TLS 1.3 too (RFC 8446 section 5.2).
const HEADER_VERSION: [u8; 2] = [3, 3];

/// How records are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246 section 6.2.3.3 with the nonces of RFC 7905.
    Tls12,
    /// RFC 8446 section 5.2.
    Tls13,
}

/// Writes the records of one direction of a connection.
///
/// Keys and sequence number are taken over from the previous writer. From then on this writer must
/// be the only one: if two writers use the same sequence number, they use a nonce twice, which
/// reveals both texts and the authentication key.
pub struct RecordWriter {
    key: ChaCha20Poly1305,
    iv: Zeroizing<[u8; NONCE_BYTES]>,
    version: Version,
    /// Of the next record; `None` once there is none left.
    sequence: Option<u64>,
}

impl RecordWriter {
    /// Continues with record number `sequence`; `None` on a processor without [`ChaCha20Poly1305`].
    pub fn new(
        version: Version,
        key: &[u8; KEY_BYTES],
        iv: &[u8; NONCE_BYTES],
        sequence: u64,
    ) -> Option<Self> {
        Some(Self {
            key: ChaCha20Poly1305::new(key)?,
            iv: Zeroizing::new(*iv),
            version,
            sequence: Some(sequence),
        })
    }

    /// Number of the next record (RFC 8446 section 5.3), `None` after the last one.
    pub fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Appends `plain` to `output` in records of at most `record_bytes` plaintext, which is clamped
    /// to 1 to [`MAX_RECORD_BYTES`]. No record is written for an empty `plain`.
    ///
    /// # Errors
    ///
    /// When the sequence numbers of the key are used up, which no connection lives to
    /// see. What was appended until then can be sent. This cipher needs no
    /// lower limit (RFC 8446 section 5.5).
    pub fn write(
        &mut self,
        record_type: u8,
        plain: &[u8],
        record_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), Exhausted> {
        let record_bytes = record_bytes.clamp(1, MAX_RECORD_BYTES);
        let records = plain.len().div_ceil(record_bytes);
        output.reserve(plain.len() + records * (HEADER_BYTES + 1 + TAG_BYTES));
        for plain in plain.chunks(record_bytes) {
            let sequence = self.sequence.ok_or(Exhausted)?;
            self.sequence = sequence.checked_add(1);
            self.write_record(sequence, record_type, plain, output);
        }
        Ok(())
    }

    /// `plain` fits in one record.
    fn write_record(&self, sequence: u64, record_type: u8, plain: &[u8], output: &mut Vec<u8>) {
        let sequence = sequence.to_be_bytes();
        // RFC 8446 section 5.3, RFC 7905 section 2.
        let mut nonce = *self.iv;
        for (byte, number) in nonce[NONCE_BYTES - sequence.len()..]
            .iter_mut()
            .zip(sequence)
        {
            *byte ^= number;
        }
        let header = |header_type: u8, content_bytes: usize| {
            let [high, low] = (content_bytes as u16).to_be_bytes();
            let [major, minor] = HEADER_VERSION;
            [header_type, major, minor, high, low]
        };
        let sealed_bytes = match self.version {
            Version::Tls13 => {
                let header = header(APPLICATION_DATA, plain.len() + 1 + TAG_BYTES);
                output.extend_from_slice(&header);
                self.key
                    .seal(&nonce, &header, plain, &[record_type], output)
            }
            Version::Tls12 => {
                output.extend_from_slice(&header(record_type, plain.len() + TAG_BYTES));
                let mut associated = [0; 8 + HEADER_BYTES];
                associated[..8].copy_from_slice(&sequence);
                associated[8..].copy_from_slice(&header(record_type, plain.len()));
                self.key.seal(&nonce, &associated, plain, &[], output)
            }
        };
        sealed_bytes.expect("a record is far shorter than the cipher allows");
    }
}

impl fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, sequence) = (self.version, self.sequence);
        write!(
            f,
            "RecordWriter({version:?}, next record {sequence:?}, redacted)"
        )
    }
}

/// The sequence numbers of a key are used up (RFC 8446 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all record numbers of the connection's key are used up")
    }
}

impl Error for Exhausted {}
