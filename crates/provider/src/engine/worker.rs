//! One thread of an engine: it starts jobs, and resumes those that can go on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_awslc::{KeyKind, KeyOperation, Secret};
use sealane_sys::epoll::{Epoll, Watch};
use sealane_sys::openssl::{
    AsyncJob, JobThread, Openssl, OpensslError, Operation, Progress, WaitContext,
};
use sealane_tls::accelerator::Job;

use super::lane::{Lane, Queued};
use super::{Core, LaneWaker};
use crate::input::input_of;
use crate::{Failure, ProviderKey};

/// The most operations that are begun before those that can go on are looked at again.
const BEGIN_AT_ONCE: usize = 16;
/// How long a device that took no more is left alone.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// The token of the lane's signal. Those of descriptors are their numbers.
const SIGNAL: u64 = u64::MAX;

pub(super) struct Worker {
    core: Arc<Core>,
    lane: Arc<Lane>,
    openssl: Openssl,
    thread: JobThread,
    epoll: Epoll,
    /// By the numbers of jobs.
    slots: Vec<Slot>,
    /// Numbers that no job has. The last one is next: what a provider keeps for it may be in the
    /// processor's cache.
    free: Vec<usize>,
    /// Which jobs wait for a descriptor.
    waiting: HashMap<i32, Vec<usize>>,
    /// Jobs whose device took no more.
    retries: BTreeSet<usize>,
}

/// Room for one job after the other.
#[derive(Default)]
struct Slot {
    paused: Option<Paused>,
    /// Without a job.
    wait: Option<WaitContext>,
    /// For which of them the slot is in `waiting`.
    fds: Vec<i32>,
}

struct Paused {
    job: AsyncJob,
    about: About,
}

/// What is remembered of an operation that has begun.
struct About {
    key: Arc<ProviderKey>,
    begun_at: Instant,
}

