//! Connection ids, which lead packets to their connections.
//!
//! The first byte is random, the second names the thread, hidden from whoever has not the key; the
//! others are random. An id that a client has chosen for its first packets leads to its connection
//! as well, until the handshake is over.

use super::routes::Routes;
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::{ConnectionId, ResetKey, ResetToken};
use sealane_sys::socket::CidFormat;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of the ids that this server makes. Longer ones would cost room in every packet.
pub(crate) const ID_BYTES: usize = 10;
/// Which of them names the thread.
const SLOT_AT: u8 = 1;

/// The keys of all threads of a process.
pub(crate) struct IdKeys {
    pub(super) format: CidFormat,
    pub(super) resets: ResetKey,
}

impl IdKeys {
    /// From a secret.
    pub(crate) fn new(secret: &[u8; 32]) -> IdKeys {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&secret[at..at + 4]);
            u32::from_ne_bytes(bytes)
        };
        let format = CidFormat::new(ID_BYTES as u8, SLOT_AT, [word(0), word(4)]);
        IdKeys {
            format: format.expect("the length has room for slot and mask"),
            resets: ResetKey::new(secret),
        }
    }
}

/// Random bits, a buffer at a time.
pub(crate) struct Random {
    bytes: [u8; 256],
    at: usize,
}

impl Random {
    pub(crate) fn new() -> Random {
        Random {
            bytes: [0; 256],
            at: 256,
        }
    }

    /// Fills a small slice.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.at == self.bytes.len() {
                // It fails on no kernel that this runs on.
                let _ = getrandom::fill(&mut self.bytes);
                self.at = 0;
            }
            *byte = std::mem::take(&mut self.bytes[self.at]);
            self.at += 1;
        }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }
}

/// The ids of one connection.
pub(crate) struct ConnectionIds {
    routes: Rc<Routes>,
    inbox: Arc<ForwardQueue>,
    /// Those that lead here.
    own: Vec<ConnectionId>,
}

impl ConnectionIds {
    pub(crate) fn new(routes: Rc<Routes>) -> ConnectionIds {
        ConnectionIds {
            routes,
            inbox: Arc::default(),
            own: Vec::new(),
        }
    }

    /// Where packets wait for the connection.
    pub(crate) fn inbox(&self) -> &Arc<ForwardQueue> {
        &self.inbox
    }

    /// An id that no other connection has.
    pub(crate) fn make(&mut self) -> (ConnectionId, ResetToken) {
        loop {
            let id = self.routes.random_id();
            if self.routes.add(id, &self.inbox) {
                self.own.push(id);
                return (id, self.routes.reset_token(&id));
            }
        }
    }

    /// Packets to an id that the client has chosen come here as well. Returns false if it leads to
    /// another connection.
    pub(crate) fn add(&mut self, id: ConnectionId) -> bool {
        let is_new = self.routes.add(id, &self.inbox);
        if is_new {
            self.own.push(id);
        }
        is_new
    }

    /// An id leads nowhere any more.
    pub(crate) fn retire(&mut self, id: &ConnectionId) {
        self.routes.remove(id);
        self.own.retain(|known| known != id);
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.routes.random()
    }
}

impl Drop for ConnectionIds {
    fn drop(&mut self) {
        for id in &self.own {
            self.routes.remove(id);
        }
    }
}
