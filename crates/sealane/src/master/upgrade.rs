//! USR2, WINCH and QUIT: another binary takes the place of this one, as in nginx.
//!
//! ```text
//!  old master                          new master
//!  USR2: pid -> pid.oldbin
//!        fork, exec ───── sockets ───> takes them, writes pid, starts its worker
//!        (both serve) <── "serving" ──
//!  WINCH: the worker finishes,
//!        idle connections ───────────> go on in its worker
//!  QUIT: the same, and the master ends
//! ```
//!
//! | state of this master | what happens | goes to |
//! |---|---|---|
//! | alone | USR2 | *old*; if the file cannot be executed or the pid file cannot be renamed, alone, and nothing has changed |
//! | alone, during a reload | USR2 | waits for the end of the reload |
//! | old | USR2 | ignored, nginx's message |
//! | beside one that starts to serve | WINCH, QUIT | wait until it serves, 30 s at most, and are ignored if it ends; the second of a kind does not wait |
//! | old | WINCH | *old, paused*: the worker hands its idle connections over, finishes the rest and ends |
//! | old | HUP | reload, as usual |
//! | old, paused | HUP | a worker with the previous configuration starts: the rollback. Then QUIT to the new master brings connections back |
//! | old | QUIT | connections are handed over, the rest finishes, the master ends; `pid.oldbin` goes |
//! | old | TERM | the master ends at once, connections that it still has are closed |
//! | old | the new master ends, for whatever reason | *alone*: `pid.oldbin` is `pid` again, if paused a worker starts |
//! | new | USR2 | ignored, nginx's message |
//! | new | HUP, USR1, WINCH | as alone |
//! | new | QUIT | connections are handed to the old master's worker if there is one; the master ends, `pid` goes |
//! | new | the old master ends | *alone*; the service manager is told that this is the main process. If the old master was killed, its `pid.oldbin` is removed |
//! | alone, paused (WINCH without USR2) | HUP | the configuration is read again, a worker starts |
//!
//! `sealane takeover` is an old binary to the new master: it has nginx's sockets, and sends
//! nothing. The pid file has its name after the end of both (`pid.oldbin` until then).
//!
//! Connections move only if both represent them in the same way, and the other one has a worker
//! that serves. In all other cases, and to and from nginx, the worker finishes as on QUIT.

use super::other::{self, Other, Readiness, Side, VARIABLE};
use super::{Master, Phase, Worker};
use crate::activation::{FOREIGN_VARIABLE, NGINX_VARIABLE};
use crate::control;
use crate::journal::note;
use crate::notify::{self, ServiceState};
use crate::takeover;
use sealane_log::OsError;
use sealane_sys::process::{self, ExitStatus, Pid};
use sealane_sys::signal::Signal;
use sealane_sys::socket;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Variables that are about this process and no other one.
const OWN_VARIABLES: [&str; 7] = [
    NGINX_VARIABLE,
    FOREIGN_VARIABLE,
    VARIABLE,
    takeover::VARIABLE,
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
];

/// How long WINCH and QUIT wait for the new binary to serve.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// nginx does not report that it serves: how often the pid file is checked instead.
const START_POLL: Duration = Duration::from_millis(50);

/// What waits until the new binary serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Later {
    signal: Signal,
    give_up_at: Instant,
}

/// Behind standard input, output and error.
const FIRST_DESCRIPTOR: u32 = 3;

impl Master {
    /// USR2.
    pub(super) fn want_upgrade(&mut self) {
        if self.phase != Phase::Serving || self.is_beside_another() {
            note!(
                self.server.journal,
                Crit,
                "the changing binary signal is ignored: you should shutdown or terminate before \
                 either old or new binary's process"
            );
            return;
        }
        self.upgrade_wanted = true;
    }

    /// Whether the other binary's master runs.
    pub(super) fn is_beside_another(&self) -> bool {
        self.other.as_ref().is_some_and(Other::lives)
    }

