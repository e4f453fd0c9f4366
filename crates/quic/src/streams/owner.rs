//! What the owner does with streams.

use std::time::Duration;

use super::recv::Intake;
use super::schedule::MAX_URGENCY;
use super::table::Notes;
use super::{Direction, Event, Limits, Pending, Sink, StreamId, Streams, pop};
use crate::{Time, varint};

impl Streams {
    /// Opens a stream, or `None` if the peer does not allow more of them ([`Event::Available`]
    /// tells when it does).
    pub(crate) fn open(&mut self, direction: Direction) -> Option<StreamId> {
        let ours = &mut self.ours[direction.index()];
        if ours.opened >= ours.max {
            if self.limits != Limits::Unknown && ours.blocked != ours.max + 1 {
                ours.blocked = ours.max + 1;
                let bit = Pending::STREAMS_BLOCKED[direction.index()];
                self.pending.set(bit);
            }
            return None;
        }
        let id = StreamId::new(self.side, direction, ours.opened);
        ours.opened += 1;
        ours.live += 1;
        self.insert(id);
        Some(id)
    }

    /// The bytes before `up_to` are available, and if `fin`, the stream ends there. It may be
    /// called again with more. Returns whether anything is sent on the stream any more: not after a
    /// reset or the end.
    pub(crate) fn write_up_to(&mut self, id: StreamId, up_to: u64, fin: bool) -> bool {
        let send = self.table.get_mut(id).and_then(|entry| entry.send.as_mut());
        let written = send.is_some_and(|send| send.write_up_to(up_to, fin));
        if written {
            self.refresh(id);
        }
        written
    }

    /// RFC 9218: streams of a lower `urgency` (0 to 7, 3 at first) are sent first; of those that
    /// are not `incremental` (as all are at first) the one with the lowest id; the others take
    /// turns.
    pub(crate) fn set_priority(&mut self, id: StreamId, urgency: u8, incremental: bool) {
        let urgency = urgency.min(MAX_URGENCY);
        let send = self.table.get_mut(id).and_then(|entry| entry.send.as_mut());
        if let Some(send) = send
            && (send.urgency, send.incremental) != (urgency, incremental)
        {
            self.schedule.withdraw(send);
            send.urgency = urgency;
            send.incremental = incremental;
            self.refresh(id);
        }
    }

    /// Sends no more of the stream (RESET_STREAM). Nothing that was written is asked for any more.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) {
        self.reset_with(id, code);
    }

    /// Returns whether there was something to reset.
    pub(super) fn reset_with(&mut self, id: StreamId, code: u64) -> bool {
        let send = self.table.get_mut(id).and_then(|entry| entry.send.as_mut());
        let Some(send) = send else {
            return false;
        };
        let kept = send.kept();
        let reset = send.reset(code.min(varint::MAX));
        if reset {
            self.kept -= kept;
            self.schedule.withdraw(send);
            self.note_frame(id, Notes::SEND_RESET);
        }
        reset
    }

    /// Reads no more of the stream (STOP_SENDING). What has arrived is dropped.
    pub(crate) fn stop_sending(&mut self, id: StreamId, code: u64) {
        let Some(entry) = self.table.get_mut(id) else {
            return;
        };
        let Some(recv) = &mut entry.recv else {
            return;
        };
        if recv.intake != Intake::Reading {
            return;
        }
        let code = code.min(varint::MAX);
        let unread = recv.discard(Intake::Stopped { code });
        if recv.is_size_known() {
            // The peer has nothing to stop.
            self.receiving_done(id);
        } else {
            self.note_frame(id, Notes::SEND_STOP);
        }
        self.release(unread);
    }

    /// Offers `sink` what has arrived in order and was not taken yet, piece by piece, until it
    /// takes less than a piece.
    pub(crate) fn read(&mut self, id: StreamId, sink: &mut Sink<'_>) {
        let recv = self.table.get_mut(id).and_then(|entry| entry.recv.as_mut());
        let Some(recv) = recv.filter(|recv| recv.intake == Intake::Reading) else {
            return;
        };
        loop {
            let (bytes, fin) = recv.run();
            let offered = bytes.len();
            if offered == 0 && !fin {
                return;
            }
            let taken = sink(id, bytes, fin).min(offered);
            recv.advance(taken as u64);
            if taken < offered {
                return;
            }
            if fin {
                return self.receiving_done(id);
            }
        }
    }

    /// So many bytes that the owner had taken are consumed: as many more may be sent to us. The
    /// owner tells of all that it has taken sooner or later, also of streams that are over or were
    /// reset: the window of the connection is shared. `rtt` is the smoothed round-trip time.
    pub(crate) fn consumed(&mut self, id: StreamId, bytes: u64, now: Time, rtt: Duration) {
        let ceiling = self.settings.max_window;
        let pace = (now, rtt);
        let window = &mut self.window;
        let is_due = window.consume_and_grow(bytes, self.received, ceiling, pace);
        self.open_window(is_due);
        let recv = self.table.get_mut(id).and_then(|entry| entry.recv.as_mut());
        let ceiling = self.settings.max_stream_window;
        if let Some(recv) = recv
            && recv.wants_more()
            && recv
                .window
                .consume_and_grow(bytes, recv.read, ceiling, pace)
        {
            self.note_frame(id, Notes::SEND_MAX);
        }
    }

    /// What happened. The owner takes all events after it has handed in a datagram: streams are not
    /// forgotten before.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        for direction in Direction::ALL {
            let theirs = &mut self.theirs[direction.index()];
            if theirs.reported < theirs.opened {
                let id = StreamId::new(!self.side, direction, theirs.reported);
                theirs.reported += 1;
                return Some(Event::Opened { id });
            }
            if self.pending.take(Pending::AVAILABLE[direction.index()]) {
                return Some(Event::Available { direction });
            }
        }
        while let Some(&id) = self.events.front() {
            let entry = self.table.get_mut(id);
            let event = entry.and_then(|entry| {
                let event = entry.take_event();
                if event.is_none() {
                    entry.notes.clear(Notes::EVENT_QUEUED);
                }
                event
            });
            if event.is_none_or(|event| matches!(event, Event::Closed { .. })) {
                pop(&mut self.events);
            }
            if let Some(event) = event {
                if let Event::Closed { id } = event {
                    self.forget(id);
                }
                return Some(event);
            }
        }
        None
    }

    /// Whether no bidirectional stream is open: no request is going on.
    pub(crate) fn is_idle(&self) -> bool {
        let requests = Direction::Bidirectional.index();
        self.ours[requests].live == 0 && self.theirs[requests].live == 0
    }

    /// The receiving part of a stream is over, and the owner knows.
    pub(super) fn receiving_done(&mut self, id: StreamId) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.recv = None;
            if entry.send.is_none() && entry.notes.set(Notes::EVENT_QUEUED) {
                self.events.push_back(id);
            }
        }
    }
}
