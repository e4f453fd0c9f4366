//! The `http` and `server` contexts, and what `stream` shares with them.

use super::{
    AcmeCertificate, AcmeDns, CachePath, Charsets, ContentHandler, GeoIp2, HandshakeLimits, Http2,
    Http3, KeyProcessSetting, LimitZone, List, LocationConf, Locations, MailServer, Pass,
    ProxyHttpVersion, QuicSettings, ReqStatusZone, ResponseMatch, Script, ServerKind, StreamServer,
    Template, Tls, TraceExporter, TrafficZone, Upstream, UserVariable, VerifyClient, locations_of,
};
use crate::regex::Regex;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The `http` and `stream` blocks: servers, addresses, groups, zones and variables of both, in the
/// order of the configuration.
#[derive(Debug, Clone)]
pub struct Http {
    /// Servers in the order of the configuration.
    pub servers: Vec<Arc<Server>>,
    /// Every distinct address listened on, in the order first met.
    pub listeners: Vec<Listener>,
    /// Variables that the configuration defines; [`super::Variable::User`] is an index
    /// into it.
    pub variables: Vec<UserVariable>,
    /// Zones of `limit_req` and `limit_conn`.
    pub limit_zones: Vec<LimitZone>,
    /// Zones of `req_status`.
    pub req_status_zones: Vec<ReqStatusZone>,
    /// `vhost_traffic_status_zone`.
    pub traffic: Option<Arc<TrafficZone>>,
    /// Directories of cached responses: `proxy_cache_path` and its relatives.
    pub cache_paths: Vec<Arc<CachePath>>,
    /// Character sets that are named, and the tables between them.
    pub charsets: Arc<Charsets>,
    /// `geoip2`.
    pub geoip2: Arc<GeoIp2>,
    /// `otel_exporter`.
    pub trace_exporter: Option<Arc<TraceExporter>>,
    /// `ssl_async_threads` and `ssl_handshake_queue`.
    pub handshakes: HandshakeLimits,
    /// `ssl_certificate_reload`: how often certificates and keys are looked at for changes;
    /// default 10 s. `None` if never.
    pub certificate_reload: Option<Duration>,
    /// `ssl_key_process`.
    pub key_process: KeyProcessSetting,
    /// `match` blocks; [`super::HealthCheck::expect`] is an index into it.
    pub response_matches: Vec<Arc<ResponseMatch>>,
    /// Every group of servers that requests can be passed to;
    /// [`super::GroupRef`] is an index into it.
    pub upstreams: Vec<Arc<Upstream>>,
    /// `http2_recv_buffer_size`: the buffer a worker reads HTTP/2 frames into;
    /// default 256k.
    pub http2_recv_buffer_bytes: u64,
    /// `quic_node_id`: what every connection id of this machine contains, for load balancers.
    pub quic_node_id: Option<u16>,
    /// `quic_max_handshakes`: handshakes of QUIC at a time, for each worker thread and address;
    /// `None` for half of `worker_connections`.
    pub quic_max_handshakes: Option<u32>,
    /// `compression_memory`: how much all compressors of the worker process may use at a time;
    /// default 512m.
    pub compression_memory_bytes: u64,
    /// `dyups_shm_zone_size`: how long all texts may be that groups were made of at run time;
    /// default 2m.
    pub dyups_bytes: u64,
}

impl Http {
    /// Whether a location lets requests change groups of servers.
    pub fn changes_upstreams(&self) -> bool {
        self.locations().any(|conf| {
            matches!(conf.content_handler, Some(ContentHandler::Status(view)) if view.changes_servers())
        })
    }

    /// The addresses of `dns_listen`, in the order first met.
    pub fn name_listeners(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for server in &self.servers {
            let dns = server.acme_certificate.as_ref();
            if let Some(AcmeDns::Listen(listen)) = dns.and_then(|it| it.issuer.dns.as_ref()) {
                for address in &listen.addresses {
                    if !addresses.contains(address) {
                        addresses.push(*address);
                    }
                }
            }
        }
        addresses
    }

