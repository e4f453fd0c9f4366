//! Certificates and keys that change while the server runs: `ssl_certificate_reload`.

use sealane_tests::load::Load;
use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::{Certificate, CertificateKey, Server, Site, handshake, scale, wait_for, wire};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

/// Certificates of one name, which differ in what they are called.
fn make(site: &Site, key: CertificateKey, names: &[&str]) {
    for name in names {
        site.certificate(&Certificate {
            name,
            key,
            names: "DNS:localhost, IP:127.0.0.1",
        });
    }
}

fn path(site: &Site, file: &str) -> std::path::PathBuf {
    site.path(format!("certificates/{file}"))
}

fn content(site: &Site, file: &str) -> Vec<u8> {
    fs::read(path(site, file)).expect("it was made")
}

/// Puts a file in the place of another one.
fn put(site: &Site, file: &str, content: &[u8]) {
    let new = path(site, "new");
    fs::write(&new, content).expect("the site is writable");
    fs::rename(new, path(site, file)).expect("the site is writable");
}

fn put_pair(site: &Site, from: &str, to: &str) {
    put(
        site,
        &format!("{to}.key"),
        &content(site, &format!("{from}.key")),
    );
    put(
        site,
        &format!("{to}.pem"),
        &content(site, &format!("{from}.pem")),
    );
}

fn subject(server: &Server<'_>) -> String {
    handshake(server, "").subject.replace("CN = ", "")
}

fn wait_for_subject(server: &Server<'_>, name: &str) {
    wait_for(&format!("the certificate {name}"), || {
        (subject(server) == name).then_some(())
    });
}

/// A server with the pair `live`.
fn with_live(more: &str) -> String {
    format!(
        "ssl_certificate_reload 100ms; ssl_session_cache shared:S:1m;
         server {{ listen 127.0.0.1:%tls% ssl; ssl_certificate certificates/live.pem;
             ssl_certificate_key certificates/live.key; {more}
             location / {{ return 200 page; }} }}"
    )
}

const TAKEN: &str = "certificates loaded again, worker process";

#[test]
fn a_renamed_pair_is_used_without_a_reload_and_sessions_resume() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "second", "third"]);
    let server = site.serve(&with_live(""));
    assert_eq!(subject(&server), "live");
    let worker = server.worker_pid();
    // What is edited meanwhile takes effect with the next reload only.
    let configuration = fs::read_to_string(site.path("sealane.conf")).expect("there");
    let edited = configuration.replace("return 200 page", "return 200 edited");
    fs::write(site.path("sealane.conf"), edited).expect("the site is writable");
    let session = site.path("session.pem").display().to_string();
    assert!(handshake(&server, &format!("-sess_out {session}")).succeeded());
    put_pair(&site, "second", "live");
    wait_for_subject(&server, "second");
    // The names that a session belongs to contain the subject.
    let again = handshake(&server, &format!("-sess_in {session}"));
    assert!(again.succeeded() && !again.resumed, "{}", again.output);
    assert!(!again.output.contains("edited"), "{}", again.output);
    assert_eq!(server.worker_pid(), worker);
    // The next one is of the same key's owner and says the same: it is the certificate renewed.
    assert!(handshake(&server, &format!("-sess_out {session}")).succeeded());
    let before = server.error_log().matches(TAKEN).count();
    renew(&site, "second");
    put_pair(&site, "second", "live");
    wait_for("the renewed certificate", || {
        (server.error_log().matches(TAKEN).count() > before).then_some(())
    });
    let again = handshake(&server, &format!("-sess_in {session}"));
    assert!(again.resumed, "{}", again.output);
    // Without a worker's help: the next one has the newest certificate, too.
    server.kill_worker();
    wait_for_subject(&server, "second");
    server.expect_alert("exited on signal 9");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert!(handshake(&server, "").output.contains("edited"));
    put_pair(&site, "third", "live");
    wait_for_subject(&server, "third");
}

/// Makes a certificate again, with another key.
fn renew(site: &Site, name: &str) {
    make(site, CertificateKey::P256, &[name]);
}

