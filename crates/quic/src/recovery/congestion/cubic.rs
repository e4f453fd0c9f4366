//! CUBIC, RFC 9438.

use std::time::Duration;

use crate::Time;

use super::hystart::HyStart;
use super::{Acked, MAX_WINDOW, MIN_DATAGRAMS, Rtt, initial_window};

/// Multiplicative decrease factor, RFC 9438 section 4.6.
const BETA: f64 = 0.7;

/// How aggressive the window grows, in segments per cubic second, RFC 9438 section 5.1.
const C: f64 = 0.4;

/// Additive increase of the Reno-friendly region, RFC 9438 section 4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Congestion avoidance. Windows are in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Avoidance {
    /// When it began; `None` before the first ACK in it.
    epoch_start: Option<Time>,
    /// Seconds from then until the window is `w_max` again.
    k: f64,
    /// The window before the last congestion event.
    w_max: f64,
    /// What Reno would have.
    w_est: f64,
}

/// What a congestion event changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: u64,
    threshold: u64,
    avoidance: Avoidance,
}

#[derive(Debug)]
pub(super) struct Cubic {
    window: u64,
    /// Slow start ends here.
    threshold: u64,
    avoidance: Avoidance,
    /// Bytes by which the window should grow, below one.
    fraction: f64,
    hystart: HyStart,
    last_ack: Time,
    before: Option<Before>,
    datagram: u16,
}

impl Cubic {
    pub(super) fn new(datagram: u16) -> Self {
        Self {
            window: initial_window(datagram),
            threshold: u64::MAX,
            avoidance: Avoidance::default(),
            fraction: 0.0,
            hystart: HyStart::new(),
            last_ack: Time::ZERO,
            before: None,
            datagram,
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Where slow start ends; `u64::MAX` before that is known.
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    fn min_window(&self) -> u64 {
        MIN_DATAGRAMS * u64::from(self.datagram)
    }

    pub(super) fn on_acked(&mut self, acked: &Acked, rtt: &Rtt) {
        let since_last = acked.now.since(self.last_ack);
        self.last_ack = acked.now;
        if !acked.window_used {
            // RFC 9438 section 5.8: time in which the window was not used does not count.
            if let Some(start) = &mut self.avoidance.epoch_start {
                *start = (*start + since_last).min(acked.now);
            }
            return;
        }
        if acked.growth_bytes == 0 {
            return;
        }
        if self.window < self.threshold {
            self.slow_start(acked, rtt);
        } else {
            self.avoid(acked, rtt);
        }
        self.window = self.window.min(MAX_WINDOW);
    }

    fn slow_start(&mut self, acked: &Acked, rtt: &Rtt) {
        // HyStart++ is for the first slow start only, RFC 9406 section 4.3.
        let is_first = self.threshold == u64::MAX;
        if is_first
            && acked.has_rtt
            && self
                .hystart
                .on_rtt(rtt.latest(), acked.newest_sent, acked.now)
        {
            self.threshold = self.window;
            return;
        }
        self.window += if is_first {
            self.hystart.growth(acked.growth_bytes)
        } else {
            acked.growth_bytes
        };
    }

    /// Congestion avoidance, RFC 9438 sections 4.2 to 4.5.
    fn avoid(&mut self, acked: &Acked, rtt: &Rtt) {
        let window = self.window as f64;
        let datagram = f64::from(self.datagram);
        let avoidance = &mut self.avoidance;
        let start = *avoidance.epoch_start.get_or_insert_with(|| {
            avoidance.w_max = avoidance.w_max.max(window);
            avoidance.k = ((avoidance.w_max - window) / datagram / C).cbrt();
            avoidance.w_est = window;
            acked.now
        });
        let w_cubic = |time: Duration| {
            C * (time.as_secs_f64() - avoidance.k).powi(3) * datagram + avoidance.w_max
        };
        let elapsed = acked.now.since(start);
        // Once it has reached the old window, it grows as Reno does.
        let alpha = if avoidance.w_est >= avoidance.w_max {
            1.0
        } else {
            ALPHA
        };
        let segments = acked.growth_bytes as f64 / window;
        let w_est = avoidance.w_est + alpha * segments * datagram;
        if w_cubic(elapsed) < w_est {
            self.fraction += (w_est - window).max(0.0);
        } else {
            let target = w_cubic(elapsed + rtt.smoothed()).clamp(window, 1.5 * window);
            self.fraction += (target - window) * segments;
        }
        avoidance.w_est = w_est.min(MAX_WINDOW as f64);
        let whole = self.fraction.floor();
        self.fraction -= whole;
        self.window += whole as u64;
    }

    /// A congestion event, RFC 9438 section 4.6.
    pub(super) fn reduce(&mut self) {
        self.before = Some(Before {
            window: self.window,
            threshold: self.threshold,
            avoidance: self.avoidance,
        });
        let window = self.window as f64;
        // Fast convergence, section 4.7: a flow that has less than before leaves room for others.
        let w_max = if window < self.avoidance.w_max {
            window * (1.0 + BETA) / 2.0
        } else {
            window
        };
        self.avoidance = Avoidance {
            w_max,
            ..Avoidance::default()
        };
        self.window = ((window * BETA) as u64).max(self.min_window());
        self.threshold = self.window;
        self.fraction = 0.0;
    }

    /// The last congestion event was none, RFC 9438 section 4.9.2.
    pub(super) fn undo(&mut self) {
        if let Some(before) = self.before.take()
            && self.window < before.window
        {
            self.window = before.window;
            self.threshold = before.threshold;
            self.avoidance = before.avoidance;
        }
    }

    /// Persistent congestion, RFC 9002 section 7.6.2.
    pub(super) fn collapse(&mut self) {
        self.before = None;
        self.avoidance.epoch_start = None;
        self.window = self.min_window();
        self.fraction = 0.0;
    }

    pub(super) fn set_datagram_size(&mut self, datagram: u16) {
        self.datagram = datagram;
        self.window = self.window.max(self.min_window());
    }
}
