//! One key process, as the master sees it.

use super::computer::Computer;
use super::files::shown;
use super::{UsedKey, confinement};
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::restarts::Restarts;
use sealane_keys::deposit::Deposit;
use sealane_keys::line::{self, Report, Rights};
use sealane_keys::{Limits, serve};
use sealane_log::OsError;
use sealane_server::KeyFile;
use sealane_server::metrics::ProcessCounts;
use sealane_sys::process::{self, ExitStatus, Fork, Pid};
use sealane_sys::signal::{self, Signal};
use sealane_sys::socket;
use sealane_tls::{HolderId, KeyHandle, KeyId, Route};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the master waits for an answer. A key whose password is stretched takes a second, and a
/// device some more.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a key stays that no configuration uses any more: as long as a handshake may take that
/// has begun with the one before.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// How soon a key is tried again that a device no longer opens: doubled up to the second.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Exit code of a process that cannot be confined, or that has failed.
const FATAL: i32 = 2;
const FAILED: i32 = 1;

/// What all processes with keys of a master share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Common {
    /// Worker threads, which is how many threads a process has as well.
    pub(super) threads: u32,
    /// Whom they run as; `None`: as the master.
    pub(super) identity: Option<Identity>,
}

/// A process, and what is needed to start another one.
pub(super) struct KeyProcess {
    pub(super) holder: HolderId,
    pub(super) computer: Computer,
    common: Common,
    running: Option<Running>,
    deposits: Vec<Deposited>,
    /// Keys that no configuration uses any more, since when.
    leaving: Vec<(KeyId, Instant)>,
    /// Of the last message that wants an answer.
    number: u64,
    restarts: Restarts,
    /// When another one is started.
    start_at: Option<Instant>,
    /// Workers have not been introduced to it yet.
    is_new: bool,
    /// A device that no configuration uses any more, since when.
    unused_since: Option<Instant>,
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
    /// The message to a process that was started anew, which has not answered.
    asked: Option<u64>,
    /// When it is tried again, if the process could not open it.
    retry: Option<(Instant, Duration)>,
}

/// Why a key is not held.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Something is wrong with the key.
    Key(String),
    /// The process cannot be reached.
    Process(io::Error),
}

impl KeyProcess {
    /// Starts it. This process must have one thread. `is_new`: there are workers, which are to be
    /// introduced to it.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors.
    pub(super) fn start(
        holder: HolderId,
        computer: Computer,
        common: &Common,
        is_new: bool,
        journal: &Journal,
    ) -> io::Result<KeyProcess> {
        Ok(KeyProcess {
            running: Some(Running::start(&computer, common, journal)?),
            holder,
            computer,
            common: common.clone(),
            deposits: Vec::new(),
            leaving: Vec::new(),
            number: 0,
            restarts: Restarts::default(),
            start_at: None,
            is_new,
            unused_since: None,
            replaced: Vec::new(),
        })
    }

    /// In the log: "key process", or which device's.
    fn called(&self) -> String {
        match self.computer {
            Computer::Processor => "key process".to_owned(),
            _ => format!("key process of \"{}\"", self.computer),
        }
    }

    /// The configuration is loaded again, and its keys follow.
    pub(super) fn renew(&self) {
        if let Some(running) = &self.running {
            let _ = line::send_renew(running.line.as_fd()); // if it is dead, the next is new
        }
    }

