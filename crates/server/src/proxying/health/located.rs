//! `health_check`: a request as the location would send it, with its protocol, TLS, header fields
//! and time-outs.

use super::expect;
use super::runner::Asking;
use super::tasks::Located;
use super::{Fault, KeptProbe};
use crate::client_link::ClientLink;
use crate::exchange::{Exchange, Request, RequestBody, Response, Transfer};
use crate::features::Features;
use crate::pipeline::PhaseState;
use crate::proxying::conversation::{Conversation, Timeouts, Upload};
use crate::proxying::failure::{Doing, Failure};
use crate::proxying::peer_connection::{self, PeerAt, PeerConnection};
use crate::proxying::states::Attempt;
use crate::proxying::wire::{UpstreamHead, WireEvent};
use crate::proxying::{
    BodyPlan, BodyToSend, GroupRuntime, PassRuntime, Target, outbound, proxy_header,
};
use crate::snapshot::ListenerId;
use crate::values::Values;
use sealane_conf::model::{HealthQuestion, Pass};
use sealane_http::h1::{self, ParseState, Parsed, ResponseKind};
use sealane_http::headers::HeaderList;
use sealane_http::uri;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::timeout_at;
use sealane_upstream::{Peer, PeerAddress};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// Bytes of a body that are looked at, as in nginx.
const MAX_BODY_BYTES: usize = 256 << 10;
/// gRPC's health checking protocol.
const GRPC_PATH: &str = "/grpc.health.v1.Health/Check";

/// A response, as much of it as matters.
pub(super) struct CheckedResponse {
    pub(super) head: Arc<UpstreamHead>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderList,
}

/// Asks a peer, over a connection that is kept if there is one.
pub(super) async fn ask(
    asking: &Asking,
    group: &Arc<GroupRuntime>,
    located: &Located,
    peer: &Arc<Peer>,
    kept: Option<KeptProbe>,
) -> (Result<(), Fault>, Option<KeptProbe>) {
    let snapshot = &asking.snapshot;
    let Some(pass) = &snapshot.location(located.location).pass else {
        return (Err(Fault("the location passes no requests".into())), None);
    };
    let mut exchange = match exchange(asking, located, group) {
        Ok(exchange) => exchange,
        Err(fault) => return (Err(fault), None),
    };
    let settings = pass.settings();
    // A peer that sends a byte now and then is none that answers.
    let deadline = Instant::now() + settings.connect_timeout + settings.read_timeout;
    let asked = async {
        let mut kept = kept.filter(|kept| located.may_use(kept));
        if kept.as_mut().is_some_and(|kept| kept.connection.is_quiet()) {
            let asked = talk(&mut exchange, pass, group, located, peer, kept).await;
            if asked.is_ok() {
                return asked;
            }
            // The peer may have closed it just then, which is no failure.
        }
        talk(&mut exchange, pass, group, located, peer, None).await
    };
    match timeout_at(deadline, asked).await {
        Err(_) => (Err(Failure::TimedOut(Doing::ReadingBody).into()), None),
        Ok(Err(fault)) => (Err(fault), None),
        Ok(Ok((answer, kept))) => {
            let states = exchange.upstream.get_or_insert_default();
            states.set_head(Arc::clone(&answer.head));
            let found = match &located.check.question {
                HealthQuestion::Uri(_) => {
                    expect::judge(located.expect.as_deref(), &pass.pass, &answer, &exchange)
                }
                HealthQuestion::Grpc { status, .. } => expect::judge_grpc(*status, &answer),
            };
            (found, kept)
        }
    }
}

impl Located {
    fn may_use(&self, kept: &KeptProbe) -> bool {
        let time = self.check.keepalive_time;
        time.is_some_and(|time| kept.opened.elapsed() < time)
    }
}

/// Sends the request and receives the response.
async fn talk(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    group: &Arc<GroupRuntime>,
    located: &Located,
    peer: &Arc<Peer>,
    kept: Option<KeptProbe>,
) -> Result<(CheckedResponse, Option<KeptProbe>), Fault> {
    let target = target(pass, group, located);
    let body = body(located);
    let states = exchange.upstream.get_or_insert_default();
    states.body = body.plan;
    states.scheme = target.scheme(pass);
    // For variables only: checks are not counted as requests.
    let attempt = Attempt::new(peer.name().clone(), peer.server().clone(), Instant::now());
    states.attempts.clear();
    states.attempts.push(attempt);
    let outbound = outbound(exchange, pass, &target, body)
        .map_err(|_| Fault("the request cannot be made; see the lines before".into()))?;
    let (connection, opened, checks) = match kept {
        Some(kept) => (kept.connection, kept.opened, kept.checks),
        None => (
            open(exchange, pass, &target, located, peer).await?,
            Instant::now(),
            0,
        ),
    };
    let settings = pass.settings();
    let timeouts = Timeouts {
        send: settings.send_timeout,
        read: settings.read_timeout,
    };
    let (wire, chain) = ((outbound.wire)(), outbound.chain.clone());
    let conversation = Conversation::new(connection, wire, chain, Upload::Done, timeouts);
    let (answer, connection) = receive(conversation).await?;
    let keeps = located.check.keepalive_time.is_some();
    let kept = connection.filter(|_| keeps).map(|connection| KeptProbe {
        connection,
        opened,
        checks: checks + 1,
    });
    Ok((answer, kept))
}

