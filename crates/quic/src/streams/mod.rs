//! The streams of one connection, RFC 9000 sections 2 to 4: their states, their limits, what has
//! arrived and what is to be sent.
//!
//! Bytes that are sent belong to the owner, which says how far they are available
//! ([`Streams::write_up_to`]) and copies a range of them when a packet is built
//! ([`Streams::next_frame`]). It keeps them until they are acknowledged ([`Event::Acknowledged`]).
//!
//! Bytes that arrive in order are handed to the owner as they lie in the packet; others are kept.
//! Windows open when the owner says that it has consumed what it was given
//! ([`Streams::consumed`]).

mod event;
mod id;
mod incoming;
mod outgoing;
mod owner;
mod recv;
mod schedule;
mod send;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod window;

pub use event::Event;
pub use id::{Direction, StreamId};
pub(crate) use outgoing::{Outgoing, Sent};
pub use settings::{PeerLimits, Settings};

use std::collections::VecDeque;

use crate::{Code, Error, Side, varint};
use recv::RecvPart;
use schedule::Schedule;
use send::SendPart;
use settings::MAX_OPEN_STREAMS;
use table::{Entry, Notes, Table};
use window::Window;

/// Takes bytes of a stream in order, and whether the stream ends behind them. Returns how many it
/// took; if these are not all, the rest is offered by the next [`Streams::read`].
pub(crate) type Sink<'a> = dyn FnMut(StreamId, &[u8], bool) -> usize + 'a;

/// Most streams of one direction that ids have room for, RFC 9000 section 4.6.
const MAX_STREAMS: u64 = 1 << 60;

/// Empty queues and tables keep room for so many streams.
const KEPT_ENTRIES: usize = 16;

/// Streams of one direction that the peer opens.
#[derive(Clone, Copy, Debug)]
struct Theirs {
    /// How many it has opened, including those that are over.
    opened: u64,
    /// How many of them the owner knows.
    reported: u64,
    /// How many of them are not over.
    live: u64,
    /// How many may be open at a time.
    cap: u64,
    /// How many it may open, as it was told.
    max: u64,
}

/// Streams of one direction that we open.
#[derive(Clone, Copy, Debug, Default)]
struct Ours {
    /// How many were opened, including those that are over.
    opened: u64,
    /// How many of them are not over.
    live: u64,
    /// How many may be opened.
    max: u64,
    /// STREAMS_BLOCKED was sent for one less than this.
    blocked: u64,
}

/// Frames of the connection that are to be sent, and events of it: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
struct Pending(u8);

impl Pending {
    const MAX_DATA: u8 = 1;
    const MAX_STREAMS: [u8; 2] = [1 << 1, 1 << 2];
    const STREAMS_BLOCKED: [u8; 2] = [1 << 3, 1 << 4];
    /// These are events.
    const AVAILABLE: [u8; 2] = [1 << 5, 1 << 6];
    const FRAMES: u8 = 0b1_1111;

    fn set(&mut self, bit: u8) {
        self.0 |= bit;
    }

    fn take(&mut self, bit: u8) -> bool {
        let was_set = self.0 & bit != 0;
        self.0 &= !bit;
        was_set
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// Where the limits of the peer are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    /// They are not known.
    Unknown,
    /// They were remembered for 0-RTT.
    Remembered,
    /// The peer has told them.
    Told,
}

/// The streams of one connection.
pub(crate) struct Streams {
    side: Side,
    pending: Pending,
    settings: Settings,
    table: Table,
    theirs: [Theirs; 2],
    ours: [Ours; 2],
    /// Streams with events.
    events: VecDeque<StreamId>,
    /// Streams that have something to send which needs no credit.
    urgent: VecDeque<StreamId>,
    /// Streams that have something new to send.
    schedule: Schedule,
    /// What the peer may send on all streams.
    window: Window,
    /// What it has sent: the sum of the streams' sizes.
    received: u64,
    /// The sum of what we have sent for the first time.
    sent: u64,
    /// What we may send on all streams.
    max_data: u64,
    /// DATA_BLOCKED was sent for one less than this.
    data_blocked: u64,
    /// What the owner has to keep of it: on each stream, from the first byte that is not
    /// acknowledged.
    kept: u64,
    /// Nothing new is sent while so much is kept.
    max_kept: u64,
    peer: PeerLimits,
    /// Where `peer` is from.
    limits: Limits,
}

/// Limits.
impl Streams {
    /// No streams, and a peer that allows none until its limits are known.
    pub(crate) fn new(side: Side, settings: &Settings) -> Self {
        let theirs = Direction::ALL.map(|direction| {
            let max = settings.max_streams(direction);
            Theirs {
                opened: 0,
                reported: 0,
                live: 0,
                cap: max,
                max,
            }
        });
        Self {
            side,
            pending: Pending::default(),
            table: Table::default(),
            theirs,
            ours: [Ours::default(); 2],
            events: VecDeque::new(),
            urgent: VecDeque::new(),
            schedule: Schedule::default(),
            window: Window::new(settings.max_data),
            received: 0,
            sent: 0,
            max_data: 0,
            data_blocked: 0,
            kept: 0,
            max_kept: u64::MAX,
            peer: PeerLimits::default(),
            limits: Limits::Unknown,
            settings: settings.clone(),
        }
    }

