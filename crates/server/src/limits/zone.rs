//! The memory of a zone: shards with a lock each. Keys are found by hash and ordered by use,
//! and take as much memory as in nginx.

use crate::metrics::ZoneFill;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Minimum size of a shard: small zones are one list, as in nginx.
const MIN_SHARD_BYTES: usize = 128 << 10;
/// More shards than threads, so that two threads rarely need the same one.
const MAX_SHARDS: usize = 64;

const PAGE_BYTES: usize = 4096;
/// Overhead of nginx's slab allocator, and of each page.
const POOL_BYTES: usize = 704;
const PAGE_OVERHEAD_BYTES: usize = 24;

/// Keys, each with a state.
pub(crate) struct Zone<S> {
    shards: Box<[Padded<S>]>,
    /// Seeded at random: clients choose keys, but not their shards.
    hasher: RandomState,
    /// Memory of a node in nginx besides its key.
    node_bytes: usize,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Padded<S>(Mutex<Shard<S>>);

/// Where a key is kept in its zone: the shard, and the hash within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPosition {
    shard: u32,
    hash: u64,
}

impl<S> Zone<S> {
    /// An empty zone of this size, as nginx counts it.
    pub(crate) fn new(zone_bytes: u64, node_bytes: usize) -> Zone<S> {
        let room = room(zone_bytes);
        let wanted = (room / MIN_SHARD_BYTES).clamp(1, MAX_SHARDS);
        Zone::with_shards(1 << wanted.ilog2(), room, node_bytes)
    }

    /// The same with one list of all keys in the order of their use; threads wait for each other.
    pub(crate) fn in_one_shard(zone_bytes: u64, node_bytes: usize) -> Zone<S> {
        Zone::with_shards(1, room(zone_bytes), node_bytes)
    }

    fn with_shards(shards: usize, room: usize, node_bytes: usize) -> Zone<S> {
        let shard = || Padded(Mutex::new(Shard::new(room / shards)));
        Zone {
            shards: std::iter::repeat_with(shard).take(shards).collect(),
            hasher: RandomState::new(),
            node_bytes,
        }
    }

    /// The position of a key.
    pub(crate) fn position_of(&self, key: &[u8]) -> KeyPosition {
        let hash = self.hasher.hash_one(key);
        // The table uses the other end of the hash.
        let shard = (hash >> 32) as usize & (self.shards.len() - 1);
        KeyPosition {
            shard: shard as u32, // below MAX_SHARDS
            hash,
        }
    }

    /// Locks the shard of a position, for a few instructions.
    pub(crate) fn lock(&self, position: KeyPosition) -> Locked<'_, S> {
        let mutex = &self.shards[position.shard as usize].0;
        Locked {
            // Nothing that can panic runs while it is held.
            shard: mutex.lock().unwrap_or_else(PoisonError::into_inner),
            hash: position.hash,
            node_bytes: self.node_bytes,
        }
    }

    /// What it holds.
    pub(crate) fn fill(&self) -> ZoneFill {
        let mut fill = ZoneFill::default();
        for shard in &self.shards {
            let shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            fill.keys += shard.table.len() as u64;
            fill.used_bytes += shard.used_bytes as u64;
            fill.size_bytes += shard.max_bytes as u64;
        }
        fill
    }

    /// Calls `show` with every key and its state. Each shard is locked meanwhile, one by one.
    pub(crate) fn each(&self, mut show: impl FnMut(&[u8], &S)) {
        for shard in &self.shards {
            let shard = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            for id in &shard.table {
                let node = &shard.nodes[*id as usize];
                show(&node.key, &node.state);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }
}

/// A shard that is locked, for a key with a certain hash.
pub(crate) struct Locked<'z, S> {
    shard: MutexGuard<'z, Shard<S>>,
    hash: u64,
    node_bytes: usize,
}

/// Number of a node in its shard. It stays the same until the node is removed.
pub(crate) type NodeId = u32;

