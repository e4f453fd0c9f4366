//! HUP: what the master does for a reload, step by step.
//!
//! ```text
//!            refused ┌──────────────────────────── ended too soon
//!   HUP ─> prepare ──┤                                   ^
//!                    ├─> Applying ──applied──> in use    │
//!                    │      │ refused, silent, dead      │
//!                    └──> Starting ──fork──> Waiting ──ready──> in use, the worker before drains
//! ```
//!
//! Until a configuration is in use, the previous one stays unchanged.

use super::other::{Other, Side};
use super::{KILL_AFTER, Master, Phase, Role};
use crate::certificates::KeptStaples;
use crate::control::{self, NewConfiguration, Report};
use crate::crash;
use crate::journal::note;
use crate::key_process;
use crate::limits;
use crate::notify::ServiceState;
use crate::pid_file::PidFile;
use crate::reload;
use crate::reload::ReplayLoader;
use crate::rotation::Rotation;
use crate::session_store::{self, TicketStates};
use crate::sockets::Bound;
use crate::startup::{self, Goal, NamedFiles, Reading, Refused, Server};
use sealane_log::OsError;
use sealane_server::metrics::{ProcessCounts, unix_s};
use sealane_sys::process::Pid;
use sealane_sys::sealed_memory::SealedMemory;
use sealane_sys::signal::Signal;
use sealane_sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

use super::workers::{Forked, Worker};

/// A worker that has not built a configuration within this time is considered stuck. Ten
/// thousand certificates take a few seconds.
const APPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// A reload that is under way.
pub(super) struct Reload {
    generation: u64,
    next: Box<Server>,
    step: ReloadStep,
    /// Everything but the contents of certificates and keys is as before.
    only_certificates: bool,
    /// The successor's ticket keys.
    ticket_state: Option<Zeroizing<Vec<u8>>>,
}

enum ReloadStep {
    /// The worker has it, and the memory in which it was handed over.
    Applying {
        _memory: SealedMemory,
        give_up_at: Instant,
    },
    /// Another process is to serve it.
    Starting,
    /// That process starts.
    Waiting {
        successor: Worker,
        give_up_at: Instant,
    },
}

impl Reload {
    /// The process that is to serve the configuration.
    pub(super) fn successor(&self) -> Option<&Worker> {
        match &self.step {
            ReloadStep::Waiting { successor, .. } => Some(successor),
            _ => None,
        }
    }

    /// The configuration that is to come.
    pub(super) fn next(&self) -> &Server {
        &self.next
    }

    /// The process that is to serve it.
    pub(super) fn successor_mut(&mut self) -> Option<&mut Worker> {
        match &mut self.step {
            ReloadStep::Waiting { successor, .. } => Some(successor),
            _ => None,
        }
    }

    /// A worker that is not the current one has reported its ticket keys.
    pub(super) fn on_ticket_state(&mut self, pid: Pid, state: Zeroizing<Vec<u8>>) {
        if self.successor().is_some_and(|worker| worker.pid == pid) {
            self.ticket_state = Some(state);
        }
    }

    /// When the master must check it again.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.step {
            ReloadStep::Applying { give_up_at, .. } | ReloadStep::Waiting { give_up_at, .. } => {
                Some(*give_up_at)
            }
            ReloadStep::Starting => Some(Instant::now()),
        }
    }

    /// In the process that is to serve it: the configuration, with the ticket keys and staples of
    /// the previous worker.
    pub(super) fn into_next(self, ticket_states: TicketStates, staples: KeptStaples) -> Server {
        let mut next = *self.next;
        next.ticket_states = ticket_states;
        next.kept_staples = staples;
        let main_log = next.logs.logger(&next.config.main.error_logs);
        next.logs.take_effect(main_log);
        crash::report_to(&next.logs, &next.config.main);
        next
    }
}

