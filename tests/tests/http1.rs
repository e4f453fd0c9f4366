//! HTTP/1 on the wire: keep-alive, pipelining, bodies, `Expect`, time-outs,
//! header limits, and messages that must be refused because two parsers could
//! read them in two ways.

use sealane_tests::wire::{Connection, request};
use sealane_tests::{Server, Site, scale};
use std::time::Duration;

const FILE: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn site() -> Site {
    let site = Site::new();
    site.write("html/a.txt", "alpha");
    site.write("html/b.txt", "beta");
    site
}

#[test]
fn keep_alive_by_version_and_header() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    for (head, stays_open) in [
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", true),
        (
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            false,
        ),
        (
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n",
            false,
        ),
        ("GET /a.txt HTTP/1.0\r\nHost: a\r\n\r\n", false),
        (
            "GET /a.txt HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
            true,
        ),
        ("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("HEAD /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", true),
    ] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(head);
        let response = connection.response(head.starts_with("HEAD"));
        let announced = response.header("connection") == Some("keep-alive");
        assert_eq!(announced, stays_open, "{head:?}: {}", response.head);
        if stays_open {
            connection.send(FILE);
            assert_eq!(
                connection.response(false).text(),
                "alpha",
                "second request after {head:?}"
            );
        } else {
            assert!(connection.is_closed(), "{head:?}");
        }
    }
}

#[test]
fn requests_per_connection_are_limited() {
    let site = site();
    let server =
        site.serve("server { listen 127.0.0.1:%plain%; root html; keepalive_requests 3; }");
    let mut connection = Connection::open(server.port("plain"));
    for number in 1..=3 {
        connection.send(FILE);
        let response = connection.response(false);
        let expected = if number < 3 { "keep-alive" } else { "close" };
        assert_eq!(
            response.header("connection"),
            Some(expected),
            "request {number}"
        );
    }
    assert!(connection.is_closed());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = site();
    let server =
        site.serve("server { listen 127.0.0.1:%plain%; root html; keepalive_requests 100000; }");
    let mut connection = Connection::open(server.port("plain"));
    let rounds = scale(200, 5000);
    let pair = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\r\nPOST /b.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    for _ in 0..rounds {
        connection.send(pair);
        connection.send("GET /b.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for round in 0..rounds {
        assert_eq!(connection.response(false).text(), "alpha", "round {round}");
        assert_eq!(connection.response(false).status, 405, "round {round}");
        assert_eq!(connection.response(false).text(), "beta", "round {round}");
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    let mut connection = Connection::open(server.port("plain"));
    for byte in "GET /b.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz".bytes() {
        connection.send([byte]);
    }
    assert_eq!(connection.response(false).text(), "beta");
    connection.send(FILE);
    assert_eq!(connection.response(false).text(), "alpha");
}

#[test]
fn bodies_are_discarded_and_the_connection_stays_usable() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; client_max_body_size 1m; location = /r { return 200 ok; } }");
    let mut connection = Connection::open(server.port("plain"));
    let large = "x".repeat(700_000);
    for (head, body) in [
        (
            "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            "hello".to_owned(),
        ),
        (
            "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 700000\r\n\r\n",
            large.clone(),
        ),
        (
            "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n".to_owned(),
        ),
        (
            "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            format!(
                "A;name=value\r\n0123456789\r\n{:x}\r\n{large}\r\n000\r\nTrailer: x\r\n\r\n",
                large.len()
            ),
        ),
    ] {
        connection.send(head);
        connection.send(body);
        let response = connection.response(false);
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "ok"),
            "{head}"
        );
    }
    connection.send(FILE);
    assert_eq!(connection.response(false).text(), "alpha");
}

#[test]
fn bodies_over_the_limit_are_refused() {
    let site = site();
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; client_max_body_size 1k;
            location /any/ { client_max_body_size 0; return 200 any; } }",
    );
    let port = server.port("plain");
    let post = |target: &str, length: usize| {
        let mut connection = Connection::open(port);
        connection.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        ));
        connection.send("x".repeat(length));
        connection.response(false).status
    };
    assert_eq!(post("/a.txt", 1024), 405);
    assert_eq!(post("/a.txt", 1025), 413);
    assert_eq!(post("/any/", 5000), 200);
    let mut connection = Connection::open(port);
    connection
        .send("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n");
    assert_eq!(
        connection.response(false).status,
        400,
        "a length that no number holds"
    );
}

#[test]
fn expect_continue() {
    let site = site();
    let server =
        site.serve("server { listen 127.0.0.1:%plain%; root html; client_max_body_size 10; }");
    let mut refused = Connection::open(server.port("plain"));
    refused.send(
        "POST /a.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
    );
    assert_eq!(
        refused.response(false).status,
        413,
        "refused without asking for the body"
    );
    let mut unneeded = Connection::open(server.port("plain"));
    unneeded.send(
        "POST /a.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    let mut response = unneeded.response(false);
    if response.status == 100 {
        unneeded.send("abc");
        response = unneeded.response(false);
    }
    assert_eq!(response.status, 405);
}

#[test]
fn time_outs_end_connections_that_send_nothing() {
    let site = site();
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html;
            client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s; send_timeout 5s; }",
    );
    let port = server.port("plain");
    // Nothing at all: closed without a word.
    assert!(Connection::open(port).is_closed());
    // Half a head: 408, as nginx since 1.23 sends it, or closed in silence as before.
    let mut half = Connection::open(port);
    half.send("GET /a.txt HTTP/1.1\r\nHost:");
    if let Some(response) = half.try_response(false) {
        assert_eq!(response.status, 408);
    }
    // After a response: closed without a word.
    let mut idle = Connection::open(port);
    idle.send(FILE);
    assert_eq!(idle.response(false).text(), "alpha");
    assert!(idle.is_closed());
}

