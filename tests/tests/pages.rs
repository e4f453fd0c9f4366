//! `concat`, `trim` and `footer`, as clients get their results: over TLS and HTTP/2, from files
//! and from origins.

#[path = "pages/concat.rs"]
mod concat;
#[path = "pages/trim.rs"]
mod trim;

use sealane_tests::wire::{self, Response};
use sealane_tests::{Server, command};

/// The ways to a server.
const WAYS: [&[&str]; 3] = [&["http"], &["https", "--http1.1"], &["https", "--http2"]];

/// What curl makes of a path; `how` is a scheme and arguments.
#[track_caller]
fn curl(server: &Server<'_>, how: &[&str], path: &str) -> Response {
    let port = match how[0] {
        "http" => server.port("plain"),
        _ => server.port("tls"),
    };
    let url = format!("{}://localhost:{port}{path}", how[0]);
    let mut arguments = vec!["-sSik", "--path-as-is", "--globoff", "--max-time", "100"];
    arguments.extend(&how[1..]);
    arguments.push(&url);
    let outcome = command("curl", &arguments, b"").success();
    wire::whole(&outcome.stdout).expect("there is a head")
}

/// Listens with and without TLS.
const LISTEN: &str = "listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on;
     ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; root html;";
