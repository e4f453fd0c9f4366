//! The codec of a connection, its transport, and what its streams have to send.

use super::names::{RequestSlots, StreamName};
use super::output::Output;
use crate::exchange::Exchange;
use crate::multiplexed::{MultiplexedWire, ResetReason, TurnTime, Unsendable};
use crate::response_head;
use sealane_http::StatusCode;
use sealane_http::h1::ConnectionHeader;
use sealane_http::h3::{self, Channel, Code};
use sealane_http::headers::HeaderList;
use sealane_quic::{Connection, Direction, StreamId, Time};

/// The channels of this end, in the order in which they are opened. What others refer to comes
/// first when there is more to send than fits.
pub(super) const CHANNELS: [Channel; 3] = [Channel::Control, Channel::Encoder, Channel::Decoder];

/// Codec, transport and output of one connection.
pub(super) struct Http3Framer {
    pub(super) transport: Connection,
    pub(super) codec: h3::Connection,
    pub(super) requests: RequestSlots,
    /// Streams of the [`CHANNELS`] that are open.
    pub(super) channels: [Option<(StreamId, Output)>; CHANNELS.len()],
    /// Requests whose bodies are to be read.
    pub(super) to_fill: Vec<StreamName>,
    /// The time of the turn, for the transport.
    pub(super) now: Time,
    /// The same by the coarse clock.
    pub(super) now_ms: u64,
}

/// No more of a channel is taken from the codec while so much of it is unsent: what a client does
/// not read stays with the codec, which limits it.
const CHANNEL_BYTES: u64 = 4 << 10;

impl Http3Framer {
    pub(super) fn new(transport: Connection, codec: h3::Connection, now: Time) -> Http3Framer {
        Http3Framer {
            now_ms: 0,
            transport,
            codec,
            requests: RequestSlots::default(),
            channels: [const { None }; CHANNELS.len()],
            to_fill: Vec::new(),
            now,
        }
    }

    /// Tells the transport how far a request's output goes.
    pub(super) fn announce(&mut self, name: StreamName, end: bool) {
        let Some(sending) = self.requests.sending(name) else {
            return;
        };
        sending.is_over |= end;
        let up_to = sending.output.end();
        if end || sending.announced <= sending.output.sent() {
            sending.moved_ms = self.now_ms; // the client had everything before
        }
        sending.announced = up_to;
        if !self.transport.write_up_to(name.id, up_to, end) {
            sending.output.clear();
            sending.is_over = true;
        }
    }

    /// Writes what the codec has for its own streams.
    pub(super) fn write_channels(&mut self) {
        for (place, channel) in CHANNELS.into_iter().enumerate() {
            let slot = &mut self.channels[place];
            let is_full = |(_, output): &(StreamId, Output)| output.unsent() >= CHANNEL_BYTES;
            let bytes = self.codec.outgoing(channel);
            if bytes.is_empty() || slot.as_ref().is_some_and(is_full) {
                continue;
            }
            if slot.is_none() {
                let Some(id) = self.transport.open(Direction::Unidirectional) else {
                    continue; // a client that allows no more of them gets nothing
                };
                self.transport.set_priority(id, 0, false);
                *slot = Some((id, Output::default()));
            }
            if let Some((id, output)) = slot {
                let (_, count) = output.make(|out| out.extend_from_slice(bytes));
                self.transport.write_up_to(*id, output.end(), false);
                self.codec.sent(channel, count as usize); // no more than the slice has
            }
        }
    }

    /// The client has these bytes of a stream.
    pub(super) fn acknowledge(&mut self, id: StreamId, up_to: u64) {
        if let Some(name) = self.requests.find(id) {
            if let Some(sending) = self.requests.sending(name) {
                sending.output.acknowledge(up_to);
                sending.moved_ms = self.now_ms;
                if !sending.is_over {
                    self.queue(name);
                } else if sending.output.kept() == 0
                    && let Some(code) = sending.reset_behind.take()
                {
                    self.transport.reset_stream(id, code.0);
                }
            }
            return;
        }
        for (known, output) in self.channels.iter_mut().flatten() {
            if *known == id {
                output.acknowledge(up_to);
            }
        }
    }

    /// Has a request's body read in this turn.
    pub(super) fn queue(&mut self, name: StreamName) {
        if let Some(sending) = self.requests.sending(name)
            && !std::mem::replace(&mut sending.is_queued, true)
        {
            self.to_fill.push(name);
        }
    }

    /// Gives a stream up in both directions.
    pub(super) fn abort(&mut self, id: StreamId, code: Code) {
        self.codec.reset(id.to_wire());
        self.transport.reset_stream(id, code.0);
        self.transport.stop_sending(id, code.0);
        if let Some(name) = self.requests.find(id)
            && let Some(sending) = self.requests.sending(name)
        {
            sending.output.clear();
            sending.is_over = true;
            sending.moved_ms = self.now_ms;
            self.release_unread(name);
        }
    }

