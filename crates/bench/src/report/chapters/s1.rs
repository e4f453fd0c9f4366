//! Kernel TLS: downloads of 1 GiB in user space and by the kernel.

use super::{Figures, missing, value};
use crate::{
    Summary,
    compare::Measurement,
    report::{
        published::{S1, S1_FREEBSD, S1_HEAVY_LOAD, S1_UBUNTU},
        run::WITH_KERNEL_TLS,
        section::{Bar, Cell, Chart, Claim, Colour, Finding, Section, Table, thousands},
    },
    testbed::number,
};

const CASES: [(&str, &str); 2] = [
    ("tls13-1g", "1 GiB with content"),
    ("tls13-1g-sparse", "1 GiB that is a hole, as the article's"),
];
const SOURCE: &str = "the article";
const GIB: f64 = (1_u64 << 30) as f64;

pub(super) fn section(figures: &Figures<'_>) -> Section {
    Section {
        paragraphs: vec![
            "An article about nginx 1.21.4 lets the kernel encrypt TLS records: a file goes from the page \
             cache to the socket without passing through the server. It downloads one file of 1 GiB ten \
             times with curl, over TLS 1.3 with TLS_AES_256_GCM_SHA384, on two virtual cores of a Xeon \
             Platinum 8259CL."
                .into(),
            "Here the load generator downloads the same over one connection from one worker on a core of \
             its own, in user space and, with \u{201c}-ktls\u{201d}, with ssl_conf_command Options KTLS. Throughput depends on \
             the receiver as well; server CPU does not. A figure with kernel TLS counts only if the \
             kernel\u{2019}s own counter (/proc/net/tls_stat) has moved."
                .into(),
        ],
        claims: claims(figures),
        charts: vec![throughput(figures), cpu(figures)],
        tables: vec![table(figures), figures.details()],
    }
}

/// Bytes per second, in kB/s as curl and the article count them.
fn kilobytes(measurement: &Measurement) -> Option<f64> {
    measurement.rate_per_s.map(|rate| rate * GIB / 1e3)
}

/// The positions of a server in user space and of the same with kernel TLS.
fn pairs<'a>(figures: &'a Figures<'_>) -> Vec<(&'a str, usize, usize)> {
    let servers = figures.servers();
    let with = |(index, server): (usize, &'a crate::testbed::ServerLabel)| {
        let base = server.name.strip_suffix(WITH_KERNEL_TLS)?;
        let position = servers.iter().position(|other| other.name == base)?;
        Some((base, position, index))
    };
    servers.iter().enumerate().filter_map(with).collect()
}

fn claims(figures: &Figures<'_>) -> Vec<Claim> {
    let case = CASES[0].0;
    let measured = |(name, user, kernel): (&str, usize, usize)| {
        let of = |server| figures.of(case, server, kilobytes);
        let factor = of(user).and_then(|user| {
            let kernel = of(kernel)?;
            let each = [
                kernel.median / user.median,
                kernel.min / user.max,
                kernel.max / user.min,
            ];
            let mut factor = Summary::of(&each).ok_or("the server sent nothing")?;
            factor.median = each[0];
            Ok(factor)
        });
        Finding {
            subject: name.to_owned(),
            factor,
        }
    };
    let elsewhere = |reason: &str| {
        vec![Finding {
            subject: "all servers".into(),
            factor: Err(reason.to_owned()),
        }]
    };
    vec![
        Claim {
            text: "Kernel TLS downloads faster than user space (Ubuntu 21.10)".into(),
            published: S1_UBUNTU,
            source: SOURCE,
            findings: pairs(figures).into_iter().map(measured).collect(),
        },
        Claim {
            text: "Kernel TLS downloads faster than user space (FreeBSD 13.0)".into(),
            published: S1_FREEBSD,
            source: SOURCE,
            findings: elsewhere("this is Linux"),
        },
        Claim {
            text: "Up to twice as fast under heavy load".into(),
            published: S1_HEAVY_LOAD,
            source: SOURCE,
            findings: elsewhere("the article does not say what load that is"),
        },
    ]
}

fn throughput(figures: &Figures<'_>) -> Chart {
    let published = S1.iter().map(|row| Bar {
        label: row.system.to_owned(),
        colour: Colour::Published,
        value: Summary::of(&[row.figures[0], row.figures[2], row.figures[1]])
            .ok_or_else(|| "not published".into()),
        system_share: None,
    });
    let mut groups = vec![("the article".to_owned(), published.collect())];
    for (case, title) in CASES {
        groups.push((title.into(), figures.bars(case, kilobytes, false)));
    }
    Chart {
        title: "Throughput of one download, kB/s".into(),
        legend: "Median and range. Longer is faster.".into(),
        groups,
        format: thousands,
        whole: None,
    }
}

fn cpu(figures: &Figures<'_>) -> Chart {
    let group = |(case, title): (&str, &str)| (title.to_owned(), figures.bars(case, value, true));
    Chart {
        title: "Server CPU for 1 GiB, seconds".into(),
        legend: "Median and range; the full part is user time, the faint part system time. Shorter is cheaper."
            .into(),
        groups: CASES.into_iter().map(group).collect(),
        format: number,
        whole: None,
    }
}

fn table(figures: &Figures<'_>) -> Table {
    let headings = ["file", "N", "min", "max", "median", "mean", "deviation"];
    let mut rows: Vec<Vec<Cell>> = S1
        .iter()
        .map(|row| {
            let [min, max, median, mean, deviation] = row.figures.map(thousands);
            let mut cells = vec![Cell::text(format!("article: {}", row.system))];
            cells.extend([Cell::text("1 GiB that is a hole"), Cell::figure("10")]);
            cells.extend([min, max, median, mean, deviation].map(Cell::figure));
            cells
        })
        .collect();
    for (case, title) in CASES {
        for (index, server) in figures.servers().iter().enumerate() {
            let mut cells = vec![Cell::text(server.name.clone()), Cell::text(title)];
            cells.extend(ministat(figures, case, index));
            rows.push(cells);
        }
    }
    let mut all = vec!["system or server".to_owned()];
    all.extend(headings.map(str::to_owned));
    Table {
        caption: "Throughput of a download in kB/s, in the form of ministat(1)".into(),
        headings: all,
        rows,
    }
}

/// N, min, max, median, mean, deviation; or why there are none.
fn ministat(figures: &Figures<'_>, case: &str, server: usize) -> Vec<Cell> {
    let summary = match figures.of(case, server, kilobytes) {
        Ok(summary) => summary,
        Err(reason) => return vec![Cell::Missing(reason)],
    };
    let rounds = figures
        .case(case)
        .filter(|case| missing(case, server).is_none());
    let rounds = rounds.map_or(&[][..], |case| &case.measurements[server]);
    let values: Vec<_> = rounds.iter().filter_map(kilobytes).collect();
    let (mean, deviation) = Summary::mean_and_deviation(&values).unzip();
    let mut cells = vec![Cell::figure(summary.count.to_string())];
    cells.extend(
        [summary.min, summary.max, summary.median].map(|value| Cell::figure(thousands(value))),
    );
    cells.push(mean.map_or_else(
        || Cell::Missing("no rounds".into()),
        |mean| Cell::figure(thousands(mean)),
    ));
    cells.push(deviation.flatten().map_or_else(
        || Cell::Missing("one round has none".into()),
        |deviation| Cell::figure(thousands(deviation)),
    ));
    cells
}
