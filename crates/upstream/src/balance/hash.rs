//! `hash key`: by the CRC-32 of the key, like Cache::Memcached and nginx. A miss leads to the hash
//! of the number of the miss followed by the key.

use super::{Choice, MAX_MISSES, is_eligible};
use crate::crc32::Crc32;
use crate::peer_set::Tier;
use crate::tried::Tried;

/// The progress of a request along its hashes.
#[derive(Debug, Clone, Default)]
pub(crate) struct HashWalk {
    /// The current hash.
    pub(super) hash: u32,
    /// Hashes so far.
    pub(super) steps: u32,
    /// Peers that could not be picked.
    pub(super) misses: u32,
}

pub(super) fn pick(tier: &Tier, key: &[u8], tried: &mut Tried, now_ms: u64) -> Choice {
    if tried.walk.misses > MAX_MISSES || tier.peers.len() < 2 || key.is_empty() {
        return Choice::RoundRobin;
    }
    loop {
        let walk = &mut tried.walk;
        let crc = match walk.steps {
            0 => Crc32::new(),
            steps => Crc32::new().and(itoa::Buffer::new().format(steps).as_bytes()),
        };
        let part = (crc.and(key).value() >> 16) & 0x7fff;
        walk.hash = walk.hash.wrapping_add(part);
        walk.steps += 1;
        let place = tier
            .index
            .place_of_weight(u64::from(walk.hash) % tier.index.total_weight());
        if is_eligible(tier, place, tried, now_ms) {
            return Choice::Peer(place);
        }
        tried.walk.misses += 1;
        if tried.walk.misses > MAX_MISSES {
            return Choice::RoundRobin;
        }
    }
}
