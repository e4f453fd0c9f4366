//! The threads that handshakes are handed to.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sealane_awslc as awslc;
use sealane_awslc::KeyOperation;

use super::courtesy;
use super::flight::{Flight, FlightHandle, Landed, Lost, Progress, Slot};
use crate::accelerator::{Accelerator, HandshakeStats};

/// Threads for handshakes (`ssl_async_threads`), shared by all workers.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    wake_together: WakeTogether,
    stats: Arc<HandshakeStats>,
}

#[derive(Default)]
struct Queue {
    /// Flights whose job is done: they are nearly finished.
    resumed: VecDeque<Box<Flight>>,
    /// Flights for which no work has been done yet.
    fresh: VecDeque<Box<Flight>>,
    /// Accelerators that have jobs and no threads of their own.
    working: VecDeque<Arc<dyn Accelerator>>,
    /// Fresh flights taken since an accelerator last worked.
    taken_since_work: usize,
    /// Threads that wait.
    waiting: usize,
    is_stopped: bool,
}

/// The most fresh flights begun while an accelerator has jobs but no full batch. Under a flood of
/// flights with one key, flights with a rarer key must still get their turn.
const MAX_FLIGHTS_BEFORE_WORK: usize = 16;

/// How long a thread computes at a time while others want its processor. Letting them go first
/// costs it about as much again. With the kernel's usual 3 ms, new connections would wait for long
/// beside busy workers, whose slice is shorter still.
const TIME_SLICE: Duration = Duration::from_micros(300);

/// How long a flight that has landed waits for others, which would wake the same worker. A batch
/// lands within this time; a single operation with RSA takes longer.
const GROUP_TIME: Duration = Duration::from_micros(150);

/// Wakes several tasks, and the thread that they belong to once.
pub type WakeTogether = fn(Vec<Waker>);

/// Flights that have landed, and whose connections do not know yet.
#[derive(Default)]
struct Arrivals {
    wakers: Vec<Waker>,
    since: Option<Instant>,
}

/// A handshake that the pool did not take.
pub(crate) type NotTaken = Box<(awslc::Connection, Option<KeyOperation>)>;

/// What a thread does next.
enum Task {
    GoOn(Box<Flight>),
    Work(Arc<dyn Accelerator>),
}

