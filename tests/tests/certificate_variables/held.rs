//! With a key process, the worker opens the files of keys, and has none of the keys.

use super::*;
use sealane_tests::memory::{self, AS_IN_MEMORY, Secret};
use sealane_tests::reload::reload;
use sealane_tests::upgrade::signal;
use sealane_tests::{Program, wait_for, wire};

/// A server and a client of an origin, each with the certificate of a name that the client gives.
/// The file `both` has a certificate and its key.
fn text(process: &str, more: &str) -> String {
    format!(
        "error_log logs/error.log notice;
         events {{ worker_connections 256; }}
         http {{ access_log off; ssl_key_process {process}; {more}
            ssl_password_file {{words}};
            server {{ listen 127.0.0.1:%tls% ssl; {FILES} ssl_session_tickets off;
                ssl_session_cache off; return 200 <$ssl_server_name>; }}
            server {{ listen 127.0.0.1:%both% ssl; ssl_certificate $ssl_server_name.both;
                ssl_certificate_key $ssl_server_name.both; ssl_session_tickets off; }}
            server {{ listen 127.0.0.1:%plain%; root html;
                location /to/ {{
                    proxy_ssl_session_reuse off;
                    proxy_ssl_certificate certificates/$arg_who.pem;
                    proxy_ssl_certificate_key certificates/$arg_who.key;
                    proxy_ssl_protocols $VERSION;
                    proxy_pass https://127.0.0.1:%origin%/; }} }}
            server {{ listen 127.0.0.1:%origin% ssl; ssl_verify_client optional_no_ca;
                ssl_certificate certificates/origin.pem; ssl_certificate_key certificates/origin.key;
                return 200 $ssl_client_s_dn; }} }}"
    )
}

const SERVERS: [&str; 4] = ["ec.test", "rsa.test", "locked.test", "one.test"];
const CLIENT: &str = "client.test";

fn site() -> (Site, Vec<Secret>) {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    site.write("words", "word\n");
    make(
        &site,
        CertificateKey::P256,
        &["ec.test", "one.test", CLIENT, "origin"],
    );
    make(&site, CertificateKey::Rsa, &["rsa.test", "locked.test"]);
    let path = |name: &str| site.path(format!("certificates/{name}"));
    let secrets = SERVERS.iter().chain([&CLIENT]);
    let secrets = secrets.flat_map(|name| Secret::of_key_file(name, &path(&format!("{name}.key"))));
    let secrets = secrets.collect();
    lock(&path("locked.test.key"), "word");
    let [certificate, key] = ["pem", "key"]
        .map(|kind| fs::read(path(&format!("one.test.{kind}"))).expect("it was made"));
    site.write("one.test.both", [certificate, key].concat());
    readable(&site.path("one.test.both"));
    (site, secrets)
}

fn serve<'a>(site: &'a Site, process: &str, more: &str) -> Server<'a> {
    let words = site.path("words").display().to_string();
    let text = text(process, more).replace("{words}", &words);
    Server::start(
        site,
        Program::Sealane,
        &text.replace("$VERSION", "TLSv1.2 TLSv1.3"),
    )
}

#[track_caller]
fn shake_hands(server: &Server<'_>) {
    for name in ["ec.test", "rsa.test", "locked.test"] {
        for version in ["-tls1_2", "-tls1_3"] {
            let shown = handshake(server, &format!("-servername {name} {version}"));
            assert_eq!(
                shown.subject,
                format!("CN = {name}"),
                "{version}: {}",
                shown.output
            );
        }
    }
    let address = format!("127.0.0.1:{}", server.port("both"));
    let options = ["s_client", "-connect", &address, "-servername", "one.test"];
    let shown = command("openssl", &options, b"").text();
    assert!(shown.contains("s:CN = one.test"), "{shown}");
    let seen = wire::get(server.port("plain"), &format!("/to/?who={CLIENT}"));
    assert!(
        seen.text().contains(CLIENT),
        "{seen:?}: {}",
        server.error_log()
    );
}

/// What of the keys is in the memory of a process.
fn found(secrets: &[Secret], pid: u32) -> Vec<String> {
    let found = memory::find_in_process(secrets, pid).into_iter();
    found.map(|(name, _)| name).collect()
}

#[test]
fn keys_are_in_the_key_process_alone() {
    let (site, secrets) = site();
    for cache in [
        "",
        "ssl_certificate_cache max=20; proxy_ssl_certificate_cache max=20;",
    ] {
        let server = serve(&site, "on", cache);
        for when in ["at first", "after a reload"] {
            shake_hands(&server);
            for pid in [server.pid(), server.worker_pid()] {
                wait_for("what a thread lets go of to be gone", || {
                    found(&secrets, pid).is_empty().then_some(())
                });
            }
            if sealane_needs::is_root() {
                let found = found(&secrets, server.key_process_pid());
                let has = |name: &str| {
                    let is_number =
                        |it: &&String| it.starts_with(name) && it.ends_with(AS_IN_MEMORY);
                    found.iter().any(|it| is_number(&it))
                };
                for name in ["ec.test", "rsa.test", "one.test", CLIENT] {
                    assert!(has(name), "{when}: {name} is not in {found:?}");
                }
                // Nobody keeps what needs a password.
                assert!(!has("locked.test"), "{when}: {found:?}");
            }
            assert_eq!(reload_as_it_is(&server), Reload::Applied);
        }
        assert!(server.stop("QUIT").success());
    }
}

/// Without one, the same search finds them.
#[test]
fn keys_are_in_the_worker_without_a_key_process() {
    let (site, secrets) = site();
    let server = serve(&site, "off", "");
    shake_hands(&server);
    let found = found(&secrets, server.worker_pid());
    for name in ["ec.test", "rsa.test", "one.test", CLIENT] {
        assert!(
            found.iter().any(|it| it.starts_with(name)),
            "{name} is not in {found:?}"
        );
    }
}

#[test]
fn a_new_key_process_is_given_them_again() {
    let (site, _) = site();
    for cache in [
        "",
        "ssl_certificate_cache max=20 valid=1h; proxy_ssl_certificate_cache max=20;",
    ] {
        let server = serve(&site, "on", cache);
        server.expect_alert("exited on signal 9");
        for _ in 0..5 {
            shake_hands(&server);
            server.kill_key_process();
        }
        shake_hands(&server);
    }
}

#[test]
fn while_the_key_process_hangs_files_are_served() {
    let (site, _) = site();
    let server = serve(&site, "on", "");
    shake_hands(&server);
    let pid = server.key_process_pid();
    signal(pid, "STOP");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..60)
            .map(|number| {
                let (server, name) = (&server, ["ec.test", "rsa.test"][number % 2]);
                scope.spawn(move || subject(server, name) == name)
            })
            .collect();
        for _ in 0..50 {
            assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
        }
        assert!(waiting.iter().all(|it| !it.is_finished()));
        signal(pid, "CONT");
        for waiting in waiting {
            assert!(waiting.join().expect("a subject"));
        }
    });
}

