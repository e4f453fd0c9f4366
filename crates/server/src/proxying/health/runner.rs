//! The thread that carries out health checks.

use super::schedule::{Conclusion, EntryId, Schedule};
use super::sharing::{Answers, SharedChecks};
use super::slices::Turn;
use super::tasks::{self, HealthTask, KnownVerdict, Question};
use super::{Fault, KeptProbe, located, raw};
use crate::counters::Counters;
use crate::current::Current;
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::open_file_cache::OpenFileCache;
use crate::proxying::tls_settings::now_s;
use crate::snapshot::Snapshot;
use crate::worker::{Process, Worker};
use sealane_conf::model::LogLevel;
use sealane_io::runtime::{self, Parts};
use sealane_io::socket::Socket;
use sealane_io::turns::Turns;
use sealane_log::Logger;
use sealane_tls::client::ClientTls;
use sealane_upstream::{HealthChange, Peer};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Checks in progress at a time; further ones wait. Each has a socket.
const MAX_IN_PROGRESS: usize = 512;
/// How often lists of peers are looked at for changes: names that resolve to other addresses.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// When to look again whether this node or another one asks a server.
const UNDECIDED_PAUSE: Duration = Duration::from_millis(50);

/// Carries out the health checks of the newest configuration.
#[derive(Default)]
pub struct HealthChecks {
    orders: Option<mpsc::UnboundedSender<Arc<Snapshot>>>,
    /// The newest configuration, if there are checks.
    snapshot: Option<Arc<Snapshot>>,
}

impl HealthChecks {
    /// What is known, for the next process.
    pub fn verdicts(&self) -> Vec<KnownVerdict> {
        let snapshot = self.snapshot.iter();
        snapshot
            .flat_map(|snapshot| tasks::verdicts(&snapshot.checks()))
            .collect()
    }

    /// Carries out the checks of this configuration from now on. The thread is started with the
    /// first one that has any, and ends with this value.
    ///
    /// # Errors
    /// When the thread, or what it needs, cannot be made.
    pub fn set(&mut self, snapshot: &Arc<Snapshot>) -> io::Result<()> {
        if self.orders.is_none() {
            if snapshot.health_tasks.is_empty() && !snapshot.changes_groups {
                return Ok(());
            }
            for task in &snapshot.health_tasks {
                task.group().group.recall_verdicts();
            }
            self.orders = Some(start(Arc::clone(snapshot))?);
        } else if let Some(orders) = &self.orders {
            // A thread that has panicked has reported that.
            let _ = orders.send(Arc::clone(snapshot));
        }
        self.snapshot = Some(Arc::clone(snapshot));
        Ok(())
    }
}

fn start(snapshot: Arc<Snapshot>) -> io::Result<mpsc::UnboundedSender<Arc<Snapshot>>> {
    let parts = Parts::new()?;
    // Requests of checks have no client; variables that ask for it find a Unix socket.
    let (client, _) = UnixStream::pair()?;
    client.set_nonblocking(true)?;
    let (sender, orders) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name("health".to_owned());
    thread.spawn(move || {
        let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
        let runtime = parts.start(sealane_log::flush_thread_buffers);
        let worker = worker(snapshot);
        runtime.block_on(async {
            let facts = Socket::unix(client.into());
            match facts {
                Ok(socket) => {
                    let facts = ConnectionFacts::new(0, PeerAddress::Unix, socket);
                    let (tell, answers) = mpsc::unbounded_channel();
                    let probes = Probes::new(worker, Arc::new(facts), tell);
                    probes.run(orders, answers).await;
                }
                Err(error) => {
                    let error = sealane_log::OsError(&error);
                    let log = &worker.current.snapshot().main_log;
                    let text = format_args!("health checks cannot be carried out ({error})");
                    log.log(LogLevel::Alert, None, text);
                }
            }
        });
    })?;
    Ok(sender)
}

/// What exchanges need of a worker thread. It accepts nothing, and counts for itself.
fn worker(snapshot: Arc<Snapshot>) -> Arc<Worker> {
    Arc::new(Worker {
        index: 0,
        turns: Turns::new(snapshot.multi_accept),
        current: Current::new(snapshot),
        open_files: OpenFileCache::new(),
        registry: Arc::default(),
        refused: Default::default(),
        counters: Counters::default(),
        process: Arc::new(Process::default()),
    })
}

