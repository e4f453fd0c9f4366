//! What the threads of a token know of each other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sealane_awslc::Secret;
use sealane_tls::accelerator::Job;

use crate::key::KeyFacts;
use crate::session::LiveSession;
use crate::stats::FailureKind;

/// How long after a token is lost it is looked for again; doubled each time.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest time between two looks.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After so many operations in a row that failed as if the token were gone, it is: some modules
/// give sessions without asking the device.
pub(super) const MAX_BROKEN: u32 = 3;
/// How many threads that hang are replaced when a key is opened again, for each session.
pub(super) const MAX_LEFT_BEHIND: usize = 3;
/// The operator is told the same at most once in this interval.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// The longest text of an error that is kept: a list of tokens may be long.
pub(super) const MAX_ERROR_BYTES: usize = 2000;

pub(super) struct PoolState {
    /// Keys, and those that are being opened.
    pub(super) users: usize,
    pub(super) queue: VecDeque<Waiting>,
    /// One for each thread that was ever started.
    pub(super) threads: Vec<Thread>,
    /// How many of them there should be, those that hang aside.
    pub(super) wanted: usize,
    pub(super) connection: Connection,
    /// A session that no thread has taken yet. While it is open, the token is.
    pub(super) spare: Option<LiveSession>,
    pub(super) has_watch: bool,
    /// When the watch wakes by itself.
    pub(super) watched_until: Option<Instant>,
    pub(super) is_closing: bool,
    /// How long to wait before the token is looked for.
    pub(super) pause: Duration,
    /// Operations since the last good one that failed also in a new session.
    pub(super) broken: u32,
    pub(super) returned: u64,
    pub(super) last_error: Option<(String, SystemTime)>,
    /// What the operator is about to be told.
    pub(super) reports: VecDeque<String>,
    /// Of which kind, about which key, when.
    pub(super) told: Vec<(FailureKind, Option<u64>, Instant)>,
}

pub(super) struct Waiting {
    pub(super) job: Job,
    pub(super) key: Arc<KeyFacts>,
}

pub(super) enum Thread {
    Idle,
    Busy(Busy),
    /// It has ended.
    Gone,
}

/// A thread in the module.
pub(super) struct Busy {
    /// `None`: it looks for the token, or the job was taken back.
    pub(super) job: Option<Job>,
    /// `None`: it looks for the token.
    pub(super) key: Option<Arc<KeyFacts>>,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    pub(super) is_hanging: bool,
}

pub(super) enum Connection {
    Up,
    Away {
        since: Instant,
        next: Instant,
        is_looking: bool,
        is_told: bool,
    },
    PinRefused,
}

/// Jobs that have ended, to be completed without the lock: that wakes tasks.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) done: Option<(Job, Secret)>,
    pub(super) failed: Vec<Job>,
}

impl PoolState {
    pub(super) fn new() -> Self {
        Self {
            users: 0,
            queue: VecDeque::new(),
            threads: Vec::new(),
            wanted: 0,
            connection: Connection::Up,
            spare: None,
            has_watch: false,
            watched_until: None,
            is_closing: false,
            pause: FIRST_PAUSE,
            broken: 0,
            returned: 0,
            last_error: None,
            reports: VecDeque::new(),
            told: Vec::new(),
        }
    }

    pub(super) fn alive(&self) -> usize {
        let is_alive = |thread: &&Thread| !matches!(thread, Thread::Gone);
        self.threads.iter().filter(is_alive).count()
    }

    pub(super) fn hanging(&self) -> usize {
        let is_hanging = |thread: &&Thread| matches!(thread, Thread::Busy(busy) if busy.is_hanging);
        self.threads.iter().filter(is_hanging).count()
    }

    /// Notes an error, and has the operator told unless that was done a short time ago. `key` is
    /// the number of the key that it is about. Whether the operator is told.
    pub(super) fn tell(&mut self, (kind, key): (FailureKind, Option<u64>), text: String) -> bool {
        let now = Instant::now();
        self.told
            .retain(|(_, _, at)| now.saturating_duration_since(*at) < REPORT_INTERVAL);
        let mut told = self.told.iter().map(|(kind, key, _)| (*kind, *key));
        let is_new = !told.any(|told| told == (kind, key));
        if is_new {
            self.told.push((kind, key, now));
            self.reports.push_back(text.clone());
        }
        self.note(text);
        is_new
    }

    pub(super) fn note(&mut self, mut text: String) {
        if let Some((end, _)) = text.char_indices().find(|(at, _)| *at >= MAX_ERROR_BYTES) {
            text.truncate(end);
        }
        self.last_error = Some((text, SystemTime::now()));
    }
}

impl Thread {
    pub(super) fn busy(
        job: Option<(Job, Arc<KeyFacts>)>,
        since: Instant,
        timeout: Duration,
    ) -> Self {
        let (job, key) = job.unzip();
        Self::Busy(Busy {
            job,
            key,
            since,
            deadline: since + timeout,
            is_hanging: false,
        })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Busy(busy) if !busy.is_hanging => Some(busy.deadline),
            _ => None,
        }
    }
}

/// Number and URI of the key that a thread was busy with.
pub(super) fn about(busy: &Busy) -> Option<(u64, String)> {
    let key = busy.key.as_ref()?;
    Some((key.number, key.uri.to_string()))
}

pub(super) fn done(busy: Busy, result: Secret, ended: &mut Ended) {
    let Some(key) = busy.key else { return };
    match busy.job {
        Some(job) => {
            key.stats.record_done(busy.since.elapsed());
            ended.done = Some((job, result));
        }
        // The watch has failed the job.
        None => key.stats.late.add(1),
    }
}

pub(super) fn fail(busy: Busy, kind: FailureKind, ended: &mut Ended) {
    // If the watch has failed the job, it was counted then.
    if let Some((job, key)) = busy.job.zip(busy.key) {
        key.stats.record_failed(kind);
        ended.failed.push(job);
    }
}
