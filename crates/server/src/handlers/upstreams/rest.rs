//! `api`: the part of nginx's commercial REST interface that is about groups of servers,
//! `/9/http/upstreams/`.
//!
//! | request below `/9/http/upstreams` | what it does |
//! |---|---|
//! | `GET /`, `GET /NAME/` | groups with their peers and what is counted of them |
//! | `GET /NAME/servers/` | servers with their parameters |
//! | `POST /NAME/servers/` | adds one |
//! | `GET`, `PATCH`, `DELETE /NAME/servers/ID` | shows, changes, removes one |

use super::{UpstreamsReply, UpstreamsRequest, follow_everywhere, group_named, newest, status_of};
use crate::proxying::GroupRuntime;
use crate::proxying::live::lines::{shown_server, shown_time};
use crate::proxying::live::{ChangeError, Parameter, ServerChange};
use crate::snapshot::Snapshot;
use crate::worker::Process;
use sealane_counters::{StatusLabel, StatusSums};
use sealane_http::{Method, StatusCode};
use sealane_upstream::{Peer, PeerState, ServerEntry, ServerList};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Versions of the interface. They differ in what is not here.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=9;
const MANUAL: &str = "https://nginx.org/en/docs/http/ngx_http_api_module.html";

/// Whether a path begins with the number of a version.
pub(in crate::handlers) fn is_version(path: &str) -> bool {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    names
        .next()
        .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why a request is refused: the status, a text, and nginx's word for it.
struct ApiRefusal(StatusCode, String, &'static str);

fn refuse<T>(
    status: StatusCode,
    text: impl Into<String>,
    code: &'static str,
) -> Result<T, ApiRefusal> {
    Err(ApiRefusal(status, text.into(), code))
}

fn no_path<T>() -> Result<T, ApiRefusal> {
    refuse(StatusCode::NOT_FOUND, "path not found", "PathNotFound")
}

impl From<ChangeError> for ApiRefusal {
    fn from(error: ChangeError) -> ApiRefusal {
        let code = match &error {
            ChangeError::Static => "UpstreamStatic",
            ChangeError::NoServer => "UpstreamServerNotFound",
            ChangeError::Full(_) => "UpstreamOutOfMemory",
            ChangeError::NoBackup => "UpstreamNoBackup",
            ChangeError::NoResolver(_) => "UpstreamConfNoResolver",
            ChangeError::Invalid(parameter, _) => match parameter {
                Parameter::Server => "UpstreamBadAddress",
                Parameter::Weight => "UpstreamBadWeight",
                Parameter::MaxConns => "UpstreamBadMaxConns",
                Parameter::MaxFails => "UpstreamBadMaxFails",
                Parameter::FailTimeout => "UpstreamBadFailTimeout",
                Parameter::SlowStart => "UpstreamBadSlowStart",
                Parameter::Route => "UpstreamBadRoute",
                Parameter::Service => "UpstreamBadService",
                Parameter::Backup | Parameter::Down | Parameter::Drain => "UpstreamConfFormatError",
            },
            ChangeError::State(_) => "UpstreamStateError",
        };
        ApiRefusal(status_of(&error), error.to_string(), code)
    }
}

/// What a request has led to.
struct ApiOutcome {
    status: StatusCode,
    value: Value,
    location: Option<String>,
    note: Option<String>,
}

impl ApiOutcome {
    fn shows(value: Value) -> ApiOutcome {
        ApiOutcome {
            status: StatusCode::OK,
            value,
            location: None,
            note: None,
        }
    }
}

pub(super) fn answer(process: &Process, request: &UpstreamsRequest) -> UpstreamsReply {
    match carry_out(process, request) {
        Ok(done) => UpstreamsReply {
            location: done.location,
            note: done.note,
            ..json_reply(done.status, &done.value)
        },
        Err(ApiRefusal(status, text, code)) => {
            let error = json!({
                "error": {"status": status.0, "text": text, "code": code},
                "request_id": request.id,
                "href": MANUAL,
            });
            json_reply(status, &error)
        }
    }
}

fn json_reply(status: StatusCode, value: &Value) -> UpstreamsReply {
    UpstreamsReply::new(status, b"application/json", format!("{value}\n"))
}

fn carry_out(process: &Process, request: &UpstreamsRequest) -> Result<ApiOutcome, ApiRefusal> {
    let names: Vec<&str> = request
        .path
        .split('/')
        .filter(|name| !name.is_empty())
        .collect();
    let Some((version, names)) = names.split_first() else {
        only_read(request)?;
        return Ok(ApiOutcome::shows(VERSIONS.collect()));
    };
    if !version
        .parse()
        .is_ok_and(|version| VERSIONS.contains(&version))
    {
        return refuse(StatusCode::NOT_FOUND, "unknown version", "UnknownVersion");
    }
    let Some(snapshot) = newest(process) else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server ends",
            "ServerEnds",
        );
    };
    match names {
        [] => branches(request, &["http"]),
        ["http"] => branches(request, &["upstreams"]),
        ["http", "upstreams"] => {
            only_read(request)?;
            let groups = snapshot.groups.of_http().filter(|group| group.explicit);
            let shown = groups.map(|group| (group.group.name().to_owned(), upstream(&group)));
            Ok(ApiOutcome::shows(fields(
                request,
                Value::Object(shown.collect()),
                1,
            )))
        }
        ["http", "upstreams", name] => {
            let group = found(&snapshot, name)?;
            only_read(request)?;
            Ok(ApiOutcome::shows(fields(request, upstream(&group), 0)))
        }
        ["http", "upstreams", name, "servers"] => {
            let group = found(&snapshot, name)?;
            all_servers(process, request, name, &group)
        }
        ["http", "upstreams", name, "servers", id] => {
            let group = found(&snapshot, name)?;
            one_server(process, request, (name, id), &group)
        }
        _ => no_path(),
    }
}

