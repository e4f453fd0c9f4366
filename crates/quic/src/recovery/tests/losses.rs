//! RFC 9002 sections 6.1 and 7.6: what is lost, and what was not.

use super::sender::{Sender, ms, plain};
use crate::Space;
use crate::recovery::{Algorithm, Fate, Settings};

fn sender() -> Sender {
    let mut sender = Sender::new(&plain(Algorithm::NewReno));
    sender.round_trip(ms(100));
    sender
}

#[test]
fn three_packets_later_a_packet_is_lost_6_1_1() {
    let mut sender = sender();
    let first = sender.send_many(5)[0];
    sender.wait(ms(50));
    sender.ack(&[first + 2..=first + 2]);
    assert!(sender.numbers(Fate::Lost).is_empty());
    sender.ack(&[first + 3..=first + 3]);
    assert_eq!(sender.numbers(Fate::Lost), [first]);
    assert_eq!(sender.path.bytes_in_flight(), 2 * 1200);
    sender.ack(&[first + 4..=first + 4]);
    assert_eq!(sender.numbers(Fate::Lost), [first + 1]);
}

#[test]
fn nine_eighths_of_a_round_trip_later_a_packet_is_lost_6_1_2() {
    let mut sender = sender();
    let first = sender.send_many(2)[0];
    sender.wait(ms(100));
    sender.ack(&[first + 1..=first + 1]);
    assert!(sender.numbers(Fate::Lost).is_empty());
    let sent = sender.now - ms(100);
    assert_eq!(
        sender.timeout().map(|time| time.since(sent)),
        Some(ms(100) * 9 / 8)
    );
    sender.time_out();
    assert_eq!(sender.numbers(Fate::Lost), [first]);
    assert_eq!(sender.timeout(), None);
    assert_eq!(sender.recovery.probes(Space::Data), 0);
}

#[test]
fn a_packet_that_is_late_is_lost_when_the_ack_comes_6_1_2() {
    let mut sender = sender();
    let first = sender.send(Space::Data);
    sender.wait(ms(20));
    let second = sender.send(Space::Data);
    sender.wait(ms(100));
    sender.ack(&[second..=second]);
    assert_eq!(sender.numbers(Fate::Lost), [first]);
}

#[test]
fn nothing_is_lost_before_something_later_is_acknowledged_6_1() {
    let mut sender = sender();
    let numbers = sender.send_many(10);
    sender.wait(ms(10_000));
    sender.ack(&[numbers[0]..=numbers[0]]);
    assert!(sender.numbers(Fate::Lost).is_empty());
}

#[test]
fn a_packet_in_one_space_says_nothing_of_others_6_1() {
    let mut sender = sender();
    sender.send(Space::Handshake);
    let numbers = sender.send_many(8);
    sender.wait(ms(200));
    sender.ack(&[numbers[7]..=numbers[7]]);
    assert_eq!(sender.numbers(Fate::Lost), numbers[..5]);
}

#[test]
fn a_lost_packet_halves_the_window_once_a_round_trip_7_3_2() {
    let mut sender = sender();
    let window = sender.path.window();
    let numbers = sender.send_many(10);
    sender.wait(ms(100));
    sender.ack(&[numbers[4]..=numbers[4]]);
    assert_eq!(sender.numbers(Fate::Lost).len(), 2);
    assert_eq!(sender.path.window(), window / 2);
    // Sent before the event.
    sender.ack(&[numbers[8]..=numbers[8]]);
    assert_eq!(sender.numbers(Fate::Lost).len(), 3);
    assert_eq!(sender.path.window(), window / 2);
    // Sent after it.
    sender.wait(ms(1));
    let numbers = sender.send_many(4);
    sender.wait(ms(100));
    sender.ack(&[numbers[3]..=numbers[3]]);
    assert_eq!(sender.path.window(), window / 4);
}

/// Six packets so far apart get lost, but for those in `acked`.
fn window_after_losses(settings: &Settings, apart_ms: u64, acked: &[usize]) -> u64 {
    let mut sender = Sender::new(settings);
    sender.round_trip(ms(100));
    let mut numbers = Vec::new();
    for index in 0..6 {
        sender.wait(ms(apart_ms));
        numbers.push(sender.send(Space::Data));
        if acked.contains(&index) {
            sender.ack(&[numbers[index]..=numbers[index]]);
        }
    }
    let last = sender.send_many(4)[3];
    sender.wait(ms(10));
    sender.ack(&[last..=last]);
    sender.path.window()
}

