//! A handshake storm: how an established connection fares while many clients do full handshakes,
//! and what the storm itself costs.
//!
//! Servers alternate on the same cores with the same configuration, as in
//! [`compare`](crate::compare). In each measurement one [`Probe`] requests a small file over its
//! established connection: first alone, which shows the noise of machine and probe, then while
//! clients connect, handshake, make one request and close, one connection after another.

mod report;
mod targets;

use std::{
    net::SocketAddr,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use report::Report;

use crate::{
    Error, Expected, Histogram, Url,
    load::{
        self, ConnectionUse, KeyType, Limit, Outcome, Plan, Probe, ProbeRecord, ProbeSettings,
        Protocol, Sample, TlsPlan,
    },
    testbed::{
        Additions, Course, Cpus, File, FirstErrorEnds, Listener, Neighbours, Ports, Running,
        Server, ServerCores, Site, Turn, Watch, available_cpus, order,
    },
};
use report::Latency;
pub(crate) use report::{Field, Measurement, StormResult};

/// The file requested by the probe and by every new connection.
const FILE: File = File::Small;

/// The key of the certificate that the storm's handshakes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StormKey {
    /// RSA, 2048 bits.
    Rsa2048,
    /// RSA, 4096 bits.
    Rsa4096,
    /// ECDSA on P-256.
    P256,
}

impl StormKey {
    /// All, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::Rsa2048, Self::Rsa4096, Self::P256];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "RSA-2048",
            Self::Rsa4096 => "RSA-4096",
            Self::P256 => "P-256",
        }
    }

    fn is_rsa(self) -> bool {
        self != Self::P256
    }

    fn listener(self) -> Listener {
        match self {
            Self::Rsa2048 => Listener::Rsa2048,
            Self::Rsa4096 => Listener::Rsa4096,
            Self::P256 => Listener::P256,
        }
    }

    fn key_type(self) -> KeyType {
        match self {
            Self::Rsa2048 | Self::Rsa4096 => KeyType::Rsa,
            Self::P256 => KeyType::P256,
        }
    }
}

/// The storms to run.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The servers. Those of Sealane are compared with each of the others.
    pub servers: Vec<Server>,
    /// Kinds of key; empty for all.
    pub keys: Vec<StormKey>,
    /// Clients that do handshakes.
    pub clients: usize,
    /// Time between the probe's requests.
    pub interval: Duration,
    /// Directory of the test certificates.
    pub certificates: PathBuf,
    /// Directory for configurations, files and logs.
    pub work: PathBuf,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of each storm; before it the probe runs alone for a third of that time.
    pub measurement: Duration,
    /// Shown in the report.
    pub quick: bool,
    /// How many cores to give to the servers; each number gets its own rows. If empty: two if four
    /// can be used, otherwise one.
    pub server_cores: Vec<usize>,
}

impl Storm {
    /// Runs all rounds for all keys.
    ///
    /// # Errors
    ///
    /// A server that does not start, a connection that fails, is refused or is not
    /// what is pinned: the first ends the run.
    pub fn run(&self) -> Result<Report, Error> {
        self.run_watched(&mut FirstErrorEnds)
    }

