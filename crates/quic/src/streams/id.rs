//! Stream ids, RFC 9000 section 2.1.

use std::fmt;

use crate::Side;
use crate::varint;

/// Whether both ends send on a stream, or only the one that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// Both ends send.
    Bidirectional,
    /// Only the end that opened it sends.
    Unidirectional,
}

impl Direction {
    /// Both of them, each at its [`Direction::index`].
    pub(crate) const ALL: [Self; 2] = [Self::Bidirectional, Self::Unidirectional];

    /// Its place in tables that have an entry for each direction.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The id of a stream: 62 bits, of which two say who opened it and who sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The id of this stream among those that `initiator` opens in this direction, counted from 0.
    /// An index that is too large for an id becomes the largest.
    #[must_use]
    pub const fn new(initiator: Side, direction: Direction, index: u64) -> Self {
        let index = if index > varint::MAX >> 2 {
            varint::MAX >> 2
        } else {
            index
        };
        Self(index << 2 | (direction as u64) << 1 | initiator as u64)
    }

    /// An id as it came; a variable-length integer has no more than 62 bits.
    #[must_use]
    pub const fn from_wire(id: u64) -> Self {
        Self(id & varint::MAX)
    }

    /// As it is sent.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        self.0
    }

    /// Who opens the stream.
    #[must_use]
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        }
    }

    /// Who sends on the stream.
    #[must_use]
    pub const fn direction(self) -> Direction {
        if self.0 & 2 == 0 {
            Direction::Bidirectional
        } else {
            Direction::Unidirectional
        }
    }

    /// Its number among the streams of the same initiator and direction, from 0.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lowest_bits_say_who_opens_and_who_sends_rfc_9000_table_1() {
        for (id, initiator, direction) in [
            (0, Side::Client, Direction::Bidirectional),
            (1, Side::Server, Direction::Bidirectional),
            (2, Side::Client, Direction::Unidirectional),
            (3, Side::Server, Direction::Unidirectional),
        ] {
            for index in [0, 1, 77, varint::MAX >> 2] {
                let id = StreamId::from_wire(index << 2 | id);
                assert_eq!(id, StreamId::new(initiator, direction, index));
                assert_eq!((id.initiator(), id.direction()), (initiator, direction));
                assert_eq!(id.index(), index);
            }
        }
    }
}
