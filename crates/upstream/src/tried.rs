//! The peers that one request has tried.

use super::balance::HashWalk;
use super::peer::{Peer, PeerId};
use super::peer_set::{PeerSet, TierName};
use smallvec::SmallVec;

/// A request's way through the peers of one group: which peers it has tried, and how many tries are
/// left. Created for each request and passed to every pick.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// `proxy_next_upstream_tries`; 0 means no limit.
    limit: u32,
    /// Unknown before the first pick.
    left: Option<u32>,
    /// The generation of the list that `places` refers to.
    generation: u64,
    pub(super) tier: TierName,
    places: Places,
    /// The same peers by identity, to find them in another list.
    peers: SmallVec<[PeerId; 4]>,
    pub(super) walk: HashWalk,
}

impl Tried {
    /// A request that has tried nothing. `limit` is `proxy_next_upstream_tries`: 0 allows as many
    /// tries as there are peers.
    #[must_use]
    pub fn new(limit: u32) -> Tried {
        Tried {
            limit,
            ..Tried::default()
        }
    }

    /// Tries left after the last pick. A group with a single peer leaves none.
    pub fn left(&self) -> u32 {
        self.left.unwrap_or(0)
    }

    /// Whether it can no longer go to every peer.
    pub(super) fn has_any(&self) -> bool {
        !self.peers.is_empty() || self.tier == TierName::Backup
    }

    /// No other peer is to be tried.
    pub fn end(&mut self) {
        self.left = Some(0);
    }

    /// Gives a try back: the peer closed an idle connection just as the request was sent on it,
    /// which says nothing about the peer.
    pub fn again(&mut self) {
        self.left = Some(self.left().saturating_add(1));
    }

    /// Prepares for a pick among these peers.
    pub(super) fn fit(&mut self, set: &PeerSet) {
        if self.left.is_none() {
            let all = if set.single { 1 } else { set.tries };
            self.left = Some(if self.limit == 0 {
                all
            } else {
                all.min(self.limit)
            });
            self.generation = set.generation;
        } else if self.generation != set.generation {
            self.generation = set.generation;
            self.places = Places::default();
            let tier = set.tier(self.tier);
            for (place, peer) in tier.peers.iter().enumerate() {
                if self.peers.contains(&peer.id) {
                    self.places.add(place);
                }
            }
        }
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.places.has(place)
    }

    /// Records a pick.
    pub(super) fn add(&mut self, place: usize, peer: &Peer) {
        self.places.add(place);
        self.peers.push(peer.id);
        self.count_try();
    }

    /// Counts a pick.
    pub(super) fn count_try(&mut self) {
        self.left = Some(self.left().saturating_sub(1));
    }

    /// Switches to backup peers.
    pub(super) fn turn_to_backup(&mut self) {
        self.tier = TierName::Backup;
        self.places = Places::default();
        self.peers.clear();
    }
}

/// A set of positions. Requests rarely try more than a few peers, but a group may have thousands.
#[derive(Debug, Clone)]
enum Places {
    Few(SmallVec<[u32; MAX_FEW]>),
    /// One bit per position.
    Many(Vec<u64>),
}

const MAX_FEW: usize = 6;

impl Default for Places {
    fn default() -> Places {
        Places::Few(SmallVec::new())
    }
}

impl Places {
    fn has(&self, place: usize) -> bool {
        match self {
            Places::Few(few) => few.iter().any(|tried| *tried as usize == place),
            Places::Many(words) => {
                let word = words.get(place / 64);
                word.is_some_and(|word| word & (1 << (place % 64)) != 0)
            }
        }
    }

    fn add(&mut self, place: usize) {
        match self {
            // A group has fewer than 2^32 peers.
            Places::Few(few) if few.len() < MAX_FEW => few.push(place as u32),
            Places::Few(few) => {
                let few = std::mem::take(few);
                *self = Places::Many(Vec::new());
                for tried in few {
                    self.add(tried as usize);
                }
                self.add(place);
            }
            Places::Many(words) => {
                if words.len() <= place / 64 {
                    words.resize(place / 64 + 1, 0);
                }
                words[place / 64] |= 1 << (place % 64);
            }
        }
    }
}
