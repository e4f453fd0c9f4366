//! `proxy_*`, `fastcgi_*`, `uwsgi_*`, `scgi_*`, `grpc_*`, `memcached_*` and `dubbo_*`: inheritance,
//! defaults and the checks of a level.

use super::locations::Inherited;
use super::servers::{certificate_source, inherit, key_source};
use super::{caching, certificates};
use crate::call::{Fault, shown};
use crate::directives::default_redirect;
use crate::draft::{
    DubboDraft, FastCgiDraft, FixedTarget, PassingDraft, ProxyDraft, RulesDraft, StoreDraft,
    StreamDraft, TargetDraft, UpstreamDraft, UpstreamTlsDraft, UwsgiDraft,
};
use crate::input::Options;
use crate::model::{
    CertificateFiles, DubboPass, Family, FastCgiPass, GrpcPass, HiddenHeaders, List, MemcachedPass,
    NextUpstream, NextUpstreamCause, Param, Params, Part, Pass, PassTarget, ProxyConnect,
    ProxyHttpVersion, ProxyPass, ProxyTarget, ProxyUrl, ScgiPass, SetHeader, SetHeaders, Store,
    StreamHandler, StreamPass, TempPath, Template, TlsProtocols, TunnelPass, UpstreamCertificate,
    UpstreamSettings, UpstreamTls, UriPart, UwsgiPass, Variable,
};
use crate::variables::Builtin;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// nginx's default for buffers: a page of memory.
const BUFFER_BYTES: u64 = 4 << 10;

/// Default of `dubbo_max_response_size`: what Dubbo's consumers accept unless told otherwise.
const DUBBO_RESPONSE_BYTES: u64 = 8 << 20;

/// With this number `proxy_responses` limits nothing in nginx.
const UNLIMITED: u64 = i32::MAX as u64;
/// Default of `proxy_buffer_size` in `stream`.
const STREAM_BUFFER_BYTES: u64 = 16 << 10;

/// Default of `max_temp_file_size`.
const MAX_TEMP_FILE_BYTES: u64 = 1 << 30;

impl PassingDraft {
    /// Takes what is not set from the outer level; the pass directives are not
    /// inherited.
    pub(super) fn inherit(&mut self, outer: &PassingDraft) {
        for family in Family::ALL {
            self.of_mut(family).inherit(outer.of(family));
        }
        self.proxy.inherit(&outer.proxy);
        self.fastcgi.inherit(&outer.fastcgi);
        self.uwsgi.inherit(&outer.uwsgi);
        let (tunnel, outer_tunnel) = (&mut self.tunnel, &outer.tunnel);
        inherit!(tunnel, outer_tunnel; ports addresses);
        let (connect, outer_connect) = (&mut self.connect, &outer.connect);
        inherit!(connect, outer_connect; address response);
        let (rules, outer_rules) = (&mut self.connect.rules, &outer.connect.rules);
        inherit!(rules, outer_rules; ports addresses);
        let flag = &mut self.memcached.gzip_flag;
        *flag = flag.or(outer.memcached.gzip_flag);
        self.dubbo.inherit(&outer.dubbo);
        // Not left to the end: locations within inherit what is the default here.
        let target = self.of(Family::Proxy).target.as_ref();
        if matches!(self.proxy.redirects, RulesDraft::Unset)
            && let Some(rule) = target.and_then(default_redirect)
        {
            self.proxy.redirects = RulesDraft::Rules([rule].into_iter().collect());
        }
    }
}

impl PassingDraft {
    /// Passes requests on like the enclosing location, unless it has its own pass.
    pub(super) fn stay_in(&mut self, location: &PassingDraft) {
        for family in Family::ALL {
            let target = &mut self.of_mut(family).target;
            if target.is_none() {
                target.clone_from(&location.of(family).target);
            }
        }
        if self.memcached.key.is_none() {
            self.memcached.key.clone_from(&location.memcached.key);
        }
        if self.dubbo.method.is_none() {
            self.dubbo.method.clone_from(&location.dubbo.method);
        }
        self.answers = self.answers.or(location.answers);
    }
}

