//! An HTTP/3 connection: its turns, and its end.

use super::framer::Http3Framer;
use super::intake::{Http3Intake, News};
use super::timeouts::Http3Timeouts;
use crate::client::Client;
use crate::client_link::BodyError;
use crate::facts::PeerAddress;
use crate::multiplexed::{Exchanges, TurnTime};
use crate::quic::{
    ConnectionIds, Handshake, OpenConnection, QuicClock, QuicSocket, Recorder, mark,
};
use sealane_conf::model::LogLevel;
use sealane_http::h3::{self, Code, ConnectionError};
use sealane_io::forwarding::ForwardedBatch;
use sealane_io::registry::Asked;
use sealane_io::runtime::{self, Sleep};
use sealane_quic::{Addresses, CloseReason, Connection, Direction, Event, Outbox, StreamId, Time};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Turns after which other connections of the thread run and the kernel is polled.
const TURNS: u32 = 4;
/// Datagrams that the transport makes at a time: what the kernel cuts from one message.
const BATCH_DATAGRAMS: usize = 44;

/// What a connection begins with.
pub(crate) struct Beginning {
    pub(crate) client: Client,
    pub(crate) transport: Connection,
    pub(crate) codec: h3::Connection,
    pub(crate) ids: ConnectionIds,
    pub(crate) socket: Rc<QuicSocket>,
    pub(crate) clock: QuicClock,
    /// Counts the connection while it lives.
    pub(crate) open: OpenConnection,
    /// Counts its handshake.
    pub(crate) handshake: Handshake,
    /// Records it, if that is wanted.
    pub(crate) recorder: Option<Box<Recorder>>,
}

/// An HTTP/3 connection while it lives.
pub(super) struct Http3Serving {
    pub(super) client: Client,
    /// The streams, the codec, and the transport.
    pub(super) exchanges: Exchanges<Http3Framer>,
    pub(super) timeouts: Http3Timeouts,
    pub(super) ids: ConnectionIds,
    socket: Rc<QuicSocket>,
    clock: QuicClock,
    arrived: ForwardedBatch,
    pub(super) news: News,
    /// How many streams of each direction the codec knows.
    opened: [u64; 2],
    /// Requests that may be open at a time.
    max_requests: u64,
    /// Where the client has proved to be, if not where its connection began.
    moved_to: Option<SocketAddr>,
    /// `http3_stream_buffer_size`.
    pub(super) buffer_bytes: u64,
    timer: Option<Pin<Box<Sleep>>>,
    /// The protocol above the transport is known: HTTP/3, or HTTP/0.9.
    is_agreed: bool,
    pub(super) is_open: bool,
    /// The handshake has failed, and the error log says why.
    pub(super) has_failed: bool,
    oldest_configuration: u64,
    /// The name that the client has sent, in lower case.
    pub(super) name: Box<str>,
    pub(super) handshake: Option<Handshake>,
    recorder: Option<Box<Recorder>>,
    _open: OpenConnection,
}

/// Serves a connection to its end.
pub(crate) async fn serve(beginning: Beginning) {
    let mut serving = Box::new(Http3Serving::new(beginning));
    serving.client.remember_task().await;
    serving.client.enter_opening();
    poll_fn(|cx| serving.poll(cx)).await;
    serving.exchanges.abandon();
    let Http3Serving {
        client, exchanges, ..
    } = &mut *serving;
    poll_fn(|cx| exchanges.poll_handlers(client, cx)).await;
    serving.record();
    serving.log_end();
    serving.count();
    if serving.handshake.is_some() {
        serving.client.count_failed_handshake();
        serving.client.worker.counters.quic.handshakes_failed.add(1);
    }
    serving.client.note_retirement();
    serving.client.debug(format_args!("close connection"));
}

