//! `http3`, `http3_*` and `quic_*`, while a block is read.

use crate::model::{
    CongestionControl, FrameAllowance, List, PreferredAddress, Qlog, QuicRetry, QuicVersion,
};
use std::path::PathBuf;
use std::sync::Arc;

/// `http3` and the `http3_*` settings of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct Http3Draft {
    pub(crate) enabled: Option<bool>,
    pub(crate) hq: Option<bool>,
    pub(crate) extended_connect: Option<bool>,
    pub(crate) max_concurrent_streams: Option<u64>,
    pub(crate) stream_buffer_size: Option<u64>,
    pub(crate) max_stream_window: Option<u64>,
    pub(crate) max_connection_window: Option<u64>,
    pub(crate) max_table_capacity: Option<u64>,
    pub(crate) max_blocked_streams: Option<u64>,
    pub(crate) resets: Option<FrameAllowance>,
    pub(crate) empty_frames: Option<FrameAllowance>,
    pub(crate) priority_frames: Option<FrameAllowance>,
    pub(crate) unidirectional_streams: Option<FrameAllowance>,
    pub(crate) oversized_heads: Option<FrameAllowance>,
    pub(crate) header_block_size: Option<u64>,
}

/// The `quic_*` settings of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct QuicDraft {
    pub(crate) versions: Option<List<QuicVersion>>,
    pub(crate) retry: Option<QuicRetry>,
    pub(crate) gso: Option<bool>,
    pub(crate) congestion_control: Option<CongestionControl>,
    pub(crate) mtu_discovery: Option<bool>,
    pub(crate) active_connection_id_limit: Option<u64>,
    pub(crate) host_key: Option<PathBuf>,
    /// `Some(None)`: `off`.
    pub(crate) preferred_address: Option<Option<PreferredAddress>>,
    /// `Some(None)`: `off`.
    pub(crate) qlog: Option<Option<Arc<Qlog>>>,
    pub(crate) qlog_max_size: Option<u64>,
    pub(crate) qlog_max_connections: Option<u64>,
}
