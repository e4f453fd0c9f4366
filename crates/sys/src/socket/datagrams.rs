//! Datagrams (UDP), many in one call: recvmmsg(2), sendmmsg(2), and runs of equal datagrams that
//! the kernel joins and cuts (`UDP_GRO`, `UDP_SEGMENT`).

use super::inet_address;
use crate::{CheckReturn, retry};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one call receives or sends.
pub const BATCH_MESSAGES: usize = 16;
/// The longest message: no datagram, and no run of joined ones, is longer.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Datagrams that the kernel cuts from one message (`UDP_MAX_SEGMENTS` of its older releases).
pub const MAX_SEGMENTS: usize = 64;
/// Bytes of such a message: what IP and UDP leave of a packet.
pub const MAX_SEGMENTED_BYTES: usize = 65_000;

/// Room for the control messages of one message: addresses of the larger kind and a size. Aligned
/// for `cmsghdr`.
type Control = [u64; CONTROL_WORDS];

// SAFETY: CMSG_SPACE only computes.
const CONTROL_WORDS: usize = unsafe {
    libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32)
        + libc::CMSG_SPACE(size_of::<libc::c_int>() as u32)
}
.div_ceil(8) as usize;

/// Has a socket report to which of the machine's addresses a datagram was sent (`IP_PKTINFO`,
/// `IPV6_RECVPKTINFO`). One that is bound to a single address need not ask.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn report_local_address(socket: BorrowedFd<'_>, is_ipv4: bool) -> io::Result<()> {
    match is_ipv4 {
        true => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        false => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// `UDP_GRO`: the kernel may join datagrams of one sender and the same size.
///
/// # Errors
///
/// `ENOPROTOOPT` before Linux 5.0.
pub fn join_datagrams(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, on.into())
}

fn set_option(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads an integer of the length given; the descriptor is borrowed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    }
    .check()?;
    Ok(())
}

/// Memory for what one call receives, and what it received last.
pub struct ReceivedBatch {
    bytes: Vec<u8>,
    names: [libc::sockaddr_storage; BATCH_MESSAGES],
    controls: [Control; BATCH_MESSAGES],
    messages: Vec<Header>,
}

/// What the kernel says about one message.
#[derive(Clone, Copy)]
struct Header {
    bytes: usize,
    segment_bytes: Option<usize>,
    source: Option<SocketAddr>,
    local: Option<IpAddr>,
    is_truncated: bool,
}

/// One received message: a datagram, or several that the kernel has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedMessages<'a> {
    /// All their bytes.
    pub bytes: &'a [u8],
    /// The size of each but the last, which may be shorter. At least 1.
    pub segment_bytes: usize,
    /// Who has sent them; unknown on connected sockets, which have one peer only.
    pub source: Option<SocketAddr>,
    /// To which of the machine's addresses, if the socket reports it.
    pub local: Option<IpAddr>,
    /// It was longer than [`MESSAGE_BYTES`].
    pub is_truncated: bool,
}

impl<'a> ReceivedMessages<'a> {
    /// The datagrams; an empty one is one as well.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty = self.bytes.is_empty().then_some(self.bytes);
        empty
            .into_iter()
            .chain(self.bytes.chunks(self.segment_bytes))
    }
}

impl ReceivedBatch {
    /// Memory for a batch, a mebibyte. The system provides it when it is first used.
    #[expect(clippy::new_without_default, reason = "it is large")]
    pub fn new() -> ReceivedBatch {
        ReceivedBatch {
            bytes: vec![0; BATCH_MESSAGES * MESSAGE_BYTES],
            // SAFETY: zeroes are a valid value: an address of no family.
            names: [unsafe { MaybeUninit::zeroed().assume_init() }; BATCH_MESSAGES],
            controls: [[0; CONTROL_WORDS]; BATCH_MESSAGES],
            messages: Vec::with_capacity(BATCH_MESSAGES),
        }
    }

