//! The client until it has logged in.

use super::auth::{self, LoginVerdict, NoVerdict};
use super::client::{self, MailClient};
use super::session::{self, doing, log};
use super::{SessionEnd, proxying};
use crate::client_certificates;
use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use sealane_conf::model::{MailServer, VerifyClient};
use sealane_io::OutboundMessage;
use sealane_io::chain::OutputChain;
use sealane_mail::{Event, Session};
use std::time::{Duration, Instant};
use zeroize::Zeroize;

/// Speaks with the client, from the greeting on.
pub(super) async fn run(
    connection: &mut Connection,
    exchange: &mut Exchange,
    conf: &MailServer,
) -> SessionEnd {
    let host = client::host(connection, exchange, conf).await;
    let settings = session::dialogue_settings(conf);
    let mut session = Session::new(settings, exchange.is_tls(), session::salt_seed());
    doing(exchange, " while sending client greeting line");
    if !conf.greeting_delay.is_zero()
        && host_protocol_waits(conf)
        && let Some(ended) = wait_for_silence(connection, exchange, conf, &mut session).await
    {
        return ended;
    }
    let mut clock = Clock::start(conf.timeout);
    connection.set_deadline(conf.timeout);
    loop {
        match session.next_event() {
            None => {
                doing(exchange, " while in auth state");
                note_login(exchange, &session);
                if let Err(ended) = receive(connection, exchange, &mut session).await {
                    return ended;
                }
            }
            Some(Event::Note(note)) => {
                note_login(exchange, &session);
                log(exchange, &note);
            }
            Some(Event::Send(bytes)) => {
                if let Err(ended) = send(connection, exchange, bytes, conf).await {
                    return ended;
                }
                connection.set_deadline(clock.left());
            }
            Some(Event::Close(bytes)) => {
                let sent = send(connection, exchange, bytes, conf).await;
                return sent.err().unwrap_or(SessionEnd::Done);
            }
            Some(Event::StartTls(bytes)) => {
                if let Err(ended) = start_tls(connection, exchange, conf, bytes).await {
                    return ended;
                }
                session.tls_established();
                connection.set_deadline(clock.left());
            }
            Some(Event::Authenticate) => {
                note_login(exchange, &session);
                let Some(attempt) = session.attempt() else {
                    return SessionEnd::Failed;
                };
                let client = MailClient::of(exchange, conf, host.clone());
                let asked = Box::pin(auth::ask(connection, exchange, conf, attempt, &client));
                match asked.await {
                    Ok(LoginVerdict::Allowed(allowed)) => {
                        let allowed = (session, allowed, &client);
                        return proxying::serve(connection, exchange, conf, allowed).await;
                    }
                    Ok(LoginVerdict::Refused(refusal)) => session.refuse(&refusal),
                    Err(NoVerdict) => {
                        session.fail();
                        while let Some(event) = session.next_event() {
                            if let Event::Close(bytes) = event {
                                let _ = send(connection, exchange, bytes, conf).await;
                            }
                        }
                        return SessionEnd::Failed;
                    }
                }
                clock = Clock::start(conf.timeout);
                connection.set_deadline(clock.left());
            }
        }
    }
}

/// `timeout`: for everything up to a login together, as in nginx.
struct Clock {
    end: Instant,
}

