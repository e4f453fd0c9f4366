//! Handshakes that succeed.

use super::*;
use crate::tests::client_certificates::{people, trusting};
use crate::tests::ech::key_file;
use crate::{EchKeys, VerifyClient};

#[test]
fn a_full_handshake_gives_both_sides_the_same_secrets() {
    let server = server(&ServerSettings {
        remember_client_offer: true,
        ..settings_of(p256())
    });
    for chunk_bytes in [usize::MAX, 1] {
        let mut pair = QuicPair::with(&plain_client(), &server, offer());
        pair.chunk_bytes = chunk_bytes;
        pair.handshake().expect("nothing is wrong");
        assert_eq!(pair.client.alpn(), Some(&b"h3"[..]));
        assert_eq!(pair.server.alpn(), Some(&b"h3"[..]));
        assert_eq!(pair.server.server_name(), Some("name.test"));
        let theirs = pair.server.peer_transport_parameters();
        assert_eq!(theirs, Some(CLIENT_PARAMETERS));
        let ours = pair.client.peer_transport_parameters();
        assert_eq!(ours, Some(SERVER_PARAMETERS));
        let info = pair.server.info().expect("established");
        assert_eq!(info.protocol(), "TLSv1.3");
        assert!(info.cipher().starts_with("TLS_"));
        assert!(info.ja4().starts_with("q13d"), "{}", info.ja4());
        assert!(!pair.server.early_data_accepted());
        assert!(!pair.client.is_session_reused());
        assert_eq!(pair.server.missed(), None);
        assert!(pair.client.take_session().is_some(), "tickets follow");
    }
}

/// RFC 9001 section 5.3: the suites that QUIC uses.
#[test]
fn every_suite_gives_secrets_of_its_length() {
    use crate::quic::Suite;
    for (name, suite) in [
        ("TLS_AES_128_GCM_SHA256", Suite::Aes128Gcm),
        ("TLS_AES_256_GCM_SHA384", Suite::Aes256Gcm),
        ("TLS_CHACHA20_POLY1305_SHA256", Suite::ChaCha20Poly1305),
    ] {
        let server = server(&ServerSettings {
            ciphersuites: Some(name.to_owned()),
            ..settings_of(p256())
        });
        let pair = met(&plain_client(), &server, offer());
        let all = [&pair.server_secrets.read, &pair.server_secrets.write];
        for (_, secret) in all.into_iter().flatten() {
            assert_eq!(secret.suite(), suite);
            assert_eq!(secret.expose().len(), suite.secret_bytes());
        }
        assert_eq!(pair.client.cipher(), name);
    }
}

#[test]
fn parameters_may_be_set_before_the_hello() {
    let server = server(&settings_of(p256()));
    let mut pair = QuicPair::with(&plain_client(), &server, offer());
    assert_eq!(pair.server.peer_transport_parameters(), None);
    pair.server.set_transport_parameters(b"early", REMEMBERED);
    pair.handshake().expect("nothing is wrong");
    assert_eq!(pair.client.peer_transport_parameters(), Some(&b"early"[..]));
}

/// RFC 9001 section 4.7.
#[test]
fn a_hello_retry_request_asks_for_another_key_share() {
    let server = server(&ServerSettings {
        groups: Some("secp384r1".to_owned()),
        ..settings_of(p256())
    });
    let mut pair = QuicPair::with(&plain_client(), &server, offer());
    pair.handshake().expect("the group is known");
    let info = pair.server.info().expect("established");
    assert_eq!(info.curve(), "secp384r1");
    let session = pair.session();
    let mut again = QuicPair::with(&plain_client(), &server, resuming(&session));
    again.handshake().expect("the group is known");
    assert!(again.client.is_session_reused());
}

#[test]
fn sessions_resume_over_quic() {
    let server = server(&settings_of(p256()));
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let mut pair = met(&client, &server, resuming(&session));
    assert!(pair.client.is_session_reused());
    assert_eq!(pair.server.resumed(), Some(crate::Resumed::Ticket));
    let next = pair.session();
    assert!(
        met(&client, &server, resuming(&next))
            .client
            .is_session_reused()
    );
}

/// Over TCP other parameters apply, and the other way round.
#[test]
fn a_session_of_tcp_does_not_resume_over_quic_nor_the_other_way_round() {
    let server = server(&settings_of(p256()));
    let client = plain_client();
    let mut tcp = client.connect(Some("name.test"), None).expect("memory");
    let mut other = Connection::accept(&Acceptor::single(Arc::clone(&server)));
    let session = over_tcp(&mut tcp, &mut other).expect("a ticket");
    let mut pair = met(&client, &server, resuming(&session));
    assert!(!pair.client.is_session_reused());
    let session = pair.session();
    let mut tcp = client
        .connect(Some("name.test"), Some(&session))
        .expect("memory");
    let mut other = Connection::accept(&Acceptor::single(Arc::clone(&server)));
    over_tcp(&mut tcp, &mut other);
    assert!(!tcp.is_session_reused());
}

/// A client need not refuse: it may be another implementation. The server does.
#[test]
fn a_ticket_of_tcp_that_is_offered_over_quic_is_refused_by_the_server() {
    let server = server(&settings_of(p256()));
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let mut pair = QuicPair::with(&client, &server, resuming(&session));
    pair.step_client().expect("a hello");
    let (_, hello) = pair.to_server.pop().expect("a hello");
    // What a server over TCP makes of the same hello, without the parameters of QUIC.
    let hello = without_extension(&hello, 57);
    let length = u16::try_from(hello.len()).expect("short");
    let records = [&[22, 3, 1][..], &length.to_be_bytes(), &hello].concat();
    let mut other = Connection::accept(&Acceptor::single(Arc::clone(&server)));
    let mut output = Vec::new();
    let _ = other.handshake(&mut &records[..], &mut output, Load::default());
    let info = other.info().expect("a server was chosen");
    assert_eq!(info.session_reused(), ".");
}

