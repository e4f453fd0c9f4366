//! `proxy_ssl_certificate`: a certificate for servers that ask for one.

use sealane_awslc::{self as awslc, CertificateChain, sha256};

use super::build::library_error;
use crate::error::SettingsError;
use crate::identities::load_identity;
use crate::server_key::ServerKey;
use crate::settings::Identity;

/// A certificate chain with its key, ready for connections. Cloning shares it.
///
/// Reading a key takes tens of microseconds, or milliseconds if it is encrypted. If
/// `proxy_ssl_certificate` has variables, keep what was loaded (`proxy_ssl_certificate_cache`).
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    identity: awslc::ClientIdentity,
    fingerprint: [u8; 32],
}

impl ClientIdentity {
    /// Reads a chain and its key.
    ///
    /// # Errors
    ///
    /// In nginx's words, when they do not load or do not belong together.
    pub fn load(identity: &Identity) -> Result<Self, SettingsError> {
        let loaded = load_identity(identity)?;
        let ServerKey::Here(key) = &loaded.key else {
            return Err(SettingsError::new(format!(
                "cannot load certificate key \"{}\": the key process holds it, which computes for \
                 clients only",
                identity.key_label
            )));
        };
        Ok(Self {
            fingerprint: fingerprint(&loaded.chain)?,
            identity: awslc::ClientIdentity::new(&loaded.chain, key).map_err(library_error)?,
        })
    }

    pub(super) fn library(&self) -> &awslc::ClientIdentity {
        &self.identity
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
