//! What travels beside a message (cmsg(3)): addresses, the size of datagrams, and ECN.

use super::MessageToSend;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Explicit congestion notification: the two bits in the IP header, RFC 3168 section 5.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not take part.
    #[default]
    NotEct = 0,
    /// The sender takes part, ECT(1).
    Ect1 = 1,
    /// The sender takes part, ECT(0).
    Ect0 = 2,
    /// A router on the way has seen congestion.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the lower two bits of a traffic class.
    pub fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits.
    pub fn bits(self) -> u8 {
        self as u8
    }
}

/// Room for the control messages of one message: addresses of the larger kind, a size, and the
/// traffic class of both families. Aligned for `cmsghdr`.
pub(super) type Control = [u64; CONTROL_WORDS];

// SAFETY: CMSG_SPACE only computes.
pub(super) const CONTROL_WORDS: usize = unsafe {
    libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32)
        + 3 * libc::CMSG_SPACE(size_of::<libc::c_int>() as u32)
}
.div_ceil(8) as usize;

/// What the kernel reports beside a message.
#[derive(Default)]
pub(super) struct Reported {
    /// To which address it was sent.
    pub(super) local: Option<IpAddr>,
    /// The size of the datagrams that were joined.
    pub(super) segment_bytes: Option<usize>,
    pub(super) ecn: Ecn,
}

/// Reads what the kernel has written beside a received message.
pub(super) fn read_control(message: &libc::msghdr) -> Reported {
    let mut reported = Reported::default();
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
                    reported.local = Some(Ipv4Addr::from(u32::from_be(own.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    reported.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<libc::c_int>().read_unaligned();
                    reported.segment_bytes = usize::try_from(size).ok().filter(|size| *size > 0);
                }
                // One byte, unlike that of IPv6.
                (libc::IPPROTO_IP, libc::IP_TOS) => reported.ecn = Ecn::from_bits(data.read()),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<libc::c_int>().read_unaligned();
                    reported.ecn = Ecn::from_bits(class.to_le_bytes()[0]);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    reported
}

/// Adds what the message wants to its header.
pub(super) fn write_control(
    header: &mut libc::msghdr,
    control: &mut Control,
    message: &MessageToSend<'_>,
) {
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: zeroes are valid addresses; they are plain old data.
    let (mut v4, mut v6): (libc::in_pktinfo, libc::in6_pktinfo) =
        unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
    let mut writer = Writer {
        header,
        // SAFETY: the header has the control bytes just given to it.
        next: unsafe { libc::CMSG_FIRSTHDR(header) },
        written: 0,
    };
    match message.from {
        Some(IpAddr::V4(address)) => {
            v4.ipi_spec_dst.s_addr = u32::from(address).to_be();
            writer.write(libc::IPPROTO_IP, libc::IP_PKTINFO, &v4);
        }
        Some(IpAddr::V6(address)) => {
            v6.ipi6_addr.s6_addr = address.octets();
            writer.write(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &v6);
        }
        None => {}
    }
    if message.segment_bytes < message.bytes.len() {
        // A message is shorter than 64 KiB.
        let size = u16::try_from(message.segment_bytes).unwrap_or(u16::MAX);
        writer.write(libc::SOL_UDP, libc::UDP_SEGMENT, &size);
    }
    if message.ecn != Ecn::NotEct {
        let class = libc::c_int::from(message.ecn.bits());
        // The family of the packet counts, not that of the socket. A connected socket knows it, and
        // passes over what is for the other one.
        let is_ipv4 = message.to.map(|to| match to {
            SocketAddr::V4(_) => true,
            SocketAddr::V6(v6) => v6.ip().to_ipv4_mapped().is_some(),
        });
        if is_ipv4 != Some(false) {
            writer.write(libc::IPPROTO_IP, libc::IP_TOS, &class);
        }
        if is_ipv4 != Some(true) {
            writer.write(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class);
        }
    }
    let written = writer.written;
    header.msg_controllen = written as _;
    if written == 0 {
        header.msg_control = std::ptr::null_mut();
    }
}

/// Writes control messages one after the other.
struct Writer<'a> {
    /// Its control bytes are a zeroed [`Control`].
    header: &'a libc::msghdr,
    next: *mut libc::cmsghdr,
    written: usize,
}

impl Writer<'_> {
    /// At most an address, a size and two traffic classes are written: there is room for these.
    fn write<T: Copy>(&mut self, level: i32, kind: i32, value: &T) {
        let bytes = size_of::<T>() as u32;
        assert!(!self.next.is_null(), "there is room for all of them");
        // SAFETY: `next` points into the control bytes, which are aligned for a header, zeroed, and
        // have room for all that is written, as the macro has made sure by not returning null and
        // the constant by its sum; `msg_controllen` covers all of it while the macros walk it.
        unsafe {
            (*self.next).cmsg_level = level;
            (*self.next).cmsg_type = kind;
            (*self.next).cmsg_len = libc::CMSG_LEN(bytes) as _;
            libc::CMSG_DATA(self.next)
                .cast::<T>()
                .write_unaligned(*value);
            self.written += libc::CMSG_SPACE(bytes) as usize;
            self.next = libc::CMSG_NXTHDR(self.header, self.next);
        }
    }
}