impl UpstreamDraft {
    fn inherit(&mut self, outer: &UpstreamDraft) {
        self.store_or_cache();
        self.cache.inherit(&outer.cache);
        inherit!(self, outer;
            connect_timeout send_timeout read_timeout next_upstream next_upstream_tries
            next_upstream_timeout bind socket_keepalive socket_rcvbuf socket_sndbuf request_buffering
            pass_request_headers
            pass_request_body ignore_client_abort buffering buffer_size buffers busy_buffers_size
            temp_path max_temp_file_size temp_file_write_size limit_rate force_ranges
            intercept_errors store store_access ignore_headers hide_headers pass_headers params set_headers);
        self.tls.inherit(&outer.tls);
    }
}

impl UpstreamTlsDraft {
    fn inherit(&mut self, outer: &UpstreamTlsDraft) {
        inherit!(self, outer;
            protocols ciphers conf_commands name server_name verify verify_depth
            trusted_certificate crl certificate certificate_key password_file certificate_cache
            session_reuse ktls);
    }
}

impl ProxyDraft {
    fn inherit(&mut self, outer: &ProxyDraft) {
        inherit!(self, outer; http_version method body pass_trailers);
        self.redirects.inherit(&outer.redirects);
        self.cookie_domains.inherit(&outer.cookie_domains);
        self.cookie_paths.inherit(&outer.cookie_paths);
        self.cookie_flags.inherit(&outer.cookie_flags);
    }
}

impl FastCgiDraft {
    fn inherit(&mut self, outer: &FastCgiDraft) {
        inherit!(self, outer; index split_path_info keep_conn catch_stderr);
    }
}

impl DubboDraft {
    fn inherit(&mut self, outer: &DubboDraft) {
        inherit!(self, outer; entries all_headers heartbeat_interval max_response_size);
    }
}

impl UwsgiDraft {
    fn inherit(&mut self, outer: &UwsgiDraft) {
        inherit!(self, outer; modifier1 modifier2 string);
    }
}

impl<T> RulesDraft<T> {
    fn inherit(&mut self, outer: &RulesDraft<T>) {
        if matches!(self, RulesDraft::Unset) {
            *self = match outer {
                RulesDraft::Unset => RulesDraft::Unset,
                RulesDraft::Off => RulesDraft::Off,
                RulesDraft::Rules(rules) => RulesDraft::Rules(rules.clone()),
            };
        }
    }

    fn rules(&self) -> List<T> {
        match self {
            RulesDraft::Rules(rules) => rules.clone(),
            RulesDraft::Unset | RulesDraft::Off => List::default(),
        }
    }
}

/// What nginx refuses on any level, whether requests are passed on there or not.
pub(super) fn check(draft: &PassingDraft) -> Result<(), Fault> {
    for family in Family::ALL {
        if has_buffers(family) {
            check_buffers(family, &Buffers::new(draft.of(family)))?;
        }
    }
    Ok(())
}

/// Whether responses wait in `*_buffers`.
fn has_buffers(family: Family) -> bool {
    use Family as F;
    matches!(family, F::Proxy | F::FastCgi | F::Uwsgi | F::Scgi)
}

/// Sizes of buffers with their defaults.
struct Buffers {
    first: u64,
    number: u32,
    size: u64,
    busy: u64,
    write: u64,
    max_file: u64,
}

impl Buffers {
    fn new(draft: &UpstreamDraft) -> Buffers {
        let first = draft.buffer_size.unwrap_or(BUFFER_BYTES);
        let (number, size) = draft.buffers.unwrap_or((8, BUFFER_BYTES));
        let two = 2 * first.max(size);
        Buffers {
            first,
            number,
            size,
            busy: draft.busy_buffers_size.unwrap_or(two),
            write: draft.temp_file_write_size.unwrap_or(two),
            max_file: draft.max_temp_file_size.unwrap_or(MAX_TEMP_FILE_BYTES),
        }
    }
}

fn check_buffers(family: Family, buffers: &Buffers) -> Result<(), Fault> {
    let one = buffers.first.max(buffers.size);
    let refuse = |message: String| Err(Fault::new(message));
    if buffers.number < 2 {
        return refuse(format!("there must be at least 2 \"{family}_buffers\""));
    }
    let largest = format!(
        "the maximum of the value of \"{family}_buffer_size\" and one of the \"{family}_buffers\""
    );
    if buffers.busy < one {
        return refuse(format!(
            "\"{family}_busy_buffers_size\" must be equal to or greater than {largest}"
        ));
    }
    if buffers.busy > u64::from(buffers.number - 1).saturating_mul(buffers.size) {
        return refuse(format!(
            "\"{family}_busy_buffers_size\" must be less than the size of all \"{family}_buffers\" \
             minus one buffer"
        ));
    }
    if buffers.write < one {
        return refuse(format!(
            "\"{family}_temp_file_write_size\" must be equal to or greater than {largest}"
        ));
    }
    if buffers.max_file != 0 && buffers.max_file < one {
        return refuse(format!(
            "\"{family}_max_temp_file_size\" must be equal to zero to disable temporary files \
             usage or must be equal to or greater than {largest}"
        ));
    }
    Ok(())
}

