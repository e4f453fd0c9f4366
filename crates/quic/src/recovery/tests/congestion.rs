//! The algorithms by themselves.

use std::time::Duration;

use super::sender::{Sender, ms, plain};
use crate::Time;
use crate::recovery::congestion::{Acked, Controller};
use crate::recovery::rtt::Rtt;
use crate::recovery::{Algorithm, Allowance};

const DATAGRAM: u16 = 1200;
const SEGMENT: u64 = DATAGRAM as u64;
const START: Time = Time::from_micros(1_000_000);

/// A controller whose window is all in use, with ACKs of it each round trip.
struct Flow {
    controller: Controller,
    rtt: Rtt,
    now: Time,
}

impl Flow {
    fn new(algorithm: Algorithm) -> Self {
        let mut rtt = Rtt::new(ms(100));
        rtt.sample(ms(100), Duration::ZERO, START);
        Self {
            controller: Controller::new(algorithm, DATAGRAM, START),
            rtt,
            now: START,
        }
    }

    /// One round trip of this time, in which the window is acknowledged two datagrams at a time.
    fn round(&mut self, rtt: Duration) {
        let sent = self.now;
        self.now = self.now + rtt;
        self.rtt.sample(rtt, Duration::ZERO, self.now);
        let window = self.controller.window();
        for index in 0..window.div_ceil(2 * SEGMENT) {
            let bytes = (window - index * 2 * SEGMENT).min(2 * SEGMENT);
            let acked = Acked {
                now: self.now,
                bytes,
                growth_bytes: bytes,
                newest_sent: sent + Duration::from_micros(index),
                in_flight: window,
                has_rtt: true,
                window_used: true,
            };
            self.controller.on_acked(&acked, &self.rtt);
        }
    }

    fn segments(&self) -> f64 {
        self.controller.window() as f64 / SEGMENT as f64
    }
}

#[test]
fn the_initial_window_is_that_of_rfc_9002_7_2() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno] {
        let window = |datagram| Controller::new(algorithm, datagram, START).window();
        assert_eq!(window(1200), 12_000);
        assert_eq!(window(1472), 14_720);
        assert_eq!(window(9000), 18_000);
    }
}

#[test]
fn newreno_doubles_in_slow_start_and_adds_one_afterwards_rfc_9002_7_3() {
    let mut flow = Flow::new(Algorithm::NewReno);
    flow.round(ms(100));
    assert_eq!(flow.controller.window(), 20 * SEGMENT);
    flow.round(ms(100));
    assert_eq!(flow.controller.window(), 40 * SEGMENT);
    flow.controller.start_event(flow.now);
    assert_eq!(flow.controller.window(), 20 * SEGMENT);
    for rounds in 1..10 {
        flow.round(ms(100));
        assert_eq!(flow.segments() as u64, 20 + rounds);
    }
    for _ in 0..100 {
        flow.controller.start_event(flow.now);
    }
    assert_eq!(flow.controller.window(), 2 * SEGMENT, "the minimum");
}

/// A flow of CUBIC that loses a packet with so many segments in flight.
fn after_loss(segments: u64) -> Flow {
    let mut flow = Flow::new(Algorithm::Cubic);
    while flow.controller.window() < segments * SEGMENT {
        flow.round(ms(100));
    }
    flow.controller.start_event(flow.now);
    flow
}

#[test]
fn cubic_keeps_seven_tenths_rfc_9438_4_6() {
    let mut flow = after_loss(320);
    assert!((flow.segments() - 320.0 * 0.7).abs() < 0.01);
    for _ in 0..100 {
        flow.controller.start_event(flow.now);
    }
    assert_eq!(flow.controller.window(), 2 * SEGMENT);
}

#[test]
fn cubic_is_back_after_k_seconds_rfc_9438_4_2() {
    let mut flow = after_loss(640);
    let k = (640.0_f64 * 0.3 / 0.4).cbrt();
    let mut half = None;
    let start = flow.now;
    loop {
        flow.round(ms(50));
        let time = flow.now.since(start).as_secs_f64();
        if time > k / 2.0 && half.is_none() {
            half = Some(flow.segments());
        }
        if time > k {
            break;
        }
    }
    // W(K/2) = W_max - 0.4 (K/2)^3 = W_max - 24.
    let half = half.expect("it went through it");
    assert!((610.0..=622.0).contains(&half), "{half}");
    let back = flow.segments();
    assert!((635.0..=642.0).contains(&back), "{back}");
    // Then it looks for more.
    for _ in 0..120 {
        flow.round(ms(50));
    }
    assert!(flow.segments() > 690.0, "{}", flow.segments());
}

