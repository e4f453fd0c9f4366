//! Bytes that no honest client sends.

use proptest::prelude::*;

use super::*;
use crate::{Fault, fuzz_client_hello};

fn p256_server() -> Acceptor {
    static SERVER: OnceLock<Arc<ServerTls>> = OnceLock::new();
    Acceptor::single(Arc::clone(
        SERVER.get_or_init(|| server(&settings(&[p256()]))),
    ))
}

/// Feeds `bytes` to a new connection; returns its end and what it sent.
fn feed(bytes: &[u8]) -> (Result<HandshakeStatus, Error>, Vec<u8>) {
    let (mut connection, mut output, mut input) =
        (Connection::accept(&p256_server()), Vec::new(), bytes);
    (
        connection.handshake(&mut input, &mut output, Load::default()),
        output,
    )
}

#[test]
fn what_is_not_tls_is_answered_by_an_alert() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x00\x05hello",
        b"\x15\x03\x01\x00\x02\x02\x28",
        &[0xff; 100],
    ] {
        let (end, output) = feed(bytes);
        let error = end.expect_err("not a handshake");
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(
            error
                .to_string()
                .starts_with("SSL_do_handshake() failed (SSL: error:"),
            "{error}"
        );
        // libssl leaves plain HTTP to whoever can answer it, and alerts unanswered.
        if bytes[0] != b'G' && bytes[0] != 0x15 {
            assert_eq!(output.first(), Some(&21), "an alert for {bytes:?}: {error}");
        }
    }
}

#[test]
fn a_close_notify_instead_of_a_handshake_is_the_peers_doing() {
    let (end, _) = feed(b"\x15\x03\x01\x00\x02\x01\x00");
    let error = end.expect_err("not a handshake");
    assert_eq!(error.fault(), Fault::Peer, "{error}");
    assert!(error.to_string().contains("close_notify"), "{error}");
}

#[test]
fn no_common_suite_and_no_common_version_are_the_clients_fault() {
    let config = ServerSettings {
        protocols: [Protocol::TlsV1_2].into_iter().collect(),
        ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256".to_owned(),
        ..settings(&[p256()])
    };
    let server = server(&config);
    for (context, alert, reason) in [
        (
            client(|builder| super::version(builder, ProtocolVersion::Tls13)),
            70,
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            client(|builder| builder.set_cipher_list("AES256-SHA").expect("valid")),
            40,
            "NO_SHARED_CIPHER",
        ),
    ] {
        let mut pair = Pair::with(&context, &server);
        let Err(Failure::Server(error)) = pair.handshake() else {
            panic!("nothing in common")
        };
        assert_eq!(error.fault(), Fault::Peer);
        assert!(error.to_string().contains(reason), "{error}");
        let error = pair
            .client
            .handshake(&mut &pair.to_client[..], &mut Vec::new())
            .expect_err("an alert");
        assert_eq!(error.received_alert(), Some(alert));
    }
}

#[test]
fn a_changed_record_ends_the_connection_with_an_alert() {
    let server = server(&settings(&[p256()]));
    for version in [
        ProtocolVersion::Tls10,
        ProtocolVersion::Tls12,
        ProtocolVersion::Tls13,
    ] {
        let mut pair = Pair::with(&client(|builder| super::version(builder, version)), &server);
        pair.handshake().expect("defaults");
        pair.client
            .write(b"secret", &mut pair.to_server)
            .expect("established");
        *pair.to_server.last_mut().expect("a record") ^= 1;
        let (wire, mut alert) = (std::mem::take(&mut pair.to_server), Vec::new());
        let error = pair
            .server
            .read(&mut &wire[..], &mut alert, &mut [0; 100])
            .expect_err("a bad record");
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(!alert.is_empty(), "{version}: the alert is delivered");
        // What follows fails too, and sends nothing more.
        let length = alert.len();
        assert!(
            pair.server
                .read(&mut &wire[..], &mut alert, &mut [0; 100])
                .is_err()
        );
        pair.server.shutdown(&mut alert);
        assert_eq!(alert.len(), length);
        assert!(pair.server.write(b"x", 0, &mut alert).is_err());
    }
}

#[test]
fn using_a_connection_too_early_is_an_error() {
    let mut connection = Connection::accept(&p256_server());
    let mut output = Vec::new();
    assert_eq!(
        connection.write(b"x", 0, &mut output),
        Err(Error::NotEstablished)
    );
    assert_eq!(
        connection.read(&mut &b""[..], &mut output, &mut [0; 9]),
        Err(Error::NotEstablished)
    );
    connection.shutdown(&mut output);
    assert!(output.is_empty() && connection.info().is_none() && !connection.is_established());
}

#[test]
fn a_hello_in_many_records_and_one_without_end() {
    let mut pair = Pair::new(&client(|_| {}), &p256_server(), Some("name.test"));
    pair.client
        .handshake(&mut &b""[..], &mut pair.to_server)
        .expect("a hello");
    // The same message in records of 7 bytes.
    let message = pair.to_server.split_off(5);
    pair.to_server = message
        .chunks(7)
        .flat_map(|part| [&[22, 3, 1, 0, part.len() as u8], part].concat())
        .collect();
    pair.handshake().expect("libssl joins them as well");
    assert_eq!(pair.up(b"hello"), b"hello");

    // A message of 16 MiB announced, in records of one byte.
    let endless: Vec<u8> = [1, 255, 255, 255]
        .into_iter()
        .cycle()
        .take(50_000)
        .flat_map(|byte| [22, 3, 1, 0, 1, byte])
        .collect();
    let (end, _) = feed(&endless);
    assert_eq!(end.expect_err("too long").fault(), Fault::Peer);
}

fn real_hello() -> Vec<u8> {
    let mut hello = Vec::new();
    let mut client = ClientConnection::new(&client(|_| {}), Some("name.test")).expect("memory");
    client
        .handshake(&mut &b""[..], &mut hello)
        .expect("a hello");
    hello
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_as_a_hello(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz_client_hello(&bytes);
        let _ = feed(&bytes);
    }

    #[test]
    fn any_change_to_a_hello(at in 0..500_usize, byte: u8, cut in 0..2000_usize) {
        static HELLO: OnceLock<Vec<u8>> = OnceLock::new();
        let mut bytes = HELLO.get_or_init(real_hello).clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        fuzz_client_hello(&bytes);
        let _ = feed(&bytes);
        bytes.truncate(cut);
        fuzz_client_hello(&bytes);
        let _ = feed(&bytes);
    }

    #[test]
    fn any_bytes_after_the_handshake(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut pair = Pair::new(&client(|_| {}), &p256_server(), None);
        pair.handshake().expect("defaults");
        let _ = pair.server.read(&mut &bytes[..], &mut Vec::new(), &mut [0; 1000]);
    }
}
