//! What each end allows the other.

use super::{Direction, StreamId};
use crate::Side;

/// Most streams of one direction that a peer may have open at a time, whatever the settings say: a
/// frame for the last of them opens all.
pub(crate) const MAX_OPEN_STREAMS: u64 = 1 << 16;

/// What we allow the peer, and announce in our transport parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of all streams that may arrive before the owner has consumed any
    /// (`initial_max_data`).
    pub max_data: u64,
    /// The same for each bidirectional stream that we open
    /// (`initial_max_stream_data_bidi_local`).
    pub max_stream_data_bidi_local: u64,
    /// The same for each bidirectional stream that the peer opens
    /// (`initial_max_stream_data_bidi_remote`).
    pub max_stream_data_bidi_remote: u64,
    /// The same for each unidirectional stream that the peer opens
    /// (`initial_max_stream_data_uni`).
    pub max_stream_data_uni: u64,
    /// Bidirectional streams that the peer may have open at a time (`initial_max_streams_bidi`),
    /// at most 65,536.
    pub max_streams_bidi: u64,
    /// Unidirectional streams that the peer may have open at a time (`initial_max_streams_uni`), at
    /// most 65,536.
    pub max_streams_uni: u64,
    /// Up to where the window of the connection grows while the owner consumes a window within two
    /// round trips. No more than `max_data`: it does not grow.
    pub max_window: u64,
    /// The same for the window of each stream.
    pub max_stream_window: u64,
}

impl Settings {
    /// Streams of this direction that the peer may have open at a time, as it is to be announced.
    pub(crate) fn max_streams(&self, direction: Direction) -> u64 {
        let streams = match direction {
            Direction::Bidirectional => self.max_streams_bidi,
            Direction::Unidirectional => self.max_streams_uni,
        };
        streams.min(MAX_OPEN_STREAMS)
    }

    /// First window of a stream on which the peer sends, at the end that is `side`.
    pub(super) fn max_stream_data(&self, side: Side, id: StreamId) -> u64 {
        match id.direction() {
            Direction::Unidirectional => self.max_stream_data_uni,
            Direction::Bidirectional if id.initiator() == side => self.max_stream_data_bidi_local,
            Direction::Bidirectional => self.max_stream_data_bidi_remote,
        }
    }
}

/// What the peer allows us, as its transport parameters say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// `initial_max_data`.
    pub max_data: u64,
    /// `initial_max_stream_data_bidi_local`: for the streams that the peer opens.
    pub max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`: for the streams that we open.
    pub max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`.
    pub max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub max_streams_uni: u64,
}

impl PeerLimits {
    /// Whether none is lower than in `remembered`, RFC 9000 section 7.4.1.
    pub(super) fn reach(&self, remembered: &Self) -> bool {
        let all = |limits: &Self| {
            [
                limits.max_data,
                limits.max_stream_data_bidi_local,
                limits.max_stream_data_bidi_remote,
                limits.max_stream_data_uni,
                limits.max_streams_bidi,
                limits.max_streams_uni,
            ]
        };
        all(self).iter().zip(all(remembered)).all(|(a, b)| *a >= b)
    }

    /// How many streams of this direction we may open.
    pub(super) fn max_streams(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Bidirectional => self.max_streams_bidi,
            Direction::Unidirectional => self.max_streams_uni,
        }
    }

    /// How much we may send on a new stream, at the end that is `side`.
    pub(super) fn max_stream_data(&self, side: Side, id: StreamId) -> u64 {
        match id.direction() {
            Direction::Unidirectional => self.max_stream_data_uni,
            Direction::Bidirectional if id.initiator() == side => self.max_stream_data_bidi_remote,
            Direction::Bidirectional => self.max_stream_data_bidi_local,
        }
    }
}
