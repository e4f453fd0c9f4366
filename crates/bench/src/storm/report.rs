//! Reports of storms: text, JSON and Markdown.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::{
    Error, Histogram, Summary,
    load::Negotiated,
    storm::{Storm, StormKey, targets::Targets},
    testbed::{Cpus, Machine, ServerLabel, number, ratio_text, spread, verdict},
};

/// All measurements of storms.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    machine: Machine,
    pub(crate) servers: Vec<ServerLabel>,
    clients: usize,
    interval_ms: f64,
    seconds: f64,
    rounds: usize,
    quick: bool,
    pub(crate) storms: Vec<StormResult>,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) count: u64,
}

impl Latency {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let ms = |percent| histogram.percentile(percent).as_secs_f64() * 1e3;
        Self {
            p50_ms: ms(50.0),
            p99_ms: ms(99.0),
            max_ms: ms(100.0),
            count: histogram.count(),
        }
    }
}

/// One storm against one server in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The probe before the storm: the noise of machine and probe.
    pub(crate) alone: Latency,
    /// The probe during the storm.
    pub(crate) probe: Latency,
    /// The part of it that is the probe's own delay.
    pub(crate) probe_delay: Latency,
    /// Whether the probe had real-time priority.
    pub(crate) is_real_time: bool,
    /// New connections, all of which were answered.
    pub(crate) connections: u64,
    pub(crate) connections_per_s: f64,
    /// From connecting to the first byte of the response.
    pub(crate) new_connection: Latency,
    pub(crate) server_us_per_connection: Option<f64>,
    /// Number of cores that the server kept busy.
    pub(crate) server_busy_cores: Option<f64>,
    /// Share of the servers' cores used by other processes.
    pub(crate) neighbours_share: f64,
    /// Share of the clients' cores that they kept busy. Near 1, the clients limit the rate, and the
    /// latencies are their own.
    pub(crate) client_busy_share: f64,
    pub(crate) negotiated: Option<Negotiated>,
}

/// All rounds of one kind of key; the outer vector by server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StormResult {
    pub(crate) key: StormKey,
    targets: Targets,
    pub(crate) server_cpus: Vec<usize>,
    generator_cpus: Vec<usize>,
    pub(crate) measurements: Vec<Vec<Measurement>>,
    /// Why measuring a server has failed, by server; what was measured before does not count.
    pub(crate) failures: Vec<Option<String>>,
}

/// A figure with its target; both are in the unit given by `text`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) what: &'static str,
    pub(super) summary: Summary,
    /// `None`: no target.
    pub(super) met: Option<bool>,
    pub(super) target: String,
}

impl Verdict {
    fn at_most(what: &'static str, summary: Option<Summary>, bound: Option<f64>) -> Option<Self> {
        let summary = summary?;
        Some(Self {
            what,
            summary,
            met: bound.map(|bound| summary.median <= bound),
            target: bound.map_or_else(String::new, |bound| format!("<= {}", number(bound))),
        })
    }

    fn at_least(what: &'static str, summary: Option<Summary>, bound: f64) -> Option<Self> {
        let summary = summary?;
        Some(Self {
            what,
            summary,
            met: Some(summary.median >= bound),
            target: format!(">= {}", number(bound)),
        })
    }

    /// Without the target.
    fn unjudged(mut self) -> Self {
        self.met = None;
        self.target.clear();
        self
    }

    fn text(&self) -> String {
        let mut text = format!("{} {}", self.what, ratio_text(&self.summary));
        if let Some(met) = self.met {
            let _ = write!(text, " target {}: {}", self.target, verdict(met));
        }
        text
    }
}

/// A figure of a measurement.
pub(crate) type Field = fn(&Measurement) -> f64;

impl StormResult {
    pub(super) fn new(key: StormKey, cpus: &Cpus, servers: usize) -> Self {
        Self {
            key,
            targets: Targets::of(key, cpus.server.len()),
            server_cpus: cpus.server.clone(),
            generator_cpus: cpus.generator.clone(),
            measurements: vec![Vec::new(); servers],
            failures: vec![None; servers],
        }
    }

    pub(super) fn add(&mut self, server: usize, measurement: Measurement) {
        self.measurements[server].push(measurement);
    }

