//! What has changed between answers of one server: rates, and recent durations.

use super::answer::Answer;
use std::collections::HashMap;

/// A recent duration counts for 1/e after this long, in seconds. The page has the same.
const DECAY_S: f64 = 30.0;

/// Answers of one server over time.
#[derive(Default)]
pub(crate) struct Gains {
    now: Option<Answer>,
    before: Option<Answer>,
    elapsed_s: f64,
    /// For each histogram, by labels, counts that fade: few requests make no wild quantiles.
    faded: HashMap<String, HashMap<String, Vec<f64>>>,
    /// The server was restarted since the last answer.
    restarted: bool,
}

impl Gains {
    /// Takes another answer, which arrived this long after the last one by this machine's clock.
    pub(crate) fn take(&mut self, answer: Answer, arrived_s: f64) {
        let before = self.now.take();
        self.restarted = before
            .as_ref()
            .is_some_and(|before| is_other_run(before, &answer));
        self.before = before.filter(|_| !self.restarted);
        if self.restarted {
            self.faded.clear();
        }
        // The server's clock is free of delays on the way, but may be set.
        let by_server = self.before.as_ref().map(|it| answer.time_s - it.time_s);
        let plausible = by_server.filter(|by| *by > 0.0 && *by < 3.0 * arrived_s + 5.0);
        self.elapsed_s = plausible.unwrap_or(arrived_s.max(0.001));
        if let Some(before) = &self.before {
            fade(&mut self.faded, before, &answer, self.elapsed_s);
        }
        self.now = Some(answer);
    }

    /// The newest answer.
    pub(crate) fn now(&self) -> Option<&Answer> {
        self.now.as_ref()
    }

    /// Whether the newest answer is the first of another run of the server.
    pub(crate) fn has_restarted(&self) -> bool {
        self.restarted
    }

    /// By how much a counter has grown; `None` without an earlier answer.
    pub(crate) fn gain(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let value = self.now.as_ref()?.number(name, labels)?;
        // Labels that were not there yet had counted nothing.
        let old = self.before.as_ref()?.number(name, labels).unwrap_or(0.0);
        (value >= old).then_some(value - old)
    }

    /// The same for each second.
    pub(crate) fn speed(&self, name: &str, labels: &[&str]) -> Option<f64> {
        Some(self.gain(name, labels)? / self.elapsed_s)
    }

    /// By how much the counters have grown whose first labels are these.
    pub(crate) fn sum_of_gains(&self, name: &str, first: &[&str]) -> Option<f64> {
        self.before.as_ref()?;
        let samples = self.now.as_ref()?.samples(name).iter();
        let samples = samples.filter(|sample| sample.begins_with(first));
        let gains = samples.filter_map(|sample| self.gain(name, &sample.label_values()));
        Some(gains.sum())
    }

    /// The same for each second.
    pub(crate) fn sum_of_speeds(&self, name: &str, first: &[&str]) -> Option<f64> {
        Some(self.sum_of_gains(name, first)? / self.elapsed_s)
    }

    /// A quantile of recent durations, in seconds; infinite above the largest bound.
    pub(crate) fn recent(&self, share: f64, name: &str, labels: &[&str]) -> Option<f64> {
        let counts = self.faded.get(name)?;
        let counts = counts.get(&super::answer::key(labels.iter().copied()))?;
        quantile(share, counts, &self.now.as_ref()?.bounds_s)
    }
}

/// Whether the server was restarted between two answers: counters outlive worker processes.
fn is_other_run(before: &Answer, after: &Answer) -> bool {
    let number = |answer: &Answer, name| answer.number(name, &[]);
    number(before, "start_time_seconds") != number(after, "start_time_seconds")
        || ["requests", "connections_accepted"]
            .iter()
            .any(|name| number(after, name) < number(before, name))
}

