//! The name in the ClientHello chooses the certificate and the server.

use sealane_tests::{Certificate, CertificateKey, Site, command, handshake};

fn certificate(site: &Site, name: &str) {
    site.certificate(&Certificate {
        name,
        key: CertificateKey::P256,
        names: &format!("DNS:{name}"),
    });
}

#[test]
fn exact_wildcard_and_regex_names_choose_the_certificate() {
    let site = Site::new();
    for name in [
        "default",
        "exact.test",
        "wild.test",
        "regex.test",
        "trailing.test",
    ] {
        certificate(&site, name);
    }
    let block = |names: &str, certificate: &str| {
        format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name {names};
                ssl_certificate certificates/{certificate}.pem; ssl_certificate_key certificates/{certificate}.key;
                location = /tls {{ return 200 \"<{certificate} $ssl_server_name>\"; }} }}"
        )
    };
    let server = site.serve(
        &[
            block("none.test", "default"),
            block("exact.test", "exact.test"),
            block("*.wild.test", "wild.test"),
            block("trailing.*", "trailing.test"),
            block("~^r[0-9]+\\.test$", "regex.test"),
        ]
        .join("\n"),
    );
    for (name, certificate) in [
        ("exact.test", "exact.test"),
        ("EXACT.test", "exact.test"),
        ("a.wild.test", "wild.test"),
        ("a.b.wild.test", "wild.test"),
        ("wild.test", "default"),
        ("trailing.org", "trailing.test"),
        ("r42.test", "regex.test"),
        ("rx.test", "default"),
        ("unknown.test", "default"),
    ] {
        for protocol in ["-tls1_2", "-tls1_3"] {
            let result = handshake(&server, &format!("{protocol} -servername {name}"));
            assert_eq!(
                result.subject,
                format!("CN = {certificate}"),
                "{name}: {}",
                result.output
            );
        }
    }
    let nameless = handshake(&server, "-noservername");
    assert_eq!(nameless.subject, "CN = default", "{}", nameless.output);
}

#[test]
fn the_host_header_chooses_the_server_within_a_connection() {
    let site = Site::new();
    certificate(&site, "one.test");
    certificate(&site, "two.test");
    let server = site.serve(
        "server { listen 127.0.0.1:%tls% ssl; server_name one.test;
            ssl_certificate certificates/one.test.pem; ssl_certificate_key certificates/one.test.key; return 200 one; }
         server { listen 127.0.0.1:%tls% ssl; server_name two.test;
            ssl_certificate certificates/two.test.pem; ssl_certificate_key certificates/two.test.key; return 200 two; }",
    );
    let port = server.port("tls");
    let resolve = format!("one.test:{port}:127.0.0.1");
    let url = format!("https://one.test:{port}/");
    let authority = site.authority();
    let curl = |host: &str| {
        let header = format!("Host: {host}");
        let arguments = [
            "-sS",
            "--resolve",
            &resolve,
            "--cacert",
            authority.to_str().expect("UTF-8"),
            "-H",
            &header,
            &url,
        ];
        command("curl", &arguments, b"").success().text()
    };
    assert_eq!(curl("one.test"), "one");
    assert_eq!(curl("two.test"), "two");
}

#[test]
fn handshakes_can_be_rejected_by_name() {
    let site = Site::new();
    certificate(&site, "known.test");
    let server = site.serve(
        "server { listen 127.0.0.1:%tls% ssl default_server; ssl_reject_handshake on; }
         server { listen 127.0.0.1:%tls% ssl; server_name known.test;
            ssl_certificate certificates/known.test.pem; ssl_certificate_key certificates/known.test.key; return 200 ok; }",
    );
    assert!(handshake(&server, "-servername known.test").succeeded());
    for options in ["-servername unknown.test", "-noservername"] {
        let result = handshake(&server, options);
        assert!(!result.succeeded(), "{options}: {}", result.output);
        assert!(
            result.output.contains("unrecognized name"),
            "{options}: {}",
            result.output
        );
    }
}