    /// The listener that a connection belongs to: the one bound exactly to
    /// its local address, or the one whose socket accepted it.
    pub fn listener_for(&self, accepted_by: usize, local: SocketAddr) -> usize {
        let exact = self
            .listeners
            .iter()
            .position(|listener| !listener.bind && listener.address == ListenAddress::Inet(local));
        exact.unwrap_or(accepted_by)
    }
}

impl ListenAddress {
    /// Address and port; `None` for a Unix socket.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Inet(address) | ListenAddress::Udp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether it is for datagrams.
    pub fn is_udp(&self) -> bool {
        matches!(self, ListenAddress::Udp(_))
    }
}

impl std::fmt::Display for ListenAddress {
    /// As nginx writes it: `0.0.0.0:80`, `[::]:80`, `unix:/path`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListenAddress::Inet(address) | ListenAddress::Udp(address) => write!(f, "{address}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One address and the servers reachable through it.
#[derive(Debug, Clone)]
pub struct Listener {
    /// The block that listens: an address belongs to one.
    pub kind: ServerKind,
    /// What to bind.
    pub address: ListenAddress,
    /// False when it needs no socket of its own: the wildcard listener of the
    /// same port (`*:443` for `192.0.2.1:443`) accepts for it, and the local
    /// address of the connection leads here ([`Http::listener_for`]).
    pub bind: bool,
    /// Where it was first written, for messages.
    pub origin: Origin,
    /// Options of the `listen` line that set socket options (nginx allows them once per address).
    pub options: ListenOptions,
    /// Index into [`Http::servers`] of the default server.
    pub default_server: usize,
    /// Indexes of all servers on this address, in order, the default one included.
    pub servers: Vec<usize>,
    /// It is that of `control_socket`: only the socket's owner may connect, and the server starts
    /// without it if it must.
    pub is_control: bool,
}

/// Address of a `listen` line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// IPv4 or IPv6.
    Inet(SocketAddr),
    /// The same with `udp` or `quic`: for datagrams, so that it is another one than that for
    /// connections.
    Udp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// Options of a `listen` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOptions {
    /// `ssl`.
    pub ssl: bool,
    /// `http2`: HTTP/2 for every server of the address, whatever its
    /// [`Http2::enabled`].
    pub http2: bool,
    /// `quic`: QUIC, by which `http` has all of its datagrams.
    pub quic: bool,
    /// `proxy_protocol`: a PROXY protocol header comes first on every connection.
    pub proxy_protocol: bool,
    /// `backlog=`; default 511.
    pub backlog: i32,
    /// `rcvbuf=` bytes.
    pub rcvbuf_bytes: Option<u32>,
    /// `sndbuf=` bytes.
    pub sndbuf_bytes: Option<u32>,
    /// `deferred`: TCP_DEFER_ACCEPT.
    pub deferred: bool,
    /// `reuseport`: one socket per worker thread.
    pub reuseport: bool,
    /// `ipv6only=`; default on.
    pub ipv6only: bool,
    /// `so_keepalive=`.
    pub so_keepalive: Option<TcpKeepalive>,
    /// `fastopen=` queue length.
    pub fastopen: Option<u32>,
    /// `multipath`: Multipath TCP.
    pub multipath: bool,
}

/// `so_keepalive=on|off|[idle]:[interval]:[count]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Whether SO_KEEPALIVE is on.
    pub on: bool,
    /// TCP_KEEPIDLE.
    pub idle: Option<Duration>,
    /// TCP_KEEPINTVL.
    pub interval: Option<Duration>,
    /// TCP_KEEPCNT.
    pub count: Option<u32>,
}

