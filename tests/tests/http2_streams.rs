//! Streams of an HTTP/2 connection beside each other: windows, priorities, time-outs,
//! and how a connection ends.

use sealane_sys::socket::set_buffers;
use sealane_tests::http2::{Client, Frame, INITIAL_WINDOW, code, flag, kind};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::Connection;
use sealane_tests::{Server, Site, random::Random, wait_for};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.write("html/a.txt", "alpha");
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; http2 on; root html; {directives} }}"
    ))
}

/// A client whose windows never close. What is on its way to it is not more than its
/// kernel's small buffer and the server's.
fn wide_open(port: u16) -> Client {
    let mut client = Client::open(port, &[(INITIAL_WINDOW, 0x7fff_ffff)]);
    set_buffers(client.socket().as_fd(), 0, 64 << 10).expect("a socket has buffers");
    client.grant(0, 0x7fff_ffff - 65_535);
    client
}

/// The next frame of DATA; header blocks before it are decoded.
#[track_caller]
fn next_data(client: &mut Client) -> Frame {
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::DATA => return frame,
            kind::HEADERS => drop(client.decode(&frame.payload)),
            kind::RST_STREAM | kind::GOAWAY => panic!("{frame:?}"),
            _ => {}
        }
    }
}

fn sparse(site: &Site, name: &str, bytes: u64) {
    let file = std::fs::File::create(site.path(format!("html/{name}"))).expect("writable");
    file.set_len(bytes).expect("a sparse file");
}

#[test]
fn windows_of_any_size_are_kept() {
    let site = Site::new();
    let content = Random::new(3).bytes(5_000);
    site.write("html/k.bin", &content);
    let server = serve(&site, "");
    for window in [1, 7, 100, 4_999, 5_000, 65_535] {
        let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, window)]);
        let streams = [client.get("/k.bin"), client.get("/k.bin")];
        let mut bodies = [Vec::new(), Vec::new()];
        let mut open = 2;
        while open > 0 {
            let frame = next_data(&mut client);
            let which = usize::from(frame.stream == streams[1]);
            let length = frame.payload.len() as u32;
            assert!(length <= window, "no more than was granted");
            bodies[which].extend_from_slice(&frame.payload);
            if frame.ends_stream() {
                open -= 1;
            } else {
                client.grant(frame.stream, length);
            }
            client.grant(0, length);
        }
        assert!(
            bodies.iter().all(|body| *body == content),
            "window of {window}"
        );
    }
    // A window that is made smaller than what was sent is made up for first.
    let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, 3_000)]);
    let stream = client.get("/k.bin");
    let mut body = Vec::new();
    while body.len() < 3_000 {
        body.extend_from_slice(&next_data(&mut client).payload);
    }
    client.settings(&[(INITIAL_WINDOW, 0)]);
    client.grant(stream, 3_000);
    client.grant(stream, 2_000);
    while body.len() < 5_000 {
        body.extend_from_slice(&next_data(&mut client).payload);
    }
    assert!(body == content);
}

#[test]
fn frames_are_no_longer_than_the_location_says() {
    let site = Site::new();
    let content = Random::new(4).bytes(100_000);
    site.write("html/k.bin", &content);
    let server = serve(
        &site,
        "location /long/ { http2_chunk_size 16k; alias html/; }
         location /longer/ { http2_chunk_size 64k; alias html/; }
         location /short/ { http2_chunk_size 100; alias html/; }",
    );
    let mut client = wide_open(server.port("plain"));
    // SETTINGS_MAX_FRAME_SIZE: at first its default, 16384.
    for (path, allowed, longest) in [
        ("/k.bin", None, 8192),
        ("/long/k.bin", None, 16_384),
        ("/longer/k.bin", None, 16_384),
        ("/longer/k.bin", Some(20_000), 20_000),
        ("/longer/k.bin", Some(1 << 20), 65_536),
        ("/short/k.bin", None, 100),
    ] {
        if let Some(bytes) = allowed {
            client.settings(&[(5, bytes)]);
        }
        client.get(path);
        let mut body = Vec::new();
        let mut most = 0;
        loop {
            let frame = next_data(&mut client);
            most = most.max(frame.payload.len());
            body.extend_from_slice(&frame.payload);
            if frame.ends_stream() {
                break;
            }
        }
        assert!(body == content, "{path}");
        assert_eq!(most, longest, "{path}");
    }
}

