//! Sessions: what tickets, a cache, ECDHE and stapling change.

use super::{Figures, per_cpu_second, value};
use crate::{
    Summary,
    report::{
        published::{S3, Tuning},
        section::{Bar, Cell, Chart, Claim, Colour, Finding, Section, Table, thousands},
    },
    testbed::number,
};

const SOURCE: &str = "the tuning study";

/// What the study did not have: configuration, and the cases with keep-alive and without.
const NEWER: [(&str, Option<&str>, &str); 3] = [
    (
        "ECDHE + session cache, no tickets",
        None,
        "tls12-session-id",
    ),
    ("TLS 1.3, tickets", Some("tls13-1k"), "tls13-ticket"),
    ("TLS 1.3, 0-RTT", None, "tls13-early-data"),
];

pub(super) fn section(figures: &Figures<'_>) -> Section {
    Section {
        paragraphs: vec![
            "A study of HTTPS tuning measures nginx 1.10.2 with TLS 1.2 and RSA-2048 on six cores of an E5-2620 v2: \
             wrk -c 24 -t 24 -d 3m, with keep-alive and with one connection for each request. All responses of its \
             first row were errors (\u{201c}Non-2xx\u{201d}), so that row cannot be compared with the others; and tickets \
             cannot change what a request costs on 24 connections that stay open."
                .into(),
            "Here every response is checked, and an unexpected one is a failure. Requests per second are those for a \
             second of server CPU, which one busy core serves: compare the factors between rows, not the rates with \
             the study\u{2019}s. Gains are in server CPU for an operation, within rounds."
                .into(),
        ],
        claims: claims(figures),
        charts: vec![
            rates(figures, "With one connection for each request: requests per second", |row| {
                (row.close_case, row.close)
            }),
            rates(figures, "With keep-alive: requests per second", |row| {
                (row.keep_alive_case, row.keep_alive)
            }),
            cpu(figures),
        ],
        tables: vec![table(figures), figures.details()],
    }
}

fn claims(figures: &Figures<'_>) -> Vec<Claim> {
    let [untuned, cached, ecdhe, stapled] = &S3;
    let claim = |text: &str, published: (f64, f64), cases: (&str, &str)| Claim {
        text: text.into(),
        published: published.1 / published.0,
        source: SOURCE,
        findings: figures
            .servers()
            .iter()
            .enumerate()
            .map(|(index, server)| Finding {
                subject: server.name.clone(),
                factor: figures.gain((cases.0, index), (cases.1, index)),
            })
            .collect(),
    };
    vec![
        claim(
            "Tickets and a session cache: more requests with a connection for each",
            (untuned.close, cached.close),
            (untuned.close_case, cached.close_case),
        ),
        claim(
            "Tickets and a session cache: more requests with keep-alive",
            (untuned.keep_alive, cached.keep_alive),
            (untuned.keep_alive_case, cached.keep_alive_case),
        ),
        claim(
            "ECDHE instead of RSA key exchange costs nothing when sessions are resumed",
            (cached.close, ecdhe.close),
            (cached.close_case, ecdhe.close_case),
        ),
        claim(
            "OCSP stapling costs nothing when sessions are resumed",
            (ecdhe.close, stapled.close),
            (ecdhe.close_case, stapled.close_case),
        ),
    ]
}

fn rates(figures: &Figures<'_>, title: &str, of: fn(&Tuning) -> (&'static str, f64)) -> Chart {
    let group = |row: &Tuning| {
        let (case, published) = of(row);
        let mut bars = vec![Bar {
            label: "study, 6 cores".into(),
            colour: Colour::Published,
            value: Summary::of(&[published]).ok_or_else(|| "not published".into()),
            system_share: None,
        }];
        bars.extend(figures.bars(case, per_cpu_second, false));
        (row.configuration.to_owned(), bars)
    };
    Chart {
        title: title.into(),
        legend: "Median and range; the study\u{2019}s of six cores, those measured here of one busy core. Longer is faster."
            .into(),
        groups: S3.iter().map(group).collect(),
        format: thousands,
        whole: None,
    }
}

fn cpu(figures: &Figures<'_>) -> Chart {
    let published = S3.iter().map(|row| (row.configuration, row.close_case));
    let newer = NEWER
        .iter()
        .map(|(configuration, _, case)| (*configuration, *case));
    let group = |(configuration, case): (&str, &str)| {
        (configuration.to_owned(), figures.bars(case, value, true))
    };
    Chart {
        title: "Server CPU for a connection with one request, µs".into(),
        legend: "Median and range; the full part is user time, the faint part system time. Shorter is cheaper."
            .into(),
        groups: published.chain(newer).map(group).collect(),
        format: number,
        whole: None,
    }
}

fn table(figures: &Figures<'_>) -> Table {
    let mut rows = Vec::new();
    for row in &S3 {
        let mut cells = vec![Cell::text(row.configuration)];
        cells.extend([row.keep_alive, row.close].map(|rate| Cell::figure(thousands(rate))));
        cells.extend(measured(figures, Some(row.keep_alive_case), row.close_case));
        rows.push(cells);
    }
    for (configuration, keep_alive, close) in NEWER {
        let mut cells = vec![Cell::text(configuration)];
        cells.extend(["keep-alive", "close"].map(|_| Cell::Missing("not in the study".into())));
        cells.extend(measured(figures, keep_alive, close));
        rows.push(cells);
    }
    let mut headings = vec!["configuration".to_owned()];
    let servers = figures.servers().iter().map(|server| server.name.as_str());
    for name in ["study"].into_iter().chain(servers) {
        headings.extend(["keep-alive", "close"].map(|kind| format!("{name}, {kind}")));
    }
    Table {
        caption: "Requests per second: the study\u{2019}s six cores, and one busy core here".into(),
        headings,
        rows,
    }
}

fn measured(figures: &Figures<'_>, keep_alive: Option<&str>, close: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for server in 0..figures.servers().len() {
        cells.push(keep_alive.map_or_else(
            || Cell::Missing("the same as above: resumption ends with the handshake".into()),
            |case| Cell::summary(&figures.of(case, server, per_cpu_second), thousands),
        ));
        cells.push(Cell::summary(
            &figures.of(close, server, per_cpu_second),
            thousands,
        ));
    }
    cells
}
