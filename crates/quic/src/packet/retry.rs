//! Retry packets, RFC 9000 section 17.2.5 and RFC 9001 section 5.8.

use super::read::LongHeader;
use super::{FIXED, LONG, LongType, TAG_LEN};
use crate::{ConnectionId, Version};

/// A Retry packet as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry<'a> {
    /// Its version.
    pub version: Version,
    /// Destination connection id: what the client calls itself.
    pub destination: ConnectionId,
    /// Source connection id: where the client is to send to from now on.
    pub source: ConnectionId,
    /// What the client is to send back, not empty.
    pub token: &'a [u8],
    /// The integrity tag.
    pub tag: &'a [u8; TAG_LEN],
    /// All that comes before the tag.
    without_tag: &'a [u8],
}

impl<'a> Retry<'a> {
    pub(super) fn read(bytes: &'a [u8], version: Version) -> Option<Self> {
        let header = LongHeader::read(bytes)?;
        let (token, tag) = header.rest.rest().split_last_chunk()?;
        // RFC 9000 section 17.2.5.2: a packet without a token is dropped.
        if token.is_empty() {
            return None;
        }
        Some(Self {
            version,
            destination: ConnectionId::new(header.destination)?,
            source: ConnectionId::new(header.source)?,
            token,
            tag,
            without_tag: &bytes[..bytes.len() - TAG_LEN],
        })
    }

    /// All that comes before the tag: with the destination of the Initial packet that this answers,
    /// what the tag is computed from (RFC 9001 section 5.8).
    #[must_use]
    pub(crate) const fn without_tag(&self) -> &'a [u8] {
        self.without_tag
    }
}

/// A Retry packet that is to be built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRetry<'a> {
    /// Its version, which is that of the Initial packet that it answers.
    pub version: Version,
    /// Destination connection id: the source of the Initial packet.
    pub destination: &'a ConnectionId,
    /// Source connection id, which must be another than the destination of the Initial packet.
    pub source: &'a ConnectionId,
    /// What the client is to send back, not empty.
    pub token: &'a [u8],
    /// Goes into four bits that mean nothing.
    pub unused: u8,
}

impl NewRetry<'_> {
    /// Appends the packet. `tag` computes the integrity tag of the packet without it.
    pub(crate) fn put(&self, out: &mut Vec<u8>, tag: impl FnOnce(&[u8]) -> [u8; TAG_LEN]) {
        let start = out.len();
        out.push(LONG | FIXED | LongType::Retry.bits(self.version) | self.unused & 0x0f);
        out.extend_from_slice(&self.version.to_wire().to_be_bytes());
        put_id(out, self.destination);
        put_id(out, self.source);
        out.extend_from_slice(self.token);
        let tag = tag(&out[start..]);
        out.extend_from_slice(&tag);
    }
}

fn put_id(out: &mut Vec<u8>, id: &ConnectionId) {
    out.push(id.len() as u8);
    out.extend_from_slice(id);
}
