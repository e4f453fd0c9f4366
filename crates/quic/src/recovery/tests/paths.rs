//! Paths: amplification, migration, ECN, MTU, pacing, memory.

use std::time::Duration;

use super::link::{Link, Simulation};
use super::sender::{Sender, ms, plain};
use crate::recovery::{
    Algorithm, Allowance, BASE_DATAGRAM, EcnCounts, Fate, Item, Packet, Path, Received, Recovery,
    Settings,
};
use crate::{Space, Time};

const NOW: Time = Time::from_micros(1_000_000);

#[test]
fn three_times_what_came_may_be_sent_rfc_9000_8_1() {
    let mut path = Path::new(0, &Settings::default(), false, NOW);
    assert_eq!(path.amplification_credit(), 0);
    path.on_datagram_received(1200);
    assert_eq!(path.amplification_credit(), 3600);
    path.on_datagram_sent(1200);
    path.on_datagram_sent(1200);
    assert_eq!(path.amplification_credit(), 1200);
    path.on_datagram_sent(5000);
    assert_eq!(path.amplification_credit(), 0);
    path.on_datagram_received(usize::MAX);
    assert!(!path.is_validated());
    path.set_validated();
    path.on_datagram_sent(5000);
    assert_eq!(path.amplification_credit(), u64::MAX);
}

#[test]
fn packets_of_an_old_path_do_not_count_for_a_new_one_rfc_9000_9_4() {
    let settings = plain(Algorithm::NewReno);
    let mut sender = Sender::new(&settings);
    sender.round_trip(ms(100));
    let old = sender.send_many(6);
    let mut path = Path::new(1, &settings, true, sender.now);
    sender.recovery.switch_path(&mut path);
    let mut before = std::mem::replace(&mut sender.path, path);
    let window = sender.path.window();
    let new = sender.send(Space::Data);
    assert_eq!(sender.path.bytes_in_flight(), 1200);
    sender.wait(ms(30));
    // Data arrives or is lost, but that tells nothing of the new path.
    sender.ack(&[old[5]..=old[5]]);
    assert_eq!(sender.numbers(Fate::Acked), [old[5]]);
    assert_eq!(sender.numbers(Fate::Lost), old[..3]);
    assert_eq!(sender.path.bytes_in_flight(), 1200);
    assert_eq!(sender.path.window(), window);
    assert_eq!(sender.path.rtt().smoothed(), ms(333));
    sender.ack(&[new..=new]);
    assert_eq!(sender.path.rtt().smoothed(), ms(30));
    sender.ack(&[old[4]..=new]);
    // Back on the old path, the one packet that is still on its way counts.
    sender.recovery.switch_path(&mut before);
    assert_eq!(
        before.bytes_in_flight(),
        1200 * u64::from(sender.recovery.data.len() > 0)
    );
}

fn marked(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0, ect1, ce })
}

