//! Errors of a connection and of a stream, and how each is reported to the peer and to the operator
//! (RFC 9113 sections 5.4 and 7).

use std::fmt;

/// An error code of RFC 9113 section 7. Unknown codes have no meaning and are kept unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)] // each is what its name says in RFC 9113 section 7
impl ErrorCode {
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x2);
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x4);
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0xa);
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(0xc);
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0xd);
}

impl ErrorCode {
    /// The name in RFC 9113; `None` for codes it does not define.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied()
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {:#x}", self.0),
        }
    }
}

/// Why a connection ends: the peer violated the protocol or exhausted a limit.
///
/// GOAWAY with [`code`](Fault::code) has been written when this is returned: send what is in `out`
/// and close. nginx logs these at level `info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection does not start with the client preface (RFC 9113 section 3.4).
    Preface,
    /// The first frame of a server is not SETTINGS (RFC 9113 section 3.4).
    FirstFrame,
    /// A frame of this type has an impossible length.
    FrameSize(&'static str),
    /// A frame exceeds `SETTINGS_MAX_FRAME_SIZE`.
    FrameTooLarge,
    /// A frame of this type came on stream 0 where that is not allowed, or on another stream
    /// although it belongs on stream 0.
    WrongStream(&'static str),
    /// More padding than payload.
    Padding,
    /// PUSH_PROMISE: clients cannot push, and servers were told not to.
    Push,
    /// A frame other than CONTINUATION of the same stream within a header block, or a CONTINUATION
    /// outside one.
    Continuation,
    /// A frame of this type on a stream that was never opened.
    IdleStream(&'static str),
    /// A stream identifier of the wrong parity, or not above the last one.
    StreamId,
    /// A frame of this type on a stream that both sides have ended.
    ClosedStream(&'static str),
    /// A setting has an invalid value; holds its identifier.
    Setting(u16),
    /// An acknowledgement of SETTINGS that were never sent.
    SettingsAck,
    /// More DATA than the connection's window.
    ConnectionWindow,
    /// The send window of the connection or, through a setting, of a stream exceeds 2^31-1.
    WindowOverflow,
    /// WINDOW_UPDATE of zero for the connection.
    ZeroIncrement,
    /// PRIORITY_UPDATE for stream 0, from a server, or for a stream that cannot be opened.
    PriorityUpdate,
    /// GOAWAY with a higher stream than an earlier one.
    GoAway,
    /// A header block cannot be decoded (RFC 7541).
    Compression,
    /// A limit was exhausted.
    Flood(Flood),
}

/// Which limit was exhausted; see [`Limits`](super::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flood {
    /// Streams opened only to be reset, by the peer or by provoking us (CVE-2023-44487,
    /// CVE-2025-8671).
    RapidReset,
    /// A header block of too many frames or bytes (CVE-2024-27316).
    Continuation,
    /// Repeated heads that exceed their limits.
    HeaderBomb,
    /// SETTINGS frames.
    Settings,
    /// PING frames.
    Ping,
    /// Frames without effect: empty DATA, PRIORITY, RST_STREAM of closed streams, unknown types.
    Empty,
    /// PRIORITY and PRIORITY_UPDATE frames.
    Priority,
    /// WINDOW_UPDATE frames far in excess of the DATA sent.
    WindowUpdate,
    /// Replies that the peer does not read.
    Unread,
}

impl Fault {
    /// The code that GOAWAY carries.
    pub fn code(self) -> ErrorCode {
        match self {
            Fault::FrameSize(_) | Fault::FrameTooLarge => ErrorCode::FRAME_SIZE_ERROR,
            Fault::ClosedStream(_) => ErrorCode::STREAM_CLOSED,
            Fault::ConnectionWindow | Fault::WindowOverflow => ErrorCode::FLOW_CONTROL_ERROR,
            // SETTINGS_INITIAL_WINDOW_SIZE has its own error code.
            Fault::Setting(4) => ErrorCode::FLOW_CONTROL_ERROR,
            Fault::Compression => ErrorCode::COMPRESSION_ERROR,
            Fault::Flood(_) => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Preface => f.write_str("invalid http2 connection preface"),
            Fault::FirstFrame => f.write_str("first http2 frame is not SETTINGS"),
            Fault::FrameSize(name) => write!(f, "{name} frame with incorrect length"),
            Fault::FrameTooLarge => f.write_str("http2 frame larger than SETTINGS_MAX_FRAME_SIZE"),
            Fault::WrongStream(name) => write!(f, "{name} frame with incorrect identifier"),
            Fault::Padding => f.write_str("http2 frame with more padding than payload"),
            Fault::Push => f.write_str("PUSH_PROMISE frame"),
            Fault::Continuation => {
                f.write_str("inappropriate frame while CONTINUATION was expected, or the reverse")
            }
            Fault::IdleStream(name) => write!(f, "{name} frame for an idle stream"),
            Fault::StreamId => f.write_str("HEADERS frame with incorrect identifier"),
            Fault::ClosedStream(name) => write!(f, "{name} frame for a closed stream"),
            Fault::Setting(identifier) => {
                write!(
                    f,
                    "SETTINGS frame with incorrect value of setting {identifier}"
                )
            }
            Fault::SettingsAck => f.write_str("SETTINGS acknowledged that were not sent"),
            Fault::ConnectionWindow => f.write_str("connection flow control violated"),
            Fault::WindowOverflow => f.write_str("flow control window exceeds 2^31-1"),
            Fault::ZeroIncrement => f.write_str("WINDOW_UPDATE frame with increment 0"),
            Fault::PriorityUpdate => f.write_str("PRIORITY_UPDATE frame with incorrect identifier"),
            Fault::GoAway => f.write_str("GOAWAY frame that takes back an earlier one"),
            Fault::Compression => f.write_str("header block that cannot be decoded"),
            Fault::Flood(flood) => write!(f, "http2 flood detected: {}", flood.words()),
        }
    }
}

impl std::error::Error for Fault {}

impl Flood {
    fn words(self) -> &'static str {
        match self {
            Flood::RapidReset => "streams opened and reset",
            Flood::Continuation => "endless header block",
            Flood::HeaderBomb => "oversized header blocks",
            Flood::Settings => "SETTINGS frames",
            Flood::Ping => "PING frames",
            Flood::Empty => "frames without content",
            Flood::Priority => "priority frames",
            Flood::WindowUpdate => "WINDOW_UPDATE frames",
            Flood::Unread => "replies are not read",
        }
    }
}

/// Why this side reset a stream while the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamFault {
    /// The head or the trailers are malformed (RFC 9113 section 8.1.1); in nginx's words.
    Malformed(&'static str),
    /// The total of DATA differs from Content-Length (RFC 9113 section 8.1.1).
    ContentLength,
    /// More DATA than the stream's window.
    StreamWindow,
    /// The stream's send window exceeds 2^31-1.
    WindowOverflow,
    /// WINDOW_UPDATE of zero.
    ZeroIncrement,
    /// DATA or HEADERS after END_STREAM.
    HalfClosed,
    /// A frame that makes the stream depend on itself (RFC 7540 section 5.3.1).
    SelfDependency,
    /// A PRIORITY frame that is not five bytes long.
    PrioritySize,
    /// A header block within a body that does not end the stream.
    TrailersWithoutEnd,
    /// More streams than `http2_max_concurrent_streams`, or a stream after GOAWAY.
    Refused,
}

impl StreamFault {
    /// Whether it makes the message malformed (RFC 9113 section 8.1.1), which a server may answer.
    pub(super) fn is_malformed(self) -> bool {
        matches!(
            self,
            StreamFault::Malformed(_)
                | StreamFault::ContentLength
                | StreamFault::TrailersWithoutEnd
        )
    }

    /// The code that RST_STREAM carries.
    pub fn code(self) -> ErrorCode {
        match self {
            StreamFault::StreamWindow | StreamFault::WindowOverflow => {
                ErrorCode::FLOW_CONTROL_ERROR
            }
            StreamFault::HalfClosed => ErrorCode::STREAM_CLOSED,
            StreamFault::PrioritySize => ErrorCode::FRAME_SIZE_ERROR,
            StreamFault::Refused => ErrorCode::REFUSED_STREAM,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamFault::Malformed(words) => words,
            StreamFault::ContentLength => "body does not have the declared length",
            StreamFault::StreamWindow => "stream flow control violated",
            StreamFault::WindowOverflow => "stream flow control window exceeds 2^31-1",
            StreamFault::ZeroIncrement => "WINDOW_UPDATE frame with increment 0",
            StreamFault::HalfClosed => "frame after the end of the stream",
            StreamFault::SelfDependency => "frame with incorrect dependency",
            StreamFault::PrioritySize => "PRIORITY frame with incorrect length",
            StreamFault::TrailersWithoutEnd => "header block within a body",
            StreamFault::Refused => "concurrent streams exceeded",
        })
    }
}

impl std::error::Error for StreamFault {}
