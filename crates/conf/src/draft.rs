//! The configuration as written, level by level: every setting is an option,
//! and nothing is inherited yet. [`crate::merge`] turns it into the model.

mod acme;
mod body_filters;
mod browsers;
mod caching;
mod compression;
mod concat;
mod echo;
mod geoip2;
mod health;
mod mail;
mod media_types;
mod passing;
mod processes;
mod quic;
mod req_status;
mod restricting;
mod stream;
mod sysguard;
mod text_filters;
mod tracing;
mod traffic;
mod tunnel;

pub(crate) use acme::*;
pub(crate) use body_filters::*;
pub(crate) use browsers::*;
pub(crate) use caching::*;
pub(crate) use compression::*;
pub(crate) use concat::*;
pub(crate) use echo::*;
pub(crate) use geoip2::*;
pub(crate) use health::*;
pub(crate) use mail::*;
pub(crate) use media_types::*;
pub(crate) use passing::*;
pub(crate) use processes::*;
pub(crate) use quic::*;
pub(crate) use req_status::*;
pub(crate) use restricting::*;
pub(crate) use stream::*;
pub(crate) use sysguard::*;
pub(crate) use text_filters::*;
pub(crate) use tracing::*;
pub(crate) use traffic::*;
pub(crate) use tunnel::*;

use crate::diagnostic::SourceLocation;
use crate::directives::ThreadPools;
use crate::groups::Groups;
use crate::model::{
    Accelerator, AccessLog, AcmeIssuer, AddHeader, AsyncMode, AutoindexFormat, BalanceMethod,
    BodyInFile, CertificateCache, Charsets, ContentHandler, CpuAffinity, DavMethods,
    DisableSymlinks, EnvVar, ErrorLog, ErrorPage, Expires, Family, FrameAllowance, GroupRef,
    HealthCheck, IfModifiedSince, KeepaliveDisable, KeyProcessSetting, KtlsMode, Landlock,
    LingeringClose, List, ListenAddress, ListenOptions, LogFileCache, LogFormat, Matcher, Op,
    Origin, PeerNetwork, PostAction, PurgeFormat, RealIpHeader, RequestChange, Resolver,
    ResponseChange, Seccomp, SendProxyProtocol, ServerKind, ServerName, ServerTokens, SessionStore,
    SetVariable, StandAlone, Sticky, TempPath, Template, TlsProtocols, TryFiles, Types,
    UpstreamQueue, UpstreamServer, UpstreamState, UpstreamZone, User, VerifyClient, WorkerCount,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The `main` context.
#[derive(Debug, Default)]
pub(crate) struct MainDraft {
    pub(crate) daemon: Option<bool>,
    pub(crate) master_process: Option<bool>,
    pub(crate) user: Option<User>,
    pub(crate) pid: Option<PathBuf>,
    pub(crate) worker_processes: Option<WorkerCount>,
    pub(crate) worker_rlimit_nofile: Option<u64>,
    pub(crate) worker_rlimit_core: Option<u64>,
    pub(crate) backtrace_log: Option<PathBuf>,
    /// `Some(None)`: `off`.
    pub(crate) worker_cpu_affinity: Option<Option<CpuAffinity>>,
    pub(crate) worker_priority: Option<i32>,
    pub(crate) worker_seccomp: Option<Seccomp>,
    pub(crate) worker_landlock: Option<Landlock>,
    /// `Some(None)`: `off`.
    pub(crate) worker_landlock_read: Option<Option<Vec<PathBuf>>>,
    pub(crate) log_queue_size: Option<u64>,
    pub(crate) metrics_memory: Option<u64>,
    /// `Some(None)`: `off`.
    pub(crate) control_socket: Option<Option<PathBuf>>,
    pub(crate) worker_shutdown_timeout: Option<Duration>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) error_logs: Vec<ErrorLog>,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) processes: Vec<StandAlone>,
}

/// The `events` block.
#[derive(Debug, Default)]
pub(crate) struct EventsDraft {
    pub(crate) worker_connections: Option<u64>,
    pub(crate) multi_accept: Option<bool>,
    pub(crate) accept_mutex: Option<bool>,
    pub(crate) debug_connections: Vec<PeerNetwork>,
}

