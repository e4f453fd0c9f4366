//! Passing requests to other servers: what answers in a location with
//! `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`, `grpc_pass`, `memcached_pass` or
//! `dubbo_pass`; tunnels (`tunnel_pass`) are in `tunnel.rs`.
//!
//! What they have in common is [`UpstreamSettings`]; the rest of each is
//! here. A pass applies to the location where it is written and is not inherited by
//! nested ones.

use super::{
    CookieFlagsRule, CookieRewrite, Http, List, LocationConf, Locations, RedirectRewrite, Server,
    StreamPass, Template, TunnelPass, UpstreamSettings, UpstreamTls, Variable,
};
use crate::regex::Regex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A group of servers: an index into [`super::Http::upstreams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef(pub usize);

/// The directive that a location hands its requests on with.
#[derive(Debug, Clone)]
pub enum Pass {
    /// `proxy_pass`.
    Proxy(Arc<ProxyPass>),
    /// `fastcgi_pass`.
    FastCgi(Arc<FastCgiPass>),
    /// `uwsgi_pass`.
    Uwsgi(Arc<UwsgiPass>),
    /// `scgi_pass`.
    Scgi(Arc<ScgiPass>),
    /// `grpc_pass`.
    Grpc(Arc<GrpcPass>),
    /// `memcached_pass`.
    Memcached(Arc<MemcachedPass>),
    /// `tunnel_pass`, `proxy_connect`.
    Tunnel(Arc<TunnelPass>),
    /// `dubbo_pass`.
    Dubbo(Arc<DubboPass>),
    /// `proxy_pass` of `stream`.
    Stream(Arc<StreamPass>),
}

/// The families of directives, one for each protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `proxy_*`.
    Proxy,
    /// `fastcgi_*`.
    FastCgi,
    /// `uwsgi_*`.
    Uwsgi,
    /// `scgi_*`.
    Scgi,
    /// `grpc_*`.
    Grpc,
    /// `memcached_*`.
    Memcached,
    /// `tunnel_*`.
    Tunnel,
    /// `proxy_connect_*`.
    ProxyConnect,
    /// `dubbo_*`.
    Dubbo,
}

/// The target of `fastcgi_pass` and `scgi_pass`, and with its TLS of `uwsgi_pass` and
/// `grpc_pass`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassTarget {
    /// Known when the configuration is read.
    Group(GroupRef),
    /// With variables: the value is parsed by
    /// [`crate::upstream_url::UpstreamUrl::parse`] for each request, and a name
    /// is found among the groups or resolved.
    Evaluated(Template),
}

/// `proxy_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct ProxyPass {
    /// Where to.
    pub target: ProxyTarget,
    /// What all families have; `tls` is set for `https` and for a target
    /// with variables.
    pub upstream: UpstreamSettings,
    /// `proxy_http_version`; default 1.1.
    pub http_version: ProxyHttpVersion,
    /// `proxy_method`; else the client's.
    pub method: Option<Template>,
    /// `proxy_set_header` and nginx's default fields.
    pub set_headers: Arc<SetHeaders>,
    /// `proxy_set_body`: sent instead of the request's body.
    pub body: Option<Template>,
    /// `proxy_redirect` rules for Location and Refresh, in order; the first that
    /// matches applies. Empty when `off`. The default rule is written out.
    pub redirects: List<RedirectRewrite>,
    /// `proxy_cookie_domain` rules.
    pub cookie_domains: List<CookieRewrite>,
    /// `proxy_cookie_path` rules.
    pub cookie_paths: List<CookieRewrite>,
    /// `proxy_cookie_flags` rules.
    pub cookie_flags: List<CookieFlagsRule>,
}

/// Where `proxy_pass` leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyTarget {
    /// Known when the configuration is read.
    Url(ProxyUrl),
    /// With variables: scheme, address and possibly URI are evaluated for each request.
    /// A URI in it is sent as it is; without one, the request's URI is sent.
    Evaluated(Template),
}

/// A `proxy_pass` without variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// `https`.
    pub tls: bool,
    /// The servers.
    pub group: GroupRef,
    /// `$proxy_host`: host, and port if it is not the scheme's; `localhost` for
    /// a socket.
    pub host: Box<str>,
    /// `$proxy_port`: the port in digits; empty for a socket.
    pub port: Box<str>,
    /// The URI part; begins with `/` or `?` (anything for a socket).
    pub uri: UriPart,
}

/// What becomes of a request's URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriPart {
    /// No URI part: the URI is passed as the client sent it; if it has changed since
    /// (an internal redirect), the current normalised one, escaped again.
    AsReceived,
    /// The part replaces the first `prefix_bytes` of the normalised URI, the rest
    /// of which is escaped again and followed by the arguments. After an
    /// internal redirect from another location nothing is replaced.
    Replaces {
        /// Bytes of the location's prefix.
        prefix_bytes: usize,
        /// The replacement.
        uri: Box<[u8]>,
    },
}