/// What hands requests on in a location. `draft` is merged already.
pub(super) fn pass(inherited: &Inherited<'_>, draft: &PassingDraft) -> Result<Option<Pass>, Fault> {
    let Some(family) = draft.answers else {
        return Ok(None);
    };
    let common = draft.of(family);
    let target = common
        .target
        .as_ref()
        .expect("whoever answers has a target");
    let secure = matches!(target, TargetDraft::Fixed(FixedTarget { tls: true, .. }));
    let upstream = settings(inherited, family, draft, target)?;
    let params = || params(common.params.as_deref().unwrap_or_default());
    Ok(Some(match family {
        Family::Proxy => Pass::Proxy(Arc::new(proxy(&draft.proxy, common, target, upstream))),
        Family::FastCgi => Pass::FastCgi(Arc::new(FastCgiPass {
            target: pass_target(target),
            upstream,
            params: params(),
            index: draft.fastcgi.index.clone().unwrap_or_default(),
            split_path_info: draft.fastcgi.split_path_info.clone(),
            keep_conn: draft.fastcgi.keep_conn.unwrap_or(false),
            catch_stderr: draft.fastcgi.catch_stderr.clone().unwrap_or_default(),
        })),
        Family::Uwsgi => Pass::Uwsgi(Arc::new(UwsgiPass {
            target: pass_target(target),
            secure,
            upstream,
            params: params(),
            modifier1: draft.uwsgi.modifier1.unwrap_or(0),
            modifier2: draft.uwsgi.modifier2.unwrap_or(0),
            string: draft.uwsgi.string.clone().unwrap_or_default(),
        })),
        Family::Scgi => Pass::Scgi(Arc::new(ScgiPass {
            target: pass_target(target),
            upstream,
            params: params(),
        })),
        Family::Grpc => Pass::Grpc(Arc::new(GrpcPass {
            target: pass_target(target),
            secure,
            host: match target {
                TargetDraft::Fixed(target) => target.host.clone(),
                TargetDraft::Evaluated(_) => Box::default(),
            },
            upstream,
            set_headers: set_headers(common.set_headers.as_deref(), GRPC_HEADERS),
        })),
        Family::Memcached => Pass::Memcached(Arc::new(MemcachedPass {
            target: pass_target(target),
            upstream: UpstreamSettings {
                // As in nginx; none of them is a directive.
                buffering: false,
                force_ranges: true,
                pass_request_body: false,
                ..upstream
            },
            key: draft.memcached.key.clone().expect("set with the target"),
            gzip_flag: draft.memcached.gzip_flag.unwrap_or(0),
        })),
        Family::Tunnel | Family::ProxyConnect => {
            Pass::Tunnel(Arc::new(tunnel(draft, family, target, upstream)))
        }
        Family::Dubbo => Pass::Dubbo(Arc::new(dubbo(&draft.dubbo, target, upstream))),
    }))
}

/// `proxy_pass` in a server of `stream`. Both drafts are merged already.
pub(super) fn stream_pass(
    inherited: &Inherited<'_>,
    draft: &PassingDraft,
    stream: &StreamDraft,
) -> Result<Option<Pass>, Fault> {
    let common = draft.of(Family::Proxy);
    let (Some(target), Some(StreamHandler::Proxy)) = (&common.target, &stream.handler) else {
        return Ok(None);
    };
    let upstream = settings(inherited, Family::Proxy, draft, target)?;
    let proxy = &stream.proxy;
    let tls = proxy.tls.unwrap_or(false);
    let tls = tls.then(|| tls_of(inherited.options, Family::Proxy, &common.tls));
    Ok(Some(Pass::Stream(Arc::new(StreamPass {
        target: pass_target(target),
        upstream: UpstreamSettings {
            next_upstream: match proxy.next_upstream.unwrap_or(true) {
                true => NextUpstream::DEFAULT,
                false => NextUpstream::NEVER,
            },
            buffer_bytes: common.buffer_size.unwrap_or(STREAM_BUFFER_BYTES),
            tls: tls.transpose()?.map(Arc::new),
            // There are no responses.
            busy_buffers_bytes: 0,
            temp_file_write_bytes: 0,
            cache: None,
            ..upstream
        },
        timeout: proxy.timeout.unwrap_or(10 * MINUTE),
        upload_rate: proxy.upload_rate.clone(),
        download_rate: proxy.download_rate.clone(),
        requests: proxy.requests.unwrap_or(0),
        responses: proxy.responses.filter(|count| *count != UNLIMITED),
        half_close: proxy.half_close.unwrap_or(false),
        alpn: proxy.alpn.clone().unwrap_or_default(),
    }))))
}

