//! Warns of certificates that end: at the start, and while the server runs.
//!
//! Each certificate gets a line when it enters its last fourteen days and its last three, when it
//! has ended, and then once a day until another one takes its place. These are the limits of
//! `console`, too. Certificates of ACME servers have a keeper who knows more about them.

use super::Master;
use crate::certificates::{ENDS_SOON_DAYS, ENDS_VERY_SOON_DAYS};
use crate::journal::{Journal, note};
use sealane_server::Snapshot;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY_S: i64 = 24 * 3600;
const SOON_S: i64 = ENDS_SOON_DAYS as i64 * DAY_S;
const VERY_SOON_S: i64 = ENDS_VERY_SOON_DAYS as i64 * DAY_S;
/// The longest time between two looks: somebody may set the clock.
const MAX_WAIT_S: i64 = 3600;

/// The certificates of a configuration, and what was said about them.
#[derive(Default)]
pub(super) struct CertificateEnds {
    certificates: HashMap<Certificate, Option<Said>>,
    due: Option<Instant>,
}

/// A certificate of a file; one that takes its place ends at another time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Certificate {
    file: String,
    /// The first of those that use it.
    server: String,
    ends_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    urgency: Urgency,
    at_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Soon,
    VerySoon,
    Ended,
}

impl Urgency {
    fn of(left_s: i64) -> Option<Urgency> {
        match left_s {
            _ if left_s <= 0 => Some(Urgency::Ended),
            _ if left_s <= VERY_SOON_S => Some(Urgency::VerySoon),
            _ if left_s <= SOON_S => Some(Urgency::Soon),
            _ => None,
        }
    }
}

impl CertificateEnds {
    /// Those of a snapshot. What was said about a certificate that stays is remembered.
    fn set(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.certificates);
        for (server, report) in snapshot.certificates() {
            let known = |known: &Certificate| {
                known.file == report.label && Some(known.ends_s) == report.ends_s
            };
            let (Some(ends_s), false) = (report.ends_s, self.certificates.keys().any(known)) else {
                continue;
            };
            let certificate = Certificate {
                file: report.label.to_owned(),
                server: server.to_owned(),
                ends_s,
            };
            let said = before.remove(&certificate).flatten();
            self.certificates.insert(certificate, said);
        }
    }

    /// What is to be said now, for each certificate the loudest only.
    fn due(&mut self, now_s: i64) -> Vec<(Certificate, Urgency)> {
        let mut due = Vec::new();
        for (certificate, said) in &mut self.certificates {
            let Some(urgency) = Urgency::of(certificate.ends_s - now_s) else {
                continue;
            };
            let is_news = match said {
                None => true,
                Some(said) if urgency > said.urgency => true,
                Some(said) => urgency == Urgency::Ended && now_s - said.at_s >= DAY_S,
            };
            if is_news {
                *said = Some(Said {
                    urgency,
                    at_s: now_s,
                });
                due.push((certificate.clone(), urgency));
            }
        }
        due.sort();
        due
    }

    /// How long nothing more is to be said, at most [`MAX_WAIT_S`].
    fn wait_s(&self, now_s: i64) -> i64 {
        let limits = [SOON_S, VERY_SOON_S, 0];
        let until = |certificate: &Certificate| {
            let left_s = certificate.ends_s - now_s;
            limits.map(|limit| left_s - limit)
        };
        let waits = self.certificates.keys().flat_map(until);
        waits
            .filter(|wait| *wait > 0)
            .fold(MAX_WAIT_S, |shortest, wait| shortest.min(wait))
    }
}

/// `ends in 4 days`.
fn end(left_s: i64) -> String {
    let count = |number: i64, unit: &str| match number {
        1 => format!("1 {unit}"),
        _ => format!("{number} {unit}s"),
    };
    match left_s.abs() {
        away if left_s <= 0 && away < DAY_S => "has ended".to_owned(),
        away if left_s <= 0 => format!("has ended {} ago", count(away / DAY_S, "day")),
        away if away < DAY_S => format!("ends in {}", count(away / 3600, "hour")),
        away => format!("ends in {}", count(away / DAY_S, "day")),
    }
}

fn tell(journal: &Journal, certificate: &Certificate, urgency: Urgency, now_s: i64) {
    let Certificate {
        file,
        server,
        ends_s,
    } = certificate;
    let end = end(ends_s - now_s);
    let what = format!("certificate \"{file}\" of server \"{server}\" {end}");
    let advice = "then reload unless \"ssl_certificate_reload\" finds the new files";
    match urgency {
        Urgency::Soon => note!(journal, Warn, "{what}; renew it, {advice}"),
        Urgency::VerySoon => note!(journal, Error, "{what}; renew it, {advice}"),
        Urgency::Ended => {
            note!(
                journal,
                Error,
                "{what}, clients refuse it; renew it, {advice}"
            );
        }
    }
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

impl Master {
    /// From now on, the certificates of the configuration in use are those to warn of.
    pub(super) fn watch_ends(&mut self) {
        self.ends.set(&self.server.snapshot);
        self.ends.due = Some(Instant::now());
    }

    /// When one of them may be worth a line.
    pub(super) fn ends_due(&self) -> Option<Instant> {
        self.ends.due
    }

    /// Warns of those that are worth it.
    pub(super) fn warn_of_ends(&mut self) {
        let now = Instant::now();
        if self.ends.due.is_none_or(|due| now < due) {
            return;
        }
        let now_s = now_s();
        for (certificate, urgency) in self.ends.due(now_s) {
            tell(&self.server.journal, &certificate, urgency, now_s);
        }
        let wait_s = self.ends.wait_s(now_s).unsigned_abs();
        self.ends.due = now.checked_add(Duration::from_secs(wait_s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_S: i64 = 100 * DAY_S;

    fn ends() -> CertificateEnds {
        let certificate = Certificate {
            file: "a.pem".to_owned(),
            server: "a.test".to_owned(),
            ends_s: END_S,
        };
        CertificateEnds {
            certificates: HashMap::from([(certificate, None)]),
            due: None,
        }
    }

    #[test]
    fn each_limit_is_told_once_and_the_end_every_day() {
        let mut ends = ends();
        let mut said = Vec::new();
        let mut now_s = 0;
        while now_s < END_S + 3 * DAY_S {
            for (_, urgency) in ends.due(now_s) {
                said.push((urgency, (END_S - now_s) / DAY_S));
            }
            let wait_s = ends.wait_s(now_s);
            assert!((1..=MAX_WAIT_S).contains(&wait_s), "{wait_s}");
            now_s += wait_s;
        }
        let ended = [0, -1, -2].map(|days| (Urgency::Ended, days));
        let before = [(Urgency::Soon, 14), (Urgency::VerySoon, 3)];
        assert_eq!(said, [&before[..], &ended].concat());
    }

    #[test]
    fn what_is_late_is_told_as_what_it_is() {
        let mut ends = ends();
        let due = ends.due(END_S - DAY_S);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1, Urgency::VerySoon);
        assert!(ends.due(END_S - DAY_S + 1).is_empty());
    }

    #[test]
    fn times_are_told_in_words() {
        for (left_s, words) in [
            (14 * DAY_S, "ends in 14 days"),
            (2 * DAY_S - 1, "ends in 1 day"),
            (DAY_S - 1, "ends in 23 hours"),
            (3600, "ends in 1 hour"),
            (0, "has ended"),
            (1 - DAY_S, "has ended"),
            (-2 * DAY_S, "has ended 2 days ago"),
        ] {
            assert_eq!(end(left_s), words);
        }
    }
}
