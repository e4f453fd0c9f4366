//! What is in the tables: servers, locations, upstreams, caches, limits, certificates.

use super::table::{Cell, Column, Tone};
use crate::certificates::{ENDS_SOON_DAYS, ENDS_VERY_SOON_DAYS};
use crate::running::answer::{Answer, Sample};
use crate::running::certificates::{self, date};
use crate::running::figures::{brief, bytes, percent, rate, seconds};
use crate::running::gains::Gains;
use crate::running::problems::states_of_peers;
use crate::running::status::hit_ratio;

const fn column(title: &'static str, width: u16) -> Column {
    Column { title, width }
}

pub(super) const SERVERS: &[Column] = &[
    column("server", 16),
    column("req/s", 8),
    column("active", 7),
    column("4xx/s", 7),
    column("5xx/s", 7),
    column("p50", 8),
    column("p99", 9),
    column("sent/s", 9),
    column("requests", 11),
];

pub(super) fn servers(gains: &Gains) -> Vec<Vec<Cell>> {
    rows(gains, "server_requests", |sample| {
        let labels = [sample.label(0)];
        let of_class = |digit| classes(gains, "server_responses", sample.label(0), digit);
        let recent = |share| gains.recent(share, "server_request_seconds", &labels);
        vec![
            Cell::name(named(sample.label(0))),
            Cell::number(gains.speed("server_requests", &labels), rate),
            Cell::number(number(gains, "server_requests_active", &labels), brief),
            Cell::number(of_class('4'), rate).toned(Tone::Warn),
            Cell::number(of_class('5'), rate).toned(Tone::Bad),
            Cell::number(recent(0.5), seconds),
            Cell::number(recent(0.99), seconds),
            Cell::number(gains.speed("server_sent_bytes", &labels), bytes),
            Cell::number(sample.number(), brief),
        ]
    })
}

pub(super) const LOCATIONS: &[Column] = &[
    column("location zone", 16),
    column("req/s", 8),
    column("4xx/s", 7),
    column("5xx/s", 7),
    column("sent/s", 9),
    column("discarded", 11),
    column("requests", 11),
];

pub(super) fn locations(gains: &Gains) -> Vec<Vec<Cell>> {
    rows(gains, "location_requests", |sample| {
        let labels = [sample.label(0)];
        let of_class = |digit| classes(gains, "location_responses", sample.label(0), digit);
        vec![
            Cell::name(named(sample.label(0))),
            Cell::number(gains.speed("location_requests", &labels), rate),
            Cell::number(of_class('4'), rate).toned(Tone::Warn),
            Cell::number(of_class('5'), rate).toned(Tone::Bad),
            Cell::number(gains.speed("location_sent_bytes", &labels), bytes),
            Cell::number(number(gains, "location_requests_discarded", &labels), brief),
            Cell::number(sample.number(), brief),
        ]
    })
}

pub(super) const PEERS: &[Column] = &[
    column("upstream peer", 20),
    column("state", 11),
    column("req/s", 8),
    column("active", 7),
    column("idle", 6),
    column("fail/s", 7),
    column("head p50", 9),
    column("p99", 9),
    column("requests", 11),
];

pub(super) fn peers(gains: &Gains) -> Vec<Vec<Cell>> {
    let states = gains.now().map(states_of_peers).unwrap_or_default();
    rows(gains, "upstream_requests", |sample| {
        let (group, peer) = (sample.label(0), sample.label(1));
        let labels = [group, peer];
        let known = states.get(group).into_iter().flatten();
        let state = known.clone().find(|(name, _)| *name == peer);
        let state = state.map_or("", |(_, state)| *state);
        let tone = match state {
            "up" => Tone::Good,
            "unavailable" | "unhealthy" => Tone::Bad,
            "" | "down" => Tone::Quiet,
            _ => Tone::Warn,
        };
        let recent = |share| gains.recent(share, "upstream_header_seconds", &labels);
        vec![
            Cell::name(format!("{group} {peer}")),
            Cell::name(state).toned(tone),
            Cell::number(gains.speed("upstream_requests", &labels), rate),
            Cell::number(number(gains, "upstream_requests_active", &labels), brief),
            Cell::number(number(gains, "upstream_connections_idle", &labels), brief),
            Cell::number(gains.speed("upstream_failures", &labels), rate).toned(Tone::Bad),
            Cell::number(recent(0.5), seconds),
            Cell::number(recent(0.99), seconds),
            Cell::number(sample.number(), brief),
        ]
    })
}

pub(super) const CACHES: &[Column] = &[
    column("cache", 16),
    column("hits now", 9),
    column("all hits", 9),
    column("hit/s", 8),
    column("miss/s", 8),
    column("keys", 9),
    column("on disk", 10),
    column("of", 10),
    column("memory", 10),
];

