//! From the command line to a server that is ready to run.

use crate::arguments::{Arguments, Order};
use crate::daemon::{self, Ready};
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::loader::FileSystemLoader;
use crate::master::{Master, Other};
use crate::notify::{self, State};
use crate::paths::{ConfChoice, FirstLog, Places};
use crate::pid_file::PidFile;
use crate::program::Program;
use crate::reload::{RecordingLoader, Records};
use crate::resolver::{self, Resolvers};
use crate::sandbox::Changeable;
use crate::session_store::{self, RemoteStore, TicketStates};
use crate::sockets::{Bound, Purpose, Sockets};
use crate::{
    activation, crash, kernel_tls, materials, say, signaller, summary, temp_paths, version,
    worker_process,
};
use sealane_conf::model::{ErrorLog, LogLevel, LogTarget};
use sealane_conf::{Config, Options};
use sealane_log::{LogSet, Logger, OsError};
use sealane_server::worker;
use sealane_server::{Materials, Snapshot};
use sealane_sys::crash::Role;
use sealane_sys::file::{self, Standard};
use sealane_sys::guard::{Guard, Guest};
use sealane_sys::limits::{self, Resource};
use sealane_sys::process;
use sealane_sys::signal::{self, Signal};
use sealane_tls::{Capabilities, HandshakeState, ReplayRegister, SessionState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Signals that wait until the server runs. Those that end it at once do so until it listens.
const HELD: [Signal; 5] = [
    Signal::Quit,
    Signal::Winch,
    Signal::Usr1,
    Signal::Hup,
    Signal::Usr2,
];

/// Signals that wait from then on: whoever has seen the server listen may have it stopped, and
/// gets the end of one that runs.
const HELD_LISTENING: [Signal; 2] = [Signal::Term, Signal::Int];

/// A validated configuration with everything that it needs, opened.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) logs: Arc<LogSet>,
    pub(crate) sockets: Sockets,
    /// Worker threads.
    pub(crate) threads: u32,
    /// Whom the worker becomes.
    pub(crate) identity: Option<Identity>,
    /// What this user, and those of earlier configurations, cannot have the master open.
    pub(crate) guard: Guard,
    /// Where a worker changes files.
    pub(crate) changeable: Changeable,
    pub(crate) journal: Journal,
    /// What outlives snapshots of ticket keys and session caches.
    pub(crate) sessions: Arc<SessionState>,
    /// What outlives snapshots of handshakes.
    pub(crate) handshakes: Arc<HandshakeState>,
    /// What the kernel can do for TLS, if it was tried.
    pub(crate) kernel_tls: Option<Arc<Capabilities>>,
    /// `ssl_session_store`s.
    pub(crate) session_stores: Vec<Arc<RemoteStore>>,
    /// Who looks names up while the server runs.
    pub(crate) resolvers: Resolvers,
    /// `ssl_session_ticket_state`.
    pub(crate) ticket_state_file: Option<PathBuf>,
    /// The ticket keys that the last workers, or the last run, have left.
    pub(crate) ticket_states: TicketStates,
    /// Whom to tell that the server runs.
    pub(crate) daemon: Option<Ready>,
}

/// The configuration cannot be used; why is in the journal.
pub(crate) struct Refused;

/// A configuration that was read, with all that is needed to read it again elsewhere.
pub(crate) struct Reading {
    pub(crate) config: Config,
    pub(crate) options: Options,
    pub(crate) records: Records,
}

/// What a configuration is prepared for.
pub(crate) enum Goal<'a> {
    /// To serve.
    Serve {
        /// The old binary's register of early data.
        register: Option<Arc<ReplayRegister>>,
    },
    /// `-t`: to see whether it would work.
    Test {
        /// `-q`.
        quiet: bool,
    },
    /// To see whether a running server could take it (`-s reload`).
    Check,
    /// To take the place of `running` in this process.
    Reload {
        running: &'a Server,
        /// Addresses that have sockets.
        known: &'a [&'a Bound],
    },
}

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
        // Between listening and serving a reload may be wanted already. The master finds it in
        // its queue.
        if let Err(error) = signal::block(&HELD) {
            note!(first, Emerg, "{}", sigprocmask_failed(&error));
            return ExitCode::FAILURE;
        }
        if let Err(error) = signal::expect_children() {
            note!(
                first,
                Emerg,
                "sigaction(SIGCHLD) failed ({})",
                OsError(&error)
            );
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
    let prepared = prepare(reading, places, &goal, &first).map(|(server, _)| server);
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
            serve(server, origin, old_binary)
        }
    }
}

