//! Groups of servers that requests are passed to, and their peers.

use super::Families;
use super::families::LabelValue;
use crate::proxying::GroupRuntime;
use crate::snapshot::Snapshot;
use prometheus_client::registry::Unit;
use sealane_counters::{HistogramValues, StatusSums};
use sealane_upstream::{Peer, PeerCounts, PeerState};
use std::sync::Arc;
use std::time::Instant;

/// A peer, with its labels.
struct Shown {
    group: LabelValue,
    peer: Arc<Peer>,
    state: PeerState,
}

/// A counter of a peer: name, help, field.
type Row = (&'static str, &'static str, fn(&PeerCounts) -> u64);
/// A level of a peer.
type LevelRow = (&'static str, &'static str, fn(&Peer) -> u64);
/// Durations of a peer.
type TimeRow = (
    &'static str,
    &'static str,
    fn(&PeerCounts) -> HistogramValues,
);

const COUNTS: &[Row] = &[
    (
        "upstream_requests",
        "Requests that were passed to the peer",
        |counts| counts.requests.get(),
    ),
    (
        "upstream_failures",
        "Requests that failed (proxy_next_upstream)",
        |counts| counts.failures.get(),
    ),
    (
        "upstream_left_out",
        "How often the peer was left out after failures (max_fails)",
        |counts| counts.unavailable.get(),
    ),
];

const BYTES: &[Row] = &[
    ("upstream_sent", "Bytes sent to the peer", |counts| {
        counts.sent.get()
    }),
    (
        "upstream_received",
        "Bytes received from the peer",
        |counts| counts.received.get(),
    ),
];

const LEVELS: &[LevelRow] = &[
    (
        "upstream_requests_active",
        "Requests that the peer is answering",
        |peer| peer.conns().into(),
    ),
    (
        "upstream_connections_idle",
        "Idle connections to the peer",
        |peer| peer.idle() as u64,
    ),
];

const TIMES: &[TimeRow] = &[
    (
        "upstream_header",
        "How long peers took until the head of the response",
        |counts| counts.header_times.values(),
    ),
    (
        "upstream_response",
        "How long peers took until the end of the response",
        |counts| counts.response_times.values(),
    ),
];

const LABELS: &[&str] = &["upstream", "peer"];

pub(super) fn collect(families: &mut Families, snapshot: &Snapshot) {
    let groups = snapshot.groups.all();
    let now = Instant::now();
    let peers: Vec<Shown> = groups.iter().flat_map(|group| shown(group, now)).collect();
    for (name, help, read) in COUNTS {
        let family = families.counter(name, help).by(LABELS);
        for shown in &peers {
            family.sample(&shown.labels(), read(shown.peer.counts()));
        }
    }
    for (name, help, read) in BYTES {
        let family = families.counter(name, help).in_unit(Unit::Bytes).by(LABELS);
        for shown in &peers {
            family.sample(&shown.labels(), read(shown.peer.counts()));
        }
    }
    for (name, help, read) in LEVELS {
        let family = families.gauge(name, help).by(LABELS);
        for shown in &peers {
            family.sample(&shown.labels(), read(&shown.peer));
        }
    }
    let family = families
        .counter("upstream_responses", "Responses of the peer by status")
        .by(&["upstream", "peer", "code"]);
    for shown in &peers {
        let mut sums = StatusSums::default();
        sums.add(&shown.peer.counts().responses);
        for (code, count) in sums.iter() {
            family.sample(
                &[&shown.group, shown.peer.name(), &code.to_string().into()],
                count,
            );
        }
    }
    states(families, &peers);
    for (name, help, read) in TIMES {
        let family = families.times(name, help).by(LABELS);
        for shown in &peers {
            let times = read(shown.peer.counts());
            if times.count() > 0 {
                family.times(&shown.labels(), times);
            }
        }
    }
    let family = families
        .counter(
            "upstream_requests_without_peer",
            "Requests for which no peer could be picked",
        )
        .by(&["upstream"]);
    for group in groups {
        family.sample(&[&group.group.name().into()], group.group.without_peer());
    }
}

/// The state of each peer: 1 for the one that it is in.
fn states(families: &mut Families, peers: &[Shown]) {
    let family = families
        .gauge("upstream_peer_state", "1 for the state that the peer is in")
        .by(&["upstream", "peer", "state"]);
    let states = PeerState::ALL.map(|state| (state, LabelValue::from(state.name())));
    for shown in peers {
        for (state, word) in &states {
            let is_it = u64::from(*state == shown.state);
            family.sample(&[&shown.group, shown.peer.name(), word], is_it);
        }
    }
}

/// The peers of a group. Of several with one address, the first stands for all.
fn shown(group: &GroupRuntime, now: Instant) -> Vec<Shown> {
    let name = LabelValue::from(group.group.name());
    let mut all: Vec<Shown> = Vec::new();
    for (peer, state, _) in group.group.peer_states(now) {
        if all.iter().all(|known| known.peer.name() != peer.name()) {
            all.push(Shown {
                group: Arc::clone(&name),
                peer,
                state,
            });
        }
    }
    all
}

impl Shown {
    fn labels(&self) -> [&LabelValue; 2] {
        [&self.group, self.peer.name()]
    }
}
