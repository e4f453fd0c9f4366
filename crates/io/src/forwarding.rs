//! Datagrams that have come to the wrong place: to another thread of this process, or to another
//! process, than that of their connection.
//!
//! The kernel is asked to deliver them to the right socket (`CidFormat` in `sealane_sys`). What it
//! cannot do, such as after the number of threads has changed, is done here. A queue or a line that
//! is full drops datagrams, as a socket does, and counts them.

mod lines;
mod queue;

pub use lines::{ForwardLineReceiver, ForwardLineSender};
pub use queue::{ForwardQueue, ForwardedBatch, QUEUE_BYTES, QUEUE_DATAGRAMS};

use sealane_sys::socket::Ecn;
use std::net::SocketAddr;

/// A datagram, and what the socket that has received it knows. `B` is `&[u8]`, or `&mut [u8]` where
/// it is to be decrypted in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded<B> {
    /// Its bytes.
    pub bytes: B,
    /// Who has sent it.
    pub peer: SocketAddr,
    /// The address that it was sent to, with the port of the socket.
    pub local: SocketAddr,
    /// What the network says about congestion.
    pub ecn: Ecn,
}
