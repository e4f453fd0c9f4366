//! What connections tell of themselves.

use super::*;
use crate::trace::{
    DropReason, KeyTrigger, MAX_WAITING, MigrationState, PacketType, TraceEvent, Traced,
    TracedFrame, TracedPacket,
};

/// A pair whose server tells what happens.
fn traced() -> Pair {
    let mut pair = Pair::new();
    pair.traces = true;
    pair
}

fn taken(pair: &mut Pair) -> Vec<Traced> {
    let mut events = Vec::new();
    assert_eq!(pair.server().connection.take_trace(&mut events), 0);
    events
}

fn sent(events: &[Traced]) -> impl Iterator<Item = &TracedPacket> {
    events.iter().filter_map(|traced| match &traced.event {
        TraceEvent::Sent(packet) => Some(&**packet),
        _ => None,
    })
}

fn has(events: &[Traced], is_it: impl Fn(&TraceEvent) -> bool) -> bool {
    events.iter().any(|traced| is_it(&traced.event))
}

#[test]
fn nothing_is_kept_of_a_connection_that_is_not_traced() {
    let mut pair = Pair::new();
    pair.handshake();
    assert_eq!(taken(&mut pair), []);
    assert!(pair.client.connection.tracer.is_none());
}

#[test]
fn a_handshake_is_told_in_its_order() {
    let mut pair = traced();
    pair.handshake();
    let events = taken(&mut pair);
    assert!(matches!(
        &events[0].event,
        TraceEvent::Began { addresses, .. } if addresses.remote == client_address()
    ));
    assert!(events.is_sorted_by_key(|traced| traced.time));
    let at = |is_it: &dyn Fn(&TraceEvent) -> bool| {
        let place = events.iter().position(|traced| is_it(&traced.event));
        place.expect("it was told")
    };
    let first_of = |packet_type| move |event: &TraceEvent| matches!(event, TraceEvent::Received(p) if p.packet_type == packet_type);
    let made = |packet_type| move |event: &TraceEvent| matches!(event, TraceEvent::KeysMade { keys, .. } if keys.packet_type == packet_type);
    let parameters = |local| move |event: &TraceEvent| matches!(event, TraceEvent::Parameters { is_local, .. } if *is_local == local);
    let order = [
        at(&made(PacketType::Initial)),
        at(&first_of(PacketType::Initial)),
        at(&parameters(false)),
        at(&parameters(true)),
        at(&made(PacketType::Handshake)),
        at(&first_of(PacketType::Handshake)),
        at(&|event| *event == TraceEvent::Established),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let discarded = |event: &TraceEvent| matches!(event, TraceEvent::KeysDiscarded(_));
    let discarded = events.iter().filter(|traced| discarded(&traced.event));
    assert_eq!(discarded.count(), 4, "of both ends, two spaces");
    let long: Vec<_> = sent(&events).filter_map(|packet| packet.long).collect();
    assert!(long.len() >= 2 && long.iter().all(|long| long.version == 1));
}

/// The client has sent a request, which the server has.
fn asked() -> (Pair, StreamId) {
    let mut pair = traced();
    pair.handshake();
    let id = pair.open();
    pair.client.write(id, 10, true);
    pair.until("asked", |pair| pair.server().got(id).1);
    (pair, id)
}

#[test]
fn sent_packets_have_all_numbers_and_all_bytes() {
    let (mut pair, id) = asked();
    pair.server().write(id, 100_000, true);
    pair.until("answered", |pair| pair.client.got(id) == (100_000, true));
    let bytes_sent = pair.server().connection.counters().bytes_sent;
    let events = taken(&mut pair);
    for space in [
        PacketType::Initial,
        PacketType::Handshake,
        PacketType::OneRtt,
    ] {
        let numbers = sent(&events).filter(|packet| packet.packet_type == space);
        let numbers: Vec<u64> = numbers.map(|packet| packet.number).collect();
        assert!(!numbers.is_empty());
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    let all: usize = sent(&events).map(|packet| packet.bytes).sum();
    assert_eq!(all as u64, bytes_sent);
    let mut next = 0;
    let mut ended = false;
    for frame in sent(&events).flat_map(|packet| &packet.frames) {
        if let TracedFrame::Stream {
            id: stream,
            offset,
            bytes,
            fin,
        } = *frame
            && stream == id.to_wire()
        {
            assert_eq!(offset, next, "nothing is lost here");
            next += bytes as u64;
            ended = fin;
        }
    }
    assert_eq!((next, ended), (100_000, true));
    assert!(has(&events, |event| matches!(
        event,
        TraceEvent::Metrics(metrics) if metrics.rtt.is_some() && metrics.in_flight > 0
    )));
    assert!(has(&events, |event| matches!(
        event,
        TraceEvent::CongestionState {
            old: None,
            new: "slow_start"
        }
    )));
    assert!(has(&events, |event| matches!(
        event,
        TraceEvent::DatagramSize { old: 1200, .. }
    )));
}

#[test]
fn losses_key_updates_and_the_end_are_told() {
    let (mut pair, id) = asked();
    let now = pair.now;
    assert!(pair.server().connection.update_keys(now));
    pair.network = bad_network(10, 3);
    pair.server().write(id, 100_000, true);
    pair.until("answered", |pair| pair.client.got(id) == (100_000, true));
    pair.network = Box::new(|_| Fault::None);
    let now = pair.now;
    pair.client.connection.close(now, 7);
    pair.until("closed", |pair| pair.server().connection.is_ending());
    let events = taken(&mut pair);
    let mut seen = std::collections::BTreeSet::new();
    let mut lost = 0;
    for traced in &events {
        match &traced.event {
            TraceEvent::Sent(packet) if packet.packet_type == PacketType::OneRtt => {
                seen.insert(packet.number);
            }
            TraceEvent::Lost { space, loss } => {
                assert_eq!(*space, Space::Data);
                assert!(seen.remove(&loss.number), "{loss:?}");
                lost += 1;
            }
            _ => {}
        }
    }
    assert!(lost > 0);
    let updates = events.iter().filter(|traced| {
        matches!(
            &traced.event,
            TraceEvent::KeysMade { keys, by: KeyTrigger::Local } if keys.phase == Some(1)
        )
    });
    assert_eq!(updates.count(), 2, "both directions");
    let end = TraceEvent::Closed(CloseReason::PeerApplication {
        code: 7,
        reason: "".into(),
    });
    assert!(has(&events, |event| *event == end));
}

#[test]
fn moving_clients_are_followed() {
    let mut pair = traced();
    pair.handshake();
    let id = pair.client.connection.open(Direction::Bidirectional);
    let id = id.expect("allowed");
    pair.client.write(id, 10, false);
    pair.until("before", |pair| pair.server().got(id).0 == 10);
    let address = SocketAddr::from(([127, 0, 0, 9], 40_000));
    pair.translated = Some(address);
    pair.client.write(id, 20, true);
    pair.until("after", |pair| {
        let is_over = pair.server().got(id).1;
        let connection = &pair.server().connection;
        // It may have been asked twice.
        let is_asked = connection.paths.current.asked().is_some();
        is_over && connection.is_address_validated() && !is_asked
    });
    let events = taken(&mut pair);
    let states = events.iter().filter_map(|traced| match &traced.event {
        TraceEvent::Migration { state, addresses } => Some((*state, addresses.remote)),
        _ => None,
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            (MigrationState::Started, address),
            (MigrationState::Complete, address)
        ]
    );
}

#[test]
fn packets_that_are_not_taken_are_told_with_the_reason() {
    let mut pair = traced();
    pair.handshake();
    pair.client.connection.ping();
    pair.flush(true);
    let packet = pair.to_server.pop_back().expect("a packet");
    let mut give = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let (now, addresses) = (pair.now, packet.addresses);
        let end = pair.server.as_mut().expect("there");
        let mut before = Vec::new();
        end.connection.take_trace(&mut before);
        end.connection.receive(
            now,
            addresses,
            packet.mark,
            &mut bytes,
            &mut end.application,
        );
        let mut events = Vec::new();
        end.connection.take_trace(&mut events);
        events.into_iter().find_map(|traced| match traced.event {
            TraceEvent::Dropped { why, .. } => Some(why),
            _ => None,
        })
    };
    let mut forged = packet.bytes.clone();
    *forged.last_mut().expect("bytes") ^= 1;
    assert_eq!(give(&forged), Some(DropReason::NotAuthentic));
    assert_eq!(give(&packet.bytes), None);
    assert_eq!(give(&packet.bytes), Some(DropReason::Duplicate));
    let mut other = packet.bytes.clone();
    other[1] ^= 1;
    assert_eq!(give(&other), Some(DropReason::Unknown));
    assert_eq!(give(&packet.bytes[..12]), Some(DropReason::Invalid));
}

#[test]
fn events_that_nobody_takes_are_bounded() {
    let mut pair = traced();
    pair.handshake();
    for _ in 0..MAX_WAITING {
        pair.server().connection.trace(|| TraceEvent::Reset);
    }
    let mut events = Vec::new();
    let missed = pair.server().connection.take_trace(&mut events);
    assert_eq!(events.len(), MAX_WAITING);
    assert!(missed > 0);
    events.clear();
    assert_eq!(pair.server().connection.take_trace(&mut events), 0);
    pair.server().connection.end_trace();
    pair.server().connection.ping();
    pair.pass(4 * DELAY);
    assert_eq!(taken(&mut pair), []);
}
