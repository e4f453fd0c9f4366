//! What was on the wire: packet captures put together again and opened with the
//! client's key log.
//!
//! The point is what the server wrote. After kernel TLS has taken over, one
//! record of libssl's among the kernel's would use a sequence number, and so a
//! nonce, a second time. [`ServerStream::open`] finds that: every record must open
//! under the next number of its key, and there may be nothing between records.

mod capture;
mod keys;
mod records;
#[cfg(test)]
mod tests;

pub use capture::{Conversation, conversations};
pub use keys::KeyLog;
pub use records::{ALERT, APPLICATION_DATA, HANDSHAKE, Record, ServerStream};
