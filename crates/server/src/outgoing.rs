//! Bytes on their way to a socket that may take them in pieces.

use crate::buffers;
use crate::socket::Socket;
use crate::transport::TransportError;
use std::io::IoSlice;
use std::task::{Context, Poll, ready};

/// Bytes to send; owns no memory once they have left.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// What is to be sent; more may be appended at any time.
    pub(crate) bytes: Vec<u8>,
    /// The kernel has taken everything before.
    at: usize,
}

impl Outgoing {
    /// Whether all of it has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Sends what is left. Ready when the kernel has all of it; the buffer is
    /// given back then.
    pub(crate) fn poll_flush(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        while self.at < self.bytes.len() {
            let rest = [IoSlice::new(&self.bytes[self.at..])];
            let sent = ready!(socket.poll_send(cx, &rest, false));
            self.at += sent.map_err(TransportError::Socket)?;
        }
        self.at = 0;
        buffers::release(&mut self.bytes);
        Poll::Ready(Ok(()))
    }
}
