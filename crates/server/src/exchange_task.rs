//! One exchange on a connection: from a parsed head to a sent response and a
//! body that is out of the way.

use crate::buffers;
use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use crate::exchange::{Captures, Exchange, Progress, Request, RequestBody, Response};
use crate::framing;
use crate::pipeline;
use crate::rate::RateLimit;
use crate::registry::Asked;
use crate::transport::{SendMode, TransportError};
use sealane_conf::model::{LingeringClose, LogLevel};
use sealane_http::h1::{
    self, BodyDecoder, ConnectionHeader, Framing, ParseState, Parsed, RequestError, RequestHead,
    Version,
};
use sealane_http::status::StatusCode;
use sealane_http::uri;
use sealane_http::{Method, Span};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

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

/// Why a response could not be sent to its end.
enum SendFailure {
    TimedOut,
    Aborted,
    Broken(TransportError),
}

/// Why a request is refused before it is one.
enum Refusal {
    /// It does not parse.
    Malformed(RequestError),
    /// Its head did not arrive within `client_header_timeout`.
    TimedOut,
}

/// What came of reading a request head.
#[allow(clippy::large_enum_variant)] // lives for a moment, inside a box already
enum Head {
    Complete(RequestHead),
    Refused(Refusal),
    /// The connection is over.
    Closed,
}

/// Reads the rest of a request whose first bytes are in the buffer, and answers it.
pub(crate) async fn serve(connection: &mut Connection) -> After {
    let since = connection.begin_request();
    let head = read_head(connection).await;
    connection.begin_response();
    if !matches!(head, Head::Closed) {
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
    }
    match head {
        Head::Complete(head) => run(connection, head, since).await,
        Head::Refused(refusal) => refuse(connection, refusal, since).await,
        Head::Closed => After::Closed,
    }
}

async fn read_head(connection: &mut Connection) -> Head {
    const READING: &str = "while reading client request headers";
    let mut state = ParseState::default();
    loop {
        let limits = &connection.server().head_limits;
        match h1::parse_request(&connection.buffer, &mut state, limits) {
            Ok(Parsed::Complete(head)) => return Head::Complete(head),
            Ok(Parsed::Incomplete) => {}
            Err(error) => return Head::Refused(Refusal::Malformed(error)),
        }
        match connection.receive(HEAD_READ_BYTES, false).await {
            Wait::Bytes => {}
            Wait::TimedOut => return Head::Refused(Refusal::TimedOut),
            Wait::Asked(_) => return Head::Closed,
            Wait::End => {
                let message = format!("client prematurely closed connection {READING}");
                connection.log(LogLevel::Info, &message);
                connection.say_goodbye().await;
                return Head::Closed;
            }
            Wait::Broken(error) => {
                connection.log_broken(&error, READING);
                return Head::Closed;
            }
        }
    }
}

/// Answers a request.
async fn run(connection: &mut Connection, head: RequestHead, since: Instant) -> After {
    let buffer = std::mem::take(&mut connection.buffer);
    let mut exchange = begin(connection, buffer, head, since);
    exchange.progress.pipelined = connection.pipelined;
    note_ignored_header(connection, &exchange);
    if connection.plain_on_tls_port {
        connection.log(
            LogLevel::Info,
            "client sent plain HTTP request to HTTPS port while reading client request headers",
        );
        pipeline::fail(&mut exchange, StatusCode::PLAIN_HTTP_ON_TLS_PORT).await;
    } else {
        match normalise_uri(&mut exchange) {
            Ok(()) => {
                choose_server(connection, &mut exchange);
                if is_too_early(&exchange) {
                    // The client sends it again after the handshake (RFC 8470 section 5.2).
                    connection.count_early_data_refused();
                    pipeline::fail(&mut exchange, StatusCode::TOO_EARLY).await;
                } else {
                    pipeline::handle(&mut exchange).await;
                }
            }
            Err(error) => {
                connection.log(
                    LogLevel::Info,
                    &format!(
                        "client sent invalid request ({error}) while reading client request line"
                    ),
                );
                pipeline::fail(&mut exchange, StatusCode::BAD_REQUEST).await;
            }
        }
    }
    let age = since
        .into_std()
        .saturating_duration_since(connection.facts.accepted);
    let keep_alive = may_keep_alive(connection, &exchange, age);
    respond(connection, &mut exchange, keep_alive).await
}

