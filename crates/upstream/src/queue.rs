//! `queue`: requests that wait until a peer can take them.
//!
//! ```text
//! pick_or_wait ──┬─ a peer
//!                ├─ QueueSlot ── poll_turn ── pick_in_turn_of ──┬─ a peer
//!                │                ^                             │
//!                │                └───────── no peer yet ───────┘
//!                └─ none: no queue, or it is full
//! ```
//!
//! Requests wait in the order in which they came, those of all worker threads in one line. Whenever
//! a peer may have become able to take a request, the first in the line has its turn. It tries, and
//! hands the turn on: if it has found a peer, there may be more; if not, only those behind it go on
//! that may be picked where it may not (see [`Line::after`]). So one event wakes about two
//! requests, however many wait, and nobody looks again and again.
//!
//! A peer that is left out after failures comes back by time alone: only the first in the line
//! watches the clock for that.
//!
//! A group and those that replace it with a reload share the line: their peers may be the same.

use super::group::{Group, PickRequest};
use super::picked::{NoPeer, Picked};
use super::tried::Tried;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// `queue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests that may wait at the same time, over all worker threads.
    pub limit: usize,
    /// How long each may wait.
    pub timeout: Duration,
}

/// The requests that wait for a peer of a group.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// How many there are: whoever ends a request looks no further if there are none.
    waiting: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// By their numbers, which grow.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// Those that belong to a drained peer.
    at_home: usize,
    /// How many came to each group: to more than one after a reload.
    groups: HashMap<GroupId, usize>,
}

#[derive(Debug)]
struct Waiting {
    group: GroupId,
    at_home: bool,
    /// It is to try.
    has_turn: bool,
    waker: Option<Waker>,
}

/// Tells a group from those before and after a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GroupId(u64);

impl GroupId {
    pub(super) fn next() -> GroupId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        GroupId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Why a request has no peer yet.
#[derive(Debug)]
pub enum NotPicked {
    /// It gets none.
    None(NoPeer),
    /// It gets none, as the queue is full.
    QueueFull,
    /// It waits.
    Waits(QueueSlot),
}

/// The place of a request in the queue. Dropping it gives the place up.
#[derive(Debug)]
pub struct QueueSlot {
    queue: Arc<Queue>,
    number: u64,
}

impl Group {
    /// Picks the next peer for a request, as [`Group::pick`] does. If there is none, or others wait
    /// already, the request takes a place in the queue.
    ///
    /// # Errors
    /// See [`NotPicked`].
    pub fn pick_or_wait(
        &self,
        ask: &PickRequest<'_>,
        tried: &mut Tried,
    ) -> Result<Picked, NotPicked> {
        let Some(settings) = self.queue_settings() else {
            return self.pick(ask, tried).map_err(NotPicked::None);
        };
        let queue = self.line();
        if queue.is_empty()
            && let Some(picked) = self.try_pick(ask, tried)
        {
            return Ok(picked);
        }
        let at_home = ask.server_id.is_some_and(|id| self.drains(id));
        match Queue::join(queue, settings.limit, self.id(), at_home) {
            Some(place) => {
                // Those in front may wait for something else than this request needs.
                if self.has_room(ask.now, at_home) {
                    queue.note_change();
                }
                Err(NotPicked::Waits(place))
            }
            None => {
                self.note_without_peer();
                self.note_overflow();
                Err(NotPicked::QueueFull)
            }
        }
    }

    /// Picks a peer for a request that has waited, when [`QueueSlot::poll_turn`] says so.
    ///
    /// # Errors
    /// There is none yet. If the request is the first in the queue, this is after what time it
    /// should ask again even if it has no turn: [`QueueSlot::ask_again`].
    pub fn pick_in_turn_of(
        &self,
        place: &QueueSlot,
        ask: &PickRequest<'_>,
        tried: &mut Tried,
    ) -> Result<Picked, Option<Duration>> {
        let picked = self.try_pick(ask, tried);
        // Others may go where this one may not, or where it has been.
        let others = picked.is_some() || tried.has_any() || ask.own_only;
        let is_first = place.hand_on(others);
        picked.ok_or_else(|| self.next_chance(ask.now).filter(|_| is_first))
    }

