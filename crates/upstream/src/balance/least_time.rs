//! `least_time`: the peer with the least average response time and the fewest active requests,
//! relative to its weight. Among several such peers, smooth weighted round robin decides. A pick
//! looks at every peer.

use super::{Positions, is_eligible, round_robin};
use crate::peer::Peer;
use crate::peer_set::Tier;
use crate::settings::LeastTime;
use crate::tried::Tried;
use std::sync::atomic::Ordering;

pub(super) fn pick(
    rule: LeastTime,
    tier: &Tier,
    positions: &mut Positions,
    tried: &Tried,
    now_ms: u64,
) -> Option<usize> {
    let estimate = |place: usize| Estimate::of(rule, &tier.peers[place], now_ms);
    let mut best: Option<(usize, Estimate)> = None;
    let mut several = false;
    for place in 0..tier.peers.len() {
        if !is_eligible(tier, place, tried, now_ms) {
            continue;
        }
        let time = estimate(place);
        match best {
            Some((_, least)) if least.equals(time) => several = true,
            Some((_, least)) if least.less_than(time) => {}
            _ => (best, several) = (Some((place, time)), false),
        }
    }
    let (place, least) = best?;
    if !several {
        return Some(place);
    }
    // Other threads keep counting meanwhile: if none is equal any more, that peer is picked.
    let equal = (place..tier.peers.len()).filter(|at| least.equals(estimate(*at)));
    let turn = round_robin::turn_among(tier, positions, equal, tried, now_ms);
    turn.or(Some(place))
}

/// The peer with the smaller expected time relative to its weight; the second if they are equal.
pub(super) fn faster(
    rule: LeastTime,
    tier: &Tier,
    first: usize,
    second: usize,
    now_ms: u64,
) -> usize {
    let estimate = |place: usize| Estimate::of(rule, &tier.peers[place], now_ms);
    match estimate(first).less_than(estimate(second)) {
        true => first,
        false => second,
    }
}

/// The expected time relative to the weight.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    time_ms: u64,
    weight: u64,
}

impl Estimate {
    fn of(rule: LeastTime, peer: &Peer, now_ms: u64) -> Estimate {
        // In whole seconds of the clock, as in nginx.
        let checked_s = peer.checked_ms.load(Ordering::Relaxed) / 1000;
        let unchecked_s = (now_ms / 1000).saturating_sub(checked_s);
        let fail_timeout_s = peer.fail_timeout_ms / 1000;
        let timeouts = match unchecked_s > fail_timeout_s {
            true => unchecked_s / (fail_timeout_s + 1),
            false => 0,
        };
        Estimate {
            time_ms: peer.times.estimate(rule, peer.conns(), timeouts, now_ms),
            weight: peer.present_weight(peer.weight.into(), now_ms),
        }
    }

    fn equals(self, other: Estimate) -> bool {
        self.time_ms * other.weight == other.time_ms * self.weight
    }

    fn less_than(self, other: Estimate) -> bool {
        self.time_ms * other.weight < other.time_ms * self.weight
    }
}
