//! Every suite, group and kind of certificate, with data in both directions.

use sealane_awslc::{all_ciphers, group_by_name};

use super::*;
use crate::DynamicRecords;

const VERSIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::Tls10,
    ProtocolVersion::Tls11,
    ProtocolVersion::Tls12,
    ProtocolVersion::Tls13,
];

#[test]
fn every_suite_under_every_version_it_works_with() {
    let mut config = settings(&[rsa(), p256()]);
    config.ciphers = "ALL:eNULL:!aNULL".to_owned();
    let server = server(&config);
    let mut tried = 0;
    for cipher in all_ciphers() {
        // Pre-shared keys need a callback that servers do not have; 3DES is not
        // in OpenSSL's default build, so no cipher string selects it.
        if cipher.name().contains("PSK") || cipher.name() == "DES-CBC3-SHA" {
            continue;
        }
        for version in VERSIONS {
            if !(cipher.min_version()..=cipher.max_version()).contains(&version.wire()) {
                continue;
            }
            let context = client(|builder| {
                super::version(builder, version);
                if version == ProtocolVersion::Tls13 {
                    builder
                        .set_ciphersuites(cipher.name())
                        .expect("its own name");
                } else {
                    builder
                        .set_cipher_list(cipher.name())
                        .expect("its own name");
                }
            });
            let mut pair = Pair::with(&context, &server);
            pair.handshake()
                .unwrap_or_else(|error| panic!("{} {version}: {error:?}", cipher.name()));
            assert_eq!(pair.up(b"GET"), b"GET", "{} {version}", cipher.name());
            let body = data(100_000);
            assert!(pair.down(&body) == body, "{} {version}", cipher.name());
            let info = pair.server.info().expect("a server was chosen");
            assert_eq!(
                (info.cipher(), info.protocol()),
                (cipher.name(), version.name())
            );
            assert_eq!(
                info.curve().is_empty(),
                cipher.key_exchange() == "RSA",
                "{}",
                cipher.name()
            );
            tried += 1;
        }
    }
    assert_eq!(tried, 35, "a suite or a version is missing");
}

#[test]
fn every_group() {
    let mut config = settings(&[p256()]);
    let names = [
        ("X25519MLKEM768", "X25519MLKEM768"),
        ("X25519", "X25519"),
        ("P-256", "prime256v1"),
        ("P-384", "secp384r1"),
        ("P-521", "secp521r1"),
        ("SecP256r1MLKEM768", "SecP256r1MLKEM768"),
        ("SecP384r1MLKEM1024", "SecP384r1MLKEM1024"),
        ("MLKEM512", "MLKEM512"),
        ("MLKEM768", "MLKEM768"),
        ("MLKEM1024", "MLKEM1024"),
    ];
    config.groups = Some(names.map(|(_, openssl)| openssl).join(":"));
    let server = server(&config);
    for (name, openssl) in names {
        let group = group_by_name(name).expect("known");
        let context = client(|builder| builder.set_groups(&[group]).expect("valid"));
        let mut pair = Pair::with(&context, &server);
        pair.handshake().expect(name);
        assert_eq!(pair.server.info().map(|info| info.curve()), Some(openssl));
    }
}

#[test]
fn the_hybrid_group_is_chosen_by_default() {
    let server = server(&ServerSettings {
        groups: None,
        ..settings(&[p256()])
    });
    let offered =
        ["X25519MLKEM768", "X25519", "P-256"].map(|name| group_by_name(name).expect("known"));
    let context = client(|builder| builder.set_groups(&offered).expect("valid"));
    let mut pair = Pair::with(&context, &server);
    pair.handshake().expect("a common group");
    assert_eq!(
        pair.server.info().map(|info| info.curve()),
        Some("X25519MLKEM768")
    );
}

#[test]
fn one_byte_at_a_time() {
    let server = server(&settings(&[rsa(), p256()]));
    for version in VERSIONS {
        let context = client(|builder| super::version(builder, version));
        let mut pair = Pair::with(&context, &server);
        pair.chunk_bytes = 1;
        pair.handshake()
            .unwrap_or_else(|error| panic!("{version}: {error:?}"));
        assert_eq!(pair.up(&data(3000)), data(3000));
        assert_eq!(pair.down(&data(3000)), data(3000));
    }
}

#[test]
fn a_large_write_is_sealed_in_one_call_and_full_records() {
    let server = server(&settings(&[p256()]));
    let mut pair = Pair::with(&client(|_| {}), &server);
    pair.handshake().expect("defaults");
    pair.down(b"");
    let body = data(1 << 20);
    pair.server
        .write(&body, 0, &mut pair.to_client)
        .expect("established");
    assert_eq!(record_sizes(&pair.to_client), vec![16_384 + 17; 64]);
    assert!(pair.down(b"") == body);
}

