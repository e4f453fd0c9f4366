//! 0-RTT over QUIC (RFC 9001 section 4.6): accepted once, and only if what the client remembers
//! still holds.

use super::*;
use crate::tests::early_data::{build, register};
use crate::tests::shared::{MemoryStore, shared};
use crate::{EarlyData, EarlyVerdict};

fn early_settings() -> ServerSettings {
    ServerSettings {
        ticket_keys: vec![Secret::new(vec![3; 48])],
        early_data: Some(EarlyData {
            register: register(),
        }),
        ..settings_of(p256())
    }
}

fn early(session: &ClientSession) -> ClientOffer<'_> {
    ClientOffer {
        early_data: true,
        ..resuming(session)
    }
}

#[test]
fn early_data_is_accepted_with_a_session_of_the_same_parameters() {
    let server = build(&early_settings());
    let client = plain_client();
    let mut pair = met(&client, &server, offer());
    assert_eq!(pair.server.early_verdict(), None, "none was offered");
    for _ in 0..3 {
        let session = pair.session();
        pair = QuicPair::with(&client, &server, early(&session));
        assert_eq!(pair.step_client(), Ok(Status::WantRead));
        let written = &pair.client_secrets.write;
        assert!(
            Secrets::of(written, Level::ZeroRtt).is_some(),
            "it may begin"
        );
        assert_eq!(pair.step_server(), Ok(Status::WantRead));
        assert!(pair.server.early_data_accepted() && !pair.server.is_established());
        let read = &pair.server_secrets.read;
        assert!(Secrets::of(read, Level::ZeroRtt).is_some());
        let info = pair.server.info().expect("a server was chosen");
        assert_eq!(info.early_data(), "1");
        pair.handshake().expect("nothing is wrong");
        assert!(pair.client.early_data_accepted());
        assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Accepted));
        let info = pair.server.info().expect("a server was chosen");
        assert_eq!(info.early_data(), "");
    }
}

/// RFC 9001 section 9.2: a flight that was recorded and sent again.
#[test]
fn the_same_flight_is_accepted_once() {
    let server = build(&early_settings());
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let hello = hello_of(&client, early(&session));
    for verdict in [EarlyVerdict::Accepted, EarlyVerdict::Replayed] {
        let acceptor = Acceptor::single(Arc::clone(&server));
        let mut connection = QuicServer::accept(&acceptor, Version::V1);
        connection.set_transport_parameters(SERVER_PARAMETERS, REMEMBERED);
        connection.receive(Level::Initial, &hello).expect("a hello");
        let status = connection.advance(Load::default());
        assert_eq!(status, Ok(Status::WantRead));
        assert_eq!(connection.early_verdict(), Some(verdict));
        let is_accepted = verdict == EarlyVerdict::Accepted;
        assert_eq!(connection.early_data_accepted(), is_accepted);
        let mut has_secret = false;
        while let Some(event) = connection.next_event() {
            has_secret |= matches!(
                event,
                Event::ReadSecret {
                    level: Level::ZeroRtt,
                    ..
                }
            );
        }
        assert_eq!(has_secret, is_accepted);
    }
}

/// RFC 9000 section 7.4.1 and RFC 9114 section 7.2.4.2: limits must not be lower than remembered.
#[test]
fn early_data_is_refused_when_what_is_remembered_has_changed() {
    let server = build(&early_settings());
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let mut pair = QuicPair::with(&client, &server, early(&session));
    pair.context = b"lower limits";
    pair.handshake().expect("it goes on without");
    assert!(pair.client.is_session_reused());
    assert!(!pair.client.early_data_accepted() && !pair.server.early_data_accepted());
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Unsuitable));
    // Tickets made now are good for what holds now.
    let session = pair.session();
    let mut pair = QuicPair::with(&client, &server, early(&session));
    pair.context = b"lower limits";
    pair.handshake().expect("nothing is wrong");
    assert!(pair.client.early_data_accepted());
}

#[test]
fn without_a_context_there_is_no_early_data() {
    let server = build(&early_settings());
    let client = plain_client();
    let mut pair = QuicPair::with(&client, &server, offer());
    pair.context = b"";
    pair.handshake().expect("nothing is wrong");
    let session = pair.session();
    let pair = met(&client, &server, early(&session));
    assert!(pair.client.is_session_reused());
    assert_eq!(
        Secrets::of(&pair.client_secrets.write, Level::ZeroRtt),
        None
    );
}

/// Of a session that is gone, and on a server that takes none.
#[test]
fn early_data_of_an_unknown_session_is_refused_and_the_next_ticket_allows_it() {
    let client = plain_client();
    let session = met(&client, &build(&early_settings()), offer()).session();
    let server = build(&ServerSettings {
        ticket_keys: vec![Secret::new(vec![4; 48])],
        ..early_settings()
    });
    let mut pair = met(&client, &server, early(&session));
    assert!(!pair.client.early_data_accepted());
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::NoSession));
    let session = pair.session();
    let pair = met(&client, &server, early(&session));
    assert!(pair.client.early_data_accepted());
    let without = crate::tests::server(&ServerSettings {
        ticket_keys: vec![Secret::new(vec![3; 48])],
        ..settings_of(p256())
    });
    let session = met(&client, &build(&early_settings()), offer()).session();
    let pair = met(&client, &without, early(&session));
    assert!(pair.client.is_session_reused() && !pair.client.early_data_accepted());
    assert_eq!(pair.server.early_verdict(), None);
}

/// RFC 9369 section 5, and a register that is the same for both.
#[test]
fn early_data_of_another_version_is_refused() {
    let server = build(&early_settings());
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let mut pair = QuicPair::with(&client, &server, early(&session));
    pair.server.set_version(Version::V2);
    pair.handshake().expect("it goes on without");
    assert!(!pair.client.early_data_accepted() && !pair.client.is_session_reused());
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::NoSession));
}

/// RFC 8446 section 4.1.2: after a HelloRetryRequest there is none.
#[test]
fn early_data_does_not_survive_a_hello_retry_request() {
    let settings = early_settings();
    let client = plain_client();
    let session = met(&client, &build(&settings), offer()).session();
    let server = build(&ServerSettings {
        groups: Some("secp384r1".to_owned()),
        ..settings
    });
    let pair = met(&client, &server, early(&session));
    assert!(!pair.client.early_data_accepted() && !pair.server.early_data_accepted());
    assert_eq!(pair.server.early_verdict(), Some(EarlyVerdict::Unsuitable));
}

#[test]
fn a_store_of_all_nodes_decides_about_flights() {
    let store = MemoryStore::new();
    let server = build(&ServerSettings {
        shared_sessions: Some(shared(&store, 1)),
        ..early_settings()
    });
    let client = plain_client();
    let session = met(&client, &server, offer()).session();
    let pair = met(&client, &server, early(&session));
    assert!(pair.pending > 0, "the store was asked");
    assert!(pair.client.early_data_accepted());
}
