//! Windows of flow control that we open for the peer, RFC 9000 section 4.

use std::time::Duration;

use crate::{Time, varint};

/// A window: how far the peer may send.
#[derive(Debug)]
pub(super) struct Window {
    /// Up to which offset (or sum) the peer may send.
    pub(super) max: u64,
    /// The same without what was given early.
    regular: u64,
    consumed: u64,
    size: u64,
    /// When it was last moved on.
    moved: Time,
    /// The peer says that it waits.
    is_awaited: bool,
}

/// What is given early is at least this part of the window, unless the peer says that it waits.
const EARLY_PART: u64 = 64;

impl Window {
    pub(super) fn new(size: u64) -> Self {
        let size = size.min(varint::MAX);
        Self {
            max: size,
            regular: size,
            consumed: 0,
            size,
            moved: Time::ZERO,
            is_awaited: false,
        }
    }

    /// So many bytes of the `received` ones are consumed. Returns whether the peer has to be told
    /// of a new maximum: half of the window is consumed by then, RFC 9000 section 4.2.
    pub(super) fn consume(&mut self, bytes: u64, received: u64) -> bool {
        self.consumed = self.consumed.saturating_add(bytes).min(received);
        let max = self.consumed_and_size();
        let due = max > self.regular && max - self.regular >= self.size.div_ceil(2);
        if due {
            self.open_to(max);
        }
        due
    }

    /// Returns whether the peer has to be told of a new maximum before half is consumed: it has
    /// little left, and what keeps the rest of the window may keep it for long.
    pub(super) fn open_early(&mut self, received: u64) -> bool {
        let max = self.consumed_and_size();
        let freed = max.saturating_sub(self.max);
        let left = self.max.saturating_sub(received);
        let is_due = match self.is_awaited {
            true => freed > 0,
            false => left < self.size / 4 && freed >= left.max(self.size / EARLY_PART).max(1),
        };
        if is_due {
            self.max = max;
            self.is_awaited = false;
        }
        is_due
    }

    /// DATA_BLOCKED: the peer waits at this maximum.
    pub(super) fn note_awaited(&mut self, max: u64) {
        self.is_awaited |= max >= self.max;
    }

    fn consumed_and_size(&self) -> u64 {
        self.consumed.saturating_add(self.size).min(varint::MAX)
    }

    fn open_to(&mut self, max: u64) {
        self.regular = max;
        self.max = self.max.max(max);
        self.is_awaited = false;
    }

    /// The same, and the window grows up to `ceiling` while half of it is consumed within two round
    /// trips: it may be what limits the peer.
    pub(super) fn consume_and_grow(
        &mut self,
        bytes: u64,
        received: u64,
        ceiling: u64,
        (now, rtt): (Time, Duration),
    ) -> bool {
        if !self.consume(bytes, received) {
            return false;
        }
        if self.moved != Time::ZERO && now.since(self.moved) < rtt.saturating_mul(2) {
            let grown = self.size.saturating_mul(2).min(ceiling).max(self.size);
            self.size = grown;
            self.open_to(self.consumed_and_size());
        }
        self.moved = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_told_when_half_is_consumed() {
        let mut window = Window::new(100);
        assert!(!window.consume(49, 100));
        assert!(window.consume(1, 100));
        assert_eq!(window.max, 150);
        // No more than was received.
        assert!(window.consume(1_000, 100));
        assert_eq!(window.max, 200);
        let mut closed = Window::new(0);
        assert!(!closed.consume(10, 0));
        let mut largest = Window::new(u64::MAX);
        assert!(!largest.consume(u64::MAX, varint::MAX));
        assert_eq!(largest.max, varint::MAX);
    }

    #[test]
    fn it_grows_while_it_is_consumed_fast_and_no_further_than_the_ceiling() {
        let rtt = Duration::from_millis(10);
        let mut window = Window::new(100);
        let mut now = Time::from_micros(1);
        let mut received = 0;
        for (gap_ms, max) in [(5, 200), (5, 400), (5, 550), (5, 700), (50, 850)] {
            now = now + Duration::from_millis(gap_ms);
            let free = window.max - received;
            received += free;
            assert!(window.consume_and_grow(free, received, 150, (now, rtt)));
            assert_eq!(window.max, max.min(received + 150));
        }
        assert_eq!(window.size, 150);
    }
}
