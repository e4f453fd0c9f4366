//! What an HTTP/2 client can do to a server by the letter of the protocol, and how each
//! of it ends: with the right code, a line in the error log, little memory, and other
//! clients served meanwhile.

use sealane_tests::http2::{Client, code, flag, frame, head, kind, push_field};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::wire::read_to_close;
use sealane_tests::{Server, Site, scale, wait_for};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a flood may add to the memory of the worker. Tables, buffers and what the
/// allocator keeps are a few MiB; what a flood can send is hundreds.
const MOST_MEMORY_KIB: u64 = 48 << 10;

/// A server with a small file, a large one, and an origin that never answers.
fn serve<'a>(site: &'a Site, origin: &Origin, directives: &str) -> Server<'a> {
    site.write("html/a.txt", vec![b'a'; 1024]);
    let big = std::fs::File::create(site.path("html/big.bin")).expect("the site is writable");
    big.set_len(64 << 20).expect("a sparse file");
    let origin = origin.port();
    site.serve_with(
        "",
        "worker_connections 4000;",
        &format!(
            "server {{ listen 127.0.0.1:%plain%; http2 on; root html; {directives}
                location /silent/ {{ proxy_pass http://127.0.0.1:{origin}; proxy_request_buffering off; }} }}"
        ),
    )
}

/// Somebody who wants a small file again and again, until told to stop, and counts how often it
/// came.
fn bystander(port: u16, stop: &AtomicBool, served: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::open(port, &[]);
        // Connections end after keepalive_requests.
        for _ in 0..500 {
            let answer = client.fetch("/a.txt");
            assert_eq!((answer.status, answer.body.len()), (200, 1024));
            served.fetch_add(1, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// Has the bystander stop however its scope ends.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs an attack several times beside a bystander, who is served before, between and after its
/// rounds, and looks at the server's memory.
#[track_caller]
fn attack(server: &Server<'_>, name: &str, times: usize, run: impl Fn(u16)) {
    let port = server.port("plain");
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let before_kib = server.resident_kib();
    let mut most_kib = before_kib;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| bystander(port, &stop, &served));
        let stop = Stop(&stop);
        let is_served = || {
            let before = served.load(Ordering::Relaxed);
            wait_for("another client to be served", || {
                // One that was on its way already does not count.
                let now = served.load(Ordering::Relaxed);
                (now >= before + 2 || other.is_finished()).then_some(())
            });
        };
        is_served();
        for _ in 0..times {
            run(port);
            most_kib = most_kib.max(server.resident_kib());
            is_served();
        }
        drop(stop);
        other.join().expect("the bystander is served");
    });
    assert!(
        most_kib < before_kib + MOST_MEMORY_KIB,
        "{name}: {before_kib} KiB became {most_kib} KiB"
    );
}

/// Sends the same bytes again and again until the server has had enough of them, and
/// returns the code of its GOAWAY.
#[track_caller]
fn insist(client: &mut Client, bytes: &[u8], most: usize) -> Option<u32> {
    for _ in 0..most {
        if !client.send(bytes) {
            break;
        }
    }
    client.end()
}

#[test]
fn floods_of_frames_end_the_connection() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin, "");
    let cases: &[(&str, &str, Vec<u8>)] = &[
        (
            "SETTINGS",
            "SETTINGS frames",
            frame(kind::SETTINGS, 0, 0, &[]),
        ),
        ("PING", "PING frames", frame(kind::PING, 0, 0, &[7; 8])),
        (
            "empty DATA",
            "frames without content",
            frame(kind::DATA, 0, 1, &[]),
        ),
        (
            "padding alone",
            "frames without content",
            frame(kind::DATA, 0x8, 1, &[0]),
        ),
        (
            "frames of unknown types",
            "frames without content",
            frame(0xbe, 0, 0, &[1; 100]),
        ),
        (
            "PRIORITY",
            "priority frames",
            frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 9]),
        ),
        (
            "PRIORITY of idle streams",
            "priority frames",
            frame(kind::PRIORITY, 0, 0x7fff_0001, &[0, 0, 0, 0, 9]),
        ),
        (
            "PRIORITY_UPDATE",
            "priority frames",
            frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1,i"),
        ),
        (
            "WINDOW_UPDATE in crumbs",
            "WINDOW_UPDATE frames",
            frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        ),
        (
            "RST_STREAM of a finished stream",
            "frames without content",
            frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8]),
        ),
    ];
    for (name, logged, bytes) in cases {
        attack(&server, name, scale(2, 20), |port| {
            let mut client = Client::open(port, &[]);
            // Stream 1 stays open and may have a body; stream 3 is over.
            client.request("POST", "/silent/", &[], false);
            client.fetch("/a.txt");
            let many: Vec<u8> = bytes.repeat(50);
            let code = insist(&mut client, &many, 2000);
            assert_eq!(code, Some(code::ENHANCE_YOUR_CALM), "{name}");
        });
        server.wait_for_log(&format!("http2 flood detected: {logged}"));
    }
}

