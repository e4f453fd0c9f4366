//! What each end allows the other.

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