#[test]
fn a_long_run_of_losses_is_persistent_congestion_7_6() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let settings = plain(algorithm);
        // The duration is (100 + 4 * 50 + 25) * 3 = 975 ms, and the run has 2 s.
        // The minimum, and what the ACK that showed it acknowledges.
        let collapsed = (2 + 1) * 1200;
        assert_eq!(window_after_losses(&settings, 400, &[]), collapsed);
        // No run is as long.
        assert_ne!(window_after_losses(&settings, 400, &[2]), collapsed);
        assert!(window_after_losses(&settings, 190, &[]) > collapsed);
    }
}

#[test]
fn without_a_round_trip_before_there_is_no_persistent_congestion_7_6_2() {
    let mut sender = Sender::new(&plain(Algorithm::NewReno));
    for _ in 0..8 {
        sender.send(Space::Data);
        sender.wait(ms(2000));
    }
    let last = sender.send(Space::Data);
    sender.wait(ms(10));
    sender.ack(&[last..=last]);
    assert_eq!(sender.numbers(Fate::Lost).len(), 8);
    assert!(sender.path.window() > 2 * 1200);
}

#[test]
fn after_persistent_congestion_the_minimum_rtt_is_measured_anew_5_2() {
    let mut sender = sender();
    for _ in 0..6 {
        sender.wait(ms(400));
        sender.send(Space::Data);
    }
    let last = sender.send_many(4)[3];
    sender.wait(ms(300));
    sender.ack(&[last..=last]);
    assert_eq!(sender.path.rtt().min(), ms(300));
}

/// A sender of ten packets, the first two of which were declared lost; the number of the first, and
/// the window before.
fn with_two_lost(algorithm: Algorithm) -> (Sender, u64, u64) {
    let mut sender = Sender::new(&plain(algorithm));
    sender.round_trip(ms(100));
    let window = sender.path.window();
    let first = sender.send_many(10)[0];
    sender.wait(ms(90));
    sender.ack(&[first + 4..=first + 4]);
    assert_eq!(sender.numbers(Fate::Lost), [first, first + 1]);
    assert!(sender.path.window() < window);
    (sender, first, window)
}

#[test]
fn a_reduction_is_undone_when_all_lost_packets_arrive_rfc_9438_4_9() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let (mut sender, first, window) = with_two_lost(algorithm);
        let reduced = sender.path.window();
        sender.ack(&[first + 4..=first + 4, first..=first]);
        assert_eq!(sender.path.window(), reduced, "one is still missing");
        sender.ack(&[first + 4..=first + 4, first..=first + 1]);
        assert_eq!(sender.path.window(), window);
        assert!(!sender.told.iter().any(|told| told.0 == Fate::Acked
            && matches!(told.1, crate::recovery::Item::RetireConnectionId(n) if n < first + 2)));
    }
}

#[test]
fn what_is_lost_after_an_event_that_was_none_is_an_event() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let (mut sender, first, window) = with_two_lost(algorithm);
        sender.ack(&[first + 4..=first + 4, first..=first + 1]);
        assert_eq!(sender.path.window(), window);
        sender.ack(&[first + 9..=first + 9]);
        assert_eq!(sender.numbers(Fate::Lost), [first + 2, first + 3]);
        assert!(sender.path.window() < window);
    }
}

#[test]
fn thresholds_grow_when_packets_come_late_6_1_1() {
    let mut sender = sender();
    let first = sender.send_many(10)[0];
    sender.wait(ms(90));
    sender.ack(&[first + 5..=first + 5]);
    assert_eq!(sender.numbers(Fate::Lost).len(), 3);
    sender.ack(&[first..=first + 5]);
    let first = sender.send_many(10)[0];
    sender.wait(ms(90));
    sender.ack(&[first + 5..=first + 5]);
    assert!(sender.numbers(Fate::Lost).iter().all(|&lost| lost < first));
    sender.ack(&[first + 6..=first + 6]);
    assert_eq!(sender.numbers(Fate::Lost), [first], "six is the threshold");
}

#[test]
fn what_arrives_very_late_undoes_nothing() {
    let mut sender = sender();
    let window = sender.path.window();
    let first = sender.send_many(4)[0];
    sender.wait(ms(90));
    sender.ack(&[first + 3..=first + 3]);
    assert_eq!(sender.numbers(Fate::Lost), [first]);
    sender.wait(ms(5000));
    sender.round_trip(ms(90));
    sender.ack(&[first..=first + 3]);
    assert!(sender.path.window() < window);
}
