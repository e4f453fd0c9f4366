//! What happens between a request and its response, phase by phase: the same configuration, files
//! and requests for nginx and for Sealane. Heads are equal in their order, bodies byte for byte,
//! and so is what is logged about the requests.
//!
//! nginx's current behaviour counts; where an older one differs, the comparison says since when.

#[path = "pipeline/access.rs"]
mod access;
#[path = "pipeline/content.rs"]
mod content;
#[path = "pipeline/files.rs"]
mod files;
#[path = "pipeline/filters.rs"]
mod filters;
#[path = "pipeline/language.rs"]
mod language;
#[path = "pipeline/texts.rs"]
mod texts;

use sealane_tests::comparison::{as_sent, nginx_version, replaced};
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{Server, Site};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The directory that both servers serve; `DIR` in configurations.
struct Files(Site);

impl Files {
    fn root(&self) -> PathBuf {
        self.0.path("html")
    }

    /// Writes a file with a modification time well in the past.
    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> &Files {
        let path = self.0.write(format!("html/{name}"), contents);
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = std::fs::File::open(path).expect("just written");
        file.set_modified(modified).expect("the file is ours");
        self
    }
}

fn compare(server: &str, prepare: fn(&Files), requests: &[&str]) {
    compare_http("", server, prepare, requests);
}

/// The same with directives in the `http` block.
///
/// A request is `METHOD target|Header: value|...`; its body has as many bytes as
/// `Content-Length` says.
fn compare_http(http: &str, server: &str, prepare: fn(&Files), requests: &[&str]) {
    let (files, ours, theirs) = (Files(Site::new()), Site::new(), Site::new());
    prepare(&files);
    let root = files.root().display().to_string();
    let [http, server] = [http, server].map(|text| text.replace('%', "%%").replace("DIR", &root));
    let configuration = format!(
        "root {root}; types {{ text/html html; text/plain txt; }} {http}
         server {{ listen 127.0.0.1:%plain%; server_name site; {server} }}"
    );
    let sealane = ours.serve(&configuration);
    let nginx = theirs.serve_by_nginx(&configuration);
    // What they log about requests is compared in the end.
    for server in [&sealane, &nginx] {
        server.expect_alert(": *");
    }
    for request in requests {
        let [mut ours, mut theirs] = [&sealane, &nginx].map(|server| ask(server, request, &root));
        if explain(&mut ours, &mut theirs) {
            continue;
        }
        assert_eq!(
            (ours.head.as_str(), readable(&ours)),
            (theirs.head.as_str(), readable(&theirs)),
            "{request}\n{server}"
        );
    }
    for server in [sealane, nginx] {
        server.stop("QUIT");
    }
    let [ours, theirs] = [ours, theirs].map(|site| {
        let log = std::fs::read_to_string(site.path("logs/error.log"));
        complaints(&log.expect("there is a log"))
    });
    for (our_line, their_line) in ours.iter().zip(&theirs) {
        assert_eq!(our_line, their_line, "{server}");
    }
    assert_eq!(ours.len(), theirs.len(), "{server}\n{ours:#?}\n{theirs:#?}");
}

fn ask(server: &Server<'_>, request: &str, root: &str) -> Response {
    let (method, rest) = request.split_once(' ').expect("METHOD target");
    let mut lines = rest.split('|');
    let target = lines.next().unwrap_or_default().replace("DIR", root);
    let headers: String = lines.map(|line| format!("{line}\r\n")).collect();
    let length = headers.split_once("Content-Length: ");
    let length = length.map(|(_, rest)| rest.trim().parse().expect("a number"));
    let body = "x".repeat(length.unwrap_or(0));
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: example.org\r\n{headers}Connection: close\r\n\r\n{body}"
    ));
    let mut response = wire::whole(&connection.rest()).expect("there is a head");
    if response.header("Transfer-Encoding") == Some("chunked") && method != "HEAD" {
        let (mut body, trailers) = wire::without_chunks(&response.body);
        // Trailers are part of what is compared.
        body.extend_from_slice(trailers.expect("the last chunk came"));
        response.body = body;
    }
    as_sent(&[server.port("plain")], response, method == "HEAD")
}

/// One character for each byte: nothing is lost.
fn readable(response: &Response) -> String {
    response.body.iter().copied().map(char::from).collect()
}

/// Takes out of both answers what need not be equal; whether nothing is left to compare.
fn explain(ours: &mut Response, theirs: &mut Response) -> bool {
    // Lists of directories: their length is known here.
    let has_length = |response: &Response| response.head.contains("\nContent-Length: ");
    if theirs.head.contains("\nTransfer-Encoding: chunked") && has_length(ours) {
        theirs.head = without_line(&theirs.head, "Transfer-Encoding: chunked");
        ours.head = without_line(&ours.head, "Content-Length: ");
    }
    // Files that were compressed beforehand have ranges since nginx 1.23.
    let is_coded = ours.head.contains("\nContent-Encoding: gzip") && has_length(ours);
    if is_coded && nginx_version() < (1, 23, 0) {
        if ours.status == 206 {
            return theirs.status == 200;
        }
        ours.head = without_line(&ours.head, "Accept-Ranges: bytes");
    }
    // Since some version between 1.22 and 1.28 nginx writes the stub of an empty answer twice.
    if nginx_version() >= (1, 23, 0) {
        for stub in ["stub", "STUB"].map(|word| format!("{word} <!--#echo var=\"uri\" -->")) {
            theirs.body = replaced(&theirs.body, &stub.repeat(2), &stub);
        }
    }
    false
}

fn without_line(head: &str, start: &str) -> String {
    let lines = head.split('\n').filter(|line| !line.starts_with(start));
    lines.collect::<Vec<_>>().join("\n")
}

/// What was logged about requests at level `notice` and above, from the level on, without
/// processes and connections.
/// The same twice counts once: nginx evaluates values twice, the first time for their length,
/// and says again what is counted here.
fn complaints(log: &str) -> Vec<String> {
    let mut complaints: Vec<String> = log
        .lines()
        .filter(|line| {
            let levels = ["[notice]", "[warn]", "[error]", "[crit]", "[alert]"];
            // nginx's mp4 module makes empty buffers and is told so.
            let is_about_itself = line.contains("zero size buf in output");
            let is_serious = levels.iter().any(|level| line.contains(level));
            let is_count = line.contains(" message repeated ");
            is_serious && line.contains(": *") && !is_about_itself && !is_count
        })
        .map(|line| {
            let (_, line) = line.split_once('[').expect("there is a level");
            let (level, rest) = line.split_once(']').expect("it ends");
            let (_, message) = rest.split_once(": *").expect("it is about a connection");
            let (_, message) = message.split_once(' ').expect("the number ends");
            format!("{level} {}", without_excess(message))
        })
        .collect();
    let mut known = HashSet::new();
    complaints.retain(|complaint| known.insert(complaint.clone()));
    complaints
}

/// A message without the excess of `limit_req`, which says how much time has passed.
fn without_excess(message: &str) -> String {
    let Some((before, after)) = message.split_once("excess: ") else {
        return message.to_owned();
    };
    let number = |byte: char| byte.is_ascii_digit() || byte == '.';
    format!("{before}excess: N{}", after.trim_start_matches(number))
}
