//! Processes that hold private keys: the master's side.
//!
//! One has the keys from files (`ssl_key_process`), and the processor computes there. Each PKCS #11
//! module and each provider of OpenSSL has another one (`ssl_accelerator`), so that one which hangs
//! or crashes takes its own keys only.
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
//! | `process.rs` | one process: keys on their way, its end, the next one |
//! | `files.rs` | which files of a configuration have keys, and what takes their place |
//! | `computer.rs` | what computes in a process |
//! | `tokens.rs`, `providers.rs` | keys in tokens, and of providers, in their processes |
//! | `confinement.rs` | what a process may do |
//! | `open_files.rs` | what a module has open, for `-t` |

mod computer;
mod confinement;
mod files;
mod open_files;
mod process;
mod providers;
mod tokens;

use self::computer::Computer;
pub(crate) use self::files::{deposit_all, has_devices, max_loaded_keys, may_have_keys, shown};
use self::process::{Common, KeyProcess};
use crate::control;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use crate::startup::Server;
use sealane_keys::Holders;
use sealane_keys::line::Rights;
use sealane_log::OsError;
use sealane_server::{KeyFile, Materials};
use sealane_sys::process::{ExitStatus, Pid};
use sealane_tls::{HolderId, KeyId};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Channels of a worker process beyond one for each thread.
const SPARE_CHANNELS: u32 = 1;

/// The processes of a master.
pub(crate) struct KeyProcesses {
    /// That of keys from files first, if there is one.
    all: Vec<KeyProcess>,
    last_holder: HolderId,
    common: Common,
    /// There are workers, which must be introduced to further processes.
    has_workers: bool,
    /// For a test of a configuration: nothing is served.
    is_for_tests: bool,
    /// Of processes that ended because nobody used them.
    ended: Vec<Pid>,
    /// Devices that workers are to be told of, because they are gone.
    retired: Vec<HolderId>,
}

/// A key as a configuration names it.
pub(crate) type UsedKey = (KeyFile, KeyId);

/// The keys of a configuration that key processes hold.
pub(crate) fn used_keys(materials: &Materials) -> Vec<UsedKey> {
    let keys = materials.keys();
    keys.map(|(file, handle)| (file.clone(), handle.id))
        .collect()
}

/// The processes, as the configurations of a master share them.
pub(crate) type SharedKeyProcesses = Arc<Mutex<KeyProcesses>>;

/// No code that may panic runs under the lock.
pub(crate) fn lock(keys: &SharedKeyProcesses) -> MutexGuard<'_, KeyProcesses> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that holds keys, as a worker process is told of it.
#[derive(Debug)]
pub(crate) struct KeyLine {
    /// Its number.
    pub(crate) holder: HolderId,
    /// What operators call it.
    pub(crate) name: String,
    /// Over which channels to it are opened.
    pub(crate) line: OwnedFd,
}

