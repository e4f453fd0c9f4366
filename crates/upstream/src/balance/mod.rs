//! Choosing a peer: one file for each method.
//!
//! A method looks at one tier (primary or backup peers) and returns a position in it, or none. It
//! skips peers that the request has tried and those that are not available. As in nginx, methods
//! that do not take turns give up after [`MAX_MISSES`] misses and leave the choice to smooth
//! weighted round robin.

mod consistent_hash;
mod hash;
mod ip_hash;
mod least_conn;
mod least_time;
mod random;
mod round_robin;
mod vnswrr;

use self::consistent_hash::Ring;
use self::least_conn::less_loaded;
use self::random::Random;
use self::vnswrr::VirtualNodes;
use super::group::PickRequest;
use super::peer::Peer;
use super::peer_set::Tier;
use super::settings::Method;
use super::tried::Tried;
use std::sync::Arc;

pub(super) use self::hash::HashWalk;

/// How many unavailable peers a request may come across, over all its picks, before round robin
/// decides.
const MAX_MISSES: u32 = 20;

/// The position of the peer that a method chooses.
pub(super) fn pick(
    method: Method,
    tier: &Tier,
    positions: &mut Positions,
    ask: &PickRequest<'_>,
    tried: &mut Tried,
    now_ms: u64,
) -> Option<usize> {
    let chosen = match method {
        Method::RoundRobin => Choice::RoundRobin,
        Method::Vnswrr { .. } => vnswrr::pick(tier, positions, tried, now_ms),
        Method::LeastConn => return least_conn::pick(tier, positions, tried, now_ms),
        Method::LeastTime(rule) => {
            return least_time::pick(rule, tier, positions, tried, now_ms);
        }
        Method::IpHash => ip_hash::pick(tier, ask.client, tried, now_ms),
        Method::Hash => hash::pick(tier, ask.key, tried, now_ms),
        Method::ConsistentHash => consistent_hash::pick(tier, positions, ask.key, tried, now_ms),
        Method::Random => random::pick(tier, positions, tried, now_ms),
        Method::RandomTwo => random::pick_of_two(tier, positions, tried, now_ms, less_loaded),
        Method::RandomTwoByTime(rule) => {
            let faster = |tier: &Tier, first, second, now_ms| {
                least_time::faster(rule, tier, first, second, now_ms)
            };
            random::pick_of_two(tier, positions, tried, now_ms, faster)
        }
    };
    match chosen {
        Choice::Peer(place) => Some(place),
        Choice::RoundRobin => round_robin::pick(tier, positions, tried, now_ms),
        Choice::None => None,
    }
}

/// A peer was picked for a client that belongs to it, whatever the method.
pub(super) fn count_turn(
    method: Method,
    tier: &Tier,
    positions: &mut Positions,
    place: usize,
    tried: &Tried,
    now_ms: u64,
) {
    if method == Method::RoundRobin {
        round_robin::count_turn(tier, positions, place, tried, now_ms);
    }
}

/// The decision of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The peer at this position.
    Peer(usize),
    /// Round robin decides.
    RoundRobin,
    /// No peer can be picked.
    None,
}

impl Method {
    /// The method for backup peers. In nginx, methods that choose by key, client or chance pick no
    /// backup peers; here backup peers are then taken in turns.
    pub(super) fn for_backup(self) -> Method {
        match self {
            Method::LeastConn | Method::LeastTime(_) | Method::Vnswrr { .. } => self,
            _ => Method::RoundRobin,
        }
    }

    /// Whether it takes turns, which threads can share.
    pub(super) fn takes_turns(self) -> bool {
        matches!(
            self,
            Method::RoundRobin | Method::Vnswrr { .. } | Method::LeastConn | Method::LeastTime(_)
        )
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Positions {
    /// For smooth weighted round robin: one value per peer.
    current_weights: Vec<i64>,
    /// The next virtual node of VNSWRR; unknown before the first.
    next_node: Option<usize>,
    random: Random,
}

impl Positions {
    pub(super) fn new(tier: &Tier) -> Positions {
        Positions {
            current_weights: vec![0; tier.peers.len()],
            next_node: None,
            random: Random::default(),
        }
    }

    /// The same for another list: peers that remain keep their turn.
    pub(super) fn carried_over(&self, from: &Tier, to: &Tier) -> Positions {
        let mut known: Vec<_> = from
            .peers
            .iter()
            .map(|peer| peer.id)
            .zip(self.current_weights.iter().copied())
            .collect();
        known.sort_unstable_by_key(|(id, _)| *id);
        let weight = |peer: &Arc<Peer>| {
            let found = known.binary_search_by_key(&peer.id, |(id, _)| *id);
            found.map_or(0, |at| known[at].1)
        };
        Positions {
            current_weights: to.peers.iter().map(weight).collect(),
            next_node: None,
            random: self.random.clone(),
        }
    }
}

/// Data with which a method finds a peer without scanning all.
#[derive(Debug)]
pub(super) enum Index {
    /// Nothing.
    None,
    /// The cumulative weight up to and including each peer.
    Weights(Vec<u64>),
    Ring(Ring),
    Nodes(VirtualNodes),
}

impl Index {
    pub(super) fn new(peers: &[Arc<Peer>], method: Method) -> Index {
        match method {
            Method::RoundRobin | Method::LeastConn | Method::LeastTime(_) => Index::None,
            Method::IpHash
            | Method::Hash
            | Method::Random
            | Method::RandomTwo
            | Method::RandomTwoByTime(_) => {
                let mut sum = 0;
                let sums = peers.iter().map(|peer| {
                    sum += u64::from(peer.weight);
                    sum
                });
                Index::Weights(sums.collect())
            }
            Method::ConsistentHash => Index::Ring(Ring::new(peers)),
            Method::Vnswrr { max_init } => Index::Nodes(VirtualNodes::new(peers, max_init)),
        }
    }

    /// The sum of all weights, if known.
    fn total_weight(&self) -> u64 {
        match self {
            Index::Weights(sums) => sums.last().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// The peer in whose share of the total weight `at` falls.
    fn place_of_weight(&self, at: u64) -> usize {
        match self {
            Index::Weights(sums) => sums.partition_point(|sum| *sum <= at),
            _ => 0,
        }
    }
}

/// Whether a peer can be picked for a request.
fn is_eligible(tier: &Tier, place: usize, tried: &Tried, now_ms: u64) -> bool {
    !tried.has(place) && tier.peers[place].is_available(now_ms)
}
