//! The worker process: drops privileges, then serves until told otherwise.

use crate::certificates::CertificateThread;
use crate::control::{self, Message, Report};
use crate::journal::{Journal, note};
use crate::key_process::KeyLine;
use crate::name_server::NameServerThread;
use crate::reload::{Carried, Incoming};
use crate::resolver::{self, ResolverThread};
use crate::session_store::{self, StateSink, StoreThread, Telling};
use crate::sockets::Sockets;
use crate::startup::Server;
use crate::system_load::SystemLoadThread;
use crate::traces::TraceThread;
use crate::{cpus, crash, key_process, limits, sandbox};
use sealane_conf::Config;
use sealane_conf::model::{EnvVar, Http, Main};
use sealane_keys::Holders;
use sealane_log::{LogSet, OsError};
use sealane_server::snapshot::ListenerId;
use sealane_server::worker::{self, BoundListener, Command, Event, RunArgs, Update};
use sealane_server::{CacheDirectories, HealthChecks, KnownVerdict, QuicPlace, Snapshot};
use sealane_sys::crash::Role;
use sealane_sys::signal::{Signal, SignalQueue};
use sealane_sys::{poll, process};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Exit code of a worker that cannot start and would fail again; the master
/// does not start another one.
pub(crate) const FATAL: i32 = 2;

/// Exit code of a worker that failed while serving.
const FAILED: i32 = 1;

/// The longest time between two checks that the worker threads are alive.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Signals that a worker process answers to.
const SIGNALS: [Signal; 7] = [
    Signal::Term,
    Signal::Int,
    Signal::Quit,
    Signal::Winch,
    Signal::Usr1,
    Signal::Hup,
    Signal::Usr2,
];

/// Serves until the master, or a signal, says to stop. `link` is the line to
/// the master; without one this is the only process (`master_process off`). At `before` a worker
/// tells what it has whose place this one takes.
/// Returns the exit code.
pub(crate) fn run(mut server: Server, link: Option<OwnedFd>, before: Option<OwnedFd>) -> i32 {
    let single = link.is_none();
    if single {
        sealane_tls::seed_random();
    }
    let link = link.map(Arc::new);
    let _ = process::set_thread_name("sealane: worker"); // for ps, if it works
    let (signals, keys) = match begin(&mut server, single) {
        Ok(begun) => begun,
        Err(message) => {
            note!(server.journal, Emerg, "{message}");
            return FATAL;
        }
    };
    // What ACME servers have issued is served once it is set.
    server.snapshot.acme().set_keys(&keys);
    let mut threads = threads_beside(&server, link.as_deref());
    // Before the first client comes.
    std::mem::take(&mut server.kept_staples).give(server.snapshot.staples());
    let mut carried = Carried::of(&mut server);
    let states = std::mem::take(&mut server.ticket_states);
    let started = threads.set(
        &server.config,
        &server.snapshot,
        &mut carried,
        &states.all(),
        &server.journal,
    );
    drop(states);
    if let Err(message) = started {
        note!(server.journal, Emerg, "{message}");
        return FATAL;
    }
    if let Some(before) = before {
        let snapshot = Arc::clone(&server.snapshot);
        let verdicts = move |known: &KnownVerdict| snapshot.take_over_verdict(known);
        session_store::learn(before, carried.sessions(), verdicts, &server.journal);
    }
    let quic = server.quic.take().unwrap_or_else(QuicPlace::alone);
    if single {
        server.sockets.steer(&quic.secret, &server.journal);
    }
    let http = server.config.http.as_ref();
    let (listeners, names) = match duplicates(&server.sockets, http) {
        Ok(opened) => opened,
        Err(error) => {
            note!(server.journal, Emerg, "dup() failed ({})", OsError(&error));
            return FATAL;
        }
    };
    let answers = threads
        .names
        .set(http, names, &server.snapshot, &server.journal);
    if let Err(error) = answers {
        note!(server.journal, Emerg, "{}", no_name_thread(&error));
        return FATAL;
    }
    let Server {
        config,
        snapshot,
        logs,
        sockets,
        threads: thread_count,
        journal,
        ..
    } = server;
    drop(sockets); // the worker has descriptors of its own
    let (events, happened) = mpsc::channel();
    let args = RunArgs {
        snapshot,
        listeners,
        threads: thread_count,
        keys: Some(keys.clone()),
        logs: Arc::clone(&logs),
        events: reporting(link.clone(), events, journal.clone()),
        on_thread: cpus::binding(config.main.worker_cpu_affinity, thread_count, &journal),
        quic,
    };
    let mut orders = Orders {
        signals,
        link,
        master: process::parent_pid(),
        waiting: VecDeque::new(),
        logs,
        journal,
        ready: false,
        ending: false,
        is_alone: single,
        in_background: config.main.daemon,
        incoming: Incoming::default(),
        carried,
        threads,
        keys,
        telling: Vec::new(),
        happened,
        applying: None,
    };
    let result = worker::run(args, |timeout| orders.next(timeout));
    for telling in std::mem::take(&mut orders.telling) {
        telling.finish();
    }
    orders.threads.traces.finish();
    let journal = orders.journal;
    if let Err(error) = &result {
        let error = OsError(error);
        note!(journal, Alert, "worker process failed ({error})");
    }
    if !single {
        note!(journal, Notice, "exit");
    }
    if result.is_ok() { 0 } else { FAILED }
}

