//! Datagrams (UDP), many in one call: recvmmsg(2), sendmmsg(2), and runs of equal datagrams that
//! the kernel joins and cuts (`UDP_GRO`, `UDP_SEGMENT`).

mod control;
mod options;

pub use control::Ecn;
pub use options::{
    cuts_datagrams, forbid_fragments, join_datagrams, report_ecn, report_local_address,
};

use super::inet_address;
use crate::retry;
use control::{CONTROL_WORDS, Control, read_control, write_control};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one call receives or sends.
pub const BATCH_MESSAGES: usize = 16;
/// The longest message: no datagram, and no run of joined ones, is longer.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Datagrams that the kernel cuts from one message (`UDP_MAX_SEGMENTS` of its older releases).
pub const MAX_SEGMENTS: usize = 64;
/// Bytes of such a message: what IP and UDP leave of a packet.
pub const MAX_SEGMENTED_BYTES: usize = 65_000;

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
    ecn: Ecn,
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
    /// What the network says about congestion, if the socket reports it. The kernel joins no
    /// datagrams that differ in this.
    pub ecn: Ecn,
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

/// The same for a reader that changes the bytes where they are: packets are decrypted in place.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedMessagesMut<'a> {
    /// As in [`ReceivedMessages`].
    pub bytes: &'a mut [u8],
    /// As in [`ReceivedMessages`].
    pub segment_bytes: usize,
    /// As in [`ReceivedMessages`].
    pub source: Option<SocketAddr>,
    /// As in [`ReceivedMessages`].
    pub local: Option<IpAddr>,
    /// As in [`ReceivedMessages`].
    pub ecn: Ecn,
    /// As in [`ReceivedMessages`].
    pub is_truncated: bool,
}

impl<'a> ReceivedMessagesMut<'a> {
    /// The datagrams that are not empty.
    pub fn into_datagrams(self) -> impl Iterator<Item = &'a mut [u8]> + use<'a> {
        self.bytes.chunks_mut(self.segment_bytes)
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
                segment_bytes: header.segment_bytes(),
                source: header.source,
                local: header.local,
                ecn: header.ecn,
                is_truncated: header.is_truncated,
            })
    }

    /// The same to be changed in place.
    pub fn messages_mut(&mut self) -> impl Iterator<Item = ReceivedMessagesMut<'_>> {
        let chunks = self.bytes.chunks_exact_mut(MESSAGE_BYTES);
        self.messages
            .iter()
            .zip(chunks)
            .map(|(header, chunk)| ReceivedMessagesMut {
                bytes: &mut chunk[..header.bytes.min(MESSAGE_BYTES)],
                segment_bytes: header.segment_bytes(),
                source: header.source,
                local: header.local,
                ecn: header.ecn,
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
        let reported = read_control(message);
        Header {
            bytes,
            segment_bytes: reported.segment_bytes,
            // A connected socket's message has no name.
            source: (message.msg_namelen > 0)
                .then(|| inet_address(name))
                .flatten(),
            local: reported.local,
            ecn: reported.ecn,
            is_truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        }
    }

    /// The size of each datagram but the last; at least 1, so that it divides.
    fn segment_bytes(&self) -> usize {
        self.segment_bytes.unwrap_or(self.bytes).max(1)
    }
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
    /// What routers may say about congestion.
    pub ecn: Ecn,
}

/// Sends messages, at most [`BATCH_MESSAGES`]; returns how many the kernel has taken, at least one.
///
/// # Errors
///
/// Those of the first message: `WouldBlock` when there is no room. What happened to datagrams sent
/// before, such as `ECONNREFUSED`. `EINVAL`, `EIO` or `EMSGSIZE` where the network or the kernel
/// does not cut messages. `EMSGSIZE` for a datagram that the interface does not take in one piece
/// (see [`forbid_fragments`]).
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

#[cfg(test)]
mod tests;
