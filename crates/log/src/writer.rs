//! The writer thread: takes lines from the queue and writes them in batches.

use super::destination::write_to_stderr;
use super::outgoing::Outgoing;
use super::queue::{Queue, QueueState};
use super::{LogLevel, Logger, OsError, error};
use std::fmt;
use std::io;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// The time between two turns of the writer, in which lines gather on a busy server.
const GATHER: Duration = Duration::from_millis(10);

/// Turns that may follow each other without gathering, after a pause: whoever has just made a
/// request finds its line in the log, and that of the next one, too. Debug lines come one by one
/// and take a turn each.
const PROMPT_TURNS: u32 = 256;

/// Runs until the queue is told to finish. `notices` receives the writer's messages about the logs
/// themselves, until the queue names another logger.
pub(super) fn run(queue: &Queue, notices: Logger) {
    let _running = RunningMark(queue);
    Writer {
        queue,
        lanes: Vec::new(),
        notices,
    }
    .run();
}

/// Clears the mark however the thread ends, so that lines are then written directly instead of
/// piling up.
struct RunningMark<'a>(&'a Queue);

impl Drop for RunningMark<'_> {
    fn drop(&mut self) {
        self.0.set_running(false);
    }
}

struct Writer<'a> {
    queue: &'a Queue,
    /// By number, as in the queue.
    lanes: Vec<Option<Outgoing>>,
    notices: Logger,
}

impl Writer<'_> {
    fn run(&mut self) {
        let mut finishing = false;
        // When the writer would have its next turn if it always gathered.
        let mut schedule = Instant::now();
        while !finishing {
            let timeout = self
                .next_deadline()
                .map(|at| at.saturating_duration_since(Instant::now()));
            let mut state = self.queue.wait_for_work(timeout);
            let ahead = schedule.saturating_duration_since(Instant::now());
            let wait = ahead.saturating_sub(GATHER * PROMPT_TURNS);
            if !wait.is_zero() {
                state = self.queue.gather(state, wait);
            }
            finishing = state.finishing;
            schedule = schedule.max(Instant::now()) + GATHER;
            self.turn(state, finishing);
        }
        // Writes what the last turn reported about the logs themselves.
        self.turn(self.queue.lock(), true);
    }

    fn turn(&mut self, mut state: MutexGuard<'_, QueueState>, finishing: bool) {
        self.take(&mut state);
        let notices = state.notices.take();
        drop(state);
        if let Some(notices) = notices {
            self.notices = notices; // not under the lock: the old one may close its log
        }
        for number in 0..self.lanes.len() {
            self.serve(number, finishing);
        }
        self.give_back();
    }

    /// When something must happen even if no line comes.
    fn next_deadline(&self) -> Option<Instant> {
        let lanes = self.lanes.iter().flatten();
        lanes.filter_map(Outgoing::deadline).min()
    }

    fn take(&mut self, state: &mut MutexGuard<'_, QueueState>) {
        state.urgent = false;
        self.lanes.resize_with(state.lanes.len(), || None);
        for (outgoing, lane) in self.lanes.iter_mut().zip(&mut state.lanes) {
            if let Some(lane) = lane {
                let outgoing = outgoing.get_or_insert_with(|| Outgoing::new(lane));
                outgoing.take(lane);
            }
        }
    }

    /// Reports freed room to the queue, and ends closed lanes.
    fn give_back(&mut self) {
        let mut ended = Vec::new(); // dropped without the lock: closing a file may take long
        let mut state = self.queue.lock();
        for (number, slot) in self.lanes.iter_mut().enumerate() {
            let (Some(outgoing), Some(lane)) = (slot.as_mut(), state.lanes[number].as_mut()) else {
                continue;
            };
            lane.take_back(outgoing.freed_bytes());
            self.queue.count_lost(outgoing.newly_lost());
            if outgoing.is_over() && !lane.has_lines() {
                ended.push((slot.take(), state.lanes[number].take()));
            }
        }
        drop(state);
    }

    /// Writes what is due for one log, and reports problems.
    fn serve(&mut self, number: usize, finishing: bool) {
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        if let Err(error) = lane.reopen() {
            let (name, error) = (lane.name(), OsError(&error));
            self.tell(number, format_args!("{name} cannot be reopened ({error})"));
        }
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        lane.tend();
        if !lane.is_due(finishing) {
            return;
        }
        match lane.write() {
            Ok(()) => self.succeeded(number, finishing),
            // `is_due` tries again. A process that does not read may never do so: report the cost.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.report_losses(number, finishing);
            }
            Err(error) => self.failed(number, &error),
        }
        self.give_up(number);
    }

    fn failed(&mut self, number: usize, error: &io::Error) {
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        if !lane.fail(Instant::now()) {
            return; // it is known already
        }
        let (name, error) = (lane.name(), OsError(error));
        let advice = if lane.is_syslog() {
            "start it; if only the master may connect to it, then send the master USR1"
        } else {
            "free space or repair the disk"
        };
        self.tell(
            number,
            format_args!(
                "{name} cannot be written ({error}); the service goes on, {} KiB of lines \
                 are kept, later ones dropped; {advice}, writing is retried",
                self.queue.limit_bytes() >> 10
            ),
        );
    }

    fn succeeded(&mut self, number: usize, finishing: bool) {
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        let name = lane.name();
        if let Some((failure, lost)) = lane.recover() {
            let seconds = failure.since.elapsed().as_secs();
            self.tell(
                number,
                format_args!(
                    "{name} can be written again after {seconds} s; \
                     {lost} lines were lost"
                ),
            );
        } else {
            self.report_losses(number, finishing);
        }
    }

    fn report_losses(&mut self, number: usize, finishing: bool) {
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        let name = lane.name();
        match lane.losses_to_report(finishing) {
            // A datagram that nobody takes is what syslog over UDP has to live with.
            Some((lost, Some(reason))) => self.tell_at(
                LogLevel::Error,
                number,
                format_args!("{lost} lines for {name} were lost, the last one because {reason}"),
            ),
            Some((lost, None)) => self.tell(
                number,
                format_args!(
                    "{lost} lines for {name} were dropped, because they came faster than it accepts \
                     them and {} KiB were waiting already",
                    self.queue.limit_bytes() >> 10
                ),
            ),
            None => {}
        }
    }

    /// Drops the lines of a log that is no longer configured and could not be written for long.
    fn give_up(&mut self, number: usize) {
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        if let Some(lost) = lane.give_up(Instant::now()) {
            let name = lane.name();
            self.tell(
                number,
                format_args!(
                    "the last {lost} lines for {name} are lost: it cannot be written, \
                     and the configuration no longer names it"
                ),
            );
        }
    }

    /// Reports something about log `number`, in the main error log if that can be written,
    /// otherwise on stderr.
    fn tell(&self, number: usize, message: fmt::Arguments<'_>) {
        self.tell_at(LogLevel::Alert, number, message);
    }

    fn tell_at(&self, level: LogLevel, number: usize, message: fmt::Arguments<'_>) {
        let line = error::format_line(level, None, message);
        let mut told = false;
        for to in self.notices.destinations(level) {
            if !self.has_failed(to.lane) {
                to.append_line(&line);
                told |= to.lane != number;
            }
        }
        if !told && self.has_failed(number) {
            write_to_stderr(&line.text);
        }
    }

    fn has_failed(&self, number: usize) -> bool {
        let lane = self.lanes.get(number).and_then(Option::as_ref);
        lane.is_some_and(Outgoing::has_failed)
    }
}
