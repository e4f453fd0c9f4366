//! Clients that send without end, or never read.

use super::origins::{origin, says};
use super::{FLOOD, Watch, site};
use sealane_tests::http2::{Client, INITIAL_WINDOW, flag, frame, head, kind, push_field};
use sealane_tests::wire::Connection;
use sealane_tests::{Certificate, CertificateKey, Server};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Connections of a case at a time.
const CLIENTS: usize = 20;

/// Sends the beginning, and then the same again and again, on several connections at a time, until
/// the server has enough, takes nothing more or the time is over.
fn flood(port: u16, beginning: &[u8], again: &[u8]) -> Vec<Connection> {
    let again = again.repeat((64 << 10) / again.len() + 1);
    let send = move |beginning: Vec<u8>, again: Vec<u8>| {
        let until = Instant::now() + FLOOD;
        let mut client = Connection::open(port);
        let timeout = Some(FLOOD);
        client
            .socket()
            .set_write_timeout(timeout)
            .expect("a socket");
        let mut goes_on = client.send(&beginning);
        while goes_on && Instant::now() < until {
            goes_on = client.send(&again);
        }
        client
    };
    let threads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (beginning, again) = (beginning.to_vec(), again.clone());
            thread::spawn(move || send(beginning, again))
        })
        .collect();
    let ended = threads.into_iter().map(|thread| thread.join());
    ended.map(|client| client.expect("it ends")).collect()
}

#[test]
fn of_http1() {
    let site = site();
    site.write("html/big.bin", "");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent_port = silent.local_addr().expect("bound").port();
    let server = site.serve(&format!(
        "client_max_body_size 0; server {{ listen 127.0.0.1:%plain%; root html;
            location /silent/ {{ proxy_pass http://127.0.0.1:{silent_port}; proxy_request_buffering off; }}
            location /kept/ {{ proxy_pass http://127.0.0.1:{silent_port}; }}
            location /ok {{ return 200 ok; }} }}"
    ));
    let mut watch = Watch::begin(&server);
    let post = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    };
    let chunk = [b"ffff\r\n".as_slice(), &[b'x'; 0xffff], b"\r\n"].concat();
    let get = "GET /ok HTTP/1.1\r\nHost: a\r\n\r\n";
    let cases: [(&str, String, &[u8]); 10] = [
        ("header lines", "GET / HTTP/1.1\r\n".into(), b"X: y\r\n"),
        ("a header line", "GET / HTTP/1.1\r\nX: ".into(), b"y"),
        ("empty lines", String::new(), b"\r\n"),
        ("a request line", "GET /".into(), b"x"),
        ("chunk extensions", post("/ok") + "5", b";a=b"),
        ("trailers", post("/ok") + "0\r\n", b"X: y\r\n"),
        ("a body that nobody reads", post("/ok"), &chunk),
        (
            "a body for an origin that does not read",
            post("/silent/"),
            &chunk,
        ),
        ("a body that is kept", post("/kept/"), &chunk),
        (
            "requests whose answers are not read",
            String::new(),
            get.as_bytes(),
        ),
    ];
    for (name, beginning, again) in cases {
        watch.case(&format!("{CLIENTS} x {name}"), || {
            flood(server.port("plain"), beginning.as_bytes(), again)
        });
    }
}

/// Upgraded connections: each end sends without end, and reads nothing.
#[test]
fn of_tunnels() {
    let switched =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n";
    let port = origin(Arc::new(says("a tunnel", switched, "x")));
    let site = site();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; root html;
            location /tunnel {{ proxy_http_version 1.1; proxy_set_header Connection upgrade;
                proxy_set_header Upgrade any; proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let upgrade = b"GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n";
    let mut watch = Watch::begin(&server);
    watch.case(&format!("{CLIENTS} tunnels"), || {
        let clients = flood(server.port("plain"), upgrade, b"x");
        for client in &clients {
            let mut head = [0; 12];
            client.socket().peek(&mut head).expect("an answer");
            assert_eq!(&head, b"HTTP/1.1 101");
        }
        clients
    });
}

/// A large file for clients that do not read it.
#[test]
fn that_do_not_read() {
    let site = site();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let big = site.write("html/big.bin", "");
    let big = OpenOptions::new()
        .write(true)
        .open(big)
        .expect("it was written");
    big.set_len(1 << 30).expect("a sparse file");
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; http2 on; http2_max_concurrent_streams 128;
            location /read/ { sendfile off; alias %site%/html/; } }
         server { listen 127.0.0.1:%tls% ssl; root html; ssl_ktls off;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; }",
    );
    let mut watch = Watch::begin(&server);
    for path in ["/big.bin", "/read/big.bin"] {
        watch.case(&format!("100 clients of {path}"), || {
            let clients: Vec<_> = (0..100)
                .map(|_| {
                    let mut client = Connection::open(server.port("plain"));
                    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
                    client
                })
                .collect();
            for client in &clients {
                client.socket().peek(&mut [0]).expect("an answer");
            }
            clients
        });
        watch.case(
            &format!("10 x 128 streams of {path}, windows of a byte"),
            || streams(&server, 1, path),
        );
        watch.case(&format!("10 x 128 streams of {path}, wide windows"), || {
            streams(&server, 1 << 20, path)
        });
    }
    watch.case("20 clients of TLS", || {
        let clients: Vec<_> = (0..20).map(|_| TlsClient::start(&server)).collect();
        clients
    });
}

fn streams(server: &Server<'_>, window: u32, path: &str) -> Vec<Client> {
    (0..10)
        .map(|_| {
            let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, window)]);
            client.grant(0, 1 << 30);
            for _ in 0..128 {
                client.get(path);
            }
            let mut heads = 0;
            while heads < 128 {
                let frame = client.next_frame().expect("the connection goes on");
                heads += usize::from(frame.kind == kind::HEADERS);
            }
            client
        })
        .collect()
}