/// RFC 9369 section 5: a server does not accept tickets of another version.
#[test]
fn a_session_of_one_version_does_not_resume_with_the_other() {
    let server = server(&settings_of(p256()));
    let client = plain_client();
    let at = |version: Version, offer: ClientOffer<'_>| {
        let mut pair = QuicPair::with(&client, &server, offer);
        pair.server.set_version(version);
        pair.handshake().expect("nothing is wrong");
        let miss = pair.server.missed();
        (pair.client.is_session_reused(), miss, pair.session())
    };
    let (_, _, first) = at(Version::V1, offer());
    let (_, _, second) = at(Version::V2, offer());
    let other = Some(crate::Missed::OtherContext);
    assert_eq!(at(Version::V1, resuming(&second)).1, other);
    assert_eq!(at(Version::V2, resuming(&first)).1, other);
    assert!(at(Version::V1, resuming(&first)).0);
    assert!(at(Version::V2, resuming(&second)).0);
}

#[test]
fn clients_show_certificates_as_over_tcp() {
    let server = server(&ServerSettings {
        client_verification: trusting(),
        ..settings_of(p256())
    });
    let known = client_of(&ClientSettings {
        identity: Some(people().client.identity()),
        ..ClientSettings::default()
    });
    let mut pair = met(&known, &server, offer());
    let chain = pair.server.client_chain().expect("it was asked for");
    let rules = server.client_verifier().expect("it asks");
    assert_eq!(rules.mode(), VerifyClient::On);
    assert_eq!(rules.judge(&chain), Ok(()));
    let session = pair.session();
    let again = met(&known, &server, resuming(&session));
    assert!(again.client.is_session_reused());
    let remembered = again.server.client_chain().expect("from the session");
    assert_eq!(remembered.fingerprint(), chain.fingerprint());
    let nobody = met(&plain_client(), &server, offer());
    assert!(nobody.server.client_chain().is_none());
}

#[test]
fn the_hello_inside_of_an_encrypted_one_counts() {
    let (key, file) = key_file("ech");
    let ech = EchKeys::build(&[file]).expect("just made").expect("one");
    let server = server(&ServerSettings {
        ech: Some((Arc::clone(&ech), None)),
        ..settings_of(p256())
    });
    let acceptor = Acceptor::single(server).with_ech(Some(ech));
    let mut pair = QuicPair::new(&plain_client(), &acceptor, offer());
    let library = pair.client.library_client();
    library.set_ech_configs(&key.config_list).expect("a list");
    pair.handshake().expect("the key is known");
    assert!(pair.client.library_client().is_ech_accepted());
    let info = pair.server.info().expect("established");
    assert_eq!(info.ech_status(), "SUCCESS");
    assert_eq!(info.ech_outer_server_name(), "public.test");
    assert_eq!(pair.server.server_name(), Some("name.test"));
}

/// The same set-up serves TCP.
#[test]
fn protocols_of_tcp_and_of_quic_are_lists_of_their_own() {
    let settings = settings_of(p256());
    for alpn in [settings.alpn.clone(), Vec::new()] {
        let server = server(&ServerSettings {
            alpn: alpn.clone(),
            ..settings.clone()
        });
        let client = client_of(&ClientSettings {
            alpn: vec![b"h3", b"http/1.1"],
            ..ClientSettings::default()
        });
        let mut tcp = client.connect(Some("name.test"), None).expect("memory");
        let mut other = Connection::accept(&Acceptor::single(Arc::clone(&server)));
        over_tcp(&mut tcp, &mut other);
        assert_eq!(tcp.alpn(), alpn.first().map_or(&b""[..], |name| name));
        let offered = ClientOffer {
            protocols: &[],
            ..offer()
        };
        let pair = met(&client, &server, offered);
        assert_eq!(pair.server.alpn(), Some(&b"h3"[..]));
    }
}

/// A handshake over TCP; the session that comes of it.
fn over_tcp(
    client: &mut crate::client::Connection,
    server: &mut Connection,
) -> Option<ClientSession> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let received = std::mem::take(&mut to_client);
        client
            .handshake(&mut &received[..], &mut to_server)
            .expect("nothing is wrong");
        let received = std::mem::take(&mut to_server);
        server
            .handshake(&mut &received[..], &mut to_client, Load::default())
            .expect("nothing is wrong");
        if client.is_established() && server.is_established() {
            server
                .write(b"ticket", 0, &mut to_client)
                .expect("established");
            let mut plain = Vec::new();
            client
                .read(&mut &to_client[..], &mut to_server, &mut plain, 100)
                .expect("a record");
            assert_eq!(plain, b"ticket");
            return client.take_session();
        }
    }
    panic!("the handshake makes no progress");
}

/// The hello without the extension of this kind.
pub(super) fn without_extension(hello: &[u8], kind: u16) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    let suites_at = 4 + 2 + 32 + 1 + usize::from(hello[4 + 2 + 32]);
    let methods_at = suites_at + 2 + number(suites_at);
    let extensions_at = methods_at + 1 + usize::from(hello[methods_at]);
    let mut kept = Vec::new();
    let mut at = extensions_at + 2;
    while at < hello.len() {
        let end = at + 4 + number(at + 2);
        if number(at) != usize::from(kind) {
            kept.extend_from_slice(&hello[at..end]);
        }
        at = end;
    }
    let length = u16::try_from(kept.len()).expect("short");
    let body = [&hello[4..extensions_at], &length.to_be_bytes(), &kept].concat();
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    [&[1][..], &length[1..], &body].concat()
}
