//! QPACK, the header compression of HTTP/3 (RFC 9204).
//!
//! A [`Decoder`] turns the payload of a HEADERS frame into lines `name: value\r\n`, as that of
//! HPACK does; fields that later ones refer to come on a stream of their own, and until they have
//! come, a section waits. An [`Encoder`] appends sections to a buffer, and instructions for the
//! peer's decoder to its own. There is one of each per connection. Neither allocates before the
//! peer adds a first entry to its table, or says that it has one.
//!
//! | module | what it knows | RFC 9204 |
//! |---|---|---|
//! | `integer` | integers with a prefix | 4.1.1 |
//! | `string` | strings, Huffman or not | 4.1.2 |
//! | `static_table` | the 99 fields that both ends know | 3.1, appendix A |
//! | `instructions` | the streams of encoder and decoder | 4.3, 4.4 |
//! | `prefix` | what precedes a field section | 4.5.1 |
//! | `decoder` | field sections in | 2.2, 4.5 |
//! | `encoder` | field sections out; which fields are worth an entry | 2.1, 4.5 |

mod decoder;
mod encoder;
mod instructions;
mod integer;
mod prefix;
mod static_table;
mod string;
#[cfg(test)]
mod tests;

pub(crate) use decoder::{Decoder, Section};
pub(crate) use encoder::{Encoder, SectionEncoder};

/// The types of the two streams (RFC 9204 section 4.2).
pub(super) const ENCODER_STREAM: u64 = 0x2;
pub(super) const DECODER_STREAM: u64 = 0x3;

/// Drops the first bytes of what is to be sent, and its memory with the last of them.
pub(super) fn drop_front(out: &mut Vec<u8>, bytes: usize) {
    if bytes >= out.len() {
        *out = Vec::new();
    } else {
        out.drain(..bytes);
    }
}

/// How many entries of the least size fit into a table (RFC 9204 section 4.5.1.1).
const fn max_entries(capacity: u32) -> u64 {
    (capacity / crate::h2::hpack::ENTRY_OVERHEAD_BYTES) as u64
}
