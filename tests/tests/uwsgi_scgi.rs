//! `uwsgi_pass` with uwsgi and a WSGI application, `scgi_pass` with a server of Python's
//! standard library: the same application behind both.

use sealane_tests::comparison::differences;
use sealane_tests::random::Random;
use sealane_tests::wire::{self, Response};
use sealane_tests::{Application, Site, command, sha256};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

const CONFIGURATION: &str = r#"
    client_max_body_size 64m;
    upstream uwsgi { server 127.0.0.1:%uwsgi%; }
    upstream scgi { server 127.0.0.1:%scgi%; }
    server {
        listen 127.0.0.1:%plain%;
        server_name one.test;
        absolute_redirect off;
        root html;

        location /uwsgi/ {
            include /etc/nginx/uwsgi_params;
            uwsgi_param X_EMPTY $arg_nothing if_not_empty;
            uwsgi_param HTTP_X_SET "set $arg_do";
            uwsgi_intercept_errors on;
            error_page 404 = /errors/404.html;
            uwsgi_pass uwsgi;
        }
        location /uwsgi/variable/ {
            include /etc/nginx/uwsgi_params;
            uwsgi_pass uwsgi://$server_addr:%uwsgi%;
        }
        location /uwsgi/unbuffered/ {
            include /etc/nginx/uwsgi_params;
            uwsgi_buffering off;
            uwsgi_request_buffering off;
            uwsgi_pass uwsgi;
        }
        location /scgi/ {
            include /etc/nginx/scgi_params;
            scgi_param X_EMPTY $arg_nothing if_not_empty;
            scgi_param HTTP_X_SET "set $arg_do";
            scgi_intercept_errors on;
            error_page 404 = /errors/404.html;
            scgi_pass scgi;
        }
        location /scgi/variable/ {
            include /etc/nginx/scgi_params;
            scgi_pass $server_addr:%scgi%;
        }
        location /scgi/unbuffered/ {
            include /etc/nginx/scgi_params;
            scgi_buffering off;
            scgi_request_buffering off;
            scgi_pass scgi;
        }
        location /files/ { internal; alias html/; }
        location /errors/ { internal; }
    }
"#;

fn site() -> (Site, [Application; 2]) {
    let site = Site::new();
    site.write("html/a.txt", "a file\n");
    site.write("html/errors/404.html", "our 404\n");
    let applications = [
        Application::uwsgi(&site, "127.0.0.1:%uwsgi%"),
        Application::scgi(&site, "127.0.0.1:%scgi%"),
    ];
    (site, applications)
}

/// As `block()` of `app.py` makes them.
fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|n| {
            let n = n % 65536;
            (n * 7 + n / 256) as u8
        })
        .collect()
}

