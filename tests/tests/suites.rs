//! Every cipher suite of the TLS library under every protocol that can use it,
//! and the directives that choose among them.

use sealane_awslc::Cipher;
use sealane_tests::{
    Certificate, CertificateKey, Server, Site, command, handshake, nginx_binary, wire,
};

/// Protocol numbers, s_client's option and nginx's name.
const PROTOCOLS: [(u16, &str, &str); 4] = [
    (0x0301, "-tls1", "TLSv1"),
    (0x0302, "-tls1_1", "TLSv1.1"),
    (0x0303, "-tls1_2", "TLSv1.2"),
    (0x0304, "-tls1_3", "TLSv1.3"),
];

/// Suites that the library has and this test cannot use, each with the reason.
fn excluded(cipher: Cipher) -> Option<&'static str> {
    match cipher.name() {
        name if name.contains("PSK") => Some("there is no directive for pre-shared keys"),
        "DES-CBC3-SHA" => Some("Debian's openssl is built without 3DES"),
        "NULL-SHA" => Some("it does not encrypt"),
        _ => None,
    }
}

fn usable_ciphers() -> impl Iterator<Item = Cipher> {
    sealane_awslc::all_ciphers()
        .iter()
        .copied()
        .filter(|cipher| excluded(*cipher).is_none())
}

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("rsa", CertificateKey::Rsa));
    site.certificate(&Certificate::localhost("ecdsa", CertificateKey::P256));
    site
}

const CERTIFICATES: &str = "
    ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/rsa.key;
    ssl_certificate certificates/ecdsa.pem; ssl_certificate_key certificates/ecdsa.key;
    location = /tls { return 200 \"<$ssl_protocol $ssl_cipher>\"; }";

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%tls% ssl; {CERTIFICATES} {directives} }}"
    ))
}

#[test]
fn every_suite_under_every_protocol() {
    let site = site();
    let old: Vec<&str> = usable_ciphers()
        .filter(|cipher| cipher.max_version() < 0x0304)
        .map(Cipher::name)
        .collect();
    let server = serve(
        &site,
        &format!(
            "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers {};",
            old.join(":")
        ),
    );
    let mut handshakes = 0;
    for cipher in usable_ciphers() {
        for (version, option, protocol) in PROTOCOLS {
            if version < cipher.min_version() || version > cipher.max_version() {
                continue;
            }
            let name = if version == 0x0304 {
                cipher.standard_name()
            } else {
                cipher.name()
            };
            let choice = match version {
                0x0304 => format!("{option} -ciphersuites {name}"),
                _ => format!("{option} -cipher {name}:@SECLEVEL=0"),
            };
            let result = handshake(&server, &choice);
            assert_eq!(
                (result.protocol.as_str(), result.cipher.as_str()),
                (protocol, name),
                "{}",
                result.output
            );
            let seen_by_server = format!("<{protocol} {name}>");
            assert!(
                result.output.contains(&seen_by_server),
                "{seen_by_server} in {}",
                result.output
            );
            handshakes += 1;
        }
    }
    // 3 in TLS 1.3; 10 AEAD and 10 CBC suites in TLS 1.2, of which 6 also under 1.0 and 1.1.
    assert!(
        handshakes >= 30,
        "only {handshakes} combinations were tried"
    );
}

#[test]
fn protocols_that_are_not_configured_are_refused() {
    let site = site();
    let server = serve(&site, "");
    for (_, option, protocol) in PROTOCOLS {
        let result = handshake(&server, &format!("{option} -cipher ALL:@SECLEVEL=0"));
        let expected = matches!(protocol, "TLSv1.2" | "TLSv1.3");
        assert_eq!(
            result.succeeded(),
            expected,
            "{protocol} by default: {}",
            result.output
        );
    }
    let only = Site::new();
    only.certificate(&Certificate::localhost("rsa", CertificateKey::Rsa));
    only.certificate(&Certificate::localhost("ecdsa", CertificateKey::P256));
    let server = serve(&only, "ssl_protocols TLSv1.3;");
    assert!(!handshake(&server, "-tls1_2").succeeded());
    assert!(handshake(&server, "-tls1_3").succeeded());
}

#[test]
fn the_servers_order_decides_only_when_asked_to() {
    let (site, other) = (site(), site());
    let list = "ssl_protocols TLSv1.2; ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256;";
    let client = "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384";
    let clients_choice = serve(&site, list);
    assert_eq!(
        handshake(&clients_choice, client).cipher,
        "ECDHE-RSA-AES128-GCM-SHA256"
    );
    let servers_choice = serve(&other, &format!("{list} ssl_prefer_server_ciphers on;"));
    assert_eq!(
        handshake(&servers_choice, client).cipher,
        "ECDHE-RSA-AES256-GCM-SHA384"
    );
}

#[test]
fn of_the_suites_of_tls_1_3_the_one_with_the_faster_hash_goes_first() {
    let client = "-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    for (configuration, expected) in [
        ("", "TLS_AES_256_GCM_SHA384"),
        ("ssl_prefer_server_ciphers on;", "TLS_AES_128_GCM_SHA256"),
        (
            "ssl_prefer_server_ciphers on;
             ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256;",
            "TLS_AES_256_GCM_SHA384",
        ),
    ] {
        let site = site();
        let server = serve(&site, configuration);
        let cipher = handshake(&server, client).cipher;
        assert_eq!(cipher, expected, "with {configuration:?}");
    }
}