#[test]
fn links_that_lead_elsewhere_are_noticed() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["one", "two", "three"]);
    for name in ["one", "two", "three"] {
        let directory = path(&site, &format!("..{name}"));
        fs::create_dir(&directory).expect("the site is writable");
        for extension in ["pem", "key"] {
            let file = path(&site, &format!("{name}.{extension}"));
            fs::copy(file, directory.join(format!("tls.{extension}"))).expect("it was made");
        }
    }
    let link = |to: &str, name: &str| {
        let new = path(&site, "new");
        symlink(to, &new).expect("the site is writable");
        fs::rename(new, path(&site, name)).expect("the site is writable");
    };
    // As certbot does: one link after the other.
    link("one.pem", "live.pem");
    link("one.key", "live.key");
    // As in Kubernetes: a link to a directory.
    link("..one", "..data");
    link("..data/tls.pem", "secret.pem");
    link("..data/tls.key", "secret.key");
    let secret = "server { listen 127.0.0.1:%secret% ssl; ssl_certificate certificates/secret.pem;
        ssl_certificate_key certificates/secret.key; }";
    let server = site.serve(&format!("{} {secret}", with_live("")));
    let of_secret = || {
        let address = format!("127.0.0.1:{}", server.port("secret"));
        let arguments = ["s_client", "-connect", &address];
        sealane_tests::command("openssl", &arguments, b"").text()
    };
    assert_eq!(subject(&server), "one");
    assert!(of_secret().contains("s:CN = one"));
    for name in ["two", "three"] {
        link(&format!("{name}.pem"), "live.pem");
        link(&format!("{name}.key"), "live.key");
        link(&format!("..{name}"), "..data");
        wait_for_subject(&server, name);
        wait_for("the secret", || {
            of_secret()
                .contains(&format!("s:CN = {name}"))
                .then_some(())
        });
    }
}

#[test]
fn what_does_not_fit_together_is_not_used() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "second"]);
    let server = site.serve(&with_live(""));
    let good = content(&site, "live.pem");
    let complaints = || {
        let log = server.error_log();
        log.matches("have changed, but the ones before stay in use")
            .count()
    };
    let key = content(&site, "second.key");
    let wrong: [(&str, &[u8], &str); 4] = [
        (
            "live.pem",
            &good[..good.len() / 2],
            "cannot load certificate",
        ),
        ("live.pem", b"", "cannot load certificate"),
        ("live.key", b"nonsense", "cannot load certificate key"),
        ("live.key", &key, "SSL_CTX_use_PrivateKey("),
    ];
    for (number, (file, content, why)) in wrong.into_iter().enumerate() {
        put(&site, file, content);
        wait_for(why, || (complaints() > number).then_some(()));
        assert!(server.error_log().contains(why), "{}", server.error_log());
        assert_eq!(subject(&server), "live");
        if file == "live.pem" {
            put(&site, file, &good);
        }
    }
    // Several looks later nothing is said again.
    let said = complaints();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(complaints(), said);
    // The certificate that belongs to the key.
    put(&site, "live.pem", &content(&site, "second.pem"));
    wait_for_subject(&server, "second");
    fs::remove_file(path(&site, "live.key")).expect("it is there");
    server.wait_for_log("open() failed (2: No such file or directory); certificate");
    assert_eq!(subject(&server), "second");
    let log = server.error_log();
    assert!(!log.contains("BEGIN") && !log.contains("nonsense"), "{log}");
}

#[test]
fn pairs_share_files_and_are_of_two_kinds() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "second"]);
    make(&site, CertificateKey::Rsa, &["rsa", "other"]);
    let rsa = "ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/rsa.key;";
    let server = site.serve(&with_live(&format!("ssl_protocols TLSv1.2; {rsa}")));
    let of = |kind: &str| {
        let options = format!("-cipher ECDHE-{kind}-AES128-GCM-SHA256");
        handshake(&server, &options).subject.replace("CN = ", "")
    };
    assert_eq!((&*of("ECDSA"), &*of("RSA")), ("live", "rsa"));
    put_pair(&site, "other", "rsa");
    wait_for("the RSA certificate", || {
        (of("RSA") == "other").then_some(())
    });
    assert_eq!(of("ECDSA"), "live");
    put_pair(&site, "second", "live");
    wait_for("the ECDSA certificate", || {
        (of("ECDSA") == "second").then_some(())
    });
    assert_eq!(of("RSA"), "other");
}

