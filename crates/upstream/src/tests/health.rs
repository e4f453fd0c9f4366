//! Active health checks, and peers that start slowly.

use super::*;
use crate::{CheckSettings, HealthChange, PeerState, Verdict};

fn check(name: &str, mandatory: bool) -> CheckSettings {
    CheckSettings {
        name: name.into(),
        mandatory,
    }
}

fn checked(weights: &[u32], checks: &[CheckSettings]) -> GroupSettings {
    GroupSettings {
        checks: checks.into(),
        ..weighted(Method::RoundRobin, weights)
    }
}

/// A check says that the peer at a port is healthy, or not.
fn say(group: &Group, at: u16, check: usize, healthy: bool, now: Instant) -> HealthChange {
    let peers = group.peers();
    let peer = peers.iter().find(|peer| port(peer) == at).expect("a peer");
    group.note_verdict(peer, check, healthy, now)
}

fn states(group: &Group, now: Instant) -> Vec<PeerState> {
    let states = group.peer_states(now).into_iter();
    states.map(|(_, state, _)| state).collect()
}

#[test]
fn an_unhealthy_peer_gets_no_requests_until_it_is_healthy_again() {
    let group = Group::new(checked(&[1, 1], &[check("a", false)]), 1);
    let now = Instant::now();
    assert_eq!(say(&group, 1, 0, false, now), HealthChange::BecameUnhealthy);
    assert_eq!(say(&group, 1, 0, false, now), HealthChange::None);
    assert_eq!(states(&group, now), [PeerState::Unhealthy, PeerState::Up]);
    assert_eq!(counts(&group, 10), HashMap::from([(2, 10)]));
    say(&group, 2, 0, false, now);
    assert!(group.pick(&ask(now), &mut Tried::default()).is_err());
    assert_eq!(say(&group, 1, 0, true, now), HealthChange::BecameHealthy);
    assert_eq!(counts(&group, 10), HashMap::from([(1, 10)]));
    assert_eq!(group.peers()[0].counts().unhealthy.get(), 1);
}

#[test]
fn the_only_peer_of_a_group_is_no_exception() {
    let group = Group::new(checked(&[1], &[check("a", false)]), 1);
    let now = Instant::now();
    say(&group, 1, 0, false, now);
    assert!(group.pick(&ask(now), &mut Tried::default()).is_err());
    say(&group, 1, 0, true, now);
    assert_eq!(next_port(&group, 0), 1);
}

#[test]
fn a_mandatory_check_is_to_be_passed_first() {
    let checks = [check("a", true), check("b", false)];
    let group = Group::new(checked(&[1, 1], &checks), 1);
    let now = Instant::now();
    assert_eq!(states(&group, now), [PeerState::Checking; 2]);
    assert!(group.pick(&ask(now), &mut Tried::default()).is_err());
    // Another check that passes is not enough.
    assert_eq!(say(&group, 1, 1, true, now), HealthChange::None);
    assert!(group.pick(&ask(now), &mut Tried::default()).is_err());
    assert_eq!(say(&group, 1, 0, true, now), HealthChange::BecameHealthy);
    assert_eq!(states(&group, now), [PeerState::Up, PeerState::Checking]);
    assert_eq!(counts(&group, 4), HashMap::from([(1, 4)]));
}

#[test]
fn one_of_several_checks_that_fails_is_enough() {
    let checks = [check("a", false), check("b", false)];
    let group = Group::new(checked(&[1, 1], &checks), 1);
    let now = Instant::now();
    say(&group, 1, 0, false, now);
    assert_eq!(say(&group, 1, 1, false, now), HealthChange::None);
    assert_eq!(say(&group, 1, 0, true, now), HealthChange::None);
    assert_eq!(counts(&group, 4), HashMap::from([(2, 4)]));
    assert_eq!(say(&group, 1, 1, true, now), HealthChange::BecameHealthy);
}

