//! Dubbo, on the side of the consumer: the call of one method. Its frame is made and found by the
//! shared connection; here is what is in it.

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent};
use bytes::Bytes;
use sealane_http::dubbo::{
    self, Answer, AnswerError, AnswerLimits, Body, HEADER_BYTES, HESSIAN2, Header, MAX_CHUNK_BYTES,
    NO_THREAD, OK,
};
use sealane_http::h1::{
    self, ParsedResponse, ReceivedResponse, ResponseFraming, ResponseLimits, ResponseState,
};
use sealane_http::headers::Field;
use sealane_http::{Method, StatusCode};
use sealane_io::buffers;
use sealane_io::chain::{FileRange, OutputChain, Segment};
use std::sync::Arc;

/// One call.
pub(crate) struct Dubbo {
    /// The method of the client's request, which decides whether the response has a body.
    pub(super) method: Method,
    max_head_bytes: usize,
    max_response_bytes: u64,
    /// The request has a body.
    has_body: bool,
    state: DubboState,
}

enum DubboState {
    /// Nothing has been understood yet.
    Waiting,
    /// The head has been given, the body has not.
    Body(Bytes),
    Done,
}

impl Dubbo {
    /// A call for a request with this method, and with a body if `has_body`.
    pub(crate) fn new(
        method: Method,
        has_body: bool,
        max_head_bytes: usize,
        max_response_bytes: u64,
    ) -> Dubbo {
        Dubbo {
            method,
            max_head_bytes,
            max_response_bytes,
            has_body,
            state: DubboState::Waiting,
        }
    }

    pub(super) fn frame_body(&mut self, piece: Segment, out: &mut OutputChain) {
        let mut rest = piece;
        while !rest.is_empty() {
            // It fits, being no more than the limit.
            let count = rest.len().min(MAX_CHUNK_BYTES as u64) as usize;
            let mut start = Vec::with_capacity(3);
            dubbo::encode_body_chunk(&mut start, count);
            out.push_bytes(start);
            match &mut rest {
                Segment::Memory(bytes) => out.push(Segment::Memory(bytes.split_to(count))),
                Segment::File(range) => {
                    let len = count as u64;
                    out.push(Segment::File(FileRange {
                        len,
                        ..range.clone()
                    }));
                    range.offset += len;
                    range.len -= len;
                }
            }
        }
    }

    pub(super) fn end_body(&mut self, out: &mut OutputChain) {
        let mut end = Vec::with_capacity(3);
        dubbo::encode_end(&mut end, self.has_body);
        out.push_bytes(end);
    }

    /// See [`Wire::next_event`](super::Wire::next_event).
    ///
    /// # Errors
    /// See [`WireError`].
    pub(super) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        match &mut self.state {
            DubboState::Waiting => self.next_head(input, closed),
            DubboState::Body(body) => {
                let body = std::mem::take(body);
                self.state = DubboState::Done;
                match body.is_empty() {
                    true => self.next_event(input, closed),
                    false => Ok(Some(WireEvent::Data(body))),
                }
            }
            DubboState::Done => Ok(Some(WireEvent::End(ResponseEnd::default()))),
        }
    }

    fn next_head(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
            return match closed {
                true => Err(WireError::ClosedEarly),
                false => Ok(None),
            };
        };
        let invalid = |text: String| Err(WireError::Invalid(text));
        let header = match Header::decode(header) {
            Ok(header) => header,
            Err(error) => return invalid(error.to_string()),
        };
        let bytes = u64::from(header.payload_bytes);
        if bytes > self.max_response_bytes {
            return invalid(format!(
                "upstream sent too big response: {bytes} bytes, more than \
                 \"dubbo_max_response_size\""
            ));
        }
        if ((input.len() - HEADER_BYTES) as u64) < bytes {
            return match closed {
                true => Err(WireError::ClosedEarly),
                false => Ok(None),
            };
        }
        let mut payload = std::mem::take(input);
        payload.drain(..HEADER_BYTES);
        check(&header, &payload)?;
        self.understand(payload).map(Some)
    }

    /// Turns what the method returned into a response.
    fn understand(&mut self, mut payload: Vec<u8>) -> Result<WireEvent, WireError> {
        let limits = AnswerLimits {
            head_bytes: self.max_head_bytes,
        };
        let mut answer = dubbo::decode_answer(&payload, &limits).map_err(|error| refuse(&error))?;
        let body = match std::mem::take(&mut answer.body) {
            Body::None => Bytes::new(),
            Body::Text(text) => text.into(),
            Body::Binary(encoded) => {
                let at = dubbo::join_binary(&mut payload, encoded)
                    .map_err(|error| refuse(&AnswerError::Hessian(error)))?;
                payload.truncate(at.end);
                Bytes::from(payload).slice(at.start..)
            }
        };
        let head = head(&answer, body.len(), self.max_head_bytes)?;
        let has_body = match head.parsed.framing(self.method) {
            ResponseFraming::None => false,
            ResponseFraming::Length(_) | ResponseFraming::Chunked | ResponseFraming::UntilClose => {
                true
            }
        };
        self.state = match has_body {
            true => DubboState::Body(body),
            false => DubboState::Done,
        };
        Ok(WireEvent::Head(Arc::new(head)))
    }
}

