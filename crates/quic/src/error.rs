//! Errors that end a connection, RFC 9000 section 20.

use std::borrow::Cow;
use std::fmt;

/// A transport error code, RFC 9000 section 20.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u64);

impl Code {
    /// The connection is closed, and nothing was wrong.
    pub const NO_ERROR: Self = Self(0x0);
    /// Something failed at the end that sends this.
    pub const INTERNAL_ERROR: Self = Self(0x1);
    /// The server does not take new connections.
    pub const CONNECTION_REFUSED: Self = Self(0x2);
    /// More data than was allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// More streams than were allowed.
    pub const STREAM_LIMIT_ERROR: Self = Self(0x4);
    /// A frame for a stream that is not in a state for it.
    pub const STREAM_STATE_ERROR: Self = Self(0x5);
    /// A stream whose final size changed.
    pub const FINAL_SIZE_ERROR: Self = Self(0x6);
    /// A frame that is malformed.
    pub const FRAME_ENCODING_ERROR: Self = Self(0x7);
    /// Transport parameters that are malformed or not allowed.
    pub const TRANSPORT_PARAMETER_ERROR: Self = Self(0x8);
    /// More connection ids than were allowed.
    pub const CONNECTION_ID_LIMIT_ERROR: Self = Self(0x9);
    /// Another rule of the protocol was broken.
    pub const PROTOCOL_VIOLATION: Self = Self(0xa);
    /// An Initial packet with a token that is not valid.
    pub const INVALID_TOKEN: Self = Self(0xb);
    /// The application closed the connection during the handshake.
    pub const APPLICATION_ERROR: Self = Self(0xc);
    /// More CRYPTO data than can be held.
    pub const CRYPTO_BUFFER_EXCEEDED: Self = Self(0xd);
    /// Keys were updated in a way that is not allowed.
    pub const KEY_UPDATE_ERROR: Self = Self(0xe);
    /// The limit of the AEAD was reached, RFC 9001 section 6.6.
    pub const AEAD_LIMIT_REACHED: Self = Self(0xf);
    /// There is no path that works.
    pub const NO_VIABLE_PATH: Self = Self(0x10);
    /// Version negotiation failed, RFC 9368 section 4.
    pub const VERSION_NEGOTIATION_ERROR: Self = Self(0x11);

    /// A code as it came.
    #[must_use]
    pub const fn from_wire(code: u64) -> Self {
        Self(code)
    }

    /// A failure of TLS with this alert, RFC 9001 section 4.8.
    #[must_use]
    pub const fn crypto(alert: u8) -> Self {
        Self(0x100 | alert as u64)
    }

    /// As it is sent.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 18] = [
            "NO_ERROR",
            "INTERNAL_ERROR",
            "CONNECTION_REFUSED",
            "FLOW_CONTROL_ERROR",
            "STREAM_LIMIT_ERROR",
            "STREAM_STATE_ERROR",
            "FINAL_SIZE_ERROR",
            "FRAME_ENCODING_ERROR",
            "TRANSPORT_PARAMETER_ERROR",
            "CONNECTION_ID_LIMIT_ERROR",
            "PROTOCOL_VIOLATION",
            "INVALID_TOKEN",
            "APPLICATION_ERROR",
            "CRYPTO_BUFFER_EXCEEDED",
            "KEY_UPDATE_ERROR",
            "AEAD_LIMIT_REACHED",
            "NO_VIABLE_PATH",
            "VERSION_NEGOTIATION_ERROR",
        ];
        match self.0 {
            0x100..=0x1ff => write!(f, "CRYPTO_ERROR (alert {})", self.0 & 0xff),
            code => match usize::try_from(code).ok().and_then(|i| NAMES.get(i)) {
                Some(name) => f.write_str(name),
                None => write!(f, "{code:#x}"),
            },
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a connection has to end, as its peer is told in CONNECTION_CLOSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the peer is told.
    pub code: Code,
    /// Type of the frame that was wrong, or 0 if it is not known.
    pub frame_type: u64,
    /// What was wrong, in a few words. No secrets: it is sent and logged.
    pub reason: Cow<'static, str>,
}

impl Error {
    /// An error that no one frame is to blame for.
    #[must_use]
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            frame_type: 0,
            reason: reason.into(),
        }
    }

    /// The same, with the type of the frame that was wrong.
    #[must_use]
    pub fn in_frame(mut self, frame_type: u64) -> Self {
        self.frame_type = frame_type;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)?;
        if self.frame_type != 0 {
            write!(f, " (frame of type {:#x})", self.frame_type)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_with_the_name_of_the_code() {
        let error = Error::new(Code::FINAL_SIZE_ERROR, "4 bytes, then 3").in_frame(0x0b);
        assert_eq!(
            error.to_string(),
            "FINAL_SIZE_ERROR: 4 bytes, then 3 (frame of type 0xb)"
        );
        assert_eq!(Code::crypto(120).to_string(), "CRYPTO_ERROR (alert 120)");
        assert_eq!(Code::from_wire(0x4242).to_string(), "0x4242");
    }
}
