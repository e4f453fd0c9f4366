//! The control streams: SETTINGS and what else is about the whole connection (RFC 9114 sections
//! 6.2.1 and 7.2).

use super::connection::{Connection, MAX_EARLY_PRIORITIES, Role};
use super::error::{Code, ConnectionError};
use super::event::Event;
use super::frame::{self, FrameState, kind};
use super::settings::Settings;
use super::varint;
use crate::message::Priority;

/// The type of control streams (RFC 9114 section 6.2.1).
pub(super) const CONTROL_STREAM: u64 = 0x0;

/// The largest frame that is taken as a whole: SETTINGS have a few settings of up to 16 bytes, and
/// all others less.
const MAX_FRAME_BYTES: u64 = 4096;

/// The most settings in a frame: more than anybody has.
const MAX_SETTINGS: usize = 128;

/// Identifiers of settings (RFC 9114 section 11.2.2).
mod id {
    pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub(super) const QPACK_BLOCKED_STREAMS: u64 = 0x7;
    /// RFC 9220 section 3.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    /// RFC 9297 section 2.1.1.
    pub(super) const H3_DATAGRAM: u64 = 0x33;
}

/// What is known of the peer's control stream.
#[derive(Debug, Default)]
pub(super) struct Control {
    state: FrameState,
    /// The part of a frame that has arrived.
    payload: Vec<u8>,
    has_settings: bool,
    /// The highest push id that a client allows, plus one.
    push_ids: u64,
}

impl Control {
    pub(super) fn heap_bytes(&self) -> usize {
        self.payload.capacity()
    }
}