fn refuse(error: &AnswerError) -> WireError {
    WireError::Invalid(error.to_string())
}

/// Whether a response has a result, and one that can be read.
fn check(header: &Header, payload: &[u8]) -> Result<(), WireError> {
    let serialization = header.serialization;
    if serialization != HESSIAN2 {
        return Err(WireError::Invalid(format!(
            "upstream sent dubbo response in serialization {serialization}, which is not hessian2"
        )));
    }
    if header.status == OK {
        return Ok(());
    }
    let status = header.status;
    let meaning = dubbo::status_text(status).unwrap_or("unknown");
    let message = dubbo::decode_message(payload);
    let message = message.escape_debug();
    let text = format!("upstream sent dubbo status {status} ({meaning}): \"{message}\"");
    Err(match status {
        NO_THREAD => WireError::Unprocessed(text),
        _ => WireError::Invalid(text),
    })
}

/// The head of the response that a method returned.
fn head(answer: &Answer, body_bytes: usize, max_bytes: usize) -> Result<UpstreamHead, WireError> {
    let status = status(answer)?;
    let mut buffer = buffers::small();
    buffer.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", status.0, status.reason()).as_bytes());
    if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        buffer.extend_from_slice(format!("Content-Length: {body_bytes}\r\n").as_bytes());
    }
    for (name, value) in &answer.fields {
        // The length of the body is known, and is not for the method to say.
        if ["content-length", "transfer-encoding"]
            .iter()
            .any(|framing| name.eq_ignore_ascii_case(framing))
        {
            continue;
        }
        let Ok(field) = Field::new(name.as_bytes(), value.as_bytes()) else {
            return Err(WireError::Invalid(format!(
                "upstream sent invalid header: \"{}: {}\"",
                name.escape_debug(),
                value.escape_debug()
            )));
        };
        for part in [
            field.name.as_bytes(),
            b": ",
            field.value.as_bytes(),
            b"\r\n",
        ] {
            buffer.extend_from_slice(part);
        }
    }
    buffer.extend_from_slice(b"\r\n");
    if buffer.len() > max_bytes {
        return Err(refuse(&AnswerError::TooBig));
    }
    let parsed = parse(&buffer)?;
    Ok(UpstreamHead { buffer, parsed })
}

fn parse(buffer: &[u8]) -> Result<ReceivedResponse, WireError> {
    let limits = ResponseLimits::of_head(buffer.len());
    match h1::parse_response(buffer, &mut ResponseState::default(), &limits) {
        Ok(ParsedResponse::Complete(parsed)) => Ok(parsed),
        Ok(ParsedResponse::Incomplete) => Err(WireError::ClosedEarly),
        Err(error) => Err(WireError::head(&error, buffer)),
    }
}

fn status(answer: &Answer) -> Result<StatusCode, WireError> {
    let Some(text) = &answer.status else {
        return Err(WireError::Invalid("upstream sent no status".to_owned()));
    };
    match text.parse() {
        Ok(status @ 200..=999) if text.len() == 3 => Ok(StatusCode(status)),
        _ => Err(WireError::Invalid(format!(
            "upstream sent invalid status \"{}\"",
            text.escape_debug()
        ))),
    }
}