impl KeyProcesses {
    /// None yet. `identity` is that of processes to come; `None`: this process's own.
    pub(crate) fn new(threads: u32, identity: Option<Identity>) -> KeyProcesses {
        KeyProcesses {
            all: Vec::new(),
            last_holder: HolderId::PROCESSOR,
            common: Common { threads, identity },
            has_workers: false,
            is_for_tests: false,
            ended: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// Starts the one for keys from files. This process must have one thread.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors.
    pub(crate) fn start_processor(&mut self, journal: &Journal) -> io::Result<()> {
        let (holder, common) = (HolderId::PROCESSOR, &self.common);
        let process = KeyProcess::start(holder, Computer::Processor, common, false, journal)?;
        self.all.insert(0, process);
        Ok(())
    }

    /// Whether keys from files are in a process of their own.
    pub(crate) fn has_processor(&self) -> bool {
        self.processor().is_some()
    }

    fn processor(&self) -> Option<&KeyProcess> {
        self.all.first().filter(|it| !it.computer.is_device())
    }

    /// Whom they run as.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.common.identity.as_ref()
    }

    /// From now on, workers are introduced to further processes.
    pub(crate) fn set_has_workers(&mut self) {
        self.has_workers = true;
    }

    /// Only a test of a configuration needs them.
    pub(crate) fn for_tests(threads: u32, identity: Option<Identity>) -> KeyProcesses {
        KeyProcesses {
            is_for_tests: true,
            ..KeyProcesses::new(threads, identity)
        }
    }

    fn is_for_tests(&self) -> bool {
        self.is_for_tests
    }

    /// What processes of devices may do and have open, for whoever tests a configuration.
    pub(crate) fn describe_devices(&self) -> Vec<String> {
        let devices = self.all.iter().filter(|it| it.computer.is_device());
        let described = devices.map(|process| {
            let who = match self.identity() {
                Some(identity) => format!("user {}", identity.uid()),
                None => "the master's user".to_owned(),
            };
            format!(
                "keys in \"{}\" can be used; its process runs as {who}, may open files and sockets, \
                 cannot execute programs, and has now open: {}",
                process.computer,
                open_files::of(process.pid())
            )
        });
        described.collect()
    }

    /// The configuration is loaded again, and its keys follow.
    fn renew(&self) {
        self.all.iter().for_each(KeyProcess::renew);
    }

    /// The process in which this computes; it is started if there is none.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors.
    fn process_of(
        &mut self,
        computer: &Computer,
        journal: &Journal,
    ) -> io::Result<&mut KeyProcess> {
        let known = self.all.iter().position(|it| it.computer == *computer);
        let at = match known {
            Some(at) => at,
            None => {
                // Numbers are not used again: a worker may remember what had one.
                let next = self.last_holder.0.checked_add(1);
                let too_many = || io::Error::other("too many devices since the start");
                self.last_holder = HolderId(next.ok_or_else(too_many)?);
                self.all.push(KeyProcess::start(
                    self.last_holder,
                    computer.clone(),
                    &self.common,
                    self.has_workers,
                    journal,
                )?);
                self.all.len() - 1
            }
        };
        Ok(&mut self.all[at])
    }

    /// The lines of another worker process for this configuration.
    ///
    /// # Errors
    /// When there are no descriptors, or a process cannot be told.
    fn introduce(&self, server: &Server) -> io::Result<Vec<KeyLine>> {
        let lines = self.all.iter().map(|process| line_of(process, server));
        lines.collect()
    }

    /// In a worker, which was forked from the master: closes what is the master's.
    pub(crate) fn let_go(&mut self) {
        self.all.iter_mut().for_each(KeyProcess::let_go);
    }

    /// What the master waits for.
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.all.iter().filter_map(KeyProcess::fd).collect()
    }

    /// Reads reports.
    pub(crate) fn read(&mut self, journal: &Journal) {
        for process in &mut self.all {
            process.read(journal);
        }
    }

    /// Whether this was one of them. Another one is started soon.
    pub(crate) fn on_exit(&mut self, pid: Pid, status: ExitStatus, journal: &Journal) -> bool {
        let before = self.ended.len();
        self.ended.retain(|ended| *ended != pid);
        let mut all = self.all.iter_mut();
        self.ended.len() < before || all.any(|process| process.on_exit(pid, status, journal))
    }

    /// When the master has something to do here.
    pub(crate) fn due(&self) -> Option<Instant> {
        let told = (!self.retired.is_empty()).then(Instant::now);
        let all = self.all.iter().filter_map(KeyProcess::due);
        all.chain(told).min()
    }

    /// Does what is due, and tells these workers of it.
    pub(crate) fn go_on(&mut self, workers: &[BorrowedFd<'_>], server: &Server) {
        let journal = &server.journal;
        let is_over = |process: &mut KeyProcess| process.is_over();
        let over: Vec<_> = self.all.extract_if(.., is_over).collect();
        self.end(over, journal);
        for holder in self.retired.drain(..) {
            for worker in workers {
                // A worker that cannot be told shows a device that is down.
                let _ = control::send_key_holder_gone(*worker, holder);
            }
        }
        for process in &mut self.all {
            if !process.go_on(journal) {
                continue;
            }
            for worker in workers {
                introduce_again(process, *worker, server);
            }
        }
    }

    /// Ends processes that nobody needs.
    fn end(&mut self, processes: Vec<KeyProcess>, journal: &Journal) {
        for mut process in processes {
            let (computer, pid) = (&process.computer, process.pid());
            note!(
                journal,
                Notice,
                "no key is left in \"{computer}\": key process {pid} is ended"
            );
            process.stop(journal);
            self.retired.push(process.holder);
            self.ended.extend(process.into_replaced());
        }
    }

    /// Starts processes in the place of those before, and gives them all keys.
    ///
    /// # Errors
    /// When the kernel refuses a process or descriptors, or one dies at once.
    pub(crate) fn start_again(&mut self, journal: &Journal) -> io::Result<()> {
        let mut all = self.all.iter_mut();
        all.try_for_each(|process| process.start_again(journal))
    }

    /// Their numbers.
    pub(crate) fn pids(&self) -> impl Iterator<Item = Pid> {
        let running = self.all.iter().map(KeyProcess::pid).filter(|pid| *pid != 0);
        running.chain(self.ended.iter().copied())
    }

    /// A configuration with these keys is in use.
    pub(crate) fn retain<'a>(&mut self, used: impl Iterator<Item = &'a UsedKey>) {
        let used: HashSet<&UsedKey> = used.collect();
        self.all.iter_mut().for_each(|it| it.retain(&used));
    }

