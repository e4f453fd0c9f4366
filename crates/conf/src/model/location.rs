//! The `location` context: the tree of locations and the settings of each.

use super::{
    Access, AccessLog, AuthRequest, BodyFilters, BodyInFile, Browsers, Concat, ContentHandler, Dav,
    Echo, ErrorLog, GroupRef, GzipClients, HealthCheck, LimitExcept, Limits, List, Mp4, Pass,
    PurgeAnswers, PurgeLocation, RealIp, ReqStatus, ReqStatusShow, RequestChange, Resolver,
    ResponseChange, Script, SecureLink, SendProxyProtocol, StaticCodings, Sysguard, TempPath,
    Template, Tracing, Traffic, TrafficShow, UserId, ValidReferers,
};
use crate::regex::Regex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The locations of one level (a server, or nested in a location).
#[derive(Debug, Clone, Default)]
pub struct Locations {
    /// `= uri` locations.
    pub exact: Vec<Arc<Location>>,
    /// Prefix locations, `^~` included, sorted by prefix bytes.
    pub prefix: Vec<Arc<Location>>,
    /// `~` and `~*` locations in the order of the configuration.
    pub regex: Vec<Arc<Location>>,
    /// `@name` locations (server level only).
    pub named: Vec<Arc<Location>>,
}

impl Locations {
    /// All of this level, of each kind in its order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Location>> {
        [&self.exact, &self.prefix, &self.regex, &self.named]
            .into_iter()
            .flatten()
    }
}

/// One `location` block.
#[derive(Debug, Clone)]
pub struct Location {
    /// How it is chosen.
    pub matcher: Matcher,
    /// What holds inside.
    pub conf: Arc<LocationConf>,
    /// Nested locations.
    pub children: Locations,
}

/// How a location is chosen.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// `= uri`.
    Exact(Box<[u8]>),
    /// `uri` or `^~ uri` (`stop` set: no regular expressions are tried after it).
    Prefix {
        /// The prefix.
        prefix: Box<[u8]>,
        /// `^~`.
        stop: bool,
    },
    /// `~ expression` or `~* expression`.
    Regex(Regex),
    /// `@name`, without the `@`.
    Named(Box<str>),
}

/// Everything that can be set in a location and inherited from above.
#[derive(Debug, Clone)]
pub struct LocationConf {
    /// The location as nginx names it in messages (its prefix or expression).
    pub name: Box<str>,

    // What answers.
    /// `proxy_pass` and the like; it takes the place of files.
    pub pass: Option<Pass>,
    /// A request for the location's prefix without its last slash is redirected
    /// to the prefix (301): the location ends with a slash and has a pass.
    pub auto_redirect: bool,
    /// `root` or `alias`; default `root html`.
    pub files_at: FilesAt,
    /// How many bytes at the beginning of the URI an `alias` replaces: the
    /// prefix of the location it was written in, which a nested location may
    /// inherit. `None` under a regex location, where `alias` is the whole path.
    pub alias_prefix_bytes: Option<usize>,
    /// `index`; default `index.html`.
    pub index: List<Template>,
    /// `try_files`.
    pub try_files: Option<TryFiles>,
    /// What the rewrite module does here; none for a server's own settings.
    pub script: Option<Arc<Script>>,
    /// `rewrite_log`: what it does is logged at level `notice`; default off.
    pub rewrite_log: bool,
    /// `uninitialized_variable_warn`; default on.
    pub uninitialized_variable_warn: bool,
    /// `autoindex`.
    pub autoindex: Option<Autoindex>,
    /// `autoindex_max_entries`: entries read of a directory, for `random_index` too; default
    /// 100000.
    pub autoindex_max_entries: u32,
    /// `stub_status`.
    pub stub_status: bool,
    /// `status_zone`: under which name requests are counted.
    pub status_zone: Option<Arc<str>>,
    /// The module that answers in place of plain files.
    pub content_handler: Option<ContentHandler>,
    /// `health_check`: how the servers are checked that requests are passed to.
    pub health_checks: List<Arc<HealthCheck>>,
    /// The options of `mp4`, where it answers.
    pub mp4: Option<Arc<Mp4>>,
    /// `slice`: bytes of a piece; 0 is off.
    pub slice_bytes: u64,
    /// `random_index`; default off.
    pub random_index: bool,
    /// `sysguard` and its options; `None` is off.
    pub sysguard: Option<Arc<Sysguard>>,
    /// `req_status` and its options; `None` if requests are not counted.
    pub req_status: Option<Arc<ReqStatus>>,
    /// `req_status_show`, of the handler [`ContentHandler::ReqStatus`].
    pub req_status_show: Option<Arc<ReqStatusShow>>,
    /// `cache_purge ZONE KEY`, of the handler [`ContentHandler::CachePurge`].
    pub purge: Option<Arc<PurgeLocation>>,
    /// How it and `cache_purge METHOD` are answered.
    pub purge_answers: PurgeAnswers,
    /// `vhost_traffic_status` and its options; `None` if requests are not counted.
    pub traffic: Option<Arc<Traffic>>,
    /// How `vhost_traffic_status_display` shows them, where it answers.
    pub traffic_show: Option<Arc<TrafficShow>>,
    /// `concat` and its options; `None` is off.
    pub concat: Option<Arc<Concat>>,
    /// `echo` and its relatives; `None` where no location around has one.
    pub echo: Option<Arc<Echo>>,
    /// `dav_methods` and its options; `None` is off.
    pub dav: Option<Arc<Dav>>,
    /// `internal`: reachable by internal redirects only.
    pub internal: bool,
    /// `gzip_static`, `brotli_static`, `zstd_static`.
    pub static_codings: StaticCodings,
    /// `gzip_vary`; default off.
    pub gzip_vary: bool,
    /// Which clients get gzip; `None` stands for the defaults.
    pub gzip_clients: Option<Arc<GzipClients>>,
    /// What changes bodies (`gzip`, `sub_filter` and their like); `None` where nothing does.
    pub body_filters: Option<Arc<BodyFilters>>,
    /// `otel_trace` and what belongs to it; `None` where requests are neither recorded nor told
    /// about traces.
    pub tracing: Option<Arc<Tracing>>,
    /// `error_page` lines.
    pub error_pages: List<ErrorPage>,
    /// `session_sticky_hide_cookie`: servers of this group do not get its cookie.
    pub hides_session: Option<GroupRef>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,

