//! `proxy_pass`: the session goes to a server, and bytes in both directions until one side has
//! ended.

use super::{Ended, Verdict, refuse};
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::proxying::{PassRuntime, PeerConnection, SessionPeer, connect_session};
use crate::request_log;
use crate::request_log::log_request;
use crate::snapshot::Snapshot;
use crate::template;
use sealane_conf::model::{LogLevel, Pass, StreamPass, Template};
use sealane_conf::values;
use sealane_http::StatusCode;
use sealane_io::registry::Asked;
use sealane_stream::relay::{Action, Counts, Relay, RelayError, RelaySettings, Side};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// How the relay has ended.
enum End {
    /// This side has closed its connection.
    Closed(Side),
    /// A connection broke, which is logged.
    Broken,
    /// Nothing was received or sent for `proxy_timeout`.
    TimedOut,
    /// The worker process ends (`worker_shutdown_timeout`).
    ShutDown,
}

/// Passes the session on.
///
/// # Errors
/// The status, if there is no server to pass it to.
pub(super) async fn serve(connection: &mut Connection, exchange: &mut Exchange) -> Verdict {
    let snapshot = exchange.snapshot.clone();
    let Some((pass, conf)) = pass_of(&snapshot, exchange) else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR);
    };
    exchange.transfer.request_bytes = connection.buffer.len() as u64;
    // Boxed: while bytes are moved, nothing of connecting is kept.
    let mut peer = match Box::pin(connect(connection, exchange, pass)).await {
        Ok(peer) => peer,
        Err(status) => {
            // As in nginx, which counts what it sends.
            exchange.transfer.request_bytes = 0;
            return refuse(status);
        }
    };
    let settings = RelaySettings {
        buffer_bytes: usize::try_from(pass.settings().buffer_bytes).unwrap_or(usize::MAX),
        upload_rate: rate(exchange, conf.upload_rate.as_ref()),
        download_rate: rate(exchange, conf.download_rate.as_ref()),
        half_close: conf.half_close,
    };
    let relay = Relay::new(settings, std::mem::take(&mut connection.buffer), Vec::new());
    let end = Relaying {
        relay,
        peer: &mut peer,
        moved: None,
        has_answered: false,
    }
    .run(connection, exchange, conf)
    .await;
    if let Some(states) = &mut exchange.upstream
        && let Some(attempt) = states.attempts.last_mut()
    {
        attempt.end();
    }
    note_end(exchange, end);
    peer.end();
    Err(Ended::Status(StatusCode::OK))
}

/// `proxy_pass` of the session's server.
pub(super) fn pass_of<'s>(
    snapshot: &'s Snapshot,
    exchange: &Exchange,
) -> Option<(&'s PassRuntime, &'s StreamPass)> {
    let pass = snapshot.location(exchange.location).pass.as_ref()?;
    match &pass.pass {
        Pass::Stream(conf) => Some((pass, conf)),
        _ => None,
    }
}

/// Connects to a server, unless the worker process ends.
async fn connect(
    connection: &mut Connection,
    exchange: &mut Exchange,
    pass: &PassRuntime,
) -> Result<SessionPeer<PeerConnection>, StatusCode> {
    connection.clear_deadline();
    let mut connecting = std::pin::pin!(connect_session(exchange, pass));
    poll_fn(|cx| match connecting.as_mut().poll(cx) {
        Poll::Pending if connection.is_to_abort() => Poll::Ready(Err(StatusCode::BAD_GATEWAY)),
        other => other,
    })
    .await
}

/// A rate in bytes per second; 0 for no limit.
pub(super) fn rate(exchange: &Exchange, rate: Option<&Template>) -> u64 {
    let Some(rate) = rate else {
        return 0;
    };
    let text = template::evaluate(rate, exchange);
    let found = values::size(&text);
    if found.is_none() && !text.is_empty() {
        let text = text.escape_ascii();
        log_request!(exchange, Error, "invalid size \"{text}\"");
    }
    found.unwrap_or(0)
}