impl<S> Locked<'_, S> {
    /// The node of a key, which becomes the most recently used one.
    pub(crate) fn find(&mut self, key: &[u8]) -> Option<NodeId> {
        let shard = &mut *self.shard;
        let is_it = |id: &NodeId| *shard.nodes[*id as usize].key == *key;
        let id = *shard.table.find(self.hash, is_it)?;
        shard.unlink(id);
        shard.link(id);
        Some(id)
    }

    /// The state of a node.
    pub(crate) fn state(&mut self, id: NodeId) -> &mut S {
        &mut self.shard.nodes[id as usize].state
    }

    /// Whether there is room for another key.
    pub(crate) fn has_room(&self, key: &[u8]) -> bool {
        let needed = slab_bytes(self.node_bytes + key.len());
        self.shard.used_bytes + needed <= self.shard.max_bytes
    }

    /// Whether an empty zone would have room for this key.
    pub(crate) fn may_ever_have_room(&self, key: &[u8]) -> bool {
        slab_bytes(self.node_bytes + key.len()) <= self.shard.max_bytes
    }

    /// Adds a new key, for which there is room.
    pub(crate) fn insert(&mut self, key: &[u8], state: S) -> NodeId {
        let bytes = slab_bytes(self.node_bytes + key.len());
        let shard = &mut *self.shard;
        shard.used_bytes += bytes;
        let node = Node {
            key: key.into(),
            hash: self.hash,
            state,
            newer: NONE,
            older: NONE,
        };
        let id = match shard.free.pop() {
            Some(id) => {
                shard.nodes[id as usize] = node;
                id
            }
            None => {
                shard.nodes.push(node);
                (shard.nodes.len() - 1) as NodeId // a zone has far fewer nodes
            }
        };
        let nodes = &shard.nodes;
        let hash_of = |id: &NodeId| nodes[*id as usize].hash;
        shard.table.insert_unique(self.hash, id, hash_of);
        shard.link(id);
        id
    }

    /// How many keys there are in the shard.
    pub(crate) fn len(&self) -> usize {
        self.shard.table.len()
    }

    /// The node that was used longest ago.
    pub(crate) fn oldest(&self) -> Option<NodeId> {
        Some(self.shard.oldest).filter(|id| *id != NONE)
    }

    /// Forgets a node.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let node_bytes = self.node_bytes;
        let shard = &mut *self.shard;
        shard.unlink(id);
        let node = &mut shard.nodes[id as usize];
        let key = std::mem::take(&mut node.key);
        if let Ok(entry) = shard.table.find_entry(node.hash, |other| *other == id) {
            entry.remove();
        }
        shard.used_bytes -= slab_bytes(node_bytes + key.len());
        shard.free.push(id);
    }
}

/// How much of a zone is for keys.
fn room(zone_bytes: u64) -> usize {
    let bytes = usize::try_from(zone_bytes).unwrap_or(usize::MAX);
    let pages = bytes.saturating_sub(POOL_BYTES) / (PAGE_BYTES + PAGE_OVERHEAD_BYTES);
    // One page is taken by the name of the zone.
    pages.saturating_sub(1) * PAGE_BYTES
}

/// How much nginx's slab allocator allocates for this many bytes.
fn slab_bytes(bytes: usize) -> usize {
    match bytes {
        0..=8 => 8,
        9..=2048 => bytes.next_power_of_two(),
        _ => bytes.next_multiple_of(PAGE_BYTES),
    }
}

const NONE: NodeId = NodeId::MAX;

struct Shard<S> {
    table: HashTable<NodeId>,
    nodes: Vec<Node<S>>,
    free: Vec<NodeId>,
    newest: NodeId,
    oldest: NodeId,
    used_bytes: usize,
    max_bytes: usize,
}

struct Node<S> {
    key: Box<[u8]>,
    hash: u64,
    state: S,
    newer: NodeId,
    older: NodeId,
}

impl<S> Shard<S> {
    fn new(max_bytes: usize) -> Shard<S> {
        Shard {
            table: HashTable::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            used_bytes: 0,
            max_bytes,
        }
    }

    fn link(&mut self, id: NodeId) {
        let before = std::mem::replace(&mut self.newest, id);
        let node = &mut self.nodes[id as usize];
        node.newer = NONE;
        node.older = before;
        match before {
            NONE => self.oldest = id,
            before => self.nodes[before as usize].newer = id,
        }
    }

    fn unlink(&mut self, id: NodeId) {
        let Node { newer, older, .. } = self.nodes[id as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}
