//! A worker process as the master sees it.

use crate::control::{self, FDS_PER_MESSAGE};
use crate::journal::{Journal, note};
use crate::key_process;
use crate::startup::Server;
use sealane_log::{LogSet, OsError};
use sealane_server::metrics::ProcessCounts;
use sealane_sys::process::{self, Fork, Pid};
use sealane_sys::signal::{self, Signal};
use sealane_sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A worker process.
pub(super) struct Worker {
    pub(super) pid: Pid,
    pub(super) link: OwnedFd,
    /// It will send no more reports.
    pub(super) silent: bool,
    /// It accepts connections.
    pub(super) ready: bool,
    pub(super) started: Instant,
    /// The logs whose positions it knows.
    pub(super) logs: Arc<LogSet>,
    /// Its number in connection ids of QUIC.
    pub(super) quic: u8,
}

/// The role of a forked process.
pub(super) enum Forked {
    Master(Worker),
    Worker(OwnedFd),
}

impl Worker {
    /// Forks a worker for a configuration, and introduces it to the key processes.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors.
    pub(super) fn fork(server: &mut Server, journal: &Journal) -> io::Result<Forked> {
        key_process::introduce_next_worker(server);
        let number = server.quic.as_ref().map_or(0, |place| place.process);
        let forked = Worker::fork_with(&server.logs, number);
        if !matches!(forked, Ok(Forked::Worker(_))) {
            server.quic = None;
            server.key_lines.clear(); // the worker has them
        }
        if let Ok(Forked::Master(worker)) = &forked {
            note!(journal, Notice, "start worker process {}", worker.pid);
            ProcessCounts::of_server().workers_started.add(1);
        }
        forked
    }

    fn fork_with(logs: &Arc<LogSet>, quic: u8) -> io::Result<Forked> {
        let (master, worker) = socket::seqpacket_pair()?;
        // No report has descriptors. Older kernels cannot enforce that.
        let _ = socket::refuse_fds(master.as_fd());
        Ok(match process::fork()? {
            Fork::Child => Forked::Worker(worker),
            Fork::Parent(pid) => Forked::Master(Worker {
                pid,
                link: master,
                silent: false,
                ready: false,
                started: Instant::now(),
                logs: Arc::clone(logs),
                quic,
            }),
        })
    }

    /// Tells the worker over its line or, if that is full, by a signal.
    pub(super) fn tell_end(&self, gracefully: bool, journal: &Journal) {
        if control::send_end(self.link.as_fd(), gracefully).is_err() {
            let signal = if gracefully {
                Signal::Quit
            } else {
                Signal::Term
            };
            self.kill(signal, journal);
        }
    }

    /// Tells the worker to end and to hand its idle connections to another one. If it cannot
    /// be told, they end with it.
    pub(super) fn tell_move(&self, to: &Worker, journal: &Journal) {
        let moved = control::send_move(self.link.as_fd(), to.link.as_fd());
        if moved.is_err() {
            self.tell_end(true, journal);
        }
    }

    /// Tells the worker to end and to hand its idle connections over a channel, whose other end
    /// `give` passes on.
    ///
    /// # Errors
    /// When one of them cannot be told; the worker then continues.
    pub(super) fn tell_move_out(
        &self,
        give: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (out, line) = socket::seqpacket_pair()?;
        give(line.as_fd())?;
        control::send_hand_over(self.link.as_fd(), out.as_fd())
    }

    /// Has the worker take the connections that come over `line`.
    ///
    /// # Errors
    /// When it cannot be told.
    pub(super) fn take_over(&self, line: BorrowedFd<'_>) -> io::Result<()> {
        control::send_take_over(self.link.as_fd(), line)
    }

    /// Sends it a signal.
    pub(super) fn kill(&self, signal: Signal, journal: &Journal) {
        if let Err(error) = signal::send(self.pid, signal) {
            let (pid, number) = (self.pid, signal.number());
            note!(
                journal,
                Alert,
                "kill({pid}, {number}) failed ({})",
                OsError(&error)
            );
        }
    }

    /// Hands it reopened logs.
    pub(super) fn give_logs(&self, journal: &Journal) {
        let sent = self.logs.descriptors().and_then(|files| {
            let files: Vec<(u16, BorrowedFd<'_>)> = files
                .iter()
                .map(|(index, file)| (*index, file.as_fd()))
                .collect();
            if files.is_empty() {
                // It opens logs with variables in their paths itself.
                return control::send_logs(self.link.as_fd(), &[]);
            }
            files
                .chunks(FDS_PER_MESSAGE)
                .try_for_each(|files| control::send_logs(self.link.as_fd(), files))
        });
        if let Err(error) = sent {
            note!(
                journal,
                Alert,
                "the reopened logs cannot be sent to worker process {} ({}); send USR1 again",
                self.pid,
                OsError(&error)
            );
        }
    }
}
