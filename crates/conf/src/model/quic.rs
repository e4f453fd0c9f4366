//! QUIC: what nginx can set, and what is Sealane's own.

use super::{IpNetwork, List, LogFileCache, LogPaths, LogTarget};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The QUIC settings of a server. A connection uses those of the default server of its address:
/// they are needed before a name is known.
///
/// What nginx takes from other directives is there too: connections are idle for at most
/// [`super::LocationConf::keepalive_timeout`] of [`super::Server::conf`], and their handshake takes
/// at most [`super::Server::client_header_timeout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicSettings {
    /// `quic_versions`: what clients may use, the most preferred first; never empty, each once.
    pub versions: List<QuicVersion>,
    /// `quic_retry`.
    pub retry: QuicRetry,
    /// `quic_gso`: many datagrams go to the kernel as one; default on.
    pub gso: bool,
    /// `quic_congestion_control`.
    pub congestion_control: CongestionControl,
    /// `quic_mtu_discovery`: larger datagrams are tried (RFC 8899); default on.
    pub mtu_discovery: bool,
    /// `quic_active_connection_id_limit`: ids of the client that are kept; default 2. At least 2,
    /// at most 8.
    pub active_connection_id_limit: u32,
    /// `quic_host_key`: the file whose bytes make the keys of address tokens and stateless resets.
    /// `None`: a random one.
    pub host_key: Option<PathBuf>,
    /// `quic_preferred_address`; `None`: clients stay where they connect to.
    pub preferred_address: Option<PreferredAddress>,
    /// `quic_qlog`; `None`: off.
    pub qlog: Option<Arc<Qlog>>,
    /// `quic_qlog_max_size`: a file takes so many bytes and a note that it has ended there; default
    /// 64 MiB.
    pub qlog_max_bytes: u64,
    /// `quic_qlog_max_connections`: so many are recorded at a time, for each thread and address;
    /// default 64.
    pub qlog_max_connections: u32,
}

/// A version of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuicVersion {
    /// RFC 9000.
    V1,
    /// RFC 9369.
    V2,
}

/// `quic_retry`: when a client must prove its address before a handshake (RFC 9000 section 8.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuicRetry {
    /// `off`.
    Never,
    /// `on`.
    Always,
    /// While a worker thread has this many handshakes with clients that have not proved theirs.
    From(u32),
}

impl QuicRetry {
    /// What holds without the directive.
    pub const DEFAULT: QuicRetry = QuicRetry::From(256);

    /// Whether a client must prove its address, while a thread has this many handshakes with
    /// clients that have not.
    pub fn is_due(self, unproved_handshakes: usize) -> bool {
        match self {
            QuicRetry::Never => false,
            QuicRetry::Always => true,
            QuicRetry::From(least) => {
                usize::try_from(least).is_ok_and(|least| unproved_handshakes >= least)
            }
        }
    }
}

/// `quic_congestion_control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// RFC 9438, with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// BBR version 3.
    Bbr,
    /// RFC 9002 section 7.
    NewReno,
}

/// `quic_preferred_address`: at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreferredAddress {
    /// For clients with IPv4.
    pub v4: Option<SocketAddrV4>,
    /// For clients with IPv6.
    pub v6: Option<SocketAddrV6>,
}

/// `quic_qlog`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qlog {
    /// Where a file for each connection is written.
    pub directory: PathBuf,
    /// Whose connections; those of all clients if empty.
    pub clients: List<IpNetwork>,
}

/// Files of qlog that stay open for what comes next; those of more connections are opened again.
const OPEN_QLOGS: u32 = 128;

impl Qlog {
    /// The log that the files are written as, by the process that serves the connections.
    pub fn log_target(&self) -> LogTarget {
        LogTarget::Paths(LogPaths {
            written: self.directory.join("*.sqlog"),
            cache: Some(LogFileCache {
                max: OPEN_QLOGS,
                inactive: Duration::from_secs(10),
                min_uses: 1,
                valid: Duration::from_secs(60),
            }),
        })
    }

    /// Whether connections of a client at this address are recorded.
    pub fn records(&self, client: IpAddr) -> bool {
        let mut clients = self.clients.iter();
        self.clients.is_empty() || clients.any(|network| network.contains(client))
    }
}
