//! HTTP/2 towards a peer: gRPC, and `proxy_http_version 2`.
//!
//! A connection carries one request at a time, as in nginx, and is kept for the next
//! one with its header tables. The codec therefore belongs to the connection and is
//! lent to the request.

use super::{Ending, Event, Head, WireError};
use crate::chain::{FileRange, OutputChain, Segment};
use bytes::Bytes;
use sealane_http::Method;
use sealane_http::h1::Limits;
use sealane_http::h2::{
    Connection, ErrorCode, Event as Frame, OpenError, RequestTarget, Settings, StreamRef,
};
use sealane_http::headers::HeaderList;
use std::sync::Arc;
use std::time::Instant;

/// The codec of a connection to a peer, kept with it.
pub(crate) struct Session {
    codec: Connection,
    began: Instant,
}

/// What is sent as the request's head.
#[derive(Clone)]
pub(crate) struct RequestHead {
    pub(crate) method_name: Vec<u8>,
    pub(crate) method: Method,
    pub(crate) scheme: &'static str,
    pub(crate) authority: Vec<u8>,
    pub(crate) path: Vec<u8>,
    /// Header fields, in order.
    pub(crate) fields: Arc<HeaderList>,
    /// Nothing follows.
    pub(crate) end: bool,
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
    /// The request body as far as windows did not take it yet.
    body: OutputChain,
    body_ended: bool,
    /// The response has ended.
    ended: bool,
    has_head: bool,
    trailers: HeaderList,
    /// The peer takes no further requests.
    closing: bool,
}

impl Session {
    /// A new connection; its preface is appended to `out`.
    fn begin(max_head_bytes: usize, out: &mut Vec<u8>) -> Session {
        let settings = Settings {
            head: Limits {
                header_buffer_bytes: max_head_bytes,
                large_buffer_bytes: max_head_bytes,
                ..Limits::default()
            },
            ..Settings::default()
        };
        let began = Instant::now();
        let codec = Connection::client(Arc::new(settings), began.elapsed(), out);
        Session { codec, began }
    }

