//! Values in the store, sealed: whoever can read or write the store learns no
//! session and forges none.

use std::fmt;

use sealane_awslc::{Aead, PrivateKey, Secret, fill_random, hkdf_sha256, hmac_sha256};
use zeroize::Zeroizing;

use super::store::StoreKey;
use crate::error::SettingsError;
use crate::server_key::{KeyHandle, derive_store_secret};
use crate::settings::Identity;
use crate::stapling::StapleId;

/// The least that `key=FILE` must hold, in bytes.
pub const MIN_SEAL_KEY_BYTES: usize = 32;

/// Format of sealed values; part of what is authenticated.
const VERSION: u8 = 1;
/// Sealed values longer than this are not looked at, in bytes. The ring is the
/// largest: 1024 keys.
const MAX_VALUE_BYTES: usize = 128 * 1024;

/// Seals values with AES-256-GCM-SIV and derives their names.
///
/// A value is `version (1) | nonce (12) | ciphertext and tag`. Its name in the
/// store and the version are authenticated with it, so that a value moved to
/// another name, forged, or sealed with another key is refused.
pub struct StoreSeal {
    aead: Aead,
    name_key: Zeroizing<[u8; 32]>,
}

impl StoreSeal {
    /// From the contents of `key=FILE`, equal on all nodes.
    ///
    /// # Errors
    ///
    /// When the file has fewer than 32 bytes.
    pub fn from_key_file(contents: &Secret) -> Result<Self, SettingsError> {
        if contents.expose().len() < MIN_SEAL_KEY_BYTES {
            return Err(SettingsError::new(format!(
                "the key file of a session store must hold at least {MIN_SEAL_KEY_BYTES} bytes, not {}",
                contents.expose().len()
            )));
        }
        let mut keys = Zeroizing::new([0; 64]);
        hkdf_sha256(
            &mut *keys,
            contents.expose(),
            b"sealane session store file",
            b"sealane session store v1",
        );
        Self::of_keys(&keys)
    }

    /// From a server's certificate key: nodes with the same key read each other's
    /// values, and one with another key does not.
    ///
    /// # Errors
    ///
    /// When the key does not load.
    pub fn from_identity(identity: &Identity) -> Result<Self, SettingsError> {
        let failed = |error: &dyn fmt::Display| {
            SettingsError::new(format!(
                "cannot load certificate key \"{}\": {error}",
                identity.key_label
            ))
        };
        let mut keys = Zeroizing::new([0; 64]);
        match KeyHandle::from_bytes(identity.key_pem.expose()) {
            Some(handle) => match &handle.store_secret {
                Some(secret) => *keys = **secret,
                None => {
                    return Err(SettingsError::new(format!(
                        "nothing can be derived from the key \"{}\", which is in a device: name a \
                         file with 32 bytes or more by \"key=\" of the session store",
                        identity.key_label
                    )));
                }
            },
            None => {
                let key = PrivateKey::from_pem(identity.key_pem.expose(), &identity.passwords)
                    .map_err(|error| failed(&error))?;
                let der = key.to_der().map_err(|error| failed(&error))?;
                derive_store_secret(&der, &mut keys);
            }
        }
        Self::of_keys(&keys)
    }

    fn of_keys(keys: &[u8; 64]) -> Result<Self, SettingsError> {
        let (seal, names) = keys.split_at(Aead::KEY_BYTES);
        let seal = Zeroizing::new(<[u8; 32]>::try_from(seal).expect("split at 32 of 64 bytes"));
        let aead = Aead::new(&seal).map_err(|error| SettingsError::new(error.to_string()))?;
        Ok(Self {
            aead,
            name_key: Zeroizing::new(names.try_into().expect("the other 32 bytes")),
        })
    }

    /// The name of a session with this id.
    pub fn session_key(&self, id: &[u8]) -> StoreKey {
        self.key('s', id)
    }

    /// The name of the claim on an early-data flight.
    pub fn claim_key(&self, flight: &[u8]) -> StoreKey {
        self.key('e', flight)
    }

    /// The name of the ticket keys called `ring`.
    pub fn ring_key(&self, ring: &str) -> StoreKey {
        self.key('k', ring.as_bytes())
    }

    /// The name of the staple of a certificate. Its issuer has signed it, so that it is not sealed.
    pub fn staple_key(&self, id: &StapleId) -> StoreKey {
        self.key('o', &id.0)
    }

    /// The name of what nodes know about an ACME account or certificate.
    pub fn record_key(&self, record: &str) -> StoreKey {
        self.key('a', record.as_bytes())
    }

    /// The name of what nodes know about the servers of a group.
    pub fn health_key(&self, slice: &str) -> StoreKey {
        self.key('h', slice.as_bytes())
    }

    /// The name of a session that a server of a group has made.
    pub fn sticky_key(&self, session: &[u8]) -> StoreKey {
        self.key('g', session)
    }

    fn key(&self, class: char, id: &[u8]) -> StoreKey {
        let mut text = Vec::with_capacity(1 + id.len());
        text.extend_from_slice(class.encode_utf8(&mut [0; 4]).as_bytes());
        text.extend_from_slice(id);
        StoreKey::new(class, &hmac_sha256(&*self.name_key, &text))
    }

    /// Seals a value for this name.
    pub fn seal(&self, key: &StoreKey, plain: &[u8]) -> Vec<u8> {
        let mut nonce = [0; Aead::NONCE_BYTES];
        fill_random(&mut nonce);
        let header_bytes = 1 + nonce.len();
        let mut value = vec![0; header_bytes + plain.len() + Aead::TAG_BYTES];
        value[0] = VERSION;
        value[1..header_bytes].copy_from_slice(&nonce);
        let associated = associated(key);
        self.aead
            .seal(&nonce, &associated, plain, &mut value[header_bytes..])
            .expect("the target has room for plaintext and tag");
        value
    }

    /// Opens a value found under this name; `None` when it was not sealed for it
    /// with this key.
    pub fn open(&self, key: &StoreKey, value: &[u8]) -> Option<Secret> {
        if value.len() > MAX_VALUE_BYTES {
            return None;
        }
        let (&version, rest) = value.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<{ Aead::NONCE_BYTES }>()?;
        if version != VERSION || sealed.len() < Aead::TAG_BYTES {
            return None;
        }
        let mut plain = Zeroizing::new(vec![0; sealed.len()]);
        let length = self
            .aead
            .open(nonce, &associated(key), sealed, &mut plain)?;
        plain.truncate(length);
        Some(Secret::new(std::mem::take(&mut *plain)))
    }
}

fn associated(key: &StoreKey) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(key.as_str().as_bytes());
    bytes
}

impl fmt::Debug for StoreSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreSeal(redacted)")
    }
}