fn sigprocmask_failed(error: &io::Error) -> String {
    format!("sigprocmask() failed ({})", OsError(error))
}

/// `-s`. What the server would refuse is said here and not sent, so that the caller's exit
/// code tells whether its configuration is taken.
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

/// What the server was started with, to read its configuration again, or to be started again.
pub(crate) struct Origin {
    pub(crate) arguments: Arguments,
    pub(crate) places: Places,
    pub(crate) program: Program,
}

/// The journal until the configuration says where to log.
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

/// Reads and parses the configuration; what it has to say goes to the journal.
pub(crate) fn read_configuration(
    arguments: &Arguments,
    places: &Places,
    journal: &Journal,
) -> Result<Config, Refused> {
    read_recorded(arguments, places, journal).map(|reading| reading.config)
}

/// Where and as whom the configuration is read.
pub(crate) fn options(arguments: &Arguments, places: &Places) -> Options {
    let machine = process::machine().map(|machine| machine.hostname.to_lowercase());
    Options {
        globals: arguments
            .globals
            .as_ref()
            .map(|text| text.to_string_lossy().into_owned()),
        error_log: places.error_log_path(),
        privileged: process::effective_uid() == 0,
        hostname: machine.unwrap_or_default(),
        ..Options::new(&places.conf_file, &places.prefix)
    }
}

/// The same, with what was read.
pub(crate) fn read_recorded(
    arguments: &Arguments,
    places: &Places,
    journal: &Journal,
) -> Result<Reading, Refused> {
    let options = options(arguments, places);
    let mut loader = RecordingLoader::new(FileSystemLoader);
    let parsed = sealane_conf::parse(&options, &mut loader);
    let warnings = match &parsed {
        Ok(config) => &config.warnings,
        Err(failure) => &failure.warnings,
    };
    for warning in warnings {
        journal.diagnostic(warning);
    }
    let config = parsed.map_err(|failure| {
        journal.diagnostic(&failure.error);
        Refused
    })?;
    Ok(Reading {
        config,
        options,
        records: loader.into_records(),
    })
}

/// What another process needs to build the same snapshot.
pub(crate) struct Handover {
    pub(crate) options: Options,
    pub(crate) records: Records,
    pub(crate) materials: Materials,
}

