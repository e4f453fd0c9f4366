//! Options of sockets for datagrams.

use crate::CheckReturn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

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

/// Has a socket report the ECN bits of what it receives (`IP_RECVTOS`, `IPV6_RECVTCLASS`). One of
/// IPv6 reports those of IPv4 as well, unless it takes IPv6 only.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn report_ecn(socket: BorrowedFd<'_>, is_ipv4: bool) -> io::Result<()> {
    if !is_ipv4 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)
}

/// Neither this machine nor a router cuts the packets of this socket into fragments (RFC 9000
/// section 14), and no message of ICMP, which anybody can forge, changes how long they may be
/// (`IP_PMTUDISC_PROBE`). What the interface does not take in one piece is `EMSGSIZE`.
///
/// # Errors
///
/// The errno of `setsockopt`.
pub fn forbid_fragments(socket: BorrowedFd<'_>, is_ipv4: bool) -> io::Result<()> {
    if !is_ipv4 {
        let (name, probe) = (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
        set_option(socket, libc::IPPROTO_IPV6, name, probe)?;
    }
    let (name, probe) = (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    set_option(socket, libc::IPPROTO_IP, name, probe)
}

/// Whether the kernel cuts messages into datagrams (`UDP_SEGMENT`, Linux 4.18). An interface may
/// still refuse.
pub fn cuts_datagrams(socket: BorrowedFd<'_>) -> bool {
    get_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
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

fn get_option(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes an integer of at most the length given; the descriptor is borrowed.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    }
    .check()?;
    Ok(value)
}
