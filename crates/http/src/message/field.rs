//! Fields as the decoders of both header compressions hand them on.

use crate::h1;

/// What separates a name from its value in a line.
pub(crate) const SEPARATOR: &[u8; 2] = b": ";
/// What ends a line.
pub(crate) const LINE_END: &[u8; 2] = b"\r\n";

/// A [`FieldSink`]'s findings about a field. The note is kept with the field's entry in the dynamic
/// table and handed back when the peer refers to the entry again, so that a name need not be looked
/// up again nor a value checked again. Zero means that nothing is known: the sink had nothing to
/// note, or the field came beyond a limit and was not shown.
pub type Note = u16;

/// Takes decoded fields.
pub trait FieldSink {
    /// The line of `field` has just been appended to `head`. The sink may truncate it or write
    /// after it; what precedes it belongs to the sink. Returns the note to be handed back when this
    /// field comes again.
    fn field(&mut self, head: &mut Vec<u8>, field: &Field) -> Note;
}

/// One decoded field: a line `name: value\r\n` at the end of the buffer. Neither name nor value is
/// validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Where in the buffer the line begins.
    pub line_start: usize,
    /// Length of the name, with which the line begins.
    pub name_bytes: usize,
    /// Length of the value, which follows the name and `: `.
    pub value_bytes: usize,
    /// Where name and value come from.
    pub origin: Origin,
    /// The peer forbids indexing the field on any hop (RFC 7541 section 7.1.3).
    pub never_indexed: bool,
}

/// Where a field comes from, and so what is known of it without examining its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Name and value are HPACK's static entry with this index.
    Static(u8),
    /// The name is that of HPACK's static entry with this index.
    StaticName(u8),
    /// Name and value are a dynamic entry, or one of QPACK's static table; holds the note from its
    /// first appearance.
    Dynamic(Note),
    /// The name is that of such an entry; holds the note about its name and value.
    DynamicName(Note),
    /// Name and value came as text.
    Literal,
}

impl Field {
    /// The name within the buffer.
    pub fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.line_start..self.line_start + self.name_bytes]
    }

    /// Where in the buffer the value begins.
    pub const fn value_start(&self) -> usize {
        self.line_start + self.name_bytes + SEPARATOR.len()
    }

    /// The value within the buffer.
    pub fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.value_start()..self.value_start() + self.value_bytes]
    }
}

/// Limits on the contents of one header block. A block of a few KiB can refer to one entry of the
/// table thousands of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLimits {
    /// Bytes of a field's name and value together; nginx's size of one of
    /// `large_client_header_buffers`.
    pub max_field_bytes: usize,
    /// Bytes of all names and values; nginx's size times number of `large_client_header_buffers`.
    pub max_block_bytes: usize,
    /// Number of fields.
    pub max_fields: usize,
}

/// Pseudo-headers of a request, which `max_headers` does not count.
const PSEUDO_FIELDS: usize = 4;

impl FieldLimits {
    /// The limits of `large_client_header_buffers` and `max_headers`.
    pub(crate) fn of_heads(head: &h1::Limits) -> FieldLimits {
        FieldLimits {
            max_field_bytes: head.large_buffer_bytes,
            max_block_bytes: head
                .large_buffer_bytes
                .saturating_mul(head.large_buffer_count),
            // One more, so that it is refused as a header too many.
            max_fields: head.max_headers.saturating_add(PSEUDO_FIELDS + 1),
        }
    }
}

impl Default for FieldLimits {
    /// Like nginx's `large_client_header_buffers 4 8k` and `max_headers 1000`.
    fn default() -> FieldLimits {
        FieldLimits {
            max_field_bytes: 8 * 1024,
            max_block_bytes: 32 * 1024,
            max_fields: 1000,
        }
    }
}

/// The outcome of a valid header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The sink has seen all fields.
    Complete,
    /// Some limit of [`FieldLimits`] was exceeded; the sink has seen the fields before that. The
    /// dynamic table matches the peer's, so the connection can continue after a 431 response. nginx
    /// ends the connection with ENHANCE_YOUR_CALM instead; the caller decides which.
    LimitExceeded,
}

impl Field {
    /// Splits a field's line into name and value.
    pub(crate) fn split<'a>(&self, line: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let (name, rest) = line.split_at(self.name_bytes);
        (name, &rest[SEPARATOR.len()..][..self.value_bytes])
    }
}

/// What remains of the limits.
pub(crate) struct Budget {
    max_field_bytes: usize,
    block_bytes: usize,
    fields: usize,
    exceeded: bool,
}

impl Budget {
    pub(crate) fn new(limits: &FieldLimits) -> Budget {
        Budget {
            max_field_bytes: limits.max_field_bytes,
            block_bytes: limits.max_block_bytes,
            fields: limits.max_fields,
            exceeded: false,
        }
    }

    /// Whether a field is within the limits. Once one is not, all later ones are refused.
    #[inline]
    pub(crate) fn take(&mut self, name_bytes: usize, value_bytes: usize) -> bool {
        let bytes = name_bytes + value_bytes;
        if self.exceeded
            || bytes > self.max_field_bytes
            || bytes > self.block_bytes
            || self.fields == 0
        {
            self.exceeded = true;
            return false;
        }
        self.block_bytes -= bytes;
        self.fields -= 1;
        true
    }

    pub(crate) fn outcome(&self) -> Decoded {
        match self.exceeded {
            true => Decoded::LimitExceeded,
            false => Decoded::Complete,
        }
    }
}
