//! What a server says about itself: the JSON of `metrics`, as `Families::json` writes it.

use sealane_conf::diagnostic::printable;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::HashMap;

/// Begins the names of all metrics.
const PREFIX: &str = "sealane_";
/// Between the values of labels in a key; it is in no name that is [`printable`].
const SEPARATOR: char = '\0';

/// One answer of a server.
pub(crate) struct Answer {
    /// When it was made, in seconds of Unix time.
    pub(crate) time_s: f64,
    /// Upper bounds of the buckets of all durations, in seconds; one more bucket follows.
    pub(crate) bounds_s: Vec<f64>,
    families: HashMap<String, Family>,
}

/// A metric: its samples in the order in which the server lists them.
struct Family {
    samples: Vec<Sample>,
    /// Positions of samples by their labels.
    index: HashMap<String, usize>,
}

/// One value, with the values of its metric's labels.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<String>,
    pub(crate) value: Value,
}

/// The value of a sample.
#[derive(Debug)]
pub(crate) enum Value {
    /// A counter or a gauge.
    Number(f64),
    /// Durations by size.
    Times(Times),
    /// Other sizes: upper bounds with counts.
    Sizes(Vec<(f64, f64)>),
}

/// Durations by size.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) count: f64,
    pub(crate) sum_s: f64,
    /// Not cumulative; one more than there are bounds.
    pub(crate) buckets: Vec<f64>,
}

#[derive(Deserialize)]
struct Written {
    time: f64,
    bounds: Vec<f64>,
    families: HashMap<String, WrittenFamily>,
}

#[derive(Deserialize)]
struct WrittenFamily {
    labels: Vec<String>,
    samples: Vec<Vec<Json>>,
}

impl Answer {
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(json: &[u8]) -> Result<Answer, String> {
        let written: Written = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let mut families = HashMap::with_capacity(written.families.len());
        for (name, family) in written.families {
            let read = Family::read(family, written.bounds.len());
            let family = read.ok_or_else(|| format!("{name} has an unknown form"))?;
            let name = name.strip_prefix(PREFIX).unwrap_or(&name);
            families.insert(name.to_owned(), family);
        }
        Ok(Answer {
            time_s: written.time,
            bounds_s: written.bounds,
            families,
        })
    }

    /// The samples of a metric, without `sealane_` in its name; none if the server lacks it.
    pub(crate) fn samples(&self, name: &str) -> &[Sample] {
        self.families
            .get(name)
            .map_or(&[], |family| &family.samples)
    }

    /// The number with these labels.
    pub(crate) fn number(&self, name: &str, labels: &[&str]) -> Option<f64> {
        match self.sample(name, labels)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The durations with these labels.
    pub(crate) fn times(&self, name: &str, labels: &[&str]) -> Option<&Times> {
        match &self.sample(name, labels)?.value {
            Value::Times(times) => Some(times),
            _ => None,
        }
    }

    /// The sum of the numbers whose first labels are these.
    pub(crate) fn sum(&self, name: &str, first: &[&str]) -> f64 {
        let samples = self.samples(name).iter();
        samples
            .filter(|sample| sample.begins_with(first))
            .filter_map(Sample::number)
            .sum()
    }

    /// The names of all histograms of durations.
    pub(crate) fn durations(&self) -> impl Iterator<Item = &str> {
        let families = self.families.iter();
        families
            .filter(|(_, family)| {
                let first = family.samples.first();
                first.is_some_and(|sample| matches!(sample.value, Value::Times(_)))
            })
            .map(|(name, _)| name.as_str())
    }

    fn sample(&self, name: &str, labels: &[&str]) -> Option<&Sample> {
        let family = self.families.get(name)?;
        let position = match labels {
            [] => 0,
            _ => *family.index.get(&key(labels.iter().copied()))?,
        };
        family.samples.get(position)
    }
}

impl Sample {
    /// Whether these are its first labels.
    pub(crate) fn begins_with(&self, first: &[&str]) -> bool {
        first.len() <= self.labels.len() && first.iter().zip(&self.labels).all(|(a, b)| a == b)
    }

    /// Its value, if it is a number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Its labels as one text, by which another answer has it too.
    pub(crate) fn key(&self) -> String {
        key(self.labels.iter().map(String::as_str))
    }

    /// The values of its labels, for the functions that look for another sample with them.
    pub(crate) fn label_values(&self) -> Vec<&str> {
        self.labels.iter().map(String::as_str).collect()
    }

