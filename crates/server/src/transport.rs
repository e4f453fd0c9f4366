//! Bytes to and from a client: plain or TLS, memory or file.
//!
//! This is the only place that knows how a file range travels. On plain TCP it
//! is sendfile; over TLS it is sendfile too where the kernel seals
//! (`transport/kernel_tls.rs`), otherwise the file is read in large batches,
//! many records are sealed at once and leave in one system call.
//!
//! Handlers build an [`OutputChain`]; nothing above this file can tell TLS from
//! plain.

use crate::buffers::{self, BATCH_BYTES};
use crate::chain::{OutputChain, Segment};
use crate::facts::ConnectionFacts;
use crate::outgoing::Outgoing;
use crate::tls_stream::{HandshakeTimes, TlsStream};
use crate::worker::Worker;
use gather::{ChainReader, FileError};
use sealane_log::Logger;
use sealane_tls::Packed;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pub(crate) mod gather;
mod kernel_tls;

/// Pieces of memory that leave in one call on plain connections.
const MAX_PIECES: usize = 16;

/// A connection to a client.
pub(crate) struct Transport {
    facts: Arc<ConnectionFacts>,
    tls: Option<Box<TlsStream>>,
    /// Reads the files of chains that do not leave by sendfile.
    reader: ChainReader,
    /// Plain bytes read from files that the kernel has not taken all of yet.
    copied: Outgoing,
    /// How far the end of a connection is that the kernel seals.
    kernel_end: kernel_tls::End,
    /// The end of the handshake has been seen by the checks for kernel TLS.
    ktls_settled: bool,
    /// Where to write debug lines about kernel TLS, if anyone wants them.
    debug_log: Option<Logger>,
}

/// How file ranges are sent, from the location's settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendMode {
    /// `sendfile on`.
    pub(crate) sendfile: bool,
    /// No more than this many body bytes until the call is ready (`sendfile_max_chunk`,
    /// `limit_rate`); counts down, so that waiting in between does not renew it.
    pub(crate) max_bytes: u64,
    /// Nothing follows on this connection: TLS says goodbye in the same packet.
    pub(crate) last: bool,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes were appended.
    Bytes(usize),
    /// The client has finished sending: FIN, or close_notify.
    End,
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(crate) enum TransportError {
    /// The socket failed: most often the client has gone.
    Socket(io::Error),
    /// The client closed the connection before the TLS handshake was complete.
    ClosedInHandshake,
    /// TLS failed.
    Tls(sealane_tls::Error),
    /// The kernel seals, and the connection could not go on under its key.
    KeysEnded(sealane_tls::KeysEnded),
    /// A file could not be read, or not to the length that was promised.
    File(FileError),
}

impl Transport {
    /// A plain connection; [`Transport::start_tls`] makes it a TLS one.
    pub(crate) fn new(facts: Arc<ConnectionFacts>) -> Transport {
        Transport {
            facts,
            tls: None,
            reader: ChainReader::default(),
            copied: Outgoing::default(),
            kernel_end: kernel_tls::End::default(),
            ktls_settled: false,
            debug_log: None,
        }
    }

    /// The TLS side, if there is one.
    pub(crate) fn tls(&self) -> Option<&TlsStream> {
        self.tls.as_deref()
    }

