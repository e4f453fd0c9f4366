//! Encrypted Client Hello (`ssl_ech_file`), with Go as the client, and `sealane ech-key`.

use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::{
    Certificate, CertificateKey, Outcome, Server, Site, command, go_client, handshake, has_go,
    sealane_binary, wait_for,
};
use std::os::unix::fs::PermissionsExt;

/// Makes a key, and returns what its record says of it, in base64.
fn make_key(site: &Site, name: &str) -> String {
    let path = site.path(name).display().to_string();
    let binary = sealane_binary().display().to_string();
    let arguments = ["ech-key", "--public-name", "outer.test", &path];
    let record = command(&binary, &arguments, b"").success().text();
    let configs = record.strip_prefix("@ IN HTTPS 1 . ech=");
    configs.expect("a record").trim_end().to_owned()
}

fn site() -> Site {
    let site = Site::new();
    for name in ["inner", "outer"] {
        site.certificate(&Certificate {
            name,
            key: CertificateKey::P256,
            names: &format!("DNS:{name}.test"),
        });
    }
    site
}

/// The servers of one address: the default one is that of the name outside.
fn configuration(site: &Site, files: &str) -> String {
    let block = |name: &str, more: &str| {
        let path = site
            .path(format!("certificates/{name}"))
            .display()
            .to_string();
        format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name {name}.test; {more}
                 ssl_certificate {path}.pem; ssl_certificate_key {path}.key;
                 return 200 \"{name} $ssl_ech_status $ssl_ech_outer_server_name $ssl_server_name\"; }}\n"
        )
    };
    let files: String = files
        .split_whitespace()
        .map(|name| format!("ssl_ech_file {};\n", site.path(name).display()))
        .collect();
    format!("{} {}", block("outer", &files), block("inner", ""))
}

/// What becomes of a Go client that asks for the inner name with these configurations.
fn ask(site: &Site, server: &Server<'_>, configs: &str) -> String {
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let authority = site.authority().display().to_string();
    let common = ["ech", "-address", &address, "-ca", &authority];
    let more = ["-name", "inner.test", "-configs", configs, "/"];
    let outcome = go_client(&[&common[..], &more].concat(), b"").success();
    outcome.text().trim_end().to_owned()
}

const ACCEPTED: &str = "accepted inner SUCCESS outer.test inner.test";

/// What a client without an encrypted hello is shown.
fn in_the_open(site: &Site, server: &Server<'_>, name: &str) -> String {
    let port = server.port("tls");
    let to = format!("{name}:{port}:127.0.0.1");
    let authority = site.authority().display().to_string();
    let url = format!("https://{name}:{port}/");
    let curl = ["-s", "--cacert", &authority, "--resolve", &to, &url];
    command("curl", &curl, b"").success().text()
}

#[test]
fn each_key_opens_hellos_and_a_stranger_is_told_the_first() {
    if !has_go(23) {
        return;
    }
    let site = site();
    let [first, second] = ["first.pem", "second.pem"].map(|name| make_key(&site, name));
    let stranger = make_key(&site, "stranger.pem");
    let server = site.serve(&configuration(&site, "first.pem second.pem"));
    assert_eq!(ask(&site, &server, &first), ACCEPTED);
    assert_eq!(ask(&site, &server, &second), ACCEPTED);
    // It has verified the certificate of the outer name, or it would say something else.
    assert_eq!(ask(&site, &server, &stranger), format!("rejected {first}"));
    // The outer name serves what it always did, as does the inner one for who asks in the open.
    assert_eq!(
        in_the_open(&site, &server, "outer.test"),
        "outer NOT_TRIED  outer.test"
    );
    assert_eq!(
        in_the_open(&site, &server, "inner.test"),
        "inner NOT_TRIED  inner.test"
    );
}

