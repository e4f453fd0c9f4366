//! Servers and locations.

use super::Families;
use super::families::LabelValue;
use crate::snapshot::Snapshot;
use crate::status::{StatusZone, ZoneSums};
use prometheus_client::registry::Unit;
use std::sync::Arc;

type Counted = (LabelValue, ZoneSums);
/// A counter of a zone: name, help, field.
type Row = (&'static str, &'static str, fn(&ZoneSums) -> u64);

const SERVER_COUNTS: &[Row] = &[
    (
        "server_connections",
        "Connections whose first request the server answered",
        |sums| sums.connections,
    ),
    ("server_requests", "Requests that have ended", |sums| {
        sums.requests
    }),
    (
        "server_requests_discarded",
        "Requests that ended without a response",
        |sums| sums.discarded,
    ),
];

const LOCATION_COUNTS: &[Row] = &[
    ("location_requests", "Requests that have ended", |sums| {
        sums.requests
    }),
    (
        "location_requests_discarded",
        "Requests that ended without a response",
        |sums| sums.discarded,
    ),
];

const SERVER_BYTES: &[Row] = &[
    ("server_received", "Bytes of requests", |sums| sums.received),
    ("server_sent", "Bytes of responses", |sums| sums.sent),
];

const LOCATION_BYTES: &[Row] = &[
    ("location_received", "Bytes of requests", |sums| {
        sums.received
    }),
    ("location_sent", "Bytes of responses", |sums| sums.sent),
];

pub(super) fn collect(families: &mut Families, snapshot: &Snapshot) {
    let sums = |zone: &StatusZone| (Arc::clone(zone.name()), zone.sums());
    let servers: Vec<Counted> = snapshot.zones.servers().into_iter().map(sums).collect();
    let locations: Vec<Counted> = snapshot.zones.locations().into_iter().map(sums).collect();
    counts(families, &servers, &["server"], SERVER_COUNTS, None);
    counts(
        families,
        &servers,
        &["server"],
        SERVER_BYTES,
        Some(Unit::Bytes),
    );
    let active = families.gauge("server_requests_active", "Requests that are being answered");
    active.by(&["server"]);
    for (name, sums) in &servers {
        active.sample(&[name], sums.active);
    }
    handshakes(families, &servers);
    responses(families, &servers, "server_responses", &["server", "code"]);
    let times = families.times(
        "server_request",
        "How long requests took, from their first byte to the last one of the response",
    );
    times.by(&["server"]);
    for (name, sums) in servers.iter().filter(|(_, sums)| sums.requests > 0) {
        times.times(&[name], sums.times);
    }
    counts(families, &locations, &["location"], LOCATION_COUNTS, None);
    counts(
        families,
        &locations,
        &["location"],
        LOCATION_BYTES,
        Some(Unit::Bytes),
    );
    responses(
        families,
        &locations,
        "location_responses",
        &["location", "code"],
    );
}

fn counts(
    families: &mut Families,
    zones: &[Counted],
    labels: &'static [&'static str],
    rows: &[Row],
    unit: Option<Unit>,
) {
    for (name, help, read) in rows {
        let family = families.counter(name, help).by(labels);
        if let Some(unit) = &unit {
            family.in_unit(unit.clone());
        }
        for (zone, sums) in zones {
            family.sample(&[zone], read(sums));
        }
    }
}

fn responses(
    families: &mut Families,
    zones: &[Counted],
    name: &'static str,
    labels: &'static [&'static str],
) {
    let family = families.counter(name, "Responses by status").by(labels);
    for (zone, sums) in zones {
        for (code, count) in sums.responses.iter() {
            family.sample(&[zone, &code.to_string().into()], count);
        }
    }
}

fn handshakes(families: &mut Families, servers: &[Counted]) {
    let family = families
        .counter(
            "server_tls_handshakes",
            "TLS handshakes for names of the server, by result",
        )
        .by(&["server", "result"]);
    let results: [LabelValue; 3] = ["full".into(), "resumed".into(), "failed".into()];
    for (name, sums) in servers {
        let counts = [
            sums.handshakes_full,
            sums.handshakes_resumed,
            sums.handshakes_failed,
        ];
        for (result, count) in results.iter().zip(counts).filter(|(_, count)| *count > 0) {
            family.sample(&[name, result], count);
        }
    }
}
