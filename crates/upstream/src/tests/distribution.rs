//! Where 100,000 requests go.

use super::*;
use std::net::{IpAddr, Ipv6Addr};

const REQUESTS: usize = 100_000;

/// Weights that differ; they sum up to 25, of which 100,000 is a multiple.
const WEIGHTS: [u32; 5] = [1, 2, 4, 8, 10];

/// Asserts that counts are in proportion to the weights, up to a part in `1/parts`.
#[track_caller]
fn assert_proportional(counts: &HashMap<u16, usize>, weights: &[u32], parts: usize) {
    let total: u32 = weights.iter().sum();
    for (port, weight) in (1..).zip(weights) {
        let expected = REQUESTS * *weight as usize / total as usize;
        let count = counts.get(&port).copied().unwrap_or(0);
        let off = count.abs_diff(expected);
        assert!(
            off * parts <= expected,
            "peer {port} has {count} of {expected} expected"
        );
    }
}

#[test]
fn turns_are_exact() {
    for method in [
        Method::RoundRobin,
        Method::Vnswrr { max_init: 0 },
        Method::Vnswrr { max_init: 3 },
        Method::LeastConn,
    ] {
        let group = Group::new(weighted(method, &WEIGHTS), 1);
        assert_proportional(&counts(&group, REQUESTS), &WEIGHTS, usize::MAX);
    }
}

#[test]
fn chance_follows_the_weights() {
    let group = Group::new(weighted(Method::Random, &WEIGHTS), 1);
    // 4,000 of 100,000 have a standard deviation of 62: this is more than six.
    assert_proportional(&counts(&group, REQUESTS), &WEIGHTS, 10);
}

#[test]
fn two_choices_leave_the_better_one() {
    // Requests that stay: after each the loads differ by little, while plain chance
    // lets them drift apart by hundreds.
    let group = Group::new(weighted(Method::RandomTwo, &[1; 10]), 1);
    let kept: Vec<Picked> = (0..REQUESTS)
        .map(|_| group.pick(&ask(Instant::now()), &mut Tried::default()))
        .collect::<Result<_, _>>()
        .expect("peers");
    let loads: Vec<u32> = group.peers().iter().map(|peer| peer.conns()).collect();
    let spread = loads.iter().max().zip(loads.iter().min());
    let (most, least) = spread.expect("ten peers");
    assert!(most - least < 20, "loads {loads:?}");
    drop(kept);
    assert!(group.peers().iter().all(|peer| peer.conns() == 0));
}

/// Of two peers drawn, the faster one: the slowest of four is never it, the fastest in half of the
/// pairs.
#[test]
fn the_faster_of_two_gets_the_request() {
    for until in [TimeUntil::Header, TimeUntil::LastByte] {
        let rule = LeastTime {
            until,
            inflight: false,
        };
        let group = Group::new(weighted(Method::RandomTwoByTime(rule), &[1; 4]), 1);
        let now = Instant::now();
        let mut requests = HashMap::new();
        for number in 0..REQUESTS {
            let mut picked = pick(&group, now);
            let at = port(picked.peer());
            picked.note_header(now + Duration::from_millis(100) * u32::from(at));
            picked.succeeded(now + Duration::from_millis(100) * u32::from(at));
            if number >= 1000 {
                *requests.entry(at).or_insert(0) += 1;
            }
        }
        let share = |at| requests.get(&at).copied().unwrap_or(0) * 6 / (REQUESTS - 1000);
        // Three of six pairs have the first, two the second, one the third.
        assert_eq!(requests.get(&4), None, "{requests:?}");
        assert!(
            (2..=3).contains(&share(1)) && share(2) <= 2 && share(3) <= 1,
            "{requests:?}"
        );
    }
}

#[test]
fn requests_that_stay_lead_to_the_peer_with_fewest_for_its_weight() {
    let group = Group::new(weighted(Method::LeastConn, &WEIGHTS), 1);
    let asked = ask(Instant::now());
    let pick = || group.pick(&asked, &mut Tried::default()).expect("a peer");
    let mut kept: Vec<Picked> = (0..250).map(|_| pick()).collect();
    let loads: Vec<u32> = group.peers().iter().map(|peer| peer.conns()).collect();
    assert_eq!(loads, [10, 20, 40, 80, 100]);
    // Whoever gets rid of a request gets the next.
    kept.retain(|picked| port(picked.peer()) != 3);
    let next: Vec<Picked> = (0..40).map(|_| pick()).collect();
    assert!(next.iter().all(|picked| port(picked.peer()) == 3));
}

#[test]
fn keys_and_clients_spread_over_all_peers() {
    let keys = |method| {
        let group = Group::new(weighted(method, &WEIGHTS), 1);
        count((0..REQUESTS).map(|number| {
            let key = format!("/file/{number}.html");
            let v6 = Ipv6Addr::from((0x2001_0db8_u128 << 96) | (number as u128 * 7_919));
            let asked = PickRequest {
                key: key.as_bytes(),
                client: Some(IpAddr::V6(v6)),
                ..ask(Instant::now())
            };
            let again = group.pick(&asked, &mut Tried::default()).expect("a peer");
            let picked = group.pick(&asked, &mut Tried::default()).expect("a peer");
            assert_eq!(port(again.peer()), port(picked.peer()), "one key, one peer");
            port(picked.peer())
        }))
    };
    assert_proportional(&keys(Method::Hash), &WEIGHTS, 10);
    // Ketama with 160 points for each unit is uneven by some ten percent.
    assert_proportional(&keys(Method::ConsistentHash), &WEIGHTS, 3);
    assert_proportional(&keys(Method::IpHash), &WEIGHTS, 5);
}

#[test]
fn a_consistent_hash_moves_only_the_keys_of_a_server_that_leaves() {
    let all = Group::new(weighted(Method::ConsistentHash, &[1; 10]), 1);
    let mut settings = weighted(Method::ConsistentHash, &[1; 10]);
    settings.servers.remove(6);
    let fewer = Group::new(settings, 1);
    let mut moved = 0;
    for number in 0..REQUESTS / 10 {
        let key = number.to_string();
        let asked = PickRequest {
            key: key.as_bytes(),
            ..ask(Instant::now())
        };
        let peer_of = |group: &Group| {
            let picked = group.pick(&asked, &mut Tried::default()).expect("a peer");
            port(picked.peer())
        };
        let (before, after) = (peer_of(&all), peer_of(&fewer));
        if before == 7 {
            moved += 1;
        } else {
            assert_eq!(before, after, "key {key}");
        }
    }
    assert!(moved > 0);
}

/// The counts of a thousand requests at once, with `max_conns`.
#[test]
fn no_peer_has_more_requests_than_its_max_conns_with_many_threads() {
    for method in ALL_METHODS {
        let mut settings = weighted(method, &[1, 2, 3]);
        for server in &mut settings.servers {
            server.max_conns = 5;
        }
        let group = Group::new(settings, 4);
        let (group, most) = (&group, 5);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let mut kept = std::collections::VecDeque::new();
                    for number in 0..5_000 {
                        let key = (number % 17_u32).to_string();
                        let asked = PickRequest {
                            key: key.as_bytes(),
                            thread,
                            ..ask(Instant::now())
                        };
                        // There may be no room at all.
                        kept.extend(group.pick(&asked, &mut Tried::default()));
                        for peer in group.peers() {
                            assert!(peer.conns() <= most, "{method:?}");
                        }
                        if kept.len() > 4 {
                            kept.pop_front();
                        }
                    }
                });
            }
        });
        assert!(group.peers().iter().all(|peer| peer.conns() == 0));
    }
}
