//! The configuration of a group.

use super::health::CheckSettings;
use super::peer::PeerAddress;
use super::queue::QueueSettings;
use std::sync::Arc;
use std::time::Duration;

/// An `upstream` block, or the group that a literal address in `proxy_pass` implies.
#[derive(Debug, Clone)]
pub struct GroupSettings {
    /// Its name, for messages and `$upstream_addr` when there is no peer.
    pub name: String,
    /// Under which name it is counted: groups of `http` and of `stream` may have the same.
    pub counted_as: Arc<str>,
    /// Its `server` lines, in order.
    pub servers: Vec<ServerSettings>,
    /// How a peer is chosen.
    pub method: Method,
    /// Active health checks, at most [`MAX_CHECKS`](super::MAX_CHECKS).
    pub checks: Arc<[CheckSettings]>,
    /// `zone`: all worker threads share their turns.
    pub zone: bool,
    /// Connections to keep.
    pub keepalive: KeepaliveSettings,
    /// `queue`: requests wait if no peer can take them.
    pub queue: Option<QueueSettings>,
}

/// One `server` line.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The address as written, such as `backend1.example.com:8080`, without parameters.
    /// `hash ... consistent` places the server by it.
    pub name: String,
    /// Its addresses; empty until a name with `resolve` has been looked up.
    pub addresses: Vec<PeerAddress>,
    /// `weight=`, at least 1.
    pub weight: u32,
    /// `max_conns=`; 0 means no limit.
    pub max_conns: u32,
    /// `max_fails=`; 0 means that failures are not counted.
    pub max_fails: u32,
    /// `fail_timeout=`.
    pub fail_timeout: Duration,
    /// `slow_start=`: how long its weight grows once it can be picked again; zero is off.
    pub slow_start: Duration,
    /// `backup`.
    pub backup: bool,
    /// `down`.
    pub down: bool,
    /// `drain`: picked only for clients that belong to it.
    pub drain: bool,
    /// `resolve`: the name that is looked up; `None` for addresses that are known.
    pub lookup: Option<LookupName>,
    /// `route=`: its server id; by default that is made of the address.
    pub route: Option<Box<[u8]>>,
    /// It was added while the server runs: what is counted of it stays in this process.
    pub added: bool,
    /// Without `route`, the address itself is the server id, not its hash.
    pub plain_id: bool,
}

/// What is looked up for a `server` line with `resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LookupName {
    /// The host.
    pub host: String,
    /// The port of every address, except of SRV records.
    pub port: u16,
    /// `service=`.
    pub service: Option<String>,
}

impl LookupName {
    /// Whether the same question is asked; the port is no part of it.
    pub(super) fn asks_as(&self, other: &LookupName) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.service == other.service
    }
}

impl Method {
    /// The times that it compares.
    pub(super) fn times(self) -> Option<LeastTime> {
        match self {
            Method::LeastTime(rule) | Method::RandomTwoByTime(rule) => Some(rule),
            _ => None,
        }
    }
}

impl ServerSettings {
    /// A `server` line without parameters.
    #[must_use]
    pub fn new(name: impl Into<String>, addresses: Vec<PeerAddress>) -> ServerSettings {
        ServerSettings {
            name: name.into(),
            addresses,
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            slow_start: Duration::ZERO,
            backup: false,
            down: false,
            drain: false,
            lookup: None,
            route: None,
            added: false,
            plain_id: false,
        }
    }
}

/// How a peer is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Smooth weighted round robin, the default.
    #[default]
    RoundRobin,
    /// `vnswrr [max_init=number]`: round robin over virtual nodes, whose cost does not depend on
    /// the number of peers.
    Vnswrr {
        /// Virtual nodes created at a time; 0 leaves the number to Sealane.
        max_init: u32,
    },
    /// `least_conn`.
    LeastConn,
    /// `ip_hash`.
    IpHash,
    /// `hash key`.
    Hash,
    /// `hash key consistent`.
    ConsistentHash,
    /// `random`.
    Random,
    /// `random two [least_conn]`.
    RandomTwo,
    /// `random two least_time=...`.
    RandomTwoByTime(LeastTime),
    /// `least_time`.
    LeastTime(LeastTime),
}

/// `least_time header|last_byte [inflight]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTime {
    /// The time that counts.
    pub until: TimeUntil,
    /// Requests that are under way count as well.
    pub inflight: bool,
}

/// The end of the time that `least_time` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUntil {
    /// Of the response head.
    Header,
    /// Of the whole response.
    LastByte,
}

/// Idle connections to peers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepaliveSettings {
    /// `keepalive`: idle connections that each worker thread keeps for the group; 0 means none.
    pub connections: usize,
    /// `keepalive_requests`: a connection is closed after this many.
    pub requests: u64,
    /// `keepalive_time`: a connection that is older is closed after its request.
    pub time: Duration,
    /// `keepalive_timeout`: how long a connection stays idle.
    pub timeout: Duration,
}

impl KeepaliveSettings {
    /// No connection is kept.
    pub const OFF: KeepaliveSettings = KeepaliveSettings::keeping(0);

    /// Keeps up to `connections` connections, with nginx's defaults for everything else.
    #[must_use]
    pub const fn keeping(connections: usize) -> KeepaliveSettings {
        KeepaliveSettings {
            connections,
            requests: 1000,
            time: Duration::from_secs(3600),
            timeout: Duration::from_secs(60),
        }
    }
}
