//! Shows how far a run is, and ends it on INT and TERM with what has been measured.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    thread,
    time::{Duration, Instant},
};

use sealane_sys::signal::{Signal, SignalQueue};

use crate::{
    Error,
    testbed::{Course, Turn, Watch},
};

/// How long after a failed measurement the signal may arrive that has also ended its server: a
/// terminal sends INT to all of its processes.
const SIGNAL_GRACE: Duration = Duration::from_millis(100);

/// What a measurement of unknown length is assumed to take besides the time that it measures.
const START_AND_STOP: Duration = Duration::from_millis(1200);

/// Follows all measurements of a report.
pub(super) struct Progress {
    signals: SignalQueue,
    is_interrupted: bool,
    is_terminal: bool,
    started: Instant,
    turn_started: Instant,
    estimate: Estimate,
    rounds: usize,
    done: usize,
    failures: usize,
}

impl Progress {
    /// `turns` are the names of the measurements of a round, of `measurement` each.
    pub(super) fn new(
        turns: &[String],
        rounds: usize,
        measurement: Duration,
    ) -> Result<Self, Error> {
        let signals = SignalQueue::open(&[Signal::Int, Signal::Term])
            .map_err(|source| Error::io("wait for signals", source))?;
        let now = Instant::now();
        Ok(Self {
            signals,
            is_interrupted: false,
            is_terminal: io::stderr().is_terminal(),
            started: now,
            turn_started: now,
            estimate: Estimate::new(turns, rounds, measurement + START_AND_STOP),
            rounds,
            done: 0,
            failures: 0,
        })
    }

    pub(super) fn failures(&self) -> usize {
        self.failures
    }

    /// Whether a signal has asked to end.
    pub(super) fn is_interrupted(&mut self) -> bool {
        while let Ok(Some(_)) = self.signals.next() {
            if !self.is_interrupted {
                self.is_interrupted = true;
                self.say("interrupted: writing what has been measured");
            }
        }
        self.is_interrupted
    }

    /// A line that stays.
    pub(super) fn say(&self, text: &str) {
        let start = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{start}{text}");
    }

    /// Ends the line of a terminal.
    pub(super) fn finish(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn show(&self, turn: Turn<'_>) {
        let total = self.done + self.estimate.left();
        let line = format!(
            "{} of {total}  round {}  {}  {}  {} gone, about {} left",
            self.done + 1,
            turn.round + 1,
            turn.what,
            turn.server,
            duration(self.started.elapsed()),
            duration(self.estimate.time_left())
        );
        if self.is_terminal {
            eprint!("\r\x1b[K{line}");
            // A line without an end would stay in the buffer.
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }
}

impl Watch for Progress {
    fn goes_on(&mut self, turn: Turn<'_>) -> bool {
        if self.is_interrupted() {
            return false;
        }
        self.show(turn);
        self.turn_started = Instant::now();
        true
    }

    fn measured(&mut self, turn: Turn<'_>) {
        self.done += 1;
        self.estimate.took(turn.what, self.turn_started.elapsed());
    }

    /// The progress says as much.
    fn finished(&mut self, _: &str) {}

    fn failed(&mut self, turn: Turn<'_>, error: Error) -> Course {
        let deadline = Instant::now() + SIGNAL_GRACE;
        while !self.is_interrupted() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if self.is_interrupted {
            return Course::Stop;
        }
        self.failures += 1;
        self.done += 1;
        self.estimate.took(turn.what, self.turn_started.elapsed());
        let later_rounds = self.rounds.saturating_sub(turn.round + 1);
        self.estimate.leave_out(turn.what, later_rounds);
        let reason = error.to_string();
        self.say(&format!("failed: {reason}"));
        Course::GoOn(reason)
    }
}

/// How long the measurements that are left will take.
struct Estimate {
    /// What is left of each kind.
    left: HashMap<String, usize>,
    /// How long those of each kind took: number and sum.
    taken: HashMap<String, (u32, Duration)>,
    /// What one takes as long as nothing is known.
    guess: Duration,
}

impl Estimate {
    fn new(turns: &[String], rounds: usize, guess: Duration) -> Self {
        let mut left = HashMap::new();
        for turn in turns {
            *left.entry(turn.clone()).or_insert(0) += rounds;
        }
        Self {
            left,
            taken: HashMap::new(),
            guess,
        }
    }

    fn left(&self) -> usize {
        self.left.values().sum()
    }

    fn took(&mut self, what: &str, time: Duration) {
        self.leave_out(what, 1);
        let (count, sum) = self.taken.entry(what.to_owned()).or_default();
        *count += 1;
        *sum += time;
    }

    /// Some of a kind will not be measured, or have been.
    fn leave_out(&mut self, what: &str, count: usize) {
        if let Some(left) = self.left.get_mut(what) {
            *left = left.saturating_sub(count);
        }
    }

    /// By the mean of the same measurements, else by that of all.
    fn time_left(&self) -> Duration {
        let mean = |&(count, sum): &(u32, Duration)| sum / count.max(1);
        let all = self
            .taken
            .values()
            .fold((0, Duration::ZERO), |(count, sum), (more, time)| {
                (count + more, sum + *time)
            });
        let usual = if all.0 == 0 { self.guess } else { mean(&all) };
        let of_kind = |(what, left): (&String, &usize)| {
            let one = self.taken.get(what).map_or(usual, mean);
            one * u32::try_from(*left).unwrap_or(u32::MAX)
        };
        self.left.iter().map(of_kind).sum()
    }
}

/// "75 s" or "12 min".
fn duration(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn time_left_learns_from_what_was_measured() {
        let turns = ["long", "short", "long", "short", "new"];
        let mut estimate = Estimate::new(&turns.map(str::to_owned), 1, 3 * S);
        assert_eq!((estimate.left(), estimate.time_left()), (5, 15 * S));
        estimate.took("long", 10 * S);
        estimate.took("short", 2 * S);
        // One more of each, and a new one that takes as long as the others in the mean.
        assert_eq!((estimate.left(), estimate.time_left()), (3, 18 * S));
        estimate.took("unknown", S);
        estimate.leave_out("new", 2);
        assert_eq!(estimate.left(), 2);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(75 * S), "75 s");
        assert_eq!(duration(150 * S), "3 min");
        assert_eq!(duration(Duration::ZERO), "0 s");
    }
}
