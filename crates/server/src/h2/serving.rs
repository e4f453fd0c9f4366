//! An HTTP/2 connection: its turns, and its end.

use super::stream::{self, Handling, Sending, State, Stream};
use super::wakers::Woken;
use crate::buffers;
use crate::chain::OutputChain;
use crate::client_link::{BodyError, ClientLink, Demand};
use crate::connection::{Connection, HEAD_READ_BYTES};
use crate::exchange::Exchange;
use crate::framing;
use crate::prologue::Arrival;
use crate::registry::Asked;
use crate::response_head;
use crate::transport::{Received, SendMode};
use bytes::Bytes;
use sealane_conf::model::{LocationConf, LogLevel};
use sealane_http::h1::{ConnectionHeader, Framing};
use sealane_http::h2::{self, ErrorCode, Event, StreamRef};
use sealane_http::headers::HeaderList;
use sealane_http::{Method, StatusCode};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

/// Turns after which other connections of the thread get theirs.
const TURNS: u32 = 8;
/// Received bytes that one turn looks at: what a client may have the thread do at a time.
const TURN_BYTES: usize = 64 << 10;
/// Bytes asked for at a time once a client is uploading.
const BULK_READ_BYTES: usize = 32 << 10;
/// Bytes of a body that are asked of its source ahead of what windows allow.
const STREAM_BUFFER_BYTES: u64 = 64 << 10;

/// An HTTP/2 connection while it lives.
pub(super) struct Serving {
    pub(super) codec: h2::Connection,
    /// Streams by place; places are used again.
    pub(super) streams: Vec<Option<Stream>>,
    free: Vec<u32>,
    live: usize,
    /// The place of each stream of the codec, by its slot.
    places: Vec<u32>,
    woken: Woken,
    /// Places of streams that are to be looked at in this turn.
    pub(super) again: Vec<u32>,
    /// What is to be sent: first the chain, then the bytes.
    pub(super) chain: OutputChain,
    pub(super) out: Vec<u8>,
    /// When the client stopped taking bytes.
    pub(super) stalled_ms: Option<u64>,
    pub(super) deadline_is_for_idle: Option<bool>,
    /// The time of this turn.
    pub(super) now: Instant,
    pub(super) now_ms: u64,
    /// The client has finished sending.
    input_ended: bool,
    /// The last read was a large one.
    bulk: bool,
}

/// No place.
const NOWHERE: u32 = u32::MAX;

/// How a connection ends.
enum End {
    /// In order: what is queued has left.
    Done,
    /// It broke, or is to be closed at once.
    Broken,
}

/// Serves a connection that speaks HTTP/2 to its end.
pub(crate) async fn serve(connection: &mut Connection) {
    let mut serving = Serving::new(connection);
    let end = poll_fn(|cx| serving.poll(connection, cx)).await;
    serving.abandon();
    serving.count(connection);
    if matches!(end, End::Done) {
        connection.linger().await;
    }
}

impl Serving {
    fn new(connection: &Connection) -> Serving {
        let mut out = buffers::small();
        let now = connection.facts.accepted.elapsed();
        let settings = connection.server().http2.clone();
        Serving {
            codec: h2::Connection::server(settings, now, &mut out),
            streams: Vec::new(),
            free: Vec::new(),
            live: 0,
            places: Vec::new(),
            woken: Woken::default(),
            again: Vec::new(),
            chain: OutputChain::new(),
            out,
            stalled_ms: None,
            deadline_is_for_idle: None,
            now: Instant::now(),
            now_ms: 0,
            input_ended: false,
            bulk: false,
        }
    }

