//! The PROXY protocol, versions 1 and 2: the address of the original client, sent before the first
//! byte of the connection (HAProxy's specification, 2020).

mod encode;
mod tlv;
mod version1;
mod version2;

use std::fmt;
use std::net::SocketAddr;

pub use encode::{ClientTransport, TlvTooLong, encode_v1, encode_v2, encode_v2_with_checksum};
pub use tlv::{
    BrokenTlv, SslTlv, SslTlvBuilder, Tlv, TlvName, Tlvs, UnknownTlvName, ssl_client, tlv_type,
};

use crate::Span;

/// The longest header of version 1, including the line end (specification, section 2.1).
pub const MAX_V1_BYTES: usize = 107;

/// The longest header of version 2 that is accepted: nginx's buffer size for it.
pub const MAX_V2_BYTES: usize = 4096;

/// The result of [`HeaderDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The header has not ended; call again from its start when more bytes follow.
    Incomplete,
    /// A whole header.
    Complete(Header),
}

/// A PROXY header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source and destination of the connection to the proxy. `None` if the proxy does not say:
    /// `UNKNOWN`, the LOCAL command (health checks), or an address that is not a TCP address. In
    /// that case the connection's own addresses apply.
    pub addresses: Option<Addresses>,
    /// Position of the TLVs in the buffer, to be read with [`Tlvs`]. As in nginx, set only together
    /// with addresses.
    pub tlvs: Span,
    /// Bytes that the header takes; the connection's own bytes start there.
    pub header_bytes: usize,
}

/// Both ends of the original connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `$proxy_protocol_addr`, `$proxy_protocol_port`.
    pub source: SocketAddr,
    /// `$proxy_protocol_server_addr`, `$proxy_protocol_server_port`.
    pub destination: SocketAddr,
}

/// Not a valid PROXY header. The connection must be closed without a response.
///
/// nginx logs `broken header: "..." while reading PROXY protocol`: [`Display`](fmt::Display) yields
/// the first part, [`excerpt`](ProxyProtocolError::excerpt) the quoted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocolError {
    /// Not a header of either version, or a malformed one of version 1: from a client that
    /// connected directly, or from a proxy that was not configured to send one.
    Broken {
        /// The line, or enough of it to show the error.
        line: Span,
    },
    /// A binary header of a version other than 2.
    UnknownVersion(u8),
    /// A command other than LOCAL and PROXY.
    UnknownCommand(u8),
    /// The header exceeds [`MAX_V2_BYTES`].
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The header is shorter than the addresses of its family.
    ShortAddresses,
}

impl ProxyProtocolError {
    /// The offending bytes in the buffer, for the log; to be escaped there.
    pub fn excerpt(&self) -> Option<Span> {
        match *self {
            ProxyProtocolError::Broken { line } => Some(line),
            _ => None,
        }
    }
}

impl fmt::Display for ProxyProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyProtocolError::Broken { .. } => f.write_str("broken header"),
            ProxyProtocolError::UnknownVersion(version) => {
                write!(f, "unknown PROXY protocol version: {version}")
            }
            ProxyProtocolError::UnknownCommand(command) => {
                write!(f, "unknown PROXY protocol command: {command}")
            }
            ProxyProtocolError::TooLarge { bytes } => write!(
                f,
                "PROXY protocol header is too large: {bytes} bytes, {MAX_V2_BYTES} at most"
            ),
            ProxyProtocolError::ShortAddresses => {
                f.write_str("PROXY protocol header is shorter than its addresses")
            }
        }
    }
}

impl std::error::Error for ProxyProtocolError {}

/// Decodes the PROXY header of one connection, of either version.
#[derive(Clone, Debug, Default)]
pub struct HeaderDecoder {
    failed: Option<ProxyProtocolError>,
}

impl HeaderDecoder {
    /// Decodes the header from the start of `buf`, which holds everything received.
    ///
    /// nginx requires the header in one piece; this waits for the rest of a header that comes in
    /// several. The time-out for it is up to the caller.
    ///
    /// # Errors
    /// [`ProxyProtocolError`]; the connection must be closed. Every later call returns it again.
    pub fn decode(&mut self, buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let parsed = parse(buf);
        self.failed = parsed.as_ref().err().copied();
        parsed
    }
}

pub(crate) fn parse(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    if version2::may_begin(buf) {
        return version2::parse(buf);
    }
    version1::parse(buf)
}

#[cfg(test)]
mod tests;