    /// Executes the new binary.
    pub(super) fn change_binary(&mut self) {
        note!(self.server.journal, Notice, "changing binary");
        let path = self.origin.program.path().display();
        if let Err(message) = self.pid_file.set_aside(&self.server.guard) {
            note!(
                self.server.journal,
                Alert,
                "{message} before executing new binary process \"{path}\"; nothing has changed, \
                 fix this and send USR2 again"
            );
            return;
        }
        match self.execute() {
            Ok(other) => {
                note!(
                    self.server.journal,
                    Notice,
                    "start new binary process {}",
                    other.pid
                );
                self.other = Some(other);
            }
            Err(error) => {
                note!(
                    self.server.journal,
                    Alert,
                    "execve() failed while executing new binary process \"{path}\" ({}); the old \
                     binary stays in use, put an executable file there and send USR2 again",
                    OsError(&error)
                );
                self.put_pid_file_back();
            }
        }
    }

    fn execute(&self) -> io::Result<Other> {
        // Descriptors that this process inherited by mistake are not passed on. Best effort: old
        // kernels cannot.
        let _ = process::close_on_exec_from(FIRST_DESCRIPTOR);
        let (mut sockets, mut list, mut foreign) = (Vec::new(), String::new(), String::new());
        for group in self.server.sockets.bound.iter().map(|bound| &bound.group) {
            for fd in group.fds() {
                let socket = socket::inheritable(fd)?;
                let number = format!("{};", socket.as_raw_fd());
                list.push_str(&number);
                if group.is_foreign() {
                    foreign.push_str(&number);
                }
                sockets.push(socket); // open until the program has started
            }
        }
        let (line, theirs) = socket::seqpacket_pair()?;
        other::greet(line.as_fd(), &self.server.journal);
        if let Some(keys) = self.server.ticket_states.newest() {
            let _ = other::send_keys(line.as_fd(), keys); // it makes its own without
        }
        let staples = match &self.server.kept_staples {
            kept if kept.is_empty() => None,
            kept => kept.seal().ok(), // it asks responders without
        };
        if let Some(staples) = &staples {
            let _ = other::send_staples(line.as_fd(), staples.as_fd());
        }
        if let Some(register) = self.server.sessions.known_register() {
            // Two registers would each accept a flight.
            other::send_register(line.as_fd(), (*register).as_fd())?;
        }
        let worker = self.worker.as_ref().filter(|worker| !worker.silent);
        let (told, before) = worker.and_then(|_| socket::seqpacket_pair().ok()).unzip();
        if let Some(before) = before {
            let _ = other::send_before(line.as_fd(), before.as_fd()); // full handshakes without
        }
        let number = self.worker.as_ref().map(|worker| worker.quic);
        // Without it, connections of QUIC end with the old binary's sockets.
        let _ = other::send_quic(line.as_fd(), &self.quic_for_next_binary(), number);
        let theirs = socket::inheritable(theirs.as_fd())?;
        let others =
            std::env::vars_os().filter(|(name, _)| !OWN_VARIABLES.iter().any(|own| name == own));
        let added = [
            (NGINX_VARIABLE, list),
            (FOREIGN_VARIABLE, foreign),
            (VARIABLE, theirs.as_raw_fd().to_string()),
        ];
        let added = added
            .into_iter()
            .filter(|(name, value)| *name != FOREIGN_VARIABLE || !value.is_empty())
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let pid = self.origin.program.start(others.chain(added))?;
        let pid = Pid::try_from(pid).map_err(io::Error::other)?;
        if let (Some(worker), Some(told)) = (worker, told) {
            let _ = control::send_succession(worker.link.as_fd(), told.as_fd());
        }
        let mut other = Other::started(pid, line);
        other.our_staples = staples;
        Ok(other)
    }

    fn put_pid_file_back(&mut self) {
        if let Err(message) = self.pid_file.put_back(&self.server.guard) {
            note!(
                self.server.journal,
                Alert,
                "{message}; the pid file is missing, send signals to {}",
                process::pid()
            );
        }
    }

