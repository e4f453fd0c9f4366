//! Request bodies over HTTP/2 beside responses that the client does not take: neither
//! waits for the other.

use sealane_sys::socket::set_buffers;
use sealane_tests::http2::{Client, Frame, INITIAL_WINDOW, code, flag, kind};
use sealane_tests::origin::Origin;
use sealane_tests::{Server, Site, random::Random, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// The window of everything before SETTINGS and WINDOW_UPDATE (RFC 9113 section 6.9.2).
const DEFAULT_WINDOW: i64 = 65_535;
const LARGE_BYTES: u64 = 400 << 20;

fn serve<'a>(site: &'a Site, origin: u16, directives: &str) -> Server<'a> {
    let large = std::fs::File::create(site.path("html/large.bin")).expect("writable");
    large.set_len(LARGE_BYTES).expect("a sparse file");
    site.write("html/a.txt", "alpha");
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; http2 on; root html; client_max_body_size 0;
            location /stored/ {{ proxy_pass http://127.0.0.1:{origin}; client_body_buffer_size 1m; }}
            location /streamed/ {{ proxy_pass http://127.0.0.1:{origin}; proxy_request_buffering off;
                {directives} }} }}"
    ))
}

/// A body on its way, as far as the server grants it.
struct Upload<'c> {
    content: &'c [u8],
    stream: u32,
    sent: usize,
    stream_window: i64,
    initial_window: i64,
    connection_window: i64,
}

impl Upload<'_> {
    /// Sends the head.
    fn begin<'c>(client: &mut Client, path: &str, content: &'c [u8]) -> Upload<'c> {
        let length = content.len().to_string();
        let stream = client.request("POST", path, &[("content-length", &length)], false);
        Upload {
            content,
            stream,
            sent: 0,
            stream_window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            connection_window: DEFAULT_WINDOW,
        }
    }

    /// Sends what may be sent. True when that was the rest.
    fn send(&mut self, client: &mut Client) -> bool {
        while self.sent < self.content.len() {
            let window = self.stream_window.min(self.connection_window);
            let most = usize::try_from(window.min(16_384)).unwrap_or(0);
            let rest = &self.content[self.sent..];
            let piece = &rest[..rest.len().min(most)];
            if piece.is_empty() {
                return false;
            }
            let flags = u8::from(piece.len() == rest.len()) * flag::END_STREAM;
            let sent = client.frame(kind::DATA, flags, self.stream, piece);
            assert!(sent, "the server takes what it granted");
            self.sent += piece.len();
            self.stream_window -= piece.len() as i64;
            self.connection_window -= piece.len() as i64;
        }
        true
    }

    /// Takes account of what the server grants.
    fn take(&mut self, frame: &Frame) {
        match frame.kind {
            kind::WINDOW_UPDATE if frame.stream == 0 => {
                self.connection_window += i64::from(frame.number(0));
            }
            kind::WINDOW_UPDATE if frame.stream == self.stream => {
                self.stream_window += i64::from(frame.number(0));
            }
            kind::SETTINGS if frame.flags & flag::ACK == 0 => {
                for setting in frame.payload.chunks(6) {
                    if setting[..2] == INITIAL_WINDOW.to_be_bytes() {
                        let value = setting[2..].try_into().expect("six bytes each");
                        let window = i64::from(u32::from_be_bytes(value));
                        self.stream_window += window - self.initial_window;
                        self.initial_window = window;
                    }
                }
            }
            kind::RST_STREAM | kind::GOAWAY => panic!("{frame:?}"),
            _ => {}
        }
    }
}

/// An origin that sends each part of a body back as soon as it has it.
fn parrot() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    repeat_all(listener)
}

fn repeat_all(listener: TcpListener) -> u16 {
    let port = listener.local_addr().expect("it is bound").port();
    // The threads end when the server closes its connections, at the latest with the process.
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || repeat(socket));
        }
    });
    port
}

/// The end of a head in what was received so far.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let found = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    found.map(|at| at + 4)
}

