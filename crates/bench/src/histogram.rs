//! Latency histogram: fixed memory, bounded relative error.

use std::time::Duration;

/// Sub-buckets per power of two; the relative error is at most 1/64.
const SUB_BUCKETS_LOG2: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BUCKETS_LOG2;
/// Values are nanoseconds; 2^40 ns is 18 minutes, longer than any operation may take.
const LARGEST_LOG2: u32 = 40;
const BUCKETS: usize = ((LARGEST_LOG2 - SUB_BUCKETS_LOG2 + 1) as usize) << SUB_BUCKETS_LOG2;

/// Log-linear histogram of durations in nanoseconds.
///
/// A reported percentile is at most 1.6 % above the true one and never below it. Durations beyond
/// 18 minutes count as 18 minutes.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            max_ns: 0,
        }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration that `percent` of the counted ones do not exceed; zero if nothing was counted.
    pub fn percentile(&self, percent: f64) -> Duration {
        let wanted =
            ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(largest_in(bucket).min(self.max_ns));
            }
        }
        Duration::from_nanos(self.max_ns)
    }
}

/// Buckets below `SUB_BUCKETS` are exact; from there on each power of two is divided into
/// `SUB_BUCKETS`.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min((1 << LARGEST_LOG2) - 1);
    if ns < SUB_BUCKETS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BUCKETS_LOG2;
    let within = (ns >> shift) - SUB_BUCKETS;
    ((u64::from(shift) + 1) * SUB_BUCKETS + within) as usize
}

fn largest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((bucket % SUB_BUCKETS + SUB_BUCKETS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_the_values_up_to_its_largest() {
        for bucket in 0..BUCKETS {
            let largest = largest_in(bucket);
            assert_eq!(bucket_of(largest), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(largest + 1), bucket + 1);
            }
        }
    }

    #[test]
    fn percentiles_are_close_from_above() {
        let mut histogram = Histogram::default();
        for us in 1..=1000 {
            histogram.record(Duration::from_micros(us));
        }
        for (percent, exact_us) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0)] {
            let got_us = histogram.percentile(percent).as_nanos() as f64 / 1000.0;
            assert!(
                (exact_us..=exact_us * 1.016).contains(&got_us),
                "p{percent}: {got_us}"
            );
        }
        assert_eq!(histogram.percentile(100.0), Duration::from_millis(1));
    }

    #[test]
    fn merging_is_counting_together() {
        let (mut a, mut b) = (Histogram::default(), Histogram::default());
        a.record(Duration::from_micros(1));
        b.record(Duration::from_secs(2));
        a.merge(&b);
        assert_eq!(a.count(), 2);
        assert_eq!(a.percentile(100.0), Duration::from_secs(2));
        assert!(a.percentile(50.0) < Duration::from_micros(2));
    }

    #[test]
    fn extremes_stay_inside() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(99.0), Duration::ZERO);
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(1_000_000));
        assert_eq!(histogram.count(), 2);
    }
}
