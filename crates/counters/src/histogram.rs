//! Durations by size.

use super::Counter;
use std::array;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// Inclusive upper bounds of a histogram's buckets, followed by one bucket without a bound. The
/// steps are 1, 2, 5 per decade, from an ECDSA signature on an idle core to a queue that is far too
/// long.
pub const BUCKET_BOUNDS: [Duration; 19] = [
    us(10),
    us(20),
    us(50),
    us(100),
    us(200),
    us(500),
    us(1_000),
    us(2_000),
    us(5_000),
    us(10_000),
    us(20_000),
    us(50_000),
    us(100_000),
    us(200_000),
    us(500_000),
    us(1_000_000),
    us(2_000_000),
    us(5_000_000),
    us(10_000_000),
];

/// Durations, counted by size in the buckets of [`BUCKET_BOUNDS`].
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct Histogram {
    buckets: [Counter; BUCKET_BOUNDS.len() + 1],
    sum_ns: Counter,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, time: Duration) {
        let bucket = BUCKET_BOUNDS.partition_point(|bound| *bound < time);
        self.buckets[bucket].add(1);
        self.sum_ns.add(nanoseconds(time));
    }

    /// The counts so far. A duration being recorded at the same time may be in the sum but not yet
    /// in the buckets, or the reverse.
    pub fn values(&self) -> HistogramValues {
        HistogramValues {
            buckets: array::from_fn(|index| self.buckets[index].get()),
            sum: Duration::from_nanos(self.sum_ns.get()),
        }
    }
}

/// The counts of a [`Histogram`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistogramValues {
    /// Durations in each bucket of [`BUCKET_BOUNDS`] (not cumulative), followed by those above all
    /// bounds.
    pub buckets: [u64; BUCKET_BOUNDS.len() + 1],
    /// Their sum.
    pub sum: Duration,
}

impl HistogramValues {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &HistogramValues) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum += other.sum;
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_the_bucket_that_they_fit() {
        let histogram = Histogram::default();
        for time in [us(10), us(11), us(7_000), us(60_000_000)] {
            histogram.record(time);
        }
        let values = histogram.values();
        let bucket =
            |bound| values.buckets[BUCKET_BOUNDS.iter().position(|b| *b == bound).unwrap()];
        assert_eq!(
            [us(10), us(20), us(50), us(10_000)].map(bucket),
            [1, 1, 0, 1]
        );
        assert_eq!(values.buckets.last(), Some(&1), "above all bounds");
        let mut twice = values;
        twice.add(&values);
        assert_eq!((twice.count(), twice.sum), (8, 2 * values.sum));
        assert_eq!(values.sum, us(60_007_021));
    }
}