    /// Takes in what a peer says while its connection is idle. False when it ends the
    /// connection.
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
                        // A part of a frame would be in the way of the next request.
                        None => return at == input.len(),
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
            ended: false,
            has_head: false,
            trailers: HeaderList::new(),
            closing: false,
        }
    }

    pub(super) fn method(&self) -> Method {
        self.head.method
    }

    /// Begins the request on a connection, whose session is taken up if it has one.
    pub(super) fn begin(&mut self, session: Option<Box<Session>>) {
        let max_head_bytes = self.max_head_bytes;
        let mut session =
            session.unwrap_or_else(|| Box::new(Session::begin(max_head_bytes, &mut self.out)));
        let head = &self.head;
        let target = RequestTarget {
            method: &head.method_name,
            scheme: head.scheme.as_bytes(),
            authority: &head.authority,
            path: &head.path,
        };
        let opened = session
            .codec
            .open(&target, head.fields.iter(), head.end, &mut self.out);
        match opened {
            Ok(stream) => self.stream = Some(stream),
            Err(OpenError::Full | OpenError::Closing) => self.closing = true,
        }
        self.session = Some(session);
    }

    /// The session, for the connection's next request.
    pub(super) fn take_session(&mut self) -> Option<Box<Session>> {
        self.session.take()
    }

    pub(super) fn frame_body(&mut self, piece: Segment) {
        self.body.push(piece);
    }

    pub(super) fn end_body(&mut self) {
        self.body_ended = true;
    }

    /// Whether some of the body waits for the peer's windows.
    pub(super) fn holds_body(&self) -> bool {
        !self.body.is_empty()
    }

    /// Moves what may be sent into `out`.
    pub(super) fn take_output(&mut self, out: &mut OutputChain) {
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
                Segment::Memory(bytes) => {
                    self.out.extend_from_slice(&bytes[..count as usize]);
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

    pub(super) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<Event>, WireError> {
        if self.stream.is_none() {
            // The connection was ending when the request came.
            return Err(WireError::ClosedEarly);
        }
        loop {
            if self.ended {
                return Ok(Some(Event::End(self.ending(input, closed))));
            }
            let Some(session) = &mut self.session else {
                return Ok(None);
            };
            let now = session.began.elapsed();
            let received = session
                .codec
                .receive(input, now, &mut self.out)
                .map_err(|fault| WireError::Invalid(format!("upstream broke HTTP/2: {fault}")))?;
            let consumed = received.consumed;
            let event = match received.event {
                None => {
                    input.drain(..consumed);
                    return match closed {
                        true => Err(WireError::ClosedEarly),
                        false => Ok(None),
                    };
                }
                Some(event) => take(event, self.stream),
            };
            input.drain(..consumed);
            if let Some(event) = self.act(event)? {
                return Ok(Some(event));
            }
        }
    }

    fn act(&mut self, taken: Taken) -> Result<Option<Event>, WireError> {
        match taken {
            Taken::Nothing => Ok(None),
            Taken::GoAway => {
                self.closing = true;
                Ok(None)
            }
            Taken::Head(head, end) => {
                self.has_head |= head.parsed.status.0 >= 200;
                self.ended = end;
                Ok(Some(Event::Head(head)))
            }
            Taken::Data(piece, end) => {
                self.ended = end;
                if let (Some(session), Some(stream)) = (&mut self.session, self.stream) {
                    session.codec.release(stream, piece.len(), &mut self.out);
                }
                Ok((!piece.is_empty()).then_some(Event::Data(piece)))
            }
            Taken::Trailers(trailers) => {
                self.trailers = trailers;
                self.ended = true;
                Ok(None)
            }
            // A server that needs no more of the request ends the stream so.
            Taken::Reset(ErrorCode::NO_ERROR) if self.ended => Ok(None),
            Taken::Reset(code) => {
                self.closing = true;
                Err(WireError::Invalid(format!(
                    "upstream rejected request with error {}",
                    code.0
                )))
            }
            Taken::Fault(text) => {
                self.closing = true;
                Err(WireError::Invalid(text))
            }
        }
    }

    fn ending(&mut self, input: &[u8], closed: bool) -> Ending {
        let mut reusable = !self.closing && !closed && input.is_empty();
        if let (Some(session), Some(stream)) = (&mut self.session, self.stream) {
            if session.codec.contains(stream) {
                // The rest of the request is of no use to anybody.
                session
                    .codec
                    .reset(stream, ErrorCode::NO_ERROR, &mut self.out);
            }
            reusable &= !session.codec.is_shutting_down() && self.out.is_empty();
        }
        self.body.clear();
        Ending {
            reusable,
            trailers: match self.keeps_trailers {
                true => std::mem::take(&mut self.trailers),
                false => HeaderList::new(),
            },
            ..Ending::default()
        }
    }
}

/// An event of the codec, without its loan of the input.
enum Taken {
    Nothing,
    Head(Box<Head>, bool),
    Data(Bytes, bool),
    Trailers(HeaderList),
    Reset(ErrorCode),
    Fault(String),
    GoAway,
}

fn take(event: Frame<'_>, ours: Option<StreamRef>) -> Taken {
    let is_ours = |stream: StreamRef| ours == Some(stream);
    match event {
        Frame::Interim { stream, response } if is_ours(stream) => {
            let (buffer, parsed) = (response.text, response.head);
            Taken::Head(Box::new(Head { buffer, parsed }), false)
        }
        Frame::Response {
            stream,
            response,
            end,
        } if is_ours(stream) => {
            let (buffer, parsed) = (response.text, response.head);
            Taken::Head(Box::new(Head { buffer, parsed }), end)
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
        Frame::Reset { stream, code, .. } if is_ours(stream) => Taken::Reset(code),
        Frame::Fault { stream, fault, .. } if stream.is_none_or(is_ours) => {
            Taken::Fault(fault.to_string())
        }
        Frame::GoAway { .. } => Taken::GoAway,
        _ => Taken::Nothing,
    }
}
