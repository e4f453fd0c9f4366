//! One exchange on an HTTP/1 connection: from a parsed head to a response that has been sent
//! and a request body that has been read or discarded.

use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use crate::exchange::Exchange;
use crate::framing;
use crate::handover::KeepAlive;
use crate::pipeline;
use crate::prologue::{self, Arrival};
use intake::{Intake, Remainder};
use sealane_conf::model::{LingeringClose, LogLevel};
use sealane_http::h1::{self, Framing, ParseState, Parsed, RequestError, RequestHead, Version};
use sealane_http::status::StatusCode;
use sealane_http::{Method, Span};
use sealane_io::buffers;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

mod intake;
mod sending;

/// What the connection does after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Waits for the next request.
    KeepAlive,
    /// Closes in order.
    Close,
    /// Closes its side and reads the rest of what the client sends.
    Linger,
    /// Is closed already, or broken.
    Closed,
}

/// Why a request is refused before it is one.
enum RequestRefusal {
    /// It does not parse; with the head, if at least its line does.
    Malformed(RequestError, Option<Box<RequestHead>>),
    /// Its head did not arrive within `client_header_timeout`.
    TimedOut,
}

/// The result of reading a request head.
#[allow(clippy::large_enum_variant)] // lives for a moment, inside a box already
enum ReadHead {
    Complete(RequestHead),
    Refused(RequestRefusal),
    /// The connection is over.
    Closed,
}

/// Reads the rest of a request whose first bytes are in the buffer, and answers it.
pub(crate) async fn serve(connection: &mut Connection) -> After {
    let since = connection.begin_request();
    let head = read_head(connection).await;
    connection.begin_response();
    if !matches!(head, ReadHead::Closed) {
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
    }
    match head {
        ReadHead::Complete(head) => run(connection, head, since).await,
        ReadHead::Refused(refusal) => refuse(connection, refusal, since).await,
        ReadHead::Closed => After::Closed,
    }
}

async fn read_head(connection: &mut Connection) -> ReadHead {
    const READING: &str = "while reading client request headers";
    let mut state = ParseState::default();
    loop {
        let limits = &connection.server().head_limits;
        match h1::parse_request(&connection.buffer, &mut state, limits) {
            Ok(Parsed::Complete(head)) => return ReadHead::Complete(head),
            Ok(Parsed::Incomplete) => {}
            Err(error) => {
                let known = state.into_refused().map(Box::new);
                return ReadHead::Refused(RequestRefusal::Malformed(error, known));
            }
        }
        match connection.receive(HEAD_READ_BYTES, false).await {
            Wait::Bytes => {}
            Wait::TimedOut => return ReadHead::Refused(RequestRefusal::TimedOut),
            Wait::Asked(_) => return ReadHead::Closed,
            Wait::End => {
                let message = format!("client prematurely closed connection {READING}");
                connection.log(LogLevel::Info, &message);
                connection.say_goodbye().await;
                return ReadHead::Closed;
            }
            Wait::Broken(error) => {
                connection.log_broken(&error, READING);
                return ReadHead::Closed;
            }
        }
    }
}

/// Answers a request.
async fn run(connection: &mut Connection, head: RequestHead, since: Instant) -> After {
    let buffer = take_head(connection, head.head_bytes);
    let awaits_continue = head.expect_continue && head.version == Version::Http11;
    let mut intake = Intake::new(connection.link.feed(), head.framing, awaits_continue);
    let mut exchange = begin(connection, buffer, head, since);
    exchange.transfer.pipelined = connection.pipelined;
    note_ignored_header(connection, &exchange);
    if connection.plain_on_tls_port {
        connection.log(
            LogLevel::Info,
            "client sent plain HTTP request to HTTPS port while reading client request headers",
        );
        pipeline::fail(&mut exchange, StatusCode::PLAIN_HTTP_ON_TLS_PORT).await;
    } else {
        answer(connection, &mut exchange, &mut intake).await;
        settle_body(connection, &mut exchange, &mut intake).await;
    }
    if exchange.features.early_data.refused {
        connection.count_early_data_refused();
    }
    let age = since.saturating_duration_since(connection.facts.accepted);
    let keep_alive = may_keep_alive(connection, &exchange, age)
        && !intake.is_tunnel()
        && intake.remainder() != Remainder::Unknown;
    respond(connection, &mut exchange, &mut intake, keep_alive).await
}