impl Master {
    /// Begins a reload that is wanted, and does what the one under way needs.
    pub(super) fn go_on_reconfiguring(&mut self) -> Role {
        if self.reload.is_none() {
            if std::mem::take(&mut self.reopen_wanted) {
                self.reopen_logs();
            }
            if std::mem::take(&mut self.reload_wanted) {
                self.reconfigure();
            } else {
                self.rotate();
            }
        }
        let now = Instant::now();
        let (journal, worker) = (&self.server.journal, &self.worker);
        let Some(reload) = &mut self.reload else {
            return Role::Master;
        };
        match &mut reload.step {
            ReloadStep::Starting => return self.start_successor(),
            ReloadStep::Applying { give_up_at, .. } if now >= *give_up_at => {
                let seconds = APPLY_TIMEOUT.as_secs();
                if let Some(worker) = worker {
                    note!(
                        journal,
                        Alert,
                        "worker process {} has not applied the new configuration within {seconds} \
                         s, starting another one",
                        worker.pid
                    );
                }
                reload.step = ReloadStep::Starting;
            }
            ReloadStep::Waiting {
                successor,
                give_up_at,
            } if now >= *give_up_at => {
                note!(
                    journal,
                    Alert,
                    "worker process {} does not become ready, killing it",
                    successor.pid
                );
                successor.kill(Signal::Kill, journal);
                *give_up_at = now + KILL_AFTER;
            }
            ReloadStep::Applying { .. } | ReloadStep::Waiting { .. } => {}
        }
        Role::Master
    }

    /// Reads the configuration and hands it to the worker, or plans another worker.
    fn reconfigure(&mut self) {
        self.tell_manager(&ServiceState::Reloading);
        note!(self.server.journal, Notice, "reconfiguring");
        self.generation += 1;
        let Ok(next) = self.read_next() else {
            note!(
                self.server.journal,
                Error,
                "the new configuration is refused, the old one stays in use"
            );
            ProcessCounts::of_server().reloads_refused.add(1);
            self.forget_refused_keys();
            self.tell_manager(&ServiceState::Ready);
            return;
        };
        self.begin_reload(next, false);
    }

    /// Hands what was read to the worker, or plans another worker.
    fn begin_reload(&mut self, mut next: Server, only_certificates: bool) {
        next.sockets.steer(&self.quic.secret, &self.server.journal);
        let step = match reload::needs_new_process(&self.server, &next) {
            Some(directive) => {
                note!(
                    self.server.journal,
                    Notice,
                    "\"{directive}\" has changed, which requires a new worker process"
                );
                ReloadStep::Starting
            }
            None => self.hand_over(&next).unwrap_or_else(|error| {
                note!(
                    self.server.journal,
                    Alert,
                    "the new configuration cannot be sent to the worker process ({}), starting \
                     another one",
                    OsError(&error)
                );
                ReloadStep::Starting
            }),
        };
        if !watches_certificates(&next) {
            next.handover = None; // the bytes of keys
        }
        self.reload = Some(Reload {
            generation: self.generation,
            next: Box::new(next),
            step,
            only_certificates,
            ticket_state: None,
        });
    }

    fn read_next(&self) -> Result<Server, Refused> {
        let (origin, journal) = (&self.origin, &self.server.journal);
        let reading = startup::read_recorded(&origin.arguments, &origin.places, journal)?;
        self.prepare(reading, false)
    }

    fn prepare(&self, reading: Reading, only_certificates: bool) -> Result<Server, Refused> {
        let leaving = self.leaving.iter().map(|(_, bound)| bound);
        let known: Vec<&Bound> = self.server.sockets.bound.iter().chain(leaving).collect();
        let goal = Goal::Reload {
            running: &self.server,
            known: &known,
            only_certificates,
        };
        let journal = &self.server.journal;
        startup::prepare(reading, &self.origin.places, &goal, journal)
    }

    /// From now on, certificates of the configuration in use may change.
    pub(super) fn watch_certificates(&mut self) {
        self.rotation = Rotation::of(&self.server.config, Instant::now());
        if self.rotation.is_none() {
            self.server.handover = None;
        }
    }

