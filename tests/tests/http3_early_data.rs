//! Requests in early data (0-RTT) over QUIC: each flight is accepted once, and what is known of TLS
//! is known to them.

use sealane_tests::metrics::Step::{By, Up};
use sealane_tests::metrics::Watch;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicConnection, QuicRequest, QuicScript, quic_site,
};
use sealane_tests::{LossyRelay, NetworkConditions, Server, Site, sha256, wait_for};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A server with early data and metrics, past the first second of its register.
fn serve<'a>(site: &'a Site, main: &str, directives: &str) -> Server<'a> {
    let server = site.serve_with(
        main,
        "",
        &format!(
            "log_format early '[$ssl_early_data|$ssl_early_data_verdict|$ssl_session_reused|$status|$request_uri]';
             access_log logs/access.log early; ssl_early_data on; client_header_timeout 5s;
             server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% quic; server_name localhost;
               root html; {QUIC_CERTIFICATE} {directives} }}
             server {{ listen 127.0.0.1:%metrics%; access_log off; location = /metrics {{ metrics; }} }}"
        ),
    );
    std::thread::sleep(Duration::from_millis(1100));
    server
}

/// Lines of the access log that end so.
fn logged(site: &Site, uri: &str) -> Vec<String> {
    let end = format!("|{uri}]");
    let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
    let lines = log.lines().filter(|line| line.ends_with(&end));
    lines.map(str::to_owned).collect()
}

/// What a client says that comes back with early data.
struct Flight {
    datagrams: Vec<Vec<u8>>,
    connection: QuicConnection,
}

/// Has a client send this request as early data, and records all that it sends.
#[track_caller]
fn fly(site: &Site, server: &Server<'_>, request: QuicRequest) -> Flight {
    let relay = LossyRelay::start(server.port("tls"), NetworkConditions::default(), 1);
    relay.record();
    let script = QuicScript::new(relay.address(), &site.authority())
        .get("/a.txt")
        .reconnect_early()
        .requests([request]);
    let run = QuicClient::Aioquic.run(&script);
    let [_, connection] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert_eq!(connection.early_data, "accepted", "{connection:?}");
    Flight {
        datagrams: relay.recorded(),
        connection: connection.clone(),
    }
}

/// Sends a flight again from so many other sockets, each until the server takes it for a new
/// connection: it does once it has forgotten the one before, which has the same connection id.
#[track_caller]
fn replay(server: &Server<'_>, flight: &Flight, times: usize) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    for _ in 0..times {
        wait_for("an answer to the replay", || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            let patience = Some(Duration::from_millis(300));
            socket.set_read_timeout(patience).expect("not zero");
            for datagram in &flight.datagrams {
                socket.send_to(datagram, to).expect("loopback takes it");
            }
            let mut buffer = [0; 2048];
            let mut has_begun = false;
            while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                // A long header: the server's part of a handshake.
                has_begun |= bytes > 0 && buffer[0] & 0x80 != 0;
            }
            has_begun.then_some(())
        });
    }
}

fn origin() -> Origin {
    Origin::answering(|_| {
        Answer::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone".to_vec())
    })
}

/// RFC 8446 section 8: whoever records a flight cannot have its request executed again.
#[test]
fn a_replayed_flight_is_not_executed_again() {
    for threads in [1, 2] {
        let (site, origin) = (quic_site(), origin());
        let server = serve(
            &site,
            &format!("worker_processes {threads};"),
            &format!(
                "location /once {{ proxy_pass http://127.0.0.1:{}; }}",
                origin.port()
            ),
        );
        let watch = Watch::start(&server);
        let flight = fly(&site, &server, QuicRequest::get("/once"));
        assert_eq!(flight.connection.responses[0].sha256, sha256(b"done"));
        assert_eq!(origin.asked().len(), 1);
        replay(&server, &flight, 2);
        watch.saw(&[
            ("sealane_tls_early_data_total{verdict=\"accepted\"}", By(1)),
            ("sealane_tls_early_data_total{verdict=\"replayed\"}", Up),
        ]);
        assert!(server.stop("QUIT").success());
        assert_eq!(origin.asked().len(), 1, "{threads} threads");
        assert_eq!(logged(&site, "/once"), ["[1|accepted|r|200|/once]"]);
    }
}

