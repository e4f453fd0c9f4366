//! Compares servers by CPU per operation, alternating on the same cores with one configuration.
//!
//! Every measurement restarts its server, so that the memory layout or heap history of one start
//! does not affect all rounds. Each round measures all servers directly after each other, in
//! alternating order. Ratios are computed within a round, so both sides saw the same speed of the
//! machine. The report has the median of the rounds' ratios and their range.

mod cases;
mod groups;
mod instructions;
mod profile;
mod report;

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use report::Report;

use crate::{
    Error,
    load::{self, Meter, Plan},
    testbed::{
        Course, Cpus, File, FirstErrorEnds, Relay, Running, Server, ServerCores, Site, Turn, Watch,
        kernel_tls, order,
        origin::{Origin, OriginRequests},
    },
};
use cases::{CacheUse, Case, Measure};
use instructions::InstructionCounter;
use profile::Profiler;
pub(crate) use report::{CaseResult, Measurement, ratios};

/// A comparison to run.
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
    /// Use fewer idle connections, too.
    pub quick: bool,
    /// The number of the servers' single core; if `None`, `server_cores` applies.
    pub server_cpu: Option<usize>,
    /// How many cores to give to the servers; each number gets its own rows. One core if empty.
    pub server_cores: Vec<usize>,
    /// Also count instructions, in a separate measurement after the rounds.
    pub instructions: bool,
    /// How many responses the cases by Zipf's law ask for.
    pub keys: u32,
    /// Directory for a profile of each server in each case, taken in a separate measurement after
    /// the rounds.
    pub profile: Option<PathBuf>,
    /// Which cases are measured by turns.
    pub turns: Turns,
}

/// Which cases are measured by turns, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// Those that are compared with each other.
    #[default]
    Pairs,
    /// All of them: any two can be compared, and a run that is cut short has something of each.
    All,
}

