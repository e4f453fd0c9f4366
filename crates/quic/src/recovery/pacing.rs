//! Pacing of what is sent, RFC 9002 section 7.7: a token bucket.

use std::time::Duration;

use crate::Time;

/// Largest burst in datagrams where the rate is low: the initial window, RFC 9002 section 7.7.
const BURST_DATAGRAMS: u32 = 10;

/// The bucket holds what the rate allows in this time, and [`BURST_DATAGRAMS`] at least: a timer
/// that is late by less loses nothing.
const BURST_TIME: Duration = Duration::from_millis(2);

/// One batch is what the rate allows in this time: more would be a burst for the network, less
/// would cost a system call and a timer for each datagram.
const BATCH_TIME: Duration = Duration::from_millis(1);

/// What may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// So many bytes, in datagrams of at most [`super::Path::datagram_size`].
    Bytes(u64),
    /// Nothing before this time.
    NotBefore(Time),
    /// Nothing until something is acknowledged or lost.
    Congested,
}

/// Bytes at `rate` bytes a second in so much time, at most `u32::MAX`.
fn bytes(rate: u64, time: Duration) -> u32 {
    let bytes = u128::from(rate) * time.as_micros() / 1_000_000;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// How long `bytes` take at `rate` bytes a second, rounded up.
fn time(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros((bytes * 1_000_000).div_ceil(rate.max(1)))
}

/// Bytes that are sent at once at `rate` bytes a second: one batch for the kernel.
pub(super) fn batch(rate: u64, mtu: u16) -> u64 {
    bytes(rate, BATCH_TIME).max(2 * u32::from(mtu)).into()
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    tokens: u32,
    /// Most tokens that the bucket holds at any rate.
    max_burst: u32,
    /// Up to when tokens were added.
    filled: Time,
}

impl Pacer {
    /// A bucket with `tokens` bytes in it.
    pub(super) fn new(tokens: u32, max_burst: u32, now: Time) -> Self {
        Self {
            tokens,
            max_burst: max_burst.max(tokens),
            filled: now,
        }
    }

    /// Something was sent, allowed or not.
    pub(super) fn on_sent(&mut self, size: u16) {
        self.tokens = self.tokens.saturating_sub(size.into());
    }

    /// What may be sent at `rate` bytes a second, when `room` bytes are left in the window and
    /// datagrams have `mtu` bytes.
    pub(super) fn allowance(&mut self, now: Time, rate: u64, room: u64, mtu: u16) -> Allowance {
        let rate = rate.max(1);
        let floor = BURST_DATAGRAMS * u32::from(mtu);
        let capacity = bytes(rate, BURST_TIME).clamp(floor, self.max_burst.max(floor));
        self.fill(now, rate, capacity);
        let batch = batch(rate, mtu).min(capacity.into()).min(room);
        let tokens = u64::from(self.tokens);
        if tokens >= batch {
            return Allowance::Bytes(tokens.min(room));
        }
        let full = self.filled + time(batch - tokens, rate);
        // What was rounded off may already have passed.
        Allowance::NotBefore(full.max(now + Duration::from_micros(1)))
    }

    fn fill(&mut self, now: Time, rate: u64, capacity: u32) {
        let added = bytes(rate, now.since(self.filled));
        if added >= capacity.saturating_sub(self.tokens) {
            self.tokens = self.tokens.max(capacity);
            self.filled = self.filled.max(now);
        } else {
            // Only as far as whole bytes go: fractions are not lost, however often this is called.
            self.tokens += added;
            let spent = u64::from(added) * 1_000_000 / rate;
            self.filled = self.filled + Duration::from_micros(spent);
        }
    }
}
