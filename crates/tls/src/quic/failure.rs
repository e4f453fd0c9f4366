//! Why a handshake failed, and how QUIC tells the peer.

use std::fmt;

use sealane_awslc::Fault;

use crate::client;
use crate::error::Error;

/// With which error the connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// `CRYPTO_ERROR` with this alert (RFC 9001 section 4.8).
    Alert(u8),
    /// `PROTOCOL_VIOLATION`: data at a level where there can be none (RFC 9001 section 4.1.3).
    ProtocolViolation,
    /// `CRYPTO_BUFFER_EXCEEDED`: more data than is kept (RFC 9000 section 7.5).
    CryptoBufferExceeded,
}

/// A handshake that has failed. It stays failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    close: Close,
    cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    Server(Error),
    Client(client::Error),
    /// What the peer has done.
    Peer(&'static str),
}

/// libssl's reasons for what is not an alert in QUIC.
const WRONG_LEVEL: &str = "WRONG_ENCRYPTION_LEVEL_RECEIVED";
const EXCESS_DATA: &str = "EXCESS_HANDSHAKE_DATA";
const EXCESSIVE_SIZE: &str = "EXCESSIVE_MESSAGE_SIZE";

/// `internal_error`, for failures of this side that libssl has no alert for.
const ALERT_INTERNAL_ERROR: u8 = 80;

impl Failure {
    pub(super) fn of_server(error: Error, alert: Option<u8>) -> Self {
        let library = match &error {
            Error::Library(error) => Some(error),
            _ => None,
        };
        Self {
            close: close(library, alert.unwrap_or(error.alert())),
            cause: Cause::Server(error),
        }
    }

    pub(super) fn of_client(error: client::Error, alert: Option<u8>) -> Self {
        let library = match &error {
            client::Error::Library(error) => Some(error),
            _ => None,
        };
        Self {
            close: close(library, alert.unwrap_or(ALERT_INTERNAL_ERROR)),
            cause: Cause::Client(error),
        }
    }

    pub(super) fn of_peer(close: Close, reason: &'static str) -> Self {
        Self {
            close,
            cause: Cause::Peer(reason),
        }
    }

    /// With which error the connection has to be closed.
    pub fn close(&self) -> Close {
        self.close
    }

    /// The reason phrase for the peer, without anything secret.
    pub fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::Server(Error::Library(error)) | Cause::Client(client::Error::Library(error)) => {
                error.reason().unwrap_or("handshake failed")
            }
            Cause::Server(Error::Rejected) => "no server for this name",
            Cause::Server(Error::VersionTooLow) => "version too low",
            Cause::Server(Error::SplitMode) => "ECH in split mode is not supported",
            Cause::Server(Error::Overloaded) => "too many handshakes",
            Cause::Server(Error::Stopping) => "stopping",
            Cause::Server(_) => "handshake failed",
            Cause::Client(_) => "certificate refused",
            Cause::Peer(reason) => reason,
        }
    }

    /// What the server says about it; `None` for mistakes of the peer that only QUIC knows, and on
    /// a client.
    #[cfg(test)]
    pub(crate) fn server_error(&self) -> Option<&Error> {
        match &self.cause {
            Cause::Server(error) => Some(error),
            _ => None,
        }
    }

    /// What the client says about it.
    #[cfg(test)]
    pub(crate) fn client_error(&self) -> Option<&client::Error> {
        match &self.cause {
            Cause::Client(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the peer is to blame, or this side.
    pub fn fault(&self) -> Fault {
        match &self.cause {
            Cause::Server(error) => error.fault(),
            Cause::Client(error) => error.fault(),
            Cause::Peer(_) => Fault::Peer,
        }
    }
}

fn close(error: Option<&sealane_awslc::Error>, alert: u8) -> Close {
    match error.and_then(sealane_awslc::Error::reason) {
        Some(WRONG_LEVEL | EXCESS_DATA) => Close::ProtocolViolation,
        Some(EXCESSIVE_SIZE) => Close::CryptoBufferExceeded,
        _ => Close::Alert(alert),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Server(error) => error.fmt(f),
            Cause::Client(error) => error.fmt(f),
            Cause::Peer(reason) => write!(f, "QUIC handshake failed ({reason})"),
        }
    }
}

impl std::error::Error for Failure {}
