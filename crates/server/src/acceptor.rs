//! The accept loop of one listener on one worker thread.

use crate::connection;
use crate::facts::PeerAddress;
use crate::handlers::SHED_ENTRIES;
use crate::registry::Asked;
use crate::snapshot::ListenerId;
use crate::socket::Socket;
use crate::worker::Worker;
use sealane_conf::model::{ListenAddress, LogLevel};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// How long accepting rests after the process ran out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(500);
/// When fewer than one in this many connection slots is free, idle connections are closed.
const DRAIN_BELOW_FRACTION: i64 = 16;
/// Idle connections closed at a time to make room.
const DRAIN_AT_ONCE: usize = 32;

/// How often a condition that lasts is said again.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Turns in which a queue is emptied at shutdown; without pacing tokio lets a task accept
/// 128 connections per turn, so that this is more than the usual `backlog`.
const DRAIN_TURNS: usize = 8;

enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Accepts connections of one listener until shutdown, and then what waits in
/// its queue: closing the socket would reset those clients.
pub(crate) async fn accept_until(
    worker: Arc<Worker>,
    id: ListenerId,
    socket: OwnedFd,
    mut told: watch::Receiver<Asked>,
) {
    let turns = worker.turns.clone();
    let mut accepting = pin!(accept_loop(worker, id, socket));
    let stop = told.wait_for(|asked| *asked != Asked::Nothing);
    tokio::select! {
        () = &mut accepting => return,
        _ = stop => {}
    }
    turns.accept_all();
    // A turn of the loop ends when accept4() has nothing left to give, or when
    // the runtime wants others to have their turn.
    for _ in 0..DRAIN_TURNS {
        tokio::task::yield_now().await;
        poll_fn(|cx| {
            let _ = accepting.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    }
}

/// Accepts connections of one listener until dropped.
pub(crate) async fn accept_loop(worker: Arc<Worker>, id: ListenerId, socket: OwnedFd) {
    let log = worker.snapshot.main_log.clone();
    let listener = match register(&worker, id, socket) {
        Ok(listener) => listener,
        Err(error) => {
            log.log(
                LogLevel::Emerg,
                None,
                format_args!(
                    "cannot wait for connections on a listening socket ({})",
                    crate::log::OsError(&error)
                ),
            );
            return;
        }
    };
    let mut told_at = None;
    loop {
        poll_fn(|cx| worker.turns.poll_accept(cx)).await;
        let accepted = match &listener {
            Listening::Tcp(l) => l
                .accept()
                .await
                .map(|(s, a)| (Socket::Tcp(s), PeerAddress::Inet(a))),
            Listening::Unix(l) => l
                .accept()
                .await
                .map(|(s, _)| (Socket::Unix(s), PeerAddress::Unix)),
        };
        match accepted {
            Ok((socket, peer)) => {
                worker.turns.count_accept();
                admit(&worker, id, socket, peer);
            }
            Err(error) => {
                if is_exhausted(&error) && worker.open_files.shed(SHED_ENTRIES) > 0 {
                    // A descriptor is free again; the queue is asked at once.
                    tell_of_shedding(&worker, &error, &mut told_at);
                } else if rest_after(&error) {
                    log.log(
                        LogLevel::Crit,
                        None,
                        format_args!(
                            "accept4() failed ({}); accepting again in {} ms. Raise worker_rlimit_nofile or lower worker_connections",
                            crate::log::OsError(&error),
                            EXHAUSTED_PAUSE.as_millis()
                        ),
                    );
                    // Idle connections hold descriptors: let some go.
                    worker.registry.drain_idle(DRAIN_AT_ONCE);
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                } else {
                    // The client gave up while it waited in the queue.
                    log.log(
                        LogLevel::Info,
                        None,
                        format_args!("accept4() failed ({})", crate::log::OsError(&error)),
                    );
                }
            }
        }
    }
}

fn register(worker: &Worker, id: ListenerId, socket: OwnedFd) -> io::Result<Listening> {
    Ok(match worker.snapshot.listener(id).address {
        ListenAddress::Inet(_) => Listening::Tcp(TcpListener::from_std(socket.into())?),
        ListenAddress::Unix(_) => Listening::Unix(UnixListener::from_std(socket.into())?),
    })
}

/// Starts serving a connection if there is a slot for it.
fn admit(worker: &Arc<Worker>, id: ListenerId, socket: Socket, peer: PeerAddress) {
    worker.counters.accepted.add(1);
    let limit = i64::from(worker.snapshot.worker_connections);
    let open = worker.counters.active.get();
    if limit - open < limit / DRAIN_BELOW_FRACTION {
        worker.registry.drain_idle(DRAIN_AT_ONCE);
    }
    if open >= limit {
        worker.snapshot.main_log.log(
            LogLevel::Alert,
            None,
            format_args!("{limit} worker_connections are not enough; closing a new connection. Raise worker_connections in the events block"),
        );
        return;
    }
    worker.counters.handled.add(1);
    worker.counters.active.add(1);
    tokio::spawn(connection::serve(worker.clone(), id, socket, peer));
}

/// Says that cached files were closed to make room, at most every [`TELL_EVERY`].
fn tell_of_shedding(worker: &Worker, error: &io::Error, told_at: &mut Option<Instant>) {
    if told_at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
        return;
    }
    *told_at = Some(Instant::now());
    worker.snapshot.main_log.log(
        LogLevel::Warn,
        None,
        format_args!(
            "accept4() failed ({}); files of open_file_cache are closed to go on. Raise worker_rlimit_nofile or lower max= of open_file_cache",
            crate::log::OsError(error)
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
