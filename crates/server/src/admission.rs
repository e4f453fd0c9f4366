//! Too many handshakes: which of them are refused, and how the operator learns of it.
//!
//! A handshake that cannot be completed in time is refused before any work is spent on it: the
//! client can try elsewhere at once, and the handshakes that already wait are not delayed.
//! `ssl_handshake_queue` limits how many may wait, `ssl_handshake_timeout` for how long.

use sealane_conf::model::LogLevel;
use sealane_io::turns::Turns;
use sealane_log::Logger;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often refused handshakes are reported.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Why a handshake was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// As many handshakes as allowed (`ssl_handshake_queue`) were waiting.
    QueueFull,
    /// `ssl_handshake_timeout` passed before its first turn.
    WaitedTooLong,
}

/// Whether one more handshake may wait on a worker thread.
pub(crate) fn has_room(turns: &Turns, limit: u32) -> bool {
    turns.waiting() + turns.in_flight() < usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Refused handshakes of one worker thread that have not been reported yet.
#[derive(Debug, Default)]
pub struct RefusedHandshakes(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    queue_full: u64,
    waited_too_long: u64,
    /// When the first of them was.
    since: Option<Instant>,
    told_at: Option<Instant>,
}

impl RefusedHandshakes {
    /// Counts one.
    pub(crate) fn count(&self, why: Refused) {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        untold.since.get_or_insert_with(Instant::now);
        match why {
            Refused::QueueFull => untold.queue_full += 1,
            Refused::WaitedTooLong => untold.waited_too_long += 1,
        }
    }

    /// Logs how many were refused in the last minute, if any. To be called now and then.
    pub(crate) fn tell(&self, log: &Logger, limit: u32) {
        let mut untold = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = untold.line(Instant::now(), limit) {
            drop(untold);
            log.log(LogLevel::Alert, None, format_args!("{line}"));
        }
    }
}

impl Untold {
    fn line(&mut self, now: Instant, limit: u32) -> Option<String> {
        let since = self.since?;
        if self.told_at.is_some_and(|at| now - at < TELL_EVERY) {
            return None;
        }
        let mut reasons = Vec::new();
        if self.queue_full > 0 {
            reasons.push(format!(
                "{} because {limit} were waiting (ssl_handshake_queue)",
                self.queue_full
            ));
        }
        if self.waited_too_long > 0 {
            reasons.push(format!(
                "{} because they waited too long (ssl_handshake_timeout)",
                self.waited_too_long
            ));
        }
        let line = format!(
            "{} TLS handshakes refused on this worker thread within {} s: {}. This machine cannot \
             keep up: more worker_processes or ssl_async_threads help if CPUs are idle; ECDSA \
             certificates and session resumption make handshakes cheaper",
            self.queue_full + self.waited_too_long,
            (now - since).as_secs() + 1,
            reasons.join(", "),
        );
        *self = Untold {
            told_at: Some(now),
            ..Untold::default()
        };
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_hears_of_it_once_a_minute_with_numbers_and_directives() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let refused = RefusedHandshakes::default();
        let line = |now| refused.0.lock().expect("no panic").line(now, 64);
        assert_eq!(line(at(1)), None, "nothing was refused");
        for _ in 0..3 {
            refused.count(Refused::QueueFull);
        }
        let first = line(at(2)).expect("it is new");
        assert!(first.starts_with("3 TLS handshakes refused"), "{first}");
        assert!(
            first.contains("3 because 64 were waiting (ssl_handshake_queue)"),
            "{first}"
        );
        refused.count(Refused::WaitedTooLong);
        assert_eq!(line(at(61)), None, "too soon");
        let second = line(at(62)).expect("a minute has passed");
        assert!(second.starts_with("1 TLS handshakes refused"), "{second}");
        assert!(second.contains("ssl_handshake_timeout"), "{second}");
        assert!(!second.contains("ssl_handshake_queue"), "{second}");
        assert_eq!(line(at(200)), None, "nothing since");
    }

    #[test]
    fn those_that_wait_elsewhere_count_too() {
        let turns = Turns::new(false);
        let mut slots: Vec<_> = (0..2).map(|_| turns.place()).collect();
        assert!(has_room(&turns, 1), "a place alone does not wait");
        for slot in &mut slots {
            slot.set_in_flight(true);
        }
        assert!(!has_room(&turns, 2));
        assert!(has_room(&turns, 3));
        drop(slots);
        assert!(has_room(&turns, 1));
    }
}
