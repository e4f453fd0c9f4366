//! `proxy_pass` for datagrams: the session goes to a server until there are enough responses, or
//! time is over.

use crate::client::Client;
use crate::connection::unless_aborted;
use crate::exchange::Exchange;
use crate::proxying::{PassRuntime, SessionPeer, connect_datagrams, last_attempt};
use crate::request_log::{self, log_request};
use crate::stream::proxying::{pass_of, rate};
use crate::stream::{Ended, Verdict, announce_server, refuse};
use sealane_conf::model::{LogLevel, StreamPass};
use sealane_http::StatusCode;
use sealane_io::datagram::DatagramSocket;
use sealane_io::registry::Asked;
use sealane_io::runtime;
use sealane_stream::datagram::{DatagramError, DatagramRelay, DatagramRelaySettings, Session};
use sealane_stream::relay::{Action, Side};
use std::fmt;
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::task::{Context, Poll};

/// How the relay has ended.
enum DatagramsEnd {
    /// With all that was expected (`proxy_requests`, `proxy_responses`).
    Done,
    /// Something could not be sent, which is logged.
    Broken,
    /// Nothing was received or sent for `proxy_timeout`.
    TimedOut,
    /// The worker process ends (`worker_shutdown_timeout`).
    ShutDown,
}

/// Passes the session on.
///
/// # Errors
/// The status.
pub(super) async fn serve(
    client: &mut Client,
    datagrams: Session,
    exchange: &mut Exchange,
) -> Verdict {
    let snapshot = exchange.snapshot.clone();
    let Some((pass, conf)) = pass_of(&snapshot, exchange) else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR);
    };
    // Boxed: while datagrams are moved, nothing of connecting is kept.
    let connected = Box::pin(connect(client, exchange, pass)).await;
    let (peer, prefix) = match connected {
        Ok(connected) => connected,
        Err(status) => return refuse(status),
    };
    let (socket, peer) = peer.split();
    announce_server(exchange, peer.name(), socket.as_fd());
    let settings = DatagramRelaySettings {
        requests: conf.requests,
        responses: conf.responses,
        upload_rate: rate(exchange, conf.upload_rate.as_ref()),
        download_rate: rate(exchange, conf.download_rate.as_ref()),
    };
    let mut relaying = Relaying {
        relay: DatagramRelay::new(datagrams, socket, settings, prefix),
        peer,
        moved: None,
        has_answered: false,
        has_failed: false,
    };
    let end = poll_fn(|cx| relaying.poll(cx, client, exchange, conf)).await;
    if let Some(attempt) = last_attempt(exchange) {
        attempt.end();
    }
    Err(Ended::Status(relaying.end(exchange, &end)))
}

/// Chooses a server, unless the worker process ends.
async fn connect(
    client: &Client,
    exchange: &mut Exchange,
    pass: &PassRuntime,
) -> Result<(SessionPeer<DatagramSocket>, Vec<u8>), StatusCode> {
    let is_to_abort = || client.asked() == Asked::Abort;
    let connected = unless_aborted(is_to_abort, connect_datagrams(exchange, pass)).await;
    connected.unwrap_or(Err(StatusCode::BAD_GATEWAY))
}

/// A relay at work.
struct Relaying {
    relay: DatagramRelay,
    peer: SessionPeer<()>,
    /// [`DatagramRelay::progress`] when the time-out was set last; `None` while there is none.
    moved: Option<u64>,
    /// The first datagram from the server has been noted.
    has_answered: bool,
    /// The server's machine has refused a datagram, or it does not answer.
    has_failed: bool,
}

impl Relaying {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Client,
        exchange: &mut Exchange,
        conf: &StreamPass,
    ) -> Poll<DatagramsEnd> {
        let moved = self.relay.poll(cx);
        self.note_counts(exchange);
        match moved {
            Poll::Ready(Ok(())) => return Poll::Ready(DatagramsEnd::Done),
            Poll::Ready(Err(error)) => {
                self.note_error(exchange, &error);
                if let Action::Sending(_) = error.action {
                    return Poll::Ready(DatagramsEnd::Broken);
                }
                // There may be more to receive, after others have had their turn.
                runtime::defer(cx.waker().clone());
            }
            Poll::Pending => {}
        }
        let moved = (!self.relay.is_delayed()).then(|| self.relay.progress());
        if moved.is_none() {
            client.clear_deadline();
        } else if self.moved != moved {
            client.set_deadline(conf.timeout);
        }
        self.moved = moved;
        match client.asked() {
            Asked::Abort => Poll::Ready(DatagramsEnd::ShutDown),
            // What the client sends from now on comes to another process, or to none.
            Asked::Move | Asked::Finish if conf.responses.is_some() && self.relay.is_answered() => {
                Poll::Ready(DatagramsEnd::Done)
            }
            _ => client.poll_expired(cx).map(|()| DatagramsEnd::TimedOut),
        }
    }

    /// Keeps what variables and logs show up to date.
    fn note_counts(&mut self, exchange: &mut Exchange) {
        let counts = self.relay.counts();
        exchange.transfer.request_bytes = counts.from_client.bytes;
        exchange.transfer.sent_bytes = counts.to_client.bytes;
        let Some(attempt) = last_attempt(exchange) else {
            return;
        };
        attempt.bytes_sent = counts.to_server.bytes;
        attempt.bytes_received = counts.from_server.bytes;
        if counts.from_server.packets > 0 && !self.has_answered {
            self.has_answered = true;
            attempt.header_time = Some(attempt.started.elapsed());
            self.peer.note_first_byte();
        }
    }

    /// Logs what has become of a datagram.
    fn note_error(&mut self, exchange: &Exchange, error: &DatagramError) {
        let (Action::Reading(side) | Action::Sending(side)) = error.action;
        self.has_failed |= side == Side::Server;
        request_log::log(exchange, LogLevel::Error, format_args!("{error}"));
    }

    /// Says how it ended, in nginx's words, and gives the server back. Returns the status.
    fn end(self, exchange: &Exchange, end: &DatagramsEnd) -> StatusCode {
        let is_answered = self.relay.is_answered();
        let what = match end {
            DatagramsEnd::Done => Some("udp done"),
            DatagramsEnd::TimedOut if is_answered => Some("udp timed out"),
            DatagramsEnd::TimedOut => {
                log_request!(
                    exchange,
                    Error,
                    "upstream timed out (110: Connection timed out) while proxying connection"
                );
                None
            }
            DatagramsEnd::ShutDown => {
                log_request!(exchange, Info, "shutdown timeout while proxying connection");
                None
            }
            DatagramsEnd::Broken => None,
        };
        if let Some(what) = what {
            let moved = MovedPackets(&self.relay);
            let bytes = exchange.moved_bytes();
            let line = format_args!("{what}{moved}{bytes}");
            request_log::log_plainly(exchange, LogLevel::Info, line);
        }
        let is_silent = matches!(end, DatagramsEnd::TimedOut) && !is_answered;
        self.peer.end(exchange, self.has_failed || is_silent);
        match is_silent {
            true => StatusCode::BAD_GATEWAY,
            false => StatusCode::OK,
        }
    }
}

/// `, packets from/to client:1/1`.
struct MovedPackets<'r>(&'r DatagramRelay);

impl fmt::Display for MovedPackets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, responses) = (self.0.counts().from_client.packets, self.0.responses());
        write!(f, ", packets from/to client:{requests}/{responses}")
    }
}
