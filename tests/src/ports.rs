//! Ports that no other test uses.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range that Linux takes source ports from, so that no outgoing
/// connection of another test sits on a port between its choice and its use.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// A TCP port reserved for the life of this value.
///
/// The reservation is a UDP socket on the same number: other tests, in this
/// process and in others, see it, the server under test does not, and it
/// disappears with the process that made it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _reservation: UdpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Port {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let start = std::process::id().wrapping_mul(7919);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + start.wrapping_add(step) % COUNT;
            let number = u16::try_from(number).expect("the range ends below 65536");
            let Ok(reservation) = UdpSocket::bind(("127.0.0.1", number)) else {
                continue;
            };
            if TcpListener::bind(("0.0.0.0", number)).is_ok() {
                return Port {
                    number,
                    _reservation: reservation,
                };
            }
        }
        panic!("no free TCP port between {FIRST} and {}", FIRST + COUNT);
    }
}
