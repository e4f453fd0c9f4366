//! From a parsed request to a finished response.
//!
//! ```text
//! server_rewrite -> find_config -> rewrite -> preaccess -> access -> precontent -> content
//!   ^                  ^              |                                               |   |
//!   |                  +- another URI +                                               |   v
//!   +- internal redirect: error_page, index, try_files  <-----------------------------+ filters
//! ```
//!
//! The phases are nginx's, one function for each. A phase answers with an [`Outcome`];
//! [`Outcome::Declined`] leads to the next one, a status that is not answered yet goes
//! through `error_page` and ends in a built-in page at the latest.

use crate::debug_log::debug_request;
use crate::exchange::{Exchange, RequestBody, Response};
use crate::handlers::{self, Outcome};
use crate::request_log::{Text, log_request};
use crate::router::RouteError;
use crate::{
    access, access_log, acme, debug_log, filters, limits, real_ip, req_status, request_changes,
    rewrite, status, subrequest, sysguard, traces, traffic,
};
use sealane_http::h1::Framing;
use sealane_http::{Method, StatusCode};
use std::time::Duration;

pub(crate) use crate::response_head::{encode_head, encode_trailers};

/// Internal redirects that a request may take; nginx's limit.
pub(crate) const MAX_INTERNAL_REDIRECTS: u8 = 10;

/// How far a request has come.
#[derive(Default)]
pub(crate) struct PhaseState {
    /// Internal redirects so far.
    pub(crate) redirects: u8,
    /// There is a response or an error: `$status` is that of the response.
    pub(crate) has_status: bool,
}

/// Processes a request whose server has been chosen. Afterwards `exchange.response` is final.
pub(crate) async fn handle(exchange: &mut Exchange) {
    let outcome = match exchange.request.head.method {
        Method::Trace => refuse_method(exchange, "TRACE"),
        Method::Connect => return Box::pin(tunnels::handle(exchange)).await,
        _ if exchange.request.head.extended_connect => {
            return Box::pin(tunnels::handle(exchange)).await;
        }
        _ => begin(exchange).await,
    };
    finish(exchange, outcome).await;
}

/// Processes a subrequest, from its URI on.
pub(crate) async fn handle_subrequest(exchange: &mut Exchange) {
    let outcome = begin(exchange).await;
    finish(exchange, outcome).await;
}

/// Processes a subrequest in the location `@name`.
pub(crate) async fn handle_named(exchange: &mut Exchange, name: &str) {
    let outcome = redirect_to_named(exchange, name).await;
    finish(exchange, outcome).await;
}

/// Responds to an invalid request: 400, 408, 414, 494 to 497, 505. `error_page` of the server
/// applies.
pub(crate) async fn fail(exchange: &mut Exchange, status: StatusCode) {
    exchange.location = exchange.server().default_location;
    finish(exchange, Outcome::Status(status)).await;
}

/// Responds with a status instead of the intended response, nothing of which has been sent.
/// `error_page` of the location applies.
pub(crate) async fn answer_instead(exchange: &mut Exchange, status: StatusCode) {
    if let Some(source) = exchange.response.source.take() {
        source.into_source().conclude(exchange, false);
    }
    exchange.response = Response::new();
    finish(exchange, Outcome::Status(status)).await;
}

/// Writes the lines that the location's `access_log` asks for.
pub(crate) fn log_access(exchange: &Exchange) {
    debug_log::end(exchange);
    access_log::log(exchange);
}

/// A subrequest has ended: counts it, and logs it if the configuration says so.
pub(crate) fn conclude_subrequest(asked: &Exchange) {
    status::count_upstream(asked);
    if asked.conf().log_subrequest {
        log_access(asked);
    }
}

/// After the last byte of a response, or once there will be none: logs the request, records its
/// span, and begins its `post_action`.
pub(crate) fn conclude(exchange: &Exchange) {
    status::count(exchange);
    req_status::count(exchange);
    traffic::count(exchange);
    sysguard::conclude(exchange);
    log_access(exchange);
    traces::record(exchange);
    subrequest::post_action(exchange);
}

/// nginx refuses these before anything else, and closes the connection.
fn refuse_method(exchange: &mut Exchange, method: &str) -> Outcome {
    log_request!(
        exchange,
        Info,
        "client sent {method} method while reading client request headers"
    );
    exchange.response.close = true;
    Outcome::Status(StatusCode::NOT_ALLOWED)
}

fn take_response_time(exchange: &mut Exchange) -> Option<Duration> {
    let is_passed_on = exchange.response.from_upstream;
    let states = exchange.upstream.as_deref_mut().filter(|_| is_passed_on)?;
    states.attempts.last_mut()?.response_time.take()
}

fn put_response_time(exchange: &mut Exchange, time: Option<Duration>) {
    if let Some(states) = exchange.upstream.as_deref_mut()
        && let Some(attempt) = states.attempts.last_mut()
        && time.is_some()
    {
        attempt.response_time = time;
    }
}

