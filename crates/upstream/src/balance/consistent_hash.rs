//! `hash key consistent`: ketama, with the points of Cache::Memcached::Fast and nginx. A server, by
//! its name in the configuration, has 160 points on a ring per unit of its weight. A key belongs to
//! the next point; a miss leads to the point after it.

use super::{Choice, MAX_MISSES, Positions, round_robin};
use crate::crc32::Crc32;
use crate::peer::Peer;
use crate::peer_set::Tier;
use crate::tried::Tried;
use std::collections::HashMap;
use std::sync::Arc;

/// Points for each unit of weight.
const POINTS: u64 = 160;

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Sorted by hash.
    points: Vec<Point>,
    /// The positions of each server's peers: one for each address of its name.
    servers: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    hash: u32,
    /// Index into `servers`.
    server: u32,
}

impl Ring {
    pub(super) fn new(peers: &[Arc<Peer>]) -> Ring {
        let mut servers: Vec<Vec<usize>> = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut points = Vec::new();
        for (place, peer) in peers.iter().enumerate() {
            // There are fewer than 2^32 peers, and no more servers than peers.
            let next = servers.len() as u32;
            let server = *numbers.entry(&**peer.server()).or_insert(next);
            if server == next {
                servers.push(Vec::new());
            }
            servers[server as usize].push(place);
            add_points(&mut points, peer, server);
        }
        // Of several points with the same hash, the first server's stays.
        points.sort_by_key(|point| point.hash);
        points.dedup_by_key(|point| point.hash);
        Ring { points, servers }
    }

    /// The point that a hash belongs to; after the last point comes the first.
    fn point_of(&self, hash: u32) -> u32 {
        // There are at most 2^32 hashes.
        self.points.partition_point(|point| point.hash < hash) as u32
    }

    fn peers_at(&self, point: u32) -> &[usize] {
        let point = self.points[point as usize % self.points.len()];
        &self.servers[point.server as usize]
    }
}

fn add_points(points: &mut Vec<Point>, peer: &Peer, server: u32) {
    let (host, port) = host_and_port(peer.server());
    let base = Crc32::new()
        .and(host.as_bytes())
        .and(b"\0")
        .and(port.as_bytes());
    let mut hash = 0_u32;
    for _ in 0..u64::from(peer.weight) * POINTS {
        hash = base.and(&hash.to_le_bytes()).value();
        points.push(Point { hash, server });
    }
}

/// The parts of a server's name from which its points are computed.
fn host_and_port(name: &str) -> (&str, &str) {
    const UNIX: &str = "unix:";
    match name.get(..UNIX.len()) {
        Some(start) if start.eq_ignore_ascii_case(UNIX) => return (&name[UNIX.len()..], ""),
        _ => {}
    }
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (name, ""),
    }
}

pub(super) fn pick(
    tier: &Tier,
    positions: &mut Positions,
    key: &[u8],
    tried: &mut Tried,
    now_ms: u64,
) -> Choice {
    let super::Index::Ring(ring) = &tier.index else {
        return Choice::RoundRobin;
    };
    if tried.walk.misses > MAX_MISSES || key.is_empty() {
        return Choice::RoundRobin;
    }
    if ring.points.is_empty() {
        return Choice::None;
    }
    let start = ring.point_of(Crc32::new().and(key).value());
    loop {
        // Points are counted from the key's: the ring may be a different one at the next try.
        let point = start.wrapping_add(tried.walk.misses);
        let places = ring.peers_at(point).iter().copied();
        let turn = round_robin::turn_among(tier, positions, places, tried, now_ms);
        if let Some(place) = turn {
            return Choice::Peer(place);
        }
        tried.walk.misses += 1;
        if tried.walk.misses > MAX_MISSES {
            return Choice::RoundRobin;
        }
    }
}
