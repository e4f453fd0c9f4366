//! Datagrams that wait, one after the other in memory: so runs of equal ones are sent as one
//! message, which the kernel cuts.

use super::Traffic;
use sealane_io::buffers;
use sealane_io::datagram::Run;
use std::collections::{VecDeque, vec_deque};

/// Datagrams in the order in which they came. Holds no memory while there are none.
#[derive(Debug, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    /// Those before this position have gone.
    at: usize,
    /// No datagram is longer than 65,535 bytes.
    lengths: VecDeque<u16>,
}

impl Packets {
    /// How many they are.
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Their bytes.
    pub fn byte_count(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether there are none. An empty datagram is one.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The first one.
    pub fn first(&self) -> Option<&[u8]> {
        let length = usize::from(*self.lengths.front()?);
        Some(&self.bytes[self.at..self.at + length])
    }

    /// Adds one; what no datagram can hold is cut off.
    pub fn push(&mut self, datagram: &[u8]) {
        let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        if self.bytes.capacity() == 0 {
            self.bytes = buffers::small();
        }
        if self.at > self.byte_count() {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes
            .extend_from_slice(&datagram[..usize::from(length)]);
        self.lengths.push_back(length);
    }

    /// Puts bytes before those of the first datagram, if there is one.
    pub(super) fn prefix_first(&mut self, prefix: &[u8]) {
        if let Some(length) = self.lengths.front_mut() {
            let longer = usize::from(*length) + prefix.len();
            *length = u16::try_from(longer).unwrap_or(u16::MAX);
            let cut = longer - usize::from(*length);
            let at = self.at;
            self.bytes.splice(at..at, prefix.iter().copied());
            let end = at + usize::from(*length);
            self.bytes.drain(end..end + cut);
        }
    }

    /// They, in runs that the kernel can cut.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> + Clone {
        Runs {
            bytes: &self.bytes[self.at..],
            lengths: self.lengths.iter(),
        }
    }

    /// Takes off the first ones, which were sent. Returns what they were.
    pub fn advance(&mut self, count: usize) -> Traffic {
        let taken = self.lengths.drain(..count.min(self.lengths.len()));
        let mut traffic = Traffic::default();
        for length in taken {
            traffic.add(Traffic {
                packets: 1,
                bytes: length.into(),
            });
        }
        // They are in memory.
        self.at += traffic.bytes as usize;
        if self.is_empty() {
            self.release();
        }
        traffic
    }

    fn release(&mut self) {
        self.at = 0;
        buffers::release(&mut self.bytes);
        self.lengths = VecDeque::new();
    }
}

/// See [`Packets::runs`].
#[derive(Clone)]
struct Runs<'a> {
    bytes: &'a [u8],
    lengths: vec_deque::Iter<'a, u16>,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let length = usize::from(*self.lengths.next()?);
        let mut run = Run::one(&self.bytes[..length]);
        while let Some(next) = self.lengths.clone().next().map(|next| usize::from(*next))
            && run.takes(next)
        {
            self.lengths.next();
            run.bytes = &self.bytes[..run.bytes.len() + next];
        }
        self.bytes = &self.bytes[run.bytes.len()..];
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(lengths: &[usize]) -> Packets {
        let mut packets = Packets::default();
        for (index, length) in lengths.iter().enumerate() {
            packets.push(&vec![index as u8; *length]);
        }
        packets
    }

    #[test]
    fn equal_ones_are_a_run_and_a_shorter_one_ends_it() {
        let packets = packets(&[100, 100, 30, 100, 0, 0, 50, 60]);
        let runs: Vec<_> = packets
            .runs()
            .map(|run| (run.bytes.len(), run.segment_bytes))
            .collect();
        let expected = [(230, 100), (100, 100), (0, 1), (0, 1), (50, 50), (60, 60)];
        assert_eq!(runs, expected);
    }

    #[test]
    fn what_is_put_before_the_first_one_is_part_of_it() {
        let mut packets = packets(&[1, 2, 3]);
        packets.advance(1);
        packets.prefix_first(b"PROXY ");
        assert_eq!(packets.first(), Some(&b"PROXY \x01\x01"[..]));
        packets.advance(1);
        assert_eq!(packets.first(), Some(&b"\x02\x02\x02"[..]));
        let mut full = Packets::default();
        full.push(&[1; 65_535]);
        full.push(b"next");
        full.prefix_first(b"PROXY ");
        assert_eq!(full.first().map(<[u8]>::len), Some(65_535));
        full.advance(1);
        assert_eq!(full.first(), Some(&b"next"[..]));
    }

    #[test]
    fn none_hold_no_memory() {
        let mut packets = packets(&[10, 20]);
        assert_eq!(
            packets.advance(5),
            Traffic {
                packets: 2,
                bytes: 30
            }
        );
        assert_eq!(
            (packets.bytes.capacity(), packets.lengths.capacity()),
            (0, 0)
        );
    }

    proptest! {
        #[test]
        fn they_come_out_as_they_went_in(
            steps in proptest::collection::vec((0_usize..2000, 0_usize..4), 1..200),
        ) {
            let mut packets = Packets::default();
            let mut expected = VecDeque::new();
            for (index, (length, taken)) in steps.into_iter().enumerate() {
                let datagram = vec![index as u8; length];
                packets.push(&datagram);
                expected.push_back(datagram);
                packets.advance(taken);
                expected.drain(..taken.min(expected.len()));
                let cut: Vec<_> = packets.runs().flat_map(Run::cut).collect();
                prop_assert_eq!(cut.len(), expected.len());
                for (run, datagram) in cut.iter().zip(&expected) {
                    prop_assert_eq!(run.bytes, &datagram[..]);
                }
                prop_assert_eq!(packets.first(), expected.front().map(|first| &first[..]));
            }
        }
    }
}
