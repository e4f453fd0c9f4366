//! Errors in settings and on connections.

use std::fmt;

use sealane_awslc::Fault;

use crate::ktls::KeysEnded;

/// Settings that cannot be used, in the words nginx prints after `[emerg]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError(pub(crate) String);

impl SettingsError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

/// A setting that is accepted but has little or no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub(crate) String);

impl Warning {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a connection ended. The alert for the peer, if any, is in the output of the call that
/// returned this error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The TLS library refused.
    Library(sealane_awslc::Error),
    /// `ssl_reject_handshake`, or no server for the name: `unrecognized_name` was sent.
    Rejected,
    /// The ClientHello is too long: an alert was sent.
    HelloTooLarge,
    /// The ClientHello exceeds 16 KiB, and the maximum number of such hellos is already arriving:
    /// an alert was sent.
    TooManyLargeHellos,
    /// The ClientHello is from SSL 3.0 or older: an alert was sent.
    VersionTooLow,
    /// The hello is one that another server has taken out of an encrypted one: an alert was sent.
    SplitMode,
    /// Too many handshakes were waiting (`ssl_handshake_queue`, `ssl_handshake_timeout`): an alert
    /// was sent.
    Overloaded,
    /// No certificate could be loaded for the client: `internal_error` was sent. In nginx's words.
    Certificate(String),
    /// The process is stopping, and the handshake with it.
    Stopping,
    /// The kernel seals, and the connection could not continue under its key: close_notify was
    /// sent.
    KeysEnded(KeysEnded),
    /// The connection had failed or was not established; a mistake of the caller.
    NotEstablished,
}

const ALERT_ILLEGAL_PARAMETER: u8 = 47;
const ALERT_DECODE_ERROR: u8 = 50;
const ALERT_PROTOCOL_VERSION: u8 = 70;
const ALERT_INTERNAL_ERROR: u8 = 80;
const ALERT_UNRECOGNIZED_NAME: u8 = 112;

impl Error {
    /// The alert that tells the client, if libssl has not chosen one.
    pub(crate) fn alert(&self) -> u8 {
        match self {
            Self::Rejected => ALERT_UNRECOGNIZED_NAME,
            Self::HelloTooLarge => ALERT_DECODE_ERROR,
            Self::VersionTooLow => ALERT_PROTOCOL_VERSION,
            Self::SplitMode => ALERT_ILLEGAL_PARAMETER,
            Self::Library(_)
            | Self::TooManyLargeHellos
            | Self::Overloaded
            | Self::Certificate(_)
            | Self::Stopping
            | Self::KeysEnded(_)
            | Self::NotEstablished => ALERT_INTERNAL_ERROR,
        }
    }

    /// Whether the peer is at fault: nginx logs such errors at `info`.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Library(error) => error.fault(),
            // Neither side is at fault. These are reported on their own, so the connection's error
            // is logged at `info`.
            Self::Rejected | Self::Overloaded | Self::Stopping => Fault::Peer,
            Self::HelloTooLarge
            | Self::TooManyLargeHellos
            | Self::VersionTooLow
            | Self::SplitMode => Fault::Peer,
            Self::Certificate(_) => Fault::Local,
            Self::KeysEnded(KeysEnded::Exhausted) | Self::NotEstablished => Fault::Local,
            Self::KeysEnded(_) => Fault::Peer,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::Rejected => {
                f.write_str("SSL_do_handshake() failed (SSL: rejected by ssl_reject_handshake, alert unrecognized_name sent)")
            }
            Self::HelloTooLarge => {
                f.write_str("SSL_do_handshake() failed (SSL: excessive message size)")
            }
            Self::TooManyLargeHellos => f.write_str(
                "SSL_do_handshake() not started: too many clients are sending a ClientHello of more than 16 KiB",
            ),
            Self::VersionTooLow => {
                f.write_str("SSL_do_handshake() failed (SSL: version too low)")
            }
            Self::SplitMode => f.write_str(
                "SSL_do_handshake() failed (SSL: the inner ClientHello of an encrypted one; \
                 ECH in split mode is not supported, alert illegal_parameter sent)",
            ),
            Self::Overloaded => f.write_str("SSL_do_handshake() not started: too many handshakes are waiting"),
            Self::Certificate(why) => f.write_str(why),
            Self::Stopping => f.write_str("SSL_do_handshake() aborted: the process is stopping"),
            Self::KeysEnded(ended) => ended.fmt(f),
            Self::NotEstablished => f.write_str("the TLS connection is not established"),
        }
    }
}

impl std::error::Error for Error {}

impl From<sealane_awslc::Error> for Error {
    fn from(error: sealane_awslc::Error) -> Self {
        Self::Library(error)
    }
}
