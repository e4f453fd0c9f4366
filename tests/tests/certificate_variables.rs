//! `ssl_certificate` and `ssl_certificate_key` with variables.

#[path = "certificate_variables/held.rs"]
mod held;

use sealane_tests::comparison::nginx_version;
use sealane_tests::reload::{Reload, ask, reload_as_it_is};
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, handshake, nginx_binary};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Certificates of these names, which are also what they say.
fn make(site: &Site, key: CertificateKey, names: &[&str]) {
    for name in names {
        site.certificate(&Certificate {
            name,
            key,
            names: &format!("DNS:{name}"),
        });
        readable(&site.path(format!("certificates/{name}.key")));
    }
}

/// The worker process reads them, which is another user if the tests run as root.
fn readable(key: &Path) {
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(key, mode).expect("it was made");
}

/// Encrypts a key with a password.
fn lock(key: &Path, password: &str) {
    let sealed = key.with_extension("sealed");
    let (from, to) = (key.display().to_string(), sealed.display().to_string());
    let password = format!("pass:{password}");
    let arguments = [
        "pkcs8", "-topk8", "-in", &from, "-out", &to, "-passout", &password,
    ];
    command("openssl", &arguments, b"").success();
    fs::rename(&sealed, key).expect("the site is writable");
    readable(key);
}

/// Puts a copy of a certificate and its key in the place of another pair, as certbot does.
fn put(site: &Site, from: &str, to: &str) {
    for extension in ["pem", "key"] {
        let name = |stem: &str| site.path(format!("certificates/{stem}.{extension}"));
        fs::copy(name(from), name("new")).expect("it was made");
        fs::rename(name("new"), name(to)).expect("the site is writable");
    }
}

/// The subject of the certificate that a client of this name gets; empty without one.
fn subject(server: &Server<'_>, name: &str) -> String {
    let shown = handshake(server, &format!("-servername {name}")).subject;
    shown.replace("CN = ", "")
}

const FILES: &str = "ssl_certificate certificates/$ssl_server_name.pem;
    ssl_certificate_key certificates/$ssl_server_name.key;";

/// Relative names start from the configuration file, also where it is not in the site's directory.
fn in_http(more: &str) -> String {
    format!(
        "{FILES} server {{ listen 127.0.0.1:%tls% ssl; {more} return 200 <$ssl_server_name>; }}"
    )
}

#[test]
fn the_name_that_a_client_asks_for_is_the_file() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["a.test", "b.test"]);
    let server = site.serve(&in_http(""));
    assert_eq!(subject(&server, "a.test"), "a.test");
    assert_eq!(subject(&server, "b.test"), "b.test");
    // Without a cache the newest file is sent.
    put(&site, "b.test", "a.test");
    assert_eq!(subject(&server, "a.test"), "b.test");
    // Nothing is there for this one: an alert, and the reason in the log.
    let nobody = handshake(&server, "-servername none.test");
    assert!(
        nobody.output.contains("alert internal error"),
        "{}",
        nobody.output
    );
    let log = server.wait_for_log("cannot load certificate");
    let path = site.path("certificates/none.test.pem");
    let message = format!(
        "cannot load certificate \"{}\": open() failed (2: No such file or directory) while SSL \
         handshaking, client: 127.0.0.1, server: ",
        path.display()
    );
    assert!(log.contains("[error]") && log.contains(&message), "{log}");
    // The others are served on.
    assert_eq!(subject(&server, "b.test"), "b.test");
}

