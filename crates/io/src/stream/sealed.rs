//! The TLS side of a stream: moves ciphertext between the socket and a sans-IO connection of
//! `sealane_tls`, either side of it, and owns what is on its way.

use super::Received;
use super::error::{ErrorOf, StreamError};
use super::handshake::Opening;
use super::outgoing::Outgoing;
use crate::buffers;
use crate::socket::Socket;
use crate::turns::HandshakeSlot;
use sealane_sys::time::monotonic_coarse_ms;
use sealane_tls::{KernelSeal, Packed, ReadStatus};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;

/// Ciphertext read per call at first; most messages need no more.
const READ_BYTES: usize = buffers::SMALL_BYTES;
/// Ciphertext read per call once a read has filled its buffer: the peer sends a lot.
const READ_BULK_BYTES: usize = 64 << 10;
/// Room for what TLS adds to a small message.
const SMALL_OVERHEAD_BYTES: usize = buffers::SMALL_BYTES / 4;

/// The TLS side of a stream.
pub struct Sealed<T> {
    pub(super) connection: T,
    /// Received ciphertext; libssl has taken everything before `input_at`.
    pub(super) input: Vec<u8>,
    pub(super) input_at: usize,
    /// Ciphertext to send.
    pub(super) output: Outgoing,
    /// libssl may hold plaintext, or the end.
    pub(super) readable: bool,
    /// Something of the protocol waits in libssl (session tickets): it leaves with the first
    /// message, or alone when there is nothing to receive.
    pub(super) tickets_due: bool,
    /// The last read from the socket filled its buffer.
    bulk: bool,
    /// close_notify has been written to `output`.
    closed: bool,
    /// The peer's close_notify was read.
    ended: bool,
    /// The stream ended without a close_notify.
    cut: bool,
    /// TLS has failed on our side, and an alert says why.
    pub(super) alerted: bool,
    /// The handshake, until it is done. In a box, as few connections are in one.
    pub(super) opening: Option<Box<Opening>>,
}

impl<T: KernelSeal> Sealed<T> {
    /// The server's side of a connection whose first bytes, if some were read already, are
    /// `received`. Its handshake takes turns with others in `slot`.
    pub fn accepting(connection: T, received: Vec<u8>, slot: HandshakeSlot) -> Sealed<T> {
        Sealed {
            input: received,
            opening: Some(Box::new(Opening::accepting(slot))),
            ..Sealed::established(connection)
        }
    }

    /// The client's side, which speaks first.
    pub fn connecting(connection: T) -> Sealed<T> {
        Sealed {
            opening: Some(Box::new(Opening::connecting())),
            ..Sealed::established(connection)
        }
    }

    /// A connection whose handshake is over.
    pub fn established(connection: T) -> Sealed<T> {
        Sealed {
            connection,
            input: Vec::new(),
            input_at: 0,
            output: Outgoing::default(),
            readable: false,
            tickets_due: false,
            bulk: false,
            closed: false,
            ended: false,
            cut: false,
            alerted: false,
            opening: None,
        }
    }

    /// The TLS connection itself, for what was negotiated.
    pub fn connection(&self) -> &T {
        &self.connection
    }

    /// Whether the connection ends with an alert of ours, which a close that finds bytes
    /// unread would take from the peer.
    pub fn is_alerted(&self) -> bool {
        self.alerted
    }

    /// Whether the stream ended without a close_notify: what was received may lack its end,
    /// and anyone may have cut it (RFC 8446 section 6.1).
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether anything is left to send.
    pub(super) fn has_unsent(&self) -> bool {
        !self.output.is_empty()
    }

