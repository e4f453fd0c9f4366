//! Session tickets (RFC 5077, RFC 8446 section 4.6.1).
//!
//! A ticket is `key name (16) | nonce (12) | AES-256-GCM-SIV ciphertext and tag`,
//! the name authenticated with it. The first key seals, every key opens. Keys
//! come from `ssl_session_ticket_key` files, equal on all nodes, or are random
//! and rotate: [`TicketRing::rotate`] is told the time.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use sealane_awslc::{Aead, Error, Secret, TicketCipher, TicketOpened, fill_random, hkdf_sha256};

use crate::error::SettingsError;

/// Keys held at most: files beyond that are an error, older random keys go.
pub(crate) const MAX_TICKET_KEYS: usize = 16;

const NAME_BYTES: usize = 16;
/// Sizes of a key file: nginx's two formats.
const FILE_BYTES: [usize; 2] = [48, 80];

/// The ticket keys of one or many servers; shared by all workers.
pub struct TicketRing {
    /// Newest first. Read for every ticket, replaced as a whole by a rotation.
    keys: RwLock<Arc<[TicketKey]>>,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    aead: Arc<Aead>,
    created_s: u64,
}

impl TicketRing {
    /// One random key, made at `now_s` (seconds, any epoch).
    pub fn random(now_s: u64) -> Result<Self, Error> {
        Ok(Self::with_keys(vec![TicketKey::random(now_s)?]))
    }

    /// Keys from the contents of `ssl_session_ticket_key` files, in order.
    pub fn from_files(files: &[Secret]) -> Result<Self, SettingsError> {
        if files.is_empty() || files.len() > MAX_TICKET_KEYS {
            return Err(SettingsError::new(format!(
                "1 to {MAX_TICKET_KEYS} \"ssl_session_ticket_key\" files can be used, not {}",
                files.len()
            )));
        }
        let keys = files
            .iter()
            .map(TicketKey::from_file)
            .collect::<Result<_, _>>()?;
        Ok(Self::with_keys(keys))
    }

    fn with_keys(keys: Vec<TicketKey>) -> Self {
        Self {
            keys: RwLock::new(keys.into()),
        }
    }

    /// Puts a new random key in front once the newest is `interval_s` old, and
    /// forgets keys made more than two intervals ago. Returns whether it did.
    pub fn rotate(&self, now_s: u64, interval_s: u64) -> Result<bool, Error> {
        let current = self.keys();
        let due = current
            .first()
            .is_none_or(|key| now_s.saturating_sub(key.created_s) >= interval_s);
        if !due {
            return Ok(false);
        }
        let mut keys = vec![TicketKey::random(now_s)?];
        let young =
            |key: &&TicketKey| now_s.saturating_sub(key.created_s) < interval_s.saturating_mul(2);
        keys.extend(
            current
                .iter()
                .filter(young)
                .take(MAX_TICKET_KEYS - 1)
                .map(TicketKey::share),
        );
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
        Ok(true)
    }

    /// How many keys open tickets.
    pub fn key_count(&self) -> usize {
        self.keys().len()
    }

    fn keys(&self) -> Arc<[TicketKey]> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl TicketKey {
    fn random(created_s: u64) -> Result<Self, Error> {
        let mut name = [0; NAME_BYTES];
        let mut key = [0; Aead::KEY_BYTES];
        fill_random(&mut name);
        fill_random(&mut key);
        let aead = Arc::new(Aead::new(&key)?);
        key.fill(0);
        Ok(Self {
            name,
            aead,
            created_s,
        })
    }

    /// The file's first 16 bytes are the key's name, as in nginx. All of the
    /// rest goes into the key, so that both sizes serve.
    fn from_file(file: &Secret) -> Result<Self, SettingsError> {
        let bytes = file.expose();
        if !FILE_BYTES.contains(&bytes.len()) {
            return Err(SettingsError::new(format!(
                "a ticket key file must be 48 or 80 bytes, not {}",
                bytes.len()
            )));
        }
        let (name, secret) = bytes.split_at(NAME_BYTES);
        let mut key = [0; Aead::KEY_BYTES];
        hkdf_sha256(&mut key, secret, name, b"sealane session ticket v1");
        let aead = Aead::new(&key).map_err(|error| SettingsError::new(error.to_string()));
        key.fill(0);
        Ok(Self {
            name: name.try_into().expect("split at 16 bytes"),
            aead: Arc::new(aead?),
            created_s: 0,
        })
    }

    fn share(&self) -> Self {
        Self {
            name: self.name,
            aead: Arc::clone(&self.aead),
            created_s: self.created_s,
        }
    }
}

impl TicketCipher for TicketRing {
    fn overhead_bytes(&self) -> usize {
        NAME_BYTES + Aead::NONCE_BYTES + Aead::TAG_BYTES
    }

