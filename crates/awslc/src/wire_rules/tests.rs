use super::*;
use crate::tests::{handshake, make, server_builder};
use crate::transmit::tests::Sealer;
use crate::{ClientConnection, ClientContext, Connection, ProtocolVersion, ReadStatus};

/// A client and a server of TLS 1.3 with their handshake behind them, and what seals in the
/// client's place.
fn established() -> (ClientConnection, Connection, Sealer) {
    let mut builder = server_builder(&make(&rcgen::PKCS_ECDSA_P256_SHA256));
    builder.watch_messages();
    let mut server = Connection::server(&builder.build().expect("memory")).expect("memory");
    let mut builder = ClientContext::builder().expect("memory");
    builder
        .set_protocol_range(ProtocolVersion::Tls13, ProtocolVersion::Tls13)
        .expect("valid");
    let context = builder.build().expect("memory");
    let mut client = ClientConnection::new(&context, None).expect("memory");
    handshake(&mut client, &mut server).expect("defaults");
    let keys = client.connection().transmit_keys().expect("an AEAD");
    (client, server, Sealer::new(keys))
}

/// What the server reads of `wire`, or the alert that the client gets.
fn answer(
    client: &mut ClientConnection,
    server: &mut Connection,
    wire: &[u8],
) -> Result<ReadStatus, u8> {
    let mut to_client = Vec::new();
    let status = server.read(&mut &wire[..], &mut to_client, &mut [0; 100]);
    status.map_err(|_| {
        let error = client
            .read(&mut &to_client[..], &mut Vec::new(), &mut [0; 100])
            .expect_err("an alert, and one only");
        error.received_alert().expect("an alert")
    })
}

#[test]
fn mistakes_are_answered_with_the_alert_of_the_rfc() {
    let too_long = [&[23, 3, 3, 0x41, 1][..], &[0; 16_641]].concat();
    for (what, wire, alert) in [
        ("CCS after the handshake", &[20, 3, 3, 0, 1, 1][..], 10),
        (
            "a handshake record in plain",
            &[22, 3, 3, 0, 5, 24, 0, 0, 1, 0],
            10,
        ),
        ("an unknown type in plain", &[99, 3, 3, 0, 1, 0], 10),
        ("a record of 2^14 + 257 bytes", &too_long, 22),
    ] {
        let (mut client, mut server, _) = established();
        assert_eq!(answer(&mut client, &mut server, wire), Err(alert), "{what}");
    }
    for (what, record_type, plain, alert) in [
        (
            "KeyUpdate with another value",
            22,
            &[24, 0, 0, 1, 2][..],
            47,
        ),
        ("an empty KeyUpdate", 22, &[24, 0, 0, 0], 50),
        ("an alert of one byte", 21, &[2], 50),
        ("CCS under keys", 20, &[1], 10),
    ] {
        let (mut client, mut server, mut sealer) = established();
        let mut wire = Vec::new();
        sealer.seal(record_type, plain, &mut wire);
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Err(alert),
            "{what}"
        );
    }
}

/// RFC 8446 section 5.4 names `unexpected_message` for the first four. libssl takes the padding
/// off, judges and seals its alert in one call, so that nobody can choose another; what matters is
/// that the connection ends.
#[test]
fn records_without_content_end_the_connection_by_an_alert_of_libssl() {
    for (what, record_type, plain, alert) in [
        ("one zero", 0, &[][..], 51),
        ("padding alone", 0, &[0; 300], 51),
        ("an empty alert", 21, &[], 50),
        ("an empty ChangeCipherSpec", 20, &[], 10),
    ] {
        let (mut client, mut server, mut sealer) = established();
        let mut wire = Vec::new();
        sealer.seal(record_type, plain, &mut wire);
        sealer.seal(23, b"behind", &mut wire);
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Err(alert),
            "{what}"
        );
        let again = server.read(&mut &[][..], &mut Vec::new(), &mut [0; 100]);
        again.expect_err("nothing is read behind it");
    }
}

#[test]
fn an_alert_in_plain_after_keys_does_not_pass_for_the_clients() {
    // close_notify, and a fatal alert: both would end the connection without an answer.
    for alert in [[1, 0], [2, 48]] {
        let (mut client, mut server, _) = established();
        let wire = [&[21, 3, 3, 0, 2][..], &alert].concat();
        let answer = answer(&mut client, &mut server, &wire);
        assert_eq!(answer, Err(20), "bad_record_mac (section 5.2)");
    }
}

#[test]
fn empty_records_are_few() {
    for (record_type, what) in [(23, "data"), (22, "handshake")] {
        let (mut client, mut server, mut sealer) = established();
        let mut wire = Vec::new();
        for _ in 0..33 {
            sealer.seal(record_type, b"", &mut wire);
        }
        let answer = answer(&mut client, &mut server, &wire);
        assert_eq!(answer, Err(10), "{what}");
    }
}

#[test]
fn a_key_update_between_data_is_answered_and_goes_on() {
    let (mut client, mut server, _) = established();
    for _ in 0..100 {
        let mut wire = Vec::new();
        client.update_keys().expect("TLS 1.3");
        client.write(b"x", &mut wire).expect("established");
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Ok(ReadStatus::Data(1))
        );
        let mut wire = Vec::new();
        server.write(b"y", &mut wire).expect("established");
        let status = client.read(&mut &wire[..], &mut Vec::new(), &mut [0; 10]);
        assert_eq!(status, Ok(ReadStatus::Data(1)));
    }
}

/// `count` KeyUpdates that want an answer, as records.
fn key_updates(client: &mut ClientConnection, count: u32) -> Vec<u8> {
    let mut wire = Vec::new();
    for _ in 0..count {
        client.update_keys().expect("TLS 1.3");
        client.write(b"", &mut wire).expect("established");
    }
    wire
}

