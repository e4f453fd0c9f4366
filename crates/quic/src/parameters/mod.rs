//! Transport parameters, RFC 9000 section 18.

mod early;
mod read;
mod version_information;
mod write;

#[cfg(test)]
mod tests;

use crate::reset::ResetToken;
use crate::{Code, ConnectionId, Error};
use std::net::{SocketAddrV4, SocketAddrV6};

#[cfg(test)]
use read::MAX_UNKNOWN;
pub(crate) use version_information::VersionInformation;

/// Smallest `max_udp_payload_size`, RFC 9000 section 18.2.
pub(crate) const MIN_UDP_PAYLOAD: u64 = 1200;

/// Numbers of parameters. RFC 9000 section 18.2; RFC 9368 section 3; RFC 9287 section 3.
mod ids {
    pub(super) const ORIGINAL_DESTINATION: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE: u64 = 0x0f;
    pub(super) const RETRY_SOURCE: u64 = 0x10;
    pub(super) const VERSION_INFORMATION: u64 = 0x11;
    pub(super) const GREASE_QUIC_BIT: u64 = 0x2ab2;
}

/// What an end tells the other about itself during the handshake.
///
/// `max_datagram_frame_size` (RFC 9221) is ignored and never sent: datagrams are not spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransportParameters {
    /// Destination of the client's first Initial packet. Servers send it always, clients never.
    pub original_destination: Option<ConnectionId>,
    /// Milliseconds without a packet after which the connection is forgotten; 0 for never.
    pub max_idle_timeout_ms: u64,
    /// Token of stateless resets for the id that the handshake used. From servers only.
    pub stateless_reset_token: Option<ResetToken>,
    /// Longest datagram that is read.
    pub max_udp_payload_size: u64,
    /// Limit of the bytes on all streams.
    pub initial_max_data: u64,
    /// Limit of the bytes on each bidirectional stream that the sender of this opens.
    pub initial_max_stream_data_bidi_local: u64,
    /// Limit of the bytes on each bidirectional stream that the receiver of this opens.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Limit of the bytes on each unidirectional stream.
    pub initial_max_stream_data_uni: u64,
    /// Limit of the number of bidirectional streams, at most 2^60.
    pub initial_max_streams_bidi: u64,
    /// Limit of the number of unidirectional streams, at most 2^60.
    pub initial_max_streams_uni: u64,
    /// Delays in ACK frames are in units of two to the power of this, in microseconds. At most 20.
    pub ack_delay_exponent: u8,
    /// Milliseconds that acknowledgements may wait, less than 2^14.
    pub max_ack_delay_ms: u16,
    /// The peer is not to migrate as long as it uses the address of the handshake.
    pub disable_active_migration: bool,
    /// Where a server would rather be reached. From servers only.
    pub preferred_address: Option<Box<PreferredAddress>>,
    /// How many connection ids of the peer are kept, at least 2.
    pub active_connection_id_limit: u64,
    /// Source of the first Initial packet that the sender of this sent. Always sent.
    pub initial_source: Option<ConnectionId>,
    /// Source of the Retry packet, if there was one. From servers only.
    pub retry_source: Option<ConnectionId>,
    /// The version in use and those that are spoken (RFC 9368).
    pub version_information: Option<VersionInformation>,
    /// Packets may come without the fixed bit (RFC 9287).
    pub grease_quic_bit: bool,
}

impl Default for TransportParameters {
    /// What holds for parameters that are not sent, RFC 9000 section 18.2.
    fn default() -> Self {
        Self {
            original_destination: None,
            max_idle_timeout_ms: 0,
            stateless_reset_token: None,
            max_udp_payload_size: 65_527,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: 3,
            max_ack_delay_ms: 25,
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: 2,
            initial_source: None,
            retry_source: None,
            version_information: None,
            grease_quic_bit: false,
        }
    }
}

/// Where a server would rather be reached, RFC 9000 section 9.6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreferredAddress {
    /// Its address of IPv4, if it has one.
    pub v4: Option<SocketAddrV4>,
    /// Its address of IPv6, if it has one.
    pub v6: Option<SocketAddrV6>,
    /// The connection id to use there, not empty. Its number is 1.
    pub id: ConnectionId,
    /// The token of stateless resets for it.
    pub reset_token: ResetToken,
}

impl TransportParameters {
    /// Checks a client's parameters against the source of its first Initial packet (RFC 9000
    /// section 7.3).
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if they are not the same.
    pub(crate) fn check_client_id(&self, initial_source: &ConnectionId) -> Result<(), Error> {
        check_id(self.initial_source.as_ref(), Some(initial_source))
    }

    /// Checks a server's parameters against the ids that the client has seen (RFC 9000 section
    /// 7.3): the destination of its very first packet, the source of the server's first Initial
    /// packet, and the source of the Retry packet, if there was one.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if they are not the same.
    pub(crate) fn check_server_ids(
        &self,
        original_destination: &ConnectionId,
        initial_source: &ConnectionId,
        retry_source: Option<&ConnectionId>,
    ) -> Result<(), Error> {
        check_id(
            self.original_destination.as_ref(),
            Some(original_destination),
        )?;
        check_id(self.initial_source.as_ref(), Some(initial_source))?;
        check_id(self.retry_source.as_ref(), retry_source)
    }
}

fn check_id(told: Option<&ConnectionId>, seen: Option<&ConnectionId>) -> Result<(), Error> {
    if told == seen {
        return Ok(());
    }
    Err(malformed("connection ids are not those of the packets"))
}

fn malformed(reason: &'static str) -> Error {
    Error::new(Code::TRANSPORT_PARAMETER_ERROR, reason)
}