/// Appends the type of the control stream and SETTINGS.
pub(super) fn push_settings(settings: &Settings, role: Role, out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(16);
    let mut put = |identifier, value: u64| {
        varint::put(&mut payload, identifier);
        varint::put(&mut payload, value);
    };
    if settings.decoder_table_bytes > 0 {
        let capacity = settings.decoder_table_bytes;
        let capacity = capacity.min(crate::h2::hpack::MAX_TABLE_BYTES);
        put(id::QPACK_MAX_TABLE_CAPACITY, u64::from(capacity));
        put(id::QPACK_BLOCKED_STREAMS, settings.blocked_streams as u64);
    }
    if role == Role::Server && settings.extended_connect {
        put(id::ENABLE_CONNECT_PROTOCOL, 1);
    }
    varint::put(out, CONTROL_STREAM);
    frame::push_header(out, kind::SETTINGS, payload.len() as u64);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY.
pub(super) fn push_goaway(id: u64, out: &mut Vec<u8>) {
    frame::push_header(out, kind::GOAWAY, varint::len(id) as u64);
    varint::put(out, id);
}

impl Connection {
    /// Reads the peer's control stream up to the first event.
    pub(super) fn receive_control(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        loop {
            match &mut self.control.state {
                FrameState::Header(partial) => {
                    let Some(header) = FrameState::take_header(partial, input) else {
                        return Ok(None);
                    };
                    self.judge_control_frame(header.kind, header.length)?;
                    self.control.state = FrameState::Payload {
                        kind: header.kind,
                        remaining: header.length,
                    };
                }
                FrameState::Payload { kind, remaining } => {
                    let kind = *kind;
                    let available = usize::try_from(*remaining).unwrap_or(usize::MAX);
                    let (part, rest) = input.split_at(available.min(input.len()));
                    *input = rest;
                    *remaining -= part.len() as u64;
                    let is_complete = *remaining == 0;
                    let event = self.control_payload(kind, part, is_complete)?;
                    if !is_complete {
                        return Ok(None);
                    }
                    self.control.state = FrameState::default();
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Which frames may come on a control stream, and when.
    fn judge_control_frame(&mut self, kind: u64, length: u64) -> Result<(), ConnectionError> {
        if !self.control.has_settings && kind != kind::SETTINGS {
            return Err(ConnectionError::new(
                Code::H3_MISSING_SETTINGS,
                "the first frame of the control stream is not SETTINGS",
            ));
        }
        let is_server = self.role == Role::Server;
        let is_expected = match kind {
            kind::SETTINGS => !self.control.has_settings,
            kind::GOAWAY | kind::CANCEL_PUSH => true,
            kind::MAX_PUSH_ID => is_server,
            kind::PRIORITY_UPDATE_OF_REQUEST | kind::PRIORITY_UPDATE_OF_PUSH => is_server,
            kind => !frame::is_known(kind),
        };
        if !is_expected {
            return Err(ConnectionError::new(
                Code::H3_FRAME_UNEXPECTED,
                "unexpected frame on the control stream",
            ));
        }
        match kind {
            kind::SETTINGS => {}
            kind::PRIORITY_UPDATE_OF_REQUEST => self.charge_priority()?,
            _ => self.charge_empty()?,
        }
        if frame::is_known(kind) && length > MAX_FRAME_BYTES {
            self.counters.settings_floods += 1;
            return Err(ConnectionError::new(
                Code::H3_EXCESSIVE_LOAD,
                "too large a frame on the control stream",
            ));
        }
        Ok(())
    }

    fn charge_priority(&mut self) -> Result<(), ConnectionError> {
        let allowance = self.settings.limits.priority_frames;
        if self.meters.priority_frames.charge(1, allowance, self.now) {
            return Ok(());
        }
        self.counters.priority_floods += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: priority frames",
        ))
    }

    /// A part of a frame's payload; frames are handled when they are complete.
    fn control_payload(
        &mut self,
        kind: u64,
        part: &[u8],
        is_complete: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if !frame::is_known(kind) {
            return Ok(None);
        }
        if !is_complete {
            self.control.payload.extend_from_slice(part);
            return Ok(None);
        }
        if self.control.payload.is_empty() {
            return self.control_frame(kind, part);
        }
        let mut payload = std::mem::take(&mut self.control.payload);
        payload.extend_from_slice(part);
        self.control_frame(kind, &payload)
    }

    fn control_frame(
        &mut self,
        kind: u64,
        mut payload: &[u8],
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        match kind {
            kind::SETTINGS => return self.settings_frame(payload).map(Some),
            kind::PRIORITY_UPDATE_OF_REQUEST => {
                let id = varint::take(&mut payload).ok_or(cut_frame())?;
                return self.priority_update(id, payload);
            }
            kind::PRIORITY_UPDATE_OF_PUSH => return Err(no_push()),
            _ => {}
        }
        // The others have one number.
        let id = varint::take(&mut payload).filter(|_| payload.is_empty());
        let id = id.ok_or(cut_frame())?;
        match kind {
            kind::GOAWAY => self.goaway(id).map(Some),
            kind::MAX_PUSH_ID if id + 1 < self.control.push_ids => Err(ConnectionError::new(
                Code::H3_ID_ERROR,
                "MAX_PUSH_ID that takes back an earlier one",
            )),
            kind::MAX_PUSH_ID => {
                self.control.push_ids = id + 1;
                Ok(None)
            }
            // Section 7.2.3: no push has been promised, and a client allows none.
            _ => Err(no_push()),
        }
    }

    /// Section 7.2.4.
    fn settings_frame(&mut self, mut payload: &[u8]) -> Result<Event<'static>, ConnectionError> {
        let wrong = |reason| ConnectionError::new(Code::H3_SETTINGS_ERROR, reason);
        let mut seen: smallvec::SmallVec<[u64; 16]> = smallvec::SmallVec::new();
        let (mut capacity, mut blocked) = (0, 0);
        while !payload.is_empty() {
            let identifier = varint::take(&mut payload).ok_or(cut_frame())?;
            let value = varint::take(&mut payload).ok_or(cut_frame())?;
            if seen.contains(&identifier) {
                return Err(wrong("a setting twice"));
            }
            if seen.len() >= MAX_SETTINGS {
                self.counters.settings_floods += 1;
                return Err(ConnectionError::new(
                    Code::H3_EXCESSIVE_LOAD,
                    "too many settings",
                ));
            }
            seen.push(identifier);
            match identifier {
                id::QPACK_MAX_TABLE_CAPACITY => capacity = value,
                id::QPACK_BLOCKED_STREAMS => blocked = value,
                id::ENABLE_CONNECT_PROTOCOL | id::H3_DATAGRAM if value > 1 => {
                    return Err(wrong("a setting that is neither 0 nor 1"));
                }
                // Section 7.2.4.1: those of HTTP/2.
                0x0 | 0x2..=0x5 => return Err(wrong("a setting of HTTP/2")),
                _ => {}
            }
        }
        self.control.has_settings = true;
        self.encoder.peer_allows(capacity, blocked);
        Ok(Event::Settings)
    }

    /// Section 5.2.
    fn goaway(&mut self, id: u64) -> Result<Event<'static>, ConnectionError> {
        let is_request = id.is_multiple_of(4);
        let grows = self.goaway_received.is_some_and(|earlier| id > earlier);
        if grows || self.role == Role::Client && !is_request {
            return Err(ConnectionError::new(
                Code::H3_ID_ERROR,
                "GOAWAY with a wrong identifier",
            ));
        }
        self.goaway_received = Some(id);
        Ok(Event::GoAway { id })
    }

    /// RFC 9218 section 7.2.
    fn priority_update(
        &mut self,
        id: u64,
        value: &[u8],
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if !id.is_multiple_of(4) || id >= self.request_limit {
            return Err(ConnectionError::new(
                Code::H3_ID_ERROR,
                "PRIORITY_UPDATE of no request",
            ));
        }
        let priority = Priority::parse(value);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
            stream.has_priority = true;
        } else if id >= self.next_request {
            self.early_priorities.retain(|early| early.0 != id);
            if self.early_priorities.len() >= MAX_EARLY_PRIORITIES {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
            return Ok(None);
        }
        // Also of a stream that is over here: the owner may still have its end to send.
        Ok(Some(Event::Priority { id, priority }))
    }
}

fn cut_frame() -> ConnectionError {
    ConnectionError::new(Code::H3_FRAME_ERROR, "frame of a wrong length")
}

fn no_push() -> ConnectionError {
    ConnectionError::new(Code::H3_ID_ERROR, "frame about a push that does not exist")
}
