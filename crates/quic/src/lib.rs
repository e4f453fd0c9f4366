//! QUIC version 1 (RFC 9000, 9001 and 9002) and version 2 (RFC 9369), and the way from one to the
//! other (RFC 9368), without sockets and without a clock: datagrams and times go in, datagrams and
//! events come out.

mod connection;
mod crypto_stream;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod id;
mod incoming;
mod packet;
mod parameters;
mod ranges;
mod reader;
mod reassembly;
mod recovery;
mod reset;
mod side;
mod space;
mod streams;
mod time;
mod token;
pub mod trace;
mod varint;
mod version;

pub use connection::{
    Accepted, Addresses, CloseReason, Connection, ConnectionSettings, Counters, Datagrams,
    HandshakeFailure, IdSource, Outbox, Owner, Target,
};
pub use error::{Code, Error};
pub use id::ConnectionId;
pub use incoming::{
    AddressTokenKey, Initial, MIN_INITIAL_DATAGRAM, ResetKey, Unrouted, initial, is_long,
    put_refusal, put_retry, put_version_negotiation,
};
pub use packet::{UnknownVersion, destination};
pub use recovery::{Algorithm, Codepoint};
pub use reset::{MAX_RESET_LEN, MIN_RESET_LEN, ResetToken, put_reset};
pub use side::Side;
pub use space::Space;
pub use streams::{Direction, Event, PeerLimits, Settings, StreamId};
pub use time::Time;
pub use token::{
    Arrival as TokenArrival, TokenKey, TokenLifetimes, Verdict, put_new_token, put_retry_token,
    validate,
};
pub use version::Version;
