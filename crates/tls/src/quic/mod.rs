//! TLS for QUIC (RFC 9001): handshakes without records, and the protection of packets. With the
//! set-up of TCP: one [`Acceptor`](crate::Acceptor) serves both.
//!
//! ```text
//! CRYPTO frames -> receive(level, bytes) -> advance() -> Status
//!                                             next_event() -> Crypto: to be sent
//!                                                             ReadSecret, WriteSecret -> Keys
//! ```
//!
//! A session belongs to the transport, and to the version of QUIC, on which it was made: it is not
//! resumed on any other (RFC 9369 section 5).
//!
//! | file | what |
//! |---|---|
//! | `server.rs` | [`ServerConnection`] |
//! | `client.rs` | [`ClientConnection`]: for tests and the load generator |
//! | `failure.rs` | [`Failure`]: why a handshake failed, and how QUIC says so |
//! | `version.rs` | [`Version`]: what differs between the versions |
//! | `keys.rs` | [`Keys`]: from secrets to the protection of packets |
//! | `retry.rs` | the integrity tag of Retry packets |

mod client;
mod failure;
mod keys;
mod retry;
mod server;
#[cfg(test)]
mod tests;
mod version;

pub use client::{ClientConnection, ClientOffer};
pub use failure::{Close, Failure};
pub use keys::{HeaderKey, InitialSecrets, Keys, PacketKey, next_secret};
pub use retry::{RETRY_TAG_BYTES, retry_tag};
pub use sealane_awslc::{
    Aead, MAX_QUIC_FLIGHT_BYTES, QuicEvent as Event, QuicLevel as Level, QuicSuite as Suite,
    TrafficSecret, hmac_sha256,
};
pub use server::{ServerConnection, Status};
pub use version::Version;
