//! Single rules of RFC 9000 and 9001 that nothing else would notice.

use super::*;
use crate::Code;
use crate::frame::Frame;
use crate::packet::{Form, Header};
use sealane_tls::quic::{InitialSecrets, Keys};

/// An Initial packet of either side of the tests' connections.
pub(super) fn initial_packet(
    version: Version,
    from: Side,
    number: u64,
    token: &[u8],
    len: usize,
) -> Vec<u8> {
    let secrets = InitialSecrets::derive(version.to_tls(), b"original");
    let (secret, destination, source) = match from {
        Side::Client => (secrets.client, &b"original"[..], &b"client's"[..]),
        Side::Server => (secrets.server, &b"client's"[..], &b"original"[..]),
    };
    let keys = Keys::derive(version.to_tls(), &secret);
    let header = Header {
        destination,
        form: Form::Initial {
            version,
            source,
            token,
        },
        fixed_bit: true,
    };
    let mut out = Vec::new();
    let building = header.put(number, None, &mut out);
    Frame::Ping.put(&mut out);
    building.pad_to(len, &mut out);
    let (header, payload) = building.close(&mut out);
    keys.packet.seal(number, header, payload);
    let mask = keys.header.mask(building.sample(&out));
    building.protect(&mut out, &mask);
    out
}

#[test]
fn a_server_drops_initial_packets_of_short_datagrams_rfc_9000_section_14_1() {
    let mut pair = Pair::new();
    pair.until("a server", |pair| pair.server.is_some());
    let now = pair.now;
    let short = initial_packet(Version::V1, Side::Client, 50, b"", 1199);
    assert_eq!(pair.server().take(now, short), 1);
    let long = initial_packet(Version::V1, Side::Client, 50, b"", 1200);
    assert_eq!(pair.server().take(now, long), 0);
}

#[test]
fn a_client_drops_initial_packets_with_a_token_rfc_9000_section_17_2_2() {
    let mut pair = Pair::new();
    pair.flush(true);
    let now = pair.now;
    let with_token = initial_packet(Version::V1, Side::Server, 50, b"token", 1200);
    assert_eq!(pair.client.take(now, with_token), 1);
    let without = initial_packet(Version::V1, Side::Server, 50, b"", 1200);
    assert_eq!(pair.client.take(now, without), 0);
}

#[test]
fn initial_packets_are_not_held_once_their_keys_are_gone_rfc_9001_section_4_9_1() {
    let mut pair = Pair::new();
    pair.until("a server", |pair| pair.server.is_some());
    let (now, server) = (pair.now, pair.server());
    server.connection.discard_space(Space::Initial);
    let datagram = initial_packet(Version::V1, Side::Client, 50, b"", 1200);
    assert_eq!(server.take(now, datagram), 1);
    assert!(server.connection.held.is_none());
}

#[test]
fn a_peer_that_was_silent_through_an_update_is_understood_rfc_9001_section_6_5() {
    let mut pair = Pair::connected();
    pair.client.connection.ping();
    pair.server().connection.ping();
    pair.pass(20 * DELAY);
    let now = pair.now;
    assert!(pair.server().connection.update_keys(now));
    // Nothing is sent with the new keys. Much more than three probe timeouts later:
    pair.pass(Duration::from_secs(20));
    let id = pair.open();
    pair.client.write(id, 1000, true);
    pair.pass(10 * DELAY);
    assert_eq!(pair.server().got(id), (1000, true));
    assert_eq!(
        pair.client.connection.counters().key_updates,
        1,
        "it follows"
    );
}

#[test]
fn keys_are_not_updated_twice_at_once_rfc_9001_section_6_1() {
    let mut pair = Pair::connected();
    pair.client.connection.ping();
    pair.server().connection.ping();
    pair.pass(20 * DELAY);
    let now = pair.now;
    assert!(pair.server().connection.update_keys(now));
    assert!(!pair.server().connection.update_keys(now));
    pair.server().connection.ping();
    pair.pass(4 * DELAY);
    let now = pair.now;
    assert!(!pair.server().connection.update_keys(now), "section 6.5");
}

