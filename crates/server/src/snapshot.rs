//! The complete configured state, immutable, in the form that the data plane uses.
//!
//! A snapshot is built once, in the master, so that every mistake in a file that it names is
//! found before anything changes; workers only read it. Servers, locations and listeners are
//! found by index: an exchange carries small numbers instead of reference counts that threads
//! would contend for.

use crate::access_log::LogSample;
use crate::acme::{AcmeState, AcmeTask};
use crate::client_status::StatusDesk;
use crate::evaluated_certificates::EvaluatedCertificates;
use crate::facts::ConnectionFacts;
use crate::geoip2::Databases;
use crate::limits::LimitZoneRuntime;
use crate::mail::MailRuntime;
use crate::materials::Materials;
use crate::names::ServerNames;
use crate::proxying::{
    self, CacheDirectories, CacheZone, GroupRuntime, Groups, HealthTask, KnownVerdict, PassRuntime,
};
use crate::quic::QuicRuntime;
use crate::req_status::ReqStatusZoneRuntime;
use crate::rewrite::Rotation;
use crate::router::LocationTree;
use crate::status::{StatusZone, Zones};
use crate::sysguard::{Guard, LoadWatch};
use crate::tls_build::{HandshakeThreads, SharedRing, StapleTask};
use crate::traces::{SpanQueue, TraceTarget};
use crate::traffic::TrafficZoneRuntime;
use sealane_conf::Config;
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{
    CachePath, Charsets, ListenAddress, ListenOptions, Location, LocationConf, LogFormat,
    PeerNetwork, Server, ServerKind, Template, UserVariable,
};
use sealane_http::Method;
use sealane_log::{AccessLogger, LogSet, Logger};
use sealane_tls::{
    Acceptor, CertificateReport, HandshakeState, KtlsMode, ServerTls, SessionState, SessionStats,
};
use sealane_upstream::resolve::Resolve;
use sealane_upstream::{LookupName, ResolvedAddress};
use std::net::SocketAddr;
use std::sync::Arc;

/// Index of a server in its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId(pub u32);

/// Index of a location in its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);

/// Index of a listener in its snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// All configured state.
pub struct Snapshot {
    pub(crate) servers: Vec<ServerRuntime>,
    pub(crate) locations: Vec<LocationRuntime>,
    pub(crate) listeners: Vec<ListenerRuntime>,
    pub(crate) shared_rings: Vec<SharedRing>,
    pub(crate) staples: Vec<StapleTask>,
    /// Where issuers of clients' certificates are asked.
    pub(crate) statuses: Arc<StatusDesk>,
    pub(crate) acme_tasks: Vec<AcmeTask>,
    /// What `acme_certificate` has brought, which outlives the snapshot.
    pub(crate) acme: Arc<AcmeState>,
    /// Where finished spans wait, which outlives the snapshot.
    pub(crate) spans: Arc<SpanQueue>,
    /// What the keys of address tokens and stateless resets are made from (`quic_host_key`); that
    /// of the process without one.
    pub(crate) quic_host_secret: Option<crate::quic::HostSecret>,
    /// `quic_node_id`.
    pub(crate) quic_node_id: Option<u16>,
    /// Where they are exported to.
    pub(crate) trace_target: Option<Arc<TraceTarget>>,
    /// Groups of servers, in the order of the configuration.
    pub(crate) groups: Groups,
    /// Health checks of the groups.
    pub(crate) health_tasks: Vec<HealthTask>,
    /// Zones of `limit_req` and `limit_conn`, in the order of the configuration.
    pub(crate) limit_zones: Vec<LimitZoneRuntime>,
    /// Zones of `req_status`, in the order of the configuration.
    pub(crate) req_status_zones: Vec<ReqStatusZoneRuntime>,
    /// `vhost_traffic_status_zone`.
    pub(crate) traffic: Option<TrafficZoneRuntime>,
    /// What `sysguard` wants to know of the machine.
    pub(crate) load_watch: LoadWatch,
    /// Zones in which requests are counted, which outlive the snapshot.
    pub(crate) zones: Zones,
    /// Names under which queries to name servers are counted.
    pub(crate) resolvers: Vec<Arc<str>>,
    /// Names under which requests to session stores are counted.
    pub(crate) session_stores: Vec<Arc<str>>,
    /// What becomes of TLS sessions, counted for all servers.
    pub(crate) sessions: Arc<SessionState>,
    /// Zones of cached responses, which outlive the snapshot.
    pub(crate) cache_zones: Vec<Arc<CacheZone>>,
    /// Variables that the configuration defines.
    pub variables: Vec<UserVariable>,
    /// `geoip2`: databases of addresses.
    pub(crate) geoip2: Arc<Databases>,
    /// The configured character sets, and the tables between them.
    pub charsets: Arc<Charsets>,
    /// Base of relative paths that are only known at run time; without a slash at the end.
    pub prefix: Vec<u8>,
    /// `worker_connections`.
    pub worker_connections: u32,
    /// `quic_max_handshakes`.
    pub(crate) quic_max_handshakes: u32,
    /// `compression_memory`.
    pub compression_memory_bytes: u64,
    /// `dyups_shm_zone_size`.
    pub(crate) dyups_bytes: u64,
    /// Whether requests can change groups of servers.
    pub changes_groups: bool,
    /// `multi_accept`.
    pub multi_accept: bool,
    /// `debug_connection`.
    pub(crate) debug_connections: Arc<[PeerNetwork]>,
    /// `ssl_handshake_queue`, per worker thread.
    pub handshake_queue: u32,
    /// `ssl_async_threads`, and whether any server uses them.
    pub(crate) handshake_threads: HandshakeThreads,
    /// Pool and counters of handshakes, which outlive the snapshot.
    pub handshakes: Arc<HandshakeState>,
    /// `worker_shutdown_timeout`.
    pub worker_shutdown_timeout: Option<std::time::Duration>,
    /// Whether any log format or header uses an `$ssl_*` variable, so that the results of
    /// handshakes have to be collected.
    pub uses_tls_facts: bool,
    /// Whether any server has `ssl_verify_client`, so that certificates of clients have to be kept.
    pub asks_clients: bool,
    /// The main error log.
    pub main_log: Logger,
}

