//! CONNECT on streams of HTTP/2 (RFC 9113 section 8.5), frame by frame.

use super::*;
use sealane_tests::http2::{Client, Response, flag, kind, push_field};

const CONNECT_ERROR: u32 = 10;

/// Sends a header block with these fields.
fn send(client: &mut Client, fields: &[(&str, &str)], end: bool) -> u32 {
    let mut block = Vec::new();
    for (name, value) in fields {
        push_field(&mut block, name, value);
    }
    let stream = client.next_stream();
    let flags = flag::END_HEADERS | (u8::from(end) * flag::END_STREAM);
    client.frame(kind::HEADERS, flags, stream, &block);
    stream
}

pub(super) fn connect(client: &mut Client, target: &str) -> u32 {
    send(
        client,
        &[(":method", "CONNECT"), (":authority", target)],
        false,
    )
}

/// The next frame of the only stream that something comes on, and the status if it is a head.
#[track_caller]
pub(super) fn next(client: &mut Client, stream: u32) -> (sealane_tests::http2::Frame, Option<u16>) {
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        let fields = match frame.kind {
            kind::HEADERS => client.decode(&frame.payload),
            _ => Vec::new(),
        };
        if frame.stream == stream && frame.kind != kind::WINDOW_UPDATE {
            let status = fields.iter().find(|(name, _)| name == ":status");
            let status = status.map(|(_, value)| value.parse().expect("a status"));
            return (frame, status);
        }
    }
}

#[track_caller]
pub(super) fn open(client: &mut Client, port: u16) -> u32 {
    let stream = connect(client, &format!("127.0.0.1:{port}"));
    let (frame, status) = next(client, stream);
    assert_eq!((status, frame.ends_stream()), (Some(200), false));
    stream
}

/// The bytes of a stream until it ends, and the code of a reset.
pub(super) fn rest(client: &mut Client, stream: u32) -> (Vec<u8>, Option<u32>) {
    let mut bytes = Vec::new();
    loop {
        let (frame, _) = next(client, stream);
        match frame.kind {
            kind::RST_STREAM => return (bytes, Some(frame.number(0))),
            kind::DATA => {
                let count = frame.payload.len() as u32;
                if count > 0 {
                    client.grant(0, count);
                    client.grant(stream, count);
                }
                bytes.extend_from_slice(&frame.payload);
            }
            _ => {}
        }
        if frame.ends_stream() {
            return (bytes, None);
        }
    }
}

pub(super) fn serve<'s>(site: &'s Site, settings: &str) -> Server<'s> {
    site.serve(&format!(
        "{ALLOW} server {{ listen 127.0.0.1:%proxy%; http2 on; {settings} tunnel_pass; }}
         server {{ listen 127.0.0.1:%none%; http2 on; }}"
    ))
}

#[test]
fn several_tunnels_share_a_connection() {
    let (site, far) = (Site::new(), Far::echo());
    // Shorter than the pause: a tunnel that is silent is no request body that does not come.
    let server = serve(&site, "client_body_timeout 1s; send_timeout 1s;");
    let mut client = Client::open(server.port("proxy"), &[]);
    let streams: Vec<u32> = (0..5).map(|_| open(&mut client, far.port)).collect();
    thread::sleep(Duration::from_millis(2500));
    for stream in &streams {
        client.frame(kind::DATA, 0, *stream, format!("on {stream}").as_bytes());
    }
    // They come back in any order.
    let mut waiting = streams;
    while !waiting.is_empty() {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::DATA {
            assert_eq!(frame.payload, format!("on {}", frame.stream).as_bytes());
            waiting.retain(|stream| *stream != frame.stream);
        }
    }
}

#[test]
fn much_goes_through_within_the_windows() {
    let (site, far) = (Site::new(), Far::echo());
    let server = serve(&site, "");
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = open(&mut client, far.port);
    let sent: Vec<u8> = (0..600_000_u32).map(|at| (at / 3) as u8).collect();
    let (mut at, mut got, mut room) = (0, Vec::new(), 60_000_usize);
    while got.len() < sent.len() {
        while at < sent.len() && room >= 10_000 {
            let piece = &sent[at..(at + 10_000).min(sent.len())];
            client.frame(kind::DATA, 0, stream, piece);
            (at, room) = (at + piece.len(), room - piece.len());
        }
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::DATA => {
                let count = frame.payload.len();
                got.extend_from_slice(&frame.payload);
                client.grant(0, count as u32);
                client.grant(stream, count as u32);
                // What has come back was taken, on the stream and on the connection.
                room += count;
            }
            kind::HEADERS => drop(client.decode(&frame.payload)),
            _ => assert_ne!(frame.kind, kind::RST_STREAM),
        }
    }
    assert!(got == sent);
}

