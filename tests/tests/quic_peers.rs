//! The clients for HTTP/3, tried on an nginx that has it: what they say of a server is true.
//!
//! `scripts/peers/build-nginx.sh` builds such an nginx.

use sealane_tests::quic::{QuicClient, QuicRequest, QuicRun, QuicScript, faults, pattern};
use sealane_tests::{
    Certificate, CertificateKey, LossyRelay, NetworkConditions, Server, Site, browse_by_quic,
    has_go, nginx_has_http3, random::Random, sha256, sha256_of_file,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/large.bin", Random::new(1).bytes(3_000_000));
    site.write("html/small.txt", "small");
    // For workers, which are not root.
    let uploads = site.path("upload");
    std::fs::create_dir(&uploads).expect("the site is writable");
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&uploads, everyone).expect("the directory is ours");
    site
}

/// nginx with these directives on the UDP port `%tls%`, or `None` if there is none with HTTP/3.
fn serve<'a>(site: &'a Site, directives: &str) -> Option<Server<'a>> {
    if !nginx_has_http3() {
        sealane_needs::leave_out("nginx has no HTTP/3 (scripts/peers/build-nginx.sh)");
        return None;
    }
    Some(site.serve_by_nginx(&format!(
        "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
         server {{ listen 127.0.0.1:%plain%; return 200 whole; }}
         server {{
           listen 127.0.0.1:%tls% quic; keepalive_requests 10000; root html; ssl_early_data on; {directives}
           location /upload/ {{ root .; dav_methods PUT; client_max_body_size 0; }}
           location = / {{ proxy_pass http://127.0.0.1:%plain%; }}
         }}"
    )))
}

fn script(site: &Site, server: &Server<'_>) -> QuicScript {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    QuicScript::new(address, &site.authority())
}

/// Gets both files and uploads a third one, and checks that what came is what was there.
#[track_caller]
fn transfers(client: QuicClient, site: &Site, server: &Server<'_>) {
    let requests = [
        QuicRequest::new("GET", "/large.bin").header("x-test", "one"),
        QuicRequest::new("PUT", &format!("/upload/{client:?}")).body(1_000_000),
        QuicRequest::new("GET", "/none"),
    ];
    let run = client.run(&script(site, server).requests(requests));
    let [large, upload, none] = &run.connections[0].responses[..] else {
        panic!("{run:?}");
    };
    let file = sha256_of_file(&site.path("html/large.bin"));
    assert_eq!((large.status, &large.sha256), (200, &file), "{client:?}");
    assert_eq!(large.header("content-length"), Some("3000000"));
    assert!(large.complete && large.body_bytes == 3_000_000);
    assert_eq!(none.status, 404, "{client:?}");
    if client == QuicClient::Quinn {
        // h3 puts a frame of unknown type behind the body, at which nginx stumbles (RFC 9114
        // section 9).
        return;
    }
    let stored = sha256_of_file(&site.path(format!("upload/{client:?}")));
    let sent = sha256(&pattern(1_000_000));
    assert_eq!(upload.status, 201, "{client:?}");
    assert_eq!((&stored, &upload.sent_sha256), (&sent, &sent), "{client:?}");
}

/// A thousand streams, of which a server of nginx allows 128 at a time.
#[track_caller]
fn many_streams(client: QuicClient, site: &Site, server: &Server<'_>) {
    let requests = (0..1000).map(|_| QuicRequest::new("GET", "/small.txt"));
    let run = client.run(&script(site, server).requests(requests));
    let mut all = run.connections[0].responses.iter();
    let good = all.clone().filter(|one| one.body_bytes == 5).count();
    assert_eq!(
        good,
        1000,
        "{client:?}: {:?}",
        all.find(|one| !one.complete)
    );
}

/// Migrates, and resumes with and without early data.
#[track_caller]
fn moves(client: QuicClient, site: &Site, server: &Server<'_>) -> QuicRun {
    let run = client.run(
        &script(site, server)
            .get("/small.txt")
            .rebind("127.0.0.2")
            .get("/large.bin")
            .reconnect_early()
            .get("/small.txt")
            .reconnect_resumed()
            .get("/small.txt"),
    );
    let [first, early, resumed] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert_eq!(first.migrations, 1, "{client:?}: {first:?}");
    assert_eq!(first.responses[1].body_bytes, 3_000_000, "{client:?}");
    assert!(!first.resumed && first.tickets > 0, "{client:?}: {first:?}");
    assert_eq!(early.early_data, "accepted", "{client:?}: {early:?}");
    assert!(early.resumed, "{client:?}: {early:?}");
    assert_eq!(early.responses[0].status, 200, "{client:?}: {early:?}");
    assert_eq!(resumed.early_data, "none", "{client:?}: {resumed:?}");
    assert!(resumed.resumed, "{client:?}: {resumed:?}");
    run
}

#[test]
fn aioquic_does_all_that_a_script_can_ask_for() {
    let site = site();
    let Some(server) = serve(&site, "quic_retry on;") else {
        return;
    };
    let client = QuicClient::Aioquic;
    transfers(client, &site, &server);
    let run = moves(client, &site, &server);
    assert!(run.connections[0].retry, "{run:?}");
    assert!(!run.connections[2].retry, "a token is as good: {run:?}");
    let run = client.run(
        &script(&site, &server)
            .unknown_version_first()
            .get("/small.txt")
            .key_update()
            .change_connection_id()
            .get("/large.bin"),
    );
    let [connection] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert!(connection.version_negotiation, "{run:?}");
    assert_eq!((connection.version, connection.key_updates), (1, 1));
    assert_eq!(connection.responses[1].body_bytes, 3_000_000, "{run:?}");
}

#[test]
fn the_reason_of_a_close_is_told() {
    let site = site();
    let Some(server) = serve(&site, "") else {
        return;
    };
    let mut clients = vec![QuicClient::Aioquic, QuicClient::Quinn];
    if has_go(26) {
        clients.push(QuicClient::QuicGo);
    }
    for client in clients {
        let run = client.run(&script(&site, &server).alpn("dummy").get("/small.txt"));
        let close = run.connections[0].close.as_ref().expect("an end");
        // no_application_protocol
        assert_eq!(close.code, Some(0x178), "{client:?}: {close:?}");
        assert!(close.by_server && !close.application, "{client:?}");
    }
}

#[test]
fn quic_go_transfers_and_moves() {
    let site = site();
    let Some(server) = serve(&site, "quic_retry on;") else {
        return;
    };
    if has_go(26) {
        transfers(QuicClient::QuicGo, &site, &server);
        many_streams(QuicClient::QuicGo, &site, &server);
        moves(QuicClient::QuicGo, &site, &server);
    }
}

#[test]
fn quinn_transfers_and_moves() {
    let site = site();
    let Some(server) = serve(&site, "quic_retry on;") else {
        return;
    };
    transfers(QuicClient::Quinn, &site, &server);
    many_streams(QuicClient::Quinn, &site, &server);
    moves(QuicClient::Quinn, &site, &server);
}

#[test]
fn curl_transfers() {
    let site = site();
    if let Some(server) = serve(&site, "") {
        transfers(QuicClient::Curl, &site, &server);
    }
}

#[test]
fn chromium_uses_the_protocol() {
    let site = site();
    site.write(
        "html/page.html",
        "<!doctype html><pre id=out></pre><script>
        fetch('/large.bin').then((response) => response.arrayBuffer()).then((buffer) => {
          const entry = performance.getEntriesByType('resource')[0];
          document.getElementById('out').textContent = entry.nextHopProtocol + ' ' + buffer.byteLength;
        });
        </script>",
    );
    let Some(server) = serve(&site, "") else {
        return;
    };
    let certificate = site.path("certificates/site.pem");
    let document = browse_by_quic(&site, &certificate, server.port("tls"), "/page.html");
    assert!(document.contains("h3 3000000"), "{document}");
}

#[test]
fn a_bad_network_costs_time_and_no_bytes() {
    let site = site();
    let Some(server) = serve(&site, "") else {
        return;
    };
    let conditions = NetworkConditions {
        lost: 20,
        duplicated: 20,
        reordered: 20,
        corrupted: 5,
        delay: Duration::from_millis(2),
        ..NetworkConditions::default()
    };
    let relay = LossyRelay::start(server.port("tls"), conditions, 1);
    let script = QuicScript::new(relay.address(), &site.authority());
    let script = script.server_name("localhost").get("/large.bin");
    let run = QuicClient::Quinn.run(&script);
    let file = sha256_of_file(&site.path("html/large.bin"));
    assert_eq!(run.connections[0].responses[0].sha256, file, "{run:?}");
    let counts = relay.counts();
    assert!(counts.lost > 0 && counts.reordered > 0, "{counts:?}");
}

/// nginx minds most of what is wrong, and not all.
#[test]
fn broken_rules_are_told_from_others() {
    let site = site();
    let Some(server) = serve(&site, "") else {
        return;
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
    let all = faults(address, &site.authority());
    let passed = all.iter().filter(|fault| fault.passed).count();
    assert!(passed > 90 && passed < all.len(), "{passed} of {all:#?}");
    let one = all.iter().find(|fault| fault.name == "DATA before HEADERS");
    assert_eq!(one.expect("a case").received, "H3_FRAME_UNEXPECTED");
}
