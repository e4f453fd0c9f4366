//! `http3_hq`: HTTP/0.9 over QUIC (`hq-interop`), which tests of interoperability use.

use sealane_tests::nginx_has_http3;
use sealane_tests::origin::Origin;
use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicConnection, QuicRequest, QuicResponse, QuicScript, pattern,
    quic_configuration, quic_site, serve_quic,
};
use sealane_tests::random::Random;
use sealane_tests::{Server, Site, scale, sha256, sha256_of_file, wait_for};
use std::net::{Ipv4Addr, SocketAddr};

/// A script of a client that speaks nothing else.
fn script(site: &Site, server: &Server<'_>) -> QuicScript {
    QuicScript::to(site, server).alpn("hq-interop")
}

#[track_caller]
fn ask(site: &Site, server: &Server<'_>, requests: Vec<QuicRequest>) -> Vec<QuicResponse> {
    QuicClient::Aioquic
        .run_one(&script(site, server).requests(requests))
        .responses
}

#[track_caller]
fn assert_body(response: &QuicResponse, body: &[u8]) {
    assert!(
        response.complete && response.reset.is_none(),
        "{response:?}"
    );
    let expected = (body.len() as u64, sha256(body));
    let came = (response.body_bytes, response.sha256.clone());
    assert_eq!(came, expected, "{response:?}");
}

/// The codes with which the server ended a connection.
fn close_of(run: &QuicConnection) -> Option<u64> {
    let close = run.close.as_ref().filter(|close| close.by_server);
    close.and_then(|close| close.code)
}

#[test]
fn lines_are_answered_with_bodies_alone() {
    let site = quic_site();
    let large = Random::new(1).bytes(2_000_000);
    site.write("html/large.bin", &large);
    site.write("html/errors/404.html", "gone");
    let origin = Origin::echo();
    let server = site.serve(&format!(
        "log_format hq '$http3|$server_protocol|$ssl_alpn_protocol|$quic|$scheme|$request|$status|$body_bytes_sent|$bytes_sent|$request_length|$host';
         access_log logs/access.log hq; {}",
        quic_configuration(&format!(
            "http3_hq on; error_page 404 /errors/404.html; error_page 400 =400 @refused;
             location @refused {{ return 400 refused; }}
             location /who {{ return 200 '$http3|$server_protocol|$uri|$args'; }}
             location /early {{ early_hints 1; add_trailer X-End yes; alias html/a.txt; }}
             location /empty204 {{ return 204; }}
             location /moved {{ return 302 /a.txt; }}
             location /origin {{ proxy_pass http://127.0.0.1:{}; }}
             location /gone {{ return 444; }}",
            origin.port()
        ))
    ));
    let all = ask(
        &site,
        &server,
        [
            "/a.txt",
            "/empty",
            "/large.bin",
            "/none",
            "/who/%41?x=1",
            "/origin/x?y",
            "/empty204",
            "/early",
            "/gone",
        ]
        .map(QuicRequest::get)
        .into_iter()
        .chain([
            QuicRequest::new("POST", "/a.txt"),
            QuicRequest::get("/a.txt HTTP/1.1"),
            // What follows the line is no part of the request.
            QuicRequest::get("/a.txt").body(300_000),
        ])
        .collect(),
    );
    assert_body(&all[0], b"alpha");
    assert_body(&all[1], b"");
    assert_body(&all[2], &large);
    assert_body(&all[3], b"gone");
    assert_body(&all[4], b"hq||/who/A|x=1");
    assert!(all[5].complete && all[5].body_bytes > 0, "{:?}", all[5]);
    assert_body(&all[6], b"");
    assert_body(&all[7], b"alpha");
    assert!(!all[8].complete && all[8].reset.is_some(), "{:?}", all[8]);
    assert_body(&all[9], b"refused");
    assert!(all[10].complete && all[10].body_bytes > 5, "{:?}", all[10]);
    assert_body(&all[11], b"alpha");
    assert!(
        origin.asked()[0]
            .text()
            .starts_with("GET /origin/x?y HTTP/1.")
    );
    let log = wait_for("the access log", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        (log.lines().count() >= 12).then_some(log)
    });
    for line in [
        "hq||hq-interop|quic|https|GET /a.txt|200|5|5|12|localhost",
        "hq||hq-interop|quic|https|GET /large.bin|200|2000000|2000000|16|localhost",
        "hq||hq-interop|quic|https|POST /a.txt|400|7|7|13|localhost",
    ] {
        assert!(log.lines().any(|one| one == line), "{line}: {log}");
    }
    assert!(log.contains("|GET /a.txt HTTP/1.1|505|"), "{log}");
    // HTTP/3 is there as before.
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).get("/who"));
    assert_eq!(
        run.responses[0].sha256,
        sha256(b"h3|HTTP/3.0|/who|"),
        "{run:?}"
    );
}

