//! One address that requests are passed to.

use super::health::{CheckSettings, Health, Verdict};
use super::peer_set::{GroupFacts, ResolvedAddress};
use super::settings::ServerSettings;
use super::times::Times;
use md5::{Digest, Md5};
use sealane_counters::{Counter, Histogram, Placed, StatusCounts};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// The address of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// Over TCP.
    Ip(SocketAddr),
    /// A Unix-domain socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> PeerAddress {
        PeerAddress::Ip(address)
    }
}

/// As in `$upstream_addr`.
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Ip(address) => address.fmt(f),
            PeerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The same ids as nginx's, so that a client keeps its server when nginx and Sealane share it.
fn server_id(server: &ServerSettings, address: &PeerAddress) -> Box<[u8]> {
    if let Some(route) = &server.route {
        return route.clone();
    }
    if server.plain_id {
        return address.to_string().into_bytes().into();
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hash = Md5::digest(address.to_string());
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| DIGITS[usize::from(digit)]).collect()
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Identifies a peer within its process; unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PeerId(u64);

impl PeerId {
    fn next() -> PeerId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        PeerId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One address of a group, with the state shared by all worker threads.
#[derive(Debug)]
pub struct Peer {
    pub(super) id: PeerId,
    address: PeerAddress,
    /// The address as text.
    name: Arc<str>,
    /// The `server` line it comes from, as written.
    server: Arc<str>,
    pub(super) weight: u32,
    pub(super) max_conns: u32,
    pub(super) max_fails: u32,
    pub(super) fail_timeout_ms: u64,
    /// `down`, or `drain`.
    pub(super) down: bool,
    /// `drain`: picked for clients that belong to it.
    pub(super) drain: bool,
    /// What cookies and routes call it.
    server_id: Box<[u8]>,
    /// State of `failures`: how often it failed,
    pub(super) fails: AtomicU32,
    /// when it failed last,
    pub(super) failed_ms: AtomicU64,
    /// when it failed, or was last given a chance after that,
    pub(super) checked_ms: AtomicU64,
    /// and the remaining weight.
    pub(super) effective_weight: AtomicI64,
    gone: AtomicBool,
    /// What active checks say of it,
    pub(super) health: Health,
    /// and which ones there are.
    pub(super) checks: Arc<[CheckSettings]>,
    /// `slow_start`; 0 is off.
    pub(super) slow_start_ms: u64,
    /// When it was last found able to take requests again.
    pub(super) recovered_ms: AtomicU64,
    /// For `least_time`.
    pub(super) times: Times,
    traffic: Traffic,
    counts: Arc<Placed<PeerCounts>>,
}

/// What is counted of a peer.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct PeerCounts {
    /// Requests that were passed to it.
    pub requests: Counter,
    /// Those that failed, in the sense of `proxy_next_upstream`.
    pub failures: Counter,
    /// How often it was left out for its failures.
    pub unavailable: Counter,
    /// Health checks of it that have ended.
    pub checks: Counter,
    /// Those that failed.
    pub checks_failed: Counter,
    /// How often checks have taken it out of use.
    pub unhealthy: Counter,
    /// When a check last passed, in seconds since 1970; 0 is never.
    pub checked_s: Counter,
    /// The last [`Verdict`], for the next process.
    pub(super) verdict: Counter,
    /// Bytes sent to it.
    pub sent: Counter,
    /// Bytes received from it.
    pub received: Counter,
    /// Its responses by status.
    pub responses: StatusCounts,
    /// How long it took until the head of the response was there.
    pub header_times: Histogram,
    /// How long it took until the whole response was there.
    pub response_times: Histogram,
}

/// What a peer is picked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// Requests.
    Up,
    /// Nothing: `down`.
    Down,
    /// Requests of clients that belong to it: `drain`.
    Draining,
    /// Nothing: it has failed too often (`max_fails`).
    Unavailable,
    /// Nothing: a health check fails.
    Unhealthy,
    /// Nothing: it has not passed its mandatory health check yet.
    Checking,
    /// Nothing: it has as many requests as it may (`max_conns`).
    Busy,
}

