//! Looks after ticket keys: rotates them, shares them with other nodes, has them
//! saved.
//!
//! A ring that nodes share is stored as one sealed value. Every node
//! fetches it each [`POLL_INTERVAL`] and adopts the keys it lacks. When a key is
//! due, the node that gets the lock makes it, on top of what it has just fetched, and
//! writes the ring back; the lock expires by itself. If two write at the same
//! moment nothing is lost: a node that finds its newest key missing from the value writes
//! again. Without the store each node rotates on its own, and the rings merge
//! when it is back.
//!
//! A node that has no keys yet fetches them before it accepts connections
//! ([`Keeper::join`]). Otherwise nodes that start together would each seal their first
//! tickets with a key that the others do not have.

use super::client::{Client, NoAnswer};
use super::thread::StateSink;
use super::{now_s, state};
use crate::journal::{Journal, note};
use sealane_log::OsError;
use sealane_tls::{RingSettings, SessionState, StoreKey, StoreSeal, TicketRing};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Time between two polls of a ring. A new key of a shared ring waits for two
/// seconds or more until it seals (`server::tls_build`), so that every node has seen it.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long a node without keys waits for those of the store before it accepts connections.
pub(super) const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two polls of a ring that another node is just making.
const JOIN_INTERVAL: Duration = Duration::from_millis(25);

/// How long the lock of a node that makes a key lasts.
const LOCK_LIFETIME: Duration = Duration::from_millis(1000);

/// Largest sealed ring that is fetched, in bytes: a thousand keys.
const MAX_RING_BYTES: usize = 128 << 10;

/// A ring and where it is shared.
pub(crate) struct KeptRing {
    /// Its name in the state file.
    pub(super) name: String,
    pub(super) ring: Arc<TicketRing>,
    pub(super) shared: Option<SharedRing>,
}

/// A ring in a store.
pub(super) struct SharedRing {
    client: Arc<Client>,
    seal: Arc<StoreSeal>,
    value_key: StoreKey,
    lock_key: StoreKey,
    /// The value as it was seen or written last.
    seen: Option<Vec<u8>>,
    /// A value that does not open was mentioned.
    warned: bool,
}

impl SharedRing {
    pub(super) fn new(client: Arc<Client>, seal: Arc<StoreSeal>, name: &str) -> SharedRing {
        SharedRing {
            client,
            value_key: seal.ring_key(name),
            lock_key: seal.ring_key(&format!("{name} lock")),
            seal,
            seen: None,
            warned: false,
        }
    }
}

/// Keeps rings for as long as the process runs.
pub(super) struct Keeper {
    rings: Vec<KeptRing>,
    sink: StateSink,
    /// The state as it was handed over last.
    saved: Option<zeroize::Zeroizing<Vec<u8>>>,
    /// What kept it from being saved was mentioned.
    warned: bool,
    journal: Journal,
}

impl Keeper {
    pub(super) fn new(rings: Vec<KeptRing>, sink: StateSink, journal: Journal) -> Keeper {
        Keeper {
            rings,
            sink,
            saved: None,
            warned: false,
            journal,
        }
    }

    /// Keeps these rings from now on.
    pub(super) fn set(&mut self, rings: Vec<KeptRing>, journal: Journal) {
        self.rings = rings;
        self.journal = journal;
    }

