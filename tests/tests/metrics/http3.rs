//! Connections of QUIC, what is answered without one, and streams of HTTP/3.

use super::*;
use sealane_tests::quic::{QuicClient, QuicRequest, QuicScript, first_datagram};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// What [`connections_and_their_streams_are_counted`] does.
pub(super) const CONNECTIONS: &[Move] = &[
    ("sealane_quic_handshakes_total", By(1)),
    ("sealane_quic_handshakes_failed_total", By(0)),
    (
        "sealane_quic_connections_total{congestion_control=\"cubic\"}",
        By(1),
    ),
    ("sealane_quic_version_negotiations_sent_total", By(1)),
    ("sealane_quic_datagrams_received_total", Up),
    ("sealane_quic_datagrams_sent_total", Up),
    ("sealane_quic_received_bytes_total", Up),
    ("sealane_quic_sent_bytes_total", Up),
    ("sealane_quic_migrations_total", Up),
    ("sealane_quic_key_updates_total", Up),
    ("sealane_http3_streams_opened_total", By(4)),
    ("sealane_http3_heads_too_large_total", By(1)),
    ("sealane_http3_connection_faults_total", By(0)),
];

/// What [`connections_are_counted_by_congestion_control`] does.
pub(super) const ALGORITHMS: &[Move] = &[
    (
        "sealane_quic_connections_total{congestion_control=\"cubic\"}",
        By(0),
    ),
    (
        "sealane_quic_connections_total{congestion_control=\"bbr\"}",
        By(1),
    ),
    (
        "sealane_quic_connections_total{congestion_control=\"newreno\"}",
        By(1),
    ),
];

/// What [`what_belongs_to_no_connection_is_counted`] does.
pub(super) const ANSWERS: &[Move] = &[
    ("sealane_quic_retries_sent_total", By(1)),
    ("sealane_quic_tokens_refused_total", By(1)),
    ("sealane_quic_resets_sent_total", By(1)),
    (
        "sealane_quic_datagrams_dropped_total{reason=\"unknown\"}",
        By(1),
    ),
    ("sealane_quic_connections_refused_total", By(0)),
];

/// What [`handshakes_that_are_too_many_are_refused`] does.
pub(super) const REFUSED: &[Move] = &[
    ("sealane_quic_connections_refused_total", By(1)),
    ("sealane_quic_handshakes_failed_total", By(2)),
    ("sealane_quic_packets_dropped_total", Up),
    (
        "sealane_quic_datagrams_dropped_total{reason=\"not_authentic\"}",
        By(3),
    ),
];

fn serve<'a>(site: &'a Site, http: &str, directives: &str) -> Server<'a> {
    site.write("html/a.txt", [b'a'; 1024]);
    site.serve(&format!(
        "ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key; {http}
         server {{ listen 127.0.0.1:%tls% quic; server_name localhost; root html; {directives} }}
         server {{ listen 127.0.0.1:%other% quic; server_name localhost; root html;
             quic_congestion_control newreno; }}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}"
    ))
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site
}

fn address(server: &Server<'_>, port: &str) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port(port)))
}

#[test]
fn connections_and_their_streams_are_counted() {
    let site = site();
    let server = serve(&site, "", "");
    let watch = Watch::start(&server);
    let cookie = "c".repeat(40_000);
    let script = QuicScript::new(address(&server, "tls"), &site.authority())
        .unknown_version_first()
        .get("/a.txt")
        .key_update()
        .get("/a.txt")
        .rebind("127.0.0.2")
        .get("/a.txt")
        .requests([QuicRequest::new("GET", "/a.txt").header("cookie", &cookie)]);
    let run = QuicClient::Aioquic.run(&script);
    let statuses = run.connections[0].responses.iter();
    let statuses: Vec<_> = statuses.map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 200, 400], "{run:?}");
    watch.saw(CONNECTIONS);
}

#[test]
fn connections_are_counted_by_congestion_control() {
    let site = site();
    let server = serve(&site, "", "quic_congestion_control bbr;");
    let watch = Watch::start(&server);
    for port in ["tls", "other"] {
        let script = QuicScript::new(address(&server, port), &site.authority()).get("/a.txt");
        let run = QuicClient::Aioquic.run(&script);
        assert_eq!(run.connections[0].responses[0].status, 200, "{run:?}");
    }
    watch.saw(ALGORITHMS);
}

fn socket(server: &Server<'_>) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("a time-out");
    let to = address(server, "tls");
    socket.connect(to).expect("an address of this machine");
    socket
}

#[track_caller]
fn answer(socket: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    socket.send(datagram).expect("it is sent");
    let mut room = [0; 1500];
    let bytes = socket.recv(&mut room).expect("an answer");
    room[..bytes].to_vec()
}

/// The connection id and the token of a Retry packet (RFC 9000 section 17.2.5).
fn id_and_token(retry: &[u8]) -> (&[u8], &[u8]) {
    assert_eq!(retry[0] & 0xf0, 0xf0, "a Retry packet");
    let (own, rest) = retry[6..].split_at(retry[5].into());
    assert_eq!(own, b"client");
    let (id, rest) = rest[1..].split_at(rest[0].into());
    (id, &rest[..rest.len() - 16])
}

#[test]
fn what_belongs_to_no_connection_is_counted() {
    let site = site();
    let server = serve(&site, "", "quic_retry on;");
    let watch = Watch::start(&server);
    let (one, other) = (socket(&server), socket(&server));
    let retry = answer(&one, &first_datagram(b"12345678", b""));
    let (id, token) = id_and_token(&retry);
    // Somebody else's token: another port.
    answer(&other, &first_datagram(id, token));
    // A packet of a connection that is not known, and one of a handshake.
    let mut short = vec![9; 60];
    short[0] = 0x40;
    let reset = answer(&one, &short);
    assert!(reset.len() < short.len(), "RFC 9000 section 10.3.3");
    let mut handshake = first_datagram(b"12345678", b"");
    handshake[0] = 0xe0;
    one.send(&handshake).expect("it is sent");
    watch.saw(ANSWERS);
}

#[test]
fn handshakes_that_are_too_many_are_refused() {
    let site = site();
    let server = serve(
        &site,
        "quic_max_handshakes 2; client_header_timeout 1s;",
        "",
    );
    server.expect_alert("2 handshakes of QUIC are under way");
    let watch = Watch::start(&server);
    let sockets = [(); 2].map(|()| socket(&server));
    let spoilt = |id| {
        let mut datagram = first_datagram(id, b"");
        datagram[1199] ^= 1;
        datagram
    };
    // These begin nothing.
    for id in [b"45678901", b"56789012", b"67890123"] {
        sockets[0].send(&spoilt(id)).expect("it is sent");
    }
    for (socket, id) in sockets.iter().zip([b"12345678", b"23456789"]) {
        socket.send(&first_datagram(id, b"")).expect("it is sent");
        // A packet of the same connection.
        socket.send(&spoilt(id)).expect("it is sent");
    }
    let refused = answer(&socket(&server), &first_datagram(b"34567890", b""));
    assert_eq!(refused[0] & 0xf0, 0xc0, "an Initial packet that says so");
    watch.saw(REFUSED);
    server.wait_for_log("2 handshakes of QUIC are under way; refusing others");
}
