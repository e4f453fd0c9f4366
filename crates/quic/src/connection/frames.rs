//! What the frames of a packet do.

use super::{Addresses, CloseReason, Connection, Owner};
use crate::crypto_stream::CryptoStream;
use crate::frame::{Ack, Frame, Frames, NewConnectionId};
use crate::packet::PacketType;
use crate::recovery::{AckInfo, Fate, Item, Received};
use crate::streams::{Sent, Streams};
use crate::{ConnectionId, Direction, Error, Space, StreamId, Time};

/// What a packet was, for what comes after its frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents {
    /// It is to be acknowledged.
    pub(super) elicits_ack: bool,
    /// It does not show that the peer uses the path (RFC 9000 section 9.1).
    pub(super) only_probes: bool,
}

/// Whom items belong to that were acknowledged or lost.
pub(super) struct ItemOwners<'a> {
    pub(super) streams: &'a mut Streams,
    pub(super) initial: Option<&'a mut CryptoStream>,
    pub(super) handshake: Option<&'a mut CryptoStream>,
    pub(super) data: Option<&'a mut CryptoStream>,
    pub(super) received: [Option<&'a mut Received>; 3],
    pub(super) local_ids: &'a mut super::LocalIds,
    pub(super) remote_ids: &'a mut super::RemoteIds,
    pub(super) once: &'a mut super::OnceFrames,
    pub(super) frames_lost: &'a mut u64,
}

impl ItemOwners<'_> {
    /// Tells an item's owner what became of it.
    pub(super) fn tell(&mut self, fate: Fate, item: Item) {
        *self.frames_lost += u64::from(fate == Fate::Lost && !matches!(item, Item::Ack { .. }));
        match fate {
            Fate::Acked => self.acked(item),
            Fate::Lost | Fate::Probe => self.lost(fate, item),
        }
    }

    fn crypto(&mut self, space: Space) -> Option<&mut CryptoStream> {
        match space {
            Space::Initial => self.initial.as_deref_mut(),
            Space::Handshake => self.handshake.as_deref_mut(),
            Space::Data => self.data.as_deref_mut(),
        }
    }

    fn acked(&mut self, item: Item) {
        match item {
            Item::Streams(sent) => self.streams.on_acked(sent),
            Item::Crypto { space, offset, len } => {
                if let Some(crypto) = self.crypto(space) {
                    crypto.on_acked(offset, len.into());
                }
            }
            Item::Ack { space, largest } => {
                if let Some(received) = &mut self.received[space.index()] {
                    received.on_ack_acked(largest);
                }
            }
            Item::RetireConnectionId(_) => self.remote_ids.on_retire_acked(),
            // Unless another one was to be sent since.
            Item::NewToken if self.once.new_token_is_due => {}
            Item::NewToken => self.once.new_token = None,
            Item::NewConnectionId(_)
            | Item::HandshakeDone
            | Item::PathChallenge
            | Item::PathResponse
            | Item::Ping => {}
        }
    }

    fn lost(&mut self, fate: Fate, item: Item) {
        match item {
            Item::Streams(sent) => self.streams.on_lost(sent),
            Item::Crypto { space, offset, len } => {
                if let Some(crypto) = self.crypto(space) {
                    crypto.on_lost(offset, len.into());
                }
            }
            Item::NewConnectionId(sequence) => self.local_ids.on_lost(sequence),
            Item::RetireConnectionId(sequence) if fate == Fate::Lost => {
                self.remote_ids.on_retire_lost(sequence);
            }
            Item::HandshakeDone => self.once.handshake_done = true,
            Item::NewToken => self.once.new_token_is_due = self.once.new_token.is_some(),
            // A new one is made where it is needed.
            Item::RetireConnectionId(_)
            | Item::Ack { .. }
            | Item::PathChallenge
            | Item::PathResponse
            | Item::Ping => {}
        }
    }
}

/// Borrows the owners of items out of a connection, beside its recovery and its paths.
macro_rules! item_owners {
    ($connection:ident) => {{
        let (initial, initial_received) = match &mut $connection.initial {
            Some(space) => (Some(&mut space.crypto), Some(&mut space.received)),
            None => (None, None),
        };
        let (handshake, handshake_received) = match &mut $connection.handshake {
            Some(space) => (Some(&mut space.crypto), Some(&mut space.received)),
            None => (None, None),
        };
        $crate::connection::frames::ItemOwners {
            streams: &mut $connection.streams,
            initial,
            handshake,
            data: $connection.data.crypto.as_deref_mut(),
            received: [
                initial_received,
                handshake_received,
                Some(&mut $connection.data.received),
            ],
            local_ids: &mut $connection.local_ids,
            remote_ids: &mut $connection.remote_ids,
            once: &mut $connection.once,
            frames_lost: &mut $connection.counters.frames_lost,
        }
    }};
}
pub(super) use item_owners;

impl Connection {
    /// Does what the frames of a packet say.
    ///
    /// # Errors
    /// What is wrong with one of them: the connection has to end.
    pub(super) fn receive_frames(
        &mut self,
        now: Time,
        place: (PacketType, ConnectionId, Addresses),
        payload: &[u8],
        owner: &mut impl Owner,
    ) -> Result<Contents, Error> {
        let mut contents = Contents {
            elicits_ack: false,
            only_probes: true,
        };
        for frame in Frames::new(payload, place.0, self.side) {
            let frame = frame?;
            contents.elicits_ack |= frame.is_ack_eliciting();
            contents.only_probes &= frame.is_probing();
            self.receive_frame(now, place, frame, owner)
                .map_err(|error| match error.frame_type {
                    0 => {
                        let frame_type = frame.frame_type();
                        error.in_frame(frame_type)
                    }
                    _ => error,
                })?;
            if self.is_ending() {
                break;
            }
        }
        Ok(contents)
    }

