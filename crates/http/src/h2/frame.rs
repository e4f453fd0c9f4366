//! Frames on the wire: the nine-byte header, and the checks of a payload that do not depend on the
//! connection (RFC 9113 sections 4 and 6, RFC 9218 section 7.1).

use super::error::{ErrorCode, Fault};

/// The preface that a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 9;

/// The frame size that every peer must accept, and the only one announced here
/// (`SETTINGS_MAX_FRAME_SIZE`): larger frames would only let one stream delay the others.
pub const DEFAULT_MAX_FRAME_BYTES: u32 = 16 * 1024;

/// The largest value of `SETTINGS_MAX_FRAME_SIZE`.
pub(super) const LARGEST_FRAME_BYTES: u32 = (1 << 24) - 1;

/// Stream identifiers have 31 bits.
pub(super) const MAX_STREAM_ID: u32 = (1 << 31) - 1;

/// Flags of a frame header.
pub(super) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameType {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    PriorityUpdate,
    /// To be ignored (RFC 9113 section 5.5).
    Unknown,
}

impl FrameType {
    const fn from_byte(byte: u8) -> FrameType {
        match byte {
            0x0 => FrameType::Data,
            0x1 => FrameType::Headers,
            0x2 => FrameType::Priority,
            0x3 => FrameType::RstStream,
            0x4 => FrameType::Settings,
            0x5 => FrameType::PushPromise,
            0x6 => FrameType::Ping,
            0x7 => FrameType::GoAway,
            0x8 => FrameType::WindowUpdate,
            0x9 => FrameType::Continuation,
            0x10 => FrameType::PriorityUpdate,
            _ => FrameType::Unknown,
        }
    }

    pub(super) const fn to_byte(self) -> u8 {
        match self {
            FrameType::Data => 0x0,
            FrameType::Headers => 0x1,
            FrameType::Priority => 0x2,
            FrameType::RstStream => 0x3,
            FrameType::Settings => 0x4,
            FrameType::PushPromise => 0x5,
            FrameType::Ping => 0x6,
            FrameType::GoAway => 0x7,
            FrameType::WindowUpdate => 0x8,
            FrameType::Continuation => 0x9,
            FrameType::PriorityUpdate => 0x10,
            FrameType::Unknown => 0xff,
        }
    }
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: u32,
    pub(super) kind: FrameType,
    pub(super) flags: u8,
    /// Without the reserved bit, which is ignored.
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Parses a header; `None` if there are fewer than nine bytes.
    pub(super) fn parse(input: &[u8]) -> Option<FrameHeader> {
        let bytes: &[u8; HEADER_BYTES] = input.first_chunk()?;
        Some(FrameHeader {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: FrameType::from_byte(bytes[3]),
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & MAX_STREAM_ID,
        })
    }

    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind.to_byte(), self.flags, d, e, f, g]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame header.
pub(super) fn push_header(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: u32, length: u32) {
    let header = FrameHeader {
        length,
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&header.bytes());
}

pub(super) fn push_settings_ack(out: &mut Vec<u8>) {
    push_header(out, FrameType::Settings, flag::ACK, 0, 0);
}

pub(super) fn push_ping(out: &mut Vec<u8>, ack: bool, payload: [u8; 8]) {
    push_header(out, FrameType::Ping, u8::from(ack) * flag::ACK, 0, 8);
    out.extend_from_slice(&payload);
}

pub(super) fn push_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    push_header(out, FrameType::RstStream, 0, stream, 4);
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn push_go_away(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    push_header(out, FrameType::GoAway, 0, 0, 8);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn push_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    push_header(out, FrameType::WindowUpdate, 0, stream, 4);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends a PRIORITY_UPDATE frame (RFC 9218 section 7.1) for a stream.
#[cfg(test)]
pub(super) fn push_priority_update(out: &mut Vec<u8>, stream: u32, value: &[u8]) {
    let length = 4 + value.len() as u32;
    push_header(out, FrameType::PriorityUpdate, 0, 0, length);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(value);
}

/// The four bytes that start `payload`, as a number.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// A parsed HEADERS payload.
pub(super) struct HeadersPayload<'i> {
    /// The part of the header block that the frame carries.
    pub(super) fragment: &'i [u8],
    /// The stream that the priority part of RFC 7540 makes this one depend on.
    pub(super) depends_on: Option<u32>,
}

/// Removes padding and the priority part of RFC 7540 from a HEADERS payload.
pub(super) fn headers_payload(
    header: FrameHeader,
    payload: &[u8],
) -> Result<HeadersPayload<'_>, Fault> {
    let mut rest = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (&length, after) = rest.split_first().ok_or(Fault::FrameSize("HEADERS"))?;
        padding = usize::from(length);
        rest = after;
    }
    let mut depends_on = None;
    if header.has(flag::PRIORITY) {
        let (part, after) = rest
            .split_first_chunk::<5>()
            .ok_or(Fault::FrameSize("HEADERS"))?;
        depends_on = number(part).map(|stream| stream & MAX_STREAM_ID);
        rest = after;
    }
    let length = rest.len().checked_sub(padding);
    let fragment = &rest[..length.ok_or(Fault::Padding)?];
    Ok(HeadersPayload {
        fragment,
        depends_on,
    })
}

/// Makes the checks that need only the header: the stream it may be on and the length it must have.
pub(super) fn check_header(header: FrameHeader) -> Result<(), Fault> {
    let on_stream = |wanted: bool, name| {
        if wanted == (header.stream != 0) {
            Ok(())
        } else {
            Err(Fault::WrongStream(name))
        }
    };
    let sized = |right: bool, name| {
        if right {
            Ok(())
        } else {
            Err(Fault::FrameSize(name))
        }
    };
    match header.kind {
        FrameType::Data => on_stream(true, "DATA"),
        FrameType::Headers => on_stream(true, "HEADERS"),
        FrameType::Continuation => on_stream(true, "CONTINUATION"),
        FrameType::Priority => on_stream(true, "PRIORITY"),
        FrameType::RstStream => {
            sized(header.length == 4, "RST_STREAM")?;
            on_stream(true, "RST_STREAM")
        }
        FrameType::Settings => {
            let length = header.length;
            let is_ack = header.has(flag::ACK);
            sized(
                length.is_multiple_of(6) && (length == 0 || !is_ack),
                "SETTINGS",
            )?;
            on_stream(false, "SETTINGS")
        }
        FrameType::PushPromise => Err(Fault::Push),
        FrameType::Ping => {
            sized(header.length == 8, "PING")?;
            on_stream(false, "PING")
        }
        FrameType::GoAway => {
            sized(header.length >= 8, "GOAWAY")?;
            on_stream(false, "GOAWAY")
        }
        FrameType::WindowUpdate => sized(header.length == 4, "WINDOW_UPDATE"),
        FrameType::PriorityUpdate => {
            sized(header.length >= 4, "PRIORITY_UPDATE")?;
            on_stream(false, "PRIORITY_UPDATE")
        }
        FrameType::Unknown => Ok(()),
    }
}
