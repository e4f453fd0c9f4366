//! `fastcgi_pass` to an application that misbehaves: nothing hangs, nothing is taken for
//! complete that is not, and nothing of one request shows in another.

use sealane_tests::fastcgi::{FastCgiOrigin, FastCgiRequest, answer, end, record, stderr, stdout};
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{Server, Site, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A server in front of the application, with settings for its location.
fn serve<'s>(site: &'s Site, origin: &FastCgiOrigin, settings: &str) -> Server<'s> {
    site.serve(&format!(
        "large_client_header_buffers 4 200k; underscores_in_headers on;
         upstream app {{ server 127.0.0.1:{}; keepalive 2; }}
         server {{
             listen 127.0.0.1:%plain%;
             location / {{
                 fastcgi_pass app;
                 fastcgi_param URI $request_uri;
                 fastcgi_param CONTENT_LENGTH $content_length;
                 fastcgi_read_timeout 20s;
                 {settings}
             }}
         }}",
        origin.port()
    ))
}

fn get(server: &Server<'_>, target: &str) -> Response {
    wire::get(server.port("plain"), target)
}

const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";

/// What the application sends for each URI, before it closes.
fn misbehave(request: &FastCgiRequest, socket: &mut TcpStream) -> bool {
    let head = |rest: &[u8]| [HEAD, rest].concat();
    let response: Vec<Vec<u8>> = match request.parameter("URI") {
        "/nothing" => vec![],
        "/http" => vec![b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()],
        "/half-a-header" => vec![stdout(HEAD)[..5].to_vec()],
        "/half-a-head" => vec![stdout(b"Content-Type: text/pl"), end()],
        "/head-cut" => vec![stdout(b"Content-Type: text/pl")],
        "/unknown" => vec![record(11, b"\x09")],
        "/unknown-later" => vec![stdout(&head(b"some")), record(11, b"\x09")],
        "/end-first" => vec![end()],
        "/stdout-end-first" => vec![stdout(b""), stdout(HEAD), end()],
        "/interim" => vec![
            stdout(b"Status: 103 Early Hints\r\n\r\n"),
            stdout(HEAD),
            end(),
        ],
        "/only-stderr" => vec![stderr(b"this went wrong"), end()],
        "/cut" => vec![stdout(&head(b"some"))],
        "/cut-in-record" => {
            let whole = stdout(&head(&[b'x'; 5000]));
            vec![whole[..3000].to_vec()]
        }
        "/short" => vec![stdout(b"Content-Length: 10\n\nsome"), stdout(b""), end()],
        "/long" => vec![
            stdout(b"Content-Length: 4\n\nsomething"),
            stdout(b""),
            end(),
        ],
        "/without-end" => vec![stdout(&head(b"some")), stdout(b"")],
        "/byte-by-byte" => {
            let whole = [
                stderr(b"noise\n"),
                stdout(b"X-A: "),
                stderr(b"more noise"),
                stdout(b"b\r\n"),
                stdout(&head(b"so")),
                stdout(b"me"),
                stdout(b""),
                end(),
            ];
            whole.concat().chunks(1).map(<[u8]>::to_vec).collect()
        }
        "/many-stderr" => {
            let mut parts: Vec<Vec<u8>> = (0..2000).map(|_| stderr(&[b'e'; 1000])).collect();
            parts.extend([stdout(&head(b"some")), stdout(b""), end()]);
            parts
        }
        "/head-in-pieces" => {
            let lines = (0..40).map(|n| format!("X-{n}: {n}\r\n"));
            let mut parts: Vec<Vec<u8>> = lines.map(|line| stdout(line.as_bytes())).collect();
            parts.extend([stdout(&head(b"some")), stdout(b""), end()]);
            parts
        }
        other => panic!("no such URI: {other}"),
    };
    let sent = response.iter().all(|part| socket.write_all(part).is_ok());
    assert!(sent || request.parameter("URI") == "/many-stderr");
    false
}

