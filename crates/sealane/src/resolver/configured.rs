//! The resolvers that a configuration names, and what uses them.

use super::{KeptGroup, Resolvers};
use sealane_conf::model::{Http, Server};
use sealane_server::{Materials, Snapshot};
use sealane_upstream::resolve::Resolve;
use std::sync::Arc;

/// Makes the resolvers of a configuration, for building a snapshot, and keeps those
/// of `known` that it also has.
pub(crate) fn prepare(
    http: Option<&Http>,
    known: &Resolvers,
    materials: &mut Materials,
) -> Resolvers {
    let mut resolvers = Resolvers::after(known);
    let locations = http.iter().flat_map(|http| http.locations());
    // OCSP responders are asked on behalf of servers, servers may open tunnels themselves, and
    // those of mail look for the names of clients.
    let servers = http.iter().flat_map(|http| &http.servers);
    let asking = |server: &&Arc<Server>| {
        let tls = server.tls.as_ref();
        server.conf.pass.is_some()
            || server.mail.is_some()
            || tls
                .is_some_and(|tls| tls.stapling.is_some() || tls.client_certificates.ocsp.is_some())
    };
    let servers = servers.filter(asking).map(|server| &server.conf);
    for conf in locations.chain(servers) {
        let Some(resolver) = &conf.resolver else {
            continue;
        };
        let known = resolvers.of(resolver, conf.resolver_timeout);
        if materials
            .resolver(resolver, conf.resolver_timeout)
            .is_none()
        {
            let answers: Arc<dyn Resolve> = known;
            materials.add_resolver(Arc::clone(resolver), conf.resolver_timeout, answers);
        }
    }
    for upstream in http.iter().flat_map(|http| &http.upstreams) {
        if let Some(resolver) = &upstream.resolver {
            resolvers.of(resolver, upstream.resolver_timeout);
        }
    }
    resolvers
}

/// The groups of a configuration with names to look up, each with its resolver.
pub(crate) fn kept_groups(
    http: Option<&Http>,
    resolvers: &mut Resolvers,
    snapshot: &Arc<Snapshot>,
) -> Vec<(Arc<super::NameResolver>, KeptGroup)> {
    let mut kept = Vec::new();
    for (group, upstream) in http.iter().flat_map(|http| &http.upstreams).enumerate() {
        let Some(resolver) = &upstream.resolver else {
            continue;
        };
        // Names may come, where servers can be added.
        let changes = snapshot.changes_groups && upstream.zone.is_some();
        if !changes && snapshot.lookups(group).is_empty() {
            continue;
        }
        let resolver = resolvers.of(resolver, upstream.resolver_timeout);
        kept.push((
            resolver,
            KeptGroup {
                snapshot: Arc::clone(snapshot),
                group,
                name: upstream.name.as_ref().into(),
                timeout: upstream.resolver_timeout,
                changes,
            },
        ));
    }
    kept
}
