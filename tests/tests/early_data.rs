//! `ssl_early_data`: requests that come with the ClientHello (0-RTT), each flight
//! of them accepted once.

#[path = "early_data/applications.rs"]
mod applications;
#[path = "early_data/client.rs"]
mod client;
#[path = "early_data/der.rs"]
mod der;
#[path = "early_data/processes.rs"]
mod processes;
#[path = "early_data/replays.rs"]
mod replays;
#[path = "early_data/verdicts.rs"]
mod verdicts;

use client::{Client, Exchange, get, request};
use sealane_tests::metrics::Step::{By, Up};
use sealane_tests::metrics::Watch;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::{
    Certificate, CertificateKey, Server, Site, command, random::Random, scale, wait_for,
};
use std::io::{Read, Write};
use std::time::Duration;

/// Every request as `[early data|verdict|session reused|status|URI]`.
const LOG: &str = "log_format early '[$ssl_early_data|$ssl_early_data_verdict|$ssl_session_reused|$status|$request_uri]';
     access_log logs/access.log early;";

/// A server block with early data, and what is to be said about it.
fn server_block(port: &str, directives: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%{port}% ssl; server_name localhost;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
            ssl_early_data on; {directives}
            location / {{ return 200 \"<$request_method $ssl_early_data>\"; }}
            location /files/ {{ alias html/; }} }}"
    )
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site
}

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    serve_blocks(site, &server_block("tls", directives))
}

/// A register does not answer for tickets from before its first second: the
/// servers given here are past that.
fn serve_blocks<'a>(site: &'a Site, blocks: &str) -> Server<'a> {
    let metrics =
        "server { listen 127.0.0.1:%metrics%; access_log off; location = /metrics { metrics; } }";
    let server = site.serve(&format!("{LOG}\n{blocks}\n{metrics}"));
    std::thread::sleep(Duration::from_millis(1100));
    server
}

/// Waits for the line about `uri` and gives what is in front of it.
#[track_caller]
fn logged(site: &Site, uri: &str) -> String {
    let end = format!("|{uri}]");
    wait_for(&format!("a line about {uri}"), || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        let line = log.lines().rev().find(|line| line.ends_with(&end))?;
        Some(
            line.trim_start_matches('[')
                .trim_end_matches(&end)
                .to_owned(),
        )
    })
}

/// Refused early data is no failure: the request is answered after the handshake.
#[track_caller]
fn assert_refused(exchange: &Exchange, resumed: bool) {
    assert!(exchange.offered && !exchange.accepted, "{exchange:?}");
    assert_eq!(exchange.resumed, resumed, "{exchange:?}");
    assert!(exchange.response.ends_with("<GET >"), "{exchange:?}");
}

#[test]
fn a_request_in_early_data_is_answered() {
    let site = site();
    let server = serve(&site, "");
    let client = Client::new();
    let mut session = client.session(server.port("tls"));
    assert_eq!(logged(&site, "/first"), "-|-|.|200");
    // Each connection gives the session for the next.
    for number in 0..5 {
        let uri = format!("/early?{number}");
        let early = client.converse(server.port("tls"), Some(&session), &get(&uri));
        assert!(early.accepted && early.resumed, "{early:?}");
        assert!(early.response.ends_with("<GET 1>"), "{early:?}");
        assert_eq!(logged(&site, &uri), "1|accepted|r|200");
        session = early.session.expect("the next session");
    }
}

/// The round trip that early data is there to save.
#[test]
fn the_answer_does_not_wait_for_the_clients_last_flight() {
    let site = site();
    let body = "0123456789abcdef".repeat(20_000);
    site.write("html/large", &body);
    let server = serve(&site, "");
    let client = Client::new();
    let session = client.session(server.port("tls"));
    let flight = client.flight(&session, &get("/files/large"));
    let mut socket = client::connect(server.port("tls"));
    socket.write_all(&flight.bytes()).expect("it listens");
    // More than this are handshake and records around the file.
    let mut received = vec![0; body.len()];
    socket.read_exact(&mut received).expect("the whole file");
}