/// The cases, one per line, as text.
pub fn list_cases() -> String {
    let case = |case: &Case| format!("{:24} {}\n", case.name, case.title);
    let mut text: String = cases::ALL.iter().map(case).collect();
    for (group, cases) in groups::GROUPS {
        text += &format!("{group:24} {}\n", cases.join(" "));
    }
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
        self.run_watched(&mut FirstErrorEnds)
    }

    /// Like [`Comparison::run`], with somebody who decides what happens after an error, and when to
    /// stop.
    pub(crate) fn run_watched(&self, watch: &mut dyn Watch) -> Result<Report, Error> {
        let cases = groups::select(&self.cases)?;
        if self.rounds == 0 || self.servers.is_empty() {
            return Err(Error::Usage(
                "a comparison needs a server and a round".into(),
            ));
        }
        let divisions = self.divisions()?;
        let sizes = cases.iter().map(|case| case.file.bytes());
        let largest = sizes.max().unwrap_or(0);
        let mut site = Site::prepare(
            &self.work,
            &self.certificates,
            largest.max(File::Mebibyte.bytes()),
        )?;
        let mut origin = None;
        if cases.iter().any(|case| case.is_proxied()) {
            let cpus = divisions.first().map(|cpus| cpus.generator.as_slice());
            let cpus = cpus.unwrap_or_default();
            let started = Origin::start(cpus)?;
            let tls = started.listen_over_tls(cpus, site.certificates())?;
            site.set_origin(started.address, tls);
            origin = Some(started);
        }
        let mut report = Report::new(&self.servers, self.rounds, self.quick)?;
        let groups = match self.turns {
            Turns::Pairs => groups::by_turns(&cases),
            Turns::All => vec![cases],
        };
        'run: for group in groups {
            for cpus in &divisions {
                let stage = Stage {
                    site: &site,
                    cpus,
                    origin: origin.as_ref(),
                };
                let (results, is_complete) = self.rounds_of(&group, stage, watch)?;
                report.cases.extend(results);
                if !is_complete {
                    break 'run;
                }
            }
        }
        Ok(report)
    }

    /// What each measurement of a round measures, for all divisions of the cores; nothing that a
    /// server is left out of.
    pub(crate) fn agenda(&self) -> Result<Vec<String>, Error> {
        let cases = groups::select(&self.cases)?;
        let mut agenda = Vec::new();
        for cpus in self.divisions()? {
            for case in &cases {
                let name = turn_name(case, cpus.server.len());
                agenda.extend(self.able(case).map(|_| name.clone()));
            }
        }
        Ok(agenda)
    }

    /// The assignment of cores, for each number of server cores.
    fn divisions(&self) -> Result<Vec<Cpus>, Error> {
        if let Some(cpu) = self.server_cpu {
            return Ok(vec![Cpus::choose(ServerCores::Numbered(cpu))?]);
        }
        let counts: &[usize] = match self.server_cores.as_slice() {
            [] => &[1],
            counts => counts,
        };
        counts
            .iter()
            .map(|&count| Cpus::choose(ServerCores::Count(count)))
            .collect()
    }

    /// All rounds of some cases, by turns, on one division of the cores; and whether all were made.
    fn rounds_of(
        &self,
        group: &[&Case],
        stage: Stage<'_>,
        watch: &mut dyn Watch,
    ) -> Result<(Vec<CaseResult>, bool), Error> {
        let started = Instant::now();
        let mut results: Vec<_> = group
            .iter()
            .map(|case| {
                let obstacles = self.servers.iter().map(|server| obstacle(case, server));
                CaseResult::new(case, &stage.cpus.server, obstacles.collect())
            })
            .collect();
        for round in 0..self.rounds {
            for (case, result) in group.iter().zip(&mut results) {
                if !self.round_of(round, case, result, stage, watch)? {
                    return Ok((results, false));
                }
            }
        }
        for (case, result) in group.iter().zip(&mut results) {
            let is_cpu = !matches!(case.measure, Measure::MemoryPerIdleConnection { .. });
            if self.instructions && is_cpu {
                for (index, server) in self.able(case) {
                    let measurement = self
                        .measure(case, server, stage, Extra::Instructions)
                        .map_err(|error| error.of(case, server))?;
                    result.set_instructions(index, measurement.instructions);
                }
            }
            if let Some(directory) = &self.profile {
                self.profile(case, stage, directory)?;
            }
        }
        let names: Vec<_> = group.iter().map(|case| case.name).collect();
        watch.finished(&format!(
            "{:24} {} rounds in {:.0} s",
            names.join(", "),
            self.rounds,
            started.elapsed().as_secs_f64()
        ));
        Ok((results, true))
    }

    /// One round of a case; whether the run goes on.
    fn round_of(
        &self,
        round: usize,
        case: &Case,
        result: &mut CaseResult,
        stage: Stage<'_>,
        watch: &mut dyn Watch,
    ) -> Result<bool, Error> {
        let what = turn_name(case, stage.cpus.server.len());
        for index in order(round, self.servers.len()) {
            let server = &self.servers[index];
            if result.obstacles[index].is_some() || result.failures[index].is_some() {
                continue;
            }
            let turn = Turn {
                what: &what,
                server: &server.name,
                round,
            };
            if !watch.goes_on(turn) {
                return Ok(false);
            }
            match self.measure(case, server, stage, Extra::Nothing) {
                Ok(measurement) => {
                    result.add(index, measurement);
                    watch.measured(turn);
                }
                Err(error) => match watch.failed(turn, error.of(case, server)) {
                    Course::Fail(error) => return Err(error),
                    Course::GoOn(reason) => result.failures[index] = Some(reason),
                    Course::Stop => return Ok(false),
                },
            }
        }
        Ok(true)
    }

    /// The servers that can do the case, with their numbers.
    fn able(&self, case: &Case) -> impl Iterator<Item = (usize, &Server)> {
        let is_able = |(_, server): &(usize, &Server)| obstacle(case, server).is_none();
        self.servers.iter().enumerate().filter(is_able)
    }

    /// One more measurement of each server, sampled by perf and not included in the figures.
    fn profile(&self, case: &Case, stage: Stage<'_>, directory: &Path) -> Result<(), Error> {
        if matches!(case.measure, Measure::MemoryPerIdleConnection { .. }) {
            return Ok(());
        }
        fs::create_dir_all(directory)
            .map_err(|source| Error::io(format!("create {}", directory.display()), source))?;
        for (_, server) in self.able(case) {
            let cores = stage.cpus.server.len();
            let base = directory.join(match cores {
                1 => format!("{}-{}", case.name, server.name),
                _ => format!("{}-{cores}-{}", case.name, server.name),
            });
            self.measure(case, server, stage, Extra::Profile(&base))
                .map_err(|error| error.of(case, server))?;
        }
        Ok(())
    }

    /// Starts a server, measures one case, and stops it.
    fn measure(
        &self,
        case: &Case,
        server: &Server,
        stage: Stage<'_>,
        extra: Extra<'_>,
    ) -> Result<Measurement, Error> {
        let cpus = stage.cpus;
        let wants_kernel_tls = kernel_tls::is_wanted(server);
        let sealed_before = kernel_tls::sealed_connections();
        let running = Running::start(server, stage.site, &cpus.server, case.additions())?;
        let mut profiler = None;
        let mut counter = None;
        match extra {
            Extra::Nothing => {}
            Extra::Profile(base) => {
                profiler = Some(Profiler::attach(running.processes(), base)?);
            }
            Extra::Instructions => {
                let directory = stage.site.prefix(&server.name)?;
                counter = Some(InstructionCounter::attach(running.processes(), &directory)?);
            }
        }
        let mut plan = case.plan(&running.ports, self.measurement, self.quick, self.keys);
        plan.cpus.clone_from(&cpus.generator);
        plan.threads = plan.threads.min(cpus.generator.len().max(1));
        if let Some(resource) = plan.http3.as_mut() {
            // What puts the pieces together is our own on both sides.
            resource.content = Some(stage.site.content(case.file)?);
        }
        let relay = case
            .delay()
            .map(|delay| Relay::start(plan.address, delay, &cpus.generator));
        let relay = relay.transpose()?;
        if let Some(relay) = &relay {
            plan.address = relay.address;
        }
        let measurement = match case.measure {
            Measure::CpuPerOperation { .. } | Measure::TimePerOperation { .. } => {
                measure_cpu(case, &plan, stage, &running, counter)?
            }
            Measure::MemoryPerIdleConnection { .. } => {
                let outcome = load::hold_idle(&plan, running.processes(), Duration::from_secs(1))?;
                Measurement {
                    operations: outcome.connections as u64,
                    negotiated: outcome.negotiated.clone(),
                    ..Measurement::of(outcome.pss_bytes_per_connection() / 1024.0)
                }
            }
        };
        if let Some(profiler) = profiler {
            eprintln!("profile: {}", profiler.finish()?.display());
        }
        running.stop()?;
        if wants_kernel_tls && case.is_sealed() {
            kernel_tls::check(sealed_before)?;
        }
        stage.site.clear_caches(&server.name)?;
        Ok(measurement)
    }
}

