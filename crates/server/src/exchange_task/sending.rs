//! Sends a response over HTTP/1: its head, the part of its body that is there, and the part
//! that is still arriving.

use super::intake::Intake;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::filters;
use crate::framing;
use crate::pipeline;
use crate::rate::RateLimit;
use crate::transport::TransportError;
use sealane_conf::model::LogLevel;
use sealane_http::StatusCode;
use sealane_http::h1::ConnectionHeader;
use sealane_io::OutboundMessage;
use sealane_io::buffers::{self, BATCH_BYTES};
use sealane_io::chain::OutputChain;
use sealane_io::registry::Asked;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Why a response could not be sent to its end.
pub(super) enum SendFailure {
    /// Nothing could be sent for `send_timeout`.
    TimedOut,
    /// The worker stops.
    Aborted,
    /// The connection broke.
    Broken(TransportError),
    /// The body ended too early.
    Source,
    /// The client closed the connection while `limit_rate` held the response back.
    ClientGone,
}

/// A response that is being sent.
struct ResponseInFlight {
    /// The rest of it, preceded by interim responses.
    message: OutboundMessage,
    /// It is the last response of the connection.
    is_last: bool,
    source: Option<Box<dyn BodySource>>,
    /// The source has failed: what it returned before is sent, without an end.
    is_cut: bool,
    /// There was something of the body.
    has_body: bool,
    /// The body of a source is framed as chunks.
    chunked: bool,
    timeout: Duration,
    /// Bytes sent when the pause that `timeout` limits began.
    waiting_since: Option<u64>,
}

/// Sends the response of an exchange.
///
/// # Errors
/// See [`SendFailure`]; the connection cannot be kept.
pub(super) async fn send(
    connection: &mut Connection,
    exchange: &mut Exchange,
    intake: &mut Intake,
    keep_alive: bool,
    chunked: bool,
) -> Result<(), SendFailure> {
    framing::leave_out_unwanted_source(exchange);
    let discards = exchange.response.status != StatusCode::CONTENT_TOO_LARGE;
    let mut head = intake.take_early(discards);
    if head.capacity() == 0 {
        head = buffers::small();
    }
    let before = head.len();
    let header = connection_header(exchange, keep_alive);
    pipeline::encode_head(exchange, &mut head, header, chunked);
    exchange.transfer.head_bytes = (head.len() - before) as u64;
    let source = exchange
        .response
        .source
        .take()
        .map(PendingBody::into_source);
    if chunked && source.is_none() {
        filters::add_trailers(exchange);
        let trailers = pipeline::encode_trailers(exchange);
        framing::frame_as_chunks(exchange, &trailers);
    }
    let mut body = std::mem::take(&mut exchange.response.body);
    let has_body = !body.is_empty();
    if chunked && source.is_some() {
        body = framing::chunk_of(body);
    }
    let rate = RateLimit::of(exchange);
    if !rate.is_unlimited() {
        // The head counts, and is held back like the body.
        let mut limited = OutputChain::new();
        limited.push_made(head.split_off(before));
        limited.append(body);
        body = limited;
    }
    let conf = exchange.conf();
    let mut sending = ResponseInFlight {
        message: OutboundMessage {
            sendfile: conf.sendfile,
            ..OutboundMessage::new(head, body)
        },
        is_last: !keep_alive,
        has_body,
        source,
        is_cut: false,
        chunked,
        timeout: conf.send_timeout,
        waiting_since: None,
    };
    intake.set_body_timeout(conf.client_body_timeout);
    let result = sending.run(connection, exchange, intake, rate).await;
    exchange.transfer.sent_bytes = sending.message.sent;
    buffers::give_back(sending.message.head);
    if let Some(source) = sending.source {
        source.conclude(exchange, result.is_ok());
    }
    result
}

fn connection_header(exchange: &Exchange, keep_alive: bool) -> ConnectionHeader {
    if exchange.response.status == StatusCode::SWITCHING_PROTOCOLS {
        return ConnectionHeader::Upgrade;
    }
    if !keep_alive {
        return ConnectionHeader::Close;
    }
    ConnectionHeader::KeepAlive {
        timeout_s: exchange.conf().keepalive_header.map(|t| t.as_secs()),
    }
}

