//! The names of a group that are looked up: each by a task of its own, for as long as the group has
//! the server.

use super::dns::Dns;
use super::keeper::KeptServer;
use crate::journal::Journal;
use sealane_server::Snapshot;
use sealane_upstream::LookupName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// How often a group that requests can change is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A group of a configuration.
pub(crate) struct KeptGroup {
    pub(super) snapshot: Arc<Snapshot>,
    /// Its number in the configuration.
    pub(super) group: usize,
    /// Its name, for the log.
    pub(super) name: Arc<str>,
    /// `resolver_timeout`.
    pub(super) timeout: Duration,
    /// Its servers can change.
    pub(super) changes: bool,
}

impl KeptGroup {
    /// Keeps the addresses of all names up to date; never returns.
    pub(super) async fn keep(self, dns: Arc<Dns>, journal: Journal) {
        let mut tasks = JoinSet::new();
        let mut kept: HashMap<u64, (LookupName, AbortHandle)> = HashMap::new();
        let mut seen = None;
        loop {
            // Before the names: what changes meanwhile is looked at again.
            let generation = self.snapshot.servers_generation(self.group);
            if seen.replace(generation) != Some(generation) {
                let lookups = self.snapshot.lookups(self.group);
                kept.retain(|number, (name, task)| {
                    let stays = lookups.iter().any(|(at, to)| at == number && to == name);
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for (number, name) in lookups {
                    kept.entry(number).or_insert_with(|| {
                        let server = self.server(number, &name);
                        let task = tasks.spawn(server.keep(Arc::clone(&dns), journal.clone()));
                        (name, task)
                    });
                }
            }
            if !self.changes {
                return std::future::pending().await;
            }
            while tasks.try_join_next().is_some() {}
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    fn server(&self, number: u64, name: &LookupName) -> KeptServer {
        let (snapshot, group) = (Arc::clone(&self.snapshot), self.group);
        KeptServer {
            group: self.name.to_string(),
            host: name.host.clone(),
            port: name.port,
            service: name.service.clone(),
            timeout: self.timeout,
            apply: Box::new(move |addresses| snapshot.set_addresses(group, number, addresses)),
        }
    }
}
