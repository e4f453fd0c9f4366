//! Handshakes and data, with this crate's own server.

use super::*;

#[test]
fn data_flows_both_ways_under_every_version() {
    let server = server(&ServerSettings {
        identities: vec![root().leaf(&["a.test"]).identity()],
        protocols: Protocol::ALL.into_iter().skip(2).collect(),
        ciphers: "ALL".to_owned(),
        ..ServerSettings::default()
    });
    let body = data(100_000);
    for protocol in Protocol::ALL.into_iter().skip(2) {
        let settings = ClientSettings {
            ciphers: "ALL".to_owned(),
            ..only(protocol, &verifying(&root().pem()))
        };
        let mut pair = Pair::new(&client(&settings), &server, "a.test");
        pair.handshake().expect("they agree");
        assert_eq!(pair.client.protocol(), protocol.name());
        assert!(!pair.client.cipher().is_empty());
        assert!(pair.up(&body) == body, "{}", protocol.name());
        assert!(pair.down(&body) == body, "{}", protocol.name());
        assert_eq!(pair.up(b""), b"");
    }
}

#[test]
fn a_request_leaves_with_the_last_flight_and_is_answered() {
    let (client, server) = (
        client(&verifying(&root().pem())),
        root().leaf(&["a.test"]).server(),
    );
    let mut connection = client.connect(Some("a.test"), None).expect("a name");
    let mut accepted = crate::Connection::accept(&Acceptor::single(server));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let status = connection.handshake(&mut &[][..], &mut up);
    assert_eq!(status, Ok(Handshake::WantRead));
    let mut input = &up[..];
    accepted
        .handshake(&mut input, &mut down, Load::default())
        .expect("a ClientHello");
    up.clear();
    let status = connection.handshake(&mut &down[..], &mut up);
    assert_eq!(status, Ok(Handshake::Done));
    connection
        .write(b"GET / HTTP/1.1\r\n\r\n", &mut up)
        .expect("established");
    // One flight: Finished and request.
    let (mut input, mut plain) = (&up[..], [0; 100]);
    down.clear();
    assert_eq!(
        accepted.handshake(&mut input, &mut down, Load::default()),
        Ok(HandshakeStatus::Done)
    );
    assert_eq!(
        accepted.read(&mut input, &mut down, &mut plain),
        Ok(ReadStatus::Data(18))
    );
}

#[test]
fn the_name_is_sent_only_where_it_should_be() {
    let server = root().leaf(&["a.test", "127.0.0.1"]).server();
    for (server_name, name, sent) in [
        (true, "a.test:443", "a.test"),
        (true, "127.0.0.1", ""),
        (true, "[::1]:443", ""),
        (true, "", ""),
        (false, "a.test", ""),
    ] {
        let settings = ClientSettings {
            server_name,
            ..ClientSettings::default()
        };
        let mut pair = Pair::new(&client(&settings), &server, name);
        pair.handshake().expect("they agree");
        let info = pair.server.info().expect("a server was chosen");
        assert_eq!(info.server_name(), sent, "{name}");
    }
    let tls = client(&verifying(&root().pem()));
    let long = "a".repeat(256);
    assert!(tls.connect(Some(&long), None).is_err());
    assert!(tls.connect(Some("a\0b"), None).is_err());
}

#[test]
fn the_application_protocol_is_negotiated() {
    let offering = |alpn: &[&'static [u8]]| ClientSettings {
        alpn: alpn.to_vec(),
        ..ClientSettings::default()
    };
    let server_with = |alpn: &[&'static [u8]]| {
        server(&ServerSettings {
            identities: vec![root().leaf(&["a.test"]).identity()],
            alpn: alpn.iter().map(|name| Box::from(*name)).collect(),
            ..ServerSettings::default()
        })
    };
    for (ours, theirs, agreed) in [
        (
            &[&b"h2"[..]][..],
            &[&b"h2"[..], b"http/1.1"][..],
            &b"h2"[..],
        ),
        (&[b"http/1.1"], &[b"h2", b"http/1.1"], b"http/1.1"),
        (&[], &[b"h2"], b""),
        (&[b"h2"], &[], b""),
    ] {
        let mut pair = Pair::new(&client(&offering(ours)), &server_with(theirs), "a.test");
        pair.handshake().expect("they agree");
        assert_eq!(pair.client.alpn(), agreed);
    }
}

#[test]
fn a_close_in_order_is_told_from_a_cut() {
    for protocol in [Protocol::TlsV1_2, Protocol::TlsV1_3] {
        let tls = client(&only(protocol, &verifying(&root().pem())));
        let mut pair = Pair::new(&tls, &root().leaf(&["a.test"]).server(), "a.test");
        assert_eq!(pair.client.end_of_input(), Err(Error::ClosedInHandshake));
        pair.handshake().expect("they agree");
        assert_eq!(pair.down(b"body"), b"body");
        assert_eq!(pair.client.end_of_input(), Err(Error::Truncated));
        pair.server
            .write(b"the end", 0, &mut pair.to_client)
            .expect("established");
        pair.server.shutdown(&mut pair.to_client);
        let (rest, last) = pair.receive().expect("valid records");
        assert_eq!(
            (&rest[..], last),
            (&b"the end"[..], ReadStatus::CloseNotify)
        );
        assert_eq!(pair.client.end_of_input(), Ok(()));
        // Our side is still open, and closes once.
        assert_eq!(pair.up(b"bye"), b"bye");
        pair.client.close_notify(&mut pair.to_server);
        let closing = pair.to_server.len();
        assert!(closing > 0);
        pair.client.close_notify(&mut pair.to_server);
        assert_eq!(pair.to_server.len(), closing);
    }
}

#[test]
fn reading_appends_no_more_than_it_may() {
    let tls = client(&verifying(&root().pem()));
    let mut pair = Pair::new(&tls, &root().leaf(&["a.test"]).server(), "a.test");
    pair.handshake().expect("they agree");
    let body = data(50_000);
    pair.server
        .write(&body, 0, &mut pair.to_client)
        .expect("established");
    let wire = std::mem::take(&mut pair.to_client);
    let (mut input, mut plain, mut output) = (&wire[..], b"kept".to_vec(), Vec::new());
    for most in [1, 10, 5_000, 20_000, 0] {
        let before = plain.len();
        let status = pair.client.read(&mut input, &mut output, &mut plain, most);
        assert_eq!(status, Ok(ReadStatus::Data(most)));
        assert_eq!(plain.len(), before + most);
    }
    assert!(pair.client.has_pending());
    while let Ok(ReadStatus::Data(_)) = pair.client.read(&mut input, &mut output, &mut plain, 9_999)
    {
    }
    assert!(plain[..4] == b"kept"[..] && plain[4..] == body);
    assert!(!pair.client.has_pending());
}
