//! Packets of version 1 (RFC 9000 section 17) and version 2 (RFC 9369 section 3.2).
//!
//! Nothing is encrypted here: callers hand in the masks of header protection, and seal and open
//! payloads in place.
//!
//! Reading: [`Packets`] splits a datagram; a [`Protected`] packet gives the [`sample`] for the
//! mask, which turns it into an [`Unmasked`] one, whose payload can be opened.
//!
//! Writing: [`Header::put`] starts a packet behind what is in the buffer, the caller appends
//! frames, [`Building::close`] sets the length and gives what is to be sealed, and
//! [`Building::protect`] puts the mask on.
//!
//! [`sample`]: Protected::sample

mod number;
mod read;
mod retry;
mod version_negotiation;
mod write;

#[cfg(test)]
mod tests;

use crate::{Space, Version};

pub(crate) use read::long_header;
pub(crate) use read::{Packet, Packets, Protected, Unmasked};
pub use read::{UnknownVersion, destination};
pub(crate) use retry::{NewRetry, Retry};
pub(crate) use version_negotiation::reserved_version;
pub(crate) use version_negotiation::{VersionNegotiation, put_version_negotiation};
pub(crate) use write::{Building, Form, Header};

/// Bytes by which a packet is longer than its header and its plaintext: the tags of all AEADs that
/// QUIC uses, RFC 9001 section 5.3.
pub(crate) const TAG_LEN: usize = 16;

/// Bytes that a mask of header protection is computed from, RFC 9001 section 5.4.2.
pub(crate) const SAMPLE_LEN: usize = 16;

/// Shortest packet number and sealed payload that a sample can be taken from.
pub(crate) const MIN_SEALED_LEN: usize = 4 + SAMPLE_LEN;

/// Most packets of a datagram that are looked at. There is no reason to send more than one of each
/// type, and a datagram of headers alone must not cost more than one of data.
pub(crate) const MAX_COALESCED: usize = 16;

/// The long header's form bit, which all versions have (RFC 8999 section 5.1).
const LONG: u8 = 0x80;
/// The fixed bit, RFC 9000 section 17.2, which RFC 9287 calls the QUIC bit.
const FIXED: u8 = 0x40;

/// Types of packets that carry frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// The first packets of both ends.
    Initial,
    /// Early data of a client.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// All else; these have the short header.
    OneRtt,
}

impl PacketType {
    /// The space that their packet numbers are of, RFC 9000 section 12.3.
    #[must_use]
    pub(crate) const fn space(self) -> Space {
        match self {
            Self::Initial => Space::Initial,
            Self::Handshake => Space::Handshake,
            Self::ZeroRtt | Self::OneRtt => Space::Data,
        }
    }

    const fn is_long(self) -> bool {
        !matches!(self, Self::OneRtt)
    }

    /// Bits of the first byte that are masked, RFC 9001 section 5.4.1.
    const fn masked_bits(self) -> u8 {
        if self.is_long() { 0x0f } else { 0x1f }
    }
}

/// Types of long headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LongType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

impl LongType {
    /// Those of version 1, in the order of their bits (RFC 9000 table 5). Version 2 has moved each
    /// on by one (RFC 9369 section 3.2).
    const ALL: [Self; 4] = [Self::Initial, Self::ZeroRtt, Self::Handshake, Self::Retry];

    const fn moved(version: Version) -> u8 {
        match version {
            Version::V1 => 0,
            Version::V2 => 1,
        }
    }

    fn from_first_byte(first: u8, version: Version) -> Self {
        let bits = (first >> 4).wrapping_sub(Self::moved(version)) & 3;
        Self::ALL[usize::from(bits)]
    }

    /// Its bits, where they are in the first byte.
    const fn bits(self, version: Version) -> u8 {
        ((self as u8 + Self::moved(version)) & 3) << 4
    }
}