impl Worker {
    /// Prepares the thread that calls it. The error is for the operator.
    pub(super) fn new(core: Arc<Core>, lane: Arc<Lane>, openssl: Openssl) -> Result<Self, String> {
        // Jobs that hang are among those in flight.
        let thread = JobThread::new(openssl, lane.max_in_flight());
        let thread = thread.map_err(|error| error.to_string())?;
        let epoll = Epoll::new().map_err(|error| error.to_string())?;
        epoll
            .add(lane.signal(), SIGNAL, Watch::Input)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            core,
            lane,
            openssl,
            thread,
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            waiting: HashMap::new(),
            retries: BTreeSet::new(),
        })
    }

    /// Works until the engine stops.
    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            let turn = self.lane.turn(self.most_to_begin());
            if turn.is_over {
                break;
            }
            for number in turn.woken {
                self.resume(number);
            }
            for queued in turn.new {
                self.begin(queued);
            }
            let timeout = match () {
                () if turn.has_more && self.most_to_begin() > 0 => Some(Duration::ZERO),
                () if !self.retries.is_empty() => Some(RETRY_INTERVAL),
                () => None,
            };
            ready.clear();
            let waited = self.epoll.wait(timeout, |event| ready.push(event.token));
            if waited.is_err() {
                break; // The descriptor is ours and open: this does not happen.
            }
            self.resume_ready(&ready);
            for number in std::mem::take(&mut self.retries) {
                self.core.stats.retries.add(1);
                self.resume(number);
            }
        }
        // Jobs that hang are left in memory, with their wait contexts and keys.
        let hanging = self.slots.iter().filter(|slot| slot.paused.is_some());
        let hanging = hanging.count();
        let Self { slots, thread, .. } = self;
        drop(slots);
        if hanging == 0 {
            thread.end();
        }
    }

    /// As many new operations as there is room for. While a device takes no more, none.
    fn most_to_begin(&self) -> usize {
        let in_use = self.slots.len() - self.free.len();
        match self.retries.is_empty() {
            true => BEGIN_AT_ONCE.min(self.lane.max_in_flight() - in_use),
            false => 0,
        }
    }

    fn begin(&mut self, queued: Queued) {
        let stats = self.core.stats.clone();
        let Queued {
            job,
            key,
            submitted_at,
        } = queued;
        stats.queued.lower(1);
        let now = Instant::now();
        stats.queue_time.record(job.begin(now));
        if job.is_cancelled() {
            self.lane.forget();
            return stats.cancelled.add(1);
        }
        let input = match input_of(key.kind(), &key.modulus, job.operation()) {
            Ok(input) => input,
            Err(reason) => {
                let details = format!("{:?} with {:?}", job.operation(), key.public);
                self.lane.forget();
                return self.core.fail(job, reason, &details);
            }
        };
        let (number, wait) = match self.slot() {
            Ok(found) => found,
            Err(error) => {
                self.lane.forget();
                return self.core.fail(job, Failure::Error, &error.to_string());
            }
        };
        stats.in_flight.raise(1);
        self.lane.begin(number, job, submitted_at);
        let about = About { key, begun_at: now };
        self.lane.set_inside(Some(now));
        let operation = Operation::new(&about.key.key, input);
        let progress = AsyncJob::start(&self.thread, operation, wait);
        self.settle(number, progress, about, now);
    }

    /// A free slot's number, and its wait context.
    fn slot(&mut self) -> Result<(usize, WaitContext), OpensslError> {
        if let Some(number) = self.free.pop()
            && let Some(wait) = self.slots[number].wait.take()
        {
            return Ok((number, wait));
        }
        let number = self.slots.len();
        let target = Box::new(LaneWaker(Arc::downgrade(&self.lane)));
        let wait = WaitContext::new(self.openssl, target, number)?;
        self.slots.push(Slot::default());
        Ok((number, wait))
    }

    fn resume_ready(&mut self, tokens: &[u64]) {
        for token in tokens {
            let fd = i32::try_from(*token).ok();
            // The numbers are copied: resuming a job may change who waits for what.
            let numbers = fd.and_then(|fd| self.waiting.get(&fd)).cloned();
            for number in numbers.unwrap_or_default() {
                self.resume(number);
            }
        }
    }

    /// Resumes a job if it is paused. It may not be: a job can be woken before it pauses, or twice.
    fn resume(&mut self, number: usize) {
        let paused = self
            .slots
            .get_mut(number)
            .and_then(|slot| slot.paused.take());
        let Some(Paused { job, about }) = paused else {
            return;
        };
        self.retries.remove(&number);
        let now = Instant::now();
        self.lane.set_inside(Some(now));
        let progress = job.resume();
        self.settle(number, progress, about, now);
    }

    /// What comes after a job ran. The thread has been in the provider since `entered_at`.
    fn settle(&mut self, number: usize, progress: Progress, about: About, entered_at: Instant) {
        match progress {
            Progress::Paused(job) => {
                self.core.stats.pauses.add(1);
                self.park(number, job, about);
            }
            Progress::Finished { result, wait } => {
                self.slots[number].wait = Some(wait);
                self.free.push(number);
                self.conclude(number, result, &about);
            }
        }
        self.lane.set_inside(None);
        let time = entered_at.elapsed();
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.core.stats.busy_ns.add(time_ns);
    }

    fn park(&mut self, number: usize, job: AsyncJob, about: About) {
        let wait = job.wait_context();
        let mut fds = Vec::new();
        // Fails if a provider names a descriptor that is none. The job may still be woken by a
        // call; otherwise it times out.
        let _ = wait.watch(&self.epoll, &mut fds);
        if wait.wants_retry() {
            self.retries.insert(number);
        }
        let slot = &mut self.slots[number];
        if slot.fds != fds {
            for fd in std::mem::replace(&mut slot.fds, fds) {
                if let Some(numbers) = self.waiting.get_mut(&fd) {
                    numbers.retain(|other| *other != number);
                    if numbers.is_empty() {
                        self.waiting.remove(&fd);
                    }
                }
            }
            for fd in &slot.fds {
                self.waiting.entry(*fd).or_default().push(number);
            }
        }
        slot.paused = Some(Paused { job, about });
    }

    /// Verifies a result and completes its operation.
    fn conclude(&self, number: usize, result: Result<Vec<u8>, OpensslError>, about: &About) {
        let (core, key) = (&self.core, &about.key);
        let result = result.map(Secret::new);
        let Some(job) = self.lane.end(number) else {
            // It hung. Nobody waits for the result, which is wiped.
            core.stats.hanging.lower(1);
            return;
        };
        core.stats.in_flight.lower(1);
        if job.is_cancelled() {
            core.stats.cancelled.add(1);
            return;
        }
        let verified = match result {
            Ok(result) => self.verified(job.operation(), result, key),
            Err(error) => Err((Failure::Error, error.to_string())),
        };
        core.stats.operation_time.record(about.begun_at.elapsed());
        match verified {
            Ok(result) => self.complete(job, result),
            Err((reason, details)) => core.fail(job, reason, &details),
        }
    }

    fn complete(&self, job: Job, result: Secret) {
        self.core.stats.operations.add(1);
        job.complete(Some(result));
    }

    fn verified(
        &self,
        operation: &KeyOperation,
        result: Secret,
        key: &ProviderKey,
    ) -> Result<Secret, (Failure, String)> {
        let result = match operation {
            KeyOperation::Decrypt { input } => padded(result, input.len()),
            KeyOperation::Sign { .. } => result,
        };
        let is_ecdsa = !matches!(key.kind(), KeyKind::Rsa | KeyKind::Ed25519);
        if is_ecdsa && !self.core.options.verify_ecdsa {
            return Ok(result);
        }
        match key.public.verify_result(operation, result.expose()) {
            Ok(()) => Ok(result),
            // AWS-LC's reason says no more than that.
            Err(_) => Err((
                Failure::Wrong,
                format!("{operation:?} with {:?}", key.public),
            )),
        }
    }
}

/// A number as long as the modulus: some providers leave leading zeros away.
fn padded(number: Secret, bytes: usize) -> Secret {
    match bytes.checked_sub(number.expose().len()) {
        None | Some(0) => number,
        Some(zeros) => {
            let mut padded = Vec::with_capacity(bytes);
            padded.resize(zeros, 0);
            padded.extend_from_slice(number.expose());
            Secret::new(padded)
        }
    }
}
