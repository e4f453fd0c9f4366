//! The JSON tree of `api`, with the names of Angie's module of that name.

use crate::limits::{ZoneState, ZoneVerdict};
use crate::metrics::{ProcessCounts, RESOLVER_RESULTS, ResolverCounts};
use crate::proxying::{CacheZone, GroupRuntime};
use crate::snapshot::Snapshot;
use crate::status::{StatusZone, ZoneSums};
use crate::worker::Process;
use sealane_cache::CACHE_STATUSES;
use sealane_counters::{HistogramValues, StatusLabel, StatusSums};
use sealane_http::date::log_iso8601;
use sealane_upstream::{Peer, PeerState};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// The part of the tree at this path: names between slashes.
///
/// # Errors
/// The JSON of Angie's error for a path that leads nowhere.
pub(super) fn answer(process: &Process, path: &str) -> Result<String, String> {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    let first = names.next();
    let tree = process.workers().first().map(|worker| {
        let snapshot = worker.current.snapshot();
        branch(process, &snapshot, first)
    });
    let mut found = tree.flatten();
    for name in names {
        found = found.and_then(|value| match value {
            Value::Object(mut members) => members.remove(name),
            _ => None,
        });
    }
    match found {
        Some(value) => Ok(format!("{value:#}\n")),
        None => Err(format!(
            "{:#}\n",
            json!({
                "error": "PathNotFound",
                "description": format!("Requested API entity \"/{}\" doesn't exist.", path.trim_start_matches('/')),
            })
        )),
    }
}

/// The whole tree, or one of its branches.
fn branch(process: &Process, snapshot: &Snapshot, name: Option<&str>) -> Option<Value> {
    Some(match name {
        None => {
            let branches = ["angie", "connections", "slabs", "http", "resolvers"];
            let members = branches.into_iter().filter_map(|name| {
                branch(process, snapshot, Some(name)).map(|value| (name.to_owned(), value))
            });
            Value::Object(members.collect())
        }
        Some("angie") => about(process),
        Some("connections") => connections(process),
        // Zones of memory with a limit of their own are shown where they are used.
        Some("slabs") => json!({}),
        Some("http") => json!({
            "server_zones": named(snapshot.zones.servers(), server_zone),
            "location_zones": named(snapshot.zones.locations(), location_zone),
            "caches": caches(snapshot),
            "limit_conns": limits(snapshot, false),
            "limit_reqs": limits(snapshot, true),
            "upstreams": upstreams(snapshot),
        }),
        Some("resolvers") => resolvers(snapshot),
        Some(_) => return None,
    })
}

fn about(process: &Process) -> Value {
    let counts = ProcessCounts::of_server();
    let generation = process
        .workers()
        .first()
        .map(|worker| worker.current.generation());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": "Sealane",
        "generation": generation.unwrap_or(0) + 1,
        "load_time": iso_time(counts.loaded_s.get()),
    })
}

fn connections(process: &Process) -> Value {
    let accepted = process.total(|counts| counts.accepted.get());
    let handled = process.total(|counts| counts.handled.get());
    let active = process.level(|counters| counters.active.get());
    let idle = process.level(|counters| counters.waiting.get());
    json!({
        "accepted": accepted,
        "dropped": accepted.saturating_sub(handled),
        "active": active.saturating_sub(idle),
        "idle": idle,
    })
}

fn named(zones: Vec<&StatusZone>, show: fn(&ZoneSums) -> Value) -> Value {
    let zones = zones.into_iter();
    Value::Object(
        zones
            .map(|zone| (zone.name().to_string(), show(&zone.sums())))
            .collect(),
    )
}

fn server_zone(sums: &ZoneSums) -> Value {
    let mut zone = location_zone(sums);
    zone["requests"]["processing"] = sums.active.into();
    let handshaked = sums.handshakes_full + sums.handshakes_resumed;
    if handshaked + sums.handshakes_failed > 0 {
        zone["ssl"] = json!({
            "handshaked": handshaked,
            "reuses": sums.handshakes_resumed,
            "failed": sums.handshakes_failed,
        });
    }
    zone
}

fn location_zone(sums: &ZoneSums) -> Value {
    json!({
        "requests": {"total": sums.requests, "discarded": sums.discarded},
        "responses": responses(&sums.responses),
        "data": {"received": sums.received, "sent": sums.sent},
    })
}

/// Responses by status, rare ones by class.
fn responses(sums: &StatusSums) -> Value {
    let shown = sums.iter().map(|(label, count)| {
        let name = match label {
            StatusLabel::Code(code) => code.to_string(),
            StatusLabel::Class(class) => class.to_owned(),
        };
        (name, count.into())
    });
    Value::Object(shown.collect())
}

fn caches(snapshot: &Snapshot) -> Value {
    let zones = snapshot.cache_zones.iter();
    Value::Object(
        zones
            .map(|zone| (zone.name().to_owned(), cache(zone)))
            .collect(),
    )
}