/// What of a download arrives between a request and its answer.
#[track_caller]
fn bytes_ahead(client: &mut Client, wanted: u32) -> usize {
    let mut ahead = 0;
    loop {
        let frame = next_data(client);
        if frame.stream != wanted {
            ahead += frame.payload.len();
        } else if frame.ends_stream() {
            return ahead;
        }
    }
}

#[test]
fn small_answers_are_not_stuck_behind_large_ones() {
    let site = Site::new();
    sparse(&site, "large.bin", 100 << 20);
    let server = serve(&site, "");
    let mut client = wide_open(server.port("plain"));
    let large = client.get("/large.bin");
    let mut received = 0;
    for _ in 0..20 {
        for _ in 0..100 {
            received += next_data(&mut client).payload.len();
        }
        let small = client.get("/a.txt");
        let ahead = bytes_ahead(&mut client, small);
        received += ahead;
        assert!(ahead < 2 << 20, "{ahead} bytes of the download came first");
    }
    // The download goes on and is complete.
    loop {
        let frame = next_data(&mut client);
        assert_eq!(frame.stream, large);
        received += frame.payload.len();
        if frame.ends_stream() {
            break;
        }
    }
    assert_eq!(received, 100 << 20);
}

#[test]
fn priorities_of_requests_and_updates_are_obeyed() {
    let site = Site::new();
    sparse(&site, "one.bin", 8 << 20);
    sparse(&site, "two.bin", 8 << 20);
    let server = serve(&site, "");
    // The more urgent one comes first, though it was asked for last.
    let mut client = wide_open(server.port("plain"));
    let late = client.request("GET", "/one.bin", &[("priority", "u=6")], true);
    let early = client.request("GET", "/two.bin", &[("priority", "u=1")], true);
    let ahead = bytes_ahead(&mut client, early);
    assert!(ahead < 2 << 20, "{ahead} bytes of the less urgent one");
    // Equal ones share. An update changes that in the middle.
    let mut client = wide_open(server.port("plain"));
    let first = client.request("GET", "/one.bin", &[("priority", "i")], true);
    let second = client.request("GET", "/two.bin", &[("priority", "i")], true);
    // The first has been alone for a moment, however long that was.
    while next_data(&mut client).stream != second {}
    let mut counts = [0, 0];
    for _ in 0..200 {
        let frame = next_data(&mut client);
        counts[usize::from(frame.stream == second)] += frame.payload.len();
    }
    assert!(counts[0].abs_diff(counts[1]) <= 64 << 10, "{counts:?}");
    let update = [&second.to_be_bytes()[..], b"u=0"].concat();
    client.frame(kind::PRIORITY_UPDATE, 0, 0, &update);
    let ahead = bytes_ahead(&mut client, second);
    assert!(ahead < 2 << 20, "{ahead} bytes of the less urgent one");
    assert_ne!((late, first), (early, second));
}

#[test]
fn limit_rate_slows_its_stream_alone() {
    let site = Site::new();
    site.write("html/k.bin", vec![1; 300_000]);
    let server = serve(&site, "location /slow/ { alias html/; limit_rate 100k; }");
    let mut client = wide_open(server.port("plain"));
    let since = Instant::now();
    let slow = client.get("/slow/k.bin");
    let fast = client.get("/k.bin");
    assert!(
        bytes_ahead(&mut client, fast) < 300_000,
        "the slow one is not first"
    );
    while !next_data(&mut client).ends_stream() {}
    // A second's worth leaves at once.
    assert!(
        since.elapsed() > Duration::from_millis(1500),
        "{:?}",
        since.elapsed()
    );
    assert!(slow < fast);
}

