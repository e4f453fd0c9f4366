//! The arguments of `sealane bench`, and its output.

mod report;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use crate::{
    Error, Expected, Histogram, Kind, Memory, ProcessTree, Server, Url,
    cli::report::ReportArgs,
    compare::{self, Comparison, Turns},
    datagrams::Datagrams,
    load::{
        self, ConnectionUse, IdleOutcome, KeyType, Limit, Offer, Outcome, Plan, Protocol, Resource,
        Resumption, TlsPlan,
    },
    storm::{Storm, StormKey},
    testbed::Precedence,
};

/// Measures servers: load, memory of idle connections, comparisons.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Load one URL and report rate, latency and, with --pid, server CPU per operation
    Load(LoadArgs),
    /// Hold idle connections after one request each and report the server's memory per connection
    Idle(IdleArgs),
    /// Alternate servers on one core with the same configuration and report ratios of CPU per
    /// operation
    Compare(CompareArgs),
    /// Alternate servers and report how an established connection fares while others do handshakes
    Storm(StormArgs),
    /// Alternate servers on one core that pass datagrams (UDP) on, and report CPU per datagram
    Datagrams(DatagramsArgs),
    /// Write a page with published tables beside what is measured here. Exit status 1: something
    /// has failed, and the page says what; 130: ended by a signal, with what was measured before
    Report(ReportArgs),
}

/// The common arguments of `load` and `idle`: the URL, TLS, and what is expected.
#[derive(clap::Args, Debug)]
struct TargetArgs {
    /// http:// or https:// URL
    url: Url,
    /// Connect to this address instead of resolving the URL's host
    #[arg(long, value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
    /// Status that every response must have
    #[arg(long, default_value_t = 200)]
    status: u16,
    /// Length in bytes that every body must have
    #[arg(long, value_name = "BYTES")]
    length: Option<u64>,
    /// Pin the TLS version
    #[arg(long)]
    protocol: Option<Protocol>,
    /// Pin the suite: IANA name in TLS 1.3, OpenSSL's name below
    #[arg(long)]
    suite: Option<String>,
    /// Pin the key-exchange group
    #[arg(long)]
    group: Option<String>,
    /// Pin the kind of certificate key
    #[arg(long)]
    key_type: Option<KeyType>,
    /// What is offered besides: nothing, or what browsers offer (TLS 1.2 and 1.3, AES-128-GCM and
    /// X25519MLKEM768 first, HTTP/2)
    #[arg(long, value_enum, default_value_t)]
    offer: Offer,
    /// Disable tickets, so that TLS 1.2 resumes by session id
    #[arg(long)]
    no_tickets: bool,
    /// Ask for an OCSP response along with the certificate, and fail without one
    #[arg(long)]
    staple: bool,
    /// Request over HTTP/3 (QUIC); the client closes the connections that are not kept
    #[arg(long, conflicts_with_all = ["protocol", "offer", "staple"])]
    http3: bool,
    /// Concurrent requests on each connection of HTTP/3; each is an operation
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "http3",
        value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Process id of the server; its children are included
    #[arg(long)]
    pid: Option<u32>,
    /// Cores for the generator, such as 0,1 (default: chosen by the kernel)
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct LoadArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Concurrent clients
    #[arg(short, long, default_value_t = 16)]
    clients: usize,
    /// Event loops (threads) that run the clients
    #[arg(short, long, default_value_t = 1)]
    threads: usize,
    /// Length of the measurement
    #[arg(short, long, default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Measure this many operations instead of a fixed time
    #[arg(short = 'n', long, conflicts_with = "seconds")]
    operations: Option<u64>,
    /// Length of the warm-up before it
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    warm_up_seconds: Duration,
    /// One connection per request
    #[arg(long)]
    close: bool,
    /// Resume a session on every connection (implies --close)
    #[arg(long)]
    resume: bool,
    /// Resume on every connection and send the request as early data (0-RTT); fails if the server
    /// accepts none
    #[arg(long, conflicts_with_all = ["close", "resume"])]
    early_data: bool,
}

#[derive(clap::Args, Debug)]
struct IdleArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Connections to hold
    #[arg(short = 'c', long, default_value_t = 2000)]
    connections: usize,
    /// How long to hold them before reading the memory
    #[arg(long, default_value = "1", value_parser = seconds)]
    hold_seconds: Duration,
}

