//! The bounded queue between all loggers and the writer thread.

use super::Logger;
use super::destination::Hold;
use super::outgoing::KEPT_BUFFER_BYTES;
use super::sink::Sink;
use sealane_sys::file;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most bytes pending for one log, in the queue and in the writer together. Lines beyond it are
/// dropped and counted. `log_queue_size` changes it.
pub const QUEUE_BYTES_PER_FILE: usize = 4 << 20;

/// How often a crashing process checks whether it can write the pending lines, and how long it
/// waits in between: a writer that is busy is done soon.
const LAST_ATTEMPTS: u32 = 50;
const LAST_PAUSE: Duration = Duration::from_millis(1);

/// Lines waiting to be written, in one lane for each open destination, whichever configurations it
/// belongs to.
///
/// Pushing copies bytes under a lock that is held only for such copies. The writer swaps whole
/// buffers, so a steady stream allocates nothing.
#[derive(Debug)]
pub(super) struct Queue {
    running: AtomicBool,
    /// `log_queue_size`.
    limit_bytes: AtomicUsize,
    /// Lines lost in this process.
    lost_lines: AtomicU64,
    state: Mutex<QueueState>,
    /// The writer waits here for work.
    work: Condvar,
    /// [`Queue::finish`] waits here for the writer to end.
    ended: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    /// One lane per destination; `None` where one has been closed.
    pub(super) lanes: Vec<Option<Lane>>,
    /// The new place for the writer's messages about the logs themselves.
    pub(super) notices: Option<Logger>,
    /// The writer is asleep, and the next line must wake it.
    pub(super) writer_sleeps: bool,
    /// A lane is half full: the writer should stop gathering.
    pub(super) urgent: bool,
    /// The process is ending: write everything and stop.
    pub(super) finishing: bool,
}

/// The pending lines of one destination.
#[derive(Debug)]
pub(super) struct Lane {
    /// What is written to.
    pub(super) sink: Arc<Sink>,
    /// `buffer=` and `flush=` of the access logs that name it.
    pub(super) hold: Option<Hold>,
    /// No handle logs here any more: it ends when the pending lines are written.
    pub(super) closing: bool,
    /// Complete lines, not yet taken by the writer.
    pub(super) pending: Vec<u8>,
    /// Bytes in `pending` and in the writer.
    pub(super) held_bytes: usize,
    /// Lines dropped since the writer last checked.
    pub(super) dropped_lines: u64,
    /// A newly opened file to switch to, after everything logged so far.
    pub(super) replacement: Option<Replacement>,
}

