//! A listening socket for datagrams, on the one worker thread that receives from it.
//!
//! ```text
//!            ┌────── leave ──────> Leaving ── last session has ended ──> over
//!  Serving ──┤ <─── serve again ──────┘
//!            └────── stop ───────> over: another process has the socket; sessions may still send
//! ```

use super::serve;
use crate::acceptor::{ListenerRef, TELL_EVERY, take_slot};
use crate::snapshot::ListenerId;
use crate::worker::Worker;
use sealane_conf::model::{DatagramLimits, ListenAddress, LogLevel};
use sealane_io::datagram::DatagramSocket;
use sealane_io::runtime;
use sealane_log::OsError;
use sealane_stream::datagram::{DatagramListener, ListenerSettings, Session};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long receiving pauses after an error that may repeat.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// What a listening socket is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Begin sessions.
    Serving,
    /// Begin none, and go on with those that there are: the configuration is without it.
    Leaving,
    /// Receive nothing more.
    Stopped,
    /// It has ended.
    Over,
}

/// Tells a listening socket of the same thread what to do.
pub(crate) struct DatagramControl {
    mode: Cell<Mode>,
    changed: Notify,
    /// It is not leaving any more.
    settled: Notify,
}

impl DatagramControl {
    fn set(&self, mode: Mode) {
        if self.mode.get() == Mode::Over {
            return;
        }
        self.mode.set(mode);
        match mode {
            Mode::Leaving => {}
            _ => self.settled.notify_waiters(),
        }
        self.changed.notify_one();
    }

    /// There is a newer snapshot.
    pub(crate) fn renew(&self) {
        self.changed.notify_one();
    }

    /// The configuration is without it: it begins no session any more.
    pub(crate) fn leave(&self) {
        self.set(Mode::Leaving);
    }

    /// It begins sessions again. Returns whether it has not ended meanwhile.
    pub(crate) fn serve_again(&self) -> bool {
        self.set(Mode::Serving);
        !self.is_over()
    }

    /// It receives nothing more, and ends.
    pub(crate) fn stop(&self) {
        self.set(Mode::Stopped);
    }

    /// Whether it begins no sessions any more, and serves those that there are.
    pub(crate) fn is_leaving(&self) -> bool {
        self.mode.get() == Mode::Leaving
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.mode.get() == Mode::Over
    }

    /// Waits until it has ended, or serves again.
    pub(crate) async fn left(&self) {
        loop {
            let settled = self.settled.notified();
            if self.mode.get() != Mode::Leaving {
                return;
            }
            settled.await;
        }
    }
}

/// A listening socket for datagrams.
pub(crate) struct DatagramAcceptor {
    worker: Arc<Worker>,
    address: ListenAddress,
    listener: ListenerRef,
    listening: DatagramListener,
    limits: SocketLimits,
    control: Rc<DatagramControl>,
    complaints: Complaints,
}

/// The limits of the socket, in the newest snapshot that has it.
struct SocketLimits {
    of_socket: DatagramLimits,
    max_sessions: usize,
    /// `proxy_requests` of servers at addresses that the socket stands for.
    requests_at: Vec<(IpAddr, u64)>,
}

/// What has been reported, and when.
#[derive(Default)]
struct Complaints {
    dropped: u64,
    told_at: Option<Instant>,
}

impl SocketLimits {
    fn of(listener: &ListenerRef) -> SocketLimits {
        let snapshot = &listener.snapshot;
        let of = |id: ListenerId| {
            let server = snapshot.listener(id).names.default_server();
            let stream = snapshot.server(server).conf.stream.as_ref();
            let stream = stream.expect("a listener for datagrams is one of stream");
            stream.datagrams
        };
        let alternatives = &snapshot.listener(listener.listener).alternatives;
        let requests_at = alternatives.iter().filter_map(|id| {
            let inet = snapshot.listener(*id).address.inet()?;
            Some((inet.ip(), of(*id).requests))
        });
        let of_socket = of(listener.listener);
        // As many as nginx can have, which needs another slot for each server.
        let half = (snapshot.worker_connections / 2).max(1) as usize;
        SocketLimits {
            of_socket,
            max_sessions: of_socket.sessions.unwrap_or(half),
            requests_at: requests_at.collect(),
        }
    }

    fn settings(&self) -> ListenerSettings<'_> {
        ListenerSettings {
            max_requests: self.of_socket.requests,
            max_requests_at: &self.requests_at,
            max_sessions: self.max_sessions,
            session_packets: self.of_socket.session_packets,
            session_bytes: self.of_socket.session_bytes,
            waiting_bytes: self.of_socket.queue_bytes,
        }
    }
}

