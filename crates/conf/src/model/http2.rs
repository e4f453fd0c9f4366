//! HTTP/2: what nginx can set, and Sealane's limits against abuse.

use std::time::Duration;

/// The HTTP/2 settings of a server. Those of the server that the connection
/// was opened for hold for the connection: the one chosen by SNI, else the
/// default server of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    /// `http2`: offered by ALPN, and taken by prior knowledge; default off.
    /// The parameter of `listen` ([`super::ListenOptions::http2`]) switches it
    /// on for an address instead.
    pub enabled: bool,
    /// `http2_max_concurrent_streams`; default 128.
    pub max_concurrent_streams: u32,
    /// `http2_body_preread_size`: the window of a stream before anybody reads
    /// its body; default 64k.
    pub body_preread_bytes: u32,
    /// Limits against abuse.
    pub limits: Http2Limits,
}

/// Limits of one HTTP/2 connection. A connection that goes over a limit of
/// frames ends with ENHANCE_YOUR_CALM; the others say what happens.
///
/// Limits "per period" count over [`Http2Limits::period`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Limits {
    /// `http2_limit_period`; default 10 s.
    pub period: Duration,
    /// `http2_max_resets`: streams per period that end with RST_STREAM before
    /// their response has been sent, by the client or because of it (rapid
    /// reset, CVE-2023-44487 and CVE-2025-8671); default 200.
    pub max_resets: u32,
    /// `http2_max_control_frames`: SETTINGS, PING, PRIORITY, PRIORITY_UPDATE,
    /// WINDOW_UPDATE for closed streams and frames of unknown types, per
    /// period; default 1000.
    pub max_control_frames: u32,
    /// `http2_max_empty_frames`: DATA, HEADERS and CONTINUATION frames that
    /// carry nothing and end nothing, per period; default 100.
    pub max_empty_frames: u32,
    /// `http2_max_continuations`: CONTINUATION frames of one header block
    /// (CVE-2024-27316); default 32.
    pub max_continuations: u32,
    /// `http2_max_queued_frames`: answers to control frames (SETTINGS, PING,
    /// RST_STREAM) that wait because the client does not read; default 1000.
    pub max_queued_frames: u32,
    /// `http2_max_header_list_size`: bytes of one decoded header block, counted
    /// as in SETTINGS_MAX_HEADER_LIST_SIZE (HPACK bombs). A larger one gets
    /// 400 or, when it cannot even be decoded within four times as much, ends
    /// the connection. Default: all of `large_client_header_buffers`, 32k.
    pub max_header_list_bytes: u32,
    /// `http2_max_header_table_size`: the table of recent header fields kept
    /// for each direction, SETTINGS_HEADER_TABLE_SIZE; default 4k.
    pub max_header_table_bytes: u32,
    /// `http2_max_window`: how far the receive windows of a stream, and of the
    /// connection, grow with the measured round trip; default 4m.
    pub max_window_bytes: u32,
}

impl Http2Limits {
    /// The default of each limit; that of `max_header_list_bytes` depends on
    /// `large_client_header_buffers`.
    pub const DEFAULT: Http2Limits = Http2Limits {
        period: Duration::from_secs(10),
        max_resets: 200,
        max_control_frames: 1000,
        max_empty_frames: 100,
        max_continuations: 32,
        max_queued_frames: 1000,
        max_header_list_bytes: 32 << 10,
        max_header_table_bytes: 4 << 10,
        max_window_bytes: 4 << 20,
    };
}
