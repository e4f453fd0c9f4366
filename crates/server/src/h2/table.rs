//! The streams of a connection, found by index or by their name in the codec.
//!
//! The index of a stream is reused once the stream is gone, and the codec reuses its slots as
//! well. Therefore a name is found only while the stream at its index still has that name. The
//! queue of streams to be looked at contains a stream at most once.

use super::stream::Stream;
use sealane_http::h2::StreamRef;
use std::ops::Range;

/// No index.
const NONE: u32 = u32::MAX;

/// The streams of one connection.
#[derive(Default)]
pub(super) struct StreamTable {
    streams: Vec<Option<Stream>>,
    /// Indices that no stream has.
    free: Vec<u32>,
    /// How many streams there are, those that the client has reset included.
    live: usize,
    /// The index of each stream of the codec, by its slot there.
    by_slot: Vec<u32>,
    /// Indices of streams to be looked at in this turn.
    queued: Vec<u32>,
}

impl StreamTable {
    /// How many streams there are.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// All indices, those without a stream included.
    pub(super) fn indices(&self) -> Range<usize> {
        0..self.streams.len()
    }

    /// Adds a stream with this name.
    pub(super) fn insert(&mut self, reference: StreamRef, stream: Stream) -> usize {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        if self.by_slot.len() <= reference.slot() {
            self.by_slot.resize(reference.slot() + 1, NONE);
        }
        self.by_slot[reference.slot()] = index as u32; // there are fewer streams than that
        self.streams[index] = Some(stream);
        self.live += 1;
        index
    }

    /// Takes a stream out.
    pub(super) fn remove(&mut self, index: usize) -> Option<Stream> {
        let stream = self.streams.get_mut(index)?.take()?;
        self.free.push(index as u32);
        self.live -= 1;
        Some(stream)
    }

    /// The stream at an index.
    pub(super) fn get(&self, index: usize) -> Option<&Stream> {
        self.streams.get(index)?.as_ref()
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Stream> {
        self.streams.get_mut(index)?.as_mut()
    }

    /// The stream that the codec knows by this name, and its index.
    pub(super) fn find_mut(&mut self, reference: StreamRef) -> Option<(usize, &mut Stream)> {
        let index = *self.by_slot.get(reference.slot())? as usize;
        let stream = self.streams.get_mut(index)?.as_mut()?;
        (stream.reference == Some(reference)).then_some((index, stream))
    }

    /// All streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().flatten()
    }

    /// Has a stream looked at in this turn or the next one.
    pub(super) fn queue(&mut self, index: usize) {
        if let Some(stream) = self.streams.get_mut(index).and_then(Option::as_mut)
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.queued.push(index as u32);
        }
    }

    /// Whether a stream is to be looked at.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// The streams to be looked at.
    pub(super) fn take_queued(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.queued)
    }

    /// Takes an empty list back, for its memory.
    pub(super) fn reuse_queue(&mut self, list: Vec<u32>) {
        if self.queued.is_empty() {
            self.queued = list;
        }
    }

    /// Gives memory back while there are no streams.
    pub(super) fn trim(&mut self) {
        debug_assert_eq!(self.live, 0);
        *self = StreamTable::default();
    }

    /// Whether [`StreamTable::trim`] would give anything back.
    pub(super) fn can_trim(&self) -> bool {
        self.streams.capacity() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_link::ClientLink;
    use crate::h2::stream::StreamState;
    use sealane_http::h2::{Connection, RequestTarget, Scheme, Settings};
    use std::sync::Arc;
    use std::time::Duration;

    fn stream(reference: StreamRef) -> Stream {
        Stream {
            reference: Some(reference),
            generation: 0,
            feed: ClientLink::default().feed(),
            awaits_continue: false,
            awaits_body: false,
            is_malformed: false,
            is_queued: false,
            moved_ms: 0,
            state: StreamState::Handling(Box::pin(std::future::pending())),
        }
    }

    /// Names as a codec makes them; the second has the slot of the first.
    fn two_names_of_a_slot() -> (StreamRef, StreamRef) {
        let mut out = Vec::new();
        let settings = Arc::new(Settings::default());
        let mut codec = Connection::client(settings, Duration::ZERO, &mut out);
        let target = RequestTarget::new(b"GET", Scheme::Https, b"a", b"/").expect("valid");
        let first = codec.open(&target, [], false, &mut out).expect("room");
        codec.reset(first, sealane_http::h2::ErrorCode::CANCEL, &mut out);
        let second = codec.open(&target, [], false, &mut out).expect("room");
        assert_eq!(first.slot(), second.slot());
        (first, second)
    }

    #[test]
    fn a_name_does_not_find_the_next_stream_of_its_slot() {
        let (first, second) = two_names_of_a_slot();
        let mut table = StreamTable::default();
        let index = table.insert(first, stream(first));
        assert!(table.find_mut(first).is_some());
        assert!(table.find_mut(second).is_none());
        table.remove(index);
        assert!(table.find_mut(first).is_none());
        assert_eq!(table.insert(second, stream(second)), index);
        assert!(table.find_mut(first).is_none());
        assert!(table.find_mut(second).is_some());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_stream_is_queued_once() {
        let (first, _) = two_names_of_a_slot();
        let mut table = StreamTable::default();
        let index = table.insert(first, stream(first));
        table.queue(index);
        table.queue(index);
        assert_eq!(table.take_queued(), [index as u32]);
        assert!(!table.has_queued());
    }

    #[test]
    fn removing_twice_frees_an_index_once() {
        let (first, _) = two_names_of_a_slot();
        let mut table = StreamTable::default();
        let index = table.insert(first, stream(first));
        assert!(table.remove(index).is_some());
        assert!(table.remove(index).is_none());
        assert_eq!((table.len(), table.free.len()), (0, 1));
        table.trim();
        assert!(!table.can_trim());
    }
}
