//! Writing of transport parameters.

use super::{PreferredAddress, TransportParameters, ids};
use crate::varint;
use std::net::{Ipv4Addr, Ipv6Addr};

impl TransportParameters {
    /// Appends those that are not as when they are not sent, and a reserved one with a number and a
    /// value out of `random`, so that peers do not forget to ignore unknown ones (RFC 9000 section
    /// 18.1).
    pub(crate) fn put(&self, out: &mut Vec<u8>, random: u64) {
        self.put_numbers(out);
        let ids = [
            (ids::ORIGINAL_DESTINATION, &self.original_destination),
            (ids::INITIAL_SOURCE, &self.initial_source),
            (ids::RETRY_SOURCE, &self.retry_source),
        ];
        for (id, connection_id) in ids {
            if let Some(connection_id) = connection_id {
                put_bytes(out, id, connection_id);
            }
        }
        if let Some(token) = &self.stateless_reset_token {
            put_bytes(out, ids::STATELESS_RESET_TOKEN, token.bytes());
        }
        if self.disable_active_migration {
            put_bytes(out, ids::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if self.grease_quic_bit {
            put_bytes(out, ids::GREASE_QUIC_BIT, &[]);
        }
        if let Some(address) = &self.preferred_address {
            put_preferred_address(out, address);
        }
        if let Some(information) = &self.version_information {
            varint::put(out, ids::VERSION_INFORMATION);
            information.put(out, random as u32);
        }
        let (id, value) = reserved(random);
        put_bytes(out, id, &value.to_be_bytes()[..random as usize % 9]);
    }

    fn put_numbers(&self, out: &mut Vec<u8>) {
        let unsent = Self::default();
        let numbers = [
            (ids::MAX_IDLE_TIMEOUT, self.max_idle_timeout_ms, 0),
            (
                ids::MAX_UDP_PAYLOAD_SIZE,
                self.max_udp_payload_size,
                unsent.max_udp_payload_size,
            ),
            (ids::INITIAL_MAX_DATA, self.initial_max_data, 0),
            (
                ids::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
                self.initial_max_stream_data_bidi_local,
                0,
            ),
            (
                ids::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
                self.initial_max_stream_data_bidi_remote,
                0,
            ),
            (
                ids::INITIAL_MAX_STREAM_DATA_UNI,
                self.initial_max_stream_data_uni,
                0,
            ),
            (
                ids::INITIAL_MAX_STREAMS_BIDI,
                self.initial_max_streams_bidi,
                0,
            ),
            (
                ids::INITIAL_MAX_STREAMS_UNI,
                self.initial_max_streams_uni,
                0,
            ),
            (
                ids::ACK_DELAY_EXPONENT,
                self.ack_delay_exponent.into(),
                unsent.ack_delay_exponent.into(),
            ),
            (
                ids::MAX_ACK_DELAY,
                self.max_ack_delay_ms.into(),
                unsent.max_ack_delay_ms.into(),
            ),
            (
                ids::ACTIVE_CONNECTION_ID_LIMIT,
                self.active_connection_id_limit,
                unsent.active_connection_id_limit,
            ),
        ];
        for (id, value, unsent) in numbers {
            if value != unsent {
                varint::put(out, id);
                varint::put(out, varint::len(value) as u64);
                varint::put(out, value);
            }
        }
    }
}

/// A reserved parameter (31 * N + 27) and its value. N is small: nginx reads no more than 16 bits
/// of a number, and would take some of the larger ones for others.
fn reserved(random: u64) -> (u64, u64) {
    let n = random >> 32 & 0x7ff;
    (31 * n + 27, random.rotate_left(17))
}

fn put_bytes(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    varint::put(out, id);
    varint::put(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn put_preferred_address(out: &mut Vec<u8>, address: &PreferredAddress) {
    let v4 = address.v4.map(|v4| (*v4.ip(), v4.port()));
    let v6 = address.v6.map(|v6| (*v6.ip(), v6.port()));
    let (v4_address, v4_port) = v4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let (v6_address, v6_port) = v6.unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
    varint::put(out, ids::PREFERRED_ADDRESS);
    varint::put(out, (4 + 2 + 16 + 2 + 1 + address.id.len() + 16) as u64);
    out.extend_from_slice(&v4_address.octets());
    out.extend_from_slice(&v4_port.to_be_bytes());
    out.extend_from_slice(&v6_address.octets());
    out.extend_from_slice(&v6_port.to_be_bytes());
    out.push(address.id.len() as u8);
    out.extend_from_slice(&address.id);
    out.extend_from_slice(address.reset_token.bytes());
}