    /// Like [`Storm::run`], with somebody who decides what happens after an error, and when to
    /// stop.
    pub(crate) fn run_watched(&self, watch: &mut dyn Watch) -> Result<Report, Error> {
        if self.rounds == 0 || self.servers.is_empty() || self.interval.is_zero() {
            return Err(Error::Usage(
                "a storm needs a server, a round and time between the probe's requests".into(),
            ));
        }
        let divisions = self.divisions()?;
        let site = Site::prepare(&self.work, &self.certificates, File::Mebibyte.bytes())?;
        let mut report = Report::new(self)?;
        'run: for cpus in &divisions {
            for &key in self.keys() {
                let (result, is_complete) = self.rounds_of(key, &site, cpus, watch)?;
                report.add(result);
                if !is_complete {
                    break 'run;
                }
            }
        }
        Ok(report)
    }

    fn keys(&self) -> &[StormKey] {
        match self.keys.as_slice() {
            [] => &StormKey::ALL,
            keys => keys,
        }
    }

    /// What each measurement of a round measures, for all divisions of the cores.
    pub(crate) fn agenda(&self) -> Result<Vec<String>, Error> {
        let mut agenda = Vec::new();
        for cpus in self.divisions()? {
            for &key in self.keys() {
                let name = turn_name(key, cpus.server.len());
                agenda.extend(self.servers.iter().map(|_| name.clone()));
            }
        }
        Ok(agenda)
    }

    fn divisions(&self) -> Result<Vec<Cpus>, Error> {
        let counts = match self.server_cores.as_slice() {
            [] if available_cpus()?.len() >= 4 => vec![2],
            [] => vec![1],
            counts => counts.to_vec(),
        };
        counts
            .into_iter()
            .map(|count| Cpus::choose(ServerCores::Count(count)))
            .collect()
    }

    /// All rounds of storms with one kind of key; and whether all were made.
    fn rounds_of(
        &self,
        key: StormKey,
        site: &Site,
        cpus: &Cpus,
        watch: &mut dyn Watch,
    ) -> Result<(StormResult, bool), Error> {
        let what = turn_name(key, cpus.server.len());
        let started = Instant::now();
        let mut result = StormResult::new(key, cpus, self.servers.len());
        for round in 0..self.rounds {
            for index in order(round, self.servers.len()) {
                let server = &self.servers[index];
                let turn = Turn {
                    what: &what,
                    server: &server.name,
                    round,
                };
                if result.failures[index].is_some() {
                    continue;
                }
                if !watch.goes_on(turn) {
                    return Ok((result, false));
                }
                let error = match self.measure(key, server, site, cpus) {
                    Ok(measurement) => {
                        result.add(index, measurement);
                        watch.measured(turn);
                        continue;
                    }
                    Err(error) => Error::Server {
                        name: server.name.clone(),
                        reason: format!("storm of {} handshakes: {error}", key.name()),
                    },
                };
                match watch.failed(turn, error) {
                    Course::Fail(error) => return Err(error),
                    Course::GoOn(reason) => result.failures[index] = Some(reason),
                    Course::Stop => return Ok((result, false)),
                }
            }
        }
        watch.finished(&format!(
            "{:9} on {} of the servers' cores: {} rounds in {:.0} s",
            key.name(),
            cpus.server.len(),
            self.rounds,
            started.elapsed().as_secs_f64()
        ));
        Ok((result, true))
    }

    /// Starts a server, runs the probe alone and then in a storm, and stops the server.
    fn measure(
        &self,
        key: StormKey,
        server: &Server,
        site: &Site,
        cpus: &Cpus,
    ) -> Result<Measurement, Error> {
        let running = Running::start(server, site, &cpus.server, Additions::default())?;
        let crew = Crew::divide(&cpus.generator);
        let quiet_plan = plan(key, &running.ports, ConnectionUse::KeepAlive);
        let probe = Probe::start(
            &quiet_plan,
            ProbeSettings {
                interval: self.interval,
                cpu: Some(crew.probe),
                has_own_core: !crew.clients.contains(&crew.probe),
            },
        )?;
        let quiet_from = Instant::now();
        thread::sleep(self.measurement / 3);
        let quiet_until = Instant::now();

        let mut storm = plan(key, &running.ports, ConnectionUse::PerRequest);
        storm.clients = self.clients;
        storm.threads = crew.clients.len();
        storm.cpus.clone_from(&crew.clients);
        storm.warm_up = self.measurement / 6;
        storm.limit = Limit::Duration(self.measurement);
        let mut neighbours = Neighbours::on(&cpus.server);
        let outcome = load::run_metered(&storm, Some(running.processes()), &mut [&mut neighbours]);
        // The first to fail has the reason, and usually that is the storm.
        let record = probe.finish();
        let outcome = outcome?;
        let record = record?;
        running.stop()?;

        let stormy_until = outcome.started + self.measurement;
        Ok(measurement(
            &outcome,
            &record,
            &crew,
            &neighbours,
            between(&record.samples, quiet_from, quiet_until),
            between(&record.samples, outcome.started, stormy_until),
        ))
    }
}

