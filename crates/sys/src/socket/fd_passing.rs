//! Messages with descriptors between two processes of one server
//! (`AF_UNIX`, `SOCK_SEQPACKET`, `SCM_RIGHTS`).

use crate::{CheckReturn, retry};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors that one message may carry: the kernel's `SCM_MAX_FD`.
pub const MAX_PASSED_FDS: usize = 253;

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Its length in bytes; 0 with no descriptors means that the peer closed.
    pub len: usize,
    /// The descriptors that came with it, closed on exec.
    pub fds: Vec<OwnedFd>,
}

/// A connected pair of sockets that keep message boundaries: non-blocking and
/// closed on exec.
///
/// # Errors
///
/// When there are no descriptors.
pub fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `fds` has room for the two descriptors.
    unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) }.check()?;
    // SAFETY: the kernel just returned both descriptors; nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Sends `data` and descriptors as one message: at least one byte of data, and at most
/// [`MAX_PASSED_FDS`] descriptors.
///
/// # Errors
///
/// `InvalidInput` without data or with too many descriptors, `WouldBlock` when there is no room, or
/// another errno of `sendmsg`.
pub fn send_fds(socket: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if data.is_empty() || fds.len() > MAX_PASSED_FDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = ControlBuffer::new();
    let mut iov = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: a zeroed msghdr is valid: no name, no data, no control bytes.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        let bytes = size_of_val(fds) as u32;
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: the control buffer is aligned for and larger than one header
        // with MAX_PASSED_FDS descriptors, so CMSG_FIRSTHDR is not null and the
        // data behind it has room for `fds`.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let slots = libc::CMSG_DATA(header).cast::<RawFd>();
            for (i, fd) in fds.iter().enumerate() {
                slots.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: `message` points at `iov` and `control`, which outlive the call.
    retry(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })?;
    Ok(())
}

/// Receives one message into `buf`. A message that is longer than `buf`, or has too many
/// descriptors, is an error (`InvalidData`), and none of its descriptors leak.
///
/// # Errors
///
/// `InvalidData` as described, `WouldBlock` when nothing has arrived, or another errno of
/// `recvmsg`.
pub fn receive_fds(socket: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<ReceivedMessage> {
    let mut control = ControlBuffer::new();
    let mut iov = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    // SAFETY: a zeroed msghdr is valid: no name, no data, no control bytes.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control.0) as _;
    // SAFETY: `message` points at `iov` and `control`, which outlive the call.
    let len = retry(|| unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC)
    })? as usize;
    let fds = take_fds(&message);
    if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        discard_fds(fds);
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "message longer than expected",
        ));
    }
    Ok(ReceivedMessage { len, fds })
}

/// Receives what has arrived at a stream socket, and never waits, whether the socket is blocking or
/// not: another process that has a descriptor of the same socket may change that at any time.
///
/// # Errors
///
/// `WouldBlock` when nothing has arrived, or another errno of `recv`.
pub fn receive_at_once(socket: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let (start, len) = (buf.as_mut_ptr(), buf.len());
    // SAFETY: the buffer is valid for its length during the call.
    retry(|| unsafe { libc::recv(socket.as_raw_fd(), start.cast(), len, libc::MSG_DONTWAIT) })
        .map(|count| count as usize)
}

/// Sends what there is room for, and never waits: see [`receive_at_once`].
///
/// # Errors
///
/// `WouldBlock` when there is no room, or another errno of `send`.
pub fn send_at_once(socket: BorrowedFd<'_>, data: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (start, len) = (data.as_ptr(), data.len());
    // SAFETY: the buffer is valid for its length during the call.
    retry(|| unsafe { libc::send(socket.as_raw_fd(), start.cast(), len, flags) })
        .map(|count| count as usize)
}

/// Closes descriptors received from an untrusted process. Closing a TCP socket with `SO_LINGER` set
/// takes as long as its owner and peer like, so that is cleared first.
pub fn discard_fds(fds: Vec<OwnedFd>) {
    for fd in fds {
        let _ = super::set_linger(fd.as_fd(), None); // most are no sockets
    }
}

/// Closes one end of a pair whose other end an untrusted process had, with all its unread messages:
/// see [`discard_fds`].
pub fn close_line(line: OwnedFd) {
    let mut data = [0; 1];
    for _ in 0..MAX_WAITING {
        match receive_fds(line.as_fd(), &mut data) {
            Ok(received) if received.len == 0 => return,
            Ok(received) => discard_fds(received.fds),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {} // it was longer
            Err(_) => return,
        }
    }
}

/// More messages than can ever be pending.
const MAX_WAITING: usize = 10_000;

/// From now on no descriptors can be sent to this end of a pair (`SO_PASSRIGHTS`).
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.16.
pub fn refuse_fds(socket: BorrowedFd<'_>) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads an integer of the length given; the descriptor is borrowed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    }
    .check()?;
    Ok(())
}

/// Not in the C library's headers yet; the same on all architectures that this program supports.
const SO_PASSRIGHTS: libc::c_int = 83;

fn take_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel filled `msg_control` with well-formed headers and set
    // `msg_controllen`; the CMSG macros stay within it. Every descriptor in an
    // SCM_RIGHTS header is new in this process and owned by nobody else.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let slots = libc::CMSG_DATA(header).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(slots.add(i).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    fds
}

/// Room for one header with [`MAX_PASSED_FDS`] descriptors, aligned for `cmsghdr`.
struct ControlBuffer([u64; CONTROL_WORDS]);

// SAFETY: CMSG_SPACE only computes.
const CONTROL_WORDS: usize =
    (unsafe { libc::CMSG_SPACE((MAX_PASSED_FDS * size_of::<RawFd>()) as u32) } as usize)
        .div_ceil(8);

impl ControlBuffer {
    fn new() -> ControlBuffer {
        ControlBuffer([0; CONTROL_WORDS])
    }
}
