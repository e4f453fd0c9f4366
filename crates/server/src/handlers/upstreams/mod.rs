//! Groups of servers, shown and changed by requests: `api write=on`, `upstream_conf`,
//! `dyups_interface`.
//!
//! What a request asks for is done on a disk thread: a change writes a file, and a group may have
//! thousands of servers.

mod conf;
mod dyups;
mod rest;

pub(super) use self::rest::is_version;

use super::Outcome;
use crate::exchange::{ContentType, Exchange};
use crate::proxying::GroupRuntime;
use crate::proxying::live::ChangeError;
use crate::request_body;
use crate::request_log::{Text, log_request};
use crate::snapshot::Snapshot;
use crate::worker::Process;
use sealane_conf::model::{StatusView, Variable};
use sealane_conf::variables::Builtin;
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use std::sync::Arc;

/// A request to one of the interfaces.
struct UpstreamsRequest {
    method: Method,
    /// What follows the location's prefix in the URI.
    path: String,
    /// The whole path.
    uri: String,
    args: Vec<u8>,
    body: Vec<u8>,
    /// Servers may be changed.
    writes: bool,
    /// `$request_id`.
    id: String,
}

/// The response.
struct UpstreamsReply {
    status: StatusCode,
    content_type: &'static [u8],
    text: String,
    /// Of a server that was added.
    location: Option<String>,
    /// What was changed, for the log.
    note: Option<String>,
}

impl UpstreamsReply {
    fn new(status: StatusCode, content_type: &'static [u8], text: String) -> UpstreamsReply {
        UpstreamsReply {
            status,
            content_type,
            text,
            location: None,
            note: None,
        }
    }
}

/// Answers for the interface that the location has; `path` is what follows its prefix.
pub(super) async fn answer(exchange: &mut Exchange, view: StatusView, path: String) -> Outcome {
    let method = exchange.request.head.method;
    let reads = matches!(method, Method::Get | Method::Head);
    let args = exchange.request.args().to_vec();
    if (!reads || conf::changes(view, &args)) && is_from_elsewhere(exchange) {
        log_request!(
            exchange,
            Error,
            "a page of another site asks for a change of upstreams"
        );
        return Outcome::Status(StatusCode::FORBIDDEN);
    }
    let body = match method {
        Method::Post | Method::Patch => match whole_body(exchange).await {
            Ok(body) => body,
            Err(status) => return Outcome::Status(status),
        },
        _ => Vec::new(),
    };
    let request = UpstreamsRequest {
        method,
        path,
        uri: String::from_utf8_lossy(&exchange.request.uri).into_owned(),
        args,
        body,
        writes: view.changes_servers(),
        id: request_id(exchange),
    };
    let process = Arc::clone(&exchange.worker.process);
    let answered = disk::run(move || match view {
        StatusView::Dyups => dyups::answer(&process, &request),
        StatusView::UpstreamConf => conf::answer(&process, &request),
        _ => rest::answer(&process, &request),
    });
    let reply = answered.await;
    if let Some(note) = &reply.note {
        log_request!(exchange, Notice, "{}", Text(note.as_bytes()));
    }
    let response = &mut exchange.response;
    let _ = response.headers.push(b"Cache-Control", b"no-store");
    response.status = reply.status;
    response.location = reply.location.map(String::into_bytes);
    if reply.status == StatusCode::NO_CONTENT {
        return Outcome::Answered;
    }
    response.content_type = ContentType::new(reply.content_type);
    response.content_length = Some(reply.text.len() as u64);
    if method == Method::Head {
        return Outcome::Answered;
    }
    response.body.push_bytes(reply.text);
    Outcome::Answered
}

/// Whether a browser says that a page of another site has sent the request. It sends the cookies
/// and passwords that it knows for this server along, and reaches loopback addresses.
fn is_from_elsewhere(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let header = |name: &[u8]| {
        let span = request.head.get_by_name(&request.buffer, name)?;
        Some(span.of(&request.buffer))
    };
    if let Some(site) = header(b"sec-fetch-site") {
        return !matches!(site, b"same-origin" | b"none");
    }
    let Some(origin) = header(b"origin") else {
        return false;
    };
    let host = request.head.get(KnownHeader::Host);
    let host = host.map(|span| span.of(&request.buffer));
    let after = memchr::memmem::find(origin, b"://").map(|at| &origin[at + 3..]);
    host.is_none_or(|host| after != Some(host))
}

/// The whole body.
async fn whole_body(exchange: &mut Exchange) -> Result<Vec<u8>, StatusCode> {
    let body = request_body::receive(exchange).await?;
    if let Some(bytes) = body.memory() {
        return Ok(bytes.to_vec());
    }
    disk::run(move || body.read_blocking())
        .await
        .map_err(|error| {
            let error = sealane_log::OsError(&error);
            log_request!(exchange, Crit, "a request body cannot be read ({error})");
            StatusCode::INTERNAL_SERVER_ERROR
        })
}

fn request_id(exchange: &Exchange) -> String {
    let mut id = Vec::new();
    crate::variables::append(exchange, &Variable::Builtin(Builtin::RequestId), &mut id);
    String::from_utf8_lossy(&id).into_owned()
}

/// The status for a change that cannot be made.
fn status_of(error: &ChangeError) -> StatusCode {
    match error {
        ChangeError::NoServer => StatusCode::NOT_FOUND,
        ChangeError::State(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The newest configuration.
fn newest(process: &Process) -> Option<Arc<Snapshot>> {
    let workers = process.workers().iter();
    let newest = workers.map(|worker| worker.current.numbered());
    newest
        .max_by_key(|(generation, _)| *generation)
        .map(|(_, snapshot)| snapshot)
}

/// Has all threads know of a change. A reload may have given them another configuration meanwhile.
fn follow_everywhere(process: &Process) {
    for worker in process.workers() {
        worker.current.snapshot().groups.follow_changes();
    }
}

/// The group of that name: an `upstream` block, or one that was made at run time.
fn group_named(snapshot: &Snapshot, name: &str) -> Option<Arc<GroupRuntime>> {
    let block = snapshot.groups.block(name).cloned();
    block.or_else(|| snapshot.groups.live().named(name))
}
