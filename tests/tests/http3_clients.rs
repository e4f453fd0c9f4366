//! HTTP/3 with four clients that others have written and with Chromium: files, uploads, many
//! streams, and what is special about connections of QUIC.

use sealane_tests::origin::{Answer, Origin};
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicRequest, QuicScript, pattern, quic_configuration, quic_site,
    serve_quic,
};
use sealane_tests::{
    Application, Server, Site, browse_by_quic, has_go, random::Random, scale, sha256,
    sha256_of_file, wait_for,
};
use std::net::SocketAddr;
use std::time::Duration;

/// Version 2 as on the wire (RFC 9369 section 3.1).
const VERSION_2: u32 = 0x6b33_43cf;

/// All that can run here.
fn clients() -> Vec<QuicClient> {
    let mut all = vec![QuicClient::Aioquic, QuicClient::Quinn, QuicClient::Curl];
    if has_go(26) {
        all.push(QuicClient::QuicGo);
    }
    all
}

/// The same without curl, which only makes requests.
fn able_clients() -> Vec<QuicClient> {
    let mut all = clients();
    all.retain(|client| *client != QuicClient::Curl);
    all
}

/// An origin that answers with the digest of what it gets.
fn digesting() -> Origin {
    Origin::answering(|asked| {
        let sum = sha256(&asked.body);
        Answer::Send(format!("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{sum}").into_bytes())
    })
}

