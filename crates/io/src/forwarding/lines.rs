//! Datagrams for another process: over a pair of Unix sockets that keep message boundaries
//! (`SOCK_SEQPACKET`), one message each.
//!
//! ```text
//! message:  format (1) | ECN (1) | thread (1) | peer | local | bytes of the datagram
//! address:  4 | address (4) | port (2)
//!           6 | address (16) | port (2) | scope (4)
//! ```

use super::Forwarded;
use crate::buffers;
use crate::runtime::{self, Direction, Registration, Watch};
use sealane_sys::socket::{self, Ecn};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// The first byte of a message. Another release that changes the rest has another one.
const FORMAT: u8 = 2;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
/// The longest address.
const MAX_ADDRESS_BYTES: usize = 1 + 16 + 2 + 4;
/// All before the datagram.
const MAX_HEAD_BYTES: usize = 3 + 2 * MAX_ADDRESS_BYTES;
/// No datagram is longer.
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Room for a message and one byte, which tells that it was longer.
const BUFFER_BYTES: usize = MAX_HEAD_BYTES + MAX_DATAGRAM_BYTES + 1;

/// Messages that are taken before other tasks of the thread have their turn.
const MESSAGES_PER_POLL: usize = 64;

/// The end that sends; all threads may.
#[derive(Debug)]
pub struct ForwardLineSender {
    fd: OwnedFd,
    dropped: AtomicU64,
}

impl ForwardLineSender {
    /// One end of a [`socket::seqpacket_pair`], which is non-blocking. The kernel limits what waits
    /// in it (`SO_SNDBUF`).
    pub fn new(fd: OwnedFd) -> ForwardLineSender {
        ForwardLineSender {
            fd,
            dropped: AtomicU64::new(0),
        }
    }

    /// Sends a datagram for a thread, without waiting. Returns whether there was room, and another
    /// end.
    pub fn send(&self, thread: u8, datagram: Forwarded<&[u8]>) -> bool {
        let mut head = Head::default();
        head.push(&[FORMAT, datagram.ecn.bits(), thread]);
        head.push_address(datagram.peer);
        head.push_address(datagram.local);
        let pieces = [IoSlice::new(head.written()), IoSlice::new(datagram.bytes)];
        let fits = datagram.bytes.len() <= MAX_DATAGRAM_BYTES;
        let is_sent = fits && socket::send_vectored(self.fd.as_fd(), &pieces, false).is_ok();
        if !is_sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_sent
    }

    /// Datagrams that were dropped because the line was full or has ended.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl AsFd for ForwardLineSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The end that receives, on the event loop of its thread.
#[derive(Debug)]
pub struct ForwardLineReceiver {
    // Dropped before the descriptor is closed.
    registration: Registration,
    fd: OwnedFd,
    malformed: u64,
}

impl ForwardLineReceiver {
    /// The other end of a pair.
    ///
    /// # Errors
    /// The thread has no event loop, or epoll does not take the socket.
    pub fn new(fd: OwnedFd) -> io::Result<ForwardLineReceiver> {
        Ok(ForwardLineReceiver {
            registration: Registration::new(fd.as_fd(), Watch::Input)?,
            fd,
            malformed: 0,
        })
    }

    /// Hands the datagrams that have come, and the threads that they are for, to `take`, a bounded
    /// number of them. Returns how many they were; 0 when the other process has closed its end.
    ///
    /// # Errors
    /// The errno of receiving; the line is of no use any more.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(u8, Forwarded<&mut [u8]>),
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx))?;
        let mut buffer = buffers::large();
        buffer.resize(BUFFER_BYTES, 0);
        let received = self.poll_messages(cx, &mut buffer, &mut take);
        buffers::give_back(buffer);
        received
    }

    fn poll_messages(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        take: &mut impl FnMut(u8, Forwarded<&mut [u8]>),
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        for _ in 0..MESSAGES_PER_POLL {
            match socket::recv_slice(self.fd.as_fd(), buffer) {
                Ok(0) if taken == 0 => return Poll::Ready(Ok(0)),
                Ok(0) => break,
                Ok(length) => match buffer.get_mut(..length).and_then(parse) {
                    Some((thread, datagram)) if length < BUFFER_BYTES => {
                        take(thread, datagram);
                        taken += 1;
                    }
                    _ => self.malformed = self.malformed.saturating_add(1),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear_stale(Direction::Input);
                    if taken > 0 {
                        break;
                    }
                    ready!(self.poll_ready(cx))?;
                }
                Err(_) if taken > 0 => break, // it comes again
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if taken == 0 {
            // All were malformed.
            runtime::defer(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration
            .poll_ready(self.fd.as_fd(), Direction::Input, cx)
    }

    /// Messages that were dropped because they are none of this format.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }
}

/// What comes before a datagram.
struct Head {
    bytes: [u8; MAX_HEAD_BYTES],
    length: usize,
}

impl Default for Head {
    fn default() -> Head {
        Head {
            bytes: [0; MAX_HEAD_BYTES],
            length: 0,
        }
    }
}

impl Head {
    /// Three bytes and two addresses are pushed, at most: there is room for these.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn push_address(&mut self, address: SocketAddr) {
        match address {
            SocketAddr::V4(v4) => {
                self.push(&[IPV4]);
                self.push(&v4.ip().octets());
                self.push(&v4.port().to_be_bytes());
            }
            SocketAddr::V6(v6) => {
                self.push(&[IPV6]);
                self.push(&v6.ip().octets());
                self.push(&v6.port().to_be_bytes());
                self.push(&v6.scope_id().to_be_bytes());
            }
        }
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The datagram in a message, and the thread that it is for; `None` if it is no such message.
fn parse(message: &mut [u8]) -> Option<(u8, Forwarded<&mut [u8]>)> {
    let (&mut [FORMAT, ecn @ 0..=3, thread], message) = message.split_first_chunk_mut()? else {
        return None;
    };
    let (peer, message) = parse_address(message)?;
    let (local, bytes) = parse_address(message)?;
    let datagram = Forwarded {
        bytes,
        peer,
        local,
        ecn: Ecn::from_bits(ecn),
    };
    Some((thread, datagram))
}

fn parse_address(message: &mut [u8]) -> Option<(SocketAddr, &mut [u8])> {
    let (family, message) = message.split_first_mut()?;
    match *family {
        IPV4 => {
            let (ip, message) = message.split_first_chunk_mut::<4>()?;
            let (port, message) = message.split_first_chunk_mut()?;
            let (ip, port) = (Ipv4Addr::from(*ip), u16::from_be_bytes(*port));
            Some((SocketAddrV4::new(ip, port).into(), message))
        }
        IPV6 => {
            let (ip, message) = message.split_first_chunk_mut::<16>()?;
            let (port, message) = message.split_first_chunk_mut()?;
            let (scope, message) = message.split_first_chunk_mut()?;
            let (ip, port) = (Ipv6Addr::from(*ip), u16::from_be_bytes(*port));
            let scope = u32::from_be_bytes(*scope);
            Some((SocketAddrV6::new(ip, port, 0, scope).into(), message))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
