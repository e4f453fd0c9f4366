//! Decodes field sections (RFC 9204 sections 2.2 and 4.5).

use super::instructions::{ToDecoder, ToEncoder, Wrong};
use super::integer::{self, Overflow};
use super::prefix::Prefix;
use super::static_table;
use super::string::{self, Taken};
use crate::h2::hpack::dynamic_table::{DynamicTable, size_of_field};
use crate::h2::hpack::{HpackError, MAX_TABLE_BYTES};
use crate::h3::error::{Code, ConnectionError};
use crate::message::{
    Budget, Decoded, Field, FieldLimits, FieldSink, LINE_END, Note, Origin, SEPARATOR,
};

/// The outcome of a valid field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// It was decoded, and acknowledged if that is due.
    Decoded(Decoded),
    /// It refers to entries that have not come; see [`Decoder::next_unblocked`].
    Blocked,
}

/// A section that waits.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    stream: u64,
    required: u64,
    /// Entries that had come when it arrived, on which the meaning of its prefix depends.
    inserted: u64,
}

/// Decodes the field sections of one connection.
pub(crate) struct Decoder {
    table: DynamicTable<Note>,
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    max_capacity: u32,
    /// SETTINGS_QPACK_BLOCKED_STREAMS.
    max_blocked: usize,
    /// Entries that have come.
    inserted: u64,
    /// Entries of which the peer knows, or will have read in `out`, that they have come.
    acknowledged: u64,
    blocked: Vec<Blocked>,
    /// The section that need not wait any more, and is decoded next.
    resumed: Option<Blocked>,
    /// The front of an instruction.
    partial: Vec<u8>,
    /// Instructions for the peer's encoder.
    out: Vec<u8>,
    /// The type of the decoder's stream has been written.
    has_begun: bool,
}

impl Decoder {
    /// A decoder that announces these limits; allocates nothing.
    pub(crate) fn new(max_capacity: u32, max_blocked: usize) -> Decoder {
        Decoder {
            // Section 3.2.3: zero until the encoder says otherwise.
            table: DynamicTable::new(0),
            max_capacity: max_capacity.min(MAX_TABLE_BYTES),
            max_blocked,
            inserted: 0,
            acknowledged: 0,
            blocked: Vec::new(),
            resumed: None,
            partial: Vec::new(),
            out: Vec::new(),
            has_begun: false,
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
            + self.blocked.capacity() * size_of::<Blocked>()
            + self.partial.capacity()
            + self.out.capacity()
    }

    /// What is to be sent on the decoder's stream.
    pub(crate) fn outgoing(&mut self) -> &[u8] {
        if self.inserted > self.acknowledged {
            let count = self.inserted - self.acknowledged;
            self.acknowledged = self.inserted;
            self.push(ToEncoder::Increment(count));
        }
        &self.out
    }

    /// The first bytes of that have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        super::drop_front(&mut self.out, bytes);
    }

