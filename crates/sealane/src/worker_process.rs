//! The worker process: gives up privileges, then serves until told otherwise.

use crate::control::{self, Message};
use crate::journal::{Journal, note};
use crate::resolver;
use crate::session_store::{self, StateSink};
use crate::startup::Server;
use crate::{cpus, crash, limits, sandbox};
use sealane_conf::model::EnvVar;
use sealane_server::log::{LogSet, OsError};
use sealane_server::snapshot::ListenerId;
use sealane_server::worker::{self, BoundListener, Command, RunArgs};
use sealane_sys::crash::Role;
use sealane_sys::signal::{Signal, SignalQueue};
use sealane_sys::{poll, process};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Exit code of a worker that cannot start and would fail again; the master
/// does not start another one.
pub(crate) const FATAL: i32 = 2;

/// Exit code of a worker that failed while serving.
const FAILED: i32 = 1;

/// The longest time between two looks at whether the worker threads still live.
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
/// the master; without one this is the only process (`master_process off`).
/// Returns the exit code.
pub(crate) fn run(mut server: Server, link: Option<OwnedFd>) -> i32 {
    let single = link.is_none();
    let _ = process::set_thread_name("sealane: worker"); // for ps, if it works
    let signals = match prepare(&server, single) {
        Ok(signals) => signals,
        Err(message) => {
            note!(server.journal, Emerg, "{message}");
            return FATAL;
        }
    };
    if let Err(error) = start_session_store(&server, link.as_ref()) {
        let error = OsError(&error);
        note!(
            server.journal,
            Emerg,
            "the session store's thread cannot be started ({error})"
        );
        return FATAL;
    }
    if let Err(error) = start_resolvers(&mut server) {
        let error = OsError(&error);
        note!(
            server.journal,
            Emerg,
            "the resolver's thread cannot be started ({error})"
        );
        return FATAL;
    }
    let Server {
        config,
        snapshot,
        logs,
        sockets,
        threads,
        journal,
        ..
    } = server;
    let listeners = sockets.bound.into_iter().map(|bound| BoundListener {
        id: ListenerId(bound.listener as u32),
        sockets: bound.sockets,
    });
    let args = RunArgs {
        snapshot,
        listeners: listeners.collect(),
        threads,
        logs: Arc::clone(&logs),
        events: Arc::new(|_| {}),
        on_thread: cpus::binding(config.main.worker_cpu_affinity, threads, &journal),
    };
    let mut orders = Orders {
        signals,
        link,
        master: process::parent_pid(),
        waiting: VecDeque::new(),
        logs,
        journal: journal.clone(),
    };
    let result = worker::run(args, |timeout| orders.next(timeout));
    if let Err(error) = &result {
        let error = OsError(error);
        note!(journal, Alert, "worker process failed ({error})");
    }
    if !single {
        note!(journal, Notice, "exit");
    }
    if result.is_ok() { 0 } else { FAILED }
}

/// Starts the thread for ticket keys and session stores, which needs the rights of a
/// worker only.
fn start_session_store(server: &Server, link: Option<&OwnedFd>) -> io::Result<()> {
    let file = server.ticket_state_file.as_ref();
    session_store::start(
        &server.session_stores,
        &server.snapshot,
        &server.sessions,
        server.ticket_state.as_ref().map(|state| state.as_slice()),
        StateSink::of_worker(link, file, &server.journal),
        &server.journal,
    )
}

/// Starts the thread that looks names up.
fn start_resolvers(server: &mut Server) -> io::Result<()> {
    let http = server.config.http.as_ref();
    let resolvers = &mut server.resolvers;
    let kept = resolver::kept_servers(http, resolvers, &server.snapshot);
    resolver::start(resolvers, kept, &server.journal)
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
        sandbox::enter(main.worker_seccomp, journal); // all threads inherit the filter
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
fn kept_variables(
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
    link: Option<OwnedFd>,
    master: process::Pid,
    waiting: VecDeque<Command>,
    logs: Arc<LogSet>,
    journal: Journal,
}

impl Orders {
    /// The next order, within `timeout` or [`HEARTBEAT`].
    fn next(&mut self, timeout: Option<Duration>) -> Option<Command> {
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
        fds.extend(self.link.as_ref().map(AsFd::as_fd));
        let readable = poll::wait_readable(&fds, Some(timeout))?;
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
        match control::receive(link) {
            Ok(Some(Message::Quit)) => self.end(Command::Quit),
            Ok(Some(Message::Terminate)) => self.end(Command::Terminate),
            Ok(Some(Message::Reopen(files))) => {
                note!(self.journal, Notice, "reopening logs");
                for (index, file) in files {
                    self.logs.replace(index.into(), file);
                }
            }
            Ok(None) => self.on_master_gone(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.on_master_gone(),
            Err(error) => return Err(error),
        }
        Ok(())
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
        match command {
            Command::Quit => note!(self.journal, Notice, "gracefully shutting down"),
            Command::Terminate => note!(self.journal, Notice, "exiting"),
            Command::Apply(_) => {}
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
