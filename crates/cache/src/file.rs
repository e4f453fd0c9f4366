//! The form of nginx's cache files.
//!
//! ```text
//! header, fixed size | "\nKEY: " key "\n" | head of the response, as received | body
//!                    0                    header_start                       body_start
//! ```
//!
//! The header is nginx's version 5: a C structure in the machine's own order, on every 64-bit
//! platform alike. Its last four bytes are padding, which nginx writes as zero and never reads.
//! There we keep the length of the body, so that a file that has lost its end is found out even
//! where the head has no `Content-Length`. Behind `Vary`, in room that nginx fills with zeros and
//! never reads either, is a checksum of the body: after a power failure a file can have its length
//! and not its bytes.

use crate::key::{CacheKey, HASH_BYTES, Hash};
use std::fmt;

/// The version of the form, as nginx counts.
const VERSION: u64 = 5;
/// The size of the header.
pub const FIXED_BYTES: usize = 336;
/// What stands before the key.
const KEY_MARK: &[u8] = b"\nKEY: ";
/// Longest `ETag`, and longest `Vary`.
const TEXT_BYTES: usize = 128;
/// What stands before the checksum, at the end of the room for `Vary`.
const CHECKSUM_MARK: &[u8] = b"crc\x01";
const CHECKSUM_BYTES: usize = CHECKSUM_MARK.len() + size_of::<u32>();
/// Where the position of the head stands, and the length of `Vary`.
const HEADER_START_AT: usize = 54;
const VARY_AT: usize = 187;
/// A time that is not known (`Last-Modified`).
pub const NO_TIME: i64 = -1;

/// The header of a cache file. Times are in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheHeader {
    /// Until when the response is fresh.
    pub valid_s: i64,
    /// For how many seconds after that it may be served while it is updated.
    pub updating_s: i64,
    /// And when updating it fails.
    pub error_s: i64,
    /// `Last-Modified`, or [`NO_TIME`].
    pub last_modified_s: i64,
    /// When it was received or confirmed.
    pub date_s: i64,
    /// Where the head begins.
    pub header_start: u16,
    /// Where the body begins.
    pub body_start: u16,
    /// `ETag`; empty if there is none, or a longer one.
    pub etag: Box<[u8]>,
    /// `Vary`.
    pub vary: Box<[u8]>,
    /// The hash of the variant, if there is a `Vary`.
    pub variant: Hash,
    /// What is known of the length of the body.
    pub length: StoredLength,
    /// The checksum of the body; `None` if nginx has written the file, or
    /// [`holds_checksum`](CacheHeader::holds_checksum) is not so.
    pub checksum: Option<u32>,
}

/// The checksum of a body, while it is written or read.
#[derive(Debug, Clone, Default)]
pub struct BodyChecksum(crc32fast::Hasher);

impl BodyChecksum {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything so far.
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// What a file says about the length of its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoredLength {
    /// Nothing: nginx has written it.
    #[default]
    Unknown,
    /// The length, modulo 2^32 - 1.
    Folded(u32),
}

/// Why a file is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// It is shorter than its own header says.
    TooSmall,
    /// Another version of the form.
    Version,
    /// It belongs to another key with the same MD5 sum, or was exchanged.
    Collision,
    /// The head is longer than what was read.
    HeaderTooLong,
    /// The length of `Vary` is wrong.
    Vary,
}

impl StoredLength {
    /// The length of a complete body.
    pub fn of(bytes: u64) -> StoredLength {
        // Never zero once it is written.
        StoredLength::Folded((bytes % u64::from(u32::MAX)) as u32)
    }

    /// Whether a body may have this length.
    pub fn allows(self, bytes: u64) -> bool {
        self == StoredLength::Unknown || self == StoredLength::of(bytes)
    }
}

impl CacheHeader {
    /// The longest `Vary` that a file can hold; with a longer one a response is not cached.
    pub const MAX_VARY_BYTES: usize = TEXT_BYTES;

    /// Whether there is room for a checksum.
    pub fn holds_checksum(&self) -> bool {
        self.vary.len() + CHECKSUM_BYTES <= TEXT_BYTES
    }

    /// Where the head begins in the file of this key.
    pub fn start_for(key: &CacheKey) -> usize {
        FIXED_BYTES + KEY_MARK.len() + key.text().len() + 1
    }

