//! Handshake storms with a bystander.

use super::{ENDED, colour};
use crate::{
    Summary,
    report::{
        saved::Saved,
        section::{Bar, Cell, Chart, Claim, Finding, Section, Table, thousands},
    },
    storm::{Field, Measurement, Report, StormResult},
    testbed::number,
};

const SOURCE: &str = "Sealane\u{2019}s target";

/// By how much the established connection's 99th percentile is shorter than with others.
const P99_FACTOR: f64 = 3.0;

/// What the tables and charts show.
const ALONE_P99: Field = |storm| storm.alone.p99_ms;
const P50: Field = |storm| storm.probe.p50_ms;
const P99: Field = |storm| storm.probe.p99_ms;
const MAX: Field = |storm| storm.probe.max_ms;
const NEW_P99: Field = |storm| storm.new_connection.p99_ms;
const RATE: Field = |storm| storm.connections_per_s;
const CPU: Field = |storm| storm.server_us_per_connection.unwrap_or(f64::NAN);

pub(super) fn section(saved: &Saved, report: &Report) -> Section {
    let chart = |title: &str, legend: &str, field: Field, format: fn(f64) -> String| Chart {
        title: title.into(),
        legend: legend.into(),
        groups: report
            .storms
            .iter()
            .map(|storm| (title_of(storm), bars(saved, report, storm, field)))
            .collect(),
        format,
        whole: None,
    };
    Section {
        paragraphs: vec![
            "One established connection sends a request every 2 ms, whether the last was answered or not, so that \
             waiting counts. Meanwhile 64 clients connect, make a full TLS 1.3 handshake, send one request and \
             close, again and again."
                .into(),
            "Asynchronous TLS promises that handshakes do not hold up other connections; the published table has no \
             figure for it. The factors are Sealane\u{2019}s own targets against nginx with as many workers."
                .into(),
        ],
        claims: claims(report),
        charts: vec![
            chart(
                "Latency of the established connection during the storm, 99th percentile, ms",
                "Median and range of the rounds. Shorter is better.",
                P99,
                number,
            ),
            chart(
                "Full handshakes per second",
                "Median and range of the rounds. Longer is faster.",
                RATE,
                thousands,
            ),
        ],
        tables: vec![table(report)],
    }
}

fn title_of(storm: &StormResult) -> String {
    match storm.server_cpus.len() {
        1 => format!("{}, 1 worker", storm.key.name()),
        count => format!("{}, {count} workers", storm.key.name()),
    }
}

/// A figure of a server, or why there is none.
fn figure(storm: &StormResult, server: usize, field: Field) -> Result<Summary, String> {
    if let Some(reason) = &storm.failures[server] {
        return Err(format!("failed: {reason}"));
    }
    storm.summary(server, field).ok_or_else(|| ENDED.into())
}

/// What the established connection waits with `ours` of what it waits with `theirs`, or why that is
/// not known.
pub(in crate::report) fn p99_ratio(
    storm: &StormResult,
    ours: usize,
    theirs: usize,
) -> Result<Summary, String> {
    ratio(storm, ours, theirs, P99)
}

fn ratio(storm: &StormResult, ours: usize, theirs: usize, field: Field) -> Result<Summary, String> {
    figure(storm, ours, field)?;
    figure(storm, theirs, field)?;
    storm.ratio(ours, theirs, field).ok_or_else(|| ENDED.into())
}

fn bars(saved: &Saved, report: &Report, storm: &StormResult, field: Field) -> Vec<Bar> {
    let servers = report.servers.iter().enumerate();
    servers
        .map(|(index, server)| Bar {
            label: server.name.clone(),
            colour: colour(saved, &server.name),
            value: figure(storm, index, field),
            system_share: None,
        })
        .collect()
}

fn claims(report: &Report) -> Vec<Claim> {
    let findings = |storm: &StormResult, theirs_by_ours: bool, field: Field| {
        let peers = report.servers.iter().enumerate().skip(1);
        peers
            .map(|(index, peer)| {
                let (better, base) = if theirs_by_ours {
                    (index, 0)
                } else {
                    (0, index)
                };
                Finding {
                    subject: format!("against {}", peer.name),
                    factor: ratio(storm, better, base, field),
                }
            })
            .collect()
    };
    let mut claims = Vec::new();
    for storm in &report.storms {
        let key = title_of(storm);
        claims.push(Claim {
            text: format!("An established connection waits a third as long, {key}"),
            published: P99_FACTOR,
            source: SOURCE,
            findings: findings(storm, true, P99),
        });
        claims.push(Claim {
            text: format!("As many handshakes per second, {key}"),
            published: 1.0,
            source: SOURCE,
            findings: findings(storm, false, RATE),
        });
    }
    claims
}

fn table(report: &Report) -> Table {
    let columns: [(&str, Field); 7] = [
        ("p99 before the storm, ms", ALONE_P99),
        ("p50, ms", P50),
        ("p99, ms", P99),
        ("max, ms", MAX),
        ("p99 of new connections, ms", NEW_P99),
        ("handshakes/s", RATE),
        ("CPU for a connection, µs", CPU),
    ];
    let mut headings = vec!["key".to_owned(), "server".to_owned()];
    headings.extend(columns.iter().map(|(heading, _)| (*heading).to_owned()));
    headings.push("cores used by others".into());
    let mut rows = Vec::new();
    for storm in &report.storms {
        for (index, server) in report.servers.iter().enumerate() {
            let mut cells = vec![Cell::text(title_of(storm)), Cell::text(server.name.clone())];
            match figure(storm, index, P50) {
                Err(reason) => cells.push(Cell::Missing(reason)),
                Ok(_) => {
                    let of = |(_, field): &(&str, Field)| {
                        Cell::summary(&figure(storm, index, *field), number)
                    };
                    cells.extend(columns.iter().map(of));
                    cells.push(Cell::text(disturbance(&storm.measurements[index])));
                }
            }
            rows.push(cells);
        }
    }
    Table {
        caption: "The established connection alone and during the storm, and the storm itself"
            .into(),
        headings,
        rows,
    }
}

/// How much others used the servers' cores, in the worst round; and whether the clients could delay
/// the probe on its own core.
fn disturbance(rounds: &[Measurement]) -> String {
    let share = rounds.iter().map(|storm| storm.neighbours_share);
    let worst = share.fold(0.0, f64::max) * 100.0;
    match rounds.iter().all(|storm| storm.is_real_time) {
        true => format!("{worst:.0} %"),
        false => format!("{worst:.0} %; the probe had no real-time priority"),
    }
}
