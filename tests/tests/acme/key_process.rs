//! Keys of certificates from ACME servers are in the key process.

use super::nodes::Cluster;
use super::*;
use sealane_tests::memory::{self, AS_IN_MEMORY, Secret};
use sealane_tests::{Redis, handshake, scale};

/// The keys of the certificates in a site's state directory.
#[track_caller]
fn keys(site: &Site) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for entry in std::fs::read_dir(site.path("acme_pebble")).expect("it is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read(&path).expect("it is whole");
        let record: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let key = record["certificate"]["key"].as_str().expect("it has a key");
        let pem = command("base64", &["-d"], key.as_bytes()).success().stdout;
        let file = site.write("taken.key", pem);
        secrets.extend(Secret::of_key_file("key", &file));
    }
    assert!(!secrets.is_empty());
    secrets
}

fn found(secrets: &[Secret], pid: u32) -> Vec<String> {
    let found = memory::find_in_process(secrets, pid).into_iter();
    found.map(|(name, _)| name).collect()
}

/// Both kinds of keys have numbers of these names.
#[track_caller]
fn has_keys(secrets: &[Secret], pid: u32) {
    let expected = secrets.iter().map(|secret| &secret.name);
    let expected: Vec<_> = expected
        .filter(|name| name.ends_with(AS_IN_MEMORY))
        .collect();
    let found = found(secrets, pid);
    for name in expected {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
}

#[track_caller]
fn has_no_keys(secrets: &[Secret], server: &Server<'_>, when: &str) {
    for pid in [server.pid(), server.worker_pid()] {
        assert_eq!(found(secrets, pid), Vec::<String>::new(), "{when}");
    }
}

/// A certificate of each kind.
fn two_kinds() -> String {
    let server = |name: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name {name};
                ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off; ssl_session_cache off;
                ssl_ciphers ECDHE+AES:AES128-SHA; {more}
                acme_certificate pebble {name} key=KEY;
                ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n"
        )
    };
    let http = "server { listen 127.0.0.1:%http%; return 404; }";
    let ec = server("ec.test", "").replace("KEY", "ecdsa:256");
    let rsa = server("rsa.test", "").replace("KEY", "rsa:2048");
    format!("{ec}{rsa}{http}")
}

#[track_caller]
fn shake_hands(server: &Server<'_>) {
    for options in [
        "-servername ec.test -tls1_2",
        "-servername ec.test -tls1_3",
        "-servername rsa.test -tls1_2",
        "-servername rsa.test -tls1_3",
        "-servername rsa.test -tls1_2 -cipher AES128-SHA",
    ] {
        let shown = handshake(server, options);
        assert!(shown.succeeded(), "{options}: {}", shown.output);
    }
}

#[test]
fn keys_are_in_the_key_process_alone() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(&site, settings(&site));
    let text = two_kinds();
    let server = start(&site, &issuer(""), &text);
    server.expect_alert("exited on signal 9");
    for name in ["ec.test", "rsa.test"] {
        wait_for_certificate(server.port("tls"), name);
    }
    shake_hands(&server);
    let secrets = keys(&site);
    has_no_keys(&secrets, &server, "when they have come");
    if sealane_needs::is_root() {
        has_keys(&secrets, server.key_process_pid());
    }
    // The next process has them before anybody asks.
    for _ in 0..scale(5, 50) {
        server.kill_key_process();
        shake_hands(&server);
    }
    has_no_keys(&secrets, &server, "with another key process");
    assert!(matches!(
        reload_as_it_is(&server),
        sealane_tests::reload::Reload::Applied
    ));
    shake_hands(&server);
    server.kill_worker();
    shake_hands(&server);
    has_no_keys(&secrets, &server, "in another worker");
    server.stop("QUIT");
    std::fs::write(site.path("logs/error.log"), "").expect("ours");
    // What was kept is read again.
    let server = start(&site, &issuer(""), &text);
    shake_hands(&server);
    has_no_keys(&secrets, &server, "after a restart");
    server.stop("QUIT");
    // Without a key process the same search finds them.
    let off = text.replacen("server {", "ssl_key_process off; server {", 1);
    let server = start(&site, &issuer(""), &off);
    shake_hands(&server);
    has_keys(&secrets, server.worker_pid());
    assert_eq!(pebble.orders(), 2);
}

#[test]
fn nodes_share_keys_that_none_has_in_its_worker() {
    if !has_go(24) {
        return;
    }
    let cluster = Cluster::new(2);
    let first = &cluster.sites[0];
    let _pebble = Pebble::start(first, cluster.settings());
    let _redis = Redis::start(first, "redis", &[]);
    let servers = cluster.start(&cluster.configuration("", "nodes.test"));
    super::nodes::same_everywhere(&servers, "nodes.test");
    let secrets = keys(first);
    for server in &servers {
        has_no_keys(&secrets, server, "when both serve it");
        if sealane_needs::is_root() {
            has_keys(&secrets, server.key_process_pid());
        }
    }
}
