//! The threads that run operations, and which of them gets one.

mod lane;
mod worker;

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sealane_tls::accelerator::{Accelerator, Job, Report};

use crate::failure::{Failure, Reporter};
use crate::{Provider, ProviderError, ProviderKey, ProviderStats};
use lane::{Ending, Lane, Queued};
use worker::Worker;

/// See [`EngineOptions::max_in_flight`].
const DEFAULT_MAX_IN_FLIGHT: usize = 1000;
/// See [`EngineOptions::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long beyond the time-out of its operations an engine waits for its threads when it stops.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// The longest interval between two looks at what has timed out.
const MAX_TICK: Duration = Duration::from_secs(1);

/// How an engine works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads. One is enough for a provider that pauses; one that computes on the thread uses as
    /// many processors as there are threads.
    pub threads: usize,
    /// The most operations in flight, shared evenly by the threads; more wait in a queue.
    pub max_in_flight: usize,
    /// The longest that an operation may take, waiting included. It may take an eighth longer until
    /// that is noticed.
    pub timeout: Duration,
    /// Whether ECDSA signatures are verified too. That costs three times as much as to make them
    /// with the processor (`examples/provider_speed.rs`). A wrong one fails its handshake at the
    /// client. All other results can reveal the key if they are wrong, and are always verified.
    pub verify_ecdsa: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            timeout: DEFAULT_TIMEOUT,
            verify_ecdsa: false,
        }
    }
}

/// Runs operations of one provider, for any number of keys.
///
/// Dropping it lets what is in flight end, for as long as the time-out; what waits fails.
pub struct Engine {
    core: Arc<Core>,
    threads: Vec<(Arc<Lane>, JoinHandle<()>)>,
    /// Dropped to stop the watchdog.
    stop_watchdog: Option<Sender<()>>,
    watchdog: Option<JoinHandle<()>>,
}

/// What all parts of an engine share.
struct Core {
    lanes: Vec<Arc<Lane>>,
    options: EngineOptions,
    stats: Arc<ProviderStats>,
    reporter: Reporter,
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// There are no threads, descriptors or memory, or this OpenSSL has no asynchronous jobs.
    pub fn start(
        provider: &Provider,
        options: EngineOptions,
        report: Report,
    ) -> Result<Self, ProviderError> {
        let no_thread = |error: &dyn fmt::Display| ProviderError::Threads(error.to_string());
        let threads = options.threads.max(1);
        let max_in_flight = options.max_in_flight.max(1).div_ceil(threads);
        let lanes = (0..threads).map(|_| Lane::new(max_in_flight, options.timeout).map(Arc::new));
        let lanes: Vec<_> = lanes
            .collect::<Result<_, _>>()
            .map_err(|error| no_thread(&error))?;
        let core = Arc::new(Core {
            lanes,
            options,
            stats: Arc::default(),
            reporter: Reporter::new(provider.name(), report),
        });
        let mut engine = Self {
            core: core.clone(),
            threads: Vec::new(),
            stop_watchdog: None,
            watchdog: None,
        };
        // From here on, dropping the engine stops what has been started.
        for lane in &core.lanes {
            let (ready_tx, ready_rx) = mpsc::channel();
            let (core, own, openssl) = (core.clone(), lane.clone(), provider.openssl);
            let body = move || {
                // The thread has ended with this, whatever happens.
                let _ending = Ending(own.clone());
                match Worker::new(core, own, openssl) {
                    Ok(worker) => {
                        let _ = ready_tx.send(Ok(()));
                        worker.run();
                    }
                    Err(text) => drop(ready_tx.send(Err(text))),
                }
            };
            let thread = spawn("provider", body).map_err(|error| no_thread(&error))?;
            let ready = ready_rx.recv().unwrap_or_else(|_| Err("it ended".into()));
            engine.threads.push((lane.clone(), thread));
            ready.map_err(|text| no_thread(&text))?;
        }
        let (stop_tx, stop_rx) = mpsc::channel();
        let tick = (options.timeout / 8).clamp(Duration::from_millis(1), MAX_TICK);
        let watched = core.clone();
        let watch = move || {
            while stop_rx.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                watched.expire(Instant::now());
            }
        };
        let watchdog = spawn("provider-timer", watch).map_err(|error| no_thread(&error))?;
        engine.stop_watchdog = Some(stop_tx);
        engine.watchdog = Some(watchdog);
        Ok(engine)
    }

    /// Computes with a key of the engine's provider. After the engine is dropped, all operations
    /// fail.
    pub fn accelerator(&self, key: ProviderKey) -> Arc<dyn Accelerator> {
        Arc::new(ByProvider {
            core: self.core.clone(),
            key: Arc::new(key),
        })
    }

    /// What it has done.
    pub fn stats(&self) -> &Arc<ProviderStats> {
        &self.core.stats
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

impl Drop for Engine {
    fn drop(&mut self) {
        for (lane, _) in &self.threads {
            for queued in lane.stop() {
                self.core.stats.queued.lower(1);
                self.core.fail(queued.job, Failure::Stopped, "");
            }
        }
        let deadline = Instant::now() + self.core.options.timeout.mul_f32(1.125) + STOP_GRACE;
        for (lane, thread) in self.threads.drain(..) {
            // A thread that does not return from the provider is left to itself.
            if lane.wait_for_end(deadline) {
                let _ = thread.join();
            }
        }
        drop(self.stop_watchdog.take());
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.core.options)
            .field("stats", &self.core.stats)
            .finish_non_exhaustive()
    }
}

