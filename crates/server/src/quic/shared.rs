//! What all threads of a process share about QUIC.

use super::QuicClock;
use super::ids::IdKeys;
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::AddressTokenKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys, the clock, and the queues of datagrams that came to the wrong thread.
pub(crate) struct QuicShared {
    pub(crate) clock: QuicClock,
    pub(super) ids: Arc<IdKeys>,
    /// The first one seals.
    pub(super) token_keys: Vec<AddressTokenKey>,
    /// By thread and port.
    queues: Mutex<HashMap<(u8, u16), Arc<ForwardQueue>>>,
}

impl QuicShared {
    /// With keys that are made from this secret.
    pub(crate) fn new(secret: &[u8; 32]) -> QuicShared {
        QuicShared {
            clock: QuicClock::new(),
            ids: Arc::new(IdKeys::new(secret)),
            token_keys: AddressTokenKey::new(secret).into_iter().collect(),
            queues: Mutex::default(),
        }
    }

    /// The queue of a thread for packets to this port, made when it is first asked for.
    pub(super) fn queue(&self, thread: u8, port: u16) -> Arc<ForwardQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.entry((thread, port)).or_default().clone()
    }

    /// The same, if that thread has a socket there.
    pub(super) fn find_queue(&self, thread: u8, port: u16) -> Option<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.get(&(thread, port)).cloned()
    }
}

impl Default for QuicShared {
    fn default() -> QuicShared {
        let mut secret = [0; 32];
        // It fails on no kernel that this runs on.
        let _ = getrandom::fill(&mut secret);
        QuicShared::new(&secret)
    }
}
