//! What happens before the pipeline, for HTTP/1 requests and HTTP/2 streams alike: making the
//! exchange, choosing the server by name, normalising the URI, checking early data, reading a body
//! that is wanted first.

use crate::client_certificates;
use crate::client_link::ClientLink;
use crate::debug_log;
use crate::exchange::{Exchange, Request, RequestBody, Response, Transfer};
use crate::facts::ConnectionFacts;
use crate::features::Features;
use crate::pipeline::{self, PhaseState};
use crate::request_body;
use crate::request_log::log_request;
use crate::snapshot::{ListenerId, ServerId, Snapshot};
use crate::status;
use crate::template;
use crate::values::Values;
use crate::worker::Worker;
use sealane_http::StatusCode;
use sealane_http::h1::{Framing, RequestHead, Version};
use sealane_http::uri;
use std::sync::Arc;
use std::time::Instant;

/// A request head that has arrived, and where.
pub(crate) struct Arrival {
    pub(crate) worker: Arc<Worker>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) facts: Arc<ConnectionFacts>,
    pub(crate) listener: ListenerId,
    /// The server chosen by address and TLS name; the request's host may select another.
    pub(crate) server: ServerId,
    /// The link between the exchange and its connection.
    pub(crate) client: ClientLink,
    /// The head's bytes, and nothing behind them.
    pub(crate) buffer: Vec<u8>,
    pub(crate) head: RequestHead,
    /// When its first byte arrived.
    pub(crate) since: Instant,
    /// It may be a replay (0-RTT).
    pub(crate) early_data: bool,
}

impl Arrival {
    /// The exchange that begins with it.
    pub(crate) fn begin(self) -> Exchange {
        let Arrival { buffer, head, .. } = self;
        let body = match head.framing {
            Framing::None => RequestBody::None,
            // On a stream an empty body has an end to wait for: what comes before it may be data,
            // which makes the request malformed.
            Framing::Length(0) if !head.version.has_streams() => RequestBody::None,
            _ => RequestBody::Unread,
        };
        let snapshot = self.snapshot;
        let location = snapshot.server(self.server).default_location;
        Exchange {
            worker: self.worker,
            snapshot,
            connection: self.facts,
            listener: self.listener,
            client: self.client,
            upstream: None,
            server: self.server,
            location,
            response: Response::new(),
            transfer: Transfer::new(self.since, head.head_bytes as u64),
            phases: PhaseState::default(),
            features: Features::default(),
            request: Request {
                host: head
                    .host
                    .map_or_else(Vec::new, |host| host.of(&buffer).to_ascii_lowercase()),
                buffer,
                head,
                uri: Vec::new(),
                args: None,
                body,
                received: None,
                internal: false,
                uri_replaced: false,
                is_subrequest: false,
                early_data: self.early_data,
                values: Values::default(),
            },
        }
    }
}

/// What a request keeps that was sent as early data.
#[derive(Default)]
pub(crate) struct EarlyDataState {
    /// Its method or server does not allow early data (425).
    pub(crate) refused: bool,
}

/// Processes a valid request: chooses its server and runs the pipeline.
pub(crate) async fn answer(exchange: &mut Exchange) {
    if let Err(error) = normalise_uri(exchange) {
        log_request!(
            exchange,
            Info,
            "client sent invalid request ({error}) while reading client request line"
        );
        return pipeline::fail(exchange, StatusCode::BAD_REQUEST).await;
    }
    choose_server(exchange);
    status::begin(exchange);
    debug_log::request(exchange);
    if is_wrong_protocol(exchange) {
        log_request!(
            exchange,
            Info,
            "client attempted to request the server name for which the negotiated protocol is \
             disabled"
        );
        return pipeline::fail(exchange, StatusCode::MISDIRECTED_REQUEST).await;
    }
    if let Err(status) = client_certificates::check(exchange).await {
        return pipeline::fail(exchange, status).await;
    }
    if is_too_early(exchange) {
        // The client sends it again after the handshake (RFC 8470 section 5.2).
        exchange.features.early_data.refused = true;
        return pipeline::fail(exchange, StatusCode::TOO_EARLY).await;
    }
    if !exchange.server().conf.client_body_early_read.is_empty()
        && let Err(status) = Box::pin(read_body_early(exchange)).await
    {
        return pipeline::fail(exchange, status).await;
    }
    pipeline::handle(exchange).await;
}

/// `client_body_early_read`: the body is there before the first variable is asked for it.
///
/// # Errors
/// The status to respond with.
async fn read_body_early(exchange: &mut Exchange) -> Result<(), StatusCode> {
    let conf = &exchange.server().conf;
    let mut conditions = conf.client_body_early_read.iter();
    if conditions.any(|condition| template::is_true(condition, exchange)) {
        request_body::receive(exchange).await?;
    }
    Ok(())
}

/// Finds the server of a refused request, whose error page it gets.
pub(crate) fn recognise(exchange: &mut Exchange) {
    // The path is checked before the host.
    if normalise_uri(exchange).is_ok() && !exchange.request.host.is_empty() {
        choose_server(exchange);
    }
}

/// Fills in path and arguments.
fn normalise_uri(exchange: &mut Exchange) -> Result<(), uri::UriError> {
    let merge_slashes = exchange.server().conf.merge_slashes;
    let request = &mut exchange.request;
    let normal = uri::normalise(request.head.path.of(&request.buffer), merge_slashes)?;
    // A question mark with nothing behind it brings no arguments.
    let args = normal.args.filter(|args| !args.is_empty());
    let (path, args) = (normal.path.into_owned(), args.map(<[u8]>::to_vec));
    request.uri = path;
    request.args = args;
    Ok(())
}

/// Chooses the server by the request's host name.
fn choose_server(exchange: &mut Exchange) {
    let snapshot = exchange.snapshot.clone();
    let names = &snapshot.listener(exchange.listener).names;
    if !names.is_single() {
        let request = &exchange.request;
        exchange.server = names.find(&request.host, Some(&request.values));
        exchange.location = snapshot.server(exchange.server).default_location;
    }
}

/// Whether the request came by HTTP/2 or HTTP/3, on a connection that another server allowed, while
/// the one that it names does not have it.
fn is_wrong_protocol(exchange: &Exchange) -> bool {
    let conf = &exchange.server().conf;
    match exchange.request.head.version {
        Version::Http2 => {
            !conf.http2.enabled && !exchange.snapshot.listener(exchange.listener).options.http2
        }
        Version::Http3 => !conf.http3.enabled,
        _ => false,
    }
}

/// Whether the request is early data and may only be answered once a replay is ruled out
/// (`ssl_early_data_methods`).
fn is_too_early(exchange: &Exchange) -> bool {
    if !exchange.request.early_data {
        return false;
    }
    let Some(tls) = &exchange.server().conf.tls else {
        return true; // the name led to a server that takes no early data
    };
    let request = &exchange.request;
    // To its handler an extended CONNECT is a GET.
    let method = match request.head.extended_connect {
        true => b"CONNECT",
        false => request.head.method_name.of(&request.buffer),
    };
    let allowed = &tls.early_data;
    !(allowed.enabled
        && allowed
            .methods
            .iter()
            .any(|known| known.as_bytes() == method))
}
