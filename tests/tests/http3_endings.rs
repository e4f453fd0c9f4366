//! How connections of HTTP/3 end, and what they survive: reloads, listeners that go, time-outs and
//! limits.

use sealane_tests::quic::{
    QUIC_CERTIFICATE, QuicClient, QuicRequest, QuicScript, quic_configuration, quic_site,
    serve_quic,
};
use sealane_tests::reload::{Reload, reload, reload_as_it_is};
use sealane_tests::{Site, random::Random, scale, sha256, sha256_of_file, wait_for};

/// Waits until a client has asked for `a.txt`: what it asks for with it is under way.
#[track_caller]
fn wait_for_client(site: &Site) {
    wait_for("a client", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        log.contains("/a.txt").then_some(())
    });
}

/// Both files at once.
fn both() -> [QuicRequest; 2] {
    [QuicRequest::get("/large.bin"), QuicRequest::get("/a.txt")]
}

/// A whole configuration with these directives in its server.
fn configuration(main: &str, directives: &str) -> String {
    whole(main, &quic_configuration(directives))
}

fn whole(main: &str, http: &str) -> String {
    format!(
        "worker_processes 1; pid logs/pid; error_log logs/error.log info; {main}\n\
         events {{}}\nhttp {{ access_log logs/access.log; {http} }}\n"
    )
}

fn site_with(bytes: usize) -> (Site, String) {
    let site = quic_site();
    site.write("html/large.bin", Random::new(1).bytes(bytes));
    let digest = sha256_of_file(&site.path("html/large.bin"));
    (site, digest)
}

/// GOAWAY (RFC 9114 section 5.2): what was asked for is answered, and the connection ends without
/// an error.
#[test]
fn connections_end_after_keepalive_requests() {
    let site = quic_site();
    let server = serve_quic(&site, "keepalive_requests 5;");
    let script = (0..5).fold(QuicScript::to(&site, &server), |script, _| {
        script.get("/a.txt")
    });
    let run = QuicClient::Aioquic.run_one(&script.wait_for_close());
    assert!(run.responses.iter().all(|one| one.status == 200), "{run:?}");
    let close = run.close.as_ref().expect("the server ends it");
    assert!(close.by_server && close.application, "{run:?}");
    // H3_NO_ERROR
    assert_eq!(close.code, Some(0x100), "{run:?}");
}

/// What a client has sent before it knows is answered or refused whole, so that it can ask for it
/// elsewhere.
#[test]
fn requests_beyond_keepalive_requests_are_answered_or_refused() {
    let site = quic_site();
    let server = serve_quic(&site, "keepalive_requests 50;");
    let requests = (0..100).map(|_| QuicRequest::get("/a.txt"));
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).requests(requests));
    let good = run.responses.iter().filter(|one| one.status == 200).count();
    assert!(good >= 50, "{run:?}");
    let expected = sha256(b"alpha");
    for response in &run.responses {
        let is_whole = response.status == 200 && response.sha256 == expected;
        assert!(
            is_whole || (response.status == 0 && !response.complete),
            "{response:?}"
        );
    }
}

/// RFC 9000 section 10.1.
#[test]
fn idle_connections_end() {
    let site = quic_site();
    let server = serve_quic(&site, "keepalive_timeout 2s;");
    let script = QuicScript::to(&site, &server)
        .get("/a.txt")
        .wait_for_close();
    let run = QuicClient::Aioquic.run_one(&script);
    assert_eq!(run.responses[0].status, 200, "{run:?}");
    assert!(run.close.is_some(), "{run:?}");
    assert!((1500..25_000).contains(&run.milliseconds), "{run:?}");
}

/// Downloads and uploads during reloads: every byte, and by the same connection.
#[test]
fn reloads_lose_nothing() {
    let (site, digest) = site_with(3_000_000);
    let text = configuration("", "limit_rate 1m;");
    let server = site.serve_whole(&text);
    std::thread::scope(|scope| {
        let clients: Vec<_> = [QuicClient::Quinn, QuicClient::Aioquic]
            .map(QuicClient::built)
            .into_iter()
            .map(|client| {
                let script = QuicScript::to(&site, &server)
                    .requests((0..3).map(|_| QuicRequest::get("/large.bin")))
                    .get("/a.txt");
                scope.spawn(move || (client, client.run_one(&script)))
            })
            .collect();
        for _ in 0..scale(20, 200) {
            assert_eq!(reload_as_it_is(&server), Reload::Applied);
        }
        for client in clients {
            let (client, run) = client.join().expect("the client runs");
            for response in &run.responses[..3] {
                assert_eq!(response.sha256, digest, "{client:?}: {run:?}");
            }
            assert_eq!(
                run.responses[3].sha256,
                sha256(b"alpha"),
                "{client:?}: {run:?}"
            );
        }
    });
}

