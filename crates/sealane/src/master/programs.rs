//! Programs that run beside the workers: when they start, and when they end.
//!
//! ```text
//! wanted --delay--> Starting --at--> Running --exit--> Starting (later), or Ended
//!                                       |
//!          no longer wanted, or another one: TERM, after a while KILL
//! ```

use super::{KILL_AFTER, Master};
use crate::journal::{Journal, note};
use crate::programs::{self, Program, Running};
use crate::restarts::Restarts;
use crate::startup::Server;
use sealane_conf::model::Respawn;
use sealane_log::OsError;
use sealane_sys::poll;
use sealane_sys::process::{self, ExitStatus, Pid};
use sealane_sys::signal::{self, Signal};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long programs that read logs may take to write what they have, when the server ends.
const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// The programs of the configuration in use, and those that are ending.
#[derive(Default)]
pub(super) struct Programs {
    wanted: Vec<Supervised>,
    ending: Vec<Ending>,
    /// The server ends: nothing is started any more.
    is_over: bool,
}

struct Supervised {
    program: Program,
    state: RunState,
    restarts: Restarts,
}

enum RunState {
    Starting(Instant),
    Running { running: Running, since: Instant },
    Ended,
}

/// A program that was told to end.
struct Ending {
    title: String,
    running: Running,
    /// `None`: it was killed.
    kill_at: Option<Instant>,
}

impl Programs {
    /// Runs the programs of a configuration that is in use from now on. Those that are the same go
    /// on.
    pub(super) fn set(&mut self, server: &Server) {
        let journal = &server.journal;
        let programs = match programs::wanted(server) {
            Ok(programs) => programs,
            Err(why) => {
                note!(journal, Alert, "{why}"); // it was checked, and has changed since
                return;
            }
        };
        let mut before = std::mem::take(&mut self.wanted);
        let now = Instant::now();
        for program in programs {
            let known = before
                .iter()
                .position(|known| known.program.is_same(&program));
            self.wanted.push(match known {
                // When it starts and what follows its end may be others now.
                Some(at) => Supervised {
                    program,
                    ..before.swap_remove(at)
                },
                None => Supervised {
                    state: RunState::Starting(now + program.delay),
                    program,
                    restarts: Restarts::default(),
                },
            });
        }
        for gone in before {
            self.end(gone, journal);
        }
    }

    /// Tells a program to end. One that reads a log ends when there is no more of it.
    fn end(&mut self, gone: Supervised, journal: &Journal) {
        let RunState::Running { running, .. } = gone.state else {
            return;
        };
        let title = gone.program.title;
        if gone.program.log.is_none() {
            note!(
                journal,
                Notice,
                "{title} (process {}) is told to end",
                running.pid
            );
            let _ = signal::send_to_group(running.pid, Signal::Term);
        }
        self.ending.push(Ending {
            title,
            running,
            kill_at: gone
                .program
                .log
                .is_none()
                .then(|| Instant::now() + KILL_AFTER),
        });
    }

    /// When something is to be done.
    pub(super) fn due(&self) -> Option<Instant> {
        let starts = self.wanted.iter().filter_map(|one| match one.state {
            RunState::Starting(at) if !self.is_over && !self.is_ending(&one.program) => Some(at),
            _ => None,
        });
        let kills = self.ending.iter().filter_map(|one| one.kill_at);
        starts.chain(kills).min()
    }

    /// Whether one of the same name still ends: it is waited for.
    fn is_ending(&self, program: &Program) -> bool {
        let mut ending = self.ending.iter();
        program.log.is_none() && ending.any(|one| one.title == program.title)
    }

    /// Where programs write, with the process of each.
    pub(super) fn fds(&self) -> impl Iterator<Item = (Pid, BorrowedFd<'_>)> {
        let wanted = self.wanted.iter().filter_map(|one| match &one.state {
            RunState::Running { running, .. } => Some(running),
            _ => None,
        });
        let ending = self.ending.iter().map(|one| &one.running);
        let all = wanted.chain(ending);
        all.filter_map(|running| Some((running.pid, running.fd()?)))
    }

    /// A program has written something, or closed its stderr.
    pub(super) fn read(&mut self, pid: Pid, journal: &Journal) {
        for one in &mut self.wanted {
            if let RunState::Running { running, .. } = &mut one.state
                && running.pid == pid
            {
                running.read(&one.program.title, journal);
            }
        }
        for one in &mut self.ending {
            if one.running.pid == pid {
                one.running.read(&one.title, journal);
            }
        }
    }

    /// Starts programs whose time has come, and kills those whose time is over.
    pub(super) fn go_on(&mut self, server: &Server) {
        let (now, journal) = (Instant::now(), &server.journal);
        for one in &mut self.ending {
            if one.kill_at.is_some_and(|at| now >= at) {
                let (title, pid) = (&one.title, one.running.pid);
                let seconds = KILL_AFTER.as_secs();
                note!(
                    journal,
                    Alert,
                    "{title} (process {pid}) did not exit within {seconds} s, killing it"
                );
                let _ = signal::send_to_group(pid, Signal::Kill);
                one.kill_at = None;
            }
        }
        if self.is_over {
            return;
        }
        for at in 0..self.wanted.len() {
            let one = &self.wanted[at];
            let is_due = matches!(one.state, RunState::Starting(at) if now >= at);
            if !is_due || self.is_ending(&one.program) {
                continue;
            }
            let started = one.program.start(&server.guard);
            let one = &mut self.wanted[at];
            let title = &one.program.title;
            one.state = match started {
                Ok(running) => {
                    note!(journal, Notice, "start {title}, process {}", running.pid);
                    RunState::Running {
                        running,
                        since: now,
                    }
                }
                Err(why) => {
                    let wait = one.restarts.wait_after(Duration::ZERO);
                    note!(
                        journal,
                        Alert,
                        "{title} cannot be started: {why}; tried again in {} ms",
                        wait.as_millis()
                    );
                    RunState::Starting(now + wait)
                }
            };
        }
    }