    /// A pick that changes nothing if there is no peer.
    fn try_pick(&self, ask: &PickRequest<'_>, tried: &mut Tried) -> Option<Picked> {
        let before = tried.clone();
        let picked = self.pick_in_turn(ask, tried).ok();
        if picked.is_none() {
            *tried = before;
        }
        picked
    }

    /// Requests that wait for a peer.
    pub fn waiting(&self) -> usize {
        self.line().len()
    }
}

impl Queue {
    /// Takes a place. `None` if there are none left.
    fn join(queue: &Arc<Queue>, limit: usize, group: GroupId, at_home: bool) -> Option<QueueSlot> {
        let mut line = queue.line();
        if line.waiting.len() >= limit {
            return None;
        }
        let number = line.next;
        line.next += 1;
        let waiting = Waiting {
            group,
            at_home,
            // A peer may have become free since it was picked for.
            has_turn: line.waiting.is_empty(),
            waker: None,
        };
        line.waiting.insert(number, waiting);
        line.at_home += usize::from(at_home);
        *line.groups.entry(group).or_default() += 1;
        queue.set_waiting(&line);
        drop(line);
        // Either whoever ends a request sees that somebody waits, or who waits sees that it has
        // ended: see `Peer::leave`.
        fence(Ordering::SeqCst);
        Some(QueueSlot {
            queue: Arc::clone(queue),
            number,
        })
    }

    /// A peer may have become able to take a request.
    pub(super) fn note_change(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut line = self.line();
        let first = line.waiting.first_key_value().map(|(number, _)| *number);
        let woken = first.and_then(|first| line.give_turn(first));
        drop(line);
        wake(woken);
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn set_waiting(&self, line: &Line) {
        self.waiting.store(line.waiting.len(), Ordering::SeqCst);
    }

    /// Nothing that can panic runs while it is held.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn is_first(&self, number: u64) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(first, _)| *first == number)
    }

    /// Who goes on after the request with this number has tried. If it has found no peer although
    /// it could have gone to any (`others` is false), that holds for every request behind it,
    /// except for those that came to another group or belong to a drained peer.
    fn after(&self, number: u64, others: bool) -> Option<u64> {
        let mut behind = self.waiting.range((Excluded(number), Unbounded));
        if others {
            return behind.next().map(|(number, _)| *number);
        }
        if self.at_home == 0 && self.groups.len() < 2 {
            return None;
        }
        let group = self.waiting.get(&number)?.group;
        let found = behind.find(|(_, waiting)| waiting.at_home || waiting.group != group);
        found.map(|(number, _)| *number)
    }

    /// Returns whom to wake for it.
    fn give_turn(&mut self, number: u64) -> Option<Waker> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.has_turn = true;
        waiting.waker.take()
    }

    fn remove(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        self.at_home -= usize::from(waiting.at_home);
        if let Some(count) = self.groups.get_mut(&waiting.group) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&waiting.group);
            }
        }
        Some(waiting)
    }
}

/// Never while the line is locked: what is woken may run at once on another thread.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl QueueSlot {
    /// Ready when the request is to try again.
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut line = self.queue.line();
        let Some(waiting) = line.waiting.get_mut(&self.number) else {
            return Poll::Ready(());
        };
        if std::mem::take(&mut waiting.has_turn) {
            return Poll::Ready(());
        }
        match &mut waiting.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The time has come that [`Group::pick_in_turn_of`] has named: whoever is first now has its
    /// turn.
    pub fn ask_again(&self) {
        self.queue.note_change();
    }

    /// It has tried; the turn goes on. Returns whether it is the first in the queue.
    fn hand_on(&self, others: bool) -> bool {
        let mut line = self.queue.line();
        let is_first = line.is_first(self.number);
        let next = line.after(self.number, others);
        let woken = next.and_then(|next| line.give_turn(next));
        drop(line);
        wake(woken);
        is_first
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut line = self.queue.line();
        let was_first = line.is_first(self.number);
        let next = line.after(self.number, true);
        let removed = line.remove(self.number);
        self.queue.set_waiting(&line);
        // The next one becomes the first, which watches the clock, or it is its turn now.
        let goes_on = was_first || removed.is_some_and(|removed| removed.has_turn);
        let woken = next.filter(|_| goes_on);
        let woken = woken.and_then(|next| line.give_turn(next));
        drop(line);
        wake(woken);
    }
}
