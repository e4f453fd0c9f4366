//! Programs that the master runs for as long as the server runs: those of `processes`, and those
//! that read logs (`pipe:`).
//!
//! Each is executed in a session of its own, as the user of the workers unless its block says
//! otherwise, with the environment that workers have and no descriptor of the master's but those
//! that it is given. What it writes to its standard error goes into the log.

mod lines;

use self::lines::Lines;
use crate::identity::Identity;
use crate::journal::Journal;
use crate::sockets::Group;
use crate::startup::Server;
use crate::worker_process::kept_variables;
use sealane_conf::Config;
use sealane_conf::model::{Respawn, StandAlone};
use sealane_log::{LogProgram, LogSet, OsError};
use sealane_sys::file::{self, Standard};
use sealane_sys::guard::Guard;
use sealane_sys::process::{self, Fork, Pid};
use sealane_sys::signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The first descriptor after the standard streams, where sockets begin (sd_listen_fds(3)).
const FIRST_DESCRIPTOR: u32 = 3;

/// Exit code of a child that could not become the program, as shells have it.
const NOT_EXECUTED: i32 = 127;

/// What is read of a program's stderr at once.
const READ_BYTES: usize = 16 << 10;

/// A program to run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Its name in messages; no two have the same.
    pub(crate) title: String,
    path: PathBuf,
    arguments: Vec<String>,
    user: Option<Identity>,
    environment: Vec<(OsString, OsString)>,
    priority: Option<i32>,
    /// How long after the server it starts.
    pub(crate) delay: Duration,
    pub(crate) respawn: Respawn,
    /// `LISTEN_FDNAMES`, and the sockets.
    name: String,
    sockets: Vec<Arc<Group>>,
    /// The log that it reads.
    pub(crate) log: Option<LogProgram>,
}

/// A program that runs.
pub(crate) struct Running {
    /// Its process id, which is also that of its group.
    pub(crate) pid: Pid,
    stderr: Option<PipeReader>,
    lines: Lines,
}

/// Checks that the programs of a configuration can be run.
///
/// # Errors
/// Which one cannot, and why.
pub(crate) fn check(config: &Config, logs: &LogSet, guard: &Guard) -> Result<(), String> {
    let processes = config.main.processes.iter();
    for stand_alone in processes.clone() {
        user_of(stand_alone, None)?;
    }
    let processes = processes.map(|one| (format!("process \"{}\"", one.name), &*one.program));
    let programs: Vec<LogProgram> = logs.programs().collect();
    let readers = programs
        .iter()
        .map(|one| (title_of(one), &*one.conf.program));
    for (title, path) in processes.chain(readers) {
        if !config.main.master_process {
            return Err(format!(
                "{title} needs the master process, which runs it; remove \"master_process off\""
            ));
        }
        check_program(path, guard).map_err(|why| format!("{title} cannot be used: {why}"))?;
    }
    Ok(())
}

fn check_program(path: &Path, guard: &Guard) -> Result<(), String> {
    guard.check_program(path).map_err(|error| {
        let (path, error) = (path.display(), OsError(&error));
        format!("\"{path}\" cannot be executed ({error})")
    })
}

fn title_of(log: &LogProgram) -> String {
    format!("log program \"{}\"", log.conf.written)
}

/// The programs of a configuration.
///
/// # Errors
/// When a user does not exist.
pub(crate) fn wanted(server: &Server) -> Result<Vec<Program>, String> {
    let main = &server.config.main;
    let environment = kept_variables(&main.env, |name| std::env::var_os(name));
    let worker = server.identity.as_ref();
    let mut programs = Vec::new();
    for log in server.logs.programs() {
        programs.push(Program {
            title: title_of(&log),
            path: log.conf.program.clone(),
            arguments: log.conf.arguments.clone(),
            user: worker.cloned(),
            environment: environment.clone(),
            priority: None,
            delay: Duration::ZERO,
            respawn: Respawn::Soon,
            name: String::new(),
            sockets: Vec::new(),
            log: Some(log),
        });
    }
    for stand_alone in &main.processes {
        let user = user_of(stand_alone, worker)?;
        let sockets = server.sockets.of_process(&stand_alone.name);
        for number in 1..=stand_alone.count {
            let of_several = match stand_alone.count {
                1 => String::new(),
                _ => format!(" {number}"),
            };
            programs.push(Program {
                title: format!("process \"{}\"{of_several}", stand_alone.name),
                path: stand_alone.program.clone(),
                arguments: stand_alone.arguments.clone(),
                user: user.clone(),
                environment: environment.clone(),
                priority: stand_alone.priority,
                delay: stand_alone.delay,
                respawn: stand_alone.respawn,
                name: stand_alone.name.clone(),
                sockets: sockets.clone(),
                log: None,
            });
        }
    }
    Ok(programs)
}

/// Whom it runs as; `None`: as this process.
fn user_of(
    stand_alone: &StandAlone,
    worker: Option<&Identity>,
) -> Result<Option<Identity>, String> {
    match &stand_alone.user {
        Some(user) if process::effective_uid() == 0 => Identity::of_user(user)
            .map(Some)
            .map_err(|why| format!("process \"{}\": {why}", stand_alone.name)),
        _ => Ok(worker.cloned()),
    }
}