/// Which protocols are offered: `http3`, `http3_hq`.
#[test]
fn protocols_are_offered_as_configured() {
    let site = quic_site();
    // no_application_protocol (RFC 9001 section 8.1)
    const REFUSED: Option<u64> = Some(0x178);
    for (directives, h3, hq) in [
        ("", true, false),
        ("http3_hq on;", true, true),
        ("http3 off; http3_hq on;", false, true),
    ] {
        let server = serve_quic(&site, directives);
        for (protocol, is_served) in [("h3", h3), ("hq-interop", hq)] {
            let script = QuicScript::to(&site, &server).alpn(protocol).get("/a.txt");
            let run = QuicClient::Aioquic.run_one(&script);
            match is_served {
                true => assert_body(&run.responses[0], b"alpha"),
                false => assert_eq!(close_of(&run), REFUSED, "{directives} {protocol}: {run:?}"),
            }
        }
    }
}

/// There is no GOAWAY: the connection closes behind its last stream.
#[test]
fn connections_end_after_keepalive_requests() {
    let site = quic_site();
    let server = serve_quic(&site, "http3_hq on; keepalive_requests 5;");
    let script = (0..5).fold(script(&site, &server), |script, _| script.get("/a.txt"));
    let run = QuicClient::Aioquic.run_one(&script.wait_for_close());
    assert_eq!(run.responses.len(), 5);
    for response in &run.responses {
        assert_body(response, b"alpha");
    }
    // H3_NO_ERROR
    assert_eq!(close_of(&run), Some(0x100), "{run:?}");
}

/// What comes beyond is refused whole.
#[test]
fn requests_beyond_keepalive_requests_are_answered_or_refused() {
    let site = quic_site();
    let server = serve_quic(&site, "http3_hq on; keepalive_requests 50;");
    let requests = (0..100).map(|_| QuicRequest::get("/a.txt")).collect();
    let all = ask(&site, &server, requests);
    let good = all.iter().filter(|one| one.complete).count();
    assert!(good >= 50, "{all:?}");
    for response in &all {
        match response.complete {
            true => assert_body(response, b"alpha"),
            // H3_REQUEST_REJECTED, or the end of the connection.
            false => assert!(matches!(response.reset, None | Some(0x10b)), "{response:?}"),
        }
    }
}

#[test]
fn a_server_that_quits_ends_what_it_has_begun() {
    let site = quic_site();
    site.write("html/large.bin", Random::new(2).bytes(2_000_000));
    let digest = sha256_of_file(&site.path("html/large.bin"));
    let server = serve_quic(
        &site,
        "http3_hq on; limit_rate 500k; access_log logs/access.log;",
    );
    std::thread::scope(|scope| {
        let both = [QuicRequest::get("/large.bin"), QuicRequest::get("/a.txt")];
        let script = script(&site, &server).requests(both).wait_for_close();
        let client = scope.spawn(move || QuicClient::Aioquic.run_one(&script));
        wait_for("a client", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            log.contains("/a.txt").then_some(())
        });
        server.signal("QUIT");
        let run = client.join().expect("the client runs");
        assert_eq!(run.responses[0].sha256, digest, "{run:?}");
        assert_eq!(close_of(&run), Some(0x100), "{run:?}");
    });
    assert!(server.wait_for_exit().success());
}

/// There are no control streams, and none of QPACK, in either direction.
#[test]
fn other_streams_are_an_error() {
    let site = quic_site();
    let server = serve_quic(&site, "http3_hq on;");
    let script = script(&site, &server).get("/a.txt").one_way_stream();
    let run = QuicClient::Aioquic.run_one(&script.wait_for_close());
    assert_body(&run.responses[0], b"alpha");
    // H3_STREAM_CREATION_ERROR
    assert_eq!(close_of(&run), Some(0x103), "{run:?}");
}

