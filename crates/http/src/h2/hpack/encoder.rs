//! Encodes header blocks (RFC 7541 section 6), and decides which fields are worth a table entry.

mod names;
mod search_table;

use smallvec::SmallVec;

use self::names::Name;
pub(crate) use self::names::Policy;
use self::search_table::{Found, SearchTable};
use super::{DEFAULT_TABLE_BYTES, huffman, integer, static_table};
use crate::headers::KnownHeader;
use crate::message::FieldWriter;

/// The largest table that an encoder keeps: lengths and ages in it are 16 bits. A larger offer from
/// the peer brings nothing, as the repeated headers of one server fit into a quarter of it.
const MAX_ENCODER_TABLE_BYTES: u32 = 16 * 1024;

/// The caller's choice about a field's place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// The encoder decides. Cookies and credentials are never indexed. Fields that most responses
    /// of a server repeat are indexed at once, and any other field when it comes for the second
    /// time.
    #[default]
    Auto,
    /// Index at the first occurrence: the caller knows that this connection will see the field
    /// again.
    AtOnce,
    /// Never index, on this hop or any other (RFC 7541 section 7.1.3): secrets, and fields that
    /// were received that way.
    Never,
}

/// Encodes the header blocks of one connection.
pub struct Encoder {
    table: SearchTable,
    /// The largest table that this side wants.
    own_limit: u32,
    /// The smallest table size requested since the last block, if the size changed at all; the
    /// table has not been resized yet.
    smallest_due: Option<u32>,
    /// The size that the table should have.
    size_due: u32,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new(DEFAULT_TABLE_BYTES)
    }
}

impl Encoder {
    /// An encoder that uses at most `own_limit` bytes of table (counted as in RFC 7541 section 4.1)
    /// out of what the peer allows, which is 4096 by default; allocates nothing.
    pub fn new(own_limit: u32) -> Encoder {
        let own_limit = own_limit.min(MAX_ENCODER_TABLE_BYTES);
        let mut encoder = Encoder {
            table: SearchTable::new(),
            own_limit,
            smallest_due: None,
            size_due: DEFAULT_TABLE_BYTES,
        };
        encoder.set_peer_limit(DEFAULT_TABLE_BYTES);
        encoder
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. The next block announces the chosen size, if it
    /// changed.
    pub fn set_peer_limit(&mut self, bytes: u32) {
        let size = bytes.min(self.own_limit);
        if size == self.size_due {
            return;
        }
        let smallest = self.smallest_due.unwrap_or(u32::MAX);
        self.smallest_due = Some(smallest.min(size));
        self.size_due = size;
    }

    /// Size of the table as RFC 7541 section 4.1 counts it.
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> u32 {
        self.table.size()
    }

    #[cfg(test)]
    pub(super) fn table_lines(&self) -> Vec<Vec<u8>> {
        self.table.lines()
    }

    /// Heap memory that the connection holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    /// Begins a header block at the end of `out`. It must be sent, and in order with the others.
    pub fn block<'a>(&'a mut self, out: &'a mut Vec<u8>) -> BlockEncoder<'a> {
        if let Some(smallest) = self.smallest_due.take() {
            // Section 4.2: the smallest intermediate size, as it evicts, then the final one.
            if smallest < self.size_due && smallest < self.table.max_size() {
                self.table.set_max_size(smallest);
                integer::encode(out, 0x20, 5, smallest);
            }
            if self.size_due != self.table.max_size() {
                self.table.set_max_size(self.size_due);
                integer::encode(out, 0x20, 5, self.size_due);
            }
        }
        BlockEncoder { encoder: self, out }
    }
}

/// A header block being encoded.
pub struct BlockEncoder<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
}

impl FieldWriter for BlockEncoder<'_> {
    #[inline]
    fn known(&mut self, name: KnownHeader, value: &[u8]) {
        BlockEncoder::known(self, name, value, Indexing::Auto);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        BlockEncoder::field(self, name, value, Indexing::Auto);
    }
}

impl BlockEncoder<'_> {
    /// Adds `:status`, three digits.
    #[inline]
    pub fn status(&mut self, code: u16) {
        let index = match code {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.other_status(code),
        };
        self.out.push(0x80 | index);
    }

    fn other_status(&mut self, code: u16) {
        let digit = |power: u16| b'0' + (code / power % 10) as u8;
        let value = [digit(100), digit(10), digit(1)];
        self.add(&Name::STATUS, &value);
    }

    /// Adds a well-known field; cheaper than [`field`](Self::field).
    #[inline]
    pub fn known(&mut self, name: KnownHeader, value: &[u8], indexing: Indexing) {
        self.add(&Name::known(name, indexing), value);
    }

    /// Adds a field. Upper-case letters in the name, which HTTP/2 forbids, become lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        if let Some(known) = KnownHeader::from_name(name) {
            return self.known(known, value, indexing);
        }
        // Longer names are rare enough to be copied to the heap.
        let mut lower = SmallVec::<[u8; 64]>::from_slice(name);
        lower.make_ascii_lowercase();
        self.add(&Name::other(&lower, indexing), value);
    }

    fn add(&mut self, name: &Name<'_>, value: &[u8]) {
        if name.policy == Policy::Never {
            return self.literal(Literal::NEVER, name, u32::from(name.index), value);
        }
        if let Some(index) = static_table::index_with_value(name.index, value) {
            self.out.push(0x80 | index);
            return;
        }
        match self.encoder.table.find(name, value) {
            Found::Field { index } if index < 127 => self.out.push(0x80 | index as u8),
            Found::Field { index } => integer::encode(self.out, 0x80, 7, index),
            Found::Name { index } => self.literal(Literal::WITHOUT, name, index, value),
            Found::Worthy { index, hashed } => {
                self.literal(Literal::INDEXING, name, index, value);
                self.encoder.table.insert(name, value, hashed);
            }
        }
    }

    /// Section 6.2; `index` 0 means a literal name.
    fn literal(&mut self, literal: Literal, name: &Name<'_>, index: u32, value: &[u8]) {
        integer::encode(self.out, literal.flags, literal.prefix_bits, index);
        if index == 0 {
            self.string(name.text);
        }
        self.string(value);
    }

    /// Section 5.2.
    fn string(&mut self, text: &[u8]) {
        let huffman_bytes = huffman::encoded_bytes(text);
        // A string of 4 GiB is not a header; its length would not fit into a frame either.
        if huffman_bytes < text.len() {
            integer::encode(self.out, 0x80, 7, huffman_bytes as u32);
            huffman::encode(text, huffman_bytes, self.out);
        } else {
            integer::encode(self.out, 0, 7, text.len() as u32);
            self.out.extend_from_slice(text);
        }
    }
}

/// The first byte of a literal representation.
#[derive(Clone, Copy)]
struct Literal {
    flags: u8,
    prefix_bits: u32,
}

impl Literal {
    const INDEXING: Literal = Literal {
        flags: 0x40,
        prefix_bits: 6,
    };
    const WITHOUT: Literal = Literal {
        flags: 0,
        prefix_bits: 4,
    };
    const NEVER: Literal = Literal {
        flags: 0x10,
        prefix_bits: 4,
    };
}
