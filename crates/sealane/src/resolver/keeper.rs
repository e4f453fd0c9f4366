//! `server NAME resolve`: keeps the peers of a group up to date with the name's addresses.
//!
//! As in nginx, a name that no longer exists (NXDOMAIN) has no peers. Any other
//! failure leaves the peers as they are and is retried after `resolver_timeout`. Each change
//! is logged once.

use super::dns::{Answer, Dns, Service};
use super::names::literal;
use crate::journal::{Journal, note};
use sealane_upstream::resolve::ResolveError;
use sealane_upstream::{PeerAddress, ResolvedAddress};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The shortest time between two lookups of a name, whatever its TTL.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Most peers of a name. Each record of a service has all addresses of its target, so
/// a reply of 64 KiB could make millions of them.
pub(super) const MAX_PEERS: usize = 4_096;

/// A name and what is to know its addresses.
pub(crate) struct KeptServer {
    /// The group, for the log.
    pub(crate) group: String,
    /// The host name.
    pub(crate) host: String,
    /// Port of every address without `service`.
    pub(crate) port: u16,
    /// `service=`.
    pub(crate) service: Option<String>,
    /// `resolver_timeout`.
    pub(crate) timeout: Duration,
    /// Takes the addresses, and returns whether they have changed.
    pub(crate) apply: Box<dyn Fn(Vec<ResolvedAddress>) -> bool + Send + Sync>,
}

impl KeptServer {
    /// Keeps the addresses up to date; never returns.
    pub(super) async fn keep(self, dns: Arc<Dns>, journal: Journal) {
        let mut keeping = Keeping {
            server: self,
            dns,
            journal,
            failing: None,
            targets: HashMap::new(),
        };
        loop {
            let wait = keeping.turn().await;
            tokio::time::sleep(wait.max(SHORTEST_WAIT)).await;
        }
    }
}

/// A name that is kept, with what is known of it.
struct Keeping {
    server: KeptServer,
    dns: Arc<Dns>,
    journal: Journal,
    /// Why it could not be resolved last time.
    failing: Option<ResolveError>,
    /// Targets of SRV records.
    targets: HashMap<String, Target>,
}

/// What is known of a target.
#[derive(Default)]
struct Target {
    addresses: Vec<IpAddr>,
    failing: Option<ResolveError>,
}

impl Keeping {
    /// Looks the name up once. Returns when to do it again.
    async fn turn(&mut self) -> Duration {
        let title = self.title();
        let answer = match self.server.service.clone() {
            None => self.hosts().await,
            Some(service) => self.services(&service).await,
        };
        match answer {
            Ok(answer) => {
                self.apply(answer.found);
                if self.failing.take().is_some() {
                    note!(self.journal, Notice, "{title} is resolved again");
                }
                answer.valid
            }
            Err(error) => {
                if self.failing.replace(error) != Some(error) {
                    note!(
                        self.journal,
                        Error,
                        "{title} could not be resolved ({error})"
                    );
                }
                if error == ResolveError::NotFound {
                    self.apply(Vec::new());
                }
                self.server.timeout
            }
        }
    }

    /// What nginx calls it.
    fn title(&self) -> String {
        let host = &self.server.host;
        match &self.server.service {
            Some(service) => format!("service {service} of {host}"),
            None => host.clone(),
        }
    }

    fn apply(&self, found: Vec<ResolvedAddress>) {
        let addresses: Vec<String> = found.iter().map(|one| one.address.to_string()).collect();
        if !(self.server.apply)(found) {
            return;
        }
        let addresses = match &addresses[..] {
            [] => "no address".to_owned(),
            addresses => addresses.join(", "),
        };
        let (group, title) = (&self.server.group, self.title());
        note!(
            self.journal,
            Notice,
            "upstream \"{group}\": {title} has {addresses} now"
        );
    }

