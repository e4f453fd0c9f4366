//! What clients see: OpenSSL, GnuTLS and Go.

use super::authority::{Authority, here, http};
use super::{block, status};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Outcome, Site, command, go_client, sha256, wait_for};
use std::collections::HashMap;

/// The versions of TLS, as GnuTLS and Go, and as OpenSSL call them.
const VERSIONS: [(&str, &str); 2] = [("1.2", "-tls1_2"), ("1.3", "-tls1_3")];

/// Certificates and what their responder says, each with what the log says if that is no staple.
const CASES: [(&str, &str, Option<&str>); 7] = [
    ("good", "silent", None),
    ("revoked", "revoked", Some("certificate status \"revoked\"")),
    ("expired", "silent", Some("OCSP_check_validity() failed")),
    ("later", "silent", Some("3: trylater")),
    ("strict_good", "strict", None),
    (
        "strict_expired",
        "strict",
        Some("OCSP_check_validity() failed"),
    ),
    ("strict_later", "strict", Some("3: trylater")),
];

/// `gnutls-cli`, which keeps the staple in a file.
fn gnutls(authority: &Authority<'_>, port: u16, version: &str, file: &str) -> Outcome {
    let root = authority.path("root.pem");
    let versions = format!("NORMAL:-VERS-ALL:+VERS-TLS{version}");
    let port = port.to_string();
    let mut arguments = vec!["--x509cafile", &root, "--priority", &versions];
    arguments.extend(["--save-ocsp", file, "--port", &port, "localhost"]);
    command("gnutls-cli", &arguments, b"")
}

#[test]
fn each_client_sees_the_staple_or_none() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let day = "-ndays 1";
    let expired = |name| authority.response(name, "root.pem", day, Some("-3 days"));
    let later = || vec![0x30, 3, 0x0a, 1, 3];
    let said: HashMap<&str, Vec<u8>> = HashMap::from([
        ("good", authority.good("silent")),
        (
            "revoked",
            authority.response("revoked", "root.pem", day, None),
        ),
        ("expired", expired("silent")),
        ("later", later()),
        ("strict_good", authority.good("strict")),
        ("strict_expired", expired("strict")),
        ("strict_later", later()),
    ]);
    let answers = said.clone();
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('/').nth(1).unwrap_or_default();
        Answer::SendAndClose(http("200 OK", "", &answers[name]))
    });
    let mut text = String::from("ssl_stapling on;\n");
    for (name, certificate, _) in CASES {
        let url = format!("http://127.0.0.1:{}/{name}", origin.port());
        let responder = format!("ssl_stapling_responder {url}; ssl_protocols TLSv1.2 TLSv1.3;");
        text.push_str(&block(name, certificate, &responder));
    }
    let server = site.serve(&here(&site, &text));
    for (name, certificate, why) in CASES {
        let port = server.port(name);
        let has_staple = why.is_none();
        match why {
            None => wait_for(&format!("the staple of {name}"), || {
                (status(port, "") == "good").then_some(())
            }),
            // The responder has been asked, and nothing came of it.
            Some(why) => wait_for(&format!("the error about {name}"), || {
                let file = format!("{certificate}.pem");
                let is_it = |line: &str| line.contains(why) && line.contains(&file);
                server.error_log().lines().any(is_it).then_some(())
            }),
        }
        for (version, option) in VERSIONS {
            let case = format!("{name}, TLS {version}");
            let expected = if has_staple { "good" } else { "none" };
            assert_eq!(status(port, option), expected, "OpenSSL: {case}");

            let address = format!("127.0.0.1:{port}");
            let root = authority.path("root.pem");
            let go = [
                "staple", "-address", &address, "-ca", &root, "-tls", version,
            ];
            let seen = go_client(&go, b"").success().text();
            let digest = sha256(&said[name]);
            let expected = if has_staple { &*digest } else { "none" };
            assert_eq!(seen.trim(), expected, "Go: {case}");

            let file = site.path(format!("temporary/{name}-{version}.der"));
            let outcome = gnutls(&authority, port, version, &file.display().to_string());
            let kept = std::fs::read(&file).unwrap_or_default();
            let expected = if has_staple { &said[name][..] } else { &[] };
            assert!(kept == expected, "GnuTLS: {case}\n{}", outcome.text());
            // It insists on what such a certificate demands.
            let is_refused = certificate == "strict" && !has_staple;
            assert_eq!(
                outcome.status != 0,
                is_refused,
                "{case}\n{}",
                outcome.text()
            );
            let told = outcome.text().contains("OCSP status is missing");
            assert_eq!(told, is_refused, "{case}\n{}", outcome.text());
        }
    }
}
