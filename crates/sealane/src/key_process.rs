//! `ssl_key_process`: the master's side of the process that holds private keys.
//!
//! ```text
//! master   read a key's file, deposit it  ──sealed memory──> key process
//!          handle in the place of the key <──────────────────
//!          fork a worker, introduce it    ──its line───────> channels of its threads
//! ```
//!
//! Where the configuration is built, the handles take the place of the keys: in this process, which
//! builds it to see whether it works, and in worker processes. Of each key the master keeps a
//! descriptor of the sealed memory, which is not mapped: a key process that has died is replaced
//! without reading files that may be gone, or half written, by then.
//!
//! | file | what |
//! |---|---|
//! | `files.rs` | which files of a configuration have keys, and what takes their place |
//! | `confinement.rs` | what the process may do |

mod confinement;
mod files;

pub(crate) use self::files::deposit_all;
use crate::control;
use crate::journal::{Journal, note};
use crate::restarts::Restarts;
use crate::startup::Server;
use sealane_keys::deposit::Deposit;
use sealane_keys::line::{self, Report, Rights};
use sealane_keys::{KeyClient, Limits, serve};
use sealane_log::OsError;
use sealane_server::metrics::ProcessCounts;
use sealane_server::{KeyFile, Materials};
use sealane_sys::process::{self, ExitStatus, Fork, Pid};
use sealane_sys::signal::{self, Signal};
use sealane_sys::socket;
use sealane_tls::{KeyHandle, KeyId};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the master waits for an answer. A key whose password is stretched takes a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a key stays that no configuration uses any more: as long as a handshake may take that
/// has begun with the one before.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Exit code of a process that cannot be confined, or that has failed.
const FATAL: i32 = 2;
const FAILED: i32 = 1;

/// Channels of a worker process beyond one for each thread.
const SPARE_CHANNELS: u32 = 1;

/// The process, and what is needed to start another one.
pub(crate) struct KeyProcess {
    running: Option<Running>,
    deposits: Vec<Deposited>,
    /// Keys that no configuration uses any more, since when.
    leaving: Vec<(KeyId, Instant)>,
    /// Of the last message that wants an answer.
    number: u64,
    /// Worker threads, which is how many threads it has as well.
    threads: u32,
    restarts: Restarts,
    /// When another one is started.
    start_at: Option<Instant>,
    /// Workers have not been introduced to it yet.
    is_new: bool,
    /// Processes before it, which have not been collected.
    replaced: Vec<Pid>,
}

struct Running {
    pid: Pid,
    line: OwnedFd,
    /// It has closed the line: its exit status is to come.
    is_silent: bool,
    started: Instant,
}

/// A key that was deposited.
struct Deposited {
    key: UsedKey,
    memory: OwnedFd,
}

/// A key as a configuration names it.
pub(crate) type UsedKey = (KeyFile, KeyId);

/// The keys of a configuration that the process holds.
pub(crate) fn used_keys(materials: &Materials) -> Vec<UsedKey> {
    let keys = materials.keys();
    keys.map(|(file, handle)| (file.clone(), handle.id))
        .collect()
}

/// The process, as the configurations of a master share it.
pub(crate) type SharedKeyProcess = Arc<Mutex<KeyProcess>>;

