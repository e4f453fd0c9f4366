//! A TCP connection to ourselves, both ends driven from one thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sealane_sys::OsError;
use sealane_sys::poll::{self, Interest};
use sealane_sys::socket::{self, PeerAddress};

use super::unavailable::Unavailable;

/// The buffer size of each socket. It is too small for a sample, so that calls are cut short as on
/// a slow connection, but large enough for the loopback's segments of 64 KiB.
const BUFFER_BYTES: usize = 96 << 10;

/// Bytes read from the socket at once. Odd, so that records arrive in pieces.
const READ_BYTES: usize = 12_345;

/// A connection over the loopback; both ends are non-blocking.
pub(super) struct Pair {
    pub(super) sender: OwnedFd,
    pub(super) receiver: OwnedFd,
}

/// How a connection was driven.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// How often the sender had to wait for room.
    pub(super) waits: u32,
}

impl Pair {
    /// Connects over IPv4 or, where there is none, over IPv6.
    ///
    /// # Errors
    /// [`Unavailable::Loopback`].
    pub(super) fn open(deadline: Instant) -> Result<Pair, Unavailable> {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        Pair::open_at(v4, deadline)
            .or_else(|error| Pair::open_at(v6, deadline).map_err(|_| error))
            .map_err(|error| Unavailable::Loopback(OsError(&error).to_string()))
    }

    fn open_at(address: SocketAddr, deadline: Instant) -> io::Result<Pair> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        socket::set_buffers(listener.as_fd(), BUFFER_BYTES, BUFFER_BYTES)?;
        // A firewall that drops packets must not block us for minutes.
        let sender = TcpStream::connect_timeout(&listener.local_addr()?, left(deadline)?)?;
        sender.set_nonblocking(true)?;
        sender.set_nodelay(true)?;
        socket::set_buffers(sender.as_fd(), BUFFER_BYTES, BUFFER_BYTES)?;
        let own = sender.local_addr()?;
        loop {
            match socket::accept(listener.as_fd()) {
                // Anybody on this machine can connect; accept only our own connection.
                Ok(accepted) if accepted.peer == PeerAddress::Inet(own) => {
                    return Ok(Pair {
                        sender: sender.into(),
                        receiver: accepted.fd,
                    });
                }
                Ok(_stranger) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll::wait_readable(&[listener.as_fd()], Some(left(deadline)?))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Calls `send` whenever there is room until it reports that all is sent, and `take` with what
    /// arrives until it reports that all is there.
    ///
    /// # Errors
    /// What `send` or `take` say, or [`Unavailable::SelfTest`].
    pub(super) fn drive(
        &self,
        deadline: Instant,
        mut send: impl FnMut(BorrowedFd<'_>) -> Result<Sent, Unavailable>,
        mut take: impl FnMut(&[u8]) -> Result<Taken, Unavailable>,
    ) -> Result<Course, Unavailable> {
        let mut course = Course::default();
        let mut sending = true;
        let mut received = Vec::with_capacity(READ_BYTES);
        loop {
            while sending {
                match send(self.sender.as_fd())? {
                    Sent::Some => {}
                    Sent::All => sending = false,
                    Sent::Full => {
                        course.waits += 1;
                        break;
                    }
                }
            }
            loop {
                received.clear();
                match socket::recv(self.receiver.as_fd(), &mut received, READ_BYTES) {
                    Ok(0) => {
                        return Err(Unavailable::SelfTest("the connection ended early".into()));
                    }
                    Ok(_) => {
                        if let Taken::Complete = take(&received)? {
                            return Ok(course);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(Unavailable::failed("receiving", &error)),
                }
            }
            self.wait(sending, deadline)?;
        }
    }

    /// Waits until one end can continue.
    fn wait(&self, sending: bool, deadline: Instant) -> Result<(), Unavailable> {
        let both = [
            (self.receiver.as_fd(), Interest::Readable),
            (self.sender.as_fd(), Interest::Writable),
        ];
        let wanted = if sending { &both[..] } else { &both[..1] };
        let time = left(deadline)
            .map_err(|_| Unavailable::SelfTest("the bytes sent did not arrive in time".into()))?;
        poll::wait(wanted, Some(time)).map_err(|error| Unavailable::failed("waiting", &error))?;
        Ok(())
    }
}

/// What a call of `send` did.
pub(super) enum Sent {
    /// There is more.
    Some,
    /// Everything is sent.
    All,
    /// The socket had no room.
    Full,
}

/// The receiver's verdict on the bytes so far.
pub(super) enum Taken {
    /// More must come.
    Incomplete,
    /// Everything is there.
    Complete,
}

/// Time until `deadline`; `TimedOut` when there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        time => Ok(time),
    }
}
