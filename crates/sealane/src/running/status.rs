//! `sealane status`: a running server in a few lines.

use super::answer::Answer;
use super::figures::{brief, bytes, count, percent, seconds, span};
use super::gains::quantile;
use super::problems::{self, Problem};
use super::{Target, answer_with};
use clap::{CommandFactory, Parser};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

/// Width of the first column.
const LABEL: usize = 13;

#[derive(Parser)]
#[command(
    name = "sealane status",
    bin_name = "sealane status",
    about = "Shows what a running server does and what is wrong with it",
    after_help = "Exit status: 0 the server has answered, 1 it has not."
)]
struct Request {
    #[command(flatten)]
    target: Target,
    /// Print everything that is counted, as JSON (docs/monitoring.md)
    #[arg(long)]
    json: bool,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `status`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    answer_with(arguments, |request: &Request| {
        let running = request.target.find()?;
        Ok(match request.json {
            true => {
                let mut json = running.ask_for_json()?;
                json.push(b'\n');
                (json, ExitCode::SUCCESS)
            }
            false => (text(&running.ask()?).into_bytes(), ExitCode::SUCCESS),
        })
    })
}

/// The server in a few lines.
fn text(answer: &Answer) -> String {
    let mut text = head(answer) + "\n\n";
    for (label, lines) in [
        ("connections", connections(answer)),
        ("requests", requests(answer)),
        ("HTTP/2", http2(answer)),
        ("HTTP/3", http3(answer)),
        ("TLS", handshakes(answer)),
        ("kernel TLS", kernel_tls(answer)),
        ("upstreams", upstreams(answer)),
        ("caches", caches(answer)),
        ("certificates", certificates(answer)),
        ("process", process(answer)),
    ] {
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            line_of(&mut text, label, line);
        }
    }
    let now = problems::standing(answer);
    let before = problems::since_start(answer);
    text.push('\n');
    if now.is_empty() {
        text.push_str("Nothing is wrong at the moment.\n");
    }
    now.iter()
        .chain(&before)
        .for_each(|problem| tell(&mut text, problem));
    text
}

fn line_of(text: &mut String, label: &str, line: &str) {
    writeln!(text, "{label:LABEL$} {line}").expect("writing to a string does not fail");
}

fn tell(text: &mut String, problem: &Problem) {
    let level = problem.level.name();
    line_of(text, level, &problem.what);
    line_of(text, "", problem.advice);
}

/// The first line.
pub(crate) fn head(answer: &Answer) -> String {
    let build = answer.samples("build_info").first();
    let version = build.map_or("", |build| build.label(0));
    let library = build.map_or("", |build| build.label(1));
    let since = |name| Some(answer.time_s - answer.number(name, &[])?);
    let threads = answer.number("worker_threads", &[]).unwrap_or(0.0);
    format!(
        "Sealane {version} with {library}, up {}, configuration loaded {} ago, {} worker {}",
        span(since("start_time_seconds")),
        span(since("configuration_load_time_seconds")),
        count(threads),
        if threads == 1.0 { "thread" } else { "threads" },
    )
}

fn connections(answer: &Answer) -> Vec<String> {
    let number = |name| answer.number(name, &[]);
    let accepted = number("connections_accepted").unwrap_or(0.0);
    let dropped = accepted - number("connections_handled").unwrap_or(accepted);
    vec![
        format!(
            "{} open of at most {}: {} reading, {} writing, {} idle",
            count(number("connections_active")),
            count(problems::room_for_connections(answer)),
            count(number("connections_reading")),
            count(number("connections_writing")),
            count(number("connections_waiting")),
        ),
        format!(
            "{} accepted, {} dropped",
            count(accepted),
            count(dropped.max(0.0))
        ),
    ]
}

fn requests(answer: &Answer) -> Vec<String> {
    let mut classes = BTreeMap::new();
    for sample in answer.samples("server_responses") {
        let class = sample.label(1).chars().next().unwrap_or('?');
        *classes.entry(class).or_insert(0.0) += sample.number().unwrap_or(0.0);
    }
    let all: f64 = classes.values().sum();
    let shares = classes.iter().filter(|(_, number)| **number > 0.0);
    let shares = shares.map(|(class, number)| format!("{} {class}xx", percent(number / all)));
    let shares: Vec<String> = shares.collect();
    let mut lines = vec![format!(
        "{}; {} sent, {} received",
        count(answer.number("requests", &[])),
        bytes(answer.sum("server_sent_bytes", &[])),
        bytes(answer.sum("server_received_bytes", &[])),
    )];
    if !shares.is_empty() {
        lines.push(shares.join(", "));
    }
    lines
}

fn http2(answer: &Answer) -> Vec<String> {
    let streams = answer.number("http2_streams_opened", &[]).unwrap_or(0.0);
    if streams == 0.0 {
        return Vec::new();
    }
    vec![format!(
        "{} streams, {} reset by clients, {} refused, {} connections ended for floods",
        count(streams),
        count(answer.number("http2_resets_received", &[])),
        count(answer.number("http2_streams_refused", &[])),
        count(answer.sum("http2_floods", &[])),
    )]
}