/// Sends ten marked packets, has all of them acknowledged with these counts, and returns whether
/// packets are still marked.
fn marks_after(counts: Option<EcnCounts>) -> bool {
    let settings = Settings {
        ecn: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    for _ in 0..10 {
        assert!(sender.path.marks_ecn());
        sender.send(Space::Data);
    }
    assert!(!sender.path.marks_ecn(), "ten packets test the path, A.4");
    sender.wait(ms(20));
    sender
        .try_ack(Space::Data, &[0..=9], Duration::ZERO, counts)
        .expect("they were sent");
    assert_eq!(sender.path.is_ecn_capable(), sender.path.marks_ecn());
    sender.path.marks_ecn()
}

#[test]
fn ecn_is_used_when_its_counts_are_right_rfc_9000_13_4_2() {
    assert!(marks_after(marked(10, 0, 0)));
    assert!(marks_after(marked(3, 0, 7)));
    assert!(!marks_after(None), "marks were removed");
    assert!(!marks_after(marked(9, 0, 0)), "some were");
    assert!(!marks_after(marked(0, 10, 0)), "ECT(1) was not sent");
    assert!(!marks_after(marked(10, 1, 0)));
    assert!(!marks_after(marked(11, 0, 0)), "more than was sent");
    assert!(!marks_after(marked(u64::MAX, 0, u64::MAX)));
}

#[test]
fn a_mark_stays_a_sign_of_congestion_when_losses_turn_out_to_be_none_rfc_9002_7_1() {
    let settings = Settings {
        ecn: true,
        ..plain(Algorithm::NewReno)
    };
    for ce in [0, 1] {
        let mut sender = Sender::new(&settings);
        let window = sender.path.window();
        sender.send_many(10);
        sender.wait(ms(20));
        let mut ack = |ranges: &[std::ops::RangeInclusive<u64>], counts| {
            sender
                .try_ack(Space::Data, ranges, Duration::ZERO, counts)
                .expect("they were sent");
            sender.path.window()
        };
        assert!(ack(&[4..=4], marked(1, 0, 0)) < window, "0 and 1 are lost");
        // A packet that was sent before that has a mark.
        ack(&[2..=8], marked(7 - ce, 0, ce));
        let last = ack(&[0..=8], marked(9 - ce, 0, ce));
        assert_eq!(last < window, ce > 0, "{last}");
    }
}

#[test]
fn a_probe_of_a_path_that_was_left_is_sent_again() {
    let settings = Settings {
        mtu_discovery: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    sender.path.set_mtu_ceiling(1452);
    assert_eq!(sender.path.mtu_probe(sender.now), Some(1452));
    let packet = Packet {
        size: 1452,
        mtu_probe: true,
        ..sender.packet(Space::Data)
    };
    let probe = sender.send_packet(Space::Data, &packet);
    assert_eq!(sender.path.mtu_probe(sender.now), None);
    let mut other = Path::new(1, &settings, true, sender.now);
    sender.recovery.switch_path(&mut other);
    let mut first = std::mem::replace(&mut sender.path, other);
    // It arrives, which tells nothing of the path that is used now.
    sender.ack(&[probe..=probe]);
    assert_eq!(sender.path.datagram_size(), 1200);
    sender.recovery.switch_path(&mut first);
    assert_eq!(first.mtu_probe(sender.now), Some(1452));
}

#[test]
fn counts_that_fall_end_ecn_rfc_9000_13_4_2_1() {
    let settings = Settings {
        ecn: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    sender.send_many(4);
    let mut ack = |range: std::ops::RangeInclusive<u64>, counts| {
        sender
            .try_ack(Space::Data, &[range], Duration::ZERO, counts)
            .expect("they were sent");
        sender.path.is_ecn_capable()
    };
    assert!(ack(1..=1, marked(1, 0, 0)));
    // An older frame that comes later is not compared.
    assert!(ack(0..=0, None));
    assert!(ack(0..=2, marked(3, 0, 0)));
    assert!(!ack(0..=3, marked(2, 0, 2)));
}

#[test]
fn a_path_that_drops_marked_packets_is_found_rfc_9000_a_4() {
    let settings = Settings {
        ecn: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    let marked = sender.send_many(10);
    assert!(!sender.path.marks_ecn());
    let last = sender.send_many(3)[2];
    sender.wait(ms(50));
    sender.ack(&[last..=last]);
    assert_eq!(sender.numbers(Fate::Lost), marked);
    sender.send(Space::Data);
    assert!(!sender.path.marks_ecn());
}

#[test]
fn timeouts_in_a_row_end_the_test_of_marks_rfc_9000_a_4() {
    let settings = Settings {
        ecn: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    sender.send(Space::Data);
    for _ in 0..3 {
        assert!(sender.path.marks_ecn());
        sender.time_out();
    }
    assert!(!sender.path.marks_ecn());
}

#[test]
fn a_mark_of_congestion_is_answered_like_a_loss_once_rfc_9002_7_1() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let settings = Settings {
            ecn: true,
            ..plain(algorithm)
        };
        let mut sender = Sender::new(&settings);
        sender.send_many(10);
        let window = sender.path.window();
        sender.wait(ms(50));
        let mut ack = |last, counts| {
            sender
                .try_ack(Space::Data, &[0..=last], Duration::ZERO, counts)
                .expect("they were sent");
            sender.path.window()
        };
        let reduced = ack(4, marked(4, 0, 1));
        assert!(reduced < window);
        assert_eq!(ack(8, marked(6, 0, 3)), reduced, "the same round trip");
    }
}

#[test]
fn the_mtu_of_a_path_is_found_rfc_8899() {
    for (mtu, found) in [(1500, 1452), (1452, 1452), (1300, 1285), (1200, 1200)] {
        let link = Link { mtu, ..Link::GOOD };
        let (_, path, _) = Simulation::new(&Settings::default(), link, 5_000_000, 1).run_to_end();
        let size = path.datagram_size();
        assert!((found..=mtu.min(1452)).contains(&size), "{mtu}: {size}");
    }
}

/// A path on which datagrams of 1452 bytes have been found to work.
fn with_large_datagrams() -> Sender {
    let settings = Settings {
        mtu_discovery: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    assert_eq!(sender.path.mtu_probe(sender.now), None, "no ceiling yet");
    sender.path.set_mtu_ceiling(1452);
    let number = send_mtu_probe(&mut sender);
    assert_eq!(sender.path.mtu_probe(sender.now), None, "one at a time");
    sender.wait(ms(20));
    sender.ack(&[number..=number]);
    assert_eq!(sender.path.datagram_size(), 1452);
    sender.told.clear();
    sender
}

fn send_mtu_probe(sender: &mut Sender) -> u64 {
    let size = sender.path.mtu_probe(sender.now).expect("one is due");
    let packet = Packet {
        size,
        mtu_probe: true,
        ..sender.packet(Space::Data)
    };
    sender.send_packet(Space::Data, &packet)
}

#[test]
fn a_probe_is_tried_three_times_and_its_loss_is_no_congestion_rfc_9000_14_4() {
    let settings = Settings {
        mtu_discovery: true,
        ..plain(Algorithm::NewReno)
    };
    let mut sender = Sender::new(&settings);
    sender.path.set_mtu_ceiling(1452);
    let mut sizes = Vec::new();
    while let Some(size) = sender.path.mtu_probe(sender.now) {
        sizes.push(size);
        let window = sender.path.window();
        send_mtu_probe(&mut sender);
        let last = sender.send_many(3)[2];
        sender.wait(ms(20));
        sender.ack(&[last - 2..=last]);
        assert!(sender.path.window() >= window);
        assert_eq!(sender.path.bytes_in_flight(), 0);
    }
    assert_eq!(sizes[..4], [1452, 1452, 1452, 1326]);
    assert_eq!(sizes.len() % 3, 0);
    assert_eq!(sender.path.datagram_size(), BASE_DATAGRAM);
    sender.wait(Duration::from_secs(600));
    assert_eq!(sender.path.mtu_probe(sender.now), Some(1452), "again");
}

#[test]
fn a_black_hole_leads_back_to_the_base_size_rfc_8899_4_3() {
    let mut sender = with_large_datagrams();
    for _ in 0..3 {
        assert_eq!(sender.path.datagram_size(), 1452);
        let large = Packet {
            size: 1452,
            ..sender.packet(Space::Data)
        };
        sender.send_packet(Space::Data, &large);
        let last = sender.send_many(3)[2];
        sender.wait(ms(20));
        sender.ack(&[last - 2..=last]);
    }
    assert_eq!(sender.path.datagram_size(), BASE_DATAGRAM);
    assert_eq!(sender.path.mtu_probe(sender.now), None, "not soon");
}

#[test]
fn timeouts_in_a_row_lead_back_to_the_base_size() {
    let mut sender = with_large_datagrams();
    sender.send(Space::Data);
    for _ in 0..3 {
        assert_eq!(sender.path.datagram_size(), 1452);
        sender.time_out();
    }
    assert_eq!(sender.path.datagram_size(), BASE_DATAGRAM);
}

/// How much a path lets go at once now.
fn allowed(sender: &mut Sender) -> Allowance {
    sender.recovery.allowance(&mut sender.path, sender.now)
}

#[test]
fn the_initial_window_goes_at_once_and_no_more_rfc_9002_7_7() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno] {
        let mut sender = Sender::new(&plain(algorithm));
        assert_eq!(allowed(&mut sender), Allowance::Bytes(12_000));
        sender.send_many(10);
        assert_eq!(allowed(&mut sender), Allowance::Congested);
    }
}

#[test]
fn sending_is_spread_over_the_round_trip_rfc_9002_7_7() {
    let mut sender = Sender::new(&plain(Algorithm::NewReno));
    // A window of 10 grows to 20 in the first round trip.
    sender.send_many(10);
    sender.wait(ms(100));
    sender.ack(&[0..=9]);
    let mut sent = 0;
    let start = sender.now;
    let mut largest = 0;
    loop {
        match allowed(&mut sender) {
            Allowance::Bytes(bytes) => {
                largest = largest.max(bytes);
                sender.send_many(bytes as usize / 1200);
                sent += bytes / 1200;
            }
            Allowance::NotBefore(time) => sender.now = time,
            Allowance::Congested => break,
        }
    }
    assert_eq!(sent, 20);
    assert!(largest <= 12_000, "{largest}");
    let took = sender.now.since(start);
    // Ten at once, ten more at 5/4 of 20 in 100 ms.
    assert!((ms(30)..=ms(50)).contains(&took), "{took:?}");
}

#[test]
fn a_window_that_is_not_used_does_not_grow_rfc_9002_7_8() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        let mut sender = Sender::new(&plain(algorithm));
        let window = sender.path.window();
        for _ in 0..100 {
            assert!(matches!(allowed(&mut sender), Allowance::Bytes(_)));
            let number = sender.send(Space::Data);
            sender.path.set_app_limited();
            sender.wait(ms(20));
            sender.ack(&[number..=number]);
        }
        let limit = if algorithm == Algorithm::Bbr { 5 } else { 1 };
        assert!(sender.path.window() <= window * limit, "{algorithm:?}");
    }
}

