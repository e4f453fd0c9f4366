//! A connected socket on the event loop of its thread, with the calls that the standard traits
//! lack: sending several pieces with `MSG_MORE`, and sendfile.

use crate::runtime::{Direction, Registration, Watch};
use sealane_sys::{file, socket};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, ready};

/// Bytes of a Unix socket discarded per call. The kernel cannot discard them without a copy.
const UNIX_DISCARD_BYTES: usize = 4096;

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    // Dropped before the descriptor is closed.
    registration: Registration,
    fd: OwnedFd,
    is_tcp: bool,
}

impl Socket {
    /// A connected, non-blocking TCP socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    /// The thread has no event loop, or epoll does not take the socket.
    pub fn tcp(fd: OwnedFd) -> io::Result<Socket> {
        Socket::register(fd, true, Watch::Input)
    }

    /// A socket that was just accepted: its first bytes are expected to be there.
    ///
    /// # Errors
    /// The thread has no event loop.
    pub fn accepted(fd: OwnedFd, is_tcp: bool) -> io::Result<Socket> {
        Ok(Socket {
            registration: Registration::unwatched(fd.as_fd())?,
            fd,
            is_tcp,
        })
    }

    /// A connected, non-blocking Unix socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    /// As [`Socket::tcp`].
    pub fn unix(fd: OwnedFd) -> io::Result<Socket> {
        Socket::register(fd, false, Watch::Input)
    }

    /// A socket to prepare, and to connect then.
    ///
    /// # Errors
    /// The errno of `socket`.
    pub fn unconnected(domain: socket2::Domain) -> io::Result<socket2::Socket> {
        // As one call: setting what the kernel can begin with takes two more.
        let kind = socket2::Type::STREAM.nonblocking().cloexec();
        socket2::Socket::new_raw(domain, kind, None)
    }

    /// Connects a TCP socket that has been prepared: one of [`Socket::unconnected`].
    ///
    /// # Errors
    /// The errno of connecting.
    pub async fn connect_tcp(
        socket: socket2::Socket,
        address: std::net::SocketAddr,
    ) -> io::Result<Socket> {
        let is_near = address.ip().is_loopback();
        Socket::connect(socket, &address.into(), true, is_near).await
    }

    /// Connects a Unix socket that has been prepared: one of [`Socket::unconnected`].
    ///
    /// # Errors
    /// The errno of connecting.
    pub async fn connect_unix(socket: socket2::Socket, path: &Path) -> io::Result<Socket> {
        Socket::connect(socket, &socket2::SockAddr::unix(path)?, false, false).await
    }

    async fn connect(
        socket: socket2::Socket,
        address: &socket2::SockAddr,
        is_tcp: bool,
        is_near: bool,
    ) -> io::Result<Socket> {
        let mut connected = socket.connect(address);
        // On this machine the peer has answered by now, which the first call cannot say.
        if is_near && connected.as_ref().is_err_and(is_in_progress) {
            connected = socket.connect(address);
        }
        match connected {
            Ok(()) => return Socket::register(socket.into(), is_tcp, Watch::Input),
            Err(error) if is_in_progress(&error) => {}
            Err(error) => return Err(error),
        }
        let connecting = Socket::register(socket.into(), is_tcp, Watch::InputAndOutput)?;
        poll_fn(|cx| connecting.poll_ready(cx, Direction::Output)).await?;
        // An error would have been reported as the end.
        if !connecting.registration.has_ended() {
            return Ok(connecting);
        }
        match socket2::SockRef::from(&connecting.fd).take_error()? {
            Some(error) => Err(error),
            None => Ok(connecting),
        }
    }

    fn register(fd: OwnedFd, is_tcp: bool, watch: Watch) -> io::Result<Socket> {
        Ok(Socket {
            registration: Registration::new(fd.as_fd(), watch)?,
            fd,
            is_tcp,
        })
    }

    /// Whether it is a TCP socket.
    pub fn is_tcp(&self) -> bool {
        self.is_tcp
    }