/// Answers what is no request.
async fn refuse(connection: &mut Connection, refusal: Refusal, since: Instant) -> After {
    let status = match refusal {
        Refusal::TimedOut => {
            connection.log(
                LogLevel::Info,
                "client timed out (110: Connection timed out) while reading client request headers",
            );
            StatusCode::REQUEST_TIMEOUT
        }
        Refusal::Malformed(error) => {
            log_malformed(connection, &error);
            if connection.plain_on_tls_port {
                StatusCode::PLAIN_HTTP_ON_TLS_PORT
            } else {
                error.status()
            }
        }
    };
    let buffer = std::mem::take(&mut connection.buffer);
    let line_end = memchr::memchr2(b'\r', b'\n', &buffer);
    let mut head = RequestHead::default();
    // For the access log: what came as the request line, if it is there.
    head.request_line = Span::new(0, line_end.unwrap_or(0));
    head.head_bytes = buffer.len();
    let word_end = memchr::memchr(b' ', &buffer).unwrap_or(0);
    if &buffer[..word_end] == b"HEAD" {
        head.method = Method::Head; // its answer has no body either
    }
    let mut exchange = begin(connection, buffer, head, since);
    if status == StatusCode::REQUEST_TIMEOUT {
        // nginx only logs 408 and closes: the client is not listening.
        exchange.response.status = status;
        exchange.response.drop_connection = true;
    } else {
        pipeline::fail(&mut exchange, status).await;
    }
    exchange.response.close = true;
    respond(connection, &mut exchange, false).await
}

fn begin(connection: &Connection, buffer: Vec<u8>, head: RequestHead, since: Instant) -> Exchange {
    let body = match head.framing {
        Framing::None | Framing::Length(0) => RequestBody::None,
        _ => RequestBody::Unread,
    };
    let snapshot = connection.worker.snapshot.clone();
    let location = snapshot.server(connection.server).default_location;
    Exchange {
        worker: connection.worker.clone(),
        snapshot,
        connection: connection.facts.clone(),
        server: connection.server,
        location,
        response: Response::new(),
        progress: Progress::new(since.into_std(), head.head_bytes as u64),
        request: Request {
            host: head
                .host
                .map_or_else(Vec::new, |host| host.of(&buffer).to_ascii_lowercase()),
            buffer,
            head,
            uri: Vec::new(),
            args: Vec::new(),
            body,
            internal: false,
            early_data: connection.is_early_data(),
            captures: Captures::default(),
        },
    }
}

/// Fills in path and arguments.
fn normalise_uri(exchange: &mut Exchange) -> Result<(), uri::UriError> {
    let merge_slashes = exchange.server().conf.merge_slashes;
    let request = &mut exchange.request;
    let normal = uri::normalise(request.head.path.of(&request.buffer), merge_slashes)?;
    let (path, args) = (
        normal.path.into_owned(),
        normal.args.unwrap_or_default().to_vec(),
    );
    request.uri = path;
    request.args = args;
    Ok(())
}

/// Chooses the server by the request's host name.
fn choose_server(connection: &Connection, exchange: &mut Exchange) {
    let snapshot = exchange.snapshot.clone();
    let names = &snapshot.listener(connection.facts.listener).names;
    if !names.is_single() {
        let request = &mut exchange.request;
        exchange.server = names.find(&request.host, Some(&mut request.captures));
        exchange.location = snapshot.server(exchange.server).default_location;
    }
}

/// Whether the request came as early data and its method is not one that may be
/// answered before it is sure that this is no replay (`ssl_early_data_methods`).
fn is_too_early(exchange: &Exchange) -> bool {
    if !exchange.request.early_data {
        return false;
    }
    let Some(tls) = &exchange.server().conf.tls else {
        return true; // the name led to a server that takes no early data
    };
    let request = &exchange.request;
    let method = request.head.method_name.of(&request.buffer);
    let allowed = &tls.early_data;
    !(allowed.enabled
        && allowed
            .methods
            .iter()
            .any(|known| known.as_bytes() == method))
}

/// Whether the client and the configuration allow another request.
fn may_keep_alive(connection: &mut Connection, exchange: &Exchange, age: Duration) -> bool {
    let conf = exchange.conf();
    let head = &exchange.request.head;
    connection.keepalive_timeout = Some(conf.keepalive_timeout);
    head.keep_alive
        && !exchange.response.close
        && !conf.keepalive_timeout.is_zero()
        && connection.facts.requests() < conf.keepalive_requests
        && age < conf.keepalive_time
        && connection.asked() == Asked::Nothing
        && !connection.transport.should_end()
        && !framing::keepalive_disabled(exchange)
}

