//! Records that carry no data, for the two places that write them without libssl: the kernel's
//! side (`ktls/`) and our own writer (`record_writer.rs`).

/// Record types (RFC 8446 section 5.1).
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;

/// KeyUpdate, `update_not_requested` (RFC 8446 section 4.6.3).
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
