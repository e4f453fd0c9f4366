//! The master process: starts the worker, watches it, answers signals.
//!
//! It has one thread, and keeps root's privileges and all listening sockets. It
//! reads only signals, the workers' reports, whose contents it does not parse, but for requests to
//! run a program (`dns_commands.rs`), and the configuration when told to (`reconfigure.rs`).
//!
//! ```text
//! Serving --QUIT--> Quitting --(workers ended)--> exit
//!    |                 |
//!    +----TERM, INT----+--> Terminating --(workers ended, or killed)--> exit
//! ```
//!
//! One worker is the current one. Others have been told to finish their connections: those
//! replaced by a change that a running process could not make. During such a change
//! there is a successor, which becomes the current one when it serves. During an upgrade of the
//! binary there are two masters (`upgrade.rs`), and one of them may have no worker.

mod dns_commands;
mod ends;
mod keys;
mod other;
mod programs;
mod quic;
mod reconfigure;
mod upgrade;
mod workers;

use self::dns_commands::DnsCommands;
use self::ends::CertificateEnds;
pub(crate) use self::other::{Other, VARIABLE as UPGRADE_VARIABLE};
use self::other::{Readiness, Side};
use self::programs::Programs;
use self::quic::QuicSecrets;
use self::reconfigure::Reload;
use self::workers::{Forked, Worker};
use crate::control::{self, Report};
use crate::journal::note;
use crate::key_process;
use crate::notify::ServiceState;
use crate::pid_file::PidFile;
use crate::restarts::Restarts;
use crate::rotation::Rotation;
use crate::session_store::{StateFile, write_state_file};
use crate::sockets::{Bound, SocketFiles};
use crate::startup::{Origin, Server};
use crate::worker_process::{self, FATAL};
use sealane_log::OsError;
use sealane_server::metrics::ProcessCounts;
use sealane_sys::poll;
use sealane_sys::process::{self, ExitStatus, Pid};
use sealane_sys::signal::{Received, Signal, SignalQueue};
use sealane_sys::socket;
use sealane_tls::StapleId;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that has not ended this long after TERM is killed.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// Signals that the master answers to. The rest of nginx's set has no meaning
/// here and keeps its default.
const SIGNALS: [Signal; 8] = [
    Signal::Chld,
    Signal::Term,
    Signal::Int,
    Signal::Quit,
    Signal::Hup,
    Signal::Usr1,
    Signal::Usr2,
    Signal::Winch,
];

/// What the master process does until it ends.
pub(crate) struct Master {
    server: Server,
    origin: Origin,
    pid_file: PidFile,
    signals: SignalQueue,
    /// The worker that accepts connections.
    worker: Option<Worker>,
    /// Workers that finish what they have.
    draining: Vec<Worker>,
    phase: Phase,
    restarts: Restarts,
    /// When a worker that died is started again.
    start_at: Option<Instant>,
    /// When ticket keys are to be written to their file.
    state: StateFile,
    /// The same of staples.
    staple_state: StateFile,
    /// HUP has arrived and was not handled yet. Several that arrive together count as one.
    reload_wanted: bool,
    /// USR1 has arrived during a reload, when it is unknown which logs the worker has.
    reopen_wanted: bool,
    /// The reload that is under way.
    reload: Option<Reload>,
    /// Certificates that may change without a reload.
    rotation: Option<Rotation>,
    /// Certificates to warn of before they end.
    ends: CertificateEnds,
    /// Programs that workers want run.
    dns_commands: DnsCommands,
    /// Programs that run beside workers.
    programs: Programs,
    /// Its number, or that of the last one.
    generation: u64,
    /// Sockets of addresses that a reload has removed, by its number, until the worker has
    /// accepted the last connection from them.
    leaving: Vec<(u64, Bound)>,
    /// Files of Unix sockets that are closed already.
    closed_files: Option<SocketFiles>,
    /// USR2 has arrived and was not handled yet.
    upgrade_wanted: bool,
    /// The master of the binary before or after this one, while there are both.
    other: Option<Other>,
    /// WINCH or QUIT that waits for the new binary.
    later: Option<upgrade::Later>,
    /// WINCH: no worker is wanted until HUP.
    paused: bool,
    /// What workers need to know each other's packets of QUIC.
    quic: QuicSecrets,
    /// Key processes that end once their last worker has.
    former_key_processes: HashSet<Pid>,
    /// WINCH is not that of a terminal whose window has changed.
    daemonized: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A worker is wanted.
    Serving,
    /// The worker finishes what is under way.
    Quitting,
    /// The worker ends now, or is killed at that time.
    Terminating { kill_at: Instant },
}

