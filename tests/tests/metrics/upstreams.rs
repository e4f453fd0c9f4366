//! Peers and what they did.

use super::*;
use sealane_tests::origin::{Answer, Origin};

/// Three requests are answered by one peer, one of them with an error; one finds nobody.
pub(super) const MOVES: &[Move] = &[
    ("sealane_upstream_requests_total{upstream=\"live\"}", By(3)),
    ("sealane_upstream_failures_total{upstream=\"live\"}", By(0)),
    ("sealane_upstream_responses_total{upstream=\"live\"}", By(3)),
    (
        "sealane_upstream_responses_total{upstream=\"live\",code=\"200\"}",
        By(2),
    ),
    (
        "sealane_upstream_responses_total{upstream=\"live\",code=\"500\"}",
        By(1),
    ),
    ("sealane_upstream_sent_bytes_total{upstream=\"live\"}", Up),
    (
        "sealane_upstream_received_bytes_total{upstream=\"live\"}",
        By(3 * ANSWER_BYTES),
    ),
    (
        "sealane_upstream_header_seconds_count{upstream=\"live\"}",
        By(3),
    ),
    ("sealane_upstream_header_seconds_sum{upstream=\"live\"}", Up),
    (
        "sealane_upstream_response_seconds_count{upstream=\"live\"}",
        By(3),
    ),
    (
        "sealane_upstream_response_seconds_sum{upstream=\"live\"}",
        Up,
    ),
    (
        "sealane_upstream_connections_idle{upstream=\"live\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"live\",state=\"up\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_requests_without_peer_total{upstream=\"live\"}",
        By(0),
    ),
    // The first request fails with both and leaves both out, the second finds none.
    ("sealane_upstream_requests_total{upstream=\"dead\"}", By(2)),
    ("sealane_upstream_failures_total{upstream=\"dead\"}", By(2)),
    ("sealane_upstream_left_out_total{upstream=\"dead\"}", By(2)),
    (
        "sealane_upstream_peer_state{upstream=\"dead\",state=\"unavailable\"}",
        To(2.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"dead\",state=\"up\"}",
        To(0.0),
    ),
    (
        "sealane_upstream_requests_without_peer_total{upstream=\"dead\"}",
        By(1),
    ),
];

/// A health check fails: one peer is unhealthy, another one never passes a mandatory check.
pub(super) const CHECKED: &[Move] = &[
    (
        "sealane_upstream_health_checks_total{upstream=\"checked\"}",
        Up,
    ),
    (
        "sealane_upstream_health_checks_failed_total{upstream=\"checked\"}",
        Up,
    ),
    (
        "sealane_upstream_unhealthy_total{upstream=\"checked\"}",
        By(1),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"checked\",state=\"unhealthy\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"awaited\",state=\"checking\"}",
        To(1.0),
    ),
];

/// While a peer that may have one request has one.
pub(super) const STATES: &[Move] = &[
    (
        "sealane_upstream_requests_active{upstream=\"silent\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"silent\",state=\"busy\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"silent\",state=\"down\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"silent\",state=\"draining\"}",
        To(1.0),
    ),
    (
        "sealane_upstream_peer_state{upstream=\"silent\",state=\"up\"}",
        To(0.0),
    ),
];

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
const WRONG: &str = "HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nsick";
const ANSWER_BYTES: u64 = GOOD.len() as u64;

#[test]
fn what_peers_do_moves_their_numbers() {
    assert_eq!(GOOD.len(), WRONG.len());
    let origin = Origin::answering(|asked| match asked.target().as_str() {
        "/wrong" => Answer::Send(WRONG.into()),
        "/silent" => Answer::Silence,
        _ => Answer::Send(GOOD.into()),
    });
    let site = Site::new();
    let server = site.serve(&format!(
        "upstream live {{ server 127.0.0.1:{port}; keepalive 4; }}
         upstream silent {{ zone silent 64k; server 127.0.0.1:{port} max_conns=1; server 127.0.0.2:{port} down;
             server 127.0.0.3:{port} drain; sticky route $arg_route; }}
         upstream checked {{ server 127.0.0.1:{port}; check interval=50 fall=3 default_down=false type=http;
             check_http_send \"GET /wrong HTTP/1.1\r\nHost: a\r\nX-Check: 1\r\n\r\n\"; }}
         upstream awaited {{ server 127.0.0.1:{port}; check interval=3600000; }}
         upstream dead {{ server 127.0.0.1:%nobody% max_fails=1; server 127.0.0.1:%nowhere% max_fails=1; }}
         proxy_http_version 1.1; proxy_set_header Connection '';
         server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://live; }}
             location /dead {{ proxy_pass http://dead; }} location /silent {{ proxy_pass http://silent; }} }}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}",
        port = origin.port(),
    ));
    let watch = Watch::start(&server);
    let port = server.port("plain");
    for (path, status) in [
        ("/", 200),
        ("/wrong", 500),
        ("/", 200),
        ("/dead", 502),
        ("/dead", 502),
    ] {
        assert_eq!(wire::get(port, path).status, status, "{path}");
    }
    watch.saw(MOVES);
    let asked: usize = origin
        .take_asked()
        .iter()
        .filter(|asked| asked.headers("X-Check").is_empty())
        .map(|asked| asked.head.len())
        .sum();
    let sent = watch.growth("sealane_upstream_sent_bytes_total{upstream=\"live\"}");
    assert_eq!(sent, asked as f64);
    server.wait_for_log("upstream server temporarily disabled");
    server.wait_for_log("no live upstreams");
    let mut waits = Connection::open(port);
    waits.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    watch.saw(STATES);
    server.wait_for_log("of \"checked\" is unhealthy");
    watch.saw(CHECKED);
    drop(waits);
    watch.saw(&[(
        "sealane_upstream_requests_active{upstream=\"silent\"}",
        To(0.0),
    )]);
}
