//! Response times of peers, for `least_time`: averages in which a new time counts for a twentieth,
//! and the requests that are under way.

use super::settings::{LeastTime, TimeUntil};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Times above this one are equally bad, so that active requests decide.
const MAX_MS: u64 = 5000;
/// Times are rounded up to a multiple of this one, so that peers about as fast take turns.
const STEP_MS: u64 = 20;

/// The times of a peer, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<Averages>);

#[derive(Debug, Clone, Copy, Default)]
struct Averages {
    header_ms: u64,
    response_ms: u64,
    inflight: Inflight,
}

/// Requests under way.
#[derive(Debug, Clone, Copy, Default)]
struct Inflight {
    requests: u64,
    /// The average of what they took so far.
    average_ms: u64,
    /// What all of them together had taken at `changed_ms`.
    sum_ms: u64,
    /// When a request was last added or removed.
    changed_ms: u64,
}

impl Times {
    /// Takes over what is known of the same peer. Its requests are counted where they began.
    pub(super) fn take_over(&self, before: &Times) {
        let known = *before.lock();
        *self.lock() = Averages {
            inflight: Inflight::default(),
            ..known
        };
    }

    /// The time that the peer is expected to take for a request, given those that are active and
    /// how many times `fail_timeout` has passed since it was last tried: each halves the time, so
    /// that a slow peer gets another chance.
    pub(super) fn estimate(&self, rule: LeastTime, active: u32, timeouts: u64, now_ms: u64) -> u64 {
        let mut averages = self.lock();
        let inflight = &mut averages.inflight;
        if let Some(each) = inflight.sum_ms.checked_div(inflight.requests) {
            let taken = each + now_ms.saturating_sub(inflight.changed_ms);
            average(&mut inflight.average_ms, taken);
        }
        let mut time = match rule.until {
            TimeUntil::Header => averages.header_ms,
            TimeUntil::LastByte => averages.response_ms,
        };
        time = u32::try_from(timeouts)
            .ok()
            .and_then(|timeouts| time.checked_shr(timeouts))
            .unwrap_or(0);
        if averages.inflight.requests > 0 {
            time = time.max(averages.inflight.average_ms);
        }
        let time = match time {
            0..=MAX_MS => time + STEP_MS - time % STEP_MS,
            _ => MAX_MS,
        };
        time * (1 + u64::from(active))
    }

