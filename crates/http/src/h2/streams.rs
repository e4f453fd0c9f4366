//! The streams of a connection: a slab, a small map from identifiers to slots, and the state of
//! each stream.

use super::flow::{ReceiveWindow, SendWindow};
use crate::message::Priority;

/// The application's reference to a stream.
///
/// An identifier is never reused on the connection, so a stale reference finds nothing. The slot is
/// small and dense: an index for the owner's own table of streams. It is given to another stream
/// once this one is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamRef {
    id: u32,
    slot: u32,
}

impl StreamRef {
    pub(super) fn new(id: u32, slot: u32) -> StreamRef {
        StreamRef { id, slot }
    }

    /// The identifier on the wire.
    pub fn id(self) -> u32 {
        self.id
    }

    /// An index below the largest number of streams that were open at once.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl std::fmt::Debug for StreamRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {}", self.id)
    }
}

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The state of one direction of a stream (RFC 9113 section 5.1). The state of the stream is the
/// pair: open, half-closed and, when both have ended, removed from the slab.
///
/// ```text
///   Head ──HEADERS──> Body ──END_STREAM──> Ended
///    └──────HEADERS with END_STREAM──────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// The head is still to come; interim responses do not count.
    Head,
    /// DATA or trailers follow.
    Body,
    /// END_STREAM.
    Ended,
}

/// Which list of the scheduler a stream is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// None: it has nothing to send, or its window is closed.
    Out,
    /// It has not used up its first turn.
    Fresh,
    /// It has sent a lot without pausing.
    Bulk,
}

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Next slot of the same bucket, or of the free list.
    pub(super) chain: u32,
    pub(super) send: Half,
    pub(super) receive: Half,
    /// The application has bytes to send.
    pub(super) offers: bool,
    /// Server: the request is malformed. What is still sent on the stream is ignored; the owner
    /// answers and resets it.
    pub(super) is_malformed: bool,
    /// The request is `HEAD`: a response has no body, whatever its length says.
    pub(super) is_head_request: bool,
    pub(super) priority: Priority,
    pub(super) lane: Lane,
    pub(super) next: u32,
    pub(super) previous: u32,
    /// Bytes sent since the stream last paused or had its turn.
    pub(super) turn_bytes: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// Bytes delivered to the application but not released.
    pub(super) unreleased: u32,
    /// Content-Length of the incoming message, or none.
    pub(super) declared_bytes: Option<u64>,
    /// Bytes of DATA received, without padding.
    pub(super) received_bytes: u64,
}

impl Stream {
    pub(super) fn new(id: u32, send_window: SendWindow, receive_window: ReceiveWindow) -> Stream {
        Stream {
            id,
            chain: NONE,
            send: Half::Head,
            receive: Half::Head,
            offers: false,
            is_malformed: false,
            is_head_request: false,
            priority: Priority::default(),
            lane: Lane::Out,
            next: NONE,
            previous: NONE,
            turn_bytes: 0,
            send_window,
            receive_window,
            unreleased: 0,
            declared_bytes: None,
            received_bytes: 0,
        }
    }
}

/// Slots and the map. Identifiers are assigned in order, so the low bits of a stream's ordinal
/// spread as well as a hash. A peer that skips identifiers to make them collide gets chains no
/// longer than the number of streams it may have open.
#[derive(Debug, Default)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    /// Heads of the chains; the length is zero or a power of two.
    buckets: Vec<u32>,
    /// Head of the free list.
    free: Option<u32>,
    count: usize,
}

