//! What a client of QUIC and HTTP/3 can do to a server by the letter of the protocols, and how it
//! ends: with the right error or not at all, with little memory, and others served meanwhile.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{
    QuicClient, QuicScript, first_datagram, flood, quic_configuration, quic_site,
};
use sealane_tests::random::Random;
use sealane_tests::{Server, Site, scale, sha256};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// What a flood may add to the memory of the worker. Tables, buffers and what the allocator keeps
/// are a few MiB; what a flood can send or ask for is hundreds.
const MOST_MEMORY_KIB: u64 = 48 << 10;
/// The size of the large file.
const LARGE_BYTES: u64 = 64 << 20;

/// A server with a small file, a large one, and an origin that never answers.
fn serve<'a>(site: &'a Site, origin: &Origin, directives: &str) -> Server<'a> {
    let big = std::fs::File::create(site.path("html/big.bin")).expect("the site is writable");
    big.set_len(LARGE_BYTES).expect("a sparse file");
    site.serve_with(
        "",
        "worker_connections 4000;",
        &quic_configuration(&format!(
            "keepalive_requests 1000000; {directives}
             location /read {{ proxy_request_buffering off; proxy_pass http://127.0.0.1:{}; }}",
            origin.port()
        )),
    )
}

fn address(server: &Server<'_>) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")))
}

/// Whoever behaves gets what it asks for.
#[track_caller]
fn is_served(site: &Site, server: &Server<'_>, what: &str) {
    let run = QuicClient::Quinn.run_one(&QuicScript::to(site, server).get("/a.txt"));
    assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{what}: {run:?}");
}

/// Runs an attack while a bystander asks again and again; looks at the server's memory.
#[track_caller]
fn beside_a_bystander<T: Send>(
    site: &Site,
    server: &Server<'_>,
    what: &str,
    attack: impl FnOnce() -> T + Send,
) -> T {
    is_served(site, server, what);
    let before_kib = server.resident_kib();
    server.forget_most_resident();
    let result = std::thread::scope(|scope| {
        let attacking = scope.spawn(attack);
        loop {
            is_served(site, server, what);
            if attacking.is_finished() {
                break;
            }
        }
        attacking.join().expect("the attack can be done")
    });
    let most_kib = server.most_resident_kib();
    assert!(
        most_kib < before_kib + MOST_MEMORY_KIB,
        "{what}: {before_kib} KiB became {most_kib} KiB"
    );
    result
}

/// Floods that end with an error of HTTP/3.
#[test]
fn floods_of_http_end_the_connection() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    for name in [
        "resets",
        "empty_data",
        "unknown_frames",
        "priorities",
        "one_way_streams",
        "bombs",
    ] {
        let run = || flood(address(&server), &site.authority(), name);
        let flooded = beside_a_bystander(&site, &server, name, run);
        assert_eq!(
            flooded.closed.as_deref(),
            Some("H3_EXCESSIVE_LOAD"),
            "{name}: {flooded:?}"
        );
        assert!(flooded.sent > 20, "{name}: {flooded:?}");
    }
}

/// Requests that are given up before their heads have come never reach anybody, and others can be
/// sent afterwards.
#[test]
fn what_is_given_up_before_its_head_is_no_request() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    let run = || flood(address(&server), &site.authority(), "stopped_first");
    let flooded = beside_a_bystander(&site, &server, "stopped_first", run);
    assert_eq!(
        flooded.closed.as_deref(),
        Some("H3_EXCESSIVE_LOAD"),
        "{flooded:?}"
    );
    assert!(flooded.sent > 300, "{flooded:?}");
    assert_eq!(origin.asked().len(), 0);
    let run = || flood(address(&server), &site.authority(), "half_heads");
    let flooded = beside_a_bystander(&site, &server, "half_heads", run);
    assert_eq!((flooded.sent, flooded.responses), (200, 1), "{flooded:?}");
    assert_eq!(flooded.closed, None);
}

/// Floods of the transport: each ends with an error, or the server puts up with it.
#[test]
fn floods_of_the_transport_cost_little() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    for (name, expected) in [
        // Packets that were not sent are acknowledged (RFC 9000 section 13.1).
        ("optimistic", Some("PROTOCOL_VIOLATION")),
        ("crypto", None),
        ("connection_ids", None),
        ("challenges", None),
        ("pings", None),
        ("gaps", None),
        ("fragments", None),
    ] {
        let run = || flood(address(&server), &site.authority(), name);
        let flooded = beside_a_bystander(&site, &server, name, run);
        if expected.is_some() {
            assert_eq!(flooded.closed.as_deref(), expected, "{name}: {flooded:?}");
        }
        assert_ne!(
            flooded.closed.as_deref(),
            Some("INTERNAL_ERROR"),
            "{name}: {flooded:?}"
        );
    }
}

/// Answers that nobody reads take what the windows allow, and no more.
#[test]
fn unread_answers_take_little_memory() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    beside_a_bystander(&site, &server, "unread", || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..scale(3, 20))
                .map(|_| scope.spawn(|| flood(address(&server), &site.authority(), "unread")))
                .collect();
            for one in all {
                let flooded = one.join().expect("it runs");
                assert!(flooded.received_bytes < LARGE_BYTES, "{flooded:?}");
            }
        });
    });
}