    /// When they are looked at next; not during a reload, whose end is waited for.
    pub(super) fn rotation_due(&self) -> Option<Instant> {
        let rotation = self.rotation.as_ref()?;
        let can_change = self.reload.is_none() && self.worker.is_some();
        can_change.then(|| rotation.due())
    }

    /// Looks for certificates that have changed, and reloads with them what is in use.
    fn rotate(&mut self) {
        let now = Instant::now();
        let is_due = self.rotation_due().is_some_and(|due| now >= due);
        let (Some(rotation), Some(handover)) = (&mut self.rotation, &self.server.handover) else {
            return;
        };
        if !is_due {
            return;
        }
        let journal = &self.server.journal;
        let changes = rotation.look(&handover.materials, &self.server.guard, now);
        for complaint in &changes.complaints {
            note!(journal, Error, "{complaint}");
        }
        if changes.contents.is_empty() {
            return;
        }
        let mut files = handover.materials.clone();
        for (path, content) in &changes.contents {
            note!(
                journal,
                Notice,
                "\"{}\" has changed, it is loaded again",
                path.display()
            );
            files.insert_wiped(path.clone(), content.clone());
        }
        let (options, records) = (handover.options.clone(), handover.records.clone());
        let mut loader = ReplayLoader::new(records.clone());
        let next = match sealane_conf::parse(&options, &mut loader) {
            Ok(config) => self.prepare(
                Reading {
                    config,
                    options,
                    records,
                    files: NamedFiles::Read(Box::new(files)),
                },
                true,
            ),
            Err(failure) => {
                journal.diagnostic(&failure.error);
                Err(Refused)
            }
        };
        let Ok(next) = next else {
            note!(
                journal,
                Error,
                "the changed files are not used, the ones before stay in use until one of them \
                 changes again"
            );
            self.forget_refused_keys();
            return;
        };
        if let Some(rotation) = &mut self.rotation {
            rotation.taken(&changes.contents);
        }
        self.generation += 1;
        self.begin_reload(next, true);
    }

    /// Sends the worker all of it, if there is a worker that listens.
    fn hand_over(&self, next: &Server) -> io::Result<ReloadStep> {
        let worker = self.worker.as_ref().filter(|worker| !worker.silent);
        let (Some(worker), Some(handover)) = (worker, &next.handover) else {
            return Ok(ReloadStep::Starting);
        };
        limits::examine(&next.config, next.threads, &self.server.journal);
        if let Some(keys) = &next.keys {
            // Before the configuration that needs them.
            key_process::lock(keys).go_on(&[worker.link.as_fd()], &self.server);
        }
        let memory = reload::seal(
            next.threads,
            &handover.options,
            &handover.records,
            &handover.materials,
        )?;
        let logs = next.logs.descriptors()?;
        let has_address = |bound: &&Bound| bound.has_address_of(&self.server.sockets.bound);
        let added = next
            .sockets
            .bound
            .iter()
            .filter(|bound| !has_address(bound));
        let configuration = NewConfiguration {
            generation: self.generation,
            memory: memory.as_fd(),
            logs: logs
                .iter()
                .map(|(index, file)| (u32::from(*index), file.as_fd()))
                .collect(),
            sockets: added.flat_map(listener_and_sockets).collect(),
        };
        configuration.send(worker.link.as_fd())?;
        Ok(ReloadStep::Applying {
            _memory: memory,
            give_up_at: Instant::now() + APPLY_TIMEOUT,
        })
    }

