//! HTTP/2, on the side of the client: gRPC, and `proxy_http_version 2`.
//!
//! As in nginx, a connection carries one request at a time. It is kept for the next one with
//! its header tables, so the codec belongs to the connection and is lent to the request. A
//! request that is given up is reset, and the connection stays usable; nginx closes it.

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent};
use crate::h2::MAX_FRAME_BYTES;
use bytes::Bytes;
use sealane_http::Method;
use sealane_http::h1::Limits;
use sealane_http::h2::{
    self, Connection, ErrorCode, Event as Frame, OpenError, RequestTarget, Scheme, Settings,
    StreamRef,
};
use sealane_http::headers::HeaderList;
use sealane_io::chain::{FileRange, OutputChain, Segment};
use std::sync::Arc;
use std::time::Instant;

/// How much of a streamed request body is kept until the peer answers: if it did not process the
/// request, it can be sent to another one, body included (RFC 9113 section 8.7).
const MAX_KEPT_BODY_BYTES: u64 = 64 << 10;
/// From this size on, a piece of a body in memory is sent from where it is instead of being copied
/// behind the header of its frame.
const MIN_SHARED_BYTES: u32 = 4 << 10;

/// The codec of a connection to a peer, kept with it.
pub(crate) struct Session {
    codec: Connection,
    began: Instant,
}

/// The head of a request.
#[derive(Clone)]
pub(crate) struct RequestHead {
    method_name: Arc<[u8]>,
    method: Method,
    scheme: Scheme,
    authority: Arc<[u8]>,
    path: Arc<[u8]>,
    /// Header fields, in order.
    fields: Arc<HeaderList>,
    /// Nothing follows.
    end: bool,
}

impl RequestHead {
    /// A head with these fields, in order; with `end` nothing follows it.
    pub(crate) fn new(target: &RequestTarget<'_>, fields: HeaderList, end: bool) -> RequestHead {
        RequestHead {
            method_name: target.method.as_bytes().into(),
            method: Method::from_bytes(target.method.as_bytes()),
            scheme: target.scheme,
            authority: target.authority.as_bytes().into(),
            path: target.path.as_bytes().into(),
            fields: Arc::new(fields),
            end,
        }
    }

    fn target(&self) -> RequestTarget<'_> {
        RequestTarget::new(&self.method_name, self.scheme, &self.authority, &self.path)
            .expect("made of one that was valid")
    }
}

/// One request by HTTP/2.
pub(crate) struct Http2 {
    head: RequestHead,
    max_head_bytes: usize,
    keeps_trailers: bool,
    /// Lent by the connection.
    session: Option<Box<Session>>,
    stream: Option<StreamRef>,
    /// Frames to be sent.
    out: Vec<u8>,
    /// The part of the request body for which there was no window yet.
    body: OutputChain,
    body_ended: bool,
    /// The part of a streamed body that was framed, while it may have to be sent again.
    kept: Option<OutputChain>,
    /// Bytes at the front of the input that have been processed.
    parsed: usize,
    /// The response has ended.
    ended: bool,
    /// Remaining bytes of the response according to its `content-length`.
    known_left: u64,
    trailers: HeaderList,
    /// The peer accepts no further requests.
    closing: bool,
    /// The log message for its GOAWAY, and whether it deserves a line of its own.
    farewell: Option<(String, bool)>,
}

/// CONTINUATION frames of one head of an origin. Frames that are full need four for a head of the
/// size allowed (`http2_max_header_block_size`'s default); some origins send small ones.
const MAX_CONTINUATIONS: u32 = 128;

impl Session {
    /// A new connection; its preface is appended to `out`.
    fn begin(max_head_bytes: usize, out: &mut Vec<u8>) -> Session {
        let settings = Settings {
            head: Limits {
                header_buffer_bytes: max_head_bytes,
                large_buffer_bytes: max_head_bytes,
                ..Limits::default()
            },
            max_frame_bytes: MAX_FRAME_BYTES,
            limits: h2::Limits {
                continuation_frames: MAX_CONTINUATIONS,
                ..h2::Limits::default()
            },
            ..Settings::default()
        };
        let began = Instant::now();
        let codec = Connection::client(Arc::new(settings), began.elapsed(), out);
        Session { codec, began }
    }

