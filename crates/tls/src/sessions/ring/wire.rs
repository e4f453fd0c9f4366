//! The encoding of keys for the state file and for other nodes.
//!
//! ```text
//! "SLTK" | version 1 | count (2) | count x [ name (16) | secret (32) | made at (8) ]
//! ```
//!
//! Numbers are big-endian. It is neither sealed nor authenticated: the state
//! file is protected by its mode, the shared ring by the store's seal.

use std::fmt;

use sealane_awslc::{Aead, Error, Secret};

use super::key::{KeyName, NAME_BYTES};
use super::{Keys, MAX_RING_KEYS};

const MAGIC: &[u8; 4] = b"SLTK";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = MAGIC.len() + 1 + 2;
const ENTRY_BYTES: usize = NAME_BYTES + Aead::KEY_BYTES + 8;

/// A key in encoded form.
pub(super) struct KeyParts {
    pub(super) name: KeyName,
    pub(super) secret: Secret,
    pub(super) created_s: u64,
}

/// Why keys could not be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The bytes are not ticket keys in the form of this version.
    Malformed(&'static str),
    /// The TLS library refused.
    Library(Error),
}

impl From<Error> for RingError {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "not the ticket keys of this version: {why}"),
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RingError {}

/// Every key except those that were replaced before they were shared.
pub(super) fn write(keys: &Keys) -> Secret {
    let shared: Vec<_> = match keys.settings {
        Some(_) => keys.list.iter().filter(|key| !key.is_retired()).collect(),
        None => Vec::new(),
    };
    if shared.is_empty() {
        return Secret::default();
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + shared.len() * ENTRY_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.push(VERSION);
    let count = u16::try_from(shared.len()).expect("a ring holds at most 1024 keys");
    bytes.extend_from_slice(&count.to_be_bytes());
    for key in shared {
        bytes.extend_from_slice(&key.name);
        bytes.extend_from_slice(key.secret.expose());
        bytes.extend_from_slice(&key.created_s.to_be_bytes());
    }
    Secret::new(bytes)
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<KeyParts>, RingError> {
    let header = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .filter(|(header, _)| header.starts_with(MAGIC));
    let Some((header, entries)) = header else {
        return Err(RingError::Malformed("wrong magic bytes"));
    };
    if header[4] != VERSION {
        return Err(RingError::Malformed("another version wrote it"));
    }
    let count = usize::from(u16::from_be_bytes([header[5], header[6]]));
    if count > MAX_RING_KEYS {
        return Err(RingError::Malformed("too many keys"));
    }
    if entries.len() != count * ENTRY_BYTES {
        return Err(RingError::Malformed("its length does not fit its count"));
    }
    let keys = entries.chunks_exact(ENTRY_BYTES).map(|entry| {
        let (name, rest) = entry.split_at(NAME_BYTES);
        let (secret, made) = rest.split_at(Aead::KEY_BYTES);
        KeyParts {
            name: name.try_into().expect("split at 16 bytes"),
            secret: Secret::new(secret.to_vec()),
            created_s: u64::from_be_bytes(made.try_into().expect("the 8 bytes left")),
        }
    });
    Ok(keys.collect())
}
