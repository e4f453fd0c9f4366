//! Strings (RFC 9204 section 4.1.2).

use super::integer::{self, Overflow};
use crate::h2::hpack::{HpackError, huffman};

/// A string as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<'i> {
    is_huffman: bool,
    bytes: &'i [u8],
}

/// The front of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken<'i> {
    /// All of it.
    Text(Text<'i>),
    /// It is this long, but not all of it has arrived.
    Long(u64),
    /// Not even its length has arrived.
    Nothing,
}

/// Takes a string whose length has a prefix of `prefix_bits`; the bit above says whether it is a
/// Huffman string.
#[inline]
pub(super) fn take<'i>(input: &mut &'i [u8], prefix_bits: u32) -> Result<Taken<'i>, Overflow> {
    let mut rest = *input;
    let is_huffman = rest
        .first()
        .is_some_and(|first| first >> prefix_bits & 1 != 0);
    let Some(length) = integer::decode(&mut rest, prefix_bits)? else {
        return Ok(Taken::Nothing);
    };
    let split = usize::try_from(length).ok();
    let Some((bytes, rest)) = split.and_then(|length| rest.split_at_checked(length)) else {
        return Ok(Taken::Long(length));
    };
    *input = rest;
    Ok(Taken::Text(Text { is_huffman, bytes }))
}

impl Text<'_> {
    /// Its length on the wire.
    pub(super) fn wire_bytes(self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends the text.
    #[inline]
    pub(super) fn decode(self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        if self.is_huffman {
            return huffman::decode(self.bytes, out);
        }
        out.extend_from_slice(self.bytes);
        Ok(())
    }
}

/// Appends a string, in the shorter of both codes; `flags` are the bits above that which tells
/// them apart.
pub(super) fn push(out: &mut Vec<u8>, flags: u8, prefix_bits: u32, text: &[u8]) {
    let huffman_bytes = huffman::encoded_bytes(text);
    if huffman_bytes < text.len() {
        let flags = flags | 1 << prefix_bits;
        integer::encode(out, flags, prefix_bits, huffman_bytes as u64);
        huffman::encode(text, huffman_bytes, out);
    } else {
        integer::encode(out, flags, prefix_bits, text.len() as u64);
        out.extend_from_slice(text);
    }
}
