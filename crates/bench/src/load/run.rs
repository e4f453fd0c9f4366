//! Phases, threads, and the totals over all clients.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::LocalSet};

use crate::{
    CpuAccount, CpuTime, Error, Histogram, Memory, ProcessTree,
    load::{
        EarlyDataCount, Limit, Negotiated, Plan, Resumption,
        client::{Client, EventLoop},
        idle::raise_descriptor_limit,
    },
};

/// Time for the server to finish its work after the last response (closing, logging) before its CPU
/// time is read.
const SETTLE: Duration = Duration::from_millis(30);

/// Time limit of a run by count, so that nothing waits forever.
const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);

/// How long clients warm up at most until their early data is accepted: longer than a server may
/// refuse it after its start.
const EARLY_DATA_WARM_UP: Duration = Duration::from_secs(10);

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations between the two readings.
    pub operations: u64,
    /// Connections opened between the two readings.
    pub connections: u64,
    /// Body bytes received between the two readings.
    pub body_bytes: u64,
    /// When the measurement of the clients started.
    pub started: Instant,
    /// Time between the two readings, without the pauses.
    pub elapsed: Duration,
    /// How long each operation took.
    pub latency: Histogram,
    /// Time until the response began to arrive, including connecting if that is part of the
    /// operation.
    pub first_byte: Histogram,
    /// The outcomes of early data; `None` if none was sent.
    pub early_data: Option<EarlyDataCount>,
    /// CPU used by the server, if its process was given.
    pub server_cpu: Option<CpuTime>,
    /// The server's memory at the end, with all keep-alive connections open.
    pub server_memory: Option<Memory>,
    /// CPU used by the generator itself.
    pub generator_cpu: CpuTime,
    /// The negotiated parameters; `None` in cleartext.
    pub negotiated: Option<Negotiated>,
}

impl Outcome {
    /// Server CPU per operation in nanoseconds.
    pub fn server_ns_per_operation(&self) -> Option<f64> {
        self.server_cpu
            .map(|cpu| cpu.total_ns as f64 / self.operations.max(1) as f64)
    }

    /// Operations per second.
    pub fn rate_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Instructions to the clients. `Work` carries the end of a run by time.
#[derive(Clone, Copy, Debug)]
enum Phase {
    WarmUp,
    Work { deadline: Option<Instant> },
    Finish,
}

/// A client's report to the run.
enum Report {
    /// Warm, and waiting for the measurement.
    Ready,
    /// Done with the measurement. Its share is part of the report, so that none can get lost when
    /// the clients leave.
    Done(Box<Share>),
    /// The run has failed.
    Failed(Error),
}

/// One client's share of the measurement.
#[derive(Default)]
struct Share {
    operations: u64,
    connections: u64,
    body_bytes: u64,
    latency: Histogram,
    first_byte: Histogram,
    early_data: EarlyDataCount,
    negotiated: Option<Negotiated>,
}

/// State shared by all clients of all threads.
#[derive(Clone)]
struct Crew {
    plan: Arc<Plan>,
    phase: watch::Receiver<Phase>,
    reports: mpsc::Sender<Report>,
    /// Unclaimed operations, in a run by count.
    left: Arc<AtomicU64>,
}

/// Something that should count only during the measurement, while all clients pause at its start
/// and end.
pub trait Meter {
    /// The clients are warm, and the measurement is about to start.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from counting; the run fails with this error.
    fn begin(&mut self) -> Result<(), Error>;