    async fn hosts(&self) -> Result<Answer<ResolvedAddress>, ResolveError> {
        let mut answer = self.dns.addresses(&self.server.host).await?;
        // Name servers turn addresses; the order is not to change with every answer.
        answer.found.sort_unstable();
        let peer = |address| at(address, self.server.port).into();
        Ok(Answer {
            found: answer.found.into_iter().map(peer).collect(),
            valid: answer.valid,
        })
    }

    async fn services(&mut self, service: &str) -> Result<Answer<ResolvedAddress>, ResolveError> {
        let name = service_name(service, &self.server.host);
        let answer = self.dns.services(&name).await?;
        let mut valid = answer.valid;
        let mut known = std::mem::take(&mut self.targets);
        let (mut records, mut count) = (Vec::new(), 0);
        for record in answer.found {
            if count >= MAX_PEERS {
                break;
            }
            if !self.targets.contains_key(&record.target) {
                let before = known.remove(&record.target).unwrap_or_default();
                let (target, target_valid) = self.target(service, &record.target, before).await;
                valid = valid.min(target_valid);
                self.targets.insert(record.target.clone(), target);
            }
            let addresses = self.targets[&record.target].addresses.clone();
            count += addresses.len();
            records.push((record, addresses));
        }
        let found = peers(records);
        if found.is_empty() {
            let errors = self.targets.values().filter_map(|target| target.failing);
            // Without peers only if no target failed in any other way.
            return Err(errors
                .max_by_key(|error| *error != ResolveError::NotFound)
                .unwrap_or(ResolveError::NotFound));
        }
        Ok(Answer { found, valid })
    }

    /// Looks a target up. If that fails it keeps its addresses, like a name.
    async fn target(&self, service: &str, name: &str, before: Target) -> (Target, Duration) {
        let answer = match literal(name.trim_end_matches('.')) {
            Some(address) => Ok(Answer {
                found: vec![address],
                valid: Duration::MAX,
            }),
            None => self.dns.addresses(name).await,
        };
        match answer {
            Ok(mut answer) => {
                answer.found.sort_unstable();
                let target = Target {
                    addresses: answer.found,
                    failing: None,
                };
                (target, answer.valid)
            }
            Err(error) => {
                if before.failing != Some(error) {
                    let host = &self.server.host;
                    note!(
                        self.journal,
                        Error,
                        "{} could not be resolved ({error}) while resolving service \
                         {service} of {host}",
                        name.trim_end_matches('.')
                    );
                }
                let addresses = match error {
                    ResolveError::NotFound => Vec::new(),
                    _ => before.addresses,
                };
                let target = Target {
                    addresses,
                    failing: Some(error),
                };
                (target, self.server.timeout)
            }
        }
    }
}

/// The name of SRV records: one with dots, or that begins with an underscore, is used
/// as it is.
fn service_name(service: &str, host: &str) -> String {
    if service.starts_with('_') || service.contains('.') {
        format!("{service}.{host}")
    } else {
        format!("_{service}._tcp.{host}")
    }
}

/// Peers of records with their addresses: those of the highest priority, which has the lowest
/// number, are primary. As in nginx, records that lead to the same address are as many peers.
pub(super) fn peers(mut targets: Vec<(Service, Vec<IpAddr>)>) -> Vec<ResolvedAddress> {
    // Name servers turn records; the order is not to change with every answer.
    targets.sort_by(|(a, _), (b, _)| {
        let key = |record: &Service| (record.priority, record.target.clone(), record.port);
        key(a).cmp(&key(b))
    });
    let highest = targets.first().map(|(record, _)| record.priority);
    let mut found: Vec<ResolvedAddress> = Vec::new();
    for (record, addresses) in targets {
        for address in addresses {
            let address = at(address, record.port);
            if found.len() == MAX_PEERS {
                return found;
            }
            found.push(ResolvedAddress {
                server: Some(record.target.trim_end_matches('.').into()),
                weight: u32::from(record.weight),
                backup: Some(record.priority) != highest,
                address,
            });
        }
    }
    found
}

fn at(address: IpAddr, port: u16) -> PeerAddress {
    PeerAddress::Ip(SocketAddr::new(address, port))
}
