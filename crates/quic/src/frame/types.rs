//! Types of frames on the wire, RFC 9000 table 3.

use crate::packet::PacketType;
use crate::{Code, Error, Side};

pub(super) const PADDING: u64 = 0x00;
pub(super) const PING: u64 = 0x01;
pub(super) const ACK: u64 = 0x02;
pub(super) const ACK_ECN: u64 = 0x03;
pub(super) const RESET_STREAM: u64 = 0x04;
pub(super) const STOP_SENDING: u64 = 0x05;
pub(super) const CRYPTO: u64 = 0x06;
pub(super) const NEW_TOKEN: u64 = 0x07;
pub(super) const STREAM: u64 = 0x08;
pub(super) const MAX_DATA: u64 = 0x10;
pub(super) const MAX_STREAM_DATA: u64 = 0x11;
pub(super) const MAX_STREAMS_BIDI: u64 = 0x12;
pub(super) const MAX_STREAMS_UNI: u64 = 0x13;
pub(super) const DATA_BLOCKED: u64 = 0x14;
pub(super) const STREAM_DATA_BLOCKED: u64 = 0x15;
pub(super) const STREAMS_BLOCKED_BIDI: u64 = 0x16;
pub(super) const STREAMS_BLOCKED_UNI: u64 = 0x17;
pub(super) const NEW_CONNECTION_ID: u64 = 0x18;
pub(super) const RETIRE_CONNECTION_ID: u64 = 0x19;
pub(super) const PATH_CHALLENGE: u64 = 0x1a;
pub(super) const PATH_RESPONSE: u64 = 0x1b;
pub(super) const CONNECTION_CLOSE: u64 = 0x1c;
pub(super) const APPLICATION_CLOSE: u64 = 0x1d;
pub(super) const HANDSHAKE_DONE: u64 = 0x1e;
/// DATAGRAM frames, RFC 9221 section 4.
pub(super) const DATAGRAM: u64 = 0x30;
pub(super) const DATAGRAM_WITH_LENGTH: u64 = 0x31;

/// Bits of the type of a STREAM frame, RFC 9000 section 19.8.
pub(super) const STREAM_FIN: u64 = 0x01;
pub(super) const STREAM_LEN: u64 = 0x02;
pub(super) const STREAM_OFF: u64 = 0x04;

/// Whether frames of this type are allowed where this one came.
///
/// # Errors
/// PROTOCOL_VIOLATION for the wrong type of packet (RFC 9000 sections 12.4 and 12.5), for frames
/// that only servers send (sections 19.7 and 19.20), and for datagrams, which are never negotiated
/// (RFC 9221 section 3). FRAME_ENCODING_ERROR for unknown types (section 12.4).
pub(super) fn check(frame_type: u64, packet: PacketType, receiver: Side) -> Result<(), Error> {
    use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
    let is_allowed = match frame_type {
        PADDING | PING | CONNECTION_CLOSE => true,
        ACK | ACK_ECN | CRYPTO => matches!(packet, Initial | Handshake | OneRtt),
        NEW_TOKEN | HANDSHAKE_DONE => {
            if receiver == Side::Server {
                let reason = "a frame that only servers send";
                return Err(Error::new(Code::PROTOCOL_VIOLATION, reason).in_frame(frame_type));
            }
            packet == OneRtt
        }
        PATH_RESPONSE | RETIRE_CONNECTION_ID => packet == OneRtt,
        RESET_STREAM..=APPLICATION_CLOSE => matches!(packet, ZeroRtt | OneRtt),
        DATAGRAM | DATAGRAM_WITH_LENGTH => {
            let reason = "datagrams were not negotiated";
            return Err(Error::new(Code::PROTOCOL_VIOLATION, reason).in_frame(frame_type));
        }
        _ => {
            let reason = "a frame of an unknown type";
            return Err(Error::new(Code::FRAME_ENCODING_ERROR, reason).in_frame(frame_type));
        }
    };
    if is_allowed {
        return Ok(());
    }
    let reason = "a frame in a packet that may not have it";
    Err(Error::new(Code::PROTOCOL_VIOLATION, reason).in_frame(frame_type))
}
