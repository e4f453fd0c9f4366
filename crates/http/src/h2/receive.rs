//! Turns received bytes into events: which frame is allowed when, and what it does (RFC 9113
//! sections 5 and 6). Header blocks are in `heads.rs`.

use std::time::Duration;

use super::connection::{
    Connection, MAX_HEADERS_EXTRA_BYTES, OWNER_PING, Phase, Role, SHUT_DOWN_PING,
};
use super::error::{ErrorCode, Fault, Flood, StreamFault};
use super::event::{Event, Received};
use super::frame::{self, FrameHeader, FrameType, HEADER_BYTES, MAX_STREAM_ID, PREFACE, flag};
use super::streams::{Half, Stream, StreamRef};
use crate::message::Priority;

/// A DATA frame whose payload is still arriving.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncomingData {
    /// Its stream; `None` if the data is discarded.
    stream: Option<StreamRef>,
    remaining: u32,
    padding: u32,
    end: bool,
}

/// A header block that continues in CONTINUATION frames.
#[derive(Debug)]
pub(super) struct HeaderBlock {
    pub(super) stream: u32,
    pub(super) end_stream: bool,
    pub(super) depends_on: Option<u32>,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: u32,
}

impl Connection {
    /// Takes bytes from the peer, up to the first event.
    ///
    /// Call it again with the bytes that were not consumed until there is no event. Keep the rest,
    /// at most [`max_unconsumed_bytes`](Self::max_unconsumed_bytes), and call it when more has
    /// arrived. `now` is the time since any fixed moment. Replies (acknowledgements, resets, window
    /// updates) are appended to `out`.
    ///
    /// # Errors
    /// [`Fault`]: the connection is over. GOAWAY is in `out`; send it and close. Every later call
    /// returns it again, and writes nothing. What comes after [`close`](Self::close) is ignored.
    pub fn receive<'i>(
        &mut self,
        input: &'i [u8],
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<Received<'i>, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.now = now;
        let mut consumed = 0;
        match self.read(input, &mut consumed, out) {
            Ok(event) => Ok(Received { consumed, event }),
            Err(fault) => {
                self.fail(fault, out);
                Err(fault)
            }
        }
    }

    /// Server: refuses a request that cannot be taken now, in the same way as one stream too many,
    /// so that it may be sent again (RFC 9113 section 8.7). It counts as a wasted stream.
    ///
    /// # Errors
    /// [`Fault`]: there were too many of them. GOAWAY is in `out`; send it and close. So it is,
    /// too, when the connection has ended in a fault before.
    pub fn refuse(&mut self, stream: StreamRef, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.streams.get(stream).is_none() {
            return Ok(());
        }
        self.remove_stream(stream, out);
        self.counters.streams_refused += 1;
        let refused = self.reset_because(stream.id(), StreamFault::Refused, out);
        if let Err(fault) = refused {
            self.fail(fault, out);
        }
        refused
    }

    /// Whether a header block has begun that further CONTINUATION frames must complete.
    pub fn is_within_head(&self) -> bool {
        self.block.is_some()
    }

    fn read<'i>(
        &mut self,
        input: &'i [u8],
        at: &mut usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        if self.phase == Phase::Closed {
            *at = input.len();
            return Ok(None);
        }
        if self.has_orphans
            && let Some(event) = self.next_orphan(out)
        {
            return Ok(Some(event));
        }
        if self.preface_left > 0 && !self.read_preface(input, at)? {
            return Ok(None);
        }
        loop {
            if self.incoming.is_some() {
                let available = &input[*at..];
                let (taken, event) = self.data_part(available, out);
                *at += taken;
                if event.is_some() || self.incoming.is_some() {
                    return Ok(event);
                }
            }
            if self.skip_bytes > 0 {
                let taken = (input.len() - *at).min(self.skip_bytes as usize);
                *at += taken;
                self.skip_bytes -= taken as u32;
            }
            let rest = &input[*at..];
            let Some(header) = FrameHeader::parse(rest) else {
                return Ok(None);
            };
            self.check_order(header)?;
            let length = header.length as usize;
            let payload = &rest[HEADER_BYTES..];
            match header.kind {
                FrameType::Data => {
                    let padding = if header.has(flag::PADDED) {
                        match payload.first() {
                            _ if length == 0 => return Err(Fault::FrameSize("DATA")),
                            None => return Ok(None),
                            Some(&padding) => Some(padding),
                        }
                    } else {
                        None
                    };
                    *at += HEADER_BYTES + usize::from(padding.is_some());
                    let event = self.begin_data(header, padding, out)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                FrameType::Unknown => {
                    self.charge_empty(1)?;
                    *at += HEADER_BYTES;
                    self.skip_bytes = header.length;
                }
                _ => {
                    let Some(payload) = payload.get(..length) else {
                        return Ok(None);
                    };
                    *at += HEADER_BYTES + length;
                    let event = self.frame(header, payload, out)?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Compares the client preface as far as it has arrived; `true` when it is complete.
    fn read_preface(&mut self, input: &[u8], at: &mut usize) -> Result<bool, Fault> {
        let expected = &PREFACE[PREFACE.len() - usize::from(self.preface_left)..];
        let length = expected.len().min(input.len());
        if input[..length] != expected[..length] {
            return Err(Fault::Preface);
        }
        *at = length;
        self.preface_left -= length as u8;
        Ok(self.preface_left == 0)
    }

    /// Makes the order checks that need only a frame header.
    fn check_order(&self, header: FrameHeader) -> Result<(), Fault> {
        // Some clients acknowledge our SETTINGS, or send a request, before their own SETTINGS. All
        // of that can be understood without them, and nginx serves it.
        let is_settings = header.kind == FrameType::Settings && !header.has(flag::ACK);
        if self.role == Role::Client && !self.peer_is_known && !is_settings {
            return Err(Fault::FirstFrame);
        }
        self.check_size(header)?;
        frame::check_header(header)?;
        let continues = header.kind == FrameType::Continuation;
        match &self.block {
            Some(block) if !continues || header.stream != block.stream => Err(Fault::Continuation),
            None if continues => Err(Fault::Continuation),
            _ => Ok(()),
        }
    }

    /// Section 4.2. DATA and what is ignored is taken in parts, however long the frame is. A header
    /// block is read as a whole, but not beyond its limit. No other frame is ever large.
    fn check_size(&self, header: FrameHeader) -> Result<(), Fault> {
        let announced = self.settings.max_frame_bytes;
        let is_head = matches!(header.kind, FrameType::Headers | FrameType::Continuation);
        let most = match header.kind {
            FrameType::Data | FrameType::Unknown => announced,
            _ if is_head => announced,
            _ => frame::DEFAULT_MAX_FRAME_BYTES,
        };
        if header.length > most {
            return Err(Fault::FrameTooLarge);
        }
        let held = self.block.as_ref().map_or(0, |block| block.bytes.len());
        let most_bytes = self.max_block_bytes().saturating_sub(held) + MAX_HEADERS_EXTRA_BYTES;
        let is_large = header.length > frame::DEFAULT_MAX_FRAME_BYTES;
        if is_head && is_large && header.length as usize > most_bytes {
            return Err(Fault::Flood(Flood::Continuation));
        }
        Ok(())
    }

    fn frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &'i [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        match header.kind {
            FrameType::Headers => self.headers_frame(header, payload, out),
            FrameType::Continuation => self.continuation_frame(header, payload, out),
            FrameType::Priority => self.priority_frame(header, payload, out),
            FrameType::RstStream => self.rst_stream_frame(header, payload, out),
            FrameType::Settings => self.settings_frame(header, payload, out),
            FrameType::Ping => self.ping_frame(header, payload, out),
            FrameType::GoAway => self.go_away_frame(payload),
            FrameType::WindowUpdate => self.window_update_frame(header, payload, out),
            FrameType::PriorityUpdate => self.priority_update_frame(payload),
            // Refused by the header checks, or handled where their payload is read.
            FrameType::PushPromise | FrameType::Data | FrameType::Unknown => Ok(None),
        }
    }

    /// Section 6.1: the flow control of a DATA frame, and whether it is allowed.
    fn begin_data<'i>(
        &mut self,
        header: FrameHeader,
        padding: Option<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let padding_bytes = padding.map_or(0, |length| u32::from(length) + 1);
        let Some(data_bytes) = header.length.checked_sub(padding_bytes) else {
            return Err(Fault::Padding);
        };
        if !self.receive_window.receive(header.length) {
            return Err(Fault::ConnectionWindow);
        }
        let end = header.has(flag::END_STREAM);
        let stream = self.stream_for(header.stream, "DATA")?;
        // What follows an error is ignored until the stream is reset.
        let is_wanted = |found: &Stream| !found.is_malformed;
        let stream = stream.filter(|&stream| self.streams.get(stream).is_some_and(is_wanted));
        let fault =
            stream.and_then(|stream| self.judge_data(stream, header.length, data_bytes, end));
        let wanted = stream.filter(|_| fault.is_none());
        self.incoming = Some(IncomingData {
            stream: wanted,
            remaining: data_bytes,
            padding: padding_bytes.saturating_sub(1),
            end,
        });
        if padding.is_some() {
            // The length of the padding was read with the header.
            self.give_back(wanted, padding_bytes, out);
        }
        if data_bytes > 0 {
            self.meters.empty_frames.credit(1);
            self.meters.pings.credit(1);
        } else if !end {
            self.charge_empty(1)?;
        }
        match (stream, fault) {
            (Some(stream), Some(fault)) => self.message_fault(stream, fault, out).map(Some),
            _ => Ok(None),
        }
    }

    /// Accounts for DATA on its stream; `Some` if it is not allowed.
    fn judge_data(
        &mut self,
        stream: StreamRef,
        frame_bytes: u32,
        data_bytes: u32,
        end: bool,
    ) -> Option<StreamFault> {
        let found = self.streams.get_mut(stream)?;
        match found.receive {
            Half::Head => return Some(StreamFault::Malformed("upstream sent DATA before HEADERS")),
            Half::Ended => return Some(StreamFault::HalfClosed),
            Half::Body => {}
        }
        if !found.receive_window.receive(frame_bytes) {
            return Some(StreamFault::StreamWindow);
        }
        found.received_bytes = found.received_bytes.saturating_add(u64::from(data_bytes));
        let received = found.received_bytes;
        let fits = |declared: u64| received <= declared && (!end || received == declared);
        let is_wrong = found.declared_bytes.is_some_and(|declared| !fits(declared));
        is_wrong.then_some(StreamFault::ContentLength)
    }

    /// Passes on what has arrived of a DATA frame. Returns the bytes taken; the frame is complete
    /// when `incoming` is.
    fn data_part<'i>(&mut self, input: &'i [u8], out: &mut Vec<u8>) -> (usize, Option<Event<'i>>) {
        let Some(incoming) = &mut self.incoming else {
            return (0, None);
        };
        let bytes = &input[..input.len().min(incoming.remaining as usize)];
        let taken = bytes.len() as u32;
        incoming.remaining -= taken;
        let is_last = incoming.remaining == 0;
        let end = is_last && incoming.end;
        if is_last {
            self.skip_bytes = incoming.padding;
        } else if bytes.is_empty() {
            return (0, None);
        }
        // It may have been reset since the frame began.
        let wanted = incoming
            .stream
            .filter(|&stream| self.streams.get(stream).is_some());
        if is_last {
            self.incoming = None;
        }
        let Some(stream) = wanted else {
            self.give_back(None, taken, out);
            return (bytes.len(), None);
        };
        if bytes.is_empty() && !end {
            return (0, None);
        }
        if let Some(found) = self.streams.get_mut(stream) {
            found.unreleased += taken;
            if end {
                found.receive = Half::Ended;
            }
        }
        if end {
            self.remove_if_ended(stream, out);
        }
        (bytes.len(), Some(Event::Data { stream, bytes, end }))
    }

    /// Section 6.3, and section 5.3.1 of RFC 7540: checked and otherwise ignored.
    fn priority_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        self.charge_priority()?;
        let depends_on = frame::number(payload).map(|stream| stream & MAX_STREAM_ID);
        let fault = if payload.len() != 5 {
            StreamFault::PrioritySize
        } else if depends_on == Some(header.stream) {
            StreamFault::SelfDependency
        } else {
            return Ok(None);
        };
        match self.streams.find(header.stream) {
            Some(stream) => self.stream_fault(stream, fault, out).map(Some),
            // An idle stream cannot be reset (section 5.1); a closed one is of no interest.
            None if self.is_idle(header.stream) => Err(Fault::FrameSize("PRIORITY")),
            None => Ok(None),
        }
    }

    /// Section 6.4.
    fn rst_stream_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        if self.is_idle(header.stream) {
            return Err(Fault::IdleStream("RST_STREAM"));
        }
        let Some(stream) = self.streams.find(header.stream) else {
            self.charge_empty(1)?;
            return Ok(None);
        };
        let code = ErrorCode(frame::number(payload).unwrap_or_default());
        self.remove_stream(stream, out);
        self.counters.resets_received += 1;
        // A server's reset is its response to us; only requests can be used for a flood.
        if self.role == Role::Server {
            self.charge_reset()?;
        }
        Ok(Some(Event::Reset {
            stream,
            code,
            unprocessed: code == ErrorCode::REFUSED_STREAM,
        }))
    }

    /// Section 6.5.
    fn settings_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        if header.has(flag::ACK) {
            return self.settings_ack().map(|()| None);
        }
        let allowance = self.settings.limits.settings;
        if !self.meters.settings.charge(1, allowance, self.now) {
            return Err(Fault::Flood(Flood::Settings));
        }
        let is_first = !self.peer_is_known;
        let peer_is_server = self.role == Role::Client;
        let changes = self.peer.apply(payload, is_first, peer_is_server)?;
        if let Some((smallest, last)) = changes.header_table {
            self.encoder.set_peer_limit(smallest);
            self.encoder.set_peer_limit(last);
        }
        if changes.window_delta != 0 {
            self.change_send_windows(changes.window_delta)?;
        }
        self.peer_is_known = true;
        self.reply()?;
        frame::push_settings_ack(out);
        Ok(is_first.then_some(Event::Settings))
    }

    /// The peer has applied our settings.
    fn settings_ack(&mut self) -> Result<(), Fault> {
        if !self.settings_pending {
            return Err(Fault::SettingsAck);
        }
        self.settings_pending = false;
        self.round_trip.finish(self.now);
        let window = self
            .settings
            .stream_window_bytes
            .min(super::flow::MAX_WINDOW);
        let delta = window as i32 - self.stream_window_bytes as i32;
        self.stream_window_bytes = window;
        for (_, stream) in self.streams.iter_mut() {
            stream.receive_window.adjust(delta);
        }
        Ok(())
    }

    /// Section 6.9.2: a new initial window changes that of every stream, possibly below zero.
    fn change_send_windows(&mut self, delta: i64) -> Result<(), Fault> {
        let mut slots = smallvec::SmallVec::<[StreamRef; 32]>::new();
        for (stream, found) in self.streams.iter_mut() {
            found
                .send_window
                .adjust(delta)
                .map_err(|_| Fault::WindowOverflow)?;
            slots.push(stream);
        }
        for stream in slots {
            self.reschedule(stream);
        }
        Ok(())
    }

    /// Section 6.7.
    fn ping_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let Some(&payload) = payload.first_chunk::<8>() else {
            return Err(Fault::FrameSize("PING"));
        };
        if !header.has(flag::ACK) {
            let allowance = self.settings.limits.pings;
            if !self.meters.pings.charge(1, allowance, self.now) {
                return Err(Fault::Flood(Flood::Ping));
            }
            self.reply()?;
            frame::push_ping(out, true, payload);
            return Ok(None);
        }
        match payload {
            SHUT_DOWN_PING if self.phase == Phase::Announced => self.shut_down_now(out),
            OWNER_PING => return Ok(Some(Event::Pong)),
            super::connection::MEASURE_PING => self.round_trip.finish(self.now),
            _ => self.charge_empty(1)?,
        }
        Ok(None)
    }

    /// Section 6.8.
    fn go_away_frame<'i>(&mut self, payload: &'i [u8]) -> Result<Option<Event<'i>>, Fault> {
        self.charge_empty(1)?;
        let last_stream = frame::number(payload).unwrap_or_default() & MAX_STREAM_ID;
        let code = ErrorCode(frame::number(&payload[4..]).unwrap_or_default());
        if last_stream > self.peer_last_stream {
            return Err(Fault::GoAway);
        }
        self.peer_last_stream = last_stream;
        if self.role == Role::Client {
            self.has_orphans = true;
            if self.phase == Phase::Open {
                // No new streams. A GOAWAY in return is not required.
                self.phase = Phase::Draining;
            }
        }
        Ok(Some(Event::GoAway {
            last_stream,
            code,
            debug: &payload[8..],
        }))
    }

    /// The next stream that the peer's GOAWAY excluded.
    fn next_orphan<'i>(&mut self, out: &mut Vec<u8>) -> Option<Event<'i>> {
        let last = self.peer_last_stream;
        let orphan = self
            .streams
            .iter_mut()
            .map(|(stream, _)| stream)
            .filter(|stream| stream.id() > last)
            .min();
        let Some(stream) = orphan else {
            self.has_orphans = false;
            return None;
        };
        self.remove_stream(stream, out);
        Some(Event::Reset {
            stream,
            code: ErrorCode::REFUSED_STREAM,
            unprocessed: true,
        })
    }

    /// Section 6.9.
    fn window_update_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let allowance = self.settings.limits.window_updates;
        if !self.meters.window_updates.charge(1, allowance, self.now) {
            return Err(Fault::Flood(Flood::WindowUpdate));
        }
        let increment = frame::number(payload).unwrap_or_default() & MAX_STREAM_ID;
        if header.stream == 0 {
            if increment == 0 {
                return Err(Fault::ZeroIncrement);
            }
            let adjusted = self.send_window.adjust(i64::from(increment));
            return adjusted.map(|()| None).map_err(|_| Fault::WindowOverflow);
        }
        if self.is_idle(header.stream) {
            return Err(Fault::IdleStream("WINDOW_UPDATE"));
        }
        let Some(stream) = self.streams.find(header.stream) else {
            // The peer may not know yet that the stream has ended.
            return Ok(None);
        };
        if increment == 0 {
            return self
                .stream_fault(stream, StreamFault::ZeroIncrement, out)
                .map(Some);
        }
        let found = self.streams.at(stream.slot() as u32);
        if found.send_window.adjust(i64::from(increment)).is_err() {
            return self
                .stream_fault(stream, StreamFault::WindowOverflow, out)
                .map(Some);
        }
        if found.offers && found.lane == super::streams::Lane::Out {
            self.reschedule(stream);
        }
        Ok(None)
    }

    /// RFC 9218 section 7.1.
    fn priority_update_frame<'i>(&mut self, payload: &[u8]) -> Result<Option<Event<'i>>, Fault> {
        self.charge_priority()?;
        let id = frame::number(payload).unwrap_or_default() & MAX_STREAM_ID;
        if self.role == Role::Client || id == 0 || id.is_multiple_of(2) {
            return Err(Fault::PriorityUpdate);
        }
        let priority = Priority::parse(&payload[4..]);
        if let Some(stream) = self.streams.find(id) {
            self.set_priority(stream, priority);
        } else if self.is_idle(id) {
            self.early_priorities.retain(|&(other, _)| other != id);
            if self.early_priorities.len() >= super::connection::MAX_EARLY_PRIORITIES {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
        }
        Ok(None)
    }

    /// The open stream that a frame is for; `None` if it is gone and the frame must be ignored.
    pub(super) fn stream_for(
        &self,
        id: u32,
        name: &'static str,
    ) -> Result<Option<StreamRef>, Fault> {
        if let Some(stream) = self.streams.find(id) {
            return Ok(Some(stream));
        }
        if self.is_idle(id) {
            return Err(Fault::IdleStream(name));
        }
        // Frames may have been in flight when the stream was reset here. It is not recorded for
        // which streams that is so, only that it is possible.
        if id <= self.newest_reset || self.phase == Phase::Draining {
            return Ok(None);
        }
        Err(Fault::ClosedStream(name))
    }

    /// Whether a stream has never been opened (section 5.1.1).
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.last_stream.max(self.last_ignored)
    }

    /// A stream of which the peer sent something wrong. A malformed request may be answered before
    /// its stream is reset (section 8.1.1); everything else ends the stream at once.
    pub(super) fn message_fault<'i>(
        &mut self,
        stream: StreamRef,
        fault: StreamFault,
        out: &mut Vec<u8>,
    ) -> Result<Event<'i>, Fault> {
        let found = self.streams.at(stream.slot() as u32);
        let is_unanswered = self.role == Role::Server && found.send == Half::Head;
        if !is_unanswered || !fault.is_malformed() {
            return self.stream_fault(stream, fault, out);
        }
        found.is_malformed = true;
        found.receive = Half::Ended;
        self.charge_fault()?;
        Ok(Event::Malformed { stream, fault })
    }

    /// Resets a stream that was announced to the owner, because of what the peer sent on it.
    pub(super) fn stream_fault<'i>(
        &mut self,
        stream: StreamRef,
        fault: StreamFault,
        out: &mut Vec<u8>,
    ) -> Result<Event<'i>, Fault> {
        self.remove_stream(stream, out);
        self.reset_because(stream.id(), fault, out)?;
        Ok(Event::Fault {
            id: stream.id(),
            stream: Some(stream),
            fault,
        })
    }

    /// Counts a stream that the peer has spoilt: resets provoked by a peer cost as much as its own
    /// (CVE-2025-8671), whether they are written now or behind a response.
    pub(super) fn charge_fault(&mut self) -> Result<(), Fault> {
        self.counters.stream_faults += 1;
        self.charge_reset()
    }

    /// Writes RST_STREAM and counts it.
    pub(super) fn reset_because(
        &mut self,
        id: u32,
        fault: StreamFault,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.newest_reset = self.newest_reset.max(id);
        self.charge_fault()?;
        self.reply()?;
        frame::push_rst_stream(out, id, fault.code());
        Ok(())
    }

    /// Returns bytes to the peer that no application will consume.
    fn give_back(&mut self, stream: Option<StreamRef>, bytes: u32, out: &mut Vec<u8>) {
        if bytes == 0 {
            return;
        }
        if let Some(found) = stream.and_then(|stream| self.streams.get_mut(stream)) {
            found.receive_window.release(bytes);
        }
        self.receive_window.release(bytes);
        if let Some(stream) = stream {
            self.update_stream_window(stream, out);
        }
        self.update_connection_window(out);
    }

    /// Counts a frame written in reply to the peer.
    pub(super) fn reply(&mut self) -> Result<(), Fault> {
        self.meters.unread_replies += 1;
        if self.meters.unread_replies > self.settings.limits.unread_replies {
            return Err(Fault::Flood(Flood::Unread));
        }
        Ok(())
    }

    fn charge_reset(&mut self) -> Result<(), Fault> {
        let allowance = self.settings.limits.resets;
        if self.meters.resets.charge(1, allowance, self.now) {
            return Ok(());
        }
        Err(Fault::Flood(Flood::RapidReset))
    }

    pub(super) fn charge_empty(&mut self, count: u32) -> Result<(), Fault> {
        let allowance = self.settings.limits.empty_frames;
        if self.meters.empty_frames.charge(count, allowance, self.now) {
            return Ok(());
        }
        Err(Fault::Flood(Flood::Empty))
    }

    pub(super) fn charge_priority(&mut self) -> Result<(), Fault> {
        let allowance = self.settings.limits.priority_frames;
        if self.meters.priority_frames.charge(1, allowance, self.now) {
            return Ok(());
        }
        Err(Fault::Flood(Flood::Priority))
    }
}
