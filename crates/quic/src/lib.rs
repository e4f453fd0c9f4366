//! QUIC version 1 (RFC 9000, 9001 and 9002) and version 2 (RFC 9369), without sockets and without
//! a clock: datagrams and times go in, datagrams and events come out.

#[cfg_attr(
    not(test),
    allow(dead_code, unused_imports, reason = "connections are not written yet")
)]
mod crypto_stream;
mod error;
mod id;
mod ranges;
mod reassembly;
mod side;
mod space;
#[cfg_attr(
    not(test),
    allow(dead_code, unused_imports, reason = "connections are not written yet")
)]
mod streams;
mod time;
mod varint;
mod version;

pub use error::{Code, Error};
pub use id::ConnectionId;
pub use side::Side;
pub use space::Space;
pub use streams::{Direction, Event, PeerLimits, Settings, StreamId};
pub use time::Time;
pub use version::Version;
