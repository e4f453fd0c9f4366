//! Where keys come from.

use super::*;

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

#[test]
fn encrypted_keys_need_their_passphrase() {
    let provider = default_provider();
    let key = made(&rcgen::PKCS_RSA_SHA256);
    for format in [
        &["pkey", "-aes256", "-passout", "pass:open sesame"][..],
        &[
            "rsa",
            "-traditional",
            "-aes128",
            "-passout",
            "pass:open sesame",
        ],
    ] {
        let encrypted = openssl(format, key.pem.as_bytes());
        assert!(encrypted.contains("ENCRYPTED"), "{encrypted}");
        let read = |passphrase: Option<&str>| {
            let passphrase = passphrase.map(secret);
            provider.key_from_pem(encrypted.as_bytes(), passphrase.as_ref())
        };
        let found = read(Some("open sesame")).expect("the passphrase");
        assert_eq!(
            (found.bits(), found.computing_provider()),
            (2048, "default")
        );
        for passphrase in [None, Some("close"), Some("")] {
            let text = read(passphrase).expect_err("another one").to_string();
            assert!(
                text.starts_with("the OpenSSL provider \"default\" has no private key for this: OSSL_DECODER_from_data() failed (")
                    && !text.contains("close"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_uri_names_a_file() {
    let provider = default_provider();
    let key = made(&rcgen::PKCS_ECDSA_P384_SHA384);
    let encrypted = openssl(
        &["pkey", "-aes256", "-passout", "pass:open sesame"],
        key.pem.as_bytes(),
    );
    let directory = std::env::temp_dir().join(format!("sealane-provider-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("room");
    for (name, text, passphrase) in [
        ("plain.pem", &key.pem, None),
        ("encrypted.pem", &encrypted, Some(secret("open sesame"))),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("room");
        let uri = format!("file:{}", path.display());
        let found = provider.key_from_uri(&uri, passphrase.as_ref());
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.bits(), 384);
        if passphrase.is_some() {
            assert!(provider.key_from_uri(&uri, None).is_err());
            assert!(provider.key_from_uri(&uri, Some(&secret("close"))).is_err());
        }
    }
    for uri in ["file:/nonexistent/key.pem", "nosuchscheme:1", "", "file:\0"] {
        let text = provider
            .key_from_uri(uri, None)
            .expect_err("no key")
            .to_string();
        assert!(
            text.contains("has no private key for this: OSSL_STORE_"),
            "{text}"
        );
    }
    std::fs::remove_dir_all(directory).expect("it is there");
}

/// nginx takes the first private key of a file, whatever else is in it.
#[test]
fn a_key_may_stand_behind_certificates() {
    let provider = default_provider();
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("supported");
    let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()])
        .and_then(|params| params.self_signed(&pair))
        .expect("the key signs");
    let text = format!("text\n{0}{0}{1}", certificate.pem(), pair.serialize_pem());
    let key = provider.key_from_pem(text.as_bytes(), None);
    assert!(key.is_ok(), "{key:?}");
    for text in [
        "",
        "text",
        &certificate.pem(),
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ] {
        assert!(
            provider.key_from_pem(text.as_bytes(), None).is_err(),
            "{text}"
        );
    }
}

/// A provider that knows no keys of this kind leaves them to OpenSSL's own.
#[test]
fn who_computes_is_known() {
    let Some(provider) = card_with(&[]) else {
        return;
    };
    for (algorithm, computes) in [
        (&rcgen::PKCS_RSA_SHA256, "asynctest"),
        (&rcgen::PKCS_ECDSA_P256_SHA256, "asynctest"),
        (&rcgen::PKCS_ED25519, "default"),
    ] {
        let key = made(algorithm);
        let found = provider
            .key_from_pem(key.pem.as_bytes(), None)
            .expect("a key");
        assert_eq!(found.computing_provider(), computes);
        let public = PublicKey::from_spki_der(found.public_der()).expect("its public half");
        let operation = match algorithm {
            _ if algorithm == &rcgen::PKCS_RSA_SHA256 => sign(0x0804, "m"),
            _ if algorithm == &rcgen::PKCS_ED25519 => sign(0x0807, "m"),
            _ => sign(0x0403, "m"),
        };
        let signature = key.private.perform(&operation).expect("it fits");
        assert!(
            public.verify_result(&operation, signature.expose()).is_ok(),
            "the same key"
        );
    }
}

#[test]
fn keys_that_tls_does_not_use_are_refused() {
    let provider = default_provider();
    for kind in [
        &["genpkey", "-algorithm", "X25519"][..],
        &["ecparam", "-name", "secp256k1", "-genkey", "-noout"],
    ] {
        let pem = openssl(kind, b"");
        let text = provider
            .key_from_pem(pem.as_bytes(), None)
            .expect_err("of no use");
        let text = text.to_string();
        assert!(
            text.contains("is not one that TLS servers use")
                || text.contains("does not give the public key"),
            "{text}"
        );
    }
}
