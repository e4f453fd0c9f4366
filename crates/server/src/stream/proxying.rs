//! `proxy_pass`: the session goes to a server, and bytes in both directions until one side has
//! ended.

use super::{Ended, Verdict, announce_server, refuse};
use crate::connection::{Connection, unless_aborted};
use crate::exchange::Exchange;
use crate::proxying::{
    PassRuntime, PeerConnection, SessionPeer, close_peer, connect_session, last_attempt,
};
use crate::relaying::{self, RelayEnd, Watch};
use crate::request_log;
use crate::request_log::log_request;
use crate::snapshot::Snapshot;
use crate::template;
use sealane_conf::model::{LogLevel, Pass, StreamPass, Template};
use sealane_conf::values;
use sealane_http::StatusCode;
use sealane_io::Endpoint;
use sealane_stream::relay::{Counts, Relay, RelaySettings, Side};
use std::os::fd::AsFd;

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
    let peer = match Box::pin(connect(connection, exchange, pass)).await {
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
    let (mut server, peer) = peer.split();
    if let Some(stream) = server.stream_mut() {
        announce_server(
            exchange,
            peer.name(),
            stream.endpoint_mut().socket().as_fd(),
        );
    }
    let mut account = StreamAccount {
        exchange,
        peer,
        has_answered: false,
    };
    let end = match server.stream_mut() {
        Some(stream) => relaying::run(relay, connection, stream, conf.timeout, &mut account).await,
        None => RelayEnd::Broken,
    };
    let StreamAccount { exchange, peer, .. } = account;
    if let Some(attempt) = last_attempt(exchange) {
        attempt.end();
    }
    note_end(exchange, end);
    close_peer(server);
    peer.end(exchange, false);
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
    let connecting = connect_session(exchange, pass);
    let connected = unless_aborted(|| connection.is_to_abort(), connecting).await;
    connected.unwrap_or(Err(StatusCode::BAD_GATEWAY))
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

/// Keeps what variables and logs show up to date.
struct StreamAccount<'e> {
    exchange: &'e mut Exchange,
    peer: SessionPeer<()>,
    /// The first byte from the server has been noted.
    has_answered: bool,
}

impl Watch for StreamAccount<'_> {
    fn note_counts(&mut self, counts: Counts) {
        let Counts {
            from_client,
            to_server,
            from_server,
            to_client,
        } = counts;
        let exchange = &mut *self.exchange;
        exchange.transfer.request_bytes = from_client;
        exchange.transfer.sent_bytes = to_client;
        let Some(attempt) = last_attempt(exchange) else {
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

    fn note_error(&mut self, error: &relaying::Error) {
        let level = relaying::level(error);
        request_log::log(self.exchange, level, format_args!("{error}"));
    }
}

/// Says how it ended, in nginx's words.
fn note_end(exchange: &Exchange, end: RelayEnd) {
    let who = match end {
        RelayEnd::Closed(Side::Client) => "client",
        RelayEnd::Closed(Side::Server) => "upstream",
        RelayEnd::Broken => return,
        RelayEnd::TimedOut => {
            let doing = "while proxying connection";
            log_request!(
                exchange,
                Info,
                "connection timed out (110: Connection timed out) {doing}"
            );
            return;
        }
        RelayEnd::ShutDown => {
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
