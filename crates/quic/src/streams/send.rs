//! The sending part of a stream, RFC 9000 section 3.1.

use super::schedule::NOT_READY;
use crate::ranges::RangeSet;
use crate::{StreamId, varint};

/// Most stretches that are acknowledged behind one that is not. What comes beyond is sent again.
const MAX_ACKED_GAPS: usize = 1_024;
/// Fewer bytes than these are not worth a frame at the end of a packet, if there are more.
const MIN_CHUNK: u64 = 32;

/// What of the end of the stream has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The owner may write more.
    Open,
    /// The end is known, and has not been sent.
    Written,
    /// Sent, and not acknowledged.
    Sent,
    /// Was sent, and has to be sent again.
    Lost,
    /// Acknowledged.
    Acked,
    /// RESET_STREAM is sent instead.
    Reset,
    /// RESET_STREAM is acknowledged.
    ResetAcked,
}

/// What is rare: something was lost.
#[derive(Debug, Default)]
struct Gaps {
    /// Acknowledged above the prefix.
    acked: RangeSet,
    /// To be sent again.
    lost: RangeSet,
}

/// The sending part.
#[derive(Debug)]
pub(super) struct SendPart {
    /// The owner has the bytes before this.
    available: u64,
    /// The bytes before this were sent.
    sent: u64,
    /// All bytes before this were acknowledged.
    acked: u64,
    /// The peer takes the bytes before this.
    max: u64,
    /// The `max` that STREAM_DATA_BLOCKED was sent for, or the code of RESET_STREAM.
    blocked_or_code: u64,
    /// Its key in the schedule.
    pub(super) slot: u64,
    gaps: Option<Box<Gaps>>,
    end: End,
    pub(super) urgency: u8,
    pub(super) incremental: bool,
}

/// No limit that STREAM_DATA_BLOCKED was sent for.
const NEVER: u64 = u64::MAX;

impl SendPart {
    pub(super) fn new(max: u64) -> Self {
        Self {
            available: 0,
            sent: 0,
            acked: 0,
            max: max.min(varint::MAX),
            blocked_or_code: NEVER,
            slot: NOT_READY,
            gaps: None,
            end: End::Open,
            urgency: 3,
            incremental: false,
        }
    }

    #[cfg(test)]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    #[cfg(test)]
    pub(super) fn gaps(&self) -> usize {
        self.gaps.as_ref().map_or(0, |gaps| gaps.acked.len())
    }

    fn is_reset(&self) -> bool {
        matches!(self.end, End::Reset | End::ResetAcked)
    }

    /// "Data Recvd" or "Reset Recvd".
    pub(super) fn is_done(&self) -> bool {
        match self.end {
            End::Acked => self.acked == self.available,
            end => end == End::ResetAcked,
        }
    }

    /// Offset before which all is acknowledged, unless the stream was reset.
    pub(super) fn acked(&self) -> Option<u64> {
        (!self.is_reset()).then_some(self.acked)
    }

    /// What the owner has to keep of what was sent.
    pub(super) fn kept(&self) -> u64 {
        match self.is_reset() {
            true => 0,
            false => self.sent - self.acked,
        }
    }

    /// Returns whether the owner may write.
    pub(super) fn write_up_to(&mut self, up_to: u64, fin: bool) -> bool {
        if self.end != End::Open {
            return false;
        }
        self.available = self.available.max(up_to.min(varint::MAX));
        if fin {
            self.end = End::Written;
        }
        true
    }

    pub(super) fn raise_max(&mut self, max: u64) {
        self.max = self.max.max(max.min(varint::MAX));
    }

    /// Bytes that were never sent and may be.
    pub(super) fn new_bytes(&self) -> u64 {
        if self.is_reset() {
            return 0;
        }
        self.available.min(self.max).saturating_sub(self.sent)
    }

    /// Whether there is something that needs no credit: what was lost, or an end without bytes.
    pub(super) fn needs_no_credit(&self) -> bool {
        match self.end {
            End::Reset | End::ResetAcked => false,
            End::Lost => true,
            End::Written if self.sent == self.available => true,
            _ => self.gaps.as_ref().is_some_and(|gaps| !gaps.lost.is_empty()),
        }
    }

    /// The limit that STREAM_DATA_BLOCKED has to tell of.
    pub(super) fn blocked(&self) -> Option<u64> {
        let blocked = !self.is_reset()
            && self.available > self.max
            && self.sent >= self.max
            && self.blocked_or_code != self.max;
        blocked.then_some(self.max)
    }

    pub(super) fn blocked_sent(&mut self) {
        self.blocked_or_code = self.max;
    }

    pub(super) fn blocked_lost(&mut self, value: u64) {
        if !self.is_reset() && value == self.max {
            self.blocked_or_code = NEVER;
        }
    }

    /// Returns false if there is nothing to reset any more.
    pub(super) fn reset(&mut self, code: u64) -> bool {
        if self.is_reset() || self.is_done() {
            return false;
        }
        self.end = End::Reset;
        self.blocked_or_code = code;
        self.gaps = None;
        true
    }

    /// Code of RESET_STREAM, if that is sent.
    pub(super) fn reset_code(&self) -> Option<u64> {
        self.is_reset().then_some(self.blocked_or_code)
    }

