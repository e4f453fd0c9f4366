//! Frames that are to be sent, and what is remembered of those that were.

use super::table::Notes;
use super::{Direction, Pending, StreamId, Streams, pop};
use crate::varint;

/// A frame that has to go into the packet that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// STREAM: the owner copies these bytes into the packet.
    Stream {
        id: StreamId,
        offset: u64,
        len: u16,
        fin: bool,
        /// There is no room for a length: the frame is written without one, and the packet ends
        /// with it.
        last: bool,
    },
    /// MAX_DATA.
    MaxData { value: u64 },
    /// MAX_STREAM_DATA.
    MaxStreamData { id: StreamId, value: u64 },
    /// MAX_STREAMS.
    MaxStreams { direction: Direction, value: u64 },
    /// RESET_STREAM.
    ResetStream {
        id: StreamId,
        code: u64,
        final_size: u64,
    },
    /// STOP_SENDING.
    StopSending { id: StreamId, code: u64 },
    /// DATA_BLOCKED.
    DataBlocked { value: u64 },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked { id: StreamId, value: u64 },
    /// STREAMS_BLOCKED.
    StreamsBlocked { direction: Direction, value: u64 },
}

/// A frame that was sent, as [`super::Streams::on_acked`] and [`super::Streams::on_lost`] want it
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// STREAM.
    Stream {
        id: StreamId,
        offset: u64,
        len: u16,
        fin: bool,
    },
    /// MAX_DATA.
    MaxData { value: u64 },
    /// MAX_STREAM_DATA.
    MaxStreamData { id: StreamId, value: u64 },
    /// MAX_STREAMS.
    MaxStreams { direction: Direction, value: u64 },
    /// RESET_STREAM.
    ResetStream { id: StreamId },
    /// STOP_SENDING.
    StopSending { id: StreamId },
    /// DATA_BLOCKED.
    DataBlocked { value: u64 },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked { id: StreamId, value: u64 },
    /// STREAMS_BLOCKED.
    StreamsBlocked { direction: Direction, value: u64 },
}

// Each packet in flight keeps a list of them.
const _: () = assert!(size_of::<Sent>() <= 24);

impl Outgoing {
    /// What is to be remembered of it.
    pub(crate) const fn sent(self) -> Sent {
        match self {
            Self::Stream {
                id,
                offset,
                len,
                fin,
                ..
            } => Sent::Stream {
                id,
                offset,
                len,
                fin,
            },
            Self::MaxData { value } => Sent::MaxData { value },
            Self::MaxStreamData { id, value } => Sent::MaxStreamData { id, value },
            Self::MaxStreams { direction, value } => Sent::MaxStreams { direction, value },
            Self::ResetStream { id, .. } => Sent::ResetStream { id },
            Self::StopSending { id, .. } => Sent::StopSending { id },
            Self::DataBlocked { value } => Sent::DataBlocked { value },
            Self::StreamDataBlocked { id, value } => Sent::StreamDataBlocked { id, value },
            Self::StreamsBlocked { direction, value } => Sent::StreamsBlocked { direction, value },
        }
    }
}

impl Outgoing {
    /// Bytes of the frame: type, fields in their shortest encoding, and data.
    pub(crate) fn encoded_len(self) -> usize {
        let fields = match self {
            Self::Stream {
                id,
                offset,
                len,
                last,
                ..
            } => {
                let offset_len = if offset == 0 { 0 } else { varint::len(offset) };
                let len_len = if last { 0 } else { varint::len(len.into()) };
                varint::len(id.to_wire()) + offset_len + len_len + usize::from(len)
            }
            Self::MaxData { value }
            | Self::MaxStreams { value, .. }
            | Self::DataBlocked { value }
            | Self::StreamsBlocked { value, .. } => varint::len(value),
            Self::MaxStreamData { id, value: number }
            | Self::StopSending { id, code: number }
            | Self::StreamDataBlocked { id, value: number } => {
                varint::len(id.to_wire()) + varint::len(number)
            }
            Self::ResetStream {
                id,
                code,
                final_size,
            } => varint::len(id.to_wire()) + varint::len(code) + varint::len(final_size),
        };
        1 + fields
    }
}

/// What a stream has to send that needs no credit.
enum Urgent {
    Frame(Outgoing),
    NoRoom,
    Nothing,
}