/// What belongs to the `http` and `stream` blocks as a whole. Servers, addresses, groups and zones
/// of both are in one list each.
#[derive(Debug, Default)]
pub(crate) struct HttpDraft {
    pub(crate) servers: Vec<ServerBlock>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) address_index: HashMap<ListenAddress, usize>,
    /// Where `http3 on` is written first.
    pub(crate) http3_place: Option<SourceLocation>,
    /// Pairs of address and server so far; bounded.
    pub(crate) listen_pairs: usize,
    /// `log_format`s of the open block by name; in `http`, `combined` is first.
    pub(crate) log_formats: Vec<Arc<LogFormat>>,
    /// Buffer of each buffered access log, by path.
    pub(crate) log_buffers: HashMap<PathBuf, (u64, Option<Duration>, Option<u32>)>,
    /// Groups of servers that requests are handed to.
    pub(crate) groups: Groups,
    /// Finished `upstream` blocks.
    pub(crate) upstreams: Vec<UpstreamBlock>,
    /// The `upstream` block that is open.
    pub(crate) open_upstream: Option<UpstreamBlock>,
    pub(crate) http2_recv_buffer_bytes: Option<u64>,
    pub(crate) quic_node_id: Option<u16>,
    pub(crate) quic_max_handshakes: Option<u32>,
    pub(crate) trace_exporter: TraceExporterDraft,
    pub(crate) geoip2: GeoIp2Draft,
    pub(crate) compression_memory_bytes: Option<u64>,
    pub(crate) dyups_bytes: Option<u64>,
    /// Zones of `limit_req` and `limit_conn`; [`crate::model::Http::limit_zones`] keeps their
    /// order.
    pub(crate) limit_zones: Vec<LimitZoneDraft>,
    /// `match` blocks, in the order in which they are first named.
    pub(crate) response_matches: Vec<MatchDraft>,
    /// Zones of `req_status`; [`crate::model::Http::req_status_zones`] keeps their order.
    pub(crate) req_status_zones: Vec<ReqStatusZoneDraft>,
    /// `vhost_traffic_status_zone` and what is about it.
    pub(crate) traffic: TrafficZoneDraft,
    /// `zone`s of upstreams and their sizes.
    pub(crate) upstream_zones: HashMap<String, u64>,
    /// Zones of `sticky learn`, and the upstream that each belongs to.
    pub(crate) sticky_zones: HashMap<String, String>,
    /// `upstream_store`; `Some(None)`: `off`.
    pub(crate) upstream_store: Option<Option<Arc<SessionStore>>>,
    /// `thread_pool` and `aio`.
    pub(crate) thread_pools: ThreadPools,
    /// Zones of `*_cache` and `*_cache_path`, in the order in which they are first named.
    pub(crate) cache_zones: Vec<CacheZone>,
    /// Directories for cached responses and temporary files that lines name.
    pub(crate) paths: HashMap<PathBuf, NamedPath>,
    /// What each shared zone is for.
    pub(crate) zone_uses: HashMap<String, (ServerKind, ZoneUse)>,
    /// `shared:` zones and their sizes.
    pub(crate) zones: HashMap<String, u64>,
    /// `charset_map` blocks, and names of character sets so far.
    pub(crate) charsets: Charsets,
    /// Finished `acme_issuer` blocks.
    pub(crate) acme_issuers: Vec<Arc<AcmeIssuer>>,
    /// The `acme_issuer` block that is open.
    pub(crate) open_acme_issuer: Option<AcmeIssuerDraft>,
}

/// What a shared zone is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneUse {
    /// TLS sessions and OCSP responses.
    Tls,
    Limit(LimitUse),
    ReqStatus,
    Traffic,
    Upstream,
    Sticky,
    Cache(Family),
}

impl ZoneUse {
    /// Whether `http` and `stream` may share a zone.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, ZoneUse::Tls)
    }
}