#[test]
fn keys_are_replaced_by_a_reload() {
    if !has_go(23) {
        return;
    }
    let site = site();
    let old = make_key(&site, "key.pem");
    let new = make_key(&site, "next.pem");
    let server = site.serve(&configuration(&site, "key.pem"));
    assert_eq!(ask(&site, &server, &old), ACCEPTED);
    let path = |name: &str| site.path(name);
    std::fs::copy(path("key.pem"), path("saved.pem")).expect("writable");
    std::fs::rename(path("next.pem"), path("key.pem")).expect("writable");
    assert_eq!(ask(&site, &server, &old), ACCEPTED, "before the reload");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(ask(&site, &server, &new), ACCEPTED);
    assert_eq!(ask(&site, &server, &old), format!("rejected {new}"));
    // A file that cannot be used changes nothing.
    site.write("key.pem", "no key");
    assert_eq!(reload_as_it_is(&server), Reload::Refused);
    server.expect_alert("cannot load ECH key");
    assert_eq!(ask(&site, &server, &new), ACCEPTED);
    std::fs::remove_file(path("key.pem")).expect("it is there");
    assert_eq!(reload_as_it_is(&server), Reload::Refused);
    server.wait_for_log("open() failed (2: No such file or directory)");
}

#[test]
fn certificates_change_below_encrypted_hellos() {
    if !has_go(23) {
        return;
    }
    let site = site();
    site.certificate(&Certificate {
        name: "renewed",
        key: CertificateKey::P256,
        names: "DNS:inner.test",
    });
    let [key, stranger] = ["key.pem", "stranger.pem"].map(|name| make_key(&site, name));
    let text = configuration(&site, "key.pem");
    let server = site.serve(&format!("ssl_certificate_reload 100ms; {text}"));
    let subject = || {
        let shown = handshake(&server, "-servername inner.test").subject;
        shown.replace("CN = ", "")
    };
    assert_eq!(subject(), "inner");
    assert_eq!(ask(&site, &server, &key), ACCEPTED);
    for extension in ["key", "pem"] {
        let path = |name: &str| site.path(format!("certificates/{name}.{extension}"));
        std::fs::rename(path("renewed"), path("inner")).expect("writable");
    }
    wait_for("the renewed certificate", || {
        (subject() == "renewed").then_some(())
    });
    // Its context opens the same hellos, and what is said to strangers is the same.
    assert_eq!(ask(&site, &server, &key), ACCEPTED);
    assert_eq!(ask(&site, &server, &stranger), format!("rejected {key}"));
}

#[test]
fn without_keys_clients_are_told_that_there_are_none() {
    if !has_go(23) {
        return;
    }
    let site = site();
    let configs = make_key(&site, "key.pem");
    let server = site.serve(&configuration(&site, ""));
    assert_eq!(ask(&site, &server, &configs), "rejected");
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let site = Site::new();
    let binary = sealane_binary().display().to_string();
    let run = |arguments: &[&str]| -> Outcome {
        command(&binary, &[&["ech-key"][..], arguments].concat(), b"")
    };
    let first = make_key(&site, "key.pem");
    let path = site.path("key.pem");
    let mode = std::fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).expect("text");
    let labels: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("-----"))
        .collect();
    let expected = [
        "BEGIN PRIVATE KEY",
        "END PRIVATE KEY",
        "BEGIN ECHCONFIG",
        "END ECHCONFIG",
    ];
    assert_eq!(labels, expected.map(|label| format!("-----{label}-----")));
    assert!(text.replace('\n', "").contains(&first));
    // What OpenSSL makes of the key.
    let shown = path.display().to_string();
    let openssl = ["pkey", "-in", &shown, "-noout", "-text"];
    let key = command("openssl", &openssl, b"").success().text();
    assert!(key.contains("X25519 Private-Key"), "{key}");
    let again = run(&["--public-name", "outer.test", &shown]);
    assert_ne!(again.status, 0);
    assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
    let other = site.path("other.pem").display().to_string();
    for arguments in [&["--public-name", "not a name", &other][..], &[&other], &[]] {
        assert_ne!(run(arguments).status, 0, "{arguments:?}");
    }
    assert!(!site.path("other.pem").exists());
}