fn branches(request: &UpstreamsRequest, names: &[&str]) -> Result<ApiOutcome, ApiRefusal> {
    only_read(request)?;
    Ok(ApiOutcome::shows(json!(names)))
}

fn only_read(request: &UpstreamsRequest) -> Result<(), ApiRefusal> {
    match request.method {
        Method::Get | Method::Head => Ok(()),
        _ => not_allowed(),
    }
}

fn not_allowed<T>() -> Result<T, ApiRefusal> {
    refuse(
        StatusCode::NOT_ALLOWED,
        "method not allowed",
        "MethodNotAllowed",
    )
}

fn may_write(request: &UpstreamsRequest) -> Result<(), ApiRefusal> {
    match request.writes {
        true => Ok(()),
        false => refuse(
            StatusCode::NOT_ALLOWED,
            "method disabled: the location needs \"api write=on\"",
            "MethodDisabled",
        ),
    }
}

fn found(snapshot: &Snapshot, name: &str) -> Result<Arc<GroupRuntime>, ApiRefusal> {
    match group_named(snapshot, name) {
        Some(group) => Ok(group),
        None => refuse(
            StatusCode::NOT_FOUND,
            "upstream not found",
            "UpstreamNotFound",
        ),
    }
}

/// `/NAME/servers/`.
fn all_servers(
    process: &Process,
    request: &UpstreamsRequest,
    name: &str,
    group: &GroupRuntime,
) -> Result<ApiOutcome, ApiRefusal> {
    match request.method {
        Method::Get | Method::Head => {
            dynamic(group)?;
            Ok(ApiOutcome::shows(shown_servers(&group.group.servers())))
        }
        Method::Post => {
            may_write(request)?;
            dynamic(group)?;
            let change = change(&request.body, true)?;
            if !change.has_server() {
                return refuse(
                    StatusCode::BAD_REQUEST,
                    "missing \"server\" argument",
                    "UpstreamConfFormatError",
                );
            }
            let id = group.add_server(&change)?;
            follow_everywhere(process);
            let servers = group.group.servers();
            Ok(ApiOutcome {
                status: StatusCode::CREATED,
                value: servers.get(id).map_or(Value::Null, shown),
                location: Some(format!("{}/{id}/", request.uri.trim_end_matches('/'))),
                note: Some(format!("server {id} was added to upstream \"{name}\"")),
            })
        }
        _ => not_allowed(),
    }
}

