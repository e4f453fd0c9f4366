//! Datagrams (UDP) between clients and servers.
//!
//! Clients share one listening socket. A client with an address of the machine that it has sent to
//! is a *session*: the first datagram begins it, and everything else from there belongs to it. The
//! caller serves each session in a task of its own, most often by a relay.
//!
//! ```text
//! socket ──> DatagramListener::poll_session ─┬─ a new session, with its first datagrams
//!   ^                                        └─ the queue of a session that is known
//!   └──────── Session::poll_send <── DatagramRelay ──> DatagramSocket of a server
//! ```
//!
//! | file | what |
//! |---|---|
//! | `listener.rs` | the sessions of a listening socket, and their limits |
//! | `session.rs` | one client |
//! | `packets.rs` | datagrams that wait, one after the other in memory |
//! | `relay.rs` | both directions between a session and a server |

mod listener;
mod packets;
mod relay;
mod session;
#[cfg(test)]
mod tests;

pub use listener::{DatagramListener, ListenerSettings};
pub use packets::Packets;
pub use relay::{DatagramCounts, DatagramError, DatagramRelay, DatagramRelaySettings};
pub use session::Session;

/// Datagrams, and the bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams.
    pub packets: u64,
    /// Their bytes, without the headers of UDP and IP.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}
