//! From the command line to a server that is ready to run.

use crate::arguments::Arguments;
use crate::certificates::{self, KeptStaples};
use crate::daemon::Ready;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::key_process::{KeyLine, KeyProcesses, SharedKeyProcesses, UsedKey};
use crate::loader::FileSystemLoader;
use crate::paths::Places;
use crate::pid_file::PidFile;
use crate::program::Program;
use crate::reload::{RecordingLoader, Records};
use crate::resolver::{self, Resolvers};
use crate::sandbox::FileRules;
use crate::session_store::{self, RemoteStore, TicketStates};
use crate::sockets::{Bound, Purpose, Sockets};
use crate::taken_texts::{KeyTakingLoader, TakenTexts};
use crate::terminal::say;
use crate::{
    activation, dns_command, kernel_tls, key_process, materials, programs, temp_paths, traces,
};
use sealane_conf::model::{Http, LogTarget};
use sealane_conf::{Config, Diagnostic, Failure, Loader, Options};
use sealane_log::{LogSet, OsError};
use sealane_server::metrics::{ProcessCounts, unix_s};
use sealane_server::worker;
use sealane_server::{Materials, QuicPlace, Snapshot, StatusDesk};
use sealane_sys::file::{self, Standard};
use sealane_sys::guard::Guard;
use sealane_sys::process;
use sealane_sys::signal::{self, Signal};
use sealane_tls::{Capabilities, HandshakeState, ReplayRegister, SessionState, StapleState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

/// Signals that are held back from the moment the server listens: a caller that has seen it listen
/// may stop it, and gets the shutdown of a running server.
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
    /// Which files a worker may change and read.
    pub(crate) file_rules: FileRules,
    pub(crate) journal: Journal,
    /// What outlives snapshots of ticket keys and session caches.
    pub(crate) sessions: Arc<SessionState>,
    /// What outlives snapshots of handshakes.
    pub(crate) handshakes: Arc<HandshakeState>,
    /// The process that holds private keys, if not the worker does.
    pub(crate) keys: Option<SharedKeyProcesses>,
    /// Those that it holds for this configuration.
    pub(crate) used_keys: Vec<UsedKey>,
    /// The line to it of the worker that is forked next.
    pub(crate) key_lines: Vec<KeyLine>,
    /// What outlives snapshots of staples.
    pub(crate) staples: Arc<StapleState>,
    /// Where issuers of clients' certificates are asked.
    pub(crate) statuses: Arc<StatusDesk>,
    /// What the kernel can do for TLS, if it was tried.
    pub(crate) kernel_tls: Option<Arc<Capabilities>>,
    /// `ssl_session_store`s.
    pub(crate) session_stores: Vec<Arc<RemoteStore>>,
    /// Looks up names while the server runs.
    pub(crate) resolvers: Resolvers,
    /// `ssl_session_ticket_state`.
    pub(crate) ticket_state_file: Option<PathBuf>,
    /// The ticket keys that the last workers, or the last run, have left.
    pub(crate) ticket_states: TicketStates,
    /// `ssl_stapling_state`.
    pub(crate) staple_state_file: Option<PathBuf>,
    /// The staples that the last workers, or the last run, have left.
    pub(crate) kept_staples: KeptStaples,
    /// Where the worker that is forked next is among those with sockets of QUIC.
    pub(crate) quic: Option<QuicPlace>,
    /// The process to tell that the server runs.
    pub(crate) daemon: Option<Ready>,
    /// What all of this was built from; kept for as long as certificates may change.
    pub(crate) handover: Option<Handover>,
}

/// The configuration cannot be used; the reason is in the journal.
pub(crate) struct Refused;

/// A configuration that was read, with all that is needed to read it again elsewhere.
pub(crate) struct Reading {
    pub(crate) config: Config,
    pub(crate) options: Options,
    pub(crate) records: Records,
    pub(crate) files: NamedFiles,
}

/// The files that a configuration names.
pub(crate) enum NamedFiles {
    /// They are to be read. These are texts with private keys that were taken out of it.
    Unread(TakenTexts),
    /// They were read already.
    Read(Box<Materials>),
}

