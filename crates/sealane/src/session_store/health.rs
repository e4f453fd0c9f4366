//! Whether a store answers: when it is considered down, when it is tried again, and
//! what is logged about it.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// A store that has answered nothing for this long is given up ...
const UNANSWERED_FOR: Duration = Duration::from_millis(500);
/// ... if it got at least this many requests meanwhile.
const UNANSWERED_REQUESTS: u32 = 3;

/// The wait after the first failure in a row; doubled with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A connection that lived this long shows that all is well again.
const STEADY: Duration = Duration::from_secs(10);

/// Counts requests without an answer.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    requests: u32,
}

impl Silence {
    /// There was an answer, whatever it was.
    pub(super) fn broken(&mut self) {
        *self = Silence::default();
    }

    /// A request was not answered in time. Whether the store is to be given up.
    pub(super) fn lasts(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        self.requests = self.requests.saturating_add(1);
        self.requests >= UNANSWERED_REQUESTS && now.duration_since(since) >= UNANSWERED_FOR
    }
}

/// How long to wait before the next attempt to connect.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    failures: u32,
    random: RandomState,
}

impl BackOff {
    /// A connection that lived for `lived` has ended.
    pub(super) fn after_connection(&mut self, lived: Duration) {
        if lived >= STEADY {
            self.failures = 0;
        }
    }

    /// The next wait, varied by up to a quarter: nodes that lost the store at the same moment must
    /// not all reconnect at the same moment.
    pub(super) fn next_wait(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = (self.failures + 1).min(31);
        let wait = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
        let percent = 75 + self.random.hash_one(self.failures) % 51;
        wait * u32::try_from(percent).unwrap_or(100) / 100
    }
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// It was reachable, or nothing else is known.
    Lost(String),
    /// It is reachable again.
    Back,
    /// It answers but does not store.
    Refuses(String),
    /// It stores again.
    Stores,
}

/// One line when something changes, nothing meanwhile.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    lost: bool,
    refuses: bool,
}

impl Announcer {
    pub(super) fn lost(&mut self, why: &str) -> Option<Notice> {
        let news = !std::mem::replace(&mut self.lost, true);
        news.then(|| Notice::Lost(printable(why)))
    }

    pub(super) fn connected(&mut self) -> Option<Notice> {
        std::mem::take(&mut self.lost).then_some(Notice::Back)
    }

    pub(super) fn refused(&mut self, why: &str) -> Option<Notice> {
        let news = !std::mem::replace(&mut self.refuses, true);
        news.then(|| Notice::Refuses(printable(why)))
    }

    pub(super) fn stored(&mut self) -> Option<Notice> {
        std::mem::take(&mut self.refuses).then_some(Notice::Stores)
    }
}

/// A message of the store, in one line of bounded length.
pub(super) fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    let chars = text.chars().take(MAX_CHARS);
    chars
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hiccup_is_no_outage() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut silence = Silence::default();
        for _ in 0..1000 {
            assert!(!silence.lasts(at(0)), "all at once");
        }
        assert!(!silence.lasts(at(499)));
        silence.broken();
        assert!(!silence.lasts(at(600)), "counted anew after an answer");
        assert!(!silence.lasts(at(1100)), "two are too few");
        assert!(silence.lasts(at(1100)));
    }

    #[test]
    fn waits_grow_vary_and_stay_bounded_until_a_connection_lasts() {
        let mut back_off = BackOff::default();
        let near = |wait: Duration, expected: Duration| {
            assert!(
                wait >= expected * 3 / 4 && wait <= expected * 5 / 4,
                "{wait:?}"
            );
        };
        for expected in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            near(back_off.next_wait(), Duration::from_millis(expected));
        }
        back_off.after_connection(Duration::from_secs(1));
        near(back_off.next_wait(), LONGEST_WAIT);
        back_off.after_connection(STEADY);
        near(back_off.next_wait(), FIRST_WAIT);
        let waits: Vec<_> = (0..20).map(|_| BackOff::default().next_wait()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
    }

    #[test]
    fn only_changes_are_announced() {
        let mut announcer = Announcer::default();
        assert_eq!(announcer.connected(), None, "nobody was told otherwise");
        assert_eq!(announcer.lost("a\nb"), Some(Notice::Lost("a b".into())));
        assert_eq!(announcer.lost("c"), None);
        assert_eq!(announcer.connected(), Some(Notice::Back));
        assert_eq!(announcer.connected(), None);
        assert_eq!(announcer.stored(), None);
        assert_eq!(
            announcer.refused("OOM"),
            Some(Notice::Refuses("OOM".into()))
        );
        assert_eq!(announcer.refused("OOM"), None);
        assert_eq!(announcer.stored(), Some(Notice::Stores));
    }
}