#[test]
fn no_more_streams_than_allowed() {
    let site = Site::new();
    sparse(&site, "large.bin", 1 << 20);
    let server = serve(&site, "http2_max_concurrent_streams 4;");
    let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, 1)]);
    for _ in 0..4 {
        client.get("/large.bin");
    }
    let refused = client.get("/large.bin");
    let reset = loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::HEADERS {
            client.decode(&frame.payload);
        }
        if frame.kind == kind::RST_STREAM {
            break frame;
        }
    };
    assert_eq!(
        (reset.stream, reset.number(0)),
        (refused, code::REFUSED_STREAM)
    );
    client.frame(kind::RST_STREAM, 0, 1, &code::CANCEL.to_be_bytes());
    assert_eq!(client.fetch("/a.txt").body, b"alpha", "there is room again");
}

/// Reads until GOAWAY, and returns the last stream that it names.
#[track_caller]
fn go_away(client: &mut Client) -> u32 {
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::HEADERS {
            client.decode(&frame.payload);
        }
        if frame.kind == kind::GOAWAY {
            assert_eq!(frame.number(4), code::NO_ERROR);
            return frame.number(0);
        }
    }
}

#[test]
fn a_connection_that_ends_loses_nothing() {
    let site = Site::new();
    let server = serve(&site, "keepalive_requests 3;");
    let mut client = Client::open(server.port("plain"), &[]);
    client.is_polite = false;
    client.fetch("/a.txt");
    client.fetch("/a.txt");
    let third = client.get("/a.txt");
    // The end is announced first: a request that was under way is still answered.
    assert_eq!(go_away(&mut client), 0x7fff_ffff);
    let fourth = client.get("/a.txt");
    let answer = client.response(fourth);
    assert_eq!(answer.body, b"alpha");
    assert!(third < fourth);
    // Now that the client answers the PING, the last one is named.
    client.frame(kind::PING, flag::ACK, 0, b"shutdown");
    assert_eq!(go_away(&mut client), fourth);
    assert_eq!(client.end(), None, "closed");
    // Whoever never answers is not served for ever either.
    let mut deaf = Client::open(server.port("plain"), &[]);
    deaf.is_polite = false;
    for _ in 0..3 {
        deaf.get("/a.txt");
    }
    assert_eq!(go_away(&mut deaf), 0x7fff_ffff);
    assert_eq!(go_away(&mut deaf), 5);
    assert_eq!(deaf.end(), None, "closed");
}

#[test]
fn shutdown_waits_for_streams() {
    let site = Site::new();
    let content = Random::new(8).bytes(3_000_000);
    site.write("html/large.bin", &content);
    let server = serve(&site, "");
    let port = server.port("plain");
    let mut busy: Vec<(Client, u32)> = (0..20)
        .map(|_| {
            let mut client = Client::open(port, &[]);
            client.fetch("/a.txt");
            let stream = client.get("/large.bin");
            (client, stream)
        })
        .collect();
    let mut idle = Client::open(port, &[]);
    idle.fetch("/a.txt");
    server.signal("QUIT");
    assert_eq!(go_away(&mut idle), 0x7fff_ffff);
    // It is told of the last stream once it has seen that.
    assert_eq!(idle.end(), Some(code::NO_ERROR));
    // From before these clients knew. All at once: new requests are accepted for a second.
    let late: Vec<u32> = busy
        .iter_mut()
        .map(|(client, _)| client.get("/a.txt"))
        .collect();
    for ((client, stream), late) in busy.iter_mut().zip(late) {
        // The other one was under way when the server was asked to end.
        let mut late_body = Vec::new();
        let mut body = Vec::new();
        let mut open = 2;
        while open > 0 {
            let frame = client.next_frame().expect("the connection goes on");
            match frame.kind {
                kind::DATA if frame.stream == *stream => body.extend_from_slice(&frame.payload),
                kind::DATA if frame.stream == late => late_body.extend_from_slice(&frame.payload),
                kind::HEADERS => drop(client.decode(&frame.payload)),
                kind::RST_STREAM => panic!("{frame:?}"),
                _ => {}
            }
            open -= usize::from(frame.ends_stream());
            if frame.kind == kind::DATA && !frame.payload.is_empty() {
                let bytes = frame.payload.len() as u32;
                client.grant(0, bytes);
                client.grant(frame.stream, bytes);
            }
        }
        assert!(body == content && late_body == b"alpha");
        assert!(client.end().is_none_or(|code| code == code::NO_ERROR));
    }
    assert!(server.stop("QUIT").success());
}