/// An `upstream` block.
#[derive(Debug)]
pub(crate) struct UpstreamBlock {
    pub(crate) group: GroupRef,
    pub(crate) name: Box<str>,
    pub(crate) origin: Origin,
    pub(crate) servers: Vec<UpstreamServer>,
    /// A `server` line was refused.
    pub(crate) refused: bool,
    /// `None` until a method is written.
    pub(crate) method: Option<BalanceMethod>,
    /// Connections, and whether `local`.
    pub(crate) keepalive: Option<(u32, bool)>,
    /// Connections that requests share.
    pub(crate) multi: Option<u32>,
    pub(crate) keepalive_requests: Option<u64>,
    pub(crate) keepalive_time: Option<Duration>,
    pub(crate) keepalive_timeout: Option<Duration>,
    pub(crate) ntlm: bool,
    pub(crate) queue: Option<UpstreamQueue>,
    pub(crate) zone: Option<UpstreamZone>,
    pub(crate) state: Option<UpstreamState>,
    pub(crate) sticky: Option<Sticky>,
    pub(crate) check: CheckDraft,
    /// `upstream_store`; `Some(None)`: `off`.
    pub(crate) store: Option<Option<Arc<SessionStore>>>,
    pub(crate) resolver: Option<Arc<Resolver>>,
    pub(crate) resolver_timeout: Option<Duration>,
}

/// One address of `listen` lines.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) kind: ServerKind,
    pub(crate) address: ListenAddress,
    pub(crate) origin: Origin,
    pub(crate) options: ListenOptions,
    /// Options of the socket were given (nginx's `set`).
    pub(crate) options_given: bool,
    /// It needs its own socket.
    pub(crate) bind: bool,
    pub(crate) default_server: usize,
    /// `default_server` was written for it.
    pub(crate) default_given: bool,
    pub(crate) servers: Vec<usize>,
    /// `ssl`, `http2`, `proxy_protocol` of the last line that set them, when
    /// lines differ, and whether they have changed since the first.
    pub(crate) protocols: Option<u8>,
    pub(crate) protocols_changed: bool,
}

/// A finished `server` block.
#[derive(Debug)]
pub(crate) struct ServerBlock {
    pub(crate) kind: ServerKind,
    pub(crate) server: ServerDraft,
    pub(crate) location: LocationDraft,
    pub(crate) locations: Vec<LocationBlock>,
    pub(crate) script: ScriptDraft,
    pub(crate) origin: Origin,
}

/// A finished `location` block.
#[derive(Debug)]
pub(crate) struct LocationBlock {
    pub(crate) matcher: Matcher,
    /// As nginx names it.
    pub(crate) name: Box<str>,
    pub(crate) location: LocationDraft,
    pub(crate) children: Vec<LocationBlock>,
    pub(crate) script: ScriptDraft,
    pub(crate) limit_except: Option<LimitExceptBlock>,
    pub(crate) origin: Origin,
}

/// A finished `limit_except` block.
#[derive(Debug)]
pub(crate) struct LimitExceptBlock {
    /// Methods that it is not about.
    pub(crate) methods: Vec<&'static str>,
    pub(crate) location: LocationDraft,
}

/// What the rewrite module does on a level.
#[derive(Debug, Default)]
pub(crate) struct ScriptDraft {
    pub(crate) ops: Vec<Op>,
    /// Settings of each `if` in a location.
    pub(crate) blocks: Vec<LocationDraft>,
}

/// Settings of `http` and `server` level.
#[derive(Debug, Default, Clone)]
pub(crate) struct ServerDraft {
    pub(crate) names: Vec<ServerName>,
    /// The first name as `$server_name` shows it.
    pub(crate) primary_name: Option<String>,
    /// A `listen` line was met.
    pub(crate) listens: bool,
    /// `ssl`.
    pub(crate) ssl: Option<bool>,
    pub(crate) client_header_timeout: Option<Duration>,
    pub(crate) client_header_buffer_bytes: Option<u64>,
    pub(crate) large_header_buffers: Option<(u32, u64)>,
    pub(crate) connection_pool_bytes: Option<u64>,
    pub(crate) max_headers: Option<u64>,
    pub(crate) ignore_invalid_headers: Option<bool>,
    pub(crate) underscores_in_headers: Option<bool>,
    pub(crate) merge_slashes: Option<bool>,
    pub(crate) client_body_early_read: Option<List<Template>>,
    pub(crate) http2: Http2Draft,
    pub(crate) http3: Http3Draft,
    pub(crate) quic: QuicDraft,
    pub(crate) tls: TlsDraft,
    pub(crate) stream: StreamDraft,
    pub(crate) mail: MailDraft,
    pub(crate) acme_certificate: Option<AcmeCertificateDraft>,
}

