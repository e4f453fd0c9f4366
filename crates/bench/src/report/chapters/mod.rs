//! What each chapter of the page says about its measurements.

mod memory;
mod s1;
mod s2;
mod s3;
mod scale;
pub(super) mod storm;

use crate::{
    Summary,
    compare::{self, CaseResult, Measurement, ratios},
    report::{
        Chapter,
        run::{WITH_KERNEL_TLS, WITHOUT_OFFLOAD},
        saved::{Measured, Recorded, Saved},
        section::{Bar, Cell, Colour, Section, Table, range},
    },
    testbed::{ServerLabel, number},
};

/// Why there is no figure although nothing has failed.
const ENDED: &str = "not measured: the run was ended before";

/// The contents of a chapter; nothing if nothing was measured.
pub(super) fn section(saved: &Saved, measured: &Measured) -> Option<Section> {
    let figures = match &measured.outcome {
        Recorded::Comparison(report) => Figures { saved, report },
        Recorded::Storm(report) => return Some(storm::section(saved, report)),
        Recorded::Nothing(_) => return None,
    };
    Some(match measured.chapter {
        Chapter::S1 => s1::section(&figures),
        Chapter::S2 => s2::section(&figures),
        Chapter::S3 => s3::section(&figures),
        Chapter::Memory => memory::section(&figures),
        Chapter::Scale => scale::section(&figures),
        // A comparison where a storm belongs is a file that somebody has edited.
        Chapter::Storm => return None,
    })
}

/// A comparison, with what is needed to show it.
pub(super) struct Figures<'a> {
    pub(super) saved: &'a Saved,
    pub(super) report: &'a compare::Report,
}

impl Figures<'_> {
    fn servers(&self) -> &[ServerLabel] {
        &self.report.servers
    }

    /// Names of the servers as headings.
    fn headings(&self, before: &[&str], of_server: &str) -> Vec<String> {
        let before = before.iter().map(|&heading| heading.to_owned());
        let servers = self.servers().iter();
        let servers = servers.map(|server| format!("{}{of_server}", server.name));
        before.chain(servers).collect()
    }

    /// The measurements of a case on the fewest cores.
    fn case(&self, name: &str) -> Option<&CaseResult> {
        self.report.cases.iter().find(|case| case.name == name)
    }

    /// The measurements of a case, for each number of cores.
    fn on_all_cores(&self, name: &str) -> Vec<&CaseResult> {
        let cases = self.report.cases.iter();
        cases.filter(|case| case.name == name).collect()
    }

    /// A figure of a server in a case, or why there is none.
    fn of(
        &self,
        case: &str,
        server: usize,
        field: fn(&Measurement) -> Option<f64>,
    ) -> Result<Summary, String> {
        let case = self.case(case).ok_or_else(|| ENDED.to_owned())?;
        summary(case, server, field)
    }

    /// How many times better `better` is than `base`, by server CPU per operation, within rounds.
    pub(super) fn gain(
        &self,
        base: (&str, usize),
        better: (&str, usize),
    ) -> Result<Summary, String> {
        let measured = |(case, server): (&str, usize)| {
            let case = self.case(case).ok_or_else(|| ENDED.to_owned())?;
            missing(case, server).map_or(Ok(&case.measurements[server]), Err)
        };
        ratios(measured(base)?, measured(better)?).ok_or_else(|| ENDED.to_owned())
    }

    fn bar(
        &self,
        case: &str,
        server: usize,
        field: fn(&Measurement) -> Option<f64>,
        with_parts: bool,
    ) -> Bar {
        let share = |case| median(case, server, |measurement| measurement.system_share);
        let label = &self.servers()[server];
        Bar {
            label: label.name.clone(),
            colour: colour(self.saved, &label.name),
            value: self.of(case, server, field),
            system_share: self.case(case).filter(|_| with_parts).and_then(share),
        }
    }

    /// A bar for each server.
    fn bars(
        &self,
        case: &str,
        field: fn(&Measurement) -> Option<f64>,
        with_parts: bool,
    ) -> Vec<Bar> {
        let servers = 0..self.servers().len();
        servers
            .map(|server| self.bar(case, server, field, with_parts))
            .collect()
    }

    /// Everything that was measured.
    fn details(&self) -> Table {
        let headings = [
            "case",
            "cores",
            "server",
            "unit",
            "median (range)",
            "quartiles",
            "user",
            "system",
            "operations/s",
            "cores busy",
            "memory, MiB",
            "negotiated",
        ];
        let mut rows = Vec::new();
        for case in &self.report.cases {
            for (index, server) in self.servers().iter().enumerate() {
                rows.push(detail_row(case, index, &server.name));
            }
        }
        Table {
            caption: "Everything that was measured, by server CPU or memory for an operation"
                .into(),
            headings: headings.map(str::to_owned).to_vec(),
            rows,
        }
    }
}

