//! Sockets: accepting, sending, receiving, and options that the standard library does not set.

mod datagrams;
mod fd_passing;
mod inherit;
mod listen;
mod reuseport_steering;

pub use datagrams::{
    BATCH_MESSAGES, Ecn, MAX_SEGMENTED_BYTES, MAX_SEGMENTS, MESSAGE_BYTES, MessageToSend,
    ReceivedBatch, ReceivedMessages, ReceivedMessagesMut, cuts_datagrams, forbid_fragments,
    join_datagrams, report_ecn, report_local_address, send_datagrams,
};
pub use fd_passing::{
    MAX_PASSED_FDS, ReceivedMessage, close_line, discard_fds, receive_at_once, receive_fds,
    refuse_fds, send_at_once, send_fds, seqpacket_pair,
};
pub use inherit::{Inherited, inheritable, listening_address, take_inherited, take_inherited_line};
pub use listen::{
    BindAddress, BindOptions, Keepalive, bind_beside, bind_group, is_stale_unix_socket,
    local_address, start_listening, take_back,
};
pub use reuseport_steering::{CidFormat, steer_by_position};

use crate::file::append;
use crate::{CheckReturn, retry};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A connection as returned by accept(2).
#[derive(Debug)]
pub struct Accepted {
    /// The socket: non-blocking, closed on exec.
    pub fd: OwnedFd,
    /// The peer's address.
    pub peer: PeerAddress,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IPv4 or IPv6 address.
    Inet(SocketAddr),
    /// A local process; its socket has no name worth showing.
    Unix,
}

/// Accepts one connection (accept4(2), `SOCK_NONBLOCK | SOCK_CLOEXEC`).
///
/// `WouldBlock` means that the queue is empty. `ECONNABORTED` means that the peer is already gone:
/// accept again. `EMFILE`, `ENFILE`, `ENOBUFS` and `ENOMEM` mean that this process must wait before
/// it accepts again.
///
/// # Errors
///
/// As described, and the other errnos of `accept4`.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Accepted> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `storage` has room for any address and `len` says so; the
    // descriptor is borrowed, hence open.
    let fd = retry(|| unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            storage.as_mut_ptr().cast(),
            &raw mut len,
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    })?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: zeroed storage is a valid value, and the kernel only wrote into it.
    let peer = inet_address(unsafe { storage.assume_init_ref() });
    Ok(Accepted {
        fd,
        peer: peer.map_or(PeerAddress::Unix, PeerAddress::Inet),
    })
}

/// The IP address in `storage`, or `None` for another family.
fn inet_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure lies in the storage, which
            // is large enough and aligned for all of them.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Sends `data`; `more` tells TCP that more data follows at once (`MSG_MORE`). Never raises
/// SIGPIPE.
///
/// # Errors
///
/// `WouldBlock` when there is no room, `EPIPE` or `ECONNRESET` when the peer is gone.
pub fn send(socket: BorrowedFd<'_>, data: &[u8], more: bool) -> io::Result<usize> {
    // SAFETY: `data` is valid for its length; the descriptor is borrowed, hence open.
    let sent = retry(|| unsafe {
        libc::send(
            socket.as_raw_fd(),
            data.as_ptr().cast(),
            data.len(),
            send_flags(more),
        )
    })?;
    Ok(sent as usize)
}

/// Sends several pieces in one call (sendmsg(2)); `more` tells TCP that more data follows at once.
/// Pieces beyond `IOV_MAX` (1024) are left for the next call. Never raises SIGPIPE.
///
/// # Errors
///
/// As [`send`].
pub fn send_vectored(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    more: bool,
) -> io::Result<usize> {
    // SAFETY: a zeroed msghdr is valid: no name, no data, no control bytes.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    // `IoSlice` is ABI-compatible with `iovec` on Unix; sendmsg only reads it.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len().min(libc::UIO_MAXIOV as usize) as _;
    let beyond = pieces.len() > libc::UIO_MAXIOV as usize;
    // SAFETY: `message` points at `pieces`, whose slices are valid during the call.
    let sent = retry(|| unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            send_flags(more || beyond),
        )
    })?;
    Ok(sent as usize)
}

fn send_flags(more: bool) -> i32 {
    libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 }
}

/// Appends up to `max` received bytes to `buf`; 0 is the end of the stream.
///
/// # Errors
///
/// `WouldBlock` when nothing has arrived, `ECONNRESET` when the peer has reset the connection.
pub fn recv(socket: BorrowedFd<'_>, buf: &mut Vec<u8>, max: usize) -> io::Result<usize> {
    append(buf, max, |start, len| {
        // SAFETY: `start..start + len` is spare capacity of `buf`, which `append`
        // keeps borrowed; the descriptor is borrowed, hence open.
        unsafe { libc::recv(socket.as_raw_fd(), start.cast(), len, 0) }
    })
}

