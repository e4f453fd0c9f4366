//! `sticky learn ... sync`: nodes share through a store which server each session belongs to.
//!
//! A session that this node does not know, or has not compared with the store for a while, is
//! looked up there before a server is picked; one that is learnt is written there. A request waits
//! for the store no longer than its `timeout=`, and goes on as if the session were unknown.

use super::SessionKey;
use sealane_io::runtime::timeout_at;
use sealane_tls::{Reply, SharedSessions, StoreKey};
use smallvec::SmallVec;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests of a group that wait for the store at a time; others go on without it.
const MAX_LOOKUPS: usize = 256;
/// Sessions that are written in a second and at once; others are written when they are used next.
/// The queue to the store, which handshakes use as well, has room for twice as many.
const MAX_WRITES_PER_S: u64 = 2000;
/// A session is compared with the store, and its time there begins anew, after this part of its
/// timeout.
const RENEWALS: u64 = 4;
/// How much the clocks of nodes may differ, in seconds.
const CLOCK_TOLERANCE_S: u64 = 60;
/// Longest id of a server, in bytes.
const MAX_ID_BYTES: usize = 32;
/// Format of values.
const VERSION: u8 = 1;

/// The store of a zone.
pub(super) struct SessionSync {
    store: SharedSessions,
    /// What names of sessions begin with: nodes share a zone by its name.
    zone: Box<str>,
    timeout: Duration,
    lookups: AtomicUsize,
    writes: Mutex<Allowance>,
}

/// What a store says about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionLookup {
    /// It belongs to this server.
    Found(SmallVec<[u8; 32]>),
    /// The store does not have it.
    Unknown,
    /// There is no answer.
    None,
}

impl SessionSync {
    pub(super) fn new(store: SharedSessions, zone: &str, timeout: Duration) -> SessionSync {
        SessionSync {
            store,
            zone: zone.into(),
            timeout,
            lookups: AtomicUsize::new(0),
            writes: Mutex::default(),
        }
    }

    /// Whether a session that was compared with the store then is to be compared again.
    pub(super) fn is_due(&self, synced_ms: u64, now_ms: u64) -> bool {
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        now_ms.saturating_sub(synced_ms) >= timeout_ms / RENEWALS
    }

    /// What the store knows about a session.
    pub(super) async fn look_up(&self, session: &SessionKey) -> SessionLookup {
        let Some(_permit) = LookupPermit::take(&self.lookups) else {
            return SessionLookup::None;
        };
        let key = self.key(session);
        let (reply, answer) = Reply::channel();
        self.store.store.fetch(key.clone(), reply);
        let deadline = Instant::now() + self.store.timeout;
        let Ok(Ok(found)) = timeout_at(deadline, answer).await else {
            return SessionLookup::None;
        };
        let opened = found.and_then(|sealed| self.store.seal.open(&key, &sealed));
        let server = opened.and_then(|plain| decode(plain.expose(), now_s(), self.timeout));
        server.map_or(SessionLookup::Unknown, SessionLookup::Found)
    }

    /// Tells the other nodes which server a session belongs to. Returns whether it was done; if
    /// not, it is to be done when the session is used next.
    pub(super) fn write(&self, session: &SessionKey, server_id: &[u8], now_ms: u64) -> bool {
        if !self.store.store.is_reachable() {
            return false;
        }
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        if server_id.len() > MAX_ID_BYTES || !writes.take(now_ms) {
            return false;
        }
        drop(writes);
        let key = self.key(session);
        let sealed = self.store.seal.seal(&key, &encode(server_id, now_s()));
        let lifetime_s = u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX);
        self.store.store.put(key, sealed, lifetime_s.max(1));
        true
    }

    fn key(&self, session: &SessionKey) -> StoreKey {
        let name = [self.zone.as_bytes(), b"\0", session].concat();
        self.store.seal.sticky_key(&name)
    }
}

/// Lets a request ask the store.
struct LookupPermit<'a>(&'a AtomicUsize);