#[test]
fn answers_that_are_none() {
    let site = Site::new();
    let origin = FastCgiOrigin::start(misbehave);
    for settings in ["", "fastcgi_buffering off;", "fastcgi_keep_conn on;"] {
        let server = serve(&site, &origin, settings);
        let while_reading = "while reading response header from upstream";
        for (target, message) in [
            ("/nothing", "upstream prematurely closed connection"),
            (
                "/http",
                "upstream sent unsupported FastCGI protocol version: 72",
            ),
            ("/half-a-header", "upstream prematurely closed connection"),
            ("/half-a-head", "upstream sent unexpected FastCGI record: 3"),
            ("/head-cut", "upstream prematurely closed connection"),
            ("/unknown", "upstream sent invalid FastCGI record type: 11"),
            ("/end-first", "upstream sent unexpected FastCGI record: 3"),
            (
                "/stdout-end-first",
                "upstream prematurely closed FastCGI stdout",
            ),
            ("/interim", "upstream sent invalid status \"103\""),
            (
                "/only-stderr",
                "FastCGI sent in stderr: \"this went wrong\"",
            ),
        ] {
            assert_eq!(get(&server, target).status, 502, "{target} {settings}");
            let line = server.wait_for_log(&format!("{message} {while_reading}"));
            assert!(line.contains("[error]"), "{line}");
        }
        // What is not complete does not look complete.
        for target in ["/cut", "/cut-in-record", "/unknown-later"] {
            let mut connection = Connection::open(server.port("plain"));
            connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let text = String::from_utf8_lossy(&connection.rest()).into_owned();
            assert!(text.starts_with("HTTP/1.1 200"), "{target}: {text}");
            assert!(!text.ends_with("\r\n0\r\n\r\n"), "{target}: {text}");
        }
        let mut connection = Connection::open(server.port("plain"));
        connection.send("GET /short HTTP/1.1\r\nHost: x\r\n\r\n");
        let text = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(text.ends_with("\r\n\r\nsome"), "{text}");
        server.wait_for_log("upstream prematurely closed FastCGI stdout while reading upstream");
        for (target, body) in [
            ("/long", "some"),
            ("/without-end", "some"),
            ("/byte-by-byte", "some"),
            ("/many-stderr", "some"),
            ("/head-in-pieces", "some"),
        ] {
            let response = get(&server, target);
            assert_eq!(
                (response.status, &*response.text()),
                (200, body),
                "{target}"
            );
        }
        assert_eq!(get(&server, "/byte-by-byte").header("x-a"), Some("b"));
    }
}

#[test]
fn parameters() {
    let seen = Arc::new(Mutex::new(FastCgiRequest::default()));
    let note = seen.clone();
    let origin = FastCgiOrigin::start(move |request, socket| {
        *note.lock().expect("nobody panics") = request.clone();
        answer(socket, HEAD)
    });
    let site = Site::new();
    let server = serve(
        &site,
        &origin,
        "fastcgi_param EMPTY ''; fastcgi_param NOT_SENT $arg_none if_not_empty;
         fastcgi_param HTTP_GONE ''; fastcgi_param TWICE 1; fastcgi_param TWICE 2;",
    );
    let ask = |head: &str| {
        let response = wire::request(
            server.port("plain"),
            &format!("{head}Connection: close\r\n\r\n"),
        );
        assert_eq!(response.status, 200, "{head:.100}");
        seen.lock().expect("nobody panics").clone()
    };
    let request = ask(
        "GET /x HTTP/1.1\r\nHost: One.Test:8080\r\nGone: x\r\ngone: y\r\nX-A: 1\r\nX_A: 2\r\nx-a: 3\r\n",
    );
    assert_eq!(
        request.names,
        [
            "URI",
            "CONTENT_LENGTH",
            "EMPTY",
            "TWICE",
            "TWICE",
            "HTTP_HOST",
            "HTTP_X_A",
            "HTTP_CONNECTION",
        ]
    );
    // Where the name was asked for, with its port; by nginx 1.29.5 and later.
    assert_eq!(request.parameter("HTTP_HOST"), "one.test:8080");
    assert_eq!(request.parameter("HTTP_X_A"), "1, 2, 3");
    let absolute = ask("GET http://other.test:81/x HTTP/1.1\r\nHost: one.test\r\n");
    assert_eq!(absolute.parameter("HTTP_HOST"), "other.test:81");
    let without = ask("GET /x HTTP/1.0\r\n");
    assert!(
        !without.names.iter().any(|name| name == "HTTP_HOST"),
        "{without:?}"
    );
    // More than a record holds.
    let long = "v".repeat(60_000);
    let request = ask(&format!(
        "GET /x HTTP/1.1\r\nHost: x\r\nX-A: {long}\r\nX-B: {long}\r\nX-C: c\r\n"
    ));
    let values = ["HTTP_X_A", "HTTP_X_B", "HTTP_X_C"].map(|name| request.parameter(name).len());
    assert_eq!(values, [60_000, 60_000, 1]);
    // One that no record holds.
    let long = "v".repeat(70_000);
    let head = format!("GET /x HTTP/1.1\r\nHost: x\r\nX-A: {long}\r\nConnection: close\r\n\r\n");
    assert_eq!(wire::request(server.port("plain"), &head).status, 500);
    server.wait_for_log("fastcgi parameter \"HTTP_X_A\" is too big");
}