impl Program {
    /// Whether it goes on as it is when this one is wanted.
    pub(crate) fn is_same(&self, other: &Program) -> bool {
        let sockets = self.sockets.iter().zip(&other.sockets);
        let is_same_log = match (&self.log, &other.log) {
            (Some(log), Some(other)) => log.is_same(other),
            (log, other) => log.is_none() && other.is_none(),
        };
        self.title == other.title
            && self.path == other.path
            && self.arguments == other.arguments
            && self.user == other.user
            && self.environment == other.environment
            && self.priority == other.priority
            && self.sockets.len() == other.sockets.len()
            && sockets
                .into_iter()
                .all(|(one, other)| Arc::ptr_eq(one, other))
            && is_same_log
    }

    /// Starts it.
    ///
    /// # Errors
    /// When there can be no process, or its file must not be executed any more.
    pub(crate) fn start(&self, guard: &Guard) -> Result<Running, String> {
        // Its file may have changed since the configuration was checked.
        check_program(&self.path, guard)?;
        let failed = |call: &str, error: io::Error| format!("{call} failed ({})", OsError(&error));
        let input = match &self.log {
            Some(log) => log.input().map_err(|error| failed("open()", error))?,
            None => {
                OwnedFd::from(File::open("/dev/null").map_err(|error| failed("open()", error))?)
            }
        };
        let (stderr, writer) = io::pipe().map_err(|error| failed("pipe()", error))?;
        match process::fork().map_err(|error| failed("fork()", error))? {
            Fork::Parent(pid) => Ok(Running {
                pid,
                stderr: Some(stderr),
                lines: Lines::default(),
            }),
            Fork::Child => {
                let why = self.become_it(input.as_fd(), writer.as_fd());
                // To the master, which logs it: descriptors of logs may be others by now.
                let _ = file::write(io::stderr().as_fd(), format!("{why}\n").as_bytes());
                process::exit_now(NOT_EXECUTED)
            }
        }
    }

    /// In the child: becomes the program. Returns why that failed.
    fn become_it(&self, input: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> String {
        let failed = |error: io::Error| {
            let (path, error) = (self.path.display(), OsError(&error));
            format!("\"{path}\" cannot be executed ({error})")
        };
        match self.prepare(input, stderr) {
            Err(why) => why,
            Ok(mut command) => failed(command.exec()),
        }
    }

    fn prepare(&self, input: BorrowedFd<'_>, stderr: BorrowedFd<'_>) -> Result<Command, String> {
        let at = |call: &'static str| {
            move |error: io::Error| format!("{call}() failed ({})", OsError(&error))
        };
        // It can be ended with all that it starts.
        process::new_session().map_err(at("setsid"))?;
        // The master has blocked those that it reads from its queue.
        signal::unblock_all().map_err(at("sigprocmask"))?;
        if let Some(nice) = self.priority {
            process::set_priority(nice).map_err(at("setpriority"))?;
        }
        let sockets: Vec<BorrowedFd<'_>> = self.sockets.iter().flat_map(|it| it.fds()).collect();
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(at("open"))?;
        for (source, target) in [
            (input, Standard::Input),
            (nowhere.as_fd(), Standard::Output),
            (stderr, Standard::Error),
        ] {
            file::replace_standard(source, target).map_err(at("dup2"))?;
        }
        // All of them are closed on exec already; inherited ones may not be. Best effort: old
        // kernels cannot.
        let _ = process::close_on_exec_from(FIRST_DESCRIPTOR);
        for socket in &sockets {
            // As systemd passes them. The master accepts nothing from them.
            let socket = socket.try_clone_to_owned().map_err(at("dup"))?;
            TcpListener::from(socket)
                .set_nonblocking(false)
                .map_err(at("ioctl"))?;
        }
        let first = FIRST_DESCRIPTOR as i32; // three
        process::pass_on(&sockets, first).map_err(at("dup2"))?;
        if let Some(user) = &self.user {
            user.assume()?;
        }
        std::env::set_current_dir("/").map_err(at("chdir"))?;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if !sockets.is_empty() {
            let names = vec![self.name.as_str(); sockets.len()].join(":");
            command
                .env("LISTEN_PID", process::pid().to_string())
                .env("LISTEN_FDS", sockets.len().to_string())
                .env("LISTEN_FDNAMES", names);
        }
        Ok(command)
    }
}

impl Running {
    /// Where its stderr can be read.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Reads a part of what it writes; waits if there is nothing.
    pub(crate) fn read(&mut self, title: &str, journal: &Journal) {
        let mut bytes = vec![0; READ_BYTES];
        let read = self.stderr.as_mut().map(|pipe| pipe.read(&mut bytes));
        match read {
            Some(Ok(count @ 1..)) => self.lines.take(&bytes[..count], title, journal),
            _ => self.stderr = None,
        }
    }

    /// It has ended: what is left of its lines.
    pub(crate) fn end(&mut self, title: &str, journal: &Journal) {
        self.lines.end(title, journal);
    }
}
