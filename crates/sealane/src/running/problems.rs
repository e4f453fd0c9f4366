//! What is wrong with a running server, in words. The page (`console`) says the same.

use super::answer::{Answer, Sample};
use super::figures::{UNKNOWN, count, plural, span};
use super::gains::Gains;
use crate::certificates::{ENDS_SOON_DAYS, ENDS_VERY_SOON_DAYS};
use std::collections::{BTreeMap, HashMap};

/// How far back is recent.
pub(crate) const RECENT_S: f64 = 300.0;
/// Parts of that which are forgotten one by one.
const SLOTS: usize = 30;
/// Names in one sentence.
const LISTED: usize = 3;
/// How much of a room may be taken before it is mentioned.
const NEARLY_FULL: f64 = 0.8;
const DAY_S: f64 = 86_400.0;
/// A staple may be missing for so long after a start.
const STAPLE_PATIENCE_S: f64 = 600.0;

/// How bad it is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Clients notice.
    Bad,
    /// They may soon.
    Warn,
    /// Worth knowing.
    Note,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) level: Level,
    pub(crate) what: String,
    /// What to do, or where to look.
    pub(crate) advice: &'static str,
}

impl Level {
    /// As the page marks it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Bad => "bad",
            Level::Warn => "warning",
            Level::Note => "note",
        }
    }
}

/// What is wrong at the moment, worst first.
pub(crate) fn standing(answer: &Answer) -> Vec<Problem> {
    let mut found = Vec::new();
    certificates(answer, &mut found);
    staples(answer, &mut found);
    peers(answer, &mut found);
    states(answer, &mut found);
    rooms(answer, &mut found);
    found.sort_by_key(|problem| problem.level);
    found
}

fn certificates(answer: &Answer, found: &mut Vec<Problem>) {
    let days = |sample: &Sample| (sample.number().unwrap_or(f64::MAX) - answer.time_s) / DAY_S;
    let (soon, very_soon) = (ENDS_SOON_DAYS.into(), ENDS_VERY_SOON_DAYS.into());
    let within = |days: u8| format!("ends within {days} days");
    for (level, low, high, what) in [
        (
            Level::Bad,
            f64::NEG_INFINITY,
            0.0,
            "has ended, and clients refuse it".to_owned(),
        ),
        (Level::Bad, 0.0, very_soon, within(ENDS_VERY_SOON_DAYS)),
        (Level::Warn, very_soon, soon, within(ENDS_SOON_DAYS)),
    ] {
        // A certificate of several servers is one certificate.
        let mut ending = BTreeMap::new();
        for sample in answer.samples("certificate_not_after_timestamp_seconds") {
            let days = days(sample);
            if days >= low && days < high {
                ending.insert(sample.label(1), span(days.abs() * DAY_S));
            }
        }
        let ago = if high == 0.0 { " ago" } else { "" };
        for (certificate, time) in ending {
            found.push(Problem {
                level,
                what: format!("the certificate {certificate} {what} ({time}{ago})"),
                advice: "renew it, then reload unless ssl_certificate_reload finds new files; of \
                         acme_certificate, the error log says what failed",
            });
        }
    }
}

fn staples(answer: &Answer, found: &mut Vec<Problem>) {
    let start_s = answer
        .number("start_time_seconds", &[])
        .unwrap_or(answer.time_s);
    for sample in answer.samples("staple_next_update_timestamp_seconds") {
        let what = match sample.number() {
            Some(0.0) if answer.time_s - start_s > STAPLE_PATIENCE_S => "missing",
            Some(end_s) if end_s > 0.0 && end_s < answer.time_s => "out of date and no longer sent",
            _ => continue,
        };
        found.push(Problem {
            level: Level::Warn,
            what: format!("the OCSP staple of {} is {what}", sample.label(0)),
            advice: "the error log names the responder and why it was not believed",
        });
    }
}

/// The state that each peer of an upstream is in.
pub(crate) fn states_of_peers(answer: &Answer) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut groups: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for sample in answer.samples("upstream_peer_state") {
        if sample.number() == Some(1.0) {
            let group = groups.entry(sample.label(0)).or_default();
            group.push((sample.label(1), sample.label(2)));
        }
    }
    groups
}

