//! Turns received bytes into events: which frame is allowed when, and what it does (RFC 9114
//! sections 4.1, 6.2 and 7). Field sections are in `heads.rs`.

use std::time::Duration;

use super::connection::{Connection, Role, UNIDIRECTIONAL};
use super::control::CONTROL_STREAM;
use super::error::{Code, ConnectionError, StreamError};
use super::event::{Event, Received};
use super::frame::{self, FrameHeader, FrameState, kind};
use super::qpack::{DECODER_STREAM, ENCODER_STREAM};
use super::streams::{Half, Purpose};
use super::varint;

/// The type of streams with pushes (RFC 9114 section 6.2.2).
const PUSH_STREAM: u64 = 0x1;

impl Connection {
    /// Takes bytes that have come on a stream, in order, up to the first event. `fin` says that the
    /// stream ends behind them.
    ///
    /// Call it again with the bytes that were not consumed, and the same `fin`, until there is no
    /// event. What is left then belongs to a stream that waits for the peer's encoder (RFC 9204
    /// section 2.1.2): keep it, and pass it in again after the next event about this stream, which
    /// comes while a stream of the peer's encoder is read. Streams that nothing is known of any
    /// more are read, and ignored. `now` is the time since any fixed moment.
    ///
    /// # Errors
    /// [`ConnectionError`]: close the connection. Every later call returns it again.
    pub fn receive<'i>(
        &mut self,
        id: u64,
        input: &'i [u8],
        fin: bool,
        now: Duration,
    ) -> Result<Received<'i>, ConnectionError> {
        self.guarded(now, |connection| {
            let mut rest = input;
            let event = match id & UNIDIRECTIONAL {
                0 if connection.is_hq => connection.receive_line(id, &mut rest, fin),
                0 => connection.receive_request(id, &mut rest, fin),
                _ => connection.receive_unidirectional(id, &mut rest, fin),
            }?;
            if connection.decoder.unsent_bytes() > connection.settings.limits.unread_bytes {
                connection.counters.unread_reply_floods += 1;
                return Err(ConnectionError::new(
                    Code::H3_EXCESSIVE_LOAD,
                    "http3 flood detected: acknowledgements are not read",
                ));
            }
            Ok(Received {
                consumed: input.len() - rest.len(),
                event,
            })
        })
    }

    fn receive_unidirectional(
        &mut self,
        id: u64,
        rest: &mut &[u8],
        fin: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let of_id = |found: &&mut super::streams::Unidirectional| found.id == id;
        let Some(stream) = self.unidirectional.iter_mut().find(of_id) else {
            *rest = &[];
            return Ok(None);
        };
        if stream.purpose == Purpose::NotYetKnown
            && let Some(kind) = stream.partial.take(rest, varint::take)
        {
            let purpose = self.purpose_of(kind)?;
            self.set_purpose(id, purpose);
            if purpose == Purpose::Ignored {
                return Ok(Some(Event::UnknownStream { id }));
            }
        }
        let event = match self.purpose(id) {
            Purpose::Control => self.receive_control(rest)?,
            Purpose::Encoder => {
                self.receive_encoder(std::mem::take(rest))?;
                self.next_unblocked()?
            }
            Purpose::Decoder => {
                self.encoder.decoder_stream(std::mem::take(rest))?;
                None
            }
            Purpose::NotYetKnown | Purpose::Ignored => {
                *rest = &[];
                None
            }
        };
        if fin && event.is_none() && rest.is_empty() {
            self.unidirectional_ended(id)?;
        }
        Ok(event)
    }

    fn purpose(&self, id: u64) -> Purpose {
        let found = self.unidirectional.iter().find(|found| found.id == id);
        found.map_or(Purpose::Ignored, |found| found.purpose)
    }

    fn set_purpose(&mut self, id: u64, purpose: Purpose) {
        if let Some(found) = self.unidirectional.iter_mut().find(|found| found.id == id) {
            found.purpose = purpose;
        }
    }

    /// What a stream of this type is for (RFC 9114 section 6.2, RFC 9204 section 4.2).
    fn purpose_of(&self, kind: u64) -> Result<Purpose, ConnectionError> {
        let purpose = match kind {
            CONTROL_STREAM => Purpose::Control,
            ENCODER_STREAM => Purpose::Encoder,
            DECODER_STREAM => Purpose::Decoder,
            PUSH_STREAM if self.role == Role::Server => {
                return Err(ConnectionError::new(
                    Code::H3_STREAM_CREATION_ERROR,
                    "push stream opened by a client",
                ));
            }
            PUSH_STREAM => {
                return Err(ConnectionError::new(
                    Code::H3_ID_ERROR,
                    "push that was not allowed",
                ));
            }
            _ => return Ok(Purpose::Ignored),
        };
        let is_same = |found: &super::streams::Unidirectional| found.purpose == purpose;
        if self.unidirectional.iter().any(is_same) {
            return Err(ConnectionError::new(
                Code::H3_STREAM_CREATION_ERROR,
                "second control stream or QPACK stream of a kind",
            ));
        }
        Ok(purpose)
    }

    fn receive_encoder(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        let written = self.decoder.encoder_stream(input)?;
        let written = u32::try_from(written).unwrap_or(u32::MAX);
        let allowance = self.settings.limits.table_bytes;
        if self.meters.table_bytes.charge(written, allowance, self.now) {
            return Ok(());
        }
        self.counters.header_bombs += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: entries of the QPACK table",
        ))
    }

    /// The event of a stream that need not wait for the peer's encoder any more.
    fn next_unblocked(&mut self) -> Result<Option<Event<'static>>, ConnectionError> {
        while let Some(id) = self.decoder.next_unblocked() {
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            stream.is_blocked = false;
            let end = stream.is_finished;
            let section = std::mem::take(&mut stream.section);
            self.held_bytes -= section.len();
            if let Some(event) = self.section(id, &section, end)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn receive_request<'i>(
        &mut self,
        id: u64,
        rest: &mut &'i [u8],
        fin: bool,
    ) -> Result<Option<Event<'i>>, ConnectionError> {
        loop {
            let Some(stream) = self.streams.get_mut(id) else {
                *rest = &[];
                return Ok(None);
            };
            if stream.receive == Half::Ended {
                *rest = &[];
                return Ok(None);
            }
            if stream.is_blocked {
                stream.is_finished |= fin && rest.is_empty();
                return Ok(None);
            }
            let event = match &mut stream.frame {
                FrameState::Header(partial) => match FrameState::take_header(partial, rest) {
                    Some(header) => {
                        stream.frame = FrameState::Payload {
                            kind: header.kind,
                            remaining: header.length,
                        };
                        self.judge_frame(id, header)?
                    }
                    None if fin => return self.finish(id),
                    None => return Ok(None),
                },
                FrameState::Payload { kind, remaining } => {
                    let kind = *kind;
                    let available = usize::try_from(*remaining).unwrap_or(usize::MAX);
                    let (part, after) = rest.split_at(available.min(rest.len()));
                    *rest = after;
                    *remaining -= part.len() as u64;
                    let is_complete = *remaining == 0;
                    if is_complete {
                        stream.frame = FrameState::default();
                    } else if fin && after.is_empty() {
                        return Err(cut_frame());
                    } else if part.is_empty() {
                        return Ok(None);
                    }
                    let end = is_complete && fin && after.is_empty();
                    match kind {
                        kind::DATA => self.data_part(id, part, end)?,
                        kind::HEADERS => self.section_part(id, part, is_complete, end)?,
                        _ => None,
                    }
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Which frames may come on a request stream, and when (RFC 9114 section 4.1). An event if the
    /// stream is over because of it.
    fn judge_frame(
        &mut self,
        id: u64,
        header: FrameHeader,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let is_expected = match header.kind {
            kind::DATA => stream.receive == Half::Body && !stream.has_trailers,
            kind::HEADERS => !stream.has_trailers && !stream.is_tunnel,
            kind::PUSH_PROMISE if self.role == Role::Client => {
                return Err(ConnectionError::new(
                    Code::H3_ID_ERROR,
                    "push that was not allowed",
                ));
            }
            kind => !frame::is_known(kind),
        };
        if !is_expected {
            return Err(ConnectionError::new(
                Code::H3_FRAME_UNEXPECTED,
                "unexpected frame on a request stream",
            ));
        }
        match header.kind {
            kind::DATA if header.length > 0 => {
                self.meters.empty_frames.credit(1);
                stream.received_bytes = stream.received_bytes.saturating_add(header.length);
                let received = stream.received_bytes;
                if stream
                    .declared_bytes
                    .is_some_and(|declared| received > declared)
                {
                    return self.fault(id, WRONG_LENGTH).map(Some);
                }
            }
            kind::HEADERS if header.length > self.max_section_bytes() as u64 => {
                self.charge_oversized()?;
                let error = StreamError::new(Code::H3_EXCESSIVE_LOAD, "too large a field section");
                return self.fault(id, error).map(Some);
            }
            kind::HEADERS => {}
            _ => self.charge_empty()?,
        }
        Ok(None)
    }

    /// A part of a body.
    fn data_part<'i>(
        &mut self,
        id: u64,
        bytes: &'i [u8],
        end: bool,
    ) -> Result<Option<Event<'i>>, ConnectionError> {
        if end {
            return self.end_body(id, bytes).map(Some);
        }
        Ok((!bytes.is_empty()).then_some(Event::Data { id, bytes, end }))
    }

    /// A body ends with `bytes`.
    fn end_body<'i>(&mut self, id: u64, bytes: &'i [u8]) -> Result<Event<'i>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return self.fault(id, WRONG_LENGTH);
        };
        let received = stream.received_bytes;
        if stream
            .declared_bytes
            .is_some_and(|declared| received != declared)
        {
            return self.fault(id, WRONG_LENGTH);
        }
        stream.receive = Half::Ended;
        self.remove_if_ended(id);
        Ok(Event::Data {
            id,
            bytes,
            end: true,
        })
    }

    /// The stream ends where a frame would begin.
    fn finish(&mut self, id: u64) -> Result<Option<Event<'static>>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if stream.frame.is_within_frame() {
            return Err(cut_frame());
        }
        if stream.has_trailers {
            stream.receive = Half::Ended;
            self.remove_if_ended(id);
            return Ok(None);
        }
        match stream.receive {
            Half::Head if self.role == Role::Server => {
                let error = StreamError::new(Code::H3_REQUEST_INCOMPLETE, "stream without request");
                self.fault(id, error).map(Some)
            }
            Half::Head => {
                let error = StreamError::malformed("stream without response");
                self.fault(id, error).map(Some)
            }
            Half::Body => self.end_body(id, &[]).map(Some),
            Half::Ended => Ok(None),
        }
    }

    /// A part of a HEADERS frame.
    fn section_part(
        &mut self,
        id: u64,
        part: &[u8],
        is_complete: bool,
        end: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        if is_complete && stream.section.is_empty() {
            return self.section(id, part, end);
        }
        stream.section.extend_from_slice(part);
        if is_complete {
            let section = std::mem::take(&mut stream.section);
            self.held_bytes -= section.len() - part.len();
            return self.section(id, &section, end);
        }
        self.hold(part.len())?;
        Ok(None)
    }

    /// Accounts for what is held of field sections.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), ConnectionError> {
        self.held_bytes += bytes;
        if self.held_bytes <= self.settings.held_bytes {
            return Ok(());
        }
        self.counters.header_bombs += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: field sections that are not complete",
        ))
    }

    /// The stream is over because of what came on it, or a response is all that is left of it.
    pub(super) fn fault(
        &mut self,
        id: u64,
        error: StreamError,
    ) -> Result<Event<'static>, ConnectionError> {
        self.counters.stream_faults += 1;
        self.wasted(id)?;
        if self.role == Role::Server && error.code == Code::H3_MESSAGE_ERROR {
            self.stop_receiving(id);
            return Ok(Event::Malformed { id, error });
        }
        self.reset(id);
        Ok(Event::Error { id, error })
    }
}

/// RFC 9114 section 4.1.2.
pub(super) const WRONG_LENGTH: StreamError =
    StreamError::malformed("body does not have the declared length");

/// RFC 9114 section 7.1.
fn cut_frame() -> ConnectionError {
    ConnectionError::new(Code::H3_FRAME_ERROR, "stream ends within a frame")
}
