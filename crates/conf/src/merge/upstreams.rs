//! Groups of servers: what can be checked, and looked up, only once the whole
//! `http` block is known.

use super::HttpLevel;
use super::locations::RESOLVER_TIMEOUT;
use crate::build::Build;
use crate::call::Fault;
use crate::draft::UpstreamBlock;
use crate::groups::Group;
use crate::input::{Loader, addresses_of};
use crate::model::{
    BalanceMethod, Origin, Pass, PeerAddress, Server, ServerKind, SessionStore, Sticky, Upstream,
    UpstreamKeepalive, UpstreamPeers, UpstreamServer, locations_of,
};
use crate::parser::path_of;
use crate::upstream_url::HostKind;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Every group of the block that has ended, in the order of [`crate::groups::Groups::list`];
/// `servers` use them.
pub(super) fn all(
    b: &mut Build<'_>,
    level: &HttpLevel,
    servers: &[Server],
) -> Result<Vec<Arc<Upstream>>, Fault> {
    let stores = Stores::of(b, level, servers);
    let first = b.upstreams.len();
    let named = &b.http.groups.list()[first..];
    let mut blocks: Vec<Option<UpstreamBlock>> = Vec::new();
    blocks.resize_with(named.len(), || None);
    for block in std::mem::take(&mut b.http.upstreams) {
        let index = block.group.0 - first;
        blocks[index] = Some(block);
    }
    let mut groups = Vec::with_capacity(blocks.len());
    for (at, (group, block)) in (first..).zip(named.iter().zip(blocks)) {
        let own = block.as_ref().and_then(|block| block.store.clone());
        let mut upstream = match block {
            Some(block) => explicit(block, level)?,
            None => implicit(b.loader, group, level.kind)?,
        };
        upstream.store = stores.store(at, &upstream, own)?;
        groups.push(Arc::new(upstream));
    }
    Ok(groups)
}

/// Where nodes share what they find out about groups.
struct Stores {
    /// That of groups without one of their own.
    inherited: Option<Arc<SessionStore>>,
    /// Groups with a `health_check ... shared`, and where one of these is written.
    checked: HashMap<usize, Origin>,
}

impl Stores {
    fn of(b: &Build<'_>, level: &HttpLevel, servers: &[Server]) -> Stores {
        let of_sessions = || level.server.tls.session_store.clone().flatten();
        let mut checked = HashMap::new();
        for conf in locations_of(servers) {
            let group = conf.pass.as_ref().and_then(Pass::group);
            let shared = conf.health_checks.iter().find(|check| check.shared);
            if let (Some(group), Some(check)) = (group, shared) {
                checked.insert(group.0, check.origin.clone());
            }
        }
        Stores {
            inherited: b.http.upstream_store.clone().unwrap_or_else(of_sessions),
            checked,
        }
    }

    /// The store of the group with this number, if anything is shared about it; `own` is its own.
    fn store(
        &self,
        number: usize,
        upstream: &Upstream,
        own: Option<Option<Arc<SessionStore>>>,
    ) -> Result<Option<Arc<SessionStore>>, Fault> {
        let syncs = |sticky: &Sticky| matches!(sticky, Sticky::Learn(learn) if learn.sync);
        let (what, origin) = if upstream.sticky.as_ref().is_some_and(syncs) {
            ("sticky learn ... sync", &upstream.origin)
        } else if upstream.check.as_ref().is_some_and(|check| check.shared) {
            ("check ... shared", &upstream.origin)
        } else if let Some(origin) = self.checked.get(&number) {
            ("health_check ... shared", origin)
        } else {
            return Ok(None);
        };
        let name = &upstream.name;
        let lacking = |lack: &str, help: &str| {
            let message = format!("\"{what}\" of upstream \"{name}\" {lack}");
            Err(Fault::earlier(origin, message).help(help))
        };
        match own.unwrap_or_else(|| self.inherited.clone()) {
            None => lacking(
                "needs a store",
                "add \"upstream_store redis://HOST key=FILE\" to \"http\" or to the block",
            ),
            Some(store) if store.key_file.is_none() => lacking(
                "needs a store with \"key=\"",
                "name a file of 32 random bytes or more, the same on all nodes: it seals what is \
                 stored",
            ),
            store => Ok(store),
        }
    }
}

