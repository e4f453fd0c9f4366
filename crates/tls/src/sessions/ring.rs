//! Ticket keys (RFC 5077, RFC 8446 section 4.6.1).
//!
//! A ticket is `key name (16) | nonce (12) | AES-256-GCM-SIV ciphertext and tag`; the name is
//! authenticated too. Keys come from `ssl_session_ticket_key` files, the same on all nodes; the
//! first file seals and every one opens. Or they are random and rotate. Then
//!
//! - the newest **active** key seals. A key made here is active at once or, in a shared ring, once
//!   the other nodes have had time to fetch it. The same holds for a key that arrives from them;
//! - a key opens until the last ticket sealed with it has expired: for the lifetime of a session
//!   (and the difference between clocks) after a newer one took over;
//! - every node orders keys by the time they were made, then by name, so that all end up with the
//!   same key in front.
//!
//! A new ring has a **provisional** key. Once keys arrive from the state file or from other nodes,
//! it only opens what it has sealed so far.
//!
//! Time is an argument, in seconds since the epoch.

mod key;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use sealane_awslc::{CLOCK_TOLERANCE_S, Error, Miss, Secret, TicketCipher, TicketOpened};

use self::key::{KEY_OVERHEAD_BYTES, KeyName, NAME_BYTES, TicketKey};
pub use self::wire::RingError;
use crate::error::SettingsError;

/// The most `ssl_session_ticket_key` files.
pub(crate) const MAX_TICKET_KEY_FILES: usize = 16;
/// The most rotating keys. A rotation so short that it would need more is lengthened
/// ([`RingSettings::rotation_s`]).
pub const MAX_RING_KEYS: usize = 1024;

/// How the keys of a ring rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// `ssl_session_ticket_rotation` in seconds: how long a key seals. At least
    /// 1, and long enough that no more than [`MAX_RING_KEYS`] are held.
    pub rotation_s: u64,
    /// The longest `ssl_session_timeout` of the servers that use the ring, in
    /// seconds: how long a ticket can live.
    pub lifetime_s: u64,
    /// How long a new key waits before it seals, in seconds: 0 for a ring of this process alone,
    /// otherwise the time in which other nodes fetch it.
    pub overlap_s: u64,
}

impl RingSettings {
    fn normal(self) -> Self {
        let opens_s = self.lifetime_s.saturating_add(CLOCK_TOLERANCE_S);
        let least = opens_s / (MAX_RING_KEYS as u64 - 8) + 1;
        Self {
            rotation_s: self.rotation_s.max(least),
            ..self
        }
    }
}

/// The ticket keys of one or many servers; shared by all workers.
pub struct TicketRing {
    /// Read for every ticket, replaced as a whole by a change. Workers share it because a ticket
    /// may come back to any of them.
    keys: RwLock<Arc<Keys>>,
}

struct Keys {
    /// `None`: from files, in their order, for ever.
    settings: Option<RingSettings>,
    /// From files: the first seals. Otherwise oldest first.
    list: Vec<Arc<TicketKey>>,
    by_name: HashMap<KeyName, usize>,
}

impl TicketRing {
    /// A ring with one random key.
    ///
    /// # Errors
    ///
    /// Without memory.
    pub fn rotating(settings: RingSettings, now_s: u64) -> Result<Self, Error> {
        let mut key = TicketKey::random(now_s, now_s)?;
        key.provisional = true;
        Ok(Self::with(Keys::new(
            Some(settings.normal()),
            vec![Arc::new(key)],
        )))
    }

    /// Keys from the contents of `ssl_session_ticket_key` files, in order.
    ///
    /// # Errors
    ///
    /// Without a file, with more than 16, or with one that does not have 48 or 80
    /// bytes.
    pub fn from_files(files: &[Secret]) -> Result<Self, SettingsError> {
        if files.is_empty() || files.len() > MAX_TICKET_KEY_FILES {
            return Err(SettingsError::new(format!(
                "1 to {MAX_TICKET_KEY_FILES} \"ssl_session_ticket_key\" files can be used, not {}",
                files.len()
            )));
        }
        let keys = files
            .iter()
            .map(|file| TicketKey::from_file(file).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self::with(Keys::new(None, keys)))
    }

