//! Sessions with upstreams, kept for the next connection (`proxy_ssl_session_reuse`).
//!
//! A session may only be offered where the server was, or would be, authenticated in the same way.
//! [`Session`] carries what it is bound to, and both the cache and
//! [`ClientTls::connect`](super::ClientTls::connect) compare it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_awslc as awslc;

use super::build::ClientTls;
use super::name;

/// Default for the number of servers (peer, name and settings) whose sessions are kept.
pub const DEFAULT_MAX_SESSION_KEYS: usize = 1024;
/// Sessions kept per server: TLS 1.3 tickets are best used once each.
const MAX_SESSIONS_PER_KEY: usize = 4;
/// Parts of a cache, each with its own lock.
const SHARDS: usize = 16;

/// What a session is bound to: settings, our certificate, name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Binding {
    pub(super) settings: [u8; 32],
    /// Zeros without a certificate.
    pub(super) identity: [u8; 32],
    pub(super) host: Arc<str>,
}

/// A session with an upstream. Cloning shares it.
#[derive(Clone)]
pub struct Session {
    session: awslc::Session,
    binding: Binding,
}

impl Session {
    pub(super) fn new(session: awslc::Session, binding: Binding) -> Self {
        Self { session, binding }
    }

    pub(super) fn library(&self) -> &awslc::Session {
        &self.session
    }

    pub(super) fn binding(&self) -> &Binding {
        &self.binding
    }

    fn is_usable(&self, now_s: u64) -> bool {
        now_s < self.session.made_s() + u64::from(self.session.timeout_s())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("client::Session(redacted)")
    }
}

/// Sessions by peer, settings and name; bounded, for all threads.
///
/// Keeps the last few sessions of each server, newest first. A TLS 1.3 session is given out once,
/// except for the last, which is reused until a newer one arrives. nginx offers its only session to
/// every connection, and a server that accepts each ticket only once falls back to a full
/// handshake.
pub struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    max_keys_per_shard: usize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Counts uses. An entry records the value at its last use.
    clock: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    peer: Box<[u8]>,
    binding: Binding,
}

struct Entry {
    /// Oldest first.
    sessions: Vec<awslc::Session>,
    used: u64,
}

impl SessionCache {
    /// A cache for about `max_keys` servers; see [`DEFAULT_MAX_SESSION_KEYS`].
    pub fn new(max_keys: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            max_keys_per_shard: max_keys.div_ceil(SHARDS).max(1),
        }
    }

    /// A session to offer to `peer`, if there is one. `peer` is whatever identifies a server to the
    /// caller: an address, or a group and an address. `name` is what [`ClientTls::connect`] gets;
    /// `now_s` is the time in seconds since 1970.
    pub fn get(
        &self,
        tls: &ClientTls,
        peer: &[u8],
        name: Option<&str>,
        now_s: u64,
    ) -> Option<Session> {
        if !tls.reuses_sessions() {
            return None;
        }
        let key = Key {
            peer: peer.into(),
            binding: tls.binding(name::without_port(name.unwrap_or(""))),
        };
        let mut shard = self.shard(&key);
        shard.clock += 1;
        let now = shard.clock;
        let entry = shard.entries.get_mut(&key)?;
        entry.used = now;
        while let Some(newest) = entry.sessions.last() {
            let session = Session::new(newest.clone(), key.binding.clone());
            if !session.is_usable(now_s) {
                entry.sessions.pop();
                continue;
            }
            if session.session.is_for_one_use() && entry.sessions.len() > 1 {
                entry.sessions.pop();
            }
            return Some(session);
        }
        shard.entries.remove(&key);
        None
    }

    /// Keeps a session that [`Connection::take_session`](super::Connection::take_session) returned
    /// on a connection to `peer`.
    pub fn put(&self, peer: &[u8], session: Session) {
        let Session { session, binding } = session;
        let key = Key {
            peer: peer.into(),
            binding,
        };
        let mut shard = self.shard(&key);
        shard.clock += 1;
        let now = shard.clock;
        if let Some(entry) = shard.entries.get_mut(&key) {
            if !session.is_for_one_use() {
                entry.sessions.clear(); // it replaces the others
            }
            if entry.sessions.len() == MAX_SESSIONS_PER_KEY {
                entry.sessions.remove(0);
            }
            entry.sessions.push(session);
            entry.used = now;
            return;
        }
        if shard.entries.len() >= self.max_keys_per_shard {
            shard.evict();
        }
        let sessions = vec![session];
        shard.entries.insert(
            key,
            Entry {
                sessions,
                used: now,
            },
        );
    }

    /// The number of servers with a session.
    pub fn key_count(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(shard).entries.len())
            .sum()
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        lock(&self.shards[hash as usize % SHARDS])
    }
}

/// A panic leaves every entry consistent.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Drops the least recently used entry.
    fn evict(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.entries.remove(&key);
        }
    }
}

impl Default for SessionCache {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_SESSION_KEYS)
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client::SessionCache({} servers)", self.key_count())
    }
}