/// The storm, and on how many of the servers' cores if it is more than one.
fn turn_name(key: StormKey, cores: usize) -> String {
    match cores {
        1 => format!("storm of {}", key.name()),
        _ => format!("storm of {} on {cores} cores", key.name()),
    }
}

/// The assignment of the generator's cores.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crew {
    /// The probe's core; shared with the clients unless there are cores to spare.
    probe: usize,
    /// The clients' event loops.
    clients: Vec<usize>,
}

/// Cores that clients need before the probe gets its own.
const CLIENT_CORES: usize = 2;

impl Crew {
    fn divide(generator: &[usize]) -> Self {
        let (&probe, others) = generator.split_first().unwrap_or((&0, &[]));
        let clients = if others.len() >= CLIENT_CORES {
            others
        } else {
            generator
        };
        Self {
            probe,
            clients: clients.to_vec(),
        }
    }
}

fn plan(key: StormKey, ports: &Ports, connection_use: ConnectionUse) -> Plan {
    let port = ports.of(key.listener());
    let url = Url {
        tls: true,
        host: "localhost".into(),
        port,
        path: format!("/{}", FILE.name()),
    };
    let expected = Expected {
        status: 200,
        body_bytes: Some(FILE.bytes()),
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut plan = Plan::new(&url, address, expected, connection_use);
    plan.tls = Some(TlsPlan {
        protocol: Some(Protocol::Tls13),
        suite: Some("TLS_AES_256_GCM_SHA384".into()),
        group: Some("X25519".into()),
        key_type: Some(key.key_type()),
        ..TlsPlan::default()
    });
    plan
}

/// The samples that were due in `from..until`.
fn between(samples: &[Sample], from: Instant, until: Instant) -> impl Iterator<Item = &Sample> {
    samples
        .iter()
        .filter(move |sample| (from..until).contains(&sample.due))
}

fn measurement<'a>(
    outcome: &Outcome,
    record: &ProbeRecord,
    crew: &Crew,
    neighbours: &Neighbours,
    quiet: impl Iterator<Item = &'a Sample>,
    stormy: impl Iterator<Item = &'a Sample>,
) -> Measurement {
    let mut alone = Histogram::default();
    for sample in quiet {
        alone.record(sample.latency);
    }
    let (mut probe, mut probe_delay) = (Histogram::default(), Histogram::default());
    for sample in stormy {
        probe.record(sample.latency);
        probe_delay.record(sample.delay);
    }
    let elapsed_ns = outcome.elapsed.as_nanos() as f64;
    // The generator's CPU time includes the probe, which ran for longer than the storm.
    let probe_ns = match record.elapsed.as_nanos() {
        0 => 0.0,
        whole_ns => record.cpu_ns as f64 * elapsed_ns / whole_ns as f64,
    };
    let clients_ns = (outcome.generator_cpu.total_ns as f64 - probe_ns).max(0.0);
    let server_ns = outcome.server_cpu.map(|cpu| cpu.total_ns);
    Measurement {
        alone: Latency::of(&alone),
        probe: Latency::of(&probe),
        probe_delay: Latency::of(&probe_delay),
        is_real_time: record.is_real_time,
        connections: outcome.operations,
        connections_per_s: outcome.rate_per_s(),
        new_connection: Latency::of(&outcome.first_byte),
        server_us_per_connection: outcome.server_ns_per_operation().map(|ns| ns / 1e3),
        server_busy_cores: server_ns.map(|ns| ns as f64 / elapsed_ns),
        neighbours_share: server_ns.map_or(0.0, |ns| neighbours.share(outcome.elapsed, ns)),
        client_busy_share: clients_ns / elapsed_ns / crew.clients.len() as f64,
        negotiated: outcome.negotiated.clone(),
    }
}

#[cfg(test)]
mod tests;
