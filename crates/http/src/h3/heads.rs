//! Field sections that have arrived, and what they mean depending on their position (RFC 9114
//! sections 4.1 to 4.3).

use super::connection::{Connection, Role};
use super::error::{Code, ConnectionError, StreamError};
use super::event::Event;
use super::qpack::Section;
use super::receive::WRONG_LENGTH;
use super::streams::Half;
use crate::Method;
use crate::h1::{Framing, RequestError, Version};
use crate::headers::KnownHeader;
use crate::message::{
    Decoded, FieldLimits, FieldSink, Priority, Request, RequestSink, ResponseSink, TrailerSink,
};

/// Initial room for the first head. Later heads get what the last one took, plus some more.
const FIRST_HEAD_BYTES: usize = 512;

/// Additional room in which the first lines are built.
const SPARE_HEAD_BYTES: usize = 256;

/// The text of a section, and whether a limit cut it short; nothing if it waits.
type Text = Option<(Vec<u8>, bool)>;

impl Connection {
    /// The most bytes of an encoded field section.
    pub(super) fn max_section_bytes(&self) -> usize {
        let settings = &self.settings;
        settings
            .limits
            .section_bytes
            .max(settings.head.max_head_bytes())
    }

    pub(super) fn charge_oversized(&mut self) -> Result<(), ConnectionError> {
        let allowance = self.settings.limits.oversized_heads;
        if self.meters.oversized_heads.charge(1, allowance, self.now) {
            return Ok(());
        }
        self.counters.header_bombs += 1;
        Err(ConnectionError::new(
            Code::H3_EXCESSIVE_LOAD,
            "http3 flood detected: oversized field sections",
        ))
    }

    /// A complete section; `end` says that the stream ends behind it. No event if it waits.
    pub(super) fn section(
        &mut self,
        id: u64,
        section: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let Some(stream) = self.streams.get(id) else {
            return Ok(None);
        };
        let event = match (stream.receive, self.role) {
            (Half::Head, Role::Server) => self.request(id, section, end)?,
            (Half::Head, Role::Client) => self.response(id, section, end)?,
            (Half::Body, _) => self.trailers(id, section, end)?,
            (Half::Ended, _) => return Ok(None),
        };
        if event.is_none()
            && let Some(stream) = self.streams.get_mut(id)
        {
            stream.is_blocked = true;
            stream.section = section.to_vec();
            self.hold(section.len())?;
        }
        Ok(event)
    }

    /// Decodes a section.
    fn decode(
        &mut self,
        id: u64,
        section: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<Text, ConnectionError> {
        let limits = FieldLimits::of_heads(&self.settings.head);
        let room = (self.head_bytes + SPARE_HEAD_BYTES).max(FIRST_HEAD_BYTES);
        let mut text = Vec::with_capacity(room);
        let decoded = self.decoder.decode(id, section, &limits, &mut text, sink)?;
        let Section::Decoded(decoded) = decoded else {
            return Ok(None);
        };
        let exceeded = decoded == Decoded::LimitExceeded;
        if exceeded {
            self.charge_oversized()?;
        }
        Ok(Some((text, exceeded)))
    }

    fn request(
        &mut self,
        id: u64,
        section: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let settings = &self.settings;
        let mut sink = RequestSink::new(Version::Http3, settings.head, settings.extended_connect);
        let Some((text, exceeded)) = self.decode(id, section, &mut sink)? else {
            return Ok(None);
        };
        let (mut request, error) = sink.finish(text, exceeded, end);
        request.head.head_bytes = section.len();
        self.head_bytes = request.text.len();
        let is_malformed = error.is_some_and(|error| error.is_malformed());
        if is_malformed {
            self.counters.malformed_heads += 1;
            self.counters.stream_faults += 1;
            self.wasted(id)?;
        }
        if error.is_some_and(|error| is_too_large(&error)) {
            self.counters.heads_too_large += 1;
        }
        self.begin_body(id, &request, error.is_some(), end);
        if is_malformed && !end {
            self.stop_receiving(id);
        }
        let end = end || is_malformed;
        Ok(Some(match error {
            None => Event::Request { id, request, end },
            Some(error) => Event::Refused {
                id,
                request,
                error,
                end,
            },
        }))
    }

    /// Notes what a request means for what follows it.
    fn begin_body(&mut self, id: u64, request: &Request, is_refused: bool, end: bool) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let head = &request.head;
        if !stream.has_priority
            && let Some(value) = head.get(KnownHeader::Priority)
        {
            stream.priority = Priority::parse(value.of(&request.text));
        }
        stream.is_head_request = head.method == Method::Head;
        stream.is_tunnel = head.method == Method::Connect || head.extended_connect;
        if let Framing::Length(length) = head.framing
            && !is_refused
        {
            stream.declared_bytes = Some(length);
        }
        stream.receive = if end { Half::Ended } else { Half::Body };
    }

    /// A response head, interim or final.
    fn response(
        &mut self,
        id: u64,
        section: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let mut sink = ResponseSink::new(Version::Http3);
        let Some((text, exceeded)) = self.decode(id, section, &mut sink)? else {
            return Ok(None);
        };
        let response = match sink.finish(text, exceeded) {
            Ok(response) => response,
            Err(why) => {
                self.counters.malformed_heads += 1;
                return self.fault(id, StreamError::malformed(why)).map(Some);
            }
        };
        self.head_bytes = response.text.len();
        let status = response.head.status.0;
        if (100..200).contains(&status) {
            if end {
                let why = "upstream ended a stream with status 1xx";
                return self.fault(id, StreamError::malformed(why)).map(Some);
            }
            self.charge_empty()?;
            return Ok(Some(Event::Interim { id, response }));
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let is_bodiless = stream.is_head_request || matches!(status, 204 | 304);
        let declared = response.head.content_length;
        stream.declared_bytes = if is_bodiless { Some(0) } else { declared };
        stream.receive = if end { Half::Ended } else { Half::Body };
        if end {
            if stream.declared_bytes.is_some_and(|declared| declared > 0) {
                return self.fault(id, WRONG_LENGTH).map(Some);
            }
            self.remove_if_ended(id);
        }
        Ok(Some(Event::Response { id, response, end }))
    }

    fn trailers(
        &mut self,
        id: u64,
        section: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let mut sink = TrailerSink::new();
        let Some((text, exceeded)) = self.decode(id, section, &mut sink)? else {
            return Ok(None);
        };
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let received = stream.received_bytes;
        let is_short = stream
            .declared_bytes
            .is_some_and(|declared| declared != received);
        stream.has_trailers = true;
        if end {
            stream.receive = Half::Ended;
        }
        let outcome = match sink.finish(text) {
            _ if exceeded => Err(StreamError::new(
                Code::H3_EXCESSIVE_LOAD,
                "too large trailers",
            )),
            _ if is_short => Err(WRONG_LENGTH),
            outcome => outcome.map_err(StreamError::malformed),
        };
        match outcome {
            Ok(trailers) => {
                self.remove_if_ended(id);
                Ok(Some(Event::Trailers { id, trailers }))
            }
            Err(error) => self.fault(id, error).map(Some),
        }
    }
}

fn is_too_large(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::HeadTooLarge | RequestError::UriTooLong | RequestError::TooManyHeaders
    )
}
