//! Reports of a comparison: text, JSON and Markdown.

use std::{borrow::Cow, fmt::Write};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Summary,
    compare::{
        cases::{Case, Target},
        groups,
    },
    load::Negotiated,
    testbed::{Machine, Server, ServerLabel, number, ratio_text, spread, verdict},
};

/// Everything a comparison measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    machine: Machine,
    pub(crate) servers: Vec<ServerLabel>,
    rounds: usize,
    quick: bool,
    pub(crate) cases: Vec<CaseResult>,
}

/// One measurement of one server in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// In the case's unit.
    pub(crate) value: f64,
    /// Share of its cores' time during which the server was on a CPU.
    pub(crate) busy: Option<f64>,
    /// Share of its CPU time that was system time.
    pub(crate) system_share: Option<f64>,
    /// Memory of the server at the end, with all keep-alive connections open.
    pub(crate) memory_kib: Option<f64>,
    /// Operations per second.
    pub(crate) rate_per_s: Option<f64>,
    /// User-space instructions per operation, if counted.
    pub(crate) instructions: Option<f64>,
    /// Share of the operations that a cache answered, if there was one.
    pub(crate) hits: Option<f64>,
    pub(crate) operations: u64,
    pub(crate) negotiated: Option<Negotiated>,
}

impl Measurement {
    /// A figure in the case's unit, and nothing else.
    pub(super) fn of(value: f64) -> Self {
        Self {
            value,
            busy: None,
            system_share: None,
            memory_kib: None,
            rate_per_s: None,
            instructions: None,
            hits: None,
            operations: 0,
            negotiated: None,
        }
    }

    /// User time in the case's unit.
    pub(crate) fn user(&self) -> Option<f64> {
        self.system_share.map(|share| self.value * (1.0 - share))
    }

    /// System time in the case's unit.
    pub(crate) fn system(&self) -> Option<f64> {
        self.system_share.map(|share| self.value * share)
    }
}

/// All rounds of a case; the outer vector by server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CaseResult {
    pub(crate) name: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    pub(crate) unit: Cow<'static, str>,
    target: Option<Target>,
    /// The servers' cores.
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) measurements: Vec<Vec<Measurement>>,
    /// Why a server is left out, by server.
    pub(crate) obstacles: Vec<Option<Cow<'static, str>>>,
    /// Why measuring a server has failed, by server; what was measured before does not count.
    pub(crate) failures: Vec<Option<String>>,
    /// User-space instructions per operation by server, if counted.
    instructions: Vec<Option<f64>>,
}

/// The first server compared with one of the others.
#[derive(Debug, PartialEq)]
pub(super) struct Ratio {
    /// Summary of the rounds' ratios.
    pub(super) summary: Summary,
    /// The target and whether it was met; only against the reference.
    pub(super) verdict: Option<(f64, bool)>,
}

impl CaseResult {
    /// Without measurements so far; `obstacles` has an item for each server.
    pub(super) fn new(
        case: &Case,
        server_cpus: &[usize],
        obstacles: Vec<Option<Cow<'static, str>>>,
    ) -> Self {
        let servers = obstacles.len();
        Self {
            name: case.name.into(),
            title: case.title.into(),
            unit: case.unit.name().into(),
            target: case.target.clone(),
            server_cpus: server_cpus.to_vec(),
            measurements: vec![Vec::new(); servers],
            obstacles,
            failures: vec![None; servers],
            instructions: vec![None; servers],
        }
    }

    pub(super) fn add(&mut self, server: usize, measurement: Measurement) {
        self.measurements[server].push(measurement);
    }

    pub(super) fn set_instructions(&mut self, server: usize, per_operation: Option<f64>) {
        self.instructions[server] = per_operation;
    }

    fn summary(&self, server: usize) -> Option<Summary> {
        let values: Vec<_> = self.measurements[server]
            .iter()
            .map(|measurement| measurement.value)
            .collect();
        Summary::of(&values)
    }

    /// Ratios are computed within each round, so both sides saw the same machine.
    pub(super) fn ratio(
        &self,
        (ours, our_label): (usize, &ServerLabel),
        (theirs, their_label): (usize, &ServerLabel),
    ) -> Option<Ratio> {
        let summary = ratios(&self.measurements[ours], &self.measurements[theirs])?;
        let is_judged = |target: &Target| {
            let needs = target.needs.as_deref().unwrap_or_default();
            their_label.is_reference() && our_label.was_given(needs)
        };
        let target = self.target.as_ref().filter(|&target| is_judged(target));
        Some(Ratio {
            summary,
            verdict: target.map(|target| (target.ratio, summary.median <= target.ratio)),
        })
    }