    /// Fetches the keys of shared rings that have only the one they were made with.
    /// Returns when they have arrived, at once if the store cannot be reached, and after
    /// [`JOIN_TIMEOUT`] in any case. Failures are logged.
    pub(super) async fn join(&mut self) {
        let journal = &self.journal;
        let mut joining: Vec<_> = self
            .rings
            .iter_mut()
            .map(|kept| Box::pin(kept.join(journal)))
            .collect();
        // All at once: one store that does not answer does not hold up the others.
        poll_fn(|cx| {
            joining.retain_mut(|ring| ring.as_mut().poll(cx).is_pending());
            if joining.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Never returns.
    pub(super) async fn keep(&mut self) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.save();
            for at in 0..self.rings.len() {
                if let Err(error) = self.rings[at].look(&self.journal).await {
                    note!(
                        self.journal,
                        Alert,
                        "no new session ticket key could be made ({error}); the last one goes on"
                    );
                }
                // Before it seals, and before the store is queried about the next ring.
                self.save();
            }
        }
    }

    /// Hands the keys over if they have changed.
    fn save(&mut self) {
        let keys: Vec<_> = self.rings.iter().map(|kept| kept.ring.to_bytes()).collect();
        let rings = self.rings.iter().zip(&keys);
        let rings = rings.map(|(kept, keys)| (kept.name.as_str(), keys.expose()));
        let Some(state) = state::pack(&rings.collect()) else {
            self.warn("there are too many keys; rotate less often");
            return;
        };
        if self.saved.as_ref() == Some(&state) {
            return;
        }
        match self.sink.take(&state) {
            Ok(()) => {
                self.saved = Some(state);
                self.warned = false;
            }
            // The master is busy: at the next look.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => self.warn(&OsError(&error).to_string()),
        }
    }

    fn warn(&mut self, why: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            note!(
                self.journal,
                Alert,
                "session ticket keys are not saved ({why}): after a restart clients cannot resume"
            );
        }
    }
}

impl KeptRing {
    /// Whether it is shared and has no keys of other nodes yet.
    pub(super) fn must_join(&self) -> bool {
        self.shared.is_some() && self.ring.is_provisional()
    }

    /// Has the keys of the store, if the ring has none but its first.
    async fn join(&mut self, journal: &Journal) {
        if !self.must_join() {
            return;
        }
        let Some(shared) = &mut self.shared else {
            return;
        };
        let joined = tokio::time::timeout(JOIN_TIMEOUT, shared.join(&self.ring, journal)).await;
        if joined.is_err() {
            let (store, seconds) = (shared.client.name(), JOIN_TIMEOUT.as_secs());
            note!(
                journal,
                Warn,
                "session store {store} has not given its ticket keys within {seconds} s: this \
                 server begins with a key of its own; tickets that it seals before the store \
                 answers are accepted by this server only"
            );
        }
    }

    /// Does what is due.
    async fn look(&mut self, journal: &Journal) -> Result<(), String> {
        let Some(shared) = &mut self.shared else {
            return rotate(&self.ring).map(drop);
        };
        match shared.look(&self.ring, journal).await {
            Ok(()) => Ok(()),
            // Alone, until the store is back. What is due is done anyhow.
            Err(LookError::NoAnswer(NoAnswer::Down)) => rotate(&self.ring).map(drop),
            // Another node may be doing it. The next poll will show.
            Err(LookError::NoAnswer(_)) => Ok(()),
            Err(LookError::Library(error)) => Err(error),
        }
    }
}

enum LookError {
    NoAnswer(NoAnswer),
    Library(String),
}

impl From<NoAnswer> for LookError {
    fn from(no_answer: NoAnswer) -> LookError {
        LookError::NoAnswer(no_answer)
    }
}

impl SharedRing {
    /// Until this node and the store have the same keys, or the store is down.
    async fn join(&mut self, ring: &TicketRing, journal: &Journal) {
        self.client.attempted().await;
        loop {
            match self.look(ring, journal).await {
                Ok(()) if self.seen.is_some() => return,
                // Another node has the lock and makes the ring, or the answer was late.
                Ok(()) | Err(LookError::NoAnswer(NoAnswer::Late)) => {}
                // The client has said why; what the library says, the next look says again.
                Err(LookError::NoAnswer(NoAnswer::Down | NoAnswer::Refused))
                | Err(LookError::Library(_)) => return,
            }
            tokio::time::sleep(JOIN_INTERVAL).await;
        }
    }