#[test]
fn verdicts_outlive_a_reload_by_the_name_of_their_check() {
    let before = Group::new(checked(&[1, 1], &[check("a", true), check("b", false)]), 1);
    let now = Instant::now();
    say(&before, 1, 0, true, now);
    say(&before, 1, 1, false, now);
    say(&before, 2, 0, false, now);
    say(&before, 2, 1, true, now);
    let checks = [check("c", false), check("b", false), check("a", true)];
    let after = Group::after(checked(&[1, 2], &checks), 1, Some(&before));
    let verdicts = |group: &Group, peer: usize, checks: usize| -> Vec<Verdict> {
        let peers = group.peers();
        (0..checks)
            .map(|check| peers[peer].verdict(check))
            .collect()
    };
    assert_eq!(
        verdicts(&after, 0, 3),
        [Verdict::Healthy, Verdict::Unhealthy, Verdict::Healthy]
    );
    assert_eq!(
        verdicts(&after, 1, 3),
        [Verdict::Healthy, Verdict::Healthy, Verdict::Unhealthy]
    );
    // Without the checks that failed both are used again, and a new mandatory one is awaited.
    let after = Group::after(checked(&[1, 2], &[check("d", true)]), 1, Some(&after));
    assert_eq!(states(&after, now), [PeerState::Checking; 2]);
    let after = Group::after(checked(&[1, 2], &[]), 1, Some(&after));
    assert_eq!(states(&after, now), [PeerState::Up; 2]);
}

#[test]
fn verdicts_of_another_process_count() {
    let group = Group::new(checked(&[1, 1], &[check("a", true)]), 1);
    let now = Instant::now();
    group.take_over_verdict("127.0.0.1:1", true, now);
    group.take_over_verdict("127.0.0.1:2", false, now);
    group.take_over_verdict("127.0.0.1:3", true, now);
    assert_eq!(states(&group, now), [PeerState::Up, PeerState::Unhealthy]);
}

#[test]
fn a_healthy_peer_forgets_that_requests_failed() {
    let group = Group::new(checked(&[1, 1], &[check("a", false)]), 1);
    let now = Instant::now();
    let failed = pick(&group, now);
    assert_eq!(port(failed.peer()), 1);
    assert!(failed.failed(now).disabled);
    say(&group, 1, 0, false, now);
    say(&group, 1, 0, true, now);
    assert_eq!(states(&group, now), [PeerState::Up; 2]);
}

/// How many of 100 requests at that time go to the first peer.
fn share_of_first(group: &Group, now: Instant) -> usize {
    let picks = (0..100).map(|_| {
        let picked = pick(group, now);
        let port = port(picked.peer());
        picked.succeeded(now);
        port
    });
    picks.filter(|port| *port == 1).count()
}

#[test]
fn a_peer_with_slow_start_gets_its_share_little_by_little() {
    for method in [Method::RoundRobin, Method::LeastConn] {
        let mut settings = checked(&[1, 1], &[check("a", false)]);
        settings.method = method;
        settings.servers[0].slow_start = Duration::from_secs(100);
        let group = Group::new(settings, 1);
        let start = Instant::now();
        assert_eq!(
            share_of_first(&group, start),
            50,
            "it starts with its weight"
        );
        say(&group, 1, 0, false, start);
        assert_eq!(share_of_first(&group, start), 0);
        say(&group, 1, 0, true, start);
        let shares = [0, 25, 50, 75, 100, 200].map(|s| share_of_first(&group, later(start, s)));
        // With an equal number of connections (none) the weights decide: 1/256, 1/4, 1/2 ... of 1.
        let wanted = [0, 20, 33, 43, 50, 50];
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!(share.abs_diff(wanted) <= 2, "{method:?}: {shares:?}");
        }
    }
}

#[test]
fn a_peer_that_requests_have_found_failing_starts_slowly_too() {
    let mut settings = checked(&[1, 1], &[]);
    settings.servers[0].slow_start = Duration::from_secs(100);
    let group = Group::new(settings, 1);
    let start = Instant::now();
    let failed = pick(&group, start);
    assert_eq!(port(failed.peer()), 1);
    let _ = failed.failed(start);
    // After fail_timeout.
    let back = later(start, 11);
    let first = share_of_first(&group, back);
    assert!(first <= 2, "{first}");
    assert!(share_of_first(&group, later(back, 50)).abs_diff(33) <= 2);
    assert_eq!(share_of_first(&group, later(back, 101)), 50);
}
