//! Where handshakes are computed, and how long they wait.

use super::*;
use sealane_tests::metrics::samples_on;
use std::io::Write;
use std::net::TcpStream;

/// One handshake of each key, off its worker.
pub(super) const AWAY: &[Move] = &[
    ("sealane_tls_flights_handed_over_total", By(4)),
    ("sealane_tls_flight_seconds_count", By(4)),
    ("sealane_tls_flight_seconds_sum", Up),
    ("sealane_tls_flight_queue_seconds_count", By(4)),
    ("sealane_tls_key_operation_queue_seconds_count", By(4)),
    ("sealane_tls_key_operation_seconds_count", By(4)),
    (
        "sealane_tls_key_operation_seconds_count{accelerator=\"cpu\"}",
        By(4),
    ),
    (
        "sealane_tls_key_operation_seconds_count{key=\"rsa2048\",accelerator=\"cpu\"}",
        By(1),
    ),
    (
        "sealane_tls_key_operation_seconds_count{key=\"rsa3072\",accelerator=\"cpu\"}",
        By(1),
    ),
    (
        "sealane_tls_key_operation_seconds_count{key=\"p256\",accelerator=\"cpu\"}",
        By(1),
    ),
    (
        "sealane_tls_key_operation_seconds_count{key=\"p384\",accelerator=\"cpu\"}",
        By(1),
    ),
    (
        "sealane_tls_accelerator_busy_seconds_total{accelerator=\"cpu\"}",
        Up,
    ),
    ("sealane_tls_handshakes_failed_total", By(0)),
    ("sealane_tls_handshakes_refused_total", By(0)),
];

/// One handshake, and many at once of which nearly all are refused.
pub(super) const REFUSED: &[Move] = &[("sealane_tls_handshakes_refused_total", Up)];

/// More handshakes at once than the worker computes at a time.
pub(super) const WAITING: [&str; 1] = ["sealane_tls_handshakes_waiting"];

/// The same, and a handshake thread.
pub(super) const QUEUED: [&str; 2] = ["sealane_tls_handshakes_away", "sealane_tls_flights_queued"];

/// The same in batches.
pub(super) const BATCHES: &[Move] = &[
    ("sealane_tls_batch_operations_count", Up),
    ("sealane_tls_batch_operations_sum", By(16)),
    (
        "sealane_tls_key_operation_seconds_count{key=\"rsa2048\",accelerator=\"batch\"}",
        By(16),
    ),
    (
        "sealane_tls_accelerator_busy_seconds_total{accelerator=\"batch\"}",
        Up,
    ),
    ("sealane_tls_key_operations_wrong_total", By(0)),
];

const KEYS: [(&str, &str); 4] = [
    ("rsa2048", "rsa:2048"),
    ("rsa3072", "rsa:3072"),
    ("p256", "ec -pkeyopt ec_paramgen_curve:prime256v1"),
    ("p384", "ec -pkeyopt ec_paramgen_curve:secp384r1"),
];

/// Handshakes are computed by one thread of their own.
const AWAY_FROM_WORKER: &str = "ssl_async on; ssl_async_threads 1;";

/// A server for each key, and the metrics.
fn serve<'a>(site: &'a Site, settings: &str) -> Server<'a> {
    let mut text = format!("ssl_session_tickets off; {settings}");
    for (name, _) in KEYS {
        text.push_str(&format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name {name};
                 ssl_certificate certificates/{name}.pem;
                 ssl_certificate_key certificates/{name}.key; return 204; }}\n"
        ));
    }
    text.push_str("server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }");
    site.serve(&text)
}

/// Opens connections that all send the same bytes.
fn open(server: &Server<'_>, bytes: &[u8], count: usize) -> Vec<TcpStream> {
    let port = server.port("tls");
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(bytes).expect("there is room");
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn handshakes_on_other_threads_are_timed_by_key() {
    let site = Site::with_keys(&KEYS);
    let server = serve(&site, &format!("{AWAY_FROM_WORKER} ssl_accelerator cpu;"));
    let watch = Watch::start(&server);
    for (name, _) in KEYS {
        let result = sealane_tests::handshake(&server, &format!("-servername {name}"));
        assert!(result.succeeded(), "{}", result.output);
    }
    watch.saw(AWAY);
}

#[test]
fn handshakes_that_are_refused_and_those_that_wait_are_counted_and_told() {
    let site = Site::with_keys(&KEYS);
    let server = serve(
        &site,
        &format!("{AWAY_FROM_WORKER} ssl_handshake_queue 20;"),
    );
    server.expect_alert("TLS handshakes refused");
    let watch = Watch::start(&server);
    let hello = sealane_tests::client_hello("rsa3072", "-tls1_2");
    wait_for("handshakes that are refused", || {
        let _clients = open(&server, &hello, 100);
        server.wait_for_log("TLS handshakes refused");
        Some(())
    });
    watch.saw(REFUSED);
}

#[test]
fn handshakes_that_wait_are_counted() {
    for (where_computed, names) in [
        ("ssl_async off;", &WAITING[..]),
        (AWAY_FROM_WORKER, &QUEUED),
    ] {
        let site = Site::with_keys(&KEYS);
        let server = serve(&site, &format!("{where_computed} ssl_accelerator cpu;"));
        // Those that did not wait yet when they were counted may come on top of the next.
        server.expect_alert("TLS handshakes refused");
        let watch = Watch::start(&server);
        let hello = sealane_tests::client_hello("rsa3072", "-tls1_2");
        for name in names {
            wait_for(name, || {
                // What is established gets its turn while hundreds of handshakes take theirs.
                let mut scraper = Connection::open(server.port("metrics"));
                samples_on(&mut scraper);
                let _clients = open(&server, &hello, 200);
                // The first answers may come before the first of them is read.
                (0..20)
                    .any(|_| value(&samples_on(&mut scraper), name) > 0.0)
                    .then_some(())
            });
            watch.saw(&[(name, To(0.0))]);
        }
    }
}

#[test]
fn operations_that_are_computed_together_are_counted_as_a_batch() {
    if doctor()["accelerators"]["batch"]["works"] != true {
        sealane_needs::leave_out("this processor computes nothing in batches (AVX-512 IFMA)");
        return;
    }
    let site = Site::with_keys(&KEYS);
    let server = serve(&site, &format!("{AWAY_FROM_WORKER} ssl_accelerator batch;"));
    let watch = Watch::start(&server);
    let hello = sealane_tests::client_hello("rsa2048", "-tls1_2");
    let clients = open(&server, &hello, 16);
    watch.saw(BATCHES);
    drop(clients);
    let batches = watch.growth("sealane_tls_batch_operations_count");
    assert!(batches <= 16.0, "{batches} batches of 16 operations");
    watch.saw(&[("sealane_tls_key_operations_queued", To(0.0))]);
}
