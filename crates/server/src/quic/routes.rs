//! Which connection of a thread a packet belongs to.

use super::ids::{ID_BYTES, IdKeys, Random};
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::{ConnectionId, ResetToken};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The connections of one thread by the ids that lead to them.
pub(crate) struct Routes {
    by_id: RefCell<HashMap<ConnectionId, Arc<ForwardQueue>>>,
    random: RefCell<Random>,
    keys: Arc<IdKeys>,
    /// The thread, as ids name it.
    slot: u8,
}

impl Routes {
    pub(crate) fn new(keys: Arc<IdKeys>, slot: u8) -> Routes {
        Routes {
            by_id: RefCell::default(),
            random: RefCell::new(Random::new()),
            keys,
            slot,
        }
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
        self.keys.format.name_slot(&mut bytes, self.slot);
        ConnectionId::new(&bytes).expect("ids have at most 20 bytes")
    }

    pub(super) fn reset_token(&self, id: &ConnectionId) -> ResetToken {
        self.keys.resets.token(id)
    }

    /// The thread that an id names, if it is another one.
    pub(super) fn other_thread(&self, datagram: &[u8]) -> Option<u8> {
        let slot = self.keys.format.slot_of_datagram(datagram)?;
        (slot != self.slot).then_some(slot)
    }

    pub(super) fn random(&self) -> u64 {
        self.random.borrow_mut().next()
    }

    pub(super) fn fill_random(&self, out: &mut [u8]) {
        self.random.borrow_mut().fill(out);
    }

    /// How many ids lead to connections.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.borrow().len()
    }
}