    /// The limits that were remembered with a session, for 0-RTT.
    pub(crate) fn remember_peer_limits(&mut self, limits: &PeerLimits) {
        self.apply_peer_limits(limits);
        self.limits = Limits::Remembered;
    }

    /// The limits in the peer's transport parameters. If 0-RTT was rejected,
    /// [`Streams::restart_sending`] comes first.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION if one is lower than what was remembered, RFC 9000 section 7.4.1.
    pub(crate) fn set_peer_limits(&mut self, limits: &PeerLimits) -> Result<(), Error> {
        if self.limits == Limits::Remembered && !limits.reach(&self.peer) {
            let reason = "limits are lower than those that 0-RTT was sent with";
            return Err(Error::new(Code::PROTOCOL_VIOLATION, reason));
        }
        self.limits = Limits::Told;
        self.apply_peer_limits(limits);
        Ok(())
    }

    fn apply_peer_limits(&mut self, limits: &PeerLimits) {
        self.peer = *limits;
        self.max_data = self.max_data.max(limits.max_data.min(varint::MAX));
        for direction in Direction::ALL {
            self.raise_max_streams(direction, limits.max_streams(direction));
        }
        for id in self.table.ids() {
            let max = limits.max_stream_data(self.side, id);
            if let Some(send) = self.table.get_mut(id).and_then(|entry| entry.send.as_mut()) {
                send.raise_max(max);
            }
            self.refresh(id);
        }
    }

    /// 0-RTT was rejected: all that was sent is sent again, within the limits that
    /// [`Streams::set_peer_limits`] tells next. What was in the packets of 0-RTT is neither lost
    /// nor acknowledged any more.
    pub(crate) fn restart_sending(&mut self) {
        self.limits = Limits::Unknown;
        self.sent = 0;
        self.kept = 0;
        self.max_data = 0;
        self.data_blocked = 0;
        self.schedule.clear();
        self.urgent.clear();
        for direction in Direction::ALL {
            let i = direction.index();
            self.ours[i].max = 0;
            self.ours[i].blocked = 0;
            if self.theirs[i].max != self.settings.max_streams(direction) {
                self.pending.set(Pending::MAX_STREAMS[i]);
            }
        }
        for entry in self.table.iter_mut() {
            entry.notes.clear(Notes::FRAME_QUEUED);
            if let Some(send) = &mut entry.send {
                send.restart();
                if send.reset_to_send().is_some() {
                    entry.notes.set(Notes::SEND_RESET);
                }
            }
            if entry
                .recv
                .as_ref()
                .is_some_and(|recv| recv.stop_to_send().is_some())
            {
                entry.notes.set(Notes::SEND_STOP);
            }
        }
    }

    /// How many streams of this direction the peer may have open at a time from now on, at most
    /// 65,536. What has been announced stays valid.
    pub(crate) fn set_max_streams(&mut self, direction: Direction, streams: u64) {
        self.theirs[direction.index()].cap = streams.min(MAX_OPEN_STREAMS);
        self.grant_streams(direction, false);
    }

    /// Lets the peer open as many streams as it has finished. It is told when these are half of
    /// what it may have open, or more than it has left: others may stay open for long. At once if
    /// it `waits`, though it need not say so (RFC 9000 section 4.6).
    fn grant_streams(&mut self, direction: Direction, waits: bool) {
        let theirs = &mut self.theirs[direction.index()];
        let max = (theirs.opened - theirs.live + theirs.cap).min(MAX_STREAMS);
        let left = theirs.max.saturating_sub(theirs.opened);
        let due = match waits {
            true => 1,
            false => theirs.cap.div_ceil(2).min(left.max(1)),
        };
        if max > theirs.max && max - theirs.max >= due {
            theirs.max = max;
            let bit = Pending::MAX_STREAMS[direction.index()];
            self.pending.set(bit);
        }
    }