#[test]
fn a_worker_has_no_more_keys_than_the_directive_says() {
    let (site, _) = site();
    let server = serve(&site, "on keys=1", "");
    assert_eq!(subject(&server, "ec.test"), "ec.test");
    assert_eq!(subject(&server, "rsa.test"), "");
    let log = server.wait_for_log("cannot load certificate key");
    assert!(
        log.contains("this worker process has 1 keys in use (\"keys=\" of \"ssl_key_process\")"),
        "{log}"
    );
    // There is room for the file that takes its place.
    put(&site, "rsa.test", "ec.test");
    let words = site.path("words").display().to_string();
    let more = text("on keys=10", "").replace("{words}", &words);
    let more = more.replace("$VERSION", "TLSv1.3");
    assert_eq!(reload(&site, &server, &more), Reload::Applied);
    wait_for("the new limit", || {
        (subject(&server, "ec.test") == "rsa.test").then_some(())
    });
    shake_hands_with_all_but_ec(&server);
}

#[track_caller]
fn shake_hands_with_all_but_ec(server: &Server<'_>) {
    for name in ["rsa.test", "locked.test"] {
        assert_eq!(subject(server, name), name);
    }
}

#[test]
fn what_is_wrong_with_a_key_is_told_as_without_a_key_process() {
    let (site, _) = site();
    let names = [
        "bad.test",
        "other.test",
        "none.test",
        "pipe.test",
        "locked2.test",
    ];
    let try_all = |process: &str| {
        let server = serve(&site, process, "");
        for name in names {
            assert_eq!(subject(&server, name), "");
        }
        server.wait_for_log("locked2.test.key");
        server.error_log()
    };
    let copy = |from: &str, to: &str| {
        let path = |name: &str| site.path(format!("certificates/{name}"));
        fs::copy(path(from), path(to)).expect("it was made");
    };
    for name in ["bad", "other", "none", "pipe", "locked2"] {
        copy("ec.test.pem", &format!("{name}.test.pem"));
    }
    site.write(
        "certificates/bad.test.key",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n",
    );
    copy("rsa.test.key", "other.test.key");
    let pipe = site
        .path("certificates/pipe.test.key")
        .display()
        .to_string();
    command("mkfifo", &[&pipe], b"").success();
    copy("ec.test.key", "locked2.test.key");
    lock(&site.path("certificates/locked2.test.key"), "other");
    try_all("off");
    let log = try_all("on");
    let reasons = log.lines().filter_map(|line| {
        let begin = |text: &str| Some(&line[line.find(text)?..]);
        let reason = begin("cannot load").or_else(|| begin("SSL_CTX_use_PrivateKey"));
        reason?.split(" while SSL").next()
    });
    let reasons: Vec<&str> = reasons.collect();
    let (here, held) = reasons.split_at(names.len());
    assert_eq!(here, held);
}
