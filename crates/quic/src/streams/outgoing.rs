//! Frames that are to be sent, and what is remembered of those that were.

use super::{Direction, StreamId};

/// A frame that has to go into the packet that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// STREAM: the owner copies these bytes into the packet.
    Stream {
        id: StreamId,
        offset: u64,
        len: u16,
        fin: bool,
        /// There is no room for a length: the frame is written without one, and the packet ends
        /// with it.
        last: bool,
    },
    /// MAX_DATA.
    MaxData { value: u64 },
    /// MAX_STREAM_DATA.
    MaxStreamData { id: StreamId, value: u64 },
    /// MAX_STREAMS.
    MaxStreams { direction: Direction, value: u64 },
    /// RESET_STREAM.
    ResetStream {
        id: StreamId,
        code: u64,
        final_size: u64,
    },
    /// STOP_SENDING.
    StopSending { id: StreamId, code: u64 },
    /// DATA_BLOCKED.
    DataBlocked { value: u64 },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked { id: StreamId, value: u64 },
    /// STREAMS_BLOCKED.
    StreamsBlocked { direction: Direction, value: u64 },
}

/// A frame that was sent, as [`super::Streams::on_acked`] and [`super::Streams::on_lost`] want it
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// STREAM.
    Stream {
        id: StreamId,
        offset: u64,
        len: u16,
        fin: bool,
    },
    /// MAX_DATA.
    MaxData { value: u64 },
    /// MAX_STREAM_DATA.
    MaxStreamData { id: StreamId, value: u64 },
    /// MAX_STREAMS.
    MaxStreams { direction: Direction, value: u64 },
    /// RESET_STREAM.
    ResetStream { id: StreamId },
    /// STOP_SENDING.
    StopSending { id: StreamId },
    /// DATA_BLOCKED.
    DataBlocked { value: u64 },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked { id: StreamId, value: u64 },
    /// STREAMS_BLOCKED.
    StreamsBlocked { direction: Direction, value: u64 },
}

// Each packet in flight keeps a list of them.
const _: () = assert!(size_of::<Sent>() <= 24);

impl Outgoing {
    /// What is to be remembered of it.
    pub(crate) const fn sent(self) -> Sent {
        match self {
            Self::Stream {
                id,
                offset,
                len,
                fin,
                ..
            } => Sent::Stream {
                id,
                offset,
                len,
                fin,
            },
            Self::MaxData { value } => Sent::MaxData { value },
            Self::MaxStreamData { id, value } => Sent::MaxStreamData { id, value },
            Self::MaxStreams { direction, value } => Sent::MaxStreams { direction, value },
            Self::ResetStream { id, .. } => Sent::ResetStream { id },
            Self::StopSending { id, .. } => Sent::StopSending { id },
            Self::DataBlocked { value } => Sent::DataBlocked { value },
            Self::StreamDataBlocked { id, value } => Sent::StreamDataBlocked { id, value },
            Self::StreamsBlocked { direction, value } => Sent::StreamsBlocked { direction, value },
        }
    }
}
