//! A socket for datagrams (UDP) on the event loop of its thread.

use crate::runtime::{Direction, Registration, Watch};
use sealane_sys::socket::{
    self, BATCH_MESSAGES, Ecn, MAX_SEGMENTED_BYTES, MAX_SEGMENTS, MessageToSend, ReceivedBatch,
};
pub use send_batch::{Refused, SendBatch, Transmit};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

mod send_batch;
#[cfg(test)]
mod tests;

thread_local! {
    /// What the running task receives; made when the first one receives.
    static BATCH: RefCell<Option<Box<ReceivedBatch>>> = const { RefCell::new(None) };
}

/// A socket for datagrams: bound, for clients, or connected to a server.
pub struct DatagramSocket {
    // Dropped before the descriptor is closed.
    registration: Registration,
    fd: OwnedFd,
    /// The kernel and the network cut messages into datagrams, for all that is known.
    cuts: Cell<bool>,
    /// The kernel was asked to join datagrams, or must not.
    joins: Cell<bool>,
}

/// Datagrams for one peer, one after the other in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// All their bytes.
    pub bytes: &'a [u8],
    /// The size of each but the last, which may be shorter; at least 1.
    pub segment_bytes: usize,
}

impl<'a> Run<'a> {
    /// One datagram.
    pub fn one(bytes: &'a [u8]) -> Run<'a> {
        Run {
            bytes,
            segment_bytes: bytes.len().max(1),
        }
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        Run::count_of(self.bytes, self.segment_bytes)
    }

    fn count_of(bytes: &[u8], segment_bytes: usize) -> usize {
        bytes.len().div_ceil(segment_bytes).max(1)
    }

    /// The same datagrams, each by itself.
    pub fn cut(self) -> impl Iterator<Item = Run<'a>> + Clone {
        let empty = self.bytes.is_empty().then_some(self.bytes);
        let chunks = self.bytes.chunks(self.segment_bytes);
        empty.into_iter().chain(chunks).map(Run::one)
    }

    /// Whether a datagram of this size may follow: it is no longer than the others, they are full,
    /// and the kernel cuts that many.
    pub fn takes(&self, bytes: usize) -> bool {
        let is_full = self.bytes.len().is_multiple_of(self.segment_bytes) && !self.bytes.is_empty();
        is_full
            && (1..=self.segment_bytes).contains(&bytes)
            && self.count() < MAX_SEGMENTS
            && self.bytes.len() + bytes <= MAX_SEGMENTED_BYTES
    }
}

/// Where datagrams go to and come from; neither is needed on connected sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Path {
    /// The peer.
    pub to: Option<SocketAddr>,
    /// The machine's own address.
    pub from: Option<IpAddr>,
}

impl DatagramSocket {
    /// A non-blocking socket that is bound to `address`, registered with the event loop of the
    /// calling thread. If that stands for all addresses, it reports to which one each was sent.
    ///
    /// # Errors
    /// The thread has no event loop, epoll does not take the socket, or it is none for datagrams.
    pub fn bound(fd: OwnedFd, address: SocketAddr) -> io::Result<DatagramSocket> {
        if address.ip().is_unspecified() {
            socket::report_local_address(fd.as_fd(), address.is_ipv4())?;
        }
        let socket = DatagramSocket::register(fd)?;
        socket.join();
        Ok(socket)
    }

    /// The same for packets of QUIC: the socket reports ECN as well (RFC 9000 section 13.4), and
    /// nobody cuts packets into fragments (section 14).
    ///
    /// # Errors
    /// As [`DatagramSocket::bound`].
    pub fn bound_for_quic(fd: OwnedFd, address: SocketAddr) -> io::Result<DatagramSocket> {
        socket::report_ecn(fd.as_fd(), address.is_ipv4())?;
        socket::forbid_fragments(fd.as_fd(), address.is_ipv4())?;
        let socket = DatagramSocket::bound(fd, address)?;
        socket.cuts.set(socket::cuts_datagrams(socket.as_fd()));
        Ok(socket)
    }

    /// A socket to prepare, and to connect then.
    ///
    /// # Errors
    /// The errno of `socket`.
    pub fn unconnected(domain: socket2::Domain) -> io::Result<socket2::Socket> {
        let kind = socket2::Type::DGRAM.nonblocking().cloexec();
        socket2::Socket::new_raw(domain, kind, None)
    }

    /// Connects a socket that has been prepared.
    ///
    /// # Errors
    /// The errno of connecting: there is no way to that address.
    pub fn connect(socket: socket2::Socket, address: SocketAddr) -> io::Result<DatagramSocket> {
        DatagramSocket::connect_to(socket, &address.into())
    }