impl Core {
    /// Gives an operation to the thread with the fewest.
    fn submit(&self, job: Job, key: &Arc<ProviderKey>) {
        let now = Instant::now();
        let open = self.lanes.iter().filter(|lane| lane.refusal(now).is_none());
        let Some(lane) = open.min_by_key(|lane| lane.load()) else {
            // The first one's: they differ only while threads get into trouble one by one.
            let mut reasons = self.lanes.iter().filter_map(|lane| lane.refusal(now));
            return self.fail(job, reasons.next().unwrap_or(Failure::Stopped), "");
        };
        let queued = Queued {
            job,
            key: key.clone(),
            submitted_at: now,
        };
        self.stats.queued.raise(1);
        if let Err(queued) = lane.push(queued) {
            self.stats.queued.lower(1);
            self.fail(queued.job, Failure::Stopped, "");
        }
    }

    /// Fails what has taken too long.
    fn expire(&self, now: Instant) {
        for lane in &self.lanes {
            let expired = lane.expire(now);
            self.stats.queued.lower(expired.queued.len());
            self.stats.in_flight.lower(expired.begun.len());
            self.stats.hanging.raise(expired.begun.len());
            let seconds = self.options.timeout.as_secs_f32();
            for job in expired.queued {
                let details = format!("it waited for its turn for {seconds} s");
                self.fail(job, Failure::TimedOut, &details);
            }
            for job in expired.begun {
                let details = format!("it was not done after {seconds} s");
                self.fail(job, Failure::TimedOut, &details);
            }
        }
    }

    /// Fails an operation, unless nobody waits for it any more.
    fn fail(&self, job: Job, reason: Failure, details: &str) {
        if job.is_cancelled() {
            self.stats.cancelled.add(1);
            return;
        }
        self.stats.count_failure(reason);
        // What a client does must not fill the log.
        if reason != Failure::Ciphertext {
            self.reporter.tell(reason, details, Instant::now());
        }
        job.complete(None);
    }
}

/// An engine with one key.
struct ByProvider {
    core: Arc<Core>,
    key: Arc<ProviderKey>,
}

impl Accelerator for ByProvider {
    fn name(&self) -> &'static str {
        "provider"
    }

    fn submit(&self, job: Job) {
        self.core.submit(job, &self.key);
    }
}

impl fmt::Debug for ByProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByProvider").field(&self.key).finish()
    }
}

/// The jobs of one thread, as a provider wakes them.
struct LaneWaker(Weak<Lane>);

impl sealane_sys::openssl::WakeTarget for LaneWaker {
    fn wake(&self, number: usize) {
        // Gone: the engine has ended, and this job was left behind.
        if let Some(lane) = self.0.upgrade() {
            lane.wake_job(number);
        }
    }
}
