//! `acme_issuer` and `acme_certificate` with Pebble, which refuses a part of good nonces.

#[path = "acme/dns.rs"]
mod dns;
#[path = "acme/dns_listen.rs"]
mod dns_listen;
#[path = "acme/endings.rs"]
mod endings;
#[path = "acme/key_process.rs"]
mod key_process;
#[path = "acme/kills.rs"]
mod kills;
#[path = "acme/limits.rs"]
mod limits;
#[path = "acme/nodes.rs"]
mod nodes;
#[path = "acme/upgrades.rs"]
mod upgrades;

use sealane_tests::reload::reload_as_it_is;
use sealane_tests::{
    Certificate, CertificateKey, Pebble, PebbleSettings, Program, Server, Site, command, has_go,
    sealane_binary, wait_for, wire,
};
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// `acme_issuer pebble` with further directives.
fn issuer(more: &str) -> String {
    format!(
        "acme_issuer pebble {{ uri https://localhost:%acme%/dir; accept_terms_of_service;
             ssl_trusted_certificate certificates/authority.pem; {more} }}\n"
    )
}

/// A server with `acme_certificate pebble ...` on the port `%tls%`, and one on `%http%`.
fn servers(certificate: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%tls% ssl; acme_certificate pebble {certificate};
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
             location / {{ return 200 \"secure\\n\"; }} }}
         server {{ listen 127.0.0.1:%http%; return 301 https://example.test$request_uri; }}\n"
    )
}

fn configuration(issuer: &str, servers: &str) -> String {
    format!(
        "worker_processes 2; pid logs/pid; error_log logs/error.log info; events {{ }}
         http {{ access_log off; {issuer} {servers} }}"
    )
}

fn start<'a>(site: &'a Site, issuer: &str, servers: &str) -> Server<'a> {
    Server::start(site, Program::Sealane, &configuration(issuer, servers))
}

fn settings(site: &Site) -> PebbleSettings {
    PebbleSettings::verifying_at(site.port("http"), site.port("tls"))
}

/// The first certificate that a server sends for a name, as openssl prints its issuer, subject
/// alternative names and end.
#[track_caller]
fn certificate(port: u16, name: &str) -> String {
    let address = format!("127.0.0.1:{port}");
    let names: &[&str] = match name {
        "" => &["-noservername"],
        name => &["-servername", name],
    };
    let arguments = [&["s_client", "-connect", &address], names].concat();
    let shown = command("openssl", &arguments, b"");
    let options = [
        "x509",
        "-noout",
        "-issuer",
        "-serial",
        "-enddate",
        "-ext",
        "subjectAltName,authorityKeyIdentifier",
    ];
    let text = command("openssl", &options, &shown.stdout);
    format!("{}{}", text.text(), text.stderr)
}

/// Until the server sends a certificate of Pebble's.
#[track_caller]
fn wait_for_certificate(port: u16, name: &str) -> String {
    wait_for(&format!("a certificate for {name}"), || {
        let shown = certificate(port, name);
        shown.contains("Pebble Intermediate").then_some(shown)
    })
}

/// A request that verifies the certificate, as a client does that trusts Pebble's root.
#[track_caller]
fn get_verified(pebble: &Pebble<'_>, port: u16, name: &str) -> String {
    let root = pebble.root();
    let resolve = format!("{name}:{port}:127.0.0.1");
    let url = format!("https://{name}:{port}/");
    let arguments = ["-sS", "-f", "--cacert", &root, "--resolve", &resolve, &url];
    command("curl", &arguments, b"").success().text()
}

fn serial(shown: &str) -> &str {
    let line = shown.lines().find_map(|line| line.strip_prefix("serial="));
    line.unwrap_or_default()
}

#[test]
fn the_first_certificate_comes_by_itself_and_stays_over_restarts() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(&site, settings(&site));
    let text = servers("one.test two.test");
    let server = start(&site, &issuer(""), &text);
    // From the first moment there is something to serve.
    assert!(certificate(server.port("tls"), "one.test").contains("DNS:one.test"));
    let shown = wait_for_certificate(server.port("tls"), "one.test");
    assert!(shown.contains("DNS:one.test, DNS:two.test"), "{shown}");
    assert_eq!(
        get_verified(&pebble, server.port("tls"), "two.test"),
        "secure\n"
    );
    let log = server.wait_for_log("certificate for \"one.test\" and 1 more has come");
    assert!(!log.contains("PRIVATE KEY"));
    assert_eq!((pebble.orders(), pebble.accounts()), (1, 1));
    // What is not a pending challenge is not answered.
    let response = wire::get(server.port("http"), "/.well-known/acme-challenge/none");
    assert_eq!(response.status, 301);

    // Everything is kept, for nobody else to read.
    let directory = site.path("acme_pebble");
    let mode = |path: &std::path::Path| {
        let facts = std::fs::metadata(path).expect("it is there");
        facts.permissions().mode() & 0o777
    };
    assert_eq!(mode(&directory), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).expect("it is there") {
        let entry = entry.expect("readable");
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().expect("ASCII"));
    }
    names.sort();
    assert_eq!(names[..2], ["account.key", "account.url"]);
    assert!(
        names[2].starts_with("one.test-") && names.len() == 3,
        "{names:?}"
    );

    // A reload, another worker process, and a restart serve it at once and order nothing.
    reload_as_it_is(&server);
    assert_eq!(
        serial(&certificate(server.port("tls"), "one.test")),
        serial(&shown)
    );
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    let again = wait_for_certificate(server.port("tls"), "one.test");
    assert_eq!(serial(&again), serial(&shown));
    server.stop("QUIT");
    std::fs::write(site.path("logs/error.log"), "").expect("ours");
    let questions = pebble.log().matches("/renewalInfo/ -> calling").count();
    let server = start(&site, &issuer(""), &text);
    let first = certificate(server.port("tls"), "one.test");
    assert_eq!(serial(&first), serial(&shown));
    // Each start asks the ACME server when it wants the certificate renewed, and nothing else.
    wait_for("the question when to renew", || {
        (pebble.log().matches("/renewalInfo/ -> calling").count() > questions).then_some(())
    });
    assert_eq!((pebble.orders(), pebble.accounts()), (1, 1));
}

