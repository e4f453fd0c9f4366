//! Clients that belong to a peer (`sticky`), and `least_time`.

use super::*;

/// The port that a client with this server id gets.
fn port_for(group: &Group, id: &[u8], tried: &mut Tried) -> Option<u16> {
    let asked = PickRequest {
        key: b"key",
        server_id: Some(id),
        ..ask(Instant::now())
    };
    let picked = group.pick(&asked, tried).ok()?;
    let port = port(picked.peer());
    picked.succeeded(Instant::now());
    Some(port)
}

/// Servers 1, 2 and 3 with the routes `one`, `two` and `three`.
fn routed(method: Method) -> GroupSettings {
    let mut settings = weighted(method, &[1, 1, 1]);
    let routes = [b"one".as_slice(), b"two", b"three"];
    for (server, route) in settings.servers.iter_mut().zip(routes) {
        server.route = Some(route.into());
    }
    settings
}

#[test]
fn the_id_of_a_peer_is_the_hash_of_its_address() {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 1);
    let [first, second] = &group.peers()[..] else {
        panic!("two peers");
    };
    // printf 127.0.0.1:1 | md5sum
    assert_eq!(first.server_id(), b"9b5cdbb1c3e1a06da4bf0789b25fe38a");
    assert_ne!(first.server_id(), second.server_id());
    let id = second.server_id();
    for _ in 0..3 {
        assert_eq!(port_for(&group, id, &mut Tried::default()), Some(2));
    }
}

#[test]
fn every_method_keeps_a_client_at_its_peer() {
    for method in ALL_METHODS {
        let group = Group::new(routed(method), 1);
        for _ in 0..5 {
            let port = port_for(&group, b"three", &mut Tried::default());
            assert_eq!(port, Some(3), "{method:?}");
        }
        // Nobody is called so: the method decides.
        assert!(port_for(&group, b"four", &mut Tried::default()).is_some());
    }
}

#[test]
fn a_peer_that_was_tried_fails_or_is_down_is_not_insisted_on() {
    let mut settings = routed(Method::RoundRobin);
    settings.servers[2].down = true;
    let group = Group::new(settings, 1);
    assert_ne!(port_for(&group, b"three", &mut Tried::default()), Some(3));
    let mut tried = Tried::default();
    assert_eq!(port_for(&group, b"two", &mut tried), Some(2));
    assert_eq!(port_for(&group, b"two", &mut tried), Some(1), "the next");
    let asked = PickRequest {
        server_id: Some(b"two"),
        ..ask(Instant::now())
    };
    let failing = group.pick(&asked, &mut Tried::default()).expect("a peer");
    assert!(failing.failed(Instant::now()).disabled);
    assert_eq!(port_for(&group, b"two", &mut Tried::default()), Some(1));
}

#[test]
fn a_drained_peer_serves_its_own_clients_alone() {
    for method in ALL_METHODS {
        let mut settings = routed(method);
        settings.servers[1].drain = true;
        let group = Group::new(settings, 1);
        let others = count((0..20).filter_map(|_| port_for(&group, b"", &mut Tried::default())));
        assert!(!others.contains_key(&2), "{method:?}: {others:?}");
        let own = port_for(&group, b"two", &mut Tried::default());
        assert_eq!(own, Some(2), "{method:?}");
    }
    let mut alone = routed(Method::RoundRobin);
    alone.servers.truncate(1);
    alone.servers[0].drain = true;
    let group = Group::new(alone, 1);
    assert_eq!(port_for(&group, b"one", &mut Tried::default()), Some(1));
    assert_eq!(port_for(&group, b"two", &mut Tried::default()), None);
}