impl LookupPermit<'_> {
    fn take(taken: &AtomicUsize) -> Option<LookupPermit<'_>> {
        let before = taken.fetch_add(1, Ordering::Relaxed);
        let permit = LookupPermit(taken);
        (before < MAX_LOOKUPS).then_some(permit)
    }
}

impl Drop for LookupPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many sessions may be written now.
#[derive(Debug, Default)]
struct Allowance {
    /// Thousandths of sessions that were written and not paid for by time yet.
    owed: u64,
    at_ms: u64,
}

impl Allowance {
    fn take(&mut self, now_ms: u64) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let paid = elapsed_ms.saturating_mul(MAX_WRITES_PER_S);
        self.owed = self.owed.saturating_sub(paid);
        let is_allowed = self.owed + 1000 <= MAX_WRITES_PER_S * 1000;
        if is_allowed {
            self.owed += 1000;
        }
        is_allowed
    }
}

/// `version (1) | seconds since 1970 (8) | id of the server`.
fn encode(server_id: &[u8], now_s: u64) -> Vec<u8> {
    [&[VERSION], &now_s.to_be_bytes()[..], server_id].concat()
}

/// The server of a value. `None` if it is none, or from before the session ended.
fn decode(value: &[u8], now_s: u64, timeout: Duration) -> Option<SmallVec<[u8; 32]>> {
    let (&version, rest) = value.split_first()?;
    let (written_s, server_id) = rest.split_first_chunk::<8>()?;
    let written_s = u64::from_be_bytes(*written_s);
    let ends_s = written_s
        .saturating_add(timeout.as_secs())
        .saturating_add(CLOCK_TOLERANCE_S);
    let is_good = version == VERSION
        && (1..=MAX_ID_BYTES).contains(&server_id.len())
        && now_s <= ends_s
        && written_s <= now_s.saturating_add(CLOCK_TOLERANCE_S);
    is_good.then(|| SmallVec::from_slice(server_id))
}

fn now_s() -> u64 {
    u64::try_from(sealane_sys::time::unix_coarse_s()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(600);
    const NOW_S: u64 = 1_700_000_000;

    #[test]
    fn a_value_names_its_server_for_as_long_as_the_session_lives() {
        let value = encode(b"a", NOW_S);
        let server = |now_s| decode(&value, now_s, TIMEOUT).map(SmallVec::into_vec);
        assert_eq!(server(NOW_S), Some(b"a".to_vec()));
        assert_eq!(server(NOW_S + 660), Some(b"a".to_vec()));
        assert_eq!(server(NOW_S + 661), None, "it is old");
        assert_eq!(server(NOW_S - 61), None, "it is from the future");
        for cut in 0..value.len() {
            assert_eq!(decode(&value[..cut], NOW_S, TIMEOUT), None, "{cut}");
        }
        let other = [&[2][..], &value[1..]].concat();
        assert_eq!(decode(&other, NOW_S, TIMEOUT), None);
        let long = encode(&[b'a'; MAX_ID_BYTES + 1], NOW_S);
        assert_eq!(decode(&long, NOW_S, TIMEOUT), None);
    }

    #[test]
    fn writes_are_bounded_and_come_back_with_time() {
        let mut writes = Allowance::default();
        let allowed =
            |writes: &mut Allowance, now_ms| (0..10_000).filter(|_| writes.take(now_ms)).count();
        assert_eq!(allowed(&mut writes, 1_000_000), 2000);
        assert_eq!(allowed(&mut writes, 1_000_000), 0);
        assert_eq!(allowed(&mut writes, 1_000_010), 20);
        assert_eq!(allowed(&mut writes, 2_000_000), 2000);
    }

    #[test]
    fn so_many_requests_wait_at_a_time() {
        let taken = AtomicUsize::new(0);
        let permits: Vec<_> = (0..MAX_LOOKUPS)
            .map(|_| LookupPermit::take(&taken))
            .collect();
        assert!(permits.iter().all(Option::is_some));
        assert!(LookupPermit::take(&taken).is_none());
        drop(permits);
        assert!(LookupPermit::take(&taken).is_some());
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
