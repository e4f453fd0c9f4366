//! Groups of servers to pass requests to: `upstream` blocks, and those that
//! `proxy_pass` and the like define by naming an address or a host.

use super::{Check, Origin, Resolver, ServerKind, SessionStore, Sticky, Template};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Largest `weight=` of a server. nginx has no limit, but larger weights have no use, and
/// this keeps sums of weights far from overflowing.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// A group of servers; a [`super::GroupRef`] leads here. The name of a block is
/// looked up ignoring case, and the block may follow its use.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The block that it belongs to: names of `http` mean nothing in `stream`, and the other way
    /// round.
    pub kind: ServerKind,
    /// Its name as written: of the block, or the host or path that was named.
    pub name: Box<str>,
    /// Made by an `upstream` block. Other groups have one server, round robin
    /// and no kept connections.
    pub explicit: bool,
    /// Its servers, backups included, in the order of the configuration; without `state` at
    /// least one, and at least one that is no backup.
    pub servers: Vec<UpstreamServer>,
    /// How a server is picked.
    pub method: BalanceMethod,
    /// `sticky`: how clients belong to servers.
    pub sticky: Option<Sticky>,
    /// `check`: Tengine's health check.
    pub check: Option<Arc<Check>>,
    /// `upstream_store` of the block or of `http`, or `ssl_session_store` of `http`: where nodes
    /// share what is found out about the group. `None` if nothing is shared.
    pub store: Option<Arc<SessionStore>>,
    /// `keepalive` and its limits.
    pub keepalive: UpstreamKeepalive,
    /// `multi`: connections of each worker thread to each server, for requests that share them;
    /// default 1.
    pub multi: u32,
    /// `ntlm`: connections that are authenticated belong to the client's connection.
    pub ntlm: bool,
    /// `queue`: requests wait while no server can take them.
    pub queue: Option<UpstreamQueue>,
    /// `zone`: counters and positions are shared by all workers.
    pub zone: Option<UpstreamZone>,
    /// `state`: the servers come from a file, and changes go there.
    pub state: Option<UpstreamState>,
    /// `resolver` of the block or of `http`; `Some` when a server has `resolve`.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout` of the block, else of `http`; default 30 s.
    pub resolver_timeout: Duration,
    /// File and line of the block, or of the first use, for messages.
    pub origin: Origin,
}

/// One `server` line of an [`Upstream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamServer {
    /// The address as written, for messages and logs.
    pub name: Box<str>,
    /// Where it is.
    pub peers: UpstreamPeers,
    /// `weight=`; default 1, at least 1, at most [`MAX_WEIGHT`]. Every address
    /// of a name has it.
    pub weight: u32,
    /// `max_fails=`; default 1. 0 switches the accounting of failures off.
    pub max_fails: u32,
    /// `fail_timeout=`: how long failures are counted, and a failed server is not
    /// used; default 10 s.
    pub fail_timeout: Duration,
    /// `max_conns=`; `None` means no limit.
    pub max_conns: Option<u32>,
    /// `slow_start=`: how long its weight grows once it can be used again; default 0.
    pub slow_start: Duration,
    /// `backup`: picked when no other server can be.
    pub backup: bool,
    /// `down`: never picked.
    pub down: bool,
    /// `drain`: only clients that belong to it are passed to it.
    pub drain: bool,
    /// `route=`: what clients that belong to it call it; by default a hash of its address.
    pub route: Option<Box<[u8]>>,
}

/// The addresses behind one `server` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamPeers {
    /// Known when the configuration was read; at least one. Each is a peer.
    Fixed(Vec<PeerAddress>),
    /// `resolve`: looked up again and again at run time.
    Resolved {
        /// The host name.
        host: Box<str>,
        /// Port of every address; 80 when not written. An SRV record brings
        /// its own.
        port: u16,
        /// `service=`: SRV records `_service._tcp.host` are queried (a name
        /// with dots or a leading underscore is used as it is).
        service: Option<Box<str>>,
    },
}

