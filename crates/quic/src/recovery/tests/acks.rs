//! ACK frames: what they tell, what they must not say, and the round-trip time.

use std::time::Duration;

use super::sender::{Sender, ms, plain};
use crate::recovery::{Algorithm, Fate, Item, Packet};
use crate::{Code, Space};

fn sender() -> Sender {
    Sender::new(&plain(Algorithm::NewReno))
}

#[test]
fn items_are_told_once_and_bytes_leave_the_flight() {
    let mut sender = sender();
    sender.send_many(4);
    assert_eq!(sender.path.bytes_in_flight(), 4 * 1200);
    sender.ack(&[2..=3, 0..=0]);
    let mut acked = sender.numbers(Fate::Acked);
    acked.sort_unstable();
    assert_eq!(acked, [0, 2, 3]);
    assert_eq!(sender.path.bytes_in_flight(), 1200);
    sender.ack(&[2..=3, 0..=0]);
    assert!(sender.told.is_empty());
    sender.ack(&[0..=3]);
    assert_eq!(sender.numbers(Fate::Acked), [1]);
    assert_eq!(sender.path.bytes_in_flight(), 0);
    assert_eq!(sender.recovery.largest_acked(Space::Data), Some(3));
}

#[test]
fn packets_that_were_not_sent_cannot_be_acknowledged_rfc_9000_13_1() {
    for ranges in [&[0..=4][..], &[4..=4], &[(1 << 62) - 1..=(1 << 62) - 1]] {
        let mut sender = sender();
        sender.send_many(4);
        let error = sender
            .try_ack(Space::Data, ranges, Duration::ZERO, None)
            .expect_err("4 was not sent");
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }
    let mut sender = sender();
    assert!(
        sender
            .try_ack(Space::Initial, &[0..=0], Duration::ZERO, None)
            .is_err()
    );
}

#[test]
fn ranges_that_do_not_descend_are_refused() {
    for ranges in [&[0..=1, 2..=3][..], &[2..=3, 1..=2], &[2..=3, 2..=3]] {
        let mut sender = sender();
        sender.send_many(4);
        assert!(
            sender
                .try_ack(Space::Data, ranges, Duration::ZERO, None)
                .is_err()
        );
    }
}