/// Takes the head out of the connection's buffer; what follows it stays there.
fn take_head(connection: &mut Connection, head_bytes: usize) -> Vec<u8> {
    let mut head = std::mem::take(&mut connection.buffer);
    if head.len() > head_bytes {
        let rest = &head[head_bytes..];
        connection.buffer = buffers::small();
        connection.buffer.extend_from_slice(rest);
        head.truncate(head_bytes);
    }
    head
}

/// Goes through the pipeline.
async fn answer(connection: &mut Connection, exchange: &mut Exchange, intake: &mut Intake) {
    intake.set_body_timeout(exchange.conf().client_body_timeout);
    // Pinned here: it is large, and to hand it over would copy it.
    let work = pin!(prologue::answer(exchange));
    attend(connection, intake, work).await;
}

/// Checks the part of an unread body that has arrived, before the response is sent. If it is
/// malformed the response is 400; as in nginx, an error response stays.
async fn settle_body(connection: &mut Connection, exchange: &mut Exchange, intake: &mut Intake) {
    let is_read = exchange.response.source.is_some() && intake.has_reader();
    if is_read || exchange.response.drop_connection || intake.is_tunnel() {
        return;
    }
    let remainder = intake.drop_received(connection);
    if remainder == Remainder::Unknown && exchange.response.status.0 < 400 {
        let mut other = Box::pin(pipeline::answer_instead(exchange, StatusCode::BAD_REQUEST));
        attend(connection, intake, other.as_mut()).await;
    }
}

/// Waits for a handler, and brings it what it asks for from the client.
async fn attend(
    connection: &mut Connection,
    intake: &mut Intake,
    mut work: Pin<&mut impl Future<Output = ()>>,
) {
    poll_fn(|cx| {
        loop {
            if work.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            ready!(intake.poll_news(connection, cx, true));
        }
    })
    .await;
}

/// Responds to an invalid request.
async fn refuse(connection: &mut Connection, refusal: RequestRefusal, since: Instant) -> After {
    let mut known = None;
    let status = match refusal {
        RequestRefusal::TimedOut => {
            connection.log(
                LogLevel::Info,
                "client timed out (110: Connection timed out) while reading client request headers",
            );
            StatusCode::REQUEST_TIMEOUT
        }
        RequestRefusal::Malformed(error, head) => {
            log_malformed(connection, &error);
            known = head;
            if connection.plain_on_tls_port {
                StatusCode::PLAIN_HTTP_ON_TLS_PORT
            } else {
                error.status()
            }
        }
    };
    let buffer = std::mem::take(&mut connection.buffer);
    let is_known = known.is_some();
    let mut head = known.map_or_else(|| not_understood(&buffer), |head| *head);
    // Its body is not read, and nothing follows.
    head.framing = Framing::None;
    head.keep_alive = false;
    let mut intake = Intake::refused(connection.link.feed());
    let mut exchange = begin(connection, buffer, head, since);
    if status == StatusCode::REQUEST_TIMEOUT {
        // nginx only logs 408 and closes: the client is not listening.
        exchange.response.status = status;
        exchange.response.drop_connection = true;
    } else {
        if is_known {
            prologue::recognise(&mut exchange);
        }
        pipeline::fail(&mut exchange, status).await;
    }
    exchange.response.close = true;
    respond(connection, &mut exchange, &mut intake, false).await
}

/// What the access log shows of an invalid request: the bytes in place of its line, if there are
/// any.
fn not_understood(buffer: &[u8]) -> RequestHead {
    let line_end = memchr::memchr2(b'\r', b'\n', buffer);
    let mut head = RequestHead::default();
    head.head_bytes = buffer.len();
    head.request_line = Span::new(0, line_end.unwrap_or(0));
    let word_end = memchr::memchr(b' ', buffer).unwrap_or(0);
    if &buffer[..word_end] == b"HEAD" {
        head.method = Method::Head; // its answer has no body either
    }
    head
}

/// Whether the client and the configuration allow another request.
fn may_keep_alive(connection: &mut Connection, exchange: &Exchange, age: Duration) -> bool {
    let conf = exchange.conf();
    let head = &exchange.request.head;
    connection.keep_alive = KeepAlive::of(conf);
    head.keep_alive
        && !exchange.response.close
        && !conf.keepalive_timeout.is_zero()
        && connection.facts.requests() < conf.keepalive_requests
        && age < conf.keepalive_time
        && connection.may_go_on()
        && !connection.transport.should_end()
        && connection.has_listener()
        && !framing::keepalive_disabled(exchange)
}