/// The threads beside those of the workers, before they have begun.
fn threads_beside(server: &Server, link: Option<&OwnedFd>) -> Threads {
    Threads {
        stores: StoreThread::new(StateSink::of_worker(
            link,
            server.ticket_state_file.as_ref(),
            &server.journal,
        )),
        resolver: ResolverThread::default(),
        certificates: CertificateThread::new(link, &server.journal),
        caches: CacheDirectories::default(),
        health: HealthChecks::default(),
        names: NameServerThread::default(),
        traces: TraceThread::default(),
        system_load: SystemLoadThread::default(),
    }
}

/// What this process begins with: its rights, its signals, and its channels to the key process.
fn begin(server: &mut Server, single: bool) -> Result<(SignalQueue, Arc<Holders>), String> {
    let signals = prepare(server, single)?;
    let keys = key_process::connect(server);
    let keys = keys.map_err(|error| format!("no channel to the key process ({})", OsError(&error)));
    Ok((signals, keys?))
}

fn no_name_thread(error: &io::Error) -> String {
    let error = OsError(error);
    format!("the thread that answers name servers cannot be started ({error})")
}

/// Sockets of `dns_listen` by their numbers.
type NameSockets = Vec<(u32, OwnedFd)>;

/// Descriptors of the worker's own: of sockets for clients, and of those of `dns_listen`.
fn duplicates(
    sockets: &Sockets,
    http: Option<&Http>,
) -> io::Result<(Vec<BoundListener>, NameSockets)> {
    Ok((listeners(sockets, http)?, name_sockets(sockets, http)?))
}

/// Duplicates of the sockets of `dns_listen`, with their numbers.
fn name_sockets(sockets: &Sockets, http: Option<&Http>) -> io::Result<NameSockets> {
    let bound = sockets.bound.iter();
    let mut all = Vec::new();
    for bound in bound.filter(|bound| bound.is_for_names(http)) {
        let duplicates = bound.group.duplicate()?.into_iter();
        all.extend(duplicates.map(|socket| (bound.listener as u32, socket)));
    }
    Ok(all)
}

fn listeners(sockets: &Sockets, http: Option<&Http>) -> io::Result<Vec<BoundListener>> {
    let bound = sockets.bound.iter();
    bound
        .filter(|bound| bound.is_for_clients(http))
        .map(|bound| {
            Ok(BoundListener {
                id: ListenerId(bound.listener as u32),
                sockets: bound.group.duplicate()?,
            })
        })
        .collect()
}