fn peers(answer: &Answer, found: &mut Vec<Problem>) {
    for (group, peers) in states_of_peers(answer) {
        let has_failed = |state: &str| matches!(state, "unavailable" | "unhealthy" | "checking");
        let failed = peers.iter().filter(|(_, state)| has_failed(state));
        let failed: Vec<&str> = failed.map(|(peer, _)| *peer).collect();
        let is_live = |state: &str| matches!(state, "up" | "draining" | "busy");
        let live = peers.iter().filter(|(_, state)| is_live(state)).count();
        if live == 0 {
            found.push(Problem {
                level: Level::Bad,
                what: format!("no peer of upstream {group} is live: its requests get 502"),
                advice: "start one; the error log says how they failed",
            });
        } else if !failed.is_empty() {
            let (number, live) = (failed.len() as f64, live as f64);
            found.push(Problem {
                level: Level::Warn,
                what: format!(
                    "{} of upstream {group} {} unavailable, {} of {} are live",
                    listed(&failed),
                    if number == 1.0 { "is" } else { "are" },
                    count(live),
                    count(peers.len() as f64)
                ),
                advice: "the error log says how they failed; they are tried again by themselves",
            });
        }
    }
}

fn states(answer: &Answer, found: &mut Vec<Problem>) {
    for sample in answer.samples("session_store_up") {
        if sample.number() == Some(0.0) {
            found.push(Problem {
                level: Level::Bad,
                what: format!("the session store {} is down", sample.label(0)),
                advice: "start it, or check the address in ssl_session_store; until then clients of \
                         other nodes make full handshakes",
            });
        }
    }
    for sample in answer.samples("cache_cold") {
        if sample.number() == Some(1.0) {
            found.push(Problem {
                level: Level::Note,
                what: format!(
                    "the cache {} is cold: its directory is being read",
                    sample.label(0)
                ),
                advice: "nothing to do; sizes are complete when it ends",
            });
        }
    }
}

fn rooms(answer: &Answer, found: &mut Vec<Problem>) {
    let number = |name| answer.number(name, &[]);
    for (taken, room, what, advice) in [
        (
            number("process_open_fds"),
            number("process_max_fds"),
            "descriptors are open",
            "raise worker_rlimit_nofile",
        ),
        (
            number("connections_active"),
            room_for_connections(answer),
            "connections are open",
            "raise worker_connections, or shorten keepalive_timeout",
        ),
        (
            number("metrics_memory_bytes"),
            number("metrics_memory_limit_bytes"),
            "bytes for counters are taken",
            "raise metrics_memory and restart",
        ),
    ] {
        let (Some(taken), Some(room)) = (taken, room) else {
            continue;
        };
        if room > 0.0 && taken >= NEARLY_FULL * room {
            found.push(Problem {
                level: Level::Warn,
                what: format!("{} of {} {what}", count(taken), count(room)),
                advice,
            });
        }
    }
}

/// How many connections there may be.
pub(crate) fn room_for_connections(answer: &Answer) -> Option<f64> {
    let each = answer.number("worker_connections", &[])?;
    Some(each * answer.number("worker_threads", &[]).unwrap_or(1.0))
}

/// A counter that should not grow.
struct Watched {
    metric: &'static str,
    /// Values of its last label that count; any if there are none.
    labels: &'static [&'static str],
    /// Fewer are not mentioned.
    least: f64,
    level: Level,
    /// What has happened: once, and several times.
    what: (&'static str, &'static str),
    advice: &'static str,
}

/// Reasons against kernel TLS that something can be done about.
const KERNEL_FAULTS: &[&str] = &[
    "call_failed",
    "no_module",
    "attach_refused",
    "suite_unsupported",
    "corrupts",
    "no_rekey",
    "no_loopback",
    "self_test_failed",
];