#[test]
fn cubic_grows_no_slower_than_reno_would_rfc_9438_4_3() {
    // With a short round trip and a small window, the cubic function is slower.
    let mut flow = after_loss(20);
    let start = flow.segments();
    for _ in 0..20 {
        flow.round(ms(2));
    }
    let alpha = 3.0 * 0.3 / 1.7;
    let grown = flow.segments() - start;
    assert!(grown >= 20.0 * alpha * 0.8, "{grown}");
    assert!(grown <= 22.0, "{grown}");
}

#[test]
fn cubic_makes_room_when_it_has_less_than_before_rfc_9438_4_7() {
    let mut flow = after_loss(640);
    flow.round(ms(50));
    let window = flow.segments();
    flow.controller.start_event(flow.now);
    // W_max is now (1 + 0.7) / 2 of the window, and no more: there the growth is slowest.
    let w_max = window * 0.85;
    let k = ((w_max - flow.segments()) / 0.4).cbrt();
    let start = flow.now;
    while flow.now.since(start).as_secs_f64() < k {
        flow.round(ms(50));
    }
    let reached = flow.segments();
    assert!((reached - w_max).abs() < 4.0, "{reached} {w_max}");
}

#[test]
fn hystart_leaves_slow_start_when_the_round_trip_grows_rfc_9406() {
    let mut steady = Flow::new(Algorithm::Cubic);
    for _ in 0..8 {
        steady.round(ms(100));
    }
    assert_eq!(steady.controller.window(), 10 * 256 * SEGMENT);

    let mut queueing = Flow::new(Algorithm::Cubic);
    for _ in 0..3 {
        queueing.round(ms(100));
    }
    let before = queueing.segments();
    // Above the eighth that is the threshold: a quarter of the growth for five rounds, then
    // congestion avoidance.
    let mut grown = Vec::new();
    for _ in 0..8 {
        let window = queueing.segments();
        queueing.round(ms(115));
        grown.push(queueing.segments() / window);
    }
    assert!(queueing.segments() < before * 1.9 * 1.25_f64.powi(5));
    assert!(grown[7] < 1.05, "{grown:?}");
}

#[test]
fn hystart_goes_on_when_the_round_trip_shrinks_again_rfc_9406_4_2() {
    let mut flow = Flow::new(Algorithm::Cubic);
    for _ in 0..3 {
        flow.round(ms(100));
    }
    flow.round(ms(115));
    flow.round(ms(115));
    // A jitter, no queue.
    flow.round(ms(100));
    let window = flow.segments();
    flow.round(ms(100));
    assert!(flow.segments() > window * 1.9);
}

#[test]
fn windows_have_a_limit() {
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        let mut flow = Flow::new(algorithm);
        for _ in 0..20 {
            flow.round(ms(100));
        }
        assert_eq!(flow.controller.window(), 64 << 20);
    }
}

#[test]
fn bbr_probes_for_the_round_trip_time() {
    // 50 ms and 12 Mbit/s for eleven seconds: once, hardly anything is in flight.
    let mut sender = Sender::new(&plain(Algorithm::Bbr));
    let mut smallest = u64::MAX;
    let mut in_flight = std::collections::VecDeque::new();
    let start = sender.now;
    let mut free = sender.now;
    let mut wake = sender.now;
    while sender.now.since(start) < Duration::from_secs(11) {
        if sender.now >= wake {
            match sender.recovery.allowance(&mut sender.path, sender.now) {
                Allowance::Bytes(bytes) => {
                    for _ in 0..bytes / SEGMENT {
                        let number = sender.send(crate::Space::Data);
                        free = free.max(sender.now) + Duration::from_micros(800);
                        in_flight.push_back((free + ms(50), number));
                    }
                }
                Allowance::NotBefore(time) => wake = time,
                Allowance::Congested => wake = sender.now + Duration::from_secs(1),
            }
        }
        let next = in_flight.front().map_or(wake, |&(time, _)| time);
        if wake > sender.now && wake < next {
            sender.now = wake;
        } else if next >= sender.now
            && let Some((time, number)) = in_flight.pop_front()
        {
            sender.now = time;
            sender.ack(&[number..=number]);
            sender.told.clear();
            wake = sender.now;
            if sender.now.since(start) > Duration::from_secs(4) {
                smallest = smallest.min(sender.path.window());
            }
        }
    }
    let bdp = 50 * 1500;
    assert!(smallest <= bdp * 3 / 4, "{smallest}");
    assert!(sender.path.window() > bdp, "{}", sender.path.window());
}
