//! The worker process from inside: its threads, their commands, shutdown.

mod threads;

use crate::acceptor::DRAIN_BELOW_FRACTION;
use crate::admission::RefusedHandshakes;
use crate::counters::{Counters, Counts, counts_of_thread, thread_columns};
use crate::current::Current;
use crate::handover::InFlight;
use crate::handover::channel::Channel;
use crate::open_file_cache::OpenFileCache;
use crate::quic::{QuicPlace, QuicShared};
use crate::snapshot::{ListenerId, Snapshot};
use sealane_conf::model::{LogLevel, WorkerCount};
use sealane_counters::Placed;
use sealane_io::registry::{Asked, Registry};
use sealane_io::turns::Turns;
use sealane_keys::{Holders, KeyClient};
use sealane_log::{self, LogSet, LostLines};
use sealane_tls::HandshakeState;
use sealane_tls::client::SessionCache;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use threads::{OwnSocket, SHUTDOWN_POLL, Threads};
use tokio::sync::watch;

/// What the connections of one worker thread share. No other thread touches it on the hot path; its
/// locks are never contended there.
pub struct Worker {
    /// Number of the thread, from 0.
    pub index: u32,
    /// All configured state, the newest.
    pub current: Current,
    /// Open descriptors, metadata and contents of small files.
    pub open_files: OpenFileCache,
    /// Connections of this thread.
    pub registry: Arc<Registry>,
    /// The turns of handshakes.
    pub turns: Arc<Turns>,
    /// Refused handshakes that have not been reported yet.
    pub refused: RefusedHandshakes,
    /// Counters of this thread; [`Process::workers`] leads to the others.
    pub counters: Counters,
    /// The state shared by all threads of the process.
    pub process: Arc<Process>,
}

/// The state shared by all threads of the worker process.
#[derive(Default)]
pub struct Process {
    workers: OnceLock<Vec<Arc<Worker>>>,
    /// What worker threads have counted that only earlier processes had.
    pub(crate) former_counts: OnceLock<Vec<Placed<Counts>>>,
    /// Log lines that the process has lost.
    pub(crate) lost_lines: OnceLock<LostLines>,
    connections: AtomicU64,
    /// Where private keys are, if not in this process.
    pub(crate) keys: OnceLock<Arc<Holders>>,
    /// Where idle connections are sent when another process takes over.
    outbound_channel: Mutex<Option<Arc<Channel>>>,
    /// Connections that belong to no thread at the moment.
    pub(crate) in_flight: InFlight,
    /// TLS sessions with peers, for the next connection.
    pub(crate) upstream_sessions: Arc<SessionCache>,
    /// What the sockets of QUIC share.
    pub(crate) quic: Arc<QuicShared>,
}

impl Worker {
    /// Logs why a connection of another process could not be adopted.
    pub(crate) fn log_adoption(&self, error: &dyn fmt::Display) {
        self.current.snapshot().main_log.log(
            LogLevel::Alert,
            None,
            format_args!("a connection of the previous process is closed ({error})"),
        );
    }

    /// What has keys of files with variable names held elsewhere, if keys are not in this process.
    pub(crate) fn key_loader(&self) -> Option<Arc<KeyClient>> {
        self.process.keys.get()?.processor()
    }

    /// How many of `worker_connections` are free for connections of another process, so that new
    /// ones displace no others.
    pub(crate) fn free_slots(&self) -> i64 {
        let limit = i64::from(self.current.snapshot().worker_connections);
        limit - limit / DRAIN_BELOW_FRACTION - self.counters.active.get()
    }
}

