//! Bytes in any pieces, and bytes that no honest server sends.

use proptest::prelude::*;

use super::*;
use crate::Fault;

fn tls() -> &'static ClientTls {
    static TLS: OnceLock<ClientTls> = OnceLock::new();
    TLS.get_or_init(|| client(&verifying(&root().pem())))
}

fn shared_server() -> Arc<ServerTls> {
    static SERVER: OnceLock<Arc<ServerTls>> = OnceLock::new();
    Arc::clone(SERVER.get_or_init(|| root().leaf(&["a.test"]).server()))
}

#[test]
fn one_byte_at_a_time() {
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let tls = client(&only(protocol, &verifying(&root().pem())));
        let mut pair = Pair::new(&tls, &shared_server(), "a.test");
        pair.chunk_bytes = 1;
        pair.handshake().expect("they agree");
        let body = data(40_000);
        assert!(pair.up(&body) == body);
        assert!(pair.down(&body) == body);
    }
}

#[test]
fn what_is_not_tls_ends_the_handshake() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\x16\x03\x01\x00\x05hello",
        &[0xff; 100],
        b"\x17\x03\x03\x00\x01x",
    ] {
        let mut connection = tls().connect(Some("a.test"), None).expect("a name");
        let mut output = Vec::new();
        connection
            .handshake(&mut &[][..], &mut output)
            .expect("a ClientHello");
        let error = connection
            .handshake(&mut &bytes[..], &mut output)
            .expect_err("no ServerHello");
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(!error.is_verification());
        let text = error.to_string();
        assert!(
            text.starts_with("SSL_do_handshake() failed (SSL: error:"),
            "{text}"
        );
        // It stays ended.
        assert_eq!(
            connection.handshake(&mut &[][..], &mut output),
            Err(Error::NotEstablished)
        );
        assert_eq!(connection.end_of_input(), Err(Error::NotEstablished));
    }
}

#[test]
fn an_alert_of_the_server_is_shown() {
    let mut connection = tls().connect(Some("a.test"), None).expect("a name");
    let mut output = Vec::new();
    connection
        .handshake(&mut &[][..], &mut output)
        .expect("a ClientHello");
    // unrecognized_name: ssl_reject_handshake.
    let error = connection
        .handshake(&mut &[21, 3, 3, 0, 2, 2, 112][..], &mut output)
        .expect_err("refused");
    assert!(error.to_string().contains("UNRECOGNIZED_NAME"), "{error}");
    assert_eq!(error.fault(), Fault::Peer);
}

#[test]
fn altered_records_are_not_delivered() {
    let mut pair = Pair::new(tls(), &shared_server(), "a.test");
    pair.handshake().expect("they agree");
    assert_eq!(pair.down(b"good"), b"good");
    pair.server
        .write(b"evil", 0, &mut pair.to_client)
        .expect("established");
    let last = pair.to_client.len() - 1;
    pair.to_client[last] ^= 1;
    let error = pair.receive().expect_err("altered");
    assert!(
        error.to_string().starts_with("SSL_read() failed"),
        "{error}"
    );
    assert!(!pair.client.is_established());
    assert_eq!(
        pair.client.write(b"more", &mut pair.to_server),
        Err(Error::NotEstablished)
    );
}

#[test]
fn half_a_record_is_a_cut() {
    let mut pair = Pair::new(tls(), &shared_server(), "a.test");
    pair.handshake().expect("they agree");
    assert_eq!(pair.down(b"first"), b"first");
    pair.server
        .write(b"never complete", 0, &mut pair.to_client)
        .expect("established");
    pair.to_client.truncate(pair.to_client.len() - 1);
    assert_eq!(pair.receive(), Ok((Vec::new(), ReadStatus::WantRead)));
    assert_eq!(pair.client.end_of_input(), Err(Error::Truncated));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_give_the_same(pieces in proptest::collection::vec(1_usize..3_000, 1..40), bytes in 1_usize..60_000) {
        let mut pair = Pair::new(tls(), &shared_server(), "a.test");
        pair.chunk_bytes = pieces[0];
        pair.handshake().expect("they agree");
        let body = data(bytes);
        pair.server.write(&body, 0, &mut pair.to_client).expect("established");
        let wire = std::mem::take(&mut pair.to_client);
        let (mut at, mut received, mut output) = (0, Vec::new(), Vec::new());
        for piece in pieces.iter().cycle() {
            let end = (at + piece).min(wire.len());
            let mut input = &wire[at..end];
            while let ReadStatus::Data(_) = pair
                .client
                .read(&mut input, &mut output, &mut received, *piece)
                .expect("valid records")
            {}
            prop_assert!(input.is_empty());
            at = end;
            if at == wire.len() {
                break;
            }
        }
        prop_assert!(received == body);
    }

    #[test]
    fn flipped_bits_in_the_servers_flight_never_establish(at in 0_usize..10_000, bit in 0_u8..8) {
        let mut pair = Pair::new(tls(), &shared_server(), "a.test");
        pair.client.handshake(&mut &[][..], &mut pair.to_server).expect("a ClientHello");
        let mut input = &pair.to_server[..];
        pair.server.handshake(&mut input, &mut pair.to_client, Load::default()).expect("a hello");
        let mut flight = std::mem::take(&mut pair.to_client);
        let at = at % flight.len();
        // The version of a record behind the first means nothing in TLS 1.3.
        flight[at] ^= 1 << bit;
        let mut output = Vec::new();
        let end = pair.client.handshake(&mut &flight[..], &mut output);
        prop_assert!(end != Ok(Handshake::Done) || is_ignored(&flight, at), "byte {at}");
    }

    #[test]
    fn garbage_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut connection = tls().connect(Some("a.test"), None).expect("a name");
        let mut output = Vec::new();
        let _ = connection.handshake(&mut &[][..], &mut output);
        let end = connection.handshake(&mut &bytes[..], &mut output);
        prop_assert!(end != Ok(Handshake::Done));
    }
}

/// Whether a byte means nothing by RFC 8446: the record version (section 5.1), unprotected as
/// it is, and all of a ChangeCipherSpec but its one allowed form.
fn is_ignored(flight: &[u8], at: usize) -> bool {
    let mut record = 0;
    while record + 5 <= flight.len() {
        let length = usize::from(u16::from_be_bytes([flight[record + 3], flight[record + 4]]));
        if (record + 1..record + 3).contains(&at) {
            return true;
        }
        record += 5 + length;
    }
    false
}
