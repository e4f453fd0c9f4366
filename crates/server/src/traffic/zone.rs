//! What is counted under each name, and the memory for names.

use crate::limits::zone::Zone;
use crate::metrics::ZoneFill;
use sealane_cache::CACHE_STATUSES;
use sealane_conf::model::{Http, TrafficZone};
use sealane_sys::time::monotonic_coarse_ms;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that an entry takes, besides its name: most of it for times and buckets.
const NODE_BYTES: usize = 1900;
/// Times that averages are computed of, as in the module.
pub(super) const MAX_TIMES: usize = 64;
/// Of longer names, so much is kept.
const MAX_NAME_BYTES: usize = 1024;
/// Between a group and a name in it.
const SEPARATOR: u8 = 0x1f;
/// How often the log tells that the zone is full.
const COMPLAINT_INTERVAL_MS: u64 = 60_000;

/// A zone at run time.
pub(crate) struct TrafficZoneRuntime {
    /// Its configuration.
    pub(crate) conf: Arc<TrafficZone>,
    names: Arc<TrafficNames>,
}

/// The names, which snapshots with the same zone share.
struct TrafficNames {
    /// Servers and filters.
    all: Zone<Entry>,
    /// Filters that are limited in number: one list, in the order of use.
    limited: Zone<Entry>,
    complained_ms: AtomicU64,
}

/// Under what requests are counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Kind, group and name.
    key: Vec<u8>,
    group_bytes: usize,
    /// It is from the configuration, and takes no room of others.
    is_static: bool,
}

const SERVER: u8 = b'S';
const FILTER: u8 = b'F';

impl Name {
    pub(super) fn server(name: &[u8], is_static: bool) -> Name {
        let mut key = vec![SERVER];
        key.extend_from_slice(cut(name));
        Name {
            key,
            group_bytes: 0,
            is_static,
        }
    }

    pub(super) fn filter(group: &[u8], name: &[u8]) -> Name {
        let group = cut(group);
        let mut key = vec![FILTER];
        // The separator ends the group.
        key.extend(group.iter().map(|byte| match *byte {
            SEPARATOR => b' ',
            byte => byte,
        }));
        key.push(SEPARATOR);
        key.extend_from_slice(cut(name));
        Name {
            key,
            group_bytes: group.len(),
            is_static: false,
        }
    }

    /// The group of a filter.
    fn group(&self) -> Option<&[u8]> {
        (self.key[0] == FILTER).then(|| &self.key[1..=self.group_bytes])
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(MAX_NAME_BYTES)]
}

/// What a request adds.
pub(super) struct RequestFigures {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) status: u16,
    /// `$upstream_cache_status` as an index into [`CACHE_STATUSES`].
    pub(super) cache: Option<usize>,
    pub(super) took_ms: u32,
}

impl RequestFigures {
    /// The class of its status, 0 for none.
    pub(super) fn class(&self) -> u8 {
        match self.status {
            100..600 => (self.status / 100) as u8, // at most 5
            _ => 0,
        }
    }
}

/// A copy of what is counted of a server, with its name.
pub(super) type ServerEntry = (String, Entry);
/// The same of a filter, with its group and its name.
pub(super) type FilterEntry = (String, String, Entry);

/// What is counted under a name.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) requests: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Responses by class: 1xx to 5xx.
    pub(super) classes: [u64; 5],
    /// Responses by cache status.
    pub(super) caches: [u64; CACHE_STATUSES.len()],
    pub(super) total_ms: u64,
    /// The last times: when a request ended, on the coarse clock, and how long it took.
    pub(super) times: VecDeque<(u64, u32)>,
    pub(super) bounds_ms: Arc<[u32]>,
    /// Requests that took at most as long as each bound; every one includes those before.
    pub(super) buckets: Box<[u64]>,
}

impl Entry {
    pub(super) fn new(bounds_ms: &Arc<[u32]>) -> Entry {
        Entry {
            bounds_ms: Arc::clone(bounds_ms),
            buckets: vec![0; bounds_ms.len()].into(),
            ..Entry::default()
        }
    }

    fn add(&mut self, figures: &RequestFigures, now_ms: u64) {
        self.requests += 1;
        self.received += figures.received;
        self.sent += figures.sent;
        if let Some(class) = figures.class().checked_sub(1) {
            self.classes[usize::from(class)] += 1;
        }
        if let Some(status) = figures.cache {
            self.caches[status] += 1;
        }
        self.total_ms += u64::from(figures.took_ms);
        if self.times.len() == MAX_TIMES {
            self.times.pop_front();
        }
        self.times.push_back((now_ms, figures.took_ms));
        let bounds = self.bounds_ms.iter().zip(&mut self.buckets);
        for (_, count) in bounds.filter(|(bound, _)| **bound >= figures.took_ms) {
            *count += 1;
        }
    }

