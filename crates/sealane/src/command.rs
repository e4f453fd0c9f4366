//! The commands of the command line: serve, test a configuration, send a signal.

use crate::arguments::{Arguments, Order};
use crate::certificates::KeptStaples;
use crate::daemon;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::master::{Master, Other};
use crate::notify::{self, ServiceState};
use crate::paths::{ConfChoice, FirstLog, Places};
use crate::pid_file::PidFile;
use crate::program::Program;
use crate::startup::{
    Goal, Origin, Reading, Refused, Server, guard_of, prepare, read_recorded, redirect_stderr,
    sigprocmask_failed,
};
use crate::terminal::say;
use crate::{
    activation, crash, key_process, session_store, signaller, summary, takeover, version,
    worker_process,
};
use sealane_conf::Config;
use sealane_conf::model::{ErrorLog, LogLevel, LogTarget};
use sealane_log::{LogSet, Logger, OsError};
use sealane_sys::crash::Role;
use sealane_sys::guard::{Guard, Guest};
use sealane_sys::limits::{self, Resource};
use sealane_sys::process;
use sealane_sys::signal::{self, Signal};
use std::io::Write;
use std::process::ExitCode;

/// Signals that wait until the server runs. Those that end it at once do so until it listens. Of a
/// key process that dies before the master watches it, nothing else tells.
const HELD: [Signal; 6] = [
    Signal::Chld,
    Signal::Quit,
    Signal::Winch,
    Signal::Usr1,
    Signal::Hup,
    Signal::Usr2,
];

/// Does what the command line asks for.
pub(crate) fn run(arguments: &Arguments, places: &Places) -> ExitCode {
    let conf_file = places.conf_file.display();
    let first = first_journal(&places.error_log);
    if places.conf_choice == ConfChoice::Nginx && !arguments.quiet {
        say(&format!(
            "sealane: using nginx's configuration file {conf_file}\n"
        ));
    }
    let Ok(reading) = read_recorded(arguments, places, &first) else {
        if arguments.test {
            say(&format!(
                "sealane: configuration file {conf_file} test failed\n"
            ));
            if !arguments.quiet {
                summary::all_faults(arguments, places);
            }
        }
        return ExitCode::FAILURE;
    };
    if let Some(order) = arguments.signal
        && !arguments.test
    {
        return send_order(order, reading, places, &first);
    }
    if !arguments.test {
        if let Err(error) = signal::expect_children() {
            note!(
                first,
                Emerg,
                "sigaction(SIGCHLD) failed ({})",
                OsError(&error)
            );
            return ExitCode::FAILURE;
        }
        // A reload may be requested before the server serves. The master finds it in
        // its queue.
        if let Err(error) = signal::block(&HELD) {
            note!(first, Emerg, "{}", sigprocmask_failed(&error));
            return ExitCode::FAILURE;
        }
        crash::keep_secrets_out_of_dumps(&first); // before they are read
    }
    let is_upgrade = !arguments.test && activation::is_upgrade();
    let mut old_binary = is_upgrade.then(|| Other::that_started_us(&first));
    let goal = if arguments.test {
        Goal::Test {
            quiet: arguments.quiet,
        }
    } else {
        let register = old_binary.as_mut().and_then(Other::take_register);
        Goal::Serve {
            register: register.and_then(|it| session_store::register_of_old_binary(it, &first)),
        }
    };
    #[cfg(debug_assertions)]
    let key_log = match arguments.test {
        true => None,
        false => crate::key_log::start(&first),
    };
    let prepared = prepare(reading, places, &goal, &first);
    match prepared {
        Err(Refused) if arguments.test => {
            say(&format!(
                "sealane: configuration file {conf_file} test failed\n"
            ));
            ExitCode::FAILURE
        }
        Err(Refused) => ExitCode::FAILURE,
        Ok(server) if arguments.test => {
            if !arguments.quiet {
                say(&format!(
                    "sealane: configuration file {conf_file} test is successful\n"
                ));
                say(&summary::lines(&server.config.met));
            }
            if arguments.dump {
                dump(&server.config)
            } else {
                ExitCode::SUCCESS
            }
        }
        Ok(server) => {
            let origin = Origin {
                arguments: arguments.clone(),
                places: places.clone(),
                program: Program::of_this_process(),
            };
            #[cfg(debug_assertions)]
            if let Some(warning) = key_log {
                note!(server.journal, Warn, "{warning}");
            }
            serve(server, origin, old_binary)
        }
    }
}

