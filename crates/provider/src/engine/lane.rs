//! What one thread of an engine shares with those that submit operations to it, with a provider's
//! threads that wake its jobs, and with the watchdog.
//!
//! All of it is behind one mutex, which is held for a few instructions, and never while something
//! is computed, completed or freed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealane_sys::epoll::EventCounter;
use sealane_tls::accelerator::Job;

use crate::{Failure, ProviderKey};

/// An operation that waits for its turn.
pub(super) struct Queued {
    pub(super) job: Job,
    pub(super) key: Arc<ProviderKey>,
    pub(super) submitted_at: Instant,
}

/// What has timed out.
#[derive(Default)]
pub(super) struct Expired {
    /// It never began.
    pub(super) queued: Vec<Job>,
    /// It hangs.
    pub(super) begun: Vec<Job>,
}

/// What a thread is to do next.
pub(super) struct Turn {
    /// Jobs that can go on.
    pub(super) woken: Vec<usize>,
    /// Operations to begin.
    pub(super) new: Vec<Queued>,
    /// More of them are queued.
    pub(super) has_more: bool,
    /// Nothing else is to be done, ever.
    pub(super) is_over: bool,
}

pub(super) struct Lane {
    state: Mutex<LaneState>,
    /// Told when the thread has ended.
    ended: Condvar,
    /// Wakes the thread.
    signal: EventCounter,
    is_signalled: AtomicBool,
    /// Operations that are queued or in flight, without those that hang.
    load: AtomicUsize,
    hanging: AtomicUsize,
    max_in_flight: usize,
    timeout: Duration,
    /// Since when the thread has been in the provider, in nanoseconds since `made_at`, or
    /// [`NOT_INSIDE`].
    inside_since_ns: AtomicU64,
    made_at: Instant,
}

const NOT_INSIDE: u64 = u64::MAX;

#[derive(Default)]
struct LaneState {
    queue: VecDeque<Queued>,
    /// By the numbers of jobs.
    begun: Vec<Option<Begun>>,
    woken: Vec<usize>,
    is_stopping: bool,
    has_ended: bool,
}

struct Begun {
    /// `None`: it has timed out.
    job: Option<Job>,
    submitted_at: Instant,
}

