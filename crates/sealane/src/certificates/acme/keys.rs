//! Private keys that are generated, requests for certificates, and certificates that sign
//! themselves.

use super::error::AcmeError;
use rcgen::string::Ia5String;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, RsaKeySize, SanType,
};
use sealane_conf::model::{AcmeIdentifier, AcmeKey};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// A private key in PEM. It is wiped when dropped, and not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct KeyPem(Zeroizing<String>);

impl KeyPem {
    pub(crate) fn new(pem: String) -> KeyPem {
        KeyPem(Zeroizing::new(pem))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for KeyPem {
    fn from(pem: String) -> KeyPem {
        KeyPem::new(pem)
    }
}

impl From<KeyPem> for String {
    fn from(pem: KeyPem) -> String {
        String::clone(&pem.0)
    }
}

impl fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPem(redacted)")
    }
}

/// Generates a key. With RSA this takes up to seconds.
///
/// # Errors
/// When the library cannot.
pub(super) fn generate(kind: AcmeKey) -> Result<KeyPem, AcmeError> {
    let pair = match kind {
        AcmeKey::P256 => rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        AcmeKey::P384 => rcgen::KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        AcmeKey::P521 => rcgen::KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
        AcmeKey::Rsa2048 => rsa(RsaKeySize::_2048),
        AcmeKey::Rsa3072 => rsa(RsaKeySize::_3072),
        AcmeKey::Rsa4096 => rsa(RsaKeySize::_4096),
    };
    let pair = pair.map_err(|_| AcmeError::Library("a key cannot be generated"))?;
    Ok(KeyPem::new(pair.serialize_pem()))
}

fn rsa(size: RsaKeySize) -> Result<rcgen::KeyPair, rcgen::Error> {
    rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)
}

/// A request for a certificate (RFC 2986) in DER, signed with its key.
///
/// # Errors
/// When the key cannot be used.
pub(super) fn request(
    key: &KeyPem,
    identifiers: &[AcmeIdentifier],
    with_common_name: bool,
) -> Result<Vec<u8>, AcmeError> {
    let failed = |_| AcmeError::Library("the certificate request cannot be made");
    let pair = rcgen::KeyPair::from_pem(&key.0).map_err(failed)?;
    let mut params = params(identifiers).map_err(failed)?;
    if with_common_name && let Some(first) = identifiers.first() {
        params
            .distinguished_name
            .push(DnType::CommonName, first.to_string());
    }
    let request = params.serialize_request(&pair).map_err(failed)?;
    Ok(request.der().to_vec())
}

/// A certificate that nobody has issued, with its key: PEM of both.
pub(super) struct SelfSigned {
    pub(super) chain_pem: String,
    pub(super) key: KeyPem,
}

/// What is served until the first certificate is there.
///
/// # Errors
/// When the library cannot make it.
pub(super) fn self_signed(identifiers: &[AcmeIdentifier]) -> Result<SelfSigned, AcmeError> {
    make(identifiers, |params| {
        let name = "no certificate yet";
        params.distinguished_name.push(DnType::CommonName, name);
    })
}

/// What answers TLS-ALPN-01 (RFC 8737 section 3): a certificate with the digest of the key
/// authorization.
///
/// # Errors
/// When the library cannot make it.
pub(super) fn challenge(
    identifier: &AcmeIdentifier,
    digest: &[u8; 32],
) -> Result<SelfSigned, AcmeError> {
    make(std::slice::from_ref(identifier), |params| {
        let extension = CustomExtension::new_acme_identifier(digest);
        params.custom_extensions.push(extension);
    })
}

fn make(
    identifiers: &[AcmeIdentifier],
    set: impl FnOnce(&mut CertificateParams),
) -> Result<SelfSigned, AcmeError> {
    let failed = |_| AcmeError::Library("a self-signed certificate cannot be made");
    let pair = rcgen::KeyPair::generate().map_err(failed)?;
    let mut params = params(identifiers).map_err(failed)?;
    set(&mut params);
    let certificate = params.self_signed(&pair).map_err(failed)?;
    Ok(SelfSigned {
        chain_pem: certificate.pem(),
        key: KeyPem::new(pair.serialize_pem()),
    })
}

fn params(identifiers: &[AcmeIdentifier]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = |identifier: &AcmeIdentifier| {
        Ok(match identifier {
            AcmeIdentifier::Dns(name) => SanType::DnsName(Ia5String::try_from(name.as_str())?),
            AcmeIdentifier::Ip(address) => SanType::IpAddress(*address),
        })
    };
    let names: Result<_, rcgen::Error> = identifiers.iter().map(name).collect();
    params.subject_alt_names = names?;
    Ok(params)
}