    /// Connects a Unix socket for datagrams.
    ///
    /// # Errors
    /// The errno of connecting: nobody receives there.
    pub fn connect_unix(
        socket: socket2::Socket,
        path: &std::path::Path,
    ) -> io::Result<DatagramSocket> {
        DatagramSocket::connect_to(socket, &socket2::SockAddr::unix(path)?)
    }

    fn connect_to(
        socket: socket2::Socket,
        address: &socket2::SockAddr,
    ) -> io::Result<DatagramSocket> {
        socket.connect(address)?;
        DatagramSocket::register(socket.into())
    }

    fn register(fd: OwnedFd) -> io::Result<DatagramSocket> {
        Ok(DatagramSocket {
            registration: Registration::new(fd.as_fd(), Watch::Input)?,
            fd,
            cuts: Cell::new(true),
            joins: Cell::new(false),
        })
    }

    /// From now on the kernel joins datagrams. Where it cannot, they come one by one.
    fn join(&self) {
        if !self.joins.replace(true) {
            let _ = socket::join_datagrams(self.fd.as_fd(), true);
        }
    }

    /// Receives what has arrived, at most `max` messages or one batch, and hands it to `take`. The
    /// batch is memory that all sockets of the thread use: `take` must not receive.
    ///
    /// # Errors
    /// On a connected socket, what became of a datagram that was sent (`ECONNREFUSED`). The socket
    /// goes on to work.
    pub fn poll_receive<R>(
        &self,
        cx: &mut Context<'_>,
        max: usize,
        take: impl FnOnce(&mut ReceivedBatch) -> R,
    ) -> Poll<io::Result<R>> {
        BATCH.with_borrow_mut(|batch| {
            let batch = batch.get_or_insert_with(|| Box::new(ReceivedBatch::new()));
            loop {
                ready!(self.poll_ready(cx, Direction::Input))?;
                match batch.receive(self.as_fd(), max) {
                    Ok(count) => {
                        if count < max.min(BATCH_MESSAGES) {
                            self.registration.clear_ready(Direction::Input);
                        }
                        // It pays only where they come in numbers: most sessions get one.
                        if count > 1 {
                            self.join();
                        }
                        return Poll::Ready(Ok(take(batch)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.registration.clear_stale(Direction::Input);
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        })
    }

    /// Sends runs of datagrams along one path, at most one batch. Ready with how many datagrams the
    /// kernel has taken, at least one.
    ///
    /// # Errors
    /// Why the first one cannot be sent, or what became of one that was sent before.
    pub fn poll_send<'a>(
        &self,
        cx: &mut Context<'_>,
        path: Path,
        runs: impl Iterator<Item = Run<'a>> + Clone,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, Direction::Output))?;
            let sent = match self.cuts.get() {
                true => self.send(path, runs.clone()).or_else(|error| {
                    let has_runs = runs.clone().any(|run| run.count() > 1);
                    if !(is_uncut(&error) && has_runs) {
                        return Err(error);
                    }
                    // If that was the reason, it is one for all that follow.
                    let sent = self.send(path, runs.clone().flat_map(Run::cut))?;
                    self.cuts.set(false);
                    Ok(sent)
                }),
                false => self.send(path, runs.clone().flat_map(Run::cut)),
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear_stale(Direction::Output);
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Whether the kernel gets many datagrams at once to send, where it can cut them.
    pub fn send_joined(&self, is_wanted: bool) {
        let can_cut = || socket::cuts_datagrams(self.as_fd());
        self.cuts.set(is_wanted && can_cut());
    }

    /// From now on the kernel joins no datagrams, so that a message is one.
    pub fn receive_each(&self) {
        // Where it cannot join them, it cannot be told so either.
        if self.joins.replace(true) {
            let _ = socket::join_datagrams(self.fd.as_fd(), false);
        }
    }

    fn send<'a>(&self, path: Path, runs: impl Iterator<Item = Run<'a>>) -> io::Result<usize> {
        let mut messages = SmallVec::<[MessageToSend<'_>; BATCH_MESSAGES]>::new();
        messages.extend(runs.take(BATCH_MESSAGES).map(|run| MessageToSend {
            bytes: run.bytes,
            segment_bytes: run.segment_bytes,
            to: path.to,
            from: path.from,
            ecn: Ecn::NotEct,
        }));
        let taken = socket::send_datagrams(self.as_fd(), &messages)?;
        Ok(DatagramSocket::count(&messages[..taken]))
    }

    /// How many datagrams these are.
    fn count(messages: &[MessageToSend<'_>]) -> usize {
        let count =
            |message: &MessageToSend<'_>| Run::count_of(message.bytes, message.segment_bytes);
        messages.iter().map(count).sum()
    }

    fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.registration.poll_ready(self.as_fd(), direction, cx)
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel, the network card or the size of packets on the way does not allow to send a message
/// that is to be cut.
fn is_uncut(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::ENOPROTOOPT | libc::EOPNOTSUPP)
    )
}
