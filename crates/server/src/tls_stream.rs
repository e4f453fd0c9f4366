//! TLS over a socket: moves ciphertext between the socket and the sans-IO
//! connection of `sealane_tls`, and owns what is on its way.

use crate::buffers;
use crate::outgoing::Outgoing;
use crate::socket::Socket;
use crate::transport::{Received, TransportError};
use crate::turns::HandshakeSlot;
use crate::worker::Worker;
use sealane_tls::{HandshakeStatus, Load, Packed, ReadStatus};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::time::Sleep;

/// Ciphertext read per call at first; requests rarely need more.
const READ_BYTES: usize = buffers::SMALL_BYTES;
/// Ciphertext read per call once a read has filled its buffer: the client is uploading.
const READ_BULK_BYTES: usize = 64 << 10;

/// The TLS side of a connection.
pub(crate) struct TlsStream {
    connection: sealane_tls::Connection,
    /// Received ciphertext; libssl has taken everything before `input_at`.
    input: Vec<u8>,
    input_at: usize,
    /// Ciphertext to send.
    output: Outgoing,
    /// libssl may hold plaintext or could read more from `input`.
    readable: bool,
    /// Session tickets wait in libssl: they leave with the first response, or
    /// alone when the client sends no request with its last flight.
    tickets_due: bool,
    /// The last read from the socket filled its buffer.
    bulk: bool,
    /// close_notify has been written to `output`.
    closed: bool,
    /// TLS has failed on our side, and an alert says why.
    alerted: bool,
    /// The handshake, until it is done. In a box, as few connections are in one.
    opening: Option<Box<Opening>>,
}

/// What only a handshake needs.
struct Opening {
    /// Its place among the handshakes of the thread.
    place: HandshakeSlot,
    began: Instant,
    step: HandshakeWait,
    /// The first flight was begun.
    begun: bool,
    /// Runs while the session store is asked.
    lookup_timer: Option<Pin<Box<Sleep>>>,
}

/// What a handshake waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeWait {
    /// Bytes from the client.
    Input,
    /// Somebody else: the session store, a handshake thread, an accelerator.
    Asked,
    /// Nobody any more: it goes on without new input.
    Answered,
}

/// Where the time of a handshake went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HandshakeTimes {
    /// From the first byte of the client to the end.
    pub(crate) total: Duration,
    /// Of that, waiting for others.
    pub(crate) queued: Duration,
}

impl TlsStream {
    /// A connection whose first bytes, if some were read already, are `received`.
    pub(crate) fn new(
        connection: sealane_tls::Connection,
        received: Vec<u8>,
        place: HandshakeSlot,
    ) -> TlsStream {
        let opening = Opening {
            place,
            began: Instant::now(),
            step: HandshakeWait::Input,
            begun: false,
            lookup_timer: None,
        };
        TlsStream {
            input: received,
            opening: Some(Box::new(opening)),
            ..TlsStream::moved(connection)
        }
    }

    /// A connection that was served by another process so far.
    pub(crate) fn moved(connection: sealane_tls::Connection) -> TlsStream {
        TlsStream {
            connection,
            input: Vec::new(),
            input_at: 0,
            output: Outgoing::default(),
            readable: false,
            tickets_due: false,
            bulk: false,
            closed: false,
            alerted: false,
            opening: None,
        }
    }

    /// Whether nothing is on its way, so that another process can go on with it.
    pub(crate) fn is_movable(&self) -> bool {
        self.opening.is_none()
            && !self.closed
            && self.input_at == self.input.len()
            && self.output.is_empty()
            && self.connection.check_packable().is_ok()
    }

    /// Packs a connection between two requests for another process. The stream as it was
    /// when something of it is still on its way.
    pub(crate) fn pack(self) -> Result<Packed, Box<TlsStream>> {
        if !self.is_movable() {
            return Err(Box::new(self));
        }
        let TlsStream { connection, .. } = self;
        connection
            .pack()
            .map_err(|back| Box::new(TlsStream::moved(back.0)))
    }

    /// The TLS connection itself, for what was negotiated.
    pub(crate) fn connection(&self) -> &sealane_tls::Connection {
        &self.connection
    }

    /// Whether the connection ends with an alert of ours, which a close that finds bytes
    /// unread would take from the client.
    pub(crate) fn is_alerted(&self) -> bool {
        self.alerted
    }

    /// The checks for kernel TLS at the end of the handshake. Returns whether the
    /// kernel should take over at once.
    pub(crate) fn settle_ktls(&mut self, is_tcp: bool) -> bool {
        self.connection.settle_ktls(is_tcp)
    }

    /// Hands the write direction to the kernel once everything that libssl sealed
    /// has been sent. Whether the kernel took it is the connection's `ktls()`.
    pub(crate) fn poll_take_over(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        // What libssl has queued (tickets) is sealed by libssl and leaves first.
        self.seal(&[], false)?;
        ready!(self.poll_flush(socket, cx))?;
        self.connection.take_over(socket.as_fd());
        Poll::Ready(Ok(()))
    }

