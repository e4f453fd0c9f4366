//! What 0-RTT data was sent by, RFC 9000 section 7.4.1.

use super::TransportParameters;
use crate::varint;

impl TransportParameters {
    /// Appends the limits of a server that its clients remember for 0-RTT data, to be kept with a
    /// ticket. Equal ones are equal bytes: with others, the server does not accept the early data.
    pub(crate) fn put_early_limits(&self, out: &mut Vec<u8>) {
        for limit in [
            self.active_connection_id_limit,
            self.initial_max_data,
            self.initial_max_stream_data_bidi_local,
            self.initial_max_stream_data_bidi_remote,
            self.initial_max_stream_data_uni,
            self.initial_max_streams_bidi,
            self.initial_max_streams_uni,
        ] {
            varint::put(out, limit);
        }
    }
}