    /// Appends up to `max` bytes of plaintext.
    pub(super) fn poll_receive(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, ErrorOf<T>>> {
        loop {
            if (self.readable || self.input_at < self.input.len())
                && let Some(received) = self.open_records(socket, cx, buf, max)?
            {
                return Poll::Ready(Ok(received));
            }
            if self.ended {
                return Poll::Ready(Ok(Received::End));
            }
            match self.poll_fill(socket, cx) {
                Poll::Ready(Ok(0)) => {
                    self.cut = true;
                    return Poll::Ready(Ok(Received::End));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.flush_before_waiting(socket, cx),
            }
        }
    }

    /// Whatever is left to send (tickets, answers of the protocol) must not wait until the
    /// peer sends something.
    fn flush_before_waiting(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, ErrorOf<T>>> {
        if self.tickets_due {
            self.seal(&[], false)?;
        }
        // A socket that takes nothing any more may still have something to receive. Its failure
        // is seen by the next receive or send.
        if self.poll_flush(socket, cx).is_ready() {
            ready!(self.poll_control(socket, cx, false))?;
        }
        Poll::Pending
    }

    /// Opens what has been received. `None` means that more is needed.
    fn open_records(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Result<Option<Received>, ErrorOf<T>> {
        let mut input = &self.input[self.input_at..];
        let output = &mut self.output.bytes;
        let status = self.connection.read(&mut input, output, buf, max);
        self.input_at = self.input.len() - input.len();
        let got = match &status {
            Ok(ReadStatus::Data(count)) => *count,
            _ => 0,
        };
        self.readable = self.connection.may_hold_more(got, max);
        match status {
            Ok(ReadStatus::Data(count)) => Ok(Some(Received::Bytes(count))),
            Ok(ReadStatus::CloseNotify) => {
                self.ended = true;
                Ok(Some(Received::End))
            }
            Ok(ReadStatus::WantRead) => Ok(None),
            Err(error) => {
                self.alerted |= self.has_unsent() || self.connection.is_sealed_by_kernel();
                // The alert is sent as far as the socket takes it.
                let _ = self.poll_flush(socket, cx);
                let _ = self.poll_control(socket, cx, false);
                Err(StreamError::Tls(error))
            }
        }
    }

    /// Seals plaintext into the output; with `last`, says goodbye behind it.
    pub(super) fn seal(&mut self, plain: &[u8], last: bool) -> Result<(), ErrorOf<T>> {
        self.tickets_due = false; // every write takes them along
        self.lend_output(plain.len() + SMALL_OVERHEAD_BYTES);
        let output = &mut self.output.bytes;
        self.connection
            .write(plain, monotonic_coarse_ms(), output)
            .map_err(StreamError::Tls)?;
        self.output.count(plain.len());
        if last {
            self.close();
        }
        Ok(())
    }

    /// Takes a buffer for so many bytes of output, if there is none.
    pub(super) fn lend_output(&mut self, bytes: usize) {
        if self.output.bytes.capacity() == 0 {
            self.output.bytes = buffers::for_bytes(bytes as u64);
        }
    }

    /// Sends what was sealed. Ready when the kernel has all of it.
    pub(super) fn poll_flush(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        self.output
            .poll_flush(socket, cx)
            .map_err(StreamError::Socket)
    }

    /// Sends close_notify, once.
    pub(super) fn poll_close_notify(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        self.close();
        ready!(self.poll_flush(socket, cx))?;
        self.poll_control(socket, cx, false)
    }

    /// While early data is read there can be no alert yet: it is written by a later call.
    fn close(&mut self) {
        if !self.closed {
            self.closed = self.connection.close_notify(&mut self.output.bytes);
        }
    }

    /// While the kernel seals: sends alerts, and what must come before data.
    pub(super) fn poll_control(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        data_follows: bool,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        if !self.connection.is_sealed_by_kernel() {
            return Poll::Ready(Ok(()));
        }
        let mut ended = None;
        let connection = &mut self.connection;
        let done = ready!(socket.poll_io(cx, Interest::WRITABLE, |fd| {
            ended = connection.send_control(fd, data_follows)?;
            Ok((0, false))
        }));
        Poll::Ready(match (done, ended) {
            (Err(error), _) => Err(StreamError::Socket(error)),
            (Ok(_), Some(ended)) => Err(StreamError::Tls(ended)),
            (Ok(_), None) => Ok(()),
        })
    }

    /// Hands the write direction to the kernel once everything that libssl sealed has been
    /// sent. Whether the kernel took it is the connection's `ktls()`.
    pub(super) fn poll_take_over(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        // What libssl has queued (tickets) is sealed by libssl and leaves first.
        self.seal(&[], false)?;
        ready!(self.poll_flush(socket, cx))?;
        self.connection.take_over(socket.as_fd());
        Poll::Ready(Ok(()))
    }

    /// Reads more ciphertext behind what libssl has not taken yet; 0 is the end of the stream.
    pub(super) fn poll_fill(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, ErrorOf<T>>> {
        if self.input_at == self.input.len() {
            self.input.clear();
            self.input_at = 0;
        }
        let max = match self.bulk {
            true => READ_BULK_BYTES,
            false => READ_BYTES,
        };
        if self.input.capacity() == 0 {
            self.input = buffers::for_bytes(max as u64);
        }
        match socket.poll_recv(cx, &mut self.input, max) {
            Poll::Ready(Ok(count)) => {
                self.bulk = count == max;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(StreamError::Socket(error))),
            Poll::Pending => {
                self.release_input();
                Poll::Pending
            }
        }
    }

    /// Gives the input buffer back when nothing is left in it.
    pub(super) fn release_input(&mut self) {
        if self.input_at == self.input.len() {
            self.input_at = 0;
            buffers::release(&mut self.input);
        }
    }

    /// Gives all buffers back: the connection is over.
    pub(super) fn release_all(&mut self) {
        self.input_at = 0;
        buffers::release(&mut self.input);
        self.output.release();
    }
}

/// A server's connection can go on in another process.
impl Sealed<sealane_tls::Connection> {
    /// Whether nothing is on its way, so that another process can go on with it.
    pub fn is_movable(&self) -> bool {
        self.opening.is_none()
            && !self.closed
            && self.input_at == self.input.len()
            && self.output.is_empty()
            && self.connection.check_packable().is_ok()
    }

    /// Packs a connection between two requests for another process.
    ///
    /// # Errors
    ///
    /// Something of it is still on its way: the stream as it was.
    pub(super) fn pack(self) -> Result<Packed, Box<Self>> {
        if !self.is_movable() {
            return Err(Box::new(self));
        }
        let Sealed { connection, .. } = self;
        connection
            .pack()
            .map_err(|back| Box::new(Sealed::established(back.0)))
    }
}
