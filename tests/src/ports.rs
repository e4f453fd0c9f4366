//! Ports that no other test uses.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range that Linux takes source ports from, so that no outgoing
/// connection of another test sits on a port between its choice and its use.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// A TCP and UDP port reserved for the life of this value.
///
/// The reservation is a Unix socket with the number in its abstract name: other tests, in this
/// process and in others, see it, the server under test does not, and it
/// disappears with the process that made it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _reservation: UnixDatagram,
}

impl Port {
    pub(crate) fn reserve() -> Port {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let start = std::process::id().wrapping_mul(7919);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + start.wrapping_add(step) % COUNT;
            let number = u16::try_from(number).expect("the range ends below 65536");
            let name = SocketAddr::from_abstract_name(format!("sealane-test-port-{number}"))
                .expect("a short name");
            let Ok(reservation) = UnixDatagram::bind_addr(&name) else {
                continue;
            };
            if bind(number).is_ok() && UdpSocket::bind(("127.0.0.1", number)).is_ok() {
                return Port {
                    number,
                    _reservation: reservation,
                };
            }
        }
        panic!("no free port between {FIRST} and {}", FIRST + COUNT);
    }
}

/// Binds the port without listening on it.
///
/// A child that another test starts at this moment has a copy of the socket until it executes
/// its program. A copy that listened would take the connection by which the harness sees that
/// the server has started.
fn bind(number: u16) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, number).into())
}