/// The role of this process.
enum Role {
    Master,
    /// The worker at this channel, for the configuration that is in use. Over the other channel,
    /// the worker that it replaces sends what it has.
    Worker(OwnedFd, Option<OwnedFd>),
    /// The same, for the configuration that is to come.
    Successor(OwnedFd, Option<OwnedFd>),
}

impl Master {
    /// Blocks the signals that the master reads.
    ///
    /// # Errors
    /// When the kernel has no room for their queue.
    pub(crate) fn new(
        server: Server,
        origin: Origin,
        pid_file: PidFile,
        mut other: Option<Other>,
    ) -> io::Result<Master> {
        let signals = SignalQueue::open(&SIGNALS)?;
        let quic = QuicSecrets::of(other.as_mut());
        server.sockets.steer(&quic.secret, &server.journal);
        let mut master = Master {
            quic,
            daemonized: server.config.main.daemon || other.is_some(),
            server,
            origin,
            pid_file,
            signals,
            worker: None,
            draining: Vec::new(),
            phase: Phase::Serving,
            restarts: Restarts::default(),
            start_at: None,
            state: StateFile::default(),
            staple_state: StateFile::default(),
            reload_wanted: false,
            reopen_wanted: false,
            reload: None,
            rotation: None,
            ends: CertificateEnds::default(),
            dns_commands: DnsCommands::default(),
            programs: Programs::default(),
            generation: 0,
            leaving: Vec::new(),
            closed_files: None,
            upgrade_wanted: false,
            other,
            later: None,
            paused: false,
            former_key_processes: HashSet::new(),
        };
        master.watch_certificates();
        master.watch_ends();
        master.programs.set(&master.server);
        master.follow_keys(None);
        Ok(master)
    }

    /// Runs until the server is stopped. Returns the exit code: in the master
    /// and, as it is forked from here, in the worker process.
    pub(crate) fn run(mut self) -> i32 {
        let _ = process::set_thread_name("sealane: master"); // for ps, if it works
        note!(self.server.journal, Notice, "start worker processes");
        sealane_tls::seed_random();
        let mut role = self.start_worker();
        if let Role::Master = role {
            if let Some(ready) = self.server.daemon.take() {
                ready.tell();
            }
            self.tell_manager(&ServiceState::Ready);
        }
        loop {
            match role {
                Role::Master => {}
                role => return self.become_worker(role),
            }
            let is_over = self.phase != Phase::Serving && self.workers().next().is_none();
            if is_over && !self.programs.has_any() {
                break;
            }
            if let Err(error) = self.wait() {
                note!(
                    self.server.journal,
                    Alert,
                    "cannot read signals ({})",
                    OsError(&error)
                );
                std::thread::sleep(Duration::from_secs(1)); // lest this becomes a busy loop
            }
            role = self.on_time();
        }
        self.finish()
    }

    fn finish(mut self) -> i32 {
        self.write_state(true);
        self.write_staples(true);
        self.dns_commands.end();
        if let Err(message) = self.pid_file.remove(&self.server.guard) {
            note!(self.server.journal, Alert, "{message}");
        }
        note!(self.server.journal, Notice, "exit");
        let files = self.closed_files.take();
        let mut files = files.unwrap_or_else(|| self.server.sockets.files());
        if self.is_beside_another() {
            self.server.sockets.close();
            files = files.without_served();
        }
        files.remove(&self.server.journal);
        self.finish_programs();
        0
    }

    /// In the worker process.
    fn become_worker(self, role: Role) -> i32 {
        let (server, link, before) = self.into_worker(role);
        worker_process::run(server, Some(link), before)
    }

