//! Refused configurations, in nginx's words, and the effects of accepted ones.

use super::*;
use crate::SettingsError;

fn refusal(settings: &ClientSettings) -> String {
    match ClientTls::build(settings) {
        Err(SettingsError(text)) => text,
        Ok(_) => panic!("{settings:?} is accepted"),
    }
}

#[test]
fn files_that_do_not_load_are_named() {
    let bad = pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let verify = verifying(&root().pem());
    let made = root().leaf(&["client"]);
    let cases = [
        (
            ClientSettings {
                trusted: None,
                ..verify.clone()
            },
            "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
        ),
        (
            ClientSettings {
                trusted: None,
                directives: "grpc_ssl",
                ..verify.clone()
            },
            "no grpc_ssl_trusted_certificate for grpc_ssl_verify",
        ),
        (
            ClientSettings {
                trusted: bad.clone(),
                ..verify.clone()
            },
            "cannot load certificate \"file.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:",
        ),
        (
            ClientSettings {
                revocation_lists: bad,
                ..verify.clone()
            },
            "cannot load CRL \"file.pem\": PEM_read_bio_X509_CRL() failed (SSL: error:",
        ),
        (
            ClientSettings {
                revocation_lists: pem(""),
                ..verify.clone()
            },
            "cannot load CRL \"file.pem\": PEM_read_bio_X509_CRL() failed (SSL: error:",
        ),
        (
            ClientSettings {
                identity: Some(Identity {
                    key_pem: root().leaf(&["other"]).identity().key_pem,
                    ..made.identity()
                }),
                ..verify.clone()
            },
            "SSL_CTX_use_PrivateKey(\"key.pem\") failed (SSL: error:",
        ),
        (
            ClientSettings {
                identity: Some(Identity {
                    chain_pem: b"nothing".to_vec(),
                    ..made.identity()
                }),
                ..verify
            },
            "cannot load certificate \"cert.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:",
        ),
    ];
    for (settings, expected) in cases {
        let text = refusal(&settings);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn ciphers_protocols_and_commands_are_read_as_the_servers_are() {
    let with = |ciphers: &str, commands: &[(&str, &str)]| ClientSettings {
        ciphers: ciphers.to_owned(),
        conf_commands: commands
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..ClientSettings::default()
    };
    for (settings, expected) in [
        (
            with("NOSUCH", &[]),
            "SSL_CTX_set_cipher_list(\"NOSUCH\") failed",
        ),
        (
            with("DEFAULT", &[("Foo", "bar")]),
            "SSL_CONF_cmd(\"Foo\", \"bar\") failed (SSL: error:0A000182",
        ),
        (
            with("DEFAULT", &[("VerifyCAFile", "ca.pem")]),
            "\"proxy_ssl_conf_command VerifyCAFile ca.pem\" is not supported: use \"proxy_ssl_trusted_certificate\"",
        ),
        (
            with("DEFAULT", &[("Groups", "nosuch")]),
            "SSL_CTX_set1_curves_list(\"nosuch\") failed: unknown group",
        ),
    ] {
        let text = refusal(&settings);
        assert!(text.starts_with(expected), "{text}");
    }
    let server = root().leaf(&["a.test"]).server();
    for (settings, protocol, cipher) in [
        (
            with(
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                &[("MaxProtocol", "TLSv1.2")],
            ),
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            with(
                "DEFAULT",
                &[("Ciphersuites", "TLS_CHACHA20_POLY1305_SHA256")],
            ),
            "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        (
            with(
                "DEFAULT",
                &[("Groups", "secp521r1"), ("Options", "KTLS,-SessionTicket")],
            ),
            "TLSv1.3",
            "",
        ),
    ] {
        let mut pair = Pair::new(&client(&settings), &server, "a.test");
        pair.handshake().expect("they agree");
        assert_eq!(pair.client.protocol(), protocol);
        assert!(cipher.is_empty() || pair.client.cipher() == cipher);
        if cipher.is_empty() {
            let info = pair.server.info().expect("a server was chosen");
            assert_eq!(info.curve(), "secp521r1");
        }
    }
}

#[test]
fn lists_without_verification_are_warned_about() {
    let settings = ClientSettings {
        revocation_lists: pem(&root().revoke(&[])),
        ..ClientSettings::default()
    };
    let (_, warnings) = ClientTls::build(&settings).expect("valid");
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        warnings[0].to_string(),
        "\"proxy_ssl_crl\" has no effect without \"proxy_ssl_verify on\""
    );
}

#[test]
fn encrypted_keys_are_opened_by_their_passwords() {
    let made = root().leaf(&["client"]);
    let openssl = |key_pem: &str| {
        use std::io::Write as _;
        let mut child = std::process::Command::new("openssl")
            .args(["pkcs8", "-topk8", "-passout", "pass:secret"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("openssl is installed");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(key_pem.as_bytes()).expect("it reads");
        drop(stdin);
        child.wait_with_output().expect("it ends").stdout
    };
    let encrypted = openssl(&made.key_pem);
    let with = |passwords: &[&str]| ClientSettings {
        identity: Some(Identity {
            key_pem: Secret::new(encrypted.clone()),
            passwords: passwords
                .iter()
                .map(|password| Secret::new(password.as_bytes().to_vec()))
                .collect(),
            ..made.identity()
        }),
        ..ClientSettings::default()
    };
    client(&with(&["wrong", "secret"]));
    for passwords in [&["wrong"][..], &[]] {
        let text = refusal(&with(passwords));
        assert!(
            text.starts_with("cannot load certificate key \"key.pem\": "),
            "{text}"
        );
        assert!(!text.contains("wrong"), "no password is shown: {text}");
    }
}