#[test]
fn a_backup_peer_is_found_only_where_backups_are() {
    let mut settings = routed(Method::RoundRobin);
    settings.servers[2].backup = true;
    let group = Group::new(settings, 1);
    let mut tried = Tried::default();
    let ports: Vec<_> = (0..3)
        .map(|_| port_for(&group, b"three", &mut tried))
        .collect();
    assert_eq!(ports, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_changed_route_is_another_peer() {
    let before = Group::new(routed(Method::RoundRobin), 1);
    let mut settings = routed(Method::RoundRobin);
    settings.servers[0].route = Some(b"first".as_slice().into());
    let after = Group::after(settings, 1, Some(&before));
    assert_eq!(port_for(&after, b"first", &mut Tried::default()), Some(1));
    assert_eq!(after.peers()[0].server_id(), b"first");
    assert!(Arc::ptr_eq(&after.peers()[1], &before.peers()[1]));
}

fn least_time(until: TimeUntil, inflight: bool) -> Method {
    Method::LeastTime(LeastTime { until, inflight })
}

/// A request that gets its head and its last byte after so many milliseconds.
fn answered(group: &Group, begun: Instant, header_ms: u64, last_ms: u64) -> u16 {
    let mut picked = pick(group, begun);
    picked.note_header(begun + Duration::from_millis(header_ms));
    let port = port(picked.peer());
    picked.succeeded(begun + Duration::from_millis(last_ms));
    port
}

#[test]
fn the_faster_peer_is_picked() {
    for (until, faster) in [(TimeUntil::Header, 2), (TimeUntil::LastByte, 1)] {
        let group = Group::new(weighted(least_time(until, false), &[1, 1]), 1);
        let now = Instant::now();
        // The first peer has a slow head, the second a slow body.
        assert_eq!(answered(&group, now, 200, 300), 1);
        assert_eq!(answered(&group, now, 20, 900), 2);
        for _ in 0..3 {
            let picked = pick(&group, now);
            assert_eq!(port(picked.peer()), faster, "{until:?}");
        }
    }
}

#[test]
fn a_peer_with_a_greater_weight_may_be_slower() {
    let method = least_time(TimeUntil::Header, false);
    let group = Group::new(weighted(method, &[1, 4]), 1);
    let now = Instant::now();
    assert_eq!(answered(&group, now, 100, 100), 2);
    assert_eq!(answered(&group, now, 100, 100), 1);
    assert_eq!(port(pick(&group, now).peer()), 2);
}

#[test]
fn requests_that_hang_make_a_peer_slow_with_inflight_alone() {
    for inflight in [false, true] {
        let method = least_time(TimeUntil::Header, inflight);
        let group = Group::new(weighted(method, &[1, 1]), 1);
        let now = Instant::now();
        let hanging = pick(&group, now);
        let slow = port(hanging.peer());
        let others: Vec<_> = (0..3).map(|_| pick(&group, later(now, 60))).collect();
        let at_slow = others.iter().filter(|other| port(other.peer()) == slow);
        // Without it the active requests alone count: one each, then two each.
        let expected = if inflight { 0 } else { 1 };
        assert_eq!(at_slow.count(), expected, "inflight: {inflight}");
    }
}

/// Who is connected to a peer goes there again, whether it is full, left out or drained; but not if
/// it is unhealthy or gone.
#[test]
fn a_client_with_a_connection_goes_where_it_leads() {
    let checks = [CheckSettings {
        name: "c".into(),
        mandatory: false,
    }];
    let mut settings = weighted(Method::RoundRobin, &[1, 1, 1]);
    settings.checks = checks.into();
    settings.servers[1].max_conns = 1;
    settings.servers[2].backup = true;
    let group = Group::new(settings, 1);
    let now = Instant::now();
    let again = |at: u16| {
        let mut tried = Tried::default();
        let address = format!("127.0.0.1:{at}");
        let picked = group.pick_again(&address, &ask(now), &mut tried)?;
        assert_eq!(port(picked.peer()), at);
        Some((picked, tried.left()))
    };
    let (first, left) = again(2).expect("it is there");
    assert_eq!((first.peer().conns(), left), (1, 2));
    let (second, _) = again(2).expect("a connection is open");
    assert_eq!(second.peer().conns(), 2);
    first.failed(now);
    drop(second);
    assert!(again(2).is_some(), "it is left out for others");
    assert!(again(3).is_some(), "a backup peer");
    let peers = group.peers();
    group.note_verdict(&peers[1], 0, false, now);
    assert!(again(2).is_none(), "unhealthy");
    assert!(again(9).is_none(), "gone");
    assert_eq!(peers[1].conns(), 0);
}

/// As in nginx: requests of clients that belong to a peer are turns of that peer, up to a round of
/// them.
#[test]
fn round_robin_counts_requests_that_come_out_of_turn() {
    let group = Group::new(routed(Method::RoundRobin), 1);
    let own = group.peers()[0].server_id().to_vec();
    for _ in 0..10 {
        port_for(&group, &own, &mut Tried::default()).expect("it is there");
    }
    // The two others come first, then all in turns.
    let next: Vec<u16> = (0..5).map(|_| next_port(&group, 0)).collect();
    assert_eq!(next, [2, 3, 1, 2, 3]);
}