fn detail_row(case: &CaseResult, server: usize, name: &str) -> Vec<Cell> {
    let value = summary(case, server, value);
    let mut row = vec![
        Cell::text(case.title.as_ref()),
        Cell::figure(case.server_cpus.len().to_string()),
        Cell::text(name),
        Cell::text(match case.unit.as_ref() {
            "us" => "µs",
            unit => unit,
        }),
        Cell::summary(&value, number),
    ];
    let Ok(value) = value else {
        return row;
    };
    let of = |field: fn(&Measurement) -> Option<f64>| median(case, server, field);
    let negotiated = case.measurements[server].first();
    let negotiated = negotiated.and_then(|measurement| measurement.negotiated.as_ref());
    row.extend([
        Cell::figure(format!("{}–{}", number(value.q1), number(value.q3))),
        Cell::optional(of(Measurement::user)),
        Cell::optional(of(Measurement::system)),
        Cell::optional(of(rate)),
        Cell::optional(of(|measurement| measurement.busy)),
        Cell::optional(of(|measurement| {
            measurement.memory_kib.map(|kib| kib / 1024.0)
        })),
        Cell::text(negotiated.map_or_else(String::new, ToString::to_string)),
    ]);
    row
}

/// The case's own figure.
#[expect(
    clippy::unnecessary_wraps,
    reason = "one of several fields, and others may be missing"
)]
fn value(measurement: &Measurement) -> Option<f64> {
    Some(measurement.value)
}

/// Operations for a second of server CPU, which is what a busy core does in a second; in cases that
/// count microseconds. Unlike the rate it does not depend on who else uses the machine.
fn per_cpu_second(measurement: &Measurement) -> Option<f64> {
    Some(1e6 / measurement.value)
}

/// Operations per second.
fn rate(measurement: &Measurement) -> Option<f64> {
    measurement.rate_per_s
}

/// Why there is no figure of a server in a case, if there is none.
fn missing(case: &CaseResult, server: usize) -> Option<String> {
    if let Some(obstacle) = &case.obstacles[server] {
        return Some(format!("left out: {obstacle}"));
    }
    if let Some(reason) = &case.failures[server] {
        return Some(format!("failed: {reason}"));
    }
    case.measurements[server].is_empty().then(|| ENDED.into())
}

fn summary(
    case: &CaseResult,
    server: usize,
    field: fn(&Measurement) -> Option<f64>,
) -> Result<Summary, String> {
    if let Some(reason) = missing(case, server) {
        return Err(reason);
    }
    let values: Vec<_> = case.measurements[server].iter().filter_map(field).collect();
    Summary::of(&values).ok_or_else(|| "not measured in this case".into())
}

fn median(case: &CaseResult, server: usize, field: fn(&Measurement) -> Option<f64>) -> Option<f64> {
    let summary = summary(case, server, field);
    summary.ok().map(|summary| summary.median)
}

/// The colour of a server: that of the one of which it is a variant.
pub(super) fn colour(saved: &Saved, name: &str) -> Colour {
    let position = |name: &str| saved.servers.iter().position(|server| server.name == name);
    if let Some(index) = position(name) {
        let is_variant = false;
        return Colour::Server { index, is_variant };
    }
    let base = [WITH_KERNEL_TLS, WITHOUT_OFFLOAD]
        .into_iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    Colour::Server {
        index: base.and_then(position).unwrap_or(0),
        is_variant: true,
    }
}

/// A factor and its range: "1.87 (1.80–1.91)".
pub(super) fn factor_text(factor: &Summary) -> String {
    let two_digits = |value: f64| format!("{value:.2}");
    format!("{:.2} ({})", factor.median, range(factor, two_digits))
}
