//! HTTP/3 over bad networks: they cost time and no bytes.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{QuicClient, QuicRequest, QuicScript, pattern, quic_site, serve_quic};
use sealane_tests::{
    LossyRelay, NetworkConditions, Server, Site, has_go, random::Random, scale, sha256,
    sha256_of_file,
};
use std::net::Ipv4Addr;
use std::time::Duration;

const CONTROLLERS: [&str; 3] = ["cubic", "bbr", "newreno"];

/// A site with a file of this size, and its digest.
fn site_with(bytes: usize) -> (Site, String) {
    let site = quic_site();
    site.write("html/large.bin", Random::new(1).bytes(bytes));
    let digest = sha256_of_file(&site.path("html/large.bin"));
    (site, digest)
}

/// An origin that answers with the digest of what it gets.
fn digesting() -> Origin {
    Origin::answering(|asked| {
        let sum = sha256(&asked.body);
        Answer::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{sum}").into_bytes())
    })
}

fn serve<'a>(site: &'a Site, origin: &Origin, directives: &str) -> Server<'a> {
    serve_quic(
        site,
        &format!(
            "{directives} client_max_body_size 0;
             location /in/ {{ proxy_pass http://127.0.0.1:{}; proxy_request_buffering off; }}",
            origin.port()
        ),
    )
}

/// One download and one upload at the same time through such a network.
#[track_caller]
fn transfer(
    client: QuicClient,
    site: &Site,
    relay: &LossyRelay,
    digest: &str,
    upload: u64,
    what: &str,
) {
    let script = QuicScript::new(relay.address(), &site.authority()).requests([
        QuicRequest::get("/large.bin"),
        QuicRequest::new("POST", "/in/x").body(upload),
    ]);
    let run = client.run_one(&script);
    assert_eq!(run.responses[0].sha256, digest, "{what}: {run:?}");
    let sent = sha256(sha256(&pattern(upload as usize)).as_bytes());
    assert_eq!(run.responses[1].sha256, sent, "{what}: {run:?}");
}

#[test]
fn datagrams_are_lost_doubled_changed_and_overtaken() {
    let bytes = scale(600_000, 20_000_000);
    let (site, digest) = site_with(bytes);
    let origin = digesting();
    for controller in CONTROLLERS {
        let server = serve(
            &site,
            &origin,
            &format!("quic_congestion_control {controller};"),
        );
        for (percent, seed) in [(1, 1), (5, 2), (20, 3)] {
            let conditions = NetworkConditions {
                lost: percent * 10,
                duplicated: 20,
                reordered: 50,
                corrupted: 5,
                delay: Duration::from_millis(2),
                ..NetworkConditions::default()
            };
            let relay = LossyRelay::start(server.port("tls"), conditions, seed);
            let what = format!("{controller}, {percent} %");
            transfer(
                QuicClient::Quinn,
                &site,
                &relay,
                &digest,
                bytes as u64,
                &what,
            );
            let counts = relay.counts();
            assert!(
                counts.lost > 0 && counts.reordered > 0,
                "{what}: {counts:?}"
            );
        }
    }
}

/// Other senders recover in other ways.
#[test]
fn other_clients_get_through_too() {
    let (site, digest) = site_with(400_000);
    let origin = digesting();
    let server = serve(&site, &origin, "");
    let mut clients = vec![QuicClient::Aioquic];
    if has_go(26) {
        clients.push(QuicClient::QuicGo);
    }
    let conditions = NetworkConditions {
        lost: 50,
        duplicated: 20,
        reordered: 50,
        corrupted: 5,
        delay: Duration::from_millis(2),
        ..NetworkConditions::default()
    };
    for client in clients {
        let relay = LossyRelay::start(server.port("tls"), conditions, 4);
        transfer(
            client,
            &site,
            &relay,
            &digest,
            400_000,
            &format!("{client:?}"),
        );
    }
}

/// Handshakes alone, of which every fourth datagram is lost (RFC 9002 section 6.2).
#[test]
fn handshakes_succeed_where_much_is_lost() {
    let site = quic_site();
    let server = serve_quic(&site, "client_header_timeout 60s; client_body_timeout 60s;");
    let conditions = NetworkConditions {
        lost: 250,
        delay: Duration::from_millis(1),
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(server.port("tls"), conditions, 5);
    let script = QuicScript::new(relay.address(), &site.authority()).get("/a.txt");
    for _ in 0..scale(5, 100) {
        let run = QuicClient::Quinn.run_one(&script);
        assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{run:?}");
    }
}

/// Paths that take nothing larger than QUIC needs (RFC 9000 section 14), and paths that take more
/// (section 14.3).
#[test]
fn datagrams_fit_the_path() {
    let (site, digest) = site_with(500_000);
    let origin = digesting();
    let server = serve(&site, &origin, "");
    for max_datagram_bytes in [1200, 1280, 1400, 9000] {
        let conditions = NetworkConditions {
            max_datagram_bytes,
            delay: Duration::from_millis(1),
            ..NetworkConditions::default()
        };
        let relay = LossyRelay::start(server.port("tls"), conditions, 6);
        let what = format!("{max_datagram_bytes} bytes");
        // These two also probe for more, which is lost.
        transfer(QuicClient::Quinn, &site, &relay, &digest, 300_000, &what);
    }
}

/// A path that becomes narrower while a body is on its way.
#[test]
fn a_path_becomes_narrower() {
    let (site, digest) = site_with(3_000_000);
    let origin = digesting();
    let server = serve(&site, &origin, "");
    let wide = NetworkConditions {
        bandwidth: Some(16_000_000),
        delay: Duration::from_millis(5),
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(server.port("tls"), wide, 7);
    let client = QuicClient::Quinn.built();
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| {
            transfer(client, &site, &relay, &digest, 100_000, "narrower");
        });
        sealane_tests::wait_for("the transfer to be under way", || {
            (relay.counts().from_server > 300).then_some(())
        });
        relay.change(NetworkConditions {
            max_datagram_bytes: 1250,
            ..wide
        });
        transfer.join().expect("every byte arrives");
    });
}

