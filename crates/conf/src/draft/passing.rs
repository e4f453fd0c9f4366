//! `proxy_*`, `fastcgi_*`, `uwsgi_*`, `scgi_*`, `grpc_*` and `dubbo_*` as written on a level.

use super::{CacheDraft, ProxyConnectDraft, TunnelRulesDraft};
use crate::model::{
    Bind, CertificateCache, CookieFlagsRule, CookieRewrite, DubboEntry, DubboMethod, Family,
    GroupRef, IgnoreHeaders, Ktls, List, NextUpstream, Param, ProxyHttpVersion, RedirectRewrite,
    SetHeader, TempPath, Template, TlsProtocols, Variable,
};
use crate::regex::Regex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The settings of the families on a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct PassingDraft {
    /// What they have in common, in the order of [`Family::ALL`].
    upstreams: [UpstreamDraft; Family::ALL.len()],
    /// The family whose pass directive is here; the last of several applies, as in nginx.
    pub(crate) answers: Option<Family>,
    /// The location ends with a slash, and is redirected to without it.
    pub(crate) auto_redirect: bool,
    pub(crate) proxy: ProxyDraft,
    pub(crate) fastcgi: FastCgiDraft,
    pub(crate) uwsgi: UwsgiDraft,
    pub(crate) memcached: MemcachedDraft,
    /// `tunnel_allow_*`.
    pub(crate) tunnel: TunnelRulesDraft,
    pub(crate) connect: ProxyConnectDraft,
    pub(crate) dubbo: DubboDraft,
}

impl PassingDraft {
    /// The settings that all families have, for one of them.
    pub(crate) fn of(&self, family: Family) -> &UpstreamDraft {
        &self.upstreams[family as usize]
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, family: Family) -> &mut UpstreamDraft {
        &mut self.upstreams[family as usize]
    }
}

/// What the families have in common.
#[derive(Debug, Default, Clone)]
pub(crate) struct UpstreamDraft {
    /// The pass directive; not inherited.
    pub(crate) target: Option<TargetDraft>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) next_upstream: Option<NextUpstream>,
    pub(crate) next_upstream_tries: Option<u64>,
    pub(crate) next_upstream_timeout: Option<Duration>,
    /// `Some(None)`: `off`.
    pub(crate) bind: Option<Option<Bind>>,
    pub(crate) socket_keepalive: Option<bool>,
    pub(crate) socket_rcvbuf: Option<u64>,
    pub(crate) socket_sndbuf: Option<u64>,
    pub(crate) request_buffering: Option<bool>,
    pub(crate) pass_request_headers: Option<bool>,
    pub(crate) pass_request_body: Option<bool>,
    pub(crate) ignore_client_abort: Option<bool>,
    pub(crate) buffering: Option<bool>,
    pub(crate) buffer_size: Option<u64>,
    pub(crate) buffers: Option<(u32, u64)>,
    pub(crate) busy_buffers_size: Option<u64>,
    pub(crate) temp_path: Option<Arc<TempPath>>,
    pub(crate) max_temp_file_size: Option<u64>,
    pub(crate) temp_file_write_size: Option<u64>,
    pub(crate) limit_rate: Option<Template>,
    pub(crate) force_ranges: Option<bool>,
    pub(crate) intercept_errors: Option<bool>,
    pub(crate) store: Option<StoreDraft>,
    pub(crate) store_access: Option<u32>,
    pub(crate) cache: CacheDraft,
    pub(crate) ignore_headers: Option<IgnoreHeaders>,
    pub(crate) hide_headers: Option<List<Box<[u8]>>>,
    pub(crate) pass_headers: Option<List<Box<[u8]>>>,
    /// `fastcgi_param`, `uwsgi_param`, `scgi_param`.
    pub(crate) params: Option<List<Param>>,
    /// `proxy_set_header` and `grpc_set_header`.
    pub(crate) set_headers: Option<List<SetHeader>>,
    pub(crate) tls: UpstreamTlsDraft,
}

