//! Passes requests to other servers: `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`,
//! `scgi_pass`, `grpc_pass`,
//! `memcached_pass`, `dubbo_pass`.
//!
//! ```text
//! request body (whole, or streamed) -> request -> peers, one after the other -> head
//!   -> X-Accel-Redirect | error_page | headers for the client -> body, as it comes
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `runtime`, `groups` | what the configuration means at run time |
//! | `target` | where a request goes: group and URI |
//! | `request`, `gateway` | the request that is sent: URI and header fields, or parameters |
//! | `attempt`, `next` | trying peers, and whether to try another one |
//! | `peer_choice` | which peer is next; waiting for one (`queue`) |
//! | `lease`, `peer_connection`, `identity` | the peer that was picked, the connection to it |
//! | `bound` | connections that only one client may use (`ntlm`) |
//! | `tls_settings` | TLS on such connections |
//! | `memcached`, `dubbo` | the key of a value; what a method is called with |
//! | `tunnel` | tunnels for CONNECT: where they may lead |
//! | `session` | connecting sessions of layer 4 |
//! | `websocket` | WebSockets on streams of HTTP/2 |
//! | `shared/` | connections that requests share |
//! | `conversation` | sending and receiving at the same time |
//! | `wire/` | the protocols, without I/O |
//! | `response`, `accel`, `rewrite` | from the peer's response head to the client's |
//! | `body`, `response_buffer` | the response body, and the part of it that waits for the client |
//! | `sticky`, `session_sticky` | clients that belong to a server |
//! | `cache/` | responses that are kept, and served again |
//! | `store` | responses that become files |
//! | `states` | the attempts, for variables and logs |
//! | `health/` | active health checks |
//! | `failure`, `pause` | errors and time-outs |

mod accel;
mod attempt;
mod body;
mod bound;
mod cache;
mod conversation;
mod dubbo;
mod failure;
mod gateway;
mod groups;
mod health;
mod identity;
mod lease;
pub(crate) mod live;
mod memcached;
mod next;
mod pause;
mod peer_choice;
mod peer_connection;
mod request;
mod response;
mod response_buffer;
mod rewrite;
mod runtime;
mod session;
mod session_sticky;
mod shared;
mod states;
mod sticky;
mod store;
mod target;
mod tls_settings;
mod tunnel;
mod websocket;
mod wire;

use crate::body_source::{BodySource, PendingBody};
use crate::exchange::{Exchange, RequestBody};
use crate::handlers::{self, Outcome};
use crate::request_body::{self, Arrived};
use crate::request_log::log_request;
use crate::template;
use attempt::{NoAnswer, Outbound, PeerResponse};
use body::{Buffering, ProxiedBody};
use cache::Looked;
use conversation::Conversation;
use failure::Doing;
use lease::Leased;
use sealane_conf::model::{Pass, ProxyHttpVersion, ProxyPass, UpstreamSettings};
use sealane_http::dubbo::MAX_PAYLOAD_BYTES;
use sealane_http::h1::{Framing, ResponseKind};
use sealane_http::headers::KnownHeader;
use sealane_http::outgoing::InvalidRequest;
use sealane_http::{Method, StatusCode};
use sealane_io::buffers;
use sealane_io::chain::OutputChain;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use store::StoredBody;
use wire::{Dubbo, FastCgi, Gateway, Http1, Http2, Memcached, Wire, WireEvent};

