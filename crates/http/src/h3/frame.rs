//! Frames on the wire (RFC 9114 section 7).

use super::varint::{self, Partial};

/// Types of frames (RFC 9114 section 11.2.1, RFC 9218 section 7.2).
pub(super) mod kind {
    pub(in crate::h3) const DATA: u64 = 0x0;
    pub(in crate::h3) const HEADERS: u64 = 0x1;
    pub(in crate::h3) const CANCEL_PUSH: u64 = 0x3;
    pub(in crate::h3) const SETTINGS: u64 = 0x4;
    pub(in crate::h3) const PUSH_PROMISE: u64 = 0x5;
    pub(in crate::h3) const GOAWAY: u64 = 0x7;
    pub(in crate::h3) const MAX_PUSH_ID: u64 = 0xd;
    pub(in crate::h3) const PRIORITY_UPDATE_OF_REQUEST: u64 = 0xf0700;
    pub(in crate::h3) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf0701;
}

/// Whether the type is one of HTTP/2 that HTTP/3 does not have (RFC 9114 section 7.2.8).
pub(super) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Whether the type is known, so that its frames are not just skipped wherever they come.
pub(super) fn is_known(kind: u64) -> bool {
    matches!(
        kind,
        kind::DATA
            | kind::HEADERS
            | kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::PUSH_PROMISE
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE_OF_REQUEST
            | kind::PRIORITY_UPDATE_OF_PUSH
    ) || is_of_http2(kind)
}

/// The type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: u64,
    pub(super) length: u64,
}

impl FrameHeader {
    fn take(bytes: &mut &[u8]) -> Option<FrameHeader> {
        let mut rest = *bytes;
        let kind = varint::take(&mut rest)?;
        let length = varint::take(&mut rest)?;
        *bytes = rest;
        Some(FrameHeader { kind, length })
    }
}

/// Where in a frame a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameState {
    /// Before a frame, or within its header.
    Header(Partial),
    /// Within the payload.
    Payload {
        kind: u64,
        /// Bytes of the payload that have not been read; at least one.
        remaining: u64,
    },
}

impl Default for FrameState {
    fn default() -> FrameState {
        FrameState::Header(Partial::default())
    }
}

impl FrameState {
    /// Whether a frame has begun that has not ended.
    pub(super) fn is_within_frame(self) -> bool {
        !matches!(self, FrameState::Header(partial) if partial.is_empty())
    }

    /// Takes the header of the next frame; `None` if it has not arrived entirely.
    pub(super) fn take_header(partial: &mut Partial, input: &mut &[u8]) -> Option<FrameHeader> {
        partial.take(input, FrameHeader::take)
    }
}

/// Appends the header of a frame.
pub(super) fn push_header(out: &mut Vec<u8>, kind: u64, length: u64) {
    varint::put(out, kind);
    varint::put(out, length);
}