fn repeat(mut socket: TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    let end = loop {
        if let Some(end) = end_of_head(&bytes) {
            break end;
        }
        let count = socket.read(&mut piece).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    let length: usize = length.1.trim().parse().ok()?;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(head.as_bytes()).ok()?;
    socket.write_all(&bytes[end..]).ok()?;
    let mut repeated = bytes.len() - end;
    while repeated < length {
        let count = socket.read(&mut piece).ok().filter(|&count| count > 0)?;
        socket.write_all(&piece[..count]).ok()?;
        repeated += count;
    }
    Some(())
}

#[test]
fn an_answer_that_comes_meanwhile_waits_for_its_window() {
    let site = Site::new();
    let server = serve(&site, parrot(), "");
    let content = Random::new(21).bytes(8 << 20);
    let mut client = Client::open(server.port("plain"), &[]);
    let mut upload = Upload::begin(&mut client, "/streamed/", &content);
    let stream = upload.stream;
    // Nothing is granted until all has been sent: what the origin answers waits in the server.
    let mut body = Vec::new();
    while !upload.send(&mut client) {
        let frame = client.next_frame().expect("the connection goes on");
        upload.take(&frame);
        match frame.kind {
            kind::HEADERS => drop(client.decode(&frame.payload)),
            kind::DATA => body.extend_from_slice(&frame.payload),
            _ => {}
        }
    }
    assert!(body.len() as i64 <= DEFAULT_WINDOW, "{} bytes", body.len());
    client.grant(0, 0x7fff_0000);
    client.grant(stream, 0x7fff_0000);
    while body.len() < content.len() {
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::HEADERS => drop(client.decode(&frame.payload)),
            kind::DATA => body.extend_from_slice(&frame.payload),
            kind::RST_STREAM | kind::GOAWAY => panic!("{frame:?}"),
            _ => {}
        }
    }
    assert!(body == content);
}

#[test]
fn without_buffers_such_an_answer_ends_in_its_time() {
    let site = Site::new();
    // The origin reads no more than it can send: client and origin wait for each other.
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    // A kernel may let a buffer grow to 32 MiB, which is all that is sent. Accepted sockets inherit
    // this. Buffers that hold a few segments of the loopback only would stall now and then.
    set_buffers(origin.as_fd(), 1 << 20, 1 << 20).expect("a socket has buffers");
    let origin = repeat_all(origin);
    let server = serve(&site, origin, "proxy_buffering off; send_timeout 2s;");
    let content = vec![5; 32 << 20];
    let mut client = Client::open(server.port("plain"), &[]);
    let mut upload = Upload::begin(&mut client, "/streamed/", &content);
    let reset = loop {
        assert!(!upload.send(&mut client), "somewhere it has to wait");
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::HEADERS => drop(client.decode(&frame.payload)),
            kind::RST_STREAM => break frame,
            _ => upload.take(&frame),
        }
    };
    assert_eq!(
        (reset.stream, reset.number(0)),
        (upload.stream, code::CANCEL)
    );
    client.grant(0, 1 << 20);
    assert_eq!(client.fetch("/a.txt").body, b"alpha", "others live on");
}

#[test]
fn a_closed_window_opens_when_somebody_reads() {
    let site = Site::new();
    let origin = Origin::echo();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; http2 on; http2_body_preread_size 0;
            location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
        origin.port()
    ));
    let content = Random::new(9).bytes(200_000);
    let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, 0x7fff_ffff)]);
    client.grant(0, 0x7fff_0000);
    let mut upload = Upload::begin(&mut client, "/", &content);
    // As SETTINGS will say.
    (upload.stream_window, upload.initial_window) = (0, 0);
    while !upload.send(&mut client) {
        let frame = client.next_frame().expect("the connection goes on");
        upload.take(&frame);
    }
    let stream = upload.stream;
    assert_eq!(client.response(stream).status, 200);
    assert!(
        origin
            .take_asked()
            .iter()
            .any(|asked| asked.body == content)
    );
}

