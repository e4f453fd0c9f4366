//! Writing of frames.

use super::{Frame, types};
use crate::{Code, varint};

impl Frame<'_> {
    /// How many bytes [`Frame::put`] appends.
    #[must_use]
    pub(crate) fn encoded_len(&self) -> usize {
        let prefixed = |bytes: &[u8]| varint::len(bytes.len() as u64) + bytes.len();
        match *self {
            Self::Padding(len) => len,
            Self::Ping | Self::HandshakeDone => 1,
            Self::Ack(ack) => 1 + ack.body_len(),
            Self::ResetStream {
                id,
                code,
                final_size,
            } => 1 + varint::len(id) + varint::len(code) + varint::len(final_size),
            Self::Crypto { offset, data } => 1 + varint::len(offset) + prefixed(data),
            Self::NewToken(token) => 1 + prefixed(token),
            Self::Stream {
                id, offset, data, ..
            } => stream_header_len(id, offset, Some(data.len())) + data.len(),
            Self::MaxData(value) | Self::DataBlocked(value) | Self::RetireConnectionId(value) => {
                1 + varint::len(value)
            }
            Self::StopSending { id, code: value }
            | Self::MaxStreamData { id, limit: value }
            | Self::StreamDataBlocked { id, limit: value } => {
                1 + varint::len(id) + varint::len(value)
            }
            Self::MaxStreams { limit, .. } | Self::StreamsBlocked { limit, .. } => {
                1 + varint::len(limit)
            }
            Self::NewConnectionId(new) => {
                let numbers = varint::len(new.sequence) + varint::len(new.retire_prior_to);
                2 + numbers + new.id.len() + new.reset_token.bytes().len()
            }
            Self::PathChallenge(_) | Self::PathResponse(_) => 9,
            Self::ConnectionClose {
                code,
                frame_type,
                reason,
            } => 1 + varint::len(code.to_wire()) + varint::len(frame_type) + prefixed(reason),
            Self::ApplicationClose { code, reason } => 1 + varint::len(code) + prefixed(reason),
        }
    }

    /// Appends the frame. STREAM frames say their length. Numbers have at most 62 bits.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Padding(len) => put_padding(out, len),
            Self::Ping => varint::put(out, types::PING),
            Self::Ack(ack) => ack.put(out),
            Self::Crypto { offset, data } => {
                put_numbers(out, types::CRYPTO, &[offset]);
                put_prefixed(out, data);
            }
            Self::NewToken(token) => {
                varint::put(out, types::NEW_TOKEN);
                put_prefixed(out, token);
            }
            Self::Stream {
                id,
                offset,
                data,
                fin,
            } => {
                put_stream_header(out, id, offset, Some(data.len()), fin);
                out.extend_from_slice(data);
            }
            Self::NewConnectionId(new) => {
                let numbers = [new.sequence, new.retire_prior_to];
                put_numbers(out, types::NEW_CONNECTION_ID, &numbers);
                out.push(new.id.len() as u8);
                out.extend_from_slice(&new.id);
                out.extend_from_slice(new.reset_token.bytes());
            }
            Self::PathChallenge(data) => {
                varint::put(out, types::PATH_CHALLENGE);
                out.extend_from_slice(&data);
            }
            Self::PathResponse(data) => {
                varint::put(out, types::PATH_RESPONSE);
                out.extend_from_slice(&data);
            }
            Self::ConnectionClose {
                code,
                frame_type,
                reason,
            } => {
                let numbers = [code.to_wire(), frame_type];
                put_numbers(out, types::CONNECTION_CLOSE, &numbers);
                put_prefixed(out, reason);
            }
            Self::ApplicationClose { code, reason } => {
                put_numbers(out, types::APPLICATION_CLOSE, &[code]);
                put_prefixed(out, reason);
            }
            Self::HandshakeDone => varint::put(out, types::HANDSHAKE_DONE),
            _ => self.put_of_streams(out),
        }
    }

    /// Appends what is about streams and limits: numbers alone.
    fn put_of_streams(&self, out: &mut Vec<u8>) {
        match *self {
            Self::ResetStream {
                id,
                code,
                final_size,
            } => put_numbers(out, types::RESET_STREAM, &[id, code, final_size]),
            Self::StopSending { id, code } => put_numbers(out, types::STOP_SENDING, &[id, code]),
            Self::MaxData(limit) => put_numbers(out, types::MAX_DATA, &[limit]),
            Self::MaxStreamData { id, limit } => {
                put_numbers(out, types::MAX_STREAM_DATA, &[id, limit]);
            }
            Self::MaxStreams {
                bidirectional,
                limit,
            } => {
                let types = [types::MAX_STREAMS_UNI, types::MAX_STREAMS_BIDI];
                put_numbers(out, types[usize::from(bidirectional)], &[limit]);
            }
            Self::DataBlocked(limit) => put_numbers(out, types::DATA_BLOCKED, &[limit]),
            Self::StreamDataBlocked { id, limit } => {
                put_numbers(out, types::STREAM_DATA_BLOCKED, &[id, limit]);
            }
            Self::StreamsBlocked {
                bidirectional,
                limit,
            } => {
                let types = [types::STREAMS_BLOCKED_UNI, types::STREAMS_BLOCKED_BIDI];
                put_numbers(out, types[usize::from(bidirectional)], &[limit]);
            }
            Self::RetireConnectionId(sequence) => {
                put_numbers(out, types::RETIRE_CONNECTION_ID, &[sequence]);
            }
            _ => unreachable!("the other frames are written by `put`"),
        }
    }
}

