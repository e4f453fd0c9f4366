//! The body of a proxied response, from the peer to the client.
//!
//! With `proxy_buffering on` the peer is read as fast as it sends, into memory and then into a
//! temporary file, so that a slow client does not occupy it. With `off`, at most one buffer is
//! read ahead. Either way the client gets the bytes as they arrive, and the connection to the
//! peer returns to the pool as soon as the response has been read, however much of it is still
//! to be sent.

use super::conversation::Conversation;
use super::failure::{Doing, Failure};
use super::lease::Leased;
use super::response;
use super::response_buffer::{Limits, Moved, ResponseBuffer};
use super::store::{Progress, StoredBody};
use super::tunnel::Measured;
use super::wire::{ResponseEnd, WireEvent};
use crate::body_source::{BodySource, Filled, SourceError};
use crate::exchange::Exchange;
use crate::rate::RateLimit;
use crate::request_log::{self, Text, log_request};
use bytes::Bytes;
use sealane_conf::model::UpstreamSettings;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::{Sleep, sleep};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// Memory that has to be free before the peer is read again, unless the total is less: reading in
/// small steps costs many calls.
const MIN_READ_BYTES: u64 = 4 << 10;

/// A response body that is arriving from a peer.
pub(crate) struct ProxiedBody {
    /// `None` once the response is complete or has failed.
    conversation: Option<Box<Conversation>>,
    lease: Option<Leased>,
    /// Read from the peer, not yet given to the client.
    buffer: ResponseBuffer,
    /// `proxy_store`.
    store: Option<Box<StoredBody>>,
    min_read_bytes: u64,
    pace: Option<Pace>,
    /// Bytes that the client's connection held when memory was found full.
    full_at: Option<u64>,
    /// The log has the name of the temporary file.
    noted_file: bool,
    /// What ended the body.
    end: Option<Result<(), Failure>>,
    trailers: HeaderList,
    /// The peer's messages to the operator.
    remarks: Vec<String>,
    /// A problem of a complete response, to be logged.
    complaint: Option<&'static str>,
    is_tunnel: bool,
    /// When the first byte of a tunnel came.
    first_byte: Option<Instant>,
    /// `proxy_buffering off`.
    is_prompt: bool,
    ignores_client: bool,
    response_length: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

/// `proxy_limit_rate`: how fast the peer is read.
pub(super) struct Pace {
    rate: RateLimit,
    begun: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

/// How a response is buffered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffering {
    limits: Limits,
    /// `proxy_limit_rate` in bytes per second; 0 is no limit.
    rate: u64,
    /// `proxy_buffering`.
    is_on: bool,
}

impl Buffering {
    /// The limits from the configuration. As in nginx, without buffering only the first buffer is
    /// used, and the rate is not limited.
    pub(crate) fn new(settings: &UpstreamSettings, is_on: bool, rate: u64) -> Buffering {
        let (count, size) = settings.buffers;
        let more = match is_on {
            true => u64::from(count).saturating_mul(size),
            false => 0,
        };
        Buffering {
            limits: Limits {
                memory_bytes: settings.buffer_bytes.saturating_add(more),
                busy_bytes: settings.busy_buffers_bytes,
                temp_file_bytes: if is_on {
                    settings.max_temp_file_bytes
                } else {
                    0
                },
                write_bytes: settings.temp_file_write_bytes,
            },
            rate: if is_on { rate } else { 0 },
            is_on,
        }
    }
}

impl Buffering {
    /// The same with room for at least so much.
    pub(super) fn with_room(mut self, bytes: u64) -> Buffering {
        self.limits.memory_bytes = self.limits.memory_bytes.max(bytes);
        self
    }
}

impl ProxiedBody {
    pub(crate) fn new(
        conversation: Box<Conversation>,
        lease: Leased,
        buffering: Buffering,
        ignores_client: bool,
    ) -> ProxiedBody {
        let Buffering {
            limits,
            rate,
            is_on,
        } = buffering;
        ProxiedBody {
            conversation: Some(conversation),
            lease: Some(lease),
            buffer: ResponseBuffer::new(limits),
            store: None,
            min_read_bytes: MIN_READ_BYTES.min(limits.memory_bytes / 4).max(1),
            pace: (rate > 0).then(|| Pace::new(rate)),
            full_at: None,
            noted_file: false,
            end: None,
            trailers: HeaderList::new(),
            remarks: Vec::new(),
            complaint: None,
            is_tunnel: false,
            first_byte: None,
            is_prompt: !is_on,
            ignores_client,
            response_length: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// An upgraded connection: everything is passed on at once, in both directions.
    pub(crate) fn tunnel(mut self) -> ProxiedBody {
        self.is_tunnel = true;
        self
    }

    /// The body is stored on its way.
    pub(crate) fn stored(mut self, store: Option<Box<StoredBody>>) -> ProxiedBody {
        self.store = store;
        self
    }

    /// Reads what is there without waiting. True when the response is complete, so that it needs no
    /// source.
    pub(crate) fn take_at_once(&mut self, cx: &mut Context<'_>, out: &mut OutputChain) -> bool {
        self.read(cx);
        if !matches!(self.end, Some(Ok(()))) || self.store.is_some() {
            return false;
        }
        self.buffer.take_all(out);
        true
    }

    /// Reads from the peer until it has nothing, the body has ended, or memory is full.
    fn read(&mut self, cx: &mut Context<'_>) {
        while self.end.is_none() {
            let room = self.buffer.room();
            let waits_for_disk = self.store.as_ref().is_some_and(|store| store.is_full());
            if room < self.min_read_bytes || waits_for_disk {
                return;
            }
            let allowed = match &mut self.pace {
                None => room,
                Some(pace) => match pace.poll_allowed(cx, self.response_length) {
                    Poll::Ready(allowed) => allowed.min(room),
                    Poll::Pending => return,
                },
            };
            let Some(conversation) = &mut self.conversation else {
                return;
            };
            conversation.limit_reads(allowed);
            match conversation.poll_event(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(WireEvent::Data(piece))) => self.hold(piece),
                Poll::Ready(Ok(WireEvent::End(ending))) => self.finish(ending),
                // Only the bytes of a tunnel follow a final head.
                Poll::Ready(Ok(WireEvent::Head(_))) => {}
                Poll::Ready(Err(failure)) => self.fail(failure),
            }
        }
    }

    fn hold(&mut self, piece: Bytes) {
        if self.is_tunnel && self.response_length == 0 {
            self.first_byte.get_or_insert_with(Instant::now);
        }
        self.response_length += piece.len() as u64;
        if let Some(store) = &mut self.store {
            store.push(piece.clone());
        }
        let conversation = self.conversation.as_ref();
        let read_bytes = conversation.map_or(0, |conversation| conversation.read_bytes());
        self.buffer.push(piece, read_bytes);
    }

    fn finish(&mut self, ending: ResponseEnd) {
        self.end = Some(Ok(()));
        self.trailers = ending.trailers;
        self.complaint = ending.complaint;
        if self.store.as_mut().is_some_and(|store| !store.complete()) {
            self.store = None;
        }
        let Some(mut conversation) = self.conversation.take() else {
            return;
        };
        self.remarks.extend(conversation.take_remarks());
        self.bytes_sent = conversation.bytes_sent();
        self.bytes_received = conversation.bytes_received;
        // An incomplete request leaves bytes on the connection.
        let reusable = ending.reusable && conversation.is_sent();
        if let Some(lease) = self.lease.take() {
            let connection = match reusable {
                true => conversation.into_connection(),
                false => None,
            };
            lease.succeeded(connection);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.store = None;
        self.let_go(matches!(failure, Failure::Client(_)));
        // A tunnel ends when its client goes; that is not a failure.
        self.end = Some(match failure {
            Failure::Client(_) if self.is_tunnel => Ok(()),
            failure => Err(failure),
        });
    }

    /// Gives up the rest of the response. The connection is closed, unless the peer is not at fault
    /// and its protocol leaves it usable.
    fn let_go(&mut self, is_good: bool) {
        let mut connection = None;
        if let Some(mut conversation) = self.conversation.take() {
            self.bytes_sent = conversation.bytes_sent();
            self.bytes_received = conversation.bytes_received;
            self.remarks.extend(conversation.take_remarks());
            connection = match is_good {
                true => conversation.abandon(),
                false => None,
            };
        }
        if let Some(lease) = self.lease.take() {
            // As in nginx, a broken body does not count as a failure of the peer.
            lease.succeeded(connection);
        }
    }

    /// Logs the peer's messages to the operator, as soon as there is an exchange to log them for.
    fn log_remarks(&mut self, exchange: &Exchange) {
        if let Some(conversation) = &mut self.conversation {
            self.remarks.extend(conversation.take_remarks());
        }
        for remark in self.remarks.drain(..) {
            log_request!(exchange, Error, "{remark} {}", Doing::ReadingBody);
        }
    }

    /// Sends the rest of the request.
    fn send(&mut self, cx: &mut Context<'_>) {
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        match conversation.poll_send(cx) {
            Poll::Ready(Ok(())) if self.is_tunnel && !conversation.end_sending() => {
                // The client has closed its side; as in nginx, the tunnel of HTTP/1 ends then.
                self.finish(ResponseEnd::default());
            }
            Poll::Ready(Err(failure)) => self.fail(failure),
            _ => {}
        }
    }

    /// Continues to read, and to write to the file what memory has no room for.
    fn advance(&mut self, cx: &mut Context<'_>, exchange: &Exchange) {
        self.send(cx);
        loop {
            self.read(cx);
            let has_stored = self.advance_store(cx, exchange);
            match self.buffer.poll_move(cx) {
                Poll::Ready(Ok(Moved::ToFile)) => self.note_file(exchange),
                Poll::Ready(Ok(Moved::Nothing)) | Poll::Pending if has_stored => {}
                Poll::Ready(Ok(Moved::Nothing)) | Poll::Pending => return,
                Poll::Ready(Err(error)) => {
                    // The contents of the file are lost, and with them the rest.
                    self.store = None;
                    self.let_go(true);
                    self.end = Some(Err(Failure::TempFile(error.to_string())));
                    return;
                }
            }
        }
    }

    /// Continues to store. Returns whether more may be read than before.
    fn advance_store(&mut self, cx: &mut Context<'_>, exchange: &Exchange) -> bool {
        let Some(store) = &mut self.store else {
            return false;
        };
        match store.poll(cx) {
            Progress::Busy => return false,
            Progress::Idle(has_moved) => return has_moved,
            Progress::Stored => {}
            Progress::Failed(failure) => {
                let doing = Doing::ReadingBody;
                log_request!(
                    exchange,
                    Crit,
                    "{failure} {doing}: the response is not stored"
                );
            }
        }
        self.store = None;
        true
    }

    /// Memory is full, and the client has been given what it may have: if it took nothing between
    /// two checks, memory is moved to the file.
    fn relieve(&mut self, cx: &mut Context<'_>, exchange: &Exchange) {
        let is_full = self.end.is_none() && self.buffer.room() < self.min_read_bytes;
        if !is_full || !self.buffer.can_move() {
            self.full_at = None;
            return;
        }
        let busy = self.buffer.busy_bytes();
        if self.full_at.replace(busy) != Some(busy) {
            // Let the client take some; then check again.
            return cx.waker().wake_by_ref();
        }
        self.full_at = None;
        let pass = exchange.snapshot.location(exchange.location).pass.as_ref();
        if let Some(pass) = pass {
            self.buffer.begin_to_move(&pass.settings().temp_path);
            self.advance(cx, exchange);
        }
    }

    fn note_file(&mut self, exchange: &Exchange) {
        if std::mem::replace(&mut self.noted_file, true) {
            return;
        }
        if let Some(file) = self.buffer.file() {
            let path = Text(file.path());
            log_request!(
                exchange,
                Warn,
                "an upstream response is buffered to a temporary file {path} while reading upstream"
            );
        }
    }
}

impl Pace {
    /// At this rate, in bytes per second, from now on.
    pub(super) fn new(rate: u64) -> Pace {
        Pace {
            rate: RateLimit::per_second(rate),
            begun: Instant::now(),
            pause: None,
        }
    }

    /// How much may be read after `read_bytes`; pending until that is more than nothing.
    pub(super) fn poll_allowed(&mut self, cx: &mut Context<'_>, read_bytes: u64) -> Poll<u64> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match self.rate.allowed(read_bytes, self.begun) {
                Ok(bytes) => return Poll::Ready(bytes),
                Err(pause) => self.pause = Some(Box::pin(sleep(pause))),
            }
        }
    }
}

impl BodySource for ProxiedBody {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        self.advance(cx, exchange);
        self.log_remarks(exchange);
        if let Some(Err(failure @ Failure::TempFile(_))) = &self.end {
            let doing = failure.doing();
            request_log::log(exchange, failure.level(), format_args!("{failure} {doing}"));
            return Poll::Ready(Err(SourceError));
        }
        let is_complete = matches!(self.end, Some(Ok(())));
        if self.buffer.give(out, max_bytes, is_complete) > 0 {
            self.full_at = None;
            // The response is not over before its file is there.
            let all = is_complete && self.buffer.is_empty() && self.store.is_none();
            return Poll::Ready(Ok(if all { Filled::End } else { Filled::More }));
        }
        if !self.buffer.is_empty() {
            self.relieve(cx, exchange);
            return Poll::Pending;
        }
        match &self.end {
            Some(Ok(())) if self.store.is_some() => return Poll::Pending,
            Some(Ok(())) => return Poll::Ready(Ok(Filled::End)),
            Some(Err(failure)) => {
                if !failure.is_said() {
                    request_log::log(exchange, failure.level(), format_args!("{failure}"));
                }
                return Poll::Ready(Err(SourceError));
            }
            None => {}
        }
        if !self.ignores_client && exchange.client.poll_gone(cx).is_ready() {
            if !self.is_tunnel {
                log_request!(
                    exchange,
                    Info,
                    "client prematurely closed connection, so upstream connection is closed too"
                );
            }
            return Poll::Ready(Err(SourceError));
        }
        Poll::Pending
    }

    fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        response::pass_trailers(exchange, std::mem::take(&mut self.trailers))
    }

    fn conclude(mut self: Box<Self>, exchange: &mut Exchange, _completed: bool) {
        self.let_go(true);
        self.log_remarks(exchange);
        if let Some(complaint) = self.complaint {
            log_request!(exchange, Warn, "{complaint} {}", Doing::ReadingBody);
        }
        let Some(states) = exchange.upstream.as_deref_mut() else {
            return;
        };
        if let Some(attempt) = states.attempts.last_mut() {
            if let Some(tunnel) = &mut states.tunnel {
                let took = |at: Instant| at.saturating_duration_since(attempt.started);
                tunnel.first_byte = self
                    .first_byte
                    .map_or(Measured::Begun, |at| Measured::Took(took(at)));
            }
            attempt.end();
            attempt.response_length = self.response_length;
            attempt.bytes_sent = self.bytes_sent;
            attempt.bytes_received = self.bytes_received;
        }
    }
}
