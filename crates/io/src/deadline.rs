//! A time-out that is cheap to move.
//!
//! Connections push their time-out ahead with every request. A long time-out is a number in the
//! worker's [`registry`](crate::registry), which checks them a few times per second. Only short
//! time-outs, for which that is too coarse, get a timer of their own.

use crate::registry::{Entry, SWEEP_INTERVAL};
use crate::runtime::{Sleep, sleep_until};
use sealane_sys::time::monotonic_coarse_ms;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Time-outs of at least this length may fire up to [`SWEEP_INTERVAL`] late.
const COARSE_FROM: Duration = Duration::from_secs(2);

const _: () = assert!(COARSE_FROM.as_millis() >= 4 * SWEEP_INTERVAL.as_millis());

/// A deadline that may be moved at any time.
#[derive(Default)]
pub enum Deadline {
    /// There is none.
    #[default]
    None,
    /// Kept in the registry.
    Coarse,
    /// A timer.
    Precise(Pin<Box<Sleep>>),
}

impl Deadline {
    /// Sets the deadline to `after` from now, replacing the previous one.
    pub fn set(&mut self, entry: &Entry, after: Duration) {
        if after < COARSE_FROM {
            *self = Deadline::Precise(Box::pin(sleep_until(Instant::now() + after)));
            return;
        }
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        entry.set_deadline(monotonic_coarse_ms().saturating_add(after_ms));
        *self = Deadline::Coarse;
    }

    /// Ready once the deadline has passed; otherwise the task is woken when it does.
    pub fn poll_expired(&mut self, entry: &Entry, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Deadline::None => Poll::Pending,
            // The sweep wakes the task through the waker held by the entry.
            Deadline::Coarse if entry.has_expired() => Poll::Ready(()),
            Deadline::Coarse => Poll::Pending,
            Deadline::Precise(timer) => timer.as_mut().poll(cx),
        }
    }
}
