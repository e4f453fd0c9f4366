//! QUIC version 1 (RFC 9000, 9001 and 9002) and version 2 (RFC 9369), without sockets and without
//! a clock: datagrams and times go in, datagrams and events come out.

mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
mod id;
pub mod packet;
pub mod parameters;
mod reader;
pub mod reset;
mod side;
mod space;
mod time;
pub mod token;
mod varint;
mod version;

pub use error::{Code, Error};
pub use id::ConnectionId;
pub use side::Side;
pub use space::Space;
pub use time::Time;
pub use version::Version;
