//! Sessions of layer 4: the `stream` block.
//!
//! ```text
//! accept -> PROXY header -> set_real_ip_from -> set -> limit_conn -> allow, deny
//!   -> TLS handshake -> ssl_preread -> proxy_pass | pass | return -> access log
//! ```
//!
//! The phases are nginx's. A session is an [`Exchange`] without a request: so access rules, limits,
//! variables, logs, the choice of servers and connections to them are those of HTTP. What moves
//! bytes is the crate `stream`.
//!
//! | file | what it holds |
//! |---|---|
//! | `session` | what a session keeps; its exchange |
//! | `preread` | `ssl_preread` |
//! | `proxying` | `proxy_pass` |
//! | `pass` | `pass`: the connection goes to another listener |
//! | `datagrams` | sessions of UDP, which have no connection |
//! | `variables` | variables that only sessions have |

mod datagrams;
mod pass;
mod preread;
mod proxying;
mod session;
mod variables;

pub(crate) use datagrams::{DatagramAcceptor, DatagramControl};
pub(crate) use session::{SessionState, of_connection as begin_exchange};
pub(crate) use variables::append;

use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::proxy_protocol::{self, HeaderRead};
use crate::request_log::{Text, log_plainly, log_request, udp};
use crate::snapshot::{ListenerId, ServerId};
use crate::variables::assign;
use crate::{
    access, access_log, client_certificates, limits, real_ip, status, template, tls_facts,
};
use sealane_conf::model::{ListenAddress, LogLevel, StreamHandler, StreamServer};
use sealane_http::StatusCode;
use sealane_io::OutboundMessage;
use sealane_io::chain::OutputChain;
use sealane_sys::socket::local_address;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// How a session ends.
enum Ended {
    /// With this status.
    Status(StatusCode),
    /// Its connection goes on elsewhere (`pass`).
    Passed(PassedTo),
}

/// Where a connection goes on (`pass`).
pub(crate) struct PassedTo {
    pub(crate) listener: ListenerId,
    /// The address that was asked for: the listener's, or one that its wildcard accepts for.
    pub(crate) address: ListenAddress,
}

/// The end of a session.
type Verdict = Result<(), Ended>;

/// Refuses a session with this status.
fn refuse(status: StatusCode) -> Verdict {
    Err(Ended::Status(status))
}

/// Serves a connection from its beginning to the end of its session. Returns the listener that has
/// the connection from now on, if one does.
pub(crate) async fn serve(connection: &mut Connection) -> Option<PassedTo> {
    let mut exchange = session::of_connection(connection);
    announce(&mut exchange);
    match run(connection, &mut exchange).await {
        Ok(()) => exchange.response.status = StatusCode::OK,
        Err(Ended::Status(status)) => exchange.response.status = status,
        // As in nginx, what comes of it is logged there.
        Err(Ended::Passed(to)) => {
            pass::take_along(connection, &mut exchange);
            return Some(to);
        }
    }
    conclude(&mut exchange);
    connection.say_goodbye().await;
    None
}

/// A session has begun.
pub(crate) fn announce(exchange: &mut Exchange) {
    let listener = exchange.snapshot.listener(exchange.listener);
    let client = exchange.connection.client_address().with_port();
    let (udp, address) = (udp(exchange), &listener.address);
    log_plainly(
        exchange,
        LogLevel::Info,
        format_args!("{udp}client {client} connected to {address}"),
    );
    status::begin(exchange);
}

/// The session goes to this server, over this socket.
fn announce_server(exchange: &Exchange, server: &str, socket: BorrowedFd<'_>) {
    let (udp, local) = (udp(exchange), Local(socket));
    log_plainly(
        exchange,
        LogLevel::Info,
        format_args!("{udp}proxy {local} connected to {server}"),
    );
}

/// The local address of a socket. It is looked up only if it is written.
struct Local<'s>(BorrowedFd<'s>);

impl fmt::Display for Local<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match local_address(self.0) {
            Ok(Some(address)) => address.fmt(f),
            _ => f.write_str("unix:"),
        }
    }
}

/// It has ended.
fn conclude(exchange: &mut Exchange) {
    exchange.transfer.completed = true;
    access_log::log(exchange);
    status::count(exchange);
}

/// The phases.
async fn run(connection: &mut Connection, exchange: &mut Exchange) -> Verdict {
    connection.begin_session().await;
    read_proxy_header(connection, exchange).await?;
    real_ip::apply(exchange);
    set_variables(exchange);
    check_access(exchange).await?;
    handshake(connection, exchange).await?;
    if stream_of(exchange).ssl_preread {
        preread::read(connection, exchange).await?;
    }
    connection.set_nodelay(exchange.conf().tcp_nodelay);
    connection.begin_response();
    match &stream_of(exchange).handler {
        StreamHandler::Proxy => proxying::serve(connection, exchange).await,
        StreamHandler::Return(text) => {
            let text = template::evaluate(text, exchange).into_owned();
            send(connection, exchange, text).await
        }
        StreamHandler::Pass(target) => pass::find(connection, exchange, target),
        StreamHandler::None => refuse_without_handler(exchange),
    }
}

