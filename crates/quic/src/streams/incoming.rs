//! Frames that arrive. Errors leave the type of the frame to the caller.

use super::recv::Intake;
use super::table::Notes;
use super::{Direction, MAX_STREAMS, Sink, StreamId, Streams};
use crate::{Code, Error, varint};

/// Which part of a stream a frame is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Sending,
    Receiving,
}

impl Streams {
    /// STREAM. Bytes that are in order while none are kept are offered to `sink` at once. A call
    /// for a stream of the peer that the owner does not know stands for its
    /// [`super::Event::Opened`]. What `sink` does not take is kept, and the owner has to ask for
    /// it: no [`super::Event::Readable`] tells of it.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR and FLOW_CONTROL_ERROR.
    pub(crate) fn on_stream(
        &mut self,
        id: StreamId,
        offset: u64,
        data: &[u8],
        fin: bool,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        self.admit(id, Part::Receiving)?;
        let end = offset.saturating_add(data.len() as u64);
        let Some(intake) = self.extend(id, end, fin)? else {
            return Ok(());
        };
        if intake != Intake::Reading {
            if fin && matches!(intake, Intake::Stopped { .. }) {
                self.receiving_done(id);
            }
            return Ok(());
        }
        let known = self.is_known(id);
        let recv = self.table.get_mut(id).and_then(|entry| entry.recv.as_mut());
        let Some(recv) = recv else {
            return Ok(());
        };
        let in_order = offset <= recv.read && end >= recv.read && recv.run().0.is_empty();
        let mut offered = false;
        if known && in_order {
            let new = usize::try_from(recv.read - offset).unwrap_or(usize::MAX);
            let new = data.get(new..).unwrap_or_default();
            let fin = recv.read + new.len() as u64 == recv.final_size();
            if new.is_empty() && !fin {
                return Ok(());
            }
            let taken = sink(id, new, fin).min(new.len());
            recv.advance(taken as u64);
            offered = taken < new.len();
        }
        recv.keep(offset, data);
        let (run, fin) = recv.run();
        let readable = !run.is_empty() || fin;
        let read = recv.is_read();
        if known && in_order {
            self.report_opened(id);
        }
        if read {
            self.receiving_done(id);
        } else if readable && !offered {
            self.note_event(id, Notes::READABLE);
        }
        Ok(())
    }

