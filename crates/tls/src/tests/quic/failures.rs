//! What is refused, and with which error.

use proptest::prelude::*;

use super::handshakes::without_extension;
use super::*;
use crate::quic::{Close, MAX_QUIC_FLIGHT_BYTES};
use crate::{Fault, PemFile, SelectServer, Selected};

/// What a server makes of this data.
fn given(server: &Arc<ServerTls>, level: Level, data: &[u8]) -> Result<Status, QuicFailure> {
    let acceptor = Acceptor::single(Arc::clone(server));
    let mut connection = QuicServer::accept(&acceptor, Version::V1);
    connection.set_transport_parameters(SERVER_PARAMETERS, REMEMBERED);
    let result = connection
        .receive(level, data)
        .and_then(|()| connection.advance(Load::default()));
    if let Err(failure) = &result {
        // It stays failed.
        assert_eq!(
            connection.receive(Level::Initial, b"x"),
            Err(failure.clone())
        );
        assert_eq!(connection.advance(Load::default()), Err(failure.clone()));
        assert!(!connection.is_established());
    }
    result
}

fn refused(server: &Arc<ServerTls>, level: Level, data: &[u8]) -> Close {
    let failure = given(server, level, data).expect_err("it is refused");
    assert_eq!(failure.fault(), Fault::Peer, "{failure}");
    failure.close()
}

fn hello() -> Vec<u8> {
    hello_of(&plain_client(), offer())
}

/// RFC 9001 section 8.1: without a common protocol the handshake fails.
#[test]
fn protocols_that_differ_are_alert_120() {
    for quic_protocols in [settings_of(p256()).quic_protocols, Vec::new()] {
        let server = server(&ServerSettings {
            quic_protocols,
            ..settings_of(p256())
        });
        // Over TCP it would be the right one.
        let offered = ClientOffer {
            protocols: &[b"http/1.1"],
            ..offer()
        };
        let mut pair = QuicPair::with(&plain_client(), &server, offered);
        let Err(Failed::Server(failure)) = pair.handshake() else {
            panic!("they have nothing in common");
        };
        assert_eq!(failure.close(), Close::Alert(120));
        assert_eq!(failure.reason(), "NO_APPLICATION_PROTOCOL");
        let without = without_extension(&hello(), 16);
        assert_eq!(
            refused(&server, Level::Initial, &without),
            Close::Alert(120)
        );
    }
}

/// RFC 9001 section 8.2.
#[test]
fn missing_transport_parameters_are_alert_109() {
    let server = server(&settings_of(p256()));
    let hello = without_extension(&hello(), 57);
    assert_eq!(refused(&server, Level::Initial, &hello), Close::Alert(109));
}

/// RFC 9001 section 4.2.
#[test]
fn older_versions_of_tls_are_alert_70() {
    let server = server(&settings_of(p256()));
    let hello = without_extension(&hello(), 43);
    assert_eq!(refused(&server, Level::Initial, &hello), Close::Alert(70));
}

/// RFC 9001 section 8.4: there is no compatibility mode.
#[test]
fn a_session_id_is_refused() {
    let server = server(&settings_of(p256()));
    let mut hello = hello();
    assert_eq!(hello[38], 0, "there is none");
    hello[38] = 32;
    hello.splice(39..39, [7; 32]);
    let length = u32::try_from(hello.len() - 4).expect("short");
    hello[1..4].copy_from_slice(&length.to_be_bytes()[1..]);
    let close = refused(&server, Level::Initial, &hello);
    assert!(
        matches!(close, Close::Alert(_) | Close::ProtocolViolation),
        "{close:?}"
    );
}

/// RFC 9001 section 4.1.3.
#[test]
fn data_at_another_level_is_a_protocol_violation() {
    let server = server(&settings_of(p256()));
    for level in [Level::ZeroRtt, Level::Handshake, Level::OneRtt] {
        let close = refused(&server, level, &hello());
        assert_eq!(close, Close::ProtocolViolation, "{level:?}");
    }
    for level in [Level::Initial, Level::ZeroRtt, Level::OneRtt] {
        let mut pair = QuicPair::with(&plain_client(), &server, offer());
        pair.step_client().expect("a hello");
        pair.step_server().expect("it is answered");
        let failure = pair.server.receive(level, b"late");
        let failure = failure.expect_err("handshake messages are due");
        assert_eq!(failure.close(), Close::ProtocolViolation, "{level:?}");
        let failure = pair.client.receive(Level::OneRtt, b"early");
        let failure = failure.expect_err("the server's hello is due");
        assert_eq!(failure.close(), Close::ProtocolViolation);
    }
    // What is left at a level that is over.
    let rest = [&hello()[..], b"rest"].concat();
    let mut pair = QuicPair::with(&plain_client(), &server, offer());
    pair.to_server.push((Level::Initial, rest));
    let failure = pair.step_server().expect_err("something is left");
    assert_eq!(failure.close(), Close::ProtocolViolation);
}

/// RFC 9000 section 7.5: where certificates are expected, more is taken.
#[test]
fn the_most_that_is_taken_depends_on_the_level() {
    let asking = server(&ServerSettings {
        client_verification: crate::tests::client_certificates::trusting(),
        ..settings_of(p256())
    });
    let mut pair = QuicPair::with(&plain_client(), &asking, offer());
    let initial = pair.server.max_crypto_bytes(Level::Initial);
    assert_eq!(initial, MAX_QUIC_FLIGHT_BYTES);
    pair.step_client().expect("a hello");
    pair.step_server().expect("it is answered");
    assert!(pair.server.max_crypto_bytes(Level::Handshake) > MAX_QUIC_FLIGHT_BYTES);
    assert!(pair.client.max_crypto_bytes(Level::Handshake) > MAX_QUIC_FLIGHT_BYTES);
    pair.handshake()
        .expect("a certificate is not needed for it");
    let after = pair.server.max_crypto_bytes(Level::OneRtt);
    assert_eq!(after, MAX_QUIC_FLIGHT_BYTES);
    assert_eq!(pair.client.max_crypto_bytes(Level::OneRtt), after);
}

