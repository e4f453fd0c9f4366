//! What holds for any group and any order of events.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    /// A request, which tries this many peers before one succeeds.
    Request {
        thread: u32,
        failures: usize,
        key: u16,
    },
    /// A request that stays.
    Stay { thread: u32, key: u16 },
    /// The oldest request that stayed ends.
    End,
    /// Seconds pass.
    Pass(u64),
    /// The first server stands for these.
    Resolve(Vec<u16>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..3_u32, 0..4_usize, any::<u16>())
            .prop_map(|(thread, failures, key)| Event::Request { thread, failures, key }),
        3 => (0..3_u32, any::<u16>()).prop_map(|(thread, key)| Event::Stay { thread, key }),
        2 => Just(Event::End),
        1 => (0..30_u64).prop_map(Event::Pass),
        1 => proptest::collection::vec(100..110_u16, 0..5).prop_map(Event::Resolve),
    ]
}

fn any_server(port: u16) -> impl Strategy<Value = ServerSettings> {
    (1..20_u32, 0..4_u32, 0..3_u32, 0..20_u64, 0..10_u8).prop_map(
        move |(weight, max_conns, max_fails, timeout, state)| ServerSettings {
            weight,
            max_conns,
            max_fails,
            fail_timeout: Duration::from_secs(timeout),
            backup: state < 2,
            down: state == 9,
            ..server(port)
        },
    )
}

fn servers() -> impl Strategy<Value = Vec<ServerSettings>> {
    (0..8_u16).prop_flat_map(|count| (1..=count).map(any_server).collect::<Vec<_>>())
}

/// Whether any peer of the group that was not tried could be picked.
fn anybody_left(group: &Group, single: bool, tried: &[u16], now: Instant) -> bool {
    let now_ms = group.clock_ms(now);
    let peers = group.peers();
    peers.iter().any(|peer| {
        let free = if single {
            !peer.down && !peer.is_full()
        } else {
            peer.is_available(now_ms)
        };
        free && (single || !tried.contains(&port(peer)))
    })
}

proptest! {
    #[test]
    fn picks_keep_the_rules(
        servers in servers(),
        method in proptest::sample::select(&ALL_METHODS[..]),
        zone in any::<bool>(),
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let settings = GroupSettings { servers, zone, ..weighted(method, &[]) };
        // What the first server stands for is backup if that is.
        let first_backs_up = settings.servers.first().is_some_and(|server| server.backup);
        let backups: Vec<u16> = (1..)
            .zip(&settings.servers)
            .filter(|(_, server)| server.backup)
            .map(|(port, _)| port)
            .chain((100..110).filter(|_| first_backs_up))
            .collect();
        let group = Group::new(settings, 3);
        let mut now = Instant::now();
        let mut kept = std::collections::VecDeque::new();
        for event in events {
            let (thread, failures, key, stays) = match event {
                Event::Request { thread, failures, key } => (thread, failures, key, false),
                Event::Stay { thread, key } => (thread, 0, key, true),
                Event::End => { kept.pop_front(); continue }
                Event::Pass(seconds) => { now = later(now, seconds); continue }
                Event::Resolve(mut ports) => {
                    ports.sort_unstable();
                    ports.dedup();
                    let addresses = ports.iter().map(|port| address(*port).into()).collect();
                    group.set_addresses(0, addresses);
                    continue
                }
            };
            let key = key.to_string();
            let asked = PickRequest { key: key.as_bytes(), thread, ..ask(now) };
            let mut tried = Tried::default();
            let mut ports: Vec<u16> = Vec::new();
            for attempt in 0..=failures {
                let single = match &group.peers()[..] {
                    [only] => !backups.contains(&port(only)),
                    _ => false,
                };
                let anybody = anybody_left(&group, single, &ports, now);
                let primary = group.peers().iter().any(|peer| {
                    !backups.contains(&port(peer))
                        && !ports.contains(&port(peer))
                        && peer.is_available(group.clock_ms(now))
                });
                let picked = match group.pick(&asked, &mut tried) {
                    Ok(picked) => picked,
                    Err(NoPeer) => {
                        // Once it came to backup peers a request does not go back.
                        let on_backup = ports.iter().any(|port| backups.contains(port));
                        prop_assert!(!anybody || on_backup, "a peer was left, {method:?}");
                        break;
                    }
                };
                prop_assert!(anybody);
                let peer = picked.peer().clone();
                prop_assert!(!peer.down && !peer.is_gone());
                prop_assert!(peer.max_conns == 0 || peer.conns() <= peer.max_conns);
                prop_assert!(single || !ports.contains(&port(&peer)), "tried twice");
                if ports.iter().all(|port| !backups.contains(port)) {
                    let is_backup = backups.contains(&port(&peer));
                    prop_assert!(!(is_backup && primary), "a primary peer was left, {method:?}");
                }
                ports.push(port(&peer));
                if stays {
                    kept.push_back(picked);
                } else if attempt == failures {
                    picked.succeeded(Instant::now());
                } else {
                    picked.failed(now);
                    if tried.left() == 0 {
                        break;
                    }
                }
            }
        }
        drop(kept);
        prop_assert!(group.peers().iter().all(|peer| peer.conns() == 0));
    }

    #[test]
    fn keys_find_their_point_whatever_servers_are_called(
        names in proptest::collection::vec("\\PC{0,12}(:[0-9]{1,5})?", 1..6),
        key in "\\PC{1,20}",
    ) {
        let mut settings = weighted(Method::ConsistentHash, &vec![1; names.len()]);
        for (server, name) in settings.servers.iter_mut().zip(&names) {
            server.name.clone_from(name);
        }
        let group = Group::new(settings, 1);
        let asked = PickRequest { key: key.as_bytes(), ..ask(Instant::now()) };
        prop_assert!(group.pick(&asked, &mut Tried::default()).is_ok());
    }
}