/// A server block at run time.
pub struct ServerRuntime {
    /// Its configuration.
    pub conf: Arc<Server>,
    /// Where its requests are counted (`status_zone`).
    pub(crate) zone: Option<Arc<StatusZone>>,
    /// Settings before a location is chosen.
    pub default_location: LocationId,
    /// CONNECT is not refused at once: the server or a location of it opens tunnels.
    pub(crate) accepts_connect: bool,
    /// Its locations.
    pub tree: LocationTree,
    /// The TLS settings, if one of its `listen` lines has `ssl`.
    pub tls: Option<Arc<ServerTls>>,
    /// Finds responders that certificates of clients name, if `ssl_ocsp` is on, and names of
    /// clients of mail.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
    /// What it does in `mail`.
    pub(crate) mail: Option<Arc<MailRuntime>>,
    /// All that `tls` is made of.
    pub(crate) tls_inputs: [u8; 32],
    /// Its certificates, if handshakes ask for them.
    pub(crate) certificates: Option<EvaluatedCertificates>,
    /// How its HTTP/2 connections behave.
    pub(crate) http2: Arc<sealane_http::h2::Settings>,
    /// How its connections of QUIC and HTTP/3 behave.
    pub(crate) quic: QuicRuntime,
    /// Limits for parsing request heads.
    pub head_limits: sealane_http::h1::Limits,
}

/// A location at run time.
pub struct LocationRuntime {
    /// Its settings, inheritance applied.
    pub conf: Arc<LocationConf>,
    /// The block it was made from; `None` for a server's own settings.
    pub location: Option<Arc<Location>>,
    /// Where its requests are counted (`status_zone`).
    pub(crate) zone: Option<Arc<StatusZone>>,
    /// Where its errors go.
    pub logger: Logger,
    /// Its access logs.
    pub access_logs: Vec<AccessLogRuntime>,
    /// `set_rotate`.
    pub(crate) rotation: Rotation,
    /// Locations with the settings of its `if`s, in their order.
    pub(crate) blocks: Box<[LocationId]>,
    /// Settings for methods that `limit_except` does not list.
    pub(crate) limited: Option<LimitExcept>,
    /// `sysguard`, if it is on.
    pub(crate) guard: Option<Guard>,
    /// Where it hands requests on to.
    pub(crate) pass: Option<PassRuntime>,
}

/// `limit_except` at run time.
pub(crate) struct LimitExcept {
    /// The methods that it is not about.
    pub(crate) methods: Vec<Method>,
    /// The location with its settings.
    pub(crate) location: LocationId,
}

impl LimitExcept {
    /// Whether it is not about this method.
    pub(crate) fn spares(&self, method: Method) -> bool {
        self.methods.contains(&method)
    }
}

/// An access log at run time.
pub struct AccessLogRuntime {
    /// Where lines go.
    pub logger: AccessLogger,
    /// The format of a line.
    pub format: Arc<LogFormat>,
    /// Its path, if that has variables.
    pub path: Option<Template>,
    /// `if=`.
    pub condition: Option<Template>,
    /// `ratio=`.
    pub(crate) sample: Option<LogSample>,
}