    /// Code and final size for RESET_STREAM, if it is not acknowledged.
    pub(super) fn reset_to_send(&self) -> Option<(u64, u64)> {
        (self.end == End::Reset).then_some((self.blocked_or_code, self.sent))
    }

    pub(super) fn reset_acked(&mut self) {
        if self.end == End::Reset {
            self.end = End::ResetAcked;
        }
    }

    /// Nothing of what was sent arrived, and no limit is known.
    pub(super) fn restart(&mut self) {
        self.sent = 0;
        self.max = 0;
        self.slot = NOT_READY;
        self.gaps = None;
        if !self.is_reset() {
            self.blocked_or_code = NEVER;
        }
        if matches!(self.end, End::Sent | End::Lost) {
            self.end = End::Written;
        }
    }

    /// A frame with at most `credit` bytes of what was never sent.
    pub(super) fn new_frame(&mut self, id: StreamId, credit: u64, room: usize) -> Option<Frame> {
        let frame = self.frame(id, self.sent, self.new_bytes().min(credit), room)?;
        self.sent += u64::from(frame.len);
        Some(frame)
    }

    /// A frame with what was lost or with the end alone.
    pub(super) fn frame_without_credit(&mut self, id: StreamId, room: usize) -> Option<Frame> {
        let lost = self.gaps.as_ref().and_then(|gaps| gaps.lost.first());
        let (start, end) = lost.unwrap_or((self.available, self.available));
        let frame = self.frame(id, start, end - start, room)?;
        if let Some(gaps) = &mut self.gaps {
            gaps.lost.remove(start, start + u64::from(frame.len));
            self.drop_empty_gaps();
        }
        Some(frame)
    }

    fn frame(&mut self, id: StreamId, offset: u64, wanted: u64, room: usize) -> Option<Frame> {
        let (len, last) = fit(id, offset, wanted, room)?;
        let fin = self.end != End::Open && offset + u64::from(len) == self.available;
        if fin && matches!(self.end, End::Written | End::Lost) {
            self.end = End::Sent;
        }
        Some(Frame {
            offset,
            len,
            fin,
            last,
        })
    }

    /// These bytes have arrived, and the end if `fin`. Returns whether the owner has something to
    /// learn.
    pub(super) fn on_acked(&mut self, offset: u64, len: u16, fin: bool) -> bool {
        if self.is_reset() {
            return false;
        }
        let before = self.acked;
        let end = (offset + u64::from(len)).min(self.sent);
        if fin && matches!(self.end, End::Sent | End::Lost) {
            self.end = End::Acked;
        }
        if offset <= self.acked {
            self.acked = self.acked.max(end);
        } else if offset < end {
            let gaps = self.gaps.get_or_insert_default();
            if gaps.acked.len() >= MAX_ACKED_GAPS {
                self.on_lost(offset, len, false);
                return false;
            }
            gaps.acked.insert(offset, end);
            gaps.lost.remove(offset, end);
        }
        if let Some(gaps) = &mut self.gaps {
            if let Some((start, end)) = gaps.acked.first()
                && start <= self.acked
            {
                self.acked = self.acked.max(end);
            }
            gaps.acked.remove(0, self.acked);
            gaps.lost.remove(0, self.acked);
            self.drop_empty_gaps();
        }
        self.acked > before || self.is_done()
    }

    pub(super) fn on_lost(&mut self, offset: u64, len: u16, fin: bool) {
        if self.is_reset() {
            return;
        }
        if fin && self.end == End::Sent {
            self.end = End::Lost;
        }
        let start = offset.max(self.acked);
        let end = (offset + u64::from(len)).min(self.sent);
        if start < end {
            let Gaps { acked, lost } = &mut **self.gaps.get_or_insert_default();
            acked.missing(start, end, |from, to| lost.insert(from, to));
            self.drop_empty_gaps();
        }
    }

    fn drop_empty_gaps(&mut self) {
        let empty = |gaps: &Gaps| gaps.acked.is_empty() && gaps.lost.is_empty();
        if self.gaps.as_deref().is_some_and(empty) {
            self.gaps = None;
        }
    }
}

/// A part of a stream for one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) offset: u64,
    pub(super) len: u16,
    pub(super) fin: bool,
    /// There is no room for its length.
    pub(super) last: bool,
}

impl Frame {
    pub(super) fn of(self, id: StreamId) -> super::Outgoing {
        let Self {
            offset,
            len,
            fin,
            last,
        } = self;
        super::Outgoing::Stream {
            id,
            offset,
            len,
            fin,
            last,
        }
    }
}

/// How many of the `wanted` bytes a STREAM frame of at most `room` bytes holds, and whether its
/// length has to be left out for that.
fn fit(id: StreamId, offset: u64, wanted: u64, room: usize) -> Option<(u16, bool)> {
    let offset_len = if offset == 0 { 0 } else { varint::len(offset) };
    let room = room.checked_sub(1 + varint::len(id.to_wire()) + offset_len)? as u64;
    let wanted = wanted.min(u64::from(u16::MAX));
    let with_length = wanted + varint::len(wanted) as u64;
    let len = wanted.min(room);
    if len < wanted.min(MIN_CHUNK) {
        return None;
    }
    Some((u16::try_from(len).ok()?, with_length > room))
}
