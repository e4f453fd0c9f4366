//! The store of all nodes, as the handshake sees it.
//!
//! The control plane implements [`SharedStore`] (on Redis or Valkey) and runs on a
//! thread of its own. Every call returns at once; an answer arrives through a
//! [`Reply`], and a reply dropped without one is a store that is slow, dead or
//! overloaded. The handshake then goes on as if nothing had been found, or
//! without early data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::seal::StoreSeal;

/// A key-value store that many nodes share. Called by workers in the middle of
/// handshakes: no call blocks.
pub trait SharedStore: Send + Sync {
    /// Looks a value up: `None` is an answer, that there is none.
    fn fetch(&self, key: StoreKey, reply: Reply<Option<Vec<u8>>>);

    /// Keeps a value for `lifetime_s` seconds; what was there is replaced. Nobody
    /// waits for it, and it may be dropped when the store is slow.
    fn put(&self, key: StoreKey, value: Vec<u8>, lifetime_s: u32);

    /// Answers `true` to the first of all nodes that asks within `lifetime_s`
    /// seconds, `false` to every other (Redis: `SET key 1 NX EX lifetime_s`).
    ///
    /// Early data is accepted on the word of this answer. A store that may have
    /// lost claims (restarted empty, failed over to a replica that lagged) must answer
    /// `false`, or not at all, until `lifetime_s` seconds have passed.
    fn claim(&self, key: StoreKey, lifetime_s: u32, reply: Reply<bool>);
}

/// Where the answer to a question goes. Dropping it unused says that there will
/// be none.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<T>);

impl<T> Reply<T> {
    pub(crate) fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Gives the answer. It is of no more use when nobody waits any longer.
    pub fn send(self, answer: T) {
        // An error only says that the handshake has gone on without.
        let _ = self.0.send(answer);
    }

    /// Whether nobody waits any longer: the question need not be asked.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

/// The name of a value in the store: `s:`, `e:` or `k:` (a session, a claim on
/// early data, ticket keys) and 64 hexadecimal digits, from which nobody learns
/// ids or tickets. The store puts its own prefix in front.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreKey(String);

impl StoreKey {
    pub(super) fn new(class: char, digest: &[u8; 32]) -> Self {
        use fmt::Write;
        let mut text = String::with_capacity(2 + 2 * digest.len());
        text.push(class);
        text.push(':');
        for byte in digest {
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `ssl_session_store` of one server.
#[derive(Clone)]
pub struct SharedSessions {
    /// The store.
    pub store: Arc<dyn SharedStore>,
    /// Seals what goes there.
    pub seal: Arc<StoreSeal>,
    /// `timeout=`: the longest that a handshake waits for the store.
    pub timeout: Duration,
}

impl fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSessions(timeout {:?})", self.timeout)
    }
}
