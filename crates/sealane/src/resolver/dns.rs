//! Queries to name servers, and the meaning of their replies.

use super::connections::Connections;
use hickory_resolver::Resolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use sealane_conf::model;
use sealane_counters::Placed;
use sealane_server::metrics::{RESOLVER_RESULTS, ResolverCounts};
use sealane_upstream::resolve::ResolveError;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long one round of queries to the name servers may take; nginx asks the next
/// one after the same time.
const ROUND: Duration = Duration::from_secs(5);

/// Rounds after the first, as long as `resolver_timeout` is not over.
const MORE_ROUNDS: usize = 5;

/// Name servers queried at the same time, so that a dead one costs no time.
const ASKED_AT_ONCE: usize = 2;

/// Questions under way for each connection to a name server.
const MAX_ACTIVE: usize = 256;

/// Aliases that lead from the name of a service to its records.
const MAX_SERVICE_ALIASES: usize = 8;

/// Records of one kind that are taken of an answer, which may have thousands.
const MAX_RECORDS: usize = 1_000;

/// The name servers of a `resolver` directive.
pub(super) struct Dns {
    resolver: Resolver<Connections>,
    valid: Option<Duration>,
    ipv4: bool,
    ipv6: bool,
    /// `resolver_timeout`.
    timeout: Duration,
    counts: Placed<ResolverCounts>,
}

/// The addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer<T> {
    /// At least one, none twice.
    pub(super) found: Vec<T>,
    /// For how long.
    pub(super) valid: Duration,
}

/// An SRV record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) target: String,
    pub(super) port: u16,
    pub(super) weight: u16,
    pub(super) priority: u16,
}

impl Dns {
    /// Sends no query yet.
    ///
    /// # Errors
    /// When the library cannot be set up.
    pub(super) fn new(conf: &model::Resolver, timeout: Duration) -> Result<Dns, String> {
        let servers = conf.servers.iter().map(name_server).collect();
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = Resolver::builder_with_config(config, Connections::default());
        set_options(builder.options_mut());
        Ok(Dns {
            resolver: builder.build().map_err(|error| error.to_string())?,
            valid: conf.valid,
            ipv4: conf.ipv4,
            ipv6: conf.ipv6,
            timeout,
            counts: ResolverCounts::named(&conf.zone_name()),
        })
    }

    /// Counts what became of a query.
    fn count<T>(&self, result: &Result<T, ResolveError>) {
        let name = match result {
            Ok(_) => "success",
            Err(ResolveError::Format) => "format_error",
            Err(ResolveError::ServerFailure) => "server_failure",
            Err(ResolveError::NotFound) => "not_found",
            Err(ResolveError::Unimplemented) => "unimplemented",
            Err(ResolveError::Refused) => "refused",
            Err(ResolveError::TimedOut) => "timed_out",
        };
        let known = RESOLVER_RESULTS.iter().position(|known| *known == name);
        if let Some(at) = known {
            self.counts.results[at].add(1);
        }
    }

    /// The addresses of a name, IPv4 first, within `resolver_timeout`.
    pub(super) async fn addresses(&self, name: &str) -> Result<Answer<IpAddr>, ResolveError> {
        self.counts.names.add(1);
        let found = self.found_addresses(name).await;
        self.count(&found);
        found
    }

    async fn found_addresses(&self, name: &str) -> Result<Answer<IpAddr>, ResolveError> {
        let name = full_name(name)?;
        let ask = async |wanted: bool, kind| match wanted {
            true => Some(self.ask(&name, kind).await),
            false => None,
        };
        let both = async {
            tokio::join!(
                ask(self.ipv4, RecordType::A),
                ask(self.ipv6, RecordType::AAAA)
            )
        };
        let (v4, v6) = tokio::time::timeout(self.timeout, both)
            .await
            .map_err(|_elapsed| ResolveError::TimedOut)?;
        combine([v4, v6].into_iter().flatten())
    }

