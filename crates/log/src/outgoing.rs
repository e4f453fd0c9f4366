//! One log as the writer thread sees it.

use super::destination::Hold;
use super::queue::{Lane, Replacement};
use super::sink::Sink;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First wait after a log could not be written; doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Longest wait between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Longest wait between two attempts to reach a syslog server, which is usually restarted soon.
const LAST_SYSLOG_RETRY: Duration = Duration::from_secs(2);

/// First wait after a log would have blocked; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Longest wait for a log that would block.
const LAST_PAUSE: Duration = Duration::from_millis(320);

/// Shortest time between two reports of dropped lines for the same log.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The same for lines that are each lost for a separate reason.
const REPORT_REASONS_EVERY: Duration = Duration::from_secs(10);

/// The most bytes of lines in one member of a compressed log.
const MEMBER_BYTES: usize = 1 << 20;

/// How long the pending lines of a closed log wait to be written.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A buffer larger than this is given back to the allocator after a burst.
pub(super) const KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Lines moving from the queue to one log.
pub(super) struct Outgoing {
    sink: Arc<Sink>,
    hold: Option<Hold>,
    /// Lines taken from the queue.
    bytes: Vec<u8>,
    /// How many of them are written, or compressed.
    written: usize,
    /// Compressed lines, and how many of their bytes are written.
    packed: Vec<u8>,
    packed_written: usize,
    /// Their size before compression.
    packed_from: usize,
    /// When the oldest unwritten line was taken.
    since: Option<Instant>,
    failure: Option<Failure>,
    /// Set if it would block: when to try again, and after which wait.
    pause: Option<(Instant, Duration)>,
    /// Lines dropped and not reported yet.
    lost_lines: u64,
    /// The reason, unless they came too fast.
    reason: Option<String>,
    /// Lines lost here and not yet added to the count of the process.
    newly_lost: u64,
    /// When dropped lines were last reported.
    reported: Option<Instant>,
    replacement: Option<Replacement>,
    /// Bytes freed since the queue was last updated.
    freed_bytes: usize,
    /// Since when no handle logs here any more.
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
            packed: Vec::new(),
            packed_written: 0,
            packed_from: 0,
            since: None,
            failure: None,
            pause: None,
            lost_lines: 0,
            reason: None,
            newly_lost: 0,
            reported: None,
            replacement: None,
            freed_bytes: 0,
            closing: None,
        }
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> String {
        self.sink.name()
    }

    pub(super) fn is_syslog(&self) -> bool {
        self.sink.is_syslog()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes what is in the queue. Called under its lock: only moves buffers.
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

    /// Lines lost here since the last call.
    pub(super) fn newly_lost(&mut self) -> u64 {
        std::mem::take(&mut self.newly_lost)
    }

    /// Bytes for which the queue has room again.
    pub(super) fn freed_bytes(&mut self) -> usize {
        std::mem::take(&mut self.freed_bytes)
    }

    /// Writes all lines taken so far. On an error the unwritten rest is kept, so that no line is
    /// split.
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
        loop {
            self.write_packed()?;
            if self.written >= end {
                return Ok(());
            }
            let gzip = self.hold.and_then(|hold| hold.gzip);
            let chunk = match gzip {
                Some(_) => &self.bytes[self.written..end.min(self.written + MEMBER_BYTES)],
                None => &self.bytes[self.written..end],
            };
            if let Some(packed) = Sink::packed(chunk, gzip) {
                self.packed_from = chunk.len();
                self.written += self.packed_from;
                self.packed = packed;
                continue;
            }
            let result = self.sink.write(chunk);
            let count = self.outcome(result)?;
            self.written += count;
            self.freed_bytes += count;
        }
    }

    fn write_packed(&mut self) -> io::Result<()> {
        while self.packed_written < self.packed.len() {
            let result = self.sink.write(&self.packed[self.packed_written..]);
            self.packed_written += self.outcome(result)?;
        }
        self.packed = Vec::new();
        self.packed_written = 0;
        self.freed_bytes += std::mem::take(&mut self.packed_from);
        Ok(())
    }

    /// Records the result of one attempt to write.
    fn outcome(&mut self, result: io::Result<usize>) -> io::Result<usize> {
        self.tend();
        match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let wait = self.pause.map_or(FIRST_PAUSE, |(_, wait)| wait * 2);
                let wait = wait.min(LAST_PAUSE);
                self.pause = Some((Instant::now() + wait, wait));
                Err(error)
            }
            Ok(count) => {
                self.pause = None;
                Ok(count)
            }
            Err(error) => Err(error),
        }
    }

    /// Closes files that have been open for long enough, and collects lost lines.
    pub(super) fn tend(&mut self) {
        self.sink.tend(Instant::now());
        let Some((lines, reason)) = self.sink.take_losses() else {
            return;
        };
        self.lost_lines += lines;
        self.newly_lost += lines;
        self.reason = Some(reason);
    }

    /// If there is a newly opened file, finishes the old one and switches to the new one. Lines
    /// that the old file does not take go to the new one.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let Some(new) = self.replacement.take() else {
            return Ok(());
        };
        if self.write_until(new.after_bytes).is_err() {
            self.packed_written = 0; // whole members only, in whichever file
        }
        self.sink.replace(new.file)?;
        self.pause = None;
        if let Some(failure) = &mut self.failure {
            failure.retry_at = Instant::now();
        }
        Ok(())
    }

    /// Records that it cannot be written. Returns true if that is new.
    pub(super) fn fail(&mut self, now: Instant) -> bool {
        if let Some(failure) = &mut self.failure {
            let last = match self.sink.is_syslog() {
                true => LAST_SYSLOG_RETRY,
                false => LAST_RETRY,
            };
            failure.delay = (failure.delay * 2).min(last);
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

    /// Records that it can be written. Returns the failure that ended, if there was one, and the
    /// lines lost by it.
    pub(super) fn recover(&mut self) -> Option<(Failure, u64)> {
        let failure = self.failure.take()?;
        Some((failure, std::mem::take(&mut self.lost_lines)))
    }

    /// Lines dropped since the last report, if a report is due, and the reason if each has its own.
    pub(super) fn losses_to_report(&mut self, finishing: bool) -> Option<(u64, Option<String>)> {
        let now = Instant::now();
        let may = self
            .reported
            .is_none_or(|at| now >= at + self.report_every());
        if self.lost_lines == 0 || !(finishing || self.closing.is_some() || may) {
            return None;
        }
        self.reported = Some(now);
        Some((std::mem::take(&mut self.lost_lines), self.reason.take()))
    }

    fn report_every(&self) -> Duration {
        match self.reason {
            Some(_) => REPORT_REASONS_EVERY,
            None => REPORT_EVERY,
        }
    }

    /// Drops the last lines of a closed log that could not be written for long; returns their
    /// number.
    pub(super) fn give_up(&mut self, now: Instant) -> Option<u64> {
        let closed = self.closing?;
        if self.bytes.is_empty() || now < closed + CLOSE_PATIENCE {
            return None;
        }
        let rest = &self.bytes[self.written..];
        let lines = self.sink.lines_in(rest);
        self.freed_bytes += rest.len() + std::mem::take(&mut self.packed_from);
        self.bytes.clear();
        self.packed = Vec::new();
        self.packed_written = 0;
        self.written = 0;
        self.newly_lost += lines;
        Some(lines + std::mem::take(&mut self.lost_lines))
    }

    /// No handle logs here any more, and nothing is left to write.
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
        let report = (self.lost_lines > 0).then(|| {
            self.reported
                .map_or_else(Instant::now, |at| at + self.report_every())
        });
        report.into_iter().chain(self.sink.deadline()).min()
    }

    /// The time until which it is not tried again, because it failed or would block: the later of
    /// the two, as a syslog server that is back may not read yet.
    fn blocked_until(&self) -> Option<Instant> {
        let failed = self.failure.as_ref().map(|failure| failure.retry_at);
        failed.max(self.pause.map(|(at, _)| at))
    }

    fn held_until(&self, hold: Hold) -> Option<Instant> {
        Some(self.since? + hold.time?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Sink;

    #[test]
    fn a_server_that_is_back_and_does_not_read_is_not_asked_without_end() {
        let now = Instant::now();
        let wait = Duration::from_secs(60);
        let failed_before = Failure {
            since: now,
            retry_at: now,
            delay: FIRST_RETRY,
        };
        let mut outgoing = Outgoing::new(&Lane {
            sink: Arc::new(Sink::Stderr),
            hold: None,
            closing: false,
            pending: Vec::new(),
            held_bytes: 0,
            dropped_lines: 0,
            replacement: None,
        });
        outgoing.failure = Some(failed_before);
        outgoing.pause = Some((now + wait, wait));
        assert_eq!(outgoing.deadline(), Some(now + wait));
        assert!(!outgoing.is_due(false));
        outgoing.pause = None;
        assert_eq!(outgoing.deadline(), Some(now));
    }
}