    /// Forks the process that is to serve the new configuration.
    fn start_successor(&mut self) -> Role {
        let place = self.next_quic_place();
        let Some(reload) = &mut self.reload else {
            return Role::Master;
        };
        reload.next.quic = Some(place);
        // The worker sends its sessions over this channel. Without it, handshakes are full.
        let worker = self.worker.as_ref().filter(|worker| !worker.silent);
        let line = worker.and_then(|_| socket::seqpacket_pair().ok());
        let (told, before) = line.unzip();
        match Worker::fork(&mut reload.next, &self.server.journal) {
            // Its own end alone, or it would never see the other one close.
            Ok(Forked::Worker(link)) => {
                drop(told);
                return Role::Successor(link, before);
            }
            Ok(Forked::Master(successor)) => {
                if let (Some(worker), Some(told)) = (worker, told) {
                    // If it cannot be told, the channel closes, which the successor sees.
                    let _ = control::send_succession(worker.link.as_fd(), told.as_fd());
                }
                reload.step = ReloadStep::Waiting {
                    successor,
                    give_up_at: Instant::now() + APPLY_TIMEOUT,
                };
            }
            Err(error) => {
                note!(
                    self.server.journal,
                    Alert,
                    "fork() failed while spawning \"worker process\" ({})",
                    OsError(&error)
                );
                self.refuse_started();
            }
        }
        Role::Master
    }

    /// A worker reports its progress.
    pub(super) fn on_progress(&mut self, pid: Pid, report: Report) {
        let is_current = self.worker.as_ref().is_some_and(|worker| worker.pid == pid);
        let reload = self.reload.as_mut();
        let applying = reload
            .filter(|reload| is_current && matches!(reload.step, ReloadStep::Applying { .. }));
        match report {
            Report::Ready => {
                // Once: what follows from it is work for other workers, too.
                if let Some(worker) = self.worker_with(pid)
                    && !std::mem::replace(&mut worker.ready, true)
                {
                    self.on_ready(pid);
                }
            }
            Report::Applied(generation) => {
                if applying.is_some_and(|reload| reload.generation == generation) {
                    self.on_applied();
                }
            }
            Report::Refused(generation, why) => {
                if let Some(reload) = applying.filter(|reload| reload.generation == generation) {
                    reload.step = ReloadStep::Starting;
                    note!(
                        self.server.journal,
                        Alert,
                        "worker process {pid} cannot apply the new configuration ({why}), starting \
                         another one"
                    );
                }
            }
            Report::Drained(generation) if is_current => {
                self.close_leaving(|of, bound| of <= generation && !bound.is_for_datagrams());
            }
            Report::Left(generation) if is_current => {
                self.close_leaving(|of, bound| of <= generation && bound.is_for_datagrams());
            }
            Report::Drained(_)
            | Report::Left(_)
            | Report::TicketState(_)
            | Report::Staple(..)
            | Report::DnsCommand(_) => {}
        }
    }

    /// The current worker's channel is of no more use.
    pub(super) fn on_silence(&mut self, pid: Pid) {
        let is_current = self.worker.as_ref().is_some_and(|worker| worker.pid == pid);
        if let Some(reload) = &mut self.reload
            && is_current
            && let ReloadStep::Applying { .. } = reload.step
        {
            reload.step = ReloadStep::Starting;
        }
    }

    /// The current worker has died. Whether a reload will bring another one.
    pub(super) fn go_on_without_worker(&mut self) -> bool {
        if let Some(reload) = &mut self.reload
            && let ReloadStep::Applying { .. } = reload.step
        {
            reload.step = ReloadStep::Starting;
        }
        self.reload.is_some()
    }

    /// A worker has ended: if it was the successor, its configuration is refused.
    pub(super) fn on_successor_exit(&mut self, pid: Pid) {
        let successor = self.reload.as_ref().and_then(Reload::successor);
        if successor.is_some_and(|successor| successor.pid == pid) {
            self.refuse_started();
        }
    }

    /// The process for the new configuration does not come up.
    fn refuse_started(&mut self) {
        self.give_reload_up();
        note!(
            self.server.journal,
            Alert,
            "the new configuration is not used because its worker process could not start, the old \
             one stays in use"
        );
        ProcessCounts::of_server().reloads_refused.add(1);
        if self.worker.is_none() && self.phase == Phase::Serving && !self.paused {
            self.start_at = Some(Instant::now());
        }
    }

