//! Plain connections to auth services and mail servers.

use crate::connection::{Connection, unless_aborted};
use crate::proxying::connect_socket;
use sealane_io::runtime::timeout_at;
use sealane_io::socket::Socket;
use sealane_log::OsError;
use sealane_upstream::PeerAddress;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::time::Instant;

/// Why a wait has ended without what was waited for.
#[derive(Debug)]
pub(super) enum PeerFailure {
    /// The connection could not be opened.
    Connect(io::Error),
    /// It broke.
    Send(io::Error),
    /// It broke.
    Receive(io::Error),
    /// The time is over.
    TimedOut,
    /// The worker process ends (`worker_shutdown_timeout`).
    ShutDown,
}

impl fmt::Display for PeerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerFailure::Connect(error) => write!(f, "connect() failed ({})", OsError(error)),
            PeerFailure::Send(error) => write!(f, "send() failed ({})", OsError(error)),
            PeerFailure::Receive(error) => write!(f, "recv() failed ({})", OsError(error)),
            PeerFailure::TimedOut => f.write_str("timed out (110: Connection timed out)"),
            PeerFailure::ShutDown => f.write_str("shutdown timeout"),
        }
    }
}

/// Waits until that time, and not longer than the worker process has.
pub(super) async fn within<F: Future>(
    connection: &Connection,
    deadline: Instant,
    future: F,
) -> Result<F::Output, PeerFailure> {
    let waiting = timeout_at(deadline, future);
    match unless_aborted(|| connection.is_to_abort(), waiting).await {
        Some(output) => output.map_err(|_elapsed| PeerFailure::TimedOut),
        None => Err(PeerFailure::ShutDown),
    }
}

/// A connection. What is sent and received may be secret: it is not copied.
pub(super) struct PeerWire(Socket);

impl PeerWire {
    /// Opens one.
    pub(super) async fn open(
        connection: &Connection,
        deadline: Instant,
        address: &PeerAddress,
    ) -> Result<PeerWire, PeerFailure> {
        let opened = within(connection, deadline, connect_socket(address)).await?;
        opened.map(PeerWire).map_err(PeerFailure::Connect)
    }

    /// Sends everything.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        deadline: Instant,
        mut bytes: &[u8],
    ) -> Result<(), PeerFailure> {
        while !bytes.is_empty() {
            let sending = poll_fn(|cx| self.0.poll_send(cx, &[IoSlice::new(bytes)], false));
            let sent = within(connection, deadline, sending).await?;
            bytes = &bytes[sent.map_err(PeerFailure::Send)?..];
        }
        Ok(())
    }

    /// Appends up to `max` bytes; returns how many. 0 is the end.
    pub(super) async fn receive(
        &self,
        connection: &Connection,
        deadline: Instant,
        buffer: &mut Vec<u8>,
        max: usize,
    ) -> Result<usize, PeerFailure> {
        let receiving = poll_fn(|cx| self.0.poll_recv(cx, buffer, max));
        let received = within(connection, deadline, receiving).await?;
        received.map_err(PeerFailure::Receive)
    }

    /// The socket.
    pub(super) fn into_socket(self) -> Socket {
        self.0
    }
}
