//! Moves bytes between a client and a server until one side has ended, with the time-outs of a
//! connection.

use crate::connection::Connection;
use crate::proxying::PeerStream;
use sealane_conf::model::LogLevel;
use sealane_io::registry::Asked;
use sealane_stream::relay::{Action, Counts, Relay, RelayError, RelayErrorOf, Side};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a relay has ended.
pub(crate) enum RelayEnd {
    /// This side has closed its connection.
    Closed(Side),
    /// A connection broke, which the watcher was told.
    Broken,
    /// Nothing was received or sent for the time-out.
    TimedOut,
    /// The worker process ends (`worker_shutdown_timeout`).
    ShutDown,
}

/// Why a connection broke.
pub(crate) type Error = RelayErrorOf<sealane_tls::Connection, sealane_tls::client::Connection>;

/// Who keeps account of a relay.
pub(crate) trait Watch {
    /// Bytes so far, after each step.
    fn note_counts(&mut self, counts: Counts);

    /// A connection broke. What was received from it before is still passed on.
    fn note_error(&mut self, error: &Error);
}

/// Relays until the end. While nothing moves, `timeout` runs.
pub(crate) async fn run(
    mut relay: Relay,
    connection: &mut Connection,
    server: &mut PeerStream,
    timeout: Duration,
    watch: &mut dyn Watch,
) -> RelayEnd {
    // `Relay::progress` when the time-out was set last; `None` while there is none.
    let mut moved = None;
    poll_fn(|cx| {
        if let Poll::Ready(end) = poll(cx, &mut relay, connection, server, watch) {
            return Poll::Ready(end);
        }
        let now = (!relay.is_delayed()).then(|| relay.progress());
        if now.is_none() {
            connection.clear_deadline();
        } else if moved != now {
            connection.set_deadline(timeout);
        }
        moved = now;
        match connection.asked() {
            Asked::Abort => Poll::Ready(RelayEnd::ShutDown),
            _ => connection.poll_expired(cx).map(|()| RelayEnd::TimedOut),
        }
    })
    .await
}

/// Moves what there is. Ready at the end.
fn poll(
    cx: &mut Context<'_>,
    relay: &mut Relay,
    connection: &mut Connection,
    server: &mut PeerStream,
    watch: &mut dyn Watch,
) -> Poll<RelayEnd> {
    loop {
        let moved = relay.poll(cx, &mut connection.transport, server);
        watch.note_counts(relay.counts());
        match moved {
            Poll::Ready(Ok(ended)) => return Poll::Ready(RelayEnd::Closed(ended.by)),
            Poll::Ready(Err(error)) => {
                watch.note_error(&error);
                // What was received before is still to be passed on.
                match error.action() {
                    Action::Reading(_) => {}
                    Action::Sending(_) => return Poll::Ready(RelayEnd::Broken),
                }
            }
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// The level for an error: that of a server, or of a client if it is not the client's doing, is
/// one for the operator.
pub(crate) fn level(error: &Error) -> LogLevel {
    match error {
        RelayError::Client(_, error) if error.is_client_gone() => LogLevel::Info,
        RelayError::Server(..) | RelayError::Client(..) => LogLevel::Error,
    }
}
