//! Memory per idle connection.

use super::{Figures, value};
use crate::{
    report::section::{Cell, Chart, Claim, Finding, Section, Table},
    testbed::number,
};

/// The case, what it is, and by which factor a peer needs more, as Sealane's targets say.
const CASES: [(&str, &str, f64); 2] = [
    ("tls13-idle", "HTTP/1.1 over TLS 1.3", 1.0 / 0.35),
    ("h2-idle", "HTTP/2 over TLS 1.3", 1.0 / 0.50),
];

pub(super) fn section(figures: &Figures<'_>) -> Section {
    Section {
        paragraphs: vec![
            "Thousands of connections each make one request and then stay open. What the server\u{2019}s anonymous and \
             shared memory (PSS, all processes) has grown by is divided by their number. Socket buffers and other \
             memory of the kernel are not included; they are the same for all servers."
                .into(),
            "No article or study has published this. The factors are Sealane\u{2019}s own targets against nginx with \
             OpenSSL 4.0."
                .into(),
        ],
        claims: CASES.iter().map(|case| claim(figures, case)).collect(),
        charts: vec![Chart {
            title: "Memory per idle connection, KiB".into(),
            legend: "Median and range. Shorter is smaller.".into(),
            groups: CASES
                .iter()
                .map(|(case, title, _)| ((*title).to_owned(), figures.bars(case, value, false)))
                .collect(),
            format: number,
            whole: None,
        }],
        tables: vec![table(figures), figures.details()],
    }
}

fn claim(figures: &Figures<'_>, (case, title, factor): &(&str, &str, f64)) -> Claim {
    let peers = figures.servers().iter().enumerate().skip(1);
    Claim {
        text: format!("Others need more memory for an idle connection, {title}"),
        published: *factor,
        source: "Sealane\u{2019}s target",
        findings: peers
            .map(|(index, peer)| Finding {
                subject: peer.name.clone(),
                factor: figures.gain((case, index), (case, 0)),
            })
            .collect(),
    }
}

fn table(figures: &Figures<'_>) -> Table {
    let row = |(case, title, _): &(&str, &str, f64)| {
        let mut cells = vec![Cell::text(*title)];
        let of = |server| {
            let bytes = figures.of(case, server, |measurement| Some(measurement.value * 1024.0));
            Cell::summary(&bytes, crate::report::section::thousands)
        };
        cells.extend((0..figures.servers().len()).map(of));
        cells
    };
    Table {
        caption: "Bytes per idle connection".into(),
        headings: figures.headings(&["connection"], ""),
        rows: CASES.iter().map(row).collect(),
    }
}