/// Connections take the new configuration with their next request.
#[test]
fn reloads_change_what_connections_get() {
    let site = quic_site();
    let text = |word: &str| configuration("", &format!("location /word {{ return 200 {word}; }}"));
    let server = site.serve_whole(&text("before"));
    std::thread::scope(|scope| {
        let script = QuicScript::to(&site, &server)
            .requests([QuicRequest::get("/word"), QuicRequest::get("/a.txt")])
            .wait(3_000)
            .get("/word");
        let client = QuicClient::Aioquic.built();
        let client = scope.spawn(move || client.run_one(&script));
        wait_for_client(&site);
        assert_eq!(reload(&site, &server, &text("after")), Reload::Applied);
        let run = client.join().expect("the client runs");
        assert_eq!(run.responses[0].sha256, sha256(b"before"), "{run:?}");
        assert_eq!(run.responses[2].sha256, sha256(b"after"), "{run:?}");
    });
}

/// A handshake that a reload falls into goes on with the server that it has begun with, whatever
/// place that has in the new configuration.
#[test]
fn reloads_during_a_handshake_change_no_server() {
    let public = quic_configuration("server_name localhost; location / { return 200 public; }");
    let others = |count: usize| -> String {
        let one = |number| {
            format!(
                "server {{ listen 127.0.0.1:%plain%; server_name n{number}; return 200 other; }}\n"
            )
        };
        (0..count).map(one).collect()
    };
    // Others in front of it are added, and taken away.
    for (before, after) in [(1, 4), (6, 0)] {
        let site = quic_site();
        let server = site.serve_whole(&whole("", &(others(before) + &public)));
        let (begun, proceed) = (site.path("begun"), site.path("proceed"));
        std::thread::scope(|scope| {
            let script = QuicScript::to(&site, &server).split_first_flight(&begun, &proceed);
            let client = QuicClient::Aioquic.built();
            let client = scope.spawn(move || client.run_one(&script.get("/").get("/")));
            wait_for("half a handshake", || begun.exists().then_some(()));
            let text = whole("", &(others(after) + &public));
            assert_eq!(reload(&site, &server, &text), Reload::Applied);
            std::fs::write(&proceed, "").expect("the site can be written to");
            let run = client.join().expect("the client runs");
            for response in &run.responses {
                assert_eq!(
                    response.sha256,
                    sha256(b"public"),
                    "{before}, {after}: {run:?}"
                );
            }
        });
    }
}

/// Listeners come and go; connections of one that goes are served to the end of what they have
/// asked for.
#[test]
fn listeners_come_and_go() {
    let (site, digest) = site_with(2_000_000);
    let with = configuration("", "limit_rate 500k;");
    let without = whole(
        "",
        &format!(
            "server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; root html; {QUIC_CERTIFICATE} }}"
        ),
    );
    let server = site.serve_whole(&with);
    std::thread::scope(|scope| {
        let script = QuicScript::to(&site, &server).requests(both());
        let client = QuicClient::Quinn.built();
        let client = scope.spawn(move || client.run_one(&script));
        wait_for_client(&site);
        assert_eq!(reload(&site, &server, &without), Reload::Applied);
        let run = client.join().expect("the client runs");
        assert_eq!(run.responses[0].sha256, digest, "{run:?}");
    });
    assert_eq!(reload(&site, &server, &with), Reload::Applied);
    let run = QuicClient::Quinn.run_one(&QuicScript::to(&site, &server).get("/a.txt"));
    assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{run:?}");
}