    /// Forgets the reload under way, with what was opened for it.
    pub(super) fn give_reload_up(&mut self) {
        let Some(reload) = self.reload.take() else {
            return;
        };
        if self.phase == Phase::Serving {
            self.tell_manager(&ServiceState::Ready);
        }
        if reload.only_certificates {
            self.watch_certificates();
        }
        self.let_key_process_go(reload.next.keys.clone());
        self.forget_refused_keys();
        let leaving = self.leaving.iter().map(|(_, bound)| bound);
        let known: Vec<&Bound> = self.server.sockets.bound.iter().chain(leaving).collect();
        let journal = &self.server.journal;
        reload.next.sockets.remove_files_except(&known, journal);
        if let ReloadStep::Waiting { successor, .. } = reload.step {
            self.draining.push(successor);
        }
    }

    /// The worker continues with the new configuration.
    fn on_applied(&mut self) {
        let Some(reload) = self.reload.take() else {
            return;
        };
        let generation = reload.generation;
        let what = match reload.only_certificates {
            true => "certificates loaded again, worker process",
            false => "reconfigured, worker process",
        };
        let with = match reload.only_certificates {
            true => "with them",
            false => "with the new configuration",
        };
        let before = self.switch_to(*reload.next, reload.only_certificates);
        if let Some(worker) = &mut self.worker {
            worker.logs = Arc::clone(&self.server.logs);
            let pid = worker.pid;
            note!(self.server.journal, Notice, "{what} {pid} continues {with}");
        }
        let gone = before.sockets.bound.into_iter();
        let gone = gone.filter(|bound| {
            let was = before.config.http.as_ref();
            !bound.has_address_of(&self.server.sockets.bound) && bound.is_for_clients(was)
        });
        self.leaving.extend(gone.map(|bound| (generation, bound)));
    }

    /// A successor serves: it becomes the current worker, and the previous one finishes its
    /// connections.
    fn on_ready(&mut self, pid: Pid) {
        let successor = self.reload.as_ref().and_then(Reload::successor);
        if successor.is_none_or(|successor| successor.pid != pid) {
            // One in the place of a worker that died.
            return self.lead_on();
        }
        let Some(Reload {
            next,
            step: ReloadStep::Waiting { successor, .. },
            generation,
            only_certificates,
            ticket_state,
        }) = self.reload.take()
        else {
            return;
        };
        let before = self.switch_to(*next, only_certificates);
        self.server.ticket_states.succeed(ticket_state);
        self.start_at = None;
        self.paused = false;
        let worker = self.worker.replace(successor);
        note!(
            self.server.journal,
            Notice,
            "reconfigured, worker process {pid} serves the new configuration"
        );
        if let Some(worker) = worker {
            match &self.worker {
                Some(successor) => worker.tell_move(successor, &self.server.journal),
                None => worker.tell_end(true, &self.server.journal),
            }
            self.lead_on();
            self.draining.push(worker);
        }
        // The process that finishes has copies of its own.
        let gone = before.sockets.bound.into_iter();
        let gone = gone.filter(|bound| {
            let was = before.config.http.as_ref();
            !bound.has_address_of(&self.server.sockets.bound) && bound.is_for_clients(was)
        });
        self.leaving.extend(gone.map(|bound| (generation, bound)));
        self.close_leaving(|_, _| true);
    }

    /// Redirects the connections of finishing workers to the current worker: the process that was
    /// to adopt them no longer does.
    fn lead_on(&self) {
        if let (Phase::Serving, Some(current)) = (self.phase, &self.worker) {
            for worker in &self.draining {
                worker.tell_move(current, &self.server.journal);
            }
        }
    }