impl DatagramAcceptor {
    /// What receives at this address in the newest snapshot, and what controls it.
    ///
    /// # Errors
    /// When there is no such listener, or the event loop does not take the socket.
    pub(crate) fn new(
        worker: Arc<Worker>,
        address: ListenAddress,
        socket: OwnedFd,
    ) -> io::Result<(DatagramAcceptor, Rc<DatagramControl>)> {
        let listener = ListenerRef::new(&worker, &address).ok_or(io::ErrorKind::NotFound)?;
        let inet = address.inet().ok_or(io::ErrorKind::InvalidInput)?;
        let socket = DatagramSocket::bound(socket, inet)?;
        let control = Rc::new(DatagramControl {
            mode: Cell::new(Mode::Serving),
            changed: Notify::new(),
            settled: Notify::new(),
        });
        let acceptor = DatagramAcceptor {
            limits: SocketLimits::of(&listener),
            listening: DatagramListener::new(socket, inet),
            control: control.clone(),
            worker,
            address,
            listener,
            complaints: Complaints::default(),
        };
        Ok((acceptor, control))
    }

    /// Receives until it is over.
    pub(crate) async fn run(mut self) {
        let control = self.control.clone();
        loop {
            tokio::select! {
                () = self.receive() => break,
                () = control.changed.notified() => {}
            }
            match control.mode.get() {
                Mode::Serving => {
                    self.listener.renew(&self.worker, &self.address);
                    self.limits = SocketLimits::of(&self.listener);
                    self.listening.accept_new();
                }
                Mode::Leaving => self.listening.refuse_new(),
                Mode::Stopped | Mode::Over => break,
            }
        }
        let begun: Vec<Session> = self.listening.take_begun().collect();
        begun.into_iter().for_each(|session| self.admit(session));
        control.set(Mode::Over);
    }

    /// Receives until the last session has ended, if it refuses new ones; otherwise until it is
    /// dropped.
    async fn receive(&mut self) {
        loop {
            let polled = poll_fn(|cx| {
                let polled = self.listening.poll_session(cx, &self.limits.settings());
                self.note_dropped();
                polled
            });
            match polled.await {
                Some(Ok(session)) => self.admit(session),
                Some(Err(error)) => {
                    self.listener.snapshot.main_log.log(
                        LogLevel::Alert,
                        None,
                        format_args!(
                            "recvmsg() failed ({}) on {}; receiving again in {} ms",
                            OsError(&error),
                            self.address,
                            ERROR_PAUSE.as_millis()
                        ),
                    );
                    runtime::sleep(ERROR_PAUSE).await;
                }
                None => return,
            }
        }
    }

    /// Starts serving a session if there is a slot for it.
    fn admit(&mut self, session: Session) {
        let listener = self.listener.clone();
        if !take_slot(&self.worker, &listener.snapshot) {
            self.worker.counters.datagrams_dropped.add(1);
            let limit = listener.snapshot.worker_connections;
            self.complaints.tell(&listener, |log| {
                log.log(
                    LogLevel::Alert,
                    None,
                    format_args!(
                        "{limit} worker_connections are not enough; dropping datagrams of new \
                         clients. Raise worker_connections in the events block"
                    ),
                );
            });
            return;
        }
        runtime::spawn(serve(self.worker.clone(), listener, session));
    }

    /// Counts what was dropped, and says why once in a while.
    fn note_dropped(&mut self) {
        let dropped = self.listening.dropped();
        let new = dropped - self.complaints.dropped;
        if new == 0 {
            return;
        }
        self.complaints.dropped = dropped;
        self.worker.counters.datagrams_dropped.add(new);
        if self.control.mode.get() != Mode::Serving {
            return;
        }
        let (address, limits) = (&self.address, &self.limits);
        let is_full = self.listening.sessions() >= limits.max_sessions;
        self.complaints.tell(&self.listener, |log| match is_full {
            true => log.log(
                LogLevel::Alert,
                None,
                format_args!(
                    "{} udp_sessions are not enough on {address}; dropping datagrams of new \
                     clients. Raise udp_sessions, or lower proxy_timeout",
                    limits.max_sessions
                ),
            ),
            false => log.log(
                LogLevel::Warn,
                None,
                format_args!(
                    "datagrams come to {address} faster than they can be passed on; dropping \
                     them. Raise udp_session_queue or udp_queue_memory"
                ),
            ),
        });
    }
}

impl Complaints {
    /// Tells the main log, at most every [`TELL_EVERY`].
    fn tell(&mut self, listener: &ListenerRef, tell: impl FnOnce(&sealane_log::Logger)) {
        if self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told_at = Some(Instant::now());
            tell(&listener.snapshot.main_log);
        }
    }
}
