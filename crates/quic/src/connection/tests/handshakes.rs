//! Handshakes, RFC 9000 section 7 and RFC 9001.

use super::*;
use sealane_tls::client::Session;
use sealane_tls::{Reply, SharedStore, StoreKey, StoreSeal};
use std::sync::Mutex;

#[test]
fn both_versions_complete_a_handshake_in_one_round_trip() {
    for version in Version::ALL {
        let mut pair = Pair::with(preferring(version), version);
        let begun = pair.now;
        pair.until("the client", |pair| pair.client.connection.is_established());
        assert_eq!(pair.now.since(begun), 2 * DELAY, "{version:?}");
        pair.handshake();
        assert_eq!(pair.now.since(begun), 4 * DELAY, "HANDSHAKE_DONE");
        assert_eq!(pair.server().connection.version(), version);
        assert!(pair.server().connection.initial.is_none());
        assert!(pair.client.connection.handshake.is_none());
    }
}

#[test]
fn a_handshake_survives_any_one_loss() {
    for lost in 0..12 {
        let mut pair = Pair::new();
        pair.network = Box::new(move |number| match number == lost {
            true => Fault::Lose,
            false => Fault::None,
        });
        pair.handshake();
    }
}

#[test]
fn handshakes_survive_bad_networks() {
    for seed in 0..40 {
        let mut pair = Pair::new();
        pair.network = bad_network(30, seed);
        pair.handshake();
    }
}

#[test]
fn a_server_sends_at_most_three_times_what_it_got_rfc_9000_section_8_1() {
    let mut pair = Pair::new();
    // Only the client's hello arrives, which needs two datagrams.
    pair.network = Box::new(|number| match number {
        0 | 1 => Fault::None,
        _ => Fault::Lose,
    });
    for _ in 0..40 {
        pair.step();
    }
    let counters = pair.server().connection.counters();
    let (sent, received) = (counters.bytes_sent, counters.bytes_received);
    assert!(received <= 2 * 1200, "{received}");
    assert!((received + 1..=3 * received).contains(&sent), "{sent}");
}

#[test]
fn datagrams_with_initial_packets_have_1200_bytes_rfc_9000_section_14_1() {
    let mut pair = Pair::new();
    pair.flush(true);
    assert!(pair.to_server.iter().all(|sent| sent.bytes.len() >= 1200));
    pair.until("an answer", |pair| !pair.to_client.is_empty());
    assert_eq!(pair.to_client[0].bytes.len(), 1200);
}

/// A session of this connection and the limits that belong to it.
pub(super) fn session_of(mut pair: Pair) -> (Session, PeerLimits) {
    pair.handshake();
    let mut session = None;
    pair.until("a session", |pair| {
        let tls = pair.client.connection.client_tls_mut().expect("kept");
        session = tls.take_session();
        session.is_some()
    });
    let streams = settings().streams;
    let limits = PeerLimits {
        max_data: streams.max_data,
        max_stream_data_bidi_local: streams.max_stream_data_bidi_local,
        max_stream_data_bidi_remote: streams.max_stream_data_bidi_remote,
        max_stream_data_uni: streams.max_stream_data_uni,
        max_streams_bidi: streams.max_streams_bidi,
        max_streams_uni: streams.max_streams_uni,
    };
    (session.expect("waited for"), limits)
}

fn with_early_data(settings: ConnectionSettings) -> (Pair, StreamId) {
    with_early_data_of(Version::V1, settings, Version::V1)
}

/// A client that has early data for a session of a version, and begins with another one.
pub(super) fn with_early_data_of(
    of: Version,
    settings: ConnectionSettings,
    version: Version,
) -> (Pair, StreamId) {
    let (session, limits) = session_of(Pair::with(preferring(of), of));
    let offer = ClientOffer {
        session: Some(&session),
        early_data: true,
        ..ClientOffer::default()
    };
    let mut pair = Pair::offering(settings, version, offer, Some(limits));
    let id = pair.open();
    pair.client.write(id, 3000, true);
    (pair, id)
}

/// Early data of [`with_early_data`] arrives before the handshake is over, and is accepted.
pub(super) fn assert_early_data_arrives(pair: &mut Pair, id: StreamId) {
    let begun = pair.now;
    pair.until("early data", |pair| {
        (pair.server.as_ref()).is_some_and(|server| server.got(id) == (3000, true))
    });
    assert_eq!(pair.now.since(begun), DELAY);
    assert!(!pair.server().connection.is_established());
    pair.handshake();
    assert!(pair.client.connection.is_early_data_accepted());
}