    /// Ends this side's direction of the connection: the peer receives the end of the stream.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn end_sending(&self) -> io::Result<()> {
        socket::shutdown(self.fd.as_fd(), std::net::Shutdown::Write)
    }

    /// The same socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    /// As [`Socket::tcp`]; the socket is closed.
    pub fn move_here(self) -> io::Result<Socket> {
        let Socket {
            registration,
            fd,
            is_tcp,
        } = self;
        // The loop of before would go on to be woken for it.
        registration.unwatch(fd.as_fd());
        drop(registration);
        // What is there already is found by asking for it.
        Socket::accepted(fd, is_tcp)
    }

    /// Whether it is registered with the event loop of the calling thread.
    pub fn is_here(&self) -> bool {
        self.registration.is_here()
    }

    /// The event loop reports nothing of it any more: it lives on elsewhere, by another descriptor.
    pub fn unwatch(&self) {
        self.registration.unwatch(self.fd.as_fd());
    }

    /// Appends up to `max` received bytes; 0 is the end of the stream.
    ///
    /// A short read means that the kernel's buffer is empty, so it also clears readiness: the next
    /// call waits without asking the kernel again.
    pub fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Input, |fd| {
            let n = socket::recv(fd, buf, max)?;
            Ok((n, 0 < n && n < max))
        })
    }

    /// Discards up to `max` received bytes; 0 is the end of the stream.
    pub fn poll_discard(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Input, |fd| {
            let (n, max) = match self.is_tcp {
                true => (socket::discard(fd, max)?, max),
                false => {
                    let n = socket::recv_slice(fd, &mut [0; UNIX_DISCARD_BYTES])?;
                    (n, UNIX_DISCARD_BYTES)
                }
            };
            Ok((n, 0 < n && n < max))
        })
    }

    /// Sends pieces in one call; `more` announces that more data follows at once.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Output, |fd| {
            let (n, total) = match pieces {
                [piece] => (socket::send(fd, piece, more)?, piece.len()),
                _ => (
                    socket::send_vectored(fd, pieces, more)?,
                    pieces.iter().map(|p| p.len()).sum(),
                ),
            };
            Ok((n, n < total))
        })
    }

    /// Sends part of a file; 0 means that the file has ended before `offset`.
    pub fn poll_sendfile(
        &self,
        cx: &mut Context<'_>,
        from: BorrowedFd<'_>,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Direction::Output, |fd| {
            // A short count may also mean the end of the file. Readiness is kept, and the next call
            // finds out.
            Ok((file::sendfile(fd, from, offset, count)?, false))
        })
    }

    /// Runs a call when the socket is ready for it. The call returns its count and whether it has
    /// used up the readiness.
    pub fn poll_io(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, direction))?;
            match call(self.as_fd()) {
                Ok((count, exhausted)) => {
                    if exhausted {
                        self.registration.clear_ready(direction);
                    }
                    return Poll::Ready(Ok(count));
                }
                // Readiness was stale: wait for it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear_stale(direction);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether there may be something to receive, or the end of the stream, as far as that is known
    /// without a system call.
    pub fn may_have_input(&self) -> bool {
        self.registration.is_ready(Direction::Input)
    }

    fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.registration.poll_ready(self.fd.as_fd(), direction, cx)
    }
}

/// Connecting goes on.
fn is_in_progress(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINPROGRESS | libc::EALREADY)
    )
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    async fn connect(address: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::unconnected(socket2::Domain::for_address(address))?;
        Socket::connect_tcp(socket, address).await
    }

    #[test]
    fn a_connection_on_this_machine_carries_bytes_both_ways() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("loopback has a free port");
            let address = listener.local_addr().expect("it is bound");
            let runtime = Runtime::new().expect("descriptors");
            runtime.block_on(async {
                let socket = connect(address).await.expect("it listens");
                let (mut peer, _) = listener.accept().expect("it has connected");
                let sent = poll_fn(|cx| socket.poll_send(cx, &[IoSlice::new(b"question")], false));
                assert_eq!(sent.await.expect("there is room"), 8);
                let mut question = [0; 8];
                peer.read_exact(&mut question).expect("it was sent");
                peer.write_all(b"answer").expect("there is room");
                let mut answer = Vec::new();
                let received = poll_fn(|cx| socket.poll_recv(cx, &mut answer, 16)).await;
                assert_eq!(
                    (received.expect("it was sent"), &answer[..]),
                    (6, &b"answer"[..])
                );
                drop(peer);
                let end = poll_fn(|cx| socket.poll_recv(cx, &mut answer, 16)).await;
                assert_eq!(end.expect("an orderly end"), 0);
            });
        }
    }

    #[test]
    fn a_port_that_nobody_listens_on_refuses() {
        let runtime = Runtime::new().expect("descriptors");
        runtime.block_on(async {
            // Bound and not listening: nobody else can take the port.
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let held = held.expect("descriptors");
            held.bind(&address.into())
                .expect("loopback has a free port");
            let address = held.local_addr().expect("it is bound").as_socket();
            let refused = connect(address.expect("an address of IPv4")).await;
            let error = refused.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        });
    }
}
