//! Groups of servers at run time, built from the configuration.

use super::health;
use super::live::{Changing, LiveGroups};
use super::peer_connection::{self, PeerConnection};
use super::shared::{SharedConnections, SharedSettings};
use super::sticky::StickyRuntime;
use super::{GroupRuntime, PassRuntime};
use crate::materials::Materials;
use sealane_conf::Config;
use sealane_conf::model::{
    self, BalanceMethod, BetterOfTwo, GroupRef, LocationConf, ServerKind, Sticky, Upstream,
    UpstreamKeepalive, UpstreamPeers, UpstreamServer,
};
use sealane_tls::SharedSessions;
use sealane_upstream::{
    CheckSettings, Group, GroupSettings, IdlePool, KeepaliveSettings, LeastTime, LookupName,
    Method, PeerAddress, QueueSettings, ServerSettings, TimeUntil,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// All groups of a configuration.
#[derive(Default)]
pub(crate) struct Groups {
    /// In the order of [`sealane_conf::model::Http::upstreams`].
    all: Vec<Arc<GroupRuntime>>,
    /// Groups that variables can name: `upstream` blocks by their name in lower case, and hosts
    /// that a pass directive names, which were resolved at start, with their port.
    by_name: HashMap<(ServerKind, String, Option<u16>), usize>,
    /// Groups that no configuration has, which outlive this one.
    live: Arc<LiveGroups>,
}

impl Groups {
    /// The groups of a configuration, for this many worker threads. Groups that existed `before`
    /// keep the state of their servers and the idle connections. `stores` are those of the groups.
    pub(crate) fn build(
        config: &Config,
        threads: usize,
        before: Option<&Groups>,
        stores: &[Option<SharedSessions>],
    ) -> Groups {
        let mut groups = Groups {
            live: before.map_or_else(Arc::default, |before| Arc::clone(&before.live)),
            ..Groups::default()
        };
        let Some(http) = &config.http else {
            return groups;
        };
        for (at, upstream) in http.upstreams.iter().enumerate() {
            let checks = health::settings(http, GroupRef(at), upstream);
            let port = implied_port(upstream);
            if upstream.explicit || port.is_some() {
                let name = upstream.name.to_ascii_lowercase();
                let number = groups.all.len();
                let key = (upstream.kind, name, port);
                groups.by_name.entry(key).or_insert(number);
            }
            let before = before.and_then(|before| before.like(upstream));
            let store = stores.get(at).cloned().flatten();
            groups
                .all
                .push(Arc::new(runtime(upstream, checks, threads, before, store)));
        }
        groups
    }

    /// The group with that name and the same definition.
    fn like(&self, upstream: &Upstream) -> Option<&GroupRuntime> {
        let mut all = self.all.iter();
        let found = all.find(|group| {
            group.kind == upstream.kind
                && group.explicit == upstream.explicit
                && *group.group.name() == *upstream.name
        });
        found.map(Arc::as_ref)
    }

    /// The group for a host and port; names are compared without case. As in nginx, an `upstream`
    /// block matches only if no port `is_written`. A host that some pass directive names with the
    /// same port has the addresses found for that.
    pub(crate) fn named(
        &self,
        kind: ServerKind,
        host: &str,
        port: u16,
        is_written: bool,
    ) -> Option<Arc<GroupRuntime>> {
        let host = host.to_ascii_lowercase();
        let index_of = |port| self.by_name.get(&(kind, host.clone(), port));
        let group = |at: &usize| self.all.get(*at).cloned();
        let block = if is_written {
            None
        } else {
            let configured = index_of(None).and_then(group);
            let is_http = kind == ServerKind::Http;
            configured.or_else(|| is_http.then(|| self.live.named(&host)).flatten())
        };
        block.or_else(|| index_of(Some(port)).and_then(group))
    }

    /// The `upstream` block of `http` with that name, which is compared without case.
    pub(crate) fn block(&self, name: &str) -> Option<&Arc<GroupRuntime>> {
        let key = (ServerKind::Http, name.to_ascii_lowercase(), None);
        let at = self.by_name.get(&key)?;
        self.all.get(*at)
    }

    /// Groups that no configuration has.
    pub(crate) fn live(&self) -> &Arc<LiveGroups> {
        &self.live
    }

    /// This configuration is in use from now on: takes over what was changed while it was built.
    pub(crate) fn follow_changes(&self) {
        self.live.give_way_to(self);
        for group in &self.all {
            group.group.follow_servers();
        }
    }

    /// Whether a thread has idle connections to check.
    pub(crate) fn has_idle(&self, thread: u32) -> bool {
        self.every().any(|group| group.idle.has_any(thread))
    }

    /// Closes a thread's idle connections that have timed out, or that peers have closed.
    pub(crate) fn sweep(&self, thread: u32) {
        let now = Instant::now();
        for group in self.every() {
            let closing = group.idle.sweep(thread, now, PeerConnection::is_quiet);
            closing.into_iter().for_each(peer_connection::close);
        }
    }

    /// All groups of the configuration.
    pub(crate) fn all(&self) -> &[Arc<GroupRuntime>] {
        &self.all
    }

    /// Groups that requests can be passed to.
    pub(crate) fn of_http(&self) -> impl Iterator<Item = Arc<GroupRuntime>> {
        self.every().filter(|group| group.kind == ServerKind::Http)
    }

    /// All groups, also those that no configuration has.
    pub(crate) fn every(&self) -> impl Iterator<Item = Arc<GroupRuntime>> {
        self.all.iter().cloned().chain(self.live.all())
    }

    /// The group with this number in the configuration.
    pub(crate) fn get(&self, number: usize) -> Option<&Arc<GroupRuntime>> {
        self.all.get(number)
    }

    /// The group of a location's pass directive; `number` is the location's.
    pub(crate) fn pass(
        &self,
        conf: &LocationConf,
        number: u32,
        materials: &Materials,
    ) -> Option<PassRuntime> {
        let pass = conf.pass.clone()?;
        let group = pass.group().map(|group| self.all[group.0].clone());
        let resolver = conf.resolver.as_ref().and_then(|resolver| {
            let answers = materials.resolver(resolver, conf.resolver_timeout);
            answers.cloned()
        });
        Some(PassRuntime::new(pass, group, resolver, number))
    }
}

/// The port of a group that a pass directive defines by naming a host.
fn implied_port(upstream: &Upstream) -> Option<u16> {
    let peers = &upstream.servers.first()?.peers;
    match peers {
        UpstreamPeers::Fixed(addresses) if !upstream.explicit => match addresses.first()? {
            model::PeerAddress::Inet(address) => Some(address.port()),
            model::PeerAddress::Unix(_) => None,
        },
        _ => None,
    }
}

pub(super) fn runtime(
    upstream: &Upstream,
    checks: Arc<[CheckSettings]>,
    threads: usize,
    before: Option<&GroupRuntime>,
    store: Option<SharedSessions>,
) -> GroupRuntime {
    let (method, hash_key) = method(&upstream.method);
    let settings = GroupSettings {
        name: upstream.name.to_string(),
        counted_as: match upstream.kind {
            ServerKind::Http => (&*upstream.name).into(),
            kind => format!("{}:{}", kind.name(), upstream.name).into(),
        },
        servers: servers(upstream),
        method,
        checks,
        zone: upstream.zone.is_some(),
        keepalive: keepalive(&upstream.keepalive),
        queue: upstream.queue.map(|queue| QueueSettings {
            limit: queue.limit as usize,
            timeout: queue.timeout,
        }),
    };
    let changing = Changing::of(upstream, before.map(|before| &before.changing));
    let kept = before.filter(|before| before.idle.is_for(settings.keepalive, threads));
    let sharing = SharedSettings {
        connections: upstream.multi,
        idle_timeout: upstream.keepalive.timeout,
    };
    let shared = before.filter(|before| before.shared.is_for(sharing, threads));
    GroupRuntime {
        shared: match shared {
            Some(before) => before.shared.clone(),
            None => Arc::new(SharedConnections::new(sharing, threads)),
        },
        idle: match kept {
            Some(before) => before.idle.clone(),
            None => Arc::new(IdlePool::new(settings.keepalive, threads)),
        },
        group: match before.filter(|before| changing.shares_servers(&before.changing)) {
            Some(before) => Group::sharing_servers(settings, threads, &before.group),
            None => Group::after(settings, threads, before.map(|before| &before.group)),
        },
        kind: upstream.kind,
        explicit: upstream.explicit,
        sticky: upstream.sticky.as_ref().map(|conf| {
            let before = before.and_then(|before| before.sticky.as_ref());
            StickyRuntime::new(conf, before, store.as_ref())
        }),
        store,
        times_connecting: measures_connecting(&upstream.method),
        hash_key,
        local: upstream.keepalive.local,
        changing,
        ntlm: upstream.ntlm,
    }
}

fn method(method: &BalanceMethod) -> (Method, Option<model::Template>) {
    let method = match method {
        BalanceMethod::RoundRobin => Method::RoundRobin,
        BalanceMethod::Vnswrr { max_init } => Method::Vnswrr {
            max_init: max_init.unwrap_or(0),
        },
        BalanceMethod::LeastConn => Method::LeastConn,
        BalanceMethod::LeastTime { until, inflight } => {
            Method::LeastTime(least_time(*until, *inflight))
        }
        BalanceMethod::IpHash => Method::IpHash,
        BalanceMethod::Hash { key, consistent } => {
            let method = match consistent {
                true => Method::ConsistentHash,
                false => Method::Hash,
            };
            return (method, Some(key.clone()));
        }
        BalanceMethod::Random { two: None } => Method::Random,
        BalanceMethod::Random { two: Some(two) } => match two {
            BetterOfTwo::FewerConnections => Method::RandomTwo,
            BetterOfTwo::LessTime { until } => Method::RandomTwoByTime(least_time(*until, false)),
        },
    };
    (method, None)
}

/// Whether it is the time until a connection stands that matters.
fn measures_connecting(method: &BalanceMethod) -> bool {
    let until = match method {
        BalanceMethod::LeastTime { until, .. } => Some(*until),
        BalanceMethod::Random {
            two: Some(BetterOfTwo::LessTime { until }),
        } => Some(*until),
        _ => None,
    };
    until == Some(model::TimeUntil::Connect)
}

fn least_time(until: model::TimeUntil, inflight: bool) -> LeastTime {
    LeastTime {
        until: match until {
            // A session notes one of the two.
            model::TimeUntil::Connect | model::TimeUntil::Header => TimeUntil::Header,
            model::TimeUntil::LastByte => TimeUntil::LastByte,
        },
        inflight,
    }
}

/// The servers of a block: one for each address, so that each can be changed by itself.
pub(super) fn servers(upstream: &Upstream) -> Vec<ServerSettings> {
    let (lines, sticky) = (upstream.servers.iter(), upstream.sticky.as_ref());
    let servers = lines.flat_map(|line| match &line.peers {
        UpstreamPeers::Fixed(addresses) => {
            let servers = addresses.iter();
            let servers = servers.map(|to| server(line, vec![address(to)], sticky));
            servers.collect::<Vec<_>>()
        }
        UpstreamPeers::Resolved { .. } => vec![server(line, Vec::new(), sticky)],
    });
    servers.collect()
}

fn server(
    server: &UpstreamServer,
    addresses: Vec<PeerAddress>,
    sticky: Option<&Sticky>,
) -> ServerSettings {
    let session = match sticky {
        Some(Sticky::Session(session)) => Some(session),
        _ => None,
    };
    ServerSettings {
        added: false,
        name: server.name.to_string(),
        addresses,
        weight: server.weight,
        max_conns: server.max_conns.unwrap_or(0),
        max_fails: server.max_fails,
        fail_timeout: server.fail_timeout,
        slow_start: server.slow_start,
        backup: server.backup,
        down: server.down,
        drain: server.drain,
        lookup: match &server.peers {
            UpstreamPeers::Fixed(_) => None,
            UpstreamPeers::Resolved {
                host,
                port,
                service,
            } => Some(LookupName {
                host: host.to_string(),
                port: *port,
                service: service.as_deref().map(str::to_owned),
            }),
        },
        // As in Tengine, a hash is always that of the address.
        route: server
            .route
            .clone()
            .filter(|_| session.is_none_or(|session| session.plain)),
        plain_id: session.is_some_and(|session| session.plain),
    }
}

pub(crate) fn address(address: &model::PeerAddress) -> PeerAddress {
    match address {
        model::PeerAddress::Inet(address) => PeerAddress::Ip(*address),
        model::PeerAddress::Unix(path) => PeerAddress::Unix(path.clone()),
    }
}

fn keepalive(keepalive: &UpstreamKeepalive) -> KeepaliveSettings {
    KeepaliveSettings {
        connections: keepalive.connections as usize,
        requests: keepalive.requests,
        time: keepalive.time,
        timeout: keepalive.timeout,
    }
}
