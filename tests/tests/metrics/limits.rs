//! Zones of `limit_req` and `limit_conn`.

use super::*;

/// One request of each kind, in zones for them.
pub(super) const MOVES: &[Move] = &[
    (
        "sealane_zone_keys{use=\"limit_req\",zone=\"rate\"}",
        To(1.0),
    ),
    (
        "sealane_zone_used_bytes{use=\"limit_req\",zone=\"rate\"}",
        To(128.0),
    ),
    (
        "sealane_zone_size_bytes{use=\"limit_req\",zone=\"rate\"}",
        To(24_576.0),
    ),
    (
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"passed\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"rejected\"}",
        By(2),
    ),
    (
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"skipped\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"exhausted\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"delayed\"}",
        By(0),
    ),
    (
        "sealane_limit_requests_total{zone=\"burst\",verdict=\"passed\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"burst\",verdict=\"delayed\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"dry\",verdict=\"passed\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"dry\",verdict=\"delayed_dry_run\"}",
        By(1),
    ),
    (
        "sealane_limit_requests_total{zone=\"dry\",verdict=\"rejected_dry_run\"}",
        By(1),
    ),
    (
        "sealane_limit_connections_total{zone=\"open\",verdict=\"passed\"}",
        By(1),
    ),
    (
        "sealane_limit_connections_total{zone=\"open\",verdict=\"rejected\"}",
        By(1),
    ),
    (
        "sealane_limit_connections_total{zone=\"open\",verdict=\"rejected_dry_run\"}",
        By(1),
    ),
    (
        "sealane_limit_connections_total{zone=\"open\",verdict=\"skipped\"}",
        By(1),
    ),
    (
        "sealane_limit_connections_total{zone=\"open\",verdict=\"exhausted\"}",
        By(0),
    ),
];

/// More keys at a time than a zone has room for.
pub(super) const EXHAUSTED: &[Move] = &[(
    "sealane_limit_connections_total{zone=\"open\",verdict=\"exhausted\"}",
    By(1),
)];

const SITE: &str = "
    large_client_header_buffers 4 64k;
    limit_req_zone $arg_key zone=rate:32k rate=1r/m;
    limit_req_zone $arg_key zone=burst:32k rate=10r/s;
    limit_req_zone $arg_key zone=dry:32k rate=1r/m;
    limit_conn_zone $arg_key zone=open:32k;
    server { listen 127.0.0.1:%plain%; root html;
        location /rate/ { limit_req zone=rate; alias html/; }
        location /burst/ { limit_req zone=burst burst=1; alias html/; }
        location /dry/ { limit_req zone=dry burst=1; limit_req_dry_run on; alias html/; }
        location /open/ { limit_conn open 1; alias html/; limit_rate 10k; }
        location /opendry/ { limit_conn open 1; limit_conn_dry_run on; alias html/; } }
    server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }";

/// A response that takes long, on a connection that stays open.
fn slow(port: u16, key: &str) -> Connection {
    let mut connection = Connection::open(port);
    connection.send(format!(
        "GET /open/c.bin?key={key} HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    connection
}

#[test]
fn what_becomes_of_requests_is_counted_by_zone() {
    let site = mixed_site();
    let server = site.serve(SITE);
    server.expect_alert("could not allocate node in limit_req zone");
    let port = server.port("plain");
    let watch = Watch::start(&server);
    // No zone of 32 KiB has room for a key of 40 KB.
    let large = "k".repeat(40_000);
    for (path, key, status) in [
        ("rate", "k", 200),
        ("rate", "k", 503),
        ("rate", "k", 503),
        ("rate", "", 200),
        ("rate", &large, 503),
        ("burst", "k", 200),
        ("burst", "k", 200),
        ("dry", "k", 200),
        ("dry", "k", 200),
        ("dry", "k", 200),
        ("open", "", 200),
    ] {
        let answer = wire::get(port, &format!("/{path}/a.txt?key={key}"));
        assert_eq!(answer.status, status, "{path}");
    }
    let holds = slow(port, "k");
    watch.saw(&[(
        "sealane_limit_connections_total{zone=\"open\",verdict=\"passed\"}",
        By(1),
    )]);
    for (path, status) in [("open", 503), ("opendry", 200)] {
        assert_eq!(
            wire::get(port, &format!("/{path}/a.txt?key=k")).status,
            status,
            "{path}"
        );
    }
    drop(holds);
    watch.saw(MOVES);
    for (text, count) in [
        ("limiting requests, excess: ", 2),
        ("limiting requests, dry run, excess: ", 1),
        ("delaying request, excess: ", 1),
        ("limiting connections by zone \"open\"", 1),
        ("limiting connections, dry run, by zone \"open\"", 1),
        ("could not allocate node in limit_req zone \"rate\"", 1),
    ] {
        wait_for(text, || {
            (server.error_log().matches(text).count() == count).then_some(())
        });
    }
}

#[test]
fn a_zone_without_room_is_told_from_a_limit() {
    let site = mixed_site();
    let server = site.serve(SITE);
    server.expect_alert("could not allocate node in limit_conn_zone");
    let port = server.port("plain");
    let watch = Watch::start(&server);
    let mut held = Vec::new();
    for number in 0..1000 {
        let connection = slow(port, &format!("{number:0>250}"));
        // The head is enough: the rest comes slowly.
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut connection.socket(), &mut head).expect("an answer");
        if head.ends_with(b"503") {
            break;
        }
        held.push(connection);
    }
    watch.saw(EXHAUSTED);
    let passed = "sealane_limit_connections_total{zone=\"open\",verdict=\"passed\"}";
    assert_eq!(watch.growth(passed), held.len() as f64);
    server.wait_for_log("could not allocate node in limit_conn_zone \"open\"");
}
