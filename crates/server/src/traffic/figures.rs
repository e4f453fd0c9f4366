//! All that is shown, read at one time.

use super::TrafficZoneRuntime;
use super::zone::{Entry, MAX_TIMES};
use crate::metrics::{ProcessCounts, ZoneFill};
use crate::proxying::GroupRuntime;
use crate::snapshot::Snapshot;
use crate::worker::Process;
use sealane_cache::CACHE_STATUSES;
use sealane_conf::model::{ServerKind, TrafficShow};
use sealane_counters::{HistogramValues, StatusLabel, StatusSums};
use sealane_sys::time::monotonic_coarse_ms;
use sealane_upstream::{Peer, PeerState};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The group of peers that no `upstream` block names, as in the module.
const ALONE: &str = "::nogroups";

pub(super) struct Figures {
    pub(super) hostname: &'static str,
    /// When the configuration was loaded, in milliseconds since 1970.
    pub(super) loaded_ms: u64,
    pub(super) now_ms: u64,
    /// By the words of `stub_status`, in the order of the alphabet.
    pub(super) connections: [(&'static str, u64); 7],
    pub(super) zone: Arc<str>,
    pub(super) fill: ZoneFill,
    /// By name; the sum of all is the last one.
    pub(super) servers: Vec<(String, ZoneFigures)>,
    /// By group and name.
    pub(super) filters: Vec<(String, String, ZoneFigures)>,
    /// By group, in the order of the configuration.
    pub(super) upstreams: Vec<(String, Vec<PeerFigures>)>,
    pub(super) caches: Vec<CacheFigures>,
}

/// An entry, with the average of its times.
pub(super) struct ZoneFigures {
    pub(super) entry: Entry,
    pub(super) average_ms: u64,
}

pub(super) struct PeerFigures {
    pub(super) name: Arc<str>,
    pub(super) requests: u64,
    /// Bytes sent to it: of requests.
    pub(super) sent: u64,
    /// Bytes received from it: of responses.
    pub(super) received: u64,
    pub(super) classes: [u64; 5],
    pub(super) times: HistogramValues,
    pub(super) weight: u32,
    pub(super) max_fails: u32,
    pub(super) fail_timeout_s: u64,
    pub(super) backup: bool,
    pub(super) down: bool,
}

pub(super) struct CacheFigures {
    pub(super) name: String,
    /// `max_size`, or the largest number.
    pub(super) max_bytes: u64,
    pub(super) used_bytes: u64,
    /// Bytes of bodies that were sent.
    pub(super) sent: u64,
    pub(super) statuses: [u64; CACHE_STATUSES.len()],
}

impl PeerFigures {
    /// The mean in milliseconds.
    pub(super) fn average_ms(&self) -> u64 {
        self.total_ms().checked_div(self.times.count()).unwrap_or(0)
    }

    pub(super) fn total_ms(&self) -> u64 {
        u64::try_from(self.times.sum.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Figures {
    pub(super) fn read(
        process: &Process,
        snapshot: &Snapshot,
        zone: &TrafficZoneRuntime,
        show: &TrafficShow,
    ) -> Figures {
        let now_ms = monotonic_coarse_ms();
        let over_ms = u64::try_from(show.average_over.as_millis()).unwrap_or(u64::MAX);
        let shown = |entry: Entry| ZoneFigures {
            average_ms: entry.average_ms(show.weighs, over_ms, now_ms),
            entry,
        };
        let (servers, filters) = zone.copied();
        let sum = sum(&servers);
        let servers = servers.into_iter().chain([(show.sum_key.to_string(), sum)]);
        let filters = filters.into_iter();
        Figures {
            hostname: crate::variables::hostname().unwrap_or(""),
            loaded_ms: ProcessCounts::of_server().loaded_s.get() * 1000,
            now_ms: unix_ms(),
            connections: connections(process),
            zone: Arc::clone(&zone.conf.name),
            fill: zone.fill(),
            servers: servers.map(|(name, entry)| (name, shown(entry))).collect(),
            filters: filters
                .map(|(group, name, entry)| (group, name, shown(entry)))
                .collect(),
            upstreams: match zone.conf.shows_upstreams {
                true => upstreams(snapshot),
                false => Vec::new(),
            },
            caches: caches(snapshot),
        }
    }
}

fn connections(process: &Process) -> [(&'static str, u64); 7] {
    [
        ("accepted", process.total(|counts| counts.accepted.get())),
        ("active", process.level(|counts| counts.active.get())),
        ("handled", process.total(|counts| counts.handled.get())),
        ("reading", process.level(|counts| counts.reading.get())),
        ("requests", process.total(|counts| counts.requests.get())),
        ("waiting", process.level(|counts| counts.waiting.get())),
        ("writing", process.level(|counts| counts.writing.get())),
    ]
}

/// All servers together.
fn sum(servers: &[(String, Entry)]) -> Entry {
    let mut sum = Entry::default();
    let mut times = Vec::new();
    let bounds = servers.first().map(|(_, entry)| &entry.bounds_ms);
    // A histogram of all there is only if all have the same buckets.
    let bounds = bounds.filter(|bounds| servers.iter().all(|(_, one)| one.bounds_ms == **bounds));
    if let Some(bounds) = bounds {
        sum = Entry::new(bounds);
    }
    for (_, entry) in servers {
        sum.merge(entry);
        times.extend(&entry.times);
    }
    times.sort_by_key(|(then_ms, _)| *then_ms);
    sum.times = times
        .split_off(times.len().saturating_sub(MAX_TIMES))
        .into();
    sum
}

fn upstreams(snapshot: &Snapshot) -> Vec<(String, Vec<PeerFigures>)> {
    let (mut named, mut alone) = (Vec::new(), Vec::new());
    let all = snapshot.groups.all().iter();
    for group in all.filter(|group| group.kind == ServerKind::Http) {
        match group.explicit {
            true => named.push((group.group.name().to_owned(), peers(group))),
            false => alone.extend(peers(group)),
        }
    }
    // These would come and go with what clients ask for; the module shows them once they were used.
    alone.retain(|peer: &PeerFigures| peer.requests > 0);
    if !alone.is_empty() {
        named.push((ALONE.to_owned(), alone));
    }
    named
}

fn peers(group: &GroupRuntime) -> Vec<PeerFigures> {
    let peers = group.group.peer_states(Instant::now()).into_iter();
    peers
        .map(|(peer, state, backup)| peer_figures(&peer, state, backup))
        .collect()
}

fn peer_figures(peer: &Peer, state: PeerState, backup: bool) -> PeerFigures {
    let counts = peer.counts();
    let mut sums = StatusSums::default();
    sums.add(&counts.responses);
    PeerFigures {
        name: Arc::clone(peer.name()),
        requests: counts.requests.get(),
        sent: counts.sent.get(),
        received: counts.received.get(),
        classes: classes(&sums),
        times: counts.response_times.values(),
        weight: peer.weight(),
        max_fails: peer.max_fails(),
        fail_timeout_s: peer.fail_timeout_ms() / 1000,
        backup,
        down: !matches!(state, PeerState::Up | PeerState::Busy | PeerState::Draining),
    }
}

fn classes(sums: &StatusSums) -> [u64; 5] {
    let mut classes = [0; 5];
    for (label, count) in sums.iter() {
        let first = match label {
            StatusLabel::Code(code) => usize::from(code / 100),
            StatusLabel::Class(class) => usize::from(class.as_bytes()[0].wrapping_sub(b'0')),
        };
        if let Some(sum) = first.checked_sub(1).and_then(|at| classes.get_mut(at)) {
            *sum += count;
        }
    }
    classes
}

fn caches(snapshot: &Snapshot) -> Vec<CacheFigures> {
    let zones = snapshot.cache_zones.iter();
    let figures = zones.map(|zone| {
        let counts = zone.index.counts();
        CacheFigures {
            name: zone.name().to_owned(),
            max_bytes: zone.index.size_limit().unwrap_or(i64::MAX.unsigned_abs()),
            used_bytes: zone.index.bytes(),
            sent: counts.sent.iter().map(|sent| sent.get()).sum(),
            statuses: std::array::from_fn(|at| counts.responses[at].get()),
        }
    });
    figures.collect()
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