fn cache(zone: &CacheZone) -> Value {
    let counts = zone.index.counts();
    let mut shown = Map::new();
    shown.insert("size".to_owned(), zone.index.bytes().into());
    if let Some(limit) = zone.index.size_limit() {
        shown.insert("max_size".to_owned(), limit.into());
    }
    shown.insert("cold".to_owned(), zone.index.is_cold().into());
    for (at, status) in CACHE_STATUSES.iter().enumerate() {
        let (responses, bytes) = (counts.responses[at].get(), counts.sent[at].get());
        shown.insert(
            (*status).to_owned(),
            json!({"responses": responses, "bytes": bytes}),
        );
    }
    // Which of these three a response that was kept had been is not told apart.
    shown["miss"]["responses_written"] = counts.written.get().into();
    shown["miss"]["bytes_written"] = counts.written_bytes.get().into();
    Value::Object(shown)
}

fn limits(snapshot: &Snapshot, of_requests: bool) -> Value {
    let zones = snapshot.limit_zones.iter();
    let zones = zones.filter(|zone| matches!(zone.state, ZoneState::Requests(_)) == of_requests);
    let shown = zones.map(|zone| {
        let count = |verdict| zone.counts.get(verdict);
        let mut members = json!({
            "passed": count(ZoneVerdict::Passed),
            "skipped": count(ZoneVerdict::Skipped),
            "rejected": count(ZoneVerdict::Rejected),
            "exhausted": count(ZoneVerdict::Exhausted),
        });
        if of_requests {
            members["delayed"] = count(ZoneVerdict::Delayed).into();
        }
        (zone.conf.name.to_string(), members)
    });
    Value::Object(shown.collect())
}

fn upstreams(snapshot: &Snapshot) -> Value {
    let groups = snapshot.groups.every().filter(|group| group.explicit);
    Value::Object(
        groups
            .map(|group| (group.group.counted_as().to_string(), upstream(&group)))
            .collect(),
    )
}

fn upstream(group: &GroupRuntime) -> Value {
    let mut idle = 0;
    let mut peers = Map::new();
    for (peer, state, is_backup) in group.group.peer_states(Instant::now()) {
        idle += peer.idle();
        peers.insert(peer.name().to_string(), shown_peer(&peer, state, is_backup));
    }
    json!({"peers": peers, "keepalive": idle})
}

fn shown_peer(peer: &Peer, state: PeerState, is_backup: bool) -> Value {
    let counts = peer.counts();
    let mut sums = StatusSums::default();
    sums.add(&counts.responses);
    let mut shown = json!({
        "server": &**peer.server(),
        "backup": is_backup,
        "weight": peer.weight(),
        "state": state.name(),
        "selected": {"current": peer.conns(), "total": counts.requests.get()},
        "responses": responses(&sums),
        "data": {"sent": counts.sent.get(), "received": counts.received.get()},
        "health": {
            "fails": counts.failures.get(),
            "unavailable": counts.unavailable.get(),
        },
    });
    if counts.checks.get() > 0 {
        shown["health_checks"] = json!({
            "checks": counts.checks.get(),
            "fails": counts.checks_failed.get(),
            "unhealthy": counts.unhealthy.get(),
        });
    }
    if peer.max_conns() > 0 {
        shown["max_conns"] = peer.max_conns().into();
    }
    for (name, times) in [
        ("header_time", counts.header_times.values()),
        ("response_time", counts.response_times.values()),
    ] {
        if let Some(mean_ms) = mean_ms(&times) {
            shown["health"][name] = mean_ms.into();
        }
    }
    shown["sid"] = String::from_utf8_lossy(peer.server_id()).into();
    shown
}

/// The mean in milliseconds.
fn mean_ms(times: &HistogramValues) -> Option<u64> {
    let count = u32::try_from(times.count())
        .ok()
        .filter(|count| *count > 0)?;
    u64::try_from((times.sum / count).as_millis()).ok()
}

fn resolvers(snapshot: &Snapshot) -> Value {
    let names = snapshot.resolvers.iter();
    let shown = names.map(|name| {
        let counts = ResolverCounts::named(name);
        let results = RESOLVER_RESULTS.iter().zip(&counts.results);
        let results = results.map(|(result, counter)| {
            // Angie writes it in one word.
            let result = if *result == "timed_out" {
                "timedout"
            } else {
                result
            };
            (result.to_owned(), Value::from(counter.get()))
        });
        // Angie looks up names of addresses, too, and has a word for results without one.
        let results = results.chain([("other".to_owned(), Value::from(0))]);
        let members = json!({
            "queries": {
                "name": counts.names.get(),
                "srv": counts.services.get(),
                "addr": counts.addresses.get(),
                "addr": 0,
            },
            "responses": Value::Object(results.collect()),
        });
        (name.to_string(), members)
    });
    Value::Object(shown.collect())
}

/// `2026-11-26T02:30:00+00:00`.
fn iso_time(unix_s: u64) -> String {
    let text = log_iso8601(i64::try_from(unix_s).unwrap_or(0), 0);
    String::from_utf8_lossy(&text).into_owned()
}