impl Http3Serving {
    fn new(beginning: Beginning) -> Http3Serving {
        let Beginning {
            client,
            transport,
            mut codec,
            ids,
            socket,
            clock,
            open,
            handshake,
            recorder,
        } = beginning;
        // The client has learnt it before it named a server.
        let max_requests = client.server().conf.http3.max_concurrent_streams.into();
        codec.set_request_limit(max_requests);
        let buffer_bytes = client.server().conf.http3.stream_buffer_bytes.into();
        let now = clock.time(Instant::now());
        Http3Serving {
            timeouts: Http3Timeouts::new(&client),
            exchanges: Exchanges::new(Http3Framer::new(transport, codec, now)),
            client,
            ids,
            socket,
            clock,
            arrived: ForwardedBatch::default(),
            news: News::default(),
            opened: [0; 2],
            max_requests,
            moved_to: None,
            buffer_bytes,
            timer: None,
            is_agreed: false,
            is_open: false,
            has_failed: false,
            oldest_configuration: 0,
            name: Box::default(),
            handshake: Some(handshake),
            recorder,
            _open: open,
        }
    }

    pub(super) fn transport(&mut self) -> &mut Connection {
        &mut self.exchanges.wire.transport
    }

    pub(super) fn now(&self) -> Time {
        self.exchanges.wire.now
    }

    /// Lets the transport work, with this connection as its owner.
    pub(super) fn with_transport<R>(
        &mut self,
        work: impl FnOnce(&mut Connection, &mut Http3Intake<'_>) -> R,
    ) -> R {
        let exchanges = &mut self.exchanges;
        let wire = &mut exchanges.wire;
        if wire.transport.is_address_validated() {
            let remote = wire.transport.addresses().remote;
            let has_moved = self.client.facts.peer != PeerAddress::Inet(remote);
            self.moved_to = has_moved.then_some(remote);
        }
        let mut intake = Http3Intake {
            client: &mut self.client,
            ids: &mut self.ids,
            codec: &mut wire.codec,
            requests: &mut wire.requests,
            channels: &mut wire.channels,
            to_fill: &mut wire.to_fill,
            low_bytes: self.buffer_bytes / 2,
            streams: &mut exchanges.streams,
            opened: &mut self.opened,
            max_requests: self.max_requests,
            news: &mut self.news,
            is_agreed: &mut self.is_agreed,
            time: exchanges.time,
            is_early_data: !wire.transport.is_established(),
            moved_to: self.moved_to,
        };
        work(&mut wire.transport, &mut intake)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exchanges.woken.set_task(cx);
        for _ in 0..TURNS {
            self.exchanges.time = TurnTime::now();
            self.exchanges.wire.now = self.clock.time(self.exchanges.time.now);
            self.exchanges.wire.now_ms = self.exchanges.time.now_ms;
            if self.transport().is_closed() {
                return Poll::Ready(());
            }
            let has_news = self.turn(cx);
            if self.transport().is_closed() {
                return Poll::Ready(());
            }
            let is_due =
                has_news || self.poll_timer(cx).is_ready() || self.poll_deadline(cx).is_ready();
            if !is_due {
                return Poll::Pending;
            }
        }
        // Wakes the task after the runtime has looked for events.
        runtime::defer(cx.waker().clone());
        Poll::Pending
    }

    /// One turn. Returns whether another one may have something to do.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        self.obey();
        let mut news = self.receive(cx);
        self.go_on_with_handshake(cx);
        self.take_events();
        self.heed_news();
        news |= self.exchanges.let_streams_go_on();
        self.look_after_time();
        if self.is_agreed {
            self.exchanges.wire.write_channels();
        }
        loop {
            let wrote = self.fill(cx);
            let sent = self.send(cx);
            if sent && !wrote {
                self.transport().note_all_sent();
            }
            if !(wrote && sent) {
                break;
            }
        }
        news || self.exchanges.streams.has_queued()
    }

    /// Does what the connection was asked for.
    fn obey(&mut self) {
        if self.transport().is_ending() {
            return;
        }
        // A handshake chooses its server among those of the configuration that it has begun with.
        if self.is_open {
            let name = &self.name;
            self.client.renew(|| Some(name.to_string()));
        }
        match self.client.asked() {
            Asked::Nothing => {}
            Asked::Finish | Asked::Move => self.announce_end(),
            Asked::Abort => return self.close(Code::H3_NO_ERROR),
        }
        let oldest = self.client.oldest_configuration();
        if self.oldest_configuration < oldest {
            self.oldest_configuration = oldest;
            self.exchanges.retire_before(&self.client, oldest);
        }
    }

