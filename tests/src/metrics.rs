//! What a server counts, and how far its numbers have moved.
//!
//! A test says what moves in a list of [`Move`]s, does it, and lets a [`Watch`] compare. The lists
//! are constants, so that `tests/tests/metrics/complete.rs` can find what no test moves.

use crate::wire::{self, Connection, Response};
use crate::{PATIENCE, Server};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Samples of metrics: name and labels as in the text format, and the value.
pub type Samples = BTreeMap<String, f64>;

/// What moves: a name with those labels that matter, as in the text format. Samples that differ in
/// other labels are added up.
pub type Move = (&'static str, Step);

/// How far a number moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// It grows by so many, and no more.
    By(u64),
    /// It grows, by as much as time or the machine decides.
    Up,
    /// It becomes this: a level.
    To(f64),
}

/// The metrics of a server, from its location `/metrics` on this port.
///
/// # Panics
/// If the answer is not one of metrics.
#[track_caller]
pub fn samples(port: u16) -> Samples {
    read(&wire::get(port, "/metrics"))
}

/// The same on a connection that is open already, and stays so.
///
/// # Panics
/// As [`samples`].
#[track_caller]
pub fn samples_on(connection: &mut Connection) -> Samples {
    connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    read(&connection.response(false))
}

#[track_caller]
fn read(response: &Response) -> Samples {
    let text = response.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    lines
        .map(|line| sample(line).unwrap_or_else(|| panic!("no sample: {line}")))
        .collect()
}

/// The sum of the samples with this name and at least these labels; 0 without any.
pub fn value(samples: &Samples, name: &str) -> f64 {
    let (family, labels) = parts(name);
    let is_one = |known: &str| {
        let (known_family, known_labels) = parts(known);
        known_family == family && labels.iter().all(|label| known_labels.contains(label))
    };
    let found = samples.iter().filter(|(known, _)| is_one(known));
    found.fold(0.0, |sum, (_, value)| sum + value)
}

/// The name of a sample, and its labels, each as `name="value"`.
pub fn parts(sample: &str) -> (&str, Vec<&str>) {
    let Some((family, labels)) = sample.split_once('{') else {
        return (sample, Vec::new());
    };
    let labels = labels.trim_end_matches('}');
    // A comma in a value is not followed by the name of a label and `="`.
    let mut found: Vec<&str> = Vec::new();
    let mut from = 0;
    for (at, _) in labels.match_indices("\",") {
        found.push(&labels[from..=at]);
        from = at + 2;
    }
    if from < labels.len() {
        found.push(&labels[from..]);
    }
    (family, found)
}

/// Numbers from before something is done.
pub struct Watch {
    port: u16,
    before: Samples,
}

impl Watch {
    /// Looks at the numbers of the server, whose metrics are on `%metrics%`.
    #[track_caller]
    pub fn start(server: &Server<'_>) -> Watch {
        let port = server.port("metrics");
        Watch {
            port,
            before: samples(port),
        }
    }

    /// Waits until the numbers have moved as they should.
    #[track_caller]
    pub fn saw(&self, moves: &[Move]) {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let wrong = self.wrong(moves);
            if wrong.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{wrong:#?}");
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// By how much a number has grown.
    pub fn growth(&self, name: &str) -> f64 {
        value(&samples(self.port), name) - value(&self.before, name)
    }

    fn wrong(&self, moves: &[Move]) -> Vec<String> {
        let after = samples(self.port);
        let wrong = |(name, step): &Move| {
            let (was, is) = (value(&self.before, name), value(&after, name));
            let is_right = match *step {
                Step::By(count) => is - was == count as f64,
                Step::Up => is > was,
                Step::To(level) => is == level,
            };
            (!is_right).then(|| format!("{name} was {was}, is {is}, should move {step:?}"))
        };
        moves.iter().filter_map(wrong).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_some_of_their_labels() {
        let of = |name: &str| (name.to_owned(), 2.0);
        let samples: Samples = [
            of("a{x=\"1\",y=\"b,c\"}"),
            of("a{x=\"2\",y=\"b,c\"}"),
            of("ab{x=\"1\"}"),
            of("plain"),
        ]
        .into();
        for (name, sum) in [
            ("a", 4.0),
            ("a{x=\"1\"}", 2.0),
            ("a{y=\"b,c\"}", 4.0),
            ("a{x=\"1\",y=\"b,c\"}", 2.0),
            ("a{x=\"3\"}", 0.0),
            ("plain", 2.0),
        ] {
            assert_eq!(value(&samples, name), sum, "{name}");
        }
    }
}