    /// Bytes that wait to be sent.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.out.len()
    }

    fn push(&mut self, instruction: ToEncoder) {
        if !self.has_begun {
            self.has_begun = true;
            self.out.push(super::DECODER_STREAM as u8);
        }
        instruction.push(&mut self.out);
    }

    /// Takes bytes of the encoder's stream. Returns how many bytes were written into the table.
    pub(crate) fn encoder_stream(&mut self, input: &[u8]) -> Result<u64, ConnectionError> {
        let held = std::mem::take(&mut self.partial);
        let mut written = 0;
        if held.is_empty() {
            let rest = self.instructions(input, &mut written)?;
            self.partial = rest.to_vec();
            return Ok(written);
        }
        let mut joined = held;
        joined.extend_from_slice(input);
        let rest = self.instructions(&joined, &mut written)?.len();
        if rest > 0 {
            joined.drain(..joined.len() - rest);
            self.partial = joined;
        }
        Ok(written)
    }

    /// Executes all instructions that are complete, and returns the rest.
    fn instructions<'i>(
        &mut self,
        mut input: &'i [u8],
        written: &mut u64,
    ) -> Result<&'i [u8], ConnectionError> {
        loop {
            let taken = ToDecoder::take(&mut input, self.table.max_size());
            let taken = taken.map_err(|wrong| {
                encoder_error(match wrong {
                    Wrong::Overflow => "QPACK instruction with too large an integer",
                    Wrong::TooLong => "QPACK entry larger than its table",
                })
            })?;
            match taken {
                Some(instruction) => *written += self.execute(instruction)?,
                None => return Ok(input),
            }
        }
    }

    fn execute(&mut self, instruction: ToDecoder<'_>) -> Result<u64, ConnectionError> {
        let huffman = |_: HpackError| encoder_error("QPACK instruction with invalid Huffman code");
        let mut text = Vec::new();
        let name_bytes = match instruction {
            ToDecoder::Capacity(capacity) => {
                let capacity = u32::try_from(capacity)
                    .ok()
                    .filter(|&capacity| capacity <= self.max_capacity)
                    .ok_or(encoder_error("QPACK table capacity above the limit"))?;
                self.table.set_max_size(capacity);
                return Ok(0);
            }
            ToDecoder::StaticName { index, value } => {
                let (line, _) = static_table::get(index)
                    .ok_or(encoder_error("QPACK instruction with an invalid index"))?;
                text.extend_from_slice(line.name());
                value.decode(&mut text).map_err(huffman)?;
                line.name().len()
            }
            ToDecoder::DynamicName { index, value } => {
                let (entry, line) = self.relative(index)?;
                let name = entry.name(line);
                text.extend_from_slice(name);
                value.decode(&mut text).map_err(huffman)?;
                name.len()
            }
            ToDecoder::Literal { name, value } => {
                name.decode(&mut text).map_err(huffman)?;
                let name_bytes = text.len();
                value.decode(&mut text).map_err(huffman)?;
                name_bytes
            }
            ToDecoder::Duplicate { index } => {
                let (entry, line) = self.relative(index)?;
                let name = entry.name(line);
                text.extend_from_slice(name);
                text.extend_from_slice(entry.value(line));
                name.len()
            }
        };
        let (name, value) = text.split_at(name_bytes);
        if !self.table.insert(name, value, 0) {
            return Err(encoder_error("QPACK entry larger than its table"));
        }
        self.inserted += 1;
        Ok(size_of_field(name.len(), value.len()))
    }

    /// An entry by its index relative to the newest (section 3.2.5).
    fn relative(&self, index: u64) -> Result<Entry<'_>, ConnectionError> {
        u32::try_from(index)
            .ok()
            .and_then(|age| self.table.get(age))
            .ok_or(encoder_error("QPACK instruction with an invalid index"))
    }

    /// A stream whose section need not wait any more: decode it before anything else.
    pub(crate) fn next_unblocked(&mut self) -> Option<u64> {
        let is_free = |blocked: &Blocked| blocked.required <= self.inserted;
        let at = self.blocked.iter().position(is_free)?;
        self.resumed = Some(self.blocked.remove(at));
        self.resumed.map(|blocked| blocked.stream)
    }

    /// The sections of a stream are not wanted (section 2.2.2.2).
    pub(crate) fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|blocked| blocked.stream != stream);
        // Without a table nothing can refer to it.
        if self.max_capacity > 0 {
            self.push(ToEncoder::Cancelled(stream));
        }
    }

    /// Decodes the section that is next on `stream`, appends its lines to `head` and shows them to
    /// `sink`.
    ///
    /// `head` grows by at most `limits.max_block_bytes`, four bytes of punctuation per field and
    /// 8/5 of the section, whatever the section contains. Nothing is decoded beyond a limit.
    pub(crate) fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        limits: &FieldLimits,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<Section, ConnectionError> {
        let mut rest = section;
        let max_entries = super::max_entries(self.max_capacity);
        let resumed = self.resumed.take();
        let resumed = resumed.filter(|resumed| resumed.stream == stream);
        let inserted = resumed.map_or(self.inserted, |resumed| resumed.inserted);
        let prefix = Prefix::take(&mut rest, inserted, max_entries).map_err(section_error)?;
        if prefix.required > self.inserted {
            if self.blocked.len() >= self.max_blocked {
                return Err(section_error("more blocked streams than allowed"));
            }
            self.blocked.push(Blocked {
                stream,
                required: prefix.required,
                inserted,
            });
            return Ok(Section::Blocked);
        }
        let mut budget = Budget::new(limits);
        while !rest.is_empty() && budget.outcome() == Decoded::Complete {
            self.field(&mut rest, prefix, &mut budget, head, sink)?;
        }
        if prefix.required > 0 {
            self.acknowledged = self.acknowledged.max(prefix.required);
            self.push(ToEncoder::Acknowledged(stream));
        }
        Ok(Section::Decoded(budget.outcome()))
    }

    /// One field line (sections 4.5.2 to 4.5.6).
    #[inline]
    fn field(
        &mut self,
        rest: &mut &[u8],
        prefix: Prefix,
        budget: &mut Budget,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        let first = rest.first().copied().unwrap_or_default();
        match first {
            0x80.. => {
                let index = number(rest, 6)?;
                match first & 0x40 {
                    0 => self.dynamic(prefix.relative(index)?, prefix, budget, head, sink),
                    _ => static_field(index, budget, head, sink),
                }
            }
            0x10..0x20 => {
                let index = number(rest, 4)?;
                self.dynamic(prefix.post_base(index)?, prefix, budget, head, sink)
            }
            _ => {
                let line_start = head.len();
                let field = self.literal(rest, first, prefix, head)?;
                if budget.take(field.name_bytes, field.value_bytes) {
                    sink.field(head, &field);
                } else {
                    head.truncate(line_start);
                }
                Ok(())
            }
        }
    }

    /// An indexed field of the dynamic table.
    fn dynamic(
        &mut self,
        absolute: u64,
        prefix: Prefix,
        budget: &mut Budget,
        head: &mut Vec<u8>,
        sink: &mut impl FieldSink,
    ) -> Result<(), ConnectionError> {
        let (age, (entry, line)) = self.absolute(absolute, prefix)?;
        let (name_bytes, value_bytes) = (entry.name_bytes as usize, entry.value_bytes as usize);
        if !budget.take(name_bytes, value_bytes) {
            return Ok(());
        }
        let known = entry.note;
        let field = Field {
            line_start: head.len(),
            name_bytes,
            value_bytes,
            origin: Origin::Dynamic(known),
            never_indexed: false,
        };
        head.extend_from_slice(line);
        let note = sink.field(head, &field);
        if known == 0 {
            self.table.set_note(age, note);
        }
        Ok(())
    }

    /// The entry with an absolute index, which must be below the section's Required Insert Count
    /// (section 2.2.3), and its age.
    fn absolute(&self, absolute: u64, prefix: Prefix) -> Result<(u32, Entry<'_>), ConnectionError> {
        let invalid = section_error("field section with an invalid index");
        if absolute >= prefix.required {
            return Err(invalid);
        }
        // Required entries have come.
        let age = u32::try_from(self.inserted - 1 - absolute).map_err(|_| invalid)?;
        let entry = self.table.get(age).ok_or(invalid)?;
        Ok((age, entry))
    }

    /// Appends the line of a literal field.
    fn literal(
        &self,
        rest: &mut &[u8],
        first: u8,
        prefix: Prefix,
        head: &mut Vec<u8>,
    ) -> Result<Field, ConnectionError> {
        let line_start = head.len();
        let (origin, never_indexed) = match first {
            // Section 4.5.4, with a name of the static table.
            0x50..0x60 | 0x70..0x80 => {
                let index = number(rest, 4)?;
                let (line, note) = static_table::get(index)
                    .ok_or(section_error("field section with an invalid index"))?;
                head.extend_from_slice(line.name());
                (Origin::DynamicName(note), first & 0x20 != 0)
            }
            // The same, with a name of the dynamic table.
            0x40..0x50 | 0x60..0x70 => {
                let index = number(rest, 4)?;
                let note = self.push_name(prefix.relative(index)?, prefix, head)?;
                (Origin::DynamicName(note), first & 0x20 != 0)
            }
            // Section 4.5.6.
            0x20.. => {
                literal_text(rest, 3, head)?;
                (Origin::Literal, first & 0x10 != 0)
            }
            // Section 4.5.5.
            _ => {
                let index = number(rest, 3)?;
                let note = self.push_name(prefix.post_base(index)?, prefix, head)?;
                (Origin::DynamicName(note), first & 0x08 != 0)
            }
        };
        let name_bytes = head.len() - line_start;
        head.extend_from_slice(SEPARATOR);
        let value_start = head.len();
        literal_text(rest, 7, head)?;
        let value_bytes = head.len() - value_start;
        head.extend_from_slice(LINE_END);
        Ok(Field {
            line_start,
            name_bytes,
            value_bytes,
            origin,
            never_indexed,
        })
    }

    /// Appends the name of a dynamic entry.
    fn push_name(
        &self,
        absolute: u64,
        prefix: Prefix,
        head: &mut Vec<u8>,
    ) -> Result<Note, ConnectionError> {
        let (_, (entry, line)) = self.absolute(absolute, prefix)?;
        head.extend_from_slice(entry.name(line));
        Ok(entry.note)
    }
}

