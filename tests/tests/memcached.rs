//! `memcached_pass`, with memcached itself.

use sealane_tests::wire::{self, Connection, get};
use sealane_tests::{Site, command, wait_for};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running `memcached`, killed when it is dropped.
struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    fn start(site: &Site) -> Memcached {
        let port = site.port("memcached");
        let number = port.to_string();
        let mut memcached = Command::new("memcached");
        memcached.args(["-l", "127.0.0.1", "-p", &number, "-U", "0"]);
        if sealane_needs::is_root() {
            memcached.args(["-u", "nobody"]);
        }
        let child = memcached
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached is installed (scripts/install-test-deps.sh)");
        let memcached = Memcached { child, port };
        wait_for("memcached to listen", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        memcached
    }

    /// Sends a command and reads lines up to the one that begins so.
    fn ask(&self, command: &[u8], last: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        socket.write_all(command).expect("it reads");
        let mut said = String::new();
        let mut lines = BufReader::new(socket);
        while lines.read_line(&mut said).expect("text") > 0 {
            let line = said.lines().last().unwrap_or_default();
            if line.starts_with(last) {
                break;
            }
        }
        said
    }

    fn set(&self, key: &str, flags: u32, value: &[u8]) {
        let head = format!("set {key} {flags} 0 {}\r\n", value.len());
        let command = [head.as_bytes(), value, b"\r\n"].concat();
        assert_eq!(self.ask(&command, "STORED"), "STORED\r\n");
    }

    /// One of its counters.
    fn counter(&self, name: &str) -> u64 {
        let all = self.ask(b"stats\r\n", "END");
        let line = format!("STAT {name} ");
        let found = all.lines().find_map(|counter| counter.strip_prefix(&line));
        found.expect("a counter").parse().expect("a number")
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn values_are_responses_and_missing_keys_are_404() {
    let site = Site::new();
    let memcached = Memcached::start(&site);
    let long = vec![b'x'; 900_000];
    memcached.set("/text.txt", 0, b"a value");
    memcached.set("/a%20b%25", 0, b"escaped");
    memcached.set("/empty", 0, b"");
    memcached.set("/long", 0, &long);
    let server = site.serve(
        r#"
        types { text/plain txt; }
        error_page 404 = @made;
        server {
            listen 127.0.0.1:%plain%;
            set $memcached_key $uri;
            location / { memcached_pass 127.0.0.1:%memcached%; }
            location @made { return 200 "made for $uri, $upstream_status"; }
            location /none/ { set $memcached_key ""; memcached_pass 127.0.0.1:%memcached%; }
        }"#,
    );
    let port = server.port("plain");
    let response = get(port, "/text.txt");
    assert_eq!((response.status, response.text()), (200, "a value".into()));
    assert_eq!(response.header("Content-Length"), Some("7"));
    assert_eq!(response.header("Content-Type"), Some("text/plain"));
    assert_eq!(get(port, "/a%20b%25").text(), "escaped");
    assert_eq!(get(port, "/empty").header("Content-Length"), Some("0"));
    assert_eq!(get(port, "/long").body, long);
    assert_eq!(get(port, "/other").text(), "made for /other, 404");
    // A part of a value.
    let part = wire::get_with(port, "/text.txt", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "val".into()));
    let head = wire::request(port, "HEAD /text.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(
        (head.status, head.header("Content-Length")),
        (200, Some("7"))
    );
    assert_eq!(get(port, "/none/").status, 500);
    server.wait_for_log("the \"$memcached_key\" variable is not set");
    let posted = "POST /text.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(wire::request(port, posted).status, 405);
}

#[test]
fn nothing_in_a_key_becomes_another_command() {
    let site = Site::new();
    let memcached = Memcached::start(&site);
    memcached.set("a", 0, b"kept");
    let server = site.serve(
        "server {
            listen 127.0.0.1:%plain%;
            location / { set $memcached_key $uri; memcached_pass 127.0.0.1:%memcached%; }
        }",
    );
    let response = get(server.port("plain"), "/x%0d%0adelete%20a%0d%0aget%20a");
    assert_eq!(response.status, 404);
    assert!(memcached.ask(b"get a\r\n", "END").contains("kept"));
    assert_eq!(memcached.counter("cmd_get"), 2);
}