    /// A child has ended. Whether it was the new binary's master.
    pub(super) fn on_new_binary_exit(&mut self, pid: Pid, status: ExitStatus) -> bool {
        let is_it = |other: &mut Other| other.side == Side::New && other.pid == pid;
        let Some(mut other) = self.other.take_if(is_it) else {
            return false;
        };
        let journal = &self.server.journal;
        while other.hear(journal) {} // its last words, if they were not read yet
        match status {
            ExitStatus::Code(0) => {
                note!(
                    journal,
                    Notice,
                    "new binary process {pid} exited with code 0"
                );
            }
            ExitStatus::Code(code) => note!(
                journal,
                Error,
                "new binary process {pid} exited with code {code}, see the messages above; the old \
                 binary stays in use"
            ),
            ExitStatus::Signal { signal, .. } => note!(
                journal,
                Alert,
                "new binary process {pid} exited on signal {signal}; the old binary stays in use"
            ),
        }
        if let Some(keys) = other.take_keys() {
            self.take_keys_of_other(keys);
        }
        self.put_pid_file_back();
        if self.phase == Phase::Serving {
            if self.server.ticket_state_file.is_some() {
                self.state.changed(Instant::now());
            }
            if std::mem::take(&mut self.paused) {
                self.start_at = Some(Instant::now());
            }
        }
        true
    }

    /// The keys of the other binary's workers are for our next worker; a running one
    /// keeps its own.
    fn take_keys_of_other(&mut self, keys: zeroize::Zeroizing<Vec<u8>>) {
        if self.worker.is_none() {
            self.server.ticket_states.succeed(Some(keys));
        }
    }

    /// Delays WINCH or QUIT while the other binary starts to serve: otherwise no process would
    /// take the connections.
    pub(super) fn put_off(&mut self, signal: Signal) -> bool {
        let again = self.later.is_some_and(|later| later.signal == signal);
        while let Some(other) = &mut self.other
            && other.hear(&self.server.journal)
        {}
        if self.phase != Phase::Serving || again || !self.awaits_other() {
            self.later = None;
            return false;
        }
        note!(
            self.server.journal,
            Notice,
            "the other binary does not serve yet, {} is delayed until it does, for at most {} s",
            signal.name(),
            START_PATIENCE.as_secs()
        );
        self.later = Some(Later {
            signal,
            give_up_at: Instant::now() + START_PATIENCE,
        });
        true
    }

    fn awaits_other(&self) -> bool {
        let starting = self.other.as_ref().filter(|other| other.is_starting());
        // Its line closes a moment before it has ended.
        let is_ending = |other: &Other| other.side == Side::New && other.fd().is_none();
        self.upgrade_wanted
            || self.other.as_ref().is_some_and(is_ending)
            || starting.is_some_and(|other| {
                other.has_greeted() || !self.pid_file.names(other.pid, &self.server.guard)
            })
    }

    /// When a delayed signal must be checked again.
    pub(super) fn later_due(&self) -> Option<Instant> {
        self.later.map(|_| Instant::now() + START_POLL)
    }

    /// Follows a signal that was put off.
    fn go_on_with_later(&mut self) {
        let Some(Later { signal, give_up_at }) = self.later else {
            return;
        };
        if self.awaits_other() && Instant::now() < give_up_at {
            return;
        }
        self.later = None;
        match signal {
            Signal::Quit if self.is_beside_another() => self.quit(),
            _ if self.is_beside_another() => self.pause(),
            // Without the new binary no process would serve.
            _ => note!(
                self.server.journal,
                Alert,
                "{} was delayed for the other binary, which has exited: the signal is ignored and \
                 this binary stays in use; send it again to shut down anyway",
                signal.name()
            ),
        }
    }

    /// WINCH: the worker finishes, the master keeps the sockets.
    pub(super) fn pause(&mut self) {
        if self.phase != Phase::Serving || self.paused {
            return;
        }
        self.give_reload_up();
        self.paused = true;
        self.start_at = None;
        if let Some(worker) = self.worker.take() {
            self.let_go(worker);
        }
    }

    /// HUP after WINCH while the new binary runs: the way back to this one.
    pub(super) fn resume(&mut self) -> bool {
        if !self.paused || self.phase != Phase::Serving || !self.is_beside_another() {
            return false;
        }
        self.paused = false;
        if let Some(keys) = self.other.as_mut().and_then(Other::take_keys) {
            self.take_keys_of_other(keys);
        }
        self.start_at = Some(Instant::now());
        true
    }

