//! The writer thread: takes lines from the queue and writes them in batches.

use super::destination::{Destination, Hold, write_to_stderr};
use super::queue::{Queue, State};
use super::{LogLevel, Logger, OsError, QUEUE_BYTES_PER_FILE, error};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// How long the writer lets lines come together after the first; also how
/// often, at most, a busy server wakes it.
const GATHER: Duration = Duration::from_millis(10);

/// First wait after a log could not be written; doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Longest wait between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Shortest time between two reports of dropped lines for the same log.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// A buffer larger than this is given back to the allocator after a burst.
const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Runs until the queue is told to finish. `notices` gets what the writer has
/// to say about the logs themselves.
pub(super) fn run(queue: &Queue, destinations: Vec<Arc<Destination>>, notices: Logger) {
    let _running = RunningMark(queue);
    let lanes = destinations.into_iter().map(Outgoing::new).collect();
    Writer {
        queue,
        lanes,
        notices,
    }
    .run();
}

/// Takes the mark away however the thread ends, so that lines are written
/// directly from then on instead of piling up.
struct RunningMark<'a>(&'a Queue);

impl Drop for RunningMark<'_> {
    fn drop(&mut self) {
        self.0.set_running(false);
    }
}

struct Writer<'a> {
    queue: &'a Queue,
    lanes: Vec<Outgoing>,
    notices: Logger,
}

/// One log as the writer sees it.
struct Outgoing {
    destination: Arc<Destination>,
    /// Lines taken from the queue.
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// When the oldest unwritten line was taken.
    since: Option<Instant>,
    failure: Option<Failure>,
    /// Lines dropped and not yet reported.
    lost_lines: u64,
    /// When dropped lines were last reported.
    reported: Option<Instant>,
    replacement: Option<OwnedFd>,
    /// Bytes freed since the queue was last told.
    freed_bytes: usize,
}

/// A log that could not be written.
struct Failure {
    since: Instant,
    retry_at: Instant,
    delay: Duration,
}

impl Writer<'_> {
    fn run(&mut self) {
        let mut finishing = false;
        while !finishing {
            let timeout = self
                .next_deadline()
                .map(|at| at.saturating_duration_since(Instant::now()));
            let state = self.queue.wait_for_work(timeout);
            let state = self.queue.gather(state, GATHER);
            finishing = state.finishing;
            self.turn(state, finishing);
        }
        // What the last turn had to say about the logs themselves.
        self.turn(self.queue.lock(), true);
    }

    fn turn(&mut self, mut state: MutexGuard<'_, State>, finishing: bool) {
        self.take(&mut state);
        drop(state);
        for index in 0..self.lanes.len() {
            self.serve(index, finishing);
        }
        self.give_back();
    }

    /// When something has to happen even if no line comes.
    fn next_deadline(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(Outgoing::deadline).min()
    }

    fn take(&mut self, state: &mut MutexGuard<'_, State>) {
        state.urgent = false;
        let now = Instant::now();
        for (outgoing, lane) in self.lanes.iter_mut().zip(&mut state.lanes) {
            outgoing.lost_lines += std::mem::take(&mut lane.dropped_lines);
            if lane.replacement.is_some() {
                outgoing.replacement = lane.replacement.take();
            }
            if lane.pending.is_empty() {
                continue;
            }
            outgoing.since.get_or_insert(now);
            if outgoing.bytes.is_empty() {
                std::mem::swap(&mut outgoing.bytes, &mut lane.pending);
            } else {
                outgoing
                    .bytes
                    .drain(..std::mem::take(&mut outgoing.written));
                outgoing.bytes.append(&mut lane.pending);
            }
        }
    }

    /// Tells the queue how much room there is again.
    fn give_back(&mut self) {
        let mut state = self.queue.lock();
        for (outgoing, lane) in self.lanes.iter_mut().zip(&mut state.lanes) {
            lane.held_bytes -= std::mem::take(&mut outgoing.freed_bytes);
            if lane.pending.is_empty() && lane.pending.capacity() > KEPT_BUFFER_BYTES {
                lane.pending = Vec::new();
            }
        }
    }

    /// Writes what is due for one log and reports what there is to report.
    fn serve(&mut self, index: usize, finishing: bool) {
        let lane = &mut self.lanes[index];
        if let Some(file) = lane.replacement.take() {
            let result = lane.reopen(&file);
            let name = lane.destination.name().to_string();
            if let Err(error) = result {
                let error = OsError(&error);
                self.tell(
                    index,
                    format_args!("log file \"{name}\" cannot be reopened ({error})"),
                );
            }
        }
        let lane = &mut self.lanes[index];
        if !lane.is_due(finishing) {
            return;
        }
        match lane.write() {
            Ok(()) => self.succeeded(index, finishing),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {} // is_due tries again
            Err(error) => self.failed(index, &error),
        }
    }

    fn failed(&mut self, index: usize, error: &io::Error) {
        let lane = &mut self.lanes[index];
        let now = Instant::now();
        if let Some(failure) = &mut lane.failure {
            failure.delay = (failure.delay * 2).min(LAST_RETRY);
            failure.retry_at = now + failure.delay;
            return;
        }
        lane.failure = Some(Failure {
            since: now,
            retry_at: now + FIRST_RETRY,
            delay: FIRST_RETRY,
        });
        let name = lane.destination.name().to_string();
        self.tell(
            index,
            format_args!(
                "log file \"{name}\" cannot be written ({}); the service goes on, \
                 {} KiB of lines are kept, later ones dropped; \
                 free space or repair the disk, writing is retried",
                OsError(error),
                QUEUE_BYTES_PER_FILE >> 10
            ),
        );
    }

    fn succeeded(&mut self, index: usize, finishing: bool) {
        let lane = &mut self.lanes[index];
        let lost = lane.lost_lines;
        let name = lane.destination.name().to_string();
        if let Some(failure) = lane.failure.take() {
            lane.lost_lines = 0;
            let seconds = failure.since.elapsed().as_secs();
            self.tell(
                index,
                format_args!(
                    "log file \"{name}\" can be written again after {seconds} s; \
                     {lost} lines were lost"
                ),
            );
        } else if lost > 0 && (finishing || lane.may_report()) {
            lane.lost_lines = 0;
            lane.reported = Some(Instant::now());
            self.tell(
                index,
                format_args!(
                    "{lost} lines for log file \"{name}\" were dropped, because they came \
                     faster than the file takes them and {} KiB were waiting already",
                    QUEUE_BYTES_PER_FILE >> 10
                ),
            );
        }
    }

    /// Says something about log `index`, in the main error log if that can be
    /// written, else on stderr.
    fn tell(&self, index: usize, message: fmt::Arguments<'_>) {
        let line = error::format_line(LogLevel::Alert, None, message);
        let mut told = false;
        for to in self.notices.destinations(LogLevel::Alert) {
            let works = self.lanes[to.index].failure.is_none();
            if works {
                self.queue.push(to.index, &line, 1);
                told |= to.index != index;
            }
        }
        if !told && self.lanes[index].failure.is_some() {
            write_to_stderr(&line);
        }
    }
}

