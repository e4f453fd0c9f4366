//! Servers by turns on one core, with one configuration, compared by CPU per operation.
//!
//! Every measurement starts its server anew, so that neither memory layout nor
//! heap history of one start colours all rounds, and each round measures all
//! servers right after each other, in alternating order. A ratio is taken within
//! a round: both sides then saw the same speed of the machine. What is reported
//! is the median of the rounds' ratios and their range.

mod cases;
mod config;
mod profile;
mod report;
mod server;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

pub use report::Report;
pub use server::Server;

use crate::{Error, load, load::Plan};
use cases::{Case, Measure};
use config::Site;
use profile::Profiler;
use report::{CaseResult, Measurement};
use server::Running;

/// A comparison to be run.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The servers; the first is compared with each of the others.
    pub servers: Vec<Server>,
    /// Names of the cases; empty for all.
    pub cases: Vec<String>,
    /// Directory of the test certificates.
    pub certificates: PathBuf,
    /// Directory for configurations, files and logs.
    pub work: PathBuf,
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of each measurement.
    pub measurement: Duration,
    /// Fewer idle connections as well.
    pub quick: bool,
    /// Core of the servers; the last one unless given.
    pub server_cpu: Option<usize>,
    /// Directory for a profile of each server in each case, taken in a
    /// measurement of its own after the rounds.
    pub profile: Option<PathBuf>,
}

/// The cases, one per line, for people.
pub fn list_cases() -> String {
    let case = |case: &Case| format!("{:24} {}\n", case.name, case.title);
    let mut text: String = cases::ALL.iter().map(case).collect();
    text += &format!("{:24} {}\n", cases::S3_NAME, cases::S3.join(" "));
    text
}

impl Comparison {
    /// Runs all rounds of all cases.
    ///
    /// # Errors
    ///
    /// A server that does not start, and whatever [`load::run`] refuses: an
    /// unexpected status, length or negotiation fails the whole comparison.
    pub fn run(&self) -> Result<Report, Error> {
        let cases = cases::select(&self.cases)?;
        if self.rounds == 0 || self.servers.is_empty() {
            return Err(Error::Usage(
                "a comparison needs a server and a round".into(),
            ));
        }
        let cpus = Cpus::choose(self.server_cpu)?;
        let site = Site::prepare(
            &self.work,
            &self.certificates,
            cases.iter().any(|case| case.needs_large_file()),
        )?;
        let mut report = Report::new(&self.servers, cpus.server, self.rounds, self.quick)?;
        for case in cases {
            let started = Instant::now();
            let mut result = CaseResult::new(case, self.servers.len());
            for round in 0..self.rounds {
                for index in self.order(round) {
                    let server = &self.servers[index];
                    let measurement = self
                        .measure(case, server, &site, &cpus, None)
                        .map_err(|error| error.of(case, server))?;
                    result.add(index, measurement);
                }
            }
            if let Some(directory) = &self.profile {
                self.profile(case, &site, &cpus, directory)?;
            }
            eprintln!(
                "{:24} {} rounds in {:.0} s",
                case.name,
                self.rounds,
                started.elapsed().as_secs_f64()
            );
            report.cases.push(result);
        }
        Ok(report)
    }

    /// Every other round runs backwards, so that a drift of the machine hurts all alike.
    fn order(&self, round: usize) -> Vec<usize> {
        let forward = 0..self.servers.len();
        if round.is_multiple_of(2) {
            forward.collect()
        } else {
            forward.rev().collect()
        }
    }

    /// One more measurement of each server, sampled by perf and not counted.
    fn profile(
        &self,
        case: &Case,
        site: &Site,
        cpus: &Cpus,
        directory: &Path,
    ) -> Result<(), Error> {
        if matches!(case.measure, Measure::MemoryPerIdleConnection { .. }) {
            return Ok(());
        }
        fs::create_dir_all(directory)
            .map_err(|source| Error::io(format!("create {}", directory.display()), source))?;
        for server in &self.servers {
            let base = directory.join(format!("{}-{}", case.name, server.name));
            self.measure(case, server, site, cpus, Some(&base))
                .map_err(|error| error.of(case, server))?;
        }
        Ok(())
    }

