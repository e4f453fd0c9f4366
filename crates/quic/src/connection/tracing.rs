//! What a connection tells of itself (`crate::trace`), if it is asked to. Otherwise each of these
//! places costs one comparison.

use super::frames::printable;
use super::packets::Open;
use super::settings::ACK_DELAY_EXPONENT;
use super::transmit::Outbox;
use super::{Addresses, CloseReason, Connection};
use crate::frame::{Frame, Frames};
use crate::packet::{PacketType, TAG_LEN, long_header};
use crate::parameters::TransportParameters;
use crate::trace::{
    DropReason, KeyTrigger, MAX_WAITING, Metrics, MigrationState, TraceEvent, Traced, TracedFrame,
    TracedKeys, TracedLongHeader, TracedPacket, TracedParameters,
};
use crate::{ConnectionId, Direction, Side, Space, Time};

/// The events of a connection that wait to be taken, and what was told last.
#[derive(Debug)]
pub(super) struct Tracer {
    /// The time of the call that goes on.
    now: Time,
    waiting: Vec<Traced>,
    /// How many were too many.
    missed: u64,
    metrics: Option<Metrics>,
    congestion_state: Option<&'static str>,
    datagram_size: u16,
    /// How often keys of 1-RTT packets were updated.
    key_phase: u64,
    /// The ids that 1-RTT packets were addressed to last: of this end, and of the peer.
    ids: [Option<ConnectionId>; 2],
}

impl Tracer {
    fn push(&mut self, event: TraceEvent) {
        if self.waiting.len() >= MAX_WAITING {
            self.missed += 1;
            return;
        }
        let time = self.now;
        self.waiting.push(Traced { time, event });
    }

    /// Transport parameters of an end are known.
    pub(super) fn parameters(&mut self, is_local: bool, parameters: &TransportParameters) {
        self.push(TraceEvent::Parameters {
            is_local,
            parameters: Box::new(parameters.into()),
        });
    }

    /// Tells when a packet is addressed to another id than the one before.
    fn note_id(&mut self, is_local: bool, new: ConnectionId) {
        let old = self.ids[usize::from(!is_local)].replace(new);
        if let Some(old) = old.filter(|old| *old != new) {
            self.push(TraceEvent::IdChanged { is_local, old, new });
        }
    }

    /// Tells of keys in both directions.
    fn keys_of_both(&mut self, packet_type: PacketType, by: KeyTrigger) {
        for of_server in [true, false] {
            self.keys(packet_type, of_server, by);
        }
    }

    fn keys(&mut self, packet_type: PacketType, of_server: bool, by: KeyTrigger) {
        let phase = (packet_type == PacketType::OneRtt).then_some(self.key_phase);
        let keys = TracedKeys {
            packet_type,
            of_server,
            phase,
        };
        self.push(TraceEvent::KeysMade { keys, by });
    }

    fn discarded(&mut self, packet_type: PacketType, of_server: bool, phase: Option<u64>) {
        self.push(TraceEvent::KeysDiscarded(TracedKeys {
            packet_type,
            of_server,
            phase,
        }));
    }
}

/// For the owner.
impl Connection {
    /// Tells from now on what happens. To be called before the first datagram, or the beginning is
    /// missing.
    pub fn start_trace(&mut self, now: Time) {
        let path = &self.paths.current.path;
        let mut tracer = Box::new(Tracer {
            now,
            waiting: Vec::new(),
            missed: 0,
            metrics: None,
            congestion_state: None,
            datagram_size: path.datagram_size(),
            key_phase: 0,
            ids: [None; 2],
        });
        tracer.push(TraceEvent::Began {
            addresses: self.paths.current.addresses,
            own_id: self.local_ids.first(),
            peer_id: self.remote_id(),
        });
        tracer.push(TraceEvent::Versions {
            spoken: self.settings.versions.clone(),
            chosen: self.version,
        });
        tracer.keys_of_both(PacketType::Initial, KeyTrigger::Handshake);
        self.tracer = Some(tracer);
        self.recovery.trace_losses(true);
        self.trace_state();
    }

