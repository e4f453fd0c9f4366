//! What can go wrong with an upstream, in nginx's words.

use super::peer_connection::PeerError;
use crate::client_link::BodyError;
use sealane_conf::model::LogLevel;
use sealane_http::StatusCode;
use sealane_log::OsError;
use sealane_tls::Fault;
use sealane_tls::client::Error as TlsError;
use std::borrow::Cow;
use std::fmt;
use std::io;

/// Why a request got no response, or an incomplete one, from a peer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection to the peer failed. A Unix socket, where that is known at once, is named.
    Connect(io::Error, Option<Box<str>>),
    /// There is no socket to connect with, or not from the address of `proxy_bind`: the call, and
    /// what the system says. No peer is to blame for that.
    Socket(Cow<'static, str>, io::Error),
    /// Nothing happened in time.
    TimedOut(Doing),
    /// The connection broke.
    Io(io::Error, Doing),
    /// The handshake failed, or TLS failed later.
    Tls(TlsError, Doing),
    /// The response ends with the connection, and TLS was not closed: anyone may have cut it (RFC
    /// 9112 section 9.8).
    Cut,
    /// TLS could not be set up on this side: the certificate does not load, or the name cannot be
    /// sent. A sentence in nginx's words.
    TlsSetup(String),
    /// The peer closed the connection before the response was complete.
    ClosedEarly(Doing),
    /// The response is malformed; a sentence in nginx's words.
    Invalid(String, Doing),
    /// The peer did not process the request, which may therefore be sent again; a sentence in
    /// nginx's words.
    Unprocessed(String, Doing),
    /// The rest of the request body could not be read from the client.
    Client(BodyError),
    /// The client must not have a tunnel there; a sentence that says why.
    Refused(String),
    /// A temporary file could not be written or read.
    TempFile(String),
}

/// What was being done, as nginx ends its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Until a peer can take the request (`queue`).
    Queueing,
    /// Until the connection is established.
    Connecting,
    /// The TLS handshake.
    Handshaking,
    /// Until the request is sent.
    Sending,
    /// Until the response head has arrived.
    ReadingHead,
    /// Its body.
    ReadingBody,
    /// A tunnel.
    Tunnelling,
    /// A session of datagrams.
    Proxying,
}

impl Failure {
    /// A failure of a connection, whose errors may come from TLS or from a file that was to be
    /// sent.
    pub(crate) fn broken(error: PeerError, doing: Doing) -> Failure {
        match error {
            PeerError::Tls(error) => Failure::Tls(error, doing),
            PeerError::ClosedInHandshake => Failure::Tls(TlsError::ClosedInHandshake, doing),
            PeerError::File(error) => Failure::TempFile(error.to_string()),
            PeerError::Socket(error) => Failure::Io(error, doing),
        }
    }

    /// The log level. Problems of TLS or disks on this side would not be noticed otherwise, and a
    /// server that does not exist (no socket, no permission) does not come back by itself. Clients
    /// come and go.
    pub(crate) fn level(&self) -> LogLevel {
        match self {
            Failure::Tls(error, _) if error.fault() == Fault::Local => LogLevel::Crit,
            Failure::Connect(error, _) if !is_passing(error) => LogLevel::Crit,
            Failure::Socket(call, _) if call.starts_with("bind(") => LogLevel::Crit,
            Failure::Socket(..) => LogLevel::Alert,
            Failure::TempFile(_) => LogLevel::Crit,
            Failure::Client(BodyError::ClientClosed | BodyError::TimedOut) => LogLevel::Info,
            _ => LogLevel::Error,
        }
    }

    /// The status for the client if no other peer is tried.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Failure::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            Failure::Client(error) => error.status(),
            Failure::Refused(_) => StatusCode::FORBIDDEN,
            Failure::TempFile(_) | Failure::TlsSetup(_) | Failure::Socket(..) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// What was being done.
    pub(crate) fn doing(&self) -> Doing {
        match self {
            Failure::Connect(..)
            | Failure::Socket(..)
            | Failure::TlsSetup(_)
            | Failure::Refused(_) => Doing::Connecting,
            Failure::TimedOut(doing)
            | Failure::Io(_, doing)
            | Failure::Tls(_, doing)
            | Failure::ClosedEarly(doing)
            | Failure::Unprocessed(_, doing)
            | Failure::Invalid(_, doing) => *doing,
            Failure::Client(_) => Doing::Sending,
            Failure::Cut | Failure::TempFile(_) => Doing::ReadingBody,
        }
    }

