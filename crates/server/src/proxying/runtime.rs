//! A location's pass directive at run time, built once per snapshot.

use super::live::Changing;
use super::shared::{SharedConnections, SharedSettings};
use super::tls_settings::{PeerTls, Secured};
use super::{GroupRuntime, knows_chunks, rewrite};
use crate::exchange::Exchange;
use sealane_conf::model::{
    Pass, ProxyHttpVersion, ProxyTarget, ServerKind, Template, UpstreamSettings,
};
use sealane_http::headers::KnownHeader;
use sealane_upstream::pool::ConnectionKey;
use sealane_upstream::resolve::Resolve;
use sealane_upstream::{
    Group, GroupSettings, IdlePool, KeepaliveSettings, Method, PeerAddress, ServerSettings,
};
use std::sync::Arc;

/// A location's pass directive at run time.
pub(crate) struct PassRuntime {
    /// The configuration.
    pub(crate) pass: Pass,
    /// The target, unless it has variables.
    pub(crate) group: Option<Arc<GroupRuntime>>,
    /// TLS to that group.
    pub(crate) tls_by_default: bool,
    /// `$proxy_host`, unless it has variables.
    pub(crate) host: Arc<str>,
    /// `$proxy_port`, likewise.
    pub(crate) port: Arc<str>,
    /// Resolves names that come from variables.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
    /// Distinguishes its connections from those of other locations.
    local_key: ConnectionKey,
    /// Distinguishes its connections from others to the same group.
    shared_key: ConnectionKey,
    /// The TLS settings for the peers, if it may be used.
    pub(super) tls: Option<PeerTls>,
    /// The TLS of every connection, if no request can change it.
    pub(super) secured_alike: Option<Arc<Secured>>,
}

impl PassRuntime {
    /// The pass of the location with this number.
    pub(crate) fn new(
        pass: Pass,
        group: Option<Arc<GroupRuntime>>,
        resolver: Option<Arc<dyn Resolve>>,
        location: u32,
    ) -> PassRuntime {
        let (host, port, tls_by_default) = match &pass {
            Pass::Proxy(proxy) => match &proxy.target {
                ProxyTarget::Url(url) => (&*url.host, &*url.port, url.tls),
                ProxyTarget::Evaluated(_) => ("", "", false),
            },
            Pass::Uwsgi(uwsgi) => ("", "", uwsgi.secure),
            Pass::Grpc(grpc) => (&*grpc.host, "", grpc.secure),
            Pass::Stream(stream) => ("", "", stream.upstream.tls.is_some()),
            Pass::FastCgi(_)
            | Pass::Scgi(_)
            | Pass::Memcached(_)
            | Pass::Tunnel(_)
            | Pass::Dubbo(_) => ("", "", false),
        };
        let family = match &pass {
            // A connection has one protocol for its whole life.
            Pass::Proxy(proxy) if proxy.http_version == ProxyHttpVersion::Http2 => "proxy-h2",
            pass => pass.upstream().family.name(),
        };
        PassRuntime {
            host: host.into(),
            port: port.into(),
            tls_by_default,
            local_key: format!("{family} {location}").into_bytes().into(),
            shared_key: family.as_bytes().into(),
            tls: None,
            secured_alike: None,
            pass,
            group,
            resolver,
        }
    }

    /// `$proxy_host` as configured.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// `$proxy_port` as configured.
    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// What all families have.
    pub(crate) fn settings(&self) -> &UpstreamSettings {
        self.pass.upstream()
    }

    /// Whether HTTP/2 is spoken with the peers.
    pub(crate) fn speaks_http2(&self) -> bool {
        match &self.pass {
            Pass::Grpc(_) => true,
            Pass::Proxy(proxy) => proxy.http_version == ProxyHttpVersion::Http2,
            _ => false,
        }
    }

    /// The key of an idle connection, or of one that requests share.
    pub(crate) fn connection_key(&self, group: &GroupRuntime) -> ConnectionKey {
        let is_shared = matches!(self.pass, Pass::Dubbo(_));
        // The client's other requests come to other locations.
        match group.local && !is_shared && !group.ntlm {
            true => self.local_key.clone(),
            false => self.shared_key.clone(),
        }
    }

    /// `proxy_set_body`: what is sent instead of the request's body.
    pub(crate) fn replacing_body(&self) -> Option<&Template> {
        match &self.pass {
            Pass::Proxy(proxy) => proxy.body.as_ref(),
            _ => None,
        }
    }

    /// Whether a body can be streamed: its length is known, or the protocol does not need it.
    pub(crate) fn can_stream(&self, exchange: &Exchange) -> bool {
        use sealane_http::h1::Framing;
        let has_length = matches!(exchange.request.head.framing, Framing::Length(_));
        match &self.pass {
            Pass::Proxy(proxy) => has_length || knows_chunks(proxy),
            // FastCGI marks the end of the stream, but programs need the length.
            Pass::FastCgi(_) | Pass::Grpc(_) => true,
            Pass::Uwsgi(_) | Pass::Scgi(_) => has_length,
            // Nothing is sent of it.
            Pass::Memcached(_) | Pass::Tunnel(_) | Pass::Stream(_) => false,
            // A frame begins with its length.
            Pass::Dubbo(_) => false,
        }
    }

    /// Applies `proxy_redirect` and `proxy_cookie_*` to a header's value.
    pub(crate) fn rewrite_header(
        &self,
        exchange: &mut Exchange,
        name: KnownHeader,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        match &self.pass {
            Pass::Proxy(proxy) => rewrite::rewrite(exchange, proxy, name, value),
            _ => None,
        }
    }
}

impl GroupRuntime {
    /// A group of addresses that were resolved for one request.
    pub(crate) fn for_one_request(name: &str, addresses: Vec<PeerAddress>) -> GroupRuntime {
        let settings = GroupSettings {
            name: name.to_owned(),
            counted_as: name.into(),
            servers: vec![ServerSettings::new(name, addresses)],
            method: Method::RoundRobin,
            checks: Arc::default(),
            zone: false,
            keepalive: KeepaliveSettings::OFF,
            queue: None,
        };
        GroupRuntime {
            sticky: None,
            store: None,
            idle: Arc::new(IdlePool::new(settings.keepalive, 1)),
            shared: Arc::new(SharedConnections::new(SharedSettings::DEFAULT, 1)),
            group: Group::new(settings, 1),
            kind: ServerKind::Http,
            explicit: false,
            times_connecting: false,
            hash_key: None,
            local: false,
            changing: Changing::default(),
            ntlm: false,
        }
    }
}
