//! The life of a connection, from accept to close.
//!
//! ```text
//! accept -> TLS handshake -> [ request head -> exchange -> response ]* -> close
//! ```
//!
//! There is one task per connection. While it waits for a request it owns no buffers, and the
//! state of an exchange is in a box that is dropped with the response, so thousands of idle
//! connections stay cheap.

mod handshake;
mod moving;
mod session;
#[cfg(test)]
pub(crate) mod tests;

use self::moving::PendingMove;
pub(crate) use self::moving::adopt;
pub(crate) use self::session::unless_aborted;
use crate::acceptor::ListenerRef;
use crate::client_link::ClientLink;
use crate::debug_log;
use crate::exchange_task::{self, After};
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::h2;
use crate::handover::KeepAlive;
use crate::mail;
use crate::proxy_protocol::{self, HeaderRead};
use crate::proxying::ClosesBound;
use crate::snapshot::{ListenerId, ServerId, ServerRuntime, Snapshot};
use crate::stream;
use crate::transport::{ClientEndpoint, Transport, TransportError};
use crate::worker::Worker;
use sealane_conf::model::{LingeringClose, ListenAddress, LogLevel, ServerKind};
use sealane_io::Received;
use sealane_io::buffers;
use sealane_io::deadline::Deadline;
use sealane_io::registry::{Asked, ConnectionPhase, Entry};
use sealane_io::socket::Socket;
use sealane_io::stream::Sealed;
use sealane_sys::time::monotonic_coarse_ms;

use std::fmt;
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Bytes asked for at a time while a request head is being read.
pub(crate) const HEAD_READ_BYTES: usize = buffers::SMALL_BYTES;
/// Bytes discarded at a time by a lingering close.
const DISCARD_BYTES: usize = 1 << 20;
/// Limit of a lingering close once the worker shuts down.
const HURRIED_LINGER: Duration = Duration::from_secs(1);

/// Serves one accepted connection to its end.
pub(crate) async fn serve(
    worker: Arc<Worker>,
    listener: ListenerRef,
    socket: Socket,
    peer: PeerAddress,
) {
    let number = worker.process.next_connection();
    let facts = ConnectionFacts::new(number, peer, socket);
    let facts = Arc::new(facts.debugged_by(&listener.snapshot.debug_connections));
    let listener = listener.of_connection(&facts);
    let mut connection = Connection::new(worker, listener, facts);
    connection.debug(format_args!("accepted on {}", connection.listen_address()));
    loop {
        match connection.kind() {
            ServerKind::Http => break,
            ServerKind::Mail => {
                Box::pin(mail::serve(&mut connection)).await;
                return connection.end_session();
            }
            ServerKind::Stream => match Box::pin(stream::serve(&mut connection)).await {
                Some(listener) => connection.pass_to(listener),
                None => return connection.end_session(),
            },
        }
    }
    if connection.open().await {
        connection.serve_requests().await;
    }
    if connection.lingers_after_alert() {
        Box::pin(connection.linger()).await;
    }
    connection.count_ktls();
    connection.note_retirement();
    connection.debug(format_args!("close connection"));
}

/// A client's connection.
pub(crate) struct Connection {
    pub(crate) worker: Arc<Worker>,
    /// All configured state: the newest when the last request began.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The number of that.
    generation: u64,
    /// The listener it came through, in that snapshot.
    pub(crate) listener: ListenerId,
    pub(crate) facts: Arc<ConnectionFacts>,
    /// Connections to servers end with it that only its client may use.
    _closes_bound: ClosesBound,
    pub(crate) transport: Transport,
    /// The connection's end of the link to its exchange.
    pub(crate) link: ClientLink,
    /// Bytes of the next request (decrypted); empty and without memory while idle.
    pub(crate) buffer: Vec<u8>,
    deadline: Deadline,
    /// Server chosen by address and TLS name, until a request names its own.
    pub(crate) server: ServerId,
    /// Whether the socket has `TCP_NODELAY`; listening sockets pass it on.
    nodelay: bool,
    /// The request was pipelined: it arrived together with the one before it.
    pub(crate) pipelined: bool,
    /// How long it waits for the next request.
    pub(crate) keep_alive: KeepAlive,
    /// Since when it does, in milliseconds of the monotonic clock; 0 when it does not.
    idle_since_ms: u64,
    /// It waits for a credit of another process.
    pending_move: Option<Box<PendingMove>>,
    /// It cannot move to another process.
    stays: bool,
    /// It was asked to close, and does so as soon as `keepalive_min_timeout` allows.
    ends_soon: bool,
    /// A plain request arrived on a TLS port: it gets nginx's 400 and nothing else.
    pub(crate) plain_on_tls_port: bool,
    entry: Entry,
    /// How often `pass` has given it to another listener.
    passes: u8,
    /// Keeps registry and counters up to date; dropped last.
    gauge: Gauge,
}

