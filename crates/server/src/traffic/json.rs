//! The JSON of nginx-module-vts.

use super::figures::{CacheFigures, Figures, PeerFigures, ZoneFigures};
use crate::variables::NGINX_VERSION;
use sealane_cache::CACHE_STATUSES;
use sealane_counters::{BUCKET_BOUNDS, HistogramValues};
use serde_json::{Map, Value, json};

/// What numbers can be at most, by the module's name.
const MAX_INTEGER: u64 = u64::MAX;

pub(super) fn object(figures: &Figures) -> String {
    let connections = figures.connections.iter();
    let connections: Map<String, Value> = connections
        .map(|(name, number)| ((*name).to_owned(), (*number).into()))
        .collect();
    let fill = &figures.fill;
    let mut all = json!({
        "hostName": figures.hostname,
        "moduleVersion": concat!("Sealane ", env!("CARGO_PKG_VERSION")),
        "nginxVersion": NGINX_VERSION,
        "loadMsec": figures.loaded_ms,
        "nowMsec": figures.now_ms,
        "connections": connections,
        "sharedZones": {
            "name": &*figures.zone,
            "maxSize": fill.size_bytes,
            "usedSize": fill.used_bytes,
            "usedNode": fill.keys,
            "freeSize": fill.size_bytes.saturating_sub(fill.used_bytes),
        },
        "serverZones": named(&figures.servers, zone),
    });
    // As in the module, what there is nothing of is left out.
    let mut groups = Map::new();
    for (group, name, shown) in &figures.filters {
        let group = groups.entry(group.clone()).or_insert_with(|| json!({}));
        group[name] = zone(shown);
    }
    if !groups.is_empty() {
        all["filterZones"] = groups.into();
    }
    if !figures.upstreams.is_empty() {
        let peers = |peers: &Vec<PeerFigures>| peers.iter().map(peer).collect();
        all["upstreamZones"] = named(&figures.upstreams, peers);
    }
    if !figures.caches.is_empty() {
        let caches = figures.caches.iter();
        let caches = caches.map(|figures| (figures.name.clone(), cache(figures)));
        all["cacheZones"] = Value::Object(caches.collect());
    }
    format!("{all}\n")
}

fn named<T>(all: &[(String, T)], show: fn(&T) -> Value) -> Value {
    let all = all.iter();
    Value::Object(all.map(|(name, one)| (name.clone(), show(one))).collect())
}

fn zone(shown: &ZoneFigures) -> Value {
    let entry = &shown.entry;
    let mut responses = classes(&entry.classes);
    add_cache_statuses(&mut responses, &entry.caches);
    let mut over = zeros(&responses);
    for name in [
        "requestCounter",
        "inBytes",
        "outBytes",
        "requestMsecCounter",
    ] {
        over[name] = 0.into();
    }
    let times = entry.times.iter();
    let (times, ms): (Vec<u64>, Vec<u32>) = times.copied().unzip();
    json!({
        "requestCounter": entry.requests,
        "inBytes": entry.received,
        "outBytes": entry.sent,
        "responses": responses,
        "requestMsecCounter": entry.total_ms,
        "requestMsec": shown.average_ms,
        "requestMsecs": {"times": times, "msecs": ms},
        "requestBuckets": {"msecs": &*entry.bounds_ms, "counters": &*entry.buckets},
        "overCounts": over,
    })
}

fn peer(peer: &PeerFigures) -> Value {
    let responses = classes(&peer.classes);
    let mut over = zeros(&responses);
    for name in [
        "requestCounter",
        "inBytes",
        "outBytes",
        "requestMsecCounter",
        "responseMsecCounter",
    ] {
        over[name] = 0.into();
    }
    let (total_ms, average_ms) = (peer.total_ms(), peer.average_ms());
    let none = || json!({"times": [], "msecs": []});
    json!({
        "server": &*peer.name,
        "requestCounter": peer.requests,
        "inBytes": peer.sent,
        "outBytes": peer.received,
        "responses": responses,
        "requestMsecCounter": total_ms,
        "requestMsec": average_ms,
        "requestMsecs": none(),
        "requestBuckets": buckets(&peer.times),
        "responseMsecCounter": total_ms,
        "responseMsec": average_ms,
        "responseMsecs": none(),
        "responseBuckets": buckets(&peer.times),
        "weight": peer.weight,
        "maxFails": peer.max_fails,
        "failTimeout": peer.fail_timeout_s,
        "backup": peer.backup,
        "down": peer.down,
        "overCounts": over,
    })
}

/// Those whose bounds are whole milliseconds; every one includes those before.
fn buckets(times: &HistogramValues) -> Value {
    let (mut bounds, mut counts, mut sum) = (Vec::new(), Vec::new(), 0);
    for (bound, count) in BUCKET_BOUNDS.iter().zip(times.buckets) {
        sum += count;
        if bound.as_millis() > 0 {
            bounds.push(u64::try_from(bound.as_millis()).unwrap_or(u64::MAX));
            counts.push(sum);
        }
    }
    json!({"msecs": bounds, "counters": counts})
}

fn cache(cache: &CacheFigures) -> Value {
    let mut responses = json!({});
    add_cache_statuses(&mut responses, &cache.statuses);
    let mut over = zeros(&responses);
    for name in ["inBytes", "outBytes"] {
        over[name] = 0.into();
    }
    json!({
        "maxSize": cache.max_bytes,
        "usedSize": cache.used_bytes,
        "inBytes": 0,
        "outBytes": cache.sent,
        "responses": responses,
        "overCounts": over,
    })
}

fn classes(classes: &[u64; 5]) -> Value {
    let [first, second, third, fourth, fifth] = classes;
    json!({"1xx": first, "2xx": second, "3xx": third, "4xx": fourth, "5xx": fifth})
}

fn add_cache_statuses(responses: &mut Value, counts: &[u64; CACHE_STATUSES.len()]) {
    for (status, count) in CACHE_STATUSES.iter().zip(counts) {
        responses[*status] = (*count).into();
    }
    // Here such a response is a miss, as in `$upstream_cache_status`.
    responses["scarce"] = 0.into();
}

/// How often each number has begun anew: never, with 64 bits.
fn zeros(numbers: &Value) -> Value {
    let mut zeros = json!({"maxIntegerSize": MAX_INTEGER});
    for name in numbers.as_object().into_iter().flat_map(Map::keys) {
        zeros[name] = 0.into();
    }
    zeros
}