    // Header fields about the content.
    /// `types`, shared by all locations that inherit it.
    pub types: Arc<Types>,
    /// `default_type`; default `text/plain`.
    pub default_type: Box<str>,
    /// `etag`; default on.
    pub etag: bool,
    /// `if_modified_since`; default exact.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; `None` means no limit.
    pub max_ranges: Option<u32>,
    /// `expires`.
    pub expires: Expires,
    /// `add_header` lines.
    pub add_headers: List<AddHeader>,
    /// `add_trailer` lines.
    pub add_trailers: List<AddHeader>,
    /// `more_set_headers` and `more_clear_headers`, those of outer levels first.
    pub response_changes: List<ResponseChange>,
    /// `more_set_input_headers` and `more_clear_input_headers`, likewise.
    pub request_changes: List<RequestChange>,
    /// `server_info`: error pages tell about the request and the server; default off.
    pub server_info: bool,
    /// `server_admin`: whom error pages name then.
    pub server_admin: Option<Arc<[u8]>>,
    /// `server_tokens`, or `server_tag`.
    pub server_tokens: ServerTokens,
    /// `chunked_transfer_encoding`; default on.
    pub chunked_transfer_encoding: bool,
    /// `msie_padding`; default on.
    pub msie_padding: bool,
    /// `msie_refresh`; default off.
    pub msie_refresh: bool,

    // Redirects.
    /// `absolute_redirect`; default on.
    pub absolute_redirect: bool,
    /// `server_name_in_redirect`; default off.
    pub server_name_in_redirect: bool,
    /// `port_in_redirect`; default on.
    pub port_in_redirect: bool,

    // How files are read.
    /// `sendfile`; default off.
    pub sendfile: bool,
    /// `sendfile_max_chunk`; default 2m. 0 means no limit.
    pub sendfile_max_chunk_bytes: u64,
    /// `output_buffers` number and size; default 2 32k.
    pub output_buffers: (u32, u64),
    /// `open_file_cache`; `None` is off.
    pub open_file_cache: Option<OpenFileCache>,
    /// `disable_symlinks`; `None` is off.
    pub disable_symlinks: Option<Arc<DisableSymlinks>>,
    /// `tcp_nodelay`; default on.
    pub tcp_nodelay: bool,
    /// `limit_rate` in bytes per second; `None` when never set, else evaluated per request.
    pub limit_rate: Option<Template>,
    /// `limit_rate_after` in bytes.
    pub limit_rate_after: Option<Template>,
    /// `subrequest_output_buffer_size`; default 4 KiB.
    pub subrequest_output_buffer_bytes: u64,
    /// `postpone_output`; default 1460.
    pub postpone_output_bytes: u64,