    fn receive_frame(
        &mut self,
        now: Time,
        (packet_type, destination, addresses): (PacketType, ConnectionId, Addresses),
        frame: Frame<'_>,
        owner: &mut impl Owner,
    ) -> Result<(), Error> {
        let id = StreamId::from_wire;
        let direction = |bidirectional| match bidirectional {
            true => Direction::Bidirectional,
            false => Direction::Unidirectional,
        };
        match frame {
            Frame::Padding(_) | Frame::Ping => Ok(()),
            Frame::DataBlocked(max) => {
                self.streams.on_data_blocked(max);
                Ok(())
            }
            Frame::Ack(ack) => self.receive_ack(now, packet_type.space(), &ack),
            Frame::Stream {
                id: stream,
                offset,
                data,
                fin,
            } => {
                let mut sink = |id, bytes: &[u8], fin| owner.receive(id, bytes, fin);
                self.streams
                    .on_stream(id(stream), offset, data, fin, &mut sink)
            }
            Frame::Crypto { offset, data } => {
                self.receive_crypto(packet_type.space(), offset, data)
            }
            Frame::ResetStream {
                id: stream,
                code,
                final_size,
            } => self.streams.on_reset_stream(id(stream), code, final_size),
            Frame::StopSending { id: stream, code } => {
                self.streams.on_stop_sending(id(stream), code)
            }
            Frame::MaxData(value) => {
                self.streams.on_max_data(value);
                Ok(())
            }
            Frame::MaxStreamData { id: stream, limit } => {
                self.streams.on_max_stream_data(id(stream), limit)
            }
            Frame::MaxStreams {
                bidirectional,
                limit,
            } => self.streams.on_max_streams(direction(bidirectional), limit),
            Frame::StreamDataBlocked { id: stream, .. } => {
                self.streams.on_stream_data_blocked(id(stream))
            }
            Frame::StreamsBlocked {
                bidirectional,
                limit,
            } => self
                .streams
                .on_streams_blocked(direction(bidirectional), limit),
            Frame::NewConnectionId(new) => self.receive_new_id(&new),
            Frame::RetireConnectionId(sequence) => {
                self.local_ids.retire(sequence, &destination, owner)
            }
            Frame::PathChallenge(data) => {
                self.note_challenge(addresses, data);
                Ok(())
            }
            Frame::PathResponse(data) => {
                self.note_response(now, data);
                Ok(())
            }
            // A client may ignore it (RFC 9000 section 8.1.3).
            Frame::NewToken(_) => Ok(()),
            Frame::ConnectionClose {
                code,
                frame_type,
                reason,
            } => {
                let reason = printable(reason);
                let error = Error::new(code, reason).in_frame(frame_type);
                self.start_draining(now, CloseReason::PeerError(error));
                Ok(())
            }
            Frame::ApplicationClose { code, reason } => {
                let reason = printable(reason).into();
                self.start_draining(now, CloseReason::PeerApplication { code, reason });
                Ok(())
            }
            Frame::HandshakeDone => {
                self.confirm();
                Ok(())
            }
        }
    }

    fn receive_ack(&mut self, now: Time, space: Space, ack: &Ack<'_>) -> Result<(), Error> {
        let exponent = match space {
            Space::Data => self.peer.ack_delay_exponent,
            Space::Initial | Space::Handshake => 3,
        };
        let info = AckInfo {
            delay: ack.delay(exponent),
            ecn: ack.ecn(),
        };
        let mut owners = item_owners!(self);
        let path = &mut self.paths.current.path;
        let ranges = ack.ranges();
        self.recovery
            .on_ack(path, space, &info, ranges, now, &mut |fate, item| {
                owners.tell(fate, item);
            })?;
        if space == Space::Data
            && let Some(keys) = &mut self.data.keys
        {
            keys.on_acked(ack.largest);
        }
        self.forget_tickets();
        Ok(())
    }

    fn receive_new_id(&mut self, new: &NewConnectionId) -> Result<(), Error> {
        self.remote_ids
            .on_new(new.sequence, new.retire_prior_to, new.id, new.reset_token)?;
        self.replace_retired_id()
    }
}

/// A reason phrase without what a terminal would take for more than text.
pub(super) fn printable(reason: &[u8]) -> String {
    /// Most characters that are kept.
    const MAX_REASON: usize = 256;
    String::from_utf8_lossy(reason)
        .chars()
        .take(MAX_REASON)
        .map(|c| if c.is_control() { '.' } else { c })
        .collect()
}

/// What a frame of streams was sent as.
impl From<Sent> for Item {
    fn from(sent: Sent) -> Self {
        Self::Streams(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_peers_cannot_harm_a_log() {
        assert_eq!(printable(b"bye\x1b[2J\n\xff"), "bye.[2J.\u{fffd}");
        assert_eq!(printable(&[b'a'; 9000]).len(), 256);
    }
}
