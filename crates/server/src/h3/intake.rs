//! What a connection's transport asks of its owner: bytes of streams come in, bytes go out, and
//! connection ids are made.

use super::framer::CHANNELS;
use super::names::{RequestSlots, StreamName};
use super::opening::note_tls;
use super::output::Output;
use crate::client::Client;
use crate::multiplexed::{Incoming, StreamTable, TurnTime};
use crate::quic::{ConnectionIds, HQ_PROTOCOL};
use crate::snapshot::ServerId;
use sealane_conf::model::LogLevel;
use sealane_http::h3::{self, Code, ConnectionError, Event, Priority};
use sealane_quic::{ConnectionId, Direction, IdSource, Owner, ResetToken, StreamId};
use sealane_tls::quic::ServerConnection;
use std::net::SocketAddr;
use std::time::Duration;

/// What is to be done once the transport has taken a datagram.
#[derive(Default)]
pub(super) struct News {
    /// Streams to give up in both directions.
    pub(super) aborted: Vec<(StreamId, Code)>,
    /// Streams of which no more is to come.
    pub(super) unwanted: Vec<(StreamId, Code)>,
    /// Bytes that nobody will read any more, by stream.
    pub(super) consumed: Vec<(StreamId, u64)>,
    /// Streams whose priority is known or has changed.
    pub(super) priorities: Vec<(StreamId, Priority)>,
    /// Streams that waited for the client's encoder, and have more to be read.
    pub(super) unblocked: Vec<StreamId>,
    /// Requests that came.
    pub(super) requests: u32,
    /// The connection has to end.
    pub(super) error: Option<ConnectionError>,
}

/// The owner of a connection while its transport works.
pub(super) struct Http3Intake<'a> {
    pub(super) client: &'a mut Client,
    pub(super) ids: &'a mut ConnectionIds,
    pub(super) codec: &'a mut h3::Connection,
    pub(super) requests: &'a mut RequestSlots,
    pub(super) channels: &'a mut [Option<(StreamId, Output)>; CHANNELS.len()],
    /// Requests whose bodies are to be read.
    pub(super) to_fill: &'a mut Vec<StreamName>,
    /// With less than this unsent, a stream is to get more.
    pub(super) low_bytes: u64,
    pub(super) streams: &'a mut StreamTable<StreamName>,
    /// How many streams of each direction the codec knows.
    pub(super) opened: &'a mut [u64; 2],
    /// Requests that may be open at a time.
    pub(super) max_requests: u64,
    pub(super) news: &'a mut News,
    /// The protocol above the transport is known.
    pub(super) is_agreed: &'a mut bool,
    pub(super) time: TurnTime,
    pub(super) is_early_data: bool,
    /// Where the client is, if it has moved.
    pub(super) moved_to: Option<SocketAddr>,
}

