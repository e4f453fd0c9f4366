//! The list of metrics.
//!
//! It borrows its labels from the configuration, and is written as it stands: an answer for a
//! thousand servers is a matter of milliseconds. [`text`](super::text) has the formats that
//! scrapers read; the JSON is made here.

use sealane_counters::{BUCKET_BOUNDS, HistogramValues, StatusLabel};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Prefix of every name.
pub(super) const PREFIX: &str = "sealane";

/// Metrics of all kinds, in the order in which they were added.
#[derive(Default)]
pub struct Families<'a>(Vec<Family<'a>>);

/// One metric, with a sample for each combination of its labels' values.
pub(super) struct Family<'a> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) samples: Vec<Sample<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The unit of a metric, which ends its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
}

pub(super) struct Sample<'a> {
    pub(super) labels: Labels<'a>,
    pub(super) value: Value,
}

/// The values of a sample's labels.
pub(super) type Labels<'a> = SmallVec<[Label<'a>; 3]>;

/// The value of a label.
#[derive(Clone)]
pub(super) enum Label<'a> {
    /// Of the configuration, or of a list in the code.
    Text(&'a str),
    /// Of what may go while it is shown.
    Shared(Arc<str>),
    /// A status.
    Status(StatusLabel),
}

/// The value of a sample.
#[derive(Debug)]
pub(super) enum Value {
    Count(u64),
    Number(f64),
    Times(Box<HistogramValues>),
    /// Upper bounds with counts (not cumulative), and the sum.
    Sizes(Box<[(f64, u64)]>, f64),
}

/// One metric of many things of a kind, such as servers or peers: a row of a table.
pub(super) struct Row<I: ?Sized> {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    read: Read<I>,
}

/// How a metric is read from a thing.
enum Read<I: ?Sized> {
    /// A number that only grows.
    Counter(fn(&I) -> u64),
    /// A number that also falls, where the thing has it.
    Gauge(fn(&I) -> Option<u64>),
    /// Durations, if there were any.
    Times(fn(&I) -> HistogramValues),
}

impl Unit {
    /// The end of a name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
        }
    }
}

impl Kind {
    /// The word for it, in all formats.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

impl<I: ?Sized> Row<I> {
    /// A number that only grows.
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        read: fn(&I) -> u64,
    ) -> Row<I> {
        Row::of(name, help, None, Read::Counter(read))
    }

    /// Bytes, of which there are ever more.
    pub(super) const fn bytes(
        name: &'static str,
        help: &'static str,
        read: fn(&I) -> u64,
    ) -> Row<I> {
        Row::of(name, help, Some(Unit::Bytes), Read::Counter(read))
    }

    /// A number that also falls, where the thing has it.
    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        read: fn(&I) -> Option<u64>,
    ) -> Row<I> {
        Row::of(name, help, None, Read::Gauge(read))
    }

    /// Bytes, of which there may be fewer later.
    pub(super) const fn gauge_bytes(
        name: &'static str,
        help: &'static str,
        read: fn(&I) -> Option<u64>,
    ) -> Row<I> {
        Row::of(name, help, Some(Unit::Bytes), Read::Gauge(read))
    }

    /// Durations, if there were any.
    pub(super) const fn times(
        name: &'static str,
        help: &'static str,
        read: fn(&I) -> HistogramValues,
    ) -> Row<I> {
        Row::of(name, help, Some(Unit::Seconds), Read::Times(read))
    }

    const fn of(
        name: &'static str,
        help: &'static str,
        unit: Option<Unit>,
        read: Read<I>,
    ) -> Row<I> {
        Row {
            name,
            help,
            unit,
            read,
        }
    }
}

