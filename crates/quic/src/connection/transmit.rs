//! From what is to be sent to datagrams.

use super::close::Progress;
use super::packets::Open;
use super::paths::OffPath;
use super::{Connection, Owner};
use crate::recovery::{Allowance, BASE_DATAGRAM, Codepoint, Item};
use crate::trace::KeyTrigger;
use crate::{Side, Space, Time};
use std::net::SocketAddr;

/// Where datagrams are built. One for all connections of a thread.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The datagrams.
    pub bytes: Vec<u8>,
    /// What the packets carry that are being built.
    pub(super) items: Vec<Item>,
}

/// Datagrams that [`Connection::transmit`] has appended to an [`Outbox`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams {
    /// Where they go.
    pub to: SocketAddr,
    /// The address of this end that they come from.
    pub from: SocketAddr,
    /// How they are marked.
    pub mark: Codepoint,
    /// Bytes of each but the last, which may be shorter.
    pub segment_bytes: usize,
    /// It may be too long for the path (RFC 9000 section 14.3): nothing else shares its fate.
    pub is_mtu_probe: bool,
}

/// Of what was sent on streams, so many congestion windows are kept until all before it is
/// acknowledged. A window is in flight; while what was lost of it is sent again, another one is.
const KEPT_WINDOWS: u64 = 4;

/// So much is kept in any case: windows may be smaller than what was sent before.
const MIN_KEPT: u64 = 64 << 10;

/// What may be sent now.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// Bytes of a datagram.
    size: usize,
    /// What congestion control allows.
    allowed: u64,
    /// When the pacer allows more.
    not_before: Option<Time>,
}

impl Connection {
    /// Builds the next datagrams, at most `max_datagrams` of the same size, behind what is in the
    /// outbox. `None` if nothing is to be sent now.
    pub fn transmit(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        max_datagrams: usize,
        owner: &mut impl Owner,
    ) -> Option<Datagrams> {
        self.trace_time(now);
        let made = self.make_datagrams(now, outbox, max_datagrams, owner);
        self.trace_state();
        made
    }

    fn make_datagrams(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        max_datagrams: usize,
        owner: &mut impl Owner,
    ) -> Option<Datagrams> {
        if !self.is_ending() {
            self.keep_keys_fresh(now);
            self.end_if_ignored(now);
        }
        match self.state {
            Progress::Handshaking | Progress::Established => {}
            Progress::Closing(_) => return self.transmit_close(now, outbox, owner),
            Progress::Draining(_) | Progress::Closed(_) => return None,
        }
        self.paced_until = None;
        if self.has_off_path(now)
            && let Some(frame) = self.take_off_path(now, owner)
            && let Some(sent) = self.transmit_off_path(now, outbox, &frame, owner)
        {
            return Some(sent);
        }
        let start = outbox.bytes.len();
        let mark = match self.paths.current.path.marks_ecn() {
            true => Codepoint::Ect0,
            false => Codepoint::NotEct,
        };
        match self.is_in_handshake() {
            true => self.build_coalesced(now, outbox, mark, owner),
            false => self.build_data(now, outbox, mark, max_datagrams, owner),
        }
        .map(|segment_bytes| {
            let bytes = outbox.bytes.len() - start;
            self.note_sent(bytes, bytes.div_ceil(segment_bytes));
            let addresses = self.paths.current.addresses;
            Datagrams {
                to: addresses.remote,
                from: addresses.local,
                mark,
                segment_bytes,
                is_mtu_probe: segment_bytes > usize::from(self.datagram_size()),
            }
        })
    }

    fn note_sent(&mut self, bytes: usize, datagrams: usize) {
        self.counters.bytes_sent += bytes as u64;
        self.counters.datagrams_sent += datagrams as u64;
        self.paths.current.path.on_datagram_sent(bytes);
    }

    /// Whether packets of the handshake may have to be sent.
    fn is_in_handshake(&self) -> bool {
        self.initial.is_some() || self.handshake.is_some()
    }

    /// Whether nothing may be sent before the peer has sent more: its address is not validated
    /// (RFC 9000 section 8.1).
    pub(super) fn is_held_back(&self) -> bool {
        let is_in_handshake = self.is_in_handshake();
        self.paths.current.path.is_held_back(is_in_handshake)
    }

    /// What may be sent. `None` if the peer's address has to be validated first.
    fn room(&mut self, now: Time) -> Option<Room> {
        if self.is_held_back() {
            return None;
        }
        let path = &mut self.paths.current.path;
        let max_kept = path.window().saturating_mul(KEPT_WINDOWS).max(MIN_KEPT);
        self.streams.set_max_kept(max_kept);
        let size = u64::from(path.datagram_size()).min(path.amplification_credit());
        let (allowed, not_before) = match self.recovery.allowance(path, now) {
            Allowance::Bytes(bytes) => (bytes, None),
            Allowance::NotBefore(time) => (0, Some(time)),
            Allowance::Congested => (0, None),
        };
        Some(Room {
            size: size as usize, // a datagram's
            allowed,
            not_before,
        })
    }