    fn with(keys: Keys) -> Self {
        Self {
            keys: RwLock::new(Arc::new(keys)),
        }
    }

    /// Changes how keys rotate from now on, as after a reload. Has no effect on a ring of files.
    pub fn configure(&self, settings: RingSettings) {
        self.change(|keys| {
            let current = keys.settings?;
            let settings = settings.normal();
            (current != settings).then(|| Keys::new(Some(settings), keys.list.clone()))
        });
    }

    /// How keys rotate; `None` for keys from files.
    pub fn settings(&self) -> Option<RingSettings> {
        self.keys().settings
    }

    /// Puts a new random key in front once the newest is `rotation_s` old, and forgets keys whose
    /// tickets have all expired. Returns whether there is a new key, which must then be shared and
    /// saved.
    ///
    /// # Errors
    ///
    /// Without memory.
    pub fn rotate(&self, now_s: u64) -> Result<bool, Error> {
        let mut failure = None;
        let changed = self.change(|keys| {
            let settings = keys.settings?;
            let newest = keys.list.iter().rfind(|key| !key.is_retired());
            let due =
                newest.is_none_or(|key| now_s.saturating_sub(key.created_s) >= settings.rotation_s);
            if !due {
                return None;
            }
            match TicketKey::random(now_s, now_s.saturating_add(settings.overlap_s)) {
                Ok(key) => {
                    // A key that has sealed is no longer provisional.
                    let mut list: Vec<_> = keys.list.iter().map(TicketKey::settled).collect();
                    list.push(Arc::new(key));
                    Some(Keys::ordered(settings, list, now_s))
                }
                Err(error) => {
                    failure = Some(error);
                    None
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None => Ok(changed),
        }
    }

    /// Whether it has only the key that it was created with: none has come from the state file,
    /// another process or another node, and no one else has this key.
    pub fn is_provisional(&self) -> bool {
        self.keys().list.iter().all(|key| key.provisional)
    }

    /// How many keys open tickets.
    pub fn key_count(&self) -> usize {
        self.keys().list.len()
    }

    /// A short name of the key that seals at `now_s`, for the log: eight
    /// hexadecimal digits of its (public) name.
    pub fn active_key(&self, now_s: u64) -> String {
        let keys = self.keys();
        let name = keys.active(now_s).map_or([0; NAME_BYTES], |key| key.name);
        format!(
            "{:08x}",
            u32::from_be_bytes([name[0], name[1], name[2], name[3]])
        )
    }

    /// The keys for the state file or the other nodes; empty for keys from files. The result is
    /// secret: seal it for a store, write it with mode 0600 to a file.
    pub fn to_bytes(&self) -> Secret {
        wire::write(&self.keys())
    }

    /// Takes over keys that [`to_bytes`](Self::to_bytes) wrote, here or on another node. Returns
    /// how many were new. Merging the same keys in any order gives the same ring.
    ///
    /// # Errors
    ///
    /// The bytes are not a ring of this version: nothing is changed.
    pub fn merge(&self, bytes: &[u8], now_s: u64) -> Result<usize, RingError> {
        let found = wire::read(bytes)?;
        let mut added = 0;
        let mut failure = None;
        self.change(|keys| {
            let settings = keys.settings?;
            // The first keys to arrive are already in use elsewhere.
            let first = keys.list.iter().all(|key| key.provisional);
            let wait_s = if first { 0 } else { settings.overlap_s };
            let mut list = keys.list.clone();
            for key in &found {
                if keys.by_name.contains_key(&key.name) || key.is_from_afar(now_s) {
                    continue;
                }
                let active_s = if wait_s == 0 { 0 } else { now_s + wait_s };
                match TicketKey::from_parts(key, active_s) {
                    Ok(key) => list.push(Arc::new(key)),
                    Err(error) => {
                        failure = Some(error);
                        return None;
                    }
                }
            }
            let brings_keys = list.len() > keys.list.len();
            let mut changes = brings_keys;
            for key in list
                .iter_mut()
                .filter(|key| key.provisional && !key.is_retired())
            {
                if found.iter().any(|found| found.name == key.name) {
                    // Others have it too, and may have sealed with it.
                    *key = TicketKey::settled(key);
                    changes = true;
                } else if brings_keys {
                    *key = Arc::new(key.retired(now_s));
                }
            }
            if !changes {
                return None;
            }
            let merged = Keys::ordered(settings, list, now_s);
            let is_new = |key: &&Arc<TicketKey>| !keys.by_name.contains_key(&key.name);
            added = merged.list.iter().filter(is_new).count();
            Some(merged)
        });
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(added),
        }
    }

    fn keys(&self) -> Arc<Keys> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces the keys by the result of `next`, if any. Changes never overlap: the lock is held
    /// for the microseconds that a key takes.
    fn change(&self, next: impl FnOnce(&Keys) -> Option<Keys>) -> bool {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let Some(changed) = next(&keys) else {
            return false;
        };
        *keys = Arc::new(changed);
        true
    }
}

impl Keys {
    fn new(settings: Option<RingSettings>, list: Vec<Arc<TicketKey>>) -> Self {
        let by_name = list
            .iter()
            .enumerate()
            .map(|(at, key)| (key.name, at))
            .collect();
        Self {
            settings,
            list,
            by_name,
        }
    }

    /// In order, without keys whose tickets have all expired.
    fn ordered(settings: RingSettings, mut list: Vec<Arc<TicketKey>>, now_s: u64) -> Self {
        list.sort_by_key(|key| (key.created_s, key.name));
        let opens_s = settings
            .lifetime_s
            .saturating_add(settings.overlap_s)
            .saturating_add(CLOCK_TOLERANCE_S);
        let successors: Vec<Option<u64>> = (0..list.len())
            .map(|at| {
                let next = list[at + 1..].iter().find(|key| !key.is_retired());
                list[at].retired_s.or(next.map(|key| key.created_s))
            })
            .collect();
        let mut successors = successors.into_iter();
        list.retain(|_| {
            let replaced_s = successors.next().flatten();
            replaced_s.is_none_or(|replaced_s| now_s <= replaced_s.saturating_add(opens_s))
        });
        let excess = list.len().saturating_sub(MAX_RING_KEYS);
        list.drain(..excess);
        Self::new(Some(settings), list)
    }

    /// The key that seals.
    fn active(&self, now_s: u64) -> Option<&Arc<TicketKey>> {
        if self.settings.is_none() {
            return self.list.first();
        }
        let usable = || self.list.iter().filter(|key| !key.is_retired());
        usable()
            .rfind(|key| key.active_s <= now_s)
            // All of them are still being distributed to the other nodes.
            .or_else(|| usable().next())
    }
}

impl TicketCipher for TicketRing {
    fn overhead_bytes(&self) -> usize {
        KEY_OVERHEAD_BYTES
    }

    fn seal(&self, plain: &[u8], target: &mut [u8], now_s: u64) -> Option<usize> {
        self.keys().active(now_s)?.seal(plain, target)
    }

    fn open(&self, ticket: &[u8], target: &mut [u8], _now_s: u64) -> TicketOpened {
        let keys = self.keys();
        let key = ticket
            .first_chunk::<NAME_BYTES>()
            .and_then(|name| keys.by_name.get(name))
            .and_then(|at| keys.list.get(*at));
        let Some(key) = key else {
            return TicketOpened::Miss(Miss::UnknownKey);
        };
        key.open(ticket, target)
            .map_or(TicketOpened::Miss(Miss::Damaged), TicketOpened::Plain)
    }
}

impl fmt::Debug for TicketRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketRing({} keys)", self.key_count())
    }
}
