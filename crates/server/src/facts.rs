//! What is known about a connection for its whole life.

use crate::snapshot::ListenerId;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What is known about a connection: who, where, since when, which TLS.
///
/// Variables and logs read it; only the connection writes it.
pub struct ConnectionFacts {
    /// Serial number within the process, `*7` in the error log.
    pub number: u64,
    /// The listener it came through.
    pub listener: ListenerId,
    /// The client's address.
    pub peer: PeerAddress,
    /// Our address, looked up when first asked for (a listener may be a wildcard).
    local: OnceLock<LocalAddress>,
    /// When it was accepted.
    pub accepted: Instant,
    /// Requests begun on it so far.
    requests: AtomicU64,
    /// TLS facts, once the handshake is done.
    pub tls: OnceLock<TlsFacts>,
}

/// The other side's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddress {
    /// TCP.
    Inet(SocketAddr),
    /// A unix socket; nginx prints `unix:`.
    Unix,
}

/// Our side's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalAddress {
    /// TCP.
    Inet(SocketAddr),
    /// A unix socket and its path.
    Unix(PathBuf),
}

/// What the TLS handshake agreed on, for the `$ssl_*` variables.
#[derive(Debug, Clone, Default)]
pub struct TlsFacts {
    /// `$ssl_protocol`.
    pub protocol: &'static str,
    /// `$ssl_cipher`.
    pub cipher: String,
    /// `$ssl_curve`.
    pub curve: String,
    /// `$ssl_server_name`.
    pub server_name: Option<String>,
    /// `$ssl_alpn_protocol`.
    pub alpn: Option<String>,
    /// `$ssl_session_reused`.
    pub session_reused: bool,
    /// `$ssl_session_id`, hexadecimal.
    pub session_id: String,
    /// `$ssl_sigalg`.
    pub sigalg: Option<String>,
    /// `$ssl_ciphers`.
    pub client_ciphers: String,
    /// `$ssl_curves`.
    pub client_curves: String,
}