#[test]
fn a_flag_says_that_a_value_is_compressed() {
    let site = Site::new();
    let memcached = Memcached::start(&site);
    let packed = command("gzip", &["-c"], b"a compressed value").stdout;
    memcached.set("/packed", 2, &packed);
    memcached.set("/plain", 1, b"plain");
    let server = site.serve(
        "server {
            listen 127.0.0.1:%plain%;
            location / {
                set $memcached_key $uri;
                memcached_pass 127.0.0.1:%memcached%;
                memcached_gzip_flag 2;
                gunzip on;
            }
        }",
    );
    let port = server.port("plain");
    let taken = wire::get_with(port, "/packed", "Accept-Encoding: gzip\r\n");
    assert_eq!(taken.header("Content-Encoding"), Some("gzip"));
    assert_eq!(taken.body, packed);
    assert_eq!(get(port, "/packed").text(), "a compressed value");
    assert_eq!(get(port, "/plain").header("Content-Encoding"), None);
}

#[test]
fn connections_are_used_again() {
    let site = Site::new();
    let memcached = Memcached::start(&site);
    memcached.set("/a", 0, b"a");
    let server = site.serve_with(
        "worker_processes 1;",
        "",
        "upstream values { server 127.0.0.1:%memcached%; keepalive 1; }
        server {
            listen 127.0.0.1:%plain%;
            location / { set $memcached_key $uri; memcached_pass values; }
        }",
    );
    let port = server.port("plain");
    let before = memcached.counter("total_connections");
    let mut connection = Connection::open(port);
    for target in ["/a", "/missing", "/a", "/missing", "/a"] {
        let mut request = String::new();
        write!(request, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").expect("text");
        connection.send(&request);
        let status = connection.response(false).status;
        assert_eq!(status, if target == "/a" { 200 } else { 404 });
    }
    // One for the server, one for the question.
    assert_eq!(memcached.counter("total_connections"), before + 2);
}

#[test]
fn another_server_is_asked_and_broken_ones_are_502() {
    let site = Site::new();
    let memcached = Memcached::start(&site);
    memcached.set("/a", 0, b"a");
    let server = site.serve(&format!(
        "upstream lies {{ server 127.0.0.1:{}; server 127.0.0.1:%memcached% backup; }}
        upstream empty {{ server 127.0.0.1:{}; server 127.0.0.1:%memcached% backup; }}
        server {{
            listen 127.0.0.1:%plain%;
            set $memcached_key $uri;
            location / {{ memcached_pass lies; memcached_read_timeout 1s; }}
            location ~ ^/next(?<key>/.*) {{
                set $memcached_key $key;
                memcached_pass lies;
                memcached_next_upstream invalid_response;
            }}
            location ~ ^/found(?<key>/.*) {{
                set $memcached_key $key;
                memcached_pass empty;
                memcached_next_upstream not_found;
            }}
        }}",
        line_server(b"SERVER_ERROR out of memory\r\n"),
        line_server(b"END\r\n"),
    ));
    let port = server.port("plain");
    assert_eq!(get(port, "/a").status, 502);
    server.wait_for_log("memcached sent invalid response: \"SERVER_ERROR out of memory\"");
    assert_eq!(get(port, "/next/a").text(), "a");
    assert_eq!(get(port, "/found/a").text(), "a");
}

/// A server that answers every line with the same; its port.
fn line_server(answer: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { return };
            let mut heard = [0; 100];
            while socket.read(&mut heard).is_ok_and(|bytes| bytes > 0) {
                if socket.write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    port
}