fn begin(connection: &Connection, buffer: Vec<u8>, head: RequestHead, since: Instant) -> Exchange {
    let arrival = Arrival {
        worker: connection.worker.clone(),
        snapshot: connection.snapshot.clone(),
        facts: connection.facts.clone(),
        listener: connection.listener,
        server: connection.server,
        client: connection.link.clone(),
        buffer,
        head,
        since,
        early_data: connection.is_early_data(),
    };
    arrival.begin()
}

/// Sends the response, logs the exchange and prepares for the next one.
async fn respond(
    connection: &mut Connection,
    exchange: &mut Exchange,
    intake: &mut Intake,
    keep_alive: bool,
) -> After {
    if exchange.response.drop_connection {
        pipeline::conclude(exchange);
        return After::Closed;
    }
    connection.set_nodelay(exchange.conf().tcp_nodelay);
    let chunked = framing::is_chunked(exchange);
    // Without a length and without chunks only closing ends the body.
    let keep_alive = keep_alive && framing::has_end(exchange, chunked);
    let result = sending::send(connection, exchange, intake, keep_alive, chunked).await;
    let head_bytes = exchange.request.head.head_bytes as u64;
    exchange.transfer.request_bytes = head_bytes + intake.received;
    exchange.transfer.completed = result.is_ok();
    pipeline::conclude(exchange);
    let after = match result {
        Err(failure) => {
            sending::note_failure(connection, exchange, failure);
            After::Closed
        }
        Ok(()) if intake.is_tunnel() => After::Close,
        Ok(()) if keep_alive => discard_body(connection, exchange, intake).await,
        Ok(()) => end(connection, exchange, intake),
    };
    if after != After::KeepAlive {
        // Whoever sees the connection closed finds the request in the log.
        sealane_log::flush_thread_buffers();
    }
    connection.link.reset();
    buffers::give_back(std::mem::take(&mut exchange.request.buffer));
    if connection.buffer.is_empty() {
        buffers::release(&mut connection.buffer);
    }
    after
}

/// How a connection ends after its last request: with `lingering_close` if the client is, or may
/// be, still sending.
fn end(connection: &Connection, exchange: &Exchange, intake: &Intake) -> After {
    let lingers = match exchange.conf().lingering_close {
        LingeringClose::Off => false,
        LingeringClose::On => {
            intake.remainder() != Remainder::Nothing
                || !connection.buffer.is_empty()
                || connection.has_unread()
        }
        LingeringClose::Always => true,
    };
    match lingers {
        true => After::Linger,
        false => After::Close,
    }
}

/// Reads and discards the rest of the request body after the response. What follows the body stays
/// in the connection's buffer.
async fn discard_body(
    connection: &mut Connection,
    exchange: &mut Exchange,
    intake: &mut Intake,
) -> After {
    let (time, pause) = (
        exchange.conf().lingering_time,
        exchange.conf().lingering_timeout,
    );
    let mut end = None;
    loop {
        match intake.drop_received(connection) {
            Remainder::Nothing => return After::KeepAlive,
            Remainder::Unknown => return self::end(connection, exchange, intake),
            Remainder::More => {}
        }
        let now = Instant::now();
        let end = *end.get_or_insert(now + time);
        if now >= end {
            connection.log(LogLevel::Info, "lingering_time has passed while discarding the request body; closing the connection");
            return After::Close;
        }
        connection.set_deadline(pause.min(end - now));
        match connection.receive(16 * buffers::SMALL_BYTES, false).await {
            Wait::Bytes => {}
            Wait::Broken(error) => {
                connection.log_broken(&error, "while discarding the request body");
                return After::Closed;
            }
            _ => return After::Close,
        }
    }
}

fn log_malformed(connection: &Connection, error: &RequestError) {
    let quoted = match error.excerpt() {
        Some(span) => format!(": \"{}\"", span.of(&connection.buffer).escape_ascii()),
        None => String::new(),
    };
    connection.log(
        LogLevel::Info,
        &format!(
            "{}{quoted} while reading client request headers",
            error.reason()
        ),
    );
}

fn note_ignored_header(connection: &Connection, exchange: &Exchange) {
    if let Some(line) = exchange.request.head.ignored_header {
        let text = line.of(&exchange.request.buffer).escape_ascii();
        connection.log(
            LogLevel::Info,
            &format!(
                "client sent invalid header line: \"{text}\" while reading client request headers"
            ),
        );
    }
}
