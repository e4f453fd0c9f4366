//! The store of all nodes, as seen by the handshake.
//!
//! The control plane implements [`SharedStore`] (on Redis or Valkey) and runs on its own thread.
//! Every call returns at once, and an answer arrives through a [`Reply`]. A reply dropped without
//! an answer means that the store is slow, dead or overloaded. The handshake then continues as if
//! nothing had been found, or without early data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::seal::StoreSeal;

/// A key-value store that many nodes share. Called by workers in the middle of
/// handshakes: no call blocks.
pub trait SharedStore: Send + Sync {
    /// Looks a value up. The answer `None` means that there is none.
    fn fetch(&self, key: StoreKey, reply: Reply<Option<Vec<u8>>>);

    /// Keeps a value for `lifetime_s` seconds, replacing any previous one. Nothing waits for it,
    /// and it may be dropped when the store is slow.
    fn put(&self, key: StoreKey, value: Vec<u8>, lifetime_s: u32);

    /// Whether it can be reached, as far as is known. What is put meanwhile may be lost.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Answers `true` to the first node that asks within `lifetime_s` seconds, `false` to every
    /// other (Redis: `SET key 1 NX EX lifetime_s`).
    ///
    /// Early data is accepted on the strength of this answer. A store that may have lost claims
    /// (restarted empty, failed over to a replica that lagged) must answer `false`, or not at all,
    /// until `lifetime_s` seconds have passed.
    fn claim(&self, key: StoreKey, lifetime_s: u32, reply: Reply<bool>);

    /// Answers `true` if the lease of this name is free, and gives it to `holder` for `lifetime_s`
    /// seconds; also if `holder` has it, whose time then begins again. Asking who has it and giving
    /// it are one step for the store. One that has lost its memory may give a lease twice.
    /// Without an implementation there is no answer.
    fn lease(&self, key: StoreKey, holder: [u8; 16], lifetime_s: u32, reply: Reply<bool>) {
        let _ = (key, holder, lifetime_s, reply);
    }
}

/// Where the answer to a question goes. Dropping it unused means that there will be none.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<T>);

impl<T> Reply<T> {
    /// A reply, and where its answer comes out.
    pub fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Gives the answer. It is ignored if the asker no longer waits.
    pub fn send(self, answer: T) {
        // An error only means that the handshake has continued without the answer.
        let _ = self.0.send(answer);
    }

    /// Whether the asker no longer waits, so that the question need not be asked.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}

/// The name of a value in the store: `s:`, `e:`, `k:`, `o:`, `a:`, `h:` or `g:` (a session, a claim
/// on early data, ticket keys, an OCSP response, what is known about an ACME certificate or about
/// the servers of a group, the server that a session of an application belongs to) and 64
/// hexadecimal digits that do not reveal ids or tickets. The store adds its own prefix.
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