#[test]
fn key_updates_without_data_end_the_connection_after_32() {
    let (mut client, mut server, _) = established();
    // What the server owes for them does not grow with their number.
    for _ in 0..10 {
        let mut wire = key_updates(&mut client, 32);
        client.write(b"x", &mut wire).expect("established");
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Ok(ReadStatus::Data(1))
        );
        let wire = key_updates(&mut client, 32);
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Ok(ReadStatus::WantRead)
        );
        let mut wire = Vec::new();
        client.write(b"x", &mut wire).expect("established");
        assert_eq!(
            answer(&mut client, &mut server, &wire),
            Ok(ReadStatus::Data(1))
        );
        let mut owed = Vec::new();
        server.write(b"", &mut owed).expect("established");
        assert_eq!(owed.len(), 5 + 5 + 1 + 16, "one KeyUpdate");
        let status = client.read(&mut &owed[..], &mut Vec::new(), &mut [0; 10]);
        assert_eq!(status, Ok(ReadStatus::WantRead));
    }
    let wire = key_updates(&mut client, 33);
    assert_eq!(answer(&mut client, &mut server, &wire), Err(10));
}

#[test]
fn a_client_may_turn_keys_as_often_as_a_long_response_needs() {
    let (mut client, mut server, _) = established();
    let mut update = |server: &mut Connection| {
        let wire = key_updates(&mut client, 1);
        let status = server.read(&mut &wire[..], &mut Vec::new(), &mut [0; 10]);
        assert_eq!(status, Ok(ReadStatus::WantRead));
    };
    for _ in 0..100 {
        update(&mut server);
        server.write(b"y", &mut Vec::new()).expect("established");
    }
    // The same when someone else seals.
    server.release_transmit();
    for _ in 0..100 {
        update(&mut server);
        server.next_transmit_keys().expect("TLS 1.3");
    }
}

#[test]
fn what_follows_too_many_key_updates_is_not_read() {
    let (mut client, mut server, _) = established();
    let mut wire = Vec::new();
    client.write(b"before", &mut wire).expect("established");
    wire.extend(key_updates(&mut client, 33));
    client.write(b"behind", &mut wire).expect("established");
    let (mut input, mut to_client, mut plain) = (&wire[..], Vec::new(), [0; 100]);
    let status = server.read(&mut input, &mut to_client, &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(6)));
    assert!(input.is_empty() && server.is_ending());
    let mut more = Vec::new();
    client.write(b"later", &mut more).expect("established");
    for _ in 0..2 {
        let error = server
            .read(&mut &more[..], &mut to_client, &mut plain)
            .expect_err("it has ended");
        assert_eq!(error.reason(), Some("TOO_MANY_KEY_UPDATES"));
        assert_eq!(error.fault(), crate::Fault::Peer);
    }
    let error = client
        .read(&mut &to_client[..], &mut Vec::new(), &mut plain)
        .expect_err("an alert");
    assert_eq!(error.received_alert(), Some(10));
}

/// Whoever answers what came before a broken record learns that the peer has ended the connection.
#[test]
fn an_answer_to_what_came_before_a_broken_record() {
    let (mut client, mut server, _) = established();
    let mut wire = Vec::new();
    client.write(b"before", &mut wire).expect("established");
    let mut broken = Vec::new();
    client.write(b"broken", &mut broken).expect("established");
    *broken.last_mut().expect("a record") ^= 1;
    wire.extend(broken);
    let (mut to_client, mut plain) = (Vec::new(), [0; 100]);
    let status = server.read(&mut &wire[..], &mut to_client, &mut plain);
    assert_eq!(status, Ok(ReadStatus::Data(6)));
    let error = server
        .write(b"answer", &mut to_client)
        .expect_err("it has ended");
    assert_eq!(error.fault(), crate::Fault::Peer, "{error}");
}

#[test]
fn headers_under_keys() {
    let alert = |kind, length: u16, handshaking| {
        let [high, low] = length.to_be_bytes();
        record_alert([kind, 3, 3, high, low], handshaking)
    };
    assert_eq!(alert(23, 16_640, false), None);
    assert_eq!(alert(23, 16_641, false), Some(22));
    assert_eq!(alert(20, 1, true), None);
    assert_eq!(alert(20, 2, true), Some(10));
    assert_eq!(alert(20, 1, false), Some(10));
    assert_eq!(alert(22, 40, true), Some(10));
    assert_eq!(alert(21, 2, true), None);
    assert_eq!(alert(0, 2, false), Some(10));
    assert_eq!(plain_record_alert([20, 3, 3, 0, 1]), None);
    assert_eq!(plain_record_alert([20, 3, 3, 0, 2]), Some(10));
    assert_eq!(plain_record_alert([22, 3, 1, 0, 2]), None);
}

#[test]
fn messages() {
    let key_update = |body: &[u8]| message_alert(&[&[24, 0, 0, 1], body].concat(), None);
    assert_eq!(key_update(&[0]), None);
    assert_eq!(key_update(&[1]), None);
    assert_eq!(key_update(&[2]), Some(47));
    assert_eq!(key_update(&[]), Some(50));
    let finished = |length: usize| message_alert(&vec![20; 4 + length], Some(32));
    assert_eq!(finished(32), None);
    assert_eq!(finished(31), Some(50));
    assert_eq!(finished(48), Some(50));
    assert_eq!(message_alert(&[15, 0, 0, 2, 4, 1], None), Some(47));
    assert_eq!(message_alert(&[15, 0, 0, 2, 8, 4], None), None);
    assert_eq!(message_alert(&[15, 0, 0, 2, 4, 3], None), None);
    assert_eq!(message_alert(&[1, 0], None), None);
}
