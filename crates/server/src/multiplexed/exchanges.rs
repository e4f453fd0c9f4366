//! What happens on the streams of a connection: requests arrive, handlers run, responses begin
//! and end.

use super::stream::{self, FollowUp, ResetReason, Stream, StreamResponse, StreamState};
use super::table::{StreamTable, WireName};
use super::time::TurnTime;
use super::wakers::Woken;
use super::{MultiplexedWire, Unsendable};
use crate::client::Client;
use crate::client_link::{BodyError, ClientLink};
use crate::exchange::Exchange;
use crate::framing;
use crate::prologue::Arrival;
use crate::proxying::add_websocket_key;
use bytes::Bytes;
use sealane_conf::model::LogLevel;
use sealane_http::h1::{Framing, RequestError};
use sealane_http::h2::Request;
use sealane_http::{Method, StatusCode};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

/// The exchanges of one connection.
pub(crate) struct Exchanges<W: MultiplexedWire> {
    /// The protocol, and what is to be sent.
    pub(crate) wire: W,
    pub(crate) streams: StreamTable<W::Name>,
    /// Which of them were woken.
    pub(crate) woken: Woken,
    pub(crate) time: TurnTime,
    pub(crate) notes: Notes,
}

/// What concerns the connection as a whole, since it was taken last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notes {
    /// A location has a time-out that may be shorter than those that were known.
    pub(crate) look_within: Duration,
    /// What the connection waits for may have changed.
    pub(crate) has_changed: bool,
    /// Requests in early data that were answered with 425.
    pub(crate) early_data_refused: u32,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes {
            look_within: Duration::MAX,
            has_changed: false,
            early_data_refused: 0,
        }
    }
}

impl Notes {
    pub(super) fn look_within(&mut self, timeout: Duration) {
        self.look_within = self.look_within.min(timeout);
    }
}

/// A request that has arrived.
pub(crate) struct Incoming {
    pub(crate) request: Request,
    /// No body follows.
    pub(crate) end: bool,
    /// It may be a replay.
    pub(crate) early_data: bool,
    /// Why it is refused, if it is.
    pub(crate) refusal: Option<RequestError>,
    /// Where the client is, if it has moved since the connection began.
    pub(crate) moved_to: Option<SocketAddr>,
}

impl<W: MultiplexedWire> Exchanges<W> {
    pub(crate) fn new(wire: W) -> Exchanges<W> {
        Exchanges {
            wire,
            streams: StreamTable::default(),
            woken: Woken::default(),
            time: TurnTime::now(),
            notes: Notes::default(),
        }
    }

