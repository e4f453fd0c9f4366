//! The threads of a token. Each has a session, and computes one operation at a time.
//!
//! ```text
//!  submit -> queue -> a thread: C_Sign -> verified -> the job is complete
//!                        |                              |
//!                        |  time-out: the watch takes the job back and fails it; the thread is
//!                        |  left where it is, and takes part again when the module lets it go
//!                        |
//!                        +- the session, the token or the key is gone: a new session, once more
//!                              |
//!                              +- the token is gone: `Away`; jobs fail at once, and one thread
//!                                 looks for it, after 0.1 s, 0.2 s ... 10 s
//! ```

mod state;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealane_awslc::{KeyOperation, Secret};
use sealane_tls::accelerator::{Job, Report};

use crate::failure::Failure;
use crate::key::KeyFacts;
use crate::module::{Calls, Module, lock};
use crate::session::{LiveSession, Pins};
use crate::stats::{FailureKind, Health, Link};
use crate::token::TokenIdentity;
use crate::{Uri, threads, worker};
use state::{
    Connection, Ended, FIRST_PAUSE, LONGEST_PAUSE, MAX_BROKEN, MAX_LEFT_BEHIND, PoolState, Thread,
    Waiting, about, done, fail,
};

/// What all threads of a token share.
pub(crate) struct Shared {
    pub(crate) module: Arc<Module>,
    pub(crate) token: TokenIdentity,
    pub(crate) pins: Mutex<Pins>,
    /// How the token is found again.
    pub(crate) uri: Uri,
    report: Report,
    state: Mutex<PoolState>,
    /// There is something to do.
    work: Condvar,
    /// An operation has begun, or the pool closes.
    watch: Condvar,
    /// Held while the operator is told, so that it happens in the right order.
    reporting: Mutex<()>,
}

/// What a thread does next.
pub(crate) enum Task {
    Operation(Arc<KeyFacts>, KeyOperation),
    /// For the token. `anew`: sessions alone are no help, so the module has to begin again.
    Look {
        anew: bool,
    },
    End,
}

/// How an operation ended.
pub(crate) enum Outcome {
    Done(Secret),
    /// This operation failed; the token is there.
    Failed(FailureKind, Failure),
    /// The operation failed as if the token were gone, also in a new session.
    Broken(Failure),
    /// The token is gone.
    Lost(Failure),
    /// There is no session for this thread; others have some.
    NoSession(Failure),
}

/// A key, or one that is being opened. With the last one the pool closes.
#[derive(Debug)]
pub(crate) struct PoolUser(Arc<Shared>);

impl PoolUser {
    /// `None`: the pool closes.
    pub(crate) fn join(pool: Arc<Shared>) -> Option<Self> {
        let mut state = pool.lock();
        if state.is_closing {
            return None;
        }
        state.users += 1;
        drop(state);
        Some(Self(pool))
    }

    /// Starts threads up to `sessions`. `live` is for one of them: whoever has opened it has shown
    /// that the token is there.
    pub(crate) fn start(
        &self,
        sessions: usize,
        live: LiveSession,
        calls: &Calls<'_>,
    ) -> Result<(), Failure> {
        let pool = &self.0;
        let no_thread = |error: std::io::Error| Failure::NoThread(error.to_string().into());
        let mut state = pool.lock();
        let surplus = match &state.spare {
            Some(spare) if spare.is_of(calls) => Some(live),
            _ => state.spare.replace(live),
        };
        pool.set_up(&mut state);
        (state.broken, state.pause) = (0, FIRST_PAUSE);
        let mut started = Ok(());
        if !state.has_watch {
            let shared = pool.clone();
            started = threads::start("pkcs11 watch".to_owned(), move || shared.watch());
            state.has_watch = started.is_ok();
        }
        state.wanted = state.wanted.max(sessions);
        // Those which hang are replaced, but not without end.
        let most = state.wanted.saturating_mul(MAX_LEFT_BEHIND + 1);
        while started.is_ok()
            && state.alive() - state.hanging() < state.wanted
            && state.alive() < most
        {
            // A thread that has ended leaves its number to another one.
            let gone = |thread: &Thread| matches!(thread, Thread::Gone);
            let index = state.threads.iter().position(gone).unwrap_or_else(|| {
                state.threads.push(Thread::Gone);
                state.threads.len() - 1
            });
            let shared = pool.clone();
            let run = move || worker::run(&shared, index);
            started = threads::start(format!("pkcs11 {index}"), run);
            if started.is_ok() {
                state.threads[index] = Thread::Idle;
            }
        }
        drop(state);
        if let Some(surplus) = surplus {
            surplus.close(calls);
        }
        pool.work.notify_all();
        started.map_err(no_thread)
    }
}