/// The common arguments of `compare` and `storm`: the servers, rounds, and where the figures go.
#[derive(clap::Args, Debug)]
struct TurnsArgs {
    /// A server: name=path of an nginx or sealane binary, or of what --kind says
    #[arg(long = "server", value_name = "NAME=PATH", required = true)]
    servers: Vec<Server>,
    /// What a server is if it does not read nginx.conf: name=h2o or name=haproxy
    #[arg(long = "kind", value_name = "NAME=KIND")]
    kinds: Vec<String>,
    /// Directives for the http block of one server only: name='directive value;'
    #[arg(long = "directives", value_name = "NAME=TEXT")]
    directives: Vec<String>,
    /// Directives for the server blocks with an RSA key of one server only: name='directive value;'
    #[arg(long = "rsa-directives", value_name = "NAME=TEXT")]
    rsa_directives: Vec<String>,
    /// Directives for the upstream block of one server only: name='directive value;'
    #[arg(long = "upstream-directives", value_name = "NAME=TEXT")]
    upstream_directives: Vec<String>,
    /// Directives for the events block of one server only: name='directive value;'
    #[arg(long = "events", value_name = "NAME=TEXT")]
    events: Vec<String>,
    /// Directives outside of all blocks of one server only: name='directive value;'
    #[arg(long = "main", value_name = "NAME=TEXT")]
    main: Vec<String>,
    /// Directory of the test certificates
    #[arg(long, value_name = "DIRECTORY")]
    certificates: PathBuf,
    /// Directory for configurations, files and logs of the run
    #[arg(long, value_name = "DIRECTORY")]
    work: PathBuf,
    /// Interleaved rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Fewer and shorter rounds: to check that everything works, not for publication
    #[arg(long)]
    quick: bool,
    /// Niceness of servers and clients, such as -20 if others use the machine at the same time
    /// (requires root)
    #[arg(long, allow_negative_numbers = true)]
    nice: Option<i32>,
    /// Write all figures as JSON to this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown to this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct CompareArgs {
    #[command(flatten)]
    turns: TurnsArgs,
    /// Cases to run, by default all except those of s2; `help` lists them
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Length of each measurement
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// The single core of the servers (default: the last one); the generator gets the others
    #[arg(long, conflicts_with = "server_cores")]
    server_cpu: Option<usize>,
    /// How many cores the servers get (the last ones), with a worker on each; a list such as 1,2
    /// runs both in turn [default: 1]
    #[arg(long, value_name = "COUNT", value_delimiter = ',')]
    server_cores: Vec<usize>,
    /// Count each server's user-space instructions with perf, in one more measurement per case
    #[arg(long)]
    instructions: bool,
    /// How many responses the case zipf asks for
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,
    /// Sample each server with perf in one more measurement per case, into this directory
    #[arg(long, value_name = "DIRECTORY")]
    profile: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct StormArgs {
    #[command(flatten)]
    turns: TurnsArgs,
    /// Keys of the handshakes, such as rsa2048,p256 (default: all)
    #[arg(long = "key", value_name = "KIND", value_delimiter = ',')]
    keys: Vec<StormKey>,
    /// Clients that do handshakes
    #[arg(short, long, default_value_t = 64)]
    clients: usize,
    /// Milliseconds between the requests of the established connection
    #[arg(long, value_name = "MILLISECONDS", default_value = "2", value_parser = milliseconds_of)]
    interval: Duration,
    /// Length of each storm
    #[arg(long, default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// How many cores the servers get (the last ones), with a worker on each; a list such as 2,1
    /// runs both in turn [default: 2 if there are 4, otherwise 1]
    #[arg(long, value_name = "COUNT", value_delimiter = ',')]
    server_cores: Vec<usize>,
}

#[derive(clap::Args, Debug)]
struct DatagramsArgs {
    /// A server: name=path of an nginx or sealane binary
    #[arg(long = "server", value_name = "NAME=PATH", required = true)]
    servers: Vec<Server>,
    /// Directory for configurations and logs of the run
    #[arg(long, value_name = "DIRECTORY")]
    work: PathBuf,
    /// Interleaved rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of each measurement
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("\"{text}\" is not a number of seconds"))
}

fn milliseconds_of(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("\"{text}\" is not a number of milliseconds above 0"))
}

