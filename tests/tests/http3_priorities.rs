//! The order in which responses of one connection are sent (RFC 9218). It is that of the bytes
//! behind a window that was closed until the server had all requests.

use sealane_tests::quic::{QuicClient, QuicRequest, QuicScript, quic_site, serve_quic};
use sealane_tests::random::Random;
use sealane_tests::{Server, Site, sha256_of_file};

/// What the server may send before the requests that matter: less than the first response.
const WINDOW_BYTES: u64 = 20_000;
/// The size of each response: what the server holds ready of a stream.
const BODY_BYTES: u64 = 60_000;

fn site() -> Site {
    let site = quic_site();
    site.write("html/body.bin", Random::new(1).bytes(BODY_BYTES as usize));
    site
}

fn request(priority: &str) -> QuicRequest {
    QuicRequest::get("/body.bin").header("priority", priority)
}

/// A client whose window is closed by the response to its first request, which has this priority.
fn blocked(site: &Site, server: &Server<'_>, first: &str) -> QuicScript {
    QuicScript::to(site, server)
        .connection_window(WINDOW_BYTES)
        .hold_windows()
        .begin([request(first)])
        .wait_until_blocked()
}

/// Runs a script to its end. Whose bytes came in which order, as numbers of requests with how many
/// bytes in a row, without what came before the window was closed.
#[track_caller]
fn order(site: &Site, script: QuicScript, requests: usize) -> Vec<(usize, u64)> {
    let run = QuicClient::Aioquic.run_one(&script.finish());
    let digest = sha256_of_file(&site.path("html/body.bin"));
    assert_eq!(run.responses.len(), requests, "{run:?}");
    for response in &run.responses {
        assert_eq!(response.sha256, digest, "{run:?}");
    }
    let mut order = run.arrivals;
    assert_eq!(order[0].0, 0, "{order:?}");
    // It goes on at once if it is the first again.
    if order[0].1 < WINDOW_BYTES {
        order.remove(0);
    }
    order
}

/// Whose bytes came in a row.
fn whose(order: &[(usize, u64)]) -> Vec<usize> {
    order.iter().map(|(number, _)| *number).collect()
}

#[test]
fn an_urgent_response_overtakes_a_low_one_that_has_begun() {
    let site = site();
    let server = serve_quic(&site, "");
    let script = blocked(&site, &server, "u=7").begin([request("u=0")]);
    let order = order(&site, script, 2);
    assert_eq!(whose(&order), [1, 0], "{order:?}");
    assert_eq!(order[0], (1, BODY_BYTES), "wholly before");
}

#[test]
fn urgencies_count_more_than_the_order_of_requests() {
    let site = site();
    let server = serve_quic(&site, "");
    // 3 is the default; what is not understood changes nothing.
    let later = ["u=6", "u=2", "x=1", "u=4", "u=1, i=?0", "u=9"].map(request);
    let script = blocked(&site, &server, "u=7").begin(later);
    let order = order(&site, script, 7);
    assert_eq!(whose(&order), [5, 2, 3, 6, 4, 1, 0], "{order:?}");
}

#[test]
fn responses_of_one_urgency_follow_each_other_unless_they_are_incremental() {
    let site = site();
    let server = serve_quic(&site, "");
    let script = blocked(&site, &server, "u=7").begin(["u=3", "u=3"].map(request));
    let one_by_one = order(&site, script, 3);
    assert_eq!(whose(&one_by_one), [1, 2, 0], "{one_by_one:?}");

    let script = blocked(&site, &server, "u=7").begin(["u=3, i", "u=3, i"].map(request));
    let in_turn = order(&site, script, 3);
    assert_eq!(
        in_turn.last().map(|(number, _)| *number),
        Some(0),
        "{in_turn:?}"
    );
    // When the first of them is complete, most of the other has come.
    let mut came = [0; 3];
    for (number, bytes) in &in_turn {
        came[*number] += bytes;
        if came[1] == BODY_BYTES || came[2] == BODY_BYTES {
            break;
        }
    }
    assert!(came[1].min(came[2]) > BODY_BYTES / 2, "{in_turn:?}");
    assert!(in_turn.len() > 10, "{in_turn:?}");
}

/// RFC 9218 section 7.2.
#[test]
fn priority_updates_change_the_order() {
    let site = site();
    let server = serve_quic(&site, "");
    let begun = || blocked(&site, &server, "u=7").begin(["u=5", "u=2"].map(request));
    let before = order(&site, begun(), 3);
    assert_eq!(whose(&before), [2, 1, 0], "{before:?}");
    let updated = order(&site, begun().priority_update(1, "u=1"), 3);
    assert_eq!(whose(&updated), [1, 2, 0], "{updated:?}");
    // Also of a response that has begun; an update counts more than the field of the request.
    let updated = order(&site, begun().priority_update(0, "u=0"), 3);
    assert_eq!(whose(&updated), [0, 2, 1], "{updated:?}");
}

/// RFC 9218 section 4.1.
#[test]
fn requests_without_a_priority_have_the_default() {
    let site = site();
    let server = serve_quic(&site, "");
    let plain = || QuicRequest::get("/body.bin");
    let script = blocked(&site, &server, "u=4").begin([plain(), request("u=3"), plain()]);
    let order = order(&site, script, 4);
    assert_eq!(whose(&order), [1, 2, 3, 0], "{order:?}");
}
