//! A private key, of a server or of our certificate for other servers: in this process, or in the
//! one that holds the keys (`ssl_key_process`).
//!
//! Where a key process has a key, everybody else has a [`KeyHandle`] in place of the key's file:
//! whoever reads a certificate and its key gets by with it, and operations go to the
//! [`KeyHolder`] of the process. There may be several key processes: one for keys from files, and
//! one for each device. The handle's [`Route`] says which of them has the key.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealane_awslc::{Certificate, KeyKind, PrivateKey, PublicKey, Secret, hkdf_sha256, sha256};
use zeroize::Zeroizing;

use crate::accelerator::{Accelerator, Job, KeyType};
use crate::offload::HandshakeState;

/// What no key file begins with.
const MAGIC: &[u8; 16] = b"\0sealane key 02\n";

/// Kinds of keys by their numbers in a handle.
const KINDS: [KeyKind; 6] = [
    KeyKind::Rsa,
    KeyKind::EcP256,
    KeyKind::EcP384,
    KeyKind::EcP521,
    KeyKind::Ed25519,
    KeyKind::Other,
];

/// Bytes from which a session store's keys are derived.
const STORE_SECRET_BYTES: usize = 64;

/// A key as all processes know it: the SHA-256 of its public part (SubjectPublicKeyInfo). Files in
/// different formats have the same key, and so do two processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 32]);

impl KeyId {
    /// Of a private key.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode its public part.
    pub fn of(key: &PrivateKey) -> Result<Self, sealane_awslc::Error> {
        Ok(Self(sha256(&key.public_key_der()?)))
    }

    /// Of the private key in a PEM file; `None` if there is none that can be read.
    pub fn of_pem(pem: &[u8], passwords: &[Secret]) -> Option<Self> {
        Self::of(&PrivateKey::from_pem(pem, passwords).ok()?).ok()
    }

    /// Of the key that belongs to a certificate.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot read its key.
    pub fn of_certificate(certificate: &Certificate) -> Result<Self, sealane_awslc::Error> {
        Ok(Self(sha256(&certificate.public_key_der()?)))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A process that holds keys. A master gives each of its key processes a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HolderId(pub u16);

impl HolderId {
    /// The process of keys from files, which computes with the processor.
    pub const PROCESSOR: Self = Self(0);
}

/// Which process computes with a key, and what to do if it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The process that has the key.
    pub holder: HolderId,
    /// Whether [`HolderId::PROCESSOR`] has it as well, for operations that fail in a device.
    pub has_fallback: bool,
    /// While the oldest operation of a device waits for longer than this, new ones fail at once.
    pub max_wait: Option<Duration>,
}

/// Has a process hold a key for as long as this lives.
pub type KeyLease = Arc<dyn Any + Send + Sync>;

/// Stands for a key that another process holds.
#[derive(Clone)]
pub struct KeyHandle {
    /// Which key.
    pub id: KeyId,
    /// Its kind.
    pub kind: KeyKind,
    /// Where operations go.
    pub route: Route,
    /// While it lives, the other process keeps the key for whoever has loaded it. `None`: the
    /// master sees to that.
    pub(crate) lease: Option<KeyLease>,
    /// What the key of a session store is derived from. It is derived from the private key, which
    /// cannot be found from it. `None`: nothing can be derived from a key in a device.
    pub(crate) store_secret: Option<Zeroizing<[u8; STORE_SECRET_BYTES]>>,
}

impl KeyHandle {
    /// Of a key, by whoever holds it.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode the key.
    pub fn of(key: &PrivateKey) -> Result<Self, sealane_awslc::Error> {
        let id = KeyId::of(key)?;
        Ok(Self::new(id, key.kind(), Some(&key.to_der()?)))
    }

    /// Of a key that a device has. `secret` is something that only whoever has the key can find,
    /// the same each time; `None` if there is no such thing.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode the key.
    pub fn of_device(
        key: &PublicKey,
        secret: Option<&Secret>,
    ) -> Result<Self, sealane_awslc::Error> {
        let id = KeyId(sha256(&key.to_spki_der()?));
        Ok(Self::new(id, key.kind(), secret))
    }

    fn new(id: KeyId, kind: KeyKind, secret: Option<&Secret>) -> Self {
        let store_secret = secret.map(|secret| {
            let mut derived = Zeroizing::new([0; STORE_SECRET_BYTES]);
            derive_store_secret(secret, &mut derived);
            derived
        });
        Self {
            id,
            kind,
            route: Route::default(),
            lease: None,
            store_secret,
        }
    }

    /// As the content of a file.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let Route {
            holder,
            has_fallback,
            max_wait,
        } = self.route;
        let wait_ms = max_wait.map(|wait| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
        let flags = [
            kind.map_or(u8::MAX, |kind| kind as u8),
            u8::from(has_fallback),
            u8::from(wait_ms.is_some()),
        ];
        let secret = self.store_secret.as_ref();
        let parts: [&[u8]; 6] = [
            MAGIC,
            &self.id.0,
            &holder.0.to_le_bytes(),
            &wait_ms.unwrap_or_default().to_le_bytes(),
            &flags,
            secret.map_or(&[], |secret| &secret[..]),
        ];
        Zeroizing::new(parts.concat())
    }

    /// `None` for anything but a handle.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (id, rest) = rest.split_first_chunk()?;
        let (holder, rest) = rest.split_first_chunk()?;
        let (wait_ms, rest) = rest.split_first_chunk()?;
        let ([kind, has_fallback, has_wait], secret) = rest.split_first_chunk()?;
        let wait = Duration::from_millis(u32::from_le_bytes(*wait_ms).into());
        let store_secret = match secret.is_empty() {
            true => None,
            false => Some(Zeroizing::new(secret.try_into().ok()?)),
        };
        Some(Self {
            id: KeyId(*id),
            kind: *KINDS.get(usize::from(*kind))?,
            route: Route {
                holder: HolderId(u16::from_le_bytes(*holder)),
                has_fallback: *has_fallback == 1,
                max_wait: (*has_wait == 1).then_some(wait),
            },
            lease: None,
            store_secret,
        })
    }
}

