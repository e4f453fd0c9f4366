//! A listening socket for QUIC, on the one worker thread that receives from it.

use super::ids::ConnectionIds;
use super::routes::Routes;
use super::shared::{QuicShared, is_at};
use super::tokens::token_arrival;
use super::{QuicRuntime, ecn};
use crate::acceptor::{ListenerRef, TELL_EVERY, take_slot};
use crate::client::Client;
use crate::counters::{QuicCounters, QuicDrop};
use crate::facts::ConnectionFacts;
use crate::h3::{self, Beginning};
use crate::worker::Worker;
use sealane_conf::model::{ListenAddress, LogLevel, Server};
use sealane_http::h3::Role;
use sealane_io::datagram::{DatagramSocket, SendBatch, Transmit};
use sealane_io::forwarding::{ForwardQueue, Forwarded, ForwardedBatch};
use sealane_io::runtime;
use sealane_log::OsError;
use sealane_quic::{
    Accepted, Addresses, Code, Connection, ConnectionId, Datagrams, Initial, MAX_RESET_LEN, Outbox,
    ResetToken, TokenArrival, TokenLifetimes, UnknownVersion, Unrouted, Verdict, destination,
    initial, is_long, put_refusal, put_reset, put_retry, put_retry_token, put_version_negotiation,
    validate,
};
use sealane_tls::quic::ServerConnection;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Messages that one call receives; each may hold many datagrams.
const RECEIVE_MESSAGES: usize = 16;
/// How long receiving pauses after an error that may repeat.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Stateless resets, Retry and Version Negotiation packets that a socket sends in a second: they
/// answer packets of anybody.
const ANSWERS_PER_SECOND: u32 = 10_000;

/// The socket that connections send through, and what waits for it.
pub(crate) struct QuicSocket {
    socket: DatagramSocket,
    batch: RefCell<SendBatch>,
    outbox: RefCell<Outbox>,
    /// Tasks that wait until the socket has room.
    waiting: RefCell<Vec<Waker>>,
    flush_due: Notify,
}

impl QuicSocket {
    /// Appends what `make` puts into an outbox to what is to be sent.
    pub(crate) fn build(
        &self,
        make: impl FnOnce(&mut Outbox) -> Option<Datagrams>,
    ) -> Option<Datagrams> {
        let mut batch = self.batch.borrow_mut();
        let mut outbox = self.outbox.borrow_mut();
        let room = batch.room();
        std::mem::swap(room, &mut outbox.bytes);
        let made = make(&mut outbox);
        std::mem::swap(room, &mut outbox.bytes);
        match made {
            Some(made) => batch.commit(
                Transmit {
                    to: made.to,
                    from: Some(made.from.ip()).filter(|ip| !ip.is_unspecified()),
                    ecn: ecn(made.mark),
                    is_probe: made.is_mtu_probe,
                },
                Some(made.segment_bytes),
            ),
            None => batch.discard(),
        }
        made
    }

