//! `check_status`: what health checks know of every server, in the formats of Tengine's page.

use crate::proxying::HealthTask;
use crate::snapshot::Snapshot;
use sealane_conf::model::CheckFormat;
use sealane_upstream::{PeerAddress, Verdict};
use serde_json::json;
use std::fmt::Write;

/// The arguments of the request: `format=`, `status=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChecksQuery {
    format: CheckFormat,
    /// Only servers that are up, or that are not.
    up: Option<bool>,
}

/// A server and what is known of it.
struct CheckedServer {
    upstream: String,
    name: String,
    up: bool,
    rise: u64,
    fall: u64,
    kind: &'static str,
    port: u16,
}

impl ChecksQuery {
    pub(super) fn of(args: &[u8], configured: CheckFormat) -> ChecksQuery {
        let mut asked = ChecksQuery {
            format: configured,
            up: None,
        };
        for arg in args.split(|byte| *byte == b'&') {
            match arg {
                b"format=html" => asked.format = CheckFormat::Html,
                b"format=csv" => asked.format = CheckFormat::Csv,
                b"format=json" => asked.format = CheckFormat::Json,
                b"status=up" => asked.up = Some(true),
                b"status=down" => asked.up = Some(false),
                _ => {}
            }
        }
        asked
    }

    /// The media type of the response.
    pub(super) fn media_type(self) -> &'static [u8] {
        match self.format {
            CheckFormat::Html => b"text/html; charset=utf-8",
            CheckFormat::Csv => b"text/plain; charset=utf-8",
            CheckFormat::Json => b"application/json",
        }
    }

    /// The response.
    pub(super) fn show(self, snapshot: &Snapshot, generation: u64) -> String {
        let all: Vec<CheckedServer> = snapshot.checks().iter().flat_map(shown).collect();
        let wanted = |shown: &&CheckedServer| self.up.is_none_or(|up| up == shown.up);
        let servers: Vec<&CheckedServer> = all.iter().filter(wanted).collect();
        match self.format {
            CheckFormat::Html => html(&servers, generation),
            CheckFormat::Csv => csv(&servers),
            CheckFormat::Json => json(&servers, generation),
        }
    }
}

fn shown(task: &HealthTask) -> Vec<CheckedServer> {
    let group = &task.group().group;
    let peers = group.peers().into_iter();
    let shown = peers.map(|peer| {
        let streak = peer.streak(task.number());
        CheckedServer {
            upstream: group.name().to_owned(),
            name: peer.name().to_string(),
            up: peer.verdict(task.number()) == Verdict::Healthy,
            rise: u64::try_from(streak).unwrap_or(0),
            fall: if streak < 0 { streak.unsigned_abs() } else { 0 },
            kind: task.kind(),
            port: match (task.port(), peer.address()) {
                (Some(port), _) => port,
                (None, PeerAddress::Ip(address)) => address.port(),
                (None, PeerAddress::Unix(_)) => 0,
            },
        }
    });
    shown.collect()
}

impl CheckedServer {
    fn status(&self) -> &'static str {
        if self.up { "up" } else { "down" }
    }
}

fn csv(servers: &[&CheckedServer]) -> String {
    let mut text = String::new();
    for (index, shown) in servers.iter().enumerate() {
        let CheckedServer {
            upstream,
            name,
            rise,
            fall,
            kind,
            port,
            ..
        } = shown;
        let status = shown.status();
        let _ = writeln!(
            text,
            "{index},{upstream},{name},{status},{rise},{fall},{kind},{port}"
        );
    }
    text
}

fn json(servers: &[&CheckedServer], generation: u64) -> String {
    let up = servers.iter().filter(|shown| shown.up).count();
    let server = |(index, shown): (usize, &&CheckedServer)| {
        json!({
            "index": index,
            "upstream": shown.upstream,
            "name": shown.name,
            "status": shown.status(),
            "rise": shown.rise,
            "fall": shown.fall,
            "type": shown.kind,
            "port": shown.port,
        })
    };
    let list: Vec<_> = servers.iter().enumerate().map(server).collect();
    let page = json!({"servers": {
        "total": servers.len(),
        "up": up,
        "down": servers.len() - up,
        "generation": generation,
        "server": list,
    }});
    format!("{page}\n")
}

fn html(servers: &[&CheckedServer], generation: u64) -> String {
    let up = servers.iter().filter(|shown| shown.up).count();
    let (total, down) = (servers.len(), servers.len() - up);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>Upstream check status</title>\n</head>\n<body>\n\
         <h1>Upstream check status</h1>\n\
         <p>Servers: {total}, up: {up}, down: {down}, generation: {generation}</p>\n\
         <table border=\"1\">\n<tr><th>Index</th><th>Upstream</th><th>Name</th><th>Status</th>\
         <th>Rise counts</th><th>Fall counts</th><th>Check type</th><th>Check port</th></tr>\n"
    );
    for (index, shown) in servers.iter().enumerate() {
        let colour = if shown.up { "" } else { " bgcolor=\"#FF8080\"" };
        let (upstream, name) = (escaped(&shown.upstream), escaped(&shown.name));
        let CheckedServer {
            rise,
            fall,
            kind,
            port,
            ..
        } = shown;
        let status = shown.status();
        let _ = writeln!(
            text,
            "<tr{colour}><td>{index}</td><td>{upstream}</td><td>{name}</td><td>{status}</td>\
             <td>{rise}</td><td>{fall}</td><td>{kind}</td><td>{port}</td></tr>"
        );
    }
    text.push_str("</table>\n</body>\n</html>\n");
    text
}

fn escaped(text: &str) -> String {
    let escaped = text.replace('&', "&amp;");
    escaped.replace('<', "&lt;").replace('>', "&gt;")
}