#[test]
fn limits_hold() {
    let site = quic_site();
    let server = serve_quic(
        &site,
        "http3_hq on; http3_max_concurrent_streams 10; large_client_header_buffers 4 2k; keepalive_requests 100000;
         access_log logs/access.log;",
    );
    let count = scale(100, 1000);
    let requests = (0..count).map(|_| QuicRequest::get("/a.txt")).collect();
    let all = ask(&site, &server, requests);
    assert_eq!(all.len(), count);
    for response in &all {
        assert_body(response, b"alpha");
    }
    let long = format!("/{}", "x".repeat(3000));
    let all = ask(
        &site,
        &server,
        vec![QuicRequest::get(&long), QuicRequest::get("/a.txt")],
    );
    assert!(all[0].complete && all[0].body_bytes > 5, "{all:?}");
    assert_body(&all[1], b"alpha");
    wait_for("a line about the long one", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        log.contains(" 414 ").then_some(())
    });
}

/// A line that does not come, and a client that is silent, end by the time-outs of HTTP/3.
#[test]
fn time_outs_hold() {
    let site = quic_site();
    let server = serve_quic(&site, "http3_hq on; keepalive_timeout 2s;");
    let script = script(&site, &server).get("/a.txt").wait_for_close();
    let run = QuicClient::Aioquic.run_one(&script);
    assert_body(&run.responses[0], b"alpha");
    assert!(run.close.is_some(), "{run:?}");
}

#[test]
fn early_data_and_retry_work_as_for_http3() {
    let site = quic_site();
    let server = serve_quic(
        &site,
        "http3_hq on; ssl_early_data on; quic_retry on;
         location /early { return 200 '$http3 $ssl_early_data $ssl_session_reused'; }",
    );
    // The register of flights does not answer for its first second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let script = script(&site, &server)
        .get("/a.txt")
        .rebind("127.0.0.2")
        .get("/a.txt")
        .reconnect_early()
        .get("/early");
    let run = QuicClient::Aioquic.run(&script);
    assert!(run.connections[0].retry, "{run:?}");
    assert_body(&run.connections[0].responses[1], b"alpha");
    let early = &run.connections[1];
    assert_eq!(early.early_data, "accepted", "{early:?}");
    assert_body(&early.responses[0], b"hq 1 r");
}

/// The same bodies as nginx's. Where nginx finds no HTTP/0.9 in a line, it answers as HTTP/1 does.
#[test]
fn bodies_are_those_of_nginx() {
    if !nginx_has_http3() {
        sealane_needs::leave_out("nginx has no HTTP/3 (scripts/peers/build-nginx.sh)");
        return;
    }
    let site = quic_site();
    site.write("html/pattern.bin", pattern(100_000));
    site.write("html/sub/index.html", "<p>sub</p>");
    site.write("html/errors.html", "an error");
    let block = |port: &str| {
        format!(
            "server {{ listen 127.0.0.1:%plain{port}%; return 200; }}
             server {{ listen 127.0.0.1:%{port}% quic; server_name localhost; root html; {QUIC_CERTIFICATE}
               http3 off; http3_hq on; error_page 400 403 404 405 414 505 /errors.html;
               location /text {{ return 200 \"$request_method|$uri|$args|$host|$server_protocol|$http3|$request\"; }}
               location /nothing {{ return 204; }}
               location /denied {{ return 403; }}
               location /try/ {{ try_files $uri /a.txt =404; }} }}"
        )
    };
    let requests = || {
        let paths = [
            "/a.txt",
            "/empty",
            "/pattern.bin",
            "/none",
            "/sub/",
            "/text?q=1&r",
            "/text/%41%2f..",
            "/nothing",
            "/denied",
            "/try/what",
            "/%zz",
            "/../..",
            "//a.txt",
            "http://other/text",
            "/text#fragment",
        ];
        let gets = paths.into_iter().map(QuicRequest::get);
        let others = ["POST", "HEAD", "PUT"].map(|method| QuicRequest::new(method, "/a.txt"));
        gets.chain(others)
    };
    let ours = site.serve_with("pid logs/ours.pid;", "", &block("ours"));
    let theirs = site.serve_by_nginx(&block("theirs"));
    let ask = |port: u16| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let script = QuicScript::new(address, &site.authority()).alpn("hq-interop");
        let run = QuicClient::Aioquic.run_one(&script.requests(requests()));
        let all = run.responses.into_iter();
        all.map(|one| (one.complete, one.body_bytes, one.sha256))
            .collect::<Vec<_>>()
    };
    let (ours, theirs) = (ask(ours.port("ours")), ask(theirs.port("theirs")));
    for ((request, ours), theirs) in requests().zip(ours).zip(theirs) {
        assert_eq!(ours, theirs, "{request:?}");
    }
}
