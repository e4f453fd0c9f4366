//! The formats that scrapers read: OpenMetrics 1.0, and Prometheus' text format 0.0.4.

use super::families::{Families, Family, Kind, Label, Sample, Value};
use sealane_counters::BUCKET_BOUNDS;
use std::fmt::{Display, Write};

/// About as many bytes are reserved for a line, beside its name and labels.
const LINE_BYTES: usize = 48;

/// Which of the two; they differ in what is said about a metric, not in its samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    OpenMetrics,
    /// `_total` is a part of a counter's name, and units and the end are not marked.
    Classic,
}

impl Families<'_> {
    /// OpenMetrics' text format.
    pub fn text(&self) -> String {
        let mut text = self.written(Format::OpenMetrics);
        text.push_str("# EOF\n");
        text
    }

    /// Prometheus' text format 0.0.4, for those who do not ask for OpenMetrics.
    pub fn classic_text(&self) -> String {
        self.written(Format::Classic)
    }

    fn written(&self, format: Format) -> String {
        let bounds = BUCKET_BOUNDS.map(|bound| decimal(bound.as_secs_f64()));
        let mut out = Exposition {
            text: String::with_capacity(self.present().map(room).sum()),
            labels: String::new(),
            bounds: &bounds,
        };
        for family in self.present() {
            out.family(family, format);
        }
        out.text
    }
}

/// About as much as the lines of a metric take.
fn room(family: &Family<'_>) -> usize {
    let lines = |sample: &Sample<'_>| match &sample.value {
        Value::Count(_) | Value::Number(_) => 1,
        Value::Times(times) => times.buckets.len() + 2,
        Value::Sizes(counts, _) => counts.len() + 3,
    };
    let name = family.full_name().len();
    let bytes = |sample: &Sample<'_>| {
        let labels = family.labels.iter().map(|name| name.len());
        let values = sample.labels.iter().map(|label| match label {
            Label::Text(text) => text.len(),
            Label::Shared(text) => text.len(),
            Label::Status(_) => 3,
        });
        lines(sample) * (LINE_BYTES + name + labels.chain(values).sum::<usize>())
    };
    4 * name + family.help.len() + 64 + family.samples.iter().map(bytes).sum::<usize>()
}

/// A text that is being written.
struct Exposition<'b> {
    text: String,
    /// Those of the sample at hand, as they are written in each of its lines.
    labels: String,
    /// The bounds of histograms.
    bounds: &'b [String],
}

impl Exposition<'_> {
    fn family(&mut self, family: &Family<'_>, format: Format) {
        let name = family.full_name();
        let ending = match family.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        let shown = match format {
            Format::OpenMetrics => "",
            Format::Classic => ending,
        };
        let kind = family.kind.name();
        self.line(format_args!("# HELP {name}{shown} {}", family.help));
        self.line(format_args!("# TYPE {name}{shown} {kind}"));
        if let (Some(unit), Format::OpenMetrics) = (family.unit, format) {
            self.line(format_args!("# UNIT {name} {}", unit.name()));
        }
        for sample in &family.samples {
            self.labels.clear();
            for (label, value) in family.labels.iter().zip(&sample.labels) {
                if !self.labels.is_empty() {
                    self.labels.push(',');
                }
                push_label(&mut self.labels, label, value);
            }
            self.sample(&name, ending, &sample.value);
        }
    }

    fn sample(&mut self, name: &str, ending: &str, value: &Value) {
        match value {
            Value::Count(count) => self.number(name, ending, None, count),
            Value::Number(number) => self.number(name, ending, None, decimal(*number)),
            Value::Times(times) => {
                let bounds = self.bounds.iter().map(String::as_str);
                let buckets = bounds.chain(["+Inf"]).zip(times.buckets);
                self.histogram(name, times.count(), times.sum.as_secs_f64(), buckets);
            }
            Value::Sizes(counts, sum) => {
                let count = counts.iter().map(|(_, count)| count).sum();
                let bounds: Vec<String> = counts.iter().map(|(bound, _)| decimal(*bound)).collect();
                let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
                let buckets = bounds.zip(counts.iter().map(|(_, count)| *count).chain([0]));
                self.histogram(name, count, *sum, buckets);
            }
        }
    }

    /// Buckets are cumulative here.
    fn histogram<'s>(
        &mut self,
        name: &str,
        count: u64,
        sum: f64,
        buckets: impl Iterator<Item = (&'s str, u64)>,
    ) {
        self.number(name, "_sum", None, decimal(sum));
        self.number(name, "_count", None, count);
        let mut so_far = 0;
        for (bound, count) in buckets {
            so_far += count;
            self.number(name, "_bucket", Some(bound), so_far);
        }
    }

    fn number(&mut self, name: &str, ending: &str, bound: Option<&str>, number: impl Display) {
        let out = &mut self.text;
        out.push_str(name);
        out.push_str(ending);
        match (bound, self.labels.as_str()) {
            (None, "") => {}
            (None, labels) => {
                out.push('{');
                out.push_str(labels);
                out.push('}');
            }
            (Some(bound), labels) => {
                out.push_str("{le=\"");
                out.push_str(bound);
                out.push('"');
                if !labels.is_empty() {
                    out.push(',');
                    out.push_str(labels);
                }
                out.push('}');
            }
        }
        out.push(' ');
        self.line(number);
    }

    fn line(&mut self, what: impl Display) {
        writeln!(self.text, "{what}").expect("writing to a string does not fail");
    }
}

fn push_label(out: &mut String, name: &str, value: &Label<'_>) {
    out.push_str(name);
    out.push_str("=\"");
    match value {
        Label::Text(text) => push_escaped(out, text),
        Label::Shared(text) => push_escaped(out, text),
        Label::Status(status) => {
            write!(out, "{status}").expect("writing to a string does not fail");
        }
    }
    out.push('"');
}

/// A value as it stands between quotation marks.
fn push_escaped(out: &mut String, text: &str) {
    for piece in text.split_inclusive(['\\', '"', '\n']) {
        let (rest, escaped) = match piece.as_bytes().last() {
            Some(b'\\') => (&piece[..piece.len() - 1], "\\\\"),
            Some(b'"') => (&piece[..piece.len() - 1], "\\\""),
            Some(b'\n') => (&piece[..piece.len() - 1], "\\n"),
            _ => (piece, ""),
        };
        out.push_str(rest);
        out.push_str(escaped);
    }
}

/// A number with a decimal point, as other exporters write it.
fn decimal(number: f64) -> String {
    match number.fract() == 0.0 {
        true => format!("{number}.0"),
        false => format!("{number}"),
    }
}