    /// Processes what a peer sends while its connection is idle. False when it ends the connection.
    pub(crate) fn stays_idle(&mut self, input: &[u8], out: &mut Vec<u8>) -> bool {
        let mut at = 0;
        loop {
            let received = self.codec.receive(&input[at..], self.began.elapsed(), out);
            match received {
                Err(_) => return false,
                Ok(received) => {
                    at += received.consumed;
                    match received.event {
                        Some(Frame::GoAway { .. }) => return false,
                        Some(_) => {}
                        // Part of a frame would precede the next response.
                        None => return at == input.len() && self.codec.can_open(),
                    }
                }
            }
        }
    }
}

impl Http2 {
    pub(crate) fn new(head: RequestHead, keeps_trailers: bool, max_head_bytes: usize) -> Http2 {
        Http2 {
            head,
            max_head_bytes,
            keeps_trailers,
            session: None,
            stream: None,
            out: Vec::new(),
            body: OutputChain::new(),
            body_ended: false,
            kept: Some(OutputChain::new()),
            parsed: 0,
            ended: false,
            known_left: 0,
            trailers: HeaderList::new(),
            closing: false,
            farewell: None,
        }
    }

    /// The same with a complete body.
    pub(crate) fn with_body(mut self, body: OutputChain) -> Http2 {
        self.body = body;
        self.body_ended = true;
        self.kept = None;
        self
    }

    /// Begins the body with what was already sent to a peer that did not process the request.
    pub(crate) fn begin_body_with(&mut self, body: OutputChain) {
        self.kept = Some(body.clone());
        self.body = body;
    }

    /// The part of a streamed body that was framed, if all of it can be sent again.
    pub(crate) fn take_kept_body(&mut self) -> Option<OutputChain> {
        self.kept.take()
    }

    pub(super) fn method(&self) -> Method {
        self.head.method
    }

    /// Begins the request on a connection, with its session if it has one.
    pub(crate) fn begin(&mut self, session: Option<Box<Session>>) {
        let max_head_bytes = self.max_head_bytes;
        let mut session =
            session.unwrap_or_else(|| Box::new(Session::begin(max_head_bytes, &mut self.out)));
        let head = &self.head;
        let fields = head.fields.fields();
        let opened = session
            .codec
            .open(&head.target(), fields, head.end, &mut self.out);
        match opened {
            Ok(stream) => self.stream = Some(stream),
            Err(OpenError::Full | OpenError::Closing) => self.closing = true,
        }
        self.session = Some(session);
    }

    /// The session, for the connection's next request.
    pub(crate) fn take_session(&mut self) -> Option<Box<Session>> {
        self.session.take()
    }

    pub(super) fn frame_body(&mut self, piece: Segment) {
        if let Some(kept) = &mut self.kept {
            if kept.len() + piece.len() <= MAX_KEPT_BODY_BYTES {
                kept.push(piece.clone());
            } else {
                self.kept = None;
            }
        }
        self.body.push(piece);
    }

    pub(super) fn end_body(&mut self) {
        self.body_ended = true;
    }

    /// Whether part of the body waits for the peer's windows.
    pub(crate) fn holds_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Whether the response is complete and its stream is gone, so that the rest of the request
    /// need not be sent.
    pub(crate) fn has_let_go(&self) -> bool {
        self.ended
    }

    /// Bytes of the response that are known to be missing.
    pub(super) fn known_left(&self) -> u64 {
        self.known_left
    }

    /// The peer's message when it ended the connection because of an error.
    pub(super) fn take_remark(&mut self) -> Option<String> {
        let (text, is_error) = self.farewell.take()?;
        is_error.then_some(text)
    }

    /// Gives up the request. Returns whether the connection can take another one once the output of
    /// [`Http2::take_output`] has been sent.
    pub(crate) fn cancel(&mut self, input: &[u8]) -> bool {
        self.ended = true;
        self.let_go(input, ErrorCode::CANCEL)
    }