/// Follows outcomes until there is a response that the filters accept.
async fn finish(exchange: &mut Exchange, first: Outcome) {
    let mut outcome = first;
    loop {
        exchange.phases.has_status |= matches!(outcome, Outcome::Answered | Outcome::Status(_));
        outcome = match outcome {
            Outcome::Answered => {
                // As in nginx, headers do not show how long a response takes that is being passed
                // on, although one that was short is complete.
                let time = take_response_time(exchange);
                let applied = filters::apply(exchange);
                put_response_time(exchange, time);
                match applied {
                    Ok(()) => return debug_log::response(exchange),
                    Err(status) => Outcome::Status(status),
                }
            }
            // The content handlers are the last resort; they never decline together.
            Outcome::Declined => Outcome::Status(StatusCode::NOT_FOUND),
            Outcome::Status(StatusCode::CLOSE) => {
                exchange.response.status = StatusCode::CLOSE;
                exchange.response.drop_connection = true;
                return;
            }
            // The client has gone: a response would not be read.
            Outcome::Status(StatusCode::CLIENT_CLOSED_REQUEST) => {
                exchange.response.status = StatusCode::CLIENT_CLOSED_REQUEST;
                exchange.response.drop_connection = true;
                return;
            }
            // A response would not be read; this status is for the log.
            Outcome::Status(status) if exchange.response.drop_connection => {
                exchange.response.status = status;
                return;
            }
            Outcome::Status(status) => handlers::special::answer(exchange, status),
            // Boxed: redirects are the exception, and a future should be small.
            Outcome::Redirect { uri, args } => Box::pin(redirect(exchange, uri, args)).await,
            Outcome::Named(name) => Box::pin(redirect_to_named(exchange, &name)).await,
        }
    }
}

/// Starts over with another URI, inside the same server.
async fn redirect(exchange: &mut Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Outcome {
    if let Some(outcome) = count_redirect(exchange, "while internally redirecting to", &uri) {
        return outcome;
    }
    debug_request!(exchange, "internal redirect: \"{}\"", Text(&uri));
    exchange.request.uri = uri;
    exchange.request.args = args;
    exchange.request.uri_replaced = true;
    exchange.features.redirect();
    begin(exchange).await
}

/// Continues in the location `@name`, with the same URI.
async fn redirect_to_named(exchange: &mut Exchange, name: &str) -> Outcome {
    let shown = format!("@{name}");
    if let Some(outcome) = count_redirect(
        exchange,
        "while redirect to named location",
        shown.as_bytes(),
    ) {
        return outcome;
    }
    let Some(location) = exchange.server().tree.named(name) else {
        log_request!(exchange, Error, "could not find named location \"{shown}\"");
        return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
    };
    exchange.location = location;
    enter(exchange);
    exchange.features.redirect_to_named();
    in_location(exchange).await
}

/// Counts an internal redirect; returns an outcome if there were too many.
fn count_redirect(exchange: &mut Exchange, doing: &str, target: &[u8]) -> Option<Outcome> {
    exchange.request.internal = true;
    exchange.phases.redirects += 1;
    if exchange.phases.redirects <= MAX_INTERNAL_REDIRECTS {
        return None;
    }
    let target = Text(target);
    log_request!(
        exchange,
        Error,
        "rewrite or internal redirection cycle {doing} \"{target}\""
    );
    Some(Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR))
}