impl PeerState {
    /// All of them.
    pub const ALL: [PeerState; 7] = [
        PeerState::Up,
        PeerState::Down,
        PeerState::Draining,
        PeerState::Unavailable,
        PeerState::Unhealthy,
        PeerState::Checking,
        PeerState::Busy,
    ];

    /// A word for labels, as Angie has it.
    pub fn name(self) -> &'static str {
        match self {
            PeerState::Up => "up",
            PeerState::Down => "down",
            PeerState::Draining => "draining",
            PeerState::Unavailable => "unavailable",
            PeerState::Unhealthy => "unhealthy",
            PeerState::Checking => "checking",
            PeerState::Busy => "busy",
        }
    }
}

/// The fields that every request changes, in their own cache lines: threads looking for a peer read
/// everything else of all peers.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Traffic {
    /// Active requests.
    conns: AtomicU32,
    /// Idle connections, over all threads.
    idle: AtomicUsize,
}

impl Peer {
    /// A peer of a `server` line; `weight` is that of the line or of an SRV record.
    pub(super) fn new(
        group: GroupFacts<'_>,
        server: &ServerSettings,
        resolved: &ResolvedAddress,
        weight: u32,
    ) -> Peer {
        let counts: Placed<PeerCounts> = match server.lookup.is_some() || server.added {
            // Peers that names or changes bring come and go; there would be no end to them.
            true => Placed::private(),
            false => {
                let GroupFacts { name, .. } = group;
                Placed::named(&format!("peer {} of {name}", resolved.address))
            }
        };
        let known = Verdict::of_number(counts.verdict.get());
        Peer {
            id: PeerId::next(),
            name: resolved.address.to_string().into(),
            address: resolved.address.clone(),
            server: resolved.server_name(server).into(),
            weight: weight.max(1),
            max_conns: server.max_conns,
            max_fails: server.max_fails,
            fail_timeout_ms: whole_ms(server.fail_timeout),
            down: server.down || server.drain,
            drain: server.drain,
            server_id: server_id(server, &resolved.address),
            fails: AtomicU32::new(0),
            failed_ms: AtomicU64::new(0),
            checked_ms: AtomicU64::new(0),
            effective_weight: AtomicI64::new(weight.max(1).into()),
            gone: AtomicBool::new(false),
            health: Health::new(group.checks, known),
            checks: Arc::clone(group.checks),
            slow_start_ms: whole_ms(server.slow_start),
            recovered_ms: AtomicU64::new(0),
            times: Times::default(),
            traffic: Traffic::default(),
            counts: Arc::new(counts),
        }
    }

    /// Takes over the health state of an earlier peer at the same address.
    pub(super) fn known_as(mut self, before: &Peer) -> Peer {
        self.counts = Arc::clone(&before.counts);
        let copy = |to: &AtomicU64, from: &AtomicU64| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let fails = before.fails.load(Ordering::Relaxed);
        self.fails.store(fails, Ordering::Relaxed);
        copy(&self.failed_ms, &before.failed_ms);
        copy(&self.checked_ms, &before.checked_ms);
        if self.weight == before.weight {
            let weight = before.effective_weight.load(Ordering::Relaxed);
            self.effective_weight.store(weight, Ordering::Relaxed);
        }
        self.health
            .take_over(&self.checks, &before.health, &before.checks);
        copy(&self.recovered_ms, &before.recovered_ms);
        self.times.take_over(&before.times);
        self
    }

    /// What is counted of it.
    pub fn counts(&self) -> &PeerCounts {
        &self.counts
    }

    /// `weight`.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Whether it is marked `down`: nobody asks for it.
    pub fn is_down(&self) -> bool {
        self.down && !self.drain
    }

    /// `max_conns`; 0 is no limit.
    pub fn max_conns(&self) -> u32 {
        self.max_conns
    }

