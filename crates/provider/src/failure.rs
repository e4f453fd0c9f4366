//! Why operations fail, and what the operator is told about it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealane_tls::accelerator::Report;

/// The operator is told of a reason at most once in this interval.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The provider reported an error.
    Error,
    /// The result did not pass verification.
    Wrong,
    /// It took longer than the time-out, waiting included.
    TimedOut,
    /// As many operations hang as may be in flight.
    AllHanging,
    /// No thread returns from the provider.
    Blocked,
    /// The operation does not fit the key.
    Unsuitable,
    /// The client has sent a number that RSA cannot decrypt. The operator is not told.
    Ciphertext,
    /// The engine stops.
    Stopped,
}

impl Failure {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::Error,
        Self::Wrong,
        Self::TimedOut,
        Self::AllHanging,
        Self::Blocked,
        Self::Unsuitable,
        Self::Ciphertext,
        Self::Stopped,
    ];

    /// A word for labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Wrong => "wrong_result",
            Self::TimedOut => "timed_out",
            Self::AllHanging => "all_hanging",
            Self::Blocked => "blocked",
            Self::Unsuitable => "unsuitable",
            Self::Ciphertext => "ciphertext",
            Self::Stopped => "stopped",
        }
    }

    /// What the operator can do. It ends the report.
    fn advice(self) -> &'static str {
        match self {
            Self::Error => "Look at the provider's own log and at the device",
            Self::Wrong => {
                "The result was detected before use, so no client was affected and the key is safe. \
                 The device, its driver or the memory of this machine is probably faulty: set \
                 \"ssl_accelerator cpu;\" until it is found"
            }
            Self::TimedOut => {
                "The device is overloaded or does not answer: look at its state, and at the \
                 provider's polling mode"
            }
            Self::AllHanging => {
                "The device does not answer. Reset it and restart this process; set \
                 \"ssl_accelerator cpu;\" until then"
            }
            Self::Blocked => {
                "The provider waits for its device and does not return. Reset the device and restart \
                 this process; set \"ssl_accelerator cpu;\" until then"
            }
            Self::Unsuitable => {
                "The certificate and the provider's key belong to different kinds of keys, or the \
                 key is too small"
            }
            Self::Ciphertext => "It is up to the client",
            Self::Stopped => "This process is ending",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "the provider failed",
            Self::Wrong => "the provider's result is wrong",
            Self::TimedOut => "the provider took too long",
            Self::AllHanging => "as many operations hang as may be in flight",
            Self::Blocked => "the provider does not return",
            Self::Unsuitable => "the operation does not fit the key",
            Self::Ciphertext => "the ciphertext is out of range",
            Self::Stopped => "the engine stops",
        })
    }
}

/// Tells the operator of failures, but not of each.
pub(crate) struct Reporter {
    /// `ssl_accelerator provider:NAME`.
    what: String,
    report: Report,
    told: Mutex<[Told; Failure::ALL.len()]>,
}

#[derive(Clone, Copy, Default)]
struct Told {
    at: Option<Instant>,
    /// Since then, untold.
    more: u64,
}

impl Reporter {
    pub(crate) fn new(provider: &str, report: Report) -> Self {
        Self {
            what: format!("ssl_accelerator provider:{provider}"),
            report,
            told: Mutex::default(),
        }
    }

    /// Tells of a failure, if none was told of for the same reason lately. `details` may be empty.
    pub(crate) fn tell(&self, reason: Failure, details: &str, now: Instant) {
        let more = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let told = &mut told[reason as usize];
            let is_due = told
                .at
                .is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
            if !is_due {
                told.more += 1;
                return;
            }
            told.at = Some(now);
            std::mem::take(&mut told.more)
        };
        let details = match details {
            "" => String::new(),
            details => format!(": {details}"),
        };
        let more = match more {
            0 => String::new(),
            more => format!(" (and {more} more like this since the last report)"),
        };
        let Self { what, report, .. } = self;
        let advice = reason.advice();
        report(&format!(
            "{what}: a private-key operation failed, {reason}{details}{more}. {advice}"
        ));
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reporter").field(&self.what).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_reason_is_told_once_in_a_minute() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let report: Report = {
            let lines = lines.clone();
            Arc::new(move |text: &str| lines.lock().expect("no panic").push(text.to_owned()))
        };
        let reporter = Reporter::new("x", report);
        let start = Instant::now();
        for _ in 0..5 {
            reporter.tell(Failure::Error, "EVP_DigestSign() failed (busy)", start);
        }
        reporter.tell(Failure::Wrong, "", start);
        reporter.tell(Failure::Error, "again", start + REPORT_INTERVAL);
        let lines = lines.lock().expect("no panic");
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with(
            "ssl_accelerator provider:x: a private-key operation failed, the provider failed: \
             EVP_DigestSign() failed (busy). Look at"
        ));
        assert!(lines[1].contains("result is wrong. The result was detected"));
        assert!(lines[2].contains(": again (and 4 more like this"));
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> =
            Failure::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Failure::ALL.len());
        for (index, reason) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