/// What the checks have in common.
pub(super) struct Asking {
    pub(super) worker: Arc<Worker>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) client: Arc<ConnectionFacts>,
    /// For `type=ssl_hello`; `None` if the library does not work.
    pub(super) tls: Option<ClientTls>,
}

/// The result of a check.
struct ProbeOutcome {
    id: EntryId,
    begun: Instant,
    found: Result<(), Fault>,
    kept: Option<KeptProbe>,
}

struct Probes {
    worker: Arc<Worker>,
    client: Arc<ConnectionFacts>,
    schedule: Schedule,
    sharing: SharedChecks,
    tasks: Vec<HealthTask>,
    /// The generation of each task's list of peers.
    generations: Vec<u64>,
    /// That of the groups that no configuration has.
    live_generation: u64,
    asking: Arc<Asking>,
    in_progress: usize,
}

impl Probes {
    fn new(
        worker: Arc<Worker>,
        client: Arc<ConnectionFacts>,
        answers: mpsc::UnboundedSender<Answers>,
    ) -> Probes {
        let snapshot = worker.current.snapshot();
        let live_generation = snapshot.groups.live().generation();
        let tasks = snapshot.checks();
        let asking = asking(&worker, snapshot, &client, &tasks);
        Probes {
            worker,
            client,
            schedule: Schedule::default(),
            sharing: SharedChecks::new(answers),
            tasks,
            generations: Vec::new(),
            live_generation,
            asking,
            in_progress: 0,
        }
    }

    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Arc<Snapshot>>,
        mut answers: mpsc::UnboundedReceiver<Answers>,
    ) {
        let (tell, mut outcomes) = mpsc::unbounded_channel();
        let mut look_at = Instant::now();
        self.renew(look_at);
        loop {
            let has_room = self.in_progress < MAX_IN_PROGRESS;
            let due = self.schedule.next_due().filter(|_| has_room);
            let wake_at = due.into_iter().chain(self.sharing.next_at());
            let wake_at = wake_at.fold(look_at, Instant::min);
            tokio::select! {
                order = orders.recv() => match order {
                    Some(snapshot) => self.follow(snapshot),
                    None => return,
                },
                Some(outcome) = outcomes.recv() => self.note(outcome),
                Some(answers) = answers.recv() => {
                    let log = &self.asking.snapshot.main_log;
                    self.sharing.note(answers, &self.tasks, log, Instant::now());
                }
                () = runtime::sleep_until(wake_at) => {}
            }
            let now = Instant::now();
            if now >= look_at {
                look_at = now + LOOK_INTERVAL;
                self.look_for_changes(now);
            }
            self.sharing.begin_due(&self.tasks, now);
            self.begin_due(now, &tell);
        }
    }

    /// Another configuration.
    fn follow(&mut self, snapshot: Arc<Snapshot>) {
        let generation = self.worker.current.generation() + 1;
        self.worker.current.set(generation, Arc::clone(&snapshot));
        self.take_tasks(snapshot);
        self.renew(Instant::now());
    }

    fn take_tasks(&mut self, snapshot: Arc<Snapshot>) {
        // Before the tasks: groups that change meanwhile are looked at again.
        self.live_generation = snapshot.groups.live().generation();
        self.tasks = snapshot.checks();
        self.asking = asking(&self.worker, snapshot, &self.client, &self.tasks);
    }

    fn look_for_changes(&mut self, now: Instant) {
        let snapshot = &self.asking.snapshot;
        if snapshot.groups.live().generation() != self.live_generation {
            self.take_tasks(Arc::clone(snapshot));
            return self.renew(now);
        }
        let mut current = self.tasks.iter().zip(&self.generations);
        if current.any(|(task, known)| task.group.group.generation() != *known) {
            self.renew(now);
        }
    }

    fn renew(&mut self, now: Instant) {
        // Before the lists: one that changes meanwhile is looked at again.
        let tasks = self.tasks.iter();
        self.generations = tasks.map(|task| task.group.group.generation()).collect();
        self.schedule.renew(&self.tasks, now);
        self.sharing.renew(&self.tasks, now);
    }

    /// Starts the checks that are due.
    fn begin_due(&mut self, now: Instant, tell: &mpsc::UnboundedSender<ProbeOutcome>) {
        while self.in_progress < MAX_IN_PROGRESS
            && let Some((id, entry)) = self.schedule.take_due(now)
        {
            let Some(task) = self.tasks.get(entry.task).cloned() else {
                continue;
            };
            let until = match self.sharing.turn(entry.task, entry.peer.name(), now) {
                Turn::Ask => None,
                Turn::Leave => Some(now + entry.rules.interval),
                Turn::Wait => Some(now + UNDECIDED_PAUSE),
            };
            if let Some(until) = until {
                self.schedule.put_off(id, until);
                continue;
            }
            self.in_progress += 1;
            let (peer, kept) = (Arc::clone(&entry.peer), entry.kept.take());
            let (tell, asking) = (tell.clone(), Arc::clone(&self.asking));
            runtime::spawn(async move {
                let (found, kept) = ask(&asking, &task, &peer, kept).await;
                let outcome = ProbeOutcome {
                    id,
                    begun: now,
                    found,
                    kept,
                };
                // The thread ends.
                let _ = tell.send(outcome);
            });
        }
    }

    fn note(&mut self, outcome: ProbeOutcome) {
        self.in_progress -= 1;
        let ProbeOutcome {
            id,
            begun,
            found,
            kept,
        } = outcome;
        let jitter = jitter();
        let Some((conclusion, entry)) = self.schedule.ended(id, begun, found.is_ok(), kept, jitter)
        else {
            return;
        };
        let Some(task) = self.tasks.get(entry.task) else {
            return;
        };
        let passed_s = found.is_ok().then(now_s);
        entry.peer.count_check(task.number, passed_s);
        let healthy = match conclusion {
            Conclusion::Stays => return,
            Conclusion::Healthy => true,
            Conclusion::Unhealthy => false,
        };
        self.sharing.note_news(entry.task, entry.peer.name());
        let (group, peer) = (&task.group.group, &entry.peer);
        let change = group.note_verdict(peer, task.number, healthy, Instant::now());
        let log = logger(&self.asking.snapshot, task);
        report(log, task, peer, change, found.err());
    }
}

