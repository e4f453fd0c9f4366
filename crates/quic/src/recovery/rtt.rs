//! The round-trip time of a path, RFC 9002 section 5.

use std::time::Duration;

use crate::Time;

/// What is assumed before a measurement, RFC 9002 section 6.2.2.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Resolution of timers, RFC 9002 section 6.1.2.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// An estimate of the round-trip time. Microseconds in 32 bits: more than an hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    latest_us: u32,
    smoothed_us: u32,
    variance_us: u32,
    min_us: u32,
    /// When the first sample was taken: persistent congestion needs one before it.
    first_sample: Option<Time>,
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

const fn duration(micros: u32) -> Duration {
    Duration::from_micros(micros as u64)
}

impl Rtt {
    /// The estimate of a path that nothing is known of, RFC 9002 section 5.3.
    pub(super) fn new(initial: Duration) -> Self {
        let initial_us = micros(initial);
        Self {
            latest_us: initial_us,
            smoothed_us: initial_us,
            variance_us: initial_us / 2,
            min_us: initial_us,
            first_sample: None,
        }
    }

    /// Takes a measurement. `ack_delay` is how long the peer says that it waited, already bounded
    /// by its max_ack_delay once the handshake is confirmed, and zero for Initial packets.
    pub(super) fn sample(&mut self, latest: Duration, ack_delay: Duration, now: Time) {
        let latest_us = micros(latest).max(1);
        self.latest_us = latest_us;
        if self.first_sample.is_none() {
            self.first_sample = Some(now);
            self.min_us = latest_us;
            self.smoothed_us = latest_us;
            self.variance_us = latest_us / 2;
            return;
        }
        // The delay is the peer's word: it is not used for the minimum, and never goes below it.
        self.min_us = self.min_us.min(latest_us);
        let delay_us = micros(ack_delay);
        let adjusted_us = if latest_us >= self.min_us.saturating_add(delay_us) {
            latest_us - delay_us
        } else {
            latest_us
        };
        let deviation_us = self.smoothed_us.abs_diff(adjusted_us);
        self.variance_us = weighted(self.variance_us, 3, deviation_us, 4);
        self.smoothed_us = weighted(self.smoothed_us, 7, adjusted_us, 8);
    }

    /// Forgets the minimum: the path may have changed, RFC 9002 section 5.2.
    pub(super) fn reset_min(&mut self) {
        self.min_us = self.latest_us;
    }

    /// The newest measurement.
    pub(crate) fn latest(&self) -> Duration {
        duration(self.latest_us)
    }

    /// The smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Duration {
        duration(self.smoothed_us)
    }

    /// The mean deviation.
    pub(crate) fn variance(&self) -> Duration {
        duration(self.variance_us)
    }

    /// The smallest measurement.
    pub(crate) fn min(&self) -> Duration {
        duration(self.min_us)
    }

    /// When the first measurement was taken.
    pub(super) fn first_sample(&self) -> Option<Time> {
        self.first_sample
    }

    /// How long to wait for an acknowledgement, RFC 9002 section 6.2.1, without backoff and
    /// without the peer's max_ack_delay. Draining and closing last three times as long.
    pub(crate) fn pto(&self) -> Duration {
        self.smoothed() + (self.variance() * 4).max(GRANULARITY)
    }
}

/// `(parts * old + new) / whole` where `parts + 1 == whole`.
fn weighted(old: u32, parts: u64, new: u32, whole: u64) -> u32 {
    let sum = u64::from(old) * parts + u64::from(new);
    u32::try_from(sum / whole).expect("a mean is not above both values")
}
