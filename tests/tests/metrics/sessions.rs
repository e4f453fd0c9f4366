//! TLS sessions: made, resumed, missed. Those of a store and early data move in the tests of these.

use super::*;

/// What [`sessions_are_counted_by_how_they_were_resumed_and_why_not`] does.
pub(super) const MOVES: &[Move] = &[
    ("sealane_tls_handshakes_total", By(10)),
    ("sealane_tls_handshakes_resumed_total", By(3)),
    ("sealane_tls_handshakes_failed_total", By(1)),
    ("sealane_tls_sessions_full_total", By(7)),
    ("sealane_tls_sessions_resumed_total", By(3)),
    ("sealane_tls_sessions_resumed_total{by=\"ticket\"}", By(1)),
    ("sealane_tls_sessions_resumed_total{by=\"id\"}", By(1)),
    ("sealane_tls_sessions_resumed_total{by=\"opaque\"}", By(1)),
    ("sealane_tls_sessions_missed_total", By(3)),
    (
        "sealane_tls_sessions_missed_total{reason=\"evicted\"}",
        By(1),
    ),
    (
        "sealane_tls_sessions_missed_total{reason=\"unknown_key\"}",
        By(1),
    ),
    (
        "sealane_tls_sessions_missed_total{reason=\"other_parameters\"}",
        By(1),
    ),
    (
        "sealane_server_tls_handshakes_total{result=\"full\"}",
        By(7),
    ),
    (
        "sealane_server_tls_handshakes_total{result=\"resumed\"}",
        By(3),
    ),
    (
        "sealane_server_tls_handshakes_total{result=\"failed\"}",
        By(1),
    ),
    ("sealane_tls_handshake_seconds_count", By(10)),
    ("sealane_tls_handshake_seconds_sum", Up),
    ("sealane_tls_handshake_queue_seconds_count", By(10)),
    (
        "sealane_tls_key_operation_seconds_count{key=\"p256\"}",
        By(7),
    ),
];

/// A connection of openssl's to a port; whether it resumed the session of `offered`.
#[track_caller]
fn connect(site: &Site, port: u16, options: &str, kept: &str, offered: Option<&str>) -> bool {
    let file = |name: &str| site.path(format!("{name}.session")).display().to_string();
    let mut words = format!("{options} -sess_out {}", file(kept));
    if let Some(offered) = offered {
        words.push_str(&format!(" -sess_in {}", file(offered)));
    }
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["s_client", "-connect", &address, "-ign_eof"];
    arguments.extend(words.split(' '));
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let text = command("openssl", &arguments, request).success().text();
    text.contains("\nReused, ")
}

#[test]
fn sessions_are_counted_by_how_they_were_resumed_and_why_not() {
    let site = mixed_site();
    let block = |port: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:%{port}% ssl; server_name localhost; {more}
                 ssl_certificate certificates/localhost.pem;
                 ssl_certificate_key certificates/localhost.key; return 204; }}"
        )
    };
    let server = site.serve(
        &format!(
            "{} {} {} {}
         server {{ listen 127.0.0.1:%metrics%; location = /metrics {{ metrics; }} }}",
            block("tls", "ssl_ciphers HIGH;"),
            block("keys", "ssl_session_ticket_key other.key;"),
            block(
                "ids",
                "ssl_session_tickets off; ssl_session_cache shared:ids:1m;"
            ),
            block(
                "none",
                "ssl_session_tickets off; ssl_session_cache shared:none:1m;"
            ),
        )
        .replace(
            "other.key",
            &site.write("other.key", [9; 80]).display().to_string(),
        ),
    );
    let [tls, keys, ids, none] = ["tls", "keys", "ids", "none"].map(|name| server.port(name));
    let watch = Watch::start(&server);
    let ecdhe = |suite: &str| format!("-tls1_2 -cipher ECDHE-ECDSA-{suite}");
    let (first, second) = (ecdhe("AES128-GCM-SHA256"), ecdhe("AES256-GCM-SHA384"));
    for (port, options, kept, offered, resumes) in [
        (tls, "-tls1_3", "ticket", None, false),
        (tls, "-tls1_3", "more", Some("ticket"), true),
        (keys, "-tls1_3", "more", Some("ticket"), false),
        (ids, "-tls1_2", "id", None, false),
        (ids, "-tls1_2", "more", Some("id"), true),
        (none, "-tls1_2", "more", Some("id"), false),
        (ids, "-tls1_3", "opaque", None, false),
        (ids, "-tls1_3", "more", Some("opaque"), true),
        (tls, &first, "suite", None, false),
        (tls, &second, "more", Some("suite"), false),
    ] {
        let resumed = connect(&site, port, options, kept, offered);
        assert_eq!(resumed, resumes, "{options} {offered:?}");
    }
    let unknown = "-tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256";
    assert!(!sealane_tests::handshake(&server, unknown).succeeded());
    watch.saw(MOVES);
}
