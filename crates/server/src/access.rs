//! NGX_HTTP_ACCESS_PHASE and NGX_HTTP_POST_ACCESS_PHASE: `allow`, `deny`, `auth_basic` and
//! `auth_request`, combined by `satisfy`.

mod basic;
mod credentials;
mod des_crypt;
mod md5_crypt;
mod passwords;
mod user_file;

pub(crate) use credentials::Credentials;

use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::handlers::Outcome;
use crate::request_log::log_request;
use crate::subrequest;
use sealane_conf::model::{Access, AddressRules, LocationConf, Satisfy};
use sealane_http::StatusCode;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The verdict of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessVerdict {
    /// It does not apply here.
    Declined,
    /// The request may go on.
    Granted,
    /// It may not.
    Refused(StatusCode),
}

/// What access directives have said about a request.
#[derive(Default)]
pub(crate) struct AccessState {
    is_granted: bool,
}

impl AccessState {
    /// Whether one of them has let the client in: it is not just that none has refused it.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_granted
    }
}

/// Whether the client has access: [`Outcome::Declined`] if so. Subrequests are not checked.
pub(crate) async fn check(exchange: &mut Exchange) -> Outcome {
    if exchange.request.is_subrequest {
        return Outcome::Declined;
    }
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    let Some(access) = conf.access.as_deref() else {
        return match ask_subrequest(exchange, &conf).await {
            AccessVerdict::Refused(status) => Outcome::Status(status),
            AccessVerdict::Granted => granted(exchange),
            AccessVerdict::Declined => Outcome::Declined,
        };
    };
    let any = access.satisfy == Satisfy::Any;
    let (mut refused, mut is_granted) = (None, false);
    for who in [Who::Addresses, Who::Basic, Who::Subrequest] {
        match ask(exchange, &conf, access, who).await {
            AccessVerdict::Declined => {}
            AccessVerdict::Granted if any => {
                // The client need not be told how to authenticate.
                for challenge in [&b"WWW-Authenticate"[..], b"Proxy-Authenticate"] {
                    while exchange.response.headers.remove(challenge) {}
                }
                return granted(exchange);
            }
            AccessVerdict::Granted => is_granted = true,
            AccessVerdict::Refused(status)
                if any && (status == StatusCode::FORBIDDEN || asks(status)) =>
            {
                if !refused.is_some_and(asks) {
                    refused = Some(status);
                }
            }
            AccessVerdict::Refused(status) => return refuse(exchange, access, status).await,
        }
    }
    let Some(status) = refused else {
        return match is_granted {
            true => granted(exchange),
            false => Outcome::Declined,
        };
    };
    if status == StatusCode::FORBIDDEN {
        log_request!(exchange, Error, "access forbidden by rule");
    }
    refuse(exchange, access, status).await
}

/// A directive has let the client in.
fn granted(exchange: &mut Exchange) -> Outcome {
    exchange.features.access.is_granted = true;
    Outcome::Declined
}

/// The checks, in nginx's order.
#[derive(Debug, Clone, Copy)]
enum Who {
    Addresses,
    Basic,
    Subrequest,
}

async fn ask(
    exchange: &mut Exchange,
    conf: &LocationConf,
    access: &Access,
    who: Who,
) -> AccessVerdict {
    match who {
        Who::Addresses => match access.addresses.as_deref() {
            Some(rules) => by_address(exchange, rules, access.satisfy),
            None => AccessVerdict::Declined,
        },
        Who::Basic => match &access.basic {
            Some(basic) => basic::check(exchange, basic).await,
            None => AccessVerdict::Declined,
        },
        Who::Subrequest => ask_subrequest(exchange, conf).await,
    }
}

async fn ask_subrequest(exchange: &mut Exchange, conf: &LocationConf) -> AccessVerdict {
    if conf.auth_request.is_none() {
        return AccessVerdict::Declined;
    }
    match subrequest::authorise(exchange).await {
        Ok(()) => AccessVerdict::Granted,
        Err(status) => AccessVerdict::Refused(status),
    }
}

/// `allow` and `deny`.
fn by_address(exchange: &Exchange, rules: &AddressRules, satisfy: Satisfy) -> AccessVerdict {
    let address = match exchange.client_address() {
        PeerAddress::Inet(address) => Some(address.ip()),
        PeerAddress::Unix => None,
    };
    match rules.verdict(address) {
        None => AccessVerdict::Declined,
        Some(true) => AccessVerdict::Granted,
        Some(false) => {
            // With `any`, it is logged after all checks have been made.
            if satisfy == Satisfy::All {
                log_request!(exchange, Error, "access forbidden by rule");
            }
            AccessVerdict::Refused(StatusCode::FORBIDDEN)
        }
    }
}

/// Whether the client is asked for a password.
fn asks(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTH_REQUIRED
    )
}

/// `auth_delay` before a 401 or 407.
async fn refuse(exchange: &mut Exchange, access: &Access, status: StatusCode) -> Outcome {
    if !asks(status) || access.auth_delay.is_zero() {
        return Outcome::Status(status);
    }
    log_request!(exchange, Info, "delaying unauthorized request");
    match wait(exchange, access.auth_delay).await {
        true => Outcome::Status(status),
        false => Outcome::Status(StatusCode::CLIENT_CLOSED_REQUEST),
    }
}

/// Waits for `delay`. False if the client has gone meanwhile.
pub(crate) async fn wait(exchange: &mut Exchange, delay: Duration) -> bool {
    let mut over = pin!(sealane_io::runtime::sleep(delay));
    let is_there = poll_fn(|cx| {
        if exchange.client.poll_gone(cx).is_ready() {
            return Poll::Ready(false);
        }
        over.as_mut().poll(cx).map(|()| true)
    })
    .await;
    exchange.client.ignore_gone();
    if !is_there {
        log_request!(exchange, Info, "client prematurely closed connection");
    }
    is_there
}

#[cfg(test)]
mod tests;