    /// A request begins.
    fn begin(&self, now_ms: u64) {
        let inflight = &mut self.lock().inflight;
        inflight.pass_time(now_ms);
        inflight.requests += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Averages> {
        // Nothing that can panic runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inflight {
    /// Adds the time since the last change to what the requests have taken.
    fn pass_time(&mut self, now_ms: u64) {
        if self.requests > 0 {
            let passed = now_ms.saturating_sub(self.changed_ms);
            self.sum_ms += passed * self.requests;
        }
        self.changed_ms = now_ms;
    }

    /// A request ends after this time.
    fn end(&mut self, taken_ms: u64, now_ms: u64) {
        self.pass_time(now_ms);
        self.requests = self.requests.saturating_sub(1);
        self.sum_ms = match self.requests {
            0 => 0,
            _ => self.sum_ms.saturating_sub(taken_ms),
        };
    }
}

/// One request's time.
#[derive(Debug)]
pub(super) struct Stopwatch {
    rule: LeastTime,
    begun_ms: u64,
    header_ms: Option<u64>,
    /// It is counted among the requests under way.
    inflight: bool,
}

impl Stopwatch {
    /// Of a request that begins.
    pub(super) fn start(rule: LeastTime, times: &Times, now_ms: u64) -> Stopwatch {
        if rule.inflight {
            times.begin(now_ms);
        }
        Stopwatch {
            rule,
            begun_ms: now_ms,
            header_ms: None,
            inflight: rule.inflight,
        }
    }

    /// The response head is there.
    pub(super) fn note_header(&mut self, times: &Times, now_ms: u64) {
        let taken = now_ms.saturating_sub(self.begun_ms);
        self.header_ms = Some(taken);
        if self.inflight && self.rule.until == TimeUntil::Header {
            self.inflight = false;
            let mut averages = times.lock();
            average(&mut averages.header_ms, taken);
            averages.inflight.end(taken, now_ms);
        }
    }

    /// The peer has done its job. Without a response head, nothing is learnt.
    pub(super) fn note_success(&mut self, times: &Times, now_ms: u64) {
        let taken = now_ms.saturating_sub(self.begun_ms);
        let mut averages = times.lock();
        if std::mem::take(&mut self.inflight) {
            averages.inflight.end(taken, now_ms);
        }
        let Some(header_ms) = self.header_ms else {
            return;
        };
        average(&mut averages.response_ms, taken);
        if !(self.rule.inflight && self.rule.until == TimeUntil::Header) {
            average(&mut averages.header_ms, header_ms);
        }
    }

    /// The request is over without a success; the failure of a peer must not make it look fast.
    pub(super) fn stop(&mut self, times: &Times, now_ms: u64) {
        if std::mem::take(&mut self.inflight) {
            let taken = now_ms.saturating_sub(self.begun_ms);
            times.lock().inflight.end(taken, now_ms);
        }
    }

    /// Whether [`Stopwatch::stop`] has anything to do.
    pub(super) fn is_running(&self) -> bool {
        self.inflight
    }
}

/// Adds a time to an average, as nginx does. The first one is the average.
fn average(average_ms: &mut u64, time_ms: u64) {
    *average_ms = match *average_ms {
        0 => time_ms,
        // Rounded: (time + 19 * average) / 20 + 1/2.
        average => (time_ms + 19 * average + 10) / 20,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: LeastTime = LeastTime {
        until: TimeUntil::Header,
        inflight: false,
    };
    const LAST_BYTE: LeastTime = LeastTime {
        until: TimeUntil::LastByte,
        inflight: false,
    };
    const INFLIGHT: LeastTime = LeastTime {
        until: TimeUntil::Header,
        inflight: true,
    };

    #[test]
    fn header_and_last_byte_are_averaged_apart() {
        let times = Times::default();
        let mut watch = Stopwatch::start(HEADER, &times, 1000);
        watch.note_header(&times, 1100);
        watch.note_success(&times, 1500);
        assert_eq!(times.estimate(HEADER, 0, 0, 1500), 120);
        assert_eq!(times.estimate(LAST_BYTE, 0, 0, 1500), 520);
        // Another one of 1000 ms counts for a twentieth: 475 + 50.
        let mut watch = Stopwatch::start(HEADER, &times, 2000);
        watch.note_header(&times, 2001);
        watch.note_success(&times, 3000);
        assert_eq!(times.estimate(LAST_BYTE, 0, 0, 3000), 540);
    }

    #[test]
    fn active_requests_multiply_and_old_times_shrink() {
        let times = Times::default();
        let mut watch = Stopwatch::start(HEADER, &times, 0);
        watch.note_header(&times, 400);
        watch.note_success(&times, 400);
        assert_eq!(times.estimate(HEADER, 2, 0, 0), 420 * 3);
        assert_eq!(times.estimate(HEADER, 0, 1, 0), 220);
        assert_eq!(times.estimate(HEADER, 0, 64, 0), STEP_MS);
        assert_eq!(times.estimate(HEADER, 0, u64::MAX, 0), STEP_MS);
    }

    #[test]
    fn above_the_maximum_all_are_equal() {
        let times = Times::default();
        let mut watch = Stopwatch::start(HEADER, &times, 0);
        watch.note_header(&times, 60_000);
        watch.note_success(&times, 60_000);
        assert_eq!(times.estimate(HEADER, 1, 0, 0), 2 * MAX_MS);
    }

    #[test]
    fn a_failure_says_nothing_about_the_time() {
        let times = Times::default();
        let mut watch = Stopwatch::start(INFLIGHT, &times, 0);
        watch.stop(&times, 900);
        let mut watch = Stopwatch::start(HEADER, &times, 1000);
        watch.note_success(&times, 3000); // without a head
        assert_eq!(times.estimate(HEADER, 0, 0, 3000), STEP_MS);
        assert_eq!(times.estimate(LAST_BYTE, 0, 0, 3000), STEP_MS);
    }

    #[test]
    fn requests_under_way_count_from_the_moment_they_are_late() {
        let times = Times::default();
        let mut first = Stopwatch::start(INFLIGHT, &times, 0);
        assert_eq!(times.estimate(INFLIGHT, 0, 0, 1000), 1020);
        // A second one: 1000 and 0 so far.
        let mut second = Stopwatch::start(INFLIGHT, &times, 1000);
        first.note_header(&times, 1010);
        // 10 ms are left of the two; the average remembers 1000 ms.
        assert!(times.estimate(INFLIGHT, 0, 0, 1010) > 900);
        second.note_header(&times, 1020);
        assert!(!second.is_running());
        assert_eq!(times.lock().inflight.requests, 0);
        assert_eq!(times.lock().inflight.sum_ms, 0);
    }
}