    /// Takes the datagrams that have come. Returns whether there were any.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        let inbox = self.ids.inbox().clone();
        let had = inbox.poll_take(cx, &mut arrived).is_ready();
        if had {
            let now = self.now();
            for datagram in arrived.datagrams_mut() {
                let addresses = Addresses {
                    local: datagram.local,
                    remote: datagram.peer,
                };
                let ecn = mark(datagram.ecn);
                self.with_transport(|transport, owner| {
                    transport.receive(now, addresses, ecn, datagram.bytes, owner);
                });
                self.record();
            }
        }
        self.arrived = arrived;
        had
    }

    /// What the transport tells of streams.
    fn take_events(&mut self) {
        while let Some(event) = self.transport().next_event() {
            let age = self.age();
            match event {
                Event::Opened { id } => {
                    self.with_transport(|_, owner| owner.note_opened(id));
                }
                Event::Readable { id } => self.read(id),
                Event::Reset { id, .. } => {
                    let told = self.exchanges.wire.codec.stream_reset(id.to_wire(), age);
                    self.lose(id, told);
                }
                Event::Stopped { id, .. } => {
                    let told = self.exchanges.wire.codec.sending_stopped(id.to_wire(), age);
                    self.lose(id, told);
                }
                Event::Acknowledged { id, up_to } => self.exchanges.wire.acknowledge(id, up_to),
                Event::Closed { id } => self.exchanges.wire.forget(id),
                Event::Available { .. } => {}
            }
        }
    }

    pub(super) fn age(&self) -> std::time::Duration {
        let accepted = self.client.facts.accepted;
        self.exchanges.time.now.saturating_duration_since(accepted)
    }

    fn read(&mut self, id: StreamId) {
        self.with_transport(|transport, owner| transport.read(id, owner));
    }

    /// The client has given up a stream: its exchange is told. Without a head there is none yet,
    /// and none comes.
    fn lose(&mut self, id: StreamId, told: Result<(), ConnectionError>) {
        if let Err(error) = told {
            self.news.error.get_or_insert(error);
        }
        if id.direction() == Direction::Unidirectional {
            return;
        }
        self.exchanges.wire.abort(id, Code::H3_REQUEST_CANCELLED);
        if let Some(name) = self.exchanges.wire.requests.find(id) {
            self.exchanges.lose(name, BodyError::ClientClosed);
        }
    }

    /// Does what came of the datagrams.
    fn heed_news(&mut self) {
        loop {
            let unblocked = std::mem::take(&mut self.news.unblocked);
            if unblocked.is_empty() {
                break;
            }
            for id in unblocked {
                self.read(id);
            }
        }
        let news = std::mem::take(&mut self.news);
        let now = self.now();
        for (id, bytes) in news.consumed {
            self.transport().consumed(id, bytes, now);
        }
        for (id, code) in news.aborted {
            self.exchanges.wire.abort(id, code);
            if let Some(name) = self.exchanges.wire.requests.find(id) {
                self.exchanges.lose(name, BodyError::Malformed);
            }
        }
        for (id, code) in news.unwanted {
            self.transport().stop_sending(id, code.0);
        }
        for (id, priority) in news.priorities {
            let (urgency, incremental) = (priority.urgency, priority.incremental);
            self.transport().set_priority(id, urgency, incremental);
        }
        if news.requests > 0 {
            self.count_requests(news.requests);
        }
        if let Some(error) = news.error {
            self.fail(error);
        }
    }

    fn count_requests(&mut self, requests: u32) {
        for _ in 0..requests {
            self.client.worker.counters.requests.add(1);
            self.client.facts.count_request();
        }
        self.client.begin_response();
        let age = self.age();
        let conf = self.client.default_conf();
        if self.client.facts.requests() >= conf.keepalive_requests
            || age > conf.keepalive_time
            || conf.keepalive_timeout.is_zero()
        {
            self.announce_end();
        }
    }

    /// Makes what the transport has to send; together with that of other connections it is sent at
    /// the end of the thread's turn. Returns false if the socket has no room.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.now();
        loop {
            if self.socket.is_full() && self.socket.poll_flush(cx).is_pending() {
                return false;
            }
            let socket = self.socket.clone();
            let sent = socket.build(|outbox: &mut Outbox| {
                self.with_transport(|transport, owner| {
                    transport.transmit(now, outbox, BATCH_DATAGRAMS, owner)
                })
            });
            self.record();
            if sent.is_none() {
                self.socket.flush_soon();
                return true;
            }
        }
    }

    /// Records what the transport has to tell (`quic_qlog`).
    fn record(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let transport = &mut self.exchanges.wire.transport;
            if !recorder.take(transport) {
                transport.end_trace();
                self.recorder = None;
            }
        }
    }

    /// Records which protocol was agreed on.
    pub(super) fn record_protocol(&mut self) {
        self.record(); // what came before it
        let now = self.now();
        if let Some(recorder) = &mut self.recorder
            && let Some(tls) = self.exchanges.wire.transport.server_tls()
            && let Some(protocol) = tls.alpn()
        {
            recorder.note_protocol(protocol, now);
        }
    }

    /// Waits for the transport's time-out, and for what else is to be looked after. Ready when one
    /// of them has passed.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock;
        let Some(at) = self.transport().timeout() else {
            self.timer = None;
            return Poll::Pending;
        };
        if at <= self.now() {
            let now = self.now();
            self.transport().on_timeout(now);
            return Poll::Ready(());
        }
        let at = clock.instant(at);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(runtime::sleep_until(at)));
        if timer.deadline() != at {
            timer.reset(at);
        }
        if timer.as_mut().poll(cx).is_ready() {
            let now = clock.time(Instant::now());
            self.exchanges.wire.now = now;
            self.transport().on_timeout(now);
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Announces that the connection ends, without losing a request (RFC 9114 section 5.2).
    pub(super) fn announce_end(&mut self) {
        if !self.is_open {
            return;
        }
        if self.timeouts.announce(self.exchanges.time) {
            let codec = &mut self.exchanges.wire.codec;
            match codec.is_hq() {
                // There is no way to say so: what comes from now on is refused.
                true => codec.drain(),
                false => codec.shut_down(),
            }
        }
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges.streams.len() == 0 && self.exchanges.wire.requests.is_empty()
    }

    /// Ends the connection in order.
    pub(super) fn close(&mut self, code: Code) {
        let now = self.now();
        self.transport().close(now, code.0);
    }

    fn fail(&mut self, error: ConnectionError) {
        self.client.log(
            LogLevel::Info,
            &format!("{error} while processing HTTP/3 connection"),
        );
        self.close(error.code);
    }

    /// Frees what a connection does not need between requests.
    pub(super) fn rest(&mut self) {
        self.client.enter_idle();
        self.exchanges.wire.requests.trim();
        self.arrived = ForwardedBatch::default();
        self.count();
    }

    fn count(&mut self) {
        let counted = self.exchanges.wire.codec.take_counters();
        self.client.worker.counters.http3.add(&counted);
        let counted = self.transport().take_counters();
        self.client.worker.counters.quic.add(&counted);
    }

    /// Says why the connection has ended, if that is of interest.
    fn log_end(&mut self) {
        if self.has_failed {
            return;
        }
        let Some(reason) = self.transport().close_reason() else {
            return;
        };
        let text = match reason {
            CloseReason::Application { .. } | CloseReason::TimedOut => return,
            // H3_NO_ERROR, and clients that say it with 0.
            CloseReason::PeerApplication {
                code: 0 | 0x100, ..
            } => return,
            reason => reason.to_string(),
        };
        let doing = match self.is_open {
            true => "while processing HTTP/3 connection",
            false => "while QUIC handshaking",
        };
        self.client.log(LogLevel::Info, &format!("{text} {doing}"));
    }
}
