//! `proxy_pass` to origins that misbehave, and to real ones: every client sees what is
//! documented, nothing hangs, nothing is kept, and nothing of one response appears in
//! another.

use cases::{CASES, Came, WITH_NGINX_1_31};
use sealane_tests::comparison::nginx_version;
use sealane_tests::misbehaving::{self, BODY_BYTES, Misbehaving};
use sealane_tests::{PATIENCE, Program, Server, Site, http2, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

#[path = "proxy_origins/cases.rs"]
mod cases;
#[path = "proxy_origins/flow.rs"]
mod flow;
#[path = "proxy_origins/real.rs"]
mod real;
#[path = "proxy_origins/storm.rs"]
mod storm;

/// `keepalive` of the group.
const IDLE: usize = 32;

/// Requests to the origin; those that are to time out do so soon.
const CONFIGURATION: &str = r#"
    upstream origin { server 127.0.0.1:ORIGIN; keepalive 32; }
    server {
        listen 127.0.0.1:%plain%;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_connect_timeout 20s;
        proxy_send_timeout 20s;
        proxy_read_timeout 20s;
        location / { proxy_pass http://origin; }
        location /never { proxy_pass http://origin; proxy_read_timeout 1s; }
        location /bad-chunk/endless { proxy_pass http://origin; proxy_read_timeout 1s; }
        location /interim { proxy_pass http://origin; proxy_read_timeout 2s; }
        location /unbuffered/ { proxy_pass http://origin/; proxy_buffering off; proxy_request_buffering off; }
    }
"#;

/// Sealane listens for HTTP/2 on the same port.
fn serve<'s>(site: &'s Site, origin: &Misbehaving, program: Program) -> Server<'s> {
    let configuration = CONFIGURATION.replace("ORIGIN", &origin.port().to_string());
    match program {
        Program::Sealane => {
            let configuration = configuration.replace(
                "server {\n        listen",
                "server {\n        http2 on; listen",
            );
            site.serve(&configuration)
        }
        Program::Nginx => site.serve_by_nginx(&configuration),
    }
}

/// Descriptors of the worker that lead to no origin, once both sides have noticed what was
/// closed. Idle connections to the origin may stay, as many as configured.
fn own_descriptors(server: &Server<'_>, origin: &Misbehaving) -> usize {
    let path = format!("/proc/{}/fd", server.worker_pid());
    let now = || {
        let all = std::fs::read_dir(&path).expect("the worker runs").count();
        all.saturating_sub(origin.open())
    };
    wait_for("descriptors to stay as many as they are", || {
        let first = now();
        let stays = || {
            std::thread::sleep(Duration::from_millis(20));
            now() == first
        };
        (0..10).all(|_| stays()).then_some(first)
    })
}

/// Waits until no more are open than there were before.
#[track_caller]
fn assert_nothing_is_left(server: &Server<'_>, origin: &Misbehaving, before: usize) {
    let begun = Instant::now();
    loop {
        let now = own_descriptors(server, origin);
        let idle = origin.open();
        if now <= before && idle <= IDLE {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{now} descriptors, {before} before, and {idle} connections to the origin"
        );
    }
}

/// The response to a request by HTTP/1 that asks for closing.
fn fetch(port: u16, request: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("it is not zero");
    socket
        .write_all(request)
        .expect("a fresh connection takes it");
    let mut response = Vec::new();
    let mut piece = [0; 65_536];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return response,
            Ok(count) => response.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return response,
            Err(error) => panic!("nothing came for {} s: {error}", PATIENCE.as_secs()),
        }
    }
}

fn get(path: &str, mark: &str) -> Vec<u8> {
    format!("GET {path}?{mark} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// What a response on HTTP/1 is, read until the connection ended.
fn classify(response: &[u8], expected: &[u8]) -> Came {
    if response.is_empty() {
        return Came::Nothing;
    }
    let Some(end) = response.windows(4).position(|part| part == b"\r\n\r\n") else {
        return Came::Other(0);
    };
    let head = String::from_utf8_lossy(&response[..end]).to_lowercase();
    let Some(status) = head
        .strip_prefix("http/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
    else {
        return Came::Other(0);
    };
    let rest = &response[end + 4..];
    if head.contains("\r\ntransfer-encoding: chunked") {
        let (body, whole) = unchunk(rest);
        return judge(status, &body, whole, expected);
    }
    let length = head
        .split("\r\n")
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse::<usize>().ok());
    let bodiless = matches!(status, 101 | 204 | 304);
    let whole = bodiless || length == Some(rest.len());
    judge(status, rest, whole, expected)
}

fn judge(status: u16, body: &[u8], whole: bool, expected: &[u8]) -> Came {
    let ours = body
        .windows(7)
        .any(|part| part == b"<html>\r" || part == b"</html>");
    match whole {
        true if ours => Came::Page(status),
        true if body.is_empty() => Came::Empty(status),
        true if body == expected => Came::Body(status),
        true => Came::Other(status),
        false if expected.starts_with(body) || body.starts_with(b"abc") => Came::Cut(status),
        false => Came::Other(status),
    }
}

/// The data of a chunked body, and whether it ends.
fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|part| part == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..end]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a chunk size of the server's own");
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest == b"\r\n");
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        if rest.len() < size + 2 {
            return (body, false);
        }
        rest = &rest[size + 2..];
    }
}

