//! Caches of responses.

use super::Families;
use super::families::LabelValue;
use crate::proxying::CacheZone;
use crate::snapshot::Snapshot;
use prometheus_client::registry::Unit;
use sealane_cache::CACHE_STATUSES;
use std::sync::Arc;

/// A level of a cache: name, help, whether it is in bytes, value.
type LevelRow = (
    &'static str,
    &'static str,
    bool,
    fn(&CacheZone) -> Option<u64>,
);

const LEVELS: &[LevelRow] = &[
    (
        "cache_keys",
        "Responses that the index knows",
        false,
        |zone| Some(zone.index.keys() as u64),
    ),
    (
        "cache_size",
        "Room that files take on the disk",
        true,
        |zone| Some(zone.index.bytes()),
    ),
    (
        "cache_size_limit",
        "Room that files may take (max_size)",
        true,
        |zone| zone.index.size_limit(),
    ),
    (
        "cache_cold",
        "1 while the directory is being read after a start",
        false,
        |zone| Some(u64::from(zone.index.is_cold())),
    ),
    ("cache_memory", "Responses in memory", true, |zone| {
        Some(zone.hot.memory_bytes().0)
    }),
    (
        "cache_memory_limit",
        "Room for responses in memory (memory)",
        true,
        |zone| Some(zone.hot.memory_bytes().1),
    ),
];

pub(super) fn collect(families: &mut Families, snapshot: &Snapshot) {
    let zones: Vec<(LabelValue, &Arc<CacheZone>)> = snapshot
        .cache_zones
        .iter()
        .map(|zone| (zone.name().into(), zone))
        .collect();
    let statuses = CACHE_STATUSES.map(LabelValue::from);
    let family = families
        .counter("cache_responses", "Responses by $upstream_cache_status")
        .by(&["cache", "status"]);
    for (name, zone) in &zones {
        for (status, count) in statuses.iter().zip(&zone.index.counts().responses) {
            family.sample(&[name, status], count.get());
        }
    }
    let family = families
        .counter("cache_sent", "Bytes of their bodies that were sent")
        .in_unit(Unit::Bytes)
        .by(&["cache", "status"]);
    for (name, zone) in &zones {
        for (status, count) in statuses.iter().zip(&zone.index.counts().sent) {
            family.sample(&[name, status], count.get());
        }
    }
    let family = families
        .counter("cache_responses_written", "Responses that were kept")
        .by(&["cache"]);
    for (name, zone) in &zones {
        family.sample(&[name], zone.index.counts().written.get());
    }
    let family = families
        .counter("cache_written", "Room that their files took on the disk")
        .in_unit(Unit::Bytes)
        .by(&["cache"]);
    for (name, zone) in &zones {
        family.sample(&[name], zone.index.counts().written_bytes.get());
    }
    for (name, help, in_bytes, read) in LEVELS {
        let family = families.gauge(name, help).by(&["cache"]);
        if *in_bytes {
            family.in_unit(Unit::Bytes);
        }
        for (zone_name, zone) in &zones {
            if let Some(value) = read(zone) {
                family.sample(&[zone_name], value);
            }
        }
    }
}