    /// Whether it should be flushed before more is made.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.borrow().is_full()
    }

    /// Has what was made sent when the tasks that are to run now have run: what several connections
    /// have to send leaves with one system call.
    pub(crate) fn flush_soon(&self) {
        if !self.batch.borrow().is_empty() {
            self.flush_due.notify_one();
        }
    }

    /// Sends what was made. Pending while the kernel has no room; the task is woken then.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let sent = self.try_flush(cx);
        if sent.is_pending() {
            self.waiting.borrow_mut().push(cx.waker().clone());
            self.flush_due.notify_one();
        }
        sent
    }

    fn try_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut batch = self.batch.borrow_mut();
        if batch.is_empty() {
            return Poll::Ready(());
        }
        // What cannot be sent is lost, as on the way: the transport finds out.
        let sent = self.socket.poll_send_batch(cx, &mut batch, |_| {});
        sent.map(|_| ())
    }

    /// Wakes those that wait once there is room.
    async fn flush_for_others(&self) {
        loop {
            self.flush_due.notified().await;
            poll_fn(|cx| self.try_flush(cx)).await;
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Appends one datagram.
    fn answer(&self, to: SocketAddr, from: SocketAddr, make: impl FnOnce(&mut Vec<u8>)) {
        self.build(|outbox| {
            let before = outbox.bytes.len();
            make(&mut outbox.bytes);
            let made = outbox.bytes.len() - before;
            (made > 0).then_some(Datagrams {
                to,
                from,
                mark: sealane_quic::Codepoint::NotEct,
                segment_bytes: made,
                is_mtu_probe: false,
            })
        });
    }
}

/// Tells a listening socket of the same thread what to do.
pub(crate) struct QuicControl {
    is_leaving: Cell<bool>,
    is_over: Cell<bool>,
    changed: Notify,
}

impl QuicControl {
    /// There is a newer snapshot.
    pub(crate) fn renew(&self) {
        self.changed.notify_one();
    }

    /// It takes no new connections any more, and ends with the last one that there is.
    pub(crate) fn leave(&self) {
        self.is_leaving.set(true);
        self.changed.notify_one();
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// It takes connections again. Returns whether it has not ended meanwhile.
    pub(crate) fn serve_again(&self) -> bool {
        self.is_leaving.set(false);
        self.changed.notify_one();
        !self.is_over()
    }
}

/// A listening socket.
pub(crate) struct QuicAcceptor {
    worker: Arc<Worker>,
    address: ListenAddress,
    local: SocketAddr,
    listener: ListenerRef,
    socket: Rc<QuicSocket>,
    /// Others at the same address, which are left of a time when there were more threads.
    more_sockets: Vec<DatagramSocket>,
    /// The number of the thread in connection ids.
    thread: u8,
    routes: Rc<Routes>,
    shared: Arc<QuicShared>,
    control: Rc<QuicControl>,
    /// Packets that other threads have received for this one.
    forwarded: Arc<ForwardQueue>,
    handshakes: Rc<Cell<usize>>,
    /// Those with clients that have not proved their addresses.
    unproved: Rc<Cell<usize>>,
    open: Rc<Cell<usize>>,
    /// Connections that are recorded (`quic_qlog`).
    recorded: Rc<Cell<usize>>,
    answers: AnswerAllowance,
    told_at: Option<Instant>,
}

/// How many answers to packets of anybody were sent in this second.
struct AnswerAllowance {
    since: Instant,
    sent: u32,
}

impl AnswerAllowance {
    fn may_answer(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            *self = AnswerAllowance {
                since: now,
                sent: 0,
            };
        }
        self.sent += 1;
        self.sent <= ANSWERS_PER_SECOND
    }
}

/// Counts something while it lives.
pub(super) struct CountedWhileOpen(Rc<Cell<usize>>);

/// Counts a connection while it lives, and has a socket that is leaving look whether it was the
/// last one.
pub(crate) struct OpenConnection {
    _count: CountedWhileOpen,
    control: Rc<QuicControl>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if self.control.is_leaving.get() {
            self.control.changed.notify_one();
        }
    }
}

/// Counts a handshake while it lives.
pub(crate) struct Handshake {
    _any: CountedWhileOpen,
    /// If its client has not proved its address.
    _unproved: Option<CountedWhileOpen>,
}

impl CountedWhileOpen {
    pub(super) fn new(of: &Rc<Cell<usize>>) -> CountedWhileOpen {
        of.set(of.get() + 1);
        CountedWhileOpen(of.clone())
    }
}

