//! RFC 9000 section 13.2: which packets came, and when an ACK is due.

use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::sender::ms;
use crate::recovery::received::MAX_ACK_RANGES;
use crate::recovery::{AckPolicy, Codepoint, EcnCounts, Received};
use crate::{Space, Time};

const START: Time = Time::from_micros(1_000);

fn receive(received: &mut Received, number: u64, ack_eliciting: bool) {
    let policy = AckPolicy::default();
    received.on_packet(number, ack_eliciting, Codepoint::NotEct, &policy, START);
}

fn ranges(received: &Received) -> Vec<RangeInclusive<u64>> {
    received.ranges().collect()
}

#[test]
fn ranges_descend_and_join() {
    let mut received = Received::new(Space::Data);
    for number in [0, 1, 5, 3, 9, 4, 2] {
        assert!(!received.is_duplicate(number));
        receive(&mut received, number, true);
        assert!(received.is_duplicate(number));
    }
    assert_eq!(ranges(&received), [9..=9, 0..=5]);
    assert_eq!(received.largest(), Some(9));
    assert!(!received.is_duplicate(7));
}

#[test]
fn every_second_packet_that_elicits_an_ack_gets_one_13_2_2() {
    let mut received = Received::new(Space::Data);
    receive(&mut received, 0, true);
    assert!(!received.ack_needed(START));
    receive(&mut received, 1, false);
    assert!(!received.ack_needed(START));
    receive(&mut received, 2, true);
    assert!(received.ack_needed(START));
    received.on_ack_sent();
    assert!(!received.ack_needed(START) && !received.has_news());
    receive(&mut received, 3, true);
    assert!(!received.ack_needed(START));
}

#[test]
fn one_packet_waits_for_max_ack_delay_13_2_1() {
    let mut received = Received::new(Space::Data);
    assert_eq!(received.ack_deadline(), None);
    receive(&mut received, 0, true);
    assert_eq!(received.ack_deadline(), Some(START + ms(25)));
    assert!(!received.ack_needed(START + ms(24)));
    assert!(received.ack_needed(START + ms(25)));
    assert_eq!(received.ack_delay(START + ms(25)), ms(25));
}

#[test]
fn packets_that_elicit_nothing_set_no_timer_13_2_1() {
    let mut received = Received::new(Space::Data);
    for number in [0, 1, 2, 5] {
        receive(&mut received, number, false);
    }
    assert_eq!(received.ack_deadline(), None);
    assert!(!received.ack_needed(START + ms(1000)));
    assert!(received.has_news());
}

#[test]
fn initial_and_handshake_packets_get_an_ack_at_once_13_2_1() {
    for space in [Space::Initial, Space::Handshake] {
        let mut received = Received::new(space);
        receive(&mut received, 0, false);
        assert!(!received.ack_needed(START));
        receive(&mut received, 1, true);
        assert!(received.ack_needed(START));
    }
}

#[test]
fn gaps_and_packets_out_of_order_get_an_ack_at_once_13_2_1() {
    let mut received = Received::new(Space::Data);
    receive(&mut received, 0, true);
    received.on_ack_sent();
    receive(&mut received, 2, true);
    assert!(received.ack_needed(START), "1 is missing");
    received.on_ack_sent();
    receive(&mut received, 1, true);
    assert!(received.ack_needed(START), "1 came behind 2");
    received.on_ack_sent();
    receive(&mut received, 3, true);
    assert!(!received.ack_needed(START));
}

#[test]
fn packets_that_met_congestion_get_an_ack_at_once_13_2_1() {
    let mut received = Received::new(Space::Data);
    let policy = AckPolicy::default();
    received.on_packet(0, true, Codepoint::Ect0, &policy, START);
    assert!(!received.ack_needed(START));
    received.on_ack_sent();
    received.on_packet(1, true, Codepoint::Ce, &policy, START);
    assert!(received.ack_needed(START));
    let counts = EcnCounts {
        ect0: 1,
        ect1: 0,
        ce: 1,
    };
    assert_eq!(received.ecn(), Some(&counts));
}

#[test]
fn the_oldest_ranges_go_and_still_count_as_received_13_2_3() {
    let mut received = Received::new(Space::Data);
    for index in 0..MAX_ACK_RANGES as u64 + 10 {
        receive(&mut received, 2 * index, true);
    }
    assert_eq!(received.ranges().len(), MAX_ACK_RANGES);
    // Nobody can tell any more whether 1 came, so it must not come again.
    assert!(received.is_duplicate(0) && received.is_duplicate(1));
    assert!(!received.is_duplicate(21));
    let before = ranges(&received);
    receive(&mut received, 1, true);
    assert_eq!(ranges(&received), before);
}

#[test]
fn ranges_go_when_the_peer_has_their_ack_13_2_4() {
    let mut received = Received::new(Space::Data);
    for number in [0, 1, 4, 5, 8] {
        receive(&mut received, number, true);
    }
    received.on_ack_acked(5);
    assert_eq!(ranges(&received), [8..=8, 4..=5]);
    assert!(received.is_duplicate(0));
    assert!(!received.is_duplicate(3), "may still come");
    received.on_ack_acked(u64::MAX);
    assert_eq!(ranges(&received), [8..=8], "the newest stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever comes, ranges are few, descend, have gaps, and no packet is taken twice.
    #[test]
    fn any_numbers(
        numbers in prop::collection::vec(
            prop_oneof![0..40_u64, 0..4_000_u64, 0..(1_u64 << 62)],
            0..400,
        ),
        acked in prop::collection::vec(0..4_000_u64, 0..4),
    ) {
        let mut received = Received::new(Space::Data);
        let mut taken = std::collections::BTreeSet::new();
        for (index, &number) in numbers.iter().enumerate() {
            let duplicate = received.is_duplicate(number);
            if taken.contains(&number) {
                prop_assert!(duplicate);
            }
            if !duplicate {
                taken.insert(number);
                receive(&mut received, number, true);
            }
            if index % 100 == 99 && let Some(&largest) = acked.get(index / 100) {
                received.on_ack_acked(largest);
            }
            prop_assert!(received.ranges().len() <= MAX_ACK_RANGES);
            let mut below = u64::MAX;
            for range in received.ranges() {
                prop_assert!(range.start() <= range.end() && *range.end() + 1 < below);
                prop_assert!(taken.contains(range.start()) && taken.contains(range.end()));
                below = *range.start();
            }
        }
        prop_assert_eq!(received.largest(), taken.last().copied());
    }
}