/// `tunnel_pass` or `proxy_connect`.
fn tunnel(
    draft: &PassingDraft,
    family: Family,
    target: &TargetDraft,
    upstream: UpstreamSettings,
) -> TunnelPass {
    // Nothing waits in a tunnel.
    let upstream = UpstreamSettings {
        buffering: false,
        ..upstream
    };
    if family == Family::Tunnel {
        return TunnelPass {
            target: pass_target(target),
            upstream,
            allows: draft.tunnel.finish(),
            connect: None,
        };
    }
    let draft = &draft.connect;
    let address = draft.address.as_ref().and_then(Option::as_ref);
    TunnelPass {
        target: pass_target(target),
        upstream: UpstreamSettings {
            // `proxy_connect_data_timeout`
            send_timeout: upstream.read_timeout,
            ..upstream
        },
        allows: draft.rules.finish(),
        connect: Some(ProxyConnect {
            address: address.cloned(),
            response: draft.response.clone(),
        }),
    }
}

fn dubbo(draft: &DubboDraft, target: &TargetDraft, upstream: UpstreamSettings) -> DubboPass {
    DubboPass {
        target: pass_target(target),
        upstream: UpstreamSettings {
            // The response is there as a whole before its head can be understood.
            buffering: false,
            ..upstream
        },
        method: draft.method.clone().expect("set with the target"),
        entries: draft.entries.clone().unwrap_or_default(),
        all_headers: draft.all_headers.unwrap_or(true),
        heartbeat_interval: draft.heartbeat_interval.unwrap_or(MINUTE),
        max_response_bytes: draft.max_response_size.unwrap_or(DUBBO_RESPONSE_BYTES),
    }
}

fn pass_target(target: &TargetDraft) -> PassTarget {
    match target {
        TargetDraft::Fixed(target) => PassTarget::Group(target.group),
        TargetDraft::Evaluated(url) => PassTarget::Evaluated(url.clone()),
    }
}

fn proxy(
    draft: &ProxyDraft,
    common: &UpstreamDraft,
    target: &TargetDraft,
    upstream: UpstreamSettings,
) -> ProxyPass {
    let http_version = draft.http_version.unwrap_or(ProxyHttpVersion::Http11);
    let defaults = match http_version {
        ProxyHttpVersion::Http2 => PROXY_HTTP2_HEADERS,
        ProxyHttpVersion::Http10 | ProxyHttpVersion::Http11 => PROXY_HEADERS,
    };
    ProxyPass {
        target: match target {
            TargetDraft::Fixed(target) => ProxyTarget::Url(proxy_url(target)),
            TargetDraft::Evaluated(url) => ProxyTarget::Evaluated(url.clone()),
        },
        upstream,
        http_version,
        method: draft.method.clone(),
        set_headers: set_headers(common.set_headers.as_deref(), defaults),
        body: draft.body.clone(),
        redirects: draft.redirects.rules(),
        cookie_domains: draft.cookie_domains.rules(),
        cookie_paths: draft.cookie_paths.rules(),
        cookie_flags: draft.cookie_flags.rules(),
    }
}

fn proxy_url(target: &FixedTarget) -> ProxyUrl {
    ProxyUrl {
        tls: target.tls,
        group: target.group,
        host: target.host.clone(),
        port: target.port.clone(),
        uri: match &*target.uri {
            [] => UriPart::AsReceived,
            uri => UriPart::Replaces {
                prefix_bytes: target.prefix.len(),
                uri: uri.into(),
            },
        },
    }
}

