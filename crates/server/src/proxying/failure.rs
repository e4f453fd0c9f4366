//! What can go wrong with an upstream, and what nginx says about it.

use crate::client_link::BodyError;
use crate::log::OsError;
use sealane_http::StatusCode;
use std::fmt;
use std::io;

/// Why a request got no response, or no whole one, from a peer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The peer could not be connected to.
    Connect(io::Error),
    /// Nothing happened in time.
    TimedOut(Doing),
    /// The connection broke.
    Io(io::Error, Doing),
    /// TLS could not be established, or failed later; a sentence in nginx's words.
    Tls(String, Doing),
    /// The peer closed the connection before the response was complete.
    ClosedEarly(Doing),
    /// The response is malformed; a sentence in nginx's words.
    Invalid(String, Doing),
    /// The rest of the request body could not be read from the client.
    Client(BodyError),
    /// A temporary file could not be written or read.
    TempFile(String),
}

/// What was going on, as nginx ends its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Until the connection stands.
    Connecting,
    /// The TLS handshake.
    Handshaking,
    /// Until the request is sent.
    Sending,
    /// Until the response head is there.
    ReadingHead,
    /// Its body.
    ReadingBody,
    /// A tunnel.
    Tunnelling,
}

impl Failure {
    /// The status for the client when no other peer is asked.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Failure::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            Failure::Client(error) => error.status(),
            Failure::TempFile(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// What was going on.
    pub(crate) fn doing(&self) -> Doing {
        match self {
            Failure::Connect(_) => Doing::Connecting,
            Failure::TimedOut(doing)
            | Failure::Io(_, doing)
            | Failure::Tls(_, doing)
            | Failure::ClosedEarly(doing)
            | Failure::Invalid(_, doing) => *doing,
            Failure::Client(_) => Doing::Sending,
            Failure::TempFile(_) => Doing::ReadingBody,
        }
    }

    /// Whether the peer is to blame, so that another may be asked.
    pub(crate) fn is_of_peer(&self) -> bool {
        !matches!(self, Failure::Client(_) | Failure::TempFile(_))
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Connecting => "while connecting to upstream",
            Doing::Handshaking => "while SSL handshaking to upstream",
            Doing::Sending => "while sending request to upstream",
            Doing::ReadingHead => "while reading response header from upstream",
            Doing::ReadingBody => "while reading upstream",
            Doing::Tunnelling => "while proxying upgraded connection",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => {
                write!(
                    f,
                    "connect() failed ({}) {}",
                    OsError(error),
                    Doing::Connecting
                )
            }
            Failure::TimedOut(doing) => {
                write!(f, "upstream timed out (110: Connection timed out) {doing}")
            }
            Failure::Io(error, doing) => {
                let call = match doing {
                    Doing::Sending => "send()",
                    _ => "recv()",
                };
                write!(f, "{call} failed ({}) {doing}", OsError(error))
            }
            Failure::Tls(text, doing) | Failure::Invalid(text, doing) => {
                write!(f, "{text} {doing}")
            }
            Failure::ClosedEarly(doing) => {
                write!(f, "upstream prematurely closed connection {doing}")
            }
            Failure::Client(error) => write!(f, "{error} while reading client request body"),
            Failure::TempFile(text) => f.write_str(text),
        }
    }
}
