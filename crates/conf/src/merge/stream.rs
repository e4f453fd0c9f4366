//! At the end of `stream`: inheritance and defaults.

use super::servers::inherit;
use crate::draft::{StreamDraft, StreamProxyDraft};
use crate::model::{DatagramLimits, StreamHandler, StreamServer};
use std::time::Duration;

/// nginx's default of `preread_timeout` and `proxy_protocol_timeout`.
const HALF_MINUTE: Duration = Duration::from_secs(30);
/// nginx's default of `preread_buffer_size`.
const PREREAD_BYTES: u64 = 16 << 10;
/// Default of `udp_session_queue`: datagrams, and their bytes.
const SESSION_QUEUE: (u64, u64) = (256, 256 << 10);
/// Default of `udp_queue_memory`.
const QUEUE_BYTES: u64 = 16 << 20;

impl StreamDraft {
    /// Takes what is not set from the outer level; what answers belongs to one server.
    pub(super) fn inherit(&mut self, outer: &StreamDraft) {
        inherit!(self, outer;
            ssl_preread alpn preread_buffer_bytes preread_timeout proxy_protocol_timeout
            udp_sessions udp_session_queue udp_queue_bytes);
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
            datagrams: self.datagrams(),
        }
    }

    fn datagrams(&self) -> DatagramLimits {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (packets, bytes) = self.udp_session_queue.unwrap_or(SESSION_QUEUE);
        DatagramLimits {
            sessions: self.udp_sessions.filter(|count| *count > 0).map(size),
            session_packets: size(packets),
            session_bytes: size(bytes),
            queue_bytes: size(self.udp_queue_bytes.unwrap_or(QUEUE_BYTES)),
            requests: match (&self.handler, self.proxy.requests.unwrap_or(0)) {
                // As in nginx, where a session ends as soon as nothing is waited for.
                (Some(StreamHandler::Proxy), 0) if self.proxy.responses == Some(0) => 1,
                (Some(StreamHandler::Proxy), requests) => requests,
                _ => 0,
            },
        }
    }
}

impl StreamProxyDraft {
    fn inherit(&mut self, outer: &StreamProxyDraft) {
        inherit!(self, outer;
            timeout upload_rate download_rate requests responses half_close next_upstream tls alpn);
    }
}
