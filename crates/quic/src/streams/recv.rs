//! The receiving part of a stream, RFC 9000 section 3.2.

use super::window::Window;
use crate::reassembly::Reassembly;
use crate::{Code, Error};

/// A final size that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Who wants what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// The owner reads.
    Reading,
    /// The owner does not want it.
    Stopped {
        /// Code of STOP_SENDING.
        code: u64,
    },
    /// The peer does not send it.
    Reset {
        /// Code of RESET_STREAM.
        code: u64,
    },
}

/// The receiving part.
pub(super) struct RecvPart {
    /// One more than the highest offset that arrived.
    pub(super) end: u64,
    /// The owner has taken the bytes before this.
    pub(super) read: u64,
    final_size: u64,
    pub(super) window: Window,
    kept: Option<Box<Reassembly>>,
    pub(super) intake: Intake,
}

impl RecvPart {
    pub(super) fn new(window: u64) -> Self {
        Self {
            end: 0,
            read: 0,
            final_size: UNKNOWN,
            window: Window::new(window),
            kept: None,
            intake: Intake::Reading,
        }
    }

    pub(super) fn is_size_known(&self) -> bool {
        self.final_size != UNKNOWN
    }

    /// One more than the offset of the last byte, or more than can be.
    pub(super) fn final_size(&self) -> u64 {
        self.final_size
    }

    /// Whether the peer may need a larger window.
    pub(super) fn wants_more(&self) -> bool {
        self.intake == Intake::Reading && !self.is_size_known()
    }

    /// Code of STOP_SENDING, if the peer has something to stop.
    pub(super) fn stop_to_send(&self) -> Option<u64> {
        match self.intake {
            Intake::Stopped { code } if !self.is_size_known() => Some(code),
            _ => None,
        }
    }

    /// Whether the owner has taken all there is.
    pub(super) fn is_read(&self) -> bool {
        self.read == self.final_size
    }

    /// Takes note of bytes up to `end`, the last ones if `fin`. Returns how many more the stream
    /// has than it had, RFC 9000 sections 4.1 and 4.5.
    pub(super) fn extend(&mut self, end: u64, fin: bool) -> Result<u64, Error> {
        if end > self.final_size {
            let reason = "bytes behind the end of the stream";
            return Err(Error::new(Code::FINAL_SIZE_ERROR, reason));
        }
        if fin && (end < self.end || self.is_size_known() && end != self.final_size) {
            let reason = "the stream ends before bytes that were sent";
            return Err(Error::new(Code::FINAL_SIZE_ERROR, reason));
        }
        if end > self.window.max {
            let reason = "more bytes than the stream may have";
            return Err(Error::new(Code::FLOW_CONTROL_ERROR, reason));
        }
        if fin {
            self.final_size = end;
        }
        let grown = end.saturating_sub(self.end);
        self.end += grown;
        Ok(grown)
    }

    /// Keeps bytes for [`RecvPart::run`].
    pub(super) fn keep(&mut self, offset: u64, data: &[u8]) {
        if offset + data.len() as u64 > self.read {
            let kept = self.kept.get_or_insert_default();
            kept.insert(self.read, offset, data);
        }
    }

    /// What can be read at once, and whether the stream ends behind it.
    pub(super) fn run(&self) -> (&[u8], bool) {
        let run = self
            .kept
            .as_ref()
            .map_or(&[][..], |kept| kept.run(self.read));
        (run, self.read + run.len() as u64 == self.final_size)
    }

    /// The owner took so many bytes.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.read += bytes;
        if self.read >= self.end {
            self.kept = None;
        } else if let Some(kept) = &mut self.kept {
            kept.drop_before(self.read);
        }
    }

    /// Drops what the owner has not taken. Returns how many bytes that are.
    pub(super) fn discard(&mut self, intake: Intake) -> u64 {
        self.intake = intake;
        self.kept = None;
        let unread = self.end - self.read;
        self.read = self.end;
        unread
    }

    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.kept
            .as_ref()
            .map_or(0, |kept| size_of::<Reassembly>() + kept.heap_bytes())
    }
}