    /// One datagram with packets of all levels that have something to send (RFC 9000 section 12.2).
    fn build_coalesced(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mark: Codepoint,
        owner: &mut impl Owner,
    ) -> Option<usize> {
        let start = outbox.bytes.len();
        outbox.items.clear();
        let Room {
            size,
            allowed,
            not_before,
        } = self.room(now)?;
        let mut open: Option<Open> = None;
        let (mut needs_padding, mut has_handshake) = (false, false);
        for space in Space::ALL {
            let is_probe = self.recovery.probes(space) > 0;
            if is_probe {
                self.take_probe(space);
            }
            let may_send = allowed >= size as u64 || is_probe;
            // Another packet begins behind the room for the tag.
            let before = open.as_ref().map(|open| open.reserve_tag(outbox));
            let Some(next) = self.open_packet_for(space, start + size, mark, outbox, owner) else {
                if let (Some(open), Some(end)) = (&open, before) {
                    open.release_tag(end, outbox);
                }
                continue;
            };
            match self.fill(now, next, (may_send, is_probe), outbox, owner) {
                Some(next) => {
                    // RFC 9000 section 14.1.
                    needs_padding |=
                        space == Space::Initial && (self.side == Side::Client || next.elicits_ack);
                    has_handshake |= space == Space::Handshake;
                    let end = next.starts();
                    if let Some(done) = open.replace(next) {
                        self.close_packet(now, &done, end, outbox);
                    }
                }
                None => {
                    if let (Some(open), Some(end)) = (&open, before) {
                        open.release_tag(end, outbox);
                    }
                }
            }
        }
        if allowed < size as u64 {
            self.note_pacing(not_before, now);
        }
        let mut last = open?;
        if needs_padding {
            last.pad_to(start + usize::from(BASE_DATAGRAM), outbox);
        }
        self.close_last(now, last, outbox);
        if self.side == Side::Client && has_handshake {
            // RFC 9001 section 4.9.1.
            self.discard_space(Space::Initial);
        }
        Some(outbox.bytes.len() - start)
    }

    /// The owner has nothing more to send than was sent: the window is not what limits it, and does
    /// not grow (RFC 9002 section 7.8). To be told when [`Connection::transmit`] makes nothing more
    /// and streams wait for nothing but the owner.
    pub fn note_all_sent(&mut self) {
        if !self.streams.has_pending() {
            self.paths.current.path.set_app_limited();
        }
    }

    /// Datagrams of one 1-RTT packet each.
    fn build_data(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mark: Codepoint,
        max_datagrams: usize,
        owner: &mut impl Owner,
    ) -> Option<usize> {
        let Room {
            mut size,
            mut allowed,
            not_before,
        } = self.room(now)?;
        let max_datagrams = match self.paths.current.path.is_validated() {
            true => max_datagrams.max(1),
            false => 1,
        };
        if allowed >= size as u64
            && let Some(bytes) = self.build_mtu_probe(now, outbox, mark, allowed, owner)
        {
            return Some(bytes);
        }
        let mut segment = 0;
        for _ in 0..max_datagrams {
            let start = outbox.bytes.len();
            outbox.items.clear();
            let is_probe = self.recovery.probes(Space::Data) > 0;
            if self.marks_change(mark) {
                break;
            }
            if is_probe {
                self.take_probe(Space::Data);
                // A path may have got narrower: what has to arrive goes in small datagrams.
                size = size.min(BASE_DATAGRAM.into());
            }
            let may_send = allowed >= size as u64 || is_probe;
            let Some(packet) = self.open_packet_for(Space::Data, start + size, mark, outbox, owner)
            else {
                break;
            };
            let Some(packet) = self.fill(now, packet, (may_send, is_probe), outbox, owner) else {
                if !may_send {
                    self.note_pacing(not_before, now);
                }
                break;
            };
            let elicits_ack = packet.elicits_ack;
            self.close_last(now, packet, outbox);
            let len = outbox.bytes.len() - start;
            if elicits_ack {
                allowed = allowed.saturating_sub(len as u64);
            }
            if segment == 0 {
                segment = len;
                // None of those behind it is longer.
                size = len;
            }
            if len < segment || is_probe {
                break;
            }
        }
        (segment > 0).then_some(segment)
    }

    /// There is to be a call when the pacer allows more, if something waits for that.
    fn note_pacing(&mut self, not_before: Option<Time>, now: Time) {
        if not_before.is_some() && Space::ALL.iter().any(|&space| self.has_frames(space, now)) {
            self.paced_until = not_before;
        }
    }

    /// Whether the next packet would be marked otherwise than this one.
    fn marks_change(&self, mark: Codepoint) -> bool {
        self.paths.current.path.marks_ecn() != (mark == Codepoint::Ect0)
    }