/// What all families have, for the location of a pass directive.
fn settings(
    inherited: &Inherited<'_>,
    family: Family,
    draft: &PassingDraft,
    target: &TargetDraft,
) -> Result<UpstreamSettings, Fault> {
    let options = inherited.options;
    let d = draft.of(family);
    let buffers = Buffers::new(d);
    let grpc = family == Family::Grpc;
    let may_have_tls = match target {
        TargetDraft::Fixed(target) => target.tls,
        TargetDraft::Evaluated(_) => {
            matches!(family, Family::Proxy | Family::Uwsgi | Family::Grpc)
        }
    };
    let tls = match may_have_tls {
        true => Some(Arc::new(tls_of(options, family, &d.tls)?)),
        false => None,
    };
    Ok(UpstreamSettings {
        family,
        connect_timeout: d.connect_timeout.unwrap_or(MINUTE),
        send_timeout: d.send_timeout.unwrap_or(MINUTE),
        read_timeout: d.read_timeout.unwrap_or(MINUTE),
        next_upstream: match d.next_upstream {
            None => NextUpstream::DEFAULT,
            Some(set) if set.contains(NextUpstreamCause::Off) => NextUpstream::NEVER,
            Some(set) => set,
        },
        next_upstream_tries: u32::try_from(d.next_upstream_tries.unwrap_or(0)).unwrap_or(u32::MAX),
        next_upstream_timeout: d.next_upstream_timeout.unwrap_or(Duration::ZERO),
        bind: d.bind.clone().flatten(),
        socket_keepalive: d.socket_keepalive.unwrap_or(false),
        // As in nginx, 0 is the system's size, too.
        socket_rcvbuf_bytes: d.socket_rcvbuf.filter(|bytes| *bytes > 0),
        socket_sndbuf_bytes: d.socket_sndbuf.filter(|bytes| *bytes > 0),
        tls,
        request_buffering: d.request_buffering.unwrap_or(true) && !grpc,
        pass_request_headers: d.pass_request_headers.unwrap_or(true),
        pass_request_body: d.pass_request_body.unwrap_or(true),
        ignore_client_abort: d.ignore_client_abort.unwrap_or(false),
        buffering: d.buffering.unwrap_or(true) && !grpc,
        buffer_bytes: buffers.first,
        buffers: (buffers.number, buffers.size),
        busy_buffers_bytes: buffers.busy,
        temp_path: d
            .temp_path
            .clone()
            .unwrap_or_else(|| default_temp_path(options, family)),
        max_temp_file_bytes: buffers.max_file,
        temp_file_write_bytes: buffers.write,
        limit_rate: d.limit_rate.clone(),
        force_ranges: d.force_ranges.unwrap_or(false),
        intercept_errors: d.intercept_errors.unwrap_or(false),
        store: match &d.store {
            None | Some(StoreDraft::Off) => None,
            Some(store) => Some(Store {
                path: match store {
                    StoreDraft::At(path) => Some(path.clone()),
                    _ => None,
                },
                access: d.store_access.unwrap_or(0o600),
            }),
        },
        cache: caching::settings(inherited.cache_zones, family, &d.cache),
        purge_method: caching::purge_method(&d.cache),
        ignore_headers: d.ignore_headers.unwrap_or_default(),
        hidden_headers: Arc::new(hidden_headers(family, d)),
        pass_trailers: match family {
            Family::Proxy => draft.proxy.pass_trailers.unwrap_or(false),
            Family::Grpc => true,
            _ => false,
        },
    })
}

fn default_temp_path(options: &Options, family: Family) -> Arc<TempPath> {
    let name = format!("{family}_temp");
    Arc::new(TempPath {
        path: options.temp.join(name),
        levels: [1, 2, 0],
    })
}

/// What nginx's modules hide unless it is passed.
fn hidden_by_default(family: Family) -> &'static [&'static str] {
    match family {
        Family::Proxy | Family::Dubbo => &["Date", "Server", "X-Pad"],
        Family::Grpc => &["Date", "Server"],
        Family::FastCgi | Family::Scgi => &["Status"],
        Family::Uwsgi | Family::Memcached | Family::Tunnel | Family::ProxyConnect => &[],
    }
}