#[test]
fn connections_serve_one_request_after_the_other() {
    let said_more = Arc::new(AtomicBool::new(false));
    let says_more = said_more.clone();
    let origin = FastCgiOrigin::start(move |request, socket| {
        assert!(request.keep);
        let uri = request.parameter("URI");
        let text = format!(
            "Content-Type: text/plain\r\n\r\n{} {uri}",
            request.connection
        );
        let stays = answer(socket, text.as_bytes());
        // Something nobody asked for makes the connection useless.
        if uri == "/more" {
            let written = socket.write_all(&stdout(b"Status: 500\n\nof nobody"));
            says_more.store(true, Ordering::Release);
            return written.is_ok();
        }
        stays && uri != "/close"
    });
    let site = Site::new();
    let server = serve(&site, &origin, "fastcgi_keep_conn on;");
    let text = |target: &str| get(&server, target).text();
    assert_eq!(text("/a"), "1 /a");
    assert_eq!(text("/b"), "1 /b");
    let head = wire::request(server.port("plain"), "HEAD /c HTTP/1.0\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let after_head = text("/d");
    assert!(after_head.ends_with(" /d"), "{after_head}");
    let number = after_head.split(' ').next().expect("a number").to_owned();
    assert_eq!(text("/close"), format!("{number} /close"));
    let other = text("/more");
    assert!(
        other.ends_with(" /more") && !other.starts_with(&number),
        "{other}"
    );
    // Nobody can tell what comes later from an answer.
    wait_for("what nobody asked for", || {
        said_more.load(Ordering::Acquire).then_some(())
    });
    for round in 0..5 {
        let target = format!("/{round}");
        let found = text(&target);
        assert!(found.ends_with(&target), "{found}");
        assert_ne!(
            found.split(' ').next(),
            other.split(' ').next(),
            "another connection"
        );
    }
}

#[test]
fn a_body_is_streamed() {
    let arrived = Arc::new(AtomicUsize::new(0));
    let origin = FastCgiOrigin::start(|request, socket| {
        let text = format!(
            "Content-Type: text/plain\r\n\r\n{} [{}]",
            String::from_utf8_lossy(&request.body),
            request.parameter("CONTENT_LENGTH")
        );
        answer(socket, text.as_bytes())
    });
    // A listener that counts what comes, to see the first half before the second is sent.
    let relay = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let (port, count) = (relay.local_addr().expect("bound").port(), arrived.clone());
    let behind = origin.port();
    std::thread::spawn(move || {
        while let Ok((mut near, _)) = relay.accept() {
            let Ok(mut far) = TcpStream::connect(("127.0.0.1", behind)) else {
                return;
            };
            let (mut back, mut from) = (
                near.try_clone().expect("a descriptor is left"),
                far.try_clone().expect("a descriptor is left"),
            );
            std::thread::spawn(move || std::io::copy(&mut from, &mut back));
            let count = count.clone();
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(got @ 1..) = near.read(&mut piece) {
                    count.fetch_add(got, Ordering::AcqRel);
                    if far.write_all(&piece[..got]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; fastcgi_request_buffering off;
            fastcgi_param CONTENT_LENGTH $content_length; fastcgi_pass_request_headers off;
            location / {{ fastcgi_pass 127.0.0.1:{port}; }} }}"
    ));
    for (framing, parts, expected) in [
        ("Content-Length: 6\r\n", ["abc", "def"], "abcdef [6]"),
        (
            "Transfer-Encoding: chunked\r\n",
            ["3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"],
            "abcdef []",
        ),
    ] {
        arrived.store(0, Ordering::Release);
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!("POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\n"));
        connection.send(parts[0]);
        // Begin, parameters, their end: and a record with the first half.
        wait_for("the first half to arrive", || {
            (arrived.load(Ordering::Acquire) > 64).then_some(())
        });
        connection.send(parts[1]);
        assert_eq!(connection.response(false).text(), expected);
    }
}

#[test]
fn an_answer_may_come_before_the_body() {
    let origin = FastCgiOrigin::start(|_, _| panic!("it answers without reading"));
    drop(origin);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            std::thread::spawn(move || {
                answer(&mut socket, b"Status: 413 Too Large\r\n\r\nno more");
                // What is still coming is not read: the connection is reset.
            });
        }
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; client_max_body_size 64m;
            location / {{ fastcgi_pass 127.0.0.1:{port}; }} }}"
    ));
    let mut connection = Connection::open(server.port("plain"));
    let body = vec![b'x'; 8 << 20];
    connection.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    connection.send(&body);
    let status = connection.response(false).status;
    // A reset may overtake the answer; it is never a hang, and never anything else.
    assert!(matches!(status, 413 | 502), "{status}");
}