    /// RFC 9000 section 13.2.1: all packets that elicit an ACK are acknowledged in time.
    fn end_if_ignored(&mut self, now: Time) {
        if self.recovery.is_ignored() {
            let reason = "nothing is acknowledged";
            let error = crate::Error::new(crate::Code::PROTOCOL_VIOLATION, reason);
            self.fail(now, error);
        }
    }

    /// Updates keys in time. The connection has to end if it could not.
    fn keep_keys_fresh(&mut self, now: Time) {
        let is_confirmed = self.is_confirmed;
        let Some(keys) = &mut self.data.keys else {
            return;
        };
        if keys.is_worn() && is_confirmed && keys.may_update(now) {
            keys.update();
            self.counters.key_updates += 1;
            self.trace_key_update(KeyTrigger::Local);
        } else if keys.is_exhausted() {
            let reason = "the keys could not be updated in time";
            self.fail(
                now,
                crate::Error::new(crate::Code::AEAD_LIMIT_REACHED, reason),
            );
        }
    }

    /// Updates the keys of 1-RTT packets now, if that is allowed. Returns whether it was.
    pub fn update_keys(&mut self, now: Time) -> bool {
        let is_confirmed = self.is_confirmed;
        match &mut self.data.keys {
            Some(keys) if is_confirmed && keys.may_update(now) => {
                keys.update();
                self.counters.key_updates += 1;
                self.trace_time(now);
                self.trace_key_update(KeyTrigger::Local);
                true
            }
            _ => false,
        }
    }

    /// A datagram that finds out whether the path carries larger ones.
    fn build_mtu_probe(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mark: Codepoint,
        allowed: u64,
        owner: &mut impl Owner,
    ) -> Option<usize> {
        if !self.is_confirmed || !self.paths.current.path.is_validated() {
            return None;
        }
        let size = self.paths.current.path.mtu_probe(now)?;
        if allowed < size.into() {
            return None;
        }
        let start = outbox.bytes.len();
        outbox.items.clear();
        let end = start + usize::from(size);
        let mut packet = self.open_packet_for(Space::Data, end, mark, outbox, owner)?;
        packet.put_ping(outbox);
        packet.pad_to(end, outbox);
        packet.is_mtu_probe = true;
        self.close_last(now, packet, outbox);
        Some(outbox.bytes.len() - start)
    }

    /// A datagram about another path, which carries nothing else.
    fn transmit_off_path(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        off_path: &OffPath,
        owner: &mut impl Owner,
    ) -> Option<Datagrams> {
        let start = outbox.bytes.len();
        outbox.items.clear();
        let end = start + off_path.most;
        let mark = Codepoint::NotEct;
        let mut packet =
            self.open_packet_to(Space::Data, &off_path.id, end, mark, outbox, owner)?;
        packet.put_path_frame(off_path.frame, outbox);
        packet.pad_to(end, outbox);
        packet.is_off_path = true;
        self.close_last(now, packet, outbox);
        let bytes = outbox.bytes.len() - start;
        self.counters.bytes_sent += bytes as u64;
        self.counters.datagrams_sent += 1;
        Some(Datagrams {
            to: off_path.addresses.remote,
            from: off_path.addresses.local,
            mark,
            segment_bytes: bytes,
            is_mtu_probe: false,
        })
    }

    /// CONNECTION_CLOSE, in packets of all levels that the peer may be able to open
    /// (RFC 9000 section 10.2.3).
    fn transmit_close(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        owner: &mut impl Owner,
    ) -> Option<Datagrams> {
        if !self.has_close_to_send() {
            return None;
        }
        let start = outbox.bytes.len();
        outbox.items.clear();
        let credit = self.paths.current.path.amplification_credit();
        let size = credit.min(BASE_DATAGRAM.into()) as usize;
        let reason = self.take_close()?;
        let mut open: Option<Open> = None;
        for space in Space::ALL {
            let before = open.as_ref().map(|open| open.reserve_tag(outbox));
            match self.open_close(space, start + size, &reason, outbox, owner) {
                Some(next) => {
                    let end = next.starts();
                    if let Some(done) = open.replace(next) {
                        self.close_packet(now, &done, end, outbox);
                    }
                }
                None => {
                    if let (Some(open), Some(end)) = (&open, before) {
                        open.release_tag(end, outbox);
                    }
                }
            }
        }
        let mut last = open?;
        if self.initial.is_some() {
            last.pad_to(start + size, outbox);
        }
        self.close_last(now, last, outbox);
        let bytes = outbox.bytes.len() - start;
        self.note_sent(bytes, 1);
        let addresses = self.paths.current.addresses;
        Some(Datagrams {
            to: addresses.remote,
            from: addresses.local,
            mark: Codepoint::NotEct,
            segment_bytes: bytes,
            is_mtu_probe: false,
        })
    }
}