/// The server has nothing that answers.
fn refuse_without_handler(exchange: &Exchange) -> Verdict {
    log_request!(
        exchange,
        Error,
        "the server has none of \"proxy_pass\", \"pass\" and \"return\""
    );
    refuse(StatusCode::INTERNAL_SERVER_ERROR)
}

/// What the session's server does.
fn stream_of(exchange: &Exchange) -> Arc<StreamServer> {
    let stream = exchange.server().conf.stream.clone();
    stream.expect("names of a listener of stream lead to servers of stream")
}

/// The PROXY header, where the listener expects one.
async fn read_proxy_header(connection: &mut Connection, exchange: &mut Exchange) -> Verdict {
    let listener = exchange.snapshot.listener(exchange.listener);
    if !listener.options.proxy_protocol {
        return Ok(());
    }
    connection.set_deadline(stream_of(exchange).proxy_protocol_timeout);
    match proxy_protocol::read(connection).await {
        HeaderRead::Done => Ok(()),
        HeaderRead::Malformed => refuse(StatusCode::BAD_REQUEST),
        HeaderRead::Gone => Err(Ended::Status(StatusCode::OK)),
    }
}

/// `limit_conn`, then `allow` and `deny`.
async fn check_access(exchange: &mut Exchange) -> Verdict {
    let limits = exchange.conf().limits.clone();
    exchange.features.request_log.doing = " while initializing session";
    if let Some(limits) = limits
        && let Outcome::Status(status) = limits::check(exchange, limits).await
    {
        return refuse(status);
    }
    let refused = access::check(exchange).await;
    exchange.features.request_log.doing = "";
    match refused {
        Outcome::Status(status) => refuse(status),
        _ => Ok(()),
    }
}

/// The TLS handshake, where the listener has `ssl`; the name in it chooses the server.
async fn handshake(connection: &mut Connection, exchange: &mut Exchange) -> Verdict {
    let snapshot = exchange.snapshot.clone();
    let listener = snapshot.listener(exchange.listener);
    if listener.acceptor.is_none() {
        return Ok(());
    }
    // It was done where the connection comes from. As in nginx, the name in it chooses no server.
    if connection.transport.tls().is_some() {
        return check_certificates(exchange).await;
    }
    let timeout = connection.handshake_timeout();
    connection.set_deadline(timeout);
    if connection.buffer.is_empty() {
        match connection.receive(HEAD_READ_BYTES, false).await {
            Wait::Bytes => {}
            Wait::Broken(error) => {
                connection.log_broken(&error, "while SSL handshaking");
                return refuse(StatusCode::INTERNAL_SERVER_ERROR);
            }
            _ => return refuse(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
    let is_done = connection.handshake().await;
    let tls = connection.transport.tls().map(|tls| tls.connection());
    if let Some(tls) = tls.filter(|tls| tls.server().is_some()) {
        session::choose_server(exchange, ServerId(tls.selected_token()));
    }
    if let Some(info) = tls.and_then(|tls| tls.info()) {
        // Once more, for the captures of the name.
        let name = info.server_name().as_bytes();
        preread::choose_server(exchange, name);
        exchange.request.host = name.to_ascii_lowercase();
        // As in nginx, the server logs what is known of a handshake that has failed.
        if !is_done && snapshot.uses_tls_facts {
            let facts = tls_facts::collect(&info, None);
            exchange.connection.set_tls(facts);
        }
    }
    match is_done {
        true => check_certificates(exchange).await,
        false => refuse(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Whether the client's certificates are accepted.
async fn check_certificates(exchange: &mut Exchange) -> Verdict {
    exchange.features.request_log.doing = " while SSL handshaking";
    let checked = client_certificates::check(exchange).await;
    exchange.features.request_log.doing = "";
    match checked {
        Ok(()) => Ok(()),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// `set`. As in nginx before `limit_conn`, whose key may be such a variable, and before there is
/// anything of TLS to know.
fn set_variables(exchange: &mut Exchange) {
    let stream = stream_of(exchange);
    for set in &stream.sets {
        let value = template::evaluate(&set.value, exchange).into_owned();
        assign(exchange, &set.variable, value);
    }
}

/// Sends a text (`return`).
async fn send(connection: &mut Connection, exchange: &mut Exchange, text: Vec<u8>) -> Verdict {
    let length = text.len() as u64;
    let mut message = OutboundMessage::new(text, OutputChain::new());
    let sent = connection
        .send(&mut message, exchange.conf().send_timeout)
        .await;
    exchange.transfer.sent_bytes = message.sent;
    match sent {
        Ok(()) => exchange.transfer.sent_bytes = length,
        Err(Some(error)) => connection.log_broken(&error, "while sending response to client"),
        Err(None) => {}
    }
    Ok(())
}

/// Bytes for a log line.
fn shown(bytes: &[u8]) -> Text<'_> {
    Text(bytes)
}
