//! Figures of a comparison, for people, programs and the manual.

use std::{fmt::Write, fs};

use serde::Serialize;

use crate::{
    Error, Summary,
    compare::{Server, cases::Case},
    load::Negotiated,
};

/// The peer whose ratios the targets are about.
const REFERENCE: &str = "reference";

/// Everything a comparison measured.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    servers: Vec<ServerLabel>,
    rounds: usize,
    quick: bool,
    pub(super) cases: Vec<CaseResult>,
}

#[derive(Debug, Serialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    server_cpu: usize,
}

#[derive(Debug, Serialize)]
struct ServerLabel {
    name: String,
    version: String,
    directives: String,
}

/// One measurement of one server in one round.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    /// In the case's unit.
    pub(super) value: f64,
    /// Share of the elapsed time that the server was on a CPU.
    pub(super) busy: Option<f64>,
    /// Share of its CPU time that was system time.
    pub(super) system_share: Option<f64>,
    pub(super) operations: u64,
    pub(super) negotiated: Option<Negotiated>,
}

/// All rounds of a case; the outer vector by server.
#[derive(Debug, Serialize)]
pub(super) struct CaseResult {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    target: Option<f64>,
    measurements: Vec<Vec<Measurement>>,
}

/// The first server against one of the others.
#[derive(Debug, PartialEq)]
pub(super) struct Ratio {
    /// Of the rounds' ratios.
    pub(super) summary: Summary,
    /// The target and whether it is met; only against the reference.
    pub(super) verdict: Option<(f64, bool)>,
}

impl CaseResult {
    pub(super) fn new(case: &Case, servers: usize) -> Self {
        Self {
            name: case.name,
            title: case.title,
            unit: case.unit.name(),
            target: case.target,
            measurements: vec![Vec::new(); servers],
        }
    }

    pub(super) fn add(&mut self, server: usize, measurement: Measurement) {
        self.measurements[server].push(measurement);
    }

    fn summary(&self, server: usize) -> Option<Summary> {
        let values: Vec<_> = self.measurements[server]
            .iter()
            .map(|measurement| measurement.value)
            .collect();
        Summary::of(&values)
    }

    /// Ratios are taken within each round, so that both sides saw the same machine.
    pub(super) fn ratio(&self, peer: usize, peer_name: &str) -> Option<Ratio> {
        let ratios: Vec<_> = self.measurements[0]
            .iter()
            .zip(&self.measurements[peer])
            .map(|(ours, theirs)| ours.value / theirs.value)
            .collect();
        let summary = Summary::of(&ratios)?;
        let target = self.target.filter(|_| peer_name == REFERENCE);
        Some(Ratio {
            summary,
            verdict: target.map(|target| (target, summary.median <= target)),
        })
    }

    fn busy_percent(&self, server: usize) -> Option<f64> {
        let shares: Vec<_> = self.measurements[server]
            .iter()
            .filter_map(|measurement| measurement.busy)
            .collect();
        Summary::of(&shares).map(|summary| summary.median * 100.0)
    }

    fn system_percent(&self, server: usize) -> Option<f64> {
        let shares: Vec<_> = self.measurements[server]
            .iter()
            .filter_map(|measurement| measurement.system_share)
            .collect();
        Summary::of(&shares).map(|summary| summary.median * 100.0)
    }
}