/// Discards up to `max` received bytes of a TCP connection without a copy (`MSG_TRUNC`); 0 is the
/// end of the stream.
///
/// # Errors
///
/// As [`recv`].
pub fn discard(socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC TCP writes nothing to the buffer, so that there need be none
    // (tcp(7)); any other socket refuses a null buffer with EFAULT.
    let n = retry(|| unsafe {
        libc::recv(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            max,
            libc::MSG_TRUNC,
        )
    })?;
    Ok(n as usize)
}

/// Receives into initialised memory; 0 is the end of the stream.
///
/// # Errors
///
/// As [`recv`].
pub fn recv_slice(socket: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buf` is valid for its length; the descriptor is borrowed, hence open.
    let n =
        retry(|| unsafe { libc::recv(socket.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), 0) })?;
    Ok(n as usize)
}

/// Reads received bytes without consuming them (`MSG_PEEK`).
///
/// # Errors
///
/// As [`recv`].
pub fn peek(socket: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buf` is valid for its length; the descriptor is borrowed, hence open.
    let n = retry(|| unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buf.as_mut_ptr().cast(),
            buf.len(),
            libc::MSG_PEEK,
        )
    })?;
    Ok(n as usize)
}

/// Closes one or both directions (shutdown(2)).
///
/// # Errors
///
/// `ENOTCONN` on a socket that is not connected.
pub fn shutdown(socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
    socket2::SockRef::from(&socket).shutdown(how)
}

/// `TCP_NODELAY`: small segments are sent at once.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn set_nodelay(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_tcp_nodelay(on)
}

/// `TCP_NOTSENT_LOWAT`: the socket accepts no more data while it holds this many unsent bytes.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn set_unsent_limit(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(bytes)
}

/// `IP_TRANSPARENT` or `IPV6_TRANSPARENT`: the socket may be bound to addresses that do not belong
/// to the machine (`proxy_bind ... transparent`).
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW` or `CAP_NET_ADMIN`.
pub fn set_transparent(socket: BorrowedFd<'_>, is_ipv4: bool) -> io::Result<()> {
    let socket = socket2::SockRef::from(&socket);
    match is_ipv4 {
        true => socket.set_ip_transparent_v4(true),
        false => socket.set_ip_transparent_v6(true),
    }
}

/// `SO_LINGER`: with a zero time, closing resets the connection.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn set_linger(socket: BorrowedFd<'_>, time: Option<Duration>) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_linger(time)
}

/// `SO_SNDBUF` and `SO_RCVBUF` in bytes. Accepted sockets inherit the receive buffer of a listener;
/// only then does it still bound the window.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn set_buffers(socket: BorrowedFd<'_>, send_bytes: usize, recv_bytes: usize) -> io::Result<()> {
    let socket = socket2::SockRef::from(&socket);
    socket.set_send_buffer_size(send_bytes)?;
    socket.set_recv_buffer_size(recv_bytes)
}

/// How full a socket's send buffer is, in bytes as the kernel accounts for them
/// (overhead included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendMemory {
    /// Taken by data that was sent but not acknowledged yet.
    pub queued: u32,
    /// The limit (`SO_SNDBUF`, as tuned by the kernel).
    pub limit: u32,
}

/// Asks the kernel for a socket's memory (`SO_MEMINFO`, Linux 4.12 and later).
///
/// # Errors
///
/// The errno of `getsockopt`.
pub fn send_memory(socket: BorrowedFd<'_>) -> io::Result<SendMemory> {
    // The order of the numbers is that of `SK_MEMINFO_*` in linux/sock_diag.h.
    const SNDBUF: usize = 3;
    const WMEM_QUEUED: usize = 5;
    const NUMBERS: usize = 9;
    let mut numbers = [0_u32; NUMBERS];
    let mut len = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: `numbers` has `len` bytes; a shorter answer of an older kernel leaves
    // the rest zero.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    }
    .check()?;
    Ok(SendMemory {
        queued: numbers[WMEM_QUEUED],
        limit: numbers[SNDBUF],
    })
}

/// The fields of `TCP_INFO` that nginx's `$tcpinfo_*` variables show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Its variance in microseconds.
    pub rttvar_us: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Receive window in bytes.
    pub rcv_space: u32,
}

/// Asks the kernel about a TCP connection; an error on other sockets.
///
/// # Errors
///
/// The errno of `getsockopt`.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `raw` has `len` bytes; a shorter answer of an older kernel leaves
    // the rest zero.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut len,
        )
    }
    .check()?;
    // SAFETY: plain old data, zeroed and then filled by the kernel.
    let raw = unsafe { raw.assume_init() };
    Ok(TcpInfo {
        rtt_us: raw.tcpi_rtt,
        rttvar_us: raw.tcpi_rttvar,
        snd_cwnd: raw.tcpi_snd_cwnd,
        rcv_space: raw.tcpi_rcv_space,
    })
}

#[cfg(test)]
mod tests;