/// From a URI to a response: all phases, as nginx has them.
async fn begin(exchange: &mut Exchange) -> Outcome {
    exchange.location = exchange.server().default_location;
    exchange.features.request_log.doing = "";
    real_ip::apply(exchange);
    // Before the server's script, which may redirect everything.
    match acme::answer(exchange) {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    if exchange.server().conf.script.is_some() {
        match Box::pin(server_rewrite(exchange)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    match find_config(exchange) {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    in_location(exchange).await
}

/// The phases from the location's own script on: where a request in a named location begins.
async fn in_location(exchange: &mut Exchange) -> Outcome {
    // In nginx a part of the rewrite phase, before the script.
    if exchange.conf().tracing.is_some() {
        traces::begin(exchange);
    }
    if !exchange.snapshot.req_status_zones.is_empty() {
        req_status::begin(exchange);
    }
    // Skipped unless the location has a script.
    if exchange.conf().script.is_some() {
        match Box::pin(rewrite_until_found(exchange)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    } else {
        request_changes::apply(exchange);
    }
    match preaccess(exchange).await {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    match check_access(exchange).await {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    match precontent(exchange).await {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    handlers::content(exchange).await
}

/// NGX_HTTP_SERVER_REWRITE_PHASE: the server's script, for every URI.
async fn server_rewrite(exchange: &mut Exchange) -> Outcome {
    let server = exchange.server().conf.clone();
    match &server.script {
        Some(script) => rewrite::run(exchange, script, &[]).await.outcome,
        None => Outcome::Declined,
    }
}

/// NGX_HTTP_REWRITE_PHASE and NGX_HTTP_POST_REWRITE_PHASE, with another location for
/// every other URI.
async fn rewrite_until_found(exchange: &mut Exchange) -> Outcome {
    loop {
        let snapshot = exchange.snapshot.clone();
        let location = snapshot.location(exchange.location);
        let Some(script) = &location.conf.script else {
            request_changes::apply(exchange);
            return Outcome::Declined;
        };
        let ran = rewrite::run(exchange, script, &location.blocks).await;
        if ran.outcome != Outcome::Declined {
            return ran.outcome;
        }
        // After the script, also in a location that it leaves, and with the settings of its `if`.
        request_changes::apply(exchange);
        if !ran.uri_changed {
            return Outcome::Declined;
        }
        exchange.phases.redirects += 1;
        if exchange.phases.redirects > MAX_INTERNAL_REDIRECTS {
            let uri = Text(&exchange.request.uri);
            log_request!(
                exchange,
                Error,
                "rewrite or internal redirection cycle while processing \"{uri}\""
            );
            return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
        }
        exchange.location = exchange.server().default_location;
        match find_config(exchange) {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
}

/// NGX_HTTP_FIND_CONFIG_PHASE: the location, and what follows from it alone.
fn find_config(exchange: &mut Exchange) -> Outcome {
    if tunnels::stays_outside_locations(exchange) {
        enter(exchange);
        return Outcome::Declined;
    }
    let lacks_slash = match locate(exchange) {
        Ok(lacks_slash) => lacks_slash,
        Err(status) => return Outcome::Status(status),
    };
    if exchange.conf().internal && !exchange.request.internal {
        return Outcome::Status(StatusCode::NOT_FOUND);
    }
    enter(exchange);
    if let Some(status) = refuse_body(exchange) {
        return Outcome::Status(status);
    }
    match lacks_slash {
        true => handlers::returns::add_slash(exchange),
        false => Outcome::Declined,
    }
}

/// What applies as soon as a location is chosen: `limit_except` has other settings for methods that
/// it does not name, and `keepalive_timeout 0` ends the connection whichever location responds in
/// the end.
fn enter(exchange: &mut Exchange) {
    exchange.features.rewrite.passes = false;
    let location = exchange.snapshot.location(exchange.location);
    if let Some(limited) = &location.limited
        && !limited.spares(exchange.request.head.method)
    {
        exchange.location = limited.location;
    }
    if exchange.conf().keepalive_timeout.is_zero() {
        exchange.request.head.keep_alive = false;
    }
    debug_log::location(exchange);
}

/// NGX_HTTP_PREACCESS_PHASE: the client's address, the machine's load, and limits.
async fn preaccess(exchange: &mut Exchange) -> Outcome {
    real_ip::apply(exchange);
    if exchange.conf().sysguard.is_some() {
        match sysguard::check(exchange) {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    match exchange.conf().limits.clone() {
        None => Outcome::Declined,
        Some(limits) => Box::pin(limits::check(exchange, limits)).await,
    }
}

/// NGX_HTTP_ACCESS_PHASE: whether the client has access.
async fn check_access(exchange: &mut Exchange) -> Outcome {
    let conf = exchange.conf();
    if conf.access.is_some() || conf.auth_request.is_some() {
        return Box::pin(access::check(exchange)).await;
    }
    Outcome::Declined
}

/// NGX_HTTP_PRECONTENT_PHASE: `try_files`, then `mirror`.
async fn precontent(exchange: &mut Exchange) -> Outcome {
    if exchange.conf().try_files.is_some() {
        match Box::pin(handlers::try_files::choose(exchange)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    if !exchange.conf().mirrors.is_empty()
        && let Err(status) = Box::pin(subrequest::mirror(exchange)).await
    {
        return Outcome::Status(status);
    }
    Outcome::Declined
}

/// Chooses the location and keeps the captures of its expression. True when only a
/// slash is missing for the location.
pub(crate) fn locate(exchange: &mut Exchange) -> Result<bool, StatusCode> {
    let tree = &exchange.snapshot.server(exchange.server).tree;
    match tree.find(&exchange.request.uri) {
        Ok(found) => {
            if let Some(location) = found.location {
                exchange.location = location;
            }
            for (regex, captures) in found.around.into_iter().chain(found.captures) {
                let request = &exchange.request;
                request.values.store(regex, captures, &request.uri);
            }
            Ok(found.lacks_slash)
        }
        Err(RouteError { pattern, reason }) => {
            let uri = Text(&exchange.request.uri);
            log_request!(
                exchange,
                Alert,
                "location \"{pattern}\" could not be matched against \"{uri}\": {reason}; \
                 use an expression that backtracks less"
            );
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// `client_max_body_size` against a declared length: 413 before anything is read.
fn refuse_body(exchange: &mut Exchange) -> Option<StatusCode> {
    let limit = exchange.conf().client_max_body_bytes;
    let Framing::Length(bytes) = exchange.request.head.framing else {
        return None;
    };
    let unread =
        exchange.request.body == RequestBody::Unread && !exchange.features.request_body.refused;
    if limit == 0 || bytes <= limit || !unread {
        return None;
    }
    exchange.features.request_body.refused = true;
    log_request!(
        exchange,
        Error,
        "client intended to send too large body: {bytes} bytes"
    );
    Some(StatusCode::CONTENT_TOO_LARGE)
}

mod tunnels;

#[cfg(test)]
mod tests;