/// `/NAME/servers/ID`.
fn one_server(
    process: &Process,
    request: &UpstreamsRequest,
    (name, id): (&str, &str),
    group: &GroupRuntime,
) -> Result<ApiOutcome, ApiRefusal> {
    let Ok(id) = id.parse::<u64>() else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "invalid server id",
            "UpstreamBadServerId",
        );
    };
    let what = match request.method {
        Method::Get | Method::Head => {
            dynamic(group)?;
            let servers = group.group.servers();
            let entry = servers.get(id).ok_or(ChangeError::NoServer)?;
            return Ok(ApiOutcome::shows(fields(request, shown(entry), 0)));
        }
        Method::Patch => {
            may_write(request)?;
            dynamic(group)?;
            group.change_server(id, &change(&request.body, false)?)?;
            "changed in"
        }
        Method::Delete => {
            may_write(request)?;
            dynamic(group)?;
            group.remove_server(id)?;
            "removed from"
        }
        _ => return not_allowed(),
    };
    follow_everywhere(process);
    let servers = group.group.servers();
    Ok(ApiOutcome {
        note: Some(format!("server {id} was {what} upstream \"{name}\"")),
        ..ApiOutcome::shows(match servers.get(id) {
            Some(entry) => shown(entry),
            None => shown_servers(&servers),
        })
    })
}

fn dynamic(group: &GroupRuntime) -> Result<(), ApiRefusal> {
    match group.has_zone() {
        true => Ok(()),
        false => Err(ChangeError::Static.into()),
    }
}

/// The parameters in the JSON object of a request.
fn change(body: &[u8], is_new: bool) -> Result<ServerChange, ApiRefusal> {
    let format = |text: String| refuse(StatusCode::BAD_REQUEST, text, "UpstreamConfFormatError");
    let object: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return format("an object is expected".to_owned()),
        Err(error) => {
            let text = format!("json error: {error}");
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text, "JsonError");
        }
    };
    let mut change = ServerChange::default();
    for (name, value) in object {
        // What is shown can be sent back.
        if matches!(name.as_str(), "id" | "host" | "parent") {
            continue;
        }
        let Some(parameter) = Parameter::named(&name) else {
            return format(format!("unknown parameter \"{name}\""));
        };
        if !is_new && matches!(parameter, Parameter::Backup | Parameter::Service) {
            return format(format!("\"{name}\" of a server cannot be changed"));
        }
        match (parameter.is_flag(), value) {
            (true, Value::Bool(on)) => change.turn(parameter, on),
            (false, Value::String(text)) => change.set(parameter, text),
            (false, Value::Number(number)) => change.set(parameter, number.to_string()),
            (_, Value::Array(_) | Value::Object(_)) => {
                return format("nested object or list".to_owned());
            }
            _ => return format(format!("invalid \"{name}\" value")),
        }
    }
    Ok(change)
}

fn shown_servers(servers: &ServerList) -> Value {
    servers.entries().iter().map(shown).collect()
}

fn shown(entry: &ServerEntry) -> Value {
    let settings = &entry.settings;
    let route = settings.route.as_deref().unwrap_or_default();
    let mut value = json!({
        "id": entry.number,
        "server": shown_server(entry),
        "weight": settings.weight,
        "max_conns": settings.max_conns,
        "max_fails": settings.max_fails,
        "fail_timeout": shown_time(settings.fail_timeout),
        "slow_start": shown_time(settings.slow_start),
        "route": String::from_utf8_lossy(route),
        "backup": settings.backup,
        "down": settings.down,
    });
    if settings.drain {
        value["drain"] = true.into();
    }
    let lookup = settings.lookup.as_ref();
    if let Some(service) = lookup.and_then(|lookup| lookup.service.as_ref()) {
        value["service"] = service.as_str().into();
    }
    value
}

