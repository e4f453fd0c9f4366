//! VNSWRR.

use super::*;

const VNSWRR: Method = Method::Vnswrr { max_init: 0 };

/// One thread's picks for a full cycle, turned so that they begin as those of
/// smooth weighted round robin do, if they are the same cycle.
fn is_the_cycle_of_round_robin(weights: &[u32], max_init: u32) -> bool {
    let cycle = weights.iter().sum::<u32>() as usize;
    let round_robin = Group::new(weighted(Method::RoundRobin, weights), 1);
    let expected: Vec<u16> = (0..cycle).map(|_| next_port(&round_robin, 0)).collect();
    let group = Group::new(weighted(Method::Vnswrr { max_init }, weights), 1);
    let picks: Vec<u16> = (0..cycle).map(|_| next_port(&group, 0)).collect();
    let again: Vec<u16> = (0..cycle).map(|_| next_port(&group, 0)).collect();
    assert_eq!(picks, again, "a cycle repeats");
    (0..cycle).any(|start| (0..cycle).all(|at| picks[at] == expected[(start + at) % cycle]))
}

#[test]
fn the_cycle_is_that_of_smooth_weighted_round_robin() {
    let cases: [&[u32]; 7] = [
        &[1, 1],
        &[5, 1, 1],
        &[1; 9],
        &[3, 7, 1, 1, 4, 2, 90, 7],
        &[101, 102, 103, 104, 105],
        &[1, 100],
        &[2, 2, 3, 2, 3, 3, 2],
    ];
    for weights in cases {
        for max_init in [0, 1, 3, 1000] {
            assert!(
                is_the_cycle_of_round_robin(weights, max_init),
                "{weights:?}"
            );
        }
    }
}

#[test]
fn a_cycle_is_exact_with_thousands_of_peers() {
    let weights: Vec<u32> = (0..5_000).map(|number| 1 + number * 31 % 17).collect();
    let cycle = weights.iter().sum::<u32>() as usize;
    let group = Group::new(weighted(VNSWRR, &weights), 1);
    let counts = counts(&group, cycle);
    for (port, weight) in (1..).zip(&weights) {
        assert_eq!(counts.get(&port), Some(&(*weight as usize)), "peer {port}");
    }
}

#[test]
fn many_threads_do_not_begin_with_the_same_peer() {
    // The first request of each of a thousand threads: round robin sends all of them to the
    // heaviest peer.
    let threads = 1_000;
    let mut weights = vec![1; 99];
    weights.push(2);
    let first = |method| {
        let group = Group::new(weighted(method, &weights), threads as usize);
        count((0..threads).map(|thread| next_port(&group, thread)))
    };
    assert_eq!(first(Method::RoundRobin), HashMap::from([(100, 1_000)]));
    let counts = first(VNSWRR);
    let most = counts.values().max().expect("a thousand requests");
    // Ten are expected at each peer, twenty at the heavy one.
    assert!(*most < 60, "one peer has {most} of 1000 first requests");
    assert!(counts.len() > 90, "{} peers of 100", counts.len());
}

#[test]
fn peers_that_cannot_be_picked_are_stepped_over() {
    let mut settings = weighted(VNSWRR, &[3, 3, 3, 3]);
    settings.servers[1].down = true;
    let group = Group::new(settings, 1);
    // Who is down for good has no nodes, so nobody has its part as well as the own.
    let counts = counts(&group, 9_000);
    assert_eq!(counts, HashMap::from([(1, 3_000), (3, 3_000), (4, 3_000)]));
}

#[test]
fn a_row_of_failed_peers_does_not_burden_its_neighbour() {
    let count = 1_000_u16;
    let group = Group::new(weighted(VNSWRR, &vec![1; usize::from(count)]), 1);
    let now = Instant::now();
    let alive = [1, 2, 500];
    for peer in group.peers() {
        if !alive.contains(&port(&peer)) {
            peer.fail(group.clock_ms(now));
        }
    }
    let counts = counts(&group, 30_000);
    assert_eq!(
        counts.keys().filter(|port| !alive.contains(port)).count(),
        0
    );
    for port in alive {
        let count = counts[&port];
        assert!((9_000..=11_000).contains(&count), "peer {port} has {count}");
    }
}

#[test]
fn weights_whose_sum_is_enormous_keep_their_proportion() {
    let group = Group::new(weighted(VNSWRR, &[1_000_000_007, 3_000_000_021]), 1);
    // In lowest terms 1 and 3.
    assert_eq!(
        counts(&group, 4_000),
        HashMap::from([(1, 1_000), (2, 3_000)])
    );
    let group = Group::new(weighted(VNSWRR, &[u32::MAX, u32::MAX - 1, 2]), 1);
    let counts = counts(&group, 10_000);
    assert!(counts[&1].abs_diff(counts[&2]) <= 2, "{counts:?}");
}

#[test]
fn threads_make_nodes_together() {
    let weights: Vec<u32> = (1..=300).collect();
    let cycle = weights.iter().sum::<u32>() as usize;
    let group = Group::new(weighted(VNSWRR, &weights), 4);
    let group = &group;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let counts = count((0..cycle).map(|_| next_port(group, thread)));
                for port in 1..=300_u16 {
                    assert_eq!(counts.get(&port), Some(&usize::from(port)));
                }
            });
        }
    });
}