#[test]
fn rapid_resets_end_the_connection() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin, "");
    for path in ["/a.txt", "/silent/", "/big.bin"] {
        attack(
            &server,
            &format!("rapid reset of {path}"),
            scale(2, 20),
            |port| {
                let mut client = Client::open(port, &[]);
                let block = head("GET", path, &[]);
                for _ in 0..200 {
                    let mut bytes = Vec::new();
                    for _ in 0..50 {
                        let stream = client.next_stream();
                        let flags = flag::END_HEADERS | flag::END_STREAM;
                        bytes.extend(frame(kind::HEADERS, flags, stream, &block));
                        bytes.extend(frame(
                            kind::RST_STREAM,
                            0,
                            stream,
                            &code::CANCEL.to_be_bytes(),
                        ));
                    }
                    if !client.send(&bytes) {
                        break;
                    }
                }
                assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM), "{path}");
            },
        );
    }
    server.wait_for_log("http2 flood detected: streams opened and reset");
}

/// The client makes the server reset its streams (CVE-2025-8671).
#[test]
fn resets_that_clients_provoke_end_the_connection() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin, "");
    let window =
        |stream, increment: u32| frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
    type Provoke<'a> = &'a dyn Fn(u32) -> Vec<u8>;
    let ended = |stream| {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame(kind::HEADERS, flags, stream, &head("GET", "/silent/", &[]))
    };
    let open = |stream, fields: &[(&str, &str)]| {
        let block = head("POST", "/silent/", fields);
        frame(kind::HEADERS, flag::END_HEADERS, stream, &block)
    };
    let cases: &[(&str, Provoke<'_>)] = &[
        ("WINDOW_UPDATE of zero", &|stream| {
            [ended(stream), window(stream, 0)].concat()
        }),
        ("a window beyond its size", &|stream| {
            let most = window(stream, 0x7fff_ffff);
            [ended(stream), most.clone(), most].concat()
        }),
        ("DATA after the end", &|stream| {
            [ended(stream), frame(kind::DATA, 0, stream, b"more")].concat()
        }),
        ("HEADERS after the end", &|stream| {
            let again = ended(stream);
            [ended(stream), again].concat()
        }),
        ("a stream that depends on itself", &|stream| {
            let payload = [&stream.to_be_bytes()[..], &[9]].concat();
            [ended(stream), frame(kind::PRIORITY, 0, stream, &payload)].concat()
        }),
        ("PRIORITY of a wrong length", &|stream| {
            [ended(stream), frame(kind::PRIORITY, 0, stream, &[0])].concat()
        }),
        ("more than Content-Length", &|stream| {
            let head = open(stream, &[("content-length", "1")]);
            [head, frame(kind::DATA, 0, stream, b"more")].concat()
        }),
        ("trailers that do not end", &|stream| {
            let trailers = frame(kind::HEADERS, flag::END_HEADERS, stream, &[]);
            [open(stream, &[]), trailers].concat()
        }),
        ("malformed heads", &|stream| {
            open(stream, &[("Upper", "case")])
        }),
    ];
    for (name, provoke) in cases {
        attack(&server, name, scale(2, 20), |port| {
            let mut client = Client::open(port, &[]);
            for _ in 0..2000 {
                let stream = client.next_stream();
                if !client.send(&provoke(stream)) {
                    break;
                }
            }
            assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM), "{name}");
        });
    }
    server.wait_for_log("http2 flood detected: streams opened and reset");
}