    /// RESET_STREAM.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR and FLOW_CONTROL_ERROR.
    pub(crate) fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
    ) -> Result<(), Error> {
        self.admit(id, Part::Receiving)?;
        match self.extend(id, final_size, true)? {
            Some(Intake::Reading) => {}
            Some(Intake::Stopped { .. }) => {
                self.receiving_done(id);
                return Ok(());
            }
            Some(Intake::Reset { .. }) | None => return Ok(()),
        }
        let recv = self.table.get_mut(id).and_then(|entry| entry.recv.as_mut());
        if let Some(recv) = recv {
            let unread = recv.discard(Intake::Reset { code });
            self.note_event(id, Notes::RESET);
            self.release(unread);
        }
        Ok(())
    }

    /// STOP_SENDING. The stream is reset with the same code, RFC 9000 section 3.5.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_stop_sending(&mut self, id: StreamId, code: u64) -> Result<(), Error> {
        self.admit(id, Part::Sending)?;
        if self.reset_with(id, code) {
            self.note_event(id, Notes::STOPPED);
        }
        Ok(())
    }

    /// MAX_DATA.
    pub(crate) fn on_max_data(&mut self, value: u64) {
        self.max_data = self.max_data.max(value.min(varint::MAX));
    }

    /// MAX_STREAM_DATA.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_max_stream_data(&mut self, id: StreamId, value: u64) -> Result<(), Error> {
        self.admit(id, Part::Sending)?;
        let send = self.table.get_mut(id).and_then(|entry| entry.send.as_mut());
        if let Some(send) = send {
            send.raise_max(value);
            self.refresh(id);
        }
        Ok(())
    }

    /// MAX_STREAMS.
    ///
    /// # Errors
    ///
    /// FRAME_ENCODING_ERROR if there cannot be as many streams.
    pub(crate) fn on_max_streams(&mut self, direction: Direction, value: u64) -> Result<(), Error> {
        check_streams(value)?;
        self.raise_max_streams(direction, value);
        Ok(())
    }

    /// DATA_BLOCKED.
    pub(crate) fn on_data_blocked(&mut self, value: u64) {
        self.window.note_awaited(value);
        self.open_window(false);
    }

    /// STREAM_DATA_BLOCKED.
    ///
    /// # Errors
    ///
    /// STREAM_STATE_ERROR and STREAM_LIMIT_ERROR.
    pub(crate) fn on_stream_data_blocked(&mut self, id: StreamId) -> Result<(), Error> {
        self.admit(id, Part::Receiving)
    }

    /// STREAMS_BLOCKED.
    ///
    /// # Errors
    ///
    /// FRAME_ENCODING_ERROR if there cannot be as many streams.
    pub(crate) fn on_streams_blocked(
        &mut self,
        direction: Direction,
        value: u64,
    ) -> Result<(), Error> {
        check_streams(value)?;
        if value >= self.theirs[direction.index()].max {
            self.grant_streams(direction, true);
        }
        Ok(())
    }

    /// Whether a frame may be about this part of this stream, RFC 9000 section 19. A stream of the
    /// peer is opened by it, with those of lower ids (section 3.2).
    fn admit(&mut self, id: StreamId, part: Part) -> Result<(), Error> {
        let direction = id.direction();
        let ours = self.is_ours(id);
        if direction == Direction::Unidirectional && ours != (part == Part::Sending) {
            let reason = "a frame for a part that the stream does not have";
            return Err(Error::new(Code::STREAM_STATE_ERROR, reason));
        }
        if ours {
            if id.index() >= self.ours[direction.index()].opened {
                let reason = "a frame for a stream that was not opened";
                return Err(Error::new(Code::STREAM_STATE_ERROR, reason));
            }
            return Ok(());
        }
        let theirs = self.theirs[direction.index()];
        if id.index() >= theirs.max {
            let reason = "more streams than were allowed";
            return Err(Error::new(Code::STREAM_LIMIT_ERROR, reason));
        }
        for index in theirs.opened..=id.index() {
            self.insert(StreamId::new(!self.side, direction, index));
            let theirs = &mut self.theirs[direction.index()];
            theirs.opened += 1;
            theirs.live += 1;
        }
        Ok(())
    }

    /// Counts bytes of a stream up to `end` against the limits. Returns who wants them, or `None`
    /// if the stream is over.
    fn extend(&mut self, id: StreamId, end: u64, fin: bool) -> Result<Option<Intake>, Error> {
        let recv = self.table.get_mut(id).and_then(|entry| entry.recv.as_mut());
        let Some(recv) = recv else {
            return Ok(None);
        };
        if end > varint::MAX {
            let reason = "an offset of more than 62 bits";
            return Err(Error::new(Code::FLOW_CONTROL_ERROR, reason));
        }
        let grown = recv.extend(end, fin)?;
        let intake = recv.intake;
        if intake != Intake::Reading {
            recv.read = recv.end;
        }
        self.received = self.received.saturating_add(grown);
        if self.received > self.window.max {
            let reason = "more bytes than the connection may have";
            return Err(Error::new(Code::FLOW_CONTROL_ERROR, reason));
        }
        if intake != Intake::Reading {
            self.release(grown);
        }
        Ok(Some(intake))
    }

    /// Whether the owner knows the stream, or all of lower ids so that it may learn of this one.
    fn is_known(&self, id: StreamId) -> bool {
        self.is_ours(id) || id.index() <= self.theirs[id.direction().index()].reported
    }

    /// The owner has learnt of a stream for which [`Streams::is_known`] is true.
    fn report_opened(&mut self, id: StreamId) {
        if !self.is_ours(id) {
            let theirs = &mut self.theirs[id.direction().index()];
            theirs.reported = theirs.reported.max(id.index() + 1);
        }
    }
}

/// RFC 9000 sections 19.11 and 19.14.
fn check_streams(value: u64) -> Result<(), Error> {
    if value > MAX_STREAMS {
        let reason = "more streams than ids have room for";
        return Err(Error::new(Code::FRAME_ENCODING_ERROR, reason));
    }
    Ok(())
}
