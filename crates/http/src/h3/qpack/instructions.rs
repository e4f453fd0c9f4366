//! The streams of encoder and decoder (RFC 9204 sections 4.3 and 4.4), instruction by instruction.

use super::integer::{self, Overflow};
use super::string::{self, Taken, Text};

/// An instruction on the encoder's stream (section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToDecoder<'i> {
    /// Set Dynamic Table Capacity.
    Capacity(u64),
    /// Insert with Name Reference, to the static table.
    StaticName { index: u64, value: Text<'i> },
    /// Insert with Name Reference, to the dynamic table; relative.
    DynamicName { index: u64, value: Text<'i> },
    /// Insert with Literal Name.
    Literal { name: Text<'i>, value: Text<'i> },
    /// Duplicate; relative.
    Duplicate { index: u64 },
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Overflow,
    /// A string that no entry of the table can hold.
    TooLong,
}

impl From<Overflow> for Wrong {
    fn from(Overflow: Overflow) -> Wrong {
        Wrong::Overflow
    }
}

/// A byte of a Huffman string stands for at least this part of a byte, as the longest code has 30
/// bits.
const MAX_HUFFMAN_GROWTH: u64 = 4;

impl<'i> ToDecoder<'i> {
    /// Takes an instruction; `None` if it has not arrived entirely. A string that cannot fit into
    /// `capacity` is refused before it arrives, so that an instruction never takes more than four
    /// times the capacity for each string.
    pub(super) fn take(input: &mut &'i [u8], capacity: u32) -> Result<Option<Self>, Wrong> {
        let mut rest = *input;
        let Some(taken) = ToDecoder::parse(&mut rest, capacity)? else {
            return Ok(None);
        };
        *input = rest;
        Ok(Some(taken))
    }

    fn parse(rest: &mut &'i [u8], capacity: u32) -> Result<Option<Self>, Wrong> {
        let Some(&first) = rest.first() else {
            return Ok(None);
        };
        match first {
            0x80.. => {
                let Some(index) = integer::decode(rest, 6)? else {
                    return Ok(None);
                };
                let value = text(rest, 7, capacity)?;
                Ok(value.map(|value| match first & 0x40 {
                    0 => ToDecoder::DynamicName { index, value },
                    _ => ToDecoder::StaticName { index, value },
                }))
            }
            0x40.. => {
                let Some(name) = text(rest, 5, capacity)? else {
                    return Ok(None);
                };
                let value = text(rest, 7, capacity)?;
                Ok(value.map(|value| ToDecoder::Literal { name, value }))
            }
            0x20.. => Ok(integer::decode(rest, 5)?.map(ToDecoder::Capacity)),
            _ => Ok(integer::decode(rest, 5)?.map(|index| ToDecoder::Duplicate { index })),
        }
    }
}

fn text<'i>(
    rest: &mut &'i [u8],
    prefix_bits: u32,
    capacity: u32,
) -> Result<Option<Text<'i>>, Wrong> {
    let most_bytes = u64::from(capacity) * MAX_HUFFMAN_GROWTH;
    match string::take(rest, prefix_bits)? {
        Taken::Text(text) if text.wire_bytes() <= most_bytes => Ok(Some(text)),
        Taken::Long(length) if length <= most_bytes => Ok(None),
        Taken::Nothing => Ok(None),
        Taken::Text(_) | Taken::Long(_) => Err(Wrong::TooLong),
    }
}

/// An instruction on the decoder's stream (section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToEncoder {
    /// Section Acknowledgment of this stream.
    Acknowledged(u64),
    /// Stream Cancellation.
    Cancelled(u64),
    /// Insert Count Increment.
    Increment(u64),
}

impl ToEncoder {
    /// Takes an instruction; `None` if it has not arrived entirely.
    pub(super) fn take(input: &mut &[u8]) -> Result<Option<Self>, Overflow> {
        let Some(&first) = input.first() else {
            return Ok(None);
        };
        Ok(match first {
            0x80.. => integer::decode(input, 7)?.map(ToEncoder::Acknowledged),
            0x40.. => integer::decode(input, 6)?.map(ToEncoder::Cancelled),
            _ => integer::decode(input, 6)?.map(ToEncoder::Increment),
        })
    }

    pub(super) fn push(self, out: &mut Vec<u8>) {
        match self {
            ToEncoder::Acknowledged(stream) => integer::encode(out, 0x80, 7, stream),
            ToEncoder::Cancelled(stream) => integer::encode(out, 0x40, 6, stream),
            ToEncoder::Increment(count) => integer::encode(out, 0, 6, count),
        }
    }
}