fn fade(
    faded: &mut HashMap<String, HashMap<String, Vec<f64>>>,
    before: &Answer,
    after: &Answer,
    elapsed_s: f64,
) {
    let factor = (-elapsed_s / DECAY_S).exp();
    for name in after.durations() {
        let known = faded.entry(name.to_owned()).or_default();
        let mut fresh = HashMap::with_capacity(known.len());
        for sample in after.samples(name) {
            let labels = sample.label_values();
            let Some(times) = after.times(name, &labels) else {
                continue;
            };
            let old = before.times(name, &labels);
            let mut counts = known.remove(&sample.key()).unwrap_or_default();
            counts.resize(times.buckets.len(), 0.0);
            for (index, count) in counts.iter_mut().enumerate() {
                let old = old.and_then(|old| old.buckets.get(index)).unwrap_or(&0.0);
                *count = *count * factor + (times.buckets[index] - old).max(0.0);
            }
            fresh.insert(sample.key(), counts);
        }
        *known = fresh; // labels that are gone are forgotten
    }
}

/// A quantile, interpolated in its bucket as Prometheus does. `None` if there is nothing.
pub(crate) fn quantile(share: f64, counts: &[f64], bounds_s: &[f64]) -> Option<f64> {
    let all: f64 = counts.iter().sum();
    if all < 0.5 {
        return None;
    }
    let mut seen = 0.0;
    for (index, count) in counts.iter().enumerate() {
        if *count > 0.0 && seen + count >= share * all {
            let Some(high) = bounds_s.get(index) else {
                return Some(f64::INFINITY);
            };
            let low = index.checked_sub(1).map_or(0.0, |index| bounds_s[index]);
            return Some(low + (high - low) * (share * all - seen).max(0.0) / count);
        }
        seen += count;
    }
    Some(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(time: f64, start: f64, requests: u64, buckets: [u64; 3]) -> Answer {
        let count: u64 = buckets.iter().sum();
        let json = serde_json::json!({"time": time, "bounds": [0.1, 1.0], "families": {
            "sealane_start_time_seconds": {"labels": [], "samples": [[start]]},
            "sealane_requests": {"labels": [], "samples": [[requests]]},
            "sealane_server_responses": {"labels": ["server", "code"],
                "samples": [["a", "200", requests], ["a", "500", requests / 2]]},
            "sealane_tls_handshake_seconds": {"labels": [], "samples": [[[count, 1.0, buckets]]]},
        }});
        Answer::read(json.to_string().as_bytes()).expect("it is valid")
    }

    #[test]
    fn rates_are_those_between_two_answers() {
        let mut gains = Gains::default();
        gains.take(answer(100.0, 1.0, 10, [0, 0, 0]), 0.0);
        assert_eq!(gains.speed("requests", &[]), None);
        gains.take(answer(102.0, 1.0, 30, [0, 8, 0]), 2.1);
        assert_eq!(gains.speed("requests", &[]), Some(10.0));
        assert_eq!(gains.sum_of_gains("server_responses", &["a"]), Some(30.0));
        let median = gains.recent(0.5, "tls_handshake_seconds", &[]);
        assert!(median.is_some_and(|median| (median - 0.55).abs() < 1e-9));
        // A clock that was set says nothing about how long it took.
        gains.take(answer(9000.0, 1.0, 40, [0, 8, 0]), 2.0);
        assert_eq!(gains.speed("requests", &[]), Some(5.0));
    }

    #[test]
    fn a_restart_begins_anew() {
        let mut gains = Gains::default();
        gains.take(answer(100.0, 1.0, 10, [4, 0, 0]), 0.0);
        gains.take(answer(102.0, 1.0, 12, [9, 0, 0]), 2.0);
        assert!(!gains.has_restarted());
        gains.take(answer(104.0, 103.0, 50, [9, 0, 0]), 2.0);
        assert!(gains.has_restarted());
        assert_eq!(gains.speed("requests", &[]), None);
        assert_eq!(gains.recent(0.5, "tls_handshake_seconds", &[]), None);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let bounds = [0.1, 1.0];
        assert_eq!(quantile(0.5, &[0.0, 0.0, 0.0], &bounds), None);
        assert_eq!(quantile(0.5, &[2.0, 0.0, 0.0], &bounds), Some(0.05));
        assert_eq!(
            quantile(0.99, &[1.0, 0.0, 9.0], &bounds),
            Some(f64::INFINITY)
        );
    }
}
