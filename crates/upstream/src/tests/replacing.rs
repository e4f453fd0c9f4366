//! Names that resolve to changed addresses.

use super::*;
use std::sync::Arc;

fn addresses(ports: &[u16]) -> Vec<ResolvedAddress> {
    ports.iter().map(|port| address(*port).into()).collect()
}

/// A group with one name and the addresses that it stands for.
fn resolved(method: Method, ports: &[u16]) -> Group {
    let mut settings = weighted(method, &[1]);
    settings.servers[0].name = "app.example:80".to_owned();
    settings.servers[0].addresses = ports.iter().map(|port| address(*port)).collect();
    Group::new(settings, 2)
}

#[test]
fn peers_that_stay_keep_what_is_known_of_them() {
    let group = resolved(Method::RoundRobin, &[1, 2, 3]);
    let before = group.peers();
    let now = Instant::now();
    let picked = pick(&group, now);
    assert_eq!(port(picked.peer()), 1);
    picked.failed(now);
    let under_way = pick(&group, now);
    assert_eq!(port(under_way.peer()), 2);

    assert!(group.set_addresses(0, addresses(&[4, 3, 1])));
    let after = group.peers();
    assert_eq!(
        after.iter().map(|peer| port(peer)).collect::<Vec<_>>(),
        [4, 3, 1]
    );
    assert!(Arc::ptr_eq(&after[1], &before[2]));
    assert!(Arc::ptr_eq(&after[2], &before[0]));
    // The one that left is not picked; the request under way still has it.
    assert!(before[1].is_gone());
    assert!(!before[0].is_gone());
    assert_eq!(under_way.peer().conns(), 1);
    drop(under_way);
    assert_eq!(before[1].conns(), 0);
    // The failure of the first is still known, to all threads.
    for thread in [0, 1] {
        let ports: Vec<u16> = (0..4).map(|_| next_port(&group, thread)).collect();
        assert!(ports.iter().all(|port| [3, 4].contains(port)), "{ports:?}");
    }
}

#[test]
fn the_same_addresses_change_nothing() {
    let group = resolved(Method::RoundRobin, &[1, 2]);
    assert!(!group.set_addresses(0, addresses(&[1, 2])));
    assert!(!group.set_addresses(7, addresses(&[1])));
    assert!(group.set_addresses(0, addresses(&[2])));
}

#[test]
fn a_name_may_stand_for_nothing_for_a_while() {
    let group = resolved(Method::RoundRobin, &[]);
    let now = Instant::now();
    let pick = || group.pick(&ask(now), &mut Tried::default());
    assert_eq!(pick().err(), Some(NoPeer));
    group.set_addresses(0, addresses(&[1]));
    assert!(pick().is_ok());
    group.set_addresses(0, addresses(&[]));
    assert_eq!(pick().err(), Some(NoPeer));
}

#[test]
fn a_request_does_not_try_a_peer_again_that_has_another_place_now() {
    for method in ALL_METHODS {
        let group = resolved(method, &[1, 2, 3]);
        let now = Instant::now();
        let asked = PickRequest {
            key: b"key",
            ..ask(now)
        };
        let mut tried = Tried::new(0);
        let first = group.pick(&asked, &mut tried).expect("a peer");
        let first = port(first.peer());
        group.set_addresses(0, addresses(&[9, 3, 2, 1]));
        for _ in 0..3 {
            let picked = group.pick(&asked, &mut tried).expect("a peer");
            assert_ne!(port(picked.peer()), first, "{method:?}");
        }
        assert_eq!(group.pick(&asked, &mut tried).err(), Some(NoPeer));
    }
}

#[test]
fn records_of_lower_priority_are_backup_peers() {
    let mut settings = weighted(Method::RoundRobin, &[1, 1]);
    settings.servers[1].backup = true;
    let group = Group::new(settings, 1);
    let record = |port, weight, backup| ResolvedAddress {
        weight,
        backup,
        ..address(port).into()
    };
    group.set_addresses(
        0,
        vec![
            record(10, 3, false),
            record(11, 1, false),
            record(12, 1, true),
        ],
    );
    // Of a server that is backup itself, those of lower priority are no peers at all.
    group.set_addresses(1, vec![record(20, 1, false), record(21, 1, true)]);
    let ports: Vec<u16> = group.peers().iter().map(|peer| port(peer)).collect();
    assert_eq!(ports, [10, 11, 12, 20]);
    let counts = counts(&group, 400);
    assert_eq!(counts, HashMap::from([(10, 300), (11, 100)]));
}

