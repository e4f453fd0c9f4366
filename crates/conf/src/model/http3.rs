//! HTTP/3: what nginx can set, and Sealane's limits against abuse.

use super::FrameAllowance;

/// The HTTP/3 settings of a server. A connection uses those of the server that it was opened for:
/// the one chosen by SNI, else the default server of the address. What is part of the transport
/// parameters (`max_concurrent_streams` and the windows) comes from the default server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http3 {
    /// `http3`: `h3` may be agreed on (ALPN); default on.
    pub enabled: bool,
    /// `http3_hq`: `hq-interop` may be agreed on, HTTP/0.9 over QUIC for interoperability tests;
    /// default off.
    pub hq: bool,
    /// `http3_extended_connect`: clients may open WebSockets on streams (RFC 9220), where a
    /// location passes them on; default on.
    pub extended_connect: bool,
    /// `http3_max_concurrent_streams`: requests that may be open at a time; default 128. At most
    /// 65,536.
    pub max_concurrent_streams: u32,
    /// `http3_stream_buffer_size`: the window of a stream before its body is read, and what waits
    /// to be sent on it; default 64k. At least 4k.
    pub stream_buffer_bytes: u32,
    /// `http3_max_stream_window`: how far a stream's receive window grows with the measured round
    /// trip; default 4m. At least `stream_buffer_bytes`.
    pub max_stream_window_bytes: u32,
    /// `http3_max_connection_window`: the same for all streams of a connection together; default
    /// 16m. At least `max_stream_window_bytes`.
    pub max_connection_window_bytes: u32,
    /// `http3_max_table_capacity`: QPACK's dynamic table, in either direction; default 4k.
    pub max_table_capacity_bytes: u32,
    /// `http3_max_blocked_streams`: requests that may wait for entries of that table; default 16.
    pub max_blocked_streams: u32,
    /// Limits against abuse.
    pub limits: Http3Limits,
}

/// Limits of one HTTP/3 connection; one that goes over a limit ends with H3_EXCESSIVE_LOAD (RFC
/// 9114 section 10.5). Each is a directive called `http3_max_` and the name of the field, all of
/// them Sealane's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http3Limits {
    /// Streams that come to nothing because of the client (rapid reset, CVE-2023-44487).
    pub resets: FrameAllowance,
    /// Frames without effect.
    pub empty_frames: FrameAllowance,
    /// PRIORITY_UPDATE frames.
    pub priority_frames: FrameAllowance,
    /// Unidirectional streams, of which three are of use.
    pub unidirectional_streams: FrameAllowance,
    /// Requests whose header fields exceed `large_client_header_buffers` once decompressed (QPACK
    /// bombs).
    pub oversized_heads: FrameAllowance,
    /// `http3_max_header_block_size`: bytes of one field section as sent.
    pub header_block_bytes: u64,
}

impl Http3Limits {
    /// The default of each limit.
    pub const DEFAULT: Http3Limits = Http3Limits {
        resets: allow(400, 33),
        empty_frames: allow(200, 20),
        priority_frames: allow(1000, 50),
        unidirectional_streams: allow(32, 1),
        oversized_heads: allow(20, 1),
        header_block_bytes: 64 << 10,
    };
}

const fn allow(burst: u32, per_second: u32) -> FrameAllowance {
    FrameAllowance { burst, per_second }
}
