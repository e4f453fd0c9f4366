//! The output chain: what a response body consists of.
//!
//! A chain is a list of segments, each either memory or a file range. The transport alone decides
//! how a file range is sent: by sendfile, read and sealed in batches, or through kernel TLS. Code
//! that builds a chain cannot tell the difference.

use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::open_file::OpenFile;

/// A piece of output.
#[derive(Debug, Clone)]
pub enum Segment {
    /// Bytes in memory, possibly shared with a cache.
    Memory(Bytes),
    /// Part of an open file.
    File(FileRange),
}

/// Part of an open file.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file; kept open until the last byte is sent.
    pub file: Arc<OpenFile>,
    /// Position of the next byte to send.
    pub offset: u64,
    /// Bytes left to send.
    pub len: u64,
}

impl Segment {
    /// Bytes left in this segment.
    pub fn len(&self) -> u64 {
        match self {
            Segment::Memory(bytes) => bytes.len() as u64,
            Segment::File(range) => range.len,
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Segments in the order they are sent. A clone shares memory and files but keeps its own position:
/// sending from one does not advance the other.
#[derive(Debug, Default, Clone)]
pub struct OutputChain {
    // Nearly every response has one or two segments. The deque is only used by multipart ranges and
    // the like.
    first: SmallVec<[Segment; 1]>,
    rest: VecDeque<Segment>,
}

impl OutputChain {
    /// An empty chain.
    pub fn new() -> OutputChain {
        OutputChain::default()
    }

    /// Appends a segment; empty ones are left out.
    pub fn push(&mut self, segment: Segment) {
        if segment.is_empty() {
            return;
        }
        if self.first.is_empty() && self.rest.is_empty() {
            self.first.push(segment);
        } else {
            self.rest.push_back(segment);
        }
    }

    /// Appends bytes.
    pub fn push_bytes(&mut self, bytes: impl Into<Bytes>) {
        self.push(Segment::Memory(bytes.into()));
    }

    /// Appends the contents of a buffer that may be much larger than what it holds. Callers bound a
    /// chain by its length, so the chain must not hold on to unused capacity.
    pub fn push_made(&mut self, made: Vec<u8>) {
        match made.len() < made.capacity() / 2 {
            true => self.push_bytes(Bytes::copy_from_slice(&made)),
            false => self.push_bytes(made),
        }
    }

    /// Appends part of a file.
    pub fn push_file(&mut self, file: Arc<OpenFile>, offset: u64, len: u64) {
        self.push(Segment::File(FileRange { file, offset, len }));
    }

    /// The segment to send next.
    pub fn front(&self) -> Option<&Segment> {
        self.first.first().or_else(|| self.rest.front())
    }

    /// All segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.first.iter().chain(self.rest.iter())
    }

    /// Bytes left in all segments.
    pub fn len(&self) -> u64 {
        self.segments().map(Segment::len).sum()
    }

    /// Bytes left in file ranges.
    pub fn file_bytes(&self) -> u64 {
        self.segments()
            .filter(|segment| matches!(segment, Segment::File(_)))
            .map(Segment::len)
            .sum()
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    /// Marks `count` bytes at the front as sent.
    ///
    /// # Panics
    /// If the chain holds fewer bytes: the transport would have invented output.
    pub fn advance(&mut self, mut count: u64) {
        while count > 0 {
            let front = if let Some(front) = self.first.first_mut() {
                front
            } else {
                self.rest
                    .front_mut()
                    .expect("never more is sent than the chain holds")
            };
            let taken = count.min(front.len());
            match front {
                Segment::Memory(bytes) => {
                    // `taken` is at most the slice's length, a usize.
                    drop(bytes.split_to(taken as usize));
                }
                Segment::File(range) => {
                    range.offset += taken;
                    range.len -= taken;
                }
            }
            let done = front.is_empty();
            if done && self.first.pop().is_none() {
                self.rest.pop_front();
            }
            count -= taken;
        }
    }

    /// Drops everything that was not sent.
    pub fn clear(&mut self) {
        self.first.clear();
        self.rest.clear();
    }

    /// A copy of the given byte range of the chain. Memory is shared, not copied.
    pub fn slice(&self, offset: u64, len: u64) -> OutputChain {
        let mut out = OutputChain::new();
        let (mut skip, mut left) = (offset, len);
        for segment in self.segments() {
            if left == 0 {
                break;
            }
            let size = segment.len();
            if skip >= size {
                skip -= size;
                continue;
            }
            let take = left.min(size - skip);
            out.push(match segment {
                // Positions lie inside the slice, so they fit a usize.
                Segment::Memory(bytes) => {
                    Segment::Memory(bytes.slice(skip as usize..(skip + take) as usize))
                }
                Segment::File(range) => Segment::File(FileRange {
                    file: range.file.clone(),
                    offset: range.offset + skip,
                    len: take,
                }),
            });
            left -= take;
            skip = 0;
        }
        out
    }

    /// Splits off the first `count` bytes, or everything if there are fewer. Memory is shared, not
    /// copied.
    pub fn split_to(&mut self, count: u64) -> OutputChain {
        let mut taken = OutputChain::new();
        let mut left = count;
        while left > 0
            && let Some(front) = self.front()
        {
            let take = left.min(front.len());
            taken.push(match front {
                // No longer than the slice, so it fits a usize.
                Segment::Memory(bytes) => Segment::Memory(bytes.slice(..take as usize)),
                Segment::File(range) => Segment::File(FileRange {
                    len: take,
                    ..range.clone()
                }),
            });
            self.advance(take);
            left -= take;
        }
        taken
    }

    /// Appends all segments of another chain.
    pub fn append(&mut self, other: OutputChain) {
        for segment in other.first.into_iter().chain(other.rest) {
            self.push(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(chain: &OutputChain) -> Vec<u8> {
        chain
            .segments()
            .flat_map(|s| match s {
                Segment::Memory(b) => b.to_vec(),
                Segment::File(_) => unreachable!("these tests use memory only"),
            })
            .collect()
    }

    #[test]
    fn room_that_was_not_needed_is_not_kept() {
        for (len, kept) in [(3, 3), (600, 1000)] {
            let mut made = Vec::with_capacity(1000);
            made.resize(len, b'x');
            let mut chain = OutputChain::new();
            chain.push_made(made);
            let segment = chain.first.pop().expect("it was pushed");
            let Segment::Memory(bytes) = segment else {
                unreachable!("it is in memory");
            };
            let room = bytes.try_into_mut().expect("nobody else has it").capacity();
            assert!(
                (len..=kept).contains(&room),
                "{room} bytes are kept for {len}"
            );
        }
    }

    fn abc() -> OutputChain {
        let mut chain = OutputChain::new();
        chain.push_bytes("abc");
        chain.push_bytes("");
        chain.push_bytes("defg");
        chain.push_bytes("hi");
        chain
    }

    #[test]
    fn advance_crosses_segments() {
        for sent in 0..=9 {
            let mut chain = abc();
            chain.advance(sent);
            assert_eq!(text(&chain), b"abcdefghi"[sent as usize..]);
            assert_eq!(chain.len(), 9 - sent);
            assert_eq!(chain.is_empty(), sent == 9);
        }
    }

    #[test]
    fn slice_takes_any_window() {
        let chain = abc();
        for from in 0..9usize {
            for to in from..=9 {
                let part = chain.slice(from as u64, (to - from) as u64);
                assert_eq!(text(&part), b"abcdefghi"[from..to], "{from}..{to}");
            }
        }
    }

    #[test]
    fn split_to_takes_the_front_and_leaves_the_rest() {
        for at in 0..=11 {
            let mut rest = abc();
            let all = rest.clone();
            let front = rest.split_to(at);
            let cut = (at as usize).min(9);
            assert_eq!(text(&front), b"abcdefghi"[..cut]);
            assert_eq!(text(&rest), b"abcdefghi"[cut..]);
            assert_eq!(text(&all), b"abcdefghi", "a clone is not touched");
        }
    }

    #[test]
    #[should_panic(expected = "never more is sent")]
    fn advance_past_the_end_is_a_bug() {
        abc().advance(10);
    }
}