    async fn look(&mut self, ring: &TicketRing, journal: &Journal) -> Result<(), LookError> {
        let stored = self.fetch(ring, journal).await?;
        let Some(settings) = ring.settings() else {
            return Ok(());
        };
        let now_s = now_s();
        let due = copy(settings, ring, now_s)?
            .rotate(now_s)
            .map_err(|error| LookError::Library(error.to_string()))?;
        let lacks_ours = match &stored {
            None => true,
            Some(stored) => stored.active_key(u64::MAX) != ring.active_key(u64::MAX),
        };
        if !due && !lacks_ours {
            return Ok(());
        }
        let lock = self.client.full_name(&self.lock_key);
        if !self
            .client
            .claim(&lock, LOCK_LIFETIME, Instant::now())
            .await?
        {
            return Ok(());
        }
        // Again, now that no other node writes: another node may have made the key.
        self.fetch(ring, journal).await?;
        rotate(ring).map_err(LookError::Library)?;
        self.publish(ring, settings).await
    }

    /// Takes over what is in the store. Returns a ring of just that.
    async fn fetch(
        &mut self,
        ring: &TicketRing,
        journal: &Journal,
    ) -> Result<Option<TicketRing>, LookError> {
        let name = self.client.full_name(&self.value_key);
        let found = self
            .client
            .get(&name, MAX_RING_BYTES, Instant::now())
            .await?;
        let Some(value) = found else {
            return Ok(None);
        };
        let Some(keys) = self.seal.open(&self.value_key, &value) else {
            if !std::mem::replace(&mut self.warned, true) {
                let store = self.client.name();
                note!(
                    journal,
                    Warn,
                    "session store {store} holds ticket keys that nobody with our key has sealed; \
                     they are replaced"
                );
            }
            return Ok(None);
        };
        let now_s = now_s();
        if self.seen.as_ref() != Some(&value) {
            ring.merge(keys.expose(), now_s)
                .map_err(|error| LookError::Library(error.to_string()))?;
            self.seen = Some(value);
        }
        let Some(settings) = ring.settings() else {
            return Ok(None);
        };
        of_bytes(settings, keys.expose(), now_s).map(Some)
    }

    async fn publish(
        &mut self,
        ring: &TicketRing,
        settings: RingSettings,
    ) -> Result<(), LookError> {
        let keys = ring.to_bytes();
        let value = self.seal.seal(&self.value_key, keys.expose());
        let name = self.client.full_name(&self.value_key);
        // It is rewritten with every rotation; a ring that no node has
        // written for this long has nothing left to open.
        let lifetime_s = settings
            .rotation_s
            .saturating_mul(2)
            .saturating_add(settings.lifetime_s)
            .saturating_add(MIN_VALUE_LIFETIME_S);
        let lifetime_s = u32::try_from(lifetime_s).unwrap_or(u32::MAX);
        self.client
            .set(&name, &value, lifetime_s, Instant::now())
            .await?;
        // They are no longer this node's alone.
        ring.merge(keys.expose(), now_s())
            .map_err(|error| LookError::Library(error.to_string()))?;
        self.seen = Some(value);
        Ok(())
    }
}

/// What a shared ring lives in the store at least, in seconds.
const MIN_VALUE_LIFETIME_S: u64 = 600;

fn rotate(ring: &TicketRing) -> Result<bool, String> {
    ring.rotate(now_s()).map_err(|error| error.to_string())
}

/// A ring of its own with the same keys, to try what would happen to it.
fn copy(settings: RingSettings, ring: &TicketRing, now_s: u64) -> Result<TicketRing, LookError> {
    of_bytes(settings, ring.to_bytes().expose(), now_s)
}

fn of_bytes(settings: RingSettings, keys: &[u8], now_s: u64) -> Result<TicketRing, LookError> {
    let library = |error: &dyn std::fmt::Display| LookError::Library(error.to_string());
    let copy = TicketRing::rotating(settings, now_s).map_err(|error| library(&error))?;
    copy.merge(keys, now_s).map_err(|error| library(&error))?;
    Ok(copy)
}

/// Gives rings the keys of the state that another process has left.
pub(super) fn restore(sessions: &SessionState, state: &[u8], journal: &Journal) {
    if let Err(why) = state::merge(state, sessions) {
        note!(
            journal,
            Warn,
            "the session ticket keys of \"ssl_session_ticket_state\" cannot be used ({why}): \
             generating new ones, clients need one full handshake; remove the file if this comes \
             again"
        );
    }
}
