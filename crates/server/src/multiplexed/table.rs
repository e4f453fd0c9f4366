//! The streams of a connection, found by index or by their name in the codec.
//!
//! The index of a stream is reused once the stream is gone, and the codec reuses its slots as
//! well. Therefore a name is found only while the stream at its index still has that name. The
//! queue of streams to be looked at contains a stream at most once.

use super::stream::Stream;
use std::ops::Range;

/// No index.
const NONE: u32 = u32::MAX;

/// What a protocol calls a stream, different for each stream of a connection.
pub(crate) trait WireName: Copy + Eq {
    /// A small number that no other stream has at the same time.
    fn slot(self) -> usize;
}

/// The streams of one connection.
pub(crate) struct StreamTable<N> {
    streams: Vec<Option<Stream<N>>>,
    /// Indices that no stream has.
    free: Vec<u32>,
    /// How many streams there are, those that the client has reset included.
    live: usize,
    /// The index of each stream of the codec, by its slot there.
    by_slot: Vec<u32>,
    /// Indices of streams to be looked at in this turn.
    queued: Vec<u32>,
}

impl<N> Default for StreamTable<N> {
    fn default() -> StreamTable<N> {
        StreamTable {
            streams: Vec::new(),
            free: Vec::new(),
            live: 0,
            by_slot: Vec::new(),
            queued: Vec::new(),
        }
    }
}

impl<N: WireName> StreamTable<N> {
    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// All indices, those without a stream included.
    pub(crate) fn indices(&self) -> Range<usize> {
        0..self.streams.len()
    }

    /// Adds a stream with this name.
    pub(crate) fn insert(&mut self, name: N, stream: Stream<N>) -> usize {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        if self.by_slot.len() <= name.slot() {
            self.by_slot.resize(name.slot() + 1, NONE);
        }
        self.by_slot[name.slot()] = index as u32; // there are fewer streams than that
        self.streams[index] = Some(stream);
        self.live += 1;
        index
    }

    /// Takes a stream out.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Stream<N>> {
        let stream = self.streams.get_mut(index)?.take()?;
        self.free.push(index as u32);
        self.live -= 1;
        Some(stream)
    }

    /// The stream at an index.
    pub(crate) fn get(&self, index: usize) -> Option<&Stream<N>> {
        self.streams.get(index)?.as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Stream<N>> {
        self.streams.get_mut(index)?.as_mut()
    }

    /// The stream that the codec knows by this name, and its index.
    pub(crate) fn find_mut(&mut self, name: N) -> Option<(usize, &mut Stream<N>)> {
        let index = *self.by_slot.get(name.slot())? as usize;
        let stream = self.streams.get_mut(index)?.as_mut()?;
        (stream.name == Some(name)).then_some((index, stream))
    }

    /// All streams.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream<N>> {
        self.streams.iter().flatten()
    }

    /// Has a stream looked at in this turn or the next one.
    pub(crate) fn queue(&mut self, index: usize) {
        if let Some(stream) = self.streams.get_mut(index).and_then(Option::as_mut)
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.queued.push(index as u32);
        }
    }

    /// Whether a stream is to be looked at.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// The streams to be looked at.
    pub(crate) fn take_queued(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.queued)
    }

    /// Takes an empty list back, for its memory.
    pub(crate) fn reuse_queue(&mut self, list: Vec<u32>) {
        if self.queued.is_empty() {
            self.queued = list;
        }
    }

    /// Gives memory back while there are no streams.
    pub(crate) fn trim(&mut self) {
        debug_assert_eq!(self.live, 0);
        *self = StreamTable::default();
    }

    /// Whether [`StreamTable::trim`] would give anything back.
    pub(crate) fn can_trim(&self) -> bool {
        self.streams.capacity() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_link::ClientLink;
    use crate::multiplexed::StreamState;

    /// Names of streams, some of which have the same slot.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Numbered {
        slot: usize,
        number: u32,
    }

    impl WireName for Numbered {
        fn slot(self) -> usize {
            self.slot
        }
    }

    const FIRST: Numbered = Numbered { slot: 0, number: 1 };
    const SECOND: Numbered = Numbered { slot: 0, number: 2 };

    fn stream(name: Numbered) -> Stream<Numbered> {
        Stream {
            name: Some(name),
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

    #[test]
    fn a_name_does_not_find_the_next_stream_of_its_slot() {
        let mut table = StreamTable::default();
        let index = table.insert(FIRST, stream(FIRST));
        assert!(table.find_mut(FIRST).is_some());
        assert!(table.find_mut(SECOND).is_none());
        table.remove(index);
        assert!(table.find_mut(FIRST).is_none());
        assert_eq!(table.insert(SECOND, stream(SECOND)), index);
        assert!(table.find_mut(FIRST).is_none());
        assert!(table.find_mut(SECOND).is_some());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_stream_is_queued_once() {
        let mut table = StreamTable::default();
        let index = table.insert(FIRST, stream(FIRST));
        table.queue(index);
        table.queue(index);
        assert_eq!(table.take_queued(), [index as u32]);
        assert!(!table.has_queued());
    }

    #[test]
    fn removing_twice_frees_an_index_once() {
        let mut table = StreamTable::default();
        let index = table.insert(FIRST, stream(FIRST));
        assert!(table.remove(index).is_some());
        assert!(table.remove(index).is_none());
        assert_eq!((table.len(), table.free.len()), (0, 1));
        table.trim();
        assert!(!table.can_trim());
    }
}