    /// Whether it has been logged already: problems of a request body are logged where they are
    /// found.
    pub(crate) fn is_said(&self) -> bool {
        matches!(self, Failure::Client(BodyError::Malformed))
    }

    /// Whether the peer is to blame, so that another one may be tried.
    pub(crate) fn is_of_peer(&self) -> bool {
        !matches!(
            self,
            Failure::Client(_)
                | Failure::TempFile(_)
                | Failure::TlsSetup(_)
                | Failure::Socket(..)
                | Failure::Refused(_)
        )
    }
}

/// Whether a connection could not be opened for a reason that may pass, by nginx's rules.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::HostUnreachable
            | Kind::TimedOut
            | Kind::WouldBlock
    )
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Queueing => "while waiting in upstream queue",
            Doing::Connecting => "while connecting to upstream",
            Doing::Handshaking => "while SSL handshaking to upstream",
            Doing::Sending => "while sending request to upstream",
            Doing::ReadingHead => "while reading response header from upstream",
            Doing::ReadingBody => "while reading upstream",
            Doing::Tunnelling => "while proxying upgraded connection",
            Doing::Proxying => "while proxying connection",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error, name) => {
                f.write_str("connect() ")?;
                if let Some(name) = name {
                    write!(f, "to {name} ")?;
                }
                write!(f, "failed ({}) {}", OsError(error), Doing::Connecting)
            }
            Failure::Socket(call, error) => {
                write!(
                    f,
                    "{call} failed ({}) {}",
                    OsError(error),
                    Doing::Connecting
                )
            }
            Failure::TimedOut(doing) => {
                write!(f, "upstream timed out (110: Connection timed out) {doing}")
            }
            Failure::Io(error, Doing::Handshaking) => write!(
                f,
                "peer closed connection in SSL handshake ({}) {}",
                OsError(error),
                Doing::Handshaking
            ),
            Failure::Io(error, doing) => {
                let call = match doing {
                    Doing::Sending => "send()",
                    _ => "recv()",
                };
                write!(f, "{call} failed ({}) {doing}", OsError(error))
            }
            Failure::Tls(error, doing) => write!(f, "{error} {doing}"),
            Failure::Invalid(text, doing) | Failure::Unprocessed(text, doing) => {
                write!(f, "{text} {doing}")
            }
            Failure::Cut => write!(
                f,
                "upstream closed connection without SSL close_notify, the response may be \
                 incomplete {}",
                Doing::ReadingBody
            ),
            Failure::ClosedEarly(doing) => {
                write!(f, "upstream prematurely closed connection {doing}")
            }
            Failure::Client(error) => write!(f, "{error} while reading client request body"),
            Failure::TempFile(text) | Failure::Refused(text) => f.write_str(text),
            Failure::TlsSetup(text) => write!(f, "{text} {}", Doing::Connecting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_nginx() {
        let io = |kind| io::Error::from(kind);
        for (failure, level) in [
            (
                Failure::Connect(io(io::ErrorKind::ConnectionRefused), None),
                LogLevel::Error,
            ),
            (
                Failure::Connect(io(io::ErrorKind::NotFound), None),
                LogLevel::Crit,
            ),
            (
                Failure::Socket(
                    "bind(192.0.2.1)".into(),
                    io(io::ErrorKind::AddrNotAvailable),
                ),
                LogLevel::Crit,
            ),
            (
                Failure::Socket("socket()".into(), io(io::ErrorKind::Other)),
                LogLevel::Alert,
            ),
            (
                Failure::Io(io(io::ErrorKind::ConnectionReset), Doing::ReadingBody),
                LogLevel::Error,
            ),
            (Failure::ClosedEarly(Doing::ReadingBody), LogLevel::Error),
            (Failure::Cut, LogLevel::Error),
            (Failure::TempFile("pwrite()".to_owned()), LogLevel::Crit),
            (Failure::Client(BodyError::ClientClosed), LogLevel::Info),
            (Failure::Client(BodyError::TimedOut), LogLevel::Info),
            (Failure::Client(BodyError::TooLarge), LogLevel::Error),
        ] {
            assert_eq!(failure.level(), level, "{failure}");
        }
    }
}
