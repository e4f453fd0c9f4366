//! HTTP/1, on the side of the client.

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent, next_piece, split_head};
use bytes::Bytes;
use sealane_http::h1::{
    self, ParsedResponse, ResponseBodyDecoder, ResponseKind, ResponseLimits, ResponseState,
};
use sealane_http::headers::HeaderList;
use sealane_http::{Method, StatusCode};
use sealane_io::chain::{OutputChain, Segment};
use std::sync::Arc;

/// One request by HTTP/1.
pub(crate) struct Http1 {
    /// The method sent, which decides whether a response has a body.
    pub(super) method: Method,
    limits: ResponseLimits,
    /// The request body is framed as chunks.
    chunked: bool,
    keeps_trailers: bool,
    state: ResponseState,
    body: Option<ResponseBodyDecoder>,
    /// The head allows the connection to be used again.
    keep_alive: bool,
}

impl Http1 {
    /// A request with this method; a body of unknown length is sent in chunks.
    pub(crate) fn new(
        method: Method,
        chunked: bool,
        keeps_trailers: bool,
        max_head_bytes: usize,
    ) -> Http1 {
        Http1 {
            method,
            limits: ResponseLimits::of_head(max_head_bytes),
            chunked,
            keeps_trailers,
            state: ResponseState::default(),
            body: None,
            keep_alive: false,
        }
    }

    pub(super) fn frame_body(&mut self, piece: Segment, out: &mut OutputChain) {
        if piece.is_empty() {
            return;
        }
        if !self.chunked {
            return out.push(piece);
        }
        let mut start = Vec::with_capacity(18);
        h1::encode_chunk_header(&mut start, piece.len());
        out.push_bytes(start);
        out.push(piece);
        out.push_bytes(Bytes::from_static(b"\r\n"));
    }

    pub(super) fn end_body(&mut self, out: &mut OutputChain) {
        if self.chunked {
            out.push_bytes(Bytes::from_static(h1::LAST_CHUNK));
        }
    }

    pub(super) fn known_left(&self) -> u64 {
        self.body
            .as_ref()
            .map_or(0, ResponseBodyDecoder::known_left)
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
        if self.body.is_none() {
            return self.next_head(input, closed);
        }
        self.next_data(input, closed)
    }

    fn next_head(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        let parsed = h1::parse_response(input, &mut self.state, &self.limits);
        let parsed = match parsed {
            Ok(ParsedResponse::Complete(head)) => head,
            Ok(ParsedResponse::Incomplete) if closed => return Err(WireError::ClosedEarly),
            Ok(ParsedResponse::Incomplete) => return Ok(None),
            Err(error) => return Err(WireError::head(&error, input)),
        };
        if parsed.kind() != ResponseKind::Interim {
            let framing = parsed.framing(self.method);
            let mut body = ResponseBodyDecoder::new(framing);
            if self.keeps_trailers {
                body = body.keep_trailers();
            }
            self.body = Some(body);
            // Some servers send a body with 204: it must not be taken for the next response.
            let is_odd = parsed.status == StatusCode::NO_CONTENT
                && (parsed.chunked || parsed.content_length.unwrap_or(0) > 0);
            self.keep_alive = parsed.keep_alive && !is_odd;
        }
        let buffer = split_head(input, parsed.head_bytes);
        Ok(Some(WireEvent::Head(Arc::new(UpstreamHead {
            buffer,
            parsed,
        }))))
    }

    fn next_data(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        if let Some(piece) = next_piece(body, input, closed)? {
            return Ok(Some(WireEvent::Data(piece)));
        }
        if !body.is_done() {
            return Ok(None);
        }
        let surplus = !input.is_empty();
        let mut trailers = HeaderList::new();
        if self.keeps_trailers {
            let lines = body.take_trailers();
            let parsed = h1::parse_trailers(&lines)
                .map_err(|error| WireError::Invalid(error.to_string()))?;
            for trailer in &parsed {
                // Names and values were checked when they were parsed.
                let _ = trailers.push(trailer.name.of(&lines), trailer.value.of(&lines));
            }
        }
        Ok(Some(WireEvent::End(ResponseEnd {
            reusable: self.keep_alive && !closed && !surplus,
            complaint: surplus.then(|| body.surplus()),
            trailers,
        })))
    }
}