    /// Puts what has happened since the last call into `events`, which is empty. Returns how many
    /// events were missed because there were too many ([`MAX_WAITING`]).
    pub fn take_trace(&mut self, events: &mut Vec<Traced>) -> u64 {
        debug_assert!(events.is_empty(), "events that nobody has looked at");
        let Some(tracer) = &mut self.tracer else {
            return 0;
        };
        std::mem::swap(&mut tracer.waiting, events);
        std::mem::take(&mut tracer.missed)
    }

    /// Tells nothing any more.
    pub fn end_trace(&mut self) {
        self.tracer = None;
        self.recovery.trace_losses(false);
    }
}

/// For the other parts of the connection.
impl Connection {
    /// A call begins at this time.
    pub(super) fn trace_time(&mut self, now: Time) {
        if let Some(tracer) = &mut self.tracer {
            tracer.now = now;
        }
    }

    /// Something happened.
    pub(super) fn trace(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(tracer) = &mut self.tracer {
            tracer.push(event());
        }
    }

    /// What was lost, and what has changed with the call that ends.
    pub(super) fn trace_state(&mut self) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        for space in Space::ALL {
            for loss in self.recovery.take_losses(space) {
                tracer.push(TraceEvent::Lost { space, loss });
            }
        }
        let path = &self.paths.current.path;
        let state = path.congestion_state();
        if tracer.congestion_state != Some(state) {
            let old = tracer.congestion_state.replace(state);
            tracer.push(TraceEvent::CongestionState { old, new: state });
        }
        let new = path.datagram_size();
        let old = std::mem::replace(&mut tracer.datagram_size, new);
        if old != new {
            tracer.push(TraceEvent::DatagramSize { old, new });
        }
        let metrics = self.recovery.metrics(path);
        if tracer.metrics.replace(metrics) != Some(metrics) {
            tracer.push(TraceEvent::Metrics(metrics));
        }
    }

    /// A packet is about to be sealed whose frames end at `end`, with room for the tag.
    pub(super) fn trace_sent(&mut self, open: &Open, end: usize, outbox: &Outbox) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let packet_type = match open.space {
            Space::Initial => PacketType::Initial,
            Space::Handshake => PacketType::Handshake,
            Space::Data if open.is_early() => PacketType::ZeroRtt,
            Space::Data => PacketType::OneRtt,
        };
        let (start, payload_at) = open.places();
        let header = &outbox.bytes[start..payload_at];
        let payload = &outbox.bytes[payload_at..end - TAG_LEN];
        let mut packet = Reading {
            packet_type,
            number: open.number(),
            header,
            receiver: !self.side,
            ack_delay_exponent: ACK_DELAY_EXPONENT,
        }
        .read(payload);
        packet.is_mtu_probe = open.is_mtu_probe;
        if packet_type == PacketType::OneRtt && !open.is_off_path {
            tracer.note_id(false, packet.destination);
        }
        tracer.push(TraceEvent::Sent(Box::new(packet)));
    }

    /// A packet that came is authentic.
    pub(super) fn trace_received(
        &mut self,
        (packet_type, number): (PacketType, u64),
        header: &[u8],
        payload: &[u8],
    ) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let packet = Reading {
            packet_type,
            number,
            header,
            receiver: self.side,
            ack_delay_exponent: match packet_type {
                PacketType::OneRtt => self.peer.ack_delay_exponent,
                _ => 3,
            },
        }
        .read(payload);
        if packet_type == PacketType::OneRtt {
            tracer.note_id(true, packet.destination);
        }
        tracer.push(TraceEvent::Received(Box::new(packet)));
    }

    /// A packet was not looked at.
    pub(super) fn trace_dropped(
        &mut self,
        packet_type: Option<PacketType>,
        bytes: usize,
        why: DropReason,
    ) {
        self.trace(|| TraceEvent::Dropped {
            packet_type,
            bytes,
            why,
        });
    }

    /// A packet waits for its keys.
    pub(super) fn trace_buffered(&mut self, packet_type: Option<PacketType>, bytes: usize) {
        if let Some(packet_type) = packet_type {
            self.trace(|| TraceEvent::Buffered { packet_type, bytes });
        }
    }

    /// Keys of one direction are there.
    pub(super) fn trace_keys(&mut self, packet_type: PacketType, that_seal: bool) {
        let of_server = self.side.is_server() == that_seal;
        if let Some(tracer) = &mut self.tracer {
            tracer.keys(packet_type, of_server, KeyTrigger::Handshake);
        }
    }

    /// Keys of 1-RTT packets were updated.
    pub(super) fn trace_key_update(&mut self, by: KeyTrigger) {
        if let Some(tracer) = &mut self.tracer {
            let before = tracer.key_phase;
            tracer.key_phase += 1;
            tracer.keys_of_both(PacketType::OneRtt, by);
            // Those that open are kept for packets that come late.
            let of_server = self.side.is_server();
            tracer.discarded(PacketType::OneRtt, of_server, Some(before));
        }
    }

    /// Keys of the handshake, or of early data, are gone.
    pub(super) fn trace_discarded(&mut self, packet_type: PacketType) {
        if let Some(tracer) = &mut self.tracer {
            if packet_type != PacketType::ZeroRtt {
                tracer.discarded(packet_type, true, None);
            }
            tracer.discarded(packet_type, false, None);
        }
    }

    /// The peer moves, or tries to.
    pub(super) fn trace_migration(&mut self, state: MigrationState, addresses: Addresses) {
        self.trace(|| TraceEvent::Migration { state, addresses });
    }

    /// The connection begins to end.
    pub(super) fn trace_closed(&mut self, reason: &CloseReason) {
        self.trace(|| TraceEvent::Closed(reason.clone()));
    }
}

