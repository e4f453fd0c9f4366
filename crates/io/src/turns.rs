//! Who goes next: a fair share of a worker thread for new connections.
//!
//! A handshake costs as much as a hundred requests. If a thread did all that are
//! ready before it looked at its sockets again, every established connection would
//! wait for all of them. So handshakes take turns:
//!
//! ```text
//! turn of the event loop:  poll the sockets -> run what became ready -> a few flights
//!                               ^                                            |
//!                               +------- somebody still waits ---------------+
//! ```
//!
//! A flight is one call that goes on with a handshake. Whoever wants to do one asks
//! [`Turns`] first. While nobody waits and this turn's budget is not spent the answer
//! is yes, at the cost of a clock read. Otherwise the handshake joins a queue, first come,
//! first served, and the next turn begins only after the sockets were polled and all
//! that became ready there has run. At least one flight is done in every turn, and
//! handshakes together get as much time as everything else took in the same turn, so
//! that a worker with ten thousand busy connections does not starve new ones.
//!
//! Accepting is paced by the same turns: `multi_accept off`, the default, takes a few
//! connections per turn.
//!
//! The start of a turn relies on one property of the event loop: what [`defer`](runtime::defer)
//! defers is woken after the sockets have been looked at, behind the tasks that became ready
//! there, and those run in the order in which they were woken. A test holds it to that.

use crate::runtime;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Time for flights in one turn, in microseconds. An established connection waits for
/// this much, or for one flight if that takes longer. Two signatures with P-256 fit
/// together with the rest of their flights; one with RSA does not.
const BUDGET_US: u64 = 200;
const BUDGET: Duration = Duration::from_micros(BUDGET_US);

/// Connections that one turn accepts, `multi_accept off`. nginx takes one for each round of
/// its loop; taking and starting one costs some 15 us here, so that four are still short
/// against a flight, and a round of the loop is shared by four.
const ACCEPTS_PER_TURN: u32 = 4;

/// The turns of one worker thread. Other threads may only read its numbers; the lock
/// is never contended.
pub struct Turns {
    state: Mutex<TurnsState>,
    /// Something was done since the turn began: whoever begins the next has to take note.
    used: AtomicBool,
    /// Accept without pause (`multi_accept on`, or the queue is being emptied).
    accept_all: AtomicBool,
    /// Handshakes that wait for somebody else: the pool or an accelerator.
    in_flight: AtomicU64,
}

#[derive(Default)]
struct TurnsState {
    /// Who waits, in the order of arrival.
    waiting: BTreeMap<u64, Waker>,
    next_number: u64,
    /// Woken, and not run yet.
    granted: Option<u64>,
    /// Time spent on flights in this turn.
    spent: Duration,
    /// When this turn began; `None` when the thread had nothing to do before.
    began: Option<Instant>,
    accepted: u32,
    /// Accept loops that wait for the next turn.
    accepting: Vec<Waker>,
    /// The next turn is going to begin.
    armed: bool,
}

/// A handshake's slot among those that take turns, for as long as it lasts; dropping it frees the
/// slot.
pub struct HandshakeSlot {
    turns: Arc<Turns>,
    number: Option<u64>,
    since: Option<Instant>,
    waited: Duration,
    in_flight: bool,
}

/// Permission to do one flight, now; dropped when it is done.
pub struct Turn {
    turns: Arc<Turns>,
    started: Instant,
}

impl Turns {
    /// Turns of a thread that accepts a few connections per turn, or all at once
    /// (`multi_accept`).
    pub fn new(multi_accept: bool) -> Arc<Turns> {
        Arc::new(Turns {
            state: Mutex::default(),
            used: AtomicBool::new(false),
            accept_all: AtomicBool::new(multi_accept),
            in_flight: AtomicU64::new(0),
        })
    }

    /// Handshakes that wait for a turn.
    pub fn waiting(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + usize::from(state.granted.is_some())
    }

    /// Handshakes that wait for the pool or an accelerator.
    pub fn in_flight(&self) -> usize {
        usize::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// A place for a handshake that begins.
    pub fn place(self: &Arc<Turns>) -> HandshakeSlot {
        HandshakeSlot {
            turns: Arc::clone(self),
            number: None,
            since: None,
            waited: Duration::ZERO,
            in_flight: false,
        }
    }

    /// The thread has nothing to do and will poll its sockets: whatever comes is a new turn.
    pub fn rest(&self) {
        // This is called before every wait: mostly there is nothing to do.
        if self.used.load(Ordering::Relaxed) {
            self.used.store(false, Ordering::Relaxed);
            let mut state = self.lock();
            state.spent = Duration::ZERO;
            state.accepted = 0;
            state.began = None;
        }
    }

    /// Ready when one more connection may be accepted in this turn.
    pub fn poll_accept(self: &Arc<Turns>, cx: &mut Context<'_>) -> Poll<()> {
        if self.accept_all.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let mut state = self.lock();
        if state.accepted < ACCEPTS_PER_TURN {
            return Poll::Ready(());
        }
        if !state
            .accepting
            .iter()
            .any(|known| known.will_wake(cx.waker()))
        {
            state.accepting.push(cx.waker().clone());
        }
        let arm = state.arm();
        drop(state);
        self.arm(arm);
        Poll::Pending
    }

    /// Counts a connection that was accepted.
    pub fn count_accept(&self) {
        if !self.accept_all.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
            self.lock().accepted += 1;
        }
    }

