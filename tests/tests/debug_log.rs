//! Lines at level `debug`: `debug_connection` and `error_log ... debug`.

use sealane_tests::origin::Origin;
use sealane_tests::reload::{self, Reload};
use sealane_tests::wire::{Connection, get, get_with};
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

/// What the ring of `error_log memory:` holds, as an operator reads it.
fn ring_of(pid: u32) -> String {
    let directory = format!("/proc/{pid}/fd");
    let mut entries = std::fs::read_dir(directory).expect("the process runs");
    let ring = entries.find_map(|entry| {
        let path = entry.expect("it can be read").path();
        let target = std::fs::read_link(&path).ok()?;
        let is_ring = target.to_string_lossy().starts_with("/memfd:error_log");
        is_ring.then_some(path)
    });
    let bytes = std::fs::read(ring.expect("a descriptor of the ring")).expect("it can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn the_newest_lines_stay_in_memory() {
    let site = Site::new();
    let configuration = "
        error_log memory:4k debug;
        server { listen 127.0.0.1:%plain%; location / { return 204; } }";
    let server = site.serve(configuration);
    let port = server.port("plain");
    for number in 0..100 {
        assert_eq!(get(port, &format!("/request-{number}-")).status, 204);
    }
    let ring = wait_for("the last request", || {
        let ring = ring_of(server.pid());
        ring.contains("/request-99-").then_some(ring)
    });
    assert_eq!(ring.len(), 4096);
    assert!(!ring.contains("/request-1-"), "it is gone: {ring}");
    assert!(!server.error_log().contains("/request-"));
    // A reload goes on in the same ring.
    assert_eq!(reload::reload_as_it_is(&server), Reload::Applied);
    assert_eq!(get(port, "/after").status, 204);
    wait_for("the request after the reload", || {
        let ring = ring_of(server.pid());
        (ring.contains("/after") && ring.contains("/request-99-")).then_some(())
    });
}
