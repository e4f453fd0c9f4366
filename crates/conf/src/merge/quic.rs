//! `http3`, `http3_*` and `quic_*`: inheritance and defaults.

use super::servers::inherit;
use crate::draft::{Http3Draft, QuicDraft};
use crate::model::{Http3, Http3Limits, QuicRetry, QuicSettings, QuicVersion};

/// RFC 9000 section 18.2: a smaller `active_connection_id_limit` is an error.
const MIN_CONNECTION_IDS: u32 = 2;

/// Most connection ids of a client that are kept, whatever `quic_active_connection_id_limit` says:
/// each takes memory of every connection, and a client uses one for each path.
const MAX_CONNECTION_IDS: u32 = 8;

/// Most requests of a connection at a time, whatever `http3_max_concurrent_streams` says: a client
/// that names the last stream opens all of them.
const MAX_STREAMS: u32 = 1 << 16;

/// Smallest buffer of a stream, whatever `http3_stream_buffer_size` says: with less, requests wait
/// for window updates.
const MIN_STREAM_BUFFER_BYTES: u32 = 4 << 10;

impl Http3Draft {
    pub(super) fn inherit(&mut self, outer: &Http3Draft) {
        inherit!(self, outer;
            enabled hq extended_connect max_concurrent_streams stream_buffer_size max_stream_window
            max_connection_window max_table_capacity max_blocked_streams resets empty_frames
            priority_frames unidirectional_streams oversized_heads header_block_size);
    }

    /// The HTTP/3 settings of a server whose draft is merged.
    pub(super) fn finish(&self) -> Http3 {
        let buffer = number(self.stream_buffer_size, 64 << 10).max(MIN_STREAM_BUFFER_BYTES);
        let stream_window = number(self.max_stream_window, 4 << 20).max(buffer);
        let default = Http3Limits::DEFAULT;
        Http3 {
            enabled: self.enabled.unwrap_or(true),
            hq: self.hq.unwrap_or(false),
            extended_connect: self.extended_connect.unwrap_or(true),
            max_concurrent_streams: number(self.max_concurrent_streams, 128).min(MAX_STREAMS),
            stream_buffer_bytes: buffer,
            max_stream_window_bytes: stream_window,
            max_connection_window_bytes: number(self.max_connection_window, 16 << 20)
                .max(stream_window),
            max_table_capacity_bytes: number(self.max_table_capacity, 4 << 10),
            max_blocked_streams: number(self.max_blocked_streams, 16),
            limits: Http3Limits {
                resets: self.resets.unwrap_or(default.resets),
                empty_frames: self.empty_frames.unwrap_or(default.empty_frames),
                priority_frames: self.priority_frames.unwrap_or(default.priority_frames),
                unidirectional_streams: self
                    .unidirectional_streams
                    .unwrap_or(default.unidirectional_streams),
                oversized_heads: self.oversized_heads.unwrap_or(default.oversized_heads),
                header_block_bytes: self.header_block_size.unwrap_or(default.header_block_bytes),
            },
        }
    }
}

impl QuicDraft {
    pub(super) fn inherit(&mut self, outer: &QuicDraft) {
        inherit!(self, outer;
            versions retry gso congestion_control mtu_discovery active_connection_id_limit host_key
            preferred_address qlog qlog_max_size qlog_max_connections);
    }

    /// The QUIC settings of a server whose draft is merged.
    pub(super) fn finish(self) -> QuicSettings {
        QuicSettings {
            versions: self
                .versions
                .unwrap_or_else(|| vec![QuicVersion::V1, QuicVersion::V2].into()),
            retry: self.retry.unwrap_or(QuicRetry::DEFAULT),
            gso: self.gso.unwrap_or(true),
            congestion_control: self.congestion_control.unwrap_or_default(),
            mtu_discovery: self.mtu_discovery.unwrap_or(true),
            active_connection_id_limit: number(self.active_connection_id_limit, MIN_CONNECTION_IDS)
                .clamp(MIN_CONNECTION_IDS, MAX_CONNECTION_IDS),
            host_key: self.host_key,
            preferred_address: self.preferred_address.flatten(),
            qlog: self.qlog.flatten(),
            qlog_max_bytes: self.qlog_max_size.unwrap_or(64 << 20),
            qlog_max_connections: number(self.qlog_max_connections, 64),
        }
    }
}

fn number(value: Option<u64>, default: u32) -> u32 {
    value.map_or(default, |value| u32::try_from(value).unwrap_or(u32::MAX))
}
