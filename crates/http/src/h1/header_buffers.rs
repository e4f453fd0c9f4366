//! The accounting of nginx's header buffers: which part of a head is in which buffer.
//!
//! The read buffer here is one piece of memory, but exactly what fits in nginx must fit here. A
//! head starts in the small buffer (`client_header_buffer_size`), a line never spans two buffers,
//! and a line that reaches the end of a buffer moves into a new large one
//! (`large_client_header_buffers`).

use super::request::Limits;

/// Positions are kept in 32 bits, whatever the configuration allows.
const MAX_POSITION: usize = u32::MAX as usize;

/// The buffer that holds the current line, and how many there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderBuffers {
    /// Position where the current buffer ends.
    end: usize,
    large_used: usize,
}

/// The line reaches the end of a buffer and cannot move into another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// Position where the last buffer ends.
    pub(super) end: usize,
}

impl HeaderBuffers {
    /// The small buffer alone.
    pub(super) fn new(limits: &Limits) -> HeaderBuffers {
        HeaderBuffers {
            end: limits.header_buffer_bytes.min(MAX_POSITION),
            large_used: 0,
        }
    }

    /// Makes room for the line that starts at `line_start` up to `needed_end`.
    ///
    /// It proceeds buffer by buffer, as if the bytes came one at a time, so that a long line that
    /// arrives at once is refused at the same point for the same reason.
    pub(super) fn make_room(
        &mut self,
        line_start: usize,
        needed_end: usize,
        limits: &Limits,
    ) -> Result<(), Full> {
        while needed_end > self.end {
            if !self.can_move(line_start, limits) {
                return Err(Full { end: self.end });
            }
            self.large_used += 1;
            self.end = large_end(line_start, limits);
        }
        Ok(())
    }

    /// Position that the line starting at `line_start` cannot pass.
    pub(super) fn reach(&self, line_start: usize, limits: &Limits) -> usize {
        if self.can_move(line_start, limits) {
            large_end(line_start, limits)
        } else {
            self.end
        }
    }

    /// Whether a large buffer is available that holds more of the line than the current one.
    fn can_move(&self, line_start: usize, limits: &Limits) -> bool {
        self.large_used < limits.large_buffer_count && large_end(line_start, limits) > self.end
    }
}

/// Position where a large buffer ends that starts with this line.
fn large_end(line_start: usize, limits: &Limits) -> usize {
    line_start
        .saturating_add(limits.large_buffer_bytes)
        .min(MAX_POSITION)
}
