//! Bytes to and from a peer, client or origin: plain or TLS, memory or file.
//!
//! This is the only module that knows how a file range is sent. On plain sockets it uses sendfile.
//! Over TLS it also uses sendfile where the kernel seals (`stream/kernel_tls.rs`). Otherwise it
//! reads the file in large batches, seals many records at once and sends them in one system call.
//!
//! Protocols build an [`OutboundMessage`]; no code above this module can tell TLS from plain.

use crate::buffers::{self, BATCH_BYTES};
use crate::chain::Segment;
use crate::message::OutboundMessage;
use crate::socket::Socket;
use outgoing::Outgoing;
use sealane_tls::{KernelSeal, Ktls, Packed};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};

mod error;
mod gather;
mod handshake;
mod kernel_tls;
mod outgoing;
mod piped;
mod sealed;
#[cfg(test)]
mod tests;

pub use error::{ErrorOf, StreamError};
pub use gather::{ChainReader, FileError};
pub use handshake::HandshakeTimes;
pub use piped::Piped;
pub use sealed::Sealed;

/// Pieces of memory sent in one call on plain sockets.
const MAX_PIECES: usize = 16;
/// The most that one sendfile call is asked for. sendfile(2) never moves more than 2 GiB; a smaller
/// number keeps the count a `usize` everywhere.
const MAX_SENDFILE_BYTES: u64 = 1 << 30;

/// The owner of a stream. It holds the socket and is told how records are sealed.
pub trait Endpoint {
    /// The socket.
    fn socket(&self) -> &Socket;

    /// It has been decided who seals the records.
    fn note_ktls(&self, state: Ktls<'_>);

    /// One sendfile call has moved `bytes` bytes of a stream that the kernel seals.
    fn note_sendfile(&self, bytes: u64);
}

/// A stream of bytes: plain, or over TLS with `T` as this side's connection.
pub struct Stream<E, T> {
    endpoint: E,
    tls: Option<Box<Sealed<T>>>,
    /// Reads the files of chains that are not sent by sendfile.
    reader: ChainReader,
    /// Plain bytes read from files that the kernel has not fully taken yet (`sendfile off`). Boxed,
    /// since few streams need it.
    copied: Option<Box<Outgoing>>,
    /// Progress of closing a stream that the kernel seals.
    kernel_end: kernel_tls::End,
    /// The checks for kernel TLS have seen the end of the handshake.
    ktls_settled: bool,
}

/// What was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This many bytes were appended.
    Bytes(usize),
    /// The peer has finished sending: FIN, or close_notify.
    End,
}

impl<E: Endpoint, T: KernelSeal> Stream<E, T> {
    /// A plain stream; [`Stream::start_tls`] turns it into a TLS stream.
    pub fn new(endpoint: E) -> Stream<E, T> {
        Stream {
            endpoint,
            tls: None,
            reader: ChainReader::default(),
            copied: None,
            kernel_end: kernel_tls::End::default(),
            ktls_settled: false,
        }
    }

    /// The owner of the stream.
    pub fn endpoint_mut(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// The TLS side, if there is one.
    pub fn tls(&self) -> Option<&Sealed<T>> {
        self.tls.as_deref()
    }

    /// Starts TLS: everything from now on goes through it.
    pub fn start_tls(&mut self, tls: Sealed<T>) {
        self.tls = Some(Box::new(tls));
    }

    /// Continues the TLS handshake. Ready once, when the handshake is done. `has_others` says
    /// whether the thread has other connections, for `ssl_async`.
    pub fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        has_others: bool,
    ) -> Poll<Result<HandshakeTimes, ErrorOf<T>>> {
        match &mut self.tls {
            Some(tls) => tls.poll_handshake(self.endpoint.socket(), cx, has_others),
            None => Poll::Ready(Ok(HandshakeTimes::default())),
        }
    }

