//! `upstream_conf`: the interface of nginx's ngx_http_upstream_conf_module, which `api` has
//! replaced. Everything is in the arguments of a request.

use super::{UpstreamsReply, UpstreamsRequest, follow_everywhere, group_named, newest, status_of};
use crate::proxying::GroupRuntime;
use crate::proxying::live::lines::{parameters, shown_server};
use crate::proxying::live::{ChangeError, Parameter, ServerChange};
use crate::worker::Process;
use sealane_conf::model::StatusView;
use sealane_http::uri::unescape;
use sealane_http::{Method, StatusCode};
use sealane_upstream::ServerEntry;
use std::fmt::Write;

/// The arguments that change something.
const CHANGES: [&[u8]; 2] = [b"add", b"remove"];

/// Whether these arguments, to a location with that view, change something.
pub(super) fn changes(view: StatusView, args: &[u8]) -> bool {
    let mut args = args.split(|byte| *byte == b'&').map(name_of);
    view == StatusView::UpstreamConf
        && args.any(|name| CHANGES.contains(&name) || is_parameter(name))
}

fn name_of(arg: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'=', arg).unwrap_or(arg.len());
    &arg[..end]
}

fn is_parameter(name: &[u8]) -> bool {
    name == b"up" || std::str::from_utf8(name).is_ok_and(|name| Parameter::named(name).is_some())
}

/// What the arguments ask for.
#[derive(Default)]
struct ConfArguments {
    upstream: Option<String>,
    id: Option<u64>,
    add: bool,
    remove: bool,
    change: ServerChange,
}

pub(super) fn answer(process: &Process, request: &UpstreamsRequest) -> UpstreamsReply {
    // A request for a head changes nothing.
    let changes = changes(StatusView::UpstreamConf, &request.args);
    let is_good = match request.method {
        Method::Get | Method::Post => true,
        Method::Head => !changes,
        _ => false,
    };
    if !is_good {
        return plain(StatusCode::NOT_ALLOWED, "method not allowed\n".to_owned());
    }
    match carry_out(process, &request.args) {
        Ok((text, note)) => UpstreamsReply {
            note,
            ..plain(StatusCode::OK, text)
        },
        Err((status, why)) => plain(status, format!("{why}\n")),
    }
}

fn plain(status: StatusCode, text: String) -> UpstreamsReply {
    UpstreamsReply::new(status, b"text/plain", text)
}

type ConfRefusal = (StatusCode, String);

fn bad(why: impl Into<String>) -> ConfRefusal {
    (StatusCode::BAD_REQUEST, why.into())
}

/// Returns the text of the response, and what was changed.
fn carry_out(process: &Process, args: &[u8]) -> Result<(String, Option<String>), ConfRefusal> {
    let asked = read(args)?;
    let name = asked
        .upstream
        .ok_or_else(|| bad("missing \"upstream\" argument"))?;
    let snapshot = newest(process);
    let group = snapshot.and_then(|snapshot| group_named(&snapshot, &name));
    let group = group.ok_or((StatusCode::NOT_FOUND, "upstream not found".to_owned()))?;
    if !group.has_zone() {
        return Err(refusal(&ChangeError::Static));
    }
    let (text, what) = match (asked.add, asked.remove, asked.id) {
        (true, true, _) => return Err(bad("\"add\" and \"remove\" are given together")),
        (true, false, None) => {
            if !asked.change.has_server() {
                return Err(bad("missing \"server\" argument"));
            }
            let id = group
                .add_server(&asked.change)
                .map_err(|error| refusal(&error))?;
            (
                shown(&group, Some(id)),
                Some(format!("server {id} was added")),
            )
        }
        (true, false, Some(_)) => return Err(bad("\"add\" and \"id\" are given together")),
        (false, true, Some(id)) => {
            group.remove_server(id).map_err(|error| refusal(&error))?;
            (
                shown(&group, None),
                Some(format!("server {id} was removed")),
            )
        }
        (false, true, None) => return Err(bad("missing \"id\" argument")),
        (false, false, Some(id)) if !asked.change.is_empty() => {
            let changed = group.change_server(id, &asked.change);
            changed.map_err(|error| refusal(&error))?;
            (
                shown(&group, Some(id)),
                Some(format!("server {id} was changed")),
            )
        }
        (false, false, None) if !asked.change.is_empty() => {
            return Err(bad("missing \"id\" argument"));
        }
        (false, false, Some(id)) => {
            if group.group.servers().get(id).is_none() {
                return Err(refusal(&ChangeError::NoServer));
            }
            (shown(&group, Some(id)), None)
        }
        (false, false, None) => (shown(&group, None), None),
    };
    if what.is_some() {
        follow_everywhere(process);
    }
    let note = what.map(|what| format!("{what} in upstream \"{name}\""));
    Ok((text, note))
}

fn refusal(error: &ChangeError) -> ConfRefusal {
    (status_of(error), error.to_string())
}

fn read(args: &[u8]) -> Result<ConfArguments, ConfRefusal> {
    let mut asked = ConfArguments::default();
    let mut backup = false;
    for arg in args
        .split(|byte| *byte == b'&')
        .filter(|arg| !arg.is_empty())
    {
        let name = name_of(arg);
        let value = arg.get(name.len() + 1..).unwrap_or(b"");
        let value = String::from_utf8(unescape(value).into_owned())
            .map_err(|_| bad(format!("invalid \"{}\"", name.escape_ascii())))?;
        match name {
            b"stream" => return Err(bad("there are no groups of streams")),
            b"upstream" => asked.upstream = Some(value),
            b"id" => {
                let id = value.parse().map_err(|_| bad("invalid \"id\""))?;
                asked.id = Some(id);
            }
            b"add" => asked.add = true,
            b"remove" => asked.remove = true,
            b"up" => asked.change.turn(Parameter::Down, false),
            // Old versions needed it to find a backup server, too.
            b"backup" => backup = true,
            name => {
                let parameter = std::str::from_utf8(name).ok().and_then(Parameter::named);
                let Some(parameter) = parameter else {
                    return Err(bad(format!("unknown \"{}\"", name.escape_ascii())));
                };
                match parameter.is_flag() {
                    true => asked.change.turn(parameter, true),
                    false => asked.change.set(parameter, value),
                }
            }
        }
    }
    if backup && asked.add {
        asked.change.turn(Parameter::Backup, true);
    }
    Ok(asked)
}

/// The servers of a group, or one of them.
fn shown(group: &GroupRuntime, only: Option<u64>) -> String {
    let mut text = String::new();
    for entry in group.group.servers().entries() {
        if only.is_none_or(|id| id == entry.number) {
            line(&mut text, entry);
        }
    }
    text
}

fn line(text: &mut String, entry: &ServerEntry) {
    let _ = write!(text, "server {}", shown_server(entry));
    for word in parameters(&entry.settings) {
        let _ = write!(text, " {}", String::from_utf8_lossy(&word));
    }
    let _ = writeln!(text, "; # id={}", entry.number);
}
