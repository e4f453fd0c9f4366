//! The streams that are not over.

use std::collections::VecDeque;

use super::recv::{Intake, RecvPart};
use super::send::SendPart;
use super::{Event, KEPT_ENTRIES, StreamId};

/// Notes of what is to be told to the owner or to be sent, for each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes(u16);

impl Notes {
    /// Its id waits among those with events.
    pub(super) const EVENT_QUEUED: Self = Self(1 << 0);
    /// Its id waits among those with frames.
    pub(super) const FRAME_QUEUED: Self = Self(1 << 1);
    /// [`Event::Readable`] is due.
    pub(super) const READABLE: Self = Self(1 << 2);
    /// [`Event::Reset`] is due.
    pub(super) const RESET: Self = Self(1 << 3);
    /// [`Event::Stopped`] is due.
    pub(super) const STOPPED: Self = Self(1 << 4);
    /// [`Event::Acknowledged`] is due, or the sending part is done.
    pub(super) const ACKNOWLEDGED: Self = Self(1 << 5);
    /// RESET_STREAM is to be sent.
    pub(super) const SEND_RESET: Self = Self(1 << 6);
    /// STOP_SENDING is to be sent.
    pub(super) const SEND_STOP: Self = Self(1 << 7);
    /// MAX_STREAM_DATA is to be sent.
    pub(super) const SEND_MAX: Self = Self(1 << 8);

    /// Whether a frame is to be sent.
    pub(super) fn has_frames(self) -> bool {
        self.0 & (Self::SEND_RESET.0 | Self::SEND_STOP.0 | Self::SEND_MAX.0) != 0
    }

    /// Sets a note. Returns whether it was not set.
    pub(super) fn set(&mut self, note: Self) -> bool {
        let before = self.0;
        self.0 |= note.0;
        self.0 != before
    }

    /// Clears a note. Returns whether it was set.
    pub(super) fn clear(&mut self, note: Self) -> bool {
        let before = self.0;
        self.0 &= !note.0;
        self.0 != before
    }
}

/// A stream. Parts that it does not have, and those that are over, are `None`.
pub(super) struct Entry {
    pub(super) id: StreamId,
    pub(super) notes: Notes,
    pub(super) send: Option<Box<SendPart>>,
    pub(super) recv: Option<Box<RecvPart>>,
}

// A request's stream takes at most 300 bytes, what the allocator adds included.
const _: () = assert!(size_of::<Entry>() + size_of::<SendPart>() + size_of::<RecvPart>() <= 200);

impl Entry {
    /// The next event of the stream.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        let id = self.id;
        if self.notes.clear(Notes::RESET)
            && let Some(recv) = self.recv.take()
            && let Intake::Reset { code } = recv.intake
        {
            return Some(Event::Reset { id, code });
        }
        if self.notes.clear(Notes::STOPPED)
            && let Some(code) = self.send.as_ref().and_then(|send| send.reset_code())
        {
            return Some(Event::Stopped { id, code });
        }
        if self.notes.clear(Notes::READABLE) && self.recv.is_some() {
            return Some(Event::Readable { id });
        }
        let mut up_to = None;
        if self.notes.clear(Notes::ACKNOWLEDGED)
            && let Some(send) = &self.send
        {
            up_to = send.acked();
            if send.is_done() {
                self.send = None;
            }
        }
        if self.send.is_none() && self.recv.is_none() {
            return Some(Event::Closed { id });
        }
        up_to.map(|up_to| Event::Acknowledged { id, up_to })
    }
}

/// The streams in the order of their ids.
///
/// Most are opened at the end and few are open: searching in order, and moving what is behind one
/// that goes, costs less than hashing.
#[derive(Default)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
}

impl Table {
    fn find(&self, id: StreamId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    pub(super) fn get(&self, id: StreamId) -> Option<&Entry> {
        self.entries.get(self.find(id).ok()?)
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Entry> {
        let index = self.find(id).ok()?;
        self.entries.get_mut(index)
    }

    /// Adds a stream that is not there.
    pub(super) fn insert(&mut self, entry: Entry) {
        if let Err(index) = self.find(entry.id) {
            self.entries.insert(index, entry);
        }
    }

    pub(super) fn remove(&mut self, id: StreamId) {
        if let Ok(index) = self.find(id) {
            self.entries.remove(index);
            let capacity = self.entries.capacity();
            if capacity > KEPT_ENTRIES && self.entries.len() < capacity / 4 {
                self.entries.shrink_to(capacity / 2);
            }
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    pub(super) fn ids(&self) -> Vec<StreamId> {
        self.entries.iter().map(|entry| entry.id).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}