fn put_numbers(out: &mut Vec<u8>, frame_type: u64, numbers: &[u64]) {
    varint::put(out, frame_type);
    for &number in numbers {
        varint::put(out, number);
    }
}

fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends `len` bytes of padding.
pub(crate) fn put_padding(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + len, types::PADDING as u8);
}

/// Appends the header of a STREAM frame; the data is to be appended next. Without a length, the
/// data reaches to the end of the packet.
pub(crate) fn put_stream_header(
    out: &mut Vec<u8>,
    id: u64,
    offset: u64,
    len: Option<usize>,
    fin: bool,
) {
    let mut frame_type = types::STREAM;
    if fin {
        frame_type |= types::STREAM_FIN;
    }
    if len.is_some() {
        frame_type |= types::STREAM_LEN;
    }
    if offset != 0 {
        frame_type |= types::STREAM_OFF;
    }
    out.push(frame_type as u8);
    varint::put(out, id);
    if offset != 0 {
        varint::put(out, offset);
    }
    if let Some(len) = len {
        varint::put(out, len as u64);
    }
}

/// How many bytes [`put_stream_header`] appends.
#[must_use]
pub(crate) fn stream_header_len(id: u64, offset: u64, len: Option<usize>) -> usize {
    let offset_len = if offset == 0 { 0 } else { varint::len(offset) };
    let length_len = len.map_or(0, |len| varint::len(len as u64));
    1 + varint::len(id) + offset_len + length_len
}

/// Appends a CONNECTION_CLOSE frame of at most `room` bytes, with as much of the reason as fits,
/// and says whether there was room at all. QUIC's own has a frame type, an application's `None`.
pub(crate) fn put_close(
    out: &mut Vec<u8>,
    room: usize,
    code: u64,
    frame_type: Option<u64>,
    reason: &str,
) -> bool {
    let frame = |reason| match frame_type {
        Some(frame_type) => Frame::ConnectionClose {
            code: Code::from_wire(code),
            frame_type,
            reason,
        },
        None => Frame::ApplicationClose { code, reason },
    };
    let Some(left) = room.checked_sub(frame(&[]).encoded_len()) else {
        return false;
    };
    // The length of a long reason takes more bytes than that of none.
    let mut end = reason.len().min(left);
    while end > 0
        && (!reason.is_char_boundary(end) || frame(&reason.as_bytes()[..end]).encoded_len() > room)
    {
        end -= 1;
    }
    frame(&reason.as_bytes()[..end]).put(out);
    true
}