    /// The fixed part.
    pub fn fixed(&self, key: &CacheKey) -> [u8; FIXED_BYTES] {
        let mut out = [0; FIXED_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&VERSION.to_ne_bytes());
        for time in [
            self.valid_s,
            self.updating_s,
            self.error_s,
            self.last_modified_s,
            self.date_s,
        ] {
            put(&time.to_ne_bytes());
        }
        put(&key.crc32().to_ne_bytes());
        put(&0u16.to_ne_bytes());
        put(&self.header_start.to_ne_bytes());
        put(&self.body_start.to_ne_bytes());
        let checksum = self.checksum.filter(|_| self.holds_checksum());
        for (text, checksum) in [(&self.etag, None), (&self.vary, checksum)] {
            let text = match text.len() {
                ..=TEXT_BYTES => &text[..],
                _ => &[],
            };
            let mut field = [0; TEXT_BYTES];
            field[..text.len()].copy_from_slice(text);
            if let Some(checksum) = checksum {
                let end = &mut field[TEXT_BYTES - CHECKSUM_BYTES..];
                let (mark, value) = end.split_at_mut(CHECKSUM_MARK.len());
                mark.copy_from_slice(CHECKSUM_MARK);
                value.copy_from_slice(&checksum.to_ne_bytes());
            }
            put(&[text.len() as u8]);
            put(&field);
        }
        put(&self.variant);
        let length = match self.length {
            StoredLength::Unknown => 0,
            StoredLength::Folded(bytes) => bytes.wrapping_add(1),
        };
        put(&length.to_ne_bytes());
        out
    }

    /// What comes before the body: the fixed part, the key and the head.
    pub fn encode(&self, key: &CacheKey, head: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(CacheHeader::start_for(key) + head.len());
        out.extend_from_slice(&self.fixed(key));
        out.extend_from_slice(KEY_MARK);
        out.extend_from_slice(key.text());
        out.push(b'\n');
        out.extend_from_slice(head);
        out
    }

    /// Reads the beginning of a file whose key is not known, with the key.
    ///
    /// # Errors
    /// [`Mismatch`]: the file makes no sense.
    pub fn decode_with_key(bytes: &[u8]) -> Result<(CacheHeader, CacheKey), Mismatch> {
        let place = bytes
            .get(HEADER_START_AT..)
            .and_then(|rest| rest.first_chunk());
        let start = place.map_or(0, |place| usize::from(u16::from_ne_bytes(*place)));
        let text = bytes.get(FIXED_BYTES + KEY_MARK.len()..start.saturating_sub(1));
        let key = CacheKey::new(text.ok_or(Mismatch::TooSmall)?.to_vec());
        let header = CacheHeader::decode(bytes, &key)?;
        Ok((header, key))
    }

    /// Whether the fixed part has a `Vary`, or is none that we could read.
    pub(crate) fn names_vary(fixed: &[u8; FIXED_BYTES]) -> bool {
        fixed[..8] != VERSION.to_ne_bytes() || fixed[VARY_AT] != 0
    }

    /// Reads the beginning of a file, as far as it was read.
    ///
    /// # Errors
    /// [`Mismatch`]: the file is not one for this key.
    pub fn decode(bytes: &[u8], key: &CacheKey) -> Result<CacheHeader, Mismatch> {
        let start = CacheHeader::start_for(key);
        if bytes.len() < start {
            return Err(Mismatch::TooSmall);
        }
        let mut reader = Reader(bytes);
        if u64::from_ne_bytes(reader.take()) != VERSION {
            return Err(Mismatch::Version);
        }
        let mut time = || i64::from_ne_bytes(reader.take());
        let [valid_s, updating_s, error_s, last_modified_s, date_s] =
            std::array::from_fn(|_| time());
        let crc32 = u32::from_ne_bytes(reader.take());
        let _valid_msec: [u8; 2] = reader.take();
        let header_start = u16::from_ne_bytes(reader.take());
        let body_start = u16::from_ne_bytes(reader.take());
        let [etag_bytes] = reader.take();
        let etag: [u8; TEXT_BYTES] = reader.take();
        let [vary_bytes] = reader.take();
        let vary: [u8; TEXT_BYTES] = reader.take();
        let variant: [u8; HASH_BYTES] = reader.take();
        let length = u32::from_ne_bytes(reader.take());
        let is_same = crc32 == key.crc32()
            && usize::from(header_start) == start
            && bytes[FIXED_BYTES..].starts_with(KEY_MARK)
            && bytes[FIXED_BYTES + KEY_MARK.len()..].starts_with(key.text());
        if !is_same {
            return Err(Mismatch::Collision);
        }
        if usize::from(body_start) > bytes.len() || body_start < header_start {
            return Err(Mismatch::HeaderTooLong);
        }
        let etag = etag.get(..usize::from(etag_bytes)).unwrap_or_default();
        let (vary, behind) = vary
            .split_at_checked(usize::from(vary_bytes))
            .ok_or(Mismatch::Vary)?;
        let checksum = behind.last_chunk::<CHECKSUM_BYTES>();
        let checksum = checksum.and_then(|end| end.strip_prefix(CHECKSUM_MARK));
        let checksum = checksum.and_then(|value| value.first_chunk());
        Ok(CacheHeader {
            valid_s,
            updating_s,
            error_s,
            last_modified_s,
            date_s,
            header_start,
            body_start,
            etag: etag.into(),
            vary: vary.into(),
            variant,
            length: match length.checked_sub(1) {
                None => StoredLength::Unknown,
                Some(bytes) => StoredLength::Folded(bytes),
            },
            checksum: checksum.map(|value| u32::from_ne_bytes(*value)),
        })
    }
}

