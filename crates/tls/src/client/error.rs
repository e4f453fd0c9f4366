//! What can go wrong with a connection to an upstream.

use std::fmt;

use sealane_awslc::{self as awslc, Fault};

use crate::ktls::KeysEnded;

/// Why a connection failed, in the words nginx logs. The alert for the server, if any, is in the
/// output of the call that returned this error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The TLS library or the server refused.
    Library(awslc::Error),
    /// The server's certificate is not trusted (`proxy_ssl_verify`).
    Untrusted {
        /// OpenSSL's number (`X509_V_ERR_...`).
        code: i32,
        /// What it means, in OpenSSL's words.
        reason: &'static str,
    },
    /// The server's certificate is trusted but was issued for another name.
    OtherName {
        /// The expected name.
        name: Box<str>,
    },
    /// The server closed the connection during the handshake.
    ClosedInHandshake,
    /// The stream ended without a close_notify: the data may be truncated (RFC 8446 section 6.1).
    Truncated,
    /// The kernel seals the records, and its key could not be changed.
    KeysEnded {
        /// Why it had to be.
        ended: KeysEnded,
        /// The prefix of the directives: `proxy_ssl`.
        directives: &'static str,
    },
    /// The connection had failed or was not established; a mistake of the caller.
    NotEstablished,
}

impl Error {
    /// Whether the server is to blame, or this side.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Library(error) => error.fault(),
            Self::NotEstablished
            | Self::KeysEnded {
                ended: KeysEnded::Exhausted,
                ..
            } => Fault::Local,
            _ => Fault::Peer,
        }
    }

    /// Whether the server's certificate was refused.
    #[cfg(test)]
    pub(crate) fn is_verification(&self) -> bool {
        matches!(self, Self::Untrusted { .. } | Self::OtherName { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::Untrusted { code, reason } => {
                write!(
                    f,
                    "upstream SSL certificate verify error: ({code}:{reason})"
                )
            }
            Self::OtherName { name } => {
                write!(f, "upstream SSL certificate does not match \"{name}\"")
            }
            Self::ClosedInHandshake => f.write_str("peer closed connection in SSL handshake"),
            Self::Truncated => f.write_str("peer closed connection without SSL close_notify"),
            Self::KeysEnded { ended, directives } => ended.write(
                f,
                format_args!("{directives}_ktls key_updates="),
                format_args!("{directives}_ktls key_records="),
            ),
            Self::NotEstablished => f.write_str("the TLS connection is not established"),
        }
    }
}

impl std::error::Error for Error {}

impl From<awslc::Error> for Error {
    fn from(error: awslc::Error) -> Self {
        Self::Library(error)
    }
}
