//! The process and its configuration.

use super::Families;
use super::families::{Label, Unit};
use crate::snapshot::Snapshot;
use crate::worker::Process;
use sealane_counters::{Counter, Placed, usage};
use sealane_sys::limits::{self, Resource};
use std::fs;
use std::time::UNIX_EPOCH;
use zerocopy::{FromBytes, IntoBytes};

/// What is counted of the server's processes. The master counts it.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct ProcessCounts {
    /// Reloads that took effect.
    pub reloads: Counter,
    /// Reloads that were refused.
    pub reloads_refused: Counter,
    /// Worker processes that were started.
    pub workers_started: Counter,
    /// Worker processes that ended although nobody had told them to.
    pub workers_died: Counter,
    /// Key processes that were started.
    pub key_processes_started: Counter,
    /// Key processes that ended although nobody had told them to.
    pub key_processes_died: Counter,
    /// When the server was started, in seconds of Unix time.
    pub started_s: Counter,
    /// When the configuration in use was loaded, in seconds of Unix time.
    pub loaded_s: Counter,
}

impl ProcessCounts {
    /// Those of this server.
    pub fn of_server() -> Placed<ProcessCounts> {
        Placed::named("processes")
    }
}

/// What a resolver has asked and was answered.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct ResolverCounts {
    /// Queries for addresses.
    pub names: Counter,
    /// Queries for services.
    pub services: Counter,
    /// Queries for the names of addresses.
    pub addresses: Counter,
    /// Answers by result, see [`RESOLVER_RESULTS`].
    pub results: [Counter; RESOLVER_RESULTS.len()],
}

/// What becomes of queries.
pub const RESOLVER_RESULTS: [&str; 7] = [
    "success",
    "format_error",
    "server_failure",
    "not_found",
    "unimplemented",
    "refused",
    "timed_out",
];

impl ResolverCounts {
    /// Those of the resolver with this name.
    pub fn named(name: &str) -> Placed<ResolverCounts> {
        Placed::named(&format!("resolver {name}"))
    }
}

/// What a session store was asked.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct StoreCounts {
    /// 1 while it answers.
    pub up: Counter,
    /// Requests by result, see [`STORE_RESULTS`].
    pub results: [Counter; STORE_RESULTS.len()],
}

/// What becomes of requests to a session store.
pub const STORE_RESULTS: [&str; 3] = ["success", "timed_out", "error"];

impl StoreCounts {
    /// Those of the store with this name.
    pub fn named(name: &str) -> Placed<StoreCounts> {
        Placed::named(&format!("session store {name}"))
    }
}

pub(super) fn collect<'a>(families: &mut Families<'a>, process: &Process, snapshot: &'a Snapshot) {
    families
        .gauge("build_info", "The version, as a label")
        .by(&["version", "tls"])
        .sample(
            [env!("CARGO_PKG_VERSION"), sealane_tls::library_version()].map(Label::Text),
            1,
        );
    let counts = ProcessCounts::of_server();
    families
        .counter("reloads", "Reloads of the configuration, by result")
        .by(&["result"])
        .each([
            ("success", counts.reloads.get()),
            ("refused", counts.reloads_refused.get()),
        ]);
    families
        .counter("worker_starts", "Worker processes that were started")
        .is(counts.workers_started.get());
    families
        .counter("worker_deaths", "Worker processes that ended unexpectedly")
        .is(counts.workers_died.get());
    families
        .counter("key_process_starts", "Key processes that were started")
        .is(counts.key_processes_started.get());
    families
        .counter(
            "key_process_deaths",
            "Key processes that ended unexpectedly; handshakes wait for the next one",
        )
        .is(counts.key_processes_died.get());
    families
        .gauge("start_time", "When the server was started, in Unix time")
        .in_unit(Unit::Seconds)
        .is(counts.started_s.get());
    families
        .gauge(
            "configuration_load_time",
            "When the configuration was loaded, in Unix time",
        )
        .in_unit(Unit::Seconds)
        .is(counts.loaded_s.get());
    resolvers(families, snapshot);
    stores(families, snapshot);
    if let Some(lost) = process.lost_lines.get() {
        families
            .counter(
                "log_lines_lost",
                "Log lines lost because a log was full, slow or could not be written",
            )
            .is(lost.count());
    }
    memory(families);
    descriptors(families);
    families
        .gauge("worker_threads", "Worker threads of the process")
        .is(process.workers().len() as u64);
    families
        .gauge(
            "worker_connections",
            "Connections that each worker thread may have",
        )
        .is(snapshot.worker_connections.into());
}

