//! The TLS side of a stream. Moves ciphertext between the socket and a sans-IO connection of
//! `sealane_tls`, client or server, and owns the data in transit.

use super::Received;
use super::error::{ErrorOf, StreamError};
use super::handshake::Opening;
use super::outgoing::Outgoing;
use crate::buffers;
use crate::runtime::Direction;
use crate::socket::Socket;
use crate::turns::HandshakeSlot;
use sealane_sys::time::monotonic_coarse_ms;
use sealane_tls::{KernelSeal, Packed, ReadStatus};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

/// Ciphertext read per call at first; enough for most messages.
const READ_BYTES: usize = buffers::SMALL_BYTES;
/// Ciphertext read per call once a read has filled its buffer, because the peer is sending a lot:
/// three full records of TLS 1.3, so that none has to be put together from two reads while the peer
/// sends full ones.
const READ_BULK_BYTES: usize = 3 * (5 + (16 << 10) + 1 + 16);
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
    /// libssl may hold plaintext, or the end of the stream.
    pub(super) readable: bool,
    /// Protocol data waits in libssl (session tickets). It is sent with the first message, or alone
    /// when there is nothing to receive.
    pub(super) tickets_due: bool,
    /// The last read from the socket filled its buffer.
    bulk: bool,
    /// close_notify has been written to `output`.
    closed: bool,
    /// The peer's close_notify has been read.
    ended: bool,
    /// The stream ended without a close_notify.
    cut: bool,
    /// TLS has failed on our side, and an alert tells the peer why.
    pub(super) alerted: bool,
    /// The handshake, until it is done. Boxed, since few connections are in a handshake.
    pub(super) opening: Option<Box<Opening>>,
}

impl<T: KernelSeal> Sealed<T> {
    /// The server side of a connection. `received` holds the bytes read so far, if any. Its
    /// handshake takes turns with others through `slot`.
    pub fn accepting(connection: T, received: Vec<u8>, slot: HandshakeSlot) -> Sealed<T> {
        Sealed {
            input: received,
            opening: Some(Box::new(Opening::accepting(slot))),
            ..Sealed::established(connection)
        }
    }

    /// The client side, which speaks first.
    pub fn connecting(connection: T) -> Sealed<T> {
        Sealed {
            opening: Some(Box::new(Opening::connecting())),
            ..Sealed::established(connection)
        }
    }

    /// A connection whose handshake is done.
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

    /// Whether the connection ends with an alert of ours. Closing the socket with unread input
    /// would reset the connection, and the peer would lose the alert.
    pub fn is_alerted(&self) -> bool {
        self.alerted
    }

    /// Whether the stream ended without a close_notify. The end of the data may be missing, and
    /// anyone may have truncated it (RFC 8446 section 6.1).
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

    /// Sends what is left (tickets, protocol responses), which must not wait until the peer sends
    /// something.
    fn flush_before_waiting(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, ErrorOf<T>>> {
        if self.tickets_due {
            self.seal(&[], false)?;
        }
        // A socket that no longer takes output may still have input. The next receive or send
        // reports the failure.
        if self.poll_flush(socket, cx).is_ready() {
            ready!(self.poll_control(socket, cx, false))?;
        }
        Poll::Pending
    }

    /// Opens the records received so far. `None` means that more input is needed.
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
                // Send the alert as far as the socket takes it.
                let _ = self.poll_flush(socket, cx);
                let _ = self.poll_control(socket, cx, false);
                Err(StreamError::Tls(error))
            }
        }
    }

    /// Seals plaintext into the output; with `last`, appends a close_notify.
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

    /// Takes a buffer for this many bytes of output if there is none.
    pub(super) fn lend_output(&mut self, bytes: usize) {
        if self.output.bytes.capacity() == 0 {
            self.output.bytes = buffers::for_bytes(bytes as u64);
        }
    }

    /// Sends what has been sealed. Ready when the kernel has all of it.
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

    /// No alert can be written while early data is being read; a later call writes it.
    fn close(&mut self) {
        if !self.closed {
            self.closed = self.connection.close_notify(&mut self.output.bytes);
            // Nothing follows a close_notify, while the peer may go on sending.
            self.tickets_due &= !self.closed;
        }
    }

    /// While the kernel seals: sends alerts and whatever must precede data.
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
        let done = ready!(socket.poll_io(cx, Direction::Output, |fd| {
            ended = connection.send_control(fd, data_follows)?;
            Ok((0, false))
        }));
        Poll::Ready(match (done, ended) {
            (Err(error), _) => Err(StreamError::Socket(error)),
            (Ok(_), Some(ended)) => Err(StreamError::Tls(ended)),
            (Ok(_), None) => Ok(()),
        })
    }

    /// Hands the write direction to the kernel once everything that libssl sealed has been sent.
    /// The connection's `ktls()` says whether the kernel took it.
    pub(super) fn poll_take_over(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ErrorOf<T>>> {
        // libssl seals whatever it has queued (tickets), and that is sent first.
        self.seal(&[], false)?;
        ready!(self.poll_flush(socket, cx))?;
        self.connection.take_over(socket.as_fd());
        Poll::Ready(Ok(()))
    }

    /// Reads more ciphertext, appended to what libssl has not taken yet; 0 is the end of the
    /// stream.
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

    /// Gives the input buffer back if it is empty.
    pub(super) fn release_input(&mut self) {
        if self.input_at == self.input.len() {
            self.input_at = 0;
            buffers::release(&mut self.input);
        }
    }

    /// Gives all buffers back; the connection is over.
    pub(super) fn release_all(&mut self) {
        self.input_at = 0;
        buffers::release(&mut self.input);
        self.output.release();
    }
}

/// A server's connection, which can continue in another process.
impl Sealed<sealane_tls::Connection> {
    /// Whether nothing is in transit, so that another process can take over the connection.
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
