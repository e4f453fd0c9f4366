//! Decides whose DATA is sent next (RFC 9218 section 10).
//!
//! The most urgent streams always come first. Within an urgency, RFC 9218 suggests sending
//! non-incremental responses one after the other in the order of their identifiers, and sharing
//! between incremental ones. Taken literally, a download of a GiB with the default urgency would
//! hold up every later response of a KiB. So every urgency has two lanes:
//!
//! - **fresh**: streams that have sent less than [`FRESH_BYTES`] since they last had nothing to
//!   send. Non-incremental streams go in the order of their identifiers, each to its end;
//!   incremental ones send a frame each in turn. Pages, scripts and style sheets are completed
//!   within this lane, exactly as RFC 9218 has it, and streams that trickle (events, gRPC messages)
//!   never leave it.
//! - **bulk**: streams that have sent more. Non-incremental streams send [`BULK_BYTES`] each in
//!   turn, incremental ones a frame each. Bulk is served when nothing is fresh. In addition, one
//!   frame of bulk follows every [`FRESH_FRAMES`] of fresh, so that many small responses do not
//!   stop a download either.
//!
//! A grant cannot be revoked, so a small response waits for whatever the connection has already
//! handed to the kernel. All operations take constant time, except the search for a position in
//! order, which starts at the end where the newest identifier belongs.

use super::streams::{Lane, NONE, Stream, StreamRef, Streams};
use crate::message::URGENCIES;

/// How much a stream sends before it counts as bulk.
pub(super) const FRESH_BYTES: u32 = 64 * 1024;

/// How much a non-incremental stream of the bulk lane sends before it is the next one's turn.
pub(super) const BULK_BYTES: u32 = 64 * 1024;

/// Frames of fresh streams after which bulk gets one, if both are waiting.
pub(super) const FRESH_FRAMES: u8 = 8;

/// A doubly linked list through the streams.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

/// The streams that have something to send and a window to send it in.
#[derive(Debug)]
pub(super) struct Schedule {
    fresh: [List; URGENCIES],
    bulk: [List; URGENCIES],
    /// Urgencies whose lists are not empty.
    waiting: u8,
    /// Fresh frames since the last bulk frame.
    fresh_frames: u8,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            fresh: [EMPTY; URGENCIES],
            bulk: [EMPTY; URGENCIES],
            waiting: 0,
            fresh_frames: 0,
        }
    }
}

impl Schedule {
    /// The stream whose turn it is.
    pub(super) fn next(&self, streams: &mut Streams) -> Option<StreamRef> {
        if self.waiting == 0 {
            return None;
        }
        let urgency = self.waiting.trailing_zeros() as usize;
        let (fresh, bulk) = (self.fresh[urgency].first, self.bulk[urgency].first);
        let bulk_is_due = self.fresh_frames >= FRESH_FRAMES && bulk != NONE;
        let slot = if fresh == NONE || bulk_is_due {
            bulk
        } else {
            fresh
        };
        Some(StreamRef::new(streams.at(slot).id, slot))
    }

    /// Adds a stream that is in no lane.
    pub(super) fn add(&mut self, streams: &mut Streams, slot: u32) {
        let stream = streams.at(slot);
        debug_assert_eq!(stream.lane, Lane::Out);
        let urgency = usize::from(stream.priority.urgency);
        let in_order = !stream.priority.incremental;
        self.waiting |= 1 << urgency;
        if stream.turn_bytes < FRESH_BYTES {
            stream.lane = Lane::Fresh;
            let list = &mut self.fresh[urgency];
            let after = if in_order {
                place_in_order(streams, *list, slot)
            } else {
                list.last
            };
            insert_after(streams, list, slot, after);
        } else {
            stream.lane = Lane::Bulk;
            let list = &mut self.bulk[urgency];
            let last = list.last;
            insert_after(streams, list, slot, last);
        }
    }

    /// Removes a stream from its lane, if it is in one.
    pub(super) fn remove(&mut self, streams: &mut Streams, slot: u32) {
        let stream = streams.at(slot);
        let urgency = usize::from(stream.priority.urgency);
        let list = match stream.lane {
            Lane::Out => return,
            Lane::Fresh => &mut self.fresh[urgency],
            Lane::Bulk => &mut self.bulk[urgency],
        };
        stream.lane = Lane::Out;
        let (previous, next) = (stream.previous, stream.next);
        match previous {
            NONE => list.first = next,
            _ => streams.at(previous).next = next,
        }
        match next {
            NONE => list.last = previous,
            _ => streams.at(next).previous = previous,
        }
        if self.fresh[urgency].first == NONE && self.bulk[urgency].first == NONE {
            self.waiting &= !(1 << urgency);
        }
    }

    /// Accounts for a frame that a stream has sent, which may end its turn.
    pub(super) fn sent(&mut self, streams: &mut Streams, slot: u32, bytes: u32) {
        let stream = streams.at(slot);
        let before = stream.turn_bytes;
        stream.turn_bytes = before.saturating_add(bytes);
        let incremental = stream.priority.incremental;
        match stream.lane {
            Lane::Out => {}
            Lane::Fresh => {
                self.fresh_frames = self.fresh_frames.saturating_add(1);
                if incremental || stream.turn_bytes >= FRESH_BYTES {
                    self.requeue(streams, slot);
                }
            }
            Lane::Bulk => {
                self.fresh_frames = 0;
                let turns = |bytes: u32| (bytes - FRESH_BYTES) / BULK_BYTES;
                let is_over = incremental || turns(stream.turn_bytes) > turns(before);
                if is_over {
                    // Keeps the number from overflowing.
                    stream.turn_bytes =
                        FRESH_BYTES + (stream.turn_bytes - FRESH_BYTES) % BULK_BYTES;
                    self.requeue(streams, slot);
                }
            }
        }
    }

    fn requeue(&mut self, streams: &mut Streams, slot: u32) {
        self.remove(streams, slot);
        self.add(streams, slot);
    }
}

/// The slot after which a non-incremental stream belongs: before every later identifier at the end
/// of the list. Does not pass incremental streams, which are in no order.
fn place_in_order(streams: &mut Streams, list: List, slot: u32) -> u32 {
    let id = streams.at(slot).id;
    let mut after = list.last;
    while after != NONE {
        let other: &Stream = streams.at(after);
        if other.id < id || other.priority.incremental {
            break;
        }
        after = other.previous;
    }
    after
}

/// Inserts after a slot of the list; `NONE` means at its beginning.
fn insert_after(streams: &mut Streams, list: &mut List, slot: u32, after: u32) {
    let next = match after {
        NONE => std::mem::replace(&mut list.first, slot),
        _ => std::mem::replace(&mut streams.at(after).next, slot),
    };
    match next {
        NONE => list.last = slot,
        _ => streams.at(next).previous = slot,
    }
    let stream = streams.at(slot);
    stream.previous = after;
    stream.next = next;
}
