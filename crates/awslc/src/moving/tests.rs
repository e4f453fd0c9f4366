//! Data that one process writes and another reads; here this process does both, with separate
//! contexts. `sealane-tls` moves whole connections.

use super::*;
use crate::tests::{Made, handshake, make, server_builder};
use crate::transmit::tests::Sealer;
use crate::{ClientConnection, ClientContext, ProtocolVersion, ReadStatus};

fn pair(suite: &str, version: ProtocolVersion) -> (ClientConnection, Connection, Made) {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let mut builder = server_builder(&made);
    builder
        .set_protocol_range(ProtocolVersion::Tls10, ProtocolVersion::Tls13)
        .and_then(|()| builder.set_cipher_list("ALL:3DES"))
        .and_then(|()| builder.set_ticket_count(2))
        .expect("known");
    builder.set_tickets_enabled(true);
    builder.watch_messages();
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let mut builder = ClientContext::builder().expect("memory");
    builder.set_protocol_range(version, version).expect("known");
    match version {
        ProtocolVersion::Tls13 => builder.set_ciphersuites(suite).expect("known"),
        _ => builder.set_cipher_list(suite).expect("known"),
    }
    let context = builder.build().expect("memory");
    let mut client = ClientConnection::new(&context, Some("a.test")).expect("memory");
    handshake(&mut client, &mut server).expect("a suite of both");
    (client, server, made)
}

/// The other process's: nothing but the certificate is the same.
fn other(made: &Made) -> Context {
    server_builder(made).build().expect("memory")
}

const TLS13: (&str, ProtocolVersion) = ("TLS_AES_128_GCM_SHA256", ProtocolVersion::Tls13);
const GCM: (&str, ProtocolVersion) = ("ECDHE-RSA-AES256-GCM-SHA384", ProtocolVersion::Tls12);

const SUITES: [(&str, ProtocolVersion); 9] = [
    TLS13,
    ("TLS_AES_256_GCM_SHA384", ProtocolVersion::Tls13),
    ("TLS_CHACHA20_POLY1305_SHA256", ProtocolVersion::Tls13),
    GCM,
    ("AES128-GCM-SHA256", ProtocolVersion::Tls12),
    ("ECDHE-RSA-CHACHA20-POLY1305", ProtocolVersion::Tls12),
    ("ECDHE-RSA-AES128-SHA256", ProtocolVersion::Tls12),
    ("AES256-SHA", ProtocolVersion::Tls12),
    ("DES-CBC3-SHA", ProtocolVersion::Tls12),
];

fn read(client: &mut ClientConnection, wire: &[u8]) -> Vec<u8> {
    let (mut input, mut received, mut plain) = (wire, Vec::new(), vec![0; 70_000]);
    while let ReadStatus::Data(count) = client
        .read(&mut input, &mut Vec::new(), &mut plain)
        .expect("valid records")
    {
        received.extend_from_slice(&plain[..count]);
    }
    received
}

fn refused(server: Connection) -> (Connection, NotMovable) {
    *server.into_bytes().expect_err("not now")
}

/// Both directions.
fn talk(client: &mut ClientConnection, server: &mut Connection) {
    let (mut up, mut down, mut plain) = (Vec::new(), Vec::new(), [0; 20]);
    client.write(b"request", &mut up).expect("established");
    let status = server.read(&mut &up[..], &mut down, &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(7)));
    server.write(&[9; 40_000], &mut down).expect("established");
    assert_eq!(read(client, &down), [9; 40_000]);
}

