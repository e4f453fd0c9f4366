//! Going over to another version, RFC 9368 section 2.3 and RFC 9369 section 4.1.

use super::handshakes::{assert_early_data_arrives, session_of, with_early_data_of};
use super::rules::initial_packet;
use super::*;
use crate::Code;
use crate::parameters::{TransportParameters, VersionInformation};

/// From one version to the other.
const CHANGES: [(Version, Version); 2] = [(Version::V1, Version::V2), (Version::V2, Version::V1)];

/// A client that begins with the first version, and a server that likes the second one better.
fn changing((original, preferred): (Version, Version)) -> Pair {
    Pair::with(preferring(preferred), original)
}

/// The version of a datagram's first packet, if that has a long header.
fn version_of(under_way: &UnderWay) -> Option<Version> {
    let (first, rest) = under_way.bytes.split_first()?;
    let number = rest.first_chunk().map(|number| u32::from_be_bytes(*number));
    number
        .filter(|_| first & 0x80 != 0)
        .and_then(Version::from_wire)
}

fn assert_version(pair: &mut Pair, version: Version) {
    assert_eq!(pair.client.connection.version(), version);
    assert_eq!(pair.server().connection.version(), version);
}

fn assert_error(connection: &Connection, code: Code) {
    match connection.close_reason() {
        Some(CloseReason::Error(error) | CloseReason::PeerError(error)) => {
            assert_eq!(error.code, code, "{connection:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_goes_over_to_its_favourite_in_one_round_trip() {
    for (original, preferred) in CHANGES {
        let mut pair = changing((original, preferred));
        let begun = pair.now;
        pair.flush(true);
        assert!(
            (pair.to_server.iter()).all(|sent| version_of(sent) == Some(original)),
            "the first flight"
        );
        pair.until("the server's flight", |pair| !pair.to_client.is_empty());
        assert_eq!(version_of(&pair.to_client[0]), Some(preferred));
        pair.until("the client", |pair| pair.client.connection.is_established());
        assert_eq!(pair.now.since(begun), 2 * DELAY, "{original:?}");
        assert!(
            (pair.to_server.iter()).all(|sent| version_of(sent) == Some(preferred)),
            "the second flight"
        );
        pair.handshake();
        assert_eq!(pair.now.since(begun), 4 * DELAY, "HANDSHAKE_DONE");
        assert_version(&mut pair, preferred);
        let dropped = |end: &End| end.connection.counters().packets_dropped;
        assert_eq!((dropped(&pair.client), dropped(pair.server())), (0, 0));
        // Keys are updated with the labels of the new version.
        pair.client.connection.ping();
        pair.server().connection.ping();
        pair.pass(20 * DELAY);
        let now = pair.now;
        assert!(pair.server().connection.update_keys(now));
        let id = pair.open();
        pair.client.write(id, 5000, true);
        pair.until("the data", |pair| pair.server().got(id) == (5000, true));
    }
}

#[test]
fn going_over_survives_any_one_loss() {
    for change in CHANGES {
        for lost in 0..14 {
            let mut pair = changing(change);
            pair.network = Box::new(move |number| match number == lost {
                true => Fault::Lose,
                false => Fault::None,
            });
            pair.handshake();
            assert_version(&mut pair, change.1);
        }
    }
}

#[test]
fn going_over_survives_bad_networks() {
    for change in CHANGES {
        for seed in 0..20 {
            let mut pair = changing(change);
            pair.network = bad_network(30, seed);
            pair.handshake();
            assert_version(&mut pair, change.1);
        }
    }
}

#[test]
fn the_original_version_is_taken_until_the_client_follows_rfc_9369_section_4_1() {
    for (original, preferred) in CHANGES {
        let mut pair = changing((original, preferred));
        pair.flush(true);
        let first_flight = pair.to_server.len() as u64;
        // The whole first flight of the server is lost.
        pair.network = Box::new(move |number| match number {
            n if n < first_flight + 3 => Fault::Lose,
            _ => Fault::None,
        });
        pair.until("the server has gone over", |pair| {
            (pair.server.as_ref()).is_some_and(|server| server.connection.version() == preferred)
        });
        assert_eq!(pair.client.connection.version(), original);
        let has_other = |end: &End| {
            (end.connection.negotiation.as_ref()).is_some_and(|n| n.other_initial.is_some())
        };
        assert!(has_other(pair.server()));
        // What the client repeats is of the original version, and authentic.
        let now = pair.now;
        let again = initial_packet(original, Side::Client, 50, b"", 1200);
        assert_eq!(pair.server().take(now, again), 0);
        // It follows with the first packet.
        let following = initial_packet(preferred, Side::Client, 51, b"", 1200);
        assert_eq!(pair.server().take(now, following), 0);
        assert!(!has_other(pair.server()));
        let late = initial_packet(original, Side::Client, 52, b"", 1200);
        assert_eq!(pair.server().take(now, late), 1);
        pair.handshake();
        assert_version(&mut pair, preferred);
        assert!(!has_other(&pair.client));
    }
}

#[test]
fn handshake_packets_that_overtake_the_change_are_kept() {
    let mut pair = changing(CHANGES[0]);
    let begun = pair.now;
    pair.until("the server's flight", |pair| !pair.to_client.is_empty());
    pair.flush(false);
    assert!(pair.to_client.len() > 1, "certificates need more datagrams");
    pair.to_client.make_contiguous().reverse();
    pair.until("the client", |pair| pair.client.connection.is_established());
    assert_eq!(pair.now.since(begun), 2 * DELAY, "nothing is sent again");
}

#[test]
fn a_client_that_has_one_version_keeps_it() {
    for (original, preferred) in CHANGES {
        let only = ConnectionSettings {
            versions: vec![original],
            ..settings()
        };
        let mut pair = Pair::with(only, original);
        pair.settings = Arc::new(preferring(preferred));
        pair.handshake();
        assert_version(&mut pair, original);

        // RFC 9368 section 2.3: nor does one that says nothing of versions go over.
        let offer = TransportParameters {
            initial_source: ConnectionId::new(b"client's"),
            version_information: None,
            ..settings().parameters(original)
        };
        let mut bytes = Vec::new();
        offer.put(&mut bytes, 1);
        let offer = ClientOffer {
            transport_parameters: &bytes,
            ..ClientOffer::default()
        };
        let mut pair = Pair::offering(preferring(preferred), original, offer, None);
        pair.handshake();
        assert_version(&mut pair, original);
    }
}

#[test]
fn a_client_whose_version_was_changed_on_the_way_is_refused_rfc_9368_section_4() {
    for (original, stated) in CHANGES {
        // The client has begun with `stated`; somebody has made packets of `original` of it.
        let source = ConnectionId::new(b"client's").expect("short");
        let bytes = settings().client_parameters(stated, source, 1);
        let offer = ClientOffer {
            transport_parameters: &bytes,
            ..ClientOffer::default()
        };
        let mut pair = Pair::offering(settings(), original, offer, None);
        pair.until("the end", |pair| pair.client.connection.is_ending());
        for end in [&pair.client, pair.server.as_ref().expect("it is there")] {
            assert_error(&end.connection, Code::VERSION_NEGOTIATION_ERROR);
        }
    }
}

/// A server whose transport parameters say of versions what the test wants.
fn server_saying(pair: &mut Pair, information: Option<VersionInformation>) {
    pair.flush(true);
    let first = &pair.to_server[0];
    let mut server = pair.accept(&first.bytes, first.addresses);
    let parameters = TransportParameters {
        original_destination: ConnectionId::new(b"original"),
        initial_source: Some(server.connection.local_ids.first()),
        version_information: information,
        ..settings().parameters(Version::V1)
    };
    let mut bytes = Vec::new();
    parameters.put(&mut bytes, 1);
    let negotiation = server.connection.negotiation.as_mut();
    match &mut negotiation.expect("it is there").tls {
        Tls::Server(tls) => tls.set_transport_parameters(&bytes, &[]),
        Tls::Client(_) => panic!("a server"),
    }
    pair.server = Some(server);
}

#[test]
fn a_server_that_states_another_version_than_it_uses_is_refused_rfc_9368_section_4() {
    for (used, stated) in CHANGES {
        let mut pair = Pair::with(preferring(used), used);
        let information = VersionInformation::new(stated, &Version::ALL);
        server_saying(&mut pair, Some(information));
        pair.until("the end", |pair| pair.client.connection.is_ending());
        assert_error(&pair.client.connection, Code::VERSION_NEGOTIATION_ERROR);
    }
}

#[test]
fn a_server_has_to_say_that_it_has_gone_over_rfc_9368_section_4() {
    let chosen = VersionInformation::new(Version::V2, &Version::ALL);
    for information in [None, Some(chosen)] {
        let mut pair = Pair::new();
        server_saying(&mut pair, information);
        pair.server().connection.go_over_to(Version::V2);
        match information {
            None => {
                pair.until("the end", |pair| pair.client.connection.is_ending());
                assert_error(&pair.client.connection, Code::VERSION_NEGOTIATION_ERROR);
            }
            Some(_) => {
                pair.handshake();
                assert_version(&mut pair, Version::V2);
            }
        }
    }
}

#[test]
fn clients_follow_authentic_packets_of_versions_that_they_speak_only() {
    let mut pair = Pair::new();
    pair.flush(true);
    let now = pair.now;
    let mut forged = initial_packet(Version::V2, Side::Server, 50, b"", 1200);
    forged[1199] ^= 1;
    assert_eq!(pair.client.take(now, forged), 1);
    assert_eq!(pair.client.connection.version(), Version::V1);
    pair.handshake();
    assert_version(&mut pair, Version::V1);

    let only = ConnectionSettings {
        versions: vec![Version::V1],
        ..settings()
    };
    let mut pair = Pair::with(only, Version::V1);
    pair.flush(true);
    let packet = initial_packet(Version::V2, Side::Server, 50, b"", 1200);
    let now = pair.now;
    assert_eq!(pair.client.take(now, packet.clone()), 1);
    assert_eq!(pair.client.connection.version(), Version::V1);

    // Behind the ServerHello it is too late.
    let mut pair = Pair::new();
    pair.until("keys", |pair| {
        let handshake = pair.client.connection.handshake.as_ref();
        handshake.is_some_and(|handshake| handshake.open.is_some())
    });
    let now = pair.now;
    assert_eq!(pair.client.take(now, packet), 1);
    pair.handshake();
    assert_version(&mut pair, Version::V1);
}

/// RFC 9369 section 5: the session is of another version than the connection gets.
#[test]
fn sessions_are_not_resumed_across_a_change() {
    for (original, preferred) in CHANGES {
        let (mut pair, id) = with_early_data_of(original, preferring(preferred), original);
        pair.handshake();
        assert_version(&mut pair, preferred);
        assert!(!pair.client.connection.is_early_data_accepted());
        let tls = pair.client.connection.client_tls_mut().expect("kept");
        assert!(!tls.is_session_reused());
        pair.until("the data", |pair| pair.server().got(id) == (3000, true));
    }
}

/// A session belongs to the version that was negotiated, not to the one that it began with.
#[test]
fn sessions_belong_to_the_negotiated_version_rfc_9369_section_5() {
    for change in CHANGES {
        let session = session_of(changing(change));
        for (version, is_reused) in [(change.0, false), (change.1, true)] {
            let offer = ClientOffer {
                session: Some(&session.0),
                ..ClientOffer::default()
            };
            let mut pair = Pair::offering(preferring(version), version, offer, None);
            pair.handshake();
            let tls = pair.client.connection.client_tls_mut().expect("kept");
            assert_eq!(tls.is_session_reused(), is_reused, "{version:?}");
        }
    }
}

/// The client should not do that (RFC 9369 section 5), but shows how 0-RTT packets are sealed.
#[test]
fn early_data_stays_in_the_original_version_rfc_9369_section_4_1() {
    for (original, preferred) in CHANGES {
        let (mut pair, id) = with_early_data_of(preferred, preferring(preferred), original);
        assert_early_data_arrives(&mut pair, id);
        assert_version(&mut pair, preferred);
    }
}