    /// Closes what belongs to the master alone: its signals, which the worker reads
    /// from its own queue, the channels to other workers and to another master, and to the process
    /// that waits until the server runs.
    fn into_worker(self, role: Role) -> (Server, OwnedFd, Option<OwnedFd>) {
        let Master {
            mut server, reload, ..
        } = self;
        let (link, before) = match role {
            Role::Master => unreachable!("the master continues unchanged"),
            Role::Worker(link, before) => (link, before),
            Role::Successor(link, before) => {
                let states = std::mem::take(&mut server.ticket_states);
                let staples = std::mem::take(&mut server.kept_staples);
                let reload = reload.expect("a successor is started for a reload");
                server = reload.into_next(states, staples);
                (link, before)
            }
        };
        drop(server.daemon.take());
        drop(server.handover.take()); // the bytes of keys
        if let Some(keys) = &server.keys {
            key_process::lock(keys).let_go();
        }
        (server, link, before)
    }

    /// All worker processes.
    fn workers(&self) -> impl Iterator<Item = &Worker> {
        let successor = self.reload.as_ref().and_then(Reload::successor);
        self.worker.iter().chain(successor).chain(&self.draining)
    }

    fn worker_with(&mut self, pid: Pid) -> Option<&mut Worker> {
        let successor = self.reload.as_mut().and_then(Reload::successor_mut);
        let mut all = self
            .worker
            .iter_mut()
            .chain(successor)
            .chain(&mut self.draining);
        all.find(|worker| worker.pid == pid)
    }

    /// Forks the worker. When that fails, it is tried again later.
    fn start_worker(&mut self) -> Role {
        self.start_at = None;
        let before = self.other.as_mut().and_then(Other::take_before);
        self.server.quic = Some(self.next_quic_place());
        let journal = self.server.journal.clone();
        match Worker::fork(&mut self.server, &journal) {
            Ok(Forked::Worker(link)) => return Role::Worker(link, before),
            Ok(Forked::Master(worker)) => self.worker = Some(worker),
            Err(error) => {
                let wait = self.restarts.wait_after(Duration::ZERO);
                self.start_at = Some(Instant::now() + wait);
                note!(
                    self.server.journal,
                    Alert,
                    "fork() failed while spawning \"worker process\" ({}); tried again in {} ms",
                    OsError(&error),
                    wait.as_millis()
                );
            }
        }
        Role::Master
    }

    /// Waits for signals, or until something is due, and acts on signals.
    fn wait(&mut self) -> io::Result<()> {
        // Only what `on_time` would do now: anything else would be due forever.
        let due = match self.phase {
            Phase::Terminating { kill_at } => Some(kill_at),
            Phase::Serving => {
                let others = self.later_due().into_iter();
                let others = others.chain(self.rotation_due()).chain(self.ends_due());
                self.start_at.into_iter().chain(others).min()
            }
            Phase::Quitting => None,
        };
        let reload = self.reload.as_ref().and_then(Reload::due);
        let due = due
            .into_iter()
            .chain(self.state_due())
            .chain(self.staples_due())
            .chain(self.dns_commands.due())
            .chain(self.programs.due())
            .chain(self.keys_due())
            .chain(reload)
            .min();
        let timeout = due.map(|at| at.saturating_duration_since(Instant::now()));
        let talking: Vec<Pid> = self
            .workers()
            .filter(|worker| !worker.silent)
            .map(|worker| worker.pid)
            .collect();
        let mut fds = vec![self.signals.as_fd()];
        let links = self.workers().filter(|worker| !worker.silent);
        fds.extend(links.map(|worker| worker.link.as_fd()));
        let other = self.other.as_ref().and_then(Other::fd);
        let other_at = other.map(|_| fds.len());
        fds.extend(other);
        let program = self.dns_commands.fd();
        let program_at = program.map(|_| fds.len());
        fds.extend(program);
        let keys = self.server.keys.clone();
        let keys = keys.as_ref().map(key_process::lock);
        let key_lines = keys.as_ref().map(|keys| keys.fds()).unwrap_or_default();
        let keys_at = fds.len()..fds.len() + key_lines.len();
        fds.extend(key_lines);
        let (writers, pipes): (Vec<Pid>, Vec<_>) = self.programs.fds().unzip();
        let pipes_at = fds.len();
        fds.extend(pipes);
        let readable = poll::wait_readable(&fds, timeout)?;
        drop(keys);
        if readable[keys_at].contains(&true) {
            self.read_keys();
        }
        let other_speaks = other_at.is_some_and(|at| readable[at]);
        if program_at.is_some_and(|at| readable[at]) {
            self.dns_commands.read(&self.server.journal);
        }
        for (pid, _) in writers
            .into_iter()
            .zip(&readable[pipes_at..])
            .filter(|(_, readable)| **readable)
        {
            self.programs.read(pid, &self.server.journal);
        }
        for (pid, _) in talking
            .into_iter()
            .zip(&readable[1..])
            .filter(|(_, readable)| **readable)
        {
            self.on_report(pid);
        }
        if other_speaks {
            self.on_other();
        }
        let mut received = Vec::new();
        while let Some(next) = self.signals.next()? {
            received.push(next);
        }
        // The kernel does not order pending signals: an operator who sends USR2 and then QUIT wants
        // the new binary to serve.
        received.sort_by_key(|received| received.signal != Signal::Usr2);
        for received in received {
            self.on_signal(received);
        }
        Ok(())
    }