    /// Moves the output that may be sent to `out`.
    pub(crate) fn take_output(&mut self, out: &mut OutputChain) {
        if out.is_empty()
            && let Some(session) = &mut self.session
        {
            session.codec.flushed();
        }
        self.send_body(out);
        if !self.out.is_empty() {
            out.push_bytes(std::mem::take(&mut self.out));
        }
    }

    fn send_body(&mut self, out: &mut OutputChain) {
        let (Some(session), Some(stream)) = (&mut self.session, self.stream) else {
            return;
        };
        if self.head.end || self.ended {
            return;
        }
        let codec = &mut session.codec;
        if !self.body.is_empty() {
            codec.offer(stream);
        }
        while let Some(front) = self.body.front()
            && let Some(grant) = codec.next_data()
        {
            let count = front.len().min(u64::from(grant.max_bytes)) as u32;
            let end = self.body_ended && u64::from(count) == self.body.len();
            if codec.data(stream, count, end, &mut self.out).is_err() {
                return;
            }
            match front {
                Segment::Memory(bytes) if count < MIN_SHARED_BYTES => {
                    self.out.extend_from_slice(&bytes[..count as usize]);
                }
                Segment::Memory(bytes) => {
                    let part = bytes.slice(..count as usize);
                    out.push_bytes(std::mem::take(&mut self.out));
                    out.push(Segment::Memory(part));
                }
                Segment::File(range) => {
                    let len = u64::from(count);
                    let part = FileRange {
                        len,
                        ..range.clone()
                    };
                    out.push_bytes(std::mem::take(&mut self.out));
                    out.push(Segment::File(part));
                }
            }
            self.body.advance(u64::from(count));
            self.head.end |= end;
        }
        if self.body.is_empty() {
            codec.pause(stream);
            if self.body_ended && !self.head.end {
                self.head.end = codec.data(stream, 0, true, &mut self.out).is_ok();
            }
        }
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
        if self.stream.is_none() {
            let text = "upstream accepts no more requests on this connection";
            return Err(WireError::Unprocessed(text.to_owned()));
        }
        loop {
            if self.ended {
                return Ok(Some(WireEvent::End(self.ending(input, closed))));
            }
            let Some(session) = &mut self.session else {
                return Ok(None);
            };
            let now = session.began.elapsed();
            let received = session
                .codec
                .receive(&input[self.parsed..], now, &mut self.out)
                .map_err(|fault| WireError::Invalid(format!("upstream broke HTTP/2: {fault}")))?;
            self.parsed += received.consumed;
            let Some(event) = received.event else {
                // Only here: moving the rest of the input after each of many small frames
                // would cost more than reading them.
                input.drain(..self.parsed);
                self.parsed = 0;
                return match closed {
                    true => Err(WireError::ClosedEarly),
                    false => Ok(None),
                };
            };
            let taken = take(event, self.stream);
            if let Some(event) = self.act(taken)? {
                return Ok(Some(event));
            }
        }
    }

    fn act(&mut self, taken: Taken) -> Result<Option<WireEvent>, WireError> {
        match taken {
            Taken::Nothing => Ok(None),
            Taken::GoAway(code, remark) => {
                self.closing = true;
                self.farewell = Some((remark, code != ErrorCode::NO_ERROR));
                Ok(None)
            }
            Taken::Head(head, end) => {
                if head.parsed.status.0 >= 200 {
                    self.known_left = head.parsed.content_length.unwrap_or(0);
                    self.kept = None;
                }
                self.ended = end;
                Ok(Some(WireEvent::Head(head)))
            }
            Taken::Data(piece, end) => {
                self.ended = end;
                self.known_left = self.known_left.saturating_sub(piece.len() as u64);
                if let (Some(session), Some(stream)) = (&mut self.session, self.stream) {
                    // Each piece is requested when there is room for it, so what was requested
                    // counts as consumed.
                    session.codec.release(stream, piece.len(), &mut self.out);
                }
                Ok((!piece.is_empty()).then_some(WireEvent::Data(piece)))
            }
            Taken::Trailers(trailers) => {
                self.trailers = trailers;
                self.ended = true;
                Ok(None)
            }
            Taken::Reset(code, unprocessed) => {
                let text = format!("upstream rejected request with error {}", code.0);
                Err(match (unprocessed, self.farewell.take()) {
                    (true, Some((farewell, _))) => WireError::Unprocessed(farewell),
                    (true, None) => WireError::Unprocessed(text),
                    (false, _) => WireError::Invalid(text),
                })
            }
            Taken::Fault(text) => Err(WireError::Invalid(text)),
        }
    }