fn http3(answer: &Answer) -> Vec<String> {
    let connections = answer.sum("quic_connections", &[]);
    if connections == 0.0 {
        return Vec::new();
    }
    let number = |name| count(answer.number(name, &[]));
    vec![
        format!(
            "{} connections, {} streams, {} reset by clients, {} connections ended for floods",
            count(connections),
            number("http3_streams_opened"),
            number("http3_resets_received"),
            count(answer.sum("http3_floods", &[])),
        ),
        format!(
            "{} sent, {} received, {} frames lost; {} clients had to prove their addresses",
            bytes(answer.sum("quic_sent_bytes", &[])),
            bytes(answer.sum("quic_received_bytes", &[])),
            number("quic_frames_lost"),
            number("quic_retries_sent"),
        ),
    ]
}

fn handshakes(answer: &Answer) -> Vec<String> {
    let number = |name| answer.number(name, &[]);
    let done = number("tls_handshakes").unwrap_or(0.0);
    let failed = number("tls_handshakes_failed").unwrap_or(0.0);
    if done + failed == 0.0 {
        return Vec::new();
    }
    let resumed = number("tls_handshakes_resumed").map(|resumed| resumed / done);
    let mut lines = vec![format!(
        "{} handshakes, {} resumed; {} failed, {} refused",
        count(done),
        percent(resumed),
        count(failed),
        count(number("tls_handshakes_refused")),
    )];
    if let Some(times) = answer.times("tls_handshake_seconds", &[]) {
        let at = |share| quantile(share, &times.buckets, &answer.bounds_s);
        lines.push(format!(
            "a handshake takes {} (p50), {} (p99), {} on average",
            seconds(at(0.5)),
            seconds(at(0.99)),
            seconds((times.count > 0.0).then(|| times.sum_s / times.count)),
        ));
    }
    lines
}

fn kernel_tls(answer: &Answer) -> Vec<String> {
    let sealed = answer.number("kernel_tls_connections", &[]).unwrap_or(0.0);
    let refused = answer.samples("kernel_tls_refused_connections");
    let refused = refused.iter().filter_map(|sample| {
        let number = sample.number().filter(|number| *number > 0.0)?;
        Some((sample.label(0), number))
    });
    let refused: Vec<(&str, f64)> = refused.collect();
    let all = sealed + refused.iter().map(|(_, number)| number).sum::<f64>();
    if all == 0.0 {
        return Vec::new();
    }
    let reasons = refused.iter();
    let reasons = reasons.map(|(reason, number)| format!(", {reason} {}", count(*number)));
    vec![format!(
        "{} of {} connections that have ended{}",
        percent(sealed / all),
        count(all),
        reasons.collect::<String>()
    )]
}

fn upstreams(answer: &Answer) -> Vec<String> {
    let groups = problems::states_of_peers(answer).into_iter();
    let groups = groups.map(|(group, peers)| {
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, state) in peers {
            *states.entry(state).or_default() += 1;
        }
        let states: Vec<String> = states
            .iter()
            .map(|(state, number)| format!("{number} {state}"))
            .collect();
        let requests = answer.sum("upstream_requests", &[group]);
        let failures = answer.sum("upstream_failures", &[group]);
        format!(
            "{group}: {}; {} requests, {} failed",
            states.join(", "),
            count(requests),
            count(failures)
        )
    });
    groups.collect()
}

/// The share of a cache's responses that it could give without its origin.
pub(crate) fn hit_ratio(read: impl Fn(&str) -> f64) -> Option<f64> {
    let sum = |statuses: &[&str]| statuses.iter().map(|status| read(status)).sum::<f64>();
    let found = sum(&["hit", "stale", "updating", "revalidated"]);
    let all = found + sum(&["miss", "expired", "bypass"]);
    (all > 0.0).then(|| found / all)
}

fn caches(answer: &Answer) -> Vec<String> {
    let caches = answer.samples("cache_keys").iter();
    let caches = caches.map(|sample| {
        let name = sample.label(0);
        let number = |metric| answer.number(metric, &[name]);
        let hits = hit_ratio(|status| {
            let responses = answer.number("cache_responses", &[name, status]);
            responses.unwrap_or(0.0)
        });
        let limit = number("cache_size_limit_bytes");
        let limit = limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
        format!(
            "{name}: {} hits, {} responses, {}{limit} on disk",
            percent(hits),
            brief(sample.number()),
            bytes(number("cache_size_bytes")),
        )
    });
    caches.collect()
}

fn certificates(answer: &Answer) -> Vec<String> {
    let samples = answer.samples("certificate_not_after_timestamp_seconds");
    let mut ends: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for sample in samples {
        let end_s = sample.number().unwrap_or(f64::INFINITY);
        ends.insert((sample.label(1), sample.label(2)), end_s);
    }
    let first = ends.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some(((certificate, _), end_s)) = first else {
        return Vec::new();
    };
    let left_s = end_s - answer.time_s;
    let when = match left_s >= 0.0 {
        true => format!("ends in {}", span(left_s)),
        false => format!("ended {} ago", span(-left_s)),
    };
    vec![match ends.len() {
        1 => format!("{certificate} {when}"),
        number => format!("{number}, the first of them, {certificate}, {when}"),
    }]
}

fn process(answer: &Answer) -> Vec<String> {
    let number = |name| answer.number(name, &[]);
    vec![format!(
        "{} of memory, {} of {} descriptors; {} reloads, {} refused; {} deaths of workers",
        bytes(number("process_resident_memory_bytes")),
        count(number("process_open_fds")),
        count(number("process_max_fds")),
        count(answer.number("reloads", &["success"])),
        count(answer.number("reloads", &["refused"])),
        count(number("worker_deaths")),
    )]
}
