//! At the end of `stream`: inheritance and defaults.

use super::servers::inherit;
use crate::draft::{StreamDraft, StreamProxyDraft};
use crate::model::{StreamHandler, StreamServer};
use std::time::Duration;

/// nginx's default of `preread_timeout` and `proxy_protocol_timeout`.
const HALF_MINUTE: Duration = Duration::from_secs(30);
/// nginx's default of `preread_buffer_size`.
const PREREAD_BYTES: u64 = 16 << 10;

impl StreamDraft {
    /// Takes what is not set from the outer level; what answers belongs to one server.
    pub(super) fn inherit(&mut self, outer: &StreamDraft) {
        inherit!(self, outer;
            ssl_preread alpn preread_buffer_bytes preread_timeout proxy_protocol_timeout);
        self.proxy.inherit(&outer.proxy);
    }

    /// What a server with these settings does; they are merged already.
    pub(super) fn server(&self) -> StreamServer {
        let preread_bytes = self.preread_buffer_bytes.unwrap_or(PREREAD_BYTES);
        StreamServer {
            handler: self.handler.clone().unwrap_or(StreamHandler::None),
            sets: self.sets.clone(),
            ssl_preread: self.ssl_preread.unwrap_or(false),
            alpn: self.alpn.clone().unwrap_or_default(),
            preread_buffer_bytes: usize::try_from(preread_bytes).unwrap_or(usize::MAX),
            preread_timeout: self.preread_timeout.unwrap_or(HALF_MINUTE),
            proxy_protocol_timeout: self.proxy_protocol_timeout.unwrap_or(HALF_MINUTE),
        }
    }
}

impl StreamProxyDraft {
    fn inherit(&mut self, outer: &StreamProxyDraft) {
        inherit!(self, outer;
            timeout upload_rate download_rate half_close next_upstream tls alpn);
    }
}
