//! `proxy_ssl_certificate`: a certificate for servers that ask for one.

use std::sync::Arc;

use sealane_awslc::{self as awslc, CertificateChain, sha256};

use super::build::library_error;
use crate::accelerator::Accelerator;
use crate::error::SettingsError;
use crate::identities::load_identity;
use crate::offload::HandshakeState;
use crate::server_key::{HeldKey, KeyLease, ServerKey};
use crate::settings::Identity;

/// A certificate chain with its key, ready for connections. Cloning shares it.
///
/// Reading a key takes tens of microseconds, or milliseconds if it is encrypted. If
/// `proxy_ssl_certificate` has variables, keep what was loaded (`proxy_ssl_certificate_cache`).
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    identity: awslc::ClientIdentity,
    fingerprint: [u8; 32],
    /// Its key, if another process holds it.
    key: Option<Arc<dyn Accelerator>>,
}

impl ClientIdentity {
    /// Reads a chain and its key. If that is a [`KeyHandle`](crate::KeyHandle), operations go to
    /// the [`KeyHolder`](crate::KeyHolder) of `handshakes`.
    ///
    /// # Errors
    ///
    /// In nginx's words, when they do not load or do not belong together.
    pub fn load(
        identity: &Identity,
        handshakes: Option<&HandshakeState>,
    ) -> Result<Self, SettingsError> {
        Self::load_leased(identity, None, handshakes)
    }

    /// The same, where another process holds the key for as long as there is this lease.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_leased(
        identity: &Identity,
        lease: Option<KeyLease>,
        handshakes: Option<&HandshakeState>,
    ) -> Result<Self, SettingsError> {
        let loaded = load_identity(identity, lease)?;
        let (identity, key) = match &loaded.key {
            ServerKey::Here(key) => (awslc::ClientIdentity::new(&loaded.chain, key), None),
            ServerKey::Held { handle, .. } => {
                let key: Arc<dyn Accelerator> = Arc::new(HeldKey::new(handle, handshakes));
                (awslc::ClientIdentity::without_key(&loaded.chain), Some(key))
            }
        };
        Ok(Self {
            fingerprint: fingerprint(&loaded.chain)?,
            identity: identity.map_err(library_error)?,
            key,
        })
    }

    pub(super) fn library(&self) -> &awslc::ClientIdentity {
        &self.identity
    }

    /// What computes with its key, if another process holds it.
    pub(super) fn key(&self) -> Option<&Arc<dyn Accelerator>> {
        self.key.as_ref()
    }

    /// The certificates that sessions are bound to; they identify the key as well.
    pub(super) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

fn fingerprint(chain: &CertificateChain) -> Result<[u8; 32], SettingsError> {
    let mut hashes = Vec::with_capacity(32 * chain.certificates().len());
    for certificate in chain.certificates() {
        hashes.extend_from_slice(&sha256(&certificate.to_der().map_err(library_error)?));
    }
    Ok(sha256(&hashes))
}
