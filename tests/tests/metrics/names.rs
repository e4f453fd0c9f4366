//! Names of metrics: those in the manual, in the boards of `examples/`, and in the answers.

use super::*;

/// Names of metrics in a text: `sealane_` and what follows.
pub(super) fn names_in(text: &str) -> std::collections::BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let pieces = text.match_indices("sealane_").map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    pieces
        .filter(|name| name.len() > "sealane_".len())
        .collect()
}

/// The name of a family, without what its samples add.
fn family_of(name: &str) -> &str {
    let endings = ["_total", "_bucket", "_count", "_sum"];
    let cut = endings
        .into_iter()
        .find_map(|ending| name.strip_suffix(ending));
    cut.unwrap_or(name)
}

/// Everything that can be configured and counted is there.
const EVERYTHING: &str = "
    worker_processes 2; pid logs/pid; error_log logs/error.log notice;
    events { worker_connections 512; }
    http {
        access_log off;
        resolver 127.0.0.1:%dns% status_zone=names; resolver_timeout 1s;
        limit_req_zone $binary_remote_addr zone=rate:1m rate=1r/m;
        limit_conn_zone $binary_remote_addr zone=open:1m;
        otel_exporter { endpoint 127.0.0.1:%nobody%; }
        proxy_cache_path cache keys_zone=kept:1m max_size=10m;
        ssl_certificate certificates/localhost.pem; ssl_certificate_key certificates/localhost.key;
        ssl_session_store redis://127.0.0.1:%redis% key=store.key timeout=1s;
        upstream dead { server 127.0.0.1:%nobody% max_fails=1; server 127.0.0.1:%nowhere% max_fails=1; }
        upstream waits { server 127.0.0.1:%nobody%; queue 10 timeout=1s; }
        server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; http2 on;
            server_name localhost; root html;
            location /kept/ { status_zone kept; proxy_pass http://127.0.0.1:%plain%/; proxy_cache kept;
                proxy_cache_valid 1h; }
            location /dead/ { proxy_pass http://dead/; }
            location /name/ { set $name nobody.test; proxy_pass http://$name:%plain%/; }
            location /gone { status_zone gone; return 444; }
            location /rate/ { limit_req zone=rate; alias html/; }
            location /open/ { limit_conn open 1; alias html/; limit_rate 10k; } }
        server { listen 127.0.0.1:%metrics%; server_name m.test;
            location = /metrics { metrics; } }
    }";

/// Does everything that the configuration of [`EVERYTHING`] counts.
fn provoke(server: &Server<'_>) {
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
    // One is slow, so that there is no room for the other, unless the other is served first.
    let mut slow = Vec::new();
    wait_for("the first to hold its place", || {
        let mut connection = Connection::open(plain);
        connection.send("GET /open/c.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        slow.push(connection);
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

/// The samples of a server that has everything, and has been used.
pub(super) fn shown_by_a_server_with_everything() -> Samples {
    server_with_everything(samples)
}

fn server_with_everything<T>(ask: impl FnOnce(u16) -> T) -> T {
    let site = mixed_site();
    site.write("store.key", [7; 80]);
    let redis = sealane_tests::Redis::start(&site, "redis", &[]);
    let text = EVERYTHING.replace("%redis%", &redis.port().to_string());
    let server = site.serve_whole(&text);
    provoke(&server);
    ask(server.port("metrics"))
}

#[test]
fn the_manual_and_the_boards_name_what_there_is() {
    let shown = server_with_everything(|port| wire::get(port, "/metrics").text());
    let shown: std::collections::BTreeSet<String> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .map(|name| family_of(name).to_owned())
        .collect();
    let repository = sealane_tests::repository();
    let manual = fs::read_to_string(repository.join("docs/monitoring.md")).expect("the manual");
    let named: std::collections::BTreeSet<String> = names_in(&manual)
        .iter()
        .map(|name| family_of(name).to_owned())
        .collect();
    let missing: Vec<_> = shown.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "docs/monitoring.md does not name {missing:?}"
    );
    // Some need what this test does not have: staples, devices with keys.
    let rare = [
        "sealane_staple_next_update_timestamp_seconds",
        "sealane_key_device_fallbacks",
        "sealane_key_device_operation_seconds",
        "sealane_key_device_operations_failed",
        "sealane_key_device_operations_queued",
        "sealane_key_device_operations_refused",
        "sealane_key_device_up",
    ];
    let unknown: Vec<_> = named
        .difference(&shown)
        .filter(|name| !rare.contains(&name.as_str()))
        .collect();
    assert!(
        unknown.is_empty(),
        "docs/monitoring.md names {unknown:?}, which there are not"
    );
    let board =
        fs::read_to_string(repository.join("examples/monitoring/grafana.json")).expect("the board");
    let _: serde_json::Value = serde_json::from_str(&board).expect("JSON");
    let on_board = names_in(&board);
    assert!(on_board.len() > 20, "{on_board:?}");
    for name in on_board {
        assert!(
            shown.contains(family_of(&name)),
            "the board asks for {name}"
        );
    }
}
