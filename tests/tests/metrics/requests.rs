//! Connections and requests, servers and locations.

use super::*;

/// A request whose length is known to the tests below.
const ASK: &str = "GET /counted/a.txt HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
const GONE: &str = "GET /counted/gone HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
/// Three that are answered, one that is not.
const ASKED_BYTES: u64 = (3 * ASK.len() + GONE.len()) as u64;

/// What four requests for one server and location move.
pub(super) const MOVES: &[Move] = &[
    ("sealane_connections_accepted_total", Up),
    ("sealane_connections_handled_total", Up),
    ("sealane_requests_total", Up),
    ("sealane_server_connections_total{server=\"a.test\"}", By(4)),
    ("sealane_server_requests_total{server=\"a.test\"}", By(4)),
    (
        "sealane_server_requests_discarded_total{server=\"a.test\"}",
        By(1),
    ),
    (
        "sealane_server_received_bytes_total{server=\"a.test\"}",
        By(ASKED_BYTES),
    ),
    ("sealane_server_sent_bytes_total{server=\"a.test\"}", Up),
    ("sealane_server_responses_total{server=\"a.test\"}", By(3)),
    (
        "sealane_server_responses_total{server=\"a.test\",code=\"200\"}",
        By(3),
    ),
    (
        "sealane_server_request_seconds_count{server=\"a.test\"}",
        By(4),
    ),
    ("sealane_server_request_seconds_sum{server=\"a.test\"}", Up),
    (
        "sealane_location_requests_total{location=\"counted\"}",
        By(4),
    ),
    (
        "sealane_location_requests_discarded_total{location=\"counted\"}",
        By(1),
    ),
    (
        "sealane_location_received_bytes_total{location=\"counted\"}",
        By(ASKED_BYTES),
    ),
    (
        "sealane_location_sent_bytes_total{location=\"counted\"}",
        Up,
    ),
    (
        "sealane_location_responses_total{location=\"counted\"}",
        By(3),
    ),
    (
        "sealane_location_responses_total{location=\"counted\",code=\"200\"}",
        By(3),
    ),
];

/// While one connection sends a head, one is being answered, one is idle, and one asks for this.
pub(super) const LEVELS: &[Move] = &[
    ("sealane_connections_active", To(4.0)),
    ("sealane_connections_reading", To(1.0)),
    ("sealane_connections_writing", To(2.0)),
    ("sealane_connections_waiting", To(1.0)),
    ("sealane_server_requests_active{server=\"a.test\"}", To(1.0)),
];

/// And when they are gone.
const AFTERWARDS: &[Move] = &[
    ("sealane_connections_active", To(1.0)),
    ("sealane_connections_reading", To(0.0)),
    ("sealane_connections_writing", To(1.0)),
    ("sealane_connections_waiting", To(0.0)),
    ("sealane_server_requests_active{server=\"a.test\"}", To(0.0)),
];

const SITE: &str = "
    server { listen 127.0.0.1:%plain%; http2 on; server_name a.test; root html;
        location /counted/ { status_zone counted; alias html/; limit_rate 10k; }
        location = /counted/gone { status_zone counted; return 444; } }
    server { listen 127.0.0.1:%metrics%; server_name m.test; location = /metrics { metrics; } }";

#[test]
fn requests_move_the_numbers_of_their_server_and_location() {
    let site = mixed_site();
    let server = site.serve(SITE);
    let watch = Watch::start(&server);
    let mut received = 0;
    for request in [ASK, ASK, ASK, GONE] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(request);
        received += connection.rest().len();
    }
    watch.saw(MOVES);
    for name in [
        "sealane_server_sent_bytes_total{server=\"a.test\"}",
        "sealane_location_sent_bytes_total{location=\"counted\"}",
    ] {
        assert_eq!(watch.growth(name), received as f64, "{name}");
    }
}

#[test]
fn levels_are_those_of_connections_that_are_open() {
    let site = mixed_site();
    let server = site.serve(SITE);
    let watch = Watch::start(&server);
    let mut begun = Connection::open(server.port("plain"));
    begun.send("GET / HT");
    let mut slow = Connection::open(server.port("plain"));
    slow.send("GET /counted/c.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut idle = Connection::open(server.port("plain"));
    idle.send("GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(idle.response(false).status, 200);
    watch.saw(LEVELS);
    drop((begun, slow, idle));
    watch.saw(AFTERWARDS);
    // Streams are requests as well.
    let mut client = Client::open(server.port("plain"), &[]);
    client.request("GET", "/counted/c.bin", &[], true);
    watch.saw(&[("sealane_server_requests_active{server=\"_\"}", To(0.0))]);
    watch.saw(&[("sealane_server_requests_active{server=\"a.test\"}", To(1.0))]);
}