    /// The peer lets us open more streams.
    fn raise_max_streams(&mut self, direction: Direction, max: u64) {
        let ours = &mut self.ours[direction.index()];
        let before = ours.max;
        if max <= before {
            return;
        }
        ours.max = max.min(MAX_STREAMS);
        let opened = ours.opened;
        self.pending.set(Pending::AVAILABLE[direction.index()]);
        // Streams of a 0-RTT that was rejected, for which there was no room.
        for index in before..opened.min(max) {
            self.refresh(StreamId::new(self.side, direction, index));
        }
    }
}

/// What all parts use.
impl Streams {
    fn is_ours(&self, id: StreamId) -> bool {
        id.initiator() == self.side
    }

    /// Adds a stream to the table.
    fn insert(&mut self, id: StreamId) {
        let ours = self.is_ours(id);
        let both = id.direction() == Direction::Bidirectional;
        let max = self.peer.max_stream_data(self.side, id);
        let window = self.settings.max_stream_data(self.side, id);
        self.table.insert(Entry {
            id,
            notes: Notes::default(),
            send: (both || ours).then(|| Box::new(SendPart::new(max))),
            recv: (both || !ours).then(|| Box::new(RecvPart::new(window))),
        });
    }

    /// Forgets a stream that is over.
    fn forget(&mut self, id: StreamId) {
        self.table.remove(id);
        let direction = id.direction();
        if self.is_ours(id) {
            self.ours[direction.index()].live -= 1;
        } else {
            self.theirs[direction.index()].live -= 1;
            self.grant_streams(direction, false);
        }
    }

    /// Notes an event of a stream.
    fn note_event(&mut self, id: StreamId, note: Notes) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.notes.set(note);
            if entry.notes.set(Notes::EVENT_QUEUED) {
                self.events.push_back(id);
            }
        }
    }

    /// Notes a frame of a stream that is to be sent.
    fn note_frame(&mut self, id: StreamId, note: Notes) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.notes.set(note);
            if entry.notes.set(Notes::FRAME_QUEUED) {
                self.urgent.push_back(id);
            }
        }
    }

    /// What a stream has to send may have changed: puts it where it belongs.
    fn refresh(&mut self, id: StreamId) {
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        let mut urgent = entry.notes.has_frames();
        let mut clear_away = false;
        if let Some(send) = &mut entry.send {
            urgent |= send.needs_no_credit() || send.blocked().is_some();
            let ours = &self.ours[id.direction().index()];
            let may_be_sent = id.initiator() != self.side || id.index() < ours.max;
            if send.new_bytes() > 0 && may_be_sent {
                clear_away = self.schedule.add(id, send);
            }
        }
        if urgent && entry.notes.set(Notes::FRAME_QUEUED) {
            self.urgent.push_back(id);
        }
        if clear_away {
            self.schedule.clear_away(&self.table);
        }
    }

    /// Credit for bytes that nobody will read.
    fn release(&mut self, bytes: u64) {
        if bytes > 0 {
            let is_due = self.window.consume(bytes, self.received);
            self.open_window(is_due);
        }
    }

    /// Tells the peer how much it may send now, if that is due or cannot wait until it is.
    fn open_window(&mut self, is_due: bool) {
        if is_due || self.window.open_early(self.received) {
            self.pending.set(Pending::MAX_DATA);
        }
    }

    /// For the fuzzer: sums are those of the streams.
    pub(crate) fn check_sums(&self) {
        let sending = self.table.iter().filter_map(|entry| entry.send.as_ref());
        let kept: u64 = sending.map(|send| send.kept()).sum();
        assert_eq!(kept, self.kept);
    }

    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        self.table
            .iter()
            .map(|entry| {
                let recv = entry.recv.as_ref().map_or(0, |recv| recv.heap_bytes());
                size_of::<Entry>() + size_of::<SendPart>() + size_of::<RecvPart>() + recv
            })
            .sum()
    }
}

/// Takes the first stream off a queue. An empty queue keeps room for few.
fn pop(queue: &mut VecDeque<StreamId>) {
    queue.pop_front();
    if queue.is_empty() && queue.capacity() > KEPT_ENTRIES {
        *queue = VecDeque::new();
    }
}

// An idle connection keeps it.
const _: () = assert!(size_of::<Streams>() <= 640);