    // The client.
    /// `client_max_body_size`; default 1m, 0 means no limit.
    pub client_max_body_bytes: u64,
    /// `client_body_buffer_size`; default 8k.
    pub client_body_buffer_bytes: u64,
    /// `client_body_timeout`; default 60 s.
    pub client_body_timeout: Duration,
    /// `client_body_temp_path`; default `client_body_temp` in `Options::temp`.
    pub client_body_temp_path: Arc<TempPath>,
    /// `client_body_in_file_only`; default off.
    pub client_body_in_file_only: BodyInFile,
    /// `client_body_in_single_buffer`; default off.
    pub client_body_in_single_buffer: bool,
    /// `send_timeout`; default 60 s.
    pub send_timeout: Duration,
    /// `keepalive_timeout`; default 75 s, zero switches keep-alive off.
    pub keepalive_timeout: Duration,
    /// Second argument of `keepalive_timeout`: the `Keep-Alive: timeout=` header.
    pub keepalive_header: Option<Duration>,
    /// `keepalive_requests`; default 1000.
    pub keepalive_requests: u64,
    /// `keepalive_time`; default 1 h.
    pub keepalive_time: Duration,
    /// `keepalive_min_timeout`; default 0.
    pub keepalive_min_timeout: Duration,
    /// `keepalive_disable`; default msie6.
    pub keepalive_disable: KeepaliveDisable,
    /// `lingering_close`; default on.
    pub lingering_close: LingeringClose,
    /// `lingering_time`; default 30 s.
    pub lingering_time: Duration,
    /// `lingering_timeout`; default 5 s.
    pub lingering_timeout: Duration,
    /// `reset_timedout_connection`; default off.
    pub reset_timedout_connection: bool,

    // Who the client is, and what it may do.
    /// `set_real_ip_from` and its options; `None` when no peer is trusted.
    pub real_ip: Option<Arc<RealIp>>,
    /// `auth_request` and `auth_request_set`.
    pub auth_request: Option<AuthRequest>,
    /// `allow`, `deny` and `auth_basic`, or `satisfy` and `auth_delay` for `auth_request`;
    /// `None` when only `auth_request` decides.
    pub access: Option<Arc<Access>>,
    /// `limit_req` and `limit_conn`; `None` when nothing is limited.
    pub limits: Option<Arc<Limits>>,
    /// `secure_link` or `secure_link_secret`.
    pub secure_link: Option<Arc<SecureLink>>,
    /// `modern_browser` and `ancient_browser`.
    pub browsers: Option<Arc<Browsers>>,
    /// `valid_referers`.
    pub valid_referers: Option<Arc<ValidReferers>>,
    /// `userid` with its options; `None` when it is off.
    pub userid: Option<Arc<UserId>>,
    /// `limit_except`, which is not inherited.
    pub limit_except: Option<Arc<LimitExcept>>,

    // Other servers.
    /// `mirror` URIs as written, in order; empty when off.
    pub mirrors: List<Arc<[u8]>>,
    /// `mirror_request_body`: the body is read before mirroring; default on.
    pub mirror_request_body: bool,
    /// `post_action`; `None` when off.
    pub post_action: Option<PostAction>,
    /// `early_hints`: 103 responses of upstream servers are passed to the client
    /// if one of these is neither empty nor `0`.
    pub early_hints: List<Template>,
    /// `resolver`; `None` when there is none.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`; default 30 s.
    pub resolver_timeout: Duration,
    /// `proxy_send_proxy_protocol` (Sealane's own); default off.
    pub send_proxy_protocol: SendProxyProtocol,
    /// `http2_chunk_size`: longest DATA frame sent, at most 16 MiB - 1, and what
    /// the client allows; default 8k.
    pub http2_chunk_bytes: u32,

    // Logs.
    /// `access_log` lines; empty when off.
    pub access_logs: List<AccessLog>,
    /// `error_log` lines that hold here.
    pub error_logs: List<ErrorLog>,
    /// `log_not_found`; default on.
    pub log_not_found: bool,
    /// `log_subrequest`: subrequests get lines in the access log too; default off.
    pub log_subrequest: bool,
    /// `max_subrequests`: how many a request may start, including those that its subrequests start;
    /// default 10000.
    pub max_subrequests: u32,
}

/// `root` or `alias`.
#[derive(Debug, Clone)]
pub enum FilesAt {
    /// `root`: path + URI. The path is absolute and has no trailing slash
    /// (`root /` is the empty path), unless it begins with a variable: then
    /// it starts from the prefix if it evaluates to a relative path.
    Root(Template),
    /// `alias`: the location's prefix is replaced (for a regex location, the whole URI).
    Alias(Template),
}

/// `try_files`.
#[derive(Debug, Clone)]
pub struct TryFiles {
    /// Candidates in order.
    pub candidates: Vec<TryFile>,
    /// What happens when none exists.
    pub fallback: TryFallback,
}

/// One candidate of `try_files`.
#[derive(Debug, Clone)]
pub struct TryFile {
    /// Its name, without a trailing slash.
    pub name: Template,
    /// Written with a trailing slash: must be a directory.
    pub directory: bool,
}

