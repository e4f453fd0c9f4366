//! Which connection of a thread a packet belongs to.

use super::ids::{ID_BYTES, IdPlace, Random, node_of};
use super::shared::{KeyRing, QuicShared};
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::{ConnectionId, ResetToken};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The connections of one thread by the ids that lead to them.
pub(crate) struct Routes {
    by_id: RefCell<HashMap<ConnectionId, Arc<ForwardQueue>>>,
    random: RefCell<Random>,
    shared: Arc<QuicShared>,
    keys: RefCell<Arc<KeyRing>>,
    /// The thread, as ids name it.
    thread: u8,
}

impl Routes {
    pub(crate) fn new(shared: Arc<QuicShared>, thread: u8) -> Routes {
        Routes {
            by_id: RefCell::default(),
            random: RefCell::new(Random::new()),
            keys: RefCell::new(shared.keys()),
            shared,
            thread,
        }
    }

    /// Uses the keys that are current.
    pub(super) fn renew_keys(&self) {
        *self.keys.borrow_mut() = self.shared.keys();
    }

    /// The keys of tokens.
    pub(super) fn keys(&self) -> Arc<KeyRing> {
        self.keys.borrow().clone()
    }

    /// The inbox of the connection with this id.
    pub(super) fn find(&self, id: &ConnectionId) -> Option<Arc<ForwardQueue>> {
        self.by_id.borrow().get(id).cloned()
    }

    /// Adds an id. Returns false if it is taken.
    pub(super) fn add(&self, id: ConnectionId, inbox: &Arc<ForwardQueue>) -> bool {
        let mut by_id = self.by_id.borrow_mut();
        let is_new = !by_id.contains_key(&id);
        if is_new {
            by_id.insert(id, inbox.clone());
        }
        is_new
    }

    pub(super) fn remove(&self, id: &ConnectionId) {
        self.by_id.borrow_mut().remove(id);
    }

    /// An id that names this thread.
    pub(super) fn random_id(&self) -> ConnectionId {
        let mut bytes = [0; ID_BYTES];
        self.random.borrow_mut().fill(&mut bytes);
        let place = IdPlace {
            node: self.keys.borrow().node,
            process: self.shared.process,
            thread: self.thread,
        };
        self.shared.format.name(&mut bytes, place);
        ConnectionId::new(&bytes).expect("ids have at most 20 bytes")
    }

    /// Whether an id was made by another node (`quic_node_id`).
    pub(super) fn is_of_other_node(&self, id: &ConnectionId) -> bool {
        let node = self.keys.borrow().node;
        node.is_some_and(|node| node_of(id).is_some_and(|named| named != node))
    }

    pub(super) fn reset_token(&self, id: &ConnectionId) -> ResetToken {
        self.keys.borrow().resets.token(id)
    }

    pub(super) fn random(&self) -> u64 {
        self.random.borrow_mut().next()
    }

    pub(super) fn fill_random(&self, out: &mut [u8]) {
        self.random.borrow_mut().fill(out);
    }
}