/// `-s`. A configuration that the server would refuse is reported here and no signal is sent, so
/// the exit code tells whether the configuration is accepted.
fn send_order(order: Order, reading: Reading, places: &Places, first: &Journal) -> ExitCode {
    let pid_file = reading.config.main.pid.clone();
    // A user that does not exist runs no worker.
    let identity = Identity::find(&reading.config.main).unwrap_or_default();
    let guard = guard_of(&reading.config, identity.as_ref()).unwrap_or_default();
    let checked = match order {
        Order::Reload => prepare(reading, places, &Goal::Check, first).map(drop),
        Order::Stop | Order::Quit | Order::Reopen => Ok(()),
    };
    match checked {
        Ok(()) if signaller::send(order, &pid_file, &guard, first) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The journal until the configuration tells where to log.
fn first_journal(log: &FirstLog) -> Journal {
    let (path, wanted) = match log {
        FirstLog::Stderr => return Journal::starting(Logger::discard()),
        FirstLog::Given(path) => (path, true),
        // Nobody has asked for it; it is used where an installation has its directory.
        FirstLog::Default(path) => (path, path.parent().is_some_and(std::path::Path::is_dir)),
    };
    let log = ErrorLog {
        target: LogTarget::File(path.clone()),
        level: LogLevel::Notice,
    };
    let guard = Guard::against([Guest::anyone()]);
    match LogSet::of_error_logs(std::slice::from_ref(&log), &guard) {
        Ok(set) => Journal::starting(set.logger(&[log])),
        Err(error) => {
            if wanted {
                say(&format!(
                    "sealane: [alert] could not open error log file: {error}\n"
                ));
            }
            Journal::starting(Logger::discard())
        }
    }
}

/// Runs the server until it is stopped.
fn serve(mut server: Server, origin: Origin, old_binary: Option<Other>) -> ExitCode {
    log_facts(&server.journal);
    let mut old_binary = old_binary.filter(|_| server.sockets.from_old_binary);
    if let Some(keys) = old_binary.as_mut().and_then(Other::take_keys) {
        server.ticket_states.set(keys);
    }
    if let Some(memory) = old_binary.as_mut().and_then(Other::take_staples) {
        // Without them responders are asked.
        server.kept_staples = KeptStaples::open(memory).unwrap_or_default();
    }
    let takes_over = old_binary.is_some() && std::env::var_os(takeover::VARIABLE).is_some();
    // As in nginx, an upgrade of a daemon is one already.
    if takes_over {
        // The command that has started us ends, and perhaps its terminal.
        let _ = process::new_session(); // we lead one already
        process::set_umask(0);
    } else if server.config.main.daemon && old_binary.is_none() {
        match daemon::detach() {
            Ok(ready) => {
                server.daemon = Some(ready);
                if let Err(message) = start_own_key_process(&server) {
                    note!(server.journal, Emerg, "{message}");
                    return ExitCode::FAILURE;
                }
            }
            Err((call, error)) => {
                note!(server.journal, Emerg, "{call} failed ({})", OsError(&error));
                return ExitCode::FAILURE;
            }
        }
    }
    let create = match takes_over {
        true => PidFile::create_aside,
        false => PidFile::create,
    };
    let pid_file = match create(&server.config.main.pid, process::pid(), &server.guard) {
        Ok(pid_file) => pid_file,
        Err(message) => {
            note!(server.journal, Emerg, "{message}");
            server.sockets.remove_files(&server.journal);
            return ExitCode::FAILURE;
        }
    };
    let main_log = server.logs.logger(&server.config.main.error_logs);
    if server.config.main.daemon {
        redirect_stderr(&server);
    }
    server.journal = Journal::running(main_log);
    crash::install(Role::Master, &server.journal);
    crash::report_to(&server.logs, &server.config.main);
    let code = if server.config.main.master_process {
        let journal = server.journal.clone();
        match Master::new(server, origin, pid_file, old_binary) {
            Ok(master) => {
                drop(journal); // its logs may change
                master.run()
            }
            Err(error) => {
                note!(journal, Emerg, "signalfd() failed ({})", OsError(&error));
                1
            }
        }
    } else {
        serve_alone(server, pid_file)
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The daemon is another process than the one that has started the key process, and would not
/// learn of its end.
fn start_own_key_process(server: &Server) -> Result<(), String> {
    let Some(keys) = &server.keys else {
        return Ok(());
    };
    let started = key_process::lock(keys).start_again(&server.journal);
    started.map_err(|error| format!("the key process cannot be started ({})", OsError(&error)))
}

/// `master_process off`: this process serves requests itself.
fn serve_alone(mut server: Server, pid_file: PidFile) -> i32 {
    let journal = server.journal.clone();
    if let Some(ready) = server.daemon.take() {
        ready.tell();
    }
    notify::tell(&ServiceState::Ready);
    // As in nginx, where this mode is for developers: without its privileges the
    // process could not remove its pid file or reopen its logs.
    server.identity = None;
    let mut files = server.sockets.files();
    let from_old_binary = server.sockets.from_old_binary;
    let guard = server.guard.clone();
    let code = worker_process::run(server, None, None);
    if let Err(message) = pid_file.remove(&guard) {
        note!(journal, Alert, "{message}");
    }
    note!(journal, Notice, "exit");
    if from_old_binary {
        files = files.without_served();
    }
    files.remove(&journal);
    code
}

/// The lines that nginx logs when it starts.
fn log_facts(journal: &Journal) {
    note!(journal, Notice, "using the \"epoll\" event method");
    note!(journal, Notice, "{}", version::NAME_AND_VERSION);
    note!(journal, Notice, "built by {}", version::COMPILER);
    if let Ok(machine) = process::machine() {
        note!(
            journal,
            Notice,
            "OS: {} {}",
            machine.system,
            machine.release
        );
    }
    if let Ok(limit) = limits::get(Resource::OpenFiles) {
        let (soft, hard) = (limit.soft, limit.hard);
        note!(journal, Notice, "getrlimit(RLIMIT_NOFILE): {soft}:{hard}");
    }
}

/// `-T`: every file of the configuration, on standard output.
fn dump(config: &Config) -> ExitCode {
    let mut text = Vec::new();
    for source in &config.sources {
        text.extend_from_slice(b"# configuration file ");
        text.extend_from_slice(source.path.as_os_str().as_encoded_bytes());
        text.extend_from_slice(b":\n");
        text.extend_from_slice(&source.text);
        text.push(b'\n');
    }
    match std::io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