    /// The median of the rounds' ratios of a part of the figure. Nothing where a peer has none of
    /// it.
    pub(super) fn ratio_of(
        &self,
        (ours, theirs): (usize, usize),
        part: impl Fn(&Measurement) -> Option<f64>,
    ) -> Option<f64> {
        let rounds = self.measurements[ours]
            .iter()
            .zip(&self.measurements[theirs]);
        let ratios: Vec<_> = rounds
            .filter_map(|(ours, theirs)| Some(part(ours)? / part(theirs)?))
            .filter(|ratio| ratio.is_finite())
            .collect();
        Summary::of(&ratios).map(|summary| summary.median)
    }

    /// A server's figures beside those of the case that this one is paired with.
    fn ratio_to_base(
        &self,
        base: &CaseResult,
        server: usize,
        label: &ServerLabel,
    ) -> Option<Ratio> {
        let summary = ratios(&self.measurements[server], &base.measurements[server])?;
        let target = groups::pair_of(&self.name).and_then(|pair| pair.target);
        let target = target.filter(|_| label.is_sealane());
        Some(Ratio {
            summary,
            verdict: target.map(|target| (target, summary.median <= target)),
        })
    }

    /// What a server negotiated.
    fn negotiated(&self, server: usize) -> Option<&Negotiated> {
        let first = self.measurements[server].first();
        first.and_then(|measurement| measurement.negotiated.as_ref())
    }

    /// What the first server that was measured negotiated.
    fn first_negotiated(&self) -> Option<&Negotiated> {
        (0..self.measurements.len()).find_map(|server| self.negotiated(server))
    }

    fn median_of(&self, server: usize, field: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let values: Vec<_> = self.measurements[server].iter().filter_map(field).collect();
        Summary::of(&values).map(|summary| summary.median)
    }
}

/// The ratios of figures of the same rounds.
pub(crate) fn ratios(ours: &[Measurement], theirs: &[Measurement]) -> Option<Summary> {
    let ratios: Vec<_> = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours.value / theirs.value)
        .collect();
    Summary::of(&ratios)
}

