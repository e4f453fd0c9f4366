//! The formats that scrapers read: OpenMetrics 1.0, by `prometheus-client`, and from it Prometheus'
//! text format 0.0.4.

use super::families::{Families, Family, Kind, Label, PREFIX, Unit, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{self, Registry};
use sealane_counters::BUCKET_BOUNDS;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// About as many bytes are reserved for a line, beside its name and labels.
const LINE_BYTES: usize = 48;
/// Why text can be written.
const WRITABLE: &str = "writing to a string does not fail";

impl Families<'_> {
    /// OpenMetrics' text format.
    ///
    /// # Panics
    /// Never: a string can always be written to.
    pub fn text(self) -> String {
        let mut text = String::with_capacity(self.room());
        for family in self.into_present() {
            write(&mut text, family);
        }
        text::encode_eof(&mut text).expect(WRITABLE);
        text
    }

    /// Prometheus' text format 0.0.4, for those who do not ask for OpenMetrics: there `_total` is
    /// a part of a counter's name, and units and the end are not marked.
    pub fn classic_text(self) -> String {
        let mut text = String::with_capacity(self.room());
        let mut lines = String::new();
        for family in self.into_present() {
            let ending = match family.kind {
                Kind::Counter => "_total",
                Kind::Gauge | Kind::Histogram => "",
            };
            lines.clear();
            write(&mut lines, family);
            for line in lines.split_inclusive('\n') {
                let Some(remark) = line.strip_prefix("# ") else {
                    text.push_str(line);
                    continue;
                };
                let mut words = remark.splitn(3, ' ');
                if let (Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) =
                    (words.next(), words.next(), words.next())
                {
                    for part in ["# ", what, " ", name, ending, " ", rest] {
                        text.push_str(part);
                    }
                }
            }
        }
        text
    }

    /// About as much as the text takes.
    fn room(&self) -> usize {
        self.present().map(room).sum()
    }
}

/// Adds the lines of a metric. Each uses the memory of the one before.
fn write(text: &mut String, family: Family<'_>) {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Exposed::of(family)));
    text::encode_registry(text, &registry).expect(WRITABLE);
}

/// About as much as the lines of a metric take.
fn room(family: &Family<'_>) -> usize {
    let name = family.full_name().len();
    let samples = family.samples.iter().map(|sample| {
        let lines = match &sample.value {
            Value::Count(_) | Value::Number(_) => 1,
            Value::Times(times) => times.buckets.len() + 2,
            Value::Sizes(counts, _) => counts.len() + 3,
        };
        let names = family.labels.iter().map(|name| name.len());
        let values = sample.labels.iter().map(|label| match label {
            Label::Text(text) => text.len(),
            Label::Shared(text) => text.len(),
            Label::Status(_) => 3,
        });
        lines * (LINE_BYTES + name + names.chain(values).sum::<usize>())
    });
    4 * name + family.help.len() + 64 + samples.sum::<usize>()
}

/// One metric with its samples, as the library takes it: it wants nothing that is borrowed.
#[derive(Debug)]
struct Exposed {
    name: &'static str,
    help: &'static str,
    unit: Option<registry::Unit>,
    kind: Kind,
    labels: &'static [&'static str],
    samples: Vec<(SmallVec<[Arc<str>; 3]>, Value)>,
}

impl Exposed {
    fn of(family: Family<'_>) -> Exposed {
        let samples = family.samples.into_iter().map(|sample| {
            let labels = sample.labels.into_iter().map(|label| match label {
                Label::Text(text) => Arc::from(text),
                Label::Shared(text) => text,
                Label::Status(status) => Arc::from(status.to_string()),
            });
            (labels.collect(), sample.value)
        });
        Exposed {
            name: family.name,
            help: family.help,
            unit: family.unit.map(|unit| match unit {
                Unit::Seconds => registry::Unit::Seconds,
                Unit::Bytes => registry::Unit::Bytes,
            }),
            kind: family.kind,
            labels: family.labels,
            samples: samples.collect(),
        }
    }
}

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let unit = self.unit.as_ref();
        let mut metric = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        if let ([], [(_, value)]) = (self.labels, &self.samples[..]) {
            return encode(value, self.kind, metric);
        }
        for (labels, value) in &self.samples {
            let labels = self.labels.iter().zip(labels);
            let labels: SmallVec<[(&str, &str); 3]> =
                labels.map(|(name, value)| (*name, &**value)).collect();
            let labels = &labels[..];
            encode(value, self.kind, metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn encode(value: &Value, kind: Kind, mut metric: MetricEncoder<'_>) -> Result<(), fmt::Error> {
    match (value, kind) {
        (Value::Count(count), Kind::Counter) => ConstCounter::<u64>::new(*count).encode(metric),
        (Value::Count(count), _) => ConstGauge::<u64>::new(*count).encode(metric),
        (Value::Number(number), Kind::Counter) => ConstCounter::<f64>::new(*number).encode(metric),
        (Value::Number(number), _) => ConstGauge::<f64>::new(*number).encode(metric),
        (Value::Times(times), _) => {
            let bounds = BUCKET_BOUNDS.iter().map(|bound| bound.as_secs_f64());
            let buckets: SmallVec<[(f64, u64); 32]> =
                bounds.chain([f64::INFINITY]).zip(times.buckets).collect();
            let sum = times.sum.as_secs_f64();
            metric.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)
        }
        (Value::Sizes(counts, sum), _) => {
            let buckets: Vec<(f64, u64)> =
                counts.iter().copied().chain([(f64::INFINITY, 0)]).collect();
            let count = counts.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(*sum, count, &buckets, None)
        }
    }
}
