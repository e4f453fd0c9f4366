//! A client that is still sending when it is refused gets the whole answer: the connection is
//! closed to the client first and reset never (`lingering_close`, RFC 9112 section 9.6).

use sealane_tests::{
    Certificate, CertificateKey, PATIENCE, Server, Site, command, http2, wait_for,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// What is sent behind a request once the answer is there, in so many pieces: more than
/// the sockets hold.
const PIECES: usize = 400;
const PIECE: [u8; 16 << 10] = [b'x'; 16 << 10];
/// A broken body of a request that is answered without it.
const UNREAD_CHUNK: &str = "a chunk that is none";

/// The same over TLS; what was received is printed.
const TLS_CLIENT: &str = "\
import select, socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
context.set_alpn_protocols([sys.argv[2]])
tls = context.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 60))
tls.sendall(sys.stdin.buffer.read())
select.select([tls], [], [], 60)
for _ in range(int(sys.argv[3])):
    tls.sendall(b'x' * 16384)
while received := tls.recv(65536):
    sys.stdout.buffer.write(received)
";

fn serve<'s>(site: &'s Site, directives: &str) -> Server<'s> {
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.serve(&format!(
        "http2 on; lingering_time 600s; lingering_timeout 60s; client_max_body_size 1k; {directives}
         server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl;
           ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
           location / {{ return 200 text; }}
           location /read {{ proxy_pass http://127.0.0.1:9; }} }}"
    ))
}

/// Requests that are refused before all of them has come, and how.
fn refused() -> Vec<(&'static str, u16, Vec<u8>)> {
    let line = |bytes: usize| format!("GET /{} HTTP/1.1\r\n", "a".repeat(bytes)).into_bytes();
    let head = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}").into_bytes();
    let post =
        |path: &str, rest: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\n{rest}").into_bytes();
    vec![
        ("a line of 8 kB", 414, line(8 << 10)),
        ("a line of 20 kB", 414, line(20 << 10)),
        ("a line of 40 kB", 414, line(40 << 10)),
        (
            "a line that goes on",
            414,
            [&b"GET /"[..], &[b'a'; 12_000]].concat(),
        ),
        ("3,000 fields", 400, head(&"X: y\r\n".repeat(3_000))),
        (
            "fields of 100 kB",
            400,
            head(&"X: yyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(4_000)),
        ),
        (
            "a field of 40 kB",
            400,
            head(&format!("X: {}\r\n", "y".repeat(40_000))),
        ),
        (
            "a field that is none",
            400,
            head("no field\r\nX: y\r\n\r\n"),
        ),
        ("two hosts", 400, head("Host: b\r\n")),
        ("no host", 400, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("no method", 400, b"\x01\x02 / HTTP/1.1\r\n".to_vec()),
        ("no version", 505, b"GET / HTTP/3.0\r\n".to_vec()),
        (
            "two lengths",
            400,
            post(
                "/",
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            ),
        ),
        (
            "a coding that is unknown",
            501,
            post("/", "Transfer-Encoding: rot13\r\n\r\n"),
        ),
        (
            "a body that is too large",
            413,
            post("/read", "Content-Length: 9000000\r\n\r\n"),
        ),
        (
            "a chunk that is too large",
            413,
            post("/read", "Transfer-Encoding: chunked\r\n\r\n800000\r\n"),
        ),
        (
            UNREAD_CHUNK,
            400,
            post("/", "Transfer-Encoding: chunked\r\n\r\n1Zffff\r\n"),
        ),
        (
            "a chunk that is none, to a reader",
            400,
            post("/read", "Transfer-Encoding: chunked\r\n\r\n1Zffff\r\n"),
        ),
    ]
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    for timeout in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        timeout(&socket, Some(PATIENCE)).expect("it is not zero");
    }
    socket
}

/// One whole answer with this status, and nothing behind it.
#[track_caller]
fn assert_answer(received: &[u8], status: u16, why: &str) {
    let text = String::from_utf8_lossy(received);
    let begins = text.starts_with(&format!("HTTP/1.1 {status} "));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    let is_whole = format!("{head}\r\n").contains(&length);
    assert!(begins && is_whole, "{why}: {text:?}");
    assert!(head.contains("\r\nConnection: close"), "{why}: {text:?}");
}

#[test]
fn a_client_that_is_still_sending_gets_its_refusal() {
    let site = Site::new();
    let server = serve(&site, "");
    for (why, status, request) in refused() {
        let mut socket = connect(server.port("plain"));
        socket.write_all(&request).expect("all of it is taken");
        socket.peek(&mut [0]).expect("an answer comes");
        for _ in 0..PIECES {
            let sent = socket.write_all(&PIECE);
            sent.unwrap_or_else(|error| panic!("{why}: {error}"));
        }
        let mut received = Vec::new();
        let read = socket.read_to_end(&mut received);
        read.unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_answer(&received, status, why);
    }
}

/// As above, by a client that sends single bytes.
#[test]
fn a_client_that_sends_slowly_gets_its_refusal() {
    let site = Site::new();
    let server = serve(&site, "");
    // A body that nobody reads may be wrong only after the answer to its head.
    let known_in_time = |(why, ..): &(&str, u16, Vec<u8>)| *why != UNREAD_CHUNK;
    for (why, status, request) in refused().into_iter().filter(known_in_time) {
        let mut socket = connect(server.port("plain"));
        socket.set_nodelay(true).expect("it is connected");
        let (first, last) = request.split_at(request.len().saturating_sub(100));
        socket.write_all(first).expect("all of it is taken");
        for byte in last.iter().chain(&[b'x'; 100]) {
            let sent = socket.write_all(&[*byte]);
            sent.unwrap_or_else(|error| panic!("{why}: {error}"));
        }
        let mut received = Vec::new();
        let read = socket.read_to_end(&mut received);
        read.unwrap_or_else(|error| panic!("{why}: {error}"));
        assert_answer(&received, status, why);
    }
}

/// What a client receives over TLS that sends `request`, waits for an answer and sends on.
#[track_caller]
fn by_tls(server: &Server<'_>, protocol: &str, request: &[u8]) -> Vec<u8> {
    let (port, pieces) = (server.port("tls").to_string(), PIECES.to_string());
    let arguments = ["-c", TLS_CLIENT, &port, protocol, &pieces];
    command("python3", &arguments, request).success().stdout
}

#[test]
fn a_client_that_is_still_sending_gets_its_refusal_over_tls() {
    let site = Site::new();
    let server = serve(&site, "");
    for (why, status, request) in refused() {
        assert_answer(&by_tls(&server, "http/1.1", &request), status, why);
    }
}

/// Frames that end a connection of HTTP/2, and with which error.
fn broken_frames() -> Vec<(u32, Vec<u8>)> {
    let ping = http2::frame(http2::kind::PING, 0, 0, b"short");
    let data = http2::frame(http2::kind::DATA, 0, 1, b"of no stream");
    let block = http2::frame(
        http2::kind::HEADERS,
        http2::flag::END_HEADERS,
        1,
        &[0xff; 9],
    );
    // Larger than what is announced, which its head says.
    let mut large = http2::frame(http2::kind::DATA, 0, 1, &[0; 17_000]);
    large[..3].copy_from_slice(&[0x10, 0, 1]);
    vec![(6, ping), (1, data), (9, block), (6, large)]
}

#[test]
fn a_client_that_is_still_sending_gets_its_goaway() {
    let site = Site::new();
    let server = serve(&site, "");
    for (error, frame) in broken_frames() {
        let mut client = http2::Client::open(server.port("plain"), &[]);
        assert!(client.send(&frame));
        for _ in 0..PIECES {
            assert!(client.send(&PIECE), "error {error}");
        }
        assert_eq!(client.end(), Some(error));
        let mut rest = Vec::new();
        let closed = client.socket().read_to_end(&mut rest);
        assert_eq!(closed.expect("closed in order"), 0, "error {error}");
    }
    let preface = sealane_http::h2::PREFACE.to_vec();
    for (error, frame) in broken_frames() {
        let settings = http2::frame(http2::kind::SETTINGS, 0, 0, &[]);
        let request = [&preface[..], &settings, &frame].concat();
        let received = by_tls(&server, "h2", &request);
        let goaway = received.len().checked_sub(17).map(|at| &received[at..]);
        let goaway = goaway.expect("a frame of 17 bytes");
        assert_eq!(goaway[..5], [0, 0, 8, http2::kind::GOAWAY, 0], "{goaway:?}");
        assert_eq!(goaway[13..], error.to_be_bytes());
    }
}

/// Sends on until the server does not take it any more.
fn is_cut_off(mut socket: TcpStream) {
    socket
        .write_all(b"GET / HTTP/3.0\r\n")
        .expect("it is taken");
    wait_for("the server to close", || {
        socket.write_all(&PIECE).is_err().then_some(())
    });
}

#[test]
fn it_lasts_no_longer_than_it_may() {
    for directives in [
        "lingering_close off; lingering_time 600s;",
        "lingering_time 1s;",
    ] {
        let site = Site::new();
        let server = site.serve(&format!(
            "{directives} lingering_timeout 60s;
             server {{ listen 127.0.0.1:%plain%; return 200 text; }}"
        ));
        is_cut_off(connect(server.port("plain")));
    }
}