pub(super) fn caches(gains: &Gains) -> Vec<Vec<Cell>> {
    rows(gains, "cache_keys", |sample| {
        let name = sample.label(0);
        let gain = |status: &str| gains.gain("cache_responses", &[name, status]);
        let speed = |status: &str| gains.speed("cache_responses", &[name, status]);
        let total = |status: &str| number(gains, "cache_responses", &[name, status]);
        let of = |metric| number(gains, metric, &[name]);
        vec![
            Cell::name(name),
            Cell::number(hit_ratio(|status| gain(status).unwrap_or(0.0)), percent),
            Cell::number(hit_ratio(|status| total(status).unwrap_or(0.0)), percent),
            Cell::number(speed("hit"), rate),
            Cell::number(speed("miss"), rate),
            Cell::number(sample.number(), brief),
            Cell::number(of("cache_size_bytes"), bytes),
            Cell::number(of("cache_size_limit_bytes"), bytes),
            Cell::number(of("cache_memory_bytes"), bytes),
        ]
    })
}

pub(super) const LIMITS: &[Column] = &[
    column("zone", 20),
    column("passed/s", 10),
    column("delayed/s", 10),
    column("rejected/s", 11),
    column("rejected", 11),
];

pub(super) fn limits(gains: &Gains) -> Vec<Vec<Cell>> {
    let mut all = Vec::new();
    for (metric, directive) in [
        ("limit_requests", "limit_req"),
        ("limit_connections", "limit_conn"),
    ] {
        all.extend(first_labels(gains, metric).into_iter().map(|zone| {
            let speed = |verdict| gains.speed(metric, &[zone, verdict]);
            let total = |verdict| number(gains, metric, &[zone, verdict]);
            let both = |a: Option<f64>, b: Option<f64>| Some(a? + b.unwrap_or(0.0));
            let rejected = both(speed("rejected"), speed("exhausted"));
            let ever = both(total("rejected"), total("exhausted"));
            vec![
                Cell::name(format!("{zone} {directive}")),
                Cell::number(speed("passed"), rate),
                Cell::number(speed("delayed"), rate).toned(Tone::Warn),
                Cell::number(rejected, rate).toned(Tone::Bad),
                Cell::number(ever, brief).toned(Tone::Bad),
            ]
        }));
    }
    all
}

/// Characters of a certificate's path.
const CERTIFICATE: usize = 40;

pub(super) const CERTIFICATES: &[Column] = &[
    column("certificate", CERTIFICATE as u16),
    column("days left", 11),
    column("ends (UTC)", 17),
    column("key", 14),
    column("staple", 12),
    column("servers", 18),
];

pub(super) fn certificates(gains: &Gains) -> Vec<Vec<Cell>> {
    let Some(now) = gains.now() else {
        return Vec::new();
    };
    let certificates = certificates::certificates(now).into_iter();
    let rows = certificates.map(|certificate| {
        let left = certificate.days_left;
        let tone = match left {
            _ if left < ENDS_VERY_SOON_DAYS.into() => Tone::Bad,
            _ if left < ENDS_SOON_DAYS.into() => Tone::Warn,
            _ => Tone::Plain,
        };
        let days = |days: Option<f64>| match days {
            Some(days) if days < 0.0 => "ended".to_owned(),
            Some(days) if days < 10.0 => format!("{:.1}", (days * 10.0).floor() / 10.0),
            days => brief(days.map(f64::floor)),
        };
        vec![
            Cell::name(end_of(&certificate.certificate, CERTIFICATE)),
            Cell::number(Some(left), days).toned(tone),
            Cell::number(Some(certificate.not_after), |end| {
                end.map(date).unwrap_or_default()
            }),
            Cell::name(&certificate.key),
            Cell::name(certificate.staple(now.time_s)),
            Cell::name(certificate.servers()),
        ]
    });
    rows.collect()
}

fn rows(gains: &Gains, metric: &str, row: impl Fn(&Sample) -> Vec<Cell>) -> Vec<Vec<Cell>> {
    let samples = gains.now().map_or(&[][..], |now| now.samples(metric));
    samples.iter().map(row).collect()
}

fn number(gains: &Gains, metric: &str, labels: &[&str]) -> Option<f64> {
    gains.now()?.number(metric, labels)
}

/// The values of a metric's first label, each once.
fn first_labels<'a>(gains: &'a Gains, metric: &str) -> Vec<&'a str> {
    let samples = gains
        .now()
        .map_or(&[][..], |now: &Answer| now.samples(metric));
    let mut names: Vec<&str> = samples.iter().map(|sample| sample.label(0)).collect();
    names.dedup();
    names
}

/// Responses a second whose status begins with this digit.
fn classes(gains: &Gains, metric: &str, name: &str, digit: char) -> Option<f64> {
    let samples = gains.now()?.samples(metric).iter();
    let samples = samples.filter(|sample| sample.label(0) == name);
    let samples = samples.filter(|sample| sample.label(1).starts_with(digit));
    let speeds = samples.filter_map(|sample| gains.speed(metric, &[name, sample.label(1)]));
    gains.speed("requests", &[]).map(|_| speeds.sum())
}

/// The end of a path says more than its beginning.
fn end_of(path: &str, most: usize) -> String {
    let length = path.chars().count();
    match length > most {
        true => format!(
            "…{}",
            path.chars().skip(length - most + 1).collect::<String>()
        ),
        false => path.to_owned(),
    }
}

fn named(name: &str) -> &str {
    if name.is_empty() { "(no name)" } else { name }
}