    /// Adds another one, for a sum.
    pub(super) fn merge(&mut self, other: &Entry) {
        self.requests += other.requests;
        self.received += other.received;
        self.sent += other.sent;
        self.total_ms += other.total_ms;
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum += more;
        }
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += more;
        }
        for (sum, more) in self.caches.iter_mut().zip(other.caches) {
            *sum += more;
        }
    }

    /// The average of the times in milliseconds that are no older than `over_ms`; with `weighs`,
    /// the last counts most. 0 if there are none.
    pub(super) fn average_ms(&self, weighs: bool, over_ms: u64, now_ms: u64) -> u64 {
        let is_recent = |then_ms: u64| over_ms == 0 || now_ms.saturating_sub(then_ms) <= over_ms;
        let recent = self.times.iter().filter(|(then_ms, _)| is_recent(*then_ms));
        let (mut sum, mut weights) = (0, 0);
        for (at, (_, ms)) in recent.enumerate() {
            let weight = if weighs { at as u64 + 1 } else { 1 };
            sum += weight * u64::from(*ms);
            weights += weight;
        }
        sum.checked_div(weights).unwrap_or(0)
    }
}

impl TrafficZoneRuntime {
    /// A zone of the configuration. It takes over the numbers of the one before if name and size
    /// are the same.
    pub(crate) fn build(
        http: &Http,
        before: Option<&TrafficZoneRuntime>,
    ) -> Option<TrafficZoneRuntime> {
        let conf = http.traffic.clone()?;
        let is_same = |known: &&TrafficZoneRuntime| {
            known.conf.name == conf.name && known.conf.bytes == conf.bytes
        };
        let names = match before.filter(is_same) {
            Some(known) => Arc::clone(&known.names),
            None => Arc::new(TrafficNames {
                all: Zone::new(conf.bytes, NODE_BYTES),
                limited: Zone::in_one_shard(conf.bytes, NODE_BYTES),
                complained_ms: AtomicU64::new(0),
            }),
        };
        Some(TrafficZoneRuntime { conf, names })
    }