/// Tells the master what happens in worker threads, and `events` before, which is asked before
/// the master's next order is followed.
fn reporting(
    link: Option<Arc<OwnedFd>>,
    events: mpsc::Sender<Event>,
    journal: Journal,
) -> Arc<dyn Fn(Event) + Send + Sync> {
    Arc::new(move |event| {
        let _ = events.send(event); // the process ends
        let report = match event {
            Event::Applied(generation) => Report::Applied(generation),
            Event::Drained(generation) => Report::Drained(generation),
            Event::Left(generation) => Report::Left(generation),
        };
        report_to(link.as_deref(), &report, &journal);
    })
}

/// Tells the master. When that cannot be done the master does without: it starts another
/// worker.
fn report_to(link: Option<&OwnedFd>, report: &Report, journal: &Journal) {
    let Some(link) = link else { return };
    if let Err(error) = control::send_report(link.as_fd(), report) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return; // it is gone, which is said elsewhere
        }
        let error = OsError(&error);
        note!(
            journal,
            Alert,
            "the master cannot be told how far a reload is ({error})"
        );
    }
}

/// Threads other than the serving ones, which need only the rights of a worker.
struct Threads {
    /// For ticket keys and session stores.
    stores: StoreThread,
    /// For names.
    resolver: ResolverThread,
    /// For staples.
    certificates: CertificateThread,
    /// For directories of cached responses.
    caches: CacheDirectories,
    /// For health checks of upstream servers.
    health: HealthChecks,
    /// For `dns_listen`.
    names: NameServerThread,
    /// For spans.
    traces: TraceThread,
    /// For `sysguard`.
    system_load: SystemLoadThread,
}

impl Threads {
    /// Has them work for a configuration. `states` are ticket keys of other processes.
    fn set(
        &mut self,
        config: &Config,
        snapshot: &Arc<Snapshot>,
        carried: &mut Carried,
        states: &[&[u8]],
        journal: &Journal,
    ) -> Result<(), String> {
        self.stores
            .set(
                carried.session_stores(),
                snapshot,
                carried.sessions(),
                states,
                journal,
            )
            .map_err(|error| {
                let error = OsError(&error);
                format!("the session store's thread cannot be started ({error})")
            })?;
        let http = config.http.as_ref();
        let kept = resolver::kept_groups(http, carried.resolvers(), snapshot);
        self.resolver
            .set(carried.resolvers(), kept, journal)
            .map_err(|error| {
                let error = OsError(&error);
                format!("the resolver's thread cannot be started ({error})")
            })?;
        self.certificates
            .set(snapshot, carried.statuses(), journal)
            .map_err(|error| {
                let error = OsError(&error);
                format!("the thread for certificates cannot be started ({error})")
            })?;
        self.traces.set(snapshot, journal).map_err(|error| {
            let error = OsError(&error);
            format!("the thread that exports traces cannot be started ({error})")
        })?;
        self.health.set(snapshot).map_err(|error| {
            let error = OsError(&error);
            format!("the thread for health checks cannot be started ({error})")
        })?;
        let watch = snapshot.load_watch();
        self.system_load.set(watch, journal).map_err(|error| {
            let error = OsError(&error);
            format!("the thread that reads the system load cannot be started ({error})")
        })?;
        self.caches = snapshot.cache_directories();
        self.caches.tend(&snapshot.main_log).map_err(|error| {
            let error = OsError(&error);
            format!("the thread of a cache cannot be started ({error})")
        })
    }
}