#[test]
fn header_blocks_that_never_end_or_expand_end_the_connection() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(&site, &origin, "");
    let begin = |client: &mut Client| {
        let stream = client.next_stream();
        client.frame(
            kind::HEADERS,
            flag::END_STREAM,
            stream,
            &head("GET", "/a.txt", &[]),
        );
        stream
    };
    for (name, piece) in [
        ("empty", Vec::new()),
        ("of a byte", vec![0x82]),
        ("large", {
            let mut block = Vec::new();
            push_field(&mut block, "x", &"y".repeat(16_000));
            block
        }),
    ] {
        attack(
            &server,
            &format!("CONTINUATION, {name}"),
            scale(2, 20),
            |port| {
                let mut client = Client::open(port, &[]);
                let stream = begin(&mut client);
                let bytes = frame(kind::CONTINUATION, 0, stream, &piece);
                let code = insist(&mut client, &bytes, 5000);
                assert_eq!(code, Some(code::ENHANCE_YOUR_CALM), "{name}");
            },
        );
    }
    server.wait_for_log("http2 flood detected: endless header block");

    // An entry of 4000 bytes in the table, and a block of one-byte references to it.
    attack(&server, "HPACK bomb", scale(2, 20), |port| {
        let mut client = Client::open(port, &[]);
        let mut bomb = vec![0x40, 1, b'x', 127, 0x81, 0x1e]; // 127 + 1 + 30 * 128 = 3968
        bomb.extend(vec![b'y'; 3968]);
        bomb.extend(vec![0xbe; 12_000]); // 45 MiB
        for _ in 0..200 {
            let mut block = head("GET", "/a.txt", &[]);
            block.extend_from_slice(&bomb);
            let stream = client.next_stream();
            let flags = flag::END_HEADERS | flag::END_STREAM;
            if !client.send(&frame(
                kind::HEADERS,
                flags,
                stream,
                &block[..block.len().min(16_384)],
            )) {
                break;
            }
        }
        assert_eq!(client.end(), Some(code::ENHANCE_YOUR_CALM));
    });
    server.wait_for_log("http2 flood detected: oversized header blocks");

    // One that is merely too large for this server is told so, and may try again.
    let mut client = Client::open(server.port("plain"), &[]);
    let cookie = "c".repeat(10_000);
    let stream = client.request("GET", "/a.txt", &[("cookie", &cookie)], true);
    assert_eq!(client.response(stream).status, 400);
    let many: Vec<_> = (0..300)
        .map(|n| (format!("x-{n}"), "y".repeat(40)))
        .collect();
    let many: Vec<_> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let stream = client.request("GET", "/a.txt", &many, true);
    assert!(matches!(client.response(stream).status, 200 | 400));
    assert_eq!(client.fetch("/a.txt").status, 200);

    let mut client = Client::open(server.port("plain"), &[]);
    client.frame(
        kind::HEADERS,
        flag::END_HEADERS,
        1,
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    );
    assert_eq!(client.end(), Some(code::COMPRESSION_ERROR));
}

#[test]
fn clients_that_do_not_read_are_given_up() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(
        &site,
        &origin,
        "send_timeout 2s; keepalive_requests 1000000;",
    );
    // Windows that stay closed: each stream is reset, the connection lives on.
    attack(&server, "closed windows", 1, |port| {
        let mut client = Client::open(port, &[(sealane_tests::http2::INITIAL_WINDOW, 0)]);
        let streams: Vec<u32> = (0..100).map(|_| client.get("/big.bin")).collect();
        let mut resets = 0;
        while resets < streams.len() {
            let frame = client.next_frame().expect("the connection goes on");
            if frame.kind == kind::RST_STREAM {
                assert_eq!(frame.number(0), code::CANCEL);
                resets += 1;
            } else if frame.kind == kind::HEADERS {
                client.decode(&frame.payload);
            }
        }
        client.settings(&[(sealane_tests::http2::INITIAL_WINDOW, 65_535)]);
        assert_eq!(client.fetch("/a.txt").status, 200);
    });
    // Windows wide open, and nothing is read: the connection is closed.
    attack(&server, "open windows", 1, |port| {
        let window = (sealane_tests::http2::INITIAL_WINDOW, 0x7fff_ffff);
        let mut clients: Vec<Client> = (0..20)
            .map(|_| {
                let mut client = Client::open(port, &[window]);
                client.grant(0, 0x7fff_0000);
                for _ in 0..20 {
                    client.get("/big.bin");
                }
                client
            })
            .collect();
        for client in &mut clients {
            wait_for("the server to give up", || {
                (!client.frame(kind::PING, 0, 0, &[1; 8])).then_some(())
            });
        }
    });
    // Answers without bodies need no window.
    attack(&server, "answers without bodies", 1, |port| {
        let mut client = Client::open(port, &[]);
        client
            .socket()
            .set_write_timeout(Some(Duration::from_secs(1)))
            .expect("not zero");
        let block = head("HEAD", "/a.txt", &[]);
        let mut asked = 0;
        loop {
            let mut bytes = Vec::new();
            for _ in 0..1000 {
                let stream = client.next_stream();
                let flags = flag::END_HEADERS | flag::END_STREAM;
                bytes.extend(frame(kind::HEADERS, flags, stream, &block));
            }
            asked += 1000;
            // The server stops reading long before a million answers are queued.
            if !client.send(&bytes) || asked > 3_000_000 {
                break;
            }
        }
        assert!(asked < 3_000_000, "the server queues answers without end");
    });
    server.wait_for_log("client timed out (110: Connection timed out) while sending response");
}