impl Drop for CountedWhileOpen {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl QuicAcceptor {
    /// What receives at this address in the newest snapshot, and what controls it. `routes` are
    /// those of the thread.
    ///
    /// # Errors
    /// When there is no such listener, or the event loop does not take the socket.
    pub(crate) fn new(
        worker: Arc<Worker>,
        address: ListenAddress,
        sockets: Vec<OwnedFd>,
        routes: Rc<Routes>,
    ) -> io::Result<(QuicAcceptor, Rc<QuicControl>)> {
        let listener = ListenerRef::new(&worker, &address).ok_or(io::ErrorKind::NotFound)?;
        let local = address.inet().ok_or(io::ErrorKind::InvalidInput)?;
        let shared = worker.process.quic.clone();
        let thread = thread_number(&worker);
        let sockets = sockets.into_iter();
        let sockets = sockets.map(|socket| DatagramSocket::bound_for_quic(socket, local));
        let mut more_sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        if more_sockets.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let control = Rc::new(QuicControl {
            is_leaving: Cell::new(false),
            is_over: Cell::new(false),
            changed: Notify::new(),
        });
        let acceptor = QuicAcceptor {
            socket: Rc::new(QuicSocket {
                socket: more_sockets.remove(0),
                batch: RefCell::default(),
                outbox: RefCell::default(),
                waiting: RefCell::default(),
                flush_due: Notify::new(),
            }),
            more_sockets,
            routes,
            forwarded: shared.queue(thread, local),
            thread,
            control: control.clone(),
            handshakes: Rc::default(),
            unproved: Rc::default(),
            open: Rc::default(),
            recorded: Rc::default(),
            answers: AnswerAllowance {
                since: Instant::now(),
                sent: 0,
            },
            told_at: None,
            worker,
            address,
            local,
            listener,
            shared,
        };
        Ok((acceptor, control))
    }

