//! Incoming header blocks: HEADERS and CONTINUATION frames, and what a block means depending on its
//! position (RFC 9113 sections 4.3, 6.2, 6.10 and 8.1).

use super::connection::{Connection, Phase, Role};
use super::error::{Fault, Flood, StreamFault};
use super::event::Event;
use super::frame::{self, FrameHeader, flag};
use super::receive::HeaderBlock;
use super::streams::{Half, StreamRef};
use crate::h1::{Framing, RequestError, RequestHead, Version};
use crate::headers::KnownHeader;
use crate::message::{
    Decoded, FieldLimits, FieldSink, NoSink, Priority, Request, RequestSink, ResponseSink,
    TrailerSink, Trailers,
};

/// Initial room for the first head. Later heads get what the last one took, plus some more.
const FIRST_HEAD_BYTES: usize = 512;

/// Additional room in which the first lines are built.
const SPARE_HEAD_BYTES: usize = 256;

/// A complete header block.
struct Block<'b> {
    stream: u32,
    end_stream: bool,
    depends_on: Option<u32>,
    bytes: &'b [u8],
}

impl Connection {
    /// Section 6.2.
    pub(super) fn headers_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let parts = frame::headers_payload(header, payload)?;
        let end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.header_block(
                Block {
                    stream: header.stream,
                    end_stream,
                    depends_on: parts.depends_on,
                    bytes: parts.fragment,
                },
                out,
            );
        }
        self.block = Some(Box::new(HeaderBlock {
            stream: header.stream,
            end_stream,
            depends_on: parts.depends_on,
            bytes: parts.fragment.to_vec(),
            frames: 0,
        }));
        self.check_block_size().map(|()| None)
    }

    /// Section 6.10.
    pub(super) fn continuation_frame<'i>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let Some(block) = &mut self.block else {
            return Err(Fault::Continuation);
        };
        block.frames += 1;
        block.bytes.extend_from_slice(payload);
        self.check_block_size()?;
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let Some(block) = self.block.take() else {
            return Err(Fault::Continuation);
        };
        self.header_block(
            Block {
                stream: block.stream,
                end_stream: block.end_stream,
                depends_on: block.depends_on,
                bytes: &block.bytes,
            },
            out,
        )
    }

    /// A block that never ends would be held in memory, whatever it decodes to (CVE-2024-27316).
    fn check_block_size(&self) -> Result<(), Fault> {
        let most_frames = self.settings.limits.continuation_frames;
        let most_bytes = self.max_block_bytes();
        let fits =
            |block: &HeaderBlock| block.frames <= most_frames && block.bytes.len() <= most_bytes;
        if self.block.as_deref().is_none_or(fits) {
            return Ok(());
        }
        Err(Fault::Flood(Flood::Continuation))
    }

    fn header_block<'i>(
        &mut self,
        block: Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        if let Some(stream) = self.streams.find(block.stream) {
            return self.block_of_stream(stream, &block, out);
        }
        match self.role {
            Role::Server if block.stream.is_multiple_of(2) => Err(Fault::StreamId),
            Role::Server if block.stream > self.last_stream.max(self.last_ignored) => {
                self.new_request(&block, out)
            }
            // Section 5.1.1: a skipped identifier is no better than one out of order.
            Role::Server if self.has_skipped && block.stream > self.newest_reset => {
                Err(Fault::StreamId)
            }
            _ => {
                self.stream_for(block.stream, "HEADERS")?;
                self.charge_empty(1)?;
                self.discard(&block).map(|()| None)
            }
        }
    }

    /// A block for an open stream: trailers, or a response to a client.
    fn block_of_stream<'i>(
        &mut self,
        stream: StreamRef,
        block: &Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        let found = self.streams.at(stream.slot() as u32);
        if found.is_malformed {
            self.charge_empty(1)?;
            return self.discard(block).map(|()| None);
        }
        let fault = match found.receive {
            _ if block.depends_on == Some(block.stream) => StreamFault::SelfDependency,
            Half::Ended => StreamFault::HalfClosed,
            Half::Head => return self.response(stream, block, out).map(Some),
            Half::Body if !block.end_stream => StreamFault::TrailersWithoutEnd,
            Half::Body => match self.trailers(stream, block)? {
                Ok(trailers) => {
                    self.remove_if_ended(stream, out);
                    return Ok(Some(Event::Trailers { stream, trailers }));
                }
                Err(fault) => return self.message_fault(stream, fault, out).map(Some),
            },
        };
        self.discard(block)?;
        self.message_fault(stream, fault, out).map(Some)
    }

    /// A request on a new stream (section 5.1.1).
    fn new_request<'i>(
        &mut self,
        block: &Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        if self.phase == Phase::Draining {
            // Its stream is above the one that GOAWAY named; the client knows what to do.
            self.last_ignored = block.stream;
            self.charge_empty(1)?;
            return self.discard(block).map(|()| None);
        }
        self.has_skipped |= block.stream - self.last_stream > 2;
        self.last_stream = block.stream;
        self.counters.streams_opened += 1;
        self.meters.empty_frames.credit(1);
        self.meters.pings.credit(1);
        self.meters.priority_frames.credit(2);
        if let Some(fault) = self.refusal(block) {
            self.discard(block)?;
            return self.unannounced(block.stream, fault, out);
        }
        let (request, error) = self.build_request(block)?;
        let is_malformed = error.is_some_and(|error| error.is_malformed());
        if is_malformed {
            self.counters.malformed_heads += 1;
            self.charge_fault()?;
        }
        self.head_bytes = request.text.len();
        let priority = self.take_priority(block.stream, &request.text, &request.head);
        let stream = self.insert_stream(block.stream);
        let found = self.streams.at(stream.slot() as u32);
        found.priority = priority;
        found.is_malformed = is_malformed;
        found.receive = if block.end_stream || is_malformed {
            Half::Ended
        } else {
            Half::Body
        };
        found.is_head_request = request.head.method == crate::Method::Head;
        if let Framing::Length(length) = request.head.framing
            && error.is_none()
        {
            found.declared_bytes = Some(length);
        }
        let end = block.end_stream || is_malformed;
        Ok(Some(match error {
            None => Event::Request {
                stream,
                request,
                end,
            },
            Some(error) => Event::Refused {
                stream,
                request,
                error,
                end,
            },
        }))
    }

    /// Why a new stream is reset regardless of its head.
    fn refusal(&mut self, block: &Block<'_>) -> Option<StreamFault> {
        if block.depends_on == Some(block.stream) {
            return Some(StreamFault::SelfDependency);
        }
        let is_full = self.streams.len() >= self.settings.max_concurrent_streams as usize;
        if is_full {
            self.counters.streams_refused += 1;
            return Some(StreamFault::Refused);
        }
        None
    }

    fn unannounced<'i>(
        &mut self,
        id: u32,
        fault: StreamFault,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'i>>, Fault> {
        self.reset_because(id, fault, out)?;
        Ok(Some(Event::Fault {
            id,
            stream: None,
            fault,
        }))
    }

    fn build_request(
        &mut self,
        block: &Block<'_>,
    ) -> Result<(Request, Option<RequestError>), Fault> {
        let mut sink = RequestSink::new(
            Version::Http2,
            self.settings.head,
            self.settings.extended_connect,
        );
        let (text, exceeded) = self.decode(block, &mut sink)?;
        let (mut request, error) = sink.finish(text, exceeded, block.end_stream);
        request.head.head_bytes = block.bytes.len();
        let is_too_large = |error: &RequestError| {
            matches!(
                error,
                RequestError::HeadTooLarge
                    | RequestError::UriTooLong
                    | RequestError::TooManyHeaders
            )
        };
        if error.as_ref().is_some_and(is_too_large) {
            self.counters.heads_too_large += 1;
        }
        Ok((request, error))
    }

    /// The priority of a new stream, from a PRIORITY_UPDATE that preceded it, otherwise from its
    /// header (RFC 9218 section 7.1).
    fn take_priority(&mut self, id: u32, text: &[u8], head: &RequestHead) -> Priority {
        if !self.early_priorities.is_empty() {
            let early = self.early_priorities.iter().find(|(other, _)| *other == id);
            let early = early.map(|&(_, priority)| priority);
            self.early_priorities.retain(|&(other, _)| other > id);
            if let Some(priority) = early {
                return priority;
            }
        }
        match head.get(KnownHeader::Priority) {
            Some(value) => Priority::parse(value.of(text)),
            None => Priority::default(),
        }
    }

    /// A response head, interim or final.
    fn response<'i>(
        &mut self,
        stream: StreamRef,
        block: &Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Event<'i>, Fault> {
        let mut sink = ResponseSink::new(Version::Http2);
        let (text, exceeded) = self.decode(block, &mut sink)?;
        let end = block.end_stream;
        let response = match sink.finish(text, exceeded) {
            Ok(response) => response,
            Err(why) => {
                self.counters.malformed_heads += 1;
                return self.stream_fault(stream, StreamFault::Malformed(why), out);
            }
        };
        self.head_bytes = response.text.len();
        let is_interim = (100..200).contains(&response.head.status.0);
        if is_interim {
            if end {
                // Section 8.1.
                let fault = StreamFault::Malformed("upstream ended a stream with status 1xx");
                return self.stream_fault(stream, fault, out);
            }
            self.charge_empty(1)?;
            return Ok(Event::Interim { stream, response });
        }
        let found = self.streams.at(stream.slot() as u32);
        let is_bodiless = found.is_head_request || matches!(response.head.status.0, 204 | 304);
        let declared = response.head.content_length;
        found.declared_bytes = if is_bodiless { Some(0) } else { declared };
        if end {
            found.receive = Half::Ended;
            if found.declared_bytes.is_some_and(|declared| declared > 0) {
                return self.stream_fault(stream, StreamFault::ContentLength, out);
            }
            self.remove_if_ended(stream, out);
        } else {
            found.receive = Half::Body;
        }
        Ok(Event::Response {
            stream,
            response,
            end,
        })
    }

    fn trailers(
        &mut self,
        stream: StreamRef,
        block: &Block<'_>,
    ) -> Result<Result<Trailers, StreamFault>, Fault> {
        let mut sink = TrailerSink::new();
        let (text, exceeded) = self.decode(block, &mut sink)?;
        if exceeded {
            return Ok(Err(StreamFault::Malformed("too large trailers")));
        }
        let found = self.streams.at(stream.slot() as u32);
        found.receive = Half::Ended;
        let received = found.received_bytes;
        if found
            .declared_bytes
            .is_some_and(|declared| declared != received)
        {
            return Ok(Err(StreamFault::ContentLength));
        }
        Ok(sink.finish(text).map_err(StreamFault::Malformed))
    }

    /// Decodes a block whose fields are not needed, because the table must stay in sync (section
    /// 4.3).
    fn discard(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        self.decode(block, &mut NoSink).map(|_| ())
    }

    /// Decodes a block. Returns its text and whether a limit cut it short.
    fn decode(
        &mut self,
        block: &Block<'_>,
        sink: &mut impl FieldSink,
    ) -> Result<(Vec<u8>, bool), Fault> {
        let limits = FieldLimits::of_heads(&self.settings.head);
        let room = (self.head_bytes + SPARE_HEAD_BYTES).max(FIRST_HEAD_BYTES);
        let mut text = Vec::with_capacity(room);
        let decoded = self
            .decoder
            .decode(block.bytes, &limits, &mut text, sink)
            .map_err(|_| Fault::Compression)?;
        let exceeded = decoded == Decoded::LimitExceeded;
        if exceeded {
            let allowance = self.settings.limits.oversized_heads;
            if !self.meters.oversized_heads.charge(1, allowance, self.now) {
                return Err(Fault::Flood(Flood::HeaderBomb));
            }
        }
        Ok((text, exceeded))
    }
}
