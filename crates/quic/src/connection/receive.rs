//! From datagrams to packets.

use super::close::Progress;
use super::{Addresses, CloseReason, Connection, Owner};
use crate::incoming::MIN_INITIAL_DATAGRAM;
use crate::packet::{Packet, PacketType, Packets, Protected, Retry, Unmasked, VersionNegotiation};
use crate::recovery::{AckPolicy, Codepoint};
use crate::reset::ResetToken;
use crate::trace::{DropReason, KeyTrigger, TraceEvent};
use crate::{ConnectionId, Error, Side, Space, Time, Version};
use sealane_tls::quic::{self as tls};

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was authentic.
    Taken,
    /// It waits for its keys.
    Held,
    /// It was not, or came at the wrong time, or twice.
    Dropped(DropReason),
}

impl Connection {
    /// Takes a datagram that was sent to one of the connection's ids. Packets are opened in place.
    /// What is wrong with it ends the connection, as [`Connection::close_reason`] tells.
    pub fn receive(
        &mut self,
        now: Time,
        addresses: Addresses,
        mark: Codepoint,
        datagram: &mut [u8],
        owner: &mut impl Owner,
    ) {
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += datagram.len() as u64;
        self.trace_time(now);
        match &self.state {
            Progress::Handshaking | Progress::Established => {}
            Progress::Closing(_) => {
                self.note_datagram(addresses, datagram.len());
                return self.note_packet_while_closing();
            }
            Progress::Draining(_) | Progress::Closed(_) => return,
        }
        if !self.note_datagram(addresses, datagram.len()) {
            self.counters.packets_dropped += 1;
            return self.trace_dropped(None, datagram.len(), DropReason::Address);
        }
        // Opening wipes what it cannot open.
        let reset_token = ResetToken::of_datagram(datagram);
        let outcome = self.receive_packets(now, addresses, mark, datagram, owner);
        if !outcome && reset_token.is_some_and(|token| self.remote_ids.is_reset(token)) {
            self.trace(|| TraceEvent::Reset);
            self.start_draining(now, CloseReason::Reset);
        }
        self.trace_state();
    }

    /// Takes the packets of a datagram. Returns whether one was authentic.
    pub(super) fn receive_packets(
        &mut self,
        now: Time,
        addresses: Addresses,
        mark: Codepoint,
        datagram: &mut [u8],
        owner: &mut impl Owner,
    ) -> bool {
        let mut any = false;
        let id_len = self.local_ids.first().len();
        // RFC 9000 section 14.1: a server drops Initial packets of shorter datagrams.
        let takes_initial = !self.side.is_server() || datagram.len() >= MIN_INITIAL_DATAGRAM;
        for packet in Packets::new(datagram, id_len) {
            if self.is_ending() {
                return true;
            }
            let (packet_type, bytes) = packet.to_trace();
            let outcome = match packet {
                Packet::Protected(packet)
                    if packet.packet_type() == PacketType::Initial
                        && (!takes_initial
                            || self.side.is_client() && !packet.token().is_empty()) =>
                {
                    // RFC 9000 section 17.2.2: servers send no tokens.
                    Ok(Outcome::Dropped(DropReason::Invalid))
                }
                Packet::Protected(packet) => {
                    self.receive_protected(now, addresses, mark, packet, owner)
                }
                Packet::Retry(retry) => Ok(self.receive_retry(&retry)),
                Packet::VersionNegotiation(offer) => Ok(self.receive_versions(&offer)),
                Packet::UnknownVersion(_) => Ok(Outcome::Dropped(DropReason::Version)),
            };
            match outcome {
                Ok(Outcome::Taken) => any = true,
                Ok(Outcome::Held) => self.trace_buffered(packet_type, bytes),
                Ok(Outcome::Dropped(why)) => {
                    self.counters.packets_dropped += 1;
                    self.trace_dropped(packet_type, bytes, why);
                }
                Err(error) => {
                    self.fail(now, error);
                    return true;
                }
            }
        }
        any
    }