/// QUIT: what was asked for is answered, and nothing new is.
#[test]
fn a_server_that_quits_ends_what_it_has_begun() {
    let (site, digest) = site_with(2_000_000);
    let server = site.serve_whole(&configuration("", "limit_rate 500k;"));
    std::thread::scope(|scope| {
        let script = QuicScript::to(&site, &server)
            .requests(both())
            .wait_for_close();
        let client = QuicClient::Aioquic.built();
        let client = scope.spawn(move || client.run_one(&script));
        wait_for_client(&site);
        server.signal("QUIT");
        let run = client.join().expect("the client runs");
        assert_eq!(run.responses[0].sha256, digest, "{run:?}");
        let close = run.close.as_ref().expect("an end");
        assert_eq!(
            (close.by_server, close.code),
            (true, Some(0x100)),
            "{run:?}"
        );
    });
    assert!(server.wait_for_exit().success());
}

/// `worker_shutdown_timeout`: those who do not come to an end are ended.
#[test]
fn a_server_that_quits_waits_no_longer_than_it_may() {
    let (site, _) = site_with(20_000_000);
    let server = site.serve_whole(&configuration(
        "worker_shutdown_timeout 1s;",
        "limit_rate 100k;",
    ));
    std::thread::scope(|scope| {
        let script = QuicScript::to(&site, &server).requests(both());
        let client = QuicClient::Aioquic.built();
        let client = scope.spawn(move || client.run_one(&script));
        wait_for_client(&site);
        server.signal("QUIT");
        let run = client.join().expect("the client runs");
        assert!(!run.responses[0].complete, "{run:?}");
        assert!(run.close.is_some(), "{run:?}");
    });
    assert!(server.wait_for_exit().success());
}

/// A worker that is killed: clients that send something learn of it by stateless resets (RFC 9000
/// section 10.3), and new ones are served.
#[test]
fn connections_of_a_killed_worker_are_reset() {
    let site = quic_site();
    let server = site.serve_whole(&configuration("", ""));
    server.expect_alert("signal 9");
    std::thread::scope(|scope| {
        let script = QuicScript::to(&site, &server)
            .get("/a.txt")
            .wait(4_000)
            .get("/a.txt?again");
        let client = QuicClient::Quinn.built();
        let client = scope.spawn(move || client.run_one(&script));
        wait_for_client(&site);
        server.kill_worker();
        let run = client.join().expect("the client runs");
        let close = run.close.as_ref().expect("an end");
        assert!(!close.by_server && close.code.is_none(), "a reset: {run:?}");
        assert!(run.milliseconds < 25_000, "not by a time-out: {run:?}");
    });
    let run = QuicClient::Quinn.run_one(&QuicScript::to(&site, &server).get("/a.txt"));
    assert_eq!(run.responses[0].sha256, sha256(b"alpha"), "{run:?}");
}

/// `limit_rate`, `limit_req` and `limit_conn` as for other protocols.
#[test]
fn limits_hold() {
    let (site, digest) = site_with(400_000);
    let server = site.serve(&format!(
        "limit_req_zone $binary_remote_addr zone=requests:1m rate=1r/s; limit_conn_zone $binary_remote_addr zone=open:1m;
         {}",
        quic_configuration(
            "location /slow/ { alias html/; limit_rate 200k; }
             location /rare/ { limit_req zone=requests; alias html/; }
             location /few/ { limit_conn open 2; limit_rate 200k; alias html/; }"
        )
    ));
    let run = QuicClient::Aioquic.run_one(&QuicScript::to(&site, &server).get("/slow/large.bin"));
    assert_eq!(run.responses[0].sha256, digest, "{run:?}");
    assert!(run.milliseconds > 900, "{run:?}");
    let several = |path: &str| {
        let requests: Vec<_> = (0..5).map(|_| QuicRequest::get(path)).collect();
        let script = QuicScript::to(&site, &server).requests(requests);
        let run = QuicClient::Aioquic.run_one(&script);
        let good = run.responses.iter().filter(|one| one.status == 200).count();
        let refused = run.responses.iter().filter(|one| one.status == 503).count();
        (good, refused)
    };
    assert_eq!(several("/rare/a.txt"), (1, 4));
    assert_eq!(several("/few/large.bin"), (2, 3));
    wait_for("nothing to be left", || {
        (several("/few/large.bin") == (2, 3)).then_some(())
    });
}
