//! A time-out that is cheap to move.
//!
//! Connections push their time-out ahead with every request. Re-arming a timer
//! each time would cost more than the request's own work; instead the armed
//! timer is left alone while the deadline only moves later, and looks again when
//! it fires.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A deadline that may be moved or cleared at any time.
pub(crate) struct Deadline {
    at: Option<Instant>,
    /// Armed for no later than `at`, or idle. Boxed: most connections only ever
    /// need it while they wait, and a task should be small.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// No deadline.
    pub(crate) fn none() -> Deadline {
        Deadline { at: None, timer: None }
    }

    /// Sets the deadline to `now + after`.
    pub(crate) fn set(&mut self, now: Instant, after: Duration) {
        self.at = now.checked_add(after);
    }

    /// Ready once the deadline has passed; otherwise the task is woken when it does.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending;
        };
        loop {
            match &mut self.timer {
                Some(timer) if timer.deadline() <= at => {
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if Instant::now() >= at {
                        return Poll::Ready(());
                    }
                    timer.as_mut().reset(at);
                }
                Some(timer) => timer.as_mut().reset(at),
                None => self.timer = Some(Box::pin(tokio::time::sleep_until(at))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime with a timer only")
    }

    #[test]
    fn moves_later_without_firing_early() {
        runtime().block_on(async {
            let start = Instant::now();
            let mut deadline = Deadline::none();
            deadline.set(start, Duration::from_secs(10));
            poll_fn(|cx| {
                assert!(deadline.poll_expired(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            deadline.set(start, Duration::from_secs(25));
            poll_fn(|cx| deadline.poll_expired(cx)).await;
            assert_eq!(start.elapsed().as_secs(), 25);
        });
    }

    #[test]
    fn moves_earlier() {
        runtime().block_on(async {
            let start = Instant::now();
            let mut deadline = Deadline::none();
            deadline.set(start, Duration::from_secs(60));
            poll_fn(|cx| {
                assert!(deadline.poll_expired(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            deadline.set(start, Duration::from_secs(5));
            poll_fn(|cx| deadline.poll_expired(cx)).await;
            assert_eq!(start.elapsed().as_secs(), 5);
        });
    }

    #[test]
    fn none_never_expires() {
        runtime().block_on(async {
            let mut deadline = Deadline::none();
            let expired = tokio::time::timeout(
                Duration::from_secs(3600),
                poll_fn(|cx| deadline.poll_expired(cx)),
            );
            assert!(expired.await.is_err());
        });
    }
}
