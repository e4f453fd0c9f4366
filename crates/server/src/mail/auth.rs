//! Asking the auth service about a login (`auth_http`).

use super::client::MailClient;
use super::session::{self, MailRuntime};
use super::wire::{PeerFailure, PeerWire, within};
use crate::connection::Connection;
use crate::debug_log::debug_request;
use crate::exchange::Exchange;
use crate::request_log::log_request;
use sealane_io::runtime;
use sealane_mail::{
    Allowed, AuthHttpError, AuthResponse, Decision, LoginAttempt, Refusal, Secret, auth_request,
};
use std::fmt;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Bytes of a response that are received at a time.
const RECEIVE_BYTES: usize = 4096;

/// The longest that an auth service can have a client wait.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What the auth service has decided in the end.
pub(super) enum LoginVerdict {
    /// The client may log in there.
    Allowed(Allowed),
    /// It may not. What the auth service had it wait for is over.
    Refused(Refusal),
}

/// There is no decision, and the client is told that something has failed. The reason was logged.
pub(super) struct NoVerdict;

/// Asks, as often as the service says that it has to be asked again.
pub(super) async fn ask(
    connection: &Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
    attempt: &LoginAttempt,
    client: &MailClient,
) -> Result<LoginVerdict, NoVerdict> {
    session::doing(exchange, " while in http auth state");
    let request = auth_request(&mail.service, attempt, &client.details());
    loop {
        match ask_once(connection, exchange, mail, attempt, &request).await? {
            Decision::Allowed(allowed) => return Ok(LoginVerdict::Allowed(allowed)),
            Decision::Refused(refusal) => {
                session::log(exchange, &refusal.note());
                wait(connection, refusal.wait_seconds).await?;
                return Ok(LoginVerdict::Refused(refusal));
            }
            Decision::Wait { seconds } => wait(connection, seconds).await?,
        }
    }
}

/// The client has to wait.
async fn wait(connection: &Connection, seconds: u64) -> Result<(), NoVerdict> {
    let time = Duration::from_secs(seconds).min(LONGEST_WAIT);
    let deadline = Instant::now() + time + LONGEST_WAIT;
    let waited = within(connection, deadline, runtime::sleep(time)).await;
    waited.map_err(|_| NoVerdict)
}

/// Asks at the first address that a connection can be made to.
async fn ask_once(
    connection: &Connection,
    exchange: &Exchange,
    mail: &MailRuntime,
    attempt: &LoginAttempt,
    request: &Secret,
) -> Result<Decision, NoVerdict> {
    let deadline = Instant::now() + mail.conf.auth_http.timeout;
    for address in &mail.service_addresses {
        let wire = match PeerWire::open(connection, deadline, address).await {
            Ok(wire) => wire,
            Err(failure @ PeerFailure::Connect(_)) => {
                log_request!(exchange, Error, "{failure} to auth http server {address}");
                continue;
            }
            Err(failure) => return Err(fail(exchange, address, failure)),
        };
        debug_request!(exchange, "auth http server {address} is asked");
        let answer = converse(connection, deadline, &wire, attempt, request).await;
        return match answer {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(error)) => Err(fail(exchange, address, error)),
            Err(failure) => Err(fail(exchange, address, failure)),
        };
    }
    Err(NoVerdict)
}

/// Logs why there is no decision.
fn fail(exchange: &Exchange, address: impl fmt::Display, reason: impl fmt::Display) -> NoVerdict {
    log_request!(exchange, Error, "auth http server {address} {reason}");
    NoVerdict
}

/// The request, and the head of its response.
async fn converse(
    connection: &Connection,
    deadline: Instant,
    wire: &PeerWire,
    attempt: &LoginAttempt,
    request: &Secret,
) -> Result<Result<Decision, AuthHttpError>, PeerFailure> {
    wire.send(connection, deadline, request.as_bytes()).await?;
    let mut response = AuthResponse::new(attempt);
    // It may contain a password.
    let mut received = Zeroizing::new(Vec::with_capacity(RECEIVE_BYTES));
    loop {
        received.clear();
        let count = wire
            .receive(connection, deadline, &mut received, RECEIVE_BYTES)
            .await?;
        if count == 0 {
            return Ok(Err(response.close().err().unwrap_or(AuthHttpError::Closed)));
        }
        match response.receive(&received) {
            Ok(None) => {}
            Ok(Some(decision)) => return Ok(Ok(decision)),
            Err(error) => return Ok(Err(error)),
        }
    }
}
