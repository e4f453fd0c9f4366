//! Requests in one line each, and what comes back.
//!
//! `GET http://host/path | Name: value | = body`; with `https` curl asks, with `h2` before it
//! over HTTP/2.

use sealane_tests::comparison::normalise;
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{command, repository};

/// A response with what differs in every one taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status line, and the headers in the order of the alphabet.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// `status`, `body`, or the lines of a header.
    pub(crate) fn part(&self, name: &str) -> String {
        match name {
            "status" => self.head[0].clone(),
            "body" => self.body.escape_ascii().to_string(),
            _ => {
                let lines = self.head.iter().filter(|line| is_header(line, name));
                lines.cloned().collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Leaves that out.
    pub(crate) fn forget(&mut self, name: &str) {
        match name {
            "status" => self.head[0].clear(),
            "body" => self.body.clear(),
            _ => self.head.retain(|line| !is_header(line, name)),
        }
    }
}

fn is_header(line: &str, name: &str) -> bool {
    line.split_once(": ").is_some_and(|(key, _)| key == name)
}

/// Sends a request to the ports of a server.
pub(crate) fn ask(line: &str, plain: u16, tls: u16) -> Answer {
    if let Some(program) = line.strip_prefix("run ") {
        return run(program, plain);
    }
    let mut parts = line.split(" | ");
    let mut words = parts.next().unwrap_or_default().split(' ');
    let mut method = words.next().unwrap_or_default();
    let is_http2 = method == "h2";
    if is_http2 {
        method = words.next().unwrap_or_default();
    }
    let url = words.next().expect("a request has a URL");
    let (scheme, rest) = url.split_once("://").expect("a URL has a scheme");
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut headers = Vec::new();
    let mut body = "";
    for part in parts {
        match part.strip_prefix("= ") {
            Some(text) => body = text,
            None => headers.push(part),
        }
    }
    let (port, response) = match scheme {
        "http" => (plain, ask_plain(plain, method, host, path, &headers, body)),
        _ => (
            tls,
            ask_tls(tls, is_http2, method, host, path, &headers, body),
        ),
    };
    let Some(response) = response else {
        return Answer {
            head: vec!["closed".to_owned()],
            body: Vec::new(),
        };
    };
    let response = normalise(&[port], response, method == "HEAD");
    Answer {
        head: response.head.split('\n').map(str::to_owned).collect(),
        body: response.body,
    }
}

/// What a program says, which finds the port for `PORT` in its arguments.
fn run(program: &str, port: u16) -> Answer {
    let line = program.replace("PORT", &port.to_string());
    let line = line.replace("REPOSITORY", &repository().display().to_string());
    let words: Vec<&str> = line.split(' ').collect();
    let outcome = command(words[0], &words[1..], b"");
    let said = outcome.text();
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or(("", &said));
    let response = Response {
        status: 0,
        head: head.to_owned(),
        body: body.as_bytes().to_vec(),
    };
    let response = normalise(&[port], response, false);
    let mut head: Vec<String> = response.head.split('\n').map(str::to_owned).collect();
    head.insert(0, format!("exit status {}", outcome.status));
    Answer {
        head,
        body: response.body,
    }
}

fn ask_plain(
    port: u16,
    method: &str,
    host: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> Option<Response> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    if !body.is_empty() {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    let mut connection = Connection::open(port);
    connection.send(format!("{request}\r\n{body}"));
    connection.try_response(method == "HEAD")
}

fn ask_tls(
    port: u16,
    is_http2: bool,
    method: &str,
    host: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> Option<Response> {
    let url = format!("https://{host}:{port}{path}");
    let resolve = format!("{host}:{port}:127.0.0.1");
    let host = format!("Host: {host}");
    let version = if is_http2 { "--http2" } else { "--http1.1" };
    let mut words = vec![
        "-sSki",
        "--path-as-is",
        version,
        "--resolve",
        &resolve,
        "-H",
        &host,
    ];
    for header in headers {
        words.extend(["-H", header]);
    }
    if method == "HEAD" {
        words.push("-I");
    } else {
        words.extend(["-X", method]);
    }
    if !body.is_empty() {
        words.extend(["--data-binary", body]);
    }
    words.push(&url);
    let output = command("curl", &words, b"").success().stdout;
    wire::whole(&output)
}