fn classify_http2(response: &http2::Response, expected: &[u8]) -> Came {
    let whole = response
        .reset
        .is_none_or(|code| code == http2::code::NO_ERROR);
    match response.status {
        0 => Came::Nothing,
        status => judge(status, &response.body, whole, expected),
    }
}

#[test]
fn every_misbehaviour_is_answered_as_documented() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let port = server.port("plain");
    fetch(port, &get("/ok", "warm"));
    let before = own_descriptors(&server, &origin);
    let mut wrong = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let mark = format!("http1-{number}-");
        let expected = misbehaving::body(&mark, BODY_BYTES);
        let came = classify(&fetch(port, &get(case.path, &mark)), &expected);
        let mark = format!("http2-{number}-");
        let expected = misbehaving::body(&mark, BODY_BYTES);
        let mut client = http2::Client::open(port, &[]);
        let response = client.fetch(&format!("{}?{mark}", case.path));
        let came2 = classify_http2(&response, &expected);
        println!("{:28} {came:?} {came2:?}", case.path);
        if came != case.came || came2 != case.came {
            wrong.push(format!(
                "{}: {came:?} by HTTP/1, {came2:?} by HTTP/2",
                case.path
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_nothing_is_left(&server, &origin, before);
    for (number, case) in CASES
        .iter()
        .enumerate()
        .filter(|(_, case)| !case.log.is_empty())
    {
        for mark in [format!("http1-{number}-"), format!("http2-{number}-")] {
            let request = format!("{}?{mark} ", case.path);
            // It may have been tried before on a connection that was about to be closed.
            wait_for(&format!("{request}with {:?}", case.log), || {
                let log = server.error_log();
                let mut lines = log.lines().filter(|line| line.contains(&request));
                lines.any(|line| line.contains(case.log)).then_some(())
            });
        }
    }
}

#[test]
fn nginx_does_the_same_but_for_what_is_listed() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Nginx);
    let port = server.port("plain");
    let is_old = nginx_version() < (1, 23, 0);
    let mut wrong = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        if is_old && case.since_1_23 {
            println!("{:28} is not so in nginx before 1.23", case.path);
            continue;
        }
        let mark = format!("nginx-{number}-");
        let expected = misbehaving::body(&mark, BODY_BYTES);
        let came = classify(&fetch(port, &get(case.path, &mark)), &expected);
        let (mut listed, mut why) = case.nginx.unwrap_or((case.came, "the same"));
        let newer = WITH_NGINX_1_31.iter().find(|(path, _)| *path == case.path);
        if let Some((_, came)) = newer
            && nginx_version() >= (1, 31, 0)
        {
            (listed, why) = (*came, "since nginx 1.31");
        }
        println!("{:28} {came:?} ({why})", case.path);
        if came != listed {
            wrong.push(format!("{}: {came:?}, not {listed:?} ({why})", case.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