/// What ended a wait for bytes.
pub(crate) enum Wait {
    /// Bytes were appended.
    Bytes,
    /// The client has finished sending.
    End,
    /// The deadline has passed.
    TimedOut,
    /// Shutdown, or room is needed.
    Asked(Asked),
    /// The connection broke.
    Broken(TransportError),
}

impl Connection {
    fn new(worker: Arc<Worker>, listener: ListenerRef, facts: Arc<ConnectionFacts>) -> Connection {
        let ListenerRef {
            generation,
            snapshot,
            listener,
        } = listener;
        let server = snapshot.listener(listener).names.default_server();
        let entry = Entry::new(worker.registry.clone());
        Connection {
            _closes_bound: ClosesBound(facts.clone()),
            transport: Transport::new(ClientEndpoint::new(facts.clone())),
            link: ClientLink::default(),
            buffer: Vec::new(),
            deadline: Deadline::None,
            server,
            nodelay: true,
            pipelined: false,
            keep_alive: KeepAlive::default(),
            idle_since_ms: 0,
            pending_move: None,
            stays: false,
            ends_soon: false,
            plain_on_tls_port: false,
            entry,
            passes: 0,
            gauge: Gauge::new(worker.clone()),
            worker,
            snapshot,
            generation,
            listener,
            facts,
        }
    }

    /// The server that answers unless the request names another one.
    pub(crate) fn server(&self) -> &ServerRuntime {
        self.snapshot.server(self.server)
    }

