//! Output of a filter that is assembled from many small parts.

use bytes::Bytes;
use sealane_io::chain::OutputChain;

/// Collects short parts in one piece of memory, and shares long ones.
pub(super) struct Pieces<'o> {
    output: &'o mut OutputChain,
    short: Vec<u8>,
    made_bytes: usize,
    max_bytes: usize,
}

/// A part of this length is copied.
const SHORT_BYTES: usize = 1024;

impl<'o> Pieces<'o> {
    /// Appends about `max_bytes` to a chain.
    pub(super) fn new(output: &'o mut OutputChain, max_bytes: usize) -> Pieces<'o> {
        Pieces {
            output,
            short: Vec::new(),
            made_bytes: 0,
            max_bytes,
        }
    }

    /// Whether there is less than was asked for.
    pub(super) fn has_room(&self) -> bool {
        self.made_bytes < self.max_bytes
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, part: &Bytes) {
        self.push_part(part, 0, part.len());
    }

    /// Appends a part of some bytes.
    pub(super) fn push_part(&mut self, of: &Bytes, from: usize, to: usize) {
        self.made_bytes += to - from;
        if to - from <= SHORT_BYTES {
            self.short.extend_from_slice(&of[from..to]);
            return;
        }
        self.end_short();
        self.output.push_bytes(of.slice(from..to));
    }

    fn end_short(&mut self) {
        self.output.push_bytes(std::mem::take(&mut self.short));
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        self.end_short();
    }
}
