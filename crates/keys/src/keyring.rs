//! The keys of the key process.

use crate::deposit::Deposited;
use crate::{premaster, rules};
use sealane_awslc::{KeyKind, PrivateKey, hkdf_sha256};
use sealane_tls::accelerator::{self, Accelerator, Report};
use sealane_tls::{HandshakeStats, KeyHandle, KeyId, KeyOperation, KeyType, Secret};
use std::collections::HashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroizing;

/// The keys, by their ids. All threads of the process share it.
pub struct Keyring {
    keys: RwLock<HashMap<KeyId, Arc<Key>>>,
    stats: Arc<HandshakeStats>,
    report: Report,
}

/// A key, with what computes with it.
pub struct Key {
    accelerator: Arc<dyn Accelerator>,
    kind: KeyKind,
    is_expensive: bool,
    may_decrypt: bool,
    /// From which answers to wrong ciphertexts are derived.
    rejection: Zeroizing<[u8; 32]>,
}

impl Keyring {
    /// No keys yet. `report` tells the operator what goes wrong.
    pub fn new(stats: Arc<HandshakeStats>, report: Report) -> Self {
        Self {
            keys: RwLock::default(),
            stats,
            report,
        }
    }

    /// Adds a key, or takes its newer deposit.
    ///
    /// # Errors
    ///
    /// Why it cannot be held.
    pub fn add(&self, memory: BorrowedFd<'_>) -> Result<KeyHandle, String> {
        let deposited = Deposited::read(memory).map_err(|error| error.to_string())?;
        let key = PrivateKey::from_pem(deposited.pem.expose(), &deposited.passwords)
            .map_err(|error| error.to_string())?;
        let handle = KeyHandle::of(&key).map_err(|error| error.to_string())?;
        let build = |choice| accelerator::build(choice, &key, &self.stats, &self.report);
        // Whether `batch` suits a certificate is for whoever reads the configuration to say.
        let accelerator = build(deposited.accelerator)
            .or_else(|_| build(sealane_tls::AcceleratorChoice::Cpu))
            .map_err(|error| error.to_string())?;
        // The same in every process that has the key: asking again after a restart tells nothing.
        let mut rejection = Zeroizing::new([0; 32]);
        let der = key.to_der().map_err(|error| error.to_string())?;
        hkdf_sha256(
            &mut *rejection,
            der.expose(),
            b"sealane rsa",
            b"implicit rejection",
        );
        let new = Key {
            accelerator,
            kind: key.kind(),
            is_expensive: KeyType::of(&key).is_expensive(),
            may_decrypt: deposited.may_decrypt,
            rejection,
        };
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let before = keys.insert(handle.id, Arc::new(new));
        drop(keys);
        drop(before);
        Ok(handle)
    }

    /// Removes a key. It is wiped once its last operation has ended.
    pub fn forget(&self, id: KeyId) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let key = keys.remove(&id);
        drop(keys);
        drop(key);
    }

    /// The key with this id.
    pub fn get(&self, id: KeyId) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.get(&id).cloned()
    }
}

impl Key {
    /// What computes with it.
    pub fn accelerator(&self) -> &Arc<dyn Accelerator> {
        &self.accelerator
    }

    /// Whether an operation takes 0.1 ms or more.
    pub fn is_expensive(&self) -> bool {
        self.is_expensive
    }

    /// Whether a server computes this in a handshake with this key.
    pub fn permits(&self, operation: &KeyOperation) -> bool {
        let is_decryption = matches!(operation, KeyOperation::Decrypt { .. });
        (self.may_decrypt || !is_decryption) && rules::is_permitted(self.kind, operation)
    }

    /// What a worker gets of a result.
    pub fn answer(&self, operation: &KeyOperation, result: Secret) -> Option<Zeroizing<Vec<u8>>> {
        match operation {
            KeyOperation::Sign { .. } => Some(Zeroizing::new(result.expose().to_vec())),
            KeyOperation::Decrypt { input } => {
                premaster::block(result.expose(), input, &self.rejection)
            }
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(keys.keys()).finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("accelerator", &self.accelerator)
            .field("may_decrypt", &self.may_decrypt)
            .finish_non_exhaustive()
    }
}
