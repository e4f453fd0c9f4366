//! What happens on the streams of a connection: requests arrive, handlers run, responses begin
//! and end.

use super::serving::{Serving, default_conf};
use super::stream::{self, FollowUp, Stream, StreamResponse, StreamState};
use crate::client_link::{BodyError, ClientLink};
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::framing;
use crate::prologue::Arrival;
use crate::proxying::add_websocket_key;
use bytes::Bytes;
use sealane_conf::model::LogLevel;
use sealane_http::h1::{Framing, RequestError};
use sealane_http::h2::{self, ErrorCode, Event, Fault, StreamRef};
use sealane_http::{Method, StatusCode};
use std::task::{Context, Poll};

impl Serving {
    pub(super) fn take_in(&mut self, connection: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request {
                stream,
                request,
                end,
            } => {
                let awaits_continue = !end && request.head.expect_continue;
                self.open(connection, stream, request, end, awaits_continue, None);
            }
            Event::Refused {
                stream,
                request,
                error,
                end,
            } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{} while reading client request headers", error.reason()),
                );
                self.open(connection, stream, request, end, false, Some(error));
            }
            Event::Data { stream, bytes, end } => self.take_data(stream, bytes, end),
            Event::Trailers { stream, trailers } => {
                let fields = trailers.iter().map(|(name, value)| {
                    (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value))
                });
                match self.streams.find_mut(stream) {
                    Some((_, found)) => found.feed.finish(fields.collect()),
                    None => self.unread.forget(stream),
                }
            }
            Event::Reset { stream, .. } => {
                self.unread.forget(stream);
                self.lose(stream, BodyError::ClientClosed);
            }
            Event::Malformed { stream, fault } => {
                connection.log(
                    LogLevel::Info,
                    &format!(
                        "{fault} in stream {} while processing HTTP/2 connection",
                        stream.id()
                    ),
                );
                if let Some((index, found)) = self.streams.find_mut(stream) {
                    found.is_malformed = true;
                    found.feed.fail(BodyError::Malformed);
                    self.streams.queue(index);
                }
            }
            Event::Fault { stream, fault, id } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{fault} in stream {id} while processing HTTP/2 connection"),
                );
                if let Some(stream) = stream {
                    self.unread.forget(stream);
                    self.lose(stream, BodyError::Malformed);
                }
            }
            Event::Settings => self.input.has_begun = true,
            // The client is still served on its streams; the rest concerns the other end of
            // connections.
            Event::GoAway { .. } | Event::Pong | Event::Interim { .. } | Event::Response { .. } => {
            }
        }
    }

    fn take_data(&mut self, stream: StreamRef, bytes: &[u8], end: bool) {
        let Some((_, found)) = self.streams.find_mut(stream) else {
            // The window stays closed: a body that is not read is not asked for.
            if end {
                self.unread.forget(stream);
            }
            return;
        };
        found.feed.count_framed(bytes.len() as u64);
        found.feed.push_copy(bytes);
        if end {
            found.feed.finish(Vec::new());
        }
        found.moved_ms = self.time.now_ms;
    }

    /// A request has arrived: its handler begins at once. With an error it is refused.
    fn open(
        &mut self,
        connection: &mut Connection,
        reference: StreamRef,
        request: h2::Request,
        end: bool,
        awaits_continue: bool,
        refusal: Option<RequestError>,
    ) {
        if self.streams.len() >= connection.server().http2.max_concurrent_streams as usize {
            // Handlers of streams that the client has reset are still at work.
            if let Err(fault) = self.framer.refuse(reference) {
                log_fault(connection, fault);
            }
            return;
        }
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
        connection.begin_response();
        // Some clients never send SETTINGS. What they are waited for is the next request.
        self.input.has_begun = true;
        // `keepalive_timeout` begins anew behind it.
        self.timeouts.renew();
        let conf = default_conf(connection);
        let age = self
            .time
            .now
            .saturating_duration_since(connection.facts.accepted);
        if connection.facts.requests() >= conf.keepalive_requests
            || age > conf.keepalive_time
            || connection.transport.should_end()
        {
            self.announce_end();
        }
        let arrival = self.arrival(connection, request, end);
        let feed = arrival.client.feed();
        let handling = match refusal {
            None => stream::handle(arrival),
            Some(error) => stream::refuse(arrival, error.status()),
        };
        let stream = Stream {
            reference: Some(reference),
            generation: connection.generation(),
            feed,
            awaits_continue,
            awaits_body: false,
            is_malformed: refusal.is_some_and(|error| error.is_malformed()),
            is_queued: false,
            moved_ms: self.time.now_ms,
            state: StreamState::Handling(handling),
        };
        let index = self.streams.insert(reference, stream);
        self.go_on(connection, index);
    }

    fn arrival(&self, connection: &Connection, request: h2::Request, end: bool) -> Arrival {
        let h2::Request { mut text, mut head } = request;
        if head.extended_connect {
            add_websocket_key(&mut text, &mut head);
        }
        if end {
            head.framing = Framing::None;
        }
        Arrival {
            worker: connection.worker.clone(),
            snapshot: connection.snapshot.clone(),
            facts: connection.facts.clone(),
            listener: connection.listener,
            server: connection.server,
            client: ClientLink::default(),
            buffer: text,
            head,
            since: self.time.now,
            early_data: connection.is_early_data(),
        }
    }

    /// The codec has dropped the stream. A handler is told and may finish what it does.
    fn lose(&mut self, reference: StreamRef, error: BodyError) {
        let Some((index, stream)) = self.streams.find_mut(reference) else {
            return;
        };
        stream.reference = None;
        stream.feed.fail(error);
        stream.feed.set_gone();
        match stream.state {
            StreamState::Handling(_) => self.streams.queue(index),
            StreamState::Sending(_) => self.conclude(index, false),
        }
    }

    /// Ends the streams whose configuration is older than this one, and tells the client.
    pub(super) fn retire_before(&mut self, connection: &Connection, oldest: u64) {
        let mut ended = 0;
        for index in self.streams.indices() {
            let stream = self.streams.get(index);
            let old = stream.filter(|stream| stream.generation < oldest);
            let Some(reference) = old.and_then(|stream| stream.reference) else {
                continue;
            };
            self.framer.reset(reference, ErrorCode::CANCEL);
            self.lose(reference, BodyError::ClientClosed);
            ended += 1;
        }
        if ended > 0 {
            connection.log(
                LogLevel::Info,
                &format!(
                    "worker_shutdown_timeout has passed since the configuration was replaced, \
                     closing {ended} streams"
                ),
            );
        }
    }

    /// Lets a stream do what it can.
    pub(super) fn go_on(&mut self, connection: &mut Connection, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        stream.is_queued = false;
        let waker = self.woken.waker(index);
        let mut cx = Context::from_waker(&waker);
        if let StreamState::Handling(handling) = &mut stream.state {
            let done = handling.as_mut().poll(&mut cx);
            stream.pass_between(&mut self.framer, &mut self.timeouts, self.time);
            let Poll::Ready(exchange) = done else {
                return;
            };
            if !self.begin_response(connection, index, exchange) {
                return;
            }
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return;
        };
        let follow_up = stream.pull_body(&mut self.framer, &mut cx);
        self.follow_up(index, follow_up);
        if let Some(stream) = self.streams.get_mut(index) {
            stream.pass_between(&mut self.framer, &mut self.timeouts, self.time);
        }
    }

    /// Does what a stream needs after it has done what it could.
    pub(super) fn follow_up(&mut self, index: usize, follow_up: FollowUp) {
        match follow_up {
            FollowUp::None => {}
            FollowUp::LookAgain => self.streams.queue(index),
            FollowUp::Finish => self.finish(index),
            FollowUp::Reset(code) => self.reset_behind(index, code),
        }
    }

    /// The handler is done: sends the head. False when nothing follows it, or the stream is gone.
    fn begin_response(
        &mut self,
        connection: &mut Connection,
        index: usize,
        mut exchange: Box<Exchange>,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(index) else {
            return false;
        };
        if exchange.features.early_data.refused {
            connection.count_early_data_refused();
        }
        let Some(reference) = stream.reference else {
            stream.state = StreamState::Sending(Box::new(StreamResponse::new(exchange)));
            self.conclude(index, false);
            return false;
        };
        if exchange.response.drop_connection {
            // As 444 ends a connection of HTTP/1, so it ends a stream.
            let code = match exchange.response.status {
                StatusCode::REQUEST_TIMEOUT => ErrorCode::CANCEL,
                _ => ErrorCode::INTERNAL_ERROR,
            };
            stream.state = StreamState::Sending(Box::new(StreamResponse::new(exchange)));
            self.give_up(index, code);
            return false;
        }
        framing::leave_out_unwanted_source(&mut exchange);
        let is_head = exchange.request.head.method == Method::Head;
        let mut sending = Box::new(StreamResponse::new(exchange));
        if stream.is_malformed {
            sending.reset_behind = Some(ErrorCode::PROTOCOL_ERROR);
        }
        if is_head || stream.is_malformed {
            sending.trailers.clear();
        }
        self.timeouts.look_within(sending.send_timeout);
        let is_all = sending.is_empty();
        let end = is_all && !stream.is_malformed;
        let sent = self.framer.send_head(reference, &mut sending.exchange, end);
        stream.moved_ms = self.time.now_ms;
        stream.state = StreamState::Sending(sending);
        if sent.is_err() {
            self.give_up(index, ErrorCode::INTERNAL_ERROR);
            return false;
        }
        if end {
            self.finish(index);
            return false;
        }
        if is_all {
            self.reset_behind(index, ErrorCode::PROTOCOL_ERROR);
            return false;
        }
        self.framer.codec.offer(reference);
        true
    }

    /// All of a response but its trailers has been queued.
    fn finish(&mut self, index: usize) {
        let Some(stream) = self.streams.get(index) else {
            return;
        };
        let (StreamState::Sending(sending), Some(reference)) = (&stream.state, stream.reference)
        else {
            return;
        };
        if !sending.trailers.is_empty() {
            self.framer.send_trailers(reference, &sending.trailers);
        }
        if !self.framer.codec.has_received_end(reference) {
            self.unread.add(reference, self.time);
            self.timeouts.renew();
        }
        self.conclude(index, true);
    }

    /// Resets a stream behind all that is sent of its response: which is all that there is, if the
    /// request was malformed.
    fn reset_behind(&mut self, index: usize, code: ErrorCode) {
        let stream = self.streams.get(index);
        let completed = stream.is_some_and(|stream| stream.is_malformed);
        if let Some(reference) = stream.and_then(|stream| stream.reference) {
            self.framer.reset(reference, code);
        }
        self.conclude(index, completed);
    }

    /// Ends a stream before its response is complete, and tells the client.
    pub(super) fn give_up(&mut self, index: usize, code: ErrorCode) {
        let stream = self.streams.get(index);
        if let Some(reference) = stream.and_then(|stream| stream.reference) {
            self.framer.reset(reference, code);
        }
        self.conclude(index, false);
    }

    /// Removes a stream. Its response, if there is one, goes into the log.
    pub(super) fn conclude(&mut self, index: usize, completed: bool) {
        let stream = self.streams.remove(index);
        if let Some(StreamState::Sending(sending)) = stream.map(|stream| stream.state) {
            sending.conclude(completed);
        }
    }
}

/// Logs why the connection ends.
pub(super) fn log_fault(connection: &Connection, fault: Fault) {
    connection.log(
        LogLevel::Info,
        &format!("{fault} while processing HTTP/2 connection"),
    );
}