/// The same while the first one is still under way, by a network that doubles datagrams.
#[test]
fn a_flight_that_comes_twice_at_once_is_executed_once() {
    let (site, origin) = (quic_site(), origin());
    let server = serve(
        &site,
        "worker_processes 2;",
        &format!(
            "location /once {{ proxy_pass http://127.0.0.1:{}; }}",
            origin.port()
        ),
    );
    let conditions = NetworkConditions {
        duplicated: 1000,
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(server.port("tls"), conditions, 1);
    let script = (0..5).fold(
        QuicScript::new(relay.address(), &site.authority()).get("/a.txt"),
        |script, number| script.reconnect_early().get(&format!("/once?{number}")),
    );
    let run = QuicClient::Aioquic.run(&script);
    for connection in &run.connections[1..] {
        assert_eq!(connection.early_data, "accepted", "{connection:?}");
        assert_eq!(
            connection.responses[0].sha256,
            sha256(b"done"),
            "{connection:?}"
        );
    }
    assert!(server.stop("QUIT").success());
    let mut asked: Vec<String> = origin.asked().iter().map(|asked| asked.target()).collect();
    asked.sort();
    assert_eq!(
        asked,
        ["/once?0", "/once?1", "/once?2", "/once?3", "/once?4"]
    );
}

/// What must not be done twice is not even done once before the handshake, unless it is allowed.
#[test]
fn what_has_an_effect_waits_for_the_handshake() {
    for (directive, executed, status) in
        [("", 0, 425), ("ssl_early_data_methods GET POST;", 1, 200)]
    {
        let (site, origin) = (quic_site(), origin());
        let server = serve(
            &site,
            "worker_processes 2;",
            &format!(
                "{directive} location /order {{ proxy_pass http://127.0.0.1:{}; }}",
                origin.port()
            ),
        );
        let request = QuicRequest::new("POST", "/order").body(10);
        let flight = fly(&site, &server, request);
        let response = &flight.connection.responses[0];
        assert_eq!(response.status, status, "{directive} {response:?}");
        replay(&server, &flight, 1);
        assert!(server.stop("QUIT").success());
        assert_eq!(origin.asked().len(), executed, "{directive}");
        let line = format!("[1|accepted|r|{status}|/order]");
        assert_eq!(logged(&site, "/order"), [line], "{directive}");
    }
}

/// To its handler an extended CONNECT (RFC 9220) is a GET: to a replay it is not.
#[test]
fn web_sockets_wait_for_the_handshake() {
    for (directive, executed, status) in [
        ("", 0, 425),
        // The origin knows no WebSocket.
        ("ssl_early_data_methods GET CONNECT;", 1, 502),
    ] {
        let (site, origin) = (quic_site(), origin());
        let server = serve(
            &site,
            "",
            &format!(
                "{directive} location /socket {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1;
                   proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}",
                origin.port()
            ),
        );
        let request = QuicRequest::new("CONNECT", "/socket").header(":protocol", "websocket");
        let flight = fly(&site, &server, request);
        let response = &flight.connection.responses[0];
        assert_eq!(response.status, status, "{directive} {response:?}");
        assert!(server.stop("QUIT").success());
        assert_eq!(origin.asked().len(), executed, "{directive}");
    }
}

/// `$ssl_*` are the same in early data as behind the handshake, and as over TCP.
#[test]
fn requests_in_early_data_know_of_tls() {
    let site = quic_site();
    let server = serve(
        &site,
        "",
        "location /tls { return 200 '$ssl_early_data|$ssl_session_reused|$ssl_protocol|$ssl_server_name|\
           $ssl_alpn_protocol|$scheme|$https|$ssl_early_data_verdict|$ssl_resumption'; }
         location /cipher { return 200 '$ssl_cipher|$ssl_curve|$ssl_session_id'; }",
    );
    let both = || ["/tls", "/cipher"].map(QuicRequest::get);
    let script = QuicScript::to(&site, &server)
        .requests(both())
        .reconnect_early()
        .requests(both())
        .requests(both());
    let run = QuicClient::Aioquic.run(&script);
    let texts: Vec<String> = run
        .connections
        .iter()
        .flat_map(|connection| &connection.responses)
        .map(|response| String::from_utf8_lossy(&response.body).into_owned())
        .collect();
    assert_eq!(run.connections[1].early_data, "accepted", "{run:?}");
    let [full, full_cipher, early, early_cipher, late, late_cipher] = &texts[..] else {
        panic!("{run:?}");
    };
    assert_eq!(full, "|.|TLSv1.3|localhost|h3|https|on||");
    let rest = "r|TLSv1.3|localhost|h3|https|on|accepted|ticket";
    assert_eq!(early, &format!("1|{rest}"));
    assert_eq!(late, &format!("|{rest}"));
    for cipher in [full_cipher, early_cipher, late_cipher] {
        assert!(cipher.starts_with("TLS_"), "{texts:?}");
    }
    assert_eq!(early_cipher, late_cipher);
    let curve = |text: &str| text.split('|').nth(1).map(str::to_owned);
    assert_eq!(curve(early_cipher), curve(full_cipher), "{texts:?}");
}

/// The rules about client certificates hold for early data, too.
#[test]
fn early_data_reaches_no_server_that_wants_a_certificate() {
    let site = quic_site();
    let authority = site.authority().display().to_string();
    let closed = format!(
        "location / {{ return 200 open; }} }}
         server {{ listen 127.0.0.1:%tls% quic; server_name closed; {QUIC_CERTIFICATE}
           ssl_verify_client on; ssl_client_certificate {authority};
           location / {{ return 200 secret; }}"
    );
    let server = serve(&site, "", &closed);
    let other = || QuicRequest::get("/secret").authority("closed");
    let script = QuicScript::to(&site, &server)
        .requests([QuicRequest::get("/full"), other()])
        .reconnect_early()
        .requests([QuicRequest::get("/early"), other()]);
    let run = QuicClient::Aioquic.run(&script);
    assert_eq!(run.connections[1].early_data, "accepted", "{run:?}");
    for connection in &run.connections {
        let [open, closed] = &connection.responses[..] else {
            panic!("{run:?}");
        };
        assert_eq!((open.status, &*open.body), (200, &b"open"[..]), "{open:?}");
        assert_eq!(closed.status, 421, "{closed:?}");
    }
    assert_eq!(logged(&site, "/early"), ["[1|accepted|r|200|/early]"]);
}
