//! Servers and locations.

use super::Families;
use super::families::{Label, Labels, Row};
use crate::snapshot::Snapshot;
use crate::status::{StatusZone, ZoneSums};
use smallvec::smallvec;

/// A zone by name, with what its threads have counted together.
type Counted<'a> = (&'a str, ZoneSums);

const SERVERS: &[Row<ZoneSums>] = &[
    Row::counter(
        "server_connections",
        "Connections whose first request the server answered, or whose session it served",
        |sums| sums.connections,
    ),
    Row::counter(
        "server_requests",
        "Requests and sessions that have ended",
        |sums| sums.requests,
    ),
    Row::counter(
        "server_requests_discarded",
        "Requests that ended without a response",
        |sums| sums.discarded,
    ),
    Row::bytes(
        "server_received",
        "Bytes of requests, and from clients of sessions",
        |sums| sums.received,
    ),
    Row::bytes(
        "server_sent",
        "Bytes of responses, and to clients of sessions",
        |sums| sums.sent,
    ),
    Row::gauge(
        "server_requests_active",
        "Requests that are being answered, and sessions",
        |sums| Some(sums.active),
    ),
    Row::times(
        "server_request",
        "How long requests took, from their first byte to the last one of the response, and sessions",
        |sums| sums.times,
    ),
];

const LOCATIONS: &[Row<ZoneSums>] = &[
    Row::counter("location_requests", "Requests that have ended", |sums| {
        sums.requests
    }),
    Row::counter(
        "location_requests_discarded",
        "Requests that ended without a response",
        |sums| sums.discarded,
    ),
    Row::bytes("location_received", "Bytes of requests", |sums| {
        sums.received
    }),
    Row::bytes("location_sent", "Bytes of responses", |sums| sums.sent),
];

pub(super) fn collect<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let sums = |zone: &'a StatusZone| (&**zone.name(), zone.sums());
    let servers: Vec<Counted<'a>> = snapshot.zones.servers().into_iter().map(sums).collect();
    let locations: Vec<Counted<'a>> = snapshot.zones.locations().into_iter().map(sums).collect();
    families.table(SERVERS, &["server"], &servers, look);
    handshakes(families, &servers);
    responses(families, &servers, "server_responses", &["server", "code"]);
    families.table(LOCATIONS, &["location"], &locations, look);
    responses(
        families,
        &locations,
        "location_responses",
        &["location", "code"],
    );
}

fn look<'a, 'z>((name, sums): &'z Counted<'a>) -> (Labels<'a>, &'z ZoneSums) {
    (smallvec![Label::Text(name)], sums)
}

fn responses<'a>(
    families: &mut Families<'a>,
    zones: &[Counted<'a>],
    name: &'static str,
    labels: &'static [&'static str],
) {
    let family = families.counter(name, "Responses by status").by(labels);
    for (zone, sums) in zones {
        for (code, count) in sums.responses.iter() {
            family.sample([Label::Text(zone), Label::Status(code)], count);
        }
    }
}

fn handshakes<'a>(families: &mut Families<'a>, servers: &[Counted<'a>]) {
    let family = families
        .counter(
            "server_tls_handshakes",
            "TLS handshakes for names of the server, by result",
        )
        .by(&["server", "result"]);
    for (name, sums) in servers {
        for (result, count) in [
            ("full", sums.handshakes_full),
            ("resumed", sums.handshakes_resumed),
            ("failed", sums.handshakes_failed),
        ] {
            if count > 0 {
                family.sample([*name, result].map(Label::Text), count);
            }
        }
    }
}