impl Report {
    pub(super) fn new(
        servers: &[Server],
        server_cpu: usize,
        rounds: usize,
        quick: bool,
    ) -> Result<Self, Error> {
        let servers = servers
            .iter()
            .map(|server| {
                Ok(ServerLabel {
                    name: server.name.clone(),
                    version: server.version()?,
                    directives: server.directives.clone(),
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            machine: Machine::here(server_cpu),
            servers,
            rounds,
            quick,
            cases: Vec::new(),
        })
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut text = self.preamble();
        for case in &self.cases {
            let negotiated = case.measurements[0]
                .first()
                .and_then(|measurement| measurement.negotiated.as_ref());
            let negotiated =
                negotiated.map_or_else(String::new, |negotiated| format!(" [{negotiated}]"));
            let _ = writeln!(
                text,
                "\n{}: {}, {}{negotiated}",
                case.name, case.title, case.unit
            );
            for (index, server) in self.servers.iter().enumerate() {
                text += &self.table_line(case, index, server);
            }
        }
        text
    }

    fn table_line(&self, case: &CaseResult, index: usize, server: &ServerLabel) -> String {
        let Some(summary) = case.summary(index) else {
            return String::new();
        };
        let mut line = format!(
            "  {:10} {:>9}  ({}..{}, IQR {})",
            server.name,
            number(summary.median),
            number(summary.min),
            number(summary.max),
            number(summary.interquartile_range()),
        );
        if let (Some(busy), Some(system)) = (case.busy_percent(index), case.system_percent(index)) {
            let _ = write!(line, "  core {busy:.0} % busy, {system:.0} % system");
        }
        if let Some(ratio) = (index > 0)
            .then(|| case.ratio(index, &server.name))
            .flatten()
        {
            let _ = write!(
                line,
                "  | {} / {}: {}",
                self.servers[0].name,
                server.version,
                ratio_text(&ratio.summary)
            );
            if let Some((target, met)) = ratio.verdict {
                let _ = write!(line, ", target {target:.2}: {}", verdict(met));
            }
        }
        line.push('\n');
        line
    }

    fn preamble(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "{}, {} cores, Linux {}; servers one worker on core {}; {} rounds by turns{}\n",
            machine.cpu,
            machine.cores,
            machine.kernel,
            machine.server_cpu,
            self.rounds,
            if self.quick {
                " (quick: not for quoting)"
            } else {
                ""
            },
        );
        for server in &self.servers {
            let directives = if server.directives.is_empty() {
                String::new()
            } else {
                format!(", with {}", server.directives)
            };
            let _ = writeln!(text, "{}: {}{directives}", server.name, server.version);
        }
        text += "server CPU per operation, median (min..max, interquartile range)\n";
        text
    }

    /// One Markdown table per peer, for docs/performance.md; with a single
    /// server a table of its figures alone.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for line in self.preamble().lines() {
            let _ = writeln!(text, "- {line}");
        }
        if self.servers.len() == 1 {
            let _ = writeln!(
                text,
                "\n| case | unit | {} | spread |\n|---|---|---|---|",
                self.servers[0].version
            );
            for case in &self.cases {
                if let Some(ours) = case.summary(0) {
                    let _ = writeln!(
                        text,
                        "| {} | {} | {} | {} |",
                        case.title,
                        case.unit,
                        number(ours.median),
                        spread(&ours)
                    );
                }
            }
        }
        for (index, peer) in self.servers.iter().enumerate().skip(1) {
            let _ = writeln!(
                text,
                "\n| case | unit | {} | spread | {} | spread | ratio (range) | target |\n|---|---|---|---|---|---|---|---|",
                self.servers[0].version, peer.version
            );
            for case in &self.cases {
                text += &markdown_line(case, index, &peer.name);
            }
        }
        text
    }

    /// All measurements as JSON.
    pub fn json(&self) -> String {
        // Only maps with keys that are no strings could fail, and there are none.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn markdown_line(case: &CaseResult, index: usize, peer_name: &str) -> String {
    let (Some(ours), Some(theirs), Some(ratio)) = (
        case.summary(0),
        case.summary(index),
        case.ratio(index, peer_name),
    ) else {
        return String::new();
    };
    let target = ratio.verdict.map_or_else(String::new, |(target, met)| {
        format!("{target:.2}: {}", verdict(met))
    });
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {target} |\n",
        case.title,
        case.unit,
        number(ours.median),
        spread(&ours),
        number(theirs.median),
        spread(&theirs),
        ratio_text(&ratio.summary),
    )
}

fn spread(summary: &Summary) -> String {
    format!("{}..{}", number(summary.min), number(summary.max))
}

fn ratio_text(summary: &Summary) -> String {
    format!(
        "{:.2} ({:.2}..{:.2})",
        summary.median, summary.min, summary.max
    )
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// Three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl Machine {
    fn here(server_cpu: usize) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo
                .lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: field("model name").unwrap_or_else(|| "unknown CPU".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            // Only the version: what a provider appends names its machines.
            kernel: kernel
                .trim()
                .split('-')
                .next()
                .unwrap_or_default()
                .to_owned(),
            server_cpu,
        }
    }
}
