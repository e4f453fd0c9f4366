//! Hellos of more than 16 KiB, and hellos that are refused before libssl sees them.

use super::*;
use sealane_awslc::{ClientIdentity, PrivateKey, group_by_name};

/// A client whose hello has 60 KB, for it offers many protocols.
fn talkative(configure: impl FnOnce(&mut ClientContextBuilder)) -> ClientContext {
    client(|builder| {
        let names: Vec<Vec<u8>> = (0..240_u8).map(|n| vec![n; 250]).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        builder.set_alpn(&names).expect("valid");
        configure(builder);
    })
}

#[test]
fn a_large_hello_is_taken_in_pieces_of_any_size() {
    let server = server(&settings(&[p256()]));
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        for chunk_bytes in [usize::MAX, 16_384, 333, 5] {
            let context = talkative(|builder| super::version(builder, version));
            let mut pair = Pair::with(&context, &server);
            pair.chunk_bytes = chunk_bytes;
            pair.handshake().expect("a hello of 60 KB");
            assert_eq!(pair.up(b"request"), b"request");
            assert_eq!(pair.down(b"response"), b"response");
        }
    }
}

#[test]
fn a_large_hello_is_taken_twice_after_a_hello_retry_request() {
    let server = server(&ServerSettings {
        groups: Some("P-384".to_owned()),
        ..settings(&[p256()])
    });
    let groups = ["X25519", "P-384"].map(|name| group_by_name(name).expect("known"));
    let context = talkative(|builder| builder.set_groups(&groups).expect("valid"));
    let mut pair = Pair::with(&context, &server);
    pair.handshake().expect("the second guess is right");
    assert_eq!(pair.down(b"response"), b"response");
}

#[test]
fn nobody_is_asked_for_a_certificate_because_the_hello_is_large() {
    let made = p256();
    let chain =
        sealane_awslc::CertificateChain::bundle_from_pem(made.chain_pem.as_bytes()).expect("valid");
    let key = PrivateKey::from_pem(made.key_pem.as_bytes(), &[]).expect("valid");
    let identity = ClientIdentity::new(&chain, &key).expect("they match");
    let server = server(&settings(&[p256()]));
    for version in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let context = talkative(|builder| super::version(builder, version));
        let mut pair = Pair::with(&context, &server);
        pair.client
            .set_identity(&identity)
            .expect("before the handshake");
        pair.handshake().expect("a hello of 60 KB");
        assert!(pair.server.client_chain().is_none());
    }
}

/// The alert that a new connection sends for `bytes`.
fn alert(bytes: &[u8]) -> Vec<u8> {
    let acceptor = Acceptor::single(server(&settings(&[p256()])));
    let (mut connection, mut output) = (Connection::accept(&acceptor), Vec::new());
    connection
        .handshake(&mut &bytes[..], &mut output, Load::default())
        .expect_err("refused");
    output
}

#[test]
fn a_hello_longer_than_any_is_refused_by_its_length() {
    // 131,397 bytes to come.
    let output = alert(&[22, 3, 1, 0x40, 0, 1, 2, 1, 0x45, 3, 3]);
    assert_eq!(output, [21, 3, 3, 0, 2, 2, 50]);
}

#[test]
fn a_hello_of_ssl_3_is_refused_whatever_it_offers() {
    let mut wire = Vec::new();
    ClientConnection::unnamed(&client(|_| {}))
        .expect("memory")
        .handshake(&mut &[][..], &mut wire)
        .expect("a hello");
    assert_eq!(wire[9..11], [3, 3], "the version of the hello");
    wire[10] = 0;
    assert_eq!(alert(&wire), [21, 3, 3, 0, 2, 2, 70]);
}