impl<'a> Families<'a> {
    /// Adds a number that only grows; its name gets `_total` where the format wants that.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family<'a> {
        self.add(name, help, Kind::Counter)
    }

    /// Adds a number that also falls.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family<'a> {
        self.add(name, help, Kind::Gauge)
    }

    /// Adds durations by size, in seconds.
    pub(super) fn times(&mut self, name: &'static str, help: &'static str) -> &mut Family<'a> {
        self.add(name, help, Kind::Histogram).in_unit(Unit::Seconds)
    }

    /// Adds other sizes.
    pub(super) fn sizes(&mut self, name: &'static str, help: &'static str) -> &mut Family<'a> {
        self.add(name, help, Kind::Histogram)
    }

    /// Adds a metric for each row, with a sample for each thing: its labels, and what is read.
    pub(super) fn table<T, I: ?Sized>(
        &mut self,
        rows: &[Row<I>],
        labels: &'static [&'static str],
        things: &[T],
        look: impl Fn(&T) -> (Labels<'a>, &I),
    ) {
        for row in rows {
            let kind = match row.read {
                Read::Counter(_) => Kind::Counter,
                Read::Gauge(_) => Kind::Gauge,
                Read::Times(_) => Kind::Histogram,
            };
            let family = self.add(row.name, row.help, kind).by(labels);
            family.unit = row.unit;
            family.samples.reserve_exact(things.len());
            for (labels, thing) in things.iter().map(&look) {
                let value = match row.read {
                    Read::Counter(read) => Some(Value::Count(read(thing))),
                    Read::Gauge(read) => read(thing).map(Value::Count),
                    Read::Times(read) => Some(read(thing))
                        .filter(|times| times.count() > 0)
                        .map(|times| Value::Times(Box::new(times))),
                };
                if let Some(value) = value {
                    family.push(labels, value);
                }
            }
        }
    }

    fn add(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Family<'a> {
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

    /// Those that have samples: a metric that nothing has is left out.
    pub(super) fn present(&self) -> impl Iterator<Item = &Family<'a>> {
        self.0.iter().filter(|family| !family.samples.is_empty())
    }

    /// The same, for good.
    pub(super) fn into_present(self) -> impl Iterator<Item = Family<'a>> {
        let families = self.0.into_iter();
        families.filter(|family| !family.samples.is_empty())
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
struct Answer<'f, 'a> {
    time: f64,
    bounds: [f64; BUCKET_BOUNDS.len()],
    families: &'f Families<'a>,
}

impl<'a> Family<'a> {
    /// Sets the unit, which ends the name.
    pub(super) fn in_unit(&mut self, unit: Unit) -> &mut Family<'a> {
        self.unit = Some(unit);
        self
    }

    /// Sets the names of the labels.
    pub(super) fn by(&mut self, labels: &'static [&'static str]) -> &mut Family<'a> {
        self.labels = labels;
        self
    }

    /// Adds the only sample of a metric without labels.
    pub(super) fn is(&mut self, count: u64) {
        self.push(Labels::new(), Value::Count(count));
    }

    /// The same with durations.
    pub(super) fn is_times(&mut self, times: HistogramValues) {
        self.push(Labels::new(), Value::Times(Box::new(times)));
    }

    /// The same with other sizes: upper bounds with counts, and the sum.
    pub(super) fn is_sizes(&mut self, counts: Vec<(f64, u64)>, sum: f64) {
        self.push(Labels::new(), Value::Sizes(counts.into(), sum));
    }

    /// Adds a sample.
    pub(super) fn sample<const N: usize>(&mut self, labels: [Label<'a>; N], count: u64) {
        self.push(labels.into_iter().collect(), Value::Count(count));
    }

    /// Adds a sample with a fraction.
    pub(super) fn number<const N: usize>(&mut self, labels: [Label<'a>; N], number: f64) {
        self.push(labels.into_iter().collect(), Value::Number(number));
    }

    /// Adds a sample with durations.
    pub(super) fn times<const N: usize>(&mut self, labels: [Label<'a>; N], times: HistogramValues) {
        let times = Value::Times(Box::new(times));
        self.push(labels.into_iter().collect(), times);
    }

    /// Adds a sample for each value of a label.
    pub(super) fn each(&mut self, samples: impl IntoIterator<Item = (&'static str, u64)>) {
        for (value, count) in samples {
            self.sample([Label::Text(value)], count);
        }
    }

    fn push(&mut self, labels: Labels<'a>, value: Value) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        self.samples.push(Sample { labels, value });
    }

    /// The name with its unit, as the formats have it.
    pub(super) fn full_name(&self) -> String {
        match self.unit {
            None => format!("{PREFIX}_{}", self.name),
            Some(unit) => format!("{PREFIX}_{}_{}", self.name, unit.name()),
        }
    }
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Label<'a> {
    fn from(text: &'a T) -> Label<'a> {
        Label::Text(text.as_ref())
    }
}

impl Serialize for Families<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.present().count()))?;
        for family in self.present() {
            map.serialize_entry(&family.full_name(), family)?;
        }
        map.end()
    }
}

impl Serialize for Family<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("type", self.kind.name())?;
        map.serialize_entry("labels", self.labels)?;
        map.serialize_entry("samples", &self.samples)?;
        map.end()
    }
}

impl Serialize for Label<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Label::Text(text) => serializer.serialize_str(text),
            Label::Shared(text) => serializer.serialize_str(text),
            Label::Status(status) => serializer.collect_str(status),
        }
    }
}

impl Serialize for Sample<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_seq(Some(self.labels.len() + 1))?;
        for label in &self.labels {
            row.serialize_element(label)?;
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

impl fmt::Debug for Families<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|family| family.name))
            .finish()
    }
}