/// Instructions of servers, which clients need not see.
const HIDDEN_INSTRUCTIONS: [&str; 5] = [
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// Tags of responses: only whoever purges by them has a use for them.
const TAGS: [&str; 2] = ["Surrogate-Key", "Cache-Tag"];

fn hidden_headers(family: Family, draft: &UpstreamDraft) -> HiddenHeaders {
    let tags: &[&str] = match &draft.cache.purge_tags {
        Some(values) if !values.is_empty() => &TAGS,
        _ => &[],
    };
    let hidden = draft.hide_headers.as_deref().unwrap_or_default();
    let passed = draft.pass_headers.as_deref().unwrap_or_default();
    let defaults = hidden_by_default(family).iter().chain(&HIDDEN_INSTRUCTIONS);
    let names = defaults
        .chain(tags)
        .map(|name| name.as_bytes())
        .chain(hidden.iter().map(|name| &**name));
    HiddenHeaders::new(names.filter(|name| {
        !passed
            .iter()
            .any(|passed| passed.eq_ignore_ascii_case(name))
    }))
}

/// A default header field: its name and, unless it is only taken from the
/// client's, its value.
type DefaultHeader = (&'static str, Option<Builtin>);

const PROXY_HEADERS: &[DefaultHeader] = &[
    ("Host", Some(Builtin::ProxyHost)),
    ("Connection", None),
    ("Proxy-Connection", None),
    ("Content-Length", Some(Builtin::ProxyInternalBodyLength)),
    ("Transfer-Encoding", Some(Builtin::ProxyInternalChunked)),
    ("TE", None),
    ("Keep-Alive", None),
    ("Expect", None),
    ("Upgrade", None),
];

/// The host is `:authority`, and the end of a body is in its frames (RFC 9113
/// section 8.2.2).
const PROXY_HTTP2_HEADERS: &[DefaultHeader] = &[
    ("Host", None),
    ("Connection", None),
    ("Proxy-Connection", None),
    ("Content-Length", Some(Builtin::ProxyInternalBodyLength)),
    ("Transfer-Encoding", None),
    ("TE", None),
    ("Keep-Alive", None),
    ("Expect", None),
    ("Upgrade", None),
];

const GRPC_HEADERS: &[DefaultHeader] = &[
    ("Content-Length", Some(Builtin::ContentLength)),
    ("TE", Some(Builtin::GrpcInternalTrailers)),
    ("Host", None),
    ("Connection", None),
    ("Transfer-Encoding", None),
    ("Keep-Alive", None),
    ("Expect", None),
    ("Upgrade", None),
];

fn set_headers(written: Option<&[SetHeader]>, defaults: &[DefaultHeader]) -> Arc<SetHeaders> {
    let written = written.unwrap_or_default();
    let is = |name: &str, header: &SetHeader| header.name.eq_ignore_ascii_case(name.as_bytes());
    let missing = defaults
        .iter()
        .filter(|(name, _)| !written.iter().any(|header| is(name, header)));
    // As in nginx, of several hosts the last one holds.
    let last_host = written.iter().rposition(|header| is("Host", header));
    let mut fields: Vec<SetHeader> = written
        .iter()
        .enumerate()
        .filter(|(index, header)| !is("Host", header) || Some(*index) == last_host)
        .filter(|(_, header)| !header.value.is_empty() || is("Host", header))
        .map(|(_, header)| header.clone())
        .collect();
    fields.extend(missing.filter_map(|(name, value)| {
        Some(SetHeader {
            name: name.as_bytes().into(),
            value: Template::new(vec![Part::Variable(Variable::Builtin((*value)?))]),
        })
    }));
    // The host goes first (RFC 9110 section 7.2); the others stay in their order.
    fields.sort_by_key(|header| !is("Host", header));
    let names = written.iter().map(|header| &*header.name);
    let names = names.chain(defaults.iter().map(|(name, _)| name.as_bytes()));
    Arc::new(SetHeaders {
        fields,
        replaced: sorted_lower(names),
    })
}

/// The prefix of a parameter that replaces a header field.
const HTTP_PARAM: &[u8] = b"HTTP_";

/// The parameter that every request has unless one of that name is configured: the requested
/// host, wherever the client names it (nginx 1.29.5).
const HOST_PARAM: &[u8] = b"HTTP_HOST";

fn host_param() -> Param {
    let parts = [Builtin::Host, Builtin::IsRequestPort, Builtin::RequestPort];
    let parts = parts.map(|part| Part::Variable(Variable::Builtin(part)));
    Param {
        name: HOST_PARAM.into(),
        value: Template::new(parts.into()),
        if_not_empty: true,
    }
}

fn params(written: &[Param]) -> Arc<Params> {
    let mut written = written.to_vec();
    if !written
        .iter()
        .any(|param| param.name.eq_ignore_ascii_case(HOST_PARAM))
    {
        written.push(host_param());
    }
    let header = |param: &Param| -> Option<Box<[u8]>> {
        let name = param.name.strip_prefix(HTTP_PARAM)?;
        (!name.is_empty()).then(|| name.into())
    };
    let headers: Vec<Box<[u8]>> = written.iter().filter_map(header).collect();
    // One that is only there to take a header field away is not sent.
    let sent = written
        .iter()
        .filter(|param| !(param.value.is_empty() && header(param).is_some()));
    Arc::new(Params {
        params: sent.cloned().collect(),
        replaced_headers: sorted_lower(headers.iter().map(|name| &**name)),
    })
}

fn sorted_lower<'n>(names: impl Iterator<Item = &'n [u8]>) -> Vec<Box<[u8]>> {
    let mut names: Vec<Box<[u8]>> = names.map(|name| name.to_ascii_lowercase().into()).collect();
    names.sort();
    names.dedup();
    names
}

fn tls_of(
    options: &Options,
    family: Family,
    draft: &UpstreamTlsDraft,
) -> Result<UpstreamTls, Fault> {
    let verify = draft.verify.unwrap_or(false);
    let mut certificate = certificate(options, family, draft)?;
    let named = match &certificate {
        Some(UpstreamCertificate::Files(files)) => Some(files),
        _ => None,
    };
    let sorted = certificates::of_commands(
        options,
        &format!("{family}_ssl_conf_command"),
        draft.conf_commands.as_deref().unwrap_or_default(),
        named,
    )?;
    // One that has variables is used for its connection, whatever the commands say.
    if !matches!(certificate, Some(UpstreamCertificate::Evaluated { .. })) {
        let commanded = sorted.certificates.last().cloned();
        certificate = commanded.map(UpstreamCertificate::Files).or(certificate);
    }
    let present = |path: &Option<std::path::PathBuf>| {
        let path = path.as_ref();
        path.filter(|path| !path.as_os_str().is_empty()).cloned()
    };
    let trusted_certificate = present(&draft.trusted_certificate);
    if verify && trusted_certificate.is_none() {
        return Err(Fault::whole(format!(
            "no {family}_ssl_trusted_certificate for {family}_ssl_verify"
        )));
    }
    Ok(UpstreamTls {
        protocols: draft.protocols.unwrap_or(TlsProtocols {
            tls_1_2: true,
            tls_1_3: true,
            ..TlsProtocols::default()
        }),
        ciphers: draft.ciphers.clone().unwrap_or_else(|| "DEFAULT".into()),
        conf_commands: sorted.rest,
        name: draft.name.clone(),
        server_name: draft.server_name.unwrap_or(false),
        verify,
        verify_depth: u32::try_from(draft.verify_depth.unwrap_or(1)).unwrap_or(u32::MAX),
        trusted_certificate,
        crl: present(&draft.crl),
        certificate,
        password_file: present(&draft.password_file),
        certificate_cache: draft.certificate_cache.flatten(),
        session_reuse: draft.session_reuse.unwrap_or(true),
        ktls: draft.ktls.unwrap_or_default(),
    })
}

fn certificate(
    options: &Options,
    family: Family,
    draft: &UpstreamTlsDraft,
) -> Result<Option<UpstreamCertificate>, Fault> {
    let written = draft.certificate.as_ref();
    let Some(certificate) = written.filter(|certificate| !certificate.is_empty()) else {
        return Ok(None);
    };
    let Some(key) = &draft.certificate_key else {
        let shown = certificate.as_literal().map(shown).unwrap_or_default();
        return Err(Fault::whole(format!(
            "no \"{family}_ssl_certificate_key\" is defined for certificate \"{shown}\""
        )));
    };
    Ok(Some(match (certificate.as_literal(), key.as_literal()) {
        (Some(certificate), Some(key)) => UpstreamCertificate::Files(CertificateFiles {
            certificate: certificate_source(options, certificate),
            key: key_source(options, key),
        }),
        _ => UpstreamCertificate::Evaluated {
            certificate: certificate.clone(),
            key: key.clone(),
        },
    }))
}