impl NamedFiles {
    /// Reads them, unless that was done already.
    ///
    /// # Errors
    /// The first file that cannot be read, in nginx's words.
    pub(crate) fn read(self, http: Option<&Http>, guard: &Guard) -> Result<Materials, Diagnostic> {
        match self {
            NamedFiles::Unread(taken) => materials::read(http, &taken, guard),
            NamedFiles::Read(files) => Ok(*files),
        }
    }
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
        /// Everything else is as in `running`, warnings included.
        only_certificates: bool,
    },
}

/// What the server was started with, to read its configuration again, or to be started again.
pub(crate) struct Origin {
    pub(crate) arguments: Arguments,
    pub(crate) places: Places,
    pub(crate) program: Program,
}

/// Reads and parses the configuration; diagnostics go to the journal.
pub(crate) fn read_configuration(
    arguments: &Arguments,
    places: &Places,
    journal: &Journal,
) -> Result<Config, Refused> {
    read_recorded(arguments, places, journal).map(|reading| reading.config)
}

/// The message of a call that failed before there was a server.
pub(crate) fn sigprocmask_failed(error: &io::Error) -> String {
    format!("sigprocmask() failed ({})", OsError(error))
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
        access_log: places.access_log.clone(),
        pid: places.pid.clone(),
        temp: places.temp.clone(),
        privileged: process::effective_uid() == 0,
        hostname: machine.unwrap_or_default(),
        adds_control_server: true,
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
    let (parsed, records, taken) = match arguments.dump {
        // What is printed is what was read.
        true => {
            let (parsed, records, _) = parse_recorded(&options, FileSystemLoader);
            (parsed, records, Ok(TakenTexts::default()))
        }
        false => {
            let loader = KeyTakingLoader::new(FileSystemLoader);
            let (parsed, records, loader) = parse_recorded(&options, loader);
            (parsed, records, loader.into_taken())
        }
    };
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
    let taken = taken.map_err(|error| {
        let error = OsError(&error);
        note!(
            journal,
            Emerg,
            "keys in the configuration cannot be taken out of it ({error}); put them into files"
        );
        Refused
    })?;
    Ok(Reading {
        config,
        options,
        records,
        files: NamedFiles::Unread(taken),
    })
}

fn parse_recorded<L: Loader>(
    options: &Options,
    loader: L,
) -> (Result<Config, Failure>, Records, L) {
    let mut loader = RecordingLoader::new(loader);
    let parsed = sealane_conf::parse(options, &mut loader);
    let (records, loader) = loader.into_parts();
    (parsed, records, loader)
}

/// What another process needs to build the same snapshot.
pub(crate) struct Handover {
    pub(crate) options: Options,
    pub(crate) records: Records,
    pub(crate) materials: Materials,
}

/// Creates the directories that a worker may write to.
fn prepare_directories(
    config: &Config,
    places: &Places,
    identity: Option<&Identity>,
    guard: &Guard,
    journal: &Journal,
) -> Result<(), String> {
    temp_paths::check_qlog_directories(config)?;
    temp_paths::prepare(config, &places.temp, identity, guard, journal)?;
    temp_paths::prepare_caches(config, identity, guard)?;
    temp_paths::prepare_acme(config, &places.prefix, identity, guard)
}

/// Says what is odd about a configuration, unless it was said of the one that runs.
fn tell_warnings(warnings: &[Diagnostic], goal: &Goal<'_>, journal: &Journal) {
    if unchanged(goal).is_none() {
        warnings
            .iter()
            .for_each(|warning| journal.diagnostic(warning));
    }
}