#[test]
fn every_suite_goes_on_with_what_was_negotiated() {
    for (suite, version) in SUITES {
        let (mut client, mut server, made) = pair(suite, version);
        for round in 0..3 {
            if round != 1 {
                talk(&mut client, &mut server);
            }
            let facts = |server: &Connection| {
                format!(
                    "{:?}",
                    (
                        server.protocol(),
                        server.cipher(),
                        server.group(),
                        server.is_session_reused(),
                        server.session_id(),
                        server.server_name(),
                        server.alpn(),
                        server.client_cipher_suites(),
                        server.signature_scheme(),
                        server.early_data_outcome(),
                    )
                )
            };
            let before = facts(&server);
            assert!(before.contains("a.test") && !server.client_cipher_suites().is_empty());
            let bytes = server.into_bytes().expect("between two requests");
            server = Connection::from_bytes(&other(&made), bytes.expose()).expect(suite);
            assert_eq!(facts(&server), before, "{suite}");
            assert!(!server.is_handshaking() && !server.is_transmit_released());
        }
        talk(&mut client, &mut server);
        let mut wire = Vec::new();
        server.shutdown(&mut wire);
        let end = client.read(&mut &wire[..], &mut Vec::new(), &mut [0; 10]);
        assert_eq!(end, Ok(ReadStatus::CloseNotify), "{suite}");
    }
}

#[test]
fn tickets_that_were_not_sent_go_along() {
    let (mut client, server, made) = pair(TLS13.0, TLS13.1);
    let bytes = server.into_bytes().expect("after the handshake");
    let mut server = Connection::from_bytes(&other(&made), bytes.expose()).expect("ours");
    assert!(client.take_session().is_none());
    talk(&mut client, &mut server);
    assert!(client.take_session().is_some());
}

#[test]
fn keys_turn_before_and_after() {
    let (mut client, mut server, made) = pair(TLS13.0, TLS13.1);
    for _ in 0..4 {
        client.update_keys().expect("TLS 1.3");
        talk(&mut client, &mut server);
        let bytes = server.into_bytes().expect("between two requests");
        server = Connection::from_bytes(&other(&made), bytes.expose()).expect("ours");
    }
    talk(&mut client, &mut server);
}

#[test]
fn what_is_refused_goes_on_as_if_nobody_had_asked() {
    let (mut client, mut server, _) = pair(TLS13.0, TLS13.1);
    talk(&mut client, &mut server);
    // Part of a record, from its first byte to its last but one.
    let mut up = Vec::new();
    client.write(b"request", &mut up).expect("established");
    let mut plain = [0; 20];
    for cut in [1, 3, 1, 1, up.len() - 7] {
        let status = server.read(&mut &up[..cut], &mut Vec::new(), &mut plain);
        assert_eq!(status, Ok(ReadStatus::WantRead));
        up.drain(..cut);
        let (back, reason) = refused(server);
        assert_eq!(reason, NotMovable::Unread, "{} to come", up.len());
        server = back;
    }
    let status = server.read(&mut &up[..], &mut Vec::new(), &mut plain[..3]);
    assert_eq!(status, Ok(ReadStatus::Data(3)));
    let (mut server, reason) = refused(server);
    assert_eq!(reason, NotMovable::Unread, "decrypted, not read");
    let status = server.read(&mut &[][..], &mut Vec::new(), &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(4)));
    // A request for a KeyUpdate.
    let mut up = Vec::new();
    client.update_keys().expect("TLS 1.3");
    client.write(b"x", &mut up).expect("established");
    let status = server.read(&mut &up[..], &mut Vec::new(), &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(1)));
    let (mut server, reason) = refused(server);
    assert_eq!(reason, NotMovable::KeyUpdate);
    talk(&mut client, &mut server);
    let mut wire = Vec::new();
    client.shutdown(&mut wire);
    let status = server.read(&mut &wire[..], &mut Vec::new(), &mut plain);
    assert_eq!(status, Ok(ReadStatus::CloseNotify));
    let (mut server, reason) = refused(server);
    assert_eq!(reason, NotMovable::Closed);
    server.shutdown(&mut Vec::new());
    assert_eq!(refused(server).1.name(), "closed");
}

