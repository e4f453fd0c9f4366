//! The client until it has logged in.

use super::auth::{self, LoginVerdict, NoVerdict};
use super::client::{self, MailClient};
use super::session::{self, MailRuntime, doing, log};
use super::{SessionEnd, proxying};
use crate::client_certificates;
use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use sealane_conf::model::VerifyClient;
use sealane_io::OutboundMessage;
use sealane_io::chain::OutputChain;
use sealane_mail::{Event, Session};
use std::time::{Duration, Instant};
use zeroize::Zeroize;

/// Speaks with the client, from the greeting on.
pub(super) async fn run(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
) -> SessionEnd {
    let host = client::host(connection, exchange, mail).await;
    let settings = mail.settings.clone();
    let mut session = Session::new(settings, exchange.is_tls(), session::salt_seed());
    doing(exchange, " while sending client greeting line");
    if !mail.conf.greeting_delay.is_zero()
        && let Some(ended) = wait_for_silence(connection, exchange, mail, &mut session).await
    {
        return ended;
    }
    let mut clock = Clock::start(mail.conf.timeout);
    connection.set_deadline(mail.conf.timeout);
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
                if let Err(ended) = send(connection, exchange, bytes, mail).await {
                    return ended;
                }
                connection.set_deadline(clock.left());
            }
            Some(Event::Close(bytes)) => {
                let sent = send(connection, exchange, bytes, mail).await;
                return sent.err().unwrap_or(SessionEnd::Done);
            }
            Some(Event::StartTls(bytes)) => {
                if let Err(ended) = start_tls(connection, exchange, mail, bytes).await {
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
                let client = MailClient::of(exchange, mail, host.clone());
                let asked = Box::pin(auth::ask(connection, exchange, mail, attempt, &client));
                match asked.await {
                    Ok(LoginVerdict::Allowed(allowed)) => {
                        let allowed = (session, allowed, &client);
                        return proxying::serve(connection, exchange, mail, allowed).await;
                    }
                    Ok(LoginVerdict::Refused(refusal)) => session.refuse(&refusal),
                    Err(NoVerdict) => {
                        session.fail();
                        while let Some(event) = session.next_event() {
                            if let Event::Close(bytes) = event {
                                let _ = send(connection, exchange, bytes, mail).await;
                            }
                        }
                        return SessionEnd::Failed;
                    }
                }
                clock = Clock::start(mail.conf.timeout);
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

/// `smtp_greeting_delay`: whoever speaks first is no mail client. Returns how the session has
/// ended, if it has.
async fn wait_for_silence(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
    session: &mut Session,
) -> Option<SessionEnd> {
    doing(exchange, " while in delay pipelining state");
    connection.set_deadline(mail.conf.greeting_delay);
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
    connection.set_deadline(mail.conf.timeout);
    while let Some(event) = session.next_event() {
        match event {
            Event::Note(note) => log(exchange, &note),
            Event::Send(bytes) | Event::Close(bytes) => {
                let _ = send(connection, exchange, bytes, mail).await;
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

/// The session is over: the client has not said or taken in time what was waited for.
fn time_is_over(exchange: &Exchange) -> SessionEnd {
    log_request!(
        exchange,
        Info,
        "client timed out (110: Connection timed out)"
    );
    SessionEnd::ByClient
}

/// Waits for bytes of the client, at most so many, unless there are some.
async fn wait_for_bytes(
    connection: &mut Connection,
    exchange: &Exchange,
    max: usize,
) -> Result<(), SessionEnd> {
    if !connection.buffer.is_empty() {
        return Ok(());
    }
    match connection.receive(max, false).await {
        Wait::Bytes => Ok(()),
        Wait::TimedOut => Err(time_is_over(exchange)),
        Wait::Broken(error) => {
            let doing = exchange.features.request_log.doing;
            connection.log_broken(&error, doing.trim_start());
            Err(SessionEnd::ByClient)
        }
        Wait::End | Wait::Asked(_) => Err(SessionEnd::ByClient),
    }
}

/// Receives what the client says next.
async fn receive(
    connection: &mut Connection,
    exchange: &mut Exchange,
    session: &mut Session,
) -> Result<(), SessionEnd> {
    let room = session.room().clamp(1, HEAD_READ_BYTES);
    wait_for_bytes(connection, exchange, room).await?;
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
    mail: &MailRuntime,
) -> Result<(), SessionEnd> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut message = OutboundMessage::new(bytes, OutputChain::new());
    let sent = connection.send(&mut message, mail.conf.timeout).await;
    exchange.transfer.sent_bytes += message.sent;
    match sent {
        Ok(()) => Ok(()),
        Err(Some(error)) => {
            connection.log_broken(&error, "while sending to client");
            Err(SessionEnd::ByClient)
        }
        Err(None) => Err(time_is_over(exchange)),
    }
}

/// STARTTLS or STLS: what has arrived behind the command was not encrypted, and counts for nothing.
async fn start_tls(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
    answer: Vec<u8>,
) -> Result<(), SessionEnd> {
    connection.buffer.zeroize();
    send(connection, exchange, answer, mail).await?;
    if let Some(state) = session::state(exchange) {
        state.is_starttls = true;
    }
    begin_tls(connection, exchange, mail).await
}

/// The TLS handshake, and the client's certificate.
pub(super) async fn begin_tls(
    connection: &mut Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
) -> Result<(), SessionEnd> {
    doing(exchange, " while SSL handshaking");
    wait_for_bytes(connection, exchange, HEAD_READ_BYTES).await?;
    if !connection.handshake().await {
        return Err(SessionEnd::ByClient);
    }
    if client_certificates::check(exchange).await.is_ok() {
        return Ok(());
    }
    let protocol = mail.settings.protocol;
    let has_none = client_certificates::chain(exchange).is_none();
    let required = exchange.server().conf.verify_client == VerifyClient::On;
    let told = match has_none && required {
        true => protocol.no_certificate(),
        false => protocol.certificate_error(),
    };
    let _ = send(connection, exchange, told.to_vec(), mail).await;
    Err(SessionEnd::ByClient)
}