    /// Settings that hold for the connection as a whole.
    pub(super) fn default_conf<'c>(&self, connection: &'c Connection) -> &'c LocationConf {
        let location = connection.server().default_location;
        &connection.worker.snapshot.location(location).conf
    }

    fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<End> {
        self.woken.set_task(cx);
        for _ in 0..TURNS {
            self.now = Instant::now();
            self.now_ms = sealane_sys::time::monotonic_coarse_ms();
            match self.turn(connection, cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One turn. Returns whether another one may find something to do.
    fn turn(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        match connection.asked() {
            Asked::Nothing => {}
            Asked::Finish if self.is_idle() => self.codec.shut_down_now(&mut self.out),
            Asked::Finish => self.codec.shut_down(&mut self.out),
            Asked::Abort => return Err(End::Broken),
        }
        let mut news = self.receive(connection, cx)?;
        news |= self.let_streams_go_on(connection);
        self.fill();
        news |= !self.again.is_empty();
        let flushed = self.flush(connection, cx)?;
        if self.codec.is_finished() || (self.input_ended && self.is_idle()) {
            return match flushed {
                true => Err(End::Done),
                false => Ok(self.wait(connection, cx)?),
            };
        }
        if news || (flushed && self.has_more_to_send()) {
            return Ok(true);
        }
        self.wait(connection, cx)
    }

    /// Nothing can be done now: sets the clock, and gives back what an idle connection
    /// does not need.
    fn wait(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.is_idle() && self.out.is_empty() && self.chain.is_empty() {
            self.rest(connection);
        }
        self.set_deadline(connection);
        if connection.poll_expired(cx).is_pending() {
            return Ok(false);
        }
        self.deadline_is_for_idle = None;
        if self.is_idle() {
            self.codec.shut_down_now(&mut self.out);
            return Ok(true);
        }
        match self.check_times(connection) {
            true => Ok(true),
            false => Err(End::Broken),
        }
    }

    /// Whether no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        self.live == 0
    }

    fn has_more_to_send(&mut self) -> bool {
        self.codec.next_data().is_some()
    }

    /// Between requests a connection costs next to nothing.
    fn rest(&mut self, connection: &mut Connection) {
        connection.enter_idle();
        if connection.buffer.is_empty() {
            buffers::release(&mut connection.buffer);
        }
        buffers::release(&mut self.out);
        connection.transport.release_buffers();
        if self.streams.capacity() > 0 {
            self.codec.trim();
            self.streams = Vec::new();
            self.free = Vec::new();
            self.places = Vec::new();
            self.again = Vec::new();
            self.woken.trim();
        }
        self.count(connection);
    }

    /// Reads what has come. Returns whether there may be more.
    fn receive(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut budget = TURN_BYTES;
        loop {
            if !connection.buffer.is_empty() {
                self.read_frames(connection)?;
            }
            if self.input_ended {
                return Ok(false);
            }
            if budget == 0 {
                return Ok(true);
            }
            if connection.buffer.capacity() == 0 {
                connection.buffer = buffers::small();
            }
            let max = if self.bulk {
                BULK_READ_BYTES
            } else {
                HEAD_READ_BYTES
            };
            let received = connection
                .transport
                .poll_receive(cx, &mut connection.buffer, max);
            match received {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(Received::Bytes(count))) => {
                    self.bulk = count == max;
                    budget = budget.saturating_sub(count);
                }
                Poll::Ready(Ok(Received::End)) => self.end_input(),
                Poll::Ready(Err(error)) => {
                    connection.log_broken(&error, "while processing HTTP/2 connection");
                    return Err(End::Broken);
                }
            }
        }
    }

    /// The client has closed its side: what is being uploaded will not be complete.
    fn end_input(&mut self) {
        self.input_ended = true;
        for stream in self.streams.iter().flatten() {
            stream.feed.set_gone();
        }
    }

    fn read_frames(&mut self, connection: &mut Connection) -> Result<(), End> {
        let mut input = std::mem::take(&mut connection.buffer);
        let mut at = 0;
        let now = self
            .now
            .saturating_duration_since(connection.facts.accepted);
        let result = loop {
            match self.codec.receive(&input[at..], now, &mut self.out) {
                Ok(received) => {
                    at += received.consumed;
                    match received.event {
                        Some(event) => self.take_in(connection, event),
                        None => break Ok(()),
                    }
                }
                Err(fault) => {
                    connection.log(
                        LogLevel::Info,
                        &format!("{fault} while processing HTTP/2 connection"),
                    );
                    at = input.len();
                    break Ok(()); // GOAWAY is queued; the codec is finished
                }
            }
        };
        if at == input.len() {
            input.clear();
        } else {
            input.drain(..at);
        }
        connection.buffer = input;
        result
    }

    fn take_in(&mut self, connection: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request {
                stream,
                request,
                end,
            } => {
                let awaits_continue = request.head.expect_continue;
                let arrival = self.arrival(connection, request, end);
                let link = arrival.client.clone();
                let handling = stream::handle(arrival);
                self.open(connection, stream, handling, &link, !end && awaits_continue);
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
                let arrival = self.arrival(connection, request, end);
                let link = arrival.client.clone();
                let handling = stream::refuse(arrival, status);
                self.open(connection, stream, handling, &link, false);
            }
            Event::Data { stream, bytes, end } => {
                let Some(found) = self.stream_mut(stream) else {
                    return self.codec.release(stream, bytes.len(), &mut self.out);
                };
                found.feed.push(Bytes::copy_from_slice(bytes));
                if end {
                    found.feed.finish(Vec::new());
                }
                self.touch(stream);
            }
            Event::Trailers { stream, trailers } => {
                let fields = trailers.iter().map(|(name, value)| {
                    (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value))
                });
                let fields = fields.collect();
                if let Some(found) = self.stream_mut(stream) {
                    found.feed.finish(fields);
                }
            }
            Event::Reset { stream, .. } => self.lose(stream, BodyError::ClientClosed),
            Event::Fault { stream, fault, id } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{fault} in stream {id} while processing HTTP/2 connection"),
                );
                if let Some(stream) = stream {
                    self.lose(stream, BodyError::Malformed);
                }
            }
            Event::GoAway { .. }
            | Event::Settings
            | Event::Pong
            | Event::Interim { .. }
            | Event::Response { .. } => {}
        }
    }

    fn arrival(&self, connection: &Connection, request: h2::Request, end: bool) -> Arrival {
        let h2::Request { text, mut head } = request;
        if end {
            head.framing = Framing::None;
        }
        Arrival {
            worker: connection.worker.clone(),
            facts: connection.facts.clone(),
            server: connection.server,
            client: ClientLink::default(),
            buffer: text,
            head,
            since: self.now,
            early_data: connection.is_early_data(),
        }
    }

    /// A request has come: its handler begins at once.
    fn open(
        &mut self,
        connection: &mut Connection,
        reference: StreamRef,
        handling: Handling,
        link: &ClientLink,
        awaits_continue: bool,
    ) {
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
        connection.begin_response();
        if connection.facts.requests() >= self.default_conf(connection).keepalive_requests
            || self
                .now
                .saturating_duration_since(connection.facts.accepted)
                > self.default_conf(connection).keepalive_time
        {
            self.codec.shut_down(&mut self.out);
        }
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
        self.streams[place] = Some(Stream {
            reference: Some(reference),
            feed: link.feed(),
            awaits_continue,
            moved_ms: self.now_ms,
            state: State::Handling(handling),
        });
        self.live += 1;
        self.go_on(connection, place);
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

    /// Something has come for the stream.
    fn touch(&mut self, reference: StreamRef) {
        let now_ms = self.now_ms;
        if let Some(stream) = self.stream_mut(reference) {
            stream.moved_ms = now_ms;
        }
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
            State::Handling(_) => self.again.push(place as u32),
            State::Sending(_) => self.drop_stream(place),
        }
    }

    fn let_streams_go_on(&mut self, connection: &mut Connection) -> bool {
        let mut places = std::mem::take(&mut self.again);
        for at in 0..places.len() {
            self.go_on(connection, places[at] as usize);
        }
        let had = !places.is_empty();
        places.clear();
        self.woken.take(&mut places);
        for at in 0..places.len() {
            self.go_on(connection, places[at] as usize);
        }
        let had = had || !places.is_empty();
        places.clear();
        if self.again.is_empty() {
            self.again = places;
        }
        had
    }

    /// Lets a stream do what it can.
    fn go_on(&mut self, connection: &mut Connection, place: usize) {
        let waker = self.woken.waker(place);
        let mut cx = Context::from_waker(&waker);
        let Some(stream) = self.streams.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
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
        let Some(stream) = self.streams[place].as_mut() else {
            return;
        };
        let Some(reference) = stream.reference else {
            return;
        };
        while let Some(interim) = stream.feed.take_interim() {
            let fields = interim.headers.iter();
            // A head that was sent meanwhile leaves no room for it.
            let _ = self
                .codec
                .send_interim(reference, interim.status, fields, &mut self.out);
        }
        if stream.awaits_continue && stream.feed.has_begun() {
            stream.awaits_continue = false;
            let wanted = stream.feed.demand() == Demand::Bytes;
            if wanted {
                let none = std::iter::empty();
                let _ =
                    self.codec
                        .send_interim(reference, StatusCode::CONTINUE, none, &mut self.out);
            }
        }
        let consumed = stream.feed.take_consumed();
        if consumed > 0 {
            // What is in memory fits a usize.
            self.codec
                .release(reference, consumed as usize, &mut self.out);
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
        if exchange.progress.refused_early {
            connection.count_early_data_refused();
        }
        let Some(reference) = stream.reference else {
            Box::new(Sending::new(exchange)).conclude(false);
            self.free_place(place);
            return false;
        };
        if exchange.response.drop_connection {
            Box::new(Sending::new(exchange)).conclude(false);
            self.codec
                .reset(reference, ErrorCode::INTERNAL_ERROR, &mut self.out);
            self.free_place(place);
            return false;
        }
        framing::leave_out_unwanted_source(&mut exchange);
        let is_head = exchange.request.head.method == Method::Head;
        let mut sending = Box::new(Sending::new(exchange));
        if is_head {
            sending.trailers.clear();
        }
        let before = self.out.len();
        let end = sending.is_empty();
        let (codec, out) = (&mut self.codec, &mut self.out);
        let sent =
            response_head::with_head(&sending.exchange, ConnectionHeader::Close, false, |head| {
                codec.send_response(reference, head, end, out)
            });
        sending.exchange.progress.head_bytes = (self.out.len() - before) as u64;
        stream.moved_ms = self.now_ms;
        stream.state = State::Sending(sending);
        if sent.is_err() {
            self.drop_stream(place);
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
        let State::Sending(sending) = &mut stream.state else {
            return;
        };
        let Some(reference) = stream.reference else {
            return;
        };
        if let Some(pause) = &mut sending.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return;
            }
            sending.pause = None;
            self.codec.offer(reference);
        }
        while let Some(source) = &mut sending.source {
            let room = STREAM_BUFFER_BYTES.saturating_sub(sending.body.len());
            let filled = source.poll_fill(cx, &mut sending.exchange, &mut sending.body, room);
            match filled {
                Poll::Pending => return,
                Poll::Ready(Ok(filled)) => {
                    self.codec.offer(reference);
                    if filled == crate::body_source::Filled::End {
                        sending.trailers = merged(&sending.trailers, source.take_trailers());
                        if let Some(source) = sending.source.take() {
                            source.conclude(&mut sending.exchange, true);
                        }
                    }
                }
                Poll::Ready(Err(_)) => {
                    self.codec
                        .reset(reference, ErrorCode::INTERNAL_ERROR, &mut self.out);
                    return self.drop_stream(place);
                }
            }
        }
    }

    /// All of a response but its trailers has been queued.
    pub(super) fn finish(&mut self, place: usize) {
        let Some(stream) = self.streams[place].as_mut() else {
            return;
        };
        let Some(reference) = stream.reference else {
            return;
        };
        let trailers = match &stream.state {
            State::Sending(sending) => &sending.trailers,
            State::Handling(_) => return,
        };
        if !trailers.is_empty() {
            // The stream is there and its head was sent.
            let _ = self
                .codec
                .send_trailers(reference, trailers.iter(), &mut self.out);
        }
        if !self.codec.has_received_end(reference) {
            // Whatever the client still sends, nobody wants it (RFC 9113 section 8.1).
            self.codec
                .reset(reference, ErrorCode::NO_ERROR, &mut self.out);
        }
        let Some(stream) = self.free_place(place) else {
            return;
        };
        if let State::Sending(sending) = stream.state {
            sending.conclude(true);
        }
    }

    /// A stream ends before its response does.
    pub(super) fn drop_stream(&mut self, place: usize) {
        if let Some(stream) = self.free_place(place)
            && let State::Sending(sending) = stream.state
        {
            sending.conclude(false);
        }
    }

    fn free_place(&mut self, place: usize) -> Option<Stream> {
        let stream = self.streams[place].take()?;
        self.free.push(place as u32);
        self.live -= 1;
        Some(stream)
    }

    /// Sends what is queued. Returns whether all of it has left.
    fn flush(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.out.is_empty() && self.chain.is_empty() {
            return Ok(true);
        }
        let mut mode = SendMode {
            // Frames are too small for a call each: they are read in batches.
            sendfile: false,
            max_bytes: u64::MAX,
            last: false,
        };
        let mut sent = 0;
        let mut none = Vec::new();
        let head = match self.chain.is_empty() {
            true => &mut self.out,
            false => {
                self.chain.push_bytes(std::mem::take(&mut self.out));
                &mut none
            }
        };
        let sending =
            connection
                .transport
                .poll_send(cx, head, &mut self.chain, &mut mode, &mut sent);
        if sent > 0 {
            self.stalled_ms = None;
        }
        match sending {
            Poll::Ready(Ok(())) => {
                self.stalled_ms = None;
                self.codec.flushed();
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                connection.log_broken(&error, "while sending response to client");
                Err(End::Broken)
            }
            Poll::Pending => {
                self.stalled_ms.get_or_insert(self.now_ms);
                Ok(false)
            }
        }
    }

    /// The connection is over; what was under way is not completed.
    fn abandon(&mut self) {
        for place in 0..self.streams.len() {
            self.drop_stream(place);
        }
    }

    /// What the codec counted goes into the thread's counters.
    fn count(&mut self, connection: &Connection) {
        connection
            .worker
            .counters
            .http2
            .add(&self.codec.take_counters());
    }
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
