//! Why a stream cannot go on.

use super::gather::FileError;
use sealane_sys::OsError;
use sealane_tls::{Fault, SansIo};
use std::fmt;
use std::io;

/// Why a stream cannot go on. `E` is the error of its TLS side.
#[derive(Debug)]
pub enum StreamError<E> {
    /// The socket failed, most often because the peer has gone.
    Socket(io::Error),
    /// The peer closed the connection before the TLS handshake was complete.
    ClosedInHandshake,
    /// TLS failed.
    Tls(E),
    /// A file could not be read, or is shorter than promised.
    File(FileError),
}

/// The error of a stream whose TLS side is `T`.
pub type ErrorOf<T> = StreamError<<T as SansIo>::Error>;

impl StreamError<sealane_tls::Error> {
    /// Whether the client caused the error by going away. Operators see such errors only at `info`.
    pub fn is_client_gone(&self) -> bool {
        match self {
            StreamError::Socket(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
            ),
            StreamError::Tls(error) => error.fault() == Fault::Peer,
            StreamError::ClosedInHandshake => true,
            StreamError::File(_) => false,
        }
    }
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Socket(error) => {
                write!(f, "recv() or send() failed ({})", OsError(error))
            }
            StreamError::ClosedInHandshake => {
                f.write_str("peer closed connection in SSL handshake")
            }
            StreamError::Tls(error) => write!(f, "{error}"),
            StreamError::File(error) => write!(f, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StreamError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::Socket(error) => Some(error),
            StreamError::Tls(error) => Some(error),
            StreamError::File(error) => Some(error),
            StreamError::ClosedInHandshake => None,
        }
    }
}
