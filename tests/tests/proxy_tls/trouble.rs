//! Origins that break off, cut, stall or talk nonsense.

use super::origin::Origin;
use super::origin_site;
use sealane_tests::wire::{Connection, Response, get};
use sealane_tests::{PATIENCE, Server, Site, random::Random, wait_for};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn serve<'s>(site: &'s Site, port: u16, directives: &str) -> Server<'s> {
    site.serve(&format!(
        "upstream kept {{ server 127.0.0.1:{port}; keepalive 8; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:%plain%; {directives}
            location / {{ proxy_pass https://kept; }} }}"
    ))
}

/// Reads the ClientHello.
fn hello(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let count = socket.read(&mut bytes).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

#[test]
fn handshakes_that_break_off() {
    const CLOSED: &str = "peer closed connection in SSL handshake";
    type Deed = fn(TcpStream);
    let deeds: [(&str, Deed, &str); 6] = [
        ("closes at once", |socket| drop(socket), CLOSED),
        (
            "closes after the ClientHello",
            |mut socket| drop(hello(&mut socket)),
            CLOSED,
        ),
        (
            "sends half a record",
            |mut socket| {
                hello(&mut socket);
                let _ = socket.write_all(&[22, 3, 3, 0, 100, 2, 0, 0, 96]);
                let _ = socket.shutdown(Shutdown::Write);
                hello(&mut socket);
            },
            CLOSED,
        ),
        (
            "speaks no TLS",
            |mut socket| {
                hello(&mut socket);
                let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                hello(&mut socket);
            },
            "SSL_do_handshake() failed (SSL: error:",
        ),
        (
            "sends an alert",
            |mut socket| {
                hello(&mut socket);
                let _ = socket.write_all(&[21, 3, 3, 0, 2, 2, 40]);
                hello(&mut socket);
            },
            "SSL_do_handshake() failed (SSL: error:",
        ),
        (
            "sends what it was sent",
            |mut socket| {
                let bytes = hello(&mut socket);
                let _ = socket.write_all(&bytes);
                hello(&mut socket);
            },
            "SSL_do_handshake() failed (SSL: error:",
        ),
    ];
    for (what, deed, words) in deeds {
        let origin = Origin::raw(deed);
        let site = Site::new();
        let server = serve(&site, origin.port(), "");
        assert_eq!(get(server.port("plain"), "/").status, 502, "{what}");
        let line = server.wait_for_log(words);
        assert!(line.contains("[error]"), "{what}: {line}");
        assert!(
            line.contains(" while SSL handshaking to upstream, client: "),
            "{what}: {line}"
        );
    }
}

#[test]
fn a_handshake_that_stalls_runs_out_of_the_time_to_connect() {
    let origin = Origin::raw(|mut socket| {
        hello(&mut socket);
        // Until the other side gives up.
        hello(&mut socket);
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "proxy_connect_timeout 1s;");
    assert_eq!(get(server.port("plain"), "/").status, 504);
    server.wait_for_log(
        "upstream timed out (110: Connection timed out) while SSL handshaking to upstream",
    );
}

#[test]
fn another_server_is_asked_when_the_handshake_fails() {
    let behind = origin_site();
    let bad = Origin::raw(|mut socket| drop(hello(&mut socket)));
    let good = Origin::tls(&behind, "origin", |mut peer| {
        while peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
        }
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream two {{ server 127.0.0.1:{} weight=10; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass https://two; }} }}",
        bad.port(),
        good.port()
    ));
    assert_eq!(get(server.port("plain"), "/").text(), "good");
    assert_eq!(bad.connections(), 1);
}

/// A response in pieces: what came, and whether it came to its end.
fn ask(server: &Server<'_>, target: &str) -> (Response, bool) {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(format!(
        "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    ));
    let bytes = connection.rest();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let response = Response {
        status: status.expect("a status"),
        head: head.to_owned(),
        body: body.as_bytes().to_vec(),
    };
    let whole = match response.header("Transfer-Encoding") {
        Some(_) => body.ends_with("0\r\n\r\n"),
        None => response.header("Content-Length") == Some(&body.len().to_string()),
    };
    (response, whole)
}

#[test]
fn a_cut_response_is_not_taken_for_a_whole_one() {
    const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome of it";
    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsome of it";
    let behind = origin_site();
    let origin = Origin::tls(&behind, "origin", |mut peer| {
        let Some(head) = peer.request() else { return };
        match head.split(' ').nth(1).unwrap_or_default() {
            "/whole" => {
                peer.send(UNTIL_CLOSE);
                peer.close_notify();
            }
            "/cut" => {
                peer.send(UNTIL_CLOSE);
            }
            "/half-record" => peer.send_without_end(UNTIL_CLOSE, 5),
            // A record that nobody has sealed, in the same segment.
            "/garbage" => {
                peer.send_with_garbage(UNTIL_CLOSE, &[&[23, 3, 3, 0, 32][..], &[1; 32]].concat());
                peer.wait_for_close();
            }
            "/length" => {
                // All of it is there: how the connection ends says nothing.
                peer.send(LENGTH);
            }
            "/short" => {
                peer.send(&LENGTH[..LENGTH.len() - 3]);
                peer.close_notify();
            }
            "/empty" => peer.close_notify(),
            _ => {}
        }
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "");
    let (response, whole) = ask(&server, "/whole");
    assert!(
        whole && response.text().contains("some of it"),
        "{response:?}"
    );
    let (response, whole) = ask(&server, "/length");
    assert!(whole && response.text() == "some of it", "{response:?}");
    for (target, words) in [
        (
            "/cut",
            "upstream closed connection without SSL close_notify, the response may be incomplete \
             while reading upstream",
        ),
        ("/garbage", "SSL_read() failed (SSL: error:"),
        (
            "/short",
            "upstream prematurely closed connection while reading upstream",
        ),
    ] {
        let (response, whole) = ask(&server, target);
        assert_eq!(response.status, 200, "{target}");
        assert!(!whole, "{target}: {response:?}");
        let line = server.wait_for_log(words);
        assert!(line.contains("[error]") && line.contains(target), "{line}");
    }
    for target in ["/half-record", "/empty", "/nothing"] {
        assert_eq!(ask(&server, target).0.status, 502, "{target}");
    }
    server.wait_for_log(
        "upstream prematurely closed connection while reading response header from upstream",
    );
}

#[test]
fn an_idle_connection_that_was_closed_is_not_used() {
    let behind = origin_site();
    let (tell, told) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let origin = Origin::tls(&behind, "origin", move |mut peer| {
        let mut goodbye = false;
        while let Some(head) = peer.request() {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            goodbye = head.starts_with("GET /goodbye");
            if goodbye || head.starts_with("GET /cut") {
                break;
            }
        }
        if goodbye {
            // The socket stays open: only TLS says that there will be no answer.
            peer.close_notify();
        }
        let _ = tell.send(());
        if goodbye {
            peer.wait_for_close();
        }
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "proxy_next_upstream off;");
    let ended = || {
        let told = told.lock().expect("one test");
        told.recv_timeout(PATIENCE).expect("the connection ends");
        // What was sent before is there, as both are on one machine; give the kernel a moment.
        std::thread::sleep(Duration::from_millis(50));
    };
    for target in ["/goodbye", "/cut"] {
        let before = origin.connections();
        assert_eq!(get(server.port("plain"), target).text(), "ok");
        ended();
        for _ in 0..3 {
            assert_eq!(get(server.port("plain"), "/").text(), "ok", "{target}");
        }
        let opened = origin.connections() - before;
        assert!((1..=2).contains(&opened), "{target}: {opened} connections");
    }
}

#[test]
fn we_say_goodbye() {
    let behind = origin_site();
    let goodbyes = Arc::new(AtomicUsize::new(0));
    let counted = goodbyes.clone();
    let origin = Origin::tls(&behind, "origin", move |mut peer| {
        if peer.request().is_some() {
            peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            if peer.wait_for_close() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "");
    for _ in 0..3 {
        assert_eq!(get(server.port("plain"), "/").text(), "ok");
    }
    wait_for("three goodbyes", || {
        (goodbyes.load(Ordering::Relaxed) == 3).then_some(())
    });
}

#[test]
fn slow_origins_get_and_give_everything() {
    const SIZE: usize = 3 << 20;
    let behind = origin_site();
    let body = Random::new(3).bytes(SIZE);
    let expected = body.clone();
    let origin = Origin::tls(&behind, "origin", move |mut peer| {
        while peer.request().is_some() {
            let pause = || std::thread::sleep(Duration::from_millis(5));
            let received = peer.body(SIZE, pause).expect("all of the body");
            assert!(received == expected, "the body is the one that was sent");
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
            // Odd pieces: records of all sizes, some in halves.
            for (number, piece) in received.chunks(40_009).enumerate() {
                if number % 16 == 0 {
                    pause();
                }
                peer.send(piece);
            }
        }
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "client_max_body_size 0;");
    for _ in 0..2 {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {SIZE}\r\n\r\n"
        ));
        connection.send(&body);
        let response = connection.response(false);
        assert_eq!(response.status, 200, "{}", server.error_log());
        assert!(response.body == body, "the body came back");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_early_answer_is_passed_on() {
    let behind = origin_site();
    let origin = Origin::tls(&behind, "origin", |mut peer| {
        if peer.request().is_some() {
            // Of the body nothing is read.
            peer.send(
                b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
            );
            peer.close_notify();
            peer.wait_for_close();
        }
    });
    let site = Site::new();
    let server = serve(&site, origin.port(), "client_max_body_size 0;");
    let mut connection = Connection::open(server.port("plain"));
    connection
        .send("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5000000\r\n\r\n");
    connection.send(vec![b'x'; 5_000_000]);
    let response = connection.response(false);
    assert_eq!((response.status, response.text()), (413, "no".to_owned()));
}