#[test]
fn every_client_gets_and_sends_every_byte() {
    let site = quic_site();
    let large = scale(5_000_000, 1 << 30);
    site.write("html/large.bin", Random::new(1).bytes(large));
    let mut random = Random::new(2);
    for size in [1, 1000, 16_384, 65_536, 300_001] {
        site.write(format!("html/{size}.bin"), random.bytes(size));
    }
    let origin = digesting();
    let server = serve_quic(
        &site,
        &format!(
            "client_max_body_size 0; client_body_buffer_size 16k;
             location /stored/ {{ proxy_pass http://127.0.0.1:{0}; }}
             location /streamed/ {{ proxy_pass http://127.0.0.1:{0}; proxy_request_buffering off; }}",
            origin.port()
        ),
    );
    for client in clients() {
        // Python takes its time.
        let is_slow = matches!(client, QuicClient::Aioquic | QuicClient::Curl);
        let upload = if is_slow { 1_000_000 } else { large as u64 };
        let names = ["1", "1000", "16384", "65536", "300001", "large"];
        let names = &names[..names.len() - usize::from(is_slow && large > 100_000_000)];
        let files = names
            .iter()
            .map(|name| QuicRequest::get(&format!("/{name}.bin")));
        let script = QuicScript::to(&site, &server).requests(files).requests([
            QuicRequest::new("PUT", "/stored/x").body(upload),
            QuicRequest::new("POST", "/streamed/x").body(upload),
            QuicRequest::new("HEAD", "/1000.bin"),
            QuicRequest::get("/none"),
            QuicRequest::get("/empty"),
            QuicRequest::get("/1000.bin").header("range", "bytes=1-2"),
        ]);
        let run = client.run_one(&script);
        let all = &run.responses;
        for (name, response) in names.iter().zip(all) {
            let file = sha256_of_file(&site.path(format!("html/{name}.bin")));
            assert_eq!(
                (response.status, &response.sha256),
                (200, &file),
                "{client:?} {name}"
            );
            assert!(response.complete, "{client:?} {name}");
        }
        let rest = &all[names.len()..];
        for response in &rest[..2] {
            let expected = sha256(response.sent_sha256.as_bytes());
            assert_eq!(
                (response.status, &response.sha256),
                (200, &expected),
                "{client:?}"
            );
        }
        let statuses: Vec<_> = rest[2..]
            .iter()
            .map(|one| (one.status, one.body_bytes))
            .collect();
        let missing = rest[3].body_bytes;
        assert_eq!(
            statuses,
            [(200, 0), (404, missing), (200, 0), (206, 2)],
            "{client:?}"
        );
        assert_eq!(rest[2].header("content-length"), Some("1000"), "{client:?}");
        assert!(run.close.is_none(), "{client:?}: {run:?}");
    }
}

#[test]
fn more_streams_than_are_allowed_at_a_time() {
    let site = quic_site();
    let server = serve_quic(
        &site,
        "keepalive_requests 100000; http3_max_concurrent_streams 20;",
    );
    let count = scale(300, 1000);
    for client in able_clients() {
        let requests = (0..count).map(|_| QuicRequest::get("/a.txt"));
        let run = client.run_one(&QuicScript::to(&site, &server).requests(requests));
        let expected = sha256(b"alpha");
        let good = run
            .responses
            .iter()
            .filter(|one| one.complete && one.sha256 == expected);
        assert_eq!(good.count(), count, "{client:?}: {:?}", run.close);
    }
}

/// Sessions are resumed, and requests come in early data, which are repeated after the handshake
/// if the server does not take them.
#[test]
fn sessions_are_resumed_and_bring_early_data() {
    let site = quic_site();
    let server = site.serve(&format!(
        "log_format early '$ssl_session_reused|$ssl_early_data|$http3|$status|$request_uri';
         access_log logs/access.log early; ssl_early_data on;
         {}",
        quic_configuration("")
    ));
    // The register of flights does not answer for its first second.
    std::thread::sleep(Duration::from_millis(1100));
    for client in able_clients() {
        let script = QuicScript::to(&site, &server)
            .get(&format!("/a.txt?{client:?}-full"))
            .reconnect_resumed()
            .get(&format!("/a.txt?{client:?}-resumed"))
            .reconnect_early()
            .get(&format!("/a.txt?{client:?}-early"));
        let run = client.run(&script);
        let [full, resumed, early] = &run.connections[..] else {
            panic!("{run:?}");
        };
        assert!(
            !full.resumed && full.tickets > 0 && full.tokens > 0,
            "{client:?}: {full:?}"
        );
        assert!(resumed.resumed, "{client:?}: {resumed:?}");
        assert_eq!(resumed.early_data, "none", "{client:?}: {resumed:?}");
        assert!(early.resumed, "{client:?}: {early:?}");
        assert_eq!(early.early_data, "accepted", "{client:?}: {early:?}");
        let expected = sha256(b"alpha");
        for connection in [full, resumed, early] {
            assert_eq!(
                connection.responses[0].sha256, expected,
                "{client:?}: {connection:?}"
            );
        }
        let log = wait_for("the access log", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            log.contains("-early\n").then_some(log)
        });
        for line in [
            format!(".||h3|200|/a.txt?{client:?}-full"),
            format!("r||h3|200|/a.txt?{client:?}-resumed"),
        ] {
            let line = line.replace("||", "|-|");
            assert!(log.lines().any(|one| one == line), "{line}: {log}");
        }
        // The mark is there for what came before the handshake was complete.
        let early = format!("|200|/a.txt?{client:?}-early");
        assert!(log.lines().any(|one| one.ends_with(&early)), "{log}");
        std::fs::write(site.path("logs/access.log"), "").expect("the log is ours");
    }
}

#[test]
fn early_data_is_refused_where_it_is_not_allowed() {
    let site = quic_site();
    let server = serve_quic(&site, "ssl_early_data off;");
    let script = QuicScript::to(&site, &server)
        .get("/a.txt")
        .reconnect_early()
        .get("/a.txt");
    for client in able_clients() {
        let run = client.run(&script);
        let second = &run.connections[1];
        assert!(second.resumed, "{client:?}: {second:?}");
        assert_ne!(second.early_data, "accepted", "{client:?}: {second:?}");
        assert_eq!(
            second.responses[0].sha256,
            sha256(b"alpha"),
            "{client:?}: {second:?}"
        );
    }
}

/// RFC 8470 section 5.1: upstreams see `Early-Data: 1`; what has an effect waits for the
/// handshake or gets 425.
#[test]
fn early_data_reaches_upstreams_marked() {
    let site = quic_site();
    let origin = Origin::echo();
    let server = serve_quic(
        &site,
        &format!(
            "ssl_early_data on; location /origin {{ proxy_pass http://127.0.0.1:{0}; }}
             location /said {{
               proxy_set_header Early-Data $ssl_early_data; proxy_pass http://127.0.0.1:{0};
             }}",
            origin.port()
        ),
    );
    std::thread::sleep(Duration::from_millis(1100));
    let script = QuicScript::to(&site, &server)
        .get("/a.txt")
        .reconnect_early()
        .get("/origin")
        .reconnect_early()
        .get("/said");
    let run = QuicClient::Aioquic.run(&script);
    for connection in &run.connections[1..] {
        assert_eq!(connection.early_data, "accepted", "{connection:?}");
        assert_eq!(connection.responses[0].status, 200, "{connection:?}");
    }
    let asked = origin.asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        assert_eq!(asked.headers("early-data"), ["1"], "{}", asked.text());
    }
}

#[test]
fn clients_move_to_other_addresses() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(3).bytes(2_000_000));
    let file = sha256_of_file(&site.path("html/large.bin"));
    // quic-go does not replace the id of its handshake: with 2 it could move once.
    let server = serve_quic(&site, "quic_active_connection_id_limit 4;");
    for client in able_clients() {
        let script = QuicScript::to(&site, &server)
            .get("/a.txt")
            .rebind("127.0.0.2")
            .get("/large.bin")
            .rebind("127.0.0.3")
            .get("/large.bin");
        let run = client.run_one(&script);
        assert_eq!(run.migrations, 2, "{client:?}: {run:?}");
        for response in &run.responses[1..] {
            assert_eq!(response.sha256, file, "{client:?}: {run:?}");
        }
    }
}

