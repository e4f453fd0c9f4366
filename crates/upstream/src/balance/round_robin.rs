//! Smooth weighted round robin: each pick adds its weight to every peer's current weight, takes the
//! peer with the greatest (the first of several), and subtracts the sum of the weights from it.
//! With weights 5, 1, 1 the picks are a a b a c a a. A pick looks at every peer.

use super::Positions;
use super::is_eligible;
use crate::peer_set::Tier;
use crate::tried::Tried;

pub(super) fn pick(
    tier: &Tier,
    positions: &mut Positions,
    tried: &Tried,
    now_ms: u64,
) -> Option<usize> {
    let places = 0..tier.peers.len();
    turn_among(tier, positions, places, tried, now_ms)
}

/// Takes a turn among the peers at these positions.
pub(super) fn turn_among(
    tier: &Tier,
    positions: &mut Positions,
    places: impl Iterator<Item = usize>,
    tried: &Tried,
    now_ms: u64,
) -> Option<usize> {
    let weights = &mut positions.current_weights;
    let (best, total) = add_weights(tier, weights, places, tried, now_ms);
    let place = best?;
    weights[place] -= total;
    Some(place)
}

/// A peer has got a request out of turn, from a client that belongs to it: as in nginx, that counts
/// as its turn, unless it has had a whole round of them.
pub(super) fn count_turn(
    tier: &Tier,
    positions: &mut Positions,
    place: usize,
    tried: &Tried,
    now_ms: u64,
) {
    let of_others = tier.peers.iter().enumerate().filter(|(at, _)| *at != place);
    let round: i64 = of_others.map(|(_, peer)| peer.full_weight()).sum();
    let weights = &mut positions.current_weights;
    if weights[place] <= -round {
        return;
    }
    let places = 0..tier.peers.len();
    let (_, total) = add_weights(tier, weights, places, tried, now_ms);
    weights[place] -= total;
}

/// Adds the weights of peers that can be picked to their current weights. Returns the peer that is
/// next, and the sum of the weights.
fn add_weights(
    tier: &Tier,
    weights: &mut [i64],
    places: impl Iterator<Item = usize>,
    tried: &Tried,
    now_ms: u64,
) -> (Option<usize>, i64) {
    let mut total = 0;
    let mut best: Option<(usize, i64)> = None;
    for place in places {
        if !is_eligible(tier, place, tried, now_ms) {
            continue;
        }
        let weight = tier.peers[place].turn_weight(now_ms);
        weights[place] += weight;
        total += weight;
        if best.is_none_or(|(_, greatest)| weights[place] > greatest) {
            best = Some((place, weights[place]));
        }
    }
    (best.map(|(place, _)| place), total)
}