pub(crate) use accel::safe_uri;
pub(crate) use attempt::last_attempt;
pub(crate) use bound::{BoundConnections, ClosesBound};
pub use cache::CacheDirectories;
pub(crate) use cache::{
    CacheState, CacheZone, UpdateState, build_zone, purge_location, settings as cache_settings,
};
pub(crate) use groups::Groups;
pub(crate) use groups::address as peer_address;
pub use health::{HealthChecks, KnownVerdict};
pub(crate) use health::{HealthTask, take_over as take_over_verdict};
pub(crate) use identity::proxy_header;
pub(crate) use lease::GroupRuntime;
pub(crate) use peer_connection::{PeerConnection, PeerStream, close as close_peer, connect_socket};
pub(crate) use request::BodyPlan;
pub(crate) use runtime::PassRuntime;
pub(crate) use session::{SessionPeer, connect as connect_session, connect_datagrams};
pub(crate) use states::{Attempt, UpstreamStates, count};
pub(crate) use sticky::add_cookies as add_sticky_cookies;
pub(crate) use target::Target;
pub(crate) use tls_settings::TlsSettings;
pub(crate) use tunnel::{Measured, state_of as tunnel_state, state_to_set as tunnel_to_set};
pub(crate) use websocket::add_key as add_websocket_key;
pub(crate) use wire::UpstreamHead;

/// Responds with a peer's response.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    let snapshot = exchange.snapshot.clone();
    let Some(pass) = &snapshot.location(exchange.location).pass else {
        return Outcome::Declined;
    };
    let is_connect = exchange.request.head.method == Method::Connect;
    match &pass.pass {
        Pass::Tunnel(_) if is_connect => {}
        // `proxy_connect` leaves the other methods to the server.
        Pass::Tunnel(tunnel) if tunnel.connect.is_some() => return Outcome::Declined,
        Pass::Tunnel(_) => return Outcome::Status(StatusCode::NOT_ALLOWED),
        _ if is_connect => return Outcome::Status(StatusCode::NOT_ALLOWED),
        _ => {}
    }
    // Lines about peers contain it already.
    exchange.features.request_log.doing = "";
    match hand_on(exchange, pass).await {
        Ok(outcome) => outcome,
        Err(status) => Outcome::Status(status),
    }
}

