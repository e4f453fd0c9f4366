//! Sessions on whichever node the client lands: three servers behind a relay that
//! takes them in turn, with a real Redis.

use sealane_tests::metrics::Step::{To, Up};
use sealane_tests::metrics::Watch;
use sealane_tests::nodes::{
    Count, configuration, openssl, relay_to, sites, start, wait_until_shared,
};
use sealane_tests::{
    Certificate, CertificateKey, Program, Redis, Relay, Server, Site, command, faketime_library,
    go_client, scale, wait_for,
};
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

/// Where a test is not about the deadline, the machine's other work shall not
/// decide it.
const PATIENT: &str = "timeout=1s";

/// `openssl s_client -reconnect`: five more connections with the first session, at
/// once: the first of them may come before the store has heard of the session.
#[track_caller]
fn openssl_reconnect(port: u16, options: &str) -> Count {
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["s_client", "-connect", &address, "-reconnect"];
    arguments.extend(options.split_whitespace());
    let outcome = command("openssl", &arguments, b"Q\n").success();
    let output = outcome.text();
    Count {
        connections: output.matches(", Cipher is ").count() - 1,
        resumed: output.matches("Reused, ").count(),
    }
}

/// curl, which keeps sessions in memory from URL to URL.
#[track_caller]
fn curl(site: &Site, port: u16, options: &str, connections: usize) -> Count {
    let authority = site.authority().display().to_string();
    let url = format!("https://localhost:{port}/tls");
    let resolve = format!("localhost:{port}:127.0.0.1");
    let mut arguments = vec![
        "-sS",
        "-f",
        "--http1.1",
        "-H",
        "Connection: close",
        "--cacert",
        &authority,
        "--resolve",
        &resolve,
        // A client that is back within a millisecond may be faster than the store.
        "--rate",
        "50/s",
    ];
    arguments.extend(options.split_whitespace());
    arguments.extend(std::iter::repeat_n(url.as_str(), connections + 1));
    let output = command("curl", &arguments, b"").success().text();
    assert_eq!(output.matches('<').count(), connections + 1, "{output}");
    Count {
        connections,
        resumed: output.matches("<r>").count(),
    }
}

/// The Go client in several lanes for some time.
#[derive(Debug)]
struct Lanes {
    count: Count,
    failed: usize,
    p50_us: usize,
    p99_us: usize,
}

#[track_caller]
fn go(site: &Site, port: u16, version: &str, lanes: usize, time: Duration, pause: &str) -> Lanes {
    let outcome = go_client(
        &[
            "resume",
            "-address",
            &format!("127.0.0.1:{port}"),
            "-ca",
            &site.authority().display().to_string(),
            "-tls",
            version,
            "-parallel",
            &lanes.to_string(),
            "-for",
            &format!("{}ms", time.as_millis()),
            "-pause",
            pause,
            "/tls",
        ],
        b"",
    )
    .success();
    let text = outcome.text();
    let number = |name: &str| -> usize {
        let found = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name));
        found
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let lanes = Lanes {
        count: Count {
            connections: number("connections="),
            resumed: number("resumed="),
        },
        failed: number("failed="),
        p50_us: number("p50_us="),
        p99_us: number("p99_us="),
    };
    let Lanes { p50_us, p99_us, .. } = lanes;
    println!(
        "TLS {version}: {:?}, {} failed, handshakes {p50_us} us, p99 {p99_us} us {}",
        lanes.count, lanes.failed, outcome.stderr
    );
    lanes
}

/// Every client that can resume in this way, in each version given.
#[track_caller]
fn all_clients(site: &Site, relay: &Relay, versions: &[&str]) {
    let port = relay.port();
    for version in versions {
        let options = format!("-tls1_{}", &version[2..]);
        wait_until_shared(site, port, &options);
        openssl(site, port, &options, scale(40, 200)).at_least(99, &format!("openssl {version}"));
        // curl asks for no tickets below TLS 1.3: it resumes by session id there.
        if *version == "1.3" {
            curl(site, port, "", scale(40, 200)).at_least(99, "curl 1.3");
        }
        let time = Duration::from_secs(scale(2, 10) as u64);
        let lanes = go(site, port, version, 4, time, "5ms");
        assert_eq!(lanes.failed, 0);
        lanes.count.at_least(99, &format!("Go {version}"));
    }
    let counts = relay.connections();
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
}

