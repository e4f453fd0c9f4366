//! TLS on a connection to a peer: moves ciphertext between the socket and the sans-IO
//! connection of `sealane_tls::client`, and owns what is on its way.

use crate::buffers::{self, BATCH_BYTES, SMALL_BYTES};
use crate::chain::{OutputChain, Segment};
use crate::socket::Socket;
use crate::transport::gather::ChainReader;
use sealane_tls::ReadStatus;
use sealane_tls::client::{Connection, Error, Handshake, SessionCache};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// Ciphertext read per call at first; most responses need no more.
const READ_BYTES: usize = SMALL_BYTES;
/// Ciphertext read per call once a read has filled its buffer: the peer sends a lot.
const READ_BULK_BYTES: usize = 64 << 10;

/// A socket to a peer with TLS on it.
///
/// Dropping it says goodbye (close_notify), as far as the socket takes that without waiting.
pub(crate) struct TlsLink {
    /// `None` only while the link moves to another event loop.
    socket: Option<Socket>,
    connection: Connection,
    /// Received ciphertext; libssl has taken everything before `input_at`.
    input: Vec<u8>,
    input_at: usize,
    /// Ciphertext to send; the kernel has taken everything before `output_at`.
    output: Vec<u8>,
    output_at: usize,
    /// Plaintext at the front of the caller's chain that is sealed in `output`.
    sealed: Sealed,
    /// Reads the file ranges of request bodies.
    reader: ChainReader,
    /// libssl may hold plaintext, or the end.
    readable: bool,
    /// The peer has said goodbye (close_notify).
    closed: bool,
    /// The last read from the socket filled its buffer.
    bulk: bool,
    /// The stream ended without a close_notify.
    cut: bool,
    sessions: Option<SessionKeeper>,
}

/// Where the sessions of a connection are kept (`proxy_ssl_session_reuse`).
pub(crate) struct SessionKeeper {
    pub(crate) cache: Arc<SessionCache>,
    /// What tells peers apart: the address.
    pub(crate) peer: Arc<str>,
}

/// How much of a chain is sealed, and how much of that the caller knows to have left.
#[derive(Default)]
struct Sealed {
    bytes: u64,
    told: u64,
}

