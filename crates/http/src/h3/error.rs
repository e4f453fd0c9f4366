//! Error codes and errors (RFC 9114 section 8, RFC 9204 section 6).

use std::fmt;

/// A code of CONNECTION_CLOSE, RESET_STREAM and STOP_SENDING.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u64);

#[allow(missing_docs)] // named and explained in RFC 9114 section 8.1, RFC 9204 section 6
impl Code {
    pub const H3_NO_ERROR: Code = Code(0x100);
    pub const H3_GENERAL_PROTOCOL_ERROR: Code = Code(0x101);
    pub const H3_INTERNAL_ERROR: Code = Code(0x102);
    pub const H3_STREAM_CREATION_ERROR: Code = Code(0x103);
    pub const H3_CLOSED_CRITICAL_STREAM: Code = Code(0x104);
    pub const H3_FRAME_UNEXPECTED: Code = Code(0x105);
    pub const H3_FRAME_ERROR: Code = Code(0x106);
    pub const H3_EXCESSIVE_LOAD: Code = Code(0x107);
    pub const H3_ID_ERROR: Code = Code(0x108);
    pub const H3_SETTINGS_ERROR: Code = Code(0x109);
    pub const H3_MISSING_SETTINGS: Code = Code(0x10a);
    pub const H3_REQUEST_REJECTED: Code = Code(0x10b);
    pub const H3_REQUEST_CANCELLED: Code = Code(0x10c);
    pub const H3_REQUEST_INCOMPLETE: Code = Code(0x10d);
    pub const H3_MESSAGE_ERROR: Code = Code(0x10e);
    pub const H3_CONNECT_ERROR: Code = Code(0x10f);
    pub const H3_VERSION_FALLBACK: Code = Code(0x110);
    pub const QPACK_DECOMPRESSION_FAILED: Code = Code(0x200);
    pub const QPACK_ENCODER_STREAM_ERROR: Code = Code(0x201);
    pub const QPACK_DECODER_STREAM_ERROR: Code = Code(0x202);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HTTP: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        const QPACK: [&str; 3] = [
            "QPACK_DECOMPRESSION_FAILED",
            "QPACK_ENCODER_STREAM_ERROR",
            "QPACK_DECODER_STREAM_ERROR",
        ];
        let (names, first) = match self.0 {
            0x200.. => (&QPACK[..], 0x200),
            _ => (&HTTP[..], 0x100),
        };
        let index = self.0.checked_sub(first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| names.get(index)) {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why the connection is over: close it with this code (RFC 9114 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// What the peer is told.
    pub code: Code,
    /// What was wrong, for the log.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(in crate::h3) const fn new(code: Code, reason: &'static str) -> ConnectionError {
        ConnectionError { code, reason }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for ConnectionError {}

/// Why one stream is over while the connection goes on: reset it, and stop its peer from sending,
/// with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// What the peer is told.
    pub code: Code,
    /// What was wrong, for the log.
    pub reason: &'static str,
}

impl StreamError {
    pub(in crate::h3) const fn new(code: Code, reason: &'static str) -> StreamError {
        StreamError { code, reason }
    }

    /// A message that is malformed (RFC 9114 section 4.1.2).
    pub(super) const fn malformed(reason: &'static str) -> StreamError {
        StreamError::new(Code::H3_MESSAGE_ERROR, reason)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for StreamError {}

/// Why something could not be sent. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The stream is gone: reset by either side, or ended.
    Gone,
    /// Out of order: a second head, a body before the head, something after the end.
    Order,
    /// The server takes no requests on this stream: it has sent GOAWAY.
    Closing,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Gone => "the stream is closed",
            SendError::Order => "head, body and trailers are out of order",
            SendError::Closing => "the connection takes no more requests",
        })
    }
}

impl std::error::Error for SendError {}