#[test]
fn the_header_time_out_is_for_the_whole_head() {
    let site = site();
    let server =
        site.serve("server { listen 127.0.0.1:%plain%; root html; client_header_timeout 2s; }");
    let mut drip = Connection::open(server.port("plain"));
    let started = std::time::Instant::now();
    drip.send("GET /a.txt HTTP/1.1\r\n");
    // A header line every quarter of a second, for as long as the server takes
    // it: a time-out that each byte renews would never end this.
    while drip.send("X: y\r\n") && started.elapsed() < Duration::from_secs(40) {
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(
        started.elapsed() < Duration::from_secs(40),
        "a slow head was accepted without end"
    );
}

fn header_limits(site: &Site) -> Server<'_> {
    site.serve(
        "server { listen 127.0.0.1:%plain%; root html; client_header_buffer_size 1k; large_client_header_buffers 2 2k; }",
    )
}

#[test]
fn heads_over_the_limits_are_refused() {
    let site = site();
    let server = header_limits(&site);
    let port = server.port("plain");
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(2100));
    assert_eq!(request(port, &long_target).status, 414);
    let long_line = format!(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(2100)
    );
    assert_eq!(request(port, &long_line).status, 400);
    let many = format!(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n",
        format!("X-Long: {}\r\n", "y".repeat(1500)).repeat(4)
    );
    assert_eq!(request(port, &many).status, 400);
    let allowed = format!(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n",
        "x".repeat(1900)
    );
    assert_eq!(request(port, &allowed).status, 200);
}

#[test]
fn ambiguous_messages_are_refused() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    for (what, message) in [
        (
            "two lengths",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        ),
        (
            "the same length twice",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        ),
        (
            "a list of lengths",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx",
        ),
        (
            "a signed length",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
        ),
        (
            "a hexadecimal length",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\nx",
        ),
        (
            "length and chunked",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked and length",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked in HTTP/1.0",
            "POST /a.txt HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked twice",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "a bare CR in a header",
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        ),
        (
            "a NUL in a header",
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        ),
        (
            "a space before the colon",
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx",
        ),
        (
            "obsolete folding",
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        ),
        (
            "folding in the first header",
            "GET /a.txt HTTP/1.1\r\n Host: a\r\n\r\n",
        ),
        ("no host", "GET /a.txt HTTP/1.1\r\n\r\n"),
        (
            "two hosts",
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        ),
        (
            "a host with a slash",
            "GET /a.txt HTTP/1.1\r\nHost: a/b\r\n\r\n",
        ),
        (
            "a host with a space",
            "GET /a.txt HTTP/1.1\r\nHost: a b\r\n\r\n",
        ),
        ("an empty host", "GET /a.txt HTTP/1.1\r\nHost:\r\n\r\n"),
        (
            "a control character in the target",
            "GET /a\x01.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "a space in the target",
            "GET /a .txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "no version digits",
            "GET /a.txt HTTP/x.1\r\nHost: a\r\n\r\n",
        ),
        (
            "a lower-case method",
            "get /a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        ("no slash", "GET a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
        (
            "above the root",
            "GET /../a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "above the root, escaped",
            "GET /%2e%2e/a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        ("half an escape", "GET /a%2 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (
            "an escape that is none",
            "GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "an escaped NUL",
            "GET /a%00.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
    ] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(message);
        let response = connection.response(false);
        assert_eq!(response.status, 400, "{what}: {}", response.head);
        assert!(
            connection.is_closed(),
            "{what}: the rest of the connection is not read as a request"
        );
    }
}

#[test]
fn unsupported_versions_and_codings_have_their_own_status() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    for (message, status) in [
        ("GET /a.txt HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (
            "GET /a.txt HTTP/1.2\r\nHost: a\r\nConnection: close\r\n\r\n",
            200,
        ),
        (
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            501,
        ),
        (
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
        ("TRACE /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nX-Under_score: 1\r\nConnection: close\r\n\r\n",
            200,
        ),
    ] {
        assert_eq!(
            request(server.port("plain"), message).status,
            status,
            "{message}"
        );
    }
}

#[test]
fn malformed_chunks_end_the_connection() {
    let site = site();
    let server = site
        .serve("server { listen 127.0.0.1:%plain%; root html; location = /r { return 200 ok; } }");
    for body in [
        "x\r\n",
        "-1\r\n",
        "5\rhello",
        "1\r\nab\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n",
        ";\r\n",
    ] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send("POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(body);
        connection.send(FILE);
        // The response to the POST may be out before its body is read; what
        // follows a broken chunk must never be answered as a request.
        let everything = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(
            !everything.contains("alpha"),
            "{body:?} hid a request: {everything}"
        );
    }
}

#[test]
fn simple_requests_of_http_0_9_get_a_bare_body() {
    let site = site();
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /a.txt\r\n");
    assert_eq!(String::from_utf8_lossy(&connection.rest()), "alpha");
}
