//! What happens on the streams of a connection: requests come in, handlers go on,
//! responses begin and end.

use super::serving::{Serving, default_conf};
use super::stream::{self, State, Stream, StreamResponse};
use crate::body_source::Filled;
use crate::client_link::{BodyError, ClientLink, Demand};
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::framing;
use crate::prologue::Arrival;
use crate::response_head;
use bytes::Bytes;
use sealane_conf::model::LogLevel;
use sealane_http::h1::{ConnectionHeader, Framing};
use sealane_http::h2::{self, ErrorCode, Event, Fault, StreamRef};
use sealane_http::headers::HeaderList;
use sealane_http::{Method, StatusCode};
use std::task::{Context, Poll};

/// Bytes of a body that are asked of its source ahead of what windows allow.
const STREAM_BUFFER_BYTES: u64 = 64 << 10;

/// The window of a stream whose body is read, where `http2_body_preread_size` is less.
const READ_WINDOW_BYTES: u32 = 64 << 10;

/// No place.
const NOWHERE: u32 = u32::MAX;

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
                let status = error.status();
                connection.log(
                    LogLevel::Info,
                    &format!("{} while reading client request headers", error.reason()),
                );
                self.open(connection, stream, request, end, false, Some(status));
            }
            Event::Data { stream, bytes, end } => self.take_data(stream, bytes, end),
            Event::Trailers { stream, trailers } => {
                let fields = trailers.iter().map(|(name, value)| {
                    (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value))
                });
                match self.stream_mut(stream) {
                    Some(found) => found.feed.finish(fields.collect()),
                    None => self.forget_unwanted(stream),
                }
            }
            Event::Reset { stream, .. } => {
                self.forget_unwanted(stream);
                self.lose(stream, BodyError::ClientClosed);
            }
            Event::Fault { stream, fault, id } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{fault} in stream {id} while processing HTTP/2 connection"),
                );
                if let Some(stream) = stream {
                    self.forget_unwanted(stream);
                    self.lose(stream, BodyError::Malformed);
                }
            }
            Event::Settings => self.client_is_known = true,
            // The client may still be served on the streams it has; the rest is for the
            // other end of connections.
            Event::GoAway { .. } | Event::Pong | Event::Interim { .. } | Event::Response { .. } => {
            }
        }
    }

    fn take_data(&mut self, stream: StreamRef, bytes: &[u8], end: bool) {
        let now_ms = self.now_ms;
        let Some(found) = self.stream_mut(stream) else {
            // The window stays closed: of what nobody wants no more is asked for.
            if end {
                self.forget_unwanted(stream);
            }
            return;
        };
        found.feed.count_framed(bytes.len() as u64);
        found.feed.push_copy(bytes);
        if end {
            found.feed.finish(Vec::new());
        }
        found.moved_ms = now_ms;
    }

    /// The client has ended, or has lost, a stream whose body nobody wants.
    fn forget_unwanted(&mut self, stream: StreamRef) {
        self.unwanted.retain(|&(unwanted, _)| unwanted != stream);
    }

    /// A request has come: its handler begins at once. With a status it is refused.
    fn open(
        &mut self,
        connection: &mut Connection,
        reference: StreamRef,
        request: h2::Request,
        end: bool,
        awaits_continue: bool,
        refusal: Option<StatusCode>,
    ) {
        if self.live >= connection.server().http2.max_concurrent_streams as usize {
            // Handlers of streams that the client has reset are still at work.
            if let Err(fault) = self.codec.refuse(reference, &mut self.out) {
                log_fault(connection, fault);
            }
            return;
        }
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
        connection.begin_response();
        // `keepalive_timeout` begins anew behind it.
        self.look_soon();
        let conf = default_conf(connection);
        let age = self
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
            Some(status) => stream::refuse(arrival, status),
        };
        let place = self.take_place(reference);
        self.streams[place] = Some(Stream {
            reference: Some(reference),
            feed,
            awaits_continue,
            awaits_body: false,
            is_queued: false,
            moved_ms: self.now_ms,
            state: State::Handling(handling),
        });
        self.go_on(connection, place);
    }

    fn arrival(&self, connection: &Connection, request: h2::Request, end: bool) -> Arrival {
        let h2::Request { text, mut head } = request;
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
            since: self.now,
            early_data: connection.is_early_data(),
        }
    }

    fn take_place(&mut self, reference: StreamRef) -> usize {
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        if self.places.len() <= reference.slot() {
            self.places.resize(reference.slot() + 1, NOWHERE);
        }
        self.places[reference.slot()] = place as u32;
        self.live += 1;
        place
    }

    /// The place of a stream of the codec.
    pub(super) fn place_of(&self, reference: StreamRef) -> Option<usize> {
        let place = *self.places.get(reference.slot())? as usize;
        let stream = self.streams.get(place)?.as_ref()?;
        (stream.reference == Some(reference)).then_some(place)
    }

    fn stream_mut(&mut self, reference: StreamRef) -> Option<&mut Stream> {
        let place = self.place_of(reference)?;
        self.streams[place].as_mut()
    }

    /// The stream is gone in the codec. A handler hears of it and may finish what it does.
    fn lose(&mut self, reference: StreamRef, error: BodyError) {
        let Some(place) = self.place_of(reference) else {
            return;
        };
        let Some(stream) = &mut self.streams[place] else {
            return;
        };
        stream.reference = None;
        stream.feed.fail(error);
        stream.feed.set_gone();
        match stream.state {
            State::Handling(_) => self.look_again(place),
            State::Sending(_) => self.drop_stream(place),
        }
    }

    /// Has a stream looked at in this turn or the next one.
    pub(super) fn look_again(&mut self, place: usize) {
        if let Some(stream) = &mut self.streams[place]
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.again.push(place as u32);
        }
    }

    /// Lets a stream do what it can.
    pub(super) fn go_on(&mut self, connection: &mut Connection, place: usize) {
        let Some(stream) = self.streams.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        stream.is_queued = false;
        let waker = self.woken.waker(place);
        let mut cx = Context::from_waker(&waker);
        if let State::Handling(handling) = &mut stream.state {
            let done = handling.as_mut().poll(&mut cx);
            self.pass_between(place);
            let Poll::Ready(exchange) = done else {
                return;
            };
            if !self.begin_response(connection, place, exchange) {
                return;
            }
        }
        self.bring_body(place, &mut cx);
        self.pass_between(place);
    }

    /// What handler and client have for each other besides the response: interim
    /// responses, 100, and room for more of the body.
    fn pass_between(&mut self, place: usize) {
        let now_ms = self.now_ms;
        let Some(stream) = self.streams[place].as_mut() else {
            return;
        };
        let Some(reference) = stream.reference else {
            return;
        };
        while let Some(interim) = stream.feed.take_interim() {
            let fields = interim.headers.fields();
            // A head that was sent meanwhile leaves no room for it.
            let _ = self
                .codec
                .send_interim(reference, interim.status, fields, &mut self.out);
        }
        let awaits_body = stream.feed.demand() == Demand::Bytes;
        let mut look_within = None;
        if awaits_body && !stream.awaits_body {
            // `client_body_timeout` runs from here on.
            stream.moved_ms = now_ms;
            look_within = stream.feed.body_timeout();
            self.codec
                .widen(reference, READ_WINDOW_BYTES, &mut self.out);
        }
        stream.awaits_body = awaits_body;
        if stream.awaits_continue && stream.feed.has_begun() {
            stream.awaits_continue = false;
            if awaits_body {
                let none = std::iter::empty();
                let status = StatusCode::CONTINUE;
                let _ = self
                    .codec
                    .send_interim(reference, status, none, &mut self.out);
            }
        }
        let consumed = stream.feed.take_consumed();
        if consumed > 0 {
            // What is in memory fits a usize.
            self.codec
                .release(reference, consumed as usize, &mut self.out);
        }
        if let Some(timeout) = look_within {
            self.look_within(timeout);
        }
    }

    /// The handler is done: sends the head. False when that was all, or nobody is there.
    fn begin_response(
        &mut self,
        connection: &mut Connection,
        place: usize,
        mut exchange: Box<Exchange>,
    ) -> bool {
        let Some(stream) = self.streams[place].as_mut() else {
            return false;
        };
        if exchange.features.early_data.refused {
            connection.count_early_data_refused();
        }
        let Some(reference) = stream.reference else {
            stream.state = State::Sending(Box::new(StreamResponse::new(exchange)));
            self.drop_stream(place);
            return false;
        };
        if exchange.response.drop_connection {
            // As 444 ends a connection of HTTP/1, so it ends a stream.
            let code = match exchange.response.status {
                StatusCode::REQUEST_TIMEOUT => ErrorCode::CANCEL,
                _ => ErrorCode::INTERNAL_ERROR,
            };
            stream.state = State::Sending(Box::new(StreamResponse::new(exchange)));
            self.give_up(place, code);
            return false;
        }
        framing::leave_out_unwanted_source(&mut exchange);
        let is_head = exchange.request.head.method == Method::Head;
        let mut sending = Box::new(StreamResponse::new(exchange));
        if is_head {
            sending.trailers.clear();
        }
        self.look_within(sending.send_timeout);
        let before = self.out.len();
        let end = sending.is_empty();
        let (codec, out) = (&mut self.codec, &mut self.out);
        let sent =
            response_head::with_head(&sending.exchange, ConnectionHeader::Close, false, |head| {
                codec.send_response(reference, head, end, out)
            });
        sending.exchange.transfer.head_bytes = (self.out.len() - before) as u64;
        if let Some(stream) = self.streams[place].as_mut() {
            stream.moved_ms = self.now_ms;
            stream.state = State::Sending(sending);
        }
        if sent.is_err() {
            self.give_up(place, ErrorCode::INTERNAL_ERROR);
            return false;
        }
        if end {
            self.finish(place);
            return false;
        }
        self.codec.offer(reference);
        true
    }

    /// Asks the source of a response for more, as far as there is room.
    fn bring_body(&mut self, place: usize, cx: &mut Context<'_>) {
        let Some(stream) = self.streams[place].as_mut() else {
            return;
        };
        let (State::Sending(sending), Some(reference)) = (&mut stream.state, stream.reference)
        else {
            return;
        };
        if let Some(pause) = &mut sending.pause
            && pause.as_mut().poll(cx).is_ready()
        {
            sending.pause = None;
            self.codec.offer(reference);
        }
        while let Some(source) = &mut sending.source {
            let room = STREAM_BUFFER_BYTES.saturating_sub(sending.body.len());
            let filled = source.poll_fill(cx, &mut sending.exchange, &mut sending.body, room);
            match filled {
                Poll::Pending => return,
                Poll::Ready(Ok(filled)) => {
                    if sending.pause.is_none() {
                        self.codec.offer(reference);
                    }
                    if filled == Filled::End {
                        let trailers = source.take_trailers(&mut sending.exchange);
                        sending.trailers = merged(&sending.trailers, trailers);
                        if let Some(source) = sending.source.take() {
                            source.conclude(&mut sending.exchange, true);
                        }
                        // Neither the end nor trailers wait for a window.
                        if sending.body.is_empty() {
                            if sending.trailers.is_empty() {
                                let _ = self.codec.data(reference, 0, true, &mut self.out);
                            }
                            return self.finish(place);
                        }
                    }
                }
                Poll::Ready(Err(_)) => return self.give_up(place, ErrorCode::INTERNAL_ERROR),
            }
        }
    }

    /// All of a response but its trailers has been queued.
    pub(super) fn finish(&mut self, place: usize) {
        let Some(stream) = self.streams[place].as_mut() else {
            return;
        };
        let (State::Sending(sending), Some(reference)) = (&stream.state, stream.reference) else {
            return;
        };
        if !sending.trailers.is_empty() {
            // The stream is there and its head was sent.
            let fields = sending.trailers.fields();
            let _ = self.codec.send_trailers(reference, fields, &mut self.out);
        }
        if !self.codec.has_received_end(reference) {
            // Whatever the client still sends, nobody wants it.
            self.unwanted.push((reference, self.now_ms));
            self.look_soon();
        }
        self.conclude(place, true);
    }

    /// Ends a stream before its response is complete, and tells the client.
    pub(super) fn give_up(&mut self, place: usize, code: ErrorCode) {
        let reference = self.streams[place]
            .as_ref()
            .and_then(|stream| stream.reference);
        if let Some(reference) = reference {
            self.codec.reset(reference, code, &mut self.out);
        }
        self.drop_stream(place);
    }

    /// A stream ends before its response does.
    pub(super) fn drop_stream(&mut self, place: usize) {
        self.conclude(place, false);
    }

    fn conclude(&mut self, place: usize, completed: bool) {
        let Some(stream) = self.streams[place].take() else {
            return;
        };
        self.free.push(place as u32);
        self.live -= 1;
        if let State::Sending(sending) = stream.state {
            sending.conclude(completed);
        }
    }
}

/// Says why the connection ends.
pub(super) fn log_fault(connection: &Connection, fault: Fault) {
    connection.log(
        LogLevel::Info,
        &format!("{fault} while processing HTTP/2 connection"),
    );
}

/// Trailers of filters and of the source.
fn merged(ours: &HeaderList, theirs: HeaderList) -> HeaderList {
    if ours.is_empty() {
        return theirs;
    }
    let mut all = theirs;
    for (name, value) in ours.iter() {
        // It was checked when it was added to the first list.
        let _ = all.push(name, value);
    }
    all
}