/// `proxy_http_version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHttpVersion {
    /// `1.0`.
    Http10,
    /// `1.1`.
    Http11,
    /// `2`.
    Http2,
}

/// Header fields that a request gets: `proxy_set_header` and `grpc_set_header`,
/// followed by nginx's defaults, except for names set here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetHeaders {
    /// In the order of sending, before those of the client. A field whose value
    /// is empty is not sent, unless it is Host.
    pub fields: Vec<SetHeader>,
    /// Names that the client's fields must not have, in lower case, sorted: those
    /// of `fields` and of fields set to nothing.
    pub replaced: Vec<Box<[u8]>>,
}

impl SetHeaders {
    /// Whether a field of the client with this name (in any case) is left out.
    pub fn replaces(&self, name: &[u8]) -> bool {
        // The list is short; lengths distinguish most names.
        self.replaced
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// One header field that a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetHeader {
    /// Name as written.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Template,
}

/// `fastcgi_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct FastCgiPass {
    /// Where to.
    pub target: PassTarget,
    /// What all families have.
    pub upstream: UpstreamSettings,
    /// `fastcgi_param`.
    pub params: Arc<Params>,
    /// `fastcgi_index`: added to a URI that ends with a slash, in
    /// `$fastcgi_script_name`; empty by default.
    pub index: Box<[u8]>,
    /// `fastcgi_split_path_info`: its two groups are `$fastcgi_script_name` and
    /// `$fastcgi_path_info`.
    pub split_path_info: Option<Regex>,
    /// `fastcgi_keep_conn`; default off.
    pub keep_conn: bool,
    /// `fastcgi_catch_stderr`: strings in the error stream that make a response
    /// invalid.
    pub catch_stderr: List<Box<[u8]>>,
}

/// `uwsgi_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct UwsgiPass {
    /// Where to. With variables, `suwsgi://` may come out.
    pub target: PassTarget,
    /// `suwsgi://` was written.
    pub secure: bool,
    /// What all families have; `tls` is set for `suwsgi` and for a target
    /// with variables.
    pub upstream: UpstreamSettings,
    /// `uwsgi_param`.
    pub params: Arc<Params>,
    /// `uwsgi_modifier1`; default 0.
    pub modifier1: u8,
    /// `uwsgi_modifier2`; default 0.
    pub modifier2: u8,
    /// `uwsgi_string`: appended to the request's block of variables.
    pub string: Box<[u8]>,
}

/// `scgi_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct ScgiPass {
    /// Where to. With variables, `scgi://` may not come out, as in nginx.
    pub target: PassTarget,
    /// What all families have.
    pub upstream: UpstreamSettings,
    /// `scgi_param`.
    pub params: Arc<Params>,
}

/// `grpc_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct GrpcPass {
    /// Where to. With variables, `grpcs://` may come out.
    pub target: PassTarget,
    /// `grpcs://` was written.
    pub secure: bool,
    /// `:authority` unless Host is set: host, and port if it is written;
    /// `localhost` for a socket. Empty for a target with variables.
    pub host: Box<str>,
    /// What all families have (except buffers, temporary files and rate
    /// limits); `tls` is set for `grpcs` and for a target with variables.
    pub upstream: UpstreamSettings,
    /// `grpc_set_header` and nginx's default fields.
    pub set_headers: Arc<SetHeaders>,
}

/// `memcached_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct MemcachedPass {
    /// Where to.
    pub target: PassTarget,
    /// What all families have (except the request's body, headers, buffers and temporary files).
    pub upstream: UpstreamSettings,
    /// `$memcached_key`.
    pub key: Variable,
    /// `memcached_gzip_flag`: bits of a value's flags that mean gzip; 0 for none.
    pub gzip_flag: u64,
}

/// `dubbo_pass` and what belongs to it.
#[derive(Debug, Clone)]
pub struct DubboPass {
    /// Where to.
    pub target: PassTarget,
    /// What all families have (except buffers, temporary files and rate limits).
    pub upstream: UpstreamSettings,
    /// What is called there.
    pub method: DubboMethod,
    /// `dubbo_pass_set`, in order: entries of the map that the method is called with.
    pub entries: List<DubboEntry>,
    /// `dubbo_pass_all_headers`; default on.
    pub all_headers: bool,
    /// `dubbo_heartbeat_interval`; default 60 s.
    pub heartbeat_interval: Duration,
    /// `dubbo_max_response_size`; default 8 MiB.
    pub max_response_bytes: u64,
}

/// A method of a Dubbo service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DubboMethod {
    /// The name of the service.
    pub service: Template,
    /// Its version.
    pub version: Template,
    /// The name of the method.
    pub name: Template,
}

/// One `dubbo_pass_set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DubboEntry {
    /// The name in the map.
    pub key: Template,
    /// Its value.
    pub value: Template,
}

