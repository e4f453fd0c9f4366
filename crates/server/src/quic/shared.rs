//! What all threads of a process share about QUIC.

use super::QuicClock;
use super::ids::IdFormat;
use super::lines::ProcessLines;
use crate::snapshot::Snapshot;
use sealane_io::forwarding::{ForwardQueue, Forwarded};
use sealane_quic::{AddressTokenKey, ResetKey, is_long};
use sealane_sys::socket::CidFormat;
use std::collections::{HashMap, HashSet};
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
    reset_secret: [u8; 32],
}

impl KeyRing {
    /// The keys of `first` and of those that were used before; resets have a secret of their own.
    fn new(
        first: &[u8; 32],
        reset_secret: &[u8; 32],
        node: Option<u16>,
        former: &[[u8; 32]],
    ) -> KeyRing {
        let mut secrets = vec![*first];
        secrets.extend(former.iter().filter(|secret| *secret != first));
        secrets.truncate(MAX_TOKEN_SECRETS);
        KeyRing {
            tokens: secrets.iter().filter_map(AddressTokenKey::new).collect(),
            resets: ResetKey::new(reset_secret),
            node,
            secrets,
            reset_secret: *reset_secret,
        }
    }
}

/// Tokens that are remembered in each of two generations.
const SPENT_TOKENS: usize = 65_536;

/// Tokens that clients have shown: one who has learnt a token, or has had an address that is
/// somebody else's now, could show it for ever (RFC 9000 section 8.1.4). Of more than
/// [`SPENT_TOKENS`], the oldest are forgotten.
#[derive(Default)]
struct SpentTokens {
    newer: HashSet<[u8; 12]>,
    older: HashSet<[u8; 12]>,
}

impl SpentTokens {
    /// Returns whether it was not there.
    fn add(&mut self, nonce: [u8; 12]) -> bool {
        if self.older.contains(&nonce) || !self.newer.insert(nonce) {
            return false;
        }
        if self.newer.len() >= SPENT_TOKENS {
            self.older = std::mem::take(&mut self.newer);
        }
        true
    }
}

/// How well the socket at `listening` suits a datagram that was sent to `local`; `None` if it would
/// not have received that one.
fn suits(listening: SocketAddr, local: SocketAddr) -> Option<u8> {
    let is_wildcard = listening.ip().is_unspecified();
    match (listening == local, listening.is_ipv6() == local.is_ipv6()) {
        _ if listening.port() != local.port() => None,
        (true, _) => Some(2),
        (false, true) if is_wildcard => Some(1),
        // `[::]` may receive what is sent to addresses of IPv4.
        (false, false) if is_wildcard && listening.is_ipv6() => Some(0),
        _ => None,
    }
}

/// Whether the socket at `listening` may have received a datagram that was sent to `local`.
pub(super) fn is_at(listening: SocketAddr, local: SocketAddr) -> bool {
    suits(listening, local).is_some()
}