    /// Adds a request. Returns false if there is no room for its name.
    pub(super) fn count(
        &self,
        name: &Name,
        figures: &RequestFigures,
        bounds_ms: &Arc<[u32]>,
    ) -> bool {
        let now_ms = monotonic_coarse_ms();
        let key = &name.key;
        let is_limited = name.group().is_some_and(|group| self.conf.limits(group));
        let zone = match is_limited {
            true => &self.names.limited,
            false => &self.names.all,
        };
        let mut shard = zone.lock(zone.position_of(key));
        let id = match shard.find(key) {
            Some(id) => id,
            None => {
                let max = usize::try_from(self.conf.max_filters).unwrap_or(usize::MAX);
                let fits = |shard: &crate::limits::zone::Locked<'_, Entry>| {
                    shard.has_room(key) && shard.len() < max
                };
                if is_limited && shard.may_ever_have_room(key) {
                    while !fits(&shard)
                        && let Some(oldest) = shard.oldest()
                    {
                        shard.remove(oldest);
                    }
                }
                // The configuration has as many servers as it has.
                if !name.is_static && !shard.has_room(key) {
                    return false;
                }
                shard.insert(key, Entry::new(bounds_ms))
            }
        };
        shard.state(id).add(figures, now_ms);
        true
    }

    /// Whether it is time for the log to tell that the zone is full.
    pub(super) fn may_complain(&self) -> bool {
        let now_ms = monotonic_coarse_ms().max(1);
        let last_ms = self.names.complained_ms.load(Ordering::Relaxed);
        let is_time = last_ms == 0 || now_ms.saturating_sub(last_ms) >= COMPLAINT_INTERVAL_MS;
        let exchanged = || {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let complained = &self.names.complained_ms;
            complained.compare_exchange(last_ms, now_ms, success, failure)
        };
        is_time && exchanged().is_ok()
    }

    /// What it holds.
    pub(crate) fn fill(&self) -> ZoneFill {
        let (all, limited) = (self.names.all.fill(), self.names.limited.fill());
        ZoneFill {
            keys: all.keys + limited.keys,
            used_bytes: all.used_bytes + limited.used_bytes,
            size_bytes: all.size_bytes,
        }
    }

    /// Copies of all servers and all filters, by group and name, in the order of their names.
    /// Copies, as worker threads wait meanwhile.
    pub(super) fn copied(&self) -> (Vec<ServerEntry>, Vec<FilterEntry>) {
        let (mut servers, mut filters) = (Vec::new(), Vec::new());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut copy = |key: &[u8], entry: &Entry| match key.split_first() {
            Some((&SERVER, name)) => servers.push((text(name), entry.clone())),
            Some((_, rest)) => {
                let end = rest.iter().position(|byte| *byte == SEPARATOR);
                let (group, name) = rest.split_at(end.unwrap_or(rest.len()));
                let name = name.get(1..).unwrap_or_default();
                filters.push((text(group), text(name), entry.clone()));
            }
            None => {}
        };
        self.names.all.each(&mut copy);
        self.names.limited.each(&mut copy);
        servers.sort_by(|(one, _), (other, _)| one.cmp(other));
        filters.sort_by(|(g1, n1, _), (g2, n2, _)| (g1, n1).cmp(&(g2, n2)));
        (servers, filters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(lines: &str) -> TrafficZoneRuntime {
        let config = crate::testing::parse(&format!("events {{}} http {{ {lines} }}"));
        let http = config.http.expect("there is one");
        TrafficZoneRuntime::build(&http, None).expect("there is a zone")
    }

    fn figures(took_ms: u32) -> RequestFigures {
        RequestFigures {
            received: 10,
            sent: 20,
            status: 200,
            cache: None,
            took_ms,
        }
    }

    #[test]
    fn names_of_clients_take_no_room_of_servers() {
        let zone = zone("vhost_traffic_status_zone shared:t:64k;");
        let none: Arc<[u32]> = Arc::default();
        let count = |name: &Name| zone.count(name, &figures(1), &none);
        let fitting =
            (0..1000).filter(|number| count(&Name::server(format!("h{number}").as_bytes(), false)));
        assert!((10..40).contains(&fitting.count()));
        assert!(!count(&Name::filter(b"g", b"n")));
        assert!(count(&Name::server(b"ours", true)));
        assert!(zone.may_complain());
        assert!(!zone.may_complain());
        let (servers, _) = zone.copied();
        assert!(
            servers
                .iter()
                .any(|(name, entry)| name == "ours" && entry.requests == 1)
        );
    }

    #[test]
    fn limited_filters_make_room_for_each_other() {
        let zone = zone("vhost_traffic_status_zone; vhost_traffic_status_filter_max_node 3 uris;");
        let none: Arc<[u32]> = Arc::default();
        for number in 0..100 {
            let name = number.to_string();
            for group in ["uris::a", "other"] {
                let name = Name::filter(group.as_bytes(), name.as_bytes());
                assert!(zone.count(&name, &figures(1), &none));
            }
            // It is met again and again.
            assert!(zone.count(&Name::filter(b"uris::b", b"kept"), &figures(1), &none));
        }
        let (_, filters) = zone.copied();
        let of = |wanted: &str| {
            let names = filters
                .iter()
                .filter(|(group, ..)| group.starts_with(wanted));
            names
                .map(|(_, name, entry)| (&**name, entry.requests))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("uris"), [("98", 1), ("99", 1), ("kept", 100)]);
        assert_eq!(of("other").len(), 100);
    }

    #[test]
    fn averages_and_buckets_are_those_of_the_times() {
        let mut entry = Entry::new(&Arc::from([5, 10, 100]));
        for (took_ms, then_ms) in [(100, 0), (6, 70_000), (10, 70_001), (2, 70_002)] {
            entry.add(&figures(took_ms), then_ms);
        }
        assert_eq!(*entry.buckets, [1, 3, 4]);
        assert_eq!((entry.total_ms, entry.requests), (118, 4));
        assert_eq!(entry.average_ms(false, 60_000, 80_000), 6);
        assert_eq!(entry.average_ms(true, 60_000, 80_000), (6 + 20 + 6) / 6);
        assert_eq!(entry.average_ms(false, 0, 80_000), 118 / 4);
        assert_eq!(entry.average_ms(false, 1000, 80_000), 0);
        for _ in 0..1000 {
            entry.add(&figures(1), 80_000);
        }
        assert_eq!(entry.times.len(), MAX_TIMES);
    }
}