/// RFC 9000 section 7.5.
#[test]
fn hellos_of_more_than_16_kib_exceed_the_buffer() {
    let server = server(&settings_of(p256()));
    let mut large = vec![0; MAX_QUIC_FLIGHT_BYTES + 1];
    large[0] = 1;
    let close = refused(&server, Level::Initial, &large);
    assert_eq!(close, Close::CryptoBufferExceeded);
    // Its length says so at once.
    let close = refused(&server, Level::Initial, &[1, 0, 0x40, 0]);
    assert_eq!(close, Close::CryptoBufferExceeded);
    let status = given(&server, Level::Initial, &[1, 0, 0x3f, 0xfc]);
    assert_eq!(status, Ok(Status::WantRead), "just as large as allowed");
}

#[test]
fn what_is_no_hello_is_alert_10() {
    let server = server(&settings_of(p256()));
    for first in [0, 2, 11, 20, 22, 255] {
        let close = refused(&server, Level::Initial, &[first]);
        assert_eq!(close, Close::Alert(10));
    }
}

/// RFC 9001 section 6: keys are updated by QUIC alone.
#[test]
fn a_key_update_message_is_alert_10() {
    let server = server(&settings_of(p256()));
    let update = [24, 0, 0, 1, 0];
    let mut pair = met(&plain_client(), &server, offer());
    pair.server
        .receive(Level::OneRtt, &update)
        .expect("a message");
    let failure = pair.server.advance(pair.load).expect_err("not over QUIC");
    assert_eq!(failure.close(), Close::Alert(10));
    let mut pair = met(&plain_client(), &server, offer());
    pair.client
        .receive(Level::OneRtt, &update)
        .expect("a message");
    let failure = pair.client.advance().expect_err("not over QUIC");
    assert_eq!(failure.close(), Close::Alert(10));
    assert_eq!(pair.client.advance(), Err(failure));
}

#[test]
fn names_without_a_server_are_alert_112() {
    struct Nobody;
    impl SelectServer for Nobody {
        fn select(&self, _name: Option<&str>) -> Selected {
            Selected::Reject
        }
    }
    let rejecting = server(&ServerSettings {
        reject_handshake: true,
        ..ServerSettings::default()
    });
    let nobody = Acceptor::new(Arc::new(Nobody));
    for acceptor in [nobody, Acceptor::single(rejecting)] {
        let mut connection = QuicServer::accept(&acceptor, Version::V1);
        connection
            .receive(Level::Initial, &hello())
            .expect("a hello");
        let failure = connection.advance(Load::default()).expect_err("rejected");
        assert_eq!(failure.close(), Close::Alert(112));
        assert_eq!(failure.server_error(), Some(&Error::Rejected));
    }
}

#[test]
fn clients_refuse_servers_that_they_do_not_trust() {
    let server = server(&settings_of(p256()));
    let trusting = |made: Made, name| {
        let client = client_of(&ClientSettings {
            verify: true,
            trusted: Some(PemFile {
                pem: made.chain_pem.into_bytes(),
                label: "trusted.pem".to_owned(),
            }),
            ..ClientSettings::default()
        });
        let connection = client.connect_quic(Some(name), offer()).expect("memory");
        let mut pair = QuicPair::with(&client, &server, offer());
        pair.client = connection;
        pair.handshake()
    };
    trusting(p256(), "p256.test").expect("it is trusted");
    for (made, name, alert) in [(rsa(), "p256.test", 48), (p256(), "other.test", 42)] {
        let Err(Failed::Client(failure)) = trusting(made, name) else {
            panic!("it is not trusted");
        };
        let Close::Alert(sent) = failure.close() else {
            panic!("{failure}");
        };
        assert!(sent == alert || (42..=49).contains(&sent), "{sent}");
        assert!(failure.client_error().is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damaged_hellos_do_no_harm(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        static SERVER: OnceLock<(Arc<ServerTls>, Vec<u8>)> = OnceLock::new();
        let (server, hello) = SERVER.get_or_init(|| (server(&settings_of(p256())), hello()));
        let mut damaged = hello.clone();
        let at = at.index(damaged.len());
        damaged[at] = value;
        if let Err(failure) = given(server, Level::Initial, &damaged) {
            prop_assert!(!failure.reason().is_empty(), "{}", failure);
        }
    }

    #[test]
    fn any_bytes_at_any_level_do_no_harm(
        level in 0..4_usize,
        data in prop::collection::vec(any::<u8>(), 0..300),
        is_server in any::<bool>(),
    ) {
        static SERVER: OnceLock<Arc<ServerTls>> = OnceLock::new();
        let server = SERVER.get_or_init(|| server(&settings_of(p256())));
        let level = [Level::Initial, Level::ZeroRtt, Level::Handshake, Level::OneRtt][level];
        let mut pair = QuicPair::with(&plain_client(), server, offer());
        pair.step_client().expect("a hello");
        pair.step_server().expect("it is answered");
        match is_server {
            true => {
                let taken = pair.server.receive(level, &data);
                let _ = taken.and_then(|()| pair.server.advance(Load::default()));
                prop_assert!(!pair.server.is_established());
            }
            false => {
                let taken = pair.client.receive(level, &data);
                let _ = taken.and_then(|()| pair.client.advance());
                prop_assert!(!pair.client.is_established());
            }
        }
    }
}