impl TlsLink {
    /// A connection whose handshake has not begun.
    pub(crate) fn new(
        socket: Socket,
        connection: Connection,
        sessions: Option<SessionKeeper>,
    ) -> TlsLink {
        TlsLink {
            socket: Some(socket),
            connection,
            input: Vec::new(),
            input_at: 0,
            output: Vec::new(),
            output_at: 0,
            sealed: Sealed::default(),
            reader: ChainReader::default(),
            readable: false,
            closed: false,
            bulk: false,
            cut: false,
            sessions,
        }
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &Socket {
        let socket = self.socket.as_ref();
        socket.expect("nobody has the link while it moves")
    }

    /// The same link, whose events arrive at this thread's loop from now on.
    pub(crate) fn move_here(mut self: Box<Self>) -> io::Result<Box<TlsLink>> {
        if let Some(socket) = self.socket.take() {
            self.socket = Some(socket.move_here()?);
        }
        Ok(self)
    }

    /// Whether the peer closed the connection without saying so in TLS: what it sent may
    /// lack its end, and nobody can tell who cut it.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Does the handshake. Our last flight may stay in the output: it leaves with the request.
    ///
    /// # Errors
    /// The socket's, or a [`sealane_tls::client::Error`] inside.
    pub(crate) async fn handshake(&mut self) -> io::Result<()> {
        self.advance_handshake()?;
        poll_fn(|cx| self.poll_handshake(cx)).await
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.connection.is_established() {
                self.keep_session();
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_flush(cx))?;
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(io::Error::other(Error::ClosedInHandshake)));
            }
            if let Err(error) = self.advance_handshake() {
                // The alert is sent as far as the socket takes it.
                let _ = self.poll_flush(cx);
                return Poll::Ready(Err(error));
            }
        }
    }

    fn advance_handshake(&mut self) -> io::Result<()> {
        self.lend_output(SMALL_BYTES);
        let mut input = &self.input[self.input_at..];
        let state = self.connection.handshake(&mut input, &mut self.output);
        self.input_at = self.input.len() - input.len();
        match state {
            Ok(Handshake::Done) => self.readable = self.connection.has_pending(),
            Ok(Handshake::WantRead) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    /// Appends up to `max` bytes of plaintext; 0 is the end, in order or not: see
    /// [`is_cut`](Self::is_cut).
    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.readable || self.input_at < self.input.len() {
                match self.open_records(buf, max) {
                    Ok(0) => {}
                    Ok(count) => return Poll::Ready(Ok(count)),
                    Err(error) => {
                        // The alert is sent as far as the socket takes it.
                        let _ = self.poll_flush(cx);
                        return Poll::Ready(Err(io::Error::other(error)));
                    }
                }
            }
            if self.closed {
                return Poll::Ready(Ok(0));
            }
            match self.poll_fill(cx) {
                Poll::Ready(Ok(0)) => {
                    self.cut = true;
                    return Poll::Ready(Ok(0));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    // Answers of the protocol (to a KeyUpdate) must not wait for the next
                    // request. That the socket failed will be seen by whoever sends next.
                    let _ = self.poll_flush(cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Opens what has been received. Returns how many bytes of plaintext that gave.
    fn open_records(&mut self, buf: &mut Vec<u8>, max: usize) -> Result<usize, Error> {
        let before = buf.len();
        let mut input = &self.input[self.input_at..];
        let status = self.connection.read(&mut input, &mut self.output, buf, max);
        self.input_at = self.input.len() - input.len();
        let got = buf.len() - before;
        // What comes behind data (more of it, the close_notify, an error) is told by the
        // next call.
        self.readable = got > 0;
        self.closed |= status? == ReadStatus::CloseNotify;
        if self.input_at == self.input.len() {
            // An idle connection owns no buffer, and who reads on finds this one again.
            self.input_at = 0;
            buffers::release(&mut self.input);
        }
        self.keep_session();
        Ok(got)
    }

    /// Keeps the session that the peer gave last. With TLS 1.3 it comes with or before the
    /// first response, or even later.
    fn keep_session(&mut self) {
        if let Some(keeper) = &self.sessions
            && let Some(session) = self.connection.take_session()
        {
            keeper.cache.put(keeper.peer.as_bytes(), session);
        }
    }

    /// Seals and sends from the chain, a batch of records at a time. The chain gets shorter
    /// by what the kernel has taken, which is the result.
    ///
    /// # Errors
    /// The socket's, a [`FileError`](crate::transport::gather::FileError) or a
    /// [`sealane_tls::client::Error`] inside.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        chain: &mut OutputChain,
    ) -> Poll<io::Result<u64>> {
        loop {
            if self.sealed.bytes == 0 {
                if chain.is_empty() {
                    return self.poll_flush(cx).map_ok(|()| 0);
                }
                // Behind what the handshake left in the output: both leave together.
                if self.poll_seal(cx, chain)?.is_pending() {
                    let _ = self.poll_flush(cx)?;
                    return Poll::Pending;
                }
            }
            let flushed = self.poll_flush(cx);
            let left = self.tell_progress();
            if left > 0 {
                // Even if the rest failed, which the next call will say: the peer may have
                // acted on this.
                chain.advance(left);
                return Poll::Ready(Ok(left));
            }
            ready!(flushed)?;
        }
    }

    /// Plaintext that has left since this was last asked. A batch that leaves in pieces counts
    /// in proportion, so that a slow peer is not taken for a dead one; the last byte
    /// counts when all of the batch has left.
    fn tell_progress(&mut self) -> u64 {
        let Sealed { bytes, told } = self.sealed;
        if self.output_at == self.output.len() {
            self.sealed = Sealed::default();
            return bytes - told;
        }
        let share = self.output_at as u64 * bytes / self.output.len() as u64;
        let left = share.min(bytes.saturating_sub(1)).saturating_sub(told);
        self.sealed.told += left;
        left
    }

    /// Seals up to a batch of the chain.
    fn poll_seal(&mut self, cx: &mut Context<'_>, chain: &OutputChain) -> Poll<io::Result<()>> {
        let mut segments = chain.segments();
        if let (Some(Segment::Memory(bytes)), None) = (segments.next(), segments.next()) {
            // Memory alone is sealed from where it lies.
            let take = bytes.len().min(BATCH_BYTES);
            return Poll::Ready(self.seal(&bytes[..take]));
        }
        let mut plain = buffers::for_bytes(chain.len());
        let gathered = self.reader.poll_gather(cx, chain, &mut plain, u64::MAX);
        let sealed = match gathered {
            Poll::Ready(Ok(_)) => Poll::Ready(self.seal(&plain)),
            // A file is not in the page cache: what stands before it leaves meanwhile.
            Poll::Pending if !plain.is_empty() => Poll::Ready(self.seal(&plain)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(io::Error::other(error))),
        };
        buffers::give_back(plain);
        sealed
    }

    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        self.lend_output(plain.len() + SMALL_BYTES / 4);
        self.connection
            .write(plain, &mut self.output)
            .map_err(io::Error::other)?;
        self.sealed = Sealed {
            bytes: plain.len() as u64,
            told: 0,
        };
        Ok(())
    }

    /// Takes a buffer for the output, if it has none.
    fn lend_output(&mut self, bytes: usize) {
        if self.output.capacity() == 0 {
            self.output = buffers::for_bytes(bytes as u64);
        }
    }

    /// Sends what was sealed. Ready when the kernel has all of it; the buffer is given
    /// back then.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.output_at < self.output.len() {
            let rest = [IoSlice::new(&self.output[self.output_at..])];
            self.output_at += ready!(self.socket().poll_send(cx, &rest, false))?;
        }
        self.output_at = 0;
        buffers::release(&mut self.output);
        Poll::Ready(Ok(()))
    }

    /// Reads more ciphertext; 0 is the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input_at == self.input.len() {
            self.input.clear();
            self.input_at = 0;
        }
        let max = match self.bulk {
            true => READ_BULK_BYTES,
            false => READ_BYTES,
        };
        let mut input = std::mem::take(&mut self.input);
        if input.capacity() == 0 {
            input = buffers::for_bytes(max as u64);
        }
        let received = self.socket().poll_recv(cx, &mut input, max);
        self.input = input;
        match received {
            Poll::Ready(Ok(count)) => {
                self.bulk = count == max;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if self.input.is_empty() {
                    buffers::release(&mut self.input);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for TlsLink {
    fn drop(&mut self) {
        if self.socket.is_some() && self.connection.is_established() {
            self.lend_output(SMALL_BYTES);
            self.connection.close_notify(&mut self.output);
            let mut cx = Context::from_waker(Waker::noop());
            let _ = self.poll_flush(&mut cx);
        }
        buffers::release(&mut self.output);
        buffers::release(&mut self.input);
    }
}
