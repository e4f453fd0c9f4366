//! The average of response times over a period that moves on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Parts that a period is divided into: it moves on in steps of one of them, and none is shorter
/// than a second.
const MAX_SLOTS: u64 = 60;

/// Response times of a location's requests; all threads add to it.
pub(crate) struct ResponseTimes {
    slot_ms: u64,
    // Locked for a few instructions, in locations with `sysguard_rt` only.
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    slots: Box<[Sum]>,
    /// The number of the newest slot since the clock's beginning.
    newest: u64,
    /// Of all slots.
    total: Sum,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    ms: u64,
    count: u64,
}

impl ResponseTimes {
    /// Nothing yet, of a period of whole seconds.
    pub(crate) fn new(period: Duration) -> ResponseTimes {
        let seconds = period.as_secs().max(1);
        let slot_s = seconds.div_ceil(MAX_SLOTS);
        let slots = seconds.div_ceil(slot_s) as usize; // at most MAX_SLOTS
        ResponseTimes {
            slot_ms: slot_s * 1000,
            window: Mutex::new(Window {
                slots: vec![Sum::default(); slots].into(),
                ..Window::default()
            }),
        }
    }

    /// Another response.
    pub(crate) fn add(&self, time: Duration, now_ms: u64) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut window = self.window_at(now_ms);
        let at = window.position();
        let Window { slots, total, .. } = &mut *window;
        for sum in [&mut slots[at], total] {
            sum.ms = sum.ms.saturating_add(ms);
            sum.count += 1;
        }
    }

    /// The average of the last period; `None` when there was no response.
    pub(crate) fn average_ms(&self, now_ms: u64) -> Option<u64> {
        let total = self.window_at(now_ms).total;
        total.ms.checked_div(total.count)
    }

    /// The window, moved on to now.
    fn window_at(&self, now_ms: u64) -> MutexGuard<'_, Window> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now_ms / self.slot_ms;
        let passed = now.saturating_sub(window.newest);
        if passed >= window.slots.len() as u64 {
            window.slots.fill(Sum::default());
            window.total = Sum::default();
            window.newest = now;
        }
        while window.newest < now {
            window.newest += 1;
            let at = window.position();
            let old = std::mem::take(&mut window.slots[at]);
            window.total.ms = window.total.ms.saturating_sub(old.ms);
            window.total.count -= old.count;
        }
        window
    }
}

impl Window {
    /// Where the newest slot is.
    fn position(&self) -> usize {
        (self.newest % self.slots.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_that_of_the_period() {
        let times = ResponseTimes::new(Duration::from_secs(2));
        let ms = Duration::from_millis;
        let begin = 1_000_000;
        assert_eq!(times.average_ms(begin), None);
        times.add(ms(100), begin);
        times.add(ms(300), begin + 500);
        assert_eq!(times.average_ms(begin + 999), Some(200));
        times.add(ms(800), begin + 1500);
        assert_eq!(times.average_ms(begin + 1999), Some(400));
        // The first second is left behind, then the other one.
        assert_eq!(times.average_ms(begin + 2000), Some(800));
        assert_eq!(times.average_ms(begin + 3000), None);
        times.add(ms(7), begin + 100_000);
        assert_eq!(times.average_ms(begin + 100_000), Some(7));
        // A clock that another thread read earlier changes nothing.
        assert_eq!(times.average_ms(begin + 99_000), Some(7));
    }

    #[test]
    fn long_periods_have_few_slots() {
        let times = ResponseTimes::new(Duration::from_secs(3600));
        times.add(Duration::from_millis(50), 0);
        assert_eq!(times.average_ms(3_599_999), Some(50));
        assert_eq!(times.average_ms(3_600_000), None);
        let slots = times.window_at(0).slots.len();
        assert_eq!(slots as u64, MAX_SLOTS);
    }
}
