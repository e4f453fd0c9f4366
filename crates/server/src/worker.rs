//! The worker process from inside: its threads, their listeners, shutdown.

use crate::acceptor;
use crate::admission::RefusedHandshakes;
use crate::counters::Counters;
use crate::log::{self, LogSet, Logger};
use crate::open_file_cache::OpenFileCache;
use crate::registry::{Asked, Registry, SWEEP_INTERVAL};
use crate::snapshot::{ListenerId, Snapshot};
use crate::turns::Turns;
use sealane_conf::model::{LogLevel, WorkerCount};
use sealane_tls::HandshakeState;
use sealane_tls::client::SessionCache;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// What the connections of one worker thread share. Nothing in it is touched by
/// another thread on the hot path; the locks inside are never contended there.
pub struct Worker {
    /// Number of the thread, from 0.
    pub index: u32,
    /// All configured state.
    pub snapshot: Arc<Snapshot>,
    /// Open descriptors, file facts and small contents.
    pub open_files: OpenFileCache,
    /// Connections of this thread.
    pub registry: Registry,
    /// Who goes next with a handshake.
    pub turns: Arc<Turns>,
    /// Handshakes refused, until the operator hears of them.
    pub refused: RefusedHandshakes,
    /// Counters of this thread; [`Process::workers`] leads to the others.
    pub counters: Counters,
    /// What all threads of the process know of each other.
    pub process: Arc<Process>,
}

/// What the threads of the worker process know of each other.
#[derive(Default)]
pub struct Process {
    workers: OnceLock<Vec<Arc<Worker>>>,
    connections: AtomicU64,
    /// TLS sessions with peers, for the next connection.
    pub(crate) upstream_sessions: Arc<SessionCache>,
}

