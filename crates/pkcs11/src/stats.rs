//! What operations of a key cost and how they ended, and how its token is.

use std::fmt;
use std::time::{Duration, SystemTime};

use sealane_counters::{Counter, Histogram};

/// Why an operation failed, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// It took longer than its time-out.
    TimedOut,
    /// Every thread of the token was waiting for the module.
    NotAnswering,
    /// The token is gone.
    TokenAway,
    /// The token refuses the PIN.
    PinRefused,
    /// Too many operations were waiting.
    QueueFull,
    /// The key is no longer in the token.
    KeyMissing,
    /// The token returned an error.
    Refused,
    /// The token returned something wrong.
    WrongResult,
    /// What the client sent does not fit the key.
    Unsuited,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::TimedOut,
        Self::NotAnswering,
        Self::TokenAway,
        Self::PinRefused,
        Self::QueueFull,
        Self::KeyMissing,
        Self::Refused,
        Self::WrongResult,
        Self::Unsuited,
    ];

    /// A word for labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::NotAnswering => "not_answering",
            Self::TokenAway => "token_away",
            Self::PinRefused => "pin_refused",
            Self::QueueFull => "queue_full",
            Self::KeyMissing => "key_missing",
            Self::Refused => "refused",
            Self::WrongResult => "wrong_result",
            Self::Unsuited => "unsuited",
        }
    }
}

/// Counters of one key. They only grow.
#[derive(Default)]
pub struct KeyStats {
    /// How long operations took from their turn to their end, if the token answered in time.
    pub operation_time: Histogram,
    /// How long operations waited for their turn.
    pub queue_time: Histogram,
    /// Operations that were not begun because nobody wanted the result any more.
    pub cancelled: Counter,
    /// Results that came after the time-out.
    pub late: Counter,
    failed: [Counter; FailureKind::ALL.len()],
}

impl KeyStats {
    /// Operations that ended well.
    pub fn done(&self) -> u64 {
        self.operation_time.values().count()
    }

    /// Operations that failed for this reason.
    pub fn failed(&self, kind: FailureKind) -> u64 {
        self.failed[kind as usize].get()
    }

    pub(crate) fn record_done(&self, time: Duration) {
        self.operation_time.record(time);
    }

    pub(crate) fn record_failed(&self, kind: FailureKind) {
        self.failed[kind as usize].add(1);
    }
}

impl fmt::Debug for KeyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("KeyStats");
        f.field("done", &self.done());
        for kind in FailureKind::ALL {
            f.field(kind.name(), &self.failed(kind));
        }
        f.finish_non_exhaustive()
    }
}

/// Whether a token can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As far as is known, it can.
    Up,
    /// It is gone, and looked for from time to time.
    Away,
    /// Every thread waits for the module. New operations fail until one comes back.
    NotAnswering,
    /// It refuses the PIN, and is not asked again.
    PinRefused,
}

/// How a key's token is. All keys of a token share it.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether it can be used.
    pub link: Link,
    /// Threads with a session each.
    pub sessions: usize,
    /// Those which wait for the module longer than the time-out.
    pub hanging: usize,
    /// Operations that wait for their turn.
    pub queued: usize,
    /// How often the token was lost and found again.
    pub returned: u64,
    /// What went wrong last, and when.
    pub last_error: Option<(String, SystemTime)>,
}