impl Deref for PoolUser {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Drop for PoolUser {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.users -= 1;
        if state.users == 0 {
            self.0.close(state);
        }
    }
}

impl Shared {
    pub(crate) fn new(module: Arc<Module>, token: TokenIdentity, uri: Uri, report: Report) -> Self {
        module.set_connected(true);
        Self {
            module,
            token,
            pins: Mutex::default(),
            uri,
            report,
            state: Mutex::new(PoolState::new()),
            work: Condvar::new(),
            watch: Condvar::new(),
            reporting: Mutex::default(),
        }
    }

    /// Ends all threads that are not in the module; those end when they come back.
    fn close(&self, mut state: MutexGuard<'_, PoolState>) {
        state.is_closing = true;
        if matches!(state.connection, Connection::Up) {
            self.module.set_connected(false);
        }
        let jobs = std::mem::take(&mut state.queue);
        drop(state);
        drop(jobs);
        self.work.notify_all();
        self.watch.notify_all();
    }

    /// Queues a job, or fails it at once.
    pub(crate) fn submit(&self, job: Job, key: &Arc<KeyFacts>) {
        let mut state = self.lock();
        let refused = match &state.connection {
            Connection::PinRefused => Some(FailureKind::PinRefused),
            Connection::Away { .. } => Some(FailureKind::TokenAway),
            Connection::Up if state.hanging() >= state.alive() => Some(FailureKind::NotAnswering),
            Connection::Up if state.queue.len() >= key.max_queued => Some(FailureKind::QueueFull),
            Connection::Up => None,
        };
        if let Some(kind) = refused {
            drop(state);
            key.stats.record_failed(kind);
            job.complete(None);
            return;
        }
        state.queue.push_back(Waiting {
            job,
            key: key.clone(),
        });
        drop(state);
        self.work.notify_one();
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.lock();
        let (sessions, hanging) = (state.alive(), state.hanging());
        Health {
            link: match state.connection {
                Connection::Away { .. } => Link::Away,
                Connection::PinRefused => Link::PinRefused,
                Connection::Up if hanging >= sessions => Link::NotAnswering,
                Connection::Up => Link::Up,
            },
            sessions,
            hanging,
            queued: state.queue.len(),
            returned: state.returned,
            last_error: state.last_error.clone(),
        }
    }

    /// Waits for something to do. `index` is the thread's.
    pub(crate) fn next(&self, index: usize) -> Task {
        let mut state = self.lock();
        let task = loop {
            if state.is_closing {
                state.threads[index] = Thread::Gone;
                break Task::End;
            }
            let now = Instant::now();
            let pause = match &mut state.connection {
                Connection::Away {
                    next, is_looking, ..
                } if !*is_looking => match next.checked_duration_since(now) {
                    None | Some(Duration::ZERO) => {
                        *is_looking = true;
                        state.threads[index] = Thread::busy(None, now, LONGEST_PAUSE);
                        let anew = state.broken >= MAX_BROKEN;
                        break Task::Look { anew };
                    }
                    pause => pause,
                },
                Connection::Away { .. } | Connection::PinRefused => None,
                Connection::Up => match state.queue.pop_front() {
                    Some(waiting) if waiting.job.is_cancelled() => {
                        // Without the lock: who waited may just be about to give up.
                        drop(state);
                        waiting.key.stats.cancelled.add(1);
                        drop(waiting);
                        state = self.lock();
                        continue;
                    }
                    Some(waiting) => {
                        let key = waiting.key.clone();
                        let operation = waiting.job.operation().clone();
                        let waited = waiting.job.begin(now);
                        key.stats.queue_time.record(waited);
                        let timeout = key.timeout;
                        state.threads[index] =
                            Thread::busy(Some((waiting.job, waiting.key)), now, timeout);
                        break Task::Operation(key, operation);
                    }
                    None => None,
                },
            };
            state = self.wait(state, pause);
        };
        // The watch sleeps until an earlier time, but for those with a shorter time-out.
        let deadline = state.threads[index].deadline();
        let is_early = deadline.is_some_and(|deadline| {
            let until = state.watched_until;
            until.is_none_or(|until| until > deadline)
        });
        drop(state);
        if is_early {
            self.watch.notify_one();
        }
        task
    }

    /// A session for a thread that has none.
    pub(crate) fn take_spare(&self) -> Option<LiveSession> {
        self.lock().spare.take()
    }