/// A request that may be a replay says so to the server behind (RFC 8470 section 5.1),
/// whose 425 makes the client try again (section 5.2).
#[test]
fn servers_behind_are_told_of_early_data() {
    let origin = Origin::answering(|asked| {
        let early = asked.headers("Early-Data").join("+");
        let status = match (asked.target().as_str(), early.as_str()) {
            ("/choosy", "1") => "425 Too Early",
            _ => "200 OK",
        };
        let body = format!("<{early}>");
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        Answer::Send([head, body].concat().into_bytes())
    });
    let site = site();
    let pass = format!("proxy_pass http://127.0.0.1:{};", origin.port());
    let locations = format!(
        "location /choosy {{ {pass} }} location /told {{ {pass} }}
         location /own {{ {pass} proxy_set_header Early-Data own; }}"
    );
    let server = serve(&site, &locations);
    let client = Client::new();
    let mut session = client.session(server.port("tls"));
    for (uri, headers, expected) in [
        ("/told", "", "<1>"),
        ("/told", "Early-Data: 1\r\n", "<1>"),
        ("/own", "", "<own>"),
        ("/choosy", "", "<1>"),
    ] {
        let asked = request("GET", uri, &format!("{headers}Connection: close\r\n"));
        let early = client.converse(server.port("tls"), Some(&session), &asked);
        assert!(early.accepted, "{early:?}");
        assert!(early.response.ends_with(expected), "{uri}: {early:?}");
        let refused = early.response.starts_with("HTTP/1.1 425 ");
        assert_eq!(refused, uri == "/choosy", "{early:?}");
        session = client.session(server.port("tls"));
    }
    // After the handshake nothing is said.
    let late = request("GET", "/choosy", "Connection: close\r\n");
    let late = client.converse(server.port("tls"), None, &late);
    assert!(late.response.starts_with("HTTP/1.1 200 "), "{late:?}");
    assert!(late.response.ends_with("<>"), "{late:?}");
}

#[test]
fn openssl_sends_early_data() {
    let site = site();
    let server = serve(&site, "");
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let session = site.path("session.pem").display().to_string();
    let usual = "s_client -tls1_3 -servername localhost -ign_eof -connect";
    let usual: Vec<&str> = usual.split(' ').chain([address.as_str()]).collect();
    let save = [&usual[..], &["-sess_out", &session]].concat();
    let output = command("openssl", &save, &get("/first")).success().text();
    assert!(output.contains("Max Early Data: 14336"), "{output}");

    let file = site.write("early.txt", request("GET", "/early", ""));
    let file = file.display().to_string();
    let resume = [&usual[..], &["-sess_in", &session, "-early_data", &file]].concat();
    // The same ticket twice, as openssl keeps it: that makes two flights.
    for round in 0..2 {
        let late = format!("/late?{round}");
        let output = command("openssl", &resume, &get(&late)).success().text();
        assert!(output.contains("Early data was accepted"), "{output}");
        assert!(output.contains("<GET 1>"), "{output}");
        assert!(output.contains("<GET >"), "{output}");
        assert_eq!(logged(&site, &late), "-|accepted|r|200");
    }
    assert_eq!(logged(&site, "/early"), "1|accepted|r|200");
}

#[test]
fn what_is_not_idempotent_waits_for_the_handshake() {
    let site = site();
    let server = serve(&site, "location = /methods { return 200; }");
    let watch = Watch::start(&server);
    let client = Client::new();
    let port = server.port("tls");
    let session = client.session(port);
    // The second request comes behind the client's Finished, on the same connection.
    let both = client
        .converse_twice(
            port,
            Some(&session),
            &request("POST", "/early", ""),
            &request("POST", "/late", "Connection: close\r\n"),
        )
        .expect("nothing is wrong with it");
    assert!(both.accepted, "{both:?}");
    assert!(both.response.starts_with("HTTP/1.1 425 "), "{both:?}");
    assert!(both.response.contains("HTTP/1.1 200 "), "{both:?}");
    assert!(both.response.ends_with("<POST >"), "{both:?}");
    assert_eq!(logged(&site, "/early"), "1|accepted|r|425");
    assert_eq!(logged(&site, "/late"), "-|accepted|r|200");
    for (method, status) in [
        ("DELETE", 425),
        ("PUT", 425),
        ("OPTIONS", 200),
        ("HEAD", 200),
    ] {
        let uri = format!("/{method}");
        let session = client.session(port);
        let close = request(method, &uri, "Connection: close\r\n");
        client.converse(port, Some(&session), &close);
        assert_eq!(logged(&site, &uri), format!("1|accepted|r|{status}"));
    }
    watch.saw(&[
        ("sealane_tls_early_data_total{verdict=\"accepted\"}", By(5)),
        (
            "sealane_tls_early_data_total{verdict=\"method_refused\"}",
            By(3),
        ),
    ]);
}

