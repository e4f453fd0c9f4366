//! Groups of servers that requests are passed to, and their peers.

use super::Families;
use super::families::{Label, Row};
use crate::proxying::GroupRuntime;
use sealane_counters::StatusSums;
use sealane_upstream::{Peer, PeerState};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Instant;

/// A peer, with its labels.
struct Shown<'a> {
    group: &'a str,
    peer: Arc<Peer>,
    state: PeerState,
}

const ROWS: &[Row<Peer>] = &[
    Row::counter(
        "upstream_requests",
        "Requests and sessions that were passed to the peer",
        |peer| peer.counts().requests.get(),
    ),
    Row::counter(
        "upstream_failures",
        "Requests and sessions that failed (proxy_next_upstream)",
        |peer| peer.counts().failures.get(),
    ),
    Row::counter(
        "upstream_left_out",
        "How often the peer was left out after failures (max_fails)",
        |peer| peer.counts().unavailable.get(),
    ),
    Row::counter(
        "upstream_health_checks",
        "Health checks of the peer that have ended",
        |peer| peer.counts().checks.get(),
    ),
    Row::counter(
        "upstream_health_checks_failed",
        "Health checks of the peer that failed",
        |peer| peer.counts().checks_failed.get(),
    ),
    Row::counter(
        "upstream_unhealthy",
        "How often health checks have taken the peer out of use",
        |peer| peer.counts().unhealthy.get(),
    ),
    Row::bytes("upstream_sent", "Bytes sent to the peer", |peer| {
        peer.counts().sent.get()
    }),
    Row::bytes(
        "upstream_received",
        "Bytes received from the peer",
        |peer| peer.counts().received.get(),
    ),
    Row::gauge(
        "upstream_requests_active",
        "Requests that the peer is answering, and sessions",
        |peer| Some(peer.conns().into()),
    ),
    Row::gauge(
        "upstream_connections_idle",
        "Idle connections to the peer",
        |peer| Some(peer.idle() as u64),
    ),
    Row::times(
        "upstream_header",
        "How long peers took until the head of the response, or the first byte of a session",
        |peer| peer.counts().header_times.values(),
    ),
    Row::times(
        "upstream_response",
        "How long peers took until the end of the response, or of the session",
        |peer| peer.counts().response_times.values(),
    ),
];

pub(super) fn collect<'a>(families: &mut Families<'a>, groups: &'a [Arc<GroupRuntime>]) {
    let now = Instant::now();
    let peers: Vec<Shown<'a>> = groups.iter().flat_map(|group| shown(group, now)).collect();
    families.table(ROWS, &["upstream", "peer"], &peers, |shown| {
        let labels = smallvec![Label::Text(shown.group), shown.name()];
        (labels, &*shown.peer)
    });
    let family = families
        .counter("upstream_responses", "Responses of the peer by status")
        .by(&["upstream", "peer", "code"]);
    for shown in &peers {
        let mut sums = StatusSums::default();
        sums.add(&shown.peer.counts().responses);
        for (code, count) in sums.iter() {
            let labels = [Label::Text(shown.group), shown.name(), Label::Status(code)];
            family.sample(labels, count);
        }
    }
    states(families, &peers);
    let family = families
        .counter(
            "upstream_requests_without_peer",
            "Requests and sessions for which no peer could be picked",
        )
        .by(&["upstream"]);
    for group in groups {
        let name = Label::Text(group.group.counted_as());
        family.sample([name], group.group.without_peer());
    }
    queues(families, groups);
}

/// Groups with `queue`.
fn queues<'a>(families: &mut Families<'a>, groups: &'a [Arc<GroupRuntime>]) {
    let with_queue = || {
        groups
            .iter()
            .filter(|group| group.group.queue_settings().is_some())
    };
    let name = |group: &'a GroupRuntime| Label::Text(group.group.counted_as());
    let family = families
        .gauge("upstream_queue_waiting", "Requests that wait in the queue")
        .by(&["upstream"]);
    for group in with_queue() {
        family.sample([name(group)], group.group.waiting() as u64);
    }
    let family = families
        .counter(
            "upstream_queue_overflows",
            "Requests for which the queue was full",
        )
        .by(&["upstream"]);
    for group in with_queue() {
        family.sample([name(group)], group.group.overflows());
    }
}

/// The state of each peer: 1 for the one that it is in.
fn states<'a>(families: &mut Families<'a>, peers: &[Shown<'a>]) {
    let family = families
        .gauge("upstream_peer_state", "1 for the state that the peer is in")
        .by(&["upstream", "peer", "state"]);
    for shown in peers {
        for state in PeerState::ALL {
            let is_it = u64::from(state == shown.state);
            let state = Label::Text(state.name());
            family.sample([Label::Text(shown.group), shown.name(), state], is_it);
        }
    }
}

/// The peers of a group. Of several with one address, the first stands for all.
fn shown(group: &GroupRuntime, now: Instant) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown<'_>> = Vec::new();
    for (peer, state, _) in group.group.peer_states(now) {
        if all.iter().all(|known| known.peer.name() != peer.name()) {
            all.push(Shown {
                group: group.group.counted_as(),
                peer,
                state,
            });
        }
    }
    all
}

impl Shown<'_> {
    /// A peer may go with the next look-up of its name.
    fn name(&self) -> Label<'static> {
        Label::Shared(Arc::clone(self.peer.name()))
    }
}
