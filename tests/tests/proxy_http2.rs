//! `proxy_http_version 2`: against nginx, and against origins that do what nginx would not.

use sealane_tests::http2::Client;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, sha256_of_file, wait_for,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A body larger than any window, and not the same in any two places.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()
    };
    (0..length.div_ceil(4))
        .flat_map(|_| next())
        .take(length)
        .collect()
}

/// Answers with the body it got.
fn echo() -> Origin {
    Origin::answering(|asked| {
        let length = asked.body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        Answer::Send([head.as_bytes(), &asked.body].concat())
    })
}

/// nginx, by HTTP/2 alone: files below /files/, and what `behind` answers to all else.
fn nginx<'s>(site: &'s Site, behind: &Origin) -> Server<'s> {
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path temporary/{name};"))
        .join(" ");
    let configuration = format!(
        "error_log logs/error.log info; pid logs/pid; worker_processes 1;
         events {{ }}
         http {{ {temporary} access_log off; client_max_body_size 0; keepalive_requests 1000000;
           server {{
             listen 127.0.0.1:%plain% http2; listen 127.0.0.1:%tls% http2 ssl;
             ssl_certificate certificates/localhost.pem;
             ssl_certificate_key certificates/localhost.key;
             add_header X-Protocol $server_protocol; add_header X-Connection $connection;
             add_header X-Host $host;
             location /files/ {{ alias html/; }}
             location / {{ proxy_pass http://127.0.0.1:{}; }}
             location /moved/ {{ return 302 /to; }} }} }}",
        behind.port()
    );
    Server::start(site, Program::Nginx, &configuration)
}

#[test]
fn bodies_both_ways_with_nginx_behind() {
    let (origin_site, site, behind) = (Site::new(), Site::new(), echo());
    let body = pattern(20_000_000);
    let file = origin_site.write("html/large", &body);
    origin_site.write("html/empty", b"");
    let nginx = nginx(&origin_site, &behind);
    let (plain, tls) = (nginx.port("plain"), nginx.port("tls"));
    let server = site.serve(&format!(
        "client_max_body_size 0; proxy_http_version 2; proxy_set_header X-Asked yes;
         upstream plain {{ server 127.0.0.1:{plain}; keepalive 8; }}
         upstream tls {{ server 127.0.0.1:{tls}; keepalive 8; }}
         server {{ listen 127.0.0.1:%front%;
           location /plain/ {{ proxy_pass http://plain/; }}
           location /tls/ {{ proxy_pass https://tls/; }}
           location /direct/ {{ proxy_pass http://plain/; proxy_request_buffering off; proxy_buffering off; }}
           location /memory/ {{ proxy_pass http://plain/; client_body_buffer_size 32m; proxy_max_temp_file_size 0; }}
           location /small/ {{ proxy_pass http://plain/; proxy_buffers 2 4k; proxy_busy_buffers_size 4k; proxy_buffer_size 4k; }} }}"
    ));
    let front = format!("http://127.0.0.1:{}", server.port("front"));
    let expected = sha256_of_file(&file);
    let file = file.display().to_string();
    for way in ["plain", "tls", "direct", "memory", "small"] {
        let fetched = site.path("fetched").display().to_string();
        let url = format!("{front}/{way}/files/large");
        command("curl", &["-sSf", "-o", &fetched, &url], b"").success();
        assert_eq!(
            sha256_of_file(site.path("fetched").as_ref()),
            expected,
            "{way}"
        );
        let upload = format!("@{file}");
        let url = format!("{front}/{way}/echo");
        // Without a length it is sent in chunks, and streamed without one.
        for length in ["X: y", "Transfer-Encoding: chunked"] {
            let arguments = [
                "-sSf",
                "-o",
                &fetched,
                "--data-binary",
                &upload,
                "-H",
                length,
                &url,
            ];
            command("curl", &arguments, b"").success();
            let got = sha256_of_file(site.path("fetched").as_ref());
            assert_eq!(got, expected, "{way} {length}");
            // Not to be kept in memory.
            behind.take_asked();
        }
    }
    let port = server.port("front");
    for way in ["plain", "tls"] {
        let response = wire::get(port, &format!("/{way}/files/empty"));
        assert_eq!((response.status, response.body.len()), (200, 0));
        assert_eq!(response.header("X-Protocol"), Some("HTTP/2.0"));
        assert_eq!(response.header("X-Host"), Some(way));
        let mut connection = Connection::open(port);
        connection.send(format!(
            "HEAD /{way}/files/large HTTP/1.1\r\nHost: x\r\n\r\n"
        ));
        let response = connection.response(true);
        assert_eq!(response.header("Content-Length"), Some("20000000"));
        let response = wire::get(port, &format!("/{way}/moved/"));
        assert_eq!(response.status, 302);
    }
}

#[test]
fn connections_are_kept_for_their_protocol() {
    let site = Site::new();
    // The origin takes both protocols on its port.
    let server = site.serve(
        "upstream both { server 127.0.0.1:%origin%; keepalive 8; }
         server { listen 127.0.0.1:%origin%; http2 on;
           add_header X-Protocol $server_protocol; add_header X-Connection $connection;
           return 200 $request_uri; }
         server { listen 127.0.0.1:%front%;
           location /1/ { proxy_pass http://both; proxy_http_version 1.1; proxy_set_header Connection ''; }
           location /2/ { proxy_pass http://both; proxy_http_version 2; } }",
    );
    let mut connections = [Vec::new(), Vec::new()];
    for round in 0..20 {
        for (version, protocol) in [(1, "HTTP/1.1"), (2, "HTTP/2.0")] {
            let target = format!("/{version}/{round}");
            let response = wire::get(server.port("front"), &target);
            assert_eq!(response.text(), target);
            assert_eq!(response.header("X-Protocol"), Some(protocol));
            let connection = response.header("X-Connection").map(str::to_owned);
            connections[version - 1].extend(connection);
        }
    }
    for used in &mut connections {
        assert_eq!(used.len(), 20);
        used.dedup();
        assert_eq!(used.len(), 1, "one connection serves all");
    }
    assert_ne!(connections[0], connections[1]);
}

/// An origin that speaks raw frames.
struct Raw {
    port: u16,
    stopped: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

/// One of its connections.
struct Frames {
    socket: TcpStream,
    /// Which one, from 0.
    number: usize,
    /// What came on the stream that was last read.
    body: Vec<u8>,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, as a block.
const OK: &[u8] = &[0x88];
/// `x-last: z`, likewise.
const LAST: &[u8] = b"\x00\x06x-last\x01z";

impl Raw {
    /// Connections get `settings` first; `serve` does the rest until it returns.
    fn start(
        settings: &'static [u8],
        serve: impl Fn(&mut Frames) -> Option<()> + Send + Sync + 'static,
    ) -> Raw {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let stopped = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let (is_stopped, count, serve) = (stopped.clone(), connections.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let serve = serve.clone();
                let number = count.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    let mut frames = Frames {
                        socket,
                        number,
                        body: Vec::new(),
                    };
                    let _ = frames.socket.set_nodelay(true);
                    let mut preface = [0; 24];
                    let begun = frames.socket.read_exact(&mut preface).ok();
                    begun
                        .and_then(|()| frames.send(SETTINGS, 0, 0, settings))
                        .and_then(|()| serve(&mut frames))
                });
            }
        });
        Raw {
            port,
            stopped,
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Frames {
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Option<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.socket.write_all(&frame).ok()
    }

    /// Type, flags, stream and payload of the next frame.
    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut header = [0; 9];
        self.socket.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).ok()?;
        let (kind, flags) = (header[3], header[4]);
        if kind == SETTINGS && flags == 0 {
            self.send(SETTINGS, 1, 0, &[])?;
        }
        Some((kind, flags, stream, payload))
    }

    /// The stream of the next request's head.
    fn head(&mut self) -> Option<u32> {
        loop {
            let (kind, _, stream, _) = self.next()?;
            if kind == HEADERS {
                self.body.clear();
                return Some(stream);
            }
        }
    }

    /// A whole request; the windows it used are given back with each frame.
    fn request(&mut self) -> Option<u32> {
        loop {
            let (kind, flags, stream, payload) = self.next()?;
            if kind == HEADERS {
                self.body.clear();
            } else if kind == DATA {
                self.body.extend_from_slice(&payload);
                if !payload.is_empty() {
                    let increment = (payload.len() as u32).to_be_bytes();
                    self.send(WINDOW_UPDATE, 0, 0, &increment)?;
                    self.send(WINDOW_UPDATE, 0, stream, &increment)?;
                }
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return Some(stream);
            }
        }
    }

    /// Closes this side, without a reset for what was not read.
    fn end(&mut self) -> Option<()> {
        self.socket.shutdown(Shutdown::Write).ok()
    }

    fn answer(&mut self, stream: u32, body: &[u8]) -> Option<()> {
        self.send(HEADERS, END_HEADERS, stream, OK)?;
        self.send(DATA, END_STREAM, stream, body)
    }

    /// Answers requests as long as they come.
    fn serve_all(&mut self, body: &[u8]) -> Option<()> {
        loop {
            let stream = self.request()?;
            self.answer(stream, body)?;
        }
    }
}

fn front<'s>(site: &'s Site, origins: &[&Raw], more: &str) -> Server<'s> {
    let servers: String = origins
        .iter()
        .map(|origin| format!("server 127.0.0.1:{} max_fails=0;", origin.port))
        .collect();
    site.serve(&format!(
        "upstream origin {{ {servers} keepalive 8; }}
         server {{ listen 127.0.0.1:%front%; client_max_body_size 0;
           {more} location / {{ proxy_pass http://origin; proxy_http_version 2; }} }}"
    ))
}

fn post(port: u16, body: &[u8]) -> wire::Response {
    let mut connection = Connection::open(port);
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    connection.send([head.as_bytes(), body].concat());
    connection.response(false)
}

#[test]
fn requests_that_were_not_processed_are_sent_again() {
    for buffering in ["on", "off"] {
        // Refused by the stream: the other server gets it, method and body regardless.
        let refusing = Raw::start(&[], |frames| {
            loop {
                let stream = frames.request()?;
                frames.send(RST_STREAM, 0, stream, &7u32.to_be_bytes())?;
            }
        });
        let echoing = Raw::start(&[], |frames| {
            loop {
                let stream = frames.request()?;
                let body = std::mem::take(&mut frames.body);
                frames.answer(stream, &body)?;
            }
        });
        let site = Site::new();
        let more = format!("proxy_request_buffering {buffering};");
        let server = front(&site, &[&refusing, &echoing], &more);
        for round in 0..4 {
            let body = format!("body {round}");
            let response = post(server.port("front"), body.as_bytes());
            assert_eq!((response.status, response.text()), (200, body));
        }
        assert!(refusing.connections() > 0, "it was asked");

        // Refused by the connection, which had been kept: another one is opened.
        let leaving = Raw::start(&[], |frames| {
            let stream = frames.request()?;
            let body = std::mem::take(&mut frames.body);
            frames.answer(stream, &body)?;
            frames.request()?;
            let last = [stream.to_be_bytes(), [0; 4]].concat();
            frames.send(GOAWAY, 0, 0, &last)
        });
        let site = Site::new();
        let server = front(&site, &[&leaving], &more);
        for round in 0..4 {
            let body = format!("body {round}");
            let response = post(server.port("front"), body.as_bytes());
            assert_eq!((response.status, response.text()), (200, body));
        }
        assert_eq!(leaving.connections(), 4);
    }
}

#[test]
fn resets_and_ends_at_every_stage() {
    let origin = Raw::start(&[], |frames| {
        let stream = match frames.number {
            // Before anything was read of the request.
            0 => 0,
            _ => frames.request()?,
        };
        match frames.number {
            0 | 1 => frames.end()?,
            2 => frames.send(RST_STREAM, 0, stream, &2u32.to_be_bytes())?,
            3 => frames.send(DATA, END_STREAM, stream, b"no head")?,
            4 => frames.send(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0bcalm down")?,
            5 => frames.socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?,
            6 => {
                frames.send(HEADERS, END_HEADERS, stream, OK)?;
                frames.send(DATA, 0, stream, b"half")?;
                frames.end()?;
            }
            7 => {
                frames.send(HEADERS, END_HEADERS, stream, OK)?;
                frames.send(DATA, 0, stream, b"half")?;
                frames.send(RST_STREAM, 0, stream, &2u32.to_be_bytes())?;
            }
            _ => frames.answer(stream, b"fine")?,
        }
        // Until the other side closes.
        while frames.next().is_some() {}
        None
    });
    let site = Site::new();
    let server = front(&site, &[&origin], "proxy_buffer_size 4k;");
    let get = || {
        let mut connection = Connection::open(server.port("front"));
        connection.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        String::from_utf8_lossy(&connection.rest()).into_owned()
    };
    for _ in 0..6 {
        assert!(get().starts_with("HTTP/1.1 502 "));
    }
    for _ in 0..2 {
        let text = get();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        assert!(
            text.contains("half") && !text.ends_with("0\r\n\r\n"),
            "{text}"
        );
    }
    assert!(get().contains("fine"));
    for line in [
        "upstream prematurely closed connection while reading response header from upstream",
        "upstream rejected request with error 2 while reading response header from upstream",
        "upstream sent DATA before HEADERS while reading response header from upstream",
        "upstream sent goaway with error 11 (ENHANCE_YOUR_CALM): \"calm down\"",
        "upstream broke HTTP/2: ",
        "upstream prematurely closed connection while reading upstream",
        "upstream rejected request with error 2 while reading upstream",
    ] {
        server.wait_for_log(line);
    }
}

#[test]
fn windows_of_a_few_bytes() {
    // SETTINGS_INITIAL_WINDOW_SIZE 10.
    let origin = Raw::start(&[0, 4, 0, 0, 0, 10], |frames| {
        loop {
            let stream = frames.request()?;
            let body = std::mem::take(&mut frames.body);
            frames.send(HEADERS, END_HEADERS, stream, OK)?;
            for piece in body.chunks(7) {
                frames.send(DATA, 0, stream, piece)?;
            }
            frames.send(DATA, END_STREAM, stream, b"")?;
        }
    });
    for more in [
        "",
        "proxy_request_buffering off; proxy_buffering off;",
        "client_body_buffer_size 1k;",
    ] {
        let site = Site::new();
        let server = front(&site, &[&origin], more);
        let body = pattern(30_000);
        for _ in 0..2 {
            let response = post(server.port("front"), &body);
            assert_eq!(response.status, 200);
            assert!(response.body == body, "{more}");
        }
    }
}

#[test]
fn the_end_waits_for_no_window() {
    for trailers in [false, true] {
        let go_on = Arc::new(AtomicBool::new(false));
        let may_end = go_on.clone();
        let origin = Raw::start(&[], move |frames| {
            let stream = frames.request()?;
            frames.send(HEADERS, END_HEADERS, stream, OK)?;
            frames.send(DATA, 0, stream, b"four")?;
            wait_for("the client to have it", || {
                may_end.load(Ordering::Relaxed).then_some(())
            });
            match trailers {
                true => frames.send(HEADERS, END_HEADERS | END_STREAM, stream, LAST),
                false => frames.send(DATA, END_STREAM, stream, b""),
            }
        });
        let site = Site::new();
        let server = front(&site, &[&origin], "http2 on; proxy_pass_trailers on;");
        let address = (Ipv4Addr::LOCALHOST, server.port("front"));
        let mut client = Frames {
            socket: TcpStream::connect(address).expect("it listens"),
            number: 0,
            body: Vec::new(),
        };
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        client.socket.write_all(preface).expect("it reads");
        // Room for four bytes, and a GET for / at localhost.
        let flags = END_HEADERS | END_STREAM;
        client
            .send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 4])
            .and_then(|()| client.send(HEADERS, flags, 1, b"\x82\x86\x84\x01\x09localhost"))
            .expect("it reads");
        loop {
            let (kind, flags, _, payload) = client.next().expect("the response goes on");
            if kind == DATA && !payload.is_empty() {
                assert_eq!(payload, b"four");
                go_on.store(true, Ordering::Relaxed);
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                assert_eq!(kind == HEADERS, trailers);
                break;
            }
        }
    }
}

#[test]
fn the_end_comes_with_the_last_bytes() {
    let frames_of_body = Arc::new(AtomicUsize::new(0));
    let counted = frames_of_body.clone();
    let origin = Raw::start(&[], move |frames| {
        let stream = frames.head()?;
        loop {
            let (kind, flags, _, _) = frames.next()?;
            if kind == DATA {
                counted.fetch_add(1, Ordering::Relaxed);
                if flags & END_STREAM != 0 {
                    return frames.answer(stream, b"fine");
                }
            }
        }
    });
    let site = Site::new();
    let server = front(&site, &[&origin], "proxy_request_buffering off; http2 on;");
    let mut client = Client::open(server.port("front"), &[]);
    let stream = client.request("POST", "/", &[], false);
    client.frame(DATA, END_STREAM, stream, b"hello");
    assert_eq!(client.response(stream).body, b"fine");
    assert_eq!(frames_of_body.load(Ordering::Relaxed), 1);
}

#[test]
fn an_early_answer_leaves_the_connection_usable() {
    let origin = Raw::start(&[], |frames| {
        let stream = frames.head()?;
        frames.answer(stream, b"enough")?;
        // What is left of the first request is reset, and the next one comes.
        frames.serve_all(b"next")
    });
    let site = Site::new();
    let server = front(&site, &[&origin], "proxy_request_buffering off;");
    let port = server.port("front");
    let mut connection = Connection::open(port);
    connection.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nbegun");
    assert_eq!(connection.response(false).text(), "enough");
    for _ in 0..3 {
        assert_eq!(wire::get(port, "/").text(), "next");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn early_hints_and_trailers() {
    let origin = Raw::start(&[], |frames| {
        loop {
            let stream = frames.request()?;
            // Literal fields without indexing; 0x08 is :status by its index.
            frames.send(
                HEADERS,
                END_HEADERS,
                stream,
                b"\x08\x03103\x00\x04link\x03</a",
            )?;
            frames.send(HEADERS, END_HEADERS, stream, OK)?;
            frames.send(DATA, 0, stream, b"body")?;
            let flags = END_HEADERS | END_STREAM;
            frames.send(HEADERS, flags, stream, LAST)?;
        }
    });
    let site = Site::new();
    let server = front(&site, &[&origin], "early_hints 1; proxy_pass_trailers on;");
    let mut connection = Connection::open(server.port("front"));
    connection
        .send("GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n");
    let text = String::from_utf8_lossy(&connection.rest()).into_owned();
    assert!(text.starts_with("HTTP/1.1 103 "), "{text}");
    assert!(text.contains("\r\nlink: </a\r\n"), "{text}");
    assert!(text.contains("\r\n\r\nHTTP/1.1 200 OK\r\n"), "{text}");
    assert!(
        text.ends_with("4\r\nbody\r\n0\r\nx-last: z\r\n\r\n"),
        "{text}"
    );
}

#[test]
fn heads_in_many_small_frames_and_bodies_in_large_ones() {
    const CONTINUATION: u8 = 9;
    let body = pattern(60_000);
    let expected = body.clone();
    let origin = Raw::start(&[], move |frames| {
        loop {
            let stream = frames.request()?;
            // The first request gets as many as are taken, the second one more.
            let more = if frames.number == 0 { 128 } else { 129 };
            frames.send(HEADERS, 0, stream, OK)?;
            let block = [b"\x00\x01x\x7f\x01".as_slice(), &[b'v'; 128]].concat();
            for byte in &block[..more - 1] {
                frames.send(CONTINUATION, 0, stream, &[*byte])?;
            }
            frames.send(CONTINUATION, END_HEADERS, stream, &block[more - 1..])?;
            frames.send(DATA, END_STREAM, stream, &body)?;
            frames.end()?;
        }
    });
    let site = Site::new();
    let server = front(&site, &[&origin], "");
    let response = wire::get(server.port("front"), "/");
    assert_eq!(response.status, 200);
    assert!(response.body == expected);
    assert_eq!(wire::get(server.port("front"), "/").status, 502);
    server.wait_for_log("upstream broke HTTP/2: ");
}