impl Report {
    pub(super) fn new(servers: &[Server], rounds: usize, quick: bool) -> Result<Self, Error> {
        let servers = servers
            .iter()
            .map(ServerLabel::of)
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            machine: Machine::here(),
            servers,
            rounds,
            quick,
            cases: Vec::new(),
        })
    }

    /// The text table.
    pub fn table(&self) -> String {
        let mut text = self.preamble();
        for case in &self.cases {
            let negotiated = case
                .first_negotiated()
                .map_or_else(String::new, |negotiated| format!(" [{negotiated}]"));
            let cores = match case.server_cpus.len() {
                1 => String::new(),
                count => format!(", {count} cores"),
            };
            let _ = writeln!(
                text,
                "\n{}: {}{cores}, {}{negotiated}",
                case.name, case.title, case.unit
            );
            for index in 0..self.servers.len() {
                text += &self.table_line(case, index);
            }
            text += &self.base_lines(case);
            for (server, obstacle) in self.servers.iter().zip(&case.obstacles) {
                if let Some(obstacle) = obstacle {
                    let _ = writeln!(text, "  {} is left out: {obstacle}", server.name);
                }
            }
        }
        text
    }

    /// The case that `case` is paired with, on the same cores, if it was measured.
    fn base_of(&self, case: &CaseResult) -> Option<&CaseResult> {
        let base = groups::pair_of(&case.name)?.base;
        let mut all = self.cases.iter();
        all.find(|other| other.name == base && other.server_cpus == case.server_cpus)
    }

    /// Each server's ratio to the case that this one is paired with.
    fn base_lines(&self, case: &CaseResult) -> String {
        let mut text = String::new();
        let Some(base) = self.base_of(case) else {
            return text;
        };
        for (index, server) in self.servers.iter().enumerate() {
            let Some(ratio) = case.ratio_to_base(base, index, server) else {
                continue;
            };
            let (name, base_name) = (&server.name, &base.name);
            let _ = write!(
                text,
                "  {name}: {} / {base_name}: {}",
                case.name,
                ratio_text(&ratio.summary)
            );
            if let Some((target, met)) = ratio.verdict {
                let _ = write!(text, ", target {target:.2}: {}", verdict(met));
            }
            let counts = (case.instructions[index], base.instructions[index]);
            if let (Some(ours), Some(theirs)) = counts {
                let _ = write!(text, ", instructions {:.2}", ours / theirs);
            }
            text.push('\n');
        }
        text
    }

    fn table_line(&self, case: &CaseResult, index: usize) -> String {
        let server = &self.servers[index];
        let Some(summary) = case.summary(index) else {
            return format!("  {:10} {:>9}\n", server.name, NO_FIGURE);
        };
        let mut line = format!(
            "  {:10} {:>9}  ({}..{}, IQR {})",
            server.name,
            number(summary.median),
            number(summary.min),
            number(summary.max),
            number(summary.interquartile_range()),
        );
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        let busy = case.median_of(index, |measurement| percent(measurement.busy));
        let user = case.median_of(index, Measurement::user);
        let system = case.median_of(index, Measurement::system);
        if let (Some(user), Some(system)) = (user, system) {
            let (user, system) = (number(user), number(system));
            let _ = write!(line, "  user {user}, system {system},");
        }
        if let Some(busy) = busy {
            let _ = write!(line, " core {busy:.0} % busy");
        }
        if let Some(rate) = case.median_of(index, |measurement| measurement.rate_per_s) {
            let _ = write!(line, ", {} /s", number(rate));
        }
        if groups::SCALE.contains(&case.name.as_ref())
            && let Some(memory) = case.median_of(index, |measurement| measurement.memory_kib)
        {
            let _ = write!(line, ", {} MiB", number(memory / 1024.0));
        }
        if let Some(hits) = case.median_of(index, |measurement| measurement.hits) {
            let _ = write!(line, ", {:.1} % hits", hits * 100.0);
        }
        let first = case.first_negotiated();
        if let Some(other) = case.negotiated(index).filter(|&other| Some(other) != first) {
            let _ = write!(line, ", {other}");
        }
        if let Some(count) = case.instructions[index] {
            let _ = write!(line, ", {} k instructions", number(count / 1e3));
        }
        for subject in self.subjects_against(index) {
            let ours = (subject, &self.servers[subject]);
            let Some(ratio) = case.ratio(ours, (index, server)) else {
                continue;
            };
            let _ = write!(
                line,
                "  | {} / {}: {}",
                ours.1.name,
                server.version,
                ratio_text(&ratio.summary)
            );
            let parts = (subject, index);
            let user = case.ratio_of(parts, Measurement::user);
            let system = case.ratio_of(parts, Measurement::system);
            if let (Some(user), Some(system)) = (user, system) {
                let _ = write!(line, ", user {user:.2}, system {system:.2}");
            }
            if let Some((target, met)) = ratio.verdict {
                let _ = write!(line, ", target {target:.2}: {}", verdict(met));
            }
            if let (Some(ours), Some(theirs)) =
                (case.instructions[subject], case.instructions[index])
            {
                let _ = write!(line, ", instructions {:.2}", ours / theirs);
            }
        }
        line.push('\n');
        line
    }

    /// The servers that are compared with `peer`: the first, and all of Sealane if the peer is
    /// something else.
    fn subjects_against(&self, peer: usize) -> Vec<usize> {
        let is_subject = |&index: &usize| {
            let others = self.servers[index].is_sealane() && !self.servers[peer].is_sealane();
            index != peer && peer > 0 && (index == 0 || others)
        };
        (0..self.servers.len()).filter(is_subject).collect()
    }

    fn preamble(&self) -> String {
        let machine = &self.machine;
        let mut divisions: Vec<_> = self.cases.iter().map(|case| &case.server_cpus).collect();
        divisions.sort_by_key(|cpus| cpus.len());
        divisions.dedup();
        let cores = divisions.iter().map(|cpus| match cpus.as_slice() {
            [cpu] => format!("one worker on core {cpu}"),
            cpus => format!("{} workers on cores {cpus:?}", cpus.len()),
        });
        let mut text = format!(
            "{}, {} cores, Linux {}; servers {}; {} interleaved rounds{}\n",
            machine.cpu,
            machine.cores,
            machine.kernel,
            cores.collect::<Vec<_>>().join(", and "),
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
        text += "server CPU per operation, median (min..max, interquartile range)\n";
        text
    }

    /// One Markdown table per peer, for docs/performance.md; for a single server one table of its
    /// figures.
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
                let (median, spread) = figures(case.summary(0));
                let _ = writeln!(
                    text,
                    "| {} | {} | {median} | {spread} |",
                    case.title, case.unit
                );
            }
            text += &self.notes(&[0]);
        }
        text += &self.base_table();
        for (index, peer) in self.servers.iter().enumerate().skip(1) {
            for subject in self.subjects_against(index) {
                let ours = &self.servers[subject];
                let _ = writeln!(
                    text,
                    "\n| case | cores | unit | {} | spread | {} | spread | ratio (range) | user | system | target |\n|---|---|---|---|---|---|---|---|---|---|---|",
                    heading(ours),
                    heading(peer)
                );
                for case in &self.cases {
                    text += &markdown_line(case, (subject, ours), (index, peer));
                }
                text += &self.notes(&[subject, index]);
            }
        }
        text
    }

    /// A Markdown table of the cases that are paired with others, for every server.
    fn base_table(&self) -> String {
        let mut lines = String::new();
        for case in &self.cases {
            let Some(base) = self.base_of(case) else {
                continue;
            };
            for (index, server) in self.servers.iter().enumerate() {
                let Some(ratio) = case.ratio_to_base(base, index, server) else {
                    continue;
                };
                let target = ratio.verdict.map_or_else(String::new, |(target, met)| {
                    format!("{target:.2}: {}", verdict(met))
                });
                let _ = writeln!(
                    lines,
                    "| {} | {} | {} | {} | {} | {target} |",
                    case.title,
                    base.title,
                    case.server_cpus.len(),
                    heading(server),
                    ratio_text(&ratio.summary)
                );
            }
        }
        match lines.is_empty() {
            true => lines,
            false => format!(
                "\n| case | compared with | cores | server | ratio (range) | target |\n|---|---|---|---|---|---|\n{lines}"
            ),
        }
    }

    /// What a table of `servers` needs to be read: which figures are missing and why, and where the
    /// second server negotiated something else than the first.
    fn notes(&self, servers: &[usize]) -> String {
        let mut notes = String::new();
        for case in &self.cases {
            let name = |server: usize| &self.servers[server].name;
            for &server in servers {
                if let Some(obstacle) = &case.obstacles[server] {
                    let name = name(server);
                    let _ = writeln!(notes, "- {}: {name} is left out: {obstacle}", case.title);
                }
            }
            for &server in servers {
                // All or none are in the title.
                let hits = case.median_of(server, |measurement| measurement.hits);
                if let Some(hits) = hits.filter(|hits| *hits > 0.0 && *hits < 1.0) {
                    let percent = hits * 100.0;
                    let name = name(server);
                    let _ = writeln!(notes, "- {}: {name} has {percent:.1} % hits", case.title);
                }
            }
            if let &[ours, theirs] = servers
                && let Some(our_choice) = case.negotiated(ours)
                && let Some(their_choice) = case.negotiated(theirs)
                && our_choice != their_choice
            {
                let (ours, theirs) = (name(ours), name(theirs));
                let _ = writeln!(
                    notes,
                    "- {}: {ours} negotiated {our_choice}, {theirs} {their_choice}",
                    case.title
                );
            }
        }
        match notes.is_empty() {
            true => notes,
            false => format!("\n{notes}"),
        }
    }

    /// All measurements as JSON.
    pub fn json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and there are none.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The place of a figure that was not measured.
