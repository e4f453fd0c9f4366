//! What this side announces and allows, and what the peer announced (RFC 9113 section 6.5).

use super::error::Fault;
use super::flow::{DEFAULT_WINDOW, MAX_WINDOW};
use super::frame::{self, DEFAULT_MAX_FRAME_BYTES, FrameType, LARGEST_FRAME_BYTES};
use super::limits::Limits;
use crate::h1;
use smallvec::SmallVec;

/// Identifiers of settings.
mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(super) const ENABLE_PUSH: u16 = 0x2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    /// RFC 8441 section 3.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
    /// RFC 9218 section 2.1.
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// How a connection behaves; shared by all connections of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `http2_max_concurrent_streams`: streams that the peer may have open. For a client: streams
    /// that it opens, if the peer allows more.
    pub max_concurrent_streams: u32,
    /// `http2_body_preread_size`: the initial window of a stream, in bytes.
    pub stream_window_bytes: u32,
    /// The size to which a stream's window may grow while the application keeps up.
    pub max_stream_window_bytes: u32,
    /// The initial window of the connection. What the application has not consumed of all streams
    /// together stays below it.
    pub connection_window_bytes: u32,
    /// The size to which the connection's window may grow.
    pub max_connection_window_bytes: u32,
    /// `http2_chunk_size`: the largest DATA frame sent, if the peer accepts it.
    pub data_frame_bytes: u32,
    /// `SETTINGS_MAX_FRAME_SIZE`: the largest frame that the peer may send. DATA of any size is
    /// taken as it arrives, without being kept.
    pub max_frame_bytes: u32,
    /// `SETTINGS_ENABLE_CONNECT_PROTOCOL`: clients may open WebSockets on streams (RFC 8441). Only
    /// a server announces it.
    pub extended_connect: bool,
    /// Limits of heads: `client_header_buffer_size`, `large_client_header_buffers`,
    /// `max_headers`, `ignore_invalid_headers`, `underscores_in_headers`.
    pub head: h1::Limits,
    /// Limits against floods.
    pub limits: Limits,
}

impl Default for Settings {
    /// nginx's defaults, for the directives that nginx has.
    fn default() -> Settings {
        Settings {
            max_concurrent_streams: 128,
            stream_window_bytes: 64 * 1024,
            max_stream_window_bytes: 4 << 20,
            connection_window_bytes: 1 << 20,
            max_connection_window_bytes: 16 << 20,
            data_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            extended_connect: false,
            head: h1::Limits::default(),
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// Appends the first SETTINGS frame; a client disables push instead of limiting streams.
    pub(super) fn push_frame(&self, out: &mut Vec<u8>, is_server: bool) {
        let window = (
            id::INITIAL_WINDOW_SIZE,
            self.stream_window_bytes.min(MAX_WINDOW),
        );
        let streams = if is_server {
            (id::MAX_CONCURRENT_STREAMS, self.max_concurrent_streams)
        } else {
            (id::ENABLE_PUSH, 0)
        };
        let frame_size = (id::MAX_FRAME_SIZE, self.max_frame_bytes);
        let is_default = self.max_frame_bytes == DEFAULT_MAX_FRAME_BYTES;
        let mut entries: SmallVec<[(u16, u32); 5]> = SmallVec::new();
        entries.extend([streams, window, (id::NO_RFC7540_PRIORITIES, 1)]);
        entries.extend((!is_default).then_some(frame_size));
        let extended_connect = is_server && self.extended_connect;
        entries.extend(extended_connect.then_some((id::ENABLE_CONNECT_PROTOCOL, 1)));
        frame::push_header(out, FrameType::Settings, 0, 0, 6 * entries.len() as u32);
        for (identifier, value) in entries {
            out.extend_from_slice(&identifier.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// The settings of the peer that are in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) header_table_bytes: u32,
    pub(super) max_concurrent_streams: u32,
    pub(super) initial_window_bytes: u32,
    pub(super) max_frame_bytes: u32,
    no_rfc7540_priorities: Option<bool>,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            header_table_bytes: 4096,
            max_concurrent_streams: u32::MAX,
            initial_window_bytes: DEFAULT_WINDOW,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            no_rfc7540_priorities: None,
        }
    }
}

/// Changes in a SETTINGS frame that the connection must act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// The change of every stream's send window.
    pub(super) window_delta: i64,
    /// The smallest and the last size of the header table, if given: RFC 7541 section 4.2 requires
    /// that both are announced to the peer.
    pub(super) header_table: Option<(u32, u32)>,
}

impl PeerSettings {
    /// Applies a SETTINGS payload, whose length is a multiple of six. Values are applied in order;
    /// unknown settings are ignored.
    pub(super) fn apply(
        &mut self,
        payload: &[u8],
        is_first: bool,
        peer_is_server: bool,
    ) -> Result<Changes, Fault> {
        let window_before = self.initial_window_bytes;
        let mut changes = Changes::default();
        for entry in payload.as_chunks::<6>().0 {
            let [a, b, c, d, e, f] = *entry;
            let identifier = u16::from_be_bytes([a, b]);
            let value = u32::from_be_bytes([c, d, e, f]);
            let invalid = Fault::Setting(identifier);
            match identifier {
                id::HEADER_TABLE_SIZE => {
                    let smallest = changes
                        .header_table
                        .map_or(value, |(low, _)| low.min(value));
                    changes.header_table = Some((smallest, value));
                    self.header_table_bytes = value;
                }
                // Section 6.5.2: a server may only say 0.
                id::ENABLE_PUSH if value > u32::from(!peer_is_server) => return Err(invalid),
                id::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
                id::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => return Err(invalid),
                id::INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
                id::MAX_FRAME_SIZE => {
                    if !(DEFAULT_MAX_FRAME_BYTES..=LARGEST_FRAME_BYTES).contains(&value) {
                        return Err(invalid);
                    }
                    self.max_frame_bytes = value;
                }
                id::NO_RFC7540_PRIORITIES => {
                    let wanted = value == 1;
                    let changed =
                        !is_first && self.no_rfc7540_priorities.unwrap_or(false) != wanted;
                    if value > 1 || changed {
                        return Err(invalid);
                    }
                    self.no_rfc7540_priorities = Some(wanted);
                }
                // Advisory (section 6.5.2): heads that the application sends are sent.
                id::MAX_HEADER_LIST_SIZE => {}
                _ => {}
            }
        }
        changes.window_delta = i64::from(self.initial_window_bytes) - i64::from(window_before);
        Ok(changes)
    }
}