    /// The clients have finished.
    ///
    /// # Errors
    ///
    /// As for [`Meter::begin`].
    fn end(&mut self) -> Result<(), Error>;
}

/// Executes `plan`. With `server`, reads that process tree's CPU time before and after.
///
/// # Errors
///
/// The first deviation of any client: see [`Error`].
pub fn run(plan: &Plan, server: Option<ProcessTree>) -> Result<Outcome, Error> {
    run_metered(plan, server, &mut [])
}

/// Like [`run`], with meters that count during the measurement.
///
/// # Errors
///
/// As for [`run`], and what a meter fails with.
pub fn run_metered(
    plan: &Plan,
    server: Option<ProcessTree>,
    meters: &mut [&mut dyn Meter],
) -> Result<Outcome, Error> {
    if plan.clients == 0 || plan.threads == 0 {
        return Err(Error::Usage(
            "a run needs at least one client and one thread".into(),
        ));
    }
    let descriptors = raise_descriptor_limit();
    if plan.clients as u64 > descriptors {
        return Err(Error::Usage(format!(
            "{} clients need more file descriptors than the limit of {descriptors} allows; raise it with ulimit -n",
            plan.clients
        )));
    }
    let (phase, phases) = watch::channel(Phase::WarmUp);
    let (reports, reported) = mpsc::channel();
    let operations = match plan.limit {
        Limit::Operations(operations) => operations,
        Limit::Duration(_) => u64::MAX,
    };
    let crew = Crew {
        plan: Arc::new(plan.clone()),
        phase: phases,
        reports,
        left: Arc::new(AtomicU64::new(operations)),
    };
    let threads = start_threads(&crew)?;
    drop(crew);

    let outcome = measure(plan, server, meters, &phase, &reported);
    // Clients leave on `Finish`, also after an error.
    phase.send_replace(Phase::Finish);
    for thread in threads {
        thread
            .join()
            .map_err(|_| Error::Stalled("a generator thread panicked".into()))?;
    }
    outcome
}

fn measure(
    plan: &Plan,
    server: Option<ProcessTree>,
    meters: &mut [&mut dyn Meter],
    phase: &watch::Sender<Phase>,
    reported: &mpsc::Receiver<Report>,
) -> Result<Outcome, Error> {
    collect(
        plan,
        reported,
        plan.stall_limit
            .saturating_add(plan.warm_up.max(early_data_warm_up(plan))),
    )?;
    thread::sleep(SETTLE);
    for meter in meters.iter_mut() {
        meter.begin()?;
    }
    let before = Reading::take(server)?;
    let started = Instant::now();
    let (deadline, longest) = match plan.limit {
        Limit::Duration(duration) => (
            Some(started + duration),
            plan.stall_limit.saturating_add(duration),
        ),
        // With a count the time is unpredictable. A stalled client is still detected, because every
        // operation has its own limit.
        Limit::Operations(_) => (None, LONGEST_RUN),
    };
    phase.send_replace(Phase::Work { deadline });
    let share = collect(plan, reported, longest)?;
    let elapsed = started.elapsed();
    thread::sleep(SETTLE);
    let after = Reading::take(server)?;
    let server_memory = server
        .map(|tree| tree.memory())
        .transpose()
        .map_err(|source| Error::io("read memory from /proc", source))?;
    for meter in meters {
        meter.end()?;
    }
    let early_data = resumption(plan) == Resumption::EarlyData;
    if early_data && share.early_data.accepted == 0 {
        return Err(Error::Negotiated {
            what: "early data",
            wanted: "acceptance".into(),
            got: format!("none of {} accepted", share.operations),
        });
    }
    Ok(Outcome {
        operations: share.operations,
        connections: share.connections,
        body_bytes: share.body_bytes,
        started,
        elapsed,
        latency: share.latency,
        first_byte: share.first_byte,
        early_data: early_data.then_some(share.early_data),
        server_cpu: after
            .server
            .zip(before.server)
            .map(|(after, before)| after.since(&before)),
        server_memory,
        generator_cpu: after.generator.since(&before.generator),
        negotiated: share.negotiated,
    })
}

/// CPU times at one moment.
struct Reading {
    server: Option<CpuAccount>,
    generator: CpuAccount,
}

impl Reading {
    fn take(server: Option<ProcessTree>) -> Result<Self, Error> {
        let failed = |source| Error::io("read CPU time from /proc", source);
        // Servers started by this process are its children and must not be counted as generator.
        let generator = ProcessTree::of(std::process::id());
        Ok(Self {
            server: server
                .map(|tree| tree.cpu_account())
                .transpose()
                .map_err(failed)?,
            generator: generator.cpu_account_of_root().map_err(failed)?,
        })
    }
}

/// Waits until all clients have reported, and adds up their shares.
fn collect(
    plan: &Plan,
    reported: &mpsc::Receiver<Report>,
    limit: Duration,
) -> Result<Share, Error> {
    let deadline = Instant::now() + limit;
    let mut sum = Share::default();
    for count in 0..plan.clients {
        match reported.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Report::Ready) => {}
            Ok(Report::Done(share)) => sum.add(*share),
            Ok(Report::Failed(error)) => return Err(error),
            Err(_) => {
                return Err(Error::Stalled(format!(
                    "{} of {} clients did not report back within {limit:?}",
                    plan.clients - count,
                    plan.clients
                )));
            }
        }
    }
    Ok(sum)
}

fn start_threads(crew: &Crew) -> Result<Vec<thread::JoinHandle<()>>, Error> {
    let threads = crew.plan.threads.min(crew.plan.clients);
    (0..threads)
        .map(|index| {
            let crew = crew.clone();
            // The first threads take the remainder.
            let clients =
                crew.plan.clients / threads + usize::from(index < crew.plan.clients % threads);
            let first =
                crew.plan.clients / threads * index + index.min(crew.plan.clients % threads);
            let cpu = crew
                .plan
                .cpus
                .get(index % crew.plan.cpus.len().max(1))
                .copied();
            thread::Builder::new()
                .name(format!("clients-{index}"))
                .spawn(move || work(&crew, first..first + clients, cpu))
                .map_err(|source| Error::io("start a generator thread", source))
        })
        .collect()
}

/// One event loop and its clients, by their numbers.
fn work(crew: &Crew, clients: Range<usize>, cpu: Option<usize>) {
    match prepare(crew, cpu) {
        Ok((runtime, shared)) => {
            let tasks = LocalSet::new();
            for number in clients {
                tasks.spawn_local(attend(crew.clone(), number, shared.clone()));
            }
            runtime.block_on(tasks);
        }
        Err(error) => {
            // The run may already have ended; then no one reads this.
            let _ = crew.reports.send(Report::Failed(error));
        }
    }
}