    /// The value of a label; empty if there is none.
    pub(crate) fn label(&self, index: usize) -> &str {
        self.labels.get(index).map_or("", String::as_str)
    }
}

/// The values of labels as one text.
pub(crate) fn key<'a>(labels: impl Iterator<Item = &'a str>) -> String {
    let mut key = String::new();
    for (index, label) in labels.enumerate() {
        if index > 0 {
            key.push(SEPARATOR);
        }
        key.push_str(label);
    }
    key
}

impl Family {
    fn read(written: WrittenFamily, bounds: usize) -> Option<Family> {
        let width = written.labels.len();
        let mut samples = Vec::with_capacity(written.samples.len());
        let mut index = HashMap::with_capacity(written.samples.len());
        for mut row in written.samples {
            let value = value(row.pop()?, bounds)?;
            let labels = row.into_iter().map(text).collect::<Option<Vec<String>>>()?;
            if labels.len() != width {
                return None;
            }
            let sample = Sample { labels, value };
            index.insert(sample.key(), samples.len());
            samples.push(sample);
        }
        Some(Family { samples, index })
    }
}

/// Names may come from anywhere, and a terminal would obey what is in them.
fn text(json: Json) -> Option<String> {
    match json {
        Json::String(text) => Some(printable(&text)),
        _ => None,
    }
}

fn value(json: Json, bounds: usize) -> Option<Value> {
    if let Some(number) = json.as_f64() {
        return Some(Value::Number(number));
    }
    let [count, sum, list] = <[Json; 3]>::try_from(json.as_array()?.clone()).ok()?;
    let list = list.as_array()?;
    let numbers = |list: &[Json]| list.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>();
    if let Some(buckets) = numbers(list).filter(|buckets| buckets.len() == bounds + 1) {
        return Some(Value::Times(Times {
            count: count.as_f64()?,
            sum_s: sum.as_f64()?,
            buckets,
        }));
    }
    let pair = |json: &Json| match &*numbers(json.as_array()?)? {
        [bound, count] => Some((*bound, *count)),
        _ => None,
    };
    Some(Value::Sizes(list.iter().map(pair).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"time": 5.5, "bounds": [0.1, 1.0], "families": {
        "sealane_requests": {"type": "counter", "labels": [], "samples": [[7]]},
        "sealane_server_responses": {"type": "counter", "labels": ["server", "code"],
            "samples": [["a", "200", 3], ["a", "404", 1], ["b", "200", 4]]},
        "sealane_server_request_seconds": {"type": "histogram", "labels": ["server"],
            "samples": [["a", [4, 1.5, [1, 2, 1]]]]},
        "sealane_tls_batch_operations": {"type": "histogram", "labels": [],
            "samples": [[[3, 9.0, [[1.0, 1], [8.0, 2]]]]]}}}"#;

    #[test]
    fn values_are_found_by_their_labels() {
        let answer = Answer::read(JSON.as_bytes()).expect("it is valid");
        assert_eq!((answer.time_s, &*answer.bounds_s), (5.5, &[0.1, 1.0][..]));
        assert_eq!(answer.number("requests", &[]), Some(7.0));
        assert_eq!(answer.number("server_responses", &["a", "404"]), Some(1.0));
        assert_eq!(answer.number("server_responses", &["b", "404"]), None);
        assert_eq!(answer.sum("server_responses", &["a"]), 4.0);
        assert_eq!(answer.sum("server_responses", &[]), 8.0);
        let times = answer.times("server_request_seconds", &["a"]);
        let times = times.expect("there are some");
        assert_eq!(
            (times.count, times.sum_s, &*times.buckets),
            (4.0, 1.5, &[1.0, 2.0, 1.0][..])
        );
        let sizes = &answer.samples("tls_batch_operations")[0].value;
        assert!(matches!(sizes, Value::Sizes(sizes) if *sizes == [(1.0, 1.0), (8.0, 2.0)]));
        assert_eq!(
            answer.durations().collect::<Vec<_>>(),
            ["server_request_seconds"]
        );
        assert!(answer.samples("nothing").is_empty());
    }

    #[test]
    fn another_form_is_an_error() {
        for wrong in [
            "",
            "{}",
            r#"{"time": 1, "bounds": [], "families": {"x": {"labels": [], "samples": [["a", 1]]}}}"#,
            r#"{"time": 1, "bounds": [], "families": {"x": {"labels": [], "samples": [[]]}}}"#,
            r#"{"time": 1, "bounds": [], "families": {"x": {"labels": ["l"], "samples": [[2, 1]]}}}"#,
            r#"{"time": 1, "bounds": [], "families": {"x": {"labels": [], "samples": [[[1, 2]]]}}}"#,
        ] {
            assert!(Answer::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
