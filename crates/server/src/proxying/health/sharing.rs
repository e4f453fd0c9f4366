//! `shared`: nodes tell each other through a store what they have found out about servers, so that
//! one of them asks and the others need not.
//!
//! For each part of a check there are two values: a lease, which says whose turn it is, and a
//! record, sealed, which that node writes at every tick and when a verdict changes. Nothing waits
//! for the store: questions go to its thread, and answers come back as messages.

use super::Fault;
use super::record::{Finding, MAX_NODE_BYTES, Record};
use super::runner::report;
use super::slices::{CheckSlice, StoreQuestion, Times, Turn, Unused, slice_count};
use super::tasks::HealthTask;
use crate::variables::hostname;
use md5::{Digest, Md5};
use sealane_conf::model::LogLevel;
use sealane_io::runtime::{self, timeout_at};
use sealane_log::Logger;
use sealane_tls::{Reply, SharedSessions, StoreKey};
use sealane_upstream::Verdict;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A node that begins asks the store so often until it has an answer.
const FIRST_TICK: Duration = Duration::from_millis(100);
/// The store's thread gives up questions in time; this is for the case that it has ended.
const THREAD_GRACE: Duration = Duration::from_millis(500);
/// How often records that are refused are mentioned.
const REFUSAL_PAUSE: Duration = Duration::from_secs(60);

/// What the store has answered to the questions of a check.
pub(super) struct Answers {
    check: u64,
    asked: Instant,
    of_slices: Vec<(usize, StoreAnswer)>,
}

/// `None` within: the store has not answered.
enum StoreAnswer {
    Record(Option<Option<Vec<u8>>>),
    Lease(Option<bool>),
}

/// All checks that are shared.
pub(super) struct SharedChecks {
    /// This process among all nodes.
    holder: [u8; 16],
    node: Box<str>,
    next_id: u64,
    checks: Vec<SharedCheck>,
    /// The check of each task.
    of_tasks: HashMap<usize, usize>,
    news: HashMap<usize, StoreNews>,
    tell: mpsc::UnboundedSender<Answers>,
}

/// A check that is shared.
struct SharedCheck {
    id: u64,
    /// What it is recognised by in another configuration, and on other nodes.
    label: String,
    task: usize,
    store: SharedSessions,
    times: Times,
    next_at: Instant,
    /// The store is being asked.
    is_asking: bool,
    slices: Vec<CheckSlice>,
    /// The names of records and of leases.
    keys: Vec<(StoreKey, StoreKey)>,
}

/// What was said about a store.
#[derive(Default)]
struct StoreNews {
    is_silent: bool,
    refused: Option<Instant>,
}

impl SharedChecks {
    /// Answers are sent to `tell`.
    pub(super) fn new(tell: mpsc::UnboundedSender<Answers>) -> SharedChecks {
        let mut holder = [0; 16];
        // Without random numbers nodes hold each other's leases, and ask more than they need.
        let _ = getrandom::fill(&mut holder);
        let name = hostname().unwrap_or_default();
        let name: String = name.chars().filter(char::is_ascii_graphic).collect();
        let name = name.get(..MAX_NODE_BYTES).unwrap_or(&name);
        SharedChecks {
            holder,
            node: name.into(),
            next_id: 0,
            checks: Vec::new(),
            of_tasks: HashMap::new(),
            news: HashMap::new(),
            tell,
        }
    }

