//! How full the zones are that remember something for each key.

use super::Families;
use super::families::{Label, Unit};
use crate::limits::ZoneState;
use crate::snapshot::Snapshot;
use std::sync::Arc;

/// What a zone holds, and how much it may hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ZoneFill {
    pub(crate) keys: u64,
    pub(crate) used_bytes: u64,
    pub(crate) size_bytes: u64,
}

/// Memory of a key in `keys_zone`.
const CACHE_KEY_BYTES: u64 = 128;

pub(super) fn collect<'a>(families: &mut Families<'a>, snapshot: &'a Snapshot) {
    let zones = zones(snapshot);
    for (name, help, unit, read) in [
        (
            "zone_keys",
            "Keys that a zone remembers",
            None,
            (|fill| fill.keys) as fn(&ZoneFill) -> u64,
        ),
        (
            "zone_used",
            "Room that keys of a zone take",
            Some(Unit::Bytes),
            |fill| fill.used_bytes,
        ),
        (
            "zone_size",
            "Room for keys in a zone",
            Some(Unit::Bytes),
            |fill| fill.size_bytes,
        ),
    ] {
        let mut family = families.gauge(name, help).by(&["use", "zone"]);
        if let Some(unit) = unit {
            family = family.in_unit(unit);
        }
        for (use_, zone, fill) in &zones {
            let labels = [Label::Text(use_), Label::Shared(Arc::clone(zone))];
            family.sample(labels, read(fill));
        }
    }
}

/// All of them, with what each is for.
fn zones(snapshot: &Snapshot) -> Vec<(&'static str, Arc<str>, ZoneFill)> {
    let mut zones = Vec::new();
    for zone in &snapshot.limit_zones {
        let (use_, fill) = match &zone.state {
            ZoneState::Requests(state) => ("limit_req", state.fill()),
            ZoneState::Connections(state) => ("limit_conn", state.fill()),
        };
        zones.push((use_, Arc::clone(&zone.conf.name), fill));
    }
    for zone in &snapshot.req_status_zones {
        zones.push(("req_status", Arc::clone(&zone.conf.name), zone.fill()));
    }
    if let Some(zone) = &snapshot.traffic {
        zones.push((
            "vhost_traffic_status",
            Arc::clone(&zone.conf.name),
            zone.fill(),
        ));
    }
    for (name, bytes, cache) in snapshot.sessions.caches() {
        let fill = ZoneFill {
            keys: cache.len() as u64,
            used_bytes: cache.bytes() as u64,
            size_bytes: bytes as u64,
        };
        zones.push(("tls_sessions", name.into(), fill));
    }
    for zone in &snapshot.cache_zones {
        let fill = ZoneFill {
            keys: zone.index.keys() as u64,
            used_bytes: zone.index.keys() as u64 * CACHE_KEY_BYTES,
            size_bytes: zone.index.max_keys() as u64 * CACHE_KEY_BYTES,
        };
        zones.push(("cache_keys", zone.name().into(), fill));
    }
    zones
}