    /// `max_fails`; 0 is no limit.
    pub fn max_fails(&self) -> u32 {
        self.max_fails
    }

    /// `fail_timeout` in milliseconds.
    pub fn fail_timeout_ms(&self) -> u64 {
        self.fail_timeout_ms
    }

    /// What it is picked for.
    pub(super) fn state(&self, now_ms: u64) -> PeerState {
        match self.down {
            true if self.drain => PeerState::Draining,
            true => PeerState::Down,
            false if self.health.is_failing() => PeerState::Unhealthy,
            false if !self.health.is_good() => PeerState::Checking,
            false if self.is_left_out(now_ms) => PeerState::Unavailable,
            false if self.is_full() => PeerState::Busy,
            false => PeerState::Up,
        }
    }

    /// Where it is.
    pub fn address(&self) -> &PeerAddress {
        &self.address
    }

    /// The address as text, as in `$upstream_addr`.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The `server` line it comes from, as written, or the target of an SRV record.
    pub fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// Its server id, by which clients belong to it: `route=`, or the MD5 of the address in
    /// hexadecimal digits.
    pub fn server_id(&self) -> &[u8] {
        &self.server_id
    }

    /// Active requests, over all worker threads.
    pub fn conns(&self) -> u32 {
        self.traffic.conns.load(Ordering::Relaxed)
    }

    /// Idle connections to it, over all worker threads.
    pub fn idle(&self) -> usize {
        self.traffic.idle.load(Ordering::Relaxed)
    }

    /// Whether it is this peer, whichever set of the group it was found in.
    pub fn is_same(&self, other: &Peer) -> bool {
        self.id == other.id
    }

    /// Whether its name no longer resolves to it: it is not picked, and connections to it are not
    /// kept.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether building it again would give the same peer.
    pub(super) fn is_made_of(
        &self,
        server: &ServerSettings,
        resolved: &ResolvedAddress,
        weight: u32,
    ) -> bool {
        self.is_at(server, resolved) && self.weight == weight.max(1)
    }

    /// Whether it is the same server, whatever its weight.
    pub(super) fn is_at(&self, server: &ServerSettings, resolved: &ResolvedAddress) -> bool {
        self.address == resolved.address && *self.server == *resolved.server_name(server)
    }

    /// Whether the settings of its `server` line, and the checks of its group, are these.
    pub(super) fn is_set_as(&self, group: GroupFacts<'_>, server: &ServerSettings) -> bool {
        self.max_conns == server.max_conns
            && self.max_fails == server.max_fails
            && self.fail_timeout_ms == whole_ms(server.fail_timeout)
            && self.slow_start_ms == whole_ms(server.slow_start)
            && self.checks == *group.checks
            && self.down == (server.down || server.drain)
            && self.drain == server.drain
            && *self.server_id == *server_id(server, &self.address)
    }

    /// Whether `max_conns` has been reached.
    pub(super) fn is_full(&self) -> bool {
        self.max_conns != 0 && self.conns() >= self.max_conns
    }

    /// Counts a request, unless `max_conns` has been reached.
    #[must_use]
    pub(super) fn enter(&self) -> bool {
        if self.max_conns == 0 {
            self.traffic.conns.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let one_more = |conns| (conns < self.max_conns).then_some(conns + 1);
        let conns = &self.traffic.conns;
        conns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// Counts a request, whether or not `max_conns` has been reached.
    pub(super) fn enter_anyway(&self) {
        self.traffic.conns.fetch_add(1, Ordering::Relaxed);
    }

    /// The order decides who sees what in the queue: whether somebody waits is read after this.
    pub(super) fn leave(&self) {
        self.traffic.conns.fetch_sub(1, Ordering::SeqCst);
    }

    /// A connection has become idle.
    pub(super) fn add_idle(&self) {
        self.traffic.idle.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is no longer idle.
    pub(super) fn remove_idle(&self) {
        self.traffic.idle.fetch_sub(1, Ordering::Relaxed);
    }
}
