//! HPACK, the header compression of HTTP/2 (RFC 7541).
//!
//! A [`Decoder`] turns a whole header block (HEADERS and CONTINUATION already joined by the frame
//! layer) into lines `name: value\r\n` at the end of a buffer, the form in which the rest of the
//! server reads a request head, and tells a [`FieldSink`] where each of them is. An [`Encoder`]
//! appends header blocks to a buffer. There is one of each per connection. Neither allocates before
//! the peer or the policy adds a first entry to its table.
//!
//! | module | what it knows | RFC 7541 |
//! |---|---|---|
//! | `integer` | integers with a prefix | section 5.1 |
//! | `huffman` | the code of strings | section 5.2, appendix B |
//! | `static_table` | the 61 fields that both ends know | section 2.3.1, appendix A |
//! | `dynamic_table` | the fields that one end has told the other | sections 2.3.2, 4 |
//! | `decoder` | header blocks in | sections 3, 6 |
//! | `encoder` | header blocks out; which fields are worth an entry | sections 6, 7.1 |

mod decoder;
pub(crate) mod dynamic_table;
mod encoder;
pub(crate) mod field_hash;
pub(crate) mod huffman;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

use std::fmt;

pub use decoder::Decoder;
pub(crate) use encoder::Policy;
pub use encoder::{BlockEncoder, Encoder, Indexing};
pub use static_table::{STATIC_ENTRIES, static_field};

pub use crate::message::{Decoded, Field, FieldLimits, FieldSink, Note, Origin};

/// Initial size of a dynamic table, in bytes as RFC 7541 section 4.1 counts them: the default of
/// SETTINGS_HEADER_TABLE_SIZE (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_BYTES: u32 = 4096;

/// The largest dynamic table that we keep, in either direction, whatever the peer asks for.
pub const MAX_TABLE_BYTES: u32 = 64 * 1024;

/// The overhead of a dynamic table entry in addition to its name and value (RFC 7541 section 4.1).
pub const ENTRY_OVERHEAD_BYTES: u32 = 32;

/// A header block that cannot be decoded. From then on the two sides disagree about the dynamic
/// table, so the connection ends with COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer above 2^32 - 1, or one encoded with more bytes than that takes (section 5.1).
    IntegerOverflow,
    /// Index 0, or one beyond both tables (sections 2.3.3 and 6.1).
    InvalidIndex,
    /// The bits after the last Huffman symbol are more than seven or not all ones (section 5.2).
    HuffmanPadding,
    /// The Huffman symbol EOS within a string (section 5.2).
    HuffmanEos,
    /// A table size above the acknowledged limit (section 6.3).
    TableSizeTooLarge,
    /// A table size update after a field (section 4.2).
    TableSizeUpdateLate,
    /// No table size update although the limit dropped below the table's size (section 4.2).
    TableSizeUpdateMissing,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HpackError::Truncated => "header block ends within a field",
            HpackError::IntegerOverflow => "header block with too large an integer",
            HpackError::InvalidIndex => "header block with an index outside of both tables",
            HpackError::HuffmanPadding => "header block with wrong padding of a Huffman string",
            HpackError::HuffmanEos => "header block with the end-of-string symbol in a string",
            HpackError::TableSizeTooLarge => {
                "header block with a table size above SETTINGS_HEADER_TABLE_SIZE"
            }
            HpackError::TableSizeUpdateLate => "header block with a table size after a field",
            HpackError::TableSizeUpdateMissing => {
                "header block without the table size that a lower SETTINGS_HEADER_TABLE_SIZE asks for"
            }
        })
    }
}

impl std::error::Error for HpackError {}
