//! `vnswrr`: smooth weighted round robin over virtual nodes, after Tengine's module.
//!
//! The sequence of smooth weighted round robin repeats after as many picks as the sum of the
//! weights. So it is computed once, as an ordered list of *virtual nodes*, and a pick only takes
//! the next one: its cost does not depend on the number of peers. Each thread starts at a random
//! node, so that after a start not every thread of every server sends its first requests to the
//! heaviest peer.
//!
//! Nodes are created on demand, `max_init` at a time, and kept for all threads. Creating one costs
//! a look at each *distinct weight*, not at each peer: peers of equal weight come in the order of
//! their positions, so only the next peer of each weight is a candidate.
//!
//! Peers that cannot be picked are skipped. After [`MAX_STEPS`] of them, smooth weighted round
//! robin picks among the available ones. Without that, the peer after a row of dead ones would get
//! the work of all of them, and a pick would have no bound.

use super::{Choice, Positions, is_eligible};
use crate::peer::Peer;
use crate::peer_set::Tier;
use crate::tried::Tried;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Nodes skipped before round robin decides.
const MAX_STEPS: usize = 64;

/// Nodes created at a time if `max_init` is not set.
const NODES_AT_A_TIME: usize = 64;

/// Most nodes of a tier. Weights with a larger sum are scaled down. A node takes 4 bytes.
const MAX_NODES: u64 = 1 << 22;

pub(super) fn pick(tier: &Tier, positions: &mut Positions, tried: &Tried, now_ms: u64) -> Choice {
    let super::Index::Nodes(nodes) = &tier.index else {
        return Choice::RoundRobin;
    };
    if nodes.total == 0 {
        return Choice::None;
    }
    let mut node = positions
        .next_node
        .unwrap_or_else(|| positions.random.below(nodes.at_start as u64) as usize);
    let steps = nodes.total.min(MAX_STEPS);
    for _ in 0..steps {
        let place = nodes.place_at(node);
        node = if node + 1 == nodes.total { 0 } else { node + 1 };
        if is_eligible(tier, place, tried, now_ms) {
            positions.next_node = Some(node);
            return Choice::Peer(place);
        }
    }
    positions.next_node = Some(node);
    if steps == nodes.total {
        Choice::None
    } else {
        Choice::RoundRobin
    }
}

/// The virtual nodes of one full cycle.
#[derive(Debug)]
pub(crate) struct VirtualNodes {
    /// Nodes of a cycle.
    total: usize,
    /// Nodes among which threads start: as many as there are peers; they are created at once.
    at_start: usize,
    /// Binary logarithm of the number of nodes in a chunk.
    chunk_bits: u32,
    /// The positions of peers. From some chunk on they have not been created yet.
    chunks: Box<[OnceLock<Box<[u32]>>]>,
    maker: Mutex<Maker>,
}

impl VirtualNodes {
    pub(super) fn new(peers: &[Arc<Peer>], max_init: u32) -> VirtualNodes {
        let weights = reduced_weights(peers);
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let total = total as usize; // MAX_NODES at most, or one for each peer
        let at_a_time = match max_init {
            0 => NODES_AT_A_TIME,
            max_init => max_init as usize,
        };
        let chunk_bits = at_a_time.min(total).max(1).next_power_of_two().ilog2();
        let chunks = total.div_ceil(1 << chunk_bits);
        let nodes = VirtualNodes {
            total,
            at_start: weights.len(),
            chunk_bits,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            maker: Mutex::new(Maker::new(&weights)),
        };
        if let Some(last) = nodes.at_start.checked_sub(1) {
            nodes.make_chunk(last >> chunk_bits);
        }
        nodes
    }

    fn place_at(&self, node: usize) -> usize {
        let chunk = node >> self.chunk_bits;
        let within = node & ((1 << self.chunk_bits) - 1);
        let nodes = match self.chunks[chunk].get() {
            Some(nodes) => nodes,
            None => self.make_chunk(chunk),
        };
        nodes[within] as usize
    }

    /// Creates all missing chunks up to this one.
    #[cold]
    fn make_chunk(&self, wanted: usize) -> &[u32] {
        let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        while maker.chunks_made <= wanted {
            let chunk = maker.chunks_made;
            let length = (self.total - (chunk << self.chunk_bits)).min(1 << self.chunk_bits);
            let nodes: Box<[u32]> = (0..length).map(|_| maker.next_place()).collect();
            // Only the thread that holds the maker sets chunks, each once.
            let _ = self.chunks[chunk].set(nodes);
            maker.chunks_made += 1;
        }
        self.chunks[wanted]
            .get()
            .expect("chunks_made counts the chunks that are set")
    }
}

/// The positions and weights of peers that are not `down`, in lowest terms and limited to
/// [`MAX_NODES`].
fn reduced_weights(peers: &[Arc<Peer>]) -> Vec<(u32, u64)> {
    let mut weights: Vec<(u32, u64)> = (0..)
        .zip(peers)
        .filter(|(_, peer)| !peer.down)
        .map(|(place, peer)| (place, u64::from(peer.weight)))
        .collect();
    let divisor = weights
        .iter()
        .fold(0, |divisor, (_, weight)| gcd(divisor, *weight));
    let total: u64 = weights.iter().map(|(_, weight)| weight / divisor).sum();
    for (_, weight) in &mut weights {
        *weight /= divisor;
        if total > MAX_NODES {
            let scaled = u128::from(*weight) * u128::from(MAX_NODES) / u128::from(total);
            *weight = (scaled as u64).max(1);
        }
    }
    weights
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Creates one node after another.
#[derive(Debug)]
struct Maker {
    classes: Vec<Class>,
    total: i64,
    chunks_made: usize,
}

/// Peers of equal weight.
#[derive(Debug)]
struct Class {
    weight: i64,
    /// Current weight of the peer whose turn it is.
    current: i64,
    /// Places of the peers, in order.
    places: Vec<u32>,
    /// Whose turn it is.
    next: usize,
}

impl Maker {
    fn new(weights: &[(u32, u64)]) -> Maker {
        let mut places: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (place, weight) in weights {
            places.entry(*weight).or_default().push(*place);
        }
        let classes: Vec<Class> = places
            .into_iter()
            .map(|(weight, places)| Class {
                weight: weight as i64, // it was a u32
                current: 0,
                places,
                next: 0,
            })
            .collect();
        let total = |class: &Class| class.weight * class.places.len() as i64;
        Maker {
            total: classes.iter().map(total).sum(),
            classes,
            chunks_made: 0,
        }
    }

    /// The position that smooth weighted round robin picks next.
    fn next_place(&mut self) -> u32 {
        for class in &mut self.classes {
            class.current += class.weight;
        }
        // The greatest current weight; among equal ones the first position.
        let turn =
            |class: &&mut Class| (class.current, std::cmp::Reverse(class.places[class.next]));
        let class = self
            .classes
            .iter_mut()
            .max_by_key(turn)
            .expect("nodes are made only where there are peers");
        let place = class.places[class.next];
        class.next += 1;
        if class.next == class.places.len() {
            // Every peer of the class has now been picked once more.
            class.next = 0;
            class.current -= self.total;
        }
        place
    }
}
