//! Timers. Few things have one of their own: most time-outs are numbers in the registry
//! (`deadline.rs`).

use super::{Local, with_current};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// All timers of a thread, the earliest first.
#[derive(Default)]
pub(super) struct Timers {
    waiting: BTreeMap<TimerKey, Waker>,
    last: u64,
}

/// When, and which of those at the same time.
type TimerKey = (Instant, u64);

impl Timers {
    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the wakers of those that are due.
    pub(super) fn take_due(&mut self, woken: &mut Vec<Waker>) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= now
        {
            woken.push(entry.remove());
        }
    }
}

/// A future that is ready at a moment. It can be moved to another one.
#[derive(Debug)]
pub struct Sleep {
    at: Instant,
    /// Its entry, while it waits, and whom that wakes. The entry may be earlier than `at`: moving a
    /// timer to a later moment leaves it, and when it is due, another one is made.
    entry: Option<(TimerKey, Waker)>,
}

/// Ready after this long.
pub fn sleep(time: Duration) -> Sleep {
    sleep_until(at_most(Instant::now(), time))
}

/// Ready at this moment.
pub fn sleep_until(at: Instant) -> Sleep {
    Sleep { at, entry: None }
}

/// A moment that lies that far ahead, or as far as moments go.
fn at_most(from: Instant, time: Duration) -> Instant {
    /// Thirty years: nothing waits for longer.
    const FOREVER: Duration = Duration::from_secs(86400 * 365 * 30);
    from.checked_add(time).unwrap_or(from + FOREVER)
}

impl Sleep {
    /// Moves it to another moment. A later one costs nothing.
    pub fn reset(&mut self, at: Instant) {
        if at < self.at {
            self.forget();
        }
        self.at = at;
    }

    /// The moment.
    pub fn deadline(&self) -> Instant {
        self.at
    }

    fn forget(&mut self) {
        if let Some((key, _)) = self.entry.take() {
            // On another thread it wakes somebody for nothing.
            with_current(|local: &std::rc::Rc<Local>| {
                local.timers.borrow_mut().waiting.remove(&key)
            });
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if now >= self.at {
            self.forget();
            return Poll::Ready(());
        }
        // One that is due has been taken out, or will be, and wakes only once.
        let will_wake =
            |((due, _), waker): &(TimerKey, Waker)| now < *due && waker.will_wake(cx.waker());
        if self.entry.as_ref().is_some_and(will_wake) {
            return Poll::Pending;
        }
        self.forget();
        let at = self.at;
        let key = with_current(|local| {
            let timers = &mut *local.timers.borrow_mut();
            timers.last += 1;
            let key = (at, timers.last);
            timers.waiting.insert(key, cx.waker().clone());
            key
        });
        let key = key.expect("timers need the event loop of a thread");
        self.entry = Some((key, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The future's output, unless it takes longer than until `at`.
///
/// # Errors
/// [`Elapsed`] when it does.
pub async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut over = sleep_until(at);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut over).poll(cx).map(|()| Err(Elapsed))
    })
    .await
}