    /// Whether the token is thought to be there.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.lock().connection, Connection::Up)
    }

    /// The thread is back with an outcome. `false`: it has to end.
    pub(crate) fn finish(&self, index: usize, outcome: Outcome) -> bool {
        let mut ended = Ended::default();
        let mut goes_on = true;
        let mut state = self.lock();
        let was_silent = state.hanging() >= state.alive();
        let busy = match std::mem::replace(&mut state.threads[index], Thread::Idle) {
            Thread::Busy(busy) => busy,
            Thread::Idle | Thread::Gone => unreachable!("a thread finishes what it began"),
        };
        let was_hanging = busy.is_hanging;
        match outcome {
            Outcome::Done(result) => {
                (state.broken, state.pause) = (0, FIRST_PAUSE);
                done(busy, result, &mut ended);
            }
            Outcome::Failed(kind, failure) => {
                let about = about(&busy);
                fail(busy, kind, &mut ended);
                // What clients send is no error of the token.
                if kind != FailureKind::Unsuited {
                    self.tell_about(&mut state, kind, about, &failure);
                }
            }
            Outcome::Broken(failure) => {
                state.broken += 1;
                let kind = match state.broken < MAX_BROKEN {
                    true => FailureKind::Refused,
                    false => FailureKind::TokenAway,
                };
                let about = about(&busy);
                fail(busy, kind, &mut ended);
                match kind {
                    FailureKind::TokenAway => {
                        self.lost(&mut state, (kind, false), &failure, &mut ended);
                    }
                    _ => self.tell_about(&mut state, kind, about, &failure),
                }
            }
            Outcome::Lost(failure) => {
                let kind = match failure {
                    Failure::PinRefused(_) | Failure::PinNeeded => FailureKind::PinRefused,
                    _ => FailureKind::TokenAway,
                };
                let is_look = busy.key.is_none();
                fail(busy, kind, &mut ended);
                self.lost(&mut state, (kind, is_look), &failure, &mut ended);
            }
            Outcome::NoSession(failure) if state.alive() - state.hanging() > 1 => {
                state.threads[index] = Thread::Gone;
                goes_on = false;
                if let Some((job, key)) = busy.job.zip(busy.key) {
                    state.queue.push_front(Waiting { job, key });
                }
                state.note(self.named(&failure.to_string()));
            }
            Outcome::NoSession(failure) => {
                let is_look = busy.key.is_none();
                let kind = FailureKind::TokenAway;
                fail(busy, kind, &mut ended);
                self.lost(&mut state, (kind, is_look), &failure, &mut ended);
            }
        }
        if was_hanging && state.alive() - state.hanging() > state.wanted {
            // Another one has taken its part.
            state.threads[index] = Thread::Gone;
            goes_on = false;
        }
        if was_silent {
            let text = self.named("the module answers again");
            state.reports.push_back(text);
        }
        drop(state);
        self.work.notify_one();
        self.complete(ended);
        goes_on
    }

    /// The thread ends by a panic.
    pub(crate) fn panicked(&self, index: usize) {
        let mut ended = Ended::default();
        let mut state = self.lock();
        if let Thread::Busy(busy) = std::mem::replace(&mut state.threads[index], Thread::Gone) {
            fail(busy, FailureKind::Refused, &mut ended);
        }
        drop(state);
        self.complete(ended);
    }

    /// A look has found the token.
    pub(crate) fn found(&self, index: usize) {
        let mut state = self.lock();
        state.threads[index] = Thread::Idle;
        let away = match state.connection {
            Connection::Away { since, is_told, .. } => Some((since.elapsed(), is_told)),
            _ => None,
        };
        self.set_up(&mut state);
        if let Some((away, is_told)) = away {
            state.returned += 1;
            if is_told {
                let text = format!("it is back after {:.1} s", away.as_secs_f64());
                state.reports.push_back(self.named(&text));
            }
        }
        drop(state);
        self.work.notify_all();
        self.tell_operator();
    }

    fn lost(
        &self,
        state: &mut PoolState,
        (kind, is_look): (FailureKind, bool),
        failure: &Failure,
        ended: &mut Ended,
    ) {
        let text = self.named(&failure.to_string());
        let now = Instant::now();
        let was_up = matches!(state.connection, Connection::Up);
        if !was_up && !is_look && kind != FailureKind::PinRefused {
            state.note(text); // It is known.
            return;
        }
        if was_up {
            self.module.set_connected(false);
        }
        for waiting in state.queue.drain(..) {
            waiting.key.stats.record_failed(kind);
            ended.failed.push(waiting.job);
        }
        let what = match kind {
            FailureKind::PinRefused => {
                "handshakes with its keys fail until the key is opened again with a PIN that the \
                 token takes (reload)"
            }
            _ => {
                "handshakes with its keys fail until it is back; it is looked for every 0.1 to 10 s"
            }
        };
        let mut is_told = false;
        match was_up || kind == FailureKind::PinRefused {
            true => is_told = state.tell((kind, None), format!("{text}; {what}")),
            false => state.note(text),
        }
        let mut since = now;
        if let Connection::Away {
            since: before,
            is_told: was_told,
            ..
        } = state.connection
        {
            (since, is_told) = (before, was_told);
        }
        state.connection = match kind {
            FailureKind::PinRefused => Connection::PinRefused,
            _ => Connection::Away {
                since,
                next: now + state.pause,
                is_looking: false,
                is_told,
            },
        };
        // Doubled until an operation succeeds: a token that is found may still not compute.
        state.pause = (state.pause * 2).min(LONGEST_PAUSE);
    }

    /// Notes an error about one key, and tells the operator unless that was done a short time ago.
    fn tell_about(
        &self,
        state: &mut PoolState,
        kind: FailureKind,
        about: Option<(u64, String)>,
        failure: &Failure,
    ) {
        if let Some((key, uri)) = about {
            let text = self.named(&format!("\"{uri}\": {failure}"));
            state.tell((kind, Some(key)), text);
        }
    }

    fn set_up(&self, state: &mut PoolState) {
        if !matches!(state.connection, Connection::Up) {
            self.module.set_connected(true);
            state.connection = Connection::Up;
        }
    }

    /// Takes jobs back whose time is over. One thread of each pool does nothing else, since all
    /// others may hang.
    fn watch(&self) {
        let mut state = self.lock();
        while !state.is_closing {
            let now = Instant::now();
            let mut ended = Ended::default();
            self.take_back(&mut state, now, &mut ended);
            if !ended.failed.is_empty() || !state.reports.is_empty() {
                drop(state);
                self.complete(ended);
                state = self.lock();
                continue;
            }
            let next = state.threads.iter().filter_map(Thread::deadline).min();
            let pause = next.map(|next| next.saturating_duration_since(now));
            state.watched_until = next;
            state = wait_on(&self.watch, state, pause);
        }
    }

    fn take_back(&self, state: &mut PoolState, now: Instant, ended: &mut Ended) {
        let mut took = None;
        for thread in &mut state.threads {
            let Thread::Busy(busy) = thread else { continue };
            if busy.is_hanging || busy.deadline > now {
                continue;
            }
            busy.is_hanging = true;
            took = Some(busy.deadline - busy.since);
            if let Some((job, key)) = busy.job.take().zip(busy.key.as_ref()) {
                key.stats.record_failed(FailureKind::TimedOut);
                ended.failed.push(job);
            }
        }
        let Some(timeout) = took else { return };
        let (hanging, alive) = (state.hanging(), state.alive());
        let text =
            format!("{hanging} of {alive} threads wait for the module longer than {timeout:?}");
        if hanging < alive {
            let text = self.named(&format!("{text}; their handshakes have failed"));
            state.tell((FailureKind::TimedOut, None), text);
            return;
        }
        for waiting in state.queue.drain(..) {
            waiting.key.stats.record_failed(FailureKind::NotAnswering);
            ended.failed.push(waiting.job);
        }
        let text = self.named(&format!(
            "{text}; handshakes with its keys fail until one comes back. Look whether the device \
             is there and reachable; if it is, reload"
        ));
        state.tell((FailureKind::NotAnswering, None), text);
    }

    fn complete(&self, ended: Ended) {
        if let Some((job, result)) = ended.done {
            job.complete(Some(result));
        }
        for job in ended.failed {
            job.complete(None);
        }
        self.tell_operator();
    }

    fn tell_operator(&self) {
        let _order = lock(&self.reporting);
        // In a statement of its own, so that the state is not locked meanwhile.
        while let Some(text) = self.next_report() {
            (self.report)(&text);
        }
    }

    fn next_report(&self) -> Option<String> {
        self.lock().reports.pop_front()
    }

    fn named(&self, text: &str) -> String {
        format!("PKCS #11 token \"{}\": {text}", self.token.label)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, PoolState>,
        pause: Option<Duration>,
    ) -> MutexGuard<'a, PoolState> {
        wait_on(&self.work, state, pause)
    }
}

fn wait_on<'a>(
    condvar: &Condvar,
    state: MutexGuard<'a, PoolState>,
    pause: Option<Duration>,
) -> MutexGuard<'a, PoolState> {
    match pause {
        Some(pause) => {
            let waited = condvar.wait_timeout(state, pause);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
        None => condvar.wait(state).unwrap_or_else(PoisonError::into_inner),
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("token", &self.token)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}
