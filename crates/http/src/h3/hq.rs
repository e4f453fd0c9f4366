//! HTTP/0.9 on streams of QUIC (`hq-interop`), which tests of interoperability use: a request is
//! one line, `GET /path`, and its response the body alone, behind which the stream ends.
//!
//! It takes the place of what RFC 9114 says about streams and frames: there are no unidirectional
//! streams, and nothing is written around a body. Limits are the same, and so is what becomes of
//! streams.

use super::connection::Connection;
use super::error::{Code, ConnectionError, StreamError};
use super::event::Event;
use super::streams::Half;
use crate::Span;
use crate::h1::{Parsed, RequestError, RequestHead, Version, parse_request};
use crate::message::Request;

impl Connection {
    /// Server: HTTP/0.9 was agreed on. Call it before streams are opened and before anything
    /// [outgoing](Self::outgoing) is taken: there is nothing then, ever.
    pub fn speak_hq(&mut self) {
        self.is_hq = true;
        self.control_out = Vec::new();
    }

    /// Whether HTTP/0.9 was agreed on.
    #[must_use]
    pub fn is_hq(&self) -> bool {
        self.is_hq
    }

    /// Takes what comes on a stream: a line, and nothing of interest behind it.
    pub(super) fn receive_line(
        &mut self,
        id: u64,
        rest: &mut &[u8],
        fin: bool,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let part = std::mem::take(rest);
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        match stream.receive {
            Half::Head => {}
            Half::Body if fin => {
                stream.receive = Half::Ended;
                self.remove_if_ended(id);
                return Ok(None);
            }
            Half::Body | Half::Ended => return Ok(None),
        }
        let mut text = std::mem::take(&mut stream.section);
        self.held_bytes -= text.len();
        text.extend_from_slice(part);
        if fin && !text.is_empty() && !text.ends_with(b"\n") {
            // The end of the stream is as good as that of the line.
            let has_cr = text.ends_with(b"\r");
            text.extend_from_slice(if has_cr { b"\n" } else { b"\r\n" });
        }
        let mut state = stream.line.take().unwrap_or_default();
        let (head, error) = match parse_request(&text, &mut state, &self.settings.head) {
            Ok(Parsed::Complete(head)) if head.version == Version::Http09 => (head, None),
            Ok(Parsed::Complete(head)) => refused_version(head),
            _ if state.is_in_headers() => refused_version(state.into_refused().unwrap_or_default()),
            Err(error) => (not_understood(&text), Some(error)),
            Ok(Parsed::Incomplete) if fin => {
                let error = StreamError::new(Code::H3_REQUEST_INCOMPLETE, "stream without request");
                return self.fault(id, error).map(Some);
            }
            Ok(Parsed::Incomplete) => {
                let held = text.len();
                stream.line = Some(state);
                stream.section = text;
                self.hold(held)?;
                return Ok(None);
            }
        };
        // What still comes is not looked at; a client that goes on is told to stop.
        stream.receive = if fin { Half::Ended } else { Half::Body };
        text.truncate(head.head_bytes);
        let mut request = Request { text, head };
        request.head.version = Version::Http09;
        match error {
            None => Ok(Some(Event::Request {
                id,
                request,
                end: true,
            })),
            Some(error) => self.refused_line(id, request, error).map(Some),
        }
    }

    fn refused_line(
        &mut self,
        id: u64,
        request: Request,
        error: RequestError,
    ) -> Result<Event<'static>, ConnectionError> {
        if matches!(error, RequestError::UriTooLong) {
            self.counters.heads_too_large += 1;
            self.charge_oversized()?;
        } else {
            self.counters.malformed_heads += 1;
        }
        self.wasted(id)?;
        Ok(Event::Refused {
            id,
            request,
            error,
            end: true,
        })
    }
}

/// A line with a version: header fields would follow.
fn refused_version(head: RequestHead) -> (RequestHead, Option<RequestError>) {
    let line = head.request_line;
    (head, Some(RequestError::VersionNotSupported { line }))
}

/// What there is of a line that is no request: its text.
fn not_understood(text: &[u8]) -> RequestHead {
    let line_end = memchr::memchr2(b'\r', b'\n', text);
    let mut head = RequestHead::default();
    head.head_bytes = text.len();
    head.request_line = Span::new(0, line_end.unwrap_or(text.len()));
    head
}