#[test]
fn the_two_directions_end_one_by_one() {
    let site = Site::new();
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let heard = read_to_close(&socket).len();
        let _ = write!(socket, "{heard} bytes and an end");
    });
    let server = serve(&site, "");
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = open(&mut client, far.port);
    client.frame(kind::DATA, flag::END_STREAM, stream, b"hello");
    assert_eq!(
        rest(&mut client, stream),
        (b"5 bytes and an end".to_vec(), None)
    );
    // The end may come before the tunnel is open.
    let target = format!("127.0.0.1:{}", far.port);
    let stream = connect(&mut client, &target);
    client.frame(kind::DATA, flag::END_STREAM, stream, b"early");
    assert_eq!(next(&mut client, stream).1, Some(200));
    assert_eq!(
        rest(&mut client, stream),
        (b"5 bytes and an end".to_vec(), None)
    );
}

#[test]
fn a_broken_connection_is_a_connect_error() {
    let site = Site::new();
    let far = Far::at(Ipv4Addr::LOCALHOST, |mut socket| {
        let _ = socket.read(&mut [0]);
        // Unread bytes turn closing into a reset.
        let socket = socket2::Socket::from(socket);
        let _ = socket.set_linger(Some(Duration::ZERO));
    });
    let server = serve(&site, "");
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = open(&mut client, far.port);
    client.frame(kind::DATA, 0, stream, b"hello");
    assert_eq!(rest(&mut client, stream), (Vec::new(), Some(CONNECT_ERROR)));
}

#[test]
fn a_client_that_resets_ends_its_tunnel() {
    let site = Site::new();
    let (heard, hears) = std::sync::mpsc::channel();
    let heard = std::sync::Mutex::new(heard);
    let far = Far::at(Ipv4Addr::LOCALHOST, move |socket| {
        let bytes = read_to_close(&socket);
        let _ = heard.lock().expect("not poisoned").send(bytes);
    });
    let server = serve(&site, "");
    let mut client = Client::open(server.port("proxy"), &[]);
    let stream = open(&mut client, far.port);
    client.frame(kind::DATA, 0, stream, b"hello");
    client.frame(kind::PING, 0, 0, &[0; 8]);
    while client.next_frame().expect("alive").kind != kind::PING {}
    client.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    assert_eq!(hears.recv_timeout(PATIENCE), Ok(b"hello".to_vec()));
}

#[test]
fn what_is_refused() {
    let (site, far) = (Site::new(), Far::echo());
    let server = serve(&site, "");
    let target = format!("127.0.0.1:{}", far.port);
    let ask = |port: &str, fields: &[(&str, &str)]| -> Response {
        let mut client = Client::open(server.port(port), &[]);
        let stream = send(&mut client, fields, false);
        client.response(stream)
    };
    let method = (":method", "CONNECT");
    let authority = (":authority", target.as_str());
    assert_eq!(ask("none", &[method, authority]).status, 405);
    assert_eq!(
        ask("proxy", &[method, (":authority", "10.0.0.1:443")]).status,
        403
    );
    assert_eq!(
        ask("proxy", &[method, (":authority", "127.0.0.1")]).status,
        400
    );
    assert_eq!(ask("proxy", &[method]).status, 400);
    assert_eq!(
        ask("proxy", &[method, authority, ("host", "other")]).status,
        400
    );
    for malformed in [
        vec![method, authority, ("content-length", "5")],
        vec![method, authority, ("content-length", "0")],
        vec![method, authority, (":scheme", "https")],
        vec![method, authority, (":path", "/")],
        vec![method, authority, (":protocol", "websocket")],
    ] {
        let answer = ask("proxy", &malformed);
        assert_eq!(
            (answer.status, answer.reset),
            (400, Some(1)),
            "{malformed:?}"
        );
    }
    assert_eq!(far.accepted(), 0);
    // The connection of a refused request lives on: nothing on it can be confused.
    let mut client = Client::open(server.port("proxy"), &[]);
    let refused = connect(&mut client, "10.0.0.1:443");
    assert_eq!(client.response(refused).status, 403);
    open(&mut client, far.port);
}