/// Sends the response, logs the exchange and clears the way for the next one.
async fn respond(connection: &mut Connection, exchange: &mut Exchange, keep_alive: bool) -> After {
    let mut body = BodyDecoder::new(exchange.request.head.framing);
    if exchange.response.drop_connection {
        pipeline::log_access(exchange);
        return After::Closed;
    }
    connection.set_nodelay(exchange.conf().tcp_nodelay);
    let chunked = framing::is_chunked(exchange);
    // Without a length and without chunks only closing ends the body.
    let keep_alive = keep_alive && framing::has_end(exchange, chunked);
    let unread = take_buffered_body(exchange, &mut body);
    let lingering = exchange.conf().lingering_close;
    let linger = match lingering {
        LingeringClose::Off => false,
        LingeringClose::On => !body.is_done() || unread > 0,
        LingeringClose::Always => true,
    };
    let result = send(connection, exchange, keep_alive, chunked, !keep_alive).await;
    exchange.progress.completed = result.is_ok();
    pipeline::log_access(exchange);
    let after = match result {
        Err(failure) => {
            note_failure(connection, exchange, failure);
            After::Closed
        }
        Ok(()) if !keep_alive => {
            if linger {
                After::Linger
            } else {
                After::Close
            }
        }
        Ok(()) => discard_body(connection, exchange, &mut body).await,
    };
    // What is left in the buffer is the next request.
    connection.buffer = std::mem::take(&mut exchange.request.buffer);
    if connection.buffer.is_empty() {
        buffers::release(&mut connection.buffer);
    }
    after
}

/// Removes the head and what has arrived of the body from the buffer. Returns
/// how many bytes follow the body.
fn take_buffered_body(exchange: &mut Exchange, body: &mut BodyDecoder) -> usize {
    let request = &mut exchange.request;
    let mut at = request.head.head_bytes;
    while !body.is_done() && at < request.buffer.len() {
        match body.decode(&request.buffer[at..]) {
            Ok(decoded) => at += decoded.consumed,
            Err(_) => break, // said when the rest is discarded
        }
    }
    exchange.progress.request_bytes += (at - request.head.head_bytes) as u64;
    exchange.progress.body_end = at;
    request.buffer.len() - at
}