    /// What has been noted.
    pub(crate) fn take_notes(&mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// A request has arrived: its handler begins at once.
    pub(crate) fn open(&mut self, client: &Client, name: W::Name, incoming: Incoming) {
        let index = self.streams.begin(client, name, incoming, self.time);
        self.go_on(index);
    }

    /// The stream is gone. A handler is told and may finish what it does.
    pub(crate) fn lose(&mut self, name: W::Name, error: BodyError) {
        let Some((index, stream)) = self.streams.find_mut(name) else {
            return;
        };
        stream.name = None;
        stream.feed.fail(error);
        stream.feed.set_gone();
        match stream.state {
            StreamState::Handling(_) => self.streams.queue(index),
            StreamState::Sending(_) => self.conclude(index, false),
        }
    }

    /// Ends the streams whose configuration is older than this one, and tells the client.
    pub(crate) fn retire_before(&mut self, client: &Client, oldest: u64) {
        let mut ended = 0;
        for index in self.streams.indices() {
            let stream = self.streams.get(index);
            let old = stream.filter(|stream| stream.generation < oldest);
            let Some(name) = old.and_then(|stream| stream.name) else {
                continue;
            };
            self.wire.reset(name, ResetReason::Cancelled);
            self.lose(name, BodyError::ClientClosed);
            ended += 1;
        }
        if ended > 0 {
            client.log(
                LogLevel::Info,
                &format!(
                    "worker_shutdown_timeout has passed since the configuration was replaced, \
                     closing {ended} streams"
                ),
            );
        }
    }

    /// Polls streams: those in the queue, then those that were woken. Returns whether there were
    /// any.
    pub(crate) fn let_streams_go_on(&mut self) -> bool {
        let mut indices = self.streams.take_queued();
        for index in indices.iter().copied() {
            self.go_on(index as usize);
        }
        let had = !indices.is_empty();
        indices.clear();
        self.woken.take(&mut indices);
        for index in indices.iter().copied() {
            self.go_on(index as usize);
        }
        let had = had || !indices.is_empty();
        indices.clear();
        self.streams.reuse_queue(indices);
        had
    }

    /// Lets a stream do what it can.
    fn go_on(&mut self, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        stream.is_queued = false;
        let waker = self.woken.waker(index);
        let mut cx = Context::from_waker(&waker);
        if let StreamState::Handling(handling) = &mut stream.state {
            let done = handling.as_mut().poll(&mut cx);
            stream.pass_between(&mut self.wire, &mut self.notes, self.time);
            let Poll::Ready(exchange) = done else {
                return;
            };
            if !self.begin_response(index, exchange) {
                return;
            }
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let follow_up = stream.pull_body(&mut self.wire, &mut cx);
        self.follow_up(index, follow_up);
        if let Some(stream) = self.streams.get_mut(index) {
            stream.pass_between(&mut self.wire, &mut self.notes, self.time);
        }
    }

    /// Does what a stream needs after it has done what it could.
    pub(crate) fn follow_up(&mut self, index: usize, follow_up: FollowUp) {
        match follow_up {
            FollowUp::None => {}
            FollowUp::LookAgain => self.streams.queue(index),
            FollowUp::Finish => self.finish(index),
            FollowUp::Reset(reason) => self.reset_behind(index, reason),
        }
    }

    /// The handler is done: sends the head. False when nothing follows it, or the stream is gone.
    fn begin_response(&mut self, index: usize, mut exchange: Box<Exchange>) -> bool {
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        if exchange.features.early_data.refused {
            self.notes.early_data_refused += 1;
        }
        let Some(name) = stream.name else {
            stream.state = StreamState::Sending(Box::new(StreamResponse::new(exchange)));
            self.conclude(index, false);
            return false;
        };
        if exchange.response.drop_connection {
            // As 444 ends a connection of HTTP/1, so it ends a stream.
            let reason = match exchange.response.status {
                StatusCode::REQUEST_TIMEOUT => ResetReason::Cancelled,
                _ => ResetReason::Failed,
            };
            stream.state = StreamState::Sending(Box::new(StreamResponse::new(exchange)));
            self.give_up(index, reason);
            return false;
        }
        framing::leave_out_unwanted_source(&mut exchange);
        let is_head = exchange.request.head.method == Method::Head;
        let mut sending = Box::new(StreamResponse::new(exchange));
        if stream.is_malformed {
            sending.reset_behind = Some(ResetReason::Malformed);
        }
        if is_head || stream.is_malformed {
            sending.trailers.clear();
        }
        self.notes.look_within(sending.send_timeout);
        let is_all = sending.is_empty();
        let end = is_all && !stream.is_malformed;
        let sent = self.wire.send_head(name, &mut sending.exchange, end);
        stream.moved_ms = self.time.now_ms;
        stream.state = StreamState::Sending(sending);
        if sent == Err(Unsendable) {
            self.give_up(index, ResetReason::Failed);
            return false;
        }
        if end {
            self.finish(index);
            return false;
        }
        if is_all {
            self.reset_behind(index, ResetReason::Malformed);
            return false;
        }
        self.wire.offer(name);
        true
    }

    /// All of a response but its trailers has been queued.
    fn finish(&mut self, index: usize) {
        let Some(stream) = self.streams.get(index) else {
            return;
        };
        let (StreamState::Sending(sending), Some(name)) = (&stream.state, stream.name) else {
            return;
        };
        if !sending.trailers.is_empty() {
            self.wire.send_trailers(name, &sending.trailers);
        }
        self.notes.has_changed |= self.wire.answered(name, self.time);
        self.conclude(index, true);
    }

    /// Resets a stream behind all that is sent of its response: which is all that there is, if the
    /// request was malformed.
    fn reset_behind(&mut self, index: usize, reason: ResetReason) {
        let stream = self.streams.get(index);
        let completed = stream.is_some_and(|stream| stream.is_malformed);
        if let Some(name) = stream.and_then(|stream| stream.name) {
            self.wire.reset(name, reason);
        }
        self.conclude(index, completed);
    }

    /// Ends a stream before its response is complete, and tells the client.
    pub(crate) fn give_up(&mut self, index: usize, reason: ResetReason) {
        let stream = self.streams.get(index);
        if let Some(name) = stream.and_then(|stream| stream.name) {
            self.wire.reset(name, reason);
        }
        self.conclude(index, false);
    }

    /// Removes a stream. Its response, if there is one, goes into the log.
    fn conclude(&mut self, index: usize, completed: bool) {
        let stream = self.streams.remove(index);
        if let Some(StreamState::Sending(sending)) = stream.map(|stream| stream.state) {
            sending.conclude(completed);
        }
    }

    /// The connection is over. Incomplete responses end here; handlers are told that their client
    /// has gone.
    pub(crate) fn abandon(&mut self) {
        for index in self.streams.indices() {
            let Some(stream) = self.streams.get_mut(index) else {
                continue;
            };
            stream.name = None;
            match stream.state {
                StreamState::Handling(_) => {
                    stream.feed.set_gone();
                    self.streams.queue(index);
                }
                StreamState::Sending(_) => self.conclude(index, false),
            }
        }
    }

    /// Polls handlers that finish even without their client (`proxy_ignore_client_abort`, mirrored
    /// requests). Most are done at once; all of them write their line of the access log.
    pub(crate) fn poll_handlers(&mut self, client: &Client, cx: &mut Context<'_>) -> Poll<()> {
        self.woken.set_task(cx);
        loop {
            self.time = TurnTime::now();
            let news = self.let_streams_go_on();
            if self.streams.len() == 0 || client.is_to_abort() {
                return Poll::Ready(());
            }
            if !news && !self.streams.has_queued() {
                return Poll::Pending;
            }
        }
    }
}

impl<N: WireName> StreamTable<N> {
    /// A request has arrived. Its handler runs when the stream is looked at. With an error it is
    /// refused. Returns its index.
    pub(crate) fn begin(
        &mut self,
        client: &Client,
        name: N,
        incoming: Incoming,
        time: TurnTime,
    ) -> usize {
        let (refusal, moved_to) = (incoming.refusal, incoming.moved_to);
        let awaits_continue =
            !incoming.end && refusal.is_none() && incoming.request.head.expect_continue;
        let arrival = arrival(client, incoming, time);
        let feed = arrival.client.feed();
        let handling = match refusal {
            None => stream::handle(arrival, moved_to),
            Some(error) => stream::refuse(arrival, moved_to, error.status()),
        };
        let stream = Stream {
            name: Some(name),
            generation: client.generation(),
            feed,
            awaits_continue,
            awaits_body: false,
            is_malformed: refusal.is_some_and(|error| error.is_malformed()),
            is_queued: false,
            moved_ms: time.now_ms,
            state: StreamState::Handling(handling),
        };
        self.insert(name, stream)
    }

    /// A piece of a request body. Returns whether its exchange is still there.
    pub(crate) fn take_data(&mut self, name: N, bytes: &[u8], end: bool, time: TurnTime) -> bool {
        let Some((_, found)) = self.find_mut(name) else {
            return false;
        };
        found.feed.count_framed(bytes.len() as u64);
        found.feed.push_copy(bytes);
        if end {
            found.feed.finish(Vec::new());
        }
        found.moved_ms = time.now_ms;
        true
    }

    /// The trailers of a request. Returns whether its exchange is still there.
    pub(crate) fn take_trailers<'f>(
        &mut self,
        name: N,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let fields = trailers
            .map(|(name, value)| (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)));
        match self.find_mut(name) {
            Some((_, found)) => {
                found.feed.finish(fields.collect());
                true
            }
            None => false,
        }
    }

    /// The request turns out to be malformed. What is sent of its response is followed by a reset.
    pub(crate) fn take_malformed(&mut self, name: N) {
        if let Some((index, found)) = self.find_mut(name) {
            found.is_malformed = true;
            found.feed.fail(BodyError::Malformed);
            self.queue(index);
        }
    }
}

fn arrival(client: &Client, incoming: Incoming, time: TurnTime) -> Arrival {
    let Request { mut text, mut head } = incoming.request;
    if head.extended_connect {
        add_websocket_key(&mut text, &mut head);
    }
    if incoming.end {
        head.framing = Framing::None;
    }
    Arrival {
        worker: client.worker.clone(),
        snapshot: client.snapshot.clone(),
        facts: client.facts.clone(),
        listener: client.listener,
        server: client.server,
        client: ClientLink::default(),
        buffer: text,
        head,
        since: time.now,
        early_data: incoming.early_data,
    }
}
