//! QUIC version 1 (RFC 9000, 9001 and 9002) and version 2 (RFC 9369), without sockets and without
//! a clock: datagrams and times go in, datagrams and events come out.

mod error;
mod id;
#[allow(dead_code, unused_imports, reason = "connections use it")]
mod recovery;
mod space;
mod time;
mod varint;
mod version;

pub use error::{Code, Error};
pub use id::ConnectionId;
pub use recovery::Algorithm;
pub use space::Space;
pub use time::Time;
pub use version::Version;