    /// Makes `next` the configuration in use, and returns the one before.
    fn switch_to(&mut self, mut next: Server, only_certificates: bool) -> Server {
        next.ticket_states = std::mem::take(&mut self.server.ticket_states);
        next.kept_staples = std::mem::take(&mut self.server.kept_staples);
        self.quic.remember(&self.server.snapshot);
        let before = std::mem::replace(&mut self.server, next);
        self.follow_keys(before.keys.clone());
        let server = &self.server;
        self.programs.set(server);
        let main_log = server.logs.logger(&server.config.main.error_logs);
        server.logs.take_effect(main_log);
        server
            .sockets
            .change_options(&before.sockets, &server.journal);
        let (main, was) = (&server.config.main, &before.config.main);
        let register_bytes =
            |server: &Server| session_store::register_bytes(server.config.http.as_ref());
        let registers = (register_bytes(server), register_bytes(&before));
        for (directive, differs) in [
            ("daemon", main.daemon != was.daemon),
            ("master_process", main.master_process != was.master_process),
            (
                "ssl_early_data_register_size",
                matches!(registers, (Some(now), Some(then)) if now != then),
            ),
        ] {
            if differs {
                note!(
                    server.journal,
                    Warn,
                    "\"{directive}\" has changed, which takes effect only after a restart"
                );
            }
        }
        self.server.config.main.daemon = was.daemon;
        if self.server.config.main.daemon {
            startup::redirect_stderr(&self.server);
        }
        self.move_pid_file();
        if self.server.ticket_state_file != before.ticket_state_file
            && self.server.ticket_state_file.is_some()
        {
            self.state.changed(Instant::now());
        }
        if self.server.staple_state_file != before.staple_state_file
            && self.server.staple_state_file.is_some()
        {
            self.staple_state.changed(Instant::now());
        }
        // An address that was to go and has come back.
        let sockets: Vec<&Bound> = self.server.sockets.bound.iter().collect();
        self.leaving.retain(|(_, bound)| !bound.is_among(&sockets));
        crash::report_to(&self.server.logs, &self.server.config.main);
        if !only_certificates {
            self.watch_certificates();
        }
        self.watch_ends();
        let counts = ProcessCounts::of_server();
        counts.reloads.add(1);
        counts.loaded_s.set(unix_s());
        self.tell_manager(&ServiceState::Ready);
        before
    }

    /// As nginx: a new file where the configuration names another one.
    fn move_pid_file(&mut self) {
        let path = &self.server.config.main.pid;
        if self.pid_file.path() == path {
            return;
        }
        let own = sealane_sys::process::pid();
        let is_old = |other: &Other| other.side == Side::New;
        let created = match &self.other {
            Some(other) if is_old(other) => PidFile::create_aside(path, own, &self.server.guard),
            _ => PidFile::create(path, own, &self.server.guard),
        };
        match created {
            Ok(new) => {
                let old = std::mem::replace(&mut self.pid_file, new);
                if let Err(message) = old.remove(&self.server.guard) {
                    note!(self.server.journal, Alert, "{message}");
                }
            }
            Err(message) => note!(self.server.journal, Alert, "{message}"),
        }
    }

    /// Closes sockets of addresses that were removed by the reload of such a number, and removes
    /// the files of Unix sockets.
    pub(super) fn close_leaving(&mut self, is_meant: impl Fn(u64, &Bound) -> bool) {
        let beside_another = self.is_beside_another();
        let next = self
            .reload
            .iter()
            .flat_map(|reload| &reload.next.sockets.bound);
        let used: Vec<&Bound> = self.server.sockets.bound.iter().chain(next).collect();
        let journal = &self.server.journal;
        self.leaving.retain(|(generation, bound)| {
            if !is_meant(*generation, bound) {
                return true;
            }
            // Another binary may serve it still.
            if !bound.is_among(&used) && !beside_another {
                bound.remove_file(journal);
            }
            false
        });
    }
}

fn watches_certificates(server: &Server) -> bool {
    let http = server.config.http.as_ref();
    http.is_some_and(|http| http.certificate_reload.is_some())
}

fn listener_and_sockets(bound: &Bound) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
    let listener = bound.listener as u32;
    bound.group.fds().map(move |socket| (listener, socket))
}