/// Key updates (RFC 9001 section 6), connection ids (RFC 9000 section 5.1), Retry (section 8.1.2)
/// with tokens (section 8.1.3), and versions that nobody knows (section 6).
#[test]
fn what_is_special_about_connections() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(4).bytes(1_000_000));
    let server = serve_quic(&site, "quic_retry on;");
    let file = sha256_of_file(&site.path("html/large.bin"));
    let script = QuicScript::to(&site, &server)
        .unknown_version_first()
        .get("/a.txt")
        .key_update()
        .get("/large.bin")
        .key_update()
        .change_connection_id()
        .get("/large.bin")
        .reconnect_resumed()
        .get("/a.txt");
    let run = QuicClient::Aioquic.run(&script);
    let [first, second] = &run.connections[..] else {
        panic!("{run:?}");
    };
    assert!(first.version_negotiation && first.retry, "{first:?}");
    assert_eq!((first.version, first.key_updates), (1, 2), "{first:?}");
    assert!(
        first.responses[1..].iter().all(|one| one.sha256 == file),
        "{first:?}"
    );
    assert!(
        !second.retry && second.resumed,
        "a token is as good: {second:?}"
    );
    assert_eq!(second.responses[0].status, 200, "{second:?}");
    for client in able_clients() {
        let run = client.run(
            &QuicScript::to(&site, &server)
                .get("/large.bin")
                .reconnect_resumed()
                .get("/large.bin"),
        );
        let is_told = client != QuicClient::Quinn;
        assert_eq!(run.connections[0].retry, is_told, "{client:?}: {run:?}");
        assert!(!run.connections[1].retry, "{client:?}: {run:?}");
        for connection in &run.connections {
            assert_eq!(connection.responses[0].sha256, file, "{client:?}: {run:?}");
        }
    }
}

/// RFC 9369 and RFC 9368 section 2.3.
#[test]
fn version_2_is_spoken() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(5).bytes(500_000));
    let file = sha256_of_file(&site.path("html/large.bin"));
    for (directive, retry) in [("quic_retry off;", false), ("quic_retry on;", true)] {
        let server = serve_quic(&site, &format!("ssl_early_data on; {directive}"));
        let mut clients = able_clients();
        clients.retain(|client| *client != QuicClient::Quinn);
        for client in clients {
            let script = QuicScript::to(&site, &server)
                .version(2)
                .get("/large.bin")
                .rebind("127.0.0.2")
                .get("/large.bin")
                .reconnect_resumed()
                .get("/large.bin");
            let run = client.run(&script);
            for connection in &run.connections {
                assert_eq!(connection.version, VERSION_2, "{client:?}: {run:?}");
                assert!(
                    connection.responses.iter().all(|one| one.sha256 == file),
                    "{run:?}"
                );
            }
            assert_eq!(run.connections[0].retry, retry, "{client:?}: {run:?}");
            assert!(run.connections[1].resumed, "{client:?}: {run:?}");
        }
    }
}