    /// Follows the tasks and their lists of servers. What remains keeps its state.
    pub(super) fn renew(&mut self, tasks: &[HealthTask], now: Instant) {
        let mut before = std::mem::take(&mut self.checks);
        for (task, settings) in tasks.iter().enumerate() {
            let Some((store, label)) = settings.sharing() else {
                continue;
            };
            let peers = settings.group.group.peers();
            let count = slice_count(peers.iter().filter(|peer| !peer.is_down()).count());
            let known = before.iter().position(|known| {
                known.label == label
                    && known.slices.len() == count
                    && Arc::ptr_eq(&known.store.store, &store.store)
            });
            let keys = (0..count).map(|at| {
                let name = |what: &str| {
                    store
                        .seal
                        .health_key(&format!("{what} {at}/{count} {label}"))
                };
                (name("record"), name("lease"))
            });
            let keys = keys.collect();
            self.checks
                .push(match known.map(|at| before.swap_remove(at)) {
                    Some(known) => SharedCheck {
                        task,
                        store: store.clone(),
                        keys,
                        ..known
                    },
                    None => {
                        self.next_id += 1;
                        SharedCheck {
                            id: self.next_id,
                            label,
                            task,
                            store: store.clone(),
                            times: Times::of(settings.rules.interval),
                            next_at: now,
                            is_asking: false,
                            slices: (0..count).map(|_| CheckSlice::new(now)).collect(),
                            keys,
                        }
                    }
                });
        }
        let checks = self.checks.iter().enumerate();
        self.of_tasks = checks.map(|(at, check)| (check.task, at)).collect();
        let stores: Vec<usize> = self.checks.iter().map(SharedCheck::store_id).collect();
        self.news.retain(|store, _| stores.contains(store));
    }

    /// Who asks a server of a task.
    pub(super) fn turn(&self, task: usize, peer: &str, now: Instant) -> Turn {
        match self.of_tasks.get(&task).and_then(|at| self.checks.get(*at)) {
            None => Turn::Ask,
            Some(check) => check.slices[check.slice_of(peer)].turn(now, check.times),
        }
    }

    /// This node has found out something new about a server of a task.
    pub(super) fn note_news(&mut self, task: usize, peer: &str) {
        let check = self.of_tasks.get(&task).copied();
        if let Some(check) = check.and_then(|at| self.checks.get_mut(at)) {
            let slice = check.slice_of(peer);
            check.slices[slice].has_news = true;
        }
    }

    /// When there is something to do next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let checks = self.checks.iter();
        checks.filter_map(SharedCheck::next_at).min()
    }

    /// Asks the stores, and tells other nodes, what is due.
    pub(super) fn begin_due(&mut self, tasks: &[HealthTask], now: Instant) {
        for check in &mut self.checks {
            let slices = check.slices.iter().enumerate();
            let is_due = |slice: &CheckSlice| slice.tells_at().is_some_and(|at| at <= now);
            let news: Vec<usize> = slices
                .filter(|(_, slice)| is_due(slice))
                .map(|(at, _)| at)
                .collect();
            check.tell(&news, tasks, &self.node, now);
            if check.is_asking || now < check.next_at {
                continue;
            }
            let slices = check.slices.iter().enumerate();
            let questions = slices.map(|(at, slice)| (at, slice.question())).collect();
            check.ask(questions, self.holder, &self.tell, now);
        }
    }

    /// The store has answered.
    pub(super) fn note(
        &mut self,
        answers: Answers,
        tasks: &[HealthTask],
        log: &Logger,
        now: Instant,
    ) {
        let Some(check) = self
            .checks
            .iter_mut()
            .find(|check| check.id == answers.check)
        else {
            return;
        };
        let Some(task) = tasks.get(check.task) else {
            return;
        };
        check.is_asking = false;
        let news = self.news.entry(check.store_id()).or_default();
        let (mut has_answered, mut refused) = (false, None);
        let (mut wanted, mut held, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for (at, answer) in answers.of_slices {
            let Some(slice) = check.slices.get_mut(at) else {
                continue;
            };
            match answer {
                StoreAnswer::Lease(answer) => {
                    has_answered |= answer.is_some();
                    slice.note_lease(answer, answers.asked, now, check.times);
                    if answer == Some(true) {
                        held.push(at);
                    }
                }
                StoreAnswer::Record(None) => {}
                StoreAnswer::Record(Some(sealed)) => {
                    has_answered = true;
                    match sealed.map(|sealed| check.open(at, &sealed, now)) {
                        None | Some(Ok(None)) => {}
                        Some(Ok(Some(record))) => records.push((at, record)),
                        Some(Err(refusal)) => refused = Some(refusal),
                    }
                    if check.slices[at].wants_lease(now, check.times) {
                        wanted.push((at, StoreQuestion::Lease));
                    }
                }
            }
        }
        let group = task.group.group.name();
        news.note_answer(has_answered, check.is_undecided(now), group, log);
        if let Some(refusal) = refused {
            news.note_refusal(&refusal, group, log, now);
        }
        check.take_over(records, task, log, now);
        check.tell(&held, tasks, &self.node, now);
        check.next_at = match check.is_undecided(now) {
            true => now + FIRST_TICK,
            false => answers.asked + check.times.tick,
        };
        if !wanted.is_empty() {
            check.ask(wanted, self.holder, &self.tell, now);
        }
    }
}