    pub(crate) fn summary(&self, server: usize, field: Field) -> Option<Summary> {
        let values: Vec<_> = self.measurements[server].iter().map(field).collect();
        Summary::of(&values)
    }

    /// Ratios are computed within each round, so both sides saw the same machine.
    pub(crate) fn ratio(&self, ours: usize, theirs: usize, field: Field) -> Option<Summary> {
        let ratios: Vec<_> = self.measurements[ours]
            .iter()
            .zip(&self.measurements[theirs])
            .map(|(ours, theirs)| field(ours) / field(theirs))
            .collect();
        Summary::of(&ratios)
    }

    /// The established connection of one server, compared with the bounds in milliseconds.
    pub(super) fn bounds(&self, server: usize) -> Vec<Verdict> {
        let targets = &self.targets;
        let each = [
            Verdict::at_most(
                "p99 ms",
                self.summary(server, |storm| storm.probe.p99_ms),
                Some(targets.p99_ms),
            ),
            Verdict::at_most(
                "max ms",
                self.summary(server, |storm| storm.probe.max_ms),
                targets.max_ms,
            ),
        ];
        each.into_iter().flatten().collect()
    }

    /// One server compared with another.
    pub(super) fn ratios(&self, ours: usize, theirs: usize) -> Vec<Verdict> {
        let targets = &self.targets;
        let ratio = |field: Field| self.ratio(ours, theirs, field);
        let each = [
            Verdict::at_most(
                "p99",
                ratio(|storm| storm.probe.p99_ms),
                Some(targets.p99_ratio),
            ),
            Verdict::at_most("max", ratio(|storm| storm.probe.max_ms), targets.max_ratio),
            Verdict::at_most(
                "new p99",
                ratio(|storm| storm.new_connection.p99_ms),
                Some(targets.new_connection_p99_ratio),
            ),
            Verdict::at_least(
                "rate",
                ratio(|storm| storm.connections_per_s),
                targets.rate_ratio,
            ),
            Verdict::at_most(
                "CPU",
                ratio(|storm| storm.server_us_per_connection.unwrap_or(f64::NAN)),
                None,
            ),
        ];
        each.into_iter().flatten().collect()
    }
}

/// Share of the servers' cores that others may use before the report warns.
const QUIET_SHARE: f64 = 0.05;

/// Columns of the tables: heading, figure, and whether its range is shown.
const COLUMNS: [(&str, Field, bool); 14] = [
    ("alone p50", |storm| storm.alone.p50_ms, false),
    ("p99", |storm| storm.alone.p99_ms, false),
    ("max", |storm| storm.alone.max_ms, false),
    ("storm p50", |storm| storm.probe.p50_ms, false),
    ("p99", |storm| storm.probe.p99_ms, true),
    ("max", |storm| storm.probe.max_ms, true),
    ("own delay max", |storm| storm.probe_delay.max_ms, false),
    ("new p50", |storm| storm.new_connection.p50_ms, false),
    ("p99", |storm| storm.new_connection.p99_ms, true),
    ("connections/s", |storm| storm.connections_per_s, true),
    (
        "CPU us",
        |storm| storm.server_us_per_connection.unwrap_or(f64::NAN),
        true,
    ),
    (
        "server cores busy",
        |storm| storm.server_busy_cores.unwrap_or(f64::NAN),
        false,
    ),
    (
        "other load %",
        |storm| storm.neighbours_share * 100.0,
        false,
    ),
    (
        "clients busy %",
        |storm| storm.client_busy_share * 100.0,
        false,
    ),
];

impl Report {
    pub(super) fn new(storm: &Storm) -> Result<Self, Error> {
        let servers = storm
            .servers
            .iter()
            .map(ServerLabel::of)
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            machine: Machine::here(),
            servers,
            clients: storm.clients,
            interval_ms: storm.interval.as_secs_f64() * 1e3,
            seconds: storm.measurement.as_secs_f64(),
            rounds: storm.rounds,
            quick: storm.quick,
            storms: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, result: StormResult) {
        self.storms.push(result);
    }

