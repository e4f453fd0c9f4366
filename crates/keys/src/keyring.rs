//! The keys of a key process.

use crate::deposit::{Deposited, DepositedKey};
use crate::premaster;
use crate::rules::{self, Roles};
use sealane_awslc::{KeyKind, PrivateKey, PublicKey, fill_random, hkdf_sha256};
use sealane_tls::accelerator::{self, Accelerator, Report};
use sealane_tls::{HandshakeStats, KeyHandle, KeyId, KeyOperation, KeyType, Secret};
use std::collections::HashMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use zeroize::Zeroizing;

/// Opens keys that are deposited. A key process has one of these, which says what computes there.
pub trait OpenKeys: Send + Sync {
    /// Makes a key ready to compute with. May take as long as a device does.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, in words for the operator.
    fn open(&self, deposited: &Deposited) -> Result<OpenedKey, String>;

    /// The configuration is loaded again: what the operator may have mended meanwhile is tried
    /// again.
    fn renew(&self) {}
}

/// A key that is ready to compute.
pub struct OpenedKey {
    /// What computes with it.
    pub accelerator: Arc<dyn Accelerator>,
    /// Its handle.
    pub handle: KeyHandle,
    /// Whether an operation takes 0.1 ms or more, or is done by other threads.
    pub is_expensive: bool,
    /// Something that only whoever has the key can find, the same each time; `None` if there is no
    /// such thing.
    pub secret: Option<Secret>,
}

/// Keys from files, with which the processor computes.
pub struct Processor {
    stats: Arc<HandshakeStats>,
    report: Report,
}

impl Processor {
    /// `report` tells the operator what goes wrong.
    pub fn new(report: Report) -> Self {
        Self {
            stats: Arc::default(),
            report,
        }
    }
}

impl OpenKeys for Processor {
    fn open(&self, deposited: &Deposited) -> Result<OpenedKey, String> {
        let DepositedKey::Pem(pem) = deposited.key() else {
            return Err("the key is not in a file".to_owned());
        };
        let text = |error: sealane_awslc::Error| error.to_string();
        let key = PrivateKey::from_pem(pem, deposited.passwords());
        let key = key.map_err(|error| sealane_tls::key_error_text(&error))?;
        let build = |choice| accelerator::build(choice, &key, &self.stats, &self.report);
        // Whether `batch` suits a certificate is for whoever reads the configuration to say.
        let accelerator = build(deposited.accelerator)
            .or_else(|_| build(sealane_tls::AcceleratorChoice::Cpu))
            .map_err(|error| error.to_string())?;
        Ok(OpenedKey {
            accelerator,
            handle: KeyHandle::of(&key).map_err(text)?,
            is_expensive: KeyType::of(&key).is_expensive(),
            secret: Some(key.to_der().map_err(text)?),
        })
    }
}

/// What a device signs to find [`OpenedKey::secret`]. No handshake signs this.
const SECRET_TEXT: &[u8] = b"sealane: secret of a key in a device";

/// How long that may take.
const SECRET_PATIENCE: Duration = Duration::from_secs(10);

/// The scheme whose signatures are the same each time, for each kind of key that has one.
fn deterministic_scheme(kind: KeyKind) -> Option<u16> {
    match kind {
        KeyKind::Rsa => Some(0x0401), // RSASSA-PKCS1-v1_5 with SHA-256
        KeyKind::Ed25519 => Some(0x0807),
        _ => None,
    }
}

impl OpenedKey {
    /// A key in a device, whose accelerator completes operations with other threads.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode its public part.
    pub fn of_device(
        accelerator: Arc<dyn Accelerator>,
        public: &PublicKey,
    ) -> Result<Self, String> {
        let secret = deterministic_scheme(public.kind()).and_then(|scheme| {
            let operation = KeyOperation::Sign {
                scheme,
                input: SECRET_TEXT.to_vec(),
            };
            let (job, pending) = accelerator::job(operation);
            accelerator.submit(job);
            pending.wait(SECRET_PATIENCE)
        });
        let handle = KeyHandle::of_device(public, secret.as_ref());
        Ok(Self {
            accelerator,
            handle: handle.map_err(|error| error.to_string())?,
            is_expensive: true,
            secret,
        })
    }
}

/// The keys, by their ids. All threads of the process share it.
pub struct Keyring {
    keys: RwLock<HashMap<KeyId, Arc<Key>>>,
    opener: Box<dyn OpenKeys>,
}

/// A key, with what computes with it.
pub struct Key {
    accelerator: Arc<dyn Accelerator>,
    kind: KeyKind,
    is_expensive: bool,
    roles: Roles,
    may_decrypt: bool,
    /// From which answers to wrong ciphertexts are derived.
    rejection: Zeroizing<[u8; 32]>,
}

impl Keyring {
    /// No keys yet.
    pub fn new(opener: Box<dyn OpenKeys>) -> Self {
        Self {
            keys: RwLock::default(),
            opener,
        }
    }

    /// The configuration is loaded again.
    pub fn renew(&self) {
        self.opener.renew();
    }

    /// Adds a key, or takes its newer deposit.
    ///
    /// # Errors
    ///
    /// Why it cannot be held.
    pub fn add(&self, memory: BorrowedFd<'_>) -> Result<KeyHandle, String> {
        let deposited = Deposited::read(memory).map_err(|error| error.to_string())?;
        let (handle, mut new) = self.open(&deposited)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = keys.get(&handle.id) {
            new.join(before);
        }
        let before = keys.insert(handle.id, Arc::new(new));
        drop(keys);
        drop(before);
        Ok(handle)
    }

    /// Makes a key ready, for somebody else to keep.
    pub(crate) fn open(&self, deposited: &Deposited) -> Result<(KeyHandle, Key), String> {
        let opened = self.opener.open(deposited)?;
        let mut rejection = Zeroizing::new([0; 32]);
        match &opened.secret {
            // The same in every process that has the key: asking again after a restart tells
            // nothing.
            Some(secret) => hkdf_sha256(
                &mut *rejection,
                secret.expose(),
                b"sealane rsa",
                b"implicit rejection",
            ),
            None => fill_random(&mut *rejection),
        }
        let handle = opened.handle;
        let key = Key {
            accelerator: opened.accelerator,
            kind: handle.kind,
            is_expensive: opened.is_expensive,
            roles: deposited.roles,
            may_decrypt: deposited.may_decrypt,
            rejection,
        };
        Ok((handle, key))
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

    /// Takes over what another deposit of this key says. The files of a server and of a client may
    /// have the same one, so each keeps what it needs until the key is forgotten.
    pub(crate) fn join(&mut self, before: &Self) {
        if !self.roles.server {
            self.may_decrypt = before.may_decrypt;
            self.accelerator = Arc::clone(&before.accelerator);
        }
        self.roles = self.roles.and(before.roles);
    }

    /// Whether its owner computes this in a handshake.
    pub fn permits(&self, operation: &KeyOperation) -> bool {
        let is_decryption = matches!(operation, KeyOperation::Decrypt { .. });
        (self.may_decrypt || !is_decryption)
            && rules::is_permitted(self.kind, self.roles, operation)
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
            .field("roles", &self.roles)
            .field("may_decrypt", &self.may_decrypt)
            .finish_non_exhaustive()
    }
}
