//! The link between an exchange and its client's connection while the request is being
//! handled: the request body, interim responses, and whether the client is still there.
//!
//! ```text
//! handler   --- wants the body, sends 103 --->   connection
//!           <-- pieces of the body, "gone" ---
//! ```
//!
//! Handlers know neither HTTP/1 nor HTTP/2: they hold a [`ClientLink`] and read from it. The
//! connection holds the `ClientFeed` of the same link, sees the demand and meets it. Nothing
//! is read from the client without demand, so a slow handler slows its client down and fills
//! no memory.

use bytes::Bytes;
use sealane_http::StatusCode;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// While they are not read, pieces of the body are joined up to this size.
const JOINED_BYTES: usize = 4096;

/// The handler's end. Clones refer to the same client.
#[derive(Clone, Default)]
pub struct ClientLink(Arc<Mutex<Option<Box<LinkState>>>>);

/// The connection's end.
#[derive(Clone)]
pub(crate) struct ClientFeed(ClientLink);

/// State of one exchange; made when the handler first needs it.
#[derive(Default)]
struct LinkState {
    /// Pieces of the body that have not been read.
    pieces: VecDeque<Bytes>,
    /// The handler waits for more.
    wanted: bool,
    /// The handler wants what has arrived, and to know when that is all.
    inquiry: Inquiry,
    /// The handler wants to know when the client goes.
    watched: bool,
    /// The body has been asked for at least once.
    begun: bool,
    /// No more pieces will arrive.
    ended: bool,
    error: Option<BodyError>,
    gone: bool,
    /// Everything that the client sends is passed on (a tunnel).
    tunnel: bool,
    /// `client_max_body_size` for bodies of unknown length; `None` is no limit.
    max_bytes: Option<u64>,
    /// `client_body_timeout` of the location that reads the body.
    timeout: Option<Duration>,
    /// Bytes of the body that arrived.
    received: u64,
    /// Bytes on the wire that they took.
    framed: u64,
    /// When it got too large: the bytes before, and those announced then.
    refused: (u64, u64),
    /// Bytes that were read, or thrown away, since the connection last checked (flow control).
    consumed: u64,
    interim: VecDeque<Interim>,
    trailers: Vec<(Bytes, Bytes)>,
    reader: Option<Waker>,
}

/// Whether more of the body has arrived than was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Inquiry {
    /// Nobody asks.
    #[default]
    None,
    /// The connection has not said yet.
    Open,
    /// Nothing has.
    Denied,
}

/// Why the rest of the request body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The client closed the connection, or reset the stream, before the end.
    ClientClosed,
    /// Its framing is malformed, or it does not have its declared length.
    Malformed,
    /// Nothing arrived for `client_body_timeout`.
    TimedOut,
    /// It is longer than `client_max_body_size`.
    TooLarge,
}

/// An interim response (RFC 9110 section 15.2): 103 with its header lines.
#[derive(Debug, Clone)]
pub(crate) struct Interim {
    /// Status, 1xx but not 101.
    pub(crate) status: StatusCode,
    /// Names and values.
    pub(crate) headers: sealane_http::headers::HeaderList,
}

/// What the handler waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Nothing of the client.
    Nothing,
    /// A notification when the client goes.
    Watch,
    /// Bytes of the body.
    Bytes,
}

impl BodyError {
    /// The status for this error.
    pub fn status(self) -> StatusCode {
        match self {
            BodyError::ClientClosed | BodyError::Malformed => StatusCode::BAD_REQUEST,
            BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
            BodyError::TooLarge => StatusCode::CONTENT_TOO_LARGE,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::ClientClosed => "client prematurely closed connection",
            BodyError::Malformed => "client sent invalid body",
            BodyError::TimedOut => "client timed out (110: Connection timed out)",
            BodyError::TooLarge => "client intended to send too large body",
        })
    }
}

impl std::error::Error for BodyError {}

impl ClientLink {
    /// The connection's end of this link.
    pub(crate) fn feed(&self) -> ClientFeed {
        ClientFeed(self.clone())
    }

    /// The next piece of the request body; `None` at its end, and for requests
    /// without a body.
    ///
    /// # Errors
    /// See [`BodyError`]. It stays the same from then on.
    pub fn poll_body(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        flow.begun = true;
        if let Some(piece) = flow.pieces.pop_front() {
            flow.consumed += piece.len() as u64;
            flow.wanted = false;
            return Poll::Ready(Ok(Some(piece)));
        }
        if let Some(error) = flow.error {
            return Poll::Ready(Err(error));
        }
        if flow.ended {
            return Poll::Ready(Ok(None));
        }
        flow.wanted = true;
        flow.await_news(cx);
        Poll::Pending
    }