#[test]
fn clients_that_go_away() {
    let (tell_gone, gone) = std::sync::mpsc::channel::<()>();
    let (gone, begun) = (Mutex::new(gone), Arc::new(AtomicUsize::new(0)));
    let count = begun.clone();
    let origin = FastCgiOrigin::start(move |request, socket| {
        count.fetch_add(1, Ordering::AcqRel);
        match request.parameter("URI") {
            "/patient" => {
                let told = gone.lock().expect("nobody panics").recv();
                told.is_ok() && answer(socket, HEAD)
            }
            // The connection is closed although nothing was answered.
            _ => {
                assert!(matches!(socket.read(&mut [0]), Ok(0)));
                false
            }
        }
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "log_format short '$request_uri $status $upstream_status';
         access_log logs/access.log short;
         server {{ listen 127.0.0.1:%plain%; fastcgi_param URI $request_uri;
            location / {{ fastcgi_pass 127.0.0.1:{0}; }}
            location /patient {{ fastcgi_ignore_client_abort on; fastcgi_pass 127.0.0.1:{0}; }}
         }}",
        origin.port()
    ));
    let leave = |target: &str, number: usize| {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        wait_for("the application to be asked", || {
            (begun.load(Ordering::Acquire) == number).then_some(())
        });
    };
    let wait_for_line = |line: &str| {
        wait_for(line, || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            log.lines().any(|logged| logged == line).then_some(())
        });
    };
    leave("/impatient", 1);
    wait_for_line("/impatient 499 -");
    server.wait_for_log("client prematurely closed connection, so upstream connection is closed too while reading response header from upstream");
    leave("/patient", 2);
    tell_gone.send(()).expect("it waits");
    wait_for_line("/patient 200 200");
}

#[test]
fn another_server_is_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let bad = FastCgiOrigin::start(move |request, socket| {
        count.fetch_add(1, Ordering::AcqRel);
        let response = match request.parameter("URI") {
            "/status" => [stdout(b"Status: 503\n\nbusy"), stdout(b""), end()].concat(),
            "/stderr" => [stderr(b"fatal"), stdout(HEAD), end()].concat(),
            "/invalid" => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            _ => Vec::new(),
        };
        let _ = socket.write_all(&response);
        false
    });
    let good = FastCgiOrigin::start(|request, socket| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        answer(socket, format!("X-A: b\n\ngood {body}").as_bytes())
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream app {{ server 127.0.0.1:{} max_fails=0; server 127.0.0.1:{} backup; }}
         server {{ listen 127.0.0.1:%plain%;
            fastcgi_param URI $request_uri; fastcgi_catch_stderr fatal;
            fastcgi_next_upstream error invalid_header http_503;
            location / {{ fastcgi_pass app; }}
            location /no/ {{ fastcgi_next_upstream off; fastcgi_pass app; }}
         }}",
        bad.port(),
        good.port()
    ));
    for target in ["/status", "/stderr", "/invalid", "/closed"] {
        let before = asked.load(Ordering::Acquire);
        let response = get(&server, target);
        assert_eq!(
            (response.status, &*response.text()),
            (200, "good "),
            "{target}"
        );
        assert_eq!(asked.load(Ordering::Acquire), before + 1, "{target}");
    }
    assert_eq!(get(&server, "/no/").status, 502);
    // What changes something is not repeated; anything else is, body included.
    let send = |method: &str| {
        let head = format!(
            "{method} /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
        );
        let response = wire::request(server.port("plain"), &head);
        (response.status, response.text())
    };
    assert_eq!(send("PUT"), (200, "good abc".to_owned()));
    assert_eq!(send("POST").0, 502);
}
