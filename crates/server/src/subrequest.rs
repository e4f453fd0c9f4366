//! Requests that a request sets off: `auth_request` asks whether it may go on,
//! `mirror` shows it to others.
//!
//! A subrequest is an exchange of its own with another URI. It goes through the
//! pipeline like any other, as an internal one, and is never sent to a client.

use crate::body_source::PendingBody;
use crate::client_link::ClientLink;
use crate::exchange::{Exchange, Progress, Request, RequestBody, Response};
use crate::pipeline;
use crate::request_body::{self, ReceivedBody};
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{AuthRequest, Variable};
use sealane_conf::variables::Builtin;
use sealane_http::{Method, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// What a subrequest does with the body of the request that sets it off.
enum Body {
    /// It has none.
    None,
    /// It has the same one.
    Same(Option<ReceivedBody>),
}

/// `auth_request`: a status that takes the request's place, unless it may go on.
pub(crate) async fn authorise(exchange: &mut Exchange) -> Result<(), StatusCode> {
    if exchange.request.is_subrequest {
        return Ok(());
    }
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    let Some(auth) = &conf.auth_request else {
        return Ok(());
    };
    let mut asked = subrequest(exchange, &auth.uri, Body::None);
    asked.request.head.method = Method::Get;
    run(&mut asked).await;
    set_variables(exchange, &asked, auth);
    match asked.response.status {
        StatusCode(200..=299) => Ok(()),
        StatusCode::FORBIDDEN => Err(StatusCode::FORBIDDEN),
        StatusCode::UNAUTHORIZED => {
            let headers = &asked.response.headers;
            let says_how = headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(b"WWW-Authenticate"));
            for (name, value) in says_how {
                // It was checked when it was added to the first list.
                let _ = exchange.response.headers.push(name, value);
            }
            Err(StatusCode::UNAUTHORIZED)
        }
        status => {
            log_request!(exchange, Error, "auth request unexpected status: {status}");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// `auth_request_set`: variables of the request get what is known in the subrequest.
fn set_variables(exchange: &mut Exchange, asked: &Exchange, auth: &AuthRequest) {
    for set in &auth.set {
        let value = template::evaluate(&set.value, asked);
        match &set.variable {
            Variable::NamedCapture(index) => {
                let named = &mut exchange.request.captures.named;
                named.retain(|(known, _)| known != index);
                named.push((*index, value.as_ref().into()));
            }
            Variable::Builtin(Builtin::Args) => exchange.request.args = value.into_owned(),
            Variable::Builtin(Builtin::LimitRate) => {
                exchange.progress.limit_rate = sealane_conf::values::size(&value);
            }
            // The configuration lets no others be set.
            _ => {}
        }
    }
}

/// `mirror`: copies of the request go where it says, and nobody waits for the answers.
///
/// # Errors
/// A status when the body, which the copies share, cannot be read.
pub(crate) async fn mirror(exchange: &mut Exchange) -> Result<(), StatusCode> {
    if exchange.request.is_subrequest || exchange.conf().mirrors.is_empty() {
        return Ok(());
    }
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    if conf.mirror_request_body {
        request_body::receive(exchange).await?;
    }
    for uri in &conf.mirrors {
        let body = match conf.mirror_request_body {
            true => Body::Same(exchange.request.received.clone()),
            false => Body::None,
        };
        let mut copy = subrequest(exchange, uri, body);
        tokio::spawn(async move { run(&mut copy).await });
    }
    Ok(())
}

/// A request like this one, for another URI of the same server.
fn subrequest(exchange: &Exchange, uri: &[u8], body: Body) -> Exchange {
    let request = &exchange.request;
    let (path, args) = match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (uri, &request.args[..]),
    };
    let received = match body {
        Body::None => None,
        Body::Same(received) => received,
    };
    Exchange {
        worker: exchange.worker.clone(),
        snapshot: exchange.snapshot.clone(),
        connection: exchange.connection.clone(),
        client: ClientLink::default(),
        upstream: None,
        client_address: exchange.client_address,
        server: exchange.server,
        location: exchange.server().default_location,
        response: Response::new(),
        progress: Progress::new(Instant::now(), 0),
        request: Request {
            buffer: request.buffer.clone(),
            head: request.head.clone(),
            uri: path.to_vec(),
            args: args.to_vec(),
            host: request.host.clone(),
            body: RequestBody::None,
            received,
            internal: true,
            uri_replaced: true,
            is_subrequest: true,
            early_data: request.early_data,
            captures: request.captures.clone(),
        },
    }
}

/// Answers a subrequest; only what stands in its head is of interest.
///
/// In a box, as the pipeline leads here and is led to from here.
fn run(asked: &mut Exchange) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async move {
        pipeline::handle_subrequest(asked).await;
        if let Some(source) = asked.response.source.take() {
            PendingBody::into_source(source).conclude(asked, false);
        }
    })
}
