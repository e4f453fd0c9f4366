//! What nodes with one `ssl_session_store` share: accounts and records, sealed, and whose turn it
//! is to order.

use super::record::MAX_RECORD_BYTES;
use sealane_tls::{Reply, SharedSessions, StoreKey};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long values stay that nobody renews, in seconds.
const LIFETIME_S: u32 = 90 * 24 * 3600;

/// How often a value is put until it is found there.
const PUT_ATTEMPTS: usize = 5;

/// Between putting a value and looking whether it is there.
const PUT_PAUSE: Duration = Duration::from_millis(200);

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    /// Ours, for the time asked for.
    Ours,
    /// Another node's.
    Others,
    /// The store does not say.
    Unknown,
}

/// The values of an issuer or of a certificate in the store.
#[derive(Clone)]
pub(super) struct SharedRecords {
    store: SharedSessions,
    /// What all names begin with.
    of: String,
    /// This process, among all nodes.
    holder: [u8; 16],
}

impl SharedRecords {
    /// Values whose names begin with `of`.
    pub(super) fn new(store: SharedSessions, of: String, holder: [u8; 16]) -> SharedRecords {
        SharedRecords { store, of, holder }
    }

    fn key(&self, what: &str) -> StoreKey {
        self.store.seal.record_key(&format!("{} {what}", self.of))
    }

    /// A value; `Some(None)` when there is none, `None` when the store does not say.
    pub(super) async fn get(&self, what: &str) -> Option<Option<Zeroizing<Vec<u8>>>> {
        let key = self.key(what);
        let (reply, answer) = Reply::channel();
        self.store.store.fetch(key.clone(), reply);
        let Some(sealed) = answer.await.ok()? else {
            return Some(None);
        };
        // What does not open was sealed by others, or is damaged.
        let opened = self.store.seal.open(&key, &sealed);
        Some(opened.map(|plain| Zeroizing::new(plain.expose().to_vec())))
    }

    /// Keeps a value, and returns whether the store has it.
    pub(super) async fn put(&self, what: &str, plain: &[u8]) -> bool {
        if plain.len() > MAX_RECORD_BYTES {
            return false;
        }
        let key = self.key(what);
        for _ in 0..PUT_ATTEMPTS {
            let sealed = self.store.seal.seal(&key, plain);
            self.store.store.put(key.clone(), sealed, LIFETIME_S);
            tokio::time::sleep(PUT_PAUSE).await;
            if let Some(Some(found)) = self.get(what).await
                && found[..] == *plain
            {
                return true;
            }
        }
        false
    }

    /// Takes a turn, or prolongs it.
    pub(super) async fn lease(&self, what: &str, lifetime_s: u32) -> Lease {
        let key = self.key(&format!("lease of {what}"));
        let (reply, answer) = Reply::channel();
        self.store.store.lease(key, self.holder, lifetime_s, reply);
        match answer.await {
            Ok(true) => Lease::Ours,
            Ok(false) => Lease::Others,
            Err(_) => Lease::Unknown,
        }
    }
}