/// No code that may panic runs under the lock.
pub(crate) fn lock(keys: &SharedKeyProcess) -> MutexGuard<'_, KeyProcess> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeyProcess {
    /// Starts it. This process must have one thread.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors.
    pub(crate) fn start(threads: u32, journal: &Journal) -> io::Result<KeyProcess> {
        Ok(KeyProcess {
            running: Some(Running::start(threads, journal)?),
            deposits: Vec::new(),
            leaving: Vec::new(),
            number: 0,
            threads,
            restarts: Restarts::default(),
            start_at: None,
            is_new: false,
            replaced: Vec::new(),
        })
    }

    /// Has a key held.
    ///
    /// # Errors
    /// Why it is not.
    fn deposit(
        &mut self,
        file: &KeyFile,
        deposit: &Deposit<'_>,
        journal: &Journal,
    ) -> Result<KeyHandle, Refusal> {
        let memory = deposit.seal().map_err(Refusal::Process)?;
        let handle = match self.hand_over(memory.as_fd()) {
            // A reload does not fail because it has just died.
            Err(Refusal::Process(_)) => {
                ProcessCounts::of_server().key_processes_died.add(1);
                self.start_again(journal).map_err(Refusal::Process)?;
                self.is_new = true;
                self.hand_over(memory.as_fd())?
            }
            handle => handle?,
        };
        self.leaving.retain(|(leaving, _)| *leaving != handle.id);
        let key = (file.clone(), handle.id);
        self.deposits.retain(|known| known.key != key);
        self.deposits.push(Deposited { key, memory });
        Ok(handle)
    }

    fn hand_over(&mut self, memory: BorrowedFd<'_>) -> Result<KeyHandle, Refusal> {
        let Some(running) = &self.running else {
            let gone = io::Error::new(io::ErrorKind::NotConnected, "it has died");
            return Err(Refusal::Process(gone));
        };
        self.number += 1;
        let line = running.line.as_fd();
        line::send_deposit(line, self.number, memory).map_err(Refusal::Process)?;
        loop {
            match line::wait_for_report(line, PATIENCE).map_err(Refusal::Process)? {
                Some(Report::Deposited { number, result }) if number == self.number => {
                    return result.map_err(|_| Refusal::Key);
                }
                // Late, or for the operator, who is told by the counter.
                Some(Report::Deposited { .. } | Report::Alert(_)) => {}
                None => {
                    let gone = io::Error::new(io::ErrorKind::UnexpectedEof, "it has died");
                    return Err(Refusal::Process(gone));
                }
            }
        }
    }

    /// The line of another worker process for this configuration.
    ///
    /// # Errors
    /// When there are no descriptors, or the process cannot be told.
    fn introduce(&self, server: &Server) -> io::Result<OwnedFd> {
        let (worker, other) = socket::seqpacket_pair()?;
        match &self.running {
            Some(running) => {
                let http = server.config.http.as_ref();
                let rights = Rights {
                    max_channels: server.threads.saturating_add(SPARE_CHANNELS),
                    max_decryptions: http.map_or(0, |http| http.key_process.decryptions),
                };
                let sent = line::send_introduction(running.line.as_fd(), rights, other.as_fd());
                match sent.as_ref().map_err(io::Error::kind) {
                    // It has died, and nobody has noticed yet: as below.
                    Err(io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
                    _ => sent?,
                }
            }
            // Its end is closed, which the worker sees; it is told of the next process.
            None => drop(other),
        }
        Ok(worker)
    }

    /// Tells another worker process where the keys are now.
    pub(crate) fn introduce_again(&self, link: BorrowedFd<'_>, server: &Server) {
        let told = self.introduce(server);
        let told = told.and_then(|line| control::send_key_line(link, line.as_fd()));
        if let Err(error) = told {
            note!(
                server.journal,
                Alert,
                "a worker process cannot be told of the new key process ({}): its handshakes fail, \
                 reload the configuration",
                OsError(&error)
            );
        }
    }

    /// In a worker, which was forked from the master: closes what is the master's.
    pub(crate) fn let_go(&mut self) {
        self.running = None;
        self.deposits.clear();
    }

    /// What the master waits for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let running = self.running.as_ref().filter(|running| !running.is_silent);
        running.map(|running| running.line.as_fd())
    }

    /// Reads a report.
    pub(crate) fn read(&mut self, journal: &Journal) {
        let Some(running) = &mut self.running else {
            return;
        };
        match line::receive_report(running.line.as_fd()) {
            Ok(Some(Report::Alert(text))) => note!(journal, Alert, "key process: {text}"),
            Ok(Some(Report::Deposited { .. })) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(None) | Err(_) => running.is_silent = true,
        }
    }

    /// Whether this was the key process. Another one is started soon.
    pub(crate) fn on_exit(&mut self, pid: Pid, status: ExitStatus, journal: &Journal) -> bool {
        let is_own = |running: &mut Running| running.pid == pid;
        let Some(running) = self.running.take_if(is_own) else {
            let before = self.replaced.len();
            self.replaced.retain(|replaced| *replaced != pid);
            return self.replaced.len() < before;
        };
        ProcessCounts::of_server().key_processes_died.add(1);
        let how = match status {
            ExitStatus::Signal { signal, .. } => format!("on signal {signal}"),
            ExitStatus::Code(code) => format!("with code {code}"),
        };
        let wait = self.restarts.short_wait_after(running.started.elapsed());
        note!(
            journal,
            Alert,
            "key process {pid} exited {how}; handshakes wait for another one, which is started in \
             {} ms",
            wait.as_millis()
        );
        self.start_at = Some(Instant::now() + wait);
        true
    }

    /// When the master has something to do here.
    pub(crate) fn due(&self) -> Option<Instant> {
        let leaving = self.leaving.iter();
        let forgotten = leaving.map(|(_, since)| *since + KEPT_FOR);
        let introduced = self.is_new.then(Instant::now);
        self.start_at
            .into_iter()
            .chain(introduced)
            .chain(forgotten)
            .min()
    }

    /// Does what is due. Whether there is another process, to which workers must be introduced.
    pub(crate) fn go_on(&mut self, journal: &Journal) -> bool {
        let now = Instant::now();
        self.forget(now);
        if self.start_at.is_none_or(|at| now < at) {
            return std::mem::take(&mut self.is_new);
        }
        self.start_at = None;
        match self.start_again(journal) {
            Ok(()) => true,
            Err(error) => {
                let wait = self.restarts.short_wait_after(Duration::ZERO);
                self.start_at = Some(now + wait);
                note!(
                    journal,
                    Alert,
                    "another key process cannot be started ({}): handshakes fail; tried again in {} \
                     ms",
                    OsError(&error),
                    wait.as_millis()
                );
                false
            }
        }
    }

    /// Starts a process in the place of the one before, and gives it all keys.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors, or it dies at once.
    pub(crate) fn start_again(&mut self, journal: &Journal) -> io::Result<()> {
        // Without its master it ends, once it has no workers.
        if let Some(before) = self.running.take() {
            self.replaced.push(before.pid);
        }
        self.start_at = None;
        self.running = Some(Running::start(self.threads, journal)?);
        let deposits = std::mem::take(&mut self.deposits);
        let mut failed = None;
        for deposited in &deposits {
            match self.hand_over(deposited.memory.as_fd()) {
                Ok(_) => {}
                // It was held before.
                Err(Refusal::Key) => failed = Some(io::ErrorKind::InvalidData.into()),
                Err(Refusal::Process(error)) => failed = Some(error),
            }
        }
        self.deposits = deposits;
        match failed {
            Some(error) => {
                self.stop(journal);
                Err(error)
            }
            None => {
                let (pid, keys) = (self.pid(), self.deposits.len());
                note!(journal, Notice, "start key process {pid} with {keys} keys");
                Ok(())
            }
        }
    }

    /// Its number; 0 when there is none.
    pub(crate) fn pid(&self) -> Pid {
        self.running.as_ref().map_or(0, |running| running.pid)
    }

    fn stop(&mut self, journal: &Journal) {
        if let Some(running) = self.running.take()
            && let Err(error) = signal::send(running.pid, Signal::Kill)
        {
            let pid = running.pid;
            note!(
                journal,
                Alert,
                "kill({pid}, 9) failed ({})",
                OsError(&error)
            );
        }
    }

    /// A configuration with these keys is in use: others are wiped after a while, and not given to
    /// another process from now on.
    pub(crate) fn retain<'a>(&mut self, used: impl Iterator<Item = &'a UsedKey>) {
        let now = Instant::now();
        let gone = self.take_all_but(used);
        self.leaving.extend(gone.into_iter().map(|id| (id, now)));
    }

    /// A configuration was refused, and this is in use: what only that one has named is wiped.
    pub(crate) fn forget_refused<'a>(&mut self, used: impl Iterator<Item = &'a UsedKey>) {
        for id in self.take_all_but(used) {
            self.send_forget(id);
        }
    }

    /// Gives up all deposits but these. Returns the keys that are deposited no more.
    fn take_all_but<'a>(&mut self, used: impl Iterator<Item = &'a UsedKey>) -> HashSet<KeyId> {
        let used: HashSet<&UsedKey> = used.collect();
        let (kept, gone) = std::mem::take(&mut self.deposits)
            .into_iter()
            .partition(|it| used.contains(&it.key));
        self.deposits = kept;
        let gone: Vec<Deposited> = gone;
        // The same key may be in several files.
        let is_held = |id: &KeyId| self.deposits.iter().any(|it| it.key.1 == *id);
        let ids = gone.into_iter().map(|it| it.key.1);
        ids.filter(|id| !is_held(id)).collect()
    }

    fn forget(&mut self, now: Instant) {
        let is_over = |leaving: &mut (KeyId, Instant)| now >= leaving.1 + KEPT_FOR;
        let over: Vec<_> = self.leaving.extract_if(.., is_over).collect();
        for (id, _) in over {
            self.send_forget(id);
        }
    }

    /// If it cannot be told, it is about to be replaced by one without this key.
    fn send_forget(&self, id: KeyId) {
        if let Some(running) = &self.running {
            let _ = line::send_forget(running.line.as_fd(), id);
        }
    }
}