    /// Has a worker finish its connections, and hand the idle ones to the other binary if
    /// that adopts them.
    pub(super) fn let_go(&mut self, worker: Worker) {
        let journal = &self.server.journal;
        let to = self
            .other
            .as_ref()
            .filter(|other| other.takes_connections());
        let moves = to.is_some_and(|other| {
            let (pid, there) = (worker.pid, other.pid);
            match worker.tell_move_out(|line| other.send_take_over(line)) {
                Ok(()) => {
                    note!(
                        journal,
                        Notice,
                        "idle connections of worker process {pid} move to binary {there}"
                    );
                    true
                }
                Err(error) => {
                    note!(
                        journal,
                        Warn,
                        "connections of worker process {pid} cannot move to binary {there} ({}), \
                         they finish here",
                        OsError(&error)
                    );
                    false
                }
            }
        });
        if !moves {
            worker.tell_end(true, journal);
        }
        self.draining.push(worker);
    }

    /// The other binary has sent something, or is gone.
    pub(super) fn on_other(&mut self) {
        let journal = &self.server.journal;
        let Some(other) = &mut self.other else { return };
        other.hear(journal);
        if other.side == Side::Old && other.fd().is_none() {
            self.on_old_binary_gone();
        }
    }

    fn on_old_binary_gone(&mut self) {
        let Some(other) = self.other.take() else {
            return;
        };
        let pid = other.pid;
        note!(
            self.server.journal,
            Notice,
            "master process {pid} of the old binary has exited"
        );
        self.pid_file.remove_aside_of(pid, &self.server.guard);
        self.put_pid_file_back(); // after a takeover
        if self.phase == Phase::Serving {
            notify::tell(&ServiceState::Ready);
        }
        self.take_arriving(other.arriving);
    }

    fn take_arriving(&self, lines: Vec<OwnedFd>) {
        let Some(worker) = &self.worker else { return };
        for line in lines {
            if let Err(error) = worker.take_over(line.as_fd()) {
                note!(
                    self.server.journal,
                    Alert,
                    "the connections of the other binary cannot be sent to worker process {} ({}), \
                     closing them",
                    worker.pid,
                    OsError(&error)
                );
            }
        }
    }

    /// Does what is due between the two binaries.
    pub(super) fn go_on_upgrading(&mut self) {
        if self.reload.is_none() && std::mem::take(&mut self.upgrade_wanted) {
            self.change_binary();
        }
        self.go_on_with_later();
        // It was gone before its channel was first read, or is nginx, which has none, or its last
        // message was read elsewhere.
        let is_gone = |other: &Other| {
            let is_silent = other.side == Side::Old && other.fd().is_none();
            is_silent && (other.has_greeted() || !other.lives())
        };
        if self.other.as_ref().is_some_and(is_gone) {
            self.on_old_binary_gone();
        }
        let readiness = match &self.worker {
            Some(worker) if worker.ready => Readiness::Serving,
            Some(_) => Readiness::Starting,
            None if self.start_at.is_some() => Readiness::Starting,
            None => Readiness::No,
        };
        let Some(other) = &mut self.other else { return };
        other.tell(readiness);
        if readiness == Readiness::Serving && !other.arriving.is_empty() {
            let arriving = std::mem::take(&mut other.arriving);
            self.take_arriving(arriving);
        }
    }

    /// Tells the service manager, for which there is only one server: it would not understand
    /// messages of the new binary's master before the old one has ended.
    pub(super) fn tell_manager(&self, state: &ServiceState<'_>) {
        let of_old = |other: &Other| other.side == Side::Old && other.lives();
        if !self.other.as_ref().is_some_and(of_old) {
            notify::tell(state);
        }
    }

    /// This master ends. The service manager hears that the server does, too, or who goes on.
    pub(super) fn tell_manager_of_end(&self) {
        match &self.other {
            // nginx sends nothing, and writes its pid file when it serves.
            Some(other)
                if other.side == Side::New
                    && (other.is_serving()
                        || self.pid_file.names(other.pid, &self.server.guard)) =>
            {
                notify::tell(&ServiceState::MainPid(other.pid));
            }
            _ => self.tell_manager(&ServiceState::Stopping),
        }
    }

    /// Whether the file of ticket keys is another binary's to write.
    pub(super) fn other_writes_state(&self) -> bool {
        let other = self.other.as_ref();
        other.is_some_and(|other| other.side == Side::New && other.is_serving())
    }
}