/// Parameters of a FastCGI, uwsgi or SCGI request: `fastcgi_param` and the like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params {
    /// In the order of sending, before those made from the client's header.
    pub params: Vec<Param>,
    /// Header fields of the client that a `HTTP_*` parameter replaces: names in
    /// lower case with `_` for `-`, sorted.
    pub replaced_headers: Vec<Box<[u8]>>,
}

impl Params {
    /// Whether the client's field of this name is left out. `name` is compared in
    /// any case and with `-` for `_`.
    pub fn replaces_header(&self, name: &[u8]) -> bool {
        let same = |known: &[u8]| {
            known.len() == name.len()
                && known.iter().zip(name).all(|(known, byte)| match byte {
                    b'-' => *known == b'_',
                    byte => *known == byte.to_ascii_lowercase(),
                })
        };
        self.replaced_headers.iter().any(|known| same(known))
    }
}

/// One `fastcgi_param`, `uwsgi_param` or `scgi_param`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name as written.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Template,
    /// `if_not_empty`: not sent when the value comes out empty.
    pub if_not_empty: bool,
}

impl Pass {
    /// What all families have.
    pub fn upstream(&self) -> &UpstreamSettings {
        match self {
            Pass::Proxy(pass) => &pass.upstream,
            Pass::FastCgi(pass) => &pass.upstream,
            Pass::Uwsgi(pass) => &pass.upstream,
            Pass::Scgi(pass) => &pass.upstream,
            Pass::Grpc(pass) => &pass.upstream,
            Pass::Memcached(pass) => &pass.upstream,
            Pass::Tunnel(pass) => &pass.upstream,
            Pass::Dubbo(pass) => &pass.upstream,
            Pass::Stream(pass) => &pass.upstream,
        }
    }

    /// Settings of TLS to the servers, if it may be used.
    pub fn tls(&self) -> Option<&Arc<UpstreamTls>> {
        self.upstream().tls.as_ref()
    }

    /// The group of servers, if it is known without a request.
    pub fn group(&self) -> Option<GroupRef> {
        let target = match self {
            Pass::Proxy(pass) => match &pass.target {
                ProxyTarget::Url(url) => return Some(url.group),
                ProxyTarget::Evaluated(_) => return None,
            },
            Pass::FastCgi(pass) => &pass.target,
            Pass::Uwsgi(pass) => &pass.target,
            Pass::Scgi(pass) => &pass.target,
            Pass::Grpc(pass) => &pass.target,
            Pass::Memcached(pass) => &pass.target,
            Pass::Tunnel(pass) => &pass.target,
            Pass::Dubbo(pass) => &pass.target,
            Pass::Stream(pass) => &pass.target,
        };
        match target {
            PassTarget::Group(group) => Some(*group),
            PassTarget::Evaluated(_) => None,
        }
    }
}

impl Http {
    /// Every pass directive of every server and location, to prepare what they need.
    pub fn passes(&self) -> impl Iterator<Item = &Pass> {
        let servers = self.servers.iter().map(|server| &server.conf);
        let all = servers.chain(self.locations());
        all.filter_map(|conf| conf.pass.as_ref())
    }

    /// The settings of every location and of every `if` in one, nested ones included.
    pub fn locations(&self) -> impl Iterator<Item = &Arc<LocationConf>> {
        locations_of(self.servers.iter().map(Arc::as_ref)).into_iter()
    }
}

/// The settings of every location of these servers, as [`Http::locations`].
pub(crate) fn locations_of<'s>(
    servers: impl IntoIterator<Item = &'s Server>,
) -> Vec<&'s Arc<LocationConf>> {
    let mut found = Vec::new();
    for server in servers {
        collect(&server.locations, &mut found);
    }
    found
}

fn collect<'l>(locations: &'l Locations, found: &mut Vec<&'l Arc<LocationConf>>) {
    for location in locations.all() {
        found.push(&location.conf);
        found.extend(
            location
                .conf
                .script
                .iter()
                .flat_map(|script| &script.blocks),
        );
        collect(&location.children, found);
    }
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 9] = [
        Family::Proxy,
        Family::FastCgi,
        Family::Uwsgi,
        Family::Scgi,
        Family::Grpc,
        Family::Memcached,
        Family::Tunnel,
        Family::ProxyConnect,
        Family::Dubbo,
    ];

    /// What its directives begin with.
    pub fn name(self) -> &'static str {
        match self {
            Family::Proxy => "proxy",
            Family::FastCgi => "fastcgi",
            Family::Uwsgi => "uwsgi",
            Family::Scgi => "scgi",
            Family::Grpc => "grpc",
            Family::Memcached => "memcached",
            Family::Tunnel => "tunnel",
            Family::ProxyConnect => "proxy_connect",
            Family::Dubbo => "dubbo",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