    fn receive_protected(
        &mut self,
        now: Time,
        addresses: Addresses,
        mark: Codepoint,
        packet: Protected<'_>,
        owner: &mut impl Owner,
    ) -> Result<Outcome, Error> {
        let packet_type = packet.packet_type();
        let destination = packet.destination();
        let version = packet.version();
        // First: keys of another version are derived only for a packet that is for this connection.
        if !self.is_own(&destination, packet_type) {
            return Ok(Outcome::Dropped(DropReason::Unknown));
        }
        if !self.takes_version(packet_type, version) {
            return Ok(Outcome::Dropped(DropReason::Version));
        }
        let source = packet.source();
        let Some(mask) = packet
            .sample()
            .and_then(|sample| self.mask(packet_type, version, sample))
        else {
            if packet.sample().is_none() {
                return Ok(Outcome::Dropped(DropReason::Invalid));
            }
            if self.may_hold(packet_type) && self.hold(packet.bytes(), mark) {
                return Ok(Outcome::Held);
            }
            return Ok(Outcome::Dropped(DropReason::NoKeys));
        };
        let largest = self.largest_received(packet_type.space());
        let Some(mut packet) = packet.unmask(&mask, largest) else {
            return Ok(Outcome::Dropped(DropReason::Invalid));
        };
        let Some(len) = self.open_packet(&mut packet, version, now)? else {
            return Ok(Outcome::Dropped(DropReason::NotAuthentic));
        };
        if self.is_duplicate(packet_type.space(), packet.number) {
            return Ok(Outcome::Dropped(DropReason::Duplicate));
        }
        packet.check_reserved()?;
        if !self.note_source(packet_type, source) {
            return Ok(Outcome::Dropped(DropReason::Unknown));
        }
        self.note_version(packet_type, version);
        let number = packet.number;
        let is_newest = largest.is_none_or(|largest| number > largest);
        let payload = &packet.payload[..len];
        self.trace_received((packet_type, number), packet.header, payload);
        let place = (packet_type, destination, addresses);
        let frames = self.receive_frames(now, place, payload, owner)?;
        if !self.is_ending() {
            self.note_received(packet_type, number, frames.elicits_ack, mark, now);
            if packet_type == PacketType::OneRtt && is_newest && !frames.only_probes {
                self.note_address(now, addresses, &destination);
            }
        }
        Ok(Outcome::Taken)
    }

    /// Whether packets with this id belong to this connection.
    fn is_own(&self, destination: &ConnectionId, packet_type: PacketType) -> bool {
        if self.local_ids.active().any(|id| id == destination) {
            return true;
        }
        let of_client = (self.negotiation.as_ref()).and_then(|n| n.client_destination);
        of_client == Some(*destination)
            && matches!(packet_type, PacketType::Initial | PacketType::ZeroRtt)
    }

    fn mask(
        &self,
        packet_type: PacketType,
        version: Option<Version>,
        sample: &[u8; 16],
    ) -> Option<[u8; 5]> {
        if packet_type == PacketType::OneRtt {
            return self.data.keys.as_ref()?.opening_mask(sample);
        }
        let keys = self.long_header_keys(packet_type, version)?;
        Some(keys.header.mask(sample))
    }

    /// What opens packets of a type with a long header.
    fn long_header_keys(
        &self,
        packet_type: PacketType,
        version: Option<Version>,
    ) -> Option<&tls::Keys> {
        match packet_type {
            PacketType::Initial => self.initial_opening_keys(version),
            PacketType::Handshake => self.handshake.as_ref()?.open.as_ref(),
            PacketType::ZeroRtt => (self.data.early.as_deref()).filter(|_| self.side.is_server()),
            PacketType::OneRtt => None,
        }
    }

    fn largest_received(&self, space: Space) -> Option<u64> {
        match space {
            Space::Initial => self.initial.as_ref()?.received.largest(),
            Space::Handshake => self.handshake.as_ref()?.received.largest(),
            Space::Data => self.data.received.largest(),
        }
    }

    fn is_duplicate(&self, space: Space, number: u64) -> bool {
        match space {
            Space::Initial => self.initial.as_ref().map(|space| &space.received),
            Space::Handshake => self.handshake.as_ref().map(|space| &space.received),
            Space::Data => Some(&self.data.received),
        }
        .is_none_or(|received| received.is_duplicate(number))
    }

