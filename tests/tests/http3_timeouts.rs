//! Clients of HTTP/3 that send something now and then, and otherwise nothing that they should: what
//! they hold is not theirs for ever.

use sealane_tests::quic::{
    QuicClient, QuicConnection, QuicRequest, QuicScript, quic_configuration, quic_site, serve_quic,
};
use sealane_tests::random::Random;
use sealane_tests::{Server, Site, sha256};

/// H3_NO_ERROR.
const NO_ERROR: Option<u64> = Some(0x100);
/// H3_REQUEST_CANCELLED.
const CANCELLED: Option<u64> = Some(0x10c);
/// What the client lets the server send of a response: a small file, and a part of a larger one.
const WINDOW_BYTES: u64 = 2_000;

fn site() -> Site {
    let site = quic_site();
    // Less than is written at once for a stream: its exchange has nothing left to do.
    site.write("html/part.bin", Random::new(1).bytes(60_000));
    site
}

/// A client that asks for files and takes the beginning of each.
fn taking_little(site: &Site, server: &Server<'_>) -> QuicScript {
    QuicScript::to(site, server)
        .receive_window(WINDOW_BYTES)
        .connection_window(1 << 20)
        .hold_windows()
        .begin((0..3).map(|_| QuicRequest::get("/part.bin")))
}

#[track_caller]
fn ended_by_server(run: &QuicConnection) {
    let close = run.close.as_ref().expect("the server ends it");
    assert!(close.by_server && close.code == NO_ERROR, "{run:?}");
}

/// `send_timeout`, also when the whole response was written.
#[test]
fn responses_that_are_not_taken_end() {
    let site = site();
    let server = serve_quic(&site, "send_timeout 1s; keepalive_timeout 60s;");
    let script = taking_little(&site, &server).pings(5_000).get("/a.txt");
    let run = QuicClient::Aioquic.run_one(&script);
    for response in &run.responses[..3] {
        assert_eq!(response.status, 200, "{run:?}");
        assert_eq!(response.reset, CANCELLED, "{run:?}");
    }
    assert_eq!(run.responses[3].sha256, sha256(b"alpha"), "{run:?}");
    let log = server.error_log();
    let line = "client timed out (110: Connection timed out) while sending response to client";
    assert_eq!(log.matches(line).count(), 3, "{log}");
}

/// A client that takes its time but takes, is not ended.
#[test]
fn responses_that_are_taken_slowly_do_not_end() {
    let site = site();
    let server = serve_quic(&site, "send_timeout 2s; keepalive_timeout 60s;");
    let begun = taking_little(&site, &server);
    let run = QuicClient::Aioquic.run_one(&begun.pings(500).finish());
    assert!(run.responses.iter().all(|one| one.complete), "{run:?}");
}

/// `keepalive_timeout` is the time without requests, whatever else comes.
#[test]
fn connections_without_requests_end() {
    let site = site();
    let server = serve_quic(&site, "keepalive_timeout 2s;");
    let begun = || QuicScript::to(&site, &server);
    for script in [begun(), begun().get("/a.txt")] {
        let run = QuicClient::Aioquic.run_one(&script.pings(20_000));
        ended_by_server(&run);
        assert!((1_500..15_000).contains(&run.milliseconds), "{run:?}");
    }
    // Each request is a new beginning.
    let script = begun().get("/a.txt").pings(1_200).get("/a.txt");
    let run = QuicClient::Aioquic.run_one(&script.pings(1_200).get("/a.txt"));
    assert!(run.responses.iter().all(|one| one.status == 200), "{run:?}");
}

/// A process that is to end does not wait for them either.
#[test]
fn a_server_quits_without_those_who_take_nothing() {
    let site = site();
    let server = site.serve_whole(&format!(
        "worker_processes 1; pid logs/pid; error_log logs/error.log info; events {{}}
         http {{ access_log logs/access.log; {} }}",
        quic_configuration("send_timeout 1s; keepalive_timeout 60s;")
    ));
    std::thread::scope(|scope| {
        let script = taking_little(&site, &server).pings(30_000);
        let client = QuicClient::Aioquic.built();
        let client = scope.spawn(move || client.run_one(&script));
        sealane_tests::wait_for("a client", || {
            let log = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
            log.contains("/part.bin").then_some(())
        });
        server.signal("QUIT");
        let run = client.join().expect("the client runs");
        ended_by_server(&run);
        assert!(run.milliseconds < 20_000, "{run:?}");
    });
    assert!(server.wait_for_exit().success());
}
