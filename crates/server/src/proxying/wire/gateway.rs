//! SCGI and uwsgi, on the side of the client: the request is sent in one piece; the response is
//! a CGI response that ends with the connection.

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent, next_piece, split_head};
use sealane_http::Method;
use sealane_http::cgi::{StatusLine, parse_cgi_response};
use sealane_http::h1::{
    ParsedResponse, ResponseBodyDecoder, ResponseFraming, ResponseKind, ResponseLimits,
    ResponseState,
};
use std::sync::Arc;

/// One request by SCGI or uwsgi.
pub(crate) struct Gateway {
    pub(super) method: Method,
    limits: ResponseLimits,
    state: ResponseState,
    body: Option<ResponseBodyDecoder>,
    /// HEAD, 204, 304: the response is complete with its head.
    is_empty: bool,
}

impl Gateway {
    pub(crate) fn new(method: Method, max_head_bytes: usize) -> Gateway {
        Gateway {
            method,
            limits: ResponseLimits::of_head(max_head_bytes),
            state: ResponseState::default(),
            body: None,
            is_empty: false,
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
        let Some(body) = &mut self.body else {
            return self.next_head(input, closed);
        };
        if let Some(piece) = next_piece(body, input, closed)? {
            return Ok(Some(WireEvent::Data(piece)));
        }
        // What programs send in response to HEAD does not matter.
        let surplus = !input.is_empty() && !self.is_empty;
        Ok(body.is_done().then(|| {
            WireEvent::End(ResponseEnd {
                complaint: surplus.then(|| body.surplus()),
                ..ResponseEnd::default()
            })
        }))
    }

    fn next_head(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        let parsed = parse_cgi_response(input, &mut self.state, &self.limits, StatusLine::Taken);
        match parsed {
            Ok(ParsedResponse::Complete(parsed)) => {
                if parsed.kind() == ResponseKind::Interim {
                    return Err(WireError::interim(parsed.status));
                }
                let framing = parsed.framing(self.method);
                self.is_empty = framing == ResponseFraming::None;
                self.body = Some(ResponseBodyDecoder::new(framing));
                let buffer = split_head(input, parsed.head_bytes);
                Ok(Some(WireEvent::Head(Arc::new(UpstreamHead {
                    buffer,
                    parsed,
                }))))
            }
            Ok(ParsedResponse::Incomplete) if closed => Err(WireError::ClosedEarly),
            Ok(ParsedResponse::Incomplete) => Ok(None),
            Err(error) => Err(WireError::head(&error, input)),
        }
    }
}
