//! Subrequests: `auth_request` asks whether a request may go on, `mirror` sends copies of it
//! elsewhere, some responses become part of another body, and `post_action` follows a response.
//!
//! A subrequest is an exchange with a URI of its own. It passes through the pipeline like any
//! other request, as an internal one, and is never sent to a client.

mod answer;
mod post_action;

pub(crate) use answer::IncludedAnswer;
pub(crate) use post_action::post_action;

use crate::body_source::PendingBody;
use crate::client_link::ClientLink;
use crate::exchange::{Exchange, Request, RequestBody, Response, Transfer};
use crate::features::Features;
use crate::handlers::Outcome;
use crate::handlers::special::Stub;
use crate::pipeline::{self, PhaseState};
use crate::proxying;
use crate::request_body::{self, ReceivedBody};
use crate::request_log::{Text, log_request};
use crate::tally::SubrequestPermit;
use crate::template;
use crate::variables;
use sealane_conf::model::{AuthRequest, Variable};
use sealane_http::headers::KnownHeader;
use sealane_http::uri::{self, TargetForm};
use sealane_http::{Method, Span, StatusCode};
use sealane_io::registry::{ConnectionPhase, Entry};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// What a subrequest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubrequestKind {
    /// `auth_request`: only its status counts.
    Auth,
    /// Its response becomes part of another body (`add_before_body`, `ssi`).
    Included,
    /// A copy for another server (`mirror`).
    Mirror,
    /// What is done once the request is over (`post_action`).
    PostAction,
    /// It updates a response of the cache that is served stale meanwhile.
    Update,
    /// One of the pieces of a response (`slice`). They count only while they last, as their number
    /// depends on the length of the whole.
    Slice,
}

/// What a subrequest keeps about being one.
#[derive(Default)]
pub(crate) struct SubrequestState {
    /// How deeply it is nested in subrequests whose responses become part of one another.
    pub(crate) depth: u8,
    /// What is sent instead of an error page.
    pub(crate) stub: Option<Box<Stub>>,
}

impl SubrequestState {
    /// As deep as `main`; a response that becomes part of another body is one level deeper.
    pub(crate) fn of_subrequest(main: &Exchange) -> SubrequestState {
        SubrequestState {
            depth: main.features.subrequest.depth,
            stub: None,
        }
    }
}