fn resolvers<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let all: Vec<(&str, Placed<ResolverCounts>)> = snapshot
        .resolvers
        .iter()
        .map(|name| (&**name, ResolverCounts::named(name)))
        .collect();
    let family = families
        .counter("resolver_queries", "Queries to name servers")
        .by(&["resolver", "type"]);
    for (name, counts) in &all {
        for (kind, counter) in [
            ("name", &counts.names),
            ("srv", &counts.services),
            ("addr", &counts.addresses),
        ] {
            family.sample([*name, kind].map(Label::Text), counter.get());
        }
    }
    let family = families
        .counter(
            "resolver_responses",
            "What became of queries to name servers",
        )
        .by(&["resolver", "result"]);
    for (name, counts) in &all {
        for (result, counter) in RESOLVER_RESULTS.iter().zip(&counts.results) {
            family.sample([*name, *result].map(Label::Text), counter.get());
        }
    }
}

fn stores<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let all: Vec<(&str, Placed<StoreCounts>)> = snapshot
        .session_stores
        .iter()
        .map(|name| (&**name, StoreCounts::named(name)))
        .collect();
    let family = families
        .gauge("session_store_up", "1 while the store answers")
        .by(&["store"]);
    for (name, counts) in &all {
        family.sample([Label::Text(name)], counts.up.get());
    }
    let family = families
        .counter(
            "session_store_requests",
            "Requests to the session store, by result",
        )
        .by(&["store", "result"]);
    for (name, counts) in &all {
        for (result, counter) in STORE_RESULTS.iter().zip(&counts.results) {
            family.sample([*name, *result].map(Label::Text), counter.get());
        }
    }
}

/// Memory of the process, and of the counters themselves.
fn memory(families: &mut Families<'_>) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (line, name, help) in [
        (
            "VmSize:",
            "process_virtual_memory",
            "Address space of the worker process",
        ),
        (
            "VmRSS:",
            "process_resident_memory",
            "Memory of the worker process",
        ),
    ] {
        let mut values = status.lines().filter_map(|known| known.strip_prefix(line));
        let kib = values
            .next()
            .and_then(|value| value.trim().strip_suffix(" kB"));
        if let Some(kib) = kib.and_then(|kib| kib.parse::<u64>().ok()) {
            families
                .gauge(name, help)
                .in_unit(Unit::Bytes)
                .is(kib * 1024);
        }
    }
    let usage = usage();
    families
        .gauge(
            "metrics_memory",
            "Memory that counters take (metrics_memory)",
        )
        .in_unit(Unit::Bytes)
        .is(usage.used_bytes);
    families
        .gauge(
            "metrics_memory_limit",
            "Memory that counters may take (metrics_memory)",
        )
        .in_unit(Unit::Bytes)
        .is(usage.total_bytes);
}

fn descriptors(families: &mut Families<'_>) {
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The listing has one of its own.
        let open = (open.count() as u64).saturating_sub(1);
        families
            .gauge("process_open_fds", "Open descriptors of the worker process")
            .is(open);
    }
    if let Ok(limit) = limits::get(Resource::OpenFiles) {
        families
            .gauge(
                "process_max_fds",
                "Descriptors that the worker process may have",
            )
            .is(limit.soft);
    }
}

/// Seconds since 1970, for times of events.
pub fn unix_s() -> u64 {
    let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