/// A NAT that gives its clients other ports, and another address, while bodies are on their way
/// (RFC 9000 section 9).
#[test]
fn a_nat_forgets_its_clients() {
    let bytes = scale(2_000_000, 50_000_000);
    let (site, digest) = site_with(bytes);
    let origin = digesting();
    let server = serve(&site, &origin, "");
    let conditions = NetworkConditions {
        bandwidth: Some(8_000_000),
        delay: Duration::from_millis(5),
        lost: 5,
        ..NetworkConditions::default()
    };
    let mut clients = vec![QuicClient::Quinn];
    if has_go(26) {
        clients.push(QuicClient::QuicGo);
    }
    for client in clients.into_iter().map(QuicClient::built) {
        let relay = LossyRelay::start(server.port("tls"), conditions, 8);
        std::thread::scope(|scope| {
            let transfer = scope.spawn(|| {
                transfer(
                    client,
                    &site,
                    &relay,
                    &digest,
                    bytes as u64,
                    &format!("{client:?}"),
                );
            });
            for number in 1..=3 {
                sealane_tests::wait_for("the transfer to go on", || {
                    let is_under_way = relay.counts().from_server > number * 300;
                    (is_under_way || transfer.is_finished()).then_some(())
                });
                match number {
                    2 => relay.rebind_to(Ipv4Addr::new(127, 0, 0, 2).into()),
                    _ => relay.rebind(),
                }
            }
            transfer.join().expect("every byte arrives");
        });
        assert_eq!(relay.counts().rebindings, 3);
    }
}

/// A link that is much slower than the machine, with a short queue.
#[test]
fn slow_links_are_filled_and_not_flooded() {
    let (site, digest) = site_with(1_000_000);
    let origin = digesting();
    for controller in CONTROLLERS {
        let server = serve(
            &site,
            &origin,
            &format!("quic_congestion_control {controller};"),
        );
        let conditions = NetworkConditions {
            bandwidth: Some(8_000_000),
            queue: Duration::from_millis(50),
            delay: Duration::from_millis(10),
            ..NetworkConditions::default()
        };
        let relay = LossyRelay::start(server.port("tls"), conditions, 9);
        transfer(
            QuicClient::Quinn,
            &site,
            &relay,
            &digest,
            200_000,
            controller,
        );
        let counts = relay.counts();
        // A sender without congestion control loses most of what it sends.
        assert!(
            counts.lost * 4 < counts.from_server,
            "{controller}: {counts:?}"
        );
    }
}

/// Clients that let the server send little ahead (RFC 9000 section 4).
#[test]
fn small_windows_are_respected() {
    let (site, digest) = site_with(300_000);
    let server = serve_quic(&site, "");
    for window in [1_000, 5_000, 70_000] {
        let script = QuicScript::to(&site, &server)
            .receive_window(window)
            .requests((0..4).map(|_| QuicRequest::get("/large.bin")));
        let run = QuicClient::Quinn.run_one(&script);
        for response in &run.responses {
            assert_eq!(response.sha256, digest, "{window}: {run:?}");
        }
    }
}