/// libssl would write it, and refuse to read what it has written.
#[test]
fn the_first_part_of_a_message_is_unread() {
    let (client, mut server, _) = pair(TLS13.0, TLS13.1);
    let mut sealer = Sealer::new(client.connection().transmit_keys().expect("an AEAD"));
    let mut part = |part: &[u8], server: &mut Connection| {
        let mut up = Vec::new();
        sealer.seal(22, part, &mut up);
        let status = server.read(&mut &up[..], &mut Vec::new(), &mut [0; 20]);
        assert_eq!(status, Ok(ReadStatus::WantRead));
    };
    part(&[24, 0, 0, 1], &mut server);
    let (mut server, reason) = refused(server);
    assert_eq!(reason, NotMovable::Unread);
    part(&[0], &mut server);
    assert_eq!(server.check_movable(), Ok(()));
}

#[test]
fn a_connection_that_failed_or_has_not_begun_is_refused() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let fresh = Connection::server(&other(&made)).expect("memory");
    assert_eq!(refused(fresh).1, NotMovable::Handshake);
    let (_, server, _) = pair("AES128-SHA", ProtocolVersion::Tls11);
    assert_eq!(refused(server).1, NotMovable::Protocol("TLSv1.1"));
    let (mut client, mut server, _) = pair(GCM.0, GCM.1);
    let mut up = Vec::new();
    client.write(b"request", &mut up).expect("established");
    *up.last_mut().expect("a record") ^= 1;
    assert!(
        server
            .read(&mut &up[..], &mut Vec::new(), &mut [0; 20])
            .is_err()
    );
    let (_, reason) = refused(server);
    assert!(matches!(
        reason,
        NotMovable::Closed | NotMovable::Library(_)
    ));
}

#[test]
fn the_guard_goes_along_with_its_alert_sent() {
    let (mut client, mut server, made) = pair(TLS13.0, TLS13.1);
    talk(&mut client, &mut server);
    server.release_transmit();
    let bytes = server.into_bytes().expect("between two requests");
    let mut server = Connection::from_bytes(&other(&made), bytes.expose()).expect("ours");
    assert!(server.is_transmit_released());
    assert!(server.write(b"x", &mut Vec::new()).is_err());
    let mut up = Vec::new();
    client.write(b"request", &mut up).expect("established");
    *up.last_mut().expect("a record") ^= 1;
    let mut wire = Vec::new();
    assert!(server.read(&mut &up[..], &mut wire, &mut [0; 20]).is_err());
    assert!(wire.is_empty(), "behind the guard");
    assert_eq!(server.take_alert(), Some([2, 20]), "bad_record_mac");
}

/// Hostile bytes are refused, or make a connection that can be used and dropped.
#[test]
fn bytes_that_nobody_wrote_are_no_danger() {
    for (suite, version) in SUITES {
        let (mut client, mut server, made) = pair(suite, version);
        if suite != TLS13.0 {
            talk(&mut client, &mut server);
        }
        let context = other(&made);
        let bytes = server.into_bytes().expect("between two requests");
        let bytes = bytes.expose();
        for length in 0..bytes.len() {
            assert!(
                Connection::from_bytes(&context, &bytes[..length]).is_err(),
                "{suite}, {length}"
            );
        }
        assert!(Connection::from_bytes(&context, &[bytes, &[0]].concat()).is_err());
        let mut seed = 1_u32;
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff, 0x0f, 0x20] {
                let mut changed = bytes.to_vec();
                changed[at] ^= change;
                attempt(&context, &changed);
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let second = seed as usize % changed.len();
                changed[second] = (seed >> 24) as u8;
                attempt(&context, &changed);
            }
        }
    }
}

fn attempt(context: &Context, bytes: &[u8]) {
    if let Ok(mut connection) = Connection::from_bytes(context, bytes) {
        let mut output = Vec::new();
        let _ = connection.read(&mut &[23; 100][..], &mut output, &mut [0; 100]);
        let _ = connection.write(b"response", &mut output);
        connection.shutdown(&mut output);
        let _ = (connection.cipher(), connection.group(), connection.alpn());
        let _ = (connection.session_id().len(), connection.server_name());
    }
}
