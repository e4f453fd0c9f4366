//! The target of a request: a group of servers, and the URI to request from them.

use super::request;
use super::{GroupRuntime, PassRuntime, tunnel};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{Pass, PassTarget, ProxyTarget, Template};
use sealane_conf::upstream_url::{HostKind, UpstreamUrl};
use sealane_http::StatusCode;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The target of one request.
pub(crate) struct Target {
    /// The group.
    pub(crate) group: Arc<GroupRuntime>,
    /// The URI, in HTTP; empty for the gateway protocols.
    pub(crate) uri: Vec<u8>,
    /// Over TLS.
    pub(crate) tls: bool,
    /// `$proxy_host`.
    pub(crate) host: Arc<str>,
    /// `$proxy_port`.
    pub(crate) port: Arc<str>,
}

impl Target {
    /// The target of a request in a location with this pass.
    ///
    /// # Errors
    /// A status when the variables of the directive make no sense, or the name that
    /// they make cannot be resolved; the reason is logged.
    pub(crate) async fn of(
        exchange: &mut Exchange,
        pass: &PassRuntime,
    ) -> Result<Target, StatusCode> {
        if let Some(group) = &pass.group {
            let uri = match &pass.pass {
                Pass::Proxy(proxy) => match &proxy.target {
                    ProxyTarget::Url(url) => request::target(exchange, &url.uri),
                    ProxyTarget::Evaluated(_) => Vec::new(),
                },
                _ => Vec::new(),
            };
            return Ok(Target {
                group: group.clone(),
                uri,
                tls: pass.tls_by_default,
                host: pass.host.clone(),
                port: pass.port.clone(),
            });
        }
        match &pass.pass {
            Pass::Proxy(proxy) => match &proxy.target {
                ProxyTarget::Evaluated(template) => {
                    Box::pin(evaluated(exchange, pass, template)).await
                }
                ProxyTarget::Url(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
            },
            Pass::FastCgi(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Uwsgi(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Scgi(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Grpc(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Memcached(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Tunnel(tunnel) => Box::pin(tunnel::evaluated(exchange, pass, tunnel)).await,
            Pass::Dubbo(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
            Pass::Stream(pass_) => Box::pin(gateway(exchange, pass, &pass_.target)).await,
        }
    }
}

impl Target {
    /// How URLs of the target begin in error-log lines.
    pub(crate) fn scheme(&self, pass: &PassRuntime) -> &'static str {
        match (&pass.pass, self.tls) {
            (Pass::Proxy(_), false) => "http://",
            (Pass::Proxy(_), true) => "https://",
            (Pass::FastCgi(_), _) => "fastcgi://",
            (Pass::Uwsgi(_), false) => "uwsgi://",
            (Pass::Uwsgi(_), true) => "suwsgi://",
            (Pass::Scgi(_), _) => "scgi://",
            (Pass::Grpc(_), false) => "grpc://",
            (Pass::Grpc(_), true) => "grpcs://",
            (Pass::Memcached(_), _) => "memcached://",
            (Pass::Tunnel(_) | Pass::Stream(_), _) => "",
            (Pass::Dubbo(_), _) => "dubbo://",
        }
    }
}

/// `proxy_pass` with variables.
async fn evaluated(
    exchange: &Exchange,
    pass: &PassRuntime,
    template: &Template,
) -> Result<Target, StatusCode> {
    let url = template::evaluate(template, exchange);
    let (rest, tls) = if let Some(rest) = strip_scheme(&url, b"http://") {
        (rest, false)
    } else if let Some(rest) = strip_scheme(&url, b"https://") {
        (rest, true)
    } else {
        let url = url.escape_ascii();
        log_request!(exchange, Error, "invalid URL prefix in \"{url}\"");
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let scheme_port = if tls { 443 } else { 80 };
    let url = parse(
        exchange,
        rest,
        scheme_port,
        sealane_conf::upstream_url::UriPart::Allowed,
    )?;
    let uri = match url.uri {
        [] => request::target(exchange, &sealane_conf::model::UriPart::AsReceived),
        // Unchanged, except that a missing path before the arguments is added.
        [b'?', ..] => [b"/", url.uri].concat(),
        uri => uri.to_vec(),
    };
    let port: Arc<str> = match url.kind {
        HostKind::Unix => "".into(),
        _ => url.port.to_string().into(),
    };
    Ok(Target {
        uri,
        tls,
        host: url.host_header(scheme_port).into(),
        port,
        group: group_of(exchange, pass, &url).await?,
    })
}

/// `fastcgi_pass` and its like with variables.
async fn gateway(
    exchange: &Exchange,
    pass: &PassRuntime,
    target: &PassTarget,
) -> Result<Target, StatusCode> {
    let PassTarget::Evaluated(template) = target else {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let text = template::evaluate(template, exchange);
    let (rest, tls) = match &pass.pass {
        Pass::Uwsgi(_) => without_scheme(&text, b"uwsgi://", b"suwsgi://"),
        Pass::Grpc(_) => without_scheme(&text, b"grpc://", b"grpcs://"),
        Pass::Stream(stream) => (&text[..], stream.upstream.tls.is_some()),
        _ => (&text[..], false),
    };
    let url = parse(
        exchange,
        rest,
        0,
        sealane_conf::upstream_url::UriPart::Refused,
    )?;
    Ok(Target {
        uri: Vec::new(),
        tls,
        host: url.host_header(0).into(),
        port: url.port.to_string().into(),
        group: group_of(exchange, pass, &url).await?,
    })
}

fn strip_scheme<'t>(text: &'t [u8], scheme: &[u8]) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn without_scheme<'t>(text: &'t [u8], plain: &[u8], secure: &[u8]) -> (&'t [u8], bool) {
    if let Some(rest) = strip_scheme(text, secure) {
        return (rest, true);
    }
    (strip_scheme(text, plain).unwrap_or(text), false)
}

pub(super) fn parse<'t>(
    exchange: &Exchange,
    text: &'t [u8],
    default_port: u16,
    uri_part: sealane_conf::upstream_url::UriPart,
) -> Result<UpstreamUrl<'t>, StatusCode> {
    UpstreamUrl::parse(text, default_port, uri_part).map_err(|error| {
        let text = text.escape_ascii();
        log_request!(exchange, Error, "{error} in upstream \"{text}\"");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

/// The group for a URL: a block of that name, a host that was resolved at start, the address
/// itself, or what the name resolves to.
pub(super) async fn group_of(
    exchange: &Exchange,
    pass: &PassRuntime,
    url: &UpstreamUrl<'_>,
) -> Result<Arc<GroupRuntime>, StatusCode> {
    let port = url.port;
    let is_written = url.port_text.is_some();
    let kind = exchange.kind();
    if url.kind == HostKind::Name
        && let Some(group) = (exchange.snapshot).group_named(kind, url.host, port, is_written)
    {
        return Ok(group);
    }
    if url.kind != HostKind::Unix && port == 0 {
        log_request!(exchange, Error, "no port in upstream \"{}\"", url.host);
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let addresses = match url.kind {
        HostKind::Unix => vec![sealane_upstream::PeerAddress::Unix(PathBuf::from(url.host))],
        HostKind::Address(ip) => vec![SocketAddr::new(ip, port).into()],
        HostKind::Name => {
            let addresses = resolve(exchange, pass, url.host).await?;
            let peer = |ip: &IpAddr| SocketAddr::new(*ip, port).into();
            addresses.iter().map(peer).collect()
        }
    };
    let addresses = tunnel::allowed(exchange, pass, addresses)?;
    Ok(Arc::new(GroupRuntime::for_one_request(url.host, addresses)))
}

async fn resolve(
    exchange: &Exchange,
    pass: &PassRuntime,
    name: &str,
) -> Result<sealane_upstream::resolve::Addresses, StatusCode> {
    let Some(resolver) = &pass.resolver else {
        log_request!(exchange, Error, "no resolver defined to resolve {name}");
        return Err(StatusCode::BAD_GATEWAY);
    };
    resolver.lookup(name).await.map_err(|error| {
        log_request!(exchange, Error, "{name} could not be resolved ({error})");
        StatusCode::BAD_GATEWAY
    })
}
