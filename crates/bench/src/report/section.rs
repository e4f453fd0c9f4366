//! What a chapter of the page consists of, before it is HTML.

use crate::{Summary, testbed::number};

/// A chapter.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Paragraphs: what was published, and what is measured here.
    pub(super) paragraphs: Vec<String>,
    pub(super) claims: Vec<Claim>,
    pub(super) charts: Vec<Chart>,
    pub(super) tables: Vec<Table>,
}

/// Something that was published, and whether it was measured here.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) text: String,
    /// By which factor something is better.
    pub(super) published: f64,
    /// Who says so.
    pub(super) source: &'static str,
    pub(super) findings: Vec<Finding>,
}

/// What was measured of a claim.
#[derive(Debug)]
pub(super) struct Finding {
    /// The server, or the two that are compared.
    pub(super) subject: String,
    /// The factor, or why there is none.
    pub(super) factor: Result<Summary, String>,
}

/// Whether a claim was reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Reproduced,
    /// There is a gain, and it is smaller.
    Smaller,
    NotReproduced,
    NotMeasured,
}

/// What of a published factor must be reached, and what counts as a gain at all: the spread that
/// quiet machines have.
pub(super) const TOLERANCE: f64 = 0.05;

impl Finding {
    pub(super) fn judgement(&self, published: f64) -> Judgement {
        match &self.factor {
            Ok(factor) if factor.median >= published * (1.0 - TOLERANCE) => Judgement::Reproduced,
            Ok(factor) if factor.median > 1.0 + TOLERANCE => Judgement::Smaller,
            Ok(_) => Judgement::NotReproduced,
            Err(_) => Judgement::NotMeasured,
        }
    }
}

/// A table with one row of headings.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    /// A figure, and its range if it has one.
    Figure(String, Option<String>),
    /// No figure, and why.
    Missing(String),
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn figure(text: impl Into<String>) -> Self {
        Self::Figure(text.into(), None)
    }

    /// A part of a figure that may not exist.
    pub(super) fn optional(value: Option<f64>) -> Self {
        value.map_or_else(|| Self::text("–"), |value| Self::figure(number(value)))
    }

    /// Median and range, or why there is none.
    pub(super) fn summary(value: &Result<Summary, String>, format: fn(f64) -> String) -> Self {
        match value {
            Ok(summary) => Self::Figure(format(summary.median), Some(range(summary, format))),
            Err(reason) => Self::Missing(reason.clone()),
        }
    }
}

/// "9.26–10.4"
pub(super) fn range(summary: &Summary, format: fn(f64) -> String) -> String {
    format!("{}–{}", format(summary.min), format(summary.max))
}

/// A whole number with separators: "62,149".
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Bars by group.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// What the bars are, and which ones are better.
    pub(super) legend: String,
    /// Titles with their bars.
    pub(super) groups: Vec<(String, Vec<Bar>)>,
    pub(super) format: fn(f64) -> String,
    /// The figure that is as long as the chart is wide, unless there is a larger one; without it,
    /// the largest one is.
    pub(super) whole: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) colour: Colour,
    /// The figure, or why there is none.
    pub(super) value: Result<Summary, String>,
    /// The share of it that is system time.
    pub(super) system_share: Option<f64>,
}

/// The colour of a bar: one for each server, in all charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Published,
    Server {
        index: usize,
        /// With other settings than the server of that number.
        is_variant: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgements() {
        let judge = |factor: f64, published| {
            let factor = Ok(Summary::of(&[factor]).expect("a number"));
            let subject = String::new();
            Finding { subject, factor }.judgement(published)
        };
        assert_eq!(judge(1.9, 2.0), Judgement::Reproduced);
        assert_eq!(judge(1.89, 2.0), Judgement::Smaller);
        assert_eq!(judge(1.05, 2.0), Judgement::NotReproduced);
        assert_eq!(judge(0.5, 2.0), Judgement::NotReproduced);
        // Something that must not cost anything.
        assert_eq!(judge(0.96, 1.0), Judgement::Reproduced);
        assert_eq!(judge(0.94, 1.0), Judgement::NotReproduced);
        let finding = Finding {
            subject: String::new(),
            factor: Err("no kernel TLS".into()),
        };
        assert_eq!(finding.judgement(1.0), Judgement::NotMeasured);
    }

    #[test]
    fn whole_numbers_have_separators() {
        let each = [0.4, 999.0, 1000.0, 62_148.92, 1_234_567.0, -1500.0].map(thousands);
        assert_eq!(each, ["0", "999", "1,000", "62,149", "1,234,567", "-1,500"]);
    }
}