const WATCHED: &[Watched] = &[
    Watched {
        metric: "worker_deaths",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: ("worker process died", "worker processes died"),
        advice: "the error log has the signal and the stack: report it",
    },
    Watched {
        metric: "key_process_deaths",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: ("key process died", "key processes died"),
        advice: "the error log says how: report a signal that nobody has sent; handshakes have waited",
    },
    Watched {
        metric: "key_device_operations_failed",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: (
            "private-key operation was not done by its device",
            "private-key operations were not done by their devices",
        ),
        advice: "the error log says what the HSM, TPM or card has reported",
    },
    Watched {
        metric: "key_device_operations_refused",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: (
            "private-key operation was refused: its device is too slow",
            "private-key operations were refused: their devices are too slow",
        ),
        advice: "let clients resume, use ECDSA certificates, or allow more time (\"max_wait=\" of \
                 ssl_accelerator)",
    },
    Watched {
        metric: "panics",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: (
            "connection was ended by a panic",
            "connections were ended by a panic",
        ),
        advice: "a bug that cost no other connection: report the message in the error log",
    },
    Watched {
        metric: "tls_handshakes_refused",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: ("TLS handshake was refused", "TLS handshakes were refused"),
        advice: "too many wait (ssl_handshake_queue), or too long: let clients resume, use ECDSA \
                 certificates, add CPUs",
    },
    Watched {
        metric: "upstream_requests_without_peer",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: ("request found no peer", "requests found no peer"),
        advice: "all peers were unavailable, busy or down at that time",
    },
    Watched {
        metric: "upstream_left_out",
        labels: &[],
        least: 2.0,
        level: Level::Warn,
        what: ("peer was left out", "times a peer was left out"),
        advice: "a peer that comes and goes is often overloaded: see its log",
    },
    Watched {
        metric: "limit_requests",
        labels: &["rejected", "exhausted"],
        least: 1.0,
        level: Level::Warn,
        what: (
            "request was rejected by limit_req",
            "requests were rejected by limit_req",
        ),
        advice: "an attack, or a limit that is too low: the error log names the clients",
    },
    Watched {
        metric: "limit_connections",
        labels: &["rejected", "exhausted"],
        least: 1.0,
        level: Level::Warn,
        what: (
            "request was rejected by limit_conn",
            "requests were rejected by limit_conn",
        ),
        advice: "an attack, or a limit that is too low: the error log names the clients",
    },
    Watched {
        metric: "http2_floods",
        labels: &[],
        least: 1.0,
        level: Level::Warn,
        what: (
            "HTTP/2 connection was ended for a flood",
            "HTTP/2 connections were ended for floods",
        ),
        advice: "handled: the connection was closed; the error log names the client",
    },
    Watched {
        metric: "http3_floods",
        labels: &[],
        least: 1.0,
        level: Level::Warn,
        what: (
            "HTTP/3 connection was ended for a flood",
            "HTTP/3 connections were ended for floods",
        ),
        advice: "handled: the connection was closed; the error log names the client",
    },
    Watched {
        metric: "tls_key_operations_failed",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: (
            "private-key operation failed",
            "private-key operations failed",
        ),
        advice: "the error log says which key",
    },
    Watched {
        metric: "tls_key_operations_wrong",
        labels: &[],
        least: 1.0,
        level: Level::Bad,
        what: (
            "private-key operation had a wrong result",
            "private-key operations had wrong results",
        ),
        advice: "it was detected and computed again, but the processor may be faulty",
    },
    Watched {
        metric: "tls_early_data",
        labels: &["register_full"],
        least: 1.0,
        level: Level::Warn,
        what: (
            "early request was refused for lack of room",
            "early requests were refused for lack of room",
        ),
        advice: "enlarge ssl_early_data_register_size",
    },
    Watched {
        metric: "session_store_requests",
        labels: &["timed_out", "error"],
        least: 1.0,
        level: Level::Warn,
        what: (
            "request to a session store failed",
            "requests to session stores failed",
        ),
        advice: "it is slow or overloaded: each failure is a full handshake",
    },
    Watched {
        metric: "resolver_responses",
        labels: &["timed_out", "server_failure"],
        least: 10.0,
        level: Level::Warn,
        what: (
            "query to a name server failed",
            "queries to name servers failed",
        ),
        advice: "check the name servers of resolver, and the way to them",
    },
    Watched {
        metric: "kernel_tls_refused_connections",
        labels: KERNEL_FAULTS,
        least: 1.0,
        level: Level::Warn,
        what: (
            "connection could not use kernel TLS",
            "connections could not use kernel TLS",
        ),
        advice: "sealane doctor tests what this machine can do, and says how to improve it",
    },
    Watched {
        metric: "log_lines_lost",
        labels: &[],
        least: 1.0,
        level: Level::Warn,
        what: ("log line was lost", "log lines were lost"),
        advice: "the disk is full or slow, a log or a file of quic_qlog cannot be written, or a syslog \
                 server does not respond; the error log says which",
    },
    Watched {
        metric: "trace_spans_dropped",
        labels: &[],
        least: 1.0,
        level: Level::Warn,
        what: (
            "span of a trace was dropped",
            "spans of traces were dropped",
        ),
        advice: "the collector of otel_exporter is away or too slow",
    },
    Watched {
        metric: "trace_exports_failed",
        labels: &[],
        least: 1.0,
        level: Level::Warn,
        what: ("export of spans failed", "exports of spans failed"),
        advice: "the collector of otel_exporter is away or too slow",
    },
    Watched {
        metric: "reloads",
        labels: &["refused"],
        least: 1.0,
        level: Level::Warn,
        what: ("reload was refused", "reloads were refused"),
        advice: "the configuration from before is in use; sealane -t shows what is wrong",
    },
];