/// Opens and checks everything that the configuration names. Sockets come last: once they
/// listen, clients may be waiting in them.
pub(crate) fn prepare(
    reading: Reading,
    places: &Places,
    goal: &Goal<'_>,
    first: &Journal,
) -> Result<(Server, Handover), Refused> {
    let Reading {
        config,
        options,
        records,
    } = reading;
    let refuse = |message: &dyn std::fmt::Display| {
        note!(first, Emerg, "{message}");
        Refused
    };
    let identity = Identity::find(&config.main).map_err(|message| refuse(&message))?;
    check_working_directory(&config).map_err(|message| refuse(&message))?;
    let guard = guard(&config, identity.as_ref(), goal).map_err(|message| refuse(&message))?;
    let mut materials = materials::read(config.http.as_ref(), &guard).map_err(|diagnostic| {
        first.diagnostic(&diagnostic);
        Refused
    })?;
    if let Goal::Test { quiet: false } = goal {
        let conf_file = places.conf_file.display();
        say(&format!(
            "sealane: the configuration file {conf_file} syntax is ok\n"
        ));
    }
    let probed = find_kernel_tls(&config, goal, &mut materials);
    let register = match goal {
        Goal::Reload { running, .. } => running.sessions.known_register(),
        Goal::Serve { register } => register.clone(),
        Goal::Test { .. } | Goal::Check => None,
    };
    if let Some(register) = register {
        // Other processes accept early data at the same time as those of this configuration.
        materials.sessions().set_register(register);
    }
    let session_stores = session_store::prepare(config.http.as_ref(), &[], &mut materials)
        .map_err(|message| refuse(&message))?;
    let resolvers = resolver::prepare(config.http.as_ref(), &Resolvers::default(), &mut materials);
    temp_paths::prepare(&config, &places.prefix, identity.as_ref(), &guard, first)
        .map_err(|message| refuse(&message))?;
    let logs = match goal {
        Goal::Reload { running, .. } => running.logs.open_next(&config, &guard),
        _ => LogSet::open(&config, &guard),
    };
    let logs = logs.map_err(|error| refuse(&error))?;
    let journal = match goal {
        // Until it has taken the place of the other, nothing is written to its logs.
        Goal::Reload { .. } => first.clone(),
        _ => Journal::starting(logs.logger(&config.main.error_logs)),
    };
    let built = Snapshot::build(&config, &materials, &logs);
    let (snapshot, warnings) = built.map_err(|diagnostic| {
        journal.diagnostic(&diagnostic);
        Refused
    })?;
    for warning in &warnings {
        journal.diagnostic(warning);
    }
    if probed && let Some(capabilities) = materials.kernel_tls() {
        kernel_tls::report(capabilities, &snapshot, &journal);
    }
    let threads = worker::thread_count(config.main.worker_processes);
    let ticket_state_file = session_store::state_file(config.http.as_ref());
    let ticket_states = match goal {
        Goal::Serve { .. } => {
            read_ticket_state(ticket_state_file.as_deref(), &guard, &journal).into()
        }
        Goal::Test { .. } | Goal::Check | Goal::Reload { .. } => TicketStates::default(),
    };
    if let Goal::Serve { .. } = goal {
        signal::block(&HELD_LISTENING).map_err(|error| refuse(&sigprocmask_failed(&error)))?;
    }
    let sockets = open_sockets(&config, threads, goal, &guard, &journal)?;
    let journal = match goal {
        Goal::Reload { .. } => Journal::running(logs.logger(&config.main.error_logs)),
        _ => journal,
    };
    let server = Server {
        sessions: Arc::clone(materials.sessions()),
        handshakes: Arc::clone(materials.handshakes()),
        kernel_tls: materials.kernel_tls().cloned(),
        session_stores,
        resolvers,
        ticket_state_file,
        ticket_states,
        changeable: Changeable::of(&config),
        config,
        snapshot: Arc::new(snapshot),
        logs: Arc::new(logs),
        sockets,
        threads,
        identity,
        guard,
        journal,
        daemon: None,
    };
    let handover = Handover {
        options,
        records,
        materials,
    };
    Ok((server, handover))
}

/// Against the user of this configuration, and those that workers of earlier ones may still
/// run as.
fn guard(config: &Config, identity: Option<&Identity>, goal: &Goal<'_>) -> Result<Guard, String> {
    let own = guard_of(config, identity)?;
    Ok(match goal {
        Goal::Reload { running, .. } => own.and(&running.guard),
        _ => own,
    })
}

fn guard_of(config: &Config, identity: Option<&Identity>) -> Result<Guard, String> {
    match identity {
        Some(identity) if config.main.master_process && identity.uid() != 0 => identity.guard(),
        _ => Ok(Guard::default()), // who serves has all rights anyway
    }
}

/// The worker goes there, and a worker that cannot would be started again and again.
fn check_working_directory(config: &Config) -> Result<(), String> {
    let Some(directory) = &config.main.working_directory else {
        return Ok(());
    };
    let error = match std::fs::metadata(directory) {
        Ok(facts) if facts.is_dir() => return Ok(()),
        Ok(_) => io::Error::from_raw_os_error(libc::ENOTDIR),
        Err(error) => error,
    };
    let directory = directory.display();
    Err(format!(
        "chdir(\"{directory}\") failed ({})",
        OsError(&error)
    ))
}

