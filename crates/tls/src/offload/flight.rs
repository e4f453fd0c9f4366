//! A handshake passing through the pool.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use sealane_awslc as awslc;
use sealane_awslc::{HandshakeStatus, KeyOperation, Secret};

use super::pool::Shared;
use crate::accelerator::{Accelerator, PendingJob, job};

/// A connection to libssl in the middle of its handshake, with everything that the next step needs.
pub(crate) struct Flight {
    tls: awslc::Connection,
    accelerator: Arc<dyn Accelerator>,
    /// Received but not taken by libssl yet: the records of the ClientHello, or nothing.
    input: Vec<u8>,
    output: Vec<u8>,
    /// An operation that libssl waits for and that has not been submitted yet.
    wanted: Option<KeyOperation>,
    job: Option<PendingJob>,
    handed_over_at: Instant,
    queue_time: Duration,
    slot: Arc<Slot>,
}

/// A flight that has come back.
pub(crate) struct Landed {
    pub(crate) tls: awslc::Connection,
    pub(crate) status: Result<HandshakeStatus, awslc::Error>,
    /// To be sent to the client, whatever the status.
    pub(crate) output: Vec<u8>,
    /// How long it waited for a thread and in the accelerator.
    pub(crate) queue_time: Duration,
}

/// Why a flight does not come back.
pub(crate) enum Lost {
    /// It panicked.
    Panic(Box<dyn Any + Send>),
    /// The pool stops.
    Stopped,
}

/// Room for the server's first flight with a typical certificate chain.
const OUTPUT_BYTES: usize = 4096;

impl Flight {
    /// A flight, and the handle with which its connection waits for it. `wanted` is the operation
    /// that libssl is already waiting for.
    pub(crate) fn new(
        tls: awslc::Connection,
        accelerator: Arc<dyn Accelerator>,
        input: Vec<u8>,
        wanted: Option<KeyOperation>,
        pool: Weak<Shared>,
    ) -> (Box<Self>, FlightHandle) {
        let slot = Arc::new(Slot {
            state: Mutex::new(FlightState::Away(None)),
            pool,
        });
        let flight = Self {
            tls,
            accelerator,
            input,
            output: Vec::with_capacity(OUTPUT_BYTES),
            wanted,
            job: None,
            handed_over_at: Instant::now(),
            queue_time: Duration::ZERO,
            slot: Arc::clone(&slot),
        };
        (Box::new(flight), FlightHandle { slot })
    }

    /// Whether its connection is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(*self.slot.lock(), FlightState::Abandoned)
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    pub(crate) fn accelerator(&self) -> &Arc<dyn Accelerator> {
        &self.accelerator
    }

    /// When it left its worker.
    pub(crate) fn handed_over_at(&self) -> Instant {
        self.handed_over_at
    }

    /// Adds time in which no work was done for it.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.queue_time += time;
    }

    /// Returns it to where it came from, before any work was done for it.
    pub(crate) fn into_parts(self) -> (awslc::Connection, Option<KeyOperation>) {
        (self.tls, self.wanted)
    }

    /// Gives libssl the result of its operation.
    fn job_done(&mut self, result: Option<Secret>) {
        if let Some(job) = self.job.take() {
            self.queue_time += job.queue_time();
        }
        self.tls.complete_key_operation(result);
    }

    /// Continues until the handshake needs a result that is not available, or something from the
    /// worker.
    pub(crate) fn go_on(mut self: Box<Self>) -> Progress {
        loop {
            if let Some(operation) = self.wanted.take() {
                let (job, pending) = job(operation);
                self.accelerator.submit(job);
                self.job = Some(pending);
            }
            if let Some(job) = &mut self.job {
                let Some(result) = job.try_take() else {
                    return Progress::Waits(self);
                };
                self.job_done(result);
            }
            let mut input = &self.input[..];
            let status = self.tls.do_handshake(&mut input, &mut self.output);
            let taken = self.input.len() - input.len();
            self.input.drain(..taken);
            if let Ok(HandshakeStatus::Pending) = status {
                self.wanted = self.tls.take_key_operation();
                if self.wanted.is_some() {
                    continue;
                }
            }
            debug_assert!(
                status.is_err() || self.input.is_empty(),
                "libssl takes all of a hello"
            );
            return Progress::Over(Box::new(Landed {
                tls: self.tls,
                status,
                output: self.output,
                queue_time: self.queue_time,
            }));
        }
    }
}

