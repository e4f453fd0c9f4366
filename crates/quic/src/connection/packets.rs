//! From frames to packets.

use super::close::CloseReason;
use super::paths::PathFrame;
use super::settings::ACK_DELAY_EXPONENT;
use super::transmit::Outbox;
use super::{Connection, Owner};
use crate::frame::{self, Frame, NewConnectionId};
use crate::packet::{Building, Form, Header, TAG_LEN};
use crate::recovery::{BASE_DATAGRAM, Codepoint, Fate, Item, Packet, Received};
use crate::streams::Outgoing;
use crate::{ConnectionId, Direction, Space, Time};

/// A packet has at least so much room for frames, or is not begun.
const MIN_ROOM: usize = 32;

/// A packet that is being built at the end of an outbox.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) space: Space,
    number: u64,
    building: Building,
    /// Where its items begin in the outbox.
    first_item: usize,
    /// Where its frames have to end.
    limit: usize,
    mark: Codepoint,
    /// It is a 0-RTT packet.
    is_early: bool,
    pub(super) elicits_ack: bool,
    is_padded: bool,
    pub(super) is_mtu_probe: bool,
    /// It goes along another path than the current one.
    pub(super) is_off_path: bool,
    /// Another packet, or frame, may not follow in it.
    is_full: bool,
}

impl Open {
    /// Adds the room for the tag, so that another packet can begin behind it. Returns where the
    /// frames end.
    pub(super) fn reserve_tag(&self, outbox: &mut Outbox) -> usize {
        let end = outbox.bytes.len();
        let _ = self.building.close(&mut outbox.bytes);
        end
    }

    /// Takes that back: no packet follows.
    pub(super) fn release_tag(&self, end: usize, outbox: &mut Outbox) {
        outbox.bytes.truncate(end);
    }

    /// Pads the packet so that its datagram ends at `end`.
    pub(super) fn pad_to(&mut self, end: usize, outbox: &mut Outbox) {
        let before = outbox.bytes.len();
        self.building.pad_to(end, &mut outbox.bytes);
        self.is_padded |= outbox.bytes.len() > before;
    }

    fn put(&mut self, frame: &Frame<'_>, item: Item, outbox: &mut Outbox) -> bool {
        if frame.encoded_len() > self.room(outbox) {
            return false;
        }
        frame.put(&mut outbox.bytes);
        outbox.items.push(item);
        self.elicits_ack = true;
        true
    }

    pub(super) fn put_ping(&mut self, outbox: &mut Outbox) {
        self.put(&Frame::Ping, Item::Ping, outbox);
    }

    pub(super) fn put_path_frame(&mut self, frame: PathFrame, outbox: &mut Outbox) {
        match frame {
            PathFrame::Challenge(data) => {
                self.put(&Frame::PathChallenge(data), Item::PathChallenge, outbox);
            }
            PathFrame::Response(data) => {
                self.put(&Frame::PathResponse(data), Item::PathResponse, outbox);
            }
        }
    }

    fn room(&self, outbox: &Outbox) -> usize {
        self.limit.saturating_sub(outbox.bytes.len())
    }

    /// Takes the packet back.
    fn undo(&self, outbox: &mut Outbox) {
        outbox.bytes.truncate(self.building.start());
        outbox.items.truncate(self.first_item);
    }

    /// Where it and its frames begin in the outbox.
    pub(super) fn places(&self) -> (usize, usize) {
        (self.building.start(), self.building.payload_at())
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is a 0-RTT packet.
    pub(super) fn is_early(&self) -> bool {
        self.is_early
    }

    /// Where it begins in the outbox, and its items.
    pub(super) fn starts(&self) -> (usize, usize) {
        (self.building.start(), self.first_item)
    }
}

impl Connection {
    /// Whether 1-RTT packets can be sealed.
    pub(super) fn can_seal_data(&self) -> bool {
        self.data.keys.is_some()
    }

