//! Reading of frames.

use super::{Ack, Frame, NewConnectionId, types};
use crate::packet::PacketType;
use crate::reader::Reader;
use crate::reset::ResetToken;
use crate::{Code, ConnectionId, Error, Side, varint};

/// Most streams of a type that can ever be opened, RFC 9000 section 4.6.
const MAX_STREAMS: u64 = 1 << 60;

/// The frames of a packet, in order. It ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Frames<'a> {
    rest: Reader<'a>,
    packet_type: PacketType,
    receiver: Side,
    /// Nothing was read yet: that there is nothing then is an error.
    is_untouched: bool,
}

impl<'a> Frames<'a> {
    /// The frames in the payload of a packet of this type that came to `receiver`.
    #[must_use]
    pub(crate) const fn new(payload: &'a [u8], packet_type: PacketType, receiver: Side) -> Self {
        Self {
            rest: Reader::new(payload),
            packet_type,
            receiver,
            is_untouched: true,
        }
    }

    fn read(&mut self) -> Result<Frame<'a>, Error> {
        let before = self.rest.len();
        let frame_type = self.rest.varint().ok_or_else(|| {
            Error::new(
                Code::FRAME_ENCODING_ERROR,
                "the type of a frame is cut short",
            )
        })?;
        if before - self.rest.len() != varint::len(frame_type) {
            let reason = "the type of a frame is longer than it has to be";
            return Err(Error::new(Code::PROTOCOL_VIOLATION, reason).in_frame(frame_type));
        }
        types::check(frame_type, self.packet_type, self.receiver)?;
        if frame_type & !0x07 == types::STREAM {
            read_stream(&mut self.rest, frame_type)
        } else {
            read_body(&mut self.rest, frame_type)
        }
        .ok_or_else(|| {
            Error::new(Code::FRAME_ENCODING_ERROR, "a malformed frame").in_frame(frame_type)
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            if !self.is_untouched {
                return None;
            }
            self.is_untouched = false;
            // RFC 9000 section 12.4.
            let reason = "a packet without frames";
            return Some(Err(Error::new(Code::PROTOCOL_VIOLATION, reason)));
        }
        self.is_untouched = false;
        let frame = self.read();
        if frame.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(frame)
    }
}

/// Where `len` bytes from `offset` on end, if that has at most 62 bits (RFC 9000 sections 19.6 and
/// 19.8).
fn end_is_allowed(offset: u64, len: usize) -> bool {
    u64::try_from(len)
        .ok()
        .and_then(|len| offset.checked_add(len))
        .is_some_and(|end| end <= varint::MAX)
}

fn read_stream<'a>(reader: &mut Reader<'a>, frame_type: u64) -> Option<Frame<'a>> {
    let id = reader.varint()?;
    let offset = match frame_type & types::STREAM_OFF {
        0 => 0,
        _ => reader.varint()?,
    };
    let data = match frame_type & types::STREAM_LEN {
        0 => reader.take(reader.len())?,
        _ => reader.prefixed()?,
    };
    end_is_allowed(offset, data.len()).then_some(Frame::Stream {
        id,
        offset,
        data,
        fin: frame_type & types::STREAM_FIN != 0,
    })
}

/// Reads what comes behind a type that is allowed and not STREAM.
fn read_body<'a>(reader: &mut Reader<'a>, frame_type: u64) -> Option<Frame<'a>> {
    Some(match frame_type {
        types::PADDING => {
            let rest = reader.rest();
            let more = rest
                .iter()
                .position(|&byte| byte != 0)
                .unwrap_or(rest.len());
            reader.take(more)?;
            Frame::Padding(1 + more)
        }
        types::PING => Frame::Ping,
        types::ACK | types::ACK_ECN => Frame::Ack(Ack::read(reader, frame_type == types::ACK_ECN)?),
        types::CRYPTO => {
            let offset = reader.varint()?;
            let data = reader.prefixed()?;
            if !end_is_allowed(offset, data.len()) {
                return None;
            }
            Frame::Crypto { offset, data }
        }
        types::NEW_TOKEN => match reader.prefixed()? {
            [] => return None,
            token => Frame::NewToken(token),
        },
        types::NEW_CONNECTION_ID => Frame::NewConnectionId(read_new_connection_id(reader)?),
        types::RETIRE_CONNECTION_ID => Frame::RetireConnectionId(reader.varint()?),
        types::PATH_CHALLENGE => Frame::PathChallenge(reader.array()?),
        types::PATH_RESPONSE => Frame::PathResponse(reader.array()?),
        types::CONNECTION_CLOSE => Frame::ConnectionClose {
            code: Code::from_wire(reader.varint()?),
            frame_type: reader.varint()?,
            reason: reader.prefixed()?,
        },
        types::APPLICATION_CLOSE => Frame::ApplicationClose {
            code: reader.varint()?,
            reason: reader.prefixed()?,
        },
        types::HANDSHAKE_DONE => Frame::HandshakeDone,
        _ => return read_of_streams(reader, frame_type),
    })
}

/// Reads what is about streams and limits.
fn read_of_streams<'a>(reader: &mut Reader<'_>, frame_type: u64) -> Option<Frame<'a>> {
    Some(match frame_type {
        types::RESET_STREAM => Frame::ResetStream {
            id: reader.varint()?,
            code: reader.varint()?,
            final_size: reader.varint()?,
        },
        types::STOP_SENDING => Frame::StopSending {
            id: reader.varint()?,
            code: reader.varint()?,
        },
        types::MAX_DATA => Frame::MaxData(reader.varint()?),
        types::MAX_STREAM_DATA => Frame::MaxStreamData {
            id: reader.varint()?,
            limit: reader.varint()?,
        },
        types::MAX_STREAMS_BIDI | types::MAX_STREAMS_UNI => Frame::MaxStreams {
            bidirectional: frame_type == types::MAX_STREAMS_BIDI,
            limit: reader.varint().filter(|&limit| limit <= MAX_STREAMS)?,
        },
        types::DATA_BLOCKED => Frame::DataBlocked(reader.varint()?),
        types::STREAM_DATA_BLOCKED => Frame::StreamDataBlocked {
            id: reader.varint()?,
            limit: reader.varint()?,
        },
        types::STREAMS_BLOCKED_BIDI | types::STREAMS_BLOCKED_UNI => Frame::StreamsBlocked {
            bidirectional: frame_type == types::STREAMS_BLOCKED_BIDI,
            limit: reader.varint().filter(|&limit| limit <= MAX_STREAMS)?,
        },
        _ => return None,
    })
}

fn read_new_connection_id(reader: &mut Reader<'_>) -> Option<NewConnectionId> {
    let sequence = reader.varint()?;
    let retire_prior_to = reader.varint()?;
    let id = ConnectionId::new(reader.prefixed_by_byte()?)?;
    let reset_token = ResetToken::new(reader.array()?);
    (retire_prior_to <= sequence && !id.is_empty()).then_some(NewConnectionId {
        sequence,
        retire_prior_to,
        id,
        reset_token,
    })
}