impl Streams {
    /// Whether [`Streams::next_frame`] has something, given enough room. Costs next to nothing. It
    /// may be true once for nothing, when what had been lost arrived after all.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.has(Pending::FRAMES)
            || !self.urgent.is_empty()
            || (!self.schedule.is_empty()
                && match self.sent < self.max_data {
                    true => self.kept < self.max_kept,
                    false => self.data_blocked != self.max_data + 1,
                })
    }

    /// Nothing new is sent from now on while the owner has to keep so much of what was sent: a peer
    /// may acknowledge all but the first bytes. What is lost is sent again all the same.
    pub(crate) fn set_max_kept(&mut self, bytes: u64) {
        self.max_kept = bytes;
    }

    /// The next frame, of at most `room` bytes with its type and all its fields, which the caller
    /// puts into a packet. `None` if there is nothing or if it does not fit.
    ///
    /// Fields are in their shortest encoding; an offset of 0 is left out.
    pub(crate) fn next_frame(&mut self, room: usize) -> Option<Outgoing> {
        if self.pending.has(Pending::FRAMES) {
            return self.connection_frame(room);
        }
        while let Some(&id) = self.urgent.front() {
            match self.urgent_frame(id, room) {
                Urgent::Frame(frame) => return Some(frame),
                Urgent::NoRoom => return None,
                Urgent::Nothing => {
                    pop(&mut self.urgent);
                    if let Some(entry) = self.table.get_mut(id) {
                        entry.notes.clear(Notes::FRAME_QUEUED);
                    }
                }
            }
        }
        self.new_data(room)
    }

    /// A frame of the connection.
    fn connection_frame(&mut self, room: usize) -> Option<Outgoing> {
        let (bit, frame) = if self.pending.has(Pending::MAX_DATA) {
            let value = self.window.max;
            (Pending::MAX_DATA, Outgoing::MaxData { value })
        } else {
            let mut frames = Direction::ALL.into_iter().flat_map(|direction| {
                let i = direction.index();
                let value = self.theirs[i].max;
                let max = Outgoing::MaxStreams { direction, value };
                let value = self.ours[i].max;
                let blocked = Outgoing::StreamsBlocked { direction, value };
                [
                    (Pending::MAX_STREAMS[i], max),
                    (Pending::STREAMS_BLOCKED[i], blocked),
                ]
            });
            frames.find(|(bit, _)| self.pending.has(*bit))?
        };
        if frame.encoded_len() > room {
            return None;
        }
        self.pending.take(bit);
        Some(frame)
    }

    /// A frame of a stream that needs no credit.
    fn urgent_frame(&mut self, id: StreamId, room: usize) -> Urgent {
        let ours = self.is_ours(id);
        let may_be_sent = !ours || id.index() < self.ours[id.direction().index()].max;
        let Some(entry) = self.table.get_mut(id).filter(|_| may_be_sent) else {
            return Urgent::Nothing;
        };
        let reset = entry.send.as_ref().and_then(|send| send.reset_to_send());
        let stop = entry.recv.as_ref().and_then(|recv| recv.stop_to_send());
        let more = entry.recv.as_ref().filter(|recv| recv.wants_more());
        let candidates = [
            reset.map(|(code, final_size)| {
                let frame = Outgoing::ResetStream {
                    id,
                    code,
                    final_size,
                };
                (Notes::SEND_RESET, frame)
            }),
            stop.map(|code| (Notes::SEND_STOP, Outgoing::StopSending { id, code })),
            more.map(|recv| {
                let value = recv.window.max;
                (Notes::SEND_MAX, Outgoing::MaxStreamData { id, value })
            }),
        ];
        for (note, frame) in candidates.into_iter().flatten() {
            if !entry.notes.clear(note) {
                continue;
            }
            if frame.encoded_len() > room {
                entry.notes.set(note);
                return Urgent::NoRoom;
            }
            return Urgent::Frame(frame);
        }
        let Some(send) = &mut entry.send else {
            return Urgent::Nothing;
        };
        if send.needs_no_credit() {
            return match send.frame_without_credit(id, room) {
                Some(frame) => Urgent::Frame(frame.of(id)),
                None => Urgent::NoRoom,
            };
        }
        let Some(value) = send.blocked() else {
            return Urgent::Nothing;
        };
        let frame = Outgoing::StreamDataBlocked { id, value };
        if frame.encoded_len() > room {
            return Urgent::NoRoom;
        }
        send.blocked_sent();
        Urgent::Frame(frame)
    }

    /// Bytes that were never sent, or DATA_BLOCKED.
    fn new_data(&mut self, room: usize) -> Option<Outgoing> {
        let credit = self.max_data.saturating_sub(self.sent);
        if credit == 0 {
            let value = self.max_data;
            let frame = Outgoing::DataBlocked { value };
            if self.schedule.is_empty()
                || self.data_blocked == value + 1
                || frame.encoded_len() > room
            {
                return None;
            }
            self.data_blocked = value + 1;
            return Some(frame);
        }
        let credit = credit.min(self.max_kept.saturating_sub(self.kept));
        if credit == 0 {
            return None;
        }
        let id = self.schedule.next(&self.table)?;
        let entry = self.table.get_mut(id)?;
        let send = entry.send.as_mut()?;
        let frame = send.new_frame(id, credit, room)?;
        self.sent += u64::from(frame.len);
        self.kept += u64::from(frame.len);
        let more = send.new_bytes() > 0;
        self.schedule.sent(id, send, more);
        if !more {
            self.refresh(id);
        }
        Some(frame.of(id))
    }

    /// The peer has got a packet with this frame. Frames of which a copy was reported before may be
    /// reported again, in any order.
    pub(crate) fn on_acked(&mut self, sent: Sent) {
        let (Sent::Stream { id, .. } | Sent::ResetStream { id }) = sent else {
            return;
        };
        let send = self.table.get_mut(id).and_then(|entry| entry.send.as_mut());
        let Some(send) = send else {
            return;
        };
        let news = if let Sent::Stream {
            offset, len, fin, ..
        } = sent
        {
            let kept = send.kept();
            let news = send.on_acked(offset, len, fin);
            self.kept -= kept - send.kept();
            news
        } else {
            send.reset_acked();
            send.is_done()
        };
        if send.needs_no_credit() {
            // Among what the peer has got may be what is not remembered as such.
            self.refresh(id);
        }
        if news {
            self.note_event(id, Notes::ACKNOWLEDGED);
        }
    }

    /// A packet with this frame is lost, or its contents are wanted for a probe: what is still
    /// needed of it is sent again, before anything new. May be told of the same frame more than
    /// once.
    pub(crate) fn on_lost(&mut self, sent: Sent) {
        match sent {
            Sent::MaxData { value } => {
                if value == self.window.max {
                    self.pending.set(Pending::MAX_DATA);
                }
            }
            Sent::MaxStreams { direction, value } => {
                if value == self.theirs[direction.index()].max {
                    self.pending.set(Pending::MAX_STREAMS[direction.index()]);
                }
            }
            Sent::StreamsBlocked { direction, value } => {
                let ours = &self.ours[direction.index()];
                if value == ours.max && ours.opened >= ours.max {
                    let bit = Pending::STREAMS_BLOCKED[direction.index()];
                    self.pending.set(bit);
                }
            }
            Sent::DataBlocked { value } => {
                if value == self.max_data {
                    self.data_blocked = 0;
                }
            }
            Sent::Stream { id, .. }
            | Sent::MaxStreamData { id, .. }
            | Sent::ResetStream { id }
            | Sent::StopSending { id }
            | Sent::StreamDataBlocked { id, .. } => self.stream_frame_lost(id, sent),
        }
    }

    fn stream_frame_lost(&mut self, id: StreamId, sent: Sent) {
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        match (sent, &mut entry.send, &entry.recv) {
            (
                Sent::Stream {
                    offset, len, fin, ..
                },
                Some(send),
                _,
            ) => send.on_lost(offset, len, fin),
            (Sent::StreamDataBlocked { value, .. }, Some(send), _) => send.blocked_lost(value),
            (Sent::ResetStream { .. }, Some(send), _) if send.reset_to_send().is_some() => {
                entry.notes.set(Notes::SEND_RESET);
            }
            (Sent::StopSending { .. }, _, Some(recv)) if recv.stop_to_send().is_some() => {
                entry.notes.set(Notes::SEND_STOP);
            }
            (Sent::MaxStreamData { value, .. }, _, Some(recv))
                if recv.wants_more() && recv.window.max == value =>
            {
                entry.notes.set(Notes::SEND_MAX);
            }
            _ => {}
        }
        self.refresh(id);
    }
}