    /// Appends up to `max` bytes of what the peer sent.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, ErrorOf<T>>> {
        let socket = self.endpoint.socket();
        if let Some(tls) = &mut self.tls {
            return tls.poll_receive(socket, cx, buf, max);
        }
        let count = ready!(socket.poll_recv(cx, buf, max)).map_err(StreamError::Socket)?;
        Poll::Ready(Ok(match count {
            0 => Received::End,
            count => Received::Bytes(count),
        }))
    }

    /// Gives buffers back while the stream is idle.
    pub fn release_buffers(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.release_input();
        }
    }

    /// Sends the message as far as its budget allows. Ready when that much has been handed to the
    /// kernel. If pending, the stream may have taken all of the message: call again until ready, or
    /// at least while [`has_unsent`](Self::has_unsent).
    ///
    /// # Errors
    ///
    /// The stream is of no use then, and some of the message may have left.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        if self.tls.is_none() {
            return self.poll_send_plain(cx, message);
        }
        ready!(self.poll_consider_kernel(cx, message))?;
        if self.is_sealed_by_kernel() {
            self.poll_send_kernel(cx, message)
        } else {
            self.poll_send_sealed(cx, message)
        }
    }

    /// Whether the stream holds anything, taken from a message or added by TLS, that the kernel has
    /// not taken yet.
    pub fn has_unsent(&self) -> bool {
        self.copied.is_some() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Whether the message that is about to begin should be the last on the connection.
    pub fn should_end(&self) -> bool {
        let tls = self.tls.as_deref();
        tls.is_some_and(|tls| tls.connection.should_end())
    }

    /// Bytes of earlier messages that the kernel has taken in other calls than
    /// [`poll_send`](Self::poll_send): receiving and closing send what is left as well.
    pub fn take_progress(&mut self) -> u64 {
        match &mut self.tls {
            Some(tls) => tls.output.take_progress(),
            None => 0,
        }
    }

    /// Stops counting the bytes still to be sent towards the next message.
    pub fn forget_progress(&mut self) {
        if let Some(copied) = &mut self.copied {
            copied.forget_progress();
        }
        if let Some(tls) = &mut self.tls {
            tls.output.forget_progress();
        }
    }

    /// Sends a TLS close_notify without waiting for the peer's. Ready when closing the socket loses
    /// nothing.
    pub fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorOf<T>>> {
        if self.is_sealed_by_kernel() {
            return self.poll_end_kernel(cx);
        }
        match &mut self.tls {
            Some(tls) => tls.poll_close_notify(self.endpoint.socket(), cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Ends the stream. Sends a close_notify as far as the socket takes it without waiting, and
    /// gives all buffers back.
    pub fn close(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let is_established = |tls: &Sealed<T>| tls.connection.is_established();
        if self.tls.as_deref().is_some_and(is_established) {
            let _ = self.poll_goodbye(&mut cx);
        }
        if let Some(tls) = &mut self.tls {
            tls.release_all();
        }
        if let Some(mut copied) = self.copied.take() {
            copied.release();
        }
    }

    fn poll_send_plain(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        loop {
            if let Some(copied) = &mut self.copied {
                let flushed = copied.poll_flush(self.endpoint.socket(), cx);
                let left = copied.take_progress();
                self.note_sent(left, false);
                message.sent += left;
                ready!(flushed).map_err(StreamError::Socket)?;
                self.copied = None;
            }
            if !message.has_output() {
                return Poll::Ready(Ok(()));
            }
            let file_next =
                message.budget > 0 && matches!(message.body.front(), Some(Segment::File(_)));
            if file_next && !message.sendfile {
                ready!(self.poll_copy(cx, message))?;
                continue;
            }
            let by_sendfile = file_next && message.head.is_empty();
            let count = match by_sendfile {
                true => ready!(self.poll_sendfile(cx, message))?,
                false => ready!(self.poll_send_memory(cx, message))?,
            };
            self.note_sent(count, by_sendfile);
            message.advance(count);
            message.sent += count;
        }
    }

    /// Sends the head and the memory segments that follow it in one call.
    fn poll_send_memory(
        &mut self,
        cx: &mut Context<'_>,
        message: &OutboundMessage,
    ) -> Poll<Result<u64, ErrorOf<T>>> {
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        if !message.head.is_empty() {
            pieces[0] = IoSlice::new(&message.head);
            count = 1;
        }
        let mut left = message.budget;
        // Another segment follows: let TCP fill the packet (a head and the first bytes of its
        // file).
        let mut more = false;
        for segment in message.body.segments() {
            let Segment::Memory(bytes) = segment else {
                more = left > 0;
                break;
            };
            if count == MAX_PIECES || left == 0 {
                more = left > 0;
                break;
            }
            let take = left.min(bytes.len() as u64);
            // Not more than the slice's length.
            pieces[count] = IoSlice::new(&bytes[..take as usize]);
            count += 1;
            left -= take;
        }
        let socket = self.endpoint.socket();
        let sent = ready!(socket.poll_send(cx, &pieces[..count], more));
        Poll::Ready(sent.map(|n| n as u64).map_err(StreamError::Socket))
    }

    /// Sends part of the file range at the front without copying it.
    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        message: &OutboundMessage,
    ) -> Poll<Result<u64, ErrorOf<T>>> {
        let Some(Segment::File(range)) = message.body.front() else {
            return Poll::Ready(Ok(0));
        };
        // At most MAX_SENDFILE_BYTES, so it fits.
        let count = range.len.min(message.budget).min(MAX_SENDFILE_BYTES) as usize;
        let socket = self.endpoint.socket();
        let sent = ready!(socket.poll_sendfile(cx, range.file.as_fd(), range.offset, count));
        Poll::Ready(match sent.map_err(StreamError::Socket)? {
            0 => Err(StreamError::File(FileError::Truncated {
                offset: range.offset,
            })),
            n => Ok(n as u64),
        })
    }

    /// `sendfile off`: reads a batch to follow the head, so that both are sent in one call.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        let plain = ready!(self.poll_gather(cx, message))?;
        self.copied = Some(Box::new(Outgoing::of_message(plain)));
        Poll::Ready(Ok(()))
    }

    fn poll_send_sealed(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        loop {
            let Some(tls) = self.tls.as_deref_mut() else {
                return self.poll_send_plain(cx, message);
            };
            // A message directly follows whatever the handshake has left in the output, so that
            // both are sent together.
            if tls.output.carries_message() || !message.has_output() {
                let flushed = tls.poll_flush(self.endpoint.socket(), cx);
                // Counted even if the rest failed: the peer may have acted on this.
                message.sent += tls.output.take_progress();
                ready!(flushed)?;
                if !message.has_output() {
                    return Poll::Ready(Ok(()));
                }
            }
            if self.poll_seal(cx, message)?.is_pending() {
                if let Some(tls) = self.tls.as_deref_mut() {
                    let _ = tls.poll_flush(self.endpoint.socket(), cx)?;
                }
                return Poll::Pending;
            }
        }
    }

    /// Takes the head and up to a batch of the body off the message and seals them into the output.
    /// Pending while a file is read from disk.
    fn poll_seal(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return Poll::Ready(Ok(()));
        };
        if message.body.is_empty() {
            tls.seal(&message.head, message.last)?;
            message.head.clear();
            return Poll::Ready(Ok(()));
        }
        if let (true, Some(bytes)) = (message.head.is_empty(), lone_memory(message)) {
            // Sealed in place.
            let take = bytes.len().min(BATCH_BYTES);
            let take = message.budget.min(take as u64);
            let last = message.last && take == message.body.len();
            tls.seal(&bytes[..take as usize], last)?;
            message.advance(take);
            return Poll::Ready(Ok(()));
        }
        let plain = ready!(self.poll_gather(cx, message))?;
        let last = message.last && message.is_empty();
        let sealed = match self.tls.as_deref_mut() {
            Some(tls) => tls.seal(&plain, last),
            None => Ok(()),
        };
        buffers::give_back(plain);
        Poll::Ready(sealed)
    }

    /// Takes the head and up to a batch of the body off the message, into one buffer. Waits for a
    /// file that has to come from disk only when there is nothing before it to send.
    fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut OutboundMessage,
    ) -> Poll<Result<Vec<u8>, ErrorOf<T>>> {
        let mut plain = buffers::for_bytes(message.allowed_bytes());
        plain.extend_from_slice(&message.head);
        let body = &message.body;
        match self
            .reader
            .poll_gather(cx, body, &mut plain, message.budget)
        {
            Poll::Ready(Err(error)) => {
                buffers::give_back(plain);
                Poll::Ready(Err(StreamError::File(error)))
            }
            Poll::Pending if plain.is_empty() => {
                buffers::give_back(plain);
                Poll::Pending
            }
            // What could not be read without waiting follows later.
            Poll::Pending | Poll::Ready(Ok(_)) => {
                message.advance(plain.len() as u64);
                Poll::Ready(Ok(plain))
            }
        }
    }
}

