//! Tests of groups. `tests/balance` compares sequences that nginx defines with nginx itself. These
//! tests cover what a comparison cannot show: distributions, threads, time, changed addresses.

mod affinity;
mod distribution;
mod failing;
mod following;
mod health;
mod pool;
mod properties;
mod queue;
mod replacing;
mod virtual_nodes;

use super::*;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A group with peers 127.0.0.1:1, :2 and so on of these weights.
pub(super) fn weighted(method: Method, weights: &[u32]) -> GroupSettings {
    let server = |(port, weight): (u16, &u32)| ServerSettings {
        weight: *weight,
        ..server(port)
    };
    GroupSettings {
        name: "backend".to_owned(),
        counted_as: "backend".into(),
        servers: (1..).zip(weights).map(server).collect(),
        method,
        checks: Arc::default(),
        zone: false,
        keepalive: KeepaliveSettings::OFF,
        queue: None,
    }
}

pub(super) fn server(port: u16) -> ServerSettings {
    let address = address(port);
    ServerSettings::new(address.to_string(), vec![address])
}

pub(super) fn address(port: u16) -> PeerAddress {
    PeerAddress::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// The port of a peer, which tells peers apart.
pub(super) fn port(peer: &Peer) -> u16 {
    match peer.address() {
        PeerAddress::Ip(address) => address.port(),
        PeerAddress::Unix(path) => panic!("{} has no port", path.display()),
    }
}

/// Asks with nothing in particular.
pub(super) fn ask(now: Instant) -> PickRequest<'static> {
    PickRequest {
        key: b"",
        client: None,
        server_id: None,
        own_only: false,
        thread: 0,
        now,
    }
}

/// The peer of the next request.
pub(super) fn pick(group: &Group, now: Instant) -> Picked {
    group
        .pick(&ask(now), &mut Tried::default())
        .expect("a peer")
}

/// The port that the next request of a thread goes to; the request ends at once.
pub(super) fn next_port(group: &Group, thread: u32) -> u16 {
    let asked = PickRequest {
        thread,
        ..ask(Instant::now())
    };
    let picked = group.pick(&asked, &mut Tried::default()).expect("a peer");
    let port = port(picked.peer());
    picked.succeeded(Instant::now());
    port
}

/// How many of so many requests go to each port.
pub(super) fn counts(group: &Group, requests: usize) -> HashMap<u16, usize> {
    count((0..requests).map(|_| next_port(group, 0)))
}

pub(super) fn count(ports: impl Iterator<Item = u16>) -> HashMap<u16, usize> {
    let mut counts = HashMap::new();
    for port in ports {
        *counts.entry(port).or_default() += 1;
    }
    counts
}

#[test]
fn the_picks_of_nginx_s_example() {
    // 5, 1, 1: written out in nginx's commit that introduced the smooth weights.
    let group = Group::new(weighted(Method::RoundRobin, &[5, 1, 1]), 1);
    let picks: Vec<u16> = (0..14).map(|_| next_port(&group, 0)).collect();
    assert_eq!(picks, [1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1]);
}

#[test]
fn threads_take_turns_apart_without_zone_and_together_with_it() {
    let turns = |zone| {
        let settings = GroupSettings {
            zone,
            ..weighted(Method::RoundRobin, &[1, 1, 1])
        };
        let group = Group::new(settings, 3);
        let threads = [0, 1, 2, 0, 1, 2];
        threads.map(|thread| next_port(&group, thread))
    };
    assert_eq!(turns(false), [1, 1, 1, 2, 2, 2]);
    assert_eq!(turns(true), [1, 2, 3, 1, 2, 3]);
}

#[test]
fn names_of_peers_are_those_of_nginx() {
    let v6: SocketAddr = "[::1]:8080".parse().expect("an address");
    assert_eq!(PeerAddress::from(v6).to_string(), "[::1]:8080");
    let unix = PeerAddress::Unix("/run/app.sock".into());
    assert_eq!(unix.to_string(), "unix:/run/app.sock");
}

#[test]
fn a_group_without_peers_has_no_live_upstream() {
    for method in ALL_METHODS {
        let group = Group::new(weighted(method, &[]), 1);
        let asked = PickRequest {
            key: b"key",
            ..ask(Instant::now())
        };
        let error = group.pick(&asked, &mut Tried::default()).expect_err("none");
        let text = "no live upstreams while connecting to upstream";
        assert_eq!(error.to_string(), text, "{method:?}");
    }
}

pub(super) const ALL_METHODS: [Method; 10] = [
    Method::RoundRobin,
    Method::Vnswrr { max_init: 0 },
    Method::LeastConn,
    Method::IpHash,
    Method::Hash,
    Method::ConsistentHash,
    Method::Random,
    Method::RandomTwo,
    Method::RandomTwoByTime(LeastTime {
        until: TimeUntil::Header,
        inflight: false,
    }),
    Method::LeastTime(LeastTime {
        until: TimeUntil::LastByte,
        inflight: true,
    }),
];

pub(super) fn later(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}