#[test]
fn what_lasts_too_long_at_the_end_is_logged() {
    let (site, origin) = (Site::new(), Origin::answering(|_| Answer::Silence));
    let server = site.serve_with(
        "worker_shutdown_timeout 1s;",
        "",
        &format!(
            "log_format short '$server_protocol $status'; access_log logs/access.log short;
             server {{ listen 127.0.0.1:%plain%; http2 on;
               location / {{ proxy_pass http://127.0.0.1:{}; }} }}",
            origin.port()
        ),
    );
    let mut new = Client::open(server.port("plain"), &[]);
    new.get("/");
    let mut old = Connection::open(server.port("plain"));
    old.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for("both requests to get there", || {
        (origin.connections() == 2).then_some(())
    });
    assert!(server.stop("QUIT").success());
    let log = std::fs::read_to_string(site.path("logs/access.log")).expect("a log");
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["HTTP/1.1 499", "HTTP/2.0 499"]);
}

#[test]
fn a_client_without_settings_is_kept_alive_too() {
    let site = Site::new();
    let server = serve(&site, "client_header_timeout 1s; keepalive_timeout 3s;");
    let mut client = Client::silent(server.port("plain"));
    client.is_polite = false;
    client.send(sealane_http::h2::PREFACE);
    assert_eq!(client.fetch("/a.txt").status, 200);
    assert_eq!(client.end(), Some(code::NO_ERROR));
}

#[test]
fn kept_alive_by_requests_alone() {
    let site = Site::new();
    let server = serve(&site, "keepalive_timeout 3s;");
    let mut client = Client::open(server.port("plain"), &[]);
    let since = Instant::now();
    // Each of them comes before the time since the last one is over.
    for _ in 0..6 {
        assert_eq!(client.fetch("/a.txt").status, 200);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(since.elapsed() > Duration::from_secs(5));
    assert_eq!(client.fetch("/a.txt").status, 200);
    assert_eq!(client.end(), Some(code::NO_ERROR));
}

#[test]
fn requests_do_not_put_off_the_time_outs_of_other_streams() {
    let site = Site::new();
    let server = serve(&site, "send_timeout 1s; location /none { return 204; }");
    let mut client = Client::open(server.port("plain"), &[(INITIAL_WINDOW, 0)]);
    let stuck = client.get("/a.txt");
    // An upload that nobody wants is ended in its time, too.
    let unwanted = client.request("POST", "/none", &[], false);
    let mut resets = Vec::new();
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(100));
        let other = client.get("/none");
        loop {
            let frame = client.next_frame().expect("the connection goes on");
            match frame.kind {
                kind::HEADERS => drop(client.decode(&frame.payload)),
                kind::RST_STREAM => resets.push((frame.stream, frame.number(0))),
                _ => {}
            }
            if frame.stream == other && frame.ends_stream() {
                break;
            }
        }
        if resets.len() == 2 {
            break;
        }
    }
    resets.sort_unstable();
    assert_eq!(resets, [(stuck, code::CANCEL), (unwanted, code::NO_ERROR)]);
}

#[test]
fn bodies_in_both_directions() {
    let site = Site::new();
    let origin = Origin::answering(|asked| {
        match asked.target().as_str() {
        "/hints" => Answer::Send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
        ),
        "/short" => {
            Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nincomplete".to_vec())
        }
        _ => {
            let body = [asked.text().as_bytes(), &asked.body].concat();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            Answer::Send([head.as_bytes(), &body].concat())
        }
    }
    });
    let origin = origin.port();
    let server = serve(
        &site,
        &format!(
            "client_max_body_size 20k; early_hints 1;
             location / {{ proxy_pass http://127.0.0.1:{origin}; proxy_http_version 1.1; }}
             location /streamed {{ proxy_pass http://127.0.0.1:{origin}; proxy_http_version 1.1; proxy_request_buffering off; }}
             location /gone {{ return 444; }}"
        ),
    );
    let mut client = Client::open(server.port("plain"), &[]);
    let answer = client.fetch("/hints");
    assert_eq!((answer.status, &answer.interim[..]), (200, &[103][..]));
    assert_eq!(answer.field("link"), Some("</x>"));
    // A body that breaks off is not taken for a complete one.
    let answer = client.fetch("/short");
    assert_eq!((answer.status, answer.reset), (200, Some(2)));
    // 444: no answer, and the other streams live on.
    let answer = client.fetch("/gone");
    assert_eq!((answer.status, answer.reset), (0, Some(2)));
    // 100 when the body is wanted, whoever wants it.
    for path in ["/stored", "/streamed"] {
        let stream = client.request("POST", path, &[("expect", "100-continue")], false);
        let interim = loop {
            let frame = client.next_frame().expect("the connection goes on");
            if frame.kind == kind::HEADERS {
                break client.decode(&frame.payload);
            }
        };
        assert_eq!(interim, [(":status".to_owned(), "100".to_owned())]);
        client.frame(kind::DATA, 0, stream, b"first ");
        client.frame(kind::DATA, flag::END_STREAM, stream, b"second");
        let body = client.response(stream).body;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(
            body.contains("first ") && body.contains("second"),
            "{path}: {body}"
        );
    }
    // A body of unknown length that becomes too large.
    let stream = client.request("POST", "/stored", &[], false);
    for _ in 0..3 {
        client.frame(kind::DATA, 0, stream, &[5; 16_000]);
    }
    assert_eq!(client.response(stream).status, 413);
    // What nobody wants is refused after the answer, and not at once.
    let reset = loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.stream == stream {
            break frame;
        }
    };
    assert_eq!(
        (reset.kind, reset.number(0)),
        (kind::RST_STREAM, code::NO_ERROR)
    );
    assert_eq!(client.fetch("/hints").status, 200);
}

#[test]
fn idle_connections_make_room() {
    let site = Site::new();
    site.write("html/a.txt", "alpha");
    let server = site.serve_with(
        "",
        "worker_connections 160;",
        "server { listen 127.0.0.1:%plain%; http2 on; root html; }",
    );
    let mut clients = Vec::new();
    for _ in 0..400 {
        let mut client = Client::open(server.port("plain"), &[]);
        assert_eq!(client.fetch("/a.txt").body, b"alpha");
        clients.push(client);
    }
    assert_eq!(clients[0].end(), Some(code::NO_ERROR));
    assert_eq!(clients[399].fetch("/a.txt").status, 200);
}

/// What an idle connection may take of the worker's memory, with what the allocator keeps of
/// its busy time: tables of a few KiB, and no buffer.
const IDLE_KIB: u64 = 8;

#[test]
fn idle_connections_cost_little_memory() {
    let site = Site::new();
    site.write("html/a.txt", "alpha");
    site.write("html/k.bin", Random::new(14).bytes(200_000));
    let server = site.serve_with(
        "",
        "worker_connections 2000;",
        "server { listen 127.0.0.1:%plain%; http2 on; root html; keepalive_timeout 300s; }",
    );
    let used = |number: usize| {
        let mut client = Client::open(server.port("plain"), &[]);
        if number.is_multiple_of(20) {
            // All of them wait for their windows and have some of their body, and end.
            let streams: Vec<u32> = (0..20).map(|_| client.get("/k.bin")).collect();
            next_data(&mut client);
            for stream in streams {
                client.frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes());
            }
        }
        assert_eq!(client.fetch("/k.bin").body.len(), 200_000);
        assert_eq!(client.fetch("/a.txt").body, b"alpha");
        client
    };
    // Code, tables and buffers that the worker keeps for everybody.
    drop((0..50).map(used).collect::<Vec<_>>());
    let before_kib = server.resident_kib();
    let clients: Vec<Client> = (0..1000).map(used).collect();
    let more_kib = server.resident_kib().saturating_sub(before_kib);
    println!("{} connections take {more_kib} KiB", clients.len());
    assert!(
        more_kib <= IDLE_KIB * clients.len() as u64,
        "{more_kib} KiB"
    );
    for mut client in clients.into_iter().step_by(100) {
        assert_eq!(client.fetch("/a.txt").status, 200, "it is still there");
    }
}

/// The status of a stream and the frame that ends it.
#[track_caller]
fn status_and_end(client: &mut Client, stream: u32) -> (String, Frame) {
    let mut status = String::new();
    loop {
        let frame = client.next_frame().expect("the connection goes on");
        if frame.kind == kind::HEADERS {
            let fields = client.decode(&frame.payload);
            let found = fields.into_iter().find(|(name, _)| name == ":status");
            status = found.map_or(status, |(_, value)| value);
        }
        assert_ne!(frame.kind, kind::GOAWAY, "{frame:?}");
        if frame.stream == stream && frame.ends_stream() {
            return (status, frame);
        }
    }
}

#[test]
fn malformed_requests_are_answered_and_logged_before_their_stream_is_reset() {
    let site = Site::new();
    site.write("html/a.txt", "alpha");
    let server = site.serve(
        "log_format ours '$status $request_method $uri';
         access_log logs/access.log ours;
         server { listen 127.0.0.1:%plain%; http2 on; root html;
             location /dav { dav_methods PUT; } }",
    );
    let mut client = Client::open(server.port("plain"), &[]);
    for (method, path, fields, status) in [
        ("GET", "/a.txt", &[("a b", "v")][..], "400"),
        ("GET", "/a.txt", &[("a", "b\r\nc: d")], "400"),
        ("GET", "/a.txt", &[("connection", "close")], "400"),
        ("GET", "a.txt", &[], "400"),
        ("CONNECT", "/", &[], "400"),
    ] {
        let stream = client.request(method, path, fields, true);
        let (found, end) = status_and_end(&mut client, stream);
        assert_eq!(found, status, "{method} {path} {fields:?}");
        assert_eq!(
            (end.kind, end.number(0)),
            (kind::RST_STREAM, code::PROTOCOL_ERROR)
        );
    }
    // So is one whose body is not as long as it said.
    for (length, body) in [("9", "short"), ("1", "long")] {
        let stream = client.request("PUT", "/dav", &[("content-length", length)], false);
        client.frame(kind::DATA, flag::END_STREAM, stream, body.as_bytes());
        let (found, end) = status_and_end(&mut client, stream);
        assert_eq!((found.as_str(), end.kind), ("400", kind::RST_STREAM));
    }
    let stream = client.get("/a.txt");
    let (found, end) = status_and_end(&mut client, stream);
    assert_eq!((found.as_str(), end.kind), ("200", kind::DATA));
    drop(client);
    wait_for("the lines of all requests", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        let count = |status: &str| log.lines().filter(|line| line.starts_with(status)).count();
        ((count("400 "), count("200 ")) == (7, 1)).then_some(())
    });
}