    /// Discards what the client sends, with or without TLS: it will not be read.
    fn poll_discard_wait(&mut self, cx: &mut Context<'_>, idle: bool) -> Poll<Wait> {
        match self.facts.socket().poll_discard(cx, DISCARD_BYTES) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Wait::End),
            Poll::Ready(Ok(_)) => return Poll::Ready(Wait::Bytes),
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Wait::Broken(TransportError::Socket(error)));
            }
            Poll::Pending => {}
        }
        self.poll_interrupted(cx, idle)
    }

    /// Whether there is something to read, as far as that is known without a system call.
    pub(crate) fn has_unread(&self) -> bool {
        self.facts.socket().may_have_input()
    }

    /// Sets the time-out for what the connection waits for next.
    pub(crate) fn set_deadline(&mut self, after: Duration) {
        self.deadline.set(&self.entry, after);
    }

    /// Ready when that time has passed.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadline.poll_expired(&self.entry, cx)
    }

    /// Applies `tcp_nodelay` of the location that answers; a system call only if it differs from
    /// the socket's.
    pub(crate) fn set_nodelay(&mut self, on: bool) {
        if self.nodelay != on && matches!(self.facts.peer, PeerAddress::Inet(_)) {
            self.nodelay = on;
            if let Err(error) = sealane_sys::socket::set_nodelay(self.facts.socket().as_fd(), on) {
                let text = sealane_log::OsError(&error);
                self.log(
                    LogLevel::Info,
                    &format!("setsockopt(TCP_NODELAY) failed ({text})"),
                );
            }
        }
    }

    /// Switches to the newest snapshot, between two requests; those in progress keep theirs. If the
    /// listener is gone, or has another protocol now, the connection finishes.
    pub(crate) fn renew(&mut self) {
        let current = &self.worker.current;
        if current.generation() == self.generation {
            return;
        }
        let (generation, newest) = current.numbered();
        self.generation = generation;
        let Some(listener) = self.listener_in(&newest) else {
            self.entry.ask_to_finish();
            return;
        };
        let names = &newest.listener(listener).names;
        self.server = match self.transport.tls().and_then(|tls| tls.connection().info()) {
            Some(tls) => names.find(tls.server_name().to_ascii_lowercase().as_bytes(), None),
            None => names.default_server(),
        };
        self.listener = listener;
        self.snapshot = newest;
        self.note_client();
    }

    /// Its listener in another snapshot, if connections begin there as this one did.
    fn listener_in(&self, other: &Snapshot) -> Option<ListenerId> {
        let own = self.snapshot.listener(self.listener);
        let accepting = other.listener_accepting(&own.address)?;
        let found = other.listener_of_connection(accepting, &self.facts);
        other.listener(found).begins_like(own).then_some(found)
    }

    /// Whether the newest snapshot has a listener for it.
    pub(crate) fn has_listener(&self) -> bool {
        let current = &self.worker.current;
        current.generation() == self.generation || self.listener_in(&current.snapshot()).is_some()
    }

    /// Whether the connection was asked to close. One whose configuration was replaced so long ago
    /// that `worker_shutdown_timeout` is over is to close now.
    pub(crate) fn asked(&self) -> Asked {
        self.entry.asked_with(self.generation)
    }

    /// The number of its configuration: the newest when the last request began.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of the oldest configuration that its requests may still use.
    pub(crate) fn oldest_configuration(&self) -> u64 {
        self.entry.oldest_configuration()
    }

    fn is_retired(&self) -> bool {
        self.generation < self.oldest_configuration()
    }

    /// Logs why it ended, if a reload some time ago is the reason.
    fn note_retirement(&self) {
        if self.is_retired() {
            self.log(
                LogLevel::Info,
                "worker_shutdown_timeout has passed since the configuration was replaced, \
                 closing the connection",
            );
        }
    }

    /// Lets the registry wake this task.
    async fn remember_task(&mut self) {
        poll_fn(|cx| {
            self.entry.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Does what precedes the first request: the TLS handshake. Returns whether there is a
    /// connection to serve.
    async fn open(&mut self) -> bool {
        self.remember_task().await;
        let listener = self.snapshot.listener(self.listener);
        let is_plain = listener.acceptor.is_none();
        let timeout = match is_plain {
            true => self.server().conf.client_header_timeout,
            false => self.handshake_timeout(),
        };
        self.deadline.set(&self.entry, timeout);
        if listener.options.proxy_protocol && proxy_protocol::read(self).await != HeaderRead::Done {
            return false;
        }
        if is_plain {
            return true;
        }
        let begun = match self.buffer.is_empty() {
            true => self.receive(HEAD_READ_BYTES, true).await,
            false => Wait::Bytes, // they came with the PROXY header
        };
        match begun {
            Wait::Bytes => {}
            Wait::Broken(error) => {
                self.log_broken(&error, "while waiting for request");
                return false;
            }
            _ => return false,
        }
        if !sealane_tls::looks_like_tls(&self.buffer) {
            self.plain_on_tls_port = true;
            return true;
        }
        if !self.handshake().await {
            return false;
        }
        // An ACME server has seen what it wanted, and says nothing more (RFC 8737 section 3).
        let tls = self.transport.tls().and_then(|tls| tls.connection().info());
        let is_challenge = tls.is_some_and(|info| info.alpn() == sealane_tls::ACME_TLS);
        if is_challenge {
            self.say_goodbye().await;
        }
        !is_challenge
    }

    /// Whether what was received last may be a replay (0-RTT).
    pub(crate) fn is_early_data(&self) -> bool {
        let tls = self.transport.tls();
        tls.is_some_and(|tls| tls.connection().is_early_data())
    }

    /// Counts a request in early data that was answered with 425.
    pub(crate) fn count_early_data_refused(&self) {
        let tls = self.transport.tls();
        if let Some(server) = tls.and_then(|tls| tls.connection().server()) {
            server
                .session_stats()
                .count_early_data(sealane_tls::EarlyVerdict::MethodRefused);
        }
    }

    /// At the end of the connection, counts whether the kernel or libssl sealed its records last,
    /// and why not the kernel.
    fn count_ktls(&self) {
        let counters = &self.worker.counters;
        counters.count_ktls(self.facts.ktls(), self.facts.ktls_reason());
    }

    /// Serves requests until one of them is the last.
    async fn serve_requests(&mut self) {
        if self.speaks_http2().await {
            return Box::pin(h2::serve(self)).await;
        }
        while self.request_has_begun().await {
            // Boxed: an idle connection must not carry the memory that a request needs.
            match Box::pin(exchange_task::serve(self)).await {
                After::KeepAlive => {}
                After::Linger => return Box::pin(self.linger()).await,
                After::Close => {
                    if self.is_early_data() {
                        Box::pin(self.finish_early_data()).await;
                    }
                    return self.say_goodbye().await;
                }
                After::Closed => return,
            }
        }
    }

    /// Whether the client speaks HTTP/2: agreed on in the handshake, or said by its
    /// first bytes on a plain connection.
    async fn speaks_http2(&mut self) -> bool {
        if let Some(tls) = self.transport.tls() {
            let info = tls.connection().info();
            return info.is_some_and(|info| info.alpn() == b"h2");
        }
        if !h2::is_enabled(self) || self.plain_on_tls_port {
            return false;
        }
        while h2::beginning(&self.buffer) == h2::Beginning::Undecided {
            self.gauge.enter(&self.entry, ConnectionPhase::Opening);
            if !matches!(self.receive(HEAD_READ_BYTES, true).await, Wait::Bytes) {
                // A later read sees the same end again.
                return false;
            }
        }
        h2::beginning(&self.buffer) == h2::Beginning::Http2
    }

    /// Waits for the first bytes of a request. False when the connection was
    /// closed instead.
    async fn request_has_begun(&mut self) -> bool {
        let first = self.facts.requests() == 0;
        self.pipelined = !first && !self.buffer.is_empty();
        if !self.buffer.is_empty() {
            return true;
        }
        if first {
            self.gauge.enter_silent(&self.entry);
        } else {
            self.gauge.enter(&self.entry, ConnectionPhase::Idle);
            buffers::release(&mut self.buffer);
            self.transport.release_buffers();
            self.begin_idling();
        }
        // At shutdown the first request is still awaited, as its client does not know. Between
        // requests the connection may be closed.
        match self.receive(HEAD_READ_BYTES, !first).await {
            Wait::Bytes => return true,
            // Another process has it.
            Wait::Asked(Asked::Move) => {}
            Wait::Asked(Asked::Abort) => {}
            Wait::TimedOut | Wait::Asked(_) | Wait::End => self.say_goodbye().await,
            Wait::Broken(error) => {
                let what = if first {
                    "while waiting for request"
                } else {
                    "while keepalive"
                };
                self.log_broken(&error, what);
            }
        }
        false
    }

    /// Starts `keepalive_timeout`; time that passed in another process counts.
    fn begin_idling(&mut self) {
        if self.idle_since_ms == 0 {
            self.idle_since_ms = monotonic_coarse_ms();
        }
        self.ends_soon = false;
        self.wait_until_idle_for(self.keep_alive.timeout_ms);
    }

    /// How long it has waited for its next request.
    fn idle_ms(&self) -> u64 {
        monotonic_coarse_ms().saturating_sub(self.idle_since_ms)
    }

    fn wait_until_idle_for(&mut self, ms: u32) {
        let left_ms = u64::from(ms).saturating_sub(self.idle_ms());
        self.set_deadline(Duration::from_millis(left_ms));
    }

    /// Whether an idle connection that was asked to close may do so now. If not, its deadline is
    /// set to the time when it may.
    fn may_end(&mut self) -> bool {
        let KeepAlive {
            timeout_ms,
            min_timeout_ms,
        } = self.keep_alive;
        if self.gauge.phase != Some(ConnectionPhase::Idle)
            || self.idle_ms() >= min_timeout_ms.into()
        {
            return true;
        }
        if !self.ends_soon {
            self.ends_soon = true;
            self.wait_until_idle_for(min_timeout_ms.min(timeout_ms));
        }
        false
    }

    /// The first bytes of a request have arrived, which starts `client_header_timeout`. Returns the
    /// time of their arrival.
    pub(crate) fn begin_request(&mut self) -> Instant {
        self.renew();
        self.idle_since_ms = 0;
        self.gauge.enter(&self.entry, ConnectionPhase::Opening);
        if self.facts.requests() > 0 {
            let timeout = self.server().conf.client_header_timeout;
            self.set_deadline(timeout);
        }
        Instant::now()
    }

    /// Nothing is under way on it.
    pub(crate) fn enter_idle(&mut self) {
        self.gauge.enter(&self.entry, ConnectionPhase::Idle);
    }

    /// The request is complete, or refused: it will be answered.
    pub(crate) fn begin_response(&mut self) {
        self.gauge.enter(&self.entry, ConnectionPhase::Busy);
    }

    /// Appends received bytes to the buffer. With `idle`, a request to close ends the wait.
    pub(crate) async fn receive(&mut self, max: usize, idle: bool) -> Wait {
        poll_fn(|cx| self.poll_receive_wait(cx, max, idle)).await
    }

    /// [`Connection::receive`], to be polled.
    pub(crate) fn poll_receive_wait(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        idle: bool,
    ) -> Poll<Wait> {
        if self.buffer.capacity() == 0 {
            self.buffer = buffers::small();
        }
        match self.transport.poll_receive(cx, &mut self.buffer, max) {
            Poll::Ready(Ok(Received::Bytes(_))) => {
                // The slot is needed for others.
                self.pending_move = None;
                return Poll::Ready(Wait::Bytes);
            }
            Poll::Ready(Ok(Received::End)) => return Poll::Ready(Wait::End),
            Poll::Ready(Err(error)) => return Poll::Ready(Wait::Broken(error)),
            Poll::Pending => {}
        }
        if self.buffer.is_empty() {
            buffers::release(&mut self.buffer);
        }
        if self.gauge.phase == Some(ConnectionPhase::Idle) {
            self.renew();
            if self.entry.asked() == Asked::Move && self.poll_move_out(cx).is_ready() {
                return Poll::Ready(Wait::Asked(Asked::Move));
            }
        }
        self.poll_interrupted(cx, idle)
    }

    /// Ends a wait for bytes that do not arrive. With `idle`, a request to close does so.
    fn poll_interrupted(&mut self, cx: &mut Context<'_>, idle: bool) -> Poll<Wait> {
        match self.asked() {
            Asked::Abort => Poll::Ready(Wait::Asked(Asked::Abort)),
            Asked::Finish if idle && self.may_end() => Poll::Ready(Wait::Asked(Asked::Finish)),
            _ => self.poll_expired(cx).map(|()| Wait::TimedOut),
        }
    }

    /// Sends close_notify, as far as the socket takes it at once: a client that does not read must
    /// not hold a closed connection. The only wait is for bytes that the kernel has taken and would
    /// lose (`lingering_timeout`).
    pub(crate) async fn say_goodbye(&mut self) {
        let limit = {
            let location = self.server().default_location;
            let conf = &self.snapshot.location(location).conf;
            conf.lingering_timeout
        };
        let mut waits = false;
        poll_fn(|cx| {
            if self.transport.poll_goodbye(cx).is_ready()
                || !self.transport.is_sealed_by_kernel()
                || self.asked() == Asked::Abort
            {
                return Poll::Ready(());
            }
            if !waits {
                waits = true;
                self.set_deadline(limit);
            }
            self.poll_expired(cx)
        })
        .await;
    }

    /// Waits for the client's Finished after a response to early data, at most as long as a
    /// lingering close. No close_notify can be sent before it; if it arrived at a closed socket,
    /// the kernel would answer with a reset, and the client might lose the end of the response (RFC
    /// 9112 section 9.6).
    async fn finish_early_data(&mut self) {
        let (time, pause) = {
            let location = self.server().default_location;
            let conf = &self.snapshot.location(location).conf;
            (conf.lingering_time, conf.lingering_timeout)
        };
        let end = Instant::now() + time;
        while self.is_early_data() {
            let now = Instant::now();
            if now >= end {
                return;
            }
            self.set_deadline(pause.min(end - now));
            self.buffer.clear();
            let wait = poll_fn(|cx| {
                let wait = self.poll_receive_wait(cx, buffers::SMALL_BYTES, false);
                // The Finished alone brings no bytes.
                if wait.is_pending() && !self.is_early_data() {
                    return Poll::Ready(Wait::Bytes);
                }
                wait
            });
            if !matches!(wait.await, Wait::Bytes) {
                return;
            }
        }
    }

    /// Whether the client gets time to read why TLS has failed: otherwise, what it has sent
    /// meanwhile would reset the connection (`lingering_close`).
    fn lingers_after_alert(&self) -> bool {
        let location = self.server().default_location;
        let lingering = self.snapshot.location(location).conf.lingering_close;
        lingering != LingeringClose::Off
            && self.transport.tls().is_some_and(Sealed::is_alerted)
            && self.asked() != Asked::Abort
    }

    /// Closes our side and reads what the client still sends, so that the kernel
    /// does not reset the connection before the client has read the response
    /// (`lingering_close`, RFC 9112 section 9.6).
    pub(crate) async fn linger(&mut self) {
        self.finish_early_data().await;
        self.say_goodbye().await;
        let _ =
            sealane_sys::socket::shutdown(self.facts.socket().as_fd(), std::net::Shutdown::Write);
        let (time, pause) = {
            let conf = &self.snapshot.location(self.server().default_location).conf;
            (conf.lingering_time, conf.lingering_timeout)
        };
        buffers::release(&mut self.buffer);
        self.transport.release_buffers();
        let mut end = Instant::now() + time;
        let mut hurries = false;
        loop {
            let now = Instant::now();
            if now >= end {
                return;
            }
            self.deadline.set(&self.entry, pause.min(end - now));
            match poll_fn(|cx| self.poll_discard_wait(cx, !hurries)).await {
                Wait::Bytes => {}
                // At shutdown, wait a moment for the client to read the rest.
                Wait::Asked(Asked::Finish) => {
                    hurries = true;
                    end = end.min(Instant::now() + HURRIED_LINGER);
                }
                _ => return,
            }
        }
    }

    /// Writes a line about this connection to the error log of its server.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        let logger = &self
            .snapshot
            .location(self.server().default_location)
            .logger;
        if logger.enabled(level) || self.facts.is_debugged() {
            debug_log::logger_for(&self.facts, logger).log_with(
                level,
                Some(self.facts.number),
                &[("SEALANE_CLIENT", &self.facts.peer)],
                format_args!("{message}{}", self.log_tail()),
            );
        }
    }

    /// Writes a debug line about this connection.
    pub(crate) fn debug(&self, message: fmt::Arguments<'_>) {
        let location = self.server().default_location;
        let logger = &self.snapshot.location(location).logger;
        if logger.enabled(LogLevel::Debug) || self.facts.is_debugged() {
            self.log(LogLevel::Debug, &message.to_string());
        }
    }

    /// The address of its listener, as it was configured.
    pub(crate) fn listen_address(&self) -> &ListenAddress {
        &self.snapshot.listener(self.listener).address
    }

    /// Logs why a connection broke, at a high level only if it is not the client's doing.
    pub(crate) fn log_broken(&self, error: &TransportError, what: &str) {
        let level = match error {
            TransportError::Tls(sealane_tls::Error::Certificate(_)) => LogLevel::Error,
            error if error.is_client_gone() => LogLevel::Info,
            _ => LogLevel::Crit,
        };
        self.log(level, &format!("{error} {what}"));
    }

    /// `, client: ..., server: ...` as nginx ends its lines.
    pub(crate) fn log_tail(&self) -> String {
        let client = self.facts.peer;
        format!(", client: {client}, server: {}", self.listen_address())
    }
}

/// Keeps `stub_status` and the registry up to date with the state of the connection.
pub(crate) struct Gauge {
    worker: Arc<Worker>,
    phase: Option<ConnectionPhase>,
    /// Nothing has been received on it: as in nginx it is shown as waiting.
    is_silent: bool,
}

impl Gauge {
    pub(crate) fn new(worker: Arc<Worker>) -> Gauge {
        Gauge {
            worker,
            phase: None,
            is_silent: false,
        }
    }

    /// The connection waits for its first request.
    fn enter_silent(&mut self, entry: &Entry) {
        self.change(entry, ConnectionPhase::Opening, true);
    }

    pub(crate) fn enter(&mut self, entry: &Entry, phase: ConnectionPhase) {
        self.change(entry, phase, false);
    }

    fn change(&mut self, entry: &Entry, phase: ConnectionPhase, is_silent: bool) {
        self.count(-1);
        self.phase = Some(phase);
        self.is_silent = is_silent;
        self.count(1);
        entry.set_phase(phase, self.worker.counters.requests.get());
    }

    fn count(&self, by: i64) {
        let counters = &self.worker.counters;
        match self.phase {
            None => {}
            Some(_) if self.is_silent => counters.waiting.add(by),
            Some(ConnectionPhase::Opening) => counters.reading.add(by),
            Some(ConnectionPhase::Idle) => counters.waiting.add(by),
            Some(ConnectionPhase::Busy) => counters.writing.add(by),
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.counters.panics.add(1);
        }
        self.count(-1);
        self.worker.counters.active.add(-1);
    }
}
