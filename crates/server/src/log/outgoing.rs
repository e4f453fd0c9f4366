//! One log as the writer thread sees it.

use super::destination::{Hold, Sink};
use super::queue::{Lane, Replacement};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait after a log could not be written; doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Longest wait between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// First wait after a log would have blocked; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Longest wait for a log that would block.
const LAST_PAUSE: Duration = Duration::from_millis(320);

/// Shortest time between two reports of dropped lines for the same log.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the lines of a log that has been closed wait for it to take them.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A buffer larger than this is given back to the allocator after a burst.
pub(super) const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Lines on their way from the queue to one log.
pub(super) struct Outgoing {
    sink: Arc<Sink>,
    hold: Option<Hold>,
    /// Lines taken from the queue.
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// When the oldest unwritten line was taken.
    since: Option<Instant>,
    failure: Option<Failure>,
    /// It would block: when to try again, after which wait.
    pause: Option<(Instant, Duration)>,
    /// Lines dropped and not yet reported.
    lost_lines: u64,
    /// When dropped lines were last reported.
    reported: Option<Instant>,
    replacement: Option<Replacement>,
    /// Bytes freed since the queue was last told.
    freed_bytes: usize,
    /// Nobody logs here any more, since then.
    closing: Option<Instant>,
}

/// A log that could not be written.
pub(super) struct Failure {
    pub(super) since: Instant,
    retry_at: Instant,
    delay: Duration,
}

impl Outgoing {
    pub(super) fn new(lane: &Lane) -> Outgoing {
        Outgoing {
            sink: Arc::clone(&lane.sink),
            hold: lane.hold,
            bytes: Vec::new(),
            written: 0,
            since: None,
            failure: None,
            pause: None,
            lost_lines: 0,
            reported: None,
            replacement: None,
            freed_bytes: 0,
            closing: None,
        }
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> String {
        self.sink.name().to_string()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes what waits in the queue. Called under its lock: moves buffers only.
    pub(super) fn take(&mut self, lane: &mut Lane) {
        self.hold = lane.hold;
        self.lost_lines += std::mem::take(&mut lane.dropped_lines);
        if std::mem::take(&mut lane.closing) {
            self.closing.get_or_insert_with(Instant::now);
        }
        self.bytes.drain(..std::mem::take(&mut self.written));
        if let Some(mut replacement) = lane.replacement.take() {
            replacement.after_bytes += self.bytes.len();
            self.replacement = Some(replacement);
        }
        if lane.pending.is_empty() {
            return;
        }
        self.since.get_or_insert_with(Instant::now);
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut lane.pending);
        } else {
            self.bytes.append(&mut lane.pending);
        }
    }

    /// Bytes that the queue has room for again.
    pub(super) fn freed_bytes(&mut self) -> usize {
        std::mem::take(&mut self.freed_bytes)
    }

    /// Writes all lines taken so far. On an error the unwritten rest is kept,
    /// so that no line is cut in two.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.write_until(self.bytes.len())?;
        self.written = 0;
        self.since = None;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BUFFER_BYTES {
            self.bytes = Vec::new();
        }
        Ok(())
    }

    fn write_until(&mut self, end: usize) -> io::Result<()> {
        while self.written < end {
            let count = match self.sink.write(&self.bytes[self.written..end]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let wait = self.pause.map_or(FIRST_PAUSE, |(_, wait)| wait * 2);
                    let wait = wait.min(LAST_PAUSE);
                    self.pause = Some((Instant::now() + wait, wait));
                    return Err(error);
                }
                result => result?,
            };
            self.pause = None;
            self.written += count;
            self.freed_bytes += count;
        }
        Ok(())
    }

    /// If there is a newly opened file: finishes the old one and goes on with the
    /// new one. What the old one does not take goes to the new one.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let Some(new) = self.replacement.take() else {
            return Ok(());
        };
        let _ = self.write_until(new.after_bytes);
        self.sink.replace(new.file.as_fd())?;
        self.pause = None;
        if let Some(failure) = &mut self.failure {
            failure.retry_at = Instant::now();
        }
        Ok(())
    }

    /// Notes that it cannot be written. True when that is news.
    pub(super) fn fail(&mut self, now: Instant) -> bool {
        if let Some(failure) = &mut self.failure {
            failure.delay = (failure.delay * 2).min(LAST_RETRY);
            failure.retry_at = now + failure.delay;
            return false;
        }
        self.failure = Some(Failure {
            since: now,
            retry_at: now + FIRST_RETRY,
            delay: FIRST_RETRY,
        });
        true
    }

    /// Notes that it can be written: what has been the matter, if anything was, and
    /// the lines lost by it.
    pub(super) fn recover(&mut self) -> Option<(Failure, u64)> {
        let failure = self.failure.take()?;
        Some((failure, std::mem::take(&mut self.lost_lines)))
    }

    /// Lines dropped since the last report, when it is time to say so.
    pub(super) fn losses_to_report(&mut self, finishing: bool) -> Option<u64> {
        let now = Instant::now();
        let may = self.reported.is_none_or(|at| now >= at + REPORT_EVERY);
        if self.lost_lines == 0 || !(finishing || self.closing.is_some() || may) {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.lost_lines))
    }

    /// Drops the last lines of a closed log that it has not taken for long; returns
    /// how many.
    pub(super) fn give_up(&mut self, now: Instant) -> Option<u64> {
        let closed = self.closing?;
        if self.bytes.is_empty() || now < closed + CLOSE_PATIENCE {
            return None;
        }
        let rest = &self.bytes[self.written..];
        let lines = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.freed_bytes += rest.len();
        self.bytes.clear();
        self.written = 0;
        Some(lines + std::mem::take(&mut self.lost_lines))
    }

    /// Nobody logs here any more and nothing is left to write.
    pub(super) fn is_over(&self) -> bool {
        self.closing.is_some() && self.bytes.is_empty() && self.lost_lines == 0
    }

    pub(super) fn is_due(&self, finishing: bool) -> bool {
        let now = Instant::now();
        if finishing {
            return !self.bytes.is_empty() || self.lost_lines > 0;
        }
        if let Some(at) = self.blocked_until() {
            return now >= at;
        }
        if self.bytes.is_empty() {
            return self.lost_lines > 0;
        }
        match self.hold.filter(|_| self.closing.is_none()) {
            None => true,
            Some(hold) => {
                self.bytes.len() - self.written >= hold.bytes
                    || self.held_until(hold).is_some_and(|at| now >= at)
            }
        }
    }

    /// When [`Outgoing::is_due`] changes by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Some(at) = self.blocked_until() {
            return Some(at);
        }
        if !self.bytes.is_empty() {
            return match self.hold.filter(|_| self.closing.is_none()) {
                None => Some(Instant::now()),
                Some(hold) => self.held_until(hold),
            };
        }
        (self.lost_lines > 0).then(|| {
            self.reported
                .map_or_else(Instant::now, |at| at + REPORT_EVERY)
        })
    }

    /// Until when it is not tried again, because it failed or would block.
    fn blocked_until(&self) -> Option<Instant> {
        let failed = self.failure.as_ref().map(|failure| failure.retry_at);
        failed.or(self.pause.map(|(at, _)| at))
    }

    fn held_until(&self, hold: Hold) -> Option<Instant> {
        Some(self.since? + hold.time?)
    }
}
