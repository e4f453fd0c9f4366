//! `proxy_upload_rate` and `proxy_download_rate`, as nginx counts: what may have been received by
//! now, one second ahead, since the relay began.

use sealane_io::runtime::{self, Sleep};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// What holds a direction to its rate.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Until more may be received.
    delay: Option<Pin<Box<Sleep>>>,
}

impl Throttle {
    /// Ready with how many of `max` bytes may be received now, at `rate` bytes a second (0 for no
    /// limit), by a direction that has `received` bytes since it began.
    pub(crate) fn poll_allowed(
        &mut self,
        cx: &mut Context<'_>,
        rate: u64,
        began: Instant,
        received: u64,
        max: usize,
    ) -> Poll<usize> {
        if rate == 0 {
            return Poll::Ready(max);
        }
        loop {
            if let Some(delay) = &mut self.delay {
                ready!(delay.as_mut().poll(cx));
                self.delay = None;
            }
            match allowed(rate, began.elapsed(), received, max) {
                Ok(max) => return Poll::Ready(max),
                Err(time) => self.wait(time),
            }
        }
    }

    /// So many bytes were received at once.
    pub(crate) fn note(&mut self, rate: u64, count: usize) {
        if rate > 0
            && let Some(time) = pause(rate, count)
        {
            self.wait(time);
        }
    }

    /// Wakes the task when it waits no longer, if nothing else asks.
    pub(crate) fn watch(&mut self, cx: &mut Context<'_>) {
        let delay = self.delay.as_mut();
        if delay.is_some_and(|delay| delay.as_mut().poll(cx).is_ready()) {
            self.delay = None;
        }
    }

    /// Whether it waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.delay.is_some()
    }

    fn wait(&mut self, time: Duration) {
        self.delay = Some(Box::pin(runtime::sleep(time)));
    }
}

/// How many of `max` bytes may be received at `rate` bytes a second, after `elapsed` and
/// `received` bytes; an error says how long to wait until it is one.
fn allowed(rate: u64, elapsed: Duration, received: u64, max: usize) -> Result<usize, Duration> {
    // Neither can overflow: there are not that many seconds.
    let so_far = u128::from(rate) * (elapsed.as_millis() + 1000) / 1000;
    match so_far.checked_sub(u128::from(received)) {
        None | Some(0) => {
            let over = u128::from(received) - so_far;
            let millis = over * 1000 / u128::from(rate.max(1)) + 1;
            Err(Duration::from_millis(
                u64::try_from(millis).unwrap_or(u64::MAX),
            ))
        }
        Some(left) => Ok(usize::try_from(left).map_or(max, |left| left.min(max))),
    }
}

/// How long `count` bytes take at that rate, if that is a time to wait for.
fn pause(rate: u64, count: usize) -> Option<Duration> {
    let millis = u128::from(count as u64) * 1000 / u128::from(rate.max(1));
    let millis = u64::try_from(millis).unwrap_or(u64::MAX);
    (millis > 0).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_second_may_be_received_ahead() {
        assert_eq!(allowed(1000, Duration::ZERO, 0, 16384), Ok(1000));
        assert_eq!(allowed(1000, SECOND, 500, 16384), Ok(1500));
        assert_eq!(allowed(1000, SECOND, 500, 16), Ok(16));
        assert_eq!(allowed(u64::MAX, SECOND * 1000, 1, 16), Ok(16));
    }

    #[test]
    fn what_was_received_too_early_is_waited_for() {
        let wait = |received| allowed(1000, SECOND, received, 16384);
        assert_eq!(wait(2000), Err(Duration::from_millis(1)));
        assert_eq!(wait(5000), Err(Duration::from_millis(3001)));
        assert_eq!(
            allowed(1, Duration::ZERO, u64::MAX, 1),
            Err(Duration::from_millis(u64::MAX))
        );
    }

    #[test]
    fn a_batch_takes_its_time() {
        assert_eq!(pause(1000, 500), Some(Duration::from_millis(500)));
        assert_eq!(pause(1_000_000, 500), None);
    }
}
