//! Frames in records of packets.

use super::events::{put_length, put_transport_error};
use super::json::{Object, array, number};
use sealane_quic::Direction;
use sealane_quic::trace::TracedFrame;

/// Puts the fields of a frame.
pub(super) fn put(o: &mut Object<'_>, frame: &TracedFrame) {
    o.text("frame_type", frame_type(frame));
    match frame {
        TracedFrame::Ping
        | TracedFrame::PathChallenge
        | TracedFrame::PathResponse
        | TracedFrame::HandshakeDone => {}
        TracedFrame::Padding { bytes } => o.object("raw", |o| {
            o.bytes("length", *bytes);
            o.bytes("payload_length", *bytes);
        }),
        TracedFrame::Ack { delay, ranges, ecn } => {
            o.milliseconds("ack_delay", *delay);
            array(o.field("acked_ranges"), ranges, |out, &(first, last)| {
                let both = [first, last];
                array(out, &both[usize::from(first == last)..], |out, &value| {
                    number(out, value);
                });
            });
            if let Some([ect0, ect1, ce]) = *ecn {
                o.number("ect1", ect1);
                o.number("ect0", ect0);
                o.number("ce", ce);
            }
        }
        TracedFrame::ResetStream {
            id,
            code,
            final_size,
        } => {
            o.number("stream_id", *id);
            put_application_error(o, *code);
            o.number("final_size", *final_size);
        }
        TracedFrame::StopSending { id, code } => {
            o.number("stream_id", *id);
            put_application_error(o, *code);
        }
        TracedFrame::Crypto { offset, bytes } => {
            o.number("offset", *offset);
            put_data_length(o, *bytes);
        }
        TracedFrame::NewToken { bytes } => o.object("token", |o| {
            o.text("type", "resumption");
            put_length(o, *bytes);
        }),
        TracedFrame::Stream {
            id,
            offset,
            bytes,
            fin,
        } => {
            o.number("stream_id", *id);
            o.number("offset", *offset);
            if *fin {
                o.flag("fin", true);
            }
            put_data_length(o, *bytes);
        }
        TracedFrame::MaxData(limit) => o.number("maximum", *limit),
        TracedFrame::MaxStreamData { id, limit } => {
            o.number("stream_id", *id);
            o.number("maximum", *limit);
        }
        TracedFrame::MaxStreams { direction, limit } => {
            o.text("stream_type", stream_type(*direction));
            o.number("maximum", *limit);
        }
        TracedFrame::DataBlocked(limit) => o.number("limit", *limit),
        TracedFrame::StreamDataBlocked { id, limit } => {
            o.number("stream_id", *id);
            o.number("limit", *limit);
        }
        TracedFrame::StreamsBlocked { direction, limit } => {
            o.text("stream_type", stream_type(*direction));
            o.number("limit", *limit);
        }
        TracedFrame::NewConnectionId {
            sequence,
            retire_prior_to,
            id,
        } => {
            o.number("sequence_number", *sequence);
            o.number("retire_prior_to", *retire_prior_to);
            o.bytes("connection_id_length", id.len());
            o.hex("connection_id", id);
        }
        TracedFrame::RetireConnectionId(sequence) => o.number("sequence_number", *sequence),
        TracedFrame::ConnectionClose {
            code,
            frame_type,
            reason,
        } => {
            o.text("error_space", "transport");
            put_transport_error(o, "error", *code);
            o.text("reason", reason);
            o.number("trigger_frame_type", *frame_type);
        }
        TracedFrame::ApplicationClose { code, reason } => {
            o.text("error_space", "application");
            put_application_error(o, *code);
            o.text("reason", reason);
        }
    }
}

fn frame_type(frame: &TracedFrame) -> &'static str {
    match frame {
        TracedFrame::Padding { .. } => "padding",
        TracedFrame::Ping => "ping",
        TracedFrame::Ack { .. } => "ack",
        TracedFrame::ResetStream { .. } => "reset_stream",
        TracedFrame::StopSending { .. } => "stop_sending",
        TracedFrame::Crypto { .. } => "crypto",
        TracedFrame::NewToken { .. } => "new_token",
        TracedFrame::Stream { .. } => "stream",
        TracedFrame::MaxData(_) => "max_data",
        TracedFrame::MaxStreamData { .. } => "max_stream_data",
        TracedFrame::MaxStreams { .. } => "max_streams",
        TracedFrame::DataBlocked(_) => "data_blocked",
        TracedFrame::StreamDataBlocked { .. } => "stream_data_blocked",
        TracedFrame::StreamsBlocked { .. } => "streams_blocked",
        TracedFrame::NewConnectionId { .. } => "new_connection_id",
        TracedFrame::RetireConnectionId(_) => "retire_connection_id",
        TracedFrame::PathChallenge => "path_challenge",
        TracedFrame::PathResponse => "path_response",
        TracedFrame::ConnectionClose { .. } | TracedFrame::ApplicationClose { .. } => {
            "connection_close"
        }
        TracedFrame::HandshakeDone => "handshake_done",
    }
}

/// Bytes of data, for the draft and for qvis.
fn put_data_length(o: &mut Object<'_>, bytes: usize) {
    o.bytes("length", bytes);
    put_length(o, bytes);
}

fn put_application_error(o: &mut Object<'_>, code: u64) {
    o.text("error", "unknown");
    o.number("error_code", code);
}

fn stream_type(direction: Direction) -> &'static str {
    match direction {
        Direction::Bidirectional => "bidirectional",
        Direction::Unidirectional => "unidirectional",
    }
}
