//! Reading of transport parameters.

use super::{MIN_UDP_PAYLOAD, PreferredAddress, TransportParameters, VersionInformation};
use super::{ids, malformed};
use crate::reader::Reader;
use crate::reset::ResetToken;
use crate::{ConnectionId, Error, Side};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

/// Most unknown parameters that are compared to find one that came twice. Peers send a few for
/// greasing; the time for comparing grows with the square.
pub(crate) const MAX_UNKNOWN: usize = 32;

/// Most streams of a type, RFC 9000 section 4.6.
const MAX_STREAMS: u64 = 1 << 60;

/// What has been read already.
#[derive(Default)]
struct Seen {
    /// A bit for each known parameter below 64.
    known: u64,
    unknown: [u64; MAX_UNKNOWN],
    unknown_count: usize,
}

impl Seen {
    /// Whether this is the first of its number, as far as is remembered.
    fn is_first(&mut self, id: u64) -> bool {
        if id < 64 {
            let is_first = self.known & 1 << id == 0;
            self.known |= 1 << id;
            return is_first;
        }
        if self.unknown_count == MAX_UNKNOWN {
            return true;
        }
        let is_first = !self.unknown[..self.unknown_count].contains(&id);
        self.unknown[self.unknown_count] = id;
        self.unknown_count += 1;
        is_first
    }
}

impl TransportParameters {
    /// Reads what `sender` sent.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR for what is malformed, out of range, there twice (RFC 9000 section
    /// 7.4), or not for clients to send (section 18.2).
    pub(crate) fn parse(bytes: &[u8], sender: Side) -> Result<Self, Error> {
        let mut parameters = Self::default();
        let mut seen = Seen::default();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (id, value) = reader
                .varint()
                .zip(reader.prefixed())
                .ok_or_else(|| malformed("transport parameters are cut short"))?;
            if sender == Side::Client && is_for_servers(id) {
                return Err(malformed("a parameter that only servers send"));
            }
            if id == ids::GREASE_QUIC_BIT {
                // Its number is too large for a bit, and it must not be pushed out by unknown ones.
                if parameters.grease_quic_bit {
                    return Err(malformed("a transport parameter came twice"));
                }
            } else if !seen.is_first(id) {
                return Err(malformed("a transport parameter came twice"));
            }
            parameters.set(id, value, sender)?;
        }
        Ok(parameters)
    }

    fn set(&mut self, id: u64, value: &[u8], sender: Side) -> Result<(), Error> {
        match id {
            ids::ORIGINAL_DESTINATION => self.original_destination = Some(connection_id(value)?),
            ids::INITIAL_SOURCE => self.initial_source = Some(connection_id(value)?),
            ids::RETRY_SOURCE => self.retry_source = Some(connection_id(value)?),
            ids::STATELESS_RESET_TOKEN => {
                let token = value
                    .try_into()
                    .map_err(|_| malformed("a stateless reset token of another length"))?;
                self.stateless_reset_token = Some(ResetToken::new(token));
            }
            ids::DISABLE_ACTIVE_MIGRATION => self.disable_active_migration = flag(value)?,
            ids::GREASE_QUIC_BIT => self.grease_quic_bit = flag(value)?,
            ids::PREFERRED_ADDRESS => {
                let address = preferred_address(value)
                    .ok_or_else(|| malformed("a malformed preferred address"))?;
                self.preferred_address = Some(Box::new(address));
            }
            ids::VERSION_INFORMATION => {
                self.version_information = Some(VersionInformation::parse(value, sender)?);
            }
            _ => self.set_number(id, value)?,
        }
        Ok(())
    }

    fn set_number(&mut self, id: u64, value: &[u8]) -> Result<(), Error> {
        let place = match id {
            ids::MAX_IDLE_TIMEOUT => &mut self.max_idle_timeout_ms,
            ids::MAX_UDP_PAYLOAD_SIZE => {
                self.max_udp_payload_size = number(value, MIN_UDP_PAYLOAD, u64::MAX)?;
                return Ok(());
            }
            ids::INITIAL_MAX_DATA => &mut self.initial_max_data,
            ids::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => &mut self.initial_max_stream_data_bidi_local,
            ids::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                &mut self.initial_max_stream_data_bidi_remote
            }
            ids::INITIAL_MAX_STREAM_DATA_UNI => &mut self.initial_max_stream_data_uni,
            ids::INITIAL_MAX_STREAMS_BIDI => {
                self.initial_max_streams_bidi = number(value, 0, MAX_STREAMS)?;
                return Ok(());
            }
            ids::INITIAL_MAX_STREAMS_UNI => {
                self.initial_max_streams_uni = number(value, 0, MAX_STREAMS)?;
                return Ok(());
            }
            ids::ACK_DELAY_EXPONENT => {
                self.ack_delay_exponent = number(value, 0, 20)? as u8;
                return Ok(());
            }
            ids::MAX_ACK_DELAY => {
                self.max_ack_delay_ms = number(value, 0, (1 << 14) - 1)? as u16;
                return Ok(());
            }
            ids::ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_connection_id_limit = number(value, 2, u64::MAX)?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        *place = number(value, 0, u64::MAX)?;
        Ok(())
    }
}

const fn is_for_servers(id: u64) -> bool {
    matches!(
        id,
        ids::ORIGINAL_DESTINATION
            | ids::STATELESS_RESET_TOKEN
            | ids::PREFERRED_ADDRESS
            | ids::RETRY_SOURCE
    )
}

fn number(value: &[u8], least: u64, most: u64) -> Result<u64, Error> {
    let mut reader = Reader::new(value);
    let number = reader.varint().filter(|_| reader.is_empty());
    let number = number.ok_or_else(|| malformed("a parameter that is not a number"))?;
    if !(least..=most).contains(&number) {
        return Err(malformed("a number that is out of range"));
    }
    Ok(number)
}

fn flag(value: &[u8]) -> Result<bool, Error> {
    if !value.is_empty() {
        return Err(malformed("a parameter that has to be empty is not"));
    }
    Ok(true)
}

fn connection_id(value: &[u8]) -> Result<ConnectionId, Error> {
    ConnectionId::new(value).ok_or_else(|| malformed("a connection id of more than 20 bytes"))
}

/// An address or port of 0 says that there is none of this family, RFC 9000 section 18.2.
fn preferred_address(value: &[u8]) -> Option<PreferredAddress> {
    let mut reader = Reader::new(value);
    let v4_address = Ipv4Addr::from(reader.array()?);
    let v4_port = u16::from_be_bytes(reader.array()?);
    let v6_address = Ipv6Addr::from(reader.array::<16>()?);
    let v6_port = u16::from_be_bytes(reader.array()?);
    let id = ConnectionId::new(reader.prefixed_by_byte()?)?;
    let reset_token = ResetToken::new(reader.array()?);
    let has_v4 = !v4_address.is_unspecified() && v4_port != 0;
    let has_v6 = !v6_address.is_unspecified() && v6_port != 0;
    (reader.is_empty() && !id.is_empty()).then_some(PreferredAddress {
        v4: has_v4.then_some(SocketAddrV4::new(v4_address, v4_port)),
        v6: has_v6.then_some(SocketAddrV6::new(v6_address, v6_port, 0, 0)),
        id,
        reset_token,
    })
}