impl fmt::Debug for KeyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHandle({:?})", self.id)
    }
}

/// What [`StoreSeal`](crate::StoreSeal) makes its keys of, without a key file of its own.
pub(crate) fn derive_store_secret(der: &Secret, target: &mut [u8; STORE_SECRET_BYTES]) {
    hkdf_sha256(
        target,
        der.expose(),
        b"sealane session store certificate",
        b"sealane session store v1",
    );
}

/// Passes operations to the processes that hold keys.
pub trait KeyHolder: Send + Sync + fmt::Debug {
    /// Takes over an operation with the key that has this id, as
    /// [`Accelerator::submit`] does: it never waits, and every job ends.
    fn submit(&self, key: KeyId, route: Route, job: Job);
}

/// The holder of this process, once there is one.
pub(crate) type SharedHolder = Arc<OnceLock<Arc<dyn KeyHolder>>>;

/// Operations of one key in another process.
pub(crate) struct HeldKey {
    id: KeyId,
    route: Route,
    holder: SharedHolder,
    _lease: Option<KeyLease>,
}

impl HeldKey {
    /// Operations go to the holder of `state`. Without a state they fail.
    pub(crate) fn new(handle: &KeyHandle, state: Option<&HandshakeState>) -> Self {
        let holder = state.map(|state| state.holder().clone());
        Self {
            id: handle.id,
            route: handle.route,
            holder: holder.unwrap_or_default(),
            _lease: handle.lease.clone(),
        }
    }
}

impl Accelerator for HeldKey {
    fn name(&self) -> &'static str {
        match self.route.holder {
            HolderId::PROCESSOR => "key_process",
            _ => "device",
        }
    }

    fn submit(&self, job: Job) {
        match self.holder.get() {
            Some(holder) => holder.submit(self.id, self.route, job),
            // A master, which has no handshakes.
            None => job.complete(None),
        }
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

impl fmt::Debug for HeldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldKey({:?})", self.id)
    }
}

/// The key of a certificate.
#[derive(Debug)]
pub(crate) enum ServerKey {
    /// In this process.
    Here(PrivateKey),
    /// In another one; its public part is known from the certificate.
    Held { handle: KeyHandle, bits: u32 },
}

impl ServerKey {
    pub(crate) fn kind(&self) -> KeyKind {
        match self {
            Self::Here(key) => key.kind(),
            Self::Held { handle, .. } => handle.kind,
        }
    }

    pub(crate) fn bits(&self) -> u32 {
        match self {
            Self::Here(key) => key.bits(),
            Self::Held { bits, .. } => *bits,
        }
    }

    pub(crate) fn key_type(&self) -> KeyType {
        KeyType::new(self.kind(), self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;

    fn key() -> PrivateKey {
        let pair = KeyPair::generate().expect("a key");
        PrivateKey::from_pem(pair.serialize_pem().as_bytes(), &[]).expect("it is one")
    }

    #[test]
    fn a_handle_is_read_as_it_was_written() {
        let key = key();
        let mut handle = KeyHandle::of(&key).expect("an EC key");
        handle.route = Route {
            holder: HolderId(258),
            has_fallback: true,
            max_wait: Some(Duration::from_millis(1500)),
        };
        let bytes = handle.to_bytes();
        let again = KeyHandle::from_bytes(&bytes).expect("a handle");
        assert_eq!((again.id, again.kind), (handle.id, KeyKind::EcP256));
        assert_eq!(again.route, handle.route);
        assert!(again.store_secret.is_some() && again.store_secret == handle.store_secret);
        // Without a secret, which a key in a device may lack, it is shorter.
        let without_secret = bytes.len() - STORE_SECRET_BYTES;
        for length in 0..bytes.len() {
            let is_whole = length == without_secret;
            let read = KeyHandle::from_bytes(&bytes[..length]);
            assert_eq!(read.is_some(), is_whole, "{length}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(KeyHandle::from_bytes(&longer).is_none());
        assert!(KeyHandle::from_bytes(b"-----BEGIN PRIVATE KEY-----").is_none());
    }

    #[test]
    fn a_key_in_a_device_may_have_no_secret() {
        let key = key();
        let spki = key.public_key_der().expect("an EC key");
        let public = PublicKey::from_spki_der(&spki).expect("it is one");
        let handle = KeyHandle::of_device(&public, None).expect("an EC key");
        assert_eq!(handle.id, KeyId::of(&key).expect("an EC key"));
        let again = KeyHandle::from_bytes(&handle.to_bytes()).expect("a handle");
        assert!(again.store_secret.is_none());
        assert_eq!(again.route, Route::default());
    }

    #[test]
    fn keys_differ_by_their_public_parts() {
        let (one, other) = (key(), key());
        let id = |key| KeyId::of(key).expect("an EC key");
        assert_eq!(id(&one), id(&one));
        assert_ne!(id(&one), id(&other));
    }

    #[test]
    fn without_a_holder_an_operation_fails() {
        let held = HeldKey {
            id: KeyId([0; 32]),
            route: Route::default(),
            holder: SharedHolder::default(),
            _lease: None,
        };
        let (job, mut pending) =
            crate::accelerator::job(sealane_awslc::KeyOperation::Decrypt { input: Vec::new() });
        held.submit(job);
        assert!(matches!(pending.try_take(), Some(None)));
    }
}