impl Process {
    /// All worker threads, for sums over their counters. Empty while they start.
    pub fn workers(&self) -> &[Arc<Worker>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// A sum over what all worker threads have counted, in this process and in earlier ones.
    pub fn total(&self, read: impl Fn(&Counts) -> u64) -> u64 {
        let own: u64 = self
            .workers()
            .iter()
            .map(|worker| read(&worker.counters))
            .sum();
        let former = self.former_counts.get().into_iter().flatten();
        own + former.map(|counts| read(counts)).sum::<u64>()
    }

    /// A sum over what all worker threads have at the moment.
    pub fn level(&self, read: impl Fn(&Counters) -> i64) -> u64 {
        let workers = self.workers().iter();
        let sum: i64 = workers.map(|worker| read(&worker.counters)).sum();
        u64::try_from(sum).unwrap_or(0)
    }

    /// The channel for idle connections, if another process adopts them.
    pub(crate) fn outbound_channel(&self) -> Option<Arc<Channel>> {
        let channel = self
            .outbound_channel
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        channel
            .as_ref()
            .filter(|channel| !channel.is_closed())
            .cloned()
    }

    /// Sends idle connections over this channel from now on.
    pub(crate) fn set_outbound_channel(&self, channel: Channel) {
        let before = {
            let mut current = self
                .outbound_channel
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            current.replace(Arc::new(channel))
        };
        drop(before);
    }

    /// Logs why a connection of another process is not adopted.
    pub(crate) fn log_adoption(&self, error: &dyn fmt::Display) {
        if let Some(worker) = self.workers().first() {
            worker.log_adoption(error);
        }
    }

    /// Writes a line to the main error log.
    pub(crate) fn log(&self, level: LogLevel, text: fmt::Arguments<'_>) {
        if let Some(worker) = self.workers().first() {
            worker.current.snapshot().main_log.log(level, None, text);
        }
    }

    /// Sets the threads, once.
    pub(crate) fn set_workers(&self, workers: Vec<Arc<Worker>>) {
        let _ = self.workers.set(workers);
    }

    /// The next connection's serial number. One shared increment per connection
    /// keeps the numbers in the log unique.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The number of worker threads that `worker_processes` asks for.
pub fn thread_count(count: WorkerCount) -> u32 {
    match count {
        WorkerCount::Auto => {
            u32::try_from(sealane_sys::process::available_cpus()).unwrap_or(u32::MAX)
        }
        WorkerCount::Count(count) => count,
    }
}

/// Sockets bound for one listener of the snapshot.
pub struct BoundListener {
    /// Which listener.
    pub id: ListenerId,
    /// One socket that all threads accept from, or one per thread (`reuseport`).
    pub sockets: Vec<OwnedFd>,
}

/// Arguments of [`run`].
pub struct RunArgs {
    /// All configured state.
    pub snapshot: Arc<Snapshot>,
    /// Bound and listening sockets.
    pub listeners: Vec<BoundListener>,
    /// Number of worker threads, at least 1.
    pub threads: u32,
    /// The log destinations, flushed when the worker ends.
    pub logs: Arc<LogSet>,
    /// Where private keys are, if not in this process.
    pub keys: Option<Arc<Holders>>,
    /// Receives the results of commands, from any thread.
    pub events: Arc<dyn Fn(Event) + Send + Sync>,
    /// Runs first in each worker thread, with its number.
    pub on_thread: OnThread,
    /// Where this process is among those that have sockets of QUIC.
    pub quic: QuicPlace,
}

/// See [`RunArgs::on_thread`].
pub type OnThread = Arc<dyn Fn(u32) + Send + Sync>;

/// Another configuration for a running process.
pub struct Update {
    /// Its generation, larger than the one before; the first is 0.
    pub generation: u64,
    /// All configured state. Parts that outlive snapshots are those of the first one.
    pub snapshot: Arc<Snapshot>,
    /// Sockets of new listeners. Those that stay are identified by their addresses.
    pub added: Vec<BoundListener>,
    /// Log destinations.
    pub logs: Arc<LogSet>,
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// New connections and requests use the configuration of this number.
    Applied(u64),
    /// The sockets that this configuration does not use are closed, and their queues were empty;
    /// those for datagrams serve sessions until [`Event::Left`].
    Drained(u64),
    /// The sockets for datagrams that this configuration does not use are closed, or used again.
    Left(u64),
}

/// A command from the master.
pub enum Command {
    /// QUIT: accept no more, finish the requests in progress.
    Quit,
    /// TERM, INT: stop now.
    Terminate,
    /// Like `Quit`, but idle connections are sent over this channel to a process that adopts them
    /// ([`Command::TakeOver`]). A second one replaces the channel.
    HandOver(OwnedFd),
    /// Adopt the connections that another process sends over this channel.
    TakeOver(OwnedFd),
    /// Packets of QUIC for the process of this number in connection ids go over this line, and its
    /// packets for this one come over it.
    QuicLine(u8, OwnedFd),
    /// HUP: switch to another configuration. Requests in progress finish with theirs.
    Apply(Box<Update>),
}

/// Runs the worker process until it is told to stop: starts the threads, then
/// waits for commands on the calling thread.
///
/// `next_command` blocks for at most the given time (for ever with `None`).
///
/// # Errors
/// When a thread or its runtime cannot be created, or a socket not be used.
pub fn run(
    args: RunArgs,
    mut next_command: impl FnMut(Option<Duration>) -> Option<Command>,
) -> io::Result<()> {
    let log = args.snapshot.main_log.clone();
    sealane_log::report_panics_to(log.clone());
    args.logs.start_writer(log.clone())?;
    let mut logs = FlushedLogs(args.logs);
    let _pool = HandshakePool::start(&args.snapshot)?;
    let process = Arc::new(Process {
        quic: Arc::new(QuicShared::new(args.quic)),
        ..Process::default()
    });
    process.quic.follow(&args.snapshot);
    let _ = process.lost_lines.set(logs.0.lost_lines());
    if let Some(keys) = args.keys {
        let _ = process.keys.set(keys);
    }
    let workers = workers_of(&process, &args.snapshot, args.threads);
    // The cycle of references lives as long as the process.
    process.set_workers(workers.clone());
    let former = args.threads as usize..thread_columns(args.threads as usize);
    let _ = (process.former_counts).set(former.map(counts_of_thread).collect());

    let (tell, told) = watch::channel(Asked::Nothing);
    let mut threads = Threads::default();
    process.quic.say_serving();
    for worker in workers {
        let sockets = own_sockets(
            &args.listeners,
            &args.snapshot,
            worker.index,
            args.threads as usize,
        )?;
        threads.spawn(worker, sockets, told.clone(), args.on_thread.clone())?;
    }
    drop(told);
    // The threads have their own descriptors: when they close them, this process accepts no more.
    drop(args.listeners);

    let mut snapshot = args.snapshot;
    let mut deadline = None;
    loop {
        let wait = match deadline {
            None if *tell.borrow() == Asked::Nothing => None,
            _ => Some(SHUTDOWN_POLL),
        };
        match next_command(wait) {
            Some(command @ (Command::Quit | Command::HandOver(_)))
                if *tell.borrow() == Asked::Nothing =>
            {
                let asked = match command {
                    Command::HandOver(channel) => threads.hand_over(channel, &process),
                    _ => Asked::Finish,
                };
                threads.take_over_no_more();
                process.quic.say_leaving();
                let _ = tell.send(asked);
                let timeout = snapshot.worker_shutdown_timeout;
                deadline = timeout.map(|t| std::time::Instant::now() + t);
            }
            // The process that was to take over is gone, or is to end itself.
            Some(Command::HandOver(channel)) if *tell.borrow() == Asked::Move => {
                threads.hand_over(channel, &process);
                for worker in process.workers() {
                    worker.registry.shut_down(Asked::Move);
                }
            }
            Some(Command::Apply(update)) if *tell.borrow() == Asked::Nothing => {
                update.logs.take_effect(update.snapshot.main_log.clone());
                sealane_log::report_panics_to(update.snapshot.main_log.clone());
                process.quic.follow(&update.snapshot);
                threads.apply(&update, &args.events)?;
                snapshot = update.snapshot;
                logs.0 = update.logs;
            }
            Some(Command::TakeOver(channel)) if *tell.borrow() == Asked::Nothing => {
                threads.take_over(channel, process.clone())?;
            }
            Some(Command::QuicLine(number, line)) => {
                threads.receive(&process.quic.add_line(number, line));
            }
            Some(Command::Terminate) => break,
            // A process that finishes does so with its configuration.
            Some(
                Command::Apply(_) | Command::Quit | Command::HandOver(_) | Command::TakeOver(_),
            )
            | None => {}
        }
        if deadline.is_some_and(|at| std::time::Instant::now() >= at) {
            snapshot.main_log.log(
                LogLevel::Notice,
                None,
                format_args!(
                    "worker_shutdown_timeout has passed, closing the remaining connections"
                ),
            );
            close_connections(&process, &threads);
            break;
        }
        if threads.all_ended() {
            break;
        }
        if *tell.borrow() == Asked::Nothing && threads.any_ended() {
            // A thread that ends on its own has panicked outside of any connection.
            return Err(io::Error::other(
                "a worker thread ended unexpectedly; see the previous alert",
            ));
        }
    }
    let _ = tell.send(Asked::Abort);
    threads.join();
    Ok(())
}

/// What the threads of a process have.
fn workers_of(process: &Arc<Process>, snapshot: &Arc<Snapshot>, threads: u32) -> Vec<Arc<Worker>> {
    let worker = |index: u32| {
        Arc::new(Worker {
            index,
            current: Current::new(snapshot.clone()),
            open_files: OpenFileCache::new(),
            registry: Arc::default(),
            turns: Turns::new(snapshot.multi_accept),
            refused: RefusedHandshakes::default(),
            counters: Counters::of_thread(index as usize),
            process: process.clone(),
        })
    };
    (0..threads).map(worker).collect()
}

/// Ends the remaining connections. Their requests are told that their clients have gone, and write
/// their lines of the access log.
fn close_connections(process: &Process, threads: &Threads) {
    for worker in process.workers() {
        worker.registry.shut_down(Asked::Abort);
    }
    let until = std::time::Instant::now() + LAST_WORDS;
    while !threads.all_ended() && std::time::Instant::now() < until {
        std::thread::sleep(SHUTDOWN_POLL);
    }
}

/// The logs in use, flushed however the process ends.
struct FlushedLogs(Arc<LogSet>);

impl Drop for FlushedLogs {
    fn drop(&mut self) {
        self.0.finish(LOG_FLUSH_TIMEOUT);
    }
}

/// The sockets that one of several threads accepts from, with its own descriptors. If there are
/// more sockets than threads, as after `worker_processes` was reduced, no queue may be left without
/// a thread.
fn own_sockets(
    listeners: &[BoundListener],
    snapshot: &Snapshot,
    thread: u32,
    threads: usize,
) -> io::Result<Vec<OwnSocket>> {
    let mut all = Vec::new();
    for listener in listeners {
        let sockets = &listener.sockets;
        // One for datagrams belongs to one thread, which knows the sessions; always to the same
        // one, so that one that has left is found again. Those for QUIC are by the numbers of
        // threads, as the filter of the kernel has it.
        let runtime = snapshot.listener(listener.id);
        let udp = &runtime.address;
        let is_quic = runtime.options.quic;
        let port = udp.inet().filter(|_| udp.is_udp() && !is_quic);
        let port = port.map(|inet| usize::from(inet.port()));
        let threads = threads.max(1);
        let first = match port {
            Some(port) => (thread as usize + threads - port % threads) % threads,
            None => thread as usize,
        };
        let mut own: Vec<&OwnedFd> = sockets.iter().skip(first).step_by(threads).collect();
        if own.is_empty() && port.is_none() && !is_quic {
            own.push(sockets.first().ok_or(io::ErrorKind::NotFound)?);
        }
        for socket in own {
            all.push(OwnSocket {
                address: snapshot.listener(listener.id).address.clone(),
                socket: socket.try_clone()?,
            });
        }
    }
    Ok(all)
}

/// The handshake threads, which live as long as the worker threads.
struct HandshakePool(Arc<HandshakeState>);

impl HandshakePool {
    /// Starts `ssl_async_threads` threads. They report to the main error log.
    fn start(snapshot: &Snapshot) -> io::Result<HandshakePool> {
        let state = snapshot.handshakes.clone();
        let log = snapshot.main_log.clone();
        state.set_report(Arc::new(move |text| {
            log.log(LogLevel::Alert, None, format_args!("{text}"));
        }));
        state.set_wake_together(sealane_io::runtime::wake_together);
        let cpus = sealane_sys::process::available_cpus();
        state.start(snapshot.handshake_threads.on(cpus))?;
        Ok(HandshakePool(state))
    }
}

impl Drop for HandshakePool {
    /// Jobs that wait are cancelled; those in progress take a few milliseconds.
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// How long connections that are closed at the end have for their last log lines.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the process waits for its last log lines to be written.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
