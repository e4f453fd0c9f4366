//! An operation in progress, split into the half that is computed and the half that waits.
//!
//! The two share one small mutex, which is held for a few instructions, and never while a waker
//! runs or memory is freed. The waiter stores its waker under the same lock under which it finds no
//! result; the other side stores the result under the lock under which it takes the waker. One of
//! them always sees the other, so no wake-up is lost.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use sealane_awslc::{KeyOperation, Secret};

/// Makes a job of an operation. Its queue time starts now.
pub fn job(operation: KeyOperation) -> (Job, PendingJob) {
    let shared = Arc::new(Shared {
        submitted_at: Instant::now(),
        queue_time_ns: AtomicU64::new(NOT_BEGUN),
        is_cancelled: AtomicBool::new(false),
        state: Mutex::new(JobState::Waiting(None)),
    });
    let job = Job {
        operation,
        shared: shared.clone(),
        is_complete: false,
    };
    (job, PendingJob { shared })
}

/// The accelerator's half of an operation. Dropping it before completion fails the operation.
pub struct Job {
    operation: KeyOperation,
    shared: Arc<Shared>,
    is_complete: bool,
}

/// The connection's half of an operation. Dropping it cancels the operation.
pub struct PendingJob {
    shared: Arc<Shared>,
}

struct Shared {
    submitted_at: Instant,
    /// [`NOT_BEGUN`], or how long the job waited for its turn.
    queue_time_ns: AtomicU64,
    /// Kept outside the state, so that a queue can be searched without taking locks.
    is_cancelled: AtomicBool,
    state: Mutex<JobState>,
}

const NOT_BEGUN: u64 = u64::MAX;

enum JobState {
    /// Not computed yet; holds the waker of the waiting side.
    Waiting(Option<Waker>),
    /// It succeeded or failed. A decrypted secret that is never taken is wiped.
    Done(Option<Secret>),
    /// The result has been taken or is no longer wanted.
    Over,
}

impl Job {
    /// What to compute.
    pub fn operation(&self) -> &KeyOperation {
        &self.operation
    }

    /// Whether the result is no longer wanted. Once true, it stays true.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed, since it hands over nothing but the answer itself.
        self.shared.is_cancelled.load(Ordering::Relaxed)
    }

    /// When it was made.
    #[cfg(test)]
    pub(crate) fn submitted_at(&self) -> Instant {
        self.shared.submitted_at
    }

    /// Records that its turn has come at `now`, which ends its
    /// [`queue_time`](PendingJob::queue_time). Returns that time. A job that has already begun
    /// keeps its first value.
    pub fn begin(&self, now: Instant) -> Duration {
        self.shared.begin(now)
    }

    /// Completes the job with the signature or the decrypted bytes, or with `None` if it failed,
    /// and wakes the waiter. If the job was cancelled, the result is wiped.
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
    /// The result; the inner `None` means that the operation failed. It is given once; later calls
    /// report a failure.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Secret>> {
        let mut state = self.shared.lock();
        if let JobState::Waiting(waker) = &mut *state {
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

    /// Like [`poll`](Self::poll), without waiting. `None`: not yet.
    pub fn try_take(&mut self) -> Option<Option<Secret>> {
        let mut state = self.shared.lock();
        match &*state {
            JobState::Waiting(_) => None,
            JobState::Done(_) | JobState::Over => Some(take(&mut state)),
        }
    }

    /// Blocks this thread until the job has ended, but no longer than `patience`: for tools, and
    /// for keys that are being opened. `None`: it has failed, or not ended.
    pub fn wait(mut self, patience: Duration) -> Option<Secret> {
        let deadline = Instant::now() + patience;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = self.poll(&mut context) {
                return result;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// How long the operation waited for its turn; counts up to now if it is still waiting.
    pub fn queue_time(&self) -> Duration {
        match self.shared.queue_time_ns.load(Ordering::Relaxed) {
            NOT_BEGUN => self.shared.submitted_at.elapsed(),
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

/// Wakes a thread that waits by itself.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drop for PendingJob {
    fn drop(&mut self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
        // A leftover waker or result is dropped after the lock: dropping a waker may run foreign
        // code.
        let left = mem::replace(&mut *self.shared.lock(), JobState::Over);
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

    /// Stores the result, unless there is one already or it is not wanted, and wakes the waiter.
    fn finish(&self, result: Option<Secret>) {
        if self.queue_time_ns.load(Ordering::Relaxed) == NOT_BEGUN {
            self.begin(Instant::now());
        }
        let mut state = self.lock();
        if !matches!(*state, JobState::Waiting(_)) {
            drop(state);
            return; // What came too late is wiped here, without the lock.
        }
        let before = mem::replace(&mut *state, JobState::Done(result));
        drop(state);
        if let JobState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        // Every state change is a single step that a panic cannot interrupt.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(state: &mut JobState) -> Option<Secret> {
    match mem::replace(state, JobState::Over) {
        JobState::Done(result) => result,
        JobState::Waiting(_) | JobState::Over => None,
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
            JobState::Waiting(_) => "waiting",
            JobState::Done(Some(_)) => "done",
            JobState::Done(None) => "failed",
            JobState::Over => "over",
        };
        write!(f, "PendingJob({state})")
    }
}