impl Running {
    fn start(threads: u32, journal: &Journal) -> io::Result<Running> {
        let (line, other) = socket::seqpacket_pair()?;
        // What it tells has no descriptors. Older kernels cannot enforce that.
        let _ = socket::refuse_fds(line.as_fd());
        match process::fork()? {
            Fork::Child => run(other, threads, journal),
            Fork::Parent(pid) => {
                ProcessCounts::of_server().key_processes_started.add(1);
                Ok(Running {
                    pid,
                    line,
                    is_silent: false,
                    started: Instant::now(),
                })
            }
        }
    }
}

/// In the forked process: serves, and ends it.
fn run(line: OwnedFd, threads: u32, journal: &Journal) -> ! {
    if let Err(message) = confinement::enter(line.as_fd(), journal) {
        note!(journal, Emerg, "{message}");
        process::exit_now(FATAL);
    }
    let limits = Limits {
        threads: threads.max(1) as usize,
        reports_panics: true,
    };
    process::exit_now(match serve(line, limits) {
        Ok(()) => 0,
        Err(_) => FAILED,
    })
}

/// Makes the line of the worker that is forked next.
pub(crate) fn introduce_next_worker(server: &mut Server) {
    let Some(keys) = &server.keys else {
        return;
    };
    let introduced = lock(keys).introduce(server);
    match introduced {
        Ok(line) => server.key_line = Some(line),
        Err(error) => note!(
            server.journal,
            Alert,
            "the next worker process cannot be introduced to the key process ({}): its handshakes \
             fail, reload the configuration",
            OsError(&error)
        ),
    }
}

/// In a worker process: its channels to the key process, if that holds the keys.
///
/// # Errors
/// When there are no descriptors.
pub(crate) fn connect(server: &mut Server) -> io::Result<Option<Arc<KeyClient>>> {
    if server.keys.take().is_none() {
        return Ok(None);
    }
    let journal = server.journal.clone();
    let tell = move |text: &str| note!(journal, Error, "{text}");
    let client = KeyClient::new(server.threads as usize, Box::new(tell));
    server.handshakes.set_key_holder(Arc::clone(&client) as _);
    if let Some(line) = server.key_line.take() {
        client.connect(line).or_else(|error| match error.kind() {
            // It has died meanwhile; there will be another line.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
            _ => Err(error),
        })?;
    }
    Ok(Some(client))
}

/// Why a key is not held.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Something is wrong with the key, which is for whoever builds the configuration to say.
    Key,
    /// The process cannot be reached.
    Process(io::Error),
}
