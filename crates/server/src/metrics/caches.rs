//! Caches of responses.

use super::Families;
use super::families::{Label, Row, Unit};
use crate::proxying::CacheZone;
use crate::snapshot::Snapshot;
use sealane_cache::CACHE_STATUSES;
use smallvec::smallvec;

const ROWS: &[Row<CacheZone>] = &[
    Row::counter(
        "cache_responses_written",
        "Responses that were kept",
        |zone| zone.index.counts().written.get(),
    ),
    Row::bytes(
        "cache_written",
        "Room that their files took on the disk",
        |zone| zone.index.counts().written_bytes.get(),
    ),
    Row::gauge("cache_keys", "Responses that the index knows", |zone| {
        Some(zone.index.keys() as u64)
    }),
    Row::gauge_bytes("cache_size", "Room that files take on the disk", |zone| {
        Some(zone.index.bytes())
    }),
    Row::gauge_bytes(
        "cache_size_limit",
        "Room that files may take (max_size)",
        |zone| zone.index.size_limit(),
    ),
    Row::gauge(
        "cache_cold",
        "1 while the directory is being read after a start",
        |zone| Some(u64::from(zone.index.is_cold())),
    ),
    Row::gauge_bytes("cache_memory", "Responses in memory", |zone| {
        Some(zone.hot.memory_bytes().0)
    }),
    Row::gauge_bytes(
        "cache_memory_limit",
        "Room for responses in memory (memory)",
        |zone| Some(zone.hot.memory_bytes().1),
    ),
];

pub(super) fn collect<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let zones = &snapshot.cache_zones;
    let family = families
        .counter("cache_responses", "Responses by $upstream_cache_status")
        .by(&["cache", "status"]);
    for zone in zones {
        for (status, count) in CACHE_STATUSES.iter().zip(&zone.index.counts().responses) {
            family.sample([zone.name(), status].map(Label::Text), count.get());
        }
    }
    let family = families
        .counter("cache_sent", "Bytes of their bodies that were sent")
        .in_unit(Unit::Bytes)
        .by(&["cache", "status"]);
    for zone in zones {
        for (status, count) in CACHE_STATUSES.iter().zip(&zone.index.counts().sent) {
            family.sample([zone.name(), status].map(Label::Text), count.get());
        }
    }
    let zones: Vec<&'a CacheZone> = zones.iter().map(|zone| &**zone).collect();
    families.table(ROWS, &["cache"], &zones, |zone: &&'a CacheZone| {
        (smallvec![Label::Text(zone.name())], *zone)
    });
}