/// Makes of a copy of the master a worker: its own environment, limits, user,
/// directory and signals. Returns the queue of the signals.
fn prepare(server: &Server, single: bool) -> Result<SignalQueue, String> {
    let (main, journal) = (&server.config.main, &server.journal);
    prepare_environment(&main.env)?;
    limits::apply(&server.config, server.threads, journal);
    crash::install(Role::Worker, journal);
    cpus::set_priority(main.worker_priority, journal);
    if !single {
        sandbox::give_up_privileges(&server.config, server.identity.as_ref(), journal)?;
    }
    if main.worker_rlimit_core.is_some() {
        // Changing the user has switched core dumps off. They hold private
        // keys, so they come back only for whoever asks for them.
        if let Err(error) = process::set_dumpable(true) {
            let error = OsError(&error);
            note!(journal, Alert, "prctl(PR_SET_DUMPABLE) failed ({error})");
        }
    }
    if let Some(directory) = &main.working_directory {
        std::env::set_current_dir(directory).map_err(|error| {
            let directory = directory.display();
            format!("chdir(\"{directory}\") failed ({})", OsError(&error))
        })?;
    }
    // Before any thread starts, so that all of them leave signals to this one.
    let signals = SignalQueue::open(&SIGNALS)
        .map_err(|error| format!("signalfd() failed ({})", OsError(&error)))?;
    if !single {
        sandbox::enter(&server.config, &server.file_rules, journal); // all threads inherit the filter
    }
    Ok(signals)
}

/// Keeps of the environment what `env` directives name.
fn prepare_environment(variables: &[EnvVar]) -> Result<(), String> {
    let kept = kept_variables(variables, |name| std::env::var_os(name));
    let borrowed = kept
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    process::replace_environment(borrowed)
        .map_err(|error| format!("the environment cannot be set ({})", OsError(&error)))
}

/// The environment that `env` directives leave: what they set, what they name
/// and `inherited` has, and `TZ` in any case, as in nginx.
pub(crate) fn kept_variables(
    variables: &[EnvVar],
    inherited: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, OsString)> {
    let time_zone = EnvVar {
        name: "TZ".into(),
        value: None,
    };
    let named = variables.iter().any(|variable| variable.name == "TZ");
    variables
        .iter()
        .chain((!named).then_some(&time_zone))
        .filter_map(|variable| {
            let value = match &variable.value {
                Some(value) => value.into(),
                None => inherited(&variable.name)?,
            };
            Some((variable.name.clone().into(), value))
        })
        .collect()
}

/// Where orders come from: the master and signals.
struct Orders {
    signals: SignalQueue,
    link: Option<Arc<OwnedFd>>,
    master: process::Pid,
    waiting: VecDeque<Command>,
    logs: Arc<LogSet>,
    journal: Journal,
    /// The master knows that this worker serves.
    ready: bool,
    /// It finishes what is under way.
    ending: bool,
    /// There is no master (`master_process off`).
    is_alone: bool,
    /// Signals do not come from a terminal.
    in_background: bool,
    incoming: Incoming,
    carried: Carried,
    threads: Threads,
    /// Where private keys are, if not in this process.
    keys: Arc<Holders>,
    /// Threads that send other processes what this one has.
    telling: Vec<Telling>,
    /// What is being put to use, with its number.
    applying: Option<Applying>,
    happened: mpsc::Receiver<Event>,
}

/// A configuration that the worker threads have not all taken yet.
struct Applying {
    generation: u64,
    logs: Arc<LogSet>,
    main: Main,
}

