//! HTTP/2: what nginx can set, and Sealane's limits against abuse.

/// The HTTP/2 settings of a server. A connection uses those of the server that it
/// was opened for: the one chosen by SNI, else the
/// default server of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// `http2`: offered by ALPN, and accepted with prior knowledge; default off.
    /// The parameter of `listen` ([`super::ListenOptions::http2`]) switches it
    /// on for an address instead.
    pub enabled: bool,
    /// `http2_extended_connect`: clients may open WebSockets on streams (RFC 8441), where a
    /// location passes them on; default on.
    pub extended_connect: bool,
    /// `http2_max_concurrent_streams`; default 128.
    pub max_concurrent_streams: u32,
    /// `http2_body_preread_size`: the window of a stream before its body
    /// is read; default 64k.
    pub body_preread_bytes: u32,
    /// `http2_max_stream_window`: how far a stream's receive window grows with
    /// the measured round trip; default 4m. At least `body_preread_bytes`.
    pub max_stream_window_bytes: u32,
    /// `http2_max_connection_window`: the same for all streams of a connection
    /// together; default 16m.
    pub max_connection_window_bytes: u32,
    /// Limits against abuse.
    pub limits: Http2Limits,
}

/// How many frames of a kind are accepted: `burst` at once, `per_second` in the
/// long run. Useful traffic adds to the allowance too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAllowance {
    /// At once.
    pub burst: u32,
    /// `rate=`: what of it comes back each second.
    pub per_second: u32,
}

/// Limits of one HTTP/2 connection; one that goes over a limit ends with
/// ENHANCE_YOUR_CALM. Each is a directive called `http2_max_` and the name of
/// the field, all of them Sealane's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Limits {
    /// Streams that come to nothing because of the client (rapid reset,
    /// CVE-2023-44487 and CVE-2025-8671).
    pub resets: FrameAllowance,
    /// SETTINGS frames (CVE-2019-9515).
    pub settings: FrameAllowance,
    /// PING frames (CVE-2019-9512).
    pub pings: FrameAllowance,
    /// Frames without effect (CVE-2019-9518).
    pub empty_frames: FrameAllowance,
    /// PRIORITY and PRIORITY_UPDATE frames (CVE-2019-9513).
    pub priority_frames: FrameAllowance,
    /// WINDOW_UPDATE frames (CVE-2019-9511).
    pub window_updates: FrameAllowance,
    /// Requests whose header fields exceed `large_client_header_buffers` once
    /// decompressed (HPACK bombs).
    pub oversized_heads: FrameAllowance,
    /// CONTINUATION frames of one header block (CVE-2024-27316).
    pub continuations: u32,
    /// `http2_max_header_block_size`: bytes of one header block as sent.
    pub header_block_bytes: u64,
    /// Replies (acknowledgements, resets, window updates) that are queued because the
    /// client does not read (CVE-2019-9517).
    pub unread_replies: u32,
}

impl Http2Limits {
    /// The default of each limit.
    pub const DEFAULT: Http2Limits = Http2Limits {
        resets: allow(400, 33),
        settings: allow(100, 5),
        pings: allow(500, 50),
        empty_frames: allow(200, 20),
        priority_frames: allow(1000, 50),
        window_updates: allow(2000, 200),
        oversized_heads: allow(20, 1),
        continuations: 32,
        header_block_bytes: 64 << 10,
        unread_replies: 1000,
    };
}

const fn allow(burst: u32, per_second: u32) -> FrameAllowance {
    FrameAllowance { burst, per_second }
}