#[test]
fn methods_can_be_allowed() {
    let site = site();
    let server = serve(&site, "ssl_early_data_methods GET POST;");
    let client = Client::new();
    let session = client.session(server.port("tls"));
    let post = request("POST", "/early", "Connection: close\r\n");
    let early = client.converse(server.port("tls"), Some(&session), &post);
    assert!(early.response.ends_with("<POST 1>"), "{early:?}");
}

#[test]
fn a_server_without_early_data_answers_after_the_handshake() {
    let site = site();
    site.write("ticket.key", [7; 80]);
    let blocks = [
        server_block("tls", "ssl_session_ticket_key ticket.key;"),
        server_block("off", "ssl_session_ticket_key ticket.key;")
            .replace("ssl_early_data on;", "ssl_early_data off;"),
    ];
    let server = serve_blocks(&site, &blocks.concat());
    let client = Client::new();
    let session = client.session(server.port("tls"));
    assert!(session.takes_early_data());
    let refused = client.converse(server.port("off"), Some(&session), &get("/refused"));
    assert_refused(&refused, true);
    assert_eq!(logged(&site, "/refused"), "-|-|r|200");
    // Its own tickets say so.
    let session = client.session(server.port("off"));
    assert!(!session.takes_early_data());
    let quiet = client.converse(server.port("off"), Some(&session), &get("/quiet"));
    assert!(quiet.resumed && !quiet.offered, "{quiet:?}");
}

#[test]
fn sessions_of_another_server_bring_no_early_data() {
    let site = site();
    site.certificate(&Certificate::localhost("other", CertificateKey::P256));
    site.write("ticket.key", [7; 80]);
    let blocks = [
        server_block("tls", "ssl_session_ticket_key ticket.key;"),
        server_block("other", "ssl_session_ticket_key ticket.key;")
            .replace("certificates/site", "certificates/other")
            .replace("server_name localhost", "server_name other"),
        server_block("keys", ""),
    ];
    let server = serve_blocks(&site, &blocks.concat());
    let watch = Watch::start(&server);
    let client = Client::new();
    for port in ["other", "keys"] {
        let session = client.session(server.port("tls"));
        let uri = format!("/{port}");
        let refused = client.converse(server.port(port), Some(&session), &get(&uri));
        assert_refused(&refused, false);
        assert_eq!(logged(&site, &uri), "-|no_session|.|200");
    }
    watch.saw(&[
        (
            "sealane_tls_early_data_total{verdict=\"no_session\"}",
            By(2),
        ),
        (
            "sealane_tls_sessions_missed_total{reason=\"other_context\"}",
            By(1),
        ),
        (
            "sealane_tls_sessions_missed_total{reason=\"unknown_key\"}",
            By(1),
        ),
    ]);
}

#[test]
fn an_expired_session_brings_no_early_data() {
    let site = site();
    let server = serve(&site, "ssl_session_timeout 2s;");
    let watch = Watch::start(&server);
    let client = Client::new();
    let session = client.session(server.port("tls"));
    let session = client.lasting(&session, 3600);
    std::thread::sleep(Duration::from_secs(4));
    let refused = client.converse(server.port("tls"), Some(&session), &get("/late"));
    assert_refused(&refused, false);
    assert_eq!(logged(&site, "/late"), "-|no_session|.|200");
    watch.saw(&[(
        "sealane_tls_sessions_missed_total{reason=\"expired\"}",
        By(1),
    )]);
}

#[test]
fn early_data_of_the_wrong_age_is_refused() {
    let site = site();
    let server = serve(&site, "");
    let watch = Watch::start(&server);
    let client = Client::new();
    for (by_s, accepted) in [(30, true), (90, false)] {
        let session = client.session(server.port("tls"));
        let session = client.changed(&session, |bytes| der::aged(&bytes, by_s));
        let uri = format!("/aged?{by_s}");
        let early = client.converse(server.port("tls"), Some(&session), &get(&uri));
        assert!(early.offered && early.resumed, "{early:?}");
        assert_eq!(early.accepted, accepted, "{by_s} s");
        let verdict = if accepted { "1|accepted" } else { "-|age_skew" };
        assert_eq!(logged(&site, &uri), format!("{verdict}|r|200"));
    }
    watch.saw(&[("sealane_tls_early_data_total{verdict=\"age_skew\"}", By(1))]);
}

