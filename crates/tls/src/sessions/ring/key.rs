//! One ticket key.

use std::fmt;
use std::sync::Arc;

use sealane_awslc::{Aead, CLOCK_TOLERANCE_S, Error, Secret, fill_random, hkdf_sha256};

use super::wire::KeyParts;
use crate::error::SettingsError;

pub(super) const NAME_BYTES: usize = 16;
pub(super) type KeyName = [u8; NAME_BYTES];

/// What sealing adds.
pub(super) const KEY_OVERHEAD_BYTES: usize = NAME_BYTES + Aead::NONCE_BYTES + Aead::TAG_BYTES;

/// Sizes of a key file: nginx's two formats.
pub(super) const FILE_BYTES: [usize; 2] = [48, 80];

pub(super) struct TicketKey {
    /// Is in every ticket, in plaintext.
    pub(super) name: KeyName,
    /// The secret that other nodes get; empty for a key from a file.
    pub(super) secret: Secret,
    aead: Arc<Aead>,
    /// By the clock of the node that made it: the order of keys.
    pub(super) created_s: u64,
    /// When it starts to seal, by our clock.
    pub(super) active_s: u64,
    /// When it stopped sealing for good.
    pub(super) retired_s: Option<u64>,
    /// Made at the start, before keys from elsewhere could arrive.
    pub(super) provisional: bool,
}

/// Random bytes from the kernel, which has them ready. The library's generator would first measure
/// the jitter of the processor's clock for some 40 ms, in a master process and under `-t` for these
/// few bytes alone.
fn fill_from_kernel(target: &mut [u8]) {
    if getrandom::fill(target).is_err() {
        fill_random(target);
    }
}

impl TicketKey {
    pub(super) fn random(created_s: u64, active_s: u64) -> Result<Self, Error> {
        let mut name = [0; NAME_BYTES];
        let mut secret = vec![0; Aead::KEY_BYTES];
        fill_from_kernel(&mut name);
        fill_from_kernel(&mut secret);
        let parts = KeyParts {
            name,
            secret: Secret::new(secret),
            created_s,
        };
        Self::from_parts(&parts, active_s)
    }

    pub(super) fn from_parts(parts: &KeyParts, active_s: u64) -> Result<Self, Error> {
        let mut key = [0; Aead::KEY_BYTES];
        hkdf_sha256(
            &mut key,
            parts.secret.expose(),
            &parts.name,
            b"sealane session ticket v1",
        );
        let aead = Aead::new(&key);
        key.fill(0);
        Ok(Self {
            name: parts.name,
            secret: parts.secret.clone(),
            aead: Arc::new(aead?),
            created_s: parts.created_s,
            active_s,
            retired_s: None,
            provisional: false,
        })
    }

    /// As in nginx, the file's first 16 bytes are the key's name. All of the rest goes into the
    /// key, so both sizes work.
    pub(super) fn from_file(file: &Secret) -> Result<Self, SettingsError> {
        let bytes = file.expose();
        if !FILE_BYTES.contains(&bytes.len()) {
            return Err(SettingsError::new(format!(
                "a ticket key file must be 48 or 80 bytes, not {}",
                bytes.len()
            )));
        }
        let (name, secret) = bytes.split_at(NAME_BYTES);
        let parts = KeyParts {
            name: name.try_into().expect("split at 16 bytes"),
            secret: Secret::new(secret.to_vec()),
            created_s: 0,
        };
        Self::from_parts(&parts, 0).map_err(|error| SettingsError::new(error.to_string()))
    }

    /// The same key, no longer provisional.
    pub(super) fn settled(key: &Arc<Self>) -> Arc<Self> {
        if !key.provisional || key.is_retired() {
            return Arc::clone(key);
        }
        Arc::new(Self {
            provisional: false,
            ..key.copy()
        })
    }

    /// The same key, which only opens from now on.
    pub(super) fn retired(&self, now_s: u64) -> Self {
        Self {
            retired_s: Some(now_s),
            ..self.copy()
        }
    }

    fn copy(&self) -> Self {
        Self {
            name: self.name,
            secret: self.secret.clone(),
            aead: Arc::clone(&self.aead),
            ..*self
        }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired_s.is_some()
    }

    pub(super) fn seal(&self, plain: &[u8], target: &mut [u8]) -> Option<usize> {
        let mut nonce = [0; Aead::NONCE_BYTES];
        fill_random(&mut nonce);
        let (name_part, rest) = target.split_at_mut_checked(NAME_BYTES)?;
        let (nonce_part, sealed) = rest.split_at_mut_checked(Aead::NONCE_BYTES)?;
        name_part.copy_from_slice(&self.name);
        nonce_part.copy_from_slice(&nonce);
        let length = self.aead.seal(&nonce, &self.name, plain, sealed)?;
        Some(NAME_BYTES + Aead::NONCE_BYTES + length)
    }

    /// Opens a ticket that bears this key's name.
    pub(super) fn open(&self, ticket: &[u8], target: &mut [u8]) -> Option<usize> {
        let (nonce, sealed) = ticket
            .get(NAME_BYTES..)?
            .split_first_chunk::<{ Aead::NONCE_BYTES }>()?;
        self.aead.open(nonce, &self.name, sealed, target)
    }
}

impl KeyParts {
    /// Whether it was made further in the future than clocks may differ: such a key would stay in
    /// front of all that follow.
    pub(super) fn is_from_afar(&self, now_s: u64) -> bool {
        self.created_s > now_s.saturating_add(CLOCK_TOLERANCE_S)
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey(made at {}, redacted)", self.created_s)
    }
}
