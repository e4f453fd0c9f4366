//! What 0-RTT data was sent by, RFC 9000 section 7.4.1.

use super::TransportParameters;
use crate::reader::Reader;
use crate::varint;

/// The limits of a server that its clients remember for 0-RTT data.
///
/// Tickets are bound to them: a server that has lower ones now does not accept the early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyLimits {
    /// How many connection ids the server keeps.
    pub active_connection_id_limit: u64,
    /// Limit of the bytes on all streams.
    pub max_data: u64,
    /// Limit of the bytes on each bidirectional stream that the server opens.
    pub max_stream_data_bidi_local: u64,
    /// Limit of the bytes on each bidirectional stream that the client opens.
    pub max_stream_data_bidi_remote: u64,
    /// Limit of the bytes on each unidirectional stream.
    pub max_stream_data_uni: u64,
    /// Limit of the number of bidirectional streams.
    pub max_streams_bidi: u64,
    /// Limit of the number of unidirectional streams.
    pub max_streams_uni: u64,
}

impl EarlyLimits {
    /// Most bytes that [`EarlyLimits::put`] appends.
    pub(crate) const MAX_LEN: usize = 7 * 8;

    /// Appends them, to be kept with a ticket. Equal ones are equal bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for limit in self.all() {
            varint::put(out, limit);
        }
    }

    /// Those that were kept, or `None` if the bytes are something else.
    #[must_use]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let limits = Self {
            active_connection_id_limit: reader.varint()?,
            max_data: reader.varint()?,
            max_stream_data_bidi_local: reader.varint()?,
            max_stream_data_bidi_remote: reader.varint()?,
            max_stream_data_uni: reader.varint()?,
            max_streams_bidi: reader.varint()?,
            max_streams_uni: reader.varint()?,
        };
        reader.is_empty().then_some(limits)
    }

    const fn all(&self) -> [u64; 7] {
        [
            self.active_connection_id_limit,
            self.max_data,
            self.max_stream_data_bidi_local,
            self.max_stream_data_bidi_remote,
            self.max_stream_data_uni,
            self.max_streams_bidi,
            self.max_streams_uni,
        ]
    }
}

impl TransportParameters {
    /// What is to be remembered of a server's parameters for 0-RTT data.
    #[must_use]
    pub(crate) const fn early_limits(&self) -> EarlyLimits {
        EarlyLimits {
            active_connection_id_limit: self.active_connection_id_limit,
            max_data: self.initial_max_data,
            max_stream_data_bidi_local: self.initial_max_stream_data_bidi_local,
            max_stream_data_bidi_remote: self.initial_max_stream_data_bidi_remote,
            max_stream_data_uni: self.initial_max_stream_data_uni,
            max_streams_bidi: self.initial_max_streams_bidi,
            max_streams_uni: self.initial_max_streams_uni,
        }
    }

    /// Whether a server with these parameters may accept 0-RTT data that was sent by `remembered`
    /// limits: none is lower. A client closes the connection with PROTOCOL_VIOLATION if a server
    /// accepted nevertheless.
    #[must_use]
    pub(crate) fn permits_early_data_of(&self, remembered: &EarlyLimits) -> bool {
        let now = self.early_limits().all();
        now.iter()
            .zip(remembered.all())
            .all(|(now, before)| *now >= before)
    }
}
