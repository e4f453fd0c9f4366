//! What the master runs for workers (`dns_command`): one program at a time, while it goes on
//! answering signals.

use super::Master;
use super::reconfigure::Reload;
use crate::control::{self, DnsCommandRequest};
use crate::dns_command::{self, Running};
use crate::journal::{Journal, note};
use crate::startup::Server;
use sealane_log::OsError;
use sealane_sys::process::{ExitStatus, Pid};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Requests that may wait: each worker process makes one after another.
const MAX_WAITING: usize = 16;

/// The program that runs, and the requests of workers that wait.
#[derive(Default)]
pub(super) struct DnsCommands {
    running: Option<(Asked, Running)>,
    waiting: VecDeque<(Asked, DnsCommandRequest)>,
}

/// Which worker waits for which answer.
#[derive(Clone, Copy)]
struct Asked {
    worker: Pid,
    id: u64,
}

impl DnsCommands {
    /// When the program is to be killed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.running.as_ref()?.1.due()
    }

    /// Where the program writes.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref()?.1.fd()
    }

    /// The program has written something, or closed its stderr.
    pub(super) fn read(&mut self, journal: &Journal) {
        if let Some((_, running)) = &mut self.running {
            running.read(journal);
        }
    }

    /// A child has ended. If it is the program, what it has left in its process group ends with
    /// it, as long as the number of the group is certain.
    pub(super) fn before_collecting(&mut self, pid: Pid) {
        if let Some((_, running)) = &mut self.running
            && running.pid() == pid
        {
            running.end_group();
        }
    }

    /// The master ends, and with it the program.
    pub(super) fn end(&mut self) {
        if let Some((_, running)) = &mut self.running {
            running.kill();
        }
    }
}

impl Master {
    /// A worker wants a program run.
    pub(super) fn on_dns_command(&mut self, pid: Pid, request: DnsCommandRequest) {
        let asked = Asked {
            worker: pid,
            id: request.id,
        };
        if self.dns_commands.waiting.len() >= MAX_WAITING {
            self.answer_dns_command(asked, Err("too many programs wait to be run"));
            return;
        }
        self.dns_commands.waiting.push_back((asked, request));
    }

    /// Kills the program when its time is over, and starts the next one.
    pub(super) fn go_on_with_dns_commands(&mut self) {
        if let Some((_, running)) = &mut self.dns_commands.running {
            if running.due().is_some_and(|at| Instant::now() >= at) {
                running.kill();
            }
            return;
        }
        while let Some((asked, request)) = self.dns_commands.waiting.pop_front() {
            // What a process wanted that is gone, its successor wants again.
            if self.worker_with(asked.worker).is_none() {
                continue;
            }
            match self.start_dns_command(asked.worker, &request) {
                Ok(running) => {
                    self.dns_commands.running = Some((asked, running));
                    return;
                }
                Err(why) => self.answer_dns_command(asked, Err(&why)),
            }
        }
    }

    fn start_dns_command(
        &self,
        worker: Pid,
        request: &DnsCommandRequest,
    ) -> Result<Running, String> {
        // A worker may have a configuration already that becomes the one in use when it says so.
        let next = self.reload.as_ref().map(Reload::next);
        let mut why = "nothing is configured";
        for server in [&self.server].into_iter().chain(next) {
            let Server {
                config,
                identity,
                guard,
                ..
            } = server;
            match dns_command::permitted(config.http.as_ref(), request) {
                Ok(command) => {
                    let action = if request.is_added {
                        "adding"
                    } else {
                        "removing"
                    };
                    note!(
                        self.server.journal,
                        Info,
                        "acme issuer \"{}\": {action} the record of {} with \"{}\"",
                        request.issuer,
                        request.name,
                        command.program.display()
                    );
                    return Running::start(command, request, identity.as_ref(), guard);
                }
                Err(refused) => why = refused,
            }
        }
        note!(
            self.server.journal,
            Warn,
            "worker process {worker} wants a record of \"{}\" changed, which is refused ({why}): \
             either the configuration has changed meanwhile, or the process was taken over",
            request.name
        );
        Err(format!("the master process refuses it: {why}"))
    }

    /// A child has ended. Whether it was the program.
    pub(super) fn on_dns_command_exit(&mut self, pid: Pid, status: ExitStatus) -> bool {
        let is_it = |running: &mut (Asked, Running)| running.1.pid() == pid;
        let Some((asked, running)) = self.dns_commands.running.take_if(is_it) else {
            return false;
        };
        let result = running.finish(status, &self.server.journal);
        let result = result.as_ref().copied().map_err(String::as_str);
        self.answer_dns_command(asked, result);
        true
    }

    fn answer_dns_command(&mut self, asked: Asked, result: Result<(), &str>) {
        let Asked { worker: pid, id } = asked;
        let Some(worker) = self.worker_with(pid) else {
            return;
        };
        let sent = control::send_dns_command_done(worker.link.as_fd(), id, result);
        if let Err(error) = sent {
            let error = OsError(&error);
            note!(
                self.server.journal,
                Alert,
                "worker process {pid} cannot be told what became of its record ({error})"
            );
        }
    }
}