/// Why a record is refused.
enum Refusal {
    /// It was not sealed with this node's key for this place, or is none.
    Foreign,
    /// The clock of this node, or this one's, is wrong.
    Clock(Box<str>),
}

impl StoreNews {
    fn note_answer(&mut self, has_answered: bool, is_early: bool, group: &str, log: &Logger) {
        if has_answered {
            if std::mem::take(&mut self.is_silent) {
                let text = format_args!(
                    "the session store of upstream \"{group}\" answers again: nodes share health \
                     checks"
                );
                log.log(LogLevel::Notice, None, text);
            }
        } else if !is_early && !std::mem::replace(&mut self.is_silent, true) {
            let text = format_args!(
                "the session store of upstream \"{group}\" does not answer: this node carries out \
                 shared health checks by itself until it does"
            );
            log.log(LogLevel::Warn, None, text);
        }
    }

    fn note_refusal(&mut self, refusal: &Refusal, group: &str, log: &Logger, now: Instant) {
        let is_said = self
            .refused
            .is_some_and(|at| now.saturating_duration_since(at) < REFUSAL_PAUSE);
        if is_said {
            return;
        }
        self.refused = Some(now);
        let why = match refusal {
            Refusal::Foreign => "it was sealed with another \"key=\", or by nobody".to_owned(),
            Refusal::Clock(node) => {
                format!("the clocks of node \"{node}\" and of this one differ by seconds")
            }
        };
        let text = format_args!(
            "what the session store has about servers of upstream \"{group}\" is not used ({why}): \
             this node checks them by itself"
        );
        log.log(LogLevel::Warn, None, text);
    }
}

impl SharedCheck {
    /// What tells its store from others.
    fn store_id(&self) -> usize {
        Arc::as_ptr(&self.store.store).cast::<()>().addr()
    }

    /// The part that a server belongs to, on every node.
    fn slice_of(&self, peer: &str) -> usize {
        let digest = Md5::digest(peer);
        // Their number is a power of two, 256 at most.
        usize::from(digest[0]) % self.slices.len().max(1)
    }

    fn is_undecided(&self, now: Instant) -> bool {
        self.slices.iter().any(|slice| slice.is_undecided(now))
    }

    fn next_at(&self) -> Option<Instant> {
        let news = self.slices.iter().filter_map(CheckSlice::tells_at).min();
        let look = (!self.is_asking).then_some(self.next_at);
        news.into_iter().chain(look).min()
    }

    /// Sends questions about these parts, all at once.
    fn ask(
        &mut self,
        questions: Vec<(usize, StoreQuestion)>,
        holder: [u8; 16],
        tell: &mpsc::UnboundedSender<Answers>,
        now: Instant,
    ) {
        self.is_asking = true;
        let store = &self.store.store;
        let mut waiting = Vec::with_capacity(questions.len());
        for (at, question) in questions {
            let (record, lease) = &self.keys[at];
            waiting.push(match question {
                StoreQuestion::Record => {
                    let (reply, answer) = Reply::channel();
                    store.fetch(record.clone(), reply);
                    (at, PendingAnswer::Record(answer))
                }
                StoreQuestion::Lease => {
                    let (reply, answer) = Reply::channel();
                    store.lease(lease.clone(), holder, self.times.lifetime_s, reply);
                    (at, PendingAnswer::Lease(answer))
                }
            });
        }
        let deadline = now + self.store.timeout + THREAD_GRACE;
        let (check, tell) = (self.id, tell.clone());
        runtime::spawn(async move {
            let mut of_slices = Vec::with_capacity(waiting.len());
            for (at, answer) in waiting {
                of_slices.push((at, answer.within(deadline).await));
            }
            let answers = Answers {
                check,
                asked: now,
                of_slices,
            };
            // The thread ends.
            let _ = tell.send(answers);
        });
    }

