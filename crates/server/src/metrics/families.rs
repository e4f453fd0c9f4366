//! The list of metrics, and its formats.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use sealane_counters::{BUCKET_BOUNDS, HistogramValues};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Prefix of every name.
const PREFIX: &str = "sealane";

/// The value of a label. Most are shared with the configuration.
pub(super) type LabelValue = Arc<str>;

/// Metrics of all kinds, in the order in which they were added.
#[derive(Default)]
pub struct Families(Vec<Family>);

/// One metric, with a sample for each combination of its labels' values.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: Kind,
    labels: &'static [&'static str],
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

struct Sample {
    labels: SmallVec<[LabelValue; 2]>,
    value: Value,
}

/// The value of a sample.
enum Value {
    Count(u64),
    Number(f64),
    Times(Box<HistogramValues>),
    /// Upper bounds with counts (not cumulative), and the sum.
    Sizes(Box<[(f64, u64)]>, f64),
}

impl Families {
    /// Adds a number that only grows; its name gets `_total` where the format wants that.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.add(name, help, Kind::Counter)
    }

    /// Adds a number that also falls.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.add(name, help, Kind::Gauge)
    }

    /// Adds durations by size, in seconds.
    pub(super) fn times(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.add(name, help, Kind::Histogram).in_unit(Unit::Seconds)
    }

    /// Adds other sizes.
    pub(super) fn sizes(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.add(name, help, Kind::Histogram)
    }

    fn add(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Family {
        self.0.push(Family {
            name,
            help,
            unit: None,
            kind,
            labels: &[],
            samples: Vec::new(),
        });
        self.0.last_mut().expect("it was pushed just now")
    }

    /// Prometheus' text format 0.0.4, for those who do not ask for OpenMetrics: there `_total` is
    /// a part of a counter's name, and units and the end are not marked.
    pub fn classic_text(self) -> String {
        let counters = self.0.iter().filter(|family| family.kind == Kind::Counter);
        let counters: HashSet<String> = counters.map(Family::full_name).collect();
        let mut text = String::new();
        for line in self.text().lines() {
            let mut words = line.splitn(4, ' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("#"), Some("EOF"), ..) | (Some("#"), Some("UNIT"), ..) => continue,
                (Some("#"), Some(what), Some(name), Some(rest)) => {
                    let total = if counters.contains(name) {
                        "_total"
                    } else {
                        ""
                    };
                    text.push_str(&format!("# {what} {name}{total} {rest}"));
                }
                _ => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }

    /// OpenMetrics' text format.
    ///
    /// # Panics
    /// Never: a string can always be written to.
    pub fn text(self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing to a string does not fail");
        text
    }

    /// JSON: an object with a member for each metric. Samples are arrays with the values of the
    /// labels and the value; a histogram's value is `[count, sum, [buckets]]`, where the buckets
    /// are not cumulative and have the upper bounds of `bounds`, and the last none.
    ///
    /// # Panics
    /// Never: nothing in it cannot be JSON.
    pub fn json(&self, now_s: f64) -> String {
        let answer = Answer {
            time: now_s,
            bounds: BUCKET_BOUNDS.map(|bound| bound.as_secs_f64()),
            families: self,
        };
        serde_json::to_string(&answer).expect("strings and numbers")
    }
}

#[derive(serde::Serialize)]
struct Answer<'a> {
    time: f64,
    bounds: [f64; BUCKET_BOUNDS.len()],
    families: &'a Families,
}

impl Family {
    /// Sets the unit, which ends the name.
    pub(super) fn in_unit(&mut self, unit: Unit) -> &mut Family {
        self.unit = Some(unit);
        self
    }

    /// Sets the names of the labels.
    pub(super) fn by(&mut self, labels: &'static [&'static str]) -> &mut Family {
        self.labels = labels;
        self
    }

    /// Adds the only sample of a metric without labels.
    pub(super) fn is(&mut self, count: u64) {
        self.push(&[], Value::Count(count));
    }

    /// The same with durations.
    pub(super) fn is_times(&mut self, times: HistogramValues) {
        self.push(&[], Value::Times(Box::new(times)));
    }

    /// The same with other sizes: upper bounds with counts, and the sum.
    pub(super) fn is_sizes(&mut self, counts: Vec<(f64, u64)>, sum: f64) {
        self.push(&[], Value::Sizes(counts.into(), sum));
    }

    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: &[&LabelValue], count: u64) {
        self.push(labels, Value::Count(count));
    }

    /// Adds a sample with a fraction.
    pub(super) fn number(&mut self, labels: &[&LabelValue], number: f64) {
        self.push(labels, Value::Number(number));
    }

    /// Adds a sample with durations.
    pub(super) fn times(&mut self, labels: &[&LabelValue], times: HistogramValues) {
        self.push(labels, Value::Times(Box::new(times)));
    }

    /// Adds a sample for each value of a label.
    pub(super) fn each(&mut self, samples: impl IntoIterator<Item = (&'static str, u64)>) {
        for (value, count) in samples {
            self.sample(&[&value.into()], count);
        }
    }

    fn push(&mut self, labels: &[&LabelValue], value: Value) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        self.samples.push(Sample {
            labels: labels.iter().map(|value| Arc::clone(value)).collect(),
            value,
        });
    }

    /// The name with its unit, as the format has it.
    fn full_name(&self) -> String {
        match &self.unit {
            None => format!("{PREFIX}_{}", self.name),
            Some(unit) => format!("{PREFIX}_{}_{}", self.name, unit.as_str()),
        }
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            // A metric that nothing has is left out.
            if family.samples.is_empty() {
                continue;
            }
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let unit = family.unit.as_ref();
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit, kind)?;
            if let ([], [sample]) = (family.labels, &family.samples[..]) {
                encode(&sample.value, family.kind, metric)?;
                continue;
            }
            for sample in &family.samples {
                let names = family.labels.iter();
                let labels: SmallVec<[(&str, &str); 3]> = names
                    .zip(&sample.labels)
                    .map(|(name, value)| (*name, &**value))
                    .collect();
                let labels = &labels[..];
                encode(&sample.value, family.kind, metric.encode_family(&labels)?)?;
            }
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
            let buckets: Vec<(f64, u64)> =
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

impl Serialize for Families {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let present = || self.0.iter().filter(|family| !family.samples.is_empty());
        let mut map = serializer.serialize_map(Some(present().count()))?;
        for family in present() {
            map.serialize_entry(&family.full_name(), family)?;
        }
        map.end()
    }
}

impl Serialize for Family {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("type", kind)?;
        map.serialize_entry("labels", self.labels)?;
        map.serialize_entry("samples", &self.samples)?;
        map.end()
    }
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_seq(Some(self.labels.len() + 1))?;
        for value in &self.labels {
            row.serialize_element(&**value)?;
        }
        match &self.value {
            Value::Count(count) => row.serialize_element(count)?,
            Value::Number(number) => row.serialize_element(number)?,
            Value::Times(times) => row.serialize_element(&(
                times.count(),
                times.sum.as_secs_f64(),
                &times.buckets[..],
            ))?,
            Value::Sizes(counts, sum) => {
                let count: u64 = counts.iter().map(|(_, count)| count).sum();
                row.serialize_element(&(count, sum, counts))?;
            }
        }
        row.end()
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|family| family.name))
            .finish()
    }
}