/// Adds what the kernel can do for TLS, and says whether it was tried just now.
fn find_kernel_tls(config: &Config, goal: &Goal<'_>, materials: &mut Materials) -> bool {
    let known = match goal {
        Goal::Test { .. } | Goal::Check => return false,
        Goal::Serve { .. } => None,
        Goal::Reload { running, .. } => running.kernel_tls.clone(),
    };
    let is_known = known.is_some();
    let found = known.or_else(|| kernel_tls::probe(config.http.as_ref()));
    let probed = !is_known && found.is_some();
    if let Some(capabilities) = found {
        materials.set_kernel_tls(capabilities);
    }
    probed
}

/// Opens the sockets and, where they are only tried, the pid file.
fn open_sockets(
    config: &Config,
    threads: u32,
    goal: &Goal<'_>,
    guard: &Guard,
    journal: &Journal,
) -> Result<Sockets, Refused> {
    let check_pid = || {
        PidFile::check(&config.main.pid, guard).map_err(|message| {
            note!(journal, Emerg, "{message}");
            Refused
        })
    };
    let (purpose, known) = match *goal {
        Goal::Check => return Ok(Sockets::default()),
        Goal::Serve { .. } => (Purpose::Serve, &[][..]),
        Goal::Test { .. } => (Purpose::Test, &[][..]),
        Goal::Reload { running, known } => {
            if running.config.main.pid != config.main.pid {
                check_pid()?;
            }
            (Purpose::Serve, known)
        }
    };
    let mut from_old_binary = false;
    if let Goal::Serve { .. } = goal {
        activation::accept(journal);
        from_old_binary = activation::accept_from_old_binary(journal);
    }
    let mut sockets = Sockets::open(
        config.http.as_ref(),
        threads,
        purpose,
        known,
        guard,
        journal,
    )
    .map_err(|_not_bound| Refused)?;
    sockets.from_old_binary = from_old_binary;
    activation::close_the_rest(journal);
    if purpose == Purpose::Test {
        sockets.remove_files(journal);
        check_pid()?;
    }
    Ok(sockets)
}

/// The ticket keys of the last run. Without them the server starts all the same.
fn read_ticket_state(
    path: Option<&Path>,
    guard: &Guard,
    journal: &Journal,
) -> Option<Zeroizing<Vec<u8>>> {
    match materials::read_ticket_state(path?, guard) {
        Ok(state) => state.map(Zeroizing::new),
        Err(message) => {
            note!(journal, Warn, "{message}");
            None
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
    // As in nginx, an upgrade of a daemon is one already.
    if server.config.main.daemon && old_binary.is_none() {
        match daemon::detach() {
            Ok(ready) => server.daemon = Some(ready),
            Err((call, error)) => {
                note!(server.journal, Emerg, "{call} failed ({})", OsError(&error));
                return ExitCode::FAILURE;
            }
        }
    }
    let pid_file = match PidFile::create(&server.config.main.pid, process::pid(), &server.guard) {
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
    crash::report_to(&server.logs, &server.config.main.error_logs);
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

/// `master_process off`: this process serves by itself.
fn serve_alone(mut server: Server, pid_file: PidFile) -> i32 {
    let journal = server.journal.clone();
    if let Some(ready) = server.daemon.take() {
        ready.tell();
    }
    notify::tell(&State::Ready);
    // As in nginx, where this mode is for developers: without its privileges the
    // process could not remove its pid file or open its logs again.
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

/// A daemon's stderr is its main error log, so that nothing a library prints is
/// lost, and the terminal is free.
pub(crate) fn redirect_stderr(server: &Server) {
    let targets = server.config.main.error_logs.iter().map(|log| &log.target);
    let Some(LogTarget::File(path)) = targets.into_iter().next() else {
        return;
    };
    let Some(log) = server.logs.files().find(|file| file.path == path) else {
        return;
    };
    if let Err(error) = file::replace_standard(log.fd, Standard::Error) {
        note!(
            server.journal,
            Alert,
            "dup2(STDERR) failed ({})",
            OsError(&error)
        );
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