#[test]
fn key_files_resume_on_every_node() {
    let sites = sites();
    for site in &sites {
        site.write("ticket.key", [7; 80]);
    }
    let servers = start(&sites, "ssl_session_ticket_key ticket.key;");
    all_clients(&sites[0], &relay_to(&servers), &["1.2", "1.3"]);
}

#[test]
fn a_shared_ring_resumes_on_every_node() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let store = format!(
        "ssl_session_store redis://127.0.0.1:{} {PATIENT};",
        redis.port()
    );
    let servers = start(&sites, &store);
    servers[0].wait_for_log("sealed with the key of each server's first certificate");
    all_clients(&sites[0], &relay_to(&servers), &["1.2", "1.3"]);
    let keys = redis.keys();
    assert!(
        keys.iter().any(|key| key.starts_with("sealane:k:")),
        "{keys:?}"
    );
    assert!(
        !keys.iter().any(|key| key.starts_with("sealane:s:")),
        "no cache, no sessions: {keys:?}"
    );
}

#[test]
fn session_ids_resume_on_every_node() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let servers = start(
        &sites,
        &format!(
            "ssl_session_tickets off; ssl_session_cache shared:S:1m; ssl_protocols TLSv1.2;
             ssl_session_store redis://127.0.0.1:{} {PATIENT};",
            redis.port()
        ),
    );
    let relay = relay_to(&servers);
    // Go's client has no session ids.
    let port = relay.port();
    wait_until_shared(&sites[0], port, "-tls1_2");
    for options in ["-tls1_2", "-tls1_2 -no_ticket"] {
        openssl(&sites[0], port, options, scale(40, 200)).at_least(99, options);
        openssl_reconnect(port, options).at_least(80, "-reconnect");
    }
    curl(&sites[0], port, "--tls-max 1.2", scale(40, 200)).at_least(99, "curl");
    let keys = redis.keys();
    assert!(
        keys.iter().any(|key| key.starts_with("sealane:s:")),
        "{keys:?}"
    );
}

#[test]
fn opaque_tickets_resume_on_every_node() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let servers = start(
        &sites,
        &format!(
            "ssl_session_tickets off; ssl_session_cache shared:S:1m;
             ssl_session_store redis://127.0.0.1:{} prefix=mine: {PATIENT};",
            redis.port()
        ),
    );
    all_clients(&sites[0], &relay_to(&servers), &["1.3"]);
    let keys = redis.keys();
    assert!(keys.iter().all(|key| key.starts_with("mine:")), "{keys:?}");
}

/// What the store does to clients, not how fast it is: the latencies are printed.
#[test]
fn a_store_that_is_paused_killed_or_full_fails_no_handshake() {
    let sites = sites();
    let mut redis = Redis::start(&sites[0], "redis", &[]);
    let servers = start(
        &sites,
        &format!(
            "ssl_session_tickets off; ssl_session_cache shared:S:1m;
             ssl_session_store redis://127.0.0.1:{};",
            redis.port()
        ),
    );
    let relay = relay_to(&servers);
    let (site, port) = (&sites[0], relay.port());
    wait_until_shared(site, port, "-tls1_3");
    let load = |what: &str, meanwhile: &mut dyn FnMut()| {
        println!("---- {what}");
        std::thread::scope(|scope| {
            let time = Duration::from_secs(scale(4, 20) as u64);
            let lanes = scope.spawn(move || go(site, port, "1.3", 4, time, "5ms"));
            meanwhile();
            let lanes = lanes.join().expect("the client runs");
            assert_eq!(lanes.failed, 0, "{what}");
            assert!(lanes.count.connections > 20, "{what}: {lanes:?}");
            lanes
        })
    };
    let watch = Watch::start(&servers[0]);
    let usual = load("as usual", &mut || {});
    usual.count.at_least(99, "as usual");
    watch.saw(&[
        ("sealane_session_store_up", To(1.0)),
        (
            "sealane_session_store_requests_total{result=\"success\"}",
            Up,
        ),
        ("sealane_tls_sessions_resumed_total{by=\"store\"}", Up),
    ]);

    load("paused", &mut || {
        redis.pause();
        for server in &servers {
            server.wait_for_log("is not reachable (it does not answer within 20 ms)");
        }
        watch.saw(&[("sealane_session_store_up", To(0.0))]);
        redis.resume();
    });
    watch.saw(&[
        ("sealane_session_store_up", To(1.0)),
        (
            "sealane_session_store_requests_total{result=\"timed_out\"}",
            Up,
        ),
        (
            "sealane_tls_sessions_missed_total{reason=\"store_timeout\"}",
            Up,
        ),
    ]);
    wait_until_shared(site, port, "-tls1_3");

    let watch = Watch::start(&servers[0]);
    load("killed", &mut || redis.kill());
    watch.saw(&[
        ("sealane_session_store_up", To(0.0)),
        ("sealane_session_store_requests_total{result=\"error\"}", Up),
        (
            "sealane_tls_sessions_missed_total{reason=\"store_error\"}",
            Up,
        ),
    ]);
    load("restarted", &mut || redis.restart());
    wait_until_shared(site, port, "-tls1_3");

    load("filled", &mut || {
        redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        for server in &servers {
            server.wait_for_log("refuses requests (");
        }
    });
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until_shared(site, port, "-tls1_3");

    for server in &servers {
        server.wait_for_log("stores again");
        let log = server.error_log();
        let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(
            lines("is not reachable ("),
            2,
            "one for each outage:\n{log}"
        );
        assert_eq!(lines("is back"), 2, "{log}");
        assert_eq!(lines("refuses requests ("), 1, "{log}");
        assert_eq!(lines("stores again"), 1, "{log}");
    }
}