/// What was sent is kept until all before it is acknowledged: not as much as a client likes.
#[test]
fn first_bytes_that_are_not_acknowledged_take_little_memory() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    let huge = std::fs::File::create(site.path("html/huge.bin")).expect("the site is writable");
    huge.set_len(8 << 30).expect("a sparse file");
    let run = || flood(address(&server), &site.authority(), "withheld");
    let flooded = beside_a_bystander(&site, &server, "withheld", run);
    assert_ne!(
        flooded.closed.as_deref(),
        Some("INTERNAL_ERROR"),
        "{flooded:?}"
    );
    assert!(flooded.received_bytes > 1 << 20, "{flooded:?}");
}

/// Datagrams that are no packets, and packets of connections that nobody knows.
#[test]
fn noise_is_ignored() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "");
    let to = address(&server);
    let answers = beside_a_bystander(&site, &server, "noise", || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.set_nonblocking(true).expect("it can be");
        let mut random = Random::new(21);
        let (mut answers, mut answer_bytes, mut sent_bytes) = (0, 0, 0);
        let mut buffer = [0; 2048];
        for _ in 0..scale(20_000, 1_000_000) {
            let length = 1 + random.below(1400);
            let mut datagram = random.bytes(length);
            // Long headers of version 1 and others, and short headers.
            match random.below(4) {
                0 => datagram[0] |= 0xc0,
                1 if length > 5 => {
                    datagram[0] |= 0xc0;
                    datagram[1..5].copy_from_slice(&[0, 0, 0, 1]);
                }
                2 => datagram[0] = datagram[0] & 0x7f | 0x40,
                _ => {}
            }
            sent_bytes += socket.send_to(&datagram, to).unwrap_or(0);
            while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                answers += 1;
                answer_bytes += bytes;
            }
        }
        (answers, answer_bytes, sent_bytes)
    });
    let (count, received, sent) = answers;
    // Never a way to have somebody else flooded (RFC 9000 sections 6.1 and 10.3.3).
    assert!(
        received * 2 < sent,
        "{count} answers of {received} bytes to {sent}"
    );
}

/// A flood of first packets from clients that do not go on: from some number on they have to prove
/// their address, and those who do are served (RFC 9000 section 8.1).
#[test]
fn floods_of_handshakes_leave_room_for_others() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "quic_retry 50;");
    let to = address(&server);
    let mut random = Random::new(23);
    let retries = beside_a_bystander(&site, &server, "handshakes", || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("not zero");
        let mut retries = 0_usize;
        let mut buffer = [0; 2048];
        for _ in 0..scale(2_000, 50_000) {
            let _ = socket.send_to(&first_datagram(&random.bytes(8), b""), to);
            let answer = socket.recv_from(&mut buffer);
            retries += usize::from(answer.is_ok_and(|_| buffer[0] & 0xf0 == 0xf0));
        }
        retries
    });
    assert!(retries > 100, "{retries} Retry packets");
}

/// First packets that cannot be opened begin no connections, whatever they look like, and are not
/// answered.
#[test]
fn spoilt_first_packets_leave_nothing_behind() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(
        &site,
        &origin,
        "quic_retry off; client_header_timeout 600s;
         location = /metrics { metrics; }",
    );
    let (to, metrics) = (address(&server), server.port("plain"));
    let samples = || sealane_tests::metrics::samples(metrics);
    let connections =
        |samples: &sealane_tests::metrics::Samples| samples["sealane_connections_active"];
    let dropped = "sealane_quic_datagrams_dropped_total{reason=\"not_authentic\"}";
    let before = samples();
    let mut random = Random::new(22);
    let sent = beside_a_bystander(&site, &server, "spoilt packets", || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.set_nonblocking(true).expect("it can be");
        let mut buffer = [0; 2048];
        let mut sent = 0;
        for number in 1..=scale(3_000, 300_000) {
            let mut datagram = first_datagram(&random.bytes(8), b"");
            let at = 25 + random.below(1200 - 25);
            datagram[at] ^= 1 << random.below(8);
            sent += usize::from(socket.send_to(&datagram, to).is_ok());
            if number % 48 == 0 {
                // The buffer of the server's socket has room for some dozens.
                sealane_tests::wait_for("datagrams to be taken", || {
                    (samples()[dropped] >= sent as f64).then_some(())
                });
            }
            let answer = socket.recv_from(&mut buffer);
            assert!(answer.is_err(), "no answer");
        }
        sent
    });
    sealane_tests::wait_for("all datagrams to be counted", || {
        (samples()[dropped] >= sent as f64).then_some(())
    });
    assert_eq!(samples()[dropped], sent as f64);
    sealane_tests::wait_for("the bystander's connections to end", || {
        (connections(&samples()) <= connections(&before)).then_some(())
    });
}

/// Every connection of a client that is no more ends, with what it held.
#[test]
fn clients_that_vanish_are_forgotten() {
    let (site, origin) = (quic_site(), Origin::answering(|_| Answer::Silence));
    let server = serve(&site, &origin, "keepalive_timeout 1s; send_timeout 1s;");
    // A worker that has just started has not touched its own code yet.
    is_served(&site, &server, "before");
    let before = server.resident_kib();
    for _ in 0..scale(2, 20) {
        flood(address(&server), &site.authority(), "unread");
    }
    sealane_tests::wait_for("connections to end", || {
        (server.resident_kib() < before + MOST_MEMORY_KIB / 2).then_some(())
    });
    is_served(&site, &server, "after");
}