#[test]
fn tickets_from_before_the_register_bring_no_early_data() {
    let site = site();
    site.write("ticket.key", [7; 80]);
    let client = Client::new();
    let block = server_block("tls", "ssl_session_ticket_key ticket.key;");
    let server = serve_blocks(&site, &block);
    let used = client.session(server.port("tls"));
    let kept = client.session(server.port("tls"));
    let port = server.port("tls");
    let early = client.converse(port, Some(&used), &get("/before"));
    assert!(early.accepted, "{early:?}");
    drop(server);
    let server = serve_blocks(&site, &block);
    let watch = Watch::start(&server);
    let refused = client.converse(server.port("tls"), Some(&kept), &get("/after"));
    assert_refused(&refused, true);
    assert_eq!(logged(&site, "/after"), "-|before_register|r|200");
    // Its own tickets are known from their first day.
    let session = refused.session.expect("a new one");
    let early = client.converse(server.port("tls"), Some(&session), &get("/again"));
    assert!(early.accepted, "{early:?}");
    watch.saw(&[(
        "sealane_tls_early_data_total{verdict=\"before_register\"}",
        By(1),
    )]);
}

#[test]
fn opaque_tickets_bring_early_data() {
    let site = site();
    let server = serve(
        &site,
        "ssl_session_tickets off; ssl_session_cache shared:TLS:1m;",
    );
    let client = Client::new();
    let session = client.session(server.port("tls"));
    let early = client.converse(server.port("tls"), Some(&session), &get("/opaque"));
    assert!(early.accepted && early.resumed, "{early:?}");
    assert_eq!(logged(&site, "/opaque"), "1|accepted|r|200");
}

#[test]
fn without_tickets_and_cache_there_is_no_early_data() {
    let site = site();
    let server = serve(&site, "ssl_session_tickets off;");
    let first = Client::new().converse(server.port("tls"), None, &get("/first"));
    let response = first.response;
    let offers = first.session.is_some_and(|it| it.takes_early_data());
    assert!(!offers && response.ends_with("<GET >"), "{response}");
}

#[test]
fn files_go_out_early_with_kernel_tls_configured() {
    let site = site();
    let body = Random::new(7).bytes(300_000);
    site.write(
        "html/large",
        body.iter()
            .map(|byte| b'a' + byte % 26)
            .collect::<Vec<u8>>(),
    );
    let server = serve(
        &site,
        "ssl_ktls on; ssl_conf_command Options KTLS; sendfile on;",
    );
    // A kernel that lacks it is mentioned, which is not what this is about.
    let client = Client::new();
    let session = client.session(server.port("tls"));
    // The file goes out before the handshake is over, and again after it.
    let both = client
        .converse_twice(
            server.port("tls"),
            Some(&session),
            &request("GET", "/files/large?early", ""),
            &get("/files/large?late"),
        )
        .expect("nothing is wrong with it");
    assert!(both.accepted, "early data");
    let sent = std::fs::read_to_string(site.path("html/large")).expect("it is there");
    let responses: Vec<&str> = both.response.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert_eq!(responses.len(), 2);
    for response in responses {
        let (_, body) = response.split_once("\r\n\r\n").expect("a head");
        assert!(body == sent, "{} of {} bytes", body.len(), sent.len());
    }
    assert_eq!(logged(&site, "/files/large?early"), "1|accepted|r|200");
    assert_eq!(logged(&site, "/files/large?late"), "-|accepted|r|200");
}

/// The server must not close before the client's Finished is there: a reset would
/// take what the client has not read yet.
#[test]
fn a_response_that_ends_the_connection_arrives_whole() {
    let site = site();
    let body = "0123456789abcdef".repeat(200_000);
    site.write("html/large", &body);
    let server = serve(&site, "");
    let port = server.port("tls");
    let client = Client::new();
    for _ in 0..scale(5, 100) {
        let session = client.session(port);
        let early = client.slowly(
            port,
            &session,
            &get("/files/large"),
            Duration::from_millis(50),
        );
        let early = early.expect("the connection ends in order");
        assert!(early.accepted && early.ended_in_order, "no close_notify");
        let (_, received) = early.response.split_once("\r\n\r\n").expect("a head");
        assert!(
            received == body,
            "{} of {} bytes",
            received.len(),
            body.len()
        );
    }
    // A client that is gone before it has said that it is done keeps nobody.
    let flight = client.flight(&client.session(port), &get("/gone"));
    replays::send(port, &flight.bytes(), 1);
    assert_eq!(logged(&site, "/gone"), "1|accepted|r|200");
}

