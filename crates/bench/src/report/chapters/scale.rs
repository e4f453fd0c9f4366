//! More workers, more connections, more server names.

use super::{ENDED, Figures, rate, summary, value};
use crate::{
    report::section::{Bar, Cell, Chart, Claim, Finding, Section, Table, thousands},
    testbed::number,
};

const CONNECTIONS: [(&str, &str); 4] = [
    ("scale-1", "1 connection"),
    ("scale-100", "100 connections"),
    ("scale-1000", "1,000 connections"),
    ("scale-10000", "10,000 connections"),
];
const NAMES: [(&str, &str); 3] = [
    ("names-1", "1 server name"),
    ("names-100", "100 server names"),
    ("names-1000", "1,000 server names"),
];
/// What is repeated with more workers.
const WORKERS: [(&str, &str); 2] = [
    ("scale-100", "requests of 1 KiB, 100 connections"),
    ("tls13-full-p256", "full handshakes, TLS 1.3, P-256"),
];
const SOURCE: &str = "Sealane\u{2019}s target";

pub(super) fn section(figures: &Figures<'_>) -> Section {
    let cpu = |title: &str, cases: &[(&str, &str)]| {
        Chart {
        title: title.into(),
        legend: "Median and range; the full part is user time, the faint part system time. Shorter is cheaper."
            .into(),
        groups: cases
            .iter()
            .map(|(case, title)| ((*title).to_owned(), figures.bars(case, value, true)))
            .collect(),
        format: number,
        whole: None,
    }
    };
    Section {
        paragraphs: vec![
            "The same small work with more of everything: open connections, servers that share a port and differ \
             by name (SNI), and workers, one for each of the servers\u{2019} cores. The load generator keeps at least as \
             many cores as the servers have, so a machine with N cores can try up to N/2 workers."
                .into(),
            "No article or study has published this. The factors are Sealane\u{2019}s own targets: no work costs more \
             because there is more of something else."
                .into(),
        ],
        claims: claims(figures),
        charts: vec![
            cpu("Server CPU for a request of 1 KiB by open connections, µs", &CONNECTIONS),
            cpu("Server CPU for a full handshake by server names, µs", &NAMES),
            workers(figures),
        ],
        tables: vec![table(figures), figures.details()],
    }
}

fn claims(figures: &Figures<'_>) -> Vec<Claim> {
    let claim = |text: &str, few: &str, many: &str| Claim {
        text: text.into(),
        published: 1.0,
        source: SOURCE,
        findings: figures
            .servers()
            .iter()
            .enumerate()
            .map(|(index, server)| Finding {
                subject: server.name.clone(),
                factor: figures.gain((few, index), (many, index)),
            })
            .collect(),
    };
    let mut claims = vec![
        claim(
            "A request costs no more with 10,000 connections than with one",
            "scale-1",
            "scale-10000",
        ),
        claim(
            "A handshake costs no more with 1,000 server names than with one",
            "names-1",
            "names-1000",
        ),
    ];
    for (case, title) in WORKERS {
        claims.extend(more_workers(figures, case, title));
    }
    claims
}

/// Whether the most workers do as many times the work of one; nothing if there was only one.
fn more_workers(figures: &Figures<'_>, case: &str, title: &str) -> Option<Claim> {
    let all = figures.on_all_cores(case);
    let (one, most) = (*all.first()?, *all.last()?);
    let count = most.server_cpus.len();
    if count == one.server_cpus.len() {
        return None;
    }
    let finding = |(index, server): (usize, &crate::testbed::ServerLabel)| {
        let factor = summary(one, index, rate).and_then(|one| {
            let most = summary(most, index, rate)?;
            let ratios = [
                most.min / one.max,
                most.median / one.median,
                most.max / one.min,
            ];
            crate::Summary::of(&ratios).ok_or_else(|| ENDED.into())
        });
        Finding {
            subject: server.name.clone(),
            factor,
        }
    };
    Some(Claim {
        text: format!("{count} workers do {count} times the work of one: {title}"),
        published: count as f64,
        source: SOURCE,
        findings: figures.servers().iter().enumerate().map(finding).collect(),
    })
}

fn workers(figures: &Figures<'_>) -> Chart {
    let mut groups = Vec::new();
    for (case, title) in WORKERS {
        for result in figures.on_all_cores(case) {
            let workers = match result.server_cpus.len() {
                1 => "1 worker".to_owned(),
                count => format!("{count} workers"),
            };
            let bar = |server: usize| Bar {
                value: summary(result, server, rate),
                ..figures.bar(case, server, rate, false)
            };
            let bars = (0..figures.servers().len()).map(bar).collect();
            groups.push((format!("{title}: {workers}"), bars));
        }
    }
    Chart {
        title: "Operations per second by workers".into(),
        legend: "Median and range. Longer is faster.".into(),
        groups,
        format: thousands,
        whole: None,
    }
}

fn table(figures: &Figures<'_>) -> Table {
    let row = |(case, title): &(&str, &str)| {
        let mut cells = vec![Cell::text(*title)];
        for server in 0..figures.servers().len() {
            cells.push(Cell::summary(&figures.of(case, server, value), number));
            let memory = figures.of(case, server, |measurement| {
                measurement.memory_kib.map(|kib| kib / 1024.0)
            });
            cells.push(Cell::summary(&memory, number));
        }
        cells
    };
    let mut headings = vec![String::new()];
    for server in figures.servers() {
        headings.extend(["µs", "MiB"].map(|unit| format!("{}, {unit}", server.name)));
    }
    headings[0] = "with".into();
    Table {
        caption:
            "Server CPU for an operation, and the server\u{2019}s memory at the end, on one core"
                .into(),
        headings,
        rows: CONNECTIONS.iter().chain(&NAMES).map(row).collect(),
    }
}
