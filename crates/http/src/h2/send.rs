//! Sends heads, bodies and resets. Everything is appended to the caller's buffer; bodies are
//! accounted for here and moved by the caller.

use super::connection::{Connection, MEASURE_PING, Phase, Role};
use super::error::ErrorCode;
use super::event::{Grant, OpenError, SendError};
use super::frame::{self, FrameHeader, FrameType, HEADER_BYTES, MAX_STREAM_ID, flag};
use super::hpack::BlockEncoder;
use super::streams::{Half, Lane, StreamRef};
use crate::StatusCode;
use crate::h1::ResponseHead;
use crate::headers::Field;
use crate::message::{Priority, RequestTarget, push_fields, push_request, push_response_fields};

/// Streams with smaller windows are given a larger one as soon as the body is read, whatever its
/// length: a client may be waiting for it.
const SMALL_WINDOW: u32 = 32 * 1024;

/// How many streams a client opens before the server's limit is known: RFC 9113 section 6.5.2
/// recommends that servers allow at least this many.
const STREAMS_BEFORE_SETTINGS: u32 = 100;

impl Connection {
    /// Sends a response head; with `end` there is no body.
    ///
    /// `Connection`, `Transfer-Encoding` and similar headers, which HTTP/2 does not have, are left
    /// out, whether they are fields of `head` or among its headers.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_response(
        &mut self,
        stream: StreamRef,
        head: &ResponseHead<'_>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let start = self.push_head(stream, out, head.status.on_wire(), |block| {
            push_response_fields(block, head);
            push_fields(block, head.headers.fields());
        })?;
        self.end_head(stream, start, end, out);
        Ok(())
    }

    /// Sends a head made of a status and fields, with names in any case. Otherwise like
    /// [`send_response`](Self::send_response).
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_head<'f>(
        &mut self,
        stream: StreamRef,
        status: StatusCode,
        fields: impl IntoIterator<Item = Field<'f>>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let push = |block: &mut BlockEncoder<'_>| push_fields(block, fields);
        let start = self.push_head(stream, out, status.on_wire(), push)?;
        self.end_head(stream, start, end, out);
        Ok(())
    }

    /// Sends an interim response (1xx, but not 101); the head is still to come.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_interim<'f>(
        &mut self,
        stream: StreamRef,
        status: StatusCode,
        fields: impl IntoIterator<Item = Field<'f>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let push = |block: &mut BlockEncoder<'_>| push_fields(block, fields);
        let start = self.push_head(stream, out, status, push)?;
        end_block(out, start, stream.id(), 0, self.peer.max_frame_bytes);
        Ok(())
    }

    /// Sends trailers, which end the stream. A body, or at least a head, must have been sent.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn send_trailers<'f>(
        &mut self,
        stream: StreamRef,
        fields: impl IntoIterator<Item = Field<'f>>,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        match self.streams.get(stream).ok_or(SendError::Gone)?.send {
            Half::Body => {}
            Half::Head | Half::Ended => return Err(SendError::Order),
        }
        let start = begin_block(out);
        push_fields(&mut self.encoder.block(out), fields);
        if out.len() == start + HEADER_BYTES {
            // Without fields nothing is sent: some peers treat an empty header block as an error.
            out.truncate(start);
            frame::push_header(out, FrameType::Data, flag::END_STREAM, stream.id(), 0);
        } else {
            let flags = flag::END_STREAM;
            end_block(out, start, stream.id(), flags, self.peer.max_frame_bytes);
        }
        self.end_sending(stream, out);
        Ok(())
    }

    /// Client: whether [`open`](Self::open) would succeed now.
    pub fn can_open(&self) -> bool {
        self.check_open().is_ok()
    }

    fn check_open(&self) -> Result<(), OpenError> {
        let is_used_up = self.last_stream >= MAX_STREAM_ID - 1;
        if self.role != Role::Client || self.phase != Phase::Open || is_used_up {
            return Err(OpenError::Closing);
        }
        let peer_most = if self.peer_is_known {
            self.peer.max_concurrent_streams
        } else {
            // Literally unlimited, but streams beyond the limit to come would be refused.
            STREAMS_BEFORE_SETTINGS
        };
        let most = peer_most.min(self.settings.max_concurrent_streams);
        if self.streams.len() >= most as usize {
            return Err(OpenError::Full);
        }
        Ok(())
    }

    /// Client: opens a stream with a request; with `end` it has no body.
    ///
    /// Connection-specific fields are left out, and so is `host` if there is an authority. `te` is
    /// sent as `trailers` or not at all (RFC 9113 section 8.2.2).
    ///
    /// # Errors
    /// [`OpenError`]; nothing was written.
    pub fn open<'f>(
        &mut self,
        target: &RequestTarget<'_>,
        fields: impl IntoIterator<Item = Field<'f>>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<StreamRef, OpenError> {
        self.check_open()?;
        let id = if self.last_stream == 0 {
            1
        } else {
            self.last_stream + 2
        };
        self.last_stream = id;
        // As for a server: rare frames belong to streams.
        self.meters.empty_frames.credit(2);
        self.meters.pings.credit(1);
        let stream = self.insert_stream(id);
        let is_head_request = target.method.as_bytes() == b"HEAD";
        self.streams.at(stream.slot() as u32).is_head_request = is_head_request;
        let start = begin_block(out);
        push_request(&mut self.encoder.block(out), target, fields);
        self.end_head(stream, start, end, out);
        Ok(stream)
    }

    /// Client: tells the server how urgent the response is (RFC 9218 section 7.1).
    #[cfg(test)]
    pub(crate) fn send_priority_update(
        &mut self,
        stream: StreamRef,
        priority: Priority,
        out: &mut Vec<u8>,
    ) {
        if self.role == Role::Client && self.streams.get(stream).is_some() {
            frame::push_priority_update(out, stream.id(), priority.value());
        }
    }

    /// Encodes the header block of a response, with what `push` adds to the status. Returns where
    /// its frame begins.
    fn push_head(
        &mut self,
        stream: StreamRef,
        out: &mut Vec<u8>,
        status: StatusCode,
        push: impl FnOnce(&mut BlockEncoder<'_>),
    ) -> Result<usize, SendError> {
        let found = self.streams.get(stream).ok_or(SendError::Gone)?;
        if found.send != Half::Head || self.role != Role::Server {
            return Err(SendError::Order);
        }
        let start = begin_block(out);
        let mut block = self.encoder.block(out);
        block.status(status.0);
        push(&mut block);
        Ok(start)
    }

    fn end_head(&mut self, stream: StreamRef, start: usize, end: bool, out: &mut Vec<u8>) {
        let flags = u8::from(end) * flag::END_STREAM;
        end_block(out, start, stream.id(), flags, self.peer.max_frame_bytes);
        if end {
            return self.end_sending(stream, out);
        }
        let found = self.streams.at(stream.slot() as u32);
        found.send = Half::Body;
        if found.offers {
            self.reschedule(stream);
        }
    }

    /// The stream has bytes to send, until [`pause`](Self::pause) or its end. Ignored for streams
    /// that are gone.
    pub fn offer(&mut self, stream: StreamRef) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.offers = true;
        if found.lane == Lane::Out {
            self.reschedule(stream);
        }
    }

    /// The stream has nothing to send for now, because its source is waiting.
    pub fn pause(&mut self, stream: StreamRef) {
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        found.offers = false;
        // A stream that waits for its source does not hold up the others.
        found.turn_bytes = 0;
        self.schedule
            .remove(&mut self.streams, stream.slot() as u32);
    }

    /// The stream whose turn it is, among those with something to send, and how much fits into one
    /// frame and the windows. Answer with [`data`](Self::data) or [`pause`](Self::pause), otherwise
    /// the next call returns the same stream. `None` if no stream can send.
    pub fn next_data(&mut self) -> Option<Grant> {
        let connection = self.send_window.available();
        if connection == 0 {
            return None;
        }
        let stream = self.schedule.next(&mut self.streams)?;
        let window = self
            .streams
            .at(stream.slot() as u32)
            .send_window
            .available();
        let most = self
            .settings
            .data_frame_bytes
            .clamp(1, self.peer.max_frame_bytes);
        Some(Grant {
            stream,
            max_bytes: window.min(connection).min(most),
        })
    }

    /// Writes the header of a DATA frame; the caller must append its `bytes` next. With `end` the
    /// stream ends. Writes nothing without bytes and `end`.
    ///
    /// Frames need windows, but no grant: an end without bytes may be written at any time.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
    pub fn data(
        &mut self,
        stream: StreamRef,
        bytes: u32,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let found = self.streams.get_mut(stream).ok_or(SendError::Gone)?;
        if found.send != Half::Body {
            return Err(SendError::Order);
        }
        let window = found
            .send_window
            .available()
            .min(self.send_window.available());
        if bytes > window.min(self.peer.max_frame_bytes) {
            return Err(SendError::Window);
        }
        if bytes == 0 && !end {
            return Ok(());
        }
        if end && found.receive == Half::Ended {
            // The stream will be gone. Its unreleased bytes are returned before the header, as
            // nothing may come between the header and its payload.
            let unreleased = std::mem::take(&mut found.unreleased);
            self.receive_window.release(unreleased);
            self.update_connection_window(out);
        }
        let found = self.streams.at(stream.slot() as u32);
        let flags = u8::from(end) * flag::END_STREAM;
        frame::push_header(out, FrameType::Data, flags, stream.id(), bytes);
        found.send_window.consume(bytes);
        self.send_window.consume(bytes);
        self.meters.window_updates.credit(4);
        if end {
            self.end_sending(stream, out);
            return Ok(());
        }
        let is_blocked = found.send_window.available() == 0;
        let slot = stream.slot() as u32;
        // The frame counts as a turn, whether or not another one may follow.
        self.schedule.sent(&mut self.streams, slot, bytes);
        if is_blocked {
            self.schedule.remove(&mut self.streams, slot);
        }
        Ok(())
    }

    /// Whether DATA of the stream is waiting for the peer's window, not for the application.
    pub fn is_blocked(&self, stream: StreamRef) -> bool {
        let is_closed = |window: u32| window == 0;
        self.streams.get(stream).is_some_and(|found| {
            found.offers
                && (is_closed(found.send_window.available())
                    || is_closed(self.send_window.available()))
        })
    }

    /// Changes the priority of a stream, for example according to an origin's `priority` header
    /// (RFC 9218 section 8).
    pub fn set_priority(&mut self, stream: StreamRef, priority: Priority) {
        if self.streams.get(stream).is_none() {
            return;
        }
        let slot = stream.slot() as u32;
        self.schedule.remove(&mut self.streams, slot);
        self.streams.at(slot).priority = Priority {
            urgency: priority.urgency.min(7),
            ..priority
        };
        self.reschedule(stream);
    }

    /// The priority of a stream.
    pub fn priority(&self, stream: StreamRef) -> Option<Priority> {
        self.streams.get(stream).map(|stream| stream.priority)
    }

    /// The application has consumed bytes of the stream's body. Writes window updates when they are
    /// worth a frame.
    pub fn release(&mut self, stream: StreamRef, bytes: usize, out: &mut Vec<u8>) {
        let Some(found) = self.streams.get_mut(stream) else {
            // Already returned when the stream was removed.
            return;
        };
        let bytes = u32::try_from(bytes)
            .unwrap_or(u32::MAX)
            .min(found.unreleased);
        found.unreleased -= bytes;
        found.receive_window.release(bytes);
        self.receive_window.release(bytes);
        self.update_stream_window(stream, out);
        self.update_connection_window(out);
    }

    /// The application starts reading the body: the stream's window, which
    /// [`stream_window_bytes`](super::Settings::stream_window_bytes) may have kept small or closed
    /// until now, becomes at least this large, unless the whole body fits into it as it is.
    pub fn widen(&mut self, stream: StreamRef, bytes: u32, out: &mut Vec<u8>) {
        let bytes = bytes.min(self.settings.max_stream_window_bytes);
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        let is_enough = |declared: u64| {
            let left = declared.saturating_sub(found.received_bytes);
            let open = found.receive_window.available();
            open >= SMALL_WINDOW && left <= u64::from(open)
        };
        if found.receive != Half::Ended
            && !found.declared_bytes.is_some_and(is_enough)
            && let Some(increment) = found.receive_window.widen(bytes)
        {
            frame::push_window_update(out, stream.id(), increment);
        }
    }

    /// Bytes of the stream's body that were delivered but not released.
    pub fn unreleased(&self, stream: StreamRef) -> u32 {
        self.streams.get(stream).map_or(0, |found| found.unreleased)
    }

    /// Resets a stream, which is gone then. Anything the peer still sends on it is ignored. Use
    /// [`ErrorCode::NO_ERROR`] after a complete response whose request is no longer needed.
    pub fn reset(&mut self, stream: StreamRef, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.get(stream).is_none() {
            return;
        }
        self.remove_stream(stream, out);
        self.newest_reset = self.newest_reset.max(stream.id());
        frame::push_rst_stream(out, stream.id(), code);
    }

    fn end_sending(&mut self, stream: StreamRef, out: &mut Vec<u8>) {
        self.schedule
            .remove(&mut self.streams, stream.slot() as u32);
        let found = self.streams.at(stream.slot() as u32);
        found.send = Half::Ended;
        found.offers = false;
        self.remove_if_ended(stream, out);
    }

    pub(super) fn update_stream_window(&mut self, stream: StreamRef, out: &mut Vec<u8>) {
        let most = self.settings.max_stream_window_bytes;
        let round_trip = self.round_trip.value();
        let Some(found) = self.streams.get_mut(stream) else {
            return;
        };
        if found.receive == Half::Ended {
            return;
        }
        if let Some(increment) = found.receive_window.update(self.now, round_trip, most) {
            frame::push_window_update(out, stream.id(), increment);
            self.measure(out);
        }
    }

    pub(super) fn update_connection_window(&mut self, out: &mut Vec<u8>) {
        let most = self.settings.max_connection_window_bytes;
        let round_trip = self.round_trip.value();
        if let Some(increment) = self.receive_window.update(self.now, round_trip, most) {
            frame::push_window_update(out, 0, increment);
        }
    }

    /// Measures the round-trip time now and then while bodies arrive.
    fn measure(&mut self, out: &mut Vec<u8>) {
        if self.round_trip.is_due(self.now) {
            self.round_trip.start(self.now);
            frame::push_ping(out, false, MEASURE_PING);
        }
    }
}

/// Reserves room for the header of a HEADERS frame.
fn begin_block(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Writes the header of the HEADERS frame at `start`. Anything beyond the peer's frame size moves
/// into CONTINUATION frames.
fn end_block(out: &mut Vec<u8>, start: usize, stream: u32, flags: u8, max_frame_bytes: u32) {
    let most = max_frame_bytes as usize;
    let first = start + HEADER_BYTES;
    let length = out.len() - first;
    let header = |kind, flags, length: usize| {
        FrameHeader {
            length: length as u32,
            kind,
            flags,
            stream,
        }
        .bytes()
    };
    if length <= most {
        let bytes = header(FrameType::Headers, flags | flag::END_HEADERS, length);
        out[start..first].copy_from_slice(&bytes);
        return;
    }
    out[start..first].copy_from_slice(&header(FrameType::Headers, flags, most));
    let rest = out.split_off(first + most);
    let mut parts = rest.chunks(most).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() {
            flag::END_HEADERS
        } else {
            0
        };
        out.extend_from_slice(&header(FrameType::Continuation, flags, part.len()));
        out.extend_from_slice(part);
    }
}