/// Why a server is left out of a case, if it is.
fn obstacle(case: &Case, server: &Server) -> Option<Cow<'static, str>> {
    let of_kind = case.obstacle(server.kind).map(Cow::Borrowed);
    let of_version = || case.additions().http3.then(|| server.http3_obstacle())?;
    (of_kind.or_else(of_version)).or_else(|| kernel_tls::obstacle(server))
}

/// The case, and on how many cores if it is more than one.
fn turn_name(case: &Case, cores: usize) -> String {
    match cores {
        1 => case.name.to_owned(),
        _ => format!("{} on {cores} cores", case.name),
    }
}

/// The common surroundings of the measurements of a comparison.
#[derive(Clone, Copy)]
struct Stage<'a> {
    site: &'a Site,
    cpus: &'a Cpus,
    /// The origin of cases that are proxied.
    origin: Option<&'a Origin>,
}

/// Loads a started server.
fn measure_cpu(
    case: &Case,
    plan: &Plan,
    stage: Stage<'_>,
    running: &Running,
    mut counter: Option<InstructionCounter>,
) -> Result<Measurement, Error> {
    let mut asked = stage.origin.map(Origin::meter);
    let mut meters: Vec<&mut dyn Meter> = Vec::new();
    meters.extend(counter.as_mut().map(|counter| counter as _));
    meters.extend(asked.as_mut().map(|asked| asked as _));
    let outcome = load::run_metered(plan, Some(running.processes()), &mut meters)?;
    let instructions = counter.map(InstructionCounter::finish).transpose()?;
    // Refused early data costs another round trip, which is a different case.
    if let Some(count) = outcome.early_data
        && count.rejected > 0
    {
        return Err(Error::Negotiated {
            what: "early data",
            wanted: "acceptance".into(),
            got: format!("{} of {} refused", count.rejected, outcome.operations),
        });
    }
    if let Some(asked) = asked.as_ref().filter(|_| case.resumes_to_origin())
        && asked.full_handshakes * MAX_FULL_SHARE > asked.during
    {
        return Err(Error::Negotiated {
            what: "resumption with the origin",
            wanted: format!("full in at most one of {MAX_FULL_SHARE}"),
            got: format!("full in {} of {}", asked.full_handshakes, asked.during),
        });
    }
    let hits = match (case.cache_use(), &asked) {
        (Some(cache_use), Some(asked)) => Some(hit_rate(cache_use, outcome.operations, asked)?),
        _ => None,
    };
    let per_operation = |count: u64| count as f64 / outcome.operations.max(1) as f64;
    let is_time = matches!(case.measure, Measure::TimePerOperation { .. });
    let ns = match is_time {
        true => 1e9 / outcome.rate_per_s(),
        false => outcome.server_ns_per_operation().unwrap_or(f64::NAN),
    };
    let value = ns / case.unit.nanoseconds();
    Ok(Measurement {
        busy: outcome.server_cpu.map(|cpu| {
            let available_ns = outcome.elapsed.as_nanos() as f64 * stage.cpus.server.len() as f64;
            cpu.total_ns as f64 / available_ns
        }),
        rate_per_s: Some(outcome.rate_per_s()),
        instructions: instructions.map(per_operation),
        system_share: outcome
            .server_cpu
            .filter(|_| !is_time)
            .map(|cpu| cpu.system_ns as f64 / (cpu.user_ns + cpu.system_ns).max(1) as f64),
        memory_kib: outcome
            .server_memory
            .map(|memory| memory.pss_bytes as f64 / 1024.0),
        hits,
        operations: outcome.operations,
        negotiated: outcome.negotiated,
        ..Measurement::of(value)
    })
}

