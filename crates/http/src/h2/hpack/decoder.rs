//! Decodes header blocks (RFC 7541 sections 3 and 6).

use super::dynamic_table::DynamicTable;
use super::{DEFAULT_TABLE_BYTES, HpackError, MAX_TABLE_BYTES, STATIC_ENTRIES};
use super::{huffman, integer, static_table};
use crate::message::{
    Budget, Decoded, Field, FieldLimits, FieldSink, LINE_END, Note, Origin, SEPARATOR,
};

/// Decodes the header blocks of one connection, all of them and in the order they arrived. A clone
/// continues independently from the same state.
#[derive(Clone)]
pub struct Decoder {
    table: DynamicTable<Note>,
    /// SETTINGS_HEADER_TABLE_SIZE as acknowledged by the peer.
    limit: u32,
    /// The limit dropped below the table's size, and the peer has not acknowledged that in a block
    /// yet.
    must_update: bool,
    /// A block could not be decoded: the table is out of sync with the peer's.
    failed: Option<HpackError>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder with the initial table size of every connection; allocates nothing.
    pub fn new() -> Decoder {
        Decoder {
            table: DynamicTable::new(DEFAULT_TABLE_BYTES),
            limit: DEFAULT_TABLE_BYTES,
            must_update: false,
            failed: None,
        }
    }

    /// Records that the peer has acknowledged our SETTINGS_HEADER_TABLE_SIZE, at most
    /// [`MAX_TABLE_BYTES`]. If that is less than the table's size, the next block must begin with a
    /// table size update (RFC 7541 section 4.2).
    pub fn set_limit(&mut self, bytes: u32) {
        self.limit = bytes.min(MAX_TABLE_BYTES);
        self.must_update = self.limit < self.table.max_size();
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

    /// Decodes a header block: appends a line to `head` for each field and shows it to `sink`.
    ///
    /// `head` grows by at most `limits.max_block_bytes`, four bytes of punctuation per field and
    /// 8/5 of the block, whatever the block contains. Any number of table size updates is accepted
    /// at its beginning; they cost nothing.
    ///
    /// # Errors
    /// [`HpackError`] if the block is malformed; the connection must end then, as the table is out
    /// of step, and `head` ends with bytes of no meaning. No later block decodes.
    pub fn decode(
        &mut self,
        block: &[u8],
        limits: &FieldLimits,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<Decoded, HpackError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let decoded = self.block(block, limits, head, sink);
        self.failed = decoded.err();
        decoded
    }

    fn block(
        &mut self,
        block: &[u8],
        limits: &FieldLimits,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<Decoded, HpackError> {
        let mut rest = block;
        self.table_size_updates(&mut rest)?;
        let mut budget = Budget::new(limits);
        while let Some(&first) = rest.first() {
            let line_start = head.len();
            if first & 0x80 != 0 {
                let index = integer::decode(&mut rest, 7)?;
                self.indexed(index, &mut budget, head, sink)?;
                continue;
            }
            let kind = match first {
                0x40.. => Kind::Indexing,
                0x20.. => return Err(HpackError::TableSizeUpdateLate),
                0x10.. => Kind::Never,
                _ => Kind::Without,
            };
            let literal = self.literal(&mut rest, kind, head)?;
            if kind == Kind::Indexing {
                let line = &head[line_start..];
                let (name, value) = literal.split(line);
                let inserted = self.table.insert(name, value, 0);
                debug_assert!(inserted || self.table.len() == 0);
                if budget.take(literal.name_bytes, literal.value_bytes) {
                    let note = sink.field(head, &literal);
                    if inserted {
                        self.table.set_newest_note(note);
                    }
                    continue;
                }
            } else if budget.take(literal.name_bytes, literal.value_bytes) {
                sink.field(head, &literal);
                continue;
            }
            head.truncate(line_start);
        }
        Ok(budget.outcome())
    }

    /// Section 6.3: at the beginning of a block only.
    fn table_size_updates(&mut self, rest: &mut &[u8]) -> Result<(), HpackError> {
        while let Some(0x20..=0x3f) = rest.first() {
            let size = integer::decode(rest, 5)?;
            if size > self.limit {
                return Err(HpackError::TableSizeTooLarge);
            }
            self.table.set_max_size(size);
            self.must_update = false;
        }
        match self.must_update {
            true => Err(HpackError::TableSizeUpdateMissing),
            false => Ok(()),
        }
    }

    /// Section 6.1.
    #[inline]
    fn indexed(
        &self,
        index: u32,
        budget: &mut Budget,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<(), HpackError> {
        let (line, name_bytes, origin) = self.line(index)?;
        let name_bytes = name_bytes as usize;
        let value_bytes = line.len() - name_bytes - SEPARATOR.len() - LINE_END.len();
        if !budget.take(name_bytes, value_bytes) {
            return Ok(());
        }
        let field = Field {
            line_start: head.len(),
            name_bytes,
            value_bytes,
            origin,
            never_indexed: false,
        };
        head.extend_from_slice(line);
        sink.field(head, &field);
        Ok(())
    }

    /// The line of an entry, the length of its name, and its origin as a complete field.
    #[inline]
    fn line(&self, index: u32) -> Result<(&[u8], u32, Origin), HpackError> {
        if let Some(entry) = static_table::line(index) {
            return Ok((entry.line, entry.name_bytes, Origin::Static(index as u8)));
        }
        // Index 0 wraps to an age that no entry has.
        let age = index.wrapping_sub(STATIC_ENTRIES + 1);
        let (entry, line) = self.table.get(age).ok_or(HpackError::InvalidIndex)?;
        Ok((line, entry.name_bytes, Origin::Dynamic(entry.note)))
    }

    /// Section 6.2: appends the line of a literal field.
    fn literal(
        &self,
        rest: &mut &[u8],
        kind: Kind,
        head: &mut Vec<u8>,
    ) -> Result<Field, HpackError> {
        let line_start = head.len();
        let index = integer::decode(rest, kind.prefix_bits())?;
        let origin = match index {
            0 => {
                string(rest, head)?;
                head.extend_from_slice(SEPARATOR);
                Origin::Literal
            }
            _ => {
                let (line, name_bytes, origin) = self.line(index)?;
                head.extend_from_slice(&line[..name_bytes as usize + SEPARATOR.len()]);
                match origin {
                    Origin::Static(index) => Origin::StaticName(index),
                    Origin::Dynamic(note) => Origin::DynamicName(note),
                    other => other,
                }
            }
        };
        let value_start = head.len();
        string(rest, head)?;
        let value_bytes = head.len() - value_start;
        head.extend_from_slice(LINE_END);
        Ok(Field {
            line_start,
            name_bytes: value_start - SEPARATOR.len() - line_start,
            value_bytes,
            origin,
            never_indexed: kind == Kind::Never,
        })
    }
}

/// Section 5.2: appends a string.
#[inline]
fn string(rest: &mut &[u8], head: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::decode(rest, 7)? as usize;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    if is_huffman {
        return huffman::decode(text, head);
    }
    head.extend_from_slice(text);
    Ok(())
}

/// The three literal representations (sections 6.2.1 to 6.2.3).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Indexing,
    Without,
    Never,
}

impl Kind {
    const fn prefix_bits(self) -> u32 {
        match self {
            Kind::Indexing => 6,
            Kind::Without | Kind::Never => 4,
        }
    }
}
