//! Refused settings, in words that an operator of nginx knows.

use crate::ktls::KtlsMode;

use super::*;

fn refused(config: &ServerSettings) -> String {
    ServerTls::build(config)
        .expect_err("invalid settings")
        .to_string()
}

#[test]
fn certificates_and_keys() {
    let mut config = settings(&[rsa()]);
    assert!(ServerTls::build(&config).is_ok());
    config.identities[0].key_pem = Secret::new(p256().key_pem.into_bytes());
    let error = refused(&config);
    assert!(
        error.starts_with("SSL_CTX_use_PrivateKey(\"key.pem\") failed (SSL: error:"),
        "{error}"
    );
    assert!(error.contains("MISMATCH"), "{error}");
    let other = make(&rcgen::PKCS_ECDSA_P256_SHA256, "other.test");
    config.identities[0].chain_pem = other.chain_pem.into_bytes();
    assert!(refused(&config).contains("MISMATCH"));
    config.identities[0].chain_pem = b"nothing".to_vec();
    let error = refused(&config);
    assert!(
        error.starts_with(
            "cannot load certificate \"cert.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:"
        ),
        "{error}"
    );
    assert!(error.contains("NO_START_LINE"), "{error}");
    config = settings(&[rsa()]);
    config.identities[0].key_pem = Secret::new(b"nothing".to_vec());
    let error = refused(&config);
    assert!(
        error.starts_with(
            "cannot load certificate key \"key.pem\": PEM_read_bio_PrivateKey() failed (SSL: error:"
        ),
        "{error}"
    );
    assert_eq!(
        refused(&ServerSettings::default()),
        "no \"ssl_certificate\" is defined"
    );
}

#[test]
fn a_second_certificate_of_one_kind_replaces_the_first() {
    let second = make(&rcgen::PKCS_ECDSA_P256_SHA256, "second.test");
    let (_, warnings) = ServerTls::build(&settings(&[p256(), second])).expect("valid");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn cipher_strings() {
    let with = |ciphers: &str, protocols: &[Protocol]| ServerSettings {
        ciphers: ciphers.to_owned(),
        protocols: protocols.iter().copied().collect(),
        ..settings(&[rsa()])
    };
    let error = refused(&with("FOO", &[Protocol::TlsV1_2]));
    assert_eq!(
        error,
        "SSL_CTX_set_cipher_list(\"FOO\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)"
    );
    let dhe = "DHE-RSA-AES128-SHA";
    assert!(refused(&with(dhe, &[Protocol::TlsV1_2])).contains("AWS-LC has none"));
    let (_, warnings) = ServerTls::build(&with(dhe, &[Protocol::TlsV1_2, Protocol::TlsV1_3]))
        .expect("TLS 1.3 is left");
    assert_eq!(warnings.len(), 1);
    let study = "ECDHE-RSA-AES256-SHA384:AES256-SHA256:RC4:HIGH:!aNULL:!MD5";
    let server = server(&with(
        study,
        &[Protocol::TlsV1, Protocol::TlsV1_1, Protocol::TlsV1_2],
    ));
    assert_eq!(
        server.cipher_names().first(),
        Some(&"ECDHE-RSA-AES256-SHA384")
    );
    assert!(server.cipher_names().contains(&"AES128-SHA"));
}

#[test]
fn security_levels() {
    let with = |ciphers: &str, made: Made| ServerSettings {
        ciphers: ciphers.to_owned(),
        ..settings(&[made])
    };
    assert!(refused(&with("HIGH:@SECLEVEL=3", rsa())).contains("ee key too small"));
    let (server, warnings) =
        ServerTls::build(&with("HIGH:@SECLEVEL=3", p256())).expect("128 bits are enough");
    assert!(
        warnings
            .iter()
            .any(|warning| warning.to_string().contains("tickets are off")),
        "{warnings:?}"
    );
    assert!(
        !server.cipher_names().contains(&"AES128-GCM-SHA256"),
        "no forward secrecy"
    );
    let context = client(|builder| super::version(builder, ProtocolVersion::Tls11));
    assert!(Pair::with(&context, &Arc::new(server)).handshake().is_err());
}

#[test]
fn conf_commands_are_applied() {
    let with = |commands: &[(&str, &str)]| ServerSettings {
        conf_commands: commands
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..settings(&[rsa()])
    };
    assert_eq!(
        server(&with(&[("Options", "KTLS")])).ktls_mode(),
        KtlsMode::On
    );
    assert_eq!(
        server(&with(&[("Options", "-KTLS")])).ktls_mode(),
        KtlsMode::Off
    );
    assert_eq!(server(&with(&[])).ktls_mode(), KtlsMode::Auto);
    let limited = server(&with(&[
        ("MaxProtocol", "TLSv1.2"),
        ("CipherString", "AES128-SHA:AES256-SHA"),
        ("Options", "ServerPreference"),
    ]));
    let mut pair = Pair::with(&client(|_| {}), &limited);
    pair.handshake().expect("static RSA");
    let info = pair.server.info().expect("chosen");
    assert_eq!(
        (info.protocol(), info.cipher(), info.curve()),
        ("TLSv1.2", "AES128-SHA", "")
    );
    let signed = server(&with(&[("SignatureAlgorithms", "RSA-PSS+SHA512")]));
    let mut pair = Pair::with(&client(|_| {}), &signed);
    pair.handshake().expect("AWS-LC's clients accept it");
    assert_eq!(pair.client.signature_scheme(), Some(0x0806));
    assert!(refused(&with(&[("NoSuchCommand", "x")])).contains("unknown cmd name"));
    assert!(refused(&with(&[("Ciphersuites", "TLS_FOO")])).contains("no cipher match"));
    assert!(
        refused(&with(&[("SignatureAlgorithms", "FOO+BAR")])).contains("SSL_CTX_set1_sigalgs_list")
    );
    assert!(refused(&with(&[("Groups", "foo")])).contains("unknown group \"foo\""));
}

#[test]
fn secrets_are_not_printed() {
    let config = settings(&[rsa()]);
    let printed = format!("{config:?}");
    assert!(!printed.contains("PRIVATE KEY") && printed.contains("redacted"));
}
