//! The metrics of nginx-module-vts.

use super::figures::{Figures, ZoneFigures};
use crate::variables::NGINX_VERSION;
use sealane_cache::CACHE_STATUSES;
use sealane_counters::BUCKET_BOUNDS;
use std::fmt::{Display, Write};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The text that is built up.
#[derive(Default)]
struct Metrics(String);

/// The labels of a line: names and values.
type Labels<'l> = &'l [(&'l str, &'l str)];

impl Metrics {
    /// Begins a metric.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n"); // a String takes everything
    }

    fn line(&mut self, name: &str, labels: Labels<'_>, more: (&str, &str), value: impl Display) {
        self.0.push_str(name);
        let mut before = '{';
        let more = Some(more).filter(|(name, _)| !name.is_empty());
        for (name, value) in labels.iter().copied().chain(more) {
            self.0.push(before);
            before = ',';
            self.0.push_str(name);
            self.0.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if before == ',' {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}"); // the same
    }

    /// Lines for several values of one label.
    fn lines<N: Display>(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        label: &str,
        values: impl IntoIterator<Item = (&'static str, N)>,
    ) {
        for (value, number) in values {
            self.line(name, labels, (label, value), number);
        }
    }
}

const NO_MORE: (&str, &str) = ("", "");

/// Seconds with milliseconds.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

pub(super) fn text(figures: &Figures) -> String {
    let mut metrics = Metrics::default();
    main(&mut metrics, figures);
    let servers: Vec<_> = figures
        .servers
        .iter()
        .map(|(name, shown)| ([("host", &**name)], shown))
        .collect();
    let servers: Vec<_> = servers
        .iter()
        .map(|(labels, shown)| (&labels[..], *shown))
        .collect();
    zones(&mut metrics, "server", &servers);
    let filters: Vec<_> = figures
        .filters
        .iter()
        .map(|(group, name, shown)| ([("filter", &**group), ("filter_name", &**name)], shown))
        .collect();
    let filters: Vec<_> = filters
        .iter()
        .map(|(labels, shown)| (&labels[..], *shown))
        .collect();
    if !filters.is_empty() {
        zones(&mut metrics, "filter", &filters);
    }
    upstreams(&mut metrics, figures);
    caches(&mut metrics, figures);
    metrics.0
}

fn main(metrics: &mut Metrics, figures: &Figures) {
    metrics.family("nginx_vts_info", "gauge", "Name and versions");
    let labels = [
        ("hostname", figures.hostname),
        (
            "module_version",
            concat!("Sealane ", env!("CARGO_PKG_VERSION")),
        ),
        ("version", NGINX_VERSION),
    ];
    metrics.line("nginx_vts_info", &labels, NO_MORE, 1);
    let name = "nginx_vts_start_time_seconds";
    metrics.family(name, "gauge", "When the configuration was loaded");
    metrics.line(name, &[], NO_MORE, seconds(figures.loaded_ms));
    let name = "nginx_vts_main_connections";
    metrics.family(name, "gauge", "Connections and requests");
    metrics.lines(name, &[], "status", figures.connections);
    let name = "nginx_vts_main_shm_usage_bytes";
    metrics.family(name, "gauge", "The zone of memory");
    let fill = &figures.fill;
    let free = fill.size_bytes.saturating_sub(fill.used_bytes);
    let sizes = [
        ("max_size", fill.size_bytes),
        ("used_size", fill.used_bytes),
        ("used_node", fill.keys),
        ("free_size", free),
    ];
    metrics.lines(name, &[], "shared", sizes);
}

/// Servers or filters.
fn zones(metrics: &mut Metrics, kind: &str, all: &[(Labels<'_>, &ZoneFigures)]) {
    let name = |what: &str| format!("nginx_vts_{kind}_{what}");
    let bytes = name("bytes_total");
    metrics.family(&bytes, "counter", "Bytes of requests and responses");
    for (labels, ZoneFigures { entry, .. }) in all {
        let directions = [("in", entry.received), ("out", entry.sent)];
        metrics.lines(&bytes, labels, "direction", directions);
    }
    let requests = name("requests_total");
    metrics.family(&requests, "counter", "Requests by class of the response");
    for (labels, shown) in all {
        metrics.lines(
            &requests,
            labels,
            "code",
            CLASSES.into_iter().zip(shown.entry.classes),
        );
    }
    let total = name("request_seconds_total");
    metrics.family(&total, "counter", "How long requests took together");
    for (labels, shown) in all {
        metrics.line(&total, labels, NO_MORE, seconds(shown.entry.total_ms));
    }
    let average = name("request_seconds");
    metrics.family(
        &average,
        "gauge",
        "How long the last requests took on average",
    );
    for (labels, shown) in all {
        metrics.line(&average, labels, NO_MORE, seconds(shown.average_ms));
    }
    let times = name("request_duration_seconds");
    metrics.family(&times, "histogram", "How long requests took");
    for (labels, ZoneFigures { entry, .. }) in all {
        if entry.bounds_ms.is_empty() {
            continue;
        }
        let bounds = entry.bounds_ms.iter().zip(&entry.buckets);
        let buckets = bounds.map(|(bound, count)| (seconds((*bound).into()), *count));
        histogram(
            metrics,
            &times,
            labels,
            buckets,
            entry.requests,
            entry.total_ms,
        );
    }
    let caches = name("cache_total");
    metrics.family(&caches, "counter", "Requests by cache status");
    for (labels, shown) in all {
        metrics.lines(&caches, labels, "status", statuses(&shown.entry.caches));
    }
}

/// The module has one more, which is a miss here.
fn statuses(
    counts: &[u64; CACHE_STATUSES.len()],
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    CACHE_STATUSES
        .into_iter()
        .zip(*counts)
        .chain([("scarce", 0)])
}

fn histogram(
    metrics: &mut Metrics,
    name: &str,
    labels: Labels<'_>,
    buckets: impl Iterator<Item = (String, u64)>,
    count: u64,
    total_ms: u64,
) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in buckets {
        metrics.line(&bucket, labels, ("le", &bound), count);
    }
    metrics.line(&bucket, labels, ("le", "+Inf"), count);
    metrics.line(&format!("{name}_sum"), labels, NO_MORE, seconds(total_ms));
    metrics.line(&format!("{name}_count"), labels, NO_MORE, count);
}

fn upstreams(metrics: &mut Metrics, figures: &Figures) {
    let all: Vec<_> = figures
        .upstreams
        .iter()
        .flat_map(|(group, peers)| peers.iter().map(move |peer| (group, peer)))
        .map(|(group, peer)| ([("upstream", &**group), ("backend", &*peer.name)], peer))
        .collect();
    if all.is_empty() {
        return;
    }
    let name = "nginx_vts_upstream_bytes_total";
    metrics.family(name, "counter", "Bytes of requests and responses");
    for (labels, peer) in &all {
        let directions = [("in", peer.sent), ("out", peer.received)];
        metrics.lines(name, labels, "direction", directions);
    }
    let name = "nginx_vts_upstream_requests_total";
    metrics.family(name, "counter", "Requests by class of the response");
    for (labels, peer) in &all {
        metrics.lines(name, labels, "code", CLASSES.into_iter().zip(peer.classes));
    }
    for what in ["request", "response"] {
        let name = format!("nginx_vts_upstream_{what}_seconds_total");
        metrics.family(&name, "counter", "How long responses took together");
        for (labels, peer) in &all {
            metrics.line(&name, labels, NO_MORE, seconds(peer.total_ms()));
        }
        let name = format!("nginx_vts_upstream_{what}_seconds");
        metrics.family(&name, "gauge", "How long responses took on average");
        for (labels, peer) in &all {
            metrics.line(&name, labels, NO_MORE, seconds(peer.average_ms()));
        }
        let name = format!("nginx_vts_upstream_{what}_duration_seconds");
        metrics.family(&name, "histogram", "How long responses took");
        for (labels, peer) in &all {
            let mut sum = 0;
            let buckets = BUCKET_BOUNDS.iter().zip(peer.times.buckets);
            let buckets = buckets.map(|(bound, count)| {
                sum += count;
                (bound.as_secs_f64().to_string(), sum)
            });
            histogram(
                metrics,
                &name,
                labels,
                buckets,
                peer.times.count(),
                peer.total_ms(),
            );
        }
    }
}

fn caches(metrics: &mut Metrics, figures: &Figures) {
    if figures.caches.is_empty() {
        return;
    }
    let all: Vec<_> = figures
        .caches
        .iter()
        .map(|cache| ([("cache_zone", &*cache.name)], cache))
        .collect();
    let name = "nginx_vts_cache_usage_bytes";
    metrics.family(name, "gauge", "Room on the disk");
    for (labels, cache) in &all {
        let sizes = [("max", cache.max_bytes), ("used", cache.used_bytes)];
        metrics.lines(name, labels, "cache_size", sizes);
    }
    let name = "nginx_vts_cache_bytes_total";
    metrics.family(name, "counter", "Bytes of bodies that were sent");
    for (labels, cache) in &all {
        metrics.lines(name, labels, "direction", [("in", 0), ("out", cache.sent)]);
    }
    let name = "nginx_vts_cache_requests_total";
    metrics.family(name, "counter", "Requests by cache status");
    for (labels, cache) in &all {
        metrics.lines(name, labels, "status", statuses(&cache.statuses));
    }
}