async fn open(
    exchange: &Exchange,
    pass: &PassRuntime,
    target: &Target,
    located: &Located,
    peer: &Arc<Peer>,
) -> Result<PeerConnection, Fault> {
    let secured = pass.secured(exchange, target);
    let address = at_port(peer.address(), located.check.port);
    let to = PeerAt {
        peer,
        address: &address,
        secured: secured.as_deref(),
    };
    let header = proxy_header(exchange);
    Ok(peer_connection::open(exchange, pass, to, header).await?)
}

/// The address with the port of the check, if it has one.
pub(super) fn at_port(address: &PeerAddress, port: Option<u16>) -> PeerAddress {
    match (address, port) {
        (PeerAddress::Ip(address), Some(port)) => {
            let mut address = *address;
            address.set_port(port);
            PeerAddress::Ip(address)
        }
        _ => address.clone(),
    }
}

/// Receives a response: its head, and the body to its end or the limit. With the connection, if
/// that can be used again.
///
/// # Errors
/// When there is no proper head. A body that breaks off is what is there of it.
pub(super) async fn receive(
    mut conversation: Conversation,
) -> Result<(CheckedResponse, Option<PeerConnection>), Fault> {
    let mut head: Option<Arc<UpstreamHead>> = None;
    let mut body = Vec::new();
    loop {
        let event = poll_fn(|cx| {
            if let Poll::Ready(Err(failure)) = conversation.poll_send(cx) {
                return Poll::Ready(Err(failure));
            }
            conversation.poll_event(cx)
        });
        match (event.await?, &head) {
            (WireEvent::Head(found), _) if found.parsed.kind() == ResponseKind::Interim => {}
            (WireEvent::Head(found), None) => head = Some(found),
            (WireEvent::Data(piece), Some(_)) => {
                let room = MAX_BODY_BYTES - body.len();
                body.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            (WireEvent::End(end), Some(head)) => {
                let answer = CheckedResponse {
                    head: Arc::clone(head),
                    body,
                    trailers: end.trailers,
                };
                let reusable = end.reusable && conversation.is_sent();
                let connection = match reusable {
                    true => conversation.into_connection(),
                    false => None,
                };
                return Ok((answer, connection));
            }
            // A wire gives the head first, and only one.
            _ => return Err(Failure::ClosedEarly(Doing::ReadingHead).into()),
        }
        if let Some(head) = &head
            && body.len() == MAX_BODY_BYTES
        {
            let answer = CheckedResponse {
                head: Arc::clone(head),
                body,
                trailers: HeaderList::new(),
            };
            return Ok((answer, None));
        }
    }
}

fn target(pass: &PassRuntime, group: &Arc<GroupRuntime>, located: &Located) -> Target {
    Target {
        group: Arc::clone(group),
        uri: match (&pass.pass, &located.check.question) {
            (Pass::Proxy(_), HealthQuestion::Uri(uri)) => uri.to_vec(),
            _ => Vec::new(),
        },
        tls: pass.tls_by_default,
        host: Arc::clone(&pass.host),
        port: Arc::clone(&pass.port),
    }
}

/// gRPC's question; nothing otherwise.
fn body(located: &Located) -> BodyToSend {
    let mut chain = OutputChain::new();
    let HealthQuestion::Grpc { service, .. } = &located.check.question else {
        return BodyToSend {
            plan: BodyPlan::None,
            chain,
            streamed: false,
        };
    };
    let message = expect::grpc_message(service);
    let plan = BodyPlan::Length(message.len() as u64);
    chain.push_bytes(message);
    BodyToSend {
        plan,
        chain,
        streamed: false,
    }
}

/// The exchange of a request that no client has sent.
fn exchange(
    asking: &Asking,
    located: &Located,
    group: &Arc<GroupRuntime>,
) -> Result<Exchange, Fault> {
    let name = group.group.name();
    let text = match &located.check.question {
        HealthQuestion::Uri(uri) => {
            let uri = String::from_utf8_lossy(uri);
            format!(
                "GET {uri} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: sealane (health check)\r\n\r\n"
            )
        }
        HealthQuestion::Grpc { .. } => format!(
            "POST {GRPC_PATH} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: sealane (health check)\r\n\
             Content-Type: application/grpc\r\nTE: trailers\r\n\r\n"
        ),
    };
    let snapshot = &asking.snapshot;
    let server = snapshot.server(located.server);
    let buffer = text.into_bytes();
    let parsed = h1::parse_request(&buffer, &mut ParseState::default(), &server.head_limits);
    let Ok(Parsed::Complete(head)) = parsed else {
        return Err(Fault(
            "the \"uri\" of the check makes no request; write it as it is sent, with escapes"
                .into(),
        ));
    };
    let normal = uri::normalise(head.path.of(&buffer), server.conf.merge_slashes)
        .map_err(|_| Fault("the \"uri\" of the check is malformed".into()))?;
    let path = normal.path.into_owned();
    let args = normal.args.filter(|args| !args.is_empty());
    Ok(Exchange {
        worker: Arc::clone(&asking.worker),
        snapshot: Arc::clone(snapshot),
        connection: Arc::clone(&asking.client),
        listener: ListenerId(0),
        client: ClientLink::default(),
        upstream: None,
        server: located.server,
        location: located.location,
        response: Response::new(),
        transfer: Transfer::new(Instant::now(), head.head_bytes as u64),
        phases: PhaseState::default(),
        features: Features::default(),
        request: Request {
            uri: path,
            args: args.map(<[u8]>::to_vec),
            host: name.as_bytes().to_ascii_lowercase(),
            body: RequestBody::None,
            received: None,
            internal: true,
            uri_replaced: false,
            is_subrequest: true,
            early_data: false,
            values: Values::default(),
            head,
            buffer,
        },
    })
}