/// `http2` and the `http2_*` settings of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct Http2Draft {
    pub(crate) enabled: Option<bool>,
    pub(crate) extended_connect: Option<bool>,
    pub(crate) max_concurrent_streams: Option<u64>,
    pub(crate) body_preread_size: Option<u64>,
    pub(crate) max_stream_window: Option<u64>,
    pub(crate) max_connection_window: Option<u64>,
    pub(crate) resets: Option<FrameAllowance>,
    pub(crate) settings: Option<FrameAllowance>,
    pub(crate) pings: Option<FrameAllowance>,
    pub(crate) empty_frames: Option<FrameAllowance>,
    pub(crate) priority_frames: Option<FrameAllowance>,
    pub(crate) window_updates: Option<FrameAllowance>,
    pub(crate) oversized_heads: Option<FrameAllowance>,
    pub(crate) continuations: Option<u64>,
    pub(crate) header_block_size: Option<u64>,
    pub(crate) unread_replies: Option<u64>,
}

/// The `ssl_*` settings of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct TlsDraft {
    pub(crate) certificates: Option<Vec<WrittenFile>>,
    pub(crate) certificate_keys: Option<Vec<WrittenFile>>,
    /// `Some(None)`: `off`.
    pub(crate) certificate_reload: Option<Option<Duration>>,
    pub(crate) key_process: Option<KeyProcessSetting>,
    /// `Some(None)`: `off`.
    pub(crate) certificate_cache: Option<Option<Arc<CertificateCache>>>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) protocols: Option<TlsProtocols>,
    pub(crate) ciphers: Option<String>,
    pub(crate) conf_commands: Option<Vec<(String, String)>>,
    pub(crate) prefer_server_ciphers: Option<bool>,
    pub(crate) ecdh_curve: Option<(String, Origin)>,
    pub(crate) dhparam: Option<PathBuf>,
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) dyn_rec_enable: Option<bool>,
    pub(crate) dyn_rec_timeout: Option<Duration>,
    pub(crate) dyn_rec_size_lo: Option<u64>,
    pub(crate) dyn_rec_size_hi: Option<u64>,
    pub(crate) dyn_rec_threshold: Option<u64>,
    pub(crate) ktls: Option<KtlsMode>,
    pub(crate) ktls_min_size: Option<u64>,
    pub(crate) ktls_key_records: Option<u64>,
    pub(crate) ktls_key_updates: Option<u64>,
    pub(crate) session_timeout: Option<Duration>,
    pub(crate) session_tickets: Option<bool>,
    pub(crate) session_ticket_keys: Option<Vec<PathBuf>>,
    pub(crate) session_builtin: Option<BuiltinCache>,
    pub(crate) session_shared: Option<(String, u64)>,
    pub(crate) session_ticket_rotation: Option<Duration>,
    pub(crate) session_ticket_state: Option<PathBuf>,
    /// `Some(None)`: `off`.
    pub(crate) session_store: Option<Option<Arc<SessionStore>>>,
    pub(crate) early_data: Option<bool>,
    pub(crate) certificate_compression: Option<bool>,
    pub(crate) stapling: Option<bool>,
    pub(crate) stapling_verify: Option<bool>,
    pub(crate) stapling_file: Option<PathBuf>,
    pub(crate) stapling_responder: Option<String>,
    pub(crate) stapling_state: Option<PathBuf>,
    pub(crate) early_data_methods: Option<Arc<[String]>>,
    pub(crate) early_data_register_bytes: Option<u64>,
    pub(crate) reject_handshake: Option<bool>,
    pub(crate) verify_client: Option<VerifyClient>,
    pub(crate) verify_depth: Option<u64>,
    /// Empty: none, as for the next two.
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) trusted_certificate: Option<PathBuf>,
    pub(crate) crl: Option<PathBuf>,
    pub(crate) ocsp: Option<OcspScope>,
    pub(crate) ocsp_responder: Option<String>,
    /// `Some(None)`: `off`.
    pub(crate) ocsp_cache: Option<Option<(String, u64)>>,
    pub(crate) ech_files: Option<Vec<PathBuf>>,
    pub(crate) async_mode: Option<AsyncMode>,
    /// `Some(None)`: `auto`.
    pub(crate) async_threads: Option<Option<u32>>,
    pub(crate) accelerator: Option<Accelerator>,
    /// `Some(None)`: `auto`.
    pub(crate) handshake_queue: Option<Option<u32>>,
    pub(crate) handshake_timeout: Option<Duration>,
}