/// Takes fields of a structure that is known to be there.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        *field
    }
}

impl fmt::Display for Mismatch {
    /// In nginx's words, after the name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mismatch::TooSmall => "is too small",
            Mismatch::Version => "version mismatch",
            Mismatch::Collision => "has md5 collision",
            Mismatch::HeaderTooLong => "has too long header",
            Mismatch::Vary => "has incorrect vary length",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (CacheKey, CacheHeader) {
        let key = CacheKey::new(b"http://127.0.0.1/a".to_vec());
        let header = CacheHeader {
            valid_s: 1_800_000_000,
            updating_s: 1,
            error_s: 2,
            last_modified_s: NO_TIME,
            date_s: 1_790_000_000,
            header_start: CacheHeader::start_for(&key) as u16,
            body_start: CacheHeader::start_for(&key) as u16 + 4,
            etag: (*b"\"e\"").into(),
            vary: (*b"Accept-Encoding").into(),
            variant: [7; HASH_BYTES],
            length: StoredLength::of(11),
            checksum: Some(0x1234_5678),
        };
        (key, header)
    }

    #[test]
    fn what_is_written_is_read() {
        let (key, header) = sample();
        let bytes = header.encode(&key, b"HEAD");
        assert_eq!(bytes.len(), usize::from(header.body_start));
        assert_eq!(CacheHeader::decode(&bytes, &key), Ok(header.clone()));
        // nginx's own offsets on 64-bit machines.
        assert_eq!(bytes[..8], 5u64.to_ne_bytes());
        assert_eq!(bytes[48..52], key.crc32().to_ne_bytes());
        assert_eq!(bytes[58..62], *b"\x03\"e\"");
        assert_eq!(bytes[187..190], *b"\x0fAc");
        assert_eq!(bytes[316..332], [7; 16]);
        assert_eq!(bytes[336..342], *b"\nKEY: ");
    }

    #[test]
    fn a_checksum_is_there_if_it_has_room() {
        let (key, mut header) = sample();
        for (vary_bytes, fits) in [(0, true), (120, true), (121, false), (128, false)] {
            header.vary = vec![b'v'; vary_bytes].into();
            assert_eq!(header.holds_checksum(), fits);
            let bytes = header.encode(&key, b"HEAD");
            let read = CacheHeader::decode(&bytes, &key).expect("it was written so");
            assert_eq!(read.vary, header.vary);
            assert_eq!(read.checksum, header.checksum.filter(|_| fits));
        }
        // As nginx writes it.
        header.checksum = None;
        header.vary = Box::default();
        let bytes = header.encode(&key, b"HEAD");
        assert_eq!(
            CacheHeader::decode(&bytes, &key).map(|read| read.checksum),
            Ok(None)
        );
    }

    #[test]
    fn the_key_can_be_read_from_the_file() {
        let (key, header) = sample();
        let bytes = header.encode(&key, b"HEAD");
        let read = CacheHeader::decode_with_key(&bytes);
        assert_eq!(read, Ok((header.clone(), key.clone())));
        for cut in 0..bytes.len() {
            assert!(
                CacheHeader::decode_with_key(&bytes[..cut]).is_err(),
                "{cut}"
            );
        }
        let fixed = |header: &CacheHeader| header.fixed(&key);
        assert!(CacheHeader::names_vary(&fixed(&header)));
        let plain = CacheHeader {
            vary: Box::default(),
            ..header
        };
        assert!(!CacheHeader::names_vary(&fixed(&plain)));
    }

    #[test]
    fn other_files_are_refused() {
        let (key, header) = sample();
        let bytes = header.encode(&key, b"HEAD");
        let decode = |bytes: &[u8]| CacheHeader::decode(bytes, &key).map(drop);
        for cut in 0..bytes.len() - 4 {
            assert_eq!(decode(&bytes[..cut]), Err(Mismatch::TooSmall), "{cut}");
        }
        assert_eq!(
            decode(&bytes[..bytes.len() - 1]),
            Err(Mismatch::HeaderTooLong)
        );
        let changed = |at: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[at] = byte;
            decode(&changed)
        };
        assert_eq!(changed(0, 3), Err(Mismatch::Version));
        assert_eq!(changed(48, bytes[48] ^ 1), Err(Mismatch::Collision));
        assert_eq!(changed(350, b'!'), Err(Mismatch::Collision));
        assert_eq!(changed(187, 129), Err(Mismatch::Vary));
        assert_eq!(decode(&[0; 512]), Err(Mismatch::Version));
    }

    #[test]
    fn a_lost_end_is_found_out() {
        assert!(StoredLength::Unknown.allows(5));
        assert!(StoredLength::of(5).allows(5));
        assert!(!StoredLength::of(5).allows(4));
        let huge = u64::from(u32::MAX) + 9;
        assert!(StoredLength::of(huge).allows(huge));
        assert!(!StoredLength::of(huge).allows(huge - 1));
    }
}