    /// [`ClientLink::poll_body`] as a future.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn read_body(&self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_body(cx)).await
    }

    /// The next piece of the request body if it has arrived already, as [`ClientLink::read_body`];
    /// otherwise `None`.
    pub(crate) async fn read_arrived(&self) -> Option<Result<Option<Bytes>, BodyError>> {
        poll_fn(|cx| {
            if let Poll::Ready(piece) = self.poll_body(cx) {
                self.end_inquiry();
                return Poll::Ready(Some(piece));
            }
            match self.poll_denied() {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn poll_denied(&self) -> Poll<()> {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        if flow.inquiry == Inquiry::Denied {
            flow.inquiry = Inquiry::None;
            flow.wanted = false;
            return Poll::Ready(());
        }
        flow.inquiry = Inquiry::Open;
        Poll::Pending
    }

    fn end_inquiry(&self) {
        if let Some(flow) = &mut *self.flow() {
            flow.inquiry = Inquiry::None;
        }
    }

    /// Whether the body is known to be complete, and all of it has been read.
    pub(crate) fn has_no_more(&self) -> bool {
        let is_done =
            |flow: &LinkState| flow.ended && flow.error.is_none() && flow.pieces.is_empty();
        self.flow().as_deref().is_some_and(is_done)
    }

    /// Ready when the client has gone: it closed the connection or reset the stream.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        if flow.gone || flow.error == Some(BodyError::ClientClosed) {
            return Poll::Ready(());
        }
        flow.watched = true;
        flow.await_news(cx);
        Poll::Pending
    }

    /// Stops waking the handler when the client goes.
    pub fn ignore_gone(&self) {
        if let Some(flow) = &mut *self.flow() {
            flow.watched = false;
        }
    }

    /// Limits the body, once the location is known: more than `max_bytes`, unless that is 0, is
    /// [`BodyError::TooLarge`]; no bytes for `timeout` is [`BodyError::TimedOut`].
    pub fn limit_body(&self, max_bytes: u64, timeout: Duration) {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        flow.max_bytes = (max_bytes > 0).then_some(max_bytes);
        flow.timeout = Some(timeout);
        flow.check_size(0);
    }

    /// What made the body too large: its bytes so far, and the chunk or piece that arrived then.
    pub(crate) fn refused_bytes(&self) -> (u64, u64) {
        self.flow().as_ref().map_or((0, 0), |flow| flow.refused)
    }

    /// Bytes of the body on the wire so far, framing included, as far as they were asked for
    /// (`$request_length`).
    pub(crate) fn framed_bytes(&self) -> u64 {
        self.flow().as_ref().map_or(0, |flow| flow.framed)
    }

    /// Sends an interim response before the final one.
    pub(crate) fn send_interim(&self, interim: Interim) {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        flow.interim.push_back(interim);
    }

    /// Makes [`ClientLink::poll_body`] return everything that the client sends. `is_stream`: all
    /// that arrives on a stream was part of it from the beginning, its end included.
    pub(crate) fn open_tunnel(&self, is_stream: bool) {
        let mut flow = self.flow();
        let flow = flow.get_or_insert_default();
        flow.tunnel = true;
        flow.ended &= is_stream;
        flow.max_bytes = None;
    }

    /// Trailers of the request; complete once the body has ended.
    pub fn trailers(&self) -> Vec<(Bytes, Bytes)> {
        self.flow()
            .as_ref()
            .map_or_else(Vec::new, |flow| flow.trailers.clone())
    }

    /// Resets the link for the next exchange.
    pub(crate) fn reset(&self) {
        *self.flow() = None;
    }

    fn flow(&self) -> MutexGuard<'_, Option<Box<LinkState>>> {
        // The contents are consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientFeed {
    /// The current demand.
    pub(crate) fn demand(&self) -> Demand {
        match &*self.0.flow() {
            Some(flow) if flow.wanted && !flow.has_ended() => Demand::Bytes,
            Some(flow) if flow.watched && !flow.gone => Demand::Watch,
            _ => Demand::Nothing,
        }
    }

    /// Whether the body has been asked for: a client that waits for 100 may send it.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.flow().as_ref().is_some_and(|flow| flow.begun)
    }

    /// To be called when nothing of the body can be brought at once. Returns whether the handler
    /// has asked for that, and is to be polled again.
    pub(crate) fn deny_arrival(&self) -> bool {
        match &mut *self.0.flow() {
            Some(flow) if flow.inquiry == Inquiry::Open => {
                flow.inquiry = Inquiry::Denied;
                flow.tell_reader();
                true
            }
            _ => false,
        }
    }

    /// How long the next piece of the body may take, if its reader has set a time-out.
    pub(crate) fn body_timeout(&self) -> Option<Duration> {
        self.0.flow().as_ref().and_then(|flow| flow.timeout)
    }

    /// Whether the body has become a tunnel.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.0.flow().as_ref().is_some_and(|flow| flow.tunnel)
    }

    /// A piece of the body.
    pub(crate) fn push(&self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        if flow.takes(piece.len()) {
            flow.pieces.push_back(piece);
        }
        flow.tell_reader();
    }

    /// Copies a piece of the body. A client may cut its body into single bytes; unread ones are
    /// joined, so they take little more memory than their length.
    pub(crate) fn push_copy(&self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        if flow.takes(piece.len()) {
            flow.join(piece);
        }
        flow.tell_reader();
    }

    /// Announces how many bytes follow those that were pushed: a chunk declares its length.
    pub(crate) fn announce(&self, bytes: u64) {
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        flow.check_size(bytes);
        if flow.error.is_some() {
            flow.tell_reader();
        }
    }

    /// Counts bytes of the body with their framing.
    pub(crate) fn count_framed(&self, bytes: u64) {
        self.0.flow().get_or_insert_default().framed += bytes;
    }

    /// The body is complete; `trailers` followed it.
    pub(crate) fn finish(&self, trailers: Vec<(Bytes, Bytes)>) {
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        flow.ended = true;
        flow.trailers = trailers;
        flow.tell_reader();
    }

    /// The body will not be complete.
    pub(crate) fn fail(&self, error: BodyError) {
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        flow.error.get_or_insert(error);
        flow.tell_reader();
    }

    /// The client has gone.
    pub(crate) fn set_gone(&self) {
        let mut flow = self.0.flow();
        let flow = flow.get_or_insert_default();
        flow.gone = true;
        if !flow.ended {
            flow.error.get_or_insert(BodyError::ClientClosed);
        }
        flow.tell_reader();
    }

    /// The next interim response to send.
    pub(crate) fn take_interim(&self) -> Option<Interim> {
        self.0.flow().as_mut()?.interim.pop_front()
    }

    /// Bytes read since the last call: the client may send as many more.
    pub(crate) fn take_consumed(&self) -> u64 {
        let mut flow = self.0.flow();
        flow.as_mut()
            .map_or(0, |flow| std::mem::take(&mut flow.consumed))
    }
}