/// Slots kept by [`Streams::trim`].
const FIRST_SLOTS: usize = 4;

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a stream whose identifier is new.
    pub(super) fn insert(&mut self, stream: Stream) -> StreamRef {
        let id = stream.id;
        let slot = match self.free {
            Some(slot) => {
                let place = &mut self.slots[slot as usize];
                self.free = Some(place.chain).filter(|&next| next != NONE);
                *place = stream;
                slot
            }
            None => {
                if self.slots.capacity() == 0 {
                    self.slots.reserve_exact(FIRST_SLOTS);
                }
                self.slots.push(stream);
                self.slots.len() as u32 - 1
            }
        };
        self.count += 1;
        if self.slots.len() > self.buckets.len() {
            self.rebuild();
        } else {
            self.link(slot);
        }
        StreamRef::new(id, slot)
    }

    /// Removes a stream; its links in the scheduler must be gone.
    pub(super) fn remove(&mut self, stream: StreamRef) {
        let bucket = self.bucket(stream.id);
        let next = self.slots[stream.slot()].chain;
        let mut at = self.buckets[bucket];
        if at == stream.slot {
            self.buckets[bucket] = next;
        } else {
            while self.slots[at as usize].chain != stream.slot {
                at = self.slots[at as usize].chain;
            }
            self.slots[at as usize].chain = next;
        }
        let place = &mut self.slots[stream.slot()];
        // No stream has this identifier, so no reference finds the slot.
        place.id = 0;
        place.chain = self.free.unwrap_or(NONE);
        self.free = Some(stream.slot);
        self.count -= 1;
    }

    /// The stream with an identifier.
    pub(super) fn find(&self, id: u32) -> Option<StreamRef> {
        let mut at = *self.buckets.get(self.bucket(id))?;
        while at != NONE {
            let stream = &self.slots[at as usize];
            if stream.id == id {
                return Some(StreamRef::new(id, at));
            }
            at = stream.chain;
        }
        None
    }

    pub(super) fn get(&self, stream: StreamRef) -> Option<&Stream> {
        self.slots
            .get(stream.slot())
            .filter(|found| found.id == stream.id)
    }

    pub(super) fn get_mut(&mut self, stream: StreamRef) -> Option<&mut Stream> {
        self.slots
            .get_mut(stream.slot())
            .filter(|found| found.id == stream.id)
    }

    /// The stream in a slot that is known to be in use.
    pub(super) fn at(&mut self, slot: u32) -> &mut Stream {
        &mut self.slots[slot as usize]
    }

    /// Every open stream, in no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamRef, &mut Stream)> {
        let taken = |(slot, stream): (usize, _)| {
            let stream: &mut Stream = stream;
            (stream.id != 0).then(|| (StreamRef::new(stream.id, slot as u32), stream))
        };
        self.slots.iter_mut().enumerate().filter_map(taken)
    }

    /// Frees memory when no stream is open.
    pub(super) fn trim(&mut self) {
        if self.count == 0 {
            *self = Streams::default();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Stream>() + self.buckets.capacity() * size_of::<u32>()
    }

    fn bucket(&self, id: u32) -> usize {
        (id as usize >> 1) & self.buckets.len().wrapping_sub(1)
    }

    fn link(&mut self, slot: u32) {
        let bucket = self.bucket(self.slots[slot as usize].id);
        self.slots[slot as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = slot;
    }

    /// Makes the map twice as large as the number of slots. Called when no slot is free.
    fn rebuild(&mut self) {
        let size = (self.slots.len() * 2).next_power_of_two();
        self.buckets.clear();
        self.buckets.resize(size.max(2 * FIRST_SLOTS), NONE);
        for slot in 0..self.slots.len() as u32 {
            self.link(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stream(id: u32) -> Stream {
        let window = ReceiveWindow::new(1, 1, Duration::ZERO);
        Stream::new(id, SendWindow::new(1), window)
    }

    #[test]
    fn streams_are_found_until_they_are_removed() {
        let mut streams = Streams::default();
        let mut open = Vec::new();
        let mut next_id = 1;
        let mut seed = 7u32;
        for _ in 0..5000 {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let choice = (seed >> 16) as usize;
            if open.is_empty() || (choice % 5 < 3 && open.len() < 100) {
                open.push(streams.insert(stream(next_id)));
                // Identifiers may be skipped, here so that many collide.
                next_id += if choice.is_multiple_of(7) { 256 } else { 2 };
            } else {
                let gone: StreamRef = open.swap_remove(choice % open.len());
                streams.remove(gone);
                assert_eq!(streams.find(gone.id()), None);
                assert!(streams.get(gone).is_none());
            }
            assert_eq!(streams.len(), open.len());
            for reference in &open {
                assert_eq!(streams.find(reference.id()), Some(*reference));
            }
            assert_eq!(streams.iter_mut().count(), open.len());
        }
        assert!(streams.slots.len() <= 100, "slots are used again");
        for reference in open {
            streams.remove(reference);
        }
        streams.trim();
        assert_eq!(streams.slots.capacity() + streams.buckets.capacity(), 0);
    }
}
