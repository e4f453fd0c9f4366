//! The login at the mail server, and the bytes behind it.

use super::client::MailClient;
use super::session::{self, MailRuntime, doing, log};
use super::wire::{PeerFailure, PeerWire};
use super::{SessionEnd, dialogue};
use crate::connection::Connection;
use crate::debug_log::debug_request;
use crate::exchange::Exchange;
use crate::proxying::{PeerConnection, proxy_header};
use crate::relaying::{self, RelayEnd, Watch};
use crate::request_log;
use crate::request_log::log_request;
use sealane_conf::model::LogLevel;
use sealane_mail::{Allowed, Backend, BackendEvent, Note, Session};
use sealane_stream::relay::{Counts, Relay, RelaySettings};
use sealane_upstream::PeerAddress;
use std::net::SocketAddr;
use std::time::Instant;
use zeroize::Zeroizing;

const READING: &str = " while reading response from upstream";

/// A client that may log in is logged in where it belongs, and passed on.
pub(super) async fn serve(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
    allowed: (Session, Allowed, &MailClient),
) -> SessionEnd {
    let (session, allowed, client) = allowed;
    let address = PeerAddress::Ip(SocketAddr::new(allowed.address, allowed.port));
    let mut backend = session.accept(allowed, &mail.proxy, &client.details());
    if let Some(state) = session::state(exchange) {
        state.login = backend.user().to_vec();
        state.upstream = Some(backend.upstream().to_owned());
    }
    debug_request!(exchange, "mail proxy upstream: {}", backend.upstream());
    let deadline = Instant::now() + mail.conf.timeout;
    let logged_in = Box::pin(log_in(
        connection,
        exchange,
        deadline,
        &address,
        &mut backend,
    ));
    match logged_in.await {
        Ok(logged_in) => relay(connection, exchange, mail, logged_in).await,
        Err(NotLoggedIn { reply }) => {
            let _ = dialogue::send(connection, exchange, reply, mail).await;
            SessionEnd::Failed
        }
    }
}

/// A client that has logged in.
struct LoggedIn {
    wire: PeerWire,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

/// The login failed, and this is what the client is told. The reason was logged.
struct NotLoggedIn {
    reply: Vec<u8>,
}

/// The dialogue with the mail server.
async fn log_in(
    connection: &Connection,
    exchange: &mut Exchange,
    deadline: Instant,
    address: &PeerAddress,
    backend: &mut Backend,
) -> Result<LoggedIn, NotLoggedIn> {
    doing(exchange, " while connecting to upstream");
    let wire = match PeerWire::open(connection, deadline, address).await {
        Ok(wire) => wire,
        Err(failure) => return Err(fail(exchange, backend, &failure)),
    };
    if let Some(header) = proxy_header(exchange) {
        doing(exchange, " while sending PROXY protocol header to upstream");
        if let Err(failure) = wire.send(connection, deadline, &header).await {
            return Err(fail(exchange, backend, &failure));
        }
    }
    doing(exchange, backend.action());
    let mut received = Zeroizing::new(Vec::new());
    loop {
        match backend.next_event() {
            Some(BackendEvent::Send(command)) => {
                let sent = wire.send(connection, deadline, command.as_bytes()).await;
                if let Err(failure) = sent {
                    return Err(fail(exchange, backend, &failure));
                }
                doing(exchange, backend.action());
            }
            Some(BackendEvent::Relay {
                to_client,
                to_server,
            }) => {
                return Ok(LoggedIn {
                    wire,
                    to_client,
                    to_server: to_server.as_bytes().to_vec(),
                });
            }
            Some(BackendEvent::Failed { note, reply }) => {
                log(exchange, &note);
                return Err(NotLoggedIn { reply });
            }
            None => {
                received.clear();
                let room = backend.room();
                let got = wire
                    .receive(connection, deadline, &mut received, room)
                    .await;
                match got {
                    Ok(0) => backend.close(),
                    Ok(_) => {
                        backend.receive(&received);
                        doing(exchange, READING);
                    }
                    Err(failure) => {
                        if !matches!(failure, PeerFailure::TimedOut) {
                            doing(exchange, READING);
                        }
                        return Err(fail(exchange, backend, &failure));
                    }
                }
            }
        }
    }
}

/// Logs what has failed on the way to the mail server.
fn fail(exchange: &Exchange, backend: &mut Backend, failure: &PeerFailure) -> NotLoggedIn {
    let (level, who) = match failure {
        PeerFailure::TimedOut => (LogLevel::Info, "upstream "),
        PeerFailure::ShutDown => (LogLevel::Info, ""),
        _ => (LogLevel::Error, ""),
    };
    request_log::log(exchange, level, format_args!("{who}{failure}"));
    // What it says about that is known better here.
    backend.close();
    let mut reply = Vec::new();
    while let Some(event) = backend.next_event() {
        if let BackendEvent::Failed { reply: told, .. } = event {
            reply = told;
        }
    }
    NotLoggedIn { reply }
}

/// Passes everything on, until one side has ended.
async fn relay(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
    logged_in: LoggedIn,
) -> SessionEnd {
    doing(exchange, "");
    log(exchange, &Note::LoggedIn);
    let LoggedIn {
        wire,
        to_client,
        mut to_server,
    } = logged_in;
    // What came along with a PROXY header may be more than the dialogue takes at a time.
    to_server.append(&mut connection.buffer);
    let settings = RelaySettings {
        buffer_bytes: mail.proxy.buffer_bytes,
        upload_rate: 0,
        download_rate: 0,
        half_close: false,
    };
    let mut peer = PeerConnection::over(wire.into_socket());
    let Some(stream) = peer.stream_mut() else {
        return SessionEnd::Failed;
    };
    let relay = Relay::new(settings, to_server, to_client);
    let mut account = SessionAccount(exchange);
    let timeout = mail.conf.proxy.timeout;
    let end = relaying::run(relay, connection, stream, timeout, &mut account).await;
    match end {
        RelayEnd::Closed(_) => log_request!(exchange, Info, "proxied session done"),
        RelayEnd::Broken => {}
        RelayEnd::TimedOut => log_request!(
            exchange,
            Info,
            "client timed out (110: Connection timed out) while proxying"
        ),
        RelayEnd::ShutDown => log_request!(exchange, Info, "shutdown timeout while proxying"),
    }
    SessionEnd::Done
}

/// Keeps what is counted of a session up to date.
struct SessionAccount<'e>(&'e mut Exchange);

impl Watch for SessionAccount<'_> {
    fn note_counts(&mut self, counts: Counts) {
        self.0.transfer.request_bytes = counts.from_client;
        self.0.transfer.sent_bytes = counts.to_client;
    }

    fn note_error(&mut self, error: &relaying::Error) {
        request_log::log(self.0, relaying::level(error), format_args!("{error}"));
    }
}