/// Where a request can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerAddress {
    /// IPv4 or IPv6 with a port.
    Inet(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl std::fmt::Display for PeerAddress {
    /// As nginx writes it in `$upstream_addr`: `127.0.0.1:80`, `[::1]:80`,
    /// `unix:/path`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerAddress::Inet(address) => write!(f, "{address}"),
            PeerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How a group picks a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BalanceMethod {
    /// Smooth weighted round robin: the default.
    #[default]
    RoundRobin,
    /// `vnswrr`: Tengine's virtual-node smooth weighted round robin.
    Vnswrr {
        /// `max_init=`: most virtual nodes made at once; `None` leaves it to
        /// the number of servers, as Tengine does.
        max_init: Option<u32>,
    },
    /// `least_conn`.
    LeastConn,
    /// `ip_hash`: by the client's /24 or its whole IPv6 address.
    IpHash,
    /// `hash KEY [consistent]`.
    Hash {
        /// What is hashed.
        key: Template,
        /// `consistent`: ketama, 160 points for each unit of weight.
        consistent: bool,
    },
    /// `least_time`.
    LeastTime {
        /// What is measured.
        until: TimeUntil,
        /// `inflight`: requests that are under way count as well.
        inflight: bool,
    },
    /// `random [two [least_conn|least_time=...]]`.
    Random {
        /// `two`: the better one of two.
        two: Option<BetterOfTwo>,
    },
}

/// What `least_time` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUntil {
    /// `connect`: the connection of a session stands.
    Connect,
    /// `header`: the response head is there; `first_byte` in `stream`.
    Header,
    /// `last_byte`.
    LastByte,
}

/// Which of two servers `random two` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetterOfTwo {
    /// `least_conn`, the default.
    FewerConnections,
    /// `least_time`.
    LessTime {
        /// What is measured.
        until: TimeUntil,
    },
}

impl BalanceMethod {
    /// Whether servers may have `slow_start`: their weights can change at any time.
    pub fn allows_slow_start(&self) -> bool {
        match self {
            BalanceMethod::RoundRobin
            | BalanceMethod::LeastConn
            | BalanceMethod::LeastTime { .. } => true,
            BalanceMethod::Vnswrr { .. }
            | BalanceMethod::IpHash
            | BalanceMethod::Hash { .. }
            | BalanceMethod::Random { .. } => false,
        }
    }

    /// Whether servers may be marked `backup`.
    pub fn allows_backup(&self) -> bool {
        match self {
            BalanceMethod::RoundRobin
            | BalanceMethod::Vnswrr { .. }
            | BalanceMethod::LeastConn
            | BalanceMethod::LeastTime { .. } => true,
            BalanceMethod::IpHash | BalanceMethod::Hash { .. } | BalanceMethod::Random { .. } => {
                false
            }
        }
    }
}

/// `keepalive` and the limits of kept connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamKeepalive {
    /// Maximum number of idle connections kept for the group, per worker thread; 0 keeps
    /// none. Default 32 for an `upstream` block, as in nginx since 1.29.7; 0
    /// for other groups.
    pub connections: u32,
    /// `local`: a connection is reused only for the location that opened
    /// it. True by default, false when `keepalive N` is written without it.
    pub local: bool,
    /// `keepalive_requests`; default 1000.
    pub requests: u64,
    /// `keepalive_time`: age from which a connection is no longer kept;
    /// default 1 h.
    pub time: Duration,
    /// `keepalive_timeout`: how long an idle connection is kept; default 60 s.
    pub timeout: Duration,
}

impl Default for UpstreamKeepalive {
    fn default() -> UpstreamKeepalive {
        UpstreamKeepalive {
            connections: 32,
            local: true,
            requests: 1000,
            time: Duration::from_secs(3600),
            timeout: Duration::from_secs(60),
        }
    }
}

/// `state FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamState {
    /// The file.
    pub path: PathBuf,
    /// CRC-32 sum of the whole file as it was read; `None` if there is none.
    pub sum: Option<u32>,
}

/// `queue NUMBER [timeout=TIME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamQueue {
    /// Requests that may wait at the same time; at least 1.
    pub limit: u32,
    /// `timeout=`: how long each may wait; default 60 s.
    pub timeout: Duration,
}

/// `zone NAME [SIZE]`. Threads of one process share memory anyway, so the size
/// is checked but not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamZone {
    /// Its name.
    pub name: Box<str>,
    /// Its size in bytes, when given.
    pub size_bytes: Option<u64>,
}

/// `proxy_send_proxy_protocol` (Sealane's own): a PROXY protocol header at the
/// beginning of each connection to a proxied server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendProxyProtocol {
    /// None.
    #[default]
    Off,
    /// Version 1, text.
    V1,
    /// Version 2, binary.
    V2,
}