/// `proxy_store` and the like.
#[derive(Debug, Clone)]
pub(crate) enum StoreDraft {
    Off,
    /// `on`: by `root` or `alias`.
    ByUri,
    At(Template),
}

/// Where a pass directive leads.
#[derive(Debug, Clone)]
pub(crate) enum TargetDraft {
    /// A URL without variables.
    Fixed(FixedTarget),
    /// A URL with variables.
    Evaluated(Template),
}

/// A pass directive without variables.
#[derive(Debug, Clone)]
pub(crate) struct FixedTarget {
    /// As written, scheme included.
    pub(crate) url: Box<[u8]>,
    pub(crate) tls: bool,
    pub(crate) group: GroupRef,
    /// As the Host header names it.
    pub(crate) host: Box<str>,
    /// Port in digits; empty for a socket.
    pub(crate) port: Box<str>,
    /// The URI part; empty when there is none.
    pub(crate) uri: Box<[u8]>,
    /// Prefix of the location, which the URI part replaces; empty where there is
    /// none.
    pub(crate) prefix: Box<[u8]>,
}

/// The `*_ssl_*` settings.
#[derive(Debug, Default, Clone)]
pub(crate) struct UpstreamTlsDraft {
    pub(crate) protocols: Option<TlsProtocols>,
    pub(crate) ciphers: Option<String>,
    pub(crate) conf_commands: Option<List<(String, String)>>,
    pub(crate) name: Option<Template>,
    pub(crate) server_name: Option<bool>,
    pub(crate) verify: Option<bool>,
    pub(crate) verify_depth: Option<u64>,
    /// Empty: none.
    pub(crate) trusted_certificate: Option<PathBuf>,
    /// Empty: none.
    pub(crate) crl: Option<PathBuf>,
    /// Empty: none.
    pub(crate) certificate: Option<Template>,
    pub(crate) certificate_key: Option<Template>,
    pub(crate) password_file: Option<PathBuf>,
    /// `Some(None)`: off.
    pub(crate) certificate_cache: Option<Option<CertificateCache>>,
    pub(crate) session_reuse: Option<bool>,
    pub(crate) ktls: Option<Ktls>,
}

/// What only `memcached_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct MemcachedDraft {
    /// `$memcached_key`, as `memcached_pass` found it.
    pub(crate) key: Option<Variable>,
    pub(crate) gzip_flag: Option<u64>,
}

/// What only `dubbo_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct DubboDraft {
    /// What `dubbo_pass` calls; not inherited.
    pub(crate) method: Option<DubboMethod>,
    pub(crate) entries: Option<List<DubboEntry>>,
    pub(crate) all_headers: Option<bool>,
    pub(crate) heartbeat_interval: Option<Duration>,
    pub(crate) max_response_size: Option<u64>,
}

/// What only `proxy_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct ProxyDraft {
    pub(crate) http_version: Option<ProxyHttpVersion>,
    pub(crate) method: Option<Template>,
    pub(crate) body: Option<Template>,
    pub(crate) pass_trailers: Option<bool>,
    pub(crate) redirects: RulesDraft<RedirectRewrite>,
    pub(crate) cookie_domains: RulesDraft<CookieRewrite>,
    pub(crate) cookie_paths: RulesDraft<CookieRewrite>,
    pub(crate) cookie_flags: RulesDraft<CookieFlagsRule>,
}

/// Rules that can be switched off as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) enum RulesDraft<T> {
    /// Nothing is set here.
    #[default]
    Unset,
    /// `off`.
    Off,
    /// These.
    Rules(List<T>),
}

/// What only `fastcgi_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct FastCgiDraft {
    pub(crate) index: Option<Box<[u8]>>,
    pub(crate) split_path_info: Option<Regex>,
    pub(crate) keep_conn: Option<bool>,
    pub(crate) catch_stderr: Option<List<Box<[u8]>>>,
}

/// What only `uwsgi_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct UwsgiDraft {
    pub(crate) modifier1: Option<u8>,
    pub(crate) modifier2: Option<u8>,
    pub(crate) string: Option<Box<[u8]>>,
}
