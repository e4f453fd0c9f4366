//! The same requests to Sealane and to nginx, and where their answers differ.

use crate::Server;
use crate::wire::{self, Response};

/// Every request that the two servers do not answer alike on their ports `%plain%`, with what
/// `shown` shows of both answers; empty when there is none.
#[track_caller]
pub fn differences(
    ours: &Server<'_>,
    theirs: &Server<'_>,
    requests: impl IntoIterator<Item = String>,
    shown: impl Fn(&Response) -> String,
) -> String {
    let mut differences = String::new();
    for request in requests {
        let ask = |server: &Server<'_>| shown(&wire::request(server.port("plain"), &request));
        let (one, other) = (ask(ours), ask(theirs));
        if one != other {
            differences.push_str(&format!("{request}\nours:\n{one}\nnginx:\n{other}\n\n"));
        }
    }
    differences
}

/// The status line, and the header lines in the order of the alphabet but for those with these
/// names.
pub fn head_without<'r>(response: &'r Response, names: &[&str]) -> Vec<&'r str> {
    let is_wanted = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        !names.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let mut head: Vec<&str> = response.head.split("\r\n").filter(is_wanted).collect();
    head[1..].sort_unstable();
    head
}

/// Makes equal what may differ in two answers, one from each server; `port` is where it was asked.
/// Each step says why.
pub fn normalise(port: u16, mut response: Response, head_only: bool) -> Response {
    // The name of the server is in error pages, and in their length.
    let text = String::from_utf8_lossy(&response.body).into_owned();
    let named = ["<center>nginx", "<center>sealane"]
        .iter()
        .find_map(|name| text.find(name));
    let own_page = named.is_some();
    if let Some((at, end)) = named.and_then(|at| Some((at, at + text[at..].find("</center>")?))) {
        response.body = format!("{}<center>nginx{}", &text[..at], &text[end..]).into_bytes();
    }
    // The boundary of a multipart body counts connections.
    let boundary = response
        .header("content-type")
        .and_then(|kind| kind.split_once("boundary="))
        .map(|(_, boundary)| boundary.to_owned());
    if let Some(boundary) = &boundary {
        response.body = text.replace(boundary.as_str(), "BOUNDARY").into_bytes();
    }
    let mut lines = response.head.split("\r\n");
    let status_line = lines.next().unwrap_or_default().to_owned();
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let (name, mut value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        match name.as_str() {
            // The clock and the name of the server.
            "date" | "server" => continue,
            // Follows from the server's name in the page.
            "content-length" if own_page || (head_only && response.status >= 300) => continue,
            // The length of the boundary itself.
            "content-length" if boundary.is_some() => continue,
            "content-type" if boundary.is_some() => value = "multipart/byteranges".to_owned(),
            // "expires -1" and "expires max": only the former depends on the clock.
            "expires" if !value.starts_with("Thu, 31 Dec 2037") => continue,
            "location" => value = value.replace(&format!(":{}", port), ":PORT"),
            _ => {}
        }
        kept.push(format!("{name}: {value}"));
    }
    // The order of header lines means nothing (RFC 9110, 5.3).
    kept.sort();
    response.head = format!("{status_line}\n{}", kept.join("\n"));
    response
}