/// The result of one turn of sending.
enum SendTurn {
    /// The limit of a turn has been sent; there is more.
    More,
    /// Everything that is there has been sent; the source has to provide more.
    Drained,
    Done,
}

impl ResponseInFlight {
    async fn run(
        &mut self,
        connection: &mut Connection,
        exchange: &mut Exchange,
        intake: &mut Intake,
        rate: RateLimit,
    ) -> Result<(), SendFailure> {
        let max_chunk = match exchange.conf().sendfile_max_chunk_bytes {
            0 => u64::MAX,
            bytes => bytes,
        };
        let mut turns = 0_u32;
        loop {
            match rate.allowed(self.message.sent, exchange.transfer.started) {
                Ok(allowed) => self.message.budget = allowed.min(max_chunk),
                Err(pause) if self.message.head.is_empty() && !self.message.body.is_empty() => {
                    connection.set_deadline(pause);
                    poll_fn(|cx| self.poll_pause(cx, connection, exchange, intake)).await?;
                    continue;
                }
                Err(_) => self.message.budget = 0, // interim responses are never held back
            }
            let turn = poll_fn(|cx| self.poll_turn(cx, connection, exchange, intake)).await?;
            match turn {
                SendTurn::Done if self.is_cut => return Err(SendFailure::Source),
                SendTurn::Done => return Ok(()),
                SendTurn::Drained => continue,
                SendTurn::More => {}
            }
            // A fast client with a large file must not keep the others waiting.
            turns += 1;
            if turns.is_multiple_of(TURNS_PER_LOOK) {
                sealane_io::runtime::yield_now().await;
            } else {
                let_others_run().await;
            }
        }
    }

