//! A server's private key: in this process, or in the one that holds the keys (`ssl_key_process`).
//!
//! Where a key process has a key, everybody else has a [`KeyHandle`] in place of the key's file:
//! whoever reads a certificate and its key gets by with it, and operations go to the
//! [`KeyHolder`] of the process.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sealane_awslc::{Certificate, KeyKind, PrivateKey, Secret, hkdf_sha256, sha256};
use zeroize::Zeroizing;

use crate::accelerator::{Accelerator, Job, KeyType};

/// What no key file begins with.
const MAGIC: &[u8; 16] = b"\0sealane key 01\n";

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

/// Stands for a key that another process holds.
#[derive(Clone)]
pub struct KeyHandle {
    /// Which key.
    pub id: KeyId,
    /// Its kind.
    pub kind: KeyKind,
    /// What the key of a session store is derived from. It is derived from the private key, which
    /// cannot be found from it.
    pub(crate) store_secret: Zeroizing<[u8; STORE_SECRET_BYTES]>,
}

impl KeyHandle {
    /// Of a key, by whoever holds it.
    ///
    /// # Errors
    ///
    /// When libcrypto cannot encode the key.
    pub fn of(key: &PrivateKey) -> Result<Self, sealane_awslc::Error> {
        let mut store_secret = Zeroizing::new([0; STORE_SECRET_BYTES]);
        derive_store_secret(&key.to_der()?, &mut store_secret);
        Ok(Self {
            id: KeyId::of(key)?,
            kind: key.kind(),
            store_secret,
        })
    }

    /// As the content of a file.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let kind = [kind.map_or(u8::MAX, |kind| kind as u8)];
        let parts: [&[u8]; 4] = [MAGIC, &self.id.0, &kind, &*self.store_secret];
        Zeroizing::new(parts.concat())
    }

    /// `None` for anything but a handle.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (id, rest) = rest.split_first_chunk()?;
        let (kind, store_secret) = rest.split_first()?;
        Some(Self {
            id: KeyId(*id),
            kind: *KINDS.get(usize::from(*kind))?,
            store_secret: Zeroizing::new(store_secret.try_into().ok()?),
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

/// Passes operations to the process that holds the keys.
pub trait KeyHolder: Send + Sync + fmt::Debug {
    /// Takes over an operation with the key that has this id, as
    /// [`Accelerator::submit`] does: it never waits, and every job ends.
    fn submit(&self, key: KeyId, job: Job);
}

/// The holder of this process, once there is one.
pub(crate) type SharedHolder = Arc<OnceLock<Arc<dyn KeyHolder>>>;

/// Operations of one key in another process.
pub(crate) struct HeldKey {
    pub(crate) id: KeyId,
    pub(crate) holder: SharedHolder,
}

impl Accelerator for HeldKey {
    fn name(&self) -> &'static str {
        "key_process"
    }

    fn submit(&self, job: Job) {
        match self.holder.get() {
            Some(holder) => holder.submit(self.id, job),
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
        let handle = KeyHandle::of(&key).expect("an EC key");
        let bytes = handle.to_bytes();
        let again = KeyHandle::from_bytes(&bytes).expect("a handle");
        assert_eq!((again.id, again.kind), (handle.id, KeyKind::EcP256));
        assert_eq!(*again.store_secret, *handle.store_secret);
        for length in 0..bytes.len() {
            assert!(
                KeyHandle::from_bytes(&bytes[..length]).is_none(),
                "{length}"
            );
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(KeyHandle::from_bytes(&longer).is_none());
        assert!(KeyHandle::from_bytes(b"-----BEGIN PRIVATE KEY-----").is_none());
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
            holder: SharedHolder::default(),
        };
        let (job, mut pending) =
            crate::accelerator::job(sealane_awslc::KeyOperation::Decrypt { input: Vec::new() });
        held.submit(job);
        assert!(matches!(pending.try_take(), Some(None)));
    }
}