#[test]
fn certificates_are_renewed_before_they_end() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let short = PebbleSettings {
        validity_s: 30,
        ..settings(&site)
    };
    let pebble = Pebble::start(&site, short);
    // Pebble chooses among its profiles if none is asked for.
    let issuer = issuer("profile default require;");
    let server = start(&site, &issuer, &servers("renewed.test"));
    // On a busy machine a certificate of half a minute may end first, which is not what this is
    // about.
    server.expect_alert("the certificate for \"renewed.test\"");
    let first = wait_for_certificate(server.port("tls"), "renewed.test");
    let second = wait_for("a renewal", || {
        let shown = certificate(server.port("tls"), "renewed.test");
        (serial(&shown) != serial(&first)).then_some(shown)
    });
    assert!(second.contains("Pebble Intermediate"), "{second}");
    assert_eq!(
        get_verified(&pebble, server.port("tls"), "renewed.test"),
        "secure\n"
    );
    assert_eq!(pebble.accounts(), 1);
    // Each order replaces the certificate before (RFC 9773). Pebble does not find the order of one
    // whose serial number begins with a zero in DER, which are those with a first byte above 0x7f
    // here. One certificate in 256 is such, and the one after it is replaced then.
    wait_for("an order that replaces a certificate", || {
        pebble.log().contains("is a replacement of").then_some(())
    });
}

#[test]
fn tls_alpn_01_is_answered_for_a_pending_challenge_only() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(&site, settings(&site));
    let text = servers("alpn.test 127.0.0.1");
    let server = start(&site, &issuer("challenge tls-alpn-01;"), &text);
    let shown = wait_for_certificate(server.port("tls"), "alpn.test");
    assert!(
        shown.contains("DNS:alpn.test, IP Address:127.0.0.1"),
        "{shown}"
    );
    assert_eq!(pebble.orders(), 1);
    // Afterwards a client that speaks only this protocol gets no such certificate.
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let arguments = [
        "s_client",
        "-connect",
        &address,
        "-alpn",
        "acme-tls/1",
        "-servername",
        "alpn.test",
    ];
    let outcome = command("openssl", &arguments, b"");
    assert!(
        !outcome.text().contains("ALPN protocol: acme-tls/1"),
        "{}",
        outcome.text()
    );
}

