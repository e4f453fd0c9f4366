//! How a peer is chosen: one file for each method.
//!
//! A method looks at one tier (primary or backup peers) and answers with a place in it, or
//! none. It passes over peers that the request has tried and those that are not
//! available. Methods that go by something else than whose turn it is give up after
//! [`MAX_MISSES`] misses and leave it to smooth weighted round robin, as in nginx.

mod consistent_hash;
mod hash;
mod ip_hash;
mod least_conn;
mod random;
mod round_robin;
mod vnswrr;

use self::consistent_hash::Ring;
use self::random::Random;
use self::vnswrr::VirtualNodes;
use super::group::PickRequest;
use super::peer::Peer;
use super::peer_set::Tier;
use super::settings::Method;
use super::tried::Tried;
use std::sync::Arc;

pub(super) use self::hash::HashWalk;

/// Peers that cannot be picked which a request may come across, over all its picks,
/// before round robin decides.
const MAX_MISSES: u32 = 20;

/// The place of the peer that a method chooses.
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
        Method::IpHash => ip_hash::pick(tier, ask.client, tried, now_ms),
        Method::Hash => hash::pick(tier, ask.key, tried, now_ms),
        Method::ConsistentHash => consistent_hash::pick(tier, positions, ask.key, tried, now_ms),
        Method::Random => random::pick(tier, positions, tried, now_ms),
        Method::RandomTwo => random::pick_of_two(tier, positions, tried, now_ms),
    };
    match chosen {
        Choice::Peer(place) => Some(place),
        Choice::RoundRobin => round_robin::pick(tier, positions, tried, now_ms),
        Choice::None => None,
    }
}

/// What a method says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// The peer at this place.
    Peer(usize),
    /// Round robin is to decide.
    RoundRobin,
    /// No peer can be picked.
    None,
}

impl Method {
    /// The method among backup peers. Those that go by a key, a client or chance take none in
    /// nginx; here they are taken in turns.
    pub(super) fn for_backup(self) -> Method {
        match self {
            Method::LeastConn | Method::Vnswrr { .. } => self,
            _ => Method::RoundRobin,
        }
    }

    /// Whether it goes by whose turn it is, which threads can share.
    pub(super) fn takes_turns(self) -> bool {
        matches!(
            self,
            Method::RoundRobin | Method::Vnswrr { .. } | Method::LeastConn
        )
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Positions {
    /// Of smooth weighted round robin, for each peer.
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

    /// The same for another list: peers that stay keep their turn.
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

/// What a method needs to find a peer without looking at all.
#[derive(Debug)]
pub(super) enum Index {
    /// Nothing.
    None,
    /// The sum of the weights up to and with each peer.
    Weights(Vec<u64>),
    Ring(Ring),
    Nodes(VirtualNodes),
}

impl Index {
    pub(super) fn new(peers: &[Arc<Peer>], method: Method) -> Index {
        match method {
            Method::RoundRobin | Method::LeastConn => Index::None,
            Method::IpHash | Method::Hash | Method::Random | Method::RandomTwo => {
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

    /// The sum of all weights, where it is known.
    fn total_weight(&self) -> u64 {
        match self {
            Index::Weights(sums) => sums.last().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// The peer in whose part of the sum of all weights `at` falls.
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