/// Opens and checks everything that the configuration names. Sockets come last: once they
/// listen, clients may be waiting in their queues.
pub(crate) fn prepare(
    reading: Reading,
    places: &Places,
    goal: &Goal<'_>,
    first: &Journal,
) -> Result<Server, Refused> {
    let Reading {
        config,
        options,
        records,
        files,
    } = reading;
    let refuse = |message: &dyn std::fmt::Display| {
        note!(first, Emerg, "{message}");
        Refused
    };
    let identity = Identity::find(&config.main).map_err(|message| refuse(&message))?;
    check_working_directory(&config).map_err(|message| refuse(&message))?;
    let guard = guard(&config, identity.as_ref(), goal).map_err(|message| refuse(&message))?;
    share_counters(&config, goal, first);
    let keys = key_processes(&config, goal, first).map_err(|message| refuse(&message))?;
    let mut materials = materials_of(&config, files, goal, &guard, first)?;
    deposit_keys(&config, &mut materials, keys.as_ref(), goal, first)
        .map_err(|message| refuse(&message))?;
    if let Goal::Test { quiet: false } = goal {
        say_syntax_is_ok(places);
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
    prepare_directories(&config, places, identity.as_ref(), &guard, first)
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
    tell_warnings(&warnings, goal, &journal);
    check_threads(&config, &snapshot, &guard).map_err(|message| refuse(&message))?;
    programs::check(&config, &logs, &guard).map_err(|message| refuse(&message))?;
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
    let staple_state_file = certificates::state_file(config.http.as_ref());
    let kept_staples = match (goal, &staple_state_file) {
        (Goal::Serve { .. }, Some(path)) => certificates::read_state(path, &guard, &journal),
        _ => KeptStaples::default(),
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
        keys,
        key_lines: Vec::new(),
        used_keys: key_process::used_keys(&materials),
        staples: Arc::clone(materials.staples()),
        statuses: Arc::clone(materials.statuses()),
        kernel_tls: materials.kernel_tls().cloned(),
        session_stores,
        resolvers,
        ticket_state_file,
        ticket_states,
        staple_state_file,
        kept_staples,
        file_rules: FileRules::of(&config),
        config,
        snapshot: Arc::new(snapshot),
        logs: Arc::new(logs),
        sockets,
        threads,
        identity,
        guard,
        journal,
        quic: None,
        daemon: None,
        handover: Some(Handover {
            options,
            records,
            materials: materials.into_files(),
        }),
    };
    Ok(server)
}

/// The processes that are to hold the keys of a configuration: those that run, or others.
fn key_processes(
    config: &Config,
    goal: &Goal<'_>,
    journal: &Journal,
) -> Result<Option<SharedKeyProcesses>, String> {
    let running = match goal {
        Goal::Reload { running, .. } => running.keys.as_ref(),
        Goal::Test { .. } | Goal::Check | Goal::Serve { .. } => None,
    };
    let Some(http) = &config.http else {
        return Ok(running.cloned());
    };
    let is_test = matches!(goal, Goal::Test { .. } | Goal::Check);
    let has_devices = key_process::has_devices(http);
    if has_devices && !config.main.master_process {
        return Err(
            "keys in devices (\"ssl_certificate_key\", \"ssl_accelerator\") need \"master_process \
             on\": they have processes of their own"
                .to_owned(),
        );
    }
    let has_keys = key_process::may_have_keys(http);
    let is_wanted = http.key_process.is_on && config.main.master_process && !is_test;
    let wants_processor = is_wanted && (has_keys || running.is_some());
    if !wants_processor && !has_devices && running.is_none() {
        return Ok(None);
    }
    let identity = key_identity(http, config)?;
    if let Some(running) = running {
        let keys = key_process::lock(running);
        if keys.has_processor() == wants_processor && keys.identity() == identity.as_ref() {
            drop(keys);
            return Ok(Some(Arc::clone(running)));
        }
    }
    let threads = worker::thread_count(config.main.worker_processes);
    if is_test {
        let processes = KeyProcesses::for_tests(threads, identity);
        return Ok(Some(Arc::new(Mutex::new(processes))));
    }
    let mut processes = KeyProcesses::new(threads, identity);
    if wants_processor {
        processes.start_processor(journal).map_err(|error| {
            format!(
                "the key process cannot be started ({}); \"ssl_key_process off\" keeps keys in \
                 worker processes",
                OsError(&error)
            )
        })?;
    }
    Ok(Some(Arc::new(Mutex::new(processes))))
}

/// Whom processes with keys run as, if not as this one.
fn key_identity(http: &Http, config: &Config) -> Result<Option<Identity>, String> {
    let Some(user) = &http.key_process.user else {
        return Ok(None);
    };
    if process::effective_uid() != 0 {
        return Err(format!(
            "\"user={user}\" of \"ssl_key_process\" needs a master that runs as root"
        ));
    }
    let identity = Identity::named(user)?;
    let of_workers = Identity::find(&config.main)?;
    if of_workers.is_some_and(|workers| workers.uid() == identity.uid()) {
        return Err(format!(
            "\"user={user}\" of \"ssl_key_process\" is the user of worker processes: whoever took \
             over a worker could reach for keys; name another one"
        ));
    }
    Ok(Some(identity))
}

/// Puts handles in the place of keys.
fn deposit_keys(
    config: &Config,
    materials: &mut Materials,
    keys: Option<&SharedKeyProcesses>,
    goal: &Goal<'_>,
    journal: &Journal,
) -> Result<(), String> {
    let (Some(keys), Some(http)) = (keys, &config.http) else {
        return Ok(());
    };
    let mut keys = key_process::lock(keys);
    if let Goal::Reload { .. } = goal {
        keys.set_has_workers();
    }
    key_process::deposit_all(http, materials, &mut keys, journal)?;
    if let Goal::Test { quiet: false } = goal {
        for line in keys.describe_devices() {
            say(&format!("sealane: {line}\n"));
        }
    }
    Ok(())
}

/// nginx's first line of `-t`.
fn say_syntax_is_ok(places: &Places) {
    let conf_file = places.conf_file.display();
    say(&format!(
        "sealane: the configuration file {conf_file} syntax is ok\n"
    ));
}

/// What threads of the worker process would only find out later.
fn check_threads(config: &Config, snapshot: &Snapshot, guard: &Guard) -> Result<(), String> {
    certificates::acme::check(snapshot.acme_tasks())?;
    traces::check(snapshot.trace_target())?;
    dns_command::check(config, guard)
}

/// Makes the memory for what all processes of the server count, before anything has counters.
fn share_counters(config: &Config, goal: &Goal<'_>, journal: &Journal) {
    if !matches!(goal, Goal::Serve { .. }) {
        return;
    }
    let bytes = usize::try_from(config.main.metrics_memory_bytes).unwrap_or(usize::MAX);
    if let Err(error) = sealane_counters::share(bytes) {
        note!(
            journal,
            Warn,
            "{bytes} bytes for counters cannot be allocated ({}): each process counts for itself; \
             reduce \"metrics_memory\"",
            OsError(&error)
        );
    }
    let counts = ProcessCounts::of_server();
    counts.started_s.set(unix_s());
    counts.loaded_s.set(unix_s());
}

/// The files that the configuration names and, where nothing else has changed, what the running
/// server has made of the rest.
fn materials_of(
    config: &Config,
    files: NamedFiles,
    goal: &Goal<'_>,
    guard: &Guard,
    journal: &Journal,
) -> Result<Materials, Refused> {
    let read = files.read(config.http.as_ref(), guard);
    let mut materials = read.map_err(|diagnostic| {
        journal.diagnostic(&diagnostic);
        Refused
    })?;
    if let Some(running) = unchanged(goal) {
        materials.set_sessions(Arc::clone(&running.sessions));
        materials.set_handshakes(Arc::clone(&running.handshakes));
        materials.set_staples(Arc::clone(&running.staples));
        materials.set_acme(Arc::clone(running.snapshot.acme()));
        materials.set_built_before(Arc::clone(&running.snapshot));
    }
    Ok(materials)
}

/// The running server, if only certificates differ from what it has.
fn unchanged<'a>(goal: &Goal<'a>) -> Option<&'a Server> {
    match goal {
        Goal::Reload {
            running,
            only_certificates: true,
            ..
        } => Some(running),
        _ => None,
    }
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

pub(crate) fn guard_of(config: &Config, identity: Option<&Identity>) -> Result<Guard, String> {
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

/// Adds what the kernel can do for TLS, and returns whether it was tested just now.
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
        Goal::Reload { running, known, .. } => {
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
    let mut sockets = Sockets::open(config, threads, purpose, known, guard, journal)
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