#[test]
fn nodes_that_start_without_the_store_join_when_it_comes() {
    let sites = sites();
    let mut redis = Redis::start(&sites[0], "redis", &[]);
    redis.kill();
    let store = format!("ssl_session_store redis://127.0.0.1:{};", redis.port());
    let servers = start(&sites, &store);
    let relay = relay_to(&servers);
    for server in &servers {
        server.wait_for_log("is not reachable (");
        assert!(server.error_log().contains("[error]"));
    }
    // Each on its own meanwhile.
    let alone = openssl(&sites[0], servers[0].port("tls"), "-tls1_3", 3);
    alone.at_least(99, "one node alone");
    redis.restart();
    all_clients(&sites[0], &relay, &["1.3"]);
}

#[test]
fn nodes_that_start_together_seal_with_the_same_key_from_the_first_connection() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let store = format!(
        "ssl_session_store redis://127.0.0.1:{} {PATIENT};",
        redis.port()
    );
    for round in 0..scale(3, 20) {
        // No key lies in the store: each node could make the first one.
        redis.ask(&["FLUSHALL"]);
        let servers: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> = sites
                .iter()
                .map(|site| {
                    scope.spawn(|| Server::start(site, Program::Sealane, &configuration(&store)))
                })
                .collect();
            let started = starting.into_iter();
            started
                .map(|server| server.join().expect("it starts"))
                .collect()
        });
        // Every node is asked once for a session, which the others resume at once.
        let relay = relay_to(&servers);
        for version in ["-tls1_2", "-tls1_3"] {
            let count = openssl(&sites[0], relay.port(), version, servers.len());
            assert_eq!(count.resumed, count.connections, "round {round}, {version}");
        }
    }
}

#[test]
fn a_store_that_does_not_answer_holds_the_start_up_for_a_bounded_time() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    redis.pause();
    let store = format!("ssl_session_store redis://127.0.0.1:{};", redis.port());
    let server = Server::start(&sites[0], Program::Sealane, &configuration(&store));
    // The kernel accepts the connection, and nothing is heard on it.
    server.wait_for_log("has not given its ticket keys within 2 s");
    let alone = openssl(&sites[0], server.port("tls"), "-tls1_2", 3);
    alone.at_least(99, "one node alone");
    // It joins later, as the nodes that found nothing.
    redis.resume();
    wait_for("its key in the store", || {
        let keys = redis.keys();
        keys.iter()
            .any(|key| key.starts_with("sealane:k:"))
            .then_some(())
    });
}