    /// Receives what has arrived, at most `max` messages or [`BATCH_MESSAGES`]; returns how many it
    /// is.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing has arrived. On a connected socket, what happened to datagrams
    /// that were sent, such as `ECONNREFUSED`. Nothing is in the batch then.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        self.messages.clear();
        if max == 1 {
            self.receive_one(socket)?;
            return Ok(1);
        }
        let mut pieces = self
            .bytes
            .chunks_exact_mut(MESSAGE_BYTES)
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: chunk.len(),
            });
        let mut iovecs: [libc::iovec; BATCH_MESSAGES] =
            std::array::from_fn(|_| pieces.next().expect("as many pieces as messages"));
        // SAFETY: zeroed headers are valid: no name, no data, no control bytes.
        let mut headers: [libc::mmsghdr; BATCH_MESSAGES] =
            unsafe { MaybeUninit::zeroed().assume_init() };
        for (index, header) in headers.iter_mut().enumerate() {
            let (name, control) = (&raw mut self.names[index], &raw mut self.controls[index]);
            prepare(&mut header.msg_hdr, name, &raw mut iovecs[index], control);
        }
        // SAFETY: every header points at its own name, piece and control bytes, which outlive the
        // call and are as long as it says; the descriptor is borrowed, hence open.
        let count = retry(|| unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                max.min(BATCH_MESSAGES) as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        })?
        .unsigned_abs() as usize;
        for (header, name) in headers.iter().zip(&self.names).take(count) {
            let bytes = header.msg_len as usize;
            self.messages.push(Header::of(&header.msg_hdr, bytes, name));
        }
        Ok(count)
    }

    /// Receives one message without what costs time for many.
    fn receive_one(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut piece = libc::iovec {
            iov_base: self.bytes.as_mut_ptr().cast(),
            iov_len: MESSAGE_BYTES,
        };
        // SAFETY: zeroes are a valid header: no name, no data, no control bytes.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let (name, control) = (&raw mut self.names[0], &raw mut self.controls[0]);
        prepare(&mut header, name, &raw mut piece, control);
        // SAFETY: the header points at a name, a piece and control bytes, which outlive the call
        // and are as long as it says; the descriptor is borrowed, hence open.
        let bytes = retry(|| unsafe {
            libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT)
        })?
        .unsigned_abs();
        self.messages
            .push(Header::of(&header, bytes, &self.names[0]));
        Ok(())
    }

    /// What was received last.
    pub fn messages(&self) -> impl Iterator<Item = ReceivedMessages<'_>> + Clone {
        let chunks = self.bytes.chunks_exact(MESSAGE_BYTES);
        self.messages
            .iter()
            .zip(chunks)
            .map(|(header, chunk)| ReceivedMessages {
                bytes: &chunk[..header.bytes.min(MESSAGE_BYTES)],
                segment_bytes: header.segment_bytes.unwrap_or(header.bytes).max(1),
                source: header.source,
                local: header.local,
                is_truncated: header.is_truncated,
            })
    }
}

/// Lets a header point at memory for one message.
fn prepare(
    header: &mut libc::msghdr,
    name: *mut libc::sockaddr_storage,
    piece: *mut libc::iovec,
    control: *mut Control,
) {
    header.msg_name = name.cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    header.msg_control = control.cast();
    header.msg_controllen = size_of::<Control>() as _;
}