impl Watched {
    /// The samples that count.
    fn samples<'a>(&self, answer: &'a Answer) -> impl Iterator<Item = &'a Sample> {
        let labels = self.labels;
        let samples = answer.samples(self.metric).iter();
        samples.filter(move |sample| {
            let last = sample.labels.last().map_or("", String::as_str);
            labels.is_empty() || labels.contains(&last)
        })
    }
}

/// What watched counters have gained in the last minutes.
#[derive(Default)]
pub(crate) struct Trail {
    /// Only of those that have gained something, by metric and labels.
    slots: HashMap<(&'static str, String), [f64; SLOTS]>,
    slot: u64,
}

impl Trail {
    /// Adds what the newest answer has gained.
    pub(crate) fn add(&mut self, gains: &Gains) {
        let Some(now) = gains.now() else { return };
        if gains.has_restarted() {
            self.slots.clear();
        }
        self.advance(now.time_s);
        for watched in WATCHED {
            for sample in watched.samples(now) {
                let labels = sample.label_values();
                let gain = gains.gain(watched.metric, &labels).unwrap_or(0.0);
                if gain > 0.0 {
                    let slots = self.slots.entry((watched.metric, sample.key()));
                    slots.or_insert([0.0; SLOTS])[self.slot as usize % SLOTS] += gain;
                }
            }
        }
    }

    /// Empties the slots that have become too old.
    fn advance(&mut self, time_s: f64) {
        let slot = (time_s / (RECENT_S / SLOTS as f64)) as u64;
        let steps = slot.saturating_sub(self.slot).min(SLOTS as u64);
        for step in 0..steps {
            let index = (slot - step) as usize % SLOTS;
            self.slots.values_mut().for_each(|slots| slots[index] = 0.0);
        }
        self.slots
            .retain(|_, slots| slots.iter().any(|gain| *gain > 0.0));
        self.slot = slot;
    }

    fn recent(&self, metric: &'static str, sample: &Sample) -> f64 {
        let slots = self.slots.get(&(metric, sample.key()));
        slots.map_or(0.0, |slots| slots.iter().sum())
    }