    /// Receives until it is over.
    pub(crate) async fn run(mut self) {
        let socket = self.socket.clone();
        let control = self.control.clone();
        self.socket.socket.send_joined(self.conf().quic.gso);
        let mut forwarded = ForwardedBatch::default();
        let queue = self.forwarded.clone();
        let work = async {
            loop {
                let received = poll_fn(|cx| {
                    while queue.poll_take(cx, &mut forwarded).is_ready() {
                        for datagram in forwarded.datagrams_mut() {
                            self.take(datagram, true);
                        }
                    }
                    let received = self.poll_sockets(cx);
                    // Answers that do not belong to connections.
                    let _ = socket.poll_flush(cx);
                    received
                });
                tokio::select! {
                    received = received => match received {
                        Ok(()) => runtime::yield_now().await,
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                        Err(error) => {
                            let address = self.address.clone();
                            self.tell(LogLevel::Alert, format_args!(
                                "recvmmsg() failed ({}) on {address}; receiving again in {} ms",
                                OsError(&error),
                                ERROR_PAUSE.as_millis()
                            ));
                            runtime::sleep(ERROR_PAUSE).await;
                        }
                    },
                    () = control.changed.notified() => {
                        self.listener.renew(&self.worker, &self.address);
                        self.socket.socket.send_joined(self.conf().quic.gso);
                        self.routes.renew_keys();
                    }
                }
                if control.is_leaving.get() && self.open.get() == 0 {
                    return;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = socket.flush_for_others() => {}
        }
        control.is_over.set(true);
    }

    /// Receives from its sockets, unless another process does.
    fn poll_sockets(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shared.lines.are_handed_over() {
            // A datagram in the queue wakes the task when that process has ended.
            return Poll::Pending;
        }
        let more = std::mem::take(&mut self.more_sockets);
        let socket = self.socket.clone();
        let mut received = self.poll_socket(&socket.socket, cx);
        for socket in &more {
            let also = self.poll_socket(socket, cx);
            if received.is_pending() {
                received = also;
            }
        }
        self.more_sockets = more;
        received
    }

    fn poll_socket(
        &mut self,
        socket: &DatagramSocket,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        socket.poll_receive(cx, RECEIVE_MESSAGES, |batch| {
            for message in batch.messages_mut() {
                let (Some(peer), local) = (message.source, message.local) else {
                    continue;
                };
                let ip = local.unwrap_or(self.local.ip());
                let local = SocketAddr::new(ip, self.local.port());
                let ecn = message.ecn;
                for bytes in message.into_datagrams() {
                    let datagram = Forwarded {
                        bytes,
                        peer,
                        local,
                        ecn,
                    };
                    self.take(datagram, false);
                }
            }
        })
    }

    /// Finds the connection of a datagram.
    fn take(&mut self, datagram: Forwarded<&mut [u8]>, is_forwarded: bool) {
        let bytes: &[u8] = datagram.bytes;
        let datagram = Forwarded {
            bytes,
            peer: datagram.peer,
            local: datagram.local,
            ecn: datagram.ecn,
        };
        let Some(id) = destination(bytes, super::ids::ID_BYTES) else {
            return self.counters().count_dropped(QuicDrop::Unknown);
        };
        let id = ConnectionId::new(id);
        if let Some(inbox) = id.and_then(|id| self.routes.find(&id)) {
            if !inbox.push(datagram) {
                self.counters().count_dropped(QuicDrop::InboxFull);
            }
            return;
        }
        if !is_forwarded && self.hand_on(datagram) {
            return;
        }
        match initial(bytes) {
            // It is for a socket that is gone: nothing here begins in its place.
            _ if is_forwarded && is_long(bytes) && !is_at(self.local, datagram.local) => {
                if !self.shared.lines.leave_to_serving(self.thread, datagram) {
                    self.counters().count_dropped(QuicDrop::Unknown);
                }
            }
            Unrouted::Initial(first) => {
                if !self.shared.lines.leave_to_serving(self.thread, datagram) {
                    self.begin(&first, datagram);
                }
            }
            Unrouted::UnknownVersion(unknown) => self.offer_versions(&unknown, datagram),
            Unrouted::Other => match id.filter(|_| !is_long(bytes)) {
                Some(id) => self.reset(&id, datagram),
                None => self.counters().count_dropped(QuicDrop::Unknown),
            },
        }
    }

    /// Hands a packet that belongs to no connection of this thread to the thread, or the process,
    /// that its connection id names. Returns whether there is one.
    fn hand_on(&self, datagram: Forwarded<&[u8]>) -> bool {
        let lines = &self.shared.lines;
        if let Some((process, thread)) = self.shared.format.place(datagram.bytes) {
            if process != self.shared.process {
                if lines.hand_on(process, thread, datagram) {
                    return true;
                }
            } else if thread != self.thread
                && let Some(queue) = self.shared.queue_for(thread, datagram)
            {
                // A new connection's first id may name any thread: it is as good as this one.
                if !queue.push(datagram) {
                    self.counters().count_dropped(QuicDrop::ThreadFull);
                }
                return true;
            }
        }
        is_long(datagram.bytes) && lines.ask_before(self.thread, datagram)
    }

    fn settings(&self) -> &QuicRuntime {
        let snapshot = &self.listener.snapshot;
        let names = &snapshot.listener(self.listener.listener).names;
        &snapshot.server(names.default_server()).quic
    }

    /// The configuration of the server whose settings connections begin with.
    fn conf(&self) -> &Server {
        let snapshot = &self.listener.snapshot;
        let names = &snapshot.listener(self.listener.listener).names;
        &snapshot.server(names.default_server()).conf
    }

    fn counters(&self) -> &QuicCounters {
        &self.worker.counters.quic
    }

    /// Whether one more packet of anybody may be answered in this second.
    fn may_answer(&mut self) -> bool {
        let may = self.answers.may_answer(Instant::now());
        if !may {
            self.counters().answers_withheld.add(1);
        }
        may
    }

    /// Says which versions may be used (RFC 9000 section 6.1).
    fn offer_versions(&mut self, unknown: &UnknownVersion<'_>, datagram: Forwarded<&[u8]>) {
        if !self.may_answer() {
            return;
        }
        self.counters().version_negotiations_sent.add(1);
        let versions = &self.settings().transport.versions;
        let random = self.routes.random() as u32;
        self.socket.answer(datagram.peer, datagram.local, |out| {
            put_version_negotiation(out, unknown, versions, random);
        });
    }

    /// Says that a connection is not known (RFC 9000 section 10.3). It may be known to the node
    /// that its id names.
    fn reset(&mut self, id: &ConnectionId, datagram: Forwarded<&[u8]>) {
        if self.routes.is_of_other_node(id) {
            return self.counters().count_dropped(QuicDrop::Unknown);
        }
        if !self.may_answer() {
            return;
        }
        self.counters().resets_sent.add(1);
        let token = self.routes.reset_token(id);
        let mut random = [0; MAX_RESET_LEN - ResetToken::LEN];
        self.routes.fill_random(&mut random);
        self.socket.answer(datagram.peer, datagram.local, |out| {
            put_reset(out, &token, datagram.bytes.len(), &random);
        });
    }

    /// A client wants to connect.
    fn begin(&mut self, first: &Initial<'_>, datagram: Forwarded<&[u8]>) {
        if self.control.is_leaving.get() || self.worker.registry.is_shutting_down() {
            return self.refuse(
                first,
                datagram,
                Code::CONNECTION_REFUSED,
                "the server is shutting down",
            );
        }
        let settings = self.settings().clone();
        if !settings.transport.versions.contains(&first.version) {
            let other = UnknownVersion {
                version: first.version.to_wire(),
                destination: &first.destination,
                source: &first.source,
                datagram_len: datagram.bytes.len(),
            };
            return self.offer_versions(&other, datagram);
        }
        let arrival = token_arrival(first.version, datagram.peer, &first.destination);
        let keys = self.routes.keys();
        let shown = match validate(
            first.token,
            &keys.tokens,
            &arrival,
            &TokenLifetimes::default(),
        ) {
            Ok(verdict) => verdict,
            Err(error) => {
                self.counters().tokens_refused.add(1);
                return self.refuse(first, datagram, error.code, "the token is not valid");
            }
        };
        if shown != Verdict::Unproven && !first.is_authentic(datagram.bytes) {
            return self.counters().count_dropped(QuicDrop::NotAuthentic);
        }
        let verdict = match shown {
            Verdict::NewToken { nonce } if !self.shared.spend_token(&nonce) => Verdict::Unproven,
            shown => shown,
        };
        let retry = self.conf().quic.retry;
        if verdict == Verdict::Unproven && retry.is_due(self.unproved.get()) {
            return self.ask_for_token(first, datagram, &arrival);
        }
        if shown == Verdict::Unproven && !first.is_authentic(datagram.bytes) {
            return self.counters().count_dropped(QuicDrop::NotAuthentic);
        }
        let snapshot = &self.listener.snapshot;
        let most = snapshot.quic_max_handshakes;
        if self.handshakes.get() >= most as usize {
            self.tell(
                LogLevel::Alert,
                format_args!(
                    "{most} handshakes of QUIC are under way; refusing others. \
                     Raise quic_max_handshakes if they are not an attack"
                ),
            );
            return self.refuse(
                first,
                datagram,
                Code::CONNECTION_REFUSED,
                "too many handshakes",
            );
        }
        if !take_slot(&self.worker, snapshot) {
            let limit = snapshot.worker_connections;
            self.tell(
                LogLevel::Alert,
                format_args!(
                    "{limit} worker_connections are not enough; refusing QUIC connections. \
                     Raise worker_connections in the events block"
                ),
            );
            return self.refuse(
                first,
                datagram,
                Code::CONNECTION_REFUSED,
                "too many connections",
            );
        }
        self.accept(first, datagram, verdict, &settings);
    }

    fn accept(
        &mut self,
        first: &Initial<'_>,
        datagram: Forwarded<&[u8]>,
        verdict: Verdict,
        settings: &QuicRuntime,
    ) {
        let worker = self.worker.clone();
        let number = worker.process.next_connection();
        let facts = ConnectionFacts::of_quic(number, datagram.peer, datagram.local);
        let facts = Arc::new(facts.debugged_by(&self.listener.snapshot.debug_connections));
        let listener = self.listener.clone().of_connection(&facts);
        let client = Client::new(worker, listener, facts);
        let mut ids = ConnectionIds::new(self.routes.clone());
        if !ids.add(first.destination) {
            return;
        }
        let (id, reset_token) = ids.make();
        let is_validated = verdict != Verdict::Unproven;
        let (original_destination, retry_source) = match verdict {
            Verdict::Retry {
                original_destination,
            } => (original_destination, Some(first.destination)),
            _ => (first.destination, None),
        };
        let accepted = Accepted {
            version: first.version,
            destination: first.destination,
            source: first.source,
            original_destination,
            retry_source,
            is_validated,
            addresses: Addresses {
                local: datagram.local,
                remote: datagram.peer,
            },
        };
        let tls = ServerConnection::accept(&client.tls_acceptor(), first.version.to_tls());
        let now = Instant::now();
        let time = self.shared.clock.time(now);
        let transport = settings.transport.clone();
        let mut transport = Connection::server(transport, tls, &accepted, id, reset_token, time);
        let recorder = match &settings.qlog {
            Some(qlog) => qlog.recorder(&self.recorded, datagram.peer, original_destination, time),
            None => Ok(None),
        };
        let recorder = recorder.unwrap_or_else(|too_many| {
            self.tell(LogLevel::Warn, format_args!("{too_many}"));
            None
        });
        if recorder.is_some() {
            transport.start_trace(time);
        }
        let codec = sealane_http::h3::Connection::new(
            Role::Server,
            settings.codec.clone(),
            now.saturating_duration_since(client.facts.accepted),
        );
        ids.inbox().push(datagram);
        client.debug(format_args!("accepted on {}", client.listen_address()));
        let open = OpenConnection {
            _count: CountedWhileOpen::new(&self.open),
            control: self.control.clone(),
        };
        self.counters()
            .count_connection(settings.transport.congestion_control);
        let handshake = Handshake {
            _any: CountedWhileOpen::new(&self.handshakes),
            _unproved: (!is_validated).then(|| CountedWhileOpen::new(&self.unproved)),
        };
        runtime::spawn(h3::serve(Beginning {
            client,
            transport,
            codec,
            ids,
            socket: self.socket.clone(),
            clock: self.shared.clock,
            open,
            handshake,
            recorder,
        }));
    }

    /// Asks a client for proof that it is where it says (RFC 9000 section 8.1.2).
    fn ask_for_token(
        &mut self,
        first: &Initial<'_>,
        datagram: Forwarded<&[u8]>,
        arrival: &TokenArrival<'_>,
    ) {
        if !self.may_answer() {
            return;
        }
        let keys = self.routes.keys();
        let Some(key) = keys.tokens.first() else {
            return;
        };
        self.counters().retries_sent.add(1);
        let source = self.routes.random_id();
        let mut nonce = [0; 12];
        self.routes.fill_random(&mut nonce);
        let mut token = Vec::new();
        put_retry_token(&mut token, key, &nonce, arrival, &source);
        let random = self.routes.random() as u8;
        self.socket.answer(datagram.peer, datagram.local, |out| {
            put_retry(out, first, &source, &token, random);
        });
    }

    fn refuse(
        &mut self,
        first: &Initial<'_>,
        datagram: Forwarded<&[u8]>,
        code: Code,
        reason: &str,
    ) {
        if code == Code::CONNECTION_REFUSED {
            self.counters().connections_refused.add(1);
        }
        if self.may_answer() {
            self.socket.answer(datagram.peer, datagram.local, |out| {
                put_refusal(out, first, code, reason);
            });
        }
    }

    /// Tells the main log, at most every [`TELL_EVERY`].
    fn tell(&mut self, level: LogLevel, text: std::fmt::Arguments<'_>) {
        if self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told_at = Some(Instant::now());
            self.listener.snapshot.main_log.log(level, None, text);
        }
    }
}

/// The number of a thread in connection ids.
pub(crate) fn thread_number(worker: &Worker) -> u8 {
    (worker.index % 256) as u8
}

impl Drop for QuicAcceptor {
    fn drop(&mut self) {
        self.shared.forget_queue(self.thread, self.local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_packets_of_anybody_are_limited() {
        let since = Instant::now();
        let mut allowance = AnswerAllowance { since, sent: 0 };
        for _ in 0..ANSWERS_PER_SECOND {
            assert!(allowance.may_answer(since));
        }
        assert!(!allowance.may_answer(since + Duration::from_millis(999)));
        assert!(allowance.may_answer(since + Duration::from_secs(1)));
    }
}
