//! Bytes to be sent to a socket that may take them in pieces.

use crate::buffers;
use crate::socket::Socket;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

/// Bytes to send. Owns no memory once they have been sent.
#[derive(Default)]
pub(super) struct Outgoing {
    /// What is to be sent; more may be appended at any time.
    pub(super) bytes: Vec<u8>,
    /// The kernel has taken everything before this position.
    at: usize,
    /// Number of message bytes that these stand for, before TLS.
    plain_bytes: u32,
    /// How many of those [`take_progress`](Self::take_progress) has reported.
    reported: u32,
}

impl Outgoing {
    /// Bytes of a message, unsealed.
    pub(super) fn of_message(bytes: Vec<u8>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.count(bytes.len());
        outgoing.bytes = bytes;
        outgoing
    }

    /// Whether everything has been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Whether it contains part of a message, not only records that TLS generated itself.
    pub(super) fn carries_message(&self) -> bool {
        self.plain_bytes > 0
    }

    /// Records that the bytes just appended stand for `plain_bytes` bytes of a message.
    pub(super) fn count(&mut self, plain_bytes: usize) {
        // At most a head and a batch, which never come near the limit.
        let plain_bytes = u32::try_from(plain_bytes).unwrap_or(u32::MAX);
        self.plain_bytes = self.plain_bytes.saturating_add(plain_bytes);
    }

    /// Message bytes sent since the last call. Partial sends count in proportion, so that a slow
    /// peer is not mistaken for a dead one. The last byte counts only when everything has been
    /// sent.
    pub(super) fn take_progress(&mut self) -> u64 {
        if self.plain_bytes == 0 {
            return 0;
        }
        if self.bytes.is_empty() {
            let left = self.plain_bytes - self.reported;
            self.forget_progress();
            return u64::from(left);
        }
        let share = self.at as u64 * u64::from(self.plain_bytes) / self.bytes.len() as u64;
        let most = self.plain_bytes - 1;
        let share = u32::try_from(share).unwrap_or(most).min(most);
        let left = share.saturating_sub(self.reported);
        self.reported += left;
        u64::from(left)
    }

    /// Stops counting the contents as part of a message.
    pub(super) fn forget_progress(&mut self) {
        (self.plain_bytes, self.reported) = (0, 0);
    }

    /// Sends what is left. Ready when the kernel has all of it, at which point the buffer is given
    /// back.
    pub(super) fn poll_flush(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.at < self.bytes.len() {
            let rest = [IoSlice::new(&self.bytes[self.at..])];
            self.at += ready!(socket.poll_send(cx, &rest, false))?;
        }
        self.release();
        Poll::Ready(Ok(()))
    }

    /// Gives the buffer back, discarding whatever is left in it.
    pub(super) fn release(&mut self) {
        self.at = 0;
        buffers::release(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_in_pieces_counts_in_proportion() {
        let mut outgoing = Outgoing {
            bytes: vec![0; 200],
            ..Outgoing::default()
        };
        outgoing.count(100);
        assert_eq!(outgoing.take_progress(), 0);
        outgoing.at = 50;
        assert_eq!(outgoing.take_progress(), 25);
        assert_eq!(outgoing.take_progress(), 0, "it was reported");
        outgoing.at = 199;
        assert_eq!(
            outgoing.take_progress(),
            74,
            "the last byte waits for the end"
        );
        outgoing.release();
        assert_eq!(outgoing.take_progress(), 1);
        assert_eq!(outgoing.take_progress(), 0);
    }

    #[test]
    fn what_tls_says_by_itself_is_no_progress() {
        let mut outgoing = Outgoing {
            bytes: vec![0; 10],
            ..Outgoing::default()
        };
        outgoing.at = 5;
        assert!(!outgoing.carries_message());
        assert_eq!(outgoing.take_progress(), 0);
    }
}
