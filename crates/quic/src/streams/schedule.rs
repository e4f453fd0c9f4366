//! Which stream is sent next, RFC 9218 section 10.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::send::SendPart;
use super::table::Table;
use super::{KEPT_ENTRIES, StreamId};

/// The key of a stream that has nothing new to send.
pub(super) const NOT_READY: u64 = u64::MAX;
/// Least urgent, RFC 9218 section 4.1.
pub(super) const MAX_URGENCY: u8 = 7;
/// Entries of streams that are not ready any more are tolerated up to this number and as many as
/// there are streams that are; then they are cleared away.
const MAX_STALE: usize = 64;

/// Key and stream. The key has the urgency in its three highest bits; below are id or turn.
type Slot = Reverse<(u64, StreamId)>;

/// The streams that have something new to send, in two heaps: those that are sent one after the
/// other in the order of their ids, and those that take turns. Where both have streams of the same
/// urgency, the heaps take turns too, so that none of them waits for ever.
///
/// An entry counts if its stream still has the same key. Others are dropped when they come up.
#[derive(Default)]
pub(super) struct Schedule {
    in_order: BinaryHeap<Slot>,
    by_turns: BinaryHeap<Slot>,
    turn: u64,
    ready: usize,
    last_by_turns: bool,
}

impl Schedule {
    /// Whether there is no stream.
    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Adds a stream, unless it is there. Returns whether it is time for [`Schedule::clear_away`].
    pub(super) fn add(&mut self, id: StreamId, part: &mut SendPart) -> bool {
        if part.slot == NOT_READY {
            self.ready += 1;
            self.push(id, part);
        }
        self.in_order.len() + self.by_turns.len() > 2 * self.ready + MAX_STALE
    }

    fn push(&mut self, id: StreamId, part: &mut SendPart) {
        let urgency = u64::from(part.urgency.min(MAX_URGENCY)) << 61;
        if part.incremental {
            self.turn += 1;
            part.slot = urgency | self.turn;
            self.by_turns.push(Reverse((part.slot, id)));
        } else {
            part.slot = urgency | id.to_wire() >> 1;
            self.in_order.push(Reverse((part.slot, id)));
        }
    }

    /// Takes a stream out.
    pub(super) fn withdraw(&mut self, part: &mut SendPart) {
        if part.slot != NOT_READY {
            part.slot = NOT_READY;
            self.ready -= 1;
        }
    }

    /// The stream that is next. It stays next until [`Schedule::sent`].
    pub(super) fn next(&mut self, table: &Table) -> Option<StreamId> {
        let in_order = top(&mut self.in_order, table);
        let by_turns = top(&mut self.by_turns, table);
        let (Some((a, in_order)), Some((b, by_turns))) = (in_order, by_turns) else {
            return in_order.or(by_turns).map(|slot| slot.1);
        };
        let prefer_turns = match (a >> 61).cmp(&(b >> 61)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !self.last_by_turns,
            std::cmp::Ordering::Greater => true,
        };
        Some(if prefer_turns { by_turns } else { in_order })
    }

    /// The stream that was next has sent a frame, and has `more`.
    pub(super) fn sent(&mut self, id: StreamId, part: &mut SendPart, more: bool) {
        self.last_by_turns = part.incremental;
        if more && !part.incremental {
            return;
        }
        let heap = if part.incremental {
            &mut self.by_turns
        } else {
            &mut self.in_order
        };
        heap.pop();
        if more {
            self.push(id, part);
        } else {
            self.withdraw(part);
            if heap_is_oversized(&self.in_order) || heap_is_oversized(&self.by_turns) {
                self.in_order.shrink_to(KEPT_ENTRIES);
                self.by_turns.shrink_to(KEPT_ENTRIES);
            }
        }
    }

    /// Drops the entries that do not count.
    pub(super) fn clear_away(&mut self, table: &Table) {
        for heap in [&mut self.in_order, &mut self.by_turns] {
            let mut slots = std::mem::take(heap).into_vec();
            slots.retain(|slot| counts(slot, table));
            slots.sort_unstable();
            slots.dedup();
            *heap = slots.into();
        }
    }

    /// Forgets all streams; their keys are the caller's matter.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.in_order.len() + self.by_turns.len()
    }
}

fn heap_is_oversized(heap: &BinaryHeap<Slot>) -> bool {
    heap.capacity() > KEPT_ENTRIES && heap.is_empty()
}

fn counts(&Reverse((key, id)): &Slot, table: &Table) -> bool {
    let send = table.get(id).and_then(|entry| entry.send.as_ref());
    send.is_some_and(|part| part.slot == key)
}

fn top(heap: &mut BinaryHeap<Slot>, table: &Table) -> Option<(u64, StreamId)> {
    while let Some(slot) = heap.peek() {
        if counts(slot, table) {
            return Some(slot.0);
        }
        heap.pop();
    }
    None
}