#[test]
fn a_full_memory_of_packets_stops_sending() {
    let mut sender = Sender::new(&plain(Algorithm::NewReno));
    sender.send_many(9);
    for _ in 0..140_000 {
        let packet = Packet {
            size: 0,
            ..sender.packet(Space::Data)
        };
        sender.send_packet(Space::Data, &packet);
    }
    assert_eq!(allowed(&mut sender), Allowance::Congested);
}

/// Bytes of the heap below these parts.
fn heap(recovery: &Recovery, path: &Path) -> usize {
    recovery.data.heap() + path.congestion.heap()
}

#[test]
fn an_idle_connection_has_little_memory() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno] {
        let settings = Settings {
            algorithm,
            ..Settings::default()
        };
        let (mut recovery, mut path, received) =
            Simulation::new(&settings, Link::GOOD, 1_000_000, 1).run_to_end();
        for space in [Space::Initial, Space::Handshake] {
            recovery.discard_space(&mut path, space);
        }
        let inline = size_of::<Recovery>() + size_of::<Path>() + size_of::<Received>();
        let ranges = received.ranges().len() * 16 * 4;
        let bytes = inline + heap(&recovery, &path) + ranges;
        assert!(bytes <= 1536, "{algorithm:?}: {bytes} ({inline} inline)");
    }
}

#[test]
fn lost_probes_of_the_mtu_need_nothing_again() {
    let mut sender = with_large_datagrams();
    sender.wait(Duration::from_secs(601));
    assert_eq!(sender.path.mtu_probe(sender.now), None, "at the ceiling");
    let packet = Packet {
        mtu_probe: true,
        ..sender.packet(Space::Data)
    };
    let ping = [Item::Ping];
    sender
        .recovery
        .on_sent(&mut sender.path, Space::Data, &packet, &ping);
    assert!(
        !sender
            .recovery
            .take_probe_items(Space::Data, &mut |_, _| {})
    );
}