    /// What is wrong, now and recently, worst first.
    pub(crate) fn problems(&self, answer: &Answer) -> Vec<Problem> {
        let mut found = standing(answer);
        for watched in WATCHED {
            let grown = watched.samples(answer);
            let grown = grown.map(|sample| (self.recent(watched.metric, sample), sample));
            found.extend(problem(watched, grown, "in the last 5 minutes"));
        }
        found.sort_by_key(|problem| problem.level);
        found
    }
}

/// What has happened since the server was started.
pub(crate) fn since_start(answer: &Answer) -> Vec<Problem> {
    let mut found = Vec::new();
    for watched in WATCHED {
        let counted = watched.samples(answer);
        let counted = counted.map(|sample| (sample.number().unwrap_or(0.0), sample));
        found.extend(problem(watched, counted, "since the start"));
    }
    found.sort_by_key(|problem| problem.level);
    found
}

fn problem<'a>(
    watched: &Watched,
    counted: impl Iterator<Item = (f64, &'a Sample)>,
    when: &str,
) -> Option<Problem> {
    let mut counted: Vec<_> = counted.filter(|(times, _)| *times > 0.0).collect();
    let all: f64 = counted.iter().map(|(times, _)| times).sum();
    if all < watched.least {
        return None;
    }
    counted.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names = counted.iter().map(|(_, sample)| sample.labels.join(" "));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let by = match names.is_empty() {
        true => String::new(),
        false => format!(": {}", listed(&names)),
    };
    let (one, many) = watched.what;
    Some(Problem {
        level: watched.level,
        what: format!("{} {when}{by}", plural(all, one, many)),
        advice: watched.advice,
    })
}

/// Some names, and how many more there are.
fn listed(names: &[&str]) -> String {
    let (shown, more) = names.split_at(names.len().min(LISTED));
    match (shown, more.len()) {
        ([], _) => UNKNOWN.to_owned(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(time: f64, families: serde_json::Value) -> Answer {
        let json = json!({"time": time, "bounds": [], "families": families});
        Answer::read(json.to_string().as_bytes()).expect("it is valid")
    }

    fn texts(problems: &[Problem]) -> Vec<String> {
        let text = |problem: &Problem| format!("{}: {}", problem.level.name(), problem.what);
        problems.iter().map(text).collect()
    }

    #[test]
    fn what_is_wrong_now_is_said_worst_first() {
        let now = 1e9;
        let answer = answer(
            now,
            json!({
                "sealane_certificate_not_after_timestamp_seconds": {
                    "labels": ["server", "certificate", "key"], "samples": [
                        ["a", "/a.crt", "rsa", now - 3600.0], ["b", "/a.crt", "rsa", now - 3600.0],
                        ["c", "/c.crt", "ecdsa", now + 864_000.0], ["d", "/d.crt", "rsa", now + 1e8]]},
                "sealane_upstream_peer_state": {"labels": ["upstream", "peer", "state"], "samples": [
                    ["u", "1:80", "up", 1], ["u", "1:80", "unavailable", 0],
                    ["u", "2:80", "up", 0], ["u", "2:80", "unavailable", 1],
                    ["v", "3:80", "down", 1]]},
                "sealane_session_store_up": {"labels": ["store"], "samples": [["redis", 0]]},
                "sealane_cache_cold": {"labels": ["cache"], "samples": [["c", 1]]},
                "sealane_process_open_fds": {"labels": [], "samples": [[900]]},
                "sealane_process_max_fds": {"labels": [], "samples": [[1024]]},
                "sealane_staple_next_update_timestamp_seconds":
                    {"labels": ["certificate"], "samples": [["/a.crt", now - 5.0]]},
            }),
        );
        assert_eq!(
            texts(&standing(&answer)),
            [
                "bad: the certificate /a.crt has ended, and clients refuse it (1 h 0 min ago)",
                "bad: no peer of upstream v is live: its requests get 502",
                "bad: the session store redis is down",
                "warning: the certificate /c.crt ends within 14 days (10 d 0 h)",
                "warning: the OCSP staple of /a.crt is out of date and no longer sent",
                "warning: 2:80 of upstream u is unavailable, 1 of 2 are live",
                "warning: 900 of 1,024 descriptors are open",
                "note: the cache c is cold: its directory is being read",
            ]
        );
    }

    #[test]
    fn what_has_grown_is_told_for_five_minutes() {
        let limits = |rejected: u64| {
            json!({
                "sealane_requests": {"labels": [], "samples": [[rejected]]},
                "sealane_limit_requests": {"labels": ["zone", "verdict"], "samples": [
                    ["z", "passed", 100], ["z", "rejected", rejected]]},
            })
        };
        let (mut gains, mut trail) = (Gains::default(), Trail::default());
        let mut told = Vec::new();
        for (time, rejected) in [(1000.0, 5), (1010.0, 12), (1020.0, 12), (1330.0, 12)] {
            gains.take(answer(time, limits(rejected)), 10.0);
            trail.add(&gains);
            told.push(texts(&trail.problems(gains.now().expect("there is one"))));
        }
        let rejected = "warning: 7 requests were rejected by limit_req in the last 5 minutes: \
                        z rejected";
        assert_eq!(
            told,
            [
                vec![],
                vec![rejected.to_owned()],
                vec![rejected.to_owned()],
                vec![]
            ]
        );
        let all = since_start(gains.now().expect("there is one"));
        assert_eq!(
            texts(&all),
            ["warning: 12 requests were rejected by limit_req since the start: z rejected"]
        );
    }

    #[test]
    fn watched_metrics_are_documented() {
        let manual = include_str!("../../../../docs/monitoring.md");
        for watched in WATCHED {
            let name = format!("`sealane_{}_total`", watched.metric);
            assert!(manual.contains(&name), "{name}");
        }
    }

    #[test]
    fn names_are_listed_up_to_a_point() {
        assert_eq!(listed(&[]), "–");
        assert_eq!(listed(&["a", "b"]), "a, b");
        assert_eq!(listed(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
