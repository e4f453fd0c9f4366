//! Why a measurement failed, worded for the person who started it.

use std::{fmt, io};

use crate::response::ResponseError;

/// A run that did not measure what was requested.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The arguments contradict each other or name something unknown.
    Usage(String),
    /// A system call failed; `what` says which step of the run it was.
    Io {
        /// The step, as in "connect to 127.0.0.1:8443".
        what: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The TLS library refused a setting or the handshake failed.
    Tls {
        /// The step, as in "handshake with 127.0.0.1:8443".
        what: String,
        /// The library's words.
        reason: String,
    },
    /// A handshake succeeded, but not with the pinned parameters.
    Negotiated {
        /// What differs: "protocol", "suite", "group", "key type", "resumption",
        /// "early data", "stapling".
        what: &'static str,
        /// The pinned value.
        wanted: String,
        /// What the server chose.
        got: String,
    },
    /// A cache asked the origin more or less often than the run requires.
    Cached {
        /// The requests that should have reached the origin.
        wanted: u64,
        /// Those that did.
        got: u64,
        /// The requests of the run.
        operations: u64,
    },
    /// An HTTP/2 response is malformed or unexpected.
    Http2(String),
    /// An HTTP/3 response is malformed or unexpected, or its connection has failed.
    Http3(String),
    /// An HTTP/1 response is malformed or unexpected.
    Response(ResponseError),
    /// The server closed a connection prematurely; holds when.
    Closed(&'static str),
    /// Nothing happened for longer than an operation may take.
    Stalled(String),
    /// A server under comparison did not start, or died.
    Server {
        /// Its name in the comparison.
        name: String,
        /// What went wrong, with the end of its error log if there is one.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            source,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Tls { what, reason } => write!(f, "{what}: {reason}"),
            Self::Negotiated { what, wanted, got } => {
                write!(
                    f,
                    "negotiated {what} is {got}, but the run requires {wanted}"
                )
            }
            Self::Cached {
                wanted,
                got,
                operations,
            } => write!(
                f,
                "{got} of {operations} requests reached the origin, but the run requires {wanted}"
            ),
            Self::Http2(what) => write!(f, "unexpected over HTTP/2: {what}"),
            Self::Http3(what) => write!(f, "unexpected over HTTP/3: {what}"),
            Self::Response(error) => write!(f, "unexpected response: {error}"),
            Self::Closed(what) => write!(f, "the server closed the connection {what}"),
            Self::Stalled(what) => write!(f, "no progress: {what}"),
            Self::Server { name, reason } => write!(f, "server {name}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Response(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ResponseError> for Error {
    fn from(error: ResponseError) -> Self {
        Self::Response(error)
    }
}
