//! What streams have to send: bytes that were written and not acknowledged.
//!
//! The transport asks for ranges of them when it builds a packet, and again when a packet was lost.
//! They are kept until the client has acknowledged them.

use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes that are joined with what follows them, up to this size: heads and headers of frames.
const JOINED_BYTES: usize = 4 << 10;

/// The output of one stream.
#[derive(Default)]
pub(super) struct Output {
    pieces: VecDeque<OutputPiece>,
    /// Offset of the first byte that is kept.
    start: u64,
    /// Offset behind the last byte that was written.
    end: u64,
    /// Offset behind the last byte that was sent.
    sent: u64,
}

enum OutputPiece {
    Made(Vec<u8>),
    Shared(Bytes),
}

impl OutputPiece {
    fn bytes(&self) -> &[u8] {
        match self {
            OutputPiece::Made(bytes) => bytes,
            OutputPiece::Shared(bytes) => bytes,
        }
    }
}

impl Output {
    /// Offset behind the last byte that was written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Offset behind the last byte that was sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that were written and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.sent
    }

    /// Bytes that are kept.
    pub(super) fn kept(&self) -> u64 {
        self.end - self.start
    }

    /// Appends what `make` appends to a buffer. Returns how many bytes that were.
    pub(super) fn make<R>(&mut self, make: impl FnOnce(&mut Vec<u8>) -> R) -> (R, u64) {
        let has_room = matches!(self.pieces.back(), Some(OutputPiece::Made(last)) if last.len() < JOINED_BYTES);
        if !has_room {
            self.pieces.push_back(OutputPiece::Made(Vec::new()));
        }
        let Some(OutputPiece::Made(last)) = self.pieces.back_mut() else {
            unreachable!("it was just put there");
        };
        let before = last.len();
        let made = make(last);
        let count = (last.len() - before) as u64;
        self.end += count;
        (made, count)
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.end += bytes.len() as u64;
            self.pieces.push_back(OutputPiece::Shared(bytes));
        }
    }

    /// Copies a range that was written and is not acknowledged.
    pub(super) fn copy(&mut self, offset: u64, len: usize, out: &mut Vec<u8>) {
        self.sent = self.sent.max(offset + len as u64);
        let mut skip = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let mut left = len;
        for piece in &self.pieces {
            let bytes = piece.bytes();
            if skip >= bytes.len() {
                skip -= bytes.len();
                continue;
            }
            let part = &bytes[skip..];
            let part = &part[..part.len().min(left)];
            out.extend_from_slice(part);
            left -= part.len();
            skip = 0;
            if left == 0 {
                return;
            }
        }
    }

    /// The client has all bytes before this offset.
    pub(super) fn acknowledge(&mut self, up_to: u64) {
        while let Some(first) = self.pieces.front() {
            let behind = self.start + first.bytes().len() as u64;
            // The last one may still grow.
            if behind > up_to || (self.pieces.len() == 1 && behind > self.sent) {
                return;
            }
            self.start = behind;
            self.pieces.pop_front();
        }
    }

    /// Nothing of it is needed any more.
    pub(super) fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.start = self.end;
        self.sent = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(output: &mut Output, offset: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        output.copy(offset, len, &mut out);
        out
    }

    #[test]
    fn ranges_across_pieces_are_copied_again_until_they_are_acknowledged() {
        let mut output = Output::default();
        output.make(|out| out.extend(b"head"));
        output.push(Bytes::from_static(b"body of a file"));
        output.make(|out| out.extend(b"tail"));
        assert_eq!((output.end(), output.unsent()), (22, 22));
        assert_eq!(copied(&mut output, 2, 8), b"adbody o");
        assert_eq!((output.unsent(), output.kept()), (12, 22));
        assert_eq!(copied(&mut output, 0, 22), b"headbody of a filetail");
        output.acknowledge(10);
        assert_eq!(output.kept(), 18);
        assert_eq!(copied(&mut output, 16, 6), b"letail");
        output.acknowledge(22);
        assert_eq!((output.kept(), output.unsent()), (0, 0));
        output.make(|out| out.extend(b"more"));
        assert_eq!(copied(&mut output, 22, 4), b"more");
    }

    #[test]
    fn small_pieces_are_joined() {
        let mut output = Output::default();
        for _ in 0..1000 {
            output.make(|out| out.push(b'x'));
        }
        assert_eq!(output.pieces.len(), 1);
    }
}