#[test]
fn early_data_ends_at_its_limit() {
    let site = site();
    let server = serve(&site, "");
    let client = Client::new();
    let port = server.port("tls");
    let fill = |bytes: usize| {
        let header = |name: &str, length: usize| format!("{name}: {}\r\n", "x".repeat(length));
        let headers = header("X-A", bytes / 2) + &header("X-B", bytes / 2);
        request("GET", "/fill", &(headers + "Connection: close\r\n"))
    };
    let session = client.session(port);
    let early = client.converse(port, Some(&session), &fill(14_000));
    assert!(
        early.accepted && early.response.ends_with("<GET 1>"),
        "{early:?}"
    );
    // A client that believes in a higher limit breaks the protocol (RFC 8446
    // section 4.2.10).
    let session = client.session(port);
    let session = client.changed(&session, |bytes| der::with_early_data_limit(&bytes, 30_000));
    let error = client.try_converse(port, Some(&session), &fill(15_000));
    let error = error.expect_err("too much early data");
    assert!(error.contains("UNEXPECTED_MESSAGE"), "{error}");
    server.wait_for_log("TOO_MUCH_READ_EARLY_DATA");
    // And one that was not allowed any sends as much again after the handshake.
    let session = client.session(port);
    let session = client.changed(&session, |bytes| der::aged(&bytes, 90));
    let refused = client.converse(port, Some(&session), &fill(14_000));
    assert_refused(&refused, true);
    let log = || std::fs::read_to_string(site.path("logs/access.log")).expect("a log");
    wait_for("the second request", || {
        (log().matches("|/fill]").count() > 1).then_some(())
    });
    assert_eq!(log().matches("|/fill]").count(), 2, "{}", log());
}

#[test]
fn tickets_that_are_cut_altered_or_oversized_cost_a_full_handshake() {
    let site = site();
    let blocks = [
        server_block("tickets", ""),
        server_block(
            "opaque",
            "ssl_session_tickets off; ssl_session_cache shared:TLS:1m;",
        ),
    ];
    let server = serve_blocks(&site, &blocks.concat());
    let watch = Watch::start(&server);
    let client = Client::new();
    let mut random = Random::new(4);
    for (port, resumes) in [("tickets", false), ("opaque", true)] {
        let port = server.port(port);
        let mut session = client.session(port);
        for round in 0..scale(120, 3000) {
            let damaged = client.changed(&session, |bytes| {
                der::with_ticket(&bytes, |ticket| damage(ticket, round, &mut random))
            });
            let full = client.converse(port, Some(&damaged), &get("/damaged"));
            // What pads an opaque ticket says nothing, and may be anything.
            if !(resumes && full.resumed) {
                assert_refused(&full, false);
            }
            session = full.session.expect("a new session");
        }
    }
    assert!(
        !server.error_log().contains("panicked"),
        "{}",
        server.error_log()
    );
    // One bit in six rounds, nearly always behind the name of the key.
    watch.saw(&[("sealane_tls_sessions_missed_total{reason=\"damaged\"}", Up)]);
}

fn damage(ticket: &[u8], round: usize, random: &mut Random) -> Vec<u8> {
    let mut ticket = ticket.to_vec();
    match round % 6 {
        0 => ticket.truncate(1 + random.below(ticket.len() - 1)),
        1 => {
            let at = random.below(ticket.len() * 8);
            ticket[at / 8] ^= 1 << (at % 8);
        }
        2 => ticket = random.bytes(ticket.len()),
        3 => ticket.extend(random.bytes(1 + round)),
        4 => {
            let length = 4000 + random.below(8000);
            ticket = random.bytes(length);
        }
        _ => {
            let by = 1 + random.below(ticket.len() - 1);
            ticket.rotate_left(by);
        }
    }
    ticket
}