fn asking(
    worker: &Arc<Worker>,
    snapshot: Arc<Snapshot>,
    client: &Arc<ConnectionFacts>,
    tasks: &[HealthTask],
) -> Arc<Asking> {
    let tls = raw::tls_settings(tasks);
    Arc::new(Asking {
        worker: Arc::clone(worker),
        client: Arc::clone(client),
        snapshot,
        tls,
    })
}

async fn ask(
    asking: &Asking,
    task: &HealthTask,
    peer: &Arc<Peer>,
    kept: Option<KeptProbe>,
) -> (Result<(), Fault>, Option<KeptProbe>) {
    match &task.question {
        Question::Located(located) => located::ask(asking, &task.group, located, peer, kept).await,
        Question::Raw(check) => raw::ask(asking, check, peer, kept).await,
    }
}

/// The log of the location, or of the server as a whole.
fn logger<'s>(snapshot: &'s Snapshot, task: &HealthTask) -> &'s Logger {
    match &task.question {
        Question::Located(located) => &snapshot.location(located.location).logger,
        Question::Raw(_) => &snapshot.main_log,
    }
}

/// Tells the operator when requests are concerned.
pub(super) fn report(
    log: &Logger,
    task: &HealthTask,
    peer: &Peer,
    change: HealthChange,
    fault: Option<Fault>,
) {
    let (group, name, check) = (task.group.group.name(), peer.name(), task.name());
    match (change, fault) {
        (HealthChange::None, None) => {}
        (HealthChange::BecameHealthy, _) => log.log(
            LogLevel::Notice,
            None,
            format_args!("upstream server {name} of \"{group}\" is healthy ({check})"),
        ),
        (HealthChange::BecameUnhealthy, fault) => {
            let reason = fault.map_or_else(String::new, |fault| format!(": {fault}"));
            log.log(
                LogLevel::Warn,
                None,
                format_args!(
                    "upstream server {name} of \"{group}\" is unhealthy and gets no requests\
                     {reason} ({check})"
                ),
            );
        }
        // It gets none already: it has not passed a mandatory check, or fails another one.
        (HealthChange::None, Some(fault)) => log.log(
            LogLevel::Warn,
            None,
            format_args!("upstream server {name} of \"{group}\" is unhealthy: {fault} ({check})"),
        ),
    }
}

/// From 0 to 1.
fn jitter() -> f64 {
    // Without one, all peers wait equally long.
    getrandom::u32().map_or(0.0, |random| f64::from(random) / f64::from(u32::MAX))
}