#[test]
fn record_sizes_follow_the_buffer_size_and_dynamic_records() {
    let config = ServerSettings {
        buffer_bytes: 4096,
        ..settings(&[p256()])
    };
    let mut pair = Pair::with(&client(|_| {}), &server(&config));
    pair.handshake().expect("defaults");
    pair.down(b"");
    pair.server
        .write(&data(10_000), 0, &mut pair.to_client)
        .expect("established");
    assert_eq!(
        record_sizes(&pair.to_client),
        [4096 + 17, 4096 + 17, 1808 + 17]
    );

    let dynamic = DynamicRecords {
        threshold: 1,
        ..DynamicRecords::default()
    };
    let config = ServerSettings {
        dynamic_records: Some(dynamic),
        ..settings(&[p256()])
    };
    let mut pair = Pair::with(&client(|_| {}), &server(&config));
    pair.handshake().expect("defaults");
    pair.server
        .write(b"", 0, &mut pair.to_client)
        .expect("flushes the tickets");
    pair.to_client.clear();
    pair.server
        .write(&data(20_000), 0, &mut pair.to_client)
        .expect("established");
    assert_eq!(
        record_sizes(&pair.to_client),
        [1369 + 17, 1369 + 17, 4229 + 17, 13_033 + 17]
    );
    pair.to_client.clear();
    pair.server
        .write(&data(2000), 5000, &mut pair.to_client)
        .expect("established");
    assert_eq!(
        record_sizes(&pair.to_client),
        [1369 + 17, 631 + 17],
        "sizes start over after a pause"
    );
}

#[test]
fn close_notify_both_ways() {
    let server = server(&settings(&[p256()]));
    let mut pair = Pair::with(&client(|_| {}), &server);
    pair.handshake().expect("defaults");
    pair.client
        .write(b"last", &mut pair.to_server)
        .expect("established");
    pair.client.shutdown(&mut pair.to_server);
    let (wire, mut plain) = (std::mem::take(&mut pair.to_server), [0; 100]);
    let mut input = &wire[..];
    let mut read = |pair: &mut Pair| {
        pair.server
            .read(&mut input, &mut pair.to_client, &mut plain)
    };
    assert_eq!(read(&mut pair), Ok(ReadStatus::Data(4)));
    assert_eq!(read(&mut pair), Ok(ReadStatus::CloseNotify));
    assert_eq!(read(&mut pair), Ok(ReadStatus::CloseNotify));
    pair.to_client.clear();
    pair.server.shutdown(&mut pair.to_client);
    let length = pair.to_client.len();
    assert!(length > 0);
    pair.server.shutdown(&mut pair.to_client);
    assert_eq!(pair.to_client.len(), length, "one close_notify is enough");
}

#[test]
fn variables() {
    let config = ServerSettings {
        remember_client_offer: true,
        ..settings(&[rsa()])
    };
    let server = server(&config);
    let context = client(|builder| {
        super::version(builder, ProtocolVersion::Tls13);
        builder
            .set_ciphersuites("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256")
            .expect("valid");
        builder
            .set_groups(&[
                group_by_name("P-384").expect("known"),
                group_by_name("P-256").expect("known"),
            ])
            .expect("valid");
    });
    let mut pair = Pair::new(&context, &Acceptor::single(server), Some("Name.Test"));
    pair.handshake().expect("a common suite");
    let info = pair.server.info().expect("a server was chosen");
    assert_eq!(info.protocol(), "TLSv1.3");
    assert_eq!(info.curve(), "secp384r1");
    assert!(
        info.curves().ends_with("secp384r1:prime256v1"),
        "{}",
        info.curves()
    );
    assert!(
        info.ciphers()
            .contains("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"),
        "{}",
        info.ciphers()
    );
    assert_eq!(info.sigalg(), "rsa_pss_rsae_sha256");
    assert!(
        info.sigalgs()
            .starts_with("ecdsa_secp256r1_sha256:rsa_pss_rsae_sha256"),
        "{}",
        info.sigalgs()
    );
    assert_eq!(pair.client.signature_scheme(), Some(0x0804));
    assert_eq!((info.session_reused(), info.early_data()), (".", ""));
    assert_eq!(info.server_name(), "Name.Test");
    assert_eq!(info.alpn(), b"");
}

#[test]
fn the_signature_of_tls12_is_known_too() {
    let server = server(&settings(&[p256()]));
    let context = client(|builder| super::version(builder, ProtocolVersion::Tls12));
    let mut pair = Pair::with(&context, &server);
    pair.handshake().expect("defaults");
    assert_eq!(
        pair.server.info().map(|info| info.sigalg()),
        Some("ecdsa_secp256r1_sha256")
    );
}

/// Body lengths of the records on the wire.
fn record_sizes(mut wire: &[u8]) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Some((header, rest)) = wire.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        sizes.push(length);
        wire = &rest[length..];
    }
    sizes
}