/// The group of an `upstream` block.
fn explicit(block: UpstreamBlock, level: &HttpLevel) -> Result<Upstream, Fault> {
    let Origin { file, line } = &block.origin;
    let place = format!("upstream \"{}\" in {}:{line}", block.name, file.display());
    let resolves = block
        .servers
        .iter()
        .any(|server| matches!(server.peers, UpstreamPeers::Resolved { .. }));
    let resolver = block.resolver.or_else(|| level.location.resolver.clone());
    if resolves && block.zone.is_none() {
        return Err(Fault::whole(format!(
            "resolving names at run time requires {place} to be in shared memory"
        ))
        .help("add a \"zone\" to the block"));
    }
    if resolves && resolver.is_none() {
        return Err(Fault::whole(format!(
            "no resolver defined to resolve names at run time in {place}"
        ))
        .help("add a \"resolver\" to the block, or to \"http\""));
    }
    if block.state.is_some() && block.zone.is_none() {
        return Err(
            Fault::whole(format!("\"state\" requires {place} to be in shared memory"))
                .help("add a \"zone\" to the block"),
        );
    }
    if block.state.is_none() && block.servers.iter().all(|server| server.backup) {
        return Err(Fault::whole(format!("no servers in {place}"))
            .help("a group needs at least one server that is not a backup"));
    }
    let default = UpstreamKeepalive::default();
    let (connections, local) = block
        .keepalive
        .unwrap_or((default.connections, default.local));
    Ok(Upstream {
        kind: level.kind,
        name: block.name,
        explicit: true,
        servers: block.servers,
        method: block.method.unwrap_or_default(),
        keepalive: UpstreamKeepalive {
            connections,
            local,
            requests: block.keepalive_requests.unwrap_or(default.requests),
            time: block.keepalive_time.unwrap_or(default.time),
            timeout: block.keepalive_timeout.unwrap_or(default.timeout),
        },
        multi: block.multi.unwrap_or(1),
        ntlm: block.ntlm,
        queue: block.queue,
        zone: block.zone,
        state: block.state,
        check: block.check.finish().map(Arc::new),
        sticky: block.sticky,
        store: None,
        resolver,
        resolver_timeout: block
            .resolver_timeout
            .or(level.location.resolver_timeout)
            .unwrap_or(RESOLVER_TIMEOUT),
        origin: block.origin,
    })
}

/// The group that `proxy_pass` and the like define by naming an address or a
/// host that is not the name of a block.
fn implicit(loader: &mut dyn Loader, group: &Group, kind: ServerKind) -> Result<Upstream, Fault> {
    let name = &group.name;
    let Origin { file, line } = &group.origin;
    let fault = |what: &str| {
        let file = file.display();
        Fault::whole(format!("{what} in upstream \"{name}\" in {file}:{line}"))
    };
    if group.kind != HostKind::Unix && group.port == 0 {
        return Err(fault("no port"));
    }
    let addresses = match group.kind {
        HostKind::Unix => vec![PeerAddress::Unix(path_of(name.as_bytes()).to_owned())],
        HostKind::Address(address) => inet(&[address], group.port),
        HostKind::Name => {
            let found = addresses_of(loader, name);
            if found.is_empty() {
                return Err(fault("host not found"));
            }
            inet(&found, group.port)
        }
    };
    Ok(Upstream {
        kind,
        name: name.as_str().into(),
        explicit: false,
        servers: vec![UpstreamServer {
            name: name.as_str().into(),
            peers: UpstreamPeers::Fixed(addresses),
            weight: 1,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: None,
            slow_start: Duration::ZERO,
            backup: false,
            down: false,
            drain: false,
            route: None,
        }],
        method: BalanceMethod::RoundRobin,
        keepalive: UpstreamKeepalive {
            connections: 0,
            ..UpstreamKeepalive::default()
        },
        multi: 1,
        ntlm: false,
        queue: None,
        zone: None,
        state: None,
        check: None,
        sticky: None,
        store: None,
        resolver: None,
        resolver_timeout: RESOLVER_TIMEOUT,
        origin: group.origin.clone(),
    })
}

/// The addresses with a port.
fn inet(addresses: &[IpAddr], port: u16) -> Vec<PeerAddress> {
    addresses
        .iter()
        .map(|address| PeerAddress::Inet(SocketAddr::new(*address, port)))
        .collect()
}
