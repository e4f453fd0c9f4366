//! Full handshakes by suite, with and without an accelerator.

use super::{Figures, per_cpu_second, rate, value};
use crate::report::{
    published::{Offload, S2},
    run::WITHOUT_OFFLOAD,
    section::{Cell, Chart, Claim, Finding, Section, Table, thousands},
};
use crate::testbed::number;

/// The suite of TLS 1.3, which came after the published table.
const TLS13: (&str, &str) = ("s2-tls13-rsa", "TLS 1.3, RSA-2048");

pub(super) fn section(figures: &Figures<'_>) -> Section {
    Section {
        paragraphs: vec![
            "Tengine 2.2.2 gives private-key operations to an Intel QAT card and serves other connections meanwhile. \
             Its authors count full handshakes with a response of 10 bytes on two E5-2650 v2 (32 threads), \
             with OpenSSL 1.1.0f."
                .into(),
            "Here 64 clients do the same handshakes. Sealane needs no card: by default it computes RSA operations \
             of several connections in one batch of vector instructions (AVX-512 IFMA), where the processor has \
             them. Other keys it computes one at a time, so there is no gain to expect from them. \u{201c}sealane-off\u{201d} \
             is the same server with ssl_async off and ssl_accelerator cpu. The gain is in server CPU, within rounds: how many handshakes the same cores can do."
                .into(),
        ],
        claims: S2.iter().map(|row| claim(figures, row)).collect(),
        charts: vec![rates(figures), cpu(figures)],
        tables: vec![table(figures), figures.details()],
    }
}

fn claim(figures: &Figures<'_>, row: &Offload) -> Claim {
    let servers = figures.servers();
    let without = servers
        .iter()
        .position(|server| server.name.ends_with(WITHOUT_OFFLOAD));
    let factor = without
        .ok_or_else(|| "nothing was measured without it".to_owned())
        .and_then(|without| figures.gain((row.case, without), (row.case, 0)));
    Claim {
        text: format!("Handshakes gained by the accelerator, {}", row.suite),
        published: row.factor,
        source: match row.factor_of {
            "on 16 cores" => "Tengine with a QAT card, on 16 cores",
            _ => "Tengine with a QAT card, on 8 cores",
        },
        findings: vec![Finding {
            subject: servers[0].name.clone(),
            factor,
        }],
    }
}

fn suites() -> impl Iterator<Item = (&'static str, &'static str)> {
    S2.iter().map(|row| (row.case, row.suite)).chain([TLS13])
}

fn rates(figures: &Figures<'_>) -> Chart {
    let group =
        |(case, suite): (&str, &str)| (suite.to_owned(), figures.bars(case, per_cpu_second, false));
    Chart {
        title: "Full handshakes per second of one busy core".into(),
        legend: "Median and range. Longer is faster.".into(),
        groups: suites().map(group).collect(),
        format: thousands,
        whole: None,
    }
}

fn cpu(figures: &Figures<'_>) -> Chart {
    let group = |(case, suite): (&str, &str)| (suite.to_owned(), figures.bars(case, value, true));
    Chart {
        title: "Server CPU for a connection, µs".into(),
        legend: "Median and range; the full part is user time, the faint part system time. Shorter is cheaper."
            .into(),
        groups: suites().map(group).collect(),
        format: number,
        whole: None,
    }
}

/// The published rates beside the measured ones, for each number of cores.
fn table(figures: &Figures<'_>) -> Table {
    let mut rows = Vec::new();
    for (case, suite) in suites() {
        let published = S2.iter().find(|row| row.case == case);
        let none = || Cell::Missing("not published: TLS 1.3 came later".into());
        let with = published.map_or_else(none, |row| Cell::figure(row.with));
        let without = published.map_or_else(none, |row| Cell::figure(row.without));
        let on_cores = figures.on_all_cores(case);
        if on_cores.is_empty() {
            let reason = Cell::Missing(super::ENDED.into());
            rows.push(vec![Cell::text(suite), with, without, reason]);
            continue;
        }
        for result in on_cores {
            let cores = result.server_cpus.len();
            let mut cells = vec![Cell::text(suite), with.clone(), without.clone()];
            cells.push(Cell::figure(cores.to_string()));
            for server in 0..figures.servers().len() {
                let rate = super::summary(result, server, rate);
                cells.push(Cell::summary(&rate, thousands));
            }
            rows.push(cells);
        }
    }
    let before = ["suite", "Tengine with QAT", "Tengine without", "cores here"];
    Table {
        caption: "Full handshakes per second as they were counted, published and here".into(),
        headings: figures.headings(&before, ""),
        rows,
    }
}