impl Header {
    /// What the kernel says about a message of that many bytes.
    fn of(message: &libc::msghdr, bytes: usize, name: &libc::sockaddr_storage) -> Header {
        let (local, segment_bytes) = read_control(message);
        Header {
            bytes,
            segment_bytes,
            // A connected socket's message has no name.
            source: (message.msg_namelen > 0)
                .then(|| inet_address(name))
                .flatten(),
            local,
            is_truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

/// To which address a message was sent, and the size of the datagrams that were joined.
fn read_control(message: &libc::msghdr) -> (Option<IpAddr>, Option<usize>) {
    let (mut local, mut segment_bytes) = (None, None);
    // SAFETY: the kernel filled `msg_control` with well-formed headers and set `msg_controllen`;
    // the CMSG macros stay within it. What is read has the type that level and type say, and need
    // not be aligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    // The machine's own, even if the datagram went to all of a network. The kernel
                    // does not know it for one that came before the socket was asked to tell.
                    let own = match info.ipi_spec_dst.s_addr {
                        0 => info.ipi_addr,
                        _ => info.ipi_spec_dst,
                    };
                    local = Some(Ipv4Addr::from(u32::from_be(own.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<libc::c_int>().read_unaligned();
                    segment_bytes = usize::try_from(size).ok().filter(|size| *size > 0);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (local, segment_bytes)
}

/// A message to be sent: a datagram, or several for the same peer.
#[derive(Debug, Clone, Copy)]
pub struct MessageToSend<'a> {
    /// All their bytes.
    pub bytes: &'a [u8],
    /// The size of each but the last, which may be shorter. If it is not less than the length of
    /// `bytes`, this is one datagram. Otherwise at most [`MAX_SEGMENTS`] are cut from at most
    /// [`MAX_SEGMENTED_BYTES`].
    pub segment_bytes: usize,
    /// To whom; `None` on connected sockets.
    pub to: Option<SocketAddr>,
    /// From which of the machine's addresses; `None` leaves it to the kernel.
    pub from: Option<IpAddr>,
}

/// Sends messages, at most [`BATCH_MESSAGES`]; returns how many the kernel has taken, at least one.
///
/// # Errors
///
/// Those of the first message: `WouldBlock` when there is no room. What happened to datagrams sent
/// before, such as `ECONNREFUSED`. `EINVAL`, `EIO` or `EMSGSIZE` where the network or the kernel
/// does not cut messages.
pub fn send_datagrams(socket: BorrowedFd<'_>, messages: &[MessageToSend<'_>]) -> io::Result<usize> {
    if let [message] = messages {
        send_one(socket, message)?;
        return Ok(1);
    }
    let messages = &messages[..messages.len().min(BATCH_MESSAGES)];
    let mut names: [Option<socket2::SockAddr>; BATCH_MESSAGES] = std::array::from_fn(|_| None);
    let mut controls: [Control; BATCH_MESSAGES] = [[0; CONTROL_WORDS]; BATCH_MESSAGES];
    // SAFETY: zeroed pieces and headers are valid: no name, no data, no control bytes.
    let (mut iovecs, mut headers): (
        [libc::iovec; BATCH_MESSAGES],
        [libc::mmsghdr; BATCH_MESSAGES],
    ) = unsafe { MaybeUninit::zeroed().assume_init() };
    for (index, message) in messages.iter().enumerate() {
        iovecs[index] = libc::iovec {
            iov_base: message.bytes.as_ptr().cast_mut().cast(),
            iov_len: message.bytes.len(),
        };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut iovecs[index];
        header.msg_iovlen = 1;
        write_name(header, &mut names[index], message);
        write_control(header, &mut controls[index], message);
    }
    // SAFETY: every header points at its own name, piece and control bytes, which outlive the call
    // and are only read; the descriptor is borrowed, hence open.
    let count = retry(|| unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            messages.len() as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    })?;
    Ok(count.unsigned_abs() as usize)
}

/// Sends one message: the kernel neither copies a list nor looks, after each message of it, whether
/// another process wants the processor.
fn send_one(socket: BorrowedFd<'_>, message: &MessageToSend<'_>) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let (mut name, mut control) = (None, [0; CONTROL_WORDS]);
    let mut piece = libc::iovec {
        iov_base: message.bytes.as_ptr().cast_mut().cast(),
        iov_len: message.bytes.len(),
    };
    // SAFETY: zeroes are a valid header: no name, no data, no control bytes.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    write_name(&mut header, &mut name, message);
    write_control(&mut header, &mut control, message);
    // SAFETY: the header points at a name, a piece and control bytes, which outlive the call and
    // are only read; the descriptor is borrowed, hence open.
    retry(|| unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) })?;
    Ok(())
}

/// Adds to whom a message goes to its header; `name` keeps it.
fn write_name(
    header: &mut libc::msghdr,
    name: &mut Option<socket2::SockAddr>,
    message: &MessageToSend<'_>,
) {
    if let Some(address) = message.to {
        let name = name.insert(address.into());
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
    }
}

/// Adds what the message wants to its header.
fn write_control(header: &mut libc::msghdr, control: &mut Control, message: &MessageToSend<'_>) {
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    let mut written = 0;
    // SAFETY: the control bytes are aligned for a header, zeroed, and have room for an address of
    // the larger kind and a size, which is all that is written; `msg_controllen` covers all of it
    // while the CMSG macros walk it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        let mut write = |level, kind, value: *const u8, bytes: usize| {
            (*next).cmsg_level = level;
            (*next).cmsg_type = kind;
            (*next).cmsg_len = libc::CMSG_LEN(bytes as u32) as _;
            std::ptr::copy_nonoverlapping(value, libc::CMSG_DATA(next), bytes);
            written += libc::CMSG_SPACE(bytes as u32) as usize;
            next = libc::CMSG_NXTHDR(header, next);
        };
        match message.from {
            Some(IpAddr::V4(address)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from(address).to_be(),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let value = (&raw const info).cast();
                write(
                    libc::IPPROTO_IP,
                    libc::IP_PKTINFO,
                    value,
                    size_of_val(&info),
                );
            }
            Some(IpAddr::V6(address)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: address.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                let value = (&raw const info).cast();
                write(
                    libc::IPPROTO_IPV6,
                    libc::IPV6_PKTINFO,
                    value,
                    size_of_val(&info),
                );
            }
            None => {}
        }
        if message.segment_bytes < message.bytes.len() {
            // A message is shorter than 64 KiB.
            let size = u16::try_from(message.segment_bytes).unwrap_or(u16::MAX);
            let value = (&raw const size).cast();
            write(libc::SOL_UDP, libc::UDP_SEGMENT, value, size_of_val(&size));
        }
    }
    header.msg_controllen = written as _;
    if written == 0 {
        header.msg_control = std::ptr::null_mut();
    }
}

#[cfg(test)]
mod tests;