    /// Begins a packet to the peer's id on the current path. `None` if there are no keys, or no
    /// room before `end`.
    pub(super) fn open_packet_for(
        &mut self,
        space: Space,
        end: usize,
        mark: Codepoint,
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> Option<Open> {
        let id = self.remote_id();
        self.open_packet_to(space, &id, end, mark, outbox, owner)
    }

    pub(super) fn open_packet_to(
        &mut self,
        space: Space,
        id: &ConnectionId,
        end: usize,
        mark: Codepoint,
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> Option<Open> {
        let source = self.local_ids.first();
        let version = self.version;
        let mut is_early = false;
        let form = match space {
            Space::Initial => {
                self.initial.as_ref()?.seal.as_ref()?;
                let token = match self.side.is_client() {
                    true => self.negotiation.as_ref().map_or(&[][..], |n| &n.token),
                    false => &[],
                };
                Form::Initial {
                    version,
                    source: &source,
                    token,
                }
            }
            Space::Handshake => {
                self.handshake.as_ref()?.seal.as_ref()?;
                Form::Handshake {
                    version,
                    source: &source,
                }
            }
            Space::Data => match &self.data.keys {
                Some(keys) => Form::OneRtt {
                    spin: false,
                    key_phase: keys.phase(),
                },
                None if self.side.is_client() && self.data.early.is_some() => {
                    is_early = true;
                    Form::ZeroRtt {
                        version: self.original_version,
                        source: &source,
                    }
                }
                None => return None,
            },
        };
        let number = self.recovery.packet_number(space, || owner.random());
        let largest_acked = self.recovery.largest_acked(space);
        let header = Header {
            destination: id,
            form,
            fixed_bit: true,
        };
        let start = outbox.bytes.len();
        if start + header.overhead(number, largest_acked) + MIN_ROOM > end {
            return None;
        }
        let building = header.put(number, largest_acked, &mut outbox.bytes);
        Some(Open {
            space,
            number,
            building,
            first_item: outbox.items.len(),
            limit: end - TAG_LEN,
            mark,
            is_early,
            elicits_ack: false,
            is_padded: false,
            is_mtu_probe: false,
            is_off_path: false,
            is_full: false,
        })
    }

    /// Puts frames into a packet that has been begun. Takes it back, and returns `None`, if there
    /// are none. `may_send`: congestion control allows more than an ACK; `is_probe`: the packet has
    /// to elicit one.
    pub(super) fn fill(
        &mut self,
        now: Time,
        mut packet: Open,
        (may_send, is_probe): (bool, bool),
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> Option<Open> {
        let space = packet.space;
        // Frames about a path that is not validated are few, and what it carries is not known
        // before they are answered. Nor are there many challenges of one that is.
        let may_send_about_path =
            may_send || !self.paths.current.path.is_validated() || self.has_challenge_due(now);
        let has_path_frame = space == Space::Data
            && !packet.is_early
            && may_send_about_path
            && self.has_path_frame(now);
        let has_frames = has_path_frame || may_send && self.has_frames(space, now);
        let is_ack_due = !packet.is_early
            && (self.received(space)).is_some_and(|received| received.ack_needed(now));
        if !has_frames && !is_ack_due && !is_probe {
            packet.undo(outbox);
            return None;
        }
        // First, as an ACK may take all the room that there is.
        let has_challenge = has_path_frame && self.put_path_frames(now, &mut packet, outbox, owner);
        if !packet.is_early {
            self.put_ack(now, &mut packet, outbox);
        }
        if has_path_frame {
            self.pad_for_path(has_challenge, &mut packet, outbox);
        }
        if may_send && !packet.is_padded {
            match space {
                Space::Data => self.put_data_frames(&mut packet, outbox, owner),
                Space::Initial | Space::Handshake => self.put_crypto(&mut packet, outbox),
            }
        }
        let wants_ping = !packet.is_early && self.recovery.wants_ping(space);
        if !packet.elicits_ack && (is_probe || wants_ping) {
            packet.put_ping(outbox);
        }
        if outbox.bytes.len() == packet.building.payload_at() {
            packet.undo(outbox);
            return None;
        }
        Some(packet)
    }

    /// Whether there is more to send in a packet than an ACK.
    pub(super) fn has_frames(&self, space: Space, now: Time) -> bool {
        let crypto = |space: &super::HandshakeSpace| space.crypto.has_pending();
        match space {
            Space::Initial => self.initial.as_deref().is_some_and(crypto),
            Space::Handshake => self.handshake.as_deref().is_some_and(crypto),
            Space::Data if self.data.keys.is_none() => {
                self.data.early.is_some() && self.streams.has_pending()
            }
            Space::Data => {
                self.streams.has_pending()
                    || self.once.is_due()
                    || (self.data.crypto.as_ref()).is_some_and(|crypto| crypto.has_pending())
                    || self.local_ids.has_to_send()
                    || self.remote_ids.has_to_retire()
                    || self.has_path_frame(now)
            }
        }
    }

    fn received(&mut self, space: Space) -> Option<&mut Received> {
        match space {
            Space::Initial => self.initial.as_mut().map(|space| &mut space.received),
            Space::Handshake => self.handshake.as_mut().map(|space| &mut space.received),
            Space::Data => Some(&mut self.data.received),
        }
    }

    /// An ACK frame, if there is anything new to tell.
    fn put_ack(&mut self, now: Time, packet: &mut Open, outbox: &mut Outbox) {
        let room = packet.room(outbox);
        let space = packet.space;
        let Some(received) = self.received(space).filter(|received| received.has_news()) else {
            return;
        };
        let Some(largest) = received.largest() else {
            return;
        };
        let delay = received.ack_delay(now).as_micros() >> ACK_DELAY_EXPONENT;
        let raw_delay = u64::try_from(delay).unwrap_or(u64::MAX);
        let ecn = received.ecn().copied();
        let out = &mut outbox.bytes;
        if frame::put_ack(out, room, received.ranges(), raw_delay, ecn) > 0 {
            received.on_ack_sent();
            outbox.items.push(Item::Ack { space, largest });
        }
    }

    fn put_crypto(&mut self, packet: &mut Open, outbox: &mut Outbox) {
        let space = packet.space;
        let crypto = match space {
            Space::Initial => self.initial.as_mut().map(|space| &mut space.crypto),
            Space::Handshake => self.handshake.as_mut().map(|space| &mut space.crypto),
            Space::Data => self.data.crypto.as_deref_mut(),
        };
        let Some(crypto) = crypto else {
            return;
        };
        while let Some((offset, data)) = crypto.next_range(packet.room(outbox)) {
            let len = data.len() as u16; // a packet is shorter than that
            Frame::Crypto { offset, data }.put(&mut outbox.bytes);
            outbox.items.push(Item::Crypto { space, offset, len });
            packet.elicits_ack = true;
        }
    }

    /// Frames about the path. Nothing but an ACK goes with them. Returns whether one of them is a
    /// challenge.
    fn put_path_frames(
        &mut self,
        now: Time,
        packet: &mut Open,
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> bool {
        let mut has_challenge = false;
        while let Some(frame) = self.take_path_frame(now, owner) {
            has_challenge |= matches!(frame, PathFrame::Challenge(_));
            packet.put_path_frame(frame, outbox);
        }
        has_challenge
    }

    /// RFC 9000 section 8.2.1: the answer shows as well that the path carries so much, unless the
    /// limit for addresses that are not validated made the datagram shorter.
    fn pad_for_path(&mut self, has_challenge: bool, packet: &mut Open, outbox: &mut Outbox) {
        let end = packet.building.start() + usize::from(BASE_DATAGRAM);
        let limit = packet.limit + TAG_LEN;
        if has_challenge {
            self.note_challenge_size(limit >= end);
        }
        packet.pad_to(end.min(limit), outbox);
    }

    /// Frames of 0-RTT and 1-RTT packets.
    fn put_data_frames(&mut self, packet: &mut Open, outbox: &mut Outbox, owner: &mut impl Owner) {
        if !packet.is_early {
            self.put_once(packet, outbox);
            self.put_crypto(packet, outbox);
            self.put_ids(packet, outbox);
        }
        self.put_streams(packet, outbox, owner);
    }

    fn put_once(&mut self, packet: &mut Open, outbox: &mut Outbox) {
        let once = &mut self.once;
        if once.handshake_done && packet.put(&Frame::HandshakeDone, Item::HandshakeDone, outbox) {
            once.handshake_done = false;
        }
        if once.new_token_is_due
            && let Some(token) = &once.new_token
            && packet.put(&Frame::NewToken(token), Item::NewToken, outbox)
        {
            once.new_token_is_due = false;
        }
        if once.ping && packet.put(&Frame::Ping, Item::Ping, outbox) {
            once.ping = false;
        }
    }

    fn put_ids(&mut self, packet: &mut Open, outbox: &mut Outbox) {
        while let Some(&issued) = self.local_ids.to_send() {
            let frame = Frame::NewConnectionId(NewConnectionId {
                sequence: issued.sequence,
                retire_prior_to: 0,
                id: issued.id,
                reset_token: issued.reset_token,
            });
            let item = Item::NewConnectionId(issued.sequence);
            if !packet.put(&frame, item, outbox) {
                return;
            }
            self.local_ids.on_sent(issued.sequence);
        }
        // A frame of at most nine bytes.
        while packet.room(outbox) >= 9
            && let Some(sequence) = self.remote_ids.take_to_retire()
        {
            let item = Item::RetireConnectionId(sequence);
            packet.put(&Frame::RetireConnectionId(sequence), item, outbox);
        }
    }

    fn put_streams(&mut self, packet: &mut Open, outbox: &mut Outbox, owner: &mut impl Owner) {
        while !packet.is_full {
            let room = packet.room(outbox);
            let Some(outgoing) = self.streams.next_frame(room) else {
                return;
            };
            match outgoing {
                Outgoing::Stream {
                    id,
                    offset,
                    len,
                    fin,
                    last,
                } => {
                    let len = usize::from(len);
                    let told = (!last).then_some(len);
                    let out = &mut outbox.bytes;
                    let id_number = id.to_wire();
                    if last {
                        // It ends with the packet: what is left over goes before it.
                        let header = frame::stream_header_len(id_number, offset, told);
                        frame::put_padding(out, room.saturating_sub(header + len));
                    }
                    frame::put_stream_header(out, id_number, offset, told, fin);
                    let data_at = out.len();
                    owner.copy(id, offset, len, out);
                    debug_assert_eq!(out.len() - data_at, len, "the owner copies what was asked");
                    out.resize(data_at + len, 0);
                    packet.is_full = last;
                }
                other => stream_frame(other).put(&mut outbox.bytes),
            }
            outbox.items.push(Item::Streams(outgoing.sent()));
            packet.elicits_ack = true;
        }
    }

    /// Has items sent again that a probe should carry.
    pub(super) fn take_probe(&mut self, space: Space) {
        let mut owners = super::frames::item_owners!(self);
        self.recovery
            .take_probe_items(space, &mut |_, item| owners.tell(Fate::Probe, item));
    }

    /// Seals the last packet of the outbox, and remembers it.
    pub(super) fn close_last(&mut self, now: Time, packet: Open, outbox: &mut Outbox) {
        packet.reserve_tag(outbox);
        let end = (outbox.bytes.len(), outbox.items.len());
        self.close_packet(now, &packet, end, outbox);
    }

    /// Seals a packet whose bytes and items end at `end`, and remembers it.
    pub(super) fn close_packet(
        &mut self,
        now: Time,
        packet: &Open,
        (end, last_item): (usize, usize),
        outbox: &mut Outbox,
    ) {
        self.trace_sent(packet, end, outbox);
        self.seal(packet, end, outbox);
        let size = end - packet.building.start();
        let is_marked = packet.mark == Codepoint::Ect0;
        let in_flight = packet.elicits_ack || packet.is_padded;
        let sent = Packet {
            number: packet.number,
            time: now,
            size: u16::try_from(size).unwrap_or(u16::MAX),
            ack_eliciting: packet.elicits_ack,
            in_flight,
            ecn: is_marked,
            mtu_probe: packet.is_mtu_probe,
        };
        if packet.is_off_path {
            self.recovery.on_sent_off_path(packet.space, &sent);
            return;
        }
        let items = &outbox.items[packet.first_item..last_item];
        let path = &mut self.paths.current.path;
        self.recovery.on_sent(path, packet.space, &sent, items);
        if packet.elicits_ack && !self.has_sent_since {
            self.has_sent_since = true;
            self.active_at = now;
        }
    }

    /// Seals a packet in place and protects its header.
    fn seal(&mut self, packet: &Open, end: usize, outbox: &mut Outbox) {
        let building = packet.building;
        let out = &mut outbox.bytes[..end];
        let (header, payload) =
            out[building.start()..].split_at_mut(building.payload_at() - building.start());
        let keys = match packet.space {
            Space::Initial => self.initial.as_ref().and_then(|space| space.seal.as_ref()),
            Space::Handshake => self
                .handshake
                .as_ref()
                .and_then(|space| space.seal.as_ref()),
            Space::Data if packet.is_early => self.data.early.as_deref(),
            Space::Data => None,
        };
        let mask = match (keys, &mut self.data.keys) {
            (Some(keys), _) => {
                keys.packet.seal(packet.number, header, payload);
                keys.header.mask(building.sample(out))
            }
            (None, Some(keys)) => {
                keys.seal(packet.number, header, payload);
                keys.sealing_mask(building.sample(out))
            }
            (None, None) => unreachable!("a packet is begun only with its keys"),
        };
        building.protect(out, &mask);
    }

    /// A packet with CONNECTION_CLOSE.
    pub(super) fn open_close(
        &mut self,
        space: Space,
        end: usize,
        reason: &CloseReason,
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> Option<Open> {
        let packet = self.open_packet_for(space, end, Codepoint::NotEct, outbox, owner)?;
        let (code, frame_type, text) = reason.to_frame(space != Space::Data);
        let room = packet.room(outbox);
        if packet.is_early || !frame::put_close(&mut outbox.bytes, room, code, frame_type, text) {
            packet.undo(outbox);
            return None;
        }
        Some(packet)
    }
}

impl super::OnceFrames {
    fn is_due(&self) -> bool {
        self.handshake_done || self.new_token_is_due || self.ping
    }
}

/// A frame of streams without data.
fn stream_frame(outgoing: Outgoing) -> Frame<'static> {
    let is_bidirectional = |direction| direction == Direction::Bidirectional;
    match outgoing {
        Outgoing::Stream { .. } => unreachable!("written with its data"),
        Outgoing::MaxData { value } => Frame::MaxData(value),
        Outgoing::MaxStreamData { id, value } => Frame::MaxStreamData {
            id: id.to_wire(),
            limit: value,
        },
        Outgoing::MaxStreams { direction, value } => Frame::MaxStreams {
            bidirectional: is_bidirectional(direction),
            limit: value,
        },
        Outgoing::ResetStream {
            id,
            code,
            final_size,
        } => Frame::ResetStream {
            id: id.to_wire(),
            code,
            final_size,
        },
        Outgoing::StopSending { id, code } => Frame::StopSending {
            id: id.to_wire(),
            code,
        },
        Outgoing::DataBlocked { value } => Frame::DataBlocked(value),
        Outgoing::StreamDataBlocked { id, value } => Frame::StreamDataBlocked {
            id: id.to_wire(),
            limit: value,
        },
        Outgoing::StreamsBlocked { direction, value } => Frame::StreamsBlocked {
            bidirectional: is_bidirectional(direction),
            limit: value,
        },
    }
}
