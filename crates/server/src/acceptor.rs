//! The acceptor of one listener on one worker thread.

use crate::connection;
use crate::facts::{ConnectionFacts, PeerAddress};
use crate::handlers::SHED_ENTRIES;
use crate::snapshot::{ListenerId, Snapshot};
use crate::worker::Worker;
use sealane_conf::model::{ListenAddress, LogLevel};
use sealane_io::listener::Listener;
use sealane_io::runtime;
use sealane_io::socket::Socket;
use sealane_log::{Logger, OsError};
use sealane_sys::socket;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// How long accepting pauses after the process ran out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);
/// When fewer than one in this many connection slots is free, idle connections are closed.
pub(crate) const DRAIN_BELOW_FRACTION: i64 = 16;
/// Idle connections closed at a time to make room.
const DRAIN_AT_ONCE: usize = 32;

/// How often a lasting condition is reported again.
pub(crate) const TELL_EVERY: Duration = Duration::from_secs(60);
/// Turns for emptying a queue at shutdown. Without pacing, a task may accept 128 connections
/// per turn, so this covers more than the usual `backlog`.
const DRAIN_TURNS: usize = 8;

/// The listener that accepts the connections of one socket, in the newest snapshot that has one.
#[derive(Clone)]
pub(crate) struct ListenerRef {
    pub(crate) generation: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) listener: ListenerId,
}

impl ListenerRef {
    /// The listener that accepts connections to an address; `None` when there is none.
    pub(crate) fn new(worker: &Worker, address: &ListenAddress) -> Option<ListenerRef> {
        let (generation, snapshot) = worker.current.numbered();
        let listener = snapshot.listener_accepting(address)?;
        Some(ListenerRef {
            generation,
            snapshot,
            listener,
        })
    }

    /// Where a connection begins: its local address may select another listener than the socket's.
    pub(crate) fn of_connection(mut self, facts: &ConnectionFacts) -> ListenerRef {
        self.listener = self.snapshot.listener_of_connection(self.listener, facts);
        self
    }

    /// The same in the newest snapshot. A listener that is not in it keeps its last one.
    pub(crate) fn renew(&mut self, worker: &Worker, address: &ListenAddress) {
        let generation = worker.current.generation();
        if generation == self.generation {
            return;
        }
        match ListenerRef::new(worker, address) {
            Some(newest) => *self = newest,
            None => self.generation = generation,
        }
    }
}

/// A socket that a worker thread accepts from.
pub(crate) struct Acceptor {
    worker: Arc<Worker>,
    address: ListenAddress,
    listener: ListenerRef,
    listening: Listener,
    /// The queue is being emptied: no pause between two connections.
    hurries: bool,
}

impl Acceptor {
    /// An acceptor for the listener of this address in the newest snapshot.
    ///
    /// # Errors
    /// When there is no such listener, or the event loop does not take the socket.
    pub(crate) fn new(
        worker: Arc<Worker>,
        address: ListenAddress,
        socket: OwnedFd,
    ) -> io::Result<Acceptor> {
        let listener = ListenerRef::new(&worker, &address).ok_or(io::ErrorKind::NotFound)?;
        let listening = Listener::new(socket)?;
        Ok(Acceptor {
            worker,
            address,
            listener,
            listening,
            hurries: false,
        })
    }