    /// A flight may be done now, or the task of `cx` is woken when it may.
    fn poll_turn(self: &Arc<Turns>, number: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        self.used.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        if let Some(mine) = *number {
            if state.granted == Some(mine) {
                state.granted = None;
                *number = None;
                return Poll::Ready(());
            }
            if let Some(waker) = state.waiting.get_mut(&mine) {
                waker.clone_from(cx.waker());
            }
            return Poll::Pending;
        }
        if state.is_free() {
            return Poll::Ready(());
        }
        *number = Some(state.join(cx.waker().clone()));
        // Whoever was granted a flight sees to those behind; else the next turn does.
        let arm = state.granted.is_none() && state.arm();
        drop(state);
        self.arm(arm);
        Poll::Pending
    }

    /// A flight took so long.
    fn finish(self: &Arc<Turns>, took: Duration) {
        let mut state = self.lock();
        state.spent += took;
        self.hand_on(state);
    }

    /// A place in the queue is given up.
    fn leave(self: &Arc<Turns>, number: u64) {
        let mut state = self.lock();
        if state.granted == Some(number) {
            state.granted = None;
            self.hand_on(state);
        } else {
            state.waiting.remove(&number);
        }
    }

    /// The next in the queue goes on in this turn or in the next.
    fn hand_on(self: &Arc<Turns>, mut state: MutexGuard<'_, TurnsState>) {
        if state.granted.is_some() || state.waiting.is_empty() {
            return;
        }
        let next = if state.spent < state.allowance() {
            state.grant()
        } else {
            None
        };
        let arm = next.is_none() && state.arm();
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
        self.arm(arm);
    }

    /// Asks for the next turn: this object is woken when it begins.
    fn arm(self: &Arc<Turns>, wanted: bool) {
        if wanted {
            let waker = Waker::from(Arc::clone(self));
            runtime::defer(waker);
        }
    }

    /// The sockets have been polled.
    fn begin(&self) {
        let mut state = self.lock();
        state.armed = false;
        state.spent = Duration::ZERO;
        state.accepted = 0;
        state.began = Some(Instant::now());
        let accepting = std::mem::take(&mut state.accepting);
        let next = if state.granted.is_none() {
            state.grant()
        } else {
            None
        };
        drop(state);
        accepting.into_iter().chain(next).for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        // No call in here can panic with the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Turns {
    fn wake(self: Arc<Self>) {
        self.begin();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.begin();
    }
}

impl TurnsState {
    /// Whether a newcomer may go on at once.
    fn is_free(&self) -> bool {
        self.waiting.is_empty() && self.granted.is_none() && self.spent < BUDGET
    }

    fn join(&mut self, waker: Waker) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.waiting.insert(number, waker);
        number
    }

    /// Time for flights in this turn: the budget, or as much as everything else has taken.
    fn allowance(&self) -> Duration {
        let others = self.began.map_or(Duration::ZERO, |began| {
            began.elapsed().saturating_sub(self.spent)
        });
        others.max(BUDGET)
    }

    fn grant(&mut self) -> Option<Waker> {
        let (number, waker) = self.waiting.pop_first()?;
        self.granted = Some(number);
        Some(waker)
    }

    /// Whether the next turn has still to be asked for.
    fn arm(&mut self) -> bool {
        !std::mem::replace(&mut self.armed, true)
    }
}

impl HandshakeSlot {
    /// Permission for one flight; the task of `cx` is woken when it is there.
    pub fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if self.turns.poll_turn(&mut self.number, cx).is_pending() {
            self.since.get_or_insert_with(Instant::now);
            return Poll::Pending;
        }
        let started = Instant::now();
        if let Some(since) = self.since.take() {
            self.waited += started - since;
        }
        Poll::Ready(Turn {
            turns: Arc::clone(&self.turns),
            started,
        })
    }

    /// Time spent waiting for turns so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Says whether the handshake waits for the pool or an accelerator.
    pub fn set_in_flight(&mut self, in_flight: bool) {
        if self.in_flight != in_flight {
            self.in_flight = in_flight;
            let count = &self.turns.in_flight;
            if in_flight {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.set_in_flight(false);
        if let Some(number) = self.number {
            self.turns.leave(number);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.finish(self.started.elapsed());
    }
}

#[cfg(test)]
mod tests;