    /// What another node tells about this part, if it is new.
    ///
    /// # Errors
    /// Why it is not used.
    fn open(&mut self, at: usize, sealed: &[u8], now: Instant) -> Result<Option<Record>, Refusal> {
        let opened = self.store.seal.open(&self.keys[at].0, sealed);
        let record = opened.and_then(|plain| Record::decode(plain.expose()));
        let record = record.ok_or(Refusal::Foreign)?;
        match self.slices[at].hear(&record, now, unix_ms(), self.times) {
            Ok(()) => Ok(Some(record)),
            Err(Unused::Known) => Ok(None),
            Err(Unused::Clock) => Err(Refusal::Clock(record.node)),
        }
    }

    /// Tells other nodes about these parts.
    fn tell(&mut self, slices: &[usize], tasks: &[HealthTask], node: &str, now: Instant) {
        let Some(task) = tasks.get(self.task).filter(|_| !slices.is_empty()) else {
            return;
        };
        let mut found: Vec<Vec<Finding>> = Vec::new();
        found.resize_with(self.slices.len(), Vec::new);
        let peers = task.group.group.peers();
        for peer in peers.iter().filter(|peer| !peer.is_down()) {
            let streak = peer.streak(task.number());
            found[self.slice_of(peer.name())].push(Finding {
                peer: (**peer.name()).into(),
                verdict: peer.verdict(task.number()),
                streak: i32::try_from(streak).unwrap_or(if streak < 0 {
                    i32::MIN
                } else {
                    i32::MAX
                }),
            });
        }
        for &at in slices {
            let record = Record {
                time_ms: self.slices[at].tell(now, unix_ms(), self.times),
                node: node.into(),
                found: std::mem::take(&mut found[at]),
            };
            // One that is too long is not told: then all nodes ask.
            if let Some(plain) = record.encode() {
                let key = &self.keys[at].0;
                let sealed = self.store.seal.seal(key, &plain);
                self.store
                    .store
                    .put(key.clone(), sealed, self.times.lifetime_s);
            }
        }
    }

    /// Takes over what other nodes have found out.
    fn take_over(
        &self,
        records: Vec<(usize, Record)>,
        task: &HealthTask,
        log: &Logger,
        now: Instant,
    ) {
        if records.is_empty() {
            return;
        }
        let mut known: HashMap<&str, (&Finding, &str)> = HashMap::new();
        for (at, record) in &records {
            for finding in &record.found {
                // Of several servers with one address the one that fails counts.
                if self.slice_of(&finding.peer) == *at {
                    let known = known
                        .entry(&finding.peer)
                        .or_insert((finding, &record.node));
                    if finding.verdict == Verdict::Unhealthy {
                        *known = (finding, &record.node);
                    }
                }
            }
        }
        let (group, number) = (&task.group.group, task.number());
        for peer in group.peers().iter().filter(|peer| !peer.is_down()) {
            let Some((finding, node)) = known.get(&**peer.name()) else {
                continue;
            };
            peer.set_streak(number, i64::from(finding.streak));
            if finding.verdict == Verdict::Unknown || finding.verdict == peer.verdict(number) {
                continue;
            }
            let is_healthy = finding.verdict == Verdict::Healthy;
            let change = group.note_verdict(peer, number, is_healthy, now);
            let fault = || Fault(format!("node \"{node}\" has found that out"));
            report(log, task, peer, change, (!is_healthy).then(fault));
        }
    }
}

/// An answer of the store that is still to come.
enum PendingAnswer {
    Record(tokio::sync::oneshot::Receiver<Option<Vec<u8>>>),
    Lease(tokio::sync::oneshot::Receiver<bool>),
}

impl PendingAnswer {
    async fn within(self, deadline: Instant) -> StoreAnswer {
        match self {
            PendingAnswer::Record(answer) => {
                let answer = timeout_at(deadline, answer).await;
                StoreAnswer::Record(answer.ok().and_then(Result::ok))
            }
            PendingAnswer::Lease(answer) => {
                let answer = timeout_at(deadline, answer).await;
                StoreAnswer::Lease(answer.ok().and_then(Result::ok))
            }
        }
    }
}

fn unix_ms() -> u64 {
    u64::try_from(sealane_sys::time::unix_ms()).unwrap_or(0)
}