    /// Opens a packet in place. Returns the length of its payload.
    fn open_packet(
        &mut self,
        packet: &mut Unmasked<'_>,
        version: Option<Version>,
        now: Time,
    ) -> Result<Option<usize>, Error> {
        if packet.packet_type != PacketType::OneRtt {
            let keys = self.long_header_keys(packet.packet_type, version);
            return Ok(keys.and_then(|keys| {
                (keys.packet).open(packet.number, packet.header, packet.payload)
            }));
        }
        let (recovery, path) = (&self.recovery, &self.paths.current.path);
        let Some(keys) = &mut self.data.keys else {
            return Ok(None);
        };
        let phase = keys.phase();
        let opened = keys.open(packet, now, || recovery.pto(path))?;
        let has_update = keys.phase() != phase;
        if opened.is_none() {
            let suite = keys.suite();
            self.forgeries.add(suite)?;
        } else if self.side.is_server() && self.data.early.take().is_some() {
            // RFC 9001 section 4.9.3: what comes late is sent again.
            self.trace_discarded(PacketType::ZeroRtt);
        }
        if has_update {
            self.counters.key_updates += 1;
            self.trace_key_update(KeyTrigger::Remote);
        }
        Ok(opened)
    }

    /// Learns the peer's id from the first packet with a long header, and sees that it does not
    /// change (RFC 9000 section 7.2).
    fn note_source(&mut self, packet_type: PacketType, source: ConnectionId) -> bool {
        if packet_type == PacketType::OneRtt {
            return true;
        }
        let Some(negotiation) = &mut self.negotiation else {
            return true;
        };
        match negotiation.peer_source {
            Some(known) => known == source,
            None => {
                negotiation.peer_source = Some(source);
                self.remote_ids.set_first(source);
                true
            }
        }
    }

    /// A packet was taken: notes what its acknowledgement needs, and what it proves.
    fn note_received(
        &mut self,
        packet_type: PacketType,
        number: u64,
        elicits_ack: bool,
        mark: Codepoint,
        now: Time,
    ) {
        self.active_at = now;
        self.has_sent_since = false;
        let received = match packet_type.space() {
            Space::Initial => self.initial.as_mut().map(|space| &mut space.received),
            Space::Handshake => self.handshake.as_mut().map(|space| &mut space.received),
            Space::Data => Some(&mut self.data.received),
        };
        if let Some(received) = received {
            received.on_packet(number, elicits_ack, mark, &AckPolicy::default(), now);
        }
        if packet_type == PacketType::Handshake && self.side.is_server() {
            // RFC 9000 section 8.1: only the client at its address could know the keys.
            self.paths.current.path.set_validated();
            self.discard_space(Space::Initial);
            if let Some(negotiation) = &mut self.negotiation {
                negotiation.client_destination = None;
            }
        }
    }

    /// Retry (RFC 9000 section 17.2.5).
    fn receive_retry(&mut self, retry: &Retry<'_>) -> Outcome {
        let Some(negotiation) = &mut self.negotiation else {
            return Outcome::Dropped(DropReason::Invalid);
        };
        let is_expected = self.side == Side::Client
            && retry.version == self.original_version
            && negotiation.retry_source.is_none()
            && negotiation.peer_source.is_none()
            && !retry.token.is_empty();
        if !is_expected
            || retry.source == negotiation.original_destination
            || retry.destination != self.local_ids.first()
            || tls::retry_tag(
                self.version.to_tls(),
                &negotiation.original_destination,
                retry.without_tag(),
            ) != *retry.tag
        {
            return Outcome::Dropped(DropReason::Invalid);
        }
        negotiation.retry_source = Some(retry.source);
        negotiation.token = retry.token.into();
        negotiation.other_initial = None;
        self.remote_ids.set_first(retry.source);
        self.set_initial_keys(&retry.source);
        let path = &mut self.paths.current.path;
        for space in [Space::Initial, Space::Data] {
            self.recovery.restart_space(path, space, &mut |_, item| {
                if let crate::recovery::Item::Streams(sent) = item {
                    self.streams.on_lost(sent);
                }
            });
        }
        if let Some(initial) = &mut self.initial {
            initial.crypto.restart_sending();
        }
        Outcome::Taken
    }

    /// Version Negotiation (RFC 9000 section 6.2): the client gives up. The caller may connect
    /// again.
    fn receive_versions(&mut self, offer: &VersionNegotiation<'_>) -> Outcome {
        let is_expected = self.side == Side::Client
            && offer.destination == &self.local_ids.first()[..]
            && (self.negotiation.as_ref()).is_some_and(|n| {
                n.peer_source.is_none()
                    && n.retry_source.is_none()
                    && offer.source == &n.original_destination[..]
            });
        let knows_ours = offer
            .versions()
            .any(|number| Version::from_wire(number) == Some(self.version));
        if !is_expected || knows_ours {
            return Outcome::Dropped(DropReason::Invalid);
        }
        self.drop_silently(CloseReason::NoVersion);
        Outcome::Taken
    }
}