#[test]
fn chacha_first_for_clients_that_put_it_first() {
    let site = site();
    let server = serve(
        &site,
        "ssl_protocols TLSv1.2; ssl_prefer_server_ciphers on; ssl_conf_command Options PrioritizeChaCha;
         ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305;",
    );
    let (aes, chacha) = ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305");
    assert_eq!(
        handshake(&server, &format!("-tls1_2 -cipher {chacha}:{aes}")).cipher,
        chacha
    );
    assert_eq!(
        handshake(&server, &format!("-tls1_2 -cipher {aes}:{chacha}")).cipher,
        aes
    );
}

#[test]
fn tls13_suites_are_filtered_by_ssl_conf_command() {
    let site = site();
    let server = serve(
        &site,
        "ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;",
    );
    assert_eq!(
        handshake(&server, "-tls1_3").cipher,
        "TLS_CHACHA20_POLY1305_SHA256"
    );
    assert!(!handshake(&server, "-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256").succeeded());
}

#[test]
fn certificates_are_replaced_by_ssl_conf_command() {
    let site = site();
    site.certificate(&Certificate {
        name: "override",
        key: CertificateKey::Rsa,
        names: "DNS:localhost",
    });
    // The one with the same kind of key is replaced, the other one stays.
    let server = serve(
        &site,
        "ssl_conf_command Certificate certificates/override.pem;
         ssl_conf_command PrivateKey certificates/override.key;",
    );
    for (algorithms, name) in [("RSA-PSS+SHA256", "override"), ("ECDSA+SHA256", "ecdsa")] {
        let subject = handshake(&server, &format!("-tls1_3 -sigalgs {algorithms}")).subject;
        assert!(subject.contains(name), "{subject} instead of {name}");
    }
}

#[test]
fn groups_follow_ssl_ecdh_curve() {
    let site = site();
    let server = serve(
        &site,
        "ssl_ecdh_curve secp384r1:prime256v1; ssl_ciphers ECDHE;",
    );
    for (group, accepted) in [("P-384", true), ("P-256", true), ("X25519", false)] {
        for protocol in ["-tls1_2", "-tls1_3"] {
            let result = handshake(&server, &format!("{protocol} -groups {group}"));
            assert_eq!(
                result.succeeded(),
                accepted,
                "{group} with {protocol}: {}",
                result.output
            );
        }
    }
}

/// Whether the nginx of comparisons has an OpenSSL with ML-KEM: 3.5 or later.
fn nginx_has_ml_kem() -> bool {
    let said = command(&nginx_binary().display().to_string(), &["-V"], b"").stderr;
    let version = said.split_once("built with OpenSSL ").map(|(_, rest)| rest);
    let version = version.unwrap_or_else(|| panic!("nginx -V names no OpenSSL: {said:?}"));
    let mut numbers = version.split('.').map(|number| number.parse::<u32>());
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        panic!("a version of another form: {version:?}");
    };
    (major, minor) >= (3, 5)
}

#[test]
fn ml_kem_alone_with_openssl_as_the_client() {
    const GROUPS: [&str; 3] = ["MLKEM512", "MLKEM768", "MLKEM1024"];
    if !nginx_has_ml_kem() {
        eprintln!("not tested: the OpenSSL of nginx is older than 3.5");
        return;
    }
    let site = site();
    for group in GROUPS {
        let server = serve(
            &site,
            &format!(
                "ssl_protocols TLSv1.3; ssl_ecdh_curve {group};
                location / {{ return 200 $ssl_curve; }}"
            ),
        );
        let front = Site::new();
        let locations = GROUPS.map(|offered| {
            format!(
                "location = /{offered} {{ proxy_pass https://127.0.0.1:{};
                proxy_ssl_protocols TLSv1.3; proxy_ssl_conf_command Groups {offered}; }}",
                server.port("tls")
            )
        });
        let nginx = front.serve_by_nginx(&format!(
            "server {{ listen 127.0.0.1:%plain%; {} }}",
            locations.join("\n")
        ));
        for offered in GROUPS {
            let response = wire::get(nginx.port("plain"), &format!("/{offered}"));
            match offered == group {
                true => assert_eq!(response.body, group.as_bytes(), "{response:?}"),
                false => assert_eq!(response.status, 502, "{offered} to {group}: {response:?}"),
            }
        }
    }
}

#[test]
fn the_certificate_is_one_that_the_client_can_verify() {
    let site = site();
    let server = serve(&site, "");
    for (client, subject) in [
        ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "rsa"),
        ("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "ecdsa"),
        ("-tls1_3 -sigalgs rsa_pss_rsae_sha256", "rsa"),
        ("-tls1_3 -sigalgs ecdsa_secp256r1_sha256", "ecdsa"),
    ] {
        let result = handshake(&server, client);
        assert_eq!(
            result.subject,
            format!("CN = {subject}"),
            "{client}: {}",
            result.output
        );
    }
}
