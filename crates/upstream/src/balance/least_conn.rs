//! `least_conn`: the peer with the fewest active requests relative to its weight. Among several
//! such peers, smooth weighted round robin decides. A pick looks at every peer.

use super::{Positions, is_eligible, round_robin};
use crate::peer_set::Tier;
use crate::tried::Tried;

pub(super) fn pick(
    tier: &Tier,
    positions: &mut Positions,
    tried: &Tried,
    now_ms: u64,
) -> Option<usize> {
    let mut best: Option<Load> = None;
    let mut several = false;
    for place in 0..tier.peers.len() {
        if !is_eligible(tier, place, tried, now_ms) {
            continue;
        }
        let load = Load::of(tier, place, now_ms);
        match best {
            Some(least) if least.equals(load) => several = true,
            Some(least) if least.less_than(load) => {}
            _ => (best, several) = (Some(load), false),
        }
    }
    let least = best?;
    if !several {
        return Some(least.place);
    }
    // Other threads keep counting meanwhile: peers are compared with the current load of the peer
    // found. If none is equal any more, that peer is picked.
    let equal =
        (least.place..tier.peers.len()).filter(|at| least.equals(Load::of(tier, *at, now_ms)));
    let turn = round_robin::turn_among(tier, positions, equal, tried, now_ms);
    turn.or(Some(least.place))
}

/// Active requests relative to the weight.
#[derive(Debug, Clone, Copy)]
struct Load {
    place: usize,
    conns: u64,
    weight: u64,
}

impl Load {
    fn of(tier: &Tier, place: usize, now_ms: u64) -> Load {
        let peer = &tier.peers[place];
        Load {
            place,
            conns: peer.conns().into(),
            weight: peer.present_weight(peer.weight.into(), now_ms),
        }
    }

    fn equals(self, other: Load) -> bool {
        self.conns * other.weight == other.conns * self.weight
    }

    fn less_than(self, other: Load) -> bool {
        self.conns * other.weight < other.conns * self.weight
    }
}

/// The peer with the smaller load relative to its weight; the second if they are equal.
pub(super) fn less_loaded(tier: &Tier, first: usize, second: usize, now_ms: u64) -> usize {
    if Load::of(tier, first, now_ms).less_than(Load::of(tier, second, now_ms)) {
        first
    } else {
        second
    }
}
