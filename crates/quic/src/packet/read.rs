//! Reading of packets.

use super::{
    FIXED, LONG, LongType, MAX_COALESCED, PacketType, Retry, SAMPLE_LEN, TAG_LEN,
    VersionNegotiation, number,
};
use crate::reader::Reader;
use crate::{Code, ConnectionId, Error, Version};
use std::mem;
use std::ops::Range;

/// A packet as it came.
#[derive(Debug)]
pub(crate) enum Packet<'a> {
    /// A packet that carries frames.
    Protected(Protected<'a>),
    /// A Retry packet.
    Retry(Retry<'a>),
    /// A Version Negotiation packet.
    VersionNegotiation(VersionNegotiation<'a>),
    /// The first packet of a datagram, of a version that is not spoken.
    UnknownVersion(UnknownVersion<'a>),
}

impl Packet<'_> {
    /// Its type, if it carries frames, and its bytes, as far as it is known where it ends.
    pub(crate) fn to_trace(&self) -> (Option<PacketType>, usize) {
        match self {
            Self::Protected(packet) => (Some(packet.packet_type), packet.bytes.len()),
            Self::Retry(retry) => (None, retry.without_tag().len() + TAG_LEN),
            Self::VersionNegotiation(_) => (None, 0),
            Self::UnknownVersion(unknown) => (None, unknown.datagram_len),
        }
    }
}

/// The packets of one datagram, in order.
///
/// It ends at the first bytes that are no packet. Packets with another destination connection id
/// than the first are left out (RFC 9000 section 12.2).
#[derive(Debug)]
pub(crate) struct Packets<'a> {
    rest: &'a mut [u8],
    short_id_len: usize,
    /// How many more are looked at.
    left: usize,
    /// Destination of the first packet, once there was one.
    first: Option<ConnectionId>,
}

impl<'a> Packets<'a> {
    /// The packets of `datagram`. Connection ids in short headers have `short_id_len` bytes: they
    /// are the receiver's own.
    #[must_use]
    pub(crate) fn new(datagram: &'a mut [u8], short_id_len: usize) -> Self {
        Self {
            rest: datagram,
            short_id_len,
            left: MAX_COALESCED,
            first: None,
        }
    }

    fn short(&self, bytes: &'a mut [u8]) -> Option<Packet<'a>> {
        let destination = bytes.get(1..)?.get(..self.short_id_len)?;
        if self.first.is_some_and(|first| *first != *destination) {
            return None;
        }
        Some(Packet::Protected(Protected {
            number_at: 1 + self.short_id_len,
            destination: 1..1 + self.short_id_len,
            source: 0..0,
            token: 0..0,
            packet_type: PacketType::OneRtt,
            version: None,
            bytes,
        }))
    }

    /// The packet with a long header at the front of `bytes`, or `None` if it is none, and whether
    /// it is for the destination of the first packet.
    fn long(&mut self, bytes: &'a mut [u8]) -> Option<(Packet<'a>, bool)> {
        let header = LongHeader::read(bytes)?;
        let Some(version) = Version::from_wire(header.version) else {
            // Such packets have no length: they end their datagrams, and stand alone.
            let is_first = self.first.is_none();
            return Some((other_version(bytes)?, is_first));
        };
        let destination = ConnectionId::new(header.destination)?;
        ConnectionId::new(header.source)?;
        let is_wanted = *self.first.get_or_insert(destination) == destination;
        let packet_type = match LongType::from_first_byte(header.first, version) {
            LongType::Initial => PacketType::Initial,
            LongType::ZeroRtt => PacketType::ZeroRtt,
            LongType::Handshake => PacketType::Handshake,
            LongType::Retry => {
                return Some((Packet::Retry(Retry::read(bytes, version)?), is_wanted));
            }
        };
        let destination = 6..6 + header.destination.len();
        let source = destination.end + 1..destination.end + 1 + header.source.len();
        let mut reader = header.rest;
        let at = |reader: &Reader<'_>| bytes.len() - reader.len();
        let mut token = 0..0;
        if packet_type == PacketType::Initial {
            let len = reader.prefixed()?.len();
            token = at(&reader) - len..at(&reader);
        }
        let len = reader.varint()?;
        let number_at = at(&reader);
        reader.take(usize::try_from(len).ok()?)?;
        let end = at(&reader);
        let (bytes, rest) = bytes.split_at_mut(end);
        self.rest = rest;
        let packet = Protected {
            bytes,
            packet_type,
            version: Some(version),
            destination,
            source,
            token,
            number_at,
        };
        Some((Packet::Protected(packet), is_wanted))
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            self.left = self.left.checked_sub(1)?;
            // What is no packet ends the datagram: nothing says where the next would start.
            let bytes = mem::take(&mut self.rest);
            if bytes.first()? & LONG == 0 {
                return self.short(bytes);
            }
            let (packet, is_wanted) = self.long(bytes)?;
            if is_wanted {
                return Some(packet);
            }
        }
    }
}

fn other_version(bytes: &[u8]) -> Option<Packet<'_>> {
    if LongHeader::read(bytes)?.version == 0 {
        return VersionNegotiation::read(bytes).map(Packet::VersionNegotiation);
    }
    UnknownVersion::read(bytes).map(Packet::UnknownVersion)
}