impl Clock {
    fn start(time: Duration) -> Clock {
        Clock {
            end: Instant::now() + time,
        }
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Whether `smtp_greeting_delay` is about this server.
fn host_protocol_waits(conf: &MailServer) -> bool {
    conf.protocol == sealane_conf::model::MailProtocol::Smtp
}

/// `smtp_greeting_delay`: whoever speaks first is no mail client. Returns how the session has
/// ended, if it has.
async fn wait_for_silence(
    connection: &mut Connection,
    exchange: &mut Exchange,
    conf: &MailServer,
    session: &mut Session,
) -> Option<SessionEnd> {
    doing(exchange, " while in delay pipelining state");
    connection.set_deadline(conf.greeting_delay);
    let wait = match connection.buffer.is_empty() {
        true => connection.receive(session.room(), false).await,
        false => Wait::Bytes,
    };
    match wait {
        Wait::TimedOut => {
            doing(exchange, " while sending client greeting line");
            return None;
        }
        Wait::Bytes => {}
        Wait::Broken(error) => {
            connection.log_broken(&error, "while in delay pipelining state");
            return Some(SessionEnd::ByClient);
        }
        Wait::End | Wait::Asked(_) => return Some(SessionEnd::ByClient),
    }
    session.receive_before_greeting(&connection.buffer);
    connection.set_deadline(conf.timeout);
    while let Some(event) = session.next_event() {
        match event {
            Event::Note(note) => log(exchange, &note),
            Event::Send(bytes) | Event::Close(bytes) => {
                let _ = send(connection, exchange, bytes, conf).await;
            }
            Event::StartTls(_) | Event::Authenticate => {}
        }
    }
    Some(SessionEnd::ByClient)
}

/// Says in log lines with which name the client logs in.
fn note_login(exchange: &mut Exchange, session: &Session) {
    if let Some(state) = session::state(exchange) {
        state.login = session.user().to_vec();
    }
}

/// Receives what the client says next.
async fn receive(
    connection: &mut Connection,
    exchange: &mut Exchange,
    session: &mut Session,
) -> Result<(), SessionEnd> {
    if connection.buffer.is_empty() {
        let room = session.room().clamp(1, HEAD_READ_BYTES);
        match connection.receive(room, false).await {
            Wait::Bytes => {}
            Wait::TimedOut => {
                log_request!(
                    exchange,
                    Info,
                    "client timed out (110: Connection timed out)"
                );
                return Err(SessionEnd::ByClient);
            }
            Wait::Broken(error) => {
                connection.log_broken(&error, "while in auth state");
                return Err(SessionEnd::ByClient);
            }
            Wait::End | Wait::Asked(_) => return Err(SessionEnd::ByClient),
        }
    }
    let taken = session.receive(&connection.buffer);
    exchange.transfer.request_bytes += taken as u64;
    // It may be a password.
    match taken == connection.buffer.len() {
        true => connection.buffer.zeroize(),
        false => {
            connection.buffer[..taken].zeroize();
            connection.buffer.drain(..taken);
        }
    }
    Ok(())
}

/// Sends what the client is told.
pub(super) async fn send(
    connection: &mut Connection,
    exchange: &mut Exchange,
    bytes: Vec<u8>,
    conf: &MailServer,
) -> Result<(), SessionEnd> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut message = OutboundMessage::new(bytes, OutputChain::new());
    let sent = connection.send(&mut message, conf.timeout).await;
    exchange.transfer.sent_bytes += message.sent;
    match sent {
        Ok(()) => Ok(()),
        Err(Some(error)) => {
            connection.log_broken(&error, "while sending to client");
            Err(SessionEnd::ByClient)
        }
        Err(None) => {
            log_request!(
                exchange,
                Info,
                "client timed out (110: Connection timed out)"
            );
            Err(SessionEnd::ByClient)
        }
    }
}

/// STARTTLS or STLS: what has arrived behind the command was not encrypted, and counts for nothing.
async fn start_tls(
    connection: &mut Connection,
    exchange: &mut Exchange,
    conf: &MailServer,
    answer: Vec<u8>,
) -> Result<(), SessionEnd> {
    connection.buffer.zeroize();
    send(connection, exchange, answer, conf).await?;
    if let Some(state) = session::state(exchange) {
        state.is_starttls = true;
    }
    begin_tls(connection, exchange, conf).await
}

/// The TLS handshake, and the client's certificate.
pub(super) async fn begin_tls(
    connection: &mut Connection,
    exchange: &mut Exchange,
    conf: &MailServer,
) -> Result<(), SessionEnd> {
    doing(exchange, " while SSL handshaking");
    if connection.buffer.is_empty() {
        match connection.receive(HEAD_READ_BYTES, false).await {
            Wait::Bytes => {}
            Wait::Broken(error) => {
                connection.log_broken(&error, "while SSL handshaking");
                return Err(SessionEnd::ByClient);
            }
            Wait::TimedOut => {
                log_request!(
                    exchange,
                    Info,
                    "client timed out (110: Connection timed out)"
                );
                return Err(SessionEnd::ByClient);
            }
            Wait::End | Wait::Asked(_) => return Err(SessionEnd::ByClient),
        }
    }
    if !connection.handshake().await {
        return Err(SessionEnd::ByClient);
    }
    if client_certificates::check(exchange).await.is_ok() {
        return Ok(());
    }
    let protocol = session::settings(conf).protocol;
    let has_none = client_certificates::chain(exchange).is_none();
    let required = exchange.server().conf.verify_client == VerifyClient::On;
    let told = match has_none && required {
        true => protocol.no_certificate(),
        false => protocol.certificate_error(),
    };
    let _ = send(connection, exchange, told.to_vec(), conf).await;
    Err(SessionEnd::ByClient)
}
