//! What only `stream` has, as written on a level.

use crate::model::{List, SetVariable, StreamHandler, Template};
use std::sync::Arc;
use std::time::Duration;

/// Settings of `stream` and of its servers.
#[derive(Debug, Default, Clone)]
pub(crate) struct StreamDraft {
    /// Of this server alone.
    pub(crate) handler: Option<StreamHandler>,
    /// Of this server alone, in order.
    pub(crate) sets: List<SetVariable>,
    pub(crate) ssl_preread: Option<bool>,
    pub(crate) alpn: Option<Arc<[Box<[u8]>]>>,
    pub(crate) preread_buffer_bytes: Option<u64>,
    pub(crate) preread_timeout: Option<Duration>,
    pub(crate) proxy_protocol_timeout: Option<Duration>,
    pub(crate) udp_sessions: Option<u64>,
    pub(crate) udp_session_queue: Option<(u64, u64)>,
    pub(crate) udp_queue_bytes: Option<u64>,
    pub(crate) proxy: StreamProxyDraft,
}

/// What `proxy_*` has in `stream` and not in `http`.
#[derive(Debug, Default, Clone)]
pub(crate) struct StreamProxyDraft {
    pub(crate) timeout: Option<Duration>,
    pub(crate) upload_rate: Option<Template>,
    pub(crate) download_rate: Option<Template>,
    pub(crate) requests: Option<u64>,
    pub(crate) responses: Option<u64>,
    pub(crate) half_close: Option<bool>,
    pub(crate) next_upstream: Option<bool>,
    pub(crate) tls: Option<bool>,
    pub(crate) alpn: Option<List<Template>>,
}
