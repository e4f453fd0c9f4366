//! What a packet carried, as far as it matters when it is acknowledged or lost.

/// Something that a packet carried. Recovery keeps it and does not look into it.
///
/// Values are not kept: a limit that is sent again is sent with its newest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A range of the TLS handshake of the packet's space.
    Crypto { offset: u64, len: u16 },
    /// A range of a stream.
    Stream {
        id: u64,
        offset: u64,
        len: u16,
        fin: bool,
    },
    /// An ACK frame up to this packet number of the peer's.
    Ack { largest: u64 },
    /// MAX_DATA.
    MaxData,
    /// MAX_STREAM_DATA of a stream.
    MaxStreamData(u64),
    /// MAX_STREAMS.
    MaxStreams { bidi: bool },
    /// RESET_STREAM of a stream.
    ResetStream(u64),
    /// STOP_SENDING of a stream.
    StopSending(u64),
    /// NEW_CONNECTION_ID with this sequence number.
    NewConnectionId(u64),
    /// RETIRE_CONNECTION_ID with this sequence number.
    RetireConnectionId(u64),
    /// NEW_TOKEN.
    NewToken,
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// PATH_CHALLENGE. Its loss is for information: a new one has other data.
    PathChallenge,
    /// PATH_RESPONSE. It is never sent again, RFC 9000 section 13.3.
    PathResponse,
    /// DATA_BLOCKED.
    DataBlocked,
    /// STREAM_DATA_BLOCKED of a stream.
    StreamDataBlocked(u64),
    /// STREAMS_BLOCKED.
    StreamsBlocked { bidi: bool },
    /// PING. It is never sent again.
    Ping,
}

/// What became of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The peer has it. Told at most once, and not after `Lost`.
    Acked,
    /// It has to be sent again if it is still of use. Told at most once, and not after `Acked`.
    Lost,
    /// A probe should carry it again, though it is not lost. `Acked` or `Lost` may follow.
    Probe,
}

#[cfg(test)]
mod tests {
    #[test]
    fn items_are_small() {
        assert!(size_of::<super::Item>() <= 24);
    }
}