/// Clients that have both versions get the one that the server prefers (RFC 9368 section 2.3), also
/// behind a Retry; what they keep for later belongs to that one (RFC 9369 section 5).
#[test]
fn clients_of_both_versions_get_the_preferred_one() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(6).bytes(300_000));
    let file = sha256_of_file(&site.path("html/large.bin"));
    for (versions, expected) in [("1 2", 1), ("1", 1), ("2 1", VERSION_2)] {
        for retry in ["off", "on"] {
            let directives = format!("quic_versions {versions}; quic_retry {retry};");
            let server = serve_quic(&site, &directives);
            let script = QuicScript::to(&site, &server)
                .also_version_2()
                .get("/large.bin")
                .key_update()
                .get("/large.bin")
                .reconnect_resumed()
                .get("/large.bin");
            let run = QuicClient::Aioquic.run(&script);
            for connection in &run.connections {
                assert_eq!(connection.version, expected, "{directives}: {run:?}");
                let mut responses = connection.responses.iter();
                assert!(responses.all(|one| one.sha256 == file), "{run:?}");
            }
            assert_eq!(run.connections[0].retry, retry == "on", "{run:?}");
            // Its session is of the version that both connections came to.
            assert!(run.connections[1].resumed, "{directives}: {run:?}");
        }
    }
}

/// Clients that have one version, or begin with the other one and do not say that they have more.
#[test]
fn clients_of_one_version_keep_it() {
    let site = quic_site();
    let server = serve_quic(&site, "quic_versions 2 1;");
    for client in able_clients() {
        let run = client.run_one(&QuicScript::to(&site, &server).get("/a.txt"));
        assert_eq!(run.version, 1, "{client:?}: {run:?}");
        assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{client:?}");
    }
}

#[test]
fn a_protocol_that_nobody_speaks_is_refused() {
    let site = quic_site();
    let server = serve_quic(&site, "");
    for client in able_clients() {
        let run = client.run_one(&QuicScript::to(&site, &server).alpn("dummy").get("/a.txt"));
        let close = run.close.as_ref().expect("an end");
        // no_application_protocol (RFC 9001 section 8.1)
        assert_eq!(close.code, Some(0x178), "{client:?}: {run:?}");
        assert!(close.by_server && !close.application, "{client:?}: {run:?}");
    }
}

/// RFC 9220.
#[test]
fn websockets_go_through() {
    let site = quic_site();
    let _application = Application::web_socket(&site, "127.0.0.1:%socket%");
    let server = serve_quic(
        &site,
        "location /socket { proxy_pass http://127.0.0.1:%socket%; proxy_http_version 1.1;
           proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }",
    );
    let long = "long ".repeat(20_000);
    let texts = ["one", "two", &long, "", "ü"];
    let script = QuicScript::to(&site, &server)
        .websocket("/socket", &texts)
        .get("/a.txt");
    let run = QuicClient::Aioquic.run_one(&script);
    assert_eq!(run.websockets[0].status, 200, "{run:?}");
    let lengths: Vec<_> = run.websockets[0].texts.iter().map(String::len).collect();
    assert!(run.websockets[0].texts == texts, "{lengths:?}");
    assert_eq!(run.responses[0].status, 200, "{run:?}");
}

#[test]
fn chromium_loads_a_page_of_many_parts_and_sends_forms() {
    let site = quic_site();
    let mut random = Random::new(13);
    let mut expected = Vec::new();
    for number in 0..100 {
        let size = 1 + random.below(60_000);
        let content = random.bytes(size);
        site.write(format!("html/part-{number}"), &content);
        expected.push(sha256(&content));
    }
    site.write(
        "html/page.html",
        "<!doctype html><pre id=out></pre><script>
        const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, '0')).join('');
        const digest = async (number) => {
          const response = await fetch('/part-' + number);
          return hex(await crypto.subtle.digest('SHA-256', await response.arrayBuffer()));
        };
        const post = async () => (await fetch('/stored/x', {method: 'POST', body: 'x'.repeat(500000)})).text();
        Promise.all([...Array(100).keys()].map(digest).concat([post()])).then((all) => {
          const kinds = new Set(performance.getEntriesByType('resource').map((entry) => entry.nextHopProtocol));
          document.getElementById('out').textContent = [...kinds].join() + ' ' + all.join(' ');
        }).catch((error) => { document.getElementById('out').textContent = 'failed: ' + error; });
        </script>",
    );
    expected.push(sha256("x".repeat(500_000).as_bytes()));
    let origin = digesting();
    let server = serve_quic(
        &site,
        &format!(
            "location /stored/ {{ proxy_pass http://127.0.0.1:{}; }}",
            origin.port()
        ),
    );
    let certificate = site.path("certificates/site.pem");
    let document = browse_by_quic(&site, &certificate, server.port("tls"), "/page.html");
    let expected = format!("h3 {}", expected.join(" "));
    assert!(document.contains(&expected), "{document}");
}