    /// Handles a worker's report. One report at a time, so that signals are handled
    /// in between.
    fn on_report(&mut self, pid: Pid) {
        let Some(worker) = self.worker_with(pid) else {
            return;
        };
        let report = control::receive_report(&worker.link);
        let silent = match &report {
            Ok(report) => report.is_none(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        worker.silent |= silent;
        match report {
            Ok(Some(Report::TicketState(state))) => self.on_ticket_state(pid, state),
            Ok(Some(Report::Staple(id, response))) => self.on_staple(id, response),
            Ok(Some(Report::DnsCommand(request))) => self.on_dns_command(pid, request),
            Ok(Some(report)) => self.on_progress(pid, report),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Its exit status tells why it is gone.
            Ok(None) => self.on_silence(pid),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.on_silence(pid),
            Err(error) => {
                note!(
                    self.server.journal,
                    Alert,
                    "invalid message from worker process {pid} ({}); its session ticket keys are \
                     no longer saved",
                    OsError(&error)
                );
                self.on_silence(pid);
            }
        }
    }

    /// Only the current worker's keys are those of new connections, and soon the successor's.
    fn on_ticket_state(&mut self, pid: Pid, state: zeroize::Zeroizing<Vec<u8>>) {
        if self.worker.as_ref().is_none_or(|worker| worker.pid != pid) {
            if let Some(reload) = &mut self.reload {
                reload.on_ticket_state(pid, state);
            }
            return;
        }
        if let Some(other) = &self.other
            && other.side == Side::Old
        {
            other.give_keys(&state); // for the way back
        }
        self.server.ticket_states.set(state);
        if self.server.ticket_state_file.is_some() {
            self.state.changed(Instant::now());
        }
    }

    /// When the ticket keys are to be written, if there is a file, and it is ours to write.
    fn state_due(&self) -> Option<Instant> {
        let has_file = self.server.ticket_state_file.is_some();
        let can_write = has_file && self.server.ticket_states.newest().is_some();
        let due = self.state.due.filter(|_| can_write);
        due.filter(|_| !self.other_writes_state())
    }

    /// Writes the ticket keys if they have changed and it is time (or the end).
    fn write_state(&mut self, at_end: bool) {
        let now = Instant::now();
        if self.state_due().is_none_or(|at| !at_end && now < at) {
            return;
        }
        let state = self.server.ticket_states.newest();
        let (Some(path), Some(state)) = (&self.server.ticket_state_file, state) else {
            return;
        };
        let written = write_state_file(path, state, &self.server.guard);
        if self.state.written(now, written.is_ok())
            && let Err((call, error)) = written
        {
            let (path, error) = (path.display(), OsError(&error));
            note!(
                self.server.journal,
                Alert,
                "session ticket keys cannot be saved: {call}() \"{path}\" failed ({error}); the \
                 file is unchanged, and after a restart clients may need full handshakes"
            );
        }
    }

    fn on_staple(&mut self, id: StapleId, response: Vec<u8>) {
        self.server.kept_staples.set(id, response);
        if self.server.staple_state_file.is_some() {
            self.staple_state.changed(Instant::now());
        }
    }

    /// When the staples are to be written, if there is a file, and it is ours to write.
    fn staples_due(&self) -> Option<Instant> {
        let has_file = self.server.staple_state_file.is_some();
        let due = self.staple_state.due.filter(|_| has_file);
        due.filter(|_| !self.other_writes_state())
    }

    /// Writes the staples if they have changed and it is time (or the end).
    fn write_staples(&mut self, at_end: bool) {
        let now = Instant::now();
        if self.staples_due().is_none_or(|at| !at_end && now < at) {
            return;
        }
        let Some(path) = &self.server.staple_state_file else {
            return;
        };
        let staples = self.server.kept_staples.pack();
        let written = write_state_file(path, &staples, &self.server.guard);
        if self.staple_state.written(now, written.is_ok())
            && let Err((call, error)) = written
        {
            let (path, error) = (path.display(), OsError(&error));
            note!(
                self.server.journal,
                Alert,
                "staples cannot be saved: {call}() \"{path}\" failed ({error}); the file is \
                 unchanged, and after a restart responders are asked first"
            );
        }
    }

    /// Does what is due.
    fn on_time(&mut self) -> Role {
        self.pass_quic_lines_on();
        self.write_state(false);
        self.write_staples(false);
        self.go_on_with_dns_commands();
        self.go_on_with_keys();
        self.programs.go_on(&self.server);
        let now = Instant::now();
        match self.phase {
            Phase::Terminating { kill_at } if now >= kill_at => {
                for worker in self.workers() {
                    note!(
                        self.server.journal,
                        Alert,
                        "worker process {} did not exit within {} s, killing it",
                        worker.pid,
                        KILL_AFTER.as_secs()
                    );
                    worker.kill(Signal::Kill, &self.server.journal);
                }
                self.phase = Phase::Terminating {
                    kill_at: now + KILL_AFTER,
                };
                Role::Master
            }
            Phase::Serving => {
                self.warn_of_ends();
                match self.go_on() {
                    Role::Master
                        if self.worker.is_none() && self.start_at.is_some_and(|at| now >= at) =>
                    {
                        self.start_worker()
                    }
                    role => role,
                }
            }
            _ => Role::Master,
        }
    }

    /// Does what reloads and upgrades need.
    fn go_on(&mut self) -> Role {
        let role = self.go_on_reconfiguring();
        if let Role::Master = role {
            self.go_on_upgrading();
        }
        role
    }

    fn on_signal(&mut self, received: Received) {
        let Received { signal, sender } = received;
        let action = match signal {
            Signal::Term | Signal::Int => ", exiting",
            Signal::Quit => ", shutting down",
            Signal::Usr1 => ", reopening logs",
            Signal::Hup => ", reconfiguring",
            Signal::Winch if self.daemonized => ", the worker process finishes",
            Signal::Winch => return, // the terminal's window has changed, nothing else
            Signal::Usr2 if self.is_beside_another() => ", ignoring",
            Signal::Usr2 => ", changing binary",
            _ => "",
        };
        let (number, name) = (signal.number(), signal.name());
        let from = if sender == 0 {
            String::new()
        } else {
            format!(" from {sender}")
        };
        note!(
            self.server.journal,
            Notice,
            "signal {number} ({name}) received{from}{action}"
        );
        match signal {
            Signal::Chld => self.reap(),
            Signal::Term | Signal::Int => self.terminate(),
            Signal::Quit if !self.put_off(signal) => self.quit(),
            Signal::Usr1 => self.reopen_logs(),
            Signal::Hup => self.reload_wanted |= !self.resume(),
            Signal::Usr2 => self.want_upgrade(),
            Signal::Winch if !self.put_off(signal) => self.pause(),
            _ => {}
        }
    }

    fn quit(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        self.phase = Phase::Quitting;
        self.programs.stop(&self.server.journal);
        self.tell_manager_of_end();
        if let Some(other) = &mut self.other {
            other.tell(Readiness::No);
        }
        self.give_reload_up();
        for worker in &self.draining {
            worker.tell_end(true, &self.server.journal);
        }
        if let Some(worker) = self.worker.take() {
            self.let_go(worker);
        }
        // From now on new connections are refused as soon as the worker has
        // emptied the accept queues.
        self.close_leaving(|_, _| true);
        self.closed_files = Some(self.server.sockets.files());
        self.server.sockets.close();
    }

    fn terminate(&mut self) {
        if let Phase::Terminating { .. } = self.phase {
            return;
        }
        self.tell_manager_of_end();
        self.programs.stop(&self.server.journal);
        if let Some(other) = &mut self.other {
            other.tell(Readiness::No);
        }
        self.phase = Phase::Terminating {
            kill_at: Instant::now() + KILL_AFTER,
        };
        self.give_reload_up();
        for worker in self.workers() {
            worker.tell_end(false, &self.server.journal);
        }
        self.close_leaving(|_, _| true);
    }

    /// Reopens the logs and hands them to the workers, which may lack the
    /// right to open them.
    fn reopen_logs(&mut self) {
        if self.reload.is_some() {
            self.reopen_wanted = true;
            return;
        }
        let journal = &self.server.journal;
        note!(journal, Notice, "reopening logs");
        let mut reopened = vec![Arc::clone(&self.server.logs)];
        for worker in self.workers() {
            if !reopened.iter().any(|logs| Arc::ptr_eq(logs, &worker.logs)) {
                reopened.push(Arc::clone(&worker.logs));
            }
        }
        for failed in reopened.iter().flat_map(|logs| logs.reopen()) {
            note!(journal, Emerg, "{failed}");
        }
        for worker in self.workers() {
            worker.give_logs(journal);
        }
    }

    /// Collects children that ended.
    fn reap(&mut self) {
        loop {
            let ended = process::ended_child().and_then(|pid| {
                let Some(pid) = pid else { return Ok(None) };
                self.dns_commands.before_collecting(pid);
                self.programs.before_collecting(pid);
                process::wait_for(pid).map(|status| Some((pid, status)))
            });
            match ended {
                Ok(Some((pid, status))) => self.on_exit(pid, status),
                Ok(None) => return,
                Err(error) => {
                    let error = OsError(&error);
                    note!(self.server.journal, Alert, "waitpid() failed ({error})");
                    return;
                }
            }
        }
    }

    fn on_exit(&mut self, pid: Pid, status: ExitStatus) {
        if self.on_new_binary_exit(pid, status) || self.on_dns_command_exit(pid, status) {
            return;
        }
        if self.programs.on_exit(pid, status, &self.server.journal) {
            return;
        }
        if self.on_key_process_exit(pid, status) {
            return;
        }
        let journal = &self.server.journal;
        if !self.workers().any(|worker| worker.pid == pid) {
            // The key process of a configuration that was refused.
            note!(
                journal,
                Info,
                "process {pid} has ended, which nobody needs any more"
            );
            return;
        }
        match status {
            ExitStatus::Signal {
                signal,
                core_dumped,
            } => {
                let core = if core_dumped { " (core dumped)" } else { "" };
                note!(
                    journal,
                    Alert,
                    "worker process {pid} exited on signal {signal}{core}"
                );
            }
            ExitStatus::Code(code) => {
                note!(
                    journal,
                    Notice,
                    "worker process {pid} exited with code {code}"
                );
            }
        }
        self.on_successor_exit(pid);
        for ended in self.draining.extract_if(.., |worker| worker.pid == pid) {
            socket::close_line(ended.link);
        }
        let Some(worker) = self.worker.take_if(|worker| worker.pid == pid) else {
            return;
        };
        // What waited in these sockets is lost with the worker that was to take it.
        self.close_leaving(|_, _| true);
        let Worker { link, started, .. } = worker;
        socket::close_line(link);
        if self.phase != Phase::Serving || self.go_on_without_worker() {
            return;
        }
        self.plan_restart(pid, started, status);
    }

    /// Says when another worker is started in the place of one that died.
    fn plan_restart(&mut self, pid: Pid, started: Instant, status: ExitStatus) {
        ProcessCounts::of_server().workers_died.add(1);
        let journal = &self.server.journal;
        if status == ExitStatus::Code(FATAL) {
            self.tell_manager(&ServiceState::Status(
                "nothing is served; see the error log",
            ));
            note!(
                journal,
                Alert,
                "worker process {pid} exited with fatal code {FATAL} and cannot be respawned; \
                 nothing is served until the error above is fixed and the server is restarted"
            );
            return;
        }
        let wait = self.restarts.wait_after(started.elapsed());
        self.start_at = Some(Instant::now() + wait);
        if wait >= Duration::from_secs(1) {
            note!(
                journal,
                Alert,
                "worker processes keep exiting soon after their start; the next one starts in {} s",
                wait.as_secs()
            );
        }
    }
}
