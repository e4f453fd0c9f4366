//! An operation on its way: the half that is computed and the half that waits.
//!
//! The two share one small mutex, which is held for a few instructions, and never while a
//! waker runs or memory is freed. The waiter stores its waker under the same lock under which it finds
//! no result, and the other side stores the result under the lock under which it takes the
//! waker: one of them sees the other, so that no wake-up is lost.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sealane_awslc::{KeyOperation, Secret};

/// Makes a job of an operation. The time it waits counts from here.
pub fn job(operation: KeyOperation) -> (Job, PendingJob) {
    let shared = Arc::new(Shared {
        submitted_at: Instant::now(),
        queue_time_ns: AtomicU64::new(NOT_BEGUN),
        is_cancelled: AtomicBool::new(false),
        state: Mutex::new(State::Waiting(None)),
    });
    let job = Job {
        operation,
        shared: shared.clone(),
        is_complete: false,
    };
    (job, PendingJob { shared })
}

/// The half of an operation that an accelerator has. Dropping it uncompleted means that the
/// operation failed.
pub struct Job {
    operation: KeyOperation,
    shared: Arc<Shared>,
    is_complete: bool,
}

/// The half of an operation that the connection has. Dropping it cancels the operation.
pub struct PendingJob {
    shared: Arc<Shared>,
}

struct Shared {
    submitted_at: Instant,
    /// [`NOT_BEGUN`], or how long the job waited for its turn.
    queue_time_ns: AtomicU64,
    /// Apart from the state, so that a queue is searched without taking locks.
    is_cancelled: AtomicBool,
    state: Mutex<State>,
}

const NOT_BEGUN: u64 = u64::MAX;

enum State {
    /// Nobody has computed it yet; whom to wake.
    Waiting(Option<Waker>),
    /// It succeeded or failed. A decrypted secret that nobody takes is wiped.
    Done(Option<Secret>),
    /// The result was taken, or nobody wants it any more.
    Over,
}

impl Job {
    /// What to compute.
    pub fn operation(&self) -> &KeyOperation {
        &self.operation
    }

    /// Whether nobody waits for the result any more. It stays so.
    pub fn is_cancelled(&self) -> bool {
        // Nothing but the answer is handed over by it.
        self.shared.is_cancelled.load(Ordering::Relaxed)
    }

    /// When it was made.
    #[cfg(test)]
    pub(crate) fn submitted_at(&self) -> Instant {
        self.shared.submitted_at
    }

    /// Says that its turn has come at `now`, which ends its [`queue_time`](PendingJob::queue_time).
    /// Returns that time. A job that was begun before keeps the time it had.
    pub fn begin(&self, now: Instant) -> Duration {
        self.shared.begin(now)
    }

    /// Completes the job with the signature or the decrypted bytes, or with `None` if it
    /// failed, and wakes the waiter. If nobody waits any more the result is wiped.
    pub fn complete(mut self, result: Option<Secret>) {
        self.shared.finish(result);
        self.is_complete = true;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_complete {
            self.shared.finish(None);
        }
    }
}

impl PendingJob {
    /// The result, `None` inside if the operation failed. It is given once; later calls say that
    /// the operation failed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Secret>> {
        let mut state = self.shared.lock();
        if let State::Waiting(waker) = &mut *state {
            let is_known = waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()));
            let replaced = match is_known {
                true => None,
                false => waker.replace(cx.waker().clone()),
            };
            drop(state);
            drop(replaced);
            return Poll::Pending;
        }
        Poll::Ready(take(&mut state))
    }

    /// As [`poll`](Self::poll), for those who do not wait. `None`: not yet.
    pub fn try_take(&mut self) -> Option<Option<Secret>> {
        let mut state = self.shared.lock();
        match &*state {
            State::Waiting(_) => None,
            State::Done(_) | State::Over => Some(take(&mut state)),
        }
    }

    /// How long the operation waited for its turn; until now, if it still does.
    pub fn queue_time(&self) -> Duration {
        match self.shared.queue_time_ns.load(Ordering::Relaxed) {
            NOT_BEGUN => self.shared.submitted_at.elapsed(),
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

impl Drop for PendingJob {
    fn drop(&mut self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
        // A waker or a result that is left goes after the lock does: dropping a waker may run
        // code that is not ours.
        let left = mem::replace(&mut *self.shared.lock(), State::Over);
        drop(left);
    }
}

impl Shared {
    fn begin(&self, now: Instant) -> Duration {
        let waited = now.saturating_duration_since(self.submitted_at);
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(NOT_BEGUN - 1);
        let begun = self.queue_time_ns.compare_exchange(
            NOT_BEGUN,
            waited_ns,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match begun {
            Ok(_) => waited,
            Err(before_ns) => Duration::from_nanos(before_ns),
        }
    }

    /// Stores the result, unless there is one or nobody wants it, and wakes the waiter.
    fn finish(&self, result: Option<Secret>) {
        if self.queue_time_ns.load(Ordering::Relaxed) == NOT_BEGUN {
            self.begin(Instant::now());
        }
        let mut state = self.lock();
        if !matches!(*state, State::Waiting(_)) {
            drop(state);
            return; // What came too late is wiped here, without the lock.
        }
        let before = mem::replace(&mut *state, State::Done(result));
        drop(state);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No change of the state is made in steps that a panic could come between.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(state: &mut State) -> Option<Secret> {
    match mem::replace(state, State::Over) {
        State::Done(result) => result,
        State::Waiting(_) | State::Over => None,
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("operation", &self.operation)
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.shared.lock() {
            State::Waiting(_) => "waiting",
            State::Done(Some(_)) => "done",
            State::Done(None) => "failed",
            State::Over => "over",
        };
        write!(f, "PendingJob({state})")
    }
}