#[test]
fn keys_rotate_on_all_nodes_while_their_clocks_differ_by_a_minute() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let configuration = configuration(&format!(
        "ssl_session_ticket_rotation 2s; ssl_session_timeout 5m;
         ssl_session_store redis://127.0.0.1:{};",
        redis.port()
    ));
    let preload = format!("LD_PRELOAD={}", faketime_library());
    let servers: Vec<Server<'_>> = sites
        .iter()
        .zip(["+0", "+60s", "+30s"])
        .map(|(site, offset)| {
            let time = format!("FAKETIME={offset}");
            let wrapper = ["env", &preload, &time, "FAKETIME_DONT_FAKE_MONOTONIC=1"];
            Server::start_under(site, Program::Sealane, &configuration, &wrapper)
        })
        .collect();
    let relay = relay_to(&servers);
    let (site, port) = (&sites[0], relay.port());
    wait_until_shared(site, port, "-tls1_3");
    let time = Duration::from_secs(scale(12, 60) as u64);
    let rings = std::thread::scope(|scope| {
        let lanes = ["1.2", "1.3"]
            .map(|version| scope.spawn(move || (version, go(site, port, version, 2, time, "2ms"))));
        let mut rings = HashSet::new();
        while !lanes.iter().all(|lane| lane.is_finished()) {
            let keys = redis.keys();
            // The lock of whoever makes a key has one byte.
            let lengths = keys.iter().map(|key| redis.ask(&["STRLEN", key]));
            rings.extend(lengths.filter(|length| length.len() > 1));
            std::thread::sleep(Duration::from_millis(200));
        }
        for lane in lanes {
            let (version, lanes) = lane.join().expect("the client runs");
            assert_eq!(lanes.failed, 0, "TLS {version}");
            lanes.count.at_least(95, &format!("TLS {version}"));
        }
        rings
    });
    // A key every two seconds makes the ring longer each time.
    println!("lengths of the ring: {rings:?}");
    assert!(rings.len() >= scale(4, 15), "{rings:?}");
}

#[test]
fn different_certificate_keys_share_with_a_key_file_only() {
    let sites: Vec<Site> = (0..2).map(|_| Site::new()).collect();
    for site in &sites {
        site.certificate(&Certificate::localhost("site", CertificateKey::P256));
        site.write("store.key", [9; 32]);
    }
    let redis = Redis::start(&sites[0], "redis", &[]);
    let url = format!("ssl_session_store redis://127.0.0.1:{}", redis.port());
    {
        let servers = start(&sites, &format!("{url} key=store.key;"));
        let notice = servers[0].wait_for_log("sealed with the key of \"");
        assert!(
            notice.contains("store.key") && notice.contains("[notice]"),
            "{notice}"
        );
        wait_until_shared(&sites[0], relay_to(&servers).port(), "-tls1_3");
    }
    redis.ask(&["FLUSHALL"]);
    let servers = start(&sites, &format!("{url};"));
    wait_for("two rings, as nobody opens the other's", || {
        (redis
            .keys()
            .iter()
            .filter(|key| key.starts_with("sealane:k:"))
            .count()
            >= 2)
            .then_some(())
    });
    let count = openssl(&sites[0], relay_to(&servers).port(), "-tls1_3", 5);
    assert_eq!(count.resumed, 0, "every connection lands on the other node");
}

/// Forged values cost a full handshake each, or nothing.
#[test]
fn what_others_write_into_the_store_is_refused() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let servers = start(
        &sites,
        &format!(
            "ssl_session_tickets off; ssl_session_cache shared:S:1m;
             ssl_session_store redis://127.0.0.1:{};",
            redis.port()
        ),
    );
    let relay = relay_to(&servers);
    let (site, port) = (&sites[0], relay.port());
    wait_until_shared(site, port, "-tls1_3");
    let large = "x".repeat(1 << 20);
    let other = redis
        .keys()
        .into_iter()
        .find(|key| key.starts_with("sealane:s:"));
    let other = other.expect("a session");
    for value in [
        "",
        "x",
        "\u{1}rubbish that is as long as a nonce and a tag",
        large.as_str(),
    ] {
        for key in redis.keys() {
            if key.starts_with("sealane:s:") || key.starts_with("sealane:k:") {
                redis.ask(&["SET", &key, &value[..value.len().min(100_000)]]);
            }
        }
        openssl(site, port, "-tls1_3", 3);
    }
    // A list where a value should be, and another session's value.
    for key in redis
        .keys()
        .iter()
        .filter(|key| key.starts_with("sealane:s:"))
    {
        if *key == other {
            redis.ask(&["DEL", key]);
            redis.ask(&["RPUSH", key, "x"]);
        } else {
            redis.ask(&["COPY", &other, key, "REPLACE"]);
        }
    }
    openssl(site, port, "-tls1_3", 3);
    wait_until_shared(site, port, "-tls1_3");
    let mut said = String::new();
    for server in &servers {
        let _ = write!(said, "{}", server.error_log());
    }
    assert!(!said.contains("panicked"), "{said}");
}