/// The memory at the front of the body, if gathering would only copy it: it is all there is, or
/// fills a batch by itself.
fn lone_memory(message: &OutboundMessage) -> Option<&[u8]> {
    let mut segments = message.body.segments();
    match (segments.next(), segments.next()) {
        (Some(Segment::Memory(bytes)), next) if next.is_none() || bytes.len() >= BATCH_BYTES => {
            Some(bytes)
        }
        _ => None,
    }
}

/// A server's stream.
impl<E: Endpoint> Stream<E, sealane_tls::Connection> {
    /// Whether [`Stream::pack`] would succeed now.
    pub fn is_movable(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_movable())
    }

    /// Packs the TLS side for another process, if there is one.
    ///
    /// # Errors
    ///
    /// Something of it is still on its way: all is as it was.
    #[expect(clippy::result_unit_err, reason = "there is only one reason")]
    pub fn pack(&mut self) -> Result<Option<Packed>, ()> {
        let Some(tls) = self.tls.take() else {
            return Ok(None);
        };
        match tls.pack() {
            Ok(packed) => Ok(Some(packed)),
            Err(tls) => {
                self.tls = Some(tls);
                Err(())
            }
        }
    }

    /// Refuses a TLS handshake for which no work has been done yet. If it does, returns why the
    /// connection ends.
    pub fn refuse_handshake(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Option<StreamError<sealane_tls::Error>> {
        let tls = self.tls.as_deref_mut()?;
        let can = tls.awaits_first_turn();
        can.then(|| tls.refuse(self.endpoint.socket(), cx))
    }
}