/// A relay at work.
struct Relaying<'p> {
    relay: Relay,
    peer: &'p mut SessionPeer<PeerConnection>,
    /// [`Relay::progress`] when the time-out was set last; `None` while there is none.
    moved: Option<u64>,
    /// The first byte from the server has been noted.
    has_answered: bool,
}

impl Relaying<'_> {
    async fn run(
        mut self,
        connection: &mut Connection,
        exchange: &mut Exchange,
        conf: &StreamPass,
    ) -> End {
        poll_fn(|cx| self.poll(cx, connection, exchange, conf)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        exchange: &mut Exchange,
        conf: &StreamPass,
    ) -> Poll<End> {
        loop {
            let Some(server) = self.peer.stream_mut() else {
                return Poll::Ready(End::Broken);
            };
            let moved = self.relay.poll(cx, &mut connection.transport, server);
            self.note_counts(exchange);
            match moved {
                Poll::Ready(Ok(ended)) => return Poll::Ready(End::Closed(ended.by)),
                Poll::Ready(Err(error)) => {
                    log_error(exchange, &error);
                    // What was received before is still to be passed on.
                    match error.action() {
                        Action::Reading(_) => {}
                        Action::Sending(_) => return Poll::Ready(End::Broken),
                    }
                }
                Poll::Pending => break,
            }
        }
        let moved = (!self.relay.is_delayed()).then(|| self.relay.progress());
        if moved.is_none() {
            connection.clear_deadline();
        } else if self.moved != moved {
            connection.set_deadline(conf.timeout);
        }
        self.moved = moved;
        match connection.asked() {
            Asked::Abort => Poll::Ready(End::ShutDown),
            _ => connection.poll_expired(cx).map(|()| End::TimedOut),
        }
    }

    /// Keeps what variables and logs show up to date.
    fn note_counts(&mut self, exchange: &mut Exchange) {
        let Counts {
            from_client,
            to_server,
            from_server,
            to_client,
        } = self.relay.counts();
        exchange.transfer.request_bytes = from_client;
        exchange.transfer.sent_bytes = to_client;
        let states = exchange.upstream.as_deref_mut();
        let Some(attempt) = states.and_then(|states| states.attempts.last_mut()) else {
            return;
        };
        attempt.bytes_sent = self.peer.preamble_bytes() + to_server;
        attempt.bytes_received = from_server;
        if from_server > 0 && !self.has_answered {
            self.has_answered = true;
            attempt.header_time = Some(attempt.started.elapsed());
            self.peer.note_first_byte();
        }
    }
}

/// The error of a relay between these streams.
type Error = sealane_stream::relay::RelayErrorOf<sealane_tls::Connection, PeerTls>;
type PeerTls = sealane_tls::client::Connection;

/// Logs why a connection broke: a server's at level `error`, a client's only if it is not the
/// client's doing.
fn log_error(exchange: &Exchange, error: &Error) {
    let level = match error {
        RelayError::Server(..) => LogLevel::Error,
        RelayError::Client(_, error) if error.is_client_gone() => LogLevel::Info,
        RelayError::Client(..) => LogLevel::Error,
    };
    request_log::log(exchange, level, format_args!("{error}"));
}

/// Says how it ended, in nginx's words.
fn note_end(exchange: &Exchange, end: End) {
    let who = match end {
        End::Closed(Side::Client) => "client",
        End::Closed(Side::Server) => "upstream",
        End::Broken => return,
        End::TimedOut => {
            let doing = "while proxying connection";
            log_request!(
                exchange,
                Info,
                "connection timed out (110: Connection timed out) {doing}"
            );
            return;
        }
        End::ShutDown => {
            log_request!(exchange, Info, "shutdown timeout while proxying connection");
            return;
        }
    };
    request_log::log_plainly(
        exchange,
        LogLevel::Info,
        format_args!("{who} disconnected{}", exchange.moved_bytes()),
    );
}