    /// A child has ended. Whether it was one of the programs.
    pub(super) fn on_exit(&mut self, pid: Pid, status: ExitStatus, journal: &Journal) -> bool {
        let ended = self.ending.iter().position(|one| one.running.pid == pid);
        if let Some(at) = ended {
            let mut one = self.ending.swap_remove(at);
            one.running.end(&one.title, journal);
            note!(journal, Notice, "{} (process {pid}) exited", one.title);
            return true;
        }
        let Some(one) = self.wanted.iter_mut().find(
            |one| matches!(&one.state, RunState::Running { running, .. } if running.pid == pid),
        ) else {
            return false;
        };
        let RunState::Running { mut running, since } =
            std::mem::replace(&mut one.state, RunState::Ended)
        else {
            return false;
        };
        running.end(&one.program.title, journal);
        let wait = match one.program.respawn {
            _ if self.is_over => None,
            Respawn::Never => None,
            Respawn::Soon => Some(one.restarts.wait_after(since.elapsed())),
            Respawn::After(wait) => Some(wait),
        };
        if let Some(wait) = wait {
            one.state = RunState::Starting(Instant::now() + wait);
        }
        report(&one.program.title, pid, status, wait, journal);
        true
    }

    /// What a program has left in its process group ends with it, as long as the number of the
    /// group is certain.
    pub(super) fn before_collecting(&self, pid: Pid) {
        let mut ending = self.ending.iter();
        let mut wanted = self.wanted.iter();
        let is_leader = |one: &Supervised| {
            let is_it =
                matches!(&one.state, RunState::Running { running, .. } if running.pid == pid);
            // At the end of a log, what reads it may have begun something else.
            is_it && (one.program.log.is_none() || !self.is_over)
        };
        let is_it = ending.any(|one| one.running.pid == pid && one.kill_at.is_some())
            || wanted.any(is_leader);
        if is_it {
            let _ = signal::send_to_group(pid, Signal::Kill); // there may be nothing left
        }
    }

    /// The server ends, and with it the programs of `processes`. Those that read logs go on until
    /// there is nothing to read.
    pub(super) fn stop(&mut self, journal: &Journal) {
        self.is_over = true;
        let (logs, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.wanted)
            .into_iter()
            .partition(|one| one.program.log.is_some());
        self.wanted = logs;
        for one in others {
            self.end(one, journal);
        }
    }

    /// Whether one of `processes` still runs.
    pub(super) fn has_any(&self) -> bool {
        self.ending.iter().any(|one| one.kill_at.is_some())
    }

    /// Tells programs that do not end by themselves; nobody waits for them any more.
    fn give_up(&self, journal: &Journal) {
        for one in &self.wanted {
            if let RunState::Running { running, .. } = &one.state {
                let (title, pid) = (&one.program.title, running.pid);
                note!(
                    journal,
                    Warn,
                    "{title} (process {pid}) does not read its log, ending it"
                );
                let _ = signal::send_to_group(pid, Signal::Term);
            }
        }
        for one in &self.ending {
            let _ = signal::send_to_group(one.running.pid, Signal::Term);
        }
    }

    /// Whether anything runs.
    fn runs(&self) -> bool {
        let is_running = |one: &Supervised| matches!(one.state, RunState::Running { .. });
        !self.ending.is_empty() || self.wanted.iter().any(is_running)
    }
}

/// Says why a program has ended that nobody had told to.
fn report(title: &str, pid: Pid, status: ExitStatus, wait: Option<Duration>, journal: &Journal) {
    let next = match wait {
        None => String::new(),
        Some(wait) if wait.is_zero() => "; it is started again".to_owned(),
        Some(wait) => format!("; it is started again in {} ms", wait.as_millis()),
    };
    match status {
        ExitStatus::Code(code) => note!(
            journal,
            Notice,
            "{title} (process {pid}) exited with code {code}{next}"
        ),
        ExitStatus::Signal { signal, .. } => note!(
            journal,
            Alert,
            "{title} (process {pid}) exited on signal {signal}{next}"
        ),
    }
}

impl Master {
    /// At the end: nothing is logged any more, and programs that read logs write what they have.
    pub(super) fn finish_programs(&mut self) {
        if !self.programs.runs() {
            return;
        }
        if let Err(error) = self.server.logs.close_programs() {
            let error = OsError(&error);
            note!(
                self.server.journal,
                Alert,
                "open() \"/dev/null\" failed ({error})"
            );
            return;
        }
        let deadline = Instant::now() + LOG_PATIENCE;
        while self.programs.runs() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.programs.give_up(&self.server.journal);
            }
            // Whatever comes: a child that has ended is looked for.
            let _ = poll::wait_readable(&[self.signals.as_fd()], Some(left));
            while let Ok(Some(_)) = self.signals.next() {}
            while let Ok(Some(pid)) = process::ended_child() {
                if let Ok(status) = process::wait_for(pid) {
                    self.programs.on_exit(pid, status, &self.server.journal);
                }
            }
        }
    }
}