/// `openssl s_client`, whose output is read as far as the beginning of an answer.
struct TlsClient(Child);

impl TlsClient {
    fn start(server: &Server<'_>) -> TlsClient {
        let address = format!("127.0.0.1:{}", server.port("tls"));
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let input = child.stdin.as_mut().expect("it is piped");
        let request = b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n";
        input.write_all(request).expect("openssl reads");
        let output = child.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut [0; 100]).expect("an answer");
        TlsClient(child)
    }
}

impl Drop for TlsClient {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn of_http2() {
    let site = site();
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; http2 on; client_max_body_size 0;
            location /ok { return 200 ok; } }",
    );
    let preface = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
        &frame(kind::SETTINGS, 0, 0, b""),
    ]
    .concat();
    let mut block = head("GET", "/ok", &[]);
    let begun = frame(kind::HEADERS, 0, 1, &block);
    let posted = frame(
        kind::HEADERS,
        flag::END_HEADERS,
        1,
        &head("POST", "/ok", &[]),
    );
    for number in 0..100 {
        push_field(&mut block, &format!("x-{number}"), "y");
    }
    let mut field = Vec::new();
    push_field(&mut field, "x", "y");
    let cases = [
        (
            "CONTINUATION",
            begun.clone(),
            frame(kind::CONTINUATION, 0, 1, &field),
        ),
        (
            "empty CONTINUATION",
            begun,
            frame(kind::CONTINUATION, 0, 1, b""),
        ),
        ("SETTINGS", Vec::new(), frame(kind::SETTINGS, 0, 0, b"")),
        ("PING", Vec::new(), frame(kind::PING, 0, 0, &[0; 8])),
        (
            "DATA beyond the window",
            posted.clone(),
            frame(kind::DATA, 0, 1, &[0; 16_384]),
        ),
        ("empty DATA", posted, frame(kind::DATA, 0, 1, b"")),
        (
            "frames of unknown types",
            Vec::new(),
            frame(0x42, 0, 0, &[0; 1000]),
        ),
    ];
    let mut watch = Watch::begin(&server);
    for (name, beginning, again) in cases {
        watch.case(&format!("{CLIENTS} x {name}"), || {
            flood(
                server.port("plain"),
                &[&preface[..], &beginning].concat(),
                &again,
            )
        });
    }
}