#[test]
fn bodies_both_ways() {
    let (site, _applications) = site();
    let server = site.serve(CONFIGURATION);
    let port = server.port("plain");
    let mut random = Random::new(8);
    for family in ["uwsgi", "scgi", "uwsgi/unbuffered", "scgi/unbuffered"] {
        for size in [0, 1, 70_000, 20 << 20] {
            let body = random.bytes(size);
            let file = site.write("temporary/body", &body);
            let data = format!("@{}", file.display());
            let url = format!("http://127.0.0.1:{port}/{family}/?do=digest");
            let expected = format!("{size} {} {size}\n", sha256(&body));
            for option in ["Expect:", "Transfer-Encoding: chunked"] {
                let words = ["-sS", "-H", option, "--data-binary", &data, &url];
                let text = command("curl", &words, b"").success().text();
                assert_eq!(text, expected, "{family} {option}");
            }
            let target = format!("/{family}/?do=bytes&count={size}");
            assert!(wire::get(port, &target).body == bytes(size), "{target}");
        }
        let response = wire::get(port, &format!("/{family}/?do=bytes&count=9&length=9"));
        assert_eq!(response.header("content-length"), Some("9"));
    }
    assert_eq!(
        wire::get(port, "/scgi/?do=bytes&count=9&length=5").body,
        bytes(5)
    );
    server.wait_for_log("upstream sent more data than specified in \"Content-Length\" header");
    let mut connection = wire::Connection::open(port);
    connection.send("GET /scgi/?do=bytes&count=5&length=9 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(connection.rest().ends_with(&bytes(5)));
    server.wait_for_log("upstream prematurely closed connection while reading upstream");
}

#[test]
fn as_nginx() {
    let (site, _applications) = site();
    let reference = Site::new();
    reference.write("html/a.txt", "a file\n");
    reference.write("html/errors/404.html", "our 404\n");
    let configuration = ["uwsgi", "scgi"]
        .iter()
        .fold(CONFIGURATION.to_owned(), |text, name| {
            text.replace(&format!("%{name}%"), &site.port(name).to_string())
        });
    let ours = site.serve(&configuration);
    let theirs = reference.serve_by_nginx(&configuration);
    let mut requests = Vec::new();
    for family in [
        "uwsgi",
        "scgi",
        "uwsgi/variable",
        "scgi/variable",
        "uwsgi/unbuffered",
    ] {
        for request in [
            "GET /?do=parameters HTTP/1.1\r\nHost: one.test\r\nX-Set: a\r\nCookie: a\r\nX-Long-Name: b\r\n",
            "GET /path%20x?q HTTP/1.1\r\nHost: x\r\n",
            "HEAD /?do=bytes&count=10&length=10 HTTP/1.1\r\nHost: x\r\n",
            "GET /?do=status&status=201%20Made HTTP/1.1\r\nHost: x\r\n",
            "GET /?do=status&status=204%20None HTTP/1.1\r\nHost: x\r\n",
            "GET /?do=status&status=404%20Gone HTTP/1.1\r\nHost: x\r\n",
            "GET /?do=accel&to=/files/a.txt HTTP/1.1\r\nHost: x\r\n",
            "GET /?do=bytes&count=50000 HTTP/1.0\r\nHost: x\r\n",
            "PATCH / HTTP/1.1\r\nHost: x\r\n",
        ] {
            let (line, rest) = request.split_once(" /").expect("a request line");
            requests.push(format!("{line} /{family}/{rest}Connection: close\r\n\r\n"));
        }
    }
    let differences = differences(&ours, &theirs, requests, normalised);
    assert!(differences.is_empty(), "{differences}");
}

fn normalised(response: &Response) -> String {
    let text = response.text();
    // Each has its own files and port.
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("DOCUMENT_ROOT") && !line.starts_with("SERVER_PORT"));
    format!(
        "{}\n\n{}",
        response.head,
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// Accepts connections, gives what came on each up to `wanted` bytes, and answers.
fn listen(wanted: usize) -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("bound").port();
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut seen = vec![0; wanted];
            if socket.read_exact(&mut seen).is_err() || give.send(seen).is_err() {
                return;
            }
            let _ = socket.write_all(b"HTTP/1.1 202 Taken\r\nStatus: 500\r\n\r\nbody");
        }
    });
    (port, take)
}

#[test]
fn bytes_on_the_wire() {
    let uwsgi = b"\x05\x14\x00\x09\x01\x00A\x01\x00b\x04\x00LONG\x02\x00vvtextabc";
    let scgi = b"35:CONTENT_LENGTH\x003\x00SCGI\x001\x00A\x00\x00LONG\x00vv\x00,abc";
    let (uwsgi_port, uwsgi_seen) = listen(uwsgi.len());
    let (scgi_port, scgi_seen) = listen(scgi.len());
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%;
            uwsgi_pass_request_headers off; scgi_pass_request_headers off;
            location /uwsgi {{
                uwsgi_modifier1 5; uwsgi_modifier2 9; uwsgi_string text;
                uwsgi_param A b; uwsgi_param LONG vv; uwsgi_param HTTP_HOST '';
                uwsgi_pass 127.0.0.1:{uwsgi_port};
            }}
            location /scgi {{
                scgi_param SCGI 1; scgi_param A ''; scgi_param LONG vv; scgi_param HTTP_HOST '';
                scgi_pass 127.0.0.1:{scgi_port};
            }}
        }}"
    ));
    for (target, seen, expected) in [
        ("/uwsgi", uwsgi_seen, &uwsgi[..]),
        ("/scgi", scgi_seen, &scgi[..]),
    ] {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        );
        let response = wire::request(server.port("plain"), &head);
        // A status line counts more than `Status`.
        assert!(
            response.head.starts_with("HTTP/1.1 202 Taken\r\n"),
            "{}",
            response.head
        );
        assert_eq!(response.text(), "body");
        let seen = seen.recv().expect("it was asked");
        assert_eq!(
            seen.escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
    }
}
