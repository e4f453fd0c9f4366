//! Transfers over simulated links.

use std::time::Duration;

use super::link::{Link, Outcome, Simulation};
use crate::recovery::{Algorithm, BASE_DATAGRAM, Settings};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno];

fn settings(algorithm: Algorithm) -> Settings {
    Settings {
        algorithm,
        ..Settings::default()
    }
}

fn run(algorithm: Algorithm, link: Link, total: u64) -> Outcome {
    Simulation::new(&settings(algorithm), link, total, 1).run()
}

/// Percent of the link that a transfer used.
fn used(outcome: &Outcome, link: &Link, total: u64) -> u64 {
    let bytes = total * 100 / link.rate;
    bytes * 1000 / outcome.took.as_millis() as u64
}

#[test]
fn a_link_without_loss_is_filled() {
    let total = 100_000_000;
    for (algorithm, least) in [
        (Algorithm::Cubic, 90),
        (Algorithm::Bbr, 80),
        (Algorithm::NewReno, 90),
    ] {
        let outcome = run(algorithm, Link::GOOD, total);
        let used = used(&outcome, &Link::GOOD, total);
        assert!(used >= least, "{algorithm:?} uses {used} %: {outcome:?}");
        assert!(outcome.lost * 50 < outcome.sent, "{outcome:?}");
    }
}

#[test]
fn all_bytes_arrive_whatever_is_lost() {
    for algorithm in ALGORITHMS {
        for loss in [10, 50, 200] {
            let link = Link {
                loss,
                ack_loss: loss,
                ..Link::GOOD
            };
            let outcome = run(algorithm, link, 3_000_000);
            // No storms: a timer now and then, and few packets for nothing.
            assert!(outcome.timeouts < outcome.sent / 2, "{outcome:?}");
            assert!(outcome.sent < 6_000, "{outcome:?}");
        }
    }
}

#[test]
fn bbr_does_not_take_random_loss_for_congestion() {
    let link = Link {
        loss: 10,
        ..Link::GOOD
    };
    let total = 50_000_000;
    let outcome = run(Algorithm::Bbr, link, total);
    assert!(used(&outcome, &link, total) >= 60, "{outcome:?}");
}

#[test]
fn packets_that_come_late_are_not_taken_for_lost_for_ever() {
    for algorithm in ALGORITHMS {
        let link = Link {
            reorder: 20,
            late: Duration::from_millis(3),
            ..Link::GOOD
        };
        let total = 50_000_000;
        let outcome = run(algorithm, link, total);
        assert!(used(&outcome, &link, total) >= 70, "{outcome:?}");
        assert!(outcome.lost * 50 < outcome.sent, "{outcome:?}");
    }
}

#[test]
fn a_short_queue_does_not_stop_anything() {
    for algorithm in ALGORITHMS {
        let link = Link {
            queue: 30_000,
            ..Link::GOOD
        };
        let outcome = run(algorithm, link, 30_000_000);
        assert!(used(&outcome, &link, 30_000_000) >= 60, "{outcome:?}");
    }
}

#[test]
fn at_a_gigabit_a_batch_has_ten_datagrams() {
    let link = Link {
        rate: 125_000_000,
        queue: 2_500_000,
        ..Link::GOOD
    };
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let outcome = run(algorithm, link, 500_000_000);
        assert!(outcome.sent / outcome.batches >= 10, "{outcome:?}");
        assert!(used(&outcome, &link, 500_000_000) >= 70, "{outcome:?}");
    }
}

#[test]
fn datagrams_that_are_too_large_are_found_out() {
    for mtu in [1200, 1280, 1400] {
        let link = Link { mtu, ..Link::GOOD };
        let outcome = run(Algorithm::Cubic, link, 20_000_000);
        assert!(used(&outcome, &link, 20_000_000) >= 80, "{outcome:?}");
    }
}

#[test]
fn marks_slow_down_before_packets_are_lost() {
    for algorithm in ALGORITHMS {
        let link = Link {
            mark_above: 60_000,
            queue: 1_000_000,
            ..Link::GOOD
        };
        let outcome = run(algorithm, link, 50_000_000);
        assert!(used(&outcome, &link, 50_000_000) >= 70, "{outcome:?}");
        assert_eq!(outcome.lost, 0, "{outcome:?}");
        assert!(outcome.max_in_flight < 900_000, "{outcome:?}");
    }
}

#[test]
fn a_slow_link_works() {
    let link = Link {
        rate: 32_000,
        delay: Duration::from_millis(300),
        queue: 40_000,
        ..Link::GOOD
    };
    for algorithm in ALGORITHMS {
        let outcome = run(algorithm, link, 500_000);
        assert!(used(&outcome, &link, 500_000) >= 60, "{outcome:?}");
    }
}

#[test]
fn a_transfer_survives_when_the_path_carries_less_rfc_8899_4_3() {
    for algorithm in ALGORITHMS {
        let narrow = Link {
            mtu: 1300,
            ..Link::GOOD
        };
        let (_, path, _) = Simulation::new(&settings(algorithm), Link::GOOD, 20_000_000, 1)
            .then(Duration::from_millis(500), narrow)
            .run_to_end();
        assert_eq!(path.datagram_size(), BASE_DATAGRAM);
    }
}

#[test]
fn a_transfer_survives_an_interruption() {
    for algorithm in ALGORITHMS {
        let cut = Link {
            loss: 1000,
            ..Link::GOOD
        };
        // The queue is cut too: it takes a probe timeout to get going again.
        let outcome = Simulation::new(&settings(algorithm), Link::GOOD, 20_000_000, 1)
            .then(Duration::from_millis(500), cut)
            .then(Duration::from_millis(3000), Link::GOOD)
            .run();
        assert!(outcome.took < Duration::from_secs(8), "{outcome:?}");
        assert!((3..30).contains(&outcome.timeouts), "{outcome:?}");
    }
}

#[test]
fn when_the_link_gets_faster_the_transfer_does() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let slow = Link {
            rate: Link::GOOD.rate / 10,
            ..Link::GOOD
        };
        let outcome = Simulation::new(&settings(algorithm), slow, 100_000_000, 1)
            .then(Duration::from_secs(4), Link::GOOD)
            .run();
        // At best 4 s for 5 MB, and 7.6 s for the rest.
        assert!(outcome.took < Duration::from_secs(17), "{outcome:?}");
    }
}