    /// Whether what is sent through the socket is sealed by the kernel.
    pub(crate) fn is_sealed_by_kernel(&self) -> bool {
        self.connection.is_sealed_by_kernel()
    }

    /// Counts what the kernel has taken.
    pub(crate) fn sent_by_kernel(&mut self, bytes: u64) {
        self.connection.sent_by_kernel(bytes);
    }

    /// While the kernel seals: sends alerts, and what must come before data.
    pub(crate) fn poll_control(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        data_follows: bool,
    ) -> Poll<Result<(), TransportError>> {
        if !self.is_sealed_by_kernel() {
            return Poll::Ready(Ok(()));
        }
        let mut ended = None;
        let connection = &mut self.connection;
        let done = ready!(socket.poll_io(cx, Interest::WRITABLE, |fd| {
            ended = connection.send_control(fd, data_follows)?;
            Ok((0, false))
        }));
        Poll::Ready(match (done, ended) {
            (Err(error), _) => Err(TransportError::Socket(error)),
            (Ok(_), Some(ended)) => Err(TransportError::KeysEnded(ended)),
            (Ok(_), None) => Ok(()),
        })
    }

    /// Goes on with the handshake, in turn with the others of the thread. What libssl
    /// writes last (session tickets) may still wait in the output: it leaves with the first
    /// response, or when the connection waits for its first request.
    ///
    /// Not to be called again once it was ready.
    pub(crate) fn poll_handshake(
        &mut self,
        socket: &Socket,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HandshakeTimes, TransportError>> {
        loop {
            if self.poll_answer(cx).is_pending() {
                return self.poll_gone(socket, cx);
            }
            let opening = self.opening.as_deref_mut();
            let opening = opening.expect("there is one until the handshake is done");
            if opening.step == HandshakeWait::Answered || self.input_at < self.input.len() {
                let turn = ready!(opening.place.poll_turn(cx));
                opening.begun = true;
                let load = Load {
                    has_others: worker.counters.active.get() > 1,
                    is_crowded: turn.is_crowded(),
                };
                let mut input = &self.input[self.input_at..];
                let status = self
                    .connection
                    .handshake(&mut input, &mut self.output.bytes, load);
                drop(turn);
                self.input_at = self.input.len() - input.len();
                match status {
                    Ok(HandshakeStatus::Done) => {
                        let times = opening.times(&self.connection);
                        self.opening = None;
                        self.readable = true;
                        self.tickets_due = true;
                        return Poll::Ready(Ok(times));
                    }
                    Ok(HandshakeStatus::WantRead) => {
                        let was_answered = opening.step == HandshakeWait::Answered;
                        opening.step = HandshakeWait::Input;
                        if was_answered && self.input_at < self.input.len() {
                            // What came behind the flight that was away was not looked at yet.
                            continue;
                        }
                    }
                    Ok(HandshakeStatus::Pending) => {
                        opening.step = HandshakeWait::Asked;
                        let is_lookup = self.connection.lookup_timeout().is_some();
                        opening.place.set_in_flight(!is_lookup);
                        continue;
                    }
                    Err(error) => {
                        self.opening = None;
                        self.alerted = !self.output.is_empty();
                        // The alert is sent as far as the socket takes it.
                        let _ = self.poll_flush(socket, cx);
                        return Poll::Ready(Err(TransportError::Tls(error)));
                    }
                }
            }
            ready!(self.poll_flush(socket, cx))?;
            if ready!(self.poll_fill(socket, cx))? == 0 {
                return Poll::Ready(Err(TransportError::ClosedInHandshake));
            }
        }
    }

    /// While somebody else has the handshake: ready when the client has gone away. What it wanted is
    /// cancelled then. A client whose bytes wait has only ended its side, and may get an answer.
    fn poll_gone<T>(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, TransportError>> {
        if self.input_at == self.input.len() {
            match self.poll_fill(socket, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(TransportError::ClosedInHandshake)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// Refuses the handshake, of which nothing has been done yet: an alert is sent, as far as
    /// the socket takes it at once. Returns why the connection ends.
    pub(crate) fn refuse(&mut self, socket: &Socket, cx: &mut Context<'_>) -> TransportError {
        self.opening = None;
        let error = self.connection.refuse(&mut self.output.bytes);
        let _ = self.poll_flush(socket, cx);
        TransportError::Tls(error)
    }

    /// Whether nothing has been done for the handshake yet.
    pub(crate) fn awaits_first_turn(&self) -> bool {
        self.opening
            .as_deref()
            .is_some_and(|opening| !opening.begun)
    }

    /// Waits for whoever was asked: for the session store no longer than it may take
    /// in all.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(opening) = self.opening.as_deref_mut() else {
            return Poll::Ready(());
        };
        if opening.step != HandshakeWait::Asked {
            return Poll::Ready(());
        }
        if self.connection.poll_pending(cx).is_pending() {
            let Some(timeout) = self.connection.lookup_timeout() else {
                return Poll::Pending;
            };
            let timer = &mut opening.lookup_timer;
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            ready!(timer.as_mut().poll(cx));
            self.connection.lookup_timed_out();
        }
        opening.place.set_in_flight(false);
        opening.step = HandshakeWait::Answered;
        Poll::Ready(())
    }

    /// Appends up to `max` bytes of plaintext.
    pub(crate) fn poll_receive(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, TransportError>> {
        loop {
            if (self.readable || self.input_at < self.input.len())
                && let Some(received) = self.decrypt(socket, cx, buf, max)?
            {
                return Poll::Ready(Ok(received));
            }
            match self.poll_fill(socket, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Received::End)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.flush_before_waiting(socket, cx),
            }
        }
    }

    /// Whatever is left to send (tickets, answers of the protocol) must not wait
    /// until the client sends something.
    fn flush_before_waiting(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, TransportError>> {
        if self.tickets_due {
            self.seal(&[], false)?;
        }
        match self.poll_flush(socket, cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        match self.poll_control(socket, cx, false) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    }

    /// Opens what has been received. `None` means that more is needed.
    fn decrypt(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Result<Option<Received>, TransportError> {
        let before = buf.len();
        // Plaintext is never longer than the records it came in, so that a small
        // request does not have a large target cleared for it.
        let max = if self.readable {
            max
        } else {
            max.min(self.input.len() - self.input_at)
        };
        buf.resize(before + max, 0);
        let mut input = &self.input[self.input_at..];
        let status = self
            .connection
            .read(&mut input, &mut self.output.bytes, &mut buf[before..]);
        self.input_at = self.input.len() - input.len();
        let got = match &status {
            Ok(ReadStatus::Data(n)) => *n,
            _ => 0,
        };
        buf.truncate(before + got);
        // A filled target is the only case in which libssl may hold more.
        self.readable = got == max;
        match status {
            Ok(ReadStatus::Data(n)) => Ok(Some(Received::Bytes(n))),
            Ok(ReadStatus::CloseNotify) => Ok(Some(Received::End)),
            Ok(ReadStatus::WantRead) => Ok(None),
            Err(error) => {
                self.alerted |= !self.output.is_empty() || self.is_sealed_by_kernel();
                // The alert is sent as far as the socket takes it.
                let _ = self.poll_flush(socket, cx);
                let _ = self.poll_control(socket, cx, false);
                Err(TransportError::Tls(error))
            }
        }
    }

    /// Seals plaintext into the output; with `last`, says goodbye behind it.
    pub(crate) fn seal(&mut self, plain: &[u8], last: bool) -> Result<(), TransportError> {
        self.tickets_due = false; // every write takes them along
        if self.output.bytes.capacity() == 0 {
            let small = plain.len() + buffers::SMALL_BYTES / 4 <= buffers::SMALL_BYTES;
            self.output.bytes = if small {
                buffers::small()
            } else {
                buffers::large()
            };
        }
        let now_ms = sealane_sys::time::monotonic_coarse_ms();
        self.connection
            .write(plain, now_ms, &mut self.output.bytes)
            .map_err(TransportError::Tls)?;
        if last {
            self.close();
        }
        Ok(())
    }

    /// Sends what was sealed. Ready when the kernel has all of it.
    pub(crate) fn poll_flush(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        self.output.poll_flush(socket, cx)
    }

    /// Sends close_notify, once.
    pub(crate) fn poll_close_notify(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        self.close();
        ready!(self.poll_flush(socket, cx))?;
        self.poll_control(socket, cx, false)
    }

    /// Gives buffers back while nothing is on its way.
    pub(crate) fn release_buffers(&mut self) {
        if self.input_at == self.input.len() {
            self.input_at = 0;
            buffers::release(&mut self.input);
        }
    }

    /// While early data is read there can be no alert yet: it is written by a later call.
    fn close(&mut self) {
        if !self.closed && !self.connection.is_early_data() {
            self.closed = true;
            self.connection.shutdown(&mut self.output.bytes);
        }
    }

    /// Reads more ciphertext behind what libssl has not taken yet.
    fn poll_fill(
        &mut self,
        socket: &Socket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, TransportError>> {
        if self.input_at == self.input.len() {
            self.input.clear();
            self.input_at = 0;
        }
        let max = if self.bulk {
            READ_BULK_BYTES
        } else {
            READ_BYTES
        };
        if self.input.capacity() == 0 {
            self.input = if self.bulk {
                buffers::large()
            } else {
                buffers::small()
            };
        }
        match socket.poll_recv(cx, &mut self.input, max) {
            Poll::Ready(Ok(n)) => {
                self.bulk = n == max;
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(TransportError::Socket(error))),
            Poll::Pending => {
                self.release_buffers();
                Poll::Pending
            }
        }
    }
}

impl Opening {
    fn times(&self, connection: &sealane_tls::Connection) -> HandshakeTimes {
        HandshakeTimes {
            total: self.began.elapsed(),
            queued: self.place.waited() + connection.queue_time(),
        }
    }
}