    /// The text table.
    pub fn table(&self) -> String {
        let mut text = self.preamble();
        for storm in &self.storms {
            let _ = writeln!(text, "\n{}", self.title(storm));
            let mut rows = vec![
                std::iter::once(String::new())
                    .chain(COLUMNS.iter().map(|(heading, ..)| (*heading).to_owned()))
                    .collect(),
            ];
            rows.extend((0..self.servers.len()).map(|index| self.row(storm, index)));
            text += &aligned(&rows);
            for line in self.verdicts(storm) {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }

    /// The same as Markdown, for docs/performance.md.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for line in self.preamble().lines() {
            let _ = writeln!(text, "- {line}");
        }
        for storm in &self.storms {
            let headings: Vec<_> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
            let _ = writeln!(
                text,
                "\n{}\n\n| | {} |\n|---|{}",
                self.title(storm),
                headings.join(" | "),
                "---|".repeat(COLUMNS.len())
            );
            for index in 0..self.servers.len() {
                let _ = writeln!(text, "| {} |", self.row(storm, index).join(" | "));
            }
            text.push('\n');
            for line in self.verdicts(storm) {
                let _ = writeln!(text, "- {line}");
            }
        }
        text
    }

    /// All measurements as JSON.
    pub fn json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and there are none.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn preamble(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "{}, {} cores, Linux {}; {} clients, {} s, probe every {} ms; {} interleaved rounds{}\n",
            machine.cpu,
            machine.cores,
            machine.kernel,
            self.clients,
            self.seconds,
            self.interval_ms,
            self.rounds,
            if self.quick {
                " (quick: not for publication)"
            } else {
                ""
            },
        );
        for server in &self.servers {
            let _ = writeln!(text, "{server}");
        }
        let all = || {
            self.storms
                .iter()
                .flat_map(|storm| storm.measurements.iter().flatten())
        };
        if !all().all(|measurement| measurement.is_real_time) {
            text += "the probe had no real-time priority (requires root): clients on its core delay it\n";
        }
        if all().any(|measurement| measurement.neighbours_share > QUIET_SHARE) {
            text += "other processes used the servers' cores during the run: latencies and rates include their effect and are not for publication\n";
        }
        text += "latencies of the established connection alone and in the storm, and of new connections, in ms; medians of the rounds (range)\n";
        text
    }

    fn title(&self, storm: &StormResult) -> String {
        let negotiated = storm
            .measurements
            .iter()
            .flatten()
            .find_map(|measurement| measurement.negotiated.as_ref());
        let negotiated =
            negotiated.map_or_else(String::new, |negotiated| format!(" [{negotiated}]"));
        format!(
            "{}, servers on cores {:?}, clients and probe on {:?}{negotiated}",
            storm.key.name(),
            storm.server_cpus,
            storm.generator_cpus
        )
    }

    fn row(&self, storm: &StormResult, index: usize) -> Vec<String> {
        let figure =
            |&(_, field, with_range): &(&str, Field, bool)| match storm.summary(index, field) {
                Some(summary) if with_range => {
                    format!("{} ({})", number(summary.median), spread(&summary))
                }
                Some(summary) => number(summary.median),
                None => "-".into(),
            };
        std::iter::once(self.servers[index].name.clone())
            .chain(COLUMNS.iter().map(figure))
            .collect()
    }

    /// How Sealane's servers compare with the targets, one line per server and peer.
    fn verdicts(&self, storm: &StormResult) -> Vec<String> {
        let sentence = |verdicts: &[Verdict]| {
            let each = verdicts.iter().map(Verdict::text);
            each.collect::<Vec<_>>().join("; ")
        };
        let servers = || self.servers.iter().enumerate();
        let mut lines = Vec::new();
        for (ours, our_label) in servers().filter(|(_, label)| label.is_sealane()) {
            lines.push(format!(
                "{}: {}",
                our_label.name,
                sentence(&storm.bounds(ours))
            ));
            for (theirs, their_label) in servers().filter(|(_, label)| !label.is_sealane()) {
                let mut ratios = storm.ratios(ours, theirs);
                if !their_label.is_reference() {
                    ratios = ratios.into_iter().map(Verdict::unjudged).collect();
                }
                lines.push(format!(
                    "{} / {}, {}: {}",
                    our_label.name,
                    their_label.name,
                    their_label.version,
                    sentence(&ratios)
                ));
            }
        }
        lines
    }
}

/// Rows with columns as wide as their widest cell, figures right-aligned.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "  {cell:width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