/// The long header of all versions, RFC 8999 section 5.1.
pub(crate) struct LongHeader<'a> {
    pub(super) first: u8,
    pub(crate) version: u32,
    pub(crate) destination: &'a [u8],
    pub(crate) source: &'a [u8],
    pub(crate) rest: Reader<'a>,
}

/// The long header at the front of a datagram, or `None` if there is none.
pub(crate) fn long_header(datagram: &[u8]) -> Option<LongHeader<'_>> {
    (datagram.first()? & LONG != 0).then(|| LongHeader::read(datagram))?
}

impl<'a> LongHeader<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Reader::new(bytes);
        let first = rest.byte()?;
        let version = u32::from_be_bytes(rest.array()?);
        let destination = rest.prefixed_by_byte()?;
        let source = rest.prefixed_by_byte()?;
        Some(Self {
            first,
            version,
            destination,
            source,
            rest,
        })
    }

    /// Whether the fixed bit is set.
    pub(crate) const fn has_fixed_bit(&self) -> bool {
        self.first & FIXED != 0
    }

    /// Whether it is the header of an Initial packet.
    pub(crate) fn is_initial(&self, version: Version) -> bool {
        LongType::from_first_byte(self.first, version) == LongType::Initial
    }
}

/// The destination connection id of a datagram's first packet, of whatever version, or `None` if it
/// is no packet. Datagrams are given to connections by it.
///
/// Connection ids of unknown versions may have up to 255 bytes.
#[must_use]
pub fn destination(datagram: &[u8], short_id_len: usize) -> Option<&[u8]> {
    if datagram.first()? & LONG == 0 {
        return datagram[1..].get(..short_id_len);
    }
    LongHeader::read(datagram).map(|header| header.destination)
}

/// What all versions have in common (RFC 8999): enough to answer with Version Negotiation.
#[derive(Clone, Copy, Debug)]
pub struct UnknownVersion<'a> {
    /// The version, which is not 0.
    pub version: u32,
    /// Destination connection id, of up to 255 bytes.
    pub destination: &'a [u8],
    /// Source connection id, of up to 255 bytes.
    pub source: &'a [u8],
    /// Bytes of the datagram. Shorter ones than 1,200 are not answered (RFC 9000 section 6.1).
    pub datagram_len: usize,
}

impl<'a> UnknownVersion<'a> {
    /// What all versions have in common, or `None` if this is no packet of an unknown version.
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Self> {
        let header = long_header(datagram)?;
        (header.version != 0).then_some(Self {
            version: header.version,
            destination: header.destination,
            source: header.source,
            datagram_len: datagram.len(),
        })
    }
}

/// A packet whose header is still masked.
#[derive(Debug)]
pub(crate) struct Protected<'a> {
    bytes: &'a mut [u8],
    packet_type: PacketType,
    version: Option<Version>,
    destination: Range<usize>,
    source: Range<usize>,
    token: Range<usize>,
    number_at: usize,
}

