//! Frames, RFC 9000 section 19.
//!
//! [`Frames`] reads those of an opened payload without copying; [`Frame::put`] and the functions
//! `put_*` append them to a packet.

mod ack;
mod read;
mod types;
mod write;

#[cfg(test)]
mod tests;

use crate::reset::ResetToken;
use crate::{Code, ConnectionId};

pub(crate) use ack::{Ack, EcnCounts, MAX_RANGES_SENT, put_ack};
pub(crate) use read::Frames;
pub(crate) use write::{put_close, put_padding, put_stream_header, stream_header_len};

/// A frame.
///
/// Stream ids, offsets and limits have 62 bits. Whether a frame fits the state of its connection or
/// stream is not looked at here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// So many bytes of padding in a row.
    Padding(usize),
    /// Asks for nothing but to be acknowledged.
    Ping,
    /// Acknowledges packets.
    Ack(Ack<'a>),
    /// The sender gives up the sending part of a stream.
    ResetStream {
        /// The stream.
        id: u64,
        /// Why, as the application says.
        code: u64,
        /// Bytes of the stream in all.
        final_size: u64,
    },
    /// The receiver does not want more of a stream.
    StopSending {
        /// The stream.
        id: u64,
        /// Why, as the application says.
        code: u64,
    },
    /// Bytes of the handshake.
    Crypto {
        /// Where they are in the handshake of this level.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// A token for a later connection, never empty.
    NewToken(&'a [u8]),
    /// Bytes of a stream.
    Stream {
        /// The stream.
        id: u64,
        /// Where they are in the stream. The end has at most 62 bits too.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// Whether the stream ends with them.
        fin: bool,
    },
    /// Limit of the bytes on all streams.
    MaxData(u64),
    /// Limit of the bytes on one stream.
    MaxStreamData {
        /// The stream.
        id: u64,
        /// The limit.
        limit: u64,
    },
    /// Limit of the number of streams that the peer opens, at most 2^60.
    MaxStreams {
        /// Whether these are bidirectional ones.
        bidirectional: bool,
        /// The limit.
        limit: u64,
    },
    /// The sender had more to send than the limit of the connection, which this is.
    DataBlocked(u64),
    /// The sender had more to send than the limit of a stream.
    StreamDataBlocked {
        /// The stream.
        id: u64,
        /// The limit.
        limit: u64,
    },
    /// The sender wanted more streams than the limit, at most 2^60.
    StreamsBlocked {
        /// Whether these are bidirectional ones.
        bidirectional: bool,
        /// The limit.
        limit: u64,
    },
    /// One more connection id by which the sender can be reached.
    NewConnectionId(NewConnectionId),
    /// The sender does not use the connection id of this number any more.
    RetireConnectionId(u64),
    /// Is to be answered with the same bytes.
    PathChallenge([u8; 8]),
    /// The bytes of a challenge.
    PathResponse([u8; 8]),
    /// QUIC ends the connection.
    ConnectionClose {
        /// Why.
        code: Code,
        /// Type of the frame that is to blame, or 0.
        frame_type: u64,
        /// Why, in words. To be shown with care: any bytes.
        reason: &'a [u8],
    },
    /// The application ends the connection.
    ApplicationClose {
        /// Why.
        code: u64,
        /// Why, in words. To be shown with care: any bytes.
        reason: &'a [u8],
    },
    /// The server has confirmed the handshake.
    HandshakeDone,
}

/// NEW_CONNECTION_ID, RFC 9000 section 19.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewConnectionId {
    /// The number of this id.
    pub sequence: u64,
    /// Ids with lower numbers are to be retired; at most `sequence`.
    pub retire_prior_to: u64,
    /// The id, not empty.
    pub id: ConnectionId,
    /// The token of stateless resets for it.
    pub reset_token: ResetToken,
}

impl Frame<'_> {
    /// Its type on the wire, without the bits of STREAM.
    #[must_use]
    pub(crate) const fn frame_type(&self) -> u64 {
        match self {
            Self::Padding(_) => types::PADDING,
            Self::Ping => types::PING,
            Self::Ack(_) => types::ACK,
            Self::ResetStream { .. } => types::RESET_STREAM,
            Self::StopSending { .. } => types::STOP_SENDING,
            Self::Crypto { .. } => types::CRYPTO,
            Self::NewToken(_) => types::NEW_TOKEN,
            Self::Stream { .. } => types::STREAM,
            Self::MaxData(_) => types::MAX_DATA,
            Self::MaxStreamData { .. } => types::MAX_STREAM_DATA,
            Self::MaxStreams {
                bidirectional: true,
                ..
            } => types::MAX_STREAMS_BIDI,
            Self::MaxStreams { .. } => types::MAX_STREAMS_UNI,
            Self::DataBlocked(_) => types::DATA_BLOCKED,
            Self::StreamDataBlocked { .. } => types::STREAM_DATA_BLOCKED,
            Self::StreamsBlocked {
                bidirectional: true,
                ..
            } => types::STREAMS_BLOCKED_BIDI,
            Self::StreamsBlocked { .. } => types::STREAMS_BLOCKED_UNI,
            Self::NewConnectionId(_) => types::NEW_CONNECTION_ID,
            Self::RetireConnectionId(_) => types::RETIRE_CONNECTION_ID,
            Self::PathChallenge(_) => types::PATH_CHALLENGE,
            Self::PathResponse(_) => types::PATH_RESPONSE,
            Self::ConnectionClose { .. } => types::CONNECTION_CLOSE,
            Self::ApplicationClose { .. } => types::APPLICATION_CLOSE,
            Self::HandshakeDone => types::HANDSHAKE_DONE,
        }
    }

    /// Whether a packet with it is to be acknowledged, RFC 9002 section 2.
    #[must_use]
    pub(crate) const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding(_)
                | Self::Ack(_)
                | Self::ConnectionClose { .. }
                | Self::ApplicationClose { .. }
        )
    }

    /// Whether a packet of such frames alone only probes a path, RFC 9000 section 9.1.
    #[must_use]
    pub(crate) const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding(_)
                | Self::PathChallenge(_)
                | Self::PathResponse(_)
                | Self::NewConnectionId(_)
        )
    }
}
