//! Connection ids, which lead packets to their connections.
//!
//! ```text
//!  byte  0        1   2     3         4        5 .. 8   9 .. 11
//!        random | node id | process | thread | random | random
//! ```
//!
//! The node id is `quic_node_id`, as it is, for load balancers; then the three upper bits of the
//! first byte are 0, as in draft-ietf-quic-load-balancers for configuration 0 with server ids of
//! two bytes in plain text. Without one, these bytes are random. Process and thread are hidden from
//! whoever has not the key ([`CidFormat`]). The length is always the same, so that whatever a
//! configuration says, the ids of all processes can be read.
//!
//! An id that a client has chosen for its first packets leads to its connection as well, until the
//! handshake is over.

use super::routes::Routes;
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::{ConnectionId, ResetToken};
use sealane_sys::socket::CidFormat;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of the ids that this server makes. Longer ones would cost room in every packet.
pub(crate) const ID_BYTES: usize = 12;
/// Where the id of the node is.
const NODE_AT: usize = 1;
/// Which byte names the process.
const PROCESS_AT: u8 = 3;
/// Which of them names the thread.
const THREAD_AT: u8 = 4;
/// The bits of the first byte that tell load balancers which configuration an id is of.
const CONFIGURATION_BITS: u8 = 0xe0;

/// What leads the packets of all processes of a server to their threads.
#[derive(Clone, Copy)]
pub(crate) struct IdFormat {
    /// The thread, also for the filter of the kernel.
    pub(super) threads: CidFormat,
    processes: CidFormat,
}

impl IdFormat {
    /// From a secret that all processes of the server have.
    pub(crate) fn new(secret: &[u8; 32]) -> IdFormat {
        let format = |at: u8, key: usize| {
            let word = |at: usize| {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&secret[at..at + 4]);
                u32::from_ne_bytes(bytes)
            };
            let format = CidFormat::new(ID_BYTES as u8, at, [word(key), word(key + 4)]);
            format.expect("the length has room for slot and mask")
        };
        IdFormat {
            threads: format(THREAD_AT, 0),
            processes: format(PROCESS_AT, 8),
        }
    }

    /// Makes an id of random bytes.
    pub(super) fn name(&self, bytes: &mut [u8; ID_BYTES], place: IdPlace) {
        if let Some(node) = place.node {
            bytes[0] &= !CONFIGURATION_BITS;
            bytes[NODE_AT..NODE_AT + 2].copy_from_slice(&node.to_be_bytes());
        }
        // The process is hidden by what hides the thread.
        self.threads.name_slot(bytes, place.thread);
        self.processes.name_slot(bytes, place.process);
    }

    /// Process and thread that the id of a packet names; one that a client has chosen names any.
    pub(super) fn place(&self, datagram: &[u8]) -> Option<(u8, u8)> {
        let process = self.processes.slot_of_datagram(datagram)?;
        Some((process, self.threads.slot_of_datagram(datagram)?))
    }
}

/// The node that an id names, if ids name nodes (`quic_node_id`).
pub(super) fn node_of(id: &[u8]) -> Option<u16> {
    let bytes = id.get(NODE_AT..NODE_AT + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// What an id names.
#[derive(Clone, Copy)]
pub(super) struct IdPlace {
    pub(super) node: Option<u16>,
    pub(super) process: u8,
    pub(super) thread: u8,
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
    pub(super) routes: Rc<Routes>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first byte of a short header.
    const SHORT: u8 = 0x40;

    fn datagram(id: &[u8]) -> Vec<u8> {
        [&[SHORT], id, &[0; 20]].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn ids_name_node_process_and_thread(
            secret in any::<[u8; 32]>(),
            random in any::<[u8; ID_BYTES]>(),
            node in any::<Option<u16>>(),
            process in any::<u8>(),
            thread in any::<u8>(),
        ) {
            let format = IdFormat::new(&secret);
            let mut id = random;
            format.name(&mut id, IdPlace { node, process, thread });
            prop_assert_eq!(format.place(&datagram(&id)), Some((process, thread)));
            if let Some(node) = node {
                prop_assert_eq!(id[0] & CONFIGURATION_BITS, 0);
                prop_assert_eq!(&id[NODE_AT..NODE_AT + 2], &node.to_be_bytes());
            } else {
                prop_assert_eq!(&id[..3], &random[..3]);
            }
            // Of any other length, it is not one of ours.
            prop_assert_eq!(format.place(&datagram(&id)[..ID_BYTES]), None);
        }
    }

    #[test]
    fn process_and_thread_do_not_show() {
        let format = IdFormat::new(&[7; 32]);
        let place = IdPlace {
            node: None,
            process: 1,
            thread: 2,
        };
        let mut bytes = std::collections::HashSet::new();
        for number in 0..64_u8 {
            let mut id = [number.wrapping_mul(41); ID_BYTES];
            format.name(&mut id, place);
            bytes.insert((id[3], id[4]));
        }
        assert!(bytes.len() > 32, "they would link the ids of a connection");
    }
}