/// Keys, the clock, and the queues of datagrams that came to the wrong thread.
pub(crate) struct QuicShared {
    pub(crate) clock: QuicClock,
    pub(super) format: IdFormat,
    pub(super) process: u8,
    secret: [u8; 32],
    keys: Mutex<Arc<KeyRing>>,
    spent: Mutex<SpentTokens>,
    /// By thread and the address that it listens at.
    queues: Mutex<HashMap<(u8, SocketAddr), Arc<ForwardQueue>>>,
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
            keys: Mutex::new(Arc::new(KeyRing::new(&secret, &secret, None, &former))),
            spent: Mutex::default(),
            secret,
            queues: Mutex::default(),
            lines: ProcessLines::new(lines),
        }
    }

    /// Uses the keys of a configuration from now on. Those before still open tokens.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        let shared = snapshot.quic_host_secret.as_ref();
        let first = shared.map_or(&self.secret, |secret| &secret.bytes);
        let for_resets = shared.filter(|secret| secret.is_for_resets);
        let reset_secret = for_resets.map_or(&self.secret, |secret| &secret.bytes);
        let node = snapshot.quic_node_id;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.secrets.first() != Some(first)
            || keys.reset_secret != *reset_secret
            || keys.node != node
        {
            *keys = Arc::new(KeyRing::new(first, reset_secret, node, &keys.secrets));
        }
    }

    /// A client has shown the token of this nonce. Returns whether it is the first.
    pub(super) fn spend_token(&self, nonce: &[u8; 12]) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.add(*nonce)
    }

    /// The keys that are current.
    pub(super) fn keys(&self) -> Arc<KeyRing> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// The queue of a thread for packets to its socket at this address, made when it is first asked
    /// for.
    pub(super) fn queue(&self, thread: u8, listening: SocketAddr) -> Arc<ForwardQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.entry((thread, listening)).or_default().clone()
    }

    /// The same for a packet that was sent to `local`, if that thread has such a socket.
    fn find_queue(&self, thread: u8, local: SocketAddr) -> Option<Arc<ForwardQueue>> {
        self.best_queue(local, |known| known == thread)
    }

    /// Any thread's.
    pub(super) fn any_queue(&self, local: SocketAddr) -> Option<Arc<ForwardQueue>> {
        self.best_queue(local, |_| true)
    }

    fn best_queue(
        &self,
        local: SocketAddr,
        may_be: impl Fn(u8) -> bool,
    ) -> Option<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let of_threads = queues.iter().filter(|((thread, _), _)| may_be(*thread));
        let suited = of_threads
            .filter_map(|((_, listening), queue)| Some((suits(*listening, local)?, queue)));
        suited
            .max_by_key(|(rank, _)| *rank)
            .map(|(_, queue)| queue.clone())
    }

    /// The queue of a thread for a packet with its number. What may begin a connection goes to a
    /// socket that would have received it; all sockets of a thread know its connections.
    pub(super) fn queue_for(
        &self,
        thread: u8,
        datagram: Forwarded<&[u8]>,
    ) -> Option<Arc<ForwardQueue>> {
        let queue = self.find_queue(thread, datagram.local);
        queue.or_else(|| match is_long(datagram.bytes) {
            true => None,
            false => self.queue_of_thread(thread),
        })
    }

    /// A queue of a thread, whatever it listens at.
    fn queue_of_thread(&self, thread: u8) -> Option<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_thread = queues.iter().filter(|((known, _), _)| *known == thread);
        of_thread.next().map(|(_, queue)| queue.clone())
    }

    /// The thread receives no more: others answer what comes for it.
    pub(super) fn forget_queue(&self, thread: u8, listening: SocketAddr) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.remove(&(thread, listening));
    }

    /// All of them.
    pub(super) fn all_queues(&self) -> Vec<Arc<ForwardQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.values().cloned().collect()
    }
}

impl Default for QuicShared {
    fn default() -> QuicShared {
        QuicShared::new(QuicPlace::alone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_good_once() {
        let mut spent = SpentTokens::default();
        let nonce = |number: usize| {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&number.to_be_bytes());
            nonce
        };
        for number in 0..2 * SPENT_TOKENS {
            assert!(spent.add(nonce(number)));
            assert!(!spent.add(nonce(number)));
            assert!(!spent.add(nonce(number.saturating_sub(1000))));
        }
        assert!(spent.newer.len() + spent.older.len() <= 2 * SPENT_TOKENS);
    }

    #[test]
    fn packets_go_to_the_socket_that_would_have_received_them() {
        let shared = QuicShared::default();
        let at = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let queues = ["0.0.0.0:1", "[::]:1", "127.0.0.1:1", "[::]:2"].map(|listening| {
            let queue = shared.queue(0, at(listening));
            (at(listening), queue)
        });
        for (local, expected) in [
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("127.0.0.2:1", Some("0.0.0.0:1")),
            ("[::1]:1", Some("[::]:1")),
            ("127.0.0.1:2", Some("[::]:2")),
            ("127.0.0.1:3", None),
        ] {
            let found = shared.find_queue(0, at(local));
            let found = found.and_then(|found| {
                let mut known = queues.iter();
                known.find(|(_, queue)| Arc::ptr_eq(queue, &found))
            });
            assert_eq!(
                found.map(|(listening, _)| *listening),
                expected.map(at),
                "{local}"
            );
        }
        assert!(shared.find_queue(1, at("127.0.0.1:1")).is_none());
        // A socket that goes takes nothing along of others.
        shared.forget_queue(0, at("127.0.0.1:1"));
        let found = shared.any_queue(at("127.0.0.1:1")).expect("the wildcard");
        assert!(Arc::ptr_eq(&found, &queues[0].1));
    }
}