impl Orders {
    /// The next order, within `timeout` or [`HEARTBEAT`].
    fn next(&mut self, timeout: Option<Duration>) -> Option<Command> {
        if !std::mem::replace(&mut self.ready, true) {
            self.report(&Report::Ready);
        }
        if self.waiting.is_empty() {
            let timeout = timeout.map_or(HEARTBEAT, |time| time.min(HEARTBEAT));
            if let Err(error) = self.wait(timeout) {
                note!(
                    self.journal,
                    Alert,
                    "cannot read orders ({})",
                    OsError(&error)
                );
                std::thread::sleep(timeout); // lest this becomes a busy loop
            }
        }
        self.waiting.pop_front()
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.link.as_deref().map(AsFd::as_fd));
        let readable = poll::wait_readable(&fds, Some(timeout))?;
        self.take_events();
        if readable[0] {
            while let Some(received) = self.signals.next()? {
                self.on_signal(received.signal, received.sender);
            }
        }
        if readable.get(1) == Some(&true) {
            self.on_message()?;
        }
        Ok(())
    }

    fn on_signal(&mut self, signal: Signal, sender: process::Pid) {
        let action = match signal {
            Signal::Term | Signal::Int => ", exiting",
            // The terminal's window has changed, nothing else.
            Signal::Winch if !self.in_background => return,
            Signal::Quit | Signal::Winch => ", shutting down",
            Signal::Usr1 => ", reopening logs",
            _ => ", ignoring",
        };
        let (number, name) = (signal.number(), signal.name());
        note!(
            self.journal,
            Notice,
            "signal {number} ({name}) received from {sender}{action}"
        );
        match signal {
            Signal::Hup if self.is_alone => note!(
                self.journal,
                Error,
                "the configuration is not read again, everything goes on as it was: with \
                 \"master_process off\" it is read at start only; restart the server, or let it \
                 have a master process"
            ),
            Signal::Term | Signal::Int => self.end(Command::Terminate),
            Signal::Quit | Signal::Winch => self.end(Command::Quit),
            Signal::Usr1 => {
                note!(self.journal, Notice, "reopening logs");
                for failed in self.logs.reopen() {
                    note!(self.journal, Emerg, "{failed}");
                }
            }
            _ => {}
        }
    }

    fn on_message(&mut self) -> io::Result<()> {
        let Some(link) = &self.link else {
            return Ok(());
        };
        match control::receive(&**link) {
            Ok(Some(Message::Quit)) => self.end(Command::Quit),
            Ok(Some(Message::HandOver(line))) => self.end(Command::HandOver(line)),
            Ok(Some(Message::TakeOver(line))) => {
                self.waiting.push_back(Command::TakeOver(line));
            }
            Ok(Some(Message::QuicLine(process, line))) => {
                self.waiting.push_back(Command::QuicLine(process, line));
            }
            Ok(Some(Message::TellSuccessor(line))) => {
                let sessions = self.carried.sessions();
                let verdicts = self.threads.health.verdicts();
                self.telling.retain(|telling| !telling.is_finished());
                self.telling.extend(session_store::tell_successor(
                    line,
                    sessions,
                    verdicts,
                    &self.journal,
                ));
            }
            Ok(Some(Message::KeyLine(line))) => self.follow_keys(line),
            Ok(Some(Message::KeyHolderGone(holder))) => self.keys.retire(holder),
            Ok(Some(Message::Terminate)) => self.end(Command::Terminate),
            Ok(Some(Message::Reopen(files))) => {
                note!(self.journal, Notice, "reopening logs");
                self.logs.reopen_paths();
                for (index, file) in files {
                    self.logs.replace(index.into(), file);
                }
            }
            Ok(Some(Message::Bundle { generation, memory })) => {
                self.incoming.begin(generation, memory);
            }
            Ok(Some(Message::Logs { generation, files })) => {
                self.incoming.add_logs(generation, files);
            }
            Ok(Some(Message::Sockets {
                generation,
                sockets,
            })) => self.incoming.add_sockets(generation, sockets),
            Ok(Some(Message::Apply {
                generation,
                logs,
                sockets,
            })) => self.apply(generation, logs, sockets),
            Ok(Some(Message::DnsCommandDone { id, result })) => {
                self.threads.certificates.dns_command_done(id, result);
            }
            Ok(None) => self.on_master_gone(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.on_master_gone(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// There is another process with keys.
    fn follow_keys(&self, told: KeyLine) {
        if let Err(error) = self.keys.connect(told.holder, &told.name, told.line) {
            note!(
                self.journal,
                Error,
                "the new key process cannot be reached ({}); handshakes wait for the next one",
                OsError(&error)
            );
        }
    }

    /// All of a configuration has come: builds it and has it put to use.
    fn apply(&mut self, generation: u64, logs: u32, sockets: u32) {
        let built = self
            .incoming
            .build(generation, logs, sockets, &mut self.carried);
        let built = built.and_then(|mut built| {
            let journal = Journal::running(built.logs.logger(&built.config.main.error_logs));
            self.threads
                .set(
                    &built.config,
                    &built.snapshot,
                    &mut self.carried,
                    &[],
                    &journal,
                )
                .and_then(|()| {
                    let http = built.config.http.as_ref();
                    let names = std::mem::take(&mut built.names);
                    let set = self
                        .threads
                        .names
                        .set(http, names, &built.snapshot, &journal);
                    set.map_err(|error| no_name_thread(&error))
                })
                .map(|()| built)
        });
        match built {
            Ok(built) => {
                self.applying = Some(Applying {
                    generation,
                    logs: Arc::clone(&built.logs),
                    main: built.config.main,
                });
                self.waiting.push_back(Command::Apply(Box::new(Update {
                    generation,
                    snapshot: built.snapshot,
                    added: built.listeners,
                    logs: built.logs,
                })));
            }
            Err(why) => self.report(&Report::Refused(generation, why)),
        }
    }

    /// A configuration that is in use has its logs.
    fn take_events(&mut self) {
        while let Ok(event) = self.happened.try_recv() {
            let Event::Applied(generation) = event else {
                continue;
            };
            let applied = self
                .applying
                .take_if(|applying| applying.generation == generation);
            if let Some(Applying { logs, main, .. }) = applied {
                self.journal = Journal::running(logs.logger(&main.error_logs));
                // Before the previous log may be closed.
                crash::report_to(&logs, &main);
                self.logs = logs;
            }
        }
    }

    fn report(&self, report: &Report) {
        report_to(self.link.as_deref(), report, &self.journal);
    }

    fn on_master_gone(&mut self) {
        self.link = None;
        let master = self.master;
        note!(
            self.journal,
            Alert,
            "master process {master} is gone; this worker finishes what is under way \
             and ends, start the server again"
        );
        self.end(Command::Quit);
    }

    fn end(&mut self, command: Command) {
        if let Command::Quit | Command::Terminate = command {
            // Before anybody is told: who serves next may be another server, with ticket keys that
            // are ours, and a register that is not.
            self.carried.sessions().close_register();
        }
        self.threads.certificates.end_orders();
        self.threads.caches.retire();
        // The next process knows what is to be answered; this one learns nothing more.
        self.threads.names.end();
        match command {
            Command::Quit | Command::HandOver(_) => {
                // A second channel means that a third process takes over.
                if !std::mem::replace(&mut self.ending, true) {
                    note!(self.journal, Notice, "gracefully shutting down");
                }
            }
            Command::Terminate => {
                note!(self.journal, Notice, "exiting");
                self.telling.clear(); // nobody waits
            }
            Command::Apply(_) | Command::TakeOver(_) | Command::QuicLine(..) => {}
        }
        self.waiting.push_back(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_what_env_directives_say_and_the_time_zone() {
        let inherited = |name: &str| match name {
            "TZ" => Some("UTC".into()),
            "KEPT" => Some("from outside".into()),
            "SECRET" => Some("not named".into()),
            _ => None,
        };
        let variable = |name: &str, value: Option<&str>| EnvVar {
            name: name.into(),
            value: value.map(Into::into),
        };
        let kept = |variables: &[EnvVar]| {
            let kept = kept_variables(variables, inherited);
            kept.into_iter()
                .map(|(name, value)| format!("{}={}", name.display(), value.display()))
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(&[]), ["TZ=UTC"]);
        let variables = [
            variable("KEPT", None),
            variable("SET", Some("here")),
            variable("MISSING", None),
        ];
        assert_eq!(
            kept(&variables),
            ["KEPT=from outside", "SET=here", "TZ=UTC"]
        );
        assert_eq!(kept(&[variable("TZ", Some("CET"))]), ["TZ=CET"]);
    }
}
