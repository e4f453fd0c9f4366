//! The key process at work.
//!
//! ```text
//! main thread      orders of the master, channels that workers open
//! load             keys that a worker process loads, one thread for each
//! keys-0 .. n      read channels; compute what is cheap (P-256, Ed25519) at once
//! batch-0 .. n     compute what is expensive (RSA, larger curves), in batches where possible
//! ```
//!
//! A cheap operation never waits behind an expensive one but for the processor, as handshakes with
//! cheap keys do where keys are in the worker.

mod channel;
mod loaded;
mod queue;
mod readers;

pub(crate) use self::loaded::MAX_LOADING;
use self::loaded::{LoadedKeys, Loader};
use self::queue::Queue;
use self::readers::Readers;
use crate::keyring::{Key, Keyring, OpenKeys};
use crate::line::{self, Order, Report, Rights, WorkerRequest};
use sealane_sys::{poll, process};
use sealane_tls::KeyId;
use sealane_tls::accelerator::Report as Tell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread computes at a time while others want its processor: as handshake threads of
/// worker processes.
const TIME_SLICE: Duration = Duration::from_micros(300);

/// What the process has.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Threads that read channels, and as many that compute what is expensive.
    pub threads: usize,
    /// Whether panics are told to the master instead of being printed.
    pub reports_panics: bool,
}

/// A worker process.
pub(crate) struct Client {
    line: OwnedFd,
    rights: Rights,
    decryptions: Mutex<Decryptions>,
    /// Channels that are open.
    channels: AtomicUsize,
    /// Keys that it has loaded itself.
    loaded: Mutex<LoadedKeys>,
}

/// How many decryptions there were in this second.
struct Decryptions {
    since: Instant,
    count: u32,
}

impl Client {
    fn new(line: OwnedFd, rights: Rights) -> Self {
        Self {
            line,
            rights,
            decryptions: Mutex::new(Decryptions {
                since: Instant::now(),
                count: 0,
            }),
            channels: AtomicUsize::new(0),
            loaded: Mutex::default(),
        }
    }

    /// A key that it has loaded itself.
    pub(crate) fn loaded(&self, id: KeyId) -> Option<Arc<Key>> {
        lock(&self.loaded).get(id)
    }

    /// Whether it may decrypt once more. All decryptions count, whether the padding is right or
    /// not: otherwise the limit would tell which.
    pub(crate) fn may_decrypt(&self) -> bool {
        let mut decryptions = lock(&self.decryptions);
        let now = Instant::now();
        if now.saturating_duration_since(decryptions.since) >= Duration::from_secs(1) {
            *decryptions = Decryptions {
                since: now,
                count: 0,
            };
        }
        decryptions.count = decryptions.count.saturating_add(1);
        decryptions.count <= self.rights.max_decryptions
    }
}

/// What all threads share.
pub(crate) struct Shared {
    keyring: Keyring,
    queue: Queue,
}

/// Serves until the master and all worker processes are gone. `opener` makes what opens keys, of
/// what tells the operator of failures.
///
/// # Errors
///
/// When a thread cannot be started, or nothing can be waited for.
pub fn serve(
    master: OwnedFd,
    limits: Limits,
    opener: impl FnOnce(Tell) -> Box<dyn OpenKeys>,
) -> io::Result<()> {
    let master = Arc::new(master);
    let to_master = Arc::clone(&master);
    let report: Tell = Arc::new(move |text: &str| {
        // It is counted as well.
        let _ = line::send_report(to_master.as_fd(), &Report::Alert(text.to_owned()));
    });
    if limits.reports_panics {
        report_panics(&master);
    }
    let _whole = AbortOnPanic;
    let shared = Arc::new(Shared {
        keyring: Keyring::new(opener(report)),
        queue: Queue::default(),
    });
    let readers = Readers::start(&shared, limits.threads)?;
    for index in 0..limits.threads {
        let shared = Arc::clone(&shared);
        start(format!("batch-{index}"), move || shared.queue.work())?;
    }
    let mut process = Process {
        master: Some(master),
        clients: Vec::new(),
        shared,
        readers,
    };
    while process.is_wanted() {
        process.turn()?;
    }
    Ok(())
}

