//! `random` and `random two`: a random peer, in proportion to the weights; with `two`, the less
//! loaded or the faster of two random peers, relative to their weights.

use super::{Choice, MAX_MISSES, Positions, is_eligible};
use crate::peer_set::Tier;
use crate::tried::Tried;

pub(super) fn pick(
    tier: &Tier,
    positions: &mut Positions,
    tried: &mut Tried,
    now_ms: u64,
) -> Choice {
    match draw(tier, positions, tried, now_ms, None) {
        Some(place) => Choice::Peer(place),
        None => Choice::RoundRobin,
    }
}

pub(super) fn pick_of_two(
    tier: &Tier,
    positions: &mut Positions,
    tried: &mut Tried,
    now_ms: u64,
    better: impl Fn(&Tier, usize, usize, u64) -> usize,
) -> Choice {
    let mut next = |first| draw(tier, positions, tried, now_ms, first);
    let first = next(None);
    match (first, first.and_then(|_| next(first))) {
        (Some(first), Some(second)) => Choice::Peer(better(tier, first, second, now_ms)),
        _ => Choice::RoundRobin,
    }
}

/// An eligible peer other than `other_than`. `None` if too many draws found others, or if there is
/// nothing to choose from.
fn draw(
    tier: &Tier,
    positions: &mut Positions,
    tried: &mut Tried,
    now_ms: u64,
    other_than: Option<usize>,
) -> Option<usize> {
    if tier.peers.len() < 2 {
        return None;
    }
    while tried.walk.misses <= MAX_MISSES {
        let at = positions.random.below(tier.index.total_weight());
        let place = tier.index.place_of_weight(at);
        if other_than != Some(place) && is_eligible(tier, place, tried, now_ms) {
            return Some(place);
        }
        tried.walk.misses += 1;
    }
    None
}

/// Random numbers for balancing: fast and uniform, not secret (SplitMix64).
#[derive(Debug, Clone, Default)]
pub(super) struct Random {
    /// Seeded at the first use, in the process that uses it: a copy made before a fork would give
    /// every worker process the same sequence.
    state: Option<u64>,
}

impl Random {
    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let state = self.state.get_or_insert_with(seed);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The upper half of the product: no division, and uniform to one part in 2^64 / end.
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }
}

fn seed() -> u64 {
    // Without random numbers from the kernel, the address of a variable on the stack, which differs
    // from process to process, is enough.
    getrandom::u64().unwrap_or_else(|_| {
        let here = 0_u8;
        (&raw const here).addr() as u64
    })
}