    /// The transport has forgotten a stream.
    pub(super) fn forget(&mut self, id: StreamId) {
        if let Some(name) = self.requests.find(id) {
            self.release_unread(name);
            self.requests.forget(id);
        }
    }

    /// Nobody reads what is left of a request's body: the connection's window is shared, and the
    /// client may send as much for other requests.
    fn release_unread(&mut self, name: StreamName) {
        self.release(name, usize::MAX);
    }

    /// Gives a stream up when the client has all that was written: a reset would take the place of
    /// what is not there yet.
    fn abort_behind(&mut self, name: StreamName, code: Code) {
        match self.requests.sending(name) {
            Some(sending) if sending.output.kept() > 0 => {
                sending.reset_behind = Some(code);
                sending.is_over = true;
                self.codec.reset(name.id.to_wire());
                self.transport.stop_sending(name.id, code.0);
                self.release_unread(name);
            }
            _ => self.abort(name.id, code),
        }
    }
}

impl MultiplexedWire for Http3Framer {
    type Name = StreamName;

    fn send_interim(&mut self, stream: StreamName, status: StatusCode, headers: &HeaderList) {
        let Some(sending) = self.requests.sending(stream) else {
            return;
        };
        let (id, fields) = (stream.id.to_wire(), headers.fields());
        // Nothing is sent once the head of the final response has been.
        let (sent, _) = sending
            .output
            .make(|out| self.codec.send_interim(id, status, fields, out));
        if sent.is_ok() {
            self.announce(stream, false);
        }
    }

    fn send_head(
        &mut self,
        stream: StreamName,
        exchange: &mut Exchange,
        end: bool,
    ) -> Result<(), Unsendable> {
        let id = stream.id.to_wire();
        let codec = &mut self.codec;
        let sending = self.requests.sending(stream).ok_or(Unsendable)?;
        let (sent, count) = sending.output.make(|out| {
            response_head::with_head(exchange, ConnectionHeader::Close, false, |head| {
                codec.send_response(id, head, end, out)
            })
        });
        exchange.transfer.head_bytes = count;
        sending.send_timeout = Some(exchange.conf().send_timeout);
        sent.map_err(|_| Unsendable)?;
        self.announce(stream, end);
        Ok(())
    }

    fn send_trailers(&mut self, stream: StreamName, trailers: &HeaderList) {
        let (id, fields) = (stream.id.to_wire(), trailers.fields());
        let Some(sending) = self.requests.sending(stream) else {
            return;
        };
        let (sent, _) = sending
            .output
            .make(|out| self.codec.send_trailers(id, fields, out));
        if sent.is_ok() {
            self.announce(stream, true);
        }
    }

    fn end_body(&mut self, stream: StreamName) {
        let id = stream.id.to_wire();
        let Some(sending) = self.requests.sending(stream) else {
            return;
        };
        let (sent, _) = sending.output.make(|out| self.codec.data(id, 0, true, out));
        if sent.is_ok() {
            self.announce(stream, true);
        }
    }

    fn reset(&mut self, stream: StreamName, reason: ResetReason) {
        let code = match reason {
            ResetReason::Cancelled => Code::H3_REQUEST_CANCELLED,
            ResetReason::Failed => Code::H3_INTERNAL_ERROR,
            ResetReason::TunnelFailed => Code::H3_CONNECT_ERROR,
            // RFC 9114 section 4.1.2: a response may come before.
            ResetReason::Malformed => return self.abort_behind(stream, Code::H3_MESSAGE_ERROR),
        };
        self.abort(stream.id, code);
    }

    fn offer(&mut self, stream: StreamName) {
        self.queue(stream);
    }

    // Windows of streams grow by themselves, with the round-trip time.
    fn widen(&mut self, _: StreamName) {}

    fn release(&mut self, stream: StreamName, bytes: usize) {
        let Some(sending) = self.requests.sending(stream) else {
            return; // released when it was forgotten
        };
        let bytes = sending.unreleased.min(bytes as u64);
        sending.unreleased -= bytes;
        if bytes > 0 {
            self.transport.consumed(stream.id, bytes, self.now);
        }
    }

    // What was written last says nothing: it may wait behind much that was written before.
    fn blocked_since_ms(&self, stream: StreamName, _: u64) -> Option<u64> {
        self.requests.blocked_since_ms(stream)
    }

    fn answered(&mut self, stream: StreamName, _: TurnTime) -> bool {
        // RFC 9114 section 4.1: a client that still sends may stop.
        if self.codec.is_receiving(stream.id.to_wire()) {
            self.codec.stop_receiving(stream.id.to_wire());
            self.transport.stop_sending(stream.id, Code::H3_NO_ERROR.0);
        }
        self.release_unread(stream);
        false
    }
}