impl Pool {
    /// Starts `threads` threads.
    pub(crate) fn start(
        threads: usize,
        stats: Arc<HandshakeStats>,
        wake: WakeTogether,
    ) -> io::Result<Self> {
        let pool = Self {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                wake: Condvar::new(),
                wake_together: wake,
                stats,
            }),
            threads: Mutex::default(),
        };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let started = std::thread::Builder::new()
                .name(format!("handshake-{index}"))
                .spawn(move || {
                    let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
                    // Best effort: a sandbox may refuse it.
                    let _ = sealane_sys::process::set_time_slice(TIME_SLICE);
                    shared.run();
                });
            match started {
                Ok(thread) => lock(&pool.threads).push(thread),
                Err(error) => {
                    pool.stop();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// Takes over a handshake that begins with `input` or waits for `wanted`.
    ///
    /// # Errors
    ///
    /// Gives the connection back when the pool has stopped.
    pub(crate) fn hand_over(
        &self,
        tls: awslc::Connection,
        accelerator: &Arc<dyn Accelerator>,
        input: &[u8],
        wanted: Option<KeyOperation>,
    ) -> Result<FlightHandle, NotTaken> {
        // Created before taking the lock, which all workers and threads share.
        let (flight, handle) = Flight::new(
            tls,
            Arc::clone(accelerator),
            input.to_vec(),
            wanted,
            Arc::downgrade(&self.shared),
        );
        let mut queue = self.shared.lock();
        if queue.is_stopped {
            drop(queue);
            return Err(Box::new(flight.into_parts()));
        }
        queue.fresh.push_back(flight);
        self.shared.stats.flights_handed_over.add(1);
        self.shared.stats.queued_flights.raise(1);
        self.shared.notify(queue);
        Ok(handle)
    }

    /// Cancels what is queued, lets running computations finish, and joins the threads.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.is_stopped = true;
        let left = std::mem::take(&mut queue.fresh);
        let resumed = std::mem::take(&mut queue.resumed);
        drop(queue);
        self.shared.stats.queued_flights.lower(left.len());
        self.shared.wake.notify_all();
        for flight in left.into_iter().chain(resumed) {
            land(&flight.slot().clone(), Err(Lost::Stopped));
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // Panics of flights are caught; a panic of the thread itself has been reported.
            let _ = thread.join();
        }
        // Parked flights land when their job ends. Jobs of dead connections cost nothing.
        let working = std::mem::take(&mut self.shared.lock().working);
        for accelerator in working {
            while self.shared.work(&*accelerator) {}
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Takes a flight back whose job is done.
    pub(crate) fn resume(&self, flight: Box<Flight>) {
        let mut queue = self.lock();
        if queue.is_stopped {
            drop(queue);
            land(&flight.slot().clone(), Err(Lost::Stopped));
            return;
        }
        queue.resumed.push_back(flight);
        self.notify(queue);
    }

    fn run(&self) {
        let mut arrivals = Arrivals::default();
        while let Some(task) = self.next(&mut arrivals) {
            match task {
                Task::Work(accelerator) => {
                    self.work(&*accelerator);
                }
                Task::GoOn(flight) => self.go_on(flight, &mut arrivals),
            }
            courtesy::let_others_run();
        }
    }

    /// Tells connections that their flights have landed.
    fn announce(&self, arrivals: &mut Arrivals) {
        arrivals.since = None;
        (self.wake_together)(std::mem::take(&mut arrivals.wakers));
    }

    /// Lets an accelerator compute; `false` if nothing was queued.
    fn work(&self, accelerator: &dyn Accelerator) -> bool {
        // Jobs that a panic leaves behind fail by being dropped.
        catch_unwind(AssertUnwindSafe(|| accelerator.work())).unwrap_or(false)
    }

    fn go_on(&self, mut flight: Box<Flight>, arrivals: &mut Arrivals) {
        loop {
            if flight.is_abandoned() {
                return;
            }
            let slot = Arc::clone(flight.slot());
            let accelerator = Arc::clone(flight.accelerator());
            let handed_over_at = flight.handed_over_at();
            let progress = catch_unwind(AssertUnwindSafe(|| flight.go_on()));
            match progress {
                Ok(Progress::Over(landed)) => {
                    self.stats.flight_time.record(handed_over_at.elapsed());
                    arrivals.add(slot.land(Ok(landed)));
                    return;
                }
                Ok(Progress::Waits(waiting)) => match slot.park(waiting) {
                    Some(done) => flight = done,
                    None => {
                        self.note_work(&accelerator);
                        return;
                    }
                },
                Err(panic) => {
                    arrivals.add(slot.land(Err(Lost::Panic(panic))));
                    return;
                }
            }
        }
    }

    /// Remembers that an accelerator may have jobs that no thread is computing.
    fn note_work(&self, accelerator: &Arc<dyn Accelerator>) {
        if accelerator.queued() == 0 {
            return;
        }
        let mut queue = self.lock();
        let is_known = queue
            .working
            .iter()
            .any(|known| Arc::ptr_eq(known, accelerator));
        if !is_known {
            queue.working.push_back(Arc::clone(accelerator));
        }
        // This thread looks next; another is needed for whatever it does not take.
    }

    /// Waits for something to do; `None` when the pool stops. Announces arrivals before anything
    /// that takes longer than landing another flight.
    fn next(&self, arrivals: &mut Arrivals) -> Option<Task> {
        let mut queue = self.lock();
        loop {
            if arrivals.are_due(!queue.resumed.is_empty()) {
                drop(queue);
                self.announce(arrivals);
                queue = self.lock();
            }
            if queue.is_stopped {
                return None;
            }
            if let Some(task) = queue.take(&self.stats) {
                // There is more than one thread can take: each thread wakes the next.
                if queue.has_more() && queue.waiting > 0 {
                    self.wake.notify_one();
                }
                return Some(task);
            }
            queue.waiting += 1;
            queue = self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
        }
    }

    /// Wakes a thread for what was just queued, if one waits.
    fn notify(&self, queue: MutexGuard<'_, Queue>) {
        let is_awaited = queue.waiting > 0;
        drop(queue);
        if is_awaited {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Arrivals {
    fn add(&mut self, waiter: Option<Waker>) {
        if let Some(waiter) = waiter {
            self.wakers.push(waiter);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether they must not wait for others, of which there are `more` or none.
    fn are_due(&self, more: bool) -> bool {
        let since = self.since;
        since.is_some_and(|since| !more || since.elapsed() >= GROUP_TIME)
    }
}

/// Lands a flight and tells its connection at once.
fn land(slot: &Slot, arrival: Result<Box<Landed>, Lost>) {
    if let Some(waiter) = slot.land(arrival) {
        waiter.wake();
    }
}

impl Queue {
    fn take(&mut self, stats: &HandshakeStats) -> Option<Task> {
        if let Some(flight) = self.resumed.pop_front() {
            return Some(Task::GoOn(flight));
        }
        self.working.retain(|accelerator| accelerator.queued() > 0);
        let is_full =
            |accelerator: &Arc<dyn Accelerator>| accelerator.queued() >= accelerator.batch_size();
        if let Some(full) = self.working.iter().position(is_full) {
            return self.work_at(full);
        }
        if self.taken_since_work >= MAX_FLIGHTS_BEFORE_WORK
            && let Some(task) = self.work_at(0)
        {
            return Some(task);
        }
        if let Some(mut flight) = self.fresh.pop_front() {
            self.taken_since_work += 1;
            let waited = flight.handed_over_at().elapsed();
            flight.waited(waited);
            stats.queued_flights.lower(1);
            stats.flight_queue_time.record(waited);
            return Some(Task::GoOn(flight));
        }
        self.work_at(0)
    }

    /// Round-robin among accelerators.
    fn work_at(&mut self, index: usize) -> Option<Task> {
        let accelerator = self.working.remove(index)?;
        self.taken_since_work = 0;
        self.working.push_back(Arc::clone(&accelerator));
        Some(Task::Work(accelerator))
    }

    fn has_more(&self) -> bool {
        let has_batch =
            |accelerator: &Arc<dyn Accelerator>| accelerator.queued() > accelerator.batch_size();
        !self.resumed.is_empty() || !self.fresh.is_empty() || self.working.iter().any(has_batch)
    }
}

/// Every change under these locks is a single step that a panic cannot interrupt.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.shared.lock();
        f.debug_struct("Pool")
            .field("fresh", &queue.fresh.len())
            .field("resumed", &queue.resumed.len())
            .field("waiting_threads", &queue.waiting)
            .field("is_stopped", &queue.is_stopped)
            .finish_non_exhaustive()
    }
}