/// One connection on each of these addresses; answers come from the one that was asked, or the
/// client would not take them (RFC 9000 section 9).
#[test]
fn wildcards_and_ipv6_answer_from_the_address_that_was_asked() {
    let site = quic_site();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%; listen %tls% quic; listen [::]:%tls% quic; listen [::1]:%six% quic;
           root html; {QUIC_CERTIFICATE} location /where {{ return 200 '$server_addr $remote_addr'; }} }}"
    ));
    let ask = |address: &str, port: &str| {
        let address: SocketAddr = format!("{address}:{}", server.port(port))
            .parse()
            .expect("valid");
        let script = QuicScript::new(address, &site.authority())
            .get("/where")
            .get("/a.txt");
        QuicClient::Aioquic.run_one(&script)
    };
    for (address, port, shown) in [
        ("127.0.0.1", "tls", "127.0.0.1 127.0.0.1"),
        ("127.0.0.7", "tls", "127.0.0.7 "),
        ("[::1]", "tls", "::1 ::1"),
        ("[::1]", "six", "::1 ::1"),
    ] {
        let run = ask(address, port);
        assert_eq!(run.responses.len(), 2, "{address}: {run:?}");
        let all = &run.responses;
        assert_eq!(all[1].sha256, sha256(b"alpha"), "{address}: {run:?}");
        // Which of its own addresses the kernel gives a client that asks 127.0.0.7 is its choice.
        let seen = |remote: &str| sha256(format!("127.0.0.7 {remote}").as_bytes());
        let is_right = match address {
            "127.0.0.7" => ["127.0.0.1", "127.0.0.7"]
                .map(seen)
                .contains(&all[0].sha256),
            _ => all[0].sha256 == sha256(shown.as_bytes()),
        };
        assert!(is_right, "{address}: {run:?}");
    }
}

/// The same upload by every controller: they differ in speed, and not in bytes.
#[test]
fn every_congestion_controller_works() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(6).bytes(3_000_000));
    let file = sha256_of_file(&site.path("html/large.bin"));
    for controller in ["cubic", "bbr", "newreno"] {
        let server: Server<'_> =
            serve_quic(&site, &format!("quic_congestion_control {controller};"));
        let script = QuicScript::to(&site, &server).get("/large.bin");
        let run = QuicClient::Quinn.run_one(&script);
        assert_eq!(run.responses[0].sha256, file, "{controller}: {run:?}");
    }
}

/// Bodies of a megabyte in both directions at once on one connection.
#[test]
fn many_uploads_and_downloads_at_once() {
    let site: Site = quic_site();
    site.write("html/large.bin", Random::new(7).bytes(1_000_000));
    let file = sha256_of_file(&site.path("html/large.bin"));
    let origin = digesting();
    let server = serve_quic(
        &site,
        &format!(
            "client_max_body_size 0; location /in/ {{ proxy_pass http://127.0.0.1:{}; proxy_request_buffering off; }}",
            origin.port()
        ),
    );
    let sent = sha256(sha256(&pattern(1_000_000)).as_bytes());
    let mut clients = able_clients();
    clients.retain(|client| *client != QuicClient::Aioquic);
    for client in clients {
        let requests = (0..scale(20, 200)).map(|number| match number % 2 {
            0 => QuicRequest::get("/large.bin"),
            _ => QuicRequest::new("POST", "/in/x").body(1_000_000),
        });
        let run = client.run_one(&QuicScript::to(&site, &server).requests(requests));
        for (number, response) in run.responses.iter().enumerate() {
            let expected = if number % 2 == 0 { &file } else { &sent };
            assert_eq!(
                &response.sha256, expected,
                "{client:?} {number}: {response:?}"
            );
        }
    }
}