/// A `server` block.
#[derive(Debug, Clone)]
pub struct Server {
    /// `server_name`s, in order; at least one (maybe empty).
    pub names: Vec<ServerName>,
    /// The first name as written, for `$server_name` and redirects.
    pub primary_name: String,
    /// TLS settings; present when the server has certificates or
    /// `ssl_reject_handshake on`, whichever of its `listen` lines have `ssl`.
    /// The default server of every address with `ssl` has them.
    pub tls: Option<Arc<Tls>>,
    /// `ssl_verify_client`, which also applies where the server has no certificate of its own
    /// and its name is served with that of the default server.
    pub verify_client: VerifyClient,
    /// What the rewrite module does before a location is looked for.
    pub script: Option<Arc<Script>>,
    /// Locations of the server.
    pub locations: Locations,
    /// Settings for requests that match no location, and before one is chosen.
    pub conf: Arc<LocationConf>,
    /// `client_header_timeout`; default 60 s.
    pub client_header_timeout: Duration,
    /// `client_header_buffer_size`; default 1k.
    pub client_header_buffer_bytes: u64,
    /// `large_client_header_buffers` number; default 4.
    pub large_header_buffers: u32,
    /// `large_client_header_buffers` size; default 8k.
    pub large_header_buffer_bytes: u64,
    /// `max_headers`: header lines allowed in one request.
    pub max_headers: u32,
    /// `ignore_invalid_headers`; default on.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`; default off.
    pub underscores_in_headers: bool,
    /// `merge_slashes`; default on.
    pub merge_slashes: bool,
    /// `client_body_early_read`: the body is read first if one of these is neither empty nor `0`.
    pub client_body_early_read: List<Template>,
    /// `http2` and its limits.
    pub http2: Http2,
    /// `http3` and its limits.
    pub http3: Http3,
    /// `quic_*`: those of the default server of an address count.
    pub quic: QuicSettings,
    /// `acme_certificate`.
    pub acme_certificate: Option<Arc<AcmeCertificate>>,
    /// What it does in `stream`; `None` for other servers.
    pub stream: Option<Arc<StreamServer>>,
    /// What it does in `mail`; `None` for other servers.
    pub mail: Option<Arc<MailServer>>,
    /// File and line of the `server` block, for messages.
    pub origin: Origin,
}

impl Server {
    /// The block that it is in.
    pub fn kind(&self) -> ServerKind {
        match (&self.stream, &self.mail) {
            (Some(_), _) => ServerKind::Stream,
            (_, Some(_)) => ServerKind::Mail,
            (None, None) => ServerKind::Http,
        }
    }

    /// Whether a location of the server opens tunnels for CONNECT, or the server itself does.
    pub fn accepts_connect(&self) -> bool {
        self.passes().any(|pass| matches!(pass, Pass::Tunnel(_)))
    }

    /// Whether a location passes the `Upgrade` of a WebSocket handshake on.
    pub fn passes_upgrades(&self) -> bool {
        self.passes().any(|pass| match pass {
            Pass::Proxy(proxy) => {
                let mut fields = proxy.set_headers.fields.iter();
                proxy.http_version == ProxyHttpVersion::Http11
                    && fields.any(|field| field.name.eq_ignore_ascii_case(b"Upgrade"))
            }
            _ => false,
        })
    }

    fn passes(&self) -> impl Iterator<Item = &Pass> {
        let locations = locations_of([self]).into_iter();
        let all = locations.chain([&self.conf]);
        all.filter_map(|conf| conf.pass.as_ref())
    }
}

/// A place in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// File as opened.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u32,
}

/// One name of `server_name`. Text is in lower case.
#[derive(Debug, Clone)]
pub enum ServerName {
    /// `example.org`, or the empty name.
    Exact(String),
    /// `*.example.org`: the suffix with its leading dot, `.example.org`.
    WildcardPrefix(String),
    /// `.example.org`: the name itself and everything below; text with its leading dot.
    Dot(String),
    /// `www.example.*`: the prefix with its trailing dot, `www.example.`.
    WildcardSuffix(String),
    /// `~expression`.
    Regex(Regex),
}
