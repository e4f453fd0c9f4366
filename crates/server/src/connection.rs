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
use crate::client::Client;
use crate::client_link::ClientLink;
use crate::exchange_task::{self, After};
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::h2;
use crate::handover::KeepAlive;
use crate::limits::Permits;
use crate::mail;
use crate::proxy_protocol::{self, HeaderRead};
use crate::stream;
use crate::transport::{ClientEndpoint, Transport, TransportError};
use crate::worker::Worker;
use sealane_conf::model::{LingeringClose, LogLevel, ServerKind};
use sealane_io::Received;
use sealane_io::buffers;
use sealane_io::registry::Asked;
use sealane_io::socket::Socket;
use sealane_io::stream::Sealed;
use sealane_sys::time::monotonic_coarse_ms;

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
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
                Some(to) => connection.pass_to(to),
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

/// A client's connection over a stream: TCP, or a Unix socket.
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    /// The connection's end of the link to its exchange.
    pub(crate) link: ClientLink,
    /// Bytes of the next request (decrypted); empty and without memory while idle.
    pub(crate) buffer: Vec<u8>,
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
    /// How often `pass` has given it to another listener.
    passes: u8,
    /// What it holds of `limit_conn` of those listeners.
    permits: Option<Box<Permits>>,
    /// What it has in common with clients of other transports; dropped last.
    client: Client,
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
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
        Connection {
            transport: Transport::new(ClientEndpoint::new(facts.clone())),
            link: ClientLink::default(),
            buffer: Vec::new(),
            nodelay: true,
            pipelined: false,
            keep_alive: KeepAlive::default(),
            idle_since_ms: 0,
            pending_move: None,
            stays: false,
            ends_soon: false,
            plain_on_tls_port: false,
            passes: 0,
            permits: None,
            client: Client::new(worker, listener, facts),
        }
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
        let tls = self.transport.tls();
        let server_name = || {
            let info = tls?.connection().info()?;
            Some(info.server_name().to_ascii_lowercase())
        };
        if self.client.renew(server_name) {
            self.note_client();
        }
    }

    /// Does what precedes the first request: the TLS handshake. Returns whether there is a
    /// connection to serve.
    async fn open(&mut self) -> bool {
        self.remember_task().await;
        let listener = self.snapshot.listener(self.listener);
        let has_proxy_header = listener.options.proxy_protocol;
        // TLS may have begun at a listener that has passed the connection on.
        let has_no_handshake = listener.acceptor.is_none() || self.transport.tls().is_some();
        let timeout = match has_no_handshake {
            true => self.server().conf.client_header_timeout,
            false => self.handshake_timeout(),
        };
        self.set_deadline(timeout);
        if has_proxy_header && proxy_protocol::read(self).await != HeaderRead::Done {
            return false;
        }
        if has_no_handshake {
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
            self.enter_opening();
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
            self.enter_silent();
        } else {
            self.enter_idle();
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
        if !self.is_idle() || self.idle_ms() >= min_timeout_ms.into() {
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
        self.enter_opening();
        if self.facts.requests() > 0 {
            let timeout = self.server().conf.client_header_timeout;
            self.set_deadline(timeout);
        }
        Instant::now()
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
        if self.is_idle() {
            self.renew();
            if self.asked_now() == Asked::Move && self.poll_move_out(cx).is_ready() {
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
            self.set_deadline(pause.min(end - now));
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

    /// Logs why a connection broke, at a high level only if it is not the client's doing.
    pub(crate) fn log_broken(&self, error: &TransportError, what: &str) {
        let level = match error {
            TransportError::Tls(sealane_tls::Error::Certificate(_)) => LogLevel::Error,
            error if error.is_client_gone() => LogLevel::Info,
            _ => LogLevel::Crit,
        };
        self.log(level, &format!("{error} {what}"));
    }
}