fn prepare(crew: &Crew, cpu: Option<usize>) -> Result<(tokio::runtime::Runtime, EventLoop), Error> {
    if let Some(cpu) = cpu {
        pin_this_thread(&[cpu])?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("create an event loop", source))?;
    Ok((runtime, EventLoop::new(&crew.plan)?))
}

/// Restricts the calling thread, and threads that it starts, to `cpus`.
pub(crate) fn pin_this_thread(cpus: &[usize]) -> Result<(), Error> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(Error::Usage(format!("there is no core {cpu}")));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|errno| Error::io(format!("pin to cores {cpus:?}"), errno.into()))
}

/// The main function of a client. An error ends it and, through its report, the run.
async fn attend(crew: Crew, number: usize, shared: EventLoop) {
    let reports = crew.reports.clone();
    let mut finished = crew.phase.clone();
    tokio::select! {
        result = measured_client(crew, number, shared) => if let Err(error) = result {
            // The run may already have ended because of another client's error.
            let _ = reports.send(Report::Failed(error));
        },
        _ = finished.wait_for(|phase| matches!(phase, Phase::Finish)) => {}
    }
}

async fn measured_client(crew: Crew, number: usize, shared: EventLoop) -> Result<(), Error> {
    let Crew {
        plan,
        mut phase,
        reports,
        left,
    } = crew;
    let mut client = Client::new(Arc::clone(&plan), number, shared);
    warm_up(&plan, &mut client).await?;
    let (connections, body_bytes) = (client.connections, client.body_bytes);
    let early_data = client.early_data;
    let _ = reports.send(Report::Ready);

    let mut share = Share::default();
    let told = phase
        .wait_for(|phase| !matches!(phase, Phase::WarmUp))
        .await;
    let deadline = match told.as_deref() {
        Ok(&Phase::Work { deadline }) => deadline,
        _ => return Ok(()),
    };
    drop(told);
    let mut now = Instant::now();
    while deadline.is_none_or(|deadline| now < deadline) && claim(&left) {
        let first_byte = bounded(&plan, client.operate()).await?;
        let done = Instant::now();
        share.latency.record(done - now);
        share.first_byte.record(first_byte.unwrap_or(done) - now);
        share.operations += plan.requests_per_operation();
        now = done;
    }
    share.connections = client.connections - connections;
    share.body_bytes = client.body_bytes - body_bytes;
    share.early_data = client.early_data.since(early_data);
    share.negotiated = client.negotiated.take();
    let _ = reports.send(Report::Done(Box::new(share)));
    // The connection stays open until the second reading.
    let _ = phase.wait_for(|phase| matches!(phase, Phase::Finish)).await;
    Ok(())
}

/// Works until the client is warm: connected, with a session if it needs one.
async fn warm_up(plan: &Plan, client: &mut Client) -> Result<(), Error> {
    let started = Instant::now();
    let resumption = resumption(plan);
    let longest = early_data_warm_up(plan);
    // A resuming client needs one connection to get a session and one to use it.
    let mut least: u32 = match resumption {
        Resumption::Full => 1,
        Resumption::Resumed | Resumption::EarlyData => 2,
    };
    while least > 0 || started.elapsed() < plan.warm_up {
        bounded(plan, client.operate()).await?;
        least = least.saturating_sub(1);
    }
    // A server that remembers early data refuses any that may be older than its memory.
    while client.early_data.accepted == 0 && started.elapsed() < longest {
        bounded(plan, client.operate()).await?;
        tokio::time::sleep(SETTLE).await;
    }
    Ok(())
}

/// The maximum length of the warm-up for early data to be accepted.
fn early_data_warm_up(plan: &Plan) -> Duration {
    match resumption(plan) {
        Resumption::Full | Resumption::Resumed => Duration::ZERO,
        Resumption::EarlyData => EARLY_DATA_WARM_UP.min(plan.stall_limit),
    }
}

fn resumption(plan: &Plan) -> Resumption {
    let tls = plan.tls.as_ref();
    tls.map_or(Resumption::Full, |tls| tls.resumption)
}

/// Claims one of the remaining operations.
fn claim(left: &AtomicU64) -> bool {
    left.load(Ordering::Relaxed) == u64::MAX
        || left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
}

/// Aborts an operation that takes longer than the plan allows.
async fn bounded<T>(
    plan: &Plan,
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(plan.stall_limit, operation).await {
        Ok(result) => result,
        Err(_) => Err(Error::Stalled(format!(
            "an operation took longer than {:?}",
            plan.stall_limit
        ))),
    }
}

impl Share {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.connections += other.connections;
        self.body_bytes += other.body_bytes;
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        self.early_data.add(other.early_data);
        self.negotiated = self.negotiated.take().or(other.negotiated);
    }
}
