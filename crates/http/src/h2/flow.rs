//! Flow control windows (RFC 9113 sections 5.2 and 6.9).
//!
//! The sender obeys the peer's windows. The receiver starts with a fixed window and doubles it, up
//! to a bound, as long as the application consumes a window's worth within two round trips: in that
//! case the window, not the application, is what holds the peer back.

use std::time::Duration;

/// The largest window (RFC 9113 section 6.9.1).
pub(super) const MAX_WINDOW: u32 = (1 << 31) - 1;

/// The initial window, before settings and updates (RFC 9113 section 6.9.2).
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

/// What this side may send. Negative if the peer has reduced its initial window.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow(i32);

/// A window beyond 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl SendWindow {
    pub(super) fn new(bytes: u32) -> SendWindow {
        SendWindow(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// Bytes that may be sent now.
    pub(super) fn available(self) -> u32 {
        self.0.max(0) as u32
    }

    pub(super) fn consume(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.available(), "sent beyond the window");
        self.0 = self.0.saturating_sub_unsigned(bytes);
    }

    /// Applies a WINDOW_UPDATE or a change of the initial window.
    pub(super) fn adjust(&mut self, delta: i64) -> Result<(), Overflow> {
        // A value below -2^31 cannot occur: the sum of what was granted stays within a window.
        let window = i64::from(self.0) + delta;
        self.0 = i32::try_from(window).map_err(|_| Overflow)?;
        Ok(())
    }
}

/// What the peer may send, and the window size to restore.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// What the peer may still send. Negative if a setting has reduced the windows.
    open: i32,
    /// The size that updates restore.
    target: u32,
    /// Consumed by the application and not yet returned to the peer.
    returned: u32,
    /// When the last update was written, in microseconds of the caller's time.
    updated_us: u64,
}

impl ReceiveWindow {
    /// A window that the peer sees as `open` and that should become `target`.
    pub(super) fn new(open: u32, target: u32, now: Duration) -> ReceiveWindow {
        ReceiveWindow {
            open: SendWindow::new(open).0,
            target: target.min(MAX_WINDOW),
            returned: 0,
            updated_us: micros(now),
        }
    }

    /// The increment that opens the window to its target at once.
    pub(super) fn open_fully(&mut self) -> Option<u32> {
        let increment = (i64::from(self.target) - i64::from(self.open)).max(0) as u32;
        self.open += increment as i32;
        (increment > 0).then_some(increment)
    }

    /// Accounts for received bytes; `false` if the peer was not allowed to send them.
    #[must_use]
    pub(super) fn receive(&mut self, bytes: u32) -> bool {
        let allowed = i64::from(bytes) <= i64::from(self.open);
        if allowed {
            self.open -= bytes as i32;
        }
        allowed
    }

    /// Bytes that the peer may still send.
    pub(super) fn available(&self) -> u32 {
        self.open.max(0) as u32
    }

    /// Accounts for bytes that the application has consumed.
    pub(super) fn release(&mut self, bytes: u32) {
        self.returned = self.returned.saturating_add(bytes);
    }

    /// The peer has applied a new initial window.
    pub(super) fn adjust(&mut self, delta: i32) {
        self.open = self.open.saturating_add(delta);
    }

    /// The increment that raises the window to this size, if it was meant to be smaller.
    pub(super) fn widen(&mut self, target: u32) -> Option<u32> {
        let increment = target.min(MAX_WINDOW).checked_sub(self.target)?;
        self.target += increment;
        self.open = self.open.saturating_add_unsigned(increment);
        (increment > 0).then_some(increment)
    }

    /// The increment to announce, if enough has been consumed to be worth a frame: half of the
    /// window. `max_target` bounds the growth; without a measured round trip the window does not
    /// grow.
    pub(super) fn update(
        &mut self,
        now: Duration,
        round_trip: Option<Duration>,
        max_target: u32,
    ) -> Option<u32> {
        if self.returned < self.target.div_ceil(2) {
            return None;
        }
        let now_us = micros(now);
        let elapsed_us = now_us.saturating_sub(self.updated_us);
        let is_short = |rtt: Duration| elapsed_us < 2 * micros(rtt);
        let mut increment = self.returned;
        if round_trip.is_some_and(is_short) && self.target < max_target {
            let grown = self.target.saturating_mul(2).min(max_target);
            increment = increment.saturating_add(grown - self.target);
            self.target = grown;
        }
        self.updated_us = now_us;
        self.returned = 0;
        // Never beyond the maximum window, whatever was released.
        let room = (i64::from(MAX_WINDOW) - i64::from(self.open)) as u32;
        let increment = increment.min(room);
        self.open += increment as i32;
        (increment > 0).then_some(increment)
    }

    /// The size that updates restore.
    #[cfg(test)]
    pub(super) fn target(&self) -> u32 {
        self.target
    }
}

/// The time that a frame to the peer and its answer take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// When the SETTINGS or PING in flight was written.
    sent: Option<Duration>,
    /// When the last answer arrived.
    measured: Option<Duration>,
    smoothed: Option<Duration>,
}

/// Interval between PINGs for measurement while bodies arrive.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

impl RoundTrip {
    /// A frame that will be answered is being written.
    pub(super) fn start(&mut self, now: Duration) {
        self.sent = Some(now);
    }

    /// The answer has arrived.
    pub(super) fn finish(&mut self, now: Duration) {
        let Some(sent) = self.sent.take() else { return };
        let sample = now.saturating_sub(sent);
        self.measured = Some(now);
        self.smoothed = Some(match self.smoothed {
            // Weighted with a quarter: an answer may have waited in the peer's queue.
            Some(old) => old - old / 4 + sample / 4,
            None => sample,
        });
    }

    /// The smoothed time; `None` before the first answer.
    pub(super) fn value(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Whether it is time for another PING.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        let is_old = |at: Duration| now.saturating_sub(at) >= MEASURE_INTERVAL;
        self.sent.is_none() && self.measured.is_none_or(is_old)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