    /// A configuration was refused, and this is in use: what only that one has named is wiped.
    pub(crate) fn forget_refused<'a>(
        &mut self,
        used: impl Iterator<Item = &'a UsedKey>,
        journal: &Journal,
    ) {
        let used: HashSet<&UsedKey> = used.collect();
        self.all.iter_mut().for_each(|it| it.forget_refused(&used));
        let is_idle = |process: &mut KeyProcess| process.is_idle();
        let idle: Vec<_> = self.all.extract_if(.., is_idle).collect();
        self.end(idle, journal);
    }

    /// Channels of this process to all of them, for tools.
    ///
    /// # Errors
    /// When there are no descriptors, or a process cannot be told.
    pub(crate) fn connect_tool(&self) -> io::Result<Arc<Holders>> {
        let holders = Holders::new(1, Arc::new(|_: &str| ()));
        for process in &self.all {
            let rights = Rights {
                max_channels: 1,
                max_decryptions: 0,
                max_keys: 0,
            };
            let name = process.computer.to_string();
            holders.connect(process.holder, &name, process.introduce(rights)?)?;
        }
        Ok(holders)
    }
}

fn line_of(process: &KeyProcess, server: &Server) -> io::Result<KeyLine> {
    let http = server.config.http.as_ref();
    let rights = Rights {
        max_channels: server.threads.saturating_add(SPARE_CHANNELS),
        max_decryptions: http.map_or(0, |http| http.key_process.decryptions),
        max_keys: match process.holder {
            HolderId::PROCESSOR => http.map_or(0, max_loaded_keys),
            _ => 0, // a worker has no keys in devices
        },
    };
    Ok(KeyLine {
        holder: process.holder,
        name: process.computer.to_string(),
        line: process.introduce(rights)?,
    })
}

/// Tells another worker process where the keys are now.
fn introduce_again(process: &KeyProcess, worker: BorrowedFd<'_>, server: &Server) {
    let told = line_of(process, server);
    let told = told.and_then(|told| {
        control::send_key_line(worker, told.holder, &told.name, told.line.as_fd())
    });
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

/// Makes the lines of the worker that is forked next.
pub(crate) fn introduce_next_worker(server: &mut Server) {
    let Some(keys) = &server.keys else {
        return;
    };
    let introduced = lock(keys).introduce(server);
    match introduced {
        Ok(lines) => server.key_lines = lines,
        Err(error) => note!(
            server.journal,
            Alert,
            "the next worker process cannot be introduced to the key process ({}): its handshakes \
             fail, reload the configuration",
            OsError(&error)
        ),
    }
}

/// In a worker process: its channels to key processes. There may be none yet.
///
/// # Errors
/// When there are no descriptors.
pub(crate) fn connect(server: &mut Server) -> io::Result<Arc<Holders>> {
    server.keys = None;
    let journal = server.journal.clone();
    let tell = move |text: &str| note!(journal, Error, "{text}");
    let holders = Holders::new(server.threads as usize, Arc::new(tell));
    server.handshakes.set_key_holder(Arc::clone(&holders) as _);
    for told in std::mem::take(&mut server.key_lines) {
        holders
            .connect(told.holder, &told.name, told.line)
            .or_else(|error| match error.kind() {
                // It has died meanwhile; there will be another line.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
                _ => Err(error),
            })?;
    }
    Ok(holders)
}
