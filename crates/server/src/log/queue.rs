//! The bounded queue between everyone who logs and the writer thread.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that wait for one log file at most, in the queue and in the writer's
/// hands together. Lines beyond it are dropped and counted.
pub const QUEUE_BYTES_PER_FILE: usize = 4 << 20;

/// Lines that wait to be written, lane by lane.
///
/// Pushing copies bytes under a lock that is held for nothing longer than such
/// a copy. The writer swaps whole buffers, so a steady stream allocates nothing.
#[derive(Debug)]
pub(super) struct Queue {
    running: AtomicBool,
    state: Mutex<State>,
    /// The writer waits here for work.
    work: Condvar,
    /// [`Queue::finish`] waits here for the writer's end.
    ended: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// One lane per destination, by index.
    pub(super) lanes: Vec<Lane>,
    /// The writer sleeps and wants to be woken by the next line.
    pub(super) writer_sleeps: bool,
    /// A lane is half full: the writer should not go on gathering.
    pub(super) urgent: bool,
    /// The process ends: write everything and stop.
    pub(super) finishing: bool,
}

/// What waits for one destination.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Complete lines, not yet taken by the writer.
    pub(super) pending: Vec<u8>,
    /// Bytes in `pending` and in the writer's hands.
    pub(super) held_bytes: usize,
    /// Lines dropped since the writer last looked.
    pub(super) dropped_lines: u64,
    /// A newly opened file to go on with, after what was logged before.
    pub(super) replacement: Option<OwnedFd>,
}

impl Queue {
    pub(super) fn new(lanes: usize) -> Queue {
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        Queue {
            running: AtomicBool::new(false),
            state: Mutex::new(State {
                lanes,
                ..State::default()
            }),
            work: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Whether a writer thread takes lines.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    pub(super) fn set_running(&self, running: bool) {
        // Under the lock, so that whoever waits for the end cannot miss it and
        // nobody pushes what would not be taken any more.
        let mut state = self.lock();
        state.finishing = false;
        self.running.store(running, Ordering::Release);
        self.ended.notify_all();
    }

    /// Adds complete lines to a lane, or counts them as dropped. False when the
    /// writer has just ended and the caller has to write itself.
    pub(super) fn push(&self, index: usize, bytes: &[u8], lines: u64) -> bool {
        let mut state = self.lock();
        if !self.is_running() {
            return false;
        }
        let lane = &mut state.lanes[index];
        if lane.held_bytes + bytes.len() > QUEUE_BYTES_PER_FILE {
            lane.dropped_lines += lines;
            return true;
        }
        lane.pending.extend_from_slice(bytes);
        lane.held_bytes += bytes.len();
        let half_full = lane.pending.len() >= QUEUE_BYTES_PER_FILE / 2;
        let wake = state.writer_sleeps || (half_full && !state.urgent);
        state.urgent |= half_full;
        state.writer_sleeps = false;
        drop(state);
        if wake {
            self.work.notify_one();
        }
        true
    }

    /// Hands the writer a newly opened file for a lane.
    pub(super) fn replace(&self, index: usize, file: OwnedFd) {
        let mut state = self.lock();
        state.lanes[index].replacement = Some(file);
        state.writer_sleeps = false;
        drop(state);
        self.work.notify_one();
    }

    /// Asks the writer to write everything and end, and waits for it. False
    /// when it did not end in time.
    pub(super) fn finish(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        state.finishing = true;
        state.writer_sleeps = false;
        self.work.notify_one();
        let wait = self
            .ended
            .wait_timeout_while(state, timeout, |_| self.is_running());
        let (_state, result) = wait.unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }

    /// For the writer: waits until there is something to do or the time is over.
    pub(super) fn wait_for_work(&self, timeout: Option<Duration>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.has_work() {
            return state;
        }
        state.writer_sleeps = true;
        let sleeping = |state: &mut State| state.writer_sleeps;
        let mut state = match timeout {
            None => self
                .work
                .wait_while(state, sleeping)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let wait = self.work.wait_timeout_while(state, time, sleeping);
                wait.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.writer_sleeps = false;
        state
    }

    /// For the writer: lets more lines come together, unless it is urgent.
    pub(super) fn gather<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        time: Duration,
    ) -> MutexGuard<'a, State> {
        let calm = |state: &mut State| !state.finishing && !state.urgent;
        let wait = self.work.wait_timeout_while(state, time, calm);
        wait.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A panic while the lock was held cannot leave a lane in a bad state: the
    /// worst is a line cut short.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    pub(super) fn has_work(&self) -> bool {
        !self.pending.is_empty() || self.dropped_lines > 0 || self.replacement.is_some()
    }
}

impl State {
    /// Whether the writer has something to take.
    pub(super) fn has_work(&self) -> bool {
        self.finishing || self.lanes.iter().any(Lane::has_work)
    }
}
