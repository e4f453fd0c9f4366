//! A connected socket on tokio's reactor, with the calls that the standard traits lack: sending
//! several pieces with `MSG_MORE`, and sendfile.

use sealane_sys::{file, socket};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// Bytes of a Unix socket discarded per call. The kernel cannot discard them without a copy.
const UNIX_DISCARD_BYTES: usize = 4096;

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A unix stream socket.
    Unix(UnixStream),
}

impl Socket {
    /// A connected TCP socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    ///
    /// The thread has no event loop, or epoll does not take the socket.
    pub fn tcp(fd: OwnedFd) -> io::Result<Socket> {
        Ok(Socket::Tcp(TcpStream::from_std(fd.into())?))
    }

    /// A connected Unix socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    ///
    /// As [`Socket::tcp`].
    pub fn unix(fd: OwnedFd) -> io::Result<Socket> {
        Ok(Socket::Unix(UnixStream::from_std(fd.into())?))
    }

    /// Whether it is a TCP socket.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Socket::Tcp(_))
    }

    /// The same socket, registered with the event loop of the calling thread.
    ///
    /// # Errors
    ///
    /// As [`Socket::tcp`]; the socket is closed then.
    pub fn move_here(self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Socket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
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
        self.poll_io(cx, Interest::READABLE, |fd| {
            let n = socket::recv(fd, buf, max)?;
            Ok((n, 0 < n && n < max))
        })
    }

    /// Discards up to `max` received bytes; 0 is the end of the stream.
    pub fn poll_discard(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<usize>> {
        self.poll_io(cx, Interest::READABLE, |fd| {
            let (n, max) = match self {
                Socket::Tcp(_) => (socket::discard(fd, max)?, max),
                Socket::Unix(_) => {
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
        self.poll_io(cx, Interest::WRITABLE, |fd| {
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
        self.poll_io(cx, Interest::WRITABLE, |fd| {
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
        interest: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx, interest))?;
            let mut done = None;
            let result = self.try_io(interest, || {
                let (count, exhausted) = call(self.as_fd())?;
                done = Some(count);
                // WouldBlock tells tokio that readiness is used up.
                if exhausted {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
            if let Some(count) = done {
                return Poll::Ready(Ok(count));
            }
            match result {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {} // readiness was stale and has been cleared: wait for it
            }
        }
    }

    /// Ready when there may be something to receive, including the end of the stream.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(cx, Interest::READABLE)
    }

    fn poll_ready(&self, cx: &mut Context<'_>, interest: Interest) -> Poll<io::Result<()>> {
        match (self, interest.is_readable()) {
            (Socket::Tcp(s), true) => s.poll_read_ready(cx),
            (Socket::Tcp(s), false) => s.poll_write_ready(cx),
            // UnixStream has the same pair of methods.
            (Socket::Unix(s), true) => s.poll_read_ready(cx),
            (Socket::Unix(s), false) => s.poll_write_ready(cx),
        }
    }

    fn try_io(&self, interest: Interest, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.try_io(interest, call),
            Socket::Unix(s) => s.try_io(interest, call),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) => s.as_fd(),
        }
    }
}
