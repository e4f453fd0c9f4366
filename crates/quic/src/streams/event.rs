//! What the owner of the streams is told.

use super::{Direction, StreamId};

/// Something that happened to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opened a stream. These come in the order of the ids of each direction.
    Opened {
        /// The stream.
        id: StreamId,
    },
    /// There are bytes, or the end, to read. It comes again when more has arrived.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// The peer sends no more of this stream (RESET_STREAM). What had not been read is gone.
    Reset {
        /// The stream.
        id: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// The peer reads no more of this stream (STOP_SENDING). It has been reset with the same
    /// reason: nothing that was written is needed any more.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The application's reason.
        code: u64,
    },
    /// All bytes before this offset have arrived: the owner need not keep them.
    Acknowledged {
        /// The stream.
        id: StreamId,
        /// The offset.
        up_to: u64,
    },
    /// The stream is over in both directions, and forgotten. It is the last event of a stream, and
    /// stands for [`Event::Acknowledged`] of all that was written.
    Closed {
        /// The stream.
        id: StreamId,
    },
    /// More streams may be opened than before.
    Available {
        /// In this direction.
        direction: Direction,
    },
}