#[test]
fn early_data_arrives_with_the_first_flight() {
    let (mut pair, id) = with_early_data(settings());
    assert_early_data_arrives(&mut pair, id);
}

#[test]
fn owners_know_what_is_early_data_rfc_9001_section_5_7() {
    let (mut pair, early) = with_early_data(settings());
    pair.handshake();
    assert_eq!(pair.server().application.early, Some(vec![early]));

    // A packet that has overtaken the client's Finished is none.
    let mut pair = Pair::new();
    pair.until("the client", |pair| pair.client.connection.is_established());
    let late = pair.open();
    pair.client.write(late, 100, true);
    pair.flush(true);
    pair.to_server.make_contiguous().reverse();
    pair.until("the data", |pair| pair.server().got(late) == (100, true));
    assert_eq!(pair.server().application.early, Some(Vec::new()));
}

#[test]
fn rejected_early_data_is_sent_again_rfc_9001_section_4_6_2() {
    // The server's settings have changed since.
    let changed = ConnectionSettings {
        early_data_context: b"changed".to_vec(),
        ..settings()
    };
    let (mut pair, id) = with_early_data(changed);
    pair.handshake();
    assert!(!pair.client.connection.is_early_data_accepted());
    pair.until("the data", |pair| pair.server().got(id) == (3000, true));
}

/// A session store that answers nothing.
#[derive(Default)]
struct SilentStore(Mutex<Vec<Reply<bool>>>);

impl SharedStore for SilentStore {
    fn fetch(&self, _: StoreKey, _: Reply<Option<Vec<u8>>>) {}

    fn put(&self, _: StoreKey, _: Vec<u8>, _: u32) {}

    fn claim(&self, _: StoreKey, _: u32, reply: Reply<bool>) {
        self.0.lock().expect("no test panics in here").push(reply);
    }
}

#[test]
fn a_session_store_is_waited_for_no_longer_than_it_may_take() {
    let store = Arc::new(SilentStore::default());
    let seal = StoreSeal::from_key_file(&Secret::new(vec![5; 32]));
    let timeout = Duration::from_millis(70);
    let acceptor = acceptor(Some(SharedSessions {
        store: store.clone(),
        seal: Arc::new(seal.expect("32 bytes")),
        timeout,
    }));
    let mut pair = Pair::new();
    pair.acceptor = acceptor.clone();
    let (session, limits) = session_of(pair);
    let offer = ClientOffer {
        session: Some(&session),
        early_data: true,
        ..ClientOffer::default()
    };
    let mut pair = Pair::offering(settings(), Version::V1, offer, Some(limits));
    pair.acceptor = acceptor;
    let id = pair.open();
    pair.client.write(id, 3000, true);
    let begun = pair.now;
    pair.until("the client", |pair| pair.client.connection.is_established());
    assert_eq!(store.0.lock().expect("no test panics in here").len(), 1);
    assert_eq!(pair.now.since(begun), 2 * DELAY + timeout);
    assert!(!pair.client.connection.is_early_data_accepted());
    pair.until("the data", |pair| pair.server().got(id) == (3000, true));
}

#[test]
fn tickets_and_tokens_arrive_though_packets_are_lost() {
    let mut pair = Pair::connected();
    pair.server().connection.send_token([7; 40].into());
    pair.network = bad_network(30, 3);
    pair.until("the token", |pair| {
        pair.server().connection.once.new_token.is_none()
    });
}

#[test]
fn what_comes_before_its_keys_is_kept_and_not_without_end_rfc_9001_section_5_7() {
    let mut pair = Pair::new();
    for number in 0..1000 {
        let is_kept = pair.client.connection.hold(&[0; 1200], Codepoint::NotEct);
        assert_eq!(is_kept, number < 16);
    }
    let held = pair.client.connection.held.as_ref().expect("some");
    assert!(format!("{held:?}").matches("HeldPacket").count() <= 16);
}

#[test]
fn a_connection_takes_little_memory() {
    assert!(
        size_of::<Connection>() <= 2600,
        "{}",
        size_of::<Connection>()
    );
}
