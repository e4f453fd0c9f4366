//! NGX_HTTP_ACCESS_PHASE and NGX_HTTP_POST_ACCESS_PHASE: `allow` and `deny`, `auth_basic` and
//! `auth_request`, as `satisfy` has them together.

mod basic;
mod credentials;
mod des_crypt;
mod md5_crypt;
mod passwords;
mod user_file;

pub(crate) use credentials::Credentials;

use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::handlers::Step;
use crate::request_log::log_request;
use crate::subrequest;
use sealane_conf::model::{Access, AddressRules, LocationConf, Satisfy};
use sealane_http::StatusCode;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What one of those says that are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It has nothing to say here.
    Declined,
    /// The request may go on.
    Granted,
    /// It may not.
    Refused(StatusCode),
}

/// Whether the client may: [`Step::Declined`] if so. Subrequests are not asked.
pub(crate) async fn check(exchange: &mut Exchange) -> Step {
    if exchange.request.is_subrequest {
        return Step::Declined;
    }
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    let Some(access) = conf.access.as_deref() else {
        return match ask_subrequest(exchange, &conf).await {
            Verdict::Refused(status) => Step::Status(status),
            _ => Step::Declined,
        };
    };
    let any = access.satisfy == Satisfy::Any;
    let mut refused = None;
    for who in [Who::Addresses, Who::Basic, Who::Subrequest] {
        match ask(exchange, &conf, access, who).await {
            Verdict::Declined => {}
            Verdict::Granted if any => {
                // Nobody need know how to authenticate.
                while exchange.response.headers.remove(b"WWW-Authenticate") {}
                return Step::Declined;
            }
            Verdict::Granted => {}
            Verdict::Refused(status @ (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED))
                if any =>
            {
                if refused != Some(StatusCode::UNAUTHORIZED) {
                    refused = Some(status);
                }
            }
            Verdict::Refused(status) => return refuse(exchange, access, status).await,
        }
    }
    let Some(status) = refused else {
        return Step::Declined;
    };
    if status == StatusCode::FORBIDDEN {
        log_request!(exchange, Error, "access forbidden by rule");
    }
    refuse(exchange, access, status).await
}

/// Who is asked, in nginx's order.
#[derive(Debug, Clone, Copy)]
enum Who {
    Addresses,
    Basic,
    Subrequest,
}

async fn ask(exchange: &mut Exchange, conf: &LocationConf, access: &Access, who: Who) -> Verdict {
    match who {
        Who::Addresses => match access.addresses.as_deref() {
            Some(rules) => by_address(exchange, rules, access.satisfy),
            None => Verdict::Declined,
        },
        Who::Basic => match &access.basic {
            Some(basic) => basic::check(exchange, basic).await,
            None => Verdict::Declined,
        },
        Who::Subrequest => ask_subrequest(exchange, conf).await,
    }
}

async fn ask_subrequest(exchange: &mut Exchange, conf: &LocationConf) -> Verdict {
    if conf.auth_request.is_none() {
        return Verdict::Declined;
    }
    match subrequest::authorise(exchange).await {
        Ok(()) => Verdict::Granted,
        Err(status) => Verdict::Refused(status),
    }
}

/// `allow` and `deny`.
fn by_address(exchange: &Exchange, rules: &AddressRules, satisfy: Satisfy) -> Verdict {
    let address = match exchange.client_address() {
        PeerAddress::Inet(address) => Some(address.ip()),
        PeerAddress::Unix => None,
    };
    match rules.verdict(address) {
        None => Verdict::Declined,
        Some(true) => Verdict::Granted,
        Some(false) => {
            // With `any` it is said once everybody was asked.
            if satisfy == Satisfy::All {
                log_request!(exchange, Error, "access forbidden by rule");
            }
            Verdict::Refused(StatusCode::FORBIDDEN)
        }
    }
}

/// `auth_delay` before a 401.
async fn refuse(exchange: &mut Exchange, access: &Access, status: StatusCode) -> Step {
    if status != StatusCode::UNAUTHORIZED || access.auth_delay.is_zero() {
        return Step::Status(status);
    }
    log_request!(exchange, Info, "delaying unauthorized request");
    match wait(exchange, access.auth_delay).await {
        true => Step::Status(status),
        false => Step::Status(StatusCode::CLIENT_CLOSED_REQUEST),
    }
}

/// Waits while the client does. False if it has gone.
pub(crate) async fn wait(exchange: &mut Exchange, delay: Duration) -> bool {
    let mut over = pin!(tokio::time::sleep(delay));
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
