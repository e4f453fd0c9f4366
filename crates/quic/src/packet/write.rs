//! Building of packets.

use super::{FIXED, LONG, LongType, PacketType, SAMPLE_LEN, TAG_LEN, number};
use crate::frame::put_padding;
use crate::{Version, varint};

/// Bytes of the length in a long header. It is written when the packet is complete, so it always
/// has the form of two bytes.
const LENGTH_LEN: usize = 2;

/// Most bytes behind the length of a long header.
const MAX_LENGTH: usize = 0x3fff;

/// The header of a packet that is to be built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    /// Destination connection id.
    pub destination: &'a [u8],
    /// What depends on the type.
    pub form: Form<'a>,
    /// `false` to leave the fixed bit out, which peers with `grease_quic_bit` are prepared for
    /// (RFC 9287).
    pub fixed_bit: bool,
}

/// What a header has, depending on the type of the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// An Initial packet.
    Initial {
        /// Its version.
        version: Version,
        /// Source connection id.
        source: &'a [u8],
        /// A client's token, or nothing.
        token: &'a [u8],
    },
    /// A 0-RTT packet.
    ZeroRtt {
        /// Its version.
        version: Version,
        /// Source connection id.
        source: &'a [u8],
    },
    /// A Handshake packet.
    Handshake {
        /// Its version.
        version: Version,
        /// Source connection id.
        source: &'a [u8],
    },
    /// A 1-RTT packet.
    OneRtt {
        /// The spin bit.
        spin: bool,
        /// The key phase bit.
        key_phase: bool,
    },
}

impl Form<'_> {
    pub(super) const fn packet_type(&self) -> PacketType {
        match self {
            Self::Initial { .. } => PacketType::Initial,
            Self::ZeroRtt { .. } => PacketType::ZeroRtt,
            Self::Handshake { .. } => PacketType::Handshake,
            Self::OneRtt { .. } => PacketType::OneRtt,
        }
    }
}

impl Header<'_> {
    /// Bytes that a packet of this header is longer than its frames: header, packet number and tag.
    #[must_use]
    pub(crate) fn overhead(&self, number: u64, largest_acked: Option<u64>) -> usize {
        let rest = match self.form {
            Form::Initial { source, token, .. } => {
                let token_len = varint::len(token.len() as u64) + token.len();
                6 + source.len() + token_len + LENGTH_LEN
            }
            Form::ZeroRtt { source, .. } | Form::Handshake { source, .. } => {
                6 + source.len() + LENGTH_LEN
            }
            Form::OneRtt { .. } => 0,
        };
        1 + self.destination.len() + rest + number::encoded_len(number, largest_acked) + TAG_LEN
    }

    /// Starts a packet behind what is in `out`. Frames are to be appended next.
    ///
    /// `largest_acked` is the largest packet number of the space that the peer has acknowledged.
    #[must_use]
    pub(crate) fn put(
        &self,
        number: u64,
        largest_acked: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Building {
        self.start(number, number::encoded_len(number, largest_acked), out)
    }

    /// Starts a packet with `number_len` bytes of its number.
    pub(super) fn start(&self, number: u64, number_len: usize, out: &mut Vec<u8>) -> Building {
        let start = out.len();
        let fixed = if self.fixed_bit { FIXED } else { 0 };
        let first = fixed | (number_len - 1) as u8;
        match self.form {
            Form::Initial {
                version,
                source,
                token,
            } => {
                self.put_long(first, LongType::Initial, version, source, out);
                varint::put(out, token.len() as u64);
                out.extend_from_slice(token);
            }
            Form::ZeroRtt { version, source } => {
                self.put_long(first, LongType::ZeroRtt, version, source, out);
            }
            Form::Handshake { version, source } => {
                self.put_long(first, LongType::Handshake, version, source, out);
            }
            Form::OneRtt { spin, key_phase } => {
                out.push(first | u8::from(spin) << 5 | u8::from(key_phase) << 2);
                out.extend_from_slice(self.destination);
            }
        }
        let packet_type = self.form.packet_type();
        if packet_type.is_long() {
            out.extend_from_slice(&[0; LENGTH_LEN]);
        }
        let number_at = out.len();
        out.extend_from_slice(&(number as u32).to_be_bytes()[4 - number_len..]);
        Building {
            start,
            number_at,
            payload_at: out.len(),
            packet_type,
        }
    }

    fn put_long(
        &self,
        first: u8,
        long_type: LongType,
        version: Version,
        source: &[u8],
        out: &mut Vec<u8>,
    ) {
        out.push(LONG | first | long_type.bits(version));
        out.extend_from_slice(&version.to_wire().to_be_bytes());
        for id in [self.destination, source] {
            debug_assert!(id.len() <= 20, "an id of {} bytes", id.len());
            out.push(id.len() as u8);
            out.extend_from_slice(id);
        }
    }
}

/// A packet that is being built at the end of a buffer.
///
/// The order: [`Building::close`], seal, [`Building::sample`], [`Building::protect`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Building {
    start: usize,
    number_at: usize,
    payload_at: usize,
    packet_type: PacketType,
}

impl Building {
    /// Where the packet starts in the buffer.
    #[must_use]
    pub(crate) const fn start(&self) -> usize {
        self.start
    }

    /// Where its frames start in the buffer.
    #[must_use]
    pub(crate) const fn payload_at(&self) -> usize {
        self.payload_at
    }

    /// Pads the packet so that, with its tag, it ends at `end` in the buffer; not at all if it is
    /// that long already. Datagrams with Initial packets have 1,200 bytes (RFC 9000 section 14.1).
    pub(crate) fn pad_to(&self, end: usize, out: &mut Vec<u8>) {
        put_padding(out, end.saturating_sub(out.len() + TAG_LEN));
    }

    /// Ends the packet after its last frame. Gives the header, and the payload with room for the
    /// tag, which are to be sealed.
    ///
    /// Payloads that are too short for a sample are padded (RFC 9001 section 5.4.2).
    ///
    /// # Panics
    /// If a packet with a long header has more than 16,383 bytes; no handshake needs as many.
    pub(crate) fn close<'a>(&self, out: &'a mut Vec<u8>) -> (&'a [u8], &'a mut [u8]) {
        let shortest = self.number_at + 4 + SAMPLE_LEN - TAG_LEN;
        out.resize(out.len().max(shortest) + TAG_LEN, 0);
        if self.packet_type.is_long() {
            let len = out.len() - self.number_at;
            assert!(len <= MAX_LENGTH, "a long header's packet of {len} bytes");
            out[self.number_at - LENGTH_LEN..self.number_at]
                .copy_from_slice(&(len as u16 | 0x4000).to_be_bytes());
        }
        let (header, payload) = out[self.start..].split_at_mut(self.payload_at - self.start);
        (header, payload)
    }

    /// What the mask is computed from, once the packet has been sealed.
    #[must_use]
    pub(crate) fn sample<'a>(&self, out: &'a [u8]) -> &'a [u8; SAMPLE_LEN] {
        out[self.number_at + 4..]
            .first_chunk()
            .expect("a closed packet is long enough")
    }

    /// Puts the mask on: the packet is complete.
    pub(crate) fn protect(self, out: &mut [u8], mask: &[u8; 5]) {
        out[self.start] ^= mask[0] & self.packet_type.masked_bits();
        for (byte, mask) in out[self.number_at..self.payload_at]
            .iter_mut()
            .zip(&mask[1..])
        {
            *byte ^= mask;
        }
    }
}