fn upstream(group: &GroupRuntime) -> Value {
    let servers = group.group.servers();
    let states = group.group.peer_states(Instant::now()).into_iter();
    let mut idle = 0;
    let peers = states.map(|(peer, state, is_backup)| {
        idle += peer.idle();
        shown_peer(&servers, &peer, state, is_backup)
    });
    let peers: Vec<Value> = peers.collect();
    json!({
        "peers": peers,
        "keepalive": idle,
        "zombies": 0,
        "zone": group.has_zone().then(|| group.group.name()),
    })
}

fn shown_peer(servers: &ServerList, peer: &Peer, state: PeerState, is_backup: bool) -> Value {
    let counts = peer.counts();
    let mut sums = StatusSums::default();
    sums.add(&counts.responses);
    let mut value = json!({
        "server": peer.name().as_ref(),
        "name": peer.server().as_ref(),
        "backup": is_backup,
        "weight": peer.weight(),
        "state": match state {
            PeerState::Unavailable => "unavail",
            // Others have no word for it.
            PeerState::Busy => "up",
            state => state.name(),
        },
        "active": peer.conns(),
        "requests": counts.requests.get(),
        "responses": responses(&sums),
        "sent": counts.sent.get(),
        "received": counts.received.get(),
        "fails": counts.failures.get(),
        "unavail": counts.unavailable.get(),
        "health_checks": {
            "checks": counts.checks.get(),
            "fails": counts.checks_failed.get(),
            "unhealthy": counts.unhealthy.get(),
        },
    });
    let mut entries = servers.entries().iter();
    let is_at = |entry: &&ServerEntry| {
        let mut addresses = entry.addresses.iter();
        addresses.any(|resolved| resolved.address == *peer.address())
    };
    if let Some(entry) = entries.find(is_at) {
        value["id"] = entry.number.into();
    }
    if peer.max_conns() > 0 {
        value["max_conns"] = peer.max_conns().into();
    }
    value
}

/// Responses by class, and by status where that is counted.
fn responses(sums: &StatusSums) -> Value {
    let (mut classes, mut codes, mut total) = ([0u64; 5], Map::new(), 0);
    for (label, count) in sums.iter() {
        total += count;
        let class = match label {
            StatusLabel::Code(code) => {
                codes.insert(code.to_string(), count.into());
                usize::from(code / 100)
            }
            StatusLabel::Class(class) => {
                usize::from(class.bytes().next().unwrap_or(b'0').wrapping_sub(b'0'))
            }
        };
        if let Some(sum) = classes.get_mut(class.wrapping_sub(1)) {
            *sum += count;
        }
    }
    let mut value = json!({"codes": codes, "total": total});
    for (class, count) in (1..).zip(classes) {
        value[format!("{class}xx")] = count.into();
    }
    value
}

/// Only the members that `fields=` names, of objects so many levels below.
fn fields(request: &UpstreamsRequest, mut value: Value, depth: u32) -> Value {
    let mut args = request.args.split(|byte| *byte == b'&');
    let Some(wanted) = args.find_map(|arg| arg.strip_prefix(b"fields=")) else {
        return value;
    };
    let names: Vec<&[u8]> = wanted.split(|byte| *byte == b',').collect();
    keep(&mut value, &names, depth);
    value
}

fn keep(value: &mut Value, names: &[&[u8]], depth: u32) {
    let Value::Object(members) = value else {
        return;
    };
    match depth {
        0 => members.retain(|name, _| names.contains(&name.as_bytes())),
        _ => {
            for member in members.values_mut() {
                keep(member, names, depth - 1);
            }
        }
    }
}
