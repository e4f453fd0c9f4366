//! Version Negotiation packets, RFC 8999 section 6 and RFC 9000 section 17.2.1.

use super::read::LongHeader;
use super::{FIXED, LONG};
use crate::Version;

/// A Version Negotiation packet as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionNegotiation<'a> {
    /// Destination connection id, of up to 255 bytes.
    pub destination: &'a [u8],
    /// Source connection id, of up to 255 bytes.
    pub source: &'a [u8],
    versions: &'a [[u8; 4]],
}

impl<'a> VersionNegotiation<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let header = LongHeader::read(bytes)?;
        let (versions, []) = header.rest.rest().as_chunks() else {
            return None;
        };
        if versions.is_empty() {
            return None;
        }
        Some(Self {
            destination: header.destination,
            source: header.source,
            versions,
        })
    }

    /// The versions that the server speaks, as numbers. Some may be reserved ones.
    pub(crate) fn versions(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.versions
            .iter()
            .map(|&number| u32::from_be_bytes(number))
    }
}

/// A version that is never spoken and keeps clients from expecting known ones only (RFC 9000
/// section 6.3).
pub(crate) const fn reserved_version(random: u32) -> u32 {
    random & 0xf0f0_f0f0 | 0x0a0a_0a0a
}

/// Appends a Version Negotiation packet. Ids are as the client sent them: its source is this
/// packet's destination. `random` goes into bits that mean nothing and into a reserved version.
///
/// Ids of more than 255 bytes do not exist in any version.
pub(crate) fn put_version_negotiation(
    out: &mut Vec<u8>,
    client_destination: &[u8],
    client_source: &[u8],
    versions: &[Version],
    random: u32,
) {
    out.push(LONG | FIXED | random as u8 & 0x3f);
    out.extend_from_slice(&0_u32.to_be_bytes());
    for id in [client_source, client_destination] {
        debug_assert!(id.len() <= 255, "an id of {} bytes", id.len());
        out.push(id.len() as u8);
        out.extend_from_slice(id);
    }
    out.extend_from_slice(&reserved_version(random).to_be_bytes());
    for version in versions {
        out.extend_from_slice(&version.to_wire().to_be_bytes());
    }
}
