//! Handshake messages of one encryption level, RFC 9000 section 7.5.

use crate::ranges::RangeSet;
use crate::reassembly::Reassembly;
use crate::{Code, Error, varint};

/// Bytes behind those that were read, up to which handshake messages are kept. A ClientHello of
/// 16 KiB and a flight with large certificates fit with room to spare; RFC 9000 asks for 4,096.
const MAX_CRYPTO_BUFFER: u64 = 32 * 1_024;

/// The stream of CRYPTO frames of one encryption level. Unlike other streams it owns what it sends,
/// which is little, and it has no flow control.
#[derive(Default)]
pub(crate) struct CryptoStream {
    /// To be sent or not acknowledged, from the offset `acked` on.
    unacked: Vec<u8>,
    /// All bytes before this were acknowledged.
    acked: u64,
    /// The bytes before this were sent.
    sent: u64,
    /// Acknowledged behind a gap.
    acked_apart: RangeSet,
    /// To be sent again.
    lost: RangeSet,
    /// The owner has taken the bytes before this.
    read: u64,
    /// One more than the highest offset that arrived.
    end: u64,
    kept: Option<Box<Reassembly>>,
}

impl CryptoStream {
    /// Nothing sent, nothing received.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// CRYPTO. Returns whether there is something to [`CryptoStream::read`].
    ///
    /// # Errors
    ///
    /// CRYPTO_BUFFER_EXCEEDED if more would have to be kept than is allowed, FRAME_ENCODING_ERROR
    /// if the stream would be too long.
    pub(crate) fn on_crypto(&mut self, offset: u64, data: &[u8]) -> Result<bool, Error> {
        let end = offset.saturating_add(data.len() as u64);
        if end > varint::MAX {
            let reason = "an offset of more than 62 bits";
            return Err(Error::new(Code::FRAME_ENCODING_ERROR, reason));
        }
        if end.saturating_sub(self.read) > MAX_CRYPTO_BUFFER {
            let reason = "more handshake bytes than can be kept";
            return Err(Error::new(Code::CRYPTO_BUFFER_EXCEEDED, reason));
        }
        if end > self.read {
            self.end = self.end.max(end);
            let kept = self.kept.get_or_insert_default();
            kept.insert(self.read, offset, data);
        }
        Ok(!self.run().is_empty())
    }

    /// Offers `sink` what has arrived in order, piece by piece, until it takes less than a piece.
    pub(crate) fn read(&mut self, sink: &mut dyn FnMut(&[u8]) -> usize) {
        loop {
            let run = self.run();
            let offered = run.len();
            if offered == 0 {
                return;
            }
            let taken = sink(run).min(offered);
            self.read += taken as u64;
            if self.read == self.end {
                self.kept = None;
            } else if let Some(kept) = &mut self.kept {
                kept.drop_before(self.read);
            }
            if taken < offered {
                return;
            }
        }
    }

    /// Whether something has arrived that cannot be read for a gap, or was not: keys must not
    /// change then, RFC 9001 section 4.1.3.
    pub(crate) fn has_unread(&self) -> bool {
        self.read < self.end
    }

    fn run(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| kept.run(self.read))
    }

    /// Bytes that are to be sent.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.unacked.extend_from_slice(bytes);
    }

    /// The offset behind all that was pushed.
    fn pushed(&self) -> u64 {
        self.acked + self.unacked.len() as u64
    }

    /// Whether [`CryptoStream::next_range`] has something.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lost.is_empty() || self.sent < self.pushed()
    }

    /// Offset and bytes of the next CRYPTO frame, which takes at most `room` bytes with its type,
    /// offset and length. They count as sent. `None` if there are none or if they do not fit.
    pub(crate) fn next_range(&mut self, room: usize) -> Option<(u64, &[u8])> {
        let (start, end) = self.lost.first().unwrap_or((self.sent, self.pushed()));
        let room = room.checked_sub(1 + varint::len(start))? as u64;
        let longest = (end - start).min(room);
        let len = longest.min(room - (varint::len(longest) as u64).min(room));
        if len == 0 {
            return None;
        }
        let end = start + len;
        self.lost.remove(start, end);
        self.sent = self.sent.max(end);
        let place = |offset: u64| usize::try_from(offset - self.acked).ok();
        let bytes = self.unacked.get(place(start)?..place(end)?)?;
        Some((start, bytes))
    }

    /// The peer has got these bytes.
    pub(crate) fn on_acked(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.sent);
        self.lost.remove(offset, end);
        self.acked_apart.insert(offset, end);
        if let Some((start, end)) = self.acked_apart.first()
            && start <= self.acked
        {
            self.acked_apart.remove(start, end);
            let newly = end.saturating_sub(self.acked);
            self.acked += newly;
            let newly = usize::try_from(newly).unwrap_or(usize::MAX);
            self.unacked.drain(..newly.min(self.unacked.len()));
            if self.unacked.is_empty() {
                self.unacked = Vec::new();
            }
        }
    }

    /// These bytes are lost, or wanted for a probe.
    pub(crate) fn on_lost(&mut self, offset: u64, len: u64) {
        let start = offset.max(self.acked);
        let end = offset.saturating_add(len).min(self.sent);
        let lost = &mut self.lost;
        self.acked_apart
            .missing(start, end, |from, to| lost.insert(from, to));
    }

    /// All that was sent is sent again: a Retry came.
    pub(crate) fn restart_sending(&mut self) {
        self.sent = self.acked;
        self.acked_apart = RangeSet::default();
        self.lost = RangeSet::default();
    }

    /// Whether all that was pushed has arrived.
    pub(crate) fn is_all_acked(&self) -> bool {
        self.unacked.is_empty()
    }

    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, |kept| kept.heap_bytes());
        self.unacked.capacity() + kept
    }
}

#[cfg(test)]
mod tests;