impl Http3Intake<'_> {
    fn age(&self) -> Duration {
        let accepted = self.client.facts.accepted;
        self.time.now.saturating_duration_since(accepted)
    }

    /// Tells the codec of a stream of the client, and of those with lower ids.
    pub(super) fn note_opened(&mut self, id: StreamId) {
        let direction = usize::from(id.direction() == Direction::Unidirectional);
        while self.opened[direction] <= id.index() && self.news.error.is_none() {
            let next = StreamId::new(id.initiator(), id.direction(), self.opened[direction]);
            self.opened[direction] += 1;
            if id.direction() == Direction::Bidirectional {
                let limit = self.opened[direction].saturating_add(self.max_requests);
                self.codec.set_request_limit(limit);
            }
            match self.codec.opened(next.to_wire(), self.age()) {
                Ok(None) => {}
                Ok(Some(refused)) => self.news.aborted.push((next, refused.code)),
                Err(error) => self.news.error = Some(error),
            }
        }
    }

    fn take_in(&mut self, event: Event<'_>, of: StreamId) -> u64 {
        match event {
            Event::Settings => {}
            Event::Request { id, request, end } => self.begin(of, id, request, end, None),
            Event::Refused {
                id,
                request,
                error,
                end,
            } => {
                self.client.log(
                    LogLevel::Info,
                    &format!("{} while reading client request headers", error.reason()),
                );
                self.begin(of, id, request, end, Some(error));
            }
            Event::Data { id, bytes, end } => {
                let id = StreamId::from_wire(id);
                if let Some(name) = self.requests.find(id)
                    && let Some(request) = self.requests.sending(name)
                    && self.streams.take_data(name, bytes, end, self.time)
                {
                    // Its handler makes room by reading.
                    request.unreleased += bytes.len() as u64;
                    return bytes.len() as u64;
                }
            }
            Event::Trailers { id, trailers } => {
                let id = StreamId::from_wire(id);
                if id != of {
                    // They have waited, and so has what is behind them.
                    self.news.unblocked.push(id);
                }
                if let Some(name) = self.requests.find(id) {
                    self.streams.take_trailers(name, trailers.iter());
                }
            }
            Event::Error { id, error } => {
                let stream = StreamId::from_wire(id);
                self.client.log(
                    LogLevel::Info,
                    &format!("{error} in stream {id} while processing HTTP/3 connection"),
                );
                self.news.aborted.push((stream, error.code));
            }
            Event::Malformed { id, error } => {
                let stream = StreamId::from_wire(id);
                self.client.log(
                    LogLevel::Info,
                    &format!("{error} in stream {id} while processing HTTP/3 connection"),
                );
                self.news.unwanted.push((stream, error.code));
                if let Some(name) = self.requests.find(stream) {
                    self.streams.take_malformed(name);
                }
            }
            Event::UnknownStream { id } => {
                let stream = StreamId::from_wire(id);
                self.news
                    .unwanted
                    .push((stream, Code::H3_STREAM_CREATION_ERROR));
            }
            Event::Priority { id, priority } => {
                self.news
                    .priorities
                    .push((StreamId::from_wire(id), priority));
            }
            // These concern the other end of connections.
            Event::GoAway { .. } | Event::Interim { .. } | Event::Response { .. } => {}
        }
        0
    }

    fn begin(
        &mut self,
        of: StreamId,
        id: u64,
        request: h3::Request,
        end: bool,
        refusal: Option<sealane_http::h1::RequestError>,
    ) {
        let id = StreamId::from_wire(id);
        if id != of {
            self.news.unblocked.push(id);
        }
        let name = self.requests.name(id);
        let incoming = Incoming {
            request,
            end,
            early_data: self.is_early_data,
            refusal,
            moved_to: self.moved_to,
        };
        let index = self.streams.begin(self.client, name, incoming, self.time);
        self.streams.queue(index);
        if let Some(priority) = self.codec.priority(id.to_wire()) {
            self.news.priorities.push((id, priority));
        }
        self.news.requests += 1;
    }
}

impl IdSource for Http3Intake<'_> {
    fn new_id(&mut self) -> (ConnectionId, ResetToken) {
        self.ids.make()
    }

    fn retire(&mut self, id: &ConnectionId) {
        self.ids.retire(id);
    }
}

impl Owner for Http3Intake<'_> {
    fn random(&mut self) -> u64 {
        self.ids.random()
    }

    fn negotiated(&mut self, tls: &ServerConnection) {
        *self.is_agreed = true;
        if tls.alpn() == Some(HQ_PROTOCOL) {
            self.codec.speak_hq();
        }
        self.client.server = ServerId(tls.selected_token());
        if tls.early_data_accepted() {
            note_tls(self.client, tls);
        }
    }

    fn receive(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> usize {
        self.note_opened(id);
        let mut at = 0;
        let mut kept = 0;
        while self.news.error.is_none() {
            let received = self
                .codec
                .receive(id.to_wire(), &bytes[at..], fin, self.age());
            match received {
                Ok(received) => {
                    at += received.consumed;
                    match received.event {
                        Some(event) => kept += self.take_in(event, id),
                        None => break,
                    }
                }
                Err(error) => self.news.error = Some(error),
            }
        }
        let unread = (at as u64).saturating_sub(kept);
        if unread > 0 {
            self.news.consumed.push((id, unread));
        }
        at
    }

    fn handshake_complete(&mut self) {
        self.is_early_data = false;
    }

    fn copy(&mut self, id: StreamId, offset: u64, len: usize, out: &mut Vec<u8>) {
        if let Some(name) = self.requests.find(id) {
            if let Some(sending) = self.requests.sending(name) {
                let sent = sending.output.sent();
                sending.output.copy(offset, len, out);
                if sending.output.sent() > sent {
                    sending.moved_ms = self.time.now_ms;
                }
                if !sending.is_over
                    && sending.output.unsent() < self.low_bytes
                    && !std::mem::replace(&mut sending.is_queued, true)
                {
                    self.to_fill.push(name);
                }
            }
            return;
        }
        for (known, output) in self.channels.iter_mut().flatten() {
            if *known == id {
                return output.copy(offset, len, out);
            }
        }
    }
}