/// nginx resumes only nearly all sessions with an origin: it has one for each, the newest.
const MAX_FULL_SHARE: u64 = 20;

/// The share of the operations that did not reach the origin. It must be all or none of them in a
/// case of hits or misses.
fn hit_rate(cache_use: CacheUse, operations: u64, asked: &OriginRequests) -> Result<f64, Error> {
    let wanted = match cache_use {
        CacheUse::Hits => Some(0),
        CacheUse::Misses => Some(operations),
        CacheUse::Zipf => None,
    };
    match wanted {
        Some(wanted) if wanted != asked.during => Err(Error::Cached {
            wanted,
            got: asked.during,
            operations,
        }),
        _ => Ok(1.0 - asked.during as f64 / operations.max(1) as f64),
    }
}

/// What to observe in addition during a measurement.
#[derive(Clone, Copy)]
enum Extra<'a> {
    Nothing,
    /// perf samples the server into files that begin with this path.
    Profile(&'a Path),
    /// perf counts its instructions.
    Instructions,
}

impl Error {
    /// Adds the failed measurement to an error.
    fn of(self, case: &Case, server: &Server) -> Self {
        Self::Server {
            name: server.name.clone(),
            reason: format!("case {}: {self}", case.name),
        }
    }
}

#[cfg(test)]
mod tests;