/// `auth_request`: whether the request may go on.
///
/// # Errors
/// The status to answer with.
pub(crate) async fn authorise(exchange: &mut Exchange) -> Result<(), StatusCode> {
    if exchange.request.is_subrequest {
        return Ok(());
    }
    let conf = Arc::clone(&exchange.snapshot.location(exchange.location).conf);
    let Some(auth) = &conf.auth_request else {
        return Ok(());
    };
    let kind = SubrequestKind::Auth;
    let permit = permit(exchange, &auth.uri, kind).ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    let mut asked = Subrequest {
        kind,
        permit,
        uri: &auth.uri,
        args: None,
        method: Method::Get,
        body: None,
        // The client may go meanwhile.
        client: exchange.client.clone(),
    }
    .of(exchange);
    run(&mut asked).await;
    // Both are one request to limits.
    exchange.features.limits = mem::take(&mut asked.features.limits);
    exchange.client.ignore_gone();
    set_variables(exchange, &mut asked, auth);
    match asked.response.status {
        StatusCode(200..=299) => Ok(()),
        StatusCode::FORBIDDEN => Err(StatusCode::FORBIDDEN),
        StatusCode::UNAUTHORIZED => {
            say_how(exchange, &asked);
            Err(StatusCode::UNAUTHORIZED)
        }
        // It is logged already, and no response will be read.
        StatusCode::CLIENT_CLOSED_REQUEST => Err(StatusCode::CLIENT_CLOSED_REQUEST),
        status => {
            log_request!(exchange, Error, "auth request unexpected status: {status}");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// The client learns how to authenticate from an upstream server: from the response, or, if an
/// error page replaced it, from what that server sent. As in nginx, `add_header` on a response of
/// our own does not count.
fn say_how(exchange: &mut Exchange, asked: &Exchange) {
    if asked.upstream.is_none() {
        return;
    }
    let mut push = |value: &[u8]| {
        // It was checked when it came, or when it was added to the first list.
        let _ = exchange.response.headers.push(b"WWW-Authenticate", value);
    };
    let headers = asked.response.headers.iter();
    let mut found = false;
    for (_, value) in headers.filter(|(name, _)| name.eq_ignore_ascii_case(b"WWW-Authenticate")) {
        push(value);
        found = true;
    }
    let upstream = asked.upstream.as_deref();
    if let Some(head) = upstream.and_then(|states| states.head.as_deref())
        && !found
    {
        for value in head.parsed.get_all(KnownHeader::WwwAuthenticate) {
            push(value.of(&head.buffer));
        }
    }
}

/// `auth_request_set`: sets variables of the request to values of the subrequest. As in nginx both
/// share their variables: captures of the subrequest are visible here too.
fn set_variables(exchange: &mut Exchange, asked: &mut Exchange, auth: &AuthRequest) {
    for set in &auth.set {
        let value = template::evaluate(&set.value, asked).into_owned();
        match &set.variable {
            Variable::User(_) => variables::assign(asked, &set.variable, value),
            _ => variables::assign(exchange, &set.variable, value),
        }
    }
    let (values, theirs) = (&mut exchange.request.values, &mut asked.request.values);
    values.take_variables(theirs);
}

/// `mirror`: sends copies of the request, and does not wait for the responses.
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
        if !has_room(exchange, uri, "mirroring to") {
            continue;
        }
        let kind = SubrequestKind::Mirror;
        let Some(permit) = permit(exchange, uri, kind) else {
            break;
        };
        let mut copy = Subrequest {
            kind,
            permit,
            uri,
            args: exchange.request.args.as_deref(),
            method: exchange.request.head.method,
            body: match conf.mirror_request_body {
                true => exchange.request.received.clone(),
                false => None,
            },
            // It continues without the client.
            client: ClientLink::default(),
        }
        .of(exchange);
        in_background(exchange, async move { run(&mut copy).await });
    }
    Ok(())
}

/// Does something that the request does not wait for. It is in the registry, so that shutdown waits
/// for it, as nginx keeps the connection open.
pub(crate) fn in_background(exchange: &Exchange, work: impl Future<Output = ()> + Send + 'static) {
    let entry = Entry::new(exchange.worker.registry.clone());
    entry.set_phase(ConnectionPhase::Busy, 0);
    sealane_io::runtime::spawn(async move {
        work.await;
        drop(entry);
    });
}

/// Whether another subrequest may be in progress in the background. Clients and these together are
/// at most `worker_connections`, so that servers that do not answer cost no more than clients that
/// do not leave.
fn has_room(exchange: &Exchange, uri: &[u8], doing: &str) -> bool {
    let limit = exchange.snapshot.worker_connections as usize;
    if exchange.worker.registry.len() < limit {
        return true;
    }
    let uri = Text(uri);
    log_request!(
        exchange,
        Alert,
        "{limit} worker_connections are not enough while {doing} \"{uri}\", which is left out \
         for this request. If that server is slow, shorten its time-outs"
    );
    false
}

/// The permit for a subrequest; `None`, which is logged, if the request has too many.
fn permit(exchange: &Exchange, uri: &[u8], kind: SubrequestKind) -> Option<SubrequestPermit> {
    let limit = exchange.conf().max_subrequests;
    let is_piece = kind == SubrequestKind::Slice;
    let permit = exchange.tally().begin(limit, is_piece);
    if permit.is_none() {
        let uri = Text(uri);
        log_request!(
            exchange,
            Crit,
            "request reference counter overflow while processing \"{uri}\", \
             max_subrequests is {limit}"
        );
    }
    permit
}

/// The same request again, in the same location (`slice`); `None` if it has too many subrequests.
pub(crate) fn again(exchange: &Exchange) -> Option<Exchange> {
    // The client may go meanwhile.
    same_again(
        exchange,
        SubrequestKind::Slice,
        None,
        exchange.client.clone(),
    )
}

fn same_again(
    exchange: &Exchange,
    kind: SubrequestKind,
    body: Option<ReceivedBody>,
    client: ClientLink,
) -> Option<Exchange> {
    let request = &exchange.request;
    let mut again = Subrequest {
        kind,
        permit: permit(exchange, &request.uri, kind)?,
        uri: &request.uri,
        args: request.args.as_deref(),
        method: request.head.method,
        body,
        client,
    }
    .of(exchange);
    again.location = exchange.location;
    again.request.values = request.values.all();
    again.request.internal = request.internal;
    again.request.uri_replaced = request.uri_replaced;
    Some(again)
}

/// A GET for another target on the same server, in no location yet; `None` if that is no target. It
/// is never run: what it would have in a cache is what matters.
pub(crate) fn for_target(exchange: &Exchange, target: &[u8]) -> Option<Exchange> {
    let normal = uri::normalise(target, exchange.server().conf.merge_slashes).ok()?;
    let args = normal.args.filter(|args| !args.is_empty());
    let mut asked = Subrequest {
        kind: SubrequestKind::Mirror,
        permit: permit(exchange, target, SubrequestKind::Mirror)?,
        uri: &normal.path,
        args,
        method: Method::Get,
        body: None,
        client: ClientLink::default(),
    }
    .of(exchange);
    let request = &mut asked.request;
    let start = request.buffer.len();
    request.buffer.extend_from_slice(target);
    request.head.path = Span::new(start, request.buffer.len());
    request.head.target = request.head.path;
    request.head.form = TargetForm::Origin;
    request.uri_replaced = false;
    Some(asked)
}

/// The same request again, without the client, to update a response of the cache; `None`, which is
/// logged, if there are too many already.
pub(crate) fn copy_in_background(exchange: &Exchange) -> Option<Exchange> {
    let request = &exchange.request;
    if !has_room(exchange, &request.uri, "updating") {
        return None;
    }
    let (kind, body) = (SubrequestKind::Update, request.received.clone());
    same_again(exchange, kind, body, ClientLink::default())
}

/// Runs it, after what is being done now. Nobody reads its response.
pub(crate) fn run_in_background(exchange: &Exchange, mut copy: Exchange) {
    in_background(exchange, async move {
        let outcome = Box::pin(proxying::answer(&mut copy)).await;
        if let Outcome::Status(status) = outcome {
            copy.response.status = status;
        }
        conclude(&mut copy);
    });
}

/// A subrequest that is to be made.
struct Subrequest<'a> {
    kind: SubrequestKind,
    permit: SubrequestPermit,
    /// Its path as configured: a question mark is part of it.
    uri: &'a [u8],
    args: Option<&'a [u8]>,
    method: Method,
    /// The main request's body, if it is to be sent.
    body: Option<ReceivedBody>,
    /// Ends it when this client goes.
    client: ClientLink,
}

