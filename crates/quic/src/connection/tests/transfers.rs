//! Streams between two ends.

use super::*;
use proptest::prelude::*;

/// Sends `len` bytes in both directions on so many streams. Returns the time it took.
fn exchange(pair: &mut Pair, streams: usize, len: u64) -> Duration {
    pair.handshake();
    let begun = pair.now;
    let mut ids = Vec::new();
    for _ in 0..streams {
        let id = pair.open();
        pair.client.write(id, len, true);
        ids.push(id);
    }
    let mut answered = Vec::new();
    let mut consumed: BTreeMap<(bool, StreamId), u64> = BTreeMap::new();
    pair.until("all bytes", |pair| {
        let now = pair.now;
        for &id in &ids {
            for is_server in [true, false] {
                let end = match is_server {
                    true => pair.server(),
                    false => &mut pair.client,
                };
                let got = end
                    .application
                    .received
                    .get(&id)
                    .map_or(0, |got| got.0.len()) as u64;
                let before = consumed.entry((is_server, id)).or_default();
                if got > *before {
                    end.connection.consumed(id, got - *before, now);
                    *before = got;
                }
            }
            if !answered.contains(&id) && pair.server().application.received.contains_key(&id) {
                answered.push(id);
                pair.server().write(id, len, true);
            }
        }
        ids.iter().all(|id| {
            let ended = |end: &End| end.application.received.get(id).is_some_and(|got| got.1);
            ended(&pair.client) && ended(pair.server.as_ref().expect("it is there"))
        })
    });
    for &id in &ids {
        assert_eq!(pair.client.got(id), (len as usize, true));
        assert_eq!(pair.server().got(id), (len as usize, true));
    }
    pair.now.since(begun)
}

#[test]
fn large_streams_arrive_byte_for_byte() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno] {
        let settings = ConnectionSettings {
            congestion_control: algorithm,
            ..settings()
        };
        let mut pair = Pair::with(settings, Version::V1);
        exchange(&mut pair, 2, 3_000_000);
        assert_eq!(
            pair.client.connection.counters().frames_lost,
            0,
            "{algorithm:?}"
        );
        assert_eq!(
            pair.client.connection.datagram_size(),
            1452,
            "found by probes"
        );
    }
}

#[test]
fn a_thousand_streams_one_after_the_other() {
    let mut pair = Pair::connected();
    for round in 0..20 {
        for _ in 0..50 {
            let id = pair.open();
            pair.client.write(id, 100, true);
        }
        pair.until("answers", |pair| {
            let server = pair.server();
            for id in server.application.received.keys() {
                server.connection.write_up_to(*id, 200, true);
            }
            let received = pair.client.application.received.values();
            received.filter(|got| got.1).count() == 50 * (round + 1)
        });
    }
    pair.until("all forgotten", |pair| {
        pair.server().connection.streams.is_idle() && pair.client.connection.streams.is_idle()
    });
}

#[test]
fn what_the_owner_does_not_take_stays_and_holds_the_peer_back() {
    let mut pair = Pair::connected();
    let id = pair.open();
    pair.server().application.takes_at_most = Some(100);
    pair.client.write(id, 1_000_000, true);
    for _ in 0..500 {
        pair.step();
    }
    assert_eq!(pair.server().got(id).0, 100);
    let sent = pair.client.connection.counters().bytes_sent;
    assert!(sent < 400_000, "the window is 256 KiB: {sent}");
    pair.server().application.takes_at_most = None;
    let server = pair.server.as_mut().expect("it is there");
    server.connection.read(id, &mut server.application);
    assert_eq!(server.got(id).0, 256 << 10);
}

#[test]
fn keys_are_updated_by_either_end_while_data_flows_rfc_9001_section_6() {
    let mut pair = Pair::connected();
    let id = pair.open();
    for round in 1..=8 {
        pair.client.write(id, round * 20_000, false);
        let now = pair.now;
        let updated = match round % 2 {
            0 => pair.client.connection.update_keys(now),
            _ => pair.server().connection.update_keys(now),
        };
        assert!(updated || round == 1, "round {round}");
        pair.until("the data", |pair| {
            pair.server().got(id).0 as u64 == round * 20_000
        });
        // The keys before have to be forgotten before the next update.
        pair.pass(Duration::from_secs(2));
        pair.client.connection.ping();
        pair.server().connection.ping();
        pair.pass(10 * DELAY);
    }
    let updates = pair.server().connection.counters().key_updates;
    assert!(updates >= 7, "{updates}");
    assert!(!pair.client.connection.is_ending() && !pair.server().connection.is_ending());
}

#[test]
fn paths_that_carry_little_are_found_rfc_9000_section_14_3() {
    let mut pair = Pair::new();
    pair.mtu = 1280;
    exchange(&mut pair, 2, 8_000_000);
    let size = pair.client.connection.datagram_size();
    assert!((1264..=1280).contains(&size), "{size}");
}

#[test]
fn a_reset_reaches_the_peer_and_frees_the_stream() {
    let mut pair = Pair::connected();
    let id = pair.open();
    pair.client.write(id, 50_000, false);
    pair.until("a part", |pair| pair.server().got(id).0 > 0);
    pair.client.connection.reset_stream(id, 0x10c);
    pair.client.connection.stop_sending(id, 0x10c);
    pair.until("the reset", |pair| {
        let events = &pair.server().application.events;
        events.contains(&Event::Reset { id, code: 0x10c })
            && events.contains(&Event::Stopped { id, code: 0x10c })
    });
    pair.until("the end", |pair| pair.client.connection.streams.is_idle());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_arrive_over_bad_networks(
        percent in prop_oneof![Just(1_u64), Just(5), Just(20)],
        seed in any::<u64>(),
        streams in 1_usize..6,
        len in 1_u64..120_000,
        bbr in any::<bool>(),
    ) {
        let settings = ConnectionSettings {
            congestion_control: if bbr { Algorithm::Bbr } else { Algorithm::Cubic },
            ..settings()
        };
        let mut pair = Pair::with(settings, Version::V1);
        pair.network = bad_network(percent, seed);
        exchange(&mut pair, streams, len);
    }
}