#[test]
fn numbers_that_were_skipped_cannot_be_acknowledged_rfc_9000_21_4() {
    let mut sender = sender();
    let mut skipped = None;
    let mut expected = 0;
    while skipped.is_none() {
        let number = sender.send(Space::Data);
        skipped = (number != expected).then_some(expected);
        expected = number + 1;
    }
    let skipped = skipped.expect("there is one");
    assert!(skipped <= 64, "a short connection has one");
    sender.ack(&[skipped + 1..=skipped + 1, 0..=skipped - 1]);
    for ranges in [
        &[skipped..=skipped][..],
        &[0..=skipped + 1],
        &[skipped - 1..=skipped + 1],
    ] {
        let error = sender
            .try_ack(Space::Data, ranges, Duration::ZERO, None)
            .expect_err("it was skipped");
        assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn an_optimistic_ack_is_found_before_it_is_believed_long_rfc_9000_21_4() {
    let mut sender = sender();
    let mut sent = 0;
    // A peer that acknowledges every number, whatever comes.
    loop {
        let number = sender.send(Space::Data);
        sent += 1;
        sender.wait(ms(1));
        if sender
            .try_ack(Space::Data, &[0..=number], Duration::ZERO, None)
            .is_err()
        {
            break;
        }
        assert!(sent < 100);
    }
}

#[test]
fn the_same_number_until_it_is_used() {
    let mut sender = sender();
    for _ in 0..200 {
        let number = sender.recovery.packet_number(Space::Data, || 0);
        assert_eq!(number, sender.recovery.packet_number(Space::Data, || 0));
        sender.send(Space::Data);
    }
    let initial = sender.recovery.packet_number(Space::Initial, || 0);
    assert_eq!(initial, 0, "each space has its own");
}

#[test]
fn rtt_is_that_of_rfc_9002_5_3() {
    let mut sender = sender();
    sender.round_trip(ms(100));
    assert_eq!(sender.path.rtt().smoothed(), ms(100));
    assert_eq!(sender.path.rtt().variance(), ms(50));
    sender.round_trip(ms(60));
    // rttvar = 3/4 * 50 + 1/4 * |100 - 60|, smoothed = 7/8 * 100 + 1/8 * 60.
    assert_eq!(sender.path.rtt().variance(), Duration::from_micros(47_500));
    assert_eq!(sender.path.rtt().smoothed(), ms(95));
    assert_eq!(sender.path.rtt().min(), ms(60));
    assert_eq!(sender.path.rtt().latest(), ms(60));
}

/// The smoothed time after a first sample of 80 ms and one of 160 ms with this delay.
fn smoothed_with_delay(confirmed: bool, space: Space, delay: Duration) -> Duration {
    let mut sender = Sender::in_handshake(&plain(Algorithm::NewReno), false);
    sender.path.set_validated();
    if confirmed {
        sender.recovery.on_handshake_confirmed();
    }
    for (rtt, delay) in [(ms(80), Duration::ZERO), (ms(160), delay)] {
        let number = sender.send(space);
        sender.wait(rtt);
        sender
            .try_ack(space, &[number..=number], delay, None)
            .expect("it was sent");
    }
    sender.path.rtt().smoothed()
}

#[test]
fn ack_delay_counts_as_rfc_9002_5_3_says() {
    let whole = ms(90);
    let handshake = smoothed_with_delay(false, Space::Handshake, ms(40));
    assert_eq!(handshake, ms(85), "(7 * 80 + 120) / 8");
    let initial = smoothed_with_delay(false, Space::Initial, ms(40));
    assert_eq!(initial, whole, "not in Initial packets");
    let data = smoothed_with_delay(true, Space::Data, ms(80));
    assert_eq!(data, (ms(80) * 7 + ms(135)) / 8, "at most max_ack_delay");
    // It would go below the minimum.
    let large = smoothed_with_delay(false, Space::Handshake, ms(81));
    assert_eq!(large, whole);
    let absurd = smoothed_with_delay(false, Space::Handshake, Duration::MAX);
    assert_eq!(absurd, whole);
}

#[test]
fn old_packets_and_those_that_elicit_nothing_give_no_rtt_5_1() {
    let mut sender = sender();
    sender.round_trip(ms(10));
    let numbers = sender.send_many(2);
    sender.wait(ms(10));
    sender.ack(&[numbers[1]..=numbers[1]]);
    sender.wait(ms(1000));
    sender.ack(&[numbers[0]..=numbers[1]]);
    assert_eq!(sender.path.rtt().latest(), ms(10), "not the largest number");
    let mut packet = sender.packet(Space::Data);
    (packet.ack_eliciting, packet.in_flight) = (false, false);
    sender.send_packet(Space::Data, &packet);
    sender.wait(ms(500));
    sender.ack(&[packet.number..=packet.number]);
    assert_eq!(sender.path.rtt().latest(), ms(10));
}

#[test]
fn packets_of_nothing_but_ack_do_not_pile_up() {
    let mut sender = sender();
    let mut pings = 0;
    for index in 0..10_000 {
        let mut packet = sender.packet(Space::Data);
        if !sender.recovery.wants_ping(Space::Data) {
            (packet.ack_eliciting, packet.in_flight) = (false, false);
        } else if index < 1000 {
            pings += 1;
            sender.send_packet(Space::Data, &packet);
            sender.wait(ms(1));
            sender.ack(&[packet.number..=packet.number]);
            continue;
        } else {
            // As if this end never added PING.
            (packet.ack_eliciting, packet.in_flight) = (false, false);
        }
        let ack = [Item::Ack {
            space: Space::Data,
            largest: index,
        }];
        sender
            .recovery
            .on_sent(&mut sender.path, Space::Data, &packet, &ack);
    }
    assert!((20..40).contains(&pings), "{pings}");
    assert_eq!(sender.path.bytes_in_flight(), 0);
    assert!(sender.recovery.data.len() <= 100);
    assert_eq!(sender.timeout(), None);
}

#[test]
fn the_ack_of_an_ack_is_told() {
    let mut sender = sender();
    let packet = sender.packet(Space::Data);
    let ack = Item::Ack {
        space: Space::Data,
        largest: 7,
    };
    let items = [ack, Item::HandshakeDone];
    sender
        .recovery
        .on_sent(&mut sender.path, Space::Data, &packet, &items);
    sender.ack(&[0..=0]);
    assert_eq!(sender.told, items.map(|item| (Fate::Acked, item)));
}

#[test]
fn acks_of_a_space_without_keys_are_nothing() {
    let mut sender = sender();
    sender.send(Space::Initial);
    sender
        .recovery
        .discard_space(&mut sender.path, Space::Initial);
    assert_eq!(sender.path.bytes_in_flight(), 0);
    sender.ack_in(Space::Initial, &[0..=100]);
    assert!(sender.told.is_empty());
    assert_eq!(sender.recovery.largest_acked(Space::Initial), None);
}

#[test]
fn a_restart_tells_everything_as_lost_and_is_no_congestion() {
    let mut sender = sender();
    sender.send_many(5);
    sender.ack(&[2..=2]);
    sender.told.clear();
    let window = sender.path.window();
    let told = &mut sender.told;
    sender
        .recovery
        .restart_space(&mut sender.path, Space::Data, &mut |fate, item| {
            told.push((fate, item))
        });
    assert_eq!(sender.numbers(Fate::Lost), [0, 1, 3, 4]);
    assert_eq!(sender.path.bytes_in_flight(), 0);
    assert_eq!(sender.path.window(), window);
    assert_eq!(sender.timeout(), None);
    assert_eq!(sender.send(Space::Data), 5, "numbers are not used again");
}

#[test]
fn a_peer_that_acknowledges_nothing_of_a_handshake_is_known_soon() {
    let mut sender = Sender::in_handshake(&plain(Algorithm::NewReno), false);
    sender.path.set_validated();
    sender.send(Space::Handshake);
    let mut packets = 0;
    while !sender.recovery.is_ignored() {
        let elicits_ack = sender.recovery.wants_ping(Space::Handshake);
        let packet = Packet {
            ack_eliciting: elicits_ack,
            in_flight: elicits_ack,
            ..sender.packet(Space::Handshake)
        };
        sender.send_packet(Space::Handshake, &packet);
        packets += 1;
        assert!(packets < 2000, "it is not known");
    }
    assert!(packets > 1000, "{packets}");
}