impl Subrequest<'_> {
    /// Makes its exchange, on the server of the main request.
    fn of(self, exchange: &Exchange) -> Exchange {
        let request = &exchange.request;
        let mut head = request.head.clone();
        head.method = self.method;
        head.extended_connect = false; // the tunnel is the client's
        Exchange {
            worker: exchange.worker.clone(),
            snapshot: exchange.snapshot.clone(),
            connection: exchange.connection.clone(),
            listener: exchange.listener,
            client: self.client,
            upstream: None,
            server: exchange.server,
            location: exchange.server().default_location,
            response: Response::new(),
            transfer: Transfer::new(Instant::now(), 0),
            phases: PhaseState::default(),
            features: Features::of_subrequest(exchange, self.kind, self.permit),
            request: Request {
                buffer: request.buffer.clone(),
                head,
                uri: self.uri.to_vec(),
                args: self.args.map(<[u8]>::to_vec),
                host: request.host.clone(),
                body: RequestBody::None,
                received: self.body,
                internal: true,
                uri_replaced: true,
                is_subrequest: true,
                early_data: request.early_data,
                values: request.values.variables_only(),
            },
        }
    }
}

/// Runs a subrequest of which only the head matters.
///
/// Boxed, as it is part of the pipeline and runs the pipeline.
fn run(asked: &mut Exchange) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async move {
        pipeline::handle_subrequest(asked).await;
        conclude(asked);
    })
}

/// Drops the body of the response, and logs the subrequest if that is configured.
fn conclude(asked: &mut Exchange) {
    if let Some(source) = asked.response.source.take() {
        PendingBody::into_source(source).conclude(asked, false);
    }
    pipeline::conclude_subrequest(asked);
}