#[test]
fn maps_and_texts_give_certificates_of_both_kinds() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["ec"]);
    make(&site, CertificateKey::Rsa, &["rsa"]);
    let pem =
        |name: &str| fs::read_to_string(site.path(format!("certificates/{name}"))).expect("made");
    let text = format!(
        "map $ssl_server_name $chosen {{ default ec; }}
         map $remote_addr $text {{ 127.0.0.1 \"{}\"; }}
         map $server_port $key {{ default \"data:{}\"; }}
         server {{ listen 127.0.0.1:%tls% ssl; ssl_protocols TLSv1.2;
             ssl_certificate certificates/$chosen.pem; ssl_certificate_key certificates/$chosen.key;
             ssl_certificate data:$text; ssl_certificate_key $key; }}",
        pem("rsa.pem"),
        pem("rsa.key"),
    );
    for cache in ["", "ssl_certificate_cache max=8;"] {
        let server = site.serve(&format!("{cache} {text}"));
        for round in 0..2 {
            for (cipher, expected) in [("ECDSA", "ec"), ("RSA", "rsa")] {
                let options = format!("-cipher ECDHE-{cipher}-AES128-GCM-SHA256");
                let shown = handshake(&server, &options);
                let expected = format!("CN = {expected}");
                assert_eq!(shown.subject, expected, "{cache} {round}: {}", shown.output);
            }
        }
        assert!(server.stop("QUIT").success());
    }
}

#[test]
fn a_cache_keeps_what_was_read() {
    let site = Site::new();
    let names = ["a.test", "b.test", "c.test", "d.test"];
    make(&site, CertificateKey::P256, &names);
    let server = site.serve(&format!(
        "ssl_certificate_cache max=4 valid=1h inactive=1h;
         {}
         server {{ listen 127.0.0.1:%soon% ssl; ssl_certificate_cache max=4 valid=0s; }}
         server {{ listen 127.0.0.1:%off% ssl; ssl_certificate_cache off; }}",
        in_http("")
    ));
    let at = |port: &str, name: &str| {
        let address = format!("127.0.0.1:{}", server.port(port));
        let arguments = ["s_client", "-connect", &address, "-servername", name];
        let text = command("openssl", &arguments, b"").text();
        names
            .into_iter()
            .find(|name| text.contains(&format!("s:CN = {name}")))
    };
    for port in ["tls", "soon", "off"] {
        assert_eq!(at(port, "a.test"), Some("a.test"), "{port}");
        assert_eq!(at(port, "b.test"), Some("b.test"), "{port}");
    }
    put(&site, "d.test", "a.test");
    put(&site, "d.test", "b.test");
    assert_eq!(at("off", "a.test"), Some("d.test"));
    assert_eq!(at("tls", "b.test"), Some("b.test"));
    assert_eq!(at("tls", "a.test"), Some("a.test"));
    // Nothing is believed for longer than that.
    sealane_tests::wait_for("a check of the files", || {
        (at("soon", "a.test") == Some("d.test")).then_some(())
    });
    // There is room for two pairs, and `b.test` was used longest ago.
    assert_eq!(at("tls", "c.test"), Some("c.test"));
    assert_eq!(at("tls", "a.test"), Some("a.test"));
    assert_eq!(at("tls", "b.test"), Some("d.test"));
    // A file that has gone is no longer served once it is looked for.
    fs::remove_file(site.path("certificates/a.test.pem")).expect("it is there");
    sealane_tests::wait_for("a check of the file", || {
        at("soon", "a.test").is_none().then_some(())
    });
    // A reload begins with an empty cache.
    assert_eq!(at("tls", "b.test"), Some("d.test"));
    put(&site, "c.test", "b.test");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(at("tls", "b.test"), Some("c.test"));
}

#[test]
fn keys_with_passwords_are_decrypted_each_time() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["a.test"]);
    lock(&site.path("certificates/a.test.key"), "word");
    site.write("words", "wrong\nword\n");
    let server = site.serve(&format!(
        "ssl_password_file {}; ssl_certificate_cache max=8; {}",
        site.path("words").display(),
        in_http("")
    ));
    for _ in 0..2 {
        assert_eq!(subject(&server, "a.test"), "a.test");
    }
}

#[test]
fn sessions_resume_with_the_same_certificate_only() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["a.test", "b.test"]);
    let server = site.serve(&format!("ssl_session_cache shared:S:1m; {}", in_http("")));
    let session = site.path("session.pem").display().to_string();
    for protocol in ["-tls1_2", "-tls1_3"] {
        let begin = format!("{protocol} -servername a.test -sess_out {session}");
        assert!(handshake(&server, &begin).succeeded());
        for (name, reused) in [("a.test", true), ("b.test", false)] {
            let again = format!("{protocol} -servername {name} -sess_in {session}");
            let output = handshake(&server, &again).output;
            assert_eq!(output.contains("Reused, TLS"), reused, "{name}: {output}");
        }
    }
}

#[test]
fn a_name_cannot_lead_out_of_the_directory() {
    let site = Site::new();
    make(&site, CertificateKey::P256, &["secret", "a.test"]);
    for extension in ["pem", "key"] {
        let from = site.path(format!("certificates/secret.{extension}"));
        fs::rename(from, site.path(format!("secret.{extension}"))).expect("writable");
    }
    let server = site.serve(&in_http(""));
    assert_eq!(subject(&server, "../secret"), "");
    server.wait_for_log(&format!(
        "cannot load certificate \"{}\"",
        site.path("certificates/.pem").display()
    ));
    assert_eq!(subject(&server, "a.test"), "a.test");
}

#[test]
fn both_refuse_the_same_configurations() {
    let site = Site::new();
    let is_old = nginx_version() < (1, 27, 4);
    if is_old {
        sealane_needs::leave_out("this nginx has no \"ssl_certificate_cache\" to compare with");
    }
    let refused = |text: &str, expected: &str| {
        let whole =
            format!("events {{}} http {{ server {{ listen 127.0.0.1:%tls% ssl; {text} }} }}");
        sealane_tests::reload::configure(&site, &whole);
        let ours = ask(&site, &["-t"]);
        assert!(ours.stderr.contains(expected), "{text}: {}", ours.stderr);
        if text.contains("ssl_certificate_cache") && is_old {
            return;
        }
        let conf = site.path("sealane.conf").display().to_string();
        let nginx = nginx_binary().display().to_string();
        let theirs = command(&nginx, &["-t", "-c", &conf], b"").stderr;
        assert!(theirs.contains(expected), "{text}: {theirs}");
    };
    refused(
        "ssl_certificate $host.pem;",
        "no \"ssl_certificate_key\" is defined for certificate \"$host.pem\"",
    );
    refused(
        "ssl_certificate $nothing.pem; ssl_certificate_key a.key;",
        "unknown \"nothing\" variable",
    );
    let pair = "ssl_certificate $host.pem; ssl_certificate_key $host.key;";
    refused(
        &format!("{pair} ssl_certificate_cache inactive=1s;"),
        "\"ssl_certificate_cache\" must have the \"max\" parameter",
    );
    refused(
        &format!("{pair} ssl_certificate_cache max=0;"),
        "invalid parameter \"max=0\"",
    );
    refused(
        &format!("{pair} ssl_certificate_cache max=1; ssl_certificate_cache off;"),
        "\"ssl_certificate_cache\" directive is duplicate",
    );
    assert!(Path::new(&site.path("sealane.conf")).exists());
}
