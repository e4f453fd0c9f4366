//! Handshake messages of one encryption level, RFC 9000 section 7.5.

use crate::Error;

/// The stream of CRYPTO frames of one encryption level.
pub(crate) struct CryptoStream {}

impl CryptoStream {
    /// Nothing sent, nothing received.
    pub(crate) fn new() -> Self {
        unimplemented!()
    }

    /// CRYPTO. Returns whether there is something to [`CryptoStream::read`].
    ///
    /// # Errors
    ///
    /// CRYPTO_BUFFER_EXCEEDED if more would have to be kept than is allowed, FRAME_ENCODING_ERROR if
    /// the stream would be too long.
    pub(crate) fn on_crypto(&mut self, _offset: u64, _data: &[u8]) -> Result<bool, Error> {
        unimplemented!()
    }

    /// Offers `sink` what has arrived in order, piece by piece, until it takes less than a piece.
    pub(crate) fn read(&mut self, _sink: &mut dyn FnMut(&[u8]) -> usize) {
        unimplemented!()
    }

    /// Bytes that are to be sent.
    pub(crate) fn push(&mut self, _bytes: &[u8]) {
        unimplemented!()
    }

    /// Whether [`CryptoStream::next_range`] has something.
    pub(crate) fn has_pending(&self) -> bool {
        unimplemented!()
    }

    /// Offset and bytes of the next CRYPTO frame, which takes at most `room` bytes with its type,
    /// offset and length. They count as sent. `None` if there are none or if they do not fit.
    pub(crate) fn next_range(&mut self, _room: usize) -> Option<(u64, &[u8])> {
        unimplemented!()
    }

    /// The peer has got these bytes.
    pub(crate) fn on_acked(&mut self, _offset: u64, _len: u64) {
        unimplemented!()
    }

    /// These bytes are lost, or wanted for a probe.
    pub(crate) fn on_lost(&mut self, _offset: u64, _len: u64) {
        unimplemented!()
    }

    /// All that was sent is sent again: a Retry came, or another version was chosen.
    pub(crate) fn restart_sending(&mut self) {
        unimplemented!()
    }

    /// Whether all that was pushed has arrived.
    pub(crate) fn is_all_acked(&self) -> bool {
        unimplemented!()
    }
}