/// `ssl_ocsp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OcspScope {
    Off,
    Leaf,
    Chain,
}

/// The name of a certificate or key, which may contain variables.
#[derive(Debug, Clone)]
pub(crate) struct WrittenFile {
    pub(crate) text: String,
    pub(crate) name: Template,
}

/// The part of `ssl_session_cache` that is not a shared zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuiltinCache {
    Off,
    None,
    Entries(Option<u32>),
}

/// Settings of every level from `http` down.
#[derive(Debug, Default, Clone)]
pub(crate) struct LocationDraft {
    pub(crate) passing: PassingDraft,
    pub(crate) body_filters: BodyFiltersDraft,
    pub(crate) restricting: RestrictingDraft,
    pub(crate) browsers: BrowsersDraft,
    pub(crate) tracing: TracingDraft,
    pub(crate) files_at: Option<FilesDraft>,
    pub(crate) index: Option<List<Template>>,
    pub(crate) try_files: Option<TryFiles>,
    pub(crate) rewrite_log: Option<bool>,
    pub(crate) uninitialized_variable_warn: Option<bool>,
    pub(crate) autoindex: Option<bool>,
    pub(crate) autoindex_exact_size: Option<bool>,
    pub(crate) autoindex_localtime: Option<bool>,
    pub(crate) autoindex_format: Option<AutoindexFormat>,
    pub(crate) autoindex_max_entries: Option<u64>,
    pub(crate) stub_status: bool,
    pub(crate) status_zone: Option<Arc<str>>,
    pub(crate) content_handler: Option<ContentHandler>,
    pub(crate) purge: Option<Arc<PurgeLocationDraft>>,
    pub(crate) purge_format: Option<PurgeFormat>,
    pub(crate) purge_legacy_status: Option<bool>,
    pub(crate) health_checks: Vec<Arc<HealthCheck>>,
    pub(crate) random_index: Option<bool>,
    pub(crate) concat: ConcatDraft,
    pub(crate) req_status: ReqStatusDraft,
    pub(crate) traffic: TrafficDraft,
    pub(crate) sysguard: SysguardDraft,
    pub(crate) echo: EchoDraft,
    pub(crate) slice: Option<u64>,
    pub(crate) mp4_buffer_size: Option<u64>,
    pub(crate) mp4_max_buffer_size: Option<u64>,
    pub(crate) mp4_start_key_frame: Option<bool>,
    pub(crate) dav_methods: Option<DavMethods>,
    pub(crate) dav_access: Option<u32>,
    pub(crate) min_delete_depth: Option<u64>,
    pub(crate) create_full_put_path: Option<bool>,
    pub(crate) internal: Option<bool>,
    pub(crate) gzip_vary: Option<bool>,
    pub(crate) error_pages: Option<List<ErrorPage>>,
    pub(crate) hides_session: Option<GroupRef>,
    pub(crate) recursive_error_pages: Option<bool>,
    pub(crate) types: Option<Arc<Types>>,
    pub(crate) default_type: Option<Box<str>>,
    pub(crate) etag: Option<bool>,
    pub(crate) if_modified_since: Option<IfModifiedSince>,
    pub(crate) max_ranges: Option<u64>,
    pub(crate) expires: Option<Expires>,
    pub(crate) add_headers: Option<List<AddHeader>>,
    pub(crate) add_header_inherit: Option<HeaderInherit>,
    pub(crate) add_trailers: Option<List<AddHeader>>,
    pub(crate) add_trailer_inherit: Option<HeaderInherit>,
    pub(crate) server_info: Option<bool>,
    pub(crate) server_admin: Option<Arc<[u8]>>,
    /// Empty for `off`.
    pub(crate) server_tag: Option<Template>,
    pub(crate) response_changes: List<ResponseChange>,
    pub(crate) request_changes: List<RequestChange>,
    pub(crate) server_tokens: Option<ServerTokens>,
    pub(crate) chunked_transfer_encoding: Option<bool>,
    pub(crate) msie_padding: Option<bool>,
    pub(crate) msie_refresh: Option<bool>,
    pub(crate) absolute_redirect: Option<bool>,
    pub(crate) server_name_in_redirect: Option<bool>,
    pub(crate) port_in_redirect: Option<bool>,
    pub(crate) sendfile: Option<bool>,
    pub(crate) sendfile_max_chunk: Option<u64>,
    pub(crate) output_buffers: Option<(u32, u64)>,
    pub(crate) open_file_cache: Option<Option<(u32, Duration)>>,
    pub(crate) disable_symlinks: Option<Option<Arc<DisableSymlinks>>>,
    pub(crate) open_file_cache_valid: Option<Duration>,
    pub(crate) open_file_cache_min_uses: Option<u64>,
    pub(crate) open_file_cache_errors: Option<bool>,
    pub(crate) open_file_cache_content: Option<(u64, u64)>,
    pub(crate) tcp_nodelay: Option<bool>,
    pub(crate) limit_rate: Option<Template>,
    pub(crate) limit_rate_after: Option<Template>,
    pub(crate) subrequest_output_buffer: Option<u64>,
    pub(crate) postpone_output: Option<u64>,
    pub(crate) client_max_body: Option<u64>,
    pub(crate) client_body_buffer: Option<u64>,
    pub(crate) client_body_timeout: Option<Duration>,
    pub(crate) client_body_temp_path: Option<Arc<TempPath>>,
    pub(crate) client_body_in_file_only: Option<BodyInFile>,
    pub(crate) client_body_in_single_buffer: Option<bool>,
    pub(crate) real_ip_from: Option<List<PeerNetwork>>,
    pub(crate) real_ip_header: Option<RealIpHeader>,
    pub(crate) real_ip_recursive: Option<bool>,
    /// `Some(None)`: `off`.
    pub(crate) auth_request: Option<Option<Arc<[u8]>>>,
    pub(crate) auth_request_set: Option<List<SetVariable>>,
    /// Empty: `off`.
    pub(crate) mirrors: Option<List<Arc<[u8]>>>,
    pub(crate) mirror_request_body: Option<bool>,
    /// `Some(None)`: `off`.
    pub(crate) post_action: Option<Option<PostAction>>,
    pub(crate) early_hints: Option<List<Template>>,
    pub(crate) resolver: Option<Arc<Resolver>>,
    pub(crate) resolver_timeout: Option<Duration>,
    pub(crate) send_proxy_protocol: Option<SendProxyProtocol>,
    pub(crate) http2_chunk_size: Option<u64>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) keepalive_timeout: Option<Duration>,
    pub(crate) keepalive_header: Option<Duration>,
    pub(crate) keepalive_requests: Option<u64>,
    pub(crate) keepalive_time: Option<Duration>,
    pub(crate) keepalive_min_timeout: Option<Duration>,
    pub(crate) keepalive_disable: Option<KeepaliveDisable>,
    pub(crate) lingering_close: Option<LingeringClose>,
    pub(crate) lingering_time: Option<Duration>,
    pub(crate) lingering_timeout: Option<Duration>,
    pub(crate) reset_timedout_connection: Option<bool>,
    pub(crate) access_logs: AccessLogDraft,
    pub(crate) open_log_file_cache: Option<Option<LogFileCache>>,
    pub(crate) error_logs: Option<List<ErrorLog>>,
    pub(crate) log_not_found: Option<bool>,
    pub(crate) log_subrequest: Option<bool>,
    pub(crate) max_subrequests: Option<u64>,
}

impl LocationDraft {
    /// A module answers in place of files. nginx takes the last handler that is written.
    pub(crate) fn answer_by(&mut self, handler: ContentHandler) {
        self.content_handler = Some(handler);
        self.passing.answers = None;
        self.stub_status = false;
    }
}

/// `root` or `alias` as written.
#[derive(Debug, Clone)]
pub(crate) enum FilesDraft {
    Root(Template),
    /// With the prefix it replaces; `None` for the whole URI.
    Alias(Template, Option<usize>),
}

/// `access_log` lines of a level.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessLogDraft {
    pub(crate) off: bool,
    pub(crate) logs: List<AccessLog>,
}

/// `add_header_inherit` and `add_trailer_inherit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderInherit {
    On,
    Off,
    Merge,
}
