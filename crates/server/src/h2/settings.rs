//! Translates the `http2_*` directives into settings of the codec.

use sealane_conf::model::{FrameAllowance, Server};
use sealane_http::h1;
use sealane_http::h2::{Allowance, Limits, Settings};
use std::sync::Arc;

/// `SETTINGS_MAX_FRAME_SIZE` of both ends, towards clients and origins: bodies pass through as they
/// arrive, so that a large frame takes no more memory than small ones, and less work.
pub(crate) const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Settings of HTTP/2 connections that belong to a server.
pub(crate) fn codec_settings(server: &Server, head: h1::Limits) -> Arc<Settings> {
    let http2 = &server.http2;
    let limits = &http2.limits;
    let allow = |allowance: FrameAllowance| Allowance {
        burst: allowance.burst,
        per_second: allowance.per_second,
    };
    Arc::new(Settings {
        max_concurrent_streams: http2.max_concurrent_streams,
        stream_window_bytes: http2.body_preread_bytes,
        max_stream_window_bytes: http2.max_stream_window_bytes,
        max_frame_bytes: MAX_FRAME_BYTES,
        max_connection_window_bytes: http2.max_connection_window_bytes,
        extended_connect: http2.extended_connect && server.passes_upgrades(),
        head,
        // `http2_chunk_size` of the location and the client's setting limit it.
        data_frame_bytes: u32::MAX,
        limits: Limits {
            resets: allow(limits.resets),
            settings: allow(limits.settings),
            pings: allow(limits.pings),
            empty_frames: allow(limits.empty_frames),
            priority_frames: allow(limits.priority_frames),
            window_updates: allow(limits.window_updates),
            oversized_heads: allow(limits.oversized_heads),
            continuation_frames: limits.continuations,
            header_block_bytes: usize::try_from(limits.header_block_bytes).unwrap_or(usize::MAX),
            unread_replies: limits.unread_replies,
        },
        ..Settings::default()
    })
}