async fn hand_on(exchange: &mut Exchange, pass: &PassRuntime) -> Result<Outcome, StatusCode> {
    if let Pass::Memcached(_) = &pass.pass {
        memcached::check(exchange)?;
    }
    if let Some(states) = exchange.upstream.as_deref_mut() {
        // Of another location, before an internal redirect.
        states.cache = None;
    }
    if pass.settings().cache.is_none()
        && let Some(method) = cache::purge_method(exchange, pass)
    {
        return Err(cache::purge_without_cache(exchange, method));
    }
    let mut target = Target::of(exchange, pass).await?;
    session_sticky::begin(exchange, &target.group);
    if pass.settings().cache.is_some() {
        if exchange.request.body == RequestBody::Unread && pass.settings().request_buffering {
            // As in nginx, the key may contain it.
            Box::pin(request_body::receive(exchange)).await?;
        }
        let outcome = match cache::look(exchange, pass, &target)? {
            Looked::Nothing => None,
            Looked::Answered(outcome) => Some(outcome),
            Looked::Further(further) => {
                Box::pin(cache::look_further(exchange, pass, further)).await?
            }
        };
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
    let body = prepare_body(exchange, pass).await?;
    let states = exchange.upstream.get_or_insert_default();
    states.body = body.plan;
    if pass.group.is_none() {
        states.host = Some(target.host.clone());
        states.port = Some(target.port.clone());
    }
    states.scheme = target.scheme(pass);
    let outbound = outbound(exchange, pass, &target, body)?;
    if let Some(states) = exchange.upstream.as_deref_mut() {
        states.uri = std::mem::take(&mut target.uri);
    }
    let answer = match attempt::ask(exchange, pass, &target, &outbound).await {
        Ok(answer) => answer,
        Err(NoAnswer::Status(status, cause)) => {
            return cache::failed(exchange, pass, cause, status).ok_or(status);
        }
        Err(NoAnswer::ClientGone) => return Err(StatusCode::CLIENT_CLOSED_REQUEST),
    };
    if pass.settings().cache.is_some()
        && let Some(outcome) = cache::response(exchange, pass, &answer.head).await
    {
        // The client does not get this response.
        let states = exchange.upstream.as_deref_mut();
        let served = states.and_then(|states| states.head.take());
        finish_complete(exchange, answer.head, answer.conversation, answer.lease);
        if let Some(states) = exchange.upstream.as_deref_mut() {
            states.head = served;
        }
        return Ok(outcome);
    }
    cache::invalidate(exchange, pass, target, &answer.head).await;
    Ok(pass_on(exchange, pass, answer))
}

/// The body of a request to a peer.
struct BodyToSend {
    plan: BodyPlan,
    /// The part that is there: all of it, or the beginning of one that is streamed.
    chain: OutputChain,
    /// The rest is streamed from the client.
    streamed: bool,
}

/// Reads the request body, or decides how it will be streamed.
async fn prepare_body(
    exchange: &mut Exchange,
    pass: &PassRuntime,
) -> Result<BodyToSend, StatusCode> {
    let settings = pass.settings();
    let nothing = BodyToSend {
        plan: BodyPlan::None,
        chain: OutputChain::new(),
        streamed: false,
    };
    if let Pass::Memcached(_) | Pass::Tunnel(_) = &pass.pass {
        return Ok(nothing); // and whoever comes next may read it
    }
    if let Some(template) = pass.replacing_body() {
        // It may contain the client's body: `$request_body`.
        request_body::receive(exchange).await?;
        let mut chain = OutputChain::new();
        let bytes = template::evaluate(template, exchange).into_owned();
        let plan = BodyPlan::Length(bytes.len() as u64);
        chain.push_bytes(bytes);
        return Ok(BodyToSend {
            plan,
            chain,
            streamed: false,
        });
    }
    // A copy of `mirror` has the body of the main request.
    if exchange.request.body == RequestBody::None && exchange.request.received.is_none() {
        return Ok(BodyToSend {
            plan: match exchange.request.head.framing {
                // The client has declared an empty body, and so do we.
                Framing::Length(0) if settings.pass_request_body => BodyPlan::Length(0),
                _ => BodyPlan::None,
            },
            ..nothing
        });
    }
    let is_unread =
        exchange.request.body == RequestBody::Unread && exchange.request.received.is_none();
    let received = if is_unread && !settings.request_buffering && pass.can_stream(exchange) {
        let plan = match exchange.request.head.framing {
            Framing::Length(bytes) => BodyPlan::Length(bytes),
            _ => BodyPlan::Unknown,
        };
        match request_body::receive_arrived(exchange).await? {
            Arrived::Whole(received) => received,
            Arrived::Part(_) if !settings.pass_request_body => return Ok(nothing),
            Arrived::Part(begun) => {
                let mut chain = OutputChain::new();
                chain.push_bytes(begun);
                return Ok(BodyToSend {
                    plan,
                    chain,
                    streamed: true,
                });
            }
        }
    } else {
        request_body::receive(exchange).await?
    };
    if !settings.pass_request_body {
        return Ok(nothing);
    }
    Ok(BodyToSend {
        plan: BodyPlan::Length(received.len()),
        chain: received.chain(),
        streamed: false,
    })
}

/// Frames the request.
fn outbound(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    target: &Target,
    body: BodyToSend,
) -> Result<Outbound, StatusCode> {
    let mut head = buffers::small();
    let encoded = match &pass.pass {
        // The head is encoded with the header tables of the connection.
        _ if pass.speaks_http2() => Ok(()),
        Pass::Proxy(proxy) => request::encode_head(exchange, proxy, &target.uri, &mut head)
            .map_err(|error| request::refusal("proxy", &error)),
        Pass::FastCgi(fastcgi) => gateway::encode_fastcgi(exchange, fastcgi, &mut head),
        Pass::Uwsgi(uwsgi) => gateway::encode_uwsgi(exchange, uwsgi, &mut head),
        Pass::Scgi(scgi) => {
            let body_bytes = match body.plan {
                BodyPlan::Length(bytes) => bytes,
                BodyPlan::None | BodyPlan::Unknown => 0,
            };
            gateway::encode_scgi(exchange, scgi, body_bytes, &mut head)
        }
        Pass::Grpc(_) | Pass::Tunnel(_) | Pass::Stream(_) => Ok(()),
        Pass::Memcached(memcached) => memcached::encode(exchange, memcached, &mut head),
        Pass::Dubbo(call) => {
            dubbo::encode(exchange, call, !body.chain.is_empty(), &mut head);
            Ok(())
        }
    };
    let wire = encoded.and_then(|()| {
        let family = match &pass.pass {
            Pass::Grpc(_) => "grpc",
            _ => "proxy",
        };
        wire_maker(exchange, pass, target, &body).map_err(|error| request::refusal(family, &error))
    });
    let wire = wire.map_err(|error| {
        log_request!(exchange, Error, "{error}");
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    let mut chain = OutputChain::new();
    chain.push_bytes(buffers::shared(head));
    let mut begun = OutputChain::new();
    if pass.speaks_http2() {
        // The peer's windows decide how the body is framed.
        if body.streamed {
            begun = body.chain;
        }
    } else {
        let mut framing = wire();
        for segment in body.chain.segments() {
            framing.frame_body(segment.clone(), &mut chain);
        }
        if !body.streamed {
            framing.end_body(&mut chain);
        }
    }
    if let Pass::Dubbo(_) = &pass.pass
        && chain.len() > MAX_PAYLOAD_BYTES
    {
        log_request!(
            exchange,
            Error,
            "request body is too large for a dubbo frame"
        );
        return Err(StatusCode::CONTENT_TOO_LARGE);
    }
    Ok(Outbound {
        chain,
        wire,
        begun,
        streamed: body.streamed,
    })
}

/// Makes the wire of each attempt.
type WireMaker = Box<dyn Fn() -> Wire + Send + Sync>;

fn wire_maker(
    exchange: &Exchange,
    pass: &PassRuntime,
    target: &Target,
    body: &BodyToSend,
) -> Result<WireMaker, InvalidRequest> {
    let settings = pass.settings();
    let max_head_bytes = usize::try_from(settings.buffer_bytes).unwrap_or(usize::MAX);
    let chunked = body.plan == BodyPlan::Unknown;
    let keeps_trailers = settings.pass_trailers;
    let method = match &pass.pass {
        Pass::Proxy(proxy) => Method::from_bytes(&request::method(exchange, proxy)),
        _ => exchange.request.head.method,
    };
    Ok(match &pass.pass {
        _ if pass.speaks_http2() => {
            let is_empty = !body.streamed && body.chain.is_empty();
            let head = request::http2_head(exchange, pass, target, is_empty)?;
            let whole = (!body.streamed).then(|| body.chain.clone());
            Box::new(move || {
                let wire = Http2::new(head.clone(), keeps_trailers, max_head_bytes);
                Wire::Http2(Box::new(match &whole {
                    Some(body) => wire.with_body(body.clone()),
                    None => wire,
                }))
            })
        }
        Pass::FastCgi(fastcgi) => {
            let keep_conn = fastcgi.keep_conn;
            let catches: Vec<Box<[u8]>> = fastcgi.catch_stderr.iter().cloned().collect();
            Box::new(move || {
                let wire = FastCgi::new(method, max_head_bytes, keep_conn, catches.clone());
                Wire::FastCgi(Box::new(wire))
            })
        }
        Pass::Uwsgi(_) | Pass::Scgi(_) => {
            Box::new(move || Wire::Gateway(Gateway::new(method, max_head_bytes)))
        }
        Pass::Memcached(memcached) => {
            let (key, gzip_flag) = (memcached::key(exchange, memcached), memcached.gzip_flag);
            Box::new(move || {
                let wire = Memcached::new(key.clone(), gzip_flag, max_head_bytes);
                Wire::Memcached(Box::new(wire))
            })
        }
        Pass::Tunnel(_) => Box::new(|| Wire::Tunnel(Some(tunnel::established()))),
        Pass::Dubbo(dubbo) => {
            let (has_body, max_bytes) = (!body.chain.is_empty(), dubbo.max_response_bytes);
            Box::new(move || {
                let wire = Dubbo::new(method, has_body, max_head_bytes, max_bytes);
                Wire::Dubbo(Box::new(wire))
            })
        }
        // A session is none: there is nothing to frame.
        Pass::Proxy(_) | Pass::Grpc(_) | Pass::Stream(_) => Box::new(move || {
            Wire::Http1(Http1::new(method, chunked, keeps_trailers, max_head_bytes))
        }),
    })
}

/// Turns a peer's response into the client's.
fn pass_on(exchange: &mut Exchange, pass: &PassRuntime, answer: PeerResponse) -> Outcome {
    if let Pass::Tunnel(tunnel) = &pass.pass {
        return tunnel::open(exchange, pass, tunnel, answer);
    }
    let PeerResponse {
        head,
        mut conversation,
        mut lease,
    } = answer;
    let settings = pass.settings();
    let status = head.parsed.status;
    response::log_repeated(exchange, &head);
    accel::apply(exchange, &head, settings);
    if let Pass::Memcached(memcached) = &pass.pass
        && status == StatusCode::NOT_FOUND
    {
        memcached::log_not_found(exchange, memcached);
        finish_complete(exchange, head, conversation, lease);
        return Outcome::Status(status);
    }
    if settings.intercept_errors && status.0 >= 300 && intercepts(exchange, status) {
        keep_authenticate(exchange, &head);
        cache::intercepted(exchange, pass, &head);
        finish_unread(exchange, head, lease);
        return Outcome::Status(status);
    }
    if let Some(outcome) = accel::redirect(exchange, &head, pass) {
        cache::let_go(exchange);
        finish_unread(exchange, head, lease);
        return outcome;
    }
    let is_tunnel = head.parsed.kind() == ResponseKind::SwitchingProtocols;
    if is_tunnel && exchange.request.is_subrequest {
        // No client is connected to it.
        log_request!(exchange, Error, "connection upgrade in subrequest");
        finish_unread(exchange, head, lease);
        return Outcome::Status(StatusCode::BAD_GATEWAY);
    }
    if exchange.request.head.extended_connect
        && let Err(why) = websocket::check(exchange, &head)
    {
        log_request!(exchange, Error, "{why} {}", Doing::ReadingHead);
        finish_unread(exchange, head, lease);
        return Outcome::Status(StatusCode::BAD_GATEWAY);
    }
    let framing = head.parsed.framing(conversation.method());
    response::copy_head(
        exchange,
        &head,
        framing,
        settings,
        |exchange, name, value| pass.rewrite_header(exchange, name, value),
    );
    if let Pass::Memcached(_) = &pass.pass {
        handlers::set_content_type(exchange);
    }
    let buffering = accel::buffers(&head, settings) && !is_tunnel;
    let kept = match settings.cache {
        Some(_) => {
            // `no_cache` may depend on what the origin has sent.
            if let Some(states) = exchange.upstream.as_deref_mut() {
                states.set_head(Arc::clone(&head));
            }
            cache::keep(exchange, pass, &head, conversation.method(), buffering)
        }
        None => None,
    };
    if let Some(kept) = kept {
        sticky::note_head(exchange, &mut lease);
        let rate = limit_rate(exchange, settings);
        kept.begin(exchange, head, conversation, lease, rate);
        return Outcome::Answered;
    }
    if let Some(states) = exchange.upstream.as_deref_mut() {
        states.set_head(head);
    }
    sticky::note_head(exchange, &mut lease);
    if matches!(pass.pass, Pass::Memcached(_)) && exchange.request.head.method == Method::Head {
        // There is no command for the length alone; reading a value of a megabyte to keep the
        // connection would not pay.
        lease.succeeded(None);
        end_attempt(exchange);
        return Outcome::Answered;
    }
    if is_tunnel {
        tunnel::become_tunnel(exchange, &mut conversation);
        if exchange.request.head.extended_connect {
            websocket::accept(exchange);
        }
    }
    let mut body = ProxiedBody::new(
        conversation,
        lease,
        buffering_of(exchange, settings, buffering),
        settings.ignore_client_abort && !is_tunnel,
    );
    if is_tunnel {
        exchange.response.source = Some(PendingBody::new(body.tunnel()));
        return Outcome::Answered;
    }
    body = body.stored(StoredBody::of(exchange, settings, buffering));
    let mut chain = OutputChain::new();
    // The task that waits for more registers when it asks for the rest.
    let complete = body.take_at_once(&mut Context::from_waker(Waker::noop()), &mut chain);
    if complete {
        exchange.response.body = chain;
        exchange.response.trailers = body.take_trailers(exchange);
        Box::new(body).conclude(exchange, true);
    } else {
        exchange.response.source = Some(PendingBody::new(body));
    }
    Outcome::Answered
}

/// How much of a response is kept for a slow client, and how fast it is read.
fn buffering_of(exchange: &Exchange, settings: &UpstreamSettings, is_on: bool) -> Buffering {
    Buffering::new(settings, is_on, limit_rate(exchange, settings))
}

/// `proxy_limit_rate` in bytes per second; 0 is no limit.
fn limit_rate(exchange: &Exchange, settings: &UpstreamSettings) -> u64 {
    settings.limit_rate.as_ref().map_or(0, |rate| {
        // As in nginx, an invalid size does not limit.
        sealane_conf::values::size(&template::evaluate(rate, exchange)).unwrap_or(0)
    })
}

/// `proxy_intercept_errors`: whether an `error_page` handles this status. As in nginx, within an
/// error page that is such a one itself, the built-in page does.
fn intercepts(exchange: &Exchange, status: StatusCode) -> bool {
    let mut pages = exchange.conf().error_pages.iter();
    pages.any(|page| page.codes.contains(&status.0))
}

/// An intercepted 401 keeps the challenge.
fn keep_authenticate(exchange: &mut Exchange, head: &wire::UpstreamHead) {
    if head.parsed.status != StatusCode::UNAUTHORIZED {
        return;
    }
    for header in &head.parsed.headers {
        if header.known == Some(KnownHeader::WwwAuthenticate) {
            let (name, value) = (header.name.of(&head.buffer), header.value.of(&head.buffer));
            // Checked by the parser.
            let _ = exchange.response.headers.push(name, value);
        }
    }
}

/// The body of the response is not used, so its connection is closed. The peer has done its job.
fn finish_unread(exchange: &mut Exchange, head: Arc<wire::UpstreamHead>, lease: Leased) {
    finish_with(exchange, head, lease, None);
}

/// The response has no body, so its connection may be kept.
fn finish_complete(
    exchange: &mut Exchange,
    head: Arc<wire::UpstreamHead>,
    mut conversation: Box<Conversation>,
    lease: Leased,
) {
    let event = conversation.poll_event(&mut Context::from_waker(Waker::noop()));
    let connection = match event {
        Poll::Ready(Ok(WireEvent::End(end))) if end.reusable && conversation.is_sent() => {
            conversation.into_connection()
        }
        _ => None,
    };
    finish_with(exchange, head, lease, connection);
}

fn finish_with(
    exchange: &mut Exchange,
    head: Arc<wire::UpstreamHead>,
    mut lease: Leased,
    connection: Option<PeerConnection>,
) {
    if let Some(states) = exchange.upstream.as_deref_mut() {
        states.set_head(head);
    }
    sticky::note_head(exchange, &mut lease);
    lease.succeeded(connection);
    end_attempt(exchange);
}

fn end_attempt(exchange: &mut Exchange) {
    let states = exchange.upstream.as_deref_mut();
    if let Some(attempt) = states.and_then(|states| states.attempts.last_mut()) {
        attempt.end();
    }
}

/// Whether a `proxy_pass` uses a version in which a body of unknown length can be sent.
fn knows_chunks(proxy: &ProxyPass) -> bool {
    proxy.http_version != ProxyHttpVersion::Http10
}
