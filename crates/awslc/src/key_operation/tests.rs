use super::*;
use crate::tests::{Made, make};
use crate::{
    ClientConnection, ClientContext, ContextBuilder, HandshakeStatus, ProtocolVersion,
    client::ClientContextBuilder,
};

fn client(max: ProtocolVersion, ciphers: Option<&str>) -> ClientConnection {
    let mut builder = ClientContext::builder().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls10, max)
        .expect("supported");
    if max == ProtocolVersion::Tls13 {
        let algorithms = "ed25519:ECDSA+SHA256:ECDSA+SHA384:RSA-PSS+SHA256";
        builder.set_signature_algorithms(algorithms).expect("known");
    }
    if let Some(ciphers) = ciphers {
        builder.set_cipher_list(ciphers).expect("known suites");
    }
    let context = ClientContextBuilder::build(builder).expect("memory");
    ClientConnection::new(&context, None).expect("memory")
}

fn server(made: &Made) -> Connection {
    let mut builder = ContextBuilder::new().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls10, ProtocolVersion::Tls13)
        .expect("supported");
    builder.set_chain(&made.chain).expect("a good chain");
    Connection::server(&builder.build().expect("memory")).expect("memory")
}

/// A handshake whose private-key operations are done by `perform`; returns what they were.
fn handshake(
    client: &mut ClientConnection,
    server: &mut Connection,
    mut perform: impl FnMut(&KeyOperation) -> Option<Secret>,
) -> Result<Vec<KeyOperation>, Error> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut operations = Vec::new();
    let (mut client_done, mut server_done) = (false, false);
    while !(client_done && server_done) {
        client_done =
            client.handshake(&mut &to_client[..], &mut to_server)? == HandshakeStatus::Done;
        to_client.clear();
        let mut input = &to_server[..];
        loop {
            match server.do_handshake(&mut input, &mut to_client)? {
                HandshakeStatus::Pending => {
                    let again = server.do_handshake(&mut input, &mut to_client)?;
                    assert_eq!(again, HandshakeStatus::Pending, "asking early is harmless");
                    let operation = server.take_key_operation().expect("it waits for the key");
                    assert!(server.take_key_operation().is_none(), "taken once");
                    server.complete_key_operation(perform(&operation));
                    operations.push(operation);
                }
                status => {
                    server_done = status == HandshakeStatus::Done;
                    break;
                }
            }
        }
        to_server.clear();
    }
    Ok(operations)
}

const ALGORITHMS: [&rcgen::SignatureAlgorithm; 4] = [
    &rcgen::PKCS_RSA_SHA256,
    &rcgen::PKCS_ECDSA_P256_SHA256,
    &rcgen::PKCS_ECDSA_P384_SHA384,
    &rcgen::PKCS_ED25519,
];

#[test]
fn every_kind_of_key_and_protocol() {
    for algorithm in ALGORITHMS {
        let made = make(algorithm);
        for max in [
            ProtocolVersion::Tls11,
            ProtocolVersion::Tls12,
            ProtocolVersion::Tls13,
        ] {
            let is_ed25519 = algorithm == &rcgen::PKCS_ED25519;
            if is_ed25519 && max < ProtocolVersion::Tls13 {
                continue; // the client offers it in TLS 1.3
            }
            let (mut client, mut server) = (client(max, None), server(&made));
            let operations = handshake(&mut client, &mut server, |operation| {
                Some(made.key.perform(operation).expect("it fits the key"))
            });
            let operations = operations.unwrap_or_else(|error| panic!("{algorithm:?} {error}"));
            assert!(
                matches!(operations[..], [KeyOperation::Sign { .. }]),
                "{operations:?}"
            );
        }
    }
}

#[test]
fn the_rsa_key_exchange_decrypts() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let mut client = client(ProtocolVersion::Tls12, Some("AES128-GCM-SHA256"));
    let mut server = server(&made);
    let operations = handshake(&mut client, &mut server, |operation| {
        made.key.perform(operation).ok()
    })
    .expect("a common suite");
    assert_eq!(operations.len(), 1);
    let KeyOperation::Decrypt { input } = &operations[0] else {
        panic!("{operations:?}");
    };
    let raw = made.key.rsa_raw(input).expect("an RSA key");
    assert_eq!(made.key.perform(&operations[0]).unwrap().expose(), raw);
}

/// The number that is raised, raised, is the operation: as a client sees it.
#[test]
fn what_is_encoded_for_rsa_is_what_clients_verify() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    for max in [
        ProtocolVersion::Tls11,
        ProtocolVersion::Tls12,
        ProtocolVersion::Tls13,
    ] {
        let (mut client, mut server) = (client(max, None), server(&made));
        let operations = handshake(&mut client, &mut server, |operation| {
            let number = made.key.rsa_encoded(operation).expect("an RSA key");
            Some(Secret::new(made.key.rsa_raw(&number).expect("in range")))
        })
        .expect("the client verifies the signature");
        assert_eq!(operations.len(), 1, "{max}");
    }
    // PKCS #1 v1.5 is deterministic: the same bytes.
    for scheme in [0x0201, 0x0401, 0x0501, 0x0601, 0xff01] {
        let operation = KeyOperation::Sign {
            scheme,
            input: b"message".to_vec(),
        };
        let number = made.key.rsa_encoded(&operation).unwrap();
        assert_eq!(
            made.key.rsa_raw(&number).unwrap(),
            made.key.perform(&operation).unwrap().expose(),
            "{scheme:#x}"
        );
    }
}

#[test]
fn a_failed_or_wrong_operation_ends_the_handshake() {
    let made = make(&rcgen::PKCS_ECDSA_P256_SHA256);
    for result in [
        None,
        Some(Secret::new(vec![1; 72])),
        Some(Secret::new(vec![1; 5000])),
    ] {
        let (mut client, mut server) = (client(ProtocolVersion::Tls13, None), server(&made));
        handshake(&mut client, &mut server, |_| result.clone()).expect_err("no signature");
    }
}

#[test]
fn operations_that_do_not_fit_the_key_are_errors() {
    let (rsa, ec) = (
        make(&rcgen::PKCS_RSA_SHA256),
        make(&rcgen::PKCS_ECDSA_P256_SHA256),
    );
    let decrypt = KeyOperation::Decrypt { input: vec![7; 16] };
    assert!(rsa.key.perform(&decrypt).is_err() && rsa.key.rsa_encoded(&decrypt).is_err());
    assert!(ec.key.perform(&decrypt).is_err() && ec.key.rsa_encoded(&decrypt).is_err());
    let unknown = KeyOperation::Sign {
        scheme: 0xbeef,
        input: Vec::new(),
    };
    assert!(rsa.key.rsa_encoded(&unknown).is_err());
    assert_eq!(format!("{unknown:?} {decrypt:?}"), "Sign(0xbeef) Decrypt");
}