#[test]
fn slow_beginnings_are_given_up() {
    let site = Site::new();
    let origin = Origin::answering(|_| Answer::Silence);
    let server = serve(
        &site,
        &origin,
        "client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 3s;",
    );
    let port = server.port("plain");
    attack(&server, "slow prefaces and heads", 1, |port| {
        let preface = sealane_http::h2::PREFACE;
        let mut half = Client::silent(port);
        half.send(&preface[..20]);
        let mut alone = Client::silent(port);
        alone.send(preface);
        let mut within_frame = Client::open(port, &[]);
        within_frame.fetch("/a.txt");
        within_frame.send(&frame(kind::PING, 0, 0, &[1; 8])[..12]);
        let mut within_head = Client::open(port, &[]);
        within_head.fetch("/a.txt");
        within_head.frame(
            kind::HEADERS,
            flag::END_STREAM,
            3,
            &head("GET", "/a.txt", &[]),
        );
        // What is no preface when its time is over is a request, with a target that is none.
        assert!(read_to_close(half.socket()).starts_with(b"HTTP/1.1 400 "));
        for (name, client) in [
            ("a preface alone", &mut alone),
            ("half a frame", &mut within_frame),
            ("half a head", &mut within_head),
        ] {
            assert_eq!(client.end(), Some(code::PROTOCOL_ERROR), "{name}");
        }
    });
    // Bodies that do not come: each request is ended, the connection goes on.
    let mut client = Client::open(port, &[]);
    let streams: Vec<u32> = (0..128)
        .map(|_| client.request("POST", "/silent/", &[("content-length", "10")], false))
        .collect();
    let refused = client.get("/a.txt");
    let mut ended = 0;
    while ended < streams.len() {
        let frame = client.next_frame().expect("the connection goes on");
        match frame.kind {
            kind::HEADERS => drop(client.decode(&frame.payload)),
            kind::RST_STREAM if frame.stream == refused => {
                assert_eq!(frame.number(0), code::REFUSED_STREAM);
            }
            kind::RST_STREAM => ended += 1,
            _ => {}
        }
    }
    assert_eq!(client.fetch("/a.txt").status, 200);
    // Between requests a connection is told to go in order.
    assert_eq!(client.end(), Some(code::NO_ERROR));
}

#[test]
fn handlers_of_reset_streams_count() {
    // The origin is asked whether the client is there or not.
    let origin = Origin::answering(|_| Answer::Silence);
    let site = Site::new();
    let server = serve(
        &site,
        &origin,
        "http2_max_concurrent_streams 10; proxy_ignore_client_abort on; proxy_read_timeout 60s;",
    );
    let mut client = Client::open(server.port("plain"), &[]);
    for _ in 0..100 {
        let stream = client.get("/silent/");
        client.frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes());
    }
    let stream = client.get("/a.txt");
    assert_eq!(client.response(stream).reset, Some(code::REFUSED_STREAM));
    assert!(
        origin.connections() <= 10,
        "{} at work",
        origin.connections()
    );
    drop(client);
    let mut other = Client::open(server.port("plain"), &[]);
    assert_eq!(other.fetch("/a.txt").status, 200);
}