#[test]
fn segments_of_a_batch_have_one_size() {
    let mut pair = Pair::connected();
    pair.pass(20 * DELAY);
    let dropped = pair.server().connection.counters().packets_dropped;
    for len in (1..100).map(|n| n * 37 % 211) {
        let id = pair.open();
        pair.client.write(id, len, true);
    }
    pair.pass(10 * DELAY);
    // A datagram that is cut at the wrong place is not authentic.
    let counters = pair.server().connection.counters();
    assert_eq!(counters.packets_dropped, dropped);
    assert_eq!(pair.client.connection.counters().frames_lost, 0);
}

#[test]
fn a_small_packet_from_elsewhere_gets_a_small_challenge_rfc_9000_section_8_1() {
    let mut pair = Pair::connected();
    pair.pass(20 * DELAY);
    let elsewhere = SocketAddr::from(([127, 0, 0, 9], 40_000));
    pair.translated = Some(elsewhere);
    pair.client.connection.ping();
    pair.flush(true);
    let len = pair.to_server[0].bytes.len();
    assert!(len < 100);
    pair.until("it moves", |pair| {
        pair.server().connection.addresses().remote == elsewhere
    });
    let there = |sent: &&UnderWay| sent.sent_to == elsewhere;
    let sent = pair
        .to_client
        .iter()
        .filter(there)
        .map(|sent| sent.bytes.len());
    let sent: usize = sent.sum();
    assert!(sent > 0 && sent <= 3 * len, "{sent} for {len}");
    pair.until("validated", |pair| {
        pair.server().connection.paths.current.path.is_validated()
    });
}

#[test]
fn a_close_without_credit_waits_for_the_peer_rfc_9000_section_8_1() {
    let mut pair = Pair::new();
    pair.network = Box::new(|number| match number {
        0 | 1 => Fault::None,
        _ => Fault::Lose,
    });
    pair.until("no credit", |pair| {
        pair.server
            .as_ref()
            .is_some_and(|server| server.connection.is_held_back())
    });
    let now = pair.now;
    // What is left is too little for a packet.
    let path = &mut pair.server().connection.paths.current.path;
    path.on_datagram_sent(1200);
    pair.server().connection.close(now, 0);
    let before = pair.server().connection.counters().datagrams_sent;
    pair.flush(false);
    assert_eq!(pair.server().connection.counters().datagrams_sent, before);
    let datagram = initial_packet(Version::V1, Side::Client, 50, b"", 1200);
    pair.server().take(now, datagram);
    pair.flush(false);
    assert_eq!(
        pair.server().connection.counters().datagrams_sent,
        before + 1
    );
}

#[test]
fn a_server_without_tls_takes_no_more_messages_rfc_9001_section_4_4() {
    let mut pair = Pair::connected();
    pair.pass(20 * DELAY);
    let now = pair.now;
    pair.server().connection.release_tls();
    assert!(
        pair.server().connection.data.crypto.is_none(),
        "tickets are there"
    );
    let server = pair.server();
    let error = (server.connection)
        .receive_crypto(Space::Data, 0, b"x")
        .expect_err("nothing is expected");
    assert_eq!(error.code, Code::crypto(10));
    server.connection.fail(now, error);
}

#[test]
fn a_client_may_go_to_the_preferred_address_rfc_9000_section_9_6() {
    let preferred = "127.0.0.3:444".parse().expect("an address");
    let settings = ConnectionSettings {
        preferred_v4: Some(preferred),
        migration: false,
        ..settings()
    };
    let mut pair = Pair::with(settings, Version::V1);
    pair.handshake();
    let id = pair.client.connection.remote_ids.get(1);
    assert!(id.is_some(), "from the transport parameter");
    pair.pass(20 * DELAY);
    pair.reached_at = Some(preferred.into());
    let id = pair.open();
    pair.client.write(id, 5000, true);
    pair.until("the data", |pair| pair.server().got(id) == (5000, true));
    pair.pass(10 * DELAY);
    let server = &pair.server().connection;
    assert_eq!(server.addresses().local, preferred.into());
    assert!(server.paths.current.path.is_validated());
}

#[test]
fn nothing_wakes_an_idle_connection_but_its_end() {
    let mut pair = Pair::connected();
    pair.pass(Duration::from_secs(2));
    for end in [&pair.client, pair.server.as_ref().expect("it is there")] {
        let timeout = end.connection.timeout().expect("the idle timeout");
        assert!(
            timeout.since(pair.now) > Duration::from_secs(25),
            "{timeout:?}"
        );
    }
}