impl Outgoing {
    fn new(destination: Arc<Destination>) -> Outgoing {
        Outgoing {
            destination,
            bytes: Vec::new(),
            written: 0,
            since: None,
            failure: None,
            lost_lines: 0,
            reported: None,
            replacement: None,
            freed_bytes: 0,
        }
    }

    /// Writes all lines taken so far. On an error the unwritten rest is kept,
    /// so that no line is cut in two.
    fn write(&mut self) -> io::Result<()> {
        while self.written < self.bytes.len() {
            let count = self.destination.write(&self.bytes[self.written..])?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += count;
            self.freed_bytes += count;
        }
        self.written = 0;
        self.since = None;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BUFFER_BYTES {
            self.bytes = Vec::new();
        }
        Ok(())
    }

    /// Finishes the old file and goes on with the new one. What the old one
    /// does not take goes to the new one.
    fn reopen(&mut self, file: &OwnedFd) -> io::Result<()> {
        let _ = self.write();
        self.destination.replace(file.as_fd())?;
        if let Some(failure) = &mut self.failure {
            failure.retry_at = Instant::now();
        }
        Ok(())
    }

    fn is_due(&self, finishing: bool) -> bool {
        let now = Instant::now();
        if finishing {
            return !self.bytes.is_empty() || self.lost_lines > 0;
        }
        if let Some(failure) = &self.failure {
            return now >= failure.retry_at;
        }
        if self.bytes.is_empty() {
            return self.lost_lines > 0;
        }
        match self.destination.hold {
            None => true,
            Some(hold) => {
                self.bytes.len() - self.written >= hold.bytes
                    || self.held_until(hold).is_some_and(|at| now >= at)
            }
        }
    }

    /// When [`Outgoing::is_due`] changes by itself.
    fn deadline(&self) -> Option<Instant> {
        if let Some(failure) = &self.failure {
            return Some(failure.retry_at);
        }
        if !self.bytes.is_empty() {
            return match self.destination.hold {
                None => Some(Instant::now()), // the file would have blocked: try again
                Some(hold) => self.held_until(hold),
            };
        }
        (self.lost_lines > 0).then(|| {
            self.reported
                .map_or_else(Instant::now, |at| at + REPORT_EVERY)
        })
    }

    fn held_until(&self, hold: Hold) -> Option<Instant> {
        Some(self.since? + hold.time?)
    }

    fn may_report(&self) -> bool {
        self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY)
    }
}