/// A listening address at run time.
pub struct ListenerRuntime {
    /// What is spoken: HTTP, or whatever sessions of layer 4 say.
    pub kind: ServerKind,
    /// The address.
    pub address: ListenAddress,
    /// Whether it has its own socket; otherwise the wildcard listener of the same port accepts for
    /// it.
    pub bind: bool,
    /// Listeners that this one's socket accepts for; the connection's local address selects one.
    pub alternatives: Vec<ListenerId>,
    /// Options of its `listen` line.
    pub options: ListenOptions,
    /// Servers by name.
    pub names: ServerNames,
    /// TLS, when the listener has `ssl`.
    pub acceptor: Option<Acceptor>,
    /// Handshakes of some server ask for its certificates.
    pub(crate) evaluates_certificates: bool,
}

impl ListenerRuntime {
    /// Whether connections begin in the same way, so that what was negotiated with a client of one
    /// is valid for the other.
    pub(crate) fn begins_like(&self, other: &ListenerRuntime) -> bool {
        self.kind == other.kind
            && self.options.ssl == other.options.ssl
            && self.options.proxy_protocol == other.options.proxy_protocol
    }
}

impl Snapshot {
    /// The server with this index.
    pub fn server(&self, id: ServerId) -> &ServerRuntime {
        &self.servers[id.0 as usize]
    }

    /// What the keys of `quic_host_key` are made from.
    pub fn quic_host_secret(&self) -> Option<&[u8; 32]> {
        self.quic_host_secret.as_ref().map(|secret| &secret.bytes)
    }

    /// What becomes of TLS sessions.
    pub(crate) fn session_stats(&self) -> &SessionStats {
        self.sessions.stats()
    }

    /// Certificates that are the same for all clients, each with the zone of its server or, if that
    /// has none, its name.
    pub fn certificates(&self) -> impl Iterator<Item = (&str, CertificateReport<'_>)> {
        self.servers.iter().flat_map(|server| {
            let name = match &server.zone {
                Some(zone) => zone.name(),
                None => server.conf.primary_name.as_str(),
            };
            let certificates = server.tls.iter().flat_map(|tls| tls.certificates());
            certificates.map(move |report| (name, report))
        })
    }

    /// What `sysguard` wants to know of the machine.
    pub fn load_watch(&self) -> &LoadWatch {
        &self.load_watch
    }

    /// The directories of cached responses.
    pub fn cache_directories(&self) -> CacheDirectories {
        CacheDirectories::of(&self.cache_zones)
    }

    /// The zone of a `*_cache_path`.
    pub(crate) fn cache_zone(&self, path: &CachePath) -> Option<&Arc<CacheZone>> {
        let mut zones = self.cache_zones.iter();
        zones.find(|zone| *zone.name() == *path.zone)
    }

    /// The location with this index.
    pub fn location(&self, id: LocationId) -> &LocationRuntime {
        &self.locations[id.0 as usize]
    }

    /// The listener with this index.
    pub fn listener(&self, id: ListenerId) -> &ListenerRuntime {
        &self.listeners[id.0 as usize]
    }

    /// The health checks of all groups, also of those that no configuration has.
    pub(crate) fn checks(&self) -> Vec<HealthTask> {
        let configured = self.health_tasks.iter().cloned();
        configured
            .chain(self.groups.live().health_tasks())
            .collect()
    }

    /// The number of the newest list of servers of the group with this number, which changes with
    /// it.
    pub fn servers_generation(&self, group: usize) -> u64 {
        let group = self.groups.get(group);
        group.map_or(0, |group| group.group.generation())
    }

    /// The servers of the group with this number whose names are looked up, each with its number.
    pub fn lookups(&self, group: usize) -> Vec<(u64, LookupName)> {
        let Some(group) = self.groups.get(group) else {
            return Vec::new();
        };
        let servers = group.group.servers();
        let entries = servers.entries().iter();
        entries
            .filter_map(|entry| Some((entry.number, entry.settings.lookup.clone()?)))
            .collect()
    }

    /// Sets the addresses of a server whose name is looked up, in the group with this number.
    /// Returns whether anything has changed.
    pub fn set_addresses(
        &self,
        group: usize,
        server: u64,
        addresses: Vec<ResolvedAddress>,
    ) -> bool {
        let group = self.groups.get(group);
        group.is_some_and(|group| group.group.set_addresses(server, addresses))
    }

    /// The group for a host and a port in a pass directive with variables.
    pub(crate) fn group_named(
        &self,
        kind: ServerKind,
        host: &str,
        port: u16,
        is_written: bool,
    ) -> Option<Arc<GroupRuntime>> {
        self.groups.named(kind, host, port, is_written)
    }

    pub(crate) fn servers(&self) -> &[ServerRuntime] {
        &self.servers
    }

    /// All listeners, in the order of the configuration.
    pub fn listeners(&self) -> &[ListenerRuntime] {
        &self.listeners
    }

    /// Ticket keys that are shared with other nodes.
    pub fn shared_rings(&self) -> &[SharedRing] {
        &self.shared_rings
    }

