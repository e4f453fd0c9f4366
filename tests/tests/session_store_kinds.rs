//! The ways to reach a session store: passwords, TLS, a UNIX socket, sentinels, a
//! cluster.

use sealane_tests::nodes::{configuration, relay_to, sites, start, wait_until_shared};
use sealane_tests::{Redis, Site, command, sealane_binary, wait_for};

/// Sessions and ticket keys travel through this store.
#[track_caller]
fn shares(sites: &[Site], store: &str) -> String {
    let mut said = String::new();
    for (tickets, key) in [("on", "k:"), ("off", "s:")] {
        let servers = start(
            sites,
            &format!(
                "ssl_session_tickets {tickets}; ssl_session_cache shared:S:1m;
                 ssl_session_store {store} timeout=1s prefix={tickets}:;"
            ),
        );
        wait_until_shared(&sites[0], relay_to(&servers).port(), "-tls1_3");
        for server in &servers {
            said.push_str(&server.error_log());
        }
        println!("{store}: {key} shared");
    }
    assert!(!said.contains("[error]"), "{said}");
    said
}

#[test]
fn a_password_of_the_default_user_or_of_another() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &["--requirepass", "sesame"]);
    let address = format!("127.0.0.1:{}", redis.port());
    let said = shares(&sites, &format!("redis://:sesame@{address}/3"));
    assert!(said.contains(&format!("redis://{address}/3")), "{said}");
    assert!(!said.contains("sesame"), "{said}");
    redis.ask(&["ACL", "SETUSER", "node", "on", ">other", "~*", "+@all"]);
    shares(&sites, &format!("redis://node:other@{address}"));
}

#[test]
fn a_wrong_password_is_said_and_not_shown() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &["--requirepass", "sesame"]);
    let port = redis.port();
    let servers = start(
        &sites,
        &format!("ssl_session_store redis://:guessed@127.0.0.1:{port};"),
    );
    let line = servers[0].wait_for_log("is not reachable (");
    assert!(
        line.contains("[error]") && line.contains("authentication failed"),
        "{line}"
    );
    assert!(!servers[0].error_log().contains("guessed"));
}