impl LinkState {
    fn has_ended(&self) -> bool {
        self.ended || self.error.is_some()
    }

    /// Counts bytes of the body that have arrived. Returns whether they may still be read;
    /// otherwise they make room for others at once.
    fn takes(&mut self, bytes: usize) -> bool {
        self.check_size(bytes as u64);
        self.received += bytes as u64;
        if self.error.is_some() {
            self.consumed += bytes as u64;
        }
        self.error.is_none()
    }

    /// Adds bytes to the last piece if that is small, otherwise as a new piece.
    fn join(&mut self, bytes: &[u8]) {
        if let Some(last) = self.pieces.back_mut()
            && last.len() + bytes.len() <= JOINED_BYTES
        {
            match std::mem::take(last).try_into_mut() {
                Ok(mut joined) => {
                    joined.extend_from_slice(bytes);
                    *last = joined.freeze();
                    return;
                }
                Err(shared) => *last = shared,
            }
        }
        self.pieces.push_back(Bytes::copy_from_slice(bytes));
    }

    /// Checks the limit of the body, given that `more` bytes follow.
    fn check_size(&mut self, more: u64) {
        let len = self.received.saturating_add(more);
        if self.error.is_none() && self.max_bytes.is_some_and(|max| len > max) {
            let unread = self.pieces.drain(..).map(|piece| piece.len() as u64);
            self.consumed += unread.sum::<u64>();
            self.refused = (self.received, more);
            self.error = Some(BodyError::TooLarge);
        }
    }

    /// The connection polls its handlers itself and checks the demand afterwards, so it need not be
    /// woken.
    fn await_news(&mut self, cx: &mut Context<'_>) {
        set_waker(&mut self.reader, cx);
    }

    fn tell_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }
}

fn set_waker(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(known) if known.will_wake(cx.waker()) => {}
        _ => *slot = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bytes_are_joined() {
        let link = ClientLink::default();
        let feed = link.feed();
        let content: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
        let mut cx = Context::from_waker(Waker::noop());
        let mut pieces = Vec::new();
        for (at, byte) in content.iter().enumerate() {
            feed.push_copy(&[*byte]);
            if at == 10 {
                // A piece that has been taken does not change.
                let Poll::Ready(Ok(Some(piece))) = link.poll_body(&mut cx) else {
                    panic!("bytes have come");
                };
                pieces.push(piece);
            }
        }
        feed.push(Bytes::from(vec![1; 10_000]));
        feed.push_copy(&[2; JOINED_BYTES]);
        feed.finish(Vec::new());
        while let Poll::Ready(Ok(Some(piece))) = link.poll_body(&mut cx) {
            pieces.push(piece);
        }
        let joined = 19_989usize.div_ceil(JOINED_BYTES);
        assert_eq!(pieces.len(), 1 + joined + 2);
        let end = [vec![1; 10_000], vec![2; JOINED_BYTES]].concat();
        assert_eq!(pieces.concat(), [content, end].concat());
        assert_eq!(feed.take_consumed(), 34_096);
    }

    #[test]
    fn what_is_too_large_makes_room_at_once() {
        let link = ClientLink::default();
        let feed = link.feed();
        link.limit_body(100, Duration::from_secs(1));
        feed.push_copy(&[1; 60]);
        assert_eq!(feed.take_consumed(), 0, "it waits for its reader");
        feed.push_copy(&[2; 60]);
        assert_eq!(feed.take_consumed(), 120);
        feed.push_copy(&[3; 60]);
        assert_eq!(feed.take_consumed(), 60);
        let mut cx = Context::from_waker(Waker::noop());
        let read = link.poll_body(&mut cx);
        assert_eq!(read, Poll::Ready(Err(BodyError::TooLarge)));
    }
}
