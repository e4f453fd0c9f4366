//! What is to be sent on a stream.

use crate::chain::OutputChain;

/// A head and a body to be sent: a response, a request, or a batch of frames.
///
/// [`Stream::poll_send`](crate::Stream::poll_send) consumes both. More may be appended at any time.
/// An empty message may not have been sent completely: the stream may still hold some of it.
#[derive(Debug)]
pub struct OutboundMessage {
    /// Sent before the body, and never held back.
    pub head: Vec<u8>,
    /// Sent as far as the budget goes.
    pub body: OutputChain,
    /// Bytes of the body that may be sent (`sendfile_max_chunk`, `limit_rate`). It counts down, so
    /// waiting in between does not renew it.
    pub budget: u64,
    /// Whether files are sent by sendfile where possible (`sendfile on`).
    pub sendfile: bool,
    /// Nothing follows on this stream: TLS sends its close_notify with the last bytes.
    pub last: bool,
    /// Bytes that the kernel has taken, including the head, counted before TLS. When the kernel has
    /// taken only part of what TLS sealed, the plaintext counts in proportion.
    pub sent: u64,
}

impl OutboundMessage {
    /// A message with an unlimited budget, whose files are sent by sendfile.
    pub fn new(head: Vec<u8>, body: OutputChain) -> OutboundMessage {
        OutboundMessage {
            head,
            body,
            budget: u64::MAX,
            sendfile: true,
            last: false,
            sent: 0,
        }
    }

    /// Whether there is anything that may be sent now.
    pub fn has_output(&self) -> bool {
        !self.head.is_empty() || (self.budget > 0 && !self.body.is_empty())
    }

    /// Whether nothing is left in it, regardless of the budget.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    /// Drops what is left in it.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// Bytes that may be sent now.
    pub(crate) fn allowed_bytes(&self) -> u64 {
        self.head.len() as u64 + self.body.len().min(self.budget)
    }

    /// Takes the first `count` bytes off.
    pub(crate) fn advance(&mut self, count: u64) {
        // At most the head's length, so it fits.
        let from_head = count.min(self.head.len() as u64) as usize;
        if from_head == self.head.len() {
            self.head.clear();
        } else {
            self.head.drain(..from_head);
        }
        let from_body = count - from_head as u64;
        self.body.advance(from_body);
        self.budget -= from_body;
    }
}

impl Default for OutboundMessage {
    fn default() -> OutboundMessage {
        OutboundMessage::new(Vec::new(), OutputChain::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_from_the_head_first_and_the_body_counts_down_its_budget() {
        let mut message = OutboundMessage::new(b"head".to_vec(), OutputChain::new());
        message.body.push_bytes("body");
        message.budget = 3;
        assert_eq!(message.allowed_bytes(), 7);
        message.advance(2);
        assert_eq!((&message.head[..], message.budget), (&b"ad"[..], 3));
        message.advance(4);
        assert_eq!((message.body.len(), message.budget), (2, 1));
        message.advance(1);
        assert!(!message.has_output(), "the budget is spent");
        assert!(!message.is_empty());
    }
}