/// The last argument of `try_files`.
#[derive(Debug, Clone)]
pub enum TryFallback {
    /// Internal redirect to a URI (with arguments).
    Uri(Template),
    /// `@name`.
    Named(Box<str>),
    /// `=code`.
    Code(u16),
}

/// One `error_page` line.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    /// Codes it holds for.
    pub codes: Vec<u16>,
    /// The status sent.
    pub status: ErrorPageStatus,
    /// URI (begins with `/`), URL (redirect) or `@name`.
    pub target: ErrorPageTarget,
}

/// Which status an `error_page` answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorPageStatus {
    /// No `=`: the original code.
    Original,
    /// `=code`.
    Fixed(u16),
    /// `=` alone: what the target answers.
    FromTarget,
}

/// Where a `post_action` leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostAction {
    /// A URI, as written.
    Uri(Arc<[u8]>),
    /// The location `@name`, with the URI of the request.
    Named(Arc<str>),
}

/// Where an `error_page` leads.
#[derive(Debug, Clone)]
pub enum ErrorPageTarget {
    /// Internal redirect. When the template begins with a variable, its value
    /// decides: one that does not begin with `/` is a redirect as in `Url`.
    Uri(Template),
    /// `@name`.
    Named(Box<str>),
    /// Redirect to an absolute URL.
    Url(Template),
}

/// `autoindex` and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Autoindex {
    /// `autoindex_exact_size`; default on.
    pub exact_size: bool,
    /// `autoindex_localtime`; default off.
    pub localtime: bool,
    /// `autoindex_format`; default html.
    pub format: AutoindexFormat,
}

/// `autoindex_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoindexFormat {
    /// `html`.
    Html,
    /// `xml`.
    Xml,
    /// `json`.
    Json,
    /// `jsonp`.
    Jsonp,
}

/// `types`: extension (lower case) to media type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Types {
    /// The map.
    pub by_extension: HashMap<Box<str>, Arc<str>>,
}

/// `if_modified_since`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// `off`: the header is ignored.
    Off,
    /// `exact`.
    Exact,
    /// `before`.
    Before,
}

/// `expires`.
#[derive(Debug, Clone)]
pub enum Expires {
    /// `off`.
    Off,
    /// `epoch`.
    Epoch,
    /// `max`.
    Max,
    /// `[+-]time`: seconds from the time of the answer.
    Access(i64),
    /// `modified [+-]time`: seconds from the file's time.
    Modified(i64),
    /// `@time`: seconds after midnight, local time.
    Daily(u32),
    /// A value with variables, parsed when evaluated; `modified` given.
    Evaluated(Template, bool),
}

/// `add_header` or `add_trailer`.
#[derive(Debug, Clone)]
pub struct AddHeader {
    /// Name as written.
    pub name: Box<str>,
    /// Value; an empty one adds nothing.
    pub value: Template,
    /// `always`: for every status.
    pub always: bool,
}

/// `server_tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTokens {
    /// `on`: name and version.
    On,
    /// `off`: the name only.
    Off,
    /// `build`: with the build name.
    Build,
    /// This text in place of the name (nginx's commercial edition); if it is empty, no name at all.
    Text(Template),
}

/// `open_file_cache` and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFileCache {
    /// `max=`.
    pub max: u32,
    /// `inactive=`; default 60 s.
    pub inactive: Duration,
    /// `open_file_cache_valid`; default 60 s.
    pub valid: Duration,
    /// `open_file_cache_min_uses`; default 1.
    pub min_uses: u32,
    /// `open_file_cache_errors`; default off.
    pub errors: bool,
    /// `open_file_cache_content SIZE` (Sealane): bytes of file contents kept
    /// with the entries, per worker thread. 0 is off.
    pub content_bytes: u64,
    /// Second argument: the largest file kept.
    pub content_max_file_bytes: u64,
}

/// `disable_symlinks`, where it is not off.
#[derive(Debug, Clone)]
pub struct DisableSymlinks {
    /// Which links are followed all the same.
    pub except: FollowedSymlinks,
    /// `from=`: how the part of a path begins in which all links are followed.
    pub from: Option<Template>,
}

/// `on` or `if_not_owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedSymlinks {
    /// `on`: none.
    None,
    /// `if_not_owner`: those that belong to whom belongs what they lead to.
    OfTheOwner,
}

/// `keepalive_disable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepaliveDisable {
    /// `msie6`.
    pub msie6: bool,
    /// `safari`.
    pub safari: bool,
}

/// `lingering_close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never.
    Off,
    /// When the client may be sending still.
    On,
    /// Always.
    Always,
}
