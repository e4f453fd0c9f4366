//! What a packet carried, as far as it matters when it is acknowledged or lost.

use crate::Space;
use crate::streams::Sent;

/// Something that a packet carried. Recovery keeps it and does not look into it.
///
/// Values are not kept: a limit that is sent again is sent with its newest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A range of the TLS handshake of a space.
    Crypto { space: Space, offset: u64, len: u16 },
    /// A frame of a stream, or about all of them.
    Streams(Sent),
    /// An ACK frame for a space up to this packet number of the peer's.
    Ack { space: Space, largest: u64 },
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