/// A packet whose frames are to be read.
struct Reading<'a> {
    packet_type: PacketType,
    number: u64,
    /// The header with the packet number, unmasked.
    header: &'a [u8],
    receiver: Side,
    ack_delay_exponent: u8,
}

impl Reading<'_> {
    fn read(&self, payload: &[u8]) -> TracedPacket {
        let (long, destination) = self.ids();
        let frames = Frames::new(payload, self.packet_type, self.receiver);
        let frames = frames.map_while(Result::ok);
        TracedPacket {
            packet_type: self.packet_type,
            number: self.number,
            long,
            destination,
            key_phase: long.is_none() && self.header[0] & 0x04 != 0,
            bytes: self.header.len() + payload.len() + TAG_LEN,
            payload_bytes: payload.len(),
            frames: frames.map(|frame| self.frame(frame)).collect(),
            is_mtu_probe: false,
        }
    }

    fn ids(&self) -> (Option<TracedLongHeader>, ConnectionId) {
        let id = |bytes: &[u8]| ConnectionId::new(bytes).unwrap_or(ConnectionId::EMPTY);
        if self.packet_type == PacketType::OneRtt {
            let number_len = usize::from(self.header[0] & 3) + 1;
            return (None, id(&self.header[1..self.header.len() - number_len]));
        }
        let Some(mut header) = long_header(self.header) else {
            return (None, ConnectionId::EMPTY);
        };
        let token = match self.packet_type {
            PacketType::Initial => header.rest.prefixed(),
            _ => None,
        };
        let long = TracedLongHeader {
            version: header.version,
            source: id(header.source),
            token_bytes: token.map_or(0, <[u8]>::len),
        };
        (Some(long), id(header.destination))
    }

    fn frame(&self, frame: Frame<'_>) -> TracedFrame {
        let direction = |bidirectional| match bidirectional {
            true => Direction::Bidirectional,
            false => Direction::Unidirectional,
        };
        match frame {
            Frame::Padding(bytes) => TracedFrame::Padding { bytes },
            Frame::Ping => TracedFrame::Ping,
            Frame::Ack(ack) => TracedFrame::Ack {
                delay: ack.delay(self.ack_delay_exponent),
                ranges: ack.ranges().map(|range| range.into_inner()).collect(),
                ecn: ack.ecn().map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]),
            },
            Frame::ResetStream {
                id,
                code,
                final_size,
            } => TracedFrame::ResetStream {
                id,
                code,
                final_size,
            },
            Frame::StopSending { id, code } => TracedFrame::StopSending { id, code },
            Frame::Crypto { offset, data } => TracedFrame::Crypto {
                offset,
                bytes: data.len(),
            },
            Frame::NewToken(token) => TracedFrame::NewToken { bytes: token.len() },
            Frame::Stream {
                id,
                offset,
                data,
                fin,
            } => TracedFrame::Stream {
                id,
                offset,
                bytes: data.len(),
                fin,
            },
            Frame::MaxData(limit) => TracedFrame::MaxData(limit),
            Frame::MaxStreamData { id, limit } => TracedFrame::MaxStreamData { id, limit },
            Frame::MaxStreams {
                bidirectional,
                limit,
            } => TracedFrame::MaxStreams {
                direction: direction(bidirectional),
                limit,
            },
            Frame::DataBlocked(limit) => TracedFrame::DataBlocked(limit),
            Frame::StreamDataBlocked { id, limit } => TracedFrame::StreamDataBlocked { id, limit },
            Frame::StreamsBlocked {
                bidirectional,
                limit,
            } => TracedFrame::StreamsBlocked {
                direction: direction(bidirectional),
                limit,
            },
            Frame::NewConnectionId(new) => TracedFrame::NewConnectionId {
                sequence: new.sequence,
                retire_prior_to: new.retire_prior_to,
                id: new.id,
            },
            Frame::RetireConnectionId(sequence) => TracedFrame::RetireConnectionId(sequence),
            Frame::PathChallenge(_) => TracedFrame::PathChallenge,
            Frame::PathResponse(_) => TracedFrame::PathResponse,
            Frame::ConnectionClose {
                code,
                frame_type,
                reason,
            } => TracedFrame::ConnectionClose {
                code: code.to_wire(),
                frame_type,
                reason: printable(reason),
            },
            Frame::ApplicationClose { code, reason } => TracedFrame::ApplicationClose {
                code,
                reason: printable(reason),
            },
            Frame::HandshakeDone => TracedFrame::HandshakeDone,
        }
    }
}