    /// Starts a server, measures one case, and stops it; with `profile`, perf
    /// samples it into files that begin with that path.
    fn measure(
        &self,
        case: &Case,
        server: &Server,
        site: &Site,
        cpus: &Cpus,
        profile: Option<&Path>,
    ) -> Result<Measurement, Error> {
        let running = Running::start(server, site, cpus.server)?;
        let profiler = profile
            .map(|base| Profiler::attach(running.processes(), base))
            .transpose()?;
        let mut plan: Plan = case.plan(&running.ports, self.measurement, self.quick);
        plan.cpus.clone_from(&cpus.generator);
        plan.threads = plan.threads.min(cpus.generator.len().max(1));
        let measurement = match case.measure {
            Measure::CpuPerOperation { .. } => {
                let outcome = load::run(&plan, Some(running.processes()))?;
                // What was refused costs another round trip: another case.
                if let Some(count) = outcome.early_data
                    && count.rejected > 0
                {
                    return Err(Error::Negotiated {
                        what: "early data",
                        wanted: "acceptance".into(),
                        got: format!("{} of {} refused", count.rejected, outcome.operations),
                    });
                }
                Measurement {
                    value: outcome.server_ns_per_operation().unwrap_or(f64::NAN)
                        / case.unit.nanoseconds(),
                    busy: outcome
                        .server_cpu
                        .map(|cpu| cpu.total_ns as f64 / outcome.elapsed.as_nanos() as f64),
                    system_share: outcome.server_cpu.map(|cpu| {
                        cpu.system_ns as f64 / (cpu.user_ns + cpu.system_ns).max(1) as f64
                    }),
                    operations: outcome.operations,
                    negotiated: outcome.negotiated,
                }
            }
            Measure::MemoryPerIdleConnection { .. } => {
                let outcome = load::hold_idle(&plan, running.processes(), Duration::from_secs(1))?;
                Measurement {
                    value: outcome.pss_bytes_per_connection() / 1024.0,
                    busy: None,
                    system_share: None,
                    operations: outcome.connections as u64,
                    negotiated: outcome.negotiated,
                }
            }
        };
        if let Some(profiler) = profiler {
            eprintln!("profile: {}", profiler.finish()?.display());
        }
        running.stop()?;
        Ok(measurement)
    }
}

/// Which core the servers get and which ones the generator.
struct Cpus {
    server: usize,
    generator: Vec<usize>,
}

impl Cpus {
    /// The server gets a core of its own if there are two; the rest is the generator's.
    fn choose(server: Option<usize>) -> Result<Self, Error> {
        let allowed = rustix::thread::sched_getaffinity(None)
            .map_err(|errno| Error::io("read the CPU affinity", errno.into()))?;
        let all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .collect();
        let server = match server {
            Some(cpu) if !all.contains(&cpu) => {
                return Err(Error::Usage(format!(
                    "core {cpu} is not available; there are {all:?}"
                )));
            }
            Some(cpu) => cpu,
            None => all.last().copied().unwrap_or(0),
        };
        let mut generator: Vec<usize> = all.iter().copied().filter(|&cpu| cpu != server).collect();
        if generator.is_empty() {
            eprintln!(
                "only one core: server and generator share it, so latencies and rates mean nothing"
            );
            generator = all;
        }
        Ok(Self { server, generator })
    }
}

impl Error {
    /// Says which measurement failed.
    fn of(self, case: &Case, server: &Server) -> Self {
        Self::Server {
            name: server.name.clone(),
            reason: format!("case {}: {self}", case.name),
        }
    }
}

/// Waits for `condition`, looking every few milliseconds; false after `limit`.
fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests;