    /// Has a key held.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn deposit(
        &mut self,
        file: &KeyFile,
        deposit: &Deposit<'_>,
        journal: &Journal,
    ) -> Result<KeyHandle, Refusal> {
        let memory = deposit.seal().map_err(Refusal::Process)?;
        let mut handle = match self.hand_over(memory.as_fd(), journal) {
            // A reload does not fail because it has just died.
            Err(Refusal::Process(error)) if error.kind() != io::ErrorKind::TimedOut => {
                ProcessCounts::of_server().key_processes_died.add(1);
                self.start_again(journal).map_err(Refusal::Process)?;
                self.is_new = true;
                self.hand_over(memory.as_fd(), journal)?
            }
            handle => handle?,
        };
        handle.route = Route {
            holder: self.holder,
            ..Route::default()
        };
        self.unused_since = None;
        self.leaving.retain(|(leaving, _)| *leaving != handle.id);
        let key = (file.clone(), handle.id);
        self.deposits.retain(|known| known.key != key);
        self.deposits.push(Deposited {
            key,
            memory,
            asked: None,
            retry: None,
        });
        Ok(handle)
    }

    fn hand_over(
        &mut self,
        memory: BorrowedFd<'_>,
        journal: &Journal,
    ) -> Result<KeyHandle, Refusal> {
        let gone = |kind| Err(Refusal::Process(io::Error::new(kind, "it has died")));
        let number = self.send_deposit(memory).map_err(Refusal::Process)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(running) = &self.running else {
                return gone(io::ErrorKind::NotConnected);
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match line::wait_for_report(running.line.as_fd(), left).map_err(Refusal::Process)? {
                Some(Report::Deposited { number: of, result }) if of == number => {
                    return result.map_err(Refusal::Key);
                }
                Some(report) => self.hear(report, journal),
                None => return gone(io::ErrorKind::UnexpectedEof),
            }
        }
    }

    /// Returns the number of the message.
    fn send_deposit(&mut self, memory: BorrowedFd<'_>) -> io::Result<u64> {
        let Some(running) = &self.running else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "it has died"));
        };
        self.number += 1;
        line::send_deposit(running.line.as_fd(), self.number, memory)?;
        Ok(self.number)
    }

    /// The line of another worker process.
    ///
    /// # Errors
    /// When there are no descriptors, or the process cannot be told.
    pub(super) fn introduce(&self, rights: Rights) -> io::Result<OwnedFd> {
        let (worker, other) = socket::seqpacket_pair()?;
        match &self.running {
            Some(running) => {
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

    /// In a worker, which was forked from the master: closes what is the master's.
    pub(super) fn let_go(&mut self) {
        self.running = None;
        self.deposits.clear();
    }

    /// What the master waits for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let running = self.running.as_ref().filter(|running| !running.is_silent);
        running.map(|running| running.line.as_fd())
    }

    /// Reads a report, if there is one.
    pub(super) fn read(&mut self, journal: &Journal) {
        let Some(running) = &mut self.running else {
            return;
        };
        match line::receive_report(running.line.as_fd()) {
            Ok(Some(report)) => self.hear(report, journal),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(None) | Err(_) => running.is_silent = true,
        }
    }

    fn hear(&mut self, report: Report, journal: &Journal) {
        match report {
            Report::Alert(text) => note!(journal, Alert, "{}: {text}", self.called()),
            Report::Deposited { number, result } => {
                let is_it = |deposited: &&mut Deposited| deposited.asked == Some(number);
                let Some(deposited) = self.deposits.iter_mut().find(is_it) else {
                    return; // late
                };
                deposited.asked = None;
                let name = shown(&deposited.key.0.path);
                let before = deposited.retry.take();
                let Err(why) = result else {
                    if before.is_some() {
                        note!(journal, Notice, "the key \"{name}\" can be used again");
                    }
                    return;
                };
                let wait = before.map_or(RETRY, |(_, wait)| (2 * wait).min(LONGEST_RETRY));
                deposited.retry = Some((Instant::now() + wait, wait));
                if before.is_none() {
                    note!(
                        journal,
                        Alert,
                        "{} cannot use the key \"{name}\" again: {why}; its handshakes fail, it is \
                         tried again every {} to {} s",
                        self.called(),
                        RETRY.as_secs(),
                        LONGEST_RETRY.as_secs()
                    );
                }
            }
        }
    }

    /// Whether this was the process, or one before it. Another one is started soon.
    pub(super) fn on_exit(&mut self, pid: Pid, status: ExitStatus, journal: &Journal) -> bool {
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
            "{} {pid} exited {how}; handshakes wait for another one, which is started in {} ms",
            self.called(),
            wait.as_millis()
        );
        self.start_at = Some(Instant::now() + wait);
        true
    }

    /// When the master has something to do here.
    pub(super) fn due(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(_, since)| since);
        let forgotten = leaving.chain(&self.unused_since);
        let forgotten = forgotten.map(|since| *since + KEPT_FOR);
        let retried = self.deposits.iter().filter(|it| it.asked.is_none());
        let retried = retried.filter_map(|it| it.retry.map(|(at, _)| at));
        let introduced = self.is_new.then(Instant::now);
        self.start_at
            .into_iter()
            .chain(introduced)
            .chain(forgotten)
            .chain(retried)
            .min()
    }

    /// Does what is due. Whether there is another process, to which workers must be introduced.
    pub(super) fn go_on(&mut self, journal: &Journal) -> bool {
        let now = Instant::now();
        self.forget(now);
        self.retry(now);
        if self.start_at.is_none_or(|at| now < at) {
            return std::mem::take(&mut self.is_new);
        }
        self.start_at = None;
        match self.start_again(journal) {
            Ok(()) => {
                self.is_new = false;
                true
            }
            Err(error) => {
                let wait = self.restarts.short_wait_after(Duration::ZERO);
                self.start_at = Some(now + wait);
                note!(
                    journal,
                    Alert,
                    "another {} cannot be started ({}): handshakes fail; tried again in {} ms",
                    self.called(),
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
    pub(super) fn start_again(&mut self, journal: &Journal) -> io::Result<()> {
        // Without its master it ends, once it has no workers.
        if let Some(before) = self.running.take() {
            self.replaced.push(before.pid);
        }
        self.start_at = None;
        self.running = Some(Running::start(&self.computer, &self.common, journal)?);
        let given = match self.computer.is_device() {
            true => self.give_keys(),
            false => self.give_keys_and_wait(journal),
        };
        match given {
            Err(error) => {
                self.stop(journal);
                Err(error)
            }
            Ok(()) => {
                let (called, pid, keys) = (self.called(), self.pid(), self.deposits.len());
                note!(journal, Notice, "start {called} {pid} with {keys} keys");
                Ok(())
            }
        }
    }

    /// A device may take long, or not have all keys: nobody waits for that. What workers ask for
    /// waits in their channels, since messages are read in order.
    fn give_keys(&mut self) -> io::Result<()> {
        let mut deposits = std::mem::take(&mut self.deposits);
        let asked = deposits.iter_mut().try_for_each(|deposited| {
            deposited.asked = Some(self.send_deposit(deposited.memory.as_fd())?);
            Ok(())
        });
        self.deposits = deposits;
        asked
    }

    fn give_keys_and_wait(&mut self, journal: &Journal) -> io::Result<()> {
        let deposits = std::mem::take(&mut self.deposits);
        let mut failed = None;
        for deposited in &deposits {
            match self.hand_over(deposited.memory.as_fd(), journal) {
                Ok(_) => {}
                // It was held before.
                Err(Refusal::Key(_)) => failed = Some(io::ErrorKind::InvalidData.into()),
                Err(Refusal::Process(error)) => failed = Some(error),
            }
        }
        self.deposits = deposits;
        failed.map_or(Ok(()), Err)
    }

    fn retry(&mut self, now: Instant) {
        let mut deposits = std::mem::take(&mut self.deposits);
        for deposited in &mut deposits {
            let is_due = deposited.retry.is_some_and(|(at, _)| now >= at);
            if is_due && deposited.asked.is_none() {
                // If it has died, all keys are given to the next one.
                deposited.asked = self.send_deposit(deposited.memory.as_fd()).ok();
                let wait = deposited.retry.map_or(RETRY, |(_, wait)| wait);
                deposited.retry = Some((now + wait, wait));
            }
        }
        self.deposits = deposits;
    }

    /// Its number; 0 when there is none.
    pub(super) fn pid(&self) -> Pid {
        self.running.as_ref().map_or(0, |running| running.pid)
    }

    /// Ends it. It is collected as one that was replaced.
    pub(super) fn stop(&mut self, journal: &Journal) {
        self.start_at = None;
        let Some(running) = self.running.take() else {
            return;
        };
        let pid = running.pid;
        self.replaced.push(pid);
        if let Err(error) = signal::send(pid, Signal::Kill) {
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
    pub(super) fn retain(&mut self, used: &HashSet<&UsedKey>) {
        let now = Instant::now();
        let gone = self.take_all_but(used);
        self.leaving.extend(gone.into_iter().map(|id| (id, now)));
        if self.computer.is_device() && self.deposits.is_empty() {
            self.unused_since.get_or_insert(now);
        }
    }

    /// A configuration was refused, and this is in use: what only that one has named is wiped.
    pub(super) fn forget_refused(&mut self, used: &HashSet<&UsedKey>) {
        for id in self.take_all_but(used) {
            self.send_forget(id);
        }
    }

    /// A device of which no key is left.
    pub(super) fn is_idle(&self) -> bool {
        self.computer.is_device() && self.deposits.is_empty() && self.leaving.is_empty()
    }

    /// A device that has not been used for so long that it may end.
    pub(super) fn is_over(&self) -> bool {
        self.unused_since
            .is_some_and(|since| since.elapsed() >= KEPT_FOR)
    }

    /// Processes that have not been collected.
    pub(super) fn into_replaced(self) -> Vec<Pid> {
        self.replaced
    }

    /// Gives up all deposits but these. Returns the keys that are deposited no more.
    fn take_all_but(&mut self, used: &HashSet<&UsedKey>) -> HashSet<KeyId> {
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
    fn start(computer: &Computer, common: &Common, journal: &Journal) -> io::Result<Running> {
        let (line, other) = socket::seqpacket_pair()?;
        // What it tells has no descriptors. Older kernels cannot enforce that.
        let _ = socket::refuse_fds(line.as_fd());
        match process::fork()? {
            Fork::Child => run(other, computer, common, journal),
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
fn run(line: OwnedFd, computer: &Computer, common: &Common, journal: &Journal) -> ! {
    let identity = common.identity.as_ref();
    if let Err(message) = confinement::enter(line.as_fd(), computer, identity, journal) {
        note!(journal, Emerg, "{message}");
        process::exit_now(FATAL);
    }
    let limits = Limits {
        threads: common.threads.max(1) as usize,
        reports_panics: true,
    };
    process::exit_now(
        match serve(line, limits, |report| computer.opener(report)) {
            Ok(()) => 0,
            Err(_) => FAILED,
        },
    )
}