impl<'a> Protected<'a> {
    /// Its type.
    #[must_use]
    pub(crate) const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// Its version, if it has a long header.
    #[must_use]
    pub(crate) const fn version(&self) -> Option<Version> {
        self.version
    }

    /// Destination connection id.
    #[must_use]
    pub(crate) fn destination(&self) -> ConnectionId {
        ConnectionId::new(&self.bytes[self.destination.clone()]).unwrap_or(ConnectionId::EMPTY)
    }

    /// Source connection id, which short headers do not have.
    #[must_use]
    pub(crate) fn source(&self) -> ConnectionId {
        ConnectionId::new(&self.bytes[self.source.clone()]).unwrap_or(ConnectionId::EMPTY)
    }

    /// The token of an Initial packet; empty if there is none. Servers send none: a client drops
    /// packets that have one (RFC 9000 section 17.2.2).
    #[must_use]
    pub(crate) fn token(&self) -> &[u8] {
        &self.bytes[self.token.clone()]
    }

    /// Whether the fixed bit is set. Packets without are to be dropped (RFC 9000 section 17.2) by
    /// ends that have not announced `grease_quic_bit` (RFC 9287 section 3).
    #[must_use]
    pub(crate) fn has_fixed_bit(&self) -> bool {
        self.bytes[0] & FIXED != 0
    }

    /// The packet as it came, for one that has to wait for its keys: [`Packets`] reads it again.
    #[must_use]
    pub(crate) const fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// What the mask is computed from (RFC 9001 section 5.4.2), or `None` if the packet is too
    /// short to have been sealed.
    #[must_use]
    pub(crate) fn sample(&self) -> Option<&[u8; SAMPLE_LEN]> {
        self.bytes.get(self.number_at + 4..)?.first_chunk()
    }

    /// The packet without the mask, or `None` if it is too short to have been sealed.
    ///
    /// `largest` is the largest packet number that was opened in its space.
    #[must_use]
    pub(crate) fn unmask(self, mask: &[u8; 5], largest: Option<u64>) -> Option<Unmasked<'a>> {
        self.sample()?;
        let first = self.bytes[0] ^ mask[0] & self.packet_type.masked_bits();
        self.bytes[0] = first;
        let number_len = usize::from(first & 3) + 1;
        let (header, payload) = self.bytes.split_at_mut(self.number_at + number_len);
        let mut truncated = 0;
        for (byte, mask) in header[self.number_at..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            truncated = truncated << 8 | u64::from(*byte);
        }
        Some(Unmasked {
            packet_type: self.packet_type,
            number: number::decode(largest, truncated, number_len),
            header,
            payload,
        })
    }
}

/// A packet that can be opened.
#[derive(Debug)]
pub(crate) struct Unmasked<'a> {
    /// Its type.
    pub packet_type: PacketType,
    /// Its packet number.
    pub number: u64,
    /// The header, which is the AEAD's associated data.
    pub header: &'a [u8],
    /// The sealed payload and its tag.
    pub payload: &'a mut [u8],
}

impl Unmasked<'_> {
    /// The key phase bit of a short header (RFC 9001 section 6).
    #[must_use]
    pub(crate) fn key_phase(&self) -> bool {
        self.header[0] & 0x04 != 0
    }

    /// The spin bit of a short header (RFC 9000 section 17.4).
    #[must_use]
    pub(crate) fn spin(&self) -> bool {
        self.header[0] & 0x20 != 0
    }

    /// Looks at the reserved bits. To be called once the payload has been opened: before, they may
    /// have been changed on the way.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if they are not 0, RFC 9000 sections 17.2 and 17.3.1.
    pub(crate) fn check_reserved(&self) -> Result<(), Error> {
        let reserved = if self.packet_type.is_long() {
            0x0c
        } else {
            0x18
        };
        if self.header[0] & reserved == 0 {
            return Ok(());
        }
        Err(Error::new(
            Code::PROTOCOL_VIOLATION,
            "reserved bits of a header are set",
        ))
    }
}
