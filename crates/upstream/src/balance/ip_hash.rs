//! `ip_hash`: by the first three bytes of an IPv4 address or by a whole IPv6 address, with nginx's
//! hash, so that a client gets the same peer as with nginx.

use super::{Choice, MAX_MISSES, is_eligible};
use crate::peer_set::Tier;
use crate::tried::Tried;
use std::net::IpAddr;

/// The initial value of the hash of an address.
const START: u32 = 89;

pub(super) fn pick(tier: &Tier, client: Option<IpAddr>, tried: &mut Tried, now_ms: u64) -> Choice {
    if tried.walk.misses > MAX_MISSES || tier.peers.len() < 2 {
        return Choice::RoundRobin;
    }
    let mut hash = if tried.walk.steps == 0 {
        START
    } else {
        tried.walk.hash
    };
    loop {
        hash = match client {
            Some(IpAddr::V4(address)) => mix(hash, &address.octets()[..3]),
            Some(IpAddr::V6(address)) => mix(hash, &address.octets()),
            None => mix(hash, &[0; 3]),
        };
        let place = tier
            .index
            .place_of_weight(u64::from(hash) % tier.index.total_weight());
        if is_eligible(tier, place, tried, now_ms) {
            tried.walk.hash = hash;
            tried.walk.steps += 1;
            return Choice::Peer(place);
        }
        tried.walk.misses += 1;
        if tried.walk.misses > MAX_MISSES {
            return Choice::RoundRobin;
        }
    }
}

fn mix(hash: u32, bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash * 113 + u32::from(*byte)) % 6271;
    bytes.iter().fold(hash, step)
}