    /// Whether [`Transport::pack`] would succeed now.
    pub(crate) fn is_movable(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_movable())
    }

    /// Packs the TLS side for another process, if there is one. False when something of it
    /// is still on its way: all is as it was then.
    pub(crate) fn pack(&mut self) -> Result<Option<Packed>, ()> {
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

    /// Everything from now on goes through TLS.
    pub(crate) fn start_tls(&mut self, tls: TlsStream) {
        self.tls = Some(Box::new(tls));
    }

    /// Goes on with the TLS handshake. Ready, once, when it is done.
    pub(crate) fn poll_handshake(
        &mut self,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HandshakeTimes, TransportError>> {
        match &mut self.tls {
            Some(tls) => tls.poll_handshake(&self.facts.socket, worker, cx),
            None => Poll::Ready(Ok(HandshakeTimes::default())),
        }
    }

    /// Refuses a TLS handshake if nothing was done for it yet. Returns why the connection
    /// ends then.
    pub(crate) fn refuse_handshake(&mut self, cx: &mut Context<'_>) -> Option<TransportError> {
        let tls = self.tls.as_deref_mut()?;
        let can = tls.awaits_first_turn();
        can.then(|| tls.refuse(&self.facts.socket, cx))
    }

    /// Appends up to `max` bytes of what the client sent.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<Received, TransportError>> {
        if let Some(tls) = &mut self.tls {
            return tls.poll_receive(&self.facts.socket, cx, buf, max);
        }
        let n =
            ready!(self.facts.socket.poll_recv(cx, buf, max)).map_err(TransportError::Socket)?;
        Poll::Ready(Ok(if n == 0 {
            Received::End
        } else {
            Received::Bytes(n)
        }))
    }

    /// Gives buffers back while the connection is idle.
    pub(crate) fn release_buffers(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.release_buffers();
        }
    }

    /// Sends `head` and the chain, up to `mode.max_bytes` of the chain. Ready
    /// when that much has been handed to the kernel; what was sent is removed
    /// from both. `sent` counts bytes as handlers see them, before TLS.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Vec<u8>,
        chain: &mut OutputChain,
        mode: &mut SendMode,
        sent: &mut u64,
    ) -> Poll<Result<(), TransportError>> {
        if self.tls.is_none() {
            return self.poll_send_plain(cx, head, chain, mode, sent);
        }
        ready!(self.poll_consider_kernel(cx, chain, *mode))?;
        if self.is_sealed_by_kernel() {
            self.poll_send_kernel(cx, head, chain, mode, sent)
        } else {
            self.poll_send_tls(cx, head, chain, mode, sent)
        }
    }

    /// Says goodbye in TLS (close_notify) without waiting for the client's. Ready
    /// when closing the socket loses nothing.
    pub(crate) fn poll_goodbye(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TransportError>> {
        if self.is_sealed_by_kernel() {
            return self.poll_end_kernel(cx);
        }
        match &mut self.tls {
            Some(tls) => tls.poll_close_notify(&self.facts.socket, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_send_plain(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Vec<u8>,
        chain: &mut OutputChain,
        mode: &mut SendMode,
        sent: &mut u64,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            ready!(self.copied.poll_flush(&self.facts.socket, cx))?;
            if head.is_empty() && (mode.max_bytes == 0 || chain.is_empty()) {
                return Poll::Ready(Ok(()));
            }
            let allowed = mode.max_bytes;
            let file_next = allowed > 0 && matches!(chain.front(), Some(Segment::File(_)));
            let by_sendfile = file_next && mode.sendfile && head.is_empty();
            let (from_head, from_chain) = if by_sendfile {
                (0, ready!(self.poll_sendfile(cx, chain, allowed))?)
            } else if file_next && !mode.sendfile {
                ready!(self.poll_copy(cx, head, chain, allowed))?
            } else {
                ready!(self.poll_send_memory(cx, head, chain, allowed))?
            };
            self.note_sent(from_head as u64 + from_chain, by_sendfile);
            head.drain(..from_head);
            chain.advance(from_chain);
            mode.max_bytes -= from_chain;
            *sent += from_head as u64 + from_chain;
        }
    }

    /// Sends the head and the memory segments that follow it in one call.
    fn poll_send_memory(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        chain: &OutputChain,
        allowed: u64,
    ) -> Poll<Result<(usize, u64), TransportError>> {
        let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        if !head.is_empty() {
            pieces[0] = IoSlice::new(head);
            count = 1;
        }
        let mut left = allowed;
        // Another segment follows: let TCP fill the packet (a head and the first
        // bytes of its file).
        let mut more = false;
        for segment in chain.segments() {
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
        let n = ready!(self.facts.socket.poll_send(cx, &pieces[..count], more))
            .map_err(TransportError::Socket)?;
        let from_head = n.min(head.len());
        Poll::Ready(Ok((from_head, (n - from_head) as u64)))
    }

    /// Sends some of the file range at the front without copying it.
    fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        chain: &OutputChain,
        allowed: u64,
    ) -> Poll<Result<u64, TransportError>> {
        let Some(Segment::File(range)) = chain.front() else {
            return Poll::Ready(Ok(0));
        };
        // sendfile(2) never moves more than 2 GiB; a smaller number keeps it a usize everywhere.
        let count = range.len.min(allowed).min(1 << 30) as usize;
        let sent = self
            .facts
            .socket
            .poll_sendfile(cx, range.file.as_fd(), range.offset, count);
        Poll::Ready(match ready!(sent).map_err(TransportError::Socket)? {
            0 => Err(TransportError::File(FileError::Truncated {
                offset: range.offset,
            })),
            n => Ok(n as u64),
        })
    }

    /// `sendfile off`: reads a batch behind the head, to leave in one call.
    /// Returns how much of both that was.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        chain: &OutputChain,
        allowed: u64,
    ) -> Poll<Result<(usize, u64), TransportError>> {
        let mut plain = buffers::for_bytes(head.len() as u64 + chain.len().min(allowed));
        plain.extend_from_slice(head);
        let gathered = self.reader.poll_gather(cx, chain, &mut plain, allowed);
        match gathered {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(TransportError::File(error))),
            Poll::Pending if plain.is_empty() => {
                buffers::give_back(plain);
                return Poll::Pending;
            }
            // What could not be read without waiting follows later.
            Poll::Pending | Poll::Ready(Ok(_)) => {}
        }
        let taken = (plain.len() - head.len()) as u64;
        self.copied.bytes = plain;
        Poll::Ready(Ok((head.len(), taken)))
    }

    fn poll_send_tls(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Vec<u8>,
        chain: &mut OutputChain,
        mode: &mut SendMode,
        sent: &mut u64,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            let tls = self
                .tls
                .as_deref_mut()
                .expect("called for TLS connections only");
            ready!(tls.poll_flush(&self.facts.socket, cx))?;
            if head.is_empty() && (mode.max_bytes == 0 || chain.is_empty()) {
                return Poll::Ready(Ok(()));
            }
            let taken = ready!(self.poll_seal(cx, head, chain, *mode))?;
            *sent += head.len() as u64 + taken;
            head.clear();
            chain.advance(taken);
            mode.max_bytes -= taken;
        }
    }

    /// Seals the head and up to a batch of the chain into the TLS side's output.
    /// Returns how much of the chain that was.
    fn poll_seal(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        chain: &OutputChain,
        mode: SendMode,
    ) -> Poll<Result<u64, TransportError>> {
        let allowed = mode.max_bytes;
        if chain.is_empty() {
            self.seal(head, mode.last)?;
            return Poll::Ready(Ok(0));
        }
        if let (true, Some(Segment::Memory(bytes))) = (head.is_empty(), chain.front()) {
            // Memory alone is sealed from where it lies.
            let take = allowed.min(bytes.len() as u64).min(BATCH_BYTES as u64);
            let last = mode.last && take == chain.len();
            self.seal(&bytes[..take as usize], last)?;
            return Poll::Ready(Ok(take));
        }
        let mut plain = buffers::for_bytes(head.len() as u64 + chain.len().min(allowed));
        plain.extend_from_slice(head);
        let gathered = self.reader.poll_gather(cx, chain, &mut plain, allowed);
        let result = match gathered {
            Poll::Ready(Ok(taken)) => {
                let last = mode.last && taken == chain.len();
                self.seal(&plain, last).map(|()| taken)
            }
            // The file is not in the page cache: the head goes out meanwhile.
            Poll::Pending if plain.len() > head.len() || !head.is_empty() => {
                let taken = (plain.len() - head.len()) as u64;
                self.seal(&plain, false).map(|()| taken)
            }
            Poll::Pending => {
                buffers::give_back(plain);
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => Err(TransportError::File(error)),
        };
        buffers::give_back(plain);
        Poll::Ready(result)
    }

    fn seal(&mut self, plain: &[u8], last: bool) -> Result<(), TransportError> {
        let tls = self
            .tls
            .as_deref_mut()
            .expect("called for TLS connections only");
        tls.seal(plain, last)
    }
}

impl TransportError {
    /// Whether the client caused it by going away, which operators see at `info` only.
    pub(crate) fn is_client_gone(&self) -> bool {
        match self {
            TransportError::Socket(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
            ),
            TransportError::Tls(error) => error.fault() == sealane_tls::Fault::Peer,
            TransportError::ClosedInHandshake => true,
            TransportError::KeysEnded(ended) => *ended != sealane_tls::KeysEnded::Exhausted,
            TransportError::File(_) => false,
        }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::Socket(error) => {
                write!(
                    f,
                    "recv() or send() failed ({})",
                    sealane_log::OsError(error)
                )
            }
            TransportError::ClosedInHandshake => {
                f.write_str("peer closed connection in SSL handshake")
            }
            TransportError::Tls(error) => write!(f, "{error}"),
            TransportError::KeysEnded(ended) => write!(f, "{ended}"),
            TransportError::File(error) => write!(f, "{error}"),
        }
    }
}