    fn seal(&self, plain: &[u8], target: &mut [u8]) -> Option<usize> {
        let keys = self.keys();
        let key = keys.first()?;
        let mut nonce = [0; Aead::NONCE_BYTES];
        fill_random(&mut nonce);
        let (name_part, rest) = target.split_at_mut_checked(NAME_BYTES)?;
        let (nonce_part, sealed) = rest.split_at_mut_checked(Aead::NONCE_BYTES)?;
        name_part.copy_from_slice(&key.name);
        nonce_part.copy_from_slice(&nonce);
        let length = key.aead.seal(&nonce, &key.name, plain, sealed)?;
        Some(NAME_BYTES + Aead::NONCE_BYTES + length)
    }

    fn open(&self, ticket: &[u8], target: &mut [u8]) -> TicketOpened {
        let mut open = || {
            let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
            let (nonce, sealed) = rest.split_first_chunk::<{ Aead::NONCE_BYTES }>()?;
            let keys = self.keys();
            let key = keys.iter().find(|key| key.name == *name)?;
            key.aead.open(nonce, name, sealed, target)
        };
        open().map_or(TicketOpened::Ignore, TicketOpened::Plain)
    }
}

impl fmt::Debug for TicketRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketRing({} keys)", self.key_count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(ring: &TicketRing, plain: &[u8]) -> Vec<u8> {
        let mut ticket = vec![0; plain.len() + ring.overhead_bytes()];
        let length = ring.seal(plain, &mut ticket).expect("room was given");
        ticket.truncate(length);
        ticket
    }

    fn open(ring: &TicketRing, ticket: &[u8]) -> Option<Vec<u8>> {
        let mut plain = vec![0; ticket.len()];
        match ring.open(ticket, &mut plain) {
            TicketOpened::Plain(length) => {
                plain.truncate(length);
                Some(plain)
            }
            TicketOpened::Ignore => None,
        }
    }

    #[test]
    fn what_one_node_seals_another_with_the_same_files_opens() {
        for size in FILE_BYTES {
            let files = [Secret::new(vec![7; size]), Secret::new(vec![8; size])];
            let (ours, theirs) = (
                TicketRing::from_files(&files),
                TicketRing::from_files(&files),
            );
            let ticket = seal(&ours.expect("valid"), b"session");
            assert_eq!(
                open(&theirs.expect("valid"), &ticket).as_deref(),
                Some(&b"session"[..])
            );
        }
    }

    #[test]
    fn the_first_file_seals_and_every_file_opens() {
        let [old, new] = [Secret::new(vec![1; 48]), Secret::new(vec![2; 80])];
        let before = TicketRing::from_files(std::slice::from_ref(&old)).expect("valid");
        let after = TicketRing::from_files(&[new.clone(), old]).expect("valid");
        let only_new = TicketRing::from_files(&[new]).expect("valid");
        assert!(open(&after, &seal(&before, b"x")).is_some());
        assert!(open(&only_new, &seal(&after, b"x")).is_some());
        assert!(open(&only_new, &seal(&before, b"x")).is_none());
    }

    #[test]
    fn a_changed_or_short_ticket_is_ignored() {
        let ring = TicketRing::random(0).expect("memory");
        let ticket = seal(&ring, b"session");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(open(&ring, &changed), None, "byte {at}");
            assert_eq!(open(&ring, &ticket[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn rotation_keeps_the_last_key_for_a_while() {
        let ring = TicketRing::random(0).expect("memory");
        let ticket = seal(&ring, b"x");
        assert!(!ring.rotate(99, 100).expect("memory"));
        assert!(ring.rotate(100, 100).expect("memory"));
        assert!(open(&ring, &ticket).is_some());
        assert!(ring.rotate(200, 100).expect("memory"));
        assert!(open(&ring, &ticket).is_none());
        assert_eq!(ring.key_count(), 2);
    }

    #[test]
    fn a_key_file_of_another_size_is_refused() {
        assert!(TicketRing::from_files(&[Secret::new(vec![0; 47])]).is_err());
        assert!(TicketRing::from_files(&[]).is_err());
    }
}
