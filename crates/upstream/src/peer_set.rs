//! The peers of a group at one time.

use super::balance::Index;
use super::health::CheckSettings;
use super::peer::{Peer, PeerAddress, PeerId};
use super::queue::Queue;
use super::servers::ServerEntry;
use super::settings::{Method, ServerSettings};
use super::tried::Tried;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An address that a name resolves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAddress {
    /// The address.
    pub address: PeerAddress,
    /// The target of an SRV record, which replaces the `server` line's name in `hash ...
    /// consistent`.
    pub server: Option<Box<str>>,
    /// The weight of an SRV record. It counts if the `server` line has none.
    pub weight: u32,
    /// An SRV record that does not have the highest priority: a backup peer, or no peer if the
    /// `server` line itself is a backup.
    pub backup: bool,
}

impl ResolvedAddress {
    /// The name of its server.
    pub(super) fn server_name<'a>(&'a self, server: &'a ServerSettings) -> &'a str {
        self.server.as_deref().unwrap_or(&server.name)
    }
}

impl From<PeerAddress> for ResolvedAddress {
    fn from(address: PeerAddress) -> ResolvedAddress {
        ResolvedAddress {
            address,
            server: None,
            weight: 1,
            backup: false,
        }
    }
}

/// What the peers of a group have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupFacts<'a> {
    pub(super) name: &'a str,
    pub(super) checks: &'a Arc<[CheckSettings]>,
    pub(super) queue: &'a Arc<Queue>,
}

/// Primary peers, or backup peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TierName {
    #[default]
    Primary,
    Backup,
}

/// The peers of a group. Immutable; replaced by another set.
#[derive(Debug)]
pub(super) struct PeerSet {
    /// The generation of this set within its group.
    pub(super) generation: u64,
    /// There is only one peer, hence no choice.
    pub(super) single: bool,
    /// How many peers a request may try.
    pub(super) tries: u32,
    /// Requests that wait for one of the peers.
    pub(super) queue: Arc<Queue>,
    primary: Tier,
    backup: Tier,
}

/// A worker thread's own reference to a list of peers. With one per thread, threads do not count
/// references in the same memory at every request.
#[derive(Debug)]
pub(super) struct LocalSet(Arc<PeerSet>);

/// A peer, held for as long as it is in use.
#[derive(Clone)]
pub struct PeerRef {
    set: Arc<LocalSet>,
    tier: TierName,
    place: usize,
}

/// The peers among which a method chooses.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) peers: Vec<Arc<Peer>>,
    /// Data with which the method finds a peer without scanning all.
    pub(super) index: Index,
}

impl PeerSet {
    /// Builds the peers of these servers. Peers of `before` that would be the same are reused, with
    /// their state.
    pub(super) fn build(
        group: GroupFacts<'_>,
        generation: u64,
        method: Method,
        servers: &[ServerEntry],
        before: Option<&PeerSet>,
    ) -> PeerSet {
        let mut known: HashMap<&PeerAddress, Vec<&Arc<Peer>>> = HashMap::new();
        for peer in before.into_iter().flat_map(PeerSet::all) {
            known.entry(peer.address()).or_default().push(peer);
        }
        let (mut primary, mut backup) = (Vec::new(), Vec::new());
        for entry in servers {
            let server = &entry.settings;
            for resolved in &entry.addresses {
                if server.backup && resolved.backup {
                    continue;
                }
                let weight = match server.weight {
                    0 | 1 => resolved.weight,
                    weight => weight,
                };
                let mut take = |is_it: &dyn Fn(&Peer) -> bool| {
                    let there = known.get_mut(&resolved.address)?;
                    let at = there.iter().position(|peer| is_it(peer))?;
                    Some(there.remove(at))
                };
                let found = take(&|peer| peer.is_made_of(server, resolved, weight));
                let peer = match found.or_else(|| take(&|peer| peer.is_at(server, resolved))) {
                    Some(peer)
                        if peer.is_set_as(group, server)
                            && peer.is_made_of(server, resolved, weight) =>
                    {
                        Arc::clone(peer)
                    }
                    Some(peer) => {
                        Arc::new(Peer::new(group, server, resolved, weight).known_as(peer))
                    }
                    None => Arc::new(Peer::new(group, server, resolved, weight)),
                };
                let backs_up = server.backup || resolved.backup;
                if backs_up { &mut backup } else { &mut primary }.push(peer);
            }
        }
        let tries = primary
            .iter()
            .chain(&backup)
            .filter(|peer| !peer.down)
            .count();
        PeerSet {
            generation,
            queue: Arc::clone(group.queue),
            tries: u32::try_from(tries).unwrap_or(u32::MAX),
            single: primary.len() == 1 && backup.is_empty(),
            primary: Tier::new(primary, method),
            backup: Tier::new(backup, method.for_backup()),
        }
    }

    pub(super) fn tier(&self, name: TierName) -> &Tier {
        match name {
            TierName::Primary => &self.primary,
            TierName::Backup => &self.backup,
        }
    }

    /// Marks the peers that are not in `newest` as gone.
    pub(super) fn give_way_to(&self, newest: &PeerSet) {
        let stay: HashSet<PeerId> = newest.all().map(|peer| peer.id).collect();
        for peer in self.all().filter(|peer| !stay.contains(&peer.id)) {
            peer.set_gone();
        }
    }

    /// All peers, primary ones first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.primary.peers.iter().chain(&self.backup.peers)
    }
}

impl LocalSet {
    pub(super) fn new(set: &Arc<PeerSet>) -> Arc<LocalSet> {
        Arc::new(LocalSet(Arc::clone(set)))
    }
}

impl Deref for LocalSet {
    type Target = PeerSet;

    fn deref(&self) -> &PeerSet {
        &self.0
    }
}

impl PeerRef {
    pub(super) fn new(set: &Arc<LocalSet>, tier: TierName, place: usize) -> PeerRef {
        PeerRef {
            set: Arc::clone(set),
            tier,
            place,
        }
    }

    /// The request is over, so another one may have its place.
    pub(super) fn leave(&self) {
        Peer::leave(self);
        self.set.queue.note_change();
    }
}

impl Deref for PeerRef {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.set.tier(self.tier).peers[self.place]
    }
}

impl fmt::Debug for PeerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerRef").field(&self.name()).finish()
    }
}

impl Tier {
    /// The position of the peer with a server id, if it can be picked for a client of its own; a
    /// second time only if there is no other one for it (`is_only`).
    pub(super) fn place_of(
        &self,
        id: &[u8],
        tried: &Tried,
        is_only: bool,
        now_ms: u64,
    ) -> Option<usize> {
        let place = self.peers.iter().position(|peer| peer.server_id() == id)?;
        let peer = &self.peers[place];
        ((is_only || !tried.has(place)) && peer.is_available_to_its_own(now_ms)).then_some(place)
    }

    fn new(peers: Vec<Arc<Peer>>, method: Method) -> Tier {
        let index = Index::new(&peers, method);
        Tier { peers, index }
    }
}
