//! HyStart++, RFC 9406: leaves slow start before packets are lost.

use std::time::Duration;

use crate::Time;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u8 = 5;

/// Slow start and conservative slow start (CSS). Packets are paced, so L is infinite.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// When the round began: it ends with the first packet that was sent since.
    round_start: Time,
    last_round_min: Duration,
    round_min: Duration,
    /// Smallest round-trip time when CSS began; `None` in slow start.
    css_baseline: Option<Duration>,
    samples: u8,
    css_rounds: u8,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_start: Time::ZERO,
            last_round_min: Duration::MAX,
            round_min: Duration::MAX,
            css_baseline: None,
            samples: 0,
            css_rounds: 0,
        }
    }

    /// A measurement of the round-trip time, from a packet that was sent at `sent`. Returns
    /// whether slow start is over.
    pub(super) fn on_rtt(&mut self, rtt: Duration, sent: Time, now: Time) -> bool {
        let is_over = sent >= self.round_start && self.next_round(now);
        self.round_min = self.round_min.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return is_over;
        }
        match self.css_baseline {
            Some(baseline) if self.round_min < baseline => {
                self.css_baseline = None;
            }
            Some(_) => {}
            None if self.last_round_min < Duration::MAX => {
                let threshold =
                    (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.round_min >= self.last_round_min + threshold {
                    self.css_baseline = Some(self.round_min);
                    self.css_rounds = 0;
                }
            }
            None => {}
        }
        is_over
    }

    /// Returns whether CSS has lasted long enough.
    fn next_round(&mut self, now: Time) -> bool {
        self.round_start = now;
        self.last_round_min = self.round_min;
        self.round_min = Duration::MAX;
        self.samples = 0;
        if self.css_baseline.is_none() {
            return false;
        }
        self.css_rounds += 1;
        self.css_rounds >= CSS_ROUNDS
    }

    /// By how much the window grows for so many bytes.
    pub(super) fn growth(&self, bytes: u64) -> u64 {
        if self.css_baseline.is_some() {
            bytes / CSS_GROWTH_DIVISOR
        } else {
            bytes
        }
    }
}