#[test]
fn clients_that_do_not_read_can_send() {
    let site = Site::new();
    let origin = Origin::echo();
    let server = serve(&site, origin.port(), "");
    let window = (INITIAL_WINDOW, 0x7fff_ffff);
    let mut client = Client::open(server.port("plain"), &[window]);
    client.grant(0, 0x7fff_0000);
    client.get("/large.bin");
    // The server can send no more when everything between it and us is full.
    let mut before = 0;
    wait_for("full buffers", || {
        let queued = queued_bytes(client.socket());
        let is_full = queued > 0 && queued == before;
        before = queued;
        is_full.then_some(())
    });
    // What the first windows allow, on several streams; nothing is read from now on.
    let content = Random::new(22).bytes(60_000);
    let mut streams = Vec::new();
    for path in ["/stored/", "/streamed/"].repeat(6) {
        let mut upload = Upload::begin(&mut client, path, &content);
        upload.connection_window = i64::from(u32::MAX);
        assert!(upload.send(&mut client));
        streams.push(upload.stream);
    }
    let mut asked = Vec::new();
    wait_for("all bodies at the origin", || {
        asked.extend(origin.take_asked());
        (asked.len() == streams.len()).then_some(())
    });
    assert!(asked.iter().all(|asked| asked.body == content));
    // Their answers come while the download goes on.
    let mut lengths = vec![0; streams.len()];
    let mut open = streams.len();
    while open > 0 {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::HEADERS {
            client.decode(&frame.payload);
        }
        if let Some(which) = streams.iter().position(|&stream| stream == frame.stream) {
            assert_ne!(frame.kind, kind::RST_STREAM, "{frame:?}");
            if frame.kind == kind::DATA {
                lengths[which] += frame.payload.len();
            }
            open -= usize::from(frame.ends_stream());
        } else {
            assert!(!frame.ends_stream(), "the download takes longer");
        }
    }
    assert!(lengths.iter().all(|&length| length > content.len()));
}

/// Bytes that wait in the kernel to be read.
fn queued_bytes(socket: &TcpStream) -> usize {
    let mut bytes = vec![0; 16 << 20];
    socket.set_nonblocking(true).expect("any socket can be");
    let queued = match socket.peek(&mut bytes) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    };
    socket.set_nonblocking(false).expect("any socket can be");
    queued
}

#[test]
fn windows_open_beside_a_download() {
    let site = Site::new();
    let origin = Origin::echo();
    let server = serve(&site, origin.port(), "");
    let content = Random::new(23).bytes(4 << 20);
    for path in ["/stored/", "/streamed/"] {
        let window = (INITIAL_WINDOW, 0x7fff_ffff);
        let mut client = Client::open(server.port("plain"), &[window]);
        client.grant(0, 0x7fff_0000);
        let download = client.get("/large.bin");
        let mut upload = Upload::begin(&mut client, path, &content);
        // A grant is not behind more than what is on its way, so this ends before that does.
        while !upload.send(&mut client) {
            let frame = client.next_frame().expect("the connection goes on");
            upload.take(&frame);
            if frame.kind == kind::HEADERS {
                client.decode(&frame.payload);
            }
            let is_over = frame.stream == download && frame.ends_stream();
            assert!(!is_over, "{path}: {} bytes of the body", upload.sent);
        }
        wait_for("the body at the origin", || {
            let asked = origin.take_asked();
            asked.into_iter().find(|asked| asked.body == content)
        });
    }
}

#[test]
fn a_body_may_come_in_frames_of_the_size_that_is_announced() {
    let site = Site::new();
    let server = serve(&site, parrot(), "");
    let content = Random::new(5).bytes(60_000);
    for path in ["/stored/", "/streamed/"] {
        let mut client = Client::open(server.port("plain"), &[]);
        let length = content.len().to_string();
        let stream = client.request("POST", path, &[("content-length", &length)], false);
        client.frame(kind::DATA, flag::END_STREAM, stream, &content);
        let response = client.response(stream);
        assert!(response.body == content, "{path}");
    }
}

#[test]
fn a_body_of_unknown_length_is_granted_more_as_soon_as_it_is_read() {
    let site = Site::new();
    let server = serve(&site, parrot(), "");
    let mut client = Client::open(server.port("plain"), &[]);
    let stream = client.request("POST", "/stored/", &[], false);
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::WINDOW_UPDATE && frame.stream == stream {
            assert_eq!(frame.number(0), 64 << 10);
            break;
        }
    }
    // One that fits needs no more.
    let stream = client.request("POST", "/streamed/", &[("content-length", "4")], false);
    client.frame(kind::DATA, flag::END_STREAM, stream, b"four");
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        let is_grant = frame.kind == kind::WINDOW_UPDATE && frame.stream == stream;
        assert!(!is_grant, "{frame:?}");
        if frame.stream == stream && frame.ends_stream() {
            break;
        }
    }
}