    /// Whether issuers may be asked about certificates of clients (`ssl_ocsp`).
    pub fn asks_about_clients(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| asks_about_clients(&server.conf))
    }

    /// Certificates whose staples are to be fetched (`ssl_stapling`).
    pub fn staples(&self) -> &[StapleTask] {
        &self.staples
    }

    /// Certificates that are to be ordered and renewed (`acme_certificate`).
    pub fn acme_tasks(&self) -> &[AcmeTask] {
        &self.acme_tasks
    }

    /// Where what was ordered is served from.
    pub fn acme(&self) -> &Arc<AcmeState> {
        &self.acme
    }

    /// Takes over what the health checks of another process have found out.
    pub fn take_over_verdict(&self, known: &KnownVerdict) {
        proxying::take_over_verdict(&self.checks(), known);
    }

    /// Databases of addresses.
    pub(crate) fn geoip2(&self) -> &Databases {
        &self.geoip2
    }

    /// Where finished spans wait to be exported.
    pub fn spans(&self) -> &Arc<SpanQueue> {
        &self.spans
    }

    /// Where they are exported to (`otel_exporter`).
    pub fn trace_target(&self) -> Option<&Arc<TraceTarget>> {
        self.trace_target.as_ref()
    }

    /// Whether a listener has its own socket bound to this address.
    pub(crate) fn has_socket(&self, address: &ListenAddress) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|known| known.bind && known.address == *address)
    }

    /// The listener whose socket accepts connections to an address: its own, or the
    /// wildcard's of the same port.
    pub(crate) fn listener_accepting(&self, address: &ListenAddress) -> Option<ListenerId> {
        let listeners = || self.listeners.iter().zip(0..);
        let own = listeners().find(|(known, _)| known.bind && known.address == *address);
        let found = own.or_else(|| {
            let accepts =
                |known: &ListenerRuntime| known.bind && accepts_for(&known.address, address);
            listeners().find(|(known, _)| accepts(known))
        });
        found.map(|(_, id)| ListenerId(id))
    }

    /// The listener of a connection that this one has accepted.
    pub(crate) fn listener_of_connection(
        &self,
        accepted_by: ListenerId,
        facts: &ConnectionFacts,
    ) -> ListenerId {
        match self.listener(accepted_by).alternatives.is_empty() {
            true => accepted_by,
            false => self.listener_for(accepted_by, facts.local()),
        }
    }

    /// The listener of a connection: the one that accepted it, or one of those it accepts for.
    fn listener_for(&self, accepted_by: ListenerId, local: Option<SocketAddr>) -> ListenerId {
        let address = match self.listener(accepted_by).address.is_udp() {
            true => ListenAddress::Udp,
            false => ListenAddress::Inet,
        };
        let Some(local) = local.map(address) else {
            return accepted_by;
        };
        let mut alternatives = self.listener(accepted_by).alternatives.iter();
        *alternatives
            .find(|id| self.listener(**id).address == local)
            .unwrap_or(&accepted_by)
    }

    /// Whether the kernel may seal records (`ssl_ktls` of some server, `proxy_ssl_ktls`).
    pub fn wants_kernel_tls(&self) -> bool {
        let servers = self.servers.iter();
        let servers = servers.filter_map(|server| Some(server.tls.as_ref()?.ktls_mode()));
        let passes = self
            .locations
            .iter()
            .filter_map(|location| location.pass.as_ref());
        let upstreams = passes.filter_map(PassRuntime::ktls_mode);
        servers.chain(upstreams).any(|mode| mode != KtlsMode::Off)
    }

    /// Builds everything from a configuration and the bytes of the files it names. The second part
    /// of the result are warnings for the operator.
    ///
    /// # Errors
    /// The first problem, in nginx's words: a certificate that does not parse, a
    /// key that does not match, a cipher string without a match.
    pub fn build(
        config: &Config,
        materials: &Materials,
        logs: &LogSet,
    ) -> Result<(Snapshot, Vec<Diagnostic>), Diagnostic> {
        crate::build::build(config, materials, logs)
    }
}

/// Whether a socket bound to `wildcard` accepts connections to `address`.
pub(crate) fn accepts_for(wildcard: &ListenAddress, address: &ListenAddress) -> bool {
    let is_udp = wildcard.is_udp();
    match (wildcard.inet(), address.inet()) {
        (Some(wildcard), Some(inet)) => {
            is_udp == address.is_udp()
                && wildcard.ip().is_unspecified()
                && wildcard.port() == inet.port()
                && wildcard.is_ipv4() == inet.is_ipv4()
        }
        _ => false,
    }
}

/// Whether `ssl_ocsp` is on for a server.
pub(crate) fn asks_about_clients(server: &Server) -> bool {
    let tls = server.tls.as_ref();
    tls.is_some_and(|tls| tls.client_certificates.ocsp.is_some())
}