#[test]
fn addresses_and_kinds_of_keys() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(&site, settings(&site));
    let text = servers("127.0.0.1 key=rsa:2048");
    let server = start(&site, &issuer("account_key rsa:2048;"), &text);
    let shown = wait_for_certificate(server.port("tls"), "");
    assert!(shown.contains("IP Address:127.0.0.1"), "{shown}");
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let outcome = command("openssl", &["s_client", "-connect", &address], b"");
    assert!(outcome.text().contains("rsaEncryption") || outcome.text().contains("a:PKEY: RSA"));
    assert!(
        outcome.text().contains("Server public key is 2048 bit"),
        "{}",
        outcome.text()
    );
}

#[test]
fn an_external_account_is_bound() {
    if !has_go(24) {
        return;
    }
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let site = Site::new();
    let demanding = PebbleSettings {
        external_accounts: vec![("kid-1", KEY)],
        ..settings(&site)
    };
    let pebble = Pebble::start(&site, demanding);
    let text = servers("eab.test");
    // Without one the log says what to do.
    let server = start(&site, &issuer(""), &text);
    server.wait_for_log("\"external_account_key\" names it");
    server.stop("QUIT");
    std::fs::remove_dir_all(site.path("acme_pebble")).expect("it is there");
    site.write("eab.key", format!("{KEY}\n"));
    let server = start(&site, &issuer("external_account_key kid-1 eab.key;"), &text);
    wait_for_certificate(server.port("tls"), "eab.test");
    assert!(pebble.log().contains("using kid \"kid-1\""));
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn chains_and_profiles_are_chosen() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let several = PebbleSettings {
        alternate_roots: 2,
        ..settings(&site)
    };
    let pebble = Pebble::start(&site, several);
    let root = pebble.manage("/roots/2", None);
    let root = site
        .write("temporary/other.pem", root)
        .display()
        .to_string();
    let subject = command(
        "openssl",
        &[
            "x509",
            "-in",
            &root,
            "-noout",
            "-subject",
            "-nameopt",
            "multiline",
        ],
        b"",
    );
    let subject = subject.success().text();
    let name = subject
        .lines()
        .find_map(|line| line.trim().strip_prefix("commonName"));
    let name = name
        .and_then(|line| line.split_once("= "))
        .expect("a name")
        .1;
    let more = format!("preferred_chain \"{name}\"; profile short require;");
    let server = start(&site, &issuer(&more), &servers("chain.test"));
    wait_for_certificate(server.port("tls"), "chain.test");
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let arguments = [
        "s_client",
        "-connect",
        &address,
        "-CAfile",
        &root,
        "-verify_return_error",
    ];
    command("openssl", &arguments, b"").success();
    let log = server.wait_for_log("has come, it ends in 0 days");
    assert!(!log.contains("no certificate for"), "{log}");
    server.stop("QUIT");

    // A profile that the server does not have is demanded: nothing is ordered.
    std::fs::remove_dir_all(site.path("acme_pebble")).expect("it is there");
    let before = pebble.orders();
    let server = start(
        &site,
        &issuer("profile none require;"),
        &servers("chain.test"),
    );
    server.wait_for_log("the server has no profile \"none\"");
    assert_eq!(pebble.orders(), before);
}

