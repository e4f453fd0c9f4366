//! The master process: starts the worker, watches it, answers signals.
//!
//! It has one thread, keeps root's privileges and all listening sockets, and
//! reads nothing but signals and the worker's reports, which it does not look into.
//!
//! ```text
//! Serving --QUIT--> Quitting --(worker ended)--> exit
//!    |                 |
//!    +----TERM, INT----+--> Terminating --(worker ended, or killed)--> exit
//! ```

use crate::control::{self, LOGS_PER_MESSAGE, Report};
use crate::journal::note;
use crate::notify::{self, State};
use crate::pid_file::PidFile;
use crate::restarts::Restarts;
use crate::session_store::{StateFile, write_state_file};
use crate::startup::Server;
use crate::worker_process::{self, FATAL};
use sealane_server::log::OsError;
use sealane_sys::poll;
use sealane_sys::process::{self, ExitStatus, Fork, Pid};
use sealane_sys::signal::{self, Received, Signal, SignalQueue};
use sealane_sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    signals: SignalQueue,
    worker: Option<Worker>,
    phase: Phase,
    restarts: Restarts,
    /// When a worker that died is started again.
    start_at: Option<Instant>,
    /// When ticket keys are to be written to their file.
    state: StateFile,
}

/// The worker process as the master knows it.
struct Worker {
    pid: Pid,
    link: OwnedFd,
    /// It has said all that it will.
    silent: bool,
    started: Instant,
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

/// What a forked process goes on as.
enum Role {
    Master,
    Worker(OwnedFd),
}

impl Master {
    /// Blocks the signals that the master reads.
    ///
    /// # Errors
    /// When the kernel has no room for their queue.
    pub(crate) fn new(server: Server) -> io::Result<Master> {
        let signals = SignalQueue::open(&SIGNALS)?;
        Ok(Master {
            server,
            signals,
            worker: None,
            phase: Phase::Serving,
            restarts: Restarts::default(),
            start_at: None,
            state: StateFile::default(),
        })
    }

    /// Runs until the server is stopped. Returns the exit code: in the master
    /// and, as it is forked from here, in the worker process.
    pub(crate) fn run(mut self, pid_file: PidFile) -> i32 {
        let _ = process::set_thread_name("sealane: master"); // for ps, if it works
        note!(self.server.journal, Notice, "start worker processes");
        if let Role::Worker(link) = self.start_worker() {
            return self.become_worker(link);
        }
        if let Some(ready) = self.server.daemon.take() {
            ready.tell();
        }
        notify::tell(&State::Ready);
        while self.phase == Phase::Serving || self.worker.is_some() {
            if let Err(error) = self.wait() {
                note!(
                    self.server.journal,
                    Alert,
                    "cannot read signals ({})",
                    OsError(&error)
                );
                std::thread::sleep(Duration::from_secs(1)); // lest this becomes a busy loop
            }
            if let Role::Worker(link) = self.on_time() {
                return self.become_worker(link);
            }
        }
        self.write_state(true);
        if let Err(message) = pid_file.remove() {
            note!(self.server.journal, Alert, "{message}");
        }
        note!(self.server.journal, Notice, "exit");
        self.server.sockets.remove_files(&self.server.journal);
        0
    }

    fn become_worker(self, link: OwnedFd) -> i32 {
        let Master {
            mut server,
            signals,
            ..
        } = self;
        drop(signals); // the worker opens its own queue
        drop(server.daemon.take()); // only the master says that the server runs
        worker_process::run(server, Some(link))
    }

    /// Forks the worker. When that fails, it is tried again later.
    fn start_worker(&mut self) -> Role {
        self.start_at = None;
        let started = socket::seqpacket_pair()
            .and_then(|(master, worker)| Ok((process::fork()?, master, worker)));
        match started {
            Ok((Fork::Child, ..)) if self.worker.is_some() => {
                unreachable!("there is never more than one worker")
            }
            Ok((Fork::Child, _master, link)) => Role::Worker(link),
            Ok((Fork::Parent(pid), link, _worker)) => {
                note!(self.server.journal, Notice, "start worker process {pid}");
                self.worker = Some(Worker {
                    pid,
                    link,
                    silent: false,
                    started: Instant::now(),
                });
                Role::Master
            }
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
                Role::Master
            }
        }
    }

    /// Waits for signals, or until something is due, and acts on signals.
    fn wait(&mut self) -> io::Result<()> {
        let due = match self.phase {
            Phase::Terminating { kill_at } => Some(kill_at),
            _ => self.start_at,
        };
        let due = due.into_iter().chain(self.state.due).min();
        let timeout = due.map(|at| at.saturating_duration_since(Instant::now()));
        let mut fds = vec![self.signals.as_fd()];
        let talking = self.worker.as_ref().filter(|worker| !worker.silent);
        fds.extend(talking.map(|worker| worker.link.as_fd()));
        let readable = poll::wait_readable(&fds, timeout)?;
        if readable.get(1) == Some(&true) {
            self.on_report();
        }
        while let Some(received) = self.signals.next()? {
            self.on_signal(received);
        }
        Ok(())
    }

