//! Lines at level `debug`: `debug_connection` and `error_log ... debug`.

use sealane_tests::origin::Origin;
use sealane_tests::wire::{Connection, get_with};
use sealane_tests::{PATIENCE, Site, command, wait_for};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// What the lines about one request say, whoever wrote the configuration.
#[test]
fn what_becomes_of_a_request_is_told() {
    let site = Site::new();
    let origin = Origin::echo();
    let server = site.serve_with(
        "error_log logs/debug debug;",
        "",
        &format!(
            r#"server {{
                listen 127.0.0.1:%plain%;
                location /passed {{ proxy_pass http://127.0.0.1:{}; }}
            }}"#,
            origin.port()
        ),
    );
    let response = get_with(
        server.port("plain"),
        "/passed/on",
        "Authorization: Basic c2VjcmV0\r\nX-Asked: yes\r\n",
    );
    assert_eq!(response.status, 200);
    let log = || std::fs::read_to_string(site.path("logs/debug")).unwrap_or_default();
    wait_for("the last line about the request", || {
        log()
            .contains("http finalize request: 200, \"/passed/on\"")
            .then_some(())
    });
    let log = log();
    for line in [
        "accepted on 127.0.0.1:",
        "http request line: \"GET /passed/on HTTP/1.1\"",
        "http header: \"X-Asked: yes\"",
        "http header: \"Authorization: (14 bytes not shown)\"",
        "using configuration \"/passed\" for \"/passed/on\"",
        "http upstream status: 200",
        "http response: 200",
    ] {
        assert!(log.contains(line), "{line}:\n{log}");
    }
    assert!(!log.contains("c2VjcmV0"), "no secrets:\n{log}");
}

/// Only the clients that are named are logged, in a log whose level is another one.
#[test]
fn some_clients_are_logged_in_detail() {
    let site = Site::new();
    site.write("html/page", "a page");
    let socket = site.path("socket");
    let server = site.serve_with(
        "error_log logs/debug info;",
        "debug_connection 127.0.0.2; debug_connection 127.0.0.64/26; debug_connection unix:;",
        &format!(
            "server {{ listen 127.0.0.1:%plain%; listen unix:{}; root html; }}",
            socket.display()
        ),
    );
    let url = format!("http://127.0.0.1:{}/page", server.port("plain"));
    for (address, name) in [
        ("127.0.0.1", "quiet"),
        ("127.0.0.2", "address"),
        ("127.0.0.65", "network"),
        ("127.0.0.3", "other"),
    ] {
        let url = format!("{url}?{name}");
        command("curl", &["-sS", "--interface", address, &url], b"").success();
    }
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("it is valid");
    stream
        .write_all(b"GET /page?unix HTTP/1.0\r\n\r\n")
        .expect("it reads");
    stream.read_to_end(&mut Vec::new()).expect("a response");
    // After a request of another client that is still quiet.
    Connection::open(server.port("plain")).send("GET /page?last HTTP/1.0\r\n\r\n");
    let log = || std::fs::read_to_string(site.path("logs/debug")).unwrap_or_default();
    wait_for("the lines of the Unix socket", || {
        log().contains("GET /page?unix HTTP/1.0").then_some(())
    });
    let log = log();
    for (name, logged) in [
        ("quiet", false),
        ("address", true),
        ("network", true),
        ("other", false),
        ("unix", true),
        ("last", false),
    ] {
        let line = format!("http request line: \"GET /page?{name} ");
        assert_eq!(log.contains(&line), logged, "{name}:\n{log}");
    }
}