/// What `-t` says about a store that cannot be used.
#[track_caller]
fn refused(site: &Site, store: &str) -> String {
    let text = configuration(&format!("ssl_session_store {store};"));
    let file = site.write("wrong.conf", site.fill_in(&text));
    let (prefix, file) = (
        site.path("").display().to_string(),
        file.display().to_string(),
    );
    let arguments = ["-t", "-p", &prefix, "-c", &file];
    let outcome = command(&sealane_binary().display().to_string(), &arguments, b"");
    assert_ne!(outcome.status, 0, "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn what_is_wrong_is_said_before_the_start_and_without_the_password() {
    let site = &sites()[0];
    site.write("short.key", [1; 31]);
    site.write("rubbish.pem", "no certificate");
    let url = "redis://:guessed@127.0.0.1:1";
    for (store, expected) in [
        (format!("{url} nonsense"), "invalid parameter \"nonsense\""),
        (
            format!("{url} key=missing.key"),
            "missing.key\": open() failed (2",
        ),
        (
            format!("{url} key=short.key"),
            "must hold at least 32 bytes, not 31",
        ),
        (
            "rediss://127.0.0.1:1 ca=rubbish.pem".into(),
            "rubbish.pem\" contains no PEM block \"CERTIFICATE\"",
        ),
    ] {
        let said = refused(site, &store);
        assert!(
            said.contains("[emerg]") && said.contains(expected),
            "{store}: {said}"
        );
        assert!(!said.contains("guessed"), "{said}");
    }
}

#[test]
fn tls_with_a_certificate_that_is_checked() {
    let sites = sites();
    let path = |name: &str| {
        sites[0]
            .path(format!("certificates/{name}"))
            .display()
            .to_string()
    };
    let port = sites[0].port("redis").to_string();
    let (authority, certificate, key) = (path("authority.pem"), path("site.pem"), path("site.key"));
    let _redis = Redis::start(
        &sites[0],
        "redis",
        &[
            "--port",
            "0",
            "--tls-port",
            &port,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
            "--tls-auth-clients",
            "no",
        ],
    );
    shares(&sites, &format!("rediss://localhost:{port} ca={authority}"));
    // Without `ca=` nobody knows the authority.
    let servers = start(
        &sites,
        &format!("ssl_session_store rediss://localhost:{port};"),
    );
    let line = servers[0].wait_for_log("is not reachable (");
    assert!(line.to_lowercase().contains("certificate"), "{line}");
}

#[test]
fn a_unix_socket() {
    let sites = sites();
    let socket = sites[0].path("temporary/redis.sock").display().to_string();
    // The workers are "nobody".
    let _redis = Redis::start(
        &sites[0],
        "redis",
        &["--unixsocket", &socket, "--unixsocketperm", "777"],
    );
    shares(&sites, &format!("unix:{socket}"));
}

#[test]
fn a_server_that_sentinels_know() {
    let sites = sites();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let watched = format!("sentinel monitor main 127.0.0.1 {} 1\n", redis.port());
    let file = sites[0].write("temporary/sentinel.conf", watched);
    let sentinel = Redis::start_with_file(&sites[0], "sentinel", &file, &["--sentinel"]);
    let port = sentinel.port();
    shares(
        &sites,
        &format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/main"),
    );
}

#[test]
fn sentinels_and_their_server_with_tls() {
    let sites = sites();
    let path = |name: &str| {
        let path = sites[0].path(format!("certificates/{name}"));
        path.display().to_string()
    };
    let (authority, certificate, key) = (path("authority.pem"), path("site.pem"), path("site.key"));
    let with_tls = |port: u16| {
        let words = [
            "--port",
            "0",
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
            "--tls-auth-clients",
            "no",
            "--tls-replication",
            "yes",
        ];
        words.map(str::to_owned).to_vec()
    };
    let ports = [sites[0].port("redis"), sites[0].port("sentinel")];
    let options = with_tls(ports[0]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _redis = Redis::start(&sites[0], "redis", &options);
    let watched = format!("sentinel monitor main 127.0.0.1 {} 1\n", ports[0]);
    let file = sites[0].write("temporary/sentinel.conf", watched);
    let mut options = with_tls(ports[1]);
    options.push("--sentinel".to_owned());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _sentinel = Redis::start_with_file(&sites[0], "sentinel", &file, &options);
    shares(
        &sites,
        &format!(
            "rediss+sentinel://127.0.0.1:{}/main ca={authority}",
            ports[1]
        ),
    );
}

#[test]
fn a_cluster() {
    let sites = sites();
    let bus = sites[0].port("bus").to_string();
    let redis = Redis::start(
        &sites[0],
        "redis",
        &["--cluster-enabled", "yes", "--cluster-port", &bus],
    );
    // All slots on one server: what counts here is the protocol.
    redis.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_for("the cluster", || {
        redis
            .ask(&["CLUSTER", "INFO"])
            .contains("cluster_state:ok")
            .then_some(())
    });
    let store = format!("redis+cluster://127.0.0.1:{}", redis.port());
    shares(&sites, &store);
    let _server = start(
        &sites[..1],
        &format!("ssl_early_data on; ssl_session_store {store};"),
    );
    wait_for("the run to be written down", || {
        let run = redis.ask(&["GET", "sealane:claims:run"]);
        (!run.is_empty()).then_some(())
    });
}

/// Early data is accepted on the word of the store, so it must not forget: which run of
/// the store it is, and since when it remembers, stands in the store itself.
#[test]
fn a_store_that_may_forget_is_not_trusted_with_early_data() {
    let sites = sites();
    let mut redis = Redis::start(&sites[0], "redis", &[]);
    let servers = start(
        &sites,
        &format!(
            "ssl_early_data on; ssl_session_store redis://127.0.0.1:{};",
            redis.port()
        ),
    );
    let run = |redis: &Redis<'_>| {
        wait_for("the run to be written down", || {
            let run = redis.ask(&["GET", "sealane:claims:run"]);
            (!run.is_empty()).then_some(run)
        })
    };
    let began = |redis: &Redis<'_>| -> i64 {
        let left = redis.ask(&["TTL", "sealane:claims:began"]);
        left.parse().expect("a number")
    };
    let first = run(&redis);
    assert!(redis.ask(&["INFO", "server"]).contains(&first), "{first}");
    assert!(began(&redis) > 3000, "it begins now");
    redis.kill();
    for server in &servers {
        server.wait_for_log("is not reachable (");
    }
    redis.restart();
    let second = run(&redis);
    assert_ne!(first, second);
    assert!(began(&redis) > 3000, "it begins again");

    redis.kill();
    drop(servers);
    redis.restart();
    redis.ask(&["CONFIG", "SET", "maxmemory", "100mb"]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let store = format!("ssl_session_store redis://127.0.0.1:{};", redis.port());
    let servers = start(&sites[..1], &format!("ssl_early_data on; {store}"));
    let warning = servers[0].wait_for_log("cannot be trusted with early data");
    assert!(
        warning.contains("noeviction") && warning.contains("[warn]"),
        "{warning}"
    );
    // Sessions and keys are shared all the same.
    wait_for("the ring", || {
        redis
            .keys()
            .iter()
            .any(|key| key.starts_with("sealane:k:"))
            .then_some(())
    });
}
