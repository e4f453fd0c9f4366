//! What makes numbers move.

use super::*;

/// Does everything that the configuration of [`super::names`] counts.
pub(super) fn provoke(server: &Server<'_>) {
    let plain = server.port("plain");
    for path in [
        "/a.txt",
        "/kept/a.txt",
        "/kept/a.txt",
        "/dead/",
        "/dead/",
        "/name/",
        "/gone",
    ] {
        let mut connection = Connection::open(plain);
        connection.send(format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ));
        let _ = connection.try_response(false);
    }
    for _ in 0..3 {
        wire::get(plain, "/rate/a.txt");
    }
    // One is slow, so that there is no room for the other.
    let mut slow = Connection::open(plain);
    slow.send("GET /open/c.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for("the first to hold its place", || {
        (wire::get(plain, "/open/a.txt").status == 503).then_some(())
    });
    drop(slow);
    for version in ["-tls1_2", "-tls1_3"] {
        let outcome = sealane_tests::handshake(server, version);
        assert!(outcome.succeeded(), "{version}");
    }
    assert!(
        !sealane_tests::handshake(server, "-tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256")
            .succeeded()
    );
}

#[test]
fn every_number_moves() {
    let site = mixed_site();
    site.write("store.key", [7; 80]);
    let redis = sealane_tests::Redis::start(&site, "redis", &[]);
    let text = names::EVERYTHING.replace("%redis%", &redis.port().to_string());
    let server = site.serve_whole(&text);
    let before = samples(server.port("metrics"));
    provoke(&server);
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    let moved = [
        "sealane_connections_accepted_total",
        "sealane_connections_handled_total",
        "sealane_requests_total",
        "sealane_tls_handshakes_total",
        "sealane_tls_handshakes_failed_total",
        "sealane_tls_sessions_full_total",
        "sealane_tls_handshake_seconds_count",
        "sealane_tls_handshake_queue_seconds_count",
        "sealane_tls_key_operation_queue_seconds_count",
        "sealane_tls_key_operation_seconds_count{key=\"p256\",accelerator=\"cpu\"}",
        "sealane_tls_accelerator_busy_seconds_total{accelerator=\"cpu\"}",
        "sealane_server_connections_total{server=\"localhost\"}",
        "sealane_server_requests_total{server=\"localhost\"}",
        "sealane_server_requests_discarded_total{server=\"localhost\"}",
        "sealane_server_received_bytes_total{server=\"localhost\"}",
        "sealane_server_sent_bytes_total{server=\"localhost\"}",
        "sealane_server_request_seconds_count{server=\"localhost\"}",
        "sealane_server_responses_total{server=\"localhost\",code=\"200\"}",
        "sealane_server_responses_total{server=\"localhost\",code=\"502\"}",
        "sealane_server_tls_handshakes_total{server=\"localhost\",result=\"full\"}",
        "sealane_server_tls_handshakes_total{server=\"localhost\",result=\"failed\"}",
        "sealane_location_requests_total{location=\"kept\"}",
        "sealane_location_requests_discarded_total{location=\"gone\"}",
        "sealane_location_sent_bytes_total{location=\"kept\"}",
        "sealane_location_received_bytes_total{location=\"kept\"}",
        "sealane_location_responses_total{location=\"kept\",code=\"200\"}",
        "sealane_upstream_requests_without_peer_total{upstream=\"dead\"}",
        "sealane_cache_responses_total{cache=\"kept\",status=\"miss\"}",
        "sealane_cache_responses_total{cache=\"kept\",status=\"hit\"}",
        "sealane_cache_sent_bytes_total{cache=\"kept\",status=\"hit\"}",
        "sealane_cache_responses_written_total{cache=\"kept\"}",
        "sealane_cache_written_bytes_total{cache=\"kept\"}",
        "sealane_cache_keys{cache=\"kept\"}",
        "sealane_cache_size_bytes{cache=\"kept\"}",
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"passed\"}",
        "sealane_limit_requests_total{zone=\"rate\",verdict=\"rejected\"}",
        "sealane_limit_connections_total{zone=\"open\",verdict=\"passed\"}",
        "sealane_limit_connections_total{zone=\"open\",verdict=\"rejected\"}",
        "sealane_resolver_queries_total{resolver=\"names\",type=\"name\"}",
        "sealane_resolver_responses_total{resolver=\"names\",result=\"timed_out\"}",
        "sealane_reloads_total{result=\"success\"}",
    ];
    wait_for("the numbers to move", || {
        let after = samples(server.port("metrics"));
        let still: Vec<_> = moved
            .iter()
            .filter(|name| value(&after, name) <= value(&before, name))
            .collect();
        if !still.is_empty() {
            eprintln!("waiting for {still:?}");
        }
        still.is_empty().then_some(())
    });
    let after = samples(server.port("metrics"));
    let dead = format!("127.0.0.1:{}", server.port("nobody"));
    for name in ["upstream_failures_total", "upstream_left_out_total"] {
        let name = format!("sealane_{name}{{upstream=\"dead\",peer=\"{dead}\"}}");
        assert_eq!(value(&after, &name), 1.0, "{name}");
    }
    let state = format!(
        "sealane_upstream_peer_state{{upstream=\"dead\",peer=\"{dead}\",state=\"unavailable\"}}"
    );
    assert_eq!(value(&after, &state), 1.0);
    let up = |(name, is_up): (&String, &f64)| {
        name.starts_with("sealane_session_store_up{") && *is_up == 1.0
    };
    assert!(after.iter().any(up), "the store is there");
}