    fn ending(&mut self, input: &mut Vec<u8>, closed: bool) -> ResponseEnd {
        let reusable = self.let_go(input, ErrorCode::NO_ERROR) && !closed;
        input.clear();
        self.parsed = 0;
        ResponseEnd {
            reusable,
            trailers: match self.keeps_trailers {
                true => std::mem::take(&mut self.trailers),
                false => HeaderList::new(),
            },
            ..ResponseEnd::default()
        }
    }

    /// Ends the stream with this code, unless it has ended already. Returns whether the connection
    /// can take another request.
    fn let_go(&mut self, input: &[u8], code: ErrorCode) -> bool {
        self.body.clear();
        let (Some(session), Some(stream)) = (&mut self.session, self.stream) else {
            return false;
        };
        session.codec.reset(stream, code, &mut self.out);
        // Frames about the connection may follow the response.
        let rest = input.get(self.parsed..).unwrap_or_default();
        session.stays_idle(rest, &mut self.out) && !self.closing
    }
}

/// An event of the codec, without its loan of the input.
enum Taken {
    Nothing,
    Head(Arc<UpstreamHead>, bool),
    Data(Bytes, bool),
    Trailers(HeaderList),
    /// With whether the peer did not process the request.
    Reset(ErrorCode, bool),
    Fault(String),
    /// With what is to be logged.
    GoAway(ErrorCode, String),
}

fn take(event: Frame<'_>, ours: Option<StreamRef>) -> Taken {
    let is_ours = |stream: StreamRef| ours == Some(stream);
    match event {
        Frame::Interim { stream, response } if is_ours(stream) => {
            let (buffer, parsed) = (response.text, response.head);
            Taken::Head(Arc::new(UpstreamHead { buffer, parsed }), false)
        }
        Frame::Response {
            stream,
            response,
            end,
        } if is_ours(stream) => {
            let (buffer, parsed) = (response.text, response.head);
            Taken::Head(Arc::new(UpstreamHead { buffer, parsed }), end)
        }
        Frame::Data { stream, bytes, end } if is_ours(stream) => {
            Taken::Data(Bytes::copy_from_slice(bytes), end)
        }
        Frame::Trailers { stream, trailers } if is_ours(stream) => {
            let mut list = HeaderList::new();
            for (name, value) in trailers.iter() {
                // Checked by the codec.
                let _ = list.push(name, value);
            }
            Taken::Trailers(list)
        }
        Frame::Reset {
            stream,
            code,
            unprocessed,
        } if is_ours(stream) => Taken::Reset(code, unprocessed),
        Frame::Fault { stream, fault, .. } if stream.is_none_or(is_ours) => {
            Taken::Fault(fault.to_string())
        }
        Frame::GoAway { code, debug, .. } => Taken::GoAway(code, go_away_remark(code, debug)),
        _ => Taken::Nothing,
    }
}

/// The log message for GOAWAY; the peer's text is cut to one line.
fn go_away_remark(code: ErrorCode, debug: &[u8]) -> String {
    const MAX_DEBUG_BYTES: usize = 200;
    let name = code.name().unwrap_or("unknown");
    let debug = &debug[..debug.len().min(MAX_DEBUG_BYTES)];
    let quoted = match debug {
        [] => String::new(),
        text => format!(": \"{}\"", text.escape_ascii()),
    };
    format!(
        "upstream sent goaway with error {} ({name}){quoted}",
        code.0
    )
}

#[cfg(test)]
mod tests;
