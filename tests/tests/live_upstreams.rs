//! Groups of servers that change while the server runs: `api write=on`, `upstream_conf`,
//! `dyups_interface`, `state`.

#[path = "live_upstreams/dyups.rs"]
mod dyups;
#[path = "live_upstreams/rest.rs"]
mod rest;
#[path = "live_upstreams/state.rs"]
mod state;
#[path = "live_upstreams/under_load.rs"]
mod under_load;

use sealane_tests::Server;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{Response, get, request};
use std::collections::BTreeSet;

/// An origin that answers with its port.
fn origin() -> Origin {
    let port = std::sync::Arc::new(std::sync::OnceLock::new());
    let own = std::sync::Arc::clone(&port);
    let origin = Origin::answering(move |_| {
        let text: &String = own.wait();
        let length = text.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
        Answer::Send(answer.into_bytes())
    });
    let text = origin.port().to_string();
    port.set(text).expect("once");
    origin
}

/// A request with a body, on a connection of its own.
#[track_caller]
fn ask(server: &Server<'_>, method: &str, target: &str, body: &str) -> Response {
    let length = body.len();
    request(
        server.port("plain"),
        &format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

/// The ports that answer so many requests.
fn answering(server: &Server<'_>, target: &str, requests: usize) -> BTreeSet<u16> {
    let ports = (0..requests).map(|_| {
        let response = get(server.port("plain"), target);
        assert_eq!(response.status, 200, "{}", server.error_log());
        response.text().parse().expect("a port")
    });
    ports.collect()
}

/// A member of a JSON text that is not nested.
fn json(response: &Response) -> serde_json::Value {
    let text = response.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