const NO_FIGURE: &str = "-";

/// The heading of a server's column.
fn heading(server: &ServerLabel) -> String {
    match server.is_as_it_comes() {
        true => server.version.clone(),
        false => format!("{} ({})", server.version, server.name),
    }
}

fn markdown_line(
    case: &CaseResult,
    ours: (usize, &ServerLabel),
    theirs: (usize, &ServerLabel),
) -> String {
    let ratio = case.ratio(ours, theirs);
    let judged = ratio.as_ref().and_then(|ratio| ratio.verdict);
    let target = judged.map_or_else(String::new, |(target, met)| {
        format!("{target:.2}: {}", verdict(met))
    });
    let ratio = ratio.map_or(NO_FIGURE.into(), |ratio| ratio_text(&ratio.summary));
    let part = |part: fn(&Measurement) -> Option<f64>| {
        let ratio = case.ratio_of((ours.0, theirs.0), part);
        ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
    };
    let (our_median, our_spread) = figures(case.summary(ours.0));
    let (their_median, their_spread) = figures(case.summary(theirs.0));
    format!(
        "| {} | {} | {} | {our_median} | {our_spread} | {their_median} | {their_spread} | {ratio} | {} | {} | {target} |\n",
        case.title,
        case.server_cpus.len(),
        case.unit,
        part(Measurement::user),
        part(Measurement::system),
    )
}

/// Median and spread of a server in a case.
fn figures(summary: Option<Summary>) -> (String, String) {
    match summary {
        Some(summary) => (number(summary.median), spread(&summary)),
        None => (NO_FIGURE.into(), NO_FIGURE.into()),
    }
}