/// A file that replaces another.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) file: OwnedFd,
    /// How many of the waiting bytes still belong to the old file.
    pub(super) after_bytes: usize,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            running: AtomicBool::new(false),
            limit_bytes: AtomicUsize::new(QUEUE_BYTES_PER_FILE),
            lost_lines: AtomicU64::new(0),
            state: Mutex::default(),
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
        // Set under the lock, so that a thread waiting for the end cannot miss it and no thread
        // pushes lines that would not be taken any more.
        let mut state = self.lock();
        state.finishing = false;
        self.running.store(running, Ordering::Release);
        self.ended.notify_all();
    }

    /// The most bytes pending for one log.
    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit_bytes(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Lines lost in this process, for any reason.
    pub(super) fn lost_lines(&self) -> u64 {
        self.lost_lines.load(Ordering::Relaxed)
    }

    pub(super) fn count_lost(&self, lines: u64) {
        self.lost_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// How lines of a lane are compressed.
    pub(super) fn gzip_of(&self, number: usize) -> Option<u32> {
        self.lock().open_lane(number).hold?.gzip
    }

    /// Makes the writer check all lanes.
    pub(super) fn wake_up(&self) {
        self.wake(self.lock());
    }

    /// Opens a lane for a new destination; its number is free again after [`Queue::close_lane`].
    pub(super) fn open_lane(&self, sink: &Arc<Sink>, hold: Option<Hold>) -> usize {
        let lane = Lane {
            sink: Arc::clone(sink),
            hold,
            closing: false,
            pending: Vec::new(),
            held_bytes: 0,
            dropped_lines: 0,
            replacement: None,
        };
        let mut state = self.lock();
        let free = state.lanes.iter().position(Option::is_none);
        let number = free.unwrap_or(state.lanes.len());
        if free.is_none() {
            state.lanes.push(None);
        }
        state.lanes[number] = Some(lane);
        number
    }

    /// Ends a lane, once the writer has written its pending lines.
    pub(super) fn close_lane(&self, number: usize) {
        let mut state = self.lock();
        if self.is_running() {
            state.open_lane(number).closing = true;
            self.wake(state);
        } else {
            state.lanes[number] = None;
        }
    }

    /// Changes how long lines of a lane are held back.
    pub(super) fn set_hold(&self, number: usize, hold: Option<Hold>) {
        let mut state = self.lock();
        state.open_lane(number).hold = hold;
        self.wake(state); // what was held back may be due
    }

    /// Changes where the writer reports about the logs themselves.
    pub(super) fn set_notices(&self, notices: Logger) {
        let previous = self.lock().notices.replace(notices);
        drop(previous); // not under the lock: it may close its destination
    }

    /// Runs in the handler of a fault: writes lines that the writer has not taken yet, so that the
    /// last lines are not lost with the process. Does not wait for a lock or allocate. Lines that
    /// are held back (`buffer=`) or do not go to a file stay unwritten.
    pub(super) fn write_last_lines(&self) {
        for _ in 0..LAST_ATTEMPTS {
            // The writer writes the lines that it has taken by itself, and first.
            match self.state.try_lock() {
                Ok(state) if !state.lanes.iter().flatten().any(Lane::is_being_written) => {
                    state
                        .lanes
                        .iter()
                        .flatten()
                        .for_each(Lane::write_last_lines);
                    std::mem::forget(state); // nobody writes them again
                    return;
                }
                _ => std::thread::sleep(LAST_PAUSE),
            }
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, QueueState>) {
        state.writer_sleeps = false;
        drop(state);
        self.work.notify_one();
    }

    /// Adds complete lines to a lane, or counts them as dropped. Returns false if the writer has
    /// just ended and the caller must write them itself.
    pub(super) fn push(&self, index: usize, bytes: &[u8], lines: u64) -> bool {
        let mut state = self.lock();
        if !self.is_running() {
            return false;
        }
        let lane = state.open_lane(index);
        let limit_bytes = self.limit_bytes();
        if lane.held_bytes + bytes.len() > limit_bytes {
            lane.dropped_lines += lines;
            self.count_lost(lines);
            return true;
        }
        lane.pending.extend_from_slice(bytes);
        lane.held_bytes += bytes.len();
        let half_full = lane.pending.len() >= limit_bytes / 2;
        let wake = state.writer_sleeps || (half_full && !state.urgent);
        state.urgent |= half_full;
        state.writer_sleeps = false;
        drop(state);
        if wake {
            self.work.notify_one();
        }
        true
    }

    /// Passes the writer a newly opened file for a lane.
    pub(super) fn replace(&self, index: usize, file: OwnedFd) {
        let mut state = self.lock();
        let lane = state.open_lane(index);
        // A replacement that was not noticed yet has received no line.
        let earlier = lane.replacement.take();
        let after_bytes = earlier
            .as_ref()
            .map_or(lane.pending.len(), |earlier| earlier.after_bytes);
        lane.replacement = Some(Replacement { file, after_bytes });
        self.wake(state);
        drop(earlier);
    }

    /// Asks the writer to write everything and end, and waits for it. Returns false if it did not
    /// end in time.
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

    /// For the writer: waits for work or until the time is over.
    pub(super) fn wait_for_work(&self, timeout: Option<Duration>) -> MutexGuard<'_, QueueState> {
        let mut state = self.lock();
        if state.has_work() {
            return state;
        }
        state.writer_sleeps = true;
        let sleeping = |state: &mut QueueState| state.writer_sleeps;
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

    /// For the writer: lets more lines gather, unless it is urgent.
    pub(super) fn gather<'a>(
        &'a self,
        state: MutexGuard<'a, QueueState>,
        time: Duration,
    ) -> MutexGuard<'a, QueueState> {
        let calm = |state: &mut QueueState| !state.finishing && !state.urgent;
        let wait = self.work.wait_timeout_while(state, time, calm);
        wait.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A panic while the lock was held cannot leave a lane in a bad state; at worst a line is cut
    /// short.
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Whether the writer has lines that it is not holding back.
    fn is_being_written(&self) -> bool {
        self.hold.is_none() && self.held_bytes > self.pending.len()
    }

    fn write_last_lines(&self) {
        let (Sink::File { fd, .. }, None) = (&*self.sink, self.hold.and_then(|hold| hold.gzip))
        else {
            return;
        };
        let mut rest = &self.pending[..];
        while !rest.is_empty() {
            match file::write(fd.as_fd(), rest) {
                Ok(0) | Err(_) => return,
                Ok(count) => rest = &rest[count..],
            }
        }
    }

    /// Whether the writer has lines to take.
    pub(super) fn has_lines(&self) -> bool {
        !self.pending.is_empty() || self.dropped_lines > 0
    }

    /// Records bytes that the writer has released.
    pub(super) fn take_back(&mut self, freed_bytes: usize) {
        self.held_bytes -= freed_bytes;
        if self.pending.is_empty() && self.pending.capacity() > KEPT_BUFFER_BYTES {
            self.pending = Vec::new();
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.pending.is_empty()
            || self.dropped_lines > 0
            || self.replacement.is_some()
            || self.closing
    }
}

impl QueueState {
    /// Whether the writer has something to take.
    pub(super) fn has_work(&self) -> bool {
        self.finishing || self.notices.is_some() || self.lanes.iter().flatten().any(Lane::has_work)
    }

    fn open_lane(&mut self, number: usize) -> &mut Lane {
        let lane = self.lanes[number].as_mut();
        lane.expect("a lane lives at least as long as its destination")
    }
}