    /// Accepts connections until told to stop, and then those that are in the queue: closing the
    /// socket would reset their clients. `renewed` announces a newer snapshot; without it, a
    /// listener without connections would keep the keys of the previous one in memory.
    pub(crate) async fn accept_until(mut self, renewed: Arc<Notify>, stop: oneshot::Receiver<()>) {
        let renewing = async {
            loop {
                tokio::select! {
                    () = self.accept_all() => return,
                    () = renewed.notified() => self.listener.renew(&self.worker, &self.address),
                }
            }
        };
        tokio::select! {
            () = renewing => return,
            // A sender that was dropped means the same.
            _ = stop => {}
        }
        // First: a connection that only this thread is told of must not stay in the queue.
        self.listening.leave();
        self.hurries = true;
        let mut accepting = pin!(self.accept_all());
        // A turn of the loop ends when accept4() has nothing left to give, or when
        // the runtime wants others to have their turn.
        for _ in 0..DRAIN_TURNS {
            runtime::yield_now().await;
            poll_fn(|cx| {
                let _ = accepting.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
        }
    }

    /// Accepts connections until dropped.
    async fn accept_all(&mut self) {
        let mut told_at = None;
        loop {
            if !self.hurries {
                poll_fn(|cx| self.worker.turns.poll_accept(cx)).await;
            }
            let accepted = poll_fn(|cx| self.listening.poll_accept(cx)).await;
            let registered = accepted.and_then(|accepted| match accepted.peer {
                socket::PeerAddress::Inet(peer) => Ok((
                    Socket::accepted(accepted.fd, true)?,
                    PeerAddress::Inet(peer),
                )),
                socket::PeerAddress::Unix => {
                    Ok((Socket::accepted(accepted.fd, false)?, PeerAddress::Unix))
                }
            });
            match registered {
                Ok((socket, peer)) => {
                    self.worker.turns.count_accept();
                    self.admit(socket, peer);
                }
                Err(error) => self.on_error(&error, &mut told_at).await,
            }
        }
    }

    /// Starts serving a connection if there is a slot for it.
    fn admit(&mut self, socket: Socket, peer: PeerAddress) {
        let worker = &self.worker;
        self.listener.renew(worker, &self.address);
        let snapshot = &self.listener.snapshot;
        if !take_slot(worker, snapshot) {
            snapshot.main_log.log(
                LogLevel::Alert,
                None,
                format_args!(
                    "{} worker_connections are not enough; closing a new connection. Raise \
                     worker_connections in the events block",
                    snapshot.worker_connections
                ),
            );
            return;
        }
        let listener = self.listener.clone();
        let has_handshake = listener
            .snapshot
            .listener(listener.listener)
            .acceptor
            .is_some();
        let connection = connection::serve(worker.clone(), listener, socket, peer);
        match has_handshake {
            true => runtime::spawn_newcomer(connection),
            false => runtime::spawn(connection),
        }
    }

    /// Logs why nothing was accepted, and waits if the same would happen again at once.
    async fn on_error(&mut self, error: &io::Error, told_at: &mut Option<Instant>) {
        let worker = &self.worker;
        let log = &self.listener.snapshot.main_log;
        if is_exhausted(error) && worker.open_files.shed(SHED_ENTRIES) > 0 {
            // A descriptor is free again: accept at once.
            tell_of_shedding(log, error, told_at);
        } else if rest_after(error) {
            log.log(
                LogLevel::Crit,
                None,
                format_args!(
                    "accept4() failed ({}); accepting again in {} ms. Raise worker_rlimit_nofile or lower worker_connections",
                    OsError(error),
                    EXHAUSTED_PAUSE.as_millis()
                ),
            );
            // Idle connections hold descriptors: let some go.
            worker.registry.drain_idle(DRAIN_AT_ONCE);
            self.listening.pause();
            runtime::sleep(EXHAUSTED_PAUSE).await;
        } else {
            // The client gave up while it waited in the queue.
            log.log(
                LogLevel::Info,
                None,
                format_args!("accept4() failed ({})", OsError(error)),
            );
        }
    }
}

/// Takes one of `worker_connections` for a connection, or a session of datagrams, that has come,
/// and makes room for the next ones if need be. Returns whether there was one.
pub(crate) fn take_slot(worker: &Worker, snapshot: &Snapshot) -> bool {
    worker.counters.accepted.add(1);
    let limit = i64::from(snapshot.worker_connections);
    let open = worker.counters.active.get();
    if limit - open < limit / DRAIN_BELOW_FRACTION {
        worker.registry.drain_idle(DRAIN_AT_ONCE);
    }
    if open >= limit {
        return false;
    }
    worker.counters.handled.add(1);
    worker.counters.active.add(1);
    true
}

/// Reports that cached files were closed to make room, at most every [`TELL_EVERY`].
fn tell_of_shedding(log: &Logger, error: &io::Error, told_at: &mut Option<Instant>) {
    if told_at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
        return;
    }
    *told_at = Some(Instant::now());
    log.log(
        LogLevel::Warn,
        None,
        format_args!(
            "accept4() failed ({}); closing files of open_file_cache. Raise worker_rlimit_nofile or lower max= of open_file_cache",
            OsError(error)
        ),
    );
}

/// Whether descriptors have run out, in the process or in the system.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether the error means that the whole process has to wait.
fn rest_after(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
