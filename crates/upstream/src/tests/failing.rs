//! Peers that fail, and that recover.

use super::*;

/// Lets the next request fail at its peer, and returns which.
fn fail_next(group: &Group, now: Instant) -> (u16, Failure) {
    let picked = pick(group, now);
    (port(picked.peer()), picked.failed(now))
}

fn ports(group: &Group, now: Instant, count: usize) -> Vec<u16> {
    let next = |_| {
        let picked = pick(group, now);
        let port = port(picked.peer());
        picked.succeeded(Instant::now());
        port
    };
    (0..count).map(next).collect()
}

/// How many of these are the first peer's.
fn to_first(ports: &[u16]) -> usize {
    ports.iter().filter(|port| **port == 1).count()
}

#[test]
fn a_peer_is_left_out_for_fail_timeout_and_then_gets_one_chance() {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 1);
    let start = Instant::now();
    let (failed, failure) = fail_next(&group, start);
    let (disabled, fails) = (true, 1);
    assert_eq!((failed, failure), (1, Failure { disabled, fails }));
    assert_eq!(ports(&group, start, 4), [2; 4]);
    assert_eq!(ports(&group, later(start, 10), 2), [2; 2]);
    // In the next window one request goes there while nobody knows how it ends.
    let now = later(start, 11);
    let first: Vec<Picked> = (0..4).map(|_| pick(&group, now)).collect();
    let to_failed = first.iter().filter(|picked| port(picked.peer()) == 1);
    assert_eq!(to_failed.count(), 1);
    for picked in first {
        picked.succeeded(Instant::now());
    }
    // It succeeded, and all is forgotten.
    assert_eq!(to_first(&ports(&group, now, 4)), 2);
}

#[test]
fn failures_count_up_to_max_fails() {
    let mut settings = weighted(Method::RoundRobin, &[6, 6]);
    settings.servers[0].max_fails = 3;
    let group = Group::new(settings, 1);
    let now = Instant::now();
    let mut outcomes = Vec::new();
    while outcomes.len() < 3 {
        let picked = pick(&group, now);
        if port(picked.peer()) == 1 {
            outcomes.push(picked.failed(now).disabled);
        }
    }
    assert_eq!(outcomes, [false, false, true]);
    assert_eq!(ports(&group, now, 5), [2; 5]);
}

#[test]
fn lowered_weight_comes_back_by_one_at_each_pick() {
    let mut settings = weighted(Method::RoundRobin, &[10, 10]);
    settings.servers[0].max_fails = 2;
    let group = Group::new(settings, 1);
    let now = Instant::now();
    assert_eq!(fail_next(&group, now).0, 1);
    let weight = || {
        group.peers()[0]
            .effective_weight
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let weights: Vec<i64> = (0..7)
        .map(|_| {
            let weight = weight();
            ports(&group, now, 1);
            weight
        })
        .collect();
    assert_eq!(weights, [5, 6, 7, 8, 9, 10, 10]);
}

#[test]
fn with_max_fails_0_nothing_is_counted() {
    let mut settings = weighted(Method::RoundRobin, &[1, 1]);
    settings.servers[0].max_fails = 0;
    let group = Group::new(settings, 1);
    let now = Instant::now();
    for _ in 0..10 {
        let picked = pick(&group, now);
        if port(picked.peer()) == 1 {
            assert!(!picked.failed(now).disabled);
        }
    }
    assert_eq!(to_first(&ports(&group, now, 4)), 2);
}

#[test]
fn failures_are_known_to_all_threads() {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 2);
    let now = Instant::now();
    assert_eq!(fail_next(&group, now).0, 1);
    assert_eq!(next_port(&group, 1), 2);
    assert_eq!(next_port(&group, 1), 2);
}

#[test]
fn a_request_tries_every_peer_once_and_backup_peers_last() {
    for method in ALL_METHODS {
        let mut settings = weighted(method, &[1, 2, 3, 4, 1]);
        settings.servers[1].backup = true;
        settings.servers[3].down = true;
        let group = Group::new(settings, 1);
        let now = Instant::now();
        let asked = PickRequest {
            key: b"some key",
            ..ask(now)
        };
        let mut tried = Tried::new(0);
        let mut ports = Vec::new();
        loop {
            let picked = group.pick(&asked, &mut tried).expect("a peer");
            ports.push(port(picked.peer()));
            picked.failed(now);
            if tried.left() == 0 {
                break;
            }
        }
        assert_eq!(ports.pop(), Some(2), "{method:?}");
        ports.sort_unstable();
        assert_eq!(ports, [1, 3, 5], "{method:?}");
        assert_eq!(group.pick(&asked, &mut tried).err(), Some(NoPeer));
    }
}

#[test]
fn tries_are_limited_and_given_back() {
    let group = Group::new(weighted(Method::RoundRobin, &[1; 5]), 1);
    let mut tried = Tried::new(2);
    let now = Instant::now();
    let pick = |tried: &mut Tried| drop(group.pick(&ask(now), tried).expect("a peer"));
    pick(&mut tried);
    assert_eq!(tried.left(), 1);
    tried.again();
    assert_eq!(tried.left(), 2);
    pick(&mut tried);
    pick(&mut tried);
    assert_eq!(tried.left(), 0);
}

#[test]
fn a_single_peer_leaves_no_try_but_one_that_is_given_back() {
    let group = Group::new(weighted(Method::RoundRobin, &[1]), 1);
    let now = Instant::now();
    let mut tried = Tried::default();
    let picked = group.pick(&ask(now), &mut tried).expect("a peer");
    assert!(!picked.failed(now).disabled);
    assert_eq!(tried.left(), 0);
    // The connection was an idle one that the peer closed: the same peer again.
    tried.again();
    assert!(group.pick(&ask(now), &mut tried).is_ok());
}

#[test]
fn a_request_that_is_dropped_says_nothing() {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 1);
    let start = Instant::now();
    assert_eq!(fail_next(&group, start).0, 1);
    let now = later(start, 11);
    loop {
        let picked = pick(&group, now);
        if port(picked.peer()) == 1 {
            break; // and with it the request ends
        }
    }
    assert!(group.peers().iter().all(|peer| peer.conns() == 0));
    // The chance was used up and nothing came of it: the peer is still left out.
    assert_eq!(ports(&group, now, 3), [2; 3]);
}