/// An entry of the dynamic table and its line.
type Entry<'t> = (&'t crate::h2::hpack::dynamic_table::Entry<Note>, &'t [u8]);

impl Prefix {
    /// The absolute index of one that is relative to the base (section 3.2.5).
    fn relative(self, index: u64) -> Result<u64, ConnectionError> {
        self.base
            .checked_sub(index)
            .and_then(|after| after.checked_sub(1))
            .ok_or(section_error("field section with an invalid index"))
    }

    /// The absolute index of one that counts from the base on (section 3.2.6).
    fn post_base(self, index: u64) -> Result<u64, ConnectionError> {
        self.base
            .checked_add(index)
            .ok_or(section_error("field section with an invalid index"))
    }
}

/// An indexed field of the static table.
fn static_field(
    index: u64,
    budget: &mut Budget,
    head: &mut Vec<u8>,
    sink: &mut impl FieldSink,
) -> Result<(), ConnectionError> {
    let (line, note) =
        static_table::get(index).ok_or(section_error("field section with an invalid index"))?;
    let (name_bytes, value_bytes) = (line.name().len(), line.value().len());
    if budget.take(name_bytes, value_bytes) {
        let field = Field {
            line_start: head.len(),
            name_bytes,
            value_bytes,
            origin: Origin::Dynamic(note),
            never_indexed: false,
        };
        head.extend_from_slice(line.line);
        sink.field(head, &field);
    }
    Ok(())
}

#[inline]
fn number(rest: &mut &[u8], prefix_bits: u32) -> Result<u64, ConnectionError> {
    integer::decode(rest, prefix_bits)
        .map_err(|Overflow| section_error("field section with too large an integer"))?
        .ok_or(section_error("field section ends within a field"))
}

#[inline]
fn literal_text(
    rest: &mut &[u8],
    prefix_bits: u32,
    head: &mut Vec<u8>,
) -> Result<(), ConnectionError> {
    let taken = string::take(rest, prefix_bits)
        .map_err(|Overflow| section_error("field section with too large an integer"))?;
    match taken {
        Taken::Text(text) => text
            .decode(head)
            .map_err(|_| section_error("field section with invalid Huffman code")),
        _ => Err(section_error("field section ends within a field")),
    }
}

const fn section_error(reason: &'static str) -> ConnectionError {
    ConnectionError::new(Code::QPACK_DECOMPRESSION_FAILED, reason)
}

const fn encoder_error(reason: &'static str) -> ConnectionError {
    ConnectionError::new(Code::QPACK_ENCODER_STREAM_ERROR, reason)
}
