//! What connections may do, and how they are configured.

use crate::parameters::{PreferredAddress, TransportParameters, VersionInformation};
use crate::recovery::{self, AckPolicy};
use crate::{Algorithm, ConnectionId, Version, streams};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

/// Settings of connections. Those of a server share one.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// Windows, and how many streams the peer may open.
    pub streams: streams::Settings,
    /// The congestion control algorithm.
    pub congestion_control: Algorithm,
    /// Without a packet for so long, the connection is forgotten (`max_idle_timeout`).
    pub max_idle_timeout: Duration,
    /// How many connection ids of the peer are kept (`active_connection_id_limit`), at least 2.
    pub active_connection_id_limit: u64,
    /// Longest datagram that is received (`max_udp_payload_size`), at least 1,200 bytes.
    pub max_udp_payload_size: u16,
    /// Longest datagram that is sent, if the path carries it: what the interface takes.
    pub max_datagram_size: u16,
    /// Whether datagrams of more than 1,200 bytes are tried.
    pub mtu_discovery: bool,
    /// Whether datagrams are marked as capable of ECN.
    pub ecn: bool,
    /// The versions that are spoken, the preferred one first.
    pub versions: Vec<Version>,
    /// What of the application's settings clients remember with a ticket for their early data.
    /// Empty if none is taken.
    pub early_data_context: Vec<u8>,
    /// Whether the peer may move to another address.
    pub migration: bool,
    /// Where clients would better reach the server once the handshake is over.
    pub preferred_v4: Option<SocketAddrV4>,
    /// The same for IPv6.
    pub preferred_v6: Option<SocketAddrV6>,
}

/// Units of the delay in ACK frames: 8 microseconds, as is the default.
pub(super) const ACK_DELAY_EXPONENT: u8 = 3;

impl ConnectionSettings {
    /// How paths behave.
    pub(super) fn recovery(&self) -> recovery::Settings {
        recovery::Settings {
            algorithm: self.congestion_control,
            ecn: self.ecn,
            mtu_discovery: self.mtu_discovery,
            ..recovery::Settings::default()
        }
    }

    /// Whether there is a preferred address.
    pub(super) fn has_preferred_address(&self) -> bool {
        self.preferred_v4.is_some() || self.preferred_v6.is_some()
    }

    /// Whether this is a preferred address.
    pub(super) fn is_preferred(&self, address: SocketAddr) -> bool {
        match address {
            SocketAddr::V4(address) => self.preferred_v4 == Some(address),
            SocketAddr::V6(address) => self.preferred_v6.is_some_and(|preferred| {
                preferred.ip() == address.ip() && preferred.port() == address.port()
            }),
        }
    }

    /// The transport parameter, for this id and its reset token.
    pub(super) fn preferred_address(
        &self,
        id: ConnectionId,
        reset_token: crate::reset::ResetToken,
    ) -> Option<Box<PreferredAddress>> {
        self.has_preferred_address().then(|| {
            Box::new(PreferredAddress {
                v4: self.preferred_v4,
                v6: self.preferred_v6,
                id,
                reset_token,
            })
        })
    }

    /// The transport parameters, without those that are of one connection only.
    pub(super) fn parameters(&self, version: Version) -> TransportParameters {
        let streams = &self.streams;
        TransportParameters {
            max_idle_timeout_ms: u64::try_from(self.max_idle_timeout.as_millis())
                .unwrap_or(u64::MAX)
                .min(crate::varint::MAX),
            max_udp_payload_size: self.max_udp_payload_size.into(),
            initial_max_data: streams.max_data,
            initial_max_stream_data_bidi_local: streams.max_stream_data_bidi_local,
            initial_max_stream_data_bidi_remote: streams.max_stream_data_bidi_remote,
            initial_max_stream_data_uni: streams.max_stream_data_uni,
            initial_max_streams_bidi: streams.max_streams(crate::Direction::Bidirectional),
            initial_max_streams_uni: streams.max_streams(crate::Direction::Unidirectional),
            ack_delay_exponent: ACK_DELAY_EXPONENT,
            max_ack_delay_ms: u16::try_from(AckPolicy::default().max_ack_delay.as_millis())
                .unwrap_or(25),
            disable_active_migration: !self.migration,
            active_connection_id_limit: self.active_connection_id_limit,
            version_information: Some(VersionInformation::new(version, &self.versions)),
            grease_quic_bit: true,
            ..TransportParameters::default()
        }
    }
}
