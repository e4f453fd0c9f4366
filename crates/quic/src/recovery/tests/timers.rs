//! RFC 9002 section 6.2: probe timeouts.

use std::time::Duration;

use super::sender::{Sender, ms, plain};
use crate::Space;
use crate::recovery::{Algorithm, Fate};

fn sender() -> Sender {
    let mut sender = Sender::new(&plain(Algorithm::NewReno));
    sender.round_trip(ms(100));
    sender
}

/// How long until the next timeout.
fn remaining(sender: &Sender) -> Option<Duration> {
    sender.timeout().map(|time| time.since(sender.now))
}

fn client() -> Sender {
    Sender::in_handshake(&plain(Algorithm::NewReno), true)
}

#[test]
fn the_timeout_is_doubled_each_time_6_2_1() {
    let mut sender = sender();
    sender.recovery.set_peer_max_ack_delay(ms(30));
    assert_eq!(remaining(&sender), None, "nothing is in flight");
    sender.send(Space::Data);
    let pto = ms(100 + 4 * 50 + 30);
    assert_eq!(sender.recovery.pto(&sender.path), pto);
    for doubled in 0..8 {
        assert_eq!(remaining(&sender), Some(pto * (1 << doubled)));
        sender.time_out();
        assert_eq!(sender.recovery.probes(Space::Data), 2);
        sender.send(Space::Data);
        assert_eq!(sender.recovery.probes(Space::Data), 1);
    }
    assert!(sender.told.is_empty(), "a timeout loses nothing, 6.2");
    for _ in 0..200 {
        sender.time_out();
        assert!(remaining(&sender).is_some_and(|time| time <= ms(120_000)));
    }
}

#[test]
fn an_ack_ends_the_backoff_6_2_1() {
    let mut sender = sender();
    let number = sender.send(Space::Data);
    sender.time_out();
    sender.time_out();
    let other = sender.send(Space::Data);
    sender.ack(&[number..=number]);
    let pto = sender.recovery.pto(&sender.path);
    assert_eq!(remaining(&sender), Some(pto));
    sender.ack(&[number..=other]);
    assert_eq!(remaining(&sender), None);
}

#[test]
fn the_timer_starts_anew_with_each_packet_6_2_1() {
    let mut sender = sender();
    sender.send(Space::Data);
    sender.wait(ms(200));
    sender.send(Space::Data);
    assert_eq!(remaining(&sender), Some(sender.recovery.pto(&sender.path)));
    let mut packet = sender.packet(Space::Data);
    (packet.ack_eliciting, packet.in_flight) = (false, false);
    sender.wait(ms(10));
    sender.send_packet(Space::Data, &packet);
    let pto = sender.recovery.pto(&sender.path);
    assert_eq!(
        remaining(&sender),
        Some(pto - ms(10)),
        "an ACK elicits none"
    );
}

#[test]
fn before_a_measurement_the_timeout_is_about_a_second_6_2_2() {
    let mut client = client();
    client.send(Space::Initial);
    assert_eq!(
        remaining(&client),
        Some(ms(333) + 4 * Duration::from_micros(166_500))
    );
}

#[test]
fn data_has_no_timeout_before_the_handshake_is_confirmed_6_2_1() {
    let mut sender = Sender::in_handshake(&plain(Algorithm::NewReno), false);
    sender.path.set_validated();
    sender.send(Space::Data);
    assert_eq!(remaining(&sender), None);
    sender.send(Space::Handshake);
    sender.time_out();
    assert_eq!(sender.recovery.probes(Space::Handshake), 2);
    assert_eq!(sender.recovery.probes(Space::Data), 0);
    sender.recovery.on_handshake_confirmed();
    sender
        .recovery
        .discard_space(&mut sender.path, Space::Handshake);
    assert_eq!(sender.recovery.probes(Space::Handshake), 0);
    sender.time_out();
    assert_eq!(sender.recovery.probes(Space::Data), 2);
}

#[test]
fn probes_of_initial_and_handshake_go_together_6_2_4() {
    let mut sender = Sender::in_handshake(&plain(Algorithm::NewReno), false);
    sender.path.set_validated();
    sender.send(Space::Initial);
    sender.send(Space::Handshake);
    sender.time_out();
    assert_eq!(sender.recovery.probes(Space::Initial), 2);
    assert_eq!(sender.recovery.probes(Space::Handshake), 1);
}

#[test]
fn a_server_that_may_send_nothing_sets_no_timer_6_2_2_1() {
    let mut sender = Sender::in_handshake(&plain(Algorithm::NewReno), false);
    // Too little is left for a datagram.
    sender.path.on_datagram_received(1252);
    sender.send(Space::Initial);
    sender.path.on_datagram_sent(3600);
    assert_eq!(sender.timeout(), None);
    sender.wait(ms(60_000));
    sender.path.on_datagram_received(400);
    assert!(sender.timeout().is_some_and(|time| time <= sender.now));
    sender.now = sender.now.max(sender.timeout().expect("set"));
    sender
        .recovery
        .on_timeout(&mut sender.path, sender.now, &mut |_, _| {});
    assert!(
        remaining(&sender).is_some_and(|time| time > ms(500)),
        "once"
    );
}

#[test]
fn a_client_probes_against_a_deadlock_6_2_2_1() {
    let mut client = client();
    client.send(Space::Initial);
    client.wait(ms(50));
    client.ack_in(Space::Initial, &[0..=0]);
    // The server may have no credit left: only the client can go on.
    client.time_out();
    assert_eq!(client.recovery.probes(Space::Initial), 1);
    client.send(Space::Initial);
    client.ack_in(Space::Initial, &[0..=1]);
    client.recovery.on_handshake_keys();
    client.time_out();
    assert_eq!(client.recovery.probes(Space::Handshake), 1);
    client.send(Space::Handshake);
    client.wait(ms(50));
    client.ack_in(Space::Handshake, &[0..=0]);
    assert_eq!(remaining(&client), None, "the server has its address");
}

#[test]
fn the_backoff_of_a_client_goes_on_until_the_server_has_its_address_6_2_1() {
    let mut client = client();
    client.send(Space::Initial);
    client.time_out();
    client.send(Space::Initial);
    client.time_out();
    client.send(Space::Initial);
    client.wait(ms(50));
    client.ack_in(Space::Initial, &[2..=2]);
    let pto = client.path.rtt().pto();
    assert_eq!(client.numbers(Fate::Lost), [0, 1]);
    assert_eq!(remaining(&client), Some(4 * pto));
}

#[test]
fn probes_carry_what_is_oldest_again_6_2_4() {
    let mut sender = sender();
    let numbers = sender.send_many(3);
    sender.time_out();
    for _ in 0..2 {
        let told = &mut sender.told;
        assert!(
            sender
                .recovery
                .take_probe_items(Space::Data, &mut |fate, item| told.push((fate, item)))
        );
    }
    assert_eq!(sender.numbers(Fate::Probe), numbers[..2]);
    assert_eq!(sender.path.bytes_in_flight(), 3 * 1200);
    // They may still be acknowledged.
    sender.ack(&[numbers[0]..=numbers[2]]);
    assert_eq!(sender.numbers(Fate::Acked), numbers);
    assert!(
        !sender
            .recovery
            .take_probe_items(Space::Data, &mut |_, _| {})
    );
}

#[test]
fn a_timer_that_has_not_come_does_nothing() {
    let mut sender = sender();
    sender.send_many(2);
    sender
        .recovery
        .on_timeout(&mut sender.path, sender.now, &mut |_, _| panic!("nothing"));
    assert_eq!(sender.recovery.probes(Space::Data), 0);
}
