//! Plain connections to auth services and mail servers.

use crate::connection::Connection;
use crate::proxying::connect_socket;
use sealane_io::runtime::timeout_at;
use sealane_io::socket::Socket;
use sealane_log::OsError;
use sealane_upstream::PeerAddress;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

/// Why a wait has ended without what was waited for.
#[derive(Debug)]
pub(super) enum Failure {
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(f, "connect() failed ({})", OsError(error)),
            Failure::Send(error) => write!(f, "send() failed ({})", OsError(error)),
            Failure::Receive(error) => write!(f, "recv() failed ({})", OsError(error)),
            Failure::TimedOut => f.write_str("timed out (110: Connection timed out)"),
            Failure::ShutDown => f.write_str("shutdown timeout"),
        }
    }
}

/// Waits until that time, and not longer than the worker process has.
pub(super) async fn within<F: Future>(
    connection: &Connection,
    deadline: Instant,
    future: F,
) -> Result<F::Output, Failure> {
    let mut waiting = pin!(timeout_at(deadline, future));
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(output.map_err(|_elapsed| Failure::TimedOut)),
        Poll::Pending if connection.is_to_abort() => Poll::Ready(Err(Failure::ShutDown)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A connection. What is sent and received may be secret: it is not copied.
pub(super) struct Wire(Socket);

impl Wire {
    /// Opens one.
    pub(super) async fn open(
        connection: &Connection,
        deadline: Instant,
        address: &PeerAddress,
    ) -> Result<Wire, Failure> {
        let opened = within(connection, deadline, connect_socket(address)).await?;
        opened.map(Wire).map_err(Failure::Connect)
    }

    /// Sends everything.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        deadline: Instant,
        mut bytes: &[u8],
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let sending = poll_fn(|cx| self.0.poll_send(cx, &[IoSlice::new(bytes)], false));
            let sent = within(connection, deadline, sending).await?;
            bytes = &bytes[sent.map_err(Failure::Send)?..];
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
    ) -> Result<usize, Failure> {
        let receiving = poll_fn(|cx| self.0.poll_recv(cx, buffer, max));
        let received = within(connection, deadline, receiving).await?;
        received.map_err(Failure::Receive)
    }

    /// The socket.
    pub(super) fn into_socket(self) -> Socket {
        self.0
    }
}