impl Process {
    /// All worker threads, for sums over their counters. Empty while they start.
    pub fn workers(&self) -> &[Arc<Worker>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// Tells, once, which threads there are.
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

/// What [`run`] needs.
pub struct RunArgs {
    /// All configured state.
    pub snapshot: Arc<Snapshot>,
    /// Bound and listening sockets.
    pub listeners: Vec<BoundListener>,
    /// Number of worker threads, at least 1.
    pub threads: u32,
    /// Log destinations; flushed when the worker ends.
    pub logs: Arc<LogSet>,
}

/// What the process is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// QUIT: accept no more, finish what is under way.
    Quit,
    /// TERM, INT: stop now.
    Terminate,
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
    log::report_panics_to(log.clone());
    args.logs.start_writer(log.clone())?;
    let _pool = HandshakePool::start(&args.snapshot)?;
    let process = Arc::new(Process::default());
    let workers: Vec<_> = (0..args.threads)
        .map(|index| {
            Arc::new(Worker {
                index,
                snapshot: args.snapshot.clone(),
                open_files: OpenFileCache::new(),
                registry: Registry::default(),
                turns: Turns::new(args.snapshot.multi_accept),
                refused: RefusedHandshakes::default(),
                counters: Counters::default(),
                process: process.clone(),
            })
        })
        .collect();
    // The cycle of references lives as long as the process.
    process.set_workers(workers.clone());

    let (tell, told) = watch::channel(Asked::Nothing);
    let mut threads = Vec::new();
    for worker in workers {
        threads.push(spawn_thread(worker, &args.listeners, told.clone())?);
    }
    drop(told);
    // The threads have descriptors of their own: when they close them, nobody
    // in this process accepts any more.
    drop(args.listeners);

    let mut deadline = None;
    loop {
        let wait = match deadline {
            None if *tell.borrow() == Asked::Nothing => None,
            _ => Some(SHUTDOWN_POLL),
        };
        match next_command(wait) {
            Some(Command::Quit) if *tell.borrow() == Asked::Nothing => {
                let _ = tell.send(Asked::Finish);
                deadline = args
                    .snapshot
                    .worker_shutdown_timeout
                    .map(|t| std::time::Instant::now() + t);
            }
            Some(Command::Terminate) => break,
            Some(Command::Quit) | None => {}
        }
        if deadline.is_some_and(|at| std::time::Instant::now() >= at) {
            log.log(
                LogLevel::Notice,
                None,
                format_args!("worker_shutdown_timeout has passed, closing what is left"),
            );
            break;
        }
        if threads.iter().all(JoinHandle::is_finished) {
            break;
        }
        if *tell.borrow() == Asked::Nothing && threads.iter().any(JoinHandle::is_finished) {
            // A thread that ends by itself has panicked outside of any connection.
            return Err(io::Error::other(
                "a worker thread ended unexpectedly; see the alert before",
            ));
        }
    }
    let _ = tell.send(Asked::Abort);
    for thread in threads {
        let _ = thread.join();
    }
    args.logs.finish(LOG_FLUSH_TIMEOUT);
    Ok(())
}

/// The threads for handshakes, for as long as the worker threads live.
struct HandshakePool(Arc<HandshakeState>);

impl HandshakePool {
    /// Starts as many as `ssl_async_threads` says. What they have to report goes to the main
    /// error log.
    fn start(snapshot: &Snapshot) -> io::Result<HandshakePool> {
        let state = snapshot.handshakes.clone();
        let log = snapshot.main_log.clone();
        state.set_report(Arc::new(move |text| {
            log.log(LogLevel::Alert, None, format_args!("{text}"));
        }));
        let cpus = sealane_sys::process::available_cpus();
        state.start(snapshot.handshake_threads.on(cpus))?;
        Ok(HandshakePool(state))
    }
}

impl Drop for HandshakePool {
    /// What waits is cancelled; what is being computed takes a few milliseconds.
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// How often shutdown looks whether everything has finished.
const SHUTDOWN_POLL: Duration = Duration::from_millis(20);
/// Threads of one worker's runtime that may wait for the disk at a time; nginx's
/// default `thread_pool` has 32 for all workers.
const DISK_THREADS: usize = 16;
/// How long the process waits for its last log lines to be written.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Disk threads end after they had nothing to do for this long.
const DISK_THREAD_IDLE: Duration = Duration::from_secs(60);
/// How long a worker thread computes at a time when others want its processor: so short that it
/// takes the place of a handshake thread as soon as a request arrives. It gets no more of the
/// processor by that. Only Linux 6.12 and later heed it.
const WORKER_TIME_SLICE: Duration = Duration::from_micros(100);

fn spawn_thread(
    worker: Arc<Worker>,
    listeners: &[BoundListener],
    told: watch::Receiver<Asked>,
) -> io::Result<JoinHandle<()>> {
    let sockets = listeners
        .iter()
        .map(|listener| {
            let own = listener.sockets.get(worker.index as usize);
            let socket = own
                .or(listener.sockets.first())
                .ok_or(io::ErrorKind::NotFound)?;
            Ok((listener.id, socket.try_clone()?))
        })
        .collect::<io::Result<Vec<_>>>()?;
    let turns = worker.turns.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(DISK_THREADS)
        .thread_keep_alive(DISK_THREAD_IDLE)
        .on_thread_park(move || {
            turns.rest();
            // Before the thread waits, the log lines of this turn are on their way.
            log::flush_thread_buffers();
        })
        .build()?;
    std::thread::Builder::new()
        .name(format!("worker-{}", worker.index))
        .spawn(move || {
            let _guard = AbortOnPanic {
                log: worker.snapshot.main_log.clone(),
            };
            // A wish, which a sandbox may deny.
            let _ = sealane_sys::process::set_time_slice(WORKER_TIME_SLICE);
            runtime.block_on(serve(worker, sockets, told));
            // Connections that are still open are dropped with the runtime.
            runtime.shutdown_background();
        })
}

/// Accepts until told to stop, then waits for the connections to finish.
async fn serve(
    worker: Arc<Worker>,
    sockets: Vec<(ListenerId, OwnedFd)>,
    mut told: watch::Receiver<Asked>,
) {
    let mut accepting = tokio::task::JoinSet::new();
    for (id, socket) in sockets {
        let until = told.clone();
        accepting.spawn(acceptor::accept_until(worker.clone(), id, socket, until));
    }
    let sweeping = tokio::spawn(sweep(worker.clone()));
    // A closed channel means that the control thread is gone: stop as well.
    let asked = told
        .wait_for(|asked| *asked != Asked::Nothing)
        .await
        .map_or(Asked::Abort, |asked| *asked);
    if asked == Asked::Abort {
        return;
    }
    // Each loop ends when its queue is empty.
    while accepting.join_next().await.is_some() {}
    worker.registry.shut_down(Asked::Finish);
    let finished = async {
        while !worker.registry.is_empty() {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
    };
    tokio::select! {
        () = finished => {}
        _ = told.wait_for(|asked| *asked == Asked::Abort) => {}
    }
    sweeping.abort();
}

/// Looks after time-outs for as long as the worker runs.
async fn sweep(worker: Arc<Worker>) {
    loop {
        // Idle connections to other servers outlast the clients they were opened for.
        if !worker.snapshot.groups.has_idle(worker.index) {
            worker.registry.occupied().await;
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
        worker
            .registry
            .expire(sealane_sys::time::monotonic_coarse_ms());
        let snapshot = &worker.snapshot;
        worker
            .refused
            .tell(&snapshot.main_log, snapshot.handshake_queue);
        snapshot.groups.sweep(worker.index);
    }
}

/// Says so when a worker thread ends by a panic outside of any connection.
struct AbortOnPanic {
    log: Logger,
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.log.log(
                LogLevel::Alert,
                None,
                format_args!(
                    "a worker thread panicked; the worker process stops and is started again"
                ),
            );
        }
    }
}