impl Lane {
    pub(super) fn new(max_in_flight: usize, timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            ended: Condvar::new(),
            signal: EventCounter::new()?,
            is_signalled: AtomicBool::new(false),
            load: AtomicUsize::new(0),
            hanging: AtomicUsize::new(0),
            max_in_flight,
            timeout,
            inside_since_ns: AtomicU64::new(NOT_INSIDE),
            made_at: Instant::now(),
        })
    }

    pub(super) fn max_in_flight(&self) -> usize {
        self.max_in_flight
    }

    /// How many operations it has.
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Why it takes no operation at the moment.
    pub(super) fn refusal(&self, now: Instant) -> Option<Failure> {
        let since_ns = self.inside_since_ns.load(Ordering::Relaxed);
        let is_inside_too_long = since_ns != NOT_INSIDE
            && self.nanoseconds(now).saturating_sub(since_ns) > self.timeout.as_nanos() as u64;
        if self.hanging.load(Ordering::Relaxed) >= self.max_in_flight {
            Some(Failure::AllHanging)
        } else if is_inside_too_long {
            Some(Failure::Blocked)
        } else {
            None
        }
    }

    /// Queues an operation. It comes back if the thread stops.
    pub(super) fn push(&self, queued: Queued) -> Result<(), Queued> {
        let mut state = self.lock();
        if state.is_stopping {
            return Err(queued);
        }
        self.load.fetch_add(1, Ordering::Relaxed);
        state.queue.push_back(queued);
        drop(state);
        self.wake();
        Ok(())
    }

    /// A provider says that a job can go on. Called on any thread.
    pub(super) fn wake_job(&self, number: usize) {
        self.lock().woken.push(number);
        self.wake();
    }

    fn wake(&self) {
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            self.signal.add();
        }
    }

    /// Readable when there may be something for [`turn`](Self::turn).
    pub(super) fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// What is next for the thread: at most `most` new operations.
    pub(super) fn turn(&self, most: usize) -> Turn {
        // Whatever is added after this signals again.
        self.is_signalled.store(false, Ordering::SeqCst);
        let mut state = self.lock();
        let count = most.min(state.queue.len());
        Turn {
            woken: std::mem::take(&mut state.woken),
            new: state.queue.drain(..count).collect(),
            has_more: !state.queue.is_empty(),
            is_over: state.is_stopping
                && state
                    .begun
                    .iter()
                    .flatten()
                    .all(|begun| begun.job.is_none()),
        }
    }

    /// The thread begins an operation.
    pub(super) fn begin(&self, number: usize, job: Job, submitted_at: Instant) {
        let mut state = self.lock();
        if state.begun.len() <= number {
            state.begun.resize_with(number + 1, || None);
        }
        state.begun[number] = Some(Begun {
            job: Some(job),
            submitted_at,
        });
    }

    /// An operation has ended, or was never begun. `None`: it has timed out before.
    pub(super) fn end(&self, number: usize) -> Option<Job> {
        let begun = self.lock().begun.get_mut(number).and_then(Option::take)?;
        match begun.job {
            Some(job) => {
                self.load.fetch_sub(1, Ordering::Relaxed);
                Some(job)
            }
            None => {
                self.hanging.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// An operation was dropped from the queue.
    pub(super) fn forget(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// The thread enters the provider, or leaves it.
    pub(super) fn set_inside(&self, since: Option<Instant>) {
        let since_ns = since.map_or(NOT_INSIDE, |now| self.nanoseconds(now));
        self.inside_since_ns.store(since_ns, Ordering::Relaxed);
    }

    /// Takes away what has timed out. Operations that have begun hang from now on.
    pub(super) fn expire(&self, now: Instant) -> Expired {
        let mut expired = Expired::default();
        let is_late =
            |submitted_at: Instant| now.saturating_duration_since(submitted_at) >= self.timeout;
        let mut state = self.lock();
        // The queue is in the order of submission, but for moments.
        while state
            .queue
            .front()
            .is_some_and(|queued| is_late(queued.submitted_at))
        {
            expired
                .queued
                .extend(state.queue.pop_front().map(|queued| queued.job));
        }
        for begun in state.begun.iter_mut().flatten() {
            if is_late(begun.submitted_at) {
                expired.begun.extend(begun.job.take());
            }
        }
        self.hanging
            .fetch_add(expired.begun.len(), Ordering::Relaxed);
        drop(state);
        let count = expired.queued.len() + expired.begun.len();
        self.load.fetch_sub(count, Ordering::Relaxed);
        if count > 0 {
            // A thread that stops may have waited for these only.
            self.wake();
        }
        expired
    }

    /// Begins nothing from now on. Returns what was queued.
    pub(super) fn stop(&self) -> VecDeque<Queued> {
        let mut state = self.lock();
        state.is_stopping = true;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        self.load.fetch_sub(queue.len(), Ordering::Relaxed);
        self.wake();
        queue
    }

    /// The thread ends.
    fn set_ended(&self) {
        self.lock().has_ended = true;
        self.ended.notify_all();
    }

    /// Waits until the thread has ended. `false`: it has not.
    pub(super) fn wait_for_end(&self, deadline: Instant) -> bool {
        let time = deadline.saturating_duration_since(Instant::now());
        let state = self.lock();
        let waited = self
            .ended
            .wait_timeout_while(state, time, |state| !state.has_ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_ended
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        let time = now.saturating_duration_since(self.made_at);
        u64::try_from(time.as_nanos()).unwrap_or(NOT_INSIDE - 1)
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // It is consistent between any two of the calls above.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a thread has ended when it is dropped.
pub(super) struct Ending(pub(super) Arc<Lane>);

impl Drop for Ending {
    fn drop(&mut self) {
        // Nothing is left unless the thread panicked.
        drop(self.0.stop());
        self.0.set_ended();
    }
}
