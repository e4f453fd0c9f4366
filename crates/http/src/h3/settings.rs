//! What this side announces and allows.

use crate::h1;
use crate::meter::Allowance;

/// How a connection behaves; shared by all connections of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Requests that may be open at a time. The transport's limit on streams should be the same.
    pub max_concurrent_streams: usize,
    /// `SETTINGS_QPACK_MAX_TABLE_CAPACITY`: bytes of the peer's fields that are kept to be referred
    /// to (RFC 9204 section 3.2.2), at most 64 KiB. Zero keeps none.
    pub decoder_table_bytes: u32,
    /// `SETTINGS_QPACK_BLOCKED_STREAMS`: streams that may wait for fields which the peer has not
    /// sent yet (RFC 9204 section 2.1.2).
    pub blocked_streams: usize,
    /// Bytes of encoded field sections that may be held: of those that wait, and of those that have
    /// not arrived entirely.
    pub held_bytes: usize,
    /// The largest table that this side's encoder keeps, if the peer allows as much.
    pub encoder_table_bytes: u32,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`: clients may open WebSockets on streams (RFC 9220). Only
    /// a server announces it.
    pub extended_connect: bool,
    /// Limits of heads: `client_header_buffer_size`, `large_client_header_buffers`,
    /// `max_headers`, `ignore_invalid_headers`, `underscores_in_headers`.
    pub head: h1::Limits,
    /// Limits against floods.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_concurrent_streams: 128,
            decoder_table_bytes: 4096,
            blocked_streams: 16,
            held_bytes: 256 * 1024,
            encoder_table_bytes: 4096,
            extended_connect: false,
            head: h1::Limits::default(),
            limits: Limits::default(),
        }
    }
}

/// Limits against floods, by name: what is rare in honest traffic is metered. Exceeding a meter
/// ends the connection with H3_EXCESSIVE_LOAD (RFC 9114 section 10.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wasted streams: reset by the peer before they were answered, refused, or reset by us because
    /// of what the peer sent. Every stream answered in full gives one back.
    pub resets: Allowance,
    /// Frames without effect: DATA without bytes, frames of unknown types, frames that only matter
    /// to pushes. DATA with bytes and new requests give back.
    pub empty_frames: Allowance,
    /// PRIORITY_UPDATE. New requests give two back.
    pub priority_frames: Allowance,
    /// Unidirectional streams. Three are of use.
    pub unidirectional_streams: Allowance,
    /// Bytes that the peer's instructions write into the table of its fields; one byte can write a
    /// whole table's worth. New requests give 4096 back.
    pub table_bytes: Allowance,
    /// Heads that exceed their limits. Each is answered with 431 or 414 and costs no memory beyond
    /// the limits, but a few KiB that refer to the table again and again cost work.
    pub oversized_heads: Allowance,
    /// Bytes of one encoded field section, unless heads are allowed more anyway.
    pub section_bytes: usize,
    /// Bytes of acknowledgements to the peer's encoder that it does not read.
    pub unread_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let allow = |burst, per_second| Allowance { burst, per_second };
        Limits {
            resets: allow(400, 33),
            empty_frames: allow(200, 20),
            priority_frames: allow(1000, 50),
            unidirectional_streams: allow(32, 1),
            table_bytes: allow(1 << 20, 64 * 1024),
            oversized_heads: allow(20, 1),
            section_bytes: 64 * 1024,
            unread_bytes: 16 * 1024,
        }
    }
}