impl From<&TransportParameters> for TracedParameters {
    fn from(from: &TransportParameters) -> Self {
        let preferred = from.preferred_address.as_deref();
        Self {
            original_destination: from.original_destination,
            initial_source: from.initial_source,
            retry_source: from.retry_source,
            disable_active_migration: from.disable_active_migration,
            max_idle_timeout_ms: from.max_idle_timeout_ms,
            max_udp_payload_size: from.max_udp_payload_size,
            ack_delay_exponent: from.ack_delay_exponent,
            max_ack_delay_ms: from.max_ack_delay_ms,
            active_connection_id_limit: from.active_connection_id_limit,
            initial_max_data: from.initial_max_data,
            initial_max_stream_data_bidi_local: from.initial_max_stream_data_bidi_local,
            initial_max_stream_data_bidi_remote: from.initial_max_stream_data_bidi_remote,
            initial_max_stream_data_uni: from.initial_max_stream_data_uni,
            initial_max_streams_bidi: from.initial_max_streams_bidi,
            initial_max_streams_uni: from.initial_max_streams_uni,
            preferred_v4: preferred.and_then(|preferred| preferred.v4),
            preferred_v6: preferred.and_then(|preferred| preferred.v6),
            grease_quic_bit: from.grease_quic_bit,
        }
    }
}