#[test]
fn a_server_that_wants_a_certificate_renewed_gets_its_way() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(&site, settings(&site));
    let text = servers("ari.test");
    let server = start(&site, &issuer(""), &text);
    let first = wait_for_certificate(server.port("tls"), "ari.test");
    server.stop("QUIT");
    let leaf = command("openssl", &["x509"], &chain_of(&site, "ari.test"));
    let pem = leaf.success().text().replace('\n', "\\n");
    let window = r#"{\"suggestedWindow\":{\"start\":\"2020-01-01T00:00:00Z\",\"end\":\"2020-01-02T00:00:00Z\"}}"#;
    let body = format!("{{\"certificate\":\"{pem}\",\"ariResponse\":\"{window}\"}}");
    pebble.manage("/set-renewal-info/", Some(&body));
    let server = start(&site, &issuer(""), &text);
    server.wait_for_log("the server wants the certificate for \"ari.test\" renewed in 0 hours");
    wait_for("the renewal", || {
        let shown = certificate(server.port("tls"), "ari.test");
        (serial(&shown) != serial(&first)).then_some(())
    });
    assert_eq!(pebble.orders(), 2);
}

/// The chain in the state of a certificate.
fn chain_of(site: &Site, name: &str) -> Vec<u8> {
    let directory = std::fs::read_dir(site.path("acme_pebble")).expect("it is there");
    let mut paths = directory.map(|entry| entry.expect("readable").path());
    let path = paths.find(|path| {
        let file = path.file_name().and_then(|name| name.to_str());
        file.is_some_and(|file| file.starts_with(name))
    });
    let text = std::fs::read_to_string(path.expect("a file of the certificate")).expect("ours");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let chain = record["certificate"]["chain"].as_str();
    chain.expect("a chain").as_bytes().to_vec()
}

#[test]
fn failures_are_told_once_and_cost_few_orders() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(
        &site,
        PebbleSettings {
            // Where nobody answers.
            http_port: site.port("nobody"),
            ..settings(&site)
        },
    );
    let text = servers("fails.test");
    let server = start(&site, &issuer(""), &text);
    let log = server.wait_for_log("was not verified");
    let line = log.lines().find(|line| line.contains("was not verified"));
    let line = line.expect("it was waited for");
    for part in [
        "[error]",
        "acme issuer \"pebble\": no certificate for \"fails.test\"",
        "a self-signed one is served",
        "the next attempt is in 6",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // Neither reloads nor restarts nor worker processes that die order again before it is time.
    for _ in 0..3 {
        reload_as_it_is(&server);
    }
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    server.stop("QUIT");
    std::fs::write(site.path("logs/error.log"), "").expect("ours");
    let began = Instant::now();
    for _ in 0..3 {
        let server = start(&site, &issuer(""), &text);
        wire::get(server.port("http"), "/");
        server.stop("QUIT");
    }
    assert!(
        began.elapsed() < Duration::from_secs(45),
        "the test itself is too slow to tell"
    );
    assert_eq!(pebble.orders(), 1, "{}", pebble.log());
}

#[test]
fn a_server_that_is_not_there_delays_nothing() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
    let server = start(&site, &issuer(""), &servers("late.test"));
    assert!(certificate(server.port("tls"), "late.test").contains("DNS:late.test"));
    server.wait_for_log("connect() failed (111: Connection refused)");
    // It is tried again, and the certificate comes as soon as there is a server.
    let _pebble = Pebble::start(&site, settings(&site));
    wait_for_certificate(server.port("tls"), "late.test");
}