    /// Where a name leads that is an alias, within `resolver_timeout`.
    pub(super) async fn alias(&self, name: &str) -> Result<Option<String>, ResolveError> {
        let name = full_name(name)?;
        let answer = tokio::time::timeout(self.timeout, self.ask(&name, RecordType::CNAME));
        match answer.await.map_err(|_elapsed| ResolveError::TimedOut)? {
            Ok(answer) => Ok(answer.found.into_iter().find_map(|data| match data {
                RData::CNAME(alias) => Some(in_lower_case(&alias.0)),
                _ => None,
            })),
            Err(ResolveError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The name of an address, within `resolver_timeout`.
    pub(super) async fn name_of(&self, address: IpAddr) -> Result<Option<String>, ResolveError> {
        self.counts.addresses.add(1);
        let name = Name::from(address);
        let answer = tokio::time::timeout(self.timeout, self.ask(&name, RecordType::PTR)).await;
        let answer = answer.unwrap_or(Err(ResolveError::TimedOut));
        self.count(&answer);
        match answer {
            Ok(answer) => Ok(answer.found.into_iter().find_map(|data| match data {
                RData::PTR(name) => Some(in_lower_case(&name.0)),
                _ => None,
            })),
            Err(ResolveError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The SRV records of a name, within `resolver_timeout`.
    pub(super) async fn services(&self, name: &str) -> Result<Answer<Service>, ResolveError> {
        self.counts.services.add(1);
        let found = self.found_services(name).await;
        self.count(&found);
        found
    }

    async fn found_services(&self, name: &str) -> Result<Answer<Service>, ResolveError> {
        let name = full_name(name)?;
        let answer = tokio::time::timeout(self.timeout, self.service_records(name));
        let answer = answer.await.map_err(|_elapsed| ResolveError::TimedOut)??;
        let service = |data| match data {
            RData::SRV(record) => Some(Service {
                target: record.target.to_utf8(),
                port: record.port,
                weight: record.weight,
                priority: record.priority,
            }),
            _ => None,
        };
        let found: Vec<Service> = answer.found.into_iter().filter_map(service).collect();
        if found.is_empty() {
            return Err(ResolveError::NotFound);
        }
        Ok(Answer {
            found,
            valid: answer.valid,
        })
    }

    /// The resolver library follows aliases for addresses alone.
    async fn service_records(&self, mut name: Name) -> Result<Answer<RData>, ResolveError> {
        let mut valid = None;
        for _ in 0..=MAX_SERVICE_ALIASES {
            let answer = match self.ask(&name, RecordType::SRV).await {
                Err(ResolveError::NotFound) => None,
                answer => Some(answer?).filter(|answer| !answer.found.is_empty()),
            };
            let valid_with = |more: Duration| valid.map_or(more, |valid: Duration| valid.min(more));
            if let Some(mut answer) = answer {
                answer.valid = valid_with(answer.valid);
                return Ok(answer);
            }
            let answer = self.ask(&name, RecordType::CNAME).await?;
            valid = Some(valid_with(answer.valid));
            let Some(RData::CNAME(alias)) = answer.found.into_iter().next() else {
                break;
            };
            name = alias.0;
        }
        Err(ResolveError::NotFound)
    }

    async fn ask(&self, name: &Name, kind: RecordType) -> Result<Answer<RData>, ResolveError> {
        let lookup = self.resolver.lookup(name.clone(), kind).await;
        let lookup = lookup.map_err(|error| meaning(&error))?;
        // Of a chain of CNAMEs the one that is over first decides.
        let ttl_s = lookup.answers().iter().map(|record| record.ttl).min();
        let of_kind = lookup
            .answers()
            .iter()
            .filter(|record| record.record_type() == kind);
        let found = of_kind.map(|record| record.data.clone());
        let found: Vec<RData> = found.take(MAX_RECORDS).collect();
        let ttl = Duration::from_secs(ttl_s.unwrap_or(0).into());
        Ok(Answer {
            found,
            valid: self.valid.unwrap_or(ttl),
        })
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let connections = connections.map(|mut connection| {
        connection.port = address.port();
        connection
    });
    // A name that one server does not know, none does: nginx believes the first, too.
    NameServerConfig::new(address.ip(), true, connections.to_vec())
}

fn set_options(options: &mut ResolverOpts) {
    options.timeout = ROUND;
    options.attempts = MORE_ROUNDS;
    options.num_concurrent_reqs = ASKED_AT_ONCE;
    options.max_active_requests = MAX_ACTIVE;
    // Replies are cached by `names`, for the time of `valid=`.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
}

/// A name as it is compared and shown.
fn in_lower_case(name: &Name) -> String {
    let name = name.to_ascii().to_ascii_lowercase();
    name.trim_end_matches('.').to_owned()
}

/// A name that is complete: nothing is ever appended to it.
fn full_name(name: &str) -> Result<Name, ResolveError> {
    let parsed = match name.is_ascii() {
        true => Name::from_ascii(name),
        false => Name::from_utf8(name),
    };
    let mut parsed = parsed.map_err(|_invalid| ResolveError::NotFound)?;
    if parsed.is_root() {
        return Err(ResolveError::NotFound);
    }
    parsed.set_fqdn(true);
    Ok(parsed)
}

/// The combined result of A and AAAA: addresses of one count, whatever the other returns.
fn combine(
    answers: impl Iterator<Item = Result<Answer<RData>, ResolveError>>,
) -> Result<Answer<IpAddr>, ResolveError> {
    let mut together: Option<Answer<IpAddr>> = None;
    let mut error = None;
    for answer in answers {
        match answer {
            Ok(answer) => {
                let together = together.get_or_insert(Answer {
                    found: Vec::new(),
                    valid: answer.valid,
                });
                together.valid = together.valid.min(answer.valid);
                for address in answer.found.iter().filter_map(RData::ip_addr) {
                    if !together.found.contains(&address) {
                        together.found.push(address);
                    }
                }
            }
            // A server's failure for one kind of record is more important than the lack of
            // the other kind.
            Err(ResolveError::NotFound) => error = error.or(Some(ResolveError::NotFound)),
            Err(other) => error = Some(other),
        }
    }
    match (together, error) {
        (Some(together), _) if !together.found.is_empty() => Ok(together),
        (_, Some(error)) => Err(error),
        (_, None) => Err(ResolveError::NotFound),
    }
}

fn meaning(error: &NetError) -> ResolveError {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => meaning_of(none.response_code),
        NetError::Dns(DnsError::ResponseCode(code)) => meaning_of(*code),
        NetError::Timeout | NetError::Busy | NetError::Io(_) | NetError::NoConnections => {
            ResolveError::TimedOut
        }
        _ => ResolveError::ServerFailure,
    }
}

fn meaning_of(code: ResponseCode) -> ResolveError {
    match code {
        ResponseCode::NoError | ResponseCode::NXDomain => ResolveError::NotFound,
        ResponseCode::FormErr => ResolveError::Format,
        ResponseCode::NotImp => ResolveError::Unimplemented,
        ResponseCode::Refused => ResolveError::Refused,
        _ => ResolveError::ServerFailure,
    }
}