/// A panic, which ends the process, is told to the master.
fn report_panics(master: &Arc<OwnedFd>) {
    let master = Arc::clone(master);
    std::panic::set_hook(Box::new(move |panic| {
        let text = format!("a thread has panicked, which is a bug to report: {panic}");
        let _ = line::send_report(master.as_fd(), &Report::Alert(text));
    }));
}

/// Starts a thread with a short time slice.
fn start(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
        let _ = process::set_time_slice(TIME_SLICE); // if the kernel can
        let _whole = AbortOnPanic;
        run();
    });
    started.map(drop)
}

/// A process that lacks a thread is replaced.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A worker process, as the main thread knows it.
struct Introduced {
    client: Arc<Client>,
    /// What loads its keys, once it has asked for one.
    loader: Option<Loader>,
}

/// The main thread.
struct Process {
    /// `None` when it is gone.
    master: Option<Arc<OwnedFd>>,
    clients: Vec<Introduced>,
    shared: Arc<Shared>,
    readers: Readers,
}

impl Process {
    /// Workers may go on after their master was killed: they finish what they have.
    fn is_wanted(&self) -> bool {
        self.master.is_some() || !self.clients.is_empty()
    }

    fn turn(&mut self) -> io::Result<()> {
        let lines = self.clients.iter().map(|it| it.client.line.as_fd());
        let lines: Vec<_> = lines.collect();
        let master = self.master.as_ref().map(|line| line.as_fd());
        let fds: Vec<_> = lines.into_iter().chain(master).collect();
        let readable = poll::wait_readable(&fds, None)?;
        let (of_clients, of_master) = readable.split_at(self.clients.len());
        let of_master = of_master.contains(&true);
        let mut spoken = of_clients.iter();
        let mut clients = std::mem::take(&mut self.clients);
        clients.retain_mut(|client| spoken.next() != Some(&true) || self.hear(client));
        self.clients = clients;
        if of_master {
            self.obey();
        }
        Ok(())
    }

    /// Follows a request of a worker process. `false`: it is gone, or does not speak our language.
    fn hear(&self, from: &mut Introduced) -> bool {
        let client = &from.client;
        match line::receive_request(client.line.as_fd()) {
            Ok(Some(WorkerRequest::Channel(channel))) => {
                let open = client.channels.load(Ordering::Relaxed);
                if open < client.rights.max_channels as usize {
                    self.readers.add(channel, client);
                } // else it is closed, which the worker sees
                true
            }
            Ok(Some(WorkerRequest::Load { number, memory })) => {
                let start = || Loader::start(client, &self.shared);
                match from.loader.take().map_or_else(start, Ok) {
                    Ok(loader) => from.loader.insert(loader).load(number, memory),
                    Err(_) => false, // there are no threads
                }
            }
            Ok(Some(WorkerRequest::Forget(key))) => {
                lock(&client.loaded).forget(key);
                true
            }
            Ok(None) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn obey(&mut self) {
        let Some(master) = self.master.clone() else {
            return;
        };
        match line::receive_order(master.as_fd()) {
            Ok(Some(Order::Deposit { number, memory })) => {
                let result = self.shared.keyring.add(memory.as_fd());
                let report = Report::Deposited { number, result };
                if line::send_report(master.as_fd(), &report).is_err() {
                    self.master = None;
                }
            }
            Ok(Some(Order::Introduce { rights, line })) => {
                self.clients.push(Introduced {
                    client: Arc::new(Client::new(line, rights)),
                    loader: None,
                });
            }
            Ok(Some(Order::Forget(key))) => self.shared.keyring.forget(key),
            Ok(Some(Order::Renew)) => self.shared.keyring.renew(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The same binary has sent it: it is not the master any more.
            Ok(None) | Err(_) => self.master = None,
        }
    }
}

/// No code that may panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