#[test]
fn state_that_is_broken_or_foreign_is_told_and_replaced() {
    if !has_go(24) {
        return;
    }
    let site = Site::new();
    let pebble = Pebble::start(&site, settings(&site));
    let text = servers("state.test");
    let server = start(&site, &issuer(""), &text);
    wait_for_certificate(server.port("tls"), "state.test");
    server.stop("QUIT");
    let file = std::fs::read_dir(site.path("acme_pebble"))
        .expect("it is there")
        .map(|entry| entry.expect("readable").path())
        .find(|path| path.extension().is_some_and(|kind| kind == "json"))
        .expect("a certificate");
    let good = std::fs::read_to_string(&file).expect("ours");
    let foreign = good.replace("state.test", "other.test");
    let half = &good[..good.len() / 2];
    for (round, broken) in [half, &foreign, ""].into_iter().enumerate() {
        std::fs::write(&file, broken).expect("ours");
        std::fs::write(site.path("logs/error.log"), "").expect("ours");
        let server = start(&site, &issuer(""), &text);
        server.wait_for_log("cannot be used");
        wait_for_certificate(server.port("tls"), "state.test");
        server.stop("QUIT");
        assert_eq!(pebble.orders(), 2 + round);
    }
    // The account was never lost.
    assert_eq!(pebble.accounts(), 1);
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("pebble", CertificateKey::P256));
    site.write("bad.key", "nonsense");
    let refused = |issuer: &str, servers: &str| {
        let text = site.fill_in(&configuration(issuer, servers));
        let file = site.write("refused.conf", text).display().to_string();
        let prefix = site.path("").display().to_string();
        let program = sealane_binary().display().to_string();
        let outcome = command(&program, &["-t", "-p", &prefix, "-c", &file], b"");
        assert_ne!(outcome.status, 0, "{issuer} {servers}");
        outcome.stderr
    };
    let good = servers("a.test");
    let cases: &[(&str, &str, &str)] = &[
        (
            "challenge dns-01;",
            "a.test",
            "\"challenge dns-01\" of acme_issuer \"pebble\" has no records",
        ),
        ("dns_update 127.0.0.1;", "a.test", "without \"dns-01\""),
        (
            "account_key bad.key;",
            "a.test",
            "the account key cannot be used",
        ),
        (
            "account_key missing.key;",
            "a.test",
            "cannot load account key",
        ),
        (
            "account_key rsa:1024;",
            "a.test",
            "invalid value \"rsa:1024\"",
        ),
        ("external_account_key a bad.key;", "a.test", ""),
        ("challenge http-02;", "a.test", "invalid value \"http-02\""),
        (
            "",
            "*.a.test",
            "wildcards are only verified with \"challenge dns-01\"",
        ),
        ("", "a..test", "invalid identifier \"a..test\""),
        ("", "key=dsa a.test", "invalid parameter \"key=dsa\""),
        ("unknown on;", "a.test", "unknown directive \"unknown\""),
    ];
    for (more, certificate, expected) in cases {
        if expected.is_empty() {
            continue;
        }
        let text = refused(&issuer(more), &servers(certificate));
        assert!(text.contains(expected), "{more} {certificate}: {text}");
    }
    let many: Vec<String> = (0..257).map(|number| format!("n{number}.test")).collect();
    let text = refused(&issuer(""), &servers(&many.join(" ")));
    assert!(text.contains("more than 256 identifiers"), "{text}");
    let text = refused("", &good);
    assert!(text.contains("issuer \"pebble\" is missing"), "{text}");
    let half = good.replace(
        "ssl_certificate_key $acme_certificate_key",
        "ssl_certificate_key certificates/pebble.key",
    );
    let text = refused(&issuer(""), &half);
    assert!(text.contains("are used together only"), "{text}");
    let text = refused(
        &issuer(""),
        &good.replace("acme_certificate pebble a.test;", ""),
    );
    assert!(text.contains("without \"acme_certificate\""), "{text}");
    let text = refused(
        &issuer(""),
        &good.replace("$request_uri", "$acme_certificate_key"),
    );
    assert!(
        text.contains("unknown \"acme_certificate_key\" variable"),
        "{text}"
    );
    let text = refused("acme_issuer pebble { uri http://localhost/; }", &good);
    assert!(text.contains("ACME is spoken over TLS only"), "{text}");
    let mut lines = String::new();
    for more in [
        "contact me@a.test; contact mailto:you@a.test;",
        "state_path off;",
    ] {
        let _ = writeln!(
            lines,
            "{}",
            issuer(more).replace(
                "acme_issuer pebble",
                &format!("acme_issuer i{}", lines.len())
            )
        );
    }
    let file = site.write(
        "fine.conf",
        site.fill_in(&configuration(
            &format!("{} {lines} acme_shared_zone zone=acme:1m;", issuer("")),
            &good,
        )),
    );
    let program = sealane_binary().display().to_string();
    let arguments = [
        "-t",
        "-p",
        &site.path("").display().to_string(),
        "-c",
        &file.display().to_string(),
    ];
    command(&program, &arguments, b"").success();
}