    /// Sends as much as the mode allows, and handles both directions meanwhile.
    fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        exchange: &mut Exchange,
        intake: &mut Intake,
    ) -> Poll<Result<SendTurn, SendFailure>> {
        loop {
            let held = self.holds_head();
            // What TLS has sealed is not sent yet.
            let has_output = |sending: &ResponseInFlight, connection: &Connection| {
                !sending.holds_head()
                    && (sending.message.has_output() || connection.transport.has_unsent())
            };
            let mut news = false;
            if self.source.is_some() {
                let may_expire = !has_output(self, connection);
                let room = (BATCH_BYTES as u64).saturating_sub(self.message.body.len());
                news = self.poll_both(cx, connection, exchange, intake, room, may_expire);
            }
            if held && self.is_cut && !self.has_body {
                self.message.clear();
            }
            if has_output(self, connection) {
                match self.poll_output(cx, connection) {
                    Poll::Ready(done) => return Poll::Ready(done.map(|()| self.turn())),
                    Poll::Pending if news => continue,
                    Poll::Pending => return self.poll_send_timeout(cx, connection),
                }
            }
            if self.source.is_none() || (!self.message.body.is_empty() && !self.holds_head()) {
                return Poll::Ready(Ok(self.turn()));
            }
            if !news {
                if connection.asked() == Asked::Abort {
                    return Poll::Ready(Err(SendFailure::Aborted));
                }
                return Poll::Pending;
            }
        }
    }

    /// Polls what comes from the client, and the source. Whether there is news.
    fn poll_both(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        exchange: &mut Exchange,
        intake: &mut Intake,
        room: u64,
        may_expire: bool,
    ) -> bool {
        let had_asked = intake.wants_bytes();
        let mut news = intake.poll_news(connection, cx, may_expire).is_ready();
        news |= self.poll_source(cx, exchange, room).is_ready();
        // A source that could send what it had wants more now. That may have come already, and
        // nobody would be woken for it.
        if !news && !had_asked && intake.wants_bytes() {
            news = intake.poll_news(connection, cx, may_expire).is_ready();
        }
        news
    }

    /// Waits because of `limit_rate`. The source keeps reading meanwhile.
    fn poll_pause(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        exchange: &mut Exchange,
        intake: &mut Intake,
    ) -> Poll<Result<(), SendFailure>> {
        if connection.asked() == Asked::Abort {
            return Poll::Ready(Err(SendFailure::Aborted));
        }
        while self.source.is_some() {
            if !self.poll_both(cx, connection, exchange, intake, 0, false) {
                break;
            }
        }
        // A source watches the client itself, as far as it is to.
        if self.source.is_none() && intake.poll_gone(connection, cx).is_ready() {
            return Poll::Ready(Err(SendFailure::ClientGone));
        }
        connection.poll_expired(cx).map(Ok)
    }

    /// Whether nothing may be sent before the source has given something.
    fn holds_head(&self) -> bool {
        let source = self.source.as_deref();
        self.message.sent == 0 && !self.has_body && source.is_some_and(|s| s.holds_head())
    }

    fn turn(&self) -> SendTurn {
        match (self.message.is_empty(), self.source.is_some()) {
            (true, false) => SendTurn::Done,
            (true, true) => SendTurn::Drained,
            (false, _) => SendTurn::More,
        }
    }

    /// Asks the source, if there still is one, for `room` bytes at most.
    ///
    /// # Errors
    /// When the source has failed; the body is cut then.
    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        room: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let Some(source) = &mut self.source else {
            return Poll::Pending;
        };
        let mut piece = OutputChain::new();
        let filled = ready!(source.poll_fill(cx, exchange, &mut piece, room));
        if self.chunked {
            piece = framing::chunk_of(piece);
        }
        // What there was before an error is sent, too.
        self.has_body |= !piece.is_empty();
        self.message.body.append(piece);
        let filled = match filled {
            Ok(filled) => filled,
            Err(error) => {
                self.is_cut = true;
                if let Some(source) = self.source.take() {
                    source.conclude(exchange, false);
                }
                return Poll::Ready(Err(error));
            }
        };
        if filled == Filled::End {
            let trailers = source.take_trailers(exchange);
            if let Some(source) = self.source.take() {
                source.conclude(exchange, true);
            }
            if self.chunked {
                for (name, value) in trailers.iter() {
                    // Checked when they were received.
                    let _ = exchange.response.trailers.push(name, value);
                }
                filters::add_trailers(exchange);
                let trailers = pipeline::encode_trailers(exchange);
                self.message.body.append(framing::last_chunk(&trailers));
            }
        }
        Poll::Ready(Ok(filled))
    }

    fn poll_output(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<Result<(), SendFailure>> {
        // Without close_notify the client can tell that the body was cut.
        self.message.last = self.is_last && self.source.is_none() && !self.is_cut;
        let sending = connection.transport.poll_send(cx, &mut self.message);
        sending.map(|done| done.map_err(SendFailure::Broken))
    }

    /// The client takes nothing: `send_timeout` limits for how long.
    fn poll_send_timeout(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<Result<SendTurn, SendFailure>> {
        if connection.asked() == Asked::Abort {
            return Poll::Ready(Err(SendFailure::Aborted));
        }
        // The time-out is for the pause between two successful writes.
        let sent = self.message.sent;
        if self.waiting_since != Some(sent) {
            self.waiting_since = Some(sent);
            connection.set_deadline(self.timeout);
        }
        connection
            .poll_expired(cx)
            .map(|()| Err(SendFailure::TimedOut))
    }
}

/// Turns of sending (`sendfile_max_chunk` each) between two polls of the kernel by the runtime. A
/// poll takes two or three system calls, which would be half of all if every turn had one.
const TURNS_PER_LOOK: u32 = 4;

/// Lets the tasks run that are ready now.
async fn let_others_run() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Logs why the client did not get the whole response.
pub(super) fn note_failure(connection: &Connection, exchange: &Exchange, failure: SendFailure) {
    match failure {
        // Already logged where the cause is known.
        SendFailure::Aborted | SendFailure::Source => {}
        SendFailure::ClientGone => connection.log(
            LogLevel::Info,
            "client prematurely closed connection while sending response to client",
        ),
        SendFailure::TimedOut => {
            connection.log(
                LogLevel::Info,
                "client timed out (110: Connection timed out) while sending response to client",
            );
            if exchange.conf().reset_timedout_connection {
                let socket = std::os::fd::AsFd::as_fd(connection.facts.socket());
                let _ = sealane_sys::socket::set_linger(socket, Some(Duration::ZERO));
            }
        }
        SendFailure::Broken(error) => {
            let path = String::from_utf8_lossy(&exchange.request.uri).into_owned();
            connection.log_broken(
                &error,
                &format!(
                    "while sending response to client, uri: \"{}\"",
                    path.escape_default()
                ),
            );
        }
    }
}