#[test]
fn peers_change_under_many_threads() {
    for method in ALL_METHODS {
        let group = resolved(method, &[1, 2]);
        let group = &group;
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    for number in 0..20_000_u32 {
                        let key = number.to_string();
                        let asked = PickRequest {
                            key: key.as_bytes(),
                            thread,
                            ..ask(Instant::now())
                        };
                        let picked = group.pick(&asked, &mut Tried::default());
                        picked
                            .expect("there is always a peer")
                            .succeeded(Instant::now());
                    }
                });
            }
            for round in 0..200 {
                let ports = [1 + round % 5, 6 + round % 3, 9, 10 + round];
                group.set_addresses(0, addresses(&ports[..2 + usize::from(round % 3)]));
            }
        });
        assert!(group.peers().iter().all(|peer| peer.conns() == 0));
    }
}

/// The ports of a group, in order.
fn ports(group: &Group) -> Vec<u16> {
    group.peers().iter().map(|peer| port(peer)).collect()
}

#[test]
fn servers_are_edited_and_keep_their_numbers() {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 1);
    let first = group.peers().remove(0);
    let added = group.change(|servers| Ok::<_, ()>(servers.add(server(3))));
    assert_eq!(added, Ok(2));
    assert_eq!(ports(&group), [1, 2, 3]);
    assert!(Arc::ptr_eq(&first, &group.peers()[0]), "it stays");
    // Nothing changes if the edit fails.
    let failed = group.change(|servers| {
        servers.remove(0);
        Err::<(), _>("no")
    });
    assert_eq!((failed, ports(&group)), (Err("no"), vec![1, 2, 3]));
    let edited = group.change(|servers| {
        assert!(servers.remove(1) && !servers.remove(1) && !servers.remove(9));
        let heavy = ServerSettings {
            weight: 7,
            ..server(1)
        };
        assert!(servers.set(0, heavy) && !servers.set(1, server(2)));
        Ok::<_, ()>(servers.add(server(2)))
    });
    assert_eq!(edited, Ok(3), "no number is given twice");
    assert_eq!(ports(&group), [1, 3, 2]);
    assert_eq!(group.peers()[0].weight(), 7);
    assert!(group.peers()[2].conns() == 0 && !group.peers()[2].is_gone());

    let replaced = group.change(|servers| {
        servers.replace([server(2), server(4), server(1), server(2)]);
        let numbers = servers.entries().iter().map(|entry| entry.number);
        Ok::<_, ()>(numbers.collect::<Vec<_>>())
    });
    assert_eq!(replaced, Ok(vec![3, 4, 0, 5]));
    assert_eq!(ports(&group), [2, 4, 1, 2]);
    assert!(group.servers().get(2).is_none());
}

#[test]
fn groups_that_share_servers_follow_each_other() {
    let settings = || weighted(Method::RoundRobin, &[1, 1]);
    let before = Group::new(settings(), 1);
    let after = Group::sharing_servers(weighted(Method::LeastConn, &[1]), 1, &before);
    assert_eq!(ports(&after), [1, 2], "whatever the settings say");
    assert!(Arc::ptr_eq(&before.peers()[0], &after.peers()[0]));
    let added = before.change(|servers| Ok::<_, ()>(servers.add(server(3))));
    assert_eq!(added, Ok(2));
    assert_eq!((ports(&before).len(), ports(&after).len()), (3, 2));
    after.follow_servers();
    assert_eq!(ports(&after), [1, 2, 3]);
    let generation = after.generation();
    after.follow_servers();
    assert_eq!(after.generation(), generation, "nothing new");
    after
        .change(|servers| Ok::<_, ()>(servers.remove(0)))
        .expect("it is there");
    before.follow_servers();
    assert_eq!(ports(&before), [2, 3]);
}