async fn send(
    connection: &mut Connection,
    exchange: &mut Exchange,
    keep_alive: bool,
    chunked: bool,
    last: bool,
) -> Result<(), SendFailure> {
    let mut head = buffers::small();
    let wants_continue = exchange.request.head.expect_continue
        && exchange.request.head.version == Version::Http11
        && exchange.request.body == RequestBody::Unread
        && exchange.response.status != StatusCode::CONTENT_TOO_LARGE
        && exchange.progress.body_end == exchange.request.head.head_bytes;
    if wants_continue {
        // The body will be discarded; a client that waits must not wait in vain.
        head.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    let before = head.len();
    let header = if keep_alive {
        ConnectionHeader::KeepAlive {
            timeout_s: exchange.conf().keepalive_header.map(|t| t.as_secs()),
        }
    } else {
        ConnectionHeader::Close
    };
    pipeline::encode_head(exchange, &mut head, header, chunked);
    exchange.progress.head_bytes = (head.len() - before) as u64;
    if chunked {
        let trailers = pipeline::encode_trailers(exchange);
        framing::frame_as_chunks(exchange, &trailers);
    }
    let (timeout, mut mode) = {
        let conf = exchange.conf();
        (
            conf.send_timeout,
            SendMode {
                sendfile: conf.sendfile,
                max_bytes: 0,
                last,
            },
        )
    };
    let max_chunk = match exchange.conf().sendfile_max_chunk_bytes {
        0 => u64::MAX,
        bytes => bytes,
    };
    let rate = RateLimit::of(exchange);
    let mut body = std::mem::take(&mut exchange.response.body);
    let mut sent = 0;
    let mut turns = 0_u32;
    let result = loop {
        let body_sent = u64::max(sent, exchange.progress.head_bytes) - exchange.progress.head_bytes;
        match rate.allowed(body_sent, exchange.progress.started) {
            Ok(allowed) => mode.max_bytes = allowed.min(max_chunk),
            Err(pause) if head.is_empty() => {
                if let Err(failure) = wait(connection, pause).await {
                    break Err(failure);
                }
                continue;
            }
            Err(_) => mode.max_bytes = 0, // the head is never held back
        }
        if let Err(failure) =
            send_some(connection, &mut head, &mut body, mode, &mut sent, timeout).await
        {
            break Err(failure);
        }
        if head.is_empty() && body.is_empty() {
            break Ok(());
        }
        // A fast client with a large file must not keep the others waiting.
        turns += 1;
        if turns.is_multiple_of(TURNS_PER_LOOK) {
            tokio::task::yield_now().await;
        } else {
            let_others_run().await;
        }
    };
    exchange.progress.sent_bytes = sent;
    buffers::give_back(head);
    result
}

/// Turns of sending (`sendfile_max_chunk` each) between two in which the runtime
/// asks the kernel what else there is to do. That takes two or three system calls,
/// which would be half of all when each turn had them.
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

/// Sends as much as `mode` allows.
async fn send_some(
    connection: &mut Connection,
    head: &mut Vec<u8>,
    body: &mut crate::chain::OutputChain,
    mut mode: SendMode,
    sent: &mut u64,
    timeout: Duration,
) -> Result<(), SendFailure> {
    let mut waiting_since = None;
    poll_fn(|cx| {
        if let Poll::Ready(done) = connection
            .transport
            .poll_send(cx, head, body, &mut mode, sent)
        {
            return Poll::Ready(done.map_err(SendFailure::Broken));
        }
        if connection.asked() == Asked::Abort {
            return Poll::Ready(Err(SendFailure::Aborted));
        }
        // The time-out is for the pause between two successful writes.
        if waiting_since != Some(*sent) {
            waiting_since = Some(*sent);
            connection.set_deadline(timeout);
        }
        connection
            .poll_expired(cx)
            .map(|()| Err(SendFailure::TimedOut))
    })
    .await
}

/// Waits because of `limit_rate`.
async fn wait(connection: &mut Connection, pause: Duration) -> Result<(), SendFailure> {
    connection.set_deadline(pause);
    poll_fn(|cx| {
        if connection.asked() == Asked::Abort {
            return Poll::Ready(Err(SendFailure::Aborted));
        }
        connection.poll_expired(cx).map(Ok)
    })
    .await
}

/// Reads and drops what is left of the request body after the response. What
/// follows the body stays in the exchange's buffer.
async fn discard_body(
    connection: &mut Connection,
    exchange: &mut Exchange,
    body: &mut BodyDecoder,
) -> After {
    let mut buffer = std::mem::take(&mut exchange.request.buffer);
    let (time, pause) = (
        exchange.conf().lingering_time,
        exchange.conf().lingering_timeout,
    );
    let end = Instant::now() + time;
    let mut at = exchange.progress.body_end;
    loop {
        while !body.is_done() && at < buffer.len() {
            match body.decode(&buffer[at..]) {
                Ok(decoded) => at += decoded.consumed,
                Err(error) => {
                    connection.log(
                        LogLevel::Info,
                        &format!("{error} while discarding the request body"),
                    );
                    return After::Close;
                }
            }
        }
        if body.is_done() {
            break;
        }
        buffer.clear();
        at = 0;
        connection.buffer = buffer;
        let now = Instant::now();
        if now >= end {
            connection.log(LogLevel::Info, "lingering_time has passed while discarding the request body; closing the connection");
            return After::Close;
        }
        connection.set_deadline(pause.min(end - now));
        match connection.receive(16 * buffers::SMALL_BYTES, false).await {
            Wait::Bytes => buffer = std::mem::take(&mut connection.buffer),
            Wait::Broken(error) => {
                connection.log_broken(&error, "while discarding the request body");
                return After::Closed;
            }
            _ => return After::Close,
        }
    }
    buffer.drain(..at);
    exchange.request.buffer = buffer;
    After::KeepAlive
}

fn note_failure(connection: &Connection, exchange: &Exchange, failure: SendFailure) {
    match failure {
        SendFailure::Aborted => {}
        SendFailure::TimedOut => {
            connection.log(
                LogLevel::Info,
                "client timed out (110: Connection timed out) while sending response to client",
            );
            if exchange.conf().reset_timedout_connection {
                let socket = std::os::fd::AsFd::as_fd(&connection.facts.socket);
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
