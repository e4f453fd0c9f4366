//! What all threads of a process share about QUIC.

use super::QuicClock;
use super::ids::IdFormat;
use super::lines::ProcessLines;
use crate::snapshot::Snapshot;
use sealane_io::forwarding::ForwardQueue;
use sealane_quic::{AddressTokenKey, ResetKey};
use sealane_sys::socket::CidFormat;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys of tokens that are known at a time: the newest seals, those before still open. Tokens of
/// Retry packets live for seconds, others for a day, and keys change less often than that.
pub const MAX_TOKEN_SECRETS: usize = 4;

/// What the process inherits from those before it, so that packets find their way from one to the
/// other.
pub struct QuicPlace {
    /// Known to all processes of the server, and to no one else.
    pub secret: [u8; 32],
    /// The number of this process in connection ids.
    pub process: u8,
    /// Secrets of `quic_host_key` that were used before, the newest first.
    pub former: Vec<[u8; 32]>,
    /// Lines to processes that serve connections still, by their numbers.
    pub lines: Vec<(u8, OwnedFd)>,
}

impl QuicPlace {
    /// That of a process without any other.
    pub fn alone() -> QuicPlace {
        QuicPlace {
            secret: random_quic_secret(),
            process: 0,
            former: Vec::new(),
            lines: Vec::new(),
        }
    }
}

/// A secret that nobody else has.
pub fn random_quic_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    // It fails on no kernel that this runs on.
    let _ = getrandom::fill(&mut secret);
    secret
}

/// How the filter of sockets for QUIC finds the thread in a connection id.
pub fn thread_of_quic_ids(secret: &[u8; 32]) -> CidFormat {
    IdFormat::new(secret).threads
}

/// Keys of what is sent to clients to be shown again.
pub(crate) struct KeyRing {
    /// The first one seals.
    pub(super) tokens: Vec<AddressTokenKey>,
    pub(super) resets: ResetKey,
    pub(super) node: Option<u16>,
    secrets: Vec<[u8; 32]>,
}

impl KeyRing {
    /// The keys of `first` and of those that were used before.
    fn new(first: &[u8; 32], node: Option<u16>, former: &[[u8; 32]]) -> KeyRing {
        let mut secrets = vec![*first];
        secrets.extend(former.iter().filter(|secret| *secret != first));
        secrets.truncate(MAX_TOKEN_SECRETS);
        KeyRing {
            tokens: secrets.iter().filter_map(AddressTokenKey::new).collect(),
            resets: ResetKey::new(first),
            node,
            secrets,
        }
    }
}

/// A port, and whether it is one of IPv6, for which there are other sockets.
pub(super) type Port = (u16, bool);

/// The port of an address.
pub(super) fn port_of(local: SocketAddr) -> Port {
    (local.port(), local.is_ipv6())
}

/// Keys, the clock, and the queues of datagrams that came to the wrong thread.
pub(crate) struct QuicShared {
    pub(crate) clock: QuicClock,
    pub(super) format: IdFormat,
    pub(super) process: u8,
    secret: [u8; 32],
    keys: Mutex<Arc<KeyRing>>,
    queues: Mutex<HashMap<(u8, Port), Arc<ForwardQueue>>>,
    pub(super) lines: ProcessLines,
}

impl QuicShared {
    /// At a place among the processes of the server.
    pub(crate) fn new(place: QuicPlace) -> QuicShared {
        let QuicPlace {
            secret,
            process,
            former,
            lines,
        } = place;
        QuicShared {
            clock: QuicClock::new(),
            format: IdFormat::new(&secret),
            process,
            keys: Mutex::new(Arc::new(KeyRing::new(&secret, None, &former))),
            secret,
            queues: Mutex::default(),
            lines: ProcessLines::new(lines),
        }
    }

    /// Uses the keys of a configuration from now on. Those before still open tokens.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        let first = snapshot.quic_host_secret.as_ref().unwrap_or(&self.secret);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.secrets.first() != Some(first) || keys.node != snapshot.quic_node_id {
            *keys = Arc::new(KeyRing::new(first, snapshot.quic_node_id, &keys.secrets));
        }
    }

    /// The keys that are current.
    pub(super) fn keys(&self) -> Arc<KeyRing> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// The queue of a thread for packets to this port, made when it is first asked for.
    pub(super) fn queue(&self, thread: u8, port: Port) -> Arc<ForwardQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.entry((thread, port)).or_default().clone()
    }

    /// The same, if that thread has a socket there.
    pub(super) fn find_queue(&self, thread: u8, port: Port) -> Option<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.get(&(thread, port)).cloned()
    }

    /// The thread receives no more: others answer what comes for it.
    pub(super) fn forget_queue(&self, thread: u8, port: Port) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.remove(&(thread, port));
    }

    /// All of them.
    pub(super) fn all_queues(&self) -> Vec<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.values().cloned().collect()
    }

    /// Any thread's queue for packets to this port, if possible of this kind of addresses.
    pub(super) fn any_queue(&self, port: Port) -> Option<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = queues.iter().filter(|((_, known), _)| known.0 == port.0);
        let found = own.clone().find(|((_, known), _)| *known == port);
        found.or(own.next()).map(|(_, queue)| queue.clone())
    }
}

impl Default for QuicShared {
    fn default() -> QuicShared {
        QuicShared::new(QuicPlace::alone())
    }
}