/// The state of a flight after a thread has worked on it.
pub(crate) enum Progress {
    /// Its job is not done.
    Waits(Box<Flight>),
    /// The worker continues.
    Over(Box<Landed>),
}

/// Where a flight is kept.
pub(crate) struct Slot {
    state: Mutex<FlightState>,
    pool: Weak<Shared>,
}

/// Drawn with the states around it in the server's `connection/handshake.rs`.
enum FlightState {
    /// A thread has it, or it is queued for one. Holds the waker for when it lands.
    Away(Option<Waker>),
    /// It waits for its job. Holds the waker for when it lands.
    Parked(Box<Flight>, Option<Waker>),
    Landed(Result<Box<Landed>, Lost>),
    /// Its connection is gone, or has taken it.
    Abandoned,
}

impl Slot {
    /// Parks the flight here until its job is done; returns it if the job is already done. Also
    /// returns `None` if the flight was abandoned: it is dropped then, and its job cancelled.
    pub(crate) fn park(self: &Arc<Self>, mut flight: Box<Flight>) -> Option<Box<Flight>> {
        let waker = Waker::from(Arc::clone(self));
        let mut state = self.lock();
        let FlightState::Away(waiter) = &mut *state else {
            drop(state);
            return None; // The flight is dropped without the lock.
        };
        // A job that finishes between these lines wakes the slot, which waits for the lock.
        let job = flight.job.as_mut()?;
        match job.poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                let waiter = waiter.take();
                *state = FlightState::Parked(flight, waiter);
                None
            }
            Poll::Ready(result) => {
                flight.job_done(result);
                Some(flight)
            }
        }
    }

    /// Hands the flight to its connection. Returns the waker of whoever waits for it.
    pub(crate) fn land(&self, arrival: Result<Box<Landed>, Lost>) -> Option<Waker> {
        let mut state = self.lock();
        let FlightState::Away(waiter) = &mut *state else {
            drop(state);
            return None; // What nobody waits for is dropped without the lock.
        };
        let waiter = waiter.take();
        *state = FlightState::Landed(arrival);
        waiter
    }

    fn lock(&self) -> MutexGuard<'_, FlightState> {
        // Every change is one assignment, which a panic cannot interrupt.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Slot {
    /// The job of the parked flight is done.
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        let FlightState::Parked(..) = &*state else {
            return;
        };
        let FlightState::Parked(flight, waiter) =
            std::mem::replace(&mut *state, FlightState::Abandoned)
        else {
            return;
        };
        match self.pool.upgrade() {
            Some(pool) => {
                *state = FlightState::Away(waiter);
                drop(state);
                pool.resume(flight);
            }
            None => {
                drop(state);
                drop(flight);
            }
        }
    }
}

/// The handle with which a connection waits for its flight. Dropping it abandons the flight.
pub(crate) struct FlightHandle {
    slot: Arc<Slot>,
}

impl FlightHandle {
    /// Ready when the flight has landed.
    pub(crate) fn poll_landed(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.slot.lock() {
            FlightState::Away(waiter) | FlightState::Parked(_, waiter) => {
                if !waiter.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                    *waiter = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            FlightState::Landed(_) | FlightState::Abandoned => Poll::Ready(()),
        }
    }

    /// Takes the flight if it has landed. The inner `None` means that it never will, as the pool
    /// has stopped.
    ///
    /// # Panics
    ///
    /// If the flight panicked, the panic is resumed here, where it belongs to a connection.
    pub(crate) fn take(&self) -> Option<Option<Box<Landed>>> {
        let mut state = self.slot.lock();
        if matches!(*state, FlightState::Away(_) | FlightState::Parked(..)) {
            return None;
        }
        let landed = std::mem::replace(&mut *state, FlightState::Abandoned);
        drop(state);
        match landed {
            FlightState::Landed(Ok(landed)) => Some(Some(landed)),
            FlightState::Landed(Err(Lost::Panic(panic))) => std::panic::resume_unwind(panic),
            _ => Some(None),
        }
    }
}

impl Drop for FlightHandle {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.slot.lock(), FlightState::Abandoned);
        // A parked flight is dropped outside the lock, because its job calls back.
        drop(left);
    }
}

impl fmt::Debug for FlightHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.slot.lock() {
            FlightState::Away(_) => "away",
            FlightState::Parked(..) => "parked",
            FlightState::Landed(_) => "landed",
            FlightState::Abandoned => "abandoned",
        };
        write!(f, "FlightHandle({state})")
    }
}