pub(crate) fn run(args: Args) -> Result<ExitCode, Error> {
    match args.command {
        Command::Load(args) => run_load(&args)?,
        Command::Idle(args) => run_idle(&args)?,
        Command::Compare(args) => run_compare(args)?,
        Command::Storm(args) => run_storm(args)?,
        Command::Datagrams(args) => Datagrams {
            servers: args.servers,
            rounds: args.rounds,
            measurement: args.seconds,
            work: args.work,
        }
        .run()?,
        Command::Report(args) => return args.run(),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_load(args: &LoadArgs) -> Result<(), Error> {
    let connection_use = if args.close || args.resume {
        ConnectionUse::PerRequest
    } else {
        ConnectionUse::KeepAlive
    };
    let mut plan = args.target.plan(connection_use)?;
    plan.clients = args.clients;
    plan.threads = args.threads;
    plan.warm_up = args.warm_up_seconds;
    plan.limit = args
        .operations
        .map_or(Limit::Duration(args.seconds), Limit::Operations);
    if args.resume || args.early_data {
        let tls = plan
            .tls
            .as_mut()
            .ok_or_else(|| Error::Usage("--resume and --early-data need an https:// URL".into()))?;
        tls.resumption = match args.early_data {
            true => Resumption::EarlyData,
            false => Resumption::Resumed,
        };
    }
    let outcome = load::run(&plan, args.target.server())?;
    if args.target.json {
        println!("{:#}", outcome_json(&outcome));
    } else {
        print_outcome(&outcome);
    }
    Ok(())
}

fn run_idle(args: &IdleArgs) -> Result<(), Error> {
    let server = args
        .target
        .server()
        .ok_or_else(|| Error::Usage("idle needs --pid".into()))?;
    let mut plan = args.target.plan(ConnectionUse::KeepAlive)?;
    plan.clients = args.connections;
    let outcome = load::hold_idle(&plan, server, args.hold_seconds)?;
    if args.target.json {
        println!("{:#}", idle_json(&outcome));
    } else {
        print_idle(&outcome);
    }
    Ok(())
}

/// Number of rounds and length of a measurement with `--quick`.
const QUICK_ROUNDS: usize = 2;
const QUICK_MEASUREMENT: Duration = Duration::from_millis(500);

fn run_compare(args: CompareArgs) -> Result<(), Error> {
    if args.cases.iter().any(|case| case == "help") {
        print!("{}", compare::list_cases());
        return Ok(());
    }
    let turns = args.turns;
    let _precedence = turns.precedence()?;
    let comparison = Comparison {
        servers: turns.servers()?,
        cases: args.cases,
        rounds: turns.rounds(),
        measurement: turns.measurement(args.seconds),
        certificates: turns.certificates.clone(),
        work: turns.work.clone(),
        quick: turns.quick,
        server_cpu: args.server_cpu,
        server_cores: args.server_cores,
        instructions: args.instructions,
        keys: args.keys,
        profile: args.profile,
        turns: Turns::Pairs,
    };
    let report = comparison.run()?;
    turns.publish(&report.table(), &report.json(), &report.markdown())
}

fn run_storm(args: StormArgs) -> Result<(), Error> {
    let turns = args.turns;
    let _precedence = turns.precedence()?;
    let storm = Storm {
        servers: turns.servers()?,
        keys: args.keys,
        clients: args.clients,
        interval: args.interval,
        rounds: turns.rounds(),
        measurement: turns.measurement(args.seconds),
        certificates: turns.certificates.clone(),
        work: turns.work.clone(),
        quick: turns.quick,
        server_cores: args.server_cores,
    };
    let report = storm.run()?;
    turns.publish(&report.table(), &report.json(), &report.markdown())
}

impl TurnsArgs {
    /// The servers, each with its kind and its own directives.
    fn servers(&self) -> Result<Vec<Server>, Error> {
        let mut servers = self.servers.clone();
        for text in &self.kinds {
            set_kind(&mut servers, text)?;
        }
        for text in &self.directives {
            let (server, directives) = addressee(&mut servers, text)?;
            server.directives = directives.to_owned();
        }
        for text in &self.rsa_directives {
            let (server, directives) = addressee(&mut servers, text)?;
            server.rsa_directives = directives.to_owned();
        }
        for text in &self.upstream_directives {
            let (server, directives) = addressee(&mut servers, text)?;
            server.upstream_directives = directives.to_owned();
        }
        for text in &self.events {
            let (server, directives) = addressee(&mut servers, text)?;
            server.events = directives.to_owned();
        }
        for text in &self.main {
            let (server, directives) = addressee(&mut servers, text)?;
            server.main = directives.to_owned();
        }
        let reads_none = |server: &&Server| server.kind != Kind::Nginx && server.has_directives();
        match servers.iter().find(reads_none) {
            Some(server) => Err(Error::Usage(format!(
                "server \"{}\" cannot have directives: {} does not read nginx.conf",
                server.name,
                server.kind.product()
            ))),
            None => Ok(servers),
        }
    }

    /// Sets the requested niceness for the lifetime of the value.
    fn precedence(&self) -> Result<Option<Precedence>, Error> {
        self.nice.map(Precedence::take).transpose()
    }

    fn rounds(&self) -> usize {
        match self.quick {
            true => self.rounds.min(QUICK_ROUNDS),
            false => self.rounds,
        }
    }

    fn measurement(&self, wanted: Duration) -> Duration {
        match self.quick {
            true => wanted.min(QUICK_MEASUREMENT),
            false => wanted,
        }
    }

    /// Writes the figures where the arguments ask for.
    fn publish(&self, table: &str, json: &str, markdown: &str) -> Result<(), Error> {
        // Standard output carries one format; with `-` that is not the text table.
        let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(std::path::Path::new("-"));
        if !is_stdout(&self.json) && !is_stdout(&self.markdown) {
            print!("{table}");
        }
        for (path, text) in [(&self.json, json), (&self.markdown, markdown)] {
            match path {
                Some(_) if is_stdout(path) => print!("{text}"),
                Some(path) => std::fs::write(path, text)
                    .map_err(|source| Error::io(format!("write {}", path.display()), source))?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Sets the kind of the server in `name=kind`.
fn set_kind(servers: &mut [Server], text: &str) -> Result<(), Error> {
    let (server, kind) = addressee(servers, text)?;
    server.kind = Kind::from_str(kind, false)
        .map_err(|_| Error::Usage(format!("\"{kind}\" is not one of nginx, h2o and haproxy")))?;
    Ok(())
}

/// The server named in `name=value`, and the value.
fn addressee<'a, 't>(
    servers: &'a mut [Server],
    text: &'t str,
) -> Result<(&'a mut Server, &'t str), Error> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Error::Usage(format!("\"{text}\" is not of the form name=value")))?;
    let server = servers
        .iter_mut()
        .find(|server| server.name == name)
        .ok_or_else(|| {
            Error::Usage(format!(
                "\"{text}\" is for a server \"{name}\", and there is none"
            ))
        })?;
    Ok((server, value))
}

impl TargetArgs {
    fn plan(&self, connection_use: ConnectionUse) -> Result<Plan, Error> {
        let address = match self.address {
            Some(address) => address,
            None => (self.url.host.as_str(), self.url.port)
                .to_socket_addrs()
                .map_err(|source| Error::io(format!("resolve {}", self.url.host), source))?
                .next()
                .ok_or_else(|| Error::Usage(format!("{} has no address", self.url.host)))?,
        };
        let expected = Expected {
            status: self.status,
            body_bytes: self.length,
        };
        let mut plan = Plan::new(&self.url, address, expected, connection_use);
        let pins = self.protocol.is_some()
            || self.suite.is_some()
            || self.group.is_some()
            || self.key_type.is_some()
            || self.staple
            || self.offer != Offer::Pinned;
        match plan.tls.as_mut() {
            Some(tls) => {
                *tls = TlsPlan {
                    offer: self.offer,
                    protocol: self.protocol,
                    suite: self.suite.clone(),
                    group: self.group.clone(),
                    key_type: self.key_type,
                    resumption: Resumption::Full,
                    tickets: !self.no_tickets,
                    staple: self.staple,
                }
            }
            None if pins => {
                return Err(Error::Usage(format!(
                    "TLS settings do not apply to {}",
                    self.url
                )));
            }
            None => {}
        }
        plan.http3 = self.http3.then(|| Resource {
            streams: self.streams.into(),
            authority: self.url.host_header(),
            path: self.url.path.clone(),
            content: None,
        });
        if self.http3 && plan.tls.is_none() {
            return Err(Error::Usage("--http3 needs an https:// URL".into()));
        }
        plan.cpus.clone_from(&self.cpus);
        Ok(plan)
    }

    fn server(&self) -> Option<ProcessTree> {
        self.pid.map(ProcessTree::of)
    }
}

/// The percentiles to report.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

fn print_outcome(outcome: &Outcome) {
    if let Some(negotiated) = &outcome.negotiated {
        println!("negotiated   {negotiated}");
    }
    println!(
        "operations   {} on {} new connections in {:.2} s",
        outcome.operations,
        outcome.connections,
        outcome.elapsed.as_secs_f64()
    );
    println!(
        "rate         {:.1} /s, {:.1} MB/s",
        outcome.rate_per_s(),
        outcome.body_bytes as f64 / 1e6 / outcome.elapsed.as_secs_f64()
    );
    if let Some(early_data) = outcome.early_data {
        println!(
            "early data   {} accepted, {} rejected",
            early_data.accepted, early_data.rejected
        );
    }
    println!("latency ms   {}", milliseconds(&outcome.latency));
    println!("first byte   {}", milliseconds(&outcome.first_byte));
    if let (Some(cpu), Some(ns)) = (outcome.server_cpu, outcome.server_ns_per_operation()) {
        println!(
            "server CPU   {:.2} us per operation ({:.0} % of it in the kernel, {:.0} % of one core)",
            ns / 1e3,
            100.0 * cpu.system_ns as f64 / (cpu.user_ns + cpu.system_ns).max(1) as f64,
            100.0 * cpu.total_ns as f64 / outcome.elapsed.as_nanos() as f64,
        );
    }
    println!(
        "generator    {:.2} us of CPU per operation",
        outcome.generator_cpu.total_ns as f64 / 1e3 / outcome.operations.max(1) as f64
    );
}

fn milliseconds(latency: &Histogram) -> String {
    let each = PERCENTILES.iter().map(|(name, percent)| {
        let latency = latency.percentile(*percent);
        format!("{name} {:.3}", latency.as_secs_f64() * 1e3)
    });
    each.collect::<Vec<_>>().join("  ")
}

fn microseconds(latency: &Histogram) -> serde_json::Map<String, serde_json::Value> {
    let each = PERCENTILES.iter().map(|(name, percent)| {
        let latency = latency.percentile(*percent);
        ((*name).to_owned(), json!(latency.as_secs_f64() * 1e6))
    });
    each.collect()
}

fn outcome_json(outcome: &Outcome) -> serde_json::Value {
    json!({
        "negotiated": outcome.negotiated,
        "operations": outcome.operations,
        "connections": outcome.connections,
        "body_bytes": outcome.body_bytes,
        "elapsed_s": outcome.elapsed.as_secs_f64(),
        "rate_per_s": outcome.rate_per_s(),
        "latency_us": microseconds(&outcome.latency),
        "first_byte_us": microseconds(&outcome.first_byte),
        "early_data": outcome.early_data,
        "server_cpu": outcome.server_cpu,
        "server_us_per_operation": outcome.server_ns_per_operation().map(|ns| ns / 1e3),
        "generator_cpu": outcome.generator_cpu,
    })
}

fn print_idle(outcome: &IdleOutcome) {
    if let Some(negotiated) = &outcome.negotiated {
        println!("negotiated   {negotiated}");
    }
    let mib = |memory: Memory| memory.pss_bytes as f64 / 1048576.0;
    println!("connections  {} idle", outcome.connections);
    println!(
        "server PSS   {:.1} MiB before, {:.1} MiB holding them",
        mib(outcome.before),
        mib(outcome.holding)
    );
    println!(
        "per idle connection  {:.2} KiB PSS, {:.2} KiB RSS",
        outcome.pss_bytes_per_connection() / 1024.0,
        outcome.rss_bytes_per_connection() / 1024.0
    );
}

fn idle_json(outcome: &IdleOutcome) -> serde_json::Value {
    json!({
        "negotiated": outcome.negotiated,
        "connections": outcome.connections,
        "before": outcome.before,
        "holding": outcome.holding,
        "pss_bytes_per_connection": outcome.pss_bytes_per_connection(),
        "rss_bytes_per_connection": outcome.rss_bytes_per_connection(),
    })
}

#[cfg(test)]
mod tests;