#[test]
fn what_origins_are_shown_changes_as_well() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "second", "server"]);
    // Each connection to the origin shows what it has then: no session keeps the one before.
    let server = site.serve(
        "ssl_certificate_reload 100ms;
         server { listen 127.0.0.1:%plain%;
             location / { proxy_pass https://127.0.0.1:%origin%; proxy_ssl_session_reuse off;
                 proxy_ssl_certificate certificates/live.pem;
                 proxy_ssl_certificate_key certificates/live.key; } }
         server { listen 127.0.0.1:%origin% ssl; ssl_verify_client optional_no_ca;
             ssl_certificate certificates/server.pem; ssl_certificate_key certificates/server.key;
             location / { return 200 $ssl_client_s_dn; } }",
    );
    let shown = || {
        let response = wire::get(server.port("plain"), "/");
        (response.status, response.text().replace("CN = ", "CN="))
    };
    assert_eq!(shown(), (200, "CN=live".to_owned()));
    let worker = server.worker_pid();
    put_pair(&site, "second", "live");
    wait_for("the origin to be shown the other certificate", || {
        (shown() == (200, "CN=second".to_owned())).then_some(())
    });
    // Half of a pair is not used.
    put(&site, "live.key", &content(&site, "server.key"));
    server.wait_for_log("have changed, but the ones before stay in use");
    assert_eq!(shown(), (200, "CN=second".to_owned()));
    assert_eq!(server.worker_pid(), worker);
}

#[test]
fn with_off_only_a_reload_reads_them() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "second"]);
    let text = with_live("").replace("ssl_certificate_reload 100ms", "ssl_certificate_reload off");
    let server = site.serve(&text);
    put_pair(&site, "second", "live");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(subject(&server), "live");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(subject(&server), "second");
}

/// Every second exchange leaves something broken behind for a while.
#[test]
fn exchanges_under_load_fail_no_handshake() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["live", "a", "b"]);
    make(&site, CertificateKey::P384, &["c"]);
    let server = site.serve(&with_live(""));
    let address = format!("localhost:{}", server.port("tls"));
    let authority = site.authority().display().to_string();
    let mut load = Load::go("close", &address, Some(&authority), 4);
    load.wait_until_begun();
    let exchanges = scale(60, 1000);
    let names = ["a", "b", "c"];
    for number in 0..exchanges {
        let name = names[number % names.len()];
        let (pem, key) = (
            content(&site, &format!("{name}.pem")),
            content(&site, &format!("{name}.key")),
        );
        match number % 4 {
            0 => put(&site, "live.pem", &pem[..pem.len() * 2 / 3]),
            2 => put(&site, "live.key", &key),
            _ => {
                put(&site, "live.key", &key);
                put(&site, "live.pem", &pem);
            }
        }
        // Some are taken over, some come too fast for that.
        std::thread::sleep(Duration::from_millis(if number % 8 < 4 { 10 } else { 250 }));
    }
    put_pair(&site, "a", "live");
    wait_for_subject(&server, "a");
    let tally = load.stop();
    assert_eq!(tally.failures(), 0, "{tally:?}");
    assert!(tally.requests > 0);
    let log = server.error_log();
    assert!(log.matches(TAKEN).count() > 1, "{log}");
    let said = log
        .matches("have changed, but the ones before stay")
        .count();
    assert!(said > 1 && said <= 2 * exchanges, "{said}");
    assert!(!log.contains("[alert]") && !log.contains("[crit]"), "{log}");
    assert!(Path::new(&site.path("sealane.conf")).exists());
}
