//! Our own record writer against libssl's client, in both protocols. On a processor without the
//! instructions libssl seals, and the tests must pass as well.

use super::*;

fn chacha(version: ProtocolVersion) -> ClientContext {
    client(|builder| {
        builder.set_protocol_range(version, version).expect("valid");
        let set = match version {
            ProtocolVersion::Tls13 => builder.set_ciphersuites("TLS_CHACHA20_POLY1305_SHA256"),
            _ => builder.set_cipher_list("ECDHE-RSA-CHACHA20-POLY1305"),
        };
        set.expect("known");
    })
}

fn pair(version: ProtocolVersion, settings: &ServerSettings) -> Pair {
    let mut pair = Pair::with(&chacha(version), &server(settings));
    pair.handshake().expect("a suite of both");
    pair
}

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::Tls12, ProtocolVersion::Tls13];

#[test]
fn small_and_large_writes_keep_one_sequence() {
    for version in VERSIONS {
        let mut pair = pair(version, &settings(&[rsa()]));
        for size in [1, 16_383, 16_384, 16_385, 0, 5, 200_000, 1, 131_072] {
            assert_eq!(pair.down(&data(size)), data(size), "{version}, {size}");
            assert_eq!(pair.up(b"next"), b"next");
        }
        let mut wire = Vec::new();
        pair.server.shutdown(&mut wire);
        pair.server.shutdown(&mut wire);
        let end = pair
            .client
            .read(&mut &wire[..], &mut Vec::new(), &mut [0; 10])
            .expect("in order");
        assert_eq!(end, ReadStatus::CloseNotify, "{version}");
    }
}

#[test]
fn tickets_leave_before_the_writer_takes_over() {
    let mut pair = pair(ProtocolVersion::Tls13, &settings(&[rsa()]));
    assert_eq!(pair.down(&data(100_000)), data(100_000));
    let session = pair.client.take_session().expect("a ticket");
    let mut again = Pair::resuming(
        &chacha(ProtocolVersion::Tls13),
        pair.server.server().expect("chosen"),
        &session,
    );
    again.handshake().expect("resumes");
    assert!(again.client.is_session_reused());
}

#[test]
fn records_grow_with_dynamic_sizes() {
    let settings = ServerSettings {
        dynamic_records: Some(crate::DynamicRecords::default()),
        ..settings(&[rsa()])
    };
    for version in VERSIONS {
        let mut pair = pair(version, &settings);
        pair.server
            .write(&data(300_000), 0, &mut pair.to_client)
            .expect("established");
        let first = u16::from_be_bytes([pair.to_client[3], pair.to_client[4]]);
        assert!(first < 1_500, "{version}: {first}");
        assert_eq!(pair.down(&[]), data(300_000), "{version}");
    }
}

#[test]
fn a_damaged_record_is_answered_with_an_alert_the_client_can_read() {
    for version in VERSIONS {
        let mut pair = pair(version, &settings(&[rsa()]));
        assert_eq!(pair.down(&data(50_000)), data(50_000));
        let mut up = Vec::new();
        pair.client.write(b"request", &mut up).expect("established");
        *up.last_mut().expect("a record") ^= 1;
        let mut wire = Vec::new();
        let result = pair.server.read(&mut &up[..], &mut wire, &mut [0; 100]);
        assert!(result.is_err() && !wire.is_empty(), "{version}");
        let told = pair
            .client
            .read(&mut &wire[..], &mut Vec::new(), &mut [0; 100])
            .expect_err("a fatal alert");
        let told = told.to_string().to_ascii_lowercase().replace(' ', "_");
        assert!(told.contains("bad_record_mac"), "{version}: {told}");
    }
}
