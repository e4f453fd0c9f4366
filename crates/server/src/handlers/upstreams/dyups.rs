//! `dyups_interface`: the interface of Tengine's ngx_http_dyups_module.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /list` | names of groups |
//! | `GET /detail` | groups with their servers and parameters |
//! | `GET /upstream/NAME` | servers of a group |
//! | `POST /upstream/NAME` | servers for a group, which is made if there is none |
//! | `DELETE /upstream/NAME` | a group that the configuration has loses its servers, any other is removed |
//!
//! A group of the configuration keeps its method and its other settings: only its servers are
//! changed, for every location that passes requests to it.

use super::{UpstreamsReply, UpstreamsRequest, follow_everywhere, group_named, newest};
use crate::proxying::GroupRuntime;
use crate::proxying::live::ChangeError;
use crate::proxying::live::lines::{block, shown_server};
use crate::snapshot::Snapshot;
use crate::worker::Process;
use sealane_conf::model::{BalanceMethod, Upstream};
use sealane_http::{Method, StatusCode};
use std::fmt::Write;
use std::sync::Arc;

/// What is said of a change that was made.
const SUCCESS: &str = "success";
/// Longest name of a group.
const MAX_NAME_BYTES: usize = 255;

pub(super) fn answer(process: &Process, request: &UpstreamsRequest) -> UpstreamsReply {
    let mut names = request.path.split('/').filter(|name| !name.is_empty());
    let asked = (names.next(), names.next(), names.next());
    let Some(snapshot) = newest(process) else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n");
    };
    match (request.method, asked) {
        (Method::Get | Method::Head, (Some(what), None, None)) => list(&snapshot, what),
        (Method::Get | Method::Head, (Some(what), Some(name), None)) if is_upstream(what) => {
            match group_named(&snapshot, name).filter(has_servers) {
                Some(group) => plain(StatusCode::OK, &servers(&group)),
                None => plain(StatusCode::NOT_FOUND, ""),
            }
        }
        (Method::Get | Method::Head, _) => plain(StatusCode::NOT_FOUND, ""),
        (Method::Post, (Some(what), Some(name), None)) if is_upstream(what) => {
            let made = make(process, &snapshot, name, &request.body);
            match made {
                Ok(()) => changed(format!("servers of upstream \"{name}\" were set")),
                Err((status, why)) => plain(status, &format!("{why}\n")),
            }
        }
        (Method::Post, _) => plain(StatusCode::NOT_FOUND, "not support this interface"),
        (Method::Delete, (Some(what), Some(name), None)) if is_upstream(what) => {
            match remove(process, &snapshot, name) {
                Ok(true) => changed(format!("upstream \"{name}\" was removed")),
                Ok(false) => plain(StatusCode::NOT_FOUND, "not found upstream"),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
            }
        }
        _ => plain(StatusCode::NOT_ALLOWED, "not support this api"),
    }
}

fn is_upstream(what: &str) -> bool {
    what.eq_ignore_ascii_case("upstream")
}

fn plain(status: StatusCode, text: &str) -> UpstreamsReply {
    UpstreamsReply::new(status, b"text/plain", text.to_owned())
}

fn changed(note: String) -> UpstreamsReply {
    UpstreamsReply {
        note: Some(note),
        ..plain(StatusCode::OK, SUCCESS)
    }
}

fn has_servers(group: &Arc<GroupRuntime>) -> bool {
    !group.group.servers().entries().is_empty()
}

/// `/list` and `/detail`.
fn list(snapshot: &Snapshot, what: &str) -> UpstreamsReply {
    let groups = snapshot.groups.of_http();
    let groups = groups.filter(|group| group.explicit).filter(has_servers);
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{}", group.group.name());
        if what.eq_ignore_ascii_case("detail") {
            text.push_str(&details(&group));
            text.push('\n');
        }
    }
    match what.to_ascii_lowercase().as_str() {
        "list" | "detail" if text.is_empty() => plain(StatusCode::NO_CONTENT, ""),
        "list" | "detail" => plain(StatusCode::OK, &text),
        _ => plain(StatusCode::NOT_FOUND, ""),
    }
}

fn servers(group: &GroupRuntime) -> String {
    let mut text = String::new();
    for entry in group.group.servers().entries() {
        let _ = writeln!(text, "server {}", shown_server(entry));
    }
    text
}

fn details(group: &GroupRuntime) -> String {
    let mut text = String::new();
    for entry in group.group.servers().entries() {
        let settings = &entry.settings;
        let _ = writeln!(
            text,
            "server {} weight={} max_conns={} max_fails={} fail_timeout={} backup={} down={}",
            shown_server(entry),
            settings.weight,
            settings.max_conns,
            settings.max_fails,
            settings.fail_timeout.as_secs(),
            u8::from(settings.backup),
            u8::from(settings.down),
        );
    }
    text
}

/// Gives a group the servers of a text, or makes one of it.
fn make(
    process: &Process,
    snapshot: &Snapshot,
    name: &str,
    text: &[u8],
) -> Result<(), (StatusCode, String)> {
    let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
    if text.is_empty() {
        return Err(bad("no content"));
    }
    if name.len() > MAX_NAME_BYTES || name.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(bad("invalid name of an upstream"));
    }
    let (upstream, servers) = block(name, text).map_err(|why| bad(&why))?;
    if servers.is_empty() {
        return Err(bad("no servers are inside upstream"));
    }
    if let Some(group) = snapshot.groups.block(name) {
        if let Some(setting) = other_setting(&upstream) {
            return Err(bad(&format!(
                "upstream \"{name}\" is in the configuration, which says its {setting}: send \
                 \"server\" lines only"
            )));
        }
        let set = group.change_servers(|list| {
            list.replace(servers.into_iter().map(|server| group.fitted(server)));
            Ok(())
        });
        set.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    } else {
        if servers.iter().all(|server| server.backup) {
            return Err(bad("every server is a backup"));
        }
        let bytes = (text.len() as u64, snapshot.dyups_bytes);
        let live = snapshot.groups.live();
        if !live.set(&upstream, bytes, process.workers().len()) {
            let most = snapshot.dyups_bytes;
            return Err((
                StatusCode::INSUFFICIENT_STORAGE,
                format!("all upstreams together have more than {most} bytes: dyups_shm_zone_size"),
            ));
        }
    }
    follow_everywhere(process);
    Ok(())
}

/// A setting besides servers that the text has.
fn other_setting(upstream: &Upstream) -> Option<&'static str> {
    let keepalive = sealane_conf::model::UpstreamKeepalive::default();
    match upstream {
        upstream if upstream.method != BalanceMethod::RoundRobin => Some("balancing method"),
        upstream if upstream.sticky.is_some() => Some("\"sticky\""),
        upstream if upstream.check.is_some() => Some("\"check\""),
        upstream if upstream.keepalive != keepalive => Some("\"keepalive\""),
        _ => None,
    }
}

/// Returns whether there was such a group.
fn remove(process: &Process, snapshot: &Snapshot, name: &str) -> Result<bool, ChangeError> {
    let removed = match snapshot.groups.block(name) {
        Some(group) if has_servers(group) => {
            group.change_servers(|list| {
                list.replace([]);
                Ok(())
            })?;
            true
        }
        Some(_) => false,
        None => snapshot.groups.live().remove(name),
    };
    follow_everywhere(process);
    Ok(removed)
}