    /// Takes what the worker reports. One report at a time, so that signals come
    /// between.
    fn on_report(&mut self) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        match control::receive_report(&worker.link) {
            Ok(Some(Report::TicketState(state))) => {
                self.server.ticket_state = Some(state);
                if self.server.ticket_state_file.is_some() {
                    self.state.changed(Instant::now());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Why it is gone its exit status tells.
            Ok(None) => worker.silent = true,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => worker.silent = true,
            Err(error) => {
                worker.silent = true;
                let pid = worker.pid;
                note!(
                    self.server.journal,
                    Alert,
                    "worker process {pid} cannot be understood ({}); its session ticket keys are \
                     no longer saved",
                    OsError(&error)
                );
            }
        }
    }

    /// Writes the ticket keys if they have changed and it is time (or the end).
    fn write_state(&mut self, at_end: bool) {
        let now = Instant::now();
        let due = self.state.due.is_some_and(|at| at_end || now >= at);
        let (Some(path), Some(state)) = (&self.server.ticket_state_file, &self.server.ticket_state)
        else {
            return;
        };
        if !due {
            return;
        }
        let written = write_state_file(path, state);
        if self.state.written(now, written.is_ok())
            && let Err((call, error)) = written
        {
            let (path, error) = (path.display(), OsError(&error));
            note!(
                self.server.journal,
                Alert,
                "session ticket keys cannot be saved: {call}() \"{path}\" failed ({error}); the \
                 file is as it was, after a restart clients may have to shake hands in full"
            );
        }
    }

    /// Does what is due.
    fn on_time(&mut self) -> Role {
        self.write_state(false);
        let now = Instant::now();
        match (self.phase, &self.worker) {
            (Phase::Terminating { kill_at }, Some(worker)) if now >= kill_at => {
                note!(
                    self.server.journal,
                    Alert,
                    "worker process {} did not end within {} s and is killed",
                    worker.pid,
                    KILL_AFTER.as_secs()
                );
                self.kill_worker(Signal::Kill);
                self.phase = Phase::Terminating {
                    kill_at: now + KILL_AFTER,
                };
                Role::Master
            }
            (Phase::Serving, None) if self.start_at.is_some_and(|at| now >= at) => {
                self.start_worker()
            }
            _ => Role::Master,
        }
    }

    fn on_signal(&mut self, received: Received) {
        let Received { signal, sender } = received;
        let action = match signal {
            Signal::Term | Signal::Int => ", exiting",
            Signal::Quit => ", shutting down",
            Signal::Usr1 => ", reopening logs",
            Signal::Winch if self.server.config.main.daemon => ", ignoring",
            Signal::Winch => return, // the terminal's window has changed, nothing else
            Signal::Hup => {
                ": reload in place is not available yet, the configuration is unchanged; \
                 restart the server to apply changes"
            }
            Signal::Usr2 => {
                ": upgrade of the binary in place is not available yet, nothing is changed; \
                 restart the server to run a new binary"
            }
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
            Signal::Quit => self.quit(),
            Signal::Usr1 => self.reopen_logs(),
            Signal::Hup => {
                notify::tell(&State::Reloading);
                notify::tell(&State::Ready);
            }
            _ => {}
        }
    }

    fn quit(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        self.phase = Phase::Quitting;
        notify::tell(&State::Stopping);
        self.tell_end(true);
        // From now on new connections are refused as soon as the worker has
        // taken what waits in the queues.
        self.server.sockets.close();
    }

    fn terminate(&mut self) {
        if let Phase::Terminating { .. } = self.phase {
            return;
        }
        notify::tell(&State::Stopping);
        self.phase = Phase::Terminating {
            kill_at: Instant::now() + KILL_AFTER,
        };
        self.tell_end(false);
    }

    /// Tells the worker over its line or, if that is full, by a signal.
    fn tell_end(&mut self, gracefully: bool) {
        let Some(worker) = &self.worker else { return };
        if control::send_end(worker.link.as_fd(), gracefully).is_err() {
            self.kill_worker(if gracefully {
                Signal::Quit
            } else {
                Signal::Term
            });
        }
    }

    fn kill_worker(&self, signal: Signal) {
        let Some(worker) = &self.worker else { return };
        if let Err(error) = signal::send(worker.pid, signal) {
            let (pid, number) = (worker.pid, signal.number());
            note!(
                self.server.journal,
                Alert,
                "kill({pid}, {number}) failed ({})",
                OsError(&error)
            );
        }
    }

    /// Opens the logs again and hands them to the worker, which may lack the
    /// right to open them.
    fn reopen_logs(&mut self) {
        let journal = &self.server.journal;
        note!(journal, Notice, "reopening logs");
        for failed in self.server.logs.reopen() {
            note!(journal, Emerg, "{failed}");
        }
        let Some(worker) = &self.worker else { return };
        let files: Vec<(u16, BorrowedFd<'_>)> = self
            .server
            .logs
            .files()
            .filter_map(|file| Some((u16::try_from(file.index).ok()?, file.fd)))
            .collect();
        for files in files.chunks(LOGS_PER_MESSAGE) {
            if let Err(error) = control::send_logs(worker.link.as_fd(), files) {
                note!(
                    journal,
                    Alert,
                    "worker process {} cannot be given the reopened logs ({}); \
                     send USR1 again",
                    worker.pid,
                    OsError(&error)
                );
            }
        }
    }

    /// Collects children that ended.
    fn reap(&mut self) {
        loop {
            match process::reap() {
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
        let journal = &self.server.journal;
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
        let Some(worker) = self.worker.take_if(|worker| worker.pid == pid) else {
            return;
        };
        if self.phase != Phase::Serving {
            return;
        }
        if status == ExitStatus::Code(FATAL) {
            notify::tell(&State::Status("nothing is served, see the error log"));
            note!(
                journal,
                Alert,
                "worker process {pid} exited with fatal code {FATAL} and cannot be respawned; \
                 nothing is served until the error before is mended and the server restarted"
            );
            return;
        }
        let wait = self.restarts.wait_after(worker.started.elapsed());
        self.start_at = Some(Instant::now() + wait);
        if wait >= Duration::from_secs(1) {
            note!(
                journal,
                Alert,
                "worker processes keep dying soon after their start; the next one starts in {} s",
                wait.as_secs()
            );
        }
    }
}
