//! A range of positions in a buffer owned elsewhere.

use std::fmt;
use std::ops::Range;

/// A half-open range of byte positions in the buffer that a message was parsed from.
///
/// Half the size of a slice and without its lifetime, so a parsed head can be kept beside the
/// buffer it describes. It means nothing without that buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Position of the first byte.
    pub start: u32,
    /// Position after the last byte.
    pub end: u32,
}

impl Span {
    /// A span from buffer positions.
    ///
    /// Positions beyond 4 GiB saturate; the parsers refuse such buffers long before.
    pub fn new(start: usize, end: usize) -> Span {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        Span {
            start: narrow(start),
            end: narrow(end),
        }
    }

    /// The bytes that it refers to. `buf` must be the buffer that was parsed; a span that does not
    /// fit into it yields an empty slice.
    pub fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.range()).unwrap_or_default()
    }

    /// The positions as a standard range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Number of bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it covers no bytes.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
